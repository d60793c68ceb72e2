"""Turn a stream of terminal bytes into frames, for every kind of target.

A position (`StreamPosition`) says how far a wait has read. The next look begins a little before the
end of the last one (`at`, at most three finished lines back), so that a phrase that was split is
found; text that was already shown is then shown again.

    …finished line⏎ finished line⏎ finished line⏎ unfinished
                    ↑ at                                    ↑ shown

Lines that a person typed are told from a command's output: a wait for "BUILD DONE" must not end
because `make && echo "BUILD DONE"` was typed. Shells that mark their prompts (OSC 133) say it
themselves; otherwise a line counts as typed if it looks like a prompt with text after it. Signs
that ordinary output has too (`# `, `% `, `> `) count only if a person may be typing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Flag, auto
from typing import Final, NamedTuple, Protocol

from taskmem_terminal.recording import COLUMNS
from taskmem_terminal.render import (
    PAINTED_BYTES,
    STRING_BYTES,
    ScreenEmulator,
    find_open_string,
    find_safe_cut,
    mask_strings,
    moves_cursor,
    render_lines,
)

_MARK: Final = re.compile(rb"\x1b\]133;([A-D])[^\x07\x1b\n]*(?:\x07|\x1b\\)")
_EDITS: Final = b"\x1b[?2004h"
"""A line editor starts to read: it requests bracketed paste."""
_SCREENS: Final = re.compile(rb"\x1b\[\?(?:1049|1047|47)h")

_PROMPT: Final = re.compile(
    r"(?:\([^()\s][^()]{0,60}\) ?)*"  # (venv)
    r"(?:\[?[\w.-]{1,64}@[\w.-]{1,64}(?:[ :][^$#%❯»>]{0,200}?)?\]? ?[$#%❯»>]"
    r"|(?:bash|sh|zsh|ksh|dash)-[\d.]+[$#%]"
    r"|[~/][^\s$#%]{0,200} ?[$%❯λ]|[A-Za-z][\w.-]{0,63}[$%❯λ]"
    r"|In \[\d+\]:|PS [A-Z]:\\[^>]{0,200}>"
    r") +\S"
)
_SIGN: Final = re.compile(
    r"(?:\([^()\s][^()]{0,60}\) ?)*(?:[$❯➜λ»]|>>>|\.\.\.|\(Pdb\)|\(gdb\)) +\S"
)
"""A prompt without a name; it counts only at a line's start."""
_WEAK_PROMPT: Final = re.compile(r"(?:[A-Za-z][\w.:~/-]{0,99}|[~/][\w.:~/-]{0,99} ?)?[#%>] +\S")
_CONTINUATION: Final = re.compile(r"(?:>|\.\.\.|[a-z]+(?: [a-z]+){0,3} ?>) ?")
"""Prefix that shells put before further lines of one command."""
_TRACE: Final = re.compile(r"\++ \S")
"""Output of `set -x`, which shows a command before it runs."""
_PRINTING_COMMAND: Final = re.compile(
    r"(?:^\s*(?:@|[$>] |\++ )?|(?:&&|\|\||;|\bdo|\bthen)\s*)(?:echo|printf)\s"
)
"""A command that prints its arguments, as make, npm and `set -x` show it before it runs."""
_TYPED_SIGN: Final = re.compile(r"[$#%❯➜»>λ+]|\.\.\.|In \[|\((?:Pdb|gdb)\)|echo|printf")
"""Each line that looks typed has one of these."""


class TypingState(Flag):
    """Knowledge at a line's start about who writes the line."""

    NOTHING = 0
    TYPED = auto()
    """The line before was typed, so this one may continue it."""
    CURSOR = auto()
    """A person was typing this line when reading began."""
    MARKED = auto()
    """The shell marks its prompts."""
    INPUT = auto()
    """The last mark said that a command is being typed."""


_UNTYPED_STATES: Final = (TypingState.NOTHING, TypingState.MARKED)
"""States in which a line is typed only if it looks so."""


