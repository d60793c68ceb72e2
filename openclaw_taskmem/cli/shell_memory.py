"""Keep what each shell was shown: which task had which number, and what it asked.

A number means the task that this shell showed under it last, whatever other shells show and
whichever daemon runs. A shell is the session of its terminal, named by its first process. What it
was shown is a small file in the home, for its owner alone, and ends with the shell.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from openclaw_taskmem.cli.command_output import call_daemon
from openclaw_taskmem.daemon.processes import identify_process, is_alive
from openclaw_taskmem.home import find_home

FOLDER: Final = "shells"


class ShellMemory(NamedTuple):
    """What a shell was shown."""

    shell: str
    """The shell, as `identify_process` names its first process; empty: unknown, so nothing is
    kept."""
    tasks: tuple[str, ...] = ()
    """Tasks of the last list, in the order of their numbers from 1."""
    questions: Mapping[str, str] = {}
    """Ids of the questions that were shown, by task."""


def read_memory() -> ShellMemory:
    """Return what this shell was shown; nothing, if its file is gone or of an earlier shell."""
    shell = identify_process(os.getsid(0)) or ""
    with suppress(OSError, ValueError, TypeError, KeyError):
        kept = json.loads(_find_file().read_text())
        if shell and kept["shell"] == shell:
            return ShellMemory(shell, tuple(kept["tasks"]), kept["questions"])
    return ShellMemory(shell)


def note_list(lines: Iterable[Any]) -> None:
    """Note the tasks of a list that is shown now, in the order of their numbers.

    What they ask is noted only at a terminal: into a file or a pipe, nobody has seen it.
    """
    listed = [*lines]
    tasks = tuple(str(line["task_id"]) for line in listed)
    asked = {str(line["task_id"]): line["question_id"] for line in listed if line["question_id"]}
    shown = read_memory()
    questions = asked if sys.stdout.isatty() else shown.questions
    _write(shown._replace(tasks=tasks, questions=questions))


def note_question(task_id: str, question_id: str | None) -> None:
    """Note the question of one task that is shown now; None: it asks nothing."""
    shown = read_memory()
    asked = {**shown.questions, task_id: question_id}
    _write(shown._replace(questions={task: each for task, each in asked.items() if each}))


def find_reference(words: str, kinds: Iterable[str] = ("task",)) -> tuple[str, str]:
    """Return the kind and the id of what a person's words mean, in this shell."""
    number, tasks = words.strip(), read_memory().tasks
    if "task" in kinds and number.isdecimal() and 1 <= int(number[:9]) <= len(tasks):
        return "task", tasks[int(number[:9]) - 1]
    found = call_daemon("find", words=words, kinds=[*kinds])
    return found["kind"], found["id"]


def _write(shown: ShellMemory) -> None:
    """Replace the file of this shell, and remove those of shells that have ended.

    If it cannot be written, such as on a full disk, nothing is kept: what was kept is of a list
    with other numbers.
    """
    if not shown.shell or shown == read_memory():
        return
    file = _find_file()
    fresh = file.with_suffix(f".{os.getpid()}")
    try:
        file.parent.mkdir(mode=0o700, exist_ok=True)
        _remove_ended(file.parent)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
            json.dump(shown._asdict(), stream)
        fresh.replace(file)
    except OSError:
        for each in (fresh, file):
            with suppress(OSError):
                each.unlink()


def _remove_ended(folder: Path) -> None:
    for other in folder.iterdir():
        with suppress(OSError, ValueError, TypeError):
            if is_alive(json.loads(other.read_text())["shell"]) is False:
                other.unlink()


def _find_file() -> Path:
    return find_home(os.environ).folder / FOLDER / f"{os.getsid(0)}.json"
