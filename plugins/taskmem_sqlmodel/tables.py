"""The tables, the types of their columns, and the statements that write their rows.

A column has the name of its field, or the one that its field gives it. Checks and indexes have
names for migrations. Instants and JSON are stored as text, the same on SQLite and PostgreSQL.
"""

# ruff: noqa: S608 - statements are of constants; values are bound
from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import Any, Final, NamedTuple, cast

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.postgresql import psycopg
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import declared_attr, registry
from sqlalchemy.sql.compiler import SQLCompiler
from sqlmodel import Field, SQLModel

from taskmem_hookspecs import (
    Artifact,
    Author,
    Bookmark,
    Checkpoint,
    Event,
    FileChange,
    LedgerEntry,
    LedgerVerdict,
    Linkage,
    Message,
    MessageType,
    News,
    PlanRevision,
    Role,
    Run,
    RunState,
    Task,
    TaskStatus,
    Value,
    Verdict,
    Wait,
    WaitStatus,
    Wake,
    WakeCause,
    WakeState,
    WorkFolder,
)


def _build_ordered_text(dialect: Dialect) -> sa.types.TypeEngine[str]:
    """Return a text type that sorts by code point, as SQLite and Python do."""
    return dialect.type_descriptor(
        sa.Text(collation="C") if dialect.name == "postgresql" else sa.Text()
    )


class CodePointText(sa.TypeDecorator[str]):
    """Text that sorts by code point."""

    impl = sa.Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> sa.types.TypeEngine[str]:
        """Choose the collation."""
        return _build_ordered_text(dialect)


class ContainedText(sa.TypeDecorator[str]):
    """A text to look for within another, as a pattern for LIKE."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(
        self,
        value: str | None,
        dialect: Dialect,  # noqa: ARG002 - SQLAlchemy's signature
    ) -> str | None:
        """Escape what a LIKE would interpret."""
        if value is None:
            return None
        escaped = _WILDCARDS.sub(r"\\\g<0>", value)
        return f"%{escaped}%"


_WILDCARDS: Final = re.compile(r"[%_\\]")


class Serial(sa.TypeDecorator[int]):
    """An auto-incremented number; SQLite requires `INTEGER` for this."""

    impl = sa.BigInteger
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> sa.types.TypeEngine[int]:
        """Choose the width."""
        return dialect.type_descriptor(
            sa.Integer() if dialect.name == "sqlite" else sa.BigInteger()
        )


class _UnreadableValue:
    """Stands for a stored value that cannot be decoded: validation rejects it."""


_WIDTH: Final = len("2026-02-16T06:00:00.000000Z")


class InstantText(sa.TypeDecorator[datetime]):
    """An instant as ISO 8601 text in UTC of fixed width, so that it sorts by time."""

    impl = sa.Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> sa.types.TypeEngine[str]:
        """Choose the collation."""
        return _build_ordered_text(dialect)

    def process_bind_param(
        self,
        value: datetime | None,
        dialect: Dialect,  # noqa: ARG002 - SQLAlchemy's signature
    ) -> str | None:
        """Format as `2026-02-16T06:00:00.000000Z`."""
        if value is None:
            return None
        naive = value.astimezone(UTC).replace(tzinfo=None)
        return naive.isoformat(timespec="microseconds") + "Z"

    def process_result_value(
        self,
        value: Any | None,  # noqa: ANN401 - what the driver read
        dialect: Dialect,  # noqa: ARG002 - SQLAlchemy's signature
    ) -> Any:  # noqa: ANN401 - an instant, or what no value takes for one
        """Parse into an aware datetime; return `_UnreadableValue` if that fails."""
        if value is None:
            return None
        try:
            # Text of another width or zone would sort wrongly.
            if len(value) == _WIDTH and value.endswith("Z"):
                return datetime.fromisoformat(value)
        except (TypeError, ValueError, AttributeError):
            pass
        return _UnreadableValue()


_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Shared encoder: `json.dumps` would build one on each call."""