class TypedLineDetector:
    """Detects typed lines, in order."""

    def __init__(self, typing_state: TypingState, *, interactive: bool) -> None:
        """Start at a line's start.

        `interactive`: a person may be typing on this terminal.
        """
        self.typing_state = typing_state
        self._interactive = interactive

    def is_typed(self, raw: bytes, shown: list[str], *, untyped: bool = False) -> bool:
        """Return whether the next line was typed, given its bytes and its rendered lines.

        `untyped`: nobody can have typed it; commands that programs show still count.
        """
        typing_state = self.typing_state
        typed = TypingState.CURSOR in typing_state
        if b"\x1b" in raw:
            typed |= self._heed_marks(raw)
            typed |= _EDITS in raw and not _SCREENS.search(raw)
        elif TypingState.INPUT in typing_state:
            typed = True
        first = next((line for line in shown if line), "")
        continues = TypingState.TYPED in typing_state
        typed = typed or self._looks_typed(first, continues=continues, untyped=untyped)
        self.typing_state &= TypingState.MARKED | TypingState.INPUT
        if typed and (first or TypingState.TYPED in typing_state):
            self.typing_state |= TypingState.TYPED
        return typed and bool(first)

    def _heed_marks(self, raw: bytes) -> bool:
        typed = False
        end = 0
        for mark in _MARK.finditer(raw):
            if TypingState.INPUT in self.typing_state and _has_visible_text(
                raw[end : mark.start()]
            ):
                typed = True
            self.typing_state |= TypingState.MARKED
            if mark[1] == b"B":
                self.typing_state |= TypingState.INPUT
            else:
                self.typing_state &= ~TypingState.INPUT
            end = mark.end()
        return typed or (TypingState.INPUT in self.typing_state and _has_visible_text(raw[end:]))

    def _looks_typed(self, line: str, *, continues: bool, untyped: bool) -> bool:
        if line[:1] in "╰└╭┌│├":
            line = line.lstrip("╰─└╭┌│├> ")
        if _PROMPT.match(line.lstrip()) or _PRINTING_COMMAND.search(line):
            return True
        if untyped:
            return False
        if continues and _CONTINUATION.match(line):
            return True
        if not self._interactive:
            return False
        if _SIGN.match(line) or _TRACE.match(line):
            return True
        return TypingState.MARKED not in self.typing_state and bool(_WEAK_PROMPT.match(line))


def remove_typed_lines(screen: str) -> str:
    """Return the text of a screen that a person types at, with typed lines left empty."""
    detector = TypedLineDetector(TypingState.NOTHING, interactive=True)
    lines = screen.split("\n")
    return "\n".join("" if detector.is_typed(line.encode(), [line]) else line for line in lines)


def is_bare_prompt(line: str) -> bool:
    """Return whether a line would look typed once something was typed after it."""
    detector = TypedLineDetector(TypingState.NOTHING, interactive=True)
    return not detector.is_typed(b"", [line]) and detector.is_typed(b"", [f"{line.rstrip()} x"])


def _has_visible_text(part: bytes) -> bool:
    return any(line for lines in render_lines([part]) for line in lines)


# --- frames -------------------------------------------------------------------


LOOK_BYTES: Final = 1 << 18
"""Maximum size of one look. Bytes."""
_TAIL_LINES: Final = 80
_TAIL_BYTES: Final = 32_768
_AGAIN_LINES: Final = 3
_AGAIN_BYTES: Final = 16_384
"""Maximum size shown again; a longer unfinished line is cut. Bytes."""
_OVERLAP_BYTES: Final = 4096
"""Bytes of a cut line that are shown again; a phrase must fit into them."""
_MOST_PAINTINGS: Final = 8


class Stream(Protocol):
    """Bytes of which the oldest may be lost."""

    @property
    def begin(self) -> int:
        """Offset of the first available byte."""
        ...

    @property
    def end(self) -> int:
        """Offset after the last byte."""
        ...

    def read(self, at: int, size: int) -> bytes:
        """Return up to `size` bytes from an offset."""
        ...


class ReadOptions(NamedTuple):
    """Size and kind of the terminal."""

    columns: int | None = None
    """Width; None: nothing wraps."""
    rows: int = 0
    """Height; 0: not a terminal, so nothing is painted."""
    interactive: bool = False
    """True if a person may be typing there."""
    is_untyped: Callable[[int, int], bool] = lambda _start, _end: False
    """Returns whether nobody can have typed the bytes between two offsets."""


class StreamPosition(NamedTuple):
    """How far a wait has read."""

    at: int
    """Offset where the next look begins."""
    shown: int
    """Offset up to which everything was shown."""
    typing_state: TypingState = TypingState.NOTHING
    """Typing state at `at`."""
    column: int = 0
    """Column of the cursor at `at`."""

    def __str__(self) -> str:
        """Format for `parse`."""
        return f"{self.at}.{self.shown}.{self.typing_state.value}.{self.column}"

    @classmethod
    def parse(cls, text: str) -> StreamPosition:
        """Parse what `__str__` wrote.

        Raises:
            ValueError: It is not a position.
        """
        at, shown, typing_state, column = map(int, text.split("."))
        return cls(at, shown, TypingState(typing_state), column)


