"""Assign judges to the sides of a condition, and combine their rulings on one wait.

If a side has no judge, the refusal suggests a form. Source: docs/origins.md, "Judges and readers".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final
from unicodedata import category

from pydantic import JsonValue

from openclaw_taskmem.domain.conditions.targets import LIMIT_SCHEME, URL_SCHEME
from openclaw_taskmem.domain.conditions.words import scan_words
from openclaw_taskmem.domain.text.texts import clip, end_sentence, quote_line, to_plain_line
from taskmem_hookspecs import (
    Condition,
    ConditionUnclear,
    Judge,
    JudgeUnavailable,
    Met,
    ReaderStatus,
    Readiness,
    Ruling,
    Side,
    Value,
)
from taskmem_hookspecs.conditions import PercentForm, State, StateForm, TextForm, quote

NOTHING_SEEN: Final = "Nothing was seen yet."
UNJUDGED_PREFIX: Final = "Could not be judged"
"""How an observation begins if a wait was not judged for some time."""
_SEEN_BYTES: Final = 3000
"""Longest excerpt of an observation; with its frame, a wake stays within 4 KB."""
LINE_BYTES: Final = 200
"""Longest excerpt of the target's last line."""
_LONGEST_JUDGE_REST: Final = 30.0
"""Longest rest of a failing judge in seconds; it is asked again after 1, 2, 4 … up to this."""


FORMS: Final = (
    '"text" appears',
    '"text" is gone',
    "/regex/ appears",
    "exits",
    "succeeds",
    "fails",
    "exits with N",
    "prompt returns",
    "asks for a password",
    "asks yes or no",
    "asks for input",
    "quiet for N s",
    "N %",
    "NAME N %",
    "NAME >= N",
)
"""The forms of targets that show text, as a refusal lists them."""
STATE_FORMS: Final = ("appears", "is gone", "changes", "size >= N bytes", "comes")
"""Those of the others."""
TASK_FORMS: Final = (
    "completes",
    "ends",
    "fails",
    "is cancelled",
    "is blocked",
    "step N is done",
    'step "TEXT" is done',
    "changes",
)
"""Those of a task."""
SESSION_FORMS: Final = (
    "ends",
    "completes",
    "fails",
    "is lost",
    '"text" appears',
    "/regex/ appears",
)
"""Those of a session; a text stands in its last words."""
LIMIT_FORM: Final = "is over"
"""The only form of a host's limit of use."""
_STATE_WORDS: Final[Mapping[str, Mapping[State, str]]] = {
    LIMIT_SCHEME: {State.ENDED: LIMIT_FORM},
    URL_SCHEME: {State.THERE: "answers", State.GONE: "is down"},
}
"""By the scheme of a target, the words for its states where they are not those of all."""
_PLACEHOLDER: Final = '"THE TEXT THAT IT PRINTS" appears'
"""Suggested form for a side that quotes no text."""
_DENIALS: Final = frozenset(("not", "no", "never", "without", "n't", "doesn't", "don't", "isn't"))
"""Words with which a quoted text is to stay away, so that its appearance is the opposite."""


class UnderstoodSide(Value):
    """How one side of a condition was understood."""

    side: str
    """The side as written."""
    form: str | None
    """Its forms; None: free English."""
    judged_by: str
    """`rules`, or the name of the reader or the plug-in's judge."""
    note: str | None = None
    """About the reader: how it is asked, or that it is away now; or about percentages, which ones
    count. None: nothing."""


def log_sides(understood: Sequence[UnderstoodSide]) -> list[JsonValue]:
    """Return how each side was understood, as the log keeps it: its words, and who judges it."""
    return [{"side": each.side, "judged_by": each.judged_by} for each in understood]


class UnjudgedPeriod(Value):
    """A period in which no judge could rule on a condition."""

    since: datetime
    why: str
    """The latest reason, in a sentence."""
    until: datetime | None = None
    """Its end; None: it goes on."""


