"""The hooks: what watches terminals, and what judges their text."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from taskmem_hookspecs import Judge, Sensor, Target, hookimpl

if TYPE_CHECKING:
    from taskmem_terminal.sensor import Terminals


@hookimpl(trylast=True)
def wait_sensor(target: Target) -> Sensor | None:
    """Watch `pty:NAME`, `pty:tmux:TARGET` and `pty:file:PATH`."""
    return _terminals() if target.scheme == "pty" else None


@hookimpl(trylast=True)
def wait_judge(target: Target, wake_when: str) -> Judge | None:
    """Read the text of a terminal by rules."""
    if target.scheme != "pty":
        return None
    from taskmem_terminal.judge import TextJudge

    return TextJudge(wake_when)


@cache
def _terminals() -> Terminals:
    """Return the one sensor of this process, which shares what it watches with."""
    from taskmem_terminal.sensor import Terminals

    return Terminals()
