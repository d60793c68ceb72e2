"""Where a task's folders hold, or it makes, more files than are looked at one by one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter
from typing import Any
from unittest.mock import Mock

import pytest

import taskmem_evidence.hooks
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.errors import EvidenceMissing
from openclaw_taskmem.domain.tasks import ledger
from openclaw_taskmem.engine import evidence, evidence_checker, folder_listings
from openclaw_taskmem.engine.folder_listings import (
    LookTime,
    find_ends,
    list_files,
    list_names,
)
from taskmem_hookspecs import LedgerEntry
from taskmem_hookspecs.testing import FakeClock
from tests.support.world import World

OLD = 12
"""Files that a folder of the project holds from the start."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    make_files(folder / "old", OLD)
    return folder


@pytest.fixture
def world(project: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Two files are looked at one by one; one folder sums up the rest."""
    monkeypatch.setattr(evidence_checker, "HASHED_FILES", 2)
    monkeypatch.setattr(ledger, "MOST_SUMS", 2)
    newest = max(p.lstat().st_ctime_ns for p in (project, *project.rglob("*")))
    return World(
        clock=FakeClock(datetime.fromtimestamp(newest / 1e9, UTC) + timedelta(milliseconds=11)),
        plugins=[("evidence", taskmem_evidence.hooks)],
        artifact_roots=(str(project.parent),),
    )


def make_files(folder: Path, number: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for each in range(number):
        (folder / f"{each}.js").write_text("New.")


def install(project: Path) -> None:
    """Make five files in each of three folders of a package, and one beside them."""
    for name in ("a", "b", "c"):
        make_files(project / "modules/p" / name, 5)
    (project / "modules/lock").write_text("New.")


def register(world: World, project: Path, **given: Any) -> str:
    given = {"name": "One", "plan": ["Look", "Do"], **given}
    return str(world.call("task_register", Caller(folder=str(project)), **given)["task_id"])


def complete(world: World, project: Path, task: str, message: str = "Over.") -> dict[str, Any]:
    given = {"task_id": task, "status": "completed", "message": message}
    return world.call("task_update", Caller(folder=str(project)), **given)


def read_whys(answer: Mapping[str, Any], field: str, name: str, project: Path) -> dict[str, str]:
    return {
        each[name].removeprefix(f"{project}/"): each["why"]
        for each in answer[field]
        if "why" in each
    }


def test_many_files_are_summed_up_by_folder(world: World, project: Path) -> None:
    task = register(world, project)
    install(project)
    answer = complete(world, project, task)
    assert read_whys(answer, "also_changed", "path", project) == {
        "modules/p/": "14 more files in it were made, changed or removed; "
        "they were not looked at one by one."
    }
    assert "/modules/p/, " in answer["message"], "sums are told first"
    rows = world.store.read_records(LedgerEntry, task)
    paths = [os.path.relpath(each.path, project) for each in rows]
    assert paths == ["modules/lock", "modules/p", "modules/p/a/0.js"]


def test_what_is_the_agents_own_is_read_first(world: World, project: Path) -> None:
    task = register(world, project)
    install(project)
    (project / "report.md").write_text("New.")
    answer = complete(world, project, task, "I wrote report.md, and modules/p/c/4.js.")
    verdicts = {
        each["path"].removeprefix(f"{project}/"): each["verdict"] for each in answer["made"]
    }
    assert verdicts == {"report.md": "proved", "modules/p/c/4.js": "proved"}
    assert answer["unverified"] == []


def test_what_nobody_named_is_not_read(world: World, project: Path) -> None:
    task = register(world, project)
    (project / "other.md").write_text("New.")
    answer = complete(world, project, task)
    assert [each["path"] for each in answer["also_changed"]] == [str(project / "other.md")]
    assert world.store.read_task(task).artifacts == ()


def test_own_files_beyond_the_limit_are_not_verified(world: World, project: Path) -> None:
    task = register(world, project)
    install(project)
    answer = complete(world, project, task, f"It is all in {project}/modules/p.")
    [(what, why)] = read_whys(answer, "unverified", "what", project).items()
    assert what == "modules/p/"
    assert why.startswith("13 more files")


def test_after_a_refusal_the_same_files_are_summed_up_once(world: World, project: Path) -> None:
    task = register(world, project, metadata={"artifacts": ["report.md"]})
    for name in ("a", "b"):
        make_files(project / "modules/p" / name, 5)
    message = f"It is all in {project}/modules/p."
    with pytest.raises(EvidenceMissing):
        complete(world, project, task, message)
    sums = [row.path for row in world.store.read_records(LedgerEntry, task) if row.size is None]
    assert sums == [f"{project}/modules/p/{name}/" for name in ("a", "b")]

    make_files(project / "modules/p/c", 5)
    (project / "report.md").write_text("New.")
    answer = complete(world, project, task, message)
    [(what, why)] = read_whys(answer, "unverified", "what", project).items()
    assert (what, why.split(" more")[0]) == ("modules/p/", "13")


def test_reading_ends_when_its_time_is_over(
    world: World, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = register(world, project)
    for name in ("1.md", "2.md"):
        (project / name).write_text("New.")
    look = evidence_checker.EvidenceChecker._check_thing

    def take_long(*given: Any, **more: Any) -> object:
        world.clock.tick(evidence_checker.READ_TIME_LIMIT / timedelta(seconds=1) + 1)
        return look(*given, **more)

    monkeypatch.setattr(evidence_checker.EvidenceChecker, "_check_thing", take_long)
    answer = complete(world, project, task, "Wrote 1.md and 2.md.")
    assert read_whys(answer, "unverified", "what", project) == {"2.md": ledger.UNREAD_SENTENCE}


def test_what_was_summed_up_is_not_added_later(
    world: World, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = register(world, project)
    install(project)
    complete(world, project, task, "The build goes on, and makes late.md.")
    before = world.store.read_records(LedgerEntry, task)
    evidence.add_late_entries(world.context, task)
    assert world.store.read_records(LedgerEntry, task) == before

    write_later(project / "modules/p/late.md", before)
    evidence.add_late_entries(world.context, task)
    added = [each for each in world.store.read_records(LedgerEntry, task) if each not in before]
    assert [each.path for each in added] == [str(project / "modules/p/late.md")]


def write_later(path: Path, known: Sequence[LedgerEntry]) -> None:
    """Write a file until its times are later than all that is known."""
    newest = max(each.at for each in known).timestamp()
    path.write_text("New.")
    while path.stat().st_ctime <= newest + 0.001:
        path.write_text("New.")


def test_all_looks_of_a_completion_share_one_time(
    world: World, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    time = LookTime()
    with time as first:
        monkeypatch.setattr(folder_listings, "perf_counter", lambda: first + 1)
    with time as until:
        listing = list_files(str(project), 0, until)
        found = find_ends(str(project), {"0.js": ("/0.js",), "no.js": ("/no.js",)}, until)
    assert listing is not None
    assert (len(listing.names), listing.complete) == (0, False)
    assert found == (set(), False)


def test_a_long_listing_ends_when_its_time_is_over(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = iter(range(1000))
    monkeypatch.setattr(folder_listings, "perf_counter", lambda: float(next(ticks)))
    listing = list_files(str(project), 0, OLD / 2)
    assert listing is not None
    assert 0 < len(listing.names) < OLD
    assert not listing.complete


@pytest.mark.parametrize("kind", ["is_file", "is_dir"])
def test_of_a_huge_folder_no_more_than_the_limit_is_read(
    project: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    read = list[str]()

    def list_fakes() -> Iterator[object]:
        for number in range(100_000):
            read.append(f"{project}/{number}.js")
            entry = Mock(is_dir=lambda **_: False, is_file=lambda **_: False, path=read[-1])
            entry.configure_mock(**{"name": f"{number}.js", kind: lambda **_: True})
            yield entry

    monkeypatch.setattr(folder_listings, "MOST_FILES", 20)
    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", lambda _: nullcontext(list_fakes()))
        names = list_names(str(project))
        read_for_names = len(read)
        listing = list_files(str(project), 0, perf_counter() + 60)
    assert (names, read_for_names, len(read)) == (None, 21, 42)
    assert listing is not None
    assert not listing.complete


def test_what_a_cut_listing_lacks_is_not_looked_for(
    world: World, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, asked = register(world, project), list[str]()
    (project / "new.md").write_text("New.")
    monkeypatch.setattr(folder_listings, "MOST_FILES", 2)
    monkeypatch.setattr(evidence_checker, "is_removed_since", lambda path, _: asked.append(path))
    answer = complete(world, project, task)
    assert asked == []
    assert read_whys(answer, "unverified", "what", project) == {
        str(project): "It has more files than are looked at; there may be more changes."
    }


def test_all_names_are_searched_for_in_one_walk(
    world: World, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, searched = register(world, project), list[object]()
    search = find_ends

    def note(folder: str, names: Mapping[str, tuple[str, ...]], until: float) -> object:
        searched.append([*names])
        return search(folder, names, until)

    monkeypatch.setattr(evidence_checker, "find_ends", note)
    answer = complete(world, project, task, "See 3.js, none.js and nowhere.js.")
    assert searched == [["3.js", "none.js", "nowhere.js"]]
    assert sorted(read_whys(answer, "unverified", "what", project)) == ["none.js", "nowhere.js"]
