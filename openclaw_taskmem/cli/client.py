"""Connect to the daemon, and start one if none answers; on request, in the background.

Standard library only, since the relay and the command line are built on it.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Literal, Self, cast

from openclaw_taskmem.home import Home, HomeRefused, describe_os_error

MAX_LINE: Final = 1024 * 1024
"""Bytes of the longest line sent to the daemon, with its newline."""

_ClientKind = Literal["mcp", "client"]

_PROTOCOL: Final = 1
"""Version of the opening; the daemon refuses others."""
_OPENING_SECONDS: Final = 15.0
"""Seconds in which a daemon must answer the opening: as long as it may take to start."""

_OTHER_SERVER: Final = (
    "Something that is not a taskmem daemon answers on its socket. Run `taskmem status`."
)


class LinkError(Exception):
    """The daemon cannot be reached, or it refused.

    `str()` is one sentence that says what to do next. Programs match on `name`:
    `daemon_unavailable`, or the daemon's own name for the refusal.
    """

    def __init__(self, name: str, message: str, answer: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.name = name
        self.answer = answer or {"error": name, "message": message}
        """The refusal as JSON, with the daemon's details."""


class _DaemonAbsent(Exception):
    """No daemon answers, but one that is started (or is starting) may.

    `words` are the daemon's own if it refused; None: there was no answer.
    """

    def __init__(self, words: str | None = None) -> None:
        super().__init__()
        self.words = words


class Link:
    """One open connection, for one thread; a context manager that closes it."""

    def __init__(self, sock: socket.socket, client_kind: _ClientKind) -> None:
        """Open the conversation.

        Raises:
            LinkError: The other end is not our daemon, or it refused.
            _DaemonAbsent: It disconnected, or is just ending.
        """
        self.socket: Final = sock
        """Connected and blocking; the relay takes it over."""
        self.waited = False
        """True if the daemon was starting, or had to be started."""
        self.is_own_daemon = False
        """True if this process has started the daemon."""
        self.received = b""
        """Bytes received after the last line that was read."""
        self._last_id = 0
        _check_peer(sock)
        answer = self._open(client_kind)
        try:
            pid, version = int(answer["pid"]), str(answer["version"])
        except (LookupError, TypeError, ValueError):
            raise _build_absence_error(_OTHER_SERVER) from None
        self.pid: Final = pid
        """The daemon's process id."""
        self.version: Final = version
        """The daemon's version, which may differ from ours after an upgrade."""
        if client_kind == "mcp" and (names := answer.get("variables")) is not None:
            told = {name: os.environ[name] for name in names if name in os.environ}
            self.socket.sendall(_encode_line({"variables": told}))

    def __enter__(self) -> Self:
        """Return the link; leaving the block closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection; a second time does nothing."""
        self.socket.close()

    def call(self, method: str, params: Mapping[str, Any], timeout: float | None = None) -> Any:  # noqa: ANN401 (JSON, whose form the method decides)
        """Call a method of the daemon and wait for its answer.

        `timeout`: the longest wait in seconds; None: no limit.

        Raises:
            LinkError: With the daemon's own name and sentence if it refused; `invalid_arguments`
                if the call is over `MAX_LINE`, and was not sent; `daemon_unavailable` if it ended
                or did not answer in time, and then the call may or may not have been done.
        """
        self._last_id += 1
        ask = {"id": self._last_id, "method": method, "params": dict(params)}
        line = _encode_line(ask)
        if len(line) > MAX_LINE:
            raise LinkError(
                "invalid_arguments",
                f"The call is more than {MAX_LINE >> 20} MiB; shorten its texts.",
            )
        due = None if timeout is None else _now() + timeout
        try:
            self._wait_at_most(due)
            self.socket.sendall(line)
            while (answer := self._read(due)).get("id") != self._last_id:
                if answer.get("id") is None and "error" in answer:
                    break  # the daemon could not even read the id of the call
        except TimeoutError:
            raise _build_absence_error(
                f"The daemon did not answer {method} within {timeout:g} s; it may or "
                "may not have been done. Look before repeating it.",
            ) from None
        except OSError:
            raise _build_absence_error(
                f"The daemon ended while {method} was running; it may or may not "
                "have been done. Look before repeating it.",
            ) from None
        if refusal := answer.get("error"):
            raise _build_refusal_error(refusal)
        return answer.get("result")

    def _open(self, client_kind: _ClientKind) -> dict[str, Any]:
        try:
            due = _now() + _OPENING_SECONDS
            self._wait_at_most(due)
            opening = {
                "taskmem": _PROTOCOL,
                "face": client_kind,
                "folder": _find_working_folder(),
                "tools": os.environ.get("TASKMEM_TOOLS"),
                "tells_variables": client_kind == "mcp",
                "posts": client_kind == "mcp",
            }
            self.socket.sendall(_encode_line(opening))
            answer = self._read(due)
            self.socket.settimeout(None)
        except TimeoutError:
            raise _build_absence_error(
                f"The daemon does not answer within {_OPENING_SECONDS:g} s. Run "
                "`taskmem daemon stop`, then try again.",
            ) from None
        except OSError:
            raise _DaemonAbsent from None
        if "error" in answer:
            refusal = _build_refusal_error(answer)
            if refusal.name == "daemon_unavailable":
                raise _DaemonAbsent(str(refusal))
            raise refusal
        if answer.get("taskmem") != _PROTOCOL:
            raise _build_absence_error(
                "The daemon that runs is of another version. Run `taskmem daemon "
                "stop`, then try again.",
            )
        return answer

    def _read(self, due: float | None) -> dict[str, Any]:
        parts = [self.received]
        while b"\n" not in parts[-1]:
            self._wait_at_most(due)
            if not (part := self.socket.recv(65536)):
                raise ConnectionResetError
            parts.append(part)
        line, _, self.received = b"".join(parts).partition(b"\n")
        try:
            answer: Any = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise _build_absence_error(_OTHER_SERVER)
        return cast("dict[str, Any]", answer)

    def _wait_at_most(self, due: float | None) -> None:
        if due is None:
            self.socket.settimeout(None)
        elif (left := due - _now()) > 0:
            self.socket.settimeout(left)
        else:
            raise TimeoutError


