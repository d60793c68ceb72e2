"""Waits for what becomes of a path."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from openclaw_taskmem.daemon.judges import _find_judged_forms
from openclaw_taskmem.domain.conditions.conditions import parse_condition
from openclaw_taskmem.plugin_host.plugin_host import PluginHost
from taskmem_hookspecs import (
    ConditionUnclear,
    Frame,
    InvalidArguments,
    Judge,
    NotAllowed,
    Target,
    TargetNotFound,
    file_access,
)
from taskmem_hookspecs import paths as hook_paths
from taskmem_hookspecs.conditions import State
from taskmem_hookspecs.testing import DAWN, JudgeSuite, SensorSuite
from taskmem_targets import hooks, paths
from taskmem_targets.facts import SIZE, FactJudge
from taskmem_targets.paths import PathSensor


class TestPathSensor(SensorSuite):
    def make_sensor(self, tmp_path: Path) -> PathSensor:
        return PathSensor()

    def make_target(self, tmp_path: Path) -> Target:
        (tmp_path / "file").touch()
        return Target(scheme="path", name=str(tmp_path / "file"))

    def show(self, tmp_path: Path, text: str) -> None:
        with (tmp_path / "file").open("a") as file:
            file.write(text)

    def make_missing(self, tmp_path: Path) -> None:
        return None

    def is_shown(self, frame: Frame, text: str) -> bool:
        lines = int(text.split()[1])
        return frame.numbers[SIZE] == lines * len(text) and State.CHANGED in frame.states


class TestFactJudge(JudgeSuite):
    def make_judge(self, tmp_path: Path) -> Judge:
        return judge_of("size >= 10 and it changes, or it is gone")

    def make_met(self, tmp_path: Path) -> Sequence[Frame]:
        return [*self.make_unmet(tmp_path), make_frame(State.THERE, State.CHANGED, size=10)]

    def make_unmet(self, tmp_path: Path) -> Sequence[Frame]:
        return [make_frame(State.THERE, size=10), make_frame(State.THERE, State.CHANGED, size=9)]


def make_frame(*states: State, size: int | None = None, still: float = 0) -> Frame:
    """A look at something that has not changed for some seconds."""
    return Frame(
        seen_at=DAWN,
        place="1",
        states=frozenset(states),
        numbers={} if size is None else {SIZE: size},
        changed_at=DAWN - timedelta(seconds=still),
    )


def judge_of(sentence: str) -> Judge:
    target = Target(scheme="path", name="/file")
    judge = hooks.wait_judge(target, parse_condition(sentence, target.scheme))
    assert judge is not None
    return judge


def rule(sentence: str, frame: Frame) -> tuple[str, float | None]:
    ruling = asyncio.run(judge_of(sentence).rule(frame))
    return ruling.met, ruling.look_again_seconds


@pytest.mark.parametrize(
    ("name", "local", "rests"),
    [
        ("file", file_access._LOCAL, True),
        ("missing", file_access._LOCAL, True),
        ("folder", file_access._LOCAL, False),
        ("link", file_access._LOCAL, False),
        ("dead", file_access._LOCAL, False),
        ("no-folder/file", file_access._LOCAL, False),
        ("file", (), False),
    ],
)
def test_only_a_plain_file_of_this_machine_rests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, local: object, *, rests: bool
):
    monkeypatch.setattr(file_access, "_LOCAL", local)
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "dead").symlink_to(tmp_path / "missing")

    async def run() -> float:
        watch = await PathSensor().watch(Target(scheme="path", name=str(tmp_path / name)))
        await asyncio.wait_for(watch.wait_for_change(), 10)  # of the watch that begins
        seconds = watch.rest_seconds
        await watch.close()
        return seconds

    assert (asyncio.run(run()) > 0) is rests


def test_a_write_through_another_name_is_found_by_comparing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(file_access, "_COMPARE_SECONDS", 0.05)
    (tmp_path / "there").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "there" / "other").hardlink_to(tmp_path / "file")

    async def run() -> None:
        watch = await PathSensor().watch(Target(scheme="path", name=str(tmp_path / "file")))
        here = (await watch.here()).place
        for text in ("begun", "done"):
            (tmp_path / "there" / "other").write_text(text)
            while (await watch.look(here, here)).place == here:
                await asyncio.wait_for(watch.wait_for_change(), 10)
            here = await watch.end()
        await watch.close()

    asyncio.run(run())


@pytest.mark.parametrize("is_made", [False, True])
def test_a_file_in_a_folder_that_is_made_anew_is_told_of(tmp_path: Path, *, is_made: bool):
    folder = tmp_path / "work" / "build"
    if is_made:
        folder.mkdir(parents=True)

    async def run() -> None:
        watched = await PathSensor().watch(Target(scheme="path", name=str(folder / "out")))
        if is_made:
            await asyncio.wait_for(watched.wait_for_change(), 10)  # of the watch that begins
            folder.rmdir()
        folder.mkdir(parents=True)
        if not is_made:
            assert watched.rest_seconds == 0
            await watched.here()
        (folder / "out").touch()
        while State.THERE not in (await watched.look("-", "-")).states:
            await asyncio.wait_for(watched.wait_for_change(), 10)
        await watched.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("sentence", "form"),
    [
        ("size >= 10", "size >= 10"),
        ("size > 1.5 MB", "size > 1500000"),
        ("it is larger than 10 bytes", "size > 10"),
        ("reaches 10MB", "size >= 10000000"),
        ("its size is at least 2 GiB", "size >= 2147483648"),
        ("is bigger than 10", None),
        ("has 3 lines", None),
        ("size >= 3 lines", None),
    ],
)
def test_a_size_is_read_with_its_unit(sentence: str, form: str | None):
    (side,) = parse_condition(sentence, "path").sides
    assert [str(each) for each in side.forms] == ([] if form is None else [form])


@pytest.mark.parametrize(
    ("sentence", "state"),
    [
        ("it appears", State.THERE),
        ("the file exists", State.THERE),
        ("it is there", State.THERE),
        ("wake me once the lock file is gone", State.GONE),
        ("the path no longer exists", State.GONE),
        ("the folder changes", State.CHANGED),
        ("is gone", State.GONE),
        ("gets deleted", State.GONE),
        ("created", State.THERE),
        ("the file has been modified", State.CHANGED),
    ],
)
def test_what_becomes_of_it_is_read_as_people_say_it(sentence: str, state: State):
    assert rule(sentence, make_frame(state))[0] == "yes"
    assert rule(sentence, make_frame(*set(State) - {state}))[0] == "no"


def test_silence_is_asked_for_when_it_may_hold():
    sentence = "it is quiet for 30 s"
    assert rule(sentence, make_frame(State.THERE, still=20)) == ("no", 10)
    assert rule(sentence, make_frame(State.THERE, still=30)) == ("yes", None)


@pytest.mark.parametrize("sentence", ['"done" appears', "it exits", "it looks finished"])
def test_what_no_path_tells_is_refused_with_what_it_tells(sentence: str):
    with pytest.raises(ConditionUnclear, match="appears, is gone, changes"):
        judge_of(sentence)


@pytest.mark.parametrize("name", ["file", "~/file", "./file"])
def test_a_path_that_is_not_absolute_is_refused(name: str):
    with pytest.raises(InvalidArguments, match="write path:/folder/name"):
        asyncio.run(PathSensor().watch(Target(scheme="path", name=name)))


@pytest.mark.parametrize(("count", "is_known"), [(1, True), (3, False)])
def test_a_folder_rests_as_long_as_the_files_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, *, is_known: bool
):
    monkeypatch.setattr(paths, "_MOST_FILES", 2)
    files = [tmp_path / f"film{number}" for number in range(count)]
    for file in files:
        file.touch()
    before = tmp_path.stat().st_ctime
    while files[-1].stat().st_ctime <= before:
        files[-1].write_text("more")  # the folder's own times stay as they are

    found = paths._look_at(str(tmp_path), None).entry

    assert found is not None
    at = found.changed_at and found.changed_at.timestamp()
    assert at == (pytest.approx(files[-1].stat().st_ctime, abs=1e-5) if is_known else None)


def test_a_path_whose_folder_is_not_there_is_waited_for(tmp_path: Path):
    async def run() -> Frame:
        path = tmp_path / "later" / "file"
        watch = await PathSensor().watch(Target(scheme="path", name=str(path)))
        place = await watch.end()
        path.parent.mkdir()
        path.touch()
        frame = await watch.look(place, place)
        await watch.close()
        return frame

    frame = asyncio.run(run())
    assert frame.states == {State.THERE, State.CHANGED}


@pytest.mark.parametrize("name", ["*.md", "report-?.csv", "[a-z]"])
def test_a_pattern_is_refused_unless_a_file_has_that_name(tmp_path: Path, name: str):
    async def run() -> None:
        watch = await PathSensor().watch(Target(scheme="path", name=str(tmp_path / name)))
        await watch.close()

    with pytest.raises(InvalidArguments, match=f"wait until path:{tmp_path} changes"):
        asyncio.run(run())
    (tmp_path / name).touch()
    asyncio.run(run())


def test_a_mount_that_does_not_answer_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    hangs, find = threading.Event(), paths._look_at

    def find_late(path: str, within: tuple[str, ...] | None) -> paths._Finding:
        assert hangs.wait(10)
        return find(path, within)

    async def run() -> list[Frame]:
        watch = await PathSensor().watch(Target(scheme="path", name=str(tmp_path)))
        place = await watch.end()
        monkeypatch.setattr("taskmem_targets.paths._look_at", find_late)
        monkeypatch.setattr("taskmem_targets.paths._LOOK_SECONDS", 0.05)
        hanging = await watch.look(place, place)
        hangs.set()
        monkeypatch.setattr("taskmem_targets.paths._LOOK_SECONDS", 10)
        answered = await watch.look(place, place)
        await watch.close()
        return [hanging, answered]

    hanging, answered = asyncio.run(run())
    assert "did not answer within" in str(hanging.note)
    assert not hanging.states
    assert answered.states


def test_looks_that_hang_keep_no_other_from_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    hung, hangs, look_at = tmp_path / "hung", threading.Event(), paths._look_at
    asked: list[str] = []

    def look_late(path: str, within: tuple[str, ...] | None) -> paths._Finding:
        asked.append(path)
        assert not path.startswith(str(hung)) or hangs.wait(10)
        return look_at(path, within)

    async def run() -> Frame:
        sensor = PathSensor()
        for name in ("1", "1", "2", "3"):
            with pytest.raises(TargetNotFound, match="did not answer"):
                await sensor.watch(Target(scheme="path", name=str(hung / name)))
        monkeypatch.setattr(paths, "_LOOK_SECONDS", 10)
        watch = await sensor.watch(Target(scheme="path", name=str(tmp_path / "file")))
        frame = await watch.here()
        await watch.close()
        hangs.set()
        for name in ("1", "2", "3"):
            watch = await sensor.watch(Target(scheme="path", name=str(hung / name)))
            await watch.close()
        return frame

    monkeypatch.setattr(paths, "_look_at", look_late)
    monkeypatch.setattr(paths, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(paths, "_MOST_HANGING", 2)
    monkeypatch.setattr(paths, "list_mounts", lambda: {"/": "ext4", str(hung): "fuse"})
    assert "is not there" in str(asyncio.run(run()).tail)
    assert [Path(path).name for path in asked[:4]] == ["1", "2", "file", "file"]


def test_a_folder_that_hangs_keeps_no_other_from_being_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    hung, hangs, is_allowed = tmp_path / "hung", threading.Event(), os.access
    hung.mkdir()
    (tmp_path / "file").touch()
    (hung / "other").hardlink_to(tmp_path / "file")
    monkeypatch.setattr(file_access, "_COMPARE_SECONDS", 0.05)
    monkeypatch.setattr(file_access, "_ANSWER_SECONDS", 0.05)

    def ask_late(path: object, mode: int) -> bool:
        assert path != hung or hangs.wait(30)
        return is_allowed(path, mode)  # type: ignore[arg-type]

    async def run() -> None:
        sensor = PathSensor()
        names = (hung / "new", tmp_path / "file")
        watches = [await sensor.watch(Target(scheme="path", name=str(each))) for each in names]
        monkeypatch.setattr(file_access.os, "access", ask_late)
        sensor._changes.renew()
        while watches[0].rest_seconds or not watches[1].rest_seconds:
            await asyncio.wait_for(watches[1].wait_for_change(), 10)
        here = await watches[1].end()
        (hung / "other").write_text("through another name")
        while State.CHANGED not in (await watches[1].look(here, here)).states:
            await asyncio.wait_for(watches[1].wait_for_change(), 10)
        hangs.set()
        while not watches[0].rest_seconds:
            await asyncio.wait_for(watches[0].wait_for_change(), 10)
        for each in watches:
            await each.close()

    asyncio.run(run())


def test_a_folder_that_is_named_is_enough_to_allow_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    resolve = hook_paths.resolve_links
    monkeypatch.delenv("TASKMEM_HOME")
    monkeypatch.setattr(hook_paths, "resolve_links", lambda path: pytest.fail(f"asked {path}"))
    monkeypatch.setattr(file_access, "resolve_links", resolve)
    allowed = ("/mnt/hung", str(tmp_path))
    assert file_access.require_viewable(str(tmp_path / "file"), allowed) == str(tmp_path / "file")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ESTALE])
def test_what_cannot_be_looked_at_is_not_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
):
    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    async def run() -> Frame:
        watch = await PathSensor().watch(Target(scheme="path", name=str(tmp_path / "file")))
        place = await watch.end()
        monkeypatch.setattr(paths.os, "open", fail)
        frame = await watch.look(place, place)
        monkeypatch.undo()
        await watch.close()
        return frame

    (tmp_path / "file").touch()
    frame = asyncio.run(run())
    assert not frame.states
    assert os.strerror(number) in str(frame.note)


def test_a_path_that_is_refused_is_not_listened_to():
    sensor = PathSensor()
    with pytest.raises(NotAllowed):
        asyncio.run(sensor.watch(Target(scheme="path", name="/etc/shadow")))
    assert not sensor._changes._listeners


def test_a_path_that_became_a_link_to_a_key_shows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    key, file = tmp_path / ".ssh" / "file", tmp_path / "work" / "file"
    for each in (key, file):
        each.parent.mkdir()
        each.touch()
    resolve = file_access.resolve_links

    def resolve_and_swap(path: str) -> str:
        end = resolve(path)
        if path == str(file) and not file.parent.is_symlink():
            file.parent.rename(tmp_path / "old")
            file.parent.symlink_to(key.parent)
        return end

    monkeypatch.setattr(file_access, "resolve_links", resolve_and_swap)
    with pytest.raises(NotAllowed, match="is never shown"):
        paths._look_at(str(file), None)


def test_a_folder_that_may_not_be_watched_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    secret, is_allowed = tmp_path / "secret", os.access
    secret.mkdir()
    monkeypatch.setattr(
        file_access.os, "access", lambda path, mode: path != secret and is_allowed(path, mode)
    )

    async def run() -> None:
        sensor = PathSensor()
        names = (secret / "file", tmp_path / "file")
        watches = [await sensor.watch(Target(scheme="path", name=str(each))) for each in names]
        await asyncio.wait_for(watches[1].wait_for_change(), 10)  # of the watch that begins
        assert [each.rest_seconds > 0 for each in watches] == [False, True]
        (tmp_path / "file").touch()
        await asyncio.wait_for(watches[1].wait_for_change(), 10)
        for each in watches:
            await each.close()

    asyncio.run(run())


def test_a_refusal_lists_the_forms_of_each_target():
    points = [("targets", hooks)]
    listed = {
        scheme: _find_judged_forms(
            PluginHost(entries=(), extra=points), Target(scheme=scheme, name="1"), None
        )
        for scheme in ("path", "process", "time")
    }
    assert listed == {
        "path": ("quiet for N s", "appears", "is gone", "changes", "size >= N bytes"),
        "process": ("exits",),
        "time": ("comes",),
    }


def test_judges_of_other_targets_are_left_to_others():
    target = Target(scheme="pty", name="build")
    assert hooks.wait_judge(target, parse_condition("exits")) is None
    assert isinstance(judge_of("changes"), FactJudge)


def test_a_file_that_is_a_mount_point_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    mounted, other = tmp_path / "mounted", tmp_path / "other"
    for each in (mounted, other):
        each.touch()
    mounts = {**file_access.list_mounts(), str(mounted): "ext4"}
    monkeypatch.setattr(file_access, "list_mounts", lambda: mounts)

    async def run() -> list[bool]:
        sensor = PathSensor()
        names = (str(each) for each in (mounted, other))
        watches = [await sensor.watch(Target(scheme="path", name=name)) for name in names]
        while not watches[1].rest_seconds:
            await asyncio.wait_for(watches[1].wait_for_change(), 10)
        rests = [each.rest_seconds > 0 for each in watches]
        for each in watches:
            await each.close()
        return rests

    assert asyncio.run(run()) == [False, True]
