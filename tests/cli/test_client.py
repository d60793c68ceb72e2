import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from openclaw_taskmem.cli import client as link_module
from openclaw_taskmem.cli import daemon_process as start_module
from openclaw_taskmem.cli.client import MAX_LINE, LinkError, connect, connect_or_start
from openclaw_taskmem.daemon.lock import Lock, find_holder
from openclaw_taskmem.home import Home
from tests.cli import fake_daemon
from tests.cli.fake_daemon import PATIENCE

STAND_IN = (sys.executable, fake_daemon.__file__)
DEAD = (sys.executable, "-c", "raise SystemExit('The last word.')")


def environ(**more):
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **more}


def make_answerer(result):
    def behave(connection, call):
        connection.say({"id": call["id"], "result": result})

    return behave


@pytest.fixture
def stand_in(home):
    """Stops the stand-in that a test started."""
    yield
    held = find_holder(home.lock)
    if held and held.pid and home.socket.exists():
        os.kill(held.pid, signal.SIGTERM)


@pytest.fixture
def children(monkeypatch):
    """The processes that a test started."""
    started = []

    class KeptProcess(subprocess.Popen):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            started.append(self)

    monkeypatch.setattr(start_module.subprocess, "Popen", KeptProcess)
    return started


# Calls.


def test_call_sends_method_and_params_and_returns_the_result(home, daemon):
    fake = daemon(make_answerer({"ok": True}))
    with connect(home) as link:
        assert link.call("status", {"all": True}) == {"ok": True}
    assert fake.next_heard() == {"id": 1, "method": "status", "params": {"all": True}}


def test_the_opening_says_which_kind_of_client_it_is(home, daemon, monkeypatch):
    monkeypatch.setenv("TASKMEM_TOOLS", "runs")
    fake = daemon()
    with connect(home), connect(home, "mcp"):
        openings = [fake.next_connection().opening for _ in range(2)]
    here = {"taskmem": 1, "folder": str(Path.cwd()), "tools": "runs"}
    for face, can in (("client", False), ("mcp", True)):
        assert {**here, "face": face, "tells_variables": can, "posts": can} in openings


def test_a_link_knows_whom_it_speaks_with(home, daemon):
    daemon(opening={"taskmem": 1, "pid": 4711, "version": "9.9"})
    with connect(home) as link:
        assert (link.pid, link.version) == (4711, "9.9")


def test_link_ignores_an_early_answer_to_another_call(home, daemon):
    def behave(connection, call):
        connection.say({"id": call["id"] + 7, "result": "not ours"})
        connection.say({"id": call["id"], "result": "ours"})

    daemon(behave)
    with connect(home) as link:
        assert link.call("status", {}) == "ours"
        assert link.call("status", {}) == "ours"


def test_refused_call_keeps_the_daemons_error_name_and_message(home, daemon):
    def behave(connection, call):
        refusal = {"error": "task_not_found", "message": "No task has that id."}
        connection.say({"id": call["id"], "error": refusal})

    daemon(behave)
    with (
        connect(home) as link,
        pytest.raises(LinkError, match=r"^No task has that id\.$") as raised,
    ):
        link.call("show", {})
    assert raised.value.name == "task_not_found"


def test_daemon_death_during_a_call_leaves_its_outcome_open(home, daemon):
    daemon(lambda connection, _: connection.drop())
    with (
        connect(home) as link,
        pytest.raises(LinkError, match="may or may not have been done") as raised,
    ):
        link.call("register", {})
    assert raised.value.name == "daemon_unavailable"


def test_a_call_waits_no_longer_than_it_may(home, daemon):
    daemon(lambda *_: None)
    with (
        connect(home) as link,
        pytest.raises(LinkError, match=r"did not answer slow within 0\.01 s"),
    ):
        link.call("slow", {}, timeout=0.01)


