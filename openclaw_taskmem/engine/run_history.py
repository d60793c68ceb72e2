"""Read the history of the work on a task, and build the resume packet that hands it on.

A run of 10,000 calls has 20,000 checkpoints. Only the newest are read completely; of the rest the
store selects those with effects by the text of their bodies. A packet is built with plug-ins, else
by the core alone, else it is the minimal text.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from pydantic import JsonValue

from openclaw_taskmem.domain.changes import handoff
from openclaw_taskmem.domain.effects import checkpoints
from openclaw_taskmem.domain.effects.checkpoints import History, PastCall
from openclaw_taskmem.domain.effects.side_effects import Effect
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.tasks import lifecycle, thread
from openclaw_taskmem.domain.text import redaction
from openclaw_taskmem.domain.wakes import packet
from openclaw_taskmem.engine.context import Context
from taskmem_hookspecs import (
    Checkpoint,
    Message,
    PlanRevision,
    ResumeFacts,
    ResumePacket,
    Run,
    RunQuery,
    StuckVerdict,
    Task,
    TaskFacts,
    Value,
)
from taskmem_hookspecs.errors import RunNotFound
from taskmem_hookspecs.packet import ConversationMessage

log = logging.getLogger(__name__)

READ_RUNS: Final = 20
"""Newest runs of a task whose history is read."""
READ_EFFECTS: Final = 200
"""Newest checkpoints of calls with effects outside that are read per run; of other effects twice as
many."""
CALLS_PER_PAGE: Final = 30
"""Calls on a page of the history."""


class PastWork(Value):
    """The calls and messages of a task's latest runs."""

    run: Run | None = None
    """The last run, open or not; None: there was none."""
    messages: tuple[ConversationMessage, ...] = ()
    """The last messages of the conversation, oldest first."""
    calls: tuple[PastCall, ...] = ()
    """The newest calls, and older ones that had effects; oldest first."""
    unread: int = 0
    """Number of ended calls with possible effects that are missing, as they were too many."""
    last_response: str | None = None
    """The end of the agent's last message to the user; None: there is none."""


def find_last_run(context: Context, task_id: str) -> Run | None:
    """Return the last run of a task, open or not; None: it had none."""
    return next(iter(find_runs(context, RunQuery(task_id=task_id), 1)), None)


def find_runs(context: Context, query: RunQuery, limit: int) -> Sequence[Run]:
    """Return at most `limit` runs that match a query, without those that only keep calls."""
    asked = limit + 1
    while True:
        rows = context.store.find_runs(query.model_copy(update={"limit": asked}))
        found = [run for run in rows if not current_run.is_record(run)]
        if len(found) >= limit or len(rows) < asked:
            return found[:limit]
        asked *= 4


def find_record(context: Context, task_id: str) -> Run | None:
    """Return the run that keeps the calls which a task's host reports by hooks; None: none."""
    with suppress(RunNotFound):
        return context.store.read_run(current_run.name_record(task_id))
    return None


def find_last_runs(context: Context, task_ids: Iterable[str]) -> Mapping[str, Run]:
    """Return by task id the last run of each task, open or not. Tasks without runs are left out."""
    runs = context.store.find_runs(RunQuery(task_ids=tuple(task_ids)))
    oldest_first = sorted(runs, key=lambda run: (run.created_at, run.run_id))
    return {run.task_id: run for run in oldest_first if not current_run.is_record(run)}


def read_past_work(context: Context, task_id: str) -> PastWork:
    """Return the calls and messages of a task's latest runs."""
    runs = context.store.find_runs(RunQuery(task_id=task_id, limit=READ_RUNS))
    past_calls: list[PastCall] = []
    messages: tuple[ConversationMessage, ...] = ()
    unread = 0
    for run in runs:
        found = read_history(context, run)
        if found is None:
            continue
        messages = messages or checkpoints.read_conversation(
            context.store.read_records(
                Checkpoint, run.run_id, checkpoints.MOST_MESSAGES, holding=checkpoints.HOLDING_SAID
            )
        )
        calls = {call.number: call for call in found.calls}
        older, crowded = _read_calls_with_effects(context, run)
        calls = {call.number: call for call in older} | calls
        past_calls += calls.values()
        ended = sum(call.ok is not None for call in calls.values())
        unread += max(run.progress.calls - ended, 0) if crowded else 0
    past_calls.sort(key=lambda call: (call.at, call.number))
    responses = (run.dialogue.last_response for run in runs if run.dialogue.last_response)
    return PastWork(
        run=next((run for run in runs if not current_run.is_record(run)), None),
        messages=messages,
        calls=tuple(past_calls),
        unread=unread,
        last_response=next(responses, None),
    )


