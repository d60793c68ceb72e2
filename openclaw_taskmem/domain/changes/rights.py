"""Decide who may do what to a task and its waits, and how much of them an agent may have.

A caller's relation to a task is its tie; `TABLE` has what each tie allows, and
`docs/who-may-do-what.md` prints it. Who may write for an open run and claim it also depends on the
run's state: see `domain/runs/current_run.py`. The numbers are above what was measured to work well,
so that no honest agent meets them; they do not limit people and the daemon itself.

Source: docs/decisions/0026-one-table-of-rights.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from openclaw_taskmem.domain.callers import (
    AGENT,
    GATEWAY,
    Caller,
    SessionKeys,
    is_other_gateway,
    is_same_host,
    list_host_names,
)
from openclaw_taskmem.domain.changes.task_update import UpdateRequest
from openclaw_taskmem.domain.errors import LimitReached, RunHeld
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.text.texts import format_duration
from taskmem_hookspecs import Maker, Run, RunState, Task, Value, Wait
from taskmem_hookspecs.errors import NotAllowed


class Tie(StrEnum):
    """A caller's relation to a task: the first of these that applies."""

    PERSON = "a person"
    HOLDER = "who holds its run, or held the last"
    SESSION = "its own session"
    HOST = "another process or session of its host"
    REGISTRAR = "who registered it, or handed it on"
    ROLE = "a role it is queued for"
    OTHER = "anybody else"


class Act(StrEnum):
    """An act on a task that a caller may want."""

    LIST = "list it"
    READ = "read it"
    SAY = "add a message"
    WRITE = "change it"
    WAIT = "wait for it"
    CLAIM = "claim it"
    TAKE_UP = "take it up again"
    CANCEL = "cancel it"
    RESET = "reset it"


class ActCondition(StrEnum):
    """The condition under which a tie allows an act."""

    YES = "yes"
    NO = "no"
    FREE = "unless another holds it"
    IDLE = "unless an agent holds it"
    ENDED = "once its run has ended"
    GONE = "once its agent is gone"


TABLE: Final[Mapping[Act, Mapping[Tie, ActCondition]]] = {
    act: dict(zip(Tie, (ActCondition[name] for name in row.split()), strict=True))
    for act, row in {
        Act.LIST: "YES YES YES YES YES YES NO",
        Act.READ: "YES YES YES YES YES NO NO",
        Act.SAY: "YES YES YES YES YES NO NO",
        Act.WRITE: "YES YES FREE NO ENDED NO NO",
        Act.WAIT: "YES YES YES GONE NO NO NO",
        Act.CLAIM: "FREE YES FREE GONE FREE YES GONE",
        Act.TAKE_UP: "YES YES FREE GONE ENDED GONE GONE",
        Act.CANCEL: "YES YES YES GONE IDLE NO NO",
        Act.RESET: "YES YES YES GONE IDLE NO GONE",
    }.items()
}
"""The acts that each tie to a task allows."""


class TaskHolder(Value):
    """Who works on a task, besides what its row says."""

    run: Run | None = None
    """Its open run; None: none."""
    last: Run | None = None
    """Its newest run, if that has ended; None: it has not, or there was none."""
    gone: bool = False
    """True if the agent that worked on it is known to have ended; or, if there is no run and no
    wake reaches the agent, if it was silent until the task counts as stuck."""
    unheard: bool = False
    """True if its run is held in another home, and neither its owner nor the daemon there is heard
    of: who registered it may reset or cancel it."""
    silence: float | None = None
    """Seconds of silence after which the agent counts as gone; None: never."""
    away: bool = False
    """True if its run is queued for a background session, and was seen within `fresh_seconds`."""


