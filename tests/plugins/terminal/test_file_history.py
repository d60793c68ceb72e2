"""What of a log is new, whatever becomes of its file; a model of a folder knows the truth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random

import pytest

from taskmem_terminal.file_history import (
    TAIL_BYTES,
    Findings,
    Part,
    SeenFile,
    follow,
    format_parts,
    format_place,
    parse_place,
)
from taskmem_terminal.frames import StreamPosition
from tests.support.long_tests import choose_count

HISTORIES = choose_count("TASKMEM_HISTORIES", 1_500, 100_000)
"""Simulated histories of a log."""
PAGE = 700
"""Bytes of one look: often less than there is."""


@dataclass(eq=False)
class File:
    """A file of the model."""

    inode: tuple[int, int]
    data: bytes = b""
    changed_ns: int = 1
    begin: int = 0
    born_ns: int = 0

    @property
    def end(self) -> int:
        return len(self.data.rstrip(b"\0")) if self.data.endswith(bytes(16)) else len(self.data)

    @property
    def size(self) -> int:
        return len(self.data)

    def read(self, at: int, size: int) -> bytes:
        return self.data[at : at + size]


@dataclass
class Folder:
    """A folder with a log and its rotated files, the newest first."""

    names: dict[str, File] = field(default_factory=dict)
    clock: Iterator[int] = field(default_factory=lambda: count(10))
    numbers: Iterator[int] = field(default_factory=lambda: count(100))

    def make(self, data: bytes = b"") -> File:
        return File((1, next(self.numbers)), data, next(self.clock))

    def write(self, file: File, data: bytes) -> None:
        file.data, file.changed_ns = data, next(self.clock)

    def rotate(self, suffix: str = "") -> None:
        """Give each file the next number, and leave the log's name free."""
        for number in range(8, 0, -1):
            if (file := self.names.pop(f"log.{number}{suffix}", None)) is not None:
                self.names[f"log.{number + 1}{suffix}"] = file
        self.names[f"log.1{suffix}"] = self.names.pop("log")


