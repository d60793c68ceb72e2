"""Transports that deliver wakes to agents."""

from __future__ import annotations

from typing import Final

OPENCLAW_TRANSPORTS: Final = ("openclaw-plugin", "openclaw-hooks", "openclaw-cli")
"""The transports into OpenClaw, the best first."""
