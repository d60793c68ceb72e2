"""Use cases on waits: open, rearm, cancel, end and fetch one, correct its deadline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from math import inf
from types import MappingProxyType
from typing import Final, TypeVar

from openclaw_taskmem.domain.callers import OWED_STATES, Caller
from openclaw_taskmem.domain.changes import rights, waits
from openclaw_taskmem.domain.changes.registrations import RETRY_WINDOW, FirstCall, is_same_agent
from openclaw_taskmem.domain.changes.rights import Act, TaskHolder
from openclaw_taskmem.domain.changes.waits import PolledState, Refinement, WaitFacts
from openclaw_taskmem.domain.conditions import several, targets, task_states, usage_limits
from openclaw_taskmem.domain.conditions.conditions import parse_condition
from openclaw_taskmem.domain.errors import TaskEnded
from openclaw_taskmem.domain.text.redaction import scrub
from openclaw_taskmem.domain.text.texts import to_plain_line
from openclaw_taskmem.domain.wakes import outbox
from openclaw_taskmem.engine import lookup, sub_agents
from openclaw_taskmem.engine.context import Context, Decision
from openclaw_taskmem.engine.run_guards import fill_in_home, find_holder, guard_task
from openclaw_taskmem.engine.wait_watcher import TargetPreview, join_previews
from taskmem_hookspecs import (
    Change,
    Condition,
    InvalidArguments,
    NotAllowed,
    Target,
    TaskFacts,
    TaskNotFound,
    Value,
    Wait,
    WaitNotFound,
    WaitOutcome,
    WaitPart,
    WaitQuery,
    WaitStatus,
    WakeQuery,
)
from taskmem_hookspecs.doctor import is_trial

T = TypeVar("T")
_OPEN_WAITS_QUERY: Final = WaitQuery(status=WaitStatus.WATCHING, limit=1_000_000)
"""The query for the open waits that a daemon watches from its start."""
_DRIFT: Final = 1.0
"""Seconds by which a deadline may be off before it is corrected."""
GRACE: Final = 120.0
"""Seconds after its deadline before another home may end a wait."""
_TOLD_TEXT: Final = "A message tells the agent how it ended."
_ABANDONED_TEXT: Final = "The daemon that watched it does not run any more, or not here."


class ArmedWait(Value):
    """A wait that has just been opened or rearmed."""

    wait: Wait
    preview: TargetPreview
    was: Wait | None = None
    """The wait before it was rearmed; None: it is new."""
    reached: bool = True
    """True if a transport can reach the agent that the wait will wake, or its host asks."""
    joined: str | None = None
    """Name of the task that it belongs to though the call named none; None: the call named it."""


class PolledWait(Value):
    """A wait for whose end a host asks."""

    wait: Wait
    state: PolledState
    text: str | None
    """The last observation of an open wait, or the text of its wake; None: there is none."""


class EndedWait(Value):
    """A wait that has ended, and the text of its wake."""

    wait: Wait
    text: str
    """The text of its wake."""


def open_wait(
    context: Context,
    awaited: Sequence[tuple[str, Condition]],
    *,
    needs_all: bool = False,
    timeout_seconds: float,
    poll_seconds: float,
    task_id: str | None,
    caller: Caller,
) -> ArmedWait:
    """Open a wait on targets that exist and can be judged, each with its condition.

    An equal one that its agent has open goes on instead, with the time limit set anew: the answer
    to its call may have been lost. Without a `task_id`, it belongs to the one active task of the
    caller's session.

    Raises:
        TaskNotFound: No task has that id.
        TaskEnded: The task has ended.
        InvalidArguments: It is no target, or the queue of a role that the caller has not.
        NotAllowed: The task is another's, or the caller may not look at the target.
        LimitReached: The caller has its full number of open waits.
        TaskmemError: What `WaitWatcher.preview_target` refuses.
    """
    parts = tuple(
        WaitPart(
            target=_name_target(context, targets.trim_target(target), caller),
            wake_when=condition.sentence,
        )
        for target, condition in awaited
    )
    asked = (parts, needs_all, poll_seconds, task_id)
    if (same := _find_equal_wait(context, asked, caller)) is not None:
        request = Refinement(timeout_seconds=timeout_seconds)
        return rearm_wait(context, same.wait_id, request, caller, polled=caller.polls)
    lookup.guard_open_count(context, caller, Wait)
    if task_id:
        _require_open_task(context, task_id, caller)
    only = None if task_id else lookup.find_only_task(context, caller)
    limit = timeout_seconds if needs_all or len(parts) == 1 else inf
    placed: list[WaitPart] = []
    previews: list[TargetPreview] = []
    for part in parts:
        parsed = _confine_target(context, targets.parse_target(part.target), caller)
        targets.guard_queue_wait(parsed, caller)
        preview = _preview_part(context, part, parsed, task_id or only, caller)
        targets.guard_instant(parsed, preview.start, context.clock.now(), limit)
        placed.append(part.model_copy(update={"start": preview.start, "within": parsed.within}))
        previews.append(preview)
    preview = join_previews(placed, previews)

    def arm(facts: TaskFacts | None, now: datetime) -> Decision[ArmedWait]:
        if (same := _find_equal_wait(context, asked, caller)) is not None:  # made meanwhile
            reached = _is_reached(context, WaitFacts(wait=same, task=facts))
            armed = ArmedWait(wait=same, preview=preview, was=same, reached=reached)
            return Change(), armed
        wait = Wait(
            wait_id=context.new_id("wait", now),
            task_id=facts.task.task_id if facts else None,
            session_key=caller.session_key,
            host=caller.host,
            timeout_seconds=timeout_seconds,
            poll_seconds=poll_seconds,
            created_at=now,
            armed_at=now,
            changed_at=now,
            deadline_at=now + timedelta(seconds=timeout_seconds),
            polled=caller.polls,
            **several.build_fields(placed, needs_all=needs_all),
        )
        change = waits.start_wait(
            wait, facts, caller, context.sessions, now, understood=preview.understood
        )
        reached = _is_reached(context, WaitFacts(wait=wait, task=facts))
        joined = facts.task.name if facts and not task_id else None
        return change, ArmedWait(wait=wait, preview=preview, reached=reached, joined=joined)

    def read_task_facts() -> TaskFacts | None:
        if task_id:
            return _require_open_task(context, task_id, caller)
        with suppress(NotAllowed, TaskNotFound, TaskEnded):  # claimed or ended meanwhile
            return _require_open_task(context, only, caller) if only else None
        return None

    def note(armed: ArmedWait) -> None:
        if armed.was is None:
            call = FirstCall(caller, armed.wait.created_at, asked)
            context.live.note_first_call(armed.wait.wait_id, call)

    return context.update(task_id or only or "", read_task_facts, arm, follow=note)


def _find_equal_wait(context: Context, asked: tuple[object, ...], caller: Caller) -> Wait | None:
    """Return the open wait that the caller has made by an equal call; None: there is none."""
    now = context.clock.now()
    for wait_id, first in reversed([*context.live.first_calls.items()]):
        has_ended = context.has_ended(first.caller.process)
        if first.asked != asked or not is_same_agent(first, caller, now, has_ended=has_ended):
            continue
        with suppress(WaitNotFound):
            wait = context.store.read_wait(wait_id)
            # "in 90 minutes" soon means another instant.
            moves = any(targets.is_instant(part.target) for part in several.list_parts(wait))
            is_same = not moves or now - wait.created_at < RETRY_WINDOW
            if wait.status is WaitStatus.WATCHING and is_same:
                return wait
    return None


def rearm_wait(
    context: Context,
    wait_id: str,
    request: Refinement,
    caller: Caller,
    *,
    polled: bool = False,
) -> ArmedWait:
    """Arm a wait again, whether it has ended or not.

    `polled`: the call is answered as a task of MCP.

    Raises:
        WaitNotFound: No wait has that id.
        NotAllowed: It is another's, or the caller may not look at its target.
        TaskEnded: Its task has ended.
        LimitReached: It has ended, and the caller has its full number of open waits.
        TaskmemError: What `WaitWatcher.preview_target` refuses.
    """
    before = context.store.read_wait(wait_id)
    _guard_wait(context, before, caller)
    if before.status is not WaitStatus.WATCHING:
        lookup.guard_open_count(context, caller, Wait)
    if before.task_id:
        waits.require_open(context.store.read_task(before.task_id))
    waits.require_refinable(before, request)
    placed: list[WaitPart] = []
    previews: list[TargetPreview] = []
    behind: list[str | None] = []
    for part in several.list_parts(before):
        confined = _confine_target(context, targets.parse_target(part.target), caller)
        target = targets.confine_to_kept_folders(
            confined, part.within, caller, context.policies.looks
        )
        wished = part.model_copy(
            update={
                "wake_when": request.wake_when or part.wake_when,
                "within": target.within,
            }
        )
        previews.append(_preview_part(context, wished, target, before.task_id, caller))
        placed.append(wished)
        behind.append(
            context.wait_watcher.find_target_end(target)
            if waits.needs_end_position(before, part, request)
            else None
        )
    preview = join_previews(placed, previews)

    def rearm(facts: WaitFacts, now: datetime) -> Decision[ArmedWait]:
        _guard_wait(context, facts.wait, caller)
        ours = context.store.serves(facts.wait.home)
        starts = (
            found.start
            if found.from_now and request.wake_when is not None
            else (waits.find_restart_position(part, request, end) if ours else end) or found.start
            for part, end, found in zip(
                several.list_parts(facts.wait), behind, previews, strict=True
            )
        )
        is_resolved = facts.wait.status is WaitStatus.RESOLVED
        parts = [
            part.model_copy(update={"start": start, "met": None if is_resolved else part.met})
            for part, start in zip(placed, starts, strict=True)
        ]
        change = waits.rearm_wait(
            facts,
            request,
            caller,
            awaited=several.build_fields(parts, needs_all=facts.wait.needs_all),
            home=context.store.home,
            sessions=context.sessions,
            now=now,
            understood=preview.understood,
            polled=polled,
        )
        (wait,) = change.waits
        return change, ArmedWait(
            wait=wait,
            preview=preview,
            was=facts.wait,
            reached=_is_reached(context, facts.model_copy(update={"wait": wait})),
        )

    return _decide_on_wait(context, wait_id, rearm)


def cancel_wait(
    context: Context,
    wait_id: str,
    reason: str | None,
    caller: Caller,
    guard: Callable[[Wait], None] = lambda _: None,
) -> Wait:
    """Cancel a wait and return it as it was before; `guard` may refuse it as it is.

    Raises:
        WaitNotFound: No wait has that id.
        NotAllowed: It is another's.
    """

    def cancel(facts: WaitFacts, now: datetime) -> Decision[Wait]:
        guard(facts.wait)
        _guard_wait(context, facts.wait, caller)
        return waits.cancel_wait(facts, reason, caller, now), facts.wait

    return _decide_on_wait(context, wait_id, cancel)


def forget_trial(context: Context, wait_id: str) -> None:
    """Delete a trial wait of the doctor and its wakes.

    Raises:
        WaitNotFound: No wait has that id.
        InvalidArguments: It is not the doctor's, or it is still watched.
    """

    def forget(facts: WaitFacts, _: datetime) -> Decision[None]:
        wait = facts.wait
        if not is_trial(wait.session_key) or wait.status is WaitStatus.WATCHING:
            raise InvalidArguments(
                f"{wait_id} is none of the doctor's that has ended, and only those are "
                "removed; cancel it with taskmem cancel."
            )
        return Change(forget_waits=(wait_id,)), None

    _decide_on_wait(context, wait_id, forget)


def end_wait(
    context: Context,
    watched: Wait,
    status: WaitStatus,
    observation: str,
    met: Mapping[int, str] = MappingProxyType({}),
) -> bool:
    """End the round of a wait that was watched; False: that round had ended before.

    `met`: what was seen of its parts that have been met, by their numbers.

    Raises:
        WaitNotFound: No wait has that id.
    """

    def end(facts: WaitFacts, now: datetime) -> Decision[bool]:
        if facts.wait.round != watched.round:
            return Change(), False
        outcome = WaitOutcome(
            status=status,
            observation=observation,
            elapsed_seconds=max(0.0, (now - facts.wait.armed_at).total_seconds()),
        )
        marked = facts.model_copy(update={"wait": several.mark_met(facts.wait, met)})
        change = waits.close_wait(marked, outcome, wake_id=context.new_id("wake", now), now=now)
        return change, not change.empty

    return _decide_on_wait(context, watched.wait_id, end)


def note_met_part(context: Context, watched: Wait, index: int, observation: str) -> None:
    """Keep that a part of a wait that needs all was met, so that no restart forgets it.

    Raises:
        WaitNotFound: No wait has that id.
    """

    def note(facts: WaitFacts, _: datetime) -> Decision[None]:
        wait = facts.wait
        if wait.round != watched.round or wait.status is not WaitStatus.WATCHING:
            return Change(), None
        marked = several.mark_met(wait, {index: observation})
        return (Change() if marked == wait else Change(waits=(marked,))), None

    _decide_on_wait(context, watched.wait_id, note)


def fetch_end(context: Context, wait_id: str) -> EndedWait | None:
    """Return how a wait has ended; None: it is still watched.

    Its wake is acknowledged unless a transport delivers it to the agent.

    Raises:
        WaitNotFound: No wait has that id.
    """

    def fetch(facts: WaitFacts, now: datetime) -> Decision[EndedWait | None]:
        wait, change = facts.wait, Change()
        if wait.status is WaitStatus.WATCHING:
            return change, None
        if facts.session_key is None or not _is_reached(context, facts):
            own = [wake for wake in facts.open_wakes if wake.wait_id == wait_id]
            change = outbox.acknowledge_wakes(own, now, command="taskmem wait")
        text = waits.format_wake_text(wait, waits.build_outcome(wait))
        return change, EndedWait(wait=wait, text=text)

    return _decide_on_wait(context, wait_id, fetch)


def poll_wait(context: Context, wait_id: str, caller: Caller) -> PolledWait:
    """Return what a host that asks for a wait is answered; who may cancel it may ask.

    Its wake is acknowledged if the answer tells the end.

    Raises:
        WaitNotFound: No wait has that id.
        NotAllowed: It is another's.
    """
    wait = context.store.read_wait(wait_id)
    _guard_wait(context, wait, caller)
    if wait.status is WaitStatus.WATCHING:
        _, state = waits.answer_poll(wait, (), context.clock.now())
        seen = context.wait_watcher.read_observation(wait_id) or wait.last_observation
        return PolledWait(wait=wait, state=state, text=seen and to_plain_line(scrub(seen)))

    def poll(facts: WaitFacts, now: datetime) -> Decision[PolledWait]:
        wait = facts.wait
        wakes = context.store.find_wakes(WakeQuery(wait_id=wait_id))
        change, state = waits.answer_poll(wait, wakes, now)
        tells = state is PolledState.COMPLETED or wait.status is WaitStatus.CANCELLED
        text = waits.format_wake_text(wait, waits.build_outcome(wait)) if tells else _TOLD_TEXT
        return change, PolledWait(wait=wait, state=state, text=text)

    return _decide_on_wait(context, wait_id, poll)


def _is_reached(context: Context, facts: WaitFacts) -> bool:
    """Tell whether the agent that the wait will wake learns of its end by itself."""
    return facts.wait.polled or context.reaches(facts.host, facts.session_key)


def list_watched_waits(context: Context) -> list[Wait]:
    """Return the open waits that this daemon watches, oldest first."""
    return [*reversed(context.store.find_waits(_OPEN_WAITS_QUERY))]


def set_deadlines(context: Context, left: Mapping[tuple[str, int], float]) -> None:
    """Set the deadlines of waits from the seconds they have left, after the clock has jumped.

    Setting them twice changes nothing. `left`: by wait and round; one that was changed meanwhile,
    so that it has another round, keeps its deadline.
    """

    def postpone(facts: WaitFacts, now: datetime) -> Decision[None]:
        seconds = left.get((facts.wait.wait_id, facts.wait.round))
        if facts.wait.status is not WaitStatus.WATCHING or seconds is None:
            return Change(), None
        late = (now + timedelta(seconds=seconds) - facts.wait.deadline_at).total_seconds()
        if abs(late) <= _DRIFT:
            return Change(), None
        return Change(waits=(waits.postpone_wait(facts.wait, late),)), None

    for wait_id, _ in left:
        with suppress(WaitNotFound):
            _decide_on_wait(context, wait_id, postpone)


def end_abandoned(context: Context) -> None:
    """End the waits of other homes that are long overdue: their daemon is gone.

    The home was removed, for example, or its machine is off. Otherwise the tasks would never count
    as stuck.
    """
    now = context.clock.now()
    for wait in context.store.whole.find_waits(_OPEN_WAITS_QUERY):
        overdue = (now - wait.deadline_at).total_seconds()
        if overdue > GRACE and not context.store.serves(wait.home):
            end_wait(context, wait, WaitStatus.TIMEOUT, _ABANDONED_TEXT)


def _require_open_task(context: Context, task_id: str, caller: Caller) -> TaskFacts:
    """Return the task of a wait; refuse a caller who may not wait for it, and an ended task."""
    facts = context.store.read_task(task_id)
    guard_task(context, Act.WAIT, facts, caller)
    waits.require_open(facts)
    return facts


def _guard_wait(context: Context, wait: Wait, caller: Caller) -> None:
    """Refuse to change another's wait.

    Raises:
        NotAllowed: It is another's; the text says whose.
    """
    facts = context.find_task(wait.task_id) if wait.task_id else None
    held = find_holder(context, facts) if facts else TaskHolder()
    task = facts.task if facts else None
    rights.guard_wait(fill_in_home(context, caller), wait, task, held, context.sessions)


def _confine_target(context: Context, target: Target, caller: Caller) -> Target:
    """Restrict a target to the folders that its caller may look at."""
    running = context.live.running_work.get((caller.session_key or "").lower(), ())
    return targets.confine_target(
        target, caller, context.policies.looks, {each.name for each in running}
    )


def _name_target(context: Context, target: str, caller: Caller) -> str:
    """Return a target as an agent wrote it, but a task or sub-agent by its whole id.

    Raises:
        InvalidArguments: No sub-agent that the caller may wait for has that name.
    """
    scheme, _, name = target.partition(":")
    kind = scheme.strip().lower()
    if kind == targets.TASK_SCHEME and name.strip():
        return f"{kind}:{lookup.find_named(context, 'task', name)}"
    if kind == targets.LIMIT_SCHEME and name.strip():
        return f"{kind}:{usage_limits.name_host(name)}"
    if kind == targets.SESSION_SCHEME and name.strip():
        return f"{kind}:{sub_agents.name_sub_agent(context, name, caller)}"
    return target


def _preview_part(
    context: Context, part: WaitPart, target: Target, task_id: str | None, caller: Caller
) -> TargetPreview:
    """Check that a part's target may be waited for, and that its condition can be judged."""
    condition = parse_condition(part.wake_when, target.scheme)
    _guard_task_wait(context, target, condition, task_id, caller)
    return context.wait_watcher.preview_target(target, condition)


