"""Commands on the daemon, its tools and plug-ins, and the ways to see that it works."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final, Self, cast

import click

from openclaw_taskmem.cli.client import LinkError, connect, connect_or_start
from openclaw_taskmem.cli.command_output import (
    JSON_OPTION,
    build_tool_call,
    call_daemon,
    fail,
    print_json,
)
from openclaw_taskmem.domain.text.texts import MIB, to_one_line, to_printable
from openclaw_taskmem.home import find_home

# --- its status ----------------------------------------------------------------------------


_THOUSAND: Final = 1000
_FEW_TOKENS: Final = 100
"""Counts of tokens below this are printed exactly."""
_CENT_TENTH: Final = 0.001


def describe_reader(row: Any) -> str:  # noqa: ANN401 - JSON
    """Format a row of `readers` in `taskmem status --json` as one line."""
    state = row["state"]
    if state == "off":
        return f"{row['name']}: {row['detail']}"
    asked, limit = row["asked"], row["limit"]
    count = f"{asked}" if limit is None else f"{asked} of {limit}"
    one = asked == 1 and limit in (None, 1)
    model = f" ({row['model']})" if row["model"] else ""
    sentence = (
        f"{row['name']}{model}: {count} question{'' if one else 's'} today, "
        f"{_format_tokens(row['tokens_in'])} tokens in, {_format_tokens(row['tokens_out'])} out, "
        f"{_format_cost(row['cost_usd'])}"
    )
    return sentence if state == "ready" else f"{sentence}; {state}: {row['detail']}"


def _can_be_used(row: Any) -> bool:  # noqa: ANN401 - JSON
    """Tell whether a reader is set up, or can be."""
    return row["state"] != "off" or row["cure"] is not None


def _format_tokens(tokens: int) -> str:
    if tokens < _FEW_TOKENS:
        return str(tokens)
    thousands = round(tokens / _THOUSAND, 1)
    if thousands < _THOUSAND:
        return f"{thousands:.1f} k"
    return f"{thousands / _THOUSAND:.1f} M"


def _format_cost(dollars: float | None) -> str:
    if dollars is None:
        return "cost unknown"
    if dollars == 0:
        return "no cost yet"
    if dollars < _CENT_TENTH:
        return f"less than ${_CENT_TENTH}"
    return f"about ${dollars:.3f}" if dollars < 1 else f"about ${dollars:.2f}"


def _describe_retention(keeps: Mapping[str, Any]) -> str:
    """Say how large the database is, and how long ended rows are kept."""
    taken, most = keeps["bytes"], keeps["most_bytes"] / MIB
    now = "" if taken is None else f"{taken / MIB:,.1f} MiB, "
    bound = "shared by homes" if keeps.get("shared") else f"at most {most:,.0f} MiB"
    dropped = keeps.get("dropped")
    return (
        f"{now}{bound}; what has ended, for {keeps['days']:g} days"
        f"{'; only what is never dropped is left' if keeps['full'] else ''}"
        f"{f'; dropped since its start: {dropped}' if dropped else ''}"
    )


_MOST_HOSTS: Final = 10
"""Most gateways and sessions that `status` names."""


def print_status(answer: Mapping[str, Any]) -> None:
    """Print the daemon's answer to `status`."""
    click.echo(
        f"taskmem {answer['version']} runs as process {answer['pid']}\n"
        f"home      {answer['home']}\n"
        f"database  {answer['database']}"
    )
    if loss := answer.get("loss"):
        click.echo(f"loss      {_format_line(loss)}")
    if keeps := answer.get("keeps"):
        click.echo(f"keeps     {_describe_retention(keeps)}")
    for kind in ("tasks", "runs", "waits", "wakes"):
        states = [f"{n} {state}" for state, n in answer.get(kind, {}).items() if n]
        click.echo(f"{kind:<9} {', '.join(states) or 'none'}")
    # A daemon of an older version reports neither these nor readers.
    if unsent := answer.get("unsent"):
        wakes = f"{unsent} wake{'' if unsent == 1 else 's'}"
        click.echo(f"unsent    {wakes} found no way out; the cure: taskmem doctor")
    click.echo(f"plug-ins  {answer['plugins']} on")
    if transport := answer.get("transport"):
        why = f": {answer['transport_note']}" if answer["transport_note"] else ""
        click.echo(f"transport {_format_line(transport + why)}")
    for line in _describe_hosts(answer):
        click.echo(f"host      {_format_line(line)}")
    for line in answer.get("activity", ()):
        click.echo(f"activity  {_format_line(line)}")
    for row in filter(_can_be_used, answer.get("readers", ())):
        click.echo(f"reader    {_format_line(describe_reader(row))}")
    for sentence in answer.get("differences", ()):
        click.echo(f"setting   {_format_line(sentence)}")


