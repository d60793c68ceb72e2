"""Which display is meant, and what is said where none can be watched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from taskmem_hookspecs.errors import NoProvider
from taskmem_vision import desktop
from taskmem_vision.desktop import Desktop

Find = Callable[[Mapping[str, str], str, Iterable[str]], Desktop]
BOTH = pytest.mark.parametrize("find", [desktop.find_screen_display, desktop.find_window_display])
WAYLAND = {"WAYLAND_DISPLAY": "wayland-0"}


def refusal_text(find: Find, environ: Mapping[str, str], platform: str, *sockets: str) -> str:
    with pytest.raises(NoProvider) as raised:
        find(environ, platform, sockets)
    return str(raised.value)


@BOTH
def test_the_display_that_is_named_for_us_wins(find: Find) -> None:
    environ = {"TASKMEM_DISPLAY": ":7", "DISPLAY": ":0"}
    assert find(environ, "linux", ["X1", "X2"]) == Desktop(":7")
    assert find({"DISPLAY": ":0"}, "linux", ["X1"]) == Desktop(":0")
    assert find({"TASKMEM_DISPLAY": "  ", "DISPLAY": ":0"}, "linux", []).name == ":0"


@BOTH
def test_the_only_display_here_is_taken_and_a_note_says_so(find: Find) -> None:
    found = find({}, "linux", ["X5", "X5-lock", "notes", "X"])
    assert found == Desktop(":5", "It is on display :5, the only one here.")


def test_of_a_wayland_session_the_wayland_screen_is_watched() -> None:
    both = {**WAYLAND, "DISPLAY": ":0"}
    found = desktop.find_screen_display(both, "linux", [])
    assert found == Desktop("wayland-0", is_wayland=True)
    for name, is_wayland in [(":7", False), ("wayland-7", True)]:
        found = desktop.find_screen_display({**both, "TASKMEM_DISPLAY": name}, "linux", [])
        assert found == Desktop(name, is_wayland=is_wayland)


def test_of_a_sessions_sockets_the_wayland_one_counts() -> None:
    found = desktop.find_screen_display({}, "linux", ["X0", "wayland-1", "wayland-1.lock"])
    note = "It is on display wayland-1, the only one here."
    assert found == Desktop("wayland-1", note, is_wayland=True)
    found = desktop.find_window_display({}, "linux", ["X0", "wayland-1"])
    assert found.name == ":0"


def test_wayland_watches_only_x11_windows_and_notes_it() -> None:
    found = desktop.find_window_display({**WAYLAND, "DISPLAY": ":0"}, "linux", [])
    assert found.name == ":0"
    assert found.note == "In this Wayland session, only windows of X11 programs can be watched."


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_elsewhere_the_screen_needs_no_display(platform: str) -> None:
    assert desktop.find_screen_display({"DISPLAY": ":0"}, platform, ["X1"]) == Desktop(None)


def test_each_refusal_has_its_own_sentence(json_snapshot: Any) -> None:
    said = {
        "no display": refusal_text(desktop.find_screen_display, {}, "linux"),
        "several displays": refusal_text(desktop.find_screen_display, {}, "linux", "X10", "X9"),
        "several wayland displays": refusal_text(
            desktop.find_screen_display, {}, "linux", "wayland-2", "X0", "wayland-1"
        ),
        "wayland, window": refusal_text(desktop.find_window_display, WAYLAND, "linux"),
        "macOS, window": refusal_text(desktop.find_window_display, {}, "darwin"),
        "Windows, window": refusal_text(desktop.find_window_display, {}, "win32"),
    }
    assert len(set(said.values())) == len(said)
    assert refusal_text(desktop.find_window_display, {}, "linux") == said["no display"]
    assert said == json_snapshot
