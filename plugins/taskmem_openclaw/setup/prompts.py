"""Run `taskmem setup openclaw`: print, ask, and apply the plans in order."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Generator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final, NamedTuple, NoReturn

import click

from taskmem_openclaw import configuration, plugin_socket
from taskmem_openclaw.json_values import find_value
from taskmem_openclaw.setup import openclaw, package_files, plan
from taskmem_openclaw.setup import openclaw as apply
from taskmem_openclaw.setup.config_edits import ConfigChange, Document, apply_changes, is_same_json
from taskmem_openclaw.setup.openclaw import SetupPlan, SetupRecord
from taskmem_program import OWN_PROGRAM
from taskmem_setup import NotOurs, describe_data, find_home

_LOADS_SECONDS: Final = 30.0
"""Time limit for a running gateway to load the plug-in before the check. Seconds."""
_COMMENTS: Final = "OpenClaw writes its configuration as plain JSON: comments in it are lost."
_GEMINI_KEYS: Final = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
"""Variables in which Gemini looks for its key, in its order."""
_PATIENCE: Final = "OpenClaw's own command is at work; on a busy machine it takes minutes:"
_PATCH: Final = "PATCH is the change above; OpenClaw adds to it, under meta, when it was made."
_NEXT_STEP: Final = (
    "Start a new session in OpenClaw, and ask for something that takes long; taskmem list shows it."
)
_NOT_LOADED: Final = (
    f"It has not within {_LOADS_SECONDS:.0f} s, so what follows may be of the plug-in "
    "as it was; run: openclaw gateway restart, then: taskmem doctor"
)
_TICK_SECONDS: Final = 1.0
_MARGIN_BLANKS: Final = 12
"""Blanks before the lines about a change, which stand below its name."""
_LEAST_WIDTH: Final = 20
"""Characters beside these blanks below which lines are left to the terminal."""


class SetupChoice(NamedTuple):
    """The command's options."""

    everything: bool = False
    dry_run: bool = False
    proof: bool = True
    bundle: bool = False


def set_up(choice: SetupChoice) -> None:
    """Set up OpenClaw, then run the doctor as proof."""
    with _explain_errors():
        host, record, now = _find_openclaw()
        if other := configuration.find_other_config(host.home, host.config):
            raise openclaw.OpenClawSetupFailed(
                f"{host.home} is the home of another OpenClaw ({other}), and two "
                "cannot share one; set TASKMEM_HOME to another folder for this one."
            )
        desired = _build_desired_state(now, record)
        planned = (plan.plan_bundle if choice.bundle else plan.plan_plugin)(now, desired)
        asked = _choose_changes(now, planned.changes, choice)
        reads = record.gemini or bool(_choose_changes(now, _offer_gemini(record, choice), choice))
        what = package_files.find_bundle() if choice.bundle else package_files.find_plugin()
        move = apply.plan_setup(host, record, now, what, asked, gemini=reads)
        owner = None if choice.bundle else package_files.find_recall_owner(now, None)
        for note in [
            *planned.notes,
            *([package_files.describe_recall_owner(owner)] if owner else []),
        ]:
            _say(f"note: {note}")
        if choice.dry_run:
            _print_plan(move)
            return
        live, earlier = False, None
        if move.is_noop:
            click.echo("Everything is in place; nothing was changed.")
        else:
            if apply.needs_reload(move):
                earlier = asyncio.run(plugin_socket.read_boot(os.environ))
            live = _apply_setup(move)
            if live:
                click.echo("Done, and the running gateway takes it up.")
            elif move.install is not None:
                click.echo("Done; the gateway takes it up when it starts.")
            else:
                click.echo("Done.")
    _prove_setup(choice, move, live=live, earlier=earlier)


def _prove_setup(choice: SetupChoice, move: SetupPlan, *, live: bool, earlier: str | None) -> None:
    """Run the doctor, or say how to; then say what to do next.

    `live`: a gateway takes up the plug-in, and the one with boot id `earlier` ends.
    """
    if choice.proof and move.install is not None and not live:
        click.echo("Start the gateway, and let it prove itself: taskmem doctor")
    elif choice.proof:
        loads = live or earlier is not None
        _run_proof(loads=loads and not choice.bundle, earlier=earlier)
    if not move.is_noop:
        _say(_NEXT_STEP)


def _apply_setup(move: SetupPlan) -> bool:
    """Apply a plan; return whether a running gateway takes up the plug-in."""
    if not move.host.is_plain_json and not is_same_json(move.now, move.wanted):
        _say(_COMMENTS)
    _ask_for_patience(move)
    with _explain_interruption(move):
        return apply.apply_setup(move)


