"""Parse the condition of a wait, a sentence or a list of signals, into a `Condition`.

The grammar is a table of phrases: a form is understood only if every word of it is in the table.
Anything else is free English, which only a reader can judge. `docs/conditions.md` documents the
grammar; a test compares the two. Source: docs/origins.md, "Conditions".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import floor, isfinite
from string import ascii_letters
from typing import Final

from pydantic import ConfigDict, TypeAdapter, ValidationError

from openclaw_taskmem.domain.conditions import phrases
from openclaw_taskmem.domain.conditions.phrases import Phrases, parse_phrases
from openclaw_taskmem.domain.conditions.words import ARTICLES, Token, read_pattern, scan_words
from taskmem_hookspecs import Condition, ConditionUnclear, InvalidArguments, Side, matching
from taskmem_hookspecs.conditions import (
    EMPTY_WORDS,
    FIELD_PREFIX,
    AsksForm,
    Comparison,
    ExitForm,
    ExitKind,
    FieldForm,
    Form,
    NumberForm,
    PercentForm,
    PromptForm,
    QuietForm,
    RegexForm,
    State,
    StateForm,
    StepForm,
    TextForm,
)

MAX_SIDES: Final = 20
"""Maximum number of sides of a condition, and of forms of a side."""
_FORM: Final[TypeAdapter[Form]] = TypeAdapter(Form, config=ConfigDict(defer_build=True))
"""Validates an object of `signals` as a form."""

# --- reading ------------------------------------------------------------------


_NUMBER: Final = re.compile(
    r"[+-]?(?:[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?|(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)", re.ASCII
)


class _Cursor:
    """Reads the tokens of one part from the left."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        """True if every token was read."""
        return self._at == len(self._tokens)

    @property
    def rest(self) -> Part:
        """The tokens that were not read."""
        return [*self._tokens[self._at :]]

    def take(self, table: Phrases) -> bool:
        """Take the longest phrase of a table that comes next, ignoring articles; False: none."""
        best = max((self._measure_phrase(phrase) for phrase in table), default=0)
        self._at += best
        return best > 0

    def take_kind(self, kind: str) -> str | None:
        """Take a token of a kind and return its text; None: another kind comes next."""
        if self.is_at_end or self._tokens[self._at].kind != kind:
            return None
        self._at += 1
        return self._tokens[self._at - 1].text

    def take_number(self) -> float | None:
        """Take a number, such as `0.1` or `1,000`; None: none comes next."""
        if self.is_at_end or self._tokens[self._at].kind != "word":
            return None
        number = _parse_number(self._tokens[self._at].text)
        self._at += number is not None
        return number

    def take_count(self) -> float | None:
        """Take a count, such as `42/120`, as a percentage, rounded down; None: none comes next."""
        if self.is_at_end or self._tokens[self._at].kind != "word":
            return None
        done, total = (_parse_number(e) for e in self._tokens[self._at].text.partition("/")[::2])
        if done is None or total is None or not 0 <= done <= total > 0:
            return None
        self._at += 1
        return floor(10_000 * done / total) / 100

    def skip_empty(self) -> None:
        """Skip words without meaning before or after a form."""
        self._skip_words(EMPTY_WORDS)

    def skip_articles(self) -> None:
        """Skip articles."""
        self._skip_words(ARTICLES)

    def take_words(self) -> tuple[str, ...]:
        """Take the words before a comparison, the name of a number."""
        start = self._at
        while not self.is_at_end and self._tokens[self._at].kind == "word":
            if any(
                self._measure_phrase(p)
                for table in phrases.COMPARISON_PHRASES.values()
                for p in table
            ):
                break
            self._at += 1
        return tuple(token.text for token in self._tokens[start : self._at])

    def _skip_words(self, words: frozenset[str]) -> None:
        while not self.is_at_end and self._tokens[self._at].kind == "word":
            if self._tokens[self._at].lower not in words:
                break
            self._at += 1

    def _measure_phrase(self, phrase: tuple[str, ...]) -> int:
        """Return how many tokens a phrase takes here; 0: another comes next."""
        at = self._at
        for word in phrase:
            while at < len(self._tokens) and self._tokens[at].is_article:
                at += 1
            if at == len(self._tokens) or self._tokens[at].kind != "word":
                return 0
            if self._tokens[at].lower != word:
                return 0
            at += 1
        return at - self._at


def _parse_number(text: str) -> float | None:
    """Parse a number such as `0.1`, `-3` or `1,000`; None: not a number, such as `0,1`."""
    if not _NUMBER.fullmatch(text):
        return None
    number = float(text.replace(",", ""))
    return number if isfinite(number) else None


# --- conditions ---------------------------------------------------------------


_NAME_WORDS: Final = 4
"""Most words of a number's name."""


