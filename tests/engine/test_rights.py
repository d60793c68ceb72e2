"""Who may do what to a task: each cell of the table, by the tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import pytest

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.changes.continuation import Origin, Turn
from openclaw_taskmem.domain.changes.rights import TABLE, Act, ActCondition, Tie
from openclaw_taskmem.domain.effects.checkpoints import CallStartEntry
from openclaw_taskmem.domain.errors import Fenced, RunHeld, RunNotReady, TaskEnded
from openclaw_taskmem.engine import gateway_reports, turns, user_actions
from openclaw_taskmem.engine.turns import ReportContext
from taskmem_hookspecs import Owner, TaskFacts, WakeState
from taskmem_hookspecs.errors import NotAllowed, TaskNotFound
from tests.support.memory_store import MemoryStore
from tests.support.rows import read_all_rows
from tests.support.world import PERSON, PLAN, World

THRESHOLD: Final = 300
ENDED: Final = "9:9"
"""A process that has ended."""
REFUSED: Final = (NotAllowed, RunHeld, Fenced)


def in_gateway(role: str, session: str, which: str | None = None) -> Caller:
    """An agent of a gateway's session; `which`: None: its plug-in does not say."""
    host = which and f"openclaw:{which}"
    owner = Owner(role=role, session_key=session, boot=f"boot_{which}", host=host)
    return Caller(session_key=session, host=host or "openclaw", owner=owner)


def as_relay(host: str, process: str) -> Caller:
    """An agent of an MCP host, whose relay is a process."""
    owner = Owner(role="agent", process=process)
    return Caller(host=f"mcp:{host}", process=process, owner=owner)


A: Final = in_gateway("main", "agent:main:a")
C: Final = in_gateway("main", "agent:main:c")
BUILDER: Final = in_gateway("builder", "agent:builder:main")
ONE: Final = in_gateway("main", "agent:main:a", "one")
TWO: Final = in_gateway("main", "agent:main:a", "two")
CLAUDE: Final = as_relay("claude-code", "1:1")
CLAUDE_TOO: Final = as_relay("claude-code", "1:2")
IN_SHELL: Final = Caller(person=True, host="shell:claude-code")
CODEX: Final = as_relay("codex", "2:1")
GONE: Final = as_relay("claude-code", ENDED)


@pytest.fixture
def world() -> World:
    return World(
        reaches=lambda _, session: session is not None, is_alive=lambda process: process != ENDED
    )


def in_session(key: str, *others: str) -> Caller:
    """An agent of a session that its host names, while others are open; one relay serves all."""
    owner = Owner(role="agent", session_key=key, process="1:1")
    told = {"session_key": key, "session_told": True, "other_sessions": frozenset(others)}
    return CLAUDE.model_copy(update={**told, "owner": owner})


def test_no_session_of_an_mcp_host_writes_for_one_that_is_open(world: World) -> None:
    task = registers(world, in_session("s-1"))
    other = in_session("s-2", "s-1")
    world.clock.tick(THRESHOLD)
    world.daemon()
    for tool, given in (("task_update", {"completed_steps": [1]}), ("task_claim", {})):
        with pytest.raises(REFUSED, match="belongs to another session"):
            world.call(tool, other, task_id=task, **given)
    world.call("task_update", other, task_id=task, message="By the way.")
    assert [wake.state for wake in world.wakes()] == [WakeState.SENT]


def test_a_session_of_an_mcp_host_goes_on_for_one_that_is_closed(world: World) -> None:
    """The wakes go to it once it has claimed the task."""
    task = registers(world, in_session("s-1"))
    world.call("task_update", in_session("s-2"), task_id=task, message="Step 1 done")
    assert world.task(task).session_key == "s-1"
    world.call("task_claim", in_session("s-2"), task_id=task)
    assert world.task(task).session_key == "s-2"
    with pytest.raises(REFUSED):
        world.call("task_update", in_session("s-1", "s-2"), task_id=task, completed_steps=[2])
    named = CODEX.model_copy(update={"session_key": "s-1", "session_said": True})
    with pytest.raises(REFUSED):
        world.call("task_update", named, task_id=task, message="Step 2 done")


# --- what was done to a task before -------------------------------------------------


def registers(world: World, caller: Caller, **given: object) -> str:
    given = {"name": "Deploy", "plan": PLAN, **given}
    return str(world.call("task_register", caller, **given)["task_id"])


def queues(world: World, by: Caller = CLAUDE) -> str:
    return registers(world, by, role="builder")


