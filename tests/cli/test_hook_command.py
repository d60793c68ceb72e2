"""`taskmem hook` as hosts run it: a process of its own, which never fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from openclaw_taskmem.cli import hook
from tests.cli.test_mcp_command import NOT_FOR_THE_RELAY
from tests.support.waiting import PATIENCE

EVENT = b'{"hook_event_name": "SessionStart", "session_id": "s-1", "source": "compact"}'


@pytest.fixture
def run(home):
    """Runs the command; gives its exit status, and what it wrote to stdout and stderr."""

    def call(event=EVENT, *command):
        done = subprocess.run(
            command or [sys.executable, "-m", "openclaw_taskmem", "hook"],
            input=event,
            env={**os.environ, "TASKMEM_HOME": str(home.folder)},
            capture_output=True,
            check=False,
        )
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    return call


def make_answerer(result):
    def behave(connection, document):
        connection.say({"id": document["id"], **result})

    return behave


def test_the_daemon_gets_the_event_and_its_answer_is_printed(run, daemon):
    made = daemon(behaviour=make_answerer({"result": {"told": "é"}}))
    status, printed, complaint = run()
    assert (status, json.loads(printed), complaint) == (0, {"told": "é"}, "")
    assert made.heard.get(timeout=1)["params"] == {"event": json.loads(EVENT)}


def test_a_long_tool_call_is_passed_on_shortened(run, daemon):
    made = daemon(behaviour=make_answerer({"result": None}))
    response = {"stdout": "x" * 2_000_000, "deep": [[[["x"]]]], "many": [0] * 10_000, "ok": True}
    event = {"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_response": response}
    assert run(json.dumps(event).encode()) == (0, "", "")
    passed = made.heard.get(timeout=1)["params"]["event"]
    assert passed["tool_name"] == "Bash"
    assert set(passed["tool_response"]["stdout"]) == {"x"}
    assert passed["tool_response"]["deep"] == [[None]]
    assert passed["tool_response"]["ok"] is True
    assert len(json.dumps(passed)) < 20_000


@pytest.mark.parametrize("lines", ["+x\n" * 9_000, f"+{'x' * 20_000}\n"])
def test_every_file_of_a_long_patch_is_passed_on(run, daemon, lines):
    made = daemon(behaviour=make_answerer({"result": None}))
    names = [f"*** {what} File: {what}.txt" for what in ("Add", "Update", "Delete")]
    patch = lines.join(f"{name}\n" for name in names)
    event = {"hook_event_name": "PostToolUse", "tool_name": "apply_patch"}
    assert run(json.dumps({**event, "tool_input": {"command": patch}}).encode()) == (0, "", "")
    passed = made.heard.get(timeout=1)["params"]["event"]["tool_input"]["command"]
    assert passed.splitlines() == names


def test_a_call_of_many_long_texts_is_short_enough(run, daemon):
    made = daemon(behaviour=make_answerer({"result": None}))
    blocks = [{"type": "text", "text": "\u00e9" * 10_000}] * 50
    event = {"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_response": blocks}
    assert run(json.dumps(event).encode()) == (0, "", "")
    assert len(made.heard.get(timeout=1)["params"]["event"]["tool_response"]) == 50


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_host_that_never_closes_the_pipe_is_not_waited_for(home, daemon, monkeypatch, is_whole):
    made = daemon(behaviour=make_answerer({"result": None}))
    wrap = "import sys; from openclaw_taskmem.cli import hook, main; hook.READ_SECONDS = 0.2;"
    process = subprocess.Popen(
        [sys.executable, "-c", f"{wrap} sys.exit(main._run(['hook']))"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TASKMEM_HOME": str(home.folder)},
    )
    process.stdin.write(EVENT if is_whole else EVENT[:-1])
    process.stdin.flush()
    assert process.wait(PATIENCE) == 0
    complaint = process.stderr.read().decode()
    process.stdin.close()
    process.stderr.close()
    assert ("the host's event cannot be read" in complaint) is not is_whole
    assert made.heard.empty() is not is_whole


def test_no_answer_is_no_output(run, daemon):
    daemon(behaviour=make_answerer({"result": None}))
    assert run() == (0, "", "")


def test_without_a_daemon_it_starts_none_and_says_nothing(run, home):
    assert run() == (0, "", "")
    assert not home.folder.exists()


def test_a_socket_that_a_killed_daemon_left_is_one_line(run, daemon, home):
    daemon().die()
    home.socket.touch()
    status, printed, complaint = run()
    assert (status, printed, complaint.count("\n")) == (0, "", 1)


@pytest.mark.parametrize("kind", ["SessionStart", "UserPromptSubmit", "Stop"])
def test_what_a_killed_daemon_missed_it_is_told_later(run, daemon, home, kind):
    daemon().die()
    home.socket.touch()
    event = {"hook_event_name": kind, "session_id": "s-1", "stop_hook_active": False}
    assert run(json.dumps(event).encode())[:2] == (0, "")
    home.socket.unlink()
    made = daemon(behaviour=make_answerer({"result": {"decision": "block"}}))
    late = made.heard.get(timeout=PATIENCE)["params"]["event"]
    assert 0 < late.pop("seconds_late") < hook.LATE_SECONDS
    assert late == {**event, "stop_hook_active": None}


@pytest.mark.parametrize(
    ("fork", "said"),
    [("print(signal.getitimer(0)[0]) or 1", "0.0\n"), ("os.listdir('/nowhere')", "")],
    ids=["no timer is left", "no process is to be had"],
)
def test_what_is_told_later_harms_no_hook(run, daemon, home, fork, said):
    daemon().die()
    home.socket.touch()
    code = (
        "import os, signal, sys; sys.argv = ['taskmem', 'hook']\n"
        f"os.fork = lambda: {fork}\n"
        "from openclaw_taskmem.cli.main import main\n"
        "main()\n"
    )
    status, printed, complaint = run(EVENT, sys.executable, "-c", code)
    assert (status, printed, complaint.count("\n")) == (0, said, 1)


def test_a_server_of_another_kind_is_one_line(run, daemon):
    daemon(opening={"taskmem": 1})
    status, printed, complaint = run()
    assert (status, printed, complaint.count("\n")) == (0, "", 1)


def test_a_daemon_that_hangs_is_given_up_in_time(run, daemon):
    daemon(behaviour=lambda *_: None)
    complaint = f"taskmem hook: the daemon did not answer within {hook.LIMIT_SECONDS:g} s.\n"
    assert run() == (0, "", complaint)


@pytest.mark.parametrize(
    "event", [b"", b"{", b"\xff", b"[" * 100_000, b'{"prompt": "%s"}' % (b"x" * 2_000_000)]
)
def test_what_it_cannot_pass_on_is_one_line(run, daemon, event):
    daemon(behaviour=make_answerer({"result": None}))
    status, printed, complaint = run(event)
    assert (status, printed, complaint.count("\n")) == (0, "", 1)
    assert complaint.startswith("taskmem hook: ")


def test_a_refusal_is_one_line(run, daemon):
    daemon(
        behaviour=make_answerer({"error": {"error": "unknown_tool", "message": "It is\nolder."}})
    )
    assert run() == (0, "", "taskmem hook: It is older.\n")


def test_it_imports_nothing_heavy(run, daemon):
    daemon(behaviour=make_answerer({"result": None}))
    code = (
        "import sys; sys.argv = ['taskmem', 'hook']\n"
        "from openclaw_taskmem.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: print(*sys.modules, file=sys.stderr)\n"
    )
    _, _, modules = run(EVENT, sys.executable, "-c", code)
    loaded = {name.partition(".")[0] for name in modules.split()}
    assert "openclaw_taskmem" in loaded
    assert "taskmem_hookspecs" not in loaded
    assert loaded & NOT_FOR_THE_RELAY == set()
