"""Answer a path with a page: HTML for people, whatever serves it.

`taskmem ui` serves the pages on loopback, and the plug-in in the gateway as a tab. All links are
relative, so a page works below any address. Texts of tasks, threads and screens are escaped by the
templates, and characters that show nothing are written as escapes.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple, Protocol

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from openclaw_taskmem.domain import ledger, timeline
from openclaw_taskmem.domain.text_safety import escape_hidden
from openclaw_taskmem.domain.texts import format_iso_millis, format_short_duration
from openclaw_taskmem.domain.timeline import EntryKind
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.overview import list_lines, read_line, read_overview, search_lines
from openclaw_taskmem.engine.run_history import read_history_page
from openclaw_taskmem.tools import views
from taskmem_hookspecs import (
    Event,
    EventQuery,
    LedgerEntry,
    Message,
    PlanRevision,
    TaskNotFound,
    Wait,
    WaitNotFound,
    WaitQuery,
    WaitStatus,
)

LOGGED: Final = 5_000
"""Newest log entries of a task from which its story is told."""
ENTRIES: Final = 150
"""Entries of a timeline on one page."""
FOUND: Final = 50
"""Tasks that a search shows at most."""
_STATIC: Final = ("style.css", "page.js", "idiomorph.js", "icon.svg")
HTML: Final = "text/html; charset=utf-8"
Query = Mapping[str, str]


class Page(NamedTuple):
    """An answer to a request for a page."""

    status: int
    """Status code of HTTP."""
    content_type: str
    body: bytes


class Viewer(NamedTuple):
    """Who looks at a page, and where."""

    may_act: bool = False
    """True if the page offers what the person may do."""
    tab: str | None = None
    """If it is a tab of the host's own interface, the address below which all pages are; None: it
    is a page of its own."""


class Pictures(Protocol):
    """The pictures that are kept of waits."""

    def find_snapshots(self, wait_id: str) -> Mapping[Any, Any]:
        """Return the snapshots of a wait by moment, each with its `path` and `taken_at`."""
        ...

    def build_view(self, wait: Wait, now: datetime) -> Mapping[str, Any]:
        """Return a wait's snapshots as JSON, and a `pictures_note` if there are none."""
        ...


class Site:
    """Renders the pages of a home. May be used from any thread."""

    def __init__(
        self,
        context: Context,
        pictures: Pictures,
        read_status: Callable[[], Mapping[str, Any]],
        read_health: Callable[[], Mapping[str, Any] | None],
    ) -> None:
        """Create a site.

        Args:
            context: The context of all reading.
            pictures: The pictures of waits.
            read_status: Returns the daemon's status, as for `taskmem status`.
            read_health: Returns the doctor's last report, and has it look if there is none. None:
                it looks.
        """
        self._context = context
        self._pictures = pictures
        self._read_status = read_status
        self._read_health = read_health
        self._pages: Mapping[str, Callable[[Query, Viewer], Page]] = {
            "": self._show_overview,
            "task": self._show_task,
            "wait": self._show_wait,
            "waits": self._show_waits,
            "search": self._search,
            "health": self._show_health,
            "picture": self._send_picture,
        }

    def render(
        self, path: str, query: Query, *, may_act: bool = False, tab: str | None = None
    ) -> Page:
        """Return the page at a path, which is relative to the site's root; or say why not.

        Args:
            path: The path.
            query: What stands after it.
            may_act: True to offer what the person may do.
            tab: As in `Viewer`.
        """
        viewer = Viewer(may_act=may_act, tab=tab)
        name = path.strip("/")
        if name in _STATIC:
            return _send_file(name)
        show = self._pages.get(name)
        try:
            if show is None:
                return self._refuse(404, "There is no such page.", viewer)
            return show(query, viewer)
        except (TaskNotFound, WaitNotFound) as error:
            return self._refuse(404, str(error), viewer)

    def _render(self, template: str, viewer: Viewer, code: int = 200, **values: Any) -> Page:  # noqa: ANN401 - what the template shows
        text = (
            _load_templates()
            .get_template(template)
            .render(viewer=viewer, now=self._context.clock.now(), **values)
        )
        return Page(code, HTML, text.encode())

    def _refuse(self, status: int, sentence: str, viewer: Viewer) -> Page:
        return self._render("message.html", viewer, status, title="Not found", sentence=sentence)

    def _show_overview(self, _: Query, viewer: Viewer) -> Page:
        found = read_overview(self._context)
        status = self._read_status()
        return self._render("overview.html", viewer, found=found, status=status)

    def _search(self, query: Query, viewer: Viewer) -> Page:
        words = query.get("q", "").strip()
        lines = search_lines(self._context, words, FOUND) if words else ()
        if query.get("all"):
            lines = list_lines(self._context, FOUND * 4, ended_too=True)
        return self._render("search.html", viewer, words=words, lines=lines, most=FOUND)

    def _show_task(self, query: Query, viewer: Viewer) -> Page:
        task_id, context = query.get("id", ""), self._context
        line = read_line(context, task_id)
        facts = context.store.read_task(task_id)
        now = context.clock.now()
        log = context.store.find_events(EventQuery(task_id=task_id, limit=LOGGED))
        revisions = context.store.read_records(PlanRevision, task_id)
        past = _find_instant(log, query.get("at"))
        state = timeline.rebuild_state(
            facts.task, log, revisions, past.at if past is not None else now
        )
        records = context.store.read_records(LedgerEntry, task_id)
        entries, earlier = self._read_timeline(task_id, log, query)
        return self._render(
            "task.html",
            viewer,
            line=line,
            task=facts.task,
            # Today's marks are read from the task itself: the log may have been thinned out.
            steps=state.steps if past is not None else facts.task.steps,
            state=state if past is not None else None,
            past=past,
            instants=_list_instants(log),
            bars=_draw_bars(timeline.build_run_bars(log, now)),
            made=ledger.list_made(records),
            unverified=ledger.list_unverified(records),
            waits=context.store.find_waits(WaitQuery(task_id=task_id, limit=20)),
            seen=context.watching.read_observation,
            entries=entries,
            earlier=earlier,
            kinds=[*EntryKind],
        )

    def _read_timeline(
        self, task_id: str, log: Sequence[Event], query: Query
    ) -> tuple[Sequence[timeline.TimelineEntry], Query | None]:
        """Return the newest entries before a place, newest first, and the place before them.

        None: there is nothing before them.
        """
        before = _read_number(query.get("message"))
        until = _read_instant(query.get("before"))
        messages = self._context.store.read_records(Message, task_id, ENTRIES, before=before)
        calls = read_history_page(self._context, task_id, None).calls if until is None else ()
        events = [event for event in log if until is None or event.at < until]
        entries = timeline.build_timeline(events, messages, calls)
        shown = entries[-ENTRIES:]
        # No entry older than the oldest message that was read: others may lie between.
        if len(messages) == ENTRIES:
            shown = [entry for entry in shown if entry.at >= messages[0].created_at]
        if not shown or (len(shown) == len(entries) and len(messages) < ENTRIES):
            return shown[::-1], None
        first = next((m for m in messages if m.created_at >= shown[0].at), None)
        place = first.message_id if first is not None else (before or 2**62)
        at = format_iso_millis(shown[0].at) or ""
        return shown[::-1], {"id": task_id, "before": at, "message": str(place)}

    def _show_waits(self, _: Query, viewer: Viewer) -> Page:
        query = WaitQuery(status=WaitStatus.WATCHING, limit=FOUND * 4)
        waits = self._context.store.find_waits(query)
        seen = self._context.watching.read_observation
        return self._render("waits.html", viewer, waits=waits, seen=seen)

    def _show_wait(self, query: Query, viewer: Viewer) -> Page:
        wait = self._context.store.read_wait(query.get("id", ""))
        log = self._context.store.find_events(EventQuery(wait_id=wait.wait_id, limit=LOGGED))
        kept = self._pictures.build_view(wait, self._context.clock.now())
        return self._render(
            "wait.html",
            viewer,
            wait=wait,
            observation=self._context.watching.read_observation(wait.wait_id)
            or wait.last_observation,
            tail=self._context.watching.read_tail(wait.wait_id),
            pictures=self._pictures.find_snapshots(wait.wait_id),
            note=kept["pictures_note"],
            entries=timeline.build_timeline(log, (), ())[::-1],
        )

    def _send_picture(self, query: Query, viewer: Viewer) -> Page:
        found = self._pictures.find_snapshots(query.get("id", ""))
        moment = query.get("moment", "")
        snapshot = found.get(moment)
        try:
            body = snapshot.path.read_bytes() if snapshot is not None else None
        except OSError:
            body = None
        if body is None:
            return self._refuse(404, "This picture is not kept any more.", viewer)
        return Page(200, "image/jpeg", body)

    def _show_health(self, _: Query, viewer: Viewer) -> Page:
        report = self._read_health()
        plugins = views.list_plugins(self._context)
        status = self._read_status()
        return self._render("health.html", viewer, report=report, plugins=plugins, status=status)


