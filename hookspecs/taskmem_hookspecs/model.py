"""What is remembered, as frozen values: tasks, threads, waits, wakes and events.

Instants are aware `datetime`s in UTC. Steps are counted from 0 everywhere in
here; only what the model or a person reads counts from 1. Rows carry a
`version`: 0 means "not stored yet", any other number is the version that was
read and that a commit expects to find.
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
"""The metadata keys that belong to the task itself. Source: seed 000 §4."""


class TaskStatus(StrEnum):
    """Where a task stands. Source: seed 000 §1."""

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
        """Whether the task has ended."""
        return self in (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED)


class MessageType(StrEnum):
    """What a message of a thread is about. Source: seed 000 §3."""

    TEXT = "text"
    LIFECYCLE = "lifecycle"
    PROGRESS = "progress"
    WAIT = "wait"
    STUCK = "stuck"
    PLAN = "plan"


class Role(StrEnum):
    """Who wrote a message."""

    AGENT = "agent"
    SYSTEM = "system"
    USER = "user"


class Author(StrEnum):
    """Who revised a plan. Source: seed 000 §2."""

    AGENT = "agent"
    SYSTEM = "system"


class WaitStatus(StrEnum):
    """Where a wait stands. Source: seed 000 §4."""

    WATCHING = "watching"
    """Open: a daemon watches the target."""
    RESOLVED = "resolved"
    """Ended: the condition holds."""
    TIMEOUT = "timeout"
    """Ended: time was up first."""
    CANCELLED = "cancelled"
    """Ended: no longer wanted."""
    ERROR = "error"
    """Ended: the target is lost."""


class WakeCause(StrEnum):
    """Why a wake is owed."""

    STUCK = "stuck"
    """A task has gone silent."""
    WAIT = "wait"
    """A wait has ended."""
    RUN = "run"
    """A run is to go on."""


class WakeState(StrEnum):
    """Where a wake stands in the outbox."""

    DUE = "due"
    """Owed and not delivered yet; `attempts` and `last_error` tell of tries."""
    SENT = "sent"
    """A transport took it; nobody was seen to act on it yet."""
    ACKNOWLEDGED = "acknowledged"
    """The agent was seen to act."""
    UNANSWERED = "unanswered"
    """Sent as often as it is sent, and nobody acted."""
    REFUSED = "refused"
    """A transport will never take it."""
    SUPERSEDED = "superseded"
    """The task moved on or ended before it was sent."""


class Linkage(Value):
    """What a task's metadata says of its waits, derived from the wait rows."""

    active_wait_ids: tuple[str, ...] = ()
    """The waits that are watching, oldest first."""
    last_wait_event_at: Instant | None = None
    """When a wait of the task was last opened, changed or ended; None: never.

    A store keeps whole seconds of it.
    """
    last_wait_state: WaitStatus | None = None
    """What state that left the wait in; None: there was no wait."""


class Step(Value):
    """One entry of a plan."""

    index: int
    """From 0."""
    text: str
    done: bool


class Task(Value):
    """What is to be done, and how far it is."""

    task_id: str
    name: str
    status: TaskStatus
    plan: tuple[str, ...]
    """The current checklist, in order."""
    done: frozenset[int] = frozenset()
    """The steps that are done, counted from 0."""
    metadata: Mapping[str, JsonValue] = {}
    """The agent's own keys; never one of `RESERVED_METADATA`."""
    linkage: Linkage = Linkage()
    session_key: str | None = None
    """The session that wakes go to; None: none is known."""
    host: str | None = None
    """Where the agent runs that works on it, as in `Wake.host`."""
    home: str | None = None
    """The home whose daemon looks after it, and in whose gateway its session lives;
    None: any."""
    registrar_session: str | None = None
    """The session that registered it, whoever works on it now; None: not known."""
    registrar_host: str | None = None
    """Where its agent runs, as in `Wake.host`."""
    registrar_home: str | None = None
    """The home in whose gateway that session lives; None: any."""
    message_count: int = 0
    created_at: Instant
    updated_at: Instant
    """Touched by messages, status, marks, revisions and wait events only."""
    last_stuck_alert_at: Instant | None = None
    """When the agent was last told that the task is stuck; None: never."""
    alerts: int = 0
    """How many stuck alerts there were in all; numbers the wake's key."""
    alerts_in_a_row: int = 0
    """How many of them since the task last moved; each doubles the cooldown."""
    held_until: Instant | None = None
    """No alert before then, since its run was told to go on; None: it was not."""
    stuck_due_at: Instant | None = None
    """When to look whether the task is stuck; None: it cannot become stuck."""
    doubts: tuple[str, ...] = ()
    """What its completion was refused for so far."""
    original_request: str | None = None
    """What its user had asked for, in their words; None: not known."""
    implicit: bool = False
    """Whether the daemon opened it for a turn whose agent registered none."""
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
    """Given by the store, growing within a task; 0: not stored yet."""
    task_id: str
    role: Role
    msg_type: MessageType
    content: str
    created_at: Instant


