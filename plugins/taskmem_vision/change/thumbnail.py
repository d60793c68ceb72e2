"""A small copy of a picture, for comparison.

A thumbnail has a quarter of the picture's width and height, in colour: a dot that turns from green
to red may keep its brightness. It is divided into blocks of 32 picture pixels. Letters of eight
points and marks of twelve pixels change two small pixels or more; noise of a pointer does not.
"""

from __future__ import annotations

from copy import copy
from typing import Final

from PIL import Image, ImageChops, ImageOps

from taskmem_vision.change.motion import Block

SHRINK: Final = 4
"""Ratio between the sides of picture and thumbnail."""
BLOCK: Final = 32
"""Side of a block. Picture pixels."""
LEVELS: Final = 12
"""How much one colour of a small pixel must differ, of 255."""
PIXELS: Final = 2
"""How many small pixels of a block must differ."""

_SIDE: Final = BLOCK // SHRINK
_LEAST: Final = PIXELS * 255 // (_SIDE * _SIDE)
_STEP: Final = [255 if level > LEVELS else 0 for level in range(256)]


class Thumbnail:
    """A look reduced for comparison."""

    def __init__(self, pixels: Image.Image) -> None:
        """Reduce a picture with three or more channels; all pictures must have the same order."""
        self.size = pixels.size
        """Size of the picture: width, height."""
        self._small = pixels.reduce(SHRINK)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Thumbnail)
            and self.size == other.size
            and ImageChops.difference(self._small, other._small).getbbox() is None
        )

    __hash__ = None  # type: ignore[assignment]

    def find_differences(self, other: Thumbnail) -> frozenset[Block]:
        """Return the blocks that differ; all blocks if the sizes differ."""
        if self.size != other.size:
            return list_all_blocks(self.size)
        apart = ImageChops.difference(self._small, other._small)
        red, green, blue = apart.split()[:3]
        most = ImageChops.lighter(ImageChops.lighter(red, green), blue)
        # Pad to whole blocks, so that a narrow block at the edge does not count more.
        columns, rows = count_blocks(self.size)
        whole = Image.new("L", (columns * _SIDE, rows * _SIDE))
        whole.paste(most.point(_STEP))  # pyright: ignore[reportUnknownMemberType]
        means = whole.reduce(_SIDE).tobytes()
        return frozenset(
            (index % columns, index // columns)
            for index, mean in enumerate(means)
            if mean >= _LEAST
        )

    def renew_blocks(self, newer: Thumbnail, blocks: frozenset[Block]) -> Thumbnail:
        """Return this thumbnail with some blocks taken from a newer one of the same size."""
        columns, rows = count_blocks(self.size)
        new = bytes(255 * ((c, r) in blocks) for r in range(rows) for c in range(columns))
        mask = Image.frombytes("L", (columns, rows), new)
        whole = ImageOps.scale(mask, _SIDE, Image.Resampling.NEAREST)
        small = self._small.copy()
        small.paste(newer._small, mask=whole.crop((0, 0, *small.size)))
        made: Thumbnail = copy(self)
        made._small = small
        return made


def count_blocks(size: tuple[int, int]) -> tuple[int, int]:
    """Return a picture's number of blocks: columns, rows."""
    width, height = size
    return -(-width // BLOCK), -(-height // BLOCK)


def list_all_blocks(size: tuple[int, int]) -> frozenset[Block]:
    """Return all blocks of a picture."""
    columns, rows = count_blocks(size)
    return frozenset((c, r) for c in range(columns) for r in range(rows))


def find_blocks_in_box(
    box: tuple[float, float, float, float], size: tuple[int, int]
) -> frozenset[Block]:
    """Return the blocks that a box touches; the box is left, top, right, bottom in pixels."""
    left, top, right, bottom = box
    columns, rows = count_blocks(size)
    return frozenset(
        (c, r)
        for c in range(max(0, int(left // BLOCK)), min(columns, -int(-right // BLOCK)))
        for r in range(max(0, int(top // BLOCK)), min(rows, -int(-bottom // BLOCK)))
    )


def find_box_around(
    blocks: frozenset[Block], size: tuple[int, int], margin: int = BLOCK
) -> tuple[int, int, int, int]:
    """Return the box around blocks with a margin, in picture pixels."""
    columns = [column for column, _ in blocks]
    rows = [row for _, row in blocks]
    width, height = size
    return (
        max(0, min(columns) * BLOCK - margin),
        max(0, min(rows) * BLOCK - margin),
        min(width, (max(columns) + 1) * BLOCK + margin),
        min(height, (max(rows) + 1) * BLOCK + margin),
    )
