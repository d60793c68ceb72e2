"""Read the schema version of a database and migrate it to the newest."""

from __future__ import annotations

import re
from importlib.resources import as_file, files
from typing import Final

import sqlalchemy as sa

from taskmem_hookspecs import StoreTooNew, StoreUnavailable
from taskmem_sqlmodel.search import make_search_index
from taskmem_sqlmodel.tables import Base

HEAD: Final = "0007"
"""The schema version that `tables` and `search` describe.

Versions are numbered from 0001 without gaps. Those from before the first release have a name as a
suffix, such as `0001_tasks`.
"""

_VERSION: Final = sa.Table(
    "alembic_version",
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
"""The table that holds the schema version, as Alembic makes it."""

MIGRATIONS: Final = files("taskmem_sqlmodel") / "migrations"


def is_newest(connection: sa.Connection) -> bool:
    """Return whether the database has the newest schema.

    Raises:
        StoreTooNew: The schema is unknown to this version.
        StoreUnavailable: The schema is from before the first release.
    """
    found = _read_revision(connection)
    if found is not None:
        _refuse_unknown(found)
    return found == HEAD


def bring_to_head(connection: sa.Connection) -> None:
    """Create or migrate the tables inside a writer's transaction.

    The version is read again, because another process may have migrated while this one waited.

    Raises:
        StoreTooNew: The schema is unknown to this version.
        StoreUnavailable: The schema is from before the first release.
    """
    if not sa.inspect(connection).has_table(_VERSION.name):
        _create_tables(connection)
    elif not is_newest(connection):
        _upgrade(connection)


def _refuse_unknown(revision: str) -> None:
    if revision in {f"{number:04}" for number in range(1, int(HEAD) + 1)}:
        return
    if re.match(r"\d{4}_", revision):
        raise StoreUnavailable(
            f"The database was made before the first release (its schema is {revision})"
            " and was left untouched; keep it for the version that wrote it, set "
            "TASKMEM_HOME to a new folder, or TASKMEM_DATABASE_URL to a new database, "
            "then start again."
        )
    raise StoreTooNew(
        f"The database was written by a newer version (its schema is {revision}, "
        f"the newest known here is {HEAD}) and was left untouched; update "
        "openclaw-taskmem, then start again."
    )


def _read_revision(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    found = connection.exec_driver_sql("SELECT version_num FROM alembic_version")
    return found.scalar()


def _create_tables(connection: sa.Connection) -> None:
    """Create the tables of the newest schema, as all migrations together do.

    It needs no Alembic, which takes longer to import than the tables take to create, and would
    stay in memory.
    """
    # Without a check: a table of that name is another program's, so creation fails.
    Base.metadata.create_all(connection, checkfirst=False)
    make_search_index(connection)
    _VERSION.create(connection, checkfirst=False)
    connection.execute(_VERSION.insert().values(version_num=HEAD))


def _upgrade(connection: sa.Connection) -> None:
    # Imported here, because importing Alembic takes longer than opening a database.
    from alembic import command
    from alembic.config import Config

    with as_file(MIGRATIONS) as folder:
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", str(folder).replace("%", "%%"))
        command.upgrade(config, HEAD)
