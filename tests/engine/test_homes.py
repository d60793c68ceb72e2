"""Two homes on one database, each with a gateway that has a session of the same key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import taskmem_evidence.hooks
from openclaw_taskmem.config import Settings
from openclaw_taskmem.daemon.person_calls import PersonCalls
from openclaw_taskmem.domain.callers import Caller, GatewayPresence
from openclaw_taskmem.domain.changes.continuation import Origin
from openclaw_taskmem.domain.errors import LimitReached, RunHeld
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.views.overview import UNHEARD_TEXT
from openclaw_taskmem.engine import (
    evidence,
    gateway_reports,
    notifications,
    run_guards,
    run_recovery,
    turns,
    wakes,
)
from openclaw_taskmem.engine.notifications import NotificationKind
from openclaw_taskmem.engine.overview import read_line, search_lines
from openclaw_taskmem.home import find_home
from openclaw_taskmem.tools import views
from taskmem_hookspecs import Owner, RunState, TaskQuery, WaitStatus, Wake, WakeState
from taskmem_hookspecs.errors import NotAllowed, TaskNotFound
from tests.support.memory_store import MemoryStore
from tests.support.sessions import MAIN, Session
from tests.support.world import PERSON, World

THRESHOLD = 300
DAY = timedelta(days=1)
LOOKS = [("evidence", taskmem_evidence.hooks)]
LEASE = 300


class Homely(Session):
    """A session that its gateway's daemon tells apart by its home."""

    @property
    def owner(self) -> Owner:
        home = self.world.context.store.scope
        return super().owner.model_copy(update={"home": home})

    @property
    def caller(self) -> Caller:
        return super().caller.model_copy(update={"home": self.world.context.store.scope})


@pytest.fixture
def here() -> Homely:
    return Homely(World(MemoryStore(), home="here", plugins=LOOKS))


@pytest.fixture
def there(here: Homely) -> Homely:
    store, clock = here.world.store, here.world.clock
    world = World(store, clock, home="there", plugins=LOOKS)
    numbers: Iterator[int] = iter(range(1, 1000))
    named = replace(world.context, new_id=lambda kind, _: f"{kind}_there_{next(numbers)}")
    world.context = named
    return Homely(world)


def due(session: Homely) -> list[Wake]:
    """What its daemon sends now."""
    return session.world.daemon()


def test_a_task_that_is_stuck_is_told_to_its_own_gateway_alone(here: Homely, there: Homely) -> None:
    task = here.world.register()
    here.world.clock.tick(THRESHOLD)

    assert there.world.sweep() == 0
    assert here.world.sweep() == 1
    assert there.world.deliver() == []
    assert [wake.task_id for wake in here.world.deliver()] == [task]


def test_a_daemon_rests_until_its_own_wakes_are_due(here: Homely, there: Homely) -> None:
    wait = here.world.open_wait(None)
    here.world.end_wait(wait)

    assert wakes.find_next_due(there.world.context, wakes.hold_nothing, DAY) is None
    now = here.world.clock.now()
    assert wakes.find_next_due(here.world.context, wakes.hold_nothing, DAY) == now


def test_what_a_wait_owes_goes_to_the_gateway_of_its_session(here: Homely, there: Homely) -> None:
    task = here.world.register(session_key=MAIN)
    wait = there.world.open_wait(task)
    there.world.end_wait(wait)

    assert due(there) == []
    assert [wake.wait_id for wake in due(here)] == [wait.wait_id]


def test_the_limit_of_messages_counts_those_of_its_own_home(here: Homely, there: Homely) -> None:
    for session in (here, there) * 4:
        wait = session.world.open_wait(None)
        session.world.end_wait(wait)
        assert len(due(session)) == 1


def test_a_turn_works_on_the_run_of_its_own_home(here: Homely, there: Homely) -> None:
    task = here.works()
    here.world.clock.tick(1)
    other = there.works()

    here.does("echo two")

    assert (here.run(task).progress.calls, here.run(other).progress.calls) == (2, 1)
    assert here.run(task).owner == here.owner
    here.ends("Done for now.")
    assert here.run(other).lease_until is not None
    assert here.run(task).limits.rounds == 1


def test_a_run_goes_on_in_its_own_home(here: Homely, there: Homely) -> None:
    task = here.works()
    here.ends("Half of it is done.")

    assert due(there) == []
    assert [wake.task_id for wake in due(here)] == [task]


