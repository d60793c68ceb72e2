"""Watch tmux panes; only what comes after the wait's start counts.

Text already on the screen at that time never counts. Output from times when no daemon ran, or when
the session had no client, is read from the scrollback as far as it goes.

A pane's bytes are its scrollback and everything that it printed since. Offsets into them are
meaningless after a restart. A *mark* (`CursorPosition`) is not: it says on which line the cursor
was and what was above it, so that the same line can be found in a new capture of the scrollback.
Later output is after that line.

The server has one control-mode client for each session that is watched.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import signal
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from hashlib import blake2s
from typing import Final, NamedTuple, Protocol

from taskmem_hookspecs import Frame, TargetGone, TargetNotFound, Watch
from taskmem_terminal.frames import OutputPage, OutputReader, ReadOptions, StreamPosition, Tail
from taskmem_terminal.process_exit import ProcessExitWatcher, describe_end
from taskmem_terminal.render import mask_strings, render_lines
from taskmem_terminal.tmux_client import (
    FORMAT,
    Answer,
    Client,
    ClientListener,
    Pane,
    TmuxError,
    find_pane,
    list_panes,
    unescape_output,
)
from taskmem_terminal.typed_lines import TypedLineDetector, TypingState

KEPT_BYTES: Final = 4 << 20
"""Bytes of a pane's output retained at least, for waits that have not read it; at most twice."""
_SCROLLBACK_LINES: Final = 5000
"""How far back a restarted daemon reads. Lines."""
_ABOVE_LINES: Final = 10
"""Lines above the screen that a mark may need."""
_MARK_LINES: Final = 3
_SHOWN_BYTES: Final = 16_384


class _CursorPosition(NamedTuple):
    """Position of a pane's cursor."""

    row: int
    """Counted from the beginning of the scrollback."""
    column: int
    above: str
    """Fingerprint of the lines above; empty: there are none."""

    def __str__(self) -> str:
        """Format for `parse`."""
        return f"{self.row},{self.column},{self.above}"

    @classmethod
    def parse(cls, text: str) -> _CursorPosition:
        """Parse what `__str__` wrote.

        Raises:
            ValueError: It is not a position.
        """
        row, column, above = text.split(",")
        return cls(int(row), int(column), above)


