"""The schema after the newest one: made up, to see today's databases upgraded."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from taskmem_sqlmodel import schema

NEXT = f"{int(schema.HEAD) + 1:04}"
LAST_STATEMENT = "CREATE INDEX tasks_by_colour"
"""Begins what the migration to it does last; each task is blue before that."""

_SCRIPT = f"""
import sqlalchemy as sa
from alembic import op

revision = "{NEXT}"
down_revision = "{schema.HEAD}"


def upgrade():
    colour = sa.Column("colour", sa.Text, nullable=False, server_default="blue")
    op.add_column("tasks", colour)
    op.create_index("tasks_by_colour", "tasks", ["colour", "task_id"])
"""


def add_next_schema(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Make it the newest until the test ends; its migrations lie in a folder."""
    migrations = folder / "migrations"
    shutil.copytree(Path(schema.__file__).with_name("migrations"), migrations)
    (migrations / "versions" / f"{NEXT}_colours.py").write_text(_SCRIPT)
    monkeypatch.setattr(schema, "MIGRATIONS", migrations)
    monkeypatch.setattr(schema, "HEAD", NEXT)
