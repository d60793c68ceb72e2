"""The screens, scenes and inks that other tests wait on."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from PIL import Image, ImageChops

from tests.support import screens
from tests.support.desktop import desktop
from tests.support.inks import INK, STEER, TWIN, has_ink, ink_pixels, jpeg
from tests.support.scenes import ROOT, SCENES, Scene
from tests.support.screens import Screen, require_screen
from tests.support.waiting import ProcessOutput, until

NATIVE, SMALL = None, 1280
SUBPIXEL = "Xft.rgba: rgb\nXft.antialias: 1"
PAINTED = [name for name, plot in SCENES.items() if plot.paints]
ENDLESS = [name for name, plot in SCENES.items() if not plot.ends]

STARTS_AND_WAITS = """
from tests.support.screens import Screen
from tests.support.scenes import Scene
with Screen() as screen, Scene(screen, "caret") as caret, Scene(screen, "dot") as dot:
    caret.ready(), dot.ready()
    print("up", screen.display, *screen.pids, caret.pid, dot.pid, flush=True)
    input()
"""


@pytest.fixture(scope="module")
def screen():
    require_screen()
    with Screen() as found:
        yield found


def sees(screen, ink):
    """Whether an ink is on the screen, in both sizes that a model may get."""
    picture = screen.picture()
    native, small = (has_ink(jpeg(picture, width), ink) for width in (NATIVE, SMALL))
    assert native == small
    return native


def alive(pid):
    """Whether a process runs; one that nobody buried does not."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")")[-1].split()[0] != "Z"
    return False


