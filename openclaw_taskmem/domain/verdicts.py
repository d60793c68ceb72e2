"""What the words of several judges on one wait come to. Source: requirement B8."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from openclaw_taskmem.domain.condition_phrases import FORMS
from openclaw_taskmem.domain.condition_tokens import scan_words
from openclaw_taskmem.domain.texts import clip, quote_line, to_plain_line
from taskmem_hookspecs import (
    Condition,
    ConditionUnclear,
    Judge,
    JudgeUnavailable,
    Met,
    ReaderStatus,
    Readiness,
    Ruling,
    Value,
)
from taskmem_hookspecs.conditions import TextForm

NOTHING_SEEN: Final = "Nothing was seen yet."
UNJUDGED: Final = "Could not be judged"
"""How the observation begins of a wait that was not judged all its time."""
SEEN_BYTES: Final = 3000
"""What is kept of an observation: with its frame, a wake stays within 4 KB."""
LINE_BYTES: Final = 200
"""Of a line from before the wait."""
LONGEST_REST: Final = 30.0
"""Seconds; a judge that fails is asked again after 1, 2, 4 … up to this."""


PLACEHOLDER: Final = '"THE TEXT THAT IT PRINTS" appears'
"""What a suggestion has for a side that quotes nothing."""


class UnderstoodSide(Value):
    """How one side of a condition was read."""

    side: str
    """As it was written."""
    form: str | None
    """The forms that it was read as; None: free English, judged by a reader."""
    judged_by: str
    """Who decides it: `rules`, or the name of a reader or a plug-in's judge."""
    note: str | None = None
    """What to know of the reader: how it is asked, or that it is away now. None: it is
    judged by rules."""


class UnjudgedPeriod(Value):
    """A time in which nobody could tell whether a condition holds."""

    since: datetime
    why: str
    """The last reason, in a sentence."""
    until: datetime | None = None
    """None: it goes on."""


class JudgeReply(Value):
    """What came of asking one judge."""

    judge: str | None
    """None: there is no judge; `trouble` says for which sides."""
    sides: tuple[int, ...] = ()
    """Which sides of the condition it decides."""
    since: datetime | None = None
    """Since when it could not judge what is shown; None: it can."""
    ruling: Ruling | None = None
    """None: it could not be asked."""
    trouble: str | None = None
    """Why it could not; None: it answered."""
    gone: str | None = None
    """Why nothing will come any more after what it answered; None: more may."""
    again: float | None = None
    """Seconds after which to ask it again anyway; None: when something changes."""
    rests_on: object = None
    """The picture that its ruling rests on, carried unopened; None: there is none."""

    @property
    def sure(self) -> bool:
        """Whether nobody else need be asked."""
        return self.ruling is not None and self.ruling.met is not Met.UNSURE


class WaitFinding(Value):
    """Where a wait stands after one look."""

    met: bool
    """Whether the condition holds."""
    lost: bool
    """Whether it never will: the target is gone, and no judge says that this was it."""
    observation: str
    again: float | None
    """Seconds after which to look again anyway; None: when something changes."""
    rests_on: object = None
    """The picture that the ruling which counts rests on; None: there is none."""
    unjudged: UnjudgedPeriod | None = None
    """Since when a side is judged by nobody, and why; None: all of them are."""


def assign_judges(
    condition: Condition, judges: Sequence[Judge], advice: Sequence[str], late: Sequence[str] = ()
) -> tuple[UnderstoodSide, ...]:
    """Find who decides each side of a condition.

    Raises:
        ConditionUnclear: Nobody decides one of them; it names that side and the forms.
        JudgeUnavailable: The same, where `late` says that somebody still may.
    """
    unread = find_unjudged(condition, judges)
    if unread and late:
        raise JudgeUnavailable(f"{' '.join(late)} Call again. Nothing was written.")
    if unread:
        raise build_sides_refusal(condition, unread, " ".join(advice))
    deciders = find_deciders(condition, judges)
    return tuple(
        UnderstoodSide(
            side=side.words, form=str(side) if side.forms else None, judged_by=judge.name
        )
        for side, judge in zip(condition.sides, deciders, strict=True)
        if judge is not None
    )


def find_deciders(condition: Condition, judges: Sequence[Judge]) -> tuple[Judge | None, ...]:
    """Find who decides each side of a condition; None: nobody here does."""
    every = range(len(condition.sides))
    return tuple(next((j for j in judges if i in getattr(j, "sides", every)), None) for i in every)


def find_unjudged(condition: Condition, judges: Sequence[Judge]) -> tuple[int, ...]:
    """Return the sides that nobody here decides."""
    deciders = enumerate(find_deciders(condition, judges))
    return tuple(i for i, judge in deciders if judge is None)


