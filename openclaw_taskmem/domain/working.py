"""Which of the open runs of a session its turns work on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from openclaw_taskmem.domain.callers import is_gateway_session
from openclaw_taskmem.domain.run_policy import Why
from taskmem_hookspecs import Owner, Run, RunState

OPEN: Final = (RunState.RUNNING, RunState.QUEUED)
"""The states in which there is something to do for a session's agent."""

_NEEDS: Final[Mapping[str, str]] = {
    Why.QUESTION: "your answer",
    Why.ANSWERED: "its agent, which has your answer",
    Why.CREDENTIALS: "a key that the model's provider takes",
}


def worked_on(runs: Sequence[Run], owner: Owner) -> Run | None:
    """Return the run that a session works on; None: there is none.

    It is the one that its turn holds already, then one that may be gone on with, and
    else one that waits for the user: what is called meanwhile may be for it.

    Args:
        runs: The open runs of the session, that of the latest task first.
        owner: Who works in it.
    """
    own = [run for run in runs if may_work_on(run, owner)]
    held = [run for run in own if at_work(run)]
    open_ = [run for run in own if run.state in OPEN]
    return next(iter((*held, *open_, *filter(waits_for_word, own))), None)


def may_work_on(run: Run, owner: Owner) -> bool:
    """Whether a run is an owner's to go on with: it has held it, or may claim it."""
    if run.state is RunState.QUEUED:
        return run.role in (None, owner.role)
    return owner.same(run.owner)


def at_work(run: Run) -> bool:
    """Whether a turn works on a run now: between turns it has no lease."""
    return run.state is RunState.RUNNING and run.lease_until is not None


def describe_need(run: Run) -> str | None:
    """Tell its user what a run waits for; None: nothing, or only to be taken up."""
    if run.state is RunState.REVIEW:
        return "your review"
    if run.state is not RunState.BLOCKED or run.why in (Why.PAUSED, Why.STOPPED):
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
    if asks(run):
        return "answer"
    return "word" if lacks_word(run) and run.why != Why.STOPPED else None


def asks(run: Run) -> bool:
    """Whether a run waits for the user's answer to what its agent asked."""
    return run.state is RunState.BLOCKED and run.why == Why.QUESTION


def takes_answer(run: Run) -> bool:
    """Whether what its user says to a run is for its agent, on whose act it goes on."""
    return asks(run) or (run.state is RunState.BLOCKED and run.why == Why.ANSWERED)


def waits_for_word(run: Run) -> bool:
    """Whether a run waits for a word of the user, on which its agent then acts.

    What was paused waits for none: that is as the user or the agent wants it.
    """
    return run.state is RunState.BLOCKED and run.why != Why.PAUSED


def lacks_word(run: Run) -> bool:
    """Whether a run waits for a word of the user that has not come yet."""
    return waits_for_word(run) and run.why != Why.ANSWERED
