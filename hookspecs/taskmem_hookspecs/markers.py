"""The two decorators of the plug-in contract."""

from __future__ import annotations

from typing import Final

import pluggy

PROJECT: Final = "openclaw_taskmem"
"""The pluggy project name, and the entry-point group of plug-ins."""

hookspec = pluggy.HookspecMarker(PROJECT)
"""Marks a function in `taskmem_hookspecs.specs` as a hook."""

hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a function of a plug-in as the implementation of the hook of the same name."""
