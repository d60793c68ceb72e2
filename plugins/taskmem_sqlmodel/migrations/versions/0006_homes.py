"""The home that a task and a wake belong to, where several share a database."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from taskmem_sqlmodel.columns import Text

revision = "0006_homes"
down_revision = "0005_runs"


def upgrade() -> None:
    """Add it; what is older belongs to whoever looks first.

    What a home or a session asks for is found among what others have, however much.
    """
    op.add_column("tasks", sa.Column("home", Text))
    op.add_column("wakes", sa.Column("home", Text))
    _index_where(
        "session_key IS NOT NULL",
        "tasks_of_session",
        "tasks",
        "session_key",
        "status",
        "updated_at",
        "task_id",
    )
    of_age = ("created_at", "wake_id", "home")
    _index_where("state IN ('due', 'sent')", "wakes_open_by_age", "wakes", *of_age)
    open_ = "state IN ('queued', 'running', 'blocked', 'review')"
    of_age = ("created_at", "run_id", "home")
    _index_where(open_, "runs_open_by_age", "runs", *of_age)


def _index_where(condition: str, name: str, table: str, *columns: str) -> None:
    where = sa.text(condition)
    op.create_index(name, table, columns, sqlite_where=where, postgresql_where=where)
