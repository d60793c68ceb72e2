"""The commands `taskmem record` and `taskmem open`: switch the recording, and look at it."""

from __future__ import annotations

import json
import os
import time
import webbrowser
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import click

if TYPE_CHECKING:
    from taskmem_hookspecs.command_line import CommandLine
    from taskmem_recorder.reports import RecorderReport
    from taskmem_recorder.state import Exclusion, ExclusionKind, RecordingState

_MOST_LOOKS: Final = 200
"""How often it is looked whether the daemon has said what it makes of a switch."""
_LOOK_SECONDS: Final = 0.1
_KINDS: Final = ("application", "title", "window", "time")
_ALWAYS_HIDDEN: Final = (
    "private-browsing windows, password managers, password prompts, and the locked screen"
)


@click.group("record", context_settings={"help_option_names": ["-h", "--help"]})
def record() -> None:
    """Record this screen, so that memory_recall finds what was done on it.

    It is off until you switch it on, and stays on this machine. Only a person may switch it.
    """


@record.command("on")
def switch_on() -> None:
    """Record this screen from now on."""
    from taskmem_recorder import state as states
    from taskmem_recorder.displays import ONLY_X11, has_other_screen
    from taskmem_recorder.reports import describe_start

    if has_other_screen(os.environ):
        raise click.ClickException(f"{ONLY_X11}, and run this there.")
    display = os.environ.get("DISPLAY") or None

    def change(state: RecordingState) -> RecordingState:
        on = states.switch_on(state, _get_now())
        return on.model_copy(update={"display": display or state.display})

    state = _change_state(change, on_damage=_refuse_damaged_state)
    _get_command_line().call_daemon("status")
    click.echo(describe_start(state, _await_report(state), _get_now().astimezone()))
    click.echo(
        f"Pictures, titles and text are stored in {_find_folder()}, which only you can read."
    )
    click.echo(f"Left out are {_ALWAYS_HIDDEN}, and what you name with: taskmem record exclude")
    click.echo("Stop with: taskmem record off (or pause 30m). See: taskmem record status")


@record.command("off")
def switch_off() -> None:
    """Record nothing more; what was recorded stays."""
    from taskmem_recorder import state as states

    _change_state(states.switch_off, on_damage=click.echo)
    click.echo("Nothing is recorded any more. What was recorded stays; remove it with:")
    click.echo("  taskmem record forget all")


@record.command()
@click.argument("length", nargs=-1, required=True)
def pause(length: tuple[str, ...]) -> None:
    """Record nothing for a LENGTH of time, such as 30m or 2h."""
    until = _get_now() + _parse_length(length)
    state = _change_state(lambda state: state.model_copy(update={"paused_until": until}))
    if state.on:
        click.echo(f"Nothing is recorded until {until.astimezone():%Y-%m-%d %H:%M}.")
    else:
        click.echo("Nothing is recorded: it is off.")


@record.command()
def resume() -> None:
    """End a pause."""
    state = _change_state(lambda state: state.model_copy(update={"paused_until": None}))
    click.echo(
        "This screen is recorded."
        if state.on
        else "Nothing is recorded: it is off. Switch it on with: taskmem record on"
    )


@record.command()
@click.argument("kind", type=click.Choice(_KINDS), required=False)
@click.argument("what", nargs=-1)
@click.option("--remove", is_flag=True, help="Record it again.")
def exclude(kind: str | None, what: tuple[str, ...], *, remove: bool) -> None:
    """Leave out an application, windows by a part of their title, a window, or a time of the day.

    \b
    taskmem record exclude application signal
    taskmem record exclude title "my bank"
    taskmem record exclude window 0x1a00003
    taskmem record exclude time 20:00-08:00

    Without arguments: list what is left out.
    """  # noqa: D301 - click's sign that the lines stay as they are
    from taskmem_recorder import state as states

    if kind is None:
        _print_exclusions(_load_state())
        return
    try:
        exclusion = _parse_exclusion(states.ExclusionKind(kind), " ".join(what), remove=remove)
        change = states.drop_exclusion if remove else states.add_exclusion
        _change_state(lambda state: change(state, exclusion))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if remove:
        click.echo(f"No longer left out: {exclusion}.")
        return
    click.echo(f"Left out from now on: {exclusion}.")
    click.echo('What was recorded before stays; remove it with: taskmem record forget "last 1h"')


