"""Values and functions that `taskmem` gives to the commands of plug-ins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable


class CommandLine(Protocol):
    """The `obj` of the click context in which a plug-in's command runs."""

    def require_person(self) -> None:
        """End the command with a sentence if an agent's host runs it, or no terminal is there.

        It prevents mistakes: any program with a shell can make a terminal.
        """
        ...

    def call_daemon(self, method: str, **params: object) -> Any:  # noqa: ANN401 - JSON
        """Send a request to the daemon, started if none runs, and return its answer.

        `call_daemon("call", tool="task_list", arguments={})` calls any tool of docs/tools.md, as a
        person; `call_daemon("status")` tells what the daemon holds. Other methods may change.
        """
        ...

    def is_daemon_running(self) -> bool:
        """Return whether a daemon serves the home."""
        ...


@runtime_checkable
class HostCommand(Protocol):
    """A `click.Command` that sets up a host, and that `taskmem setup` without a name offers.

    Its entry point is `setup.NAME`, and it has the option `--dry-run`.
    """

    def find_host(self, environ: Mapping[str, str]) -> str | None:
        """Return what people call the host, as "Claude Code"; None: it is not on this machine."""
        ...


@runtime_checkable
class ReadyHostCommand(Protocol):
    """A `HostCommand` that knows what it has done; it is not offered where all is in place."""

    def is_set_up(self, environ: Mapping[str, str]) -> bool:
        """Return whether the command without options would change nothing."""
        ...
