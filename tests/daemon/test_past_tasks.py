"""What was done is found again, also after the daemon was killed while it stored the index."""

from __future__ import annotations

import pytest

from tests.support.waiting import until


def list_found(daemon, query):
    return [found["task_id"] for found in daemon.call("memory_recall", query=query)["results"]]


def test_past_tasks_are_found_after_any_kill(daemon):
    tasks = {}
    for number in range(6):
        tasks[number] = daemon.register(f"Errand number{number}")
        daemon.call("task_update", task_id=tasks[number], message=f"Said word{number}.")
        # At once: the index may be at any point of storing it.
        daemon.kill()
        daemon.restart()
    for number, task_id in tasks.items():

        def is_first(query=f"errand word{number}", task_id=task_id):
            return list_found(daemon, query)[:1] == [task_id]

        until(is_first, f"task {number} is found")


def test_a_lost_index_is_made_anew_while_the_daemon_runs(daemon):
    task_id = daemon.register("Errand quince")
    until(lambda: list_found(daemon, "quince") == [task_id], "it is found")
    for file in (daemon.home.folder / "recall").iterdir():
        file.write_bytes(b"no database at all" * 1000)
    until(lambda: list_found(daemon, "quince") == [task_id], "it is found again")


@pytest.mark.parametrize("query", ["q", "?!", "NEAR(", "你好", "x" * 4096])
def test_odd_questions_have_a_plain_answer(daemon, query):
    daemon.register("Errand quince")
    answer = daemon.call("memory_recall", query=query)
    assert answer["message"].startswith("0 matches for ")
    assert "Not searched" not in answer["message"]
