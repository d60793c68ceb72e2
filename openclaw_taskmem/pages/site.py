"""Answer a path with a page: HTML for people, whatever serves it.

`taskmem ui` serves the pages on loopback, and the plug-in in the gateway as a tab. All links are
relative, so a page works below any address. Texts of tasks, threads and screens are escaped by the
templates, and characters that show nothing are written as escapes.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final, NamedTuple, Protocol, cast

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from openclaw_taskmem.domain import reader_budget
from openclaw_taskmem.domain.conditions.targets import describe_target, describe_wait
from openclaw_taskmem.domain.reader_budget import WAITS_BOOKMARK
from openclaw_taskmem.domain.tasks.proof import list_proofs
from openclaw_taskmem.domain.text.text_safety import escape_hidden
from openclaw_taskmem.domain.text.texts import format_clock, format_duration, format_iso_millis
from openclaw_taskmem.domain.views import timeline
from openclaw_taskmem.domain.views.overview import DoctorFault, list_faults
from openclaw_taskmem.domain.views.user_actions import READ_ONLY, describe_wait_cancelling
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.lookup import guard_home
from openclaw_taskmem.engine.overview import list_lines, read_overview, search_lines
from openclaw_taskmem.engine.recall import list_activity
from openclaw_taskmem.pages import made_files, task_page
from openclaw_taskmem.pages.task_page import LOG_LIMIT, Query
from openclaw_taskmem.tools import views
from taskmem_hookspecs import (
    EventQuery,
    InvalidArguments,
    LedgerEntry,
    TaskNotFound,
    Wait,
    WaitNotFound,
    WaitQuery,
    WaitStatus,
)

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

        Args:
            context: The context of all reading.
            pictures: The pictures of waits.
            read_status: Returns the daemon's status, as for `taskmem status`.
            read_health: Returns the doctor's last report, and has it look if there is none. None:
                it looks.
            list_doctor_rows: Returns the rows of that report, without having it look.
            list_readers: Returns the state of each reader, and its use today.
            home: The folder of the home.
        """
        self._home = home
        self._list_doctor_rows = list_doctor_rows
        self._list_readers = list_readers
        self._context = context
        self._pictures = pictures
        self._read_status = read_status
        self._read_health = read_health
        self._templates = _load_templates()
        self._templates.filters["session"] = self._name_session
        tests: dict[str, Any] = self._templates.tests
        tests["offered"] = self._is_offered
        self._pages: Mapping[str, Callable[[Query, Viewer], Page]] = {
            "": self._show_overview,
            "task": self._show_task,
            "calls": self._show_calls,
            "wait": self._show_wait,
            "waits": self._show_waits,
            "search": self._search,
            "health": self._show_health,
            "picture": self._send_picture,
            "file": self._show_file,
        }

    def render(
        self,
        path: str,
        query: Query,
        *,
        may_act: bool = False,
        tab: str | None = None,
        seen: str = "",
    ) -> Page:
        """Return the page at a path, which is relative to the site's root; or say why not.

        Args:
            path: The path.
            query: What stands after it.
            may_act: True to offer what the person may do.
            tab: As in `Viewer`.
            seen: As in `Viewer`.
        """
        viewer = Viewer(may_act=may_act, tab=tab, seen=seen)
        name = path.strip("/")
        if name in _STATIC_FILES:
            return _send_file(name)
        show = self._pages.get(name)
        try:
            if show is None:
                return self._refuse(HTTPStatus.NOT_FOUND, "There is no such page.", viewer)
            guard_home(self._context, query.get("id", ""))
            return show(query, viewer)
        except (TaskNotFound, WaitNotFound) as error:
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

    def _is_offered(self, proof: Any) -> bool:  # noqa: ANN401 - a template's value
        return made_files.is_offered(proof, self._home)

    def _name_session(self, session_key: str) -> str:
        """Name a session for people, without its agent where the host's keys begin with that."""
        return self._context.sessions.find_rest(session_key) or session_key

    def _list_faults(self) -> Sequence[DoctorFault]:
        """Return what is known to be broken; the header of each page shows it."""
        plugins = cast("list[dict[str, Any]]", views.list_plugins(self._context))
        return list_faults(self._list_doctor_rows(), plugins, full=self._context.live.storage.full)

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

    def _show_task(self, query: Query, viewer: Viewer) -> Page:
        values = task_page.read_task_page(self._context, query)
        return self._render("task.html", viewer, **values)

    def _show_calls(self, query: Query, viewer: Viewer) -> Page:
        return self._render("calls.html", viewer, **task_page.read_calls(self._context, query))

    def _show_waits(self, _: Query, viewer: Viewer) -> Page:
        query = WaitQuery(status=WaitStatus.WATCHING, limit=LIST_LIMIT)
        waits = self._context.store.find_waits(query)
        seen = self._context.wait_watcher.read_observation
        return self._render("waits.html", viewer, waits=waits, seen=seen, most=LIST_LIMIT)

    def _show_wait(self, query: Query, viewer: Viewer) -> Page:
        wait = self._context.store.read_wait(query.get("id", ""))
        log = self._context.store.find_events(EventQuery(wait_id=wait.wait_id, limit=LOG_LIMIT))
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


def _send_file(name: str) -> Page:
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Page(200, kind, (files("openclaw_taskmem.pages") / "static" / name).read_bytes())


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
    filters.update(ago=_format_ago, clock=format_clock, local=_format_local, iso=format_iso_millis)
    filters.update(target=describe_target, waiting=describe_wait)
    return environment


def _show_hidden(value: Any) -> Any:  # noqa: ANN401 - what a template shows
    """Return a value as it is shown: hidden characters as escapes."""
    if value is None:
        return ""
    is_text = isinstance(value, str) and not isinstance(value, Markup)
    return escape_hidden(value) if is_text else value


def _format_ago(instant: datetime, now: datetime) -> str:
    return format_duration((now - instant).total_seconds())


def _format_local(instant: datetime) -> str:
    return f"{instant.astimezone():%Y-%m-%d %H:%M:%S}"
