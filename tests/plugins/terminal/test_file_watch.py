import asyncio
import os
import resource
from hashlib import blake2s

import pytest

from taskmem_hookspecs import InvalidArguments, Target, TargetNotFound, file_access
from taskmem_hookspecs.errors import NotAllowed
from taskmem_hookspecs.paths import is_hidden
from taskmem_hookspecs.testing import SensorSuite
from taskmem_terminal import file_watch
from taskmem_terminal.file_history import is_rotated_name
from taskmem_terminal.file_watch import is_anothers
from taskmem_terminal.sensor import TerminalSensor
from tests.plugins.terminal.watched import list_open_files, watch_terminal
from tests.support.waiting import PATIENCE


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "logs" / "app.log"
    path.parent.mkdir()
    path.write_text("old 1\nold 2\n")
    return path


def append(path, text):
    with path.open("a") as file:
        file.write(text)


async def heard_only_then(watcher, path, text):
    """Append when everything was seen, so that only the system can tell of it."""
    await watcher.watch.wait_for_change()
    await watcher.look()
    append(path, text)
    await watcher.watch.wait_for_change()
    await watcher.until_seen(text)


class TestFileWatch(SensorSuite):
    def make_sensor(self, tmp_path):
        return TerminalSensor()

    def make_target(self, tmp_path):
        (tmp_path / "app.log").touch()
        return Target(scheme="pty", name=f"file:{tmp_path / 'app.log'}")

    def show(self, tmp_path, text):
        append(tmp_path / "app.log", f"{text}\n")

    def make_missing(self, tmp_path):
        return Target(scheme="pty", name=f"file:{tmp_path / 'other.log'}")


async def test_only_what_is_appended_counts_and_it_is_seen_at_once(log):
    async with watch_terminal(f"file:{log}") as watcher:
        assert (await watcher.look()).text == ""
        for line in ("new 1", "new 2"):
            append(log, f"{line}\n")
            await watcher.until_seen(line)
        frame = await watcher.look()
    assert "old" not in watcher.seen
    assert frame.tail == "new 1\nnew 2"
    assert frame.changed_at is not None
    assert frame.exit_status is None


async def test_here_shows_the_last_lines_that_do_not_count(log):
    async with watch_terminal(f"file:{log}") as watcher:
        assert (await watcher.watch.here()).tail == "old 1\nold 2"
        assert (await watcher.look()).tail == ""


async def test_a_home_folder_may_be_written_as_a_tilde(log, monkeypatch):
    monkeypatch.setenv("HOME", str(log.parent))
    async with watch_terminal("file:~/app.log") as watcher:
        append(log, "new\n")
        await watcher.until_seen("new")


async def test_a_file_that_is_cut_is_read_from_its_beginning(log):
    async with watch_terminal(f"file:{log}") as watcher:
        append(log, "before the cut\n")
        await watcher.until_seen("before")
        log.write_text("fresh\n")
        frame = await watcher.until_seen("fresh")
        append(log, "more\n")
        await watcher.until_seen("more")
    assert frame.gone is None
    assert watcher.frame.tail == "fresh\nmore"


async def test_a_rotated_file_is_read_to_its_end_and_then_the_new_one(log):
    async with watch_terminal(f"file:{log}") as watcher:
        append(log, "one\n")
        await watcher.until_seen("one")
        old = log.rename(log.with_suffix(".1"))
        append(old, "last of the old\n")
        log.write_text("first of the new\n")
        await watcher.until_seen("first of the new")
        append(log, "second\n")
        await watcher.until_seen("second")
    assert "last of the old" in watcher.seen
    assert watcher.seen.index("last of the old") < watcher.seen.index("first of the new")


async def test_file_rotated_while_no_daemon_ran_is_read_to_its_end(log):
    async with watch_terminal(f"file:{log}") as watcher:
        place, start = watcher.place, watcher.start
    append(log, "missed\n")
    log.rename(log.with_suffix(".1"))
    log.write_text("new\n")
    async with watch_terminal(f"file:{log}", place=place, start=start) as watcher:
        await watcher.until_seen("new")
    assert watcher.seen.startswith("missed\n")


