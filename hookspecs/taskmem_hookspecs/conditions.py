"""Define `Condition`, the parsed condition of a wait, which every judge gets.

The core parses a sentence such as `"Build finished" appears, or the build fails` once. A condition
has *sides*, joined by "or": the wait ends when one side holds. A side has *forms*, joined by "and":
all of them must hold. A side without forms is free English, which only a reader can judge.
`docs/conditions.md` documents every form.

Each form has the fields of its object in `signals`. `str(form)` is a sentence that parses back into
the same form. Source: docs/origins.md, "Conditions".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from taskmem_hookspecs.model import Value

EMPTY_WORDS: Final = frozenset(
    (
        "a",
        "an",
        "the",
        "when",
        "if",
        "once",
        "until",
        "either",
        "both",
        "there",
        "then",
        "now",
        "finally",
        "please",
        "and",
        "or",
        "wait",
        "wake",
        "me",
        "tell",
        "notify",
        "for",
        "is",
        "are",
        "i",
        "see",
        "as",
        "soon",
    )
)
"""Words without meaning of their own; quote one of them to use it as the name of a number."""
QUOTES: Final = {'"': '"', "`": "`", "'": "'", "“": "”", "„": "“", "‘": "’", "«": "»"}
"""Opening quotation marks with their closing ones."""


class ExitKind(StrEnum):
    """How a command must end, if no exit status is named."""

    ANY = "any"
    SUCCESS = "success"
    """Status 0."""
    FAILURE = "failure"
    """Any other status, or end by a signal."""


class Answer(StrEnum):
    """The answer that a terminal asks for."""

    PASSWORD = "password"  # noqa: S105 - the name of a form, and no password
    YES_NO = "yes_no"
    ANY = "any"


class State(StrEnum):
    """A fact of a target that shows no text."""

    THERE = "there"
    """Something exists."""
    GONE = "gone"
    CHANGED = "changed"
    """Differs from when the wait began."""
    DUE = "due"
    """An instant has come."""
    ENDED = "ended"
    """A task, or the work of a session, has ended, in whatever way."""
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    BLOCKED = "blocked"
    """A task goes on only once its user, or another task, has done something."""
    LOST = "lost"
    """A session's host has ended while it worked, and does not go on with it."""


class Comparison(StrEnum):
    """Operator that compares a number with a bound."""

    LESS = "<"
    AT_MOST = "<="
    MORE = ">"
    AT_LEAST = ">="
    EQUAL = "=="

    def holds(self, number: float, bound: float) -> bool:
        """Return True if the number meets the bound."""
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
    """A text appears, or has appeared and is gone."""

    text: Line
    gone: bool = False
    new: bool = False
    """True if only what was not there when the wait began counts."""

    def __str__(self) -> str:
        new = "new " if self.new else ""
        return f"{new}{quote(self.text)} {'is gone' if self.gone else 'appears'}"


class RegexForm(Value):
    """A line matches a regular expression in RE2 syntax."""

    regex: Line
    """Starts with `(?i)` to ignore case."""
    new: bool = False
    """True if only what was not there when the wait began counts."""

    def __str__(self) -> str:
        pattern = self.regex.removeprefix("(?i)")
        flag = "i" if pattern != self.regex else ""
        escaped = re.sub(r"(\\.)|/", lambda found: found[1] or r"\/", pattern)
        return f"{'new ' if self.new else ''}/{escaped}/{flag} appears"


class ExitForm(Value):
    """The command ends, or the window closes."""

    exit: ExitKind | Annotated[int, Field(ge=0, le=255)]

    def __str__(self) -> str:
        if isinstance(self.exit, ExitKind):
            return {ExitKind.ANY: "exits", ExitKind.SUCCESS: "succeeds", ExitKind.FAILURE: "fails"}[
                self.exit
            ]
        return f"exits with {self.exit}"


class PromptForm(Value):
    """The shell's prompt is back."""

    prompt: Literal[True]

    def __str__(self) -> str:
        return "prompt returns"


class AsksForm(Value):
    """The terminal asks for input."""

    asks: Answer

    def __str__(self) -> str:
        return {
            Answer.PASSWORD: "asks for a password",
            Answer.YES_NO: "asks yes or no",
            Answer.ANY: "asks for input",
        }[self.asks]


class QuietForm(Value):
    """Nothing new appears for some time."""

    quiet: Annotated[float, Field(gt=0, le=30 * 86_400, allow_inf_nan=False)]
    """In seconds."""

    def __str__(self) -> str:
        return f"quiet for {write_number(self.quiet)} s"


