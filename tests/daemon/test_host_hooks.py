"""What the daemon answers to the hooks of Claude Code and Codex."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openclaw_taskmem.daemon import host_hooks
from openclaw_taskmem.engine import overview, wakes
from taskmem_claude import CLIENT, SESSION
from taskmem_hookspecs import WakeState
from tests.support.agents import agent, parse_result
from tests.support.daemons import Daemon
from tests.support.gateways import MAIN
from tests.support.world import World


async def register(daemon: Daemon, session: str) -> str:
    async with agent(daemon.home, "auto", client=CLIENT, **{SESSION: session}) as speaking:
        made = await speaking.call_tool("task_register", {"name": "Deploy", "plan": ["Build"]})
        return parse_result(made)["task_id"]


def start(source: object = "compact", session: object = "s-1") -> dict[str, object]:
    return {"hook_event_name": "SessionStart", "session_id": session, "source": source}


def prompt(text: object, **more: object) -> dict[str, object]:
    return {"hook_event_name": "UserPromptSubmit", "session_id": "s-1", "prompt": text, **more}


def stop(**more: object) -> dict[str, object]:
    event = {"hook_event_name": "Stop", "session_id": MAIN, "stop_hook_active": False}
    return {**event, "background_tasks": [], "session_crons": [], **more}


@pytest.mark.parametrize("source", ["startup", "resume", "compact", "clear", "of a later version"])
def test_a_session_that_starts_has_its_open_task(world: World, source: str):
    task_id = world.register(session_key=MAIN)
    output = answer(world, start(source, MAIN))["hookSpecificOutput"]
    assert output["hookEventName"] == "SessionStart"
    assert output["additionalContext"].startswith("[task_resume] ")
    assert task_id in output["additionalContext"]
    assert answer(world, start(source, "s-2")) is None
    world.call("task_update", task_id=task_id, session_key=MAIN, status="cancelled")
    assert answer(world, start(source, MAIN)) is None


@pytest.mark.parametrize(
    ("more", "state"),
    [
        ({}, WakeState.ACKNOWLEDGED),
        ({"source": "system"}, WakeState.ACKNOWLEDGED),
        ({"source": "user"}, WakeState.SENT),
    ],
)
def test_a_prompt_is_a_receipt_unless_a_person_typed_it(
    world: World, more: dict[str, str], state: WakeState
):
    assert answer(world, prompt(send_end(world), session_id=MAIN, **more)) is None
    assert [wake.state for wake in world.wakes()] == [state]


@pytest.mark.parametrize(
    ("event", "source", "state"),
    [
        (None, "startup", WakeState.DUE),
        (None, "resume", WakeState.DUE),
        (None, "compact", WakeState.ACKNOWLEDGED),
        ("Stop", "resume", WakeState.ACKNOWLEDGED),
        ("PostToolUse", "resume", WakeState.ACKNOWLEDGED),
        ("PostToolUseFailure", "resume", WakeState.ACKNOWLEDGED),
        ("UserPromptSubmit", "resume", WakeState.ACKNOWLEDGED),
    ],
)
def test_a_killed_host_is_told_again_what_no_turn_has_had(
    world: World, event: str | None, source: str, state: WakeState
):
    answer(world, prompt(send_end(world), session_id=MAIN))
    if event is not None:
        answer(world, prompt("Next", session_id=MAIN, hook_event_name=event, source="user"))
    world.clock.tick(1)
    answer(world, {**start(source, MAIN), "seconds_late": 2.0})  # it was before the prompt
    assert [wake.state for wake in world.wakes()] == [WakeState.ACKNOWLEDGED]
    answer(world, start(source, MAIN))
    assert [wake.state for wake in world.wakes()] == [state]


def claude(role: str, text: str, **more: object) -> dict[str, Any]:
    """Build a line of a transcript of Claude Code."""
    message = {"role": role, "content": text, "model": "claude-opus-5-5", "stop_reason": None}
    return {"type": role, "isSidechain": False, "message": {**message, **more}}


def codex_line(**payload: object) -> dict[str, Any]:
    """Build a line of a transcript of Codex."""
    return {"type": "response_item", "payload": {"type": "message", **payload}}


ODD_LINE = {"type": "user", "message": None}
ANSWER = claude("assistant", "Woken.", stop_reason="end_turn")
CUT_ANSWER = claude("assistant", "No answer.", model="<synthetic>", stop_reason="stop_sequence")
QUEUED = {"type": "queue-operation", "operation": "enqueue"}


@pytest.mark.parametrize(
    ("after", "state"),
    [
        ([ANSWER], WakeState.ACKNOWLEDGED),
        ([codex_line(type="task_complete")], WakeState.ACKNOWLEDGED),
        ([ODD_LINE, ANSWER], WakeState.ACKNOWLEDGED),
        ([ANSWER, QUEUED], WakeState.ACKNOWLEDGED),
        ([], WakeState.DUE),
        ([QUEUED, claude("assistant", "I think")], WakeState.DUE),
        ([claude("assistant", "Look", stop_reason="tool_use")], WakeState.DUE),
        ([codex_line(role="assistant")], WakeState.DUE),
        ([{**ANSWER, "isSidechain": True}], WakeState.DUE),
        ([claude("user", '"role":"assistant"')], WakeState.DUE),
        ([CUT_ANSWER], WakeState.DUE),
        ([ANSWER, "message"], WakeState.DUE),
    ],
)
@pytest.mark.parametrize("is_late", [False, True])
def test_what_a_killed_host_had_answered_is_not_told_again(
    world: World,
    tmp_path: Path,
    after: list[dict[str, Any] | str],
    state: WakeState,
    *,
    is_late: bool,
):
    message = send_end(world)
    world.clock.tick(30)
    told = claude("user", f"Look:\n{message}")
    lines: list[Any] = [claude("assistant", "Before.", stop_reason="end_turn"), told]
    for line in after:
        found = told if line == "message" else line
        lines.append({**QUEUED, "content": message} if line is QUEUED else found)
    transcript = tmp_path / "transcript.jsonl"
    transcript.write_text("".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines))
    path = {"transcript_path": str(transcript)}
    taken = prompt(message, session_id=MAIN, **path)
    if is_late:
        answer(world, {**start("resume", MAIN), **path})
        answer(world, {**taken, "seconds_late": 10.0})
    else:
        answer(world, taken)
        answer(world, {**start("resume", MAIN), **path})
    assert [wake.state for wake in world.wakes()] == [state]


BEFORE, AFTER = 20.0, 5.0
"""How late two events are told, of which the prompt that is 10 s late came between."""


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ([], WakeState.DUE),
        ([stop(seconds_late=BEFORE)], WakeState.DUE),
        ([prompt("Next", session_id=MAIN, source="user", seconds_late=BEFORE)], WakeState.DUE),
        ([stop(seconds_late=AFTER)], WakeState.ACKNOWLEDGED),
        ([stop()], WakeState.ACKNOWLEDGED),
    ],
)
@pytest.mark.parametrize("late", [False, True])
def test_events_told_late_count_from_when_they_were(
    world: World, events: list[dict[str, object]], state: WakeState, *, late: bool
):
    text = send_end(world)
    world.clock.tick(30)
    if not late:
        answer(world, prompt(text, session_id=MAIN))
        world.clock.tick(10)
    else:
        answer(world, prompt(text, session_id=MAIN, seconds_late=10.0))
    for event in events:
        answer(world, event)
    answer(world, start("resume", MAIN))
    assert [wake.state for wake in world.wakes()] == [state]


def test_a_cut_turn_is_told_after_its_session_was_opened(world: World):
    text = send_end(world)
    world.clock.tick(30)
    answer(world, start("resume", MAIN))
    answer(world, prompt(text, session_id=MAIN, seconds_late=10.0))
    assert [wake.state for wake in world.wakes()] == [WakeState.DUE]


def send_end(world: World) -> str:
    """Send the end of a wait to a session; return the text."""
    world.end_wait(world.open_wait(world.register(session_key=MAIN)))
    world.clock.tick(1)
    (delivery,) = world.claim()
    wakes.settle_delivered(world.context, delivery, "claude-inbox")
    return delivery.message.text


def answer(world: World, event: dict[str, object]) -> Any:
    return host_hooks.answer_hook(world.context, {"event": event})


def test_an_end_is_refused_once_for_each_state_of_a_task(world: World):
    task_id = world.register(session_key=MAIN)
    refused = answer(world, stop())
    assert refused["decision"] == "block"
    assert refused["reason"].startswith(f"[system] task_continue ({task_id}): ")
    assert answer(world, stop()) is None
    world.call("task_update", task_id=task_id, session_key=MAIN, query="Where am I?")
    assert answer(world, stop()) is None
    world.clock.tick(1)
    world.call("task_update", task_id=task_id, session_key=MAIN, message="Step 1 done")
    assert answer(world, stop(stop_hook_active=True)) is None
    assert answer(world, stop())["decision"] == "block"
    assert answer(world, stop()) is None


def test_a_session_between_turns_is_not_at_work(world: World):
    task_id = world.register(session_key=MAIN)

    def read_line() -> tuple[str, str]:
        line = overview.read_line(world.context, task_id)
        return line.section, line.says

    for event in (prompt("Next", session_id=MAIN), {**stop(), "hook_event_name": "PostToolUse"}):
        assert answer(world, stop(background_tasks=[{"id": "b1"}])) is None
        answer(world, stop())
        assert read_line() == ("at_work", "at work, as last heard")
        assert answer(world, stop(stop_hook_active=True)) is None
        assert read_line() == ("idle", "its agent has ended its turn")
        answer(world, event)
        assert read_line() == ("at_work", "at work, as last heard")
        world.clock.tick(1)
        world.call("task_update", task_id=task_id, session_key=MAIN, message="At it")


def test_of_two_open_tasks_each_is_told_once(world: World):
    tasks = {world.register(name, session_key=MAIN) for name in ("A", "B")}
    reasons = [answer(world, stop())["reason"] for _ in tasks]
    assert {each for each in tasks if sum(each in reason for reason in reasons) == 1} == tasks
    assert answer(world, stop()) is None


async def test_an_end_after_a_refused_completion_names_what_is_missing(
    daemon: Daemon, tmp_path: Path
):
    task_id, missing = await register(daemon, "s-1"), str(tmp_path / "site.html")
    async with agent(daemon.home, "auto", client=CLIENT, **{SESSION: "s-1"}) as speaking:
        done = {"task_id": task_id, "message": "Step 1 done", "status": "completed"}
        refused = await speaking.call_tool("task_update", {**done, "artifacts": [missing]})
        assert parse_result(refused)["error"] == "evidence_missing"
    reason = daemon.ask("hook", event=stop(session_id="s-1"))["reason"]
    assert "Not completed: " in reason
    assert missing in reason
    assert "Mend that, then complete it." in reason


@pytest.mark.parametrize(
    "more",
    [
        {"stop_hook_active": True},
        {"stop_hook_active": None},
        {"background_tasks": [{"id": "b1", "status": "running"}]},
        {"session_crons": [{"id": "c1"}]},
        {"agent_id": "a1"},
        {"permission_mode": "plan"},
    ],
    ids=str,
)
def test_an_agent_whose_host_carries_on_may_end(world: World, more: dict[str, object]):
    world.register(session_key=MAIN)
    assert answer(world, stop(**more)) is None
    assert answer(world, stop()) is not None


@pytest.mark.parametrize("ran", [False, True], ids=["no call", "a call"])
def test_names_in_the_last_words_are_looked_up(world: World, ran: bool):
    task_id = world.register(session_key=MAIN)
    if ran:
        call = {"hook_event_name": "PostToolUse", "session_id": MAIN, "tool_name": "Bash"}
        answer(world, {**call, "tool_input": {"command": "git push"}, "tool_response": "x"})
    world.call("task_update", task_id=task_id, session_key=MAIN, status="completed")
    answer_text = "I saved all to notes/summary.md."
    assert answer(world, stop(last_assistant_message=answer_text, agent_id="a1")) is None
    assert answer(world, stop(last_assistant_message=answer_text, session_id="other")) is None
    assert answer(world, stop(last_assistant_message=["x"])) is None
    assert world.call("task_status", task_id=task_id, session_key=MAIN)["unverified"] == []
    for words in (answer_text, "And to b.txt, which is asked about no more."):
        assert answer(world, stop(last_assistant_message=words)) is None
        status = world.call("task_status", task_id=task_id, session_key=MAIN)
        assert [each["what"] for each in status["unverified"]] == ["notes/summary.md"]


def goal(**fields: object) -> str:
    return json.dumps({"attachment": {"type": "goal_status", **fields}}, separators=(",", ":"))


def codex(kind: str, **fields: object) -> str:
    return json.dumps({"payload": {"type": kind, **fields}}, separators=(",", ":"))


CLEARED = codex("message", text='<x source="user_goal">\nUser cleared the goal.\n</x>')
PURSUED = codex("thread_goal_updated", goal={"status": "active"})
BY_AGENT = [
    codex("function_call_output", output=json.dumps(told, separators=(",", ":")))
    for told in ({"goal": {"threadId": "x", "status": each}} for each in ("active", "complete"))
]
MIB = 1024 * 1024
QUOTED = codex("message", text=f"It was {PURSUED} and {goal(met=False)}")


@pytest.mark.parametrize(
    ("lines", "may_end"),
    [
        ([goal(met=False, sentinel=True)], True),
        ([goal(met=True), goal(met=False), QUOTED], True),
        ([goal(met=False), goal(met=True)], False),
        ([goal(met=False), goal(met=False, failed=True)], False),
        ([PURSUED, QUOTED], True),
        ([PURSUED, codex("thread_goal_updated", goal={"status": "complete"})], False),
        ([PURSUED, CLEARED], False),
        ([BY_AGENT[0], QUOTED], True),
        (BY_AGENT, False),
        ([PURSUED, BY_AGENT[1]], False),
        ([QUOTED], False),
        ([codex("thread_goal_updated", goal=[])], False),
        (['"goal_status"'], False),
        ([], False),
    ],
)
def test_an_agent_with_a_goal_of_its_hosts_may_end(
    world: World, tmp_path: Path, lines: list[str], may_end: bool
):
    world.register(session_key=MAIN)
    transcript = tmp_path / "transcript.jsonl"
    transcript.write_text("".join(f"{line}\n" for line in ("{}", *lines, "{}")))
    refused = answer(world, stop(transcript_path=str(transcript)))
    assert (refused is None) is may_end


@pytest.mark.parametrize(
    ("since", "may_end"), [(MIB, True), (16 * MIB - 60, True), (40 * MIB, True), (300 * MIB, False)]
)
def test_a_goal_is_found_far_back_in_a_transcript(
    world: World, tmp_path: Path, since: int, may_end: bool
):
    world.register(session_key=MAIN)
    transcript = tmp_path / "transcript.jsonl"
    transcript.write_text(f"{goal(met=False)}\n")
    with transcript.open("ab") as file:
        file.truncate(file.tell() + since)
    refused = answer(world, stop(transcript_path=str(transcript)))
    assert (refused is None) is may_end


def test_a_last_line_without_a_mark_tells_of_no_goal(world: World, tmp_path: Path):
    world.register(session_key=MAIN)
    transcript = tmp_path / "transcript.jsonl"
    transcript.write_text(f"{codex('of another kind', goal={'status': 'active'})}\n")
    assert answer(world, stop(transcript_path=str(transcript))) is not None


@pytest.mark.parametrize("path", [None, 7, "/nowhere", "/", "/dev/zero", "", "\0", "/\0", "here"])
def test_a_transcript_that_is_none_tells_of_no_goal(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: object
):
    monkeypatch.chdir(tmp_path)
    for name in ("None", "7", "here"):
        Path(name).write_text(PURSUED)
    world.register(session_key=MAIN)
    opened = [*Path("/dev/fd").iterdir()]
    assert answer(world, stop(transcript_path=path)) is not None
    assert [*Path("/dev/fd").iterdir()] == opened


def halt(
    error: object = "rate_limit", words: object = "Your limit is used up"
) -> dict[str, object]:
    reason = {"error": error, "last_assistant_message": words}
    return {"hook_event_name": "StopFailure", "session_id": "s-1", **reason}


async def test_a_turn_that_was_given_up_is_told_until_somebody_writes(daemon: Daemon):
    task_id = await register(daemon, "s-1")

    def read_halt() -> tuple[str, str, list[str]]:
        shown = daemon.ask("show", id=task_id)
        entries = [each["content"] for each in shown["messages"]]
        return shown["line"]["section"], shown["line"]["says"], entries

    sentence = "ts host has ended its agent's turn: rate limit: Your limit is used up"
    for _ in range(2):
        assert daemon.ask("hook", event=halt()) is None
        assert read_halt() == ("needs_you", f"i{sentence}", [f"I{sentence}"])
    daemon.ask("hook", event={**halt("overloaded"), "agent_id": "a1"})
    daemon.ask("hook", event={**halt("overloaded"), "session_id": "s-2"})
    daemon.ask("hook", event=halt(["overloaded"], {"x": "y"}))
    assert len(read_halt()[2]) == 1
    daemon.ask("hook", event=halt("overloaded", "x" * 500_000))
    assert [len(each) < 300 for each in read_halt()[2]] == [True, True]
    for words in (None, {"x": "y"}):
        daemon.ask("hook", event=halt("server_error", words))
        assert read_halt()[2][2:] == ["Its host has ended its agent's turn: server error"]
    daemon.call("task_update", task_id=task_id, message="Back at it")
    assert read_halt()[:2] == ("at_work", "at work, as last heard")


@pytest.mark.parametrize(
    "event",
    [
        None,
        [],
        {},
        start(session=None),
        start(session=[MAIN]),
        start(session=""),
        start(session="s" * 100_000),
        {**start(session=MAIN), "hook_event_name": ["SessionStart"]},
        {**start(session=MAIN), "hook_event_name": "OfALaterVersion"},
        prompt(None, session_id=MAIN),
        prompt(["[system] x"], session_id=MAIN),
        prompt("x" * 900_000, session_id=MAIN),
    ],
    ids=lambda event: str(event)[:60],
)
def test_what_is_no_known_event_has_no_answer(world: World, event: Any):
    world.register(session_key=MAIN)
    assert answer(world, event) is None
