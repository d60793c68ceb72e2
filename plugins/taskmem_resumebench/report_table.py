"""Write the report as a table for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

_COLUMNS: Final = (
    ("success", "success"),
    ("step_accuracy", "steps right"),
    ("resume_rate", "resumed right"),
    ("redo_ratio", "redo"),
    ("duplicated_effects", "doubled"),
    ("revived_steps", "revived"),
    ("false_wakes", "false wakes"),
    ("recovery_seconds", "recovery s"),
    ("packet_bytes", "told bytes"),
)
_SHARES: Final = ("success", "step_accuracy", "resume_rate")


def format_report(report: Mapping[str, Any]) -> str:
    """Return the lines of a report."""
    conditions: Mapping[str, Mapping[str, Any]] = report["conditions"]
    rows = [
        ["memory", *(title for _, title in _COLUMNS)],
        *(
            [name, *(_format_figure(key, found[key]) for key, _ in _COLUMNS)]
            for name, found in conditions.items()
        ),
    ]
    return "\n".join((*_align_rows(rows), "", *_describe_goals(report["s3"])))


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
    return f"{value:,.2f}" if key in ("redo_ratio", "recovery_seconds") else f"{value:,.0f}"


def _describe_goals(s3: Mapping[str, Any]) -> list[str]:
    five, ten, sizes = s3["five_steps"], s3["ten_steps"], s3["checkpoint_bytes"]
    times, metrics = s3["step_seconds"], s3["metrics"]
    completed = (
        f"5 steps: {five['completed']} of {five['tasks']} completed; "
        f"10 steps: {ten['completed']} of {ten['tasks']}; "
        f"{s3['kills']} kills in one task: {s3['resumes']} resumes."
    )
    cost = (
        f"A step: {times['median'] * 1000:.0f} ms (p95 {times['p95'] * 1000:.0f} ms); "
        f"a task: {metrics['mean_seconds']:.1f} s; "
        f"a checkpoint: {sizes['median']} bytes (at most {sizes['largest']})."
    )
    return [completed, cost]
