"""Counts the files and functions that a plain `task_update` walks through, in process on SQLite.

Run it by hand: `.venv/bin/python bench/walk.py`. From the tool's call to its answer it counts the
product's files that are entered, the functions that are entered, and the returns into a file that
was left before. Generator expressions and lambdas are left out, and so is whatever is not the
product's. `--list` prints the walk.
"""

from __future__ import annotations

import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for what the tests play

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.tools import catalog
from taskmem_sqlmodel.store import SqlStore
from tests.support.world import World

ROOT = Path(__file__).resolve().parent.parent
PRODUCT_FOLDERS = ("openclaw_taskmem", "hookspecs", "plugins")


class Step(NamedTuple):
    """A function that is entered."""

    file: str
    function: str


def record_update() -> list[Step]:
    """Return the functions that an update enters, in order, each time that it enters them."""
    steps: list[Step] = []

    def note_call(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and (file := find_product_file(frame.f_code)) is not None:
            steps.append(Step(file, frame.f_code.co_qualname))

    with tempfile.TemporaryDirectory() as folder:
        store = SqlStore(f"sqlite:///{folder}/taskmem.db")
        world = World(store)
        world.narrate(world.register("Another"), "Step 1 done")  # loads what is loaded once
        given = {"task_id": world.register(), "message": "Step 1 done"}
        sys.setprofile(note_call)
        try:
            catalog.answer_call(world.context, "task_update", given, Caller())
        finally:
            sys.setprofile(None)
            store.close()
    return steps


def find_product_file(code: CodeType) -> str | None:
    """Return the path of a function's file below the root; None if it is not counted."""
    path = Path(code.co_filename)
    if code.co_name.startswith("<") or not path.is_relative_to(ROOT):
        return None
    relative = path.relative_to(ROOT)
    return str(relative) if relative.parts[0] in PRODUCT_FOLDERS else None


def count_moves(steps: list[Step]) -> int:
    """Return how often a step is in another file than the one before it."""
    files = [step.file for step in steps]
    return 1 + sum(one != other for one, other in pairwise(files))


def main(words: list[str]) -> None:
    steps = record_update()
    if "--list" in words:
        print(*(f"{step.file}: {step.function}" for step in steps), sep="\n")
    files = {step.file for step in steps}
    returns = count_moves(steps) - len(files)
    print(f"files {len(files)}; functions {len({*steps})}; calls {len(steps)}; returns {returns}")


if __name__ == "__main__":
    main(sys.argv[1:])
