"""Who calls a tool, and whether that counts as the agent acting."""

from __future__ import annotations

from taskmem_hookspecs import Task, Value


class Caller(Value):
    """Who calls a tool."""

    person: bool = False
    """A person at a terminal, rather than an agent through its host."""
    session_key: str | None = None
    """The gateway session the call comes from; None: unknown."""

    def acts_for(self, task: Task) -> bool:
        """Whether the call shows that the task's agent is awake.

        A person's call counts only in the name of the task's session, or when the
        task has none.
        """
        return not self.person or task.session_key in (None, self.session_key)