def find_tie(
    caller: Caller,
    task: Task,
    held: TaskHolder,
    sessions: SessionKeys,
    token: int | None = None,
) -> Tie:
    """Return a caller's tie to a task; `token` is of its claim, if it gives one."""
    run = held.run
    if caller.person:
        return Tie.PERSON
    if _is_holder(caller, held, token):
        return Tie.HOLDER
    if _is_unnamed(caller) or _is_session(caller, task, run, sessions):
        return Tie.SESSION
    if _is_host(caller, task, run, sessions):
        return Tie.HOST
    if is_agent_of(caller, *get_registrar(task), sessions) or _has_worked_last(
        caller, task, run, sessions
    ):
        return Tie.REGISTRAR
    return Tie.ROLE if not held.away and _is_for_role(run, caller) else Tie.OTHER


def get_registrar(task: Task) -> tuple[str | None, str | None, str | None]:
    """Return a task's registrar: session, host and home."""
    return task.registrar_session, task.registrar_host, task.registrar_home


def is_allowed(act: Act, tie: Tie, held: TaskHolder) -> bool:
    """True if a tie allows an act.

    `ActCondition.FREE` counts as allowed: `domain/runs/current_run.py` checks whether another owner
    holds the run.
    """
    when, run = TABLE[act][tie], held.run
    if when is ActCondition.IDLE and run is not None and run.state is RunState.QUEUED:
        return not held.away
    if when in (ActCondition.IDLE, ActCondition.ENDED):
        return run is None or held.gone or (held.unheard and when is ActCondition.IDLE)
    return when in (ActCondition.YES, ActCondition.FREE) or (
        when is ActCondition.GONE and held.gone
    )


def guard_act(
    act: Act,
    caller: Caller,
    task: Task,
    held: TaskHolder,
    sessions: SessionKeys,
    *,
    token: int | None = None,
    consequence: str = "nothing was written",
) -> Tie:
    """Return a caller's tie to a task; refuse an act that the table does not allow.

    `consequence` says what is not done then, for the error.

    Raises:
        Fenced: To write, a token of an older claim or of none was given.
        RunHeld: To write or take up: another owner holds the run, or is to resume it.
        NotAllowed: The tie does not allow the act; the sentence says what to do instead.
    """
    tie = find_tie(caller, task, held, sessions, token)
    if is_allowed(act, tie, held):
        return tie
    waits = held.run is not None and held.run.state.is_waiting
    without_token = token is None and (waits or tie is Tie.HOST)
    if act is Act.WRITE and not without_token:
        current_run.guard_write(held.run, caller, token, consequence)
    refusal = f"{task.task_id} {_describe_owner(caller, task, held.run)}, so you may not {act}"
    held_by = act is Act.TAKE_UP or (act is Act.WRITE and without_token)
    error = RunHeld if held_by else NotAllowed
    raise error(f"{refusal}; {_describe_way(act, caller, task, held, tie)}.")


def guard_wait(
    caller: Caller, wait: Wait, task: Task | None, held: TaskHolder, sessions: SessionKeys
) -> None:
    """Refuse to change another agent's wait or ask for it, unless the caller may wait for its task.

    Raises:
        NotAllowed: It is another agent's; the sentence says whose.
    """
    own = caller.person or _is_unnamed(caller)
    if own or is_agent_of(caller, wait.session_key, wait.host, wait.home, sessions):
        return
    if task is not None and is_allowed(Act.WAIT, find_tie(caller, task, held, sessions), held):
        return
    whose = _name_agent(wait.session_key, wait.host)
    raise NotAllowed(
        f"{wait.wait_id} is a wait of {whose}, so you may not change it; start "
        "your own with smart_wait, or let the user do it with taskmem call."
    )


def _is_unnamed(caller: Caller) -> bool:
    """True if the call comes from no host: the program itself makes it."""
    return (caller.host, caller.session_key, caller.owner) == (None, None, None)


def _is_holder(caller: Caller, held: TaskHolder, token: int | None) -> bool:
    """True if a caller owns the task's open run, or owned its last run that has ended."""
    known = held.run if held.run is not None else held.last
    if known is None or known.owner is None:
        return False
    given = held.run is not None and token is not None
    return known.owner.same(caller.owner) or (given and current_run.has_claim(known, caller, token))


