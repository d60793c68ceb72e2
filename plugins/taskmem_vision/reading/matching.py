"""Match the facts about a window or screen with a condition. Pure.

Text of screens and titles is normalised first, so that similar characters compare equal.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
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
from taskmem_vision.reading.ocr import OcrPage

_STRAIGHT_SIGNS: Final = {
    **dict.fromkeys("“”„‟«»″", '"'),
    **dict.fromkeys("‘’‚‛‹›′`´ʼ", "'"),
    **dict.fromkeys("‐‑‒–−", "-"),
}
_ALIKE_SIGNS: Final = str.maketrans({**_STRAIGHT_SIGNS, **dict.fromkeys("—―", " - ")})
_PATTERN_SIGNS: Final = str.maketrans(
    {**_STRAIGHT_SIGNS, **dict.fromkeys("—―", "-"), "…": r"\.\.\."}
)
_INVISIBLE_SIGNS: Final = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_CONTROL_SIGNS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_DOTS: Final = re.compile(r"\.{2,}")
_PERCENT: Final = re.compile(r"(?<=\d) +%")

_CUT: Final = "\ue000"
"""Marks on its own line where an echo was removed: no match crosses it."""
_TOKEN: Final = re.compile(r"\w+|[<>=≤≥]+")
_WORD_GAP: Final = rf"[^\w<>=≤≥{_CUT}]*"
_KEY: Final = rf"(?:wake_when[^\w{_CUT}]+|(?:side|form|text|regex)[\"']\s*:[^\w{_CUT}]*)"
"""Keys before a condition, or a part of it, in tool calls and answers."""
_MOST_NEIGHBOURS: Final = 2
_TELLING_WORDS: Final = """
    appear appears appeared becomes close closed closes contain containing contains
    disappear disappears disappeared display displayed displays goes gone includes
    longer present reach reaches read reads say saying says see show showing shown
    shows vanishes visible
"""
_TELLING_SET: Final = frozenset(_TELLING_WORDS.split())
"""Words that are next to a text in a condition, but rarely in what it describes."""
_SPOKEN_SET: Final = frozenset(("say", "saying", "says"))
"""Exceptions: browsers start a dialog with "example.com says".

Together with the preceding word they count as an echo.
"""


def straighten_text(text: str) -> str:
    """Return the lines that are not blank, with plain quotes and dashes."""
    return "\n".join(filter(None, map(_normalize_text, text.splitlines())))


def _straighten_pattern(regex: str) -> str:
    """Adapt a regular expression to straightened lines."""
    return regex.translate(_PATTERN_SIGNS)


def to_plain_text(text: str) -> str:
    """Return a text straightened, casefolded, on one line, with plain dots."""
    folded = _normalize_text(_normalize_text(text).casefold())
    return _PERCENT.sub("%", _DOTS.sub("...", folded))


def split_words(text: str) -> list[str]:
    """Return the words, numbers and comparison signs of a text, in lower case."""
    return _TOKEN.findall(_normalize_text(text).lower())


@lru_cache(256)
def _compile_phrase(phrase: str) -> re.Pattern[str]:
    """Return a pattern that finds a phrase in plain text, as whole words.

    A word also continues across a hyphen, apostrophe or dot; a number also across a comma or colon.
    """
    sought = to_plain_text(phrase)
    before = after = ""
    if re.match(r"\w", sought):
        before = r"(?<!\w)(?<!\w[-'.])"
    if re.match(r"\d", sought):
        before += r"(?<!\d[,:])"
    if re.search(r"\w\Z", sought):
        after = r"(?!\w|[-'.]\w)"
    if re.search(r"\d\Z", sought):
        after += r"(?![,:]\d)"
    return re.compile(f"{before}{re.escape(sought)}{after}")


class _EchoRemover:
    """Removes text that repeats a condition, as an agent's own chat does."""

    def __init__(self, condition: Condition) -> None:
        """Set the condition whose echoes do not count."""
        any_of = "|".join(dict.fromkeys(_build_echo_patterns(condition)))
        self._pattern = re.compile(rf"(?<!\w)(?:{any_of})(?!\w)", re.IGNORECASE)

    def remove_echoes(self, text: str) -> str:
        """Return the straightened lines without echoes of the condition.

        An echo is also found without its quotes, truncated or misread, if a word such as "shows" is
        next to the text.
        """
        return self._pattern.sub(f"\n{_CUT}\n", straighten_text(text))


def _drop_cuts(text: str) -> str:
    """Return a text without the marks of removed echoes."""
    kept = (line for line in text.split("\n") if line.strip() not in ("", _CUT))
    return "\n".join(kept)


def _normalize_text(text: str) -> str:
    text = _CONTROL_SIGNS.sub(" ", _INVISIBLE_SIGNS.sub("", text.translate(_ALIKE_SIGNS)))
    return " ".join(unicodedata.normalize("NFKC", text).translate(_ALIKE_SIGNS).split())


