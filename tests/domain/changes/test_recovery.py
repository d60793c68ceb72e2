"""What becomes of a run whose owner may be gone: on proof, never on silence alone."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_taskmem.domain.changes import recovery, stuck
from openclaw_taskmem.domain.changes.recovery import LapseAction, LapseVerdict, OwnerStatus
from openclaw_taskmem.domain.policies import RunPolicy
from openclaw_taskmem.domain.runs.current_run import RunReason
from openclaw_taskmem.domain.runs.machine import RunClaimed, apply_events, set_fields
from openclaw_taskmem.domain.wakes.outbox import GATEWAY_RECOVERY_TIME
from taskmem_hookspecs import (
    Change,
    Event,
    Linkage,
    News,
    Run,
    RunState,
    TaskFacts,
    TaskStatus,
    Wake,
    WakeCause,
    WakeState,
)
from taskmem_hookspecs.testing import DAWN, a_task, a_wake
from tests.support.owners import MAIN, NOW, POLICY, WORKER, a_leased_run, a_resume_wake

WAITING: Final = Linkage(active_wait_ids=("wait_1",))
HERE: Final = OwnerStatus(boot="boot-2")
NOWHERE: Final = OwnerStatus()
MOMENT: Final = timedelta(milliseconds=1)


def a_queued_run(**changes: object) -> Run:
    """A run of a session that nobody holds, and that was given time."""
    return a_leased_run(**({"state": RunState.QUEUED, "owner": None} | changes))


def a_worker_run(**changes: object) -> Run:
    """A run that a process holds which lives in no gateway."""
    return a_leased_run(**({"owner": WORKER, "session_key": None} | changes))


def judge_lease(
    run: Run | None,
    sight: OwnerStatus,
    now: datetime = NOW,
    policy: RunPolicy = POLICY,
    **task: object,
) -> LapseVerdict:
    known = TaskFacts(task=a_task(**task), run=run)
    return recovery.judge_lapse(known, sight, now, policy)


def write_lapse(run: Run, verdict: LapseVerdict, *wakes: Wake, **task: object) -> Change:
    return recovery.apply_lapse(
        TaskFacts(task=a_task(**task), run=run, wakes=wakes),
        verdict,
        wake_id="wake_9",
        text="[task_resume] {}",
        now=NOW,
        policy=POLICY,
    )


def events_of_kind(change: Change, kind: str) -> list[Event]:
    return [event for event in change.events if event.kind == kind]


def line(change: Change) -> str:
    (said,) = [e for e in change.events if e.kind in ("notice", "milestone")]
    assert said.data["session_key"] == "agent:main:main"
    return str(said.data["line"])


# --- judged ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "sight", "task", "course", "why"),
    [
        pytest.param(None, HERE, {}, "rest", None, id="no-run"),
        pytest.param(a_leased_run(state=RunState.BLOCKED), HERE, {}, "rest", None, id="blocked"),
        pytest.param(a_leased_run(state=RunState.REVIEW), HERE, {}, "rest", None, id="review"),
        pytest.param(
            a_leased_run(), OwnerStatus(alive=True, boot="boot-2"), {}, "renew", None, id="alive"
        ),
        pytest.param(a_worker_run(), OwnerStatus(alive=True), {}, "renew", None, id="worker-alive"),
        pytest.param(a_leased_run(), HERE, {"linkage": WAITING}, "rest", None, id="waits"),
        pytest.param(
            a_leased_run(), NOWHERE, {"linkage": WAITING}, "renew", None, id="waits-no-gateway"
        ),
        pytest.param(
            a_worker_run(),
            OwnerStatus(gone=True),
            {"linkage": WAITING},
            "queue",
            "owner_gone",
            id="waits-and-its-worker-is-gone",
        ),
        pytest.param(
            a_worker_run(),
            NOWHERE,
            {"linkage": WAITING},
            "renew",
            None,
            id="waits-and-nobody-knows-of-its-worker",
        ),
        pytest.param(
            a_leased_run(),
            OwnerStatus(alive=True),
            {"linkage": WAITING},
            "renew",
            None,
            id="waits-and-lives",
        ),
        pytest.param(a_leased_run(), NOWHERE, {}, "queue", "lease_expired", id="no-gateway"),
        pytest.param(a_worker_run(), NOWHERE, {}, "queue", "lease_expired", id="worker-silent"),
        pytest.param(
            a_worker_run(), OwnerStatus(gone=True), {}, "queue", "owner_gone", id="worker-gone"
        ),
        pytest.param(
            a_leased_run(tries=9), NOWHERE, {}, "queue", "lease_expired", id="nobody-to-resume"
        ),
        pytest.param(a_leased_run(), HERE, {}, "resume", "interrupted", id="interrupted"),
        pytest.param(a_queued_run(), HERE, {}, "resume", "interrupted", id="queued"),
        pytest.param(
            a_leased_run(),
            OwnerStatus(gone=True, boot="boot-2"),
            {},
            "resume",
            "interrupted",
            id="its-process-gone",
        ),
    ],
)
def test_what_becomes_of_a_run_whose_lease_ran_out(
    run: Run | None, sight: OwnerStatus, task: dict[str, object], course: str, why: str | None
) -> None:
    assert judge_lease(run, sight, **task) == LapseVerdict(
        action=LapseAction(course), why=None if why is None else RunReason(why)
    )


@pytest.mark.parametrize(
    ("age", "verdict"),
    [
        pytest.param(
            timedelta(seconds=3600) - MOMENT,
            LapseVerdict(action=LapseAction.RESUME, why=RunReason.INTERRUPTED),
            id="a-moment-before",
        ),
        pytest.param(
            timedelta(seconds=3600),
            LapseVerdict(action=LapseAction.RESUME, why=RunReason.INTERRUPTED),
            id="just-then",
        ),
        pytest.param(
            timedelta(seconds=3600) + MOMENT,
            LapseVerdict(action=LapseAction.ASK, why=RunReason.STALE),
            id="a-moment-after",
        ),
    ],
)
@pytest.mark.parametrize("run", [a_leased_run(), a_queued_run()], ids=["running", "queued"])
def test_what_was_seen_within_the_hour_resumes_by_itself(
    run: Run, age: timedelta, verdict: LapseVerdict
) -> None:
    assert judge_lease(run, HERE, run.seen_at + age) == verdict


@pytest.mark.parametrize(
    ("before", "after", "course"),
    [
        ("aaaa", "aaaa", LapseAction.RESUME),
        ("aaaa", "bbbb", LapseAction.ASK),
        (None, "bbbb", LapseAction.RESUME),
        ("aaaa", None, LapseAction.RESUME),
        (None, None, LapseAction.RESUME),
    ],
    ids=["same", "other", "unknown-before", "unknown-now", "unknown"],
)
def test_an_agent_with_other_instructions_is_asked_for(
    before: str | None, after: str | None, course: LapseAction
) -> None:
    verdict = judge_lease(
        a_leased_run(fingerprint=before), OwnerStatus(boot="b", fingerprint=after)
    )

    assert verdict.action is course
    asks = course is LapseAction.ASK
    assert verdict.why is (RunReason.PROMPT_CHANGED if asks else RunReason.INTERRUPTED)


@pytest.mark.parametrize(
    ("tries", "course"),
    [
        (0, LapseAction.RESUME),
        (1, LapseAction.RESUME),
        (2, LapseAction.FAIL),
        (3, LapseAction.FAIL),
    ],
)
def test_a_run_is_resumed_twice_and_then_fails(tries: int, course: LapseAction) -> None:
    assert judge_lease(a_leased_run(tries=tries), HERE) == LapseVerdict(
        action=course, why=RunReason.INTERRUPTED
    )


def test_as_often_and_as_fresh_as_the_policy_says() -> None:
    policy = RunPolicy(tries=1, fresh_seconds=60)

    assert judge_lease(a_leased_run(tries=1), HERE, NOW, policy).action is LapseAction.FAIL
    assert judge_lease(a_leased_run(), HERE, DAWN + timedelta(seconds=61), policy).action is (
        LapseAction.ASK
    )


def test_run_tried_too_often_fails_although_old_and_changed() -> None:
    run = a_leased_run(tries=2, fingerprint="a")
    sight = OwnerStatus(boot="b", fingerprint="b")

    assert judge_lease(run, sight, DAWN + timedelta(days=3)).action is LapseAction.FAIL


def test_a_run_without_a_session_is_never_told_to_go_on() -> None:
    assert judge_lease(a_worker_run(), HERE).action is LapseAction.QUEUE
    assert judge_lease(a_worker_run(tries=9), HERE).action is LapseAction.QUEUE


def test_where_nobody_is_carried_on_a_run_waits_to_be_taken_up() -> None:
    verdict = judge_lease(a_leased_run(), HERE, policy=RunPolicy(carry_on=False))

    assert verdict == LapseVerdict(action=LapseAction.QUEUE, why=RunReason.INTERRUPTED)


# --- written --------------------------------------------------------------------


def test_an_owner_that_lives_has_the_whole_lease_again() -> None:
    change = write_lapse(a_leased_run(seen_at=DAWN), LapseVerdict(action=LapseAction.RENEW))

    until = NOW + timedelta(seconds=POLICY.lease_seconds)
    assert change == Change(runs=(a_leased_run(lease_until=until),))


def test_a_run_that_waits_is_not_looked_at_again() -> None:
    change = write_lapse(a_leased_run(), LapseVerdict(action=LapseAction.REST), a_resume_wake())

    assert change == Change(runs=(a_leased_run(lease_until=None),))


def test_a_run_that_is_taken_back_is_queued_with_the_reason() -> None:
    change = write_lapse(
        a_leased_run(), LapseVerdict(action=LapseAction.QUEUE, why=RunReason.LEASE_EXPIRED)
    )

    (run,) = change.runs
    assert (run.state, run.why) == (RunState.QUEUED, "lease_expired")
    assert (run.owner, run.lease_until, run.token) == (None, None, 4)
    (logged,) = change.events
    assert (logged.kind, logged.data["from"]) == ("run_changed", "running")
    assert change.wakes == ()


def test_a_run_that_is_queued_already_is_not_looked_at_again() -> None:
    change = write_lapse(
        a_queued_run(), LapseVerdict(action=LapseAction.QUEUE, why=RunReason.LEASE_EXPIRED)
    )

    assert change == Change(runs=(a_queued_run(lease_until=None),))


@pytest.mark.parametrize(
    "run", [a_leased_run(tries=1), a_queued_run(tries=1)], ids=["held", "free"]
)
def test_a_session_that_is_resumed_is_told_and_so_is_the_user(run: Run) -> None:
    change = write_lapse(run, LapseVerdict(action=LapseAction.RESUME, why=RunReason.INTERRUPTED))

    (after,) = change.runs
    assert (after.state, after.owner, after.lease_until) == (RunState.QUEUED, None, None)
    assert (after.limits.tries, after.limits.rounds, after.progress.news) == (2, 1, News.NONE)
    (wake,) = change.wakes
    assert (wake.key, wake.cause) == ("run:run_1:1", WakeCause.RUN)
    assert (wake.session_key, wake.run_id) == ("agent:main:main", "run_1")
    assert (wake.text, wake.due_at) == ("[task_resume] {}", NOW)
    assert change.tasks[0].held_until == NOW + stuck.RESUME_HOLD
    assert line(change) == "Deploy the site: resuming after an interruption."


def test_a_resume_goes_to_the_gateway_of_the_last_owner() -> None:
    """Two gateways may have a session of that key, and the task may come from neither."""
    run = a_leased_run(owner=MAIN.model_copy(update={"host": "openclaw:desk"}))
    change = write_lapse(run, LapseVerdict(action=LapseAction.RESUME), session_key=None)

    assert [wake.host for wake in change.wakes] == ["openclaw:desk"]


def test_a_run_that_is_resumed_is_as_old_as_it_was() -> None:
    """Being told to go on is no sign of its owner."""
    change = write_lapse(a_leased_run(seen_at=DAWN), LapseVerdict(action=LapseAction.RESUME))

    assert change.runs[0].seen_at == DAWN


def test_a_word_that_is_owed_gives_way_to_that_of_resuming() -> None:
    change = write_lapse(
        a_leased_run(), LapseVerdict(action=LapseAction.RESUME), a_resume_wake(wake_id="wake_1")
    )

    assert {wake.wake_id: wake.state for wake in change.wakes} == {
        "wake_1": WakeState.SUPERSEDED,
        "wake_9": WakeState.DUE,
    }
    assert len(events_of_kind(change, "wake_superseded")) == 1


@pytest.mark.parametrize(
    ("why", "said"),
    [
        (RunReason.STALE, "was interrupted 10 minutes ago."),
        (RunReason.PROMPT_CHANGED, "its agent's instructions have changed since."),
    ],
    ids=["stale", "changed"],
)
def test_the_user_is_asked_and_the_run_waits_for_them(why: RunReason, said: str) -> None:
    change = write_lapse(a_leased_run(seen_at=DAWN), LapseVerdict(action=LapseAction.ASK, why=why))

    (run,) = change.runs
    assert (run.state, run.why, run.lease_until) == (RunState.BLOCKED, why, None)
    assert line(change).startswith("Deploy the site: it was interrupted")
    assert line(change).endswith(f"{said} Say continue or /resume to go on.")
    assert change.wakes == ()
    assert change.tasks == (a_task(message_count=1),)


def test_asking_the_user_supersedes_the_go_on_wake_of_the_run() -> None:
    alert = a_wake(wake_id="wake_2", task_id="task_1")
    verdict = LapseVerdict(action=LapseAction.ASK, why=RunReason.STALE)

    change = write_lapse(a_leased_run(), verdict, a_resume_wake(), alert, held_until=NOW)

    assert [(wake.wake_id, wake.state) for wake in change.wakes] == [
        ("wake_1", WakeState.SUPERSEDED)
    ]
    assert change.tasks[0].held_until is None
    assert len(events_of_kind(change, "wake_superseded")) == 1


def test_run_interrupted_too_often_fails_and_tells_the_user() -> None:
    verdict = LapseVerdict(action=LapseAction.FAIL, why=RunReason.INTERRUPTED)

    change = write_lapse(a_leased_run(tries=2), verdict, a_resume_wake())

    (run,) = change.runs
    assert (run.state, run.why) == (RunState.FAILED, RunReason.INTERRUPTED)
    assert change.tasks[0].status is TaskStatus.FAILED
    assert [wake.state for wake in change.wakes] == [WakeState.SUPERSEDED]
    assert "interrupted again after it was resumed 2 times" in line(change)
    assert "/resume" in line(change)


@given(
    run=st.sampled_from([a_leased_run(), a_queued_run()]),
    sight=st.builds(
        OwnerStatus,
        alive=st.booleans(),
        gone=st.booleans(),
        boot=st.sampled_from([None, "boot-2"]),
        fingerprint=st.sampled_from([None, "a", "b"]),
    ),
    tries=st.integers(0, 4),
    fingerprint=st.sampled_from([None, "a"]),
    age=st.integers(-10_000, 10_000),
    policy=st.builds(RunPolicy, carry_on=st.booleans(), tries=st.integers(0, 3)),
    waits=st.booleans(),
)
def test_whatever_is_seen_a_lapsed_run_lapses_no_more(**drawn: Any) -> None:
    run = set_fields(drawn["run"], {key: drawn[key] for key in ("tries", "fingerprint")})
    now = DAWN + timedelta(seconds=drawn["age"])
    linkage = WAITING if drawn["waits"] else Linkage()
    known = TaskFacts(task=a_task(linkage=linkage), run=run, wakes=(a_resume_wake(),))

    verdict = recovery.judge_lapse(known, drawn["sight"], now, drawn["policy"])
    change = recovery.apply_lapse(
        known, verdict, wake_id="wake_9", text="x", now=now, policy=drawn["policy"]
    )

    (after,) = change.runs
    assert after.lease_until is None or after.lease_until > now
    assert after.token == run.token
    asked = {LapseAction.ASK: RunState.BLOCKED, LapseAction.FAIL: RunState.FAILED}
    back = {LapseAction.QUEUE: RunState.QUEUED, LapseAction.RESUME: RunState.QUEUED}
    assert after.state is (asked | back).get(verdict.action, run.state)
    owes = [wake for wake in change.wakes if wake.wake_id == "wake_9"]
    assert len(owes) == (verdict.action is LapseAction.RESUME)
    if verdict.action in (*asked, LapseAction.RESUME):
        assert [wake.state for wake in change.wakes if wake not in owes] == [WakeState.SUPERSEDED]


# --- a gateway that starts anew -------------------------------------------------

STARTED: Final = NOW
TIME: Final = STARTED + GATEWAY_RECOVERY_TIME


@pytest.mark.parametrize(
    "lease",
    [None, TIME + MOMENT, TIME + timedelta(days=1)],
    ids=["resting", "a-moment-later", "later"],
)
@pytest.mark.parametrize("free", [True, False], ids=["queued", "running"])
def test_run_of_an_earlier_start_has_until_its_gateway_settles(
    lease: datetime | None, free: bool
) -> None:
    run = (a_queued_run if free else a_leased_run)(lease_until=lease, started_at=NOW)

    left = recovery.set_restart_lease(run, "boot-2", STARTED, NOW)

    assert left == run.model_copy(update={"lease_until": TIME})


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(a_queued_run(started_at=None), id="never-begun"),
        pytest.param(a_leased_run(), id="lapses-anyway"),
        pytest.param(a_leased_run(lease_until=TIME), id="lapses-just-then"),
        pytest.param(
            a_leased_run(owner=MAIN.model_copy(update={"boot": "boot-2"}), lease_until=None),
            id="of-this-start",
        ),
        pytest.param(
            a_leased_run(owner=MAIN.model_copy(update={"boot": None}), lease_until=None),
            id="of-no-gateway",
        ),
        pytest.param(a_worker_run(lease_until=None), id="of-a-worker"),
        *(
            pytest.param(a_leased_run(state=state, lease_until=None), id=state)
            for state in RunState
            if state not in (RunState.RUNNING, RunState.QUEUED)
        ),
    ],
)
def test_run_not_held_by_an_earlier_gateway_start_is_unchanged(run: Run) -> None:
    assert recovery.set_restart_lease(run, "boot-2", STARTED, NOW) is None


def test_the_user_hears_again_of_what_waits_for_them() -> None:
    run = a_leased_run(state=RunState.BLOCKED, why=RunReason.QUESTION)

    event = recovery.build_waiting_notice(a_task(), run, NOW)

    said = "Deploy the site: still waits for your answer. Say /resume to go on."
    assert line(Change(events=(event,))) == said


@pytest.mark.parametrize(
    ("seconds", "kind", "known"),
    [(0, "notice", True), (-1, "notice", False), (0, "run_changed", False)],
)
def test_what_waits_is_announced_once_while_it_waits(seconds: int, kind: str, known: bool) -> None:
    run = a_leased_run(state=RunState.BLOCKED, why=RunReason.QUESTION)
    at = run.changed_at + timedelta(seconds=seconds)
    told = Event(at=at, kind=kind, run_id=run.run_id)

    assert recovery.was_announced(run, [told]) is known


# --- a turn that takes the run up -----------------------------------------------


def adopt_queued_run(*wakes: Wake) -> Change:
    known = TaskFacts(task=a_task(), run=a_queued_run(), wakes=wakes)
    moved = apply_events(a_queued_run(), RunClaimed(owner=MAIN), now=NOW)
    return recovery.adopt_run(known, moved, NOW)


def test_turn_that_adopts_a_run_supersedes_its_owed_wake() -> None:
    change = adopt_queued_run(a_resume_wake(), a_wake(wake_id="wake_2"))

    assert change.runs[0].state is RunState.RUNNING
    assert [(wake.wake_id, wake.state) for wake in change.wakes] == [
        ("wake_1", WakeState.SUPERSEDED)
    ]
    assert [event.kind for event in change.events] == ["run_changed", "wake_superseded"]


def test_a_turn_takes_back_nothing_that_is_on_its_way() -> None:
    """It may be what has begun the turn."""
    on_its_way = a_resume_wake(attempts=1, due_at=NOW + timedelta(seconds=30))

    assert adopt_queued_run(on_its_way).wakes == ()
