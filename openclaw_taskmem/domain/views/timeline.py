"""Tell the story of a task from its log: what happened when, and its runs.

All of it is read from events, messages and calls that are stored anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final, NamedTuple, cast

from openclaw_taskmem.domain import callers, events
from openclaw_taskmem.domain.callers import CallerKind
from openclaw_taskmem.domain.conditions.targets import describe_target
from openclaw_taskmem.domain.effects.checkpoints import PastCall
from openclaw_taskmem.domain.effects.side_effects import is_shell
from openclaw_taskmem.domain.runs.current_run import RunReason
from openclaw_taskmem.domain.tasks import lifecycle
from openclaw_taskmem.domain.text.texts import (
    format_count,
    format_duration,
    format_step_numbers,
    to_one_line,
)
from taskmem_hookspecs import Event, Message, RunState, Task, Value, WaitStatus
from taskmem_hookspecs.model import Instant

Data = Mapping[str, Any]
"""The data of a log entry."""


class EntryKind(StrEnum):
    """The subject of an entry; people choose which kinds they see."""

    MESSAGE = "message"
    CALL = "call"
    PLAN = "plan"
    WAIT = "wait"
    WAKE = "wake"
    RUN = "run"
    PROOF = "proof"
    TOLD = "told"
    """A line that the user was told."""


class Tone(StrEnum):
    """How an entry is to be taken."""

    PLAIN = "plain"
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"


class TimelineEntry(Value):
    """One thing that happened to a task."""

    at: Instant
    kind: EntryKind
    title: str
    text: str = ""
    """Further lines; empty: none."""
    tone: Tone = Tone.PLAIN
    event_id: int = 0
    """The log entry that it is from; 0: it is a message or a call."""
    wait_id: str | None = None


class RunSpan(Value):
    """A stretch of time in which a run was in one state."""

    state: RunState
    why: str
    """Reason for the state; empty: none."""
    began_at: Instant
    ended_at: Instant


class RunBar(Value):
    """A run over time."""

    run_id: str
    owner: str
    """Role of its last owner; empty: it never had one."""
    spans: tuple[RunSpan, ...]


class _Told(NamedTuple):
    kind: EntryKind
    title: str
    text: str = ""
    tone: Tone = Tone.PLAIN


def build_timeline(
    log: Iterable[Event], messages: Iterable[Message], calls: Iterable[PastCall]
) -> Sequence[TimelineEntry]:
    """Return what happened, the oldest first; entries that say nothing new are left out."""
    found = [entry for event in log if (entry := _build_entry(event)) is not None]
    found += map(_build_message_entry, messages)
    found += map(_build_call_entry, calls)
    told = (entry for entry in found if entry.text or entry.kind is not EntryKind.MESSAGE)
    return sorted(told, key=attrgetter("at"))


def tell_event(event: Event) -> str:
    """Say what a log entry means to people, in one line; empty: nothing of its own."""
    title, *lines = tell_event_lines(event) or [""]
    return f"{title}: {to_one_line(chr(10).join(lines))}" if lines else title


def tell_event_lines(event: Event) -> Sequence[str]:
    """Say the same in a title and further lines; empty: nothing of its own."""
    entry = _build_entry(event)
    return [] if entry is None else [entry.title, *entry.text.splitlines()]


def build_run_bars(log: Iterable[Event], now: datetime) -> Sequence[RunBar]:
    """Return the runs of a task over time, the first one first; an open one lasts until `now`."""
    spans: dict[str, list[RunSpan]] = {}
    owners: dict[str, str] = {}
    for event in log:
        if event.run_id is None or event.kind not in (events.RUN_CHANGED, events.RUN_CLAIMED):
            continue
        owner = event.data.get("owner")
        if isinstance(owner, Mapping):
            owners[event.run_id] = str(cast("Data", owner).get("role", ""))
        of_run = spans.setdefault(event.run_id, [])
        if event.kind != events.RUN_CHANGED:
            continue
        if of_run:
            of_run[-1] = of_run[-1].model_copy(update={"ended_at": event.at})
        state = RunState(str(event.data.get("to")))
        why = _tell_why(event.data)
        ends = event.at if state.terminal else max(now, event.at)
        of_run.append(RunSpan(state=state, why=why, began_at=event.at, ended_at=ends))
    return [
        RunBar(run_id=run_id, owner=owners.get(run_id, ""), spans=tuple(of_run))
        for run_id, of_run in spans.items()
        if of_run
    ]


def _read_steps(data: Data, name: str) -> frozenset[int]:
    """Return the steps that a log entry names, from 0."""
    named = data.get(name)
    steps = cast("list[int]", named) if isinstance(named, list) else []
    return frozenset(steps)


def _build_message_entry(message: Message) -> TimelineEntry:
    # The names of two states are left out; the log's entry says the new one in words.
    text, writer = lifecycle.read_reason(message), callers.find_writer(message)
    title = "Task memory noted" if writer is None else f"{writer.subject} wrote"
    return TimelineEntry(at=message.created_at, kind=EntryKind.MESSAGE, title=title, text=text)


def _build_call_entry(call: PastCall) -> TimelineEntry:
    tone, end = {
        True: (Tone.PLAIN, ""),
        False: (Tone.BAD, " failed"),
        None: (Tone.WARN, ": its end was not seen"),
    }[call.ok]
    text = "\n".join(filter(None, (call.about, call.outcome)))
    title = f"{'Command' if is_shell(call.tool) else f'Tool {call.tool}'}{end}"
    return TimelineEntry(at=call.at, kind=EntryKind.CALL, title=title, text=text, tone=tone)


def _build_entry(event: Event) -> TimelineEntry | None:
    """Return the entry of an event; None: others tell all that it says."""
    teller = _TELLERS.get(event.kind)
    told = teller(event.data) if teller else None
    if told is None:
        return None
    return TimelineEntry(
        at=event.at,
        kind=told.kind,
        title=told.title,
        text=told.text,
        tone=told.tone,
        event_id=event.event_id,
        wait_id=event.wait_id,
    )


def _tell_registered(data: Data) -> _Told:
    steps = format_count(int(data.get("steps") or 0), "step")
    return _Told(EntryKind.PLAN, f"Registered with {steps}")


def _tell_updated(data: Data) -> _Told | None:
    marked, unmarked = _read_steps(data, "marked"), _read_steps(data, "unmarked")
    by = lifecycle.read_caller_kind(data).word
    sentences = [f"Ticked by {by}: step {format_step_numbers(marked)}"] if marked else []
    sentences += [f"Reopened: step {format_step_numbers(unmarked)}"] if unmarked else []
    return _Told(EntryKind.PLAN, "; ".join(sentences)) if sentences else None


def _tell_revised(data: Data) -> _Told:
    steps = format_count(int(data.get("steps") or 0), "step")
    return _Told(EntryKind.PLAN, f"Planned anew, {steps}", str(data.get("reason") or ""))


def _tell_status(data: Data) -> _Told:
    to = str(data.get("to"))
    by = f" by {lifecycle.read_caller_kind(data).word}" if data.get("by") else ""
    tone = {"completed": Tone.GOOD, "failed": Tone.BAD}.get(to, Tone.PLAIN)
    return _Told(EntryKind.RUN, f"Task {to}{by}", _tell_why(data), tone)


def _tell_why(data: Data) -> str:
    """Return the reason of a change of state in words; empty: it has none."""
    why = str(data.get("why") or "")
    return _REASON_WORDS.get(why, why.replace("_", " "))


def _tell_run(data: Data) -> _Told | None:
    before, to = data.get("from"), str(data.get("to"))
    if to in (RunState.COMPLETED, RunState.CANCELLED):
        return None  # the change of the task's status says it
    why = _tell_why(data)
    owner = data.get("owner")
    role = cast("Data", owner).get("role") if isinstance(owner, Mapping) else None
    who = f" by {role}" if to == RunState.RUNNING and role else ""
    verb = _RUN_VERBS.get(to, "Work goes on")
    if before is None:
        verb = "Work begins"
    elif to == RunState.RUNNING and before == RunState.QUEUED:
        verb = "Taken up"
    tone = {"failed": Tone.BAD, "blocked": Tone.WARN, "review": Tone.WARN}.get(to, Tone.PLAIN)
    return _Told(EntryKind.RUN, f"{verb}{who}", why, tone)


def _tell_opened(data: Data) -> _Told:
    title = f"Waits for {describe_target(str(data.get('target')))}"
    timeout = data.get("timeout")
    limit = f"\nfor {format_duration(float(timeout))} at most" if timeout else ""
    return _Told(EntryKind.WAIT, title, f"until {data.get('wake_when')}{limit}{_tell_judges(data)}")


def _tell_rearmed(data: Data) -> _Told:
    note_line = f";\n{note}" if (note := data.get("note")) else ""
    text = f"until {data.get('wake_when')}{note_line}{_tell_judges(data)}"
    return _Told(EntryKind.WAIT, "Wait changed", text)


def _tell_judges(data: Data) -> str:
    """Say which sides of a condition a reader decides; empty: none, or it was not logged."""
    sides = data.get("understood")
    rows = cast("list[Data]", sides) if isinstance(sides, list) else []
    asked = [row for row in rows if row.get("judged_by") != "rules"]
    return "".join(f";\n{row.get('side')}: {row.get('judged_by')} decides" for row in asked)


def _tell_ended(data: Data) -> _Told:
    status, took = str(data.get("status")), data.get("elapsed_seconds")
    after = f" after {format_duration(float(took))}" if took is not None else ""
    tones = {WaitStatus.RESOLVED: Tone.GOOD, WaitStatus.CANCELLED: Tone.PLAIN}
    tone = tones.get(WaitStatus(status), Tone.WARN)
    return _Told(EntryKind.WAIT, f"Wait {status}{after}", str(data.get("observation") or ""), tone)


def _tell_acknowledged(data: Data) -> _Told:
    command = data.get("command")
    title = f"{command} told how it ended" if command else "The agent acted on it"
    return _Told(EntryKind.WAKE, title, tone=Tone.GOOD)


def _tell_checked(data: Data) -> _Told:
    checked = data.get("checked")
    rows = cast("list[Data]", checked) if isinstance(checked, list) else []
    good = all(row.get("verdict") == "verified" for row in rows)
    lines = dict.fromkeys(f"{row.get('subject')}: {_tell_verdict(row)}" for row in rows)
    return _Told(
        EntryKind.PROOF,
        "Task memory looked at what was made",
        ";\n".join(lines),
        Tone.GOOD if good else Tone.BAD,
    )


def _tell_verdict(row: Data) -> str:
    """Say what was tested of a thing and found; of a plug-in's own kinds, only the latter."""
    found = str(row.get("verdict"))
    return _VERDICTS.get((str(row.get("kind")), found)) or _FINDINGS.get(
        found, "could not be tested"
    )


