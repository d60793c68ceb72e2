"""Answer a path with a page: HTML for people, whatever serves it.

`taskmem ui` serves the pages on loopback, and the plug-in in the gateway as a tab. All links are
relative, so a page works below any address. Texts of tasks, threads and screens are escaped by the
templates, and characters that show nothing are written as escapes.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from importlib.resources import files
from itertools import groupby, islice
from typing import Any, Final, NamedTuple, Protocol, cast

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from openclaw_taskmem.domain import reader_budget
from openclaw_taskmem.domain.conditions.targets import describe_target, describe_wait
from openclaw_taskmem.domain.reader_budget import WAITS_BOOKMARK
from openclaw_taskmem.domain.tasks.proofs import ProofStanding, list_proofs
from openclaw_taskmem.domain.text.texts import (
    escape_hidden,
    format_clock,
    format_duration,
    format_iso_millis,
)
from openclaw_taskmem.domain.views import timeline
from openclaw_taskmem.domain.views.overview import DoctorFault, list_faults
from openclaw_taskmem.domain.views.timeline import EntryKind
from openclaw_taskmem.domain.views.user_actions import READ_ONLY, describe_wait_cancelling
from openclaw_taskmem.engine import retention
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.lookup import guard_home
from openclaw_taskmem.engine.overview import (
    list_lines,
    read_database_faults,
    read_overview,
    read_standing,
    search_lines,
)
from openclaw_taskmem.engine.recall import list_activity
from openclaw_taskmem.engine.run_history import HistoryPosition, count_calls, read_history_page
from openclaw_taskmem.pages import made_files
from openclaw_taskmem.tools import views
from taskmem_hookspecs import (
    Event,
    EventQuery,
    InvalidArguments,
    LedgerEntry,
    Message,
    RunState,
    TaskNotFound,
    Wait,
    WaitNotFound,
    WaitQuery,
    WaitStatus,
)

# --- the page of a task --------------------------------------------------------------------


_LOG_LIMIT: Final = 5_000
"""Newest log entries of a task from which its story is told."""
_PAGE_ENTRIES: Final = 150
"""Entries of a timeline on one page."""
MOST_PROOFS: Final = 100
"""Things of each standing, such as checked or refuted, that the page of a task tells."""
Query = Mapping[str, str]


def _read_task_page(context: Context, query: Query) -> dict[str, Any]:
    """Return what the page of a task shows.

    Raises:
        TaskNotFound: No task has that id.
        InvalidArguments: The address has something odd.
    """
    task_id, now = query.get("id", ""), context.clock.now()
    line, facts = read_standing(context, task_id)
    log = context.store.find_events(EventQuery(task_id=task_id, limit=_LOG_LIMIT))
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
        "thinned": len(whole) < len(log) or len(log) == _LOG_LIMIT,
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
    messages = context.store.read_records(Message, task_id, _PAGE_ENTRIES, before=before)
    calls = read_history_page(context, task_id, None).calls if until is None else ()
    events = [event for event in log if until is None or event.at < until]
    entries = timeline.build_timeline(events, messages, calls)
    newest = entries[-_PAGE_ENTRIES:]
    # All of an instant, since the next page begins before it.
    shown = [entry for entry in entries if entry.at >= newest[0].at]
    # No entry older than the oldest message that was read: others may lie between.
    if len(messages) == _PAGE_ENTRIES:
        shown = [entry for entry in shown if entry.at >= messages[0].created_at]
    if not shown or (len(shown) == len(entries) and len(messages) < _PAGE_ENTRIES):
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


class _DrawnSpan(NamedTuple):
    """A span of a run, in percent of the whole time that is drawn."""

    look: RunState
    """Its state; of the time in which work went on, the state in which the run ended."""
    left: float
    width: float


class _DrawnBar(NamedTuple):
    """A run over time, and how it stands."""

    bar: timeline.RunBar
    last: timeline.RunSpan
    """Its newest span, which has no length if the run has ended."""
    spans: Sequence[_DrawnSpan]


def _draw_bars(bars: Sequence[timeline.RunBar]) -> Sequence[_DrawnBar]:
    """Place the spans of the runs on a common axis."""
    spans = [span for bar in bars for span in bar.spans]
    if not spans:
        return ()
    begin = min(span.began_at for span in spans)
    whole = (max(span.ended_at for span in spans) - begin).total_seconds() or 1.0

    def draw(span: timeline.RunSpan, end: RunState) -> _DrawnSpan:
        left = (span.began_at - begin).total_seconds() / whole
        width = (span.ended_at - span.began_at).total_seconds() / whole
        ended = end.terminal and span.state is RunState.RUNNING
        look = end if ended else span.state
        return _DrawnSpan(look, round(100 * left, 2), round(100 * max(width, 0.004), 2))

    return [
        _DrawnBar(
            bar,
            last,
            [draw(span, last.state) for span in bar.spans if not span.state.terminal],
        )
        for bar in bars
        for last in bar.spans[-1:]
    ]


# --- all pages -----------------------------------------------------------------------------


SEARCH_LIMIT: Final = 50
"""Tasks that a search shows at most."""
LIST_LIMIT: Final = 200
"""Tasks, and open waits, that a list shows at most."""
_STATIC_FILES: Final = ("style.css", "page.js", "pictures.js", "idiomorph.js", "icon.svg")
HTML: Final = "text/html; charset=utf-8"


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
    seen: str = ""
    """Changes that the daemon had counted before it read the page; a page waits for more."""


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
        *,
        list_doctor_rows: Callable[[], Sequence[Mapping[str, Any]]],
        list_readers: Callable[[], Sequence[Any]],
        home: str,
    ) -> None:
        """Create a site.

        `read_status` is that of `taskmem status`. `read_health` returns the doctor's last report,
        or None while it has the doctor look; `list_doctor_rows` returns its rows without that.
        `list_readers` returns the state of each reader, and its use today; `home` is a folder.
        """
        self._home = home
        self._list_doctor_rows = list_doctor_rows
        self._list_readers = list_readers
        self._context = context
        self._pictures = pictures
        self._read_status = read_status
        self._read_health = read_health
        self._templates = _load_templates()
        tools: dict[str, dict[str, Any]] = vars(self._templates)
        tools["tests"]["offered"] = partial(made_files.is_offered, home=home)
        self._pages: Mapping[str, Callable[[Query, Viewer], Page]] = {
            "": self._show_overview,
            "task": lambda query, viewer: self._render(
                "task.html", viewer, **_read_task_page(context, query)
            ),
            "calls": lambda query, viewer: self._render(
                "calls.html", viewer, **read_calls(context, query)
            ),
            "wait": self._show_wait,
            "waits": self._show_waits,
            "search": self._search,
            "health": self._show_health,
            "picture": self._send_picture,
            "file": self._show_file,
        }

    def render(self, path: str, query: Query, viewer: Viewer = Viewer()) -> Page:  # noqa: B008 - frozen
        """Return the page at a path, relative to the site's root; or say why not.

        `query`: what stands after the path.
        """
        name = path.strip("/")
        if name in _STATIC_FILES:
            kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
            return Page(200, kind, (files("openclaw_taskmem.pages") / "static" / name).read_bytes())
        show = self._pages.get(name)
        try:
            if show is None:
                return self._refuse(HTTPStatus.NOT_FOUND, "There is no such page.", viewer)
            guard_home(self._context, query.get("id", ""))
            return show(query, viewer)
        except WaitNotFound:
            return self._refuse(HTTPStatus.NOT_FOUND, "There is no such wait.", viewer)
        except TaskNotFound as error:
            return self._refuse(HTTPStatus.NOT_FOUND, str(error), viewer)
        except InvalidArguments as error:
            return self._refuse(HTTPStatus.BAD_REQUEST, str(error), viewer)

    def _render(self, template: str, viewer: Viewer, code: int = 200, **values: Any) -> Page:  # noqa: ANN401 - what the template shows
        text = self._templates.get_template(template).render(
            viewer=viewer,
            now=self._context.clock.now(),
            activity=list_activity(self._context),
            faults=self._list_faults(),
            read_only=READ_ONLY,
            **values,
        )
        return Page(code, HTML, text.encode())

    def _list_faults(self) -> Sequence[DoctorFault]:
        """Return what is known to be broken; the header of each page shows it."""
        plugins = cast("list[dict[str, Any]]", views.list_plugins(self._context))
        return list_faults(
            self._list_doctor_rows(),
            plugins,
            full=self._context.live.storage.full,
            loss=read_database_faults(self._context),
        )

    def _refuse(self, status: int, sentence: str, viewer: Viewer) -> Page:
        title = "Not found" if status == HTTPStatus.NOT_FOUND else "Not understood"
        return self._render("message.html", viewer, status, title=title, sentence=sentence)

    def _show_overview(self, _: Query, viewer: Viewer) -> Page:
        found = read_overview(self._context)
        readers = self._list_readers()
        return self._render("overview.html", viewer, found=found, readers=readers)

    def _search(self, query: Query, viewer: Viewer) -> Page:
        words = query.get("q", "").strip()
        if words:
            most, lines = SEARCH_LIMIT, search_lines(self._context, words, SEARCH_LIMIT)
        else:
            most, lines = LIST_LIMIT, list_lines(self._context, LIST_LIMIT, ended_too=True)
        return self._render("search.html", viewer, words=words, lines=lines, most=most)

    def _show_waits(self, _: Query, viewer: Viewer) -> Page:
        query = WaitQuery(status=WaitStatus.WATCHING, limit=LIST_LIMIT)
        waits = self._context.store.find_waits(query)
        seen = self._context.wait_watcher.read_observation
        ids = dict.fromkeys(wait.task_id for wait in waits if wait.task_id is not None)
        found = filter(None, map(self._context.find_task, ids))
        names = {facts.task.task_id: facts.task.name for facts in found}
        return self._render(
            "waits.html", viewer, waits=waits, names=names, seen=seen, most=LIST_LIMIT
        )

    def _show_wait(self, query: Query, viewer: Viewer) -> Page:
        wait = self._context.store.read_wait(query.get("id", ""))
        log = self._context.store.find_events(EventQuery(wait_id=wait.wait_id, limit=_LOG_LIMIT))
        kept = self._pictures.build_view(wait, self._context.clock.now())
        asked = reader_budget.load_waits(self._context.store.read_bookmark(WAITS_BOOKMARK))
        return self._render(
            "wait.html",
            viewer,
            wait=wait,
            facts=wait.task_id and self._context.find_task(wait.task_id),
            cancelling=describe_wait_cancelling(wait.target),
            observation=self._context.wait_watcher.read_observation(wait.wait_id)
            or wait.last_observation,
            tail=self._context.wait_watcher.read_tail(wait.wait_id),
            pictures=self._pictures.find_snapshots(wait.wait_id),
            note=kept["pictures_note"],
            asked=asked.get(wait.wait_id),
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
            return self._refuse(HTTPStatus.NOT_FOUND, "This picture is not kept any more.", viewer)
        return Page(200, "image/jpeg", body)

    def _show_file(self, query: Query, viewer: Viewer) -> Page:
        """Show a file that a task made, to a person; the address names it as the ledger does."""
        facts = self._context.store.read_task(query.get("id", ""))
        records = self._context.store.read_records(LedgerEntry, facts.task.task_id)
        proofs = list_proofs(records, facts.artifacts)
        proof = next((each for each in proofs if each.what == query.get("path")), None)
        if proof is None or not viewer.may_act:
            return self._refuse(HTTPStatus.NOT_FOUND, "This task made no such file.", viewer)
        found = made_files.read_made_file(proof, self._home)
        if query.get("raw") and found.text is None:
            return Page(200, found.content_type, found.image)
        return self._render("file.html", viewer, found=found, proof=proof, task=facts.task)

    def _show_health(self, _: Query, viewer: Viewer) -> Page:
        report = self._read_health()
        plugins = views.list_plugins(self._context)
        status = self._read_status()
        return self._render("health.html", viewer, report=report, plugins=plugins, status=status)


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
    filters.update(clock=format_clock, iso=format_iso_millis)
    filters.update(ago=_format_age, local=_format_local)
    filters.update(target=describe_target, waiting=describe_wait)
    return environment


def _format_age(instant: datetime, now: datetime) -> str:
    return format_duration((now - instant).total_seconds())


def _format_local(instant: datetime) -> str:
    return f"{instant.astimezone():%Y-%m-%d %H:%M:%S}"


def _show_hidden(value: Any) -> Any:  # noqa: ANN401 - what a template shows
    """Return a value as it is shown: hidden characters as escapes."""
    if value is None:
        return ""
    is_text = isinstance(value, str) and not isinstance(value, Markup)
    return escape_hidden(value) if is_text else value
