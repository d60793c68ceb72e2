"""Answer the calls of a person: the command line, the page, and the tab in the Control UI.

Pages are rendered on a thread, and what that took is freed when nobody looks any more. The doctor,
whose report a page shows, runs in a process of its own.
"""

from __future__ import annotations

import asyncio
import base64
import ctypes
import gc
import json
import logging
import os
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import JsonValue

from openclaw_taskmem.config import Settings
from openclaw_taskmem.daemon.snapshots import SnapshotStore
from openclaw_taskmem.daemon.thread_pool import ThreadPool
from openclaw_taskmem.domain.views.user_actions import ActRequest, UserAction
from openclaw_taskmem.engine import lookup, user_actions
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.overview import list_lines, read_database_faults, read_overview
from openclaw_taskmem.settings_report import describe_differences
from openclaw_taskmem.tools import views
from taskmem_hookspecs import InvalidArguments
from taskmem_program import OWN_PROGRAM
from taskmem_program.process_groups import ProcessGroup

if TYPE_CHECKING:
    from openclaw_taskmem.pages.site import Site

log = logging.getLogger(__name__)

_RUN_SECONDS: Final = 180.0
"""Time limit of the doctor, its proof included."""
_ENDING_SECONDS: Final = 5.0
"""Seconds that a doctor has to clean up after it was told to end; then it is killed."""
_RANKS: Final = {"fail": 0, "warn": 1, "ok": 2}
"""The order in which rows are shown; the others come last."""


class DoctorRuns:
    """Runs the doctor, one at a time, and keeps its last report. May be used from any thread."""

    def __init__(self, home: str, note_change: Callable[[], None]) -> None:
        """`home`: the folder of the home; `note_change` is called with each new report."""
        self._home = home
        self._note_change = note_change
        self._lock = threading.Lock()
        self._running = False
        self._process: subprocess.Popen[bytes] | None = None
        self._report: Mapping[str, Any] | None = None
        """The last report; None: there is none yet."""

    def list_known_rows(self) -> Sequence[Mapping[str, Any]]:
        """Return the rows of the last report, also while the doctor looks again; empty: none."""
        rows = self._report
        return () if rows is None else rows["rows"]

    def read_report(self) -> Mapping[str, Any] | None:
        """Return the last report, as `taskmem doctor --json` prints it; begin one if there is none.

        None: the doctor looks.
        """
        with self._lock:
            report = None if self._running else self._report
        if report is None:
            self.begin(proof=False)
        return report

    def begin(self, *, proof: bool) -> bool:
        """Have the doctor look in the background; False: it looks already, and nothing is begun."""
        with self._lock:
            if self._running:
                return False
            self._running = True
        threading.Thread(target=self._run, args=(proof,), name="doctor", daemon=True).start()
        return True

    def close(self) -> None:
        """End a doctor that looks."""
        if self._process is not None:
            self._process.terminate()

    def _run(self, proof: bool) -> None:  # noqa: FBT001 - a thread's argument
        command = [*OWN_PROGRAM, "doctor", "--json"]
        command += [] if proof else ["--no-proof"]
        try:
            with ProcessGroup() as group:
                self._process = subprocess.Popen(  # noqa: S603 - our own program
                    command,
                    env={**os.environ, "TASKMEM_HOME": self._home},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    process_group=group.id,
                )
                with self._process as process:
                    report = json.loads(_read_output(process))
            for row in report["rows"]:
                row["rank"] = _RANKS.get(row["state"], 3)
        except subprocess.TimeoutExpired:
            report = _build_failure(f"It did not report within {_RUN_SECONDS:g} s, and was ended.")
        except (OSError, ValueError, KeyError):
            report = _build_failure("It did not report.")
        with self._lock:
            self._running, self._report = False, report
        self._note_change()


