"""Make the full-text index, of all texts that there are."""

# ruff: noqa: S608 - statements are of constants
from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_TASK_NUMBER: Final = "(SELECT id FROM task_texts WHERE task_id = row.task_id AND part = 'task')"
_COPIES: Final = {
    "tasks": (
        "INSERT INTO task_texts SELECT NULL, row.task_id, 'task', "
        "row.name || ' ' || row.plan || ' ' || coalesce(row.original_request, ''), NULL, "
        "CASE WHEN row.implicit THEN '' ELSE row.home END FROM tasks AS row WHERE true"
    ),
    "task_plan_revisions": (
        "INSERT INTO task_texts SELECT NULL, row.task_id, 'plan ' || row.id, row.old_plan_json, "
        f"{_TASK_NUMBER}, NULL FROM task_plan_revisions AS row WHERE true"
    ),
    "ledger": (
        "INSERT INTO task_texts SELECT NULL, row.task_id, 'made ' || row.path, row.path, "
        f"{_TASK_NUMBER}, NULL FROM ledger AS row WHERE true"
    ),
    "task_messages": (
        f"INSERT INTO message_places SELECT row.id, {_TASK_NUMBER} FROM task_messages AS row "
        "WHERE row.msg_type <> 'stuck'"
    ),
}
"""For each table the statement that copies the texts, or the places, of its rows."""
_SQLITE_TABLES: Final = (
    (
        "CREATE TABLE task_texts (id INTEGER PRIMARY KEY, task_id TEXT NOT NULL, "
        "part TEXT NOT NULL, text TEXT NOT NULL, task INTEGER, home TEXT, UNIQUE (task_id, part))"
    ),
    "CREATE TABLE message_places (id INTEGER PRIMARY KEY, task INTEGER)",
)
_SQLITE_UPKEEP: Final = (
    (
        "CREATE TRIGGER tasks_text_changed AFTER UPDATE OF name, plan, original_request ON tasks "
        "WHEN new.name || ' ' || new.plan || ' ' || coalesce(new.original_request, '') <> "
        "old.name || ' ' || old.plan || ' ' || coalesce(old.original_request, '') "
        "BEGIN UPDATE task_texts SET text = "
        "new.name || ' ' || new.plan || ' ' || coalesce(new.original_request, '') "
        "WHERE task_id = new.task_id AND part = 'task'; END"
    ),
    (
        "CREATE TRIGGER tasks_home_changed AFTER UPDATE OF home, implicit ON tasks "
        "WHEN new.home IS NOT old.home OR new.implicit <> old.implicit BEGIN UPDATE task_texts "
        "SET home = CASE WHEN new.implicit THEN '' ELSE new.home END "
        "WHERE task_id = new.task_id AND part = 'task'; END"
    ),
    (
        "CREATE TRIGGER tasks_text_removed AFTER DELETE ON tasks "
        "BEGIN DELETE FROM task_texts WHERE task_id = old.task_id; END"
    ),
    (
        "CREATE TRIGGER task_messages_removed AFTER DELETE ON task_messages "
        "BEGIN DELETE FROM message_places WHERE id = old.id; END"
    ),
    "CREATE INDEX text_places ON task_texts (id, task)",
    "CREATE INDEX tasks_served ON task_texts (id, task_id, home, task) WHERE task IS NULL",
)
_SIGNS: Final = "!\"#$%&''()*+,-./:;<=>?@[\\]^_`{|}~"
_SPACES: Final = " " * 32


def upgrade() -> None:
    """Make the index."""
    connection = op.get_bind()
    is_sqlite = connection.dialect.name == "sqlite"
    for statement in _build_sqlite() if is_sqlite else _build_postgresql():
        connection.execute(sa.text(statement.replace(":", r"\:")))


def _build_sqlite() -> Iterator[str]:
    yield from _SQLITE_TABLES
    for table, copy in _COPIES.items():
        yield copy
        yield (
            f"CREATE TRIGGER {table}_copied AFTER INSERT ON {table} "
            f"BEGIN {copy} AND row.rowid = new.rowid; END"
        )
    yield from _SQLITE_UPKEEP
    yield from _build_words("message_words", "task_messages", "content")
    yield from _build_words("task_words", "task_texts", "text")


def _build_words(name: str, table: str, column: str) -> Iterator[str]:
    add = f"INSERT INTO {name}(rowid, {column}) VALUES (new.id, new.{column});"
    remove = f"INSERT INTO {name}({name}, rowid, {column}) VALUES ('delete', old.id, old.{column});"
    yield (
        f"CREATE VIRTUAL TABLE {name} USING fts5({column}, content='{table}', "
        "content_rowid='id', tokenize='unicode61 remove_diacritics 2', "
        "detail='none', columnsize=0)"
    )
    yield f"INSERT INTO {name}({name}, rank) VALUES ('hashsize', 8388608)"
    yield f"INSERT INTO {name}({name}) VALUES ('rebuild')"
    yield f"INSERT INTO {name}({name}, rank) VALUES ('hashsize', 1048576)"
    yield f"CREATE VIRTUAL TABLE {name}_counts USING fts5vocab('{name}', 'row')"
    yield f"CREATE TRIGGER {name}_added AFTER INSERT ON {table} BEGIN {add} END"
    yield f"CREATE TRIGGER {name}_removed AFTER DELETE ON {table} BEGIN {remove} END"
    yield (
        f"CREATE TRIGGER {name}_changed AFTER UPDATE OF {column} ON {table} "
        f"BEGIN {remove} {add} END"
    )


def _build_postgresql() -> Iterator[str]:
    for table, text in (
        ("task_messages", "content"),
        ("tasks", "name || ' ' || plan || ' ' || coalesce(original_request, '')"),
        ("task_plan_revisions", "old_plan_json"),
        ("ledger", "path"),
    ):
        yield (
            f"CREATE INDEX {table}_words ON {table} USING gin "
            f"(to_tsvector('simple', translate({text}, '{_SIGNS}', '{_SPACES}')))"
        )
