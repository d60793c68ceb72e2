"""What the program in front of a terminal does with its input is looked up, not guessed."""

import os
import shutil
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from taskmem_terminal import terminal_input
from taskmem_terminal.recording import is_interactive_shell
from taskmem_terminal.terminal_input import InputLookup, TerminalInput, look_up_input
from tests.plugins.terminal.conftest import SHELL
from tests.plugins.terminal.judged import NOON
from tests.support.required import do_without
from tests.support.waiting import until

PYTHON = sys.executable
READS, WORKS, UNKNOWN = True, False, None
RUNS = TerminalInput(WORKS, is_shell=False, is_hidden=False, takes_keys=False)
PROGRAMS = {
    SHELL: TerminalInput(READS, is_shell=True, takes_keys=True),
    "dash -i": TerminalInput(READS, is_shell=True, is_hidden=False, takes_keys=False),
    "sh -c 'printf \"Go on? \"; read x'": TerminalInput(
        READS, is_shell=False, is_hidden=False, takes_keys=False
    ),
    "sh -c 'read x < /dev/tty'": TerminalInput(
        READS, is_shell=False, is_hidden=False, takes_keys=False
    ),
    "bash -c 'read -e -p name: x'": TerminalInput(READS, is_shell=False, takes_keys=True),
    "bash -c 'read -rsn1 x'": TerminalInput(READS, is_shell=False, takes_keys=True),
    "bash -c 'stty -echo; read x'": TerminalInput(
        READS, is_shell=False, is_hidden=True, takes_keys=False
    ),
    "cat": TerminalInput(READS, is_shell=False, is_hidden=False, takes_keys=False),
    f"{PYTHON} -c 'input()'": TerminalInput(
        READS, is_shell=False, is_hidden=False, takes_keys=False
    ),
    f"{PYTHON} -c 'import readline; input()'": TerminalInput(
        READS, is_shell=False, takes_keys=True
    ),
    f"{PYTHON} -c 'import getpass; getpass.getpass()'": TerminalInput(
        READS, is_shell=False, is_hidden=True, takes_keys=False
    ),
    f"{PYTHON} -c 'import select; p = select.poll(); p.register(0, 1); p.poll()'": TerminalInput(
        READS, is_shell=False, is_hidden=False, takes_keys=False
    ),
    "sleep 99": TerminalInput(WORKS, is_shell=False, is_hidden=False, takes_keys=False),
    "sh -c 'sleep 99 | cat; read x'": TerminalInput(
        WORKS, is_shell=False, is_hidden=False, takes_keys=False
    ),
    f"{PYTHON} -c 'import select; select.select([0], [], [], 99)'": TerminalInput(
        UNKNOWN, is_shell=False, is_hidden=False, takes_keys=False
    ),
    f"{PYTHON} -c 'import select, os; select.select([0, os.pipe()[0]], [], [])'": TerminalInput(
        UNKNOWN, is_shell=False, is_hidden=False, takes_keys=False
    ),
    f"{PYTHON} -c 'import threading as t; t.Thread(target=input).start(); t.Event().wait()'": (
        TerminalInput(UNKNOWN, is_shell=False, is_hidden=False, takes_keys=False)
    ),
    "script -qc cat /dev/null": TerminalInput(),
}

linux_only = pytest.mark.skipif(not Path("/proc/self/wchan").exists(), reason="Linux tells it")


def look_up(tmux):
    return look_up_input(int(tmux.ask("work", "pane_pid")), int(tmux.ask("work", "pid")))


@linux_only
@pytest.mark.parametrize("command", PROGRAMS)
def test_what_reads_the_terminal_is_looked_up(tmux, command):
    if shutil.which(command.split()[0]) is None:
        do_without(f"{command.split()[0]} is not installed: apt-get install {command.split()[0]}")
    tmux("new-session", "-d", "-s", "work", command)
    until(lambda: look_up(tmux) == PROGRAMS[command], PROGRAMS[command])


MAY_READ = TerminalInput(UNKNOWN, is_shell=False, is_hidden=False, takes_keys=False)
WAITERS = {
    "import select, os; p = select.poll(); p.register(os.pipe()[0]); p.poll()": RUNS,
    "import select, os; p = select.poll(); p.register(0, 1); p.poll(99_999)": MAY_READ,
    "import asyncio; asyncio.run(asyncio.sleep(99))": RUNS,
    "from select import epoll; e = epoll(); e.register(0, 1); e.poll()": MAY_READ,
    "from select import epoll as e; a, b = e(), e(); b.register(0, 1); a.register(b); a.poll()": (
        MAY_READ
    ),
}


