"""Claude Code and Codex, killed in a task: their own resume alone, and with Task memory.

`python bench/resumed_hosts.py` runs both real programs, prints a table, and stores the figures in
`results/resumed_hosts.json`. The model is a script that knows only what a request shows. It goes on
after the last part that it sees done, and makes again what it sees no end of.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))  # for what the tests play

from homes import find_disk

from tests.e2e.cli_hosts import ClaudeCode, CliHost, Codex
from tests.e2e.dialects import Document
from tests.e2e.room import Room, until
from tests.e2e.scripted_model import Call, ModelRequest, Reply, ScriptedModel, text_of
from tests.e2e.taskmem import Taskmem

RESULTS: Final = Path(__file__).parent / "results" / "resumed_hosts.json"
PARTS: Final = 5
CUT_PART: Final = 3
"""The part in or after which the host is killed."""
SECONDS: Final = 90.0
"""Time limit for an agent's turn."""
TASK: Final = "Make parts 1 to 5."
PROGRAM: Final = """#!/bin/sh
echo $1 >> parts.log
while [ -e held_$1 ]; do sleep 0.1; done
echo part $1 is made
"""
MADE_PART: Final = re.compile(r"part (\d) is made")
PART_COMMAND: Final = re.compile(r"\./part (\d)")
MARKED_STEPS: Final = re.compile(r'"plan_progress": ?\{"completed": ?\[([\d, ]*)\]')
LOADING_WORDS: Final = "My tools are still loading."
TASK_ID: Final = re.compile(r"task_[0-9a-z]{16}")


class Case(NamedTuple):
    """How a host is interrupted, and what its user does next."""

    in_command: bool = False
    """Kill it while a command runs; else once the command's result is known."""
    compacted: bool = False
    """Compact its context before, into a summary that names nothing."""
    new_session: bool = False
    """Begin a new session; else resume the killed one."""


CASES: Final = {
    "killed after a command, resumed": Case(),
    "killed in a command, resumed": Case(in_command=True),
    "compacted into a poor summary, killed, resumed": Case(compacted=True),
    "killed, a new session in its folder": Case(new_session=True),
}


class PartsAgent:
    """Makes the parts in turn, and knows only what a request shows.

    With Task memory it does as the skill says: it reports each part, and if it has lost track it
    looks for its task.
    """

    def __init__(self, host: CliHost, case: Case) -> None:
        self._host, self._case = host, case
        self.is_held, self.is_killed = Event(), Event()
        self.is_compacting = False
        self.last_words: list[str] = []

    def __call__(self, request: ModelRequest) -> Reply:
        """Answer a request; hold it where the host is to be killed."""
        if self.is_compacting:
            return "Work is under way."
        if not self._case.in_command and str(CUT_PART) in MADE_PART.findall(
            _join(request.messages)
        ):
            self.is_held.set()
            self.is_killed.wait(SECONDS)
        is_ours = any(name.endswith("task_register") for name in request.tools)
        if self._host.is_set_up and not is_ours:
            answer: Reply = LOADING_WORDS
        else:
            call = self._choose_report(request) if is_ours else None
            answer = [call] if call is not None else self._choose_part(request)
        if isinstance(answer, str):
            self.last_words.append(answer)
        return answer

    def _choose_report(self, request: ModelRequest) -> Call | None:
        """Return the next call of Task memory; None: there is nothing to ask or to report."""
        words, calls = _join(request.messages), _list_calls(request)
        if TASK not in words:
            return None if "task_list" in calls else self._use("task_list")
        found = TASK_ID.findall(words)
        if not found:
            plan = [f"Part {number}" for number in range(1, PARTS + 1)]
            return self._use("task_register", name=TASK, plan=plan)
        if "task_list" in calls and "query" not in calls:
            return self._use("task_update", task_id=found[-1], query="What is done?")
        for number in map(int, MADE_PART.findall(words)):
            if f"Step {number} done" not in calls:
                return self._report(found[-1], number)
        return None

    def _choose_part(self, request: ModelRequest) -> Reply:
        """Return the command that makes the next part, or the last words."""
        words = _join(request.messages)
        if TASK not in words:
            return "I do not know what there is to do."
        following = min({*range(1, PARTS + 1)} - read_made(words), default=None)
        if following is None:
            return "All parts are made."
        command = f"./part {following}"
        if isinstance(self._host, Codex):
            return [Call("exec_command", {"cmd": command, "yield_time_ms": 60_000})]
        return [Call("Bash", {"command": command, "description": "Make a part"})]

    def _report(self, task_id: str, number: int) -> Call:
        over = {"status": "completed"} if number == PARTS else {}
        return self._use("task_update", task_id=task_id, message=f"Step {number} done", **over)

    def _use(self, tool: str, **arguments: object) -> Call:
        return Call(f"{self._host.prefix}{tool}", arguments)


