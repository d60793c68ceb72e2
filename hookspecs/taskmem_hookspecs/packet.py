"""Define the stuck verdict and the resume packet that the agent of a stuck task gets.

Source: docs/origins.md, "The resume packet".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import JsonValue

from taskmem_hookspecs.model import (
    Instant,
    Message,
    MessageType,
    PlanRevision,
    Role,
    Run,
    Task,
    TaskStatus,
    Value,
    Wait,
    WaitStatus,
)


class StuckVerdict(Value):
    """Why a task is stuck."""

    idle_seconds: float
    """Time since the task was last touched."""
    failed_waits: int = 0
    """Latest waits in a row that ended in a timeout or an error."""
    urgent: bool = False
    """True if there are enough failed waits to mention them."""
    reason: str
    """One sentence, used in the packet."""


class ConversationMessage(Value):
    """A message of the conversation, possibly shortened."""

    role: Literal["user", "assistant"]
    text: str


class ResumeFacts(Value):
    """The facts from which a resume packet is built."""

    task: Task
    waits: tuple[Wait, ...] = ()
    """The task's waits, oldest first."""
    messages: tuple[Message, ...] = ()
    """The newest messages of the thread, oldest first; not filtered yet."""
    revisions: tuple[PlanRevision, ...] = ()
    """The plan's revisions, oldest first; step numbers in a message mean the plan of its time."""
    verdict: StuckVerdict
    wake_id: str
    """The wake that will carry the packet."""
    run: Run | None = None
    """The task's open run; None: there is none."""
    done_calls: tuple[str, ...] = ()
    """Tool calls with side effects, one line each, most serious first: messages sent out, then
    files, then calls of unknown effect."""
    cut_calls: tuple[str, ...] = ()
    """Tool calls of unknown outcome, one line each: interrupted ones, and failed ones that may have
    been done all the same."""
    dropped: tuple[str, ...] = ()
    """Work that was requested and later called off, one line each."""
    earlier_calls: int = 0
    """Number of earlier tool calls that were not read for this packet."""
    last_response: str | None = None
    """The end of the agent's last reply to the user; None: none yet."""
    conversation: tuple[ConversationMessage, ...] = ()
    """The newest messages of the task's session, at most 8, oldest first."""
    still_running: tuple[str, ...] = ()
    """Commands and sub-agents that the session's gateway is running, one line each."""
    background: str | None = None
    """Says that the task continues in the background, and who sent it there with which words; None:
    it does not."""
    now: Instant


class Progress(Value):
    """Progress of a task; steps are counted from 0."""

    completed: tuple[int, ...]
    current: int | None
    """The first step that is not done; None: all are done."""
    remaining: tuple[int, ...]
    """Steps after the current one that are not done."""
    pct: int
    """Percent done, rounded down."""


class PacketMessage(Value):
    """A message in a packet."""

    role: Role
    msg_type: MessageType
    content: str
    created_at: Instant


class PacketWait(Value):
    """The state of a task's waits in a packet."""

    active_wait_ids: tuple[str, ...] = ()
    last_wait_state: WaitStatus | None = None
    last_wait_event_at: int | None = None
    """Epoch seconds; None: there was no wait."""


class AlsoStuck(Value):
    """Another stuck task of the same session."""

    task_id: str
    name: str
    reason: str


class ResumePacket(Value):
    """All that an agent needs to continue a task, in at most 4,096 bytes of JSON."""

    v: Literal[1] = 1
    wake_id: str
    task_id: str
    name: str
    status: TaskStatus
    progress: Progress
    plan: tuple[str, ...]
    """The plan, or the part of it that starts at `plan_from`."""
    plan_from: int | None = None
    """Index of the first step in `plan`, from 0; None: the whole plan."""
    recent_messages: tuple[PacketMessage, ...] = ()
    """The last 3 to 5 messages that matter, oldest first."""
    wait: PacketWait = PacketWait()
    reason: str
    suggested_next_action: str
    background: str | None = None
    """As `ResumeFacts.background`."""
    original_request: str | None = None
    """The user's request in their own words; None: unknown."""
    last_response: str | None = None
    """The end of the agent's last reply to the user; None: none yet."""
    conversation: tuple[ConversationMessage, ...] | None = None
    """The newest messages of the conversation, oldest first; None: unknown."""
    still_running: tuple[str, ...] | None = None
    """Commands and sub-agents that the gateway is running for the session."""
    do_not_redo: tuple[str, ...] | None = None
    """Tool calls with side effects, most serious first, then newest first; None: none known."""
    unknown_outcome: tuple[str, ...] | None = None
    """Tool calls to check before repeating them, interrupted or failed; None: none."""
    do_not_revive: tuple[str, ...] | None = None
    """Work that was called off, oldest first; None: none."""
    past_more: int | None = None
    """Number of older lines left out of these three, see `task_status`; None: none."""
    urgency: Literal["high"] | None = None
    """`high` after several failed waits in a row; None: normal."""
    extra: Mapping[str, JsonValue] | None = None
    """Data of plug-ins; the first to be removed when the packet is too large."""
    also_stuck: tuple[AlsoStuck, ...] | None = None
    """Other stuck tasks of the session, at most ten; None: none."""
    also_stuck_more: int | None = None
    """Number of stuck tasks beyond `also_stuck`; None: none."""
