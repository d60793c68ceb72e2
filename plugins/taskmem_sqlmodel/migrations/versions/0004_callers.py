"""Store of a message whether it came by `taskmem call`. Of older ones that is not known."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the column."""
    by_call = sa.Column("by_call", sa.Boolean, nullable=False, server_default=sa.false())
    op.add_column("task_messages", by_call)