class PlanRevision(Value):
    """One replacement of a plan by another."""

    revision_id: int = 0
    """Given by the store; 0: not stored yet."""
    task_id: str
    old_plan: tuple[str, ...]
    new_plan: tuple[str, ...]
    reason: str
    author: Author
    created_at: Instant


class Wait(Value):
    """One watched condition."""

    wait_id: str
    task_id: str | None = None
    """The task it belongs to; None: it stands alone."""
    session_key: str | None = None
    """The session that is woken; None: the task's, else none is known."""
    host: str | None = None
    """Where the agent runs that asked for it, as in `Wake.host`."""
    target: str
    """What is watched, as it was asked for: `pty:build`."""
    wake_when: str
    """The condition, in the agent's words."""
    status: WaitStatus = WaitStatus.WATCHING
    timeout_seconds: Seconds
    poll_seconds: Seconds
    """The longest time between two looks."""
    created_at: Instant
    armed_at: Instant
    """When its clock was last started; elapsed time counts from here."""
    deadline_at: Instant
    changed_at: Instant
    """When it was last opened, refined or ended."""
    ended_at: Instant | None = None
    """None while it is watching."""
    last_observation: str | None = None
    """What was last seen, in one line; None: nothing yet."""
    round: int = 1
    """How often it was armed; numbers the wake's key."""
    start: str | None = None
    """The place on the target at which it began, in the sensor's own words, and behind
    U+001E the one from which it reads, if that is another; None: it was made by no
    daemon that watches."""
    home: str | None = None
    """The home whose daemon watches it; None: any that has the target."""
    within: tuple[str, ...] | None = None
    """The folders that a file must lie in, as `Target.within`, for who asked last."""
    version: int = 0


class Wake(Value):
    """One message owed to an agent: a row of the outbox."""

    wake_id: str
    key: str
    """One per cause: `stuck:<task>:<n>`, `wait:<wait>:<n>`, `run:<run>:<n>`,
    `unclaimed:<task>:<n>`, `review:<run>:<n>`."""
    cause: WakeCause
    state: WakeState = WakeState.DUE
    task_id: str | None = None
    wait_id: str | None = None
    run_id: str | None = None
    session_key: str | None = None
    """None: none is known, and a transport names none."""
    host: str | None = None
    """Where the agent runs that it is for: `openclaw:` and which one for a gateway's,
    else `mcp:` and the name that its MCP client has given; None: not known."""
    home: str | None = None
    """The home whose daemon delivers it, to its own gateway; None: any."""
    text: str
    """What the agent reads, on one line."""
    line: str | None = None
    """What people see of it in the chat, in their words, on one line. Written when it
    is handed to a transport, and not stored; empty: nothing; None: it is on its way to
    none."""
    urgent: bool = False
    """Several waits of the task failed in a row."""
    attempts: int = 0
    """Deliveries begun."""
    sends: int = 0
    """Deliveries that a transport took."""
    last_error: str | None = None
    """Why the last delivery failed; None: none failed."""
    created_at: Instant
    due_at: Instant | None = None
    """When the outbox looks at it next; None: never again."""
    sent_at: Instant | None = None
    acknowledged_at: Instant | None = None
    transport: str | None = None
    """The transport that took it; None: none did yet."""
    note: str | None = None
    """What the transport said of it, such as which ways were tried in vain before
    the one that took it; None: nothing."""
    delivery_id: str | None = None
    """Shared by wakes that went, or go, out as one message; None: none was tried."""
    version: int = 0


class Event(Value):
    """One entry of the audit log."""

    event_id: int = 0
    """Given by the store, growing; 0: not stored yet."""
    at: Instant
    kind: str
    task_id: str | None = None
    wait_id: str | None = None
    run_id: str | None = None
    data: Mapping[str, JsonValue] = {}


class Bookmark(Value):
    """A named place: how far something has been read, or under which settings."""

    name: str
    value: str


class TaskFacts(Value):
    """All that a decision about one task rests on, read together."""

    task: Task
    waits: tuple[Wait, ...] = ()
    """The task's open waits and the last 20 that ended, oldest first."""
    wakes: tuple[Wake, ...] = ()
    """The task's wakes that are due or sent, oldest first."""
    run: Run | None = None
    """Its run that has not ended: one at most; None: there is none."""
    artifacts: tuple[Artifact, ...] = ()
    """What it is to make, as far as that was looked at; oldest first."""


class Maker(Value):
    """Whose doing tasks and waits are, as far as they count together."""

    hosts: tuple[str, ...]
    """Where it runs, as in `Wake.host`; one program may have several names there."""
    agent: str | None = None
    """Of the sessions there only this one, and those whose keys begin with this and a
    colon; None: all of them, and what has none."""


class Counts(Value):
    """How much a store holds, by state."""

    tasks: Mapping[TaskStatus, int]
    waits: Mapping[WaitStatus, int]
    wakes: Mapping[WakeState, int]
    runs: Mapping[RunState, int]
    events: int
