"""Compute a task's progress, and keep its marks when the plan is revised.

Source: docs/origins.md, "Steps keep their identity".
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from taskmem_hookspecs.model import Task, Value
from taskmem_hookspecs.packet import Progress

_NUMBERING: Final = re.compile(
    r"""\A(?:
      (?: [-*+•–—]                       # a bullet
        | \[[ x]?\] | [✅☑✔✓☐⬜]\ufe0f?  # a box
        | step\ ?[0-9]{1,3}\ ?[.):–—-]   # `Step 1:`, `Step 1 -`
        | [0-9]{1,3}[.)] | [0-9]{1,2}:     # `1.`; `404:` and `3.11` say something
        | [a-z]\)                        # `a)`
        | \((?:[0-9]{1,2}|[a-z])\)       # `(a)`
      )
      \ (?=\S)                           # alone it is all that the step says
    )++""",
    re.VERBOSE,
)
_OPENING_SIGNS: Final = "\"'“”„‘’«([{`¿¡"
_CLOSING_SIGNS: Final = "\"'“”‘’»)]}`.,;:!?。、"
_DASHES: Final = frozenset({"-", "--", "–", "—"})
_ARTICLES: Final = frozenset({"a", "an", "the"})
# NFKC would join these to their neighbours: 10² is not 102.
_TAGS: Final = ("<super>", "<sub>", "<fraction>")


class DroppedStep(Value):
    """A done step whose mark was lost."""

    step: int
    """Its number in the old plan, from 1."""
    text: str
    why: str
    """The reason, in one sentence."""


class Remap(Value):
    """The marks after a plan is revised."""

    done: frozenset[int]
    """Steps of the new plan that are done, from 0."""
    dropped: tuple[DroppedStep, ...]
    """Marks that were lost, in the order of the old plan."""


def compute_progress(task: Task) -> Progress:
    """Compute how far a task is. Source: docs/origins.md, "Progress"."""
    steps = range(len(task.plan))
    left = [step for step in steps if step not in task.done]
    completed = tuple(step for step in steps if step in task.done)
    return Progress(
        completed=completed,
        current=left[0] if left else None,
        remaining=tuple(left[1:]),
        pct=100 * len(completed) // len(steps) if steps else 100,
    )


def describe_progress(task: Task) -> dict[str, JsonValue]:
    """Return a task's progress as answers show it, with steps counted from 1."""
    progress = compute_progress(task)
    return {
        "completed": [step + 1 for step in progress.completed],
        "current": None if progress.current is None else progress.current + 1,
        "remaining": [step + 1 for step in progress.remaining],
        "pct": progress.pct,
    }


def count_leading_done(done: Collection[int]) -> int:
    """Count the steps at the beginning of a plan that are done."""
    return next(step for step in itertools.count() if step not in done)


def remap_marks(old: Sequence[str], done: Collection[int], new: Sequence[str]) -> Remap:
    """Move the marks of a plan to the same steps of a revised plan.

    Args:
        old: The steps of the plan that is replaced.
        done: Which of them are done, from 0.
        new: The steps of the plan that replaces it.

    Returns:
        The marks of the new plan, and those that were lost.
    """
    before, after = _index_identities(old), _index_identities(new)
    moved = _map_places(before, after)
    marked = [index for index in range(len(old)) if index in done]
    lost = [(i, identify_step(old[i])) for i in marked if i not in moved]
    return Remap(
        done=frozenset(moved[i] for i in marked if i in moved),
        dropped=tuple(
            DroppedStep(
                step=i + 1,
                text=old[i],
                why=_explain_drop(len(before[identity]), len(after.get(identity, ()))),
            )
            for i, identity in lost
        ),
    )


def map_steps(old: Sequence[str], new: Sequence[str]) -> Mapping[int, int]:
    """Return the places of a plan's steps in a revised plan, both from 0.

    Steps that are gone, or cannot be told apart, are left out.
    """
    return _map_places(_index_identities(old), _index_identities(new))


_Places = Mapping[tuple[str, ...], Sequence[int]]
"""The places of a plan's steps, by identity."""


def _map_places(before: _Places, after: _Places) -> Mapping[int, int]:
    return {
        source: target
        for identity, sources in before.items()
        if len(sources) == len(targets := after.get(identity, ()))
        for source, target in zip(sources, targets, strict=True)
    }


def _explain_drop(before: int, after: int) -> str:
    if not after:
        return "No step of the new plan says the same."
    return (
        f"The old plan says this {_format_times(before)} and the new one {_format_times(after)}, "
        "so it is not clear which step was done."
    )


def _format_times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _index_identities(plan: Sequence[str]) -> _Places:
    places: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for index, text in enumerate(plan):
        places[identify_step(text)].append(index)
    return places


def identify_step(text: str) -> tuple[str, ...]:
    """Reduce a step's text to a key that is equal for the same step."""
    bare = _NUMBERING.sub("", _fold_text(text), count=1)
    tokens = [token.lstrip(_OPENING_SIGNS) for token in bare.replace("—", " ").split()]
    tokens = [token for token in tokens if token and token not in _DASHES]
    # "Plan A" and "plan A, then B" name something: an article stands before a word.
    words = [
        token.rstrip(_CLOSING_SIGNS)
        for place, token in enumerate(tokens, start=1)
        if token not in _ARTICLES or place == len(tokens)
    ]
    return tuple(word for word in words if word) or (text.strip(),)


def _fold_text(text: str) -> str:
    if text.isascii():
        return " ".join(text.casefold().split())
    tagged = "".join(
        f"^{char}" if unicodedata.decomposition(char).startswith(_TAGS) else char for char in text
    )
    folded = unicodedata.normalize("NFKC", tagged).casefold()
    return " ".join(folded.replace("’", "'").split())
