"""Define claims, findings, artifacts and ledger entries: what a task made, and the proof of it.

The daemon verifies each claim itself at the moment the task is completed. Source: docs/origins.md,
"Proof of completion".
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Protocol, runtime_checkable

from pydantic import Field, NonNegativeInt

from taskmem_hookspecs.value import Instant, Value

Checksum = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""SHA-256 in lower-case hex."""


class Claim(Value):
    """An artifact that an agent names as made, and the facts to verify it against."""

    kind: str
    """`file`, `command`, `url`, or a plug-in's own kind."""
    subject: str
    """A path, the name of a recorded command, or a URL."""
    task_id: str
    since: Instant
    """When the work began; a file that is older does not count as made."""
    claimed_at: Instant
    folder: str | None = None
    """Base of relative paths; None: unknown, so a relative path proves nothing."""
    roots: tuple[str, ...] = ()
    """Folders in which the file must lie once links are resolved; empty: no file is accepted."""
    checksum: Checksum | None = None
    """Expected SHA-256 of the content; None: any content counts."""


class Verdict(StrEnum):
    """The result of verifying a claim."""

    VERIFIED = "verified"
    """Checked, and true."""
    REFUTED = "refuted"
    """Checked, and false."""
    UNPROVEN = "unproven"
    """Could not be checked."""


class Finding(Value):
    """A verifier's answer to a claim."""

    verdict: Verdict
    detail: str
    """One sentence on what was checked and found."""
    checksum: Checksum | None = None
    """SHA-256 of the content; None: the content was not read to its end, or there is none."""
    size: NonNegativeInt | None = None
    """Size of the content, in bytes; None: unknown, or there is no content.

    In a refutation of a file, the core takes None for absent, 0 for empty, and more for too old.
    """


@runtime_checkable
class EvidenceVerifier(Protocol):
    """Verifies one kind of claim."""

    async def verify(self, claim: Claim) -> Finding:
        """Verify a claim; one refutation outweighs any number of proofs.

        Runs on an event loop in a thread of its own, under the same time limit as a hook.
        """
        ...


class Artifact(Value):
    """The latest finding on one artifact of a task."""

    artifact_id: str
    task_id: str
    run_id: str | None = None
    """The run that claimed it; None: the task had no known run."""
    kind: str
    subject: str
    verdict: Verdict
    detail: str
    checksum: Checksum | None = None
    size: NonNegativeInt | None = None
    checked_at: Instant
    """When it was last verified."""
    version: int = 0


class FileChange(StrEnum):
    """The change that a tool call made to a file."""

    CREATED = "created"
    CHANGED = "changed"
    REMOVED = "removed"


class LedgerVerdict(StrEnum):
    """The daemon's finding on a ledger entry."""

    PROVED = "proved"
    """The file exists, or was removed as the entry says."""
    UNVERIFIED = "unverified"
    """The daemon could not check it, or found it nowhere."""
    ABSENT = "absent"
    """The file does not exist."""
    EMPTY = "empty"
    """The file has a size of 0."""
    OLD = "old"
    """The file is older than the work and was not written since."""


class LedgerEntry(Value):
    """One path that a task created, changed or removed, or that an agent named.

    A task has at most one entry for each path.
    """

    task_id: str
    path: str
    """Absolute path; the name as the agent gave it if it could not be verified."""
    run_id: str | None = None
    """The run that made it; None: the task had no known run."""
    change: FileChange | None = None
    """None: the path was only named; no change is known."""
    call_id: str | None = None
    """The tool call that made the change; None: unknown."""
    at: Instant
    """When the change was made, or the path named."""
    size: NonNegativeInt | None = None
    """Size in bytes when last seen; None: never seen."""
    sha256: Checksum | None = None
    verdict: LedgerVerdict | None = None
    """None: not checked yet."""
    why: str | None = None
    """Why the verdict is not `proved`; None: it is, or there is none yet."""
    nearby: bool = False
    """True: it changed in a folder of the task meanwhile, and that is all that is known: no call of
    its agent was seen to write it, and its agent did not name it. So it proves nothing."""


class WorkFolder(Value):
    """A folder that the tools of a task used; one row for each folder of a task."""

    task_id: str
    path: str
    """Absolute path."""
    since: Instant | None = None
    """When the first command ran that may have changed files in it; None: no such command ran, so
    the folder is not searched for changes."""
    files: str | None = None
    """Listing of its files before the work, as the core encodes it; None: unknown."""