_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
"""Escape of a surrogate, which may be half of a pair or alone."""


class JsonText(sa.TypeDecorator[Any]):
    """JSON as text; characters outside ASCII are not escaped."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(
        self,
        value: Any,  # noqa: ANN401 - whatever JSON can say
        dialect: Dialect,  # noqa: ARG002 - SQLAlchemy's signature
    ) -> str:
        """Encode without spaces."""
        return _encode(value)

    def process_result_value(
        self,
        value: Any,  # noqa: ANN401 - what the driver read
        dialect: Dialect,  # noqa: ARG002 - SQLAlchemy's signature
    ) -> Any:  # noqa: ANN401 - whatever JSON can say
        """Decode; return `_UnreadableValue` for invalid JSON.

        A lone surrogate is invalid: it could not be written again.
        """
        try:
            read = json.loads(value)
            if _SURROGATE.search(value):
                _encode(read).encode()
        except (TypeError, ValueError, RecursionError):
            return _UnreadableValue()
        return read


def _build_enum_check(column: str, enum: type[StrEnum]) -> sa.CheckConstraint:
    """Return a constraint: the column contains a member of `enum`."""
    members = ", ".join(f"'{member.value}'" for member in enum)
    return sa.CheckConstraint(f"{column} IN ({members})", name=f"{column}_is_known")


def _index_rows(condition: str, name: str, *columns: str, unique: bool = False) -> sa.Index:
    """Return an index of the rows that satisfy `condition`."""
    where = sa.text(condition)
    return sa.Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)


Params = dict[str, Any]
"""Parameters of a statement: values by column name."""

Row = Mapping[Any, Any]
"""A row of a result: values by column name."""


_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


class Base(SQLModel, registry=registry()):
    """Base of the tables, with a registry separate from other users of SQLModel.

    A table is named after its class: `TaskMessages` is `task_messages`.
    """

    @declared_attr.directive
    def __tablename__(  # pyright: ignore[reportIncompatibleVariableOverride]
        cls,  # noqa: N805 - SQLAlchemy hands in the class
    ) -> str:
        return _HUMP.sub("_", cls.__name__).lower()


IMPLICIT_TASK: Final = "implicit"
"""Condition: the daemon opened the task for a turn."""
OPEN_TASK: Final = f"status IN ('active', 'paused') AND NOT {IMPLICIT_TASK}"
"""Condition: the task was registered and has not ended."""
_STUCK_ORDER: Final = ("status", "stuck_due_at", "task_id")
BLOCKED_TASK: Final = "blocked_by <> '[]'"
"""Condition: other tasks must end before the task goes on."""


class Tasks(Base, table=True):
    """One task; `metadata` has the agent's keys and the three linkage keys."""

    __table_args__ = (
        _build_enum_check("status", TaskStatus),
        sa.Index("tasks_by_status", "status", "updated_at", "task_id"),
        sa.Index("tasks_by_update", "updated_at", "task_id"),
        sa.Index("tasks_by_id", "status", "task_id"),
        _index_rows(
            "session_key IS NOT NULL",
            "tasks_of_session",
            "session_key",
            "status",
            "updated_at",
            "task_id",
        ),
        _index_rows("stuck_due_at IS NOT NULL", "tasks_stuck_due", *_STUCK_ORDER),
        _index_rows("stuck_due_at IS NOT NULL", "tasks_stuck_due_at_home", "home", *_STUCK_ORDER),
        _index_rows(IMPLICIT_TASK, "tasks_implicit", "updated_at", "task_id"),
        _index_rows(BLOCKED_TASK, "tasks_blocked", "task_id"),
        _index_rows(
            OPEN_TASK,
            "tasks_open_of_maker",
            "registrar_host",
            "registrar_session",
            "home",
            "status",
            "implicit",
        ),
    )

    task_id: str = Field(primary_key=True, sa_type=CodePointText)
    name: str = Field(sa_type=CodePointText)
    status: str = Field(sa_type=CodePointText)
    plan: list[str] = Field(sa_type=JsonText)
    done: list[int] = Field(sa_type=JsonText)
    keys: dict[str, Any] = Field(sa_column=sa.Column("metadata", JsonText, nullable=False))
    session_key: str | None = Field(sa_type=CodePointText)
    home: str | None = Field(sa_type=CodePointText)
    message_count: int
    created_at: datetime = Field(sa_type=InstantText)
    updated_at: datetime = Field(sa_type=InstantText)
    version: int
    last_stuck_alert_at: datetime | None = Field(sa_type=InstantText)
    alerts: int = Field(sa_column_kwargs={"server_default": sa.text("0")})
    alerts_in_a_row: int = Field(sa_column_kwargs={"server_default": sa.text("0")})
    stuck_due_at: datetime | None = Field(sa_type=InstantText)
    held_until: datetime | None = Field(sa_type=InstantText)
    doubts: list[str] = Field(sa_column=sa.Column(JsonText, nullable=False, server_default="[]"))
    original_request: str | None = Field(sa_type=CodePointText)
    implicit: bool = Field(sa_column_kwargs={"server_default": sa.false()})
    host: str | None = Field(sa_type=CodePointText)
    registrar_session: str | None = Field(sa_type=CodePointText)
    registrar_host: str | None = Field(sa_type=CodePointText)
    registrar_home: str | None = Field(sa_type=CodePointText)
    blocked_by: list[str] = Field(sa_type=JsonText, sa_column_kwargs={"server_default": "[]"})


