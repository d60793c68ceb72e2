"""Watch tmux panes; only what comes after the wait's start counts.

Text already on the screen at that time never counts. Output from times when no daemon ran, or when
the session had no client, is read from the scrollback as far as it goes.

A pane's bytes are its scrollback and everything that it printed since. Offsets into them are
meaningless after a restart. A *mark* (`CursorPosition`) is not: it says on which line the cursor
was and what was above it, so that the same line can be found in a new capture of the scrollback.
Later output is after that line.

Each session that is watched has one control-mode client, which only reads: it has no size, so it
resizes no window, and it sends no keys. Answers and output come in one stream, in the order in
which they happened; so an answer is true between the output before it and the output after it.

    %begin 1795319814 274 1  an answer contains what a program printed, unescaped: also
    …                        lines that look as if the answer ended and another
    %end 1795319814 274 1    pane printed something
    %begin 1795319814 275 1
    d1f0…                    so it ends before a random word that only tmux was given
    %end 1795319814 275 1
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Final, NamedTuple

from taskmem_hookspecs import Frame, TargetGone, TargetNotFound, Watch
from taskmem_terminal.frames import (
    OutputPage,
    OutputReader,
    ReadOptions,
    StreamPosition,
    Tail,
    TypingState,
)
from taskmem_terminal.recording import describe_end
from taskmem_terminal.recording_watch import ProcessExitWatcher
from taskmem_terminal.terminal_input import InputLookup, TerminalInput, TypingLookup
from taskmem_terminal.tmux_panes import (
    ANSWER_SECONDS,
    FORMAT,
    CursorPosition,
    Pane,
    PaneBuffer,
    Scrollback,
    TmuxError,
    build_tmux_command,
    find_pane,
    list_panes,
    run_tmux_command,
)

_SCROLLBACK_LINES: Final = 5000
"""How far back a restarted daemon reads. Lines."""
_ABOVE_LINES: Final = 10
"""Lines above the screen that a mark may need."""


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
_TYPING_SECONDS: Final = 0.1
"""Delay after output at which it is looked up whether somebody can type. Seconds."""
_TYPING_SHARE: Final = 30
"""The delay is at least so many times as long as such a look takes."""
_SHELL_WAITS: Final = "A shell waits for a command there now; only what comes later counts."
_PROMPTLIKE: Final = re.compile(r"(?:[$#%>❯➜λ»]|In \[\d+\]:|\.\.\.) ?$|^\S*[$#%>❯➜λ»] ")


class _PanePosition(NamedTuple):
    """How far a wait has read in a pane."""

    pane: str
    server: str
    buffer_id: str
    """The buffer that the offsets refer to; a restart makes another."""
    mark: CursorPosition
    position: StreamPosition

    def __str__(self) -> str:
        return " ".join(map(str, self))

    @classmethod
    def parse(cls, text: str) -> _PanePosition:
        pane, server, buffer_id, mark, position = text.split(" ")
        return cls(
            pane, server, buffer_id, CursorPosition.parse(mark), StreamPosition.parse(position)
        )


class _WatchedPane:
    """`Watch` on one pane."""

    def __init__(self, server: Tmux, pane: Pane, changed: asyncio.Event | None = None) -> None:
        self.pane = pane
        """The pane as of the last query."""
        self.session = pane.session
        """Id of the session whose client receives its output."""
        self._server = server
        self._changed = changed or asyncio.Event()
        self._client: Client | None = None
        self._buffer: PaneBuffer | None = None
        self._buffer_id = ""
        self._shown_to: int | None = None
        """The line up to which the previous buffer reached; None: use the marks."""
        self._reader = OutputReader()
        self._input_lookup = InputLookup()
        self._typing = TypingLookup()
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
        typing = (
            self.pane.column > 0
            and (self.pane.prompt or _PROMPTLIKE.search(scrollback.get_cursor_line()))
            and self._typing.look_up(self.pane.pid, self.pane.server_pid)
        )
        typing_state = TypingState.CURSOR if typing else TypingState.NOTHING
        position = StreamPosition(end, end, typing_state, self.pane.column)
        tail = await self._reader.read_tail(
            self._buffer, StreamPosition(0, 0), self._build_read_options(self._buffer)
        )
        seen_at = datetime.now(UTC)
        known_input = self._look_up_input(seen_at)
        waits = known_input.is_shell and known_input.is_read
        return Frame(
            seen_at=seen_at,
            place=str(self._make_position(scrollback.get_cursor_position(), position)),
            changed_at=self._changed_at,
            tail=tail.text,
            echoes=tail.echoes,
            note=_SHELL_WAITS if waits else None,
            prompt=self._detect_prompt(tail, known_input),
        )

    async def end(self) -> str:
        """Return the place of the end of the pane's output; raises as `here` does."""
        return (await self.here()).place

    async def look(self, place: str, start: str) -> Frame:
        """Return the pane's output since `place`."""
        known, began = _PanePosition.parse(place), _PanePosition.parse(start)
        if known.pane != self.pane.id and known.server == self.pane.server:
            # When the wait was made, the target named that other pane.
            other = await self._attach_other(known.pane)
            if other is not None:
                return await other.look(place, start)
        seen_at = datetime.now(UTC)
        seen = await self._capture_pane()
        page, tail = OutputPage("", (), known.position, more=False), Tail("", ())
        ours = (known.pane, known.server) == (self.pane.id, self.pane.server)
        if self._buffer is not None and ours:
            manner = self._build_read_options(self._buffer)
            position, first = self._find_positions(known, began)
            page = self._reader.read_page(self._buffer, position, manner)
            tail = await self._reader.read_tail(self._buffer, first, manner)
            # A mark that is too old repeats output; one that is too new loses it.
            fresh = seen is not None and not page.more and page.next.shown >= seen[1]
            mark = seen[0].get_cursor_position() if seen is not None and fresh else known.mark
            place = str(self._make_position(mark, page.next))
        gone = None if page.more else self._find_end_reason(ours=ours)
        known_input = TerminalInput()
        if gone is None and seen is not None:
            known_input = self._look_up_input(seen_at)
        return Frame(
            seen_at=seen_at,
            place=place,
            more=page.more,
            changed_at=self._changed_at,
            text=page.text,
            tail=tail.text,
            screen=seen[0].format_screen() if seen is not None and ours else None,
            echoes=tuple(dict.fromkeys(page.echoes + tail.echoes)),
            prompt=None if gone or seen is None else self._detect_prompt(tail, known_input),
            reads_input=known_input.is_read,
            hides_input=known_input.is_hidden,
            takes_keys=known_input.takes_keys,
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
            before = self._typing.is_possible
            now = self._typing.look_up_again(self.pane.pid, self.pane.server_pid, monotonic())
            self._buffer.append(data, can_be_typed=(before, now))
            if "typing" not in self._timers:
                delay = max(_TYPING_SECONDS, _TYPING_SHARE * self._typing.look_up_seconds)
                loop = asyncio.get_running_loop()
                self._timers["typing"] = loop.call_later(delay, self._look_up_typing)
            self._changed_at = datetime.now(UTC)
            self._changed.set()

    def _look_up_typing(self) -> None:
        """Look up whether somebody can type there now, a moment after output."""
        del self._timers["typing"]
        possible = self._typing.look_up(self.pane.pid, self.pane.server_pid)
        if possible and self._buffer is not None:
            self._buffer.forget_run()

    def request_look(self) -> None:
        """Request a look at the pane."""
        self._changed.set()

    # --- places -------------------------------------------------------------

    def _build_read_options(self, buffer: PaneBuffer) -> ReadOptions:
        size = (self.pane.columns, self.pane.rows)
        return ReadOptions(*size, interactive=True, is_untyped=buffer.is_untyped)

    def _make_position(self, mark: CursorPosition, position: StreamPosition) -> _PanePosition:
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

    def _require_scrollback(self) -> Scrollback:
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

    async def _capture_pane(self) -> tuple[Scrollback, int] | None:
        """Query the pane; return its scrollback and the buffer's end at that moment.

        None: the pane is gone, or there is no client.
        """
        seen: list[tuple[Scrollback, int]] = []

        def keep(scrollback: Scrollback) -> None:
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
        self, client: Client, above: int, then: Callable[[Scrollback], None]
    ) -> None:
        def understand(answer: Answer) -> None:
            self.pane = Pane.parse(answer[0][0].decode(errors="replace"))
            then(Scrollback(self.pane, answer[1], above))

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

    def _restart_buffer(self, scrollback: Scrollback) -> None:
        """Start a new buffer; the scrollback contains what the old one missed."""
        # At a pane's end tmux may drop output, and marks made before do not show that.
        last = self._buffer if self.pane.dead else None
        self._shown_to = (
            scrollback.find_line_after(last.read_last_lines()) if last is not None else None
        )
        self._buffer = PaneBuffer(scrollback)
        self._buffer_id = secrets.token_hex(4)
        self._typing.look_up(self.pane.pid, self.pane.server_pid)
        self._reader = OutputReader()
        self._changed.set()

    def _retry_later(self) -> None:
        if "retry" not in self._timers:

            def try_again() -> None:
                del self._timers["retry"]
                self._attaching = asyncio.create_task(self.attach())

            loop = asyncio.get_running_loop()
            self._timers["retry"] = loop.call_later(self._retry, try_again)
            self._retry = min(self._retry * 2, _LAST_RETRY)

    def _look_up_input(self, seen_at: datetime) -> TerminalInput:
        return self._input_lookup.look_up(
            self.pane.pid, self.pane.server_pid, changed_at=self._changed_at, now=seen_at
        )

    def _detect_prompt(self, tail: Tail, known_input: TerminalInput) -> bool | None:
        """Return whether a shell waits; its own marks decide if it may be a shell."""
        known = self.pane.prompt if known_input.is_shell is None else known_input.is_shell
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


