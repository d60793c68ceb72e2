"""Faults of the machine: told in a sentence, and over without a restart."""

from __future__ import annotations

import resource
import signal
import socket
import sqlite3
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from openclaw_taskmem.cli.client import LinkError
from openclaw_taskmem.daemon.logfile import MOST_REPEATS
from tests.support.daemons import change, contents, lock_database, refused_start, rows
from tests.support.waiting import until

BLOCK = "x" * 60_000
MOST = 500
"""Calls within which any limit on the file's size is met."""

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="limits of another process can be set on Linux only"
)


@contextmanager
def no_room(daemon):
    """The daemon's files stay as long as they are, as on a disk that is full."""
    pid, kind = daemon.process.pid, resource.RLIMIT_FSIZE
    soft, hard = resource.prlimit(pid, kind)
    size = max(path.stat().st_size for path in daemon.home.folder.glob("taskmem.db*"))
    resource.prlimit(pid, kind, (size, hard))
    try:
        yield
    finally:
        if daemon.process.poll() is None:
            resource.prlimit(pid, kind, (soft, hard))


def read_contents(home, task_id):
    query = "SELECT content FROM task_messages WHERE task_id = ? ORDER BY id"
    return [content for (content,) in rows(home, query, task_id)]


def is_sound(home):
    """Whether the database is sound, and every count in it is true."""
    assert rows(home, "PRAGMA integrity_check") == [("ok",)]
    assert rows(home, "PRAGMA foreign_key_check") == []
    return not rows(
        home,
        "SELECT task_id FROM tasks WHERE message_count != "
        "(SELECT count(*) FROM task_messages AS m WHERE m.task_id = tasks.task_id)",
    )


def write_until_refused(daemon, task_id):
    """Write until not even a word is taken; return what was answered, and a refusal."""
    answered = []
    refusal = None
    with daemon.link() as link:
        for number in range(MOST):
            text = f"{number:04d} {BLOCK if refusal is None else ''}"
            given = {"task_id": task_id, "message": text}
            try:
                link.call("call", {"tool": "task_update", "arguments": given}, 60)
            except LinkError as error:
                if refusal is not None:
                    return answered, error
                refusal = error
            else:
                answered.append(text)
    raise AssertionError("nothing was refused")


def test_a_full_disk_is_told_and_the_next_call_after_it_works(daemon):
    task_id = daemon.register()
    with no_room(daemon):
        answered, refusal = write_until_refused(daemon, task_id)
        assert refusal.name == "store_full"
        assert str(refusal) == (
            "The disk did not take all that was to be written, so it may be kept or not: there is "
            "no room left, by a quota perhaps, or the disk fails; read again, free some space, or "
            "see in the system's log whether it fails, then try again."
        )
        # What needs no room is answered all the while.
        assert daemon.ask("show", id=task_id)["name"] == "Deploy"
        assert read_contents(daemon.home, task_id) == answered
        assert is_sound(daemon.home)
    daemon.call("task_update", task_id=task_id, message="Room again.")
    assert read_contents(daemon.home, task_id) == [*answered, "Room again."]
    assert is_sound(daemon.home)
    assert daemon.stop() == 0


def test_answered_writes_survive_a_full_disk_and_a_kill(daemon):
    task_id = daemon.register()
    with no_room(daemon):
        answered, _ = write_until_refused(daemon, task_id)
        daemon.kill(signal.SIGKILL)
    daemon.restart()
    assert read_contents(daemon.home, task_id) == answered
    daemon.call("task_update", task_id=task_id, message="Room again.")
    assert is_sound(daemon.home)


def test_many_calls_at_once_on_a_full_disk_are_each_told(daemon):
    tasks = [daemon.register(f"Task {number}") for number in range(6)]
    with no_room(daemon):
        with ThreadPoolExecutor(len(tasks)) as pool:
            found = [*pool.map(lambda task: write_until_refused(daemon, task), tasks)]
        for task_id, (answered, refusal) in zip(tasks, found, strict=True):
            assert refusal.name == "store_full"
            assert read_contents(daemon.home, task_id) == answered
    for task_id in tasks:
        daemon.call("task_update", task_id=task_id, message="Room again.")
    assert is_sound(daemon.home)


def test_an_alert_that_found_no_room_is_found_again(start):
    """The loops go on too, without a call that would remind them."""
    daemon = start(TASKMEM_STUCK_THRESHOLD_SECONDS="3", TASKMEM_STUCK_INTERVAL_SECONDS="1")
    task_id = daemon.register()
    with no_room(daemon):
        write_until_refused(daemon, task_id)
        assert daemon.log.wait_for("a pass failed")
        assert daemon.process.poll() is None
    assert daemon.out.wait_for(task_id)
    assert is_sound(daemon.home)