def task_params(task: Task) -> Params:
    """Convert a task to a row; the metadata has three keys on its waits, with epoch seconds."""
    row = dict(task)
    linkage: Linkage = row.pop("linkage")
    at, state = linkage.last_wait_event_at, linkage.last_wait_state
    keys = {
        "active_wait_ids": linkage.active_wait_ids,
        "last_wait_event_at": None if at is None else int(at.timestamp()),
        "last_wait_state": state and state.value,
    }
    return {
        **row,
        "status": task.status.value,
        "done": sorted(task.done),
        "metadata": {**task.metadata, **keys},
    }


class TaskMessages(Base, table=True):
    """One entry of a task's thread."""

    __table_args__ = (
        _build_enum_check("role", Role),
        _build_enum_check("msg_type", MessageType),
        sa.Index("task_messages_by_task", "task_id", "id"),
    )

    id: int = Field(primary_key=True, sa_type=Serial)
    task_id: str = Field(foreign_key="tasks.task_id", sa_type=CodePointText)
    role: str = Field(sa_type=CodePointText)
    msg_type: str = Field(sa_type=CodePointText)
    content: str = Field(sa_type=CodePointText)
    created_at: datetime = Field(sa_type=InstantText)
    by_call: bool = Field(sa_column_kwargs={"server_default": sa.false()})


def message_params(message: Message) -> Params:
    """Convert a message to a row, without its id."""
    return {
        "task_id": message.task_id,
        "role": message.role.value,
        "msg_type": message.msg_type.value,
        "content": message.content,
        "created_at": message.created_at,
        "by_call": message.by_call,
    }


class TaskPlanRevisions(Base, table=True):
    """One replacement of a plan."""

    __table_args__ = (
        _build_enum_check("author", Author),
        sa.Index("task_plan_revisions_by_task", "task_id", "id"),
    )

    id: int = Field(primary_key=True, sa_type=Serial)
    task_id: str = Field(foreign_key="tasks.task_id", sa_type=CodePointText)
    old_plan_json: list[str] = Field(sa_type=JsonText)
    new_plan_json: list[str] = Field(sa_type=JsonText)
    reason: str = Field(sa_type=CodePointText)
    created_at: datetime = Field(sa_type=InstantText)
    author: str = Field(sa_type=CodePointText)