def parse_condition(sentence: str, scheme: str = "") -> Condition:
    """Parse a sentence into sides, and each side into forms if it has any.

    `scheme` of the target; empty: not known. Of a window or screen, "the build has finished" says
    what it shows, and not that it closes.

    Raises:
        ConditionUnclear: It has too many sides, a value outside its limits, or a regular
        expression that RE2 refuses.
    """
    groups = _split_sides(scan_words(sentence))
    read = _PART_READERS.get(scheme, _read_state_part)
    forms = iter(_share_verbs([part for parts in groups for part in parts], read))
    sides = [_build_side(sentence, parts, [next(forms) for _ in parts]) for parts in groups]
    merged = _share_newness(_merge_free(sentence, groups, sides))
    if len(merged) > MAX_SIDES or any(len(s.forms) > MAX_SIDES for s in merged):
        raise ConditionUnclear(
            f"A condition has at most {MAX_SIDES} sides joined by or, and each at most "
            f"{MAX_SIDES} joined by and; use one /regex/ for several texts. "
            "Nothing was written."
        )
    return Condition(sentence=sentence, sides=tuple(merged))


def read_signals(signals: Sequence[Mapping[str, object]]) -> Condition:
    """Build a condition from signals, any of which ends the wait.

    Raises:
        InvalidArguments: A signal has none of the forms, or cannot be written as a sentence that is
        parsed back to the same forms, as stored conditions are.
        ConditionUnclear: There are too many signals, or RE2 refuses a regular expression.
    """
    forms: list[Form] = []
    for number, signal in enumerate(signals, 1):
        try:
            _refuse_odd_booleans(signal)
            form = _FORM.validate_python(signal)
        except ValueError:
            raise InvalidArguments(
                f"Signal {number} is none of the forms: "
                '{"text": "…", "gone": false}, {"regex": "…"}, {"exit": "any", '
                '"success", "failure" or a status}, {"prompt": true}, {"asks": '
                '"password", "yes_no" or "any"}, {"quiet": SECONDS}, {"percent": N, "name": "…"}, '
                '{"number": "loss", "op": "<", "value": 0.1}. Nothing was written.'
            ) from None
        if isinstance(form, RegexForm):
            form = _check_regex(form.model_copy(update={"regex": read_pattern(form.regex)}))
        forms.append(form)
    sides = tuple(Side(words=str(form), forms=(form,)) for form in forms)
    condition = Condition(sentence=" or ".join(map(str, forms)), sides=sides)
    if not any(
        parse_condition(condition.sentence, scheme).forms == condition.forms
        for scheme in (*_PART_READERS, "path")
    ):
        raise InvalidArguments(
            "A text or name in signals holds every kind of quotation mark, or a regex "
            "is empty; use another form for it. Nothing was written."
        )
    return condition


def _refuse_odd_booleans(signal: Mapping[str, object]) -> None:
    """Refuse a boolean where another value belongs, such as `{"exit": true}`, and the reverse.

    Raises:
        ValueError: It names the field.
    """
    for name, value in signal.items():
        if isinstance(value, bool) is not (name in ("gone", "new", "prompt")):
            raise ValueError(name)


# --- sides ------------------------------------------------------------------

Part = list[Token]