async def test_file_replaced_while_no_daemon_ran_is_read_from_start(log):
    async with watch_terminal(f"file:{log}") as watcher:
        place, start = watcher.place, watcher.start
    keep = log.open()  # so that its inode is not used again
    log.unlink()
    log.write_text("new\n")
    async with watch_terminal(f"file:{log}", place=place, start=start) as watcher:
        assert (await watcher.look()).text == "new\n"
    keep.close()


async def test_a_removed_file_is_awaited_after_what_was_left_in_it(log, monkeypatch):
    monkeypatch.setattr(file_watch, "BACK_SECONDS", 0.1)
    async with watch_terminal(f"file:{log}") as watcher:
        append(log, "last words\n")
        log.unlink()
        frame = await watcher.until(lambda frame: frame.note, "it is told")
        assert frame.gone is None
        assert frame.note == f"{log} is not there; it is read on when it is there again."
        log.write_text("old 1\nold 2\n")
        frame = await watcher.until_seen("old 2")
        assert (frame.note, frame.gone) == (None, None)
    assert "last words" in watcher.seen


async def test_a_log_that_is_trimmed_shows_what_is_new_alone(log):
    lines = [f"line {n}\n" for n in range(50)]
    log.write_text("".join(lines))
    async with watch_terminal(f"file:{log}") as watcher:
        await watcher.look()
        log.write_text("".join((*lines[-10:], "in place\n")))
        await watcher.until_seen("in place")
        fresh = log.with_suffix(".tmp")
        fresh.write_text("".join((*lines[-5:], "in place\n", "by replacing\n")))
        fresh.replace(log)
        await watcher.until_seen("by replacing")
        fresh.write_text(log.read_text().replace("line 47", "LINE 47"))
        fresh.replace(log)
        append(log, "edited\n")
        await watcher.until_seen("edited")
    assert watcher.seen == "in place\nby replacing\nLINE 47\nedited\n"


async def test_the_same_output_once_more_is_new(log):
    async with watch_terminal(f"file:{log}") as watcher:
        assert (await watcher.look()).text == ""
        log.write_text("old 1\nold 2\n")
        await watcher.until_seen("old 2")


async def test_a_writer_that_goes_on_in_the_rotated_file_is_read(log):
    async with watch_terminal(f"file:{log}") as watcher:
        old = log.rename(log.with_suffix(".1"))
        log.write_text("first of the new\n")
        await watcher.until_seen("first of the new")
        append(old, "late in the old\n")
        append(log, "second\n")
        await watcher.until_seen("second")
    assert "late in the old" in watcher.seen


def put_link(log):
    real = log.rename(log.with_name("real.log"))
    log.symlink_to(real)


def add_name(log):
    log.with_name("other.log").hardlink_to(log)


@pytest.mark.parametrize(("change", "rests"), [(None, True), (put_link, False), (add_name, False)])
async def test_only_a_file_of_whose_changes_the_kernel_tells_rests(log, change, rests):
    if change:
        change(log)
    async with watch_terminal(f"file:{log}") as watcher:
        await watcher.watch.wait_for_change()  # the kernel tells from now on
        await watcher.look()
        assert (watcher.watch.rest_seconds > 0) is rests
        old = log.rename(log.with_suffix(".1"))
        log.write_text("first of the new\n")
        await watcher.until_seen("first of the new")
        assert old.exists()
        assert watcher.watch.rest_seconds == 0  # the old one may still be written


@pytest.mark.parametrize("form", ["app.log.{}", "app.{}.log", "app-2026-11-0{}.log"])
async def test_all_that_were_rotated_while_no_daemon_ran_are_read(log, form):
    names = [log, *(log.with_name(form.format(number)) for number in (1, 2))]
    async with watch_terminal(f"file:{log}") as watcher:
        place, start = watcher.place, watcher.start
    append(log, "rest\n")
    for number in (1, 2):
        os.utime(log, ns=(number * 10**9 + log.stat().st_mtime_ns,) * 2)
        for old in range(number, 0, -1):
            names[old - 1].rename(names[old])
        log.write_text(f"new {number}\n")
    os.utime(log, ns=(3 * 10**9 + log.stat().st_mtime_ns,) * 2)
    async with watch_terminal(f"file:{log}", place=place, start=start) as watcher:
        await watcher.until_seen("new 2")
    assert watcher.seen == "rest\nnew 1\nnew 2\n"