def revision_params(revision: PlanRevision) -> Params:
    """Convert a plan revision to a row, without its id."""
    return {
        "task_id": revision.task_id,
        "old_plan_json": revision.old_plan,
        "new_plan_json": revision.new_plan,
        "reason": revision.reason,
        "created_at": revision.created_at,
        "author": revision.author.value,
    }


OPEN_WAIT: Final = "status = 'watching'"
"""Condition: the wait is watched."""
RARER_WAIT: Final = "status <> 'resolved'"
"""Condition: the wait is not in the state in which most are."""


class Waits(Base, table=True):
    """One watched condition."""

    __table_args__ = (
        _build_enum_check("status", WaitStatus),
        sa.Index("waits_by_task", "task_id", "created_at", "wait_id"),
        sa.Index("waits_by_age", "created_at", "wait_id"),
        _index_rows(RARER_WAIT, "waits_rarer", "status"),
        _index_rows("status = 'watching'", "waits_watching", "created_at", "wait_id"),
        _index_rows(OPEN_WAIT, "waits_watching_of_task", "task_id", "created_at", "wait_id"),
        _index_rows(
            "status <> 'watching'", "waits_ended_of_task", "task_id", "changed_at", "wait_id"
        ),
        _index_rows(OPEN_WAIT, "waits_open_of_maker", "host", "session_key", "home", "status"),
    )

    wait_id: str = Field(primary_key=True, sa_type=CodePointText)
    task_id: str | None = Field(foreign_key="tasks.task_id", sa_type=CodePointText)
    session_key: str | None = Field(sa_type=CodePointText)
    target: str = Field(sa_type=CodePointText)
    wake_when: str = Field(sa_type=CodePointText)
    status: str = Field(sa_type=CodePointText)
    timeout_seconds: float = Field(sa_type=sa.Double)
    poll_seconds: float = Field(sa_type=sa.Double)
    created_at: datetime = Field(sa_type=InstantText)
    armed_at: datetime = Field(sa_type=InstantText)
    deadline_at: datetime = Field(sa_type=InstantText)
    changed_at: datetime = Field(sa_type=InstantText)
    ended_at: datetime | None = Field(sa_type=InstantText)
    last_observation: str | None = Field(sa_type=CodePointText)
    round: int
    version: int
    start: str | None = Field(sa_type=CodePointText)
    home: str | None = Field(sa_type=CodePointText)
    host: str | None = Field(sa_type=CodePointText)
    within: list[str] | None = Field(
        sa_type=JsonText, nullable=False, sa_column_kwargs={"server_default": "null"}
    )
    polled: bool = Field(sa_column_kwargs={"server_default": sa.false()})
    parts: list[Any] = Field(
        sa_type=JsonText, nullable=False, sa_column_kwargs={"server_default": "[]"}
    )
    needs_all: bool = Field(sa_column_kwargs={"server_default": sa.false()})


def wait_params(wait: Wait) -> Params:
    """Convert a wait to a row."""
    parts = [each.model_dump(mode="json") for each in wait.parts]
    return {**dict(wait), "status": wait.status.value, "parts": parts}


OPEN_WAKE: Final = "state IN ('due', 'sent')"
"""Condition: the wake is due, or sent and not acknowledged."""
RARER_WAKE: Final = "state <> 'acknowledged'"
"""Condition: the wake is not in the state in which most are."""


