"""Define the rows of a store as frozen values: tasks, messages, waits, wakes and events.

Instants are aware `datetime`s in UTC. Steps are counted from 0 here, and from 1 in texts for models
and people. A row's `version` is 0 if it was never stored, otherwise the version that was read and
that a commit expects to find.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from pydantic import JsonValue

from taskmem_hookspecs.evidence import Artifact
from taskmem_hookspecs.runs import Run, RunState
from taskmem_hookspecs.value import Instant, Seconds, Value

RESERVED_METADATA: Final = ("active_wait_ids", "last_wait_event_at", "last_wait_state")
"""Metadata keys that only the core sets. Source: docs/origins.md, "Waits"."""


class TaskStatus(StrEnum):
    """Status of a task. Source: docs/origins.md, "Tasks and statuses"."""

    ACTIVE = "active"
    """Being worked on; the only status in which a task can be stuck."""
    PAUSED = "paused"
    """Set aside on purpose."""
    COMPLETED = "completed"
    """Ended: done."""
    FAILED = "failed"
    """Ended: could not be done."""
    CANCELLED = "cancelled"
    """Ended: no longer wanted."""

    @property
    def terminal(self) -> bool:
        """True if the task has ended."""
        return self in (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED)


class MessageType(StrEnum):
    """Subject of a message in a thread. Source: docs/origins.md, "Messages of a thread"."""

    TEXT = "text"
    LIFECYCLE = "lifecycle"
    PROGRESS = "progress"
    WAIT = "wait"
    STUCK = "stuck"
    PLAN = "plan"


class Role(StrEnum):
    """Author of a message."""

    AGENT = "agent"
    SYSTEM = "system"
    USER = "user"


class Author(StrEnum):
    """Author of a plan revision. Source: docs/origins.md, "The plan"."""

    AGENT = "agent"
    SYSTEM = "system"


class WaitStatus(StrEnum):
    """Status of a wait. Source: docs/origins.md, "Waits"."""

    WATCHING = "watching"
    """Open: a daemon watches the target."""
    RESOLVED = "resolved"
    """Ended: the condition holds."""
    TIMEOUT = "timeout"
    """Ended: the deadline passed first."""
    CANCELLED = "cancelled"
    """Ended: no longer wanted."""
    ERROR = "error"
    """Ended: the target is lost."""


class WakeCause(StrEnum):
    """Reason for a wake."""

    STUCK = "stuck"
    """A task is stuck."""
    WAIT = "wait"
    """A wait has ended."""
    RUN = "run"
    """A run is to continue."""


class WakeState(StrEnum):
    """State of a wake in the outbox."""

    DUE = "due"
    """Not delivered yet; `attempts` and `last_error` describe the tries so far."""
    SENT = "sent"
    """A transport took it; the agent has not acted yet."""
    ACKNOWLEDGED = "acknowledged"
    """The agent has acted."""
    UNANSWERED = "unanswered"
    """Sent the maximum number of times without any act of the agent."""
    REFUSED = "refused"
    """The transport will never accept it."""
    SUPERSEDED = "superseded"
    """The task moved on or ended before it was sent."""


class Linkage(Value):
    """The state of a task's waits in its metadata, derived from the wait rows."""

    active_wait_ids: tuple[str, ...] = ()
    """Waits that are watching, oldest first."""
    last_wait_event_at: Instant | None = None
    """When a wait of the task was last opened, changed or ended; None: never.

    Stores keep whole seconds.
    """
    last_wait_state: WaitStatus | None = None
    """Status of that wait after the event; None: there was no wait."""


class Step(Value):
    """One entry of a plan."""

    index: int
    """From 0."""
    text: str
    done: bool


class Task(Value):
    """A name, a plan with marks, and a status: what is to be done, and how much of it is done."""

    task_id: str
    name: str
    status: TaskStatus
    plan: tuple[str, ...]
    """The current steps, in order."""
    done: frozenset[int] = frozenset()
    """Indexes of the steps that are done, from 0."""
    metadata: Mapping[str, JsonValue] = {}
    """The agent's own keys; none of `RESERVED_METADATA`."""
    linkage: Linkage = Linkage()
    session_key: str | None = None
    """Session that gets its wakes; None: unknown."""
    host: str | None = None
    """Host of the agent that works on it, as in `Wake.host`."""
    home: str | None = None
    """Home whose daemon takes care of it, and whose gateway has its session; None: any."""
    registrar_session: str | None = None
    """Session that registered it, whichever session works on it now; None: unknown."""
    registrar_host: str | None = None
    """Host of that session, as in `Wake.host`."""
    registrar_home: str | None = None
    """Home whose gateway has that session; None: any."""
    message_count: int = 0
    created_at: Instant
    updated_at: Instant
    """Changed by messages, status, marks, plan revisions and wait events only."""
    last_stuck_alert_at: Instant | None = None
    """When its agent last got a stuck alert; None: never."""
    alerts: int = 0
    """Number of stuck alerts in all; part of the wake's key."""
    alerts_in_a_row: int = 0
    """Stuck alerts since the task was last touched; each after the first doubles the cooldown, up
    to a day."""
    held_until: Instant | None = None
    """No stuck alert before this instant, because its run was told to continue, waits for the user,
    or is at work; None: no limit."""
    stuck_due_at: Instant | None = None
    """When to check whether it is stuck; None: it cannot become stuck."""
    doubts: tuple[str, ...] = ()
    """Kinds of reasons for which its completion was refused so far."""
    original_request: str | None = None
    """The user's request in their own words; None: unknown."""
    implicit: bool = False
    """True if the daemon opened it for a turn whose agent had registered no task."""
    version: int = 0

    @property
    def steps(self) -> tuple[Step, ...]:
        """The plan with its marks."""
        return tuple(
            Step(index=i, text=text, done=i in self.done) for i, text in enumerate(self.plan)
        )


