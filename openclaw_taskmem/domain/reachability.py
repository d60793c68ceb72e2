"""Agents that no transport reaches: their wakes stay until they are fetched.

Source: rulings "a wake without a session" and "`taskmem wait ID`".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from taskmem_hookspecs import Change, WaitStatus, Wake, WakeState

ANY: Final = "auto"
"""The transport that stands for any that can work here."""
STDOUT: Final = "stdout"
"""The transport that prints wakes."""
GATEWAY: Final = "openclaw"
"""The host of a gateway's agent, where its plug-in does not say which gateway it is."""
MCP: Final = "mcp"
"""The host of an agent whose MCP client has given no name; else before that name."""
SHELL: Final = "shell"
"""Likewise of one that runs a command in its host's shell."""
NAME_LENGTH: Final = 64
"""Characters that are kept of such a name."""
EXITS: Final = {
    WaitStatus.RESOLVED: 0,
    WaitStatus.ERROR: 1,
    WaitStatus.CANCELLED: 1,
    WaitStatus.TIMEOUT: 124,
}
"""The exit statuses of `taskmem wait`, by how the wait has ended."""


def name_client_host(name: str | None) -> str:
    """Return where an agent runs whose MCP client calls itself so; None: nameless."""
    words = "".join(each for each in name or "" if each.isprintable()).strip()
    return f"{MCP}:{words[:NAME_LENGTH]}" if words else MCP


def is_same_host(one: str | None, other: str | None) -> bool:
    """Whether two hosts are the same: one's client and its shell are."""
    if one is None or other is None:
        return False
    (kind, _, name), (kind_too, _, name_too) = one.partition(":"), other.partition(":")
    outside = {kind, kind_too} <= {MCP, SHELL}
    return one == other or (outside and bool(name) and name == name_too)


def is_other_gateway(one: str | None, other: str | None) -> bool:
    """Whether two hosts are two gateways: each plug-in says which, and not the same."""
    return one != other and is_named_gateway(one) and is_named_gateway(other)


def is_named_gateway(host: str | None) -> bool:
    """Whether a host is a gateway whose plug-in says which it is."""
    return (host or "").startswith(f"{GATEWAY}:")


def list_host_names(host: str) -> tuple[str, ...]:
    """Return every name of a host: a client's, and that of its shell."""
    kind, _, name = host.partition(":")
    if kind not in (MCP, SHELL) or not name:
        return (host,)
    return f"{MCP}:{name}", f"{SHELL}:{name}"


def choose_transport(named: str, *, is_read: bool) -> tuple[str, str | None]:
    """Return by which transport wakes go out, and why not by the one that is named.

    What is printed where nobody reads it has not been sent. `is_read`: whether
    somebody reads what the daemon prints.
    """
    if named == STDOUT and not is_read:
        return ANY, (
            f"{named} is named, and nobody reads what this daemon prints, for it runs "
            "in the background"
        )
    return named, None


def split_by_host(wakes: Sequence[Wake]) -> Iterator[Sequence[Wake]]:
    """Yield the wakes of one session, those of two hosts apart.

    What names no host goes with the others, where these have one and the same.
    """
    hosts = dict.fromkeys(wake.host for wake in wakes)
    if len({*hosts} - {None}) <= 1:
        yield wakes
        return
    for host in hosts:
        yield [wake for wake in wakes if wake.host == host]


def keep_wakes(wakes: Iterable[Wake]) -> Change:
    """Return what lets owed wakes stay: nobody tries to deliver them any more."""
    rest = {"due_at": None, "last_error": None}
    return Change(wakes=tuple(wake.model_copy(update=rest) for wake in wakes))


def is_kept(wake: Wake) -> bool:
    """Whether a wake is owed, and stays until it is fetched."""
    return wake.state is WakeState.DUE and wake.due_at is None


def deliver_kept(wake: Wake, now: datetime) -> Wake:
    """Return a wake that was kept as one to deliver now: a way was found."""
    return wake.model_copy(update={"due_at": now})


def settle_read(wakes: Iterable[Wake], host: str | None, now: datetime) -> tuple[Wake, ...]:
    """Return those that were kept for the agent of a host, which has read its task."""
    read = {"state": WakeState.ACKNOWLEDGED, "acknowledged_at": now}
    return tuple(
        wake.model_copy(update=read)
        for wake in wakes
        if is_kept(wake) and (wake.host is None or is_same_host(wake.host, host))
    )


def settle_ended(wakes: Iterable[Wake]) -> tuple[Wake, ...]:
    """Return those that were kept for the agent of a task, which has ended."""
    over = {"state": WakeState.SUPERSEDED}
    return tuple(wake.model_copy(update=over) for wake in wakes if is_kept(wake))


def describe_kept(wake: Wake) -> str:
    """Say of a wake that is kept whom no way reaches, and how its agent reads it."""
    if wake.wait_id is None:
        read = f"reads what it says with its next query of {wake.task_id}"
    else:
        read = f"reads it with taskmem wait {wake.wait_id}"
        if wake.task_id is not None:
            read += f", or with its next query of {wake.task_id}"
    return f"no way to reach {wake.host or 'its host'}; its agent {read}"
