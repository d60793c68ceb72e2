"""Pictures of a target: thumbnails for comparison, looks with their motion, and stored shots.

A thumbnail has a quarter of the picture's width and height, in colour: a dot that turns from green
to red may keep its brightness. It is divided into blocks of 32 picture pixels. Letters of eight
points and marks of twelve pixels change two small pixels or more; noise of a pointer does not.

A judge takes looks while a judgement runs; changes that come and go meanwhile are kept until they
are judged.
"""

from __future__ import annotations

import asyncio
import io
import itertools
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import copy
from functools import cached_property
from typing import Any, Final

from PIL import Image, ImageChops, ImageOps

from taskmem_hookspecs import Picture
from taskmem_vision.question_policy import (
    Block,
    Motion,
    MotionHistory,
    PictureQuestionReason,
    QuestionPolicy,
)

SHRINK: Final = 4
"""Ratio between the sides of picture and thumbnail."""
BLOCK: Final = 32
"""Side of a block. Picture pixels."""
_LEAST_DIFFERENCE: Final = 12
"""How much one colour of a small pixel must differ, of 255."""
_LEAST_PIXELS: Final = 2
"""How many small pixels of a block must differ."""

_SIDE: Final = BLOCK // SHRINK
_LEAST_MEAN: Final = _LEAST_PIXELS * 255 // (_SIDE * _SIDE)
Box = tuple[int, int, int, int]
"""Left, top, right, bottom, in picture pixels."""
_STEP: Final = [255 if level > _LEAST_DIFFERENCE else 0 for level in range(256)]


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
            if mean >= _LEAST_MEAN
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


def find_box_around(blocks: frozenset[Block], size: tuple[int, int]) -> Box:
    """Return the box around blocks with a margin of one block, in picture pixels."""
    columns = [column for column, _ in blocks]
    rows = [row for _, row in blocks]
    width, height = size
    return (
        max(0, (min(columns) - 1) * BLOCK),
        max(0, (min(rows) - 1) * BLOCK),
        min(width, (max(columns) + 2) * BLOCK),
        min(height, (max(rows) + 2) * BLOCK),
    )


_JPEG_QUALITY: Final = 80
"""Quality of the JPEGs."""
MOST_MOTIONS: Final = 512
"""How many motions are remembered: over a minute at five looks a second."""
TITLE: Final = (-64, -64)
"""A pseudo-block that changes when the target's title does."""

_numbers = itertools.count()


class LookHistory:
    """All looks at one target, compared with each other."""

    def __init__(self) -> None:
        self.rhythms: Final = MotionHistory()
        self._motions: deque[tuple[int, Motion]] = deque(maxlen=MOST_MOTIONS)
        self._last: Look | None = None
        self._noted: Thumbnail | None = None
        """The reference for comparison: each block as of its last change.

        So a slow fade counts as a change in the end.
        """
        self._title: str | None = None
        self.moved_at = float("-inf")
        """When anything last differed."""

    def add_look(self, now: float, pixels: Image.Image, title: str | None = None) -> Look:
        """Return the look with these pixels; the previous look if nothing differs.

        `now` is in monotonic seconds; `pixels` are RGB, or four bytes in the order BGRX. `title`:
        the target's title; None: it has none.
        """
        look, last = Look(self, now, pixels), self._last
        if last is not None and look.sight == last.sight and title == self._title:
            return last
        changed: frozenset[Block] = frozenset()
        anew = last is not None and last.size != look.size
        if self._noted is not None:
            changed = look.sight.find_differences(self._noted)
        if self._noted is None or anew:
            self._noted = look.sight
        elif changed:
            self._noted = self._noted.renew_blocks(look.sight, changed)
        if last is not None and title != self._title:
            changed |= {TITLE}
        self._last, self._title = look, title
        if changed:
            self.moved_at = now
        motion = self.rhythms.record_changes(now, changed, anew=anew)
        self._motions.append((look.number, motion))
        return look

    def list_motions_since(self, number: int) -> Iterator[Motion]:
        """Yield the motions after a look, oldest first."""
        newer = itertools.takewhile(lambda each: each[0] > number, reversed(self._motions))
        return reversed([motion for _, motion in newer])


