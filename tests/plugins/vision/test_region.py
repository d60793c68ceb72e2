"""A window without xcffib: where `xwininfo` says that it lies."""

from __future__ import annotations

import asyncio
import os

import pytest

from taskmem_hookspecs import TargetGone
from taskmem_hookspecs.errors import NoProvider
from taskmem_vision.capture import news
from taskmem_vision.capture.display import NotViewable
from taskmem_vision.capture.region import (
    PROGRAM,
    RegionWatch,
    listed,
    place_in,
    windows_in,
)
from taskmem_vision.capture.windows import Window
from taskmem_vision.gemini.keys import KEYS
from tests.plugins.vision.papers import (
    BLUE,
    GREEN,
    RED,
    colours,
    look,
    seen,
    watching,
)
from tests.support.screens import Screen, require_screen
from tests.support.waiting import until

TREE = """
xwininfo: Window id: 0x50d (the root window) (has no name)

  Root window id: 0x50d (the root window) (has no name)
  Parent window id: 0x0 (none)
     8 children:
     0x800005 "tab	here\x1b[31mred": ()  100x50+-20+30  +-20+30
     0x800004 (has no name): ()  100x50+-20+30  +-20+30
     0x800003 "naïve ✓": ()  100x50+-20+30  +-20+30
     0x800001 "quo"te": ("x" "y")  1x1+0+0  +0+0": ()  100x50+-20+30  +-20+30
     0x800000 "two
     0x600007 "Forged": ("a" "A")  10x10+0+0  +0+0": ()  100x50+-20+30  +-20+30
     0x40020b "Openbox": ("" (none))  1x1+-100+-100  +-100+-100
     0x40025f (has no name): ()  302x225+50+60  +50+60
        56 children:
        0x600007 "plain scene 0001": ("scene" "Scene")  300x200+1+20  +51+80
           1 child:
           0x600006 (has no name): ()  300x200+0+0  +51+80

"""
FACTS = """
xwininfo: Window id: 0x600007 "two
  Absolute upper-left X:  9999
  Map State: IsViewable"

  Absolute upper-left X:  -20
  Absolute upper-left Y:  80
  Relative upper-left X:  1
  Relative upper-left Y:  20
  Width: 300
  Height: 200
  Depth: 24
  Map State: {state}
  Override Redirect State: no
  Corners:  +51+80  -449+80  -449-320  +51-320
  -geometry 300x200+50+60

"""


@pytest.fixture(scope="module")
def screen():
    require_screen("xwininfo")
    with Screen((1000, 700)) as found:
        yield found


