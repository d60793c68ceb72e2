"""Parse the events that gateways report, and apply them to runs.

All times in events are in milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
)

from openclaw_taskmem.domain.callers import find_key_fault
from openclaw_taskmem.domain.changes.continuation import Origin, Turn
from openclaw_taskmem.domain.conditions.session_states import WorkEnd
from openclaw_taskmem.domain.effects.checkpoints import CallEndEntry, CallStartEntry
from openclaw_taskmem.domain.tasks.ledger import FileTouch
from openclaw_taskmem.engine import sub_agents, turns
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.ledger import FileActivity
from openclaw_taskmem.engine.turns import ReportContext
from openclaw_taskmem.tools import catalog
from taskmem_hookspecs import FileChange, InvalidArguments
from taskmem_hookspecs.packet import ConversationMessage

_LABEL_CHARS: Final = 200
"""Maximum length of a tool's or call's name, in characters."""
MOST_EVENTS: Final = 1000
"""Maximum number of events in one report."""
_PREFIX: Final = "taskmem__"
"""Prefix that a host adds to the names of our tools."""
_LONGEST_CALL_MS: Final = 1e9
"""Maximum duration of a call that is believed, in milliseconds (about eleven days)."""
OWN_TOOLS: Final = frozenset(tool.name for tool in catalog.TOOLS)
Key = Annotated[str, Field(max_length=10_000)]
Keys = Annotated[tuple[Key, ...], Field(max_length=10_000)]


def _clip_text(value: object) -> object:
    """Keep the first 10,000 characters; replace half a surrogate pair at the end."""
    if not isinstance(value, str):
        return value
    return value[:10_000].encode(errors="replace").decode()


def _replace_surrogates(value: object) -> object:
    """Replace lone surrogates, which cannot be encoded."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def _clip_label(value: object) -> object:
    """Keep the first `_LABEL_CHARS` characters."""
    legible = _clip_text(value)
    return legible[:_LABEL_CHARS] if isinstance(legible, str) else legible


def _check_key(key: str) -> str:
    fault = find_key_fault(key)
    if fault is not None:
        raise ValueError(fault)
    return key


IndexedKey = Annotated[str, AfterValidator(_check_key)]
"""A key that the store indexes, such as a session key."""
_ReportedText = Annotated[str, BeforeValidator(_clip_text)]
Words = Annotated[str, BeforeValidator(_replace_surrogates)]
Label = Annotated[str, BeforeValidator(_clip_label)]
_Milliseconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    number: Annotated[int, Field(ge=1, le=2**53)] | None = None
    """Sequence number within a gateway's start; None: the event has none, and is handled each time
    it is reported."""


class RunningWorkReport(BaseModel):
    """A command or sub-agent that a gateway runs for a session, outside its turn."""

    kind: Literal["command", "sub_agent"]
    name: Label
    about: _ReportedText = ""
    age: _Milliseconds
    """Since its start, as far as the gateway's plug-in knows."""


_AllStillRunning = Annotated[tuple[RunningWorkReport, ...], Field(max_length=100)]


class GatewayStarted(_Event):
    """A gateway has started, or has reconnected to its daemon."""

    kind: Literal["gateway"]
    boot: Key
    """Unique for each start of the gateway or of its plug-in."""
    age: _Milliseconds
    """Since that start."""
    host: Key | None = None
    """Id of the OpenClaw, as in `Wake.host`; None: not reported."""
    transport: Key
    version: Key
    main: Key
    """Session for wakes that name none."""
    running: Keys = ()
    """Sessions with a running turn, as in every event of a turn."""
    turn_ages: Annotated[dict[Key, _Milliseconds], Field(max_length=10_000)] = {}
    """Since the start of each of these turns; of one that is not named, the start is not known."""
    fingerprints: Annotated[dict[Key, Key], Field(max_length=1000)] = {}
    """Fingerprints of the inputs of each agent's prompt, by agent id."""
    at_work: Annotated[dict[Key, _AllStillRunning], Field(max_length=10_000)] = {}
    """Commands and sub-agents that it runs, by session."""


class GatewayStopped(_Event):
    """A gateway shuts down in order."""

    kind: Literal["gateway_stopped"]


class SessionActivity(_Event):
    """An event that shows a session at work."""

    session_key: IndexedKey
    agent_id: IndexedKey | None = None
    folder: Key | None = None
    """Working directory of the agent."""
    fingerprint: Key | None = None
    """Fingerprint of the inputs of the agent's prompt."""


class TurnStarted(SessionActivity):
    """A turn has begun."""

    kind: Literal["turn_started"]
    running: Keys = ()
    origin: Origin = Origin.OTHER


class TouchedFile(BaseModel):
    """A file that a tool created, changed or removed."""

    path: Key
    change: FileChange


class _ToolActivity(SessionActivity):
    """A tool call and the folders it uses."""

    folders: Annotated[tuple[Key, ...], Field(max_length=100)] = ()
    """Absolute paths of the folders it uses."""
    command: bool = False
    """True if it may change any file in them, as a command may."""


