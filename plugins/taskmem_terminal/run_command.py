"""The command `taskmem run`: run a command in a pseudo-terminal, show it, and record it.

Recording never disturbs the command. News of a recording go to the daemon through a FIFO: writing a
name costs microseconds and needs no reader; the reader sleeps until then.

The command leads a session with that controlling terminal, so that shells have job control and
programs can paint. Input that is not a terminal reaches the command unchanged: a pipe through a
terminal would lose its end, its Ctrl-C bytes and long lines.

Not supported: stopping a command that is not inside a shell by Ctrl-Z (there is no shell that could
continue it), and background jobs that outlive their session without nohup: they get SIGHUP, as from
any terminal that closes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pty
import re
import secrets
import select
import signal
import stat
import string
import struct
import sys
import termios
import time
import tty
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, Final

import click

from taskmem_terminal.recording import (
    COLUMNS,
    FIFO_NAME,
    ROWS,
    NameTaken,
    Recorder,
    build_metadata,
    get_recordings_folder,
    is_recording_name,
)
from taskmem_terminal.terminal_input import read_hides_input


class _SessionRecorder:
    """Records a session; on an error it stops recording and sets `trouble`."""

    def __init__(self, name: str, arguments: list[str], size: tuple[int, int]) -> None:
        """Start the recording of a command in a terminal of `size` columns and rows.

        Raises:
            NameTaken: A running command has that name.
        """
        self.trouble: str | None = None
        self._name = name
        self._root: Path | None = None
        self._recorder: Recorder | None = None
        columns, rows = size
        about = build_metadata(arguments, columns=columns, rows=rows, recorder=os.getpid())
        try:
            self._root = get_recordings_folder()
            self._recorder = Recorder.claim(self._root, name, about)
        except NameTaken:
            raise
        except Exception as error:  # noqa: BLE001 - the command must not be harmed
            self._give_up(error)

    def note_start(self, pid: int) -> None:
        """Record the command's process."""
        self._update_metadata(pid=pid)
        self.notify_watchers()

    def note_size(self, columns: int, rows: int) -> None:
        """Record the terminal's new size."""
        self._update_metadata(columns=columns, rows=rows)

    def note_echo(self, *, hides_input: bool | None) -> None:
        """Record whether the terminal shows what is typed from now on."""
        self._update_metadata(hides_input=hides_input)

    def write(self, data: bytes) -> None:
        """Record output of the command."""
        self._attempt(lambda recorder: recorder.write(data))

    def is_ahead(self) -> bool:
        """Return whether waits must read on before more is recorded."""
        recorder = self._recorder
        return recorder is not None and recorder.is_ahead(time.monotonic())

    def notify_watchers(self) -> None:
        """Signal the daemon that there is something new."""
        if self._root is not None:
            notify_daemon(self._root, self._name)

    def end(self, status: int) -> None:
        """Record how the command ended."""

        def end(recorder: Recorder) -> None:
            recorder.end(status)
            recorder.close()
            self.notify_watchers()

        self._attempt(end)

    def _update_metadata(self, **fields: Any) -> None:  # noqa: ANN401
        self._attempt(lambda it: it.update_metadata(replace(it.about, **fields)))

    def _attempt(self, act: Callable[[Recorder], None]) -> None:
        if self._recorder is not None:
            try:
                act(self._recorder)
            except Exception as error:  # noqa: BLE001 - the command must not be harmed
                self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        if isinstance(error, KeyError):
            reason = "no home is set"
        else:
            reason = getattr(error, "strerror", None) or str(error)
        self.trouble = f"Recording pty:{self._name} stopped ({reason}); the command itself ran on."
        if self._recorder is not None:
            self._recorder.close()
            self._recorder = None
            self.notify_watchers()


def notify_daemon(root: Path, name: str) -> None:
    """Announce news of a recording; never blocks, never fails."""
    with contextlib.suppress(OSError):
        fifo = os.open(root / FIFO_NAME, os.O_WRONLY | os.O_NONBLOCK)
        try:
            if stat.S_ISFIFO(os.fstat(fifo).st_mode):
                os.write(fifo, f"{name}\n".encode())
        finally:
            os.close(fifo)


# --- the session --------------------------------------------------------------


