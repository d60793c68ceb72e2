"""What a daemon does when its home, its socket or its clients change."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from openclaw_taskmem.cli.client import LinkError, connect
from openclaw_taskmem.config import load_settings
from openclaw_taskmem.daemon import main
from openclaw_taskmem.home import find_home
from openclaw_taskmem.mcp_lines import _cut_deep_nesting
from tests.support.daemons import Daemon, command, refused_start, rows
from tests.support.waiting import until


def remove(home):
    """Remove a home under a daemon that may be writing into it just then."""

    def try_removing():
        shutil.rmtree(home.folder, ignore_errors=True)
        return not home.folder.exists()

    until(try_removing, "the home is gone")


def test_a_daemon_whose_home_was_removed_ends_by_itself(daemon):
    daemon.register()
    remove(daemon.home)

    assert daemon.wait() == 0


@pytest.mark.parametrize("by", ["removal", "replacement", "emptying"])
def test_what_is_answered_is_in_the_database_that_is_there(daemon, by: str):
    daemon.register("Known")
    database = daemon.home.database
    copy = database.with_name("copy.db")
    with closing(sqlite3.connect(database)) as opened:
        opened.execute("VACUUM INTO ?", (str(copy),))
    if by == "emptying":
        os.truncate(database, 0)
    else:
        for name in ("taskmem.db", "taskmem.db-wal", "taskmem.db-shm"):
            database.with_name(name).unlink()
    if by == "replacement":
        copy.rename(database)

    with pytest.raises(LinkError):
        daemon.register("Lost")

    assert daemon.wait() == 0
    assert "replaced or removed; stopping" in daemon.log.text
    daemon.restart()
    daemon.register("Found")
    found = [name for (name,) in rows(daemon.home, "SELECT name FROM tasks ORDER BY 1")]
    assert found == (["Found", "Known"] if by == "replacement" else ["Found"])


def test_a_killed_daemon_whose_log_is_lost_is_missed(daemon):
    daemon.register("Known")
    daemon.kill()
    daemon.home.database.with_name("taskmem.db-wal").unlink()
    lost = f"The database {daemon.home.database} has less than on "
    daemon.restart()
    assert lost in daemon.log.text
    assert daemon.ask("overview")["loss"].startswith(lost)
    assert lost in daemon.call("task_list")["message"]
    assert lost not in daemon.call("task_list")["message"]
    for words in (["daemon", "--detach"], ["list"], ["status"]):
        assert lost in command(daemon.home, *words)[1]

    assert command(daemon.home, "restore", "--keep")[0] == 0

    assert daemon.ask("overview")["loss"] is None
    daemon.restart()
    assert lost not in daemon.log.text


def test_whoever_looks_is_told_that_the_database_is_damaged(daemon):
    daemon.register("Known")
    daemon.stop()
    find = "SELECT rootpage FROM sqlite_master WHERE name = 'task_messages_by_task'"
    ((page,),), ((size,),) = rows(daemon.home, find), rows(daemon.home, "PRAGMA page_size")
    with daemon.home.database.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * 100)
    daemon.restart()

    for words in ([], ["list"], ["status"]):
        text = "".join(map(str, command(daemon.home, *words)[1:]))
        assert "damaged" in text
        assert "taskmem restore --replace" in text


def test_a_home_whose_tasks_are_elsewhere_begins_no_others(start, home, tmp_path):
    elsewhere = f"sqlite:///{tmp_path / 'elsewhere.db'}"
    start(TASKMEM_DATABASE_URL=elsewhere).stop()

    _, text = refused_start(home)

    assert f"are in {elsewhere}, and TASKMEM_DATABASE_URL is not set here." in text
    assert not home.database.exists()


def test_what_is_written_is_soon_in_the_file_itself(daemon):
    daemon.register("Known")
    log = daemon.home.database.with_name("taskmem.db-wal")
    assert log.stat().st_size
    until(lambda: not log.stat().st_size, "the log is empty")


def has_read_its_log(daemon) -> bool:
    """Whether those who read the event log at once have noted the newest event.

    Others note it once a minute.
    """
    ((newest,),) = rows(daemon.home, "SELECT max(id) FROM events")
    query = "SELECT value FROM bookmarks WHERE name = 'told' OR name GLOB 'shown:*'"
    return rows(daemon.home, query) == [(str(newest),)] * 2


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL, None])
def test_a_copy_that_is_written_over_the_database_stays_whole(daemon, end):
    for name in ("One", "Two"):
        daemon.register(name)
    database = daemon.home.database
    copy = database.with_name("copy.db")
    with closing(sqlite3.connect(database)) as opened:
        opened.execute("VACUUM INTO ?", (str(copy),))
    for number in range(60):
        daemon.register(f"Later {number}", plan=["x" * 300] * 20)
    # A copy into which the daemon writes at that moment is damaged: SQLite cannot tell.
    until(lambda: has_read_its_log(daemon), "the daemon writes nothing by itself")
    shutil.copyfile(copy, database)
    for name in ("taskmem.db-wal", "taskmem.db-shm"):
        database.with_name(name).unlink()

    with pytest.raises(LinkError):
        daemon.register("Lost", plan=["x" * 300] * 20)

    if end is not None:
        daemon.process.send_signal(end)
    daemon.wait()
    daemon.restart()
    daemon.register("Three")
    found = [name for (name,) in rows(daemon.home, "SELECT name FROM tasks ORDER BY 1")]
    assert found == ["One", "Three", "Two"]


def test_what_was_answered_outlives_the_loss_of_its_log(daemon):
    daemon.register("Known")
    daemon.home.database.with_name("taskmem.db-wal").unlink()

    with pytest.raises(LinkError, match="its log was replaced or removed"):
        daemon.register("Lost")

    assert daemon.wait() == 0
    daemon.restart()
    assert rows(daemon.home, "SELECT name FROM tasks") == [("Known",)]


def test_it_leaves_the_socket_of_its_successor_alone(daemon, start):
    remove(daemon.home)
    successor = start()

    assert daemon.wait() == 0
    assert successor.ask("status")["pid"] == successor.process.pid


def test_a_socket_that_was_removed_is_made_anew(daemon):
    daemon.home.socket.unlink()

    until(daemon.home.socket.exists, "the socket is back")
    assert daemon.ask("status")["running"] is True


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_socket_whose_folder_was_removed_is_made_anew(tmp_path, comes_back):
    """The folder of the runtime files goes at a logout."""
    with tempfile.TemporaryDirectory(prefix="tm") as short:
        runtime = Path(short) / "run"
        runtime.mkdir()
        environ = {
            "TASKMEM_HOME": str(tmp_path / ("long" * 25)),
            "XDG_RUNTIME_DIR": str(runtime),
            "TMPDIR": short,
        }
        daemon = Daemon(find_home(environ), XDG_RUNTIME_DIR=str(runtime), TMPDIR=short)
        try:
            daemon.wait_until_it_serves()
            assert daemon.home.socket.is_relative_to(runtime)
            shutil.rmtree(runtime)
            assert daemon.log.wait_for("creating it again") is not None
            if comes_back:
                runtime.mkdir()

            def is_back():
                return find_home(environ).socket.is_socket()

            until(is_back, "the socket is back")
            with connect(find_home(environ)) as link:
                assert link.pid == daemon.process.pid
        finally:
            daemon.close()


@pytest.mark.parametrize("number", [errno.ENOTSUP, errno.EPERM, errno.EIO])
async def test_a_home_without_sockets_has_its_socket_elsewhere(tmp_path, monkeypatch, number):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    (tmp_path / "run").mkdir()
    home = find_home({"TASKMEM_HOME": str(tmp_path / "home")})
    home.prepare()
    opened = []

    class Server:
        async def open(self, path):
            if path.parent == home.folder:
                raise OSError(number, os.strerror(number), str(path))
            opened.append(path)

    await main._open_socket(Server(), home)

    assert opened == [home.socket.readlink()]


def test_status_of_a_daemon_that_does_not_answer_names_it(daemon):
    os.kill(daemon.process.pid, signal.SIGSTOP)
    try:
        status, out, err = command(daemon.home, "status")
    finally:
        os.kill(daemon.process.pid, signal.SIGCONT)

    assert (status, out) == (1, "")
    assert f"Process {daemon.process.pid} holds" in err


def test_a_damaged_row_is_no_malformed_call(daemon):
    task_id = daemon.register()
    daemon.stop()
    database = sqlite3.connect(daemon.home.database)
    database.execute("UPDATE tasks SET plan = '{bad'")
    database.commit()
    database.close()
    daemon.restart()

    with pytest.raises(LinkError, match=f"The row tasks '{task_id}' cannot be read"):
        daemon.ask("show", id=task_id)


@pytest.mark.parametrize("name", ["a?b", "a%41", "a#b", "ä b"])
def test_a_home_of_any_name_holds_its_own_database(tmp_path: Path, name: str):
    from openclaw_taskmem.plugin_host.plugin_host import PluginHost

    folder = tmp_path / name
    folder.mkdir()
    settings = load_settings({"TASKMEM_HOME": str(folder)})
    store = PluginHost().open_store(settings.database)
    store.close()

    assert (folder / "taskmem.db").stat().st_size > 0
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.timeout(60)
def test_a_text_without_an_end_is_looked_through_once():
    # Each quote that began another text made this take hours.
    line = json.dumps({"id": 5})[:-1] + ', "a": ' + "[" * 101 + '"' + '\\"' * 500_000

    assert len(_cut_deep_nesting(line)) <= len(line)


@pytest.mark.parametrize(
    "text",
    [
        *("tools = [[[", "hook_seconds = " + "1" * 5000, 'tools = "a\\u0000b"'),
        *("gemini_calls_per_day = 0.5", "gemini_calls_per_day = true"),
    ],
)
def test_nonsense_in_the_settings_file_is_one_sentence(home, text: str):
    home.prepare()
    home.config.write_text(text)

    status, out, err = command(home, "daemon")

    assert (status, out) == (1, "")
    assert len(err.splitlines()) == 1
    assert "config.toml" in err or "TASKMEM_" in err
