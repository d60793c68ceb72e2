"""What a refused completion says (each thing, reason and cure once), and what is excused."""

from __future__ import annotations

import pytest

from openclaw_taskmem.domain.changes.evidence import CheckedClaim, excuse_old_files, find_refusal
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
    reason = "There is no file /srv/a.md."

    assert refusal_text(a_missing_file("/srv/a.md", reason)) == reason


def test_one_thing_that_is_claimed_twice_is_missed_once() -> None:
    gone = a_missing_file("a.md", "Nobody knows.")

    assert refusal_text(gone, gone) == '"a.md": Nobody knows.'


def test_things_that_lack_for_one_reason_are_told_together() -> None:
    found = refusal_text(
        a_missing_file("a.md", "Nobody knows."), a_missing_file("b.md", "Nobody knows.")
    )

    assert found == '"a.md", "b.md": Nobody knows.'


def check(kind: str, verdict: Verdict, **found: object) -> CheckedClaim:
    claim = Claim(kind=kind, subject="x", task_id="task_1", since=DAWN, claimed_at=DAWN)
    finding = Finding.model_validate({"verdict": verdict, "detail": "It is so.", **found})
    return CheckedClaim(claim=claim, finding=finding)


OLD = check("file", Verdict.REFUTED, size=7)
RUN = check("command", Verdict.VERIFIED)


def test_an_old_file_is_doubted_where_a_command_was_run() -> None:
    excused = excuse_old_files([OLD, RUN])

    assert [each.finding.verdict for each in excused] == [Verdict.UNPROVEN, Verdict.VERIFIED]
    assert excused[0].finding.detail == (
        "It is so. It may have been right already: command:x was run since."
    )


@pytest.mark.parametrize(
    "checked",
    [
        [OLD],
        [OLD, check("command", Verdict.REFUTED)],
        [OLD, check("url", Verdict.VERIFIED)],
        [check("file", Verdict.REFUTED), RUN],
        [check("file", Verdict.REFUTED, size=0), RUN],
        [check("file", Verdict.REFUTED, size=7, checksum="a" * 64), RUN],
    ],
)
def test_nothing_else_excuses_and_nothing_else_is_excused(checked: list[CheckedClaim]) -> None:
    assert excuse_old_files(checked) == tuple(checked)