async def test_a_rotated_log_that_is_only_there_compressed_is_told(log):
    async with watch_terminal(f"file:{log}") as watcher:
        place = watcher.place
    log.unlink()
    log.with_name("app.log.1.gz").write_text("compressed")
    log.write_text("new\n")
    async with watch_terminal(f"file:{log}", place=place, start=place) as watcher:
        for text in ("new\n", "newer\n"):
            frame = await watcher.until_seen(text)
            await watcher.watch.here()
            assert "could not be read" in frame.note
            append(log, "newer\n")


async def test_zeros_at_the_end_are_no_text_until_written_over(log):
    log.write_bytes(b"old\n" + bytes(5_000))
    async with watch_terminal(f"file:{log}") as watcher:
        assert (await watcher.look()).text == ""
        with log.open("r+b") as file:
            file.seek(4)
            file.write(b"new\n")
        await watcher.until_seen("new")
    assert watcher.seen == "new\n"


async def test_a_hole_that_a_truncation_left_is_skipped(log):
    with log.open("w") as writer:
        writer.write("x" * 10_000_000)
        writer.flush()
        async with watch_terminal(f"file:{log}") as watcher:
            os.truncate(log, 0)
            writer.write("behind the hole\n")
            writer.flush()
            await watcher.until_seen("behind the hole")
    assert watcher.looks < 5


async def test_zeros_that_are_added_behind_old_text_are_no_text(log):
    async with watch_terminal(f"file:{log}") as watcher:
        os.truncate(log, 1_000)
        frame = await watcher.look()
    assert (frame.text, frame.tail) == ("", "")


async def test_a_huge_hole_at_the_end_is_not_read(log, monkeypatch):
    reads = []
    read = os.pread
    monkeypatch.setattr(os, "pread", lambda *given: reads.append(given) or read(*given))
    os.truncate(log, 1 << 40)
    async with watch_terminal(f"file:{log}") as watcher:
        assert (await watcher.watch.here()).tail == "old 1\nold 2"
    assert len(reads) < 100


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("app.log.1", True),
        ("app.log-20261129", True),
        ("app.log.2026-11-29T10", True),
        ("app-2026-11-29.log", True),
        ("app.1.log", True),
        ("app.log.old", True),
        ("app.log", False),
        ("app.log.err", False),
        ("app.log.1.gz", False),
        ("app.logs", False),
        ("application.log", False),
    ],
)
def test_a_rotated_log_has_a_number_or_a_date_behind_its_name(name, expected):
    assert is_rotated_name(name, "app.log") is expected


def test_a_longer_name_is_no_rotated_log():
    assert not is_rotated_name("output.txt", "out")
    assert is_rotated_name("out.1", "out")


@pytest.fixture
def rotate_often(log):
    """Rotates a log forty times at once."""

    def rotate():
        log.unlink()
        for number in range(40):
            path = log.with_name(f"app.log.{number}")
            path.write_text(f"rotated {number};\n")
            os.utime(path, ns=(0, 2**62))
        log.write_text("new\n")

    return rotate


async def test_however_many_files_were_rotated_all_are_read_in_order(log, rotate_often):
    async with watch_terminal(f"file:{log}") as watcher:
        rotate_often()
        await watcher.until_seen("new")
    assert watcher.seen == "".join(f"rotated {n};\n" for n in reversed(range(40))) + "new\n"
    assert watcher.frame.note is None


