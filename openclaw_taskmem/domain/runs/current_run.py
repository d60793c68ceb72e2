"""Tell whose an open run is, what it waits for, and how many calls its step has left.

`domain/changes/rights.py` decides what a caller may do to a task at all.

| state           | who may write    | who may claim |
| --------------- | ---------------- | ------------- |
| queued          | its session, [1] | [1]           |
| running         | its owner        | its owner [3] |
| blocked, review | its owner [2]    | its owner [2] |

A person may write in every state. A run that only keeps the question of a task that nobody holds
counts as queued. While a run has an owner, so may a caller that gives the token of
its last claim, unless that caller is known to be another agent. Nobody may write with any other
token, not even a person or the owner.

[1] Anybody; if the run has a role, only that role.
[2] The last owner, else the run's session. Anybody else needs `task_resume` first (by the user; by
any agent if the owner's process has ended), which requeues the run.
[3] A run whose owner's process has ended is requeued before it is claimed.

Only the steps of tasks that ask for it have a budget.

Source: docs/origins.md, "Claims and leases" and "Steps with budgets".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from openclaw_taskmem.domain.callers import AGENT, Caller, SessionKeys
from openclaw_taskmem.domain.errors import Fenced, RunHeld
from openclaw_taskmem.domain.policies import RunPolicy
from openclaw_taskmem.domain.tasks.plan import compute_progress
from openclaw_taskmem.domain.text.texts import format_count, quote_step
from taskmem_hookspecs import (
    RECORD_PREFIX,
    Owner,
    Run,
    RunQuery,
    RunState,
    Task,
    TaskFacts,
    TaskStatus,
    Value,
)


def guard_claim(run: Run, owner: Owner) -> None:
    """Refuse a claim of a run that the owner may not claim.

    Raises:
        RunHeld: Another owner holds the run, or only another may claim it; the sentence says who.
    """
    if run.state is RunState.RUNNING and not owner.same(run.owner):
        raise RunHeld(
            f"{run.run_id} is held by {describe_owner(run.owner)}; claim another, or wait "
            "until that one ends or is seen to be gone."
        )
    unheld = keeps_only_question(run) and run.session_key is None
    if run.state.is_waiting and not (unheld or is_owned_by(run, owner)):
        raise RunHeld(f"{_describe_waiting_run(run)}; claim another, or {_describe_takeover(run)}.")
    if not is_for_owner(run, owner):
        way = f"{describe_claim(run)} if that is yours"
        if owner.boot is not None:  # its gateway says that it is not
            way = "leave it to an agent of that role"
        raise RunHeld(
            f"{run.run_id} is for the role {run.role}, and not for {owner.role}; "
            f"{way}, or claim another."
        )


def can_write(run: Run | None, caller: Caller, token: int | None) -> bool:
    """True if a caller may write for a run, by the table above; always if there is no run.

    A token, if given, alone decides: it must be that of the current claim, from a caller who may
    use it.
    """
    if run is None:
        return True
    if token is not None:
        return token == run.token and _may_give_token(run, caller)
    if caller.person:
        return True
    if run.state is RunState.QUEUED or keeps_only_question(run):
        own = run.session_key is not None and run.session_key == caller.session_key
        return own or is_for_owner(run, caller.owner)
    return is_owned_by(run, caller.owner)


def guard_write(run: Run | None, caller: Caller, token: int | None, consequence: str) -> None:
    """Refuse a write for a run by a caller who may not.

    `consequence` says what is not done then.

    Raises:
        Fenced: The token is of an older claim, of one that has ended, or of none.
        RunHeld: Only another may write: the run's owner, its session or an agent of its role.
    """
    if run is None or can_write(run, caller, token):
        return
    if token is not None and token == run.token and run.owner is None:
        raise Fenced(
            f"Your claim of {run.run_id} has ended, so {consequence}; "
            f"{_describe_lost_claim(run, caller)}."
        )
    if token == run.token:
        raise RunHeld(
            f"{run.run_id} is held by {describe_owner(run.owner)}, so {consequence}; leave it to "
            "that one, for a token counts only from who claimed it."
        )
    if token is not None and not 0 < token <= run.token:
        raise Fenced(
            f"The token {token} is unknown for {run.run_id} of {run.task_id}, so "
            f"{consequence}; {_describe_way_to_continue(run, caller)}."
        )
    if token is not None:
        raise Fenced(
            f"The token of {run.run_id} is {run.token}, and yours is {token}, so "
            f"{consequence}; {_describe_lost_claim(run, caller)}."
        )
    if run.state.is_waiting:
        raise RunHeld(f"{_describe_waiting_run(run)}, so {consequence}; {_describe_takeover(run)}.")
    if run.state is RunState.QUEUED:
        raise RunHeld(
            f"{run.run_id} is queued for the role {run.role}, so {consequence}; "
            f"{describe_claim(run)} if that is yours, or leave it to who does."
        )
    way = ", or give the token of your claim" if _may_give_token(run, caller) else ""
    raise RunHeld(
        f"{run.run_id} is held by {describe_owner(run.owner)}, so {consequence}; leave it to that "
        f"one{way}."
    )


def guard_call(
    task_id: str,
    run: Run | None,
    caller: Caller,
    token: int | None,
    *,
    writes: bool,
    needs_open_run: bool,
) -> bool:
    """Return whether the caller of a tool may write for the task's run.

    `writes`: the call asks for what only such a caller may do. `needs_open_run`: a token is refused
    if the task has no open run.

    Raises:
        Fenced: The call writes with a token of an older claim or of none, or it gives a token that
            needs an open run, and there is none.
        RunHeld: The call writes, and only another may write for the run.
    """
    refused = "nothing was written"
    if writes:
        guard_write(run, caller, token, refused)
    if needs_open_run:
        guard_token(task_id, run, token, refused)
    return can_write(run, caller, token)


def guard_token(task_id: str, run: Run | None, token: int | None, consequence: str) -> None:
    """Refuse a token for a task that has no open run any more.

    Raises:
        Fenced: A token was given; the sentence says what to do.
    """
    if run is None and token is not None:
        raise Fenced(
            f"{task_id} has no run by now, so no claim of it holds, and {consequence}; read "
            "what became of it with task_status before you claim it again."
        )


def has_claim(run: Run, caller: Caller, token: int | None) -> bool:
    """True if a caller owns a running run, or gives the token of its claim."""
    if run.state is not RunState.RUNNING or run.owner is None:
        return False
    if run.owner.same(caller.owner):
        return True
    return token == run.token and _may_give_token(run, caller)


def _may_give_token(run: Run, caller: Caller) -> bool:
    """True if the run has an owner, and a caller may use the token of its claim.

    A caller known to be another agent than the owner may not, since tokens are easy to guess.
    """
    holder = run.owner
    if holder is None or caller.person or caller.owner is None:
        return holder is not None
    return holder.same(caller.owner)


def is_owned_by(run: Run, owner: Owner | None) -> bool:
    """True if an owner may go on with a run that is running, blocked or in review."""
    if run.owner is not None:
        return run.owner.same(owner)
    session = owner.session_key if owner else None
    return run.session_key is not None and run.session_key == session


def _describe_way_to_continue(run: Run, caller: Caller) -> str:
    """Say how a caller with an unknown token can go on."""
    if run.state.is_waiting:
        return "it waits for the user now"
    if run.owner is None:
        return f"nobody holds it now: {describe_claim(run)} to go on with it"
    if run.owner.same(caller.owner):
        return "you hold it: give the token that your claim was given, or none"
    return f"it is held by {describe_owner(run.owner)}: leave it to that one"


def _describe_lost_claim(run: Run, caller: Caller) -> str:
    """Say what happened to a claim whose token is not valid any more."""
    if run.state.is_waiting:
        return "it waits for the user now"
    if run.owner is None:
        return f"nobody holds it by now: {describe_claim(run)} to go on with it"
    if run.owner.same(caller.owner):
        return "you hold it still, by a later claim: give that one's token, or none"
    return "another claimed it: stop working on it, or claim it again"


def describe_claim(run: Run) -> str:
    """Say how to claim a queued run."""
    role = "" if run.role is None else f' and role "{run.role}"'
    return f"claim it with task_claim, its task_id{role},"


def is_for_owner(run: Run, owner: Owner | None) -> bool:
    """True if a run has no role, or the owner's role."""
    return run.role is None or (owner is not None and run.role == owner.role)


