"""Judge a terminal's text by rules, without a model.

A condition holds if one of its sides holds; a side holds if all of its forms hold. Sides in plain
English are left to the readers.

A `_View` prepares one frame for all forms. Typed lines are left out. The line with the cursor may
still grow, so it is *open* until no output has come for a moment or the command has ended; then it
is an ordinary line. A line is at most as long as one look (256 KiB).

A terminal waits for a command or an answer if the program in front is blocked in reading it: an
interactive shell waits for a command, another program for an answer. A program that does something
else asks nothing, whatever it shows. Where the system does not tell what the program does, the last
lines decide. A shell's prompt is recognised by its form (`me@host:~$`, `[me@host src]#`,
`bash-5.2$`, `❯`) if the shell does not mark it. Other prompts (`mysql>`, `(gdb)`, `In [3]:`) are
recognised by an earlier line with the same prompt and typed text after it. So the first one is
never "back", and `password:` is not a prompt.

A terminal then asks if it hides what is typed, as for a password, or if the line with the cursor
ends like a question: with `?`, `:`, `[y/N]`, `(yes/no)`, with a default in brackets after one of
them, or with `--More--`. A list of options below a question, such as `? Select a framework:`, and a
box with buttons such as `<Yes>` and `<No>` are questions too.

Each form has a matcher, which says why the form holds. Texts, patterns, percentages and numbers
count once they were seen since the wait began. Prompts, questions, silence and absent texts are
judged as they are now.

* A text is a substring of a line, and a pattern matches within one line.
* On an unfinished line, a match counts if it holds whatever may follow: texts and patterns at once,
  percentages and numbers at the second look. Other matches count when the line is finished or no
  output has come for a moment.
* A text is gone if it was seen and has been absent for a moment: from the screen of a tmux pane or
  a painting program, or from the last 80 lines of other targets. In a pane, the screen at the
  wait's start counts as seen.
* A command's end is known only from its status and the sensor. A command with an unknown status has
  ended, but neither well nor badly. In a tmux pane, a command has also ended in that way when the
  shell's prompt is back.
* For a command recorded by `taskmem run`, its end also counts as the return of the prompt.
* Silence is the time since the target last changed, whatever it shows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from taskmem_hookspecs import ConditionUnclear, Frame, Met, Ruling
from taskmem_hookspecs.amounts import AmountWatch, find_percentage
from taskmem_hookspecs.conditions import (
    Answer,
    AsksForm,
    Condition,
    ExitForm,
    ExitKind,
    FieldForm,
    Form,
    NumberForm,
    PercentForm,
    PromptForm,
    QuietForm,
    RegexForm,
    StateForm,
    StepForm,
    TextForm,
    write_number,
)
from taskmem_hookspecs.matching import compile_regex, find_number, find_text
from taskmem_terminal.frames import remove_typed_lines
from taskmem_terminal.recording import UNSEEN_END, describe_end

_STILL_SECONDS: Final = 0.3
"""Time without output after which an unfinished line counts as finished. Seconds."""
_TRACE: Final = re.compile(r"\++ \S")
_QUOTE_CHARS: Final = 200
"""Maximum length of a quoted line. Characters."""


class _View:
    """One frame without its typed lines, plus state from earlier frames."""

    def __init__(self, frame: Frame, *, changed_at: datetime, cursor: str) -> None:
        """Set the frame.

        `cursor` is the text before the cursor on its line, typed or not.
        """
        self.frame = frame
        self.cursor = cursor
        self.over = frame.exit_status is not None or frame.gone is not None
        self.still_seconds = (frame.seen_at - changed_at).total_seconds()
        self.settled = self.over or self.still_seconds >= _STILL_SECONDS or not cursor
        """True if the line with the cursor is final."""
        self.lines = ""
        """New lines that are final."""
        self.open = ""
        """The line that may still grow; empty: there is none."""
        self.tail = ""
        """The frame's `tail`: the last lines since the wait's start; typed ones are empty."""
        self.screen = (frame.tail or "") if frame.screen is None else frame.screen
        """The visible text, including typed lines and output from before the wait."""
        self.visible = ""
        """The visible text; typed lines are empty."""
        self.first_screen = ""
        """The visible text when the wait began."""
        self.traced = ""
        """Commands that `set -x` showed, which count as typed."""
        self.look_again_seconds: float | None = None

    @property
    def last_line(self) -> str:
        """The last line that is not blank."""
        return _read_last_line(self.tail or self.lines).strip()

    def is_at_rest(self) -> bool:
        """Return whether no output has come for a moment; if not, request a look then."""
        left = 0.0 if self.over else _STILL_SECONDS - self.still_seconds
        if left > 0:
            self.look_again(left)
        return left <= 0

    def look_again(self, seconds: float) -> None:
        """Request a look after `seconds` even if nothing changes; the shortest request wins."""
        known = self.look_again_seconds
        self.look_again_seconds = seconds if known is None else min(known, seconds)


class _ViewBuilder:
    """Makes views of the frames of one wait, in order."""

    def __init__(self) -> None:
        self._cursor = ""
        self._rows: frozenset[str] = frozenset()
        """Rows that were visible at the last look."""
        self._known: frozenset[str] = frozenset()
        """Visible rows that have already been added as lines."""
        self._printed = ("", "")
        """The last two texts that were not empty."""
        self._changed_at: datetime | None = None
        self._first_screen: str | None = None

    def build_view(self, frame: Frame) -> _View:
        """Return the view of the next frame."""
        text, tail = frame.text or "", frame.tail or ""
        if text:
            self._cursor = text[text.rfind("\n") + 1 :]
        if text or self._changed_at is None:
            self._changed_at = frame.seen_at
        changed_at = frame.changed_at or self._changed_at
        view = _View(frame, changed_at=changed_at, cursor=self._cursor)
        if not (text or self._printed[1]):
            # Nothing came since the wait began; a question may stand there already.
            view.cursor = _read_last_line(view.screen)
        typed = {line.strip() for line in frame.echoes}
        view.traced = "\n".join(filter(_TRACE.match, frame.echoes))
        view.lines = _remove_typed(text[: text.rfind("\n") + 1], typed)
        if self._cursor.strip() not in typed:
            if view.settled:
                view.lines += self._cursor
            else:
                view.open = self._cursor
                view.look_again(_STILL_SECONDS)
        view.tail = _remove_typed(tail, typed)
        view.visible = view.tail if frame.screen is None else remove_typed_lines(view.screen)
        if self._first_screen is None:
            self._first_screen = view.screen
        view.first_screen = self._first_screen
        self._printed = (self._printed[1], text) if text else self._printed
        if tail and tail not in text:
            self._add_rows(view)
        return view

    def _add_rows(self, view: _View) -> None:
        """Add rows of a painted screen that were never printed as lines.

        While a program paints, a row may be incomplete; it counts at its second look.
        """
        rows = frozenset(view.tail.split("\n")) - {self._cursor.rstrip(), ""}
        whole = rows if view.settled else rows & self._rows
        fresh = [
            row
            for row in sorted(whole - self._known, key=view.tail.find)
            if not any(row in printed for printed in self._printed)
        ]
        if fresh:
            view.lines += "\n" + "\n".join(fresh)
        if rows - whole:
            view.look_again(_STILL_SECONDS)
        self._known = (self._known | whole) & rows
        self._rows = rows


def _read_last_line(text: str) -> str:
    """Return the last line that is not blank."""
    text = text.rstrip()
    return text[text.rfind("\n") + 1 :]


def _clip_line(line: str) -> str:
    """Shorten a line for a quotation."""
    line = " ".join(line[: 4 * _QUOTE_CHARS].split())
    return line if len(line) <= _QUOTE_CHARS else f"{line[: _QUOTE_CHARS - 1]}…"


def _remove_typed(text: str, typed: set[str]) -> str:
    if not typed:
        return text
    kept = ("" if line.strip() in typed else line for line in text.split("\n"))
    return "\n".join(kept)


# --- prompts and questions ----------------------------------------------------


_QUESTION_SECONDS: Final = 1.0
"""How long a line that only ends like a question must stay unchanged. Seconds."""
_NEAR_LINES: Final = 3
_MASK_SIGNS: Final = re.compile(r"[*•]+$")
"""Signs that stand for typed letters of a password."""
_MOST_HINTS: Final = 4
"""Maximum number of lines below a menu, such as the keys that it takes."""
_FRAME: Final = re.compile(r"^\s*[│┃║|]|[│┃║|]\s*$|^[\s╭╮╰╯┌┐└┘─━═]+$")
"""The border of a box around a menu."""
_CHOICE: Final = re.compile(r"( *(?:[❯›▸▶→➤>»] +)?)(?:\d{1,2}[.)] +)?(\w+)")
"""A menu's option: its indentation with the pointer, perhaps a number, and its first word."""
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
    r"(?:\by(?:es)?\]? ?(?:/|\||or) ?\[?n(?:o)?\b|\[y\]es\b|[(\[]y(?:es|n)?[)\]])"
    r"(?:\W*|[^\n]{0,80}[\])?:›>] ?)$",
    re.IGNORECASE,
)
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
_MENU: Final = re.compile(r"\s{0,8}(?:[?◆◈]|\[\?\]) +\S")
_OPTION: Final = re.compile(r"\s*(?:[❯›>»●○◉◯◻◼■□✔✓*│└─-]|\(.\)|\[.\]|\d+[.)])|\s{2,}\S|\s*$")
_ANY_BUTTON: Final = r"<\s?(?:ok|yes|no|cancel|continue|back|help)\s?>"
_BUTTONS: Final = re.compile(
    rf"^\s*(?:[│┃║|]\s*{_ANY_BUTTON}|{_ANY_BUTTON}\s+{_ANY_BUTTON})"
    rf"(?:\s*{_ANY_BUTTON})*\s*[│┃║|]?\s*$",
    re.IGNORECASE | re.MULTILINE,
)
"""A line with nothing but buttons: inside a box, or several of them."""


