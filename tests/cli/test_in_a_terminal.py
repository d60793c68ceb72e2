"""The lists of the command line in a real terminal, narrow and wide, with colour and without."""

from __future__ import annotations

import sys
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text

from tests.support.printed_lists import print_list
from tests.support.terminals import capture, open_terminal
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
LISTS = ("overview", "list", "task", "waits", "wakes", "runs", "events", "stats", "doctor")
END = "-- end --"


def show_in_terminal(width: int, *, colour: bool) -> str:
    """Print every list in a tmux window, and return what it shows."""
    plain = "" if colour else "NO_COLOR=1 "
    shown = f"{plain}{sys.executable} -m tests.support.printed_lists {' '.join(LISTS)}"
    command = f"cd {ROOT}; export TZ=UTC TERM=screen-256color; {shown}; echo '{END}'; read _"
    with open_terminal(command, width) as tmux:
        return str(until(lambda: _read_lists(tmux), "all lists are printed"))


def _read_lists(tmux: tuple[str, ...]) -> str | None:
    """Return the lists that a window shows; None: not all are printed yet."""
    whole, found, _ = capture(tmux).partition(END)
    return whole.replace("\x1b", "␛") if found else None


@pytest.mark.parametrize("colour", [True, False], ids=["colour", "plain"])
@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_lists_fit_the_terminal(width: int, colour: bool, text_snapshot: Any) -> None:
    shown = show_in_terminal(width, colour=colour)
    assert ("␛[33m" in shown) is colour
    assert "\x07" not in shown
    assert shown == text_snapshot


class Terminal(StringIO):
    """A standard output that is a terminal of some width."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("name", LISTS)
def test_no_width_loses_a_character(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # More columns have room from each of these widths on.
    for narrowest, next_one in pairwise((10, 60, 76, 110, 150, 301)):
        printed = set()
        for width in range(narrowest, next_one, 7):
            out = Terminal()
            with monkeypatch.context() as patch:
                patch.setenv("COLUMNS", str(width))
                patch.setenv("NO_COLOR", "1")
                patch.setattr(sys, "stdout", out)
                print_list(name)
            shown = Text.from_ansi(out.getvalue()).plain
            printed.add("".join(sorted("".join(shown.split()))))
        assert len(printed) == 1, f"from {narrowest} columns on, something is lost or repeated"
