"""The daemon is killed at random points under load, and nothing answered is lost."""

from __future__ import annotations

import os
import random
import secrets
import signal
import threading
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field

import pytest

from openclaw_taskmem.cli.client import LinkError, connect, connect_or_start
from tests.support.daemons import Daemon, environment
from tests.support.long_tests import choose_count
from tests.support.waiting import PATIENCE

BATCHES = 4
KILLS = choose_count("TASKMEM_CRASH_KILLS", 12, 50)
"""In each batch; `--long` and TASKMEM_CRASH_KILLS make more of them."""
KILLS_ON_A_SERVER = 8
"""In the one batch on PostgreSQL."""
WRITERS = 4
MOST_ANSWERS = 60
"""Answers within which a kill comes."""

pytestmark = [pytest.mark.crash, pytest.mark.timeout(900)]


@pytest.fixture(scope="session")
def seed():
    """What all chance here comes from; TASKMEM_CRASH_SEED repeats a run."""
    return os.environ.get("TASKMEM_CRASH_SEED") or str(secrets.randbits(32))


@dataclass
class Record:
    """What one writer asked for, and what it was answered."""

    registered: dict[str, str] = field(default_factory=dict)
    """Task by its unique name; answered."""
    said: dict[str, str] = field(default_factory=dict)
    """Task by each unique message that was answered."""
    revised: dict[str, str] = field(default_factory=dict)
    """Task by each unique reason that was answered."""
    counts: dict[str, int] = field(default_factory=dict)
    """The largest `message_count` that was answered, by task."""
    unanswered: set[str] = field(default_factory=set)
    """Unique texts that may or may not have been written."""


class Load:
    """Writers that call the daemon for as long as it lives, and again after it died."""

    def __init__(self, home, seed, *, autostart):
        self.records = [Record() for _ in range(WRITERS)]
        self.answers = 0
        self.interrupted = 0
        self.pids = set()
        self.failures = []
        self._home = home
        self._seed = seed
        self._autostart = autostart
        self._news = threading.Condition()
        self._all_connected = threading.Barrier(WRITERS)
        self._round = 0

    def run(self, number, kill):
        """Write until the daemon is killed, which happens after some answers."""
        self._round += 1
        threads = [threading.Thread(target=self._work, args=(writer,)) for writer in range(WRITERS)]
        with self._news:
            due = self.answers + number
        for thread in threads:
            thread.start()
        with self._news:
            self._news.wait_for(lambda: self.answers >= due or self.failures, PATIENCE)
            assert not self.failures
            assert self.answers >= due, "the daemon answers too slowly, or not at all"
            (pid,) = self.pids
        kill(pid)
        for thread in threads:
            thread.join(PATIENCE)
        assert not any(thread.is_alive() for thread in threads)
        assert not self.failures
        self.pids.clear()

    def _work(self, writer):
        try:
            with self._connect() as link:
                self._all_connected.wait(PATIENCE)
                self._write(writer, link)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            with self._news:
                self.failures.append(error)
                self._news.notify_all()

    def _connect(self):
        if self._autostart:
            link = connect_or_start(self._home, environment(self._home))
        else:
            link = connect(self._home)
        with self._news:
            self.pids.add(link.pid)
        return link

    def _write(self, writer, link):
        """Write until a call is not answered any more."""
        chance = random.Random(f"{self._seed}/{self._round}/{writer}")  # noqa: S311
        record = self.records[writer]
        shared = next(iter(self.records[0].registered.values()), None)
        number = 0
        while True:
            number += 1
            unique = f"{self._seed}/{self._round}/{writer}/{number}"
            mine = [*record.registered.values()]
            deed = chance.choices(("register", "update", "revise"), (1, 8, 3))[0]
            if deed == "register" or not mine:
                answer = self._call(
                    link,
                    record,
                    unique,
                    "task_register",
                    name=unique,
                    plan=["Build", "Push", unique],
                )
                if answer is None:
                    return
                record.registered[unique] = answer["task_id"]
                continue
            task_id = shared if shared and chance.random() < 0.3 else chance.choice(mine)
            if deed == "update":
                answer = self._call(
                    link,
                    record,
                    unique,
                    "task_update",
                    task_id=task_id,
                    message=f"{unique} Step 1 done.{' x' * chance.randrange(2000)}",
                    reopened_steps=[2],
                )
            else:
                answer = self._call(
                    link,
                    record,
                    unique,
                    "task_plan_update",
                    task_id=task_id,
                    new_plan=["Build", "Push", f"Check {unique}"],
                    reason=unique,
                )
            if answer is None:
                return
            (record.said if deed == "update" else record.revised)[unique] = task_id
            if "message_count" in answer:
                record.counts[task_id] = max(record.counts.get(task_id, 0), answer["message_count"])

    def _call(self, link, record, unique, tool, **arguments):
        """Make one call; None: it was never answered."""
        record.unanswered.add(unique)
        try:
            answer = link.call("call", {"tool": tool, "arguments": arguments}, PATIENCE)
        except LinkError as error:
            if "ended while" not in str(error):
                raise
            with self._news:
                self.interrupted += 1
            return None
        record.unanswered.discard(unique)
        with self._news:
            self.answers += 1
            self._news.notify_all()
        return answer


