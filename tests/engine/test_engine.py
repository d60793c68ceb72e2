from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from openclaw_taskmem.domain.policies import StuckPolicy
from openclaw_taskmem.domain.reader_budget import WAITS_BOOKMARK
from openclaw_taskmem.domain.wakes import notices, packet
from openclaw_taskmem.domain.wakes.outbox import Hold
from openclaw_taskmem.engine import notifications, run_recovery, stuck, waits, wakes
from openclaw_taskmem.engine.context import new_id
from openclaw_taskmem.engine.overview import read_database_faults
from taskmem_hookspecs import (
    Bookmark,
    Change,
    Conflict,
    EventQuery,
    InvalidArguments,
    QueryFacts,
    StoreBusy,
    TaskFacts,
    TaskQuery,
    TaskStatus,
    WaitQuery,
    WaitStatus,
    Wake,
    WakeCause,
    WakeState,
    hookimpl,
)
from taskmem_hookspecs.doctor import TRIAL
from taskmem_hookspecs.errors import TaskNotFound
from taskmem_hookspecs.testing import DAWN
from tests.support.memory_store import MemoryStore
from tests.support.world import PERSON, World, packet_of

THRESHOLD = 300


def test_eight_agents_at_once_lose_no_message_and_no_mark(real_world: World) -> None:
    task = real_world.register(plan=[f"Step {i}" for i in range(8)])

    def narrate(number: int) -> None:
        for i in range(5):
            real_world.narrate(task, f"Step {number} done, look {i}")

    threads = [threading.Thread(target=narrate, args=(i + 1,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(real_world.thread(task)) == 40
    assert real_world.task(task).message_count == 40
    assert real_world.task(task).done == set(range(8))


def test_twenty_waits_opened_at_once_are_all_linked(real_world: World) -> None:
    task = real_world.register()
    threads = [threading.Thread(target=real_world.open_wait, args=(task,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(real_world.task(task).linkage.active_wait_ids) == 8
    for wait in real_world.store.find_waits(WaitQuery(task_id=task)):
        real_world.end_wait(wait)
    assert real_world.task(task).linkage.active_wait_ids == ()


def test_a_person_who_acts_moves_the_task_and_answers_for_nobody(world: World) -> None:
    task = world.register(session_key="agent:main:main")
    world.pass_time(THRESHOLD)

    world.call("task_update", PERSON, task_id=task, message="I looked")
    assert [w.state for w in world.wakes()] == ["sent"]

    world.call("task_update", task_id=task, query="where am I?")
    assert [w.state for w in world.wakes()] == ["acknowledged"]


def test_a_question_acknowledges_and_touches_nothing(world: World) -> None:
    task = world.register()
    world.pass_time(THRESHOLD)
    before = world.task(task)

    world.call("task_update", task_id=task, query="where am I?")

    assert world.task(task) == before
    assert [w.state for w in world.wakes()] == ["acknowledged"]


def test_a_task_with_broken_facts_keeps_no_other_from_its_alert(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = world.register("bad"), world.register("good")
    read = world.store.read_task

    def read_broken_task(task_id: str) -> TaskFacts:
        if task_id == bad:
            raise ValueError("nonsense in the row")
        return read(task_id)

    monkeypatch.setattr(world.context.store, "read_task", read_broken_task)
    world.clock.tick(THRESHOLD)
    world.sweep()

    assert [wake.task_id for wake in world.wakes()] == [good]


def test_busy_store_stops_the_sweep_and_the_next_one_catches_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = world.register()
    world.clock.tick(THRESHOLD)
    with monkeypatch.context() as patch:

        def busy(_change: Change) -> None:
            raise StoreBusy("locked")

        patch.setattr(world.store, "commit", busy)
        with pytest.raises(StoreBusy):
            world.sweep()
    world.sweep()

    assert [wake.task_id for wake in world.wakes()] == [task]


def test_three_timeouts_of_one_wait_raise_the_urgency(world: World) -> None:
    task = world.register()
    wait = world.open_wait(task)
    for _ in range(2):
        world.end_wait(wait, WaitStatus.TIMEOUT)
        world.call("wait_update", wait_id=wait.wait_id)
        wait = world.store.read_wait(wait.wait_id)
    world.end_wait(wait, WaitStatus.TIMEOUT)

    world.clock.tick(THRESHOLD)
    world.sweep()

    (alert,) = [w for w in world.wakes() if w.cause is WakeCause.STUCK]
    assert alert.urgent
    reason = packet_of(alert.text)["reason"]
    assert reason.endswith("; the last 3 waits ended without success")


def test_long_undelivered_alert_is_updated_before_it_is_sent(world: World) -> None:
    task = world.register()
    world.clock.tick(THRESHOLD)
    world.sweep()
    for _ in range(30):
        for delivery in world.claim():
            wakes.settle_failed(world.context, delivery, "gateway down")
        world.clock.tick(60)
        world.sweep()

    (owed,) = world.wakes(WakeState.DUE)
    assert owed.key == f"stuck:{task}:1"
    assert owed.last_error == "gateway down"
    assert "no updates for 3" in packet_of(owed.text)["reason"]
    world.clock.tick(600)
    (sent,) = world.deliver()
    assert sent.wake_id == owed.wake_id
    assert world.task(task).last_stuck_alert_at == world.clock.now()
    assert len([line for line in world.thread(task) if line[1] == "stuck"]) == 1


class DamagedStore(MemoryStore):
    """A store that is asked meanwhile, by another person, while it looks for damage."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0
        self.meanwhile: list[Callable[[], object]] = []

    def find_damage(self, seconds: float) -> str:
        self.looks += 1
        assert seconds < 1
        if self.meanwhile:
            self.meanwhile.pop()()
        return "It is damaged."


def test_damage_is_looked_for_once_a_minute_at_most() -> None:
    store = DamagedStore()
    world = World(store)
    store.meanwhile.append(lambda: read_database_faults(world.context))

    for seconds, looks in ((0, 1), (59, 1), (1, 2)):
        world.clock.tick(seconds)
        assert read_database_faults(world.context) == "It is damaged."
        assert store.looks == looks


def test_two_daemons_on_one_store_send_one_message() -> None:
    store = MemoryStore()
    first = World(store)
    second = World(store, first.clock)
    first.register()
    first.clock.tick(THRESHOLD)
    first.sweep()
    second.sweep()

    claimed = [*first.claim(), *second.claim()]

    assert len(claimed) == 1
    assert len(first.wakes()) == 1


def test_two_daemons_that_look_at_the_same_instant_alert_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.register()
    world.clock.tick(THRESHOLD)
    other = World(world.store, world.clock)
    other._numbers = iter(range(500, 600))
    commit = world.store.commit
    overtaken: list[int] = []

    def late(change: Change) -> None:
        if not overtaken:
            overtaken.append(1)
            other.sweep()
        commit(change)

    monkeypatch.setattr(world.store, "commit", late)
    world.sweep()

    assert len(world.wakes()) == 1


def test_two_daemons_claiming_at_once_send_one_message(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.register()
    world.clock.tick(THRESHOLD)
    world.sweep()
    other = World(world.store, world.clock)
    commit = world.store.commit
    claimed: list[Any] = []

    def late(change: Change) -> None:
        if not claimed:
            claimed.append(None)
            claimed.extend(other.claim())
        commit(change)

    monkeypatch.setattr(world.store, "commit", late)
    assert world.claim() == []
    assert len(claimed[1:]) == 1


def test_secrets_on_screens_or_in_errors_never_reach_the_store(world: World) -> None:
    token = "ghp_" + "a1B2" * 9
    task = world.register()
    world.end_wait(world.open_wait(task), observation=f"$ echo {token}")
    (delivery,) = world.claim()
    wakes.settle_failed(world.context, delivery, f"refused: {token}")

    kept = (
        world.thread(task),
        world.wakes(),
        world.store.find_waits(WaitQuery()),
        world.store.find_events(EventQuery()),
    )
    assert "[secret removed]" in repr(kept)
    assert token not in repr(kept)


def test_only_the_doctors_trial_wait_can_be_removed_entirely(world: World) -> None:
    def open_wait(session: str) -> str:
        answer = world.call("smart_wait", target="pty:x", wake_when="exits", session_key=session)
        return str(answer["wait_id"])

    empty = world.store.count()
    trial, own = f"agent:main:{TRIAL}1a", f"agent:{TRIAL}1a:main"
    wait_id = open_wait(trial)
    with pytest.raises(InvalidArguments, match="has ended"):
        waits.forget_trial(world.context, wait_id)
    world.end_wait(world.store.read_wait(wait_id))
    (message,) = world.deliver()
    assert message.session_key == trial
    words = notices.build_last_words(None, trial, "OK", world.clock.now())
    world.context.commit(Change(events=(words,)))

    waits.forget_trial(world.context, wait_id)

    assert world.store.count() == empty
    other = open_wait(own)
    world.end_wait(world.store.read_wait(other))
    with pytest.raises(InvalidArguments, match="none of the doctor's"):
        waits.forget_trial(world.context, other)
    kinds = [each.kind for each in world.store.find_events(EventQuery())]
    assert kinds == ["wait_opened", "notice", "wait_ended"]


def test_unsettled_claim_of_a_wake_is_due_again_after_its_lease(world: World) -> None:
    world.register()
    world.clock.tick(THRESHOLD)
    world.sweep()
    assert len(world.claim()) == 1

    world.clock.tick(world.context.policies.outbox.claim_seconds - 1)
    assert world.claim() == []
    world.clock.tick(1)
    (again,) = world.claim()
    assert again.message.attempts == 2


def test_agent_acting_while_an_alert_is_sent_gets_no_other_alert(world: World) -> None:
    task = world.register()
    world.clock.tick(THRESHOLD)
    world.sweep()
    (delivery,) = world.claim()
    world.narrate(task)

    wakes.settle_delivered(world.context, delivery, "test")

    assert [w.state for w in world.wakes()] == ["acknowledged"]


def test_what_failed_is_told_with_what_comes_later_and_before_it(world: World) -> None:
    task = world.register(session_key="session-1")
    world.end_wait(world.open_wait(task), observation="first")
    for _ in range(3):
        (delivery,) = world.claim()
        wakes.settle_failed(world.context, delivery, "gateway down")
        world.clock.tick(300)
    world.end_wait(world.open_wait(task), observation="second")
    (delivery,) = world.claim()
    wakes.settle_failed(world.context, delivery, "gateway down")
    world.clock.tick(1)
    assert world.deliver() == []  # both rest
    world.end_wait(world.open_wait(task), observation="third")

    (message,) = world.deliver()

    told = [line.partition("): ")[2].partition(".")[0] for line in message.text.splitlines()]
    assert told == ["first", "second", "third"]


def test_four_messages_a_minute_to_a_session_and_the_rest_later(world: World) -> None:
    for i in range(6):
        wait = world.open_wait(None)
        world.end_wait(wait, observation=f"look {i}")
        world.deliver()
        world.clock.tick(1)
    assert len(world.received) == 4

    world.clock.tick(60)
    world.deliver()
    assert len(world.received) == 5
    assert len(world.received[-1].text.splitlines()) == 2


def test_the_fifth_message_goes_out_a_minute_after_the_first(world: World) -> None:
    for _ in range(5):
        for _ in range(2):  # both go out as one message
            world.end_wait(world.open_wait(None))
        world.deliver()
        world.clock.tick(10)
    assert len(world.received) == 4

    world.clock.tick(11)
    world.deliver()
    assert len(world.received) == 5


def test_stuck_tasks_of_a_session_share_a_message_but_not_a_wake(world: World) -> None:
    tasks = [world.register(f"task {i}") for i in range(3)]
    other = world.register("elsewhere", session_key="agent:main:other")

    arrived = world.pass_time(THRESHOLD)

    assert len(arrived) == 2
    shared = next(wake for wake in arrived if wake.session_key is None)
    packet = packet_of(shared.text)
    named = {packet["task_id"]} | {also["task_id"] for also in packet["also_stuck"]}
    assert named == set(tasks)
    assert {wake.task_id for wake in world.wakes(WakeState.SENT)} == {*tasks, other}
    world.narrate(tasks[1])
    assert len(world.wakes(WakeState.ACKNOWLEDGED)) == 1


def test_unacknowledged_wait_wake_is_resent_then_unanswered(world: World) -> None:
    wait = world.open_wait(None)
    world.end_wait(wait)

    arrived = world.pass_time(3 * 3600)

    assert len(arrived) == 3
    assert [w.state for w in world.wakes()] == ["unanswered"]


class Listener:
    def __init__(self) -> None:
        self.heard: list[str] = []

    @hookimpl
    def on_task_registered(self, task: Any) -> None:
        self.heard.append(f"registered {task.name}")

    @hookimpl
    def on_wait_resolved(self, wait: Any, outcome: Any, task: Any) -> None:
        self.heard.append(f"{outcome.status} {wait.target} {task and task.name}")

    @hookimpl
    def on_stuck(self, task: Any, verdict: Any, packet: Any) -> None:
        self.heard.append(f"stuck {task.name}, {verdict.reason}, {packet.task_id}")


def test_plugins_are_told_once_in_order_of_what_was_committed() -> None:
    listener = Listener()
    world = World(plugins=[("listener", listener)])
    task = world.register("deploy")
    world.end_wait(world.open_wait(task))
    world.pass_time(THRESHOLD)

    while notifications.call_hooks_for_events(world.context):
        pass
    notifications.call_hooks_for_events(world.context)

    assert listener.heard == [
        "registered deploy",
        "resolved pty:build deploy",
        f"stuck deploy, no updates for 5 minutes and no active wait, {task}",
    ]


def test_a_change_that_was_refused_is_never_told() -> None:
    listener = Listener()
    world = World(plugins=[("listener", listener)])
    world.register("kept")
    with pytest.raises(Conflict):
        world.store.commit(
            Change(
                tasks=(
                    world.store.find_tasks(TaskQuery(limit=1, implicit=False))[0].model_copy(
                        update={"version": 99}
                    ),
                )
            )
        )
    notifications.call_hooks_for_events(world.context)

    assert listener.heard == ["registered kept"]


def test_a_crash_before_the_bookmark_tells_again() -> None:
    listener = Listener()
    world = World(plugins=[("listener", listener)])
    world.register("deploy")

    class Crash(Exception):
        pass

    def crash(_change: Change) -> None:
        raise Crash

    commit = world.store.commit
    world.store.commit = crash  # type: ignore[method-assign]
    with pytest.raises(Crash):
        notifications.call_hooks_for_events(world.context)
    world.store.commit = commit  # type: ignore[method-assign]
    notifications.call_hooks_for_events(world.context)

    assert listener.heard == ["registered deploy"] * 2


@pytest.mark.parametrize(
    ("name", "shown"), [(notifications.HOOKS_BOOKMARK, False), (WAITS_BOOKMARK, True)]
)
def test_pages_are_told_of_all_but_places_in_the_log(name: str, *, shown: bool) -> None:
    world, told = World(), list[bool]()
    world.context = replace(world.context, nudge=lambda due: told.append(due.pages_due))
    world.context.commit(Change(bookmarks=(Bookmark(name=f"{name}:home_1", value="1"),)))
    world.register()
    assert told == [shown, True]


def test_a_changed_threshold_reschedules_every_active_task() -> None:
    world = World()
    task = world.register()
    run_recovery.reschedule_tasks(world.context)
    eager = World(world.store, world.clock, stuck=StuckPolicy(threshold_seconds=10))

    assert run_recovery.reschedule_tasks(eager.context) == 1
    assert run_recovery.reschedule_tasks(eager.context) == 0
    assert world.task(task).stuck_due_at == DAWN + timedelta(seconds=10)


def test_a_clock_that_went_back_hides_no_silence(world: World) -> None:
    task = world.register()
    world.clock.tick(hours=5)
    world.narrate(task)
    world.clock.jump(-4 * 3600)

    run_recovery.reschedule_tasks(world.context, force=True)

    assert world.pass_time(THRESHOLD)[0].task_id == task


@pytest.mark.parametrize("force", [True, False], ids=["seen", "before the start"])
def test_alert_keeps_cooldown_when_the_clock_goes_back_and_on(world: World, *, force: bool) -> None:
    run_recovery.reschedule_tasks(world.context)
    world.register()
    assert len(world.pass_time(THRESHOLD)) == 1
    world.clock.jump(-86_400)
    run_recovery.reschedule_tasks(world.context, force=force)
    world.clock.jump(86_400)

    assert world.pass_time(world.context.policies.stuck.cooldown_seconds - 1) == []
    assert len(world.pass_time(1)) == 1


@pytest.mark.parametrize("force", [True, False], ids=["seen", "before the start"])
def test_wake_sent_by_a_fast_clock_is_resent_counting_from_now(
    world: World, *, force: bool
) -> None:
    ack = world.context.policies.outbox.ack_seconds
    run_recovery.reschedule_tasks(world.context)
    world.end_wait(world.open_wait(world.register()))
    world.clock.jump(86_400)
    world.deliver()
    world.clock.jump(-86_400)

    run_recovery.reschedule_tasks(world.context, force=force)

    world.clock.tick(ack - 1)
    assert not world.deliver()
    world.clock.tick(1)
    assert len(world.deliver()) == 1
    # The second rest is as long as ever.
    run_recovery.reschedule_tasks(world.context, force=True)
    world.clock.tick(2 * ack - 1)
    assert not world.deliver()
    world.clock.tick(1)
    assert len(world.deliver()) == 1


def test_task_due_before_the_threshold_is_put_off_without_alert(world: World) -> None:
    task = world.register()
    slow = World(world.store, world.clock, stuck=StuckPolicy(threshold_seconds=3000))
    world.clock.tick(THRESHOLD)

    assert stuck.sweep_due_tasks(slow.context) == 1
    assert world.wakes() == []
    assert world.task(task).stuck_due_at == DAWN + timedelta(seconds=3000)


class Oracle:
    def answer(self, facts: QueryFacts, query: str) -> str | None:
        return f"{facts.task.name}: {query}?" if query == "why" else None


class AnsweringPlugin:
    @hookimpl
    def query_answerer(self) -> Oracle:
        return Oracle()


def test_a_plugin_may_answer_a_question_better() -> None:
    world = World(plugins=[("oracle", AnsweringPlugin())])
    task = world.register("deploy")

    better = world.call("task_update", task_id=task, query="why")
    ordinary = world.call("task_update", task_id=task, query="where")

    assert better["summary"] == "deploy: why?"
    assert ordinary["summary"].startswith("No step is done yet.")


class Meddler:
    @hookimpl(tryfirst=True)
    def build_resume_packet(self, facts: Any) -> None:
        facts.task.metadata["meddled"] = True


def test_a_plugin_cannot_change_the_task_it_is_lent() -> None:
    world = World(plugins=[("meddler", Meddler())])
    task = world.register(metadata={"mine": 1})

    world.pass_time(THRESHOLD)

    assert world.task(task).metadata == {"mine": 1}


def test_what_was_answered_wrongly_named_is_not_found(world: World) -> None:
    with pytest.raises(TaskNotFound):
        world.narrate("task_none")


def test_ids_sort_by_the_time_they_were_made() -> None:
    made = [new_id("task", DAWN + timedelta(milliseconds=i)) for i in range(50)]

    assert made == sorted(made)
    assert len({new_id("task", DAWN) for _ in range(1000)}) == 1000
    assert all(len(item) == len("task_") + 16 for item in made)


def test_a_paused_task_is_left_alone_until_it_is_active_again(world: World) -> None:
    task = world.register()
    world.call("task_update", task_id=task, status="paused")
    assert world.pass_time(10 * THRESHOLD) == []

    world.call("task_update", task_id=task, status="active")
    assert [wake.task_id for wake in world.pass_time(THRESHOLD)] == [task]


def test_a_wake_on_its_way_names_its_session(world: World) -> None:
    world.register(session_key="agent:main:work-2")
    (wake,) = world.pass_time(THRESHOLD)
    assert isinstance(wake, Wake)
    assert wake.session_key == "agent:main:work-2"
    assert world.store.find_tasks(TaskQuery(status=TaskStatus.ACTIVE, limit=5, implicit=False))
    assert not world.store.find_waits(WaitQuery(status=WaitStatus.WATCHING, limit=5))


def test_a_store_that_is_busy_tells_nobody_less() -> None:
    listener = Listener()
    world = World(plugins=[("listener", listener)])
    world.register("deploy")
    read = world.store.read_task

    def busy(_task_id: str) -> TaskFacts:
        raise StoreBusy("locked")

    world.context.store.read_task = busy
    with pytest.raises(StoreBusy):
        notifications.call_hooks_for_events(world.context)
    world.context.store.read_task = read
    notifications.call_hooks_for_events(world.context)

    assert listener.heard == ["registered deploy"]


class Glutton:
    @hookimpl
    def build_resume_packet(self, facts: Any) -> Any:
        built = packet.build_packet(facts)
        progress = built.progress.model_copy(update={"completed": tuple(range(100_000))})
        return built.model_copy(update={"progress": progress})


def test_oversized_plugin_packet_is_replaced_by_the_core_packet() -> None:
    world = World(plugins=[("glutton", Glutton())])
    task = world.register()

    (wake,) = world.pass_time(THRESHOLD)

    assert packet_of(wake.text)["task_id"] == task
    assert len(wake.text.encode()) < 4200


def test_clock_ahead_before_the_start_delays_no_stuck_alert() -> None:
    world = World()
    run_recovery.reschedule_tasks(world.context)
    world.clock.jump(300 * 86_400)
    task = world.register()
    world.clock.jump(-300 * 86_400)

    run_recovery.reschedule_tasks(world.context)

    assert [wake.task_id for wake in world.pass_time(THRESHOLD)] == [task]


def test_unclaimable_session_blocks_no_other_sessions_wake(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for session in ("a", "b", "c"):
        world.register(session, session_key=session)
    world.clock.tick(THRESHOLD)
    world.sweep()
    commit = world.store.commit

    def busy(change: Change) -> None:
        if any(wake.session_key == "b" for wake in change.wakes):
            raise StoreBusy("locked")
        commit(change)

    monkeypatch.setattr(world.store, "commit", busy)

    assert [d.message.session_key for d in world.claim()] == ["a", "c"]


def test_a_session_that_a_message_is_on_its_way_to_comes_later(world: World) -> None:
    for session in ("a", "b", "c"):
        world.register(session, session_key=session)
    world.clock.tick(THRESHOLD)
    world.sweep()

    first = wakes.claim_deliveries(
        world.context,
        lambda key: Hold(why="busy") if key == "a" else None,
        on_the_way=["x", "y", "z"],
    )
    rest = wakes.claim_deliveries(world.context)

    assert [d.message.session_key for d in first] == ["b"]
    assert [d.message.session_key for d in rest] == ["a", "c"]


@pytest.mark.parametrize("tool", ["task_cancel", "task_update"])
def test_no_alert_goes_out_if_its_task_stops_at_the_claim(world: World, tool: str) -> None:
    status = {} if tool == "task_cancel" else {"status": "paused"}
    task = world.register()
    world.clock.tick(400)
    assert world.sweep() == 1

    def stop_meanwhile(kind: str, now: datetime) -> str:
        if kind == "delivery":  # named after the task was read, before the claim is written
            world.call(tool, task_id=task, **status)
        return new_id(kind, now)

    outbox = replace(world.context, new_id=stop_meanwhile)

    assert wakes.claim_deliveries(outbox) == []
    assert [wake.state for wake in world.wakes()] == [WakeState.SUPERSEDED]
