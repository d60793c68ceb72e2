"""Agents that no wake reaches: what they are told, and what becomes of their wakes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.changes.waits import POLL_PATIENCE, PolledState
from openclaw_taskmem.domain.views.timeline import tell_event
from openclaw_taskmem.engine import run_recovery, waits, wakes
from openclaw_taskmem.tools import views
from taskmem_hookspecs import (
    Change,
    EventQuery,
    InvalidArguments,
    Wait,
    WaitNotFound,
    WaitStatus,
    WakeState,
)
from taskmem_hookspecs.errors import NotAllowed
from taskmem_hookspecs.testing import a_wake
from tests.support.rows import find_next_wake_due
from tests.support.sessions import Session
from tests.support.world import PERSON, World

SESSION = "agent:main:main"
GATEWAY = Caller(session_key=SESSION, host="openclaw")
CLAUDE = Caller(host="mcp:claude-code")
CODEX = Caller(host="mcp:codex")


def reaches(host: str | None, session_key: str | None) -> bool:
    """As `auto` does: OpenClaw's own agents, in a session that is known."""
    return session_key is not None and host in (None, "openclaw")


@pytest.fixture
def world() -> World:
    return World(reaches=reaches, command="taskmem")


def open_wait(world: World, caller: Caller, **given: Any) -> dict[str, Any]:
    return world.call("smart_wait", caller, target="pty:build", wake_when="it ends", **given)


def end(world: World, wait_id: str) -> Wait:
    world.end_wait(world.store.read_wait(wait_id))
    return world.store.read_wait(wait_id)


def states(world: World) -> list[WakeState]:
    return [wake.state for wake in world.wakes()]


# --- what is promised -------------------------------------------------------------


def test_who_can_be_woken_is_promised_that(world: World) -> None:
    answer = open_wait(world, GATEWAY)

    assert "I'll wake you when: it ends. " in answer["message"]
    assert "End your turn now." in answer["message"]
    assert "command" not in answer


@pytest.mark.parametrize("caller", [CLAUDE, PERSON])
def test_who_cannot_be_woken_is_given_a_command(world: World, caller: Caller) -> None:
    answer = open_wait(world, caller)

    assert answer["command"] == f"taskmem wait {answer['wait_id']}"
    assert "wake you" not in answer["message"]
    assert "End your turn now" not in answer["message"]


@pytest.mark.parametrize(("caller", "woken"), [(GATEWAY, True), (CLAUDE, False), (PERSON, False)])
def test_who_registers_a_task_is_promised_what_can_be(
    world: World, caller: Caller, *, woken: bool
) -> None:
    answer = world.call("task_register", caller, name="Deploy", plan=["Build"])

    assert ("you are woken" in answer["message"]) is woken
    assert ("no wake can reach you" in answer["message"]) is not woken


def test_a_wait_that_is_sent_back_promises_no_more(world: World) -> None:
    wait_id = open_wait(world, CLAUDE)["wait_id"]

    answer = world.call("wait_update", CLAUDE, wait_id=wait_id, timeout=60)

    assert answer["command"] == f"taskmem wait {wait_id}"
    assert "End your turn now" not in answer["message"]


def test_no_other_host_names_a_session_of_a_gateway(world: World) -> None:
    with pytest.raises(NotAllowed) as refused:
        open_wait(world, CLAUDE, session_key=SESSION)

    assert str(refused.value) == (
        "agent:main:main is a session of OpenClaw, and this call comes from "
        "claude-code; leave session_key out."
    )


def test_a_session_of_its_own_is_any_hosts_to_name(world: World) -> None:
    wait_id = open_wait(world, CLAUDE, session_key="thread-1")["wait_id"]

    wait = world.store.read_wait(wait_id)
    assert (wait.host, wait.session_key) == (CLAUDE.host, "thread-1")


def test_an_agent_of_a_gateway_names_no_session_but_its_own(world: World) -> None:
    open_wait(world, GATEWAY, session_key=SESSION)
    with pytest.raises(NotAllowed) as refused:
        open_wait(world, GATEWAY, session_key="agent:main:other")

    assert str(refused.value) == (
        "agent:main:other is not the session of this call; leave session_key out, for "
        "the host says which it is."
    )


def test_where_a_way_leads_there_a_host_names_a_gateways_session() -> None:
    world = World()

    bundled = Caller(host="mcp:bundled")
    wait_id = open_wait(world, bundled, session_key=SESSION)["wait_id"]

    wait = world.store.read_wait(wait_id)
    assert wait.session_key == SESSION