def test_another_gateway_that_starts_anew_takes_nothing_back(here: Homely, there: Homely) -> None:
    task = here.works()
    before = here.run(task)

    there.settles(there.restarts("boot_2"))

    assert here.run(task) == before
    here.settles(here.restarts("boot_3"))
    assert here.run(task).state is RunState.QUEUED


def test_a_gateway_is_known_by_its_own_home(here: Homely, there: Homely) -> None:
    there.restarts("boot_1")
    wait = here.world.open_wait(None)
    here.world.end_wait(wait)
    here.world.deliver()
    [sent] = here.world.wakes(WakeState.SENT)
    assert sent.transport == "test"

    presence = GatewayPresence(
        boot="boot_1",
        transport="test",
        version="1",
        started_at=here.world.clock.now(),
        main_session=MAIN,
    )
    gateway_reports.handle_gateway_start(here.world.context, presence)

    [again] = here.world.wakes(WakeState.DUE)
    assert again.wake_id == sent.wake_id


def test_the_end_of_a_turn_says_nothing_of_another_homes_wakes(here: Homely, there: Homely) -> None:
    wait = here.world.open_wait(None)
    here.world.end_wait(wait)
    [delivery] = here.world.claim()
    [before] = here.world.wakes(WakeState.DUE)

    taken = [delivery.wakes[0].delivery_id or ""]
    gateway_reports.settle_turn_wakes(there.world.context, MAIN, taken, None)

    assert here.world.wakes(WakeState.DUE) == [before]
    gateway_reports.settle_turn_wakes(here.world.context, MAIN, taken, None)
    assert here.world.wakes(WakeState.DUE) == []


def test_a_session_is_reminded_of_the_task_of_its_own_home(here: Homely, there: Homely) -> None:
    task = here.world.register(session_key=MAIN)

    assert gateway_reports.build_reminder(there.world.context, MAIN) is None
    found = gateway_reports.build_reminder(here.world.context, MAIN)
    assert found is not None
    assert found[0] == task


def test_each_home_lets_go_of_its_own_implicit_tasks(here: Homely, there: Homely) -> None:
    for session in (here, there):
        session.request = "Bake."
        session.begins()
        for number in range(3):
            session.does(f"bake loaf {number}")
    here.world.clock.tick(8 * DAY.total_seconds())
    run_recovery.drop_old_checkpoints(here.world.context)
    left = here.world.store.find_tasks(TaskQuery(implicit=True))
    assert [task.home for task in left] == ["there"]


def test_a_session_takes_up_nothing_of_another_home(here: Homely, there: Homely) -> None:
    task = here.works()
    here.world.call("task_update", PERSON, task_id=task, status="paused")

    with pytest.raises(TaskNotFound, match="Your session has no task, so give a task_id"):
        there.call("task_resume")
    with pytest.raises(RunHeld, match="in another session, so you may not take it up"):
        there.call("task_resume", task_id=task)
    assert here.call("task_resume")["task_id"] == task


@pytest.mark.parametrize("tool", ["task_cancel", "task_reset"])
def test_nobody_of_another_home_takes_a_run_from_its_holder(
    here: Homely, there: Homely, tool: str
) -> None:
    task = here.works()

    with pytest.raises(NotAllowed, match="in another session"):
        there.call(tool, task_id=task)
    here.call(tool, task_id=task)


def test_nobody_of_another_home_answers_for_who_was_woken(here: Homely, there: Homely) -> None:
    task = here.world.register(session_key=MAIN)
    here.world.clock.tick(THRESHOLD)
    due(here)

    with pytest.raises(NotAllowed, match="belongs to another session"):
        there.call("task_update", task_id=task, query="Where does it stand?")

    assert len(here.world.wakes(WakeState.SENT)) == 1
    here.call("task_update", task_id=task, query="Where does it stand?")
    assert len(here.world.wakes(WakeState.ACKNOWLEDGED)) == 1


def test_nobody_of_another_home_writes_for_a_run(here: Homely, there: Homely) -> None:
    task = here.works()

    with pytest.raises(RunHeld, match="is held by main"):
        there.call("task_update", task_id=task, status="completed")


