"""What of a log is new, whatever becomes of its file; a model of a folder knows the truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random

import pytest

from taskmem_terminal.file_history import (
    TAIL_BYTES,
    Findings,
    Part,
    SeenFile,
    choose_part,
    follow,
    format_parts,
    format_place,
    is_rotated_name,
    parse_place,
    sort_rotated,
)
from taskmem_terminal.frames import StreamPosition
from tests.support.long_tests import choose_count

HISTORIES = choose_count("TASKMEM_HISTORIES", 1_500, 100_000)
"""Simulated histories of a log."""
PAGE = 700
"""Bytes of one look: often less than there is."""


@dataclass(eq=False)
class Line:
    """A line as it was once written: another one may have the same text."""

    text: bytes


@dataclass(eq=False)
class File:
    """A file of the model."""

    inode: tuple[int, int]
    lines: list[Line] = field(default_factory=list)
    data: bytes = b""
    changed_ns: int = 1
    status_ns: int = 1
    born_ns: int = 0
    begin: int = 0
    is_copy: bool = False

    def hold(self, lines: Sequence[Line], hole: int = 0) -> None:
        """Hold lines, after some zeros."""
        self.lines = [*lines]
        self.data = bytes(hole) + b"".join(line.text for line in lines)

    @property
    def hole(self) -> int:
        return len(self.data) - len(self.data.lstrip(b"\0"))

    @property
    def end(self) -> int:
        return len(self.data) if self.lines else 0

    @property
    def size(self) -> int:
        return len(self.data)

    def read(self, at: int, size: int) -> bytes:
        return self.data[at : at + size]


class Folder:
    """A folder with a log, its rotated files and its backups, on a clock that ticks coarsely."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.names: dict[str, File] = {}
        self.now = 10
        self.numbers = count(100)
        self.knows_births = chance.random() < 0.8
        self.is_slow = False
        """True until the next look: each thing happens at a time of its own."""

    def tick(self) -> None:
        self.now += 1

    def let_time_pass(self) -> None:
        """Some things happen within one tick of the system's clock."""
        self.now += self.is_slow or self.chance.random() < 0.5

    def make(self, lines: Sequence[Line] = (), hole: int = 0) -> File:
        self.let_time_pass()
        born_ns = self.now if self.knows_births else 0
        file = File((1, next(self.numbers)), born_ns=born_ns)
        self.write(file, lines, hole)
        return file

    def write(self, file: File, lines: Sequence[Line], hole: int = 0) -> None:
        self.let_time_pass()
        file.hold(lines, hole)
        file.changed_ns = file.status_ns = self.now

    def give_name(self, file: File, name: str) -> None:
        """Give a file a name, and take it from the one that had it."""
        self.let_time_pass()
        for each in (file, self.names.get(name)):
            if each is not None:
                each.status_ns = self.now
        self.names[name] = file

    def rename(self, old: str, new: str) -> None:
        self.give_name(self.names.pop(old), new)

    def remove(self, name: str) -> None:
        self.let_time_pass()
        self.names.pop(name).status_ns = self.now

    def rotate(self) -> None:
        """Give each file the next number at once, and leave the log's name free."""
        self.shift_numbers()
        self.names["log.1"] = self.names.pop("log")
        for file in self.names.values():
            file.status_ns = self.now

    def shift_numbers(self) -> None:
        self.let_time_pass()
        numbers = [int(name[4:]) for name in self.names if name[4:].isdecimal()]
        for number in sorted(numbers, reverse=True):
            file = self.names[f"log.{number + 1}"] = self.names.pop(f"log.{number}")
            file.status_ns = self.now