NAMED = {"session_key": "build-bot"}


@pytest.mark.parametrize(
    ("tool", "given", "why"),
    [
        ("task_update", {"query": "Where?"}, "belongs to another session"),
        ("task_update", {"message": "Done."}, "belongs to another session"),
        ("task_cancel", {}, "belongs to another session"),
        ("wait_cancel", {}, "is a wait of another session"),
    ],
)
def test_no_host_becomes_a_persons_session_by_naming_it(
    world: World, tool: str, given: dict[str, str], why: str
) -> None:
    made = {"name": "Deploy", "plan": ["Build"], **NAMED}
    task_id = str(world.call("task_register", PERSON, **made)["task_id"])
    wait_id = open_wait(world, PERSON, task_id=task_id, **NAMED)["wait_id"]
    which = {"wait_id": wait_id} if tool == "wait_cancel" else {"task_id": task_id}

    with pytest.raises(NotAllowed, match=why):
        world.call(tool, CODEX, **which, **given, **NAMED)

    assert world.call("task_list", CODEX, status="all", **NAMED)["tasks"] == []
    world.call(tool, PERSON, **which, **given, **NAMED)


def test_where_a_way_leads_there_a_host_goes_on_for_a_session() -> None:
    world = World()
    made = {"name": "Deploy", "plan": ["Build"], **NAMED}
    task_id = str(world.call("task_register", PERSON, **made)["task_id"])

    world.call("task_update", CODEX, task_id=task_id, message="Built.", **NAMED)

    assert world.thread(task_id)[-1][-1] == "Built."


def test_a_task_that_another_host_left_goes_on_in_no_gateway(world: World) -> None:
    task = world.call("task_register", CLAUDE, name="Deploy", plan=["Build"])
    task_id = str(task["task_id"])
    world.call("task_update", CLAUDE, task_id=task_id, status="failed")
    there = world.task(task_id).model_copy(update={"session_key": SESSION})
    world.store.commit(Change(tasks=(there,)))

    world.call("task_resume", PERSON, task_id=task_id)

    assert world.deliver() == []


# --- whose wakes are whose ---------------------------------------------------------


def test_a_wait_on_anothers_task_wakes_who_asked_or_nobody(world: World) -> None:
    given = {"name": "Deploy", "plan": ["Build"]}
    task_id = world.call("task_register", GATEWAY, **given)["task_id"]
    with pytest.raises(NotAllowed, match="so you may not wait for it; leave task_id out"):
        open_wait(world, CLAUDE, task_id=task_id)
    # One whose agent went on with the task elsewhere is told by nobody there.
    theirs = open_wait(world, CLAUDE)["wait_id"]
    wait = world.store.read_wait(theirs).model_copy(update={"task_id": task_id})
    world.store.commit(Change(waits=(wait,)))
    end(world, theirs)
    assert world.deliver() == []

    end(world, open_wait(world, PERSON, task_id=task_id)["wait_id"])
    (wake,) = world.deliver()
    assert (wake.host, wake.session_key) == ("openclaw", SESSION)


def test_a_silent_task_of_another_host_wakes_nobody(world: World) -> None:
    world.call("task_register", CLAUDE, name="Deploy", plan=["Build"])

    assert world.pass_time(7200) == []
    assert states(world) == [WakeState.DUE]


def test_a_task_is_the_first_agents_whose_session_is_known(world: World) -> None:
    given = {"name": "Deploy", "plan": ["Build"]}
    task_id = world.call("task_register", PERSON, **given)["task_id"]
    hosts: list[tuple[str | None, str | None]] = []
    for caller in (PERSON, CODEX, PERSON):
        world.call("task_update", caller, task_id=task_id, message="Built.")
        hosts.append((world.task(task_id).host, world.task(task_id).session_key))

    assert hosts == [(None, None), ("mcp:codex", None), ("mcp:codex", None)]
    with pytest.raises(NotAllowed, match="belongs to an agent of codex, so you may"):
        world.call("task_update", CLAUDE, task_id=task_id, message="Built.")


def test_a_session_that_claims_a_task_is_the_one_that_is_woken(world: World) -> None:
    given = {"name": "Deploy", "plan": ["Build"], "role": "agent"}
    task_id = world.call("task_register", CLAUDE, **given)["task_id"]

    world.call("task_claim", GATEWAY, task_id=task_id)

    task = world.task(task_id)
    assert (task.host, task.session_key) == ("openclaw", SESSION)


