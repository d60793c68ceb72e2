"""Start, end, re-arm and cancel waits, and update the linkage of their task.

Each is one change with the rows, the linkage, the thread's entry and the wake. Source:
docs/origins.md, "Waits".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.callers import Caller, SessionKeys
from openclaw_taskmem.domain.conditions import verdicts
from openclaw_taskmem.domain.tasks import lifecycle
from openclaw_taskmem.domain.wakes import notices, outbox
from taskmem_hookspecs import (
    Change,
    InvalidArguments,
    Linkage,
    Message,
    MessageType,
    Task,
    TaskFacts,
    Value,
    Wait,
    WaitOutcome,
    WaitPart,
    WaitStatus,
    Wake,
    WakeCause,
    WakeState,
)

_POSITION_SEPARATOR: Final = "\x1e"
"""In a wait's `start`, separates the place where it began from the place that it reads from."""
POLL_PATIENCE: Final = timedelta(seconds=30)
"""How long a host has to ask for the end of a wait before a message tells its agent."""


class WaitFacts(Value):
    """The facts for a decision about one wait, read together."""

    wait: Wait
    task: TaskFacts | None = None
    """The wait's task; None: it has none."""
    wakes: tuple[Wake, ...] = ()
    """The wait's own wakes that are due or sent, oldest first."""

    @property
    def session_key(self) -> str | None:
        """Session to wake; None: not known."""
        return self._addressee.session_key

    @property
    def host(self) -> str | None:
        """Host of the agent to wake; None: not known."""
        return self._addressee.host

    @property
    def home(self) -> str | None:
        """Home whose gateway has that session; None: any."""
        return self._addressee.home

    @property
    def _addressee(self) -> Wait | Task:
        """The wait or task that names the agent to wake.

        If the wait names no session, its task does, unless the two are of different hosts.
        """
        if self.wait.session_key is not None or self.task is None:
            return self.wait
        same = self.wait.host in (None, self.task.task.host)
        return self.task.task if same else self.wait

    @property
    def open_wakes(self) -> Sequence[Wake]:
        """Open wakes that a call on this wait may answer."""
        return (*(self.task.wakes if self.task else self.wakes),)


class Refinement(Value):
    """Changes to a wait that is armed again; None: unchanged."""

    wake_when: str | None = None
    timeout_seconds: float | None = None
    note: str | None = None
    """Note for the wait's history."""


def build_linkage(waits: Iterable[Wait], changed: Wait | None = None) -> Linkage:
    """Build a task's linkage from its waits; `changed` is the last that changed, if known."""
    known = sorted(waits, key=lambda wait: (wait.created_at, wait.wait_id))
    if not known:
        return Linkage()
    last = changed or max(known, key=lambda wait: (wait.changed_at, wait.wait_id))
    return Linkage(
        active_wait_ids=tuple(wait.wait_id for wait in known if wait.status is WaitStatus.WATCHING),
        last_wait_event_at=last.changed_at,
        last_wait_state=last.status,
    )


def require_open(facts: TaskFacts | None) -> None:
    """Refuse a wait for a task that has ended.

    Raises:
        TaskEnded: It has ended; the sentence says how to reopen it.
    """
    if facts is not None:
        lifecycle.require_open(facts.task, "nothing can be waited for")


def start_wait(
    wait: Wait,
    facts: TaskFacts | None,
    caller: Caller,
    sessions: SessionKeys,
    now: datetime,
    *,
    understood: Sequence[verdicts.UnderstoodSide] = (),
) -> Change:
    """Build the change that starts a wait; `facts` is of its task, or None.

    Raises:
        TaskEnded: The task has ended.
    """
    require_open(facts)
    wakes = _settle_wakes(WaitFacts(wait=wait, task=facts), caller, now)
    opened = events.build_event(
        events.WAIT_OPENED,
        wait,
        now,
        target=wait.target,
        wake_when=wait.wake_when,
        timeout=wait.timeout_seconds,
        understood=verdicts.log_sides(understood),
    )
    return Change(
        tasks=_update_task(wait, facts, now),
        waits=(wait,),
        wakes=wakes,
        events=(
            opened,
            *notices.build_wait_notices(wait, facts, sessions, now),
            *outbox.build_settled_events(wakes, now),
        ),
    )


