"""The engine under any order of calls, failures and crashes."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from openclaw_taskmem.domain.changes import stuck, waits
from openclaw_taskmem.domain.errors import TaskEnded
from openclaw_taskmem.domain.tasks import plan
from openclaw_taskmem.domain.wakes.outbox import Delivery
from openclaw_taskmem.engine import run_recovery, wakes
from taskmem_hookspecs import (
    Change,
    Message,
    TaskQuery,
    TaskStatus,
    TaskStore,
    Wait,
    WaitQuery,
    WaitStatus,
    WakeCause,
    WakeQuery,
    WakeState,
)
from taskmem_hookspecs.testing import FakeClock
from tests.engine.stateful import NewStore, patience, play, stores
from tests.support.world import World

STEPS = ["Build", "Push", "Run", "Verify", "Announce"]
ENDINGS = [s for s in WaitStatus if s is not WaitStatus.WATCHING]


class Crash(Exception):
    """The process ended here."""


class Mortal:
    """A store whose process may end just before or just after a commit."""

    def __init__(self, store: TaskStore) -> None:
        self._store = store
        self.fate: str | None = None
        self.endings: Counter[tuple[str, int]] = Counter()
        """How often each round of each wait was ended."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(self, change: Change) -> None:
        fate, self.fate = self.fate, None
        if fate == "before":
            raise Crash
        self._ends_stay(change)
        self._store.commit(change)
        for wait in change.waits:
            if wait.ended_at is not None:
                self.endings[wait.wait_id, wait.round] += 1
        self._linkage_is_true(change)
        if fate == "after":
            raise Crash

    def _ends_stay(self, change: Change) -> None:
        """What has ended changes its status but to active."""
        known = {task.task_id: task for task in self._store.find_tasks(TaskQuery(implicit=False))}
        for task in change.tasks:
            before = known.get(task.task_id, task).status
            assert not before.terminal or task.status in (before, TaskStatus.ACTIVE)

    def _linkage_is_true(self, change: Change) -> None:
        """What a task says of its waits is true at every commit."""
        for task_id in {w.task_id for w in change.waits if w.task_id}:
            facts = self._store.read_task(task_id)
            open_ = [w.wait_id for w in facts.waits if w.status == "watching"]
            assert list(facts.task.linkage.active_wait_ids) == open_