def _split_sides(tokens: Sequence[Token]) -> list[list[Part]]:
    """Split tokens at every "or" into sides, and each side at every "and".

    A comma stands for the next "or" or "and". A comma without one joins nothing and makes its part
    free English.
    """
    sides: list[list[Part]] = [[[]]]
    joints = [_read_joint(tokens, index) for index in range(len(tokens))]
    for index, token in enumerate(tokens):
        joint = joints[index]
        if index == len(tokens) - 1:
            joint = ""  # It joins nothing.
        elif token.kind == "comma":
            if joints[index + 1] or not sides[-1][-1]:
                continue
            joint = next(filter(None, joints[index:]), "")
        if joint == "or" and sides[-1] != [[]]:
            sides.append([[]])
        elif joint == "and" and sides[-1][-1]:
            sides[-1].append([])
        else:
            sides[-1][-1].append(token)
    return sides


def _read_joint(tokens: Sequence[Token], index: int) -> str:
    """Return "or" or "and" if a token joins; the "or" of "or more" does not."""
    words = [token.lower for token in tokens[index : index + 2] if token.kind == "word"]
    joins = words[:1] in (["or"], ["and"]) and tokens[index].kind == "word"
    return words[0] if joins and words != ["or", "more"] else ""


def _share_verbs(parts: Sequence[Part], read: Callable[[Part], Form | None]) -> list[Form | None]:
    """Read parts as forms, and apply "is gone" to the bare texts before its own.

    `"A" and "B" are gone` applies to both, and a bare regex there is free English. So is a bare
    text after `no longer shows "A" or`, for it is ambiguous.
    """
    forms = [read(part) for part in parts]
    for index in reversed(range(len(parts) - 1)):
        form, following = forms[index], forms[index + 1]
        if not _is_bare(parts[index]) or not _is_gone(following):
            continue
        if parts[index + 1][0].kind == "quote":
            text = form.text if isinstance(form, TextForm) else None
            forms[index] = TextForm(text=text, gone=True) if text else None
    for index in range(1, len(parts)):
        before = parts[index - 1]
        if _is_bare(parts[index]) and _is_gone(forms[index - 1]) and not _is_bare(before):
            forms[index] = None
    return forms


def _share_newness(sides: list[Side]) -> list[Side]:
    """Have only new texts count, if that is said of one of them: a wait begins at one place."""
    if not Condition(sentence="", sides=tuple(sides)).is_from_now:
        return sides

    def share(form: Form) -> Form:
        is_text = isinstance(form, RegexForm) or (isinstance(form, TextForm) and not form.gone)
        return form.model_copy(update={"new": True}) if is_text else form

    return [side.model_copy(update={"forms": tuple(map(share, side.forms))}) for side in sides]


def _is_bare(part: Part) -> bool:
    return len(part) == 1 and part[0].kind in ("quote", "regex")


def _is_gone(form: Form | None) -> bool:
    return isinstance(form, TextForm) and form.gone


def _build_side(sentence: str, parts: Sequence[Part], forms: Sequence[Form | None]) -> Side:
    read = tuple(form for form in forms if form is not None)
    return Side(words=_format_words(sentence, parts), forms=read if len(read) == len(parts) else ())


def _merge_free(
    sentence: str, groups: Sequence[Sequence[Part]], sides: Sequence[Side]
) -> list[Side]:
    """Merge neighbouring sides of free English into one: their "or" may join words."""
    if not any(side.forms for side in sides):
        return [Side(words=sentence.strip())]
    merged: list[tuple[list[Part], Side]] = []
    for parts, side in zip(groups, sides, strict=True):
        if merged and not side.forms and not merged[-1][1].forms:
            both = [*merged[-1][0], *parts]
            merged[-1] = both, Side(words=_format_words(sentence, both))
        else:
            merged.append(([*parts], side))
    return [side for _, side in merged]


def _format_words(sentence: str, parts: Sequence[Part]) -> str:
    tokens = [token for part in parts for token in part]
    return sentence[tokens[0].start : tokens[-1].end] if tokens else ""


