"""What is queued for a role: by whom, for whom, and what becomes of it unclaimed."""

from dataclasses import replace
from typing import Any

import pytest

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.errors import RunHeld
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.engine import gateway_reports, notifications, run_recovery, runs, wakes
from openclaw_taskmem.engine.notifications import NotificationKind
from taskmem_hookspecs import (
    Change,
    InvalidArguments,
    Owner,
    RunQuery,
    RunState,
    TaskQuery,
    WakeState,
)
from taskmem_hookspecs.testing import a_run
from tests.support.owners import SESSIONS
from tests.support.sessions import MAIN, Session
from tests.support.world import PERSON, PLAN, World, packet_of, worker

THRESHOLD = 300.0
OURS = "openclaw:one"
THEIRS = "mcp:claude-code"


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def session(world: World) -> Session:
    return Session(world)


def queue(world: World, role: str = "writer", **given: Any) -> str:
    """Register a task for a role, from a host without a gateway; its id."""
    return world.register("Write report", role=role, **given)


def world_without_wakes(world: World) -> World:
    """Let no transport reach anybody."""
    world.context = replace(world.context, reaches=lambda *_: False)
    return world


def told_lines(world: World) -> list[str]:
    """What notices say so far."""
    events, _ = notifications.find_due_events(world.context, NotificationKind.LINES, 0)
    return [str(event.data["line"]) for event in events if event.kind == "notice"]


# --- registering for a role ---------------------------------------------------------


def test_what_is_registered_for_a_role_is_queued_for_it(world: World) -> None:
    answer = world.call(
        "task_register", worker("1"), name="Write report", plan=PLAN, role=" Writer "
    )

    [run] = world.store.find_runs(RunQuery(task_id=answer["task_id"]))
    assert (run.state, run.role, run.session_key, run.owner) == (
        *(RunState.QUEUED, "writer", None, None),
    )
    assert answer["queued_for"] == "writer"
    assert answer["message"] == (
        "Registered with 4 steps. It is queued for writer, and whoever claims it with "
        "task_claim gets it. Do not work on it yourself. task_list with status "
        '"waiting" shows it until somebody has.'
    )


@pytest.mark.parametrize("reached", [True, False])
def test_registrar_is_promised_a_wake_only_where_one_arrives(world: World, reached: bool) -> None:
    world.context = replace(world.context, reaches=lambda *_: reached)
    caller = Caller(session_key=MAIN, host=OURS)

    answer = world.call("task_register", caller, name="Write report", plan=PLAN, role="writer")

    promised = "You are woken if nobody has claimed it after 300 s."
    assert (promised in answer["message"]) is reached


def test_whoever_claims_for_the_role_gets_it_and_no_other(world: World) -> None:
    task = queue(world, metadata={"attached_task_ids": ["task_9"]})

    with pytest.raises(RunHeld, match="is for the role writer, and not for tester"):
        world.call("task_claim", worker("1"), task_id=task, role="tester")
    claimed = world.call("task_claim", worker("2"), role="writer")

    assert claimed["task_id"] == task
    [run] = world.store.find_runs(RunQuery(task_id=task))
    assert (run.state, run.attached) == (RunState.RUNNING, ("task_9",))


def test_gateway_agent_does_not_hold_a_task_it_queues_for_a_role(session: Session) -> None:
    world = session.world
    session.begins()

    task = session.register(role="writer", segmented=True)

    run = session.run(task)
    assert (run.state, run.role, run.session_key) == (RunState.QUEUED, "writer", None)
    assert run.budget.segmented
    assert gateway_reports.build_reminder(world.context, MAIN) is None
    with pytest.raises(RunHeld, match="is queued for the role writer"):
        session.call("task_update", task_id=task, completed_steps=[1])


def test_task_queued_for_a_role_does_not_take_the_turns_own_task(session: Session) -> None:
    session.request = "Write the report"
    session.begins()
    for number in range(3):
        session.does(f"echo {number}")
    [covering] = session.world.store.find_tasks(TaskQuery(implicit=True))

    task = session.register(role="writer")

    assert task != covering.task_id
    assert session.world.task(covering.task_id).implicit


def test_unclaimed_task_of_a_role_is_notified_like_a_handoff(world: World) -> None:
    queue(world_without_wakes(world))

    assert world.pass_time(THRESHOLD) == []

    [line] = told_lines(world)
    assert line == (
        "Write report is queued for writer, and nobody has claimed it for 5 minutes. "
        "Start an agent of that role, or hand it to another."
    )


