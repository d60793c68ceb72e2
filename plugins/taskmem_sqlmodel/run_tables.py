"""The tables of runs and their records, and the conversion of their values."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlmodel import Field

from taskmem_hookspecs import (
    Artifact,
    FileChange,
    LedgerEntry,
    LedgerVerdict,
    News,
    Run,
    RunState,
    Verdict,
)
from taskmem_sqlmodel.columns import (
    CodePointText,
    InstantText,
    JsonText,
    build_enum_check,
    build_partial_index,
)
from taskmem_sqlmodel.tables import Base, Params, Row

OPEN_RUN: Final = "state IN ('queued', 'running', 'blocked', 'review')"
"""Condition: the run has not ended."""

QUEUED_RUN: Final = "state = 'queued'"
"""Condition: the run can be claimed."""

RARER_RUN: Final = "state <> 'completed'"
"""Condition: the run is not in the state in which most are."""


class Runs(Base, table=True):
    """One attempt at a task."""

    __table_args__ = (
        build_enum_check("state", RunState),
        build_enum_check("news", News),
        build_partial_index(OPEN_RUN, "runs_open_of_task", "task_id", unique=True),
        build_partial_index(OPEN_RUN, "runs_open_of_session", "session_key", "task_id"),
        build_partial_index(OPEN_RUN, "runs_open_by_age", "created_at", "run_id", "home"),
        build_partial_index(QUEUED_RUN, "runs_queued", "created_at", "run_id"),
        build_partial_index("lease_until IS NOT NULL", "runs_leased", "lease_until", "run_id"),
        build_partial_index(
            "lease_until IS NOT NULL", "runs_leased_at_home", "home", "lease_until", "run_id"
        ),
        sa.Index("runs_by_task", "task_id", "created_at", "run_id"),
        sa.Index("runs_by_age", "created_at", "run_id"),
        build_partial_index(RARER_RUN, "runs_rarer", "state"),
    )

    run_id: str = Field(primary_key=True, sa_type=CodePointText)
    task_id: str = Field(foreign_key="tasks.task_id", sa_type=CodePointText)
    state: str = Field(sa_type=CodePointText)
    why: str | None = Field(sa_type=CodePointText)
    role: str | None = Field(sa_type=CodePointText)
    session_key: str | None = Field(sa_type=CodePointText)
    owner: dict[str, Any] | None = Field(sa_type=JsonText)
    token: int
    lease_until: datetime | None = Field(sa_type=InstantText)
    home: str | None = Field(sa_type=CodePointText)
    told_session: str | None = Field(sa_type=CodePointText)
    attached: list[str] = Field(sa_type=JsonText)
    segmented: bool
    step: int | None
    step_calls: int
    step_bonus: bool
    failed_steps: list[int] = Field(sa_type=JsonText)
    fingerprint: str | None = Field(sa_type=CodePointText)
    folder: str | None = Field(sa_type=CodePointText)
    checkpoints: int
    calls: int
    question: str | None = Field(sa_type=CodePointText)
    heard_until: int = Field(sa_column_kwargs={"server_default": "0"})
    rounds: int
    rounds_before: int = Field(sa_column_kwargs={"server_default": "0"})
    turn_began_at: datetime | None = Field(sa_type=InstantText)
    worked_seconds: float = Field(sa_column_kwargs={"server_default": "0"})
    idle_rounds: int
    news: str = Field(sa_type=CodePointText)
    recent: list[str] = Field(sa_type=JsonText)
    said: str | None = Field(sa_type=CodePointText)
    last_response: str | None = Field(sa_type=CodePointText)
    provider_failures: int
    tries: int
    created_at: datetime = Field(sa_type=InstantText)
    changed_at: datetime = Field(sa_type=InstantText)
    seen_at: datetime = Field(sa_type=InstantText)
    started_at: datetime | None = Field(sa_type=InstantText)
    version: int


def run_params(run: Run) -> Params:
    """Convert a run to a row, the fields of its parts beside its own."""
    row: Params = dict(run)
    for part in Run.PARTS:
        row |= dict(row.pop(part))
    owner = None if run.owner is None else run.owner.model_dump(exclude_none=True)
    words = {"state": run.state.value, "news": run.progress.news.value}
    return {**row, **words, "owner": owner}


def run_value(row: Row) -> Run:
    """Convert a row to a run."""
    fields: Params = dict(row)
    parts: Params = {
        part: of(**{column: fields.pop(column) for column in of.model_fields})
        for part, of in Run.PARTS.items()
    }
    return Run(**fields, **parts)


class Checkpoints(Base, table=True):
    """The addition of one tool call or event to the record of a run.

    Rows are many and small, so the table is stored in its primary-key index (WITHOUT ROWID).
    """

    __table_args__ = (sa.Index("checkpoints_by_age", "at"), {"sqlite_with_rowid": False})

    run_id: str = Field(primary_key=True, foreign_key="runs.run_id", sa_type=CodePointText)
    number: int = Field(primary_key=True, sa_type=sa.Integer)
    at: datetime = Field(sa_type=InstantText)
    body: str = Field(sa_type=CodePointText)
    checksum: str = Field(sa_type=CodePointText)


class Artifacts(Base, table=True):
    """One artifact of a task."""

    __table_args__ = (
        build_enum_check("verdict", Verdict),
        sa.Index("artifacts_by_task", "task_id", "artifact_id"),
    )

    artifact_id: str = Field(primary_key=True, sa_type=CodePointText)
    task_id: str = Field(foreign_key="tasks.task_id", sa_type=CodePointText)
    run_id: str | None = Field(foreign_key="runs.run_id", sa_type=CodePointText)
    kind: str = Field(sa_type=CodePointText)
    subject: str = Field(sa_type=CodePointText)
    verdict: str = Field(sa_type=CodePointText)
    detail: str = Field(sa_type=CodePointText)
    checksum: str | None = Field(sa_type=CodePointText)
    size: int | None = Field(sa_type=sa.BigInteger)
    checked_at: datetime = Field(sa_type=InstantText)
    version: int


def artifact_params(artifact: Artifact) -> Params:
    """Convert an artifact to a row."""
    return {**dict(artifact), "verdict": artifact.verdict.value}


class Ledger(Base, table=True):
    """One path that a task created, changed or removed, with what the daemon saw of it."""

    __table_args__ = (
        build_enum_check("change", FileChange),
        build_enum_check("verdict", LedgerVerdict),
    )

    task_id: str = Field(primary_key=True, foreign_key="tasks.task_id", sa_type=CodePointText)
    path: str = Field(primary_key=True, sa_type=CodePointText)
    run_id: str | None = Field(foreign_key="runs.run_id", sa_type=CodePointText)
    change: str | None = Field(sa_type=CodePointText)
    call_id: str | None = Field(sa_type=CodePointText)
    at: datetime = Field(sa_type=InstantText)
    size: int | None = Field(sa_type=sa.BigInteger)
    sha256: str | None = Field(sa_type=CodePointText)
    verdict: str | None = Field(sa_type=CodePointText)
    why: str | None = Field(sa_type=CodePointText)
    nearby: bool


def ledger_params(entry: LedgerEntry) -> Params:
    """Convert a ledger entry to a row."""
    words = {
        "change": entry.change and entry.change.value,
        "verdict": entry.verdict and entry.verdict.value,
    }
    return {**dict(entry), **words}


class Folders(Base, table=True):
    """One folder used by the tools of a task."""

    task_id: str = Field(primary_key=True, foreign_key="tasks.task_id", sa_type=CodePointText)
    path: str = Field(primary_key=True, sa_type=CodePointText)
    since: datetime | None = Field(sa_type=InstantText)
    files: str | None = Field(sa_type=CodePointText)
