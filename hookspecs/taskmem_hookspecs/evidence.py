"""What a task made, what its agent says it made, and what a verifier finds out.

A claim is checked by the daemon itself, at the moment in which the task is to be
completed. Source: requirement F2, seed 004 "Completion Claim-Evidence Contract".
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Protocol, runtime_checkable

from pydantic import Field, NonNegativeInt

from taskmem_hookspecs.value import Instant, Value

Checksum = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""SHA-256 in lower-case hex."""


class Claim(Value):
    """Something an agent says it made, and what its truth is measured by."""

    kind: str
    """`file`, `command`, `url`, or what a plug-in verifies."""
    subject: str
    """What it is about: a path, the name of a recorded command, a URL."""
    task_id: str
    since: Instant
    """When the work began: what is older was there before it."""
    claimed_at: Instant
    folder: str | None = None
    """Where a relative path starts; None: nobody knows, so that it proves nothing."""
    roots: tuple[str, ...] = ()
    """The folders that a file may lie in once links are followed; empty: nowhere."""
    checksum: Checksum | None = None
    """What the content must sum up to; None: any content counts."""


class Verdict(StrEnum):
    """What became of a claim."""

    VERIFIED = "verified"
    """It was looked at, and it is there."""
    REFUTED = "refuted"
    """It was looked at, and it is not so."""
    UNPROVEN = "unproven"
    """It could not be looked at."""


class Finding(Value):
    """What a verifier found out about a claim."""

    verdict: Verdict
    detail: str
    """What was looked at and seen, in one sentence."""
    checksum: Checksum | None = None
    """Of the content that was seen; None: there is nothing to sum."""
    size: NonNegativeInt | None = None
    """Of that content, in bytes; None: it has none."""


@runtime_checkable
class EvidenceVerifier(Protocol):
    """Checks one kind of claim against the world."""

    async def verify(self, claim: Claim) -> Finding:
        """Return what was found; one refutation outweighs all proofs.

        It has an event loop in a thread of its own, and as long as any hook.
        """
        ...


class Artifact(Value):
    """What is known of one thing that a task is to make.

    Source: seed 004, `task_artifacts`.
    """

    artifact_id: str
    task_id: str
    run_id: str | None = None
    """The run that claimed it; None: no run of the task was known."""
    kind: str
    subject: str
    verdict: Verdict
    detail: str
    checksum: Checksum | None = None
    size: NonNegativeInt | None = None
    checked_at: Instant
    """When it was last looked at."""
    version: int = 0


class FileChange(StrEnum):
    """What happened to a file."""

    CREATED = "created"
    CHANGED = "changed"
    REMOVED = "removed"


class LedgerVerdict(StrEnum):
    """What the daemon saw of an entry of the ledger when it looked."""

    PROVED = "proved"
    """It is there, or is gone as it should be."""
    UNVERIFIED = "unverified"
    """It could not be looked at, or was found nowhere."""
    ABSENT = "absent"
    EMPTY = "empty"
    OLD = "old"
    """It was there before the work began, and was not written since."""


class LedgerEntry(Value):
    """One thing that a task made, or that could not be verified for it.

    A task has one entry for each path.
    """

    task_id: str
    path: str
    """Absolute; of what could not be verified, whatever it was called."""
    run_id: str | None = None
    """The run in which it was made; None: no run of the task was known."""
    change: FileChange | None = None
    """None: nothing is known to have happened; it was only named."""
    call_id: str | None = None
    """The tool call that did it; None: not known."""
    at: Instant
    """When it was made, or named."""
    size: NonNegativeInt | None = None
    """In bytes, when it was last seen; None: it was never seen."""
    sha256: Checksum | None = None
    verdict: LedgerVerdict | None = None
    """None: it was not looked at yet."""
    why: str | None = None
    """Why the verdict is not `proved`; None: it is, or there is none yet."""


class WorkFolder(Value):
    """A folder that the tools of a task used; a task has one row for each."""

    task_id: str
    path: str
    """Absolute."""
    since: Instant | None = None
    """When the first command ran that may have changed anything in it; None: none did,
    so that it is not searched for changes."""
    files: str | None = None
    """Its files before the work, as the core encodes them; None: not known."""
