"""What the agents' host is told from the log, however it fares there."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_taskmem.daemon.notifier import RETRY_PERIODS, VIEW_DELAY, Notifier
from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.wakes.notices import COALESCING_TIME
from openclaw_taskmem.engine import notifications
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.notifications import NotificationKind
from taskmem_hookspecs import (
    Change,
    Event,
    EventQuery,
    Notice,
    Owner,
    SessionView,
    StoreBusy,
    StoreUnavailable,
    WakeRefused,
    WakeUndelivered,
)
from tests.daemon.looped import Gateway, inline, run_loops
from tests.support.sessions import MAIN, Session
from tests.support.world import PERSON, PLAN, World

DEV = "agent:dev:main"
ACCEPTED = "accepted, 4 steps."
BEGUN = "accepted and started, 4 steps."
ABOUT = ["x", "question", "step"]
LATE = RETRY_PERIODS[NotificationKind.LINES].total_seconds()


class Host:
    """Shows lines and stops turns, but in sessions that are away."""

    def __init__(self) -> None:
        self.away: set[str | None] = set()
        self.hangs: set[str | None] = set()
        self.refuses: set[str | None] = set()
        self.asked: list[Notice] = []
        self.said: list[tuple[str | None, str]] = []
        self.keys: list[str] = []
        self.without_card: list[str] = []
        self.views: list[SessionView] = []
        self.stopped: list[tuple[str, float]] = []

    async def say(self, notice: Notice) -> None:
        self.asked.append(notice)
        await self._there(notice.session_key)
        begins = "Deploy: "
        texts = [line.removeprefix(begins) for line in notice.text.splitlines()]
        self.said.append((notice.session_key, " | ".join(texts)))
        self.keys.append(notice.key)
        self.without_card.append(notice.without_card)

    async def show(self, view: SessionView) -> None:
        await self._there(view.session_key)
        self.views.append(view)

    async def stop(self, session_key: str, age: float) -> None:
        await self._there(session_key)
        self.stopped.append((session_key, age))

    async def _there(self, session_key: str | None) -> None:
        if session_key in self.hangs:
            await asyncio.Event().wait()
        if session_key in self.refuses:
            raise WakeRefused("There is no such session.")
        if session_key in self.away:
            raise WakeUndelivered("The plug-in could not: missing scope.")


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def main(world: World) -> Session:
    notifications.set_start_positions(world.context)
    return Session(world)


@pytest.fixture
def dev(world: World) -> Session:
    return Session(world, key=DEV, role="dev")


def notifier(
    world: World, host: Host, outgoing: NotificationKind = NotificationKind.LINES
) -> Notifier:
    return Notifier(world.context, (host,), inline, outgoing)


def start_work(session: Session) -> str:
    session.begins()
    return session.register()


async def run_passes(world: World, notifier: Notifier, seconds: float = 0) -> None:
    """Let it tell all there is, and try again for so long."""
    ends = world.clock.now().timestamp() + max(seconds, COALESCING_TIME.total_seconds())
    while (due := await notifier.run_pass()) is not None:
        if due.timestamp() > ends:
            return
        # Less than a microsecond is left where the wall says that it is due.
        world.clock.tick(max((due - world.clock.now()).total_seconds(), 0.001))


async def test_a_session_hears_its_lines_in_order_and_once(
    world: World, main: Session, host: Host
) -> None:
    start_work(main)
    main.does("echo one")
    told = notifier(world, host)

    await told.run_pass()
    assert host.said == []

    await run_passes(world, told)
    await run_passes(world, told)
    assert host.said == [(MAIN, BEGUN)]


async def test_each_session_hears_from_the_first_host_that_reaches_it(
    world: World, main: Session, host: Host
) -> None:
    asked: set[tuple[str | None, str | None]] = set()

    class Other(Host):
        def reaches(self, host: str | None, session_key: str | None) -> bool:
            asked.add((host, session_key))
            return session_key == DEV

    class Broken(Host):
        def reaches(self, host: str | None, session_key: str | None) -> bool:
            raise RuntimeError

    other = Other()
    dev = Session(world, key=DEV, role="dev")
    for session in (main, dev):
        session.begins()
        caller = session.caller.model_copy(update={"host": "openclaw"})
        world.call("task_register", caller, name="Deploy", plan=PLAN)
    for kind in NotificationKind:
        hosts = (Broken(), other, host)
        await run_passes(world, Notifier(world.context, hosts, inline, kind))
        await run_passes(world, Notifier(world.context, hosts[:1], inline, kind))

    assert asked == {("openclaw", MAIN), ("openclaw", DEV)}
    assert (host.said, other.said) == ([(MAIN, ACCEPTED)], [(DEV, ACCEPTED)])
    assert {view.session_key for view in host.views} == {MAIN}
    assert {view.session_key for view in other.views} == {DEV}


async def test_main_session_hears_of_unclaimed_task_without_session(
    world: World, host: Host
) -> None:
    notifications.set_start_positions(world.context)
    worker = Caller(process="7:9", owner=Owner(role="agent", process="7:9"))
    task = world.register()
    world.call("task_claim", worker, task_id=task)
    world.call("task_handoff", worker, task_id=task, to="reviewer")
    world.pass_time(300)

    await run_passes(world, notifier(world, host))

    [(session, line)] = host.said
    assert session is None
    assert "nobody has claimed it for 5 minutes" in line


async def test_undeliverable_line_delays_only_its_own_session(
    world: World, main: Session, dev: Session, host: Host
) -> None:
    for session in (main, dev):
        start_work(session)
        session.does("echo one")
    host.away = {MAIN}
    told = notifier(world, host)

    await run_passes(world, told, 60)
    assert host.said == [(DEV, BEGUN)]

    host.away = set()
    await run_passes(world, told, 60)
    assert host.said[1:] == [(MAIN, BEGUN)]


async def test_lines_beyond_the_first_batch_are_not_held_up_either(
    world: World, main: Session, dev: Session, host: Host
) -> None:
    start_work(main)
    for _ in range(notifications.BATCH):
        world.narrate(world.register())
    start_work(dev)
    host.away = {MAIN}

    await run_passes(world, notifier(world, host))

    assert host.said == [(DEV, ACCEPTED)]


async def test_herald_finds_message_lines_however_far_apart(
    world: World, main: Session, host: Host
) -> None:
    start_work(main)
    other = world.register()
    for _ in range(notifications.BATCH):
        world.narrate(other)
    main.does("echo one")
    world.clock.tick(60)

    await run_passes(world, notifier(world, host))

    assert host.said == [(MAIN, BEGUN)]


async def test_herald_gives_up_a_long_undeliverable_line_and_logs_it(
    world: World, main: Session, host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    start_work(main)
    main.does("echo one")
    host.away = {MAIN}
    told = notifier(world, host)

    await run_passes(world, told, LATE - 60)
    assert not caplog.records
    with caplog.at_level(logging.WARNING):
        await run_passes(world, told, 120)

    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    assert "milestone" in caplog.text
    assert await told.run_pass() is None

    host.away = set()
    main.call("task_cancel", task_id=start_work(main))
    await run_passes(world, told)
    assert host.said == [(MAIN, "cancelled.")]


@pytest.mark.parametrize("jumped", [-3600, 3600])
async def test_clock_jump_does_not_change_when_a_line_is_given_up(
    world: World, main: Session, host: Host, jumped: int, caplog: pytest.LogCaptureFixture
) -> None:
    start_work(main)
    world.clock.jump(jumped)
    main.does("echo one")
    host.away = {MAIN}
    told = notifier(world, host)

    await run_passes(world, told, LATE - 60)
    world.clock.jump(jumped)
    await run_passes(world, told)
    assert not caplog.records
    await run_passes(world, told, 120)

    given_up = [record.args[0] for record in caplog.records if record.args]
    assert given_up == [
        event.event_id for event in world.store.find_events(EventQuery()) if "line" in event.data
    ]
    assert await told.run_pass() is None


async def test_line_older_than_the_daemon_is_tried_as_long_as_others(
    world: World, main: Session, host: Host
) -> None:
    start_work(main)
    world.clock.tick(LATE * 2)
    host.away = {MAIN}
    told = notifier(world, host)

    await run_passes(world, told, LATE - 60)
    host.away = set()
    await run_passes(world, told, 60)

    assert host.said == [(MAIN, ACCEPTED)]


async def test_retried_message_stays_the_same_although_lines_come_late(
    world: World, main: Session, host: Host
) -> None:
    task = start_work(main)
    begun = world.clock.now()
    host.away = {MAIN}
    told = notifier(world, host)
    await run_passes(world, told)
    # It was decided before the message was complete, and committed after that.
    [accepted] = [e for e in world.store.find_events(EventQuery(task_id=task)) if "line" in e.data]
    late = accepted.model_copy(update={"at": begun + timedelta(seconds=4)})
    late = late.model_copy(update={"data": {**late.data, "line": "Deploy: late."}})
    world.context.commit(Change(events=(late,)))
    host.away = set()

    await run_passes(world, told, 60)

    assert host.said == [(MAIN, ACCEPTED), (MAIN, "late.")]


async def test_after_a_restart_a_message_has_the_key_that_it_had(
    world: World, main: Session, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_work(main)
    main.does("echo one")
    with monkeypatch.context() as patch:
        patch.setattr(notifications, "save_position", lambda *_: None)
        await run_passes(world, notifier(world, host))

    world.clock.tick(30)
    await run_passes(world, notifier(world, host))

    assert host.said == [(MAIN, BEGUN)] * 2
    assert len(host.keys) == 2
    assert len({*host.keys}) == 1


async def test_after_restart_no_message_begins_inside_another(
    world: World, main: Session, dev: Session, host: Host
) -> None:
    start_work(main)
    start_work(dev)
    main.does("echo one")
    host.away = {DEV}
    await run_passes(world, notifier(world, host))
    host.away = set()

    await run_passes(world, notifier(world, host))

    told = dict(zip(host.keys, host.said, strict=True))
    assert [*told.values()] == [(MAIN, BEGUN), (DEV, ACCEPTED)]


async def test_no_other_log_has_the_keys_of_this_one(
    world: World, main: Session, host: Host
) -> None:
    another = World()
    another.clock.tick(0.1)
    for there in (world, another):
        notifications.set_start_positions(there.context)
        start_work(Session(there))
        await run_passes(there, notifier(there, host))

    assert len({*host.keys}) == len(host.keys) == 2


async def test_what_is_refused_is_not_told_again(world: World, main: Session, host: Host) -> None:
    start_work(main)
    host.refuses = {MAIN}
    told = notifier(world, host)

    await run_passes(world, told)
    host.refuses = set()
    await run_passes(world, told)

    assert host.said == []


async def test_after_a_restart_only_what_was_not_told_is_told(
    world: World, main: Session, dev: Session, host: Host
) -> None:
    start_work(main)
    start_work(dev)
    host.away = {DEV}
    await run_passes(world, notifier(world, host))
    assert host.said == [(MAIN, ACCEPTED)]

    host.away = set()
    await run_passes(world, notifier(world, host))

    assert host.said == [(MAIN, ACCEPTED), (DEV, ACCEPTED)]


async def test_a_line_is_told_once_although_the_store_is_busy_then(
    world: World, main: Session, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(_: object) -> None:
        raise StoreBusy("locked")

    start_work(main)
    told = notifier(world, host)
    with monkeypatch.context() as patch:
        patch.setattr(world.store, "commit", busy)
        with pytest.raises(StoreBusy):
            await told.run_pass()

    await run_passes(world, told)
    await run_passes(world, notifier(world, host))

    assert host.said == [(MAIN, ACCEPTED)]


async def test_question_and_card_wait_until_the_store_can_be_read(
    world: World, main: Session, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_to_read(*_: object) -> None:
        raise StoreUnavailable("The database restarts.")

    task = start_work(main)
    told = [
        notifier(world, host, each) for each in (NotificationKind.LINES, NotificationKind.VIEWS)
    ]
    for each in told:
        await run_passes(world, each)
    main.call("task_update", task_id=task, ask="Is it the red one?")
    with monkeypatch.context() as patch:
        for read in ("build_session_notice", "build_session_view"):
            patch.setattr(notifications, read, refuse_to_read)
        for each in told:
            await run_passes(world, each)
    before = len(host.views)

    for each in told:
        await run_passes(world, each, 60)

    assert "Is it the red one?" in host.said[-1][1]
    assert [bool(view.questions) for view in host.views[before:]] == [True]


async def test_a_stop_is_told_with_how_long_ago_it_was_wanted(
    world: World, main: Session, host: Host
) -> None:
    world.call("task_reset", PERSON, task_id=start_work(main))
    world.clock.tick(7)
    host.away = {MAIN}
    told = notifier(world, host, NotificationKind.STOPS)
    await told.run_pass()
    world.clock.tick(30)
    host.away = set()

    await run_passes(world, told)

    assert host.stopped == [(MAIN, 37.0)]
    assert host.said == []


@pytest.mark.parametrize("jumped", [-30, -120, 8 * 3600])
async def test_clock_jump_does_not_change_the_age_of_a_stop(
    world: World, main: Session, host: Host, jumped: int
) -> None:
    world.call("task_reset", PERSON, task_id=start_work(main))
    host.away = {MAIN}
    told = notifier(world, host, NotificationKind.STOPS)
    await told.run_pass()
    world.clock.tick(60)
    world.clock.jump(jumped)
    host.away = set()

    await run_passes(world, told)

    assert host.stopped == [(MAIN, 60.0)]


async def test_stop_of_unknown_age_is_not_sent_and_is_logged_once(
    world: World, main: Session, host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    world.call("task_reset", PERSON, task_id=start_work(main))
    world.clock.jump(-1)

    with caplog.at_level(logging.INFO):
        await run_passes(world, notifier(world, host, NotificationKind.STOPS))
        await run_passes(world, notifier(world, host, NotificationKind.STOPS))

    assert host.stopped == []
    assert caplog.text.count("the clock went back") == 1


async def test_a_stop_of_one_session_does_not_wait_for_anothers(
    world: World, main: Session, dev: Session, host: Host
) -> None:
    for session in (main, dev):
        world.call("task_reset", PERSON, task_id=start_work(session))
    host.away = {MAIN}

    await run_passes(world, notifier(world, host, NotificationKind.STOPS), 60)

    assert host.stopped == [(DEV, 0.0)]


@pytest.mark.parametrize("how", ["away", "hangs"])
async def test_a_turn_is_stopped_at_once_whatever_becomes_of_lines(how: str, host: Host) -> None:
    world = World()
    main, dev = Session(world), Session(world, key=DEV, role="dev")
    setattr(host, how, {MAIN})
    gateway: Any = Gateway(world.clock)
    async with run_loops(world, gateway, host=host):
        start_work(main)
        task = start_work(dev)
        await world.clock.advance(1)
        world.call("task_cancel", PERSON, task_id=task)
        await world.clock.advance(0)

        assert [session for session, _ in host.stopped] == [DEV]


async def test_of_what_a_user_is_to_see_the_newest_alone_is_shown(
    world: World, main: Session, dev: Session, host: Host
) -> None:
    task = start_work(main)
    start_work(dev)
    host.away = {MAIN}
    shows = notifier(world, host, NotificationKind.VIEWS)
    await run_passes(world, shows, 60)
    main.call("task_update", task_id=task, completed_steps=[1])
    assert [view.session_key for view in host.views] == [DEV]

    host.away = set()
    await run_passes(world, shows, 60)
    [_, view] = host.views
    assert view.card is not None
    assert [step.status for step in view.card.plan][:2] == ["completed", "in_progress"]

    await run_passes(world, shows, 60)
    assert len(host.views) == 2


async def test_changes_that_come_together_are_shown_as_one(
    world: World, main: Session, host: Host
) -> None:
    shows = notifier(world, host, NotificationKind.VIEWS)
    task = start_work(main)
    main.call("task_update", task_id=task, completed_steps=[1])
    due = await shows.run_pass()
    assert (due, host.views) == (world.clock.now() + VIEW_DELAY, [])

    await run_passes(world, shows)
    assert len(host.views) == 1


async def test_view_changes_are_read_together_half_a_second_later(
    monkeypatch: pytest.MonkeyPatch, host: Host
) -> None:
    world, read, find_due_events = World(), [], notifications.find_due_events

    def note_read(context: Context, outgoing: NotificationKind, after: int) -> Any:
        read.append(outgoing)
        return find_due_events(context, outgoing, after)

    gateway: Any = Gateway(world.clock)
    async with run_loops(world, gateway, longest=3600, host=host):
        main = Session(world)
        task = start_work(main)
        await world.clock.advance(COALESCING_TIME.total_seconds())
        monkeypatch.setattr(notifications, "find_due_events", note_read)
        views = len(host.views)
        for _ in range(3):
            main.call("task_update", task_id=task, message="On it.")
            await world.clock.advance(0.1)
        assert read == []
        await world.clock.advance(VIEW_DELAY.total_seconds())

        assert {*read} == {NotificationKind.VIEWS}
        assert len(host.views) == views + 1


class Moody(Host):
    """Shows what has a key once; now and then it fails, before or after that."""

    def __init__(self, chance: Random) -> None:
        super().__init__()
        self.chance = chance
        self.shown: dict[str, str] = {}

    async def say(self, notice: Notice) -> None:
        mood = self.chance.random()
        if mood < 0.3:
            raise WakeUndelivered("The channel is away.")
        if notice.key not in self.shown:
            self.shown[notice.key] = notice.text
            self.said += [(notice.session_key, n) for n in notice.text.splitlines()]
        if mood < 0.5:
            raise WakeUndelivered("What became of it is not known.")


@given(seed=st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_nothing_is_lost_doubled_or_out_of_order_whatever_fails(seed: int) -> None:
    chance = Random(seed)  # noqa: S311 - no secret
    world, host = World(), Moody(chance)
    notifications.set_start_positions(world.context)
    lines: dict[str | None, list[str]] = {f"agent:main:{n}": [] for n in range(4)}
    session_keys = [*lines]

    async def scenario() -> None:
        told = notifier(world, host)
        for number in range(60):
            key, about = chance.choice(session_keys), chance.choice(ABOUT)
            lines[key] += [f"Line {number}."] if about != "step" else []
            data = {"about": about, "session_key": key, "line": f"Line {number}."}
            event = Event(at=world.clock.now(), kind=events.NOTICE, data=data)
            world.context.commit(Change(events=(event,)))
            world.clock.tick(chance.uniform(0, 3))
            if chance.random() < 0.4:
                await told.run_pass()
            if chance.random() < 0.2:
                told = notifier(world, host)  # the daemon was killed
        await run_passes(world, told, 3_600)

    asyncio.run(scenario())

    for key, expected in lines.items():
        assert [line for session, line in host.said if session == key] == expected


async def test_what_a_card_would_show_is_told_at_most_once_a_minute(
    world: World, host: Host, main: Session
) -> None:
    teller, task = notifier(world, host), start_work(main)
    for step in (1, 2, 3):
        main.call("task_update", task_id=task, completed_steps=[step])
        await run_passes(world, teller)
        world.clock.tick(25)

    first, third = 'Deploy: 1 of 4 steps done: "Build the image".', "3 of 4 steps done"
    assert [text for _, text in host.said] == [ACCEPTED, ""]
    assert host.without_card[0].splitlines()[-1] == first
    assert third in host.without_card[1]


async def test_message_keeps_its_key_with_or_without_its_steps(
    world: World, main: Session, host: Host
) -> None:
    def note(about: str) -> None:
        data = {"about": about, "session_key": MAIN, "line": f"{about}."}
        event = Event(at=world.clock.now(), kind=events.NOTICE, data=data)
        world.context.commit(Change(events=(event,)))

    told = notifier(world, host)
    note("step")
    await run_passes(world, told)
    host.away = {MAIN}
    for about in ("step", "refused"):
        note(about)
    await run_passes(world, told)
    world.clock.tick(60)
    host.away = set()
    await run_passes(world, told, 60)

    _, first, *_, last = host.asked
    assert (first.text, first.without_card) == ("refused.", "")
    assert (last.text, last.without_card) == ("refused.", "step.\nrefused.")
    assert {each.key for each in host.asked[1:]} == {last.key}
