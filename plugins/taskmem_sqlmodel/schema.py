"""Which schema a database has, and the way to the newest one."""

from __future__ import annotations

from importlib.resources import as_file, files
from typing import Final

import sqlalchemy as sa

from taskmem_hookspecs import StoreTooNew

REVISIONS: Final = (
    "0001_tasks",
    "0002_waits_and_wakes",
    "0003_watched_waits",
    "0004_notes_of_wakes",
    "0005_runs",
    "0006_homes",
    "0007_dues_of_a_home",
    "0008_ledger",
    "0009_questions",
    "0010_hosts",
    "0011_registrars",
    "0012_within",
    "0013_wakes_of_a_wait",
    "0014_open_of_a_maker",
)
"""Every schema that was ever released, the oldest first."""

HEAD: Final = REVISIONS[-1]
"""The schema that `rows` describes."""


def refuse_newer(revision: str | None) -> None:
    """Raise `StoreTooNew` for a schema that is not known here; None: a new database."""
    if revision is not None and revision not in REVISIONS:
        raise StoreTooNew(
            f"The database was written by a newer version (its schema is {revision}, "
            f"the newest known here is {HEAD}) and was left untouched; update "
            "openclaw-taskmem, then start again."
        )


def is_newest(connection: sa.Connection) -> bool:
    """Return whether there is nothing to do.

    Raises:
        StoreTooNew: The schema is not known here.
    """
    found = _revision(connection)
    refuse_newer(found)
    return found == HEAD


def bring_to_head(connection: sa.Connection) -> None:
    """Make or migrate the tables inside the transaction of a writer.

    It looks again: another process may have done it while this one waited.

    Raises:
        StoreTooNew: The schema is not known here.
    """
    if not is_newest(connection):
        _upgrade(connection)


def _revision(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    found = connection.exec_driver_sql("SELECT version_num FROM alembic_version")
    return found.scalar()


def _upgrade(connection: sa.Connection) -> None:
    # Only here: importing Alembic takes longer than opening a database.
    from alembic import command
    from alembic.config import Config

    with as_file(files("taskmem_sqlmodel") / "migrations") as folder:
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", str(folder).replace("%", "%%"))
        command.upgrade(config, HEAD)