_FINDINGS: Final = {"verified": "tested, and found to be so", "refuted": "tested, and not so"}
_VERDICTS: Final = {
    ("file", "verified"): "exists, is not empty, and was created or changed during the task",
    ("file", "refuted"): "was not found as the task needs it",
    ("command", "verified"): "ended well",
    ("command", "refuted"): "did not end well",
    ("url", "verified"): "answers",
    ("url", "refuted"): "does not answer",
}


def _tell_refused(data: Data) -> _Told:
    reason = str(data.get("missing") or data.get("why") or "")
    return _Told(EntryKind.PROOF, "Completion refused", reason, Tone.BAD)


def _tell_answer(data: Data) -> _Told:
    by = lifecycle.read_caller_kind(data) if data.get("by") else CallerKind.USER
    return _Told(EntryKind.TOLD, f"{by.subject} answered", str(data.get("answer") or ""))


def _tell_line(data: Data) -> _Told | None:
    line = str(data.get("line") or "")
    return _Told(EntryKind.TOLD, "For you", line) if line else None


def _tell(kind: EntryKind, title: str, field: str = "", tone: Tone = Tone.PLAIN) -> _Teller:
    return lambda data: _Told(kind, title, str(data.get(field) or "") if field else "", tone)


_RUN_VERBS: Final[Mapping[str, str]] = {
    RunState.QUEUED: "To be taken up",
    RunState.BLOCKED: "Work stopped",
    RunState.REVIEW: "Handed to you for review",
    RunState.FAILED: "Work failed",
}
_REASON_WORDS: Final[Mapping[str, str]] = {
    RunReason.QUESTION: "its agent asks you",
    RunReason.ANSWERED: "its agent has your answer",
    RunReason.STOPPED: "somebody stopped its agent",
    RunReason.PAUSED: "it was paused",
    RunReason.STALE: "it was interrupted too long ago to go on without asking you",
    RunReason.PROMPT_CHANGED: "its agent's instructions have changed",
    RunReason.CREDENTIALS: "the model's provider takes no key, or wants to be paid",
    RunReason.INTERRUPTED: "its gateway restarted",
    RunReason.LEASE_EXPIRED: "its agent gave no sign any more",
    RunReason.OWNER_GONE: "its agent's process has ended",
    RunReason.RESET: "it was reset",
    RunReason.BACKGROUND: "it goes on in a session of its own",
    RunReason.HANDED_OFF: "",
    RunReason.STALLED: "too many turns brought nothing new",
    RunReason.ROUNDS: "its agent was told to go on too often",
    RunReason.HOURS: "its agent has worked on it for too long",
    RunReason.PROVIDER: "the model's provider failed too often",
    RunReason.ABORTED: "its agent gave up",
}
"""Words to people for each reason of a run's state."""