class Look:
    """`Picture` of one look."""

    def __init__(self, track: LookHistory, now: float, pixels: Image.Image) -> None:
        """Set the pixels; those with four bytes are in the order BGRX."""
        self.track: Final = track
        self.number: Final = next(_numbers)
        """Grows with every look, across all targets."""
        self.at: Final = now
        self.size = pixels.size
        self._pixels = pixels
        # All waits on a target request the same encodings.
        self._encodings: dict[object, bytes] = {}

    @cached_property
    def sight(self) -> Thumbnail:
        """Thumbnail for comparison with other looks."""
        return Thumbnail(self._pixels)

    @property
    def image(self) -> Image.Image:
        """The pixels as RGB; not cached, because they are large."""
        return _to_rgb(self._pixels)

    def png(self) -> bytes:
        """Return it losslessly."""
        if "png" not in self._encodings:
            held = io.BytesIO()
            self.image.save(held, "PNG", compress_level=1)
            self._encodings["png"] = held.getvalue()
        return self._encodings["png"]

    def jpeg(self, longest: int) -> bytes:
        """Return it with sides of at most `longest` pixels."""
        if longest not in self._encodings:
            self._encodings[longest] = _encode_jpeg(_to_rgb(_shrink_image(self._pixels, longest)))
        return self._encodings[longest]

    def crop(self, box: Box) -> bytes:
        """Return a part at original size."""
        if box not in self._encodings:
            self._encodings[box] = _encode_jpeg(_to_rgb(self._pixels.crop(box)))
        return self._encodings[box]


def to_look(picture: Picture, track: LookHistory | None, now: float) -> Look:
    """Return the look of a picture.

    `track`: the earlier looks; None: there are none. `now` is in monotonic seconds.
    """
    if isinstance(picture, Look):
        return picture
    pixels = Image.open(io.BytesIO(picture.png())).convert("RGB")
    return (track or LookHistory()).add_look(now, pixels)


def _to_rgb(pixels: Image.Image) -> Image.Image:
    """Return the pixels as three bytes: red, green, blue."""
    if pixels.mode == "RGB":
        return pixels
    data = pixels.tobytes()
    return Image.frombuffer("RGB", pixels.size, data, "raw", "BGRX", 0, 1)


def _shrink_image(image: Image.Image, longest: int) -> Image.Image:
    """Return an image with sides of at most `longest` pixels."""
    scale = longest / max(image.size)
    if scale >= 1:
        return image
    width, height = (max(1, round(side * scale)) for side in image.size)
    return image.resize((width, height), Image.Resampling.BOX)  # pyright: ignore[reportUnknownMemberType]


def _encode_jpeg(image: Image.Image) -> bytes:
    """Return an image as JPEG."""
    held = io.BytesIO()
    # No colour subsampling, because letters often differ from their background only in colour.
    image.save(held, "JPEG", quality=_JPEG_QUALITY, subsampling=0)
    return held.getvalue()


WHOLE_SIDE: Final = 1536
"""Longest side of a picture that is sent. Pixels."""
DETAIL_SIDE: Final = 768
"""Longest side of a part that is sent at original size; whole lines may be larger. Pixels."""
MOST_SHOTS: Final = 3
"""How many shots are stored for one question."""


