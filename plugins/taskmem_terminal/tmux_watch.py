"""tmux panes as targets: what came after the wait's start counts.

What was on the screen by then never does. What a pane printed while no daemon ran, or
while its session could not be heard, is read from the scrollback as far as that goes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, NamedTuple, Protocol

from taskmem_hookspecs import Frame, TargetGone, TargetNotFound
from taskmem_terminal.exit_text import describe_end
from taskmem_terminal.frames import OutputPage, OutputReader, ReadOptions, StreamPosition, Tail
from taskmem_terminal.process_exit import ProcessExitWatcher
from taskmem_terminal.tmux_client import Answer, Client, TmuxError
from taskmem_terminal.tmux_panes import FORMAT, Pane, find_pane, list_panes
from taskmem_terminal.tmux_scrollback import (
    ABOVE_LINES,
    SCROLLBACK_LINES,
    CursorPosition,
    PaneBuffer,
    Scrollback,
)
from taskmem_terminal.typed_lines import TypingState

_AGAIN_LINES: Final = 3
_FIRST_RETRY, _LAST_RETRY = 0.05, 10.0
"""Seconds between two tries to hear a session again."""
_AFTER_DEATH: Final = (0.03, 0.3)
"""Seconds in which tmux notices that a pane's process ended, usually and slowly."""
_UNSAID_SECONDS: Final = 2.0
_ASK_AGAIN_SECONDS: Final = 0.05
"""How long tmux may take to know how a dead pane's command ended, and how often it is
asked."""
_PROMPTLIKE: Final = re.compile(r"(?:[$#%>❯➜λ»]|In \[\d+\]:|\.\.\.) ?$|^\S*[$#%>❯➜λ»] ")


class PaneServer(Protocol):
    """Who lets panes be heard."""

    async def get_client(self, session: str) -> Client:
        """Return who hears a session; raises TmuxSaid."""
        ...

    def register_pane(self, watched: WatchedPane) -> None:
        """Begin to tell a pane what it printed."""
        ...

    async def unregister_pane(self, watched: WatchedPane) -> None:
        """Stop telling it."""
        ...


class _PanePosition(NamedTuple):
    """How far somebody has read in a pane."""

    pane: str
    server: str
    tape: str
    """Whose offsets they are; another's after a restart."""
    mark: CursorPosition
    spot: StreamPosition

    def __str__(self) -> str:
        return " ".join(map(str, self))

    @classmethod
    def parse(cls, text: str) -> _PanePosition:
        pane, server, tape, mark, spot = text.split(" ")
        return cls(pane, server, tape, CursorPosition.parse(mark), StreamPosition.parse(spot))