def _join(messages: Iterable[Document]) -> str:
    return "\n".join(map(text_of, messages))


def read_made(words: str) -> set[int]:
    """Return the parts that a context shows as made: by results, by answers, and by packets."""
    made = {int(number) for number in MADE_PART.findall(words)}
    for marked in MARKED_STEPS.findall(words):
        made |= {int(number) for number in marked.split(",") if number}
    for packet in words.split("[task_resume] {")[1:]:
        told = json.JSONDecoder().raw_decode("{" + packet)[0]
        made |= {number + 1 for number in told["progress"]["completed"]}
        made |= {
            int(number) for number in PART_COMMAND.findall("\n".join(told.get("do_not_redo", ())))
        }
    return made


def _list_calls(request: ModelRequest) -> str:
    """Return the calls that a request shows, as JSON."""
    return json.dumps([each.get("tool_calls") for each in request.messages])


@contextmanager
def run_host(
    kind: type[CliHost], case: Case, *, ours: bool
) -> Iterator[tuple[CliHost, PartsAgent]]:
    """Run a host in an empty room, with Task memory set up or without."""
    with tempfile.TemporaryDirectory(dir=find_disk(), ignore_cleanup_errors=True) as folder:
        room = Room(Path(folder))
        taskmem = Taskmem(room)
        with ScriptedModel(is_stranger=lambda request: not request.tools) as model:
            host = kind(room, taskmem, model.url, is_set_up=ours)
            try:
                program = host.work / "part"
                program.write_text(PROGRAM)
                program.chmod(0o755)
                model.decide = agent = PartsAgent(host, case)
                yield host, agent
            finally:
                agent.is_killed.set()
                host.close()
                taskmem.stop()
        if model.errors:
            raise model.errors[0]


def play_case(kind: type[CliHost], case: Case, *, ours: bool) -> dict[str, object]:
    """Play one interruption, and return what became of the parts."""
    with run_host(kind, case, ours=ours) as (host, agent):
        log = host.work / "parts.log"
        held = host.work / f"held_{CUT_PART}"
        if case.in_command:
            held.touch()
        host.begin()
        begin_task(host, agent, log.exists)
        if case.in_command:
            held_part = str(CUT_PART)
            until(lambda: log.exists() and held_part in log.read_text(), "it is held", SECONDS)
        else:
            until(agent.is_held.is_set, "it is held", SECONDS, shown=lambda: host.screen)
        host.kill()
        held.unlink(missing_ok=True)
        agent.is_killed.set()
        host.start(*([] if case.new_session else host.list_resume_arguments()))
        if case.compacted:
            compact(host, agent)
        agent.last_words.clear()
        host.say("GO ON")
        until(
            lambda: {*agent.last_words} - {LOADING_WORDS},
            "its turn is over",
            SECONDS,
            shown=lambda: host.screen,
        )
        counts = Counter(int(line) for line in log.read_text().split())
        return {
            "made": len(counts),
            "made twice": sum(count > 1 for count in counts.values()),
        }


def begin_task(host: CliHost, agent: PartsAgent, has_begun: Callable[[], bool]) -> None:
    """Say what the task is, anew where the tools were still loading."""
    while not has_begun():
        agent.last_words.clear()
        host.say(TASK)
        until(lambda: has_begun() or agent.last_words, "it answers", SECONDS)


def compact(host: CliHost, agent: PartsAgent) -> None:
    """Compact the context of a host into a summary that names nothing."""
    agent.is_compacting = True
    host.say("/compact")
    until(host.has_compacted, "it has compacted", SECONDS, shown=lambda: host.screen)
    agent.is_compacting = False


def main() -> None:
    report = {
        kind.name: {
            what: {
                which: play_case(kind, case, ours=ours)
                for which, ours in (("alone", False), ("ours", True))
            }
            for what, case in CASES.items()
        }
        for kind in (ClaudeCode, Codex)
    }
    RESULTS.write_text(json.dumps(report, indent=1) + "\n")
    print(RESULTS.read_text())


if __name__ == "__main__":
    main()
