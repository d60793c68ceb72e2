"""A user's turn of several calls is covered by a task of its own, in silence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.changes.continuation import Origin
from openclaw_taskmem.domain.effects import checkpoints
from openclaw_taskmem.domain.policies import RunPolicy
from openclaw_taskmem.domain.runs.current_run import RunReason
from openclaw_taskmem.domain.tasks.lifecycle import REQUEST_BYTES
from openclaw_taskmem.domain.text.texts import count_json_bytes
from openclaw_taskmem.domain.views.user_actions import Command
from openclaw_taskmem.engine import evidence, gateway_reports, notifications, run_recovery
from openclaw_taskmem.engine.user_actions import run_command
from openclaw_taskmem.tools import views
from taskmem_hookspecs import (
    Checkpoint,
    Event,
    EventQuery,
    LedgerEntry,
    RunQuery,
    RunState,
    Task,
    TaskQuery,
    TaskStatus,
    WakeState,
    WorkFolder,
)
from taskmem_hookspecs.errors import RunNotFound, TaskNotFound
from tests.plugin_host.made import plugin
from tests.support.sessions import Session
from tests.support.world import World, worker

SAID = "Please bake three loaves."
DAY = 86_400
LINES = {events.MILESTONE, events.NOTICE}


@pytest.fixture
def session() -> Session:
    """A session whose turns are a user's."""
    return Session(World(), request=SAID)


def works(session: Session, calls: int = 3) -> None:
    """Begin a turn and call so many tools."""
    session.begins()
    for number in range(1, calls + 1):
        session.does(f"bake loaf {number}")


def list_implicit_tasks(session: Session) -> list[Task]:
    """The implicit tasks, the latest first."""
    return list(session.world.store.find_tasks(TaskQuery(implicit=True)))


def is_silent(session: Session) -> bool:
    """Whether nobody was told anything, nor is to be."""
    log = session.world.store.find_events(EventQuery())
    return not (
        session.lines or [each for each in log if each.kind in LINES] or session.world.wakes()
    )


# --- it begins ----------------------------------------------------------------


def test_the_third_call_opens_a_task_with_all_three(session: Session) -> None:
    works(session, 2)
    assert list_implicit_tasks(session) == []
    session.calls("bake loaf 3")

    (task,) = list_implicit_tasks(session)
    assert (task.name, task.plan, task.original_request) == (SAID, (SAID,), SAID)
    run = session.run(task.task_id)
    assert (run.state, run.owner) == (RunState.RUNNING, session.owner)
    kept = checkpoints.parse_history(session.world.store.read_records(Checkpoint, run.run_id, 9))
    assert kept is not None
    assert [(each.about, each.ok) for each in kept.calls] == [
        ("bake loaf 1", True),
        ("bake loaf 2", True),
        ("bake loaf 3", None),
    ]
    assert run.progress.checkpoints == 5
    assert is_silent(session)


def test_calls_at_once_and_ids_that_come_again_count(session: Session) -> None:
    session.begins()
    for _ in range(3):
        session._number = 0
        session.calls("look")
    assert len(list_implicit_tasks(session)) == 1


def test_the_calls_of_one_turn_are_not_counted_in_the_next(session: Session) -> None:
    works(session, 2)
    session.ends(origin=Origin.USER)
    works(session, 2)
    assert list_implicit_tasks(session) == []


def test_what_is_called_after_the_third_is_written_down(session: Session) -> None:
    works(session, 5)
    (task,) = list_implicit_tasks(session)
    assert session.run(task.task_id).progress.checkpoints == 10
    status = session.call("task_status")
    assert [call["about"] for call in status["tool_history"]] == [
        f"bake loaf {n}" for n in range(5, 0, -1)
    ]
    assert (status["implicit"], status["original_request"]) == (True, SAID)


@pytest.mark.parametrize(
    ("key", "said", "policy"),
    [
        ("agent:main:main", None, {}),
        ("agent:main:taskmem:run_1", SAID, {}),
        ("agent:main:main", SAID, {"implicit_tasks": False}),
    ],
    ids=["no user's", "in the background", "switched off"],
)
def test_no_other_turn_is_covered(key: str, said: str | None, policy: dict[str, Any]) -> None:
    session = Session(World(runs=RunPolicy(**policy)), key, request=said)
    works(session, 4)
    assert list_implicit_tasks(session) == []


def test_a_session_with_an_open_task_needs_no_other(session: Session) -> None:
    task = session.takes_up()
    for _ in range(4):
        session.does("bake")
    session.asks("Which flour?")
    works(session, 4)
    assert list_implicit_tasks(session) == []
    assert session.run(task).progress.calls == 8