class WatchedPane:
    """One pane, watched."""

    def __init__(self, server: PaneServer, pane: Pane, news: asyncio.Event | None = None) -> None:
        self.pane = pane
        """As it was last."""
        self.session = pane.session
        """The id of the session in which it is heard."""
        self._server = server
        self._news = news or asyncio.Event()
        self._client: Client | None = None
        self._tape: PaneBuffer | None = None
        self._tape_id = ""
        self._shown_to: int | None = None
        """The line up to which the last tape went; None: its marks say so."""
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
        self._others: dict[str, WatchedPane] = {}
        server.register_pane(self)
        self._exit_notice.watch_process(self.pane.pid)

    async def attach(self) -> None:
        """Begin to hear the pane; when that fails, try again later."""
        try:
            self._client = await self._server.get_client(self.session)
            await self._ask_pane(self._client, SCROLLBACK_LINES, self._restart_buffer)
        except (TmuxError, OSError):
            self._retry_later()
        else:
            self._retry = _FIRST_RETRY

    async def here(self) -> Frame:
        """Return the end of what the pane holds.

        Raises:
            TargetGone: It was closed, or cannot be heard.
        """
        seen = await self._capture_pane()
        if seen is None and self._find_end_reason() is None:
            await self.attach()
            seen = await self._capture_pane()
        if seen is None or self._tape is None:
            raise TargetGone(self._find_end_reason() or f"{self.pane} cannot be heard now.")
        scrollback, end = seen
        typing = self.pane.column > 0 and (
            self.pane.prompt or _PROMPTLIKE.search(scrollback.get_cursor_line())
        )
        mood = TypingState.CURSOR if typing else TypingState.NOTHING
        spot = StreamPosition(end, end, mood, self.pane.column)
        manner = ReadOptions(self.pane.columns, self.pane.rows, interactive=True)
        tail = await self._reader.read_tail(self._tape, StreamPosition(0, 0), manner)
        return Frame(
            seen_at=datetime.now(UTC),  # noqa: TID251
            place=str(self._make_position(scrollback.get_cursor_position(), spot)),
            changed_at=self._changed_at,
            tail=tail.text,
            echoes=tail.echoes,
            prompt=self._detect_prompt(tail),
        )

    async def end(self) -> str:
        """Return the end of what the pane holds.

        Raises:
            TargetGone: It was closed, or cannot be heard.
        """
        return (await self.here()).place

    async def look(self, place: str, start: str) -> Frame:
        """Return what the pane showed since a place."""
        known, began = _PanePosition.parse(place), _PanePosition.parse(start)
        if known.pane != self.pane.id and known.server == self.pane.server:
            # The target named that pane when the wait was made.
            other = await self._attach_other(known.pane)
            if other is not None:
                return await other.look(place, start)
        seen_at = datetime.now(UTC)  # noqa: TID251
        seen = await self._capture_pane()
        page, tail = OutputPage("", (), known.spot, more=False), Tail("", ())
        ours = (known.pane, known.server) == (self.pane.id, self.pane.server)
        if self._tape is not None and ours:
            manner = ReadOptions(self.pane.columns, self.pane.rows, interactive=True)
            spot, first = self._find_positions(known, began)
            page = self._reader.read_page(self._tape, spot, manner)
            tail = await self._reader.read_tail(self._tape, first, manner)
            # A mark that is too old shows something again, one too new loses it.
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
        """Return when the pane may have printed something, or gone."""
        await self._news.wait()
        self._news.clear()

    async def close(self) -> None:
        """Let go of the pane."""
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
        """Keep what the pane printed."""
        if self._tape is not None:
            self._tape.append(data)
            self._changed_at = datetime.now(UTC)  # noqa: TID251
            self._news.set()

    def request_look(self) -> None:
        """Have the pane looked at."""
        self._news.set()

    # --- places -------------------------------------------------------------

    def _make_position(self, mark: CursorPosition, spot: StreamPosition) -> _PanePosition:
        return _PanePosition(self.pane.id, self.pane.server, self._tape_id, mark, spot)

    def _find_positions(
        self, known: _PanePosition, began: _PanePosition
    ) -> tuple[StreamPosition, StreamPosition]:
        """Return where to read on, and where the wait began, on the tape of now."""
        first = began.spot
        if began.tape != self._tape_id:
            at = self._require_scrollback().find_position(began.mark)[1]
            first = StreamPosition(at, at, began.spot.mood, began.mark.column)
        if known.tape == self._tape_id:
            return known.spot, first
        line = self._require_scrollback().find_position(known.mark)[0]
        if self._shown_to is not None:
            line = min(line, self._shown_to)
        again = self._require_scrollback().find_offset(line - _AGAIN_LINES)
        if again <= first.at:
            return first, first
        return StreamPosition(again, again), first

    def _require_scrollback(self) -> Scrollback:
        if self._tape is None:
            raise TargetGone(f"{self.pane} cannot be heard now.")
        return self._tape.scrollback

    async def _attach_other(self, pane: str) -> WatchedPane | None:
        if pane not in self._others:
            try:
                found = await find_pane(pane)
            except TargetNotFound:
                return None
            self._others[pane] = WatchedPane(self._server, found, self._news)
            await self._others[pane].attach()
        return self._others[pane]

    # --- what tmux says -----------------------------------------------------

    async def _capture_pane(self) -> tuple[Scrollback, int] | None:
        """Return how the pane is, and the tape's end at that moment.

        None: it is gone, or nobody can be asked.
        """
        seen: list[tuple[Scrollback, int]] = []

        def keep(scrollback: Scrollback) -> None:
            seen.append((scrollback, self._tape.end if self._tape else 0))

        if self._client is not None and self._client.is_alive:
            with contextlib.suppress(TmuxError):
                await self._ask_pane(self._client, ABOVE_LINES, keep)
                self._await_status()
                if self._is_over and not self._ended:
                    # tmux drops what it had not yet handed on; the screen has it.
                    await self._ask_pane(self._client, SCROLLBACK_LINES, self._restart_buffer)
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
        """Look for the pane without a client's help, and hear it anew."""
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
        """Begin a new tape: what the old one missed stands in the scrollback."""
        # tmux drops output at a pane's end, and may have told its place before that.
        last = self._tape if self.pane.dead else None
        self._shown_to = (
            scrollback.find_line_after(last.read_last_lines()) if last is not None else None
        )
        self._tape = PaneBuffer(scrollback)
        self._tape_id = secrets.token_hex(4)
        self._reader = OutputReader()
        self._news.set()

    def _retry_later(self) -> None:
        if "retry" not in self._timers:
            loop = asyncio.get_running_loop()
            self._timers["retry"] = loop.call_later(self._retry, self._try_again)
            self._retry = min(self._retry * 2, _LAST_RETRY)

    def _try_again(self) -> None:
        del self._timers["retry"]
        self._attaching = asyncio.create_task(self.attach())

    def _detect_prompt(self, tail: Tail) -> bool | None:
        """Return whether a shell waits; its own marks count where it can be one."""
        known = self.pane.prompt
        if known is False or tail.prompt is None:
            return known
        return tail.prompt

    def _find_end_reason(self, *, ours: bool = True) -> str | None:
        if not ours:
            return "The tmux pane that was watched was closed."
        if self._missing:
            return f"The tmux pane {self.pane} was closed."
        heard = self._client is not None and self._client.is_alive
        # What it showed last is read first, while anybody can be asked.
        if self._is_over and (self._ended or not heard):
            what = f"The command in the tmux pane {self.pane}"
            return describe_end(what, self.pane.status)
        return None

    @property
    def _is_over(self) -> bool:
        """Whether the command has ended, and tmux has said how, or never will."""
        if not self.pane.dead or self._dead_since is None:
            return False
        waited = asyncio.get_running_loop().time() - self._dead_since
        return self.pane.status is not None or waited >= _UNSAID_SECONDS

    def _await_status(self) -> None:
        """Look again soon at a pane that is dead before tmux knows how it ended."""
        if not self.pane.dead:
            return
        loop = asyncio.get_running_loop()
        if self._dead_since is None:
            self._dead_since = loop.time()
        if not self._is_over:
            self._timers["status"] = loop.call_later(_ASK_AGAIN_SECONDS, self._nudge_tmux)

    def _nudge_tmux(self) -> None:
        """Have tmux see to its children, and look again.

        It may miss that one ended (3.3a does), until it is told of another.
        """
        with contextlib.suppress(OSError):
            os.kill(self.pane.server_pid, signal.SIGCHLD)
        self.request_look()
