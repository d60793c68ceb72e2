"""List for a packet what was done, what was cut and what was dropped.

Calls that were done are listed by their effect, the gravest first (`side_effects.py`): what was
sent out, then files, then unknown effects; those that only read, or can be repeated, are left out.
Calls that were cut, or failed so that they may have been done all the same, are all listed, oldest
first. Source: docs/decisions/0022-effects-before-reads.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from openclaw_taskmem.domain.effects.checkpoints import PastCall
from openclaw_taskmem.domain.effects.side_effects import GRAVEST_FIRST, Effect, is_shell, judge_call
from openclaw_taskmem.domain.tasks import plan
from openclaw_taskmem.domain.text.texts import clip, to_one_line
from taskmem_hookspecs import PlanRevision, Task, Wait, WaitStatus

LINE_BYTES: Final = 160


def list_done_calls(calls: Sequence[PastCall]) -> tuple[str, ...]:
    """List the calls that succeeded and had an effect, a line each.

    `calls` are oldest first; the lines begin with the gravest, and among equals with the newest.
    Equal lines are one, with their number.
    """
    made = [call for call in reversed(calls) if call.ok]
    made = [call for call in made if find_effect(call) is not Effect.NOTHING]
    made.sort(key=lambda call: GRAVEST_FIRST.index(find_effect(call)))
    lines = Counter(_format_call(call) for call in made)
    return tuple(line if times == 1 else f"{line}, {times} times" for line, times in lines.items())


def list_cut_calls(calls: Iterable[PastCall]) -> tuple[str, ...]:
    """List the calls that may or may not have been done, oldest first.

    A call that was made again is judged by its last attempt.
    """
    lost: dict[tuple[str, str], PastCall] = {}
    for call in calls:
        lost.pop((call.tool, call.about), None)
        if _is_outcome_unknown(call):
            lost[call.tool, call.about] = call
    return tuple(_format_call(call) for call in lost.values())


def _is_outcome_unknown(call: PastCall) -> bool:
    """Whether a call may have been done although no success was seen.

    That is one whose end was not seen; one that failed outside, for a payment whose answer timed
    out may have arrived; and a command that failed without an exit status, so did not end itself.
    """
    if call.ok is not False:
        return call.ok is None
    effect = find_effect(call)
    unanswered = call.exit_code is None and is_shell(call.tool)
    return effect is Effect.OUTSIDE or (unanswered and effect is not Effect.NOTHING)


def find_effect(call: PastCall) -> Effect:
    """Return what a call may have changed."""
    return call.effect or judge_call(call.tool, call.about)


def list_dropped_intents(
    task: Task, revisions: Sequence[PlanRevision], waits: Sequence[Wait]
) -> tuple[str, ...]:
    """List the steps that are no longer in the plan, then the cancelled waits."""
    now = {plan.identify_step(step) for step in task.plan}
    gone = dict.fromkeys(
        step
        for revision in revisions
        for step in revision.old_plan
        if plan.identify_step(step) not in now
    )
    steps = [f"step: {_format_line(step)}" for step in gone]
    called_off = [
        f"wait: {_format_line(wait.target)} until {_format_line(wait.wake_when)}"
        for wait in waits
        if wait.status is WaitStatus.CANCELLED
    ]
    return (*steps, *called_off)


def _format_call(call: PastCall) -> str:
    about = f": {_format_line(call.about)}" if call.about else ""
    ended = "" if call.exit_code is None else f" (exit {call.exit_code})"
    return f"{call.tool}{about}{ended}"


def _format_line(text: str) -> str:
    return clip(to_one_line(text), LINE_BYTES)
