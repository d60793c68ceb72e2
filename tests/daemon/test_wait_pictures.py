"""Which pictures of a wait are kept, and that keeping them harms nobody."""

from __future__ import annotations

import errno
import gc
import logging
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openclaw_taskmem.daemon.snapshots import (
    SeenPicture,
    SnapshotMoment,
    SnapshotStore,
    WaitSnapshots,
)
from openclaw_taskmem.engine.context import collect_due_work
from taskmem_hookspecs import Change, Frame, Met, Picture, Ruling, StoreFull, Wait, WaitStatus
from taskmem_hookspecs.testing import DAWN, FakeClock
from tests.daemon.watched import WatchedWorld, watch_world
from tests.support.memory_store import MemoryStore
from tests.support.stage import Stage

GAP = 5.0


class PaintedPicture:
    """Plays `Picture`: a JPEG that holds its name, or what a test makes of it."""

    size = (1920, 1080)

    def __init__(self, name: str, jpeg: Callable[[], Any] | None = None) -> None:
        self.name = name
        self.asked: list[int] = []
        self._jpeg = jpeg

    def __bool__(self) -> bool:
        raise AssertionError("a picture is nobody's truth")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("a picture is only itself")

    __hash__ = object.__hash__

    def png(self) -> bytes:
        raise AssertionError("nobody asked for a PNG")

    def jpeg(self, longest: int) -> bytes:
        self.asked.append(longest)
        return self._jpeg() if self._jpeg else b"\xff\xd8 " + self.name.encode()


class Slow(PaintedPicture):
    """Another plug-in's, for all that is known of it."""


@pytest.fixture
def snapshot_store(tmp_path: Path) -> SnapshotStore:
    return SnapshotStore(tmp_path / "pictures", 7)


def plugin(stage: Stage) -> tuple[str, Any]:
    """Return the stage as a plug-in that the pictures made here belong to."""
    made = stage.plugin()
    made.__name__ = __name__
    return ("painter", made)


def show(stage: Stage, picture: Any, text: str = ".") -> None:
    stage.scene("build").picture = picture
    stage.scene("build").show(text)


def read_pictures(snapshot_store: SnapshotStore, wait_id: str) -> dict[str, str]:
    found = snapshot_store.find_snapshots(wait_id)
    return {m.value: each.path.read_bytes()[3:].decode() for m, each in found.items()}


async def wait_until_seen(room: WatchedWorld, wait_id: str, text: str) -> None:
    await room.until(lambda: text in (room.room.read_observation(wait_id) or ""))


def last_error_of(room: WatchedWorld) -> str:
    (found,) = room.world.context.plugin_host.plugins
    return found.last_error or ""


# --- which are kept -----------------------------------------------------------


async def test_wait_keeps_its_first_last_and_deciding_pictures(
    stage: Stage, snapshot_store: SnapshotStore
) -> None:
    one, two, three = map(PaintedPicture, ("one", "two", "three"))
    stage.scene("build").picture = one
    async with watch_world(plugin(stage), snapshot_store=snapshot_store) as room:
        wait = await room.wait()
        await room.until(
            lambda: read_pictures(snapshot_store, wait) == {"first": "one", "last": "one"}
        )
        await room.pass_time(GAP)
        show(stage, two)
        await room.until(lambda: read_pictures(snapshot_store, wait).get("last") == "two")
        show(stage, three, "READY\n")
        assert (await room.wait_for_end(wait)).status is WaitStatus.RESOLVED

        every = {"first": "one", "last": "three", "deciding": "three"}
        await room.until(lambda: read_pictures(snapshot_store, wait) == every)
    assert {each.taken_at for each in snapshot_store.find_snapshots(wait).values()} == {DAWN}
    assert {*one.asked, *two.asked, *three.asked} == {960}


async def test_the_first_is_the_first_that_there_is(
    stage: Stage, snapshot_store: SnapshotStore
) -> None:
    async with watch_world(plugin(stage), snapshot_store=snapshot_store) as room:
        wait = await room.wait()
        show(stage, PaintedPicture("one"), "one")
        await wait_until_seen(room, wait, "one")
        show(stage, PaintedPicture("two"), "two")
        await wait_until_seen(room, wait, "two")
        await room.until(
            lambda: read_pictures(snapshot_store, wait) == {"first": "one", "last": "one"}
        )


