"""What `taskmem doctor` asks of plug-ins: checks of the chain, and their rows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, Protocol, runtime_checkable

from pydantic import JsonValue

from taskmem_hookspecs.value import Value

TRIAL: Final = "taskmem-doctor-"
"""What the name of a session begins with that a check has made for itself."""


def is_trial(session_key: str | None) -> bool:
    """Whether a session is a check's own: nothing that hangs on it is the user's."""
    return session_key is not None and session_key.rpartition(":")[2].startswith(TRIAL)


class HealthState(StrEnum):
    """How one link of the chain is."""

    OK = "ok"
    WARN = "warn"
    """It works, and something is lost or odd."""
    FAIL = "fail"
    """It does not work; `taskmem doctor` ends with status 1."""


class HealthRow(Value):
    """One link of the chain from the daemon to the agent, and how it is."""

    id: str
    """What programs match on, such as `openclaw.gateway`."""
    state: HealthState
    detail: str
    """What was looked at and seen, in one sentence."""
    cure: str | None = None
    """What to do, in one sentence, with the command where there is one; None: there is
    nothing to do."""


class Checkup(Protocol):
    """What a check looks with; it runs in the command's process, not the daemon's."""

    @property
    def status(self) -> Mapping[str, JsonValue] | None:
        """What `taskmem status --json` prints; None: no daemon answers."""
        ...

    @property
    def transport(self) -> str | None:
        """The `name` of what carries wakes; None: there is nothing, or no telling."""
        ...

    @property
    def database(self) -> str:
        """The URL of the database, with its password."""
        ...

    @property
    def rows(self) -> Sequence[HealthRow]:
        """What the checks before this one have found; other plug-ins' too."""
        ...

    async def ask(self, method: str, params: Mapping[str, object]) -> JsonValue:
        """Ask the daemon, at most 15 s long; one that is just starting is waited for.

        `call` takes a `tool` and its `arguments`; `status`, `waits`, `wakes`,
        `events` and `plugins` answer with what the command of that name prints with
        `--json`, and take `all` and `limit` where that has them. `forget` takes the
        `id` of a wait of a session that `is_trial`, once it has ended: it goes, with
        its wakes. None of what such a session does is in the audit log.

        Raises:
            TaskmemError: It refused, with its sentence; `DaemonUnavailable` when
                there was no answer.
        """
        ...


@runtime_checkable
class HealthCheck(Protocol):
    """Looks at some links of the chain, for `taskmem doctor`."""

    name: str
    """What the row is called that says that the check itself failed."""
    costs: bool
    """Whether looking costs something, such as a model's turn, or leaves traces; then
    `--no-proof` leaves it out."""

    def look(self, checkup: Checkup) -> AsyncIterator[HealthRow]:
        """Yield the rows as they come: an async generator.

        It has an event loop in a thread of its own. When it raises, yields what is no
        row, or yields none for 30 s (90 s where it `costs`), that is a row which names
        the plug-in, and it is cancelled.
        """
        ...