class OutputPage(NamedTuple):
    """The output from one position to the next."""

    text: str
    echoes: tuple[str, ...]
    next: StreamPosition
    more: bool


class Tail(NamedTuple):
    """The end of the output."""

    text: str
    echoes: tuple[str, ...]
    prompt: bool | None = None
    """True if the shell marked that it waits for a command; None: it marks nothing."""


@dataclass(slots=True)
class OutputReader:
    """Reads one stream for several waits; caches what is expensive to compute."""

    _tails: dict[int, tuple[int, bytes, Tail]] = field(
        default_factory=dict[int, tuple[int, bytes, Tail]]
    )
    """By a wait's start: the stream's end, its last bytes, and what they show."""
    _paintings: dict[int, ScreenEmulator] = field(default_factory=dict[int, ScreenEmulator])

    def read_page(
        self, stream: Stream, position: StreamPosition, manner: ReadOptions
    ) -> OutputPage:
        """Return the output since a position."""
        if position.shown >= stream.end:
            return OutputPage("", (), position, more=False)
        position = _include_row_start(stream, position)
        at = position.at
        lost = ""
        if at < stream.begin:
            at = stream.begin
            missed = max(0, stream.begin - position.shown)
            if missed:
                lost = f"[taskmem: {missed:,} bytes were lost here]\n"
            position = StreamPosition(at, at)
        data = stream.read(at, LOOK_BYTES)
        masked = mask_strings(data)
        reached = at + len(masked)
        if not masked:
            return OutputPage(lost, (), StreamPosition(at, stream.end), more=False)
        more = reached < stream.end
        unended = find_open_string(data)
        shown = masked[:unended] if len(masked) - unended < STRING_BYTES else masked
        back = _find_next_start(shown)
        # In a log, nobody has seen what one update leaves of a longer one before it.
        updates = not manner.rows and b"\r" in shown
        lines = _Lines(shown.split(b"\n"), position, manner, back, updates=updates)
        again = StreamPosition(at, reached, position.typing_state, position.column)
        return OutputPage(
            lost + "\n".join(lines.shown),
            tuple(lines.echoes),
            StreamPosition(at + back, reached, lines.typing_state_at_mark) if back else again,
            more,
        )

    async def read_tail(self, stream: Stream, start: StreamPosition, manner: ReadOptions) -> Tail:
        """Return the last lines since a wait's start, or the screen painted since."""
        start = _include_row_start(stream, start)
        begin = max(start.at, stream.begin, stream.end - _TAIL_BYTES)
        written = stream.read(begin, stream.end - begin)
        known = self._tails.get(start.shown)
        # A file that was written anew may end where it did.
        if known is not None and known[:2] == (stream.end, written):
            return known[2]
        data = mask_strings(written)
        if manner.rows and moves_cursor(data):
            tail = await self._read_screen(stream, start, manner)
        elif begin == start.at:
            tail = _build_tail(_Lines(data.split(b"\n"), start, manner))
        else:
            # Skip the first line, which is incomplete, unless it is the only one.
            raw = data.split(b"\n")
            tail = _build_tail(_Lines(raw[1:] or raw, StreamPosition(begin, begin), manner))
        if len(self._tails) >= _MOST_PAINTINGS:
            self._tails.clear()
        self._tails[start.shown] = (stream.end, written, tail)
        return tail

    async def _read_screen(
        self, stream: Stream, start: StreamPosition, manner: ReadOptions
    ) -> Tail:
        size = (manner.columns or COLUMNS, manner.rows)
        painting = self._paintings.get(start.at)
        if painting is None or painting.size != size:
            if len(self._paintings) >= _MOST_PAINTINGS:
                self._paintings.clear()
            painting = self._paintings[start.at] = ScreenEmulator(*size)
        end = stream.end
        begin = max(start.at, stream.begin, end - PAINTED_BYTES, painting.at or 0)
        await painting.paint(stream.read(begin, end - begin), end)
        lines = painting.read_lines()
        detector = TypedLineDetector(TypingState.NOTHING, interactive=manner.interactive)
        typed = [line for line in lines if detector.is_typed(line.encode(), [line])]
        if typed:
            printed = _list_untyped_lines(stream, max(start.at, stream.begin), manner)
            typed = [line for line in typed if line.strip() not in printed]
        return Tail("\n".join(lines), tuple(dict.fromkeys(typed)))


@dataclass(frozen=True, slots=True)
class _Text:
    """A text as a stream."""

    text: bytes
    begin: int = 0

    @property
    def end(self) -> int:
        return len(self.text)

    def read(self, at: int, size: int) -> bytes:
        return self.text[at : at + size]


