"""Claims of files, true and false, each with what makes it so."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import string
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from taskmem_evidence import files
from taskmem_hookspecs import Claim

EPOCH = datetime.fromtimestamp(0, UTC)
LATER = timedelta(hours=1)
LETTERS = string.ascii_letters + string.digits + " ._-+äß中'\"\\\n\t$*?[]{}"


def now() -> datetime:
    return datetime.now(UTC)


def a_claim(subject: str | Path, **more: Any) -> Claim:
    at = now()
    given = {
        "kind": "file",
        "subject": str(subject),
        "task_id": "task_1",
        "since": at,
        "claimed_at": at,
    }
    return Claim(**{**given, **more})


@dataclass
class Scene:
    """A folder in which a task works, what lies beside it, and dice."""

    top: Path
    dice: Random
    since: datetime = field(init=False)
    names: int = 0

    def __post_init__(self) -> None:
        self.begin()
        self.work = self.top / "work"
        self.outside = self.top / "outside"
        self.work.mkdir()
        self.outside.mkdir()

    def begin(self) -> None:
        """Let the work begin, by the clock of the files: ours may be ahead of it."""
        probe = self.top / "probe"
        probe.touch()
        at = probe.stat().st_ctime_ns
        probe.unlink()
        self.since = EPOCH + timedelta(microseconds=at // 1000)

    def name(self) -> str:
        """Return a name that nothing in the scene has yet."""
        self.names += 1
        some = "".join(self.dice.choices(LETTERS, k=self.dice.randint(0, 40)))
        return f"{self.dice.choice(('', '-', '.', ' ', '..'))}n{self.names}{some}"

    def content(self) -> bytes:
        size = self.dice.choice((1, 2, 100, 4096, 70_000))
        return self.dice.choice((b"\n", b"\0", b"x", self.dice.randbytes(1))) * size

    def folder(self) -> Path:
        """Return a folder at some depth below the work's."""
        place = self.work
        for _ in range(self.dice.randint(0, 3)):
            place /= self.name()
        place.mkdir(parents=True, exist_ok=True)
        return place

    def file(self, folder: Path | None = None) -> Path:
        path = (folder or self.folder()) / self.name()
        path.write_bytes(self.content())
        return path

    def claim(self, subject: str | Path, **more: Any) -> Claim:
        given: dict[str, Any] = {
            "since": self.since,
            "folder": str(self.work),
            "roots": (str(self.work),),
        }
        return a_claim(subject, **{**given, **more})

    def spell_path(self, path: Path) -> str:
        """Return a path in one of the ways in which it can be written."""
        whole = str(path)
        inside = os.path.relpath(path, self.work)
        ways = [whole, f"./{inside}", f"../work/{inside}", whole.replace("/", "//")]
        return self.dice.choice(ways)


def a_scene(top: Path, dice: Random | int) -> Scene:
    """Set a scene in an empty folder; a number is what the dice start from."""
    rolling = Random(dice) if isinstance(dice, int) else dice  # noqa: S311
    return Scene(top.resolve(), rolling)


@dataclass(frozen=True)
class Case:
    """A claim, and what happens while it is looked at."""

    claim: Claim
    meanwhile: Callable[[], object] | None = None

    def __iter__(self) -> Iterator[Any]:
        return iter((self.claim, self.meanwhile))


@contextmanager
def interfere(what: Callable[[], object] | None, *, first: bool = False) -> Iterator[None]:
    """Let something happen after the content was read, or right before."""
    read = files._hash_content

    def read_and_interfere(*given: Any) -> str:
        if what and first:
            what()
        answer = read(*given)
        if what and not first:
            what()
        return answer

    files._hash_content = read_and_interfere
    try:
        yield
    finally:
        files._hash_content = read


# --- true ---------------------------------------------------------------------


def written_file(scene: Scene) -> Case:
    return Case(scene.claim(scene.spell_path(scene.file())))


def rewritten_file(scene: Scene) -> Case:
    path = scene.file()
    scene.begin()
    path.write_bytes(scene.content())
    return Case(scene.claim(path))


def appended_file(scene: Scene) -> Case:
    path = scene.file()
    os.utime(path, (1, 1))
    scene.begin()
    with path.open("ab") as sink:
        sink.write(scene.content())
    return Case(scene.claim(scene.spell_path(path)))


def moved_file(scene: Scene) -> Case:
    made = scene.file(scene.dice.choice((scene.outside, scene.work)))
    path = scene.folder() / scene.name()
    return Case(scene.claim(scene.spell_path(made.replace(path))))


