"""What one frame shows, prepared once for all rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Final

from taskmem_hookspecs import Frame
from taskmem_terminal.judging.programs import Spoken, spoken

_CLIP: Final = 200
_LINE: Final = 1_000
_KNOWN_BY: Final = 8_000
"""How much of either end of a text tells which programs it comes from."""
_STILL_SECONDS: Final = 0.25
_SHELL: Final = re.compile(
    r"(?:\([\w .-]{1,40}\) )?(?:"
    r"[\w.-]{1,64}@[\w.-]{1,64}[: ][^\n]{0,200}?[$#%❯]"
    r"|\[[\w.-]{1,64}@[\w.-]{1,64} [^\]\n]{1,200}\][$#%]"
    r"|(?:bash|sh|zsh|fish|ksh|dash)-[\d.]{1,8}[$#%]"
    r"|PS [A-Z]:\\[^\n>]{0,200}>|[A-Z]:\\[^\n>]{0,200}>"
    r"|(?:~|/|[\w.-]{1,64})[^\n$%❯#]{0,100} ?[$❯]"
    r"|[$❯]"
    r") ?"
)


class Seen:
    """A frame without its echoes, and what was kept of the one before."""

    def __init__(self, frame: Frame, before: str, *, unended: bool = False) -> None:
        echoes = {echo.strip() for echo in frame.echoes}
        self.frame = frame
        self.echoes = frame.echoes
        self._raw = frame.tail or frame.text or ""
        self.text = _unechoed(frame.text or "", echoes)
        self.tail = _unechoed(frame.tail or "", echoes)
        self.over = frame.exit_status is not None or frame.gone is not None
        self._before = before
        self.unended = not frame.text.endswith("\n") if frame.text else unended
        """Whether the cursor stands behind the last line, not below it."""

    @cached_property
    def last(self) -> str:
        """The last line that holds anything; the newest of a program that prints."""
        return _last(self.tail) or _last(self.text)

    @cached_property
    def cursor(self) -> str:
        """The last line, even if it is where somebody types."""
        text = self._raw.rstrip()
        return text[text.rfind("\n") + 1 :]

    @cached_property
    def typed(self) -> str:
        """The lines that were typed, without those where nobody has typed yet."""
        return "\n".join(line for line in self.echoes if not is_prompt(line))

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the tail."""
        return self.tail.split("\n")

    @cached_property
    def settled(self) -> str:
        """The text without a last line that may be unfinished."""
        if self.open:
            return self.text[: self.text.rfind("\n") + 1]
        # A line that was left out as unfinished before, and is whole by now.
        if self.last and self.last not in self.text:
            return f"{self.text}\n{self.last}\n"
        return self.text

    @cached_property
    def open(self) -> bool:
        """Whether the last line may still grow."""
        if not self.text or self.text.endswith("\n") or self.over or self.frame.prompt:
            return False
        changed = self.frame.changed_at
        if changed and (self.frame.seen_at - changed).total_seconds() > _STILL_SECONDS:
            return False
        return clip(self.cursor) != self._before

    @cached_property
    def lower(self) -> str:
        """The settled text in lower case, at the same places."""
        return lowered(self.settled)

    @cached_property
    def text_lower(self) -> str:
        """All of the text in lower case, at the same places."""
        return lowered(self.text)

    @cached_property
    def tail_lower(self) -> str:
        """The tail in lower case, at the same places."""
        return lowered(self.tail)

    @cached_property
    def at_shell(self) -> bool:
        """Whether the last line is plainly the prompt of a shell."""
        return is_prompt(self.cursor)

    @cached_property
    def all_lower(self) -> str:
        """What is to be seen, with what was typed, in lower case."""
        return "\n".join((*self.echoes, self.tail or self.text)).lower()

    @cached_property
    def spoken(self) -> Spoken:
        """The programs that what is shown comes from."""
        shown = self.tail or self.text
        return spoken(shown[:_KNOWN_BY] + "\n" + shown[-_KNOWN_BY:])

    @cached_property
    def last_said(self) -> str:
        """The last line that is no prompt."""
        for line in reversed(self.lines):
            if line.strip() and not is_prompt(line):
                return line.strip()
        return ""

    def hits(self, trigger: re.Pattern[str]) -> Iterator[str]:
        """Return the settled lines in which one of some lower-case words stands."""
        return hits(self.settled, self.lower, trigger)

    def counted(self, trigger: re.Pattern[str]) -> Iterator[str]:
        """Return the lines with a number, the one that still grows among them."""
        text, lower = self.text, self.text_lower
        if self.open and not text.endswith(("%", ")", "]")):
            # The last number of a line that still grows may lack digits, or its unit.
            end = max(text.rfind(" "), text.rfind("\n")) + 1
            text, lower = text[:end], lower[:end]
        return hits(text, lower, trigger)


def hits(text: str, lower: str, trigger: re.Pattern[str]) -> Iterator[str]:
    """Return the lines of a text in which one of some lower-case words stands."""
    place = 0
    while found := trigger.search(lower, place):
        hit = found.start()
        start = text.rfind("\n", 0, hit) + 1
        end = text.find("\n", hit)
        end = len(text) if end < 0 else end
        if end - start <= _LINE:
            yield text[start:end]
        else:
            yield text[max(start, hit - _LINE // 2) : min(end, hit + _LINE // 2)]
        place = end + 1


def is_prompt(line: str) -> bool:
    """Whether a line is plainly a shell's prompt and nothing else."""
    return bool(_SHELL.fullmatch(line.rstrip()))


def lowered(text: str) -> str:
    """Return a text in lower case, of the same length."""
    return text.replace("İ", "I").lower()


def clip(line: str) -> str:
    """Shorten a line to what an observation may quote."""
    line = " ".join(line[: 4 * _CLIP].split())
    return line if len(line) <= _CLIP else f"{line[: _CLIP - 1]}…"


def _last(text: str) -> str:
    end = len(text.rstrip())
    return text[text.rfind("\n", 0, end) + 1 : end].strip()


def _unechoed(text: str, echoes: set[str]) -> str:
    if not echoes:
        return text
    # What stood before an echo and what stands behind it are not next to each other.
    return "\n".join(
        "" if line.strip() in echoes else line for line in text.split("\n")
    )
