"""The disk, or the system, refuses one operation after the other of a daemon at work."""

from __future__ import annotations

import errno
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from openclaw_taskmem.cli.client import Link, LinkError, connect
from tests.power_loss.images import Disk
from tests.power_loss.scenario import PLAN, RecordedDaemon, connect_read_only
from tests.support.waiting import PATIENCE

FAULTS: Final = (errno.EIO, errno.ENOSPC, errno.EMFILE)
ONCE, EVER = 1, 1_000_000
"""How many operations fail: one, or all until the call is answered."""
_NAMES: Final = {"store_full", "store_unavailable", "store_busy"}
_ROWS: Final = (
    "SELECT count(*) FROM (SELECT name AS text FROM tasks "
    "UNION ALL SELECT content FROM task_messages UNION ALL SELECT wake_when FROM waits) "
    "WHERE instr(text, ?) > 0"
)


class Outcome(NamedTuple):
    """What became of a call during which operations failed."""

    text: str
    """What the call would have written; nothing else has it."""
    said: str
    """The refusal; empty: it was answered as usual."""


class FaultedCalls:
    """Calls of a person, each made again and again until no operation of it fails."""

    def __init__(self, daemon: RecordedDaemon) -> None:
        self._daemon = daemon
        self._disk = Disk()
        self._log = daemon.home.folder.parent / "build.log"
        self._log.write_text("begun\n")
        self.outcomes: list[Outcome] = []
        self.failed = 0
        """Calls during which an operation failed."""

    def run(self, faults: tuple[int, ...], every: int = 1) -> None:
        """Let each n-th operation of each kind of call fail."""
        with closing(connect(self._daemon.home)) as link:
            self._call(link, "task_register", name="At work", plan=PLAN)
            [task] = link.call("tasks", {}, PATIENCE)["tasks"]
            for make in self._list_calls(link, task["task_id"]):
                for fault in faults:
                    for times in (ONCE, EVER):
                        self._fail_each(link, make, fault, times, every)

    def _list_calls(self, link: Link, task: str) -> Iterator[Callable[[str], None]]:
        yield lambda text: self._call(link, "task_register", name=text, plan=PLAN)
        yield lambda text: self._call(
            link, "task_update", task_id=task, message=f"{text}{'x' * 20_000}"
        )
        yield lambda text: self._call(
            link,
            "smart_wait",
            task_id=task,
            target=f"pty:file:{self._log}",
            wake_when=f'"{text}" appears',
            timeout=3600,
        )

    def _call(self, link: Link, tool: str, **arguments: object) -> None:
        link.call("call", {"tool": tool, "arguments": arguments}, PATIENCE)

    def _fail_each(
        self, link: Link, make: Callable[[str], None], fault: int, times: int, every: int
    ) -> None:
        control = self._daemon.control
        skipped = 0
        while True:
            if fault == errno.EMFILE:
                # Only a connection that is closed is opened: a failed write closes it.
                self._make_one(make, errno.EIO, 0, ONCE)
            before = control.failed
            self._make_one(make, fault, skipped, times)
            if control.failed == before:
                return
            self.failed += 1
            skipped += every

    def _make_one(self, make: Callable[[str], None], fault: int, skipped: int, times: int) -> None:
        """Make a call while operations fail; check at once what it left."""
        control = self._daemon.control
        text, name, said = f"<{len(self.outcomes)}>", "", ""
        control.skipped, control.times, control.fault = skipped, times, fault
        try:
            make(text)
        except LinkError as error:
            name, said = error.name, str(error)
        finally:
            control.fault = 0
        self.outcomes.append(Outcome(text, said))
        if name:
            assert name in _NAMES, said
            assert said.endswith("."), said
            assert "\n" not in said, said
            self._check_refusal(self.outcomes[-1])

    def _check_refusal(self, outcome: Outcome) -> None:
        """Whoever was told that nothing is kept finds nothing, after a kill either."""
        if "may" in outcome.said:
            return
        with closing(connect_read_only(self._daemon.home.database)) as database:
            assert count_text(database, outcome.text) == 0, outcome
        for operation in self._daemon.journal.read_operations():
            self._disk.apply(operation)
        with tempfile.TemporaryDirectory() as folder:
            self._disk.write_killed(Path(folder))
            with closing(sqlite3.connect(Path(folder) / "taskmem.db")) as database:
                assert count_text(database, outcome.text) == 0, f"after a kill: {outcome}"

    def check_all(self) -> None:
        """All that was answered is there once, and the database is sound."""
        with closing(connect_read_only(self._daemon.home.database)) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            for outcome in self.outcomes:
                found = count_text(database, outcome.text)
                assert found == 1 or (outcome.said and found == 0), outcome


def count_text(database: sqlite3.Connection, text: str) -> int:
    """Count the rows that a call with such a text makes."""
    (found,) = database.execute(_ROWS, (text,)).fetchone()
    return int(found)