class _PromptDetector:
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

    def is_back(self, view: _View) -> bool:
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


def _may_read(view: _View) -> bool:
    """Return whether a program may read; if none does, request a look when the silence doubled.

    On a busy machine, a program shows its prompt long before it reads.
    """
    if view.frame.reads_input is False:
        view.look_again(max(_QUESTION_SECONDS, view.still_seconds))
    return view.frame.reads_input is not False


def _is_shell_prompt(line: str) -> bool:
    """Return whether a line is clearly a shell's prompt with nothing after it."""
    return _SHELL.fullmatch(line.rstrip()) is not None


def _is_shell_asking(view: _View) -> bool:
    """Return whether a shell that reads by its editor shows a question and not its prompt.

    `rm *` in zsh and `read -P` in fish do. A prompt may end in a colon, too, but then commands
    were typed at it.
    """
    line = view.cursor.rstrip()[-_LINE_END:]
    if _YES_NO.search(line):
        return True
    known = f"{view.first_screen}\n{view.screen}\n{view.tail}".split("\n")
    return _SHELL_QUESTION.search(line) is not None and not _was_typed_at(line, known)


def _continues_command(view: _View) -> bool:
    """Return whether a shell shows its second prompt, for the rest of an unfinished command.

    Then the last line above that does not begin alike is typed.
    """
    cursor = view.cursor.strip()
    if not _SECOND_PROMPT.fullmatch(cursor):
        return False
    lines = [line for line in view.screen.split("\n") if line.strip()]
    above = next((line for line in reversed(lines) if not line.startswith(cursor)), "")
    return bool(above) and (above in view.frame.echoes or not remove_typed_lines(above))


