"""What the recorder stores of a real screen, and what it does not."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from PIL import Image

from openclaw_taskmem.clock import SystemClock
from openclaw_taskmem.domain.text.redaction import scrub
from plugins.taskmem_recorder.tests.recording_room import run_recorder
from taskmem_hookspecs import StoreFull
from taskmem_recorder import displays, recorder, x11
from taskmem_recorder.displays import DisplayLost
from taskmem_recorder.machine import MachineFacts
from taskmem_recorder.reports import load_report
from taskmem_recorder.screen import RecordedScreen, ScreenPicture
from taskmem_recorder.state import (
    Exclusion,
    ExclusionKind,
    RecordingState,
    add_exclusion,
    load_state,
    save_state,
)
from taskmem_recorder.store import make_store
from taskmem_recorder.windows import MARK_TITLE, Rules
from tests.support.desktop import desktop
from tests.support.failing_displays import FailingDisplay
from tests.support.processes import bind_command, end
from tests.support.scenes import Scene
from tests.support.screens import Screen, require_screen
from tests.support.waiting import until


def test_a_window_becomes_a_moment_with_text_and_picture(room) -> None:
    room.switch_on()
    with room.show("Deploy notes", "The invoices were deployed"):
        moment = room.await_moment("Deploy notes", "invoices were deployed")
    assert moment.application == "XTerm"
    assert moment.page is None
    assert moment.picture is not None
    with Image.open(room.home / "recordings" / moment.picture) as picture:
        assert picture.size == (1280, 800)


def test_what_reading_takes_is_in_the_report_of_its_costs(room) -> None:
    room.switch_on()
    with room.show("Deploy notes", "The invoices were deployed"):
        room.await_moment("Deploy notes", "invoices")
        read = room.recorder._reader.cpu_seconds
        assert read > 0
        until(lambda: room.recorder._report.cpu_seconds > read, "its costs are counted")


_FORTY = """
import tkinter
root = tkinter.Tk()
root.withdraw()
for number in range(40):
    window = tkinter.Toplevel(root)
    window.title(f"Window {number}")
    window.geometry(f"300x200+{number * 20}+{number * 12}")
    tkinter.Label(window, text=f"Page {number} of forty").pack()
