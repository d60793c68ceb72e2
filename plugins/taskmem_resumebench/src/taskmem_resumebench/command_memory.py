"""A memory that is a program of yours: it is told events, and asked what the agent is told.

It gets JSON on its standard input, one object a line, and answers those with `ask` by one line.
It lives through interruptions, as a service would; `interrupted` tells it of them. What is sent
and answered is in docs/resumebench.md.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, Self, cast

from taskmem_resumebench.generated_task import GeneratedTask
from taskmem_resumebench.process_group import kill_group
from taskmem_resumebench.work_steps import Call

EXAMPLE: Final = (sys.executable, "-IS", str(Path(__file__).with_name("notes_memory.py")))
"""Notes that are written before and after each call."""
ANSWER_SECONDS: Final = 60.0
"""For a whole answer, and for taking in what is said."""
LONGEST_ANSWER: Final = 1 << 20
"""Bytes of an answer."""


class CommandFailed(Exception):
    """The program ended, was silent, or answered something else; the message says so."""


def try_program(command: Sequence[str], folder: Path, task: GeneratedTask) -> None:
    """Ask a program everything once, so that one that cannot answer is found before it counts.

    Raises:
        CommandFailed: It failed.
    """
    folder.mkdir()
    with CommandMemory(command, folder) as memory:
        memory.begin(task)
        memory.crash()
        memory.resume()
        memory.claim_end()
        memory.read_plan()


class CommandMemory:
    """The program, started for one task in the task's folder."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        read_clock: Callable[[], float] = time.monotonic,  # noqa: TID251 - a process is waited for
    ) -> None:
        """Start it.

        Raises:
            CommandFailed: It cannot be started.
        """
        self._name, self._read_clock = command[0], read_clock
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the user's own command
                command,
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            raise CommandFailed(f"{self._name} does not start: {error.strerror}.") from error
        self._input = cast("IO[bytes]", self._process.stdin)
        self._output = cast("IO[bytes]", self._process.stdout)
        os.set_blocking(self._input.fileno(), False)

    def __enter__(self) -> Self:
        """Return it; leaving the block ends the program."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close its input, which ends it, and kill what is left of it."""
        self._input.close()
        self._output.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        kill_group(self._process)

    def begin(self, task: GeneratedTask) -> None:
        """Tell of the task."""
        said = {"request": task.request, "plan": task.plan, "artifacts": task.artifacts}
        self._tell("task_started", name=task.name, **said)

    def note_call_start(self, call: Call) -> None:
        """Tell that a tool is called."""
        self._tell("call_started", tool=call.tool, about=call.about)

    def note_call_end(self, call: Call, *, failed: bool) -> None:
        """Tell how the call ended."""
        self._tell("call_ended", tool=call.tool, about=call.about, failed=failed)

    def report_step(self, number: int, sentence: str) -> None:
        """Tell what the agent reports."""
        self._tell("step_reported", number=number, step=sentence)

    def revise(self, plan: Sequence[str], words: str) -> None:
        """Tell what the user says, and the plan that follows."""
        self._tell("user_said", words=words, plan=plan)

    def claim_end(self) -> bool:
        """Ask whether the end is believed."""
        return self._ask("end", "accepted") is True

    def crash(self) -> None:
        """Tell that the agent was killed."""
        self._tell("interrupted")

    def resume(self) -> str:
        """Ask what the agent is told."""
        return str(self._ask("told", "text"))

    def read_plan(self) -> Sequence[str]:
        """Ask for the whole plan."""
        plan = self._ask("plan", "plan")
        steps = cast("list[object]", plan) if isinstance(plan, list) else []
        return [str(step) for step in steps]

    def _tell(self, event: str, **fields: object) -> None:
        self._send({"event": event, **fields})

    def _ask(self, question: str, field: str) -> Any:  # noqa: ANN401 - JSON
        self._send({"ask": question})
        line = self._read_line()
        try:
            answer = json.loads(line)[field]
            json.dumps(answer, ensure_ascii=False).encode()  # halves of characters cannot be told
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            shown = line[:200].decode(errors="replace")
            raise CommandFailed(
                f'{self._name} was asked "{question}" and answered {shown!r}, no object with '
                f'"{field}".'
            ) from error
        return answer

    def _send(self, document: object) -> None:
        left = json.dumps(document).encode() + b"\n"
        due = self._read_clock() + ANSWER_SECONDS
        try:
            while left:
                self._wait_for(self._input, due)
                left = left[self._input.write(left) or 0 :]
        except OSError as error:
            raise CommandFailed(f"{self._name} has ended.") from error

    def _read_line(self) -> bytes:
        """Read a line; nothing is read beyond it, for only one is asked for at a time."""
        line = b""
        due = self._read_clock() + ANSWER_SECONDS
        while not line.endswith(b"\n"):
            self._wait_for(self._output, due)
            piece = self._output.read(1 << 16)
            if not piece:
                raise CommandFailed(f"{self._name} has ended.")
            line += piece
            if len(line) > LONGEST_ANSWER:
                raise CommandFailed(f"{self._name} answered more than {LONGEST_ANSWER} bytes.")
        return line

    def _wait_for(self, pipe: IO[bytes], due: float) -> None:
        """Wait until a pipe can be written to or read from."""
        left = due - self._read_clock()
        writes = pipe is self._input
        readers, writers = ((), (pipe,)) if writes else ((pipe,), ())
        if left <= 0 or not any(select.select(readers, writers, (), left)):
            verb = "read" if writes else "answer"
            raise CommandFailed(f"{self._name} did not {verb} within {ANSWER_SECONDS:.0f} s.")
