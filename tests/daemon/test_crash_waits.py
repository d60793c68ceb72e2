"""The daemon is killed at random points, and whatever is waited for ends once, not early."""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import subprocess
import threading
from collections import defaultdict
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from openclaw_taskmem.cli.client import LinkError, connect
from tests.support.daemons import Daemon
from tests.support.long_tests import choose_count
from tests.support.waiting import PATIENCE, until

KILLS = {
    "sqlite": choose_count("TASKMEM_KILLS", 40, 500),
    "postgresql": choose_count("TASKMEM_KILLS_ON_POSTGRESQL", 8, 100),
}
WRITERS = 3
MOST_ANSWERS = 16
"""Answers within which a kill comes."""
LOGS = 3
CONDITIONS = {"path": "appears", "process": "exits", "time": "comes"}
"""What is waited for of all but logs."""
INSTANT_SECONDS = 1

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]


@pytest.fixture
def seed():
    """What all chance here comes from; TASKMEM_CRASH_SEED repeats a run."""
    found = os.environ.get("TASKMEM_CRASH_SEED") or str(secrets.randbits(32))
    print(f"TASKMEM_CRASH_SEED={found}")  # noqa: T201 - pytest shows it with a failure
    return found


@dataclass
class AskedWait:
    """What was asked of one wait, and what was answered."""

    target: str
    tokens: list[str]
    """Each text that it may be waiting for in a log; the last is the newest."""
    kind: str
    process: subprocess.Popen | None = None
    """What it waits for; None: something else."""
    wait_id: str | None = None
    """None: opening it was never answered."""
    unsure: bool = False
    """Whether an update was never answered: it may wait for either text."""
    cancel: str | None = None
    """`asked`, or `done` when the answer says so; None: nobody wanted it cancelled."""

    def list_keys(self):
        """Target and condition for each of the tokens, as they are stored."""
        other = CONDITIONS.get(self.kind)
        return [(self.target, other or f'"{token}" appears') for token in self.tokens]


@dataclass
class Load:
    """Writers that open waits, and write, cancel and change what is waited for."""

    home: object
    seed: str
    tasks: list[str]
    waits: list[AskedWait] = field(default_factory=list)
    written: set[str] = field(default_factory=set)
    answers: int = 0
    life: int = 0
    failures: list[BaseException] = field(default_factory=list)

    def __post_init__(self):
        self._news = threading.Condition()
        folder = self.home.folder.parent
        self._logs = [folder / f"log{number}" for number in range(LOGS)]
        for log in self._logs:
            log.touch()

    def run(self, number, kill):
        """Write until the daemon is killed, which happens after some answers."""
        self.life += 1
        threads = [threading.Thread(target=self._work, args=(writer,)) for writer in range(WRITERS)]
        due = self.answers + number
        for thread in threads:
            thread.start()
        with self._news:
            self._news.wait_for(lambda: self.answers >= due or self.failures, PATIENCE)
        kill()
        for thread in threads:
            thread.join(PATIENCE)
        assert not any(thread.is_alive() for thread in threads)
        assert not self.failures
        assert self.answers >= due, "the daemon answers too slowly, or not at all"

    def write(self, asked):
        """Let happen what a wait waits for."""
        self.written.update(asked.tokens)
        file = Path(asked.target.rpartition(":")[2])
        if asked.process is not None:
            asked.process.communicate()
        elif asked.kind == "path":
            file.touch()
        elif asked.kind == "log":
            with file.open("a") as log:
                log.writelines(f"{token}\n" for token in asked.tokens)

    def has_happened(self, asked, token):
        """Whether that has come what a wait waits for, with this text if it is a log's."""
        if asked.kind == "time":
            return datetime.now(UTC) >= datetime.fromisoformat(asked.target.partition(":")[2])
        return token in self.written

    def close(self):
        """End the processes that nobody has ended."""
        for asked in self.waits:
            if asked.process is not None:
                asked.process.communicate()

    def _work(self, writer):
        try:
            with connect(self.home) as link:
                self._write_until_it_dies(writer, link)
        except LinkError as error:
            if error.name != "daemon_unavailable":
                self._record_failure(error)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self._record_failure(error)

    def _record_failure(self, error):
        with self._news:
            self.failures.append(error)
            self._news.notify_all()

    def _write_until_it_dies(self, writer, link):
        chance = random.Random(f"{self.seed}/{self.life}/{writer}")  # noqa: S311
        mine = []
        number = 0
        while True:
            number += 1
            token = f"token-{self.life}-{writer}-{number}."
            deed = chance.choices(("open", "write", "cancel", "update"), (6, 4, 2, 2))
            asked = chance.choice(mine) if mine else None
            if asked is None or deed == ["open"]:
                asked = self._choose_target(chance, token)
                self.waits.append(asked)
                if self._open(link, asked, chance.choice((*self.tasks, None))):
                    mine.append(asked)
            elif deed == ["write"]:
                self.write(asked)
            elif deed == ["cancel"]:
                asked.cancel = asked.cancel or "asked"
                answer = self._call(link, "wait_cancel", wait_id=asked.wait_id)
                if answer["message"].startswith("Wait cancelled"):
                    asked.cancel = "done"
                mine.remove(asked)
            elif asked.kind == "log":
                asked.tokens.append(token)
                asked.unsure = True
                self._call(
                    link, "wait_update", wait_id=asked.wait_id, wake_when=f'"{token}" appears'
                )
                asked.unsure = False

    def _choose_target(self, chance, token):
        kind = chance.choice(("log", *CONDITIONS))
        if kind == "log":
            return AskedWait(f"pty:file:{chance.choice(self._logs)}", [token], kind)
        if kind == "path":
            return AskedWait(f"path:{self.home.folder.parent / token}", [token], kind)
        if kind == "process":
            process = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE)
            return AskedWait(f"process:{process.pid}", [token], kind, process)
        # Each has an instant of its own, by which it is found.
        instant = datetime.now(UTC) + timedelta(seconds=INSTANT_SECONDS)
        return AskedWait(f"time:{instant:%FT%T.%fZ}", [token], kind)

    def _open(self, link, asked, task_id):
        """Open a wait; False: its instant had come before it was asked for."""
        wanted = {"target": asked.target, "wake_when": asked.list_keys()[0][1], "timeout": 3600}
        try:
            answer = self._call(
                link, "smart_wait", **wanted, **({"task_id": task_id} if task_id else {})
            )
        except LinkError as error:
            if asked.kind == "time" and "is past already" in str(error):
                self.waits.remove(asked)
                return False
            raise
        asked.wait_id = answer["wait_id"]
        return True

    def _call(self, link, tool, **arguments):
        answer = link.call("call", {"tool": tool, "arguments": arguments}, PATIENCE)
        with self._news:
            self.answers += 1
            self._news.notify_all()
        return answer


