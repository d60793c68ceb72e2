"""Answer the calls of a person: the command line, the page, and the tab in the Control UI."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from pydantic import JsonValue

from openclaw_taskmem.config import Settings
from openclaw_taskmem.daemon.doctor_runs import DoctorRuns
from openclaw_taskmem.daemon.picture_files import SnapshotStore
from openclaw_taskmem.domain.user_actions import UserAction
from openclaw_taskmem.engine import lookup, user_actions
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.overview import list_lines, read_overview
from openclaw_taskmem.tools import overview, views
from taskmem_hookspecs import InvalidArguments

if TYPE_CHECKING:
    from openclaw_taskmem.pages.site import Site

Params = Mapping[str, object]
CANCEL_WAIT: Final = "cancel_wait"
"""The action on a wait; the others are on tasks."""
LOOK: Final = "look"
"""Have the doctor look at every link."""
PROVE: Final = "prove"
"""The same, with a wake as proof."""


class PersonCalls:
    """Runs the calls of commands and pages, each on a thread of its own."""

    def __init__(
        self,
        context: Context,
        settings: Settings,
        read_status: Callable[[], Mapping[str, JsonValue]],
        note_change: Callable[[], None],
    ) -> None:
        """Create the calls of a home.

        Args:
            context: The context of the use cases.
            settings: The home's settings.
            read_status: Returns the daemon's status.
            note_change: Called when a page that is looked at may have changed.
        """
        self._read_status = read_status
        self._doctor = DoctorRuns(str(settings.home.folder), note_change)
        self._site: Site | None = None
        self._loading = threading.Lock()
        self._context = context
        self._snapshot_store = SnapshotStore(settings.home.pictures, settings.picture_days)
        self._listed = lookup.PersonList()
        self.methods: Mapping[str, Callable[[Params], JsonValue]] = {
            "overview": self._read_overview,
            "tasks": self._list_tasks,
            "find": self._find_by_words,
            "show": self._show,
            "act": self.act,
        }

    def close(self) -> None:
        """End what still runs for a person."""
        self._doctor.close()

    def _show(self, params: Params) -> JsonValue:
        before = params.get("before")
        page = before if isinstance(before, int) and before < 2**63 else None
        kept = partial(self._snapshot_store.build_view, now=self._context.clock.now())
        return views.show_by_id(self._context, str(params.get("id", "")), kept, page)

    def _read_overview(self, params: Params) -> JsonValue:
        """Return the overview; with `numbered`, a person's words may name its tasks by number."""
        found = read_overview(self._context)
        if params.get("numbered") is True:
            self._listed.note_tasks(overview.list_task_ids(found))
        return overview.describe_overview(found)

    def _list_tasks(self, params: Params) -> JsonValue:
        """Return a list of tasks, which a person's words may then name by number."""
        lines = list_lines(
            self._context,
            views.read_limit(params),
            ended_too=params.get("all") is True,
            implicit=params.get("implicit") is True,
        )
        if params.get("numbered") is True:
            self._listed.note_tasks(line.task_id for line in lines)
        return overview.describe_list(lines, self._context.clock.now())

    def _find_by_words(self, params: Params) -> JsonValue:
        """Return what a person's words mean: a task, or what of `kinds`."""
        kinds = params.get("kinds")
        known = [k for k in ("task", "wait", "wake") if isinstance(kinds, list) and k in kinds]
        words = str(params.get("words", ""))
        return lookup.find_by_words(
            self._context, words, self._listed, known or ("task",)
        )._asdict()

    def render_page(self, params: Params) -> JsonValue:
        """Return a page: its status, type and body, which is encoded in base64."""
        query = params.get("query")
        given = cast("dict[object, object]", query if isinstance(query, dict) else {})
        tab = _read_text(params, "tab")
        page = self._load_site().render(
            str(params.get("path", "")),
            {str(name): str(value) for name, value in given.items()},
            may_act=params.get("may_act") is True or tab is not None,
            tab=tab,
        )
        body = base64.b64encode(page.body).decode()
        return {"status": page.status, "content_type": page.content_type, "body": body}

    def _load_site(self) -> Site:
        """Return the site; its modules are loaded when somebody looks for the first time."""
        with self._loading:
            if self._site is None:
                from openclaw_taskmem.pages.site import Site

                self._site = Site(
                    self._context, self._snapshot_store, self._read_status, self._doctor.read_report
                )
            return self._site

    def act(self, params: Params) -> JsonValue:
        """Do for a person what they want with a task or wait."""
        given, words = str(params.get("id", "")), _read_text(params, "words")
        process = _read_text(params, "process")
        if params.get("action") in (LOOK, PROVE):
            self._doctor.begin(proof=params.get("action") == PROVE)
            return {"id": given, "message": "The doctor looks at every link."}
        if params.get("action") == CANCEL_WAIT:
            return {"id": given, "message": user_actions.cancel_wait(self._context, given, words)}
        try:
            action = UserAction(str(params.get("action")))
        except ValueError:
            known = ", ".join((*UserAction, CANCEL_WAIT, LOOK, PROVE))
            raise InvalidArguments(f"action takes one of: {known}.") from None
        done = user_actions.act_on_task(self._context, given, action, words, process)
        return {"id": given, "message": done}


def _read_text(params: Params, name: str) -> str | None:
    """Return a text with lone surrogates replaced; None: there is none."""
    said = params.get(name)
    return said.encode(errors="replace").decode() if isinstance(said, str) and said else None
