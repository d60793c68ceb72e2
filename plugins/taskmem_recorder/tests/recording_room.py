"""A recorder on a real screen, with windows that a test opens, and all bytes that it stores."""

from __future__ import annotations

import asyncio
import io
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from PIL import Image

from openclaw_taskmem.clock import SystemClock
from openclaw_taskmem.domain.text.redaction import scrub
from taskmem_recorder import x11  # noqa: F401 - before another thread connects
from taskmem_recorder.machine import CpuBudget, MachineFacts
from taskmem_recorder.recorder import ScreenRecorder
from taskmem_recorder.state import RecordingState, load_state, lock_state, save_state
from taskmem_recorder.state import switch_off as switched_off
from taskmem_recorder.state import switch_on as switched_on
from taskmem_recorder.store import Moment, make_store
from tests.support.desktop import desktop
from tests.support.inks import INK, has_ink
from tests.support.processes import bind_command, end
from tests.support.screens import Screen
from tests.support.waiting import until

FONT = ("-fa", "DejaVu Sans Mono", "-fs", "14")


class EndlessBudget(CpuBudget):
    """Time that never runs out: a test shows in a minute what a user shows in an hour."""

    def spend(self, now: float, seconds: float) -> None:
        """Keep what is left."""


class RecordingRoom:
    """A home whose recorder runs beside the test."""

    def __init__(self, home: Path, screen: Screen) -> None:
        self.home = home
        self.screen = screen
        self.facts = MachineFacts()
        self.store = make_store(home)
        self.recorder = ScreenRecorder(
            home,
            self.store,
            SystemClock(),
            scrub,
            screen.environ,
            read_machine=lambda *_, **__: self.facts,
            budget=EndlessBudget(0.0),
        )

    def start(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def close(self) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(30)
        assert not self._thread.is_alive(), "the recorder does not end"
        self.store.close()

    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._task = self._loop.create_task(self.recorder.run())
        with suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._task)
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    # --- what the user does -----------------------------------------------------

    def change(self, change: Callable[[RecordingState], RecordingState]) -> None:
        with lock_state(self.home):
            save_state(self.home, change(load_state(self.home)))

    def switch_on(self) -> None:
        self.change(lambda state: switched_on(state, datetime.now(UTC)))

    def switch_off(self) -> None:
        self.change(switched_off)

    @contextmanager
    def show(
        self,
        title: str,
        text: str,
        *options: str,
        place: str = "60x10+40+40",
        ink: bool = False,
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Show a terminal with a text; `ink`: on a ground that nothing else has.

        The text is not at the window's edge, where its first word is misread now and then.
        """
        ground = ("-bg", INK.colour, "-fg", "white") if ink else ("-bg", "white")
        script = "import sys,threading; print(sys.argv[1], flush=True); threading.Event().wait()"
        terminal = subprocess.Popen(
            bind_command(
                *("xterm", "-T", title, *FONT, *ground, "-geometry", place, *options),
                *("-e", sys.executable, "-c", script, f"\n   {text}"),
            ),
            env=self.screen.environ,
            stderr=subprocess.DEVNULL,
        )
        try:
            with desktop(self.screen.display) as found:
                until(lambda: title in found.titles, f"a window of {title}")
            yield terminal
        finally:
            end(terminal)

    # --- what was stored --------------------------------------------------------

    def await_moment(self, title: str, text: str = "") -> Moment:
        """Return the first moment of a window with that title that has a text."""

        def find() -> Moment | None:
            there = (each for each in self.store.list_moments() if each.window_title == title)
            return next((each for each in there if text in each.text), None)

        return until(find, f"a moment of {title}")

    def titles(self) -> list[str]:
        return [each.window_title for each in self.store.list_moments()]

    def holds(self, words: str) -> bool:
        """Whether any byte of any file, or its name, has some words in any case."""
        folder = self.home / "recordings"
        files = [each for each in folder.rglob("*") if each.is_file()]
        sought = words.casefold().encode()
        return any(
            sought in each.read_bytes().lower() or words.casefold() in each.name.casefold()
            for each in files
            if each.name != "state.json"
        )

    def shows_ink(self) -> bool:
        """Whether any picture, or any file that can be opened as one, shows the ink."""
        return any(has_ink(each, INK) for each in self._list_pictures())

    def _list_pictures(self) -> Iterator[bytes]:
        for path in (self.home / "recordings").rglob("*"):
            if path.is_file():
                content = path.read_bytes()
                with suppress(OSError):
                    Image.open(io.BytesIO(content)).verify()
                    yield content


@contextmanager
def run_recorder(home: Path, screen: Screen) -> Iterator[RecordingRoom]:
    """Give a home whose recorder runs, and is off."""
    room = RecordingRoom(home, screen)
    room.start()
    try:
        yield room
    finally:
        room.close()
