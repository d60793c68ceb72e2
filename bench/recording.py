"""The recorder of the screen: what it takes of a processor and of the disk. On real displays.

As a program, `recording.py HOME`, it records the display of its environment until its input ends,
and prints what that took as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))  # for what the tests play

from figures import Figure, amount
from machine import measure_cpu_seconds

from openclaw_taskmem.clock import SystemClock
from openclaw_taskmem.domain.text.redaction import scrub
from taskmem_recorder.machine import CpuBudget, MachineFacts
from taskmem_recorder.recorder import ScreenRecorder
from taskmem_recorder.reports import WORKING_DAY
from taskmem_recorder.state import RecordingState, save_state, switch_on
from taskmem_recorder.store import make_store
from tests.support.processes import bind_command, end
from tests.support.scenes import SCENES, Scene
from tests.support.screens import Screen

SECONDS = 25
"""How long each scene is recorded."""
READING_SECONDS = 900
"""How long the browser is."""
PAGE_SECONDS = 20
MOST_CPU = 3.0
MOST_MB = 300.0
_WORDS = """
ledger harbour invoice granite meadow switch copper lantern bridge archive kettle orchard signal
timber velvet window harvest mirror saddle thunder anchor basket candle dragon engine feather
"""


def record_scenes() -> Iterator[Figure]:
    """Measure the recorder over the programs that the judges of screens are measured on."""
    names = [name for name in SCENES if name not in ("plain", "steered")]
    taken: list[dict[str, float]] = []
    with ExitStack() as stack:
        screen = stack.enter_context(Screen())
        with run_recorder(screen, taken):
            for name in names:
                with Scene(screen, name, seed=21, after=9) as scene:
                    scene.ready()
                    time.sleep(SECONDS)
    yield from _list_figures(f"{len(names)} scenes", taken[0])


def record_browser() -> Iterator[Figure]:
    """Measure the recorder while somebody reads pages in a real browser."""
    taken: list[dict[str, float]] = []
    with ExitStack() as stack:
        home = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        screen = stack.enter_context(Screen())
        first = _write_pages(Path(home))
        browser = subprocess.Popen(
            bind_command(
                "chromium",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-sync",
                "--password-store=basic",
                "--window-size=1500,950",
                f"--user-data-dir={home}/profile",
                first.as_uri(),
            ),
            env={**screen.environ, "HOME": home},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        stack.callback(end, browser)
        with run_recorder(screen, taken):
            time.sleep(READING_SECONDS)
    what = f"a page of a browser every {PAGE_SECONDS} s, {READING_SECONDS // 60} minutes"
    yield from _list_figures(what, taken[0])


def record_still_screen() -> Iterator[Figure]:
    """Measure the recorder while nothing happens."""
    taken: list[dict[str, float]] = []
    with (
        Screen() as screen,
        Scene(screen, "plain") as scene,
        run_recorder(screen, taken, warm_up=20),
    ):
        scene.ready()
        time.sleep(60)
    yield amount("a still screen is recorded: CPU", [taken[0]["cpu"]], "%", 0.5)


@contextmanager
def run_recorder(
    screen: Screen, taken: list[dict[str, float]], warm_up: float = 0.0
) -> Iterator[None]:
    """Record a screen meanwhile; append shares of a processor in percent, and MB a working day."""
    with tempfile.TemporaryDirectory() as home:
        recorder = subprocess.Popen(
            [sys.executable, __file__, home, str(warm_up)],
            env=screen.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        server = measure_cpu_seconds(screen.pids[0])
        start = time.monotonic()
        yield
        passed = time.monotonic() - start
        server = measure_cpu_seconds(screen.pids[0]) - server
        printed, _ = recorder.communicate()
        found = json.loads(printed)
        found["server"] = 100 * server / passed
        taken.append(found)


def _list_figures(what: str, found: dict[str, float]) -> Iterator[Figure]:
    yield amount(f"{what}: CPU of the recorder and of its reading", [found["cpu"]], "%", MOST_CPU)
    yield amount(f"{what}: CPU of the X server, for all", [found["server"]], "%")
    yield amount(f"{what}: a working day of 8 hours", [found["day_mb"]], "MB", MOST_MB)
    yield amount(f"{what}: moments an hour", [found["hourly"]], "")
    yield amount(f"{what}: of these without text", [100 * found["unread"]], "%")


def _write_pages(folder: Path) -> Path:
    """Write pages of which each leads to the next, and return the first."""
    words = _WORDS.split()
    count = READING_SECONDS // PAGE_SECONDS + 2
    for number in range(count):
        chosen = [words[(number * 7 + step * (step + 3)) % len(words)] for step in range(240)]
        parts = [" ".join(chosen[at : at + 40]) for at in range(0, len(chosen), 40)]
        text = "".join(f"<h2>{part.split()[0]} {number}</h2><p>{part}.</p>" for part in parts)
        (folder / f"{number}.html").write_text(
            f"<!doctype html><title>About {chosen[0]} {number}</title>"
            f"<body style='font: 18px DejaVu Sans; margin: 3em'>{text}<script>setTimeout(() =>"
            f" location = '{(number + 1) % count}.html', {1000 * PAGE_SECONDS})</script>"
        )
    return folder / "0.html"


async def _record_until_input_ends(home: Path, warm_up: float) -> dict[str, Any]:
    store = make_store(home)
    clock = SystemClock()
    recorder = ScreenRecorder(
        home,
        store,
        clock,
        scrub,
        os.environ,
        read_machine=lambda *_, **__: MachineFacts(),
        # What it begins with is spent once; what it takes in the long run is measured.
        budget=CpuBudget(clock.monotonic(), saved=0.0),
    )
    save_state(home, switch_on(RecordingState(), datetime.now(UTC)))
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def read_input() -> None:
        sys.stdin.read()
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=read_input, daemon=True).start()
    work = asyncio.create_task(recorder.run())
    await asyncio.sleep(warm_up)
    before, start = _read_cpu(), time.monotonic()
    await ended.wait()
    passed, spent = time.monotonic() - start, _read_cpu() - before
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    moments = store.list_moments()
    size = store.measure()
    store.close()
    return {
        "cpu": 100 * spent / passed,
        "day_mb": size.bytes / 1e6 * WORKING_DAY / passed,
        "hourly": len(moments) * 3600 / passed,
        "unread": sum(not each.text for each in moments) / max(1, len(moments)),
    }


def _read_cpu() -> float:
    """Return what this process and the programs that it ran have taken. Seconds."""
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, -1))
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_record_until_input_ends(Path(sys.argv[1]), float(sys.argv[2])))))
