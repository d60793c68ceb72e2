"""What `taskmem setup openclaw` says and asks, and the order in which it works."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, NamedTuple, NoReturn

import click

from taskmem_openclaw import door
from taskmem_openclaw.setup import keeping, moving, openclaw, plan, shipped, skills
from taskmem_openclaw.setup.edits import Change
from taskmem_openclaw.setup.moving import Move
from taskmem_openclaw.setup.patches import Document, same

_LOADS_SECONDS: Final = 30.0
"""How long a running gateway is given to load the plug-in before it is looked at."""
_COMMENTS: Final = (
    "OpenClaw writes its configuration as plain JSON: comments in it are lost."
)
_GEMINI_KEYS: Final = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
_GEMINI: Final = (
    "There is a key for Gemini, and it is not used: waits in plain English are read by "
    'OpenClaw\'s own model. To use it, write readers = "gemini,host" into config.toml.'
)
_PATIENCE: Final = "OpenClaw's own command is at work; it takes up to a minute."


class Choice(NamedTuple):
    """What the person asked for."""

    everything: bool = False
    dry_run: bool = False
    proof: bool = True
    bundle: bool = False


def move_in(choice: Choice) -> None:
    """Set OpenClaw up, and prove it."""
    with sentences():
        host, record, now = _found()
        if other := keeping.another(host.home, host.config):
            raise openclaw.Failed(
                f"{host.home} is the home of another OpenClaw ({other}), and two "
                "cannot share one; set TASKMEM_HOME to another folder for this one."
            )
        wishes = shipped.wishes(now, record.folder)
        planned = (plan.for_bundle if choice.bundle else plan.for_plugin)(now, wishes)
        asked = _chosen(planned.changes, choice)
        what = shipped.bundle() if choice.bundle else shipped.plugin()
        move = moving.moving_in(host, record, now, what, asked)
        has_key = any(os.environ.get(variable) for variable in _GEMINI_KEYS)
        for note in [*planned.notes, *([_GEMINI] if has_key else [])]:
            click.echo(f"note: {note}")
        if choice.dry_run:
            _show(move)
            return
        live = False
        if move.nothing:
            click.echo("Everything is in place; nothing was changed.")
        else:
            click.echo(_PATIENCE)
            if not host.plain and not same(move.now, move.wanted):
                click.echo(_COMMENTS)
            with _half_done(move):
                live = moving.move_in(move)
            if live:
                click.echo("Done, and the running gateway takes it up.")
            elif move.install is not None:
                click.echo("Done; the gateway takes it up when it starts.")
            else:
                click.echo("Done.")
    if choice.proof and move.install is not None and not live:
        click.echo("Start the gateway, and let it prove itself: taskmem doctor")
    elif choice.proof:
        _prove(live=live and not choice.bundle)


def move_back(*, dry_run: bool) -> None:
    """Undo the last set-up."""
    with sentences():
        host, record, now = _found()
        move = moving.moving_back(host, record, now)
        for path in move.kept:
            click.echo(f"left alone: {path} was changed since by somebody else")
        if dry_run:
            _show(move)
            return
        click.echo(_PATIENCE)
        with _half_done(move):
            moving.move_back(move)
        click.echo("The last set-up is undone.")


def move_out(*, dry_run: bool) -> None:
    """Take out every trace but the data."""
    with sentences():
        host, record, now = _found()
        wishes = shipped.wishes(now, record.folder)
        move = moving.moving_out(host, record, now, wishes)
        copies = skills.copies(host.config, now)
        if dry_run:
            _show(move)
            for each in copies:
                click.echo(f"would remove the skill {each.folder}")
            return
        if move.nothing:
            click.echo("OpenClaw's configuration has no trace of taskmem.")
        else:
            click.echo(_PATIENCE)
            with _half_done(move):
                moving.move_out(move)
            click.echo("Removed from OpenClaw.")
        for copy in copies:
            click.echo(copy.remove())
        click.echo(f"Left as it is: the data in {shipped.home()}.")


def _found() -> tuple[openclaw.OpenClaw, keeping.Record, Document]:
    host = openclaw.find(os.environ, shipped.home())
    click.echo(f"OpenClaw {host.version}, configured by {host.config}")
    return host, keeping.load(host.home, host.config), host.read()


def _chosen(changes: list[Change], choice: Choice) -> list[Change]:
    """Return what is needed and what the person allows, and say what is left out."""
    chosen: list[Change] = []
    can_ask = sys.stdin.isatty() and sys.stdout.isatty()
    can_ask = can_ask and not (choice.dry_run or choice.everything)
    for change in changes:
        words = f"{change.what}: {change.reason}"
        if change.needed or (choice.everything and not change.opt_in):
            click.echo(f"  {'needed' if change.needed else 'allowed'}  {words}")
            chosen.append(change)
        elif can_ask:
            click.echo(f"  {words}.")
            if click.confirm("  Allow this?", default=False):
                chosen.append(change)
        elif change.opt_in:
            setting = ".".join(change.edits[0].path)
            click.echo(f"  left out  {words} (openclaw config set {setting} true)")
        else:
            click.echo(f"  left out  {words} (--yes allows it)")
    return chosen


def _show(move: Move) -> None:
    """Say what would be done."""
    if move.nothing:
        click.echo("Nothing would be changed.")
        return
    if text := moving.difference(move):
        click.echo(text)
    if not move.host.plain:
        click.echo(_COMMENTS)
    for line in moving.commands(move):
        click.echo(f"would run: {line}")


def _prove(*, live: bool) -> None:
    """Let the doctor look, whose status decides.

    `live`: the gateway is just loading the plug-in.

    Raises:
        SystemExit: Something is not well.
    """
    click.echo("The proof:")
    if live:
        asyncio.run(door.serves(os.environ, shipped.version(), _LOADS_SECONDS))
    done = subprocess.run(
        (sys.executable, "-m", "openclaw_taskmem", "doctor"),
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode != 0:
        _fail("It is set up, but not all is well; see above, then taskmem doctor.")


@contextmanager
def _half_done(move: Move) -> Generator[None]:
    """Say so when a move ended half-way."""
    try:
        yield
    except (openclaw.Failed, OSError, KeyboardInterrupt):
        record = keeping.load(move.host.home, move.host.config)
        if record.steps and not record.steps[-1].done:
            click.echo(
                "It is half done: the same command finishes it, --undo takes it back.",
                err=True,
            )
        raise


@contextmanager
def sentences() -> Generator[None]:
    """Turn what went wrong into a sentence."""
    try:
        yield
    except (openclaw.Failed, plan.Refused, skills.NotOurs) as error:
        _fail(str(error))
    except OSError as error:
        _fail(
            f"{error.filename or shipped.home()} cannot be written ({error.strerror}); "
            "make room or see whose file that is, and run this again."
        )


def _fail(sentence: str) -> NoReturn:
    raise click.ClickException(sentence)
