"""The disk, or the system, refuses one operation after the other of a daemon at work."""

from __future__ import annotations

import errno
import sqlite3
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

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
    "UNION ALL SELECT content FROM task_messages UNION ALL SELECT wake_when FROM waits "
    "UNION ALL SELECT owner FROM runs) WHERE instr(text, ?) > 0"
)


class _Kind(NamedTuple):
    """A kind of call."""

    tool: str
    name: str
    """The argument that holds its text."""
    prepare: Callable[[], Mapping[str, object]]
    """Makes what it needs, while nothing fails; returns the other arguments."""
    words: str = "{}"
    """The argument, around the text."""


class Outcome(NamedTuple):
    """What became of a call during which operations failed."""

    tool: str
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
            for kind in _list_kinds(link, self._log):
                for fault in faults:
                    for times in (ONCE, EVER):
                        self._fail_each(link, kind, fault, times, every)

    def _fail_each(self, link: Link, kind: _Kind, fault: int, times: int, every: int) -> None:
        skipped = 0
        while self._make_one(link, kind, fault, skipped, times):
            self.failed += 1
            skipped += every

    def _make_one(self, link: Link, kind: _Kind, fault: int, skipped: int, times: int) -> bool:
        """Make a call while operations fail; check what it left; return whether any failed."""
        control = self._daemon.control
        text, name, said = f"n{len(self.outcomes)}e", "", ""
        given = {**kind.prepare(), kind.name: kind.words.format(text)}
        if fault == errno.EMFILE:
            self._close_connection(link)
        before = control.failed
        control.skipped, control.times, control.fault = skipped, times, fault
        try:
            _call(link, kind.tool, **given)
        except LinkError as error:
            name, said = error.name, str(error)
        finally:
            control.fault = 0
        self.outcomes.append(Outcome(kind.tool, text, said))
        if name:
            assert name in _NAMES, said
            assert said.endswith("."), said
            assert "\n" not in said, said
            self._check_refusal(self.outcomes[-1])
        return control.failed > before

    def _close_connection(self, link: Link) -> None:
        """Let a write fail, which closes the connection: only then is anything opened."""
        control = self._daemon.control
        control.skipped, control.times, control.fault = 0, ONCE, errno.EIO
        with suppress(LinkError):
            _call(link, "task_register", name="Not kept", plan=PLAN)
        control.fault = 0

    def _check_refusal(self, outcome: Outcome) -> None:
        """Whoever was told that nothing is kept finds nothing, after a kill either."""
        if "may be kept" in outcome.said:
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


def _list_kinds(link: Link, log: Path) -> list[_Kind]:
    """Return each kind of call that writes a text; it is in one row afterwards."""

    def register() -> dict[str, object]:
        task = _call(link, "task_register", name="At work", plan=PLAN)
        return {"task_id": task["task_id"]}

    def claim() -> dict[str, object]:
        task = register()
        return {**task, "token": _call(link, "task_claim", role="at", **task)["token"]}

    def wait() -> dict[str, object]:
        return {
            "wait_id": _call(link, "smart_wait", wake_when='"old" appears', **watched)["wait_id"]
        }

    task = register()
    watched = {**task, "target": f"pty:file:{log}", "timeout": 3600}
    appears = '"{}" appears'
    return [
        _Kind("task_register", "name", lambda: {"plan": PLAN}),
        _Kind("task_update", "message", lambda: task, "{}" + "x" * 20_000),
        _Kind("smart_wait", "wake_when", lambda: watched, appears),
        _Kind("wait_update", "wake_when", wait, appears),
        _Kind("task_plan_update", "reason", lambda: {**task, "new_plan": [*PLAN, "Rest"]}),
        _Kind("task_claim", "role", register),
        _Kind("task_handoff", "note", claim),
        _Kind("task_step_done", "note", claim),
        _Kind("task_abort", "reason", claim),
        _Kind("task_cancel", "reason", register),
        _Kind("task_update", "message", lambda: {**register(), "status": "completed"}),
    ]


def _call(link: Link, tool: str, **arguments: object) -> Any:
    return link.call("call", {"tool": tool, "arguments": arguments}, PATIENCE)


def count_text(database: sqlite3.Connection, text: str) -> int:
    """Count the rows that a call with such a text makes."""
    (found,) = database.execute(_ROWS, (text,)).fetchone()
    return int(found)
