"""Whether what is known of a window or a screen meets a condition. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple, TypeGuard

from taskmem_hookspecs.conditions import (
    Condition,
    ExitForm,
    ExitKind,
    Form,
    NumberForm,
    PercentForm,
    QuietForm,
    RegexForm,
    TextForm,
    quote,
    write_number,
)
from taskmem_hookspecs.matching import (
    BadPattern,
    Pattern,
    compile_regex,
    find_number,
    find_percentage,
)
from taskmem_vision.reading.page import OcrPage
from taskmem_vision.reading.screen_text import (
    EchoRemover,
    compile_phrase,
    drop_cuts,
    straighten_pattern,
    to_plain_text,
)

ReadForm = TextForm | RegexForm | PercentForm | NumberForm
"""A form that is judged by what is read."""
NUMERIC: Final = (PercentForm, NumberForm)
"""Those that only count on lines on which no number may have been misread."""
LEAST: Final = 2
"""Letters or digits of a text: fewer are found in what was read by mistake."""
MOST: Final = 100
"""A percentage that is higher was misread: 75 % as 715 %."""
_SHOWN: Final = 80
"""Characters of a text or a line that an observation names."""

_NO_STATUS: Final = (
    'A {target} has no exit status, so "{form}" cannot be judged there; quote what it '
    'shows then: "Build failed" appears.'
)
_NO_END: Final = (
    'A screen never ends, so "{form}" cannot be judged there; wait on the window, '
    "window:TITLE, or quote what the screen shows then."
)
_NO_SHELL: Final = (
    'Whether a {target} waits for an answer cannot be seen, so "{form}" cannot be '
    'judged there; quote the words of its dialog: "Password:" appears.'
)


class ScreenFacts(NamedTuple):
    """What is known of a window or a screen at one look."""

    shown: Mapping[Form, str]
    """The forms of which the title or the text shows what they look for, and where."""
    gone: Collection[Form] = ()
    """Texts that were shown, and are not any more."""
    quiet_seconds: float | None = None
    """For how long nothing has changed; None: unknown."""
    closed: str | None = None
    """The sentence that says that the window closed; None: it did not."""


class _CleanText(NamedTuple):
    """A text, without what repeats the condition."""

    flat: str
    """In plain form, on one line."""
    lines: str
    """As it was read."""


class Finder:
    """Finds in titles and texts what a condition looks for."""

    def __init__(self, condition: Condition) -> None:
        """Take the condition.

        Raises:
            BadPattern: One of its regular expressions is none.
        """
        forms = [form for side in condition.sides for form in side.forms]
        self._echoes = EchoRemover(condition)
        self._finders = {form: _make_finder(form) for form in forms if is_read(form)}

    def find(self, page: OcrPage, where: str = "text") -> dict[Form, str]:
        """Return the forms that a page shows, each with words that say what decides.

        `where` is what these words call it: `text` or `title`.
        """
        read = self._clean_text(page.text)
        sure = read if page.sure == page.text else self._clean_text(page.sure)
        found = (
            (form, find(sure if isinstance(form, NUMERIC) else read))
            for form, find in self._finders.items()
        )
        return {form: f"The {where} shows {_quote_text(what)}" for form, what in found if what}

    def _clean_text(self, text: str) -> _CleanText:
        shown = self._echoes.remove_echoes(text)
        return _CleanText(to_plain_text(shown), drop_cuts(shown))


def _make_finder(form: ReadForm) -> Callable[[_CleanText], str | None]:
    """Return what finds the text or the line that a form looks for; None: nothing."""
    match form:
        case RegexForm():
            pattern = _compile_pattern(form.regex)
            return lambda shown: pattern.find(shown.lines)
        case PercentForm():
            return lambda shown: find_percentage(shown.lines, form.percent, MOST)
        case NumberForm(number=name, op=op, value=bound):
            return lambda shown: find_number(shown.lines, name, op, bound)
        case TextForm():
            search = compile_phrase(form.text).search
            return lambda shown: form.text if search(shown.flat) else None


def _compile_pattern(regex: str) -> Pattern:
    try:
        return compile_regex(straighten_pattern(regex))
    except BadPattern:
        # A long dash was the end of no range, and a hyphen is one.
        return compile_regex(regex)


def _quote_text(text: str) -> str:
    """Return a text or a line as an observation names it."""
    return quote(f"{text[:_SHOWN]}…" if len(text) > _SHOWN else text)


def is_read(form: Form) -> TypeGuard[ReadForm]:
    """Whether a form is judged by what is read, and long enough to be read surely."""
    if isinstance(form, TextForm):
        return sum(map(str.isalnum, to_plain_text(form.text))) >= LEAST
    return isinstance(form, RegexForm | PercentForm | NumberForm)


def find_side(condition: Condition, known: ScreenFacts) -> str | None:
    """Return what decides, as a sentence; None: no side of the condition holds."""
    for side in condition.sides:
        reasons = [_explain_match(form, known) for form in side.forms]
        if reasons and all(reasons):
            return _join_reasons(filter(None, reasons))
    return None


def describe_forms(condition: Condition, known: ScreenFacts, where: str = "text") -> str:
    """Return how each form stands, as a sentence, where no side holds.

    `where` is what was read last: `text` or `title`.
    """
    forms = (form for side in condition.sides for form in side.forms)
    return _join_reasons(
        _explain_match(form, known) or _explain_mismatch(form, known, where) for form in forms
    )


def _explain_match(form: Form, known: ScreenFacts) -> str | None:
    """Return what shows that a form holds; None: it does not, or that is unknown."""
    match form:
        case TextForm(gone=True):
            gone = form in known.gone
            return f"{_quote_text(form.text)} is no longer shown" if gone else None
        case ExitForm():
            return known.closed
        case QuietForm():
            quiet = known.quiet_seconds
            since = f"Nothing has changed for {write_number(form.quiet)} s"
            return since if quiet is not None and quiet >= form.quiet else None
        case _:
            return known.shown.get(form)


def _explain_mismatch(form: Form, known: ScreenFacts, where: str) -> str:
    """Return how a form stands that does not hold."""
    match form:
        case ExitForm():
            return "The window is open"
        case QuietForm():
            return f"Something changed within the last {write_number(form.quiet)} s"
        case TextForm(gone=True) if form in known.shown:
            return f"{_quote_text(form.text)} is still shown"
        case TextForm():
            return f"The {where} does not show {_quote_text(form.text)}"
        case _:
            return f"The {where} does not show {str(form).removesuffix(' appears')}"


def _join_reasons(reasons: Iterable[str]) -> str:
    return f"{'; '.join(dict.fromkeys(each.rstrip('.') for each in reasons))}."


def explain_refusal(scheme: str, form: Form) -> str | None:
    """Return why a form cannot be judged on such a target, and what would do."""
    match form:
        case ExitForm() if scheme == "screen":
            reason = _NO_END
        case ExitForm(exit=ending) if ending != ExitKind.ANY:
            reason = _NO_STATUS
        case TextForm() | RegexForm() | PercentForm() | NumberForm():
            return None
        case QuietForm() | ExitForm():
            return None
        case _:
            reason = _NO_SHELL
    return reason.format(target=scheme, form=form)
