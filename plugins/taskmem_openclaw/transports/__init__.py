"""Transports that deliver wakes to agents."""

from __future__ import annotations

from typing import Final

BEST_AVAILABLE: Final = "openclaw"
"""The transport that takes the best of these that works."""
OPENCLAW_TRANSPORTS: Final = ("openclaw-plugin", "openclaw-hooks", "openclaw-cli")
"""The transports into OpenClaw, the best first."""
