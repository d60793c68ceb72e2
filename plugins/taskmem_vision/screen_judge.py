"""Judge a window or screen by rules: read title and picture on this machine, measure silence.

Text of screens and titles is normalised first, so that similar characters compare equal.
"""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple, TypeGuard

from taskmem_hookspecs import Frame, JudgeUnavailable, Met, Ruling
from taskmem_hookspecs.amounts import find_percentage
from taskmem_hookspecs.conditions import (
    Condition,
    ExitForm,
    ExitKind,
    Form,
    NumberForm,
    PercentForm,
    QuietForm,
    RegexForm,
    Side,
    TextForm,
    quote,
    write_number,
)
from taskmem_hookspecs.matching import BadPattern, Pattern, compile_regex, find_number
from taskmem_vision.ocr import OcrEngine, OcrPage, join_pages
from taskmem_vision.pictures import (
    JUDGEMENT_GAP,
    LAST_SECONDS,
    JudgementScheduler,
    Look,
    LookHistory,
    Shot,
    consume_exception,
    loop_time,
    pick_telling_shot,
    to_look,
)
from taskmem_vision.question_policy import PictureQuestionReason

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
_NUMBER_FORMS: Final = (PercentForm, NumberForm)
"""Forms that count only on lines without a possibly misread number."""
_LEAST_SIGNS: Final = 2
"""Minimum letters or digits of a text: shorter ones match misread text."""
_MOST_PERCENT: Final = 100
"""A higher percentage was misread, such as 75 % as 715 %."""
_QUOTED_CHARACTERS: Final = 80
"""Maximum length of a quotation in an observation. Characters."""

_NO_STATUS: Final = (
    'A {target} has no exit status, so "{form}" cannot be judged there.',
    'Quote what it shows then: "Build failed" appears.',
)
_NO_END: Final = (
    'A screen never ends, so "{form}" cannot be judged there; wait on the window, window:TITLE.',
    "Or quote what the screen shows then.",
)
_NO_SHELL: Final = (
    'Whether a {target} waits for an answer cannot be seen, so "{form}" cannot be judged there.',
    'Quote the words of its dialog: "Password:" appears.',
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
            (form, find(sure if isinstance(form, _NUMBER_FORMS) else read))
            for form, find in self._finders.items()
        )
        return {form: f"The {where} shows {_quote_text(what)}" for form, what in found if what}

    def _clean_text(self, text: str) -> _CleanText:
        shown = self._echoes.remove_echoes(text)
        lines = (line for line in shown.split("\n") if line.strip() not in ("", _CUT))
        return _CleanText(to_plain_text(shown), "\n".join(lines))


def _make_finder(form: _ReadForm) -> Callable[[_CleanText], str | None]:
    """Return a function that finds a form's text or line; it returns None if not found."""
    match form:
        case RegexForm():
            pattern = _compile_pattern(form.regex)
            return lambda shown: pattern.find(shown.lines)
        case PercentForm():
            return lambda shown: find_percentage(
                shown.lines, form.percent, _MOST_PERCENT, name=form.name
            )
        case NumberForm(number=name, op=op, value=bound):
            return lambda shown: find_number(shown.lines, name, op, bound)
        case TextForm():
            search = _compile_phrase(form.text).search
            return lambda shown: form.text if search(shown.flat) else None


def _compile_pattern(regex: str) -> Pattern:
    try:
        return compile_regex(regex.translate(_PATTERN_SIGNS))
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


def explain_refusal(scheme: str, form: Form) -> tuple[str, str] | None:
    """Return why a form is impossible for such a target, and which text would do where it is read.

    None: it is possible.
    """
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
    return reason[0].format(target=scheme, form=form), reason[1]


# --- the judge ----------------------------------------------------------------


RETRY_SECONDS: Final = 5.0
"""Delay before a picture that could not be read is read again. Seconds."""
SURE_SECONDS: Final = 1.0
"""Delay before another reading after a text was not found. Seconds.

It may have been misread. Reading again helps only if something moves: an unchanged picture is
misread in the same way.
"""
_MISSING_READINGS: Final = 2
"""Consecutive readings without a text after which it is gone."""

_NOTHING_READ: Final = "Nothing was read yet."


@dataclass(frozen=True, slots=True)
class _PendingReading:
    """A reading in progress."""

    task: asyncio.Task[OcrPage]
    shots: list[Shot]
    at: float
    """When its newest picture was taken, in monotonic seconds."""
    whole: bool
    """True if the whole target is read, not only its new parts."""