@pytest.mark.parametrize("tool", ["task_register", "task_claim"])
@pytest.mark.parametrize("role", ["the writer", "r" * 65, "writer\u200b"])
def test_what_is_no_role_is_refused(world: World, tool: str, role: str) -> None:
    given = {"name": "Write", "plan": PLAN} if tool == "task_register" else {}

    with pytest.raises(InvalidArguments, match="a role has 1 to 64 of a-z 0-9 _ -"):
        world.call(tool, worker("1"), role=role, **given)

    assert not world.store.find_tasks(TaskQuery(implicit=False))


def test_nothing_is_registered_for_the_user(world: World) -> None:
    with pytest.raises(InvalidArguments, match="hand a task to them with task_handoff"):
        queue(world, "user")


# --- telling whoever registered it --------------------------------------------------


def register(world: World, host: str | None = OURS, session: str = MAIN) -> str:
    """Register a task for a role from a session of a host; its id."""
    caller = Caller(session_key=session, host=host)
    return str(
        world.call("task_register", caller, name="Write report", plan=PLAN, role="dev")["task_id"]
    )


def dev(session: str | None = None) -> Caller:
    """An agent of another host that claims for the role."""
    owner = Owner(role="agent", process="7:9")
    return Caller(session_key=session, host=THEIRS, process="7:9", owner=owner)


def test_whoever_registered_it_is_woken_of_what_nobody_claims(world: World) -> None:
    task = register(world)

    [wake] = world.pass_time(THRESHOLD)

    assert (wake.session_key, wake.host, wake.home) == (MAIN, OURS, "home_1")
    said = (
        '"Write report" is queued for dev, and nobody has claimed it for 5 minutes. '
        "Start an agent of that role, or hand it to another."
    )
    assert (wake.text, wake.line) == (f"[system] {said}", said)
    assert wake.key == f"unclaimed:{task}:1"
    assert told_lines(world) == []


def test_who_registers_what_its_turn_has_begun_is_told_of_it(session: Session) -> None:
    world = session.world
    session.request = "Write the report"
    session.begins()
    for number in range(3):
        session.does(f"echo {number}")
    caller = session.caller.model_copy(update={"host": OURS})

    answer = world.call("task_register", caller, name="Write", plan=PLAN)

    task = world.task(answer["task_id"])
    assert not task.implicit
    registrar = (task.registrar_session, task.registrar_host, task.registrar_home)
    assert registrar == (session.key, OURS, "home_1")


def test_registrar_is_alerted_to_a_task_queued_for_nobody(world: World) -> None:
    caller = Caller(session_key=MAIN, host=OURS)
    given = {"name": "Write report", "plan": PLAN, "role": "dev"}
    task = str(world.call("task_register", caller, **given)["task_id"])
    world.call("task_claim", dev(), task_id=task, role="dev")
    world.call("task_handoff", dev(), task_id=task, to="user")
    [run] = world.store.find_runs(RunQuery(task_id=task, limit=1))
    world.store.commit(Change(runs=(run.model_copy(update={"role": None}),)))
    given = {"status": "active", "message": "Once more."}
    world.call("task_update", PERSON, task_id=task, **given)

    [listed] = world.call("task_list", status="waiting")["tasks"]
    assert listed["waits_for"]["what"] == "claim"
    [wake] = world.pass_time(THRESHOLD)

    assert (wake.session_key, wake.host, wake.home) == (MAIN, OURS, "home_1")
    assert packet_of(wake.text)["task_id"] == task


@pytest.mark.parametrize(
    ("session", "what"), [(None, "claim"), ("thread-1", "claim"), (MAIN, None)]
)
def test_what_no_gateways_session_goes_on_with_waits_for_a_claim(
    session: str | None, what: str | None
) -> None:
    assert current_run.find_awaited(a_run(session_key=session), SESSIONS) == what


def test_it_is_woken_again_after_a_cooldown_that_grows(world: World) -> None:
    register(world)

    woken = []
    for minute in range(1, 120):
        woken += [minute for _ in world.pass_time(60)]

    assert woken == [5, 20, 50, 110]
    states = {wake.state for wake in world.wakes()[1:]}
    assert states == {WakeState.UNANSWERED}


def test_owed_wake_tells_how_long_the_task_is_unclaimed_by_then(world: World) -> None:
    register(world)
    world.clock.tick(THRESHOLD)
    world.sweep()
    world.clock.tick(15 * 60)
    world.sweep()

    [wake] = world.wakes()

    assert "nobody has claimed it for 20 minutes" in wake.text


def test_kept_wake_is_sent_once_its_session_is_reachable(world: World) -> None:
    register(world)
    world.clock.tick(THRESHOLD)
    world.sweep()
    reached = world.context
    assert world_without_wakes(world).deliver() == []
    world.context = reached

    [wake] = world.pass_time(15 * 60)

    assert "nobody has claimed it for 20 minutes" in wake.text