def _is_session(caller: Caller, task: Task, run: Run | None, sessions: SessionKeys) -> bool:
    """True if a task, or its open run, belongs to the caller's session or host."""
    nobodys = task.session_key is None and task.host is None
    if run is None:
        return nobodys or is_agent_of(caller, task.session_key, task.host, task.home, sessions)
    named = {run.session_key, run.told_session} - {None}
    if named:
        host = find_host(task, run)
        return any(is_agent_of(caller, each, host, run.home, sessions) for each in named)
    if run.owner is not None or run.role is not None:
        return False  # it belongs to a process or a role
    return nobodys or is_agent_of(caller, None, task.host, run.home, sessions)


def _is_host(caller: Caller, task: Task, run: Run | None, sessions: SessionKeys) -> bool:
    """True if another process or session of the caller's host has a task.

    The process owns the run of a task without a session, or the session is connected.
    """
    if _is_session(caller.model_copy(update={"other_sessions": frozenset()}), task, run, sessions):
        return True
    if run is None or run.owner is None or run.session_key is not None:
        return False
    return task.session_key is None and is_agent_of(caller, None, task.host, run.home, sessions)


def _has_worked_last(caller: Caller, task: Task, run: Run | None, sessions: SessionKeys) -> bool:
    """True if a caller is the agent of a task whose run is queued now, but for no session."""
    if run is None or run.state is not RunState.QUEUED or run.session_key is not None:
        return False
    return is_agent_of(caller, task.session_key, task.host, task.home, sessions)


def find_host(task: Task, run: Run) -> str | None:
    """Return the host of a run's session; None: not known."""
    return (run.owner and run.owner.host) or task.host


def is_agent_of(
    caller: Caller,
    session: str | None,
    host: str | None,
    home: str | None,
    sessions: SessionKeys,
) -> bool:
    """True if a caller is the agent of a session, or of a host that names no session.

    A gateway says which session calls. Two gateways may have sessions of the same name, so their
    agents are told apart. On any other host, a caller without a session counts as the agent of
    every session of that host; one whose host says which session calls, of those that are not
    connected. A session that only the agent named (`session_said`) does not count if the host of
    `session` is not known.
    """
    if not caller.is_at_home(home) or (session is None and host is None):
        return False
    if is_other_gateway(host, caller.host):
        return False
    owner = caller.owner.session_key if caller.owner else None
    same = is_same_host(host, caller.host)
    if session is None:
        return same
    if sessions.is_own(session) and (caller.kind == GATEWAY or not same):
        return session in (caller.session_key, owner)
    if caller.session_key is None or caller.session_told:
        return same and session not in caller.other_sessions
    unknown = host is None and not caller.session_said
    return session == caller.session_key and (same or unknown or caller.host is None)


def _describe_owner(caller: Caller, task: Task, run: Run | None) -> str:
    """Say whose a task is, for a refusal."""
    if run is not None and run.owner is not None:
        where = " in another session" if run.owner.session_key else ""
        host = (task.host or "").partition(":")[2]
        if where or not host or task.session_key is not None:
            return f"is held by {run.owner.role}{where}"
        which = "another process" if is_same_host(task.host, caller.host) else "a process"
        role = "" if run.owner.role == AGENT else f"{run.owner.role}, "
        return f"is held by {role}{which} of {host}"
    if run is not None and run.session_key is None:
        return "is queued" if run.role is None else f"is queued for {run.role}"
    return f"belongs to {_name_agent(task.session_key, task.host)}"


def _name_agent(session: str | None, host: str | None) -> str:
    if session is not None:
        return "another session"
    return "a person" if host is None else f"an agent of {host.rpartition(':')[2]}"


