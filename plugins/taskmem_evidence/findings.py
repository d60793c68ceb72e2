"""Results of verifying a claim, and their sentences."""

from __future__ import annotations

from typing import Final

from taskmem_hookspecs import Claim, Finding, Verdict

_MOST_CHARS: Final = 200
_CHECKSUM_CHARS: Final = 12


class ClaimDoubted(Exception):
    """The claim is not verified, for the reason that its finding gives."""

    verdict = Verdict.UNPROVEN

    def __init__(
        self, detail: str, *, checksum: str | None = None, size: int | None = None
    ) -> None:
        super().__init__(detail)
        self.finding: Final = Finding(
            verdict=self.verdict, detail=detail, checksum=checksum, size=size
        )


class ClaimRefuted(ClaimDoubted):
    """The claim was checked and is false."""

    verdict = Verdict.REFUTED


class ClaimUnchecked(ClaimDoubted):
    """The claim could not be checked."""


def build_verified_finding(claim: Claim, checksum: str, size: int, detail: str) -> Finding:
    """Return the finding of a claim that holds.

    The claim's checksum, if any, must match; `checksum` is the SHA-256 in hex, and `size` in bytes.

    Raises:
        ClaimRefuted: The checksum differs from the claimed one.
    """
    if claim.checksum not in (None, checksum):
        raise ClaimRefuted(
            f"{detail} Its SHA-256 begins with {checksum[:_CHECKSUM_CHARS]}, though "
            f"{claim.checksum[:_CHECKSUM_CHARS]} was claimed.",
            checksum=checksum,
            size=size,
        )
    return Finding(verdict=Verdict.VERIFIED, detail=detail, checksum=checksum, size=size)


def format_name(text: str) -> str:
    """Return a name on one line and shortened, for use in a sentence.

    A name is data from an agent; it must not look like our own words.
    """
    clean = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    if len(clean) <= _MOST_CHARS:
        return clean
    half = _MOST_CHARS // 2
    return f"{clean[:half]}…{clean[-half:]}"