def test_the_main_session_is_told_where_the_registrars_is_gone(world: World) -> None:
    register(world, session="agent:main:chat")
    world.clock.tick(THRESHOLD)
    world.sweep()
    [delivery] = world.claim()
    wakes.settle_refused(world.context, delivery, "The gateway has no session.")

    assert world.pass_time(15 * 60) == []

    events, _ = notifications.find_due_events(world.context, NotificationKind.LINES, 0)
    [told] = [event.data for event in events if event.kind == "notice"]
    assert (told["session_key"], told["home"]) == (None, "home_1")
    assert "nobody has claimed it for 20 minutes" in str(told["line"])


def test_unclaimed_task_wakes_its_registrar_not_its_last_holder(world: World) -> None:
    task = register(world)
    world.call("task_claim", dev("thread-1"), task_id=task, role="dev")
    world.call("task_handoff", dev("thread-1"), task_id=task, to="tester")
    assert world.task(task).session_key == "thread-1"

    [wake] = world.pass_time(THRESHOLD)

    assert (wake.session_key, wake.host) == (MAIN, OURS)


def test_notice_goes_to_the_user_of_an_unreachable_registrar(world: World) -> None:
    asked: list[tuple[str | None, str | None]] = []

    def reaches(host: str | None, session: str | None) -> bool:
        asked.append((host, session))
        return host != OURS

    world.context = replace(world.context, reaches=reaches)
    task = register(world)
    world.call("task_claim", dev("thread-1"), task_id=task, role="dev")
    world.call("task_handoff", dev("thread-1"), task_id=task, to="tester")

    assert world.pass_time(THRESHOLD) == []

    events, _ = notifications.find_due_events(world.context, NotificationKind.LINES, 0)
    [told] = [event.data for event in events if event.kind == "notice"]
    assert (told["session_key"], told["home"]) == (MAIN, "home_1")
    assert (OURS, MAIN) in asked


@pytest.mark.parametrize("sent", [True, False])
def test_a_claim_settles_what_the_registrar_is_woken_of(world: World, sent: bool) -> None:
    task = register(world)
    world.clock.tick(THRESHOLD)
    world.sweep()
    if sent:
        world.deliver()

    world.call("task_claim", dev(), task_id=task, role="dev")

    assert [wake.state for wake in world.wakes()] == [WakeState.SUPERSEDED]
    assert world.deliver() == []


@pytest.mark.parametrize("sent", [True, False])
def test_wake_about_the_holder_is_superseded_by_a_requeue(world: World, sent: bool) -> None:
    task = register(world)
    world.call("task_claim", dev(), task_id=task, role="dev")
    world.clock.tick(THRESHOLD)
    world.sweep()
    if sent:
        world.deliver()
    assert "is with dev" in world.wakes()[0].text
    world.context = replace(world.context, is_alive=lambda _: False)

    assert run_recovery.requeue_abandoned(world.context) == 1

    assert [wake.state for wake in world.wakes()] == [WakeState.SUPERSEDED]
    assert world.deliver() == []


def test_it_shares_a_message_with_the_packet_of_a_stuck_task(world: World) -> None:
    register(world)
    caller = Caller(session_key=MAIN, host=OURS)
    own = world.call("task_register", caller, name="Deploy", plan=PLAN)["task_id"]

    [message] = world.pass_time(THRESHOLD)

    packet, line = message.text.splitlines()
    assert packet_of(packet)["task_id"] == own
    assert line.startswith('[system] "Write report" is queued for dev')


def hand_to_user(world: World) -> str:
    """Register a task, and let another agent hand it to the user; its id."""
    task = register(world)
    world.call("task_claim", dev("thread-1"), task_id=task, role="dev")
    world.call("task_handoff", dev("thread-1"), task_id=task)
    return task


def test_whoever_registered_it_is_woken_of_what_waits_for_review(world: World) -> None:
    world.clock.tick(60)
    hand_to_user(world)
    # The user has just been told of it.
    assert world.pass_time(THRESHOLD - 1) == []

    [wake] = world.pass_time(1)

    assert (wake.session_key, wake.host) == (MAIN, OURS)
    said = (
        '"Write report" waits for the user\'s review since 2026-02-16 06:01 UTC. '
        "Remind them; nobody works on it until they accept it or send it back."
    )
    assert (wake.text, wake.line) == (f"[system] {said}", said)
    assert len(world.pass_time(3_600)) == 2


def test_a_note_on_what_waits_for_review_leaves_the_reminder(world: World) -> None:
    task = hand_to_user(world)
    world.call("task_update", dev("thread-1"), task_id=task, message="Look at page 2.")

    assert len(world.pass_time(THRESHOLD)) == 1