def read_history(context: Context, run: Run) -> History | None:
    """Return the history in a run's checkpoints; None: none of it can be trusted."""
    rows = context.store.read_records(Checkpoint, run.run_id, checkpoints.MOST_READ_CHECKPOINTS)
    found = checkpoints.parse_history(rows)
    if rows and (found is None or found.corrupt):
        log.warning("checkpoints of %s are damaged; what is whole is used", run.run_id)
    return found


def _read_calls_with_effects(context: Context, run: Run) -> tuple[Sequence[PastCall], bool]:
    """Return a run's calls with effects, and whether there are more than were read.

    Interrupted ones count. Where there are more, an old call whose end may not have been read does
    not count as interrupted, unless it had an effect outside, of which ends are read like starts.
    """
    limits = {
        Effect.OUTSIDE: READ_EFFECTS,
        Effect.FILES: 2 * READ_EFFECTS,
        Effect.OTHER: 2 * READ_EFFECTS,
    }
    read = partial(context.store.read_records, Checkpoint, run.run_id)
    rows: dict[int, Checkpoint] = {}
    horizon = 0
    for effect, limit in limits.items():
        holding = checkpoints.format_effect_filter(effect, ended=False)
        found = read(limit, holding=holding)
        rows |= {each.number: each for each in found}
        if len(found) == limit:
            horizon = max(horizon, found[0].number)
    calls = checkpoints.read_scattered_calls([rows[number] for number in sorted(rows)])
    whole = [
        call
        for call in calls
        if call.ok is not None or call.effect is Effect.OUTSIDE or call.number >= horizon
    ]
    return whole, horizon > 0


class HistoryPosition(Value):
    """The position at which the next page of a task's history begins."""

    run: int
    """Number of the run among the task's newest `READ_RUNS`, the oldest of which is 1."""
    before: int | None
    """Number of the checkpoint before which to read; None: from the run's newest."""
    left: int
    """Approximate number of calls on that page and later ones."""


class HistoryPage(Value):
    """One page of a task's history."""

    calls: tuple[PastCall, ...]
    """Newest first."""
    more: HistoryPosition | None
    """Where the next page begins; None: this is the last."""


def count_calls(context: Context, task_id: str) -> int:
    """Return how many calls of a task's latest runs have ended."""
    runs = context.store.find_runs(RunQuery(task_id=task_id, limit=READ_RUNS))
    return sum(run.progress.calls for run in runs)


def read_history_page(context: Context, task_id: str, place: HistoryPosition | None) -> HistoryPage:
    """Return a page of a task's calls, starting at `place`; None: at the newest."""
    runs = [*reversed(context.store.find_runs(RunQuery(task_id=task_id, limit=READ_RUNS)))]
    if place is None:
        remaining = sum(run.progress.calls for run in runs)
        place = HistoryPosition(run=len(runs), before=None, left=remaining)
    calls: list[PastCall] = []
    number, before = min(place.run, len(runs)), place.before
    while number and len(calls) < CALLS_PER_PAGE:
        page, before = _read_run_page(
            context, runs[number - 1], before, CALLS_PER_PAGE - len(calls)
        )
        calls += page
        number -= before is None
        while before is None and number and not runs[number - 1].progress.checkpoints:
            number -= 1
    ended = sum(call.ok is not None for call in calls)
    remaining = max(place.left - ended, 1)
    more = HistoryPosition(run=number, before=before, left=remaining) if number else None
    return HistoryPage(calls=tuple(calls), more=more)


def _read_run_page(
    context: Context, run: Run, before: int | None, most: int
) -> tuple[Sequence[PastCall], int | None]:
    """Return calls of a run, newest first, and the checkpoint before which to go on."""

    def has_ended(call_id: str, number: int) -> bool:
        if before is None:
            return False
        holding = checkpoints.format_call_filter(call_id)
        later = context.store.read_records(Checkpoint, run.run_id, 8, holding=holding)
        return checkpoints.has_end(later, call_id, number)

    # A call has two checkpoints; those of other calls may lie between them.
    limit = 2 * most + 8
    rows = context.store.read_records(Checkpoint, run.run_id, limit, before=before)
    if before is None and checkpoints.parse_history(rows) is None:
        return (), None
    page = checkpoints.cut_page(rows, most, has_ended)
    all_taken = not rows or page.before == rows[0].number
    if all_taken and len(rows) < limit:
        return page.calls, None
    return page.calls, page.before


