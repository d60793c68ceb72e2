"""Run the background loops: stuck tasks, outbox, hooks, leases, notifications and retention."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final, cast

from openclaw_taskmem.daemon.notifier import VIEW_DELAY, Notifier
from openclaw_taskmem.daemon.thread_pool import OffLoopCaller
from openclaw_taskmem.daemon.wake_routes import RoutingTransport
from openclaw_taskmem.domain.callers import GatewayPresence
from openclaw_taskmem.domain.clock_skew import (
    ClockReading,
    compute_grace,
    measure_jump,
    measure_oversleep,
)
from openclaw_taskmem.domain.policies import read_retry_after
from openclaw_taskmem.domain.wakes.outbox import Delivery, Hold
from openclaw_taskmem.engine import (
    notifications,
    recall,
    retention,
    run_recovery,
    stuck,
    sub_agents,
    waits,
    wakes,
)
from openclaw_taskmem.engine.context import Context, DueWork
from openclaw_taskmem.engine.notifications import NotificationKind
from taskmem_hookspecs import (
    AgentHost,
    Clock,
    TaskmemError,
    WakeReceipt,
    WakeRefused,
    WakeTransport,
    WakeUndelivered,
)
from taskmem_hookspecs.errors import Conflict

log = logging.getLogger(__name__)

_REPEAT_DELAY: Final = timedelta(seconds=0.5)
"""Delay before a pass that left something due is repeated."""
TROUBLE: Final = timedelta(seconds=5)
"""Delay before a failed pass is repeated; doubled with each failure."""
_MOST_TROUBLE: Final = timedelta(seconds=20)
DROP_SECONDS: Final = 3_600.0
"""Interval between two deletions of expired rows."""
DROP_ON_SECONDS: Final = 60.0
"""Interval between two deletions while there are more expired rows than one of them takes."""
SURE_SECONDS: Final = 300.0
"""How long the clock must run without a jump before ended rows are deleted for their age; a wrong
clock is often corrected soon after start."""
SWEEP_SECONDS: Final = 120.0
"""Maximum interval between two checks for expired leases.

