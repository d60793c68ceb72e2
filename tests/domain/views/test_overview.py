"""Where each task stands at a glance, and what its user may do with it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from openclaw_taskmem.domain.callers import Unreached
from openclaw_taskmem.domain.effects.checkpoints import PastCall
from openclaw_taskmem.domain.runs.current_run import RunReason
from openclaw_taskmem.domain.tasks.proofs import Proof, ProofStanding
from openclaw_taskmem.domain.views.overview import (
    Section,
    TaskLine,
    TaskNews,
    build_line,
    sort_lines,
)
from openclaw_taskmem.domain.views.user_actions import UserAction
from taskmem_hookspecs import RunState, TaskFacts
from taskmem_hookspecs.testing import DAWN, a_message, a_task, a_wait, a_wake
from tests.support.owners import SESSIONS, a_changed_run

NOW = DAWN + timedelta(minutes=5)
STUCK_SECONDS = 600.0
LATER = NOW + timedelta(hours=1)
ANYBODY = "queued for anybody"
AWAY = {"unreached": Unreached(why="nobody can wake it", cure="Tell it yourself.")}
UUID = "11111111-2222-4333-8444-555555555555"
ASKS = {"state": RunState.BLOCKED, "why": RunReason.QUESTION, "question": "Which flour?"}


def line(
    run: dict[str, Any] | None = None,
    waits: tuple[Any, ...] = (),
    wakes: tuple[Any, ...] = (),
    news: dict[str, Any] | None = None,
    **task: Any,
) -> TaskLine:
    """The line of a task with these fields, of a run and of what else is known."""
    held = None if run is None else a_changed_run(**run)
    facts = TaskFacts(task=a_task(**task), waits=waits, wakes=wakes, run=held)
    known = TaskNews(facts=facts, run=held, **(news or {}))
    return build_line(known, NOW, STUCK_SECONDS, SESSIONS)


@pytest.mark.parametrize(
    ("given", "section", "says"),
    [
        ({"run": ASKS, "news": {"question": "Which flour?"}}, "needs_you", "asks: Which flour?"),
        ({"run": {"state": RunState.REVIEW}}, "needs_you", "is to be reviewed"),
        (
            {"run": {"state": RunState.BLOCKED, "why": RunReason.CREDENTIALS}},
            "needs_you",
            "waits for a key that the model's provider takes",
        ),
        (
            {"status": "failed", "news": {"failure": "No flour."}},
            "needs_you",
            "failed: No flour.",
        ),
        (
            {"status": "failed", "news": {"words": a_message(content="No\nflour.")}},
            "needs_you",
            "failed: its agent said last “No flour.”",
        ),
        (
            {"news": {"doubt": "There is no report."}},
            "needs_you",
            "not proved: There is no report.",
        ),
        ({"run": {"state": RunState.RUNNING, "lease_until": LATER}}, "at_work", "at work"),
        (
            {
                "run": {"state": RunState.RUNNING, "lease_until": LATER},
                "news": {"doubt": "There is no report."},
            },
            "at_work",
            "at work",
        ),
        ({"run": {"state": RunState.RUNNING}}, "at_work", "between two turns"),
        (
            {"waits": (a_wait(target="pty:build", wake_when="it ends."),)},
            "waiting",
            "waits for build until it ends",
        ),
        (
            {"waits": tuple(a_wait(wait_id=f"w{n}", target=f"pty:{n}") for n in range(2))},
            "waiting",
            "waits for 0, 1",
        ),
        ({"run": {"state": RunState.QUEUED, "role": "baker"}}, "waiting", "queued for baker"),
        ({"run": {"state": RunState.QUEUED}}, "waiting", "queued for anybody"),
        ({"run": {"state": RunState.QUEUED, "session_key": "s"}}, "waiting", "is to go on"),
        ({"status": "paused"}, "idle", "paused"),
        ({"run": {"state": RunState.BLOCKED, "why": RunReason.STOPPED}}, "idle", "stopped"),
        (
            {"wakes": (a_wake(due_at=None),), "news": AWAY},
            "needs_you",
            "waits for its agent, and nobody can wake it. Tell it yourself.",
        ),
        (
            {"run": {"state": RunState.QUEUED, "changed_at": DAWN}, "news": AWAY},
            "needs_you",
            "waits for its agent, and nobody can wake it. Tell it yourself.",
        ),
        ({"run": {"state": RunState.QUEUED, "changed_at": NOW}, "news": AWAY}, "waiting", ANYBODY),
        (
            {"updated_at": NOW - timedelta(seconds=STUCK_SECONDS), "news": AWAY},
            "needs_you",
            "silent, and nobody can wake it. Tell it yourself.",
        ),
        ({"status": "paused", "news": AWAY}, "idle", "paused"),
        ({"updated_at": NOW - timedelta(seconds=STUCK_SECONDS)}, "idle", "silent"),
        ({"updated_at": NOW}, "at_work", "at work, as last heard"),
        (
            {"updated_at": NOW, "news": AWAY, "host": "mcp:codex"},
            "at_work",
            "at work, as last heard (nobody can wake it)",
        ),
        ({"updated_at": NOW, "news": AWAY}, "idle", "no agent is known to work on it"),
        (
            {"status": "failed", "news": {"failure": "No flour.", "seen_failed": True}},
            "ended",
            "failed: No flour.",
        ),
        (
            {"status": "failed", "news": {"words": a_message(role="user", by_call=True)}},
            "needs_you",
            "failed: taskmem call said last “The build runs.”",
        ),
        ({"status": "completed"}, "ended", "completed"),
        ({"status": "cancelled"}, "ended", "cancelled"),
    ],
)
def test_a_line_says_where_its_task_stands(given: dict[str, Any], section: str, says: str) -> None:
    found = line(**given)
    assert (found.section, found.says) == (section, says)


def test_a_wait_shows_what_was_last_seen_there() -> None:
    wait = a_wait(wait_id="wait_1", target="pty:build", wake_when="it ends")
    found = line(waits=(wait,), news={"seen": {"wait_1": "page 4 of 8\u202e"}})
    assert found.says == "waits for build until it ends. page 4 of 8"


def a_call(minute: int, *, ok: bool | None, about: str = "make") -> PastCall:
    at = DAWN + timedelta(minutes=minute)
    return PastCall(tool="exec", about=about, ok=ok, outcome="No rule.", at=at)


AT_WORK = {"state": RunState.RUNNING, "lease_until": LATER}


@pytest.mark.parametrize(
    ("given", "activity"),
    [
        (
            {"run": AT_WORK, "news": {"calls": (a_call(1, ok=None), a_call(2, ok=True))}},
            ("make", 1, True, False),
        ),
        (
            {"run": AT_WORK, "news": {"calls": (a_call(1, ok=True), a_call(2, ok=False))}},
            ("make", 2, False, True),
        ),
        (
            {"status": "failed", "news": {"calls": (a_call(1, ok=None),)}},
            ("make", 1, False, False),
        ),
        (
            {"news": {"words": a_message(content="Step\n1 done", created_at=DAWN)}},
            ("“Step 1 done”", 0, False, False),
        ),
    ],
)
def test_a_line_tells_what_its_agent_does_or_did_last(
    given: dict[str, Any], activity: tuple[Any, ...]
) -> None:
    found = line(**given).activity
    assert found is not None
    minute = int((found.at - DAWN).total_seconds() / 60)
    assert (found.what, minute, found.running, found.failed) == activity


@pytest.mark.parametrize(
    ("tool", "about", "what"),
    [("Bash", "make", "make"), ("write", "a.md", "write: a.md"), ("exec", "", "exec")],
)
def test_a_command_is_told_without_its_tool(tool: str, about: str, what: str) -> None:
    call = a_call(1, ok=True, about=about).model_copy(update={"tool": tool})
    found = line(status="failed", news={"calls": (call,)}).activity
    assert found is not None
    assert found.what == what


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"failure": "No flour."},
            "First mend what made it fail; then its agent is told to go on with step 2.",
        ),
        (AWAY, "First mend what made it fail; then it is open again, but nobody can wake it."),
    ],
)
def test_a_failed_task_says_what_to_mend_first(given: dict[str, Any], told: str) -> None:
    failed = line(plan=("Knead", "Bake"), done=frozenset({0}), status="failed", news=given)
    assert failed.effects[UserAction.RESUME].startswith(told)


def test_what_a_doubt_names_is_not_told_once_more() -> None:
    proof = Proof(what="/w/a.csv", standing=ProofStanding.REFUTED, tested="There is no file.")
    doubted = line(news={"doubt": "There is no file /w/a.csv.", "proofs": (proof,)})
    assert (doubted.says, doubted.unproved) == ("not proved: There is no file /w/a.csv.", "")
    assert line(news={"proofs": (proof,)}).unproved == "refuted: a.csv"


def test_a_long_doubt_is_cut_in_a_line() -> None:
    doubt = "There is no file /w/a.csv. " * 9
    doubted = line(news={"doubt": doubt})
    assert doubted.says.startswith(f"not proved: {doubt[:100]}")
    assert len(doubted.says) < 180
    assert doubted.says.endswith("…")


def test_what_is_quoted_as_the_reason_is_not_told_again() -> None:
    words = a_message(content="No flour.")
    assert line(status="failed", news={"words": words}).activity is None


def test_a_line_has_the_number_of_its_current_step() -> None:
    found = line(plan=("Knead", "Bake", "Eat"), done=frozenset({0}))
    assert (found.step_number, found.steps, found.step) == (2, 3, "Bake")


@pytest.mark.parametrize(
    ("given", "standing"),
    [
        ({"run": {"state": RunState.REVIEW}, "status": "paused"}, "needs you"),
        ({"waits": (a_wait(),)}, "waiting"),
        ({"status": "failed"}, "failed"),
        ({"status": "paused"}, "paused"),
    ],
)
def test_a_task_has_one_word_for_where_it_stands(given: dict[str, Any], standing: str) -> None:
    assert line(**given).standing == standing


@pytest.mark.parametrize(
    ("given", "actions"),
    [
        ({"run": ASKS, "news": {"question": "Which?"}}, "answer pause cancel"),
        ({"run": {"state": RunState.REVIEW}}, "approve send_back pause cancel"),
        ({"run": {"state": RunState.RUNNING, "lease_until": LATER}}, "reset pause cancel"),
        ({"run": {"state": RunState.BLOCKED, "why": RunReason.STOPPED}}, "resume pause cancel"),
        ({"doubts": ("claims",)}, "accept pause cancel"),
        ({"status": "paused"}, "resume cancel"),
        ({"status": "failed"}, "resume seen"),
        ({"status": "cancelled"}, "resume"),
        ({"status": "completed"}, ""),
    ],
)
def test_only_what_a_task_allows_is_offered(given: dict[str, Any], actions: str) -> None:
    assert [*line(**given).actions] == [UserAction(each) for each in actions.split()]


def test_the_longest_waiting_stand_first_and_the_latest_ended() -> None:
    def make(name: str, minutes: int, status: str) -> TaskLine:
        at = DAWN - timedelta(minutes=minutes)
        return line(task_id=f"task_{name}", name=name, status=status, updated_at=at)

    found = sort_lines(
        [
            *(make("a", 1, "paused"), make("b", 2, "paused")),
            *(make("c", 2, "completed"), make("d", 1, "completed")),
        ]
    )

    assert [each.name for each in found[Section.IDLE]] == ["b", "a"]
    assert [each.name for each in found[Section.ENDED]] == ["d", "c"]


@pytest.mark.parametrize(
    ("host", "session", "role", "who"),
    [
        ("openclaw:1", "agent:main:work", "main", "main in OpenClaw, session work"),
        ("mcp:claude-code", UUID, "agent", "Claude Code, session 11111111…"),
        ("mcp:codex-mcp-client", UUID, "baker", "baker in Codex, session 11111111…"),
        ("mcp:their-host", "chat 5", None, "their-host, session chat 5"),
        ("shell:claude-code", None, None, "Claude Code"),
        (None, None, "baker", "baker"),
        (None, None, "agent", "an agent"),
        ("mcp", None, None, ""),
        (None, None, None, ""),
    ],
)
def test_who_works_is_named_by_role_host_and_session(
    host: str | None, session: str | None, role: str | None, who: str
) -> None:
    run = None if role is None else {"state": RunState.QUEUED, "role": role}
    assert line(run=run, host=host, session_key=session).who == who
