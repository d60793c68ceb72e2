"""Identify who calls a tool, name the hosts of agents, and say which agents cannot be woken.

Wakes that no transport delivers are kept until they are fetched.

Source: docs/decisions/0023-no-promise-without-a-way.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Literal, TypeGuard

from openclaw_taskmem.domain.text.texts import (
    CALLER_WORDS,
    clip,
    format_iso,
    to_one_line,
    to_plain_line,
)
from taskmem_hookspecs import (
    Message,
    Owner,
    Role,
    SessionNames,
    Value,
    WaitStatus,
    Wake,
    WakeState,
)
from taskmem_hookspecs.errors import NotAllowed
from taskmem_hookspecs.model import Instant

GATEWAY: Final = "openclaw"
"""Host of a gateway's agent if its plug-in does not say which gateway it is; else the prefix."""


# --- sessions -----------------------------------------------------------------


_ID_LENGTH: Final = 32
"""Fewest characters of a session's key that is an id, and no words."""
_SHORT_ID_LENGTH: Final = 8
"""Characters of such an id that people are shown."""


class SessionKeys(Value):
    """Read and make the keys of the sessions that hosts name."""

    hosts: tuple[SessionNames, ...] = ()
    """How each host names its sessions; the first whose prefix begins a key counts."""

    def find_names(self, session_key: str | None) -> SessionNames | None:
        """Return how the host of a session names its own; None: no host names it so."""
        key = session_key or ""
        return next((one for one in self.hosts if one.prefix and key.startswith(one.prefix)), None)

    def is_own(self, session_key: str | None) -> TypeGuard[str]:
        """Return True if a key is a host's own: if it begins with that host's prefix."""
        return self.find_names(session_key) is not None

    def find_agent_name(self, session_key: str | None) -> str | None:
        """Return the agent's name in a key of a host's own; None: it is another key."""
        names = self.find_names(session_key)
        if names is None:
            return None
        return (session_key or "").removeprefix(names.prefix).partition(":")[0]

    def find_agent(self, session_key: str | None) -> str | None:
        """Return prefix and agent's name of a key of a host's own; any other key unchanged."""
        names = self.find_names(session_key)
        if names is None:
            return session_key
        return f"{names.prefix}{self.find_agent_name(session_key)}"

    def find_rest(self, session_key: str | None) -> str:
        """Return the text after the agent and its colon in a key; empty for others' keys."""
        agent = self.find_agent(session_key) or ""
        return (session_key or "").removeprefix(agent).removeprefix(":")

    def name_background(self, session_key: str, run_id: str) -> str | None:
        """Return the key of the session in which a session's run continues in the background.

        None: the host has no such sessions, or the key is not its own.
        """
        names = self.find_names(session_key)
        if names is None or not names.background:
            return None
        return f"{self.find_agent(session_key)}{names.background}{run_id}"

    def find_background_run(self, session_key: str) -> str | None:
        """Return the id of the run in a background session's key; None: it is no such session."""
        names, rest = self.find_names(session_key), f":{self.find_rest(session_key)}"
        if names is None or not names.background or not rest.startswith(names.background):
            return None
        return rest.removeprefix(names.background)

    def to_canonical(self, session_key: str) -> str:
        """Return a key as the host writes it, in lower case if it does; others' keys unchanged."""
        names = self.find_names(session_key)
        return session_key.lower() if names is not None and names.lower_case else session_key

    def shorten(self, session_key: str) -> str:
        """Return what people are shown of a key: the rest of the host's own, an id's beginning."""
        name = to_plain_line(self.find_rest(session_key) or session_key)
        is_id = len(name) >= _ID_LENGTH and name.replace("-", "").isalnum()
        return f"{name[:_SHORT_ID_LENGTH]}…" if is_id else name


# --- gateways -----------------------------------------------------------------


MOST_BOOTS: Final = 8
"""Starts to remember; several gateways may use the same daemon."""


