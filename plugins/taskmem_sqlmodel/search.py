"""The full-text index of messages and of the other texts of tasks, and the search in it.

The database keeps it by itself, so what a commit writes or deletes is in the index, or is not, from
that commit on. On SQLite, triggers keep two FTS5 tables, which hold words alone: of the messages,
and of `task_texts`, which has the other texts. On PostgreSQL they are GIN indexes of expressions.
"""

# ruff: noqa: S608 - statements are of constants; values are bound
from __future__ import annotations

from functools import cache
from itertools import chain
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from taskmem_hookspecs import TextMatches, TextQuery

_NEWEST_TEXTS: Final = 20_000
"""How many messages, and other texts, are looked through for a part of a text: the newest."""
_TASK_TEXT: Final = "row.name || ' ' || row.plan || ' ' || coalesce(row.original_request, '')"
"""The name, plan and request of a task; the plan is JSON, whose signs are no words."""
_SOURCES: Final = (
    ("tasks", "'task'", _TASK_TEXT),
    ("task_plan_revisions", "'plan ' || row.id", "row.old_plan_json"),
    ("ledger", "'made ' || row.path", "row.path"),
)
"""For each table with other texts the name of a text within its task, and the text."""

# --- making it ---------------------------------------------------------------

_WORDS: Final = (
    ("message_words", "task_messages", "content"),
    ("task_words", "task_texts", "text"),
)
"""The FTS5 tables of SQLite, each with the table and column whose words it holds."""


def _make_words(words: str, table: str, column: str) -> tuple[str, ...]:
    """Return the statements that make an FTS5 table of a column, and keep it by triggers."""
    add = f"INSERT INTO {words}(rowid, {column}) VALUES (new.id, new.{column});"
    remove = (
        f"INSERT INTO {words}({words}, rowid, {column}) VALUES ('delete', old.id, old.{column});"
    )
    return (
        (
            f"CREATE VIRTUAL TABLE {words} USING fts5({column}, content='{table}', "
            "content_rowid='id', tokenize='unicode61 remove_diacritics 2', "
            "detail='none', columnsize=0)"
        ),
        f"INSERT INTO {words}({words}) VALUES ('rebuild')",
        f"CREATE TRIGGER {words}_added AFTER INSERT ON {table} BEGIN {add} END",
        f"CREATE TRIGGER {words}_removed AFTER DELETE ON {table} BEGIN {remove} END",
        (
            f"CREATE TRIGGER {words}_changed AFTER UPDATE OF {column} ON {table} "
            f"BEGIN {remove} {add} END"
        ),
    )


def _copy_texts(source: str, part: str, text: str) -> tuple[str, str]:
    """Return the statements that copy texts to `task_texts`: those that are there, and new ones."""
    copy = "INSERT INTO task_texts(task_id, part, text)"
    new_part, new_text = part.replace("row.", "new."), text.replace("row.", "new.")
    return (
        f"{copy} SELECT task_id, {part}, {text} FROM {source} AS row",
        (
            f"CREATE TRIGGER {source}_text_added AFTER INSERT ON {source} "
            f"BEGIN {copy} VALUES (new.task_id, {new_part}, {new_text}); END"
        ),
    )


_NEW_TEXT, _OLD_TEXT = (_TASK_TEXT.replace("row.", name) for name in ("new.", "old."))
_SQLITE: Final = (
    (
        "CREATE TABLE task_texts (id INTEGER PRIMARY KEY, task_id TEXT NOT NULL, "
        "part TEXT NOT NULL, text TEXT NOT NULL, UNIQUE (task_id, part))"
    ),
    *(statement for source in _SOURCES for statement in _copy_texts(*source)),
    (
        "CREATE TRIGGER tasks_text_changed AFTER UPDATE OF name, plan, original_request ON tasks "
        f"WHEN {_NEW_TEXT} <> {_OLD_TEXT} BEGIN UPDATE task_texts SET text = {_NEW_TEXT} "
        "WHERE task_id = new.task_id AND part = 'task'; END"
    ),
    (
        "CREATE TRIGGER tasks_text_removed AFTER DELETE ON tasks "
        "BEGIN DELETE FROM task_texts WHERE task_id = old.task_id; END"
    ),
    *(statement for words in _WORDS for statement in _make_words(*words)),
)

