"""Runs under any order of turns, claims, crashes and restarts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.turns import Origin
from openclaw_taskmem.engine import recovery
from taskmem_hookspecs import (
    Finding,
    Owner,
    Run,
    RunState,
    TaskmemError,
    TaskStatus,
    Verdict,
    WakeCause,
    WakeState,
)
from taskmem_hookspecs.testing import FakeClock
from tests.engine.stateful import NewStore, play, stores
from tests.engine.test_stateful import Crash, Mortal
from tests.seams.made import plugin
from tests.support.sessions import Session
from tests.support.world import PERSON, World

ALL = 1_000


class Shelf:
    """Verifies files by what the test says is there."""

    def __init__(self) -> None:
        self.there = False

    async def verify(self, claim: Any) -> Finding:
        verdict = Verdict.VERIFIED if self.there else Verdict.REFUTED
        return Finding(verdict=verdict, detail="As the test says.")


class Runs(RuleBasedStateMachine):
    tasks = Bundle("tasks")

    def __init__(self, new_store: NewStore) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.store = Mortal(new_store())
        self.shelf = Shelf()
        self.ended: dict[str, RunState] = {}
        self.tokens: dict[str, int] = {}
        self.claims: dict[tuple[str, int], tuple[str, Owner | None]] = {}
        self.boots = 1
        self.workers = 0
        self.open_world()

    def open_world(self, numbers: Any = None) -> None:
        shelf = plugin("shelf", evidence_verifier=lambda kind: self.shelf)
        self.world = World(self.store, self.clock, plugins=[("shelf", shelf)])
        if numbers is not None:
            self.world._numbers = numbers
        self.session = Session(self.world, boot=f"boot_{self.boots}")

    def at_risk(self, fate: str | None, act: Any) -> None:
        """Do something in a daemon that may end around the commit."""
        self.store.fate = fate
        try:
            act()
        except Crash:
            self.open_world(self.world._numbers)
        except TaskmemError:
            pass
        self.store.fate = None

    fates = st.sampled_from([None, None, "before", "after"])

    @initialize()
    def start(self) -> None:
        self.session.begins()

    @rule(target=tasks, writes=st.booleans())
    def register(self, writes: bool) -> str:
        plan = ["Write out.md"] if writes else ["One", "Two"]
        return self.session.register(plan=plan)

    @rule(target=tasks)
    def register_a_backlog_task(self) -> str:
        return self.world.register(plan=["One", "Two"])

    @rule(origin=st.sampled_from(Origin), fate=fates)
    def turn_begins(self, origin: Origin, fate: str | None) -> None:
        self.at_risk(fate, lambda: self.session.begins(origin))

    @rule(about=st.sampled_from("abc"), fate=fates, cut=st.booleans())
    def tool(self, about: str, fate: str | None, cut: bool) -> None:
        act = self.session.calls if cut else self.session.does
        self.at_risk(fate, lambda: act(about))

    @rule(
        said=st.sampled_from(["Going on.", "Shall I?"]),
        turn=st.sampled_from(
            [
                {},
                {"origin": Origin.USER},
                {"origin": Origin.HEARTBEAT, "calls": 0},
                {"aborted": True},
                {"stopped": True},
                {"children": 1},
                {"error": "529 overloaded"},
                {"error": "HTTP 401"},
                {"refused": "It is not there."},
            ]
        ),
        fate=fates,
    )
    def turn_ends(self, said: str, turn: dict[str, Any], fate: str | None) -> None:
        self.at_risk(fate, lambda: self.session.ends(said, **turn))

    @rule(seconds=st.sampled_from([1, 20, 400, 4_000]))
    def time_passes(self, seconds: int) -> None:
        self.clock.tick(seconds)

    @rule(seconds=st.sampled_from([5, 4_000]))
    def the_clock_goes_back(self, seconds: int) -> None:
        self.clock.jump(-seconds)

    @rule(fate=fates)
    def leases_are_swept(self, fate: str | None) -> None:
        self.at_risk(fate, lambda: recovery.sweep(self.world.shell, ()))

    @rule(fate=fates)
    def the_gateway_starts_anew(self, fate: str | None) -> None:
        self.boots += 1

        def restart() -> None:
            presence = self.session.restarts(f"boot_{self.boots}")
            self.session.settles(presence)

        self.at_risk(fate, restart)
        self.session.boot = f"boot_{self.boots}"

    @rule()
    def wakes_go_out(self) -> None:
        self.world.deliver()

    @rule(task=tasks, fate=fates)
    def another_claims(self, task: str, fate: str | None) -> None:
        self.workers += 1
        process = f"{self.workers}:1"
        owner = Owner(role="agent", process=process)
        caller = Caller(process=process, owner=owner)
        self.at_risk(fate, lambda: self.world.call("task_claim", caller, task_id=task))

    @rule(
        task=tasks,
        tool=st.sampled_from(
            ["task_reset", "task_cancel", "task_resume", "task_background"]
        ),
        mine=st.booleans(),
        fate=fates,
    )
    def handed_around(self, task: str, tool: str, mine: bool, fate: str | None) -> None:
        caller = self.session.caller if mine else PERSON
        self.at_risk(fate, lambda: self.world.call(tool, caller, task_id=task))

    @rule(
        task=tasks,
        status=st.sampled_from(TaskStatus),
        mine=st.booleans(),
        there=st.booleans(),
        fate=fates,
    )
    def moved(
        self, task: str, status: TaskStatus, mine: bool, there: bool, fate: str | None
    ) -> None:
        self.shelf.there = there
        caller = self.session.caller if mine else PERSON
        self.at_risk(
            fate,
            lambda: self.world.call(
                "task_update", caller, task_id=task, status=status.value
            ),
        )

    @rule(task=tasks, fate=fates)
    def step(self, task: str, fate: str | None) -> None:
        self.at_risk(
            fate,
            lambda: self.session.call("task_update", task_id=task, completed_steps=[1]),
        )

    # --- what is true at every commit ------------------------------------------

    @property
    def runs(self) -> list[Run]:
        return list(self.store.list_runs(None, None, ALL))

    @invariant()
    def a_task_has_one_run_that_is_open(self) -> None:
        open_ = [run.task_id for run in self.runs if not run.state.terminal]
        assert len(open_) == len(set(open_))

    @invariant()
    def no_run_moves_that_has_ended(self) -> None:
        states = {run.run_id: run.state for run in self.runs}
        assert all(states[run_id] is state for run_id, state in self.ended.items())
        self.ended |= {id_: state for id_, state in states.items() if state.terminal}

    @invariant()
    def tokens_only_grow(self) -> None:
        for run in self.runs:
            assert run.token >= self.tokens.get(run.run_id, 0)
            self.tokens[run.run_id] = run.token

    @invariant()
    def no_two_claims_of_a_task_have_the_same_token(self) -> None:
        for run in self.runs:
            if run.state is RunState.RUNNING:
                claim = (run.task_id, run.token)
                by = (run.run_id, run.owner)
                assert self.claims.setdefault(claim, by) == by
                last = max(token for task, token in self.claims if task == run.task_id)
                assert run.token == last

    @invariant()
    def who_holds_a_run_has_claimed_it_and_only_one_does(self) -> None:
        for run in self.runs:
            if run.state is RunState.RUNNING:
                assert run.owner is not None
                assert run.token > 0
            if run.state is RunState.QUEUED:
                assert run.owner is None

    @invariant()
    def completed_is_proved_where_proof_is_asked_for(self) -> None:
        for task in self.store.list_tasks(TaskStatus.COMPLETED, ALL):
            if task.plan == ("Write out.md",):
                made = self.store.read_task(task.task_id).artifacts
                assert [a.verdict for a in made] == [Verdict.VERIFIED]

    @invariant()
    def an_open_run_has_an_open_task(self) -> None:
        for run in self.runs:
            if not run.state.terminal:
                task = self.store.read_task(run.task_id).task
                assert not task.status.terminal

    @invariant()
    def nobody_is_told_to_go_on_with_what_is_over_or_blocked(self) -> None:
        owed = self.store.list_wakes((WakeState.DUE,), None, ALL)
        runs = {run.run_id: run for run in self.runs}
        for wake in owed:
            if wake.cause is WakeCause.RUN and wake.run_id is not None:
                assert runs[wake.run_id].state in (RunState.RUNNING, RunState.QUEUED)

    @invariant()
    def checkpoints_are_counted_without_a_gap(self) -> None:
        for run in self.runs:
            kept = self.store.read_checkpoints(run.run_id, ALL)
            assert [c.number for c in kept] == list(range(1, run.checkpoints + 1))

    def teardown(self) -> None:
        self.store.close()


@stores
@pytest.mark.timeout(300)
def test_runs_keep_their_rules(new_store: NewStore) -> None:
    play(Runs, new_store)
