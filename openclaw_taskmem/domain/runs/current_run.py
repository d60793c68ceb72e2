"""Choose which open run of a session its turns work on, and say what a run waits for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from openclaw_taskmem.domain.runs.policy import RunReason
from taskmem_hookspecs import Owner, Run, RunState, SessionNames

OPEN: Final = (RunState.RUNNING, RunState.QUEUED)
"""States in which the session's agent has work to do."""

_NEEDS: Final[Mapping[str, str]] = {
    RunReason.QUESTION: "your answer",
    RunReason.ANSWERED: "its agent, which has your answer",
    RunReason.CREDENTIALS: "a key that the model's provider takes",
}


def find_current_run(runs: Sequence[Run], owner: Owner) -> Run | None:
    """Return the run that a session works on; None: there is none.

    First the run that a turn works on, then one that is running or queued, then one that waits for
    the user: a call in the meantime may belong to it.

    Args:
        runs: The open runs of the session, that of the latest task first.
        owner: The session's agent.
    """
    own = [run for run in runs if can_work_on(run, owner)]
    held = [run for run in own if is_at_work(run)]
    open_ = [run for run in own if run.state in OPEN]
    return next(iter((*held, *open_, *filter(is_waiting_for_word, own))), None)


def can_work_on(run: Run, owner: Owner) -> bool:
    """True if an owner may go on with a run: it is the last owner, or may claim it."""
    if run.state is RunState.QUEUED:
        return run.role in (None, owner.role)
    return owner.same(run.owner)


def is_at_work(run: Run) -> bool:
    """True if a turn works on a run now. Between turns it has no lease."""
    return run.state is RunState.RUNNING and run.lease_until is not None


def describe_need(run: Run) -> str | None:
    """Tell the user what a run waits for; None: nothing, or only to be resumed."""
    if run.state is RunState.REVIEW:
        return "your review"
    if run.state is not RunState.BLOCKED or run.why in (RunReason.PAUSED, RunReason.STOPPED):
        return None
    return _NEEDS.get(run.why or "", "your word")


def find_awaited(run: Run, sessions: SessionNames) -> str | None:
    """Return the kind of act by others that a run waits for; None: none.

    `claim` by its role or anybody, the user's `review`, the `answer` to a question, or another
    `word` of the user.
    """
    if run.state is RunState.QUEUED:
        is_own = sessions.is_own(run.session_key)
        return None if is_own else "claim"
    if run.state is RunState.REVIEW:
        return "review"
    if has_open_question(run):
        return "answer"
    return "word" if needs_word(run) and run.why != RunReason.STOPPED else None


def has_open_question(run: Run) -> bool:
    """True if a run waits for the user's answer to its agent's question."""
    return run.state is RunState.BLOCKED and run.why == RunReason.QUESTION


def can_take_answer(run: Run) -> bool:
    """True if a run has asked the user a question that is open or was answered just now."""
    return has_open_question(run) or (
        run.state is RunState.BLOCKED and run.why == RunReason.ANSWERED
    )


def is_waiting_for_word(run: Run) -> bool:
    """True if a run is blocked until the user says something and its agent acts on it.

    A paused run is not: the user or the agent wanted the pause.
    """
    return run.state is RunState.BLOCKED and run.why != RunReason.PAUSED


def needs_word(run: Run) -> bool:
    """True if a run is blocked and the user has not answered yet."""
    return is_waiting_for_word(run) and run.why != RunReason.ANSWERED