# --- forms ------------------------------------------------------------------


def _read_part(tokens: Part) -> Form | None:
    """Read a whole part as one form; None: it is free English."""
    if tokens and _read_joint(tokens, len(tokens) - 1):
        return None  # It ends in "or" or "and".
    for read in (
        _read_text,
        _read_exit,
        _read_prompt,
        _read_asks,
        _read_quiet,
        _read_percent,
        _read_named_percent,
        _read_named_number,
    ):
        cursor = _Cursor(tokens)
        cursor.skip_empty()
        try:
            form = read(cursor)
        except ValidationError:
            raise ConditionUnclear(
                "A quoted text or a regex is one line of at most 1,000 characters that "
                "is not blank, and a time of silence is at most 30 days. "
                "Nothing was written."
            ) from None
        cursor.skip_empty()
        if form is not None and cursor.is_at_end:
            return form
    return None


def _read_window_part(tokens: Part) -> Form | None:
    """Read a part of a condition on a window or screen, where work that ends closes nothing."""
    form = _read_part(tokens)
    if isinstance(form, TextForm | RegexForm) and form.new:
        return None  # What it showed before is not known.
    if not isinstance(form, ExitForm):
        return form
    cursor = _Cursor(tokens)
    cursor.skip_empty()
    if form.exit == ExitKind.ANY:
        cursor.take(phrases.COMMAND)
        return form if cursor.take(phrases.CLOSE_VERBS) else None
    return None if cursor.take(phrases.COMMAND) else form


def _read_state_part(tokens: Part) -> Form | None:
    """Read a part of a condition on a target that is there, changes or is gone."""
    cursor = _begin_after(tokens, phrases.THING)
    if tokens and cursor.is_at_end and tokens[-1].lower == "there":
        return StateForm(state=State.THERE)
    cursor.take(phrases.HAS_BEEN)
    for state, table in phrases.STATE_VERBS.items():
        if cursor.take(table):
            cursor.skip_empty()
            return StateForm(state=state) if cursor.is_at_end else None
    is_named = cursor.take(phrases.SIZE_WORDS)
    cursor.skip_empty()
    for op, table in phrases.SIZES.items():
        if cursor.take(table):
            size = _read_size(cursor, needs_unit=not is_named)
            return None if size is None else NumberForm(number="size", op=op, value=size)
    return _read_part(tokens)


def _read_instant_part(tokens: Part) -> Form | None:
    """Read a part of a condition on an instant, which can only come."""
    cursor = _begin_after(tokens, phrases.INSTANT)
    is_named = cursor.take(phrases.INSTANT_VERBS)
    return StateForm(state=State.DUE) if is_named and cursor.is_at_end else None


def _read_task_part(tokens: Part) -> Form | None:
    """Read a part of a condition on a task: how it stands, or that a step is done."""
    cursor = _Cursor(tokens)
    cursor.skip_empty()
    form: Form | None = _read_step(cursor)
    if form is None:
        cursor = _Cursor(tokens)
        cursor.skip_empty()
        cursor.take(phrases.TASK)
        cursor.skip_empty()
        cursor.take(phrases.HAS_BEEN)
        taken = [state for state, table in phrases.TASK_VERBS.items() if cursor.take(table)]
        form = StateForm(state=taken[0]) if len(taken) == 1 else None
    cursor.skip_empty()
    return form if cursor.is_at_end else None


def _read_limit_part(tokens: Part) -> Form | None:
    """Read a part of a condition on a host's limit of use: that it is over."""
    cursor = _begin_after(tokens, phrases.LIMIT)
    is_over = cursor.take(phrases.LIMIT_VERBS) and cursor.is_at_end
    return StateForm(state=State.ENDED) if is_over else None