def test_call_after_a_timed_out_call_gets_its_own_answer(home, daemon):
    calls = []

    def behave(connection, call):
        calls.append(call)
        if len(calls) == 2:
            for one in calls:
                connection.say({"id": one["id"], "result": one["method"]})

    daemon(behave)
    with connect(home) as link:
        with pytest.raises(LinkError):
            link.call("first", {}, timeout=0.01)
        assert link.call("second", {}, timeout=PATIENCE) == "second"


def test_a_call_that_is_too_long_is_refused_before_it_is_sent(home, daemon):
    fake = daemon(make_answerer("fine"))
    with connect(home) as link:
        with pytest.raises(LinkError, match="more than 1 MiB") as raised:
            link.call("update", {"message": "x" * MAX_LINE})
        assert link.call("status", {}) == "fine"
    assert raised.value.name == "invalid_arguments"
    assert fake.next_heard()["method"] == "status"


def test_an_answer_may_be_long_and_come_in_pieces(home, daemon):
    daemon(make_answerer("ä" * 500_000))
    with connect(home) as link:
        assert link.call("show", {}) == "ä" * 500_000


# Whom a client speaks with.


def test_without_a_daemon_a_client_says_how_to_start_one(home):
    with pytest.raises(LinkError, match="taskmem daemon --detach") as raised:
        connect(home)
    assert raised.value.name == "daemon_unavailable"


def test_a_refused_opening_keeps_the_daemons_name_and_sentence(home, daemon):
    daemon(opening={"error": "store_too_new", "message": "Upgrade taskmem."})
    with pytest.raises(LinkError, match=r"^Upgrade taskmem\.$") as raised:
        connect(home)
    assert raised.value.name == "store_too_new"


@pytest.mark.parametrize("said", [{"taskmem": 2}, ["hello"]])
def test_who_answers_in_another_language_is_not_spoken_to(home, daemon, said):
    daemon(opening=said)
    with pytest.raises(LinkError, match=r"another version|not a taskmem daemon"):
        connect(home)


def test_a_daemon_that_hangs_in_the_opening_is_given_up(home, daemon, monkeypatch):
    daemon(opening=None)
    monkeypatch.setattr(link_module, "_OPENING_SECONDS", 0.01)
    with pytest.raises(LinkError, match="taskmem daemon stop"):
        connect(home)


def test_a_socket_that_another_user_serves_is_refused(home, daemon, monkeypatch):
    fake = daemon()
    me = os.geteuid()
    monkeypatch.setattr(link_module.os, "geteuid", lambda: me + 1)
    with pytest.raises(LinkError, match=f"Another user .uid {me}."):
        connect(home)
    assert fake.connections.empty()


# Starting a daemon.


def test_a_daemon_that_runs_is_not_started_again(home, daemon):
    daemon()
    connect_or_start(home, {}, command=["/nowhere"]).close()


@pytest.fixture
def piped_stdin():
    """Gives this process a stdin that a child would keep open."""
    kept = os.dup(0)
    ends = os.pipe()
    os.dup2(ends[0], 0)
    yield
    os.dup2(kept, 0)
    for end in (kept, *ends):
        os.close(end)


def test_a_daemon_is_started_when_none_runs(home, stand_in, piped_stdin):
    with connect_or_start(home, environ(TASKMEM_HOME="elsewhere"), command=STAND_IN) as link:
        about = link.call("about", {})
        assert about == {
            "home": str(home.folder),
            "cwd": "/",
            "session": link.pid,
            "stdin_is_null": True,
        }


@pytest.mark.parametrize("client_kind", ["client", "mcp"])
def test_who_waits_at_a_terminal_hears_once_of_the_start(
    home, stand_in, monkeypatch, capsys, client_kind
):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for _ in range(2):
        connect_or_start(home, environ(), client_kind, STAND_IN).close()
    notice = "The daemon starts …\n" if client_kind == "client" else ""
    assert capsys.readouterr() == ("", notice)


def test_a_socket_that_nobody_listens_on_is_as_good_as_none(home, daemon, stand_in):
    daemon().die(leave_socket=True)
    assert home.socket.is_socket()
    with connect_or_start(home, environ(), command=STAND_IN) as link:
        assert link.pid != os.getpid()


