"""How a wait on several targets ends, by how its parts have ended."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_taskmem.domain.conditions import several
from openclaw_taskmem.domain.conditions.several import PartEnd
from openclaw_taskmem.domain.conditions.targets import describe_target
from taskmem_hookspecs import WaitPart, WaitStatus
from taskmem_hookspecs.testing import a_wait

MET, LOST, LATE = WaitStatus.RESOLVED, WaitStatus.ERROR, WaitStatus.TIMEOUT
PARTS = tuple(WaitPart(target=f"pty:{name}", wake_when="exits.") for name in "abc")
part_ends = st.dictionaries(
    st.integers(0, 2), st.sampled_from([MET, LOST, LATE]).map(lambda each: PartEnd(each, "seen"))
)


def decide(*statuses: WaitStatus | None, needs_all: bool) -> WaitStatus | None:
    """Return how a wait ends whose parts have ended so; None: the part goes on."""
    ends = {i: PartEnd(each, "seen") for i, each in enumerate(statuses) if each is not None}
    ending = several.decide_end(PARTS, ends, needs_all=needs_all)
    return ending and ending.status


@pytest.mark.parametrize(
    ("statuses", "of_any", "of_all"),
    [
        ((None, None, None), None, None),
        ((None, MET, None), MET, None),
        ((None, LOST, None), None, LOST),
        ((MET, LOST, None), MET, LOST),
        ((MET, MET, MET), MET, MET),
        ((LOST, LOST, LOST), LOST, LOST),
        ((LATE, LATE, LATE), LATE, LATE),
        ((LOST, LATE, LATE), LATE, LOST),
        ((MET, LATE, LATE), MET, LATE),
    ],
)
def test_a_wait_ends_by_its_parts(
    statuses: tuple[WaitStatus | None, ...],
    of_any: WaitStatus | None,
    of_all: WaitStatus | None,
) -> None:
    assert decide(*statuses, needs_all=False) is of_any
    assert decide(*statuses, needs_all=True) is of_all


@given(part_ends, st.booleans())
def test_once_all_parts_have_ended_the_wait_has(ends: dict[int, PartEnd], needs_all: bool) -> None:
    ending = several.decide_end(PARTS, ends, needs_all=needs_all)
    assert ending is not None or len(ends) < len(PARTS)
    met = [end for end in ends.values() if end.status is MET]
    if ending is not None and ending.status is MET:
        assert len(met) >= (len(PARTS) if needs_all else 1)


def test_it_is_named_by_all_its_targets() -> None:
    assert several.name_parts(PARTS[:2], needs_all=True) == (
        "pty:a, pty:b",
        "pty:a exits and pty:b exits",
    )


def test_people_are_told_the_name_of_each_target() -> None:
    assert describe_target("path:/srv/out.tar, pty:build, screen") == "out.tar, build, the screen"
    assert describe_target("path:/srv/a, b.txt") == "a, b.txt"


def test_a_part_is_watched_as_a_wait_of_its_own() -> None:
    wait = a_wait(wait_id="wait_1", parts=PARTS)
    part = several.build_part_wait(wait, 1)
    assert (part.wait_id, part.target, part.parts) == ("wait_1.1", "pty:b", ())
    assert part.deadline_at == wait.deadline_at