def test_call_budget_of_a_session_comes_from_its_own_home(here: Homely, there: Homely) -> None:
    here.takes_up(segmented=True)

    assert turns.find_step_budget(there.world.context, there.owner) is None
    assert turns.find_step_budget(here.world.context, here.owner) is not None


def test_an_answer_is_held_back_for_the_task_of_its_own_home(
    here: Homely, there: Homely, tmp_path: Path
) -> None:
    here.folder = str(tmp_path)
    task = here.takes_up(plan=["Write report.md"])
    here.does("echo one")
    said = "I saved the report to report.md."

    assert evidence.find_doubt_in_answer(there.world.context, there.owner, said) is None
    found = evidence.find_doubt_in_answer(here.world.context, here.owner, said)
    assert found is not None
    assert found[0] == task


def test_background_limit_counts_only_runs_of_its_own_home(here: Homely, there: Homely) -> None:
    for number in range(here.world.context.policies.runs.background):
        other = replace(there, key=f"agent:main:{number}")
        other.call("task_background", task_id=other.works())

    task = here.works()
    here.call("task_background", task_id=task)

    assert here.run(task).told_session == MAIN


def test_background_limit_holds_whatever_runs_other_homes_have(
    here: Homely, there: Homely, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_guards, "MOST_RUNS", 2)
    here.call("task_background", task_id=here.works())
    task = here.works()
    for number in range(run_guards.MOST_RUNS):
        here.world.clock.tick(1)
        replace(there, key=f"agent:main:{number}").works()

    with pytest.raises(LimitReached):
        here.call("task_background", task_id=task)


def test_a_run_that_is_claimed_from_another_home_goes_on_there(here: Homely, there: Homely) -> None:
    task = here.works()
    here.world.call("task_reset", PERSON, task_id=task)

    there.call("task_claim", task_id=task, role="main")

    held = here.run(task)
    assert (held.home, held.owner) == ("there", there.owner)
    # So do the wakes of its task, though both sessions have the same key.
    assert here.world.task(task).home == "there"
    assert due(here) == []
    there.does("echo two")
    assert here.run(task).progress.calls == 2
    there.ends("Half of it is done.")
    assert due(here) == []
    assert [wake.task_id for wake in due(there)] == [task]


def lies_there(here: Homely, there: Homely) -> str:
    """Register a task here that is claimed there, and handed on to a role; its id."""
    task = str(here.register(role="main"))
    holder = there.caller.model_copy(update={"host": "openclaw:there"})
    there.world.call("task_claim", holder, task_id=task, role="main")
    there.world.call("task_handoff", holder, task_id=task, to="tester")
    assert here.world.task(task).home == "there"
    here.world.clock.tick(THRESHOLD)
    return task


def test_unclaimed_task_in_another_home_wakes_its_registrar(here: Homely, there: Homely) -> None:
    task = lies_there(here, there)

    assert due(there) == []
    assert [wake.task_id for wake in due(here)] == [task]


def test_unclaimed_task_in_another_home_notifies_its_registrar(here: Homely, there: Homely) -> None:
    lies_there(here, there)
    there.world.context = replace(there.world.context, reaches=lambda *_: False)

    there.world.sweep()

    lines = {
        session.world.context.store.home: notifications.find_due_events(
            session.world.context, NotificationKind.LINES, 0
        )[0]
        for session in (here, there)
    }
    told = {
        home: [e.data["session_key"] for e in said if e.kind == "notice"]
        for home, said in lines.items()
    }
    assert told == {"here": [MAIN], "there": []}


def test_lease_is_swept_by_its_own_home_while_its_daemon_lives(here: Homely, there: Homely) -> None:
    task = here.works()
    here.world.clock.tick(LEASE + 1)

    assert run_recovery.sweep_lapsed_runs(there.world.context, ()) == 0
    assert here.run(task).state is RunState.RUNNING
    here.world.clock.tick(run_recovery.ABANDONED_AGE.total_seconds())
    assert run_recovery.sweep_lapsed_runs(there.world.context, ()) == 1
    assert here.run(task).state is RunState.QUEUED


def test_wait_of_an_absent_home_ends_and_its_wake_is_kept(here: Homely, there: Homely) -> None:
    wait = here.world.open_wait(None)
    there.world.end_wait(wait, WaitStatus.TIMEOUT, "Nobody watched.")

    assert due(there) == []
    assert [wake.wait_id for wake in due(here)] == [wait.wait_id]


