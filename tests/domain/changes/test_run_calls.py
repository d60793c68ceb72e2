"""Every way in which a run changes: who may hold it, for how long, and what follows."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.changes import task_runs
from openclaw_taskmem.domain.errors import Fenced, RunHeld, RunNotReady
from openclaw_taskmem.domain.policies import RunPolicy
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.runs.current_run import RunReason
from openclaw_taskmem.domain.runs.machine import (
    LeaseReleased,
    OwnerSeen,
    QuestionAsked,
    RunBlocked,
    RunCancelled,
    RunClaimed,
    RunCompleted,
    RunContinued,
    RunEvent,
    RunFailed,
    RunRequeued,
    RunTransition,
    SentToReview,
    StepGivenMore,
    ToldToGoOn,
    TurnSucceeded,
    apply_events,
    begin_run,
)
from taskmem_hookspecs import News, Owner, RunState, TaskStatus
from taskmem_hookspecs.testing import DAWN, a_run, a_task
from tests.support.owners import AGAIN, LEASE, MAIN, NOW, OTHER, a_changed_run, a_leased_run

PAGE: Final = Path(__file__).resolve().parents[3] / "docs" / "run-machine.md"
OPEN: Final = [state for state in RunState if not state.terminal]
ENDED: Final = [state for state in RunState if state.terminal]


# --- begun ----------------------------------------------------------------------


def test_a_run_begins_queued_with_nobody_who_holds_it() -> None:
    moved = begin_run(
        a_task(),
        run_id="run_7",
        now=NOW,
        role="main",
        session_key="agent:main:main",
        home="/home",
        segmented=True,
    )

    assert moved.run == a_changed_run(
        run_id="run_7",
        role="main",
        session_key="agent:main:main",
        home="/home",
        segmented=True,
        created_at=NOW,
        changed_at=NOW,
        seen_at=NOW,
    )
    (logged,) = moved.events
    assert (logged.kind, logged.task_id, logged.run_id) == ("run_changed", "task_1", "run_7")
    assert logged.data == {"from": None, "to": "queued", "why": None, "token": 0, "owner": None}


# --- claimed --------------------------------------------------------------------


def test_claim_of_a_queued_run_gives_a_lease_and_a_new_token() -> None:
    moved = apply_events(a_run(token=4), RunClaimed(owner=MAIN), now=NOW)

    assert moved.run == a_run(
        state=RunState.RUNNING,
        owner=MAIN,
        session_key=MAIN.session_key,
        token=5,
        lease_until=NOW + LEASE,
        changed_at=NOW,
        seen_at=NOW,
        started_at=NOW,
    )
    (logged,) = moved.events
    assert logged.data["owner"] == {
        "role": "main",
        "session_key": "agent:main:main",
        "boot": "boot-1",
    }
    assert (logged.data["to"], logged.data["token"]) == ("running", 5)


def test_a_run_keeps_the_instant_of_its_first_claim() -> None:
    moved = apply_events(a_run(started_at=DAWN), RunClaimed(owner=MAIN), now=NOW)

    assert moved.run.started_at == DAWN


def test_claim_of_a_run_held_by_another_is_refused_with_owner() -> None:
    with pytest.raises(RunHeld, match="held by main in session agent:main:main"):
        apply_events(a_leased_run(), RunClaimed(owner=OTHER), now=NOW)


def test_a_run_that_rests_is_still_held() -> None:
    with pytest.raises(RunHeld, match="run_1 is held by main"):
        apply_events(a_leased_run(), LeaseReleased(), RunClaimed(owner=OTHER), now=NOW)


def test_restarted_owner_reclaims_its_run_with_a_new_token() -> None:
    moved = apply_events(a_leased_run(why="kept"), RunClaimed(owner=AGAIN), now=NOW)

    assert moved.run.state is RunState.RUNNING
    assert (moved.run.owner, moved.run.token) == (AGAIN, 5)
    assert moved.run.changed_at == DAWN
    assert moved.run.lease_until == NOW + LEASE
    assert [event.kind for event in moved.events] == ["run_claimed"]


@pytest.mark.parametrize(("again", "since"), [("Which?", DAWN), ("Really?", NOW)])
def test_another_question_waits_from_when_it_is_asked(again: str, since: datetime) -> None:
    asked = apply_events(a_leased_run(), QuestionAsked(question="Which?"), now=DAWN).run

    assert apply_events(asked, QuestionAsked(question=again), now=NOW).run.changed_at == since


def test_a_run_for_a_role_is_claimed_by_no_other() -> None:
    with pytest.raises(RunHeld, match="for the role main, and not for builder"):
        apply_events(a_run(role="main"), RunClaimed(owner=OTHER), now=NOW)

    assert apply_events(a_run(role="main"), RunClaimed(owner=MAIN), now=NOW).run.owner == MAIN


def test_an_owner_without_a_session_leaves_the_runs_own() -> None:
    worker = Owner(role="main", process="7:9")

    moved = apply_events(a_run(session_key="agent:main:x"), RunClaimed(owner=worker), now=NOW)

    assert moved.run.session_key == "agent:main:x"


@pytest.mark.parametrize("state", ENDED)
def test_what_has_ended_is_claimed_by_nobody(state: RunState) -> None:
    with pytest.raises(RunNotReady, match=f"run_1 has ended as {state}"):
        apply_events(a_leased_run(state=state, lease_until=None), RunClaimed(owner=MAIN), now=NOW)


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        pytest.param({}, True, id="itself"),
        pytest.param({"boot": "boot-2"}, True, id="a-new-start"),
        pytest.param({"process": "7:9"}, True, id="another-process"),
        pytest.param({"role": "builder"}, False, id="another-role"),
        pytest.param({"session_key": "agent:main:x"}, False, id="another-session"),
        pytest.param({"session_key": None}, False, id="no-session"),
    ],
)
def test_an_owner_is_known_by_its_role_and_its_session(
    changes: dict[str, object], same: bool
) -> None:
    assert MAIN.same(MAIN.model_copy(update=changes)) is same
    assert not MAIN.same(None)


# --- moved ----------------------------------------------------------------------

ENTERS: Final[dict[RunState, RunEvent]] = {
    RunState.QUEUED: RunRequeued(why=RunReason.RESET),
    RunState.RUNNING: RunContinued(),
    RunState.BLOCKED: RunBlocked(why=RunReason.STALE),
    RunState.REVIEW: SentToReview(),
    RunState.COMPLETED: RunCompleted(),
    RunState.FAILED: RunFailed(why=RunReason.ABORTED),
    RunState.CANCELLED: RunCancelled(),
}
"""An event that puts a run in each state."""


def enter(state: RunState, before: RunState = RunState.RUNNING) -> RunEvent:
    claims = (before, state) == (RunState.QUEUED, RunState.RUNNING)
    return RunClaimed(owner=MAIN) if claims else ENTERS[state]


FOLLOWS: Final = {
    RunState.QUEUED: "running blocked review completed failed cancelled",
    RunState.RUNNING: "queued blocked review completed failed cancelled",
    RunState.BLOCKED: "queued running review completed failed cancelled",
    RunState.REVIEW: "queued running completed failed cancelled",
    RunState.COMPLETED: "",
    RunState.FAILED: "",
    RunState.CANCELLED: "",
}


REOPEN = "reopen its task with task_update and status active"
REFUSALS = {
    RunState.QUEUED: "is queued already; claim it with task_claim to work on it",
    RunState.RUNNING: "runs already; task_status tells how far it is",
    RunState.BLOCKED: "waits for the user already; task_resume takes it up again",
    RunState.REVIEW: "is with the user for review already; once they "
    "have answered, task_resume with their words as answer takes it up again, and "
    "task_update with status completed ends it then",
    RunState.COMPLETED: f"has ended as completed; {REOPEN}",
    RunState.FAILED: f"has ended as failed; {REOPEN}",
    RunState.CANCELLED: f"has ended as cancelled; {REOPEN}",
}


@pytest.mark.parametrize("after", RunState)
@pytest.mark.parametrize("before", RunState)
def test_a_state_follows_another_or_it_does_not(before: RunState, after: RunState) -> None:
    run = a_leased_run(state=before)
    if after in FOLLOWS[before].split():
        moved = apply_events(run, enter(after, before), now=NOW)
        assert moved.run.state is after
        assert moved.run.changed_at == NOW
        (logged,) = moved.events
        assert (logged.data["from"], logged.data["to"]) == (before, after)
        assert logged.data["why"] == moved.run.why
    else:
        with pytest.raises(RunNotReady) as refused:
            apply_events(run, enter(after, before), now=NOW)
        assert str(refused.value) == f"{run.run_id} {REFUSALS[before]}."


@pytest.mark.parametrize("state", ENDED)
def test_a_run_that_ended_moves_no_more_and_says_how_to_go_on(state: RunState) -> None:
    with pytest.raises(RunNotReady, match="reopen its task with task_update"):
        apply_events(a_run(state=state), RunContinued(), now=NOW)


def test_requeued_run_has_no_holder_and_keeps_its_token() -> None:
    moved = apply_events(a_leased_run(), RunRequeued(why=RunReason.RESET), now=NOW)

    assert (moved.run.owner, moved.run.lease_until) == (None, None)
    assert moved.run.token == 4
    assert moved.run.session_key == MAIN.session_key


@pytest.mark.parametrize("state", [s for s in RunState if s is not RunState.RUNNING])
def test_run_that_does_not_run_has_no_lease(state: RunState) -> None:
    run = a_leased_run(state=RunState.BLOCKED if state is RunState.QUEUED else RunState.QUEUED)

    assert apply_events(run, enter(state), now=NOW).run.lease_until is None


@pytest.mark.parametrize("state", [s for s in RunState if s is not RunState.RUNNING])
def test_only_what_has_ended_has_an_end(state: RunState) -> None:
    ended_at = apply_events(a_leased_run(), enter(state), now=NOW).run.ended_at

    assert ended_at == (NOW if state.terminal else None)


def test_a_reason_is_forgotten_in_the_next_state() -> None:
    blocked = apply_events(a_leased_run(), RunBlocked(why=RunReason.STALE), now=NOW).run

    assert apply_events(blocked, RunContinued(), now=NOW).run.why is None


# --- the task's status ----------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (TaskStatus.PAUSED, RunState.BLOCKED),
        (TaskStatus.COMPLETED, RunState.COMPLETED),
        (TaskStatus.FAILED, RunState.FAILED),
        (TaskStatus.CANCELLED, RunState.CANCELLED),
    ],
)
def test_a_run_goes_the_way_of_its_task(status: TaskStatus, state: RunState) -> None:
    moved = task_runs.follow_status(a_leased_run(), status, NOW)

    assert moved.run.state is state
    assert moved.run.why == (RunReason.PAUSED if state is RunState.BLOCKED else None)
    assert len(moved.events) == 1


@pytest.mark.parametrize("state", OPEN)
def test_an_active_task_moves_no_run(state: RunState) -> None:
    run = a_leased_run(state=state)

    assert task_runs.follow_status(run, TaskStatus.ACTIVE, NOW) == RunTransition(run=run)


def test_run_already_in_a_state_keeps_its_reason_and_its_time() -> None:
    asked = a_leased_run(state=RunState.BLOCKED, why=RunReason.QUESTION, lease_until=None)

    moved = task_runs.follow_status(asked, TaskStatus.PAUSED, NOW)

    assert (moved.run, moved.events) == (asked, ())


@pytest.mark.parametrize("status", TaskStatus)
@pytest.mark.parametrize("state", OPEN)
def test_no_open_run_keeps_its_task_from_changing(state: RunState, status: TaskStatus) -> None:
    after = task_runs.follow_status(a_leased_run(state=state), status, NOW).run

    assert after.state.terminal is status.terminal


def test_a_run_in_review_stays_there_while_its_task_is_set_aside() -> None:
    run = a_leased_run(state=RunState.REVIEW, why=RunReason.HANDED_OFF, lease_until=None)

    assert task_runs.follow_status(run, TaskStatus.PAUSED, NOW).run == run


# --- seen, resting, told to go on -----------------------------------------------


def test_who_is_seen_has_the_whole_lease_again() -> None:
    policy = RunPolicy(lease_seconds=7)

    assert apply_events(a_leased_run(), OwnerSeen(), now=NOW, policy=policy).run == a_leased_run(
        seen_at=NOW, lease_until=NOW + timedelta(seconds=7)
    )


def test_nothing_is_expected_of_a_run_that_rests() -> None:
    assert apply_events(a_leased_run(), LeaseReleased(), now=NOW).run == a_leased_run(
        lease_until=None
    )


def test_a_turn_that_ended_in_order_forgets_what_failed_before() -> None:
    assert (
        apply_events(a_leased_run(tries=2, provider_failures=3), TurnSucceeded(), now=NOW).run
        == a_leased_run()
    )


def test_the_next_round_is_numbered_and_measured_anew() -> None:
    before = a_leased_run(rounds=4, news=News.CALL, idle_rounds=2)

    assert apply_events(before, ToldToGoOn(), now=NOW).run == a_leased_run(
        rounds=5, news=News.NONE, idle_rounds=2, lease_until=None, seen_at=NOW
    )


def test_a_clock_that_went_back_makes_a_round_no_older() -> None:
    run = a_leased_run(seen_at=NOW)

    assert apply_events(run, ToldToGoOn(), now=DAWN).run.seen_at == NOW


def test_who_goes_on_elsewhere_takes_a_run_out_of_the_background() -> None:
    away = a_run(session_key="agent:main:taskmem:run_1", told_session=MAIN.session_key)
    own = MAIN.model_copy(update={"session_key": away.session_key})
    worker = Owner(role="agent", process="7:9")

    def places(owner: Owner) -> tuple[str | None, str | None]:
        run = apply_events(away, RunClaimed(owner=owner), now=NOW).run
        return run.session_key, run.told_session

    assert places(own) == (away.session_key, MAIN.session_key)
    assert places(OTHER) == (OTHER.session_key, None)
    assert places(worker) == (MAIN.session_key, None)


def test_next_run_is_dated_after_the_last_if_clock_went_back() -> None:
    last = a_run(created_at=NOW)

    begun = begin_run(a_task(), run_id="run_2", now=DAWN, last=last).run

    assert begun.created_at > NOW
    assert (begun.changed_at, begun.seen_at) == (DAWN, DAWN)


def test_tokens_of_the_next_run_go_on_from_the_last_run() -> None:
    begun = begin_run(a_task(), run_id="run_2", now=NOW, last=a_run(token=7)).run

    assert apply_events(begun, RunClaimed(owner=MAIN), now=NOW).run.token == 8


# --- any sequence of all of that -------------------------------------------------

OWNERS: Final = st.sampled_from([MAIN, AGAIN, OTHER])
INSTANTS: Final = st.integers(0, 10_000).map(lambda s: DAWN + timedelta(seconds=s))
STEPS: Final = st.none() | st.integers(0, 3)
COUNTS: Final = st.integers(0, 3)
WORDS: Final = st.sampled_from(["a", "b", "a b"])
FIELDS: Final = {
    "owner": OWNERS,
    "why": st.none() | st.sampled_from(RunReason),
    "role": st.sampled_from(["main", "builder"]),
    "session_key": st.just("agent:main:taskmem:run_1"),
    "lease_until": INSTANTS,
    "turn_began_at": INSTANTS,
    "idle_rounds": COUNTS,
    "step_calls": COUNTS,
    "checkpoints": COUNTS,
    "calls": COUNTS,
    "heard_until": COUNTS,
    "index": COUNTS,
    "attached": st.just(("task_2",)),
    "task_ids": st.just(("task_2",)),
    "ages": st.booleans(),
    "same": st.booleans(),
    "segmented": st.booleans(),
    **dict.fromkeys(("said", "words", "question", "given", "result"), WORDS),
    **dict.fromkeys(("folder", "fingerprint"), st.none() | WORDS),
}


def draw(kind: type[RunEvent]) -> st.SearchStrategy[RunEvent]:
    """An event of a kind, with anything that it may say."""
    said = {name: FIELDS[name] for name in kind.model_fields if name != "step"}
    if "step" in kind.model_fields:
        said["step"] = COUNTS if kind is StepGivenMore else STEPS
    return st.builds(kind, **said)


class AnyLife(RuleBasedStateMachine):
    """One run, and everything that may happen to it, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.now = DAWN
        self.run = begin_run(a_task(), run_id="run_1", now=DAWN).run
        self.tokens = [0]
        self.logged = [RunState.QUEUED]

    @rule(seconds=st.integers(-10, 1000))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(event=st.one_of(*map(draw, RunEvent.__subclasses__())))
    def happens(self, event: RunEvent) -> None:
        before = self.run
        try:
            moved = apply_events(before, event, now=self.now)
        except RunNotReady:
            nobodys = isinstance(event, RunContinued) and before.owner is None
            assert nobodys or before.state not in event.states
            return
        except RunHeld:
            assert isinstance(event, RunClaimed)
            return
        self.run = moved.run
        assert self.run.state is (event.to or before.state)
        assert not before.state.terminal or self.run.state is before.state
        changed = [each for each in moved.events if each.kind == "run_changed"]
        assert len(changed) == (self.run.state is not before.state)
        self.logged += [RunState(str(each.data["to"])) for each in changed]
        if isinstance(event, RunClaimed):
            self.tokens.append(self.run.token)
        else:
            assert self.run.token == before.token
            assert self.run.owner in (before.owner, None)

    @rule(owner=OWNERS)
    def somebody_claims(self, owner: Owner) -> None:
        before = self.run
        try:
            claim = apply_events(before, RunClaimed(owner=owner), now=self.now)
        except RunHeld:
            waits = before.state in (RunState.BLOCKED, RunState.REVIEW)
            other = before.owner is not None and not owner.same(before.owner)
            away = before.owner is None and before.session_key != owner.session_key
            role = before.role not in (None, owner.role)
            assert other or role or (waits and away)
            return
        except RunNotReady:
            assert before.state.terminal
            return
        assert before.owner is None or owner.same(before.owner)
        self.run = claim.run
        self.logged += [RunState.RUNNING] * (before.state is not RunState.RUNNING)
        self.tokens.append(self.run.token)

    @rule(owner=OWNERS, place=st.integers(0))
    def written_with_a_token(self, owner: Owner, place: int) -> None:
        token = self.tokens[place % len(self.tokens)]
        holder = self.run.owner
        if token == self.run.token and holder is not None and holder.same(owner):
            current_run.guard_write(self.run, Caller(owner=owner), token, "nothing")
        else:
            with pytest.raises((Fenced, RunHeld)):
                current_run.guard_write(self.run, Caller(owner=owner), token, "nothing")

    @invariant()
    def only_what_runs_is_worked_on(self) -> None:
        run = self.run
        assert run.limits.worked_seconds >= 0
        assert run.state is not RunState.RUNNING or run.owner is not None

    @invariant()
    def nobody_holds_what_is_queued(self) -> None:
        assert self.run.state is not RunState.QUEUED or self.run.owner is None

    @invariant()
    def only_what_is_blocked_asks(self) -> None:
        assert self.run.dialogue.question is None or self.run.state is RunState.BLOCKED

    @invariant()
    def tokens_only_grow(self) -> None:
        assert self.run.token == self.tokens[-1]
        assert self.tokens == sorted({*self.tokens})

    @invariant()
    def the_log_tells_where_it_stands(self) -> None:
        assert self.logged[-1] is self.run.state

    @invariant()
    def it_has_an_end_when_it_has_ended(self) -> None:
        assert (self.run.ended_at is not None) is self.run.state.terminal


