"""Who calls a tool, and whether that counts as the agent acting."""

from __future__ import annotations

import re
from typing import Final, TypeGuard

from openclaw_taskmem.domain.reachability import GATEWAY
from taskmem_hookspecs import Owner, Value
from taskmem_hookspecs.errors import NotAllowed
from taskmem_hookspecs.value import Instant

AGENT: Final = "agent"
"""The role of who claims as nothing in particular."""
USER: Final = "user"
"""Whoever reviews what agents did: nobody's role, but who is handed a task."""
_ROLE: Final = re.compile(r"[a-z0-9_-]{1,64}")
KEY_BYTES: Final = 1024
"""Of a session's key or an agent's id; an entry of an index has 2,704 in PostgreSQL."""


def find_role_fault(name: str) -> str | None:
    """Return why a name is no role; None: it is one. Source: ruling "role, reopen"."""
    if _ROLE.fullmatch(name):
        return None
    return "is no role: a role has 1 to 64 of a-z 0-9 _ -; give such a name"


def is_gateway_session(session_key: str | None) -> TypeGuard[str]:
    """Return whether a key names a session of OpenClaw; no other host names one so."""
    return session_key is not None and session_key.startswith("agent:")


def find_session_agent(session_key: str | None) -> str | None:
    """Return whose a session is: OpenClaw's agent, or where none is named itself."""
    if not is_gateway_session(session_key):
        return session_key
    return ":".join(session_key.split(":", 2)[:2])


def find_key_fault(key: str) -> str | None:
    """Return why a session's key or an agent's id cannot be kept; None: it can."""
    size = len(key.encode(errors="replace"))
    if size <= KEY_BYTES:
        return None
    return f"has {size:,} bytes, and at most {KEY_BYTES:,} are kept; give a shorter one"


class Caller(Value):
    """Who calls a tool."""

    person: bool = False
    """A person at a terminal, or an agent's shell, rather than its host."""
    by_command: bool = False
    """Whether a person says so, by a command in the chat of the session."""
    session_key: str | None = None
    """The session the call comes from; None: unknown."""
    session_said: bool = False
    """Whether only its agent says so, which counts among the agents of its host."""
    host: str | None = None
    """Where its agent runs, as in `Wake.host`; None: not known, or a person calls."""
    owner: Owner | None = None
    """As whom it would hold a run; None: it cannot hold any."""
    in_turn: bool = True
    """Whether a turn of its session runs or begins; where not, a sub-agent calls."""
    turn_since: Instant | None = None
    """When that turn began; None: not known."""
    process: str | None = None
    """The process that calls, as `Owner.process`; None: not known, or a person's."""
    folder: str | None = None
    """The folder that its agent works in; None: not known."""
    sandboxed: bool = False
    """Whether its host runs its tools in a sandbox, as the host says."""
    home: str | None = None
    """The home that it calls; None: there is but one."""
    request: str | None = None
    """What the user said in the turn in which it calls; None: not known, or nothing."""

    @property
    def is_user(self) -> bool:
        """Whether a person calls at a terminal or page, and not an agent's shell."""
        return self.person and self.host is None

    def name_relay(self, *, early: bool = False) -> str | None:
        """Return as whom it passes on words of the user; None: they are theirs.

        Those of a gateway's turn in which the user speaks are, unless it began too
        `early` for them.
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

    def with_session(self, named: str | None, *, reached: bool) -> Caller:
        """Return who calls, in the session that the call's arguments name; None: none.

        A gateway says whose turn calls, so its agents name no other session. Agents of
        other hosts name none of a gateway that is not `reached` for them. A person may
        name any.

        Raises:
            NotAllowed: The session is another's.
        """
        if named in (None, self.session_key):
            return self
        if self.gateway_owner or (not self.person and self.kind == GATEWAY):
            raise NotAllowed(
                f"{named} is not the session of this call; leave session_key out, for "
                "the gateway says which it is."
            )
        if not (self.person or reached) and is_gateway_session(named):
            raise NotAllowed(
                f"{named} is a session of OpenClaw, and this call comes from "
                f"{self.name_relay()}; leave session_key out."
            )
        said = not (self.person or reached)
        return self.model_copy(update={"session_key": named, "session_said": said})

    @property
    def kind(self) -> str:
        """Return what its host is: a gateway, an MCP client; empty: not known."""
        return (self.host or "").partition(":")[0]

    @property
    def gateway_owner(self) -> Owner | None:
        """As whom a gateway's agent holds runs; None: it is none.

        Only of it is anything seen without its help.
        """
        boot = self.owner.boot if self.owner else None
        return None if boot is None else self.owner

    def is_at_home(self, home: str | None) -> bool:
        """Whether it calls the home that something belongs to; None: any."""
        return self.home is None or home in (None, self.home)

    def acts_as(self, session_key: str | None, home: str | None) -> bool:
        """Whether the call shows that the agent of a task or wait is awake.

        A person's counts only in the name of its session, or when it has none, and one
        from another home not at all.
        """
        own = not self.person or session_key in (None, self.session_key)
        return own and self.is_at_home(home)