def rearm_wait(
    facts: WaitFacts,
    request: Refinement,
    caller: Caller,
    *,
    awaited: Mapping[str, object],
    home: str | None,
    sessions: SessionKeys,
    now: datetime,
    understood: Sequence[verdicts.UnderstoodSide] = (),
    polled: bool = False,
) -> Change:
    """Build the change that arms a wait for another round, with a new deadline.

    `awaited`: the fields of its targets and conditions, as `several.build_fields` returns them.

    The wait may have ended in any way. A wake of that end that is not in flight is superseded,
    because the answer to this call says the same. `polled`: the call is answered as a task of MCP.
    A host that asks for the end of a wait goes on asking while it is open.

    Raises:
        TaskEnded: Its task has ended.
    """
    before = facts.wait
    require_open(facts.task)
    timeout = request.timeout_seconds or before.timeout_seconds
    wait = before.model_copy(
        update={
            **_find_asker(before, caller),
            "status": WaitStatus.WATCHING,
            **awaited,
            "timeout_seconds": timeout,
            "armed_at": now,
            "changed_at": now,
            "deadline_at": now + timedelta(seconds=timeout),
            "ended_at": None,
            "round": before.round + 1,
            "home": home,
            "polled": polled or (before.polled and before.status is WaitStatus.WATCHING),
        }
    )
    wakes = _settle_wakes(facts, caller, now)
    updated = events.build_event(
        events.WAIT_UPDATED,
        wait,
        now,
        was=before.status,
        round=wait.round,
        wake_when=wait.wake_when,
        timeout=timeout,
        note=request.note,
        understood=verdicts.log_sides(understood),
    )
    return Change(
        tasks=_update_task(wait, facts.task, now),
        waits=(wait,),
        wakes=wakes,
        events=(
            updated,
            *notices.build_wait_notices(wait, facts.task, sessions, now),
            *outbox.build_settled_events(wakes, now),
        ),
    )


def _find_asker(wait: Wait, caller: Caller) -> dict[str, str | None]:
    """Return the fields of the agent to wake from now on: the one that arms the wait again.

    A person, or a caller that names no other session of the host, changes nothing.
    """
    same = caller.session_key in (None, wait.session_key)
    if caller.person or caller.host is None or (caller.host == wait.host and same):
        return {}
    return {"session_key": caller.session_key, "host": caller.host}


def require_refinable(wait: Wait, request: Refinement) -> None:
    """Refuse a new condition for a wait that has one for each of several targets.

    Raises:
        InvalidArguments: As it says.
    """
    if wait.parts and request.wake_when is not None:
        raise InvalidArguments(
            "This wait has several targets, each with its own condition; cancel it with "
            "wait_cancel and begin another with smart_wait. Nothing was written."
        )


def needs_end_position(wait: Wait, part: WaitPart, request: Refinement) -> bool:
    """True if a part of a wait that is armed again reads from the end of its target.

    It does if it resolved the wait and the condition is the same: what resolved it would resolve it
    again at once. For other positions see `find_restart_position`.
    """
    is_met = part.met is not None or not wait.parts
    return _is_same_condition(part, request) and is_met and wait.status is WaitStatus.RESOLVED


def find_restart_position(part: WaitPart, request: Refinement, behind: str | None) -> str | None:
    """Return the `start` of a part of a wait that is armed again.

    With a new condition it reads from where the wait began. `behind` is the end of the target, for
    a part that reads from there.
    """
    if part.start is None:
        return behind
    begin, _, reads_from = part.start.partition(_POSITION_SEPARATOR)
    reads_from = behind or reads_from
    if not reads_from or not _is_same_condition(part, request):
        return begin
    return f"{begin}{_POSITION_SEPARATOR}{reads_from}"


