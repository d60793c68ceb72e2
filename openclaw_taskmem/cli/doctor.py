"""`taskmem doctor`: check every link from the daemon to the agent, one row each.

The core's checks come first, then those of plug-ins.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Iterator, Mapping, MutableMapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, cast

from pydantic import JsonValue

from openclaw_taskmem.cli import daemon_process, doctor_rows
from openclaw_taskmem.cli.client import Link, LinkError, connect, connect_or_start
from openclaw_taskmem.cli.command_output import format_json
from openclaw_taskmem.clock import SystemClock
from openclaw_taskmem.domain.errors import DaemonUnavailable
from openclaw_taskmem.domain.text.redaction import scrub
from openclaw_taskmem.domain.text.texts import format_count, to_one_line, to_printable
from openclaw_taskmem.home import Home, locate_home
from openclaw_taskmem.losses import read_known_database
from openclaw_taskmem.plugin_host import doctor_checks
from openclaw_taskmem.plugin_host.plugin_host import Plugin, PluginHost
from taskmem_hookspecs import Clock, DoctorRow, DoctorState, TaskmemError

_MOST_OWED: Final = 10_000
"""Due wakes that are read."""
_FAULT_STATES: Final = (DoctorState.WARN, DoctorState.FAIL)
"""States that are shown unless all are asked for."""
ASK_SECONDS: Final = daemon_process.STARTING_SECONDS
"""Seconds for one answer of the daemon: as long as it may take to start."""


_SUBJECTS: Final = {
    **dict.fromkeys(("home", "settings", "daemon", "clock", "plugin", "plugins"), "The daemon"),
    **dict.fromkeys(("transport", "wakes"), "Wakes"),
    **dict.fromkeys(("reader", "readers"), "Readers"),
    "kept": "Room",
    "database": "The database",
    "screen": "The screen",
    "openclaw": "OpenClaw",
}
"""Subjects of the rows by the first part of their ids; others stand below that part itself.