def test_a_wake_under_way_at_a_kill_waits_for_its_lease(here: Homely) -> None:
    here.world.end_wait(here.world.open_wait(None))
    assert len(here.world.claim()) == 1

    run_recovery.release_wakes(here.world.context)
    here.world.clock.tick(here.world.context.policies.outbox.claim_seconds - 1)
    assert here.world.claim() == []

    here.world.clock.tick(1)
    assert len(here.world.claim()) == 1


def test_a_daemon_that_starts_leaves_a_rest_that_was_asked_for(here: Homely) -> None:
    here.world.context.store.sole = True
    here.works()
    here.ends("", error="overloaded", reason="passing")
    [rests] = here.world.wakes(WakeState.DUE)
    assert rests.due_at is not None
    assert rests.due_at > here.world.clock.now()

    run_recovery.release_wakes(here.world.context)

    assert here.world.wakes(WakeState.DUE) == [rests]


def test_what_found_no_way_out_is_counted_by_its_own_home(here: Homely, there: Homely) -> None:
    there.world.end_wait(there.world.open_wait(None))
    [delivery] = there.world.claim()
    wakes.settle_failed(there.world.context, delivery, "gateway down")

    assert views.count_unsent(there.world.context) == 1
    assert views.count_unsent(here.world.context) == 0


def test_fast_clock_of_another_home_reschedules_nothing_here(here: Homely, there: Homely) -> None:
    here.works()
    here.ends("", error="overloaded", reason="passing")
    [rests] = here.world.wakes(WakeState.DUE)
    run_recovery.reschedule_tasks(here.world.context)
    here.world.clock.tick(5)
    there.works()
    there.ends("Half of it is done.")
    here.world.clock.jump(-5)

    assert run_recovery.reschedule_tasks(here.world.context) == 0

    assert rests in here.world.wakes(WakeState.DUE)
    here.world.clock.jump(-5)
    assert run_recovery.reschedule_tasks(here.world.context) == 1


def test_session_finds_its_task_after_much_work_by_others(here: Homely, there: Homely) -> None:
    task = here.world.register(session_key=MAIN)
    for session in (here, there):
        for number in range(201):
            session.world.clock.tick(1)
            session.world.register(f"{number}", session_key="agent:dev:main")

    assert here.call("task_status")["task_id"] == task
    assert (gateway_reports.build_reminder(here.world.context, MAIN) or "")[0] == task


