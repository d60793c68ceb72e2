"""Define the rows of a store as frozen values, and `Change`, the rows of one commit.

Instants are aware `datetime`s in UTC. Steps are counted from 0 here, and from 1 in texts for models
and people. A row's `version` is 0 if it was never stored, otherwise the version that was read and
that a commit expects to find.

A run is one attempt at a task by one owner. The owner claims it under a lease and gets a fencing
token, which grows with every claim, so an earlier owner can no longer write for the run. The daemon
itself verifies what a task made, at the moment when the task is completed.

Source: docs/origins.md, "Runs and their states" and "Proof of completion".
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, NonNegativeInt


def _to_utc(instant: datetime) -> datetime:
    if instant.tzinfo is None:
        raise ValueError("an instant needs a time zone")
    return instant.astimezone(UTC)


Instant = Annotated[datetime, AfterValidator(_to_utc)]
"""An aware point in time, in UTC."""

Seconds = Annotated[float, Field(ge=0, le=1e12)]
"""A finite duration of at most 1e12 s."""


class Value(BaseModel):
    """A frozen value that rejects unknown fields."""

    # Built at the first use: a process uses few of them, and a daemon starts in two thirds
    # of the time.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


# --- runs -------------------------------------------------------------------


class RunState(StrEnum):
    """State of a run."""

    QUEUED = "queued"
    """No owner; it can be claimed."""
    RUNNING = "running"
    """Its owner works on it, or will be told to continue."""
    BLOCKED = "blocked"
    """Waits for the user and gets no wakes; continues when the user says so, or when its own agent
    works on it again."""
    REVIEW = "review"
    """Handed to the user for review."""
    COMPLETED = "completed"
    """Ended: done, with proof if required."""
    FAILED = "failed"
    """Ended: failed; `why` gives the reason."""
    CANCELLED = "cancelled"
    """Ended: no longer wanted."""

    @property
    def terminal(self) -> bool:
        """True if the run has ended."""
        return self in (RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED)

    @property
    def is_waiting(self) -> bool:
        """True if the run waits for the user."""
        return self in (RunState.BLOCKED, RunState.REVIEW)


class News(StrEnum):
    """News in the tool calls of a round."""

    NONE = "none"
    """Nothing new."""
    RESULT = "result"
    """A repeated call had another result."""
    CALL = "call"
    """A new call was made, or a step was done."""


class Owner(Value):
    """The process or session that has claimed a run."""

    role: str
    """Role that it claims as; in OpenClaw, the agent's id."""
    session_key: str | None = None
    """None: a process without a session."""
    boot: str | None = None
    """Id of the gateway's start; None: not in a gateway."""
    process: str | None = None
    """`<pid>:<start time>`; None: unknown."""
    home: str | None = None
    """Home whose daemon it calls; None: the only one."""
    host: str | None = None
    """Gateway of the session, as in `Wake.host`; None: unknown."""

    def same(self, other: Owner | None) -> bool:
        """Return True if the other owner has the same process or the same role and session.

        A restart of the gateway does not change a session's identity. Owners in different homes or
        hosts are never the same, since session keys and process ids may repeat there. Nor are two
        sessions that one process serves.
        """
        if other is None:
            return False
        places = (self.home, other.home), (self.host, other.host)
        if any(one != two and None not in (one, two) for one, two in places):
            return False
        sessions = self.session_key, other.session_key
        may_be_one = None in sessions or sessions[0] == sessions[1]
        if may_be_one and self.process is not None and self.process == other.process:
            return True
        here, there = (self.role, self.session_key), (other.role, other.session_key)
        return self.session_key is not None and here == there


class UserDialogue(Value):
    """Words between the agent of a run and its user."""

    question: str | None = None
    """Question to the user that it waits for; None: none."""
    heard_until: int = 0
    """Id of the newest message up to which its owner has been told the user's words; 0: none."""
    last_response: str | None = None
    """The end of its agent's last reply to the user; None: none yet."""


class StepBudget(Value):
    """The current step of a run, and the tool calls used in it."""

    segmented: bool = False
    """True if each step has a budget of tool calls.

    Source: docs/origins.md, "Steps with budgets".
    """
    step: int | None = None
    """Step that the budget applies to, from 0; None: none started."""
    step_calls: int = 0
    """Tool calls started in that step."""
    step_bonus: bool = False
    """True if that step's budget was extended."""
    failed_steps: tuple[int, ...] = ()
    """Steps of the current plan that were given up, from 0."""


class RunProgress(Value):
    """Tool calls and words of a run, and the news that they brought."""

    calls: int = 0
    """Tool calls that have ended."""
    checkpoints: int = 0
    """Number of checkpoints; the next one gets the following number."""
    news: News = News.NONE
    """News of the current round so far."""
    recent: tuple[str, ...] = ()
    """Digests of its last calls and their results, newest last."""
    said: str | None = None
    """Digest of its last turn's reply; None: none."""