def _describe_hosts(answer: Mapping[str, Any]) -> Sequence[str]:
    """Return a line for each gateway and each session that is connected, up to a limit."""
    # A daemon of an older version reports no sessions.
    gateways = [("OpenClaw", each["transport"]) for each in answer.get("gateways", ())]
    sessions = [(each["who"], each["transport"]) for each in answer.get("sessions", ())]
    lines = [
        f"{who} is connected, and {f'woken by {way}' if way else 'nothing here can wake it'}"
        for who, way in (*gateways, *sessions)
    ]
    more = len(lines) - _MOST_HOSTS
    return lines if more <= 0 else [*lines[:_MOST_HOSTS], f"{more:,} more"]


def _format_line(text: str) -> str:
    """Return a text as one line without control characters."""
    return to_printable(to_one_line(text), "\ufffd")


# --- its log -------------------------------------------------------------------------------


LOOK_SECONDS: Final = 0.5
"""Seconds between two looks at the log."""


def print_log(path: Path, lines: int, *, follows: bool) -> None:
    """Print the last lines of a log and the one before it; with `follows`, go on until Ctrl-C.

    What could control a terminal is replaced.
    """
    click.echo(f"{path}:", err=True)
    with ExitStack() as files:
        older = path.with_name(f"{path.name}.1")
        rotated = [files.enter_context(older.open("rb"))] if older.exists() else []
        reader = files.enter_context(LogReader(path))
        printed = chain(*rotated, reader.read_lines(also_begun=not follows))
        for line in deque(printed, maxlen=max(0, lines)):
            _print_line(line)
        if not path.exists():
            click.echo("There is no log yet; the daemon writes it.", err=True)
        while follows:
            time.sleep(LOOK_SECONDS)
            for line in reader.read_lines():
                _print_line(line)


class LogReader:
    """Reads each line of a log once, also while the daemon rotates it.

    The daemon renames the log and begins another (`rotate_log`). What it still writes to the
    renamed one meanwhile is read, too, as the last two files are kept open.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files: list[BinaryIO] = []

    def __enter__(self) -> Self:
        """Return the reader; leaving the block closes its files."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the files."""
        for file in self._files:
            file.close()

    def read_lines(self, *, also_begun: bool = False) -> Iterator[bytes]:
        """Yield the lines that were added since the last call; none if there is no log.

        `also_begun`: also a line that has no end yet; otherwise a later call gives it, whole.
        """
        self._open_newest()
        for file in self._files:
            if os.fstat(file.fileno()).st_size < file.tell():
                file.seek(0)  # somebody has emptied it
            while line := file.readline():
                if not line.endswith(b"\n") and not also_begun:
                    file.seek(-len(line), os.SEEK_CUR)
                    break
                yield line

    def _open_newest(self) -> None:
        """Open the file that has the log's name now, unless it is open."""
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return
        if self._files and os.path.sameopenfile(self._files[-1].fileno(), file.fileno()):
            file.close()
            return
        self._files.append(file)
        for old in self._files[:-2]:
            old.close()
        del self._files[:-2]


def _print_line(line: bytes) -> None:
    click.echo(to_printable(line.decode(errors="replace").rstrip("\n"), "\ufffd"))


# --- commands ------------------------------------------------------------------------------


MOST_LINES: Final = 1_000_000
"""Lines of the log that may be asked for: more than it ever has."""
_NOT_RUNNING: Final = 3
"""Exit status of `taskmem status` if no daemon runs, or it is starting or ending.

It is 1 if a process holds the home and does not answer.
"""