def test_many_clients_that_start_at_once_meet_at_one_daemon(home, stand_in):
    together = threading.Barrier(8)

    def go(_):
        together.wait(PATIENCE)
        with connect_or_start(home, environ(), command=STAND_IN) as link:
            return link.pid

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(go, range(8)))) == 1


def test_failed_daemon_start_reports_the_last_line_of_its_log(home, monkeypatch):
    monkeypatch.setattr(start_module, "_RACE_SECONDS", 0.0)
    monkeypatch.setattr(start_module, "_START_SECONDS", 20 * PATIENCE)
    home.prepare()
    home.log.write_text("of an earlier daemon\n")
    with pytest.raises(LinkError) as raised:
        connect_or_start(home, environ(FAKE_DAEMON="fail"), command=STAND_IN)
    assert raised.value.name == "daemon_unavailable"
    assert "could not be started: Error: the settings are bad. " in str(raised.value)
    assert str(home.log) in str(raised.value)
    assert home.log.read_text().startswith("of an earlier daemon\n")


def test_what_an_earlier_daemon_said_is_no_reason(home, monkeypatch):
    monkeypatch.setattr(start_module, "_RACE_SECONDS", 0.0)
    home.prepare()
    home.log.write_text("of an earlier daemon\n")
    with pytest.raises(LinkError, match="it ended with status 3"):
        connect_or_start(home, {}, command=[sys.executable, "-c", "raise SystemExit(3)"])


def test_the_log_is_its_owners_alone(home, monkeypatch):
    monkeypatch.setattr(start_module, "_RACE_SECONDS", 0.0)
    with pytest.raises(LinkError, match="The last word"):
        connect_or_start(home, {}, command=DEAD)
    assert home.log.stat().st_mode & 0o777 == 0o600


@pytest.fixture
def looks(monkeypatch):
    """What happens when it is looked for the nth time who holds the home."""
    real, planned, asked = start_module.find_holder, {}, itertools.count(1)

    def find_holder(lock):
        planned.get(next(asked), lambda: None)()
        return real(lock)

    monkeypatch.setattr(start_module, "find_holder", find_holder)
    return planned


def test_reach_waits_for_the_lock_holder_and_starts_no_daemon(home, daemon, looks):
    """The holder has the lock long before it answers."""
    home.prepare()
    held = Lock(home.lock)
    looks[5] = daemon
    with connect_or_start(home, {}, command=["/nowhere"]) as link:
        assert link.waited
    held.release()


def test_a_lost_race_is_waited_out_while_the_winner_lives(home, daemon, looks, monkeypatch):
    monkeypatch.setattr(start_module, "_RACE_SECONDS", 0.0)
    home.prepare()
    held = []
    looks[2] = lambda: held.append(Lock(home.lock))
    looks[5] = daemon
    connect_or_start(home, {}, command=DEAD).close()
    held[0].release()


def test_a_lost_race_is_waited_out_before_the_winner_is_known(home, daemon, looks, monkeypatch):
    """The winner has not yet taken the lock."""
    monkeypatch.setattr(start_module, "_RACE_SECONDS", PATIENCE)
    looks[5] = daemon
    connect_or_start(home, {}, command=DEAD).close()


def test_reach_starts_a_daemon_after_the_lock_holder_ends(home, stand_in, looks):
    home.prepare()
    held = Lock(home.lock)
    looks[5] = held.release
    with connect_or_start(home, environ(), command=STAND_IN) as link:
        assert link.pid != os.getpid()


