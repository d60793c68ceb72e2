"""Store the parts of waits that watch several targets. Older ones have none."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from taskmem_sqlmodel.tables import JsonText

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the columns."""
    op.add_column("waits", sa.Column("parts", JsonText, nullable=False, server_default="[]"))
    needs_all = sa.Column("needs_all", sa.Boolean, nullable=False, server_default=sa.false())
    op.add_column("waits", needs_all)