def _is_asking(view: _View, what: Answer) -> bool:
    """Return whether the terminal waits for this kind of answer."""
    frame = view.frame
    reads = frame.reads_input
    if view.over or not _may_read(view):
        return False
    if frame.prompt and not _is_shell_asking(view):
        return False
    if reads is None and _is_shell_prompt(view.cursor):
        return False
    if frame.hides_input and what is not Answer.YES_NO:
        return True
    return view.is_at_rest() and _is_question(view, what)


def _is_question(view: _View, what: Answer) -> bool:
    """Return whether what is shown asks for this kind of answer."""
    line = view.cursor
    if view.frame.reads_input and not line.strip():
        # The answer is typed below the question.
        line = _read_last_line(view.visible)
    line = _MASK_SIGNS.sub("", line[-_LINE_END:])
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


def _asks_yes_or_no(view: _View, line: str) -> bool:
    buttons = _BUTTONS.search(view.visible)
    if _YES_NO.search(line) or (buttons and "yes" in buttons[0].lower()):
        return True
    if {"yes", "no"} <= {option.lower() for option in _list_options(view.screen)}:
        return _asks_anything(view, line)
    near = [line for line in view.visible.split("\n") if line.strip()][-_NEAR_LINES:]
    question = _YES_QUOTED.search("\n".join(near))
    return question is not None and _asks_anything(view, line)


