"""What an agent says it made, and what a verifier finds out about it.

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
