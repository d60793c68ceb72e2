"""What a task made, what was tested of it, and what is only claimed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from openclaw_taskmem.domain.tasks.proofs import describe_checks, list_proofs, summarize_proofs
from taskmem_hookspecs import Artifact, LedgerEntry
from taskmem_hookspecs.testing import DAWN


def an_entry(path: str = "/w/report.pdf", **fields: Any) -> LedgerEntry:
    known = {"task_id": "task_1", "path": path, "at": DAWN, "change": "changed", "size": 14_213}
    return LedgerEntry.model_validate({**known, "verdict": "proved", **fields})


def an_artifact(subject: str, minute: int = 0, **fields: Any) -> Artifact:
    known = {"artifact_id": subject, "task_id": "task_1", "kind": "file", "subject": subject}
    found = {"verdict": "verified", "detail": "It is there.", **fields}
    at = DAWN + timedelta(minutes=minute)
    return Artifact.model_validate({**known, **found, "checked_at": at})


@pytest.mark.parametrize(
    ("entry", "standing", "tested"),
    [
        ({}, "checked", "exists, changed during the task, 14 KB"),
        ({"change": "created", "size": 33}, "checked", "exists, created during the task, 33 bytes"),
        ({"change": "removed", "size": None}, "removed", "is gone, removed during the task"),
        ({"change": "created", "verdict": "absent", "why": "Gone."}, "removed", "Gone."),
        ({"verdict": "empty", "why": "It is empty."}, "refuted", "It is empty."),
        ({"verdict": "unverified", "why": "Elsewhere."}, "not verified", "Elsewhere."),
        (
            {"nearby": True},
            "changed meanwhile",
            (
                "changed in a folder of the task; no call of its agent was seen to do that, nor "
                "did it name the file"
            ),
        ),
        (
            {"verdict": None},
            "not checked yet",
            "changed by a tool; it is tested when the task is completed",
        ),
    ],
)
def test_what_was_tested_of_a_file_is_told(
    entry: dict[str, Any], standing: str, tested: str
) -> None:
    [proof] = list_proofs([an_entry(**entry)], [])
    assert (proof.standing, proof.tested) == (standing, tested)


def test_files_of_one_name_are_told_apart() -> None:
    paths = ("/w/a/b/index.html", "/w/c/b/index.html", "/w/README.md")
    made, unproved = summarize_proofs(
        list_proofs([*map(an_entry, paths), an_entry("/w/d/README.md", verdict="empty")], [])
    )
    assert made == "made w/README.md, a/b/index.html, c/b/index.html, seen to exist"
    assert unproved == "refuted: d/README.md"


def test_a_file_tells_when_it_was_looked_at() -> None:
    [proof] = list_proofs([an_entry()], [an_artifact("/w/report.pdf", 5)])
    assert proof.looked_at == DAWN + timedelta(minutes=5)


def test_what_an_earlier_completion_named_is_left_out() -> None:
    old, new = an_artifact("/w/old.md", 1, verdict="refuted"), an_artifact("tests", 2)
    assert [each.what for each in list_proofs([], [old, new])] == ["tests"]


def test_what_exactly_was_checked_is_told_in_words() -> None:
    entries = [an_entry(sha256="ab" * 32), an_entry("/w/other.md", nearby=True)]
    command = an_artifact("tests", kind="command", detail="It ended with status 0.")
    assert describe_checks(list_proofs(entries, [command])) == (
        "report.pdf exists, changed during the task, 14 KB, sha256 abababababab; tests: It ended "
        "with status 0"
    )
    assert describe_checks(list_proofs([an_entry(verdict="empty")], [])) == ""
    assert describe_checks(list_proofs([an_entry(f"/w/{n}") for n in "abcde"], [])).endswith(
        "; and 2 more"
    )


def test_claims_are_told_apart_from_what_was_checked() -> None:
    entries = [an_entry(f"/w/{name}.md") for name in "abcde"]
    entries.append(an_entry("/w/old.md", change="removed", size=None))
    entries.append(an_entry("s3://shop/x", verdict="unverified", change=None, why="Elsewhere."))

    made, unproved = summarize_proofs(list_proofs(entries, []))

    assert made == "made a.md, b.md, c.md and 2 more, seen to exist; removed old.md"
    assert unproved == "not verified: x"