def test_a_task_that_is_set_aside_leaves_the_turn_uncovered(session: Session) -> None:
    task = session.takes_up()
    session.call("task_update", task_id=task, status="paused")
    session.ends(origin=Origin.USER)
    works(session)
    assert len(list_implicit_tasks(session)) == 1


def test_a_sub_agents_calls_keep_it_open_until_they_are_heard(session: Session) -> None:
    works(session)
    session.ends("They are at it.", origin=Origin.USER, children=1)
    (task,) = list_implicit_tasks(session)
    assert task.status is TaskStatus.ACTIVE

    session.in_turn = False
    session.does("knead")
    assert session.run(task.task_id).progress.calls == 4
    session.in_turn = True
    session.begins(Origin.HEARTBEAT)
    session.ends("All is well.", origin=Origin.HEARTBEAT)
    assert session.world.wakes() == []
    session.begins(Origin.OTHER)
    session.ends("All baked.", origin=Origin.OTHER)
    assert session.world.task(task.task_id).status is TaskStatus.COMPLETED
    assert is_silent(session)


def test_what_the_user_said_is_kept_without_secrets_and_short() -> None:
    key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"
    session = Session(World(), request=f"Use {key}, please. {'x' * 9_000}")
    works(session)
    (task,) = list_implicit_tasks(session)
    assert task.original_request is not None
    assert task.original_request.startswith("Use ")
    assert count_json_bytes(task.original_request) <= REQUEST_BYTES
    assert key not in task.model_dump_json()
    assert len(task.name) < 200


def test_a_message_without_words_is_covered_too() -> None:
    session = Session(World(), request="")
    works(session)
    assert [task.name for task in list_implicit_tasks(session)] == ["A message without words"]


# --- it ends ------------------------------------------------------------------


@pytest.mark.parametrize(
    "turn",
    [
        {},
        {"said": "Shall I go on?"},
        {"aborted": True},
        {"error": "529 overloaded"},
        {"error": "HTTP 401 invalid api key"},
        {"commands": ("exec brave-fox",)},
        {"children": 1, "aborted": True},
    ],
    ids=["done", "asks", "stopped", "overloaded", "no key", "awaits", "all stopped"],
)
def test_it_ends_in_silence_with_its_turn(session: Session, turn: dict[str, Any]) -> None:
    works(session)
    session.ends(**{"said": "They are baked.", "origin": Origin.USER, **turn})

    (task,) = list_implicit_tasks(session)
    assert (task.status, task.done) == (TaskStatus.COMPLETED, {0})
    run = session.run(task.task_id)
    assert (run.state, run.lease_until) == (RunState.COMPLETED, None)
    session.world.pass_time(DAY, 3_600)
    assert is_silent(session)
    assert session.world.thread(task.task_id) == []


def test_silence_of_a_long_turn_alerts_nobody(session: Session) -> None:
    works(session)
    session.world.pass_time(DAY, 3_600)
    assert is_silent(session)


def test_its_agent_is_not_asked_what_it_made(session: Session) -> None:
    works(session)
    (task,) = list_implicit_tasks(session)
    said = "Saved to out/loaf.md."
    context = session.world.context
    assert evidence.find_doubt_in_answer(context, session.owner, said) is None
    made = {"message": said, "artifacts": ["/nowhere/loaf.md"]}
    answer = session.call("task_update", task_id=task.task_id, status="completed", **made)
    assert answer["status"] == "completed"
    session.ends(said, origin=Origin.USER)
    assert session.world.task(task.task_id).doubts == ()
    assert is_silent(session)


def test_no_ledger_is_kept_of_what_it_made(session: Session, tmp_path: Path) -> None:
    works(session)
    session.writes(tmp_path / "loaf.md")
    (task,) = list_implicit_tasks(session)
    store = session.world.store
    assert (
        store.read_records(LedgerEntry, task.task_id)
        == store.read_records(WorkFolder, task.task_id)
        == []
    )


def test_plug_ins_hear_of_no_implicit_task(session: Session) -> None:
    told: list[str] = []
    ear = plugin(
        "ear",
        on_task_registered=lambda task: told.append(task.task_id),
        on_run_changed=lambda task, run: told.append(task.task_id),
    )
    session.world = World(plugins=[("ear", ear)])
    works(session)
    session.ends(origin=Origin.USER)
    assert notifications.call_hooks_for_events(session.world.context) > 0
    assert told == []


