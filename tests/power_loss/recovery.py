"""What is checked in each folder that a kill or a power cut leaves: a daemon can go on from it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from copy import copy
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Final

from openclaw_taskmem.clock import SystemClock
from openclaw_taskmem.daemon.home_identity import ensure_identity
from openclaw_taskmem.daemon.lock import Lock
from openclaw_taskmem.engine import notifications
from openclaw_taskmem.engine.run_recovery import release_wakes, reschedule_tasks
from taskmem_hookspecs import TaskQuery, TaskStatus, WakeState
from taskmem_hookspecs.roles import LOSS_SUFFIX
from taskmem_hookspecs.testing import FakeClock
from taskmem_sqlmodel.database import open_database
from taskmem_sqlmodel.store import SqlStore
from tests.power_loss.images import Disk
from tests.power_loss.operations import OPEN, SYNC, Operation
from tests.power_loss.scenario import Answered, digest_rows
from tests.support.world import PERSON, World

MEMORY: Final = Path("/dev/shm")  # noqa: S108 - folders of our own in it
_ENDED_ROUNDS: Final = (
    "SELECT 'wait:' || wait_id || ':' || round FROM waits "
    "WHERE status NOT IN ('watching', 'cancelled')"
)


class Recording:
    """All that a daemon did to its home, and what was answered meanwhile."""

    def __init__(self, operations: Sequence[Operation], answers: Sequence[Answered]) -> None:
        self.operations = operations
        self.answers = answers
        self._ended = SystemClock().now()
        self._order: dict[str, int] = {}
        """When each content of the database was first there."""
        self._recovered: set[str] = set()
        self._identity = _find_identity(operations)

    def forget_syncs(self, of: str) -> Recording:
        """Return it as of a disk that lies: files whose paths begin like this were never synced."""
        lying = copy(self)
        lying.operations = [
            each._replace(kind=OPEN) if each.kind == SYNC and each.path.startswith(of) else each
            for each in self.operations
        ]
        return lying

    def check_kills(self, every: int = 1) -> int:
        """Check what a kill leaves, before each n-th operation; return how many there were."""
        return sum(self._check_kills(every))

    def _check_kills(self, every: int) -> Iterator[int]:
        last = 0
        for done, disk in self._replay(every):
            with _make_folder() as folder:
                disk.write_killed(folder)
                digest = self._check_image(folder, done)
                number = self._order.setdefault(digest, len(self._order))
                assert number >= last, f"a kill at {done} takes back what was there"
                last = number
                self._check_answers(digest, done)
            yield 1

    def check_cuts(self, choose: Random, every: int = 1, times: int = 1) -> int:
        """Check what a power cut may leave; `check_kills` comes first, with every operation."""
        count = 0
        for done, disk in self._replay(every):
            for _ in range(times):
                with _make_folder() as folder:
                    disk.write_cut(folder, choose)
                    digest = self._check_image(folder, done)
                    assert digest in self._order, f"a cut at {done} leaves what never was"
                    self._check_answers(digest, done)
                count += 1
        return count

    def _replay(self, every: int) -> Iterator[tuple[int, Disk]]:
        disk = Disk()
        for done in range(len(self.operations) + 1):
            if done:
                disk.apply(self.operations[done - 1])
            if done % every == 0:
                yield done, disk

    def _check_answers(self, digest: str, done: int) -> None:
        """Whatever was answered by then is there."""
        known = [self._order.get(each.digest) for each in self.answers if each.done <= done]
        assert None not in known, f"what was answered before {done} is in no image"
        newest = max((each for each in known if each is not None), default=-1)
        assert self._order[digest] >= newest, f"after operation {done} an answer is lost"

    def _check_image(self, folder: Path, done: int) -> str:
        """Open everything as a daemon does that starts; return what the database has."""
        home = _open_home_files(folder)
        if any(each.done <= done for each in self.answers):
            assert home == self._identity, f"after operation {done} the home is another one"
        path = folder / "taskmem.db"
        database = open_database(f"sqlite:///{path}")
        with closing(sqlite3.connect(path)) as raw:
            assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)], done
            for words in ("message_words", "task_words"):
                raw.execute(f"INSERT INTO {words}({words}) VALUES ('integrity-check')")  # noqa: S608
            raw.rollback()
            digest = digest_rows(raw)
        database.close()
        if digest not in self._recovered:
            self._recovered.add(digest)
            recover(path, home, self._ended)
        return digest


def recover(path: Path, home: str, now: datetime) -> None:
    """Start what a daemon starts, twice: nothing is told twice, and all tasks go on."""
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("PRAGMA foreign_key_check").fetchall() == []
        told = Counter(key for (key,) in raw.execute("SELECT key FROM wakes"))
        owed = Counter(key for (key,) in raw.execute(_ENDED_ROUNDS))
        assert not {key: n for key, n in told.items() if n > 1}, "a wake is there twice"
        assert owed <= told, "a wait has ended, and nobody is told"
        assert not raw.execute(
            "SELECT task_id FROM tasks AS t WHERE message_count != "
            "(SELECT count(*) FROM task_messages AS m WHERE m.task_id = t.task_id)"
        ).fetchall()
    first = _start(path, home, now)
    again = _start(path, home, now)
    assert not first & again, "a wake goes out twice"


def _start(path: Path, home: str, now: datetime) -> set[str]:
    """Start, deliver, and go on with each task; return the wakes that went out."""
    with closing(SqlStore(f"sqlite:///{path}")) as store:
        assert not path.with_suffix(LOSS_SUFFIX).exists(), "nothing is gone"
        world = World(store, FakeClock(now), home=home, sole=True)
        due = {wake.wake_id for wake in world.wakes(WakeState.DUE)}
        world.context.store.join_database()
        notifications.set_start_positions(world.context)
        reschedule_tasks(world.context)
        release_wakes(world.context)
        sent = [wake.wake_id for wake in world.deliver()]
        assert len(sent) == len(set(sent))
        assert set(sent) <= due, "a wake goes out that was not owed"
        for task in store.find_tasks(TaskQuery(status=TaskStatus.ACTIVE)):
            world.call("task_update", PERSON, task_id=task.task_id, message="Go on.")
    return set(sent)


def _find_identity(operations: Iterable[Operation]) -> str:
    """Return the identity that was written into the home."""
    written = (each.data for each in operations if each.path.startswith("home.id") and each.data)
    return next(written).split(b"\n")[0].decode()


def _open_home_files(folder: Path) -> str:
    """Open the files beside the database as a daemon does; return the home's identity."""
    Lock(folder / "daemon.lock").release()
    return ensure_identity(folder / "home.id", shares=False)


@contextmanager
def _make_folder() -> Iterator[Path]:
    """Give a folder in memory, where there is any: nothing else syncs."""
    place = MEMORY if os.access(MEMORY, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="taskmem-cut", dir=place))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