class Follower:
    """Reads a log as a wait does; a restart loses what is not in its place."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.shown = b""
        log = folder.names["log"]
        self.place = format_place((SeenFile.build(log, StreamPosition(log.end, log.end), log.end),))
        self.finish_write: Callable[[], None] = lambda: None
        """Does what the writer of the log does during a pause."""
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

    def get_name(self, content: File) -> str:
        names = [name for name, file in self.folder.names.items() if file is content]
        return min(names, default="")

    def list_later(self, written_ns: int) -> Sequence[File]:
        later = {
            name: file
            for name, file in self.folder.names.items()
            if is_rotated_name(name, "log") and file.changed_ns >= written_ns
        }
        return [later[name] for name in sort_rotated((f.changed_ns, n) for n, f in later.items())]

    def follow(self, sizes: dict[tuple[int, int], int]) -> list[Part]:
        now = self.folder.names.get("log")
        if now is None:
            self.absences += 1
        else:
            self.opened[now.inode] = now
        found = Findings(
            log="log",
            now=now,
            find=self.find,
            get_name=self.get_name,
            list_later=self.list_later,
            was_away=self.absences > self.known_absences,
            tail=self.tail,
            sizes=sizes,
        )
        return follow(parse_place(self.place), found)

    def look(self) -> bool:
        """Read a page; whether there is more."""
        parts = self.follow({})
        while any(part.is_unsure for part in parts):
            sizes = {part.content.inode: part.content.size for part in parts}
            self.finish_write()
            parts = self.follow(sizes)
        kept, at = choose_part(parts)
        if at < 0:
            return False
        content, position = parts[at].content, parts[at].position
        page = content.read(position.shown, min(content.end - position.shown, PAGE))
        self.shown += parts[at].edited + page.replace(b"\0", b"")
        reached = position.shown + len(page)
        position = StreamPosition(reached, reached)
        self.place = format_parts(kept, at, position, lambda content: bool(self.get_name(content)))
        for part in parts:
            self.opened[part.content.inode] = part.content
        last = kept[-1]
        self.remember(last.content, reached if at == len(kept) - 1 else last.position.shown)
        return reached < content.end or not all(part.is_read for part in parts[at + 1 :])

    def look_all(self) -> None:
        while self.look():
            pass


REPEATED = (b"heartbeat\n", b"heartbeat of a worker that has %s to do\n" % (b"nothing " * 6))


class History:
    """One life of a log, by chance, with the truth of what is new.

    The truth is of lines, not of texts. What no text can tell is left out: a text that repeats is
    between others that do not.
    """

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)  # noqa: S311 - no secret
        self.numbers = count(1)
        self.folder = Folder(self.chance)
        self.is_up = True
        old = self.make_lines(self.chance.choice([0, 1, 3, 30, 400]))
        self.folder.names["log"] = self.folder.make(old)
        self.follower = Follower(self.folder)
        self.due: list[Line] = []
        """Lines to be shown, once they were in a file that could be read."""
        self.free: list[Line] = []
        """Lines that were edited, which may be shown once."""
        self.told: list[str] = []

    def make_lines(self, number: int) -> list[Line]:
        made: list[Line] = []
        while len(made) < number:
            text = b"%d %s\n" % (next(self.numbers), b"x" * self.chance.randrange(40))
            made.append(Line(text))
            if self.is_up and self.chance.random() < 0.3:
                again = self.chance.choice(REPEATED)
                made += [Line(again) for _ in range(self.chance.randint(1, 3))]
        return made

    def write_lines(self, most: int = 6) -> list[Line]:
        """New lines, which are due."""
        made = self.make_lines(self.chance.randint(1, most))
        self.due += made
        return made

    @property
    def log(self) -> File:
        return self.folder.names["log"]

    def run(self) -> None:
        steps = [
            self.append,
            self.append,
            self.append,
            self.append_to_rotated,
            self.look_inside_a_write,
            self.rerun,
            self.rerun_equally,
            self.trim_in_place,
            self.trim_by_replacing,
            self.trim_and_keep_the_old_file,
            self.edit,
            self.edit_and_keep_the_old_file,
            self.rotate,
            self.rotate_often,
            self.rotate_and_rerun_equally,
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
        there = {line for file in reachable for line in file.lines}
        self.follower.look_all()
        shown = Counter(self.follower.shown.splitlines(keepends=True))
        due = Counter(line.text for line in self.due if line in there)
        free = Counter(line.text for line in (*self.due, *self.free))
        assert due <= shown, f"missed {due - shown}"
        assert shown <= free, f"not new {shown - free}"
        self.follower.shown = b""
        self.due.clear()
        self.free.clear()
        self.folder.is_slow = False
        self.folder.tick()

    # --- what becomes of a log ---------------------------------------------------

    def append(self) -> None:
        self.folder.write(self.log, self.log.lines + self.write_lines(most=80), self.log.hole)

    def append_to_rotated(self) -> None:
        """The writer goes on in the file that was rotated."""
        file = self.folder.names.get("log.1")
        if file is not None and not file.is_copy and self.is_up:
            self.folder.write(file, file.lines + self.write_lines(), file.hole)

    def look_inside_a_write(self) -> None:
        """The system sets a file's time before its size."""
        if not self.is_up:
            return
        self.look()
        log, made = self.log, self.write_lines()
        log.changed_ns = log.status_ns = self.folder.now

        def finish_write() -> None:
            if made[0] not in log.lines:
                log.hold(log.lines + made, log.hole)

        self.follower.finish_write = finish_write
        self.look()
        self.follower.finish_write = lambda: None
        if made[0] not in log.lines:
            finish_write()
            self.due += made

    def rerun(self) -> None:
        self.folder.write(self.log, self.write_lines(most=60))

    def write_once_more(self, lines: list[Line]) -> list[Line]:
        again = [Line(line.text) for line in lines]
        self.due += again
        return again

    def rerun_equally(self) -> None:
        """The same text is written once more; what was written before and after is seen apart."""
        if self.is_up:
            self.look()
            self.folder.write(self.log, self.write_once_more(self.log.lines), self.log.hole)
            self.look()

    def keep_end(self) -> tuple[list[Line], int]:
        """The log's last lines; while no daemon runs, some that were shown before, too.

        Of one old line that is left nobody can tell whether it was written anew: more are left.
        """
        lines = self.log.lines
        kept = self.chance.randint(10, 60) + (0 if self.is_up else len(self.due) + 20)
        kept += 7 if 0 < kept - len(self.due) < 7 else 0
        return (lines[-kept:], 0) if len(lines) > kept else self.copy_and_append()

    def copy_and_append(self) -> tuple[list[Line], int]:
        return self.log.lines + self.write_lines(), self.log.hole

    def trim_in_place(self) -> None:
        self.folder.write(self.log, *self.keep_end())

    def trim_by_replacing(self) -> None:
        self.folder.give_name(self.folder.make(*self.keep_end()), "log")

    def trim_and_keep_the_old_file(self) -> None:
        """As `tail -n 50 log > new; mv log log.old; mv new log`."""
        if self.is_up:
            self.look()
        if len(self.log.lines) <= len(self.due) + 90:
            return
        new = self.folder.make(*self.keep_end())
        self.move_log_away(self.chance.choice(["log.old", "log.1", "log.bak", "log.tmp"]))
        self.folder.give_name(new, "log")
        self.look_at_once()

    def look_at_once(self) -> None:
        """Look before anything more becomes of the log, which would hide what became of it."""
        if self.is_up:
            self.look()
        else:
            self.restart()

    def move_log_away(self, name: str) -> None:
        if name == "log.1":
            self.folder.rotate()
        else:
            self.folder.rename("log", name)
        self.note_absence()

    def edit_lines(self) -> list[Line]:
        """Change some lines, as `sed` does.

        While no daemon runs, their lengths stay, and the last 64 bytes that were shown. Of a log of
        few lines nobody can tell whether it was edited or written anew.
        """
        lines = [*self.log.lines]
        last = len(lines) if len(lines) > 20 else 0
        kept = 0 if self.is_up else 64
        while last and kept > 0:
            last -= 1
            kept -= 0 if lines[last] in self.due else len(lines[last].text)
        for number in range(last):
            if self.chance.random() < 0.1:
                text = lines[number].text
                edited = Line(
                    b"%d of %s" % (next(self.numbers), text)
                    if self.is_up
                    else text.replace(b"e", b"E")
                )
                if lines[number] in self.due:
                    self.due.remove(lines[number])
                    self.free.append(lines[number])
                (self.due if self.is_up else self.free).append(edited)
                lines[number] = edited
        return lines

    def edit(self) -> None:
        """As `sed -i`; a running daemon looks at once."""
        if self.is_up:
            self.look()
        self.folder.give_name(self.folder.make(self.edit_lines(), self.log.hole), "log")
        if self.is_up:
            self.look()

    def edit_and_keep_the_old_file(self) -> None:
        """As `sed -i.bak`, or with a hard link to the old file, or as an editor's backup."""
        if self.is_up:
            self.look()
        name = self.choose_name(self.chance.choice(["log.bak", "log~", "log.keep"]), "log.old")
        lines, hole = self.edit_lines(), self.log.hole
        if name == "log~":
            self.move_log_away(name)
            new = self.folder.names["log"] = self.folder.make()
            if self.is_up and self.chance.random() < 0.5:
                self.follower.look_all()
            self.folder.write(new, lines, hole)
        elif name in ("log.bak", "log.old"):
            new = self.folder.make(lines, hole)
            self.move_log_away(name)
        else:
            self.folder.give_name(self.log, name)
            new = self.folder.make(lines, hole)
        self.folder.give_name(new, "log")
        self.look_at_once()

    def rotate(self) -> None:
        self.move_log_away("log.1")
        self.folder.names["log"] = self.folder.make(self.write_lines())

    def rotate_often(self) -> None:
        for _ in range(self.chance.randint(2, 40)):
            self.rotate()

    def rotate_and_rerun_equally(self) -> None:
        if self.is_up:
            self.look()
            lines = self.log.lines
            self.move_log_away(self.choose_name("log.1", "log.bak"))
            self.folder.names["log"] = self.folder.make(self.write_once_more(lines))
            self.look()

    def choose_name(self, name: str, other: str) -> str:
        """Return one of two names; the other one only where times tell what it is for."""
        if not self.folder.knows_births or self.chance.random() < 0.5:
            return name
        self.folder.is_slow = True
        return other

    def rotate_by_copying(self) -> None:
        """As `copytruncate`; a writer that does not append leaves a hole.

        Of a copy that holds little or nothing that was shown, the time tells what it is.
        """
        if self.folder.knows_births:
            self.folder.is_slow = True
            self.append()
            copy = self.folder.make(self.log.lines, self.log.hole)
            copy.is_copy = True
            self.folder.shift_numbers()
            self.folder.give_name(copy, "log.1")
        hole = len(self.log.data) if self.chance.random() < 0.5 else 0
        self.folder.write(self.log, self.write_lines(), hole)

    def make_anew(self) -> None:
        lines: list[Line] = []
        if self.is_up:
            self.look()
            lines = self.write_once_more(self.log.lines)
        self.folder.remove("log")
        self.note_absence()
        if self.is_up and self.chance.random() < 0.5:
            self.follower.look_all()
        self.folder.names["log"] = self.folder.make(lines + self.write_lines())
        if self.is_up:
            self.look()

    def compress(self) -> None:
        if (file := self.folder.names.get("log.1")) is not None:
            self.folder.remove("log.1")
            packed = Line(b"\x1f\x8b" + file.data[::-1])
            self.folder.names["log.1.gz"] = self.folder.make([packed])

    def note_absence(self) -> None:
        if self.is_up:
            self.follower.absences += 1

    def restart(self) -> None:
        """The daemon ends after a look, or starts again, and looks."""
        if self.is_up:
            self.look()
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


def test_equal_lines_behind_a_hole_are_known_by_the_one_before() -> None:
    folder = Folder(Random(0))  # noqa: S311 - no secret
    lines = [Line(b"start\n"), *(Line(REPEATED[0]) for _ in range(3))]
    folder.names["log"] = folder.make(lines, hole=TAIL_BYTES + 1)
    follower = Follower(folder)
    folder.give_name(folder.make(lines, hole=TAIL_BYTES + 1), "log")
    follower.look_all()
    assert follower.shown == b""