TestAnyLife = AnyLife.TestCase


def test_the_page_lists_every_event_as_it_is() -> None:
    page = PAGE.read_text()
    rows = [
        f"| `{kind.__name__}` | {(kind.__doc__ or '').splitlines()[0]} | "
        f"{list_states(kind)} | {kind.to or 'as before'} |"
        for kind in RunEvent.__subclasses__()
    ]
    assert [line for line in page.splitlines() if line.startswith("| `")] == rows


def list_states(kind: type[RunEvent]) -> str:
    if kind.states == frozenset(RunState):
        return "any"
    open_ = [state for state in RunState if not state.terminal]
    found = [str(state) for state in RunState if state in kind.states]
    return "open" if kind.states == frozenset(open_) else ", ".join(found)


@given(seconds=st.floats(0.001, 1e6), ages=st.lists(st.integers(0, 10_000)))
def test_a_lease_lasts_from_when_its_owner_was_seen_last(seconds: float, ages: list[int]) -> None:
    policy = RunPolicy(lease_seconds=seconds)
    run = a_leased_run()
    for age in sorted(ages):
        at = DAWN + timedelta(seconds=age)
        run = apply_events(run, OwnerSeen(), now=at, policy=policy).run

    last = DAWN + timedelta(seconds=max(ages, default=0))
    until = last + timedelta(seconds=seconds) if ages else a_leased_run().lease_until
    assert run.lease_until == until
    assert run.seen_at == last
