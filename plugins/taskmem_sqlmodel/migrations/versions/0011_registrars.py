"""Who registered a task, whoever works on it now."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from taskmem_sqlmodel.columns import Text

revision = "0011_registrars"
down_revision = "0010_hosts"


def upgrade() -> None:
    """Add it; of what is older, whoever is woken for it counts as that."""
    for of in ("session", "host", "home"):
        op.add_column("tasks", sa.Column(f"registrar_{of}", Text))
    op.execute(
        "UPDATE tasks SET registrar_session = session_key, registrar_host = host, "
        "registrar_home = home"
    )
