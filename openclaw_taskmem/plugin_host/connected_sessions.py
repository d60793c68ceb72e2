"""Keep which sessions of MCP hosts are connected, with what their hosts told of them.

The values may be credentials, so they are in memory only, and gone with the connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from itertools import chain

Post = Callable[[str, str, float], Awaitable[bool]]
"""Has a relay write into a socket, as in `LiveSessions.post`."""


class ConnectedSessions:
    """Implements `LiveSessions`; each connection may serve several sessions."""

    def __init__(self) -> None:
        self._variables: dict[object, Mapping[str, str]] = {}
        """By connection, the newest last."""
        self._posts: dict[object, Post | None] = {}
        self._hosts: dict[object, dict[str, str | None]] = {}
        """Hosts of the sessions of each connection, by their keys."""

    def add_connection(
        self, connection: object, variables: Mapping[str, str], post: Post | None = None
    ) -> None:
        """Note a connection, with the variables that its host told.

        `post` has its relay write into sockets; None: the relay cannot.
        """
        self._posts[connection] = post
        self._hosts[connection] = {}
        self._variables[connection] = variables

    def add_session(self, connection: object, session_key: str, host: str | None = None) -> bool:
        """Note that a session calls; return True if that is new, and it is still connected.

        `host`: its host, as in `Wake.host`; None: it has not given its name yet.
        """
        hosts = self._hosts.get(connection)
        if hosts is None:
            return False
        is_new = session_key not in hosts
        hosts[session_key] = host
        return is_new

    def remove_session(self, connection: object, session_key: str) -> None:
        """Forget that a session has called."""
        self._hosts.get(connection, {}).pop(session_key, None)

    def remove_connection(self, connection: object) -> None:
        """Forget a connection that was closed, and its sessions."""
        for noted in (self._hosts, self._variables, self._posts):
            noted.pop(connection, None)

    def find_variables(
        self, session_key: str | None, host: str | None = None
    ) -> Mapping[str, str] | None:
        """Return the variables of a session's newest connection; None: it is not connected."""
        connection = self._find_connection(session_key, host)
        return None if connection is None else self._variables.get(connection)

    async def post(
        self, session_key: str | None, path: str, text: str, seconds: float, host: str | None = None
    ) -> bool | None:
        """Have the relay of a session's newest connection write into a socket."""
        post = self._posts.get(self._find_connection(session_key, host))
        return None if post is None else await post(path, text, seconds)

    def _find_connection(self, session_key: str | None, host: str | None) -> object | None:
        """Return the newest connection of a host's session; None: it is not connected."""
        newest_first = reversed([*self._variables])
        hosts = {x: {**self._hosts.get(x, {})} for x in newest_first}
        own = {x: hosts[x][session_key] for x in hosts if session_key in hosts[x]}
        fitting = [x for x in own if host is None or _is_same_client(own[x], host)]
        unnamed = (x for x in own if own[x] is None)
        return next(chain(fitting, unnamed), None)

    def list_sessions(self) -> Collection[tuple[str, str | None]]:
        """Return each connected session's key with its host; None: not known yet.

        Two hosts may give the same key.
        """
        return {each: None for hosts in [*self._hosts.values()] for each in [*hosts.items()]}


def _is_same_client(host: str | None, wanted: str) -> bool:
    """Tell whether two hosts are the same client, be it by MCP or in a shell."""
    return host is not None and host.partition(":")[2] == wanted.partition(":")[2]
