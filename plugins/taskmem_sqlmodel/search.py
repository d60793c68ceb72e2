"""The full-text index of messages and of the other texts of tasks, and the search in it.

The database keeps it by itself, so what a commit writes or deletes is in the index, or is not, from
that commit on. On SQLite, triggers keep two FTS5 tables, which hold words alone: of the messages,
and of `task_texts`, which has the other texts. On PostgreSQL they are GIN indexes of expressions.
"""

# ruff: noqa: S608 - statements are of constants; values are bound
from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from taskmem_hookspecs import TextMatches, TextQuery

_NEWEST_TEXTS: Final = 20_000
"""How many messages, and other texts, are looked through for a part of a text: the newest."""
_OTHER_TEXTS: Final = {
    "tasks": "{row}name || ' ' || {row}plan || ' ' || coalesce({row}original_request, '')",
    "task_plan_revisions": "{row}old_plan_json",
    "ledger": "{row}path",
}
"""The other texts of a task: for each table the text of a row.

A plan is JSON, whose signs are no words.
"""


def _build_text(table: str, alias: str = "") -> str:
    """Return the expression of a row's text; `alias`: what the statement calls the row."""
    return _OTHER_TEXTS[table].format(row=alias and f"{alias}.")


# --- making the index ---------------------------------------------------------

_BUILDING_BYTES: Final = 8 << 20
"""Memory in which FTS5 gathers words while the index is made; less takes twice as long."""
_WRITING_BYTES: Final = 1 << 20
"""Memory in which FTS5 gathers the words of a commit: its own default."""
_TASK_NUMBER: Final = "(SELECT id FROM task_texts WHERE task_id = row.task_id AND part = 'task')"
_TEXT_NAMES: Final = {
    "tasks": "'task'",
    "task_plan_revisions": "'plan ' || row.id",
    "ledger": "'made ' || row.path",
}
"""The name of a text within its task, for each table of other texts."""


def _build_home(alias: str) -> str:
    """Return the home of a task as the index has it.

    It is '', which no home is called, if the task is implicit.
    """
    return f"CASE WHEN {alias}.implicit THEN '' ELSE {alias}.home END"


def _copy_rows(source: str, target: str, columns: str, condition: str = "true") -> tuple[str, str]:
    """Return a statement that copies a table's rows, and a trigger that copies each new row."""
    copy = f"INSERT INTO {target} SELECT {columns} FROM {source} AS row WHERE {condition}"
    return copy, (
        f"CREATE TRIGGER {source}_copied AFTER INSERT ON {source} "
        f"BEGIN {copy} AND row.rowid = new.rowid; END"
    )


class _WordTable(NamedTuple):
    """An FTS5 table of SQLite, and where the texts whose words it holds stand."""

    name: str
    texts: str
    """The table with the texts."""
    column: str
    """The column of `texts` with the texts."""
    places: str
    """The table, named `p`, that has their places in few bytes."""
    task: str
    """The expression, in `places`, of the number of a text's task: its row in `task_texts`."""
    message: str
    """The expression, in `places`, of the id of a text's message."""


_MESSAGE_WORDS: Final = _WordTable(
    "message_words", "task_messages", "content", "message_places AS p", "p.task", "p.id"
)
_TASK_WORDS: Final = _WordTable(
    "task_words",
    "task_texts",
    "text",
    "task_texts AS p INDEXED BY text_places",
    "coalesce(p.task, p.id)",
    "NULL",
)
_WORDS: Final = (_MESSAGE_WORDS, _TASK_WORDS)


def _make_words(words: _WordTable) -> tuple[str, ...]:
    """Return the statements that make an FTS5 table of a column, and keep it by triggers."""
    name, table, column = words[:3]
    add = f"INSERT INTO {name}(rowid, {column}) VALUES (new.id, new.{column});"
    remove = f"INSERT INTO {name}({name}, rowid, {column}) VALUES ('delete', old.id, old.{column});"
    return (
        (
            f"CREATE VIRTUAL TABLE {name} USING fts5({column}, content='{table}', "
            "content_rowid='id', tokenize='unicode61 remove_diacritics 2', "
            "detail='none', columnsize=0)"
        ),
        f"INSERT INTO {name}({name}, rank) VALUES ('hashsize', {_BUILDING_BYTES})",
        f"INSERT INTO {name}({name}) VALUES ('rebuild')",
        f"INSERT INTO {name}({name}, rank) VALUES ('hashsize', {_WRITING_BYTES})",
        f"CREATE VIRTUAL TABLE {name}_counts USING fts5vocab('{name}', 'row')",
        f"CREATE TRIGGER {name}_added AFTER INSERT ON {table} BEGIN {add} END",
        f"CREATE TRIGGER {name}_removed AFTER DELETE ON {table} BEGIN {remove} END",
        (
            f"CREATE TRIGGER {name}_changed AFTER UPDATE OF {column} ON {table} "
            f"BEGIN {remove} {add} END"
        ),
    )