def _build_echo_patterns(condition: Condition) -> Iterator[str]:
    """Yield patterns that match echoes of a condition or a part of it."""
    sentence, forms = condition.sentence, [f for s in condition.sides for f in s.forms]
    words = split_words(sentence)
    sought = [split_words(text) for form in forms if (text := _get_sought_text(form))]
    if not {word for each in sought for word in each}.issuperset(words):
        yield _build_words_pattern(words)
    elif not sentence[:1].isalnum():
        # Only with its quotes: without them it would be the text itself.
        yield re.escape(_normalize_text(sentence)).replace(r"\ ", r"\s+")
    for each in sought:
        yield from map(_build_words_pattern, _extend_phrase(words, each))
    written = [sentence, *(side.words for side in condition.sides)]
    written += [text for form in forms for text in (str(form), _get_sought_text(form)) if text]
    values = dict.fromkeys(_build_words_pattern(split_words(each)) for each in written)
    yield f"{_KEY}(?:{'|'.join(values)})"


def _get_sought_text(form: Form) -> str | None:
    """Return the text that a form looks for, as written; None: it looks for none."""
    match form:
        case TextForm():
            return form.text
        case RegexForm():
            return form.regex.removeprefix("(?i)")
        case PercentForm():
            return str(form)
        case _:
            return None


def _build_words_pattern(words: Sequence[str]) -> str:
    return _WORD_GAP.join(map(re.escape, words))


def _extend_phrase(words: list[str], phrase: list[str]) -> Iterator[list[str]]:
    """Yield a phrase together with the telling words before it, and after it."""
    size = len(phrase)
    for start in range(len(words) - size + 1):
        end = start + size
        if not phrase or words[start:end] != phrase:
            continue
        before = range(start - 1, max(-1, start - 1 - _MOST_NEIGHBOURS), -1)
        after = range(end, min(len(words), end + _MOST_NEIGHBOURS))
        if (first := _find_telling_word(words, before)) is not None:
            spoken = words[first] in _SPOKEN_SET
            yield words[max(0, first - spoken) : end]
        if (last := _find_telling_word(words, after)) is not None:
            yield words[start : last + 1]


def _find_telling_word(words: Sequence[str], places: Iterable[int]) -> int | None:
    """Return the first of these places with a telling word; None: there is none."""
    return next((place for place in places if words[place] in _TELLING_SET), None)


_ReadForm = TextForm | RegexForm | PercentForm | NumberForm
"""A form that is judged by text."""
NUMBER_FORMS: Final = (PercentForm, NumberForm)
"""Forms that count only on lines without a possibly misread number."""
_LEAST_SIGNS: Final = 2
"""Minimum letters or digits of a text: shorter ones match misread text."""
_MOST_PERCENT: Final = 100
"""A higher percentage was misread, such as 75 % as 715 %."""
_QUOTED_CHARACTERS: Final = 80
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
        self._echoes = _EchoRemover(condition)
        self._finders = {form: _make_finder(form) for form in forms if is_read(form)}

    def find(self, page: OcrPage, where: str = "text") -> dict[Form, str]:
        """Return the forms found on a page, each with a sentence for the observation.

        `where` is the page's name in these sentences: `text` or `title`.
        """
        read = self._clean_text(page.text)
        sure = read if page.sure == page.text else self._clean_text(page.sure)
        found = (
            (form, find(sure if isinstance(form, NUMBER_FORMS) else read))
            for form, find in self._finders.items()
        )
        return {form: f"The {where} shows {_quote_text(what)}" for form, what in found if what}

    def _clean_text(self, text: str) -> _CleanText:
        shown = self._echoes.remove_echoes(text)
        return _CleanText(to_plain_text(shown), _drop_cuts(shown))


def _make_finder(form: _ReadForm) -> Callable[[_CleanText], str | None]:
    """Return a function that finds a form's text or line; it returns None if not found."""
    match form:
        case RegexForm():
            pattern = _compile_pattern(form.regex)
            return lambda shown: pattern.find(shown.lines)
        case PercentForm():
            return lambda shown: find_percentage(shown.lines, form.percent, _MOST_PERCENT)
        case NumberForm(number=name, op=op, value=bound):
            return lambda shown: find_number(shown.lines, name, op, bound)
        case TextForm():
            search = _compile_phrase(form.text).search
            return lambda shown: form.text if search(shown.flat) else None


def _compile_pattern(regex: str) -> Pattern:
    try:
        return compile_regex(_straighten_pattern(regex))
    except BadPattern:
        # A long dash replaced by a hyphen may form an invalid range: keep the original.
        return compile_regex(regex)


def _quote_text(text: str) -> str:
    """Return a quotation for an observation."""
    return quote(f"{text[:_QUOTED_CHARACTERS]}…" if len(text) > _QUOTED_CHARACTERS else text)


def is_read(form: Form) -> TypeGuard[_ReadForm]:
    """Return whether a form is judged by text, and long enough to be read reliably."""
    if isinstance(form, TextForm):
        return sum(map(str.isalnum, to_plain_text(form.text))) >= _LEAST_SIGNS
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
