"""Decide from its last lines whether a terminal waits for a command or an answer.

A shell's prompt is recognised by its form (`me@host:~$`, `[me@host src]#`, `bash-5.2$`, `❯`) if the
shell does not mark it. Other prompts (`mysql>`, `(gdb)`, `In [3]:`) are recognised by an earlier
line with the same prompt and typed text after it. So the first one is never "back", and `password:`
is not a prompt.

A terminal asks if it hides what is typed, as for a password, or if the line with the cursor ends
like a question: with `?`, `:`, `[y/N]`, `(yes/no)`, with a default in brackets after one of them,
or with `--More--`. A list of options below a question, such as `? Select a framework:`, and a box
with buttons such as `<Yes>` and `<No>` are questions too.
"""

from __future__ import annotations

import re
from typing import Final

from taskmem_hookspecs.conditions import Answer
from taskmem_terminal.frame_view import View

QUESTION_SECONDS: Final = 1.0
"""How long a line that only ends like a question must stay unchanged. Seconds."""
_NEAR_LINES: Final = 3
_LINE_END: Final = 400
"""Characters at a line's end that are searched for a question."""
_SHELL: Final = re.compile(
    r"(?:\([\w .-]{1,40}\) )?(?:"
    r"[\w.-]{1,64}@[\w.-]{1,64}[: ][^\n]{0,200}?[$#%❯]"
    r"|\[[\w.-]{1,64}@[\w.-]{1,64} [^\]\n]{1,200}\][$#%]"
    r"|(?:bash|sh|zsh|fish|ksh|dash)-[\d.]{1,8}[$#%]"
    r"|PS [A-Z]:\\[^\n>]{0,200}>|[A-Z]:\\[^\n>]{0,200}>"
    r"|(?:~|/)[^\n$%❯#]{0,100} ?[$❯]"
    r"|[\w.-]{1,64}[^\n$%❯#]{0,100} ?❯"
    r"|[\w.-]{1,64}(?:[: ][~/][^\n$%❯#]{0,100}| \([^()\n]{1,60}\) ?)?\$"
    r"|[$❯]"
    r") ?"
)
_PASSWORD: Final = re.compile(
    r"\b(?:password|passphrase|passcode|passwort|pin|otp|verification code)\b"
    r"[^\n]{0,120}[:?›>] ?$",
    re.IGNORECASE,
)
_YES_NO: Final = re.compile(
    r"(?:\by(?:es)?\]? ?(?:/|\||or) ?\[?n(?:o)?\b|\[y\]es\b|[(\[]y(?:es)?[)\]])"
    r"(?:\W*|[^\n]{0,80}[\])?:›>] ?)$",
    re.IGNORECASE,
)
_YES_QUOTED: Final = re.compile(r"""['"`]yes['"`]""", re.IGNORECASE)
_QUESTION: Final = re.compile(
    r"[?:›»>] ?(?:\([^()\n]{0,80}\)|\[[^\[\]\n]{0,80}\])?[?:›»>]? ?$"
    r"|--more--|\(END\)$|press (?:any key|enter|return)\b[^\n]{0,60}$",
    re.IGNORECASE,
)
_MENU: Final = re.compile(r"\s{0,8}(?:[?◆◈]|\[\?\]) +\S")
_OPTION: Final = re.compile(r"\s*(?:[❯›>»●○◉◯◻◼■□✔✓*│└─-]|\(.\)|\[.\]|\d+[.)])|\s{2,}\S|\s*$")
_ANY_BUTTON: Final = r"<\s?(?:ok|yes|no|cancel|continue|back|help)\s?>"
_BUTTONS: Final = re.compile(
    rf"^\s*(?:[│┃║|]\s*{_ANY_BUTTON}|{_ANY_BUTTON}\s+{_ANY_BUTTON})"
    rf"(?:\s*{_ANY_BUTTON})*\s*[│┃║|]?\s*$",
    re.IGNORECASE | re.MULTILINE,
)
"""A line with nothing but buttons: inside a box, or several of them."""


class PromptDetector:
    """Detects that a prompt is back after something ran."""

    __slots__ = ("_from_start", "_ran")

    def __init__(self, *, from_start: bool) -> None:
        """Set the state for a new wait.

        `from_start`: the wait reads from the command's first byte, so text before the first prompt
        is a greeting.
        """
        self._from_start = from_start
        self._ran = False

    def is_back(self, view: View) -> bool:
        """Return whether the cursor is at a prompt and something ran before."""
        frame = view.frame
        if view.over or frame.prompt is False:
            self._ran = True
            return False
        cursor = view.cursor.rstrip()
        others = [
            line
            for line in (frame.tail or "").split("\n")
            if line.strip() and line.rstrip() != cursor
        ]
        self._ran = (
            self._ran
            or any(not is_shell_prompt(line) for line in frame.echoes)
            or (not self._from_start and bool(others))
        )
        if not cursor or not view.settled:
            return False
        bare = is_shell_prompt(cursor)
        if frame.prompt:
            typed = cursor in {line.rstrip() for line in frame.echoes}
            return self._ran and (bare or not typed)
        if bare:
            return self._ran
        return _is_prompt_again(cursor, others)


def is_shell_prompt(line: str) -> bool:
    """Return whether a line is clearly a shell's prompt with nothing after it."""
    return _SHELL.fullmatch(line.rstrip()) is not None


def is_asking(view: View, what: Answer) -> bool:
    """Return whether the terminal waits for this kind of answer."""
    line = view.cursor[-_LINE_END:]
    if view.over or view.frame.prompt or is_shell_prompt(view.cursor):
        return False
    if view.frame.hides_input and what is not Answer.YES_NO:
        return True
    if not view.settled:
        return False
    if what is Answer.PASSWORD:
        # A terminal that echoes typing does not ask for a password.
        shows = view.frame.hides_input is False
        return not shows and _PASSWORD.search(line) is not None
    if what is Answer.YES_NO:
        return _asks_yes_or_no(view, line)
    return (
        _PASSWORD.search(line) is not None
        or _asks_yes_or_no(view, line)
        or _asks_anything(view, line)
    )


def _asks_yes_or_no(view: View, line: str) -> bool:
    buttons = _BUTTONS.search(view.tail)
    if _YES_NO.search(line) or (buttons and "yes" in buttons[0].lower()):
        return True
    near = [line for line in view.tail.split("\n") if line.strip()][-_NEAR_LINES:]
    question = _YES_QUOTED.search("\n".join(near))
    return question is not None and _asks_anything(view, line)


def _asks_anything(view: View, line: str) -> bool:
    lines = view.tail.rstrip().split("\n")
    menus = [n for n, line in enumerate(lines) if _MENU.match(line)]
    options = lines[menus[-1] + 1 :] if menus else []
    chosen_from = bool(options) and all(map(_OPTION.match, options))
    typed_at = bool(line) and (_QUESTION.search(line) or _MENU.match(view.cursor))
    if not (chosen_from or typed_at or _BUTTONS.search(view.tail)):
        return False
    if view.still_seconds < QUESTION_SECONDS:
        view.look_again(QUESTION_SECONDS - view.still_seconds)
        return False
    return True


def _is_prompt_again(cursor: str, others: list[str]) -> bool:
    """Return whether an earlier line has the same prompt with typed text after it."""
    if not cursor.endswith((*">#$%❯)", "]:")):
        return False
    prompt = _mask_digits(cursor)
    return any(
        (line := _mask_digits(other)).startswith(f"{prompt} ") and line != prompt
        for other in others
    )


def _mask_digits(line: str) -> str:
    return re.sub(r"\d+", "0", line.strip())
