"""Every way in which a run changes: who may hold it, for how long, and what follows."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from openclaw_taskmem.domain import fencing, recovery, runs
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.gateway import SETTLES
from openclaw_taskmem.domain.runs import RunPolicy, Why
from taskmem_hookspecs import Event, News, Owner, Run, RunState, TaskStatus
from taskmem_hookspecs.errors import Fenced, RunHeld, RunNotReady
from taskmem_hookspecs.testing import a_run, a_task
from taskmem_hookspecs.testing.clock import DAWN
from tests.support.owners import AGAIN, LEASE, MAIN, NOW, OTHER, POLICY, held

OPEN: Final = [state for state in RunState if not state.terminal]
ENDED: Final = [state for state in RunState if state.terminal]


# --- begun ----------------------------------------------------------------------


def test_a_run_begins_queued_with_nobody_who_holds_it() -> None:
    moved = runs.begin(
        a_task(),
        run_id="run_7",
        now=NOW,
        role="main",
        session_key="agent:main:main",
        home="/home",
        segmented=True,
    )

    assert moved.run == a_run(
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
    assert (logged.kind, logged.task_id, logged.run_id) == (
        "run_changed",
        "task_1",
        "run_7",
    )
    assert logged.data == {
        "from": None,
        "to": "queued",
        "why": None,
        "token": 0,
        "owner": None,
    }


# --- claimed --------------------------------------------------------------------


def test_who_claims_a_queued_run_holds_it_under_a_lease_with_a_new_token() -> None:
    moved = runs.claim(a_run(token=4), MAIN, NOW, POLICY)

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
    moved = runs.claim(a_run(started_at=DAWN), MAIN, NOW, POLICY)

    assert moved.run.started_at == DAWN


def test_a_claim_of_what_another_holds_is_refused_and_says_who_does() -> None:
    with pytest.raises(RunHeld, match="held by main in session agent:main:main"):
        runs.claim(held(), OTHER, NOW, POLICY)


def test_a_run_that_rests_is_still_held() -> None:
    with pytest.raises(RunHeld, match="run_1 is held by main"):
        runs.claim(runs.rest(held()), OTHER, NOW, POLICY)


def test_an_owner_that_began_anew_claims_its_own_run_and_fences_what_it_was() -> None:
    moved = runs.claim(held(why="kept"), AGAIN, NOW, POLICY)

    assert moved.run.state is RunState.RUNNING
    assert (moved.run.owner, moved.run.token) == (AGAIN, 5)
    assert moved.run.changed_at == DAWN
    assert moved.run.lease_until == NOW + LEASE
    assert [event.kind for event in moved.events] == ["run_claimed"]


def test_a_run_for_a_role_is_claimed_by_no_other() -> None:
    with pytest.raises(RunHeld, match="for the role main, and not for builder"):
        runs.claim(a_run(role="main"), OTHER, NOW, POLICY)

    assert runs.claim(a_run(role="main"), MAIN, NOW, POLICY).run.owner == MAIN


def test_an_owner_without_a_session_leaves_the_runs_own() -> None:
    worker = Owner(role="main", process="7:9")

    moved = runs.claim(a_run(session_key="agent:main:x"), worker, NOW, POLICY)

    assert moved.run.session_key == "agent:main:x"


@pytest.mark.parametrize("state", ENDED)
def test_what_has_ended_is_claimed_by_nobody(state: RunState) -> None:
    with pytest.raises(RunNotReady, match=f"run_1 has ended as {state}"):
        runs.claim(held(state=state, lease_until=None), MAIN, NOW, POLICY)


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
def test_a_state_follows_another_or_it_does_not(
    before: RunState, after: RunState
) -> None:
    run = held(state=before)
    if after in FOLLOWS[before].split():
        moved = runs.move(run, after, NOW, "because")
        assert (moved.run.state, moved.run.why) == (after, "because")
        assert moved.run.changed_at == NOW
        (logged,) = moved.events
        assert (logged.data["from"], logged.data["to"]) == (before, after)
        assert logged.data["why"] == "because"
    else:
        with pytest.raises(RunNotReady) as refused:
            runs.move(run, after, NOW)
        assert str(refused.value) == f"{run.run_id} {REFUSALS[before]}."


@pytest.mark.parametrize("state", ENDED)
def test_a_run_that_ended_moves_no_more_and_says_how_to_go_on(state: RunState) -> None:
    with pytest.raises(RunNotReady, match="reopen its task with task_update"):
        runs.move(a_run(state=state), RunState.RUNNING, NOW)


def test_a_run_that_is_queued_again_is_held_by_nobody_and_keeps_its_token() -> None:
    moved = runs.move(held(), RunState.QUEUED, NOW, Why.RESET)

    assert (moved.run.owner, moved.run.lease_until) == (None, None)
    assert moved.run.token == 4
    assert moved.run.session_key == MAIN.session_key


@pytest.mark.parametrize("state", [s for s in RunState if s is not RunState.RUNNING])
def test_nobody_is_expected_to_be_seen_of_a_run_that_does_not_run(
    state: RunState,
) -> None:
    run = held(state=RunState.BLOCKED if state is RunState.QUEUED else RunState.QUEUED)

    assert runs.move(run, state, NOW).run.lease_until is None


@pytest.mark.parametrize("state", [s for s in RunState if s is not RunState.RUNNING])
def test_only_what_has_ended_has_an_end(state: RunState) -> None:
    ended_at = runs.move(held(), state, NOW).run.ended_at

    assert ended_at == (NOW if state.terminal else None)


def test_a_reason_is_forgotten_in_the_next_state() -> None:
    blocked = runs.move(held(), RunState.BLOCKED, NOW, Why.QUESTION).run

    assert runs.move(blocked, RunState.RUNNING, NOW).run.why is None


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
    moved = runs.follow(held(), status, NOW, "because")

    assert (moved.run.state, moved.run.why) == (state, "because")
    assert len(moved.events) == 1


@pytest.mark.parametrize("state", OPEN)
def test_an_active_task_moves_no_run(state: RunState) -> None:
    run = held(state=state)

    assert runs.follow(run, TaskStatus.ACTIVE, NOW, None) == runs.Moved(
        run=run, events=()
    )


def test_a_run_that_is_there_already_keeps_its_reason_and_its_instant() -> None:
    asked = held(state=RunState.BLOCKED, why=Why.QUESTION, lease_until=None)

    moved = runs.follow(asked, TaskStatus.PAUSED, NOW, Why.PAUSED)

    assert (moved.run, moved.events) == (asked, ())


@pytest.mark.parametrize("status", TaskStatus)
@pytest.mark.parametrize("state", OPEN)
def test_no_open_run_keeps_its_task_from_changing(
    state: RunState, status: TaskStatus
) -> None:
    after = runs.follow(held(state=state), status, NOW, None).run

    assert after.state.terminal is status.terminal


def test_a_run_in_review_stays_there_while_its_task_is_set_aside() -> None:
    run = held(state=RunState.REVIEW, why=Why.HANDED_OFF, lease_until=None)

    assert runs.follow(run, TaskStatus.PAUSED, NOW, Why.PAUSED).run == run


# --- seen, resting, told to go on -----------------------------------------------


def test_who_is_seen_has_the_whole_lease_again() -> None:
    policy = RunPolicy(lease_seconds=7)

    assert runs.seen(held(), NOW, policy) == held(
        seen_at=NOW, lease_until=NOW + timedelta(seconds=7)
    )


def test_nothing_is_expected_of_a_run_that_rests() -> None:
    assert runs.rest(held()) == held(lease_until=None)


def test_a_turn_that_ended_in_order_forgets_what_failed_before() -> None:
    assert runs.came_to_an_end(held(tries=2, provider_failures=3)) == held()


def test_the_next_round_is_numbered_and_measured_anew() -> None:
    before = held(rounds=4, news=News.CALL, idle_rounds=2)

    assert runs.next_round(before, NOW) == held(
        rounds=5, news=News.NONE, idle_rounds=2, lease_until=None, seen_at=NOW
    )


def test_a_clock_that_went_back_makes_a_round_no_older() -> None:
    run = held(seen_at=NOW)

    assert runs.next_round(run, DAWN).seen_at == NOW


def test_who_goes_on_elsewhere_takes_a_run_out_of_the_background() -> None:
    away = a_run(session_key="agent:main:taskmem:run_1", told_session=MAIN.session_key)
    own = MAIN.model_copy(update={"session_key": away.session_key})
    worker = Owner(role="agent", process="7:9")

    def places(owner: Owner) -> tuple[str | None, str | None]:
        run = runs.claim(away, owner, NOW, POLICY).run
        return run.session_key, run.told_session

    assert places(own) == (away.session_key, MAIN.session_key)
    assert places(OTHER) == (OTHER.session_key, None)
    assert places(worker) == (MAIN.session_key, None)


def test_a_tasks_next_run_is_later_than_its_last_though_the_clock_went_back() -> None:
    last = a_run(created_at=NOW)

    begun = runs.begin(a_task(), run_id="run_2", now=DAWN, last=last).run

    assert begun.created_at > NOW
    assert (begun.changed_at, begun.seen_at) == (DAWN, DAWN)


def test_the_tokens_of_a_tasks_next_run_go_on_from_those_of_its_last() -> None:
    begun = runs.begin(a_task(), run_id="run_2", now=NOW, last=a_run(token=7)).run

    assert runs.claim(begun, MAIN, NOW, POLICY).run.token == 8


# --- any sequence of all of that -------------------------------------------------

OWNERS: Final = st.sampled_from([MAIN, AGAIN, OTHER])


class AnyLife(RuleBasedStateMachine):
    """One run, and everything that anybody may try with it, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.now = DAWN
        self.run = runs.begin(a_task(), run_id="run_1", now=DAWN).run
        self.tokens = [0]
        self.logged = [RunState.QUEUED]
        self.window = DAWN

    def _becomes(self, run: Run, events: tuple[Event, ...] = ()) -> None:
        assert not self.run.state.terminal or run.state is self.run.state
        changed = [event for event in events if event.kind == "run_changed"]
        assert len(changed) == (run.state is not self.run.state)
        self.logged += [RunState(str(event.data["to"])) for event in changed]
        self.run = run

    @rule(seconds=st.integers(0, 1000))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(owner=OWNERS)
    def claimed(self, owner: Owner) -> None:
        before = self.run
        try:
            moved = runs.claim(before, owner, self.now, POLICY)
        except RunHeld:
            waits = before.state in (RunState.BLOCKED, RunState.REVIEW)
            assert waits or before.state is RunState.RUNNING
            if before.owner is None:
                assert waits
                assert before.session_key != owner.session_key
            else:
                assert not owner.same(before.owner)
        except RunNotReady:
            assert before.state.terminal
        else:
            free = before.owner is None
            assert free or owner.same(before.owner)
            if before.state in (RunState.BLOCKED, RunState.REVIEW):
                own = before.session_key in (None, owner.session_key)
                assert own or owner.same(before.owner)
            self._becomes(moved.run, moved.events)
            assert self.run.owner == owner
            assert self.run.token > max(self.tokens)
            self.tokens.append(self.run.token)

    @rule(state=st.sampled_from(RunState))
    def moved(self, state: RunState) -> None:
        if state is RunState.RUNNING and self.run.owner is None:
            return  # Only a claim makes it run for somebody.
        try:
            moved = runs.move(self.run, state, self.now)
        except RunNotReady:
            return
        self._becomes(moved.run, moved.events)

    @rule(status=st.sampled_from(TaskStatus))
    def its_task_changed(self, status: TaskStatus) -> None:
        if not self.run.state.terminal:
            moved = runs.follow(self.run, status, self.now, None)
            self._becomes(moved.run, moved.events)

    @rule()
    def seen(self) -> None:
        if self.run.state is RunState.RUNNING:
            self._becomes(runs.seen(self.run, self.now, POLICY))

    @rule()
    def rested(self) -> None:
        self._becomes(runs.rest(self.run))

    @rule()
    def told_to_go_on(self) -> None:
        self._becomes(runs.next_round(self.run, self.now))

    @rule()
    def its_gateway_began_anew(self) -> None:
        left = recovery.began_anew(self.run, "boot-9", self.now)
        if left is not None:
            self.window = self.now + SETTLES
            self._becomes(left)

    @rule()
    def lapsed(self) -> None:
        if self.run.lease_until is None or self.run.lease_until > self.now:
            return
        if self.run.state is RunState.QUEUED:
            self._becomes(runs.rest(self.run))
        else:
            moved = runs.move(self.run, RunState.QUEUED, self.now, Why.LEASE_EXPIRED)
            self._becomes(moved.run, moved.events)

    @rule(owner=OWNERS, place=st.integers(0))
    def written_with_a_token(self, owner: Owner, place: int) -> None:
        token = self.tokens[place % len(self.tokens)]
        holder = self.run.owner
        if token == self.run.token and holder is not None and holder.same(owner):
            fencing.guard_write(self.run, Caller(owner=owner), token, "nothing")
        else:
            with pytest.raises((Fenced, RunHeld)):
                fencing.guard_write(self.run, Caller(owner=owner), token, "nothing")

    @invariant()
    def a_lease_is_only_there_while_it_runs(self) -> None:
        """Or where what is queued is left to its gateway's own recovery."""
        if self.run.state is RunState.QUEUED:
            assert self.run.lease_until in (None, self.window)
        else:
            running = self.run.state is RunState.RUNNING
            assert self.run.lease_until is None or running

    @invariant()
    def nobody_holds_what_is_queued(self) -> None:
        assert self.run.state is not RunState.QUEUED or self.run.owner is None

    @invariant()
    def the_token_is_that_of_the_last_claim(self) -> None:
        assert self.run.token == self.tokens[-1]

    @invariant()
    def the_log_tells_where_it_stands(self) -> None:
        assert self.logged[-1] is self.run.state

    @invariant()
    def it_has_an_end_when_it_has_ended(self) -> None:
        assert (self.run.ended_at is not None) is self.run.state.terminal


TestAnyLife = AnyLife.TestCase


@given(seconds=st.floats(0.001, 1e6), ages=st.lists(st.integers(0, 10_000)))
def test_a_lease_lasts_from_when_its_owner_was_seen_last(
    seconds: float, ages: list[int]
) -> None:
    policy = RunPolicy(lease_seconds=seconds)
    run = held()
    for age in sorted(ages):
        run = runs.seen(run, DAWN + timedelta(seconds=age), policy)

    last = DAWN + timedelta(seconds=max(ages, default=0))
    until = last + timedelta(seconds=seconds) if ages else held().lease_until
    assert run.lease_until == until
    assert run.seen_at == last
