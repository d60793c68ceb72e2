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

from taskmem_terminal.recording import COLUMNS
from taskmem_terminal.render import (
    STRING_BYTES,
    find_open_string,
    find_safe_cut,
    mask_strings,
    moves_cursor,
    render_lines,
)
from taskmem_terminal.screen_emulation import FED_BYTES, ScreenEmulator
from taskmem_terminal.typed_lines import TypedLineDetector, TypingState

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


class ReadOptions(NamedTuple):
    """How a terminal is to be read."""

    columns: int | None = None
    """Its width; None: nothing wraps."""
    rows: int = 0
    """Its height; 0: nothing is painted, it is no terminal."""
    interactive: bool = False
    """Whether somebody can be typing there."""


class StreamPosition(NamedTuple):
    """How far somebody has read."""

    at: int
    """Where the next look begins."""
    shown: int
    """Up to where everything was shown."""
    mood: TypingState = TypingState.NOTHING
    """What is known at `at`."""
    column: int = 0
    """Where on its row the cursor stands at `at`."""

    def __str__(self) -> str:
        """Return it as `parse` reads it."""
        return f"{self.at}.{self.shown}.{self.mood.value}.{self.column}"

    @classmethod
    def parse(cls, text: str) -> StreamPosition:
        """Read what `str` wrote.

        Raises:
            ValueError: It is no spot.
        """
        at, shown, mood, column = map(int, text.split("."))
        return cls(at, shown, TypingState(mood), column)


class OutputPage(NamedTuple):
    """What there is from one spot to the next."""

    text: str
    echoes: tuple[str, ...]
    next: StreamPosition
    more: bool


class Tail(NamedTuple):
    """The end of all there is."""

    text: str
    echoes: tuple[str, ...]
    prompt: bool | None = None
    """Whether a shell said that it waits for a command; None: it never says."""


@dataclass(slots=True)
class OutputReader:
    """Reads one stream for several waits; remembers what would be costly to redo."""

    _tails: dict[int, tuple[int, Tail]] = field(default_factory=dict[int, tuple[int, Tail]])
    _paintings: dict[int, ScreenEmulator] = field(default_factory=dict[int, ScreenEmulator])

    def read_page(self, stream: Stream, spot: StreamPosition, manner: ReadOptions) -> OutputPage:
        """Return what came since a spot."""
        if spot.shown >= stream.end:
            return OutputPage("", (), spot, more=False)
        at = spot.at
        lost = ""
        if at < stream.begin:
            at = stream.begin
            missed = max(0, stream.begin - spot.shown)
            if missed:
                lost = f"[taskmem: {missed:,} bytes were lost here]\n"
            spot = StreamPosition(at, at)
        data = stream.read(at, LOOK_BYTES)
        masked = mask_strings(data)
        reached = at + len(masked)
        if not masked:
            return OutputPage(lost, (), StreamPosition(at, stream.end), more=False)
        more = reached < stream.end
        unended = find_open_string(data)
        shown = masked[:unended] if len(masked) - unended < STRING_BYTES else masked
        back = _find_next_start(shown)
        lines = _Lines(shown.split(b"\n"), spot, manner, mark=back)
        again = StreamPosition(at, reached, spot.mood, spot.column)
        return OutputPage(
            lost + "\n".join(lines.shown),
            tuple(lines.echoes),
            StreamPosition(at + back, reached, lines.mood_there) if back else again,
            more,
        )

    async def read_tail(self, stream: Stream, start: StreamPosition, manner: ReadOptions) -> Tail:
        """Return the last lines since a wait's start, or the screen painted since."""
        known = self._tails.get(start.shown)
        if known is not None and known[0] == stream.end:
            return known[1]
        begin = max(start.at, stream.begin, stream.end - _TAIL_BYTES)
        data = mask_strings(stream.read(begin, stream.end - begin))
        if manner.rows and moves_cursor(data):
            tail = await self._read_screen(stream, start, manner)
        elif begin == start.at:
            tail = _build_tail(_Lines(data.split(b"\n"), start, manner))
        else:
            # The first line is cut, unless it is all there is.
            raw = data.split(b"\n")
            tail = _build_tail(_Lines(raw[1:] or raw, StreamPosition(begin, begin), manner))
        if len(self._tails) >= _PAINTINGS:
            self._tails.clear()
        self._tails[start.shown] = (stream.end, tail)
        return tail

    async def _read_screen(
        self, stream: Stream, start: StreamPosition, manner: ReadOptions
    ) -> Tail:
        size = (manner.columns or COLUMNS, manner.rows)
        painting = self._paintings.get(start.at)
        if painting is None or painting.size != size:
            if len(self._paintings) >= _PAINTINGS:
                self._paintings.clear()
            painting = self._paintings[start.at] = ScreenEmulator(*size)
        end = stream.end
        begin = max(start.at, stream.begin, end - FED_BYTES, painting.at or 0)
        await painting.paint(stream.read(begin, end - begin), end)
        lines = painting.read_lines()
        typist = TypedLineDetector(TypingState.NOTHING, interactive=manner.interactive)
        typed = [line for line in lines if typist.read(line.encode(), [line])]
        return Tail("\n".join(lines), tuple(dict.fromkeys(typed)))


class _Lines:
    """Some raw lines, as they are read."""

    def __init__(
        self, raw: list[bytes], spot: StreamPosition, manner: ReadOptions, mark: int = -1
    ) -> None:
        """Read lines that begin at a spot; `mark` is an offset into them."""
        typist = TypedLineDetector(spot.mood, interactive=manner.interactive)
        self.shown: list[str] = []
        self.echoes: dict[str, None] = {}
        self.mood_there = spot.mood
        """What is known at the mark."""
        at = 0
        ends = [len(line) + 1 for line in raw]
        raw = [b" " * spot.column + raw[0], *raw[1:]]
        for line, size, seen in zip(raw, ends, render_lines(raw, manner.columns), strict=True):
            if at == mark:
                self.mood_there = typist.mood
            if typist.read(line, seen):
                self.echoes.update(dict.fromkeys(one for one in seen if one))
            self.shown += seen
            at += size
        self.mood = typist.mood
        """What is known at their end."""


def _build_tail(lines: _Lines) -> Tail:
    shown = lines.shown
    while shown and not shown[-1]:
        shown.pop()
    kept = shown[-TAIL_LINES:]
    here = tuple(one for one in lines.echoes if one in kept)
    return Tail("\n".join(kept), here, _detect_prompt(lines.mood))


def _detect_prompt(mood: TypingState) -> bool | None:
    return TypingState.INPUT in mood if TypingState.MARKED in mood else None


def _find_next_start(masked: bytes) -> int:
    """Return where the next look begins, in the data of this one."""
    size = len(masked)
    begin = masked.rfind(b"\n") + 1
    if size - begin > _AGAIN_BYTES:
        return find_safe_cut(masked, size - _OVERLAP_BYTES)
    for _ in range(_AGAIN_LINES):
        before = masked.rfind(b"\n", 0, max(begin - 1, 0)) + 1
        if begin == 0 or size - before > _AGAIN_BYTES:
            break
        begin = before
    return begin
