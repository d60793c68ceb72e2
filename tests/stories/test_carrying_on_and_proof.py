"""Work is carried on without its user, and believed once it is proved: without a gateway.

What takes one is in `tests/e2e/test_proof.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest

import taskmem_evidence.hooks
from openclaw_taskmem.domain.changes.continuation import Origin
from openclaw_taskmem.domain.errors import EvidenceMissing, RunNotReady
from openclaw_taskmem.domain.runs.machine import RunContinued, apply_events
from openclaw_taskmem.domain.text.odd_words import MASK
from openclaw_taskmem.engine import evidence, gateway_reports, run_recovery
from taskmem_hookspecs import (
    Checkpoint,
    Event,
    EventQuery,
    RunState,
    TaskStatus,
    Verdict,
    Wake,
    WakeState,
)
from taskmem_hookspecs.testing import FakeClock
from taskmem_sqlmodel.store import SqlStore
from tests.support.databases import DIALECTS, contents, look
from tests.support.schemas import NEXT, add_next_schema
from tests.support.sessions import Session
from tests.support.world import PERSON, World

RETRIES = 3
REST = 90
IDLE_ROUNDS = 3
WRITE = ["Write report.md"]
MADE = {"artifacts": ["report.md"]}
OVERLOADED = "529 overloaded"
SAVED = "I saved the report to report.md."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder that the agent works in."""
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.fixture
def session(database: str, folder: Path) -> Iterator[Session]:
    """A session whose files are really looked at, a minute after its clock's start."""
    store = SqlStore(database)
    clock = FakeClock(datetime.now(UTC) - timedelta(minutes=1))
    world = World(store, clock, plugins=[("evidence", taskmem_evidence.hooks)])
    yield Session(world, folder=str(folder))
    store.close()


def log(session: Session, *kinds: str) -> list[Event]:
    """The entries of the audit log of these kinds, oldest first."""
    return [e for e in session.world.store.find_events(EventQuery()) if e.kind in kinds]


def milestones(session: Session) -> list[object]:
    """The names of those that were announced."""
    return [event.data["name"] for event in log(session, "milestone")]


def goes_on(session: Session, error: str | None = None) -> Wake:
    """Begin the turn of the one message that arrives; it tells the agent to go on.

    Where the run rests first, its rest is over. `error`: why no model answers it; None:
    one does.
    """
    now = session.world.clock.now()
    [owed] = session.world.wakes(WakeState.DUE)
    if owed.due_at is not None and owed.due_at > now:
        session.world.clock.tick((owed.due_at - now).total_seconds())
    [wake] = session.world.deliver()
    assert wake.session_key == session.key
    assert wake.text.startswith("[system] task_continue ")
    assert wake.delivery_id is not None
    assert session.begins(Origin.TASKMEM)
    context = session.world.context
    gateway_reports.settle_turn_wakes(context, session.key, [wake.delivery_id], error)
    return wake


def passage(event: Event) -> tuple[object, object]:
    """From where to where an entry says that something went."""
    return event.data["from"], event.data["to"]


# --- 1. unit tests: task state transitions --------------------------------------


def test_task_state_transitions_follow_the_work(session: Session) -> None:
    task = session.takes_up()
    assert session.run(task).state is RunState.RUNNING
    session.asks("Shall I push it?")
    assert session.run(task).state is RunState.BLOCKED
    session.begins()
    assert session.run(task).state is RunState.BLOCKED
    session.call("task_update", task_id=task, status="active")
    assert session.run(task).state is RunState.RUNNING
    session.settles(session.restarts("boot_2"))
    assert session.run(task).state is RunState.QUEUED
    session.begins(Origin.TASKMEM)
    assert session.run(task).state is RunState.RUNNING
    session.call("task_update", task_id=task, status="completed")
    assert session.run(task).state is RunState.COMPLETED


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
def test_task_state_transitions_end_in_what_nothing_leaves(session: Session, end: str) -> None:
    task = session.takes_up()
    session.call("task_update", task_id=task, status=end)
    before = session.run(task)
    assert before.state == end
    session.begins(Origin.TASKMEM)
    session.does("more work")
    session.ends()
    session.settles(session.restarts("boot_2"))
    with pytest.raises(RunNotReady, match=f"has ended as {end}"):
        apply_events(before, RunContinued(), now=session.world.clock.now())
    assert session.run(task) == before
    assert session.world.deliver() == []


