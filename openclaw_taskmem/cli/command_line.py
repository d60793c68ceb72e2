"""The command line: a thin client of the daemon, for people and scripts."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn, cast

import click

from openclaw_taskmem import __version__
from openclaw_taskmem.cli import detail_text, status_text
from openclaw_taskmem.cli.client import LinkError, connect, connect_or_start
from openclaw_taskmem.cli.detail_text import format_line
from openclaw_taskmem.domain.text_safety import escape_hidden
from openclaw_taskmem.domain.texts import to_printable
from openclaw_taskmem.home import HomeRefused, find_home

AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
ENDED_TOO = click.option("--all", "ended_too", is_flag=True, help="Include ended ones.")

INTERRUPTED = 130
"""Exit status after Ctrl-C."""
NOT_RUNNING = 3
"""Exit status of `taskmem status` if no daemon runs, or it is starting or ending.

It is 1 if a process holds the home and does not answer.
"""


class _ErrorReportingGroup(click.Group):
    """Reports errors as a sentence and an exit status; includes the commands of plug-ins."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        from openclaw_taskmem.cli import commands

        return sorted({*super().list_commands(ctx), *commands.list_command_names()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; plug-ins cannot replace the built-in ones."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        from openclaw_taskmem.cli import commands

        return commands.find_plugin_command(cmd_name)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's own
        """Run a command; print errors without a traceback."""
        try:
            return super().invoke(ctx)
        except (LinkError, HomeRefused) as error:
            _fail(str(error))
        except BrokenPipeError:
            raise
        except OSError as error:
            if error.filename is None:
                raise
            _fail(f"{error.strerror}: {error.filename}; see whose file that is.")
        except RecursionError:
            _fail("That is nested without end; flatten it and call again.")
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)


@click.group(cls=_ErrorReportingGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="taskmem")
def cli() -> None:
    """Memory, patience and proof for AI agents that work for hours."""


def main() -> None:
    """Run a command by click; `cli.main` calls this for all but the relay and the daemon."""
    cli(prog_name="taskmem")


def _fail(sentence: str, status: int = 1) -> NoReturn:
    click.echo(to_printable(sentence), err=True)
    sys.exit(status)


def _call_daemon(method: str, **params: object) -> Any:  # noqa: ANN401 - JSON
    """Call the daemon; start it if it is not running."""
    with connect_or_start(find_home(os.environ), os.environ) as link:
        return link.call(method, params)


def _print_json(document: object) -> None:
    text = json.dumps(document, ensure_ascii=False, indent=2)
    click.echo(escape_hidden(text))


def _print_table(rows: list[list[str]]) -> None:
    """Print a table with columns as wide as needed."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        click.echo("  ".join(cells).rstrip())


@cli.command()
@click.option("--detach", is_flag=True, help="Run in the background.")
@click.argument("action", type=click.Choice(["stop"]), required=False)
def daemon(*, detach: bool, action: str | None) -> None:
    """Run the daemon of this home until SIGTERM; `daemon stop` stops it."""
    if action == "stop":
        from openclaw_taskmem.cli.daemon_stop import stop_daemon

        sentence, status = stop_daemon(find_home(os.environ))
        click.echo(sentence, err=status != 0)
        sys.exit(status)
    if detach:
        with connect_or_start(find_home(os.environ), os.environ) as link:
            click.echo(f"A daemon runs as process {link.pid}.")
        return
    from openclaw_taskmem.daemon.startup import main as run_daemon

    sys.exit(run_daemon(os.environ))


@cli.command()
def mcp() -> None:
    """Serve MCP over stdio; agents' hosts start this."""
    from openclaw_taskmem.cli.relay import run_relay

    sys.exit(run_relay(os.environ))


@cli.command()
@AS_JSON
def status(*, as_json: bool) -> None:
    """Show whether a daemon runs, and what it serves; start none."""
    home = find_home(os.environ)
    try:
        with connect(home) as link:
            found = link.call("status", {})
    except LinkError as error:
        if error.name != "daemon_unavailable":
            raise
        from openclaw_taskmem.cli import daemon_presence

        there = daemon_presence.check_presence(home)
        if there.state == "silent":
            _fail(daemon_presence.explain_presence(there, home))
        if as_json:
            _print_json({"running": False, "home": str(home.folder), **there._asdict()})
        else:
            click.echo(daemon_presence.explain_presence(there, home))
        sys.exit(NOT_RUNNING)
    from openclaw_taskmem.cli.settings_differences import describe_differences

    found["differences"] = describe_differences(found, os.environ)
    _print_json(found) if as_json else status_text.print_status(found)


@cli.command()
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
        _fail(f"The arguments are no JSON ({error}); give an object in quotes: '{{}}'.")
    if not isinstance(given, dict):
        _fail("The arguments must be a JSON object, such as '{\"limit\": 5}'.")
    from openclaw_taskmem.cli.hosts import build_tool_call

    asked = build_tool_call(tool, cast("dict[str, object]", given), os.environ)
    try:
        _print_json(_call_daemon("call", **asked))
    except LinkError as error:
        _print_json(error.answer)
        if asked["host"] is None:
            _fail(f"{error}\nTools are called with: taskmem call TOOL '{{…}}'")
        raise


@cli.command()
@AS_JSON
def tools(*, as_json: bool) -> None:
    """List the tools that an agent may call; --json adds their schemas."""
    found = _call_daemon("tools", profile=os.environ.get("TASKMEM_TOOLS"))
    if as_json:
        _print_json(found)
        return
    _print_table([[tool["name"], format_line(tool["description"])] for tool in found])


@cli.command(name="list")
@AS_JSON
@ENDED_TOO
@click.option("--implicit", is_flag=True, help="Include tasks that the daemon opened by itself.")
@click.option("--limit", default=100, show_default=True, help="Maximum number of rows.")
def list_(*, as_json: bool, ended_too: bool, implicit: bool, limit: int) -> None:
    """List tasks: those that wait for somebody, then the latest first."""
    from openclaw_taskmem.cli import task_list

    wanted = "implicit" if implicit else "all" if ended_too else "active"
    given = {"status": wanted, "limit": limit}
    found = _call_daemon("call", tool="task_list", arguments=given)
    if not implicit:
        waits = _call_daemon("call", tool="task_list", arguments={**given, "status": "waiting"})
        found = task_list.merge_waiting_first(waits, found, limit)
    if as_json:
        _print_json(found)
        return
    _print_list(task_list.format_task_rows(found), limit, found["message"])


def _fetch_whole_record(any_id: str) -> Any:  # noqa: ANN401 - JSON
    """Return the daemon's view of an id, with all pages of a task's thread."""
    found = _call_daemon("show", id=any_id)
    while (before := found.pop("earlier", None)) is not None:
        page = _call_daemon("show", id=any_id, before=before)
        found["messages"][:0] = page["messages"]
        found["earlier"] = page["earlier"]
    return found


@cli.command()
@click.argument("any_id", metavar="ID")
@AS_JSON
@click.option("--pictures", is_flag=True, help="Print where a wait's pictures are.")
def show(*, any_id: str, as_json: bool, pictures: bool) -> None:
    """Show a task, a wait or a wake, by its ID."""
    found = _fetch_whole_record(any_id)
    if pictures and "history" not in found:
        kind = "wake" if "wake_id" in found else "task"
        raise click.UsageError(
            f"{any_id} is a {kind}, and pictures are kept of waits: see its "
            "waits with taskmem show, and give --pictures with the id of one."
        )
    if as_json:
        _print_json(found)
    elif pictures:
        rows = detail_text.format_picture_rows(found)
        _print_table(rows) if rows else click.echo(detail_text.explain_no_pictures(found))
    elif "wake_id" in found:
        click.echo(detail_text.format_wake(found))
    else:
        click.echo(
            detail_text.format_wait(found) if "history" in found else detail_text.format_task(found)
        )


@cli.command()
@click.argument("task")
@click.option("--because", help="Your reason; it is stored with the task.")
def accept(*, task: str, because: str | None) -> None:
    """Complete TASK, whose completion was refused. For persons only."""
    from openclaw_taskmem.cli.hosts import explain_not_a_person

    if why := explain_not_a_person(os.environ):
        _fail(why)
    click.echo(_call_daemon("accept", id=task, because=because)["message"])


def _print_list(rows: list[list[str]], limit: int, none: str) -> None:
    """Print the rows of a list, and say if there may be more."""
    _print_table(rows) if rows else click.echo(none)
    if len(rows) == limit:
        click.echo(f"At most {limit:,} are shown; --limit shows more.", err=True)


def _add_list_command(name: str, help_text: str, row: Callable[[Any], list[str]]) -> None:
    """Add a command that prints a list from the daemon."""

    @AS_JSON
    @ENDED_TOO
    @click.option("--limit", default=1000, help="Maximum number of rows.")
    def show_list(*, as_json: bool, ended_too: bool, limit: int) -> None:
        found = cast("list[Any]", _call_daemon(name, all=ended_too, limit=limit))
        if as_json:
            _print_json(found)
            return
        rows = [row(item) for item in found]
        _print_list(rows, limit, f"No {name}.")

    cli.command(name=name, help=help_text)(show_list)


@cli.command()
@AS_JSON
@ENDED_TOO
@click.option("--limit", default=1000, help="Maximum number of rows.")
@click.option("--follow", "follows", is_flag=True, help="Print changes as they happen.")
def waits(*, as_json: bool, ended_too: bool, limit: int, follows: bool) -> None:
    """List waits, with what was last seen of each target."""
    from openclaw_taskmem.cli import follow_waits

    if follows:
        changes = follow_waits.WaitChangeReporter(_print_line, as_json=as_json, ended_too=ended_too)
        with connect_or_start(find_home(os.environ), os.environ) as link:
            follow_waits.report_all_changes(link, changes, limit=limit)
    found = cast("list[Any]", _call_daemon("waits", all=ended_too, limit=limit))
    if as_json:
        _print_json(found)
        return
    _print_table([*map(follow_waits.format_wait_row, found)]) if found else click.echo("No waits.")


@cli.command()
@click.argument("wait_id", metavar="ID")
def wait(*, wait_id: str) -> None:
    """Block until a wait has ended, and print its result.

    Exit status: 0 the condition holds, 1 the target is lost or the wait was cancelled,
    124 the time is up, 2 there is no such wait, 3 no daemon can say.
    """
    from openclaw_taskmem.cli.wait_command import UNKNOWN, UNTOLD, run_wait

    sentence, status = run_wait(find_home(os.environ), os.environ, wait_id)
    click.echo(escape_hidden(sentence), err=status in (UNKNOWN, UNTOLD))
    sys.exit(status)


def _print_line(text: str) -> None:
    """Print a line without control characters, in full length."""
    click.echo(escape_hidden(text))


_add_list_command(
    "wakes",
    "List wakes that are due, or sent and not yet acknowledged.",
    detail_text.format_wake_row,
)
_add_list_command(
    "runs",
    "List runs: who works on which task.",
    lambda run: [
        # The run's own id is left out: no command takes it, and names need the room.
        run["task_id"],
        f"{run['state']} ({run['why']})" if run["why"] else run["state"],
        format_line((run["owner"] or run)["role"], 20),
        format_line(run["session_key"], 30),
        f"{run['calls']} {'call' if run['calls'] == 1 else 'calls'}",
        format_line(run["task_name"]),
    ],
)
_add_list_command(
    "events",
    "Show the event log, newest last.",
    lambda event: [
        event["at"],
        event["kind"],
        event["task_id"] or event["wait_id"] or "-",
        format_line(json.dumps(event["data"], ensure_ascii=False)),
    ],
)


@cli.command()
@AS_JSON
def plugins(*, as_json: bool) -> None:
    """List plug-ins, with the state of each."""
    found = _call_daemon("plugins")
    if as_json:
        _print_json(found)
        return
    _print_table(
        [
            [
                plugin["name"],
                plugin["state"],
                plugin["distribution"] or "-",
                format_line(plugin["last_error"] or ", ".join(plugin["hooks"])),
            ]
            for plugin in found
        ]
    )


@cli.command()
@AS_JSON
@click.option("--no-proof", is_flag=True, help="Send no wake, so no model is asked.")
def doctor(*, as_json: bool, no_proof: bool) -> None:
    """Check every link to the agent, and say how to repair what fails.

    If a gateway is connected, a wake is sent through it, in a session of its own. That
    takes two short turns of your model.
    """
    from openclaw_taskmem.cli.doctor import run_doctor

    sys.exit(run_doctor(os.environ, click.echo, as_json=as_json, proof=not no_proof))


@cli.command()
def demo() -> None:
    """Show how it works, in under a minute; needs no key or gateway."""
    from openclaw_taskmem.cli.demo import run_demo

    sys.exit(run_demo(click.echo))
