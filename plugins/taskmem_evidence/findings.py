"""How a look at a claim ends, and how it is said."""

from __future__ import annotations

from typing import Final

from taskmem_hookspecs import Claim, Finding, Verdict

_LONGEST: Final = 200
_SHORT: Final = 12


class ClaimRefuted(Exception):
    """It was looked at, and it is not as claimed."""

    def __init__(
        self, detail: str, *, checksum: str | None = None, size: int | None = None
    ) -> None:
        super().__init__(detail)
        self.checksum: Final = checksum
        self.size: Final = size


class ClaimUnchecked(Exception):
    """It could not be looked at."""


def build_refuted_finding(error: ClaimRefuted) -> Finding:
    """Return what a look found that shows a claim to be wrong."""
    return Finding(
        verdict=Verdict.REFUTED, detail=str(error), checksum=error.checksum, size=error.size
    )


def build_unproven_finding(detail: str) -> Finding:
    """Return that nothing was found out."""
    return Finding(verdict=Verdict.UNPROVEN, detail=detail)


def build_verified_finding(claim: Claim, checksum: str, size: int, detail: str) -> Finding:
    """Return that a claim holds.

    Args:
        claim: Says what the content must sum up to, if anything.
        checksum: SHA-256 of the content that was seen, in hex.
        size: Of that content, in bytes.
        detail: A sentence that says what is there.

    Raises:
        NotSo: The content is another than was claimed.
    """
    if claim.checksum not in (None, checksum):
        raise ClaimRefuted(
            f"{detail} Its SHA-256 begins with {checksum[:_SHORT]}, though "
            f"{claim.checksum[:_SHORT]} was claimed.",
            checksum=checksum,
            size=size,
        )
    return Finding(verdict=Verdict.VERIFIED, detail=detail, checksum=checksum, size=size)


def format_name(text: str) -> str:
    """Return a name as it can stand in a sentence: on one line, and not too long.

    What a name holds is data from an agent; it must not look like words of ours.
    """
    clean = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    if len(clean) <= _LONGEST:
        return clean
    half = _LONGEST // 2
    return f"{clean[:half]}…{clean[-half:]}"