class GatewayPresence(Value):
    """A gateway as its plug-in reports it."""

    boot: str
    """Id of its current start."""
    transport: str
    """Transport that delivers wakes to its plug-in."""
    version: str
    """The plug-in's version."""
    host: str = GATEWAY
    """Name of the host, as in `Wake.host`."""
    started_at: Instant
    main_session: str
    """Session for wakes that name none."""
    fingerprints: Mapping[str, str] = {}
    """Digest of what shapes an agent's prompt, by the agent's id."""
    running: Mapping[str, Instant] = {}
    """Sessions in which a turn runs, with since when that is known."""

    def with_running(self, sessions: Iterable[str], now: datetime) -> GatewayPresence:
        """Set the sessions in which a turn runs now."""
        running = {key: self.running.get(key, now) for key in sessions}
        return self.model_copy(update={"running": running})


class RunningWork(Value):
    """A command or sub-agent that a gateway runs for a session, beside its turn."""

    kind: Literal["command", "sub_agent"]
    name: str
    """A command's `exec` session, or a sub-agent's session key."""
    about: str
    """The command, or the sub-agent's task; empty: not known."""
    since: Instant

    def format_line(self) -> str:
        """Write it as a line."""
        kind = {"command": "exec session", "sub_agent": "sub-agent"}[self.kind]
        about = f": {clip(to_one_line(self.about), 200)}" if self.about else ""
        return f"{kind} {self.name}{about}, since {format_iso(self.since)}"


def find_transport(host: str | None, gateways: Iterable[GatewayPresence]) -> str | None:
    """Return the transport of the gateway in which an agent runs.

    None: that gateway is not connected, or the agent runs elsewhere.
    """
    return next((each.transport for each in gateways if each.host == host), None)


# --- reachability -------------------------------------------------------------


ANY_TRANSPORT: Final = "auto"
"""Stands for any transport that works here."""
STDOUT: Final = "stdout"
"""The transport that prints wakes."""
MCP: Final = "mcp"
"""Host of an agent whose MCP client gave no name; else the prefix of that name."""
SHELL: Final = "shell"
"""Host of an agent that runs a command in its host's shell, or the prefix of its host's name."""
_TITLES: Final = {
    "claude-code": "Claude Code",
    "codex": "Codex",
    "codex-mcp-client": "Codex",
    "cursor": "Cursor",
    "gemini-cli": "Gemini CLI",
}
"""Names for people of MCP clients and of shells of hosts, by their own; others keep theirs."""
NAME_LENGTH: Final = 64
"""Most characters of such a name."""
OWED_STATES: Final = (WakeState.DUE, WakeState.SENT)
"""States of wakes that are not settled yet."""
EXITS: Final = {
    WaitStatus.RESOLVED: 0,
    WaitStatus.ERROR: 1,
    WaitStatus.CANCELLED: 1,
    WaitStatus.TIMEOUT: 124,
}
"""Exit codes of `taskmem wait`, by how the wait ended."""

UNREACHED_DELAY: Final = timedelta(minutes=1)
"""How long a wake may be kept, or fail, before its agent counts as one that cannot be woken."""
_ERROR_BYTES: Final = 200
"""Longest excerpt of why a wake was not delivered."""


class Unreached(Value):
    """Why a task's agent cannot be woken, and what its user can do."""

    why: str
    """A clause without a full stop."""
    cure: str
    """A sentence."""
    closed: bool = False
    """True if it can be again once its session is opened."""


def name_client_host(name: str | None) -> str:
    """Return the host name of an MCP client; None: it gave no name."""
    words = "".join(each for each in name or "" if each.isprintable()).strip()
    return f"{MCP}:{words[:NAME_LENGTH]}" if words else MCP


def _title_host(host: str | None) -> str:
    """Return what people call a host, as "Claude Code"; empty: it is not known."""
    kind, _, name = (host or "").partition(":")
    if kind == GATEWAY:
        return "OpenClaw"
    return _TITLES.get(name) or to_plain_line(name)


def describe_agent(
    sessions: SessionKeys, host: str | None, session_key: str | None, role: str | None = None
) -> str:
    """Say who an agent is, as "main in OpenClaw, session work" or "Codex, session 019b0000…".

    Empty: nothing is known of it.
    """
    session = f"session {sessions.shorten(session_key)}" if session_key else ""
    place = ", ".join(filter(None, (_title_host(host), session)))
    if role == AGENT:
        return place or "an agent"
    return " in ".join(filter(None, (role, place)))


