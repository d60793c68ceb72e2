"""Put outcomes together to the report, show it as a table and a picture, and read it again."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from html import escape
from pathlib import Path
from statistics import mean, median, quantiles
from typing import IO, Annotated, Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from taskmem_resumebench.trials import Outcome

_SHARE_DECIMALS: Final = 4
Count = Annotated[int, Field(ge=0, lt=1 << 53)]
_Share = Annotated[float, Field(ge=0, le=1)]
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
_EXPLANATION: Final = (
    "packet is Task memory. What every row is told, who its agents are, and what the columns count "
    "stands in docs/reliability.md."
)
_MOST_FAILURES: Final = 10
"""Most failed tasks that are listed."""
_SHARES: Final = ("success", "step_accuracy", "resume_rate")
_FIGURE_DECIMALS: Final = {"redo_ratio": 2, "looks": 1}
_TITLE: Final = "Tasks done right after interruptions, by what the agent is told"
_LABELS: Final = {
    "packet": "Task memory: packet",
    "packet_and_thread": "Task memory: packet and thread",
    "packet/stubborn": "packet, an agent that never looks",
    "memory": "your memory",
    "notes_before_and_after": "notes, before and after each call",
    "openclaw_recovery": "a model of OpenClaw's recovery",
    "openclaw_recovery/careful": "it, and a look at the next step",
    "notes/careful": "notes, and a look at the next step",
    "notes": "notes, after each step",
    "nothing": "nothing",
}
_PARTS: Final = (
    ("conditions", "killed at every step", "#2f81f7"),
    ("few_kills", "killed three times at most", "#a371f7"),
)
_GREY: Final = "#7d8590"
_WIDTH, _LEFT_EDGE, _BAR, _LINE = 720, 230, 260, 13
_ROW, _TOP = 40, 62


class Figures(NamedTuple):
    """The figures of one condition; None: nothing to measure it by."""

    tasks: int
    interruptions: int
    success: float
    """Tasks that were ended, and of which everything was there once, and nothing else."""
    step_accuracy: float
    """Needed effects that were there exactly once."""
    resume_rate: float | None
    """Interruptions after which nothing was made again or revived, until the next or the end."""
    redo_ratio: float
    """Calls that had their effect, for each that was needed."""
    looks: float
    """How often an agent looked whether a call had its effect, in a task."""
    duplicated_effects: int
    revived_steps: int
    false_wakes: int | None
    """None: no daemon had to do with it."""
    daemon_kills: int
    packet_bytes: float | None
    """Bytes that the agent is told; the 95th percentile."""


def compute_figures(
    outcomes: Sequence[Outcome], false_wakes: int | None, daemon_kills: int
) -> Figures:
    """Return the figures of a condition."""
    judged = [each.judgement for each in outcomes]
    needed = sum(each.needed for each in judged)
    cuts = sum(each.interruptions for each in outcomes)
    sizes = [size for each in outcomes for size in each.memory_bytes]
    return Figures(
        tasks=len(outcomes),
        interruptions=cuts,
        success=round(mean(each.success for each in outcomes), _SHARE_DECIMALS),
        step_accuracy=round(sum(each.right for each in judged) / needed, _SHARE_DECIMALS),
        resume_rate=round(sum(each.resumed for each in outcomes) / cuts, _SHARE_DECIMALS)
        if cuts
        else None,
        redo_ratio=round(sum(each.performed for each in judged) / needed, _SHARE_DECIMALS),
        looks=round(mean(each.looks for each in outcomes), _SHARE_DECIMALS),
        duplicated_effects=sum(each.duplicated for each in judged),
        revived_steps=sum(each.revived for each in judged),
        false_wakes=false_wakes,
        daemon_kills=daemon_kills,
        packet_bytes=find_percentile(sizes, 95),
    )


def find_percentile(values: Sequence[float], percent: int) -> float | None:
    """Return a percentile of some values; None: there are none."""
    if len(values) < 2:  # noqa: PLR2004 - quantiles needs two
        return values[0] if values else None
    return round(quantiles(values, n=100, method="inclusive")[percent - 1], 3)


def describe_goals(
    five: Sequence[Outcome],
    ten: Sequence[Outcome],
    killed: Outcome,
    checkpoint_bytes: Sequence[int],
) -> dict[str, JsonValue]:
    """Return the figures that were asked for.

    Source: docs/origins.md, "A benchmark of resuming".

    Args:
        five: Tasks of five steps.
        ten: Tasks of ten steps.
        killed: A task during which the agent was killed three times.
        checkpoint_bytes: The size of each checkpoint.
    """
    outcomes = (*five, *ten, killed)
    completed = sum(each.success for each in outcomes)
    return {
        "five_steps": _describe_completion(five),
        "ten_steps": _describe_completion(ten),
        "kills": killed.interruptions,
        "resumes": killed.resumed if killed.success else 0,
        "checkpoint_bytes": {
            "median": round(median(checkpoint_bytes)),
            "largest": max(checkpoint_bytes),
        },
        "metrics": {
            "tasks": len(outcomes),
            "completed": completed,
            "failed": len(outcomes) - completed,
            "mean_steps": round(mean(each.judgement.needed for each in outcomes), 2),
            "mean_resumes": round(mean(each.resumed for each in outcomes), 2),
        },
    }


def describe_times(outcomes: Sequence[Outcome]) -> dict[str, JsonValue]:
    """Return how long these tasks and their steps took."""
    times = [seconds for each in outcomes for seconds in each.step_seconds]
    return {
        "step_seconds": {"median": round(median(times), 4), "p95": find_percentile(times, 95)},
        "task_seconds": round(mean(each.seconds for each in outcomes), 3),
    }


def read_checkpoint_sizes(database: Path) -> list[int]:
    """Return the size in bytes of each checkpoint in a home's database."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as found:
        rows = found.execute("SELECT length(CAST(body AS BLOB)) FROM checkpoints").fetchall()
    return [int(size) for (size,) in rows]


