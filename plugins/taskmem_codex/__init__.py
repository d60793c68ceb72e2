"""Wakes for threads of Codex. The hooks are in `hooks`."""

from __future__ import annotations

from typing import Final

FOLDER_VARIABLE: Final = "CODEX_HOME"
"""Variable that names Codex's folder. Codex passes it on to no MCP server, so set-up writes it into
the entry of ours."""
