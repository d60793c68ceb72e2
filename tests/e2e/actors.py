"""Agents in sessions of real hosts, which act endings (`tests.support.endings`)."""

from __future__ import annotations

import shutil
from abc import abstractmethod
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final

from taskmem_hookspecs import TaskStatus
from tests.e2e.cli_hosts import ClaudeCode, CliHost, Codex
from tests.e2e.desks import Desk, ask_for, read_answer, read_turn, seat_agents, wait_until_idle
from tests.e2e.gateway import PAGES
from tests.e2e.house import House
from tests.e2e.room import until
from tests.e2e.scripted_model import Call, ModelRequest, Reply
from tests.e2e.shared_house import Scripts, Story
from tests.support import endings
from tests.support.endings import EndingResult

SECONDS: Final = 60.0
"""Time limit for an answer."""


class HostActor(Desk):
    """An agent that does all from `begins` to `ends` in one turn, call by call."""

    def __init__(self, house: House, workspace: Path, project: Path, prefix: str = "") -> None:
        super().__init__(prefix)
        self.house, self.workspace, self.project = house, workspace, project
        self._number, self._turn, self._seen = 0, "", 0
        """Its turns so far, the last, and how many answers of tools it has had in that."""
        self._said = "There is nothing to do."
        """The last words of its turn; empty: it goes on."""
        self._replies: SimpleQueue[Call | str] = SimpleQueue()
        self._heard: SimpleQueue[tuple[str | None, str | None]] = SimpleQueue()
        """By turn, what its tools have answered; None: they are still loading."""

    @abstractmethod
    def settle(self) -> None:
        """Wait until its turn is over."""

    @abstractmethod
    def run(self, folder: Path, command: str) -> Call:
        """The call that runs a command in a folder."""

    @abstractmethod
    def write(self, path: Path, text: str) -> Sequence[Call]:
        """The calls that write a file."""

    def __call__(self, request: ModelRequest) -> Reply:
        """The reply of its model: what is to be done next."""
        if self.run(self.workspace, "").tool not in request.tools:
            return "A title"  # Codex asks for one beside the conversation.
        turn, answers = read_turn(request)
        if turn != self._turn or self._said:
            return self._said or "That is over."
        if ask_for(Call(f"{self._prefix}task_update", {}), request) is None:
            self._said = "My tools are still loading."
            self._heard.put((turn, None))
            return self._said
        self._heard.put((turn, "\n".join(answers[self._seen :])))
        self._seen = len(answers)
        reply = self._replies.get(timeout=SECONDS)
        if isinstance(reply, str):
            self._said = reply
            return reply
        return ask_for(reply, request) or "It has no such tool."

    def begins(self) -> None:
        """Begin a turn, in folders that are empty."""
        answer = None
        while answer is None:
            self._number += 1
            self._turn, self._seen, self._said = f"t{self._number}", 0, ""
            self.say(f"TURN {self._turn}")
            with suppress(Empty):  # OpenClaw gives up a turn in whose first moment it shows a line.
                answer = self._hear()
        for path in (*self.workspace.iterdir(), *self.project.iterdir()):
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name not in PAGES:
                path.unlink()

    def _hear(self) -> str | None:
        turn, answer = self._heard.get(timeout=SECONDS)
        return answer if turn == self._turn else self._hear()

    def _answer(self, call: Call) -> str:
        self._replies.put(call)
        return self._hear() or ""

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call one of our tools; the answer."""
        return read_answer(self._answer(Call(f"{self._prefix}{tool}", arguments)))

    def register(self, **given: Any) -> str:
        """Register a task; its id."""
        answer = self.call("task_register", name=f"Task {self._number}", **given)
        assert "task_id" in answer, answer
        self._task = str(answer["task_id"])
        return self._task

    def runs_in(self, folder: Path, command: str) -> None:
        """Run a command in a folder."""
        self._answer(self.run(folder, command))

    def writes(self, path: Path, text: str = "All is well.") -> None:
        """Write a file with the tool for it."""
        answers = [self._answer(each) for each in self.write(path, text)]
        assert path.read_text().strip() == text, answers

    def updates(self, task: str, **given: Any) -> bool:
        """Update the task; False: that is refused for want of proof."""
        answer = self.call("task_update", task_id=task, **given)
        assert answer.get("error", "evidence_missing") == "evidence_missing", answer
        return "error" not in answer

    def ends(self, said: str) -> None:
        """End the turn."""
        self._replies.put(f"{said}\n\nDone {self._turn}.")
        self.settle()

    def read_result(self, task: str, refused: int) -> EndingResult:
        """How it went, so far."""
        line = self.house.ask("show", id=task)["line"]
        shown = f"{line['made']}; {line['unproved']}"
        return EndingResult(refused, TaskStatus(line["status"]), [shown], shown)

    def compare(self, kind: str, folder: Path) -> tuple[EndingResult, EndingResult]:
        """Act an ending, and play it in a folder; how both went. No task stays open."""
        played = endings.act(kind, endings.open_session(folder / kind))
        acted = endings.act(kind, self)

        def read_own_result() -> EndingResult:
            return self.read_result(self._task, acted.refused)

        with suppress(AssertionError):  # Names in last words are looked up after the turn.
            until(lambda: read_own_result().verdict == played.verdict, played.verdict, 5)
        result = read_own_result()
        if not result.status.terminal:
            self.cancel()
        return result, played

    def cancel(self) -> None:
        """Have its user cancel its task."""
        self.house.ask("act", id=self._task, action="cancel")


class InOpenClaw(HostActor):
    """One in a session of a gateway."""

    def __init__(self, story: Story, project: Path) -> None:
        house = story.house
        super().__init__(house, house.gateway.room.state / "workspace", project)
        self._story, self.say = story, self._chat

    def _chat(self, text: str) -> None:
        self.settle()
        self._story.chat(text)

    def settle(self) -> None:
        self.house.gateway.wait_until_idle(self._story.session)

    def cancel(self) -> None:
        super().cancel()
        self._story.wait_for_notice(f"Task {self._number}: cancelled")

    def run(self, folder: Path, command: str) -> Call:
        return Call("exec", {"command": command, "workdir": str(folder)})

    def write(self, path: Path, text: str) -> Sequence[Call]:
        return [Call("write", {"path": str(path), "content": text})]


class InTerminal(HostActor):
    """One in a terminal."""

    host: CliHost

    def settle(self) -> None:
        wait_until_idle(self.host)


class InClaudeCode(InTerminal):
    """One in Claude Code, which overwrites only what it has read."""

    def run(self, folder: Path, command: str) -> Call:
        return Call("Bash", {"command": f"cd {folder} && {command}", "description": "Work"})

    def write(self, path: Path, text: str) -> Sequence[Call]:
        read = [Call("Read", {"file_path": str(path)})] if path.exists() else []
        return [*read, Call("Write", {"file_path": str(path), "content": text})]


class InCodex(InTerminal):
    """One in Codex, which patches files."""

    def run(self, folder: Path, command: str) -> Call:
        return Call("exec_command", {"cmd": command, "workdir": str(folder)})

    def write(self, path: Path, text: str) -> Sequence[Call]:
        part = f"*** Add File: {path}\n+{text}"
        if path.exists():
            old = "".join(f"-{line}\n" for line in path.read_text().splitlines())
            part = f"*** Update File: {path}\n@@\n{old}+{text}"
        return [Call("apply_patch", {"input": f"*** Begin Patch\n{part}\n*** End Patch"})]


@contextmanager
def seat_actors(
    house: House, scripts: Scripts, project: Path, kinds: Mapping[str, type[CliHost]]
) -> Generator[Mapping[str, HostActor]]:
    """Seat one actor in each of these hosts, and in the gateway of a house, which is "OpenClaw"."""
    story = Story(house, scripts, f"agent:main:actor_{house.gateway.room.number}")
    in_openclaw = InOpenClaw(story, project)
    story.follow(in_openclaw)
    house.model.decide = scripts
    actors = {ClaudeCode.name: InClaudeCode, Codex.name: InCodex}
    work = house.taskmem.room.root / "work"
    seated = {
        name: actors[kind.name](house, work, project, kind.prefix) for name, kind in kinds.items()
    }
    desks = dict(zip(kinds.values(), seated.values(), strict=True))
    with seat_agents(house, desks) as hosts:
        for host, actor in zip(hosts, seated.values(), strict=True):
            actor.host = host
        yield {"OpenClaw": in_openclaw, **seated}
