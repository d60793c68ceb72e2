"""What becomes of a run whose owner may be gone: on proof, never on silence alone."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_taskmem.domain import recovery, stuck
from openclaw_taskmem.domain.gateway import SETTLES
from openclaw_taskmem.domain.recovery import Course, Lapsed, Sight
from openclaw_taskmem.domain.run_events import Claimed
from openclaw_taskmem.domain.run_machine import apply
from openclaw_taskmem.domain.run_policy import RunPolicy, Why
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
from taskmem_hookspecs.testing import a_task, a_wake
from taskmem_hookspecs.testing.clock import DAWN
from tests.support.owners import MAIN, NOW, POLICY, WORKER, held, told

WAITING: Final = Linkage(active_wait_ids=("wait_1",))
HERE: Final = Sight(boot="boot-2")
NOWHERE: Final = Sight()
MOMENT: Final = timedelta(milliseconds=1)


def queued(**changes: object) -> Run:
    """A run of a session that nobody holds, and that was given time."""
    return held(**({"state": RunState.QUEUED, "owner": None} | changes))


def of_a_worker(**changes: object) -> Run:
    """A run that a process holds which lives in no gateway."""
    return held(**({"owner": WORKER, "session_key": None} | changes))


def judged(
    run: Run | None,
    sight: Sight,
    now: datetime = NOW,
    policy: RunPolicy = POLICY,
    **task: object,
) -> Lapsed:
    known = TaskFacts(task=a_task(**task), run=run)
    return recovery.judge(known, sight, now, policy)


def written(run: Run, verdict: Lapsed, *wakes: Wake, **task: object) -> Change:
    return recovery.lapsed(
        TaskFacts(task=a_task(**task), run=run, wakes=wakes),
        verdict,
        wake_id="wake_9",
        text="[task_resume] {}",
        now=NOW,
        policy=POLICY,
    )


def of_kind(change: Change, kind: str) -> list[Event]:
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
        pytest.param(
            held(state=RunState.BLOCKED), HERE, {}, "rest", None, id="blocked"
        ),
        pytest.param(held(state=RunState.REVIEW), HERE, {}, "rest", None, id="review"),
        pytest.param(
            held(), Sight(alive=True, boot="boot-2"), {}, "renew", None, id="alive"
        ),
        pytest.param(
            of_a_worker(), Sight(alive=True), {}, "renew", None, id="worker-alive"
        ),
        pytest.param(held(), HERE, {"linkage": WAITING}, "rest", None, id="waits"),
        pytest.param(
            held(), NOWHERE, {"linkage": WAITING}, "renew", None, id="waits-no-gateway"
        ),
        pytest.param(
            of_a_worker(),
            Sight(gone=True),
            {"linkage": WAITING},
            "queue",
            "owner_gone",
            id="waits-and-its-worker-is-gone",
        ),
        pytest.param(
            of_a_worker(),
            NOWHERE,
            {"linkage": WAITING},
            "renew",
            None,
            id="waits-and-nobody-knows-of-its-worker",
        ),
        pytest.param(
            held(),
            Sight(alive=True),
            {"linkage": WAITING},
            "renew",
            None,
            id="waits-and-lives",
        ),
        pytest.param(held(), NOWHERE, {}, "queue", "lease_expired", id="no-gateway"),
        pytest.param(
            of_a_worker(), NOWHERE, {}, "queue", "lease_expired", id="worker-silent"
        ),
        pytest.param(
            of_a_worker(), Sight(gone=True), {}, "queue", "owner_gone", id="worker-gone"
        ),
        pytest.param(
            held(tries=9), NOWHERE, {}, "queue", "lease_expired", id="nobody-to-resume"
        ),
        pytest.param(held(), HERE, {}, "resume", "interrupted", id="interrupted"),
        pytest.param(queued(), HERE, {}, "resume", "interrupted", id="queued"),
        pytest.param(
            held(),
            Sight(gone=True, boot="boot-2"),
            {},
            "resume",
            "interrupted",
            id="its-process-gone",
        ),
    ],
)
def test_what_becomes_of_a_run_whose_lease_ran_out(
    run: Run | None,
    sight: Sight,
    task: dict[str, object],
    course: str,
    why: str | None,
) -> None:
    assert judged(run, sight, **task) == Lapsed(
        course=Course(course), why=None if why is None else Why(why)
    )


@pytest.mark.parametrize(
    ("age", "verdict"),
    [
        pytest.param(
            timedelta(seconds=3600) - MOMENT,
            Lapsed(course=Course.RESUME, why=Why.INTERRUPTED),
            id="a-moment-before",
        ),
        pytest.param(
            timedelta(seconds=3600),
            Lapsed(course=Course.RESUME, why=Why.INTERRUPTED),
            id="just-then",
        ),
        pytest.param(
            timedelta(seconds=3600) + MOMENT,
            Lapsed(course=Course.ASK, why=Why.STALE),
            id="a-moment-after",
        ),
    ],
)
@pytest.mark.parametrize("run", [held(), queued()], ids=["running", "queued"])
def test_what_was_seen_within_the_hour_resumes_by_itself(
    run: Run, age: timedelta, verdict: Lapsed
) -> None:
    assert judged(run, HERE, run.seen_at + age) == verdict


@pytest.mark.parametrize(
    ("before", "after", "course"),
    [
        ("aaaa", "aaaa", Course.RESUME),
        ("aaaa", "bbbb", Course.ASK),
        (None, "bbbb", Course.RESUME),
        ("aaaa", None, Course.RESUME),
        (None, None, Course.RESUME),
    ],
    ids=["same", "other", "unknown-before", "unknown-now", "unknown"],
)
def test_an_agent_with_other_instructions_is_asked_for(
    before: str | None, after: str | None, course: Course
) -> None:
    verdict = judged(held(fingerprint=before), Sight(boot="b", fingerprint=after))

    assert verdict.course is course
    asks = course is Course.ASK
    assert verdict.why is (Why.PROMPT_CHANGED if asks else Why.INTERRUPTED)


@pytest.mark.parametrize(
    ("tries", "course"),
    [(0, Course.RESUME), (1, Course.RESUME), (2, Course.FAIL), (3, Course.FAIL)],
)
def test_a_run_is_resumed_twice_and_then_fails(tries: int, course: Course) -> None:
    assert judged(held(tries=tries), HERE) == Lapsed(course=course, why=Why.INTERRUPTED)


def test_as_often_and_as_fresh_as_the_policy_says() -> None:
    policy = RunPolicy(tries=1, fresh_seconds=60)

    assert judged(held(tries=1), HERE, NOW, policy).course is Course.FAIL
    assert judged(held(), HERE, DAWN + timedelta(seconds=61), policy).course is (
        Course.ASK
    )


def test_a_run_that_was_tried_too_often_fails_though_it_is_old_and_changed() -> None:
    run = held(tries=2, fingerprint="a")
    sight = Sight(boot="b", fingerprint="b")

    assert judged(run, sight, DAWN + timedelta(days=3)).course is Course.FAIL


def test_a_run_without_a_session_is_never_told_to_go_on() -> None:
    assert judged(of_a_worker(), HERE).course is Course.QUEUE
    assert judged(of_a_worker(tries=9), HERE).course is Course.QUEUE


def test_where_nobody_is_carried_on_a_run_waits_to_be_taken_up() -> None:
    verdict = judged(held(), HERE, policy=RunPolicy(carry_on=False))

    assert verdict == Lapsed(course=Course.QUEUE, why=Why.INTERRUPTED)


# --- written --------------------------------------------------------------------


def test_an_owner_that_lives_has_the_whole_lease_again() -> None:
    change = written(held(seen_at=DAWN), Lapsed(course=Course.RENEW))

    until = NOW + timedelta(seconds=POLICY.lease_seconds)
    assert change == Change(runs=(held(lease_until=until),))


def test_a_run_that_waits_is_not_looked_at_again() -> None:
    change = written(held(), Lapsed(course=Course.REST), told())

    assert change == Change(runs=(held(lease_until=None),))


def test_a_run_that_is_taken_back_is_queued_with_the_reason() -> None:
    change = written(held(), Lapsed(course=Course.QUEUE, why=Why.LEASE_EXPIRED))

    (run,) = change.runs
    assert (run.state, run.why) == (RunState.QUEUED, "lease_expired")
    assert (run.owner, run.lease_until, run.token) == (None, None, 4)
    (logged,) = change.events
    assert (logged.kind, logged.data["from"]) == ("run_changed", "running")
    assert change.wakes == ()


def test_a_run_that_is_queued_already_is_not_looked_at_again() -> None:
    change = written(queued(), Lapsed(course=Course.QUEUE, why=Why.LEASE_EXPIRED))

    assert change == Change(runs=(queued(lease_until=None),))


@pytest.mark.parametrize("run", [held(tries=1), queued(tries=1)], ids=["held", "free"])
def test_a_session_that_is_resumed_is_told_and_so_is_the_user(run: Run) -> None:
    change = written(run, Lapsed(course=Course.RESUME, why=Why.INTERRUPTED))

    (after,) = change.runs
    assert (after.state, after.owner, after.lease_until) == (
        RunState.QUEUED,
        None,
        None,
    )
    assert (after.tries, after.rounds, after.news) == (2, 1, News.NONE)
    (wake,) = change.wakes
    assert (wake.key, wake.cause) == ("run:run_1:1", WakeCause.RUN)
    assert (wake.session_key, wake.run_id) == ("agent:main:main", "run_1")
    assert (wake.text, wake.due_at) == ("[task_resume] {}", NOW)
    assert change.tasks[0].held_until == NOW + stuck.HELD
    assert line(change) == "Deploy the site: resuming after an interruption."


def test_a_run_that_is_resumed_is_as_old_as_it_was() -> None:
    """Being told to go on is no sign of its owner."""
    change = written(held(seen_at=DAWN), Lapsed(course=Course.RESUME))

    assert change.runs[0].seen_at == DAWN


def test_a_word_that_is_owed_gives_way_to_that_of_resuming() -> None:
    change = written(held(), Lapsed(course=Course.RESUME), told(wake_id="wake_1"))

    assert {wake.wake_id: wake.state for wake in change.wakes} == {
        "wake_1": WakeState.SUPERSEDED,
        "wake_9": WakeState.DUE,
    }
    assert len(of_kind(change, "wake_superseded")) == 1


@pytest.mark.parametrize(
    ("why", "said"),
    [
        (Why.STALE, "was interrupted 10 minutes ago."),
        (Why.PROMPT_CHANGED, "its agent's instructions have changed since."),
    ],
    ids=["stale", "changed"],
)
def test_the_user_is_asked_and_the_run_waits_for_them(why: Why, said: str) -> None:
    change = written(held(seen_at=DAWN), Lapsed(course=Course.ASK, why=why))

    (run,) = change.runs
    assert (run.state, run.why, run.lease_until) == (RunState.BLOCKED, why, None)
    assert line(change).startswith("Deploy the site: it was interrupted")
    assert line(change).endswith(f"{said} Say continue or /resume to go on.")
    assert change.wakes == ()
    assert change.tasks == ()


def test_nobody_is_told_to_go_on_with_what_the_user_is_asked_about() -> None:
    alert = a_wake(wake_id="wake_2", task_id="task_1")
    verdict = Lapsed(course=Course.ASK, why=Why.STALE)

    change = written(held(), verdict, told(), alert, held_until=NOW)

    assert [(wake.wake_id, wake.state) for wake in change.wakes] == [
        ("wake_1", WakeState.SUPERSEDED)
    ]
    assert change.tasks[0].held_until is None
    assert len(of_kind(change, "wake_superseded")) == 1


def test_a_run_that_was_interrupted_too_often_fails_and_the_user_is_told() -> None:
    verdict = Lapsed(course=Course.FAIL, why=Why.INTERRUPTED)

    change = written(held(tries=2), verdict, told())

    (run,) = change.runs
    assert (run.state, run.why) == (RunState.FAILED, Why.INTERRUPTED)
    assert change.tasks[0].status is TaskStatus.FAILED
    assert [wake.state for wake in change.wakes] == [WakeState.SUPERSEDED]
    assert "interrupted again after it was resumed 2 times" in line(change)
    assert "/resume" in line(change)


@given(
    run=st.sampled_from([held(), queued()]),
    sight=st.builds(
        Sight,
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
    run = drawn["run"].model_copy(
        update={key: drawn[key] for key in ("tries", "fingerprint")}
    )
    now = DAWN + timedelta(seconds=drawn["age"])
    linkage = WAITING if drawn["waits"] else Linkage()
    known = TaskFacts(task=a_task(linkage=linkage), run=run, wakes=(told(),))

    verdict = recovery.judge(known, drawn["sight"], now, drawn["policy"])
    change = recovery.lapsed(
        known, verdict, wake_id="wake_9", text="x", now=now, policy=drawn["policy"]
    )

    (after,) = change.runs
    assert after.lease_until is None or after.lease_until > now
    assert after.token == run.token
    asked = {Course.ASK: RunState.BLOCKED, Course.FAIL: RunState.FAILED}
    back = {Course.QUEUE: RunState.QUEUED, Course.RESUME: RunState.QUEUED}
    assert after.state is (asked | back).get(verdict.course, run.state)
    owes = [wake for wake in change.wakes if wake.wake_id == "wake_9"]
    assert len(owes) == (verdict.course is Course.RESUME)
    if verdict.course in (*asked, Course.RESUME):
        assert [wake.state for wake in change.wakes if wake not in owes] == [
            WakeState.SUPERSEDED
        ]


# --- a gateway that starts anew -------------------------------------------------

STARTED: Final = NOW
TIME: Final = STARTED + SETTLES


@pytest.mark.parametrize(
    "lease",
    [None, TIME + MOMENT, TIME + timedelta(days=1)],
    ids=["resting", "a-moment-later", "later"],
)
@pytest.mark.parametrize("free", [True, False], ids=["queued", "running"])
def test_what_an_earlier_start_held_has_until_its_gateway_has_settled(
    lease: datetime | None, free: bool
) -> None:
    run = (queued if free else held)(lease_until=lease, started_at=NOW)

    left = recovery.began_anew(run, "boot-2", STARTED, NOW)

    assert left == run.model_copy(update={"lease_until": TIME})


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(queued(started_at=None), id="never-begun"),
        pytest.param(held(), id="lapses-anyway"),
        pytest.param(held(lease_until=TIME), id="lapses-just-then"),
        pytest.param(
            held(owner=MAIN.model_copy(update={"boot": "boot-2"}), lease_until=None),
            id="of-this-start",
        ),
        pytest.param(
            held(owner=MAIN.model_copy(update={"boot": None}), lease_until=None),
            id="of-no-gateway",
        ),
        pytest.param(of_a_worker(lease_until=None), id="of-a-worker"),
        *(
            pytest.param(held(state=state, lease_until=None), id=state)
            for state in RunState
            if state not in (RunState.RUNNING, RunState.QUEUED)
        ),
    ],
)
def test_what_no_earlier_start_of_the_gateway_held_stays_as_it_is(run: Run) -> None:
    assert recovery.began_anew(run, "boot-2", STARTED, NOW) is None


def test_the_user_hears_again_of_what_waits_for_them() -> None:
    run = held(state=RunState.BLOCKED, why=Why.QUESTION)

    event = recovery.announced(a_task(), run, NOW)

    said = "Deploy the site: still waits for your answer. Say /resume to go on."
    assert line(Change(events=(event,))) == said


@pytest.mark.parametrize(
    ("seconds", "kind", "known"),
    [(0, "notice", True), (-1, "notice", False), (0, "run_changed", False)],
)
def test_what_waits_is_announced_once_while_it_waits(
    seconds: int, kind: str, known: bool
) -> None:
    run = held(state=RunState.BLOCKED, why=Why.QUESTION)
    at = run.changed_at + timedelta(seconds=seconds)
    told = Event(at=at, kind=kind, run_id=run.run_id)

    assert recovery.was_announced(run, [told]) is known


# --- a turn that takes the run up -----------------------------------------------


def adopted(*wakes: Wake) -> Change:
    known = TaskFacts(task=a_task(), run=queued(), wakes=wakes)
    moved = apply(queued(), Claimed(owner=MAIN), now=NOW)
    return recovery.adopted(known, moved, NOW)


def test_a_turn_that_takes_the_run_up_makes_what_is_owed_needless() -> None:
    change = adopted(told(), a_wake(wake_id="wake_2"))

    assert change.runs[0].state is RunState.RUNNING
    assert [(wake.wake_id, wake.state) for wake in change.wakes] == [
        ("wake_1", WakeState.SUPERSEDED)
    ]
    assert [event.kind for event in change.events] == [
        "run_changed",
        "wake_superseded",
    ]


def test_a_turn_takes_back_nothing_that_is_on_its_way() -> None:
    """It may be what has begun the turn."""
    on_its_way = told(attempts=1, due_at=NOW + timedelta(seconds=30))

    assert adopted(on_its_way).wakes == ()