@record.command()
@click.argument("what", nargs=-1, required=True)
def forget(what: tuple[str, ...]) -> None:
    """Remove what was recorded in the last WHAT, such as "last 10 minutes", or all."""
    from taskmem_hookspecs import TaskmemError
    from taskmem_recorder.state import StateUnreadable, load_state, lock_state, save_state
    from taskmem_recorder.store import make_store

    _get_command_line().require_person()
    everything = " ".join(what).casefold() in ("all", "everything")
    now = _get_now()
    since = None if everything else now - _parse_length(what)
    home = _find_home()
    with _explain_errors(), lock_state(home):
        store = make_store(home)
        try:
            gone = store.forget(since, None)
        except TaskmemError as error:
            raise click.ClickException(str(error)) from error
        finally:
            store.close()
            # Last, since a full disk may have room only now. It drops a moment that is being read.
            with suppress(StateUnreadable):  # nothing is recorded by such a state
                save_state(home, load_state(home).model_copy(update={"forgot_at": now}))
    moments, pictures = _count(gone.moments, "moment"), _count(gone.pictures, "picture")
    click.echo(f"Removed for good: {moments} and {pictures}.")
    if gone.databases:
        click.echo(
            f"Also removed: {_count(gone.databases, 'damaged database')}, with everything that was "
            "recorded in it; its moments cannot be counted."
        )


@record.command()
@click.argument("switch", type=click.Choice(["on", "off"]))
def mark(switch: str) -> None:
    """Show a mark on the screen while it is recorded, or none."""
    _change_state(lambda state: state.model_copy(update={"shows_mark": switch == "on"}))
    click.echo(
        "A mark shows on the screen while it is recorded."
        if switch == "on"
        else "No mark shows; taskmem status and the pages say when the screen is recorded."
    )


@record.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(*, as_json: bool) -> None:
    """Show whether the screen is recorded, what that costs, and what is left out."""
    from taskmem_hookspecs import TaskmemError
    from taskmem_recorder import reports
    from taskmem_recorder.store import make_store

    state, home = _load_state(), _find_home()
    report = reports.load_report(home)
    now = _get_now().astimezone()
    runs = _get_command_line().is_daemon_running()
    activity = reports.describe_activity(state, report, now)
    store = make_store(home)
    try:
        size = store.measure()
    except TaskmemError as error:
        raise click.ClickException(str(error)) from error
    finally:
        store.close()
    if as_json:
        facts = {
            "on": state.on,
            "activity": activity if runs else None,
            "daemon": runs,
            "state": state.model_dump(mode="json"),
            "report": None if report is None else report.model_dump(mode="json"),
            "moments": size.moments,
            "bytes": size.bytes,
        }
        click.echo(json.dumps(facts, indent=2))
        return
    if activity is None:
        click.echo("The screen is not recorded; switch it on with: taskmem record on")
    elif not runs:
        click.echo("It is on, but no daemon runs, which records: start it with: taskmem daemon")
    else:
        click.echo(activity if activity.endswith(".") else f"{activity}.")
    if state.on and report is not None:
        click.echo(reports.describe_costs(report))
    kept = f"{_count(size.moments, 'moment')}, {size.bytes / 1e6:.1f} MB"
    since = f", since {reports.format_time(size.oldest, now)}" if size.oldest else ""
    click.echo(f"Stored in {_find_folder()}: {kept}{since}.")
    for name in size.damaged:
        click.echo(f"A damaged database was set aside as {name}; what it held is not found.")
    _print_exclusions(state)


