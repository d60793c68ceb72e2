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
from taskmem_terminal.control import Answer, Client, TmuxSaid
from taskmem_terminal.echoes import Mood
from taskmem_terminal.endings import describe_end
from taskmem_terminal.exits import ExitNotice
from taskmem_terminal.panes import FORMAT, Pane, every_pane, find
from taskmem_terminal.reading import Manner, Page, Reader, Spot, Tail
from taskmem_terminal.scrollback import (
    ABOVE_LINES,
    SCROLLBACK_LINES,
    Mark,
    Scrollback,
    Tape,
)

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


class Server(Protocol):
    """Who lets panes be heard."""

    async def client(self, session: str) -> Client:
        """Return who hears a session; raises TmuxSaid."""
        ...

    def tell(self, watched: WatchedPane) -> None:
        """Begin to tell a pane what it printed."""
        ...

    async def forget(self, watched: WatchedPane) -> None:
        """Stop telling it."""
        ...


class _Place(NamedTuple):
    """How far somebody has read in a pane."""

    pane: str
    server: str
    tape: str
    """Whose offsets they are; another's after a restart."""
    mark: Mark
    spot: Spot

    def __str__(self) -> str:
        return " ".join(map(str, self))

    @classmethod
    def parse(cls, text: str) -> _Place:
        pane, server, tape, mark, spot = text.split(" ")
        return cls(pane, server, tape, Mark.parse(mark), Spot.parse(spot))


