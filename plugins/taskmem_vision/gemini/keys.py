"""Find the variables with Gemini keys, and remove them for other programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

KEYS: Final = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
"""Variables in which the SDK looks for a key, in its order."""


def remove_keys(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without keys, for a program that asks no model."""
    return {name: each for name, each in environ.items() if name not in KEYS}
