"""Matchers for the forms of a condition; each says why its form holds.

Texts, patterns, percentages and numbers count once they were seen since the wait began. Prompts,
questions, silence and absent texts are judged as they are now.

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

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Final

from taskmem_hookspecs.conditions import (
    Answer,
    AsksForm,
    ExitForm,
    ExitKind,
    Form,
    NumberForm,
    PercentForm,
    PromptForm,
    QuietForm,
    RegexForm,
    TextForm,
    write_number,
)
from taskmem_hookspecs.matching import compile_regex, find_number, find_percentage, find_text
from taskmem_terminal.frame_view import STILL_SECONDS, View, clip_line
from taskmem_terminal.process_exit import describe_end
from taskmem_terminal.prompts import PromptDetector, is_asking
from taskmem_terminal.recording import UNSEEN_END

_FOLLOWING_SAMPLES: Final = ("", " x", "x", "999999999", ".9")
"""Samples of what may follow an unfinished line, enough to decide every form."""
_SIGNAL_BASE: Final = 128
"""Shells report this plus the number of the signal that ended a command."""
_QUESTIONS: Final = {
    Answer.PASSWORD: "It asks for a password",
    Answer.YES_NO: "It asks yes or no",
    Answer.ANY: "It asks for input",
}


Match = Callable[[View], str | None]
"""Returns a sentence on why a form holds; None: it does not."""


def make_matcher(form: Form, kind: str) -> Match:
    """Return the matcher of a form; it must see every view of the wait.

    `kind` of the target: `tmux`, `file`, or empty for a recording.
    """
    match form:
        case TextForm(gone=True):
            return GoneMatcher(form.text).match
        case TextForm() | RegexForm() | PercentForm() | NumberForm():
            return SeenMatcher(form).match
        case ExitForm():
            prompt = PromptDetector(from_start=False) if kind == "tmux" else None
            return ExitMatcher(form.exit, prompt).match
        case PromptForm():
            return PromptMatcher(is_recording=not kind).match
        case AsksForm():
            return partial(_match_question, wanted=form.asks)
        case QuietForm():
            return partial(_match_silence, seconds=form.quiet)


class SeenMatcher:
    """Matches text on any line since the wait began."""

    __slots__ = ("_find", "_form", "_found", "_is_open")

    def __init__(self, form: TextForm | RegexForm | PercentForm | NumberForm) -> None:
        self._form = form
        self._find = _make_finder(form)
        self._found: str | None = None
        self._is_open = False
        """True if the form matched the unfinished line at the last look."""

    def match(self, view: View) -> str | None:
        """Return why the form holds; None: it does not."""
        if self._found is None and (line := self._search(view)) is not None:
            form = str(self._form).removesuffix(" appears")
            self._found = f'{form} appeared: "{clip_line(line)}"'
        return self._found

    def _search(self, view: View) -> str | None:
        if view.lines and (line := self._find(view.lines)) is not None:
            return line
        before, self._is_open = self._is_open, bool(view.open) and self._holds_on(view.open)
        # A partly overwritten line may show a number that was never printed.
        sure = before or isinstance(self._form, TextForm | RegexForm)
        return view.open if self._is_open and sure else None

    def _holds_on(self, line: str) -> bool:
        """Return whether the form matches an unfinished line, whatever follows."""
        ends = not (line[-1].isalnum() or line[-1] in ".,/")
        following = _FOLLOWING_SAMPLES[:2] if ends else _FOLLOWING_SAMPLES
        return all(self._find(line + more) is not None for more in following)


class GoneMatcher:
    """Matches a text that was seen and is no longer visible."""

    __slots__ = ("_gone_since", "_seen", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._seen = False
        self._gone_since: datetime | None = None

    def match(self, view: View) -> str | None:
        """Return why the form holds; None: it does not."""
        screen = view.frame.screen
        visible = view.tail if screen is None else screen
        if find_text(f"{visible}\n{view.open}", self._text) is not None:
            self._seen, self._gone_since = True, None
            return None
        self._seen = self._seen or find_text(view.lines, self._text) is not None
        if not self._seen:
            return None
        now = view.frame.seen_at
        self._gone_since = self._gone_since or now
        left = STILL_SECONDS - (now - self._gone_since).total_seconds()
        # A screen is empty for a moment while it is repainted.
        if left > 0 and not view.over:
            view.look_again(left)
            return None
        return f'"{self._text}" is gone'


class ExitMatcher:
    """Matches the end of the command."""

    __slots__ = ("_prompt", "_wanted")

    def __init__(self, wanted: ExitKind | int, prompt: PromptDetector | None) -> None:
        """Set the expected end, and the detector of a prompt that shows it; None: no detector."""
        self._wanted = wanted
        self._prompt = prompt

    def match(self, view: View) -> str | None:
        """Return why the form holds; None: it does not."""
        status, gone = view.frame.exit_status, view.frame.gone
        if status is not None:
            return describe_end("The command", status) if self._matches_status(status) else None
        if self._wanted is not ExitKind.ANY:
            return None
        if gone is not None:
            return None if UNSEEN_END in gone else gone
        if self._prompt is not None and self._prompt.is_back(view):
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


class PromptMatcher:
    """Matches the return of a prompt."""

    __slots__ = ("_is_recording", "_notice")

    def __init__(self, *, is_recording: bool) -> None:
        self._is_recording = is_recording
        self._notice = PromptDetector(from_start=is_recording)

    def match(self, view: View) -> str | None:
        """Return why the form holds; None: it does not."""
        if self._notice.is_back(view):
            return f'The prompt is back: "{clip_line(view.cursor)}"'
        gone = view.frame.gone
        if self._is_recording and gone is not None and UNSEEN_END not in gone:
            return gone
        return None


def _match_question(view: View, wanted: Answer) -> str | None:
    if not is_asking(view, wanted):
        return None
    # No colon here: a question about a password would look like one.
    return f'{_QUESTIONS[wanted]} ("{clip_line(view.cursor or view.last_line)}")'


def _match_silence(view: View, seconds: float) -> str | None:
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
            return partial(find_percentage, at_least=form.percent)
        case NumberForm():
            return partial(find_number, name=form.number, op=form.op, bound=form.value)