def name_sides(condition: Condition, sides: Sequence[int]) -> str:
    """Name sides of a condition, three at most."""
    return ", ".join(quote_line(condition.sides[i].words, 160) for i in sides[:3])


def add_reader_note(
    understood: Sequence[UnderstoodSide], reader: str, status: ReaderStatus, advice: Sequence[str]
) -> tuple[UnderstoodSide, ...]:
    """Tell how a reader stands at the sides that it judges.

    `advice` says what would let rules judge those of them that have forms.
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
    condition: Condition, unread: Sequence[int], advice: str = ""
) -> ConditionUnclear:
    """Build the refusal of sides that nobody here can judge, with a way out."""
    suggestion = " or ".join(
        suggest_form(side.words) if i in unread else str(side)
        for i, side in enumerate(condition.sides)
    )
    named = name_sides(condition, unread)
    refusal = ConditionUnclear(
        f"Nobody here can judge {named}. Write each side as one of these forms: "
        f"{', '.join(FORMS)}; join them by or / and. For example: {suggestion}. "
        f"{advice} Nothing was written.".replace("  ", " ")
    )
    refusal.details = {
        "sides": [condition.sides[i].words for i in unread],
        "forms": [*FORMS],
        "suggestion": suggestion,
    }
    return refusal


def suggest_form(words: str) -> str:
    """Return a form for a side that is not understood, with the text that it quotes.

    What else it says is no text that a program prints: the caller knows which is.
    """
    for token in scan_words(words):
        if token.kind == "quote":
            return f"{TextForm(text=token.text)}"
    return PLACEHOLDER


def compute_retry_delay(failures: int) -> float:
    """Return for how many seconds a judge rests after so many failures in a row."""
    return min(2.0 ** min(failures - 1, 10), LONGEST_REST)


def combine_replies(heard: Sequence[JudgeReply]) -> WaitFinding:
    """Return what the judges' words, in the order they were asked, come to.

    A condition holds only on a judge's word. A target that is gone loses the wait
    once everybody who was asked has answered to its end; a judge in trouble is
    waited for, unless another one was sure.
    """
    sure = next((each for each in heard if each.sure), None)
    deciding = sure or next((e for e in reversed(heard) if e.ruling), None)
    troubled = [each for each in heard if each.trouble]
    ruling = deciding.ruling if deciding else None
    gone = deciding.gone if deciding else None
    again = [each.again for each in heard if each.again is not None]
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
        observation=clip_observation(" ".join(map(_end_sentence, words))) or NOTHING_SEEN,
        again=min(again, default=None),
        rests_on=deciding.rests_on if deciding else None,
        unjudged=None if sure else _find_unjudged_time(heard),
    )


def _find_unjudged_time(heard: Sequence[JudgeReply]) -> UnjudgedPeriod | None:
    """Return since when a side is judged by nobody who was asked, and why."""
    judged = {side for each in heard if each.since is None for side in each.sides}
    lost = [(e.since, e) for e in heard if e.since and not judged.issuperset(e.sides)]
    if not lost:
        return None
    why = (e.trouble or (e.ruling and e.ruling.trouble) or "" for _, e in lost)
    return UnjudgedPeriod(since=min(at for at, _ in lost), why=" ".join(map(_end_sentence, why)))


def describe_timeout(observation: str | None, tail: str | None) -> str:
    """Say what was seen last of a wait whose time is up.

    Args:
        observation: What its judges said last; None: nothing.
        tail: What its target shows, where nothing came since the wait began; None:
            something came, or nobody knows.
    """
    lines = [line for line in (tail or "").splitlines() if line.strip()]
    if not lines:
        return observation or NOTHING_SEEN
    told = f'Nothing new; the last line is "{clip(to_plain_line(lines[-1]), LINE_BYTES)}".'
    return told if observation in (None, NOTHING_SEEN) else f"{told} {observation}"


def describe_unjudged(unjudged: UnjudgedPeriod, observation: str, now: datetime) -> str:
    """Say of a wait whose time is up when nobody could judge its condition, and why.

    `observation` is what was seen last; while nobody can judge, it says why.
    """

    def show(at: datetime) -> str:
        return f"{at:%H:%M}" if at.date() == now.date() else f"{at:%Y-%m-%d %H:%M}"

    since = show(unjudged.since)
    if unjudged.until is None:
        return clip_observation(f"{UNJUDGED} since {since} UTC: {observation}")
    until, why = show(unjudged.until), unjudged.why.rstrip(".")
    return clip_observation(f"{UNJUDGED} from {since} to {until} UTC ({why}). {observation}")


def clip_observation(observation: str) -> str:
    """Return an observation as it is kept: on one line, plain, and not long."""
    return clip(to_plain_line(observation), SEEN_BYTES)


def _end_sentence(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?", "…")) else f"{sentence}."
