"""Prompts and questions of real programs in tmux panes: how many waits miss them or end early."""

from __future__ import annotations

import random
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

from figures import Figure, amount
from homes import make_home, serve_home
from waits import open_wait, parse_instant

from openclaw_taskmem.cli.client import Link, connect

ROUNDS = 30
PATIENCE_SECONDS = 10
"""How long after the last command's end a wait may be open."""

POLL_SECONDS = 0.3
"""How often waits and panes are asked for; neither tells a benchmark of its end."""
SHELL_SECONDS = 60
"""How long a shell may take to start, or to be in front again."""
SHELL_NAMES = {"bash", "dash", "zsh", "fish"}

_PYTHON = shlex.quote(sys.executable)
_BASH = "env -i PATH=/usr/bin:/bin TERM=screen PS1={} bash --norc --noprofile -i"
SHELLS = {
    "bash": _BASH.format("'me@host:~/app$ '"),
    "bash, a sign": _BASH.format("'> '"),
    "bash, a letter": _BASH.format("'λ '"),
    "bash, a branch": _BASH.format("'➜  app git:(main) ✗ '"),
    "bash, brackets": _BASH.format("'(main) # '"),
    "bash, a counter": _BASH.format(r"'[\#]host# '"),
    "bash, two lines": _BASH.format(r"$'~/app on main\n❯ '"),
    "dash": "env -i PATH=/usr/bin:/bin PS1='$ ' dash -i",
    "zsh": "env -i PATH=/usr/bin:/bin TERM=screen zsh -f -i",
    "fish": "env -i PATH=/usr/bin:/bin HOME=/nonexistent TERM=screen fish --no-config -i",
}
QUESTIONS = {
    "sh": "sh -c 'sleep {}; printf \"Go on? \"; read x'",
    "sh, the question above": "sh -c 'sleep {}; echo \"Continue? [y/N]\"; read x'",
    "bash, readline": "bash -c 'sleep {}; read -e -p \"Name: \" x'",
    "bash, hidden": "bash -c 'sleep {}; read -s -p \"Secret: \" x'",
    "bash, a menu": "bash -c 'sleep {}; select x in yes no; do break; done'",
    "Python": f"{_PYTHON} -c 'import time; time.sleep({{}}); input(\"name> \")'",
    "Python, readline": (
        f"{_PYTHON} -c 'import readline, time; time.sleep({{}}); input(\"Port [80] \")'"
    ),
    "Python, getpass": f"{_PYTHON} -c 'import getpass, time; time.sleep({{}}); getpass.getpass()'",
    "Perl": "perl -e 'select undef, undef, undef, {}; print \"Which file? \"; $|=1; <STDIN>'",
    "ssh-keygen": "sh -c 'sleep {}; exec ssh-keygen -q -f /dev/null'",
}


class _Case(NamedTuple):
    """One wait of one round."""

    program: str
    wake_when: str
    wait_id: str
    not_before: float | None
    """Instant before which it must not end, in seconds since the epoch; None: it must not end."""


