"""Waits that see: a look, idling, real scenes, and the gate beside three other rules."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from statistics import mean
from typing import Any

from figures import Figure, amount, count_of, millis
from machine import measure_cpu_seconds, measure_memory
from PIL import Image, ImageChops

from taskmem_hookspecs import Target
from taskmem_vision.pictures import Look
from taskmem_vision.sensor import ScreenSensor
from taskmem_vision.x11 import X11Display
from tests.plugins.vision.fake_gemini import FakeGemini, Request, looks
from tests.plugins.vision.recorder import record
from tests.plugins.vision.replay import Player, Recording
from tests.support.daemons import Daemon, short_home
from tests.support.inks import INK, has_ink
from tests.support.scenes import SCENES, Scene
from tests.support.screens import Screen

SEED = 21
"""Another than those that the gate was made on."""
LATENCY = 1.2
SAMPLES = 200
WINDOWS = 20
WAITS = 16
SECONDS = 30
AFTERWARDS = 12
LEFT_OUT = ("plain", "steered", "never", "bustle")
RULE_SEED = 11
"""Another than those that the gate was made on."""
POLL = 2.0
HALF = 2
LEVELS = 12
EVENTS = [name for name, plot in SCENES.items() if plot.ends]
RULE_LEFT_OUT = ("plain", "steered")
Rule = Callable[[float, float, Image.Image, Image.Image], bool]
"""Whether to ask: now, when it was asked last, the picture now, the one asked about."""


def see_looks() -> Iterator[Figure]:
    """Measure from a window's frame to its picture, and a search by title."""
    with ExitStack() as stack:
        screen = stack.enter_context(Screen())
        for number in range(WINDOWS):
            title = f"Window number {number}"
            scene = Scene(screen, "plain", title=title, geometry="800x600+99+99")
            stack.enter_context(scene).ready()
        yield millis("800x600 window: a look, to its picture", asyncio.run(_time_looks(screen)), 5)
        display = X11Display(screen.display)
        yield millis(
            f"search by title among {WINDOWS} windows",
            [_time_call(display.list_windows) for _ in range(SAMPLES)],
            1,
        )
        display.close()


async def _time_looks(screen: Screen) -> list[float]:
    watch: Any = await ScreenSensor(screen.environ).watch(
        Target(scheme="window", name="Window number 7")
    )
    taken = []
    for _ in range(SAMPLES):
        watch._look = None  # noqa: SLF001 - so that it looks anew
        start = time.perf_counter()
        await watch.look("", "")
        taken.append(time.perf_counter() - start)
    await watch.close()
    return taken


