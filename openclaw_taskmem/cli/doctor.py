"""`taskmem doctor`: check every link from the daemon to the agent, one row each.

The core's checks come first, then those of plug-ins.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from collections.abc import Callable, Generator, Iterator, Mapping, MutableMapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, cast

from pydantic import JsonValue

from openclaw_taskmem.cli import core_checks, daemon_presence
from openclaw_taskmem.cli.client import Link, LinkError, connect, connect_or_start
from openclaw_taskmem.clock import SystemClock
from openclaw_taskmem.domain.redaction import scrub
from openclaw_taskmem.domain.texts import format_count, to_one_line, to_printable
from openclaw_taskmem.home import Home, locate_home
from openclaw_taskmem.plugin_host import checks
from openclaw_taskmem.plugin_host.facade import PluginHost
from openclaw_taskmem.plugin_host.manager import Plugin
from taskmem_hookspecs import Clock, HealthRow, HealthState, TaskmemError
from taskmem_hookspecs.errors import DaemonUnavailable

MOST_OWED: Final = 10_000
"""Due wakes that are read."""
ASK_SECONDS: Final = daemon_presence.STARTING_SECONDS
"""Seconds for one answer of the daemon: as long as it may take to start."""


_SUBJECTS: Final = {
    **dict.fromkeys(("home", "settings", "daemon", "clock", "plugin", "plugins"), "The daemon"),
    **dict.fromkeys(("transport", "wakes"), "Wakes"),
    **dict.fromkeys(("reader", "readers", "screen"), "What reads and sees"),
    **dict.fromkeys(("database", "kept"), "The database"),
    "openclaw": "OpenClaw",
}
"""What the rows are about, by the first part of their ids; others stand below that part itself."""


def run_doctor(
    environ: MutableMapping[str, str],
    say: Callable[[str], None],
    *,
    as_json: bool,
    proof: bool,
    verbose: bool = False,
) -> int:
    """Print what is wrong, or with `verbose` every row; return the exit status: 1 if one fails."""
    # A plug-in's error is shown as a row, so keep it off stderr.
    logging.getLogger("openclaw_taskmem").addHandler(logging.NullHandler())
    found: list[HealthRow] = []
    with (
        _interrupt_on_sigterm(),
        closing(run_all_checks(environ, SystemClock(), proof=proof)) as rows,
    ):
        subject = ""
        for row in rows:
            found.append(row)
            if as_json or not (verbose or row.state is not HealthState.OK):
                continue
            if find_subject(row) != subject:
                subject = find_subject(row)
                say(subject)
            say(format_row(row))
    say(format_json(found) if as_json else format_summary(found))
    return 0 if is_healthy(found) else 1


@contextmanager
def _interrupt_on_sigterm() -> Generator[None]:
    """Treat SIGTERM like Ctrl-C, so that checks clean up."""

    def interrupt(_number: int, _frame: object) -> None:
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def find_subject(row: HealthRow) -> str:
    """Return what a row is about, as its heading says it."""
    first = row.id.partition(".")[0]
    return _SUBJECTS.get(first, first.capitalize())


def is_healthy(rows: Sequence[HealthRow]) -> bool:
    """Whether no row fails."""
    return all(row.state is not HealthState.FAIL for row in rows)


def format_row(row: HealthRow) -> str:
    """Return a row as a line without control characters, with its cure below."""
    line = f"{row.state:<4}  {row.id}: {_format_plain(row.detail)}"
    return line if row.cure is None else f"{line}\n      {_format_plain(row.cure)}"


def format_summary(rows: Sequence[HealthRow]) -> str:
    """Return the last line for people."""
    counts = {state: sum(row.state is state for row in rows) for state in HealthState}
    failing, odd = counts[HealthState.FAIL], counts[HealthState.WARN]
    if not failing and not odd:
        return f"{len(rows)} links were looked at. All is well."
    parts = [f"{failing} failed"] if failing else []
    parts += [format_count(odd, "warning")] if odd else []
    return f"{len(rows)} links: {', '.join(parts)}."


def format_json(rows: Sequence[HealthRow]) -> str:
    """Return all rows as one JSON document. Source: rulings, "doctor --json"."""
    listed = [
        {
            "id": row.id,
            "state": row.state,
            "detail": scrub(row.detail),
            "cure": None if row.cure is None else scrub(row.cure),
        }
        for row in rows
    ]
    whole = {"ok": is_healthy(rows), "rows": listed}
    return json.dumps(whole, ensure_ascii=False, indent=2)


def _format_plain(sentence: str) -> str:
    return to_one_line(to_printable(scrub(sentence)))


# --- looking ------------------------------------------------------------------


@dataclass(frozen=True)
class _Checkup:
    """The `Checkup` that plug-ins' checks get."""

    home: Home
    environ: Mapping[str, str]
    status: Mapping[str, JsonValue] | None
    transport: str | None
    database: str
    rows: list[HealthRow] = field(default_factory=list[HealthRow])

    async def ask(self, method: str, params: Mapping[str, object]) -> JsonValue:
        return await asyncio.to_thread(self.ask_now, method, params)

    def ask_now(self, method: str, params: Mapping[str, object]) -> JsonValue:
        """Call the daemon in the current thread."""
        try:
            with self._open() as link:
                return cast("JsonValue", link.call(method, params, ASK_SECONDS))
        except LinkError as error:
            away = error.name == "daemon_unavailable"
            kind = DaemonUnavailable if away else TaskmemError
            raise kind(str(error)) from error

    def _open(self) -> Link:
        """Connect to the daemon; if it ran before, it may be restarting."""
        if self.status is None:
            return connect(self.home)
        return connect_or_start(self.home, self.environ)