def _describe_waiting_run(run: Run) -> str:
    who = "its own session" if run.owner is None else describe_owner(run.owner)
    why = run.why or run.state
    return f"{run.run_id} waits for the user ({why}), and only {who} goes on with it"


def _describe_takeover(run: Run) -> str:
    """Say how another agent can take over a run that waits for the user."""
    way = "let the user call task_resume, and claim it then with task_claim"
    alone = run.owner is not None and run.owner.session_key is None
    return f"call task_resume if that agent has ended, or {way}" if alone else way


def describe_owner(owner: Owner | None) -> str:
    """Name the owner of a run."""
    if owner is None:
        return "nobody"
    if owner.session_key is not None:
        return f"{owner.role} in session {owner.session_key}"
    if owner.role == AGENT and owner.process is not None:
        return f"an agent (process {owner.process.partition(':')[0]})"
    return owner.role


# --- what a run is at ----------------------------------------------------------


OPEN_STATES: Final = tuple(state for state in RunState if not state.terminal)
WAITING_STATES: Final = tuple(state for state in RunState if state.is_waiting)


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

UNHEARD_DELAY: Final = timedelta(seconds=30)
"""How long after a lease expires its home's daemon has to end or renew it."""
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


def is_unheard(run: Run, now: datetime) -> bool:
    """True if the lease of who works on a run is over, and the run was left as it is.

    A daemon ends or renews the leases of its home as they expire, so it is away, too.
    """
    until = run.lease_until if run.state is RunState.RUNNING else None
    return until is not None and now - until > UNHEARD_DELAY