def _asks_anything(view: _View, line: str) -> bool:
    lines = view.visible.rstrip().split("\n")
    menus = [n for n, line in enumerate(lines) if _MENU.match(line)]
    options = lines[menus[-1] + 1 :] if menus else []
    chosen_from = bool(options) and all(map(_OPTION.match, options))
    typed_at = bool(line) and (_QUESTION.search(line) or _MENU.match(view.cursor))
    if not (
        view.frame.reads_input
        or chosen_from
        or typed_at
        or _BUTTONS.search(view.visible)
        or _list_options(view.screen)
    ):
        return False
    if view.still_seconds < _QUESTION_SECONDS:
        view.look_again(_QUESTION_SECONDS - view.still_seconds)
        return False
    return True


def _list_options(screen: str) -> list[str]:
    """Return the first words of the options of a menu at a screen's end; empty: there is none.

    A menu has a line that ends like a question, and below it at least two lines that are indented
    alike, exactly one of them with a pointer.
    """
    lines = (line[:_LINE_END] for line in screen.split("\n"))
    rows = [row for line in lines if (row := _FRAME.sub("", line).rstrip())]
    for end in range(len(rows), max(1, len(rows) - _MOST_HINTS) - 1, -1):
        options: list[re.Match[str]] = []
        for row in reversed(rows[:end]):
            option = _CHOICE.match(row)
            width = options[0].end(1) if options else 0
            if option is None or not option[1] or width not in (0, option.end(1)):
                break
            options.append(option)
        pointers = [pointer for option in options if (pointer := option[1].strip())]
        heading = "".join(rows[end - len(options) - 1 : end - len(options)])
        if len(options) < 2 or len(pointers) != 1 or not _HEADING.search(heading):  # noqa: PLR2004
            continue
        # A list of files may have a ">", too; a menu of that form has a line of keys below.
        if pointers[0] != ">" or not heading.endswith(":") or end < len(rows):
            return [option[2] for option in options]
    return []


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


# --- matchers -----------------------------------------------------------------


_FOLLOWING_SAMPLES: Final = ("", " x", "x", "999999999", ".9")
"""Samples of what may follow an unfinished line, enough to decide every form."""
_SIGNAL_BASE: Final = 128
"""Shells report this plus the number of the signal that ended a command."""
_QUESTIONS: Final = {
    Answer.PASSWORD: "It asks for a password",
    Answer.YES_NO: "It asks yes or no",
    Answer.ANY: "It asks for input",
}


Match = Callable[[_View], str | None]
"""Returns a sentence on why a form holds; None: it does not."""


def _make_matcher(form: Form, kind: str) -> Match:
    """Return the matcher of a form; it must see every view of the wait.

    `kind` of the target: `tmux`, `file`, or empty for a recording.
    """
    match form:
        case TextForm(gone=True):
            return _GoneMatcher(form.text).match
        case TextForm() | RegexForm() | PercentForm() | NumberForm():
            return _make_seen_matcher(form).match
        case ExitForm():
            prompt = _PromptDetector(from_start=False) if kind == "tmux" else None
            return _ExitMatcher(form.exit, prompt).match
        case PromptForm():
            return _PromptMatcher(is_recording=not kind).match
        case AsksForm():
            return partial(_explain_question, wanted=form.asks)
        case QuietForm():
            return partial(_explain_silence, seconds=form.quiet)
        case StateForm() | StepForm() | FieldForm():
            raise AssertionError("of a terminal no such form is read")


def _make_seen_matcher(form: TextForm | RegexForm | PercentForm | NumberForm) -> _SeenMatcher:
    if isinstance(form, PercentForm) and form.name is None:
        return _AmountMatcher(form)
    return _SeenMatcher(form)