@pytest.mark.parametrize(("status", "state"), [("paused", "blocked"), ("cancelled", "cancelled")])
def test_task_state_transitions_follow_the_users_word(
    session: Session, status: str, state: str
) -> None:
    task = session.takes_up()
    session.ends()
    session.world.call("task_update", PERSON, task_id=task, status=status)
    assert session.run(task).state == state
    # Whoever was to be told to go on is not.
    assert session.world.deliver() == []


def test_every_state_transition_writes_an_event(session: Session) -> None:
    task = session.takes_up()
    session.asks("Shall I push it?")
    session.begins()
    session.call("task_update", task_id=task, status="active")
    session.world.call("task_update", PERSON, task_id=task, status="paused")
    session.call("task_update", task_id=task, status="active")
    session.settles(session.restarts("boot_2"))
    session.begins(Origin.TASKMEM)
    session.call("task_update", task_id=task, status="failed", message="No.")
    assert [passage(event) for event in log(session, "run_changed")] == [
        (None, "queued"),
        ("queued", "running"),
        ("running", "blocked"),
        ("blocked", "running"),
        ("running", "blocked"),
        ("blocked", "running"),
        ("running", "queued"),
        ("queued", "running"),
        ("running", "failed"),
    ]
    whys = [e.data["why"] for e in log(session, "run_changed") if e.data["why"]]
    assert whys == ["question", "paused", "interrupted"]
    assert [passage(event) for event in log(session, "status_changed")] == [
        ("active", "paused"),
        ("paused", "active"),
        ("active", "failed"),
    ]
    assert {event.task_id for event in log(session, "run_changed")} == {task}


# --- 1. unit tests: persistence CRUD and schema migration -----------------------


def test_persistence_crud_outlives_the_process(
    session: Session, database: str, folder: Path
) -> None:
    world = session.world
    task = session.takes_up(plan=WRITE)
    session.does("write report.md", "written", tool="write")
    created = SqlStore(database)
    assert created.read_task(task) == world.store.read_task(task)
    assert created.read_task(task).run == session.run(task)
    assert len(created.read_records(Checkpoint, session.run(task).run_id, 9)) == 2

    session.writes(folder / "report.md")
    session.call("task_update", task_id=task, status="completed", message="Done.")
    updated = created.read_task(task)
    assert updated.task.status is TaskStatus.COMPLETED
    assert updated.task.version > 1
    assert [made.subject for made in updated.artifacts] == [str(folder / "report.md")]
    assert len(created.find_events(EventQuery())) == len(world.store.find_events(EventQuery()))

    world.clock.tick(timedelta(days=8).total_seconds())
    run_recovery.drop_old_checkpoints(world.context)
    assert created.read_records(Checkpoint, session.run(task).run_id, 9) == []
    # Only what nobody resumes from is deleted.
    assert created.read_task(task) == updated
    created.close()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_schema_migration_keeps_the_tasks_and_their_runs(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, dialect: str
) -> None:
    url = f"sqlite:///{tmp_path / 'taskmem.db'}"
    if dialect == "postgresql":
        url = str(request.getfixturevalue("postgres").new_database())
    before = SqlStore(url)
    task = Session(World(before)).works()
    kept = before.read_task(task)
    before.close()
    add_next_schema(monkeypatch, tmp_path)
    store = SqlStore(url)
    assert look(url, "SELECT version_num FROM alembic_version") == [(NEXT,)]
    assert look(url, "SELECT colour FROM tasks") == [("blue",)]
    assert store.read_task(task) == kept
    session = Session(World(store))
    session.does("push it")
    session.call("task_update", task_id=task, status="completed")
    assert session.run(task).state is RunState.COMPLETED
    store.close()