The rows of a subject follow each other, so that each has one heading."""
_LATE_SUBJECTS: Final = {
    "daemon.answers": "Answers of the daemon",
    "settings.": "Settings that the daemon has otherwise",
}
"""Subjects of the rows that come later, by the beginning of their ids."""
_STATES: Final = {
    DoctorState.OK: "ok",
    DoctorState.OFF: "off",
    DoctorState.WARN: "warning",
    DoctorState.FAIL: "failed",
}
_INDENT: Final = " " * 9


def run_doctor(
    environ: MutableMapping[str, str],
    say: Callable[[str], None],
    *,
    say_row: Callable[[DoctorRow], None] | None = None,
    as_json: bool,
    proof: bool,
    verbose: bool = False,
) -> int:
    """Print what is wrong, or with `verbose` every row; return the exit status: 1 if one fails.

    `say_row`: prints a row; None: `say` does, as `format_row` has it.
    """
    # A plug-in's error is shown as a row, so keep it off stderr.
    logging.getLogger("openclaw_taskmem").addHandler(logging.NullHandler())
    found: list[DoctorRow] = []
    with closing(_run_all_checks(environ, SystemClock(), proof=proof)) as rows:
        subject = ""
        for row in rows:
            found.append(row)
            if as_json or not (verbose or row.state in _FAULT_STATES):
                continue
            if _find_subject(row) != subject:
                subject = _find_subject(row)
                say(subject)
            if say_row is None:
                say(format_row(row))
            else:
                say_row(row)
    say(_format_json(found) if as_json else _format_summary(found, verbose=verbose))
    return 0 if _is_healthy(found) else 1


def _find_subject(row: DoctorRow) -> str:
    """Return what a row is about, as its heading says it."""
    for begun, subject in _LATE_SUBJECTS.items():
        if row.id.startswith(begun):
            return subject
    first = row.id.partition(".")[0]
    return _SUBJECTS.get(first, first.capitalize())


def _is_healthy(rows: Sequence[DoctorRow]) -> bool:
    """Tell whether no row fails."""
    return all(row.state is not DoctorState.FAIL for row in rows)


def print_row(row: DoctorRow) -> None:
    """Print a row on a terminal: in colour, and wrapped between words."""
    from openclaw_taskmem.cli.tables import GAP, Cell, Column, Table, paint_state, print_all

    state = Cell(_STATES[row.state], paint_state(row.state).style)
    rows = [(state if n == 0 else "", line) for n, line in enumerate(_list_row_lines(row))]
    columns = [Column(" " * (len(_INDENT) - len(GAP)), fixed=True), Column("")]
    print_all([Table(columns, rows, titled=False)])


def format_row(row: DoctorRow) -> str:
    """Return a row for people, as it stands in a pipe or a file."""
    first, *below = _list_row_lines(row)
    return "\n".join((f"{_STATES[row.state]:<9}{first}", *(f"{_INDENT}{line}" for line in below)))


def _list_row_lines(row: DoctorRow) -> list[str]:
    """Return what was found, what follows from it, and what to do, without control characters."""
    first, _, rest = row.id.partition(".")
    about = rest if rest and _find_subject(row).casefold() == first else row.id
    about = about.replace(".", " ").replace("_", " ")
    detail = f"{_format_plain(about)}: {_format_plain(row.detail)}"
    return [detail, *(_format_plain(each) for each in (row.effect, row.cure) if each)]


def _format_summary(rows: Sequence[DoctorRow], *, verbose: bool) -> str:
    """Return the last line for people; it names what is off and missed.

    `verbose`: every row was shown.
    """
    counts = {state: sum(row.state is state for row in rows) for state in DoctorState}
    failing, odd, off = (
        counts[state] for state in (DoctorState.FAIL, DoctorState.WARN, DoctorState.OFF)
    )
    parts = [f"{failing} failed"] if failing else []
    parts += [format_count(odd, "warning")] if odd else []
    missed = [
        _format_plain(each)
        for row in rows
        if row.state is DoctorState.OFF and row.effect
        for each in (row.effect, row.cure)
        if each
    ]
    looked = f"{format_count(len(rows), 'link')} {'was' if len(rows) == 1 else 'were'} looked at"
    if off:
        looked += f", {off} of them off{'' if verbose else ' (-v shows them)'}"
    if parts:
        looked += f": {', '.join(parts)}"
    well = ["All is well."] if not missed else ["What is on works."]
    return " ".join((f"{looked}.", *(well if not parts else ()), *missed))


def _format_json(rows: Sequence[DoctorRow]) -> str:
    """Return all rows as one JSON document. Source: docs/origins.md, "Commands"."""
    listed = [
        {
            name: value and scrub(value) if name in ("detail", "effect", "cure") else value
            for name, value in row.model_dump().items()
        }
        for row in rows
    ]
    whole = {"ok": _is_healthy(rows), "rows": listed}
    return format_json(whole)


def _format_plain(sentence: str) -> str:
    return to_one_line(to_printable(scrub(sentence)))


# --- looking ------------------------------------------------------------------


@dataclass(frozen=True)
class _Checkup:
    """The `Checkup` that plug-ins' checks get."""

    home: Home
    environ: Mapping[str, str]
    status: Mapping[str, JsonValue] | None
    transports: Sequence[str]
    database: str
    rows: list[DoctorRow] = field(default_factory=list[DoctorRow])

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


def _run_all_checks(
    environ: MutableMapping[str, str], clock: Clock, *, proof: bool
) -> Generator[DoctorRow]:
    """Yield every row; the settings are put into `environ`, where plug-ins read them.

    Closing the iterator lets the running check clean up.
    """
    before = dict(environ)
    home = locate_home(environ)
    home_row = doctor_rows.check_home(home)
    yield home_row
    settings, row = doctor_rows.check_settings(home, environ)
    yield row
    link, row = doctor_rows.check_daemon(home, before)
    yield row
    # A busy machine loads a plug-in's checks slowly; one that is late would be left out.
    seconds = max(settings.hook_seconds, ASK_SECONDS)
    plugin_host = PluginHost(seconds=seconds, disabled=settings.disabled_plugins)
    status: Mapping[str, JsonValue] | None = None
    if link is None:
        yield from doctor_rows.check_plugins(
            [
                {"name": p.name, "state": p.state, "last_error": p.last_error, "cause": p.cause}
                for p in plugin_host.plugins
            ]
        )
        transports, row = doctor_rows.check_transports(None, plugin_host, settings)
        yield row
    else:
        with link:
            answers = _Answers(link, home)
            status = answers.ask("status")
            yield from doctor_rows.check_logout(home, link.pid, before)
            shared = _read_instant(status) if settings.database_url else None
            yield from _check_daemon(answers, clock, shared, plugin_host.plugins)
            transports, row = doctor_rows.check_transports(status, plugin_host, settings)
            yield row
            yield from _check_wakes(answers, clock)
            yield from _check_hosts(status)
            yield from doctor_rows.check_unheard(status)
        yield from answers.failures
    if status is not None and "keeps" in status:
        yield from doctor_rows.check_retention(cast("Mapping[str, Any]", status["keeps"]))
    if home_row.state is not DoctorState.FAIL:
        yield doctor_rows.check_home_size(home, has_database=not settings.database_url)
        yield from doctor_rows.check_recordings(home, plugin_host.plugins)
        yield from doctor_rows.check_losses(settings)
    database = (not settings.database_url and read_known_database(home)) or settings.database
    found = _Checkup(home, before, status, transports, database)
    yield from _run_plugin_checks(plugin_host, found, proof=proof)
    # Last, as a gateway that was still loading is connected by now, and names its model.
    if status is not None:
        with suppress(TaskmemError):
            status = cast("Mapping[str, JsonValue]", found.ask_now("status", {}))
            if "readers" in status:
                yield from doctor_rows.check_readers(cast("list[Any]", status["readers"]))
            yield from doctor_rows.check_differences(status, settings, environ)


