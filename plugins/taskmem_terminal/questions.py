"""Decide whether a terminal waits for a command or for an answer.

It does if the program in front is blocked in reading it: an interactive shell waits for a command,
another program for an answer. A program that does something else asks nothing, whatever it shows.
Where the system does not tell what the program does, the last lines decide. A shell's prompt is
recognised by its form (`me@host:~$`, `[me@host src]#`, `bash-5.2$`, `❯`) if the shell does not mark
it. Other prompts (`mysql>`, `(gdb)`, `In [3]:`) are recognised by an earlier line with the same
prompt and typed text after it. So the first one is never "back", and `password:` is not a prompt.

A terminal then asks if it hides what is typed, as for a password, or if the line with the cursor
ends like a question: with `?`, `:`, `[y/N]`, `(yes/no)`, with a default in brackets after one of
them, or with `--More--`. Menus are questions, too: lines of which one has a pointer, below a
question or with numbers; a list of options below a question with a mark, such as
`? Select a framework:`; and a box with buttons such as `<Yes>` and `<No>`. A program that gets
whole lines shows no menu. One that gets each key at once shows one, or is typed into, if a pointer
stands in its last lines, or a question with a mark anywhere.

A question has to stand for a moment in a terminal that shows nothing new; a menu that is known as
one by itself does so also beside what moves, such as the blinking dot of an agent.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final, NamedTuple

from taskmem_hookspecs.conditions import Answer
from taskmem_terminal.frames import remove_typed_lines
from taskmem_terminal.views import View, clip_line

_QUESTIONS: Final = {
    Answer.PASSWORD: "It asks for a password",
    Answer.YES_NO: "It asks yes or no",
    Answer.ANY: "It asks for input",
}
_ANSWERS: Final = {Answer.YES_NO: {"yes", "no"}, Answer.ANY: set[str]()}
"""First words of the options of a menu that asks for an answer."""
_QUESTION_SECONDS: Final = 1.0
"""How long a line that only ends like a question must stay unchanged. Seconds."""
_NEAR_LINES: Final = 3
_MASK_SIGNS: Final = re.compile(r"[*•█▌▏▎]+$")
"""Signs that stand for typed letters of a password, or for the cursor."""
_BRACKET: Final = re.compile(r"[:?›»]? *(?:\[[^\[\]\n]{0,80}\]|\([^()\n]{0,80}\))?[ :?›»]*$")
"""The end of a question, with how it is answered."""
_MOST_HINTS: Final = 4
"""Maximum number of lines below a menu, such as the keys that it takes."""
_FRAME: Final = re.compile(r"^\s*[│┃║|]|[│┃║|]\s*$|^[\s╭╮╰╯┌┐└┘─━═]+$")
"""The border of a box around a menu."""
_BOX: Final = r"(?:[◯◉○●◻◼□■☐☑•]|\[.\])"
_CHOICE: Final = re.compile(
    rf"(?P<margin> *(?P<pointer>(?!{_BOX})[^\w\s()\[\]](?: +| *(?={_BOX})))?)"
    rf"(?:{_BOX} *)?(?:(?P<number>\d{{1,2}})[.)] +)?(?P<word>\w+)"
)
"""A menu's option: its margin, perhaps with a pointer, a box, a number, and its first word."""
_POINTER: Final = re.compile(r"\s*[❯›▸▶→➤>»┃](?:\s|$)")
"""The beginning of a line that is chosen or typed at."""
_HEADING: Final = re.compile(
    r"[?:]\s*(?:\[[^\[\]\n]{0,80}\]|\([^()\n]{0,80}\))?\s*$|^\s*(?:[?◆◈]|\[\?\]) +\S"
)
"""The line above a menu's options."""
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
    r"(?:\by(?:es)?\]? ?(?:/|\||or) ?\[?n(?:o)?\b|\bno? ?/ ?y(?:es)?\b"
    r"|\[y\]es\b|[(\[]y(?:es|n)?[)\]])"
    r"(?:\W*|[^\n]{0,80}[\])?:›>] ?)$",
    re.IGNORECASE,
)
_YES_OR_NO: Final = re.compile(r"^\W*(?:yes\W+no|no\W+yes)\W*$", re.IGNORECASE | re.MULTILINE)
"""A line with nothing but both answers."""
_YES_QUOTED: Final = re.compile(r"""['"`]yes['"`]""", re.IGNORECASE)
_QUESTION: Final = re.compile(
    r"[?:›»>] ?(?:\([^()\n]{0,80}\)|\[[^\[\]\n]{0,80}\])?[?:›»>]? ?$"
    r"|--more--|\(END\)$|press (?:any key|enter|return)\b[^\n]{0,60}$",
    re.IGNORECASE,
)
_SHELL_QUESTION: Final = re.compile(r"[?:] ?(?:\([^()\n]{0,80}\)|\[[^\[\]\n]{0,80}\])?:?$|^read>$")
"""The end of a question whose answer a shell reads by its editor; `read>` is fish's own."""
_SECOND_PROMPT: Final = re.compile(
    r"(?:(?:always|array|bquote|brace|case|cmdand|cmdor|cmdsubst|cursh|do|dquote|elif|else|for"
    r"|foreach|function|heredoc|if|math|pipe|quote|repeat|select|subsh|then|until|while) ?)*>"
)
"""The prompt of bash and zsh for the further lines of one command: PS2."""
_MARK: Final = re.compile(r"\s{0,8}(?:[?◆◈]|\[\?\]) +\S")
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

    def __init__(self, *, from_start: bool) -> None:
        """Set the state for a new wait.

        `from_start`: the wait reads from the command's first byte, so text before the first prompt
        is a greeting.
        """
        self._from_start = from_start
        self._ran = False
        self._worked = False
        """True once a program was seen that did not read."""
        self._first_prompt: str | None = None
        """The text before the cursor when the wait began; empty: unknown."""

    def is_back(self, view: View) -> bool:
        """Return whether the cursor is at a prompt and something ran before."""
        frame = view.frame
        reads = frame.reads_input
        cursor = view.cursor.rstrip()
        if self._first_prompt is None:
            self._first_prompt = "" if frame.text else cursor
        self._worked = self._worked or reads is False
        others = [
            line
            for line in (frame.tail or "").split("\n")
            if line.strip() and line.rstrip() != cursor
        ]
        # A program that reads has not been given the line with the cursor yet.
        entered = [line for line in frame.echoes if not reads or line.rstrip() != cursor]
        self._ran = (
            self._ran
            or view.over
            or frame.prompt is False
            or any(not _is_shell_prompt(line) for line in entered)
            or (not self._from_start and (reads is False or bool(others)))
        )
        if view.over or not cursor or not view.is_at_rest() or not _may_read(view):
            return False
        if frame.prompt is False:
            ran = self._worked or bool(others) or cursor != self._first_prompt
            return ran and _is_prompt_again(cursor, others + view.screen.split("\n"))
        bare = _is_shell_prompt(cursor)
        if frame.prompt:
            if _is_shell_asking(view) or _continues_command(view):
                return False
            typed = cursor in {line.rstrip() for line in frame.echoes}
            return self._ran and (bool(reads) or bare or not typed)
        if bare:
            return self._ran
        earlier = view.screen.split("\n") if self._ran else []
        return _is_prompt_again(cursor, others + earlier)


