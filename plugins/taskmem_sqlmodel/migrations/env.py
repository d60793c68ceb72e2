"""Run migrations in the caller's transaction (a file of its own: Alembic wants the name)."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