class Wakes(Base, table=True):
    """One message owed to an agent: the outbox."""

    __table_args__ = (
        _build_enum_check("cause", WakeCause),
        _build_enum_check("state", WakeState),
        sa.Index("wakes_by_age", "created_at", "wake_id"),
        _index_rows(RARER_WAKE, "wakes_rarer", "state"),
        sa.Index("wakes_by_task", "task_id", "created_at", "wake_id"),
        _index_rows(OPEN_WAKE, "wakes_open", "task_id", "created_at", "wake_id"),
        _index_rows(OPEN_WAKE, "wakes_open_of_wait", "wait_id", "created_at", "wake_id"),
        _index_rows(OPEN_WAKE, "wakes_open_by_age", "created_at", "wake_id", "home"),
        _index_rows("due_at IS NOT NULL", "wakes_due", "due_at", "wake_id"),
        _index_rows("due_at IS NOT NULL", "wakes_due_at_home", "home", "due_at", "wake_id"),
        _index_rows("sent_at IS NOT NULL", "wakes_sent", "sent_at"),
        _index_rows("wait_id IS NOT NULL", "wakes_by_wait", "wait_id"),
    )

    wake_id: str = Field(primary_key=True, sa_type=CodePointText)
    key: str = Field(unique=True, sa_type=CodePointText)
    cause: str = Field(sa_type=CodePointText)
    state: str = Field(sa_type=CodePointText)
    task_id: str | None = Field(foreign_key="tasks.task_id", sa_type=CodePointText)
    wait_id: str | None = Field(foreign_key="waits.wait_id", sa_type=CodePointText)
    session_key: str | None = Field(sa_type=CodePointText)
    home: str | None = Field(sa_type=CodePointText)
    text: str = Field(sa_type=CodePointText)
    urgent: bool
    attempts: int
    sends: int
    last_error: str | None = Field(sa_type=CodePointText)
    created_at: datetime = Field(sa_type=InstantText)
    due_at: datetime | None = Field(sa_type=InstantText)
    sent_at: datetime | None = Field(sa_type=InstantText)
    acknowledged_at: datetime | None = Field(sa_type=InstantText)
    transport: str | None = Field(sa_type=CodePointText)
    note: str | None = Field(sa_type=CodePointText)
    delivery_id: str | None = Field(sa_type=CodePointText)
    version: int
    run_id: str | None = Field(foreign_key="runs.run_id", sa_type=CodePointText)
    host: str | None = Field(sa_type=CodePointText)


def wake_params(wake: Wake) -> Params:
    """Convert a wake to a row."""
    row = {**dict(wake), "cause": wake.cause.value, "state": wake.state.value}
    del row["line"]  # made anew for each delivery
    return row


class Events(Base, table=True):
    """One entry of the event log; it outlives its task and wait."""

    __table_args__ = (
        sa.Index("events_by_task", "task_id", "id"),
        _index_rows("wait_id IS NOT NULL", "events_by_wait", "wait_id", "id"),
    )

    id: int = Field(primary_key=True, sa_type=Serial)
    at: datetime = Field(sa_type=InstantText)
    kind: str = Field(sa_type=CodePointText)
    task_id: str | None = Field(sa_type=CodePointText)
    wait_id: str | None = Field(sa_type=CodePointText)
    run_id: str | None = Field(sa_type=CodePointText)
    data: dict[str, Any] = Field(sa_type=JsonText)


def event_params(event: Event) -> Params:
    """Convert an event to a row, without its id."""
    return {
        "at": event.at,
        "kind": event.kind,
        "task_id": event.task_id,
        "wait_id": event.wait_id,
        "run_id": event.run_id,
        "data": dict(event.data),
    }


class Bookmarks(Base, table=True):
    """A named position, such as a reader's in the event log."""

    name: str = Field(primary_key=True, sa_type=CodePointText)
    value: str = Field(sa_type=CodePointText)


OPEN_RUN: Final = "state IN ('queued', 'running', 'blocked', 'review')"
"""Condition: the run has not ended."""

QUEUED_RUN: Final = "state = 'queued'"
"""Condition: the run can be claimed."""

RARER_RUN: Final = "state <> 'completed'"
"""Condition: the run is not in the state in which most are."""