class ToolStarted(_ToolActivity):
    """A tool call has begun."""

    kind: Literal["tool_started"]
    call_id: Label
    tool: Label
    about: _ReportedText = ""
    method: Label | None = None
    """HTTP method or action of the call."""
    request: _ReportedText | None = None
    """The user's words in this turn; None: no user began it."""


class ConversationLine(_Event):
    """A message of the conversation."""

    role: Literal["user", "assistant"]
    text: _ReportedText


class ToolCalled(_ToolActivity):
    """A tool call has ended."""

    kind: Literal["tool_called"]
    call_id: Label = ""
    tool: Label = ""
    about: _ReportedText = ""
    method: Label | None = None
    outcome: _ReportedText = ""
    given: Key = ""
    """Digest of its arguments."""
    result: Key = ""
    """Digest of its result."""
    exit_code: int | None = None
    failed: bool = False
    ms: _Milliseconds = 0.0
    touched: Annotated[tuple[TouchedFile, ...], Field(max_length=1000)] = ()
    """Files that the tool reports as changed, with absolute paths."""
    said: Annotated[tuple[ConversationLine, ...], Field(max_length=1000)] = ()
    """Messages of the conversation since the previous call."""


class ModelAnswered(_Event):
    """The agent acts in a turn that took delivered messages, so they have arrived."""

    kind: Literal["answered"]
    session_key: Key
    deliveries: Keys = ()
    """Those messages, by `delivery_id`."""


class TurnNotStarted(_Event):
    """The gateway accepted a turn from us and gave it up before it began."""

    kind: Literal["turn_not_started"]
    session_key: Key
    deliveries: Keys = ()
    """The messages for it, by `delivery_id`."""
    error: _ReportedText
    """The reason, in the gateway's words."""


class TurnEndReport(SessionActivity):
    """A turn has ended."""

    kind: Literal["turn_ended"]
    running: Keys = ()
    deliveries: Keys = ()
    """Messages that the turn took and no `answered` event named, by `delivery_id`."""
    error: _ReportedText | None = None
    """Why no model answered; None: one did."""
    origin: Origin = Origin.OTHER
    failed: _ReportedText | None = None
    """Why the gateway gave up the turn, even after a model answered."""
    reason: _ReportedText | None = None
    """The kind of that failure, as in `ProviderFailureKind`; None, or another word: not known."""
    aborted: bool = False
    """True if the turn was stopped."""
    stopped: bool = False
    """True if our plug-in stopped it on the daemon's order."""
    cut: bool = False
    """True if the gateway shut down during the turn."""
    said: _ReportedText = ""
    """The end of the agent's last reply; empty: it had nothing to say to its user."""
    words: Words = ""
    """The whole reply if we began the turn, since the gateway then shows it to nobody."""
    calls: Annotated[int, Field(ge=0)] = 0
    """Number of tool calls in the turn."""
    children: Annotated[int, Field(ge=0)] = 0
    """Number of the session's sub-agents that still run."""
    at_work: _AllStillRunning = ()
    """Commands and sub-agents that the gateway runs for the session."""
    awaited: Annotated[tuple[_ReportedText, ...], Field(max_length=100)] = ()
    """Commands that the gateway runs in the background for the session."""
    scheduled: Annotated[tuple[_ReportedText, ...], Field(max_length=1000)] = ()
    """Automations of the session's agent that run in the gateway, or may within the hour."""


class AwaitedEnded(SessionActivity):
    """A command or sub-agent that a session may have waited for has ended."""

    kind: Literal["awaited_ended"]
    name: Label
    how: _ReportedText = ""
    """How it ended, in the gateway's words."""


class SubAgentStarted(SessionActivity):
    """A sub-agent begins to work, or works on; the session is the one for which its calls count."""

    kind: Literal["sub_agent_started"]
    child: IndexedKey
    """Its session key."""
    parent: IndexedKey
    """Key of the session that spawned it."""
    label: _ReportedText = ""
    """Its parent's name for it, or its task."""
    child_run: Label | None = None
    """The gateway's id of this work."""


class SubAgentEnded(SessionActivity):
    """A sub-agent's work has ended, or the gateway knows of none any more."""

    kind: Literal["sub_agent_ended"]
    child: IndexedKey
    outcome: Label
    """`ok`, the gateway's word for a failure, or `lost`."""
    error: _ReportedText | None = None
    words: _ReportedText = ""
    """The end of its last words."""


class QuestionAnswered(_Event):
    """A user has answered a question by a button or in words."""

    kind: Literal["question_answered"]
    key: Key
    answer: _ReportedText


class OtherEvent(_Event):
    """Any other event, which is only counted and shown by `taskmem status`."""

    kind: Literal["compacted", "session_started", "session_ended"]
    session_key: Key | None = None


SubAgentWork = SubAgentStarted | SubAgentEnded
"""Events of sub-agents, which show no session at work."""
Work = TurnStarted | ToolStarted | ToolCalled | TurnEndReport | AwaitedEnded
"""Events that show a session at work."""
Event = (
    OtherEvent
    | GatewayStarted
    | GatewayStopped
    | ModelAnswered
    | TurnNotStarted
    | QuestionAnswered
    | SubAgentWork
    | Work
)

