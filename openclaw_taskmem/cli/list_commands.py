"""Commands that list waits, wakes, runs and events, or follow them."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast

import click

from openclaw_taskmem.cli.client import LinkError, connect_or_start
from openclaw_taskmem.cli.command_output import (
    ENDED_OPTION,
    JSON_OPTION,
    build_tool_call,
    call_daemon,
    exit_on_signals,
    find_reference,
    get_now,
    note_limit,
    print_json,
    print_line,
)
from openclaw_taskmem.domain.text.texts import escape_hidden
from openclaw_taskmem.home import find_home

USUAL_ROWS: Final = 1000
"""Rows of a list, unless `--limit` names another number."""
MOST_ROWS: Final = 1_000_000
"""Rows for which the daemon may be asked."""
LIMIT: Final = click.option("--limit", default=USUAL_ROWS, help="Maximum number of rows.")


def print_list(name: str, found: list[Any], limit: int) -> None:
    """Print what the daemon listed of waits, wakes, runs or events, and say if there may be more.

    `limit`: how many were asked for.
    """
    if not found:
        click.echo(f"No {name}.")
        return
    from openclaw_taskmem.cli.tables import Column, print_table

    now, (titles, format_row) = get_now(), _LISTS[name]
    columns = [Column(title.rstrip("!"), fixed=title.endswith("!")) for title in titles]
    print_table(columns, [format_row(item, now) for item in found])
    if len(found) == limit:
        note_limit(limit)


def _list_rows(name: str, *, as_json: bool, ended_too: bool, limit: int) -> None:
    """Print what the daemon lists: what is open, or with `ended_too` all of it."""
    found = cast("list[Any]", call_daemon(name, all=ended_too, limit=limit))
    if as_json:
        print_json(found)
    elif not (found or ended_too) and call_daemon(name, all=True, limit=1):
        click.echo(f"No {name} are open. To see those that have ended: taskmem {name} --all")
    else:
        print_list(name, found, limit)


@click.command()
@JSON_OPTION
@ENDED_OPTION
@LIMIT
@click.option("--follow", "follows", is_flag=True, help="Print changes as they happen.")
def waits(*, as_json: bool, ended_too: bool, limit: int, follows: bool) -> None:
    """List waits, with what was last seen of each target."""
    if follows:
        from openclaw_taskmem.cli import wait_command

        say = print_line if as_json else _print_wrapped
        changes = wait_command.WaitChangeReporter(say, as_json=as_json, ended_too=ended_too)
        with connect_or_start(find_home(os.environ), os.environ) as link:
            if sys.stderr.isatty():
                click.echo("Each change of a wait is printed here; Ctrl-C ends.", err=True)
            wait_command.report_all_changes(link, changes, limit=limit)
    _list_rows("waits", as_json=as_json, ended_too=ended_too, limit=limit)


def _print_wrapped(line: str) -> None:
    """Print a line without control characters, wrapped between words where there is a terminal."""
    from openclaw_taskmem.cli.tables import Cell, Paragraph, print_all

    print_all([Paragraph(Cell(escape_hidden(line)))])


def _format_wait(wait: Any, now: datetime) -> Sequence[Any]:  # noqa: ANN401 - JSON
    from openclaw_taskmem.cli.tables import format_age, format_short_id, paint_state

    return (
        format_short_id(wait["wait_id"]),
        paint_state(wait["status"]),
        format_age(wait["created_at"], now),
        wait["target"],
        wait["wake_when"],
        wait["last_observation"],
    )


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="ID | TARGET [CONDITION]")
@click.option(
    "--also",
    multiple=True,
    metavar="'TARGET CONDITION'",
    help="One more; the first that holds ends the wait.",
)
@click.option("--all", "needs_all", is_flag=True, help="End only when all have held.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds until the time is up; else 30 days.",
)
def wait(
    *, words: Sequence[str], also: Sequence[str], needs_all: bool, timeout: float | None
) -> None:
    """Block until a wait has ended, and print its result.

    With a target it begins a wait, which ends with this command:
    taskmem wait path:/srv/out.tar appears && deploy

    Exit status: 0 the condition holds, 1 the target is lost, or the wait was cancelled or
    refused, 124 the time is up, 2 there is no such wait, or the call is wrong, 3 no daemon can say.
    """
    from openclaw_taskmem.cli.wait_command import UNKNOWN_STATUS, UNTOLD_STATUS, run_wait

    text = " ".join(words)
    is_begun = ":" in text or " " in text
    if not is_begun and (also or needs_all or timeout is not None):
        raise click.UsageError("--also, --all and --timeout are for a target, not for an ID.")
    begun: dict[str, Any] = {}
    try:
        if is_begun:
            begun = _begin_wait(words, also, needs_all=needs_all, timeout=timeout)
            _say_begun(begun, is_one=not also, needs_all=needs_all)
        wait_id = begun.get("wait_id", text)
        sentence, status = run_wait(find_home(os.environ), os.environ, wait_id)
    except (KeyboardInterrupt, SystemExit):
        if begun:
            given = {"wait_id": begun["wait_id"]}
            call_daemon("call", **build_tool_call("wait_cancel", given, os.environ))
        raise
    click.echo(escape_hidden(sentence), err=status in (UNKNOWN_STATUS, UNTOLD_STATUS))
    sys.exit(status)


def _begin_wait(
    words: Sequence[str], also: Sequence[str], *, needs_all: bool, timeout: float | None
) -> dict[str, Any]:
    """Begin a wait that signals end, too, and return the answer.

    Raises:
        LinkError: It is refused; the sentence lists the forms that its target has.
    """
    given = {
        **_read_awaited(words),
        "also": [_read_awaited((each,)) for each in also] or None,
        "all": needs_all,
        "timeout": timeout or 30 * 86_400.0,
    }
    exit_on_signals()
    try:
        answer = call_daemon("call", **build_tool_call("smart_wait", given, os.environ))
    except LinkError as error:
        forms = error.answer.get("forms")
        listed = f" The forms: {', '.join(forms)}." if forms else ""
        if forms and len(words) == 1:
            listed += f" If its name has blanks: taskmem wait {shlex.quote(words[0])} CONDITION."
        raise LinkError(error.name, f"{error}{listed}", error.answer) from error
    return cast("dict[str, Any]", answer)


def _say_begun(begun: Mapping[str, Any], *, is_one: bool, needs_all: bool) -> None:
    """Say how the condition of a wait was read."""
    sides = [(is_one and side["form"]) or side["side"] for side in begun["understood"]]
    read = (" and " if needs_all and not is_one else " or ").join(sides)
    read = f"{begun['target']} {read}" if is_one else read
    click.echo(escape_hidden(f"Waits until {read}; Ctrl-C ends it."), err=True)


def _read_awaited(words: Sequence[str]) -> dict[str, str]:
    """Split arguments into a target and its condition, and make the path of a file absolute.

    A target with blanks in its name is an argument of its own.
    """
    from openclaw_taskmem.domain.conditions.targets import find_only_condition

    text = " ".join(words)
    target, condition = words[0], " ".join(words[1:])
    only = find_only_condition(text)
    if only is not None:
        target, condition = text.removesuffix(f" {only}"), ""
    elif not condition:
        target, _, condition = text.partition(" ")
        if not condition:
            raise click.UsageError("say what to wait for, such as: taskmem wait path:/a/b appears")
    for scheme in ("path:", "pty:file:"):
        path = target.removeprefix(scheme)
        if path not in ("", target):
            target = scheme + os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111
    return {"target": target, "wake_when": condition} if condition else {"target": target}


@click.command()
@JSON_OPTION
@ENDED_OPTION
@LIMIT
def wakes(*, as_json: bool, ended_too: bool, limit: int) -> None:
    """List wakes that are due, or sent and not yet acknowledged."""
    _list_rows("wakes", as_json=as_json, ended_too=ended_too, limit=limit)


def _format_wake(wake: Any, now: datetime) -> Sequence[Any]:  # noqa: ANN401 - JSON
    from openclaw_taskmem.cli.tables import format_age, format_short_id, paint_state
    from openclaw_taskmem.cli.task_text import count_tries, describe_wake_text, get_wake_state

    state = get_wake_state(wake)
    says = (
        wake.get("held")
        if state == "kept"
        else wake["last_error"] or describe_wake_text(wake["text"])
    )
    return (
        format_short_id(wake["wake_id"]),
        paint_state(state),
        format_age(wake["created_at"], now),
        count_tries(wake),
        says,
    )


@click.command()
@JSON_OPTION
@ENDED_OPTION
@LIMIT
def runs(*, as_json: bool, ended_too: bool, limit: int) -> None:
    """List runs: who works on which task."""
    _list_rows("runs", as_json=as_json, ended_too=ended_too, limit=limit)


def _format_run(run: Any, now: datetime) -> Sequence[Any]:  # noqa: ANN401 - JSON
    from openclaw_taskmem.cli.tables import Cell, format_age, paint_state

    why = f" ({run['why'].replace('_', ' ')})" if run["why"] else ""
    return (
        run["task_name"],
        Cell(f"{run['state']}{why}", paint_state(run["state"]).style),
        (run["owner"] or run)["role"],
        run["session_key"],
        format_age(run["created_at"], now),
        str(run["calls"]),
    )


@click.command()
@click.argument("task", required=False)
@JSON_OPTION
@click.option("--all", "whole", is_flag=True, help="Show the whole log.")
@click.option("--limit", type=int, help="Maximum number of rows.")
def events(*, task: str | None, as_json: bool, whole: bool, limit: int | None) -> None:
    """Show the event log, newest last; with TASK, what happened to that one."""
    limit = (MOST_ROWS if whole else USUAL_ROWS) if limit is None else limit
    task_id = None if task is None else find_reference(task)[1]
    found = cast("list[Any]", call_daemon("events", task_id=task_id, limit=limit))
    print_json(found) if as_json else print_list("events", found, limit)


def _format_event(event: Any, now: datetime) -> Sequence[Any]:  # noqa: ANN401 - JSON
    from openclaw_taskmem.cli.tables import format_local_time, format_short_id
    from openclaw_taskmem.cli.task_text import describe_event_kind

    subject = event["task_id"] or event["wait_id"]
    return (
        format_local_time(event["at"], now),
        None if subject is None else format_short_id(subject),
        event["says"] or describe_event_kind(event["kind"]),
    )


@click.command()
@JSON_OPTION
def stats(*, as_json: bool) -> None:
    """Show how the tasks of this home went: completions, steps, resumes and times."""
    found = call_daemon("stats")
    if as_json:
        print_json(found)
    else:
        print_metrics(found)


def print_metrics(found: Mapping[str, Any]) -> None:
    """Print the figures of `taskmem stats`."""
    from openclaw_taskmem.cli.tables import Column, print_table

    if not found["tasks"]:
        click.echo("There are no tasks yet.")
        return
    states = ("completed", "failed", "cancelled", "open")
    counted = ", ".join(f"{found[state]:,} {state}" for state in states if found[state])
    took = found["mean_seconds"]
    rows = [
        ("tasks", f"{found['tasks']:,}: {counted}"),
        ("steps", f"{found['mean_steps']:g} a task"),
        ("resumes", f"{found['mean_resumes']:g} a task: claimed again, as after an interruption"),
        ("time", "-" if took is None else f"{took / 60:,.1f} min to a completion"),
    ]
    print_table([Column("figure", fixed=True), Column("in the mean")], rows)


_LISTS: Final[Mapping[str, tuple[Sequence[str], Callable[[Any, datetime], Sequence[Any]]]]] = {
    "waits": (("id!", "state!", "age!", "target", "wake when", "last seen"), _format_wait),
    "wakes": (
        ("id!", "state!", "age!", "tries!", "what it says, or why it is not sent"),
        _format_wake,
    ),
    "runs": (("task", "state", "who", "session", "age!", "calls!"), _format_run),
    "events": (("when!", "of!", "what happened"), _format_event),
}
"""Titles of the columns of each list, and what makes its rows; `!`: the column never wraps."""
COMMANDS: Final = (waits, wait, wakes, runs, events, stats)