def moved_over_an_old_one(scene: Scene) -> Case:
    path = scene.file()
    os.utime(path, (1, 1))
    scene.begin()
    scene.file(scene.outside).replace(path)
    return Case(scene.claim(path))


def linked_file(scene: Scene) -> Case:
    link = scene.folder() / f"l{scene.name()}"
    made = scene.file()
    goal = scene.dice.choice((str(made), os.path.relpath(made, link.parent)))
    link.symlink_to(goal)
    return Case(scene.claim(scene.spell_path(link)))


def in_a_linked_folder(scene: Scene) -> Case:
    made = scene.file()
    link = scene.folder() / f"l{scene.name()}"
    link.symlink_to(made.parent)
    return Case(scene.claim(link / made.name))


def of_two_names(scene: Scene) -> Case:
    path = scene.folder() / f"h{scene.name()}"
    path.hardlink_to(scene.file(scene.outside))
    return Case(scene.claim(path))


def in_a_linked_root(scene: Scene) -> Case:
    root = scene.top / "root"
    root.symlink_to(scene.work)
    return Case(scene.claim(scene.spell_path(scene.file()), roots=("/nowhere", str(root))))


def file_with_checksum(scene: Scene) -> Case:
    path = scene.file()
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    return Case(scene.claim(path, checksum=checksum))


def read_only(scene: Scene) -> Case:
    path = scene.file()
    path.chmod(0o400)
    return Case(scene.claim(path))


def copied_with_its_instants(scene: Scene) -> Case:
    old = scene.file(scene.outside)
    os.utime(old, (1, 1))
    scene.begin()
    path = scene.folder() / scene.name()
    shutil.copy2(old, path)
    return Case(scene.claim(path))


def unpacked_file(scene: Scene) -> Case:
    path = scene.file()
    os.utime(path, (1, scene.dice.randint(0, 1_000_000_000)))
    return Case(scene.claim(path))


def downloaded_from_a_clock_that_is_ahead(scene: Scene) -> Case:
    path = scene.file()
    ahead = (scene.since + LATER).timestamp()
    os.utime(path, (ahead, ahead))
    return Case(scene.claim(path))


def copied_onto_an_equal_one(scene: Scene) -> Case:
    old, path = scene.file(scene.outside), scene.file()
    shutil.copy2(old, path)
    scene.begin()
    shutil.copy2(old, path)
    return Case(scene.claim(path))


def set_back_after_a_change(scene: Scene) -> Case:
    path = scene.file()
    scene.begin()
    path.write_bytes(scene.content())
    os.utime(path, (1, 1))
    return Case(scene.claim(path))


def made_executable(scene: Scene) -> Case:
    path = scene.file()
    scene.begin()
    path.chmod(0o755)
    return Case(scene.claim(path))


def marker_file(scene: Scene) -> Case:
    path = scene.folder() / scene.dice.choice(("__init__.py", ".done", "_SUCCESS", "a.ok"))
    path.touch()
    return Case(scene.claim(scene.spell_path(path)))


def empty_as_its_checksum_says(scene: Scene) -> Case:
    path = scene.file()
    path.write_bytes(b"")
    return Case(scene.claim(path, checksum=hashlib.sha256().hexdigest()))


def folder_with_a_new_file(scene: Scene) -> Case:
    folder = scene.work / scene.name()
    folder.mkdir()
    scene.file(folder)
    scene.begin()
    scene.file(folder)
    return Case(scene.claim(f"{scene.spell_path(folder)}{scene.dice.choice(('', '/'))}"))


def pattern_of_a_new_file(scene: Scene) -> Case:
    folder = scene.work / f"d{scene.dice.randint(0, 9)}"
    folder.mkdir()
    (folder / "old.png").write_bytes(b"x")
    scene.begin()
    (folder / "new.png").write_bytes(b"x")
    shown = scene.dice.choice(("*.png", "n?w.png", "*", "../d*/*.png"))
    return Case(scene.claim(scene.spell_path(folder / "x").removesuffix("x") + shown))


