"""Records scenes for `replay`.

python -m tests.plugins.vision.recorder --seed 7 toast typing
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from zlib import crc32

from taskmem_hookspecs import Frame, Target, Watch
from taskmem_vision.pictures import BLOCK, SHRINK, Look, Thumbnail
from taskmem_vision.question_policy import Block
from taskmem_vision.sensor import ScreenSensor
from tests.plugins.vision.replay import FOLDER, Recording, block_of, number_of
from tests.support.scenes import SCENES, Scene
from tests.support.screens import Screen

AFTERWARDS = 8.0
"""Seconds that are recorded after a condition became true."""
NEVER = 1e6


async def record(
    name: str,
    seed: int,
    seconds: float | None = None,
    keep: Callable[[float, Look], None] = lambda *_: None,
) -> Recording:
    """Play a scene on a screen of its own, and record it.

    `keep` is shown every look that differs, with its instant in the recording.
    """
    plot = SCENES[name]
    # Its own for every scene, so that no rule is tuned to one instant.
    after = random.Random(f"{name} {seed}").uniform(9, 16)  # noqa: S311
    lasts = seconds or after + AFTERWARDS + (0 if plot.paints else 5)
    with (
        Screen() as screen,
        Scene(screen, name, seed=seed, after=after if plot.ends else NEVER) as scene,
    ):
        scene.ready()
        scheme, _, title = scene.target.partition(":")
        watch = await ScreenSensor(screen.environ).watch(Target(scheme=scheme, name=title))
        try:
            began = asyncio.get_running_loop().time()
            wall = time.time() - began
            first = (await watch.here()).picture
            looks = await looks_of(watch, lasts, lambda look: keep(look.at - began, look))
        finally:
            await watch.close()
        recording = Recording(name, seed, paints=plot.paints)
        recording.ended = round(lasts, 3)
        recording.looks = [(round(at - began, 3), marks) for at, marks in looks if marks]
        numbers = {number for _, marks in looks for number, _ in marks}
        recording.first = [
            (number, mark_of(first.sight, block_of(number))) for number in sorted(numbers)
        ]
        if scene.truths:
            [truth] = scene.truths[:1]
            recording.truth = round(truth["t"] - wall - began, 3)
            if truth["until"] is not None:
                recording.until = round(truth["until"] - wall - began, 3)
        return recording


async def looks_of(
    watch: Watch, seconds: float, keep: Callable[[Look], None]
) -> list[tuple[float, list[tuple[int, int]]]]:
    """Return what changes on a target, which is looked at whenever it does."""
    looks: list[tuple[float, list[tuple[int, int]]]] = []
    seen = -1

    def take(frame: Frame) -> None:
        nonlocal seen
        look = frame.picture
        if not isinstance(look, Look) or look.number == seen:
            return
        for motion in look.track.list_motions_since(seen):
            blocks = sorted(motion.blocks)
            marks = [(number_of(block), mark_of(look.sight, block)) for block in blocks]
            looks.append((motion.at, marks))
        seen = look.number
        keep(look)

    take(await watch.here())
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while True:
                await watch.wait_for_change()
                take(await watch.look("", ""))
    return looks


def mark_of(sight: Thumbnail, block: Block) -> int:
    """Return a number that is the same where a block looks the same."""
    corner = [side * BLOCK // SHRINK for side in block]
    box = (*corner, *(side + BLOCK // SHRINK for side in corner))
    return crc32(sight._small.crop(box).convert("RGB").tobytes()) & 0xFFFF


def main() -> None:
    parser = argparse.ArgumentParser(description="Record scenes for tests of the gate.")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("scenes", nargs="*", choices=[*SCENES, []])
    given = parser.parse_args()
    for name in given.scenes or [each for each in SCENES if each != "plain"]:
        asyncio.run(record(name, given.seed, given.seconds)).save(given.folder)


if __name__ == "__main__":
    main()
