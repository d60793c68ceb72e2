"""What a wait waits for, as a value that every judge gets.

A sentence such as `"Build finished" appears, or the build fails` is parsed once, in
the core. It has *sides*, joined by "or": the wait ends when one of them holds. A side
has *forms*, joined by "and": all of them must hold. A side without forms is free
English, which only a reader can judge. `docs/conditions.md` documents every form.

Each form has the fields of the object that `signals` takes for it, and `str(form)` is
the sentence that is parsed back into the same form. Source: design §7.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, TypeAdapter

from taskmem_hookspecs.value import Value

MAX_SIDES: Final = 20
"""Sides that a condition may have, and forms that a side may have."""


EMPTY_WORDS: Final = frozenset(
    (
        *("a", "an", "the", "when", "if", "once", "until", "either", "both", "there"),
        *("then", "now", "finally", "please", "and", "or", "wait", "wake", "me"),
        *("tell", "notify", "for", "is", "are", "i", "see", "as", "soon"),
    )
)
"""Words that mean nothing by themselves; a number of that name is written in quotes."""
QUOTES: Final = {'"': '"', "`": "`", "'": "'", "“": "”", "„": "“", "‘": "’", "«": "»"}
"""What opens a quoted text, and what closes it."""


class ExitKind(StrEnum):
    """Which end of a command is waited for, where no status is named."""

    ANY = "any"
    SUCCESS = "success"
    """Status 0."""
    FAILURE = "failure"
    """Any other status, or a signal."""


class Answer(StrEnum):
    """What a terminal asks for."""

    PASSWORD = "password"  # noqa: S105 - the name of a form, and no password
    YES_NO = "yes_no"
    ANY = "any"


class Comparison(StrEnum):
    """How a number is compared with a bound."""

    LESS = "<"
    AT_MOST = "<="
    MORE = ">"
    AT_LEAST = ">="
    EQUAL = "=="

    def holds(self, number: float, bound: float) -> bool:
        """Compare a number with a bound."""
        return {
            Comparison.LESS: number < bound,
            Comparison.AT_MOST: number <= bound,
            Comparison.MORE: number > bound,
            Comparison.AT_LEAST: number >= bound,
            Comparison.EQUAL: number == bound,
        }[self]


def _require_line(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    if "\n" in text or "\r" in text:
        raise ValueError("must be one line, since lines are matched one by one")
    return text


def _require_letter(text: str) -> str:
    if not any(map(str.isalpha, text)):
        raise ValueError("must hold a letter")
    return text


Line = Annotated[str, AfterValidator(_require_line), Field(max_length=1000)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class TextForm(Value):
    """A text is shown, or was shown and is gone."""

    text: Line
    gone: bool = False

    def __str__(self) -> str:
        """Return it as a sentence."""
        return f"{quote(self.text)} {'is gone' if self.gone else 'appears'}"


class RegexForm(Value):
    """A line matches a regular expression in RE2's syntax."""

    regex: Line
    """`(?i)` at its beginning makes case not matter."""

    def __str__(self) -> str:
        """Return it as a sentence."""
        pattern = self.regex.removeprefix("(?i)")
        flag = "i" if pattern != self.regex else ""
        return f"/{escape_slashes(pattern)}/{flag} appears"


class ExitForm(Value):
    """The command ends, or the window closes."""

    exit: ExitKind | Annotated[int, Field(ge=0, le=255)]

    def __str__(self) -> str:
        """Return it as a sentence."""
        if isinstance(self.exit, ExitKind):
            return {ExitKind.ANY: "exits", ExitKind.SUCCESS: "succeeds", ExitKind.FAILURE: "fails"}[
                self.exit
            ]
        return f"exits with {self.exit}"


class PromptForm(Value):
    """The shell's prompt is back."""

    prompt: Literal[True]

    def __str__(self) -> str:
        """Return it as a sentence."""
        return "prompt returns"


class AsksForm(Value):
    """The terminal waits for an answer."""

    asks: Answer

    def __str__(self) -> str:
        """Return it as a sentence."""
        return {
            Answer.PASSWORD: "asks for a password",
            Answer.YES_NO: "asks yes or no",
            Answer.ANY: "asks for input",
        }[self.asks]


class QuietForm(Value):
    """Nothing new was shown for a while."""

    quiet: Annotated[float, Field(gt=0, le=30 * 86_400, allow_inf_nan=False)]
    """In seconds."""

    def __str__(self) -> str:
        """Return it as a sentence."""
        return f"quiet for {write_number(self.quiet)} s"


class PercentForm(Value):
    """A percentage of at least so many is shown, or a count such as `42/120`."""

    percent: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]

    def __str__(self) -> str:
        """Return it as a sentence."""
        return f"{write_number(self.percent)} %"


class NumberForm(Value):
    """A number that is shown with a name compares with a bound as it should."""

    number: Annotated[Line, AfterValidator(_require_letter)]
    """Its name: whole words, case does not matter."""
    op: Comparison
    value: Finite

    def __str__(self) -> str:
        """Return it as a sentence."""
        plain = re.fullmatch(r"[A-Za-z_][\w.-]*\w|[A-Za-z]", self.number)
        name = self.number if plain and self.number.lower() not in EMPTY_WORDS else None
        return f"{name or quote(self.number)} {self.op} {write_number(self.value)}"


Form = (
    TextForm | RegexForm | ExitForm | PromptForm | AsksForm | QuietForm | PercentForm | NumberForm
)
FORM: Final[TypeAdapter[Form]] = TypeAdapter(Form)
"""Reads a form from an object of `signals`."""


class Side(Value):
    """One alternative of a condition."""

    words: str
    """As it was written."""
    forms: tuple[Form, ...] = ()
    """All of them must hold; empty: free English, which only a reader can judge."""

    def __str__(self) -> str:
        """Return how it was understood: its forms, or the words themselves."""
        return " and ".join(map(str, self.forms)) if self.forms else self.words


class Condition(Value):
    """What a wait waits for: one of its sides."""

    sentence: str
    """As it was written, for whoever reads."""
    sides: tuple[Side, ...]

    @property
    def parsed_sides(self) -> tuple[int, ...]:
        """The indexes of the sides that have forms."""
        return tuple(i for i, side in enumerate(self.sides) if side.forms)

    @property
    def free(self) -> tuple[int, ...]:
        """The indexes of the sides that are free English."""
        return tuple(i for i, side in enumerate(self.sides) if not side.forms)


def quote(text: str) -> str:
    """Put a text into quotes that it does not hold itself."""
    for opening, closing in QUOTES.items():
        if opening not in text and closing not in text:
            return f"{opening}{text}{closing}"
    return f'"{text}"'


def escape_slashes(pattern: str) -> str:
    """Write the slashes of a pattern so that they do not end it."""
    return re.sub(r"(\\.)|/", lambda found: found[1] or r"\/", pattern)


def unescape_slashes(pattern: str) -> str:
    """Undo `escape_slashes`; other escapes stay."""
    return re.sub(r"\\(.)", lambda found: "/" if found[1] == "/" else found[0], pattern)


def write_number(number: float) -> str:
    """Write a number so that it is read back as the same, without an exponent."""
    text = format(number, "f").rstrip("0").rstrip(".")
    return text if float(text) == number else repr(number)
