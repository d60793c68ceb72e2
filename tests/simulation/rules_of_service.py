"""The invariants of answers, of the daemon as a whole, and of the rest after everything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.callers import OWED_STATES, is_kept
from openclaw_taskmem.engine.runs import find_claimable
from taskmem_hookspecs import RunState, WaitStatus, WakeState
from tests.simulation.machine import Machine
from tests.simulation.mirror import Mirror
from tests.simulation.rules_of_wakes import LATE, is_overdue

if TYPE_CHECKING:
    from tests.simulation.history import Play


def what_was_answered_was_written(
    machine: Machine, tool: str, given: Mapping[str, Any], answer: Any
) -> Iterator[str]:
    """A task, wait, entry or claim that an answer tells is committed before the answer goes out.

    Status and steps may be others' by then; the invariants of commits are about them.
    """
    mirror = machine.mirror
    if tool == "task_register" and answer["task_id"] not in mirror.tasks:
        yield f"{answer['task_id']} was registered, and is not stored"
    if tool == "smart_wait" and answer["wait_id"] not in mirror.waits:
        yield f"{answer['wait_id']} was opened, and is not stored"
    if tool == "task_update" and given.get("message"):
        said = (message.content for message in mirror.messages[given["task_id"]])
        words = given["message"].partition(".")[0]
        if not any(f"{words}." in content for content in said):
            yield f"{given['task_id']} took {words!r}, and does not hold it"
    if tool == "task_update" and answer.get("message_count", 0) > len(
        mirror.messages[given["task_id"]]
    ):
        yield f"{given['task_id']} has not the {answer['message_count']} entries that were told"
    if tool == "task_claim" and (answer["task_id"], answer["token"]) not in machine.holders:
        yield f"{answer['task_id']} was claimed with the token {answer['token']}: nobody holds it"


def the_daemon_serves(play: Play) -> Iterator[str]:
    """Whatever happens outside, the daemon goes on."""
    if play.daemon.failure is not None:
        yield play.daemon.failure


def nothing_fails_unheard(play: Play) -> Iterator[str]:
    """No callback and no task ends with an error that nobody expects."""
    yield from play.loop.faults


def no_error_is_unexpected(play: Play) -> Iterator[str]:
    """The daemon logs no error but those that the simulation makes."""
    yield from play.log.errors


def one_message_at_a_time_to_a_session(play: Play) -> Iterator[str]:
    """A session gets its next message once the last one is through."""
    if play.outside.most_at_once > 1:
        yield f"{play.outside.most_at_once} messages were on their way to one session"


def each_wake_goes_to_a_gateway_of_its_own(play: Play) -> Iterator[str]:
    """Of two gateways, one that a wake names has agents that made or were given its task."""
    yield from play.outside.strays


def every_due_wake_is_delivered_or_kept(play: Play) -> Iterator[str]:
    """Once the gateway takes wakes, none is left that is due."""
    now = play.machine.clock.now()
    for wake in play.machine.mirror.wakes.values():
        if wake.state is WakeState.DUE and is_overdue(wake, now, LATE) and not is_kept(wake):
            yield f"{wake.wake_id} ({wake.key}) is due since {wake.due_at}, and it is {now}"


def every_wait_ends_by_its_deadline(play: Play) -> Iterator[str]:
    """No wait is watched after its time."""
    now = play.machine.clock.now()
    for wait in play.machine.mirror.waits.values():
        late = (now - wait.deadline_at).total_seconds()
        if wait.status is WaitStatus.WATCHING and late > LATE:
            yield f"{wait.wait_id} should have ended {late:.0f} s ago"


def every_silent_task_is_looked_at(play: Play) -> Iterator[str]:
    """No task is left that is due for a look."""
    now = play.machine.clock.now()
    for task in play.machine.mirror.tasks.values():
        due = task.stuck_due_at
        if due is not None and (now - due).total_seconds() > LATE:
            yield f"{task.task_id} is due for a look since {due}, and it is {now}"


def hooks_hear_of_every_task_end_and_silence(play: Play) -> Iterator[str]:
    """Plug-ins are told of tasks, ended waits and stuck tasks at least once, also after a crash."""
    mirror = play.machine.mirror
    told = {task_id for task_id, task in mirror.tasks.items() if not task.implicit}
    owed = {(events.TASK_REGISTERED, task_id) for task_id in told}
    for event in mirror.events:
        if event.task_id is None or event.task_id in told:
            if event.kind == events.WAIT_ENDED:
                owed.add((event.kind, event.wait_id or ""))
            elif event.kind == events.TASK_STUCK:
                owed.add((event.kind, event.task_id or ""))
    if missing := sorted(owed - play.outside.heard):
        yield f"nobody was told of {missing}"


def readers_reach_the_end_of_the_log(play: Play) -> Iterator[str]:
    """No entry is left in the log that plug-ins have not been told of."""
    mark = play.machine.mirror.bookmarks.get("told")
    log = play.machine.mirror.events
    upto = int(mark.value) if mark else 0
    left = [event.kind for event in log if (event.event_id or 0) > upto]
    if not events.HOOK_KINDS.isdisjoint(left):
        yield f"the hooks have not been told of {left}"


def no_run_is_held_by_a_process_that_is_gone(play: Play) -> Iterator[str]:
    """What a worker held that has ended is queued again."""
    for run in play.machine.mirror.runs.values():
        process = run.owner.process if run.owner is not None else None
        if run.state is RunState.RUNNING and process in play.outside.ended_processes:
            yield f"{run.run_id} is held by {process}, which has ended"


def waits_for_a_queue_end_when_work_is_queued(play: Play) -> Iterator[str]:
    """Nobody waits for work that could be claimed."""
    for wait in play.machine.mirror.waits.values():
        role = wait.target.removeprefix("queue:")
        if wait.status is WaitStatus.WATCHING and role != wait.target:
            if (task := find_claimable(play.daemon.context, role)) is not None:
                yield f"{wait.wait_id} waits for {role}, and {task.task_id} is queued"


def waits_for_a_task_end_with_it(play: Play) -> Iterator[str]:
    """Nobody waits for a task that has ended."""
    mirror = play.machine.mirror
    for wait in mirror.waits.values():
        task = mirror.tasks.get(wait.target.removeprefix("task:"))
        if wait.status is WaitStatus.WATCHING and task is not None and task.status.terminal:
            yield f"{wait.wait_id} waits for {task.task_id}, which is {task.status}"


def each_question_is_counted_before_it_is_asked(play: Play) -> Iterator[str]:
    """No crash lets a reader be asked more often than the home knows."""
    yield from play.machine.reader.uncounted


def a_reader_that_refused_is_left_alone(play: Play) -> Iterator[str]:
    """Whoever refuses the key is not asked again within the hour."""
    yield from play.machine.reader.pestered


def no_reader_is_asked_beyond_its_limit(play: Play) -> Iterator[str]:
    """A day has no more questions than its budget."""
    reader = play.machine.reader
    for day, spent in reader.read_days().items():
        if spent[reader.name].asked > reader.calls_per_day:
            yield f"{spent[reader.name].asked} questions are counted on {day}"


def what_is_open_is_never_dropped(machine: Machine, before: Mirror) -> Iterator[str]:
    """Retention takes no task, thread or run, and nothing that is open or of an open task."""
    after = machine.mirror
    if (gone := before.tasks.keys() - after.tasks.keys()) or before.runs.keys() - after.runs.keys():
        yield f"the tasks {sorted(gone)}, or runs, are dropped"
    if {k: len(v) for k, v in before.messages.items() if v} != {
        k: len(v) for k, v in after.messages.items() if v
    }:
        yield "entries of a thread are dropped"
    open_ = {task_id for task_id, task in before.tasks.items() if not task.status.terminal}
    for wait in before.waits.values():
        if wait.wait_id not in after.waits:
            if wait.status is WaitStatus.WATCHING or wait.task_id in open_:
                yield f"{wait.wait_id} is dropped, and is {wait.status}"
    for wake in before.wakes.values():
        if wake.wake_id not in after.wakes and (wake.state in OWED_STATES or wake.task_id in open_):
            yield f"{wake.wake_id} is dropped, and is {wake.state}"
    kept = {event.event_id for event in after.events}
    for event in before.events:
        if event.event_id not in kept and event.task_id in open_:
            yield f"the event {event.event_id} of {event.task_id} is dropped"


def nothing_young_is_dropped(machine: Machine, before: Mirror) -> Iterator[str]:
    """Retention takes only what is older than it is told, by each of its dates."""
    cut = machine.clock.now() - timedelta(days=machine.keep.days)
    cut = max(cut, (machine.clock.read_before or cut) - timedelta(days=machine.keep.days))
    kept = _list_dated(machine.mirror)
    for kind, rows in _list_dated(before).items():
        for row_id in rows.keys() - kept[kind].keys():
            at = max(filter(None, (getattr(rows[row_id], name) for name in _DATES[kind])))
            if at > cut:
                yield f"{row_id} of {at} is dropped, and only what is before {cut} may be"


_DATES: Final = {
    "waits": ("created_at", "changed_at"),
    "wakes": ("created_at", "sent_at", "acknowledged_at"),
    "checkpoints": ("at",),
    "events": ("at",),
}


def _list_dated(mirror: Mirror) -> dict[str, Mapping[Any, Any]]:
    """Return all rows that retention may take, by kind and id."""
    log = {event.event_id: event for event in mirror.events}
    return {
        "waits": mirror.waits,
        "wakes": mirror.wakes,
        "checkpoints": mirror.checkpoints,
        "events": log,
    }


DROP_RULES: Final = (what_is_open_is_never_dropped, nothing_young_is_dropped)
ANSWER_RULES: Final = (what_was_answered_was_written,)
PLAY_RULES: Final = (
    the_daemon_serves,
    nothing_fails_unheard,
    no_error_is_unexpected,
    one_message_at_a_time_to_a_session,
    each_wake_goes_to_a_gateway_of_its_own,
    each_question_is_counted_before_it_is_asked,
    a_reader_that_refused_is_left_alone,
    no_reader_is_asked_beyond_its_limit,
)
REST_RULES: Final = (
    every_due_wake_is_delivered_or_kept,
    every_wait_ends_by_its_deadline,
    every_silent_task_is_looked_at,
    hooks_hear_of_every_task_end_and_silence,
    readers_reach_the_end_of_the_log,
    no_run_is_held_by_a_process_that_is_gone,
    waits_for_a_queue_end_when_work_is_queued,
    waits_for_a_task_end_with_it,
)
