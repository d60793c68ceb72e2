"""Who registered a task, and how far its holder was told what the user says."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from taskmem_sqlmodel.columns import Text

revision = "0011_registrars"
down_revision = "0010_hosts"

_TASKS = sa.table(
    "tasks",
    *(sa.column(name, Text) for name in ("task_id", "session_key", "host", "home")),
    *(sa.column(f"registrar_{of}", Text) for of in ("session", "host", "home")),
)
_RUNS = sa.table(
    "runs",
    *(sa.column(name, Text) for name in ("task_id", "state", "role", "session_key")),
)
_OPEN = ("queued", "running", "blocked", "review")
_BACKGROUND = "agent:%:taskmem:%"
"""The sessions of runs in the background."""


def upgrade() -> None:
    """Add both; of what is older, whoever is woken for it counts as its registrar.

    Who registered what is in the background, or was handed to a role, is not known.
    Its home is: no other is to tell of it.
    """
    for of in ("session", "host", "home"):
        op.add_column("tasks", sa.Column(f"registrar_{of}", Text))
    heard = sa.Column("heard_until", sa.Integer, nullable=False, server_default="0")
    op.add_column("runs", heard)
    op.execute(sa.update(_TASKS).values(registrar_home=_TASKS.c.home))
    given_away = sa.exists().where(
        _RUNS.c.task_id == _TASKS.c.task_id,
        _RUNS.c.state.in_(_OPEN),
        _RUNS.c.role.is_not(None),
        _RUNS.c.session_key.is_(None),
    )
    session = sa.func.coalesce(_TASKS.c.session_key, "")
    op.execute(
        sa.update(_TASKS)
        .where(session.not_like(_BACKGROUND), ~given_away)
        .values(
            registrar_session=_TASKS.c.session_key,
            registrar_host=_TASKS.c.host,
        )
    )