async def test_judges_are_asked_again_when_only_the_picture_changes(
    stage: Stage, snapshot_store: SnapshotStore
) -> None:
    one, two = PaintedPicture("one"), PaintedPicture("two")

    async def rule(_: str, frame: Frame) -> Ruling:
        met = Met.YES if frame.picture is two else Met.NO
        return Ruling(met=met, observation="So it was")

    stage.rules["READY"] = rule
    stage.scene("build").picture = one
    async with watch_world(plugin(stage), snapshot_store=snapshot_store) as room:
        wait = await room.wait()
        show(stage, two, "")
        assert (await room.wait_for_end(wait)).status is WaitStatus.RESOLVED


async def test_a_ruling_may_rest_on_another_picture_than_the_frames(
    stage: Stage, snapshot_store: SnapshotStore
) -> None:
    own = PaintedPicture("own")

    async def rule(_: str, frame: Frame) -> Ruling:
        return Ruling(met=Met.YES, observation="So it was", picture=own)

    stage.rules["READY"] = rule
    stage.scene("build").picture = PaintedPicture("frame")
    async with watch_world(plugin(stage), snapshot_store=snapshot_store) as room:
        made = await room.call("smart_wait", target="pty:build", wake_when="READY")
        await room.until(lambda: len(snapshot_store.find_snapshots(made["wait_id"])) == 3)
        assert read_pictures(snapshot_store, made["wait_id"]) == {
            "first": "frame",
            "last": "own",
            "deciding": "own",
        }


async def test_nothing_decided_a_wait_that_was_not_resolved(
    stage: Stage, snapshot_store: SnapshotStore
) -> None:
    stage.scene("build").picture = PaintedPicture("one")
    async with watch_world(plugin(stage), snapshot_store=snapshot_store) as room:
        late, gone, off = [await room.wait(timeout=t) for t in (60, 99, 99)]
        await room.call("wait_cancel", wait_id=off)
        await room.pass_time(61)
        assert (await room.wait_for_end(late)).status is WaitStatus.TIMEOUT
        stage.scene("build").leave("It was closed.")
        assert (await room.wait_for_end(gone)).status is WaitStatus.ERROR
        for wait in (late, gone, off):
            await room.until(lambda w=wait: room.room.read_observation(w) is None)
        await room.settle()
        for wait in (late, gone, off):
            assert read_pictures(snapshot_store, wait) == {"first": "one", "last": "one"}


class Unreferable:
    """A picture that cannot be held weakly."""

    __slots__ = ()
    size = (1, 1)

    def png(self) -> bytes:
        return b""

    def jpeg(self, longest: int) -> bytes:
        return b"" * longest