def test_what_other_homes_owe_hides_nothing_of_this_one(
    here: Homely, there: Homely, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = here.works()
    wait = here.world.open_wait(None)
    here.world.end_wait(wait)
    reached = here.world.context
    here.world.context = replace(reached, reaches=lambda *_: False)
    assert here.world.claim() == []
    here.world.context = reached
    for _ in range(2):
        here.world.clock.tick(1)
        there.works()
        there.world.end_wait(there.world.open_wait(None))
    for module, most in ((run_recovery, "MOST_ROWS"),):
        monkeypatch.setattr(module, most, 1)
    before = here.run(task)

    run_recovery.release_wakes(here.world.context)
    here.restarts("boot_2")

    due = {wake.wait_id: wake.due_at for wake in here.world.wakes(WakeState.DUE)}
    assert due[wait.wait_id] == here.world.clock.now()
    assert here.run(task) != before
    [delivery] = here.world.claim()
    gateway_reports.settle_turn_wakes(here.world.context, MAIN, [delivery.delivery_id], None)
    assert wait.wait_id not in {w.wait_id for w in here.world.wakes(WakeState.DUE)}


def test_each_home_schedules_its_tasks_by_its_own_settings(here: Homely, there: Homely) -> None:
    here.world.register()
    there.world.register()
    run_recovery.reschedule_tasks(here.world.context)
    run_recovery.reschedule_tasks(there.world.context)
    eager = World(
        here.world.store,
        here.world.clock,
        stuck=here.world.context.policies.stuck.model_copy(update={"threshold_seconds": 10}),
        home="here",
    )

    assert run_recovery.reschedule_tasks(eager.context) == 1
    assert run_recovery.reschedule_tasks(there.world.context) == 0
    due_in = sorted(
        (task.home or "", task.stuck_due_at - here.world.clock.now())
        for task in here.world.store.find_tasks(TaskQuery(implicit=False))
        if task.stuck_due_at
    )
    assert due_in == [("here", timedelta(seconds=10)), ("there", timedelta(seconds=THRESHOLD))]


def test_home_alone_in_its_database_sweeps_all_tasks(here: Homely) -> None:
    here.world.register()
    here.world.clock.tick(THRESHOLD)
    alone = World(here.world.store, here.world.clock, home="restored", sole=True)

    assert len(alone.daemon()) == 1


def test_a_heartbeat_of_one_gateway_is_none_of_the_others(here: Homely, there: Homely) -> None:
    task = here.works()
    before = here.run(task).seen_at
    here.world.clock.tick(9)

    turns.claim_or_renew_run(there.world.context, there.reported_session)
    assert there.begins(Origin.RECOVERY)

    assert here.run(task).seen_at == before


def test_home_serves_only_itself_once_another_joins_its_database(
    here: Homely, there: Homely
) -> None:
    here.world.context.store.sole = True
    here.world.context.store.join_database()
    assert here.world.context.store.serves("there")

    there.world.context.store.join_database()
    there.works()
    there.ends("Half of it is done.")
    assert len(there.world.claim()) == 1
    here.world.context.store.join_database()
    run_recovery.release_wakes(here.world.context)

    assert here.world.claim() == []
    assert not here.world.context.store.serves("there")


def test_start_noted_by_a_sole_home_counts_once_others_join(here: Homely, there: Homely) -> None:
    here.world.context.store.sole = True
    here.restarts("boot_2")
    run_recovery.reschedule_tasks(here.world.context)
    wait = here.world.open_wait(None)
    here.world.end_wait(wait)
    [delivery] = here.world.claim()
    wakes.settle_delivered(here.world.context, delivery, "openclaw-plugin")

    here.world.context.store.sole = False
    here.restarts("boot_2")

    assert here.world.wakes(WakeState.DUE) == []
    here.restarts("boot_3")
    assert len(here.world.wakes(WakeState.DUE)) == 1


# --- processes of two machines ---------------------------------------------------


def caller_of_process(session: Homely, process: str) -> Caller:
    """A process that calls the home's daemon."""
    home = session.world.context.store.scope
    owner = Owner(role="agent", process=process, home=home)
    return Caller(process=process, owner=owner, home=home)


def test_process_number_of_another_home_is_another_process(here: Homely, there: Homely) -> None:
    task = here.world.register()
    here.world.call("task_claim", caller_of_process(here, "412:1203"), task_id=task)

    with pytest.raises(RunHeld):
        there.world.call("task_claim", caller_of_process(there, "412:1203"), task_id=task)
    answer = here.world.call("task_claim", caller_of_process(here, "412:1203"), task_id=task)
    assert answer["token"] == 2


@pytest.mark.parametrize("lives", [True, False])
def test_nobody_looks_here_for_a_process_of_another_home(
    here: Homely, there: Homely, lives: bool
) -> None:
    asked: list[str] = []
    there.world.context = replace(
        there.world.context, is_alive=lambda each: bool(asked.append(each)) or lives
    )
    task = here.world.register()
    here.world.call("task_claim", caller_of_process(here, "412:1203"), task_id=task)
    here.world.clock.tick(LEASE + 1 + run_recovery.ABANDONED_AGE.total_seconds())

    assert run_recovery.sweep_lapsed_runs(there.world.context, ()) == 1

    run = here.run(task)
    assert (run.state, run.why, asked) == (RunState.QUEUED, "lease_expired", [])


UNHEARD = LEASE + current_run.UNHEARD_DELAY.total_seconds()


def hold_elsewhere(here: Homely, there: Homely) -> str:
    """Return a task that an agent here has registered, and one there has claimed."""
    given = {"name": "Build", "plan": ["Make"], "role": "builder"}
    task = str(here.world.call("task_register", registrar_of(here), **given)["task_id"])
    there.world.call(
        "task_claim", caller_of_process(there, "412:1203"), task_id=task, role="builder"
    )
    return task


def registrar_of(here: Homely) -> Caller:
    return Caller(session_key="mine", host="mcp:claude", home=here.world.context.store.scope)


def test_registrar_takes_back_what_nobody_elsewhere_is_heard_of(
    here: Homely, there: Homely
) -> None:
    task = hold_elsewhere(here, there)
    here.world.clock.tick(UNHEARD)
    with pytest.raises(NotAllowed):
        here.world.call("task_reset", registrar_of(here), task_id=task)

    here.world.clock.tick(1)

    for stranger in ("theirs", None):
        caller = Caller(session_key=stranger, host="mcp:codex")
        with pytest.raises(NotAllowed):
            here.world.call("task_reset", caller, task_id=task)
    here.world.call("task_reset", registrar_of(here), task_id=task)
    assert here.run(task).state is RunState.QUEUED


def test_task_of_an_owner_elsewhere_that_is_not_heard_of_says_so(
    here: Homely, there: Homely
) -> None:
    task = hold_elsewhere(here, there)
    for seconds, standing, unheard in ((UNHEARD, "at work", []), (1, "waiting", [task])):
        here.world.clock.tick(seconds)

        line = read_line(here.world.context, task)
        told = here.world.call("task_status", PERSON, task_id=task)["message"]
        assert (line.standing, line.says == UNHEARD_TEXT) == (standing, bool(unheard))
        assert views.summarize_store(here.world.context)["unheard"] == unheard
        assert ("not heard of" in told) is bool(unheard)


def test_unheard_of_is_told_however_many_are_of_other_homes(
    here: Homely, there: Homely, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_recovery, "BATCH", 1)
    hold_elsewhere(there, here)
    here.world.clock.tick(1)
    task = hold_elsewhere(here, there)
    here.world.clock.tick(UNHEARD + 1)

    assert views.summarize_store(here.world.context)["unheard"] == [task]


def test_owner_here_is_judged_by_its_daemon_alone(here: Homely, there: Homely) -> None:
    task = hold_elsewhere(here, there)
    here.world.clock.tick(UNHEARD + 1)

    assert views.summarize_store(there.world.context)["unheard"] == []
    assert not run_recovery.is_unheard(there.world.context, here.run(task))


# --- what a person sees and does ----------------------------------------------------


def make_calls(session: Homely, folder: Path) -> PersonCalls:
    """Return the calls of a person to the daemon of a home."""
    settings = Settings(home=find_home({"TASKMEM_HOME": str(folder)}))
    return PersonCalls(session.world.context, settings, dict, list, lambda: None)


def test_a_person_sees_only_what_is_of_their_home(
    here: Homely, there: Homely, tmp_path: Path
) -> None:
    mine, foreign = here.works(), there.works()
    here.world.open_wait(mine)
    wait = there.world.open_wait(foreign)
    there.world.end_wait(wait)
    calls: Any = make_calls(here, tmp_path).methods
    context = here.world.context

    sections = calls["overview"]({})
    assert [x["task_id"] for x in calls["tasks"]({"all": True})["tasks"]] == [mine]
    assert [x["task_id"] for lines in sections["sections"].values() for x in lines] == [mine]
    assert sections["unlisted"] == 0
    assert [line.task_id for line in search_lines(context, "Deploy", 10)] == [mine]
    assert calls["find"]({"words": "Deploy"})["id"] == mine
    for listed in (
        views.list_waits(context, {"all": True}),
        views.list_wakes(context, {"all": True}, lambda _: None),
        views.list_runs(context, {"all": True}),
        views.list_events(context, {}),
    ):
        assert foreign not in str(listed)
        assert wait.wait_id not in str(listed)


def test_a_person_does_nothing_to_what_is_of_another_home(
    here: Homely, there: Homely, tmp_path: Path
) -> None:
    task = there.works()
    wait = there.world.open_wait(task)
    person = make_calls(here, tmp_path)
    calls: Any = {**person.methods, "act": partial(person.act, None)}

    for given in (task, wait.wait_id):
        for call, asked in (
            ("show", {}),
            ("find", {"words": given, "kinds": ["task", "wait"]}),
            ("act", {"action": "cancel"}),
            ("act", {"action": "cancel_wait"}),
        ):
            with pytest.raises(TaskNotFound):
                calls[call]({"id": given, **asked})
    page = person.build_site().render("task", {"id": task})
    assert (page.status, b"another home" in page.body) == (404, True)
    assert there.world.task(task).status == "active"
    assert there.world.store.read_wait(wait.wait_id).status == "watching"