# --- a task that is registered in its turn ------------------------------------------


def test_a_registration_takes_it_over_with_its_calls(session: Session) -> None:
    works(session)
    (task,) = list_implicit_tasks(session)

    given = {"name": "Bread", "plan": ["Bake", "Sell"], "metadata": {"shop": 7}}
    answer = session.call("task_register", **given)

    assert answer["task_id"] == task.task_id
    assert (answer["name"], answer["plan"]) == ("Bread", ["Bake", "Sell"])
    assert list_implicit_tasks(session) == []
    shown = views.show_by_id(session.world.context, task.task_id)
    assert (shown["implicit"], shown["original_request"]) == (False, SAID)
    assert [step["done"] for step in shown["steps"]] == [False, False]  # type: ignore[index, union-attr]
    assert shown["metadata"]["shop"] == 7  # type: ignore[index, call-overload]
    run = session.run(task.task_id)
    assert (run.progress.checkpoints, run.progress.calls, run.budget.step_calls) == (6, 3, 0)
    assert session.lines == ["Bread: accepted, 2 steps.", "Bread: started."]
    assert session.world.task(task.task_id).stuck_due_at is not None


def test_what_took_it_over_is_carried_on_like_any_task(session: Session) -> None:
    works(session)
    task = session.register(plan=["Bake", "Sell"])
    session.does("sell loaf 1")
    session.ends("More to come.", origin=Origin.USER)
    assert [wake.task_id for wake in session.world.wakes(WakeState.DUE)] == [task]
    assert session.run(task).state is RunState.RUNNING


def test_a_later_turn_does_not_take_over_what_a_crash_left(session: Session) -> None:
    works(session)
    (left,) = list_implicit_tasks(session)
    other = Session(session.world, "agent:main:other", request="Hello")
    other.begins()
    assert other.register() != left.task_id
    assert list_implicit_tasks(session) == [left]


@pytest.mark.parametrize("origin", [Origin.OTHER, Origin.HEARTBEAT])
def test_no_turn_but_its_own_takes_it_over(session: Session, origin: Origin) -> None:
    works(session)
    session.ends(origin=Origin.USER, children=1)
    (task,) = list_implicit_tasks(session)
    session.world.clock.tick(1)
    session.request = None
    session.begins(origin)
    session.does("look")
    assert session.register() != task.task_id
    session.ends("All baked.", origin=origin)
    assert session.world.task(task.task_id).status is TaskStatus.COMPLETED


# --- the user's next turn -----------------------------------------------------


def leave_it_resting(session: Session) -> None:
    """End its turn while a sub-agent works."""
    session.ends("They are at it.", origin=Origin.USER, children=1)


def leave_it_interrupted(session: Session) -> None:
    """Kill the gateway, and let it be told to go on."""
    session.settles(session.restarts("boot_2"))


def leave_it_held(session: Session) -> None:
    """Kill the gateway, and start it."""
    session.restarts("boot_2")


@pytest.mark.parametrize("left", [leave_it_resting, leave_it_interrupted, leave_it_held])
def test_what_is_left_of_it_ends_when_the_user_says_more(
    session: Session, left: Callable[[Session], None]
) -> None:
    works(session)
    (task,) = list_implicit_tasks(session)
    left(session)
    session.request = "Sell them, please."
    works(session)

    new, old = list_implicit_tasks(session)
    assert (old.task_id, old.status) == (task.task_id, TaskStatus.COMPLETED)
    assert (session.run(old.task_id).progress.calls, old.original_request) == (3, SAID)
    assert (new.status, new.original_request) == (TaskStatus.ACTIVE, session.request)
    assert session.run(new.task_id).progress.calls == 3
    assert session.world.wakes(WakeState.DUE) == []
    registered = session.world.task(session.register())
    assert (registered.task_id, registered.original_request) == (new.task_id, session.request)


def test_what_is_left_ends_beside_a_task_that_is_open(session: Session) -> None:
    works(session)
    leave_it_resting(session)
    (task,) = list_implicit_tasks(session)
    session.in_turn = False
    registered = session.register()
    session.in_turn = True
    session.begins()
    assert session.world.task(task.task_id).status is TaskStatus.COMPLETED
    assert session.world.task(registered).status is TaskStatus.ACTIVE