Source: docs/origins.md, "Claims and leases".
"""
_SAVE_TRIES: Final = 7
"""Tries to save the outcome of a delivery, 1 s apart, then 2 s, 4 s and so on."""


class WakeableTimer:
    """Lets one loop sleep until an instant, and others wake it earlier.

    The loop calls `reset` before it looks for work and `wait` after; a `wake` between the two is
    not lost.
    """

    def __init__(self, clock: Clock, longest: float) -> None:
        """Create a timer that sleeps at most `longest` seconds."""
        self._clock = clock
        self._longest = longest
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()
        self._until: datetime | None = None
        self._earliest: datetime | None = None

    def reset(self) -> None:
        """Discard earlier wake-ups, because the loop is about to look for work."""
        self._earliest = None
        self._until = None
        self._rung.clear()

    def wake(self, at: datetime) -> None:
        """Report that something is due at an instant; for any thread.

        A loop that looks for work by then anyway is left alone: to wake the event loop costs more
        than most of a call.
        """
        until, earliest = self._until, self._earliest
        if until is None:
            is_planned = earliest is not None and earliest <= at
        else:
            is_planned = self._clock.now() < until <= at
        if not is_planned:
            self._loop.call_soon_threadsafe(self._wake, at)

    def _wake(self, at: datetime) -> None:
        if self._earliest is None or at < self._earliest:
            self._earliest = at
        if self._until is not None and (at < self._until or self._until <= self._clock.now()):
            # Sooner than that; or the clock was set, so that the sleep ends too late.
            self._rung.set()

    async def wait(self, due: datetime | None) -> float:
        """Return at `due` or at an earlier instant that `wake` reported.

        Returns after the longest sleep in any case. None: nothing is known to be due.

        Returns:
            By how many seconds it overslept, as `measure_oversleep` computes.
        """
        while True:
            dues = [at for at in (due, self._earliest) if at is not None]
            now = self._clock.now()
            wait = (min(dues) - now).total_seconds() if dues else self._longest
            if wait <= 0:
                return 0.0
            seconds = min(wait, self._longest)
            self._until = min(dues, default=datetime.max.replace(tzinfo=now.tzinfo))
            self._rung.clear()
            began = self._clock.monotonic()
            if not await self._sleep_or_wake(seconds):
                return measure_oversleep(seconds, self._clock.monotonic() - began)

    async def _sleep_or_wake(self, seconds: float) -> bool:
        """Return True if `wake` came before the time was over."""
        sleep = asyncio.ensure_future(self._clock.sleep(seconds))
        rung = asyncio.ensure_future(self._rung.wait())
        try:
            await asyncio.wait((sleep, rung), return_when=asyncio.FIRST_COMPLETED)
            return not sleep.done()
        finally:
            sleep.cancel()
            rung.cancel()


class _GracePeriod:
    """Suspends judgements on silence after a time in which nothing could be heard.

    Between two judgements it lasts at most one threshold, so that a machine that is always late
    still judges.
    """

    def __init__(self, clock: Clock, threshold: float) -> None:
        """Start without a grace period; `threshold` is the silence that is judged, in seconds."""
        self._clock = clock
        self._threshold = threshold
        self._lost = 0.0
        self._until = float("-inf")

    def extend(self, lost: float) -> bool:
        """Suspend judgements for as many seconds as were lost.

        Returns:
            True if nothing was suspended before.
        """
        begins = not self._lost
        held = compute_grace(lost, max(0.0, self._threshold - self._lost))
        self._lost += max(0.0, lost)
        self._until = max(self._until, self._clock.monotonic() + held)
        return begins

    def read_remaining(self) -> timedelta:
        """Return the remaining time; once it is zero, the next period may begin."""
        seconds = self._until - self._clock.monotonic()
        if seconds > 0:
            return timedelta(seconds=seconds)
        self._lost = 0.0
        return timedelta()


class BackgroundLoops:
    """Runs the loops that no call asks for, except the watching of waits."""

    def __init__(
        self,
        context: Context,
        transport: WakeTransport,
        run_in_thread: OffLoopCaller,
        *,
        longest: float,
        holds: Callable[[], wakes.Holds] = lambda: wakes.hold_nothing,
        gateways: Callable[[], Sequence[GatewayPresence]] = tuple,
        agent_hosts: Sequence[AgentHost] = (),
    ) -> None:
        """Create the loops.

        `longest`: maximum sleep of a loop in seconds, except that for leases. `holds` returns a
        function that says which sessions must not be disturbed; `gateways` returns the connected
        gateways; `agent_hosts` receive notifications for users; without any they count as
        delivered.
        """
        self._context = context
        self._transport = transport
        self._run_in_thread = run_in_thread
        self._holds = holds
        self._gateways = gateways
        self._longest = timedelta(seconds=longest)
        self._stuck_timer = WakeableTimer(context.clock, longest)
        self._outbox_timer = WakeableTimer(context.clock, longest)
        self._hook_timer = WakeableTimer(context.clock, longest)
        self._lease_timer = WakeableTimer(context.clock, SWEEP_SECONDS)
        self._notifiers = {
            kind: (
                WakeableTimer(context.clock, longest),
                Notifier(context, agent_hosts, run_in_thread, kind),
            )
            for kind in NotificationKind
        }
        self._sweep_lock = asyncio.Lock()
        """Held while stuck tasks and interrupted runs are found, so that the wakes of one session
        go out together."""
        self._deliveries: dict[asyncio.Task[None], str | None] = {}
        """Deliveries in progress, with their sessions."""
        self._unanswered_deliveries: set[asyncio.Task[None]] = set()
        """Deliveries that the transport has not answered yet."""
        self._stopping = False
        self._clock_readings = self._read_clocks()
        self._clock_lock = asyncio.Lock()
        """Held while a clock jump is handled, so that only one pass handles it."""
        self._stuck_grace = _GracePeriod(context.clock, context.policies.stuck.threshold_seconds)
        self._lease_grace = _GracePeriod(context.clock, context.policies.runs.lease_seconds)
        self._drop_days_at = float("-inf")
        self._drop_ended_at = context.clock.monotonic() + SURE_SECONDS
        """When to delete old checkpoints, and ended rows, by the monotonic clock."""
        self._jumped = self._went_back = False
        """Set until the store has been adjusted to a clock jump."""

    def wake_loops(self, due: DueWork) -> None:
        """Wake the loops for what a commit made due; for any thread."""
        if due.stuck_at is not None:
            self._stuck_timer.wake(due.stuck_at)
        if due.wake_at is not None:
            self._outbox_timer.wake(due.wake_at)
        if due.lapse_at is not None:
            self._lease_timer.wake(due.lapse_at)
        if due.hooks_due:
            self._hook_timer.wake(self._context.clock.now())
        if due.lines_due:
            self._wake_notifiers(NotificationKind.LINES, NotificationKind.STOPS)
        if due.views_due:
            self._wake_notifiers(NotificationKind.VIEWS, rest=VIEW_DELAY)

    def recheck_holds(self) -> None:
        """Check again which sessions may be disturbed; called on the event loop."""
        self._outbox_timer.wake(self._context.clock.now())
        self._wake_notifiers(*NotificationKind)

    def _wake_notifiers(self, *kinds: NotificationKind, rest: timedelta = timedelta()) -> None:
        at = self._context.clock.now() + rest
        for kind in kinds:
            self._notifiers[kind][0].wake(at)

    async def run(self) -> None:
        """Run all loops until cancelled."""
        while not await self._try_recover_state():
            await self._context.clock.sleep(TROUBLE.total_seconds())
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._run_forever(self._stuck_timer, self._run_stuck_pass))
                group.create_task(self._run_forever(self._outbox_timer, self._run_outbox_pass))
                group.create_task(self._run_forever(self._hook_timer, self._run_hook_pass))
                group.create_task(self._run_forever(self._lease_timer, self._run_leases_pass))
                for alarm, notifier in self._notifiers.values():
                    group.create_task(self._run_forever(alarm, notifier.run_pass))
        finally:
            await self._stop_deliveries()

    async def _try_recover_state(self) -> bool:
        try:
            for mend in (
                run_recovery.reschedule_tasks,
                run_recovery.release_wakes,
                run_recovery.requeue_abandoned,
            ):
                await self._run_in_thread(mend, self._context)
        except Exception:
            log.exception("could not reschedule tasks; retrying")
            return False
        return True

    async def _run_forever(
        self, alarm: WakeableTimer, one_pass: Callable[[], Awaitable[datetime | None]]
    ) -> None:
        """Repeat a pass; each returns when the next is due, or None if unknown."""
        trouble = TROUBLE
        while True:
            alarm.reset()
            try:
                await self._run_in_thread(self._context.store.look_for_others)
                due = await one_pass()
                trouble = TROUBLE
            except Exception as error:
                # An error of ours has a sentence; any other is a bug and needs a traceback.
                seen = None if isinstance(error, TaskmemError) else error
                log.warning("a pass failed: %s; again in %s", error, trouble, exc_info=seen)
                due = self._context.clock.now() + trouble
                trouble = min(trouble * 2, _MOST_TROUBLE)
            if late := await alarm.wait(due):
                self._extend_grace(late)

    # --- stuck --------------------------------------------------------------

    async def _run_stuck_pass(self) -> datetime | None:
        await self._check_clock()
        if held := self._stuck_grace.read_remaining():
            return self._context.clock.now() + held
        async with self._sweep_lock:
            looked = await self._run_in_thread(stuck.sweep_due_tasks, self._context)
        if looked == stuck.BATCH:
            return self._context.clock.now() + _REPEAT_DELAY
        due = await self._run_in_thread(stuck.find_next_due, self._context)
        return self._delay_due(due, _REPEAT_DELAY if looked else timedelta())

    async def _check_clock(self) -> None:
        """Handle a jump of the wall clock: no task was silent while the machine slept."""
        async with self._clock_lock:
            now = self._read_clocks()
            jumped = measure_jump(self._clock_readings, now)
            self._clock_readings = now
            self._went_back |= jumped < 0
            self._jumped |= jumped != 0
            if jumped:
                self._drop_ended_at = max(self._drop_ended_at, now.monotonic + SURE_SECONDS)
            if jumped > 0:
                log.info("the clock went on by %.0f s", jumped)
                self._extend_grace(jumped)
            elif jumped < 0:
                log.info("the clock went back by %.0f s; rescheduling tasks", -jumped)
            # If the store is busy, the next pass tries again.
            if self._jumped:
                context = self._context
                await self._run_in_thread(
                    waits.set_deadlines, context, context.wait_watcher.list_seconds_left()
                )
                self._jumped = False
            if self._went_back:
                await self._run_in_thread(
                    lambda: run_recovery.reschedule_tasks(self._context, force=True)
                )
                self._outbox_timer.wake(now.wall)
                self._went_back = False

    def _extend_grace(self, lost: float) -> None:
        """Delay stuck alerts and lease expiry by the seconds in which nothing could be heard."""
        if self._stuck_grace.extend(lost):
            log.info("no reports for %.1f s; delaying stuck alerts", lost)
        self._lease_grace.extend(lost)

    def _read_clocks(self) -> ClockReading:
        return ClockReading(self._context.clock.now(), self._context.clock.monotonic())

    def _delay_due(self, due: datetime | None, rest: timedelta) -> datetime | None:
        """Return `due`, at the earliest after `rest`, so that a pass does not spin."""
        return due and max(due, self._context.clock.now() + rest)

    # --- outbox -------------------------------------------------------------

    async def _run_outbox_pass(self) -> datetime | None:
        async with self._sweep_lock:
            claimed = await self._run_in_thread(
                wakes.claim_deliveries,
                self._context,
                self._build_hold_finder(),
                tuple(self._deliveries.values()),
            )
        for delivery in claimed:
            task = asyncio.create_task(self._deliver(delivery))
            self._deliveries[task] = delivery.message.session_key
            task.add_done_callback(self._finish_delivery)
        due = await self._run_in_thread(
            wakes.find_next_due, self._context, self._build_hold_finder(), self._longest
        )
        return self._delay_due(due, _REPEAT_DELAY)

    def _build_hold_finder(self) -> wakes.Holds:
        """Return a function that says why a session's wakes must wait; for any thread."""
        on_the_way = Counter(self._deliveries.values())
        find_agent = self._context.sessions.find_agent
        of_agents = Counter(map(find_agent, on_the_way.elements()))
        holds = self._holds()

        def find_hold(session_key: str | None) -> Hold | None:
            if session_key in on_the_way:
                return Hold(why="a message is on its way")
            if of_agents[find_agent(session_key)] >= wakes.MOST_AGENT_DELIVERIES:
                return Hold(why="messages to other sessions of its agent go first")
            return holds(session_key)

        return find_hold

    def _finish_delivery(self, task: asyncio.Task[None]) -> None:
        del self._deliveries[task]
        self._outbox_timer.wake(self._context.clock.now())

    async def _deliver(self, delivery: Delivery) -> None:
        """Hand one message to the transport, and save the outcome."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine runs in a task
        self._unanswered_deliveries.add(task)
        try:
            outcome = await self._send_to_transport(delivery)
        except asyncio.CancelledError:
            reason = "the daemon stopped while it was being delivered"
            outcome = partial(wakes.settle_failed, self._context, delivery, reason)
        finally:
            self._unanswered_deliveries.discard(task)
        await self._save_outcome(delivery, outcome)

    async def _send_to_transport(self, delivery: Delivery) -> Callable[[], None]:
        """Deliver a message; return the function that saves the outcome."""
        context, transport = self._context, self._transport
        limit = context.policies.outbox.claim_seconds / 2
        failed = partial(wakes.settle_failed, context, delivery)
        try:
            async with asyncio.timeout(limit):
                if isinstance(transport, RoutingTransport):
                    transport = await transport.choose(delivery.message)
                answer = cast("object", await transport.deliver(delivery.message))  # a plug-in's
        except WakeRefused as error:
            return partial(wakes.settle_refused, context, delivery, str(error))
        except WakeUndelivered as error:
            return partial(failed, str(error), read_retry_after(error), waits=error.waits)
        except TimeoutError:
            return partial(failed, f"{transport.name} gave no answer in {limit:g} s")
        except Exception as error:  # noqa: BLE001 - whatever a plug-in raises
            return partial(failed, f"{transport.name} failed: {type(error).__name__}: {error}")
        if not isinstance(answer, WakeReceipt):
            # It did not raise, so the message was sent; sending it again for lack
            # of a receipt would only wake the agent twice.
            log.warning("%s answered without a receipt", transport.name)
            return partial(wakes.settle_delivered, context, delivery, transport.name)
        took = answer.transport or transport.name
        return partial(wakes.settle_delivered, context, delivery, took, answer.note)

    async def _save_outcome(self, delivery: Delivery, outcome: Callable[[], None]) -> None:
        """Save the outcome of a delivery, with several tries if the store fails."""
        for attempt in range(_SAVE_TRIES):
            try:
                return await self._run_in_thread(outcome)
            except Conflict:
                log.info("saving the outcome of %s again", delivery.message.key)
            except Exception:
                log.exception("could not save the outcome of %s", delivery.message.key)
            if not self._stopping:
                await self._context.clock.sleep(2**attempt)
        return None  # The lease ends, and the message goes out again.

    async def _stop_deliveries(self) -> None:
        """Cancel deliveries that the transport has not answered; let the others be saved."""
        self._stopping = True
        for task in self._unanswered_deliveries:
            task.cancel()
        await asyncio.gather(*self._deliveries, return_exceptions=True)

    # --- tell ---------------------------------------------------------------

    async def _run_hook_pass(self) -> datetime | None:
        count = await self._run_in_thread(notifications.call_hooks_for_events, self._context)
        return self._context.clock.now() if count == notifications.BATCH else None

    # --- leases -------------------------------------------------------------

    async def _run_leases_pass(self) -> datetime | None:
        await self._check_clock()
        if held := self._lease_grace.read_remaining():
            return self._context.clock.now() + held
        async with self._sweep_lock:
            looked = await self._run_in_thread(
                run_recovery.sweep_lapsed_runs, self._context, self._gateways()
            )
        drop_at = await self._drop_expired()
        if looked == run_recovery.BATCH:
            return self._context.clock.now()
        due = await self._run_in_thread(run_recovery.find_next_lapse, self._context)
        due = self._delay_due(due, _REPEAT_DELAY if looked else timedelta())
        return min(due, drop_at) if due else drop_at

    async def _drop_expired(self) -> datetime:
        """Delete old checkpoints and ended rows; return when to look again.

        A failure is logged and tried again at the next look, so that it delays no recovery.
        """
        now = self._context.clock.monotonic()
        if now >= self._drop_days_at:
            self._drop_days_at = now + DROP_SECONDS
            await self._try_to_drop(run_recovery.drop_old_checkpoints)
            await self._try_to_drop(sub_agents.forget_old)
        if now >= self._drop_ended_at:
            self._drop_ended_at = now + DROP_SECONDS
            if await self._try_to_drop(retention.drop_ended):
                self._drop_ended_at = now + DROP_ON_SECONDS
        rest = min(self._drop_days_at, self._drop_ended_at) - now
        return self._context.clock.now() + timedelta(seconds=rest)

    async def _try_to_drop(self, drop: Callable[[Context], bool | None]) -> bool:
        """Delete some rows; return True if more are left."""
        try:
            return await self._run_in_thread(drop, self._context) is True
        except Exception:
            log.exception("could not delete expired rows")
            return False

    # --- the end ------------------------------------------------------------

    async def is_idle(self) -> bool:
        """Return True if no wake is being delivered, and nothing is open."""
        is_open = await self._run_in_thread(is_anything_open, self._context)
        return not self._deliveries and not is_open


def is_anything_open(context: Context) -> bool:
    """Return whether a stuck check or lease is due ever, a wake or wait is open, or a source works.

    A source of recorded history works while it tells of an activity, such as that it records.
    """
    return bool(
        stuck.find_next_due(context)
        or wakes.find_first_due(context)
        or run_recovery.find_next_lapse(context)
        or waits.list_watched_waits(context)
        or recall.list_activity(context)
    )
