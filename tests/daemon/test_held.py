"""Whatever happens to a daemon that agents call, what it answered is kept."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import threading
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from openclaw_taskmem.cli.client import LinkError
from openclaw_taskmem.home import find_home
from taskmem_hookspecs import Message
from taskmem_sqlmodel.store import SqlStore
from tests.support.agents import Lines
from tests.support.daemons import Daemon, rows, short_home
from tests.support.waiting import PATIENCE, until

CALLERS = 4


class Agents:
    """Agents that report on one task each, over a connection each, until refused."""

    def __init__(self, daemon: Daemon, said: str = "") -> None:
        """Register their tasks; `said` is how each message goes on."""
        self.tasks = [daemon.register(f"Task {number}") for number in range(CALLERS)]
        self.answered: list[list[str]] = [[] for _ in self.tasks]
        self.refusals: list[str] = []
        self._daemon = daemon
        self._said = said
        self._done = threading.Event()
        self._news = threading.Condition()

    @contextmanager
    def at_work(self):
        """Let them call; leaving the block waits until each has ended."""
        self._done.clear()
        threads = [
            threading.Thread(target=self._call, args=each)
            for each in zip(self.tasks, self.answered, strict=True)
        ]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._done.set()
            for thread in threads:
                thread.join(PATIENCE)
            assert not any(thread.is_alive() for thread in threads)

    @property
    def answered_messages(self) -> set[tuple[str, str]]:
        """The task and the text of every message that was answered until now."""
        return {
            (task, text)
            for task, texts in zip(self.tasks, self.answered, strict=True)
            for text in [*texts]
        }

    def wait_for_answers(self, number: int) -> None:
        """Wait until so many more messages were answered."""
        with self._news:
            due = len(self.answered_messages) + number
            assert self._news.wait_for(lambda: len(self.answered_messages) >= due, PATIENCE)

    def wait_for_refusals(self) -> None:
        """Wait until every one of them was refused."""
        with self._news:
            all_are = self._news.wait_for(lambda: len(self.refusals) == len(self.tasks), PATIENCE)
            assert all_are, "calls are answered still"

    def _call(self, task_id: str, answered: list[str]) -> None:
        with self._daemon.link() as link:
            while not self._done.is_set():
                text = f"{len(answered)} {self._said}".strip()
                given = {"task_id": task_id, "message": text}
                call = {"tool": "task_update", "arguments": given}
                try:
                    link.call("call", call, PATIENCE)
                except LinkError as error:
                    with self._news:
                        self.refusals.append(str(error))
                        self._news.notify_all()
                    return
                with self._news:
                    answered.append(text)
                    self._news.notify_all()


def read_messages(home):
    """The task and the text of every message of an agent; none is there twice."""
    query = "SELECT task_id, content FROM task_messages WHERE role != 'system'"
    found = rows(home, query)
    assert len({*found}) == len(found)
    return {*found}


def test_what_was_answered_while_the_home_was_moved_is_in_it(daemon):
    agents = Agents(daemon)
    moved = daemon.home.folder.with_name("moved")
    with agents.at_work():
        agents.wait_for_answers(40)
        daemon.home.folder.rename(moved)
        agents.wait_for_refusals()

    assert daemon.wait() == 0
    assert all(refusal.endswith(".") for refusal in agents.refusals)
    assert "Traceback" not in daemon.log.text
    assert f"{daemon.home.folder} is gone or another's; stopping" in daemon.log.text
    successor = Daemon(find_home({"TASKMEM_HOME": str(moved)}))
    try:
        successor.wait_until_it_serves()
        for task in agents.tasks:
            assert successor.ask("show", id=task)["task_id"] == task
        assert read_messages(successor.home) >= agents.answered_messages
    finally:
        successor.close()


@contextmanager
def stop_process(process):
    """Stop a process as the system does that has no time for it."""
    process.send_signal(signal.SIGSTOP)
    status = Path(f"/proc/{process.pid}/stat")
    until(lambda: status.read_text().rpartition(")")[2].split()[0] == "T", "it stops")
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


def test_one_of_two_daemons_of_a_home_ends_after_lock_removal(start, openclaw):
    openclaw.install()
    settings = {
        "TASKMEM_WAKE_TRANSPORT": "openclaw-cli",
        "TASKMEM_OPENCLAW_BIN": str(openclaw.binary),
        "TASKMEM_STUCK_THRESHOLD_SECONDS": "0.05",
        # Each looks by itself: it is not told of what the other writes.
        "TASKMEM_STUCK_INTERVAL_SECONDS": "0.1",
    }
    first = start(**settings)
    with stop_process(first.process):
        first.home.lock.unlink()
        second = start(**settings)
        tasks = [
            second.register(f"Task {number}", session_key=f"agent:{number}:main")
            for number in range(12)
        ]
        until(
            lambda: [w["state"] for w in second.wakes()] == ["sent"] * len(tasks),
            "every wake is sent",
        )

    assert first.wait() == 0
    assert [wake["attempts"] for wake in second.wakes()] == [1] * len(tasks)
    woken = [call[-1] for call in openclaw.calls]
    assert sorted(woken) == sorted(f"agent:{number}:main" for number in range(12))
    assert second.ask("status")["pid"] == second.process.pid


@pytest.mark.parametrize("first", ["taskmem.db", "taskmem.db-wal"])
def test_a_live_copy_holds_all_that_was_answered_before(daemon, tmp_path, first):
    """Where somebody reads while it is made, or the log begins anew in between."""
    agents = Agents(daemon, said="x" * 60_000)
    names = sorted(("taskmem.db", "taskmem.db-wal"), key=lambda name: name != first)
    for number in range(6):
        copied = tmp_path / str(number)
        copied.mkdir()
        reader = sqlite3.connect(daemon.home.database, isolation_level=None)
        with closing(reader), agents.at_work():
            agents.wait_for_answers(10)
            before = agents.answered_messages
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM tasks").fetchone()
            shutil.copy(daemon.home.folder / names[0], copied)
            agents.wait_for_answers(40)
            shutil.copy(daemon.home.folder / names[1], copied)
        with closing(sqlite3.connect(copied / "taskmem.db")) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        store = SqlStore(f"sqlite:///{copied / 'taskmem.db'}")
        threads = {t: store.read_records(Message, t) for t in agents.tasks}
        found = {(t, m.content) for t, thread in threads.items() for m in thread}
        store.close()
        assert found >= before
        shutil.rmtree(copied)
    assert agents.refusals == []


def test_a_daemon_that_was_stopped_keeps_all_and_alerts_nobody(start):
    longer = {"TASKMEM_STUCK_THRESHOLD_SECONDS": "6"}
    daemon = start(TASKMEM_STUCK_THRESHOLD_SECONDS="4", TASKMEM_LEASE_SECONDS="4")
    with short_home() as home, closing(Daemon(home, **longer)) as other:
        other.wait_until_it_serves()
        # An agent that has registered calls at once: here, four seconds are silence.
        with Lines(daemon.home) as by_mcp, (agents := Agents(daemon)).at_work():
            agents.wait_for_answers(20)
            with stop_process(daemon.process):
                given = {"task_id": agents.tasks[0], "message": "By MCP"}
                number = by_mcp.send("tools/call", name="task_update", arguments=given)
                # Once the other's is silent for too long, so would be all of these.
                assert other.out.wait_for(other.register())
            agents.wait_for_answers(20)
            assert by_mcp.hear()["id"] == number
            log = daemon.ask("events", limit=1000)
            assert {e["kind"] for e in log} == {"task_registered", "task_updated"}
            assert daemon.wakes() == []
    assert agents.refusals == []
    told = agents.answered_messages | {(agents.tasks[0], "By MCP")}
    assert read_messages(daemon.home) == told