@pytest.mark.parametrize("limit", ["_MOST_LATER_FILES", "_MOST_LATER_BYTES"])
async def test_files_that_are_too_many_to_read_are_told(log, rotate_often, monkeypatch, limit):
    monkeypatch.setattr(file_watch, limit, 3 if "FILES" in limit else 3 * len("rotated 0;\n"))
    async with watch_terminal(f"file:{log}") as watcher:
        rotate_often()
        frame = await watcher.until_seen("new")
        append(log, "newer\n")
        later = await watcher.until_seen("newer")
    assert watcher.seen.startswith("rotated 2;\nrotated 1;\nrotated 0;\nnew\n")
    assert frame.note == later.note
    assert frame.note.endswith("was rotated so often meanwhile that the oldest were not read.")


async def test_a_look_inside_a_write_shows_no_old_text(log, monkeypatch):
    """The system sets a file's time before its size."""
    async with watch_terminal(f"file:{log}") as watcher:
        await watcher.look()
        os.utime(log, ns=(0, 2**62))

        async def finish_write(_seconds):
            append(log, "new\n")

        monkeypatch.setattr(file_watch.asyncio, "sleep", finish_write)
        assert (await watcher.look()).text == "new\n"


async def test_a_look_inside_a_write_over_zeros_misses_nothing(log):
    log.write_bytes(b"old\n" + bytes(5_000))
    async with watch_terminal(f"file:{log}") as watcher:
        await watcher.look()
        written = log.stat().st_mtime_ns
        with log.open("r+b") as file:
            file.seek(4)
            file.write(b"new\n")
        os.utime(log, ns=(0, written))
        assert (await watcher.look()).text == "new\n"


def edit_with_backup(log):
    """As `sed -i.bak` does."""
    new = log.with_name("sed7Xk2a1")
    new.write_text(log.read_text().replace("line 12\n", "LINE 12\n"))
    log.rename(log.with_name("app.log.bak"))
    new.rename(log)


def edit_beside_link(log):
    os.link(log, log.with_name("kept"))
    new = log.with_name("sed7Xk2a1")
    new.write_text(log.read_text().replace("line 12\n", "LINE 12\n"))
    new.rename(log)


def edit_in_editor(log):
    """An editor moves the file away before it writes it anew."""
    old = log.rename(log.with_name("app.log~"))
    log.write_text(old.read_text().replace("line 12\n", "LINE 12\n"))


def trim_with_copy(log):
    """As `tail -n 5 F > n; mv F F.old; mv n F` does."""
    new = log.with_name("n")
    new.write_text("".join(log.read_text().splitlines(keepends=True)[-5:]))
    log.rename(log.with_name("app.log.old"))
    new.rename(log)


@pytest.mark.parametrize(
    "change", [edit_with_backup, edit_beside_link, edit_in_editor, trim_with_copy]
)
async def test_beside_a_file_that_is_kept_only_edited_lines_are_new(log, change):
    log.write_text("".join(f"line {n}\n" for n in range(50)))
    async with watch_terminal(f"file:{log}") as watcher:
        await watcher.look()
        change(log)
        await watcher.look()
        append(log, "new\n")
        await watcher.until_seen("new")
    assert watcher.seen == ("new\n" if change is trim_with_copy else "LINE 12\nnew\n")


STATUS = '{\n"id": "b1",\n"state": "running",\n"host": "r1",\n"labels": []\n}\n'
MANY = "".join(f"{n}\n" for n in range(9_000))


@pytest.mark.parametrize(
    ("before", "after", "new"),
    [
        (STATUS, STATUS.replace("running", "done"), '"state": "done",\n'),
        (f"a=running\n{MANY}", f"a=done\n{MANY}", "a=done\n"),
        ("3\n2\n1\n", "5\n4\n3\n2\n1\n", "5\n4\n"),
        ("4\n3\n2\n1\n", "5\n4\n3\n2\n", "5\n"),
        ("a\nok\nb\nno\nc\n", "a\nno\nb\nok\nc\n", "no\nok\n"),
        (MANY, MANY.replace("0\n", "0 s\n"), "".join(f"{n} s\n" for n in range(0, 9_000, 10))),
    ],
    ids=["status", "first", "newest first", "newest four", "swapped", "many"],
)
async def test_lines_of_a_replaced_file_that_differ_are_new(log, before, after, new):
    log.write_text(before)
    async with watch_terminal(f"file:{log}") as watcher:
        log.with_name("new").write_text(after)
        log.with_name("new").replace(log)
        await watcher.until(lambda frame: not frame.more)
    assert watcher.seen == new


