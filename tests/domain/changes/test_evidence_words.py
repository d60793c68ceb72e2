"""What a refused completion says: each thing, each reason and each cure once."""

from __future__ import annotations

from openclaw_taskmem.domain.changes.evidence import CheckedClaim, find_refusal
from taskmem_hookspecs import Claim, Finding, Verdict
from taskmem_hookspecs.testing import DAWN, a_task


def a_missing_file(subject: str, detail: str) -> CheckedClaim:
    claim = Claim(kind="file", subject=subject, task_id="task_1", since=DAWN, claimed_at=DAWN)
    return CheckedClaim(claim=claim, finding=Finding(verdict=Verdict.REFUTED, detail=detail))


def refusal_text(*checked: CheckedClaim) -> str:
    refusal = find_refusal(a_task(), checked, (), claims=False)
    assert refusal is not None
    return refusal.missing


def test_reason_that_names_its_thing_gets_no_name_before_it() -> None:
    reason = "There is no file /srv/a.md; write it, if it is yet to be made."

    assert refusal_text(a_missing_file("/srv/a.md", reason)) == reason


def test_one_thing_that_is_claimed_twice_is_missed_once() -> None:
    gone = a_missing_file("a.md", "Nobody knows.")

    assert refusal_text(gone, gone) == '"a.md": Nobody knows.'


def test_things_that_lack_for_one_reason_are_told_together() -> None:
    found = refusal_text(
        a_missing_file("a.md", "Nobody knows."), a_missing_file("b.md", "Nobody knows.")
    )

    assert found == '"a.md", "b.md": Nobody knows.'
