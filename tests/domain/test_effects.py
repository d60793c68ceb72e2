"""What a packet says of the past: what is done, what was cut, what was dropped."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from openclaw_taskmem.domain import effects
from openclaw_taskmem.domain.checkpoints import History, PastCall
from openclaw_taskmem.domain.texts import json_size
from taskmem_hookspecs import PlanRevision, WaitStatus
from taskmem_hookspecs.testing import a_revision, a_run, a_task, a_wait
from taskmem_hookspecs.testing.clock import DAWN

READS = (
    *("read", "ls", "find", "grep", "glob", "image", "pdf", "view"),
    *("web_search", "web_fetch", "memory_search", "memory_get"),
    *("sessions_list", "sessions_history", "session_status", "agents_list"),
    *("tool_search", "tool_describe"),
)


def call(**changes: Any) -> PastCall:
    """A command that ended well, so changed."""
    fields = {"tool": "exec", "about": "make", "ok": True, "at": DAWN}
    return PastCall.model_validate(fields | changes)


def history(*calls: PastCall) -> History:
    return History(calls=calls, at=DAWN)


# --- done and cut ---------------------------------------------------------------


def test_of_a_past_that_nobody_knows_nothing_is_said() -> None:
    assert effects.done(None) == ()
    assert effects.cut(None) == ()
    assert effects.done(history()) == effects.cut(history()) == ()


def test_what_was_made_is_named_with_its_exit_oldest_first() -> None:
    made = history(
        call(about="npm ci", exit_code=0), call(tool="write", about="a.md"), call()
    )

    assert effects.done(made) == (
        "exec: npm ci (exit 0)",
        "write: a.md",
        "exec: make",
    )


@pytest.mark.parametrize("tool", READS)
def test_what_leaves_nothing_behind_may_be_done_again(tool: str) -> None:
    assert effects.done(history(call(tool=tool))) == ()


@pytest.mark.parametrize("tool", ["exec", "write", "edit", "message", "unheard_of"])
def test_what_may_have_left_something_is_not_to_be_done_again(tool: str) -> None:
    assert effects.done(history(call(tool=tool))) == (f"{tool}: make",)


@pytest.mark.parametrize("ok", [False, None])
def test_what_failed_or_was_cut_is_not_done(ok: bool | None) -> None:
    assert effects.done(history(call(ok=ok))) == ()


@pytest.mark.parametrize("tool", ["exec", "read"])
def test_only_what_was_cut_is_of_unknown_outcome(tool: str) -> None:
    known = history(call(ok=True), call(ok=False), call(tool=tool, ok=None, about="x"))

    assert effects.cut(known) == (f"{tool}: x",)


def test_a_call_about_nothing_is_named_by_its_tool_alone() -> None:
    assert effects.done(history(call(about=""))) == ("exec",)


@given(st.integers(0, 40), st.booleans())
def test_every_one_is_named_in_order(number: int, cut: bool) -> None:
    calls = [call(about=str(n), ok=None if cut else True) for n in range(number)]
    said = (effects.cut if cut else effects.done)(history(*calls))

    assert said == tuple(f"exec: {n}" for n in range(number))


def test_calls_that_no_checkpoint_tells_of_any_more_are_counted() -> None:
    known = history(call(), call(ok=False), call(ok=None))

    assert effects.earlier(a_run(calls=9), known) == 7
    assert effects.earlier(a_run(calls=9), None) == 9
    assert effects.earlier(a_run(calls=1), known) == 0
    assert effects.earlier(None, known) == 0


@given(st.text(max_size=2000), st.none() | st.integers(0, 255))
@example("é\n" * 900, 255)
def test_a_line_is_one_line_and_short_whatever_the_call_was_about(
    about: str, code: int | None
) -> None:
    (line,) = effects.done(history(call(about=about, exit_code=code)))

    assert len(line.splitlines()) == 1
    assert json_size(line) <= effects.BYTES + len("exec:  (exit 255)")


# --- dropped --------------------------------------------------------------------


def revised(old: tuple[str, ...], **changes: object) -> PlanRevision:
    return a_revision(old_plan=old, **changes)


def test_a_plan_that_never_changed_has_dropped_nothing() -> None:
    assert effects.dropped(a_task(), [], []) == ()


def test_a_step_that_is_gone_from_the_plan_is_not_to_come_back() -> None:
    revisions = [
        revised(("Build it", "Fax it")),
        revised(("Build it", "Print it", "Fax it")),
    ]

    assert effects.dropped(a_task(), revisions, []) == (
        "step: Fax it",
        "step: Print it",
    )


@pytest.mark.parametrize(
    "old", ["1. Build it", "build it!", "- Build it", "[x] Build it"]
)
def test_a_step_that_is_only_written_otherwise_is_not_gone(old: str) -> None:
    assert effects.dropped(a_task(), [revised((old,))], []) == ()


def test_a_step_that_came_back_is_wanted_again() -> None:
    revisions = [revised(("Test it", "Fax it")), revised(("Fax it",))]

    said = effects.dropped(a_task(plan=("Test it", "Fax it")), revisions, [])

    assert said == ()


def test_only_a_wait_that_was_called_off_is_not_to_be_revived() -> None:
    waits = [
        a_wait(wait_id=f"wait_{status}", target=f"pty:{status}", status=status)
        for status in WaitStatus
    ]

    assert effects.dropped(a_task(), [], waits) == (
        "wait: pty:cancelled until the build has ended",
    )


@given(steps=st.integers(0, 20), waits=st.integers(0, 20))
def test_every_one_that_was_dropped_is_named_in_order(steps: int, waits: int) -> None:
    revisions = [revised(tuple(f"Fax page {n}" for n in range(steps)))]
    off = [
        a_wait(wait_id=str(n), wake_when=str(n), status=WaitStatus.CANCELLED)
        for n in range(waits)
    ]

    said = effects.dropped(a_task(), revisions, off)

    assert said == (
        *(f"step: Fax page {n}" for n in range(steps)),
        *(f"wait: pty:build until {n}" for n in range(waits)),
    )


@given(st.text(min_size=1, max_size=2000))
@example("é\n" * 900)
def test_what_was_dropped_is_one_short_line_each(text: str) -> None:
    off = a_wait(target=text, wake_when=text, status=WaitStatus.CANCELLED)

    for line in effects.dropped(a_task(), [revised((text,))], [off]):
        assert len(line.splitlines()) == 1
        assert json_size(line) <= 2 * effects.BYTES + len("wait:  until ")