def _describe_completion(outcomes: Sequence[Outcome]) -> JsonValue:
    complete = sum(each.success for each in outcomes)
    return {
        "tasks": len(outcomes),
        "completed": complete,
        "completion_rate": round(complete / len(outcomes), 4),
    }


class NotAReport(Exception):
    """The file holds something else."""


class _Part(BaseModel):
    """A part of a report; what is not shown is not checked."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class _Figures(_Part):
    tasks: Count
    interruptions: Count
    success: _Share
    step_accuracy: _Share
    resume_rate: _Share | None
    redo_ratio: float
    looks: float | None = None
    duplicated_effects: Count
    revived_steps: Count
    false_wakes: Count | None
    packet_bytes: float | None


class _Wakes(_Part):
    due: Count
    came: Count
    doubled: Count
    false: Count
    others: Count


class _Goal(_Part):
    tasks: Count
    completed: Count


class _Sizes(_Part):
    median: Count
    largest: Count


class _Goals(_Part):
    five_steps: _Goal
    ten_steps: _Goal
    kills: Count
    resumes: Count
    checkpoint_bytes: _Sizes


class _StepSeconds(_Part):
    median: float
    p95: float


class _Lateness(_Part):
    median: float | None


class _GatewayTimes(_Part, extra="forbid"):
    seconds: float
    cpu_seconds: float


class _Times(_Part):
    step_seconds: _StepSeconds
    recovery_seconds: float | None
    wake_late_seconds: _Lateness
    seconds: float
    cpu_seconds: float


class _Report(_Part):
    conditions: dict[str, _Figures]
    few_kills: dict[str, _Figures]
    wakes: _Wakes
    s3: _Goals
    times: _Times
    broken_memories: dict[str, str] = {}
    memory_failures: list[str] = []


class _GatewayReport(_Part):
    gateway: dict[str, _Figures]
    times: _GatewayTimes


def read_report(file: IO[bytes]) -> dict[str, Any]:
    """Return the report in a file.

    Raises:
        NotAReport: There is none.
    """
    try:
        text = file.read()
        report: dict[str, Any] = json.loads(text)
        kind = _GatewayReport if "gateway" in report else _Report
        kind.model_validate_json(text)
    except (OSError, RecursionError, TypeError, ValueError) as error:
        raise NotAReport from error
    return report


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
            _EXPLANATION,
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
    more = [f"And {len(failed) - _MOST_FAILURES} more."] if len(failed) > _MOST_FAILURES else []
    return [*broken, "Tasks that failed:", *failed[:_MOST_FAILURES], *more, ""]


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
    return f"{value:,.{_FIGURE_DECIMALS.get(key, 0)}f}"


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


def draw_plot(report: Mapping[str, Any]) -> str:
    """Return the picture of a report: two bars for each memory, with what was done twice."""
    names = [name for name in _LABELS if name in report["conditions"]]
    height = _TOP + _ROW * len(names)
    lines = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" role="img">',
        f'<g font-family="sans-serif" font-size="13" fill="{_GREY}">',
        f"<title>{_TITLE}</title>",
        f'<text x="8" y="20" font-size="15" font-weight="bold">{_TITLE}</text>',
        *_draw_legend(),
        *(line for row, name in enumerate(names) for line in _draw_row(report, name, row)),
        "</g></svg>",
        "",
    )
    return "\n".join(lines)


def _draw_legend() -> Iterator[str]:
    for place, (_, words, colour) in enumerate(_PARTS):
        x = _LEFT_EDGE + 190 * place
        yield f'<rect x="{x}" y="34" width="10" height="10" fill="{colour}"/>'
        yield f'<text x="{x + 16}" y="44">{words}</text>'


def _draw_row(report: Mapping[str, Any], name: str, row: int) -> Iterator[str]:
    y = _TOP + _ROW * row
    yield f'<text x="8" y="{y + 18}">{escape(_LABELS[name], quote=False)}</text>'
    for place, (part, _, colour) in enumerate(_PARTS):
        if (found := report[part].get(name)) is None:
            continue
        top = y + (_LINE + 2) * place
        width = max(round(_BAR * found["success"]), 2)
        yield (
            f'<rect x="{_LEFT_EDGE}" y="{top}" width="{_BAR}" height="{_LINE}" fill="{_GREY}"'
            ' fill-opacity="0.15"/>'
        )
        yield (
            f'<rect x="{_LEFT_EDGE}" y="{top}" width="{width}" height="{_LINE}" fill="{colour}"/>'
        )
        doubled, tasks = found["duplicated_effects"], found["tasks"]
        words = f"{found['success']:.0%}, {doubled:,} doubled in {tasks} tasks"
        yield f'<text x="{_LEFT_EDGE + _BAR + 8}" y="{top + 11}" font-size="12">{words}</text>'
