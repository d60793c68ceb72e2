"""The inputs in the tree: a file for each surface, an input a line, in base64."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "corpus"


def read_inputs(surface: str) -> list[bytes]:
    """Return the inputs of a surface, shortest first."""
    return [b64decode(line) for line in (FOLDER / f"{surface}.txt").read_text().splitlines()]


def write_inputs(surface: str, inputs: Iterable[bytes]) -> None:
    """Replace the inputs of a surface."""
    lines = [b64encode(each).decode() for each in sorted({*inputs}, key=lambda i: (len(i), i))]
    (FOLDER / f"{surface}.txt").write_text("".join(f"{line}\n" for line in lines))
