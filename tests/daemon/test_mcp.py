"""Agents over MCP: a real `taskmem mcp`, and the official SDK's client before it."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from unittest.mock import create_autospec

import pytest

from openclaw_taskmem.daemon.mcp import MOST_BYTES, SdkUnavailable, refuse_host
from taskmem_program import OWN_PROGRAM
from tests.support.agents import PROTOCOLS, Lines, RelayedLines, agent, parse_result
from tests.support.daemons import await_ended, environment, holder, lock_database, rows
from tests.support.waiting import PATIENCE, until

DEFAULT = [
    "task_register",
    "task_update",
    "task_plan_update",
    "task_list",
    "smart_wait",
    "wait_update",
    "wait_cancel",
    "memory_recall",
]
"""The tools of the default profile, in the order in which a model meets them."""
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "host", "version": "1"},
}
CALL = b'"jsonrpc":"2.0","id":7,"method":"tools/call","params":'
ODD_LINES = [
    b'{"id":7,"method":"tools/list"}',
    b'{"jsonrpc":"1.0","id":7,"method":"tools/list"}',
    b'\xef\xbb\xbf{"jsonrpc":"2.0","id":7,"method":"tools/list"}',
    b'{"jsonrpc":"2.0","id":7,"method":5}',
    b'{"jsonrpc":"2.0","id":7.0,"method":"tools/list","params":[]}',
    b'{"jsonrpc":"2.0","id":7,"method":"tools/list","params":[1]}',
    b'{"jsonrpc":"2.0","id":7,"method":"no/method"}',
    b'{"jsonrpc":"2.0","id":7}',
    b"{" + CALL + b'{"name":"task_list","arguments":{"limit":' + b"9" * 5000 + b"}}}",
    b"{" + CALL + b'{"name":"task_list","arguments":{"limit":1e999}}}',
    b"{" + CALL + b'{"name":"task_list","arguments":{"status":"a\x00b"}}}',
    b"{" + CALL + b'{"name":"task_list","arguments":{"status":"\\udc00"}}}',
    b"{" + CALL + b'{"name":"task_list","arguments":' + b"[" * 200_000 + b"]" * 200_000 + b"}}",
    b"{" + CALL + b'{"name":"task_list","arguments":{"status":[' + b"0," * 200_000 + b"0]}}}",
    b"{" + CALL + b'{"name":"task_list","arguments":"active"}}',
    b"{" + CALL + b'{"name":["task_list"]}}',
    b"{" + CALL + b'{"name":"task_list","arguments":{"status":"x"}',
]
"""Requests with the id 7 that are not as the protocol asks."""
UNNAMED_LINES = [
    b'{"jsonrpc":"2.0","id":%s,"method":"tools/list"}' % text
    for text in (b"1e999", b"NaN", b"01", b'"\\q"', b'"\xff', b"[7]", b"null")
]
"""Requests whose id is none."""
both_protocols = pytest.mark.parametrize("protocol", PROTOCOLS)
ROOM = 8 * 1024
"""Bytes that the default profile may take of every session."""


def compact(tool):
    document = {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": tool.input_schema,
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_official_client_connects_and_is_told_how_to_use_it(daemon, mode):
    async with agent(daemon.home, mode) as client:
        assert client.server_info.name == "taskmem"
        assert "[task_stuck_resume]" in client.instructions
        assert "wakes you" not in client.instructions
        assert (await client.call_tool("task_list", {})).is_error is False


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_task_is_of_the_host_that_its_client_names(daemon, mode):
    given = {"name": "Deploy", "plan": ["Build"]}
    async with agent(daemon.home, mode) as client:
        made = parse_result(await client.call_tool("task_register", given))
    assert daemon.ask("show", id=made["task_id"])["host"] == "mcp:mcp"


async def test_the_tools_are_listed_small_and_with_their_schemas(daemon):
    async with agent(daemon.home) as client:
        tools = (await client.list_tools()).tools
    names = [tool.name for tool in tools]
    assert names == DEFAULT
    for tool in tools:
        assert tool.description
        assert tool.output_schema is None
        schema = tool.input_schema
        assert schema["type"] == "object"
        assert "session_key" in schema["properties"]
        assert set(schema.get("required", ())) <= set(schema["properties"])
    assert sum(len(compact(tool).encode()) for tool in tools) < ROOM


@pytest.mark.parametrize(
    ("profile", "claims"), [("runs", True), ("default", False), ("most", False)]
)
async def test_a_host_is_offered_what_its_own_environment_asks(daemon, profile, claims):
    async with agent(daemon.home, TASKMEM_TOOLS=profile) as client:
        tools = (await client.list_tools()).tools
    assert ("task_claim" in {tool.name for tool in tools}) is claims


async def test_what_an_agent_is_shown_is_what_the_command_shows(daemon):
    async with agent(daemon.home) as client:
        tools = (await client.list_tools()).tools
    shown = [
        {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
        for tool in tools
    ]
    assert daemon.ask("tools") == shown


async def test_an_agent_registers_narrates_revises_asks_and_ends(daemon):
    async with agent(daemon.home) as client:

        async def call(tool, **arguments):
            result = await client.call_tool(tool, arguments)
            assert result.is_error is False, parse_result(result)
            assert len(result.content) == 1
            answer = parse_result(result)
            assert answer["message"]
            return answer

        made = await call(
            "task_register",
            name="Deploy",
            plan=["Build", "Push", "Check"],
            metadata={"branch": "main"},
            session_key="thread-1",
        )
        task_id = made["task_id"]
        assert made["status"] == "active"
        assert made["plan"] == ["Build", "Push", "Check"]

        noted = await call("task_update", task_id=task_id, message="Step 1 done.")
        assert noted["acknowledged"] is True
        assert noted["message_count"] == 1
        assert noted["plan_progress"] == {
            "completed": [1],
            "current": 2,
            "remaining": [3],
            "pct": 33,
        }

        revised = await call(
            "task_plan_update",
            task_id=task_id,
            new_plan=["Build", "Sign", "Push", "Check"],
            reason="It has to be signed.",
        )
        assert revised["plan_progress"]["completed"] == [1]
        assert revised["dropped_steps"] == []

        asked = await call("task_update", task_id=task_id, query="Where am I?")
        assert "acknowledged" not in asked
        assert asked["plan_progress"]["current"] == 2
        assert "Sign" in asked["summary"]
        assert asked["last_update"]

        ended = await call("task_update", task_id=task_id, status="completed")
        assert ended["status"] == "completed"
        listed = await call("task_list", status="completed")
        assert [task["task_id"] for task in listed["tasks"]] == [task_id]
        assert (await call("task_list"))["tasks"] == []

        recalled = await call("memory_recall", query="zebra")
        assert recalled["results"] == []
        assert "0 matches" in recalled["message"]
    shown = daemon.ask("show", id=task_id)
    assert shown["session_key"] == "thread-1"
    assert shown["metadata"]["branch"] == "main"
    assert [(m["role"], m["msg_type"]) for m in shown["messages"]] == [
        ("agent", "progress"),
        ("system", "plan"),
        ("system", "lifecycle"),
    ]


async def test_an_agent_starts_the_daemon_when_none_runs(home):
    async with agent(home) as client:
        made = parse_result(
            await client.call_tool("task_register", {"name": "First", "plan": ["Do"]})
        )
        assert holder(home)
    assert rows(home, "SELECT task_id FROM tasks") == [(made["task_id"],)]


def test_many_relays_that_start_at_once_are_all_served(home):
    started = [
        subprocess.Popen(
            [*OWN_PROGRAM, "mcp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(home),
        )
        for _ in range(30)
    ]
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
    line = json.dumps(asked).encode() + b"\n"

    with ThreadPoolExecutor(len(started)) as pool:
        heard = [*pool.map(lambda relay: _first_answer(relay, line), started)]

    for relay in started:
        relay.communicate()
    assert [answer["result"]["serverInfo"]["name"] for answer in heard] == (
        ["taskmem"] * len(started)
    )


def _first_answer(relay, line):
    relay.stdin.write(line)
    relay.stdin.flush()
    return json.loads(relay.stdout.readline())


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_an_agent_goes_on_after_the_daemon_was_killed(daemon, mode):
    async with agent(daemon.home, mode) as client:
        made = parse_result(
            await client.call_tool("task_register", {"name": "Kept", "plan": ["Do"]})
        )
        daemon.kill(signal.SIGKILL)
        seen = parse_result(await client.call_tool("task_list", {}))
        assert [task["task_id"] for task in seen["tasks"]] == [made["task_id"]]
        assert holder(daemon.home) != daemon.process.pid


def test_each_odd_request_of_a_host_is_answered_once(daemon):
    odd_lines = dict(enumerate(ODD_LINES, 100))
    odd_text = '{"jsonrpc":"2.0","id":"\\ud800x\\u0001","method":"ping"}'
    lines = [line.replace(b"7", b"%d" % number, 1) for number, line in odd_lines.items()]
    call = {"jsonrpc": "2.0", "id": 99, "method": "tools/list"}

    ended = subprocess.run(
        [*OWN_PROGRAM, "mcp"],
        input=b"\n".join(
            [
                *UNNAMED_LINES,
                *lines,
                odd_text.encode(),
                b" " * 300_000,
                json.dumps([call, call | {"id": 98}]).encode(),
            ]
        ),
        capture_output=True,
        env=environment(daemon.home),
        timeout=PATIENCE,
        check=True,
    )

    ids = [json.loads(line, parse_constant=int)["id"] for line in ended.stdout.splitlines()]
    expected = [98, 99, *odd_lines, json.loads(odd_text)["id"], *([None] * len(UNNAMED_LINES))]
    assert Counter(ids) == Counter(expected)
    assert ended.returncode == 0
    assert "Traceback" not in daemon.log.text


async def refuse(reader, writer):
    lacks = SdkUnavailable(ImportError("no mcp"))
    await refuse_host(reader, writer, lacks, take_answer=lambda _: False)


async def test_without_the_sdk_a_long_blank_line_ends_nothing():
    reader = asyncio.StreamReader(limit=MOST_BYTES)
    reader.feed_data(b" " * 300_000 + b'\n{"id":2,"method":"ping"}\n')
    reader.feed_eof()
    writer = create_autospec(asyncio.StreamWriter, instance=True)

    await refuse(reader, writer)

    [answer] = [json.loads(call.args[0]) for call in writer.write.call_args_list]
    assert (answer["id"], "its SDK did not load" in answer["error"]["message"]) == (2, True)


async def test_refusals_that_nobody_reads_take_no_memory():
    reader = asyncio.StreamReader(limit=MOST_BYTES)
    reader.feed_data(b"[]\n" * 1000 + b'{"id":7,"method":5}' + b" " * MOST_BYTES + b"\n")
    reader.feed_eof()
    writer = create_autospec(asyncio.StreamWriter, instance=True)
    waiting, read = asyncio.Event(), asyncio.Event()

    async def drain():
        waiting.set()
        await read.wait()

    writer.drain.side_effect = drain
    serving = asyncio.create_task(refuse(reader, writer))
    await asyncio.wait(
        {serving, asyncio.create_task(waiting.wait())}, return_when="FIRST_COMPLETED"
    )
    unread = writer.write.call_count
    read.set()
    await serving

    assert unread == 1
    assert writer.write.call_count == writer.drain.await_count == 1001


@both_protocols
def test_stopping_daemon_answers_a_running_call_of_an_agent(daemon, protocol):
    task_id = daemon.register()
    with Lines(daemon.home, protocol=protocol) as lines:
        with lock_database(daemon.home):
            arguments = {"task_id": task_id, "message": "The last word."}
            number = lines.send("tools/call", name="task_update", arguments=arguments)
            # It reads in order: once this one is answered, the other runs.
            assert lines.ask("tools/list")["result"]["tools"]
            daemon.process.send_signal(signal.SIGTERM)
            until(lambda: not daemon.home.socket.exists(), "it takes nobody in")
        answer = lines.hear()
        assert answer["id"] == number
        assert json.loads(answer["result"]["content"][0]["text"])["acknowledged"]
    assert daemon.wait() == 0


@both_protocols
def test_calls_that_an_agent_makes_at_once_are_all_answered(daemon, protocol):
    task_id = daemon.register()
    with Lines(daemon.home, protocol=protocol) as lines:
        numbers = {
            lines.send(
                "tools/call",
                name="task_update",
                arguments={"task_id": task_id, "message": f"Word {number}."},
            )
            for number in range(100)
        }
        answers = [lines.hear() for _ in numbers]
    assert {answer["id"] for answer in answers} == numbers
    assert not any(answer["result"].get("isError") for answer in answers)
    with closing(sqlite3.connect(daemon.home.database)) as database:
        found = database.execute("SELECT content FROM task_messages").fetchall()
    assert sorted(found) == sorted((f"Word {number}.",) for number in range(100))


async def test_plain_host_proves_files_in_its_start_folder(daemon, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    async with agent(daemon.home, cwd=project) as client:
        given = {"name": "Report", "plan": ["Write report.md"]}
        task = parse_result(await client.call_tool("task_register", given))["task_id"]
        (project / "report.md").write_text("All is well.")
        given = {"task_id": task, "status": "completed", "artifacts": ["report.md"]}
        answer = parse_result(await client.call_tool("task_update", given))
    assert answer["status"] == "completed"
    [made] = answer["made"]
    assert made["path"] == str(project / "report.md")
    assert (made["change"], made["verdict"]) == ("created", "proved")
    assert answer["unverified"] == []


def claims(role, **given):
    """Claim as a builder; return the answer, which is no refusal."""
    failed, answer = role.call("task_claim", {"role": "builder", **given})
    assert not failed, answer
    return answer


@both_protocols
def test_a_killed_role_comes_back_and_claims_its_work_at_once(daemon, protocol):
    task = daemon.register()
    with (
        RelayedLines(daemon.home, protocol=protocol) as before,
        RelayedLines(daemon.home, protocol=protocol) as again,
    ):
        token = claims(before, task_id=task)["token"]
        before.call("task_update", {"task_id": task, "message": "Built, not pushed."})
        before.kill()

        answer = claims(again)

    assert (answer["task_id"], answer["token"]) == (task, token + 1)
    assert 'the last note is "Built, not pushed."' in answer["message"]


@both_protocols
def test_what_a_killed_role_held_is_queued_unasked(daemon, protocol):
    task = daemon.register()
    with RelayedLines(daemon.home, protocol=protocol) as role:
        claims(role, task_id=task)
        role.kill()

        until(lambda: run_of(daemon, task)["state"] == "queued", "it is queued")

    assert run_of(daemon, task)["why"] == "owner_gone"


@both_protocols
def test_who_waits_for_a_queue_is_woken_when_a_holder_is_killed(daemon, protocol):
    task = daemon.register(role="builder")
    with (
        RelayedLines(daemon.home, protocol=protocol) as role,
        RelayedLines(daemon.home, protocol=protocol) as other,
    ):
        assert claims(role)["task_id"] == task
        failed, wait = other.call("smart_wait", {"target": "queue:builder"})
        assert not failed, wait
        role.kill()

        told = await_ended(daemon, wait["wait_id"])

    assert (told["status"], task in told["last_observation"]) == ("resolved", True)


def run_of(daemon, task):
    [run] = [run for run in daemon.ask("runs") if run["task_id"] == task]
    return run


OF_A_GATEWAY = ("OpenClaw", "wake you", "are woken", "end your turn", "task_background")
"""What is untrue, or of no use, where no gateway is."""


def test_no_answer_to_a_plain_host_speaks_of_a_gateway(start, tmp_path):
    daemon = start(TASKMEM_WAKE_TRANSPORT="auto")
    log = tmp_path / "build.log"
    log.write_text("Building.\n")
    with Lines(daemon.home, "claude-code") as host:

        def call(tool, **given):
            _, answer = host.call(tool, given)
            said.append(json.dumps(answer))
            return answer

        said: list[str] = []
        task = call("task_register", name="Build", plan=["Write a.md", "Ask"])["task_id"]
        call("task_update", task_id=task, message="Looked.", completed_steps=[1])
        call("task_update", task_id=task, query="where am I?")
        call("task_plan_update", task_id=task, new_plan=["Write a.md"], reason="Less.")
        wait = call("smart_wait", target=f"pty:file:{log}", wake_when="/done/ appears")
        call("wait_update", wait_id=wait["wait_id"], timeout=60)
        call("wait_cancel", wait_id=wait["wait_id"])
        call("task_update", task_id=task, ask="Which colour?")
        call("task_resume", task_id=task, answer="Red.")
        call("task_claim", task_id=task)
        call("task_handoff", task_id=task)
        call("task_update", task_id=task, status="completed")
        call("task_status", task_id=task)
        call("task_resume", task_id=task, answer="Fine.")
        call("task_update", task_id=task, status="completed")
        call("task_update", task_id=task, status="completed")
        other = call("task_register", name="Test", plan=["Go"], role="tester")
        call("task_cancel", task_id=other["task_id"])
        assert call("task_list", status="completed")["tasks"]

    assert [(words, each) for each in said for words in OF_A_GATEWAY if words in each] == []


def test_agent_waits_only_on_files_in_roots_and_its_folder(start, tmp_path):
    (tmp_path / "roots").mkdir()
    log = tmp_path / "build.log"
    log.write_text("Building.\n")
    inside = tmp_path / "roots" / "build.log"
    inside.write_text("Building.\n")
    daemon = start(TASKMEM_ARTIFACT_ROOTS=str(tmp_path / "roots"))
    with Lines(daemon.home, "claude-code") as host:

        def wait(path):
            given = {"target": f"pty:file:{path}", "wake_when": "/done/ appears"}
            return host.call("smart_wait", given)[1]

        for path in (log, tmp_path / "missing.log", "/etc/hostname"):
            answer = wait(path)
            assert answer["error"] == "not_allowed"
            assert "outside of where you may look" in answer["message"]
            assert "build.log" not in answer["message"].replace(str(path), "")
        assert wait(inside)["status"] == "watching"
        (tmp_path / "roots" / "link.log").symlink_to(log)
        assert wait(tmp_path / "roots" / "link.log")["error"] == "not_allowed"
    given = {"target": f"pty:file:{log}", "wake_when": "/done/ appears"}
    assert daemon.call("smart_wait", **given)["status"] == "watching"


@pytest.mark.parametrize("ended", [True, False])
def test_a_key_without_its_first_line_is_not_in_the_answer(daemon, tmp_path, ended):
    log, line = tmp_path / "build.log", "aB1x" * 16
    end = "-----END PRI" + "VATE KEY-----\n"
    log.write_text(f"{line}\n" * 200 + (f"{line[:20]}=\n{end}built\n" if ended else ""))
    given = {"target": f"pty:file:{log}", "wake_when": "/done/ appears"}
    message = daemon.call("smart_wait", **given)["message"]
    assert "[secret removed]" in message
    assert "aB1x" not in message
    assert ("built" in message) is ended


def test_a_wait_keeps_to_its_folders_after_a_restart(start, tmp_path):
    (tmp_path / "roots").mkdir()
    inside, diary = tmp_path / "roots" / "build.log", tmp_path / "diary"
    for path in (inside, diary):
        path.write_text("Dear diary.\n")
    daemon = start(TASKMEM_ARTIFACT_ROOTS=str(tmp_path / "roots"))
    given = {"target": f"pty:file:{inside}", "wake_when": "/diary/ appears"}
    with Lines(daemon.home, "claude-code") as host:
        wait_id = host.call("smart_wait", given)[1]["wait_id"]
    daemon.stop()
    inside.unlink()
    inside.symlink_to(diary)
    daemon.restart()
    until(lambda: daemon.ask("show", id=wait_id)["status"] == "error", "it ends")
    seen = daemon.ask("show", id=wait_id)["last_observation"]
    assert "outside of where you may look" in seen