class PercentForm(Value):
    """Something has reached this percentage, or a count such as `42/120` that amounts to it."""

    percent: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
    name: Annotated[Line, AfterValidator(_require_letter)] | None = None
    """Words beside the percentage, or beginnings of words. None: the whole is meant."""

    def __str__(self) -> str:
        amount = f"{write_number(self.percent)} %"
        return amount if self.name is None else f"{quote(self.name)} {amount}"


class NumberForm(Value):
    """A number that is shown with a name meets a bound."""

    number: Annotated[Line, AfterValidator(_require_letter)]
    """Name of the number: whole words, in any case."""
    op: Comparison
    value: Finite

    def __str__(self) -> str:
        plain = re.fullmatch(r"[A-Za-z_][\w.-]*\w|[A-Za-z]|\$\.[^\s\"]+", self.number)
        name = self.number if plain and self.number.lower() not in EMPTY_WORDS else None
        return f"{name or quote(self.number)} {self.op} {write_number(self.value)}"


FIELD_PREFIX: Final = "$."
"""How the path of a field of JSON begins, such as `$.jobs[0].state`."""


class FieldForm(Value):
    """A field of the JSON that a page or command answers has a value, or changes."""

    field: Annotated[Line, Field(pattern=r"^(\$\.[^\s\"]+|status|price)$")]
    """Path of the field; `[]` stands for any item of a list. Of what changes also `status` and
    `price`, which are no fields of JSON."""
    value: Line | None
    """Text, or another value as JSON writes it: `true`, `null`; None: another than when the wait
    began."""

    def __str__(self) -> str:
        return f"{self.field} {'changes' if self.value is None else f'is {quote(self.value)}'}"


_STATE_WORDS: Final[Mapping[State, str]] = {
    State.THERE: "appears",
    State.GONE: "is gone",
    State.CHANGED: "changes",
    State.DUE: "comes",
    State.ENDED: "ends",
    State.COMPLETED: "completes",
    State.FAILED: "fails",
    State.CANCELLED: "is cancelled",
    State.BLOCKED: "is blocked",
    State.LOST: "is lost",
}


class StateForm(Value):
    """The target is in a state; of targets that are no terminals or windows."""

    state: State

    def __str__(self) -> str:
        return _STATE_WORDS[self.state]


class StepForm(Value):
    """A step of a task's plan is done."""

    step: Annotated[int, Field(ge=1)] | Line
    """Its number, from 1, or its text."""

    def __str__(self) -> str:
        which = self.step if isinstance(self.step, int) else quote(self.step)
        return f"step {which} is done"


Form = (
    TextForm
    | RegexForm
    | ExitForm
    | PromptForm
    | AsksForm
    | QuietForm
    | PercentForm
    | NumberForm
    | FieldForm
    | StateForm
    | StepForm
)


class Side(Value):
    """One alternative of a condition."""

    words: str
    """The side as the agent wrote it."""
    forms: tuple[Form, ...] = ()
    """Forms that must all hold; empty: free English, which only a reader can judge."""

    def __str__(self) -> str:
        """Return the forms as a sentence, or the words if there are none."""
        return " and ".join(map(str, self.forms)) if self.forms else self.words


class Condition(Value):
    """The condition of a wait; it holds when one of its sides holds."""

    sentence: str
    """The condition as the agent wrote it."""
    sides: tuple[Side, ...]

    @property
    def forms(self) -> tuple[tuple[Form, ...], ...]:
        """The forms of each side."""
        return tuple(side.forms for side in self.sides)

    @property
    def is_from_now(self) -> bool:
        """True if only what was not there when the wait began counts."""
        forms = (form for side in self.sides for form in side.forms)
        return any(isinstance(form, TextForm | RegexForm) and form.new for form in forms)

    @property
    def parsed_sides(self) -> tuple[int, ...]:
        """Indexes of the sides that have forms."""
        return tuple(i for i, side in enumerate(self.sides) if side.forms)

    @property
    def free(self) -> tuple[int, ...]:
        """Indexes of the sides that are free English."""
        return tuple(i for i, side in enumerate(self.sides) if not side.forms)


def quote(text: str) -> str:
    """Quote a text, with a pair of quotation marks that it does not contain if possible."""
    for opening, closing in QUOTES.items():
        if opening not in text and closing not in text:
            return f"{opening}{text}{closing}"
    escaped = text.replace('"', '\\"')
    return f'"{escaped}"'


def write_number(number: float) -> str:
    """Format a number without an exponent if that reads back as the same number."""
    text = format(number, "f").rstrip("0").rstrip(".")
    return text if float(text) == number else repr(number)
