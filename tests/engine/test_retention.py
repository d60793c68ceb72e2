"""What has ended is dropped, what is open never; what is dropped is told."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_taskmem.domain.policies import KeepPolicy
from openclaw_taskmem.domain.retention import KEPT_AT_LEAST
from openclaw_taskmem.engine import notifications, retention
from openclaw_taskmem.tools.views import summarize_store
from taskmem_hookspecs import Bookmark, Change, EventQuery, TaskStatus, WaitStatus, WakeState
from taskmem_hookspecs.errors import NotAllowed
from taskmem_hookspecs.testing import a_wait, an_event
from tests.support.memory_store import MemoryStore
from tests.support.rows import read_all_rows
from tests.support.world import PERSON, World

DAY = timedelta(days=1).total_seconds()
DROPPED = ("waits", "wakes", "checkpoints", "events")


def a_world(**policy: Any) -> World:
    return World(retention=KeepPolicy(**policy))


def end_work(world: World, status: str | None = "failed") -> str:
    """Let a task wait, be woken and narrate; then it ends, unless that is None."""
    task = world.register()
    for _ in range(2):
        world.end_wait(world.open_wait(task))
        world.deliver()
        world.narrate(task)
    if status is not None:
        world.call("task_update", task_id=task, status=status, message="It is over.")
    return task


def count_rows(world: World) -> dict[str, int]:
    return {name: len(rows) for name, rows in read_all_rows(world.store).items()}


def test_what_ended_goes_after_its_days_and_the_task_stays() -> None:
    world = a_world(days=90)
    task = end_work(world)
    before = read_all_rows(world.store)
    world.clock.tick(90 * DAY - 1)
    assert not retention.drop_ended(world.context)
    assert read_all_rows(world.store) == before
    world.clock.tick(2)
    assert not retention.drop_ended(world.context)
    after = read_all_rows(world.store)
    assert [after[name] for name in ("tasks", "messages", "runs")] == [
        before[name] for name in ("tasks", "messages", "runs")
    ]
    assert (len(after["wakes"]), len(after["waits"])) == (0, 1)
    kinds = [event.kind for event in world.store.find_events(EventQuery(task_id=task))]
    assert len(kinds) == len(set(kinds))


def test_a_cancelled_task_stays_the_users_after_its_days() -> None:
    world = a_world(days=90)
    task = end_work(world, None)
    world.call("task_update", PERSON, task_id=task, status="cancelled")
    world.clock.tick(91 * DAY)
    retention.drop_ended(world.context)
    with pytest.raises(NotAllowed, match="The user cancelled"):
        world.call("task_update", task_id=task, status="active")


def test_of_a_full_database_the_oldest_goes_until_the_rest_fits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    world = a_world(days=90, most_bytes=1_500_000)
    for n in range(4):
        events = tuple(an_event(at=world.clock.tick(1)) for _ in range(1_000))
        world.store.commit(Change(events=events))
        del n
    world.clock.tick(2 * KEPT_AT_LEAST.total_seconds())
    assert not retention.drop_ended(world.context)
    left = [event.event_id for event in world.store.find_events(EventQuery())]
    assert left == list(range(3_001, 4_001))
    assert [record.message for record in caplog.records] == [
        "dropped of what had ended: 3000 events"
    ]
    assert (world.context.live.storage.taken, world.context.live.storage.full) == (1_000_000, False)
    assert summarize_store(world.context)["keeps"]["dropped"] == "3000 events"


def test_where_only_open_things_are_left_that_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = a_world(most_bytes=1)
    end_work(world, None)
    before = read_all_rows(world.store)
    world.clock.tick(400 * DAY)
    for _ in range(3):
        assert not retention.drop_ended(world.context)
    assert read_all_rows(world.store) == before
    assert world.context.live.storage.full
    (record,) = caplog.records
    assert "nothing more may be dropped" in record.message


def test_a_pass_without_time_says_that_there_is_more() -> None:
    world = a_world()
    store = world.store
    assert isinstance(store, MemoryStore)
    many = retention.OLD_ROWS + 1_500
    store.commit(Change(events=tuple(an_event() for _ in range(many))))
    world.clock.tick(91 * DAY)
    drop: Callable[..., Any] = store.drop_ended

    def slow(*given: Any) -> Any:
        world.clock.tick(retention.PATIENCE_SECONDS + 1)
        return drop(*given)

    store.drop_ended = slow  # type: ignore[method-assign]
    assert retention.drop_ended(world.context)
    assert len(store.find_events(EventQuery())) == 1_500


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([None, "failed", "paused", "cancelled"]), st.integers(0, 60)),
        max_size=6,
    ),
    st.integers(1, 40),
)
def test_what_is_open_stays_and_the_oldest_of_the_rest_goes(
    tasks: list[tuple[str | None, int]], rows: int
) -> None:
    world = a_world(days=90, most_bytes=rows * 1_000)
    for status, days in tasks:
        end_work(world, status)
        world.open_wait(None)
        world.clock.tick(days * DAY)
    world.clock.tick(2 * KEPT_AT_LEAST.total_seconds())
    before = read_all_rows(world.store)
    open_ = {t.task_id for t in before["tasks"] if not t.status.terminal}  # type: ignore[attr-defined]
    may_go = everything_that_may_go(world)
    retention.drop_ended(world.context)
    after = read_all_rows(world.store)

    for name in before:
        gone = [row for row in before[name] if row not in after[name]]
        assert not gone or name in DROPPED
        assert not [row for row in gone if getattr(row, "task_id", None) in open_]
        assert not [
            row
            for row in gone
            if getattr(row, "status", None) is WaitStatus.WATCHING
            or getattr(row, "state", None) in (WakeState.DUE, WakeState.SENT)
        ]
        kept = [row for row in may_go[name] if row in after[name]]
        if gone and kept:
            assert max(map(age, gone)) <= min(map(age, kept))
    assert world.context.live.storage.taken is not None
    fits = world.context.live.storage.taken <= rows * 1_000
    assert fits or world.context.live.storage.full


def everything_that_may_go(world: World) -> dict[str, list[Any]]:
    """Return what a store would drop of the same rows with no limit."""
    store = MemoryStore()
    vars(store).update(
        {
            name: value.copy() if isinstance(value, (dict, list)) else value
            for name, value in vars(world.store).items()
        }
    )
    before = read_all_rows(store)
    store.drop_ended(world.clock.now() - KEPT_AT_LEAST, 1_000_000)
    after = read_all_rows(store)
    return {n: [r for r in before[n] if r not in after[n]] for n in before}


def age(row: Any) -> Any:
    return getattr(row, "event_id", None) or getattr(row, "created_at", None) or row.at


def test_a_task_that_ended_is_taken_up_again_after_its_days() -> None:
    world = a_world(days=90)
    task = end_work(world)
    world.clock.tick(91 * DAY)
    retention.drop_ended(world.context)
    shown = world.call("task_resume", task_id=task, reopen=True)
    assert world.task(task).status is TaskStatus.ACTIVE
    assert "It is over." in str(shown)
    assert world.task(task).linkage.last_wait_state is WaitStatus.RESOLVED


@pytest.mark.parametrize("reader", [*notifications.NotificationKind, "told"])
@pytest.mark.parametrize("policy", [{"days": 1}, {"most_bytes": 1}])
def test_what_the_log_was_not_told_of_yet_stays(reader: str, policy: dict[str, Any]) -> None:
    world = a_world(**policy)
    notifications.set_start_positions(world.context)
    world.store.commit(Change(events=tuple(an_event() for _ in range(9))))
    places = {
        f"{outgoing}:{world.context.store.home or ''}": 8
        for outgoing in notifications.NotificationKind
    }
    places[world.context.store.make_bookmark("told", "").name] = 8
    name = next(name for name in places if name.startswith(reader))
    marks = [Bookmark(name=n, value=str(5 if n == name else at)) for n, at in places.items()]
    world.store.commit(Change(bookmarks=tuple(marks)))
    world.clock.tick(2 * DAY)
    retention.drop_ended(world.context)
    assert [event.event_id for event in world.store.find_events(EventQuery())] == [6, 7, 8, 9]


def test_disk_space_of_other_homes_drops_no_rows_of_this_home() -> None:
    world = World(retention=KeepPolicy(days=90, most_bytes=1), sole=False, home="/home/1")
    end_work(world)
    world.clock.tick(DAY)
    world.store.commit(Change(waits=(a_wait(wait_id="x", home="/home/2"),)))
    before = read_all_rows(world.store)
    assert not retention.drop_ended(world.context)
    assert read_all_rows(world.store) == before
    assert (world.context.live.storage.shared, world.context.live.storage.full) == (True, False)
    world.clock.tick(90 * DAY)
    retention.drop_ended(world.context)
    assert len(read_all_rows(world.store)["wakes"]) == 0


def test_one_pass_reads_the_log_once() -> None:
    world = a_world(days=90)
    many = 2 * retention.OLD_ROWS + 1
    world.store.commit(Change(events=tuple(an_event() for _ in range(many))))
    world.clock.tick(91 * DAY)
    drop: Callable[..., Any] = world.store.drop_ended
    begun: list[int] = []

    def note_call(*given: Any) -> Any:
        begun.append(given[-1])
        return drop(*given)

    world.store.drop_ended = note_call  # type: ignore[method-assign]
    retention.drop_ended(world.context)
    assert begun == [0, many // 2, many - 1]


def test_how_far_the_log_is_thinned_is_kept() -> None:
    world = a_world(days=1)
    task = end_work(world)
    logged = world.store.find_events(EventQuery(task_id=task))
    assert retention.read_thinned(world.context) == 0
    world.clock.tick(2 * DAY)
    retention.drop_ended(world.context)
    left = {event.event_id for event in world.store.find_events(EventQuery(task_id=task))}
    gone = [event.event_id for event in logged if event.event_id not in left]
    assert retention.read_thinned(world.context) == max(gone)