@linux_only
@pytest.mark.parametrize("code", WAITERS)
def test_a_program_that_waits_for_others_reads_nothing(tmux, code):
    tmux("new-session", "-d", "-s", "work", f"{PYTHON} -c '{code}'")
    place = Path(f"/proc/{tmux.ask('work', 'pane_pid')}/wchan")
    until(lambda: "poll" in place.read_text(), "it waits")
    assert look_up(tmux) == WAITERS[code]


@linux_only
@pytest.mark.parametrize("shell", [SHELL, f"{SHELL[:-2]}--noediting -i", "zsh -f -i"])
def test_a_shell_that_asks_by_its_own_command_is_no_prompt(tmux, shell):
    name = "zsh" if "zsh" in shell else "env"
    if shutil.which(name) is None:
        do_without(f"{name} is not installed: apt-get install {name}")
    tmux("new-session", "-d", "-s", "work", shell)
    until(lambda: look_up(tmux)[:2] == (READS, True), "its prompt")
    tmux.type("work", "printf 'Name: '; read x")
    tmux.wait_until_shown("work", "\nName:")
    asks = "noediting" in shell  # nothing tells it from its prompt
    until(lambda: look_up(tmux)[:2] == (READS, asks), "its question")
    tmux.type("work", "me")
    until(lambda: look_up(tmux)[:2] == (READS, True), "its prompt again")


@linux_only
def test_a_process_that_another_one_started_tells_nothing(tmux):
    tmux("new-session", "-d", "-s", "work", "cat")
    assert look_up_input(int(tmux.ask("work", "pane_pid")), os.getpid()) == TerminalInput()


def test_nothing_is_known_where_the_system_tells_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(terminal_input, "_PROC", tmp_path)
    assert look_up_input(os.getpid(), os.getppid()) == TerminalInput()
    assert look_up_input(None, None) == TerminalInput()


@pytest.mark.parametrize(
    ("place", "call", "expected"),
    [
        ("hrtimer_nanosleep", "230 0x0", WORKS),
        ("do_epoll_wait", "281 0xd", UNKNOWN),
        ("n_tty_read", None, READS),
        ("wait_woken", None, UNKNOWN),
        ("0", "0 0x0", UNKNOWN),
    ],
)
def test_a_thread_that_may_read_unseen_is_unknown(tmp_path, monkeypatch, place, call, expected):
    monkeypatch.setattr(terminal_input, "_PROC", tmp_path)
    line = "7 (a (b) c) S 1 7 7 34816 7 0"
    for folder in (tmp_path / "7", tmp_path / "7" / "task" / "7"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "stat").write_text(line)
        (folder / "wchan").write_text(place)
        (folder / "cmdline").write_text("b\0")
        if call:
            (folder / "syscall").write_text(call)
    assert look_up_input(7, 1).is_read is expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("bash", True),
        ("-bash", True),
        ("/bin/zsh -l", True),
        ("bash --rcfile /x -i", True),
        ("bash --norc", True),
        ("bash -o vi -i", True),
        ("bash -i", True),
        ("bash build.sh", False),
        ("sh -c make", False),
        ("bash -lc make", False),
        ("bash -ex build.sh", False),
        ("bash -i -c make", False),
        ("bash -c make -i", False),
        ("bash -i build.sh", False),
        ("python3 -i", False),
    ],
)
def test_a_shell_that_runs_a_script_shows_no_prompt(command, expected):
    assert is_interactive_shell(command.split()) is expected


def test_a_terminal_is_looked_up_at_rest_and_ever_less_often(monkeypatch):
    looks = []
    monkeypatch.setattr(terminal_input, "look_up_input", lambda *_: looks.append(1) or RUNS)
    lookup, second = InputLookup(), timedelta(seconds=1)

    def count_looks(after, changed_at=NOON):
        known = lookup.look_up(1, 1, changed_at=changed_at, now=NOON + after * second)
        return len(looks), known

    assert count_looks(0.2) == (0, TerminalInput())
    assert count_looks(0.3) == (1, RUNS)
    assert count_looks(0.5) == (1, RUNS)
    assert count_looks(10) == (2, RUNS)
    assert count_looks(19) == (2, RUNS)
    assert count_looks(3600) == (3, RUNS)
    assert count_looks(3629) == (3, RUNS)
    assert count_looks(3631) == (4, RUNS)
    assert count_looks(3632, NOON + 3631 * second) == (5, RUNS)
