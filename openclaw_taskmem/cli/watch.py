"""`taskmem watch`: the overview in a terminal, drawn anew whenever something changes."""

from __future__ import annotations

import os
import signal
import sys
import termios
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from queue import SimpleQueue
from typing import Any, Final

import click
from rich.cells import cell_len

from openclaw_taskmem.cli.client import LinkError, connect, connect_or_start
from openclaw_taskmem.cli.tables import Cell, Paragraph, find_screen, lay_out
from openclaw_taskmem.cli.task_text import draw_overview
from openclaw_taskmem.home import Home

RETRY_SECONDS: Final = 1.0
"""Seconds between two tries to reach a daemon that is away."""
REST_SECONDS: Final = 0.2
"""Seconds between two readings of the overview, at least, however fast things change."""
PATIENCE_SECONDS: Final = 60.0
"""Seconds that the daemon may take to say that nothing has changed."""
ENDS: Final = "Ctrl-C ends."
_ENTER: Final = "\x1b[?1049h\x1b[?25l"
"""Shows the terminal's other screen, and hides the cursor."""
_LEAVE_SCREEN: Final = "\x1b[?25h\x1b[?1049l"
_CLEAR_SCREEN: Final = "\x1b[H\x1b[J"
_LOCAL_MODES: Final = 3
"""Their place in what `termios.tcgetattr` returns."""

News = dict[str, Any] | str | LinkError | None
"""An overview; a sentence while the daemon is away; why nothing follows; None: only draw anew."""


def watch_overview(home: Home) -> None:
    """Show the overview until Ctrl-C; follow what changes, and the size of the terminal.

    A daemon is started once, at the beginning; one that is stopped later stays stopped.

    Raises:
        LinkError: The daemon cannot be started, or it refused.
    """
    connect_or_start(home, os.environ).close()
    news: SimpleQueue[News] = SimpleQueue()
    threading.Thread(target=_follow_overview, args=(home, news.put), daemon=True).start()
    shown: dict[str, Any] | str = ""
    with _open_screen(redraw=lambda: news.put(None)):
        while True:
            # Blocks until there are news, then takes all that there are.
            for found in (news.get(), *(news.get() for _ in range(news.qsize()))):
                if isinstance(found, LinkError):
                    raise found
                shown = shown if found is None else found
            _draw(shown)


def _follow_overview(home: Home, tell: Callable[[News], None]) -> None:
    """Tell the overview at every change, and a sentence while the daemon is away."""
    while True:
        try:
            with connect(home) as link:
                seen: object = None
                while True:
                    seen = link.call("changes", {"seen": seen}, PATIENCE_SECONDS)["seen"]
                    began = time.monotonic()  # noqa: TID251 - how long another process takes
                    tell(link.call("overview", {}, PATIENCE_SECONDS))
                    time.sleep(choose_rest(time.monotonic() - began))  # noqa: TID251
        except LinkError as error:
            if error.name != "daemon_unavailable":
                tell(error)
                return
            tell(str(error))
            time.sleep(RETRY_SECONDS)


def choose_rest(took: float) -> float:
    """Return the seconds until the next reading; `took`: what the last one took, in seconds.

    So a large home spends at most a quarter of its time on whoever watches it.
    """
    return max(REST_SECONDS, 3 * took)


@contextmanager
def _open_screen(redraw: Callable[[], None]) -> Generator[None]:
    """Take the terminal's other screen, and leave the terminal as it was, however this ends.

    What is typed meanwhile is neither shown nor left to the shell. `redraw` is called when the
    terminal has another size, and when the command goes on after Ctrl-Z.
    """
    modes = termios.tcgetattr(sys.stdin) if sys.stdin.isatty() else None

    def enter() -> None:
        if modes is not None:
            silent = [*modes]
            silent[_LOCAL_MODES] &= ~termios.ECHO
            termios.tcsetattr(sys.stdin, termios.TCSANOW, silent)
        _write(_ENTER)

    def leave() -> None:
        with suppress(OSError, termios.error):  # the terminal may be gone
            _write(_LEAVE_SCREEN)
            if modes is None:
                return
            termios.tcsetattr(sys.stdin, termios.TCSAFLUSH, modes)

    def stop(_number: int, _frame: object) -> None:
        leave()
        signal.raise_signal(signal.SIGSTOP)
        enter()
        redraw()

    def resize(_number: int, _frame: object) -> None:
        redraw()

    handlers = {signal.SIGTSTP: stop, signal.SIGWINCH: resize}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    enter()
    try:
        yield
    finally:
        leave()
        for number, handler in before.items():
            signal.signal(number, handler)


def _draw(found: dict[str, Any] | str) -> None:
    """Draw the overview, as much as there is room for, and say what is left out."""
    screen = find_screen()
    told = [Paragraph(Cell(found))] if isinstance(found, str) else None
    drawn = told or draw_overview(found, screen.columns)
    lines = [line for each in drawn for line in lay_out(each, screen)]
    _write(_CLEAR_SCREEN + "\n".join(fit_screen(lines, screen.columns, screen.rows)))


def fit_screen(lines: Sequence[str], columns: float, rows: float) -> list[str]:
    """Return the lines that fit, and below them how the command ends, and what is left out.

    A line that is wider than the screen takes several rows, as the terminal wraps it.
    """
    used = [0, *accumulate(_count_rows(line, columns) for line in lines)]
    if used[-1] + 1 + _count_rows(ENDS, columns) <= rows:
        return [*lines, "", ENDS]
    more = f"There is more: taskmem list. {ENDS}"
    room = rows - _count_rows(more, columns)
    return [*lines[: max(0, bisect_right(used, room) - 1)], more]


def _count_rows(line: str, columns: float) -> float:
    """Return how many rows of a screen a line takes, with its colours."""
    return max(1, -(-cell_len(click.unstyle(line)) // columns))


def _write(text: str) -> None:
    # Unbuffered, as handlers of signals write, too.
    left = text.encode(sys.stdout.encoding, "replace")
    while left:
        left = left[os.write(sys.stdout.fileno(), left) :]
