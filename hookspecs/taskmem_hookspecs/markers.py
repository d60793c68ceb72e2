"""The two decorators of the plug-in contract."""

from __future__ import annotations

from typing import Final

import pluggy

PROJECT: Final = "openclaw_taskmem"
"""The pluggy project name, and the entry-point group that plug-ins register in."""

hookspec = pluggy.HookspecMarker(PROJECT)
"""Marks a function in `taskmem_hookspecs.specs` as a hook."""

hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a function of a plug-in as its answer to the hook of the same name."""
