"""What was done is found again by the next call, also after the daemon was killed."""

from __future__ import annotations

import pytest


def list_found(daemon, query):
    return [found["task_id"] for found in daemon.call("memory_recall", query=query)["results"]]


def test_what_was_written_is_found_at_once_after_any_kill(daemon):
    for number in range(6):
        task_id = daemon.register(f"Errand number{number}")
        daemon.call("task_update", task_id=task_id, message=f"Said word{number}.")
        assert list_found(daemon, f"errand word{number}")[:1] == [task_id]
        daemon.kill()
        daemon.restart()
        assert list_found(daemon, f"errand word{number}")[:1] == [task_id]


def test_what_earlier_builds_kept_is_removed_at_start(daemon):
    daemon.kill()
    old = daemon.home.folder / "recall"
    old.mkdir()
    (old / "past_tasks.db").write_bytes(b"no database at all")
    daemon.restart()
    assert not old.exists()


@pytest.mark.parametrize("query", ["q", "?!", "NEAR(", "你好", "x" * 4096])
def test_odd_questions_have_a_plain_answer(daemon, query):
    daemon.register("Errand quince")
    answer = daemon.call("memory_recall", query=query)
    assert answer["message"].startswith("0 matches for ")
    assert "Not searched" not in answer["message"]
