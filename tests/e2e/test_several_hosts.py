"""Several hosts on one machine: every wake reaches the session that asked, or nobody."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.types import Implementation

from tests.e2e.actors import seat_actors
from tests.e2e.agent import reminders_in
from tests.e2e.cli_hosts import ClaudeCode, CliHost, Codex, CodexWithPatches
from tests.e2e.conftest import make_story
from tests.e2e.desks import Desk, seat_agents
from tests.e2e.gateway import MAIN_SESSION
from tests.e2e.house import House, woken_by
from tests.e2e.openclaw import Unavailable
from tests.e2e.room import until
from tests.e2e.scripted_model import Call, ModelRequest, Reply, text_of
from tests.e2e.shared_house import Scripts, Story
from tests.e2e.taskmem import PROGRAM, Taskmem
from tests.support.agents import parse_result
from tests.support.required import do_without
from tests.support.waiting import PATIENCE

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SETTINGS = {"TASKMEM_STUCK_THRESHOLD_SECONDS": "3600"}
SHARES_GATEWAY = True
CLAUDE_CODE = {"CLAUDECODE": "1"}
"""What Claude Code sets for all that it starts."""


class Waiter:
    """Waits for a log once, and ends its turn."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.waits: list[str] = []

    def __call__(self, request: ModelRequest) -> Reply:
        turn = request.turn
        if "Please wait" not in turn.words:
            return "It is ready."
        if not turn.results:
            return [Call("smart_wait", wait_for(self.log))]
        self.waits.append(json.loads(turn.results[-1])["wait_id"])
        return "I am woken when it is ready."


@pytest.fixture(params=["one home", "two homes"])
def other(request: pytest.FixtureRequest, story: Story) -> Iterator[Taskmem]:
    """taskmem as Claude Code starts it: in the gateway's home, or in one of its own."""
    ours = story.house.taskmem
    own = {"TASKMEM_HOME": str(ours.room.root / "other")}
    home = own if request.param == "two homes" else {}
    yield Taskmem(ours.room, {**ours.settings, **CLAUDE_CODE, **home})
    if home:
        Taskmem(ours.room, own).stop()


@asynccontextmanager
async def claude_code(taskmem: Taskmem) -> AsyncIterator[Client]:
    """A host that starts `taskmem mcp` as set-up has it, and has no way back."""
    server = StdioServerParameters(
        command=str(PROGRAM), args=["mcp"], env=taskmem.room.environment(taskmem.environment)
    )
    transport = stdio_client(server)
    info = Implementation(name="claude-code", version="2")
    async with Client(
        transport, mode="legacy", client_info=info, read_timeout_seconds=PATIENCE
    ) as client:
        yield client


def wait_for(log: Path, **more: str) -> dict[str, Any]:
    """The arguments of `smart_wait` for a log that is ready."""
    target = {"target": f"pty:file:{log}", "wake_when": '"READY" appears'}
    return {**target, "timeout": 3000, **more}


async def ask_for_waits(client: Client, log: Path, story: Story) -> list[Any]:
    """Ask as agents do: plainly, and in the name of sessions that are not theirs."""
    task = {"name": "Theirs", "plan": ["Wait"]}
    task_id = parse_result(await client.call_tool("task_register", task))["task_id"]
    for session in (story.session, MAIN_SESSION):
        arguments = wait_for(log, session_key=session)
        refused = parse_result(await client.call_tool("smart_wait", arguments))
        assert refused["error"] == "not_allowed"
    choices = [{}, {"session_key": "main"}, {"task_id": task_id}]
    return [
        parse_result(await client.call_tool("smart_wait", wait_for(log, **arguments)))
        for arguments in choices
    ]


def start(taskmem: Taskmem, command: str) -> subprocess.Popen[str]:
    """Start a command as an agent does in the background of its host."""
    return subprocess.Popen(
        ["/usr/bin/env", *shlex.split(command)],
        env=taskmem.room.environment(taskmem.environment),
        stdout=subprocess.PIPE,
        text=True,
    )


