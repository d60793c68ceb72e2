"""Watch the clock: an instant, a time of day, a while from now, or a schedule."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from taskmem_hookspecs import Frame, InvalidArguments, Target, TargetGone
from taskmem_hookspecs.conditions import State
from taskmem_targets.facts import SECONDS_LEFT

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
"""Seconds by the first letter of a unit."""
_AMOUNT: Final = re.compile(
    r"(\d+(?:\.\d+)?)\s*(seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d)(?![a-z])"
    r"(?:\s*(?:and|,)?\s*)"
)
_CLOCK: Final = re.compile(r"(?:at\s+)?(\d{1,2})(?::(\d\d)(?::(\d\d))?)?\s*(am|pm)?")
_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NOON: Final = 12
_LONGEST_AHEAD: Final = timedelta(days=3660)
_CHECK_SECONDS: Final = 5.0
"""Period of the looks whether the clock has jumped."""
_JUMP_SECONDS: Final = 1.0
"""By how much the clock must differ from one that nobody sets to have jumped."""
_FORMS: Final = (
    "write time:2026-12-24T18:00, time:18:00, time:tomorrow 9:00, time:friday 9am, time:90m or "
    "time:cron 0 9 * * 1-5, each with a zone if it is not this machine's, such as Europe/Berlin"
)


def find_next(text: str, now: datetime, machine_zone: tzinfo | None = None) -> datetime:
    """Return the first instant after `now` that a text names; of an instant, that one.

    Without a zone the text is in `machine_zone`; None: that of this machine.

    Raises:
        InvalidArguments: It names none, or none within ten years.
    """
    words = " ".join(text.split())
    body, named_zone = _split_zone(words)
    zone = named_zone or machine_zone or _read_machine_zone()
    try:
        found = _find(body.lower(), now.astimezone(UTC), zone)
    except (ValueError, OverflowError, CronSimError, StopIteration):
        found = None
    if found is None or found - now > _LONGEST_AHEAD:
        raise InvalidArguments(f"{text[:80]!r} names no time; {_FORMS}.")
    return found


def _split_zone(words: str) -> tuple[str, tzinfo | None]:
    """Split the name of a zone off the end; None: it names none."""
    body, _, last = words.rpartition(" ")
    if last.upper() in ("UTC", "GMT"):
        return body, UTC
    if body and "/" in last and last[0].isalpha():
        try:
            return body, ZoneInfo(last)
        except (ZoneInfoNotFoundError, ValueError):
            raise InvalidArguments(
                f"{last[:40]} is no zone; write one such as Europe/Berlin."
            ) from None
    return words, None


def _read_machine_zone() -> tzinfo:
    """Return the zone of this machine, with its changes of clock; UTC if it tells none."""
    named = os.environ.get("TZ", "").removeprefix(":")
    with suppress(OSError, ValueError, ZoneInfoNotFoundError):
        if named:
            return ZoneInfo(named)
        with Path("/etc/localtime").open("rb") as file:
            return ZoneInfo.from_file(file)
    return UTC


def _find(text: str, now: datetime, zone: tzinfo) -> datetime | None:
    """Return the instant that a text in lower case names, in UTC, as `now` is.

    All comparing and adding is done in UTC: two times of one zone compare by its wall clock.
    """
    if text.startswith("cron "):
        schedule = CronSim(text.removeprefix("cron "), now.astimezone(zone))
        return next(due for each in schedule if (due := each.astimezone(UTC)) > now)
    if (while_from_now := _read_duration(text.removeprefix("in "))) is not None:
        return now + while_from_now
    if (found := _find_time_of_day(text, now, zone)) is not None:
        return found
    instant = datetime.fromisoformat(text.upper())
    return (instant if instant.tzinfo else instant.replace(tzinfo=zone)).astimezone(UTC)


def _read_duration(text: str) -> timedelta | None:
    seconds, at = 0.0, 0
    while found := _AMOUNT.match(text, at):
        seconds, at = seconds + float(found[1]) * _UNITS[found[2][0]], found.end()
    return timedelta(seconds=seconds) if seconds and at == len(text) else None


def _find_time_of_day(text: str, now: datetime, zone: tzinfo) -> datetime | None:
    """Return the next instant at a time of day, today unless a day is named."""
    first, _, rest = text.partition(" ")
    is_day_named = first in ("today", "tomorrow", *_DAYS)
    found = _CLOCK.fullmatch(rest.strip() if is_day_named else text)
    if found is None or not (found[2] or found[4]):
        return None
    hour = int(found[1])
    if found[4]:
        if not 1 <= hour <= _NOON:
            return None
        hour = hour % _NOON + (_NOON if found[4] == "pm" else 0)
    minute, second = int(found[2] or 0), int(found[3] or 0)
    day = now.astimezone(zone).replace(hour=hour, minute=minute, second=second, microsecond=0)
    step = 1
    if first in _DAYS:
        day += timedelta(days=(_DAYS.index(first) - day.weekday()) % 7)
        step = 7
    elif first == "tomorrow":
        day += timedelta(days=1)
    # A time of day comes twice when the clocks are put back.
    due = [day.replace(fold=fold).astimezone(UTC) for fold in (0, 1)]
    if first not in ("today", "tomorrow"):
        due.append((day + timedelta(days=step)).replace(fold=0).astimezone(UTC))
    return next((each for each in due if each > now), due[0])


class TimeSensor:
    """Plays Sensor for `time:WHEN`."""

    def __init__(self, read_clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """Take the clock, which anybody may set, and which goes on while the machine sleeps."""
        self._read_clock = read_clock
        self._watches: set[TimeWatch] = set()
        self._checks: asyncio.Task[None] | None = None

    async def watch(self, target: Target) -> TimeWatch:
        """Start to watch the clock.

        Raises:
            InvalidArguments: The name names no time.
        """
        find_next(target.name, self._read_clock())
        watch = TimeWatch(target.name, self._read_clock, self._watches.discard)
        self._watches.add(watch)
        if self._checks is None or self._checks.done():
            self._checks = asyncio.create_task(self._check_clock())
        return watch

    async def _check_clock(self) -> None:
        """Have all watches look at once if the clock was set, or stood still."""
        loop = asyncio.get_running_loop()
        while self._watches:
            then, began = self._read_clock(), loop.time()
            await asyncio.sleep(_CHECK_SECONDS)
            passed = (self._read_clock() - then).total_seconds()
            if abs(passed - (loop.time() - began)) > _JUMP_SECONDS:
                for watch in self._watches:
                    watch.jumped.set()


class TimeWatch:
    """Plays Watch; a place is the instant that a wait waits for."""

    def __init__(
        self,
        name: str,
        read_clock: Callable[[], datetime],
        forget: Callable[[TimeWatch], None],
    ) -> None:
        """Watch for the instants that a text names; `forget` is called once it is closed."""
        self._name, self._read_clock, self._forget = name, read_clock, forget
        self.jumped = asyncio.Event()
        """Set when the clock jumps."""

    rest_seconds = 3600.0

    async def here(self) -> Frame:
        """Return the next instant, for which a wait that begins now waits.

        Raises:
            TargetGone: It is past.
        """
        now = self._read_clock()
        due = find_next(self._name, now)
        if due <= now:
            raise TargetGone(f"{_tell(due)} is past already, so nothing would come.")
        return Frame(seen_at=now, place=due.isoformat(), tail=f"It is due at {_tell(due)}.")

    async def end(self) -> str:
        """Return the instant for which a wait that begins now waits; raises as `here` does."""
        return (await self.here()).place

    async def look(self, place: str, start: str) -> Frame:
        """Return whether the instant of a wait has come."""
        now, due = self._read_clock(), datetime.fromisoformat(start)
        left = (due - now).total_seconds()
        states = {State.DUE} if left <= 0 else set[State]()
        return Frame(
            seen_at=now,
            place=place,
            note=f"It {'was' if states else 'is'} due at {_tell(due)}.",
            states=frozenset(states),
            numbers={SECONDS_LEFT: max(0.0, left)},
        )

    async def wait_for_change(self) -> None:
        """Return when the clock jumps; else the judge says when to look again."""
        await self.jumped.wait()
        self.jumped.clear()

    async def close(self) -> None:
        """Watch the clock no more."""
        self._forget(self)


def _tell(due: datetime) -> str:
    """Write an instant in this machine's zone."""
    return f"{due.astimezone():%a %d %b %Y %H:%M:%S %Z}"