EMPTY = (marker_file, empty_as_its_checksum_says)
"""True without any content."""
TRUE = (
    written_file,
    rewritten_file,
    appended_file,
    moved_file,
    moved_over_an_old_one,
    linked_file,
    in_a_linked_folder,
    of_two_names,
    in_a_linked_root,
    file_with_checksum,
    read_only,
    copied_with_its_instants,
    unpacked_file,
    downloaded_from_a_clock_that_is_ahead,
    copied_onto_an_equal_one,
    set_back_after_a_change,
    made_executable,
    folder_with_a_new_file,
    pattern_of_a_new_file,
    *EMPTY,
)


# --- false --------------------------------------------------------------------


def absent(scene: Scene) -> Case:
    return Case(scene.claim(scene.spell_path(scene.folder() / scene.name())))


def absent_with_its_folder(scene: Scene) -> Case:
    return Case(scene.claim(scene.work / scene.name() / "deep" / scene.name()))


def below_a_file(scene: Scene) -> Case:
    more = scene.dice.choice(("", "x", ".", "../x"))
    return Case(scene.claim(f"{scene.file()}/{more}"))


def empty(scene: Scene) -> Case:
    path = scene.file()
    path.write_bytes(b"")
    return Case(scene.claim(scene.spell_path(path)))


def stale(scene: Scene) -> Case:
    path = scene.file()
    at = scene.dice.choice((0, 1, 10**9, now().timestamp()))
    os.utime(path, (at, at))
    return Case(scene.claim(scene.spell_path(path), since=now() + LATER))


def stale_though_it_says_otherwise(scene: Scene) -> Case:
    path = scene.file()
    since = now() + LATER
    ahead = (since + scene.dice.choice((timedelta(0), LATER))).timestamp()
    os.utime(path, (ahead, ahead))
    return Case(scene.claim(path, since=since))


def stale_behind_a_fresh_link(scene: Scene) -> Case:
    path = scene.file()
    link = scene.work / f"l{scene.name()}"
    link.symlink_to(path)
    return Case(scene.claim(link, since=now() + LATER))


def stale_folder(scene: Scene) -> Case:
    path = scene.file()
    return Case(
        scene.claim(scene.dice.choice((path.parent, scene.work, "", ".")), since=now() + LATER)
    )


def folder_of_the_work(scene: Scene) -> Case:
    scene.file()
    return Case(scene.claim(scene.dice.choice((scene.work, ".", "./", "*", "x/.."))))


def folder_of_empty_files(scene: Scene) -> Case:
    path = scene.folder()
    if scene.dice.random() < 0.5:
        (path / "empty.txt").touch()
    return Case(scene.claim(scene.spell_path(path)))


def folder_of_links_out(scene: Scene) -> Case:
    path = scene.folder()
    (path / "link").symlink_to(scene.file(scene.outside))
    (path / "links").symlink_to(scene.outside)
    return Case(scene.claim(f"{scene.spell_path(path)}{scene.dice.choice(('', '/*', '/**/*'))}"))


def pattern_of_old_files(scene: Scene) -> Case:
    path = scene.work / "old.png"
    path.write_bytes(b"x")
    return Case(scene.claim(scene.dice.choice(("*.png", "*")), since=now() + LATER))


def pattern_of_nothing(scene: Scene) -> Case:
    scene.file(scene.outside)
    return Case(scene.claim(scene.dice.choice(("*.png", "no*/*", "../outside/*", "/*/outside/*"))))


def no_file(scene: Scene) -> Case:
    path = scene.work / "odd"
    if scene.dice.random() < 0.5 or sys.platform != "linux":
        os.mkfifo(path)
    else:
        os.mknod(path, stat.S_IFSOCK | 0o600)
    return Case(scene.claim(path))


def outside(scene: Scene) -> Case:
    return Case(scene.claim(scene.file(scene.outside)))


def outside_by_dots(scene: Scene) -> Case:
    made = scene.file(scene.outside)
    folder = scene.folder()
    dots = os.path.relpath(made, folder)
    return Case(scene.claim(f"{folder}/{dots}"))


def outside_by_a_link(scene: Scene) -> Case:
    link = scene.folder() / f"l{scene.name()}"
    made = scene.file(scene.outside)
    link.symlink_to(scene.dice.choice((str(made), os.path.relpath(made, link.parent))))
    return Case(scene.claim(scene.spell_path(link)))


def outside_by_a_folder(scene: Scene) -> Case:
    made = scene.file(scene.outside)
    link = scene.folder() / f"l{scene.name()}"
    link.symlink_to(scene.outside)
    return Case(scene.claim(f"{link}/{made.name}"))


