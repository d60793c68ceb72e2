"""Runs under any order of turns, claims, crashes and restarts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.callers import Caller, GatewayPresence
from openclaw_taskmem.domain.changes.continuation import Origin
from openclaw_taskmem.domain.changes.recovery import MAY_LAPSE
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.runs.current_run import RunReason
from openclaw_taskmem.domain.tasks import thread
from openclaw_taskmem.engine import run_recovery
from taskmem_hookspecs import (
    Checkpoint,
    EventQuery,
    Finding,
    Message,
    MessageType,
    Owner,
    Role,
    Run,
    RunQuery,
    RunState,
    Task,
    TaskmemError,
    TaskQuery,
    TaskStatus,
    Verdict,
    WakeCause,
    WakeQuery,
)
from taskmem_hookspecs.testing import FakeClock
from tests.engine.stateful import NewStore, patience, play, stores
from tests.engine.test_stateful import Crash, Mortal
from tests.plugin_host.made import plugin
from tests.support.sessions import MAIN, Session
from tests.support.world import PERSON, World

ALL = 1_000
GIVEN: Final = {
    RunReason.QUESTION,
    RunReason.ANSWERED,
    RunReason.PAUSED,
    RunReason.BACKGROUND,
    RunReason.HANDED_OFF,
}
"""Reasons that an agent or the user gives in words of their own."""
DECIDED: Final = {*RunReason} - GIVEN
DAY: Final = 86_400


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
        self.keys = (MAIN, "agent:dev:main")
        self.at_work: set[str] = set()
        """The sessions in which a turn runs."""
        self.boots = 1
        self.workers = 0
        self.gone: set[str] = set()
        """The processes of workers that have ended."""
        self.open_world()

    def open_world(self, numbers: Any = None) -> None:
        shelf = plugin("shelf", evidence_verifier=lambda kind: self.shelf)
        self.world = World(
            self.store,
            self.clock,
            plugins=[("shelf", shelf)],
            is_alive=lambda process: process not in self.gone,
        )
        if numbers is not None:
            self.world._numbers = numbers
        self.sessions = {
            key: Session(self.world, key, boot=f"boot_{self.boots}", role=key.split(":")[1])
            for key in self.keys
        }

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
    who = st.sampled_from([0, 0, 1])

    def session(self, who: int) -> Session:
        return self.sessions[self.keys[who]]

    @initialize()
    def start(self) -> None:
        self.turn_begins(0, Origin.USER, None)

    @rule(target=tasks, who=who, writes=st.booleans())
    def register(self, who: int, writes: bool) -> str:
        named = {"artifacts": ["out.md"]} if writes else {}
        return self.session(who).register(plan=["One", "Two"], metadata=named)

    @rule(target=tasks)
    def register_a_backlog_task(self) -> str:
        return self.world.register(plan=["One", "Two"])

    @rule(who=who, origin=st.sampled_from(Origin), fate=fates)
    def turn_begins(self, who: int, origin: Origin, fate: str | None) -> None:
        self.at_work.add(self.keys[who])
        said = "Please see to it." if origin is Origin.USER else None
        self.session(who).request = said
        self.at_risk(fate, lambda: self.session(who).begins(origin))

    @rule(who=who, about=st.sampled_from("abc"), fate=fates, cut=st.booleans())
    def tool(self, who: int, about: str, fate: str | None, cut: bool) -> None:
        act = self.session(who).calls if cut else self.session(who).does
        self.at_risk(fate, lambda: act(about))

    @rule(
        who=who,
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
            ]
        ),
        fate=fates,
    )
    def turn_ends(self, who: int, said: str, turn: dict[str, Any], fate: str | None) -> None:
        self.at_work.discard(self.keys[who])
        self.at_risk(fate, lambda: self.session(who).ends(said, **turn))

    @rule(seconds=st.sampled_from([1, 20, 400, 4_000]))
    def time_passes(self, seconds: int) -> None:
        self.clock.tick(seconds)

    @rule(seconds=st.sampled_from([-2 * DAY, -3_600, -30, 30, 3_600, 2 * DAY]))
    def the_clock_jumps(self, seconds: int) -> None:
        self.clock.jump(seconds)
        if seconds < 0:
            run_recovery.reschedule_tasks(self.world.context, force=True)

    @rule(
        there=st.booleans(),
        lives=st.sampled_from([True, False, None]),
        boot=st.sampled_from(["boot_1", "boot_9"]),
        fingerprint=st.sampled_from(["as it was", "another", None]),
        fate=fates,
    )
    def leases_are_swept(
        self, there: bool, lives: bool | None, boot: str, fingerprint: str | None, fate: str | None
    ) -> None:
        seen = self.presence(boot, fingerprint)
        context = replace(self.world.context, is_alive=lambda _: lives)
        gateways = (seen,) if there else ()
        self.at_risk(fate, lambda: run_recovery.sweep_lapsed_runs(context, gateways))

    def presence(self, boot: str, fingerprint: str | None) -> GatewayPresence:
        """A gateway as it is known while the turns of now run."""
        agents = ("main", "dev")
        return GatewayPresence(
            boot=boot,
            transport="openclaw-plugin",
            version="0",
            started_at=self.clock.now(),
            main_session=MAIN,
            fingerprints=dict.fromkeys(agents, fingerprint) if fingerprint else {},
        ).with_running(self.at_work, self.clock.now())

    @rule(fate=fates)
    def the_gateway_starts_anew(self, fate: str | None) -> None:
        self.boots += 1
        self.at_work.clear()

        def restart() -> None:
            presence = self.session(0).restarts(f"boot_{self.boots}")
            self.session(0).settles(presence)

        self.at_risk(fate, restart)
        for session in self.sessions.values():
            session.boot = f"boot_{self.boots}"

    @rule()
    def wakes_go_out(self) -> None:
        self.world.deliver()

    @rule()
    def nobody_does_anything_for_a_day(self) -> None:
        """Whoever is to go on with something is told so, or may claim it."""
        self.at_work.clear()
        self.clock.tick(1)
        since = self.clock.now()
        waiting = {r.task_id for r in self.runs if r.state.is_waiting}
        for _ in range(27):
            run_recovery.sweep_lapsed_runs(self.world.context, ())
            self.world.pass_time(3_600, 1_800)
        for run in self.runs:
            task = self.store.read_task(run.task_id).task
            if (
                run.state.terminal
                or task.implicit
                or run.task_id in waiting
                or task.status is not TaskStatus.ACTIVE
            ):
                continue
            alerted = task.last_stuck_alert_at
            if current_run.is_given_away(run):  # the user is told
                assert alerted
                assert alerted > since
                continue
            assert any(
                wake.task_id == run.task_id and wake.sent_at and wake.sent_at > since
                for wake in self.world.wakes()
            )

    @rule(task=tasks | st.none(), fate=fates)
    def another_claims(self, task: str | None, fate: str | None) -> None:
        self.workers += 1
        process = f"{self.workers}:1"
        owner = Owner(role="agent", process=process)
        caller = Caller(process=process, owner=owner)
        self.at_risk(fate, lambda: self.world.call("task_claim", caller, task_id=task))

    @rule(fate=fates, noticed=st.booleans())
    def the_workers_end(self, fate: str | None, noticed: bool) -> None:
        self.gone |= {f"{number}:1" for number in range(1, self.workers + 1)}
        if noticed:
            context = self.world.context
            self.at_risk(fate, lambda: run_recovery.requeue_abandoned(context))
        if noticed and fate is None:
            left = [run for run in self.runs if run_recovery.is_abandoned(context, run)]
            assert all((run.session_key or "").startswith("agent:") for run in left)

    @rule(
        task=tasks,
        tool=st.sampled_from(["task_reset", "task_cancel", "task_resume", "task_background"]),
        who=who | st.none(),
        fate=fates,
    )
    def handed_around(self, task: str, tool: str, who: int | None, fate: str | None) -> None:
        caller = self.caller(who)
        self.at_risk(fate, lambda: self.world.call(tool, caller, task_id=task))

    def caller(self, who: int | None) -> Caller:
        """The agent of a session; None: a person."""
        return PERSON if who is None else self.session(who).caller

    @rule(task=tasks, who=who, to=st.sampled_from(["user", "dev", "reviewer"]), fate=fates)
    def handed_off(self, task: str, who: int, to: str, fate: str | None) -> None:
        act = partial(self.session(who).call, "task_handoff", task_id=task, to=to)
        self.at_risk(fate, act)

    @rule(
        task=tasks,
        status=st.sampled_from(TaskStatus),
        who=who | st.none(),
        there=st.booleans(),
        fate=fates,
    )
    def status_changes(
        self, task: str, status: TaskStatus, who: int | None, there: bool, fate: str | None
    ) -> None:
        self.shelf.there = there
        caller = self.caller(who)
        self.at_risk(
            fate, lambda: self.world.call("task_update", caller, task_id=task, status=status.value)
        )

    @rule(task=tasks, who=who, fate=fates)
    def step(self, task: str, who: int, fate: str | None) -> None:
        act = partial(self.session(who).call, "task_update", completed_steps=[1])
        self.at_risk(fate, lambda: act(task_id=task))

    # --- what is true at every commit ------------------------------------------

    @property
    def runs(self) -> list[Run]:
        return list(self.store.find_runs(RunQuery()))

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
        """Over all runs of a task, for who lost one may have the token of another."""
        newest: dict[str, int] = {}
        for run in self.runs:
            newest[run.task_id] = max(newest.get(run.task_id, 0), run.token)
        for run in self.runs:
            if not run.state.terminal:
                assert run.token == newest[run.task_id] >= self.tokens.get(run.task_id, 0)
        self.tokens = newest

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
    def what_is_decided_about_a_run_stands_in_its_thread(self) -> None:
        for run in self.runs:
            log = self.store.find_events(EventQuery(task_id=run.task_id, limit=ALL))
            told = Counter(
                message.created_at
                for message in self.store.read_records(Message, run.task_id)
                if thread.is_decision(message)
            )
            decided = Counter(
                event.at
                for event in log
                if event.kind == events.RUN_CHANGED
                and event.data["why"] in DECIDED
                and event.data["from"] is not None
            )
            assert all(told[at] >= times for at, times in decided.items())

    @invariant()
    def completed_is_proved_where_proof_is_asked_for(self) -> None:
        for task in self.store.find_tasks(TaskQuery(status=TaskStatus.COMPLETED, implicit=False)):
            if task.metadata.get("artifacts"):
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
        known = {run.run_id: run for run in self.runs}
        for wake in self.store.find_wakes(WakeQuery()):
            if wake.cause is WakeCause.RUN and wake.due_at and wake.run_id is not None:
                assert known[wake.run_id].state in MAY_LAPSE

    @invariant()
    def somebody_is_to_go_on_with_what_is_open(self) -> None:
        """It is leased, worked on, awaited, owed a wake, claimable, or looked at."""
        now = self.clock.now()
        for run in self.runs:
            facts = self.store.read_task(run.task_id)
            if run.state.terminal or facts.task.status is not TaskStatus.ACTIVE:
                continue
            if facts.task.implicit:
                continue
            assert (
                run.lease_until is not None
                or (run.owner is not None and run.owner.session_key in self.at_work)
                or facts.task.linkage.active_wait_ids
                or run.state.is_waiting
                or run.state is RunState.QUEUED
                or any(w.due_at for w in facts.wakes if w.cause is WakeCause.RUN)
                or self.is_looked_at_soon(facts.task, now)
            )

    @invariant()
    def an_implicit_task_is_silent(self) -> None:
        covered = self.store.find_tasks(TaskQuery(implicit=True))
        ids = {task.task_id for task in covered}
        assert all(task.stuck_due_at is None for task in covered)
        # Its own thread says what was decided about it, where restarts cut it.
        threads = [message for each in ids for message in self.store.read_records(Message, each)]
        assert {message.role for message in threads} <= {Role.SYSTEM}
        assert {m.msg_type for m in threads} <= {MessageType.LIFECYCLE, MessageType.TEXT}
        silent = {events.MILESTONE, events.NOTICE, events.TASK_STUCK}
        log = self.store.find_events(EventQuery(after=0, limit=10 * ALL))
        assert not [e for e in log if e.task_id in ids and e.kind in silent]

    @invariant()
    def a_user_who_is_not_there_opens_no_implicit_task(self) -> None:
        said = {t.original_request for t in self.store.find_tasks(TaskQuery(implicit=True))}
        assert said <= {"Please see to it."}

    def is_looked_at_soon(self, task: Task, now: datetime) -> bool:
        due = task.stuck_due_at
        return due is not None and due <= now + timedelta(days=1, minutes=15)

    @invariant()
    def no_lease_is_longer_than_one_that_begins_now(self) -> None:
        longest = self.clock.now() + timedelta(
            seconds=self.world.context.policies.runs.lease_seconds
        )
        for run in self.runs:
            assert run.lease_until is None or run.lease_until <= longest

    @invariant()
    def checkpoints_are_counted_without_a_gap(self) -> None:
        for run in self.runs:
            kept = self.store.read_records(Checkpoint, run.run_id, ALL)
            assert [c.number for c in kept] == list(range(1, run.progress.checkpoints + 1))

    def teardown(self) -> None:
        self.store.close()


@stores
@patience
def test_runs_keep_their_rules(new_store: NewStore) -> None:
    play(Runs, new_store)
