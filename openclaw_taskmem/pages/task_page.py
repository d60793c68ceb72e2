"""Read what the page of a task shows: where it stands, its story and its calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby, islice
from typing import Any, Final, NamedTuple

from openclaw_taskmem.domain.tasks.proof import ProofStanding, list_proofs
from openclaw_taskmem.domain.views import timeline
from openclaw_taskmem.domain.views.timeline import EntryKind
from openclaw_taskmem.engine import retention
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.overview import read_standing
from openclaw_taskmem.engine.run_history import (
    HistoryPosition,
    count_calls,
    read_history_page,
)
from taskmem_hookspecs import (
    Event,
    EventQuery,
    InvalidArguments,
    LedgerEntry,
    Message,
    RunState,
)

LOG_LIMIT: Final = 5_000
"""Newest log entries of a task from which its story is told."""
PAGE_ENTRIES: Final = 150
"""Entries of a timeline on one page."""
MOST_PROOFS: Final = 100
"""Things of each standing, such as checked or refuted, that the page of a task tells."""
Query = Mapping[str, str]


def read_task_page(context: Context, query: Query) -> dict[str, Any]:
    """Return what the page of a task shows.

    Raises:
        TaskNotFound: No task has that id.
        InvalidArguments: The address has something odd.
    """
    task_id, now = query.get("id", ""), context.clock.now()
    line, facts = read_standing(context, task_id)
    log = context.store.find_events(EventQuery(task_id=task_id, limit=LOG_LIMIT))
    whole = timeline.find_whole_part(facts.task, log, retention.read_thinned(context))
    proofs = list_proofs(context.store.read_records(LedgerEntry, task_id), facts.artifacts)
    told = [
        each
        for _, alike in groupby(proofs, lambda proof: proof.standing)
        for each in islice(alike, MOST_PROOFS)
    ]
    entries, earlier = _read_timeline(context, task_id, log, query)
    return {
        "line": line,
        "task": facts.task,
        "thinned": len(whole) < len(log) or len(log) == LOG_LIMIT,
        "whole_since": whole[0].at if whole else None,
        "bars": _draw_bars(timeline.build_run_bars(whole, now)),
        "proofs": [each for each in told if each.standing is not ProofStanding.NEARBY],
        "nearby": [each for each in told if each.standing is ProofStanding.NEARBY],
        "more_proofs": len(proofs) - len(told),
        "waits": facts.waits[::-1],
        "seen": context.wait_watcher.read_observation,
        "entries": entries,
        "earlier": earlier,
        "calls": count_calls(context, task_id),
        "kinds": [*EntryKind],
    }


def read_calls(context: Context, query: Query) -> dict[str, Any]:
    """Return a page of a task's calls, the newest first, and where the next page begins.

    Raises:
        TaskNotFound: No task has that id.
        InvalidArguments: The address has something odd.
    """
    task_id = query.get("id", "")
    line, facts = read_standing(context, task_id)
    run, before, left = (_read_number(query, name) for name in ("run", "before", "left"))
    place = None if run is None else HistoryPosition(run=run, before=before, left=left or 1)
    page = read_history_page(context, task_id, place)
    more = None
    if page.more is not None:
        fields = {"run": page.more.run, "before": page.more.before, "left": page.more.left}
        named = {name: str(value) for name, value in fields.items() if value is not None}
        more = {"id": task_id, **named}
    return {
        "line": line,
        "task": facts.task,
        "entries": timeline.build_timeline((), (), page.calls)[::-1],
        "calls": count_calls(context, task_id),
        "earlier": more,
    }


def _read_timeline(
    context: Context, task_id: str, log: Sequence[Event], query: Query
) -> tuple[Sequence[timeline.TimelineEntry], Query | None]:
    """Return the newest entries before a place, newest first, and the place before them.

    None: there is nothing before them.
    """
    before = _read_number(query, "message")
    until = _read_instant(query, "before")
    messages = context.store.read_records(Message, task_id, PAGE_ENTRIES, before=before)
    calls = read_history_page(context, task_id, None).calls if until is None else ()
    events = [event for event in log if until is None or event.at < until]
    entries = timeline.build_timeline(events, messages, calls)
    newest = entries[-PAGE_ENTRIES:]
    # All of an instant, since the next page begins before it.
    shown = [entry for entry in entries if entry.at >= newest[0].at]
    # No entry older than the oldest message that was read: others may lie between.
    if len(messages) == PAGE_ENTRIES:
        shown = [entry for entry in shown if entry.at >= messages[0].created_at]
    if not shown or (len(shown) == len(entries) and len(messages) < PAGE_ENTRIES):
        return shown[::-1], None
    first = next((m for m in messages if m.created_at >= shown[0].at), None)
    place = first.message_id if first is not None else (before or 2**62)
    at = shown[0].at.isoformat()
    return shown[::-1], {"id": task_id, "before": at, "message": str(place)}


def _read_number(query: Query, name: str) -> int | None:
    """Return a number of an address, below 2**63; None: there is none.

    Raises:
        InvalidArguments: It is something else.
    """
    text = query.get(name)
    if text and not (text.isdecimal() and len(text) < 19):  # noqa: PLR2004 - below 2**63
        raise _build_refusal(name, "a whole number of at most 18 digits")
    return int(text) if text else None


def _read_instant(query: Query, name: str) -> datetime | None:
    """Return an instant of an address; None: there is none.

    Raises:
        InvalidArguments: It is something else, or no calendar of ours has it.
    """
    text = query.get(name)
    try:
        return datetime.fromisoformat(text).astimezone(UTC) if text else None
    except (ValueError, OverflowError):
        raise _build_refusal(name, "an instant, such as 2026-02-10T14:00:00Z") from None


def _build_refusal(name: str, form: str) -> InvalidArguments:
    return InvalidArguments(f"In the address of this page, {name} is not {form}. Open it anew.")


class DrawnSpan(NamedTuple):
    """A span of a run, in percent of the whole time that is drawn."""

    look: RunState
    """Its state; of the time in which work went on, the state in which the run ended."""
    left: float
    width: float


class DrawnBar(NamedTuple):
    """A run over time, and how it stands."""

    bar: timeline.RunBar
    last: timeline.RunSpan
    """Its newest span, which has no length if the run has ended."""
    spans: Sequence[DrawnSpan]


def _draw_bars(bars: Sequence[timeline.RunBar]) -> Sequence[DrawnBar]:
    """Place the spans of the runs on a common axis."""
    spans = [span for bar in bars for span in bar.spans]
    if not spans:
        return ()
    begin = min(span.began_at for span in spans)
    whole = (max(span.ended_at for span in spans) - begin).total_seconds() or 1.0

    def draw(span: timeline.RunSpan, end: RunState) -> DrawnSpan:
        left = (span.began_at - begin).total_seconds() / whole
        width = (span.ended_at - span.began_at).total_seconds() / whole
        ended = end.terminal and span.state is RunState.RUNNING
        look = end if ended else span.state
        return DrawnSpan(look, round(100 * left, 2), round(100 * max(width, 0.004), 2))

    return [
        DrawnBar(
            bar,
            last,
            [draw(span, last.state) for span in bar.spans if not span.state.terminal],
        )
        for bar in bars
        for last in bar.spans[-1:]
    ]
