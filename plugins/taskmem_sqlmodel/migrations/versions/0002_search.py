"""Make the full-text index, of all texts that there are."""

from __future__ import annotations

from alembic import op

from taskmem_sqlmodel.search import make_search_index

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the index."""
    make_search_index(op.get_bind())