# --- 1. unit tests: completion evaluator ----------------------------------------


@pytest.mark.parametrize("there", ["nothing", "empty", "a folder", "old", "a link to nothing"])
def test_completion_evaluator_rejects_negative_evidence(
    session: Session, folder: Path, there: str
) -> None:
    report = folder / "report.md"
    match there:
        case "empty":
            report.touch()
        case "a folder":
            report.mkdir()
        case "old":
            report.write_text("Of last week.")
            session.world.clock.tick(3600)
        case "a link to nothing":
            report.symlink_to(folder / "missing.md")
    task = session.takes_up(plan=WRITE, metadata=MADE)
    for _ in range(2):  # of what the metadata names, each time
        with pytest.raises(EvidenceMissing, match=r"report\.md"):
            session.call("task_update", task_id=task, status="completed")
    facts = session.world.store.read_task(task)
    assert facts.task.status is TaskStatus.ACTIVE
    assert facts.run is not None
    assert facts.run.state is RunState.RUNNING
    [artifact] = facts.artifacts
    assert artifact.verdict is not Verdict.VERIFIED
    assert milestones(session) == ["accepted"]


def test_completion_evaluator_positive_evidence_completes(session: Session, folder: Path) -> None:
    (folder / "report.md").write_text("All is well.")
    task = session.takes_up(plan=WRITE, metadata=MADE)
    session.call("task_update", task_id=task, status="completed")
    facts = session.world.store.read_task(task)
    assert facts.task.status is TaskStatus.COMPLETED
    [artifact] = facts.artifacts
    assert (artifact.kind, artifact.subject) == ("file", str(folder / "report.md"))
    assert artifact.verdict is Verdict.VERIFIED
    assert artifact.checksum == sha256(b"All is well.").hexdigest()


def test_completion_evaluator_spares_tasks_without_outputs(session: Session) -> None:
    task = session.takes_up(plan=["Look whether the site is up"])
    session.call("task_update", task_id=task, status="completed")
    assert session.world.task(task).status is TaskStatus.COMPLETED
    assert session.world.store.read_task(task).artifacts == ()
    assert milestones(session) == ["accepted", "completed"]
    assert session.lines[-1].startswith("Deploy: completed; nothing was written")


# --- 1. unit tests: stalled loop detection --------------------------------------


@pytest.mark.parametrize("chatter", [False, True])
def test_stalled_loop_detection_fails_with_its_reason(session: Session, chatter: bool) -> None:
    task = session.takes_up()
    session.does("look", "as before")
    session.ends(origin=Origin.USER)
    for _ in range(IDLE_ROUNDS + 1):
        assert session.run(task).state is RunState.RUNNING
        goes_on(session)
        if chatter:
            session.does("look", "as before")
        session.ends("Still at it.")
    run = session.run(task)
    assert (run.state, run.why) == (RunState.FAILED, "stalled_loop")
    assert session.world.task(task).status is TaskStatus.FAILED
    assert session.world.deliver() == []
    assert milestones(session) == ["accepted", "started", "failed"]
    assert "3 reminders in a row brought nothing new" in session.lines[-1]
    [stall] = log(session, "run_stalled")
    assert stall.data["rounds"] == IDLE_ROUNDS + 1


def test_stalled_loop_detection_restarts_after_a_tool_call(session: Session) -> None:
    task = session.takes_up()
    session.ends(origin=Origin.USER)
    for number in range(3 * IDLE_ROUNDS):
        goes_on(session)
        if number % IDLE_ROUNDS == 0:
            session.does(f"try {number}")
        session.world.clock.tick(60)
        session.ends()
    assert session.run(task).state is RunState.RUNNING
    assert log(session, "run_stalled") == []


# --- 2. integration tests -------------------------------------------------------