def _guard_task_wait(
    context: Context, target: Target, condition: Condition, task_id: str | None, caller: Caller
) -> None:
    """Refuse a wait for a task that the caller may not read, or that waits for itself.

    `task_id`: of the task that the wait belongs to; None: it belongs to none.

    Raises:
        TaskNotFound: No task has that id.
        NotAllowed: The caller may not read it.
        InvalidArguments: It has no such step, or is the task that the wait belongs to.
    """
    if target.scheme != targets.TASK_SCHEME:
        return
    facts = context.store.read_task(target.name)
    guard_task(context, Act.READ, facts, caller)
    if target.name == task_id:
        raise InvalidArguments(
            f"{task_id} cannot wait for itself, since it goes on only once the wait has ended; "
            "wait for another task. Nothing was written."
        )
    parsed = parse_condition(condition.sentence, target.scheme)
    task_states.require_steps(facts.task, parsed)


def _decide_on_wait(
    context: Context, wait_id: str, decide: Callable[[WaitFacts, datetime], Decision[T]]
) -> T:
    """Read a wait with its task and wakes, and decide, with its task (or else itself) locked."""
    first = context.store.read_wait(wait_id)
    query = WakeQuery(states=OWED_STATES, wait_id=wait_id)

    def read_wait_facts() -> WaitFacts:
        wait = context.store.read_wait(wait_id)
        return WaitFacts(
            wait=wait,
            task=context.find_task(wait.task_id) if wait.task_id else None,
            wakes=() if wait.task_id else (*reversed(context.store.find_wakes(query)),),
        )

    return context.update(first.task_id or wait_id, read_wait_facts, decide)