def _describe_way(act: Act, caller: Caller, task: Task, held: TaskHolder, tie: Tie) -> str:
    """Say what a refused caller can do."""
    run = held.run
    queued = run is not None and run.state is RunState.QUEUED
    if run is not None and not held.away and _is_for_role(run, caller):
        return f"{current_run.describe_claim(run)} first"
    if held.gone and run is not None and run.state.is_waiting:
        return "call task_resume first, for its agent is gone"
    if held.gone and not queued:
        return "claim it with task_claim first, for its agent is gone"
    way = "let the user do it with taskmem call"
    if act is Act.WAIT:
        return f"leave task_id out, and the wait is yours alone, or {way}"
    if tie is Tie.OTHER and held.silence is not None:
        can = "you can" if act is Act.CLAIM else "claim it with task_claim"
        return f"{can} once it was silent for {format_duration(held.silence)}, or {way}"
    nobody = queued and not held.away
    return way if nobody or task.status.terminal else f"leave it to that one, or {way}"


def _is_for_role(run: Run | None, caller: Caller) -> bool:
    """True if a run is queued and a caller may claim it by its role.

    Only a gateway's agents have a known role; any other caller may claim for any role.
    """
    if run is None or run.state is not RunState.QUEUED:
        return False
    return caller.gateway_owner is None or current_run.is_for_owner(run, caller.gateway_owner)


# --- how much an agent may have ------------------------------------------------


MOST_OPEN: Final[Mapping[type[Task | Wait], int]] = {Task: 25_000, Wait: 5_000}
"""Most open tasks and waits of one agent."""
_TOO_MANY_OPEN: Final[Mapping[type[Task | Wait], str]] = {
    Task: "You have {:,} open tasks, as many as one agent may; end those that are over with "
    'task_update, status "completed" or "cancelled" (task_list shows them), before you register '
    "another. Nothing was written.",
    Wait: "You have {:,} open waits, as many as one agent may; cancel those that you do not need "
    "with wait_cancel, or let some end, before you start another. Nothing was written.",
}
MOST_MESSAGES: Final = 200_000
"""Most messages of a task; agents add none after that."""


def find_maker(caller: Caller, sessions: SessionKeys) -> Maker | None:
    """Return whose tasks and waits are counted with a caller's; None: they are not counted.

    Each agent of a gateway is counted by itself. All agents of another host are counted together,
    with their shells, because their sessions are only what they say.
    """
    if caller.host is None:  # a person, or the program itself
        return None
    agent = sessions.find_agent(caller.session_key) if caller.kind == GATEWAY else None
    return Maker(hosts=list_host_names(caller.host), agent=agent)


def guard_open_count(kind: type[Task | Wait], count: int) -> None:
    """Refuse one more task or wait of an agent with so many open ones.

    Raises:
        LimitReached: The agent has the most that it may have.
    """
    most = MOST_OPEN[kind]
    if count >= most:
        raise LimitReached(_TOO_MANY_OPEN[kind].format(most))


def is_thread_full(task: Task, caller: Caller) -> bool:
    """True if a caller may add no message to a task."""
    return task.message_count >= MOST_MESSAGES and not caller.is_user


def guard_words(task: Task, caller: Caller, way: str = "leave your words out") -> None:
    """Refuse an agent's message to a task that is full; `way`: what to do instead.

    Raises:
        LimitReached: The task has the most messages that it may have.
    """
    if is_thread_full(task, caller):
        raise LimitReached(
            f"{task.task_id} has {task.message_count:,} messages, and agents add none "
            f"after {MOST_MESSAGES:,}; {way}, or register a new task with task_register and "
            "go on there. Nothing was written."
        )


def guard_message_count(task: Task, request: UpdateRequest) -> None:
    """Refuse an update with a message to a task that is full, unless it ends the task.

    Raises:
        LimitReached: The task has the most messages that it may have.
    """
    if task.message_count < MOST_MESSAGES:
        return
    ends = request.status is not None and request.status.terminal and not task.status.terminal
    if (request.message is not None or request.ask is not None) and not ends:
        guard_words(task, request.caller)
