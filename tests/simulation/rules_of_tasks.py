"""The invariants of tasks: their status, plan, thread and checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from openclaw_taskmem.domain import events
from openclaw_taskmem.engine.turns import REPORTED_BOOKMARK, EventCursor
from taskmem_hookspecs import RunState, TaskStatus, Verdict
from tests.simulation.machine import Machine
from tests.simulation.mirror import Commit
from tests.simulation.outside import SECRET


def ended_tasks_stay_ended(_: Machine, commit: Commit) -> Iterator[str]:
    """What has ended keeps its status, or becomes active again."""
    for task in commit.change.tasks:
        before = commit.tasks_before[task.task_id]
        if before is not None and before.status.terminal:
            if task.status not in (before.status, TaskStatus.ACTIVE):
                yield f"{task.task_id} was {before.status} and is {task.status}"


def step_marks_are_never_lost(_: Machine, commit: Commit) -> Iterator[str]:
    """A step stays done: in the same plan, and through a revision that keeps its text."""
    for task in commit.change.tasks:
        before = commit.tasks_before[task.task_id]
        if before is None:
            continue
        once = {text for text, count in Counter((*before.plan, *task.plan)).items() if count <= 2}
        kept = {before.plan[i] for i in before.done if before.plan[i] in task.plan} & once
        lost = kept - {task.plan[i] for i in task.done if i < len(task.plan)}
        if lost:
            yield f"{task.task_id} loses the marks of {sorted(lost)}"


def marks_lie_within_the_plan(_: Machine, commit: Commit) -> Iterator[str]:
    """No step is done that there is not."""
    for task in commit.change.tasks:
        if any(not 0 <= index < len(task.plan) for index in task.done):
            yield f"{task.task_id} has {len(task.plan)} steps, and done are {sorted(task.done)}"


def open_tasks_alone_block_others(_: Machine, commit: Commit) -> Iterator[str]:
    """What has ended blocks nothing, and nothing blocks it."""
    tasks = commit.mirror.tasks
    ended = {task.task_id for task in commit.change.tasks if task.status.terminal}
    for task in tasks.values():
        over = [each for each in task.blocked_by if tasks[each].status.terminal]
        if over or (task.task_id in ended and task.blocked_by):
            yield f"{task.task_id} is {task.status} and blocked by {over or task.blocked_by}"


def no_task_blocks_itself(_: Machine, commit: Commit) -> Iterator[str]:
    """Nobody waits for a task that waits for theirs."""
    tasks = commit.mirror.tasks
    for start in (task for task in commit.change.tasks if task.blocked_by):
        left, seen = [*start.blocked_by], set[str]()
        while left:
            each = left.pop()
            if each == start.task_id:
                yield f"{each} is blocked by itself"
                break
            if each not in seen:
                seen.add(each)
                left += tasks[each].blocked_by


def who_becomes_ready_is_woken(_: Machine, commit: Commit) -> Iterator[str]:
    """The commit that takes the last task out of the way owes the agent one wake, or is read."""
    released = {e.task_id for e in commit.change.events if e.kind == events.TASK_RELEASED}
    queued = {run.task_id for run in commit.change.runs if run.state is RunState.QUEUED}
    waiting = {r.task_id for r in commit.mirror.runs.values() if r.state.is_waiting}
    for task in commit.change.tasks:
        rests = task.status is not TaskStatus.ACTIVE or task.task_id in queued | waiting
        if task.task_id not in released or task.blocked_by or rests:
            continue
        new = [w for w in commit.change.wakes if w.task_id == task.task_id and not w.version]
        if not [wake for wake in new if wake.key.startswith("ready:")]:
            yield f"{task.task_id} is ready, and nobody is woken"


def no_row_is_written_over(_: Machine, commit: Commit) -> Iterator[str]:
    """Who writes a row has read what was written to it last."""
    if commit.written_over:
        yield f"{commit.written_over} were changed by others meanwhile"


def messages_are_counted(_: Machine, commit: Commit) -> Iterator[str]:
    """A task knows how long its thread is."""
    for task_id in sorted({m.task_id for m in commit.change.messages}):
        count = commit.mirror.tasks[task_id].message_count
        if count != len(commit.mirror.messages[task_id]):
            yield f"{task_id} counts {count}, not {len(commit.mirror.messages[task_id])}"


def every_active_task_has_a_due_time(_: Machine, commit: Commit) -> Iterator[str]:
    """Who is active and waits for nothing will be looked at; nobody else will."""
    for task in commit.change.tasks:
        row = commit.mirror.tasks[task.task_id]
        may_be_stuck = row.status is TaskStatus.ACTIVE and not row.rests and not row.implicit
        if may_be_stuck is not (row.stuck_due_at is not None):
            yield f"{row.task_id} is {row.status} and due {row.stuck_due_at}"


def completed_implies_verified_or_accepted(_: Machine, commit: Commit) -> Iterator[str]:
    """A task that names what it makes completes with proof, or because a person said so."""
    accepted = {e.task_id for e in commit.change.events if e.kind == events.COMPLETION_ACCEPTED}
    for task in commit.change.tasks:
        before = commit.tasks_before[task.task_id]
        if task.status is not TaskStatus.COMPLETED or not task.metadata.get("artifacts"):
            continue
        if (before is None or before.status is not task.status) and task.task_id not in accepted:
            made = [a for a in commit.mirror.artifacts.values() if a.task_id == task.task_id]
            if not made or any(a.verdict is not Verdict.VERIFIED for a in made):
                yield f"{task.task_id} is completed, and made is {[a.verdict for a in made]}"


def no_secret_is_stored(_: Machine, commit: Commit) -> Iterator[str]:
    """What looks like a credential reaches no row."""
    change = commit.change
    said = [m.content for m in change.messages] + [str(e.data) for e in change.events]
    said += [f"{w.text} {w.last_error}" for w in change.wakes]
    said += [f"{t.name} {t.plan}" for t in change.tasks]
    said += [w.last_observation or "" for w in change.waits]
    said += [a.detail or "" for a in change.artifacts]
    if any(SECRET in text for text in said):
        yield "a secret is written down"


def readers_never_go_back(_: Machine, commit: Commit) -> Iterator[str]:
    """Who reads the log never reads what it has read, and not beyond its end."""
    for mark in commit.change.bookmarks:
        if mark.name.partition(":")[0] in ("told", "said", "stopped", "shown"):
            before = commit.bookmarks_before.get(mark.name)
            if before is not None and int(mark.value) < int(before.value):
                yield f"{mark.name} goes back from {before.value} to {mark.value}"
            if int(mark.value) > commit.mirror.last_event:
                yield f"{mark.name} is {mark.value} of {commit.mirror.last_event}"


def no_report_counts_twice(_: Machine, commit: Commit) -> Iterator[str]:
    """Of what a start of a gateway reports, nothing is handled after what came later."""
    for mark in commit.change.bookmarks:
        before = commit.bookmarks_before.get(mark.name)
        if mark.name.partition(":")[0] != REPORTED_BOOKMARK or before is None:
            continue
        cursors = map(EventCursor.model_validate_json, before.value.splitlines())
        done = {cursor.boot: cursor.number for cursor in cursors}
        for cursor in map(EventCursor.model_validate_json, mark.value.splitlines()):
            if cursor.number < done.get(cursor.boot, 0):
                yield f"event {cursor.number} of {cursor.boot} follows {done[cursor.boot]}"


TASK_RULES: Final = {
    "tasks": (
        ended_tasks_stay_ended,
        step_marks_are_never_lost,
        marks_lie_within_the_plan,
        open_tasks_alone_block_others,
        no_task_blocks_itself,
        who_becomes_ready_is_woken,
        every_active_task_has_a_due_time,
        completed_implies_verified_or_accepted,
        no_row_is_written_over,
        no_secret_is_stored,
    ),
    "messages": (messages_are_counted, no_secret_is_stored),
    "events": (no_secret_is_stored,),
    "waits": (no_row_is_written_over, no_secret_is_stored),
    "wakes": (no_row_is_written_over, no_secret_is_stored),
    "runs": (no_row_is_written_over,),
    "bookmarks": (readers_never_go_back, no_report_counts_twice),
}
