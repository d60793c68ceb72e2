"""Tell which open run a session works on, what it waits for, and how many calls its step has left.

Only the steps of tasks that ask for it have a budget. Source: docs/origins.md, "Steps with
budgets".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final

from openclaw_taskmem.domain.policies import RunPolicy
from openclaw_taskmem.domain.tasks.plan import compute_progress
from openclaw_taskmem.domain.text.texts import format_count, quote_step
from taskmem_hookspecs import (
    Owner,
    Run,
    RunQuery,
    RunState,
    SessionNames,
    Task,
    TaskFacts,
    TaskStatus,
    Value,
)

OPEN_STATES: Final = tuple(state for state in RunState if not state.terminal)


class RunReason(StrEnum):
    """Why a run is blocked, queued, in review or failed: the values of `Run.why`."""

    QUESTION = "question"
    """Blocked: its agent asked the user a question."""
    ANSWERED = "answered"
    """Blocked: the user answered; its agent has not acted on the answer yet."""
    STOPPED = "stopped"
    """Blocked: somebody stopped its turn."""
    PAUSED = "paused"
    """Blocked: its task was paused."""
    STALE = "stale"
    """Blocked: it was interrupted too long ago to resume without asking."""
    PROMPT_CHANGED = "prompt_changed"
    """Blocked: its agent's instructions changed since it began."""
    CREDENTIALS = "credentials"
    """Blocked: the provider refused the API key or demands payment."""
    INTERRUPTED = "interrupted"
    """Queued: its gateway restarted. Failed: it was interrupted too often."""
    LEASE_EXPIRED = "lease_expired"
    """Queued: its lease expired without a sign of its owner."""
    OWNER_GONE = "owner_gone"
    """Queued: its owner's process has ended."""
    RESET = "reset"
    """Queued: somebody reset it."""
    BACKGROUND = "background"
    """Queued: it goes on in a session of its own."""
    HANDED_OFF = "handed_off"
    """Queued for another role. In review: handed to the user."""
    STALLED = "stalled_loop"
    """Failed: too many consecutive rounds without progress."""
    ROUNDS = "round_limit"
    """Failed: it reached the limit of rounds."""
    HOURS = "hour_limit"
    """Failed: it reached the limit of working hours."""
    PROVIDER = "provider_error"
    """Failed: the provider failed more often than it is retried."""
    ABORTED = "aborted"
    """Failed: its agent gave it up."""


WORKABLE_STATES: Final = (RunState.RUNNING, RunState.QUEUED)
"""States in which the session's agent has work to do."""

_NEEDED_THINGS: Final[Mapping[str, str]] = {
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
    open_ = [run for run in own if run.state in WORKABLE_STATES]
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
    return _NEEDED_THINGS.get(run.why or "", "your word")


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


def build_queue_query(role: str, limit: int) -> RunQuery:
    """Build the query for the queued runs that a role may claim, oldest first."""
    states = (RunState.QUEUED,)
    return RunQuery(states=states, oldest_first=True, role=role, limit=limit)


def was_blocked_since(run: Run, since: datetime | None) -> bool:
    """True if the run was blocked at or after `since` and still is; None: not known, so False."""
    blocked = run.state is RunState.BLOCKED
    return blocked and since is not None and run.changed_at >= since


def is_given_away(run: Run) -> bool:
    """True if the run was handed to a role and no session has claimed it yet."""
    return run.role is not None and run.session_key is None


def has_visible_calls(run: Run | None) -> bool:
    """True if the gateway's hooks report the tool calls of the run's agent."""
    if run is None:
        return False
    return run.progress.checkpoints > 0 or (run.owner is not None and run.owner.boot is not None)


def is_left_behind(run: Run, now: datetime, policy: RunPolicy) -> bool:
    """True if the run is queued and its owner was not seen for `fresh_seconds`."""
    unseen = (now - run.seen_at).total_seconds()
    return run.state is RunState.QUEUED and unseen > policy.fresh_seconds


# --- budgets of steps ---------------------------------------------------------


MOST_STEPS: Final = 10
"""Most steps of a segmented plan."""


class Budget(Value):
    """Tool calls that the current step may still make."""

    left: int
    """Calls left; 0: none."""
    reason: str
    """The sentence that the agent reads when none are left."""


def compute_budget(facts: TaskFacts, policy: RunPolicy) -> Budget | None:
    """Compute the current step's budget; None: it has none."""
    run, task = facts.run, facts.task
    if run is None or not run.budget.segmented or run.state is not RunState.RUNNING:
        return None
    place = compute_progress(task)
    if task.status is not TaskStatus.ACTIVE or place.current is None:
        return None
    used = run.budget.step_calls if run.budget.step == place.current else 0
    bonus = run.budget.step_bonus and run.budget.step == place.current
    allowed = policy.step_tools + (policy.step_bonus if bonus else 0)
    return Budget(left=max(0, allowed - used), reason=_explain_used_up(task, run, allowed))


def cap_plan(plan: tuple[str, ...], done: int = 0) -> tuple[tuple[str, ...], int]:
    """Cut a plan to the steps that are worked on at once; return it and how many were cut.

    The first `done` steps are done and do not count.
    """
    kept = plan[: done + MOST_STEPS]
    return kept, len(plan) - len(kept)


def _explain_used_up(task: Task, run: Run, allowed: int) -> str:
    current = compute_progress(task).current or 0
    step = quote_step(task.plan[current], 120)
    given = run.budget.step_bonus and run.budget.step == current
    more = "" if given else 'outcome "more_tools" for a few more calls, once; with '
    return (
        f"Step {current + 1} of {len(task.plan)}, {step}, has used its "
        f"{format_count(allowed, 'tool call')}. Call task_step_done for {task.task_id} now: "
        f'with outcome "done" if it is done; with {more}outcome "failed" and the '
        "remaining steps if it cannot be done so; or task_abort to give the task up."
    )
