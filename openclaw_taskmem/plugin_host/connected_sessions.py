"""Keep which sessions of MCP hosts are connected, with what their hosts told of them.

The values may be credentials, so they are in memory only, and gone with the connection.
"""

from __future__ import annotations

from collections.abc import Mapping


class ConnectedSessions:
    """Implements `LiveSessions`; each connection may serve several sessions."""

    def __init__(self) -> None:
        self._variables: dict[object, Mapping[str, str]] = {}
        """By connection, the newest last."""
        self._keys: dict[object, set[str]] = {}
        """Keys of the sessions of each connection."""

    def add_connection(self, connection: object, variables: Mapping[str, str]) -> None:
        """Note a connection, with the variables that its host told."""
        self._keys[connection] = set()
        self._variables[connection] = variables

    def add_session(self, connection: object, session_key: str) -> bool:
        """Note that a session calls; return True if that is new, and it is still connected."""
        keys = self._keys.get(connection)
        if keys is None or session_key in keys:
            return False
        keys.add(session_key)
        return True

    def remove_session(self, connection: object, session_key: str) -> None:
        """Forget that a session has called."""
        self._keys.get(connection, set()).discard(session_key)

    def remove_connection(self, connection: object) -> None:
        """Forget a connection that was closed, and its sessions."""
        self._keys.pop(connection, None)
        self._variables.pop(connection, None)

    def find_variables(self, session_key: str | None) -> Mapping[str, str] | None:
        """Return the variables of a session's newest connection; None: it is not connected."""
        for connection, variables in reversed([*self._variables.items()]):
            if session_key in self._keys.get(connection, ()):
                return variables
        return None