async def test_edited_lines_follow_what_came_last_in_the_old_file(log):
    log.write_text(MANY.replace("\n", " line 12\n"))
    async with watch_terminal(f"file:{log}") as watcher:
        append(log, "last\n")
        edit_beside_link(log)
        await watcher.until_seen("LINE 12\n")
    assert watcher.seen.startswith("last\n0 LINE 12\n")


def copy_and_cut(log, *, numbers):
    """As `copytruncate` does."""
    for number in range(numbers, 1, -1):
        log.with_name(f"app.log.{number - 1}").rename(log.with_name(f"app.log.{number}"))
    log.with_name("app.log.1").write_bytes(log.read_bytes())
    os.truncate(log, 0)


@pytest.mark.parametrize("is_away", [True, False])
@pytest.mark.parametrize("old", ["", "old\n", MANY], ids=["empty", "short", "long"])
async def test_what_is_copied_and_cut_is_read_to_its_end(log, is_away, old):
    log.write_text(old)
    os.utime(log, ns=(1, 1))
    async with watch_terminal(f"file:{log}") as watcher:
        await watcher.look()
        append(log, "all green\n")
        copy_and_cut(log, numbers=1)
        append(log, "second\n")
        copy_and_cut(log, numbers=2)
        append(log, "next\n")
        place = watcher.place
        if not is_away:
            await watcher.until_seen("next")
    if is_away:
        async with watch_terminal(f"file:{log}", place=place, start=place) as watcher:
            await watcher.until_seen("next")
    assert watcher.seen == "all green\nsecond\nnext\n"


async def test_a_copy_that_is_made_over_the_last_one_shows_it_once(log):
    log.write_text(MANY)
    async with watch_terminal(f"file:{log}") as watcher:
        copy_and_cut(log, numbers=1)
        append(log, f"{MANY.replace('0', 'o')}end of it\n")
        await watcher.until_seen("end of it")
        before = watcher.seen
        append(log, "newer\n")
        copy_and_cut(log, numbers=1)
        append(log, "next\n")
        await watcher.until_seen("next")
    assert watcher.seen.removeprefix(before) == "8998\n8999\nend of it\nnewer\nnext\n"


async def test_a_log_that_repeats_itself_is_known_after_a_restart(log):
    """What is shown is nearest to where it was, not the first that looks alike."""
    beat = f"{'heartbeat' * 9}\n"
    log.write_text(f"start\n{beat}Build finished\n{beat}")
    async with watch_terminal(f"file:{log}") as watcher:
        place = watcher.place
    new = log.with_name("sed7Xk2a1")
    new.write_text(log.read_text().replace("start", "START"))
    new.rename(log)
    append(log, f"new\n{beat}")
    async with watch_terminal(f"file:{log}", place=place, start=place) as watcher:
        await watcher.until_seen("new")
    assert watcher.seen == f"new\n{beat}"


async def test_new_text_with_an_old_line_is_new_after_a_restart(log):
    beat = f"{'heartbeat' * 9}\n"
    log.write_text(f"start\n{beat * 4}")
    async with watch_terminal(f"file:{log}") as watcher:
        place = watcher.place
    log.write_text(f"Build finished\n{beat}")
    async with watch_terminal(f"file:{log}", place=place, start=place) as watcher:
        await watcher.until_seen("Build finished")


async def test_a_place_of_version_0_1_goes_on(log):
    async with watch_terminal(f"file:{log}") as watcher:
        place = watcher.place
    info = log.stat()
    print_ = blake2s(b"old 1\nold 2\n" * 2, digest_size=8).hexdigest()
    assert place.startswith(f"{info.st_dev}:{info.st_ino}:")
    older = f"{info.st_dev}:{info.st_ino}:{print_}:12.12.0.0"
    append(log, "new\n")
    async with watch_terminal(f"file:{log}", place=older, start=older) as watcher:
        assert (await watcher.look()).text == "new\n"