def test_who_sends_a_wait_back_is_the_one_that_is_woken(world: World) -> None:
    given = {"name": "Deploy", "plan": ["Build"]}
    task_id = world.call("task_register", GATEWAY, **given)["task_id"]
    wait_id = open_wait(world, PERSON, task_id=task_id)["wait_id"]
    end(world, wait_id)
    world.deliver()
    again = {"wait_id": wait_id, "timeout": 60}

    assert "command" not in world.call("wait_update", GATEWAY, **again)
    world.call("wait_update", PERSON, **again)
    end(world, wait_id)

    (wake,) = world.deliver()
    assert (wake.host, wake.session_key) == ("openclaw", SESSION)


def test_who_goes_on_with_a_task_is_woken_by_a_wait_that_it_arms(world: World) -> None:
    first, second = (Session(world, key=f"agent:main:{name}") for name in "ab")
    task_id = first.register()
    target = {"target": "pty:build", "wake_when": "it ends"}
    wait_id = first.call("smart_wait", task_id=task_id, **target)["wait_id"]
    first.call("task_handoff", task_id=task_id, to="main")
    second.call("task_claim", task_id=task_id)
    there = second.caller.model_copy(update={"host": "openclaw"})
    world.call("wait_update", there, wait_id=wait_id, timeout=60)
    wait = end(world, wait_id)

    assert wait.session_key == second.key


@pytest.mark.parametrize(("tool", "given"), [("wait_cancel", {}), ("wait_update", {"timeout": 60})])
@pytest.mark.parametrize(
    "other", [CLAUDE, CODEX, GATEWAY.model_copy(update={"session_key": "agent:b:main"})]
)
def test_a_wait_is_changed_by_nobody_elses_agent(
    world: World, other: Caller, tool: str, given: dict[str, int]
) -> None:
    wait_id = open_wait(world, GATEWAY)["wait_id"]
    before = world.store.read_wait(wait_id)

    with pytest.raises(NotAllowed) as refused:
        world.call(tool, other, wait_id=wait_id, **given)

    assert str(refused.value) == (
        f"{wait_id} is a wait of another session, so you may not change it; start your "
        "own with smart_wait, or let the user do it with taskmem call."
    )
    assert world.store.read_wait(wait_id) == before


# --- what stays, and is fetched ----------------------------------------------------


def test_what_reaches_nobody_stays_and_is_not_tried_again(world: World) -> None:
    wait = end(world, open_wait(world, CLAUDE)["wait_id"])
    assert world.deliver() == []

    (kept,) = world.wakes()
    assert (kept.state, kept.due_at, kept.attempts) == (WakeState.DUE, None, 0)
    (shown,) = views.list_wakes(world.context, {}, lambda _: None)
    assert isinstance(shown, dict)
    assert shown["held"] == (
        f"no way to reach Claude Code; its agent reads it with taskmem wait {wait.wait_id}"
    )
    assert views.count_unsent(world.context) == 0
    assert find_next_wake_due(world.store) is None


def test_what_was_kept_goes_out_once_a_daemon_starts_with_a_way(world: World) -> None:
    end(world, open_wait(world, CLAUDE)["wait_id"])
    assert world.deliver() == []

    run_recovery.release_wakes(world.context)
    assert world.deliver() == []
    world.context = replace(world.context, reaches=lambda host, session: True)
    run_recovery.release_wakes(world.context)

    assert [wake.host for wake in world.deliver()] == [CLAUDE.host]


@pytest.mark.parametrize("before", ["never", "once"])
@pytest.mark.parametrize(("opened", "tried"), [("s-1", True), ("s-2", False), (None, False)])
def test_what_failed_to_reach_a_session_is_tried_as_it_opens(
    world: World, before: str, opened: str | None, *, tried: bool
) -> None:
    world.context = replace(world.context, reaches=lambda host, session: True)
    end(world, open_wait(world, CLAUDE.model_copy(update={"session_key": "s-1"}))["wait_id"])
    if before == "once":
        assert len(world.deliver()) == 1
        world.clock.tick(600)
    (failing,) = world.claim()
    wakes.settle_failed(world.context, failing, "its session was closed", retry_seconds=300)
    assert world.deliver() == []

    run_recovery.release_wakes(world.context, opened)

    assert len(world.deliver()) == tried


