"""What is due in a home is found whatever others have, who share the database."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007_dues_of_a_home"
down_revision = "0006_homes"


def upgrade() -> None:
    """Add an index for what is stuck, for wakes that are owed, and for leases."""
    stuck = ("home", "status", "stuck_due_at", "task_id")
    _index_where("stuck_due_at IS NOT NULL", "tasks_stuck_due_at_home", "tasks", *stuck)
    owed = ("home", "due_at", "wake_id")
    _index_where("due_at IS NOT NULL", "wakes_due_at_home", "wakes", *owed)
    leased = ("home", "lease_until", "run_id")
    _index_where("lease_until IS NOT NULL", "runs_leased_at_home", "runs", *leased)


def _index_where(condition: str, name: str, table: str, *columns: str) -> None:
    where = sa.text(condition)
    op.create_index(name, table, columns, sqlite_where=where, postgresql_where=where)