class Runs(Base, table=True):
    """One attempt at a task."""

    __table_args__ = (
        _build_enum_check("state", RunState),
        _build_enum_check("news", News),
        _index_rows(OPEN_RUN, "runs_open_of_task", "task_id", unique=True),
        _index_rows(OPEN_RUN, "runs_open_of_session", "session_key", "task_id"),
        _index_rows(OPEN_RUN, "runs_open_by_age", "created_at", "run_id", "home"),
        _index_rows(QUEUED_RUN, "runs_queued", "created_at", "run_id"),
        _index_rows("lease_until IS NOT NULL", "runs_leased", "lease_until", "run_id"),
        _index_rows(
            "lease_until IS NOT NULL", "runs_leased_at_home", "home", "lease_until", "run_id"
        ),
        sa.Index("runs_by_task", "task_id", "created_at", "run_id"),
        sa.Index("runs_by_age", "created_at", "run_id"),
        _index_rows(RARER_RUN, "runs_rarer", "state"),
    )

    run_id: str = Field(primary_key=True, sa_type=CodePointText)
    task_id: str = Field(foreign_key="tasks.task_id", sa_type=CodePointText)
    state: str = Field(sa_type=CodePointText)
    why: str | None = Field(sa_type=CodePointText)
    role: str | None = Field(sa_type=CodePointText)
    session_key: str | None = Field(sa_type=CodePointText)
    owner: dict[str, Any] | None = Field(sa_type=JsonText)
    token: int
    lease_until: datetime | None = Field(sa_type=InstantText)
    home: str | None = Field(sa_type=CodePointText)
    told_session: str | None = Field(sa_type=CodePointText)
    attached: list[str] = Field(sa_type=JsonText)
    segmented: bool
    step: int | None
    step_calls: int
    step_bonus: bool
    failed_steps: list[int] = Field(sa_type=JsonText)
    fingerprint: str | None = Field(sa_type=CodePointText)
    folder: str | None = Field(sa_type=CodePointText)
    checkpoints: int
    calls: int
    question: str | None = Field(sa_type=CodePointText)
    heard_until: int = Field(sa_column_kwargs={"server_default": "0"})
    rounds: int
    rounds_before: int = Field(sa_column_kwargs={"server_default": "0"})
    turn_began_at: datetime | None = Field(sa_type=InstantText)
    worked_seconds: float = Field(sa_column_kwargs={"server_default": "0"})
    idle_rounds: int
    news: str = Field(sa_type=CodePointText)
    recent: list[str] = Field(sa_type=JsonText)
    said: str | None = Field(sa_type=CodePointText)
    last_response: str | None = Field(sa_type=CodePointText)
    provider_failures: int
    tries: int
    created_at: datetime = Field(sa_type=InstantText)
    changed_at: datetime = Field(sa_type=InstantText)
    seen_at: datetime = Field(sa_type=InstantText)
    started_at: datetime | None = Field(sa_type=InstantText)
    version: int


def run_params(run: Run) -> Params:
    """Convert a run to a row, the fields of its parts beside its own."""
    row: Params = dict(run)
    for part in Run.PARTS:
        row |= dict(row.pop(part))
    owner = None if run.owner is None else run.owner.model_dump(exclude_none=True)
    words = {"state": run.state.value, "news": run.progress.news.value}
    return {**row, **words, "owner": owner}


class Checkpoints(Base, table=True):
    """The addition of one tool call or event to the record of a run.

    Rows are many and small, so the table is stored in its primary-key index (WITHOUT ROWID).
    """

    __table_args__ = (sa.Index("checkpoints_by_age", "at"), {"sqlite_with_rowid": False})

    run_id: str = Field(primary_key=True, foreign_key="runs.run_id", sa_type=CodePointText)
    number: int = Field(primary_key=True, sa_type=sa.Integer)
    at: datetime = Field(sa_type=InstantText)
    body: str = Field(sa_type=CodePointText)
    checksum: str = Field(sa_type=CodePointText)


