"""A Wayland screen and its windows: a real compositor without a monitor, and grim."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskmem_hookspecs import Target
from taskmem_hookspecs.errors import NoProvider
from taskmem_vision import sensor as watches
from taskmem_vision import wayland
from taskmem_vision.sensor import ScreenSensor
from tests.plugins.vision.papers import BLUE, GREEN, RED, await_frame, colours, watch_target
from tests.support.sway import Sway, Terminal, require_sway

SCREEN = Target(scheme="screen", name="")


@pytest.fixture(scope="module")
def sway() -> Iterator[Sway]:
    require_sway()
    with Sway() as found:
        yield found


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks that come soon enough for a test."""
    monkeypatch.setattr(watches, "POLL_GAP", 0.05)


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


# --- what is refused ----------------------------------------------------------------


async def refusal(environ: dict[str, str]) -> str:
    with pytest.raises(NoProvider) as refused:
        await ScreenSensor({"WAYLAND_DISPLAY": "wayland-1", **environ}, "linux").watch(SCREEN)
    return str(refused.value)


async def test_without_grim_it_says_what_to_install(tmp_path):
    assert "apt install grim" in await refusal({"PATH": str(tmp_path)})


async def test_grim_is_not_asked_for_where_it_would_see_nothing(tmp_path):
    refused = await refusal({"PATH": str(tmp_path), "XDG_CURRENT_DESKTOP": "ubuntu:GNOME"})
    assert refused.startswith("This Wayland session shows no program what others paint")


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
    assert said in await refusal({"PATH": f"{tmp_path}:{os.environ['PATH']}"})