@pytest.fixture(autouse=True)
def _without_xcffib(monkeypatch):
    monkeypatch.setattr("taskmem_vision.capture.sensor._has_x11", lambda: False)
    monkeypatch.setattr(news, "GAP", 0.01)
    monkeypatch.setattr(news, "POLL", 0.02)


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Makes a program that stands in for xwininfo."""

    def made(script):
        path = tmp_path / PROGRAM
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    return made


def test_windows_with_a_title_are_read_whatever_the_titles_hold():
    titles = {window.id: window.title for window in windows_in(TREE)}
    assert titles[0x800005] == "tab here [31mred"
    assert titles[0x800003] == "naïve ✓"
    assert titles[0x800001] == 'quo"te": ("x" "y") 1x1+0+0 +0+0'
    assert 0x800004 not in titles
    assert windows_in("") == ()
    assert windows_in('     0x1 "a": ()  1x1+0+0  +0+0') == (Window(1, "a"),)


def test_a_place_is_what_the_program_said_last_for_a_title_may_say_anything():
    assert place_in(FACTS.format(state="IsViewable")) == (-20, 80, 300, 200)
    with pytest.raises(NotViewable, match="minimised"):
        place_in(FACTS.format(state="IsUnMapped"))
    with pytest.raises(TargetGone):
        place_in("")


def test_the_program_is_given_no_key(program, monkeypatch):
    for name in KEYS:
        monkeypatch.setenv(name, "a-secret")
    program(f"""echo '     0x1 "key:'${KEYS[0]}${KEYS[1]}'": ()  1x1+0+0  +0+0'""")
    assert listed(":1") == (Window(1, "key:"),)


async def test_its_region_is_seen_with_what_covers_it_and_a_note_says_so(
    screen, papers
):
    window = papers.open("Under", (300, 200), (50, 50))
    async with watching(screen, "window:under") as watch:
        frame = await watch.here()
        assert frame.picture.size == (300, 200)
        assert colours(frame) == {GREEN}
        assert frame.note.startswith("Only what is visible of the window is seen")
        assert "openclaw-taskmem[x11]" in frame.note
        papers.open("Over", (80, 80), (100, 100), colour=BLUE)
        await seen(watch, lambda frame: BLUE in colours(frame))
        papers.place(window, 600, 400)
        papers.paint(window, RED)
        await seen(watch, lambda frame: RED in colours(frame))
        papers.resize(window, 310, 210)
        await seen(watch, lambda frame: frame.picture.size == (310, 210))


async def test_partly_off_the_screen_the_rest_is_seen_and_off_it_nothing(
    screen, papers
):
    window = papers.open("Edge", (300, 200), (50, 50))
    async with watching(screen, "window:Edge") as watch:
        papers.place(window, 900, 50)
        frame = await seen(watch, lambda frame: frame.picture.size < (300, 200))
        assert frame.picture.size[1] == 200


async def test_minimised_a_note_says_so_and_closed_it_is_gone(screen, papers):
    window = papers.open("Hiding")
    async with watching(screen, "window:Hiding") as watch:
        papers.minimise(window)
        frame = await seen(watch, lambda frame: frame.picture is None)
        assert "minimised" in frame.note
        papers.restore(window)
        await seen(watch, lambda frame: frame.picture is not None)
        papers.shut(window)
        frame = await seen(watch, lambda frame: frame.gone)
        assert frame.gone == f'The window "Hiding" (0x{window:x}) was closed.'
        with pytest.raises(TargetGone):
            await watch.here()


async def test_one_that_is_minimised_already_is_watched_until_it_is_shown(
    screen, papers
):
    window = papers.open("Hidden")
    papers.minimise(window)
    async with watching(screen, "window:Hidden") as watch:
        assert "minimised" in (await watch.here()).note
        papers.restore(window)
        await seen(watch, lambda frame: frame.picture is not None)


async def test_while_the_program_is_slow_other_work_goes_on(screen, program, tmp_path):
    begun, go = tmp_path / "begun", tmp_path / "go"
    os.mkfifo(go)
    (tmp_path / "facts").write_text(FACTS.format(state="IsViewable"))
    program(f"cat {tmp_path}/facts; : > {begun}; read line < {go}")
    watch = RegionWatch(screen.display, Window(1, "Slow"), None)
    looks = [asyncio.create_task(look(watch)) for _ in range(2)]
    await asyncio.to_thread(until, begun.exists, "xwininfo has begun")
    assert not any(each.done() for each in looks)
    go.write_text("\n")
    one, other = await asyncio.gather(*looks)
    assert one.picture is not None
    assert one.picture is other.picture


async def test_without_the_program_too_it_is_refused_with_what_to_install(
    screen, monkeypatch
):
    monkeypatch.setattr("taskmem_vision.capture.region.possible", lambda: False)
    with pytest.raises(NoProvider, match=r"openclaw-taskmem\[x11\].*target screen"):
        async with watching(screen, "window:x"):
            pass


async def test_a_display_that_is_not_there_is_refused(screen):
    with pytest.raises(NoProvider, match="cannot be reached"):
        async with watching(screen, "window:x", TASKMEM_DISPLAY=":63999"):
            pass
