"""Decide who may claim a run and write for it, and say why others may not.

`domain/changes/rights.py` decides what a caller may do to a task at all.

| state           | who may write    | who may claim |
| --------------- | ---------------- | ------------- |
| queued          | its session, [1] | [1]           |
| running         | its owner        | its owner [3] |
| blocked, review | its owner [2]    | its owner [2] |

A person may write in every state. While a run has an owner, so may a caller that gives the token of
its last claim, unless that caller is known to be another agent. Nobody may write with any other
token, not even a person or the owner.

[1] Anybody; if the run has a role, only that role.
[2] The last owner, else the run's session. Anybody else needs `task_resume` first (by the user; by
any agent if the owner's process has ended), which requeues the run.
[3] A run whose owner's process has ended is requeued before it is claimed.

Source: docs/origins.md, "Claims and leases".
"""

from __future__ import annotations

from openclaw_taskmem.domain.callers import AGENT, Caller
from openclaw_taskmem.domain.errors import Fenced, RunHeld
from taskmem_hookspecs import Owner, Run, RunState


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
    if run.state.is_waiting and not is_owned_by(run, owner):
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
    if run.state is RunState.QUEUED:
        own = run.session_key is not None and run.session_key == caller.session_key
        return own or is_for_owner(run, caller.owner)
    return is_owned_by(run, caller.owner)


def guard_write(run: Run | None, caller: Caller, token: int | None, wish: str) -> None:
    """Refuse a write for a run by a caller who may not.

    `wish` says what is not done then.

    Raises:
        Fenced: The token is of an older claim, of one that has ended, or of none.
        RunHeld: Only another may write: the run's owner, its session or an agent of its role.
    """
    if run is None or can_write(run, caller, token):
        return
    if token is not None and token == run.token and run.owner is None:
        raise Fenced(
            f"Your claim of {run.run_id} has ended, so {wish}; {_describe_lost_claim(run, caller)}."
        )
    if token == run.token:
        raise RunHeld(
            f"{run.run_id} is held by {describe_owner(run.owner)}, so {wish}; leave it to "
            "that one, for a token counts only from who claimed it."
        )
    if token is not None and not 0 < token <= run.token:
        raise Fenced(
            f"The token {token} is unknown for {run.run_id} of {run.task_id}, so "
            f"{wish}; {_describe_way_to_continue(run, caller)}."
        )
    if token is not None:
        raise Fenced(
            f"The token of {run.run_id} is {run.token}, and yours is {token}, so "
            f"{wish}; {_describe_lost_claim(run, caller)}."
        )
    if run.state.is_waiting:
        raise RunHeld(f"{_describe_waiting_run(run)}, so {wish}; {_describe_takeover(run)}.")
    if run.state is RunState.QUEUED:
        raise RunHeld(
            f"{run.run_id} is queued for the role {run.role}, so {wish}; "
            f"{describe_claim(run)} if that is yours, or leave it to who does."
        )
    way = ", or give the token of your claim" if _may_give_token(run, caller) else ""
    raise RunHeld(
        f"{run.run_id} is held by {describe_owner(run.owner)}, so {wish}; leave it to that "
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


def guard_token(task_id: str, run: Run | None, token: int | None, wish: str) -> None:
    """Refuse a token for a task that has no open run any more.

    Raises:
        Fenced: A token was given; the sentence says what to do.
    """
    if run is None and token is not None:
        raise Fenced(
            f"{task_id} has no run by now, so no claim of it holds, and {wish}; read "
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
