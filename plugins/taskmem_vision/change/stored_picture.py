"""Store looks to be shown later, encoded and small."""

from __future__ import annotations

import io
from collections.abc import Collection, Sequence
from typing import Final

from PIL import Image

from taskmem_vision.change.look import TITLE, Look, encode_jpeg, shrink_image
from taskmem_vision.change.motion import Block
from taskmem_vision.change.thumbnail import Thumbnail, find_box_around

WHOLE: Final = 1536
"""Longest side of a picture that is sent. Pixels."""
DETAIL: Final = 768
"""Longest side of a part that is sent at original size; whole lines may be larger. Pixels."""
MOST: Final = 3
"""How many shots are stored for one question."""

Box = tuple[int, int, int, int]
"""Left, top, right, bottom, in picture pixels."""


class Shot:
    """`Picture` of a stored look."""

    def __init__(self, look: Look, focus: Collection[Block], *, lines: bool = False) -> None:
        """Encode a look and the part with news.

        Args:
            look: The look.
            focus: Blocks with news.
            lines: Show the whole lines around the news: if a line changes from the middle on,
                its beginning belongs to the news.
        """
        self.number: Final = look.number
        self.focus: Final = frozenset(focus)
        self.at: Final = look.at
        self.size = look.size
        self.box: Final = (_find_lines_box if lines else _find_detail_box)(focus, look.size)
        """The part with news; None: there is none, or it exceeds `DETAIL` (not with `lines`)."""
        self.whole: Final = look.jpeg(WHOLE)
        self.sight: Final[Thumbnail] = look.sight
        self.detail: Final = look.crop(self.box) if self.box else None
        """The box at original size."""

    @property
    def is_shrunk(self) -> bool:
        """Whether the whole is smaller than the original picture."""
        return max(self.size) > WHOLE

    def png(self) -> bytes:
        """Return the stored picture as PNG."""
        held = io.BytesIO()
        self._image.save(held, "PNG", compress_level=1)
        return held.getvalue()

    def jpeg(self, longest: int) -> bytes:
        """Return it with sides of at most `longest` pixels."""
        if longest >= min(WHOLE, max(self.size)):
            return self.whole
        return encode_jpeg(shrink_image(self._image, longest))

    @property
    def _image(self) -> Image.Image:
        return Image.open(io.BytesIO(self.whole))


def _find_detail_box(focus: Collection[Block], size: tuple[int, int]) -> Box | None:
    """Return the box around the news; None: there is none, or it is too large to be sent."""
    box = _find_focus_box(focus, size)
    if box is None or box[2] - box[0] > DETAIL or box[3] - box[1] > DETAIL:
        return None
    return box


def _find_lines_box(focus: Collection[Block], size: tuple[int, int]) -> Box | None:
    """Return the box of the lines with news, over the full width."""
    box = _find_focus_box(focus, size)
    return box and (0, box[1], size[0], box[3])


def _find_focus_box(focus: Collection[Block], size: tuple[int, int]) -> Box | None:
    blocks = frozenset(block for block in focus if block != TITLE)
    return find_box_around(blocks, size) if blocks else None


def pick_telling_shot(shots: Sequence[Shot]) -> Shot | None:
    """Return the newest shot with news; without one, the newest.

    The last shot may only show the state after a notification has disappeared.
    """
    new = (shot for shot in reversed(shots) if shot.detail)
    return next(new, shots[-1] if shots else None)


def select_shots(shots: Sequence[Shot], new: Shot) -> list[Shot]:
    """Return the `MOST` shots to keep, oldest first: those that differ most.

    The first and the newest are always kept: something may have come and gone in between. Two shots
    of one look are kept if each shows other news.
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
