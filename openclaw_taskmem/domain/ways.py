"""Agents that no transport reaches: their wakes stay until they are fetched.

A wake whose transport fails is tried for a day at most, then it is given up: the task's
thread says so, and its agent reads there what it would have said.
Source: rulings "a wake without a session" and "`taskmem wait ID`".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from openclaw_taskmem.domain.texts import clip, plain
from taskmem_hookspecs import (
    Change,
    Message,
    MessageType,
    Role,
    Task,
    WaitStatus,
    Wake,
    WakeState,
)

GATEWAY: Final = "openclaw"
"""The host of a gateway's agent, where its plug-in does not say which gateway it is."""
MCP: Final = "mcp"
"""The host of an agent whose MCP client has given no name; else before that name."""
NAME_LENGTH: Final = 64
"""Characters that are kept of such a name."""
TRIED_FOR: Final = timedelta(days=1)
"""How long a wake is tried at least before it is given up."""
TRIES: Final = 100
"""How often, besides: a machine that slept for a day has tried nothing."""
GIVEN_UP: Final = "It could not be delivered for a day and is not tried again"
"""How `last_error` begins of a wake that was given up."""
SHOWN_BYTES: Final = 300
"""Of a wake's text, and of an error, in the thread of its task."""
EXITS: Final = {
    WaitStatus.RESOLVED: 0,
    WaitStatus.ERROR: 1,
    WaitStatus.CANCELLED: 1,
    WaitStatus.TIMEOUT: 124,
}
"""The exit statuses of `taskmem wait`, by how the wait has ended."""


def host_of_client(name: str | None) -> str:
    """Return where an agent runs whose MCP client calls itself so; None: nameless."""
    words = "".join(each for each in name or "" if each.isprintable()).strip()
    return f"{MCP}:{words[:NAME_LENGTH]}" if words else MCP


def by_host(wakes: Sequence[Wake]) -> Iterator[Sequence[Wake]]:
    """Yield the wakes of one session, those of two hosts apart.

    What names no host goes with the others, where these have one and the same.
    """
    hosts = dict.fromkeys(wake.host for wake in wakes)
    if len({*hosts} - {None}) <= 1:
        yield wakes
        return
    for host in hosts:
        yield [wake for wake in wakes if wake.host == host]


def keep(wakes: Iterable[Wake]) -> Change:
    """Return what lets owed wakes stay: nobody tries to deliver them any more."""
    rest = {"due_at": None, "last_error": None}
    return Change(wakes=tuple(wake.model_copy(update=rest) for wake in wakes))


def is_kept(wake: Wake) -> bool:
    """Whether a wake is owed, and stays until it is fetched."""
    return wake.state is WakeState.DUE and wake.due_at is None


def settle_read(
    wakes: Iterable[Wake], host: str | None, now: datetime
) -> tuple[Wake, ...]:
    """Return those that were kept for the agent of a host, which has read its task."""
    read = {"state": WakeState.ACKNOWLEDGED, "acknowledged_at": now}
    return tuple(
        wake.model_copy(update=read)
        for wake in wakes
        if is_kept(wake) and wake.host in (None, host)
    )


def settle_ended(wakes: Iterable[Wake]) -> tuple[Wake, ...]:
    """Return those that were kept for the agent of a task, which has ended."""
    over = {"state": WakeState.SUPERSEDED}
    return tuple(wake.model_copy(update=over) for wake in wakes if is_kept(wake))


def describe_kept(wake: Wake) -> str:
    """Say of a wake that is kept whom no way reaches, and how its agent reads it."""
    if wake.wait_id is None:
        read = f"sees it with its next call on {wake.task_id}"
    else:
        read = f"reads it with taskmem wait {wake.wait_id}"
        if wake.task_id is not None:
            read += f", or with its next query of {wake.task_id}"
    return f"no way to reach {wake.host or 'its host'}; its agent {read}"


def is_hopeless(wake: Wake, now: datetime) -> bool:
    """Whether a wake has failed so often, and for so long, that it is given up."""
    owed = wake.state in (WakeState.DUE, WakeState.SENT)
    often = wake.attempts >= TRIES and wake.last_error is not None
    return owed and often and now - wake.created_at >= TRIED_FOR


def is_given_up(wake: Wake) -> bool:
    """Whether a wake was given up, rather than refused by its transport."""
    refused = wake.state is WakeState.REFUSED
    return refused and (wake.last_error or "").startswith(GIVEN_UP)


def give_up(wakes: Sequence[Wake], task: Task | None, now: datetime) -> Change:
    """Return what gives up those of a task's wakes that are hopeless.

    Its thread says so, with what the agent was to be told. None: they are of no task.
    """
    hopeless = [wake for wake in wakes if is_hopeless(wake, now)]
    given_up = tuple(
        wake.model_copy(
            update={
                "state": WakeState.REFUSED,
                "due_at": None,
                "last_error": f"{GIVEN_UP}; last error: {wake.last_error}",
            }
        )
        for wake in hopeless
    )
    if task is None or not hopeless:
        return Change(wakes=given_up)
    told = tuple(_tell(wake, task, now) for wake in hopeless)
    count = task.message_count + len(told)
    return Change(
        wakes=given_up,
        messages=told,
        tasks=(task.model_copy(update={"message_count": count}),),
    )


def _tell(wake: Wake, task: Task, now: datetime) -> Message:
    words = clip(plain(wake.text.removeprefix("[system] ")), SHOWN_BYTES)
    error = clip(plain(wake.last_error or ""), SHOWN_BYTES).rstrip(".")
    return Message(
        task_id=task.task_id,
        role=Role.SYSTEM,
        msg_type=MessageType.LIFECYCLE,
        content=(
            f"A wake ({wake.wake_id}) could not be delivered for a day and is not "
            f"tried again: {error}. It said: {words}"
        ),
        created_at=now,
    )
