"""Who calls a tool, and whether that counts as the agent acting."""

from __future__ import annotations

from taskmem_hookspecs import Owner, Value


class Caller(Value):
    """Who calls a tool."""

    person: bool = False
    """A person at a terminal, rather than an agent through its host."""
    session_key: str | None = None
    """The gateway session the call comes from; None: unknown."""
    owner: Owner | None = None
    """As whom it would hold a run; None: it cannot hold any."""
    process: str | None = None
    """The process that calls, as `Owner.process`; None: not known, or a person's."""
    folder: str | None = None
    """The folder that its agent works in; None: not known."""

    def acts_as(self, session_key: str | None) -> bool:
        """Whether the call shows that the agent of a task or wait is awake.

        A person's call counts only in the name of its session, or when it has none.
        """
        return not self.person or session_key in (None, self.session_key)
