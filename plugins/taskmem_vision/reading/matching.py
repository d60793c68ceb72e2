"""Match the facts about a window or screen with a condition. Pure."""

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
"""A form that is judged by text."""
NUMERIC: Final = (PercentForm, NumberForm)
"""Forms that count only on lines without a possibly misread number."""
LEAST: Final = 2
"""Minimum letters or digits of a text: shorter ones match misread text."""
MOST: Final = 100
"""A higher percentage was misread, such as 75 % as 715 %."""
_SHOWN: Final = 80
"""Maximum length of a quotation in an observation. Characters."""

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
    """Facts about a window or screen at one look."""

    shown: Mapping[Form, str]
    """Forms found in the title or the text, each with a sentence on where."""
    gone: Collection[Form] = ()
    """Texts that were visible and no longer are."""
    quiet_seconds: float | None = None
    """Time since the last change; None: unknown."""
    closed: str | None = None
    """The sentence that the window closed; None: it did not."""


class _CleanText(NamedTuple):
    """A text without echoes of the condition."""

    flat: str
    """Normalised, on one line."""
    lines: str
    """In lines, as read."""


class Finder:
    """Finds a condition's forms in titles and texts."""

    def __init__(self, condition: Condition) -> None:
        """Set the condition.

        Raises:
            BadPattern: A regular expression is invalid.
        """
        forms = [form for side in condition.sides for form in side.forms]
        self._echoes = EchoRemover(condition)
        self._finders = {form: _make_finder(form) for form in forms if is_read(form)}

    def find(self, page: OcrPage, where: str = "text") -> dict[Form, str]:
        """Return the forms found on a page, each with a sentence for the observation.

        `where` is the page's name in these sentences: `text` or `title`.
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
    """Return a function that finds a form's text or line; it returns None if not found."""
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
        # A long dash replaced by a hyphen may form an invalid range: keep the original.
        return compile_regex(regex)


def _quote_text(text: str) -> str:
    """Return a quotation for an observation."""
    return quote(f"{text[:_SHOWN]}…" if len(text) > _SHOWN else text)


def is_read(form: Form) -> TypeGuard[ReadForm]:
    """Return whether a form is judged by text, and long enough to be read reliably."""
    if isinstance(form, TextForm):
        return sum(map(str.isalnum, to_plain_text(form.text))) >= LEAST
    return isinstance(form, RegexForm | PercentForm | NumberForm)


def find_side(condition: Condition, known: ScreenFacts) -> str | None:
    """Return why a side of the condition holds, as a sentence; None: none holds."""
    for side in condition.sides:
        reasons = [_explain_match(form, known) for form in side.forms]
        if reasons and all(reasons):
            return _join_reasons(filter(None, reasons))
    return None


def describe_forms(condition: Condition, known: ScreenFacts, where: str = "text") -> str:
    """Return the state of each form as a sentence, if no side holds.

    `where` says what was last read: `text` or `title`.
    """
    forms = (form for side in condition.sides for form in side.forms)
    return _join_reasons(
        _explain_match(form, known) or _explain_mismatch(form, known, where) for form in forms
    )


def _explain_match(form: Form, known: ScreenFacts) -> str | None:
    """Return why a form holds; None: it does not, or it is unknown."""
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
    """Return the state of a form that does not hold."""
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
    """Return why a form is impossible for such a target, and what to use; None: it is possible."""
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