def is_same_host(one: str | None, other: str | None) -> bool:
    """True if two host names are the same host: a client and its shell are."""
    if one is None or other is None:
        return False
    (kind, _, name), (kind_too, _, name_too) = one.partition(":"), other.partition(":")
    outside = {kind, kind_too} <= {MCP, SHELL}
    return one == other or (outside and bool(name) and name == name_too)


def is_other_gateway(one: str | None, other: str | None) -> bool:
    """True if two hosts are different gateways, both named by their plug-ins."""
    return one != other and is_named_gateway(one) and is_named_gateway(other)


def is_named_host(host: str | None) -> bool:
    """True if it is known in which gateway or client an agent runs."""
    return bool((host or "").partition(":")[2])


def is_named_gateway(host: str | None) -> bool:
    """True if a host is a gateway that its plug-in names."""
    return (host or "").startswith(f"{GATEWAY}:")


def list_host_names(host: str) -> tuple[str, ...]:
    """Return every name of a host: that of a client and that of its shell."""
    kind, _, name = host.partition(":")
    if kind not in (MCP, SHELL) or not name:
        return (host,)
    return f"{MCP}:{name}", f"{SHELL}:{name}"


def split_names(setting: str) -> tuple[str, ...]:
    """Return the names of transports in a setting, which are separated by commas."""
    return tuple(name.strip() for name in setting.split(","))


def choose_transports(named: Sequence[str], *, is_read: bool) -> tuple[tuple[str, ...], str | None]:
    """Return the transports for wakes, and why one in the settings is not used.

    Printed wakes count as sent only if somebody reads them. `is_read`: somebody reads what the
    daemon prints.
    """
    if STDOUT in named and not is_read:
        others = tuple(name for name in named if name != STDOUT)
        return others or (ANY_TRANSPORT,), (
            f"{STDOUT} is named, and nobody reads what this daemon prints, for it runs "
            "in the background"
        )
    return tuple(named), None


def split_by_host(wakes: Sequence[Wake]) -> Iterator[Sequence[Wake]]:
    """Yield a session's wakes, separately for each host.

    Wakes without a host go with the others if these have a single host.
    """
    hosts = dict.fromkeys(wake.host for wake in wakes)
    if len({*hosts} - {None}) <= 1:
        yield wakes
        return
    for host in hosts:
        yield [wake for wake in wakes if wake.host == host]


def is_kept(wake: Wake) -> bool:
    """True if a wake is due and kept until it is fetched."""
    return wake.state is WakeState.DUE and wake.due_at is None


def settle_read(wakes: Iterable[Wake], host: str | None, now: datetime) -> tuple[Wake, ...]:
    """Acknowledge the wakes that were kept for the agent of a host, which has read its task."""
    read = {"state": WakeState.ACKNOWLEDGED, "acknowledged_at": now}
    return tuple(
        wake.model_copy(update=read)
        for wake in wakes
        if is_kept(wake) and (wake.host is None or is_same_host(wake.host, host))
    )


def describe_kept(wake: Wake) -> str:
    """Say whom a kept wake cannot reach, and how its agent reads it."""
    if wake.wait_id is None:
        read = f"reads what it says with its next query of {wake.task_id}"
    else:
        read = f"reads it with taskmem wait {wake.wait_id}"
        if wake.task_id is not None:
            read += f", or with its next query of {wake.task_id}"
    return f"no way to reach {_title_host(wake.host) or 'its host'}; its agent {read}"


