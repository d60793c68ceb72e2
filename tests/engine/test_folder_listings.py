"""What a folder held when tasks began in it: one look for all of them, kept while one is open."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from time import perf_counter

import pytest

import taskmem_evidence.hooks
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.tasks.ledger import FolderListing
from openclaw_taskmem.engine import evidence_checker, folder_listings, retention
from openclaw_taskmem.engine.folder_listings import FolderListings, list_files
from taskmem_hookspecs import WorkFolder
from taskmem_hookspecs.testing import FakeClock
from tests.support.sessions import Session
from tests.support.world import World

TICK = timedelta(milliseconds=11)
LATER = 25_000_000
"""Nanoseconds that stamps of files surely tell apart."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder whose files are old by then."""
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    for name in ("old.log", "other.log", "src/app.py"):
        (folder / name).write_text("Of last week.")
    return folder


@pytest.fixture
def listings_folder(tmp_path: Path) -> Path:
    """Where the listings are kept."""
    return tmp_path / "listings"


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders that were looked at, in order."""
    made: list[str] = []
    look = folder_listings.list_names

    def note(folder: str) -> Sequence[str] | None:
        made.append(folder)
        return look(folder)

    monkeypatch.setattr(folder_listings, "list_names", note)
    return made


@pytest.fixture
def world(project: Path, listings_folder: Path) -> World:
    newest = max(p.lstat().st_ctime_ns for p in project.rglob("*"))
    return World(
        clock=FakeClock(datetime.fromtimestamp(newest / 1e9, UTC) + TICK),
        plugins=[("evidence", taskmem_evidence.hooks)],
        artifact_roots=(str(project.parent),),
        listings=FolderListings(listings_folder),
    )


def register(world: World, project: Path) -> str:
    given = {"name": "One", "plan": ["Look", "Do"]}
    return str(world.call("task_register", Caller(folder=str(project)), **given)["task_id"])


def end(world: World, project: Path, task: str, status: str = "completed") -> list[tuple[str, str]]:
    """End a task; what changed in its folder, as its agent is told."""
    given = {"task_id": task, "status": status, "message": "Over."}
    answer = world.call("task_update", Caller(folder=str(project)), **given)
    seen = [*answer.get("made", ()), *answer.get("also_changed", ())]
    return sorted((os.path.relpath(each["path"], project), each["change"]) for each in seen)


def do_later(project: Path, work: Callable[[], object]) -> None:
    """Do something once files' times are past all that was there before."""
    probe = project.parent / "probe"
    probe.write_text("")
    first = probe.stat().st_ctime_ns
    while probe.stat().st_ctime_ns - first < LATER:
        probe.write_text("")
    work()


def set_clock_past(world: World, project: Path) -> None:
    """Set the clock past all that was done in a folder until now."""
    newest = max(p.lstat().st_ctime_ns for p in (project, *project.rglob("*")))
    world.clock.tick(
        (datetime.fromtimestamp(newest / 1e9, UTC) + TICK - world.clock.now()).total_seconds()
    )


def list_kept(listings_folder: Path) -> Sequence[Path]:
    return sorted(listings_folder.iterdir()) if listings_folder.exists() else []


def test_tasks_that_begin_within_a_minute_share_one_look(
    world: World, project: Path, listings_folder: Path, looks: list[str]
) -> None:
    tasks = [register(world, project) for _ in range(3)]
    world.clock.tick(folder_listings.SHARED_SECONDS + 1)
    tasks.append(register(world, project))
    assert looks == [str(project)] * 2
    assert len(list_kept(listings_folder)) == 1, "an equal listing is kept once"
    rows = [row for each in tasks for row in world.store.read_records(WorkFolder, each)]
    assert {row.files for row in rows} == {list_kept(listings_folder)[0].name}


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_a_listing_goes_with_the_last_of_its_tasks(
    world: World, project: Path, listings_folder: Path, status: str
) -> None:
    first, second = (register(world, project) for _ in range(2))
    end(world, project, first, status)
    [listing] = list_kept(listings_folder)
    assert listing.stat().st_mode & 0o777 == 0o600
    do_later(project, (project / "old.log").unlink)
    assert end(world, project, second) == [("old.log", "removed")]
    assert list_kept(listings_folder) == []