def prompts_and_questions() -> Iterator[Figure | str]:
    """Type commands into 20 programs, 30 times, and count waits that miss their end or end early.

    Each command runs for a random time. A wait for a question on a shell must stay open.
    """
    with ExitStack() as stack:
        home = stack.enter_context(make_home())
        server = _Tmux(str(home.folder / "tmux"))
        stack.callback(server, "kill-server")
        stack.enter_context(serve_home(home, TASKMEM_TMUX_SOCKET=server.socket))
        link = stack.enter_context(connect(home))
        programs = SHELLS | dict.fromkeys(QUESTIONS, SHELLS["bash"])
        for name in ("zsh", "fish"):
            if shutil.which(name) is None:
                yield f"{name} is not installed, so it was left out."
                del programs[name]
        for name, command in programs.items():
            server("new-session", "-d", "-s", _name_session(name), "-x", "80", "-y", "24", command)
        server.await_shells()
        dice = random.Random(1)  # noqa: S311
        faults: list[str] = []
        for _ in range(ROUNDS):
            faults += _play_round(server, link, programs, dice)
        total = ROUNDS * len(programs)
        missed = [fault for fault in faults if fault.startswith("missed")]
        yield amount(f"prompts and questions: missed of {total}", [len(missed)], "", total // 200)
        yield amount("likewise: ended early", [len(faults) - len(missed)], "", 0)
        yield from sorted(set(faults))


def _play_round(
    server: _Tmux, link: Link, programs: dict[str, str], dice: random.Random
) -> list[str]:
    """Type one command into each program, and return the faults in words."""
    cases: list[_Case] = []
    for name in programs:
        seconds = round(dice.uniform(0.5, 3), 2)
        question = QUESTIONS.get(name)
        command = question.format(seconds) if question else f"sleep {seconds}; echo the end"
        target, when = f"pty:tmux:{_name_session(name)}", "asks for input"
        due = time.time() + seconds
        server("send-keys", "-t", _name_session(name), "-l", command)
        server("send-keys", "-t", _name_session(name), "Enter")
        if question is None:
            when = "prompt returns"
            never = open_wait(link, target, "asks for input", timeout=3600)
            cases.append(_Case(name, "asks for input", never, None))
        wait_id = open_wait(link, target, when, timeout=3600)
        cases.append(_Case(name, when, wait_id, due))
    wanted = {case.wait_id for case in cases if case.not_before is not None}
    end = max(case.not_before or 0 for case in cases) + PATIENCE_SECONDS
    ended = _await_ends(link, wanted, end - time.time())
    faults: list[str] = []
    for case in cases:
        at = ended.get(case.wait_id)
        if at is None:
            link.call("call", {"tool": "wait_cancel", "arguments": {"wait_id": case.wait_id}})
        if at is None and case.not_before is not None:
            faults.append(f"missed: {case.program}, {case.wake_when}")
        if at is not None and (case.not_before is None or at < case.not_before):
            faults.append(f"early: {case.program}, {case.wake_when}")
    for name in programs:
        if name in QUESTIONS:
            server("send-keys", "-t", _name_session(name), "C-c")
    server.await_shells()
    return faults


def _await_ends(link: Link, wanted: set[str], seconds: float) -> dict[str, float]:
    """Return when each wait that has ended did so, once all wanted ones have, or time is up."""
    ended: dict[str, float] = {}

    def have_all_ended() -> bool:
        for wait in link.call("waits", {"all": True, "limit": 100_000}):
            if wait["status"] != "watching":
                ended[wait["wait_id"]] = parse_instant(wait["ended_at"])
        return wanted <= ended.keys()

    _poll(have_all_ended, seconds)
    return ended


def _poll(condition: Callable[[], bool], seconds: float) -> bool:
    """Ask until a condition holds, for so long at most; return whether it does."""
    end = time.monotonic() + seconds
    while not (holds := condition()) and time.monotonic() < end:
        time.sleep(POLL_SECONDS)
    return holds


def _name_session(program: str) -> str:
    return "p-" + "".join(letter for letter in program if letter.isalnum())


class _Tmux:
    """A tmux server of its own."""

    def __init__(self, socket: str) -> None:
        self.socket = socket

    def __call__(self, *arguments: str) -> str:
        """Run a tmux command, and return what it prints."""
        command = ["tmux", "-S", self.socket, "-f", "/dev/null", *arguments]
        done = subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        return done.stdout.decode()

    def await_shells(self) -> None:
        """Return when every pane has its shell in front.

        Raises:
            TimeoutError: One has not within `SHELL_SECONDS`.
        """

        def are_in_front() -> bool:
            names = self("list-panes", "-a", "-F", "#{pane_current_command}").split()
            return SHELL_NAMES.issuperset(names)

        if not _poll(are_in_front, SHELL_SECONDS):
            raise TimeoutError(f"No shell is in front of a pane within {SHELL_SECONDS} s.")
