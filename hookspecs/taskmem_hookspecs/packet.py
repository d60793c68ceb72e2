"""What a stuck task's agent is told: the verdict, and the resume packet.

Source: seed 000 §5-6.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import JsonValue

from taskmem_hookspecs.model import Message, MessageType, Role, Task, TaskStatus, Wait, WaitStatus
from taskmem_hookspecs.runs import Run
from taskmem_hookspecs.value import Instant, Value


class StuckVerdict(Value):
    """Why a task counts as stuck."""

    idle_seconds: float
    """Since the task was last touched."""
    failed_waits: int = 0
    """Waits that ended in a timeout or an error, counted back from the last one."""
    urgent: bool = False
    """Whether that many are worth saying."""
    reason: str
    """One sentence, as the packet gives it."""


class ConversationMessage(Value):
    """A message of the conversation, as far as it is kept."""

    role: Literal["user", "assistant"]
    text: str


class ResumeFacts(Value):
    """All that a resume packet is built from."""

    task: Task
    waits: tuple[Wait, ...] = ()
    """The task's waits, oldest first."""
    messages: tuple[Message, ...] = ()
    """The newest messages of the thread, oldest first; noise is still in."""
    verdict: StuckVerdict
    wake_id: str
    """The wake that will carry the packet."""
    run: Run | None = None
    """The task's run that has not ended; None: there is none."""
    done_calls: tuple[str, ...] = ()
    """Calls of tools that were made and have left something, a line each, the gravest
    first: what went out, then files, then what nobody can tell."""
    cut_calls: tuple[str, ...] = ()
    """Calls of tools of which nobody knows what they did, a line each."""
    dropped: tuple[str, ...] = ()
    """What was wanted once and is not any more, a line each."""
    earlier_calls: int = 0
    """Calls that ended and are too many for anything to be known of them here."""
    last_response: str | None = None
    """The end of what the task's agent said last to the user; None: nothing yet."""
    conversation: tuple[ConversationMessage, ...] = ()
    """What was last said in the task's session, oldest first, 8 messages at most."""
    still_running: tuple[str, ...] = ()
    """Commands and sub-agents that its session's gateway runs now, a line each."""
    background: str | None = None
    """That the task goes on in the background, and who sent it there with what words;
    None: it does not."""
    now: Instant


class Progress(Value):
    """How far a task is; steps counted from 0."""

    completed: tuple[int, ...]
    current: int | None
    """The first step that is not done; None: all are."""
    remaining: tuple[int, ...]
    """The steps after the current one that are not done."""
    pct: int
    """Percent done, rounded down."""


class PacketMessage(Value):
    """A message as a packet shows it."""

    role: Role
    msg_type: MessageType
    content: str
    created_at: Instant


class PacketWait(Value):
    """The waits of a task as a packet shows them."""

    active_wait_ids: tuple[str, ...] = ()
    last_wait_state: WaitStatus | None = None
    last_wait_event_at: int | None = None
    """Epoch seconds; None: there was no wait."""


class AlsoStuck(Value):
    """Another stuck task of the same session, named beside the packet."""

    task_id: str
    name: str
    reason: str


class ResumePacket(Value):
    """Everything an agent needs to carry on, in at most 4,096 bytes of JSON."""

    v: Literal[1] = 1
    wake_id: str
    task_id: str
    name: str
    status: TaskStatus
    progress: Progress
    plan: tuple[str, ...]
    """The checklist, or the window of it that starts at `plan_from`."""
    plan_from: int | None = None
    """The step, counted from 0, that `plan` starts at; None: at the first."""
    recent_messages: tuple[PacketMessage, ...] = ()
    """The last 3 to 5 meaningful messages, oldest first."""
    wait: PacketWait = PacketWait()
    reason: str
    suggested_next_action: str
    background: str | None = None
    """That it goes on in the background, and who sent it there with what words."""
    original_request: str | None = None
    """What the user had asked for, in their words; None: not known."""
    last_response: str | None = None
    """The end of what the agent said last to the user; None: nothing yet."""
    conversation: tuple[ConversationMessage, ...] | None = None
    """The newest few messages of the conversation, oldest first; None: not known."""
    still_running: tuple[str, ...] | None = None
    """Commands and sub-agents that the gateway runs now for the session."""
    do_not_redo: tuple[str, ...] | None = None
    """Calls of tools that were made already and left something behind, the gravest
    first, among equals the newest; None: none is known."""
    unknown_outcome: tuple[str, ...] | None = None
    """Calls of tools that were cut: look before doing them again; None: none was."""
    do_not_revive: tuple[str, ...] | None = None
    """What was called off, oldest first; None: nothing."""
    past_more: int | None = None
    """How many older ones these three leave out, see `task_status`; None: none."""
    urgency: Literal["high"] | None = None
    """`high` after several failed waits in a row; None: ordinary."""
    extra: Mapping[str, JsonValue] | None = None
    """Room for plug-ins; the first to go when the packet is too large."""
    also_stuck: tuple[AlsoStuck, ...] | None = None
    """Other stuck tasks of the session, at most ten; None: there are none."""
    also_stuck_more: int | None = None
    """How many more there are than `also_stuck` names; None: no more."""