class Shot:
    """`Picture` of a stored look."""

    def __init__(self, look: Look, focus: Collection[Block], *, lines: bool = False) -> None:
        """Encode a look and the part with news.

        `focus` are the blocks with news; `lines` shows the whole lines around them: if a line
        changes from the middle on, its beginning belongs to the news.
        """
        self.number: Final = look.number
        self.focus: Final = frozenset(focus)
        self.at: Final = look.at
        self.size = look.size
        self.box: Final = _find_news_box(self.focus, look.size, lines=lines)
        """Box of the news; None: there is none, or it exceeds `DETAIL_SIDE` (not with `lines`)."""
        self.whole: Final = look.jpeg(WHOLE_SIDE)
        self.sight: Final[Thumbnail] = look.sight
        self.detail: Final = look.crop(self.box) if self.box else None
        """The box at original size."""

    @property
    def is_shrunk(self) -> bool:
        """True if the whole is smaller than the original picture."""
        return max(self.size) > WHOLE_SIDE

    def png(self) -> bytes:
        """Return the stored picture as PNG."""
        held = io.BytesIO()
        self._image.save(held, "PNG", compress_level=1)
        return held.getvalue()

    def jpeg(self, longest: int) -> bytes:
        """Return it with sides of at most `longest` pixels."""
        if longest >= min(WHOLE_SIDE, max(self.size)):
            return self.whole
        return _encode_jpeg(_shrink_image(self._image, longest))

    @property
    def _image(self) -> Image.Image:
        return Image.open(io.BytesIO(self.whole))


def _find_news_box(focus: frozenset[Block], size: tuple[int, int], *, lines: bool) -> Box | None:
    """Return the box around the news, or of its whole lines.

    None: there is none, or it is too large to be sent.
    """
    blocks = focus - {TITLE}
    if not blocks:
        return None
    left, top, right, bottom = box = find_box_around(blocks, size)
    if lines:
        return 0, top, size[0], bottom
    return box if right - left <= DETAIL_SIDE and bottom - top <= DETAIL_SIDE else None


def pick_telling_shot(shots: Sequence[Shot]) -> Shot | None:
    """Return the newest shot with news; without one, the newest.

    The last shot may only show the state after a notification has disappeared.
    """
    new = (shot for shot in reversed(shots) if shot.detail)
    return next(new, shots[-1] if shots else None)


def select_shots(shots: Sequence[Shot], new: Shot) -> list[Shot]:
    """Return the `MOST_SHOTS` shots to keep, oldest first: those that differ most.

    The first and the newest are always kept: something may have come and gone in between. Two shots
    of one look are kept if each shows other news.
    """
    held = [shot for shot in shots if shot.number != new.number or not shot.focus <= new.focus]
    held.append(new)
    while len(held) > MOST_SHOTS:
        gaps = [
            len(held[index].sight.find_differences(held[index - 1].sight))
            for index in range(1, len(held) - 1)
        ]
        del held[1 + gaps.index(min(gaps))]
    return held


# --- pending judgements -------------------------------------------------------


JUDGEMENT_GAP: Final = 0.05
"""Time between two looks while a judgement runs. Seconds."""
LAST_SECONDS: Final = 3.0
"""Minimum time before a wait's timeout at which the last look is judged. Seconds."""
_SHOT_AGE: Final = 1.0
"""Age after which a shot no longer shows the current state. Seconds."""


def loop_time() -> float:
    """Return the event loop's time in seconds, which looks use."""
    return asyncio.get_running_loop().time()


def consume_exception(judging: asyncio.Task[Any]) -> None:
    """Mark a task's exception as retrieved, so that asyncio does not log it."""
    if not judging.cancelled():
        judging.exception()