def _time_call(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


class Theatre:
    """A screen, a daemon on it, and a model that sees ink."""

    def __init__(self, stack: ExitStack) -> None:
        self.screen = stack.enter_context(Screen())
        self.home = stack.enter_context(short_home())
        self.scene: Scene | None = None
        self.asked: list[float] = []
        judge = looks(self._is_condition_met)

        def answer(request: Request) -> dict[str, Any]:
            self.asked.append(time.time())
            return {**judge(request), "latency": LATENCY}

        model = stack.enter_context(FakeGemini(answer))
        self.daemon = Daemon(self.home, DISPLAY=self.screen.display, **model.environ)
        stack.callback(self.daemon.close)
        self.daemon.wait_until_it_serves()

    def _is_condition_met(self, words: str, pictures: list[bytes]) -> bool:
        scene = self.scene
        if scene is None or words != scene.wake_when:
            return False
        if not scene.paints:
            return bool(scene.truths)
        return any(has_ink(each, INK) for each in pictures)

    def wait(self, target: str, wake_when: str, timeout: float) -> str:
        """Start a wait."""
        given = {"target": target, "wake_when": wake_when, "timeout": timeout}
        return str(self.daemon.call("smart_wait", **given)["wait_id"])

    def wait_for_end(self, wait_id: str) -> tuple[str, float]:
        """Return how a wait ended, and when."""
        while True:
            [row] = [w for w in self.daemon.ask("waits", all=True) if w["wait_id"] == wait_id]
            if row["status"] != "watching":
                return row["status"], time.time()
            time.sleep(0.02)


def see_scenes() -> Iterator[Figure | str]:
    """Measure questions and delays of a real daemon on sixteen programs."""
    questions, delays, missed, wrong, worst = [], [], 0, 0, ""
    names = [name for name in SCENES if name not in LEFT_OUT]
    for name in names:
        asked, delay, status = _play_scene(name)
        questions.append(float(asked))
        if delay is None:
            missed += status != "resolved"
            wrong += status == "resolved"
            worst += f" {name} ({status})"
        else:
            delays.append(delay)
    many = len(names)
    yield amount("questions a wait, mean", questions, "", 2.5, middle=mean)
    what = "event to resolved without the model, mean"
    yield replace(amount(what, delays, "s", 0.5, middle=mean), samples=many)
    yield count_of("missed", missed, many)
    yield count_of("resolved wrongly", wrong, many)
    if worst:
        yield f"not resolved, or wrongly:{worst}"


def _play_scene(name: str) -> tuple[int, float | None, str]:
    plot = SCENES[name]
    after = random.Random(f"{name} {SEED}").uniform(9, 16)  # noqa: S311
    with ExitStack() as stack:
        theatre = Theatre(stack)
        scene = Scene(theatre.screen, name, seed=SEED, after=after)
        theatre.scene = stack.enter_context(scene)
        scene.ready()
        lasts = after + AFTERWARDS + (0 if plot.paints else 5)
        status, at = theatre.wait_for_end(theatre.wait(scene.target, scene.wake_when, lasts))
        asked = theatre.asked
        if status != "resolved" or not scene.truths:
            return len(asked), None, status
        truth = scene.truths[0]["t"]
        spans = [(max(each, truth), min(each + LATENCY, at)) for each in asked]
        thinking = sum(max(0.0, end - start) for start, end in spans)
        return len(asked), max(0.0, at - truth - thinking), status


def see_idle() -> Iterator[Figure]:
    """Measure what a wait costs while nothing happens, and what sixteen cost."""
    yield amount("one idle wait on the screen: CPU", [_measure_use(None, 1)[0]], "%", 0.1)
    one, _, asked = _measure_busy_waits(1)
    many, held, _ = _measure_busy_waits(WAITS)
    yield amount("a busy screen, one wait: CPU", [one], "%")
    yield amount(f"a busy screen, {WAITS} waits: CPU", [many], "%")
    yield amount(f"{WAITS} waits : one", [many / one], "x", 1.5)
    yield amount(f"{WAITS} waits: RSS", [held], "MB", 250)
    yield amount("caret, clock and video: questions a minute", [asked], "", 1)


def _measure_busy_waits(waits: int) -> tuple[float, float, float]:
    return _measure_use("bustle", waits)


def _measure_use(name: str | None, waits: int) -> tuple[float, float, float]:
    """Return CPU in percent, RSS in MB, and questions a minute after the first."""
    with ExitStack() as stack:
        theatre = Theatre(stack)
        if name is not None:
            stack.enter_context(Scene(theatre.screen, name, seed=SEED)).ready()
        for number in range(waits):
            theatre.wait("screen", f"condition {number}", 600)
        time.sleep(8)
        pid, first = theatre.daemon.process.pid, len(theatre.asked)
        before, start = measure_cpu_seconds(pid), time.monotonic()
        time.sleep(2 * SECONDS)
        passed = time.monotonic() - start
        share = 100 * (measure_cpu_seconds(pid) - before) / passed
        return share, measure_memory(pid)[0], 60 * (len(theatre.asked) - first) / passed


@dataclass
class Film:
    """A recording with its pictures, at half their size."""

    recording: Recording
    pictures: list[tuple[float, Image.Image]] = field(default_factory=list)

    def keep(self, at: float, look: Look) -> None:
        """Keep a look."""
        self.pictures.append((at, look.image.reduce(HALF)))


def every_two_seconds(now: float, asked_at: float, _now: Image.Image, _then: Image.Image) -> bool:
    return now - asked_at >= POLL


def one_percent(_now: float, _asked: float, seen: Image.Image, asked: Image.Image) -> bool:
    if seen.size != asked.size:
        return True
    apart = ImageChops.difference(seen, asked).convert("L")
    changed = apart.point([255 if level > LEVELS else 0 for level in range(256)])
    return changed.histogram()[255] >= 0.01 * seen.width * seen.height


def difference_hash(_now: float, _asked: float, seen: Image.Image, asked: Image.Image) -> bool:
    return (hash_image(seen) ^ hash_image(asked)).bit_count() >= 2


def hash_image(image: Image.Image) -> int:
    """Return 64 bits: whether it grows lighter from left to right."""
    data = image.convert("L").resize((9, 8), Image.Resampling.BOX).tobytes()
    bits = 0
    for row in range(8):
        for column in range(8):
            at = 9 * row + column
            bits = bits << 1 | (data[at] < data[at + 1])
    return bits


RULES: dict[str, Rule] = {
    "every 2 s": every_two_seconds,
    "1 % of the pixels": one_percent,
    "difference hash, 2 bits": difference_hash,
}


def rules_compared() -> Iterator[Figure | str]:
    """Compare naive polling, 1 %, a perceptual hash and this gate."""
    films = [record_film(name) for name in EVENTS if name not in RULE_LEFT_OUT]
    outcomes = {name: [play_rule(film, rule) for film in films] for name, rule in RULES.items()}
    outcomes["this gate"] = [play_gate(film) for film in films]
    for name, found in outcomes.items():
        gate = name == "this gate"
        asks, lasts, misses = (2.5, 0.5, 0) if gate else (None, None, None)
        questions = [float(asked) for asked, _ in found]
        delays = [delay for _, delay in found if delay is not None]
        missed = len(found) - len(delays)
        what = f"{name}: questions a wait, mean"
        yield amount(what, questions, "", asks, middle=mean)
        yield amount(f"{name}: delay, mean", delays, "s", lasts, middle=mean)
        yield count_of(f"{name}: missed within 8 s", missed, len(found), misses)


def record_film(name: str) -> Film:
    film = Film(Recording(name, RULE_SEED))
    film.recording = asyncio.run(record(name, RULE_SEED, keep=film.keep))
    return film


def play_gate(film: Film) -> tuple[int, float | None]:
    outcome = Player(film.recording, LATENCY).play()
    return len(outcome.questions), outcome.delay


def play_rule(film: Film, rule: Rule) -> tuple[int, float | None]:
    """Return how often a rule asks, and how long after the truth it knows."""
    recording, shown = film.recording, film.pictures[0][1]
    instants = {at for at, _ in film.pictures} | {
        tick * POLL / 10 for tick in range(int(10 * recording.ended / POLL))
    }
    pictures = dict(film.pictures)
    asked, asked_at, looked_at = shown, 0.0, 0.0
    questions = [0.0]
    met = recording.shows(0.0)
    wanted = False
    for now in sorted(instants):
        if now in pictures:
            shown, looked_at = pictures[now], now
        wanted = wanted or rule(now, asked_at, shown, asked)
        if now < asked_at + LATENCY:
            continue
        if met and recording.truth is not None:
            answered = asked_at + LATENCY
            thinking = sum(
                max(0.0, min(at + LATENCY, answered) - max(at, recording.truth)) for at in questions
            )
            return len(questions), max(0.0, answered - recording.truth - thinking)
        if wanted:
            asked, asked_at, wanted = shown, now, False
            met = recording.shows(looked_at if recording.paints else now)
            questions.append(now)
    return len(questions), None
