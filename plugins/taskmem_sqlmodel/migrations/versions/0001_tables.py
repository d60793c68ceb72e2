"""Create all tables, as of the first release."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

from taskmem_sqlmodel.tables import CodePointText, InstantText, JsonText, Serial

revision = "0001"
down_revision = None

_OPEN_RUN: Final = "state IN ('queued', 'running', 'blocked', 'review')"
_OPEN_WAKE: Final = "state IN ('due', 'sent')"


def upgrade() -> None:
    """Create the tables and their indexes."""
    _make_tasks()
    _make_task_messages()
    _make_task_plan_revisions()
    _make_waits()
    _make_runs()
    _make_wakes()
    _make_checkpoints()
    _make_artifacts()
    _make_ledger()
    _make_folders()
    _make_events()
    _make_bookmarks()


def _make_tasks() -> None:
    op.create_table(
        "tasks",
        sa.Column("task_id", CodePointText, primary_key=True),
        sa.Column("name", CodePointText, nullable=False),
        sa.Column("status", CodePointText, nullable=False),
        sa.Column("plan", JsonText, nullable=False),
        sa.Column("done", JsonText, nullable=False),
        sa.Column("metadata", JsonText, nullable=False),
        sa.Column("session_key", CodePointText),
        sa.Column("home", CodePointText),
        sa.Column("message_count", sa.Integer, nullable=False),
        sa.Column("created_at", InstantText, nullable=False),
        sa.Column("updated_at", InstantText, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("last_stuck_alert_at", InstantText),
        sa.Column("alerts", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("alerts_in_a_row", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("stuck_due_at", InstantText),
        sa.Column("held_until", InstantText),
        sa.Column("doubts", JsonText, nullable=False, server_default="[]"),
        sa.Column("original_request", CodePointText),
        sa.Column("implicit", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("host", CodePointText),
        sa.Column("registrar_session", CodePointText),
        sa.Column("registrar_host", CodePointText),
        sa.Column("registrar_home", CodePointText),
        sa.CheckConstraint(
            "status IN ('active', 'paused', 'completed', 'failed', 'cancelled')",
            name="status_is_known",
        ),
        _build_index("tasks_by_id", "status task_id"),
        _build_index("tasks_by_status", "status updated_at task_id"),
        _build_index("tasks_by_update", "updated_at task_id"),
        _build_index("tasks_implicit", "updated_at task_id", "implicit"),
        _build_index(
            "tasks_of_session", "session_key status updated_at task_id", "session_key IS NOT NULL"
        ),
        _build_index(
            "tasks_open_of_maker",
            "registrar_host registrar_session home status implicit",
            "status IN ('active', 'paused') AND NOT implicit",
        ),
        _build_index("tasks_stuck_due", "status stuck_due_at task_id", "stuck_due_at IS NOT NULL"),
        _build_index(
            "tasks_stuck_due_at_home",
            "home status stuck_due_at task_id",
            "stuck_due_at IS NOT NULL",
        ),
    )


def _make_task_messages() -> None:
    op.create_table(
        "task_messages",
        sa.Column("id", Serial, primary_key=True),
        sa.Column("task_id", CodePointText, sa.ForeignKey("tasks.task_id"), nullable=False),
        sa.Column("role", CodePointText, nullable=False),
        sa.Column("msg_type", CodePointText, nullable=False),
        sa.Column("content", CodePointText, nullable=False),
        sa.Column("created_at", InstantText, nullable=False),
        sa.CheckConstraint("role IN ('agent', 'system', 'user')", name="role_is_known"),
        sa.CheckConstraint(
            "msg_type IN ('text', 'lifecycle', 'progress', 'wait', 'stuck', 'plan')",
            name="msg_type_is_known",
        ),
        _build_index("task_messages_by_task", "task_id id"),
    )


def _make_task_plan_revisions() -> None:
    op.create_table(
        "task_plan_revisions",
        sa.Column("id", Serial, primary_key=True),
        sa.Column("task_id", CodePointText, sa.ForeignKey("tasks.task_id"), nullable=False),
        sa.Column("old_plan_json", JsonText, nullable=False),
        sa.Column("new_plan_json", JsonText, nullable=False),
        sa.Column("reason", CodePointText, nullable=False),
        sa.Column("created_at", InstantText, nullable=False),
        sa.Column("author", CodePointText, nullable=False),
        sa.CheckConstraint("author IN ('agent', 'system')", name="author_is_known"),
        _build_index("task_plan_revisions_by_task", "task_id id"),
    )


def _make_waits() -> None:
    op.create_table(
        "waits",
        sa.Column("wait_id", CodePointText, primary_key=True),
        sa.Column("task_id", CodePointText, sa.ForeignKey("tasks.task_id")),
        sa.Column("session_key", CodePointText),
        sa.Column("target", CodePointText, nullable=False),
        sa.Column("wake_when", CodePointText, nullable=False),
        sa.Column("status", CodePointText, nullable=False),
        sa.Column("timeout_seconds", sa.Double, nullable=False),
        sa.Column("poll_seconds", sa.Double, nullable=False),
        sa.Column("created_at", InstantText, nullable=False),
        sa.Column("armed_at", InstantText, nullable=False),
        sa.Column("deadline_at", InstantText, nullable=False),
        sa.Column("changed_at", InstantText, nullable=False),
        sa.Column("ended_at", InstantText),
        sa.Column("last_observation", CodePointText),
        sa.Column("round", sa.Integer, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("start", CodePointText),
        sa.Column("home", CodePointText),
        sa.Column("host", CodePointText),
        sa.Column("within", JsonText, nullable=False, server_default="null"),
        sa.CheckConstraint(
            "status IN ('watching', 'resolved', 'timeout', 'cancelled', 'error')",
            name="status_is_known",
        ),
        _build_index("waits_by_age", "created_at wait_id"),
        _build_index("waits_by_task", "task_id created_at wait_id"),
        _build_index("waits_ended_of_task", "task_id changed_at wait_id", "status <> 'watching'"),
        _build_index("waits_open_of_maker", "host session_key home status", "status = 'watching'"),
        _build_index("waits_rarer", "status", "status <> 'resolved'"),
        _build_index("waits_watching", "created_at wait_id", "status = 'watching'"),
        _build_index("waits_watching_of_task", "task_id created_at wait_id", "status = 'watching'"),
    )


def _make_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("run_id", CodePointText, primary_key=True),
        sa.Column("task_id", CodePointText, sa.ForeignKey("tasks.task_id"), nullable=False),
        sa.Column("state", CodePointText, nullable=False),
        sa.Column("why", CodePointText),
        sa.Column("role", CodePointText),
        sa.Column("session_key", CodePointText),
        sa.Column("owner", JsonText),
        sa.Column("token", sa.Integer, nullable=False),
        sa.Column("lease_until", InstantText),
        sa.Column("home", CodePointText),
        sa.Column("told_session", CodePointText),
        sa.Column("attached", JsonText, nullable=False),
        sa.Column("segmented", sa.Boolean, nullable=False),
        sa.Column("step", sa.Integer),
        sa.Column("step_calls", sa.Integer, nullable=False),
        sa.Column("step_bonus", sa.Boolean, nullable=False),
        sa.Column("failed_steps", JsonText, nullable=False),
        sa.Column("fingerprint", CodePointText),
        sa.Column("folder", CodePointText),
        sa.Column("checkpoints", sa.Integer, nullable=False),
        sa.Column("calls", sa.Integer, nullable=False),
        sa.Column("question", CodePointText),
        sa.Column("heard_until", sa.Integer, nullable=False, server_default="0"),
        sa.Column("rounds", sa.Integer, nullable=False),
        sa.Column("rounds_before", sa.Integer, nullable=False, server_default="0"),
        sa.Column("turn_began_at", InstantText),
        sa.Column("worked_seconds", sa.Float, nullable=False, server_default="0"),
        sa.Column("idle_rounds", sa.Integer, nullable=False),
        sa.Column("news", CodePointText, nullable=False),
        sa.Column("recent", JsonText, nullable=False),
        sa.Column("said", CodePointText),
        sa.Column("last_response", CodePointText),
        sa.Column("provider_failures", sa.Integer, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("created_at", InstantText, nullable=False),
        sa.Column("changed_at", InstantText, nullable=False),
        sa.Column("seen_at", InstantText, nullable=False),
        sa.Column("started_at", InstantText),
        sa.Column("version", sa.Integer, nullable=False),
        sa.CheckConstraint(
            "state IN ('queued', 'running', 'blocked', 'review', 'completed', "
            "'failed', 'cancelled')",
            name="state_is_known",
        ),
        sa.CheckConstraint("news IN ('none', 'result', 'call')", name="news_is_known"),
        _build_index("runs_by_age", "created_at run_id"),
        _build_index("runs_by_task", "task_id created_at run_id"),
        _build_index("runs_leased", "lease_until run_id", "lease_until IS NOT NULL"),
        _build_index("runs_leased_at_home", "home lease_until run_id", "lease_until IS NOT NULL"),
        _build_index("runs_open_by_age", "created_at run_id home", _OPEN_RUN),
        _build_index("runs_open_of_session", "session_key task_id", _OPEN_RUN),
        _build_index("runs_open_of_task", "task_id", _OPEN_RUN, unique=True),
        _build_index("runs_queued", "created_at run_id", "state = 'queued'"),
        _build_index("runs_rarer", "state", "state <> 'completed'"),
    )


def _make_wakes() -> None:
    op.create_table(
        "wakes",
        sa.Column("wake_id", CodePointText, primary_key=True),
        sa.Column("key", CodePointText, nullable=False, unique=True),
        sa.Column("cause", CodePointText, nullable=False),
        sa.Column("state", CodePointText, nullable=False),
        sa.Column("task_id", CodePointText, sa.ForeignKey("tasks.task_id")),
        sa.Column("wait_id", CodePointText, sa.ForeignKey("waits.wait_id")),
        sa.Column("session_key", CodePointText),
        sa.Column("home", CodePointText),
        sa.Column("text", CodePointText, nullable=False),
        sa.Column("urgent", sa.Boolean, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("sends", sa.Integer, nullable=False),
        sa.Column("last_error", CodePointText),
        sa.Column("created_at", InstantText, nullable=False),
        sa.Column("due_at", InstantText),
        sa.Column("sent_at", InstantText),
        sa.Column("acknowledged_at", InstantText),
        sa.Column("transport", CodePointText),
        sa.Column("note", CodePointText),
        sa.Column("delivery_id", CodePointText),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("run_id", CodePointText, sa.ForeignKey("runs.run_id")),
        sa.Column("host", CodePointText),
        sa.CheckConstraint("cause IN ('stuck', 'wait', 'run')", name="cause_is_known"),
        sa.CheckConstraint(
            "state IN ('due', 'sent', 'acknowledged', 'unanswered', 'refused', 'superseded')",
            name="state_is_known",
        ),
        _build_index("wakes_by_age", "created_at wake_id"),
        _build_index("wakes_by_task", "task_id created_at wake_id"),
        _build_index("wakes_by_wait", "wait_id", "wait_id IS NOT NULL"),
        _build_index("wakes_due", "due_at wake_id", "due_at IS NOT NULL"),
        _build_index("wakes_due_at_home", "home due_at wake_id", "due_at IS NOT NULL"),
        _build_index("wakes_open", "task_id created_at wake_id", _OPEN_WAKE),
        _build_index("wakes_open_by_age", "created_at wake_id home", _OPEN_WAKE),
        _build_index("wakes_open_of_wait", "wait_id created_at wake_id", _OPEN_WAKE),
        _build_index("wakes_rarer", "state", "state <> 'acknowledged'"),
        _build_index("wakes_sent", "sent_at", "sent_at IS NOT NULL"),
    )


def _make_checkpoints() -> None:
    op.create_table(
        "checkpoints",
        sa.Column("run_id", CodePointText, sa.ForeignKey("runs.run_id"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("at", InstantText, nullable=False),
        sa.Column("body", CodePointText, nullable=False),
        sa.Column("checksum", CodePointText, nullable=False),
        _build_index("checkpoints_by_age", "at"),
        sqlite_with_rowid=False,
    )


def _make_artifacts() -> None:
    op.create_table(
        "artifacts",
        sa.Column("artifact_id", CodePointText, primary_key=True),
        sa.Column("task_id", CodePointText, sa.ForeignKey("tasks.task_id"), nullable=False),
        sa.Column("run_id", CodePointText, sa.ForeignKey("runs.run_id")),
        sa.Column("kind", CodePointText, nullable=False),
        sa.Column("subject", CodePointText, nullable=False),
        sa.Column("verdict", CodePointText, nullable=False),
        sa.Column("detail", CodePointText, nullable=False),
        sa.Column("checksum", CodePointText),
        sa.Column("size", sa.BigInteger),
        sa.Column("checked_at", InstantText, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.CheckConstraint(
            "verdict IN ('verified', 'refuted', 'unproven')", name="verdict_is_known"
        ),
        _build_index("artifacts_by_task", "task_id artifact_id"),
    )


def _make_ledger() -> None:
    op.create_table(
        "ledger",
        sa.Column("task_id", CodePointText, sa.ForeignKey("tasks.task_id"), primary_key=True),
        sa.Column("path", CodePointText, primary_key=True),
        sa.Column("run_id", CodePointText, sa.ForeignKey("runs.run_id")),
        sa.Column("change", CodePointText),
        sa.Column("call_id", CodePointText),
        sa.Column("at", InstantText, nullable=False),
        sa.Column("size", sa.BigInteger),
        sa.Column("sha256", CodePointText),
        sa.Column("verdict", CodePointText),
        sa.Column("why", CodePointText),
        sa.Column("nearby", sa.Boolean, nullable=False),
        sa.CheckConstraint("change IN ('created', 'changed', 'removed')", name="change_is_known"),
        sa.CheckConstraint(
            "verdict IN ('proved', 'unverified', 'absent', 'empty', 'old')", name="verdict_is_known"
        ),
    )


def _make_folders() -> None:
    op.create_table(
        "folders",
        sa.Column("task_id", CodePointText, sa.ForeignKey("tasks.task_id"), primary_key=True),
        sa.Column("path", CodePointText, primary_key=True),
        sa.Column("since", InstantText),
        sa.Column("files", CodePointText),
    )


def _make_events() -> None:
    op.create_table(
        "events",
        sa.Column("id", Serial, primary_key=True),
        sa.Column("at", InstantText, nullable=False),
        sa.Column("kind", CodePointText, nullable=False),
        sa.Column("task_id", CodePointText),
        sa.Column("wait_id", CodePointText),
        sa.Column("run_id", CodePointText),
        sa.Column("data", JsonText, nullable=False),
        _build_index("events_by_task", "task_id id"),
        _build_index("events_by_wait", "wait_id id", "wait_id IS NOT NULL"),
    )


def _make_bookmarks() -> None:
    op.create_table(
        "bookmarks",
        sa.Column("name", CodePointText, primary_key=True),
        sa.Column("value", CodePointText, nullable=False),
    )


def _build_index(
    name: str, columns: str, condition: str | None = None, *, unique: bool = False
) -> sa.Index:
    """Return an index of the rows that satisfy `condition`; None: of all rows."""
    where = None if condition is None else sa.text(condition)
    return sa.Index(
        name, *columns.split(), unique=unique, sqlite_where=where, postgresql_where=where
    )
