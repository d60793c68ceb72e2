"""The world in which an agent works: a folder with a repository, a database, files, and a server.

Every call has a small real effect, and every effect can be counted afterwards.
"""

from __future__ import annotations

import sqlite3
import subprocess
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Final

from taskmem_resumebench.loopback_server import LoopbackServer
from taskmem_resumebench.work_steps import GATE, Call, Kind

_IDENTITY: Final = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")


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
        """What the gate says; empty: nothing yet."""
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