async def test_several_files_in_several_folders_are_watched_together(tmp_path):
    sensor = TerminalSensor()
    paths = [tmp_path / str(n) / "x.log" for n in range(3)]
    for path in paths:
        path.parent.mkdir()
        path.touch()
    async with (
        watch_terminal(f"file:{paths[0]}", sensor) as first,
        watch_terminal(f"file:{paths[1]}", sensor) as second,
        watch_terminal(f"file:{paths[1]}", sensor) as same,
    ):
        append(paths[1], "two\n")
        await second.until_seen("two")
        await same.until_seen("two")
        await first.watch.wait_for_change()
        async with watch_terminal(f"file:{paths[2]}", sensor) as third:
            await heard_only_then(third, paths[2], "three\n")
        append(paths[0], "one\n")
        await first.until_seen("one")


async def test_a_file_behind_a_link_is_watched_where_it_is(tmp_path, log):
    link = tmp_path / "current.log"
    link.symlink_to(log)
    async with watch_terminal(f"file:{link}") as watcher:
        await heard_only_then(watcher, log, "new\n")


async def test_a_missing_file_names_those_that_are_there(log):
    with pytest.raises(TargetNotFound) as refused:
        await TerminalSensor().watch(Target(scheme="pty", name=f"file:{log}x"))
    assert str(refused.value) == (
        f"{log}x is not there; in {log.parent} there are app.log. If it is yet to be "
        "written, create it first (touch)."
    )


