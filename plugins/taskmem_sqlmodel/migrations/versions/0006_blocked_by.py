"""Store of a task which others must end before it goes on. Older ones wait for none."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
_CONDITION = sa.text("blocked_by <> '[]'")


def upgrade() -> None:
    """Add the column, and the index of the tasks that are blocked."""
    blocked_by = sa.Column("blocked_by", sa.Text, nullable=False, server_default="[]")
    op.add_column("tasks", blocked_by)
    op.create_index(
        "tasks_blocked", "tasks", ["task_id"], sqlite_where=_CONDITION, postgresql_where=_CONDITION
    )