def claim_as(world: World, by: Caller = CLAUDE) -> str:
    task = queues(world, by)
    world.call("task_claim", BUILDER, task_id=task)
    return task


def fails(world: World) -> str:
    task = claim_as(world)
    world.call("task_update", BUILDER, task_id=task, status="failed")
    return task


def resets(world: World) -> str:
    task = registers(world, A)
    world.call("task_reset", PERSON, task_id=task)
    return task


def frees(world: World) -> str:
    """What a session of a gateway is to take up again, and nobody holds."""
    task = registers(world, ONE)
    world.call("task_reset", PERSON, task_id=task)
    return task


def takes_over(world: World) -> str:
    task = resets(world)
    world.call("task_claim", CODEX, task_id=task, role="main")
    return task


def leave_running(world: World) -> str:
    """What a process held that has ended, queued again for builders."""
    task = queues(world)
    world.call("task_claim", GONE, task_id=task, role="builder")
    with pytest.raises(REFUSED):
        world.call("task_claim", C, task_id=task)
    return task


def claims_from_person(world: World, by: Caller = CLAUDE) -> str:
    """What a person registered for builders, and a process of a host claimed."""
    task = registers(world, PERSON, role="builder")
    world.call("task_claim", by, task_id=task, role="builder")
    return task


def asks_and_ends(world: World) -> str:
    task = claims_from_person(world, GONE)
    world.call("task_update", GONE, task_id=task, ask="Which tag?")
    return task


def pauses_and_ends(world: World) -> str:
    task = claims_from_person(world, GONE)
    world.call("task_update", GONE, task_id=task, status="paused")
    return task


def hands_over_and_ends(world: World) -> str:
    task = claims_from_person(world, GONE)
    world.call("task_handoff", GONE, task_id=task, to="user")
    return task


def goes_silent(world: World) -> str:
    task = registers(world, CLAUDE)
    world.clock.tick(THRESHOLD)
    return task


Scene = tuple[Caller, Callable[[World], str]]
SCENES: Final[Mapping[tuple[Tie, str], Scene]] = {
    (Tie.PERSON, "free"): (PERSON, queues),
    (Tie.PERSON, "held"): (PERSON, claim_as),
    (Tie.HOLDER, "held"): (BUILDER, claim_as),
    (Tie.SESSION, "free"): (A, resets),
    (Tie.SESSION, "held"): (A, takes_over),
    (Tie.HOST, "held"): (CLAUDE_TOO, claims_from_person),
    (Tie.HOST, "gone"): (CLAUDE, pauses_and_ends),
    (Tie.REGISTRAR, "free"): (CLAUDE, queues),
    (Tie.REGISTRAR, "held"): (CLAUDE, claim_as),
    (Tie.REGISTRAR, "ended"): (CLAUDE, fails),
    (Tie.ROLE, "free"): (BUILDER, queues),
    (Tie.ROLE, "gone"): (BUILDER, leave_running),
    (Tie.OTHER, "free"): (C, lambda world: registers(world, CLAUDE)),
    (Tie.OTHER, "held"): (C, claim_as),
    (Tie.OTHER, "ended"): (C, fails),
    (Tie.OTHER, "gone"): (CODEX, goes_silent),
    (Tie.OTHER, "another gateway's"): (TWO, lambda world: registers(world, ONE)),
}
STANDS: Final[Mapping[ActCondition, frozenset[str]]] = {
    ActCondition.YES: frozenset({"free", "held", "ended", "gone"}),
    ActCondition.NO: frozenset(),
    ActCondition.FREE: frozenset({"free", "ended", "gone"}),
    ActCondition.IDLE: frozenset({"free", "ended", "gone"}),
    ActCondition.ENDED: frozenset({"ended", "gone"}),
    ActCondition.GONE: frozenset({"gone"}),
}
"""How a task may stand under each condition."""
TOOLS: Final[Mapping[Act, tuple[str, Mapping[str, Any]]]] = {
    Act.READ: ("task_status", {}),
    Act.SAY: ("task_update", {"message": "By the way."}),
    Act.WRITE: ("task_update", {"completed_steps": [1]}),
    Act.WAIT: ("smart_wait", {"target": "pty:x", "wake_when": "x ends"}),
    Act.CLAIM: ("task_claim", {}),
    Act.TAKE_UP: ("task_resume", {}),
    Act.CANCEL: ("task_cancel", {}),
    Act.RESET: ("task_reset", {}),
}


