"""Build the card of a task: its steps, what it waits for, and how it ended.

Source: docs/origins.md, "The progress card".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.tasks.plan import compute_progress
from openclaw_taskmem.domain.text.texts import clip, format_count, quote_line, to_plain_line
from openclaw_taskmem.domain.wakes.notices import NAME_BYTES, capitalize_first
from taskmem_hookspecs import (
    Card,
    Run,
    RunState,
    StepState,
    Task,
    TaskFacts,
    TaskStatus,
    Wait,
    WaitStatus,
)
from taskmem_hookspecs.hosts import CardStep

MOST_STEPS: Final = 50
"""Most steps that a host accepts.

Source: https://github.com/openclaw/openclaw/blob/main/docs/tools/progress-card.md.
"""
STEP_BYTES: Final = 300
_EARLIER_STEPS: Final = 5
"""Steps shown before the current one if there are too many."""
_CARD_WAITS: Final = 3
_CARD_WAIT_BYTES: Final = 160
ASKED_BYTES: Final = 400
_MARKDOWN_SIGNS: Final = re.compile(r"([\\`*_\[\]<>#|~])")
"""Characters that Markdown would interpret."""
_ENDED_SENTENCES: Final[Mapping[TaskStatus, str]] = {
    TaskStatus.COMPLETED: "Done.",
    TaskStatus.FAILED: "Failed.",
}


def build_card(facts: TaskFacts, run: Run | None) -> Card | None:
    """Build a task's card; None: the task is implicit or cancelled.

    `run` is the task's last run, which may have ended; None: it had none.
    """
    task = facts.task
    if task.implicit or task.status is TaskStatus.CANCELLED:
        return None
    first, steps = _list_card_steps(task, run)
    notes = [*_describe_status(task, run), *_describe_card_waits(facts.waits)]
    if len(task.plan) > MOST_STEPS:
        notes.append(
            f"Steps {first + 1} to {first + len(steps)} of {format_count(len(task.plan), 'step')}."
        )
    title = f"**{_escape_markdown(task.name, NAME_BYTES)}**"
    return Card(markdown="\n\n".join((title, *notes)), plan=tuple(steps), since=task.created_at)


def _list_card_steps(task: Task, run: Run | None) -> tuple[int, Sequence[CardStep]]:
    """Return the index of the first step to show, from 0, and the steps to show."""
    current = compute_progress(task).current
    works = task.status is TaskStatus.ACTIVE and not (run and run.state.is_waiting)
    place = current if current is not None else len(task.plan)
    first = max(0, min(place - _EARLIER_STEPS, len(task.plan) - MOST_STEPS))

    def state(step: int) -> StepState:
        if step in task.done:
            return StepState.COMPLETED
        return StepState.IN_PROGRESS if works and step == current else StepState.PENDING

    return first, [
        CardStep(
            step=clip(to_plain_line(task.plan[step]), STEP_BYTES) or f"Step {step + 1}",
            status=state(step),
        )
        for step in range(first, min(first + MOST_STEPS, len(task.plan)))
    ]


def _describe_status(task: Task, run: Run | None) -> Sequence[str]:
    if task.status in _ENDED_SENTENCES:
        return (_ENDED_SENTENCES[task.status],)
    need = current_run.describe_need(run) if run else None
    if run is not None and need is not None:
        asked = (
            f": {_escape_markdown(run.dialogue.question, ASKED_BYTES)}"
            if run.dialogue.question
            else "."
        )
        return (f"Waits for {need}{asked}",)
    if task.status is TaskStatus.PAUSED or (run and run.state is RunState.BLOCKED):
        return ("Paused.",)
    return ()


def _describe_card_waits(waits: Sequence[Wait]) -> Sequence[str]:
    """Say what the task's waits wait for, in the agent's words."""
    watched = [wait for wait in waits if wait.status is WaitStatus.WATCHING]
    lines = [f"Waits for {_describe_card_wait(wait)}." for wait in watched[:_CARD_WAITS]]
    more = len(watched) - _CARD_WAITS
    return (*lines, f"Waits for {more} more.") if more > 0 else lines


def _describe_card_wait(wait: Wait) -> str:
    scheme, _, name = wait.target.partition(":")
    target = _escape_markdown(name or scheme, _CARD_WAIT_BYTES)
    when = _MARKDOWN_SIGNS.sub(r"\\\1", quote_line(to_plain_line(wait.wake_when), _CARD_WAIT_BYTES))
    return f"{target} until {when}"


def _escape_markdown(text: str, size: int) -> str:
    """Write a text on one line, with Markdown's characters escaped."""
    return _MARKDOWN_SIGNS.sub(r"\\\1", capitalize_first(clip(to_plain_line(text), size)))
