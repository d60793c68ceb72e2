"""All of a screen: painted anywhere, away and back; and what of it is private."""

from __future__ import annotations

import asyncio
import os
import signal
from itertools import count
from pathlib import Path

import pytest

from taskmem_hookspecs import InvalidArguments, Target, TargetGone, TargetNotFound
from taskmem_hookspecs.errors import NoProvider
from taskmem_vision import picture_watch
from taskmem_vision import sensor as watches
from tests.plugins.vision.papers import (
    BLUE,
    GREEN,
    RED,
    await_change,
    await_frame,
    colours,
    look,
    papers_on,
    sensor,
    watch_target,
)
from tests.support.failing_displays import FailingDisplay
from tests.support.screens import Screen, require_screen
from tests.support.waiting import until

HELD = ("fd", "task")
SECRET = {"TASKMEM_PRIVATE_WINDOWS": "bank , DIARY"}


@pytest.fixture
def polls(monkeypatch):
    """No xcffib; and looks that come soon enough for a test."""
    monkeypatch.setattr("taskmem_vision.sensor._has_x11", lambda: False)
    monkeypatch.setattr(picture_watch, "LOOK_GAP", 0.01)
    monkeypatch.setattr(picture_watch, "POLL_GAP", 0.02)


# --- what is seen -------------------------------------------------------------------


async def test_it_is_all_that_the_screen_shows(screen, papers):
    papers.open("One", at=(0, 0), colour=BLUE)
    papers.open("Two", at=(600, 400), colour=RED)
    async with watch_target(screen, "screen") as watch:
        frame = await watch.here()
        assert frame.picture.size == screen.size
        assert {BLUE, RED} <= colours(frame)
        assert frame.note is None


async def test_whatever_is_painted_wakes_it_and_nothing_else_does(screen, papers):
    one = papers.open("One", at=(0, 0))
    two = papers.open("Two", at=(600, 400))
    async with watch_target(screen, "screen") as watch, watch_target(screen, "window:One") as other:
        await watch.here()
        papers.paint(two, RED)
        await await_frame(watch, lambda frame: RED in colours(frame))
        papers.paint(one, BLUE)
        frame = await await_frame(watch, lambda frame: BLUE in colours(frame))
        await other.here()
        await await_change(other)
        await look(other)
        assert (await look(watch)).picture.sight == frame.picture.sight
        waking = asyncio.create_task(watch.wait_for_change())
        papers.call(one, "One, too")
        await await_frame(other, lambda frame: frame.text == "One, too")
        waking.cancel()


async def test_a_screen_takes_no_name(screen):
    with pytest.raises(InvalidArguments, match="takes no name"):
        await sensor(screen).watch(Target(scheme="screen", name="left"))


async def test_a_display_that_is_not_there_is_refused(screen):
    for target in [Target(scheme="screen", name=""), Target(scheme="window", name="x")]:
        for name in [":63999", "nonsense", "\N{SNOWMAN}:0"]:
            with pytest.raises(NoProvider, match="XAUTHORITY"):
                await sensor(screen, TASKMEM_DISPLAY=name).watch(target)


async def test_picture_follows_the_size_of_the_monitors():
    require_screen()
    with Screen((1000, 700), manager=False) as other, papers_on(other) as papers:
        async with watch_target(other, "screen") as watch:
            assert (await watch.here()).picture.size == (1000, 700)
            for size in [(640, 480), (1000, 700)]:
                papers.resize_screen(*size)
                frame = await await_frame(
                    watch, lambda frame, size=size: frame.picture.size == size
                )
                assert frame.note is None


async def test_lost_display_server_is_noted_and_the_watch_recovers():
    require_screen()
    with Screen((500, 400), manager=False) as short:
        async with watch_target(short, "screen") as watch:
            assert (await watch.here()).picture is not None
            os.kill(short.pids[0], signal.SIGKILL)
            frame = await await_frame(watch, lambda frame: frame.picture is None)
            assert frame.note.startswith("The screen cannot be seen just now")
            assert frame.gone is None
            short.restart()
            frame = await await_frame(watch, lambda frame: frame.picture is not None)
            assert frame.note is None
            with papers_on(short) as papers:
                papers.open("Back", colour=RED)
                await await_frame(watch, lambda frame: RED in colours(frame))


@pytest.mark.parametrize("target", ["screen", "window:One"])
async def test_a_display_may_go_at_any_answer(screen, papers, target):
    papers.open("One")
    told = []
    for answers in count():
        with FailingDisplay(screen, answers) as display:
            try:
                async with watch_target(display, target) as watch:
                    frame = await watch.here()
            except (NoProvider, TargetGone) as gone:
                told.append(str(gone))
                continue
        if frame.picture is not None:
            break
        assert frame.note.startswith("The screen cannot be seen just now")
    assert answers > 10
    assert not any("was closed" in each for each in told)