class LimitCounts(Value):
    """Counts of a run that its limits are compared with."""

    rounds: int = 0
    """Number of times it was told to continue; part of the wake's key."""
    rounds_before: int = 0
    """Value of `rounds` when the user last spoke."""
    idle_rounds: int = 0
    """Consecutive turns without news."""
    turn_began_at: Instant | None = None
    """Start of the turn that works on it; None: no turn does."""
    worked_seconds: Seconds = 0.0
    """Time spent in turns since the user last spoke."""
    provider_failures: int = 0
    """Consecutive turns that failed because of the model's provider."""
    tries: int = 0
    """Consecutive resumes without a completed turn."""


class AgentFacts(Value):
    """Facts from the host on the agent that works on a run."""

    folder: str | None = None
    """Working directory of its agent; None: unknown."""
    fingerprint: str | None = None
    """Fingerprint of the inputs of the agent's prompt when last seen; None: unknown."""


RECORD_PREFIX: Final = "record_"
"""Begins the ids of runs that only keep calls; nobody works by them, and they are not counted."""


class Run(Value):
    """One attempt at a task by one owner."""

    PARTS: ClassVar[Mapping[str, type[Value]]] = {
        "dialogue": UserDialogue,
        "budget": StepBudget,
        "progress": RunProgress,
        "limits": LimitCounts,
        "agent": AgentFacts,
    }
    """Classes of the fields that group others. No field of a part has the name of another
    field, so a store may keep each in a column of its own."""

    run_id: str
    task_id: str
    state: RunState
    why: str | None = None
    """Reason for the state, in a few words; None: none."""
    role: str | None = None
    """Role that may claim it; None: any."""
    session_key: str | None = None
    """Session in which it is to continue; None: the session that claims it."""
    owner: Owner | None = None
    """None: not claimed."""
    token: int = 0
    """Fencing token of the last claim; 0: never claimed."""
    lease_until: Instant | None = None
    """When the lease expires; None: the run is not running, or idle between turns."""
    home: str | None = None
    """Home whose daemon watches its lease and wakes its session; None: any."""
    told_session: str | None = None
    """Session that gets progress notices of a background run; None: it is in the foreground."""
    attached: tuple[str, ...] = ()
    """Ids of tasks that go to review together with it.

    Source: docs/origins.md, "Hand-offs and review".
    """
    dialogue: UserDialogue = UserDialogue()
    budget: StepBudget = StepBudget()
    progress: RunProgress = RunProgress()
    limits: LimitCounts = LimitCounts()
    agent: AgentFacts = AgentFacts()
    created_at: Instant
    changed_at: Instant
    """When it entered its state."""
    seen_at: Instant
    """When its owner was last seen."""
    started_at: Instant | None = None
    """When it was first claimed; None: never."""
    version: int = 0

    @property
    def ended_at(self) -> Instant | None:
        """When it ended; None while it is open."""
        return self.changed_at if self.state.terminal else None


class Checkpoint(Value):
    """The addition of one event to the record of a run: a delta, never the whole record.

    Source: docs/origins.md, "Checkpoints".
    """

    run_id: str
    number: int
    """From 1, in the order of writing."""
    at: Instant
    body: str
    """JSON, as the core encodes it."""
    checksum: str
    """Checksum of the run's id, the number and the body; a checkpoint that does not match is
    ignored."""


# --- what a task made --------------------------------------------------------


Checksum = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""SHA-256 in lower-case hex."""


class Verdict(StrEnum):
    """The result of verifying a claim."""

    VERIFIED = "verified"
    """Checked, and true."""
    REFUTED = "refuted"
    """Checked, and false."""
    UNPROVEN = "unproven"
    """Could not be checked."""


class Artifact(Value):
    """The latest finding on one artifact of a task."""

    artifact_id: str
    task_id: str
    run_id: str | None = None
    """The run that claimed it; None: the task had no known run."""
    kind: str
    subject: str
    verdict: Verdict
    detail: str
    checksum: Checksum | None = None
    size: NonNegativeInt | None = None
    checked_at: Instant
    """When it was last verified."""
    version: int = 0


class FileChange(StrEnum):
    """The change that a tool call made to a file."""

    CREATED = "created"
    CHANGED = "changed"
    REMOVED = "removed"


class LedgerVerdict(StrEnum):
    """The daemon's finding on a ledger entry."""

    PROVED = "proved"
    """The file exists, or was removed as the entry says."""
    UNVERIFIED = "unverified"
    """The daemon could not check it, or found it nowhere."""
    ABSENT = "absent"
    """The file does not exist."""
    EMPTY = "empty"
    """The file has a size of 0."""
    OLD = "old"
    """The file is older than the work and was not written since."""


