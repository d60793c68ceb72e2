"""`taskmem mcp`: relay MCP lines between a host's stdin and stdout and the daemon.

Hosts start one relay per session and sometimes leak it, so it is small, buffers little, and ends
when its stdin does. It answers by itself only if the daemon cannot: when a line is too long, when
the daemon is gone, and, so that no host waits for a daemon that starts, what begins a session.
The daemon's requests pass to the host, but for `taskmem/post`, which `socket_posts` answers.

The two directions do not wait for each other. Otherwise a host and a daemon that both write before
they read would deadlock.

A daemon that was killed is started again at once, since it watches the waits of the host's agent. A
daemon that was stopped is started by the next call.

Lines are parsed only as far as the relay needs.
"""

from __future__ import annotations

import json
import os
import select
import socket
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from openclaw_taskmem.cli.client import (
    MAX_LINE,
    Attempt,
    Link,
    LinkError,
    connect,
    connect_or_start,
    connect_running,
)
from openclaw_taskmem.cli.socket_posts import begin_post
from openclaw_taskmem.home import Home, locate_home
from openclaw_taskmem.mcp_answers import ListedTools, answer_hello, build_answer, find_protocol
from openclaw_taskmem.mcp_lines import (
    POST,
    Id,
    LineSplitter,
    McpMessage,
    TruncatedLine,
    build_refusal,
    find_request_id,
    parse_line,
    read_message,
    split_batch,
)

