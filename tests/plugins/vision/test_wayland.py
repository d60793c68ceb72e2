"""A Wayland screen and its windows: a real compositor without a monitor, and grim."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from PIL import Image

from taskmem_hookspecs import Target, TargetNotFound
from taskmem_hookspecs.errors import NoProvider
from taskmem_hookspecs.testing import SensorSuite
from taskmem_vision import picture_watch, wayland, wayland_watch
from taskmem_vision import sensor as watches
from taskmem_vision.desktop import DisplayGone, Privacy, Window
from taskmem_vision.sensor import ScreenSensor
from taskmem_vision.sway import Surface, WindowTree, parse_tree
from taskmem_vision.wayland_watch import WaylandWatch
from tests.plugins.vision.papers import (
    BLUE,
    GREEN,
    RED,
    Papers,
    await_frame,
    colours,
    sensor,
    watch_target,
)
from tests.support.sway import Sway, Terminal, require_sway

BANK = {"TASKMEM_PRIVATE_WINDOWS": "bank"}
SCREEN = Target(scheme="screen", name="")


@pytest.fixture(scope="module")
def sway() -> Iterator[Sway]:
    require_sway()
    with Sway() as found:
        yield found


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks that come soon enough for a test."""
    monkeypatch.setattr(picture_watch, "POLL_GAP", 0.05)


async def test_a_wayland_screen_shows_what_its_monitors_show(sway):
    with Terminal(sway, "One", GREEN) as window:
        async with watch_target(sway, "screen") as watch:
            frame = await await_frame(watch, lambda frame: GREEN in colours(frame))
            assert frame.picture.size == sway.size
            window.paint(BLUE)
            await await_frame(watch, lambda frame: BLUE in colours(frame))


async def test_an_unchanged_wayland_screen_is_the_same_picture(sway):
    with Terminal(sway, "One", RED):
        async with watch_target(sway, "screen") as watch:
            frame = await await_frame(watch, lambda frame: RED in colours(frame))
            await watch.wait_for_change()
            assert (await watch.here()).picture is frame.picture


async def test_a_session_found_without_variables_is_wayland_not_x11(sway, monkeypatch):
    environ = {"XDG_RUNTIME_DIR": str(sway.runtime), "PATH": os.environ["PATH"]}
    watch = await ScreenSensor(environ, "linux").watch(SCREEN)
    assert (await watch.here()).note == "It is on display wayland-1, the only one here."
    await watch.close()


async def test_a_compositor_that_ends_is_noted_and_its_next_one_seen():
    require_sway()
    with Sway((300, 200)) as short:
        async with watch_target(short, "screen") as watch:
            assert (await watch.here()).picture is not None
            short.stop()
            frame = await await_frame(watch, lambda frame: frame.picture is None)
            assert frame.note.startswith("The screen cannot be seen just now: grim fails")
            assert frame.gone is None
            short.start()
            await await_frame(watch, lambda frame: frame.picture is not None)


async def test_a_compositor_that_hangs_is_noted_and_seen_again(monkeypatch):
    require_sway()
    monkeypatch.setattr(wayland, "LIMIT_SECONDS", 0.3)
    with Sway((300, 200)) as short:
        async with watch_target(short, "screen") as watch:
            os.kill(short.pids[0], signal.SIGSTOP)
            try:
                frame = await await_frame(watch, lambda frame: frame.picture is None)
                assert "within 0.3 s" in frame.note
            finally:
                os.kill(short.pids[0], signal.SIGCONT)
            monkeypatch.undo()
            await await_frame(watch, lambda frame: frame.picture is not None)


# --- windows ------------------------------------------------------------------------


class TestSwayWindow(SensorSuite):
    """A window whose title changes."""

    @pytest.fixture(autouse=True)
    def open(self, sway):
        self.sway = sway
        with Terminal(sway, "The letter", GREEN) as self.window:
            (window,) = parse_tree(json.loads(sway.tell("-t", "get_tree"))).windows
            self.name = f"0x{window.id:x}"
            yield

    def make_sensor(self, tmp_path):
        return sensor(self.sway)

    def make_target(self, tmp_path):
        return Target(scheme="window", name=self.name)

    def show(self, tmp_path, text):
        self.window.call(text)

    def make_missing(self, tmp_path):
        return Target(scheme="window", name="The parcel")

    def remove(self, tmp_path):
        self.window.close()
        return True


async def test_a_window_is_its_part_of_the_screen_with_its_title(sway):
    with Terminal(sway, "Left", GREEN) as left, Terminal(sway, "Right", RED) as right:
        async with watch_target(sway, "window:Left") as watch:
            frame = await await_frame(watch, lambda frame: GREEN in colours(frame))
            assert frame.text == "Left"
            assert frame.picture.size == (400, 600)
            assert RED not in colours(frame)
            right.paint(BLUE)
            left.call("Left, done")
            frame = await await_frame(watch, lambda frame: frame.text == "Left, done")
            assert BLUE not in colours(frame)
            left.paint(RED)
            await await_frame(watch, lambda frame: RED in colours(frame))


