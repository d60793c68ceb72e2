"""What is printed of who may do what, and what a caller is to a task."""

from __future__ import annotations

from pathlib import Path

import pytest

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.changes.rights import TABLE, TaskHolder, Tie, find_tie
from taskmem_hookspecs import Owner, Run, RunState, Task
from taskmem_hookspecs.testing import a_run, a_task
from tests.support.owners import MAIN, OTHER, SESSIONS, a_leased_run

PAGE = Path(__file__).resolve().parents[3] / "docs" / "who-may-do-what.md"
HOST = "openclaw"
OWN = Caller(session_key=MAIN.session_key, host=HOST, owner=MAIN)
ELSEWHERE = Caller(session_key=OTHER.session_key, host=HOST, owner=OTHER)
CLAUDE = Caller(host="mcp:claude", owner=Owner(role="agent", process="1:1"))
CODEX = Caller(host="mcp:codex", owner=Owner(role="agent", process="2:1"))
IN_THREAD = CODEX.model_copy(
    update={"session_key": "t-2", "session_told": True, "other_sessions": frozenset({"t-1"})}
)
"""In one thread, while another is open."""
OURS = a_task(session_key=MAIN.session_key, host=HOST)
CLAUDES = a_task(host="mcp:claude")
QUEUED = a_run(role="builder")


def test_the_page_prints_the_table_as_it_is() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    printed = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    head, _, *body = printed

    assert head == ["", *Tie]
    assert body == [[act, *TABLE[act].values()] for act in TABLE]


@pytest.mark.parametrize(
    ("caller", "task", "run", "tie"),
    [
        pytest.param(Caller(person=True), OURS, None, Tie.PERSON, id="a-person"),
        pytest.param(OWN, OURS, a_leased_run(), Tie.HOLDER, id="who-holds-it"),
        pytest.param(OWN, OURS, None, Tie.SESSION, id="its-session"),
        pytest.param(ELSEWHERE, OURS, a_leased_run(), Tie.OTHER, id="another-session"),
        pytest.param(CLAUDE, OURS, None, Tie.OTHER, id="another-host"),
        pytest.param(CLAUDE, CLAUDES, None, Tie.SESSION, id="its-host"),
        pytest.param(CODEX, CLAUDES, None, Tie.OTHER, id="of-two-hosts"),
        pytest.param(CODEX, a_task(), None, Tie.SESSION, id="of-nobody"),
        pytest.param(ELSEWHERE, OURS, QUEUED, Tie.ROLE, id="its-role"),
        pytest.param(CODEX, OURS, QUEUED, Tie.ROLE, id="any-role-elsewhere"),
        pytest.param(OWN, CLAUDES, QUEUED, Tie.OTHER, id="another-role"),
        pytest.param(OWN, a_task(), a_leased_run(owner=OTHER), Tie.SESSION, id="held-away"),
        pytest.param(
            OWN,
            a_task(registrar_session=MAIN.session_key, registrar_host=HOST),
            QUEUED,
            Tie.REGISTRAR,
            id="who-gave-it-away",
        ),
        pytest.param(
            Caller(host="mcp:claude", session_key=MAIN.session_key),
            a_task(session_key="thread-1", host="mcp:claude"),
            None,
            Tie.OTHER,
            id="a-session-of-its-own-naming",
        ),
        pytest.param(
            Caller(host="mcp:codex"),
            a_task(session_key=MAIN.session_key, host="mcp:codex"),
            None,
            Tie.SESSION,
            id="a-gateways-session-that-its-host-named",
        ),
        pytest.param(
            Caller(host="mcp:codex", session_key="thread-1"),
            a_task(session_key="thread-1", host="mcp:claude"),
            None,
            Tie.OTHER,
            id="a-session-that-another-host-names",
        ),
        pytest.param(
            Caller(host="mcp:codex", session_key="thread-1", session_said=True),
            a_task(session_key="thread-1"),
            None,
            Tie.OTHER,
            id="a-session-of-no-host-that-an-agent-says-it-is",
        ),
        pytest.param(
            Caller(host="mcp:codex", session_key="thread-1", session_said=True),
            a_task(session_key="thread-1", host="mcp:codex"),
            None,
            Tie.SESSION,
            id="a-session-of-its-host-that-it-says-it-is",
        ),
        pytest.param(
            Caller(host="mcp:codex", session_key="thread-1"),
            a_task(session_key="thread-1"),
            None,
            Tie.SESSION,
            id="a-session-of-no-host-that-a-way-leads-to",
        ),
        pytest.param(
            CODEX.model_copy(update={"session_key": "t-2", "session_told": True}),
            a_task(session_key="t-1", host="mcp:codex"),
            None,
            Tie.SESSION,
            id="a-session-of-its-host-that-is-closed",
        ),
        pytest.param(
            IN_THREAD,
            a_task(session_key="t-1", host="mcp:codex"),
            None,
            Tie.HOST,
            id="a-session-of-its-host-that-is-open",
        ),
        pytest.param(
            IN_THREAD,
            a_task(session_key="t-1", host="mcp:claude"),
            None,
            Tie.OTHER,
            id="a-session-of-another-host-that-is-open",
        ),
        pytest.param(
            OWN.model_copy(update={"home": "b"}),
            OURS.model_copy(update={"home": "a"}),
            None,
            Tie.OTHER,
            id="the-same-session-of-another-home",
        ),
    ],
)
def test_what_a_caller_is_to_a_task(caller: Caller, task: Task, run: Run | None, tie: Tie) -> None:
    assert find_tie(caller, task, TaskHolder(run=run), SESSIONS) is tie


def test_who_held_the_last_run_of_a_task_is_known_after_its_end() -> None:
    over = a_leased_run(state=RunState.COMPLETED)

    assert find_tie(OWN, CLAUDES, TaskHolder(last=over), SESSIONS) is Tie.HOLDER


def test_a_guessed_token_makes_nobody_the_holder() -> None:
    assert (
        find_tie(CODEX, OURS, TaskHolder(run=a_leased_run()), SESSIONS, token=a_leased_run().token)
        is Tie.OTHER
    )
