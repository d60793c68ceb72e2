"""What the daemon keeps of the tool calls that the hooks of Claude Code and Codex report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openclaw_taskmem.engine import run_history
from openclaw_taskmem.tools import views
from taskmem_claude import CLIENT, SESSION
from taskmem_hookspecs import Checkpoint
from tests.daemon.test_host_hooks import answer, register
from tests.support.agents import agent, parse_result
from tests.support.daemons import Daemon
from tests.support.gateways import MAIN
from tests.support.world import World


def call(tool: object, given: object, response: object = None, **more: object) -> dict[str, object]:
    event = {"hook_event_name": "PostToolUse", "session_id": MAIN, "tool_name": tool}
    return {**event, "tool_input": given, "tool_response": response, "tool_use_id": "t1", **more}


def run_command(command: str, **more: object) -> dict[str, object]:
    printed = {"stdout": "out", "stderr": "", "interrupted": False}
    return call("Bash", {"command": command}, {**printed, **more}, duration_ms=20)


def fail(tool: str, given: object, error: object, **more: object) -> dict[str, object]:
    event = call(tool, given, error=error, **more)
    return {**event, "hook_event_name": "PostToolUseFailure"}


def read_status(world: World, task_id: str) -> Any:
    return world.call("task_status", task_id=task_id, session_key=MAIN)


PUSH = {"command": "git push"}
MAIL = {"to": "a@example.com"}


@pytest.mark.parametrize(
    ("event", "history", "done", "unknown"),
    [
        (run_command("git push"), ("ok", 0), ["Bash: git push (exit 0)"], []),
        (run_command("ls"), ("ok", 0), [], []),
        (fail("Bash", PUSH, "Exit code 3\nerr"), ("failed", 3), [], ["Bash: git push (exit 3)"]),
        (fail("Bash", PUSH, "No such tool"), ("failed", None), [], ["Bash: git push"]),
        (
            run_command("git push", backgroundTaskId="b1"),
            ("unknown", None),
            ["Bash: git push (how it ended is not known: look)"],
            [],
        ),
        (
            call("Bash", PUSH, "of Codex\n"),
            ("unknown", None),
            ["Bash: git push (how it ended is not known: look)"],
            [],
        ),
        (
            call("mcp__mail__send", MAIL, [{"type": "text", "text": "Sent"}]),
            ("ok", None),
            ['mail__send: {"to": "a@example.com"}'],
            [],
        ),
        (call("mcp__board__task_update", {}), ("ok", None), ["board__task_update: {}"], []),
        (
            call("mcp__mail__send", MAIL, {"content": [], "isError": True}),
            ("failed", None),
            [],
            ['mail__send: {"to": "a@example.com"}'],
        ),
    ],
)
def test_a_call_is_told_with_how_it_ended(
    world: World, event: Any, history: object, done: list[str], unknown: list[str]
):
    task_id = world.register(session_key=MAIN)
    assert answer(world, event) is None
    status = read_status(world, task_id)
    [past] = status["tool_history"]
    assert (past["outcome"], past["exit_code"]) == history
    assert status["do_not_redo"] == done
    assert status["unknown_outcome"] == unknown


@pytest.mark.parametrize(
    "event",
    [
        call("mcp__taskmem__task_update", {"message": "Done"}),
        call("mcp__plugin_taskmem-mcp_taskmem__smart_wait", {"target": "pty:main"}),
        call("Read", {"file_path": "/etc/hosts"}),
        call("mcp__web__request", {"method": "GET", "url": "http://x"}),
        call("Bash", {"command": "ls"}, "of Codex, so that its end is not known"),
    ],
    ids=lambda each: each["tool_name"],
)
def test_own_and_reading_calls_leave_no_trace(world: World, event: Any):
    task_id = world.register(session_key=MAIN)
    answer(world, event)
    assert read_status(world, task_id)["tool_history"] == []
    assert run_history.find_record(world.context, task_id) is None


def transcribe(transcript: Path, *items: object) -> dict[str, object]:
    """Write the transcript of a session in Codex, and return the event of its command."""
    lines = [json.dumps({"payload": {"item": item}}, separators=(",", ":")) for item in items]
    transcript.write_text("".join(f"{line}\n" for line in ("{}", *lines, '{"exit_code":')))
    return call("Bash", PUSH, "of Codex\n", transcript_path=str(transcript))


@pytest.mark.parametrize(
    ("items", "history"),
    [
        ([{"id": "t0", "exit_code": 3}, {"id": "t1", "exit_code": 0}], ("ok", 0)),
        ([{"id": "t1", "exit_code": 3}], ("failed", 3)),
        ([{"id": "t0", "exit_code": 0, "aggregated_output": '"id":"t1"'}], ("unknown", None)),
        ([{"id": "t1", "exit_code": None}], ("unknown", None)),
        ([{"id": "t1", "exit_code": "0"}, ["t1", "exit_code"]], ("unknown", None)),
        ([], ("unknown", None)),
    ],
)
def test_a_command_of_codex_ended_as_its_transcript_says(
    world: World, tmp_path: Path, items: list[object], history: object
):
    task_id = world.register(session_key=MAIN)
    answer(world, transcribe(tmp_path / "transcript.jsonl", *items))
    [past] = read_status(world, task_id)["tool_history"]
    assert (past["outcome"], past["exit_code"]) == history


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [
        ({"secs": 8, "nanos": 500_000_000}, 8.5),
        ({"secs": "8", "nanos": None}, 0),
        ({"secs": 1e300, "nanos": 0}, 0),
        (8, 0),
    ],
)
def test_a_command_of_codex_took_as_long_as_it_says(
    world: World, tmp_path: Path, duration: object, seconds: float
):
    task_id = world.register(session_key=MAIN)
    item = {"id": "t1", "exit_code": 0, "duration": duration}
    answer(world, transcribe(tmp_path / "transcript.jsonl", item))
    record = run_history.find_record(world.context, task_id)
    assert record is not None
    began, ended = world.store.read_records(Checkpoint, record.run_id, 2)
    assert (ended.at - began.at).total_seconds() == seconds


def test_files_that_tools_wrote_are_made(world: World, tmp_path: Path):
    task_id, new, old = world.register(session_key=MAIN), tmp_path / "a.txt", tmp_path / "b.txt"
    new.write_text("new")
    answer(world, call("Write", {"file_path": str(new)}, {"type": "create"}, cwd=str(tmp_path)))
    answer(world, call("Edit", {"file_path": str(old)}, {"originalFile": "x"}))
    answer(world, fail("Write", {"file_path": "/etc/passwd"}, "Permission denied"))
    patch = "*** Add File: c.txt\n+x\n*** Delete File: d.txt\n*** Update File: e\n*** Move to: f"
    answer(world, call("apply_patch", {"command": patch}, "Success", cwd=str(tmp_path)))
    status = read_status(world, task_id)
    made = {Path(each["path"]).name: (each["change"], each["size"]) for each in status["made"]}
    assert made == {
        "a.txt": ("created", 3),
        "b.txt": ("changed", None),
        "c.txt": ("created", None),
        "d.txt": ("removed", None),
        "e": ("removed", None),
        "f": ("created", None),
    }
    assert "apply_patch: c.txt, d.txt, e, f" in status["do_not_redo"]


def test_a_call_belongs_to_the_open_task_of_its_session(world: World):
    other = world.register("Other", session_key="other")
    over = world.register("Over", session_key=MAIN)
    world.call("task_update", task_id=over, session_key=MAIN, status="cancelled", message="Enough")
    answer(world, run_command("git push"))
    assert read_status(world, over)["tool_history"] == []
    task_id = world.register("Now", session_key=MAIN)
    answer(world, run_command("git push"))
    assert len(read_status(world, task_id)["tool_history"]) == 1
    assert run_history.find_record(world.context, other) is None


def test_its_record_is_no_run_to_anybody(world: World):
    task_id = world.register(session_key=MAIN)
    answer(world, run_command("git push"))
    assert run_history.find_last_run(world.context, task_id) is None
    assert run_history.find_last_runs(world.context, [task_id]) == {}
    assert world.context.store.read_task(task_id).run is None
    assert read_status(world, task_id)["run"] is None
    assert views.list_runs(world.context, {"all": True}) == []


def test_records_take_no_place_of_runs_in_a_list(world: World):
    claimed = world.register(session_key="worker")
    world.call("task_claim", task_id=claimed, session_key="worker")
    for number in range(3):
        world.clock.tick(1)
        world.register(f"Later {number}", session_key=MAIN)
        answer(world, run_command(f"git push {number}"))
    listed = views.list_runs(world.context, {"all": True, "limit": 1})
    assert [row["task_id"] for row in listed] == [claimed]  # type: ignore[call-overload,index]


def test_credentials_go_before_a_call_is_stored(world: World):
    task_id, secret = world.register(session_key=MAIN), "ghp_" + 4 * "aB3dE6gH9"
    answer(world, run_command(f"deploy --token {secret}", stdout=f"token={secret}\n{'x' * 9_000}"))
    record = run_history.find_record(world.context, task_id)
    assert record is not None
    rows = world.store.read_records(Checkpoint, record.run_id, 9)
    assert len(rows) == 2
    assert not any(secret in row.body or len(row.body) > 1_000 for row in rows)


@pytest.mark.parametrize(
    "more",
    [
        {"tool_name": 7},
        {"tool_name": None},
        {"tool_input": ["x"]},
        {"tool_input": {"command": 7}},
        {"tool_input": {"command": "x \ud800"}},
        {"tool_input": {"command": "cat /a\0b", "file_path": "/a\0b"}},
        {"tool_input": {"command": "x" * 99_999, "file_path": "/" + 9_000 * "x"}},
        {"tool_response": {"stdout": 7}},
        {"tool_response": [7, {"text": 7}]},
        {"tool_response": None},
        {"tool_use_id": 7},
        {"duration_ms": "long"},
        {"duration_ms": -1},
        {"duration_ms": 1e300},
        {"duration_ms": True},
        {"cwd": "relative"},
        {"cwd": 7},
        {"cwd": "/\0"},
        {"of_a_later_version": {"x": 1}},
    ],
    ids=lambda each: str(each)[:60],
)
def test_fields_of_another_type_break_nothing(world: World, more: dict[str, object]):
    task_id = world.register(session_key=MAIN)
    for event in (run_command("git push"), call("Write", {"file_path": "/x"}), fail("Bash", 7, 7)):
        assert answer(world, {**event, **more}) is None
    assert read_status(world, task_id)["status"] == "active"


async def complete_work(
    daemon: Daemon, work: Path, command: str, cwd: Path, **done: object
) -> dict[str, Any]:
    """Have an agent in a folder make a page by a command in `cwd`, and complete its task."""
    async with agent(daemon.home, "auto", work, client=CLIENT, **{SESSION: "s-1"}) as speaking:
        made = await speaking.call_tool("task_register", {"name": "Build", "plan": ["Build"]})
        (work / "page.html").write_text("<h1>Site</h1>")
        event = {**run_command(command), "session_id": "s-1", "cwd": str(cwd)}
        daemon.ask("hook", event=event)
        ended = {"task_id": parse_result(made)["task_id"], "status": "completed", **done}
        return parse_result(await speaking.call_tool("task_update", ended))


async def test_a_file_made_during_a_command_is_proved(daemon: Daemon, tmp_path: Path):
    work = tmp_path / "work"
    work.mkdir()
    ended = await complete_work(daemon, work, "make site", work, message="Step 1 done")
    [entry] = ended["made"]
    assert (Path(entry["path"]).name, entry["verdict"]) == ("page.html", "proved")
    assert "also_changed" not in ended


async def test_the_folder_of_a_command_is_not_the_agents_own(start: Any, tmp_path: Path):
    work, other = tmp_path / "work", tmp_path / "other"
    for folder in (work, other):
        folder.mkdir()
    daemon = start(TASKMEM_ARTIFACT_ROOTS=str(other))
    ended = await complete_work(daemon, work, "git push", other, message="page.html is there.")
    [entry] = ended["made"]
    assert (entry["path"], entry["verdict"]) == (str(work / "page.html"), "proved")
    assert ended["unverified"] == []


async def test_the_calls_outlive_the_daemon(start: Any):
    daemon = start()
    task_id = await register(daemon, "s-1")
    daemon.ask("hook", event={**run_command("git push"), "session_id": "s-1"})
    daemon.kill()
    daemon = start()
    begun = {"hook_event_name": "SessionStart", "session_id": "s-1", "source": "resume"}
    output = daemon.ask("hook", event=begun)["hookSpecificOutput"]["additionalContext"]
    assert task_id in output
    packet = json.loads(output[output.index("{") :].split("\n")[0])
    assert packet["do_not_redo"] == ["Bash: git push (exit 0)"]


async def test_a_task_that_made_nothing_says_where_was_looked(daemon: Daemon, tmp_path: Path):
    settings = {SESSION: "s-1"}
    async with agent(daemon.home, "auto", tmp_path, client=CLIENT, **settings) as speaking:
        made = await speaking.call_tool("task_register", {"name": "Look", "plan": ["Look"]})
        task_id = parse_result(made)["task_id"]
        event = {**run_command("ls"), "session_id": "s-1", "cwd": str(tmp_path)}
        daemon.ask("hook", event=event)
        done = {"task_id": task_id, "message": "Step 1 done", "status": "completed"}
        ended = parse_result(await speaking.call_tool("task_update", done))
    assert f"Nothing was seen to be written in {tmp_path}" in ended["message"]
