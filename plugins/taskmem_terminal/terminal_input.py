"""Look up what the program in front of a terminal does with its input.

Linux tells in `/proc` which processes are in front, whether one is blocked in reading the terminal,
and how the terminal is set: proc_pid_stat(5), proc_pid_syscall(5), proc_pid_wchan(5). Where nothing
can be looked up (other systems, processes of other users, another pid namespace), every answer is
None, and the terminal's text decides.

A program that waits in `epoll`, or in `poll` for several things, may wait for a key or for anything
else, so it is unknown. So is a program of which only a side thread reads, as a client does that
passes its input on.
"""

from __future__ import annotations

import contextlib
import os
import platform
import stat
import struct
import termios
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from taskmem_terminal.recording import SHELL_CARRIERS, is_interactive_shell

_PROC: Final = Path("/proc")
_READ_CALLS: Final = {"x86_64": 0, "aarch64": 63, "riscv64": 63}
"""Number of the system call `read`, by machine."""
_SELECT_CALLS: Final = {"x86_64": (23, 270), "aarch64": (72,), "riscv64": (72,)}
"""Numbers of `select` and `pselect6`."""
_POLL_CALLS: Final = {"x86_64": (7, 271), "aarch64": (73,), "riscv64": (73,)}
"""Numbers of `poll` and `ppoll`."""
_EPOLL_CALLS: Final = {"x86_64": (232, 281, 441), "aarch64": (22, 441), "riscv64": (22, 441)}
"""Numbers of the calls that wait in `epoll`, of which there are three."""
_MOST_POLLED: Final = 256
"""Maximum number of descriptors of one `poll` that are looked at."""
_NO_TIME_LIMIT: Final = (0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF, 0)
"""Arguments by which `poll` (as -1) and `ppoll` wait for ever; `poll` with 0 does not sleep."""
_UNCLEAR_SLEEPS: Final = ("poll", "select", "woken", "tty", "ring", "sigtimedwait", "sigsuspend")
"""Parts of the names of kernel functions in which a process may wait for its terminal."""
_EDITING_SHELLS: Final = frozenset({"bash", "zsh"})
"""Shells that edit their command lines, but not the answers to their builtin `read`."""
_TERMINAL_SLEEPS: Final = ("woken", "tty")
"""Those in which it waits for nothing else."""
_TYPING_VALIDITY: Final = 0.01
"""How long an answer holds on whether a person can type. Seconds."""
_REST: Final = timedelta(seconds=0.25)
"""Time without output after which a terminal is looked up."""
_LONGEST_VALIDITY: Final = timedelta(seconds=30)
"""Longest time between two looks at a terminal that shows nothing new."""
_PSEUDOTERMINALS: Final = range(136, 144)
"""Major device numbers of `/dev/pts`."""
_MOST_THREADS: Final = 64
"""Maximum number of threads of a process that are looked at."""


class TerminalInput(NamedTuple):
    """State of the program in front of a terminal, as to its input. None: unknown."""

    is_read: bool | None = None
    """True if a program is blocked in reading the terminal; False: all of them do other things."""
    is_shell: bool | None = None
    """True if the program is an interactive shell that asks nothing itself."""
    is_hidden: bool | None = None
    """True if the terminal is in line mode without echo."""
    takes_keys: bool | None = None
    """True if the terminal is in character mode, for a program that is here."""


def read_hides_input(terminal: int) -> bool | None:
    """Return whether an open terminal is in line mode without echo.

    None: unknown, because a program in character mode may show what it likes.
    """
    return _is_hiding(_read_modes(terminal))


def _read_modes(terminal: int) -> int | None:
    """Return an open terminal's local modes (termios(3)); None: its last user has closed it."""
    try:
        modes: int = termios.tcgetattr(terminal)[3]
    except termios.error:
        return None
    return modes


def _is_hiding(modes: int | None) -> bool | None:
    if modes is None:
        return None
    if modes & termios.ECHO:
        return False
    return True if modes & termios.ICANON else None


class InputLookup:
    """Looks up one terminal's input, less often the longer nothing is shown."""

    def __init__(self) -> None:
        self._known = TerminalInput()
        self._valid_until = datetime.min.replace(tzinfo=UTC)
        self._changed_at: datetime | None = None

    def look_up(
        self, pid: int | None, parent: int | None, *, changed_at: datetime | None, now: datetime
    ) -> TerminalInput:
        """Return what `look_up_input` does, or nothing while output may still come.

        `changed_at`: when output last came; None: none came since the watch began.
        """
        silence = now - changed_at if changed_at is not None else _LONGEST_VALIDITY
        if silence < _REST:
            return TerminalInput()
        if changed_at != self._changed_at or now >= self._valid_until:
            self._known = look_up_input(pid, parent)
            self._changed_at = changed_at
            self._valid_until = now + min(silence, _LONGEST_VALIDITY)
        return self._known