def _may_read(view: View) -> bool:
    """Return whether a program may read; if none does, request a look when the silence doubled.

    On a busy machine, a program shows its prompt long before it reads.
    """
    if view.frame.reads_input is False:
        view.look_again(max(_QUESTION_SECONDS, view.still_seconds))
    return view.frame.reads_input is not False


def _is_shell_prompt(line: str) -> bool:
    """Return whether a line is clearly a shell's prompt with nothing after it."""
    return _SHELL.fullmatch(line.rstrip()) is not None


def _is_shell_asking(view: View) -> bool:
    """Return whether a shell that reads by its editor shows a question and not its prompt.

    `rm *` in zsh and `read -P` in fish do. A prompt may end in a colon, too, but then commands
    were typed at it.
    """
    line = view.cursor.rstrip()[-_LINE_END:]
    if _YES_NO.search(line):
        return True
    known = f"{view.first_screen}\n{view.screen}\n{view.tail}".split("\n")
    return _SHELL_QUESTION.search(line) is not None and not _was_typed_at(line, known)


def _continues_command(view: View) -> bool:
    """Return whether a shell shows its second prompt, for the rest of an unfinished command.

    Then the last line above that does not begin alike is typed.
    """
    cursor = view.cursor.strip()
    if not _SECOND_PROMPT.fullmatch(cursor):
        return False
    lines = [line for line in view.screen.split("\n") if line.strip()]
    above = next((line for line in reversed(lines) if not line.startswith(cursor)), "")
    return bool(above) and (above in view.frame.echoes or not remove_typed_lines(above))