def tries(world: World, act: Act, caller: Caller, task: str) -> None:
    """Try it, as an agent of the role that the task is for where it can say so."""
    if act is Act.LIST:
        listed = world.call("task_list", caller, status="all")["tasks"]
        if task not in [each["task_id"] for each in listed]:
            raise NotAllowed("It is not in the list.")
        return
    tool, given = TOOLS[act]
    if act is Act.CLAIM and caller not in (A, C, TWO):
        given = {"role": "builder"}
    world.call(tool, caller, task_id=task, **given)


@pytest.mark.parametrize("act", Act)
@pytest.mark.parametrize(("tie", "stands"), SCENES)
def test_each_tie_lets_a_caller_do_what_the_table_says(
    world: World, act: Act, tie: Tie, stands: str
) -> None:
    caller, prepare = SCENES[tie, stands]
    task = prepare(world)
    before = read_all_rows(world.store)

    if stands in STANDS[TABLE[act][tie]]:
        # Some of it nobody may do to a task that stands so.
        with suppress(RunNotReady, TaskEnded):
            tries(world, act, caller, task)
        return

    with pytest.raises(REFUSED) as refused:
        tries(world, act, caller, task)

    assert read_all_rows(world.store) == before
    said = str(refused.value)
    assert said.endswith(".")
    assert PLAN[1] not in said


@pytest.mark.parametrize("caller", [C, CODEX])
def test_a_query_of_anothers_task_is_refused_with_a_way(world: World, caller: Caller) -> None:
    task = registers(world, A)

    with pytest.raises(NotAllowed) as refused:
        world.call("task_update", caller, task_id=task, query="Where?")

    assert str(refused.value) == (
        f"{task} is held by main in another session, so you may not read it; leave it "
        "to that one, or let the user do it with taskmem call."
    )


def test_possible_claimant_sees_a_tasks_name_but_not_its_thread(world: World) -> None:
    task = queues(world)
    world.call("task_update", CLAUDE, task_id=task, message="The vault is 4711.")

    [listed] = world.call("task_list", BUILDER, status="waiting")["tasks"]

    assert (listed["name"], listed["waits_for"]["role"]) == ("Deploy", "builder")
    assert "4711" not in str(listed)
    with pytest.raises(NotAllowed, match="is queued for builder, so you may not read"):
        world.call("task_update", BUILDER, task_id=task, query="What is said?")
    assert world.call("task_list", A, status="waiting")["tasks"] == []


def test_an_agent_finds_its_own_tasks_behind_many_of_others(world: World) -> None:
    own = registers(world, A)
    for _ in range(30):
        world.clock.tick(1)
        registers(world, C)

    listed = world.call("task_list", A, limit=2)["tasks"]

    assert [each["task_id"] for each in listed] == [own]


class ReadCountingStore(MemoryStore):
    """Counts what is read task by task."""

    def __init__(self) -> None:
        super().__init__()
        self.read = 0

    def read_task(self, task_id: str) -> TaskFacts:
        self.read += 1
        return super().read_task(task_id)


def test_a_list_reads_who_works_on_tasks_at_once() -> None:
    store = ReadCountingStore()
    world = World(store)
    own = [registers(world, A), queues(world, A)]
    for _ in range(30):
        registers(world, C)
    store.read = 0

    listed = world.call("task_list", A, status="all")["tasks"]

    assert {each["task_id"] for each in listed} == {*own}
    assert store.read <= len(own)


def test_no_claim_attaches_what_is_anothers(world: World) -> None:
    theirs = registers(world, CLAUDE)
    task = queues(world, CODEX)

    with pytest.raises(NotAllowed, match=f"{theirs} belongs to an agent of claude"):
        world.call("task_claim", BUILDER, task_id=task, attach=[theirs])


def test_no_hand_off_takes_along_what_is_anothers(world: World) -> None:
    theirs = registers(world, CLAUDE)
    task = registers(world, A, metadata={"attached_task_ids": [theirs]})
    before = world.store.read_task(theirs)

    answer = world.call("task_handoff", A, task_id=task, to="user")

    assert answer["attached"] == []
    assert world.store.read_task(theirs) == before


def test_registrar_acknowledges_no_wake_of_the_tasks_worker(world: World) -> None:
    task = claim_as(world)
    world.pass_time(2 * THRESHOLD)
    (wake,) = world.wakes(WakeState.SENT)
    assert wake.session_key == BUILDER.session_key

    world.call("task_update", CLAUDE, task_id=task, query="Where does it stand?")
    world.call("task_update", CLAUDE, task_id=task, message="Mind the date.")
    assert world.wakes(WakeState.SENT) == [wake]

    world.call("task_update", BUILDER, task_id=task, message="I do.")
    assert [each.state for each in world.wakes()] == [WakeState.ACKNOWLEDGED]