_EVENTS: Final = TypeAdapter(Annotated[list[dict[str, Any]], Field(max_length=MOST_EVENTS)])
_STILL_RUNNING: Final = TypeAdapter(_AllStillRunning)
_KINDS: Final[Mapping[str, type[Event]]] = {
    kind: form
    for form in get_args(Event)
    for kind in get_args(form.model_fields["kind"].annotation)
}


def parse_still_running(given: object) -> tuple[RunningWorkReport, ...] | None:
    """Return the work that a gateway reports for a session; None if it is missing or invalid."""
    try:
        return None if given is None else _STILL_RUNNING.validate_python(given)
    except ValidationError:
        return None


def parse_report(params: Mapping[str, object]) -> list[Event]:
    """Return the events of a report in order, without those of unknown kinds.

    Raises:
        InvalidArguments: One of them is not a valid event.
    """
    try:
        events = _EVENTS.validate_python(params.get("events"))
        forms = ((_KINDS.get(str(event.get("kind"))), event) for event in events)
        return [form.model_validate(event) for form, event in forms if form is not None]
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(["events", *map(str, first["loc"])])
        reason = first["msg"].removeprefix("Value error, ")
        raise InvalidArguments(f"In a report, {place}: {reason}.") from None


def apply_work(context: Context, report: ReportContext, event: Work) -> bool:
    """Apply an event to its session's run; return False if its turn must stop.

    Of a call of our own tools, only that the session is active, since the task's thread records
    what they do. A call without a run counts towards an implicit task. A turn that was cut by the
    gateway's shutdown is left to its next start.
    """
    match event:
        case TurnStarted():
            turns.end_left_tasks(context, report, event.origin)
            return turns.record_turn_start(context, report, event.origin)
        case ToolStarted() | ToolCalled() if _is_passed_over(event):
            turns.claim_or_renew_run(context, report)
        case ToolStarted():
            begun = CallStartEntry(
                call_id=event.call_id, tool=event.tool, about=event.about, method=event.method
            )
            if not turns.record_call_start(context, report, begun, build_file_activity(event)):
                turns.note_call(context, report, begun, event.request)
        case ToolCalled():
            ended, files = build_call_end(event), build_file_activity(event)
            digests = {"given": event.given, "result": event.result}
            if not turns.record_call_end(context, report, ended, files, **digests):
                turns.note_call_end(context, report, ended)
        case AwaitedEnded():
            turns.resume_awaiting_run(context, report, event.name, event.how)
        case TurnEndReport():
            turns.forget_calls(context, report)
            if not event.cut:
                turns.settle_turn_end(context, report, _build_turn(event))
    return True


def apply_sub_agent_work(context: Context, report: ReportContext, event: SubAgentWork) -> None:
    """Note that a sub-agent works, or how its work has ended."""
    match event:
        case SubAgentStarted():
            sub_agents.begin_work(
                context,
                report,
                event.child,
                parent=event.parent,
                label=event.label,
                run_id=event.child_run,
            )
        case SubAgentEnded():
            end = WorkEnd(outcome=event.outcome, why=event.error or "", words=event.words)
            sub_agents.end_work(context, report, event.child, end)


def build_call_end(event: ToolCalled) -> CallEndEntry:
    """Return the entry for a checkpoint of a call that has ended."""
    return CallEndEntry(
        call_id=event.call_id,
        tool=event.tool,
        about=event.about,
        method=event.method,
        outcome=event.outcome,
        ok=not event.failed and event.exit_code in (None, 0),
        exit_code=event.exit_code,
        milliseconds=round(min(event.ms, _LONGEST_CALL_MS)),
        said=tuple(ConversationMessage(role=line.role, text=line.text) for line in event.said),
    )


def _build_turn(event: TurnEndReport) -> Turn:
    return Turn(
        origin=event.origin,
        error=event.failed,
        reason=event.reason,
        aborted=event.aborted and not event.stopped,
        stopped=event.stopped,
        said=event.said,
        words=event.words,
        calls=event.calls,
        children=event.children,
        commands=event.awaited,
        scheduled=event.scheduled,
        awaited_age=min((each.age for each in event.at_work), default=0.0) / 1000,
    )


def build_file_activity(
    event: ToolStarted | ToolCalled,
) -> FileActivity:
    """Return what the call may have changed in files."""
    deed = FileActivity(
        call_id=event.call_id or None,
        folders=event.folders,
        command=event.command,
        text=event.about if event.command else "",
    )
    if isinstance(event, ToolStarted):
        return deed
    touched = tuple(FileTouch(path=t.path, change=t.change) for t in event.touched)
    seconds = min(event.ms, _LONGEST_CALL_MS) / 1000
    return deed.model_copy(update={"touched": touched, "seconds": seconds})


def _is_passed_over(event: ToolStarted | ToolCalled) -> bool:
    """Return True for a call of our own tools, and for an end that names no call."""
    own = event.tool.removeprefix(_PREFIX) in OWN_TOOLS
    return own or (isinstance(event, ToolCalled) and not event.call_id)