def run_all_checks(
    environ: MutableMapping[str, str], clock: Clock, *, proof: bool
) -> Generator[HealthRow]:
    """Yield every row; the settings are put into `environ`, where plug-ins read them.

    Closing the iterator lets the running check clean up.
    """
    before = dict(environ)
    home = locate_home(environ)
    yield core_checks.check_home(home)
    settings, row = core_checks.check_settings(home, environ)
    yield row
    link, row = core_checks.check_daemon(home, before)
    yield row
    plugin_host = PluginHost(seconds=settings.hook_seconds, disabled=settings.disabled_plugins)
    status: Mapping[str, JsonValue] | None = None
    if link is None:
        transport, row = core_checks.check_transport(None, plugin_host, settings)
        yield row
        yield from core_checks.check_plugins(
            [
                {"name": p.name, "state": p.state, "last_error": p.last_error}
                for p in plugin_host.plugins
            ]
        )
    else:
        with link:
            answers = _Answers(link, home)
            status = answers.ask("status")
            transport, row = core_checks.check_transport(status, plugin_host, settings)
            yield row
            yield from _check_daemon_answers(answers, clock, plugin_host.plugins)
            if status is not None and "readers" in status:
                yield from core_checks.check_readers(cast("list[Any]", status["readers"]))
            if status is not None and "keeps" in status:
                yield from core_checks.check_retention(cast("Mapping[str, Any]", status["keeps"]))
        yield from answers.failures
    found = _Checkup(home, before, status, transport, settings.database)
    for plugin, check in plugin_host.find_health_checks():
        if proof or not check.costs:
            with closing(checks.run_check(plugin, check, found)) as rows:
                for row in rows:
                    found.rows.append(row)
                    yield row
    # Last, as a gateway that was still loading is connected by now.
    if status is not None:
        with suppress(TaskmemError):
            status = cast("Mapping[str, JsonValue]", found.ask_now("status", {}))
            yield from core_checks.check_differences(status, settings, environ)


def _check_daemon_answers(
    answers: _Answers, clock: Clock, installed: Sequence[Plugin]
) -> Iterator[HealthRow]:
    """Yield the rows of checks that need the daemon's answers."""
    plugins = answers.ask("plugins")
    if plugins is not None:
        yield from core_checks.check_plugins(plugins)
        yield from core_checks.check_plugin_versions(plugins, installed)
    recent = answers.ask("wakes", all=True)
    open_wakes = answers.ask("wakes", limit=MOST_OWED)
    if recent is not None and open_wakes is not None:
        # A wake that has been due for long is not among the newest.
        wakes = {wake["wake_id"]: wake for wake in (*recent, *open_wakes)}
        yield from core_checks.check_wakes([*wakes.values()], clock.now())
    events = answers.ask("events", limit=1)
    if events is not None:
        newest = events[-1]["at"] if events else None
        yield core_checks.check_clock(newest, clock.now())


class _Answers:
    """Calls the daemon, and makes a row of the first call that fails."""

    def __init__(self, link: Link, home: Home) -> None:
        self._link = link
        self._home = home
        self.failures: list[HealthRow] = []

    def ask(self, method: str, **params: object) -> Any:  # noqa: ANN401 - JSON
        """Return an answer; None: this call, or one before it, failed."""
        if self.failures:
            return None
        try:
            return self._link.call(method, params, ASK_SECONDS)
        except LinkError as error:
            cure = f"Run this again; where it does not help, look at {self._home.log}."
            row = core_checks.build_fail_row("daemon.answers", f"{method}: {error}", cure)
            self.failures.append(row)
            return None
