"""Keep the index of past tasks: a database of its own, which can be lost and made anew."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

from taskmem_hookspecs import TaskRecord
from taskmem_recall import past_task_pages as pages
from taskmem_recall.past_task_database import (
    NAME,
    FileIdentity,
    IndexDamaged,
    identify_file,
    name_errors,
    open_database,
    remove_files,
)
from taskmem_recall.past_task_pages import PASSAGE_END, Entry, ThreadPage


class PastTaskIndex:
    """Writes the index in a folder, by one thread at a time.

    All methods may raise what `name_errors` names.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._connection: sqlite3.Connection | None = None
        self._opened: FileIdentity | None = None
        """The file that the connection is of."""

    def read_place(self) -> int | None:
        """Return the event up to which the log was read; None: the index is not complete."""
        with name_errors(self._folder):
            found = self._open().execute("SELECT place FROM state").fetchone()
        return None if found is None else int(found[0])

    def list_versions(self, after: str, upto: str | None) -> Mapping[str, tuple[int, int]]:
        """Return version and last update of each task with an id in a range; None: without end."""
        bound = "" if upto is None else " AND task_id <= ?"
        values = (after,) if upto is None else (after, upto)
        query = f"SELECT task_id, version, updated_ms FROM tasks WHERE task_id > ?{bound}"  # noqa: S608 (no value)
        with name_errors(self._folder):
            return {row[0]: (row[1], row[2]) for row in self._open().execute(query, values)}

    def read_last_message(self, task_id: str) -> tuple[int, int]:
        """Return how many messages of a task are in the index, and the id of the last; 0: none."""
        with name_errors(self._folder):
            found = self._open().execute(
                "SELECT message_count, last_message FROM tasks WHERE task_id = ?", (task_id,)
            )
            return found.fetchone() or (0, 0)

    @contextlib.contextmanager
    def change(self, place: int | None = None) -> Generator[None]:
        """Make all changes of a block in one transaction, and set the place; None: leave it."""
        with name_errors(self._folder):
            connection = self._open()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                if place is not None:
                    connection.execute("DELETE FROM state")
                    connection.execute("INSERT INTO state VALUES (?)", (place,))
                connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

    def store_task(self, record: TaskRecord, new: Sequence[ThreadPage]) -> None:
        """Store a task, and add the pages of its new messages; call within `change`."""
        connection, task = self._open(), record.task
        last = max((e.message_id or 0 for page in new for e in page.entries), default=0)
        (number,) = connection.execute(
            """INSERT INTO tasks VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (task_id) DO UPDATE SET version = excluded.version,
                message_count = excluded.message_count, updated_ms = excluded.updated_ms,
                last_message = max(last_message, excluded.last_message), steps = excluded.steps
            RETURNING id""",
            (
                *(task.task_id, task.version, task.message_count, last),
                *(pages.to_millis(task.created_at), pages.to_millis(task.updated_at)),
                json.dumps(pages.list_done_steps(task)),
            ),
        ).fetchone()
        plan, made = pages.build_plan_text(record), pages.build_made_text(record)
        known = connection.execute(
            "SELECT id, entries FROM page_entries WHERE task = ? ORDER BY id", (number,)
        ).fetchall()
        if known:
            self._write_header(known[0][0], task.name, plan, made)
            new = self._fill_last_page(known[-1][0], known[-1][1], new)
        for page in new or ([] if known else [ThreadPage(texts=(), entries=())]):
            text = pages.join_passages(page.texts)
            columns = (task.name, plan, text, made) if not known else (task.name, "", text, "")
            known = [(self._add_page(number, columns, page.entries), "")]

    def remove_task(self, task_id: str) -> None:
        """Remove a task; call within `change`."""
        connection = self._open()
        of_task = "(SELECT id FROM tasks WHERE task_id = ?)"
        of_pages = f"(SELECT id FROM page_entries WHERE task = {of_task})"  # noqa: S608 (no value)
        for where in (
            f"pages WHERE rowid IN {of_pages}",
            f"page_entries WHERE task = {of_task}",
            "tasks WHERE task_id = ?",
        ):
            connection.execute(f"DELETE FROM {where}", (task_id,))  # noqa: S608 (no value)

    def _write_header(self, page: int, name: str, plan: str, made: str) -> None:
        connection = self._open()
        columns = connection.execute(
            "SELECT name, plan, made FROM pages WHERE rowid = ?", (page,)
        ).fetchone()
        if columns != (name, plan, made):
            connection.execute(
                "UPDATE pages SET name = ?, plan = ?, made = ? WHERE rowid = ?",
                (name, plan, made, page),
            )

    def _fill_last_page(
        self, page: int, entries: str, new: Sequence[ThreadPage]
    ) -> Sequence[ThreadPage]:
        """Add the first of the new pages to the last page, if it fits; return the others."""
        if not new:
            return new
        connection, first = self._open(), new[0]
        (text,) = connection.execute("SELECT thread FROM pages WHERE rowid = ?", (page,)).fetchone()
        added = pages.join_passages(first.texts)
        if text and len(text) + len(added) > pages.PAGE_CHARACTERS:
            return new
        joined = f"{text}{PASSAGE_END}{added}" if text else added
        known = json.loads(entries) + _encode_entries(first.entries)
        connection.execute("UPDATE pages SET thread = ? WHERE rowid = ?", (joined, page))
        connection.execute(
            "UPDATE page_entries SET entries = ? WHERE id = ?", (json.dumps(known), page)
        )
        return new[1:]

    def _add_page(self, task: int, columns: tuple[str, ...], entries: Sequence[Entry]) -> int:
        connection = self._open()
        page = connection.execute(
            "INSERT INTO page_entries VALUES (NULL, ?, ?)",
            (task, json.dumps(_encode_entries(entries))),
        ).lastrowid
        connection.execute(
            "INSERT INTO pages (rowid, name, plan, thread, made) VALUES (?, ?, ?, ?, ?)",
            (page, *columns),
        )
        return page or 0

    def remove(self) -> None:
        """Remove the index and all its files."""
        self.close()
        remove_files(self._folder)

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _open(self) -> sqlite3.Connection:
        path = self._folder / NAME
        if self._connection is None:
            self._connection = open_database(self._folder)
            self._opened = identify_file(path)
        elif identify_file(path) != self._opened:
            raise IndexDamaged(f"The index in {self._folder} is gone, or another one.")
        return self._connection


def _encode_entries(entries: Sequence[Entry]) -> list[list[int | None]]:
    return [[entry.message_id, entry.at_ms] for entry in entries]
