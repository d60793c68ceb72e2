"""Test any `EvidenceVerifier` against the contract: a suite for its author to subclass."""
# ruff: noqa: S101, D102 - pytest explains assertions; names say what is tested

from __future__ import annotations

import asyncio
from abc import abstractmethod
from pathlib import Path

import pytest

from taskmem_hookspecs.model import Verdict
from taskmem_hookspecs.roles import Claim, EvidenceVerifier, Finding

STRANGE_SUBJECTS = (
    "",
    " ",
    ".",
    "/",
    "..",
    "~",
    "\x00",
    "one\ntwo",
    "x" * 5000,
    "$(touch x); rm -rf .",
    "https://",
    "/dev/zero",
    "\udcff",
)
"""Subjects that no verifier may verify: empty, malformed, hostile, or no artifact of a task."""


class VerifierSuite:
    """Subclass it in your tests and implement its three abstract methods."""

    @abstractmethod
    def make_verifier(self, tmp_path: Path) -> EvidenceVerifier:
        """Return a verifier."""

    @abstractmethod
    def make_true(self, tmp_path: Path) -> Claim:
        """Create something, and return a true claim of it."""

    @abstractmethod
    def make_false(self, tmp_path: Path) -> Claim:
        """Return a claim of something that does not exist."""

    def test_it_plays_the_part(self, tmp_path: Path) -> None:
        assert isinstance(self.make_verifier(tmp_path), EvidenceVerifier)

    def test_what_is_there_is_verified_as_often_as_it_is_looked_at(self, tmp_path: Path) -> None:
        verifier, claim = self.make_verifier(tmp_path), self.make_true(tmp_path)
        first, second = verify_claim(verifier, claim), verify_claim(verifier, claim)
        assert first.verdict is second.verdict is Verdict.VERIFIED, first.detail
        assert first.checksum == second.checksum

    def test_what_is_not_there_is_not_verified(self, tmp_path: Path) -> None:
        claim = self.make_false(tmp_path)
        finding = verify_claim(self.make_verifier(tmp_path), claim)
        assert finding.verdict is not Verdict.VERIFIED

    def test_what_sums_up_to_something_else_is_not_verified(self, tmp_path: Path) -> None:
        claim = self.make_true(tmp_path).model_copy(update={"checksum": "0" * 64})
        finding = verify_claim(self.make_verifier(tmp_path), claim)
        assert finding.verdict is not Verdict.VERIFIED

    @pytest.mark.parametrize("subject", STRANGE_SUBJECTS, ids=lambda text: ascii(text[:12]))
    def test_whatever_is_claimed_nothing_is_raised_and_nothing_believed(
        self, tmp_path: Path, subject: str
    ) -> None:
        claim = self.make_true(tmp_path).model_copy(update={"subject": subject})
        finding = verify_claim(self.make_verifier(tmp_path), claim)
        assert finding.verdict is not Verdict.VERIFIED


def verify_claim(verifier: EvidenceVerifier, claim: Claim) -> Finding:
    """Return the finding, after checking that its detail is one line."""
    finding = asyncio.run(verifier.verify(claim))
    assert isinstance(finding, Finding)
    assert finding.detail.strip(), "the finding says nothing"
    assert len(finding.detail.splitlines()) == 1
    return finding