def test_one_message_is_carried_on_to_completion(session: Session) -> None:
    task = session.takes_up(Origin.USER, plan=["One", "Two", "Three"])
    session.does("read the request")
    session.ends("I have begun.", origin=Origin.USER)
    for step in (1, 2, 3):
        wake = goes_on(session)
        assert wake.task_id == task
        assert f"step {step} of 3" in wake.text
        session.does(f"do step {step}")
        session.call("task_update", task_id=task, completed_steps=[step])
        if step == 3:
            session.call("task_update", task_id=task, status="completed")
        session.ends()
    assert session.world.task(task).status is TaskStatus.COMPLETED
    assert session.run(task).limits.rounds == 3
    assert session.world.deliver() == []
    assert milestones(session) == ["accepted", "started", "completed"]


def test_write_claim_without_evidence_is_blocked(session: Session) -> None:
    task = session.takes_up(plan=WRITE)
    session.does("think about it")
    claim = {"task_id": task, "status": "completed", "message": SAVED}
    with pytest.raises(EvidenceMissing, match="asked once"):
        session.call("task_update", **claim)
    # It remains at work, and what else was said is kept.
    assert session.world.task(task).status is TaskStatus.ACTIVE
    assert session.run(task).state is RunState.RUNNING
    assert SAVED in [content for _, _, content in session.world.thread(task)]
    [refused] = log(session, "completion_refused")
    assert refused.data["doubt"] == "names"
    assert milestones(session) == ["accepted", "started"]
    # Asked once, it completes, and the user reads what is not so.
    answer = session.call("task_update", **claim)
    session.ends(SAVED)
    assert (answer["status"], answer["made"]) == ("completed", [])
    assert [each["what"] for each in answer["unverified"]] == ["report.md"]
    assert session.lines[-2].startswith("Deploy: not verified: report.md")
    assert session.lines[-1].startswith("Deploy: completed; nothing was written")
    assert session.world.deliver() == []


def test_write_and_verify_path_reaches_completed(session: Session, folder: Path) -> None:
    task = session.takes_up(plan=WRITE)
    session.writes(folder / "report.md")
    session.does("cat report.md", "All is well.")
    answer = session.call("task_update", task_id=task, status="completed", message=SAVED)
    session.ends(SAVED)
    assert session.run(task).state is RunState.COMPLETED
    assert milestones(session) == ["accepted", "started", "tool_write_verified", "completed"]
    [made] = answer["made"]
    assert made["path"] == str(folder / "report.md")
    assert (made["change"], made["verdict"]) == ("created", "proved")
    assert made["sha256"] == sha256(b"All is well.").hexdigest()
    [checked] = log(session, "evidence_checked")
    assert [each["verdict"] for each in checked.data["checked"]] == ["verified"]
    assert session.lines[2].startswith("Deploy: made: report.md")
    assert session.world.deliver() == []


def test_provider_retry_exhaustion_fails_the_task(session: Session) -> None:
    task = session.takes_up()
    session.ends(origin=Origin.USER)
    for failures in range(1, RETRIES + 1):
        goes_on(session, OVERLOADED)
        session.ends("", error=OVERLOADED, calls=0)
        assert session.run(task).state is RunState.RUNNING
        assert session.run(task).limits.provider_failures == failures
        session.world.clock.tick(REST * 4 ** (failures - 1) - 1)
        assert session.world.deliver() == []
        session.world.clock.tick(1)
    goes_on(session, OVERLOADED)
    session.ends("", error=OVERLOADED, calls=0)
    run = session.run(task)
    assert (run.state, run.why) == (RunState.FAILED, "provider_error")
    assert session.world.task(task).status is TaskStatus.FAILED
    assert milestones(session) == ["accepted", "failed"]
    assert "provider failed 4 times" in session.lines[-1]
    assert OVERLOADED in session.lines[-1]
    session.world.clock.tick(3600)
    assert session.world.deliver() == []


