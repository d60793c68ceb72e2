"""Hooks of the terminal plug-in: sensor, judge and evidence verifier."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from taskmem_hookspecs import EvidenceVerifier, Judge, Sensor, Target, hookimpl

if TYPE_CHECKING:
    from taskmem_hookspecs.conditions import Condition
    from taskmem_terminal.sensor import TerminalSensor


@hookimpl(trylast=True)
def wait_sensor(target: Target) -> Sensor | None:
    """Return the sensor for `pty:NAME`, `pty:tmux:TARGET` and `pty:file:PATH`."""
    return _get_sensor() if target.scheme == "pty" else None


@hookimpl(trylast=True)
def wait_judge(target: Target, condition: Condition) -> Judge | None:
    """Return the judge for the sides of a condition that consist of forms."""
    if target.scheme != "pty" or not condition.parsed_sides:
        return None
    from taskmem_terminal.judge import TerminalRuleJudge

    return TerminalRuleJudge(condition, target.name)


@hookimpl(trylast=True)
def evidence_verifier(kind: str) -> EvidenceVerifier | None:
    """Return the verifier for claims of kind `command`."""
    if kind != "command":
        return None
    from taskmem_terminal.command_evidence import CommandVerifier

    return CommandVerifier()


@cache
def _get_sensor() -> TerminalSensor:
    """Return the process's sensor, which shares its clients and watches."""
    from taskmem_terminal.sensor import TerminalSensor

    return TerminalSensor()
