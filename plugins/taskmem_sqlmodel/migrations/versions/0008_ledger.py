"""What tasks made, the folders they worked in, and what was asked of them already."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from taskmem_sqlmodel.columns import InstantText, JsonText, Text

revision = "0008_ledger"
down_revision = "0007_dues_of_a_home"

_CHANGES = "change IN ('created', 'changed', 'removed')"
_VERDICTS = "verdict IN ('proved', 'unverified', 'absent', 'empty', 'old')"


def upgrade() -> None:
    """Add them; of older tasks nothing is known."""
    doubts = sa.Column("doubts", JsonText, nullable=False, server_default="[]")
    op.add_column("tasks", doubts)
    op.create_table(
        "ledger",
        _task_id(),
        sa.Column("path", Text, primary_key=True),
        sa.Column("run_id", Text, sa.ForeignKey("runs.run_id")),
        sa.Column("change", Text),
        sa.Column("call_id", Text),
        sa.Column("at", InstantText, nullable=False),
        sa.Column("size", sa.BigInteger),
        sa.Column("sha256", Text),
        sa.Column("verdict", Text),
        sa.Column("why", Text),
        sa.CheckConstraint(_CHANGES, name="change_is_known"),
        sa.CheckConstraint(_VERDICTS, name="verdict_is_known"),
    )
    op.create_table(
        "folders",
        _task_id(),
        sa.Column("path", Text, primary_key=True),
        sa.Column("since", InstantText),
        sa.Column("files", Text),
    )


def _task_id() -> sa.Column[str]:
    key = sa.ForeignKey("tasks.task_id")
    return sa.Column("task_id", Text, key, primary_key=True)