def shown_on(display):
    """Return the processes that a display was given to."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            given = (folder / "environ").read_bytes().split(b"\0")
            if f"DISPLAY={display}".encode() in given:
                found.append(folder.name)
    return found


@pytest.mark.parametrize("name", PAINTED)
def test_a_scene_paints_its_truth_in_ink_when_it_is_told_to(screen, name):
    with Scene(screen, name) as scene:
        ready = scene.ready()
        assert not sees(screen, INK)
        assert scene.truths == []

        assert ready <= scene.now()
        assert sees(screen, INK)


def test_steering_text_is_shown_from_the_start_in_its_own_ink(screen):
    with Scene(screen, "steered") as scene:
        scene.ready()
        assert sees(screen, STEER)
        scene.now()
        assert sees(screen, STEER)


@pytest.mark.parametrize("name", ENDLESS)
def test_a_scene_without_an_end_never_becomes_true(screen, name):
    with Scene(screen, name, after=0) as scene:
        scene.ready()
        scene.tell("now")
        assert not sees(screen, INK)
        assert not sees(screen, STEER)
        assert scene.truths == []


def test_stall_is_true_five_seconds_after_it_stopped_moving(screen):
    with Scene(screen, "stall") as scene:
        ready = scene.ready()
        scene.tell("now")
        with desktop(screen.display) as found:
            # The frame is painted in its own time: as the active window's, some time later.
            inside = found.find_box(scene.title)
        still = screen.picture().crop(inside)
        assert scene.became_true() - ready > 4.9
        assert ImageChops.difference(still, screen.picture().crop(inside)).getbbox() is None


def test_scene_condition_becomes_true_by_itself_in_time(screen):
    with Scene(screen, "small_label", after=0.2) as scene:
        assert scene.became_true() > scene.ready()
        assert sees(screen, INK)


def test_a_toast_passes_and_can_be_shown_again(screen):
    with Scene(screen, "toast") as scene:
        scene.ready()
        first = scene.now()
        until(lambda: not sees(screen, INK), "the toast is gone")
        assert scene.truths[0]["until"] == pytest.approx(first + 3.0, abs=1)
        assert scene.now() > first
        assert sees(screen, INK)


def test_the_dot_changes_its_hue_and_not_its_lightness(screen):
    with Scene(screen, "dot") as scene:
        scene.ready()
        before = screen.picture()
        scene.now()
        after = screen.picture()
    assert ImageChops.difference(before, after).getbbox()
    grey = ImageChops.difference(before.convert("L"), after.convert("L"))
    assert grey.getbbox() is None


def test_a_seed_chooses_places(screen):
    pictures = []
    for seed in (1, 1, 2):
        with Scene(screen, "small_label", seed=seed, title="Queue") as scene:
            scene.ready()
            scene.now()
            pictures.append(screen.picture().convert("L").tobytes())
    assert pictures[0] == pictures[1] != pictures[2]


def test_scene_title_is_on_the_window_list_once_it_is_ready(screen):
    with Scene(screen, "caret") as caret, Scene(screen, "plain", seed=2) as plain:
        caret.ready()
        plain.ready()
        assert caret.target == f"window:{caret.title}"
        with desktop(screen.display) as found:
            assert sorted(found.titles) == sorted([caret.title, plain.title])
            caret.tell("title Terminal two")
            assert "Terminal two" in found.titles


def test_a_stopped_screen_leaves_no_processes():
    require_screen()
    with Screen() as screen:
        with Scene(screen, "mouse_hover") as hover:
            hover.ready()
            pids = [*screen.pids, hover.pid]
            screen.stop()
        assert not any(alive(pid) for pid in pids)
        until(lambda: not shown_on(screen.display), "its programs end")


def test_nothing_outlives_a_test_that_is_killed():
    require_screen()
    test = subprocess.Popen(
        [sys.executable, "-c", STARTS_AND_WAITS],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with test:
        said = ProcessOutput(test.stdout)
        _, display, *pids = said.wait_for("up ").split()
        assert all(alive(pid) for pid in pids)
        test.kill()
    until(lambda: not any(alive(pid) for pid in pids), "the screen ends")
    until(lambda: not shown_on(display), "its programs end")


def test_programs_are_shown_on_the_screen_and_nowhere_else(monkeypatch, screen):
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    monkeypatch.setenv("DISPLAY", ":0")
    assert screen.environ["DISPLAY"] == screen.display != ":0"
    assert "WAYLAND_DISPLAY" not in screen.environ
    assert screen.environ["PATH"] == os.environ["PATH"]


@pytest.mark.parametrize("resources", ["", SUBPIXEL], ids=["grey", "subpixel"])
def test_a_word_of_eight_points_keeps_its_ink(resources):
    require_screen()
    with Screen(resources=resources) as screen, Scene(screen, "small_label") as scene:
        scene.ready()
        assert not sees(screen, INK)
        scene.now()
        picture = screen.picture()
    left, top, _, _ = picture.getbbox()
    crop = picture.crop((left, top, left + 640, top + 420))
    for encoded in (jpeg(crop), jpeg(picture), jpeg(picture, SMALL)):
        assert ink_pixels(encoded, INK) >= 40
        assert not has_ink(encoded, STEER)


@pytest.mark.parametrize(
    "colour", ["white", "#808080", "#2266cc", "#cc2200", "#e07b00", TWIN, STEER.colour]
)
def test_another_colour_is_not_the_ink(colour):
    assert not has_ink(jpeg(Image.new("RGB", (64, 64), colour)), INK)


@pytest.mark.parametrize(("required", "outcome"), [("", pytest.skip), ("required", pytest.fail)])
def test_a_tool_that_is_missing_skips_or_where_required_fails(monkeypatch, required, outcome):
    monkeypatch.setenv("TASKMEM_E2E", required)
    monkeypatch.setattr(screens, "list_missing_tools", lambda: ("xterm", "Xvfb"))
    with pytest.raises(outcome.Exception, match="xterm, Xvfb: not installed"):
        require_screen()


def test_a_server_that_was_killed_leaves_no_display(monkeypatch):
    from taskmem_vision import desktop, sensor

    with tempfile.TemporaryDirectory(prefix="tms") as folder:
        monkeypatch.setattr(desktop, "SOCKETS", folder)
        for name in ("X7", "X8"):
            server = socket.socket(socket.AF_UNIX)
            server.bind(f"{folder}/{name}")
            server.listen()
            if name == "X7":
                server.close()
        assert [*sensor.list_sockets({"XDG_RUNTIME_DIR": folder})] == ["X8"]
        server.close()
