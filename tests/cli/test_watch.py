"""`taskmem watch`, in a real terminal."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from openclaw_taskmem.cli.watch import ENDS, REST_SECONDS, choose_rest, fit_screen
from tests.support.daemons import COMMAND, Daemon, command, short_home
from tests.support.terminals import capture, open_terminal
from tests.support.waiting import until

SHELL = f"""
trap : INT TERM
stty -a >$HOME/before
sh -c 'echo $$ >$HOME/pid; exec {COMMAND} watch'
echo ended with $?
stty -a >$HOME/after
cmp $HOME/before $HOME/after && echo as before
cat
"""
"""Runs `taskmem watch` as a shell does, and compares how the terminal is set."""
LONG = "Translate the whole guide for beginners with its pictures"


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with short_home() as home:
        daemon = Daemon(home)
        daemon.wait_until_it_serves()
        yield daemon
        daemon.close()


def run_tmux(tmux: tuple[str, ...], *words: str) -> str:
    return subprocess.run([*tmux, *words], check=True, capture_output=True, text=True).stdout


def read_modes(tmux: tuple[str, ...]) -> str:
    shown = run_tmux(tmux, "display", "-p", "#{alternate_on} #{cursor_flag}").split()
    screen, cursor = (bool(int(each)) for each in shown)
    return f"{'other' if screen else 'first'} screen, cursor {'shown' if cursor else 'hidden'}"


def read_home(tmux: tuple[str, ...]) -> str:
    return run_tmux(tmux, "show-environment", "-g", "HOME").strip().removeprefix("HOME=")


def test_a_screen_with_room_shows_all_and_how_it_ends() -> None:
    assert fit_screen(["one", "two"], columns=20, rows=4) == ["one", "two", "", ENDS]


def test_a_reading_that_is_slow_is_followed_by_a_longer_rest() -> None:
    assert choose_rest(0.01) == REST_SECONDS
    assert choose_rest(0.5) == 1.5


def test_what_has_no_room_is_told() -> None:
    shown = fit_screen(["one", "two", "three"], columns=80, rows=3)
    assert shown == ["one", "two", f"There is more: taskmem list. {ENDS}"]


def test_lines_that_wrap_take_more_rows() -> None:
    shown = fit_screen(["\x1b[1m" + "x" * 41, "two"], columns=40, rows=5)
    assert shown[1:] == ["two", "", ENDS]
    assert fit_screen(["x" * 80, "y" * 80], columns=40, rows=6)[:2] == ["x" * 80, "y" * 80]
    assert fit_screen(["x" * 81, "y" * 80], columns=40, rows=6)[:-1] == ["x" * 81]


def test_changes_are_shown_also_after_a_restart(daemon: Daemon) -> None:
    with open_terminal(f"{COMMAND} watch", 80, TASKMEM_HOME=str(daemon.home.folder)) as tmux:
        until(lambda: "There is no task" in capture(tmux), "the empty overview is shown")
        daemon.register("Deploy coursefolio")
        until(lambda: "Deploy coursefolio" in capture(tmux), "the new task is shown")
        daemon.stop()
        until(lambda: "o daemon runs" in capture(tmux), "the user is told of the daemon's end")
        daemon.restart()
        until(lambda: "Deploy coursefolio" in capture(tmux), "the overview is back")
        daemon.register("Write the report")
        until(lambda: "Write the report" in capture(tmux), "what is new is shown")


def test_it_follows_the_size_of_the_terminal(daemon: Daemon) -> None:
    daemon.register(LONG)
    with open_terminal(f"{COMMAND} watch", 160, TASKMEM_HOME=str(daemon.home.folder)) as tmux:
        until(lambda: LONG in capture(tmux), "the name stands on one line")
        daemon.process.send_signal(signal.SIGSTOP)  # no answer draws it anew
        run_tmux(tmux, "resize-window", "-x", "50")
        until(lambda: "its pictures" in capture(tmux), "the name is wrapped")
        run_tmux(tmux, "resize-window", "-x", "160")
        until(lambda: LONG in capture(tmux), "the name stands on one line again")
        daemon.process.send_signal(signal.SIGCONT)


def test_ctrl_c_leaves_the_terminal_as_it_was(daemon: Daemon) -> None:
    with open_terminal(SHELL, 80, TASKMEM_HOME=str(daemon.home.folder)) as tmux:
        until(lambda: "There is no task" in capture(tmux), "the overview is shown")
        assert read_modes(tmux) == "other screen, cursor hidden"
        run_tmux(tmux, "send-keys", "typed", "Enter")
        run_tmux(tmux, "send-keys", "C-c")
        until(lambda: "as before" in capture(tmux), "Ctrl-C ends it")
        assert "ended with 130" in capture(tmux)
        run_tmux(tmux, "send-keys", "later", "Enter")
        until(lambda: "later" in capture(tmux), "the terminal is read by others")
        assert "typed" not in capture(tmux)
        assert read_modes(tmux) == "first screen, cursor shown"


def test_sigterm_leaves_the_terminal_as_it_was(daemon: Daemon) -> None:
    with open_terminal(SHELL, 80, TASKMEM_HOME=str(daemon.home.folder)) as tmux:
        until(lambda: "There is no task" in capture(tmux), "the overview is shown")
        os.kill(int(Path(read_home(tmux), "pid").read_text()), signal.SIGTERM)
        until(lambda: "as before" in capture(tmux), "SIGTERM ends it")
        assert "ended with 143" in capture(tmux)
        assert read_modes(tmux) == "first screen, cursor shown"


def test_it_can_be_suspended_and_continued(daemon: Daemon) -> None:
    shell = f"bash --norc -ic '{COMMAND} watch; echo suspended; read _; fg'"
    with open_terminal(shell, 80, TASKMEM_HOME=str(daemon.home.folder)) as tmux:
        until(lambda: "There is no task" in capture(tmux), "the overview is shown")
        run_tmux(tmux, "send-keys", "C-z")
        until(lambda: "suspended" in capture(tmux), "the shell goes on")
        assert read_modes(tmux) == "first screen, cursor shown"
        run_tmux(tmux, "send-keys", "Enter")
        until(lambda: "There is no task" in capture(tmux), "the overview is back")
        assert read_modes(tmux) == "other screen, cursor hidden"


def test_it_needs_a_terminal(daemon: Daemon) -> None:
    status, out, error = command(daemon.home, "watch")
    assert (status, out) == (1, "")
    assert error.endswith("print the overview with: taskmem\n")