class LedgerEntry(Value):
    """One path that a task created, changed or removed, or that an agent named.

    A task has at most one entry for each path.
    """

    task_id: str
    path: str
    """Absolute path; the name as the agent gave it if it could not be verified."""
    run_id: str | None = None
    """The run that made it; None: the task had no known run."""
    change: FileChange | None = None
    """None: the path was only named; no change is known."""
    call_id: str | None = None
    """The tool call that made the change; None: unknown."""
    at: Instant
    """When the change was made, or the path named."""
    size: NonNegativeInt | None = None
    """Size in bytes when last seen; None: never seen."""
    sha256: Checksum | None = None
    verdict: LedgerVerdict | None = None
    """None: not checked yet."""
    why: str | None = None
    """Why the verdict is not `proved`; None: it is, or there is none yet."""
    nearby: bool = False
    """True: it changed in a folder of the task meanwhile, and that is all that is known: no call of
    its agent was seen to write it, and its agent did not name it. So it proves nothing."""


class WorkFolder(Value):
    """A folder that the tools of a task used; one row for each folder of a task."""

    task_id: str
    path: str
    """Absolute path."""
    since: Instant | None = None
    """When the first command ran that may have changed files in it; None: no such command ran, so
    the folder is not searched for changes."""
    files: str | None = None
    """Id of the listing of its files before the work, which the core keeps; None: unknown."""


# --- tasks, waits and wakes --------------------------------------------------


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
    blocked_by: tuple[str, ...] = ()
    """Ids of the tasks that must end before it goes on; one that has ended is taken out."""
    version: int = 0

    @property
    def rests(self) -> bool:
        """True if it waits for something that wakes its agent: a wait, or another task."""
        return bool(self.linkage.active_wait_ids or self.blocked_by)

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
    by_call: bool = False
    """True if it came by `taskmem call`, whoever ran that; its role is then the user's."""
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


class WaitPart(Value):
    """One of the targets of a wait that watches several, with its condition."""

    target: str
    wake_when: str
    start: str | None = None
    """As `Wait.start`."""
    within: tuple[str, ...] | None = None
    """As `Wait.within`."""
    met: str | None = None
    """The observation with which its condition held in this round; None: it has not held."""


class Wait(Value):
    """A condition that is watched on a target, or several."""

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
    polled: bool = False
    """True if it was answered as a task of MCP, for whose end its agent's host asks."""
    parts: tuple[WaitPart, ...] = ()
    """Its targets if there are several: `target` and `wake_when` then name them for people."""
    needs_all: bool = False
    """True if the conditions of all parts must have held; else of one."""
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
    """The reason why a due wake waits, if nothing is wrong; once sent, the transport's remark, such
    as the ways that failed before one worked; None: nothing."""
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


# --- a commit -----------------------------------------------------------------


class Change(Value):
    """Rows that a store writes in one transaction: all of them, or none.

    The store inserts a task, run, wait, wake or artifact with `version` 0. Any other version is the
    one expected in the store: the store replaces the row and raises its version by one, or refuses
    the whole change with `Conflict`. A ledger entry or a folder replaces the one of the same task
    and path, a bookmark the one of the same name. Messages, revisions, checkpoints and events are
    only added. The store writes tasks first, so a change may hold a new task and rows that refer to
    it.
    """

    tasks: tuple[Task, ...] = ()
    messages: tuple[Message, ...] = ()
    revisions: tuple[PlanRevision, ...] = ()
    waits: tuple[Wait, ...] = ()
    wakes: tuple[Wake, ...] = ()
    runs: tuple[Run, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    ledger: tuple[LedgerEntry, ...] = ()
    folders: tuple[WorkFolder, ...] = ()
    events: tuple[Event, ...] = ()
    bookmarks: tuple[Bookmark, ...] = ()
    forget_before: Instant | None = None
    """Delete older checkpoints, except those of runs in `RunState.BLOCKED` or `REVIEW`. Delete
    implicit tasks with all their rows but the events, if neither the task nor its run was touched
    since and none of its waits is watching. None: delete nothing."""
    forget_home: str | None = None
    """`forget_before` applies to rows of this home and rows without a home; None: to all rows."""
    forget_waits: tuple[str, ...] = ()
    """Ids of waits without a task to delete with their wakes; their events stay."""

    @property
    def empty(self) -> bool:
        """True if there is nothing to write."""
        return self == Change()


class DroppedRows(Value):
    """Counts of the rows that one call of `TaskStore.drop_ended` deleted."""

    rows: Mapping[str, int]
    """Number of rows by table; a table without any is left out."""
    last_event: int = 0
    """Id of the last deleted event, or `after` if there is none; pass it as `after` to the next
    call."""
