"""The switch of the recorder: whether it records, until when it is paused, what it leaves out.

The command line writes it, the daemon reads it. Pure, except what reads and writes its file.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime, time, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final, Self

from pydantic import ValidationError, model_validator

from taskmem_hookspecs.model import Instant, Value
from taskmem_program.files import sync_folder

FOLDER: Final = "recordings"
"""Folder in the home with everything that was recorded, and with this file."""
STATE_FILE: Final = "state.json"
_DAMAGED_PREFIX: Final = "state.damaged-"
"""First part of the names of damaged files of the switch that were kept."""
_UNITS: Final = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86400),
}
_LONGEST_DURATION: Final = timedelta(days=3650)


class StateUnreadable(Exception):
    """The file of the switch is damaged; nothing is recorded until it is written anew."""


class ExclusionKind(StrEnum):
    """Kinds of things that a user leaves out of the recording."""

    APPLICATION = "application"
    TITLE = "title"
    WINDOW = "window"
    TIME = "time"


class Exclusion(Value):
    """Something that is not recorded."""

    kind: ExclusionKind
    what: str
    """Name of the application, part of the title, id of the window (0x…), or HH:MM-HH:MM."""

    @model_validator(mode="after")
    def _check_window(self) -> Self:
        if self.kind is ExclusionKind.WINDOW:
            int(self.what, 0)
        return self

    def __str__(self) -> str:
        return f"{self.kind} {self.what}"


class RecordingState(Value):
    """The switches of the user."""

    on: bool = False
    on_since: Instant | None = None
    """When it was switched on; None: it is off."""
    paused_until: Instant | None = None
    """When a pause ends; None: there is none."""
    shows_mark: bool = True
    """True if a mark on the screen shows that it records."""
    display: str | None = None
    """Display of the terminal in which it was switched on; None: it had none."""
    exclusions: tuple[Exclusion, ...] = ()
    forgot_at: Instant | None = None
    """When a part was last forgotten, so that nothing seen before is stored after; None: never."""

    def is_paused(self, now: datetime) -> bool:
        """Return whether it is paused at an instant."""
        return self.paused_until is not None and now < self.paused_until


def switch_on(state: RecordingState, now: datetime) -> RecordingState:
    """Return the state of a recorder that records from now on; a pause ends."""
    since = state.on_since if state.on else now
    return state.model_copy(update={"on": True, "on_since": since, "paused_until": None})


def switch_off(state: RecordingState) -> RecordingState:
    """Return the state of a recorder that is off; exclusions stay."""
    return state.model_copy(update={"on": False, "on_since": None, "paused_until": None})


def add_exclusion(state: RecordingState, exclusion: Exclusion) -> RecordingState:
    """Return the state with one more exclusion; the same one counts once."""
    others = tuple(each for each in state.exclusions if each != exclusion)
    return state.model_copy(update={"exclusions": (*others, exclusion)})


def drop_exclusion(state: RecordingState, exclusion: Exclusion) -> RecordingState:
    """Return the state without an exclusion; case does not count.

    Raises:
        ValueError: There is none such; the message says so.
    """
    others = tuple(
        each
        for each in state.exclusions
        if each.kind != exclusion.kind or each.what.casefold() != exclusion.what.casefold()
    )
    if others == state.exclusions:
        raise ValueError(f"{exclusion} is not left out; taskmem record exclude lists what is.")
    return state.model_copy(update={"exclusions": others})


def parse_exclusion(kind: ExclusionKind, words: str) -> Exclusion:
    """Return the exclusion that a person means.

    Raises:
        ValueError: It is none; the message says what is taken.
    """
    what = " ".join(words.split())
    if not what:
        raise ValueError("Say what to exclude, for example: taskmem record exclude title Bank")
    if kind is ExclusionKind.WINDOW:
        try:
            what = f"0x{int(what, 0):x}"
        except ValueError:
            raise ValueError(
                f"{what!r} is no id of a window; it is a number such as 0x1a00003, which "
                "xwininfo shows."
            ) from None
    if kind is ExclusionKind.TIME:
        start, end = parse_hours(what)
        what = f"{start:%H:%M}-{end:%H:%M}"
    return Exclusion(kind=kind, what=what)


def parse_hours(words: str) -> tuple[time, time]:
    """Return the beginning and the end of hours of the day, such as 22:00-07:00; no seconds count.

    Raises:
        ValueError: They are no hours, or begin and end at the same minute.
    """
    start, _, end = words.partition("-")
    try:
        hours = _parse_minute(start), _parse_minute(end)
    except ValueError:
        hours = (time(), time())
    if hours[0] == hours[1] or any(each.tzinfo for each in hours):
        raise ValueError(f"{words!r} are no hours; write them as 22:00-07:00.")
    return hours


def _parse_minute(words: str) -> time:
    return time.fromisoformat(words.strip()).replace(second=0, microsecond=0)


def parse_duration(words: str) -> timedelta:
    """Return a length of time, such as 30m, 1h30m, "10 minutes" or "last 2 hours".

    Raises:
        ValueError: It is none, or longer than `_LONGEST_DURATION`.
    """
    text = "".join(words.casefold().split()).removeprefix("last") or "?"
    seconds = 0.0
    while text:
        number = text[: len(text) - len(text.lstrip("0123456789."))]
        rest = text.removeprefix(number)
        unit = rest[: len(rest) - len(rest.lstrip("abcdefghijklmnopqrstuvwxyz"))]
        try:
            seconds += float(number) * _UNITS[unit]
        except (ValueError, KeyError):
            raise ValueError(
                f"{words!r} is no length of time; write it as 30m, 2h or 1d."
            ) from None
        text = rest.removeprefix(unit)
    if not 0 < seconds <= _LONGEST_DURATION.total_seconds():
        raise ValueError(f"{words!r} is no usable length of time; write it as 30m, 2h or 1d.")
    return timedelta(seconds=seconds)


def load_state(home: Path) -> RecordingState:
    """Return the state of a home's recorder; off if nothing was ever switched.

    Raises:
        StateUnreadable: The file is damaged.
    """
    file = home / FOLDER / STATE_FILE
    try:
        return RecordingState.model_validate_json(file.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return RecordingState()
    except (OSError, ValidationError) as error:
        raise StateUnreadable(
            f"{file} cannot be read, so nothing is recorded, and what you left out is not known "
            "any more; switch the recording on anew with: taskmem record on"
        ) from error


def save_state(home: Path, state: RecordingState) -> None:
    """Write the state of a home's recorder, readable by its owner only; it outlives a power cut.

    Raises:
        OSError: It cannot be written, or not synced; then the old state may stay.
    """
    folder = home / FOLDER
    write_private_file(folder, STATE_FILE, state.model_dump_json(indent=2).encode(), is_synced=True)
    sync_folder(folder)


def replace_damaged_state(home: Path, now: datetime) -> Path:
    """Switch a recorder off whose file is damaged; return the path at which that file is kept.

    Raises:
        OSError: It cannot be written; the damaged file stays in its place.
    """
    file = home / FOLDER / STATE_FILE
    kept = file.with_name(f"{_DAMAGED_PREFIX}{now:%Y%m%dT%H%M%S%f}")
    file.rename(kept)
    try:
        save_state(home, RecordingState())
    except BaseException:
        kept.rename(file)
        raise
    return kept


@contextmanager
def lock_state(home: Path) -> Generator[None]:
    """Keep others from writing the state, or storing a moment, meanwhile.

    Raises:
        OSError: The file of the lock cannot be made.
    """
    folder = home / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(folder / "state.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def write_private_file(folder: Path, name: str, content: bytes, *, is_synced: bool = False) -> None:
    """Write a file of the recordings in one step, with mode 0600 in a folder of mode 0700.

    Raises:
        OSError: It cannot be written; an old one stays as it is.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=folder, prefix=f".{name}.")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
            if is_synced:
                out.flush()
                os.fsync(out.fileno())
        Path(draft).replace(folder / name)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
