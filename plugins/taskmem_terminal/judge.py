"""Judge a terminal's text by rules, without a model.

A condition holds if one of its sides holds; a side holds if all of its forms hold. Sides in plain
English are left to the readers.

Each form has a matcher, which says why the form holds. Texts, patterns, percentages and numbers
count once they were seen since the wait began. Prompts, questions, silence and absent texts are
judged as they are now; what the program in front does with its input decides on the former two
(`questions.py`).

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
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from taskmem_hookspecs import ConditionUnclear, Frame, Met, Ruling
from taskmem_hookspecs.amounts import AmountWatch, find_percentage
from taskmem_hookspecs.conditions import (
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
from taskmem_terminal.questions import PromptDetector, QuestionMatcher
from taskmem_terminal.recording import UNSEEN_END, describe_end
from taskmem_terminal.views import STILL_SECONDS, TRACE, View, ViewBuilder, clip_line

_FOLLOWING_SAMPLES: Final = ("", " x", "x", "999999999", ".9")
"""Samples of what may follow an unfinished line, enough to decide every form."""
_SIGNAL_BASE: Final = 128
"""Shells report this plus the number of the signal that ended a command."""


Match = Callable[[View], str | None]
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
            prompt = PromptDetector(from_start=False) if kind == "tmux" else None
            return _ExitMatcher(form.exit, prompt).match
        case PromptForm():
            return _PromptMatcher(is_recording=not kind).match
        case AsksForm():
            return QuestionMatcher(form.asks).match
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
        self._is_of_traces = isinstance(form, TextForm) and bool(TRACE.match(form.text))
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
        shown = f"{view.lines}\n{view.traced}" if self._is_of_traces else view.lines
        if shown and (line := self._find(shown)) is not None:
            return line
        return view.open if self._is_sure_of_open(view) else None

    def _is_sure_of_open(self, view: View) -> bool:
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

    def _search(self, view: View) -> str | None:
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

    def match(self, view: View) -> str | None:
        """Return why the form holds; None: it does not."""
        if find_text(f"{view.visible}\n{view.open}", self._text) is not None:
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


class _ExitMatcher:
    """Matches the end of the command."""

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
        self._notice = PromptDetector(from_start=is_recording)

    def match(self, view: View) -> str | None:
        """Return why the form holds; None: it does not."""
        if self._notice.is_back(view):
            return f'The prompt is back: "{clip_line(view.cursor)}"'
        gone = view.frame.gone
        if self._is_recording and gone is not None and UNSEEN_END not in gone:
            return gone
        return None


def _explain_silence(view: View, seconds: float) -> str | None:
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
        self._viewer = ViewBuilder()

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

    def _describe(self, view: View) -> str:
        """Return the observation if no side holds; empty: nothing was shown yet."""
        last = view.last_line
        seen = f'Last line: "{clip_line(last)}"' if last else ""
        if not view.over:
            return seen
        sides = " or ".join(str(self._condition.sides[side]) for side in self.sides)
        over = f"Nothing more will come, so “{clip_line(sides)}” can no longer hold."
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