@pytest.mark.parametrize("prepare", [asks_and_ends, pauses_and_ends, hands_over_and_ends])
def test_an_agent_that_began_anew_goes_on_with_what_waits(
    world: World, prepare: Callable[[World], str]
) -> None:
    task = prepare(world)

    listed = world.call("task_list", CLAUDE, status="all")["tasks"]
    world.call("task_update", CLAUDE, task_id=task, query="Where does it stand?")
    for tool, given in (("task_update", {"status": "active"}), ("task_claim", {})):
        with pytest.raises((NotAllowed, RunHeld, RunNotReady), match="task_resume"):
            world.call(tool, CLAUDE, task_id=task, **given)
    world.call("task_resume", CLAUDE, task_id=task, answer="v2.")
    world.call("task_claim", CLAUDE, task_id=task, role="builder")

    assert [each["task_id"] for each in listed] == [task]
    world.call("task_update", CLAUDE, task_id=task, completed_steps=[1])
    assert world.store.read_task(task).task.done == {0}


def test_a_note_of_who_registered_a_task_takes_no_wakes_along(world: World) -> None:
    task = queues(world, CODEX)
    world.call("task_claim", CLAUDE, task_id=task, role="builder")

    world.call("task_update", CODEX, task_id=task, message="Mind the date.")

    assert world.store.read_task(task).task.host == CLAUDE.host


def test_what_an_agent_does_in_its_shell_is_its_own_over_mcp(world: World) -> None:
    task = registers(world, IN_SHELL)
    awaited = {"target": "pty:x", "wake_when": "x ends"}
    wait = world.call("smart_wait", IN_SHELL, **awaited)["wait_id"]

    for refused in (CODEX, as_relay("", "3:1")):
        with pytest.raises(NotAllowed, match="of claude-code, so you may not change"):
            world.call("wait_cancel", refused, wait_id=wait)
    world.call("wait_update", CLAUDE, wait_id=wait, timeout=60)
    world.call("wait_cancel", CLAUDE, wait_id=wait)
    world.call("task_update", CLAUDE, task_id=task, completed_steps=[1])

    assert world.store.read_task(task).task.done == {0}


def ends(world: World) -> str:
    task = registers(world, CLAUDE)
    world.call("task_update", CLAUDE, task_id=task, status="completed")
    return task


def pauses(world: World) -> str:
    task = registers(world, CLAUDE)
    world.call("task_update", CLAUDE, task_id=task, status="paused")
    return task


def pauses_what_it_holds(world: World) -> str:
    task = claims_from_person(world)
    world.call("task_update", CLAUDE, task_id=task, status="paused")
    return task


@pytest.mark.parametrize("prepare", [ends, pauses, pauses_what_it_holds])
@pytest.mark.parametrize("act", TOOLS)
def test_no_refusal_names_a_step_that_is_refused_as_well(
    world: World, prepare: Callable[[World], str], act: Act
) -> None:
    task = prepare(world)
    world.clock.tick(2 * THRESHOLD)

    with pytest.raises(REFUSED) as refused:
        tries(world, act, CODEX, task)

    said = str(refused.value)
    assert "let the user do it with taskmem call." in said
    assert not any(f"task_{verb}" in said for verb in ("claim", "resume", "update"))


def test_an_agent_is_told_when_it_may_claim_what_lies(world: World) -> None:
    task = registers(world, CLAUDE)

    for act in (Act.READ, Act.CLAIM):
        with pytest.raises(NotAllowed, match="once it was silent for 5 minutes, or"):
            tries(world, act, CODEX, task)
    world.clock.tick(THRESHOLD)
    tries(world, Act.CLAIM, CODEX, task)
    tries(world, Act.READ, CODEX, task)


def hands_on(world: World, by: Caller, **given: object) -> str:
    """What a person registered for builders, one claimed, and hands on to testers."""
    task = registers(world, PERSON, role="builder")
    world.call("task_claim", by, task_id=task, **given)
    world.call("task_handoff", by, task_id=task, to="tester")
    return task


def test_who_registered_what_is_queued_calls_it_off(world: World) -> None:
    task = queues(world)

    world.call("task_update", CLAUDE, task_id=task, message="Not needed any more.")
    assert world.call("task_cancel", CLAUDE, task_id=task)["status"] == "cancelled"


