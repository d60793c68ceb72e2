"""What users asked for and are asked, and what counts for the limits of runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from taskmem_sqlmodel.columns import InstantText, Text

revision = "0009_questions"
down_revision = "0008_ledger"


def upgrade() -> None:
    """Add them; of older runs no question is known, and their limits count anew."""
    for column in (
        sa.Column("question", Text),
        sa.Column("rounds_before", sa.Integer, nullable=False, server_default="0"),
        sa.Column("turn_began_at", InstantText),
        sa.Column("worked_seconds", sa.Float, nullable=False, server_default="0"),
    ):
        op.add_column("runs", column)
    op.add_column("runs", sa.Column("last_response", Text))
    op.add_column("tasks", sa.Column("original_request", Text))
    implicit = sa.Column(
        "implicit", sa.Boolean, nullable=False, server_default=sa.false()
    )
    op.add_column("tasks", implicit)
    where = sa.text("implicit")
    op.create_index(
        "tasks_implicit",
        "tasks",
        ["updated_at", "task_id"],
        sqlite_where=where,
        postgresql_where=where,
    )