class _Menu(NamedTuple):
    """A menu at a screen's end: lines with margins alike, exactly one of them with a pointer."""

    rows: tuple[str, ...] = ()
    """The options with the line above them; empty: there is no menu."""
    words: frozenset[str] = frozenset()
    """First words of the options, in lower case."""
    is_sure: bool = False
    """True if it is a menu whatever program shows it: its options are numbered, or the line above
    them is a question."""


class QuestionMatcher:
    """Matches a question that stands still."""

    def __init__(self, wanted: Answer) -> None:
        self._wanted = wanted
        self._menu = _Menu()
        self._menu_since: datetime | None = None
        """When the menu that is shown appeared, whatever moves beside it."""

    def match(self, view: View) -> str | None:
        """Return why the form holds; None: it does not."""
        menu = _Menu() if view.frame.takes_keys is False else _find_menu(view.screen)
        if menu.rows != self._menu.rows or self._menu_since is None:
            self._menu_since = view.changed_at
        self._menu = menu
        if not self._is_asking(view):
            return None
        line = " ".join(menu.rows) or view.cursor or view.last_line
        # No colon here: a question about a password would look like one.
        return f'{_QUESTIONS[self._wanted]} ("{clip_line(line)}")'

    def _is_asking(self, view: View) -> bool:
        """Return whether the terminal waits for this kind of answer."""
        frame = view.frame
        if view.over or not _may_read(view):
            return False
        if frame.prompt and not _is_shell_asking(view):
            return False
        words = _ANSWERS.get(self._wanted)
        if self._menu.is_sure and words is not None and self._menu.words >= words:
            return self._stands(view, self._menu_since)
        if frame.reads_input is None and _is_shell_prompt(view.cursor):
            return False
        if frame.hides_input and self._wanted is not Answer.YES_NO:
            return True
        return view.is_at_rest() and self._is_question(view)

    def _stands(self, view: View, since: datetime | None) -> bool:
        """Return whether something stood there for long enough; if not, request a look then."""
        left = _QUESTION_SECONDS - (view.frame.seen_at - (since or view.changed_at)).total_seconds()
        if left > 0:
            view.look_again(left)
        return left <= 0

    def _is_question(self, view: View) -> bool:
        """Return whether what is shown asks for this kind of answer."""
        lines = [_MASK_SIGNS.sub("", line[-_LINE_END:]) for line in _list_asking_lines(view)]
        if self._wanted is Answer.PASSWORD:
            # A terminal that echoes typing does not ask for a password.
            return view.frame.hides_input is not False and any(map(_PASSWORD.search, lines))
        if self._wanted is Answer.YES_NO:
            return self._asks_yes_or_no(view, lines)
        return (
            any(map(_PASSWORD.search, lines))
            or self._asks_yes_or_no(view, lines)
            or self._asks_anything(view, lines)
        )

    def _asks_yes_or_no(self, view: View, lines: list[str]) -> bool:
        if any(map(_YES_NO.search, lines)):
            return True
        buttons = _BUTTONS.search(view.visible)
        if buttons and "yes" in buttons[0].lower() and view.frame.takes_keys is not False:
            return True
        near = "\n".join(_list_last_lines(view.visible, _NEAR_LINES))
        if view.frame.takes_keys and _YES_OR_NO.search(near):
            return self._stands(view, view.changed_at)
        named = _YES_QUOTED.search(near) or self._menu.words >= _ANSWERS[Answer.YES_NO]
        return bool(named) and self._asks_anything(view, lines)

    def _asks_anything(self, view: View, lines: list[str]) -> bool:
        keys = view.frame.takes_keys
        asks = (
            view.frame.reads_input
            or any(map(_QUESTION.search, lines))
            or (keys is not False and (_BUTTONS.search(view.visible) or _has_marked_question(view)))
            or (keys and (self._menu.rows or _is_typed_into(view)))
        )
        return bool(asks) and self._stands(view, view.changed_at)


