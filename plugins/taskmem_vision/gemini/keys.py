"""Where keys for Gemini are, and environments for programs that need none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

KEYS: Final = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
"""Where the SDK looks for a key, in its own order."""


def remove_keys(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for a program that asks no model."""
    return {name: each for name, each in environ.items() if name not in KEYS}