class _Scrollback:
    """Lines of a pane at one moment, up to the cursor's."""

    def __init__(self, pane: Pane, captured: list[bytes], above: int) -> None:
        """Set the output of `capture-pane -J`, which begins `above` lines above the screen.

        Args:
            pane: The pane at that moment.
            captured: Its lines; wrapped ones are joined.
            above: How many lines above the screen were requested.
        """
        first = pane.history - min(pane.history, above)
        self._rows: list[int] = []
        self.lines: list[bytes] = []
        self._pane = pane
        at = first
        for line in captured:
            if at > pane.history + pane.row:
                break
            self._rows.append(at)
            self.lines.append(line.rstrip(b" "))
            at += max(1, -(-_count_columns(line) // pane.columns))

    def get_cursor_position(self) -> _CursorPosition:
        """Return the position of the cursor."""
        pane = self._pane
        return _CursorPosition(
            pane.history + pane.row, pane.column, self._fingerprint_above(len(self.lines) - 1)
        )

    def format_screen(self) -> str:
        """Return the screen up to the cursor, without typed lines."""
        lines = [
            line.decode(errors="replace")
            for row, line in zip(self._rows, self.lines, strict=True)
            if row >= self._pane.history
        ]
        typist = TypedLineDetector(TypingState.NOTHING, interactive=True)
        return "\n".join(x for x in lines if not typist.read(x.encode(), [x]))

    def get_cursor_line(self) -> str:
        """Return the text before the cursor on its line."""
        if not self.lines:
            return ""
        text = self.lines[-1].decode(errors="replace")
        before = self._pane.column
        before += max(0, (len(text) - 1)) // self._pane.columns * self._pane.columns
        return text[:before]

    def to_bytes(self) -> bytes:
        """Return bytes that would show these lines."""
        if not self.lines:
            return b""
        # The cursor may be before or after the end of its line.
        at = f"\r\x1b[{self._pane.column}C".encode() if self._pane.column else b"\r"
        return b"\r\n".join(self.lines) + at

    def find_position(self, mark: _CursorPosition) -> tuple[int, int]:
        """Return line and offset where the output after a mark begins.

        The offset is into `to_bytes()`. If no line matches the mark, everything is new.
        """
        index = self._find_index(mark)
        offset = self.find_offset(index)
        if index < len(self.lines):
            begin = self.lines[index].decode(errors="replace")[: mark.column]
            offset += len(begin.encode())
        return index, min(offset, len(self.to_bytes()))

    def find_line_after(self, shown: Sequence[str]) -> int | None:
        """Return the index of the line after the last occurrence of `shown`; None: not found."""
        lines = [
            (index, text)
            for index, line in enumerate(self.lines)
            if (text := line.decode(errors="replace"))
        ]
        for end in range(len(lines), len(shown) - 1, -1) if shown else ():
            if [text for _, text in lines[end - len(shown) : end]] == [*shown]:
                return lines[end - 1][0] + 1
        return None

    def find_offset(self, index: int) -> int:
        """Return the offset of a line in `to_bytes()`."""
        return sum(len(line) + 2 for line in self.lines[: max(0, index)])

    def _find_index(self, mark: _CursorPosition) -> int:
        rows = range(len(self.lines))
        same = next((n for n in reversed(rows) if self._rows[n] <= mark.row), 0)
        if not self.lines or self._fingerprint_above(same) == mark.above:
            return same
        # The scrollback lost its first lines, or its lines wrap differently now.
        moved = [n for n in rows if mark.above and self._fingerprint_above(n) == mark.above]
        return max(moved, default=0)

    def _fingerprint_above(self, index: int) -> str:
        lines = [line for line in self.lines[:index] if line][-_MARK_LINES:]
        return blake2s(b"\n".join(lines), digest_size=8).hexdigest() if lines else ""


class _PaneBuffer:
    """The bytes of a pane, of which the oldest may be lost."""

    def __init__(self, scrollback: _Scrollback) -> None:
        self.scrollback = scrollback
        self._data = bytearray(scrollback.to_bytes())
        self.begin = 0
        """Offset of the first retained byte."""

    @property
    def end(self) -> int:
        """Offset after the last byte."""
        return self.begin + len(self._data)

    def append(self, data: bytes) -> None:
        """Append output of the pane."""
        self._data += data
        if len(self._data) > 2 * KEPT_BYTES:
            lost = len(self._data) - KEPT_BYTES
            del self._data[:lost]
            self.begin += lost

    def read(self, at: int, size: int) -> bytes:
        """Return up to `size` bytes from an offset."""
        begin = max(0, at - self.begin)
        return bytes(self._data[begin : begin + size])

    def read_last_lines(self) -> Sequence[str]:
        """Return the last finished lines, as shown."""
        raw = mask_strings(bytes(self._data[-_SHOWN_BYTES:])).split(b"\n")[:-1]
        lines = [line for lines in render_lines(raw) for line in lines if line]
        return lines[-_MARK_LINES:]


def _count_columns(line: bytes) -> int:
    if line.isascii():
        return len(line)
    from unicodedata import east_asian_width

    text = render_lines([line])[0][0]
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)


# --- watching -----------------------------------------------------------------


_AGAIN_LINES: Final = 3
_FIRST_RETRY, _LAST_RETRY = 0.05, 10.0
"""Shortest and longest time between two tries to attach again. Seconds."""
_AFTER_DEATH: Final = (0.03, 0.3)
"""Delays after which tmux has noticed a process's end, usually and at the latest. Seconds."""
_UNSAID_SECONDS: Final = 2.0
"""Time after which the status of a dead pane counts as unknown. Seconds."""
_ASK_AGAIN_SECONDS: Final = 0.05
"""Time between two queries for the status of a dead pane. Seconds."""
_PROMPTLIKE: Final = re.compile(r"(?:[$#%>❯➜λ»]|In \[\d+\]:|\.\.\.) ?$|^\S*[$#%>❯➜λ»] ")


class _PaneServer(Protocol):
    """Provides clients and output of panes."""

    async def get_client(self, session: str) -> Client:
        """Return the client of a session; raises TmuxError."""
        ...

    def register_pane(self, watched: _WatchedPane) -> None:
        """Pass the pane's output to `watched` from now on."""
        ...

    async def unregister_pane(self, watched: _WatchedPane) -> None:
        """Stop passing it."""
        ...


class _PanePosition(NamedTuple):
    """How far a wait has read in a pane."""

    pane: str
    server: str
    buffer_id: str
    """The buffer that the offsets refer to; a restart makes another."""
    mark: _CursorPosition
    position: StreamPosition

    def __str__(self) -> str:
        return " ".join(map(str, self))

    @classmethod
    def parse(cls, text: str) -> _PanePosition:
        pane, server, buffer_id, mark, position = text.split(" ")
        return cls(
            pane, server, buffer_id, _CursorPosition.parse(mark), StreamPosition.parse(position)
        )


class _WatchedPane:
    """`Watch` on one pane."""

    def __init__(
        self, server: _PaneServer, pane: Pane, changed: asyncio.Event | None = None
    ) -> None:
        self.pane = pane
        """The pane as of the last query."""
        self.session = pane.session
        """Id of the session whose client receives its output."""
        self._server = server
        self._changed = changed or asyncio.Event()
        self._client: Client | None = None
        self._buffer: _PaneBuffer | None = None
        self._buffer_id = ""
        self._shown_to: int | None = None
        """The line up to which the previous buffer reached; None: use the marks."""
        self._reader = OutputReader()
        self._missing = False
        self._ended = False
        self._dead_since: float | None = None
        """When the pane was first seen dead; None: it was not."""
        self._changed_at: datetime | None = None
        self._retry = _FIRST_RETRY
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._attaching: asyncio.Task[None] | None = None
        self._exit_notice = ProcessExitWatcher(self.request_look, _AFTER_DEATH)
        self._others: dict[str, _WatchedPane] = {}
        server.register_pane(self)
        self._exit_notice.watch_process(self.pane.pid)

    async def attach(self) -> None:
        """Start to receive the pane's output; on failure, try again later."""
        try:
            self._client = await self._server.get_client(self.session)
            await self._ask_pane(self._client, _SCROLLBACK_LINES, self._restart_buffer)
        except (TmuxError, OSError):
            self._retry_later()
        else:
            self._retry = _FIRST_RETRY

    async def here(self) -> Frame:
        """Look at the end of the pane's output, where a new wait begins.

        Raises:
            TargetGone: The pane was closed, or has no client.
        """
        seen = await self._capture_pane()
        if seen is None and self._find_end_reason() is None:
            await self.attach()
            seen = await self._capture_pane()
        if seen is None or self._buffer is None:
            raise TargetGone(self._find_end_reason() or f"{self.pane} cannot be heard now.")
        scrollback, end = seen
        typing = self.pane.column > 0 and (
            self.pane.prompt or _PROMPTLIKE.search(scrollback.get_cursor_line())
        )
        typing_state = TypingState.CURSOR if typing else TypingState.NOTHING
        position = StreamPosition(end, end, typing_state, self.pane.column)
        manner = ReadOptions(self.pane.columns, self.pane.rows, interactive=True)
        tail = await self._reader.read_tail(self._buffer, StreamPosition(0, 0), manner)
        return Frame(
            seen_at=datetime.now(UTC),  # noqa: TID251
            place=str(self._make_position(scrollback.get_cursor_position(), position)),
            changed_at=self._changed_at,
            tail=tail.text,
            echoes=tail.echoes,
            prompt=self._detect_prompt(tail),
        )

    async def end(self) -> str:
        """Return the place of the end of the pane's output.

        Raises:
            TargetGone: The pane was closed, or has no client.
        """
        return (await self.here()).place

    async def look(self, place: str, start: str) -> Frame:
        """Return the pane's output since `place`."""
        known, began = _PanePosition.parse(place), _PanePosition.parse(start)
        if known.pane != self.pane.id and known.server == self.pane.server:
            # When the wait was made, the target named that other pane.
            other = await self._attach_other(known.pane)
            if other is not None:
                return await other.look(place, start)
        seen_at = datetime.now(UTC)  # noqa: TID251
        seen = await self._capture_pane()
        page, tail = OutputPage("", (), known.position, more=False), Tail("", ())
        ours = (known.pane, known.server) == (self.pane.id, self.pane.server)
        if self._buffer is not None and ours:
            manner = ReadOptions(self.pane.columns, self.pane.rows, interactive=True)
            position, first = self._find_positions(known, began)
            page = self._reader.read_page(self._buffer, position, manner)
            tail = await self._reader.read_tail(self._buffer, first, manner)
            # A mark that is too old repeats output; one that is too new loses it.
            fresh = seen is not None and not page.more and page.next.shown >= seen[1]
            mark = seen[0].get_cursor_position() if seen is not None and fresh else known.mark
            place = str(self._make_position(mark, page.next))
        gone = None if page.more else self._find_end_reason(ours=ours)
        return Frame(
            seen_at=seen_at,
            place=place,
            more=page.more,
            changed_at=self._changed_at,
            text=page.text,
            tail=tail.text,
            screen=seen[0].format_screen() if seen is not None and ours else None,
            echoes=tuple(dict.fromkeys(page.echoes + tail.echoes)),
            prompt=None if gone or seen is None else self._detect_prompt(tail),
            exit_status=self.pane.status if gone and ours and self._is_over else None,
            gone=gone,
        )

    async def wait_for_change(self) -> None:
        """Wait until the pane may have printed something or disappeared."""
        await self._changed.wait()
        self._changed.clear()

    async def close(self) -> None:
        """Stop all timers and stop watching."""
        for timer in self._timers.values():
            timer.cancel()
        if self._attaching is not None:
            self._attaching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._attaching
        self._exit_notice.close()
        for other in self._others.values():
            await other.close()
        await self._server.unregister_pane(self)

    def append_output(self, data: bytes) -> None:
        """Append output of the pane."""
        if self._buffer is not None:
            self._buffer.append(data)
            self._changed_at = datetime.now(UTC)  # noqa: TID251
            self._changed.set()

    def request_look(self) -> None:
        """Request a look at the pane."""
        self._changed.set()

    # --- places -------------------------------------------------------------

    def _make_position(self, mark: _CursorPosition, position: StreamPosition) -> _PanePosition:
        return _PanePosition(self.pane.id, self.pane.server, self._buffer_id, mark, position)

    def _find_positions(
        self, known: _PanePosition, began: _PanePosition
    ) -> tuple[StreamPosition, StreamPosition]:
        """Return where to read on and where the wait began, as offsets into the current buffer."""
        first = began.position
        if began.buffer_id != self._buffer_id:
            at = self._require_scrollback().find_position(began.mark)[1]
            first = StreamPosition(at, at, began.position.typing_state, began.mark.column)
        if known.buffer_id == self._buffer_id:
            return known.position, first
        line = self._require_scrollback().find_position(known.mark)[0]
        if self._shown_to is not None:
            line = min(line, self._shown_to)
        again = self._require_scrollback().find_offset(line - _AGAIN_LINES)
        if again <= first.at:
            return first, first
        return StreamPosition(again, again), first

    def _require_scrollback(self) -> _Scrollback:
        if self._buffer is None:
            raise TargetGone(f"{self.pane} cannot be heard now.")
        return self._buffer.scrollback

    async def _attach_other(self, pane: str) -> _WatchedPane | None:
        if pane not in self._others:
            try:
                found = await find_pane(pane)
            except TargetNotFound:
                return None
            self._others[pane] = _WatchedPane(self._server, found, self._changed)
            await self._others[pane].attach()
        return self._others[pane]

    # --- what tmux says -----------------------------------------------------

    async def _capture_pane(self) -> tuple[_Scrollback, int] | None:
        """Query the pane; return its scrollback and the buffer's end at that moment.

        None: the pane is gone, or there is no client.
        """
        seen: list[tuple[_Scrollback, int]] = []

        def keep(scrollback: _Scrollback) -> None:
            seen.append((scrollback, self._buffer.end if self._buffer else 0))

        if self._client is not None and self._client.is_alive:
            with contextlib.suppress(TmuxError):
                await self._ask_pane(self._client, _ABOVE_LINES, keep)
                self._await_status()
                if self._is_over and not self._ended:
                    # tmux drops output that it has not passed on; the screen still has it.
                    await self._ask_pane(self._client, _SCROLLBACK_LINES, self._restart_buffer)
                    self._ended = True
                self._exit_notice.watch_process(self.pane.pid)
                if self.pane.session == self.session:
                    return seen[0]
        await self._find_again()
        return None

    async def _ask_pane(
        self, client: Client, above: int, then: Callable[[_Scrollback], None]
    ) -> None:
        def understand(answer: Answer) -> None:
            self.pane = Pane.parse(answer[0][0].decode(errors="replace"))
            then(_Scrollback(self.pane, answer[1], above))

        await client.ask(
            f"display-message -p -t {self.pane.id} '{FORMAT}'",
            f"capture-pane -p -J -t {self.pane.id} -S -{above}",
            then=understand,
        )

    async def _find_again(self) -> None:
        """Find the pane without a client, and attach again."""
        try:
            every = await list_panes()
        except (TmuxError, TargetNotFound, OSError):
            self._retry_later()
            return
        me = (self.pane.id, self.pane.server)
        panes = [pane for pane in every if (pane.id, pane.server) == me]
        if not panes:
            self._missing = True
            return
        here = [pane for pane in panes if pane.session == self.session]
        self.pane = (here or panes)[0]
        self.session = self.pane.session
        self._await_status()
        if not self.pane.dead:
            self._retry_later()

    def _restart_buffer(self, scrollback: _Scrollback) -> None:
        """Start a new buffer; the scrollback contains what the old one missed."""
        # At a pane's end tmux may drop output, and marks made before do not show that.
        last = self._buffer if self.pane.dead else None
        self._shown_to = (
            scrollback.find_line_after(last.read_last_lines()) if last is not None else None
        )
        self._buffer = _PaneBuffer(scrollback)
        self._buffer_id = secrets.token_hex(4)
        self._reader = OutputReader()
        self._changed.set()

    def _retry_later(self) -> None:
        if "retry" not in self._timers:
            loop = asyncio.get_running_loop()
            self._timers["retry"] = loop.call_later(self._retry, self._try_again)
            self._retry = min(self._retry * 2, _LAST_RETRY)

    def _try_again(self) -> None:
        del self._timers["retry"]
        self._attaching = asyncio.create_task(self.attach())

    def _detect_prompt(self, tail: Tail) -> bool | None:
        """Return whether a shell waits; its own marks decide if it may be a shell."""
        known = self.pane.prompt
        if known is False or tail.prompt is None:
            return known
        return tail.prompt

    def _find_end_reason(self, *, ours: bool = True) -> str | None:
        if not ours:
            return "The tmux pane that was watched was closed."
        if self._missing:
            return f"The tmux pane {self.pane} was closed."
        is_connected = self._client is not None and self._client.is_alive
        # Read its last output first, as long as there is a client.
        if self._is_over and (self._ended or not is_connected):
            what = f"The command in the tmux pane {self.pane}"
            return describe_end(what, self.pane.status)
        return None

    @property
    def _is_over(self) -> bool:
        """True if the command has ended and its status is known or will never be."""
        if not self.pane.dead or self._dead_since is None:
            return False
        waited = asyncio.get_running_loop().time() - self._dead_since
        return self.pane.status is not None or waited >= _UNSAID_SECONDS

    def _await_status(self) -> None:
        """Schedule another look at a dead pane whose status tmux does not know yet."""
        if not self.pane.dead:
            return
        loop = asyncio.get_running_loop()
        if self._dead_since is None:
            self._dead_since = loop.time()
        if not self._is_over:
            self._timers["status"] = loop.call_later(_ASK_AGAIN_SECONDS, self._nudge_tmux)

    def _nudge_tmux(self) -> None:
        """Send SIGCHLD to tmux and look again.

        tmux may miss that a child ended (3.3a does) until it gets another SIGCHLD.
        """
        with contextlib.suppress(OSError):
            os.kill(self.pane.server_pid, signal.SIGCHLD)
        self.request_look()


# --- the server ---------------------------------------------------------------


class Tmux(ClientListener):
    """The tmux server of the daemon's user."""

    def __init__(self) -> None:
        self._clients: dict[str, Client] = {}
        self._panes: dict[str, list[_WatchedPane]] = {}
        self._turn = asyncio.Lock()
        self._leaving: set[asyncio.Task[None]] = set()
        """Tasks that wait for the processes of clients that ended by themselves."""

    async def watch(self, name: str) -> Watch:
        """Start to watch the pane that a target names.

        Raises:
            TargetNotFound: It does not exist; the message names the panes that do.
        """
        pane = await find_pane(name)
        watched = _WatchedPane(self, pane)
        try:
            await watched.attach()
        except BaseException:
            await watched.close()
            raise
        return watched

    def register_pane(self, watched: _WatchedPane) -> None:
        """Pass the pane's output to `watched` from now on."""
        self._panes.setdefault(watched.pane.id, []).append(watched)

    async def get_client(self, session: str) -> Client:
        """Return the client of a session; attach one if needed.

        Raises:
            TmuxError: Attaching failed.
            OSError: tmux cannot be started.
        """
        async with self._turn:
            known = self._clients.get(session)
            if known is None or not known.is_alive:
                known = self._clients[session] = await Client.attach(session, self)
            return known

    async def unregister_pane(self, watched: _WatchedPane) -> None:
        """Stop passing output to `watched`, and leave sessions without watched panes."""
        with contextlib.suppress(KeyError, ValueError):
            self._panes[watched.pane.id].remove(watched)
            if not self._panes[watched.pane.id]:
                del self._panes[watched.pane.id]
        used = {one.session for panes in self._panes.values() for one in panes}
        async with self._turn:
            for session in set(self._clients) - used:
                await self._clients.pop(session).leave()
        if self._leaving:
            await asyncio.wait(self._leaving)

    def handle_output(self, pane: str, escaped: bytes) -> None:
        """Pass a pane's output on to its watches."""
        if watching := self._panes.get(pane):
            data = unescape_output(escaped)
            for watched in watching:
                watched.append_output(data)

    def handle_pane_change(self, client: Client) -> None:
        """Have the watched panes of a session looked at."""
        for panes in self._panes.values():
            for watched in panes:
                if watched.session == client.session:
                    watched.request_look()

    def handle_client_end(self, client: Client) -> None:
        """Drop a client that ended, and have its session's panes looked at."""
        if self._clients.get(client.session) is client:
            del self._clients[client.session]
            leaving = asyncio.create_task(client.leave())
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)
        self.handle_pane_change(client)
