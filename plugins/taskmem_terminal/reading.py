"""How a stream of terminal bytes becomes frames, whatever kind of target it is.

A *spot* says how far somebody has read. The next look begins a little before what was
shown last (`at`, at most three finished lines back), so that a phrase that was cut in
two is found; what is not longer there since `shown` is then seen once more.

    …finished line⏎ finished line⏎ finished line⏎ unfinished
                    ↑ at                                    ↑ shown
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from taskmem_terminal.echoes import Mood, Typist
from taskmem_terminal.painting import FED_BYTES, Painting
from taskmem_terminal.recording import COLUMNS
from taskmem_terminal.render import (
    STRING_BYTES,
    mask,
    open_string,
    paints,
    rendered,
    safe_cut,
)

LOOK_BYTES: Final = 1 << 18
"""What one look reads at most."""
TAIL_LINES: Final = 80
_TAIL_BYTES: Final = 32_768
_AGAIN_LINES: Final = 3
_AGAIN_BYTES: Final = 16_384
"""What is shown once more at most; an unfinished line that is longer is cut."""
_OVERLAP_BYTES: Final = 4096
"""Of a line that is cut; a phrase has to fit into it."""
_PAINTINGS: Final = 8


class Stream(Protocol):
    """Bytes, of which the oldest may be lost."""

    @property
    def begin(self) -> int:
        """The offset of the first byte that is kept."""
        ...

    @property
    def end(self) -> int:
        """The offset behind the last one."""
        ...

    def read(self, at: int, size: int) -> bytes:
        """Return up to `size` bytes from an offset."""
        ...


class Manner(NamedTuple):
    """How a terminal is to be read."""

    columns: int | None = None
    """Its width; None: nothing wraps."""
    rows: int = 0
    """Its height; 0: nothing is painted, it is no terminal."""
    interactive: bool = False
    """Whether somebody can be typing there."""


class Spot(NamedTuple):
    """How far somebody has read."""

    at: int
    """Where the next look begins."""
    shown: int
    """Up to where everything was shown."""
    mood: Mood = Mood.NOTHING
    """What is known at `at`."""
    column: int = 0
    """Where on its row the cursor stands at `at`."""

    def __str__(self) -> str:
        """Return it as `parse` reads it."""
        return f"{self.at}.{self.shown}.{self.mood.value}.{self.column}"

    @classmethod
    def parse(cls, text: str) -> Spot:
        """Read what `str` wrote.

        Raises:
            ValueError: It is no spot.
        """
        at, shown, mood, column = map(int, text.split("."))
        return cls(at, shown, Mood(mood), column)


class Page(NamedTuple):
    """What there is from one spot to the next."""

    text: str
    echoes: tuple[str, ...]
    next: Spot
    more: bool


class Tail(NamedTuple):
    """The end of all there is."""

    text: str
    echoes: tuple[str, ...]
    prompt: bool | None = None
    """Whether a shell said that it waits for a command; None: it never says."""


@dataclass(slots=True)
class Reader:
    """Reads one stream for several waits; remembers what would be costly to redo."""

    _tails: dict[int, tuple[int, Tail]] = field(
        default_factory=dict[int, tuple[int, Tail]]
    )
    _paintings: dict[int, Painting] = field(default_factory=dict[int, Painting])

    def page(self, stream: Stream, spot: Spot, manner: Manner) -> Page:
        """Return what came since a spot."""
        if spot.shown >= stream.end:
            return Page("", (), spot, more=False)
        at = spot.at
        lost = ""
        if at < stream.begin:
            at = stream.begin
            missed = max(0, stream.begin - spot.shown)
            if missed:
                lost = f"[taskmem: {missed:,} bytes were lost here]\n"
            spot = Spot(at, at)
        data = stream.read(at, LOOK_BYTES)
        masked = mask(data)
        reached = at + len(masked)
        if not masked:
            return Page(lost, (), Spot(at, stream.end), more=False)
        more = reached < stream.end
        unended = open_string(data)
        shown = masked[:unended] if len(masked) - unended < STRING_BYTES else masked
        back = _back(shown)
        lines = _Lines(shown.split(b"\n"), spot, manner, mark=back)
        again = Spot(at, reached, spot.mood, spot.column)
        return Page(
            lost + "\n".join(lines.shown),
            tuple(lines.echoes),
            Spot(at + back, reached, lines.mood_there) if back else again,
            more,
        )

    async def tail(self, stream: Stream, start: Spot, manner: Manner) -> Tail:
        """Return the last lines since a wait's start, or the screen painted since."""
        known = self._tails.get(start.shown)
        if known is not None and known[0] == stream.end:
            return known[1]
        begin = max(start.at, stream.begin, stream.end - _TAIL_BYTES)
        data = mask(stream.read(begin, stream.end - begin))
        if manner.rows and paints(data):
            tail = await self._screen(stream, start, manner)
        elif begin == start.at:
            tail = _last(_Lines(data.split(b"\n"), start, manner))
        else:
            # The first line is cut, unless it is all there is.
            raw = data.split(b"\n")
            tail = _last(_Lines(raw[1:] or raw, Spot(begin, begin), manner))
        if len(self._tails) >= _PAINTINGS:
            self._tails.clear()
        self._tails[start.shown] = (stream.end, tail)
        return tail

    async def _screen(self, stream: Stream, start: Spot, manner: Manner) -> Tail:
        size = (manner.columns or COLUMNS, manner.rows)
        painting = self._paintings.get(start.at)
        if painting is None or painting.size != size:
            if len(self._paintings) >= _PAINTINGS:
                self._paintings.clear()
            painting = self._paintings[start.at] = Painting(*size)
        end = stream.end
        begin = max(start.at, stream.begin, end - FED_BYTES, painting.at or 0)
        await painting.paint(stream.read(begin, end - begin), end)
        lines = painting.lines()
        typist = Typist(Mood.NOTHING, interactive=manner.interactive)
        typed = [line for line in lines if typist.read(line.encode(), [line])]
        return Tail("\n".join(lines), tuple(dict.fromkeys(typed)))