_SIGNS: Final = "!\"#$%&''()*+,-./:;<=>?@[\\]^_`{|}~"
"""ASCII's signs, quoted for SQL: PostgreSQL would take a path or an address for one word."""
_SPACES: Final = " " * (len(_SIGNS) - 1)


def _build_vector(text: str) -> str:
    return f"to_tsvector('simple', translate({text}, '{_SIGNS}', '{_SPACES}'))"


_MESSAGE_VECTOR: Final = _build_vector("content")
_TEXT_VECTORS: Final = {
    table: _build_vector(text.replace("row.", "")) for table, _, text in _SOURCES
}
_POSTGRESQL: Final = tuple(
    f"CREATE INDEX {table}_words ON {table} USING gin ({vector})"
    for table, vector in ({"task_messages": _MESSAGE_VECTOR} | _TEXT_VECTORS).items()
)


def make_search_index(connection: sa.Connection) -> None:
    """Make the index, with the texts of all rows that there are."""
    for statement in _SQLITE if connection.dialect.name == "sqlite" else _POSTGRESQL:
        connection.execute(sa.text(statement.replace(":", r"\:")))


# --- searching ---------------------------------------------------------------

_IS_SERVED: Final = "NOT t.implicit AND (t.home <> CAST(:home AS TEXT)) IS NOT TRUE"
_IS_RECALLED: Final = f"m.msg_type <> 'stuck' AND {_IS_SERVED}"
_VECTORS: Final = {"task_messages": _MESSAGE_VECTOR} | _TEXT_VECTORS
_HAS_WORDS: Final = "@@ to_tsquery('simple', :term)"


def _select_newest(table: str) -> str:
    return f"(SELECT max(id) FROM {table}) - {_NEWEST_TEXTS}"


@cache
def _build_selects(dialect: str, *, is_part: bool) -> tuple[sa.TextClause, ...]:
    """Return the statements that select the places of messages, and of other texts."""
    if dialect == "sqlite":
        join = "CROSS JOIN tasks AS t ON t.task_id ="
        last = "DESC LIMIT coalesce(:limit, -1)"
        if is_part:
            messages = (
                f"SELECT m.task_id, m.id FROM task_messages AS m {join} m.task_id "
                f"WHERE {_IS_RECALLED} AND m.id > {_select_newest('task_messages')} "
                rf"AND m.content LIKE :term ESCAPE '\' ORDER BY m.id {last}"
            )
            others = (
                f"SELECT x.task_id, NULL FROM task_texts AS x {join} x.task_id WHERE {_IS_SERVED} "
                f"AND x.id > {_select_newest('task_texts')} "
                rf"AND x.text LIKE :term ESCAPE '\' ORDER BY x.id {last}"
            )
        else:
            messages = (
                "SELECT m.task_id, m.id FROM message_words AS w CROSS JOIN task_messages AS m "
                f"ON m.id = w.rowid {join} m.task_id WHERE w.message_words MATCH :term "
                f"AND {_IS_RECALLED} ORDER BY w.rowid {last}"
            )
            others = (
                "SELECT x.task_id, NULL FROM task_words AS w CROSS JOIN task_texts AS x "
                f"ON x.id = w.rowid {join} x.task_id WHERE w.task_words MATCH :term "
                f"AND {_IS_SERVED} ORDER BY w.rowid {last}"
            )
    else:
        last = "LIMIT CAST(:limit AS BIGINT)"

        def has(table: str, text: str) -> str:
            return f"({text}) ILIKE :term" if is_part else f"{_VECTORS[table]} {_HAS_WORDS}"

        newest = f"AND m.id > {_select_newest('task_messages')} " if is_part else ""
        messages = (
            "SELECT m.task_id, m.id FROM task_messages AS m JOIN tasks AS t ON t.task_id = "
            f"m.task_id WHERE {_IS_RECALLED} {newest}AND {has('task_messages', 'content')} "
            f"ORDER BY m.id DESC {last}"
        )
        every = " UNION ALL ".join(
            f"(SELECT t.task_id FROM (SELECT * FROM {table} WHERE "
            f"{has(table, text.replace('row.', ''))}) AS x "
            f"JOIN tasks AS t ON t.task_id = x.task_id WHERE {_IS_SERVED} {last})"
            for table, _, text in _SOURCES
        )
        others = f"SELECT task_id, NULL FROM ({every}) AS x {last}"
    return sa.text(messages), sa.text(others)


