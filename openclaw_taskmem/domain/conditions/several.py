"""Waits on several targets: name them for people, and decide how the wait ends by its parts.

Source: docs/waits.md, "Several at once".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from openclaw_taskmem.domain.text.texts import clip, end_sentence
from taskmem_hookspecs import Wait, WaitPart, WaitStatus

MOST_PARTS: Final = 8
"""Most targets of one wait."""
_PART_BYTES: Final = 300
"""Longest excerpt of what was seen of one part."""


class PartEnd(NamedTuple):
    """How one part of a wait has ended."""

    status: WaitStatus
    observation: str


def name_parts(parts: Sequence[WaitPart], *, needs_all: bool) -> tuple[str, str]:
    """Return the target and the condition of a wait on several, in words for people."""
    joint = " and " if needs_all else " or "
    target = ", ".join(part.target for part in parts)
    return target, joint.join(f"{part.target} {part.wake_when.rstrip('.')}" for part in parts)


def build_fields(parts: Sequence[WaitPart], *, needs_all: bool) -> dict[str, Any]:
    """Return the fields of a wait on one target, or on several."""
    if len(parts) == 1:
        return parts[0].model_dump(exclude={"met"})
    target, wake_when = name_parts(parts, needs_all=needs_all)
    return {
        "target": target,
        "wake_when": wake_when,
        "parts": tuple(parts),
        "needs_all": needs_all,
    }


def list_parts(wait: Wait) -> tuple[WaitPart, ...]:
    """Return the parts of a wait; of one on a single target, that one."""
    own = WaitPart(
        target=wait.target, wake_when=wait.wake_when, start=wait.start, within=wait.within
    )
    return wait.parts or (own,)


def build_part_wait(wait: Wait, index: int) -> Wait:
    """Return a wait on one of several targets, which is watched as a part of a wait."""
    part = wait.parts[index]
    return wait.model_copy(
        update={
            "wait_id": f"{wait.wait_id}.{index}",
            "target": part.target,
            "wake_when": part.wake_when,
            "start": part.start,
            "within": part.within,
            "parts": (),
        }
    )


def mark_met(wait: Wait, met: Mapping[int, str]) -> Wait:
    """Return a wait with what was seen of the parts that have been met, by their numbers."""
    parts = tuple(
        part.model_copy(update={"met": met.get(index, part.met)})
        for index, part in enumerate(wait.parts)
    )
    return wait.model_copy(update={"parts": parts}) if parts != wait.parts else wait


def decide_end(
    parts: Sequence[WaitPart], ends: Mapping[int, PartEnd], *, needs_all: bool
) -> PartEnd | None:
    """Return how a wait ends by how its parts have ended, by their numbers; None: it goes on.

    Where one part is enough, a lost target ends the wait only if all others are lost, too. Where
    all are needed, the first that is lost ends it.
    """
    met = [index for index, end in ends.items() if end.status is WaitStatus.RESOLVED]
    lost = [index for index, end in ends.items() if end.status is WaitStatus.ERROR]
    if needs_all and len(met) == len(parts):
        return PartEnd(WaitStatus.RESOLVED, _tell_parts(parts, ends, met))
    if not needs_all and met:
        return PartEnd(WaitStatus.RESOLVED, _tell_parts(parts, ends, met[:1]))
    if lost and (needs_all or len(lost) == len(parts)):
        return PartEnd(WaitStatus.ERROR, _tell_parts(parts, ends, lost))
    if len(ends) < len(parts):
        return None
    open_ones = [index for index in ends if index not in met]
    behind = f" Met: {_tell_parts(parts, ends, met)}" if met else ""
    return PartEnd(WaitStatus.TIMEOUT, f"{_tell_parts(parts, ends, open_ones)}{behind}")


def observe_parts(parts: Sequence[WaitPart], seen: Mapping[int, str]) -> str:
    """Tell what was seen last of each part, by their numbers."""
    ends = {index: PartEnd(WaitStatus.WATCHING, text) for index, text in seen.items()}
    return _tell_parts(parts, ends, sorted(seen))


def _tell_parts(
    parts: Sequence[WaitPart], ends: Mapping[int, PartEnd], named: Sequence[int]
) -> str:
    return " ".join(
        end_sentence(f"{parts[index].target}: {clip(ends[index].observation, _PART_BYTES)}")
        for index in sorted(named)
    )
