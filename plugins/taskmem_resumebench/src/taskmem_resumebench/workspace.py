"""The world in which an agent works, with effects that can be counted, and its judgement.

It is a folder with a repository, a database and files, and a server. Every call has a small real
effect. In the end it is judged what is there that should be, twice, or not at all.
"""

from __future__ import annotations

import sqlite3
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from taskmem_resumebench.servers import LoopbackServer
from taskmem_resumebench.tasks import GATE, Call, GeneratedTask, Kind, format_step

_IDENTITY: Final = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")
_MOST_NAMED_STEPS: Final = 4
"""Most effects of a kind that a fault names."""


class Workspace:
    """The folder of one task."""

    def __init__(self, folder: Path, server: LoopbackServer) -> None:
        """Make the folder, empty but for what the user has put there."""
        (folder / "out").mkdir(parents=True)
        self.folder, self._server = folder, server
        (folder / "words.txt").write_text("oak\nelm\nash\nelm\n")
        self._git("init", "-q")
        with closing(self._open_stock()) as stock:
            stock.execute("CREATE TABLE stock (name TEXT)")
            stock.commit()
        self.made: Counter[Call] = Counter()
        """How often each call had its effect."""

    @property
    def gate(self) -> str:
        """The word at the gate; empty: none yet."""
        gate = self.folder / GATE
        return gate.read_text().strip() if gate.exists() else ""

    def perform(self, call: Call) -> None:
        """Let a call have its effect."""
        if call.kind is Kind.REPLY:
            return
        self.made[call] += 1
        match call.kind:
            case Kind.FILE:
                (self.folder / call.place).write_text(f"{call.mark}\n")
            case Kind.LINE | Kind.PIPELINE:
                command = ["sh", "-c", call.about]
                subprocess.run(command, cwd=self.folder, check=True)  # noqa: S603 - ours
            case Kind.COMMIT:
                self._git("commit", "-q", "--allow-empty", "-m", call.mark)
            case Kind.ROW:
                with closing(self._open_stock()) as stock:
                    stock.execute("INSERT INTO stock VALUES (?)", (call.mark,))
                    stock.commit()
            case Kind.POST | Kind.PAYMENT:
                self._server.add_entry(self._find_address(call))

    def count_effects(self, call: Call) -> int:
        """Look how often the effect of a call is there."""
        match call.kind:
            case Kind.FILE | Kind.LINE | Kind.PIPELINE:
                return self._read_lines(call.place).count(call.mark)
            case Kind.COMMIT:
                found = self._git("log", "--all", "--format=%s")
                return found.split("\n").count(call.mark)
            case Kind.ROW:
                with closing(self._open_stock()) as stock:
                    query = "SELECT count(*) FROM stock WHERE name = ?"
                    return int(stock.execute(query, (call.mark,)).fetchone()[0])
            case Kind.POST | Kind.PAYMENT:
                return self._server.count_entries(self._find_address(call))
            case Kind.REPLY:
                return 0

    def _find_address(self, call: Call) -> str:
        place = call.about.removeprefix("POST http://")
        return f"/{self.folder.name}/{place}"

    def _read_lines(self, place: str) -> list[str]:
        file = self.folder / place
        return file.read_text().split("\n") if file.exists() else []

    def _open_stock(self) -> sqlite3.Connection:
        stock = sqlite3.connect(self.folder / "stock.db")
        stock.execute("PRAGMA synchronous = OFF")  # whether it lasts is not what is measured
        return stock

    def _git(self, *words: str) -> str:
        command = ["git", *_IDENTITY, "-c", "commit.gpgsign=false", *words]
        done = subprocess.run(command, cwd=self.folder, check=True, capture_output=True)  # noqa: S603 - git
        return done.stdout.decode()


class Judgement(NamedTuple):
    """Result of a task, seen from its workspace alone."""

    needed: int
    """Effects that the task asks for."""
    right: int
    """Needed effects that are there exactly once."""
    missing: int
    """Needed effects that are not there."""
    duplicated: int
    """Effects too many."""
    revived: int
    """Effects of steps that were called off, or of the wrong side of a choice."""
    performed: int
    """Calls that had their effect, however often."""
    fault: str
    """Which effects are missing, there too often, or not wanted; empty: none."""

    @property
    def exact(self) -> bool:
        """True if everything is there once, and nothing else."""
        return self.right == self.needed and not self.revived


def judge_workspace(
    task: GeneratedTask, made: Mapping[Call, int], count_effects: Callable[[Call], int]
) -> Judgement:
    """Judge the workspace of a task.

    Args:
        task: The task, with what is hidden from its agent.
        made: How often each call had its effect.
        count_effects: Looks how often the effect of a call is there.
    """
    there = {call: count_effects(call) for call in {*task.needed, *made}}
    needed = {*task.needed}
    return Judgement(
        needed=len(needed),
        right=sum(there[call] == 1 for call in needed),
        missing=sum(there[call] == 0 for call in needed),
        duplicated=sum(times - 1 for times in there.values() if times > 1),
        revived=sum(times for call, times in there.items() if call not in needed),
        performed=sum(made.values()),
        fault=_describe_fault(there, needed),
    )


def _describe_fault(there: Mapping[Call, int], needed: set[Call]) -> str:
    kinds = {
        "missing": [call for call, times in there.items() if call in needed and not times],
        "doubled": [call for call, times in there.items() if times > 1],
        "not wanted": [call for call, times in there.items() if call not in needed and times],
    }
    return "; ".join(f"{kind}: {_list_calls(calls)}" for kind, calls in kinds.items() if calls)


def _list_calls(calls: Sequence[Call]) -> str:
    steps = sorted(map(format_step, calls))
    more = f" and {len(steps) - _MOST_NAMED_STEPS} more" if len(steps) > _MOST_NAMED_STEPS else ""
    return ", ".join(steps[:_MOST_NAMED_STEPS]) + more