def remove_setup(*, dry_run: bool) -> None:
    """Remove every trace except the data."""
    with _explain_errors():
        host, record, now = _find_openclaw(takes_out=True)
        desired = _build_desired_state(now, record)
        move = apply.plan_removal(host, record, now, desired)
        copies = package_files.find_skill_copies(host.config, now)
        _note_left(move)
        if dry_run:
            _print_plan(move)
            for each in copies:
                click.echo(f"would remove the skill {each.folder}")
            return
        if move.is_noop:
            click.echo("OpenClaw's configuration has no trace of taskmem.")
        else:
            _ask_for_patience(move)
            with _explain_interruption(move):
                apply.apply_removal(move)
            click.echo("Removed from OpenClaw.")
        for copy in copies:
            kept = copy.remove()
            for line in (f"Removed the skill {copy.folder}.", *kept):
                click.echo(line)
        home = find_value(now, plan.HOME) or find_home()
        for line in describe_data(str(home)):
            click.echo(line)


def _find_openclaw(*, takes_out: bool = False) -> tuple[openclaw.OpenClaw, SetupRecord, Document]:
    """Return OpenClaw, our record and its configuration; `takes_out`: its command may be gone."""
    try:
        host = openclaw.find_openclaw(os.environ, find_home())
        click.echo(f"OpenClaw {host.version}, configured by {host.config}")
    except openclaw.OpenClawMissing:
        if not takes_out:
            raise
        config = configuration.find_config_file(os.environ)
        host = openclaw.ConfigAlone("openclaw", "", config, find_home(), os.environ)
        click.echo(f"OpenClaw's command is not here; this is about its configuration {config}")
    host = host._replace(at_work=_show_progress)
    return host, apply.load_record(host.home, host.config), host.read()


def _build_desired_state(now: Document, record: SetupRecord) -> plan.DesiredState:
    state = configuration.find_state_folder(os.environ)
    return package_files.build_desired_state(now, record.folder, state)


def _offer_gemini(record: SetupRecord, choice: SetupChoice) -> list[ConfigChange]:
    """Offer to use a Gemini key from the environment, unless that is decided already."""
    variable = next((v for v in _GEMINI_KEYS if os.environ.get(v, "").strip()), None)
    if variable is None or record.gemini or package_files.has_named_readers():
        return []
    return [plan.build_gemini_change(variable, bundle=choice.bundle)]


def _choose_changes(
    now: Document, changes: list[ConfigChange], choice: SetupChoice
) -> list[ConfigChange]:
    """Return the needed and allowed changes; print the others as left out."""
    chosen: list[ConfigChange] = []
    can_ask = _is_terminal() and not choice.everything
    for change in changes:
        reached = apply_changes(now, chosen)
        if change.needs and apply_changes(reached, [change.needs]) != reached:
            _print_change("left out", change)
            _say(f"(it needs {change.needs.what})", _MARGIN_BLANKS)
        elif change.needed or (choice.everything and not change.by_hand):
            _print_change("needed" if change.needed else "allowed", change)
            chosen.append(change)
        elif can_ask:
            _print_change("asked", change)
            advice = "yes" if change.advised else "no"
            _say(f"recommended: {advice}, for {change.because}", _MARGIN_BLANKS)
            if choice.dry_run:
                _say("(set-up will ask; this shows what is recommended)", _MARGIN_BLANKS)
            if change.advised if choice.dry_run else _confirm(change):
                chosen.append(change)
        else:
            _print_change("left out", change)
            how = change.by_hand or "--yes allows it"
            advice = ", as is recommended" if change.advised else ""
            _say(f"(to have it{advice}: {how})", _MARGIN_BLANKS)
    return chosen


def _confirm(change: ConfigChange) -> bool:
    """Ask whether to allow a change; without another answer, what is recommended is done."""
    return click.confirm("  Allow this?", default=change.advised)


def _say(text: str, blanks: int = 0) -> None:
    """Print a text after some blanks; a terminal gets lines that end between words."""
    width = shutil.get_terminal_size().columns - 1 if sys.stdout.isatty() else 0
    margin = " " * blanks
    lines = [margin + text]
    if width > blanks + _LEAST_WIDTH:
        lines = textwrap.wrap(
            text,
            width,
            initial_indent=margin,
            subsequent_indent=margin,
            break_long_words=False,
            break_on_hyphens=False,
        )
    click.echo("\n".join(lines))


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _print_change(state: str, change: ConfigChange) -> None:
    """Print everything there is to know about a change."""
    click.echo(f"  {state:<8}  {change.what}")
    lines = (("gives", change.gives), ("without it,", change.without))
    for label, text in (*lines, ("leaves this machine:", change.leaves)):
        if text:
            _say(f"{label} {text}", _MARGIN_BLANKS)


