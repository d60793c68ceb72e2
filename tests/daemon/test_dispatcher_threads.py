"""Which calls wait for which: what looks at things that may be slow holds up nobody."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from openclaw_taskmem.config import Settings
from openclaw_taskmem.daemon.dispatcher import (
    CALL_THREADS,
    LOOK_THREADS,
    LOOKS_OF_CALLER,
    Dispatcher,
    RelayHost,
)
from openclaw_taskmem.daemon.thread_pool import ThreadPool
from openclaw_taskmem.daemon.wait_supervisor import WaitSupervisor
from openclaw_taskmem.home import find_home
from openclaw_taskmem.tools import catalog
from taskmem_hookspecs import Claim, Finding, TaskStatus, Verdict, hookimpl
from tests.support.world import World


class Patient:
    """A plug-in that believes a claim once it is let."""

    def __init__(self) -> None:
        self.looking = threading.Semaphore(0)
        self.let = threading.Event()

    @hookimpl
    def evidence_verifier(self, kind: str) -> Patient:
        return self

    async def verify(self, claim: Claim) -> Finding:
        self.looking.release()
        self.let.wait()
        return Finding(verdict=Verdict.VERIFIED, detail="It is there.")


@pytest.mark.parametrize(
    ("tool", "given", "looks"),
    [
        ("smart_wait", {}, True),
        ("task_update", {"status": "completed"}, True),
        ("task_update", {"status": " Completed "}, True),
        ("task_update", {"status": "paused"}, False),
        ("task_update", {"message": "completed"}, False),
        ("task_update", {"status": ["completed"]}, False),
        ("task_update", "completed", False),
        ("task_update", None, False),
        ("task_list", {"status": "completed"}, False),
        ("no_such_tool", {"status": "completed"}, False),
    ],
)
def test_an_update_looks_only_where_it_completes(tool: str, given: object, looks: bool) -> None:
    assert catalog.needs_outside_look(tool, given) is looks


async def test_no_caller_takes_all_threads_that_look() -> None:
    threads = ThreadPool(2, "look", share=1)
    let = threading.Event()
    slow = [asyncio.create_task(threads.call_for("a", let.wait)) for _ in range(3)]
    await asyncio.sleep(0)

    assert await threads.call_for("b", lambda: "answered") == "answered"

    assert not any(each.done() for each in slow)
    let.set()
    assert await asyncio.gather(*slow) == [True] * 3
    await threads.close()


@pytest.mark.parametrize("way", ["agent", "person", "gateway"])
async def test_calls_are_answered_while_all_threads_complete_tasks(
    tmp_path: Path, way: str
) -> None:
    patient = Patient()
    world = World(plugins=[("patient", patient)])
    room = WaitSupervisor(world.context.plugin_host, world.clock, judge_seconds=20)
    settings = Settings(home=find_home({"TASKMEM_HOME": str(tmp_path)}))
    dispatcher = Dispatcher(world.context, settings, room)

    async def call(tool: str, **given: object) -> object:
        params = {"tool": tool, "arguments": given}
        if way == "agent":
            return await dispatcher.call_tool(tool, given, RelayHost())
        if way == "person":
            return await dispatcher.answer("call", params)
        return await dispatcher.answer_gateway(dispatcher, "call", params)

    tasks = [world.register(metadata={"artifacts": ["report.md"]}) for _ in range(CALL_THREADS)]
    completing = [
        asyncio.create_task(call("task_update", task_id=task, status="completed")) for task in tasks
    ]
    for _ in tasks:
        await asyncio.to_thread(patient.looking.acquire)

    await call("task_list")
    still = [not each.done() for each in completing]
    patient.let.set()
    await asyncio.gather(*completing)

    assert all(still)
    assert {world.task(task).status for task in tasks} == {TaskStatus.COMPLETED}
    await dispatcher.close()
    await room.close()


async def test_one_callers_slow_proofs_hold_up_no_other(tmp_path: Path) -> None:
    patient = Patient()
    world = World(plugins=[("patient", patient)])
    room = WaitSupervisor(world.context.plugin_host, world.clock, judge_seconds=20)
    settings = Settings(home=find_home({"TASKMEM_HOME": str(tmp_path)}))
    dispatcher = Dispatcher(world.context, settings, room)

    def complete(by: str) -> asyncio.Task[object]:
        task = world.register(metadata={"artifacts": ["report.md"]})
        given = {"task_id": task, "status": "completed"}
        call = dispatcher.call_tool("task_update", given, RelayHost(process=by))
        return asyncio.create_task(call)

    slow = [complete("one") for _ in range(LOOK_THREADS)]
    for _ in range(LOOKS_OF_CALLER):
        await asyncio.to_thread(patient.looking.acquire)
    other = complete("other")

    await asyncio.to_thread(patient.looking.acquire)

    assert patient.looking.acquire(blocking=False) is False
    patient.let.set()
    await asyncio.gather(other, *slow)
    await dispatcher.close()
    await room.close()