class ScreenJudge:
    """Judges one wait's condition by the content of its window or screen."""

    name = "rules"

    def __init__(
        self,
        condition: Condition,
        engine: OcrEngine | None,
        *,
        now: Callable[[], float] = loop_time,
    ) -> None:
        """Set the condition and the OCR engine.

        The condition's forms are possible for the target. `engine` reads pictures; None: only the
        title is read. `now` returns the looks' monotonic seconds.

        Raises:
            BadPattern: A regular expression of the condition is invalid.
        """
        self.sides = tuple(
            index
            for index, side in enumerate(condition.sides)
            if can_decide(side, reads=engine is not None)
        )
        """The sides that it decides; for others it only knows when they hold."""
        self._condition = condition
        self._engine = engine
        self._now = now
        self._finder = Finder(condition)
        self._forms = [form for side in condition.sides for form in side.forms]
        # A part of the target cannot show that a text is gone, or that two texts are visible.
        self._needs_all = any(len(side.forms) > 1 for side in condition.sides) or any(
            isinstance(form, TextForm) and form.gone for form in self._forms
        )
        self.reads = engine is not None and any(map(is_read, self._forms))
        self.advice: str | None = None
        """Sentence on what would allow the judge to decide more; None: nothing."""
        self._attention = JudgementScheduler(lines=True)
        self._track: LookHistory | None = None
        """The looks at the target; None: there were none."""
        self._reading: _PendingReading | None = None
        self._title: str | None = None
        self._in_title: Mapping[Form, str] = {}
        self._in_text: Mapping[Form, str] | None = None
        """Result of the last reading; None: nothing was read yet."""
        self._read_at = float("-inf")
        """When the last picture that was read was taken."""
        self._missing: dict[Form, int] = {}
        """For texts seen before: the number of consecutive readings without them."""
        self._visible_since: float | None = None
        """Since when changes have been observed; None: the target is not visible."""
        self._trouble: str | None = None
        self._met: Ruling | None = None

    async def rule(self, frame: Frame) -> Ruling:
        """Add a look, start a reading if one is due, and return the ruling so far.

        A failed reading is reported in the ruling's observation, and repeated.
        """
        now = self._now()
        self._update_title(frame.text, now)
        if self._reading is not None and self._reading.task.done():
            self._process_reading(self._reading, now)
        look = self._observe_picture(frame, now) if frame.gone is None else None
        if self._met is None:
            self._decide(self._collect_facts(now))
        if self._met is None and frame.gone is not None:
            return await self._rule_on_end(frame)
        if self._met is not None:
            return self._met
        if look is None:
            return self._build_ruling(frame.note or "There is nothing to see here.", frame)
        if self._engine is not None and self.reads:
            self._start_reading(self._engine, look, frame.seconds_left, now)
        return self._build_ruling(self._describe_forms(now), frame)

    # --- looking and reading ------------------------------------------------

    def _update_title(self, title: str | None, now: float) -> None:
        if title == self._title:
            return
        self._title = title
        self._in_title = self._finder.find(OcrPage(title or "", title or ""), "title")
        if self._visible_since is not None:
            self._visible_since = now
        self._note_visible(self._in_title)

    def _observe_picture(self, frame: Frame, now: float) -> Look | None:
        """Add the frame's picture; None: it has none."""
        if frame.picture is None:
            self._visible_since = None
            return None
        if self._visible_since is None:
            self._visible_since = now
        look = to_look(frame.picture, self._track, now)
        self._track = look.track
        if self.reads:
            self._attention.add_look(look, now)
        return look

    def _start_reading(self, engine: OcrEngine, look: Look, left: float | None, now: float) -> None:
        if self._reading is not None:
            return
        ends = left is not None and left <= LAST_SECONDS and self._attention.has_new_look
        reason = PictureQuestionReason.LAST if ends else self._attention.find_due_reason(now)
        if reason is None:
            return
        whole = self._needs_all or reason not in (
            PictureQuestionReason.NOVEL,
            PictureQuestionReason.SETTLE,
        )
        shots = self._attention.take_shots(now, reason, whole=whole)
        newest = [shot for shot in shots if shot.number == look.number]
        whole = whole or not all(shot.detail for shot in newest)
        earlier = [shot for shot in shots if shot not in newest] if whole else shots
        # Earlier pictures show texts that came and went, but not what is gone now.
        read = [] if self._needs_all else [each.detail or each.png() for each in earlier]
        pieces = [*read, look.png()] if whole else read
        numbers = any(isinstance(form, _NUMBER_FORMS) for form in self._forms)

        async def read_pieces() -> OcrPage:
            return join_pages([await engine.read(piece, numbers=numbers) for piece in pieces])

        task = asyncio.create_task(read_pieces())
        task.add_done_callback(consume_exception)
        self._reading = _PendingReading(task, shots, look.at, whole)

    def _process_reading(self, reading: _PendingReading, now: float) -> None:
        """Record the result of a reading."""
        self._reading = None
        try:
            page = reading.task.result()
        except JudgeUnavailable as trouble:
            self._trouble = str(trouble)
            self._attention.record_failure(reading.shots, now + RETRY_SECONDS)
            return
        except Exception:
            self._attention.record_failure(reading.shots, now + RETRY_SECONDS)
            raise
        self._trouble = None
        self._in_text, self._read_at = self._finder.find(page), reading.at
        for form in self._missing:
            self._missing[form] += 1
        self._note_visible(self._in_title)
        self._note_visible(self._in_text)
        # New text counts even if it is gone again by now.
        shown = {**self._in_text, **self._in_title}
        self._decide(ScreenFacts(shown, self._gone_forms), pick_telling_shot(reading.shots))
        if self._met is None:
            unsure = any(0 < times < _MISSING_READINGS for times in self._missing.values())
            again = SURE_SECONDS if unsure else None
            self._attention.record_no_result(reading.shots, now, again, whole=reading.whole)

    def _note_visible(self, shown: Collection[Form]) -> None:
        """Record that texts are visible: only those can be gone later."""
        gone = (form for form in shown if isinstance(form, TextForm) and form.gone)
        self._missing.update(dict.fromkeys(gone, 0))

    # --- what is known ------------------------------------------------------

    @property
    def _gone_forms(self) -> frozenset[Form]:
        """Texts that were visible and missing in the last readings."""
        return frozenset(
            form for form, times in self._missing.items() if times >= _MISSING_READINGS
        )

    def _collect_facts(self, now: float) -> ScreenFacts:
        """Return the current facts about the target."""
        if self._track is None or self._visible_since is None:
            return ScreenFacts(self._in_title, self._gone_forms)
        moved_at = self._track.moved_at
        text = self._in_text if moved_at <= self._read_at else None
        quiet = now - max(moved_at, self._visible_since)
        return ScreenFacts({**(text or {}), **self._in_title}, self._gone_forms, quiet)

    def _decide(self, known: ScreenFacts, shot: Shot | None = None) -> None:
        side = find_side(self._condition, known)
        if side is not None:
            self._met = Ruling(met=Met.YES, observation=side, picture=shot)

    async def _rule_on_end(self, frame: Frame) -> Ruling:
        """Rule on a target that is gone, after a reading in progress has ended."""
        now = self._now()
        if self._reading is not None:
            await asyncio.wait((self._reading.task,))
            self._process_reading(self._reading, now)
        # A window that is gone with its display was not closed.
        if self._met is None and frame.text is not None:
            shown = {**(self._in_text or {}), **self._in_title}
            self._decide(ScreenFacts(shown, self._missing, closed=frame.gone))
        return self._met or Ruling(met=self._default_met, observation=self._describe_forms(now))

    @property
    def _default_met(self) -> Met:
        """The ruling if no known side holds."""
        every = len(self.sides) == len(self._condition.sides)
        return Met.NO if every and self._trouble is None else Met.UNSURE

    def _describe_forms(self, now: float) -> str:
        known = self._collect_facts(now)
        if not self.reads:
            return describe_forms(self._condition, known, "title")
        if self._in_text is None:
            return _NOTHING_READ
        shown = {**self._in_text, **self._in_title}
        return describe_forms(self._condition, known._replace(shown=shown))

    def _build_ruling(self, observation: str, frame: Frame) -> Ruling:
        trouble = f" It could not be read: {self._trouble}" if self._trouble else ""
        return Ruling(
            met=self._default_met,
            observation=f"{observation}{trouble}",
            look_again_seconds=self._compute_look_seconds(frame, self._now()),
        )

    def _compute_look_seconds(self, frame: Frame, now: float) -> float | None:
        if self._reading is not None:
            return JUDGEMENT_GAP
        seen = frame.picture is not None
        at = self._attention.next_look_at(now) if seen and self.reads else None
        due = [] if at is None else [at]
        if (quiet := self._collect_facts(now).quiet_seconds) is not None:
            due += [
                now + form.quiet - quiet
                for form in self._forms
                if isinstance(form, QuietForm) and form.quiet > quiet
            ]
        if frame.seconds_left is not None and frame.seconds_left > LAST_SECONDS:
            due.append(now + frame.seconds_left - LAST_SECONDS)
        return max(min(due) - now, 0.0) if due else None


def can_decide(side: Side, *, reads: bool) -> bool:
    """Return whether rules can decide both that a side holds and that it does not.

    `reads`: whether an OCR engine reads pictures.
    """
    return bool(side.forms) and all(
        isinstance(form, (ExitForm, QuietForm)) or (reads and is_read(form)) for form in side.forms
    )