def _list_asking_lines(view: View) -> list[str]:
    """Return the line with the cursor, and others on which a question may stand.

    A program that reads may show the cursor below its question, or hide it.
    """
    lines = [view.cursor]
    if view.frame.takes_keys or (view.frame.reads_input and not view.cursor.strip()):
        lines += _list_last_lines(view.visible, 1)
    if view.frame.takes_keys:
        marked = [line for line in view.visible.split("\n") if _MARK.match(line)]
        lines += [f"{_BRACKET.sub('', line)}:" for line in marked[-1:]]
    return lines


def _has_marked_question(view: View) -> bool:
    """Return whether a question that begins with a mark stands there, with no more than options."""
    lines = view.visible.rstrip().split("\n")
    marked = [n for n, line in enumerate(lines) if _MARK.match(line)]
    if not marked:
        return False
    options = lines[marked[-1] + 1 :]
    return bool(all(map(_OPTION.match, options)) if options else _MARK.match(view.cursor))


def _is_typed_into(view: View) -> bool:
    """Return whether one of the last lines, and no other, begins with the sign before an input."""
    rows = _list_last_lines(view.screen, 1 + _MOST_HINTS)
    return len([row for row in rows if _POINTER.match(_FRAME.sub("", row))]) == 1


def _list_last_lines(text: str, most: int) -> list[str]:
    """Return the last lines that are not blank."""
    return [line for line in text.split("\n") if line.strip()][-most:]


def _find_menu(screen: str) -> _Menu:
    """Return the menu at a screen's end, below which there are at most a few lines on its keys.

    Lines that are indented further than an option are its description.
    """
    lines = (line[:_LINE_END] for line in screen.split("\n"))
    rows = [row for line in lines if (row := _FRAME.sub("", line).rstrip())]
    options = [_CHOICE.match(row) for row in rows]
    pointers = [n for n, option in enumerate(options) if option and option["pointer"]]
    pointer = options[pointers[-1]] if pointers else None
    if pointer is None:
        return _Menu()
    begin, end, width = pointers[-1], pointers[-1] + 1, pointer.end("margin")
    while begin and _measure_indentation(rows[begin - 1]) >= width:
        begin -= 1
    while end < len(rows) and _measure_indentation(rows[end]) >= width:
        end += 1
    chosen = [each for each in options[begin:end] if each and each.end("margin") == width]
    if len(chosen) < 2 or end < len(rows) - _MOST_HINTS:  # noqa: PLR2004
        return _Menu()
    above = rows[begin - 1] if begin else ""
    numbers = [int(each["number"]) for each in chosen if each["number"]]
    is_numbered = len(numbers) > 1 and numbers == [*range(1, len(numbers) + 1)]
    # A list of files may have a ">", too; a menu of that form has a line of keys below.
    has_keys = ">" not in pointer["pointer"] or not above.endswith(":") or end < len(rows)
    is_sure = is_numbered or (_HEADING.search(above) is not None and has_keys)
    return _Menu(
        (above, *rows[begin:end]),
        frozenset(each["word"].lower() for each in chosen),
        is_sure=is_sure and _POINTER.match(pointer[0]) is not None,
    )


def _measure_indentation(row: str) -> int:
    return len(row) - len(row.lstrip(" "))


def _is_prompt_again(cursor: str, others: list[str]) -> bool:
    """Return whether an earlier line has the same prompt with typed text after it."""
    if not cursor.endswith((*">#$%❯)", "]:")):
        return False
    return _was_typed_at(cursor, others)


def _was_typed_at(prompt: str, lines: list[str]) -> bool:
    """Return whether one of the lines has more text after the prompt."""
    prompt = f"{_mask_digits(prompt)} "
    return any(_mask_digits(line).startswith(prompt) for line in lines)


def _mask_digits(line: str) -> str:
    return re.sub(r"\d+", "0", line.strip())