def find_reading_position(wait: Wait) -> str | None:
    """Return the place on its target from which a wait reads; None: from now."""
    return wait.start.rpartition(_POSITION_SEPARATOR)[2] if wait.start else None


def _is_same_condition(part: WaitPart, request: Refinement) -> bool:
    return request.wake_when in (None, part.wake_when)


def close_wait(facts: WaitFacts, outcome: WaitOutcome, *, wake_id: str, now: datetime) -> Change:
    """Build the change that ends a wait: its row, the thread's entry and the wake.

    A cancelled wait sends no wake. Empty: the wait has ended already.
    """
    wait = facts.wait
    if wait.status is not WaitStatus.WATCHING:
        return Change()
    ended = wait.model_copy(
        update={
            "status": outcome.status,
            "ended_at": now,
            "changed_at": now,
            "last_observation": verdicts.clip_observation(outcome.observation),
        }
    )
    text = format_wake_text(ended, outcome)
    wake = Wake(
        wake_id=wake_id,
        key=_name_wake(wait),
        cause=WakeCause.WAIT,
        task_id=wait.task_id,
        wait_id=wait.wait_id,
        session_key=facts.session_key,
        host=facts.host,
        home=facts.home,
        text=text,
        created_at=now,
        due_at=find_due_time(wait, now),
    )
    messages: tuple[Message, ...] = ()
    if facts.task is not None:
        entry = text.removeprefix("[system] ")
        messages = (lifecycle.build_system_message(facts.task.task, entry, now, MessageType.WAIT),)
    return Change(
        tasks=_update_task(ended, facts.task, now, messages=len(messages)),
        waits=(ended,),
        messages=messages,
        wakes=() if outcome.status is WaitStatus.CANCELLED else (wake,),
        events=(
            events.build_event(events.WAIT_ENDED, wait, now, **outcome.model_dump(mode="json")),
        ),
    )


def _name_wake(wait: Wait) -> str:
    return f"wait:{wait.wait_id}:{wait.round}"


def find_due_time(wait: Wait, now: datetime) -> datetime:
    """Return when the end of a wait is told by a message, unless its host asks for it before."""
    return now + POLL_PATIENCE if wait.polled else now


class PolledState(StrEnum):
    """Answer to a host that asks for a wait, in the words of MCP's tasks."""

    WORKING = "working"
    COMPLETED = "completed"
    """The answer tells how it ended."""
    CANCELLED = "cancelled"
    """State of a cancelled wait, and of one whose end is told in another way."""


def answer_poll(wait: Wait, wakes: Iterable[Wake], now: datetime) -> tuple[Change, PolledState]:
    """Decide what a host that asks for a wait is answered, so that its end is told once.

    A wake that no transport has taken is acknowledged: the answer tells the same. One that is on
    its way is waited for. `wakes` are the wait's, in any state.
    """
    if wait.status is WaitStatus.WATCHING:
        return Change(), PolledState.WORKING if wait.polled else PolledState.CANCELLED
    own = next((wake for wake in wakes if wake.key == _name_wake(wait)), None)
    if not wait.polled or own is None or own.sends or own.state is WakeState.SUPERSEDED:
        return Change(), PolledState.CANCELLED
    if own.state is not WakeState.DUE:
        return Change(), PolledState.COMPLETED
    if outbox.is_in_flight(own, now):
        return Change(), PolledState.WORKING
    return outbox.acknowledge_wakes([own], now), PolledState.COMPLETED


def cancel_wait(facts: WaitFacts, reason: str | None, caller: Caller, now: datetime) -> Change:
    """Build the change that cancels a wait and settles its wakes.

    If it has ended, only the wakes change.
    """
    ended = close_wait(
        facts,
        WaitOutcome(
            status=WaitStatus.CANCELLED,
            observation=reason or "It was no longer needed.",
            elapsed_seconds=(now - facts.wait.armed_at).total_seconds(),
        ),
        wake_id="",
        now=now,
    )
    wakes = _settle_wakes(facts, caller, now, moved=not ended.empty)
    log = (*ended.events, *outbox.build_settled_events(wakes, now))
    return ended.model_copy(update={"wakes": wakes, "events": log})


