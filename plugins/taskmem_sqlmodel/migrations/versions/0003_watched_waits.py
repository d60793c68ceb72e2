"""Where a wait begins to read, who watches it, and indexes for its life."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from taskmem_sqlmodel.columns import Text

revision = "0003_watched_waits"
down_revision = "0002_waits_and_wakes"


def upgrade() -> None:
    """Add them; a wait of an older daemon is watched by whoever has its target."""
    op.add_column("waits", sa.Column("start", Text))
    op.add_column("waits", sa.Column("home", Text))
    _index_where(
        "status = 'watching'",
        "waits_watching_of_task",
        "waits",
        "task_id",
        "created_at",
        "wait_id",
    )
    _index_where(
        "status <> 'watching'",
        "waits_ended_of_task",
        "waits",
        "task_id",
        "changed_at",
        "wait_id",
    )
    _index_where(
        "state IN ('due', 'sent')",
        "wakes_open_of_wait",
        "wakes",
        "wait_id",
        "created_at",
        "wake_id",
    )
    _index_where("wait_id IS NOT NULL", "events_by_wait", "events", "wait_id", "id")


def _index_where(condition: str, name: str, table: str, *columns: str) -> None:
    where = sa.text(condition)
    op.create_index(name, table, columns, sqlite_where=where, postgresql_where=where)