def connect(home: Home, client_kind: _ClientKind = "client") -> Link:
    """Connect to the running daemon; start none.

    `client_kind`: the protocol, `client` for `Link.call`, `mcp` for raw MCP.

    Raises:
        LinkError: `daemon_unavailable` if none answers; else its own refusal.
    """
    try:
        return _open_link(home, client_kind)
    except _DaemonAbsent as error:
        raise _build_unanswered_error(home, error.words) from None


def _open_link(home: Home, client_kind: _ClientKind) -> Link:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(_OPENING_SECONDS)
        sock.connect(os.fspath(home.find_socket(os.environ)))
        return Link(sock, client_kind)
    except PermissionError:
        sock.close()
        raise _build_absence_error(
            f"The socket {home.socket} is not open to this user. Run as the user who "
            "owns it, or set TASKMEM_HOME to a folder of your own.",
        ) from None
    except OSError:
        sock.close()
        raise _DaemonAbsent from None
    except (LinkError, _DaemonAbsent):
        sock.close()
        raise


def connect_running(home: Home, client_kind: _ClientKind) -> Link | None:
    """Connect to the daemon; None: none runs, or it is starting or ending.

    Raises:
        LinkError: `settings_invalid` if the folder cannot be used; else the daemon's own refusal.
    """
    try:
        home.require_own()
        return _open_link(home, client_kind)
    except HomeRefused as error:
        raise LinkError(error.name, str(error)) from error
    except _DaemonAbsent:
        return None