_NEW_TEXT: Final = _build_text("tasks", "new")
_SQLITE: Final = (
    (
        "CREATE TABLE task_texts (id INTEGER PRIMARY KEY, task_id TEXT NOT NULL, "
        "part TEXT NOT NULL, text TEXT NOT NULL, task INTEGER, home TEXT, UNIQUE (task_id, part))"
    ),
    "CREATE TABLE message_places (id INTEGER PRIMARY KEY, task INTEGER)",
    *(
        statement
        for source, name in _TEXT_NAMES.items()
        for statement in _copy_rows(
            source,
            "task_texts",
            f"NULL, row.task_id, {name}, {_build_text(source, 'row')}, "
            + (f"NULL, {_build_home('row')}" if source == "tasks" else f"{_TASK_NUMBER}, NULL"),
        )
    ),
    *_copy_rows(
        "task_messages", "message_places", f"row.id, {_TASK_NUMBER}", "row.msg_type <> 'stuck'"
    ),
    (
        "CREATE TRIGGER tasks_text_changed AFTER UPDATE OF name, plan, original_request ON tasks "
        f"WHEN {_NEW_TEXT} <> {_build_text('tasks', 'old')} "
        f"BEGIN UPDATE task_texts SET text = {_NEW_TEXT} "
        "WHERE task_id = new.task_id AND part = 'task'; END"
    ),
    (
        "CREATE TRIGGER tasks_home_changed AFTER UPDATE OF home, implicit ON tasks "
        "WHEN new.home IS NOT old.home OR new.implicit <> old.implicit BEGIN "
        f"UPDATE task_texts SET home = {_build_home('new')} "
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
    *_make_words(_MESSAGE_WORDS),
    *_make_words(_TASK_WORDS),
)

_SIGNS: Final = "!\"#$%&''()*+,-./:;<=>?@[\\]^_`{|}~"
"""ASCII's signs, quoted for SQL: PostgreSQL would take a path or an address for one word."""
_SPACES: Final = " " * (len(_SIGNS) - 1)


def _build_vector(text: str) -> str:
    return f"to_tsvector('simple', translate({text}, '{_SIGNS}', '{_SPACES}'))"


_MESSAGE_VECTOR: Final = _build_vector("content")
_VECTORS: Final = {"task_messages": _MESSAGE_VECTOR} | {
    table: _build_vector(_build_text(table)) for table in _OTHER_TEXTS
}
_POSTGRESQL: Final = tuple(
    f"CREATE INDEX {table}_words ON {table} USING gin ({vector})"
    for table, vector in _VECTORS.items()
)


def make_search_index(connection: sa.Connection) -> None:
    """Make the index, with the texts of all rows that there are."""
    for statement in _SQLITE if connection.dialect.name == "sqlite" else _POSTGRESQL:
        connection.execute(sa.text(statement.replace(":", r"\:")))


# --- searching ---------------------------------------------------------------

_IS_SERVED: Final = "NOT t.implicit AND (t.home <> CAST(:home AS TEXT)) IS NOT TRUE"
_HAS_WORDS: Final = "@@ to_tsquery('simple', :term)"
_IS_TASK_SERVED: Final = "coalesce(t.home = :home, t.home IS NOT '')"
"""Condition of a task in `task_texts` that it is served."""


def _select_newest(table: str) -> str:
    return f"(SELECT max(id) FROM {table}) - {_NEWEST_TEXTS}"


def _build_select_of(words: _WordTable, *, is_part: bool) -> str:
    """Return the part of the statement of SQLite about the texts of one FTS5 table."""
    newest = _select_newest(words.texts)
    part = rf"w.rowid > {newest} AND w.{words.column} LIKE :term ESCAPE '\'"
    return (
        f"SELECT t.task_id, {words.message} FROM {words.texts if is_part else words.name} AS w "
        f"CROSS JOIN {words.places} ON p.id = w.rowid "
        "CROSS JOIN task_texts AS t INDEXED BY tasks_served "
        f"ON t.id = {words.task} AND t.task IS NULL "
        f"WHERE {part if is_part else f'w.{words.name} MATCH :term'} AND {_IS_TASK_SERVED} "
        "ORDER BY w.rowid DESC LIMIT coalesce(:limit, -1)"
    )


@cache
def _build_select(dialect: str, *, is_part: bool) -> sa.TextClause:
    """Return the statement that selects the places of messages, and of other texts."""
    if dialect == "sqlite":
        selects = (_build_select_of(words, is_part=is_part) for words in _WORDS)
        return sa.text(" UNION ALL ".join(f"SELECT * FROM ({select})" for select in selects))
    last = "LIMIT CAST(:limit AS BIGINT)"

    def has(table: str, text: str) -> str:
        return f"({text}) ILIKE :term" if is_part else f"{_VECTORS[table]} {_HAS_WORDS}"

    newest = f"AND m.id > {_select_newest('task_messages')} " if is_part else ""
    messages = (
        "SELECT m.task_id, m.id FROM task_messages AS m JOIN tasks AS t ON t.task_id = m.task_id "
        f"WHERE m.msg_type <> 'stuck' AND {_IS_SERVED} {newest}"
        f"AND {has('task_messages', 'content')} ORDER BY m.id DESC {last}"
    )
    every = " UNION ALL ".join(
        f"(SELECT t.task_id FROM (SELECT * FROM {table} WHERE "
        f"{has(table, _build_text(table))}) AS x "
        f"JOIN tasks AS t ON t.task_id = x.task_id WHERE {_IS_SERVED} {last})"
        for table in _OTHER_TEXTS
    )
    return sa.text(f"({messages}) UNION ALL (SELECT task_id, NULL FROM ({every}) AS x {last})")


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
def _build_count(dialect: str, *, of_home: bool) -> sa.TextClause:
    """Return the statement that counts the texts with words.

    In a database of one home turns and alerts are counted, too: that is several times as fast.
    """
    if of_home:
        return sa.text(f"SELECT count(*) FROM ({_build_select(dialect, is_part=False)}) AS x")
    if dialect == "sqlite":
        conditions = [(words.name, f"{words.name} MATCH :term") for words in _WORDS]
    else:
        conditions = [(table, f"{vector} {_HAS_WORDS}") for table, vector in _VECTORS.items()]
    counts = (f"(SELECT count(*) FROM {table} WHERE {has})" for table, has in conditions)
    return sa.text(f"SELECT {' + '.join(counts)}")


_WORD_COUNT: Final = sa.text(
    "SELECT CAST({} AS INTEGER)".format(
        " + ".join(
            f"(SELECT total(doc) FROM {words.name}_counts WHERE term >= :word AND term <= :last)"
            for words in _WORDS
        )
    )
)
"""Counts the texts with a word, on SQLite: for each form of the word anew, five times as fast."""


def _count_texts(
    connection: sa.Connection, pattern: str, values: Mapping[str, Any], query: TextQuery
) -> int:
    dialect = connection.dialect.name
    word = pattern.strip("*")
    statement = _build_count(dialect, of_home=query.home is not None)
    if dialect == "sqlite" and query.home is None and word.isascii() and word.isalnum():
        statement = _WORD_COUNT
        last = f"{word}\U0010ffff" if pattern.endswith("*") else word
        values = {"word": word, "last": last}
    return int(connection.execute(statement, values).scalar_one())


def find_matches(connection: sa.Connection, pattern: str, query: TextQuery) -> TextMatches:
    """Return the texts that have one pattern of a query."""
    dialect = connection.dialect.name
    is_part = pattern.startswith("*")
    beside = query.beside if query.task_id is None else ()
    term = f"%{pattern.strip('*')}%" if is_part else _format_term(pattern, beside, dialect)
    values: dict[str, Any] = {"term": term, "home": query.home, "limit": query.limit}
    if query.task_id is None:
        select = _build_select(dialect, is_part=is_part)
    else:
        select = _build_task_select(dialect, is_part=is_part)
        values = {"term": term, "task_id": query.task_id}
    try:
        found = () if query.limit == 0 else connection.execute(select, values).all()
        places = [(row[0], row[1]) for row in found]
        is_all = query.limit is None or query.task_id is not None or len(places) < query.limit
        if is_all or is_part:
            return TextMatches(len(places), places)
        values["limit"] = None
        return TextMatches(_count_texts(connection, pattern, values, query), places)
    except OperationalError as error:
        # FTS5 takes letters of the newest writing for signs, so they part a word in two.
        if "phrase queries are not supported" not in str(error.orig):
            raise
        return TextMatches(0, ())


def _format_term(pattern: str, beside: Sequence[str], dialect: str) -> str:
    """Return what matches all words of a pattern, and one of those beside it."""
    is_sqlite = dialect == "sqlite"
    quote, begin, both, either = ('"', "*", "AND", "OR") if is_sqlite else ("'", ":*", "&", "|")

    def format_words(pattern: str) -> str:
        return f" {both} ".join(
            f"{quote}{word.strip('*')}{quote}{begin if word.endswith('*') else ''}"
            for word in pattern.split()
        )

    others = f" {either} ".join(map(format_words, beside))
    return f"({others}) {both} {format_words(pattern)}" if others else format_words(pattern)