async def test_while_the_server_is_away_it_is_not_asked_all_the_time(monkeypatch):
    require_screen()
    with Screen((500, 400), manager=False) as short:
        async with watch_target(short, "screen") as watch:
            os.kill(short.pids[0], signal.SIGKILL)
            await await_frame(watch, lambda frame: frame.picture is None)
            monkeypatch.setattr("taskmem_vision.picture_watch.LIVELY_SECONDS", 0.0)
            watch._throttle._looked_at = float("-inf")
            await look(watch)
            waking = asyncio.create_task(watch.wait_for_change())
            for _ in range(20):
                await asyncio.sleep(0)
            assert not waking.done()
            waking.cancel()


@pytest.mark.usefixtures("polls")
async def test_without_xcffib_it_is_looked_at_now_and_then(screen, papers):
    async with watch_target(screen, "screen") as watch:
        first = await watch.here()
        await await_change(watch)
        assert (await look(watch)).picture is first.picture
        papers.open("Two", colour=RED)
        await await_frame(watch, lambda frame: RED in colours(frame))


@pytest.mark.usefixtures("polls")
async def test_without_xcffib_a_screen_that_goes_away_comes_back():
    require_screen()
    with Screen((500, 400), manager=False) as short:
        async with watch_target(short, "screen") as watch:
            short.stop()
            await await_frame(watch, lambda frame: frame.picture is None)
            short.start()
            await await_frame(watch, lambda frame: frame.picture is not None)


# --- what is private ----------------------------------------------------------------


async def test_private_windows_are_black_wherever_they_are(screen, papers):
    papers.open("Public", at=(0, 0))
    bank = papers.open("My Bank", at=(300, 300), colour=RED)
    async with watch_target(screen, "screen", **SECRET) as watch:
        assert RED not in colours(await watch.here())
        for x, y in [(500, 100), (850, 600), (-100, 300)]:
            papers.place(bank, x, y)
            cover = papers.open("Cover", (50, 50), (0, 500), colour=BLUE)
            papers.paint(bank, RED)
            frame = await await_frame(watch, lambda frame: BLUE in colours(frame))
            assert RED not in colours(frame)
            papers.shut(cover)
            await await_frame(watch, lambda frame: BLUE not in colours(frame))
        assert GREEN in colours(await look(watch))


async def test_frame_of_a_private_window_is_black(screen, papers):
    bank = papers.open("My Bank: account 4711", at=(300, 300), colour=RED)
    async with watch_target(screen, "screen", **SECRET) as watch:
        frame = await watch.here()
        left, top, width, height = watch._display.read_frame_box(bank)
        assert height > watch._display.read_box(bank)[3]
        box = (left, top, left + width, top + height)
        assert frame.picture.image.crop(box).getcolors() == [(width * height, (0, 0, 0))]


async def test_dialog_of_a_private_window_is_black_whatever_its_title(screen, papers):
    bank = papers.open("My Bank", at=(300, 300))
    papers.open("Confirm", (90, 60), (10, 10), colour=RED, owner=bank)
    async with watch_target(screen, "screen", **SECRET) as watch:
        assert RED not in colours(await watch.here())


async def test_a_window_that_turns_private_is_black_from_then_on(screen, papers):
    window = papers.open("News", colour=RED)
    async with watch_target(screen, "screen", **SECRET) as watch:
        assert RED in colours(await watch.here())
        papers.call(window, "Bank")
        await await_frame(watch, lambda frame: RED not in colours(frame))


async def test_private_window_opened_during_a_shot_is_black(screen, papers, monkeypatch):
    async with watch_target(screen, "screen", **SECRET) as watch:
        shot = watches._take_screenshot

        def later(*given):
            papers.open("Bank", colour=RED)
            return shot(*given)

        monkeypatch.setattr(watches, "_take_screenshot", later)
        papers.open("Waker", (20, 20), (0, 600), colour=BLUE)
        frame = await await_frame(watch, lambda frame: BLUE in colours(frame))
        assert RED not in colours(frame)


async def test_a_private_window_is_refused_as_a_target_and_never_named(screen, papers):
    bank = papers.open("My Bank: account 4711")
    papers.open("Public 4711")
    for name in ["my bank", f"0x{bank:x}"]:
        with pytest.raises(TargetNotFound) as refused:
            async with watch_target(screen, f"window:{name}", **SECRET):
                pass
        assert str(refused.value) == (
            "The window is private, by TASKMEM_PRIVATE_WINDOWS, and not looked at."
        )
    with pytest.raises(TargetNotFound, match="Public") as refused:
        async with watch_target(screen, "window:nothing like it", **SECRET):
            pass
    assert "Bank" not in str(refused.value)
    async with watch_target(screen, "window:4711", **SECRET) as watch:
        frame = await watch.here()
        assert (frame.text, frame.note) == ("Public 4711", None)