def _run_plugin_checks(
    plugin_host: PluginHost, found: _Checkup, *, proof: bool
) -> Generator[DoctorRow]:
    """Yield the rows of the plug-ins' checks, and one for each plug-in that cannot name its own."""
    # Importing what a check needs may take longer than any other hook.
    named = plugin_host.find_doctor_checks(doctor_checks.CHECK_SECONDS)
    for plugin in plugin_host.plugins:
        if plugin.last_error and plugin.last_error.startswith("health_checks:"):
            yield doctor_checks.build_failure_row(plugin.name, plugin.name, plugin.last_error)
    for name, check in named:
        if proof or not check.costs:
            with closing(doctor_checks.run_check(name, check, found)) as rows:
                for row in rows:
                    found.rows.append(row)
                    yield row


def _check_daemon(
    answers: _Answers, clock: Clock, shared: datetime | None, installed: Sequence[Plugin]
) -> Iterator[DoctorRow]:
    """Yield the rows on the daemon's plug-ins and its clock.

    `shared`: what the clock of the database's server shows; None: the machine's counts.
    """
    plugins = answers.ask("plugins")
    if plugins is not None:
        yield from doctor_rows.check_plugins(plugins)
        yield from doctor_rows.check_plugin_versions(plugins, installed)
    events = answers.ask("events", limit=1)
    if events is not None:
        newest = events[-1]["at"] if events else None
        yield doctor_rows.check_clock(newest, clock.now(), shared)


def _read_instant(status: Mapping[str, Any] | None) -> datetime | None:
    return None if status is None else datetime.fromisoformat(status["now"])


def _check_wakes(answers: _Answers, clock: Clock) -> Iterator[DoctorRow]:
    """Yield the rows on the wakes that the daemon has."""
    recent = answers.ask("wakes", all=True)
    open_wakes = answers.ask("wakes", limit=_MOST_OWED)
    if recent is not None and open_wakes is not None:
        # A wake that has been due for long is not among the newest.
        wakes = {wake["wake_id"]: wake for wake in (*recent, *open_wakes)}
        # Asked after them: a gateway that loads may have come meanwhile.
        status = cast("Mapping[str, Any]", answers.ask("status") or {})
        gateways = cast("Sequence[Mapping[str, str]]", status.get("gateways", ()))
        starts = [datetime.fromisoformat(each["started_at"]) for each in gateways]
        latest = max(starts, default=None)
        yield from doctor_rows.check_wakes([*wakes.values()], clock.now(), latest)


def _check_hosts(status: Mapping[str, Any] | None) -> Iterator[DoctorRow]:
    """Warn of open tasks if no host is known in which an agent could be woken."""
    if status is None or not (hostless := status.get("hostless")):
        return
    if status["gateways"] or status.get("sessions"):
        return
    tasks = f"{format_count(hostless, 'task')} {'is' if hostless == 1 else 'are'} open"
    yield doctor_rows.build_warn_row(
        "wakes.hosts",
        f"{tasks}, and nobody can be woken: no host of an agent is known.",
        "Set up the host of your agent (taskmem setup), or tell the agent yourself to go on.",
        "Work that stops stays where it is.",
    )


class _Answers:
    """Calls the daemon, and makes a row of the first call that fails."""

    def __init__(self, link: Link, home: Home) -> None:
        self._link = link
        self._home = home
        self.failures: list[DoctorRow] = []

    def ask(self, method: str, **params: object) -> Any:  # noqa: ANN401 - JSON
        """Return an answer; None: this call, or one before it, failed."""
        if self.failures:
            return None
        try:
            return self._link.call(method, params, ASK_SECONDS)
        except LinkError as error:
            cure = f"Run this again; where it does not help, look at {self._home.log}."
            row = doctor_rows.build_fail_row("daemon.answers", f"{method}: {error}", cure)
            self.failures.append(row)
            return None
