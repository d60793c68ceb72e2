"""Drop the listings of folders: each task had its own, and kept it. They are files of the home now.

Of tasks that are open now, a folder is judged by the times of its files alone.
"""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Drop them; their room is released with the next rows that are dropped."""
    op.execute("UPDATE folders SET files = NULL")
