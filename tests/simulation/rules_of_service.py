"""The invariants of answers, of the daemon as a whole, and of the rest after everything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.reachability import is_kept
from taskmem_hookspecs import WaitStatus, WakeState
from tests.simulation.machine import Machine
from tests.simulation.rules_of_wakes import is_overdue

if TYPE_CHECKING:
    from tests.simulation.history import Play

LATE: Final = 60.0
"""Seconds by which what is due may be late once nothing fails any more."""


def what_was_answered_was_written(
    machine: Machine, tool: str, given: Mapping[str, Any], answer: Any
) -> Iterator[str]:
    """Whatever an answer says was done is committed before the answer goes out."""
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


def hooks_hear_of_every_task(play: Play) -> Iterator[str]:
    """Plug-ins are told of each task at least once, also after a crash."""
    heard = {about for hook, about in play.outside.heard if hook == "registered"}
    known = [t.task_id for t in play.machine.mirror.tasks.values() if not t.implicit]
    if missing := [task_id for task_id in known if task_id not in heard]:
        yield f"nobody was told of {missing}"


def readers_reach_the_end_of_the_log(play: Play) -> Iterator[str]:
    """No entry is left in the log that plug-ins have not been told of."""
    mark = play.machine.mirror.bookmarks.get("told")
    log = play.machine.mirror.events
    left = [event.kind for event in log[int(mark.value) if mark else 0 :]]
    if not events.TOLD.isdisjoint(left):
        yield f"the hooks have not been told of {left}"


ANSWER_RULES: Final = (what_was_answered_was_written,)
PLAY_RULES: Final = (
    the_daemon_serves,
    nothing_fails_unheard,
    no_error_is_unexpected,
    one_message_at_a_time_to_a_session,
)
REST_RULES: Final = (
    every_due_wake_is_delivered_or_kept,
    every_wait_ends_by_its_deadline,
    every_silent_task_is_looked_at,
    hooks_hear_of_every_task,
    readers_reach_the_end_of_the_log,
)