def _read_session_part(tokens: Part) -> Form | None:
    """Read a part of a condition on a session: how it ends, or a text in its last words."""
    for state, table in phrases.SESSION_VERBS.items():
        cursor = _begin_after(tokens, phrases.SESSION)
        cursor.take(phrases.HAS_BEEN)
        if cursor.take(table) and cursor.is_at_end:
            return StateForm(state=state)
    cursor = _begin_after(tokens, phrases.SESSION)
    marks = [cursor.take(phrases.SAY_VERBS)]
    quote = cursor.take_kind("quote")
    marks += [cursor.take(phrases.APPEAR_VERBS)]
    cursor.skip_empty()
    marks += [cursor.take(phrases.LAST_WORDS)]
    if quote and any(marks) and cursor.is_at_end:
        return TextForm(text=quote)
    words = (tokens, _begin_after(tokens, phrases.SESSION).rest)
    forms = (_read_part(each) for each in words)
    # Its new words are not told from old ones.
    texts = (form for form in forms if isinstance(form, TextForm | RegexForm))
    return next((form for form in texts if not form.new), None)


def _read_step(cursor: _Cursor) -> StepForm | None:
    """Read which step is done, by its number or its text in quotes; None: no step is named."""
    cursor.take(phrases.TASK)
    ends = cursor.take(phrases.STEP_ENDS)
    named = cursor.take(phrases.STEP)
    step: int | str | None = cursor.take_kind("quote")
    if step is None:
        word = (cursor.take_kind("word") or "").lstrip("#") if named else ""
        step = int(word) if word.isdecimal() and word.isascii() and int(word) else None
    cursor.skip_empty()
    cursor.take(phrases.HAS_BEEN)
    done = cursor.take(phrases.STEP_VERBS)
    return None if step is None or done is ends else StepForm(step=step)


def _read_page_part(tokens: Part) -> Form | None:
    """Read a part of a condition on a page, which answers, is down, changes, or says something."""
    for name, table, usual in (
        ("status", phrases.STATUS_WORDS, Comparison.EQUAL),
        ("certificate days", phrases.CERTIFICATE_WORDS, Comparison.AT_MOST),
    ):
        cursor = _begin_after(tokens, phrases.PAGE)
        if cursor.take(table) or name == "status":
            cursor.skip_empty()
            op = next((op for op, words in phrases.SIZES.items() if cursor.take(words)), usual)
            number = cursor.take_number()
            cursor.take(phrases.BEHIND_NUMBERS)
            if number is not None and cursor.is_at_end:
                return NumberForm(number=name, op=op, value=number)
    for state, table in phrases.PAGE_VERBS.items():
        cursor = _begin_after(tokens, phrases.PAGE)
        if cursor.take(table) and cursor.is_at_end:
            return StateForm(state=state)
    names = {"status": phrases.STATUS_NAMES, "price": phrases.PRICE_NAMES}
    return _read_change(tokens, names) or _read_field(tokens) or _read_part(tokens)


def _read_command_part(tokens: Part) -> Form | None:
    """Read a part of a condition on a command that is run again and again."""
    cursor = _begin_after(tokens, phrases.PLACE)
    is_changed = cursor.take(phrases.STATE_VERBS[State.CHANGED]) and cursor.is_at_end
    if is_changed:
        return StateForm(state=State.CHANGED)
    change = _read_change(tokens, {"status": phrases.STATUS_NAMES})
    return change or _read_field(tokens) or _read_part(tokens)


def _read_change(tokens: Part, names: Mapping[str, Phrases]) -> Form | None:
    """Read a part of a condition on a field of JSON that changes, or on what has one of `names`."""
    cursor = _begin_after(tokens, phrases.PLACE)
    taken = [name for name, table in names.items() if cursor.take(table)]
    field = taken[0] if taken else _read_path(cursor)
    changes = cursor.take(phrases.PAGE_VERBS[State.CHANGED]) and cursor.is_at_end
    return FieldForm(field=field, value=None) if field and changes else None


def _read_path(cursor: _Cursor) -> str | None:
    """Read the path of a field of JSON, such as `$.jobs[0].state`; None: another word comes."""
    name = cursor.take_kind("word") or ""
    path = f"${name}" if name.startswith(".") else name
    return path if path.startswith(FIELD_PREFIX) and path != FIELD_PREFIX else None


