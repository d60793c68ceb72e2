"""Which of the open runs of a session its turns work on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from openclaw_taskmem.domain.callers import is_gateway_session
from openclaw_taskmem.domain.run_policy import RunReason
from taskmem_hookspecs import Owner, Run, RunState

OPEN: Final = (RunState.RUNNING, RunState.QUEUED)
"""The states in which there is something to do for a session's agent."""

_NEEDS: Final[Mapping[str, str]] = {
    RunReason.QUESTION: "your answer",
    RunReason.ANSWERED: "its agent, which has your answer",
    RunReason.CREDENTIALS: "a key that the model's provider takes",
}


def find_current_run(runs: Sequence[Run], owner: Owner) -> Run | None:
    """Return the run that a session works on; None: there is none.

    It is the one that its turn holds already, then one that may be gone on with, and
    else one that waits for the user: what is called meanwhile may be for it.

    Args:
        runs: The open runs of the session, that of the latest task first.
        owner: Who works in it.
    """
    own = [run for run in runs if can_work_on(run, owner)]
    held = [run for run in own if is_at_work(run)]
    open_ = [run for run in own if run.state in OPEN]
    return next(iter((*held, *open_, *filter(is_waiting_for_word, own))), None)


def can_work_on(run: Run, owner: Owner) -> bool:
    """Whether a run is an owner's to go on with: it has held it, or may claim it."""
    if run.state is RunState.QUEUED:
        return run.role in (None, owner.role)
    return owner.same(run.owner)


def is_at_work(run: Run) -> bool:
    """Whether a turn works on a run now: between turns it has no lease."""
    return run.state is RunState.RUNNING and run.lease_until is not None


def describe_need(run: Run) -> str | None:
    """Tell its user what a run waits for; None: nothing, or only to be taken up."""
    if run.state is RunState.REVIEW:
        return "your review"
    if run.state is not RunState.BLOCKED or run.why in (RunReason.PAUSED, RunReason.STOPPED):
        return None
    return _NEEDS.get(run.why or "", "your word")


def find_awaited(run: Run) -> str | None:
    """Return what a run waits for of somebody else; None: nothing.

    A `claim` by its role or by anybody, the user's `review`, the `answer` to a
    question, or another `word` of the user.
    """
    if run.state is RunState.QUEUED:
        told = is_gateway_session(run.session_key)
        return None if told else "claim"
    if run.state is RunState.REVIEW:
        return "review"
    if has_open_question(run):
        return "answer"
    return "word" if needs_word(run) and run.why != RunReason.STOPPED else None


def has_open_question(run: Run) -> bool:
    """Whether a run waits for the user's answer to what its agent asked."""
    return run.state is RunState.BLOCKED and run.why == RunReason.QUESTION


def can_take_answer(run: Run) -> bool:
    """Whether what its user says to a run is for its agent, on whose act it goes on."""
    return has_open_question(run) or (
        run.state is RunState.BLOCKED and run.why == RunReason.ANSWERED
    )


def is_waiting_for_word(run: Run) -> bool:
    """Whether a run waits for a word of the user, on which its agent then acts.

    What was paused waits for none: that is as the user or the agent wants it.
    """
    return run.state is RunState.BLOCKED and run.why != RunReason.PAUSED


def needs_word(run: Run) -> bool:
    """Whether a run waits for a word of the user that has not come yet."""
    return is_waiting_for_word(run) and run.why != RunReason.ANSWERED