def find_unreached(
    task_id: str,
    host: str | None,
    wake: Wake | None,
    now: datetime,
    *,
    reached: bool,
    closed: bool = False,
) -> Unreached | None:
    """Return why a task's agent cannot be woken; None: it can, or that is not known yet.

    Args:
        task_id: The task.
        host: The host of its agent; None: not known.
        wake: Its newest wake; None: there is none.
        now: The present instant.
        reached: Whether a transport reaches that agent.
        closed: Whether it is known in which session it works, which is not connected.
    """
    kind = (host or "").partition(":")[0]
    client = _title_host(host) if kind in (MCP, SHELL) else ""
    tell = f"Tell {client or 'an agent'} yourself to go on with {task_id}."
    if not reached:
        why = f"nothing here can wake {client}" if client else "no agent is known that can be woken"
        if closed := closed and kind == MCP and client in _TITLES.values():
            why = f"its session in {client} is closed"
            tell = f"Open that again, or {tell[0].lower()}{tell[1:]}"
        return Unreached(why=why, cure=tell, closed=closed)
    if wake is None or now - wake.created_at < UNREACHED_DELAY:
        return None
    error = clip(to_plain_line(wake.last_error or "").rstrip("."), _ERROR_BYTES)
    if wake.state is WakeState.DUE and error:
        why, cure = f"its wake waits: {error}", tell
        if wake.note is None:
            why = f"its wake is not delivered: {error}"
            cure = "How to repair that says: taskmem doctor"
        return Unreached(why=why, cure=cure)
    if wake.state is WakeState.REFUSED:
        reason = f": {error}" if error else ""
        return Unreached(why=f"its wake was refused{reason}", cure=tell)
    if wake.state is WakeState.UNANSWERED:
        return Unreached(why="its agent was woken, and did nothing", cure=tell)
    return None


# --- callers ------------------------------------------------------------------


AGENT: Final = "agent"
"""The role of an owner that claims without a role."""
USER: Final = "user"
"""The name for the user, who reviews what agents did. Nobody claims as it."""
_ROLE: Final = re.compile(r"[a-z0-9_-]{1,64}")
KEY_BYTES: Final = 1024
"""Most bytes of a session's key or an agent's id; PostgreSQL limits index entries to 2,704."""


def find_role_fault(name: str) -> str | None:
    """Return why a name is no role; None: it is one.

    Source: docs/origins.md, "Claims and leases".
    """
    if _ROLE.fullmatch(name):
        return None
    return "is no role: a role has 1 to 64 of a-z 0-9 _ -; give such a name"


def find_key_fault(key: str) -> str | None:
    """Return why a session's key or an agent's id is too long; None: it is not."""
    size = len(key.encode(errors="replace"))
    if size <= KEY_BYTES:
        return None
    return f"has {size:,} bytes, and at most {KEY_BYTES:,} are kept; give a shorter one"


THE_USER: Final = "the user"
"""The name of a person in a thread, for agents."""


class CallerKind(StrEnum):
    """Kind of who did something, as far as is known; every word for that derives from it."""

    USER = "user"
    """A person: on a page, by a command such as `taskmem approve`, or by one in a chat."""
    CALL = "call"
    """A person or a script: whoever runs `taskmem call` outside of an agent's shell. It has the
    rights of a person."""
    AGENT = "agent"

    @property
    def word(self) -> str:
        """The word for it in what people read."""
        return CALLER_WORDS[self]

    @property
    def subject(self) -> str:
        """The word at the beginning of a sentence."""
        return self.word if self is CallerKind.CALL else self.word.capitalize()


def find_writer(message: Message) -> CallerKind | None:
    """Return who wrote a message; None: Task memory did."""
    if message.role is Role.USER:
        return CallerKind.CALL if message.by_call else CallerKind.USER
    return CallerKind.AGENT if message.role is Role.AGENT else None


