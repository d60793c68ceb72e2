"""Run migrations in the caller's transaction; Alembic wants this name."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
