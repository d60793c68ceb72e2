"""Work is handed off between two MCP hosts, with a person at a terminal, and no OpenClaw."""

from __future__ import annotations

import asyncio
import json
import os
import signal

import pytest

from openclaw_taskmem.daemon.processes import is_alive
from tests.support.agents import agent, parse_result
from tests.support.daemons import command
from tests.support.waiting import until

AUTO = {"TASKMEM_WAKE_TRANSPORT": "auto"}
REPORT = {"name": "Write report", "plan": ["Draft it", "Check it"], "role": "writer"}


@pytest.fixture
def daemon(start, openclaw):
    """A daemon that may wake anybody, on a machine without OpenClaw."""
    return start(**AUTO, TASKMEM_OPENCLAW_BIN=str(openclaw.binary))


def host(home, name):
    """A host of that name, whose agent is offered the tools for hand-offs."""
    return agent(home, client=name, TASKMEM_TOOLS="runs", **AUTO)


async def call(client, tool, **given):
    result = await client.call_tool(tool, given)
    assert result.is_error is False, parse_result(result)
    return parse_result(result)


async def refusal(client, tool, **given):
    result = await client.call_tool(tool, given)
    assert result.is_error is True, parse_result(result)
    return parse_result(result)["message"]


def person(home, tool, **given):
    """What a person at a terminal is answered."""
    status, said, complained = command(home, "call", tool, json.dumps(given), **AUTO)
    assert status == 0, complained
    return json.loads(said)


def read_list(home):
    status, said, complained = command(home, "list", **AUTO)
    assert status == 0, complained
    return said


async def review(client):
    """The writer's work, up to the user's review; return the task's id."""
    claimed = await call(client, "task_claim", role="writer")
    given = {"task_id": claimed["task_id"], "token": claimed["token"]}
    await call(client, "task_update", **given, completed_steps=[1, 2], message="Done.")
    await call(client, "task_handoff", **given, to="user", note="Please read.")
    return claimed["task_id"]


async def test_a_role_waits_for_its_queue_and_claims_what_comes(daemon):
    async with host(daemon.home, "claude-code") as plans, host(daemon.home, "codex") as writes:
        wait = await call(
            writes, "smart_wait", target="queue:writer", wake_when="a task is queued", timeout=600
        )
        assert wait["command"].endswith(f"wait {wait['wait_id']}")
        waits = ("wait", wait["wait_id"])
        waiting = asyncio.create_task(asyncio.to_thread(command, daemon.home, *waits, **AUTO))
        made = await call(plans, "task_register", **REPORT)
        status, said, _ = await waiting
        assert status == 0
        assert made["task_id"] in said
        claimed = await call(writes, "task_claim", role="writer")
        assert claimed["task_id"] == made["task_id"]
        # Whoever has registered it no longer writes for it.
        assert "held by writer" in await refusal(
            plans, "task_update", task_id=made["task_id"], status="completed"
        )


async def test_what_is_sent_back_comes_with_the_users_words(daemon):
    async with host(daemon.home, "claude-code") as plans:
        await call(plans, "task_register", **REPORT)
        async with host(daemon.home, "codex") as writes:
            task = await review(writes)
            assert "review" in read_list(daemon.home)

            words = "Section 2 is wrong."
            person(daemon.home, "task_update", task_id=task, status="active", message=words)
            again = await call(writes, "task_claim", role="writer")
            assert again["task_id"] == task
            assert again["user_said"] == [words]
            assert "sent it back" in again["message"]
            assert 'status "completed"' not in again["message"]

            # Once more for review, and accepted.
            given = {"task_id": task, "token": again["token"]}
            await call(writes, "task_handoff", **given, to="user")
            done = person(daemon.home, "task_update", task_id=task, status="completed")
            assert done["status"] == "completed"
            assert "review" not in read_list(daemon.home)
    thread = daemon.ask("show", id=task)["messages"]
    assert [m["content"] for m in thread if m["role"] == "user"] == [words]


async def test_what_nobody_claims_stands_in_the_list(daemon):
    async with host(daemon.home, "claude-code") as plans:
        await call(plans, "task_register", **REPORT)
        rows = read_list(daemon.home).splitlines()
        [line] = [row for row in rows if REPORT["name"] in row]
        assert "writer" in line


async def test_a_role_that_was_killed_claims_its_work_again_at_once(daemon):
    async with host(daemon.home, "claude-code") as plans:
        made = await call(plans, "task_register", **REPORT)
        async with host(daemon.home, "codex") as writes:
            first = await call(writes, "task_claim", role="writer")
            async with host(daemon.home, "codex") as other:
                assert "Nothing is queued" in await refusal(other, "task_claim", role="writer")
            [run] = daemon.ask("runs", task_id=made["task_id"])
            process = run["owner"]["process"]
            os.kill(int(process.split(":")[0]), signal.SIGKILL)
            until(lambda: is_alive(process) is False, "the relay has ended")
        async with host(daemon.home, "codex") as writes:
            again = await call(writes, "task_claim", role="writer")
            assert again["task_id"] == made["task_id"]
            assert again["token"] > first["token"]
