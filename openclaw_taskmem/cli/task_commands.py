"""Commands on tasks: see where they stand, and act on them in the user's place."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from openclaw_taskmem.cli.command_output import (
    ENDED_OPTION,
    JSON_OPTION,
    YES_OPTION,
    call_daemon,
    fail,
    find_reference,
    print_json,
    require_person,
)
from openclaw_taskmem.domain.text.texts import to_one_line, to_printable
from openclaw_taskmem.home import HomeRefused, find_home

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def _complete_tasks(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the tasks in the overview whose name or id begins so, for the shell.

    Ids are completed, since a shell would read a name such as `x; rm y` as a command. Shells that
    show descriptions show the names.
    """
    del ctx, param
    from click.shell_completion import CompletionItem

    from openclaw_taskmem.cli.client import LinkError, connect

    try:
        with connect(find_home(os.environ)) as link:
            sections = link.call("overview", {})["sections"]
    except (LinkError, HomeRefused, OSError):
        return []
    begin = incomplete.casefold()
    return [
        CompletionItem(line["task_id"], help=to_printable(to_one_line(line["name"])))
        for lines in sections.values()
        for line in lines
        if line["name"].casefold().startswith(begin) or line["task_id"].startswith(begin)
    ]


TASK: Final = click.argument("task", shell_complete=_complete_tasks)
"""A task: its id, the beginning or end of that, its name, or a part of that."""


def print_overview(*, as_json: bool = False) -> None:
    """Print what needs the user, then what is at work: `taskmem` without a command."""
    found = call_daemon("overview")
    if as_json:
        print_json(found)
        return
    from openclaw_taskmem.cli import task_text

    task_text.print_overview(found)


@click.command()
def watch() -> None:
    """Show what needs you and what goes on, live, until Ctrl-C."""
    if not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        fail("This draws on a whole terminal, and here is none; print the overview with: taskmem")
    from openclaw_taskmem.cli.watch import watch_overview

    watch_overview(find_home(os.environ))