def test_reach_starts_a_daemon_after_losing_to_an_ending_one(
    home, stand_in, looks, monkeypatch, tmp_path
):
    """The first child loses to a process that then ends without ever answering."""
    monkeypatch.setattr(start_module, "_RACE_SECONDS", 0.0)
    home.prepare()
    held = []
    looks[2] = lambda: held.append(Lock(home.lock))
    looks[4] = lambda: held.pop().release()
    mark = tmp_path / "mark"
    second = (
        "import os, sys, pathlib\n"
        f"mark = pathlib.Path({str(mark)!r})\n"
        "if not mark.exists(): mark.touch(); sys.exit(1)\n"
        f"os.execv(sys.executable, {list(STAND_IN)!r})\n"
    )
    connect_or_start(home, environ(), command=[sys.executable, "-c", second]).close()
    assert mark.exists()


@pytest.mark.parametrize(
    ("age", "said"), [(1, "is starting"), (1000, "holds .* may still be starting: try again")]
)
def test_who_holds_the_home_and_never_answers_is_named(home, monkeypatch, age, said):
    monkeypatch.setattr(start_module, "_START_SECONDS", 0.05)
    monkeypatch.setattr(start_module, "read_process_age", lambda _: age)
    home.prepare()
    held = Lock(home.lock)
    with pytest.raises(LinkError, match=said) as raised:
        connect_or_start(home, {}, command=["/nowhere"])
    held.release()
    assert str(os.getpid()) in str(raised.value)
    assert raised.value.name == "daemon_unavailable"


def test_a_daemon_that_never_answers_is_not_waited_for_for_ever(home, monkeypatch, children):
    monkeypatch.setattr(start_module, "_START_SECONDS", 0.05)
    forever = [sys.executable, "-c", "import signal; signal.pause()"]
    with pytest.raises(LinkError, match=r"does not answer after 0\.05 s"):
        connect_or_start(home, {}, command=forever)
    children[0].kill()
    children[0].wait(PATIENCE)


def test_a_daemon_that_refuses_is_not_started_over(home, daemon):
    daemon(opening={"error": "store_too_new", "message": "Upgrade taskmem."})
    with pytest.raises(LinkError, match="Upgrade"):
        connect_or_start(home, {}, command=["/nowhere"])


def test_a_daemon_that_is_ending_is_followed_by_a_new_one(home, daemon, stand_in):
    daemon(opening={"error": "daemon_unavailable", "message": "Ending."})
    with pytest.raises(LinkError, match="Ending"):
        connect(home)
    with connect_or_start(home, environ(), command=STAND_IN) as link:
        assert link.pid != os.getpid()


def test_a_command_that_is_not_there_is_named(home):
    with pytest.raises(LinkError, match=r"No such file.*/nowhere.*taskmem status"):
        connect_or_start(home, {}, command=["/nowhere"])


def test_a_home_that_cannot_be_used_is_named(home):
    home.folder.write_text("")
    with pytest.raises(LinkError, match="Set TASKMEM_HOME") as raised:
        connect_or_start(home, {}, command=["/nowhere"])
    assert raised.value.name == "settings_invalid"


def test_a_daemon_that_ended_leaves_no_zombie(home, stand_in, children):
    with connect_or_start(home, environ(), command=STAND_IN) as link:
        link.socket.sendall(json.dumps({"method": "stop"}).encode() + b"\n")
        assert link.socket.recv(1) == b""
    for reaper in threading.enumerate():
        if reaper.name == "daemon-reaper":
            reaper.join(PATIENCE)
    assert children[0].returncode == 0


def test_the_socket_of_a_long_home_is_found_too(daemon, tmp_path):
    aside = Home(tmp_path / ("x" * 120), tmp_path / "aside" / "daemon.sock")
    if len(str(aside.socket)) > 100:
        pytest.skip("the temporary folder is itself too long for a socket")
    fake = fake_daemon.FakeDaemon(aside)
    with connect(aside) as link:
        assert link.socket.family == socket.AF_UNIX
    fake.die()


def test_a_daemon_in_another_users_home_is_not_reached(home, daemon, monkeypatch):
    daemon()
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(LinkError, match=f"belongs to user {owner}; set TASK") as refused:
        connect_or_start(home, {})
    assert refused.value.name == "settings_invalid"