@pytest.mark.parametrize(
    ("transport", "opened_after", "session", "again"),
    [
        ("claude-inbox", 1, "s-1", True),
        ("claude-inbox", -1, "s-1", False),
        ("claude-inbox", None, "s-1", False),
        ("claude-inbox", 1, "s-2", False),
        ("codex-queue", 1, "s-1", False),
    ],
)
def test_what_a_session_had_not_read_is_told_to_its_next_process(
    world: World, transport: str, opened_after: float | None, session: str, *, again: bool
) -> None:
    reached = replace(world.context, reaches=lambda host, session: True)
    world.context = replace(reached, volatile_transports={"claude-inbox"})
    end(world, open_wait(world, CLAUDE.model_copy(update={"session_key": "s-1"}))["wait_id"])
    (sent,) = world.claim()
    wakes.settle_delivered(world.context, sent, transport)
    opened = None
    if opened_after is not None:
        opened = world.clock.now() + timedelta(seconds=opened_after)
    world.clock.tick(5)

    run_recovery.release_wakes(world.context, session, opened)

    assert len(world.deliver()) == again


def test_a_session_that_is_closed_and_opened_is_sent_no_more(world: World) -> None:
    open_, closed = (replace(world.context, reaches=lambda *_, r=r: r) for r in (True, False))
    end(world, open_wait(world, CLAUDE)["wait_id"])
    sent, sends = 0, world.context.policies.outbox.sends
    for _ in range(2 * sends):
        world.context = open_
        run_recovery.release_wakes(world.context)
        sent += len(world.deliver())
        world.clock.tick(3600)
        world.context = closed
        assert world.deliver() == []
    (wake,) = world.wakes()
    assert (sent, wake.state, wake.due_at) == (sends, WakeState.UNANSWERED, None)


@pytest.mark.parametrize("looked", [False, True], ids=["at once", "later"])
def test_fetching_the_end_acknowledges_its_wake(world: World, *, looked: bool) -> None:
    wait_id = open_wait(world, CLAUDE)["wait_id"]
    assert waits.fetch_end(world.context, wait_id) is None
    end(world, wait_id)
    (wake,) = world.wakes()
    if looked:
        world.deliver()

    ended = waits.fetch_end(world.context, wait_id)

    assert ended is not None
    assert (ended.wait.status, ended.text) == (WaitStatus.RESOLVED, wake.text)
    assert states(world) == [WakeState.ACKNOWLEDGED]
    [*_, logged] = world.store.find_events(EventQuery())
    assert tell_event(logged) == "taskmem wait told how it ended"
    assert waits.fetch_end(world.context, wait_id) == ended


def test_fetching_a_wait_keeps_its_promised_wake(world: World) -> None:
    wait_id = open_wait(world, GATEWAY)["wait_id"]
    end(world, wait_id)

    assert waits.fetch_end(world.context, wait_id) is not None

    assert [wake.session_key for wake in world.deliver()] == [SESSION]


def test_the_end_of_an_unknown_wait_is_refused(world: World) -> None:
    with pytest.raises(WaitNotFound):
        waits.fetch_end(world.context, "wait_unknown")


@pytest.mark.parametrize(
    ("caller", "state"),
    [(CLAUDE, WakeState.ACKNOWLEDGED), (CODEX, WakeState.DUE)],
    ids=["its-own", "another"],
)
def test_a_kept_wake_is_read_with_a_query_of_its_host(
    world: World, caller: Caller, state: WakeState
) -> None:
    task_id = world.register()
    end(world, open_wait(world, CLAUDE, task_id=task_id)["wait_id"])
    world.deliver()

    world.call("task_update", caller, task_id=task_id, query="How does it stand?")

    assert states(world) == [state]


def test_a_kept_wake_ends_with_its_task(world: World) -> None:
    task_id = str(world.call("task_register", CLAUDE, name="Deploy", plan=["a"])["task_id"])
    end(world, open_wait(world, CLAUDE, task_id=task_id)["wait_id"])
    world.deliver()
    world.call("task_update", PERSON, task_id=task_id, message="Still at it.")
    assert states(world) == [WakeState.DUE]

    world.call("task_update", PERSON, task_id=task_id, status="cancelled")

    assert states(world) == [WakeState.SUPERSEDED]


def test_a_wake_is_shown_by_its_id(world: World) -> None:
    task_id = world.register()
    end(world, open_wait(world, CLAUDE, task_id=task_id)["wait_id"])
    world.deliver()
    (wake,) = world.wakes()

    shown = views.show_by_id(world.context, wake.wake_id)

    assert (shown["wake_id"], shown["text"]) == (wake.wake_id, wake.text)
    assert f"or with its next query of {task_id}" in str(shown["held"])
    with pytest.raises(InvalidArguments, match="no wake wake_9"):
        views.show_by_id(world.context, "wake_9")


