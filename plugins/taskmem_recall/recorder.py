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
from taskmem_recall import recording_state
from taskmem_recall.cpu_meter import CpuMeter
from taskmem_recall.machine_facts import (
    CpuBudget,
    MachineFacts,
    Rest,
    find_rest,
    read_facts,
    read_most_load,
)
from taskmem_recall.moments import Moment
from taskmem_recall.picture_choice import PictureChoice
from taskmem_recall.recorder_report import (
    RecorderReport,
    describe_activity,
    save_report,
)
from taskmem_recall.recording_state import FOLDER, RecordingState, StateUnreadable, lock_state
from taskmem_recall.recording_store import RecordingStore
from taskmem_recall.screen_capture import RecordedScreen, ScreenPicture, find_display
from taskmem_recall.screen_reading import ScreenReader, encode_picture
from taskmem_recall.screen_windows import find_page
from taskmem_recall.window_exclusions import Rules, is_excluded_time
from taskmem_vision.capture.desktop import DisplayGone
from taskmem_vision.capture.privacy import VARIABLE as PRIVATE_WINDOWS
from taskmem_vision.change.look import LookHistory
from taskmem_vision.change.thumbnail import Thumbnail, count_blocks

log = logging.getLogger(__name__)

STATE_SECONDS: Final = 1.0
"""Longest time until a switch, pause or exclusion is noticed; none is stored meanwhile."""
FACTS_SECONDS: Final = 10.0
"""Time between two looks at the machine: lock, battery, load, disk."""
RETRY_SECONDS: Final = 15.0
"""Time until it is tried again after a failure."""
REPORT_SECONDS: Final = 30.0
PRUNE_SECONDS: Final = 600.0
SMALL_CHANGE: Final = 0.05
"""Part of the screen below which a change without new text is not kept."""
_DISPLAY_BACK: Final = "It goes on when the display is back."
DAYS_VARIABLE: Final = "TASKMEM_RECORD_DAYS"
MB_VARIABLE: Final = "TASKMEM_RECORD_MB"
DAYS: Final = 30
MB: Final = 5_000


class LastMoment(NamedTuple):
    """The last moment that was stored, for comparison with the next."""

    window: tuple[int, str]
    """Id and title of the window in front."""
    sight: Thumbnail
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
        self._last: LastMoment | None = None

    def activity(self) -> str | None:
        """Return what it does, in one line; None: it is off."""
        state = self._read_state()
        said = describe_activity(state, self._report, _to_local(self._clock.now()))
        return said or self._damage

    async def run(self) -> None:
        """Record whenever it is switched on, until cancelled."""
        while True:
            self._state = state = self._read_state()
            may = await self._find_hindrance(state) is None and not self._is_silent(state)
            if may and self._clock.monotonic() >= self._retry_at:
                await self._meter.run(self._record_screen(state))
            self._save_report(state)
            await self._prune()
            await self._clock.sleep(STATE_SECONDS)

    # --- when to record -------------------------------------------------------

    def _read_state(self) -> RecordingState:
        try:
            state = recording_state.load_state(self._home)
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
            found = self._reader.find_engine()
            facts = await asyncio.to_thread(self._read_machine, self._home, reads_text=found)
            self._rest = find_rest(facts, read_most_load(self._environ))
            try:
                find_display(self._environ, state.display)
            except DisplayGone as gone:
                self._rest = Rest(str(gone).rstrip("."), _DISPLAY_BACK)
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
        except DisplayGone as gone:
            self._note_trouble(str(gone), _DISPLAY_BACK)
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
        track = LookHistory()
        choice = PictureChoice(track.rhythms)
        number = -1
        began = self._clock.monotonic()
        while await self._goes_on(state):
            now = self._clock.monotonic()
            front = screen.find_front()
            choice.observe_front(now, front)
            look = track.add_look(now, screen.look())
            for motion in track.list_motions_since(number):
                choice.observe_motion(motion)
            number = look.number
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
        while (left := looked + STATE_SECONDS * 5 - self._clock.monotonic()) > 0:
            seconds = min(left, STATE_SECONDS)
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
        sight = Thumbnail(picture.pixels)
        window, last = (picture.front.id, picture.front.title), self._last
        changed = 1.0
        if last is not None:
            columns, rows = count_blocks(picture.pixels.size)
            changed = len(sight.find_differences(last.sight)) / (columns * rows)
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
            if not new and changed < SMALL_CHANGE and last.window == window:
                return
        moment, shows_secret = self._build_moment(at, picture, lines, new, screen.name)
        data = None
        if reads and not shows_secret:
            data = await asyncio.to_thread(self._meter.call, encode_picture, picture.pixels)
        await asyncio.to_thread(self._meter.call, self._store_moment, state, moment, data)
        self._last = LastMoment(window, sight, frozenset(lines), is_read=reads)

    def _build_rules(self, state: RecordingState) -> Rules:
        listed = self._environ.get(PRIVATE_WINDOWS, "").split(",")
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
        if now < self._pruned_at + PRUNE_SECONDS:
            return
        self._pruned_at = now
        days = _read_number(self._environ, DAYS_VARIABLE, DAYS)
        size = _read_number(self._environ, MB_VARIABLE, MB) << 20
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
        said = {"at": self._clock.now(), "resting": resting, "display": self._display}
        self._report = self._report.model_copy(update=said)
        with suppress(OSError):
            save_report(self._home, self._report)


def make_store(home: Path) -> RecordingStore:
    """Return the store of a home's recordings."""
    return RecordingStore(home / FOLDER)


def _read_number(environ: Mapping[str, str], variable: str, default: int) -> int:
    raw = environ.get(variable, "").strip()
    return int(raw) if raw.isdecimal() and int(raw) > 0 else default


def _to_local(instant: datetime) -> datetime:
    return instant.astimezone()