async def test_each_wake_reaches_who_asked(story: Story, other: Taskmem, tmp_path: Path):
    waiter = Waiter(tmp_path / "build.log")
    waiter.log.touch()
    story.follow(waiter)
    await asyncio.to_thread(story.say, "Please wait.")
    async with claude_code(other) as client:
        theirs = await ask_for_waits(client, waiter.log, story)
        commands = [start(other, each["command"]) for each in theirs]
        waiter.log.write_text("READY\n")
        for each, command in zip(theirs, commands, strict=True):
            assert "wake you" not in each["message"]
            said, _ = await asyncio.to_thread(command.communicate)
            assert command.returncode == 0
            assert f"resolved ({each['wait_id']})" in said

    house, [own] = story.house, waiter.waits
    wake = await asyncio.to_thread(house.reaches, own, "acknowledged")
    assert wake["session_key"] == story.session
    # Wakes go out in order: after this one none of theirs is on its way.
    last = await asyncio.to_thread(house.wake, "the last of all")
    await asyncio.to_thread(house.reaches, last, "acknowledged")
    arrived = [
        (session, wait_id)
        for session, requests in story.scripts.heard.items()
        for request in requests
        for wait_id in woken_by(request)
        if wait_id in {own, *(each["wait_id"] for each in theirs)}
    ]
    assert arrived == [(story.session, own)]
    kept = {row["wait_id"]: row for row in other.wakes()}
    for each in theirs:
        row = kept[each["wait_id"]]
        assert (row["state"], row["attempts"]) == ("acknowledged", 0)


# --- the real OpenClaw, Claude Code and Codex ------------------------------------


ENDINGS = ("en, completed first", "removed file", "absolute", "moved by a command")
"""Two lies and two honest ones; `bench/run.py judge_endings` has all."""


def test_endings_are_judged_as_when_they_are_played(home: tuple[House, Scripts], tmp_path: Path):
    (project := tmp_path / "project").mkdir()
    kinds = {"Codex": CodexWithPatches, "Claude Code": ClaudeCode}
    try:
        with seat_actors(*home, project, kinds) as actors:
            for name, actor in actors.items():
                for kind in ENDINGS:
                    acted, played = actor.compare(kind, tmp_path / name)
                    assert acted.verdict == played.verdict, f"{name}, {kind}: {acted.shown}"
    except Unavailable as reason:
        do_without(f"a host cannot be fetched: {reason}")


IN_CLAUDE = f"Claude Code, session {ClaudeCode.session[:8]}…"


class Desks(NamedTuple):
    """The sessions of three hosts in one home."""

    house: House
    in_codex: CliHost
    codex: Desk
    in_claude: CliHost
    claude: Desk
    openclaw: Desk


@pytest.fixture(scope="module")
def desks(home: tuple[House, Scripts]) -> Iterator[Desks]:
    """The three hosts; all are started once."""
    house, scripts = home
    house.model.decide = scripts
    story = make_story(home, "desks")
    openclaw = Desk(say=story.say)
    story.follow(openclaw)
    try:
        codex, claude = Desk(Codex.prefix), Desk(ClaudeCode.prefix)
        with seat_agents(house, {Codex: codex, ClaudeCode: claude}) as (in_codex, in_claude):
            yield Desks(house, in_codex, codex, in_claude, claude, openclaw)
    except Unavailable as reason:
        do_without(f"a host cannot be fetched: {reason}")