class NotingQueue:
    """Plays a queue: notes what it is given."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.moments: list[SnapshotMoment] = []

    def put(self, _: WaitSnapshots, moment: SnapshotMoment, __: SeenPicture) -> None:
        self.moments.append(moment)


@pytest.mark.parametrize("make", [lambda: PaintedPicture("one"), Unreferable])
async def test_one_picture_is_kept_as_the_last_once(make: Callable[[], Picture]) -> None:
    queue, picture = NotingQueue(), make()
    snapshots = WaitSnapshots("wait_1", queue, resumed=False)  # type: ignore[arg-type]
    for _ in range(3):
        snapshots.observe(SeenPicture(picture, DAWN))
    snapshots.end(SeenPicture(picture, DAWN), resolved=False)
    assert queue.moments == [SnapshotMoment.LAST]


async def test_a_picture_that_was_handed_on_is_held_no_longer() -> None:
    """A screen takes megabytes, and each wait was told of another last."""
    picture = PaintedPicture("one")
    held = weakref.ref(picture)
    snapshots = WaitSnapshots("wait_1", NotingQueue(), resumed=False)  # type: ignore[arg-type]
    snapshots.observe(SeenPicture(picture, DAWN))
    del picture
    gc.collect()
    assert held() is None
    snapshots.close()


async def test_the_last_is_not_kept_more_often_than_every_few_seconds(
    stage: Stage, snapshot_store: SnapshotStore
) -> None:
    pictures = [PaintedPicture(str(number)) for number in range(5)]
    stage.scene("build").picture = pictures[0]
    async with watch_world(plugin(stage), snapshot_store=snapshot_store) as room:
        wait = await room.wait()
        for number in range(1, 5):
            show(stage, pictures[number], f"<{number}>")
            await wait_until_seen(room, wait, f"<{number}>")
        await room.pass_time(GAP - 0.5)
        await room.settle()
        assert read_pictures(snapshot_store, wait)["last"] == "0"

        await room.pass_time(0.5)

        await room.until(lambda: read_pictures(snapshot_store, wait).get("last") == "4")
    assert [bool(picture.asked) for picture in pictures] == [1, 0, 0, 0, 1]


async def test_the_end_of_a_wait_does_not_rest_before_its_last(
    stage: Stage, snapshot_store: SnapshotStore
) -> None:
    stage.scene("build").picture = PaintedPicture("one")
    async with watch_world(plugin(stage), snapshot_store=snapshot_store) as room:
        wait = await room.wait()
        show(stage, PaintedPicture("two"), "two")
        await wait_until_seen(room, wait, "two")
        await room.call("wait_cancel", wait_id=wait)

        await room.until(lambda: read_pictures(snapshot_store, wait).get("last") == "two")


async def test_updated_wait_keeps_old_pictures_until_new_ones_exist(
    stage: Stage, snapshot_store: SnapshotStore
) -> None:
    stage.scene("build").picture = PaintedPicture("one")
    async with watch_world(plugin(stage), snapshot_store=snapshot_store) as room:
        wait = await room.wait()
        show(stage, PaintedPicture("two"), "READY\n")
        await room.until(lambda: "deciding" in read_pictures(snapshot_store, wait))
        before = read_pictures(snapshot_store, wait)
        show(stage, None)
        await room.pass_time(1)
        await room.call("wait_update", wait_id=wait, wake_when="ROWS")
        await room.until(lambda: room.room.read_observation(wait))
        await room.settle()
        assert read_pictures(snapshot_store, wait) == before

        show(stage, PaintedPicture("three"), "three")

        await wait_until_seen(room, wait, "three")
        await room.until(lambda: read_pictures(snapshot_store, wait).get("last") == "three")
        assert read_pictures(snapshot_store, wait) == {
            "first": "three",
            "last": "three",
            "deciding": "two",
        }


async def test_after_a_death_the_first_is_still_the_first(
    stage: Stage, snapshot_store: SnapshotStore
) -> None:
    store, clock = MemoryStore(), FakeClock()
    stage.scene("build").picture = PaintedPicture("one")
    async with watch_world(
        plugin(stage), store=store, clock=clock, snapshot_store=snapshot_store
    ) as room:
        wait = await room.wait()
        await room.until(lambda: "last" in read_pictures(snapshot_store, wait))
        first = room.world

    stage.scene("build").picture = PaintedPicture("two")
    async with watch_world(
        plugin(stage), store=store, clock=clock, snapshot_store=snapshot_store, worlds=[first]
    ) as room:
        await room.until(
            lambda: read_pictures(snapshot_store, wait) == {"first": "one", "last": "two"}
        )


async def test_days_of_0_keep_nothing_and_encode_nothing(stage: Stage, tmp_path: Path) -> None:
    snapshot_store, one = SnapshotStore(tmp_path / "pictures", 0), PaintedPicture("one")
    SnapshotStore(tmp_path / "pictures", 7).write("wait_0", SnapshotMoment.LAST, b"old", DAWN)
    stage.scene("build").picture = one
    async with watch_world(plugin(stage), snapshot_store=snapshot_store) as room:
        wait = await room.wait()
        stage.scene("build").show("READY\n")
        await room.wait_for_end(wait)
        await room.settle()
    assert one.asked == []
    assert list((tmp_path / "pictures").iterdir()) == []


# --- what goes wrong ----------------------------------------------------------


async def test_wait_end_is_committed_before_its_picture_is_made(
    stage: Stage, snapshot_store: SnapshotStore
) -> None:
    statuses: list[WaitStatus] = []
    async with watch_world(plugin(stage), snapshot_store=snapshot_store) as room:
        wait = await room.wait()

        def jpeg() -> bytes:
            statuses.append(room.row(wait).status)
            return b"\xff\xd8"

        own = PaintedPicture("own", jpeg)

        async def rule(_: str, frame: Frame) -> Ruling:
            return Ruling(met=Met.YES, observation="So it was", picture=own)

        stage.rules["READY"] = rule
        stage.scene("build").show("READY\n")
        await room.until(lambda: "deciding" in read_pictures(snapshot_store, wait))
    assert set(statuses[-1:]) == {WaitStatus.RESOLVED}


class Full(MemoryStore):
    """A store that may have no room for wakes, and so for no end but a cancel."""

    full = False

    def commit(self, change: Any) -> None:
        if self.full and change.wakes:
            raise StoreFull("no room")
        super().commit(change)


async def test_wait_without_a_committed_end_has_no_deciding_picture(
    stage: Stage, snapshot_store: SnapshotStore
) -> None:
    store = Full()
    stage.scene("build").picture = PaintedPicture("one")
    async with watch_world(plugin(stage), store=store, snapshot_store=snapshot_store) as room:
        wait = await room.wait()
        store.full = True
        stage.scene("build").show("READY\n")
        await room.pass_time(2)
        assert "deciding" not in read_pictures(snapshot_store, wait)
        store.full = False
        await room.pass_time(10)
        await room.until(lambda: "deciding" in read_pictures(snapshot_store, wait))


async def test_wait_cancelled_before_its_end_has_no_deciding_picture(
    stage: Stage, snapshot_store: SnapshotStore
) -> None:
    store = Full()
    stage.scene("build").picture = PaintedPicture("one")
    async with watch_world(plugin(stage), store=store, snapshot_store=snapshot_store) as room:
        wait = await room.wait()
        store.full = True
        show(stage, PaintedPicture("two"), "READY\n")
        await wait_until_seen(room, wait, "READY was shown")
        await room.call("wait_cancel", wait_id=wait)
        await room.until(lambda: read_pictures(snapshot_store, wait).get("last") == "two")
        await room.settle()
        assert read_pictures(snapshot_store, wait) == {"first": "one", "last": "two"}


async def test_wait_ended_by_another_daemon_has_no_deciding_picture(
    stage: Stage, snapshot_store: SnapshotStore
) -> None:
    stage.scene("build").picture = PaintedPicture("one")
    async with watch_world(plugin(stage), snapshot_store=snapshot_store) as room:
        wait = await room.wait()
        theirs = room.row(wait).model_copy(update={"status": WaitStatus.RESOLVED})
        change = Change(waits=(theirs,))
        room.world.store.commit(change)
        room.room.follow(collect_due_work(change))
        await room.until(lambda: room.room.read_observation(wait) is None)
        await room.settle()
        assert read_pictures(snapshot_store, wait) == {"first": "one", "last": "one"}


NONSENSE: dict[str, Any] = {
    "text": "\xff\xd8",
    "no JPEG": b"\x89PNG",
    "too large": b"\xff\xd8" + bytes(2 * 1024 * 1024),
}


@pytest.mark.parametrize("answer", NONSENSE.values(), ids=NONSENSE.keys())
async def test_invalid_picture_is_not_kept_and_its_plugin_is_named(
    stage: Stage, snapshot_store: SnapshotStore, answer: Any
) -> None:
    stage.scene("build").picture = PaintedPicture("bad", lambda: answer)
    async with watch_world(plugin(stage), snapshot_store=snapshot_store) as room:
        wait = await room.wait()
        await room.until(lambda: last_error_of(room))
        assert last_error_of(room).startswith(f"a picture of {wait}: TypeError: answered")
        stage.scene("build").show("READY\n")
        assert (await room.wait_for_end(wait)).status is WaitStatus.RESOLVED
        assert read_pictures(snapshot_store, wait) == {}


async def test_a_picture_of_2_mib_is_kept(stage: Stage, snapshot_store: SnapshotStore) -> None:
    large = b"\xff\xd8" + bytes(2 * 1024 * 1024 - 2)
    stage.scene("build").picture = PaintedPicture("large", lambda: large)
    async with watch_world(plugin(stage), snapshot_store=snapshot_store) as room:
        wait = await room.wait()
        await room.until(lambda: len(snapshot_store.find_snapshots(wait)) == 2)


async def test_raising_picture_costs_only_itself_and_is_logged_once(
    stage: Stage, snapshot_store: SnapshotStore, caplog: pytest.LogCaptureFixture
) -> None:
    def burn() -> bytes:
        raise RuntimeError("the film burnt")

    stage.scene("build").picture = PaintedPicture("one", burn)
    async with watch_world(plugin(stage), snapshot_store=snapshot_store) as room:
        wait = await room.wait()
        await room.pass_time(GAP)
        show(stage, PaintedPicture("two", burn), "two")
        await wait_until_seen(room, wait, "two")
        await room.pass_time(GAP)
        show(stage, PaintedPicture("three"), "READY\n")
        assert (await room.wait_for_end(wait)).status is WaitStatus.RESOLVED
        await room.until(lambda: len(snapshot_store.find_snapshots(wait)) == 2)
        assert read_pictures(snapshot_store, wait) == {"last": "three", "deciding": "three"}
    told = [line for line in caplog.messages if "the film burnt" in line]
    place = f"({__file__}:{burn.__code__.co_firstlineno + 1})"
    assert told == [
        f"plug-in painter failed; a picture of {wait}: RuntimeError: the film burnt {place}"
    ]


async def test_a_wait_ends_while_its_picture_is_still_being_made(
    stage: Stage, snapshot_store: SnapshotStore
) -> None:
    released, begun = threading.Event(), threading.Event()

    def develop() -> bytes:
        begun.set()
        released.wait(30)
        return b"\xff\xd8 slow"

    stage.scene("build").picture = PaintedPicture("slow", develop)
    async with watch_world(plugin(stage), snapshot_store=snapshot_store) as room:
        wait = await room.wait()
        await room.until(begun.is_set)
        stage.scene("build").show("READY\n")

        assert (await room.wait_for_end(wait)).status is WaitStatus.RESOLVED

        assert (read_pictures(snapshot_store, wait), last_error_of(room)) == ({}, "")
        released.set()
        await room.until(lambda: read_pictures(snapshot_store, wait).get("deciding") == "slow")


async def test_pictures_that_hang_hold_up_nobody(
    stage: Stage, snapshot_store: SnapshotStore
) -> None:
    released, begun = threading.Event(), threading.Event()

    def hang() -> bytes:
        begun.set()
        released.wait(30)
        return b"\xff\xd8 late"

    stage.scene("build").picture = Slow("slow", hang)
    stage.scene("other").picture = PaintedPicture("quick")
    async with watch_world(plugin(stage), snapshot_store=snapshot_store) as room:
        room.world.context.plugin_host._seconds = 0.1
        wait = await room.wait()
        await room.until(begun.is_set)
        other = await room.wait("pty:other")
        stage.scene("build").show("READY\n")

        assert (await room.wait_for_end(wait)).status is WaitStatus.RESOLVED
        await room.until(lambda: read_pictures(snapshot_store, other).get("last") == "quick")
        assert "no answer within 0.1 s" in last_error_of(room)
        assert read_pictures(snapshot_store, wait) == {}

        # While it hangs it is asked for no other.
        again = Slow("again")
        stage.scene("build").picture = again
        third = await room.wait(wake_when="ROWS")
        await room.settle()
        assert again.asked == []
        released.set()
        show(stage, Slow("more"), "ROWS\n")
        await room.until(lambda: read_pictures(snapshot_store, third).get("deciding") == "more")


async def test_a_full_disk_costs_only_the_pictures_and_is_told_once(
    stage: Stage,
    snapshot_store: SnapshotStore,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(SnapshotStore, "write", full)
    stage.scene("build").picture = PaintedPicture("one")
    async with watch_world(plugin(stage), snapshot_store=snapshot_store) as room:
        wait = await room.wait()
        await room.pass_time(GAP)
        show(stage, PaintedPicture("two"), "READY\n")
        assert (await room.wait_for_end(wait)).status is WaitStatus.RESOLVED
        await room.settle()
    (told,) = [line for line in caplog.messages if "picture" in line]
    assert told == (
        f"a picture of {wait} cannot be kept ([Errno {errno.ENOSPC}] No space left on "
        "device); the wait goes on without"
    )


# --- pruned -------------------------------------------------------------------


async def test_the_album_is_pruned_at_the_start_and_every_hour(
    stage: Stage, snapshot_store: SnapshotStore
) -> None:
    snapshot_store.write("wait_gone", SnapshotMoment.LAST, b"old", DAWN)
    async with watch_world(plugin(stage), snapshot_store=snapshot_store) as room:
        await room.until(lambda: not snapshot_store.find_snapshots("wait_gone"))
        snapshot_store.write("wait_gone", SnapshotMoment.LAST, b"old", DAWN)
        await room.pass_time(3599, step=100)
        await room.settle()
        assert snapshot_store.find_snapshots("wait_gone")
        await room.pass_time(1)
        await room.until(lambda: not snapshot_store.find_snapshots("wait_gone"))


async def test_what_a_store_in_trouble_cannot_tell_of_is_not_removed(
    stage: Stage, snapshot_store: SnapshotStore, caplog: pytest.LogCaptureFixture
) -> None:
    class Away(MemoryStore):
        away = True

        def read_wait(self, wait_id: str) -> Wait:
            if self.away:
                raise OSError("the database is away")
            return super().read_wait(wait_id)

    store = Away()
    snapshot_store.write("wait_gone", SnapshotMoment.LAST, b"old", DAWN)
    with caplog.at_level(logging.WARNING):
        async with watch_world(plugin(stage), store=store, snapshot_store=snapshot_store) as room:
            await room.until(lambda: caplog.messages)
            assert snapshot_store.find_snapshots("wait_gone")
            store.away = False
            await room.pass_time(3600, step=100)
            await room.until(lambda: not snapshot_store.find_snapshots("wait_gone"))
    assert caplog.messages == ["old pictures could not be removed: the database is away"]