class JudgeReply(Value):
    """The reply of one judge."""

    judge: str | None
    """Its name; None: there is no judge, and `trouble` says for which sides."""
    sides: tuple[int, ...] = ()
    """Sides of the condition that it judges."""
    since: datetime | None = None
    """Since when it cannot judge what is shown; None: it can."""
    ruling: Ruling | None = None
    """None: it could not be asked."""
    trouble: str | None = None
    """Why it could not be asked; None: it answered."""
    gone: str | None = None
    """Why the target shows nothing more after this; None: it may show more."""
    again: float | None = None
    """Seconds after which to ask it again at the latest; None: only when something changes."""
    rests_on: object = None
    """Picture that the ruling is based on, passed through; None: none."""

    @property
    def sure(self) -> bool:
        """True if no other judge need be asked."""
        return self.ruling is not None and self.ruling.met is not Met.UNSURE


class WaitFinding(Value):
    """The state of a wait after one look."""

    met: bool
    """True if the condition holds."""
    lost: bool
    """True if it never will: the target is gone, and no judge says that this meets it."""
    observation: str
    again: float | None
    """Seconds after which to look again at the latest; None: only when something changes."""
    rests_on: object = None
    """Picture that the decisive ruling is based on; None: none."""
    unjudged: UnjudgedPeriod | None = None
    """Since when a side has no judge, and why; None: all sides are judged."""


def assign_judges(
    condition: Condition, judges: Sequence[Judge], late: Sequence[str] = (), scheme: str = ""
) -> tuple[UnderstoodSide, ...]:
    """Find the judge of each side of a condition on a target of a scheme.

    Raises:
        JudgeUnavailable: A side has no judge, but a plug-in that did not answer in time may still
        judge it; the error consists of the sentences in `late`.
    """
    if find_unjudged(condition, judges):
        raise JudgeUnavailable(f"{' '.join(late)} Call again. Nothing was written.")
    deciders = _find_deciders(condition, judges)
    return tuple(
        UnderstoodSide(
            side=side.words,
            form=_write_forms(side, scheme) if side.forms else None,
            judged_by=judge.name,
            note=explain_amounts(side),
        )
        for side, judge in zip(condition.sides, deciders, strict=True)
        if judge is not None
    )


def _write_forms(side: Side, scheme: str) -> str:
    """Write the forms of a side in the words for its target."""
    words = _STATE_WORDS.get(scheme, {})
    forms = [words.get(form.state) if isinstance(form, StateForm) else None for form in side.forms]
    return " and ".join(word or str(form) for word, form in zip(forms, side.forms, strict=True))


def _find_deciders(condition: Condition, judges: Sequence[Judge]) -> tuple[Judge | None, ...]:
    """Find the judge of each side of a condition; None: it has none."""
    every = range(len(condition.sides))
    return tuple(next((j for j in judges if i in getattr(j, "sides", every)), None) for i in every)


def find_unjudged(condition: Condition, judges: Sequence[Judge]) -> tuple[int, ...]:
    """Return the sides that have no judge."""
    deciders = enumerate(_find_deciders(condition, judges))
    return tuple(i for i, judge in deciders if judge is None)


def name_sides(condition: Condition, sides: Sequence[int]) -> str:
    """Quote up to three sides of a condition."""
    return ", ".join(quote_line(condition.sides[i].words, 160) for i in sides[:3])


def add_reader_note(
    understood: Sequence[UnderstoodSide], reader: str, status: ReaderStatus, advice: Sequence[str]
) -> tuple[UnderstoodSide, ...]:
    """Add the reader's status to the sides that it judges.

    `advice` says how rules could judge those sides that have forms.
    """
    away = "away now: " if status.readiness is Readiness.AWAY else ""
    note = f"{away}{status.detail}"
    return tuple(
        each.model_copy(update={"note": " ".join((note, *advice)) if each.form else note})
        if each.judged_by == reader
        else each
        for each in understood
    )