class Artifacts(Base, table=True):
    """One artifact of a task."""

    __table_args__ = (
        _build_enum_check("verdict", Verdict),
        sa.Index("artifacts_by_task", "task_id", "artifact_id"),
    )

    artifact_id: str = Field(primary_key=True, sa_type=CodePointText)
    task_id: str = Field(foreign_key="tasks.task_id", sa_type=CodePointText)
    run_id: str | None = Field(foreign_key="runs.run_id", sa_type=CodePointText)
    kind: str = Field(sa_type=CodePointText)
    subject: str = Field(sa_type=CodePointText)
    verdict: str = Field(sa_type=CodePointText)
    detail: str = Field(sa_type=CodePointText)
    checksum: str | None = Field(sa_type=CodePointText)
    size: int | None = Field(sa_type=sa.BigInteger)
    checked_at: datetime = Field(sa_type=InstantText)
    version: int


def artifact_params(artifact: Artifact) -> Params:
    """Convert an artifact to a row."""
    return {**dict(artifact), "verdict": artifact.verdict.value}


class Ledger(Base, table=True):
    """One path that a task created, changed or removed, with what the daemon saw of it."""

    __table_args__ = (
        _build_enum_check("change", FileChange),
        _build_enum_check("verdict", LedgerVerdict),
    )

    task_id: str = Field(primary_key=True, foreign_key="tasks.task_id", sa_type=CodePointText)
    path: str = Field(primary_key=True, sa_type=CodePointText)
    run_id: str | None = Field(foreign_key="runs.run_id", sa_type=CodePointText)
    change: str | None = Field(sa_type=CodePointText)
    call_id: str | None = Field(sa_type=CodePointText)
    at: datetime = Field(sa_type=InstantText)
    size: int | None = Field(sa_type=sa.BigInteger)
    sha256: str | None = Field(sa_type=CodePointText)
    verdict: str | None = Field(sa_type=CodePointText)
    why: str | None = Field(sa_type=CodePointText)
    nearby: bool


def ledger_params(entry: LedgerEntry) -> Params:
    """Convert a ledger entry to a row."""
    words = {
        "change": entry.change and entry.change.value,
        "verdict": entry.verdict and entry.verdict.value,
    }
    return {**dict(entry), **words}


class Folders(Base, table=True):
    """One folder used by the tools of a task."""

    task_id: str = Field(primary_key=True, foreign_key="tasks.task_id", sa_type=CodePointText)
    path: str = Field(primary_key=True, sa_type=CodePointText)
    since: datetime | None = Field(sa_type=InstantText)
    files: str | None = Field(sa_type=CodePointText)


# --- statements that the driver runs -----------------------------------------


class Statement:
    """A statement that is compiled once for a dialect, and run by the driver itself.

    For one row, SQLAlchemy's own execution takes about five times as long.
    """

    def __init__(self, construct: sa.ClauseElement, dialect: str) -> None:
        """Compile a statement for `sqlite` or `postgresql`."""
        of = _DIALECTS[dialect]
        compiled = cast("SQLCompiler", construct.compile(dialect=of))
        self.text = compiled.string
        self.has_lists = any(bind.expanding for bind in compiled.binds.values())
        """True if it takes lists, which only SQLAlchemy can bind."""
        self._values = compiled.params
        binds: Mapping[str, Any] = compiled.binds
        impls = {name: binds[name].type.dialect_impl(of) for name in self._values}
        encoders = ((name, impl.bind_processor(of)) for name, impl in impls.items())
        self._encoders = [(name, encode) for name, encode in encoders if encode is not None]
        columns = [*getattr(construct, "selected_columns", ())]
        self._names = [column.key for column in columns]
        # Drivers read texts and numbers as they are.
        own = [c for c in columns if isinstance(c.type, (sa.types.TypeDecorator, sa.Boolean))]
        impls = {column.key: column.type.dialect_impl(of) for column in own}
        decoders = ((name, impl.result_processor(of, None)) for name, impl in impls.items())
        self._decoders = [(name, decode) for name, decode in decoders if decode is not None]

    def bind(self, named: Params) -> Params:
        """Return the parameters as the driver takes them."""
        values = {**self._values, **named}
        for name, encode in self._encoders:
            values[name] = encode(values[name])
        return values

    def decode(self, found: Iterable[Sequence[Any]]) -> list[Row]:
        """Return the rows that the driver has read, by column name."""
        rows: list[Params] = [dict(zip(self._names, values, strict=True)) for values in found]
        for name, decode in self._decoders:
            for row in rows:
                row[name] = decode(row[name])
        return [*rows]