def test_a_listing_outlives_its_daemon_but_not_its_tasks(
    world: World, project: Path, listings_folder: Path
) -> None:
    first, second = (register(world, project) for _ in range(2))
    object.__setattr__(world.context, "listings", FolderListings(listings_folder))
    do_later(project, (project / "old.log").unlink)
    assert end(world, project, first) == [("old.log", "removed")]
    object.__setattr__(world.context, "listings", FolderListings())
    end(world, project, second, "failed")

    object.__setattr__(world.context, "listings", FolderListings(listings_folder))
    assert len(list_kept(listings_folder)) == 1
    retention.drop_ended(world.context)
    assert list_kept(listings_folder) == []


def test_where_hooks_tell_only_a_command_needs_a_look(
    world: World, project: Path, listings_folder: Path, looks: list[str]
) -> None:
    session = Session(world, folder=str(project))
    session.takes_up()
    session.writes(project / "a.md")
    assert (looks, list_kept(listings_folder)) == ([], [])
    session.runs_in(project, "make", run=lambda: None)
    assert looks == [str(project)]


def test_what_was_gone_before_a_task_began_is_not_removed_by_it(
    world: World, project: Path
) -> None:
    register(world, project)
    for name in ("src/app.py", "other.log"):
        (project / name).unlink()
    set_clock_past(world, project)
    shares = register(world, project)
    do_later(project, (project / "old.log").unlink)
    assert end(world, project, shares) == [("old.log", "removed")]


def test_a_tracked_file_that_was_gone_before_is_not_removed(world: World, project: Path) -> None:
    for command in ("init -q", "add ."):
        subprocess.run(["git", "-C", str(project), *command.split()], check=True)  # noqa: S607
    (project / "old.log").unlink()
    set_clock_past(world, project)
    task = register(world, project)
    do_later(project, (project / "other.log").unlink)
    assert end(world, project, task) == [("other.log", "removed")]


def put_back_old(file: Path) -> None:
    """Replace a file by one with an old time, as `tar` and `rsync -a` do."""
    new = file.with_name(".new")
    new.write_text("From the archive.")
    os.utime(new, (0, 0))
    new.replace(file)


@pytest.mark.parametrize(
    ("work", "change"),
    [
        (lambda file: file.chmod(0o600), None),
        (lambda file: os.link(file, file.with_name(".link")), None),
        (lambda file: file.write_text("New."), "changed"),
        (put_back_old, "changed"),
        (lambda file: file.rename(file.with_name("moved.log")), "removed"),
    ],
)
def test_a_files_own_times_tell_what_happened_to_it(
    world: World, project: Path, work: Callable[[Path], object], change: str | None
) -> None:
    task = register(world, project)
    do_later(project, lambda: work(project / "old.log"))
    found = dict(end(world, project, task))
    assert found.get("old.log") == change
    assert found.get("moved.log") == ("created" if change == "removed" else None)


@pytest.mark.parametrize("kind", ["damaged", "lost", "cut"])
def test_without_a_listing_the_times_of_files_are_enough(
    world: World, project: Path, listings_folder: Path, kind: str
) -> None:
    task = register(world, project)
    [listing] = list_kept(listings_folder)
    if kind == "lost":
        listing.unlink()
    else:
        listing.write_bytes(b"{}" if kind == "damaged" else b"")
    do_later(project, lambda: (project / "new.md").write_text("New."))
    (project / "old.log").write_text("New.")
    (project / "other.log").unlink()
    assert end(world, project, task) == [("new.md", "created"), ("old.log", "changed")]


def test_names_that_look_like_credentials_are_not_kept(
    world: World, project: Path, listings_folder: Path
) -> None:
    name = "ghp_" + "a1B2" * 9
    (project / name).write_text("x")
    task = register(world, project)
    [row] = world.store.read_records(WorkFolder, task)
    names = FolderListings(listings_folder).read_names(str(row.files))
    assert names == {"old.log", "other.log", "src/app.py"}


def test_a_listing_that_cannot_be_written_is_kept_in_memory(
    world: World, project: Path, listings_folder: Path
) -> None:
    listings_folder.write_text("In its place.")
    task = register(world, project)
    do_later(project, (project / "old.log").unlink)
    assert end(world, project, task) == [("old.log", "removed")]


def test_a_folder_that_is_too_large_is_looked_at_once_a_minute(
    world: World, project: Path, looks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_listings, "MOST_FILES", 1)
    register(world, project)
    do_later(project, (project / "new.md").touch)
    register(world, project)
    assert looks == [str(project)]