_GULP_BYTES: Final = 65_536
_RING_SECONDS: Final = 0.004
"""Minimum time between two signals to the daemon. Seconds."""
_ECHO_SECONDS: Final = 0.2
"""Time between two checks whether a terminal that hides typing shows it again. Seconds."""
_LAG_SECONDS: Final = 0.01
"""Time between two checks whether waits have read on. Seconds."""
_DRAIN_SECONDS: Final = 0.2
"""How long to wait for more output of an ended command. Seconds."""
_DRAINED_SECONDS: Final = 1.0
"""How long to read the output of an ended command in total. Seconds."""
_FORWARDED_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_HEARD_SIGNALS: Final = (
    *_FORWARDED_SIGNALS,
    signal.SIGCHLD,
    signal.SIGWINCH,
    signal.SIGTSTP,
    signal.SIGCONT,
)


_NAME_CHARS: Final = 200
"""Characters of a program's name that are repeated in a sentence, at most."""


class _CannotStart(Exception):
    """The command cannot be started; the message says why."""

    def __init__(self, sentence: str, *, missing: bool) -> None:
        super().__init__(sentence)
        self.missing = missing
        """True if the command does not exist."""


class Session:
    """One command, from its start to its end."""

    def __init__(self, arguments: list[str]) -> None:
        self._arguments = arguments
        self._typing = os.isatty(0)
        self._showing = os.isatty(1)
        self.columns, self.rows = self._read_outer_size()
        self.pid = 0
        """Process id of the command; 0: not started."""
        self._inner = -1
        self._typed = b""
        self._held_back = b""
        self._rang = 0.0
        self._unheard = False
        self._hides_input: bool | None = None
        self._cooked: list[Any] | None = None

    def start(self) -> None:
        """Start the command.

        Raises:
            _CannotStart: It does not exist, or is not a program.
        """
        outcome, report = os.pipe()
        try:
            stdin = None if self._typing else os.dup(0)
        except OSError:  # started without any
            stdin = os.open(os.devnull, os.O_RDONLY)
        modes = termios.tcgetattr(0) if self._typing else None
        try:
            self.pid, self._inner = pty.fork()
            if self.pid == 0:  # pragma: no cover - another process
                self._exec_command(report, stdin, modes)
        finally:
            os.close(report)
            if stdin is not None:
                os.close(stdin)
        with open(outcome, "rb") as pipe:  # noqa: PTH123
            trouble = pipe.read()
        if trouble:
            os.waitpid(self.pid, 0)
            os.close(self._inner)
            number = int(trouble)
            missing = number in (errno.ENOENT, errno.ENOTDIR)
            given = self._arguments[0]
            name = "".join(each if each.isprintable() else "\ufffd" for each in given)
            name = name if len(name) <= _NAME_CHARS else f"{name[: _NAME_CHARS - 1]}…"
            raise _CannotStart(
                f"{name} cannot be started ({os.strerror(number)}); "
                "see that it is installed, and how it is spelled.",
                missing=missing,
            )
        os.set_blocking(self._inner, False)

    def play(self, shadow: _SessionRecorder) -> int:
        """Show the command until it ends, and return its status.

        A negative status is the number of the signal that ended it.
        """
        with _catch_signals() as signals:
            self._own_terminal()
            try:
                return self._relay_until_end(shadow, signals)
            finally:
                self._give_terminal_back()
                os.close(self._inner)

    def _relay_until_end(self, shadow: _SessionRecorder, signals: int) -> int:
        status: int | None = None
        reading = [signals, self._inner]
        while status is None:
            writing = [self._inner] if self._typed else []
            pause = self._notify_when_due(shadow)
            wanted = self._list_inputs(reading)
            if shadow.is_ahead():
                # The command waits for its slowest reader, as on any terminal.
                wanted = [each for each in wanted if each != self._inner]
                pause = min(pause or _LAG_SECONDS, _LAG_SECONDS)
            ready, writable, _ = select.select(wanted, writing, [], pause)
            if self._inner in ready and not self._read_command_output(shadow):
                reading.remove(self._inner)
            if 0 in ready:
                self._read_typed()
            if writable:
                self._write_typed()
            if signals in ready:
                status = self._handle_signals(os.read(signals, 512), shadow)
        # Background processes may print for ever, so the time is limited.
        due = time.monotonic() + _DRAINED_SECONDS
        while select.select([self._inner], [], [], _DRAIN_SECONDS)[0]:
            if not self._read_command_output(shadow) or time.monotonic() > due:
                break
        self._show_output(b"", last=True)
        if self._unheard:
            shadow.notify_watchers()
        return status

    def _list_inputs(self, reading: list[int]) -> list[int]:
        """Return `reading`, with the keyboard where more may be typed."""
        more = self._cooked is not None and len(self._typed) < _GULP_BYTES
        return [*reading, 0] if more else [*reading]

    # --- output -------------------------------------------------------------

    def _read_command_output(self, shadow: _SessionRecorder) -> bool:
        """Read the command's output; return whether more may come."""
        got = bytearray()
        going = True
        while len(got) < _GULP_BYTES:
            try:
                fresh = os.read(self._inner, _GULP_BYTES)
            except BlockingIOError:
                break
            except OSError:  # how Linux says that nobody has it open any more
                fresh = b""
            if not fresh:
                going = False
                break
            got += fresh
        if got:
            shadow.write(bytes(got))
            self._unheard = True
            self._notify_when_due(shadow)
            self._show_output(bytes(got))
        return going

    def _notify_when_due(self, shadow: _SessionRecorder) -> float | None:
        """Signal the daemon if it is time; return the seconds until the next check; None: never."""
        hides = read_hides_input(self._inner)
        if self._hides_input != hides:
            self._hides_input = hides
            shadow.note_echo(hides_input=hides)
            self._unheard = True
        if not self._unheard:
            return _ECHO_SECONDS if self._hides_input else None
        left = self._rang + _RING_SECONDS - time.monotonic()
        if left > 0:
            return left
        shadow.notify_watchers()
        self._rang = time.monotonic()
        self._unheard = False
        return _ECHO_SECONDS if self._hides_input else None

    def _show_output(self, data: bytes, *, last: bool = False) -> None:
        """Write output to the terminal; without one, restore the original line ends."""
        if not self._showing:
            data = self._held_back + data
            cut = len(data) - (data.endswith(b"\r") and not last)
            data, self._held_back = data[:cut], data[cut:]
            data = data.replace(b"\r\n", b"\n")
        while data:
            try:
                data = data[os.write(1, data) :]
            except BlockingIOError:
                select.select([], [1], [])
            except OSError as error:
                # No reader is left: send the command what a closing terminal sends.
                if error.errno == errno.EPIPE:
                    self._forward_signal(signal.SIGHUP)
                return

    # --- input --------------------------------------------------------------

    def _read_typed(self) -> None:
        try:
            fresh = os.read(0, _GULP_BYTES)
        except OSError:
            fresh = b""
        if not fresh:  # the terminal went away, and SIGHUP says so too
            self._give_terminal_back()
        self._typed += fresh
        self._write_typed()

    def _write_typed(self) -> None:
        try:
            self._typed = self._typed[os.write(self._inner, self._typed) :]
        except BlockingIOError:
            pass
        except OSError:
            self._typed = b""

    # --- signals ------------------------------------------------------------

    def _handle_signals(self, signals: bytes, shadow: _SessionRecorder) -> int | None:
        """Act on signals; return the command's status if it has ended."""
        status: int | None = None
        for number in signals:
            if number == signal.SIGCHLD:
                ended, word = os.waitpid(self.pid, os.WNOHANG)
                if ended:
                    status = os.waitstatus_to_exitcode(word)
            elif number == signal.SIGWINCH:
                self.columns, self.rows = self._read_outer_size()
                _set_size(self._inner, self.columns, self.rows)
                shadow.note_size(self.columns, self.rows)
            elif number == signal.SIGTSTP:
                self._forward_signal(signal.SIGSTOP)
                self._give_terminal_back()
                os.kill(os.getpid(), signal.SIGSTOP)
            elif number == signal.SIGCONT:
                self._own_terminal()
                self._forward_signal(signal.SIGCONT)
            else:
                self._forward_signal(signal.Signals(number))
            if status is not None:
                break
        return status

    def _forward_signal(self, number: signal.Signals) -> None:
        """Forward a signal: SIGTERM to the command, others to process groups as a terminal does."""
        if number == signal.SIGTERM:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)
            return
        groups = {self.pid}
        with contextlib.suppress(OSError):
            groups.add(os.tcgetpgrp(self._inner))
        for group in groups - {0}:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, number)

    # --- the terminal outside -----------------------------------------------

    def _own_terminal(self) -> None:
        """Set the outer terminal to raw mode, unless another job uses it."""
        if not self._typing or self._cooked is not None:
            return
        try:
            if os.tcgetpgrp(0) != os.getpgrp():
                return
        except OSError:
            pass  # a terminal that controls nobody here
        with contextlib.suppress(termios.error):
            self._cooked = termios.tcgetattr(0)
            tty.setraw(0, termios.TCSADRAIN)

    def _give_terminal_back(self) -> None:
        if self._cooked is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(0, termios.TCSADRAIN, self._cooked)
            self._cooked = None

    def _read_outer_size(self) -> tuple[int, int]:
        for handle in (1, 0):
            with contextlib.suppress(OSError):
                columns, rows = os.get_terminal_size(handle)
                if columns > 0 and rows > 0:
                    return columns, rows
        return COLUMNS, ROWS

    def _exec_command(
        self, report: int, stdin: int | None, modes: list[Any] | None
    ) -> None:  # pragma: no cover - another process
        """Turn this forked process into the command."""
        try:
            _set_size(1, self.columns, self.rows)
            if modes is not None:
                termios.tcsetattr(1, termios.TCSANOW, modes)
            if stdin is not None:
                os.dup2(stdin, 0)
            for ignored_by_python in (signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(ignored_by_python, signal.SIG_DFL)
            os.execvp(self._arguments[0], self._arguments)  # noqa: S606
        except OSError as error:
            os.write(report, str(error.errno or errno.ENOEXEC).encode())
        except ValueError:  # an argument that holds a NUL, or is empty
            os.write(report, str(errno.ENOENT).encode())
        finally:
            os._exit(127)


def _set_size(handle: int, columns: int, rows: int) -> None:
    size = struct.pack("HHHH", rows, columns, 0, 0)
    with contextlib.suppress(OSError):
        fcntl.ioctl(handle, termios.TIOCSWINSZ, size)


@contextlib.contextmanager
def _catch_signals() -> Generator[int]:
    """Yield a descriptor from which the numbers of received signals can be read."""
    signals, wake = os.pipe()
    os.set_blocking(wake, False)

    def ignore_signal(_number: int, _frame: FrameType | None) -> None:
        """Do nothing: the loop reads the number."""

    before = {
        number: signal.signal(number, ignore_signal)
        for number in _HEARD_SIGNALS
        # Signals that the parent ignores (nohup) stay ignored.
        if signal.getsignal(number) != signal.SIG_IGN or number == signal.SIGCHLD
    }
    woken = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    # Check once for a child that ended before the handler was set.
    os.write(wake, bytes([signal.SIGCHLD]))
    try:
        yield signals
    finally:
        signal.set_wakeup_fd(woken)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(signals)
        os.close(wake)


# --- the command --------------------------------------------------------------


_NOT_FOUND: Final = 127
_NOT_EXECUTABLE: Final = 126
"""Exit statuses as shells use them."""


@click.command(
    "run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@click.option(
    "--name",
    metavar="NAME",
    help="Watched as pty:NAME; letters, digits, '.', '_' and '-', at most 64.",
)
@click.argument("arguments", metavar="-- CMD...", nargs=-1, type=click.UNPROCESSED)
def command(name: str | None, arguments: tuple[str, ...]) -> None:
    """Run a command in a terminal that an agent can wait on.

    It is shown as it is, and what it prints is recorded: smart_wait watches it as
    pty:NAME. taskmem ends with the command's own status. Output and errors are one
    stream, as in every terminal; input that is no terminal reaches the command as it
    is. Ctrl-Z stops what runs inside a shell, not a command that was given itself.
    """
    if not arguments:
        raise click.UsageError("Say which command to run: taskmem run -- make test")
    if name is not None and not is_recording_name(name):
        raise click.BadParameter(
            f"{name!r} is no name; use letters, digits, '.', '_' and '-', at most 64, "
            "and no '.' at the start.",
            param_hint="--name",
        )
    sys.exit(run_recorded(name or _make_default_name(arguments[0]), list(arguments)))


def run_recorded(name: str, arguments: list[str]) -> int:
    """Run a command, recorded under a name, and return the exit status.

    Raises:
        click.ClickException: A running command has that name.
    """
    session = Session(arguments)
    try:
        shadow = _SessionRecorder(name, arguments, (session.columns, session.rows))
    except NameTaken:
        raise click.ClickException(
            f"pty:{name} still runs; choose another --name, or end it first."
        ) from None
    if not shadow.trouble:
        with contextlib.suppress(OSError):  # the disk below stderr is full
            click.echo(f"[taskmem] watch it as pty:{name}", err=True)
    try:
        session.start()
    except _CannotStart as error:
        status = _NOT_FOUND if error.missing else _NOT_EXECUTABLE
        shadow.write(f"taskmem: {error}\r\n".encode())
        shadow.end(status)
        click.echo(f"taskmem: {error}", err=True)
        return status
    shadow.note_start(session.pid)
    status = session.play(shadow)
    shadow.end(status)
    if shadow.trouble:
        click.echo(f"[taskmem] {shadow.trouble}", err=True)
    return status if status >= 0 else 128 - status


def _make_default_name(program: str) -> str:
    base = re.sub(r"[^A-Za-z0-9_-]+", "-", Path(program).name).strip("-") or "command"
    letters = string.ascii_lowercase + string.digits
    return f"{base[:48]}-{''.join(secrets.choice(letters) for _ in range(4))}"
