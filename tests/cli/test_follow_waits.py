"""What one who follows the waits is told."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from openclaw_taskmem.cli import list_commands, tables
from openclaw_taskmem.cli import wait_command as follow_waits_module
from openclaw_taskmem.cli.command_line import cli
from openclaw_taskmem.cli.tables import Screen
from openclaw_taskmem.cli.wait_command import WaitChangeReporter, follow_waits


def wait(name: str = "wait_1", **fields: Any) -> dict[str, Any]:
    return {
        "wait_id": name,
        "status": "watching",
        "round": 1,
        "target": "pty:build",
        "wake_when": "it ends",
        "deadline_at": (datetime.now(UTC) + timedelta(minutes=5, seconds=30)).isoformat(),
        "last_observation": "at 85%",
        **fields,
    }


def follow_lists(*lists: list[dict[str, Any]], as_json: bool = False) -> list[str]:
    lines: list[str] = []
    changes = WaitChangeReporter(lines.append, as_json=as_json)
    for each in lists:
        changes.report_changes(each)
    return lines


def test_first_the_open_waits_are_told_oldest_first() -> None:
    first = [wait("wait_2"), wait("wait_1"), wait("wait_0", status="timeout")]

    assert [line.split()[0] for line in follow_lists(first)] == ["wait_1", "wait_2"]


def test_then_only_what_is_new() -> None:
    still, moved = wait("wait_1"), wait("wait_2")
    after = {**moved, "last_observation": "at 90%"}

    assert follow_lists([moved, still], [after, still])[2:] == [
        "wait_2  watching (5:29 left)  pty:build  it ends  → at 90%"
    ]


@pytest.mark.parametrize("width", [30, 50])
def test_lines_are_as_wide_as_the_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    screen = Screen(width, 24, {})
    monkeypatch.setattr(tables, "find_screen", lambda: screen)
    monkeypatch.setattr(list_commands, "connect_or_start", lambda *_: nullcontext())

    def report_all(_link: object, changes: WaitChangeReporter, *, limit: int) -> None:
        changes.report_changes([wait("wait_1m8dna72m9hyky")])
        sys.exit(limit)

    monkeypatch.setattr(follow_waits_module, "report_all_changes", report_all)
    with pytest.raises(SystemExit):
        cli.main(["waits", "--follow"])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    assert " ".join(lines).startswith("2m9hyky  watching (5:")


@pytest.mark.parametrize("ended_too", [False, True])
@pytest.mark.parametrize("as_json", [False, True])
def test_that_there_is_nothing_yet_is_told(*, ended_too: bool, as_json: bool) -> None:
    lines: list[str] = []
    changes = WaitChangeReporter(lines.append, as_json=as_json, ended_too=ended_too)
    changes.report_changes([] if ended_too else [wait(status="timeout")])
    changes.report_changes([])
    none = "There is no wait" if ended_too else "No wait is open"
    told = f"{none}; each that begins is printed here."
    assert lines == ([] if as_json else [told])


def test_an_ending_is_told_once() -> None:
    ended = wait(status="resolved", last_observation="Done.")

    assert follow_lists([wait()], [ended], [ended])[1:] == [
        "wait_1  resolved  pty:build  it ends  → Done."
    ]


def test_a_wait_that_is_sent_back_is_told_again() -> None:
    ended = wait(status="resolved")

    assert len(follow_lists([wait()], [ended], [wait(round=2)])) == 3


def test_as_json_each_line_is_a_document() -> None:
    (line,) = follow_lists([wait(last_observation=None)], as_json=True)

    assert json.loads(line)["wait_id"] == "wait_1"


@pytest.mark.parametrize("terminal", [True, False])
def test_who_follows_at_a_terminal_is_told_that_it_goes_on(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    monkeypatch.setattr(list_commands, "connect_or_start", lambda *_: nullcontext())
    monkeypatch.setattr(follow_waits_module, "report_all_changes", lambda *_, **__: sys.exit(0))
    with pytest.raises(SystemExit):
        cli.main(["waits", "--follow"])
    opening = "Each change of a wait is printed here; Ctrl-C ends.\n" if terminal else ""
    assert capsys.readouterr() == ("", opening)


def test_an_answer_without_news_is_not_told() -> None:
    class Link:
        def __init__(self) -> None:
            self.asked: list[Any] = []
            self.answers = [3, 3, 4]

        def call(self, method: str, params: Any, timeout: float) -> Any:
            self.asked.append(params["seen"])
            return {"seen": self.answers[len(self.asked) - 1], "waits": []}

    link = Link()
    following = follow_waits(link, limit=9)  # type: ignore[arg-type]
    assert [next(following), next(following)] == [[], []]
    assert link.asked == [None, 3, 3]