def connect_or_start(
    home: Home,
    environ: Mapping[str, str],
    client_kind: _ClientKind = "client",
    command: Sequence[str] | None = None,
) -> Link:
    """Connect to the daemon; wait for one that is starting or ending; start one if there is none.

    Any number of processes may do this at once: a lock ensures that only one of the started daemons
    stays, and all connect to that one.

    The folder is created if it is missing. A new daemon gets `environ`, except that `TASKMEM_HOME`
    is set to this home. `command` starts it; None: this Python's own `taskmem daemon`.

    Raises:
        LinkError: `daemon_unavailable` if none answered within 20 s, with the state of the daemon
            or the last line of its log; `settings_invalid` if the folder cannot be used; else the
            daemon's own refusal.
    """
    if link := connect_running(home, client_kind):
        return link
    from openclaw_taskmem.cli.daemon_process import DaemonStart

    try:
        start = DaemonStart(home, environ, command)
        if client_kind == "client" and sys.stderr.isatty():
            print("The daemon starts …", file=sys.stderr)  # noqa: T201 - a person waits for it
        for _ in start.iterate_attempts():
            with suppress(_DaemonAbsent):
                link = _open_link(home, client_kind)
                link.waited = True
                link.is_own_daemon = start.has_started(link.pid)
                return link
    except HomeRefused as error:
        raise LinkError(error.name, str(error)) from error
    except OSError as error:
        raise _build_absence_error(
            f"The daemon could not be started ({describe_os_error(error)}). Run `taskmem status`.",
        ) from error
    if (why := start.explain_failure()) is None:
        raise _build_unanswered_error(home)
    raise _build_absence_error(
        f"The daemon could not be started: {why.rstrip('.')}. Its log is {home.log}; "
        "`taskmem daemon` starts it in the foreground.",
    )


def _build_unanswered_error(home: Home, words: str | None = None) -> LinkError:
    """Say why no daemon answers, unless it said so itself."""
    from openclaw_taskmem.cli import daemon_process

    try:
        why = words or daemon_process.explain_presence(daemon_process.check_presence(home), home)
    except OSError as error:
        why = f"{describe_os_error(error)}; see whose file that is."
    return _build_absence_error(why)


def _build_absence_error(sentence: str) -> LinkError:
    return LinkError("daemon_unavailable", sentence)


def _check_peer(sock: socket.socket) -> None:
    # In a shared /tmp, another user may have created a socket at our path.
    if sys.platform == "linux":
        form, level, option = "3i", socket.SOL_SOCKET, socket.SO_PEERCRED
    else:
        form, level, option = "=IIh", 0, 1  # macOS: SOL_LOCAL, LOCAL_PEERCRED
    found = sock.getsockopt(level, option, 128)
    uid = struct.unpack_from(form, found)[1]
    if uid != os.geteuid():
        raise _build_absence_error(
            f"Another user (uid {uid}) answers on the daemon's socket. Set "
            "TASKMEM_HOME to a folder that is yours alone.",
        )


def _build_refusal_error(refusal: Mapping[str, Any]) -> LinkError:
    name = refusal.get("error", "taskmem_error")
    return LinkError(str(name), str(refusal.get("message", name)), refusal)


def _find_working_folder() -> str | None:
    """Return the working directory of this process; None: it was removed."""
    try:
        return os.getcwd()  # noqa: PTH109 - text, for a line
    except OSError:
        return None


def _encode_line(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def _now() -> float:
    return time.monotonic()  # noqa: TID251 (real waiting on another process, in no domain's time)


# --- in the background -----------------------------------------------------------------------


class Attempt:
    """Connects to a daemon in its own thread; `over` becomes readable when it has ended."""

    def __init__(self, reach: Callable[[], Link]) -> None:
        """Begin; `reach` returns a link or raises `LinkError`."""
        import threading  # relays that never need it are smaller without

        self.over, self._end = socket.socketpair()
        self._found: Link | LinkError | None = None
        threading.Thread(target=self._run, args=(reach,), name="attempt", daemon=True).start()

    def take_result(self) -> Link | LinkError | None:
        """Return the link or the error, after the end; None: an unforeseen error."""
        self.over.close()
        return self._found

    def give_up(self) -> None:
        """Close the link when it comes, or now."""
        self.over.close()
        if isinstance(self._found, Link):
            self._found.close()

    def _run(self, reach: Callable[[], Link]) -> None:
        try:
            self._found = reach()
        except LinkError as error:
            self._found = error
        finally:
            with self._end:
                try:
                    self._end.send(b".")
                except OSError:
                    self.give_up()  # once more, as it was given up before there was a link