async def test_another_program_that_lies_over_a_window_is_black_in_it(sway):
    with Terminal(sway, "Under", GREEN), Terminal(sway, "Dialog of another", RED):
        async with watch_target(sway, "window:Under") as watch:
            frame = await await_frame(watch, lambda frame: GREEN in colours(frame))
            assert frame.text == "Under"
            assert 0 in colours(frame)
            assert RED not in colours(frame)
        async with watch_target(sway, "window:Dialog") as watch:
            frame = await await_frame(watch, lambda frame: RED in colours(frame))
            assert GREEN not in colours(frame)


async def test_a_window_that_is_hidden_is_waited_for_and_its_end_told(sway):
    with Terminal(sway, "Away", GREEN) as window:
        async with watch_target(sway, "window:Away") as watch:
            await await_frame(watch, lambda frame: GREEN in colours(frame))
            sway.tell("move container to workspace other")
            frame = await await_frame(watch, lambda frame: frame.picture is None)
            assert "on another desktop" in frame.note
            sway.tell("workspace other")
            await await_frame(watch, lambda frame: GREEN in colours(frame))
            window.close()
            frame = await await_frame(watch, lambda frame: frame.gone)
            assert frame.gone.startswith('The window "Away" (0x')
            assert frame.gone.endswith("was closed.")


async def test_a_window_that_ends_with_its_compositor_closed_not():
    require_sway()
    with Sway((300, 200)) as short, Terminal(short, "Doomed", GREEN):
        async with watch_target(short, "window:Doomed") as watch:
            await watch.here()
            os.kill(short.pids[0], signal.SIGKILL)
            frame = await await_frame(watch, lambda frame: frame.gone)
            assert frame.gone.endswith("went away with its display.")
            assert frame.text is None


async def test_a_missing_window_is_refused_with_those_that_are_there(sway):
    with Terminal(sway, "Only", GREEN), pytest.raises(TargetNotFound, match='there are "Only"'):
        async with watch_target(sway, "window:missing"):
            pass


async def test_private_wayland_windows_are_black_and_no_targets(sway):
    with Terminal(sway, "My Bank", RED), Terminal(sway, "Public", GREEN) as public:
        async with watch_target(sway, "screen", **BANK) as watch:
            frame = await await_frame(watch, lambda frame: GREEN in colours(frame))
            assert RED not in colours(frame)
            public.call("Bank, too")
            await await_frame(watch, lambda frame: GREEN not in colours(frame))
        with pytest.raises(TargetNotFound, match="private"):
            async with watch_target(sway, "window:bank", **BANK):
                pass


async def test_a_window_that_turns_private_is_not_shown_or_named(sway):
    with Terminal(sway, "News", GREEN) as window:
        async with watch_target(sway, "window:News", **BANK) as watch:
            await await_frame(watch, lambda frame: GREEN in colours(frame))
            window.call("Bank")
            frame = await await_frame(watch, lambda frame: frame.picture is None)
            assert "private now" in frame.note
            assert frame.text is None


async def test_an_x11_program_in_wayland_shows_its_own_pixels(monkeypatch):
    require_sway("Xwayland")
    with Sway(xwayland=True) as both, closing(Papers(both.environ["DISPLAY"])) as papers:
        papers.open("X11")
        with Terminal(both, "Dialog above", BLUE):
            async with watch_target(both, "window:X11") as watch:
                assert isinstance(watch, watches._WindowWatch)
                frame = await await_frame(watch, lambda frame: frame.picture is not None)
                assert colours(frame) == {GREEN}
            async with watch_target(both, "screen") as watch:
                await await_frame(watch, lambda frame: {BLUE, GREEN} <= colours(frame))
            async with watch_target(both, "window:X11", DISPLAY=":63999") as watch:
                assert isinstance(watch, WaylandWatch)
                await await_frame(watch, lambda frame: colours(frame) == {GREEN, 0})
            another = Window(1, "Of another display")
            monkeypatch.setattr("taskmem_vision.x11.X11Display.read_window", lambda *_: another)
            async with watch_target(both, "window:X11") as watch:
                assert isinstance(watch, WaylandWatch)


class FakeDisplay:
    """A session whose windows are painted at their new places some time later."""

    def __init__(self, *trees: WindowTree) -> None:
        self._trees = iter(trees)
        self.slept = 0
        self.looks = [0]

    async def find_sway(self) -> None:
        return None

    async def read_tree(self) -> WindowTree:
        return next(self._trees)

    async def read_pixels(self) -> Image.Image:
        self.looks.append(self.slept)
        return Image.new("RGB", (100, 100), "red")

    async def settle(self, seconds: float) -> None:
        self.slept += 1


