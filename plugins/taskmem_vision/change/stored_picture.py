"""What is kept of a look to be shown later: encoded, and small."""

from __future__ import annotations

import io
from collections.abc import Collection, Sequence
from typing import Final

from PIL import Image

from taskmem_vision.change.look import TITLE, Look, encode_jpeg, shrink_image
from taskmem_vision.change.motion import Block
from taskmem_vision.change.thumbnail import Thumbnail, find_box_around

WHOLE: Final = 1536
"""The longest side of a picture that is sent, in pixels."""
DETAIL: Final = 768
"""The longest side of what is shown of it at its own size."""
MOST: Final = 3
"""Shots that are kept for one question."""

Box = tuple[int, int, int, int]
"""Left, top, right, bottom, in pixels of the picture."""


class Shot:
    """Plays `Picture`."""

    def __init__(self, look: Look, focus: Collection[Block], *, lines: bool = False) -> None:
        """Take a look, and where in it something is new.

        Args:
            look: What was seen.
            focus: Where something is new.
            lines: Show what is new with the whole of its lines: where a line changes
                from the middle on, its beginning is no news and belongs to it.
        """
        self.number: Final = look.number
        self.focus: Final = frozenset(focus)
        self.at: Final = look.at
        self.size = look.size
        self.box: Final = (_find_lines_box if lines else _find_detail_box)(focus, look.size)
        """Where something is new; None: nowhere, or everywhere."""
        self.whole: Final = look.jpeg(WHOLE)
        self.sight: Final[Thumbnail] = look.sight
        self.detail: Final = look.crop(self.box) if self.box else None
        """The box at its own size."""

    @property
    def is_shrunk(self) -> bool:
        """Whether the whole is smaller than the picture was."""
        return max(self.size) > WHOLE

    def png(self) -> bytes:
        """Return it, without what is lost already."""
        held = io.BytesIO()
        self._image.save(held, "PNG", compress_level=1)
        return held.getvalue()

    def jpeg(self, longest: int) -> bytes:
        """Return it with sides of so many pixels at most."""
        if longest >= min(WHOLE, max(self.size)):
            return self.whole
        return encode_jpeg(shrink_image(self._image, longest))

    @property
    def _image(self) -> Image.Image:
        return Image.open(io.BytesIO(self.whole))


def _find_detail_box(focus: Collection[Block], size: tuple[int, int]) -> Box | None:
    """Return the box round what is new, no larger than can be shown."""
    box = _find_focus_box(focus, size)
    if box is None or box[2] - box[0] > DETAIL or box[3] - box[1] > DETAIL:
        return None
    return box


def _find_lines_box(focus: Collection[Block], size: tuple[int, int]) -> Box | None:
    """Return the box of the lines in which something is new, from side to side."""
    box = _find_focus_box(focus, size)
    return box and (0, box[1], size[0], box[3])


def _find_focus_box(focus: Collection[Block], size: tuple[int, int]) -> Box | None:
    blocks = frozenset(block for block in focus if block != TITLE)
    return find_box_around(blocks, size) if blocks else None


def pick_telling_shot(shots: Sequence[Shot]) -> Shot | None:
    """Return the newest shot that shows something new, or else the newest.

    What comes last may only show how things are now that a notification has gone.
    """
    new = (shot for shot in reversed(shots) if shot.detail)
    return next(new, shots[-1] if shots else None)


def select_shots(shots: Sequence[Shot], new: Shot) -> list[Shot]:
    """Return the shots to keep, oldest first: those that differ most, `MOST` of them.

    The first and the newest always stay: something may have come and gone between. Of
    one look, two stay where each shows something else as new.
    """
    held = [shot for shot in shots if shot.number != new.number or not shot.focus <= new.focus]
    held.append(new)
    while len(held) > MOST:
        gaps = [
            len(held[index].sight.find_differences(held[index - 1].sight))
            for index in range(1, len(held) - 1)
        ]
        del held[1 + gaps.index(min(gaps))]
    return held