def build_sides_refusal(
    condition: Condition,
    unread: Sequence[int],
    forms: Sequence[str],
    suggestion: str = "",
    *,
    advice: str = "",
    scheme: str | None = None,
    is_read: bool = True,
) -> ConditionUnclear:
    """Build the refusal of sides that have no judge; its details say which, and what would do.

    `forms` are those that are judged for the target; empty: none that was tried. `suggestion`: the
    condition as it would be judged; empty: not known. `advice`: what the judges say of the sides.
    `scheme`: of the target, if a plug-in brought it. `is_read`: a reader judges plain English.
    """
    help_ = ""
    if forms:
        help_ = "Write each as shown in forms, joined by or / and."
    elif scheme is not None and not advice:
        help_ = (
            "No judge took any form that was tried, nor plain English. The plug-in that watches "
            f"{scheme}: must bring a judge that says what it takes (its hook wait_judge); tell its "
            "author, or wait for another target."
        )
    fault = "Here no model reads plain English."
    if is_read or scheme is not None or all(condition.sides[i].forms for i in unread):
        where = "" if scheme is None else f" of {scheme}: targets"
        fault = f"Nobody here can judge these sides{where}."
    sentences = (fault, help_, advice)
    refusal = ConditionUnclear(" ".join(filter(None, (*sentences, "Nothing was written."))))
    refusal.details = {
        "sides": [condition.sides[i].words for i in unread],
        "forms": [*forms],
        **({"suggestion": suggestion} if suggestion else {}),
    }
    return refusal


def suggest_conditions(
    condition: Condition, unread: Sequence[int], forms: Sequence[str]
) -> Iterator[str]:
    """Yield conditions with forms in place of the sides that have no judge, the closest first.

    The caller finds out which of them is judged. The refused condition itself is none of them.
    """
    sides = {i: str(side) for i, side in enumerate(condition.sides)}
    choices = [dict.fromkeys(unread, re.sub(r"\bN\b", "30", form)) for form in forms[:1]]
    if FORMS[0] in forms:
        quoted = {i: suggest_form(condition.sides[i].words) for i in unread}
        choices = [quoted, dict.fromkeys(unread, _PLACEHOLDER)]
    for replaced in choices:
        if (words := {**sides, **replaced}) != sides:
            yield " or ".join(words.values())


def suggest_form(words: str) -> str:
    """Suggest a form for a side that was not understood, using the text that it quotes.

    A symbol (`✓`) is a text also without quotes. Without one text it is `_PLACEHOLDER`: only the
    caller knows what the program prints. So it is with several, which may be joined in either way,
    and with one that is to stay away.
    """
    tokens = scan_words(words)
    quoted = [
        token.text
        for token in tokens
        if token.kind == "quote" or set(map(category, token.text)) == {"So"}
    ]
    if len(quoted) == 1 and _DENIALS.isdisjoint(token.lower for token in tokens):
        return f"{TextForm(text=quoted[0])}"
    return _PLACEHOLDER


def compute_retry_delay(failures: int) -> float:
    """Return for how many seconds a judge rests after so many consecutive failures."""
    return min(2.0 ** min(failures - 1, 10), _LONGEST_JUDGE_REST)


def combine_replies(replies: Sequence[JudgeReply]) -> WaitFinding:
    """Combine the judges' replies, in the order in which they were asked.

    The first sure ruling decides, else the last ruling. A wait is lost if it is not met, its target
    is gone, and one judge was sure or all answered; a judge in trouble is waited for.
    """
    sure = next((each for each in replies if each.sure), None)
    deciding = sure or next((e for e in reversed(replies) if e.ruling), None)
    troubled = [each for each in replies if each.trouble]
    ruling = deciding.ruling if deciding else None
    gone = deciding.gone if deciding else None
    again = [each.again for each in replies if each.again is not None]
    met = ruling is not None and ruling.met is Met.YES
    words = [ruling.observation.strip()] if ruling and ruling.observation.strip() else []
    lost = bool(gone) and not met and (sure is not None or not troubled)
    if lost:
        words.insert(0, str(gone))
    elif not met:
        words += [
            f"{each.judge} is in trouble: {each.trouble}"
            if each.judge is not None
            else str(each.trouble)
            for each in troubled
        ]
    return WaitFinding(
        met=met,
        lost=lost,
        observation=clip_observation(" ".join(map(end_sentence, words))) or NOTHING_SEEN,
        again=min(again, default=None),
        rests_on=deciding.rests_on if deciding else None,
        unjudged=None if sure else _find_unjudged_time(replies),
    )


