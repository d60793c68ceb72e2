"""Define the checks that plug-ins provide to `taskmem doctor`, and their rows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, Protocol, runtime_checkable

from pydantic import JsonValue

from taskmem_hookspecs.model import Value

TRIAL: Final = "taskmem-doctor-"
"""Prefix of the name of a session that a check of the doctor creates for its own use."""


def is_trial(session_key: str | None) -> bool:
    """Return True if the doctor created the session, so that none of its rows is the user's."""
    return session_key is not None and session_key.rpartition(":")[2].startswith(TRIAL)


class DoctorState(StrEnum):
    """State of one link of the chain."""

    OK = "ok"
    OFF = "off"
    """Not set up, or switched off; nothing is wrong."""
    WARN = "warn"
    """Works, with a loss or an oddity."""
    FAIL = "fail"
    """Does not work; `taskmem doctor` exits with status 1."""


class DoctorRow(Value):
    """State of one link of the chain from the daemon to the agent."""

    id: str
    """Identifier for programs, such as `openclaw.gateway`."""
    state: DoctorState
    detail: str
    """One sentence on what was checked and found."""
    effect: str | None = None
    """One sentence on what does not work because of it; None: `detail` says so, or nothing."""
    cure: str | None = None
    """One sentence on what to do, with the command, if any; None: nothing to do."""


class Checkup(Protocol):
    """All that a check can read and ask, in the command's process, not the daemon's."""

    @property
    def status(self) -> Mapping[str, JsonValue] | None:
        """The output of `taskmem status --json`; None: no daemon answers."""
        ...

    @property
    def transports(self) -> Sequence[str]:
        """The `name` of each wake transport in use; empty: there is none, or it is unknown."""
        ...

    @property
    def database(self) -> str:
        """URL of the database, including its password."""
        ...

    @property
    def rows(self) -> Sequence[DoctorRow]:
        """Rows of all earlier checks, including those of other plug-ins."""
        ...

    async def ask(self, method: str, params: Mapping[str, object]) -> JsonValue:
        """Send a request to the daemon and return its answer, within 15 s.

        A daemon that is still starting is waited for.

        `call` takes a `tool` and its `arguments`. `status`, `waits`, `wakes`, `events` and
        `plugins` return what the command of that name prints with `--json`; they take `all` and
        `limit` if the command does. `forget` takes the `id` of an ended wait whose session
        `is_trial`, and deletes it with its wakes. The audit log records nothing of such a session.

        Raises:
            TaskmemError: The daemon refused, with its sentence, or did not answer.
        """
        ...


@runtime_checkable
class DoctorCheck(Protocol):
    """Checks some links of the chain, for `taskmem doctor`."""

    name: str
    """Id of the row that reports a failure of the check itself."""
    costs: bool
    """True if the check costs something, such as a model's turn, or leaves traces; `--no-proof`
    then skips it."""

    def look(self, checkup: Checkup) -> AsyncIterator[DoctorRow]:
        """Yield the rows as they are found: an async generator.

        Runs on an event loop in a thread of its own. If it raises, yields anything but a row,
        yields nothing for 30 s (90 s if it `costs`), or goes on after 200 rows, it is cancelled,
        and a row that names the plug-in reports that.
        """
        ...