def test_what_the_user_takes_up_again_goes_on_in_that_turn(session: Session) -> None:
    works(session)
    leave_it_interrupted(session)
    (task,) = list_implicit_tasks(session)
    session.world.clock.tick(1)
    # So says the user's "continue", before its turn begins.
    session.call("task_resume", task_id=task.task_id)
    works(session)
    assert list_implicit_tasks(session) == [session.world.task(task.task_id)]
    assert session.run(task.task_id).progress.calls == 6
    assert session.register() != task.task_id


# --- a crash ------------------------------------------------------------------


def test_a_crash_leaves_it_open_and_it_is_resumed(session: Session) -> None:
    works(session, 3)
    session.calls("bake loaf 4")
    presence = session.restarts("boot_2")
    session.settles(presence)

    (wake,) = session.world.wakes(WakeState.DUE)
    packet = json.loads(wake.text.partition(" ")[2])
    assert packet["name"] == SAID
    assert "bake loaf 3" in str(packet["do_not_redo"])
    assert "bake loaf 4" in str(packet["unknown_outcome"])
    assert session.lines == []

    (sent,) = session.world.deliver()
    assert sent.line == ""
    session.request = None
    session.begins(Origin.TASKMEM)
    session.does("bake loaf 4")
    session.ends("All are baked.", words="All are baked.")
    (task,) = list_implicit_tasks(session)
    assert task.status is TaskStatus.COMPLETED
    assert session.world.wakes(WakeState.DUE) == []
    # The answer that its user waits for is no notice.
    assert session.lines == ["All are baked."]


def test_its_user_is_answered_where_the_gateway_resumes_it(session: Session) -> None:
    works(session)
    session.restarts("boot_2")
    session.fingerprint = "another"
    session.world.clock.tick(2 * DAY)
    session.request = None
    # Nobody would be told that it was stopped, so it is not.
    assert session.begins(Origin.RECOVERY)
    session.ends("All are baked.", origin=Origin.RECOVERY)
    (task,) = list_implicit_tasks(session)
    assert task.status is TaskStatus.COMPLETED
    assert is_silent(session)


def leave_it_unended(session: Session) -> None:
    """Hear no more of its turn, though its gateway is there."""
    presence = session.restarts("boot_1")
    session.world.clock.tick(session.world.context.policies.runs.lease_seconds)
    session.settles(presence)


@pytest.mark.parametrize(
    ("left", "why"),
    [
        (leave_it_resting, "The user asked for this."),
        (leave_it_held, "Your turn on this was cut by a restart of the gateway."),
        (leave_it_interrupted, "Your turn on this was cut."),
        (leave_it_unended, "Your turn on this was cut."),
    ],
)
def test_its_packet_says_what_cut_it_as_far_as_is_known(
    session: Session, left: Callable[[Session], None], why: str
) -> None:
    works(session)
    left(session)
    context = session.world.context
    found = gateway_reports.build_reminder(context, session.key, boot=session.boot)
    assert found is not None
    assert json.loads(found[1].partition(" ")[2])["reason"] == why


@pytest.mark.parametrize(
    ("left", "cut"),
    [
        (leave_it_interrupted, "Your turn on this was cut by a restart of the gateway."),
        (leave_it_unended, "Your turn on this was cut."),
    ],
)
def test_its_agent_is_told_what_cut_it_as_it_is_to_go_on(
    session: Session, left: Callable[[Session], None], cut: str
) -> None:
    works(session)
    left(session)
    (wake,) = session.world.wakes(WakeState.DUE)
    told = json.loads(wake.text.partition(" ")[2])["reason"]
    assert told == f"{cut} Go on with it now."


@pytest.mark.parametrize("why", [RunReason.STALE, RunReason.PROMPT_CHANGED])
def test_what_is_doubtful_waits_for_resume_in_silence(session: Session, why: RunReason) -> None:
    works(session)
    if why is RunReason.STALE:
        session.world.clock.tick(2 * 3_600)
    else:
        session.fingerprint = "another"
    session.settles(session.restarts("boot_2"))
    (task,) = list_implicit_tasks(session)
    run = session.run(task.task_id)
    assert (run.state, run.why) == (RunState.BLOCKED, why)
    session.restarts("boot_3")
    assert is_silent(session)

    found = gateway_reports.build_reminder(session.world.context, session.key)
    assert found is not None
    assert found[0] == task.task_id
    assert "nothing need be reported" in found[1]
    assert gateway_reports.describe_waiting_tasks(session.world.context, session.key) is None
    change = Event(
        at=session.world.clock.now(),
        kind=events.RUN_CHANGED,
        task_id=task.task_id,
        data={"session_key": session.key},
    )
    assert notifications.build_session_view(session.world.context, [change]).questions == ()
    works(session)
    assert len(list_implicit_tasks(session)) == 2
    session.ends(origin=Origin.USER)
    session.begins()
    assert session.call("task_resume")["task_id"] == task.task_id
    assert session.run(task.task_id).state is RunState.RUNNING
    session.ends("All are baked.", origin=Origin.USER)
    assert session.world.task(task.task_id).status is TaskStatus.COMPLETED


