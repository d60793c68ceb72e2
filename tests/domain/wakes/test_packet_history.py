"""What a packet says of the past: what is done, what was cut, what was dropped."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from openclaw_taskmem.domain.effects.checkpoints import PastCall
from openclaw_taskmem.domain.effects.side_effects import Effect
from openclaw_taskmem.domain.text.texts import count_json_bytes
from openclaw_taskmem.domain.wakes import packet
from taskmem_hookspecs import PlanRevision, WaitStatus
from taskmem_hookspecs.testing import DAWN, a_revision, a_task, a_wait

READS = (
    *("read", "ls", "find", "grep", "glob", "image", "pdf", "view"),
    *("web_search", "web_fetch", "memory_search", "memory_get"),
    *("sessions_list", "sessions_history", "session_status", "agents_list"),
    *("tool_search", "tool_describe"),
)


def call(**changes: Any) -> PastCall:
    """A command that ended well, so changed."""
    fields = {"tool": "exec", "about": "./run.sh", "ok": True, "at": DAWN}
    return PastCall.model_validate(fields | changes)


def at_minute(minute: int) -> datetime:
    return DAWN + timedelta(minutes=minute)


# --- done and cut ---------------------------------------------------------------


def test_of_a_past_without_calls_nothing_is_said() -> None:
    assert packet.list_done_calls([]) == packet.list_cut_calls([]) == ()


def test_the_gravest_is_named_first_and_among_equals_the_newest() -> None:
    made = [
        call(about="curl -X POST https://shop.example/pay", exit_code=0, at=at_minute(0)),
        call(about="npm ci", exit_code=0, at=at_minute(1)),
        call(tool="write", about="a.md", at=at_minute(2)),
        call(about="./run.sh", at=at_minute(3)),
        call(about="git push", at=at_minute(4)),
        call(about="cat a.md", at=at_minute(5)),
        call(about="npm test", at=at_minute(6)),
    ]

    assert packet.list_done_calls(made) == (
        "exec: git push",
        "exec: curl -X POST https://shop.example/pay (exit 0)",
        "write: a.md",
        "exec: npm ci (exit 0)",
        "exec: ./run.sh",
    )


def test_what_was_judged_when_it_was_made_is_not_judged_again() -> None:
    made = [
        call(about="cat a", effect=Effect.OUTSIDE),
        call(about="git push", effect=Effect.NOTHING),
    ]

    assert packet.list_done_calls(made) == ("exec: cat a",)


def test_calls_in_the_same_words_share_one_line_with_a_count() -> None:
    made = [call(tool="edit", about="a.md", at=at_minute(n)) for n in range(3)]

    assert packet.list_done_calls([*made, call(tool="edit", about="b.md", at=at_minute(9))]) == (
        "edit: b.md",
        "edit: a.md, 3 times",
    )


def test_a_call_that_was_cut_and_made_again_is_of_known_outcome() -> None:
    cut, other = call(ok=None, about="git push"), call(ok=None, about="./run.sh")

    assert packet.list_cut_calls([cut, other]) == ("exec: git push", "exec: ./run.sh")
    assert packet.list_cut_calls([cut, other, call(about="git push")]) == ("exec: ./run.sh",)
    assert packet.list_cut_calls([call(about="git push"), cut]) == ("exec: git push",)


@pytest.mark.parametrize("tool", READS)
def test_what_leaves_nothing_behind_may_be_done_again(tool: str) -> None:
    assert packet.list_done_calls([call(tool=tool, about="x")]) == ()


@pytest.mark.parametrize("tool", ["exec", "write", "edit", "message", "unheard_of"])
def test_what_may_have_left_something_is_not_to_be_done_again(tool: str) -> None:
    assert packet.list_done_calls([call(tool=tool, about="x")]) == (f"{tool}: x",)


@pytest.mark.parametrize("ok", [False, None])
def test_what_failed_or_was_cut_is_not_done(ok: bool | None) -> None:
    assert packet.list_done_calls([call(ok=ok)]) == ()


@pytest.mark.parametrize("tool", ["exec", "read"])
def test_what_was_cut_is_of_unknown_outcome(tool: str) -> None:
    known = [call(ok=True), call(ok=False, exit_code=1), call(tool=tool, ok=None, about="x")]

    assert packet.list_cut_calls(known) == (f"{tool}: x",)


@pytest.mark.parametrize(
    ("tool", "about", "exit_code", "unknown"),
    [
        ("exec", "curl -X POST https://shop.example/pay", 28, True),
        ("message", "to Ana", None, True),
        ("exec", "echo x >> log.txt", None, True),
        ("exec", "echo x >> log.txt", 1, False),
        ("exec", "npm test", None, False),
        ("edit", "a.md", None, False),
    ],
)
def test_a_failed_call_may_have_been_done_all_the_same(
    tool: str, about: str, exit_code: int | None, unknown: bool
) -> None:
    failed = call(tool=tool, about=about, ok=False, exit_code=exit_code)

    assert bool(packet.list_cut_calls([failed])) is unknown
    assert packet.list_cut_calls([failed, call(tool=tool, about=about)]) == ()


def test_a_call_about_nothing_is_named_by_its_tool_alone() -> None:
    assert packet.list_done_calls([call(tool="write", about="")]) == ("write",)


@given(st.integers(0, 40), st.booleans())
def test_every_one_is_named_in_order(number: int, cut: bool) -> None:
    ok = None if cut else True
    calls = [call(about=f"./{n}", ok=ok, at=at_minute(n)) for n in range(number)]
    said = (packet.list_cut_calls if cut else packet.list_done_calls)(calls)

    lines = [f"exec: ./{n}" for n in range(number)]
    assert [*said] == (lines if cut else lines[::-1])


@given(st.text(max_size=2000), st.none() | st.integers(0, 255))
@example("é\n" * 900, 255)
def test_effect_line_is_one_short_line_whatever_the_call(about: str, code: int | None) -> None:
    (line,) = packet.list_done_calls([call(tool="write", about=about, exit_code=code)])

    assert len(line.splitlines()) == 1
    assert count_json_bytes(line) <= packet.LINE_BYTES + len("write:  (exit 255)")


# --- dropped --------------------------------------------------------------------


def revision_of(old: tuple[str, ...], **changes: object) -> PlanRevision:
    return a_revision(old_plan=old, **changes)


def test_a_plan_that_never_changed_has_dropped_nothing() -> None:
    assert packet.list_dropped_intents(a_task(), [], []) == ()


def test_a_step_that_is_gone_from_the_plan_is_not_to_come_back() -> None:
    revisions = [
        revision_of(("Build it", "Fax it")),
        revision_of(("Build it", "Print it", "Fax it")),
    ]

    assert packet.list_dropped_intents(a_task(), revisions, []) == (
        "step: Fax it",
        "step: Print it",
    )


@pytest.mark.parametrize("old", ["1. Build it", "build it!", "- Build it", "[x] Build it"])
def test_a_step_that_is_only_written_otherwise_is_not_gone(old: str) -> None:
    assert packet.list_dropped_intents(a_task(), [revision_of((old,))], []) == ()


def test_a_step_that_came_back_is_wanted_again() -> None:
    revisions = [revision_of(("Test it", "Fax it")), revision_of(("Fax it",))]

    said = packet.list_dropped_intents(a_task(plan=("Test it", "Fax it")), revisions, [])

    assert said == ()


def test_only_a_wait_that_was_called_off_is_not_to_be_revived() -> None:
    waits = [
        a_wait(wait_id=f"wait_{status}", target=f"pty:{status}", status=status)
        for status in WaitStatus
    ]

    assert packet.list_dropped_intents(a_task(), [], waits) == (
        "wait: pty:cancelled until the build has ended",
    )


@given(steps=st.integers(0, 20), waits=st.integers(0, 20))
def test_every_one_that_was_dropped_is_named_in_order(steps: int, waits: int) -> None:
    revisions = [revision_of(tuple(f"Fax page {n}" for n in range(steps)))]
    off = [
        a_wait(wait_id=str(n), wake_when=str(n), status=WaitStatus.CANCELLED) for n in range(waits)
    ]

    said = packet.list_dropped_intents(a_task(), revisions, off)

    assert said == (
        *(f"step: Fax page {n}" for n in range(steps)),
        *(f"wait: pty:build until {n}" for n in range(waits)),
    )


@given(st.text(min_size=1, max_size=2000))
@example("é\n" * 900)
def test_what_was_dropped_is_one_short_line_each(text: str) -> None:
    off = a_wait(target=text, wake_when=text, status=WaitStatus.CANCELLED)

    for line in packet.list_dropped_intents(a_task(), [revision_of((text,))], [off]):
        assert len(line.splitlines()) == 1
        assert count_json_bytes(line) <= 2 * packet.LINE_BYTES + len("wait:  until ")
