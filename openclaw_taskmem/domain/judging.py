"""What the words of several judges on one wait come to. Source: requirement B8."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from openclaw_taskmem.domain.texts import clip, plain
from taskmem_hookspecs import Met, Ruling, Value

NOTHING_SEEN: Final = "Nothing was seen yet."
SEEN_BYTES: Final = 3000
"""What is kept of an observation: with its frame, a wake stays within 4 KB."""
LONGEST_REST: Final = 30.0
"""Seconds; a judge that fails is asked again after 1, 2, 4 … up to this."""


class Heard(Value):
    """What came of asking one judge."""

    judge: str
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


class Finding(Value):
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


def rest_after(failures: int) -> float:
    """Return for how many seconds a judge rests after so many failures in a row."""
    return min(2.0 ** min(failures - 1, 10), LONGEST_REST)


def find(heard: Sequence[Heard]) -> Finding:
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
    words = (
        [ruling.observation.strip()] if ruling and ruling.observation.strip() else []
    )
    lost = bool(gone) and not met and (sure is not None or not troubled)
    if lost:
        words.insert(0, str(gone))
    elif not met:
        words += [f"{each.judge} is in trouble: {each.trouble}" for each in troubled]
    return Finding(
        met=met,
        lost=lost,
        observation=said(" ".join(map(_ended, words))) or NOTHING_SEEN,
        again=min(again, default=None),
        rests_on=deciding.rests_on if deciding else None,
    )


def said(observation: str) -> str:
    """Return an observation as it is kept: on one line, plain, and not long."""
    return clip(plain(observation), SEEN_BYTES)


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?", "…")) else f"{sentence}."
