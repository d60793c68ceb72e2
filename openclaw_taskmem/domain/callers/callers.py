"""Identify who calls a tool, and whether the call shows that the agent acts."""

from __future__ import annotations

import re
from typing import Final

from openclaw_taskmem.domain.callers.reachability import GATEWAY
from taskmem_hookspecs import Owner, SessionNames, Value
from taskmem_hookspecs.errors import NotAllowed
from taskmem_hookspecs.model import Instant

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


class Caller(Value):
    """Who calls a tool."""

    person: bool = False
    """True for a person at a terminal, or an agent's shell, rather than an agent's host."""
    by_command: bool = False
    """True if a person gave a command in the session's chat."""
    session_key: str | None = None
    """Session of the call; None: not known."""
    session_said: bool = False
    """True if only the agent named its session; among the agents of its host that is enough."""
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

    @property
    def is_user(self) -> bool:
        """True if a person calls at a terminal or page, and not through an agent's shell."""
        return self.person and self.host is None

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

    def with_session(self, named: str | None, *, sessions: SessionNames, reached: bool) -> Caller:
        """Return the caller with the session that the call's arguments name; None names none.

        An agent of a gateway may name no other session, since the gateway says which one calls. An
        agent of another host may not name a gateway's, unless it is `reached`. A person may name
        any.

        Raises:
            NotAllowed: The session is another agent's.
        """
        if named in (None, self.session_key):
            return self
        if self.gateway_owner or (not self.person and self.kind == GATEWAY):
            raise NotAllowed(
                f"{named} is not the session of this call; leave session_key out, for "
                "the gateway says which it is."
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