class WatchedPane:
    """One pane, watched."""

    def __init__(
        self, server: Server, pane: Pane, news: asyncio.Event | None = None
    ) -> None:
        self.pane = pane
        """As it was last."""
        self.session = pane.session
        """The id of the session in which it is heard."""
        self._server = server
        self._news = news or asyncio.Event()
        self._client: Client | None = None
        self._tape: Tape | None = None
        self._tape_id = ""
        self._shown_to: int | None = None
        """The line up to which the last tape went; None: its marks say so."""
        self._reader = Reader()
        self._missing = False
        self._ended = False
        self._dead_since: float | None = None
        """When the pane was first seen dead; None: it was not."""
        self._changed_at: datetime | None = None
        self._retry = _FIRST_RETRY
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._attaching: asyncio.Task[None] | None = None
        self._exit_notice = ExitNotice(self.stir, _AFTER_DEATH)
        self._others: dict[str, WatchedPane] = {}
        server.tell(self)
        self._exit_notice.attend(self.pane.pid)

    async def attach(self) -> None:
        """Begin to hear the pane; when that fails, try again later."""
        try:
            self._client = await self._server.client(self.session)
            await self._ask(self._client, SCROLLBACK_LINES, self._rewind)
        except (TmuxSaid, OSError):
            self._retry_later()
        else:
            self._retry = _FIRST_RETRY

    async def here(self) -> Frame:
        """Return the end of what the pane holds.

        Raises:
            TargetGone: It was closed, or cannot be heard.
        """
        seen = await self._see()
        if seen is None and self._gone() is None:
            await self.attach()
            seen = await self._see()
        if seen is None or self._tape is None:
            raise TargetGone(self._gone() or f"{self.pane} cannot be heard now.")
        scrollback, end = seen
        typing = self.pane.column > 0 and (
            self.pane.prompt or _PROMPTLIKE.search(scrollback.cursor_line())
        )
        mood = Mood.CURSOR if typing else Mood.NOTHING
        spot = Spot(end, end, mood, self.pane.column)
        manner = Manner(self.pane.columns, self.pane.rows, interactive=True)
        tail = await self._reader.tail(self._tape, Spot(0, 0), manner)
        return Frame(
            seen_at=datetime.now(UTC),  # noqa: TID251
            place=str(self._place(scrollback.mark(), spot)),
            changed_at=self._changed_at,
            tail=tail.text,
            echoes=tail.echoes,
            prompt=self._prompt(tail),
        )

    async def end(self) -> str:
        """Return the end of what the pane holds.

        Raises:
            TargetGone: It was closed, or cannot be heard.
        """
        return (await self.here()).place

    async def look(self, place: str, start: str) -> Frame:
        """Return what the pane showed since a place."""
        known, began = _Place.parse(place), _Place.parse(start)
        if known.pane != self.pane.id and known.server == self.pane.server:
            # The target named that pane when the wait was made.
            other = await self._other(known.pane)
            if other is not None:
                return await other.look(place, start)
        seen_at = datetime.now(UTC)  # noqa: TID251
        seen = await self._see()
        page, tail = Page("", (), known.spot, more=False), Tail("", ())
        ours = (known.pane, known.server) == (self.pane.id, self.pane.server)
        if self._tape is not None and ours:
            manner = Manner(self.pane.columns, self.pane.rows, interactive=True)
            spot, first = self._spots(known, began)
            page = self._reader.page(self._tape, spot, manner)
            tail = await self._reader.tail(self._tape, first, manner)
            # A mark that is too old shows something again, one too new loses it.
            fresh = seen is not None and not page.more and page.next.shown >= seen[1]
            mark = seen[0].mark() if seen is not None and fresh else known.mark
            place = str(self._place(mark, page.next))
        gone = None if page.more else self._gone(ours=ours)
        return Frame(
            seen_at=seen_at,
            place=place,
            more=page.more,
            changed_at=self._changed_at,
            text=page.text,
            tail=tail.text,
            screen=seen[0].screen() if seen is not None and ours else None,
            echoes=tuple(dict.fromkeys(page.echoes + tail.echoes)),
            prompt=None if gone or seen is None else self._prompt(tail),
            exit_status=self.pane.status if gone and ours and self._over else None,
            gone=gone,
        )

    async def changed(self) -> None:
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
        await self._server.forget(self)

    def printed(self, data: bytes) -> None:
        """Keep what the pane printed."""
        if self._tape is not None:
            self._tape.append(data)
            self._changed_at = datetime.now(UTC)  # noqa: TID251
            self._news.set()

    def stir(self) -> None:
        """Have the pane looked at."""
        self._news.set()

    # --- places -------------------------------------------------------------

    def _place(self, mark: Mark, spot: Spot) -> _Place:
        return _Place(self.pane.id, self.pane.server, self._tape_id, mark, spot)

    def _spots(self, known: _Place, began: _Place) -> tuple[Spot, Spot]:
        """Return where to read on, and where the wait began, on the tape of now."""
        first = began.spot
        if began.tape != self._tape_id:
            at = self._scrollback().find(began.mark)[1]
            first = Spot(at, at, began.spot.mood, began.mark.column)
        if known.tape == self._tape_id:
            return known.spot, first
        line = self._scrollback().find(known.mark)[0]
        if self._shown_to is not None:
            line = min(line, self._shown_to)
        again = self._scrollback().offset(line - _AGAIN_LINES)
        if again <= first.at:
            return first, first
        return Spot(again, again), first

    def _scrollback(self) -> Scrollback:
        if self._tape is None:
            raise TargetGone(f"{self.pane} cannot be heard now.")
        return self._tape.scrollback

    async def _other(self, pane: str) -> WatchedPane | None:
        if pane not in self._others:
            try:
                found = await find(pane)
            except TargetNotFound:
                return None
            self._others[pane] = WatchedPane(self._server, found, self._news)
            await self._others[pane].attach()
        return self._others[pane]

    # --- what tmux says -----------------------------------------------------

    async def _see(self) -> tuple[Scrollback, int] | None:
        """Return how the pane is, and the tape's end at that moment.

        None: it is gone, or nobody can be asked.
        """
        seen: list[tuple[Scrollback, int]] = []

        def keep(scrollback: Scrollback) -> None:
            seen.append((scrollback, self._tape.end if self._tape else 0))

        if self._client is not None and self._client.alive:
            with contextlib.suppress(TmuxSaid):
                await self._ask(self._client, ABOVE_LINES, keep)
                self._await_status()
                if self._over and not self._ended:
                    # tmux drops what it had not yet handed on; the screen has it.
                    await self._ask(self._client, SCROLLBACK_LINES, self._rewind)
                    self._ended = True
                self._exit_notice.attend(self.pane.pid)
                if self.pane.session == self.session:
                    return seen[0]
        await self._find_again()
        return None

    async def _ask(
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
            every = await every_pane()
        except (TmuxSaid, TargetNotFound, OSError):
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

    def _rewind(self, scrollback: Scrollback) -> None:
        """Begin a new tape: what the old one missed stands in the scrollback."""
        # tmux drops output at a pane's end, and may have told its place before that.
        last = self._tape if self.pane.dead else None
        self._shown_to = scrollback.after(last.shown()) if last is not None else None
        self._tape = Tape(scrollback)
        self._tape_id = secrets.token_hex(4)
        self._reader = Reader()
        self._news.set()

    def _retry_later(self) -> None:
        if "retry" not in self._timers:
            loop = asyncio.get_running_loop()
            self._timers["retry"] = loop.call_later(self._retry, self._try_again)
            self._retry = min(self._retry * 2, _LAST_RETRY)

    def _try_again(self) -> None:
        del self._timers["retry"]
        self._attaching = asyncio.create_task(self.attach())

    def _prompt(self, tail: Tail) -> bool | None:
        """Return whether a shell waits; its own marks count where it can be one."""
        known = self.pane.prompt
        if known is False or tail.prompt is None:
            return known
        return tail.prompt

    def _gone(self, *, ours: bool = True) -> str | None:
        if not ours:
            return "The tmux pane that was watched was closed."
        if self._missing:
            return f"The tmux pane {self.pane} was closed."
        heard = self._client is not None and self._client.alive
        # What it showed last is read first, while anybody can be asked.
        if self._over and (self._ended or not heard):
            what = f"The command in the tmux pane {self.pane}"
            return describe_end(what, self.pane.status)
        return None

    @property
    def _over(self) -> bool:
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
        if not self._over:
            self._timers["status"] = loop.call_later(_ASK_AGAIN_SECONDS, self._remind)

    def _remind(self) -> None:
        """Have tmux see to its children, and look again.

        It may miss that one ended (3.3a does), until it is told of another.
        """
        with contextlib.suppress(OSError):
            os.kill(self.pane.server_pid, signal.SIGCHLD)
        self.stir()
