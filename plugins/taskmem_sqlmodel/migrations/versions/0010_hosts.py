"""Where the agent runs that a wait, a task and a wake are of."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from taskmem_sqlmodel.columns import Text

revision = "0010_hosts"
down_revision = "0009_questions"


def upgrade() -> None:
    """Add it; of what is older it is not known."""
    for table in ("tasks", "waits", "wakes"):
        op.add_column(table, sa.Column("host", Text))
