"""What is open of one agent is counted, whatever others have and whatever has ended."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014_open_of_a_maker"
down_revision = "0013_wakes_of_a_wait"


def upgrade() -> None:
    """Add an index of what is open to tasks and to waits, by whose doing it is."""
    for name, table, columns, condition in (
        (
            "tasks_open_of_maker",
            "tasks",
            ["registrar_host", "registrar_session", "home", "status", "implicit"],
            "status IN ('active', 'paused') AND NOT implicit",
        ),
        (
            "waits_open_of_maker",
            "waits",
            ["host", "session_key", "home", "status"],
            "status = 'watching'",
        ),
    ):
        some = sa.text(condition)
        op.create_index(name, table, columns, sqlite_where=some, postgresql_where=some)
