"""Keep which sessions of MCP hosts are connected, with what their hosts told of them.

The values may be credentials, so they are in memory only, and gone with the connection.
"""

from __future__ import annotations

from collections.abc import Mapping


class ConnectedSessions:
    """Implements `LiveSessions`; each connection may serve several sessions."""

    def __init__(self) -> None:
        self._variables: dict[tuple[object, str], Mapping[str, str]] = {}
        """By connection and session key, the newest connection last."""

    def add_session(
        self, connection: object, session_key: str, variables: Mapping[str, str]
    ) -> bool:
        """Note that a session calls over a connection; return True if that is new."""
        is_new = (connection, session_key) not in self._variables
        self._variables[connection, session_key] = variables
        return is_new

    def remove_connection(self, connection: object) -> None:
        """Forget the sessions of a connection that was closed."""
        for known in [*self._variables]:
            if known[0] is connection:
                del self._variables[known]

    def find_variables(self, session_key: str | None) -> Mapping[str, str] | None:
        """Return the variables of a session's newest connection; None: it is not connected."""
        for (_, key), variables in reversed([*self._variables.items()]):
            if key == session_key:
                return variables
        return None