_Teller = Callable[[Data], _Told | None]
_TELLERS: Final[Mapping[str, _Teller]] = {
    events.TASK_REGISTERED: _tell_registered,
    events.TURN_COVERED: _tell(EntryKind.PLAN, "Covered by a task of its own"),
    events.TASK_UPDATED: _tell_updated,
    events.PLAN_REVISED: _tell_revised,
    events.TASK_RELEASED: _tell(EntryKind.PLAN, "A task that blocked it has ended", "by"),
    events.STATUS_CHANGED: _tell_status,
    events.RUN_CHANGED: _tell_run,
    events.RUN_CLAIMED: _tell(EntryKind.RUN, "Claimed anew"),
    events.RUN_AWAITS: _tell(EntryKind.RUN, "Rests while its gateway works for it"),
    events.RUN_STALLED: _tell(EntryKind.RUN, "No progress any more", tone=Tone.BAD),
    events.PROVIDER_FAILED: _tell(EntryKind.RUN, "The model failed", "error", Tone.WARN),
    events.WAIT_OPENED: _tell_opened,
    events.WAIT_UPDATED: _tell_rearmed,
    events.WAIT_ENDED: _tell_ended,
    events.TASK_STUCK: _tell(
        EntryKind.WAKE, "Silent for too long; a wake is due for its agent", tone=Tone.WARN
    ),
    events.WAKE_SENT: _tell(EntryKind.WAKE, "Wake sent"),
    events.WAKE_FAILED: _tell(EntryKind.WAKE, "Wake not delivered", "error", Tone.WARN),
    events.WAKE_LOST: _tell(EntryKind.WAKE, "Wake lost, and sent again", "error", Tone.WARN),
    events.WAKE_REFUSED: _tell(EntryKind.WAKE, "Wake refused", "error", Tone.BAD),
    events.WAKE_ACKNOWLEDGED: _tell_acknowledged,
    events.WAKE_SUPERSEDED: _tell(EntryKind.WAKE, "Wake not needed any more"),
    events.WAKE_UNANSWERED: _tell(EntryKind.WAKE, "Nobody acted on the wake", tone=Tone.BAD),
    events.EVIDENCE_CHECKED: _tell_checked,
    events.COMPLETION_REFUSED: _tell_refused,
    events.COMPLETION_ACCEPTED: _tell(EntryKind.PROOF, "Accepted by you", "because", Tone.GOOD),
    events.FAILURE_SEEN: _tell(EntryKind.RUN, "You have seen that it failed"),
    events.MILESTONE: _tell_line,
    events.NOTICE: _tell_line,
    events.QUESTION_ANSWERED: _tell_answer,
}
"""Tellers by kind of log entry; kinds that are missing say nothing of their own to people."""


def find_whole_part(task: Task, log: Sequence[Event], thinned: int) -> Sequence[Event]:
    """Return the newest part of a task's log in which nothing is missing.

    Args:
        task: The task; nothing is dropped of the log of one that never ended.
        log: The newest entries of its log that are left, oldest first.
        thinned: Id of the newest entry of any task that was dropped; 0: none was.
    """
    ended = task.status.terminal or any(event.kind == events.STATUS_CHANGED for event in log)
    gone = [n for n, event in enumerate(log) if event.event_id <= thinned] if ended else []
    return log[gone[-1] + 1 :] if gone else log
