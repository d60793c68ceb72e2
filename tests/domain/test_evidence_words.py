"""What a refused completion says: each thing, each reason and each cure once."""

from __future__ import annotations

from openclaw_taskmem.domain.evidence import Checked, refuse
from taskmem_hookspecs import Claim, Finding, Verdict
from taskmem_hookspecs.testing import a_task
from taskmem_hookspecs.testing.clock import DAWN


def missing(subject: str, detail: str) -> Checked:
    claim = Claim(
        kind="file", subject=subject, task_id="task_1", since=DAWN, claimed_at=DAWN
    )
    return Checked(claim=claim, finding=Finding(verdict=Verdict.REFUTED, detail=detail))


def said_of(*checked: Checked) -> str:
    refusal = refuse(a_task(), checked, (), claims=False)
    assert refusal is not None
    return refusal.missing


def test_a_reason_that_names_its_thing_is_said_without_the_name_before_it() -> None:
    reason = "There is no file /srv/a.md; write it, if it is yet to be made."

    assert said_of(missing("/srv/a.md", reason)) == reason


def test_one_thing_that_is_claimed_twice_is_missed_once() -> None:
    gone = missing("a.md", "Nobody knows.")

    assert said_of(gone, gone) == '"a.md": Nobody knows.'


def test_things_that_lack_for_one_reason_are_told_together() -> None:
    found = said_of(missing("a.md", "Nobody knows."), missing("b.md", "Nobody knows."))

    assert found == '"a.md", "b.md": Nobody knows.'
