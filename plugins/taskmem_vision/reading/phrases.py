"""Conditions that name text, and whether what was read off a screen meets them.

Whatever is not understood to the last word is not understood: then nothing is wanted
here, and somebody else has to judge it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from taskmem_vision.reading.screen_text import Echoes, plain, whole, words
from taskmem_vision.reading.wording import LISTED, PERCENT, QUOTED, Kind, clauses, kind

LONGEST: Final = 2_000
"""Characters of a condition; a longer one is not read."""
LEAST: Final = 2
"""Letters or digits of a phrase: fewer are found in what was read by mistake."""
_SHOWN: Final = 80
"""Characters of a phrase that an observation names."""

_APOSTROPHE: Final = re.compile(r"(?<=\w)[’‘ʼ](?=\w)")
_PRIVATE: Final = re.compile("[\ue000-\uf8ff\0]")
_QUOTES: Final = re.compile(
    r'(?<!\w)"([^"]+)"(?!\w)'
    r"|(?<!\w)[“”„]([^“”„]+)[“”](?!\w)"
    r"|(?<!\w)`([^`]+)`(?!\w)"
    r"|(?<!\w)['‘]((?:[^'‘’]|(?<=\w)'(?=\w))+)['’](?!\w)"
    r"|(?<![\w.,<>=≥≤~+-])(\d{1,3}(?:\.\d{1,4})?) ?(?:%|(?i:per ?cent)\b)(?![\w%])"
)
_PERCENTAGE: Final = 5
"""The group of an unquoted percentage."""
_SHORT_OF_ALL: Final = re.compile(r"(?!100 ?%)[\d.,]+ ?%?")
"""Numbers that are reached by more, too."""

_TITLE: Final = frozenset({Kind.IN_TITLE, Kind.NOT_IN_TITLE})
_GONE: Final = frozenset({Kind.GONE, Kind.HIDDEN, Kind.NOT_IN_TITLE})


@dataclass(frozen=True, slots=True)
class Phrase:
    """A text that has to be there, or has to be gone."""

    text: str
    """As the condition has it; a percentage as `100%`."""
    gone: bool = False
    title: bool = False
    """Whether only the title counts."""

    def shown(self, text: str | None, title: str | None) -> str | None:
        """Return where plain text has it, `title` or `text`; None: nowhere."""
        sought = whole(self.text)
        if title is not None and sought.search(title):
            return "title"
        if text is not None and not self.title and sought.search(text):
            return "text"
        return None

    def met(self, text: str | None, title: str | None) -> bool:
        """Whether it is as it has to be; what is unknown makes nothing gone."""
        if not self.gone:
            return self.shown(text, title) is not None
        known = title if self.title else text
        return known is not None and self.shown(text, title) is None

    def told(self, text: str | None, title: str | None, *, seen: bool = True) -> str:
        """Return how it is, as a sentence without its full stop.

        `seen`: whether it was there once.
        """
        line = " ".join(self.text.split())
        said = f'"{line[:_SHOWN]}…"' if len(line) > _SHOWN else f'"{line}"'
        if (title if self.title else text) is None and not self.shown(text, title):
            return f"The {'title' if self.title else 'text'} could not be read"
        where = self.shown(text, title)
        still = " still" if self.gone else ""
        if where == "title":
            return f"The title{still} shows {said}"
        if where == "text":
            return f"{said} is{still} shown"
        if self.title:
            verb = "no longer shows" if self.gone and seen else "does not show"
            return f"The title {verb} {said}"
        return f"{said} is {'no longer' if self.gone and seen else 'not'} shown"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a condition asks for."""

    condition: str
    """As it was written; where it is shown itself, nothing of it counts."""
    phrases: tuple[Phrase, ...]
    every: bool = False
    """Whether all of them are needed; else any is enough."""
    closes: bool = False
    """Whether it is enough, too, that the window closes."""

    @property
    def reads_text(self) -> bool:
        """Whether the title alone cannot tell."""
        return any(not phrase.title for phrase in self.phrases)

    @property
    def met_by_closing(self) -> bool:
        """Whether it holds once the target is gone, with all that it showed."""
        gone = [phrase.gone for phrase in self.phrases]
        return self.closes or (all(gone) if self.every else any(gone))

    def met(
        self,
        text: str | None,
        title: str | None,
        seen: Collection[Phrase] | None = None,
    ) -> bool:
        """Whether it holds for what a target shows while it is there.

        A phrase is gone as soon as it is not found, though it was only misread: whoever
        asks decides how often that has to be so.

        Args:
            text: What was read off its picture; None: it was not read.
            title: None: it has none, or it is unknown.
            seen: The phrases that were there once, as only those can be gone; None:
                all of them were.
        """
        clean = self._clean(text, title)
        met = [
            phrase.met(*clean) and _may_be_gone(phrase, seen) for phrase in self.phrases
        ]
        return bool(met) and (all(met) if self.every else any(met))

    def shown(self, text: str | None, title: str | None) -> tuple[Phrase, ...]:
        """Return the phrases that are there, whether they have to be or not."""
        clean = self._clean(text, title)
        return tuple(phrase for phrase in self.phrases if phrase.shown(*clean))

    def observation(
        self,
        text: str | None,
        title: str | None,
        seen: Collection[Phrase] | None = None,
    ) -> str:
        """Return in one sentence what was seen: that by which it holds, or all.

        `seen`: as for `met`.
        """
        clean = self._clean(text, title)
        met = [
            phrase
            for phrase in self.phrases
            if phrase.met(*clean) and _may_be_gone(phrase, seen)
        ]
        named = met if met and not self.every else self.phrases
        told = [
            phrase.told(*clean, seen=_may_be_gone(phrase, seen)) for phrase in named
        ]
        if self.closes and not met:
            told.append("The window is open")
        return f"{'; '.join(dict.fromkeys(told))}."

    def _clean(
        self, text: str | None, title: str | None
    ) -> tuple[str | None, str | None]:
        """Return both in plain form, without what repeats the condition."""
        echoes = Echoes(self.condition, (phrase.text for phrase in self.phrases))
        return (
            None if text is None else echoes.without(plain(text)),
            None if title is None else echoes.without(plain(title)),
        )