# --- resume packets ------------------------------------------------------------------------


def render_packet(
    context: Context,
    facts: TaskFacts,
    verdict: StuckVerdict,
    wake_id: str,
    *,
    plain: bool,
    marker: str = packet.MARKER,
    background: str | None = None,
    words: str | None = None,
) -> tuple[str, JsonValue]:
    """Return a packet's text, and its content as JSON; None: it is the minimal text.

    `plain` skips the plug-ins. `background` is the text for an agent that is moved to the
    background. `words` are what the user says with it, whether in the thread yet or not. Never
    raises: there is always a text. Source: docs/origins.md, "The resume packet".
    """
    try:
        messages = tuple(
            context.store.read_records(Message, facts.task.task_id, thread.MOST_READ_MESSAGES)
        )
        if words and words not in (each.content for each in messages[-2:]):
            answer = lifecycle.build_answer_message(facts.task, words, context.clock.now())
            messages = (*messages, answer)
        told_session = facts.run.told_session if facts.run else None
        if told_session is not None:
            background = handoff.describe_background(told_session, messages, context.sessions)
        known = ResumeFacts(
            task=facts.task,
            waits=facts.waits,
            messages=messages,
            background=background,
            verdict=verdict,
            wake_id=wake_id,
            now=context.clock.now(),
            **_collect_past_facts(context, facts),
        )
        built = (packet.build_packet if plain else context.plugin_host.build_resume_packet)(known)
        fitted = _fit_scrubbed(built)
        if not packet.is_small_enough(fitted):
            log.warning("a plug-in's packet is too large; sending the core's")
            fitted = _fit_scrubbed(packet.build_packet(known))
        return packet.encode_packet(fitted, marker), fitted.model_dump(mode="json")
    except Exception:
        log.exception("no packet for %s; sending the minimal text", facts.task.task_id)
        return packet.build_minimal_packet(facts.task, verdict, wake_id, marker), None


def render_resume_text(
    context: Context,
    facts: TaskFacts,
    wake_id: str,
    reason: str,
    *,
    plain: bool = True,
    answer: str | None = None,
    asked: bool = False,
    background: str | None = None,
) -> str:
    """Return the packet for an agent that is to go on with a task, with the `reason`.

    `plain` skips the plug-ins, for a caller who cannot wait for them. `answer` is what the user
    says to the task; None: nothing. `asked`: the task had asked for it. `background`: see
    `render_packet`.
    """
    idle = context.clock.now() - facts.task.updated_at
    verdict = StuckVerdict(idle_seconds=max(idle.total_seconds(), 0.0), reason=reason)
    text, _ = render_packet(
        context,
        facts,
        verdict,
        wake_id,
        plain=plain,
        marker=packet.REMINDER,
        background=background,
        words=answer,
    )
    if not answer:
        return text
    return packet.append_words(text, redaction.scrub(answer), asked=asked)


def _collect_past_facts(context: Context, facts: TaskFacts) -> dict[str, Any]:
    """Return the packet facts about a task's calls, dropped intents and running work."""
    task_id = facts.task.task_id
    past = read_past_work(context, task_id)
    revisions = context.store.read_records(PlanRevision, task_id)
    still_running = context.live.running_work.get(get_session_key(facts.task, facts.run), ())
    return {
        "run": facts.run,
        "revisions": tuple(revisions),
        "done_calls": packet.list_done_calls(past.calls),
        "cut_calls": packet.list_cut_calls(past.calls),
        "dropped": packet.list_dropped_intents(facts.task, revisions, facts.waits),
        "earlier_calls": past.unread,
        "last_response": past.last_response,
        "conversation": past.messages,
        "still_running": tuple(redaction.scrub(each.format_line()) for each in still_running),
    }


def get_session_key(task: Task, run: Run | None) -> str:
    """Return the session in which a task is worked on; empty: none."""
    return (run and run.session_key) or task.session_key or ""


def _fit_scrubbed(built: ResumePacket) -> ResumePacket:
    clean = redaction.scrub_json(built.model_dump(mode="json"))
    return packet.fit_packet(ResumePacket.model_validate(clean))
