"""What an agent may look at is kept with its wait, and asked again when it is armed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import taskmem_evidence.hooks
from openclaw_taskmem.domain.callers import Caller, RunningWork
from openclaw_taskmem.domain.conditions.targets import LookPolicy
from openclaw_taskmem.domain.errors import EvidenceMissing
from taskmem_hookspecs import Claim, Finding, Verdict, hookimpl
from taskmem_hookspecs.errors import NotAllowed
from tests.support.world import PERSON, World

MAIN = "agent:main:main"
AGENT = Caller(session_key=MAIN, folder="/srv/app")
BOXED = AGENT.model_copy(update={"sandboxed": True})


@pytest.fixture
def world() -> World:
    return World(looks=LookPolicy(roots=("/home/all",)))


def wait(world: World, target: str, caller: Caller) -> dict[str, Any]:
    given = {"target": target, "wake_when": '"Done" appears'}
    return world.call("smart_wait", caller, **given)


def test_a_wait_armed_again_keeps_the_folders_it_has(world: World) -> None:
    wait_id = wait(world, "pty:file:/srv/app/log", AGENT)["wait_id"]
    assert world.store.read_wait(wait_id).within == ("/srv/app", "/home/all")
    elsewhere = AGENT.model_copy(update={"folder": "/srv/other"})
    world.call("wait_update", elsewhere, wait_id=wait_id, timeout=900)
    kept = ("/srv/other", "/home/all", "/srv/app")
    assert world.store.read_wait(wait_id).within == kept
    world.call("wait_update", PERSON, wait_id=wait_id)
    assert world.store.read_wait(wait_id).within == kept
    world.call("wait_update", BOXED, wait_id=wait_id)
    assert world.store.read_wait(wait_id).within == ("/srv/app",)


def test_a_persons_wait_is_fenced_once_an_agent_arms_it(world: World) -> None:
    given = {"name": "Deploy", "plan": ["Build"]}
    task_id = world.call("task_register", AGENT, **given)["task_id"]
    wake = {"wake_when": '"Done" appears', "task_id": task_id}
    target = "pty:file:/srv/app/log"
    answer = world.call("smart_wait", PERSON, target=target, **wake)
    assert world.store.read_wait(answer["wait_id"]).within is None
    world.call("wait_update", AGENT, wait_id=answer["wait_id"])
    within = world.store.read_wait(answer["wait_id"]).within
    assert within == ("/srv/app", "/home/all")


def test_what_is_not_shown_in_a_sandbox_is_not_armed_again_there(world: World) -> None:
    wait_id = wait(world, "screen", AGENT)["wait_id"]
    with pytest.raises(NotAllowed, match="You run in a sandbox"):
        world.call("wait_update", BOXED, wait_id=wait_id)
    with pytest.raises(NotAllowed, match="You run in a sandbox"):
        wait(world, "screen", BOXED)


@pytest.mark.parametrize("sandbox", ["workspace", "all"])
def test_what_a_sandboxed_agent_says_is_made_lies_in_its_folder(
    tmp_path: Path, sandbox: str
) -> None:
    (tmp_path / "work").mkdir()
    world = World(
        plugins=[("evidence", taskmem_evidence.hooks)],
        artifact_roots=(str(tmp_path),),
        looks=LookPolicy(roots=(str(tmp_path),), sandbox=sandbox),
    )
    caller = Caller(folder=str(tmp_path / "work"), sandboxed=True)
    task = world.register(plan=["Write"])
    for name in ("diary.md", "work/a.md"):
        (tmp_path / name).write_text("Dear diary.")
    named = [str(tmp_path / "diary.md"), "a.md"]
    given = {"status": "completed", "artifacts": named}
    answer = world.call("task_update", caller, task_id=task, **given)
    seen = f"{answer}"
    assert ("diary.md lies outside" in seen) is (sandbox == "workspace")
    assert "a.md" in seen
    assert world.task(task).status == "completed"


class Commands:
    """Proves each command, and tells whose it is."""

    async def verify(self, claim: Claim) -> Finding:
        return Finding(verdict=Verdict.VERIFIED, detail=f"{claim.subject} of another")

    @hookimpl
    def evidence_verifier(self, kind: str) -> Commands | None:
        return self if kind == "command" else None


@pytest.mark.parametrize("text", ["command:okbuild", "`command:okbuild`", "#7, command:okbuild"])
@pytest.mark.parametrize("named", ["artifacts", "metadata"])
def test_no_command_of_others_proves_a_sandboxed_agents_task(named: str, text: str) -> None:
    policy = LookPolicy(roots=("/home/all",))
    world = World(plugins=[("commands", Commands())], looks=policy)
    things = {"artifacts": [text]}
    given = {"name": "Deploy", "plan": ["Build"]}
    more, proof = ({"metadata": things}, {}) if named == "metadata" else ({}, things)
    task_id = world.call("task_register", AGENT, **given, **more)["task_id"]
    ended = {"task_id": task_id, "status": "completed", **proof}

    with pytest.raises(EvidenceMissing) as refused:
        world.call("task_update", BOXED, **ended)

    said = str(refused.value)
    assert '"okbuild": A recorded command is not shown to you, for you run in a' in said
    assert "Name a file of your folder" in said
    assert "of another" not in said
    assert "taskmem run" not in said
    assert world.call("task_update", AGENT, **ended)["status"] == "completed"


def test_a_sandboxed_agent_waits_for_what_its_own_session_runs(world: World) -> None:
    runs = RunningWork(kind="command", name="vivid-shoal", about="make", since=world.clock.now())
    world.context.live.running_work[MAIN] = (runs,)
    armed = wait(world, "pty:vivid-shoal", BOXED)
    assert armed["status"] == "watching"
    assert world.store.read_wait(armed["wait_id"]).within == ()
    other = BOXED.model_copy(update={"session_key": "agent:main:other"})
    with pytest.raises(NotAllowed):
        wait(world, "pty:vivid-shoal", other)