class _SeenMatcher:
    """Matches text on any line since the wait began."""

    def __init__(self, form: TextForm | RegexForm | PercentForm | NumberForm) -> None:
        self._form = form
        self._find = _make_finder(form)
        # Who writes the sign of `set -x` means the command that it shows.
        self._is_of_traces = isinstance(form, TextForm) and bool(_TRACE.match(form.text))
        self._found: str | None = None
        self._is_open = False
        """True if the form matched the unfinished line at the last look."""

    def match(self, view: _View) -> str | None:
        """Return why the form holds; None: it does not."""
        if self._found is None and (line := self._search(view)) is not None:
            form = str(self._form).removesuffix(" appears")
            self._found = f'{form} appeared: "{_clip_line(line)}"'
        return self._found

    def _search(self, view: _View) -> str | None:
        shown = f"{view.lines}\n{view.traced}" if self._is_of_traces else view.lines
        if shown and (line := self._find(shown)) is not None:
            return line
        return view.open if self._is_sure_of_open(view) else None

    def _is_sure_of_open(self, view: _View) -> bool:
        """Return whether the unfinished line matches; numbers do at the second look."""
        before, self._is_open = self._is_open, bool(view.open) and self._holds_on(view.open)
        # A partly overwritten line may show a number that was never printed.
        return self._is_open and (before or isinstance(self._form, TextForm | RegexForm))

    def _holds_on(self, line: str) -> bool:
        """Return whether the form matches an unfinished line, whatever follows."""
        ends = not (line[-1].isalnum() or line[-1] in ".,/")
        following = _FOLLOWING_SAMPLES[:2] if ends else _FOLLOWING_SAMPLES
        return all(self._find(line + more) is not None for more in following)


class _AmountMatcher(_SeenMatcher):
    """Matches a percentage of the whole, once it was reached since the wait began."""

    def __init__(self, form: PercentForm) -> None:
        super().__init__(form)
        self._amounts = AmountWatch(form.percent)

    def _search(self, view: _View) -> str | None:
        shown = view.lines
        if self._is_sure_of_open(view) or (view.open and self._find(view.open) is None):
            shown = f"{shown.removesuffix(chr(10))}\n{view.open}"
        changed_at = view.frame.seen_at - timedelta(seconds=view.still_seconds)
        self._amounts.observe(shown, changed_at)
        line, left = self._amounts.find(view.frame.seen_at, is_over=view.over)
        if left is not None:
            view.look_again(left)
        return line


