"""What `taskmem doctor` says of the screen and its text."""

from __future__ import annotations

import pytest

from taskmem_hookspecs import DoctorState
from taskmem_vision.doctor import check_display, check_text, find_display

GNOME = {"WAYLAND_DISPLAY": "w", "XDG_CURRENT_DESKTOP": "GNOME"}


@pytest.mark.parametrize(
    ("environ", "sockets", "says"),
    [
        ({"DISPLAY": ":7"}, [], "Windows and the screen of display :7 can be watched."),
        ({}, ["X3"], "Windows and the screen of display :3 can be watched."),
        ({}, [], "No screen can be watched. There is no display"),
        ({"WAYLAND_DISPLAY": "w", "PATH": ""}, [], "No screen can be watched. A Wayland screen"),
        ({**GNOME, "PATH": ""}, [], "No screen can be watched. The screen of GNOME and KDE"),
    ],
)
def test_the_display_is_named_or_what_is_missing(
    environ: dict[str, str], sockets: list[str], says: str
) -> None:
    row = check_display(find_display(environ, "linux", sockets))
    assert row.detail.startswith(says)
    assert row.state is (DoctorState.OFF if says.startswith("No ") else DoctorState.OK)


@pytest.mark.parametrize(
    ("engine", "has_display", "state"),
    [("tesseract", True, "ok"), (None, True, "warn"), (None, False, "off")],
)
def test_only_a_display_without_a_reader_of_text_is_warned_of(
    engine: str | None,
    has_display: bool,
    state: str,
) -> None:
    row = check_text(engine, has_display=has_display)
    assert row.state == state
    assert (row.cure is not None) is (state == "warn")
