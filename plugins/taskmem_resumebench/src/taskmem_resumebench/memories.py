"""What an agent may remember: nothing, a notes file, the packet, the packet and the thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from taskmem_resumebench.agents import CALL_LINE, write_notes
from taskmem_resumebench.gateway_agent import GatewayAgent
from taskmem_resumebench.gateway_link import CallRefused, GatewayLink
from taskmem_resumebench.generated_task import GeneratedTask
from taskmem_resumebench.work_steps import Call


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
        self._said: list[tuple[str, str]] = []

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
        self._said = [("user", task.request)]

    def note_call_start(self, call: Call) -> None:
        """Let the gateway's hook report it."""
        self._calls += 1
        self._link.report_call_start(f"call_{self._calls}", call)

    def note_call_end(self, call: Call, *, failed: bool) -> None:
        """Let the gateway's hook report it."""
        outcome = "timed out; no answer" if failed else "done"
        said, self._said = self._said, []
        self._link.report_call_end(f"call_{self._calls}", call, outcome, said, failed=failed)

    def report_step(self, number: int, sentence: str) -> None:
        """Mark the step by `task_update`."""
        self._update(completed_steps=[number])
        self._said.append(("assistant", f"Done: {sentence}."))

    def revise(self, plan: Sequence[str], words: str) -> None:
        """Revise the plan by `task_plan_update`."""
        self._said.append(("user", words))
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
        self._said = []

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