def _note_left(move: SetupPlan) -> None:
    """Print what is left for want of OpenClaw's command, and how it is taken out."""
    if not isinstance(move.host, openclaw.ConfigAlone):
        return
    for name in move.uninstall:
        command = " ".join(("openclaw", *openclaw.build_uninstall_arguments(name)))
        _say(
            f"note: OpenClaw's own list of plug-ins keeps {name}, and only its command takes it "
            f"out. If you install OpenClaw again, run: {command}"
        )
    if configuration.has_includes(move.now, openclaw.SECTIONS):
        _say(
            f"note: what {move.host.config} includes is read by OpenClaw's command alone. Take "
            "each entry that names taskmem out of those files by hand."
        )


def _ask_for_patience(move: SetupPlan) -> None:
    if apply.list_commands(move):
        _say(_PATIENCE)


def _print_plan(move: SetupPlan) -> None:
    """Print what would be done."""
    if move.is_noop:
        click.echo("Nothing would be changed.")
        return
    if text := apply.format_difference(move):
        click.echo(text)
    if not move.host.is_plain_json:
        _say(_COMMENTS)
    lines = apply.list_commands(move)
    for line in lines:
        click.echo(f"would run: {line}")
    if any(line.endswith("PATCH") for line in lines):
        _say(_PATCH)


def _run_proof(*, loads: bool, earlier: str | None) -> None:
    """Run the doctor and fail if it fails.

    `loads`: a gateway is loading the plug-in, and the one with boot id `earlier` ends.

    Raises:
        ClickException: The doctor found a fault, or a person stopped it.
    """
    try:
        healthy = _is_healthy(loads=loads, earlier=earlier)
    except KeyboardInterrupt:
        _fail("It is set up; only the proof was stopped: taskmem doctor gives it.")
    if not healthy:
        _fail("It is set up, but not all is well; see above, then taskmem doctor.")


def _is_healthy(*, loads: bool, earlier: str | None) -> bool:
    """Run the doctor, with `loads` after a gateway has loaded the plug-in; return its verdict.

    If the gateway takes longer than `_LOADS_SECONDS`, print that and run it all the same.
    """
    if loads:
        version = package_files.read_version()
        with _show_progress("the gateway loads the plug-in"):
            loaded = asyncio.run(
                plugin_socket.wait_for_version(os.environ, version, _LOADS_SECONDS, earlier)
            )
        if not loaded:
            _say(_NOT_LOADED)
    click.echo("The proof:")
    command = (*OWN_PROGRAM, "doctor")
    done = subprocess.run(command, stdin=subprocess.DEVNULL, check=False)  # noqa: S603 - ours
    return done.returncode == 0


@contextmanager
def _show_progress(what: str) -> Generator[None]:
    """Print a step and how long it took; at a terminal also the seconds so far."""
    click.echo(f"  {what} …", nl=False)
    began, over = time.perf_counter(), Event()

    def tick() -> None:
        while not over.wait(_TICK_SECONDS):
            seconds = time.perf_counter() - began
            click.echo(f"\r  {what} … {seconds:.0f} s", nl=False)

    ticking = Thread(target=tick, daemon=True)
    if sys.stdout.isatty():
        ticking.start()
    try:
        yield
    except BaseException:
        over.set()
        click.echo()
        raise
    over.set()
    if ticking.ident is not None:
        ticking.join()
        click.echo(f"\r  {what} …", nl=False)
    click.echo(f" {time.perf_counter() - began:.0f} s")


@contextmanager
def _explain_interruption(move: SetupPlan) -> Generator[None]:
    """Print how to continue if a plan ended half-way.

    Raises:
        OpenClawSetupFailed: A person stopped it.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise openclaw.OpenClawSetupFailed(
            "It was stopped half-way; run the same command again to finish it"
            + (", --remove to take it out." if apply.is_unfinished(move) else ".")
        ) from None
    except (openclaw.OpenClawSetupFailed, OSError):
        if apply.is_unfinished(move):
            click.echo(
                "It is half done: the same command finishes it, --remove takes it out.", err=True
            )
        raise


@contextmanager
def _explain_errors() -> Generator[None]:
    """Turn errors into one-sentence messages of the command line."""
    try:
        yield
    except (openclaw.OpenClawSetupFailed, plan.SetupRefused, NotOurs) as error:
        _fail(str(error))
    except (KeyboardInterrupt, click.Abort):
        click.echo()
        _fail("It was stopped before anything was changed.")
    except OSError as error:
        _fail(
            f"{error.filename or find_home()} cannot be written ({error.strerror}); "
            "make room or see whose file that is, and run this again."
        )


def _fail(sentence: str) -> NoReturn:
    raise click.ClickException(sentence)