class _GoneMatcher:
    """Matches a text that was seen and is no longer visible."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._seen = False
        self._gone_since: datetime | None = None

    def match(self, view: _View) -> str | None:
        """Return why the form holds; None: it does not."""
        if find_text(f"{view.visible}\n{view.open}", self._text) is not None:
            self._seen, self._gone_since = True, None
            return None
        self._seen = self._seen or find_text(view.lines, self._text) is not None
        if not self._seen:
            return None
        now = view.frame.seen_at
        self._gone_since = self._gone_since or now
        left = _STILL_SECONDS - (now - self._gone_since).total_seconds()
        # A screen is empty for a moment while it is repainted.
        if left > 0 and not view.over:
            view.look_again(left)
            return None
        return f'"{self._text}" is gone'


class _ExitMatcher:
    """Matches the end of the command."""

    def __init__(self, wanted: ExitKind | int, prompt: _PromptDetector | None) -> None:
        """Set the expected end, and the detector of a prompt that shows it; None: no detector."""
        self._wanted = wanted
        self._prompt = prompt

    def match(self, view: _View) -> str | None:
        """Return why the form holds; None: it does not."""
        status, gone = view.frame.exit_status, view.frame.gone
        if status is not None:
            return describe_end("The command", status) if self._matches_status(status) else None
        if self._wanted is not ExitKind.ANY:
            return None
        if gone is not None:
            return None if UNSEEN_END in gone else gone
        is_back = self._prompt is not None and self._prompt.is_back(view)
        if is_back and view.frame.prompt is not False:
            return "The shell's prompt is back"
        return None

    def _matches_status(self, status: int) -> bool:
        match self._wanted:
            case ExitKind.ANY:
                return True
            case ExitKind.SUCCESS:
                return status == 0
            case ExitKind.FAILURE:
                return status != 0
            case number:
                return number in (status, _SIGNAL_BASE - status if status < 0 else status)


class _PromptMatcher:
    """Matches the return of a prompt."""

    def __init__(self, *, is_recording: bool) -> None:
        self._is_recording = is_recording
        self._notice = _PromptDetector(from_start=is_recording)

    def match(self, view: _View) -> str | None:
        """Return why the form holds; None: it does not."""
        if self._notice.is_back(view):
            return f'The prompt is back: "{_clip_line(view.cursor)}"'
        gone = view.frame.gone
        if self._is_recording and gone is not None and UNSEEN_END not in gone:
            return gone
        return None


def _explain_question(view: _View, wanted: Answer) -> str | None:
    if not _is_asking(view, wanted):
        return None
    # No colon here: a question about a password would look like one.
    return f'{_QUESTIONS[wanted]} ("{_clip_line(view.cursor or view.last_line)}")'


def _explain_silence(view: _View, seconds: float) -> str | None:
    left = seconds - view.still_seconds
    if left <= 0:
        return f"Nothing was shown for {write_number(seconds)} s"
    if not view.over:
        view.look_again(left)
    return None


def _make_finder(
    form: TextForm | RegexForm | PercentForm | NumberForm,
) -> Callable[[str], str | None]:
    """Return a function that finds the first matching line of a text."""
    match form:
        case TextForm():
            return partial(find_text, quote=form.text)
        case RegexForm():
            return compile_regex(form.regex).find
        case PercentForm():
            return partial(find_percentage, at_least=form.percent, name=form.name)
        case NumberForm():
            return partial(find_number, name=form.number, op=form.op, bound=form.value)


# --- the judge ----------------------------------------------------------------


_NO_TEXT: Final = "There is no text to read."
_IMPOSSIBLE_FORMS: Final = (ExitForm, PromptForm, AsksForm)
"""Forms that a file cannot have."""


class TerminalRuleJudge:
    """Judges one wait on a terminal."""

    name = "rules"

    def __init__(self, condition: Condition, name: str) -> None:
        """Set the condition and the name of a `pty:` target.

        Raises:
            ConditionUnclear: A form of the condition is impossible for such a target.
        """
        kind = name.partition(":")[0] if ":" in name else ""
        if kind == "file":
            _refuse_forms(condition, name)
        self.sides = condition.parsed_sides
        self._all = not condition.free
        self._condition = condition
        self._matchers = [
            [_make_matcher(form, kind) for form in condition.sides[side].forms]
            for side in self.sides
        ]
        self._viewer = _ViewBuilder()

    async def rule(self, frame: Frame) -> Ruling:
        """Return whether one of the sides with forms holds."""
        if frame.text is None and frame.exit_status is None and frame.gone is None:
            return Ruling(met=Met.UNSURE, observation=_NO_TEXT)
        view = self._viewer.build_view(frame)
        # Every matcher must see every frame.
        found = [[match(view) for match in matchers] for matchers in self._matchers]
        for why in found:
            reasons = [reason for reason in why if reason is not None]
            if len(reasons) == len(why):
                observation = ", and ".join(reason.rstrip(".") for reason in reasons)
                note = f". {frame.note}" if frame.note else ""
                return Ruling(met=Met.YES, observation=observation + note)
        return Ruling(
            met=Met.NO if self._all else Met.UNSURE,
            observation=" ".join(filter(None, (frame.note, self._describe(view)))),
            look_again_seconds=view.look_again_seconds,
        )

    def _describe(self, view: _View) -> str:
        """Return the observation if no side holds; empty: nothing was shown yet."""
        last = view.last_line
        seen = f'Last line: "{_clip_line(last)}"' if last else ""
        if not view.over:
            return seen
        sides = " or ".join(str(self._condition.sides[side]) for side in self.sides)
        over = f"Nothing more will come, so “{_clip_line(sides)}” can no longer hold."
        return f"{over} {seen}".rstrip()


def _refuse_forms(condition: Condition, name: str) -> None:
    """Refuse forms that are impossible for a file."""
    refused: dict[int, Form] = {}
    for number, side in enumerate(condition.sides):
        if impossible := [form for form in side.forms if isinstance(form, _IMPOSSIBLE_FORMS)]:
            refused[number] = impossible[0]
    if refused:
        forms = " and ".join(dict.fromkeys(f"“{form}”" for form in refused.values()))
        advice = dict.fromkeys(_suggest_form(form) for form in refused.values())
        raise ConditionUnclear(
            f"pty:{name} is a file, which has no command, prompt or question, so "
            f"{forms} cannot be judged there; wait for what is written into it, such "
            f"as {' or '.join(advice)}.",
            sides=tuple(refused),
        )


def _suggest_form(form: Form) -> str:
    """Return a form that is possible for a file."""
    if isinstance(form, ExitForm) and form.exit in (ExitKind.ANY, ExitKind.SUCCESS):
        return "/done|finished|completed/i appears"
    if isinstance(form, ExitForm):
        return "/error|failed|traceback/i appears"
    return "quiet for 30 s"