@click.command()
@click.option("--detach", is_flag=True, help="Run in the background.")
@click.argument("action", type=click.Choice(["stop", "restart"]), required=False)
def daemon(*, detach: bool, action: str | None) -> None:
    """Run the daemon of this home until SIGTERM; or stop or restart the one that runs."""
    if action == "restart":
        _require_settings()
    if action is not None:
        from openclaw_taskmem.cli.daemon_process import stop_daemon

        sentence, status = stop_daemon(find_home(os.environ))
        click.echo(sentence, err=status != 0)
        if action == "stop" or status != 0:
            sys.exit(status)
    if detach or action == "restart":
        with connect_or_start(find_home(os.environ), os.environ) as link:
            click.echo(f"A daemon runs as process {link.pid}.")
        _print_loss()
        return
    from openclaw_taskmem.daemon.startup import main as run_daemon

    sys.exit(run_daemon(os.environ))


def _print_loss() -> None:
    """Print what is gone from the database, and what to do."""
    from openclaw_taskmem.config import load_settings
    from openclaw_taskmem.losses import find_loss

    if (loss := find_loss(load_settings({**os.environ}))) is not None:
        click.echo(str(loss))


def _require_settings() -> None:
    """Refuse a restart whose new daemon would not start with these settings; stop nothing."""
    from openclaw_taskmem.config import load_settings
    from openclaw_taskmem.daemon.lock import find_holder
    from openclaw_taskmem.daemon.readers import choose_readers
    from openclaw_taskmem.domain.callers import split_names
    from openclaw_taskmem.plugin_host.plugin_host import PluginHost
    from openclaw_taskmem.settings_report import name_setting
    from taskmem_hookspecs.errors import TaskmemError

    home = find_home(os.environ)
    try:
        settings = load_settings({**os.environ})
        plugin_host = PluginHost(seconds=settings.hook_seconds, disabled=settings.disabled_plugins)
        setting = name_setting(settings, "wake_transport")
        plugin_host.find_wake_transports(split_names(settings.wake_transport), setting)
        choose_readers(settings.readers, plugin_host)
    except TaskmemError as error:
        runs = find_holder(home.lock) is not None
        kept = " The daemon that runs was not stopped; it goes on with its old settings."
        fail(f"{error}{kept if runs else ''}")


@click.command(name="log")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(0, MOST_LINES),
    default=50,
    show_default=True,
    help="Number of lines.",
)
@click.option("--follow", "follows", is_flag=True, help="Print new lines, until Ctrl-C.")
def log_(*, lines: int, follows: bool) -> None:
    """Print the end of the daemon's log."""
    print_log(find_home(os.environ).log, lines, follows=follows)


def _print_settings(answer: Mapping[str, Any]) -> None:
    """Print what `read_settings_list` returned; defaults are dimmed, and wrong values marked."""
    from openclaw_taskmem.cli.tables import Cell, Column, Paragraph, Table, make_cell, print_all

    wrong = answer["wrong"]
    rows: list[list[Cell]] = []
    for row in answer["settings"]:
        is_wrong = row["name"] in wrong
        style = "red" if is_wrong else "dim" if row["from"] == "default" else ""
        value = f"{row['value']} (wrong)" if is_wrong else row["value"] or "-"
        rows.append([Cell(text, style) for text in (row["name"], value, row["from"])])
    columns = [Column("setting", fixed=True), Column("value"), Column("from")]
    odd = (Paragraph(make_cell(Cell(sentence, "yellow"))) for sentence in answer["odd"])
    why = (Paragraph(make_cell(Cell(sentence, "red"))) for sentence in wrong.values())
    print_all((Table(columns, rows), *odd, *why))


@click.command()
@JSON_OPTION
def settings(*, as_json: bool) -> None:
    """Show every setting, its value, and where that is from."""
    from openclaw_taskmem.settings_report import read_settings_list
    from taskmem_hookspecs.errors import SettingsInvalid

    try:
        answer = read_settings_list(os.environ)
    except SettingsInvalid as error:
        fail(str(error))
    print_json(answer) if as_json else _print_settings(answer)
    sys.exit(1 if answer["wrong"] else 0)


@click.command()
def mcp() -> None:
    """Serve MCP over stdio; agents' hosts start this."""
    from openclaw_taskmem.cli.relay import run_relay

    sys.exit(run_relay(os.environ))


@click.command()
def hook() -> None:
    """Answer a hook of Claude Code or Codex; the host runs this."""
    from openclaw_taskmem.cli.hook import run_hook

    sys.exit(run_hook(os.environ))


