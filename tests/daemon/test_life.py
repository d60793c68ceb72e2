"""One daemon's life: its start, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from click.testing import CliRunner

from openclaw_taskmem.cli.client import LinkError, connect
from openclaw_taskmem.cli.command_line import cli
from openclaw_taskmem.daemon.lock import Lock
from tests.support.daemons import (
    COMMAND,
    OPENING,
    Daemon,
    change,
    command,
    environment,
    holder,
    launch,
    lock_database,
    read_next_line,
    refused_start,
    rows,
    short_home,
)
from tests.support.databases import look
from tests.support.waiting import PATIENCE, ProcessOutput, status_of, until

pytestmark = pytest.mark.usefixtures("own_process")

NONE_RUNS = {"daemon": 0, "status": 3}
"""Exit statuses where no daemon runs."""


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_where_news_begins_is_settled_before_anybody_can_come(home):
    home.prepare()
    home.socket.mkdir()
    status, _ = refused_start(home)
    assert status == 1
    settled = look(f"sqlite:///{home.database}", "SELECT name FROM bookmarks")
    outgoing = {name.partition(":")[0] for (name,) in settled}
    assert outgoing >= {"told", "said", "stopped"}


# Two at once, and what an earlier one left behind.


def test_of_many_started_daemons_one_serves_and_others_name_it(home):
    started = [launch(home) for _ in range(5)]
    try:
        logs = [ProcessOutput(process.stderr) for process in started]
        with ThreadPoolExecutor(5) as pool:
            serving = [*pool.map(lambda log: log.wait_for(" serves "), logs)]
        winners = [
            process for process, line in zip(started, serving, strict=True) if line is not None
        ]
        assert len(winners) == 1
        with connect(home) as link:
            assert link.pid == winners[0].pid
        for process, log in zip(started, logs, strict=True):
            if process is not winners[0]:
                assert status_of(process) == 1
                assert "\n".join(log.join()) == (
                    "A daemon for this home runs already, as process "
                    f"{winners[0].pid}; see taskmem status, or stop it with taskmem "
                    "daemon stop."
                )
        winners[0].terminate()
        assert status_of(winners[0]) == 0
    finally:
        for process in started:
            process.kill()
            process.wait()
            process.stdout.close()


def test_a_daemon_that_lost_the_race_leaves_the_winner_alone(daemon):
    status, said = refused_start(daemon.home)
    assert status == 1
    assert f"as process {daemon.process.pid};" in said
    assert daemon.ask("status")["pid"] == daemon.process.pid
    assert holder(daemon.home) == daemon.process.pid


def test_the_socket_that_a_killed_daemon_left_is_replaced(daemon):
    task_id = daemon.register()
    assert daemon.kill() == -signal.SIGKILL
    assert daemon.home.socket.is_socket()
    with pytest.raises(LinkError, match="No daemon runs"):
        daemon.link()
    daemon.restart()
    assert daemon.ask("show", id=task_id)["name"] == "Deploy"


def test_a_file_where_the_socket_belongs_is_replaced(home, start):
    home.prepare()
    home.socket.write_text("in the way")
    assert start().ask("status")["running"] is True


def test_nobody_else_can_open_what_a_daemon_makes(home):
    process = launch(home, umask=0)
    try:
        assert ProcessOutput(process.stderr).wait_for(" serves ")
        with connect(home) as link:
            link.call("call", {"tool": "task_list", "arguments": {}})
        assert mode(home.folder) == 0o700
        assert mode(home.socket) == 0o600
        assert mode(home.lock) == 0o600
        database = [*home.folder.glob("taskmem.db*")]
        assert home.database in database
        assert {mode(path) for path in database} == {0o600}
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_home_and_a_database_that_were_open_to_all_are_closed(start, home):
    first = start()
    first.stop()
    home.folder.chmod(0o755)
    home.database.chmod(0o644)
    start()
    assert mode(home.folder) == 0o700
    assert mode(home.database) == 0o600


# How it ends.


def test_stopping_daemon_answers_its_running_calls_and_cleans_up(daemon):
    task_id = daemon.register()
    update = {"task_id": task_id, "message": "The last word."}
    call = {"id": 1, "method": "call", "params": {"tool": "task_update", "arguments": update}}
    with daemon.raw() as connection, connection.makefile("rb") as answers:
        connection.sendall(OPENING)
        answers.readline()
        with lock_database(daemon.home):
            connection.sendall(json.dumps(call).encode() + b"\n")
            connection.sendall(b'{"id": 2, "method": "status"}\n')
            # It reads in order: once the second is answered, the first runs.
            assert json.loads(answers.readline())["id"] == 2
            daemon.process.send_signal(signal.SIGTERM)
            until(lambda: not daemon.home.socket.exists(), "it takes nobody in")
        answer = json.loads(answers.readline())
        assert answer["id"] == 1
        assert answer["result"]["acknowledged"] is True
        assert answers.readline() == b""
    assert daemon.wait() == 0
    assert not daemon.home.socket.exists()
    assert holder(daemon.home) is None
    Lock(daemon.home.lock).release()
    written = rows(daemon.home, "SELECT content FROM task_messages")
    assert written == [("The last word.",)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_daemon_cleanly_while_clients_are_connected(daemon, number):
    with daemon.link() as link:
        assert daemon.kill(number) == 0
        with pytest.raises(LinkError, match="ended while status was running"):
            link.call("status", {})
    assert "Traceback" not in daemon.log.text
    assert daemon.log.lines[-1].endswith("stopped")


def test_a_stopped_daemon_leaves_its_database_in_one_file(daemon):
    daemon.register()
    daemon.stop()
    assert [path.name for path in daemon.home.folder.glob("taskmem.db*")] == ["taskmem.db"]


def test_stopping_twice_is_fine_both_times(daemon):
    first = command(daemon.home, "daemon", "stop")
    assert first == (0, f"Process {daemon.process.pid} has stopped.\n", "")
    assert daemon.wait() == 0
    second = command(daemon.home, "daemon", "stop")
    assert second == (0, f"No daemon runs for {daemon.home.folder}.\n", "")


def test_stop_removes_the_socket_that_a_killed_daemon_left(daemon):
    daemon.kill(signal.SIGKILL)
    assert daemon.home.socket.exists()
    status, said, _ = command(daemon.home, "daemon", "stop")
    assert (status, said) == (0, f"No daemon runs for {daemon.home.folder}.\n")
    assert not daemon.home.socket.exists()


def test_status_starts_no_daemon_and_exits_with_status_three(home):
    status, said, complained = command(home, "status")
    assert (status, complained) == (3, "")
    assert said.startswith(f"No daemon runs for {home.folder}. Start it with ")
    status, said, _ = command(home, "status", "--json")
    assert status == 3
    absent = {"running": False, "state": "absent", "pid": None}
    assert json.loads(said) == {**absent, "home": str(home.folder)}
    assert not home.folder.exists()


@pytest.fixture
def starting_daemon(home):
    """A daemon that holds the home, and cannot open its database yet."""
    home.prepare()
    home.database.touch(0o600)
    with lock_database(home):
        daemon = Daemon(home)
        until(lambda: holder(home) == daemon.process.pid, "it holds the home")
        yield daemon
    daemon.close()


def test_status_says_starting_for_a_daemon_that_does_not_answer(starting_daemon):
    home, pid = starting_daemon.home, starting_daemon.process.pid
    status, said, complained = command(home, "status")
    assert (status, complained) == (3, "")
    assert said.startswith(f"The daemon of {home.folder} is starting, as process {pid}")
    status, said, _ = command(home, "status", "--json")
    assert json.loads(said) == {
        "running": False,
        "state": "starting",
        "pid": pid,
        "home": str(home.folder),
    }


def test_the_doctor_waits_for_a_daemon_that_is_starting(home):
    home.prepare()
    home.database.touch(0o600)
    with lock_database(home):
        daemon = Daemon(home)
        until(lambda: holder(home) == daemon.process.pid, "it holds the home")
        doctor = subprocess.Popen(
            [COMMAND, "doctor", "--verbose", "--no-proof"],
            stdout=subprocess.PIPE,
            env=environment(home),
            text=True,
        )
        assert doctor.stdout.readline() == "The daemon\n"
        rows = [doctor.stdout.readline() for _ in ("home", "settings")]
    rest, _ = doctor.communicate(timeout=PATIENCE)
    daemon.close()
    assert all(row.startswith("ok ") for row in rows)
    assert f"as process {daemon.process.pid}.\n" in rest
    assert rest.endswith("All is well.\n")


def test_status_says_ending_for_a_daemon_in_its_last_calls(daemon):
    opening = b'{"taskmem": 1, "face": "client"}\n'
    update = {"tool": "task_register", "arguments": {"name": "A", "plan": ["B"]}}
    with daemon.raw() as connection, lock_database(daemon.home):
        connection.sendall(opening)
        read_next_line(connection)
        call = {"id": 1, "method": "call", "params": update}
        connection.sendall(json.dumps(call).encode() + b"\n")
        connection.sendall(b'{"id": 2, "method": "status"}\n')
        assert json.loads(read_next_line(connection))["id"] == 2
        daemon.process.send_signal(signal.SIGTERM)
        until(lambda: not daemon.home.socket.exists(), "it takes nobody in")
        # In this process: the last calls have five seconds, a command may take as long to start.
        asked = CliRunner().invoke(cli, ["status"], env={"TASKMEM_HOME": str(daemon.home.folder)})
    assert asked.exit_code == 3
    assert f"is ending, as process {daemon.process.pid}" in asked.output
    assert daemon.wait() == 0


# Ending by itself.

SHORT = {"TASKMEM_IDLE_EXIT_SECONDS": "2"}


def test_a_daemon_that_nobody_needs_ends_by_itself(start):
    daemon = start(**SHORT)
    task_id = daemon.register()
    daemon.call("task_update", task_id=task_id, status="completed")
    assert daemon.wait() == 0
    assert "idle; stopping" in daemon.log.text
    assert not daemon.home.socket.exists()


@pytest.fixture
def patience():
    """Lets the time pass after which an idle daemon has ended for certain.

    It starts such a daemon and waits for its end: one that was started before
    it, with the same setting, would have ended too.
    """

    def pass_() -> None:
        with short_home() as home:
            other = Daemon(home, **SHORT)
            try:
                assert other.wait() == 0
            finally:
                other.close()

    return pass_


def test_a_client_keeps_the_daemon_until_it_hangs_up(start, patience):
    daemon = start(**SHORT)
    with daemon.link() as link:
        patience()
        assert link.call("status", {})["pid"] == daemon.process.pid
    assert daemon.wait() == 0


def test_a_wake_that_is_owed_keeps_the_daemon(start, patience, home):
    """Its task ended while the gateway was away; the wake itself is still due."""
    daemon = start(
        **SHORT,
        TASKMEM_STUCK_THRESHOLD_SECONDS="0.05",
        TASKMEM_WAKE_TRANSPORT="openclaw-cli",
        TASKMEM_OPENCLAW_BIN=str(home.folder / "nowhere"),
    )
    task_id = daemon.register()
    until(lambda: any(wake["last_error"] for wake in daemon.wakes()), "a delivery fails")
    patience()
    assert daemon.process.poll() is None
    daemon.call("task_update", task_id=task_id, status="completed")
    assert daemon.wait() == 0


# A start that is refused.


def test_unknown_wake_transport_is_refused_with_the_known_ones(home):
    status, said = refused_start(home, TASKMEM_WAKE_TRANSPORT="pigeon")
    assert status == 1
    assert said == (
        "TASKMEM_WAKE_TRANSPORT is 'pigeon', and no plug-in has such a transport; "
        "use auto or one of: claude-inbox, codex-queue, openclaw, openclaw-cli, openclaw-hooks, "
        "openclaw-plugin, stdout."
    )
    assert not home.database.exists()


def test_an_unknown_transport_of_the_file_is_named_as_there(home):
    home.prepare()
    home.config.write_text('wake_transport = "wakefil"\n')
    _, said = refused_start(home)
    assert f"\nwake_transport in {home.config} is 'wakefil', and no plug-in has such a" in said


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("TASKMEM_STUCK_THRESHOLD_SECONDS", "soon"),
        ("TASKMEM_STUCK_COOLDOWN_SECONDS", "-1"),
        ("TASKMEM_STUCK_INTERVAL_SECONDS", "nan"),
        ("TASKMEM_WAKE_ACK_SECONDS", "inf"),
        ("TASKMEM_IDLE_EXIT_SECONDS", "0"),
        ("TASKMEM_TOOLS", "most"),
        ("TASKMEM_GEMINI_CALLS_PER_DAY", "many"),
        ("TASKMEM_GEMINI_CALLS_PER_DAY", "-1"),
        ("TASKMEM_GEMINI_CALLS_PER_DAY", "0.5"),
        ("TASKMEM_GEMINI_CALLS_PER_DAY", "1_000"),
        ("TASKMEM_GEMINI_CALLS_PER_DAY", "1000000000"),
        ("TASKMEM_DATABASE_URL", "no address"),
        ("TASKMEM_DATABASE_URL", "sqlite://"),
        ("TASKMEM_DATABASE_URL", "mysql://localhost/tasks"),
    ],
)
def test_invalid_setting_is_refused_in_one_sentence(home, variable, value):
    status, said = refused_start(home, **{variable: value})
    assert status == 1
    assert said.endswith(".")
    assert "\n" not in said
    assert "Traceback" not in said
    assert holder(home) is None


@pytest.mark.parametrize(
    "variable",
    [
        "TASKMEM_STUCK_THRESHOLD_SECONDS",
        "TASKMEM_STUCK_COOLDOWN_SECONDS",
        "TASKMEM_STUCK_INTERVAL_SECONDS",
        "TASKMEM_WAKE_ACK_SECONDS",
        "TASKMEM_IDLE_EXIT_SECONDS",
        "TASKMEM_HOOK_SECONDS",
    ],
)
def test_a_time_beyond_every_calendar_is_refused_too(home, variable):
    status, said = refused_start(home, **{variable: "1e300"})
    assert status == 1
    assert said.startswith(f"{variable} is '1e300'")
    assert "\n" not in said


@pytest.mark.parametrize("text", ["stuck_threshold_seconds = ", "= 5", "\xff"])
def test_a_settings_file_that_cannot_be_read_is_refused(home, text):
    home.prepare()
    home.config.write_bytes(text.encode("latin-1"))
    status, said = refused_start(home)
    assert status == 1
    assert said.startswith(f"{home.config} cannot be read (")
    assert "\n" not in said


def test_a_home_that_is_a_file_is_refused(home):
    home.folder.write_text("not a folder")
    status, said = refused_start(home)
    assert status == 1
    assert said.startswith(f"The state folder {home.folder} cannot be used")
    assert "\n" not in said
    for action in (["daemon", "stop"], ["status"]):
        status, _, complained = command(home, *action)
        assert (status, "Traceback" in complained) == (NONE_RUNS[action[0]], False)
    assert home.folder.read_text() == "not a folder"


def test_database_of_newer_version_is_refused_and_left_unchanged(start, home):
    first = start()
    first.register()
    first.stop()
    change(home, "UPDATE alembic_version SET version_num = '9999'")
    before = home.database.read_bytes()
    status, said = refused_start(home)
    assert status == 1
    assert "was written by a newer version" in said
    assert "9999" in said
    assert "\n" not in said
    assert home.database.read_bytes() == before
    log = home.database.with_name("taskmem.db-wal")
    assert not (log.exists() and log.read_bytes())


def test_the_process_id_that_a_link_knows_is_the_daemons(daemon):
    with daemon.link() as link:
        assert link.pid == daemon.process.pid != os.getpid()
