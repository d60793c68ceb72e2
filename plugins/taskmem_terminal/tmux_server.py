"""The tmux server: one control-mode client for each session that is watched."""

from __future__ import annotations

import asyncio
import contextlib

from taskmem_hookspecs import Watch
from taskmem_terminal.tmux_client import Client, ClientListener, unescape_output
from taskmem_terminal.tmux_panes import find_pane
from taskmem_terminal.tmux_watch import WatchedPane


class Tmux(ClientListener):
    """The tmux server of the daemon's user."""

    def __init__(self) -> None:
        self._clients: dict[str, Client] = {}
        self._panes: dict[str, list[WatchedPane]] = {}
        self._turn = asyncio.Lock()
        self._leaving: set[asyncio.Task[None]] = set()
        """Tasks that wait for the processes of clients that ended by themselves."""

    async def watch(self, name: str) -> Watch:
        """Start to watch the pane that a target names.

        Raises:
            TargetNotFound: It does not exist; the message names the panes that do.
        """
        pane = await find_pane(name)
        watched = WatchedPane(self, pane)
        try:
            await watched.attach()
        except BaseException:
            await watched.close()
            raise
        return watched

    def register_pane(self, watched: WatchedPane) -> None:
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

    async def unregister_pane(self, watched: WatchedPane) -> None:
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
