"""`taskmem show` of threads of any length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from openclaw_taskmem.cli import list_commands, task_commands, task_text
from tests.support.printed_lists import TASK


def build_message(number: int) -> dict[str, Any]:
    return {**TASK["messages"][0], "message_id": number, "content": f"message {number}"}


def build_task(first: int, last: int, **fields: Any) -> dict[str, Any]:
    """A task whose newest page has these messages."""
    return {**TASK, "messages": [build_message(n) for n in range(first, last + 1)], **fields}


@pytest.fixture
def read_pages(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The daemon has 60 messages, ten in a page; gives where the pages were read."""
    read: list[int] = []

    def call_daemon(_method: str, *, id: str, before: int) -> Any:  # noqa: A002 - the daemon's
        assert id == TASK["task_id"]
        read.append(before)
        page = build_task(before - 10, before - 1)["messages"]
        return {"messages": page, "earlier": None if before == 11 else before - 10}

    monkeypatch.setattr(task_commands, "call_daemon", call_daemon)
    return read


def test_the_newest_messages_are_shown_and_how_to_see_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    task_text.print_task(build_task(1, 51))
    shown = capsys.readouterr().out
    assert "Thread, the newest 50 messages" in shown
    assert "message 51\n" in shown
    assert "message 1\n" not in shown
    assert shown.endswith(f"See all: taskmem show {TASK['task_id']} --all\n")


def test_an_earlier_page_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    task_text.print_task(build_task(41, 60, earlier=41))
    assert "the newest 20 messages" in (shown := capsys.readouterr().out)
    assert "--all" in shown


def test_a_short_thread_is_shown_whole(capsys: pytest.CaptureFixture[str]) -> None:
    task_text.print_task(build_task(1, 50))
    assert "--all" not in (shown := capsys.readouterr().out)
    assert "Thread, 50 messages" in shown


def test_wakes_that_are_left_out_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    wakes = TASK["wakes"] * 7
    task_text.print_task({**TASK, "wakes": wakes})
    assert "Wakes, the last 5 of 7" in (shown := capsys.readouterr().out)
    assert "--all" in shown

    task_text.print_task({**TASK, "wakes": wakes}, iter([TASK["messages"]]))
    assert "Wakes, 7\n" in capsys.readouterr().out


def test_a_kept_wake_has_one_word_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    kept = {**TASK["wakes"][0], "state": "due", "due_at": None}
    task_text.print_task({**TASK, "wakes": [kept]})
    list_commands.print_list("wakes", [kept], 10)
    said = capsys.readouterr().out.split()
    assert (said.count("kept"), said.count("due")) == (2, 0)


def test_all_is_printed_in_order(read_pages: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    found = build_task(51, 60, earlier=51)
    task_text.print_task(found, task_commands.iterate_thread(found["task_id"], found))
    shown = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert [line for line in shown if line.startswith("message")] == [
        f"message {number}" for number in range(1, 61)
    ]
    assert read_pages == [51, 41, 31, 21, 11, 11, 21, 31, 41, 51]


def test_each_page_is_printed_before_the_next_is_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    printed: list[str] = []

    def iterate_pages() -> Iterator[list[Any]]:
        for number in range(3):
            yield [build_message(number)]
            printed.append(capsys.readouterr().out)

    task_text.print_task(TASK, iterate_pages())
    assert [f"message {n}" in text for n, text in enumerate(printed)] == [True] * 3


def test_a_step_that_gives_its_own_number_has_it_once(capsys: pytest.CaptureFixture[str]) -> None:
    texts = ["1. Build it", "Scan it", "5. Push it"]
    steps = [{"step": n, "text": text, "done": n == 1} for n, text in enumerate(texts, 1)]
    task_text.print_task({**TASK, "steps": steps})
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    # A number that is another one says something.
    assert {"✓ 1. Build it", "▸ 2. Scan it", "· 3. 5. Push it"} <= {*lines}


PACKET = '[task_stuck_resume] {"v": 1, "name": "Deploy\\u001b[31m", "reason": "no updates for 3 s"}'


def test_a_packet_is_named_and_drawn_by_lines(capsys: pytest.CaptureFixture[str]) -> None:
    wake = {**TASK["wakes"][0], "text": PACKET}
    task_text.print_task({**TASK, "wakes": [wake]})
    list_commands.print_list("wakes", [wake], 100)
    shown = capsys.readouterr().out
    assert shown.count("the packet of its task: no updates for 3 s\n") == 2
    assert '"v"' not in shown

    empty = dict.fromkeys(("task_id", "wait_id", "who", "sent_at", "held"))
    task_text.print_other("wake", {**empty, **wake})
    *_, heading, opening, _, name, _, closing = capsys.readouterr().out.splitlines()
    assert heading == "Packet, as its agent reads it"
    assert (opening.strip(), closing.strip()) == ("{", "}")
    assert name.strip().startswith('"name": "Deploy')
    assert "\x1b" not in name


@pytest.mark.parametrize(
    ("state", "attempts", "shown"),
    [("acknowledged", 0, "-"), ("acknowledged", 2, "2"), ("due", 0, "0")],
)
def test_news_that_its_agent_had_before_is_no_try(state: str, attempts: int, shown: str):
    assert task_text.count_tries({"state": state, "attempts": attempts}) == shown


def test_an_event_with_no_words_of_its_own_is_told_plainly():
    kinds = ("task_updated", "run_changed", "of_a_later_version")
    told = ["Task written to", "Work ended", "Of a later version"]
    assert [*map(task_text.describe_event_kind, kinds)] == told