def _has_window_browser(environ: Mapping[str, str]) -> bool:
    """Tell whether a browser would open in a window: one in this terminal cannot show the pages."""
    named = any(environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"))
    return named or sys.platform == "darwin"


@click.command()
@click.option("--no-open", is_flag=True, help="Print the link only; open no browser.")
def ui(*, no_open: bool) -> None:
    """Show tasks, waits and health as pages in the browser, until Ctrl-C.

    The pages are served on this machine only, by a link that works once, and end after ten
    minutes in which nobody looks. Unless a person starts them in a terminal, they can only be
    looked at.
    """
    import asyncio
    import webbrowser
    from contextlib import ExitStack

    from openclaw_taskmem.cli.client import connect_or_start
    from openclaw_taskmem.cli.command_output import explain_not_a_person
    from openclaw_taskmem.cli.page_server import PageServer
    from openclaw_taskmem.domain.views.user_actions import READ_ONLY

    may_act = explain_not_a_person(os.environ) is None
    home = find_home(os.environ)
    connect_or_start(home, os.environ).close()
    server = PageServer(home, may_act=may_act)
    click.echo(f"Open this link; it works once:\n  {server.link}\nCtrl-C ends.")
    if not may_act:
        click.echo(READ_ONLY)

    with ExitStack() as stack:
        if not no_open and may_act and _has_window_browser(os.environ):
            webbrowser.open(stack.enter_context(server.write_redirect()).as_uri())
        asyncio.run(server.serve())
    click.echo("Nobody looked any more; the pages are closed.")


@click.command(name="list")
@JSON_OPTION
@ENDED_OPTION
@click.option("--implicit", is_flag=True, help="List only those that the daemon opened itself.")
@click.option("--limit", default=100, show_default=True, help="Maximum number of rows.")
def list_(*, as_json: bool, ended_too: bool, implicit: bool, limit: int) -> None:
    """List tasks: those that wait for somebody, then the latest first."""
    found = call_daemon("tasks", all=ended_too, implicit=implicit, limit=limit)
    if as_json:
        print_json(found)
        return
    from openclaw_taskmem.cli.task_text import ALL_ENDED, print_loss, print_tasks

    print_loss(found)
    if (
        not (found["tasks"] or ended_too)
        and call_daemon("tasks", all=True, implicit=implicit, limit=1)["tasks"]
    ):
        click.echo(f"{ALL_ENDED}{' --implicit' if implicit else ''}")
    else:
        print_tasks(found, limit)


@click.command()
@JSON_OPTION
@click.option("--limit", default=100, show_default=True, help="Maximum number of rows.")
def ready(*, as_json: bool, limit: int) -> None:
    """List the active tasks that no other task blocks, the latest first."""
    found = call_daemon("tasks", ready=True, limit=limit)
    if as_json:
        print_json(found)
        return
    from openclaw_taskmem.cli.task_text import NONE_READY, print_loss, print_tasks

    print_loss(found)
    if found["tasks"]:
        print_tasks(found, limit)
    else:
        click.echo(NONE_READY)


def iterate_thread(task_id: str, found: Any) -> Iterator[list[Any]]:  # noqa: ANN401 - JSON
    """Yield a task's messages by pages, oldest first, and hold one page at a time.

    The daemon gives the newest page first, so the places of the pages are asked for before.
    `found`: the daemon's answer to `show`, with the newest page.
    """
    places: list[int] = []
    earlier = found["earlier"]
    while earlier is not None:
        places.append(earlier)
        earlier = call_daemon("show", id=task_id, before=earlier)["earlier"]
    for place in reversed(places):
        yield call_daemon("show", id=task_id, before=place)["messages"]
    yield found["messages"]


@click.command()
@click.argument("what", metavar="TASK|WAIT|WAKE", shell_complete=_complete_tasks)
@JSON_OPTION
@click.option("--all", "whole", is_flag=True, help="Show the whole thread and all wakes of a task.")
@click.option("--pictures", is_flag=True, help="Print where a wait's pictures are.")
def show(*, what: str, as_json: bool, whole: bool, pictures: bool) -> None:
    """Show a task with the newest part of its thread, a wait or a wake.

    Name a task by its name or a part of that; each also by its id or the end of it.
    """
    kind, any_id = find_reference(what, ("task", "wait", "wake"))
    if pictures and kind != "wait":
        raise click.UsageError(
            f"{any_id} is a {kind}, and pictures are kept of waits: see its "
            "waits with taskmem show, and give --pictures with the id of one."
        )
    found = call_daemon("show", id=any_id)
    if as_json:
        if kind == "task":
            found["messages"] = [each for page in iterate_thread(any_id, found) for each in page]
            del found["earlier"]
        print_json(found)
        return
    from openclaw_taskmem.cli import task_text

    if pictures:
        task_text.print_pictures(found)
    elif kind == "task":
        task_text.print_task(found, iterate_thread(any_id, found) if whole else None)
    else:
        task_text.print_other(kind, found)


@click.command()
@TASK
@click.argument("words", nargs=-1)
@YES_OPTION
def answer(*, task: str, words: tuple[str, ...], yes: bool) -> None:
    """Answer what TASK asks you; its agent is told your WORDS.

    You are shown the question, and asked whether to send WORDS to it; without WORDS, for them.
    """
    require_person()
    task_id, reply = find_reference(task)[1], " ".join(words)
    line = call_daemon("show", id=task_id)["line"]
    if line["question_id"] and not (reply and yes):
        choices = f" ({', '.join(line['options'])})" if line["options"] else ""
        click.echo(to_printable(f"{line['name']} asks: {line['question']}{choices}"))
        if reply:
            click.confirm("Send your answer to that?", abort=True)
    if line["question_id"]:
        reply = reply or click.prompt("Your answer")
    click.echo(_request(task_id, "answer", reply, question_id=line["question_id"]))


@click.command()
@TASK
@click.argument("words", nargs=-1)
@YES_OPTION
def approve(*, task: str, words: tuple[str, ...], yes: bool) -> None:
    """Approve TASK, which is in your review; that completes it.

    You are shown what it made, and asked. If a file is replaced meanwhile, it is not approved.
    """
    from openclaw_taskmem.cli import task_text

    require_person()
    task_id = find_reference(task)[1]
    found = call_daemon("show", id=task_id)
    if "approve" in found["line"]["actions"]:
        task_text.print_review(found)
        if not yes:
            _confirm(found, "approve")
    files_id = found["line"]["files_id"]
    click.echo(_request(task_id, "approve", " ".join(words), files_id=files_id))


@click.command(name="send-back")
@TASK
@click.argument("words", nargs=-1)
def send_back(*, task: str, words: tuple[str, ...]) -> None:
    """Send TASK back from your review, with WORDS on what is to be changed.

    Without WORDS you are asked for them.
    """
    require_person()
    _act(task, "send_back", " ".join(words) or click.prompt("What is to be changed"))


@click.command()
@TASK
@click.argument("reason", nargs=-1)
@YES_OPTION
def pause(*, task: str, reason: tuple[str, ...], yes: bool) -> None:
    """Set TASK aside; its agent is not told to go on any more."""
    _act(task, "pause", " ".join(reason), asks=not yes)


@click.command()
@TASK
@YES_OPTION
def reset(*, task: str, yes: bool) -> None:
    """Take TASK from the agent that works on it; it goes on from its last step."""
    _act(task, "reset", asks=not yes)


@click.command()
@TASK
@click.argument("words", nargs=-1)
def resume(*, task: str, words: tuple[str, ...]) -> None:
    """Let TASK go on, also one that has failed; its agent is told your WORDS."""
    _act(task, "resume", " ".join(words))


@click.command()
@click.argument("what", metavar="TASK|WAIT", shell_complete=_complete_tasks)
@click.argument("reason", nargs=-1)
@YES_OPTION
def cancel(*, what: str, reason: tuple[str, ...], yes: bool) -> None:
    """Call off a task or a wait; what was done so far is kept."""
    require_person()
    kind, any_id = find_reference(what, ("task", "wait"))
    action = "cancel_wait" if kind == "wait" else "cancel"
    if not yes:
        _confirm(call_daemon("show", id=any_id), action)
    click.echo(_request(any_id, action, " ".join(reason)))


@click.command(name="seen")
@TASK
def leave_failed(*, task: str) -> None:
    """Leave TASK, which has failed, as it is; it does not need you any more."""
    _act(task, "seen")


@click.command()
@TASK
@click.option("--because", help="Your reason; it is stored with the task.")
@YES_OPTION
def accept(*, task: str, because: str | None, yes: bool) -> None:
    """Complete TASK, although its completion was refused."""
    _act(task, "accept", because or "", asks=not yes)


COMMANDS: Final = (
    watch,
    ui,
    list_,
    ready,
    show,
    answer,
    approve,
    send_back,
    pause,
    resume,
    reset,
    cancel,
    leave_failed,
    accept,
)


def _act(task: str, action: str, words: str = "", *, asks: bool = False) -> None:
    """Act on a task for the person at this terminal; `asks`: they are asked once more."""
    require_person()
    task_id = find_reference(task)[1]
    if asks:
        _confirm(call_daemon("show", id=task_id), action)
    click.echo(_request(task_id, action, words))


def _confirm(found: Any, action: str) -> None:  # noqa: ANN401 - JSON
    """Say what an act on a task or wait would bring about, and ask; not if it is not allowed."""
    from openclaw_taskmem.domain.views.user_actions import describe_wait_cancelling

    effect = None
    if action != "cancel_wait":
        effect = found["line"]["effects"].get(action)
    elif found["status"] == "watching":
        effect = describe_wait_cancelling(found["target"])
    if effect:
        about = f"{to_one_line(found['name'])}: " if "name" in found else ""
        click.confirm(to_printable(f"{about}{effect} Go on?"), abort=True)


def _request(any_id: str, action: str, words: str, **shown: object) -> str:
    """Ask the daemon to act; return what it says. `shown`: what the person was shown."""
    return str(call_daemon("act", id=any_id, action=action, words=words, **shown)["message"])