class TypingLookup:
    """Looks up whether a person can type into what is in front of one terminal."""

    def __init__(self) -> None:
        self.is_possible = True
        """The last answer."""
        self.look_up_seconds = 0.0
        """Duration of the last whole look. Seconds."""
        self._looked_at = 0.0
        self._known: tuple[int, bool] = (0, True)
        """The process group of the last whole look, and its answer."""

    def look_up(self, pid: int | None, parent: int | None) -> bool:
        """Return whether a process in front reads, or may read, what a person types."""
        begin = time.monotonic()
        leader = _find_typed_at(pid, parent)
        group = chain((leader,), _list_group(leader)) if leader else ()
        self.is_possible = leader is None or any(one.may_be_reading() for one in group)
        self._known = (leader.pid if leader else 0, self.is_possible)
        self._looked_at = time.monotonic()
        self.look_up_seconds = self._looked_at - begin
        return self.is_possible

    def look_up_again(self, pid: int | None, parent: int | None, now: float) -> bool:
        """Return the same as `look_up`, soon after it and fast; `now`: monotonic seconds.

        Of a group that was looked at, what its other processes did counts.
        """
        if now - self._looked_at >= _TYPING_VALIDITY:
            self._looked_at = now
            leader = _find_typed_at(pid, parent)
            self.is_possible = (
                leader is None or (leader.pid, True) == self._known or leader.may_be_reading()
            )
        return self.is_possible


def _find_typed_at(pid: int | None, parent: int | None) -> _Process | None:
    """Return the leader of the group in front, which may read line by line.

    None: a line editor reads, or it is unknown who reads.
    """
    try:
        first = _Process.read_description(pid or 0)
        modes = _look_up_modes(first.terminal)
        if first.parent != parent or modes is None or not modes & termios.ICANON:
            return None
        leader = _Process.read_description(first.group_in_front)
    except (OSError, ValueError):
        return None
    return None if leader.name in SHELL_CARRIERS else leader


def look_up_input(pid: int | None, parent: int | None) -> TerminalInput:
    """Look up what happens on the terminal of a process that `parent` started.

    Another parent shows that the number means another process, as in another pid namespace.
    """
    try:
        first = _Process.read_description(pid or 0)
    except (OSError, ValueError):
        return TerminalInput()
    if first.parent != parent or not first.terminal or first.group_in_front <= 0:
        return TerminalInput()
    modes = _look_up_modes(first.terminal)
    is_hidden = _is_hiding(modes)
    try:
        leader = _Process.read_description(first.group_in_front)
        words = (_PROC / str(leader.pid) / "cmdline").read_text(errors="replace").split("\0")[:-1]
    except (OSError, ValueError):
        return TerminalInput(is_hidden=is_hidden)
    if leader.name in SHELL_CARRIERS or not words:
        return TerminalInput(is_hidden=is_hidden)
    is_read = _is_read(leader)
    # A shell that edits its command line is in character mode there; its builtin `read` is not.
    edits = leader.name in _EDITING_SHELLS and "--noediting" not in words
    # Looked up twice: in between, its editor may have begun.
    asks = bool(edits and is_read) and all(
        known is not None and known & termios.ICANON
        for known in (modes, _look_up_modes(first.terminal))
    )
    return TerminalInput(
        is_read=is_read,
        is_shell=not asks and is_interactive_shell([leader.name, *words[1:]]),
        is_hidden=is_hidden,
        takes_keys=None if modes is None else not modes & termios.ICANON,
    )


