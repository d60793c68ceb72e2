"""Answer questions about a task without a model.

The answers say what is done, what is next, what remains, what blocks it, and its waits. Source:
docs/origins.md, "Answers to questions".
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from openclaw_taskmem.domain.changes.handoff_notes import HandoffNotes
from openclaw_taskmem.domain.tasks import plan, thread
from openclaw_taskmem.domain.tasks.thread_search import ThreadQuery
from openclaw_taskmem.domain.text.texts import (
    clip,
    clip_step,
    format_duration,
    format_step_numbers,
    quote_line,
    quote_step,
)
from taskmem_hookspecs import Message, QueryFacts, Role, Run, RunState, Task, TaskStatus, WaitStatus

_WENT_WRONG: Final = (WaitStatus.ERROR, WaitStatus.TIMEOUT)
_NAMED: Final = 6
"""Most steps to name; further ones are counted."""


def describe_unheard(*, ends: bool) -> str:
    """Tell a run's owner that the user has sent messages meanwhile.

    `ends`: the owner tried to complete the task, which waits until the messages are handled.
    """
    stays = ", so it is not completed yet" if ends else ""
    return f"The user has spoken meanwhile{stays}: act first on user_said."


def describe_handoff_notes(task: Task, left: HandoffNotes) -> str:
    """Tell the agent that claims a task about the hand-off notes and what comes next."""
    done = plan.compute_progress(task).current is None
    lines = ["Read the note of who handed it to you."] if left.note is not None else []
    if left.reviewed and left.user_said:
        lines.append(
            "The user sent it back: do what they say first, see user_said. Open again "
            "with reopened_steps what has to be done again, or plan what is new with "
            "task_plan_update, and hand it off for review again when done."
        )
    elif left.reviewed:
        lines.append(
            "It was taken out of the user's review without a word of theirs: ask them "
            "what is missing, with ask, and hand it off for review again when done."
        )
    elif left.user_said:
        lines.append("Act first on what the user has said, see user_said.")
    if done and left.user_said and not left.reviewed:
        lines.append(
            "All steps are marked done: open again with reopened_steps what that "
            'undoes, and set status "completed" only when it is done, too.'
        )
    elif not (done and left.reviewed):
        lines.append(describe_next_step(task))
    return " ".join(lines)


def summarize_task(facts: QueryFacts, question: ThreadQuery) -> str:
    """Say where a task stands, and answer about the steps asked for, in a few sentences."""
    task = facts.task
    sentences = [
        *_describe_status(task),
        *_describe_asked_steps(task, question),
        *_describe_blockers(facts),
        *_describe_waits(facts, asked=question.waits),
        *_describe_last_message(facts),
    ]
    return " ".join(sentences)


def _describe_status(task: Task) -> list[str]:
    progress = plan.compute_progress(task)
    lines: list[str] = []
    if task.status is not TaskStatus.ACTIVE:
        lines.append(f"The task is {task.status}.")
    if progress.completed:
        lines.append(f"Completed {_describe_steps(task, progress.completed)}.")
    else:
        lines.append("No step is done yet.")
    if progress.current is None:
        lines.append("All steps are done.")
        return lines
    current = quote_step(task.plan[progress.current], 200)
    place = "Currently on" if task.status is TaskStatus.ACTIVE else "Not done:"
    lines.append(f"{place} step {progress.current + 1}, {current}.")
    if progress.remaining:
        lines.append(f"Remaining: {_describe_steps(task, progress.remaining)}.")
    return lines


def _describe_steps(task: Task, indices: Collection[int]) -> str:
    noun = "step" if len(indices) == 1 else "steps"
    chosen = sorted(indices)
    names = ", ".join(clip_step(task.plan[i]) for i in chosen[:_NAMED])
    more = len(chosen) - _NAMED
    rest = f", and {more} more" if more > 0 else ""
    return f"{noun} {format_step_numbers(chosen)} ({names}{rest})"


def _describe_asked_steps(task: Task, question: ThreadQuery) -> list[str]:
    asked = sorted(question.steps or question.like_steps)
    return [
        f"Step {step + 1}, {quote_step(task.plan[step])}, is "
        f"{'done' if step in task.done else 'not done'}."
        for step in asked[:_NAMED]
    ]


def _describe_blockers(facts: QueryFacts) -> list[str]:
    """Say which trouble was noted, or that none was."""
    trouble = thread.find_trouble(facts.messages)
    if trouble is not None:
        return [f"Possible blocker: {quote_line(trouble.content, 240)}."]
    if facts.task.status is TaskStatus.FAILED:
        return ["Why it failed was not noted."]
    went_wrong = facts.task.linkage.last_wait_state in _WENT_WRONG
    return [] if went_wrong else ["No blockers noted."]


def _describe_waits(facts: QueryFacts, *, asked: bool) -> list[str]:
    lines: list[str] = []
    for wait in facts.waits:
        if wait.status is WaitStatus.WATCHING:
            left = format_duration((wait.deadline_at - facts.now).total_seconds())
            lines.append(
                f"Waiting on {clip(wait.target, 80)} ({wait.wait_id}) until "
                f"{quote_line(wait.wake_when, 160)}, {left} left."
            )
    if not lines and facts.task.linkage.last_wait_state is not None:
        lines.append(f"The last wait ended as {facts.task.linkage.last_wait_state}.")
    return lines or (["Nothing is waited for."] if asked else [])


def _describe_last_message(facts: QueryFacts) -> list[str]:
    spoken = [message for message in facts.messages if message.role is not Role.SYSTEM]
    newest = thread.choose_meaningful(spoken or facts.messages, most=1)
    if not newest:
        return ["Nothing was narrated yet."]
    ago = format_duration((facts.now - newest[0].created_at).total_seconds())
    return [f"Last message, {ago} ago: {quote_line(newest[0].content, 300)}."]


REVIEWED: Final = (
    "All steps are done, and the user checks the result: stop working on it, and give "
    "what they say to task_resume, as answer."
)


def describe_next_step(task: Task, messages: Sequence[Message] = (), run: Run | None = None) -> str:
    """Say what comes next, for the end of an acknowledgement.

    `messages` are the task's newest, oldest first, and `run` is its open run, if known.
    """
    progress = plan.compute_progress(task)
    if task.status.terminal:
        return "Nothing is watched any more."
    if progress.current is None and thread.has_user_spoken_last(messages):
        return (
            "All steps are marked done, but the user has spoken since: do first what "
            "they say, and reopen with reopened_steps what that undoes."
        )
    if progress.current is None and run and run.state is RunState.REVIEW:
        return REVIEWED
    if progress.current is None:
        return 'All steps are done: set status "completed" when the result is checked.'
    rests = task.status is TaskStatus.PAUSED
    when = ", once it is active again" if rests else ""
    step = quote_step(task.plan[progress.current])
    return f"Next{when}: step {progress.current + 1}, {step}."