def test_after_too_many_crashes_it_fails_in_silence(session: Session) -> None:
    works(session)
    for number in range(2, 5):
        session.settles(session.restarts(f"boot_{number}"))
        session.world.deliver()
        session.begins(Origin.TASKMEM)
        session.calls("bake loaf 4")
    (task,) = list_implicit_tasks(session)
    assert (task.status, session.run(task.task_id).why) == ("failed", RunReason.INTERRUPTED)
    assert session.lines == []


def test_an_open_task_comes_before_it(session: Session) -> None:
    works(session)
    (left,) = list_implicit_tasks(session)
    session.settles(session.restarts("boot_2"))
    registered = Session(session.world, session.key, boot="boot_1").register()
    found = gateway_reports.build_reminder(session.world.context, session.key)
    assert found is not None
    assert found[0] == registered != left.task_id
    assert session.call("task_status")["task_id"] == registered


def test_nobody_else_claims_what_a_crash_left(session: Session) -> None:
    works(session)
    session.settles(session.restarts("boot_2"))
    session.world.clock.tick(DAY)
    with pytest.raises(RunNotFound):
        session.world.call("task_claim", worker("w"), role="main")


def test_resume_finds_it_where_no_other_task_is_open(session: Session) -> None:
    ended = session.takes_up()
    session.call("task_update", task_id=ended, status="cancelled")
    session.ends(origin=Origin.USER)
    works(session)
    (task,) = list_implicit_tasks(session)
    session.world.clock.tick(2 * 3_600)
    session.settles(session.restarts("boot_2"))
    context = session.world.context

    def resume_task(words: str = "") -> str | None:
        return run_command(context, Command.RESUME, words, session.caller).task_id

    assert resume_task() == task.task_id
    assert run_command(context, Command.TASKS, "", session.caller).text.count(SAID) == 0


def test_task_status_means_an_open_task_before_it(session: Session) -> None:
    works(session)
    (task,) = list_implicit_tasks(session)
    assert session.call("task_status")["task_id"] == task.task_id
    elsewhere = Caller(session_key=session.key)
    given = {"name": "Deploy", "plan": ["Deploy"]}
    registered = session.world.call("task_register", elsewhere, **given)["task_id"]
    assert session.call("task_status")["task_id"] == registered
    assert session.call("task_resume")["task_id"] == registered


# --- lists --------------------------------------------------------------------


def test_it_is_in_no_list_that_does_not_ask_for_it(session: Session) -> None:
    works(session)
    context = session.world.context
    for status in ("active", "all"):
        assert session.call("task_list", status=status)["tasks"] == []
    assert views.list_runs(context, {"all": True}) == []
    counted = views.summarize_store(context)
    assert set(counted["tasks"].values()) == set(counted["runs"].values()) == {0}  # type: ignore[union-attr]

    (row,) = session.call("task_list", status="implicit")["tasks"]
    assert row["name"] == SAID
    assert views.show_by_id(context, row["task_id"])["implicit"] is True
    assert len(views.list_runs(context, {"task_id": row["task_id"]})) == 1


def test_it_goes_when_its_checkpoints_do(session: Session) -> None:
    works(session)
    session.ends(origin=Origin.USER)
    (task,) = list_implicit_tasks(session)
    session.world.clock.tick(7 * DAY)
    run_recovery.drop_old_checkpoints(session.world.context)
    assert list_implicit_tasks(session) == [task]
    session.world.clock.tick(1)
    run_recovery.drop_old_checkpoints(session.world.context)
    with pytest.raises(TaskNotFound):
        session.world.task(task.task_id)
    assert session.world.store.find_runs(RunQuery()) == []


# --- what the user had asked for -----------------------------------------------------


def test_a_registered_task_keeps_what_its_user_said(session: Session) -> None:
    task = session.takes_up()
    assert session.world.task(task).original_request == SAID


def test_of_other_tasks_it_is_not_known_what_the_user_said() -> None:
    world = World()
    assert world.task(world.register()).original_request is None
    session = Session(world)
    assert world.task(session.takes_up(Origin.TASKMEM)).original_request is None
