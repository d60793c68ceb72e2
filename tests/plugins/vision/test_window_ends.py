"""One window on a real display: how it ends, and what may be strange about it."""

from __future__ import annotations

import os
import signal
from contextlib import closing
from pathlib import Path

import pytest
from xcffib.xproto import WindowClass

from taskmem_hookspecs import TargetGone, TargetNotFound
from taskmem_vision.x11 import DisplayGone, X11Display
from tests.plugins.vision.papers import (
    BLUE,
    GREEN,
    RED,
    await_change,
    await_frame,
    colours,
    look,
    papers_on,
    watch_target,
)
from tests.support.inks import INK, has_ink
from tests.support.scenes import Scene
from tests.support.screens import Screen, require_screen

BANK = {"TASKMEM_PRIVATE_WINDOWS": "bank"}

# --- how it ends --------------------------------------------------------------------


async def test_closed_it_is_told_at_once_with_its_sentence(screen, papers):
    window = papers.open("Ending")
    async with watch_target(screen, "window:Ending") as watch:
        await watch.here()
        papers.shut(window)
        frame = await await_frame(watch, lambda frame: frame.gone)
        assert frame.gone == f'The window "Ending" (0x{window:x}) was closed.'
        assert frame.picture is None
        assert (await look(watch)).gone == frame.gone
        with pytest.raises(TargetGone, match="was closed"):
            await watch.here()


async def test_closed_while_it_is_minimised_it_is_told_at_once(screen, papers):
    window = papers.open("Ending")
    async with watch_target(screen, "window:Ending") as watch:
        papers.minimise(window)
        await await_frame(watch, lambda frame: frame.picture is None)
        papers.shut(window)
        await await_frame(watch, lambda frame: frame.gone)


async def test_its_program_killed_it_is_told_at_once(screen):
    with Scene(screen, "plain") as scene:
        scene.ready()
        async with watch_target(screen, scene.target) as watch:
            await watch.here()
            os.kill(scene.pid, signal.SIGKILL)
            frame = await await_frame(watch, lambda frame: frame.gone)
            assert "was closed" in frame.gone


async def test_the_server_killed_it_is_told_at_once():
    require_screen()
    with Screen((640, 480)) as doomed, papers_on(doomed) as papers:
        papers.open("Ending")
        async with watch_target(doomed, "window:Ending") as watch:
            await watch.here()
            os.kill(doomed.pids[0], signal.SIGKILL)
            frame = await await_frame(watch, lambda frame: frame.gone)
            assert frame.gone.endswith("went away with its display.")
            # Unknown, so that nobody takes it for a window that closed.
            assert frame.text is None


async def test_a_server_that_ends_its_windows_first_closed_none(screen, papers, monkeypatch):
    window = papers.open("Ending")
    async with watch_target(screen, "window:Ending") as watch:
        await watch.here()

        def is_gone(self, number):
            raise DisplayGone("The display is gone.")

        monkeypatch.setattr(X11Display, "read_box", is_gone)
        papers.shut(window)
        frame = await await_frame(watch, lambda frame: frame.gone)
        assert frame.gone.endswith("went away with its display.")
        assert frame.text is None


async def test_a_window_that_closes_right_after_it_was_chosen_is_gone(screen, papers, monkeypatch):
    from taskmem_vision import desktop

    window = papers.open("Fleeting")
    told = desktop.describe_choice
    monkeypatch.setattr(desktop, "describe_choice", lambda c: papers.shut(window) or told(c))
    with pytest.raises(TargetGone):
        async with watch_target(screen, "window:Fleeting"):
            pass


# --- the hostile and the strange ----------------------------------------------------


async def test_a_program_that_hangs_holds_up_nobody(screen):
    with Scene(screen, "plain") as scene:
        scene.ready()
        scene.tell("paint")
        os.kill(scene.pid, signal.SIGSTOP)
        try:
            async with watch_target(screen, scene.target) as watch:
                frame = await watch.here()
                assert has_ink(frame.picture.png(), INK)
        finally:
            os.kill(scene.pid, signal.SIGCONT)


async def test_a_title_may_hold_anything(screen, papers):
    window = papers.open("Hostile")
    async with watch_target(screen, f"window:0x{window:x}") as watch:
        for raw, begins in [
            (b"Bell\x07 and\x1b[31m red\nand \x00 more", "Bell and [31m red and"),
            (b"\xff\xfe\xc3", "\ufffd"),
            ("\u202e reversed \U000e0001".encode(), "reversed"),
            (b"A" * 4_000_000, "AAAA"),
        ]:
            papers.call_raw(window, raw)

            def has_title(frame, begins=begins):
                return frame.text.startswith(begins)

            frame = await await_frame(watch, has_title)
            assert frame.text.isprintable()
            assert len(frame.text) <= 4096


