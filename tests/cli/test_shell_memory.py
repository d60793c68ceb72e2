"""What a shell has shown: numbers and questions mean what that shell showed under them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from errno import ENOSPC
from pathlib import Path

import pytest

from openclaw_taskmem.cli import shell_memory
from openclaw_taskmem.cli.shell_memory import FOLDER, note_list, read_memory
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


def list_cancelled(daemon: Daemon) -> list[str]:
    found = daemon.ask("tasks", all=True)["tasks"]
    return sorted(line["name"] for line in found if line["status"] == "cancelled")


def test_a_number_is_that_of_the_list_of_its_own_shell(
    daemon: Daemon, open_shell: Callable[[], Shell]
) -> None:
    daemon.register("Bread")
    one, other = open_shell(), open_shell()
    assert "Bread" in one.type("")
    daemon.register("Release 2.0")
    assert "Release 2.0" in other.type("list")

    daemon.restart()

    assert "This shell was shown no list with a number" in one.type("cancel 2")
    assert "Bread" in one.type("cancel 1", "y\n")
    assert list_cancelled(daemon) == ["Bread"]
    assert '"Release 2.0"' in other.type("pause 1 --yes")


def test_a_number_without_a_list_is_refused(
    daemon: Daemon, open_shell: Callable[[], Shell]
) -> None:
    daemon.register("Release 2.0")
    said = open_shell().type("cancel 2")
    assert said.startswith('This shell was shown no list with a number "2"; run taskmem first')
    assert list_cancelled(daemon) == []


def test_what_was_shown_is_private_and_ends_with_its_shell(
    daemon: Daemon, open_shell: Callable[[], Shell]
) -> None:
    daemon.register("Bread")
    first = Shell(environment(daemon.home))
    first.type("")
    folder = daemon.home.folder / FOLDER
    [kept] = folder.iterdir()
    assert (folder.stat().st_mode & 0o777, kept.stat().st_mode & 0o777) == (0o700, 0o600)

    first.close()
    open_shell().type("")

    [left] = folder.iterdir()
    assert left != kept


def test_a_list_that_cannot_be_noted_leaves_no_old_numbers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fill_disk(*_: object) -> None:
        raise OSError(ENOSPC, "No space left on device")

    tmp_path.chmod(0o700)
    monkeypatch.setenv("TASKMEM_HOME", str(tmp_path))
    monkeypatch.setattr(shell_memory, "identify_process", lambda _: "1 shell")
    note_list([{"task_id": "task_bread", "question_id": None}])
    assert read_memory().tasks == ("task_bread",)

    monkeypatch.setattr(shell_memory.json, "dump", fill_disk)
    note_list([{"task_id": "task_cake", "question_id": None}])

    assert read_memory().tasks == ()
    assert [*(tmp_path / FOLDER).iterdir()] == []


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


def test_a_question_that_was_asked_since_gets_no_old_answer(
    daemon: Daemon, open_shell: Callable[[], Shell]
) -> None:
    task = daemon.register("Deploy")
    daemon.call("task_claim", task_id=task)
    daemon.call("task_update", task_id=task, ask="Which browser?")
    shell = open_shell()
    shell.look_at_list()
    daemon.call("task_update", task_id=task, status="active", message="I chose one.")
    daemon.call("task_update", task_id=task, ask="Delete the old site?")

    assert '"Deploy" asks you now: "Delete the old site?"' in shell.type("answer 1 Yes")
    assert shell.type("answer 1 No") == '"Deploy": its agent is told your answer.'


def test_a_question_that_went_into_a_file_was_not_shown(
    daemon: Daemon, open_shell: Callable[[], Shell]
) -> None:
    task = daemon.register("Deploy")
    daemon.call("task_claim", task_id=task)
    daemon.call("task_update", task_id=task, ask="Delete the old site?")
    shell = open_shell()
    shell.type("list >/dev/null")

    said = shell.type("answer 1 Yes", "n\n")

    assert said.startswith("Deploy asks: Delete the old site?")
    assert "Aborted" in said


@pytest.mark.parametrize("words", ["list --json", "--json list", "--json"])
def test_a_list_for_programs_renumbers_nothing(
    daemon: Daemon, open_shell: Callable[[], Shell], words: str
) -> None:
    daemon.register("Bread")
    shell = open_shell()
    shell.type("list")
    daemon.register("Release 2.0")

    assert "Release 2.0" in shell.type(words)

    assert '"Bread"' in shell.type("pause 1 --yes")


def test_a_question_in_a_task_for_programs_was_not_shown(
    daemon: Daemon, open_shell: Callable[[], Shell]
) -> None:
    task = daemon.register("Deploy")
    daemon.call("task_claim", task_id=task)
    daemon.call("task_update", task_id=task, ask="Delete the old site?")
    shell = open_shell()
    shell.type('show Deploy --json >"$TERMINAL"')

    assert "Aborted" in shell.type("answer Deploy Yes", "n\n")


def test_a_review_is_shown_with_its_note_and_approved(
    daemon: Daemon, open_shell: Callable[[], Shell]
) -> None:
    task = daemon.register("Poster")
    daemon.call("task_claim", task_id=task)
    daemon.call("task_handoff", task_id=task, note="Look at the blue.\nIs it too much?")

    said = open_shell().type("approve Poster", "y\n").splitlines()

    assert said[:3] == ["", "Note of its agent", "    Look at the blue."]
    assert said[3:5] == ["    Is it too much?", "Nothing was seen to be made."]
    assert said[5].startswith("Poster: Its work is accepted, and the task is completed. Go on?")
    assert said[-1].endswith('"Poster": approved, and completed.')


def test_what_an_act_brings_about_is_said_before_it_is_done(
    daemon: Daemon, open_shell: Callable[[], Shell]
) -> None:
    task = daemon.register("Bread")
    (daemon.home.folder.parent / "oven.log").touch()
    target = f"pty:file:{daemon.home.folder.parent}/oven.log"
    daemon.call("smart_wait", target=target, wake_when='"Done" appears', task_id=task)
    shell = open_shell()

    said = shell.type("cancel Bread", "n\n")

    assert said.startswith(
        "Bread: The task ends; what was done so far is kept. Its wait is cancelled with it."
    )
    assert "Aborted" in said
    assert list_cancelled(daemon) == []