class Follower:
    """Reads a log as a wait does; a restart loses what is not in its place."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.shown = b""
        log = folder.names["log"]
        self.place = format_place((SeenFile.build(log, StreamPosition(log.end, log.end), log.end),))
        self.restart()
        self.remember(log, log.end)

    def restart(self) -> None:
        self.opened: dict[tuple[int, int], File] = {}
        self.tail, self.absences, self.known_absences = b"", 0, 0

    def remember(self, file: File, shown: int) -> None:
        self.opened[file.inode] = file
        self.tail = file.data[max(0, shown - TAIL_BYTES) : shown]
        if "log" in self.folder.names:
            self.known_absences = self.absences

    def find(self, inode: tuple[int, int]) -> File | None:
        named = {file.inode: file for file in self.folder.names.values()}
        return self.opened.get(inode) or named.get(inode)

    def has_name(self, content: File) -> bool:
        return content in self.folder.names.values()

    def list_later(self, written_ns: int) -> Sequence[File]:
        later = [
            file
            for name, file in self.folder.names.items()
            if name.startswith("log.") and not name.endswith("gz")
            if file.changed_ns > written_ns
        ]
        return sorted(later, key=lambda file: file.changed_ns)

    def follow(self) -> list[Part]:
        now = self.folder.names.get("log")
        if now is None:
            self.absences += 1
        else:
            self.opened[now.inode] = now
        found = Findings(
            now=now,
            find=self.find,
            has_name=self.has_name,
            list_later=self.list_later,
            was_away=self.absences > self.known_absences,
            tail=self.tail,
        )
        return follow(parse_place(self.place), found)

    def look(self) -> bool:
        """Read a page; whether there is more."""
        parts = self.follow()
        at = next((n for n, part in enumerate(parts) if not part.is_read), len(parts) - 1)
        if at < 0:
            return False
        content, position, _ = parts[at]
        page = content.data[position.shown : min(content.end, position.shown + PAGE)]
        self.shown += page.replace(b"\0", b"")
        reached = position.shown + len(page)
        position = StreamPosition(reached, reached)
        self.place = format_parts(parts, at, position, self.has_name)
        for part in parts:
            self.opened[part.content.inode] = part.content
        last = parts[-1]
        self.remember(last.content, reached if at == len(parts) - 1 else last.position.shown)
        return reached < content.end or not all(part.is_read for part in parts[at + 1 :])

    def look_all(self) -> None:
        while self.look():
            pass


def split_lines(data: bytes) -> list[bytes]:
    return data.replace(b"\0", b"").splitlines(keepends=True)


class History:
    """One life of a log, by chance, with the truth of what is new."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)  # noqa: S311 - no secret
        self.lines = count(1)
        self.folder = Folder()
        old = [self.line() for _ in range(self.chance.choice([0, 1, 3, 30, 400]))]
        self.folder.names["log"] = self.folder.make(b"".join(old))
        self.follower = Follower(self.folder)
        self.never = set(old)
        """Lines that were there before the wait, and must not be shown."""
        self.due: list[bytes] = []
        """Lines to be shown, once they were in a file that could be read."""
        self.is_up = True
        self.told: list[str] = []

    def line(self) -> bytes:
        return b"%d %s\n" % (next(self.lines), b"x" * self.chance.randrange(40))

    def write_lines(self, most: int = 6) -> bytes:
        """New lines, which are due."""
        made = [self.line() for _ in range(self.chance.randint(1, most))]
        self.due += made
        return b"".join(made)

    @property
    def log(self) -> File:
        return self.folder.names["log"]

    def run(self) -> None:
        steps = [
            self.append,
            self.append,
            self.append,
            self.append_to_rotated,
            self.rerun,
            self.rerun_equally,
            self.trim_in_place,
            self.trim_by_replacing,
            self.edit,
            self.rotate,
            self.rotate_by_copying,
            self.make_anew,
            self.compress,
            self.restart,
        ]
        for _ in range(self.chance.randint(2, 9)):
            step = self.chance.choice(steps)
            self.told.append(step.__name__)
            step()
            if self.is_up and self.chance.random() < 0.6:
                self.look()
        self.is_up = True
        self.look()

    def look(self) -> None:
        """Look at all there is; what is in no file by now is not due any more."""
        self.told.append("look")
        reachable = [*self.folder.names.values(), *self.follower.opened.values()]
        there = {line for file in reachable for line in split_lines(file.data)}
        self.due = [line for line in self.due if line in there]
        self.follower.look_all()
        shown = set(split_lines(self.follower.shown))
        assert not [line for line in self.due if line not in shown], "missed"
        assert not self.never & shown, "not new"
        self.due.clear()

    # --- what becomes of a log ---------------------------------------------------

    def append(self) -> None:
        self.folder.write(self.log, self.log.data + self.write_lines(most=80))

    def append_to_rotated(self) -> None:
        """The writer goes on in the file that was rotated."""
        if (file := self.folder.names.get("log.1")) is not None and self.is_up:
            self.folder.write(file, file.data + self.write_lines())

    def rerun(self) -> None:
        self.folder.write(self.log, self.write_lines(most=60))

    def rerun_equally(self) -> None:
        """The same text is written once more; what was written before and after is seen apart."""
        if not self.is_up:
            return
        self.look()
        lines = split_lines(self.log.data)
        self.folder.write(self.log, self.log.data)
        self.due += lines
        self.never -= set(lines)
        self.look()

    def keep_end(self) -> bytes:
        """The log's last lines; while no daemon runs, some that were shown before, too."""
        lines = self.log.data.splitlines(keepends=True)
        kept = self.chance.randint(10, 60) + (0 if self.is_up else 300)
        return b"".join(lines[-kept:]) if len(lines) > kept else self.log.data + self.write_lines()

    def trim_in_place(self) -> None:
        self.folder.write(self.log, self.keep_end())

    def trim_by_replacing(self) -> None:
        self.folder.names["log"] = self.folder.make(self.keep_end())

    def edit(self) -> None:
        """As `sed -i`: some lines are changed, and the file is replaced.

        An end that was edited is not known again after a restart: a running daemon looks at once.
        """
        if not self.is_up:
            return
        lines = self.log.data.splitlines(keepends=True)
        for number in range(len(lines)):
            if self.chance.random() < 0.1:
                self.due = [line for line in self.due if line != lines[number]]
                lines[number] = b"edited " + lines[number]
        self.folder.names["log"] = self.folder.make(b"".join(lines))
        self.look()

    def rotate(self) -> None:
        self.folder.rotate()
        self.note_absence()
        self.folder.names["log"] = self.folder.make(self.write_lines())

    def rotate_by_copying(self) -> None:
        """As `copytruncate`; a writer that does not append leaves a hole."""
        before = self.log.data
        hole = bytes(len(before)) if self.chance.random() < 0.5 else b""
        self.folder.write(self.log, hole + self.write_lines())

    def make_anew(self) -> None:
        del self.folder.names["log"]
        self.note_absence()
        if self.is_up and self.chance.random() < 0.5:
            self.follower.look_all()
        self.folder.names["log"] = self.folder.make(self.write_lines())

    def compress(self) -> None:
        if (file := self.folder.names.pop("log.1", None)) is not None:
            self.folder.names["log.1.gz"] = self.folder.make(b"\x1f\x8b" + file.data[::-1])

    def note_absence(self) -> None:
        if self.is_up:
            self.follower.absences += 1

    def restart(self) -> None:
        """The daemon ends, or starts again, and looks."""
        self.is_up = not self.is_up
        self.follower.restart()
        if self.is_up:
            self.look()


def test_every_new_line_is_shown_and_no_old_one() -> None:
    for seed in range(HISTORIES):
        history = History(seed)
        try:
            history.run()
        except AssertionError as error:
            pytest.fail(f"history {seed}: {error} after {history.told}")


@pytest.mark.parametrize(("born_ns", "is_same"), [(0, True), (1, True), (2, False)])
def test_a_later_file_with_an_old_number_is_another_one(born_ns, is_same) -> None:
    position = StreamPosition(0, 0)
    seen = SeenFile.parse(str(SeenFile.build(File((1, 7), born_ns=1), position, 0)))
    assert seen.is_of(File((1, 7), born_ns=born_ns)) is is_same