def postpone_wait(wait: Wait, seconds: float) -> Wait:
    """Postpone a wait's deadline by the seconds for which the monotonic clock stood still."""
    by = timedelta(seconds=seconds)
    return wait.model_copy(
        update={"armed_at": wait.armed_at + by, "deadline_at": wait.deadline_at + by}
    )


def build_outcome(wait: Wait) -> WaitOutcome:
    """Build a wait's outcome from its row."""
    ended_at = wait.ended_at or wait.changed_at
    return WaitOutcome(
        status=wait.status,
        observation=wait.last_observation or "",
        elapsed_seconds=max(0.0, (ended_at - wait.armed_at).total_seconds()),
    )


def format_wake_text(wait: Wait, outcome: WaitOutcome) -> str:
    """Write what the agent reads when a wait ends."""
    seen = verdicts.clip_observation(outcome.observation)
    head = f"[system] smart_wait {outcome.status} ({wait.wait_id}): "
    if outcome.status is WaitStatus.TIMEOUT and seen.startswith(verdicts.UNJUDGED_PREFIX):
        return (
            f"{head}{seen} Time was up after {wait.timeout_seconds:.10g}s; look "
            "yourself whether it holds."
        )
    if outcome.status is WaitStatus.TIMEOUT:
        return (
            f"{head}Condition not met after {wait.timeout_seconds:.10g}s. Last observation: {seen}"
        )
    stop = "" if seen.endswith((".", "!", "?", "…")) else "."
    return f"{head}{seen}{stop} Elapsed: {int(outcome.elapsed_seconds)}s."


def _settle_wakes(
    facts: WaitFacts, caller: Caller, now: datetime, *, moved: bool = True
) -> tuple[Wake, ...]:
    return outbox.settle_answered(
        facts.open_wakes,
        acts=caller.acts_as(facts.session_key, facts.home),
        moved=moved,
        now=now,
        wait_id=facts.wait.wait_id,
    )


def _update_task(
    wait: Wait, facts: TaskFacts | None, now: datetime, messages: int = 0
) -> tuple[Task, ...]:
    if facts is None:
        return ()
    others = (known for known in facts.waits if known.wait_id != wait.wait_id)
    task = lifecycle.touch_task(facts.task, now)
    return (
        task.model_copy(
            update={
                "linkage": build_linkage((*others, wait), wait),
                "message_count": task.message_count + messages,
            }
        ),
    )


# --- cancelling the waits of a task that ends ---------------------------------


def cancel_open_waits(facts: TaskFacts, task: Task, change: Change, now: datetime) -> Change:
    """Add to the change that ends a task the end of its open waits.

    `facts` is the task before it, and `task` its row in the change, on which the waits' thread
    entries are counted.
    """
    after = facts.model_copy(update={"task": task})
    for wait in facts.waits:
        outcome = WaitOutcome(
            status=WaitStatus.CANCELLED,
            observation=f"Its task is {task.status}.",
            elapsed_seconds=max(0.0, (now - wait.armed_at).total_seconds()),
        )
        ended = close_wait(WaitFacts(wait=wait, task=after), outcome, wake_id="", now=now)
        if ended.empty:
            continue
        closed = {each.wait_id: each for each in ended.waits}
        known = tuple(closed.get(each.wait_id, each) for each in after.waits)
        after = after.model_copy(update={"task": ended.tasks[0], "waits": known})
        more = {
            name: (*getattr(change, name), *getattr(ended, name))
            for name in ("waits", "messages", "events")
        }
        change = change.model_copy(update=more)
    rows = (after.task if row.task_id == task.task_id else row for row in change.tasks)
    return change.model_copy(update={"tasks": tuple(rows)})