class Engine(RuleBasedStateMachine):
    tasks = Bundle("tasks")
    waits_ = Bundle("waits")
    claimed = Bundle("claimed")

    def __init__(self, new_store: NewStore) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.store = Mortal(new_store())
        self.world = World(self.store, self.clock)
        self.said: Counter[tuple[str, str]] = Counter()
        self.alerts: dict[str, datetime] = {}
        self.number = 0

    def restart(self) -> None:
        numbers = self.world._numbers
        self.world = World(self.store, self.clock)
        self.world._numbers = numbers
        run_recovery.reschedule_tasks(self.world.context)

    @initialize()
    def start(self) -> None:
        run_recovery.reschedule_tasks(self.world.context)

    @rule(target=tasks, steps=st.integers(1, 5), session=st.sampled_from([None, "s"]))
    def register(self, steps: int, session: str | None) -> str:
        given = {"session_key": session} if session else {}
        return self.world.register(plan=STEPS[:steps], **given)

    @rule(task=tasks, step=st.integers(1, 6), fate=st.sampled_from([None, "before", "after"]))
    def narrate(self, task: str, step: int, fate: str | None) -> None:
        self.number += 1
        text = f"Step {step} done, note {self.number}"
        self.store.fate = fate
        try:
            self.world.narrate(task, text)
        except Crash:
            self.restart()
        self.store.fate = None
        if fate != "before":
            self.said[task, text] += 1

    @rule(task=tasks, steps=st.permutations(STEPS), count=st.integers(1, 5))
    def revise(self, task: str, steps: list[str], count: int) -> None:
        before = self.world.task(task)
        done = {before.plan[i] for i in before.done}
        try:
            self.world.call("task_plan_update", task_id=task, new_plan=steps[:count], reason="r")
        except TaskEnded:
            assert before.status.terminal
            return
        after = self.world.task(task)
        assert {after.plan[i] for i in after.done} == done & set(after.plan)

    @rule(task=tasks, status=st.sampled_from(TaskStatus))
    def move(self, task: str, status: TaskStatus) -> None:
        before = self.world.task(task).status
        try:
            self.world.call("task_update", task_id=task, status=status.value)
        except TaskEnded:
            assert before.terminal
            assert status not in (before, TaskStatus.ACTIVE)

    @rule(target=waits_, task=tasks)
    def open_wait(self, task: str) -> Any:
        try:
            return self.world.open_wait(task)
        except TaskEnded:
            return multiple()

    @rule(
        wait=waits_,
        status=st.sampled_from(ENDINGS),
        fate=st.sampled_from([None, "before", "after"]),
    )
    def end_wait(self, wait: Wait, status: WaitStatus, fate: str | None) -> None:
        """Somebody who watches ends the round that was armed first."""
        before = self.store.read_wait(wait.wait_id)
        self.store.fate = fate
        try:
            ended = self.world.end_wait(wait, status)
        except Crash:
            self.restart()
        else:
            open_ = before.status is WaitStatus.WATCHING
            assert ended is (open_ and before.round == wait.round)
        self.store.fate = None

    @rule(target=waits_, wait=waits_, wake_when=st.sampled_from([None, "finer"]))
    def send_back(self, wait: Wait, wake_when: str | None) -> Any:
        before = self.store.read_wait(wait.wait_id)
        given = {"wake_when": wake_when} if wake_when else {}
        try:
            self.world.call("wait_update", wait_id=wait.wait_id, **given)
        except TaskEnded:
            assert self.world.task(wait.task_id or "").status.terminal
            return multiple()
        after = self.store.read_wait(wait.wait_id)
        assert (after.status, after.round) == (WaitStatus.WATCHING, before.round + 1)
        return after

    @rule(wait=waits_)
    def cancel_wait(self, wait: Wait) -> None:
        before = self.store.read_wait(wait.wait_id)
        self.world.call("wait_cancel", wait_id=wait.wait_id)
        after = self.store.read_wait(wait.wait_id)
        open_ = before.status is WaitStatus.WATCHING
        assert after.status is (WaitStatus.CANCELLED if open_ else before.status)

    @rule(seconds=st.sampled_from([1, 59, 299, 300, 901, 5000, 90_000]))
    def time_passes(self, seconds: int) -> None:
        self.clock.tick(seconds)

    @rule(fate=st.sampled_from([None, "before", "after"]))
    def sweep(self, fate: str | None) -> None:
        before = {wake.key for wake in self.world.wakes()}
        self.store.fate = fate
        try:
            self.world.sweep()
        except Crash:
            self.restart()
        self.store.fate = None
        now = self.clock.now()
        for wake in self.world.wakes():
            if wake.key in before or wake.cause is not WakeCause.STUCK:
                continue
            facts = self.store.read_task(wake.task_id or "")
            assert stuck.judge_stuck(facts, now, self.world.context.policies.stuck) is not None
            last = self.alerts.get(wake.task_id or "")
            cooldown = timedelta(seconds=self.world.context.policies.stuck.cooldown_seconds)
            assert last is None or now - last >= cooldown
            self.alerts[wake.task_id or ""] = now

    @rule(target=claimed)
    def claim(self) -> Any:
        return multiple(*self.world.claim())

    @rule(delivery=consumes(claimed), fate=st.sampled_from([None, "before", "after"]))
    def take(self, delivery: Delivery, fate: str | None) -> None:
        self.confirm_delivery(delivery, "test", fate)

    def confirm_delivery(self, delivery: Delivery, transport: str, fate: str | None) -> None:
        now = self.clock.now()
        self.store.fate = fate
        try:
            wakes.settle_delivered(self.world.context, delivery, transport)
        except Crash:
            self.restart()
        self.store.fate = None
        for wake in delivery.wakes:
            if wake.cause is WakeCause.STUCK and fate != "before":
                current = self.store.find_wakes(WakeQuery(wake_ids=(wake.wake_id,)))[0]
                if current.state is WakeState.SENT:
                    self.alerts[wake.task_id or ""] = now

    @rule(delivery=consumes(claimed))
    def lose(self, delivery: Delivery) -> None:
        wakes.settle_failed(self.world.context, delivery, "gateway down")

    @rule()
    def crash(self) -> None:
        self.restart()

    # --- what always holds ------------------------------------------------------

    @invariant()
    def linkage_is_the_open_waits(self) -> None:
        for task in self.world.store.find_tasks(TaskQuery(implicit=False)):
            facts = self.world.store.read_task(task.task_id)
            latest = max((wait.changed_at for wait in facts.waits), default=None)
            # Of those that changed at the same instant, the rows do not say which was the last.
            last = [wait for wait in facts.waits if wait.changed_at == latest] or [None]
            assert task.linkage in [waits.build_linkage(facts.waits, each) for each in last]

    @invariant()
    def progress_is_the_plan_and_disjoint(self) -> None:
        for task in self.world.store.find_tasks(TaskQuery(implicit=False)):
            told = plan.compute_progress(task)
            current = () if told.current is None else (told.current,)
            together = [*told.completed, *current, *told.remaining]
            assert sorted(together) == list(range(len(task.plan)))

    @invariant()
    def every_answered_message_is_there_once(self) -> None:
        stored = Counter(
            (m.task_id, m.content)
            for task in self.world.store.find_tasks(TaskQuery(implicit=False))
            for m in self.world.store.read_records(Message, task.task_id)
            if m.role == "agent"
        )
        assert stored == self.said

    @invariant()
    def message_counts_are_true(self) -> None:
        for task in self.world.store.find_tasks(TaskQuery(implicit=False)):
            thread = self.world.store.read_records(Message, task.task_id)
            assert task.message_count == len(thread)

    @invariant()
    def no_round_of_a_wait_ends_twice(self) -> None:
        assert set(self.store.endings.values()) <= {1}

    @invariant()
    def each_ending_owes_one_wake_and_has_one_message(self) -> None:
        rounds = Counter(wait_id for wait_id, _ in self.store.endings)
        owed = Counter(w.wait_id for w in self.world.wakes() if w.wait_id)
        for wait in self.world.store.find_waits(WaitQuery()):
            told = [
                m.content
                for m in self.world.store.read_records(Message, wait.task_id or "")
                if m.msg_type == "wait" and wait.wait_id in m.content
            ]
            assert len(told) == rounds[wait.wait_id]
            silent = sum("smart_wait cancelled" in line for line in told)
            assert owed[wait.wait_id] == len(told) - silent

    @invariant()
    def nobody_who_rests_or_waits_has_a_look_coming(self) -> None:
        for task in self.world.store.find_tasks(TaskQuery(implicit=False)):
            awake = task.status is TaskStatus.ACTIVE and not (task.linkage.active_wait_ids)
            assert (task.stuck_due_at is not None) is awake

    def teardown(self) -> None:
        """Whatever happened, what is owed arrives once the gateway is there."""
        self.store.fate = None
        self.restart()
        for _ in range(200):
            if not self.world.wakes(WakeState.DUE):
                break
            self.clock.tick(301)
            self.world.deliver()
        assert self.world.wakes(WakeState.DUE) == []
        self.store.close()


@stores
@patience
def test_the_engine_keeps_its_rules(new_store: NewStore) -> None:
    play(Engine, new_store)