def assert_nothing_is_lost(database, load):
    """Compare all that was answered with all that is there."""
    tasks = dict(database.execute("SELECT name, task_id FROM tasks"))
    (number,) = database.execute("SELECT count(*) FROM tasks").fetchone()
    assert len(tasks) == number, "a task is there twice"
    messages = database.execute(
        "SELECT task_id, role, content FROM task_messages ORDER BY id"
    ).fetchall()
    said = Counter(
        (task_id, content.split(" ", 1)[0])
        for task_id, role, content in messages
        if role in ("agent", "user")
    )
    announced = Counter(
        (task_id, content.removeprefix("Plan revised: "))
        for task_id, role, content in messages
        if role == "system"
    )
    revised = Counter(database.execute("SELECT task_id, reason FROM task_plan_revisions"))
    assert set(said.values()) <= {1}, "a message is there twice"
    assert set(revised.values()) <= {1}, "a revision is there twice"
    assert announced == revised, "a revision and its message came apart"

    asked = set[str]()
    for record in load.records:
        asked |= record.unanswered
        for name, task_id in record.registered.items():
            assert tasks.get(name) == task_id, f"{name} was registered, and is lost"
        for text, task_id in record.said.items():
            assert said[task_id, text] == 1, f"{text} was said, and is lost"
        for reason, task_id in record.revised.items():
            assert revised[task_id, reason] == 1, f"{reason} was revised, and is lost"
    answered = {
        text
        for record in load.records
        for texts in (record.registered, record.said, record.revised)
        for text in texts
    }
    there = {*tasks, *(text for _, text in said), *(text for _, text in revised)}
    assert there <= answered | asked, "something is there that nobody wrote"
    assert_every_count_is_true(database, load)
    assert_messages_stand_in_order(messages, load)


def assert_every_count_is_true(database, load):
    """Each row says of itself what the others say of it."""
    counts = database.execute(
        "SELECT task_id, message_count, version, plan, "
        "(SELECT count(*) FROM task_messages AS m WHERE m.task_id = t.task_id), "
        "(SELECT count(*) FROM task_plan_revisions AS r WHERE r.task_id = t.task_id), "
        "(SELECT count(*) FROM events AS e WHERE e.task_id = t.task_id), "
        "(SELECT count(*) FROM events AS e WHERE e.task_id = t.task_id "
        "AND kind = 'plan_revised'), "
        "(SELECT new_plan_json FROM task_plan_revisions AS r "
        "WHERE r.task_id = t.task_id ORDER BY id DESC LIMIT 1) FROM tasks AS t"
    ).fetchall()
    for task_id, count, version, plan, messages, revisions, events, told, last in counts:
        assert count == messages
        # Registering writes a task once, and everything else writes a message.
        assert version == 1 + messages
        assert events == 1 + messages
        assert told == revisions
        assert last is None or plan == last
        assert all(count >= record.counts.get(task_id, 0) for record in load.records)


def assert_messages_stand_in_order(messages, load):
    """What one writer was answered first stands first."""
    place = {
        content.removeprefix("Plan revised: ").split(" ", 1)[0]: number
        for number, (_, _, content) in enumerate(messages)
    }
    for record in load.records:
        for texts in (record.said, record.revised):
            places = [place[text] for text in texts]
            assert places == sorted(places)


@pytest.mark.parametrize(
    ("task_database", "batch"),
    [*(("sqlite", batch) for batch in range(BATCHES)), ("postgresql", 0)],
    indirect=["task_database"],
)
def test_every_answered_write_survives_a_killed_daemon(seed, home, task_database, batch):
    print(f"TASKMEM_CRASH_SEED={seed}")  # noqa: T201 - pytest shows it with a failure
    chance = random.Random(f"{seed}/{batch}")  # noqa: S311 - no secret
    kills = KILLS if task_database.dialect == "sqlite" else KILLS_ON_A_SERVER
    load = Load(home, f"{seed}/{batch}", autostart=bool(batch % 2))
    daemon = None
    busy = 0
    try:
        for _ in range(kills):
            if not batch % 2:
                if daemon is None:
                    daemon = Daemon(home, **task_database.settings)
                    daemon.wait_until_it_serves()
                else:
                    daemon.restart()
            before = load.interrupted
            pause = chance.expovariate(1 / 0.003)

            def kill(pid, daemon=daemon, pause=pause):
                threading.Event().wait(pause)
                os.kill(pid, signal.SIGKILL)
                if daemon is not None:
                    assert daemon.wait() == -signal.SIGKILL

            load.run(chance.randrange(1, MOST_ANSWERS), kill)
            busy += load.interrupted > before
            with closing(task_database.connect_after_kill()) as database:
                task_database.assert_whole(database)
        with closing(task_database.connect_after_kill()) as database:
            assert_nothing_is_lost(database, load)
        if daemon is None:
            connect_or_start(home, environment(home)).close()
        else:
            daemon.restart()
        with closing(task_database.now()) as database:
            task_database.assert_whole(database)
            assert_nothing_is_lost(database, load)
    finally:
        if daemon is not None:
            daemon.close()
    written = sum(len(record.said) for record in load.records)
    assert written >= kills
    assert busy > kills / 2, "the kills did not hit calls in flight"


def test_a_write_that_is_lost_would_be_noticed(home, task_database):
    """The comparison itself fails when one answered message is taken away."""
    load = Load(home, "self-test", autostart=False)
    daemon = Daemon(home, **task_database.settings)
    try:
        daemon.wait_until_it_serves()
        load.run(60, lambda _: daemon.kill())
    finally:
        daemon.close()
    with closing(task_database.connect_after_kill()) as database:
        assert_nothing_is_lost(database, load)
        texts = [text for record in load.records for text in record.said]
        taken = f"'{texts[0]} %'"
        database.execute(f"DELETE FROM task_messages WHERE content LIKE {taken}")  # noqa: S608 - its own text
        with pytest.raises(AssertionError, match="was said, and is lost"):
            assert_nothing_is_lost(database, load)
        database.rollback()
        database.execute("UPDATE tasks SET message_count = message_count + 1")
        with pytest.raises(AssertionError):
            assert_nothing_is_lost(database, load)