@click.command("open")
@click.argument("url")
@click.option("--no-open", is_flag=True, help="Print the page's address; open no browser.")
def open_page(url: str, *, no_open: bool) -> None:
    """Show in the browser what the screen showed, at URL, which memory_recall gives.

    URL is a video_url such as memories://recordings/2026-02-10/segment-447#t=142; the page opens
    at its place, t in seconds. The page is a file of this machine; the next one, or
    taskmem record forget, removes it. Only a person may open it.
    """
    from taskmem_hookspecs import TaskmemError
    from taskmem_recorder.store import make_store
    from taskmem_recorder.strip import AddressUnclear, find_moment, parse_address, write_strip

    _get_command_line().require_person()
    try:
        address = parse_address(url)
    except AddressUnclear as error:
        raise click.UsageError(str(error)) from None
    store = make_store(_find_home())
    try:
        moments = store.list_moments(segment=address.segment)
    except TaskmemError as error:
        raise click.ClickException(str(error)) from error
    finally:
        store.close()
    if not moments or abs((moments[0].at.date() - address.day).days) > 1:
        raise click.ClickException(
            f"Segment {address.segment} of {address.day} is not in the recordings; it was "
            "forgotten, or dropped when it was too old. Search again with memory_recall."
        )
    asked = find_moment(moments, address.seconds)
    path = write_strip(store.folder, moments, asked, None)
    page = f"{path.as_uri()}#moment-{asked.id}"
    pictures = sum(each.picture is not None for each in moments)
    noun = "moment" if len(moments) == 1 else "moments"
    click.echo(f"{len(moments)} {noun}, {pictures} with a picture: {page}")
    if not no_open:
        webbrowser.open(page)


def _await_report(state: RecordingState) -> RecorderReport | None:
    """Return what the daemon says of a recording that is on; None: nothing in time."""
    from taskmem_recorder.reports import load_report

    for _ in range(_MOST_LOOKS):
        report = load_report(_find_home())
        is_new = report is not None and (state.on_since is None or report.at >= state.on_since)
        if report is not None and is_new and (report.resting or report.display):
            return report
        time.sleep(_LOOK_SECONDS)
    return None


def _print_exclusions(state: RecordingState) -> None:
    click.echo(f"Always left out: {_ALWAYS_HIDDEN}.")
    for each in state.exclusions:
        click.echo(f"Left out: {each}")


def _parse_exclusion(kind: ExclusionKind, words: str, *, remove: bool) -> Exclusion:
    """Return the exclusion that a person means; `remove`: also one that is no longer taken."""
    from taskmem_recorder import state as states

    try:
        return states.parse_exclusion(kind, words)
    except ValueError:
        what = " ".join(words.split())
        stored = [
            each for each in _load_state().exclusions if (each.kind, each.what) == (kind, what)
        ]
        if remove and stored:
            return stored[0]
        raise


def _refuse_damaged_state(explanation: str) -> None:
    raise click.ClickException(
        f"{explanation}\nNothing is recorded yet. Once all is left out that shall be, run again: "
        "taskmem record on"
    )


def _change_state(
    change: Callable[[RecordingState], RecordingState],
    *,
    on_damage: Callable[[str], None] | None = None,
) -> RecordingState:
    """Change the state for the person at this terminal.

    A damaged one is kept and replaced by one that is off and leaves out nothing of the user's;
    `on_damage` is called with what to say of that, and may raise. None: it is an error instead.
    """
    from taskmem_recorder import state as states

    _get_command_line().require_person()
    home = _find_home()
    with _explain_errors(), states.lock_state(home):
        try:
            state = states.load_state(home)
        except states.StateUnreadable:
            if on_damage is None:
                raise
            kept = states.replace_damaged_state(home, _get_now())
            state = states.RecordingState()
            on_damage(
                "The settings of the recording could not be read, so nothing that you left out is "
                f"left out any more. The file is kept as {kept}, which may show what it was. Name "
                "it again, for example with: taskmem record exclude title Bank"
            )
        states.save_state(home, changed := change(state))
    return changed


def _load_state() -> RecordingState:
    from taskmem_recorder.state import load_state

    with _explain_errors():
        return load_state(_find_home())


@contextmanager
def _explain_errors() -> Generator[None]:
    from taskmem_recorder.state import StateUnreadable

    try:
        yield
    except StateUnreadable as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(
            f"{error.filename or _find_folder()} cannot be written ({error.strerror}); make room "
            "or see whose file that is, and run this again."
        ) from error


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _parse_length(words: tuple[str, ...]) -> timedelta:
    from taskmem_recorder.state import parse_duration

    try:
        return parse_duration(" ".join(words))
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _get_command_line() -> CommandLine:
    return cast("CommandLine", click.get_current_context().find_root().obj)


def _find_home() -> Path:
    return Path(os.environ["TASKMEM_HOME"])


def _find_folder() -> Path:
    from taskmem_recorder.state import FOLDER

    return _find_home() / FOLDER


def _get_now() -> datetime:
    return datetime.now(UTC)
