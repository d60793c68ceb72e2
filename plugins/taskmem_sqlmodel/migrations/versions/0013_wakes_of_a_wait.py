"""What has ended is dropped: the wakes of a wait are found, whatever became of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013_wakes_of_a_wait"
down_revision = "0012_within"


def upgrade() -> None:
    """Add an index without which each wait that goes costs a look at every wake."""
    some = sa.text("wait_id IS NOT NULL")
    op.create_index(
        "wakes_by_wait", "wakes", ["wait_id"], sqlite_where=some, postgresql_where=some
    )