class JudgementScheduler:
    """Decides what one judge is shown of one target, and when. Times are monotonic."""

    def __init__(self, *, lines: bool = False) -> None:
        """`lines`: show new parts with the whole of their lines."""
        self._lines = lines
        self.look: Look | None = None
        """The last look; None: there was none."""
        self.shown: Shot | None = None
        """The last shot that was judged without result; None: there was none."""
        self._track = LookHistory()
        self._gate = QuestionPolicy(self._track.rhythms)
        self._kept: list[Shot] = []
        self._judged: Thumbnail | None = None
        """The target as it was last judged as a whole, or is being judged."""
        self._judged_before: Thumbnail | None = None
        """The target as it was judged as a whole before the current judgement."""
        self._judged_number: int | None = None
        """The last look judged as a whole without result; None: there was none."""

    def add_look(self, look: Look, now: float) -> None:
        """Add a look, with the motions since the previous one."""
        if look.track is not self._track:
            self._track, self._gate = look.track, QuestionPolicy(look.track.rhythms)
        elif self.look is not None:
            for motion in look.track.list_motions_since(self.look.number):
                self._gate.observe_motion(motion)
        self.look = look
        if focus := self._gate.take_ripe_blocks(now, self._find_unlike_blocks):
            for shot in self._kept:
                if shot.number == look.number:
                    focus |= shot.focus
            self._kept = select_shots(self._kept, Shot(look, focus, lines=self._lines))

    @property
    def has_new_look(self) -> bool:
        """True if the last look has not been judged as a whole."""
        return self.look is not None and self.look.number != self._judged_number

    def find_due_reason(self, now: float) -> PictureQuestionReason | None:
        """Return why to judge now; None: not due."""
        return self._gate.find_due_reason(now)

    def take_shots(
        self, now: float, reason: PictureQuestionReason, *, whole: bool = True
    ) -> list[Shot]:
        """Return the shots to judge now, oldest first, and mark them as being judged.

        `now` is the time of the last look. `whole`: the whole last shot is judged, not only what is
        new in it; then later news in the same look does not count.
        """
        shots, self._kept = self._kept, []
        look, last = self.look, shots[-1] if shots else None
        recent = reason in (PictureQuestionReason.NOVEL, PictureQuestionReason.SETTLE) and (
            last is not None and now - last.at <= _SHOT_AGE
        )
        if look is not None and not recent and (not last or last.number != look.number):
            shots = select_shots(shots, Shot(look, ()))
        self._judged_before = self._judged
        if shots and whole:
            self._judged = shots[-1].sight
        self._gate.record_question(now, reason)
        return shots

    def record_failure(self, shots: Iterable[Shot], again_at: float) -> None:
        """Put back shots that could not be judged; they are due again at `again_at`."""
        held, self._kept = [*shots, *self._kept], []
        for shot in held:
            self._kept = select_shots(self._kept, shot)
        self._judged = self._judged_before
        self._gate.record_failure(again_at)

    def record_no_result(
        self,
        shots: Sequence[Shot],
        now: float,
        again_seconds: float | None = None,
        *,
        whole: bool = True,
    ) -> None:
        """Record that the judgement did not decide the wait.

        `again_seconds`: when to look again even if nothing changes; None: not needed. `whole`: the
        whole last shot was judged.
        """
        if shots:
            self.shown = shots[-1]
            if whole:
                self._judged_number = shots[-1].number
        self._gate.record_no_result(now, again_seconds)

    def watch_region(self, part: tuple[float, float, float, float] | None) -> None:
        """Postpone what happens outside a part of the target.

        The part is left, top, right, bottom, from 0 to 1; None: everything counts.
        """
        region = None
        if part is not None and self.look is not None:
            width, height = self.look.size
            left, top, right, bottom = part
            box = (left * width, top * height, right * width, bottom * height)
            region = find_blocks_in_box(box, self.look.size) or None
        self._gate.watch_region(region)

    def next_look_at(self, now: float) -> float | None:
        """Return when to look again even if nothing changes; None: not needed."""
        return self._gate.next_look_at(now) if self.look is not None else None

    def still_seconds(self, now: float) -> float:
        """Return for how long nothing has moved."""
        return now - self._track.moved_at

    def _find_unlike_blocks(self) -> frozenset[Block] | None:
        """Return where the last look differs from the last one judged whole; None: none was."""
        if self._judged is None or self.look is None:
            return None
        return self.look.sight.find_differences(self._judged) | {TITLE}
