"""Runs, their checkpoints, what tasks are to make, and wakes that runs owe."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

from taskmem_sqlmodel.columns import InstantText, JsonText, Text

revision = "0005_runs"
down_revision = "0004_notes_of_wakes"

_OPEN: Final = "state IN ('queued', 'running', 'blocked', 'review')"
_CAUSES: Final = "cause IN ('stuck', 'wait', 'run')"


def upgrade() -> None:
    """Add them; no older task has a run."""
    op.add_column("tasks", sa.Column("held_until", InstantText))
    _make_runs()
    _make_checkpoints()
    _make_artifacts()
    if op.get_bind().dialect.name == "sqlite":
        _remake_wakes()
    else:
        op.add_column("wakes", sa.Column("run_id", Text, sa.ForeignKey("runs.run_id")))
        op.drop_constraint("cause_is_known", "wakes")
        op.create_check_constraint("cause_is_known", "wakes", _CAUSES)


def _make_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("run_id", Text, primary_key=True),
        sa.Column("task_id", Text, sa.ForeignKey("tasks.task_id"), nullable=False),
        sa.Column("state", Text, nullable=False),
        sa.Column("why", Text),
        sa.Column("role", Text),
        sa.Column("session_key", Text),
        sa.Column("owner", JsonText),
        sa.Column("token", sa.Integer, nullable=False),
        sa.Column("lease_until", InstantText),
        sa.Column("home", Text),
        sa.Column("told_session", Text),
        sa.Column("attached", JsonText, nullable=False),
        sa.Column("segmented", sa.Boolean, nullable=False),
        sa.Column("step", sa.Integer),
        sa.Column("step_calls", sa.Integer, nullable=False),
        sa.Column("step_bonus", sa.Boolean, nullable=False),
        sa.Column("failed_steps", JsonText, nullable=False),
        sa.Column("fingerprint", Text),
        sa.Column("folder", Text),
        sa.Column("checkpoints", sa.Integer, nullable=False),
        sa.Column("calls", sa.Integer, nullable=False),
        sa.Column("rounds", sa.Integer, nullable=False),
        sa.Column("idle_rounds", sa.Integer, nullable=False),
        sa.Column("news", Text, nullable=False),
        sa.Column("recent", JsonText, nullable=False),
        sa.Column("said", Text),
        sa.Column("provider_failures", sa.Integer, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("created_at", InstantText, nullable=False),
        sa.Column("changed_at", InstantText, nullable=False),
        sa.Column("seen_at", InstantText, nullable=False),
        sa.Column("started_at", InstantText),
        sa.Column("ended_at", InstantText),
        sa.Column("version", sa.Integer, nullable=False),
        sa.CheckConstraint(
            "state IN ('queued', 'running', 'blocked', 'review', 'completed', "
            "'failed', 'cancelled')",
            name="state_is_known",
        ),
        sa.CheckConstraint("news IN ('none', 'result', 'call')", name="news_is_known"),
    )
    _index_where(_OPEN, "runs_open_of_task", "runs", "task_id", unique=True)
    _index_where(_OPEN, "runs_open_of_session", "runs", "session_key", "task_id")
    _index_where("state = 'queued'", "runs_queued", "runs", "created_at", "run_id")
    _index_where(
        "lease_until IS NOT NULL", "runs_leased", "runs", "lease_until", "run_id"
    )
    op.create_index("runs_by_task", "runs", ["task_id", "created_at", "run_id"])
    op.create_index("runs_by_age", "runs", ["created_at", "run_id"])


def _make_checkpoints() -> None:
    op.create_table(
        "checkpoints",
        sa.Column("run_id", Text, sa.ForeignKey("runs.run_id"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("at", InstantText, nullable=False),
        sa.Column("body", Text, nullable=False),
        sa.Column("checksum", Text, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("checkpoints_by_age", "checkpoints", ["at"])


def _make_artifacts() -> None:
    op.create_table(
        "artifacts",
        sa.Column("artifact_id", Text, primary_key=True),
        sa.Column("task_id", Text, sa.ForeignKey("tasks.task_id"), nullable=False),
        sa.Column("run_id", Text, sa.ForeignKey("runs.run_id")),
        sa.Column("kind", Text, nullable=False),
        sa.Column("subject", Text, nullable=False),
        sa.Column("verdict", Text, nullable=False),
        sa.Column("detail", Text, nullable=False),
        sa.Column("checksum", Text),
        sa.Column("size", sa.BigInteger),
        sa.Column("checked_at", InstantText, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.CheckConstraint(
            "verdict IN ('verified', 'refuted', 'unproven')", name="verdict_is_known"
        ),
    )
    op.create_index("artifacts_by_task", "artifacts", ["task_id", "artifact_id"])


def _remake_wakes() -> None:
    """Make the table anew: SQLite cannot change a check of one that is there."""
    op.rename_table("wakes", "wakes_before")
    for name in (
        *("wakes_by_age", "wakes_by_task", "wakes_open", "wakes_open_of_wait"),
        *("wakes_due", "wakes_sent"),
    ):
        op.drop_index(name, "wakes_before")
    kept = (
        sa.Column("wake_id", Text, primary_key=True),
        sa.Column("key", Text, nullable=False, unique=True),
        sa.Column("cause", Text, nullable=False),
        sa.Column("state", Text, nullable=False),
        sa.Column("task_id", Text, sa.ForeignKey("tasks.task_id")),
        sa.Column("wait_id", Text, sa.ForeignKey("waits.wait_id")),
        sa.Column("session_key", Text),
        sa.Column("text", Text, nullable=False),
        sa.Column("urgent", sa.Boolean, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("sends", sa.Integer, nullable=False),
        sa.Column("last_error", Text),
        sa.Column("created_at", InstantText, nullable=False),
        sa.Column("due_at", InstantText),
        sa.Column("sent_at", InstantText),
        sa.Column("acknowledged_at", InstantText),
        sa.Column("transport", Text),
        sa.Column("delivery_id", Text),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("note", Text),
    )
    names = ", ".join(column.name for column in kept)
    op.create_table(
        "wakes",
        *kept,
        sa.Column("run_id", Text, sa.ForeignKey("runs.run_id")),
        sa.CheckConstraint(_CAUSES, name="cause_is_known"),
        sa.CheckConstraint(
            "state IN ('due', 'sent', 'acknowledged', 'unanswered', 'refused', "
            "'superseded')",
            name="state_is_known",
        ),
    )
    op.execute(f"INSERT INTO wakes ({names}) SELECT {names} FROM wakes_before")  # noqa: S608 - names of columns
    op.drop_table("wakes_before")
    op.create_index("wakes_by_age", "wakes", ["created_at", "wake_id"])
    op.create_index("wakes_by_task", "wakes", ["task_id", "created_at", "wake_id"])
    open_ = "state IN ('due', 'sent')"
    for name, about in (("wakes_open", "task_id"), ("wakes_open_of_wait", "wait_id")):
        _index_where(open_, name, "wakes", about, "created_at", "wake_id")
    _index_where("due_at IS NOT NULL", "wakes_due", "wakes", "due_at", "wake_id")
    _index_where("sent_at IS NOT NULL", "wakes_sent", "wakes", "sent_at")


def _index_where(
    condition: str, name: str, table: str, *columns: str, unique: bool = False
) -> None:
    where = sa.text(condition)
    op.create_index(
        name,
        table,
        columns,
        unique=unique,
        sqlite_where=where,
        postgresql_where=where,
    )