_DIALECTS: Final[Mapping[str, Dialect]] = {
    "sqlite": sqlite.dialect(paramstyle="named"),
    "postgresql": cast("Callable[[], Dialect]", psycopg.dialect)(),
}
prepare: Final = cache(Statement)


class RowWrite(NamedTuple):
    """A statement that writes one row."""

    text: str
    values: Params
    is_versioned: bool
    """True if another wrote first where the statement changes no row."""


class _RowTable(NamedTuple):
    """A table, and what converts a value to its row."""

    table: type[Base]
    to_row: Callable[[Any], Params]


_ROWS: Final[Mapping[type, _RowTable]] = {
    Task: _RowTable(Tasks, task_params),
    Run: _RowTable(Runs, run_params),
    Wait: _RowTable(Waits, wait_params),
    Wake: _RowTable(Wakes, wake_params),
    Artifact: _RowTable(Artifacts, artifact_params),
    Checkpoint: _RowTable(Checkpoints, dict),
    Message: _RowTable(TaskMessages, message_params),
    PlanRevision: _RowTable(TaskPlanRevisions, revision_params),
    Event: _RowTable(Events, event_params),
    LedgerEntry: _RowTable(Ledger, ledger_params),
    WorkFolder: _RowTable(Folders, dict),
    Bookmark: _RowTable(Bookmarks, dict),
}
"""The table for each class of a change's rows."""
_REPLACED_TABLES: Final = (Ledger.__tablename__, Folders.__tablename__, Bookmarks.__tablename__)
"""The tables in which a row replaces the one with the same key."""


def build_write(value: Value, dialect: str) -> RowWrite:
    """Return the statement that writes a value: inserts, replaces or updates its row."""
    rows = _ROWS[type(value)]
    row = rows.to_row(value)
    expected = row.get("version")
    if expected == 0:
        row = {**row, "version": 1}
    statement = _prepare_write(str(rows.table.__tablename__), dialect, is_update=bool(expected))
    return RowWrite(statement.text, statement.bind(row), is_versioned=bool(expected))


@cache
def _prepare_write(name: str, dialect: str, *, is_update: bool) -> Statement:
    """Return the statement that inserts or replaces a row, or updates the one of its version."""
    table = Base.metadata.tables[name]
    columns = [column for column in table.c if not isinstance(column.type, Serial)]
    keys = [column.name for column in table.primary_key]
    others = [column.name for column in columns if column.name not in keys]
    if is_update:
        sets = ", ".join(f'"{each}" = :{each}' for each in others if each != "version")
        text = (
            f"UPDATE {table.name} SET {sets}, version = version + 1 "
            f"WHERE {keys[0]} = :{keys[0]} AND version = :version"
        )
    else:
        names = ", ".join(f'"{column.name}"' for column in columns)
        values = ", ".join(f":{column.name}" for column in columns)
        text = f"INSERT INTO {table.name} ({names}) VALUES ({values})"
    if name in _REPLACED_TABLES:
        sets = ", ".join(f'"{each}" = excluded."{each}"' for each in others)
        text += f" ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {sets}"
    binds = (sa.bindparam(column.name, type_=column.type) for column in columns)
    return Statement(sa.text(text).bindparams(*binds), dialect)
