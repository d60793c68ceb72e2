"""Memories of an agent: nothing, notes, a transcript, the packet, a program of the user's."""

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
from typing import IO, Any, Final, Protocol, Self, cast

from taskmem_resumebench.agents import BEGUN_LINE, CALL_LINE, write_notes
from taskmem_resumebench.daemon import CallRefused, GatewayLink, kill_group
from taskmem_resumebench.openclaw_gateway import GatewayAgent
from taskmem_resumebench.tasks import Call, GeneratedTask

MOST_RECOVERIES: Final = 3
_CONTINUE: Final = (
    "[System] Your previous turn was interrupted by a gateway restart. "
    "Continue from the existing transcript."
)
EXAMPLE: Final = (sys.executable, "-IS", str(Path(__file__).with_name("notes_memory.py")))
"""Notes that are written before and after each call."""
ANSWER_SECONDS: Final = 60.0
"""For a whole answer, and for taking in what is said."""
_LONGEST_ANSWER: Final = 1 << 20
"""Bytes of an answer."""


class Memory(Protocol):
    """A memory in the hands of one agent with one task."""

    def begin(self, task: GeneratedTask) -> None:
        """Take in a task: what the user asked for, and the plan."""
        ...

    def note_call_start(self, call: Call) -> None:
        """Take in that a tool is called, where the memory sees that by itself."""
        ...

    def note_call_end(self, call: Call, *, failed: bool) -> None:
        """Take in how the call ended, likewise."""
        ...

    def report_step(self, number: int, sentence: str) -> None:
        """Take in the agent's report that a step is done; its number counts from 1."""
        ...

    def revise(self, plan: Sequence[str], words: str) -> None:
        """Take in another plan, and the user's words that it follows from."""
        ...

    def claim_end(self) -> bool:
        """Take in the agent's claim that all is done; return False if it is not believed."""
        ...

    def crash(self) -> None:
        """Lose everything that is in no process that lives on."""
        ...

    def resume(self) -> str:
        """Return what the agent is told when it begins anew; empty: nothing."""
        ...

    def read_plan(self) -> Sequence[str]:
        """Return the whole plan, for an agent that was told it shortened."""
        ...


class Nothing:
    """No memory: the agent has the user's request alone."""

    def begin(self, task: GeneratedTask) -> None:
        """Ignore the task, as the methods below ignore what they are given."""

    def note_call_start(self, call: Call) -> None:  # noqa: D102
        pass

    def note_call_end(self, call: Call, *, failed: bool) -> None:  # noqa: D102
        pass

    def report_step(self, number: int, sentence: str) -> None:  # noqa: D102
        pass

    def revise(self, plan: Sequence[str], words: str) -> None:  # noqa: D102
        pass

    def claim_end(self) -> bool:
        """Return True: this memory checks nothing."""
        return True

    def crash(self) -> None:  # noqa: D102
        pass

    def resume(self) -> str:
        """Tell nothing."""
        return ""

    def read_plan(self) -> Sequence[str]:
        """Have none."""
        return ()


class Notes(Nothing):
    """A Markdown file with a checklist, which the agent writes after each step."""

    def __init__(self, file: Path) -> None:
        """Keep the notes in a file."""
        self._file = file
        self._plan: tuple[str, ...] = ()
        self._done: frozenset[str] = frozenset()

    def begin(self, task: GeneratedTask) -> None:
        """Write the plan down."""
        self._plan = task.plan
        self._write()

    def report_step(self, number: int, sentence: str) -> None:
        """Tick a step."""
        del number
        self._done |= {sentence}
        self._write()

    def revise(self, plan: Sequence[str], words: str) -> None:
        """Write the new plan down."""
        del words
        self._plan = tuple(plan)
        self._write()

    def claim_end(self) -> bool:
        """Write that all is done, which nobody checks."""
        self._write(over=True)
        return True

    def resume(self) -> str:
        """Read the file."""
        return self._file.read_text()

    def _write(self, *, over: bool = False) -> None:
        self._file.write_text(write_notes(self._plan, self._done, over=over))


