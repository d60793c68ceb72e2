"""Write the report as a table for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

COLUMNS: Final = (
    ("tasks", "tasks"),
    ("interruptions", "interruptions"),
    ("success", "success"),
    ("step_accuracy", "effects right"),
    ("resume_rate", "resumed right"),
    ("redo_ratio", "redo"),
    ("looks", "looks"),
    ("duplicated_effects", "doubled"),
    ("revived_steps", "revived"),
    ("false_wakes", "false wakes"),
    ("packet_bytes", "told"),
)
"""Figures and their titles, here and in docs/reliability.md."""
_EXPLAINED: Final = (
    "packet is Task memory. What every row is told, who its agents are, and what the columns count "
    "stands in docs/reliability.md."
)
FAILURES: Final = 10
"""Most failed tasks that are listed."""
_SHARES: Final = ("success", "step_accuracy", "resume_rate")
_DECIMALS: Final = {"redo_ratio": 2, "looks": 1}


def format_report(report: Mapping[str, Any]) -> str:
    """Return the lines of a report."""
    if "gateway" in report:
        return "\n".join(
            (
                "In the real OpenClaw gateway, which is killed:",
                *_format_conditions(report["gateway"]),
                "",
                _describe_times(report["times"]),
            )
        )
    return "\n".join(
        (
            "Killed at every step:",
            *_format_conditions(report["conditions"]),
            "",
            "Killed three times a task, at most:",
            *_format_conditions(report["few_kills"]),
            "",
            *_describe_your_memory(report),
            _EXPLAINED,
            _describe_wakes(report),
            _describe_goals(report["s3"]),
            _describe_times(report["times"]),
        )
    )


def _describe_your_memory(report: Mapping[str, Any]) -> list[str]:
    """Say what went wrong with the memory that is the user's: tasks that failed, or all of it."""
    broken = [
        f"{name} has no row: {why}" for name, why in report.get("broken_memories", {}).items()
    ]
    failed = report.get("memory_failures", [])
    if not failed:
        return [*broken, ""] if broken else []
    more = [f"And {len(failed) - FAILURES} more."] if len(failed) > FAILURES else []
    return [*broken, "Tasks that failed:", *failed[:FAILURES], *more, ""]


def _format_conditions(conditions: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return _align_rows(
        [
            ["memory", *(title for _, title in COLUMNS)],
            *(
                [name, *(_format_figure(key, found.get(key)) for key, _ in COLUMNS)]
                for name, found in conditions.items()
            ),
        ]
    )


def _align_rows(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _format_figure(key: str, value: float | None) -> str:
    if value is None:
        return "-"
    if key in _SHARES:
        return f"{value:.1%}"
    return f"{value:,.{_DECIMALS.get(key, 0)}f}"


def _describe_wakes(report: Mapping[str, Any]) -> str:
    """Describe the wakes of silent agents."""
    wakes, late = report["wakes"], report["times"]["wake_late_seconds"]
    after = "" if late["median"] is None else f", {late['median']:.1f} s late (median)"
    return (
        f"Of {wakes['due']} agents that fell silent {wakes['came']} were woken{after}, "
        f"{wakes['doubled']} of them too often. {wakes['others']} others needed no wake, "
        f"and got {wakes['false']}."
    )


def _describe_goals(s3: Mapping[str, Any]) -> str:
    five, ten, sizes = s3["five_steps"], s3["ten_steps"], s3["checkpoint_bytes"]
    return (
        f"5 steps: {five['completed']} of {five['tasks']} completed; "
        f"10 steps: {ten['completed']} of {ten['tasks']}; "
        f"{s3['kills']} kills in one task: {s3['resumes']} resumes. "
        f"A checkpoint: {sizes['median']} bytes (at most {sizes['largest']})."
    )


def _describe_times(times: Mapping[str, Any]) -> str:
    cpu = f"the whole run: {times['cpu_seconds']:.0f} s on a processor"
    if "step_seconds" not in times:
        return f"{cpu.capitalize()}, {times['seconds']:.0f} s in all."
    step, recovery = times["step_seconds"], times["recovery_seconds"]
    after = "" if recovery is None else f"after a daemon's death: {recovery:.1f} s; "
    return (
        f"A step: {step['median'] * 1000:.0f} ms (p95 {step['p95'] * 1000:.0f} ms); {after}"
        f"{cpu}, {times['seconds']:.0f} s in all."
    )
