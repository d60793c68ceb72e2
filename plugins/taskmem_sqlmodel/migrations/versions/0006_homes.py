"""The home that a task and a wake belong to, where several share a database."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from taskmem_sqlmodel.columns import Text

revision = "0006_homes"
down_revision = "0005_runs"


def upgrade() -> None:
    """Add it; what is older belongs to whoever looks first."""
    op.add_column("tasks", sa.Column("home", Text))
    op.add_column("wakes", sa.Column("home", Text))
