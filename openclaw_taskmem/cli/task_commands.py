"""Commands on tasks: see where they stand, and act on them in the user's place."""

from __future__ import annotations

import os
from typing import Any, Final

import click

from openclaw_taskmem.cli.command_output import (
    AS_JSON,
    ENDED_TOO,
    call_daemon,
    fail,
    print_json,
)
from openclaw_taskmem.home import find_home


def complete_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of the tasks in the overview, that begin so, for the shell."""
    del ctx, param
    from openclaw_taskmem.cli.client import LinkError, connect

    try:
        with connect(find_home(os.environ)) as link:
            sections = link.call("overview", {})["sections"]
    except (LinkError, OSError):
        return []
    names = (str(line["name"]) for lines in sections.values() for line in lines)
    return [name for name in names if name.casefold().startswith(incomplete.casefold())]


TASK: Final = click.argument("task", shell_complete=complete_names)
"""A task: its number in the last list, its id, a part of that, or its name."""


def print_overview(*, as_json: bool = False) -> None:
    """Print what needs the user, then what is at work: `taskmem` without a command."""
    found = call_daemon("overview", numbered=True)
    if as_json:
        print_json(found)
        return
    from openclaw_taskmem.cli import overview_text

    overview_text.print_overview(found)


@click.command()
def watch() -> None:
    """Show what needs you and what goes on, live, until Ctrl-C."""
    from openclaw_taskmem.cli.overview_text import watch_overview

    watch_overview(find_home(os.environ))


@click.command()
@click.option("--no-open", is_flag=True, help="Print the link only; open no browser.")
def ui(*, no_open: bool) -> None:
    """Show tasks, waits and health as pages in the browser, until Ctrl-C.

    The pages are served on this machine only, by a link that works once, and end after ten
    minutes in which nobody looks. Run by an agent, they can only be looked at.
    """
    import asyncio
    import webbrowser

    from openclaw_taskmem.cli.client import connect_or_start
    from openclaw_taskmem.cli.hosts import explain_not_a_person
    from openclaw_taskmem.cli.page_server import PageServer

    may_act = explain_not_a_person(os.environ) is None
    home = find_home(os.environ)
    connect_or_start(home, os.environ).close()
    server = PageServer(home, may_act=may_act)
    click.echo(f"Open this link; it works once:\n  {server.link}\nCtrl-C ends.")
    if not no_open and may_act:
        webbrowser.open(server.link)
    asyncio.run(server.serve())
    click.echo("Nobody looked any more; the pages are closed.")


@click.command(name="list")
@AS_JSON
@ENDED_TOO
@click.option("--implicit", is_flag=True, help="List only those that the daemon opened itself.")
@click.option("--limit", default=100, show_default=True, help="Maximum number of rows.")
def list_(*, as_json: bool, ended_too: bool, implicit: bool, limit: int) -> None:
    """List tasks: those that wait for somebody, then the latest first."""
    found = call_daemon("tasks", all=ended_too, implicit=implicit, limit=limit, numbered=True)
    if as_json:
        print_json(found)
        return
    from openclaw_taskmem.cli.overview_text import print_tasks

    print_tasks(found, limit)


def fetch_whole_record(any_id: str) -> Any:  # noqa: ANN401 - JSON
    """Return the daemon's view of an id, with all pages of a task's thread."""
    found = call_daemon("show", id=any_id)
    while (before := found.pop("earlier", None)) is not None:
        page = call_daemon("show", id=any_id, before=before)
        found["messages"][:0] = page["messages"]
        found["earlier"] = page["earlier"]
    return found


@click.command()
@click.argument("what", shell_complete=complete_names)
@AS_JSON
@click.option("--pictures", is_flag=True, help="Print where a wait's pictures are.")
def show(*, what: str, as_json: bool, pictures: bool) -> None:
    """Show a task, a wait or a wake, with all that belongs to it.

    WHAT is a task's number in the last list, its name or a part of that, or any id or its end.
    """
    from openclaw_taskmem.cli import detail_text

    kind, any_id = _find(what, ("task", "wait", "wake"))
    found = fetch_whole_record(any_id)
    if pictures and kind != "wait":
        raise click.UsageError(
            f"{any_id} is a {kind}, and pictures are kept of waits: see its "
            "waits with taskmem show, and give --pictures with the id of one."
        )
    if as_json:
        print_json(found)
    elif pictures:
        detail_text.print_pictures(found)
    else:
        detail_text.PRINTERS[kind](found)


@click.command()
@TASK
@click.argument("words", nargs=-1, required=True)
def answer(*, task: str, words: tuple[str, ...]) -> None:
    """Answer what TASK asks you; its agent is told your WORDS."""
    _act(task, "answer", " ".join(words))


@click.command()
@TASK
@click.argument("words", nargs=-1)
def approve(*, task: str, words: tuple[str, ...]) -> None:
    """Approve TASK, which is in your review; that completes it."""
    _act(task, "approve", " ".join(words))


@click.command(name="send-back")
@TASK
@click.argument("words", nargs=-1, required=True)
def send_back(*, task: str, words: tuple[str, ...]) -> None:
    """Send TASK back from your review, with WORDS on what is to be changed."""
    _act(task, "send_back", " ".join(words))


@click.command()
@TASK
def pause(*, task: str) -> None:
    """Set TASK aside; its agent is not told to go on any more."""
    _act(task, "pause")


@click.command()
@TASK
@click.argument("words", nargs=-1)
def resume(*, task: str, words: tuple[str, ...]) -> None:
    """Let TASK go on, also one that has failed; its agent is told your WORDS."""
    _act(task, "resume", " ".join(words))


@click.command()
@click.argument("what", shell_complete=complete_names)
@click.argument("reason", nargs=-1)
def cancel(*, what: str, reason: tuple[str, ...]) -> None:
    """Call off a task or a wait; what was done so far is kept."""
    _require_person()
    kind, any_id = _find(what, ("task", "wait"))
    action = "cancel_wait" if kind == "wait" else "cancel"
    click.echo(_request(any_id, action, " ".join(reason)))


@click.command()
@TASK
@click.option("--because", help="Your reason; it is stored with the task.")
def accept(*, task: str, because: str | None) -> None:
    """Complete TASK, although its completion was refused."""
    _act(task, "accept", because or "")


COMMANDS: Final = (
    *(watch, ui, list_, show),
    *(answer, approve, send_back, pause, resume, cancel, accept),
)


def _act(task: str, action: str, words: str = "") -> None:
    """Act on a task for the person at this terminal."""
    _require_person()
    click.echo(_request(_find(task, ("task",))[1], action, words))


def _require_person() -> None:
    """Refuse an agent, which has tools of its own for what it may do."""
    from openclaw_taskmem.cli.hosts import explain_not_a_person

    if why := explain_not_a_person(os.environ):
        fail(why)


def _request(any_id: str, action: str, words: str) -> str:
    return str(call_daemon("act", id=any_id, action=action, words=words)["message"])


def _find(words: str, kinds: tuple[str, ...]) -> tuple[str, str]:
    """Return the kind and the id of what a person's words mean."""
    found = call_daemon("find", words=words, kinds=[*kinds])
    return found["kind"], found["id"]
