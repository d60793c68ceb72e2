"""What deserves a question: this gate against the rules of others.

All are played the same recordings, made in the same run: programs on a real screen, up
to five looks a second. A question takes 1.2 s, and one is asked at a time; a look that
calls for one meanwhile is asked about afterwards. Every rule asks once at the start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import mean

from figures import Figure, amount, count_of
from PIL import Image, ImageChops

from taskmem_vision.change.pictures import Look
from tests.plugins.vision.recorder import record
from tests.plugins.vision.replay import Player, Recording
from tests.support.scenes import SCENES

SEED = 11
"""Another than those that the gate was made on."""
LATENCY = 1.2
POLL = 2.0
HALF = 2
LEVELS = 12
EVENTS = [name for name, plot in SCENES.items() if plot.ends]
LEFT_OUT = ("plain", "steered")


@dataclass
class Film:
    """A recording with its pictures, at half their size."""

    recording: Recording
    pictures: list[tuple[float, Image.Image]] = field(default_factory=list)

    def keep(self, at: float, look: Look) -> None:
        """Keep a look."""
        self.pictures.append((at, look.image.reduce(HALF)))


Rule = Callable[[float, float, Image.Image, Image.Image], bool]
"""Whether to ask: now, when it was asked last, the picture now, the one asked about."""


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
    films = [record_film(name) for name in EVENTS if name not in LEFT_OUT]
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
    film = Film(Recording(name, SEED))
    film.recording = asyncio.run(record(name, SEED, keep=film.keep))
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