def tree_of(title: str, left: int) -> WindowTree:
    box = (left, 0, 50, 100)
    return WindowTree((0, 0, 100, 100), (Surface(Window(1, title), box, (box,), None),))


@pytest.mark.parametrize(
    ("trees", "looks"),
    [
        ([tree_of("My bank", 0)] * 3, [1]),
        ([tree_of("My bank", 0)] * 3 + [tree_of("My bank", 50)] * 3, [1, 2]),
        ([tree_of("My bank", 0)] * 2 + [tree_of("My bank", 50)] * 4, [1, 2]),
        ([tree_of("News", 0)] * 2 + [tree_of("My bank", 0)] * 4, [1, 2]),
    ],
    ids=["at first", "moved before", "moved meanwhile", "private meanwhile"],
)
async def test_a_look_counts_only_once_what_moved_was_painted(monkeypatch, trees, looks):
    display = FakeDisplay(*trees)
    monkeypatch.setattr(wayland_watch.asyncio, "sleep", display.settle)
    watch = WaylandWatch(display, None, Privacy(BANK))
    await watch.open()
    if len(trees) == 6 and trees[2] == trees[0]:
        monkeypatch.setattr(picture_watch, "LOOK_GAP", 0)
        watch._throttle.note_event()
    picture = (await watch.here()).picture.image
    left = trees[-1].surfaces[0].box[0]
    assert picture.getpixel((left + 1, 1)) == (0, 0, 0)
    assert picture.getpixel((51 - left, 1)) == (255, 0, 0)
    assert sorted({*display.looks[1:]}) == looks


async def test_windows_that_never_stand_still_are_noted_not_shown(monkeypatch):
    display = FakeDisplay(*(tree_of("My bank", left) for left in range(50)))
    monkeypatch.setattr(wayland_watch.asyncio, "sleep", display.settle)
    watch = WaylandWatch(display, None, Privacy(BANK))
    await watch.open()
    frame = await watch.here()
    assert frame.picture is None
    assert "are moving" in frame.note


def test_a_window_is_cropped_by_the_scale_and_corner_of_screens():
    box = (110, 220, 40, 30)
    tree = WindowTree((100, 200, 100, 100), (Surface(Window(1, "A"), box, (box,), None),))
    shot = Image.new("RGB", (200, 200))
    shot.paste((255, 0, 0), (20, 40, 100, 100))
    cropped = tree.crop_window(shot, Window(1, "A"), ())
    assert cropped.getcolors() == [(80 * 60, (255, 0, 0))]


@pytest.mark.parametrize("told", [{}, {"rect": {"x": 1}}, {"rect": None, "nodes": []}])
def test_a_tree_of_another_form_is_told_of(told):
    with pytest.raises(DisplayGone, match="form that is not known"):
        parse_tree(told)


# --- what is refused ----------------------------------------------------------------


async def refusal(environ: dict[str, str]) -> str:
    with pytest.raises(NoProvider) as refused:
        await ScreenSensor({"WAYLAND_DISPLAY": "wayland-1", **environ}, "linux").watch(SCREEN)
    return str(refused.value)


async def test_without_grim_it_says_what_to_install(tmp_path):
    assert "apt install grim" in await refusal({"PATH": str(tmp_path)})


async def test_a_window_on_sway_without_grim_says_what_to_install(sway, tmp_path):
    with Terminal(sway, "Unseen", GREEN), pytest.raises(NoProvider, match="apt install grim"):
        async with watch_target(sway, "window:Unseen", PATH=str(tmp_path)):
            pass


async def test_a_wayland_display_that_is_not_there_is_refused(tmp_path):
    require_sway()
    refused = await refusal({"XDG_RUNTIME_DIR": str(tmp_path), "PATH": os.environ["PATH"]})
    assert "XDG_RUNTIME_DIR" in refused


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            "echo compositor doesn\\'t support the screen capture protocol >&2; exit 1",
            "an X11 session",
        ),
        ("exit 3", "status 3"),
        ("echo no picture", "no picture"),
        ("exec cat /dev/zero", "more than 1 MiB"),
    ],
)
async def test_a_grim_that_sees_nothing_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    monkeypatch.setattr(wayland, "_MOST_BYTES", 1 << 20)
    grim = tmp_path / "grim"
    grim.write_text(f"#!/bin/sh\n{script}\n")
    grim.chmod(0o755)
    paths = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "XDG_RUNTIME_DIR": str(tmp_path)}
    assert said in await refusal(paths)
