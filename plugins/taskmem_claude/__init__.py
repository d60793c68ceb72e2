"""Wakes for sessions of Claude Code. The hooks are in `hooks`."""

from __future__ import annotations

from typing import Final

CLIENT: Final = "claude-code"
"""The name that its MCP client gives."""
SESSION: Final = "CLAUDE_CODE_SESSION_ID"
SOCKET: Final = "CLAUDE_CODE_MESSAGING_SOCKET"
TOKEN: Final = "CLAUDE_CODE_MESSAGING_TOKEN"  # noqa: S105 - the variable's name
"""Variables that Claude Code sets for its MCP servers: the session's id, and the socket and the
token of its inbox. Source: https://code.claude.com/docs/en/cross-session-messaging"""