def _read_field(tokens: Part) -> Form | None:
    """Read a part of a condition on a field of JSON, such as `$.jobs[0].state is "done"`."""
    cursor = _begin_after(tokens, phrases.PLACE)
    if (path := _read_path(cursor)) is None:
        return None
    if cursor.take(phrases.FIELD_VERBS):
        if (number := cursor.take_number()) is not None:
            form: Form = NumberForm(number=path, op=Comparison.EQUAL, value=number)
        elif value := cursor.take_kind("quote") or cursor.take_kind("word"):
            form = FieldForm(field=path, value=value)
        else:
            return None
        return form if cursor.is_at_end else None
    for op, table in phrases.COMPARISON_PHRASES.items():
        if cursor.take(table):
            bound = cursor.take_number()
            if bound is not None and cursor.is_at_end:
                return NumberForm(number=path, op=op, value=bound)
    return None


def _begin_after(tokens: Part, table: Phrases) -> _Cursor:
    """Return a cursor behind a phrase of a table, if the part begins with one."""
    cursor = _Cursor(tokens)
    cursor.skip_empty()
    cursor.take(table)
    cursor.skip_empty()
    return cursor


_PART_READERS: Final[Mapping[str, Callable[[Part], Form | None]]] = {
    **dict.fromkeys(("", "pty", "queue"), _read_part),
    **dict.fromkeys(("screen", "window"), _read_window_part),
    "command": _read_command_part,
    "limit": _read_limit_part,
    "session": _read_session_part,
    "task": _read_task_part,
    "time": _read_instant_part,
    "url": _read_page_part,
}
"""By the scheme of the target, how a part of a condition is read; of others, as of a path."""


def _read_size(cursor: _Cursor, *, needs_unit: bool) -> float | None:
    """Read the rest of a part as a number of bytes, such as `10 MB`."""
    word = cursor.take_kind("word") or ""
    digits = word.rstrip(ascii_letters)
    number, unit = _parse_number(digits), word[len(digits) :] or cursor.take_kind("word") or ""
    factor = phrases.BYTES.get(unit.lower(), 0.0) if unit or needs_unit else 1.0
    return None if number is None or not factor or not cursor.is_at_end else number * factor


def _read_text(cursor: _Cursor) -> Form | None:
    new = cursor.take(phrases.NEW_WORDS)
    place = cursor.take(phrases.PLACE)
    hides = cursor.take(phrases.HIDE_VERBS)
    shows = hides or cursor.take(phrases.SHOW_VERBS)
    new = cursor.take(phrases.NEW_WORDS) or new
    if place and not shows:
        return None
    cursor.take(phrases.OBJECT)
    cursor.skip_articles()
    text, regex = cursor.take_kind("quote"), None
    if text is None and (regex := cursor.take_kind("regex")) is None:
        return None
    cursor.take(phrases.PLACE_PHRASES)
    gone = hides or (not shows and cursor.take(phrases.GONE_PHRASES))
    if not gone and not shows:
        cursor.take(phrases.APPEAR_VERBS)
    cursor.take(phrases.PLACE_PHRASES)
    new = cursor.take(phrases.NEW_WORDS) or new
    if gone and (new or regex):
        return None
    if text is not None:
        return TextForm(text=text, gone=gone, new=new)
    return _check_regex(RegexForm(regex=regex or "", new=new))


def _read_exit(cursor: _Cursor) -> Form | None:
    cursor.take(phrases.COMMAND)
    for kind, table in (
        (ExitKind.FAILURE, phrases.FAILURE_VERBS),
        (ExitKind.SUCCESS, phrases.SUCCESS_VERBS),
    ):
        if cursor.take(table):
            return ExitForm(exit=kind)
    if cursor.take(phrases.EXITS_WITH):
        status = cursor.take_number()
        whole = status is not None and status.is_integer() and 0 <= status <= 255  # noqa: PLR2004
        return ExitForm(exit=int(status)) if whole and status is not None else None
    return ExitForm(exit=ExitKind.ANY) if cursor.take(phrases.END_VERBS) else None