root.mainloop()
"""


def test_forty_windows_and_a_video_beside_them_are_one_screen(room, monkeypatch) -> None:
    looks, look = list[RecordedScreen](), RecordedScreen.look

    def count_look(screen: RecordedScreen) -> Image.Image:
        looks.append(screen)
        return look(screen)

    monkeypatch.setattr(RecordedScreen, "look", count_look)
    forty = subprocess.Popen(bind_command(sys.executable, "-c", _FORTY), env=room.screen.environ)
    try:
        with desktop(room.screen.display) as found, Scene(room.screen, "video_corner") as video:
            video.ready()
            until(lambda: len(found.titles) > 40, "forty windows and a video")
            room.switch_on()
            with room.show("Deploy notes", "The invoices were deployed"):
                room.await_moment("Deploy notes", "invoices")
                seen = len(looks)
                until(lambda: len(looks) >= seen + 20, "looks at the video")
    finally:
        end(forty)
    assert len(room.titles()) <= 12, room.titles()


def test_its_report_names_the_display_at_once(room, monkeypatch) -> None:
    monkeypatch.setattr(recorder, "REPORT_SECONDS", 3600)
    for _ in range(2):
        room.switch_on()
        since = load_state(room.home).on_since

        def is_told(since=since) -> bool:
            report = load_report(room.home)
            told = report is not None and report.at >= since
            return told and report.display == room.screen.display

        until(is_told, "the display")
        room.switch_off()
        until(lambda: room.recorder._display is None, "the end of it")


def test_files_of_recordings_are_their_owners_alone(room) -> None:
    room.switch_on()
    with room.show("Deploy notes", "The invoices were deployed"):
        room.await_moment("Deploy notes")
    modes = {
        stat.S_IMODE(each.stat().st_mode): each.name
        for each in (room.home / "recordings").rglob("*")
    }
    assert set(modes) == {0o600, 0o700}, modes


def test_nothing_is_recorded_when_off(room, witness) -> None:
    with room.show("Secret plans", "takeover of the bakery", ink=True):
        witness.await_moment("Secret plans", "bakery")
        assert room.recorder.activity() is None
    assert not (room.home / "recordings").exists()


def test_nothing_more_is_recorded_once_it_is_off(room, witness) -> None:
    room.switch_on()
    with room.show("Deploy notes", "The invoices were deployed"):
        room.await_moment("Deploy notes", "invoices")
    room.switch_off()
    with room.show("Secret plans", "takeover of the bakery", ink=True):
        witness.await_moment("Secret plans", "bakery")
    assert not room.holds("bakery")
    assert not room.shows_ink()


def _pause(state):
    later = datetime.now(UTC) + timedelta(hours=1)
    return state.model_copy(update={"paused_until": later})


def _exclude_now(state):
    now = datetime.now().astimezone()
    hours = f"{now - timedelta(hours=1):%H:%M}-{now + timedelta(hours=1):%H:%M}"
    return add_exclusion(state, Exclusion(kind=ExclusionKind.TIME, what=hours))


@pytest.mark.parametrize("change", [_pause, _exclude_now])
def test_nothing_is_recorded_while_paused(room, witness, change) -> None:
    """Nor at a time of the day that is left out."""
    room.change(change)
    room.switch_on()
    room.change(change)
    with room.show("Secret plans", "takeover of the bakery", ink=True):
        witness.await_moment("Secret plans", "bakery")
    room.change(lambda state: state.model_copy(update={"paused_until": None, "exclusions": ()}))
    with room.show("Later notes", "The invoices were paid"):
        room.await_moment("Later notes", "invoices")
    assert not room.holds("bakery")
    assert not room.shows_ink()


def test_what_was_seen_before_a_switch_is_not_stored_after_it(room) -> None:
    """Also if its text was being read meanwhile."""
    read = room.recorder._reader.read_screen

    async def read_slowly(*given):
        found = await read(*given)
        if any("bakery" in line for line in found.lines):
            room.change(lambda state: state.model_copy(update={"forgot_at": datetime.now(UTC)}))
            room.recorder._reader.read_screen = read
            secret.terminate()
        return found

    room.recorder._reader.read_screen = read_slowly
    with room.show("Secret plans", "takeover of the bakery", ink=True) as secret:
        room.switch_on()
        secret.wait()
    with room.show("Later notes", "The invoices were paid"):
        room.await_moment("Later notes")
    assert not room.holds("bakery")
    assert not room.shows_ink()


def test_a_picture_with_a_credential_is_not_kept(room) -> None:
    room.switch_on()
    with room.show("Keys", "https://me:correcthorse@example.org/x"):
        moment = room.await_moment("Keys", "https")
    assert moment.picture is None
    assert not room.holds("correcthorse")


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (MachineFacts(is_on_battery=True), "battery"),
        (MachineFacts(load=9.0), "busy"),
        (MachineFacts(free_bytes=1 << 20), "disk"),
        (MachineFacts(reads_text=False), "reads text"),
    ],
)
def test_it_rests_and_says_why_until_the_cause_is_gone(room, monkeypatch, facts, why) -> None:
    monkeypatch.setattr(recorder, "FACTS_SECONDS", 0.05)
    room.facts = facts
    room.switch_on()
    with room.show("Deploy notes", "The invoices were deployed"):
        until(lambda: why in (room.recorder.activity() or ""), f"a rest because of {why}")
        assert room.titles() == []
        room.facts = MachineFacts()
        room.await_moment("Deploy notes")
        until(lambda: "since" in room.recorder.activity(), "the rest is over")


def test_nothing_is_stored_once_the_session_is_locked(room, witness, monkeypatch) -> None:
    """However long ago it was last looked whether the recorder must rest."""
    monkeypatch.setattr(recorder, "FACTS_SECONDS", 3600)
    room.switch_on()
    with room.show("Deploy notes", "The invoices were deployed"):
        room.await_moment("Deploy notes")
    room.facts = MachineFacts(is_locked=True)
    with room.show("Secret plans", "takeover of the bakery", ink=True):
        witness.await_moment("Secret plans", "bakery")
        until(lambda: "locked" in room.recorder.activity(), "a rest")
    assert not room.holds("bakery")
    assert not room.shows_ink()


@pytest.mark.parametrize(
    "error", [StoreFull("The disk is full."), OSError(5, "Input/output error")]
)
def test_a_store_that_fails_is_told_and_tried_again(room, monkeypatch, error) -> None:
    monkeypatch.setattr(recorder, "RETRY_SECONDS", 0.05)
    add = room.store.add_moment

    def fail(*_: object) -> int:
        raise error

    room.store.add_moment = fail
    room.switch_on()
    with room.show("Deploy notes", "The invoices were deployed"):
        until(lambda: "rests" in room.recorder.activity(), "a rest")
        room.store.add_moment = add
        room.await_moment("Deploy notes")
        until(lambda: "rests" not in room.recorder.activity(), "the rest is over")


async def test_no_display_is_told_before_a_busy_machine(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(displays, "list_sockets", list)
    found = recorder.ScreenRecorder(
        *(tmp_path, make_store(tmp_path), SystemClock(), scrub, {}),
        read_machine=lambda *_, **__: MachineFacts(load=9.0),
    )
    assert "There is no display" in str(await found._find_hindrance(RecordingState(on=True)))


async def test_a_failure_of_its_own_is_told(tmp_path, monkeypatch) -> None:
    def fail(*_: object) -> RecordedScreen:
        raise ZeroDivisionError

    monkeypatch.setattr(RecordedScreen, "open", fail)
    save_state(tmp_path, RecordingState(on=True))
    found = recorder.ScreenRecorder(
        *(tmp_path, make_store(tmp_path), SystemClock(), scrub, {"DISPLAY": ":9"}),
        read_machine=lambda *_, **__: MachineFacts(),
    )
    with pytest.raises(ZeroDivisionError):
        await found.run()
    assert "rests: it failed" in found.activity()


@pytest.mark.parametrize(
    ("environ", "terminal", "recorded"),
    [
        ({"DISPLAY": ":9"}, ":7", ":7"),
        ({"DISPLAY": ":9"}, ":7.0", ":7.0"),
        ({"DISPLAY": ":9"}, ":6", ":9"),
        ({}, ":6", ":6"),
        ({"DISPLAY": ":9"}, "far.example.org:10", ":9"),
        ({"DISPLAY": ":9"}, None, ":9"),
        ({"TASKMEM_DISPLAY": ":8", "DISPLAY": ":9"}, ":7", ":8"),
    ],
)
async def test_the_screen_of_the_users_terminal_is_recorded(
    monkeypatch, environ, terminal, recorded
) -> None:
    asked = []

    def refuse(name: str) -> None:
        asked.append(name)
        raise DisplayLost("It is only asked for.")

    monkeypatch.setattr(x11, "RecordedDisplay", refuse)
    monkeypatch.setattr(displays, "list_sockets", lambda: ["X7", "X9"])
    with pytest.raises(DisplayLost):
        RecordedScreen.open(environ, terminal)
    assert asked == [recorded]


def test_a_display_that_goes_is_told_and_waited_for(tmp_path, monkeypatch) -> None:
    require_screen("tesseract")
    monkeypatch.setattr(recorder, "RETRY_SECONDS", 0.05)
    with Screen((800, 600)) as screen, run_recorder(tmp_path, screen) as room:
        room.switch_on()
        with room.show("Deploy notes", "The invoices were deployed"):
            room.await_moment("Deploy notes")
        screen.stop()
        until(lambda: "display" in room.recorder.activity(), "a rest")
        screen.start()
        with room.show("Later notes", "The invoices were paid"):
            room.await_moment("Later notes")


async def test_a_display_may_go_at_any_answer(screen, room) -> None:
    async def find_no_words(_: Image.Image) -> tuple[()]:
        return ()

    async def record_once(environ: Mapping[str, str]) -> ScreenPicture | None:
        with closing(RecordedScreen.open(environ)) as recorded:
            recorded.show_mark()
            recorded.find_front()
            recorded.look()
            return await recorded.take_picture(rules, find_no_words)

    hidden = Exclusion(kind=ExclusionKind.APPLICATION, what="Hidden")
    rules = Rules((hidden,))
    with room.show("Below", "Hidden", "-class", "Hidden"), room.show("Above", "The invoices"):
        for answers in count():
            with FailingDisplay(screen, answers) as display:
                try:
                    picture = await record_once(display.variables)
                except DisplayLost:
                    continue
            assert picture is not None
            assert answers > 20
            break


async def test_without_a_manager_the_mark_is_not_the_window_in_front() -> None:
    async def find_no_words(_: Image.Image) -> tuple[()]:
        return ()

    require_screen()
    with Screen((800, 600), manager=False) as shown:
        screen = RecordedScreen.open(shown.environ)
        screen.show_mark()
        assert MARK_TITLE in [each.title for each in screen.list_windows()]
        assert await screen.take_picture(Rules(), find_no_words) is None
        screen.close()


def test_a_mark_shows_while_it_records_unless_switched_off(room) -> None:
    def is_marked() -> bool:
        red, green, blue = room.screen.picture().getpixel((1280 - 17, 17))
        return red > 200 and green < 60 and blue < 60

    assert not is_marked()
    room.switch_on()
    until(is_marked, "a mark")
    room.change(lambda state: state.model_copy(update={"shows_mark": False}))
    until(lambda: not is_marked(), "no mark")
    room.change(lambda state: state.model_copy(update={"shows_mark": True}))
    until(is_marked, "a mark")
    room.switch_off()
    until(lambda: not is_marked(), "no mark")