@pytest.mark.parametrize("sent", [True, False])
@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("task_update", {"status": "completed"}),
        ("task_update", {"status": "active", "message": "Shorter, please."}),
        ("task_resume", {"answer": "Shorter, please."}),
        ("task_handoff", {"to": "tester"}),
        ("task_cancel", {}),
    ],
)
def test_what_leaves_review_is_not_reminded_of(
    world: World, tool: str, given: dict[str, str], sent: bool
) -> None:
    task = hand_to_user(world)
    world.pass_time(THRESHOLD if sent else 60)

    world.call(tool, PERSON, task_id=task, **given)

    [wake] = world.wakes()
    assert wake.state is WakeState.SUPERSEDED


def test_who_goes_on_with_its_own_review_is_not_reminded_of_it(session: Session) -> None:
    task = session.works()
    session.call("task_handoff", task_id=task)
    session.ends("For you.")
    session.turn_since = session.world.clock.now()
    session.begins()

    session.call("task_update", task_id=task, status="active")

    wakes = [w for w in session.world.wakes() if w.key.startswith("review:")]
    assert [wake.state for wake in wakes] == [WakeState.SUPERSEDED]


def test_of_a_review_no_wake_is_owed_that_reaches_nobody(world: World) -> None:
    hand_to_user(world_without_wakes(world))

    assert world.wakes() == []


# --- the list -----------------------------------------------------------------------


def list_waiting(world: World, status: str = "waiting") -> list[tuple[str, Any]]:
    """What `task_list` says that tasks wait for, by name."""
    listed = world.call("task_list", status=status)["tasks"]
    return [(task["name"], task.get("waits_for")) for task in listed]


def test_the_list_says_what_each_task_waits_for(session: Session) -> None:
    world = session.world
    session.works()
    session.asks("Shall I?")
    world.clock.tick(60)
    queue(world)
    world.clock.tick(60)
    anybody = world.register("Bake")
    world.call("task_claim", worker("1"), task_id=anybody)
    world.call("task_reset", PERSON, task_id=anybody)
    world.clock.tick(60)
    reviewed_task = world.register("Brew")
    world.call("task_claim", worker("2"), task_id=reviewed_task)
    world.call("task_handoff", worker("2"), task_id=reviewed_task)
    world.register("Nobody's")

    since = [f"2026-02-16T06:0{minute}:00Z" for minute in range(4)]
    assert list_waiting(world) == [
        ("Deploy", {"what": "answer", "since": since[0]}),
        ("Write report", {"what": "claim", "role": "writer", "since": since[1]}),
        ("Bake", {"what": "claim", "role": None, "since": since[2]}),
        ("Brew", {"what": "review", "since": since[3]}),
    ]
    assert dict(list_waiting(world, "all"))["Nobody's"] is None
    assert "Brew" not in dict(list_waiting(world, "active"))


def test_waiting_tasks_are_listed_longest_first_up_to_the_limit(world: World) -> None:
    for name in ("First", "Second", "Third"):
        world.register(name, role="writer")
        world.clock.tick(1)

    listed = world.call("task_list", status="waiting", limit=2)

    assert [task["name"] for task in listed["tasks"]] == ["First", "Second"]
    assert listed["message"].startswith(
        "2 waiting tasks, the longest waiting first; a larger limit shows others."
    )


def test_what_waits_longest_is_listed_however_much_waits(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "READ_RUNS", 2)
    for name in ("First", "Second", "Third", "Fourth"):
        world.register(name, role="writer")
        world.clock.tick(1)

    listed = world.call("task_list", status="waiting", limit=2)

    assert [task["name"] for task in listed["tasks"]] == ["First", "Second"]


@pytest.mark.parametrize("tasks", [0, 1])
def test_a_person_is_told_a_command_and_no_tool(world: World, tasks: int) -> None:
    for _ in range(tasks):
        world.register()

    said = world.call("task_list", PERSON, status="active")["message"]

    assert "task_update" not in said
    assert "task_register" not in said
    assert ("taskmem show ID" in said) is bool(tasks)


def test_what_is_claimed_or_ended_waits_for_nobody(session: Session) -> None:
    world = session.world
    world.call("task_reset", PERSON, task_id=session.works())
    session.ends()
    task = queue(world)
    world.call("task_claim", worker("1"), task_id=task, role="writer")
    ended = queue(world)
    world.call("task_cancel", PERSON, task_id=ended)

    assert list_waiting(world) == []
    answer = world.call("task_list", status="waiting")
    assert answer["message"] == "There is no waiting task."


def test_a_list_of_what_waits_reads_its_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    read, reads = world.store.find_runs, []

    def count_calls(*args: Any, **given: Any) -> Any:
        reads.append(args)
        return read(*args, **given)

    monkeypatch.setattr(world.store, "find_runs", count_calls)
    world.call("task_list", status="waiting")

    assert len(reads) == 1
