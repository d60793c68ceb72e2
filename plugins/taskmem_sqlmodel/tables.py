"""The tables of tasks, waits, wakes and events, and the conversion of their values.

A column has the name of its field, or the one that it was given first. Checks and indexes have
names, because migrations refer to them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.orm import declared_attr, registry
from sqlmodel import Field, SQLModel

from taskmem_hookspecs import (
    RESERVED_METADATA,
    Author,
    Event,
    Linkage,
    Message,
    MessageType,
    PlanRevision,
    Role,
    Task,
    TaskStatus,
    Wait,
    WaitStatus,
    Wake,
    WakeCause,
    WakeState,
)
from taskmem_sqlmodel.columns import (
    CodePointText,
    InstantText,
    JsonText,
    Serial,
    build_enum_check,
    build_partial_index,
)

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


class Tasks(Base, table=True):
    """One task; `metadata` has the agent's keys and the three linkage keys."""

    __table_args__ = (
        build_enum_check("status", TaskStatus),
        sa.Index("tasks_by_status", "status", "updated_at", "task_id"),
        sa.Index("tasks_by_update", "updated_at", "task_id"),
        sa.Index("tasks_by_id", "status", "task_id"),
        build_partial_index(
            "session_key IS NOT NULL",
            "tasks_of_session",
            "session_key",
            "status",
            "updated_at",
            "task_id",
        ),
        build_partial_index(
            "stuck_due_at IS NOT NULL", "tasks_stuck_due", "status", "stuck_due_at", "task_id"
        ),
        build_partial_index(
            "stuck_due_at IS NOT NULL",
            "tasks_stuck_due_at_home",
            "home",
            "status",
            "stuck_due_at",
            "task_id",
        ),
        build_partial_index(IMPLICIT_TASK, "tasks_implicit", "updated_at", "task_id"),
        build_partial_index(
            OPEN_TASK,
            "tasks_open_of_maker",
            *("registrar_host", "registrar_session", "home", "status", "implicit"),
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


def task_params(task: Task) -> Params:
    """Convert a task to a row."""
    row = dict(task)
    keys = _format_linkage(row.pop("linkage"))
    return {
        **row,
        "status": task.status.value,
        "done": sorted(task.done),
        "metadata": {**task.metadata, **keys},
    }


def task_value(row: Row) -> Task:
    """Convert a row to a task."""
    keys = dict(row["metadata"])
    own = {key: keys.pop(key, None) for key in RESERVED_METADATA}
    fields: dict[str, Any] = {**row, "metadata": keys, "linkage": _parse_linkage(**own)}
    return Task(**fields)


def _format_linkage(linkage: Linkage) -> dict[str, Any]:
    """Return the three keys of a task's metadata on its waits; the instant is in epoch seconds."""
    at, state = linkage.last_wait_event_at, linkage.last_wait_state
    return {
        "active_wait_ids": linkage.active_wait_ids,
        "last_wait_event_at": None if at is None else int(at.timestamp()),
        "last_wait_state": state and state.value,
    }


def _parse_linkage(
    active_wait_ids: list[str] | None, last_wait_event_at: int | None, last_wait_state: str | None
) -> Linkage:
    """Return the linkage of the three keys; a row edited by hand may lack them."""
    at = last_wait_event_at
    return Linkage(
        active_wait_ids=tuple(active_wait_ids or ()),
        last_wait_event_at=None if at is None else datetime.fromtimestamp(at, UTC),
        last_wait_state=WaitStatus(last_wait_state) if last_wait_state else None,
    )


class TaskMessages(Base, table=True):
    """One entry of a task's thread."""

    __table_args__ = (
        build_enum_check("role", Role),
        build_enum_check("msg_type", MessageType),
        sa.Index("task_messages_by_task", "task_id", "id"),
    )

    id: int = Field(primary_key=True, sa_type=Serial)
    task_id: str = Field(foreign_key="tasks.task_id", sa_type=CodePointText)
    role: str = Field(sa_type=CodePointText)
    msg_type: str = Field(sa_type=CodePointText)
    content: str = Field(sa_type=CodePointText)
    created_at: datetime = Field(sa_type=InstantText)


def message_params(message: Message) -> Params:
    """Convert a message to a row, without its id."""
    return {
        "task_id": message.task_id,
        "role": message.role.value,
        "msg_type": message.msg_type.value,
        "content": message.content,
        "created_at": message.created_at,
    }


class TaskPlanRevisions(Base, table=True):
    """One replacement of a plan."""

    __table_args__ = (
        build_enum_check("author", Author),
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
        build_enum_check("status", WaitStatus),
        sa.Index("waits_by_task", "task_id", "created_at", "wait_id"),
        sa.Index("waits_by_age", "created_at", "wait_id"),
        build_partial_index(RARER_WAIT, "waits_rarer", "status"),
        build_partial_index("status = 'watching'", "waits_watching", "created_at", "wait_id"),
        build_partial_index(
            "status = 'watching'", "waits_watching_of_task", "task_id", "created_at", "wait_id"
        ),
        build_partial_index(
            "status <> 'watching'", "waits_ended_of_task", "task_id", "changed_at", "wait_id"
        ),
        build_partial_index(
            OPEN_WAIT, "waits_open_of_maker", *("host", "session_key", "home", "status")
        ),
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


def wait_params(wait: Wait) -> Params:
    """Convert a wait to a row."""
    return {**dict(wait), "status": wait.status.value}


OPEN_WAKE: Final = "state IN ('due', 'sent')"
"""Condition: the wake is due, or sent and not acknowledged."""
RARER_WAKE: Final = "state <> 'acknowledged'"
"""Condition: the wake is not in the state in which most are."""


class Wakes(Base, table=True):
    """One message owed to an agent: the outbox."""

    __table_args__ = (
        build_enum_check("cause", WakeCause),
        build_enum_check("state", WakeState),
        sa.Index("wakes_by_age", "created_at", "wake_id"),
        build_partial_index(RARER_WAKE, "wakes_rarer", "state"),
        sa.Index("wakes_by_task", "task_id", "created_at", "wake_id"),
        build_partial_index(OPEN_WAKE, "wakes_open", "task_id", "created_at", "wake_id"),
        build_partial_index(OPEN_WAKE, "wakes_open_of_wait", "wait_id", "created_at", "wake_id"),
        build_partial_index(OPEN_WAKE, "wakes_open_by_age", "created_at", "wake_id", "home"),
        build_partial_index("due_at IS NOT NULL", "wakes_due", "due_at", "wake_id"),
        build_partial_index("due_at IS NOT NULL", "wakes_due_at_home", "home", "due_at", "wake_id"),
        build_partial_index("sent_at IS NOT NULL", "wakes_sent", "sent_at"),
        build_partial_index("wait_id IS NOT NULL", "wakes_by_wait", "wait_id"),
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
        build_partial_index("wait_id IS NOT NULL", "events_by_wait", "wait_id", "id"),
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