def _find_unjudged_time(replies: Sequence[JudgeReply]) -> UnjudgedPeriod | None:
    """Return since when a side has no judge that can rule, and why; None: all sides have one."""
    judged = {side for each in replies if each.since is None for side in each.sides}
    lost = [(e.since, e) for e in replies if e.since and not judged.issuperset(e.sides)]
    if not lost:
        return None
    why = (e.trouble or (e.ruling and e.ruling.trouble) or "" for _, e in lost)
    return UnjudgedPeriod(since=min(at for at, _ in lost), why=" ".join(map(end_sentence, why)))


def describe_timeout(observation: str | None, tail: str | None) -> str:
    """Say what was seen last when a wait times out.

    Args:
        observation: The judges' last observation; None: none.
        tail: What the target shows, if nothing new came since the wait began; None: something
        came, or it is not known.
    """
    lines = [line for line in (tail or "").splitlines() if line.strip()]
    if not lines:
        return observation or NOTHING_SEEN
    reason = f'Nothing new; the last line is "{clip(to_plain_line(lines[-1]), LINE_BYTES)}".'
    return reason if observation in (None, NOTHING_SEEN) else f"{reason} {observation}"


def describe_unjudged(unjudged: UnjudgedPeriod, observation: str, now: datetime) -> str:
    """Say when a wait that timed out could not be judged, and why.

    `observation` is the last one; if no judge can rule now, it gives the reason.
    """

    def show(at: datetime) -> str:
        return f"{at:%H:%M}" if at.date() == now.date() else f"{at:%Y-%m-%d %H:%M}"

    since = show(unjudged.since)
    if unjudged.until is None:
        return clip_observation(f"{UNJUDGED_PREFIX} since {since} UTC: {observation}")
    until, why = show(unjudged.until), unjudged.why.rstrip(".")
    return clip_observation(f"{UNJUDGED_PREFIX} from {since} to {until} UTC ({why}). {observation}")


def clip_observation(observation: str) -> str:
    """Shorten an observation to one plain line."""
    return clip(to_plain_line(observation), _SEEN_BYTES)


def explain_amounts(side: Side) -> str | None:
    """Say which percentage counts, where that of a named bar is waited for; None: none is."""
    for form in side.forms:
        if isinstance(form, PercentForm) and form.name is not None:
            return (
                f"Only a percentage beside {quote(form.name)} counts. "
                f"If no bar is called so, wait for: {PercentForm(percent=form.percent)}."
            )
    return None


def refuse_unread(
    condition: Condition, known: tuple[type, ...], listed: Sequence[str], sentence: str
) -> ConditionUnclear | None:
    """Return why nobody can tell a condition of a target; None: its forms are all known.

    `listed`: the forms of the target, the first of which is suggested; `sentence` says what is
    told of it.
    """
    unclear = tuple(
        index
        for index, side in enumerate(condition.sides)
        if not side.forms or not all(isinstance(form, known) for form in side.forms)
    )
    if not unclear:
        return None
    refusal = ConditionUnclear(f"{sentence} Nothing was written.", unclear)
    refusal.details = {
        "sides": [condition.sides[i].words for i in unclear],
        "forms": [*listed],
        "suggestion": listed[0],
    }
    return refusal