@pytest.mark.parametrize(("by", "given"), [(CLAUDE, {"role": "builder"}), (BUILDER, {})])
def test_who_handed_a_task_on_leaves_notes_until_it_is_claimed(
    world: World, by: Caller, given: dict[str, str]
) -> None:
    task = hands_on(world, by, **given)

    world.call("task_update", by, task_id=task, message="Mind the date.")

    with pytest.raises(NotAllowed):
        world.call("task_update", C, task_id=task, message="Mind me.")
    world.call("task_claim", CODEX, task_id=task, role="tester")
    with pytest.raises(NotAllowed):
        world.call("task_update", by, task_id=task, message="And the tag.")


@pytest.mark.parametrize(
    ("caller", "role", "who"),
    [
        (CLAUDE_TOO, None, "another process of claude-code"),
        (CODEX, None, "a process of claude-code"),
        (CODEX, "writer", "writer, a process of claude-code"),
    ],
)
def test_a_refusal_tells_of_which_host_the_holder_is(
    world: World, caller: Caller, role: str | None, who: str
) -> None:
    task = registers(world, CLAUDE)
    world.call("task_claim", CLAUDE, task_id=task, **({"role": role} if role else {}))

    with pytest.raises(NotAllowed, match=f"is held by {who}, so you may not cancel it"):
        world.call("task_cancel", caller, task_id=task)
    with pytest.raises(RunHeld) as refused:
        world.call("task_update", caller, task_id=task, completed_steps=[1])
    assert "token of your claim" not in str(refused.value)


def test_no_agent_of_another_role_is_told_to_claim_what_was_left(world: World) -> None:
    task = leave_running(world)

    for act in (Act.READ, Act.CLAIM):
        with pytest.raises((NotAllowed, RunHeld)) as refused:
            tries(world, act, C, task)
        assert "task_claim" not in str(refused.value)


def test_session_key_does_not_reach_another_gateways_task(world: World) -> None:
    theirs = registers(world, ONE)
    with pytest.raises(TaskNotFound):
        world.call("task_status", TWO)
    own = registers(world, TWO)
    world.call("task_update", ONE, task_id=theirs, message="The latest.")

    assert world.call("task_status", TWO)["task_id"] == own
    assert gateway_reports.build_reminder(world.context, "agent:main:a", host="openclaw:two") == (
        gateway_reports.build_reminder(world.context, "agent:main:a", host=TWO.host, task_id=own)
    )
    listed = user_actions.list_chat_tasks(world.context, "agent:main:a", TWO.host)
    assert [each.task.task_id for each in listed] == [own]


@pytest.mark.parametrize("prepare", [lambda world: registers(world, ONE), frees])
def test_a_turn_of_another_gateway_takes_up_nothing_of_its_key(
    world: World, prepare: Callable[[World], str]
) -> None:
    task = prepare(world)
    before = read_all_rows(world.store)
    heard = ReportContext(owner=TWO.owner)

    turns.record_turn_start(world.context, heard, Origin.TASKMEM)
    call = CallStartEntry(call_id="1", tool="exec", about="make")
    assert not turns.record_call_start(world.context, heard, call)
    turns.settle_turn_end(world.context, heard, Turn(origin=Origin.TASKMEM, calls=1))

    assert read_all_rows(world.store) == before
    turns.record_turn_start(world.context, ReportContext(owner=ONE.owner), Origin.TASKMEM)
    run = world.store.read_task(task).run
    assert run is not None
    assert run.owner == ONE.owner


@pytest.mark.parametrize(("by", "to"), [(A, TWO), (ONE, A)])
def test_unnamed_gateways_share_the_session_of_the_same_key(
    world: World, by: Caller, to: Caller
) -> None:
    task = registers(world, by)

    world.call("task_update", to, task_id=task, completed_steps=[1])

    assert world.store.read_task(task).task.done == {0}


def test_who_reopens_what_another_gateways_agent_ended_holds_it(world: World) -> None:
    worker = in_gateway("builder", "agent:builder:main", "two")
    task = registers(world, ONE, role="builder")
    world.call("task_claim", worker, task_id=task)
    world.call("task_update", worker, task_id=task, status="failed")

    world.call("task_update", ONE, task_id=task, status="active")

    world.call("task_update", ONE, task_id=task, completed_steps=[1])
    with pytest.raises(REFUSED):
        world.call("task_update", worker, task_id=task, completed_steps=[2])