async def test_a_target_that_turns_private_is_neither_shown_nor_named(screen, papers):
    window = papers.open("News")
    async with watch_target(screen, "window:News", **SECRET) as watch:
        await watch.here()
        papers.call(window, "Bank")
        frame = await await_frame(watch, lambda frame: frame.picture is None)
        assert frame.text is None
        assert "private now" in frame.note
        papers.call(window, "News again")
        await await_frame(watch, lambda frame: frame.text == "News again" and frame.picture)
        papers.call(window, "Bank")
        await await_frame(watch, lambda frame: frame.picture is None)
        papers.shut(window)
        frame = await await_frame(watch, lambda frame: frame.gone)
        assert frame.gone == "The window was closed."


async def test_target_that_turns_private_during_a_look_is_not_shown(screen, papers, monkeypatch):
    window = papers.open("News")
    async with watch_target(screen, "window:News", **SECRET) as watch:
        pixels = watch._display.read_pixels

        def later(number):
            papers.call(window, "Bank")
            return pixels(number)

        monkeypatch.setattr(watch._display, "read_pixels", later)
        frame = await watch.here()
        assert frame.picture is None
        assert frame.text is None


async def test_dialog_that_turns_private_during_a_look_is_not_shown(screen, papers, monkeypatch):
    window = papers.open("News", (400, 300), (100, 100))
    dialog = papers.open("Plain", (60, 40), (200, 200), colour=RED, owner=window)
    async with watch_target(screen, "window:News", **SECRET) as watch:
        pixels = watch._display.read_pixels

        def later(number):
            papers.call(dialog, "Diary")
            return pixels(number)

        monkeypatch.setattr(watch._display, "read_pixels", later)
        assert (await watch.here()).picture is None
        frame = await await_frame(watch, lambda frame: frame.picture is not None)
        assert colours(frame) == {GREEN, 0}


async def test_a_private_dialog_is_black_in_the_picture_of_its_window(screen, papers):
    window = papers.open("News", (400, 300), (100, 100))
    papers.open("Diary", (60, 40), (200, 200), colour=RED, owner=window)
    async with watch_target(screen, "window:News", **SECRET) as watch:
        assert colours(await watch.here()) == {GREEN, 0}


@pytest.mark.usefixtures("polls")
@pytest.mark.parametrize(
    ("scheme", "name", "said"),
    [
        ("screen", "", "cannot be kept to"),
        ("window", "x", r"without libxcb; install libxcb \(.*target screen"),
    ],
)
async def test_where_nobody_says_where_windows_are_nothing_is_watched(screen, scheme, name, said):
    with pytest.raises(NoProvider, match=said):
        await sensor(screen, **SECRET).watch(Target(scheme=scheme, name=name))


# --- nothing is left ----------------------------------------------------------------


def count_resources() -> tuple[int, int, set[str]]:
    """Return what this process holds: open files, threads, shared memory."""
    rows = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    mine = {row.split()[1] for row in rows if int(row.split()[4]) == os.getpid()}
    files, threads = (len([*Path("/proc/self", each).iterdir()]) for each in HELD)
    return files, threads, mine


def await_given_back(before: tuple[int, int, set[str]]) -> None:
    """Wait until nothing is held that was not before; the server takes its time."""

    def all_of_it() -> bool:
        pairs = zip(count_resources(), before, strict=True)
        return all(now <= then for now, then in pairs)

    until(all_of_it, "all was given back")


async def test_nothing_is_left_of_watches_that_were_closed(screen, papers):
    window = papers.open("Held")
    async with watch_target(screen, "screen") as watch:
        await watch.here()
    before = count_resources()
    for target in ["screen", "window:Held", f"window:0x{window:x}"]:
        async with watch_target(screen, target) as watch:
            await watch.here()
            papers.paint(window)
            await await_change(watch)
            await look(watch)
            assert count_resources() != before
        await watch.close()
        await asyncio.sleep(0)
        await_given_back(before)


async def test_nothing_is_left_of_what_could_not_be_opened(screen, papers, monkeypatch):
    window = papers.open("Held")
    before = count_resources()

    def fails(*_):
        raise OSError

    for target in ["window:not there", "window:Held", "screen"]:
        with monkeypatch.context() as patch:
            for step in ("watch_window", "watch_paint"):
                patch.setattr(f"taskmem_vision.x11.X11Display.{step}", fails)
                with pytest.raises((OSError, TargetNotFound)):
                    async with watch_target(screen, target):
                        pass
    with monkeypatch.context() as patch:
        patch.setattr("taskmem_vision.x11.X11Display._has_extension", lambda *_: False)
        for target in [f"window:0x{window:x}", "screen"]:
            with pytest.raises(NoProvider, match="Composite"):
                async with watch_target(screen, target):
                    pass
    await_given_back(before)


async def test_nothing_is_left_of_watches_whose_server_was_killed():
    require_screen()
    before = count_resources()
    with Screen((500, 400), manager=False) as short, papers_on(short) as papers:
        papers.open("Doomed")
        async with (
            watch_target(short, "window:Doomed") as window,
            watch_target(short, "screen") as screen,
        ):
            await window.here()
            await screen.here()
            os.kill(short.pids[0], signal.SIGKILL)
            await await_frame(window, lambda frame: frame.gone)
            await await_frame(screen, lambda frame: frame.picture is None)
    await_given_back(before)