def waits_in(database):
    """Status, condition and target of every wait."""
    found = database.execute("SELECT wait_id, status, wake_when, target FROM waits")
    return {wait_id: tuple(row) for wait_id, *row in found}


def assert_linkage_is_true(database):
    """Each task says of its waits what their rows say."""
    open_ = defaultdict(list)
    for task_id, wait_id in database.execute(
        "SELECT task_id, wait_id FROM waits WHERE status = 'watching' ORDER BY created_at, wait_id"
    ):
        open_[task_id].append(wait_id)
    for task_id, metadata in database.execute("SELECT task_id, metadata FROM tasks"):
        assert json.loads(metadata)["active_wait_ids"] == open_[task_id], (
            "a task does not tell of its open waits"
        )


def assert_every_ending_is_told_once(database):
    """One wake for each round that ended otherwise than cancelled, one line for all."""
    rounds = defaultdict(lambda: 1)
    ended, messages = set(), defaultdict(int)
    for wait_id, kind, data, task_id in database.execute(
        "SELECT wait_id, kind, data, task_id FROM events "
        "WHERE kind IN ('wait_updated', 'wait_ended') ORDER BY id"
    ):
        if kind == "wait_updated":
            rounds[wait_id] += 1
            continue
        status = json.loads(data)["status"]
        key = f"wait:{wait_id}:{rounds[wait_id]}"
        assert (key, status) not in ended, "a round ended twice"
        assert status in {"resolved", "cancelled"}
        ended.add((key, status))
        messages[task_id, wait_id, status] += 1
    owed = [key for key, status in ended if status != "cancelled"]
    wakes = [key for (key,) in database.execute("SELECT key FROM wakes")]
    assert sorted(wakes) == sorted(owed), "endings and wakes came apart"
    assert len({key for key, _ in ended}) == len(ended), "a round ended in two ways"

    told = defaultdict(int)
    for task_id, msg_type, content in database.execute(
        "SELECT task_id, msg_type, content FROM task_messages"
    ):
        assert msg_type == "wait"
        status, wait_id = content.removeprefix("smart_wait ").split(":")[0].split()
        told[task_id, wait_id.strip("()"), status] += 1
    linked = {key: count for key, count in messages.items() if key[0]}
    assert told == linked, "endings and messages came apart"
    for wait_id, number in database.execute("SELECT wait_id, round FROM waits"):
        assert number == rounds[wait_id], "a wait has another round than its history"


def assert_none_ended_early(database, load):
    """No wait is resolved whose text, file, end or instant has not come."""
    query = "SELECT wait_id FROM events WHERE kind = 'wait_ended' AND data LIKE '%resolved%'"
    resolved = {wait_id for (wait_id,) in database.execute(query)}
    early = [
        a
        for a in load.waits
        if a.wait_id in resolved and not any(load.has_happened(a, token) for token in a.tokens)
    ]
    assert not early, "a wait ended early"


