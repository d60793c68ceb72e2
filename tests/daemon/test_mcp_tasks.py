"""A wait as a task of MCP: a real daemon, and a client that says what it offers."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from openclaw_taskmem.daemon.mcp import TASKS
from taskmem_claude import CLIENT, SESSION
from tests.support.agents import PROTOCOLS, Lines, RelayedLines
from tests.support.waiting import until

OLDER, NEWER = PROTOCOLS


def open_wait(client: Lines, log: Path) -> dict[str, Any]:
    """Call `smart_wait` for a line in a file."""
    log.touch()
    given = {"target": f"pty:file:{log}", "wake_when": '"Build finished" appears'}
    return client.ask("tools/call", name="smart_wait", arguments=given)["result"]


def poll(client: Lines, task_id: str) -> dict[str, Any]:
    return client.ask("tasks/get", taskId=task_id)["result"]


def await_end(client: Lines, task_id: str) -> dict[str, Any]:
    """Ask until it works no more."""
    return until(lambda: (told := poll(client, task_id))["status"] != "working" and told, "an end")


def test_a_client_that_offers_tasks_asks_for_the_end(daemon, tmp_path):
    log = tmp_path / "build.log"
    with Lines(daemon.home, protocol=NEWER) as client:
        client.offer(TASKS)
        assert TASKS in client.ask("server/discover")["result"]["capabilities"]["extensions"]
        task = open_wait(client, log)

        assert (task["resultType"], task["status"]) == ("task", "working")
        assert task["ttlMs"] is None
        assert "wake you when" in task["statusMessage"]
        log.write_text("Page 1 of 3\n")

        def find_seen() -> dict[str, Any] | None:
            told = poll(client, task["taskId"])
            return told if "Page 1" in told.get("statusMessage", "") else None

        seen = until(find_seen, "something is seen")
        assert (seen["resultType"], seen["status"]) == ("complete", "working")
        log.write_text("Page 1 of 3\nBuild finished\n")
        ended = await_end(client, task["taskId"])

        assert (ended["resultType"], ended["status"]) == ("complete", "completed")
        [content] = ended["result"]["content"]
        assert content["text"].startswith(f"[system] smart_wait resolved ({task['taskId']}): ")
        [wake] = daemon.ask("wakes", all=True)
        assert (wake["state"], content["text"]) == ("acknowledged", wake["text"])


def test_another_client_is_answered_plainly(daemon, tmp_path):
    cases = ((OLDER, TASKS), (NEWER, "com.example/other"), (NEWER, None))
    for number, (protocol, offered) in enumerate(cases):
        with Lines(daemon.home, protocol=protocol) as client:
            if offered is not None:
                client.offer(offered)
            answer = open_wait(client, tmp_path / f"{number}.log")

        assert answer.get("resultType", "complete") == "complete"
        assert json.loads(answer["content"][0]["text"])["status"] == "watching"


def test_what_is_refused_is_no_task_and_no_task_is_made_up(daemon):
    with Lines(daemon.home, protocol=NEWER) as client:
        client.offer(TASKS)
        given = {"target": "pty:nothing", "wake_when": "it ends"}
        result = client.ask("tools/call", name="smart_wait", arguments=given)["result"]
        assert (result["resultType"], result["isError"]) == ("complete", True)

        for method in ("tasks/get", "tasks/cancel"):
            error = client.ask(method, taskId="wait_unknown")["error"]
            assert error["code"] == -32602
            assert "wait_unknown" in error["message"]


def test_a_cancelled_task_is_a_cancelled_wait(daemon, tmp_path):
    with Lines(daemon.home, protocol=NEWER) as client:
        client.offer(TASKS)
        task_id = open_wait(client, tmp_path / "build.log")["taskId"]

        for _ in range(2):
            acknowledged = client.ask("tasks/cancel", taskId=task_id)["result"]
            assert acknowledged["resultType"] == "complete"

        assert poll(client, task_id)["status"] == "cancelled"
        assert daemon.ask("show", id=task_id)["status"] == "cancelled"


def test_the_task_of_another_client_is_refused(daemon, tmp_path):
    with (
        Lines(daemon.home, protocol=NEWER) as client,
        Lines(daemon.home, "other", protocol=NEWER) as other,
    ):
        client.offer(TASKS)
        task_id = open_wait(client, tmp_path / "build.log")["taskId"]
        for method in ("tasks/get", "tasks/cancel"):
            assert "is a wait of" in other.ask(method, taskId=task_id)["error"]["message"]
        assert poll(client, task_id)["status"] == "working"


def test_a_task_outlives_client_relay_and_daemon(daemon, tmp_path):
    log = tmp_path / "build.log"
    with RelayedLines(daemon.home, protocol=NEWER) as client:
        client.offer(TASKS)
        task_id = open_wait(client, log)["taskId"]
        client.kill()
    daemon.kill(signal.SIGKILL)
    log.write_text("Build finished\n")

    with RelayedLines(daemon.home, protocol=NEWER) as later:
        ended = await_end(later, task_id)

    assert "Build finished" in ended["result"]["content"][0]["text"]


def test_a_task_is_told_to_a_client_that_forgets_what_it_offered(daemon, tmp_path):
    log = tmp_path / "build.log"
    with Lines(daemon.home, protocol=NEWER) as client:
        client.offer(TASKS)
        task_id = open_wait(client, log)["taskId"]
        client.can()
        again = open_wait(client, log)
        assert json.loads(again["content"][0]["text"])["wait_id"] == task_id
        asked = client.send("tasks/get", taskId=task_id)
        log.write_text("Build finished\n")
        told = client.hear()

    assert (told["id"], told["result"]["status"]) == (asked, "completed")


def test_a_thousand_polls_at_once_are_all_answered(daemon, tmp_path):
    log = tmp_path / "build.log"
    with Lines(daemon.home, protocol=NEWER) as client:
        client.offer(TASKS)
        task_id = open_wait(client, log)["taskId"]
        asked = {client.send("tasks/get", taskId=task_id) for _ in range(1000)}
        log.write_text("Build finished\n")
        told = [client.hear() for _ in asked]

    assert {each["id"] for each in told} == asked
    assert {each["result"]["status"] for each in told} == {"completed"}


@pytest.mark.parametrize("kind", [Lines, RelayedLines])
def test_metadata_of_a_megabyte_ends_no_session(daemon, kind):
    for protocol in PROTOCOLS:
        with kind(daemon.home, protocol=protocol) as client:
            usual = client._more.get("_meta", {})
            client._more = {"_meta": usual | {"example.com/more": "x" * 1_000_000}}
            assert client.ask("tools/list")["result"]["tools"]
            client._more = {"_meta": usual | {"example.com/more": "x" * 1_100_000}}
            assert "1 MiB" in client.ask("tools/list")["error"]["message"]
            client._more = {"_meta": usual}
            assert client.ask("tools/list")["result"]["tools"]


def test_a_poll_outlives_its_daemon(daemon, tmp_path):
    log = tmp_path / "build.log"
    with RelayedLines(daemon.home, protocol=NEWER) as client:
        client.offer(TASKS)
        asked = client.send("tasks/get", taskId=open_wait(client, log)["taskId"])
        daemon.kill(signal.SIGKILL)
        log.write_text("Build finished\n")
        told = client.hear()

    assert (told["id"], told["result"]["status"]) == (asked, "completed")


def test_no_other_session_of_its_host_hears_of_a_wait(daemon, tmp_path):
    log = tmp_path / "build.log"
    own, others = {SESSION: "s-1"}, {SESSION: "s-2"}
    with (
        RelayedLines(daemon.home, CLIENT, NEWER, TASKS, **own) as client,
        RelayedLines(daemon.home, CLIENT, NEWER, TASKS, **others) as other,
    ):
        task_id = open_wait(client, log)["taskId"]
        refused = other.ask("tasks/get", taskId=task_id)["error"]
        log.write_text("Build finished\n")

        assert "is a wait of" in refused["message"]
        assert await_end(client, task_id)["status"] == "completed"
