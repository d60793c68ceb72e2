"""The folders that a file must lie in which is waited for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from taskmem_sqlmodel.columns import JsonText

revision = "0012_within"
down_revision = "0011_registrars"


def upgrade() -> None:
    """Add them; a wait that is older goes on where it was allowed to."""
    within = sa.Column("within", JsonText, nullable=False, server_default="null")
    op.add_column("waits", within)