# --- 3. regression checks -------------------------------------------------------


def test_a_turn_of_two_calls_writes_nothing(session: Session, database: str) -> None:
    session.takes_up()
    session.ends()
    session.world.deliver()
    before = contents(database)

    other = Session(session.world, "agent:main:other", request="Please build it.")
    assert other.begins()
    other.does("rm -rf build")
    other.does("make", "failed", ok=False)
    said = "I saved it to nowhere.md. All done!"
    assert evidence.find_doubt_in_answer(other.world.context, other.owner, said) is None
    other.ends(said, origin=Origin.USER)
    other.begins(Origin.HEARTBEAT)
    other.ends("", error=OVERLOADED)
    assert other.world.daemon() == []

    assert contents(database) == before


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        (SAVED, True),
        (f"{SAVED} Shall I send it?", True),
        ("Everything is done and delivered.", False),
        ("Still at it.", False),
    ],
)
def test_the_guardrail_for_claims_in_words_still_holds(
    session: Session, folder: Path, said: str, asked: bool
) -> None:
    session.takes_up(plan=WRITE)
    context = session.world.context
    assert (evidence.find_doubt_in_answer(context, session.owner, said) is not None) is asked
    session.writes(folder / "report.md")
    assert evidence.find_doubt_in_answer(context, session.owner, said) is None


# --- recovery behavior, safety and privacy --------------------------------------


def test_startup_requeues_running_runs_and_announces_blocked(real_world: World) -> None:
    sessions = [Session(real_world, f"agent:main:{name}") for name in "rqb"]
    running, queued, blocked = sessions
    tasks = []
    for session in sessions:
        session.begins()
        tasks.append(session.register())
        session.does("work")
    real_world.call("task_reset", PERSON, task_id=tasks[1])
    blocked.asks("Shall I push it?")
    asked = blocked.run(tasks[2])
    real_world.deliver()

    running.settles(running.restarts("boot_2"))

    for session, task in ((running, tasks[0]), (queued, tasks[1])):
        run = session.run(task)
        assert (run.state, run.owner) == (RunState.QUEUED, None)
        assert run.limits.tries == 1
    assert blocked.run(tasks[2]) == asked
    assert blocked.lines[-1] == "Deploy: Shall I push it?"
    assert {wake.session_key for wake in real_world.deliver()} == {running.key, queued.key}
    blocked.boot = "boot_2"
    blocked.begins(Origin.OTHER)
    assert blocked.run(tasks[2]).state is RunState.BLOCKED


def test_task_waiting_for_the_user_is_announced_once_over_starts(session: Session) -> None:
    waiting = session.takes_up(name="Waits")
    session.ends(aborted=True)
    for number in range(6):
        session.restarts(f"boot_{number + 2}")
        session.world.clock.tick(30 * 86_400)
    for number in range(250):
        session.call("task_update", task_id=waiting, message=f"Thought {number}.")
    session.restarts("boot_9")
    announced = [line for line in session.lines if "still waits" in line]
    assert len(announced) == 1

    # It goes on, and waits again: that is news.
    session.begins()
    session.call("task_update", task_id=waiting, status="active")
    session.ends(aborted=True)
    session.restarts("boot_10")
    assert len([line for line in session.lines if "still waits" in line]) == 2


def test_credentials_are_scrubbed_in_event_payloads(session: Session, database: str) -> None:
    secret = "sk-" + "a1B2" * 8
    task = session.takes_up(name=f"Deploy with {secret}")
    session.does(f"curl -H 'Authorization: Bearer {secret}' example.org")
    session.ends("", error=f"{OVERLOADED}, key {secret}")
    session.call("task_update", task_id=task, status="failed", message=f"{secret} is refused.")
    payloads = [data for (data,) in look(database, "SELECT data FROM events")]
    assert secret not in "".join(payloads)
    masked = [json.loads(data) for data in payloads if MASK in data]
    assert {"name", "error", "line"} <= {key for data in masked for key in data}
