"""Hooks of the plug-in: sensors and judges of paths, processes and instants."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from taskmem_hookspecs import Judge, Sensor, Target, hookimpl

if TYPE_CHECKING:
    from taskmem_hookspecs.conditions import Condition


_SCHEMES: Final = ("path", "process", "time")


@hookimpl(trylast=True)
def wait_sensor(target: Target) -> Sensor | None:
    """Return the sensor for `path:PATH`, `process:PID` or `time:WHEN`."""
    return _get_sensor(target.scheme) if target.scheme in _SCHEMES else None


@hookimpl(trylast=True)
def wait_judge(target: Target, condition: Condition) -> Judge | None:
    """Return the judge for a target of this plug-in."""
    if target.scheme not in _SCHEMES:
        return None
    from taskmem_hookspecs.conditions import ExitForm, NumberForm, QuietForm, StateForm
    from taskmem_targets.facts import check_condition

    match target.scheme:
        case "process":
            return check_condition(condition, {ExitForm: "exits"}, "a process")
        case "time":
            return check_condition(condition, {StateForm: "comes"}, "an instant")
        case _:
            forms = {
                StateForm: "appears, is gone, changes",
                QuietForm: "is quiet for 30 s",
                NumberForm: "has size >= 1000000, in bytes",
            }
            return check_condition(condition, forms, "a path")


@cache
def _get_sensor(scheme: str) -> Sensor:
    """Return the process's sensor for a scheme."""
    match scheme:
        case "process":
            from taskmem_targets.processes import ProcessSensor

            return ProcessSensor()
        case "time":
            from taskmem_targets.instants import TimeSensor

            return TimeSensor()
        case _:
            from taskmem_targets.paths import PathSensor

            return PathSensor()
