"""Parse the condition of a wait, a sentence or a list of signals, into a `Condition`.

The grammar is a table of phrases: a form is understood only if every word of it is in the table.
Anything else is free English, which only a reader can judge. `docs/conditions.md` documents the
grammar; a test compares the two. Source: docs/origins.md, "Conditions".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import ValidationError

from openclaw_taskmem.domain.conditions.phrases import (
    APPEARS,
    ASKS,
    COMMAND,
    COMPARED,
    ENDS,
    EXITS_WITH,
    FAILS,
    GONE,
    HIDES,
    OBJECT,
    PERCENT,
    PLACE,
    PLACED,
    PROGRESS,
    PROMPT,
    QUIET,
    REACHED,
    REACHES,
    RETURNS,
    SHOWS,
    SUCCEEDS,
    UNITS,
    parse_phrases,
)
from openclaw_taskmem.domain.conditions.tokens import Cursor, Token, parse_number, scan_words
from taskmem_hookspecs import Condition, ConditionUnclear, InvalidArguments, Side, matching
from taskmem_hookspecs.conditions import (
    FORM,
    MAX_SIDES,
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
    unescape_slashes,
)

_NAME_WORDS: Final = 4
"""Most words of a number's name."""


def parse_condition(sentence: str) -> Condition:
    """Parse a sentence into sides, and each side into forms if it has any.

    Raises:
        ConditionUnclear: It has too many sides, a value outside its limits, or a regular
        expression that RE2 refuses.
    """
    groups = _split_sides(scan_words(sentence))
    forms = iter(_share_verbs([part for parts in groups for part in parts]))
    sides = [_build_side(sentence, parts, [next(forms) for _ in parts]) for parts in groups]
    merged = _merge_free(sentence, groups, sides)
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
            form = FORM.validate_python(signal)
        except ValueError:
            raise InvalidArguments(
                f"Signal {number} is none of the forms: "
                '{"text": "…", "gone": false}, {"regex": "…"}, {"exit": "any", '
                '"success", "failure" or a status}, {"prompt": true}, {"asks": '
                '"password", "yes_no" or "any"}, {"quiet": SECONDS}, {"percent": N}, '
                '{"number": "loss", "op": "<", "value": 0.1}. Nothing was written.'
            ) from None
        if isinstance(form, RegexForm):
            form = _check_regex(RegexForm(regex=unescape_slashes(form.regex)))
        forms.append(form)
    sides = tuple(Side(words=str(form), forms=(form,)) for form in forms)
    condition = Condition(sentence=" or ".join(map(str, forms)), sides=sides)
    read = parse_condition(condition.sentence)
    if [side.forms for side in read.sides] != [side.forms for side in sides]:
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
        if isinstance(value, bool) is not (name in ("gone", "prompt")):
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


def _share_verbs(parts: Sequence[Part]) -> list[Form | None]:
    """Read parts as forms, and apply "is gone" to the bare texts before its own.

    `"A" and "B" are gone` applies to both, and a bare regex there is free English. So is a bare
    text after `no longer shows "A" or`, for it is ambiguous.
    """
    forms = [_read_part(part) for part in parts]
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
        _read_named_number,
    ):
        cursor = Cursor(tokens)
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


def _read_text(cursor: Cursor) -> Form | None:
    place = cursor.take(PLACE)
    hides = cursor.take(HIDES)
    shows = hides or cursor.take(SHOWS)
    if place and not shows:
        return None
    cursor.take(OBJECT)
    cursor.skip_articles()
    text, regex = cursor.take_kind("quote"), None
    if text is None and (regex := cursor.take_kind("regex")) is None:
        return None
    cursor.take(PLACED)
    gone = hides or (not shows and cursor.take(GONE))
    if not gone and not shows:
        cursor.take(APPEARS)
    cursor.take(PLACED)
    if text is not None:
        return TextForm(text=text, gone=gone)
    return None if gone or regex is None else _check_regex(RegexForm(regex=regex))


def _read_exit(cursor: Cursor) -> Form | None:
    cursor.take(COMMAND)
    for kind, table in ((ExitKind.FAILURE, FAILS), (ExitKind.SUCCESS, SUCCEEDS)):
        if cursor.take(table):
            return ExitForm(exit=kind)
    if cursor.take(EXITS_WITH):
        status = cursor.take_number()
        whole = status is not None and status.is_integer() and 0 <= status <= 255  # noqa: PLR2004
        return ExitForm(exit=int(status)) if whole and status is not None else None
    return ExitForm(exit=ExitKind.ANY) if cursor.take(ENDS) else None


def _read_prompt(cursor: Cursor) -> Form | None:
    if not cursor.take(PROMPT):
        return None
    return PromptForm(prompt=True) if cursor.take(RETURNS) or cursor.is_at_end else None


def _read_asks(cursor: Cursor) -> Form | None:
    cursor.take(PLACE)
    taken = [answer for answer, table in ASKS.items() if cursor.take(table)]
    return AsksForm(asks=taken[0]) if len(taken) == 1 else None


def _read_quiet(cursor: Cursor) -> Form | None:
    if not cursor.take(QUIET):
        cursor.take(PLACE)
        if not cursor.take(QUIET):
            return None
    seconds = _read_duration(cursor)
    return QuietForm(quiet=seconds) if seconds else None


def _read_duration(cursor: Cursor) -> float | None:
    cursor.take(parse_phrases("at least"))
    number = cursor.take_number()
    unit = cursor.take_kind("word")
    if number is None:
        digits = (unit or "").rstrip("abcdefghijklmnopqrstuvwxyz")
        number, unit = parse_number(digits), (unit or "")[len(digits) :]
    return None if number is None else (number * UNITS.get((unit or "").lower(), 0.0))


def _read_percent(cursor: Cursor) -> Form | None:
    if cursor.take(PROGRESS) or cursor.take(PLACE):
        if not cursor.take(REACHES) and not cursor.take(parse_phrases(">=|≥")):
            return None
    elif not cursor.take(REACHES):
        cursor.take(parse_phrases(">=|≥"))
    number = cursor.take_number()
    sign = cursor.take_kind("word")
    if number is None or (sign or "").lower() not in PERCENT or not 0 <= number <= 100:  # noqa: PLR2004
        return None
    cursor.take(REACHED)
    return PercentForm(percent=number)


def _read_named_number(cursor: Cursor) -> Form | None:
    quoted = cursor.take_kind("quote")
    words = (quoted,) if quoted else cursor.take_words()
    if not words or len(words) > _NAME_WORDS or not any(map(str.isalpha, "".join(words))):
        return None
    for op, table in COMPARED.items():
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
