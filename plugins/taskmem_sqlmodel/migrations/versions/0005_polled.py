"""Store of a wait whether it was answered as a task of MCP. Older ones were not."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the column."""
    polled = sa.Column("polled", sa.Boolean, nullable=False, server_default=sa.false())
    op.add_column("waits", polled)