def _may_be_gone(phrase: Phrase, seen: Collection[Phrase] | None) -> bool:
    return not phrase.gone or seen is None or phrase in seen


def parse(wake_when: str) -> Wanted | None:
    """Return what a condition asks for; None: not all of it is understood."""
    if len(wake_when) > LONGEST or _PRIVATE.search(wake_when):
        return None
    said: list[str] = []

    def taken(found: re.Match[str]) -> str:
        if number := found[_PERCENTAGE]:
            said.append(f"{number}%")
            return PERCENT
        said.append(found[found.lastindex or 0].strip())
        return QUOTED

    line = " ".join(_APOSTROPHE.sub("'", wake_when).split())
    text = _QUOTES.sub(taken, line)
    if any(len("".join(words(phrase))) < LEAST for phrase in said):
        return None
    parted = clauses(text)
    return None if parted is None else _wanted(wake_when, said, *parted)


def _wanted(
    condition: str,
    said: list[str],
    parts: list[str],
    joints: set[str],
    sizes: list[int],
) -> Wanted | None:
    kinds = [kind(part) for part in parts]
    every = joints == {"and"}
    if not _fits(kinds, every=every) or len(joints) > 1:
        return None
    left = iter(said)
    lists = iter(sizes)
    phrases: list[Phrase] = []
    for part, is_a in zip(parts, kinds, strict=True):
        if LISTED not in part:
            continue
        own = [next(left) for _ in range(next(lists))]
        if is_a is Kind.REACHED and any(map(_SHORT_OF_ALL.fullmatch, own)):
            return None
        if is_a is Kind.HIDDEN and len(own) > 1 and not every:
            return None
        gone, title = is_a in _GONE, is_a in _TITLE
        phrases += (Phrase(text, gone, title) for text in own)
    return Wanted(condition, tuple(phrases), every, Kind.CLOSED in kinds)


def _fits(kinds: list[Kind | None], *, every: bool) -> bool:
    """Whether clauses that are joined make sense together."""
    several = len(kinds) > 1
    if None in kinds or (several and Kind.NAMED in kinds):
        return False
    if several and every and Kind.CLOSED in kinds:
        return False
    scopes = {each in _TITLE for each in kinds if each is not Kind.CLOSED}
    return len(scopes) <= 1