_CHUNK: Final = 64 * 1024
"""Bytes that are read at once."""
_QUEUE_BYTES: Final = 1024 * 1024
"""Bytes that may wait for the daemon, or for the host, before no more is read."""
_DRAIN_SECONDS: Final = 10.0
"""Seconds in which calls may still end after the host has closed its side."""
_RETRY_SECONDS: Final = 3.0
"""Seconds after a failed start within which no daemon is started."""
_SPREAD_SECONDS: Final = 0.3
"""Seconds over which a home's relays spread their restarts, so that one daemon starts."""
_SPREAD_RELAYS: Final = 16
"""Instants within these seconds among which relays are spread."""
_LONGEST_RETRY_DELAY: Final = 60.0
"""Seconds, at most, between two restarts of a daemon that is repeatedly killed."""
_YOUNG_SECONDS: Final = 10.0
"""A daemon that is repeatedly killed before this age is restarted after growing pauses."""
_MOST_LOSSES: Final = 2
"""Daemons that may end before one takes a message; then it is refused."""
_TOO_LONG: Final = f"The call is more than {MAX_LINE >> 20} MiB and was not done; shorten it."
"""Answer to a call that is longer than the daemon takes."""
_MAYBE_DONE: Final = LinkError(
    "daemon_unavailable",
    "The daemon ended while this call was running; it may or may not have been done. "
    "Look with task_list or task_update(query) before repeating it.",
)
"""Answer to a call that the daemon had taken when it ended."""
_READY_NOTICE: Final = read_message(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
"""The notification that a host sends after an `initialize` that was not refused."""
_OWN_ID: Final = "taskmem-relay-tools"
"""Id of the relay's own question which tools there are; its answer is kept."""
_NOT_DONE: Final = LinkError(
    "daemon_unavailable",
    f"The daemon ended {_MOST_LOSSES + 1} times before it took this, which was not done. "
    "Look at `taskmem status` and at the daemon's log.",
)
"""Answer to a call that no daemon took."""


_TERMINAL_NOTE: Final = (
    b"This is a server for hosts of agents, which start it once taskmem setup has told them to.\n"
    b"It now reads MCP messages here; Ctrl-D ends it.\n"
)


def run_relay(environ: Mapping[str, str]) -> int:
    """Relay between this process's stdin and stdout and the daemon.

    Returns:
        The exit status: 0, when stdin has ended or stdout was closed.
    """
    if os.isatty(0):
        with suppress(OSError):
            os.write(2, _TERMINAL_NOTE)
    relay = Relay(locate_home(environ), environ)
    with suppress(ConnectionError):
        relay.serve(0, 1)
    return 0


class Relay:
    """One host's session, over as many daemons as it takes."""

    def __init__(
        self, home: Home, environ: Mapping[str, str], command: Sequence[str] | None = None
    ) -> None:
        """Relay to the daemon of a home; connect to it when needed.

        A new daemon gets `environ`; `command` starts it, and None is this Python's own.
        """
        self._home = home
        self._environ = environ
        self._command = command
        self._daemon: socket.socket | None = None
        self._refusal: LinkError | None = None
        self._refused_at = 0.0
        self._from_host = LineSplitter(MAX_LINE)
        self._from_daemon = LineSplitter()
        self._to_host = bytearray()
        self._queue: deque[McpMessage] = deque()
        self._sent = 0  # bytes sent of the first message in the queue
        self._in_flight: dict[Id | None, McpMessage] = {}
        self._revive_at: float | None = None
        """When to restart the killed daemon; None: not at all."""
        self._revival: Attempt | None = None
        """The start in progress; messages wait for it."""
        self._revivals = 0
        self._began = 0.0
        self._has_served = False
        """True once a request of the host's was answered, by a daemon or as one would."""
        self._greeted: str | None = None
        """Protocol of the host's first request, if no daemon ran then; None: not known."""
        self._listed: ListedTools | None = None
        """The tools of daemons that start as this relay's does; None: its daemon is another's."""
        self._posts: dict[socket.socket, socket.socket | None] = {}
        """Ends with the answers to the daemon's own requests, and the daemon that asked."""
        self._hello: McpMessage | None = None
        self._ready: McpMessage | None = None
        self._replay: McpMessage | None = None

    def serve(self, stdin: int, stdout: int) -> None:
        """Relay until stdin ends, and then until open requests are answered, for 10 s at most.

        Both are descriptors; nothing but MCP is written to stdout.

        Raises:
            ConnectionError: stdout was closed.
        """
        try:
            self._loop(stdin, stdout)
        finally:
            if self._daemon:
                self._daemon.close()
            if self._revival:
                self._revival.give_up()

    def _loop(self, stdin: int, stdout: int) -> None:
        due: float | None = None
        while True:
            if self._queue and not self._daemon and not self._revival:
                self._connect()
            left = None if due is None else due - _now()
            if left is not None and (left <= 0 or self._is_done()):
                return
            if left is None and self._revive_at is not None:
                if self._revive_at <= _now():
                    self._revive()
                    continue
                left = self._revive_at - _now()
            ended = due is not None
            readable, writable = self._select(stdin, stdout, left, ended=ended)
            if stdout in writable:
                self._write(stdout)
            if self._daemon in writable:
                self._send()
            if self._daemon in readable:
                self._receive()
            self._end_revival(readable)
            self._end_posts(readable)
            if stdin in readable and not self._read(stdin):
                due = _now() + _DRAIN_SECONDS

    def _is_done(self) -> bool:
        left = [*self._queue, *self._in_flight.values()]
        return not self._to_host and all(message.id == _OWN_ID for message in left)

    def _select(
        self, stdin: int, stdout: int, seconds: float | None, *, ended: bool = False
    ) -> tuple[list[int | socket.socket], list[int | socket.socket]]:
        """Wait until something can be read or written; `ended`: stdin has ended."""
        readable: list[int | socket.socket] = [*self._posts]
        writable: list[int | socket.socket] = []
        if not ended and sum(len(one.line) for one in self._queue) < _QUEUE_BYTES:
            readable.append(stdin)
        if self._to_host:
            writable.append(stdout)
        if self._daemon:
            if len(self._to_host) < _QUEUE_BYTES:
                readable.append(self._daemon)
            if self._queue and not self._is_replay_pending():
                writable.append(self._daemon)
        if self._revival:
            readable.append(self._revival.over)
        return select.select(readable, writable, (), seconds)[:2]

    # From the host to the daemon.

    def _read(self, stdin: int) -> bool:
        """Read from the host; False: it has ended."""
        try:
            chunk = os.read(stdin, _CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            chunk = b""
        for line in self._from_host.cut(chunk):
            self._queue_line(line)
        if not chunk and (last := self._from_host.take_remainder()):
            self._queue_line(last if isinstance(last, TruncatedLine) else last + b"\n")
        self._send()
        return bool(chunk)

    def _queue_line(self, line: bytes) -> None:
        if isinstance(line, TruncatedLine):
            to = find_request_id(line)
            self._to_host += build_refusal(to, "invalid_arguments", _TOO_LONG)
            return
        for message in map(read_message, split_batch(line)):
            self._queue_message(message)

    def _queue_message(self, message: McpMessage) -> None:
        if message.method == "notifications/initialized":
            self._ready = message
        if message.method == "tools/list" and self._revival:
            message = self._answer_listing(message)
        if self._daemon or self._queue or message.wants_daemon:
            self._queue.append(message)

    # While the daemon starts.

    def _greet(self, protocol: str, answer: bytes) -> Link | None:
        """Answer the host's first request while its daemon starts; None: it starts.

        Where it is not known which tools there are, the daemon is waited for here: hosts may allow
        less time for the list than for this answer (OpenClaw 2026.9.6: 1.5 s).
        """
        self._greeted, self._listed = protocol, ListedTools(self._home, self._environ)
        if self._listed.read_result(protocol) is None:
            return connect_or_start(self._home, self._environ, "mcp", self._command)
        hello = self._queue.popleft()
        self._to_host += answer
        self._has_served = True
        self._hello = hello if hello.method == "initialize" else None
        self._start_in_background()
        more = [*self._queue]
        self._queue.clear()
        for message in more:
            self._queue_message(message)
        return None

    def _answer_listing(self, message: McpMessage) -> McpMessage:
        """Answer which tools there are, if that is known; return what the daemon is to be asked.

        It is asked even so, since what is known may be older than a plug-in's own files.
        """
        protocol = find_protocol(message, self._greeted)
        result = self._listed and protocol and self._listed.read_result(protocol)
        if not result:
            return message
        self._to_host += build_answer(message, result)
        asked = {**parse_line(message.line), "id": _OWN_ID}
        return McpMessage(json.dumps(asked).encode() + b"\n", _OWN_ID, message.method)

    def _start_in_background(self) -> None:
        self._revival = Attempt(
            lambda: connect_or_start(self._home, self._environ, "mcp", self._command)
        )

    def _send(self) -> None:
        try:
            while self._daemon and self._queue and not self._is_replay_pending():
                message = self._queue[0]
                self._sent += self._daemon.send(memoryview(message.line)[self._sent :])
                if self._sent == len(message.line):
                    self._record_sent(self._queue.popleft())
        except BlockingIOError:
            return
        except OSError:
            while self._receive():
                pass  # read what it had written
            self._drop_daemon()

    def _record_sent(self, message: McpMessage) -> None:
        self._sent = 0
        self._in_flight.pop(message.cancels, None)
        if message.is_request:
            if message.method == "tools/call":
                message.line = b""  # it is never sent again
            self._in_flight[message.id] = message

    # From the daemon to the host.

    def _receive(self) -> bool:
        """Read from the daemon; False: there is nothing."""
        if not self._daemon:
            return False
        try:
            chunk = self._daemon.recv(_CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            chunk = b""
        if not chunk:
            self._drop_daemon()
        for line in self._from_daemon.cut(chunk):
            self._pass_to_host(line)
        return bool(chunk)

    def _pass_to_host(self, line: bytes) -> None:
        answer = read_message(line)
        if answer.method == POST:
            self._posts[begin_post(line)] = self._daemon
            return
        asked = self._in_flight.pop(answer.id, None) if answer.is_answer else None
        if asked and asked is self._replay:
            self._replay = None
            if self._ready and self._ready not in self._queue:
                self._queue.appendleft(self._ready)
            return
        if asked:
            self._has_served = True
            self._keep_listing(asked, line)
            self._hello = asked if asked.method == "initialize" else self._hello
        if answer.id != _OWN_ID:
            self._to_host += line

    def _keep_listing(self, asked: McpMessage, answer: bytes) -> None:
        """Keep which tools there are for the next relay, if this one has started the daemon."""
        if asked.method == "tools/list" and self._listed:
            protocol = find_protocol(asked, self._greeted)
            if protocol is not None:
                self._listed.keep_answer(protocol, answer)

    def _end_posts(self, readable: Sequence[int | socket.socket]) -> None:
        """Pass on what has become of the daemon's own requests, unless it is gone."""
        for end in [each for each in self._posts if each in readable]:
            asker = self._posts.pop(end)
            with end:
                answer = end.recv(_CHUNK)
            if answer and asker is self._daemon:
                self._queue.append(read_message(answer))

    def _write(self, stdout: int) -> None:
        # A writable pipe accepts PIPE_BUF bytes without blocking.
        with suppress(BlockingIOError):
            del self._to_host[: os.write(stdout, self._to_host[: select.PIPE_BUF])]

    # From one daemon to the next.

    def _connect(self) -> None:
        """Connect to the daemon, or start one; if that fails, refuse all queued requests.

        Within `_RETRY_SECONDS` of a failure, none is started.
        """
        ago = _now() - self._refused_at
        again = self._refusal is None or ago >= _RETRY_SECONDS
        try:
            if again and (answer := answer_hello(self._queue[0])):
                link = connect_running(self._home, "mcp") or self._greet(*answer)
                if link is None:
                    return
            elif again:
                link = connect_or_start(self._home, self._environ, "mcp", self._command)
            else:
                # Too soon to start one again, but one may be running by now.
                link = connect(self._home, "mcp")
        except LinkError as error:
            if again:
                self._refusal, self._refused_at = error, _now()
            refusal = self._refusal or error
        else:
            self._refusal = None
            self._attach_daemon(link)
            return
        since = "" if again else f"{ago:.0f} s ago: "
        failure = LinkError(
            refusal.name,
            f"{since}{refusal} Nothing was done; `taskmem status` and {self._home.log} say more.",
        )
        while self._queue:
            self._refuse_message(self._queue.popleft(), failure)

    def _revive(self) -> None:
        """Begin to restart the killed daemon, or to connect to one that another relay has started.

        A daemon that has stopped in order meanwhile is not restarted.
        """
        self._revive_at = None
        if not self._was_killed():
            return
        self._start_in_background()

    def _end_revival(self, readable: Sequence[int | socket.socket]) -> None:
        """Use the result of a restart once it has ended."""
        if not self._revival or self._revival.over not in readable:
            return
        found, self._revival = self._revival.take_result(), None
        if isinstance(found, Link):
            self._refusal = None
            self._attach_daemon(found)
            return
        self._listed = None  # the next daemon may start with other settings
        self._revive_at = _now() + self._next_retry_delay()
        if found is not None:
            self._refusal, self._refused_at = found, _now()

    def _next_retry_delay(self) -> float:
        """Return the seconds until the next restart.

        The first is a fraction of `_SPREAD_SECONDS` that depends on the process; then the pause
        doubles each time, up to `_LONGEST_RETRY_DELAY`.
        """
        tries, self._revivals = self._revivals, self._revivals + 1
        if not tries:
            return _SPREAD_SECONDS * (os.getpid() % _SPREAD_RELAYS) / _SPREAD_RELAYS
        return min(_RETRY_SECONDS * (1 << (tries - 1)), _LONGEST_RETRY_DELAY)

    def _attach_daemon(self, link: Link) -> None:
        self._revive_at = None
        self._began = _now()
        link.socket.setblocking(False)  # noqa: FBT003 (the socket module's own form)
        self._daemon = link.socket
        if not link.is_own_daemon:
            self._listed = None
        self._from_daemon = LineSplitter()
        self._sent = 0
        if self._hello and not (self._queue and self._queue[0].method == "initialize"):
            # Repeat the host's `initialize` for this daemon; all other messages wait
            # until it has answered.
            self._replay = McpMessage(self._hello.line, self._hello.id, "initialize")
            self._queue.appendleft(self._replay)
        for line in self._from_daemon.cut(link.received):
            self._pass_to_host(line)

    def _is_replay_pending(self) -> bool:
        return self._replay is not None and self._queue[0] is not self._replay

    def _drop_daemon(self) -> None:
        """Close the connection, and queue again the messages that may be repeated.

        Tool calls that were sent are refused: they may have been done. So is a message that has
        lost more than `_MOST_LOSSES` daemons. A killed daemon is to be restarted.
        """
        if not self._daemon:
            return
        self._daemon.close()
        self._daemon = None
        open_ones = [*self._in_flight.values(), *self._queue]
        replay, self._replay = self._replay, None
        self._listed = None
        self._in_flight.clear()
        self._queue.clear()
        for message in open_ones:
            message.losses += 1
            if message is replay or message.id == _OWN_ID:
                continue
            if not message.line:
                self._refuse_message(message, _MAYBE_DONE)
            elif message.losses > _MOST_LOSSES:
                self._refuse_message(message, _NOT_DONE)
            else:
                self._queue.append(message)
        if not any(message.wants_daemon for message in self._queue):
            self._queue.clear()  # notifications were for the daemon that is gone
        if self._has_served and self._was_killed():
            if _now() - self._began >= _YOUNG_SECONDS:
                self._revivals = 0
            self._revive_at = _now() + self._next_retry_delay()

    def _was_killed(self) -> bool:
        """Tell whether the daemon was killed: one that stops in order removes its socket."""
        return self._home.socket.exists()

    def _refuse_message(self, message: McpMessage, error: LinkError) -> None:
        if message.method == "initialize":
            # The next daemon hears it before the next request, which it would refuse otherwise.
            self._hello, self._ready = message, self._ready or _READY_NOTICE
        if message.id == _OWN_ID:
            return
        if message.is_request or (message.wants_daemon and message.line.strip()):
            self._to_host += build_refusal(message.id, error.name, str(error))


def _now() -> float:
    return time.monotonic()  # noqa: TID251 (real waiting on other processes)