def _look_up_modes(device: int) -> int | None:
    """Return the local modes of a terminal that is named by its device number; None: unknown."""
    if os.major(device) not in _PSEUDOTERMINALS:
        return None
    number = (os.major(device) - _PSEUDOTERMINALS.start) * 256 + os.minor(device)
    try:
        terminal = os.open(f"/dev/pts/{number}", os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return _read_modes(terminal) if os.fstat(terminal).st_rdev == device else None
    finally:
        os.close(terminal)


def _is_read(leader: _Process) -> bool | None:
    """Return whether a process of the leader's group is blocked in reading its terminal."""
    answer: bool | None = False
    for process in chain((leader,), _list_group(leader)):
        reads = process.is_reading()
        if reads:
            return True
        answer = None if reads is None else answer
    return answer


def _list_group(leader: _Process) -> Iterator[_Process]:
    """Yield the other processes of the leader's group."""
    for folder in _PROC.iterdir():
        if folder.name.isdigit() and folder.name != str(leader.pid):
            with contextlib.suppress(OSError, ValueError):
                process = _Process.read_description(int(folder.name))
                if (process.group, process.terminal) == (leader.group, leader.terminal):
                    yield process


class _Process(NamedTuple):
    """A process as `/proc/PID/stat` describes it."""

    pid: int
    name: str
    state: str
    parent: int
    group: int
    terminal: int
    """Device number; 0: none."""
    group_in_front: int
    """Process group in front of the terminal; -1: none."""

    @classmethod
    def read_description(cls, pid: int, thread: int | None = None) -> _Process:
        """Read the description of a process or one of its threads.

        Raises:
            OSError: There is none, or no `/proc`.
            ValueError: The description cannot be read.
        """
        folder = _PROC / str(pid)
        folder = folder if thread is None else folder / "task" / str(thread)
        name, fields = (folder / "stat").read_text().partition("(")[2].rpartition(")")[::2]
        state, *numbers = fields.split()[:6]
        parent, group, _, terminal, in_front = map(int, numbers)
        return cls(pid, name, state, parent, group, terminal, in_front)

    def is_reading(self) -> bool | None:
        """Return whether the main thread is blocked in reading the terminal; None: unknown."""
        try:
            answer = self._is_thread_reading(self.pid)
            if answer is not False:
                return answer
            threads = [int(folder.name) for folder in (_PROC / f"{self.pid}/task").iterdir()]
            if len(threads) > _MOST_THREADS:
                return None
            others = [self._is_thread_reading(thread) for thread in threads if thread != self.pid]
            return None if any(other is not False for other in others) else False
        except (OSError, ValueError):
            return None

    def may_be_reading(self) -> bool:
        """Return whether a thread is, or may be, blocked in reading the terminal line by line.

        One that waits for several things at once, as Node does, is not.
        """
        try:
            threads = [int(folder.name) for folder in (_PROC / f"{self.pid}/task").iterdir()]
            return any(map(self._may_thread_read, threads[:_MOST_THREADS]))
        except (OSError, ValueError):
            return True

    def _may_thread_read(self, thread: int) -> bool:
        reads = self._is_thread_reading(thread)
        if reads is not None:
            return reads
        place = (_PROC / str(self.pid) / "task" / str(thread) / "wchan").read_text()
        return place in ("", "0") or any(part in place for part in _TERMINAL_SLEEPS)

    def _is_thread_reading(self, thread: int) -> bool | None:
        if _Process.read_description(self.pid, thread).state != "S":
            return False
        folder = _PROC / str(self.pid) / "task" / str(thread)
        place = (folder / "wchan").read_text()
        if place in ("", "0"):
            return None
        if not any(part in place for part in _UNCLEAR_SLEEPS):
            return False
        try:
            call, *arguments = (int(word, 0) for word in (folder / "syscall").read_text().split())
        except (OSError, ValueError):
            # The kernel may refuse this file where it shows the others.
            return True if place == "n_tty_read" else None
        return self._is_call_reading(call, arguments)

    def _is_call_reading(self, call: int, arguments: list[int]) -> bool | None:
        """Return whether a system call waits for the terminal, for nothing else, and for ever.

        None: it waits for the terminal and something else, or it is unknown for what.
        """
        machine = platform.machine()
        if call == _READ_CALLS.get(machine):
            return self._is_terminal(arguments[0])
        if call in _SELECT_CALLS.get(machine, ()):
            sole = arguments[0] == 1 and arguments[4] == 0
            return (sole and self._is_terminal(0)) or None
        if call in _POLL_CALLS.get(machine, ()):
            awaited = self._read_polled(arguments[0], arguments[1])
            sole = len(awaited) == 1 and arguments[2] in _NO_TIME_LIMIT
        elif call in _EPOLL_CALLS.get(machine, ()):
            awaited, sole = [*self._list_epolled(arguments[0])], False
        else:
            return None
        reads = any(map(self._is_terminal, awaited))
        return (sole or None) if reads else False

    def _is_terminal(self, descriptor: int) -> bool:
        """Return whether an open file of the process is its terminal."""
        device = (_PROC / str(self.pid) / "fd" / str(descriptor)).stat()
        own = (os.makedev(5, 0), self.terminal)
        return stat.S_ISCHR(device.st_mode) and device.st_rdev in own

    def _read_polled(self, address: int, count: int) -> list[int]:
        """Return the descriptors in an array of `struct pollfd` of the process's memory."""
        with (_PROC / str(self.pid) / "mem").open("rb", buffering=0) as memory:
            memory.seek(address)
            entries = memory.read(8 * min(count, _MOST_POLLED))
        return [descriptor for descriptor, _, _ in struct.iter_unpack("ihh", entries)]

    def _list_epolled(self, descriptor: int) -> Iterator[int]:
        """Yield the descriptors that an `epoll` instance waits for: proc_pid_fdinfo(5)."""
        folder = _PROC / str(self.pid)
        for line in (folder / "fdinfo" / str(descriptor)).read_text().splitlines():
            if line.startswith("tfd:"):
                awaited = int(line.split()[1])
                if str((folder / "fd" / str(awaited)).readlink()) == "anon_inode:[eventpoll]":
                    yield from self._list_epolled(awaited)
                else:
                    yield awaited
