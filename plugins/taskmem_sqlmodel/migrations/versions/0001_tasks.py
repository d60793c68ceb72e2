"""Tasks, their threads and revisions, the audit log, and bookmarks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from taskmem_sqlmodel.columns import InstantText, JsonText, Serial, Text

revision = "0001_tasks"
down_revision = None


def upgrade() -> None:
    """Make the first tables."""
    op.create_table(
        "tasks",
        sa.Column("task_id", Text, primary_key=True),
        sa.Column("name", Text, nullable=False),
        sa.Column("status", Text, nullable=False),
        sa.Column("plan", JsonText, nullable=False),
        sa.Column("done", JsonText, nullable=False),
        sa.Column("metadata", JsonText, nullable=False),
        sa.Column("session_key", Text),
        sa.Column("message_count", sa.Integer, nullable=False),
        sa.Column("created_at", InstantText, nullable=False),
        sa.Column("updated_at", InstantText, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.CheckConstraint(
            "status IN ('active', 'paused', 'completed', 'failed', 'cancelled')",
            name="status_is_known",
        ),
    )
    op.create_index("tasks_by_status", "tasks", ["status", "updated_at", "task_id"])
    op.create_index("tasks_by_update", "tasks", ["updated_at", "task_id"])
    op.create_index("tasks_by_id", "tasks", ["status", "task_id"])
    op.create_table(
        "task_messages",
        sa.Column("id", Serial, primary_key=True),
        sa.Column("task_id", Text, sa.ForeignKey("tasks.task_id"), nullable=False),
        sa.Column("role", Text, nullable=False),
        sa.Column("msg_type", Text, nullable=False),
        sa.Column("content", Text, nullable=False),
        sa.Column("created_at", InstantText, nullable=False),
        sa.CheckConstraint("role IN ('agent', 'system', 'user')", name="role_is_known"),
        sa.CheckConstraint(
            "msg_type IN ('text', 'lifecycle', 'progress', 'wait', 'stuck', 'plan')",
            name="msg_type_is_known",
        ),
    )
    op.create_index("task_messages_by_task", "task_messages", ["task_id", "id"])
    op.create_table(
        "task_plan_revisions",
        sa.Column("id", Serial, primary_key=True),
        sa.Column("task_id", Text, sa.ForeignKey("tasks.task_id"), nullable=False),
        sa.Column("old_plan_json", JsonText, nullable=False),
        sa.Column("new_plan_json", JsonText, nullable=False),
        sa.Column("reason", Text, nullable=False),
        sa.Column("created_at", InstantText, nullable=False),
        sa.Column("author", Text, nullable=False),
        sa.CheckConstraint("author IN ('agent', 'system')", name="author_is_known"),
    )
    op.create_index(
        "task_plan_revisions_by_task", "task_plan_revisions", ["task_id", "id"]
    )
    op.create_table(
        "events",
        sa.Column("id", Serial, primary_key=True),
        sa.Column("at", InstantText, nullable=False),
        sa.Column("kind", Text, nullable=False),
        sa.Column("task_id", Text),
        sa.Column("wait_id", Text),
        sa.Column("run_id", Text),
        sa.Column("data", JsonText, nullable=False),
    )
    op.create_index("events_by_task", "events", ["task_id", "id"])
    op.create_table(
        "bookmarks",
        sa.Column("name", Text, primary_key=True),
        sa.Column("value", Text, nullable=False),
    )