def test_three_hosts_in_one_home_are_woken_each_in_its_session(desks: Desks, tmp_path: Path):
    log = tmp_path / "all.log"
    log.touch()
    named = {name: getattr(desks, name) for name in ("codex", "claude", "openclaw")}
    waits: dict[str, str] = {}
    for name, desk in named.items():
        made = desk.call("task_register", name=f"Work of {name}", plan=["First", "Second"])
        given = {"target": f"pty:file:{log}", "wake_when": f'"{name} is ready" appears'}
        desk.call("smart_wait", task_id=made["task_id"], **given)
        [waits[name]] = show(desks, made)["metadata"]["active_wait_ids"]
    log.write_text("".join(f"{name} is ready\n" for name in waits))
    until(lambda: all(desk.woken_by for desk in named.values()), "all are woken", 60)
    wakes = [desks.house.reaches(wait_id, "acknowledged", 60) for wait_id in waits.values()]
    assert {name: [*desk.woken_by] for name, desk in named.items()} == {
        name: [name] for name in waits
    }
    assert len({wake["session_key"] for wake in wakes}) == len(wakes)
    in_codex, in_claude, in_openclaw = (name_agent(desks, wake) for wake in wakes)
    assert re.fullmatch(r"Codex, session \w{8}…", in_codex)
    assert in_claude == IN_CLAUDE
    assert in_openclaw.startswith("main in OpenClaw, session ")
    connected = {each["who"] for each in desks.house.ask("status")["sessions"]}
    assert connected == {in_codex, in_claude}
    for wake in wakes:
        desks.house.ask("act", id=wake["task_id"], action="cancel")


def show(desks: Desks, task: Mapping[str, Any]) -> dict[str, Any]:
    """A task of this answer, as it is now."""
    return desks.house.ask("show", id=task["task_id"])


def name_agent(desks: Desks, task: Mapping[str, Any]) -> str:
    """Who works on the task of this answer, as a person is shown."""
    shown = desks.house.taskmem.run("show", task["task_id"])
    [who] = re.findall(r"^  who +(.*)$", shown, re.MULTILINE)
    return who


def test_what_openclaw_hands_on_ends_in_claude_code(desks: Desks, tmp_path: Path):
    site = tmp_path / "site.html"
    task = desks.openclaw.call("task_register", name="Make a site", plan=["Build", "Publish"])
    given = {"task_id": task["task_id"]}
    desks.openclaw.call("exec", command="echo the build")
    desks.openclaw.call("task_update", **given, message="Step 1 done")
    desks.openclaw.call("task_handoff", **given, to="publisher", note="The host is bakery-1.")

    claimed = desks.claude.call("task_claim", role="publisher")
    assert (claimed["task_id"], claimed["note"]) == (task["task_id"], "The host is bakery-1.")
    status = desks.claude.call("task_status", **given)
    assert [step["state"] for step in status["steps"]] == ["done", "running"]
    assert [call["about"] for call in status["tool_history"]] == ["echo the build"]
    assert name_agent(desks, task) == f"publisher in {IN_CLAUDE}"
    site.write_text("<h1>Bakery</h1>")
    done = {"token": claimed["token"], "message": "Step 2 done", "status": "completed"}
    ended = desks.claude.call("task_update", **given, **done, artifacts=[str(site)])
    assert ended["status"] == "completed", ended


def test_what_claude_code_began_goes_on_in_codex(desks: Desks, tmp_path: Path):
    log = tmp_path / "host.log"
    log.touch()
    task = desks.claude.call("task_register", name="Move the site", plan=["Copy", "Switch"])
    given = {"task_id": task["task_id"]}
    desks.claude.call("task_claim", **given)
    desks.claude.call("task_update", **given, message="Step 1 done")
    assert desks.codex.call("task_claim", **given)["error"] == "run_held"
    desks.in_claude.kill()

    def is_claimed() -> bool:
        return "token" in desks.codex.call("task_claim", **given)

    until(is_claimed, "Codex has claimed it", 60)
    desks.in_codex.kill()
    desks.in_codex.start(*desks.in_codex.list_resume_arguments())
    desks.codex.call("task_list")
    packet = reminders_in("\n".join(map(text_of, desks.codex.last.messages)))[-1]
    assert packet["progress"]["completed"] == [0]
    wait = {"target": f"pty:file:{log}", "wake_when": '"codex is ready" appears'}
    desks.codex.call("smart_wait", **given, **wait)
    [wait_id] = show(desks, task)["metadata"]["active_wait_ids"]
    log.write_text("codex is ready\n")
    desks.house.reaches(wait_id, "acknowledged", 60)
    assert name_agent(desks, task).startswith("Codex, session ")
    desks.in_claude.start(*desks.in_claude.list_resume_arguments())
    ended = desks.codex.call("task_update", **given, status="completed", completed_steps=[1, 2])
    assert ended["status"] == "completed", ended
