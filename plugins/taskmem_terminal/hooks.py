"""The hooks: what watches terminals, judges their text, and proves commands."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from taskmem_hookspecs import EvidenceVerifier, Judge, Sensor, Target, hookimpl

if TYPE_CHECKING:
    from taskmem_hookspecs.conditions import Condition
    from taskmem_terminal.sensor import TerminalSensor


@hookimpl(trylast=True)
def wait_sensor(target: Target) -> Sensor | None:
    """Watch `pty:NAME`, `pty:tmux:TARGET` and `pty:file:PATH`."""
    return _get_sensor() if target.scheme == "pty" else None


@hookimpl(trylast=True)
def wait_judge(target: Target, condition: Condition) -> Judge | None:
    """Match the text of a terminal with the sides of a condition that have forms."""
    if target.scheme != "pty" or not condition.parsed_sides:
        return None
    from taskmem_terminal.judge import TerminalRuleJudge

    return TerminalRuleJudge(condition, target.name)


@hookimpl(trylast=True)
def evidence_verifier(kind: str) -> EvidenceVerifier | None:
    """Look at claims of the kind `command`."""
    if kind != "command":
        return None
    from taskmem_terminal.command_evidence import CommandVerifier

    return CommandVerifier()


@cache
def _get_sensor() -> TerminalSensor:
    """Return the one sensor of this process, which shares what it watches with."""
    from taskmem_terminal.sensor import TerminalSensor

    return TerminalSensor()