def describe_need(run: Run) -> str | None:
    """Tell the user what a run waits for; None: nothing, or only to be resumed."""
    if run.state is RunState.REVIEW:
        return "your review"
    if run.state is not RunState.BLOCKED or run.why in (RunReason.PAUSED, RunReason.STOPPED):
        return None
    return _NEEDED_THINGS.get(run.why or "", "your word")


def find_awaited(run: Run, sessions: SessionKeys) -> str | None:
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


def keeps_only_question(run: Run) -> bool:
    """True if a run was never claimed: it only keeps a question to the user, open or answered."""
    return can_take_answer(run) and (run.owner, run.role, run.started_at) == (None, None, None)


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


def name_record(task_id: str) -> str:
    """Return the id of the run that keeps the calls which a task's host reports by hooks.

    It is never open, so nobody owns, leases or wakes it, and no right depends on it.
    """
    return f"{RECORD_PREFIX}{task_id.removeprefix('task_')}"


def is_record(run: Run | None) -> bool:
    """True if a run only keeps calls (`name_record`)."""
    return run is not None and run.run_id == name_record(run.task_id)


def is_left_behind(run: Run, now: datetime, policy: RunPolicy) -> bool:
    """True if the run is queued and its owner was not seen for `fresh_seconds`."""
    unseen = (now - run.seen_at).total_seconds()
    return run.state is RunState.QUEUED and unseen > policy.fresh_seconds


# --- budgets of steps ---------------------------------------------------------


_MOST_SEGMENT_STEPS: Final = 10
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
    kept = plan[: done + _MOST_SEGMENT_STEPS]
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
