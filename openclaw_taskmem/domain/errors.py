"""Define the errors that the core raises and no plug-in does; all others are in the contract."""

from __future__ import annotations

from taskmem_hookspecs.errors import TaskmemError


class TaskEnded(TaskmemError):
    """The task is completed, failed or cancelled, and the call needs an open one."""


class RunHeld(TaskmemError):
    """Another owner has claimed the run; the sentence names the owner and the end of the lease."""


class RunNotReady(TaskmemError):
    """The run is not in a state for that call; the sentence names its state."""


class Fenced(TaskmemError):
    """Another owner has claimed the run since; nothing was written."""


class LimitReached(TaskmemError):
    """A limit on the number of open tasks, waits or messages is reached."""


class EvidenceMissing(TaskmemError):
    """The completion is not proved; the sentence says what was checked and found."""


class UnknownTool(TaskmemError):
    """No tool has that name."""


class DaemonUnavailable(TaskmemError):
    """No daemon answers, and starting one failed."""


class LookFailed(TaskmemError):
    """A sensor could not look; says why. An open wait is looked at again, a new one refused."""
