"""`taskmem answer` answers the question that it has just shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.daemons import Daemon, environment, short_home
from tests.support.shells import Shell


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with short_home() as home:
        daemon = Daemon(home)
        daemon.wait_until_it_serves()
        yield daemon
        daemon.close()


@pytest.fixture
def open_shell(daemon: Daemon) -> Iterator[Callable[[], Shell]]:
    opened: list[Shell] = []

    def open_one() -> Shell:
        opened.append(Shell(environment(daemon.home)))
        return opened[-1]

    yield open_one
    for shell in opened:
        shell.close()


def test_an_answer_is_to_the_question_that_the_shell_showed(
    daemon: Daemon, open_shell: Callable[[], Shell]
) -> None:
    task = daemon.register("Deploy")
    daemon.call("task_claim", task_id=task)
    daemon.call("task_update", task_id=task, ask="Which browser?")
    shell = open_shell()

    assert "Aborted" in shell.type("answer Deploy Firefox", "n\n")
    said = open_shell().type("answer Deploy Firefox", "y\n")

    assert said.startswith("Deploy asks: Which browser?")
    assert said.endswith('"Deploy": its agent is told your answer.')


def test_an_answer_with_yes_is_sent_without_a_question(
    daemon: Daemon, open_shell: Callable[[], Shell]
) -> None:
    task = daemon.register("Deploy")
    daemon.call("task_claim", task_id=task)
    daemon.call("task_update", task_id=task, ask="Which browser?")

    assert open_shell().type("answer Deploy Firefox --yes") == (
        '"Deploy": its agent is told your answer.'
    )