class Message(Value):
    """One entry of a task's thread."""

    message_id: int = 0
    """Set by the store, ascending within a task; 0: not stored yet."""
    task_id: str
    role: Role
    msg_type: MessageType
    content: str
    created_at: Instant


class PlanRevision(Value):
    """A replacement of a plan by another."""

    revision_id: int = 0
    """Set by the store; 0: not stored yet."""
    task_id: str
    old_plan: tuple[str, ...]
    new_plan: tuple[str, ...]
    reason: str
    author: Author
    created_at: Instant


class Wait(Value):
    """A condition that is watched on a target."""

    wait_id: str
    task_id: str | None = None
    """None: it belongs to no task."""
    session_key: str | None = None
    """Session to wake; None: the task's session, if any."""
    host: str | None = None
    """Host of the agent that opened it, as in `Wake.host`."""
    target: str
    """The target as the agent wrote it, such as `pty:build`."""
    wake_when: str
    """The condition, in the agent's words."""
    status: WaitStatus = WaitStatus.WATCHING
    timeout_seconds: Seconds
    poll_seconds: Seconds
    """Maximum time between two looks."""
    created_at: Instant
    armed_at: Instant
    """When it was last armed; elapsed time counts from here."""
    deadline_at: Instant
    changed_at: Instant
    """When it was last opened, refined or ended."""
    ended_at: Instant | None = None
    """None while it is watching."""
    last_observation: str | None = None
    """The last thing seen, in one line; None: nothing yet."""
    round: int = 1
    """Number of times it was armed; part of the wake's key."""
    start: str | None = None
    """The sensor's place at which the wait began; after U+001E, the place to read from if it
    differs. None: it was not opened by a daemon that watches."""
    home: str | None = None
    """Home whose daemon watches it; None: any that has the target."""
    within: tuple[str, ...] | None = None
    """`Target.within` for the caller that last opened or changed the wait."""
    version: int = 0


class Wake(Value):
    """One message to an agent: a row of the outbox."""

    wake_id: str
    key: str
    """Unique for each cause: `stuck:<task>:<n>`, `wait:<wait>:<n>`, `run:<run>:<n>`,
    `unclaimed:<task>:<n>`, `review:<run>:<n>`."""
    cause: WakeCause
    state: WakeState = WakeState.DUE
    task_id: str | None = None
    wait_id: str | None = None
    run_id: str | None = None
    session_key: str | None = None
    """None: unknown; the transport then names no session."""
    host: str | None = None
    """Where its agent runs: `openclaw:` and the gateway's id, or `mcp:` and the name that the MCP
    client gave; None: unknown."""
    home: str | None = None
    """Home whose daemon delivers it to its own gateway; None: any."""
    text: str
    """The text that the agent reads, on one line."""
    line: str | None = None
    """The line that people see of it in the chat; set when the wake is handed to a transport, and
    not stored. Empty: nothing. None: not being delivered."""
    urgent: bool = False
    """True if several waits of the task failed in a row."""
    attempts: int = 0
    """Deliveries started."""
    sends: int = 0
    """Deliveries that a transport accepted."""
    last_error: str | None = None
    """Why the last delivery failed; None: it did not."""
    created_at: Instant
    due_at: Instant | None = None
    """When the outbox next looks at it; None: never again."""
    sent_at: Instant | None = None
    acknowledged_at: Instant | None = None
    transport: str | None = None
    """The transport that accepted it; None: none yet."""
    note: str | None = None
    """The transport's remark, such as the ways that failed before one worked; None: nothing."""
    delivery_id: str | None = None
    """Shared by wakes that are delivered in one message; None: not tried yet."""
    version: int = 0


class Event(Value):
    """One entry of the audit log."""

    event_id: int = 0
    """Set by the store, ascending; 0: not stored yet."""
    at: Instant
    kind: str
    task_id: str | None = None
    wait_id: str | None = None
    run_id: str | None = None
    data: Mapping[str, JsonValue] = {}


class Bookmark(Value):
    """A named text: how far the log was read, or the settings in use."""

    name: str
    value: str


class TaskFacts(Value):
    """A task with its waits, wakes, run and artifacts, read in one transaction."""

    task: Task
    waits: tuple[Wait, ...] = ()
    """Its open waits and the last 20 that ended, oldest first."""
    wakes: tuple[Wake, ...] = ()
    """Its wakes in state `due` or `sent`, oldest first."""
    run: Run | None = None
    """Its open run, one at most; None: there is none."""
    artifacts: tuple[Artifact, ...] = ()
    """Its artifacts, also those that were refuted or not proved, in order of id."""


class Maker(Value):
    """An agent or a program whose open tasks and waits are counted together."""

    hosts: tuple[str, ...]
    """Its hosts, as in `Wake.host`; one program may have several."""
    agent: str | None = None
    """Prefix of session keys: this key itself, or this key followed by a colon. None: all sessions,
    and rows without one."""


class Counts(Value):
    """Numbers of rows, by state."""

    tasks: Mapping[TaskStatus, int]
    waits: Mapping[WaitStatus, int]
    wakes: Mapping[WakeState, int]
    runs: Mapping[RunState, int]
