"""Wakes for sessions of Claude Code. The hooks are in `hooks`."""

from __future__ import annotations

from typing import Final

CLIENT: Final = "claude-code"
"""The name that its MCP client gives."""
HOST: Final = f"mcp:{CLIENT}"
"""Its agents' host, as in `Wake.host`."""
CONFIG: Final = "CLAUDE_CONFIG_DIR"
PROJECT: Final = "CLAUDE_PROJECT_DIR"
SESSION: Final = "CLAUDE_CODE_SESSION_ID"
SOCKET: Final = "CLAUDE_CODE_MESSAGING_SOCKET"
TOKEN: Final = "CLAUDE_CODE_MESSAGING_TOKEN"  # noqa: S105 - the variable's name
"""Variables of its MCP servers: the folder of its user's settings, if that is moved, the session's
folder, its id, and the socket and the token of its inbox. Source: https://code.claude.com/docs/en/cross-session-messaging"""