async def test_a_file_that_cannot_be_read_says_why(log, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(file_watch.os, "open", refuse)
    with pytest.raises(TargetNotFound, match=r"cannot be read \(Permission denied\)"):
        await TerminalSensor().watch(Target(scheme="pty", name=f"file:{log}"))


@pytest.mark.parametrize("name", ["app.log", "", "./x", "logs/app.log", "/a\x00b"])
async def test_a_path_that_is_not_absolute_is_refused(name):
    with pytest.raises(InvalidArguments, match="is not an absolute path"):
        await TerminalSensor().watch(Target(scheme="pty", name=f"file:{name}"))


async def test_what_cannot_grow_is_refused(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path, kind in [
        (tmp_path, "is a folder"),
        (tmp_path / "fifo", "is no ordinary file"),
        ("/dev/null", "is no ordinary file"),
    ]:
        with pytest.raises(InvalidArguments, match=kind):
            await TerminalSensor().watch(Target(scheme="pty", name=f"file:{path}"))


async def test_no_handle_is_left_open(log):
    async with watch_terminal(f"file:{log}") as watcher:
        for n in range(20):
            log.rename(log.with_suffix(f".{n}"))
            log.write_text(f"{n}\n")
            await watcher.until_seen(f"{n}\n")
        assert sum("app." in path for path in list_open_files()) <= 4
    assert not [path for path in list_open_files() if "app." in path]


async def test_much_at_once_is_read_in_several_looks(log):
    async with watch_terminal(f"file:{log}") as watcher:
        append(log, "".join(f"line {n}\n" for n in range(100_000)))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        await watcher.until(lambda frame: not frame.more and frame.text)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert set(watcher.seen.split("\n")) >= {f"line {n}" for n in range(100_000)}
    assert after - before < 60_000


async def test_file_names_are_shown_without_control_characters(tmp_path):
    (tmp_path / "a\nb\x1b[2J").touch()
    (tmp_path / os.fsdecode(b"\xff.log")).touch()
    with pytest.raises(TargetNotFound) as refused:
        await TerminalSensor().watch(Target(scheme="pty", name=f"file:{tmp_path}/c\nd"))
    said = str(refused.value)
    assert said.isprintable()
    assert "/c\\nd is not there" in said
    assert "a\\nb\\x1b[2J" in said
    assert "\\udcff.log" in said


def watch_file(path, within=None):
    target = Target(scheme="pty", name=f"file:{path}")
    return TerminalSensor().watch(target.model_copy(update={"within": within}))


@pytest.mark.parametrize(
    "name",
    [
        *(".ssh/id_rsa", ".ssh/deploy", ".SSH/ID_RSA", "id_ed25519.bak", "tls/server.key"),
        *("a.pem", ".netrc", ".aws/credentials", ".kube/config", ".docker/config.json"),
        *(".bash_history", ".config/gcloud/x.db", "Login Data", "taskmem.db-wal"),
        *(".openclaw/openclaw.json", "agent/auth-profiles.json", ".env", ".envrc"),
        *(".env.production", ".gemini/oauth_creds.json"),
    ],
)
async def test_what_holds_keys_or_passwords_is_never_shown(tmp_path, name):
    secret = tmp_path / name
    secret.parent.mkdir(exist_ok=True, parents=True)
    secret.write_text("secret\n")
    link = tmp_path / "plain.log"
    link.symlink_to(secret)
    for path in (secret, link):
        with pytest.raises(NotAllowed, match="is never shown") as refused:
            await watch_file(path)
        assert "wait on the log or terminal" in str(refused.value)


@pytest.mark.parametrize(
    "path",
    [
        *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/sudoers.d/x"),
        *("/proc/self/environ", "/proc/1/mem", "/proc/self/root/etc/shadow"),
        *("/proc/kcore", "/sys/kernel/x", "/etc/ssh/ssh_host_ed25519_key"),
    ],
)
async def test_what_is_the_systems_own_is_never_shown(path):
    with pytest.raises(NotAllowed, match="is never shown"):
        await watch_file(path)


@pytest.mark.parametrize(
    "name",
    [
        *(".ssh/config", ".ssh/known_hosts", ".ssh/id_rsa.pub", "monkey", "key.log"),
        *("id_rsa.log", "history.log", "shadow.log", "cookies.log", ".docker/x.log"),
        *("config.toml", "environ", "proc/log", "pem/build.log"),
    ],
)
async def test_what_is_only_called_alike_can_be_watched(tmp_path, name):
    log = tmp_path / name
    log.parent.mkdir(exist_ok=True)
    log.write_text("old\n")
    async with watch_terminal(f"file:{log}") as watcher:
        append(log, "new\n")
        await watcher.until_seen("new")


async def test_settings_and_recordings_of_taskmem_are_not_shown(tmp_path, monkeypatch):
    home = tmp_path / "state"
    home.mkdir()
    monkeypatch.setenv("TASKMEM_HOME", str(home))
    for name in (
        "config.toml",
        "terminals/build/000",
        "pictures/wait_1",
        "recordings/recordings.db",
    ):
        with pytest.raises(NotAllowed, match="is never shown"):
            await watch_file(home / name)
    (home / "doctor-1").write_text("")
    await (await watch_file(home / "doctor-1")).close()


async def test_a_name_that_becomes_a_link_to_a_key_shows_nothing_of_it(tmp_path, log):
    key = tmp_path / "a.key"
    key.write_text("secret\n")
    async with watch_terminal(f"file:{log}") as watcher:
        log.unlink()
        log.symlink_to(key)
        frame = await watcher.until_gone()
    assert "leads to" in frame.gone
    assert "is never shown" in frame.gone
    assert "secret" not in f"{watcher.seen}{frame.tail}"


async def test_what_is_opened_is_looked_at_once_more(tmp_path, log, monkeypatch):
    """A folder may become a link between the look at its path and the opening."""
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / log.name).write_text("secret\n")
    resolve = file_access.resolve_links

    def resolve_and_swap(path):
        end = resolve(path)
        if path == str(log) and not log.parent.is_symlink():
            log.parent.rename(tmp_path / "old")
            log.parent.symlink_to(tmp_path / ".ssh")
        return end

    monkeypatch.setattr(file_access, "resolve_links", resolve_and_swap)
    with pytest.raises(NotAllowed, match="is never shown"):
        file_watch.open_viewable(str(log), None)


async def test_a_file_outside_of_the_folders_is_refused_there_or_not(tmp_path, log):
    (tmp_path / "else").mkdir()
    link = tmp_path / "else" / "link.log"
    link.symlink_to(log)
    within = (str(tmp_path / "else"),)
    for path in (log, log.with_name("missing"), log.parent, link, f"{link}/../../x"):
        with pytest.raises(NotAllowed, match="outside of where you may look") as refused:
            await watch_file(path, within)
        assert f"({within[0]}); have it" in str(refused.value)
    await (await watch_file(log, (*within, str(log.parent)))).close()


async def test_where_a_link_leads_is_told_only_beside_what_may_be_seen(tmp_path, log):
    outside = tmp_path / "outside.log"
    outside.symlink_to(log)
    inside = tmp_path / "else" / "inside.log"
    inside.parent.mkdir()
    inside.symlink_to(log)
    told = []
    for path in (outside, inside):
        with pytest.raises(NotAllowed) as refused:
            await watch_file(path, (str(inside.parent),))
        told.append(f"leads to {log}" in str(refused.value))
    assert told == [False, True]


@pytest.mark.parametrize("name", ["strauss", "straußß"])
def test_home_settings_are_hidden_whatever_the_homes_name(tmp_path, name):
    home = tmp_path / name
    assert is_hidden(str(home / "config.toml"), str(home))
    assert is_hidden(str(home / "setup" / "claude-1.before"), str(home))
    assert not is_hidden(str(home / "notes.toml"), str(home))


@pytest.mark.parametrize(
    ("within", "said"),
    [
        (
            ("/a", "/home", "/state", "/var/log"),
            (
                "(/a, /home, /var/log); have it written there, or let the user set "
                "artifact_roots in /state/config.toml (TASKMEM_ARTIFACT_ROOTS where "
                "that is set, for it goes first) to these and its folder, then run: "
                "taskmem daemon restart."
            ),
        ),
        (("/state", *(f"/{n}" for n in range(10))), "/6, /7 and 2 more); have"),
        (("/box",), "(/box); have it written there, or ask the user to set TASKMEM_S"),
    ],
)
def test_the_refusal_says_what_to_set_in_full(within, said, monkeypatch):
    monkeypatch.setenv("TASKMEM_HOME", "/state")
    with pytest.raises(NotAllowed) as refused:
        file_watch.require_viewable("/srv/k.log", within)
    assert said in str(refused.value)


async def test_a_name_that_becomes_a_link_out_of_the_folders_is_lost(tmp_path, log):
    private = tmp_path / "diary"
    private.write_text("secret\n")
    target = Target(scheme="pty", name=f"file:{log}", within=(str(log.parent),))
    watch = await TerminalSensor().watch(target)
    place = (await watch.here()).place
    log.unlink()
    log.symlink_to(private)
    seen = await watch.look(place, place)
    async with asyncio.timeout(PATIENCE):
        while not (seen.gone or seen.text):
            await watch.wait_for_change()
            seen = await watch.look(place, place)
    await watch.close()
    assert "outside of where you may look" in (seen.gone or "")
    assert "secret" not in f"{seen.text}{seen.tail}"


async def test_a_folder_that_may_not_be_looked_into_is_not_listed(tmp_path, log):
    within = (f"{log}x",)
    with pytest.raises(TargetNotFound, match="is not there; start what writes it"):
        await watch_file(f"{log}x", within)


@pytest.mark.parametrize(
    ("uid", "mode", "user", "anothers"),
    [
        (1001, 0o100640, 0, True),
        (1001, 0o100644, 0, False),
        (0, 0o100600, 0, False),
        (1001, 0o100640, 1002, False),
    ],
)
def test_a_private_file_is_anothers_where_root_asks(uid, mode, user, anothers):
    assert is_anothers(uid, mode, user) is anothers


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
async def test_foreign_private_file_is_shown_only_in_our_own_folder(tmp_path):
    within = (str(tmp_path),)
    theirs = tmp_path / "theirs" / "log"
    theirs.parent.mkdir()
    theirs.write_text("")
    theirs.chmod(0o600)
    os.chown(theirs, 12001, 12001)
    await (await watch_file(theirs, within)).close()
    os.chown(theirs.parent, 12001, 12001)
    with pytest.raises(NotAllowed, match="is another user's"):
        await watch_file(theirs, within)
    theirs.chmod(0o644)
    await (await watch_file(theirs, within)).close()