def _read_prompt(cursor: _Cursor) -> Form | None:
    if not cursor.take(phrases.PROMPT):
        return None
    return (
        PromptForm(prompt=True) if cursor.take(phrases.RETURN_VERBS) or cursor.is_at_end else None
    )


def _read_asks(cursor: _Cursor) -> Form | None:
    cursor.take(phrases.PLACE)
    taken = [answer for answer, table in phrases.ASK_VERBS.items() if cursor.take(table)]
    return AsksForm(asks=taken[0]) if len(taken) == 1 else None


def _read_quiet(cursor: _Cursor) -> Form | None:
    if not cursor.take(phrases.QUIET_PHRASES):
        cursor.take(phrases.PLACE)
        if not cursor.take(phrases.QUIET_PHRASES):
            return None
    seconds = _read_duration(cursor)
    return QuietForm(quiet=seconds) if seconds else None


def _read_duration(cursor: _Cursor) -> float | None:
    cursor.take(parse_phrases("at least"))
    number = cursor.take_number()
    unit = cursor.take_kind("word")
    if number is None:
        digits = (unit or "").rstrip("abcdefghijklmnopqrstuvwxyz")
        number, unit = _parse_number(digits), (unit or "")[len(digits) :]
    return None if number is None else (number * phrases.UNITS.get((unit or "").lower(), 0.0))


def _read_percent(cursor: _Cursor) -> Form | None:
    if not cursor.take(phrases.PROGRESS):
        cursor.take(phrases.PLACE)
    if not cursor.take(phrases.REACH_VERBS):
        cursor.take(parse_phrases(">=|≥"))
    if (number := cursor.take_count()) is not None:
        cursor.take(phrases.REACHED_PHRASES)
    else:
        number = _read_percentage(cursor)
    return None if number is None else PercentForm(percent=number)


def _read_named_percent(cursor: _Cursor) -> Form | None:
    quoted = cursor.take_kind("quote")
    name = quoted or cursor.take_kind("word") or ""
    if not any(map(str.isalpha, name)) or (not quoted and (name.lower(),) in phrases.NO_NAMES):
        return None
    # "the linker reaches 80 %" is English: no bar need be called so.
    if not (quoted and cursor.take(phrases.REACH_VERBS)):
        cursor.take(parse_phrases(">=|≥"))
    number = _read_percentage(cursor)
    return None if number is None else PercentForm(percent=number, name=name)


def _read_percentage(cursor: _Cursor) -> float | None:
    number = cursor.take_number()
    sign = cursor.take_kind("word")
    if number is None or (sign or "").lower() not in phrases.PERCENT or not 0 <= number <= 100:  # noqa: PLR2004
        return None
    cursor.take(phrases.REACHED_PHRASES)
    return number


def _read_named_number(cursor: _Cursor) -> Form | None:
    quoted = cursor.take_kind("quote")
    words = (quoted,) if quoted else cursor.take_words()
    if not words or len(words) > _NAME_WORDS or not any(map(str.isalpha, "".join(words))):
        return None
    for op, table in phrases.COMPARISON_PHRASES.items():
        # In words, only after a name of one word: "epoch 3 reaches the end" is English, no number.
        spelled = frozenset(p for p in table if p[0].isalpha())
        if cursor.take(table - spelled) or (len(words) == 1 and cursor.take(spelled)):
            value = cursor.take_number()
            return None if value is None else NumberForm(number=" ".join(words), op=op, value=value)
    return None


def _check_regex(form: RegexForm) -> RegexForm:
    try:
        matching.compile_regex(form.regex)
    except matching.BadPattern as bad:
        raise ConditionUnclear(
            f"{form} cannot be used: {bad}. Regular expressions are in RE2's syntax, "
            "without look-around and back-references. Nothing was written."
        ) from None
    return form