def outside_by_dots_behind_a_link(scene: Scene) -> Case:
    deep = scene.outside / "deep"
    deep.mkdir()
    made = scene.file(scene.outside)
    link = scene.work / f"l{scene.name()}"
    link.symlink_to(deep)
    (scene.work / made.name).write_bytes(b"what a path looks to mean")
    return Case(scene.claim(f"{link}/../{made.name}"))


def outside_in_a_folder_named_alike(scene: Scene) -> Case:
    alike = scene.top / f"work{scene.dice.choice(('-old', '2', ' '))}"
    alike.mkdir()
    return Case(scene.claim(scene.file(alike)))


def of_no_root(scene: Scene) -> Case:
    roots = scene.dice.choice(((), ("",), (".",), ("/nowhere",), ("\0",)))
    return Case(scene.claim(scene.file(), roots=roots))


def from_nowhere(scene: Scene) -> Case:
    name = scene.file(scene.work).name
    return Case(scene.claim(name, folder=scene.dice.choice((None, "", "work"))))


def leads_nowhere(scene: Scene) -> Case:
    link = scene.work / f"l{scene.name()}"
    link.symlink_to(scene.dice.choice((link.name, "nowhere", "/nowhere")))
    return Case(scene.claim(link))


def impossible(scene: Scene) -> Case:
    names = ("n\0", "n" * 256, "n/" * 4000 + "n", "~", "~/n", " ", "\ud800")
    name = scene.dice.choice(names)
    path = f"{scene.work}/{name}"
    subject = scene.dice.choice((name, path)) if name.strip("~ /n") else name
    # As a caller could make it who does not check.
    return Case(scene.claim("n").model_copy(update={"subject": subject}))


def of_another_sum(scene: Scene) -> Case:
    path = scene.file()
    other = hashlib.sha256(path.read_bytes() + b"\n").hexdigest()
    return Case(scene.claim(path, checksum=other))


def swapped_for_another(scene: Scene) -> Case:
    path = scene.file()
    other = scene.file(scene.outside)
    return Case(scene.claim(scene.spell_path(path)), lambda: other.replace(path))


def swapped_for_its_equal(scene: Scene) -> Case:
    path = scene.file()
    other = scene.outside / "other"
    shutil.copy2(path, other)
    return Case(scene.claim(path), lambda: other.replace(path))


def swapped_for_a_link_out(scene: Scene) -> Case:
    path = scene.file()
    other = scene.outside / "link"
    other.symlink_to(scene.file(scene.outside))
    return Case(scene.claim(path), lambda: other.replace(path))


def swapped_for_a_link_to_itself_elsewhere(scene: Scene) -> Case:
    path = scene.file()

    def swap() -> None:
        away = path.replace(scene.outside / "away")
        path.symlink_to(away)

    return Case(scene.claim(path), swap)


def swapped_with_its_folder(scene: Scene) -> Case:
    folder = scene.work / "f"
    folder.mkdir()
    path = scene.file(folder)
    (scene.outside / path.name).write_bytes(path.read_bytes())

    def swap() -> None:
        folder.rename(scene.work / "g")
        folder.symlink_to(scene.outside)

    return Case(scene.claim(path), swap)


def removed_file(scene: Scene) -> Case:
    path = scene.file()
    return Case(scene.claim(path), path.unlink)


def emptied_file(scene: Scene) -> Case:
    path = scene.file()
    return Case(scene.claim(path), lambda: path.write_bytes(b""))


def still_written(scene: Scene) -> Case:
    path = scene.file()

    def write() -> None:
        with path.open("ab") as sink:
            sink.write(b"more")

    return Case(scene.claim(path), write)


FALSE = (
    absent,
    absent_with_its_folder,
    below_a_file,
    empty,
    stale,
    stale_though_it_says_otherwise,
    stale_behind_a_fresh_link,
    stale_folder,
    folder_of_the_work,
    folder_of_empty_files,
    folder_of_links_out,
    pattern_of_old_files,
    pattern_of_nothing,
    no_file,
    outside,
    outside_by_dots,
    outside_by_a_link,
    outside_by_a_folder,
    outside_by_dots_behind_a_link,
    outside_in_a_folder_named_alike,
    of_no_root,
    from_nowhere,
    leads_nowhere,
    impossible,
    of_another_sum,
    swapped_for_another,
    swapped_for_its_equal,
    swapped_for_a_link_out,
    swapped_for_a_link_to_itself_elsewhere,
    swapped_with_its_folder,
    removed_file,
    emptied_file,
    still_written,
)