@click.command()
@JSON_OPTION
def status(*, as_json: bool) -> None:
    """Show whether a daemon runs, and what it serves; start none."""
    home = find_home(os.environ)
    try:
        with connect(home) as link:
            # The daemon compares them with its own, since this would need a second to load what
            # reads them. Of variables that set nothing here, it is told the names alone.
            given = ((name, v) for name, v in os.environ.items() if v.strip())
            ours = ("TASKMEM_", "OPENCLAW_")
            told = {name: v if name.startswith(ours) else "set" for name, v in given}
            answer = link.call("status", {"environ": told})
    except LinkError as error:
        if error.name != "daemon_unavailable":
            raise
        from openclaw_taskmem.cli import daemon_process

        there = daemon_process.check_presence(home)
        if there.state == "silent":
            fail(daemon_process.explain_presence(there, home))
        if as_json:
            answer = {"home": str(home.folder), "state": there.state, "pid": there.pid}
            print_json({"running": False, **answer})
        else:
            click.echo(daemon_process.explain_presence(there, home))
        sys.exit(_NOT_RUNNING)
    print_json(answer) if as_json else print_status(answer)


@click.command()
@click.argument("tool")
@click.argument("arguments", default="{}")
def call(tool: str, arguments: str) -> None:
    """Call TOOL with a JSON object, and print its JSON answer.

    A refusal is printed as JSON, too; its sentence goes to the error output.
    """
    given: object = None
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError) as error:
        fail(f"The arguments are no JSON ({error}); give an object in quotes: '{{}}'.")
    if not isinstance(given, dict):
        fail("The arguments must be a JSON object, such as '{\"limit\": 5}'.")
    asked = build_tool_call(tool, cast("dict[str, object]", given), os.environ)
    try:
        print_json(call_daemon("call", **asked))
    except LinkError as error:
        print_json(error.answer)
        if asked["host"] is None:
            fail(f"{error}\nTools are called with: taskmem call TOOL '{{…}}'")
        raise


@click.command()
@JSON_OPTION
def tools(*, as_json: bool) -> None:
    """List the tools that an agent may call; --json adds their schemas."""
    schemas = call_daemon("tools", profile=os.environ.get("TASKMEM_TOOLS"))
    if as_json:
        print_json(schemas)
        return
    from openclaw_taskmem.cli.tables import Column, print_table

    print_table(
        [Column("tool", fixed=True, style="bold"), Column("what it does")],
        [[tool["name"], tool["description"]] for tool in schemas],
    )


@click.command()
@JSON_OPTION
def plugins(*, as_json: bool) -> None:
    """List plug-ins, with the state of each."""
    rows = call_daemon("plugins")
    if as_json:
        print_json(rows)
        return
    from openclaw_taskmem.cli.tables import Column, paint_state, print_table

    print_table(
        [
            Column("plug-in", fixed=True, style="bold"),
            Column("state", fixed=True),
            Column("from"),
            Column("hooks, or its last error"),
        ],
        [
            [
                plugin["name"],
                paint_state(plugin["state"]),
                plugin["distribution"],
                plugin["last_error"] or ", ".join(plugin["hooks"]),
            ]
            for plugin in rows
        ],
    )


@click.command()
@JSON_OPTION
@click.option("--no-proof", is_flag=True, help="Send no wake, so no model is asked.")
@click.option("-v", "--verbose", is_flag=True, help="Show what is well, too.")
def doctor(*, as_json: bool, no_proof: bool, verbose: bool) -> None:
    """Check every link to the agent, and say how to repair what fails.

    If a gateway is connected, a wake is sent through it, in a session of its own. That
    takes two short turns of your model.
    """
    from openclaw_taskmem.cli.doctor import print_row, run_doctor
    from taskmem_program.process_groups import leave_terminal

    leave_terminal()
    code = run_doctor(
        os.environ,
        click.echo,
        say_row=print_row if sys.stdout.isatty() else None,
        as_json=as_json,
        proof=not no_proof,
        verbose=verbose,
    )
    sys.stdout.flush()
    if threading.active_count() > 1:
        # The interpreter waits for a pool's threads, on which a check may hang.
        os._exit(code)
    sys.exit(code)


@click.command()
@click.option("--keep", is_flag=True, help="Keep the demo's home, and say how to look at it.")
def demo(*, keep: bool) -> None:
    """Show how it works, in under a minute; needs no key or gateway."""
    from openclaw_taskmem.cli.demo import run_demo

    sys.exit(run_demo(click.echo, keep=keep))


COMMANDS: Final = (daemon, log_, settings, mcp, hook, status, call, tools, plugins, doctor, demo)