def _send_file(name: str) -> Page:
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Page(200, kind, (files("openclaw_taskmem.pages") / "static" / name).read_bytes())


@cache
def _load_templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("openclaw_taskmem.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_show_hidden,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = environment.filters
    filters.update(ago=_format_ago, local=_format_local, iso=format_iso_millis)
    return environment


def _show_hidden(value: Any) -> Any:  # noqa: ANN401 - what a template shows
    """Return a value as it is shown: hidden characters as escapes."""
    if value is None:
        return ""
    is_text = isinstance(value, str) and not isinstance(value, Markup)
    return escape_hidden(value) if is_text else value


def _format_ago(instant: datetime, now: datetime) -> str:
    return format_short_duration((now - instant).total_seconds())


def _format_local(instant: datetime) -> str:
    return f"{instant.astimezone():%Y-%m-%d %H:%M:%S}"


def _find_instant(log: Sequence[Event], event_id: str | None) -> Event | None:
    """Return the log entry that a replay stops at; None: the present is shown."""
    wanted = _read_number(event_id)
    return next((event for event in log if event.event_id == wanted), None)


def _list_instants(log: Sequence[Event]) -> Sequence[Event]:
    """Return the last log entry of each instant, at which a replay may stop."""
    return [*{event.at: event for event in log}.values()]


def _read_number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and len(text) < 19 else None  # noqa: PLR2004 - below 2**63


def _read_instant(text: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone(UTC) if text else None
    except ValueError:
        return None


class DrawnSpan(NamedTuple):
    """A span of a run, in percent of the whole time that is drawn."""

    span: timeline.RunSpan
    left: float
    width: float


def _draw_bars(
    bars: Sequence[timeline.RunBar],
) -> Sequence[tuple[timeline.RunBar, Sequence[DrawnSpan]]]:
    """Place the spans of the runs on a common axis."""
    spans = [span for bar in bars for span in bar.spans]
    if not spans:
        return ()
    begin = min(span.began_at for span in spans)
    whole = max((max(span.ended_at for span in spans) - begin).total_seconds(), 1.0)

    def draw(span: timeline.RunSpan) -> DrawnSpan:
        left = (span.began_at - begin).total_seconds() / whole
        width = (span.ended_at - span.began_at).total_seconds() / whole
        return DrawnSpan(span, round(100 * left, 2), round(100 * max(width, 0.004), 2))

    return [(bar, [draw(span) for span in bar.spans]) for bar in bars]