def _read_output(process: subprocess.Popen[bytes]) -> bytes:
    """Return what a doctor prints until it ends.

    Raises:
        TimeoutExpired: It took too long. It has ended now.
    """
    try:
        return process.communicate(timeout=_RUN_SECONDS)[0]
    except subprocess.TimeoutExpired:
        process.terminate()
        try:
            process.wait(_ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
        raise


def _build_failure(detail: str) -> Mapping[str, Any]:
    log.warning("the doctor: %s", detail)
    row = {"id": "doctor", "state": "fail", "detail": detail, "rank": 0}
    return {"ok": False, "rows": [{**row, "cure": "Run: taskmem doctor"}]}


# --- pages ---------------------------------------------------------------------------------


FREE_SECONDS: Final = 60.0
"""Seconds without a request for a page after which memory is freed."""


class PageRenderer:
    """Renders pages. For the event loop."""

    def __init__(self, build_site: Callable[[], Site], count_changes: Callable[[], str]) -> None:
        """Create a renderer.

        `build_site` loads the site's modules when somebody looks; `count_changes` returns what
        `changes` has counted so far, as pages tell it.
        """
        self._build_site = build_site
        self._count_changes = count_changes
        self._site: Site | None = None
        self._pool = ThreadPool(1, "page")
        """One thread only, since each keeps a part of the database in memory."""
        self._freeing: asyncio.TimerHandle | None = None

    async def render(self, params: Mapping[str, object]) -> JsonValue:
        """Return a page: its status, type and body, which is encoded in base64."""
        try:
            return await self._pool(self._render, params)
        finally:
            if self._freeing is not None:
                self._freeing.cancel()
            loop = asyncio.get_running_loop()
            self._freeing = loop.call_later(FREE_SECONDS, self._pool, self._free_memory)

    async def close(self) -> None:
        """Let the page that is rendered end; render no other."""
        if self._freeing is not None:
            self._freeing.cancel()
        await self._pool.close()

    def _render(self, params: Mapping[str, object]) -> JsonValue:
        from openclaw_taskmem.pages.site import Viewer

        self._site = self._site or self._build_site()
        query, tab = params.get("query"), params.get("tab")
        given = cast("dict[object, object]", query if isinstance(query, dict) else {})
        in_tab = tab if isinstance(tab, str) and tab else None
        may_act = params.get("may_act") is True or in_tab is not None
        # Counted before anything is read, so no change is missed.
        viewer = Viewer(may_act, in_tab, self._count_changes())
        texts = {str(name): str(value) for name, value in given.items()}
        page = self._site.render(str(params.get("path", "")), texts, viewer)
        body = base64.b64encode(page.body).decode()
        return {"status": page.status, "content_type": page.content_type, "body": body}

    def _free_memory(self) -> None:
        """Drop the compiled templates, and return memory to the system where the C library can.

        Half of what looking at pages takes is memory that the C library keeps although it is free.
        """
        self._site = None
        gc.collect()
        with suppress(AttributeError, OSError):
            ctypes.CDLL(None).malloc_trim(0)


# --- calls ---------------------------------------------------------------------------------


Params = Mapping[str, object]
_CANCEL_WAIT: Final = "cancel_wait"
"""The action on a wait; the others are on tasks."""
LOOK: Final = "look"
"""Have the doctor look at every link."""
_LOOK_WITH_PROOF: Final = "prove"
"""Have the doctor look at every link, with a wake as proof."""
BEGUN_REPLY: Final = "The doctor looks at every link."
BUSY_REPLY: Final = "The doctor is looking already. Ask again when its report is here."


class PersonCalls:
    """Runs the calls of commands and pages, each on a thread of its own."""

    def __init__(
        self,
        context: Context,
        settings: Settings,
        read_status: Callable[[], Mapping[str, JsonValue]],
        list_readers: Callable[[], Sequence[JsonValue]],
        note_change: Callable[[], None],
    ) -> None:
        """Create the calls of a home.

        `list_readers` returns the state of each reader, and its use today; `note_change` is called
        when a page that is looked at may have changed.
        """
        self._read_status = read_status
        self._list_readers = list_readers
        self._doctor = DoctorRuns(str(settings.home.folder), note_change)
        self._home = str(settings.home.folder)
        self._context = context
        self._snapshot_store = SnapshotStore(settings.home.pictures, settings.picture_days)
        self.methods: Mapping[str, Callable[[Params], JsonValue]] = {
            "status": self._describe_status,
            "overview": lambda _: views.describe_overview(read_overview(context)),
            "tasks": self._list_tasks,
            "stats": lambda _: views.describe_metrics(context),
            "find": self._find_by_words,
            "show": self._show,
        }

    def close(self) -> None:
        """End what still runs for a person."""
        self._doctor.close()

    def _describe_status(self, params: Params) -> JsonValue:
        """Return the daemon's status, and how its settings differ from those of a caller."""
        status = {**self._read_status(), "loss": read_database_faults(self._context)}
        given = params.get("environ")
        if not isinstance(given, dict):
            return status
        named = cast("dict[object, object]", given).items()
        environ = {_replace_surrogates(str(name)): _replace_surrogates(str(v)) for name, v in named}
        return {**status, "differences": [*describe_differences(status, environ)]}

    def _show(self, params: Params) -> JsonValue:
        before = params.get("before")
        page = before if isinstance(before, int) and before < 2**63 else None
        build_view = partial(self._snapshot_store.build_view, now=self._context.clock.now())
        any_id = str(params.get("id", ""))
        lookup.guard_home(self._context, any_id)
        return views.show_by_id(self._context, any_id, build_view, page)

    def _list_tasks(self, params: Params) -> JsonValue:
        lines = list_lines(
            self._context,
            views.read_limit(params),
            ended_too=params.get("all") is True,
            implicit=params.get("implicit") is True,
            ready=params.get("ready") is True,
        )
        listed = views.describe_list(lines, self._context.clock.now())
        return {**listed, "loss": read_database_faults(self._context)}

    def _find_by_words(self, params: Params) -> JsonValue:
        """Return what a person's words mean: a task, or what of `kinds`."""
        kinds = params.get("kinds")
        known = [k for k in ("task", "wait", "wake") if isinstance(kinds, list) and k in kinds]
        words = str(params.get("words", ""))
        return lookup.find_by_words(self._context, words, known or ("task",))._asdict()

    def build_site(self) -> Site:
        """Return the pages; their modules are loaded when somebody looks for the first time."""
        from openclaw_taskmem.pages.site import Site

        return Site(
            self._context,
            self._snapshot_store,
            self._read_status,
            self._doctor.read_report,
            list_doctor_rows=self._doctor.list_known_rows,
            list_readers=self._list_readers,
            home=self._home,
        )

    def act(self, process: str | None, params: Params) -> JsonValue:
        """Do for a person what they want with a task or wait.

        `process` is the one at the other end of the socket, whatever the call says; None: unknown.
        """
        given, words = str(params.get("id", "")), _read_text(params, "words")
        if params.get("action") in (LOOK, _LOOK_WITH_PROOF):
            begun = self._doctor.begin(proof=params.get("action") == _LOOK_WITH_PROOF)
            return {"id": given, "message": BEGUN_REPLY if begun else BUSY_REPLY}
        if not given.strip():
            raise InvalidArguments(
                "That names no task and no wait, so nothing was changed; give the id of one."
            )
        lookup.guard_home(self._context, given)
        if params.get("action") == _CANCEL_WAIT:
            return {"id": given, "message": user_actions.cancel_wait(self._context, given, words)}
        try:
            action = UserAction(str(params.get("action")))
        except ValueError:
            names = ", ".join((*UserAction, _CANCEL_WAIT, LOOK, _LOOK_WITH_PROOF))
            raise InvalidArguments(f"action takes one of: {names}.") from None
        request = ActRequest(
            action=action,
            words=words,
            question_id=_read_text(params, "question_id"),
            files_id=_read_text(params, "files_id"),
            process=process,
        )
        return {"id": given, "message": user_actions.act_on_task(self._context, given, request)}


def _read_text(params: Params, name: str) -> str | None:
    """Return a text with lone surrogates replaced; None: there is none."""
    value = params.get(name)
    return _replace_surrogates(value) if isinstance(value, str) and value else None


def _replace_surrogates(text: str) -> str:
    return text.encode(errors="replace").decode()
