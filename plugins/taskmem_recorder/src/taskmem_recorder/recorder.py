"""Record the screen while the user has switched that on. Runs on the plug-in's event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from taskmem_hookspecs import Clock, JudgeUnavailable, StoreFull, TaskmemError
from taskmem_recorder.changes import PictureChoice, ScreenThumbnail
from taskmem_recorder.displays import DisplayLost, find_display
from taskmem_recorder.machine import (
    CpuBudget,
    CpuMeter,
    MachineFacts,
    Rest,
    find_rest,
    read_facts,
    read_most_load,
)
from taskmem_recorder.reports import RecorderReport, describe_activity, save_report
from taskmem_recorder.screen import RecordedScreen, ScreenPicture
from taskmem_recorder.state import RecordingState, StateUnreadable, load_state, lock_state
from taskmem_recorder.store import Moment, RecordingStore
from taskmem_recorder.text import ScreenReader, encode_picture
from taskmem_recorder.windows import Rules, find_page, is_excluded_time

log = logging.getLogger(__name__)

_STATE_SECONDS: Final = 1.0
"""Longest time until a switch, pause or exclusion is noticed; none is stored meanwhile."""
_OFF_SECONDS: Final = 5.0
"""Longest time until it is noticed that the recording was switched on."""
FACTS_SECONDS: Final = 10.0
"""Time between two looks at the machine: lock, battery, load, disk."""
RETRY_SECONDS: Final = 15.0
"""Time until it is tried again after a failure."""
REPORT_SECONDS: Final = 30.0
_PRUNE_SECONDS: Final = 600.0
_SMALL_CHANGE: Final = 0.05
"""Part of the screen below which a change without new text is not kept."""
_PRIVATE_WINDOWS: Final = "TASKMEM_PRIVATE_WINDOWS"
"""Setting with parts of titles that are left out, separated by commas."""
_DISPLAY_RETURN_NOTE: Final = "It goes on when the display is back."
_DAYS_VARIABLE: Final = "TASKMEM_RECORD_DAYS"
_MB_VARIABLE: Final = "TASKMEM_RECORD_MB"
MOST_DAYS: Final = 30
MOST_MB: Final = 5_000


class _LastMoment(NamedTuple):
    """The last moment that was stored, for comparison with the next."""

    window: tuple[int, str]
    """Id and title of the window in front."""
    sight: ScreenThumbnail
    lines: frozenset[str]
    is_read: bool


class ScreenRecorder:
    """Records the screen of a home's user."""

    def __init__(
        self,
        home: Path,
        store: RecordingStore,
        clock: Clock,
        scrub: Callable[[str], str],
        environ: Mapping[str, str],
        *,
        read_machine: Callable[..., MachineFacts] = read_facts,
        budget: CpuBudget | None = None,
    ) -> None:
        """Set where it records to.

        Args:
            home: The home's folder.
            store: Where moments are stored.
            clock: The clock.
            scrub: Removes credentials from a text.
            environ: The daemon's environment.
            read_machine: Reads what decides whether it rests.
            budget: What it may spend; None: as usual.
        """
        self._home = home
        self._store = store
        self._clock = clock
        self._scrub = scrub
        self._environ = environ
        self._read_machine = read_machine
        self._reader = ScreenReader()
        self._state = RecordingState()
        self._report = RecorderReport(at=clock.now())
        self._reported_at = float("-inf")
        self._reported: tuple[RecordingState, str | None, str | None] | None = None
        """The switch, and what was reported of it: why it rests, and what it records."""
        self._display: str | None = None
        self._facts_at = float("-inf")
        self._pruned_at = float("-inf")
        self._rest: Rest | None = None
        self._damage: str | None = None
        """Why the state cannot be read; None: it can."""
        self._trouble: Rest | None = None
        """Why the last attempt to look, read or store failed."""
        self._retry_at = float("-inf")
        self._meter = CpuMeter()
        self._budget = budget or CpuBudget(clock.monotonic())
        self._last: _LastMoment | None = None

    def activity(self) -> str | None:
        """Return what it does, in one line; None: it is off."""
        state = self._read_state()
        activity = describe_activity(state, self._report, _to_local(self._clock.now()))
        return activity or self._damage

    async def run(self) -> None:
        """Record whenever it is switched on, until cancelled."""
        while True:
            self._state = state = self._read_state()
            may = await self._find_hindrance(state) is None and not self._is_silent(state)
            if may and self._clock.monotonic() >= self._retry_at:
                await self._meter.run(self._record_screen(state))
            self._save_report(state)
            await self._prune()
            await self._clock.sleep(_STATE_SECONDS if state.on else _OFF_SECONDS)

    # --- when to record -------------------------------------------------------

    def _read_state(self) -> RecordingState:
        try:
            state = load_state(self._home)
        except StateUnreadable as error:
            if self._damage is None:
                log.warning("%s", error)
            self._damage = str(error)
            return RecordingState()
        self._damage = None
        return state

    def _is_silent(self, state: RecordingState) -> bool:
        """Return whether the user wants nothing recorded now."""
        now = self._clock.now()
        return (
            not state.on
            or state.is_paused(now)
            or is_excluded_time(_to_local(now), state.exclusions)
        )

    async def _find_hindrance(
        self, state: RecordingState, *, look_anew: bool = False
    ) -> Rest | None:
        """Return why it must rest, as seen lately or just now; None: it can record."""
        if not state.on:
            return None
        now = self._clock.monotonic()
        if look_anew or now >= self._facts_at + FACTS_SECONDS:
            self._facts_at = now
            reads_text = self._reader.find_engine()
            facts = await asyncio.to_thread(self._read_machine, self._home, reads_text=reads_text)
            self._rest = find_rest(facts, read_most_load(self._environ))
            try:
                find_display(self._environ, state.display)
            except DisplayLost as gone:
                self._rest = Rest(str(gone).rstrip("."), _DISPLAY_RETURN_NOTE)
        return self._rest

    # --- recording ------------------------------------------------------------

    async def _record_screen(self, state: RecordingState) -> None:
        """Record until the state changes, the machine must rest, or something fails."""
        screen: RecordedScreen | None = None
        try:
            screen = RecordedScreen.open(self._environ, state.display)
            if state.shows_mark:
                screen.show_mark()
            self._display = screen.name
            self._save_report(state)
            await self._follow_screen(screen, state)
        except DisplayLost as gone:
            self._note_trouble(str(gone), _DISPLAY_RETURN_NOTE)
        except StoreFull as error:
            self._note_trouble(str(error), "Make room, or use: taskmem record forget")
        except JudgeUnavailable as error:
            self._reader.forget_engine()
            self._note_trouble(str(error), "It is tried again soon.")
        except (TaskmemError, OSError) as error:
            self._note_trouble(str(error), "It is tried again soon.")
        except Exception:
            # The daemon logs it, and starts this again.
            self._note_trouble("it failed, as the daemon's log says", "It is tried again soon.")
            self._save_report(state)
            raise
        finally:
            if screen is not None:
                screen.close()
            self._display = None
            self._last = None
            self._reader.forget_screen()

    def _note_trouble(self, why: str, follows: str) -> None:
        """Rest for a while; told until something could be recorded again."""
        self._trouble = Rest(why.rstrip("."), follows)
        self._retry_at = self._clock.monotonic() + RETRY_SECONDS

    async def _follow_screen(self, screen: RecordedScreen, state: RecordingState) -> None:
        choice = PictureChoice()
        began = self._clock.monotonic()
        while await self._goes_on(state):
            now = self._clock.monotonic()
            front = screen.find_front()
            choice.observe_front(now, front)
            choice.observe_sight(now, ScreenThumbnail(screen.look()))
            if choice.is_due(now):
                reads = self._budget.can_spend(now)
                if reads or self._last is None or front != self._last.window:
                    await self._take_picture(screen, state, reads=reads)
                    self._trouble = None
                if reads:
                    choice.record_picture(self._clock.monotonic())
            self._count_costs(now - began)
            began = now
            self._save_report(state)
            await self._prune()
            await self._wait(screen, choice, now)

    async def _goes_on(self, state: RecordingState) -> bool:
        unchanged = self._read_state() == state and not self._is_silent(state)
        return unchanged and await self._find_hindrance(state) is None

    async def _wait(self, screen: RecordedScreen, choice: PictureChoice, looked: float) -> None:
        """Wait until the screen is worth a look, or something else may have changed."""
        now = self._clock.monotonic()
        due = choice.next_look_at(now)
        if due is not None:
            due = max(due, self._budget.is_left_at(now))
        while (left := looked + _STATE_SECONDS * 5 - self._clock.monotonic()) > 0:
            seconds = min(left, _STATE_SECONDS)
            if due is not None:
                seconds = min(seconds, max(0.0, due - self._clock.monotonic()))
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await screen.wait_for_event()
                    break
            if due is not None and self._clock.monotonic() >= due:
                break
            if self._read_state() != self._state:
                return
        if (rest := looked + choice.look_gap - self._clock.monotonic()) > 0:
            await self._clock.sleep(rest)

    async def _take_picture(
        self, screen: RecordedScreen, state: RecordingState, *, reads: bool
    ) -> None:
        """Store what the screen shows, if it is new and the window in front is not left out.

        `reads`: whether there is time to read; else only the titles are stored, without a picture,
        which might show a credential, and the screen is read later.
        """
        picture = await screen.take_picture(self._build_rules(state), self._reader.read_strip)
        if picture is None:
            return
        at = self._clock.now()
        sight = ScreenThumbnail(picture.pixels)
        window, last = (picture.front.id, picture.front.title), self._last
        changed = 1.0
        if last is not None:
            changed = sight.measure_change(last.sight)
            if last.is_read and not changed and last.window == window:
                return
        # A screen that was locked since the last look shows the lock, or what lies under it.
        if await self._find_hindrance(state, look_anew=True) is not None:
            return
        lines: list[str] = []
        if reads:
            lines = (await self._reader.read_screen(picture.pixels, sight)).lines
        new = lines
        if last is not None and last.is_read and last.window[0] == window[0]:
            new = [line for line in lines if line not in last.lines]
            if not new and changed < _SMALL_CHANGE and last.window == window:
                return
        moment, shows_secret = self._build_moment(at, picture, lines, new, screen.name)
        data = None
        if reads and not shows_secret:
            data = await asyncio.to_thread(self._meter.call, encode_picture, picture.pixels)
        await asyncio.to_thread(self._meter.call, self._store_moment, state, moment, data)
        self._last = _LastMoment(window, sight, frozenset(lines), is_read=reads)

    def _build_rules(self, state: RecordingState) -> Rules:
        listed = self._environ.get(_PRIVATE_WINDOWS, "").split(",")
        parts = (each.strip().casefold() for each in listed)
        return Rules(state.exclusions, tuple(filter(None, parts)))

    def _build_moment(
        self,
        at: datetime,
        picture: ScreenPicture,
        lines: Sequence[str],
        new: Sequence[str],
        display: str,
    ) -> tuple[Moment, bool]:
        """Return the moment without credentials, and whether there were any."""
        front = picture.front
        page = find_page(front)
        texts = (front.title, page or "", "\n".join(lines), "\n".join(new))
        title, clean_page, text, new_text = (self._scrub(each) for each in texts)
        moment = Moment(
            at=at,
            window_title=title,
            application=front.application or front.instance,
            page=clean_page or None,
            text=text,
            new_text=new_text,
            display=display,
        )
        return moment, (title, clean_page, text, new_text) != texts

    def _store_moment(self, state: RecordingState, moment: Moment, picture: bytes | None) -> None:
        """Store a moment unless the user has switched anything since it was seen."""
        with lock_state(self._home):
            if self._read_state() != state or self._is_silent(state):
                return
            self._store.add_moment(moment, picture)
        size = len(picture or b"") + len(moment.text.encode()) * 3
        self._report = self._report.model_copy(
            update={"moments": self._report.moments + 1, "bytes": self._report.bytes + size}
        )

    # --- costs ----------------------------------------------------------------

    async def _prune(self) -> None:
        """Drop what is too old, or too much."""
        now = self._clock.monotonic()
        if now < self._pruned_at + _PRUNE_SECONDS:
            return
        self._pruned_at = now
        days = _read_number(self._environ, _DAYS_VARIABLE, MOST_DAYS)
        size = _read_number(self._environ, _MB_VARIABLE, MOST_MB) << 20
        age = timedelta(days=days)
        try:
            await asyncio.to_thread(self._store.prune, age, size, self._clock.now())
        except (TaskmemError, OSError) as error:
            log.warning("what was recorded is not limited just now: %s", error)

    def _count_costs(self, seconds: float) -> None:
        """Count time that was recorded, and take what it cost from the budget."""
        taken = self._meter.seconds + self._reader.cpu_seconds
        self._budget.spend(self._clock.monotonic(), taken - self._report.cpu_seconds)
        costs = {"seconds": self._report.seconds + seconds, "cpu_seconds": taken}
        self._report = self._report.model_copy(update=costs)

    def _save_report(self, state: RecordingState) -> None:
        """Write what it does and costs, at once if that has changed."""
        resting = str(self._rest or self._trouble or "") or None
        now = self._clock.monotonic()
        news = (state, resting, self._display)
        if not state.on:
            self._reported = None
        if not state.on or (news == self._reported and now < self._reported_at + REPORT_SECONDS):
            return
        self._reported, self._reported_at = news, now
        facts = {"at": self._clock.now(), "resting": resting, "display": self._display}
        self._report = self._report.model_copy(update=facts)
        with suppress(OSError):
            save_report(self._home, self._report)


def _read_number(environ: Mapping[str, str], variable: str, default: int) -> int:
    raw = environ.get(variable, "").strip()
    return int(raw) if raw.isdecimal() and int(raw) > 0 else default


def _to_local(instant: datetime) -> datetime:
    return instant.astimezone()