async def test_an_old_title_is_read_as_latin_1(screen, papers):
    papers.open("Café".encode("latin-1"))
    async with watch_target(screen, "window:Café") as watch:
        assert (await watch.here()).text == "Café"


async def test_one_that_retitles_itself_all_the_time_holds_up_nobody(screen, papers):
    window = papers.open("Flood")
    async with watch_target(screen, "window:Flood") as watch:
        await watch.here()
        for number in range(3000):
            papers.call(window, f"Flood {number}")
        await await_frame(watch, lambda frame: frame.text == "Flood 2999")


async def test_without_a_window_manager_windows_and_dialogs_are_found(bare):
    with papers_on(bare) as papers:
        window = papers.open("Bare")
        async with watch_target(bare, "window:Bare") as watch:
            assert colours(await watch.here()) == {GREEN}
            await await_change(watch)
            await look(watch)
            papers.open("Error", (50, 50), (100, 100), colour=RED, owner=window)
            await await_frame(watch, lambda frame: RED in colours(frame))
            papers.shut(window)
            await await_frame(watch, lambda frame: frame.gone)


@pytest.mark.parametrize("frames", [1, 3])
async def test_framed_window_is_found_under_a_manager_without_a_list(bare, frames):
    with papers_on(bare) as papers:
        inner = papers.open(at=(0, 0), size=(300, 220), colour=BLUE)
        for _ in range(frames - 1):
            inner = papers.open(at=(0, 0), size=(300, 220), colour=BLUE, within=inner)
        papers.open(at=(0, 0), size=(300, 20), colour=RED, within=inner)
        papers.open("My Bank", at=(0, 20), colour=RED, within=inner)
        papers.open("Public", (60, 40), (400, 300))
        async with watch_target(bare, "screen", **BANK) as watch:
            assert colours(await watch.here()) == {0, GREEN}
        async with watch_target(bare, "window:bank") as watch:
            assert (await watch.here()).text == "My Bank"
        with pytest.raises(TargetNotFound, match="private"):
            async with watch_target(bare, "window:bank", **BANK):
                pass


async def test_window_that_is_never_painted_is_neither_seen_nor_gone(bare):
    with papers_on(bare) as papers:
        papers.open("Ghost", kind=WindowClass.InputOnly)
        async with watch_target(bare, "window:Ghost") as watch:
            frame = await watch.here()
            assert frame.picture is None
            assert frame.gone is None


async def test_window_is_seen_on_a_server_without_shared_memory(screen, papers, monkeypatch):
    def refuse_memory(*_):
        raise OSError(28, "there is no memory to share")

    monkeypatch.setattr("taskmem_vision.x11.SharedSegment._ensure_size", refuse_memory)
    papers.open("Remote")
    async with watch_target(screen, "window:Remote") as watch:
        assert colours(await watch.here()) == {GREEN}


def count_attached() -> int:
    """Return how many pieces of shared memory this process holds."""
    return Path("/proc/self/maps").read_text().count("/SYSV")


def test_memory_that_the_server_shares_no_longer_is_given_back(bare, monkeypatch):
    from taskmem_vision.x11 import X11Display

    before = count_attached()
    with papers_on(bare) as papers, closing(X11Display(bare.display)) as display:
        window = papers.open("Once shared")
        display.watch_paint(window)
        pixels = display.read_pixels(window)
        assert count_attached() == before + 1
        put = display._put_image
        monkeypatch.setattr(display, "_put_image", lambda _, *given: put(0, *given))
        assert display.read_pixels(window) == pixels
        assert count_attached() == before


async def test_a_scene_is_watched_through_all_that_happens_to_it(screen):
    with Scene(screen, "plain", geometry="300x200+50+60") as scene:
        scene.ready()
        async with watch_target(screen, scene.target) as watch:
            assert not has_ink((await watch.here()).picture.png(), INK)
            scene.tell("paint")
            await await_frame(watch, lambda frame: has_ink(frame.picture.png(), INK))
            scene.tell("move 200 90")
            scene.tell("resize 320 240")
            await await_frame(watch, lambda frame: frame.picture.size == (320, 240))
            scene.tell("wipe")
            await await_frame(watch, lambda frame: not has_ink(frame.picture.png(), INK))
            scene.tell("close")
            await await_frame(watch, lambda frame: frame.gone)


def test_an_error_that_nobody_waits_for_is_passed_over(bare):
    from taskmem_vision.x11 import X11Display

    with papers_on(bare) as papers:
        window = papers.open("Fleeting")
        display = X11Display(bare.display)
        display.watch_paint(window)
        papers.shut(window)
        display.rearm_paint()
        assert display.read_window(window) is None
        assert display.read_events() is not None
        display.close()
