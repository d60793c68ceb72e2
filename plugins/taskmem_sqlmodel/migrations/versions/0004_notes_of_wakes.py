"""What a transport said of a wake."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from taskmem_sqlmodel.columns import Text

revision = "0004_notes_of_wakes"
down_revision = "0003_watched_waits"


def upgrade() -> None:
    """Add it; nothing is known of older wakes."""
    op.add_column("wakes", sa.Column("note", Text))