_GULP_BYTES: Final = 65_536
_ESCAPED_BYTE: Final = re.compile(rb"\\([0-7]{3})")
_CHANGES: Final = frozenset(
    {
        b"%layout-change",
        b"%window-close",
        b"%unlinked-window-close",
        b"%window-add",
        b"%sessions-changed",
        b"%session-changed",
        b"%window-pane-changed",
        b"%client-detached",
        b"%pane-mode-changed",
    }
)

Answer = list[list[bytes]]
"""For each command of a query, the lines that it printed."""
Then = Callable[[Answer], None]
"""Called with an answer before any later output is passed on."""


class _PendingQuery(NamedTuple):
    parts: int
    answer: asyncio.Future[Answer]
    then: Then | None


class Client:
    """Client of one session."""

    def __init__(self, session: str, process: Process, hearer: Tmux) -> None:
        self.session = session
        """The session's id, such as `$1`."""
        self._process = process
        self._hearer = hearer
        self._questions: dict[bytes, _PendingQuery] = {}
        """Pending queries by the words that end their answers."""
        self._answering: list[bytes] | None = None
        """Lines received since an answer began."""
        self._skipping: list[bytes] | None = None
        """Number and lines of a block that answers no query."""
        self._attached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._yielding: asyncio.Task[None] | None = None
        self._task = asyncio.create_task(self._read_output())

    @classmethod
    async def attach(cls, session: str, hearer: Tmux) -> Client:
        """Attach to a session.

        Raises:
            TmuxError: Attaching failed.
            OSError: tmux cannot be started.
        """
        version = await run_tmux_command("-V")
        found = re.search(r"(\d+)\.(\d+)", version)
        old = found is not None and (int(found[1]), int(found[2])) < (3, 2)
        flags = [] if old else ["-f", "read-only,ignore-size"]
        process = await asyncio.create_subprocess_exec(
            # -E: the session keeps its own environment, not the daemon's.
            *build_tmux_command(), "-C", "attach-session", "-E", "-t", session, *flags,
            stdin=PIPE, stdout=PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        client = cls(session, process, hearer)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await asyncio.shield(client._attached)
        except (TimeoutError, TmuxError):
            await client.leave()
            raise TmuxError(f"cannot attach to {session}") from None
        except BaseException:
            await client.leave()
            raise
        return client

    @property
    def is_alive(self) -> bool:
        """True if the client still receives output."""
        return not self._task.done()

    async def ask(self, *commands: str, then: Then | None = None) -> Answer:
        """Run tmux commands with nothing in between, and return the lines each printed.

        Only the last one may print a program's text.

        Raises:
            TmuxError: A command failed, or the client is gone.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if not self.is_alive or self._process.stdin is None:
            raise TmuxError("the client is gone")
        word = secrets.token_hex(16)
        self._questions[word.encode()] = _PendingQuery(len(commands), answer, then)
        lines = [" ; ".join(commands), f"display-message -p {word}", ""]
        try:
            self._process.stdin.write("\n".join(lines).encode())
            async with asyncio.timeout(ANSWER_SECONDS):
                return await answer
        except (TimeoutError, ConnectionError, RuntimeError) as error:
            raise TmuxError("no answer") from error

    async def leave(self) -> None:
        """Detach, and return when the client has ended."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await self._process.wait()
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        await asyncio.wait([self._task])

    async def _read_output(self) -> None:
        out = self._process.stdout
        cut = b""
        try:
            while out is not None and (fresh := await out.read(_GULP_BYTES)):
                *lines, cut = (cut + fresh).split(b"\n")
                for line in lines:
                    self._handle_line(line)
                # Yield the event loop: a pane may print without end.
                await asyncio.sleep(0)
        finally:
            _fail_answer(self._attached, TmuxError("the client is gone"))
            for question in self._questions.values():
                _fail_answer(question.answer, TmuxError("the client is gone"))
            self._questions.clear()
            self._end_process()
            if self._yielding is not None:
                self._yielding.cancel()
            self._hearer.handle_client_end(self)

    def _handle_line(self, line: bytes) -> None:
        if self._answering is not None:
            if line in self._questions:
                held, self._answering = self._answering, None
                self._finish_answer(line, held)
            else:
                self._answering.append(line)
        elif self._skipping is not None:
            if _is_block_end(line, self._skipping[0]):
                if line.startswith(b"%error"):
                    _fail_answer(self._attached, TmuxError(_join_lines(self._skipping[1:])))
                elif not self._attached.done():
                    self._attached.set_result(None)
                self._skipping = None
            else:
                self._skipping.append(line)
        elif line.startswith(b"%begin "):
            # Output of the user's hooks, and of attaching itself, answers no query.
            if self._questions and _begins_answer(line):
                self._answering = [line]
            else:
                self._skipping = [_parse_command_number(line)]
        else:
            self._handle_notification(line)

    def _handle_notification(self, line: bytes) -> None:
        word, _, rest = line.partition(b" ")
        if word == b"%output":
            pane, _, data = rest.partition(b" ")
            self._hearer.handle_output(pane.decode(), data)
        elif word == b"%exit":
            self._hearer.handle_pane_change(self)
        elif word in _CHANGES:
            if word == b"%session-changed" and rest.split(b" ")[0] != (self.session.encode()):
                # tmux moved the client to another session, because this one is gone.
                self._end_process()
            if word == b"%client-detached":
                self._yielding = asyncio.create_task(self._yield_session())
            self._hearer.handle_pane_change(self)

    def _finish_answer(self, word: bytes, held: list[bytes]) -> None:
        """Parse everything from an answer's beginning to the word that ends it."""
        while (asked := next(iter(self._questions))) != word:
            _fail_answer(self._questions.pop(asked).answer, TmuxError("no answer"))
        question = self._questions.pop(word)
        blocks: Answer = []
        failed = False
        at, last = 0, len(held) - 1  # the word's own block begins there
        while at < last and not failed and len(blocks) < question.parts:
            if self._skipping is not None or not _begins_answer(held[at]):
                self._handle_line(held[at])
                at += 1
                continue
            number = _parse_command_number(held[at])
            ends = [n for n in range(at + 1, last) if _is_block_end(held[n], number)] or [last]
            end = ends[-1 if len(blocks) == question.parts - 1 else 0]
            blocks.append(held[at + 1 : end])
            failed = held[end].startswith(b"%error")
            at = end + 1
        if failed or len(blocks) < question.parts:
            reason = _join_lines(blocks[-1]) if failed else "no answer"
            _fail_answer(question.answer, TmuxError(reason))
        elif not question.answer.done():
            self._deliver_answer(question, blocks)
        for line in held[at:last]:
            self._handle_line(line)

    def _deliver_answer(self, question: _PendingQuery, blocks: Answer) -> None:
        try:
            if question.then is not None:
                question.then(blocks)
        except Exception as error:  # noqa: BLE001 - it is whoever asked who is told
            trouble = TmuxError("an answer that cannot be read")
            trouble.__cause__ = error
            _fail_answer(question.answer, trouble)
        else:
            question.answer.set_result(blocks)

    async def _yield_session(self) -> None:
        """Leave a session that would already be destroyed without this client."""
        with contextlib.suppress(TmuxError):
            blocks = await self.ask(
                "display-message -p '#{session_attached} #{destroy-unattached}'"
            )
            attached, _, destroyed = blocks[0][0].partition(b" ")
            if attached == b"1" and destroyed not in (b"", b"0", b"off"):
                self._end_process()

    def _end_process(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()


def _begins_answer(line: bytes) -> bool:
    return line.startswith(b"%begin ") and line.endswith(b" 1")


def _parse_command_number(line: bytes) -> bytes:
    """Return the number of the command that a line begins or ends; empty: none."""
    return b"".join(line.split(b" ")[2:3])


def _is_block_end(line: bytes, number: bytes) -> bool:
    return line.startswith((b"%end ", b"%error ")) and _parse_command_number(line) == number


def _join_lines(lines: list[bytes]) -> str:
    return b" ".join(lines).decode(errors="replace")


def _fail_answer(answer: asyncio.Future[Any], trouble: TmuxError) -> None:
    if not answer.done():
        answer.set_exception(trouble)
        # Mark the exception as retrieved: the caller may be gone.
        answer.exception()


def _unescape_output(data: bytes) -> bytes:
    r"""Decode the escapes of control characters and `\` in `%output`."""
    return _ESCAPED_BYTE.sub(lambda found: bytes([int(found[1], 8)]), data)


class Tmux:
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
            data = _unescape_output(escaped)
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