class Caller(Value):
    """Who calls a tool."""

    person: bool = False
    """True for a person at a terminal, or an agent's shell, rather than an agent's host."""
    by_call: bool = False
    """True if `taskmem call` calls, which a script may have run."""
    by_command: bool = False
    """True if a person gave a command in the session's chat."""
    session_key: str | None = None
    """Session of the call; None: not known."""
    session_said: bool = False
    """True if only the agent named its session; among the agents of its host that is enough."""
    session_told: bool = False
    """True if its MCP host says which session calls."""
    other_sessions: frozenset[str] = frozenset()
    """The other sessions of MCP hosts that are connected; empty: its own is not told."""
    host: str | None = None
    """Where its agent runs, as in `Wake.host`; None: not known, or a person calls."""
    owner: Owner | None = None
    """The owner as which it would claim a run; None: it cannot."""
    in_turn: bool = True
    """True if a turn of its session runs or begins; False: a sub-agent calls."""
    turn_since: Instant | None = None
    """When that turn began; None: not known."""
    process: str | None = None
    """The calling process, as `Owner.process`; None: not known, or a person's."""
    folder: str | None = None
    """Working directory of its agent; None: not known."""
    sandboxed: bool = False
    """True if the host says that it runs its tools in a sandbox."""
    recalls_tasks_only: bool = False
    """True if it wants nothing but past tasks of recorded history."""
    home: str | None = None
    """The home that it calls; None: there is only one."""
    request: str | None = None
    """The user's message in the calling turn; None: not known, or none."""
    polls: bool = False
    """True if its host asks for the end of a wait that it opens."""

    @property
    def is_user(self) -> bool:
        """True if a person calls at a terminal or page, and not through an agent's shell.

        So does `taskmem call`: these are rights. `known_as` is what people are told.
        """
        return self.person and self.host is None

    @property
    def known_as(self) -> CallerKind:
        """Kind of who calls, as far as is known."""
        if not self.is_user:
            return CallerKind.AGENT
        return CallerKind.CALL if self.by_call else CallerKind.USER

    @property
    def name(self) -> str:
        """The name of who calls, in a thread that agents and people read."""
        if self.known_as is CallerKind.USER:
            return THE_USER
        return self.name_relay(early=True) or CallerKind.CALL.word

    def name_relay(self, *, early: bool = False) -> str | None:
        """Name the agent that relays the user's words; None: the user speaks themselves.

        In a gateway's turn that the user's message began, the words are the user's, unless the turn
        began too `early` for them.
        """
        owner = self.gateway_owner
        spoken = owner is not None and self.request is not None and not early
        if self.is_user or spoken:
            return None
        if owner is not None:
            return f"the agent {owner.role}"
        if self.kind == GATEWAY:
            return GATEWAY  # which one it is means nothing to people
        return (self.host or "").partition(":")[2] or "an agent"

    def with_session(self, named: str | None, *, sessions: SessionKeys, reached: bool) -> Caller:
        """Return the caller with the session that the call's arguments name; None names none.

        An agent of a gateway may name no other session, since the gateway says which one calls. An
        agent of another host may not name a gateway's, unless it is `reached`. A person may name
        any.

        Raises:
            NotAllowed: The session is another agent's.
        """
        if named in (None, self.session_key):
            return self
        if self.gateway_owner or (not self.person and (self.kind == GATEWAY or self.session_told)):
            raise NotAllowed(
                f"{named} is not the session of this call; leave session_key out, for "
                "the host says which it is."
            )
        if not (self.person or reached) and sessions.is_own(named):
            raise NotAllowed(
                f"{named} is a session of OpenClaw, and this call comes from "
                f"{self.name_relay()}; leave session_key out."
            )
        is_claim = not (self.person or reached)
        return self.model_copy(update={"session_key": named, "session_said": is_claim})

    @property
    def kind(self) -> str:
        """Kind of its host: a gateway, an MCP client; empty: not known."""
        return (self.host or "").partition(":")[0]

    @property
    def gateway_owner(self) -> Owner | None:
        """The owner as which a gateway's agent claims runs; None: it is no gateway's agent.

        Only a gateway reports what its agents do.
        """
        boot = self.owner.boot if self.owner else None
        return None if boot is None else self.owner

    def is_at_home(self, home: str | None) -> bool:
        """True if it calls the home that something belongs to; None: any home."""
        return self.home is None or home in (None, self.home)

    def acts_as(self, session_key: str | None, home: str | None) -> bool:
        """True if the call shows that the agent of a task or wait is awake.

        A person's call counts only if it names the session, or the task or wait has none. A call to
        another home never counts.
        """
        own = not self.person or session_key in (None, self.session_key)
        return own and self.is_at_home(home)