class Packet:
    """Keeps an agent's task in Task memory: the agent calls its tools, the gateway its hooks.

    An agent that begins anew is told the packet.
    """

    def __init__(self, open_link: Callable[[], GatewayLink | GatewayAgent], folder: Path) -> None:
        """Start the gateway, for an agent that works in a folder; `open_link` starts it."""
        self._open_link, self._folder = open_link, folder
        self._link = open_link()
        self._task_id = ""
        self._calls = 0
        self._messages: list[tuple[str, str]] = []

    def begin(self, task: GeneratedTask) -> None:
        """Register the task."""
        artifacts = [str(self._folder / each) for each in task.artifacts]
        made = self._link.call_tool(
            "task_register",
            task.request,
            name=task.name,
            plan=list(task.plan),
            metadata={"artifacts": artifacts},
        )
        self._task_id = str(made["task_id"])
        self._messages = [("user", task.request)]

    def note_call_start(self, call: Call) -> None:
        """Let the gateway's hook report it."""
        self._calls += 1
        self._link.report_call_start(f"call_{self._calls}", call)

    def note_call_end(self, call: Call, *, failed: bool) -> None:
        """Let the gateway's hook report it."""
        outcome = "timed out; no answer" if failed else "done"
        messages, self._messages = self._messages, []
        self._link.report_call_end(f"call_{self._calls}", call, outcome, messages, failed=failed)

    def report_step(self, number: int, sentence: str) -> None:
        """Mark the step by `task_update`."""
        self._update(completed_steps=[number])
        self._messages.append(("assistant", f"Done: {sentence}."))

    def revise(self, plan: Sequence[str], words: str) -> None:
        """Revise the plan by `task_plan_update`."""
        self._messages.append(("user", words))
        arguments = {"new_plan": list(plan), "reason": f"The user said: {words}"}
        self._link.call_tool("task_plan_update", None, task_id=self._task_id, **arguments)

    def claim_end(self) -> bool:
        """Set the task `completed`, which the daemon checks; insist once."""
        try:
            self._insist_on_end()
        except CallRefused:
            return False
        self._link.end_turn("All done.")
        return True

    def _insist_on_end(self) -> None:
        """Set the task `completed`; what the daemon asks about once is answered by a second call.

        A missing artifact is refused each time.
        """
        try:
            self._update(status="completed")
        except CallRefused:
            self._update(status="completed")

    def crash(self) -> None:
        """Kill the gateway with its agent."""
        self._link.close()
        self._messages = []

    def resume(self) -> str:
        """Start the gateway anew; return the packet that it tells the agent."""
        self._link = self._open_link()
        return self._link.fetch_packet()

    def read_plan(self) -> Sequence[str]:
        """Return the whole plan, by asking `task_status`."""
        return [str(step["text"]) for step in self._ask_status()["steps"]]

    def close(self) -> None:
        """End the gateway."""
        self._link.close()

    def _ask_status(self) -> dict[str, Any]:
        return self._link.call_tool("task_status", None, task_id=self._task_id)

    def _update(self, **arguments: object) -> None:
        self._link.call_tool("task_update", None, task_id=self._task_id, **arguments)


class PacketAndThread(Packet):
    """The packet, and everything that `task_status` knows of the calls."""

    def resume(self) -> str:
        """Add the whole history to the packet."""
        packet = super().resume()
        if not packet:
            return ""
        return "\n".join((packet, *(f"{CALL_LINE}{line}" for line in self._read_history())))

    def _read_history(self) -> list[str]:
        found: list[str] = []
        page = self._ask_status()
        while True:
            calls = page["tool_history"]
            found += [f"{c['tool']}: {c['about']}" for c in calls if c["outcome"] == "ok"]
            if not page.get("more"):
                return found
            page = self._link.call_tool("task_status", None, **page["more"]["arguments"])


class OpenClawRecovery(Nothing):
    """The transcript of a session, and how often its turn was taken up again."""

    def __init__(self) -> None:
        """Begin a session."""
        self._asked: tuple[str, ...] = ()
        self._plan: tuple[str, ...] = ()
        self._calls: dict[str, str] = {}
        """Each call, with the beginning of its line."""
        self._recoveries = 0

    def begin(self, task: GeneratedTask) -> None:
        """Hear the user's request."""
        self._asked = self._plan = task.plan

    def note_call_start(self, call: Call) -> None:
        """Store a call, of which nothing is known until it has a result."""
        self._calls[call.line] = BEGUN_LINE

    def note_call_end(self, call: Call, *, failed: bool) -> None:
        """Store its result."""
        self._calls[call.line] = BEGUN_LINE if failed else CALL_LINE

    def revise(self, plan: Sequence[str], words: str) -> None:
        """Hear the user."""
        del words
        self._plan = tuple(plan)

    def resume(self) -> str:
        """Return the transcript; empty: the session was given up, and a new one begins."""
        self._recoveries += 1
        if self._recoveries > MOST_RECOVERIES:
            self._plan, self._calls, self._recoveries = self._asked, {}, 0
            return ""
        calls = (f"{word}{line}" for line, word in self._calls.items())
        return "\n".join((_CONTINUE, write_notes(self._plan, frozenset(), over=False), *calls))


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
        read_clock: Callable[[], float] = time.monotonic,
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
        facts = {"request": task.request, "plan": task.plan, "artifacts": task.artifacts}
        self._tell("task_started", name=task.name, **facts)

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
            if len(line) > _LONGEST_ANSWER:
                raise CommandFailed(f"{self._name} answered more than {_LONGEST_ANSWER} bytes.")
        return line

    def _wait_for(self, pipe: IO[bytes], due: float) -> None:
        """Wait until a pipe can be written to or read from."""
        left = due - self._read_clock()
        writes = pipe is self._input
        readers, writers = ((), (pipe,)) if writes else ((pipe,), ())
        if left <= 0 or not any(select.select(readers, writers, (), left)):
            verb = "read" if writes else "answer"
            raise CommandFailed(f"{self._name} did not {verb} within {ANSWER_SECONDS:.0f} s.")
