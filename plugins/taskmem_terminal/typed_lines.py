"""Distinguish lines that a person typed from a command's output.

A wait for "BUILD DONE" must not end because `make && echo "BUILD DONE"` was typed. Shells that mark
their prompts (OSC 133) say it themselves; otherwise a line counts as typed if it looks like a
prompt with text after it. Signs that ordinary output has too (`# `, `% `, `> `) count only if a
person may be typing.
"""

from __future__ import annotations

import re
from enum import Flag, auto
from typing import Final

SHELLS: Final = frozenset(
    {
        *("ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "nu", "pwsh", "sh"),
        *("tcsh", "xonsh", "zsh"),
    }
)
"""Programs that show prompts and run what is typed there."""
SHELL_CARRIERS: Final = frozenset(
    {
        *("docker", "kubectl", "login", "mosh", "mosh-client", "podman", "screen"),
        *("script", "ssh", "su", "sudo", "tmux"),
    }
)
"""Programs that may contain a shell about which nothing is known."""


def can_be_typed_at(command: list[str]) -> bool:
    """Return whether a person may be typing into a command; an empty command is unknown: True."""
    if not command:
        return True
    program = command[0].rpartition("/")[2]
    if program in SHELL_CARRIERS:
        return True
    rest = [word for word in command[1:] if not word.startswith("-")]
    return program in SHELLS and not rest and "-c" not in command


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
_PRINTING_COMMAND: Final = re.compile(r"(?:^\s*@?|(?:&&|\|\||;|\bdo|\bthen)\s*)(?:echo|printf)\s")
"""A command that prints its arguments: make shows such lines; output rarely has them."""


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


class TypedLineDetector:
    """Detects typed lines, in order."""

    def __init__(self, typing_state: TypingState, *, interactive: bool) -> None:
        """Start at a line's start.

        Args:
            typing_state: The typing state there.
            interactive: Whether a person may be typing on this terminal.
        """
        self.typing_state = typing_state
        self._interactive = interactive

    def read(self, raw: bytes, shown: list[str]) -> bool:
        """Return whether a line was typed, given its bytes and its rendered lines."""
        typing_state = self.typing_state
        typed = TypingState.CURSOR in typing_state
        if b"\x1b" in raw:
            typed |= self._heed_marks(raw)
            typed |= _EDITS in raw and not _SCREENS.search(raw)
        elif TypingState.INPUT in typing_state:
            typed = True
        first = next((line for line in shown if line), "")
        typed = typed or self._looks_typed(first, TypingState.TYPED in typing_state)
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

    def _looks_typed(self, line: str, continues: bool) -> bool:  # noqa: FBT001
        if line[:1] in "╰└╭┌│├":
            line = line.lstrip("╰─└╭┌│├> ")
        if _PROMPT.match(line.lstrip()) or _PRINTING_COMMAND.search(line):
            return True
        if _SIGN.match(line) or _TRACE.match(line):
            return True
        if continues and _CONTINUATION.match(line):
            return True
        return (
            self._interactive
            and TypingState.MARKED not in self.typing_state
            and _WEAK_PROMPT.match(line) is not None
        )


def _has_visible_text(part: bytes) -> bool:
    from taskmem_terminal.render import render_lines

    return any(line for lines in render_lines([part]) for line in lines)