def test_locked_database_is_reported_and_the_next_call_works(daemon):
    task_id = daemon.register()
    before = contents(daemon.home)
    with lock_database(daemon.home):
        with pytest.raises(LinkError) as refused:
            daemon.call("task_update", task_id=task_id, message="Lost in vain.")
        assert refused.value.name == "store_busy"
        assert str(refused.value) == (
            "Another process holds the database, and nothing was written; try again in a moment."
        )
        # Reading needs no lock.
        assert daemon.ask("show", id=task_id)["messages"] == []
        assert contents(daemon.home) == before
    daemon.call("task_update", task_id=task_id, message="Said again.")
    assert read_contents(daemon.home, task_id) == ["Said again."]
    assert is_sound(daemon.home)


def test_a_lock_that_is_let_go_in_time_is_waited_for(daemon):
    task_id = daemon.register()
    with daemon.link() as link, lock_database(daemon.home):
        call = {"task_id": task_id, "message": "Waited for."}
        with pytest.raises(LinkError, match=r"did not answer call within 0\.01 s"):
            link.call("call", {"tool": "task_update", "arguments": call}, 0.01)
    until(lambda: read_contents(daemon.home, task_id) == ["Waited for."], "it is written")


COPIED = (
    "name, status, plan, done, metadata, session_key, home, message_count, created_at, "
    "updated_at, version, last_stuck_alert_at, alerts, alerts_in_a_row, stuck_due_at, "
    "held_until"
)


def test_a_lock_that_falls_into_a_start_only_delays_it(start, home):
    """New settings are applied to each task, while calls are already answered."""
    daemon = start()
    daemon.register()
    daemon.stop()
    change(
        home,
        "WITH RECURSIVE many(n) AS (SELECT 1 UNION SELECT n + 1 FROM many LIMIT 10000) "  # noqa: S608 - our own words
        f"INSERT INTO tasks (task_id, {COPIED}) "
        f"SELECT printf('task_%05d', n), {COPIED} FROM tasks, many",
    )
    ((due,),) = rows(home, "SELECT DISTINCT stuck_due_at FROM tasks")
    old = "SELECT count(*) FROM tasks WHERE stuck_due_at = ?"
    daemon.restart(TASKMEM_STUCK_THRESHOLD_SECONDS="70000")
    with lock_database(home):
        assert daemon.log.wait_for("could not reschedule tasks; retrying")
        assert rows(home, old, due) > [(0,)]
        assert daemon.ask("status")["running"] is True
    until(lambda: rows(home, old, due) == [(0,)], "all are looked at")
    assert daemon.process.poll() is None
    assert is_sound(home)


def test_daemon_refuses_to_start_on_a_locked_database(start, home):
    start().stop()
    with closing(sqlite3.connect(home.database, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = DELETE")
        other.execute("BEGIN EXCLUSIVE")
        status, said = refused_start(home)
    assert status == 1
    assert said == (
        "Another process holds the database, and nothing was written; try again in a moment."
    )
    assert start().ask("status")["running"] is True


GARBAGE = {
    "text": b"Dear diary,\n" * 500,
    "zeros": b"\0" * 8192,
    "half a header": b"SQLite format 3\0" + b"\xff" * 4096,
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(home, garbage):
    home.prepare()
    home.database.write_bytes(garbage)
    status, said = refused_start(home)
    assert status == 1
    assert said == (
        "The database file is damaged, or is no SQLite database; move it away while no daemon "
        "runs, or put a back-up back: taskmem restore --replace FILE."
    )
    assert home.database.read_bytes() == garbage


def test_a_database_that_was_cut_short_is_refused_or_read_whole(start, home):
    daemon = start()
    for number in range(20):
        daemon.register(f"Task {number}", plan=["x" * 500] * 20)
    daemon.stop()
    size = home.database.stat().st_size
    with home.database.open("r+b") as file:
        file.truncate(size // 3)
    status, said = refused_start(home)
    assert status == 1
    assert "\n" not in said
    assert said.endswith("put a back-up back: taskmem restore --replace FILE.")


def test_a_database_of_someone_elses_program_is_told_apart(home, start):
    home.prepare()
    home.database.touch()
    change(home, "CREATE TABLE tasks (something TEXT)")
    before = home.database.read_bytes()
    status, said = refused_start(home)
    assert status == 1
    assert "\n" not in said
    assert home.database.read_bytes()[100:] == before[100:]


def _answers(daemon):
    with suppress(LinkError):
        return daemon.call("task_list")["tasks"] == []
    return False


def test_used_up_descriptors_fill_no_log(daemon):
    open_now = len([*Path(f"/proc/{daemon.process.pid}/fd").iterdir()])
    few = open_now + 40
    resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (few, few))

    leaked = [socket.socket(socket.AF_UNIX) for _ in range(100)]
    for each in leaked:
        each.connect(str(daemon.home.socket))
    assert daemon.log.wait_for("counted only") is not None
    for each in leaked:
        each.close()

    until(lambda: _answers(daemon), "it answers again")
    assert 1 <= daemon.log.text.count("out of system resource") <= 2 * MOST_REPEATS
    assert "Logging error" not in daemon.log.text
