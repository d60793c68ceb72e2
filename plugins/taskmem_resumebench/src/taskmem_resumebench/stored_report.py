"""Read a report that `taskmem bench --json` has printed, and check what is shown of it."""

from __future__ import annotations

import json
from typing import IO, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0, lt=1 << 53)]
Share = Annotated[float, Field(ge=0, le=1)]


class NotAReport(Exception):
    """What was read is something else."""


class _Part(BaseModel):
    """A part of a report; what is not shown is not checked."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class _Figures(_Part):
    tasks: Count
    interruptions: Count
    success: Share
    step_accuracy: Share
    resume_rate: Share | None
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