def assert_sound(database):
    assert (
        database.execute(
            "SELECT task_id FROM tasks AS t WHERE message_count != "
            "(SELECT count(*) FROM task_messages AS m WHERE m.task_id = t.task_id)"
        ).fetchall()
        == []
    )
    assert_linkage_is_true(database)
    assert_every_ending_is_told_once(database)


def read_waits(kept):
    with closing(kept.now()) as database:
        return waits_in(database)


def assert_every_wait_ended_as_it_must(kept, load):
    """What was written resolves, what was cancelled is; what was not asked is not."""
    known = read_waits(kept)
    by_key = {(target, wake_when): wait for wait, (_, wake_when, target) in known.items()}
    meant = set()
    for asked in load.waits:
        found = {by_key[key] for key in asked.list_keys() if key in by_key}
        if asked.wait_id is None:
            meant |= found
            continue
        assert asked.wait_id in known, "a wait was answered, and is lost"
        assert asked.unsure or known[asked.wait_id][1] == asked.list_keys()[-1][1]
        meant.add(asked.wait_id)
    assert meant == set(known), "something is there that nobody asked for"

    def list_watching(waits):
        now = read_waits(kept)
        return [a for a in waits if now.get(a.wait_id, ("",))[0] == "watching"]

    due = [a for a in load.waits if not a.unsure and load.has_happened(a, a.tokens[-1])]
    until(lambda: not list_watching(due), "all that has happened is found")
    with closing(kept.now()) as database:
        assert_linkage_is_true(database)
        assert_none_ended_early(database, load)
    for asked in load.waits:
        load.write(asked)
    until(
        lambda: all(status != "watching" for status, *_ in read_waits(kept).values()),
        "all that is written now is found",
    )
    for asked in load.waits:
        if asked.wait_id is not None:
            status, *_ = read_waits(kept)[asked.wait_id]
            allowed = {
                None: {"resolved"},
                "asked": {"resolved", "cancelled"},
                "done": {"cancelled"},
            }[asked.cancel]
            assert status in allowed


def test_every_wait_ends_once_although_daemon_is_killed_often(seed, home, task_database):
    chance = random.Random(seed)  # noqa: S311 - no secret
    kills = KILLS[task_database.dialect]
    with ExitStack() as stack:
        daemon = stack.enter_context(closing(Daemon(home, **task_database.settings)))
        daemon.wait_until_it_serves()
        load = Load(home, seed, [daemon.register(f"Task {n}") for n in range(3)])
        stack.enter_context(closing(load))
        for _ in range(kills):
            pause = chance.expovariate(1 / 0.02)

            def kill(pause=pause):
                threading.Event().wait(pause)
                assert daemon.kill() == -signal.SIGKILL

            load.run(chance.randrange(1, MOST_ANSWERS), kill)
            with closing(task_database.connect_after_kill()) as database:
                task_database.assert_whole(database)
                assert_sound(database)
                assert_none_ended_early(database, load)
            daemon.restart()
        assert_every_wait_ended_as_it_must(task_database, load)
        assert daemon.stop() == 0
        with closing(task_database.now()) as database:
            task_database.assert_whole(database)
            assert_sound(database)
            status = [status for status, *_ in waits_in(database).values()]
    assert status.count("resolved") > kills
    assert status.count("cancelled") > 0


HARMS = {
    "DELETE FROM wakes WHERE rowid = (SELECT min(rowid) FROM wakes)": "and wakes came",
    "UPDATE task_messages SET content = 'smart_wait error (wait_1): Gone.'": "messages",
    "UPDATE waits SET round = round + 1": "round",
    "UPDATE waits SET status = 'watching' WHERE task_id IS NOT NULL": "open",
    "INSERT INTO events SELECT NULL, at, kind, task_id, wait_id, run_id, "
    "data FROM events WHERE kind = 'wait_ended'": "ended twice",
}
"""What takes one thing away or adds one, and what is said of it then."""


@pytest.mark.parametrize("task_database", ["sqlite"], indirect=True)
def test_a_wake_that_is_lost_would_be_noticed(home, task_database):
    """The comparison itself fails when one row is taken away, or one is too many."""
    with ExitStack() as stack:
        daemon = stack.enter_context(closing(Daemon(home, **task_database.settings)))
        daemon.wait_until_it_serves()
        load = stack.enter_context(closing(Load(home, "self-test", [daemon.register()])))
        load.run(30, daemon.kill)
        daemon.restart()
        assert_every_wait_ended_as_it_must(task_database, load)
        daemon.stop()
        with closing(task_database.connect_after_kill()) as database:
            database.isolation_level = None
            assert_sound(database)
            for harm, said in HARMS.items():
                database.execute("BEGIN")
                database.execute(harm)
                with pytest.raises(AssertionError, match=said):
                    assert_sound(database)
                database.execute("ROLLBACK")
            load.written.clear()
            with pytest.raises(AssertionError, match="ended early"):
                assert_none_ended_early(database, load)