def read_pages(text: bytes, manner: ReadOptions) -> list[OutputPage]:
    """Return all pages of whole lines."""
    pages: list[OutputPage] = []
    position = StreamPosition(0, 0)
    while position.shown < len(text):
        pages.append(OutputReader().read_page(_Text(text), position, manner))
        position = pages[-1].next
    return pages


class _Lines:
    """Raw lines, rendered and searched for typed ones."""

    def __init__(
        self,
        raw: list[bytes],
        position: StreamPosition,
        manner: ReadOptions,
        mark: int = -1,
        *,
        updates: bool = False,
    ) -> None:
        """Read lines that begin at a position; `mark` is an offset into them.

        `updates`: each text that a carriage return ends is a line, also one that is painted over.
        """
        detector = TypedLineDetector(position.typing_state, interactive=manner.interactive)
        self.echoes: dict[str, None] = {}
        self.typing_state_at_mark = position.typing_state
        """Typing state at `mark`."""
        self.typing_state = position.typing_state
        """Typing state at the end."""
        ends = [len(line) + 1 for line in raw]
        raw = [b" " * position.column + raw[0], *raw[1:]]
        rendered = _render_updates(raw) if updates else render_lines(raw, manner.columns)
        self.shown = [one for lines in rendered for one in lines]
        if (
            position.typing_state in _UNTYPED_STATES
            and b"\x1b" not in b"".join(raw)
            and not _TYPED_SIGN.search("\n".join(self.shown))
        ):
            return  # as most of what a fast program prints
        at = 0
        for line, size, seen in zip(raw, ends, rendered, strict=True):
            if at == mark:
                self.typing_state_at_mark = detector.typing_state
            begin = position.at + at
            untyped = manner.is_untyped(begin, begin + size - 1)
            if detector.is_typed(line, seen, untyped=untyped):
                self.echoes.update(dict.fromkeys(one for one in seen if one))
            at += size
        self.typing_state = detector.typing_state


def _render_updates(raw: list[bytes]) -> list[list[str]]:
    """Return the visible text of each raw line, each of its updates as a line."""
    pieces = [line.rstrip(b"\r").split(b"\r") for line in raw]
    rendered = iter(render_lines([piece for each in pieces for piece in each]))
    return [[one for _ in each for one in next(rendered)] for each in pieces]


def _list_untyped_lines(stream: Stream, begin: int, manner: ReadOptions) -> set[str]:
    """Return the last lines that nobody can have typed, and that show no command."""
    at = max(begin, stream.end - _TAIL_BYTES)
    raw = mask_strings(stream.read(at, stream.end - at)).split(b"\n")
    detector = TypedLineDetector(TypingState.NOTHING, interactive=False)
    lines: set[str] = set()
    for line, shown in zip(raw, render_lines(raw, manner.columns), strict=True):
        untyped = manner.is_untyped(at, at + len(line))
        if untyped and not detector.is_typed(line, shown, untyped=True):
            lines.update(one.strip() for one in shown)
        at += len(line) + 1
    return lines


def _build_tail(lines: _Lines) -> Tail:
    shown = lines.shown
    while shown and not shown[-1]:
        shown.pop()
    kept = shown[-_TAIL_LINES:]
    here = tuple(one for one in lines.echoes if one in kept)
    marked = TypingState.MARKED in lines.typing_state
    return Tail("\n".join(kept), here, TypingState.INPUT in lines.typing_state if marked else None)


def _include_row_start(stream: Stream, position: StreamPosition) -> StreamPosition:
    """Return a position inside a row at the row's start, once text was added to the row.

    A row that is being typed, whose cursor was moved, or that is longer than a phrase may be, is
    left as it is.
    """
    at = position.at
    size = min(at - stream.begin, _OVERLAP_BYTES)
    if size <= 0 or TypingState.CURSOR in position.typing_state:
        return position
    before = stream.read(at - size, size)
    begin = max(before.rfind(end) for end in (b"\n", b"\r", b"\0")) + 1
    added = re.split(rb"[\r\n]", stream.read(at, _OVERLAP_BYTES), maxsplit=1)[0]
    is_whole = begin > 0 or at == size
    if begin == size or not is_whole or moves_cursor(before[begin:] + added):
        return position
    if not _has_visible_text(added):
        return position
    return position._replace(at=at - size + begin, column=0)


def _find_next_start(masked: bytes) -> int:
    """Return the offset in this look's data where the next look begins."""
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