class _Lines:
    """Some raw lines, as they are read."""

    def __init__(
        self, raw: list[bytes], spot: Spot, manner: Manner, mark: int = -1
    ) -> None:
        """Read lines that begin at a spot; `mark` is an offset into them."""
        typist = Typist(spot.mood, interactive=manner.interactive)
        self.shown: list[str] = []
        self.echoes: dict[str, None] = {}
        self.mood_there = spot.mood
        """What is known at the mark."""
        at = 0
        ends = [len(line) + 1 for line in raw]
        raw = [b" " * spot.column + raw[0], *raw[1:]]
        for line, size, seen in zip(
            raw, ends, rendered(raw, manner.columns), strict=True
        ):
            if at == mark:
                self.mood_there = typist.mood
            if typist.read(line, seen):
                self.echoes.update(dict.fromkeys(one for one in seen if one))
            self.shown += seen
            at += size
        self.mood = typist.mood
        """What is known at their end."""


def _last(lines: _Lines) -> Tail:
    shown = lines.shown
    while shown and not shown[-1]:
        shown.pop()
    kept = shown[-TAIL_LINES:]
    here = tuple(one for one in lines.echoes if one in kept)
    return Tail("\n".join(kept), here, _prompt(lines.mood))


def _prompt(mood: Mood) -> bool | None:
    return Mood.INPUT in mood if Mood.MARKED in mood else None


def _back(masked: bytes) -> int:
    """Return where the next look begins, in the data of this one."""
    size = len(masked)
    begin = masked.rfind(b"\n") + 1
    if size - begin > _AGAIN_BYTES:
        return safe_cut(masked, size - _OVERLAP_BYTES)
    for _ in range(_AGAIN_LINES):
        before = masked.rfind(b"\n", 0, max(begin - 1, 0)) + 1
        if begin == 0 or size - before > _AGAIN_BYTES:
            break
        begin = before
    return begin