def test_a_wake_whose_time_has_not_come_is_not_counted_as_due(world: World) -> None:
    now = world.clock.now()
    dues = (now, now + timedelta(minutes=5), None)
    wakes = tuple(a_wake(wake_id=f"wake_{n}", due_at=at) for n, at in enumerate(dues))
    world.context.commit(Change(wakes=wakes))

    counted = views.summarize_store(world.context)["wakes"]

    assert isinstance(counted, dict)
    assert {counted[state] for state in ("due", "planned", "kept")} == {1}
    assert counted["sent"] == 0


# --- whose host asks, since it was answered as a task of MCP ------------------------


ASKS = CODEX.model_copy(update={"session_key": "thread-1", "polls": True})


def poll(world: World, wait_id: str) -> PolledState:
    return waits.poll_wait(world.context, wait_id, ASKS).state


def test_who_asks_is_promised_the_end_and_told_it_once(world: World) -> None:
    world.context = replace(world.context, reaches=lambda host, session: True)
    answer = open_wait(world, ASKS)
    wait_id = answer["wait_id"]
    assert "I'll wake you when: it ends. " in answer["message"]
    assert poll(world, wait_id) is PolledState.WORKING

    end(world, wait_id)
    assert world.deliver() == []
    [wake] = world.wakes()
    ended = waits.poll_wait(world.context, wait_id, ASKS)

    assert (ended.state, ended.text) == (PolledState.COMPLETED, wake.text)
    assert states(world) == [WakeState.ACKNOWLEDGED]
    assert waits.poll_wait(world.context, wait_id, ASKS) == ended
    world.clock.tick(POLL_PATIENCE.total_seconds())
    assert world.deliver() == []


def test_another_session_that_asks_is_told_nothing(world: World) -> None:
    wait_id = open_wait(world, ASKS)["wait_id"]
    end(world, wait_id)
    for changed in ({"session_key": "thread-2"}, {"host": "mcp:other", "session_key": None}):
        with pytest.raises(NotAllowed):
            waits.poll_wait(world.context, wait_id, ASKS.model_copy(update=changed))

    assert states(world) == [WakeState.DUE]
    assert poll(world, wait_id) is PolledState.COMPLETED


def test_who_does_not_ask_any_more_is_sent_a_message(world: World) -> None:
    world.context = replace(world.context, reaches=lambda host, session: True)
    wait_id = open_wait(world, ASKS)["wait_id"]
    end(world, wait_id)
    world.clock.tick(POLL_PATIENCE.total_seconds())

    assert [wake.session_key for wake in world.deliver()] == [ASKS.session_key]

    polled = waits.poll_wait(world.context, wait_id, ASKS)
    assert polled.state is PolledState.CANCELLED
    assert polled.text == "A message tells the agent how it ended."


def test_a_session_that_is_opened_again_may_ask_first(world: World) -> None:
    wait_id = open_wait(world, ASKS)["wait_id"]
    end(world, wait_id)
    world.clock.tick(POLL_PATIENCE.total_seconds())
    assert world.deliver() == []

    world.context = replace(world.context, reaches=lambda host, session: True)
    run_recovery.release_wakes(world.context)

    assert world.deliver() == []
    assert poll(world, wait_id) is PolledState.COMPLETED


@pytest.mark.parametrize(("opened_after", "told"), [(-1, 0), (1, 1)])
def test_a_process_that_has_started_since_does_not_ask_any_more(
    world: World, opened_after: float, told: int
) -> None:
    opened = world.clock.now() + timedelta(seconds=opened_after)
    end(world, open_wait(world, ASKS)["wait_id"])
    assert world.deliver() == []
    world.context = replace(world.context, reaches=lambda host, session: True)
    world.clock.tick(5)

    run_recovery.release_wakes(world.context, ASKS.session_key, opened)

    assert len(world.deliver()) == told


def test_the_command_takes_no_end_from_a_host_that_asks(world: World) -> None:
    wait_id = open_wait(world, ASKS)["wait_id"]
    end(world, wait_id)

    assert waits.fetch_end(world.context, wait_id) is not None

    assert states(world) == [WakeState.DUE]


def test_an_equal_call_that_is_answered_as_a_task_is_one(world: World) -> None:
    first = open_wait(world, ASKS.model_copy(update={"polls": False}))

    assert open_wait(world, ASKS)["wait_id"] == first["wait_id"]

    assert poll(world, first["wait_id"]) is PolledState.WORKING