@cache
def _build_task_select(dialect: str, *, is_part: bool) -> sa.TextClause:
    """Return the statement that selects the places of one task's messages."""
    if is_part or dialect != "sqlite":
        like = r"content LIKE :term ESCAPE '\'" if dialect == "sqlite" else "content ILIKE :term"
        has = like if is_part else f"{_MESSAGE_VECTOR} {_HAS_WORDS}"
        return sa.text(
            "SELECT task_id, id FROM task_messages "
            f"WHERE task_id = :task_id AND {has} ORDER BY id DESC"
        )
    ids = "FROM task_messages WHERE task_id = :task_id"
    return sa.text(
        "SELECT m.task_id, m.id FROM message_words AS w CROSS JOIN task_messages AS m "
        "ON m.id = w.rowid WHERE w.message_words MATCH :term AND m.task_id = :task_id "
        f"AND w.rowid BETWEEN (SELECT min(id) {ids}) AND (SELECT max(id) {ids}) "
        "ORDER BY w.rowid DESC"
    )


@cache
def _build_count(dialect: str) -> sa.TextClause:
    """Return the statement that counts the texts with words, in all homes."""
    if dialect == "sqlite":
        conditions = [(words, f"{words} MATCH :term") for words, _, _ in _WORDS]
    else:
        conditions = [(table, f"{vector} {_HAS_WORDS}") for table, vector in _VECTORS.items()]
    counts = (f"(SELECT count(*) FROM {table} WHERE {has})" for table, has in conditions)
    return sa.text(f"SELECT {' + '.join(counts)}")


def find_matches(connection: sa.Connection, pattern: str, query: TextQuery) -> TextMatches:
    """Return the texts that have one pattern of a query."""
    dialect = connection.dialect.name
    is_part = pattern.startswith("*")
    term = f"%{pattern.strip('*')}%" if is_part else _format_term(pattern, dialect)
    values: dict[str, Any] = {"term": term, "limit": query.limit}
    if query.task_id is None:
        values["home"] = query.home
        selects = () if query.limit == 0 else _build_selects(dialect, is_part=is_part)
    else:
        values = {"term": term, "task_id": query.task_id}
        selects = (_build_task_select(dialect, is_part=is_part),)
    try:
        places = [connection.execute(select, values).all() for select in selects]
        matches = TextMatches(sum(map(len, places)), [*chain(*places)])
        if query.limit is None or is_part or query.task_id is not None:
            return matches
        if places and all(len(each) < query.limit for each in places):
            return matches
        total = connection.execute(_build_count(dialect), {"term": term}).scalar_one()
        return matches._replace(total=total)
    except OperationalError as error:
        # FTS5 takes letters of the newest writing for signs, so they part a word in two.
        if "phrase queries are not supported" not in str(error.orig):
            raise
        return TextMatches(0, ())


def _format_term(pattern: str, dialect: str) -> str:
    """Return what matches all words of a pattern."""
    quote, begin, both = ('"', "*", " AND ") if dialect == "sqlite" else ("'", ":*", " & ")
    return both.join(
        f"{quote}{word.strip('*')}{quote}{begin if word.endswith('*') else ''}"
        for word in pattern.split()
    )
