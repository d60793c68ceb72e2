"""Hooks of the plug-in: sensors and judges of paths, processes, instants, pages and commands."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from taskmem_hookspecs import Judge, Sensor, Target, hookimpl

if TYPE_CHECKING:
    from taskmem_hookspecs.conditions import Condition


_SCHEMES: Final = ("command", "path", "process", "time", "url")


@hookimpl(trylast=True)
def wait_sensor(target: Target) -> Sensor | None:
    """Return the sensor for a target of this plug-in, such as `path:PATH` or `time:WHEN`."""
    return _get_sensor(target.scheme) if target.scheme in _SCHEMES else None


@hookimpl(trylast=True)
def wait_judge(target: Target, condition: Condition) -> Judge | None:
    """Return the judge for a target of this plug-in."""
    if target.scheme not in _SCHEMES:
        return None
    from taskmem_hookspecs.conditions import (
        ExitForm,
        FieldForm,
        NumberForm,
        QuietForm,
        RegexForm,
        StateForm,
        TextForm,
    )
    from taskmem_targets.facts import SIZE, check_condition, refuse_impossible_numbers

    texts = {
        TextForm: '"text" appears',
        RegexForm: "/regex/ appears",
        FieldForm: '$.jobs[0].state is "done"',
    }
    match target.scheme:
        case "process":
            return check_condition(condition, {ExitForm: "exits"}, "a process")
        case "time":
            return check_condition(condition, {StateForm: "comes"}, "an instant")
        case "url":
            states = {StateForm: "answers, is down, changes", NumberForm: "has status == 200"}
            refuse_impossible_numbers(condition, target.name)
            return check_condition(condition, texts | states, "a page", is_cased=False)
        case "command":
            ends = {
                ExitForm: "succeeds, fails, exits with 3",
                StateForm: "changes",
                NumberForm: "prints NAME >= 3",
            }
            return check_condition(condition, texts | ends, "a command")
        case _:
            forms = {
                StateForm: "appears, is gone, changes",
                QuietForm: "is quiet for 30 s",
                NumberForm: "has size >= 1000000, in bytes",
            }
            return check_condition(condition, forms, "a path", (SIZE,))


@cache
def _get_sensor(scheme: str) -> Sensor:
    """Return the process's sensor for a scheme."""
    match scheme:
        case "command":
            from taskmem_targets.commands import CommandSensor

            return CommandSensor()
        case "process":
            from taskmem_targets.processes import ProcessSensor

            return ProcessSensor()
        case "time":
            from taskmem_targets.instants import TimeSensor

            return TimeSensor()
        case "url":
            from taskmem_targets.pages import PageSensor

            return PageSensor()
        case _:
            from taskmem_targets.paths import PathSensor

            return PathSensor()
