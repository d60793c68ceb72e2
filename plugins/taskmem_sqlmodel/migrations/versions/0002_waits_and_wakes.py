"""Waits, wakes, and when to look whether a task is stuck."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from taskmem_sqlmodel.columns import InstantText, Text

revision = "0002_waits_and_wakes"
down_revision = "0001_tasks"


def upgrade() -> None:
    """Add them; a task that is active is looked at as soon as the daemon runs."""
    _add_to_tasks()
    _make_waits()
    _make_wakes()


def _add_to_tasks() -> None:
    op.add_column("tasks", sa.Column("last_stuck_alert_at", InstantText))
    for name in ("alerts", "alerts_in_a_row"):
        op.add_column(
            "tasks",
            sa.Column(name, sa.Integer, nullable=False, server_default=sa.text("0")),
        )
    op.add_column("tasks", sa.Column("stuck_due_at", InstantText))
    op.execute("UPDATE tasks SET stuck_due_at = updated_at WHERE status = 'active'")
    _index_where(
        "stuck_due_at IS NOT NULL",
        "tasks_stuck_due",
        "tasks",
        "status",
        "stuck_due_at",
        "task_id",
    )


def _make_waits() -> None:
    op.create_table(
        "waits",
        sa.Column("wait_id", Text, primary_key=True),
        sa.Column("task_id", Text, sa.ForeignKey("tasks.task_id")),
        sa.Column("session_key", Text),
        sa.Column("target", Text, nullable=False),
        sa.Column("wake_when", Text, nullable=False),
        sa.Column("status", Text, nullable=False),
        sa.Column("timeout_seconds", sa.Double, nullable=False),
        sa.Column("poll_seconds", sa.Double, nullable=False),
        sa.Column("created_at", InstantText, nullable=False),
        sa.Column("armed_at", InstantText, nullable=False),
        sa.Column("deadline_at", InstantText, nullable=False),
        sa.Column("changed_at", InstantText, nullable=False),
        sa.Column("ended_at", InstantText),
        sa.Column("last_observation", Text),
        sa.Column("round", sa.Integer, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.CheckConstraint(
            "status IN ('watching', 'resolved', 'timeout', 'cancelled', 'error')",
            name="status_is_known",
        ),
    )
    op.create_index("waits_by_task", "waits", ["task_id", "created_at", "wait_id"])
    op.create_index("waits_by_age", "waits", ["created_at", "wait_id"])
    _index_where(
        "status = 'watching'", "waits_watching", "waits", "created_at", "wait_id"
    )


def _make_wakes() -> None:
    op.create_table(
        "wakes",
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
        sa.CheckConstraint("cause IN ('stuck', 'wait')", name="cause_is_known"),
        sa.CheckConstraint(
            "state IN ('due', 'sent', 'acknowledged', 'unanswered', 'refused', "
            "'superseded')",
            name="state_is_known",
        ),
    )
    op.create_index("wakes_by_age", "wakes", ["created_at", "wake_id"])
    op.create_index("wakes_by_task", "wakes", ["task_id", "created_at", "wake_id"])
    _index_where(
        "state IN ('due', 'sent')",
        "wakes_open",
        "wakes",
        "task_id",
        "created_at",
        "wake_id",
    )
    _index_where("due_at IS NOT NULL", "wakes_due", "wakes", "due_at", "wake_id")
    _index_where("sent_at IS NOT NULL", "wakes_sent", "wakes", "sent_at")


def _index_where(condition: str, name: str, table: str, *columns: str) -> None:
    where = sa.text(condition)
    op.create_index(name, table, columns, sqlite_where=where, postgresql_where=where)