def test_a_folder_that_is_too_large_is_looked_through_once(
    world: World, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_listings, "MOST_FILES", 1)
    task, listed = register(world, project), list[bool]()
    look = evidence_checker.list_files

    def note(
        folder: str, since: int, until: float, *, ignored: bool = False
    ) -> FolderListing | None:
        listed.append(ignored)
        return look(folder, since, until, ignored=ignored)

    monkeypatch.setattr(evidence_checker, "list_files", note)
    end(world, project, task)
    assert listed == [False]


def test_a_search_for_a_pattern_is_not_led_round_by_links(project: Path) -> None:
    for link in ("a", "b"):
        (project / link).symlink_to(".")
    roots = (str(project),)
    assert folder_listings.has_match(f"{project}/**/app.py", roots)
    assert not folder_listings.has_match(f"{project}/**/none.txt", roots)
    assert not folder_listings.has_match(f"{project}/**/app.py", (str(project / "other"),))


def test_where_names_came_or_went_a_folder_is_looked_at_again(
    world: World, project: Path, looks: list[str]
) -> None:
    for change in (
        lambda: None,
        (project / "src/new.py").touch,
        (project / "src/app.py").unlink,
        lambda: (project / "old.log").write_text("Another text."),
    ):
        do_later(project, change)
        register(world, project)
    assert looks == [str(project)] * 3


def test_what_a_home_keeps_is_not_changed_by_a_task(world: World, project: Path) -> None:
    home = project / "state"
    (home / "listings").mkdir(parents=True)
    object.__setattr__(world.context, "home_folder", str(home))
    task = register(world, project)
    for name in ("state/listings/1", "state/taskmem.db-wal", "stateful.md"):
        do_later(project, partial((project / name).write_text, "New."))
    assert end(world, project, task) == [("stateful.md", "created")]


def test_a_task_that_works_in_the_home_itself_is_told_its_files(
    world: World, project: Path
) -> None:
    object.__setattr__(world.context, "home_folder", str(project))
    task = register(world, project)
    for name in ("taskmem.db-wal", "new.md"):
        do_later(project, partial((project / name).write_text, "New."))
    assert end(world, project, task) == [("new.md", "created")]


@pytest.mark.parametrize("by_hooks", [False, True])
def test_no_folder_is_looked_at_while_its_task_is_locked(
    world: World, project: Path, monkeypatch: pytest.MonkeyPatch, *, by_hooks: bool
) -> None:
    seen, look, hold = [], FolderListings.look_at, FolderListings.hold

    def note(name: str, do: Callable[..., object]) -> Callable[..., object]:
        def do_noted(*given: object) -> object:
            seen.append((name, any(lock.locked() for lock in world.context.locks)))
            return do(*given)

        return do_noted

    monkeypatch.setattr(FolderListings, "look_at", note("look", look))
    monkeypatch.setattr(FolderListings, "hold", note("hold", hold))
    if by_hooks:
        session = Session(world, folder=str(project))
        session.takes_up()
        session.runs_in(project, "make", run=lambda: None)
    else:
        register(world, project)
    assert seen == [("look", False), ("hold", True)]


@pytest.mark.parametrize("git", [False, True])
def test_a_folder_is_listed_alike_at_both_ends_of_a_task(project: Path, *, git: bool) -> None:
    names = [
        "memory/.dreams/1.md",
        "src/memory/.dreams/2.md",
        "lib/inner/deep/a.py",
        "lib/.hidden/b.py",
        "über.md",
    ]
    for name in names:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("x")
    (project / "link").symlink_to("/")
    os.mkfifo(project / "pipe")
    for each in (project, project / "lib/inner") if git else ():
        subprocess.run(["git", "init", "-q", str(each)], check=True)  # noqa: S607
    listing = list_files(str(project), 0, perf_counter() + 60)
    assert listing is not None
    assert listing.complete
    listed = [*(folder_listings.list_names(str(project)) or ())]
    assert sorted(listing.names) == [name for name in listed if name not in ("link", "pipe")]
    assert "lib/inner/deep/a.py" in listed
    assert not any(".dreams" in name for name in listed)


def test_the_names_of_a_folder_that_is_too_large_are_not_kept(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_listings, "MOST_FILES", 3)
    assert folder_listings.list_names(str(project)) == ["old.log", "other.log", "src/app.py"]
    (project / "new.md").write_text("x")
    assert folder_listings.list_names(str(project)) is None
