"""What a gateway's plug-in reports, an event each. All times in milliseconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

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
from openclaw_taskmem.domain.turns import Origin
from taskmem_hookspecs import FileChange, InvalidArguments

LABEL: Final = 200
"""Characters of the name of a tool or of a call."""
MOST: Final = 1000
"""Events in one report."""
Key = Annotated[str, Field(max_length=10_000)]
Keys = Annotated[tuple[Key, ...], Field(max_length=10_000)]


def _clip_text(said: object) -> object:
    """Keep the beginning of what others said, cut wherever they have cut it."""
    if not isinstance(said, str):
        return said
    return said[:10_000].encode(errors="replace").decode()


def _replace_surrogates(said: object) -> object:
    """Keep all that others said, as far as it is text."""
    return said.encode(errors="replace").decode() if isinstance(said, str) else said


def _clip_label(said: object) -> object:
    """Keep the beginning of what is hardly ever long."""
    legible = _clip_text(said)
    return legible[:LABEL] if isinstance(legible, str) else legible


def _check_key(key: str) -> str:
    fault = find_key_fault(key)
    if fault is not None:
        raise ValueError(fault)
    return key


Kept = Annotated[str, AfterValidator(_check_key)]
"""What runs are found by, and so goes into an index."""
ReportedText = Annotated[str, BeforeValidator(_clip_text)]
Words = Annotated[str, BeforeValidator(_replace_surrogates)]
Label = Annotated[str, BeforeValidator(_clip_label)]


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    number: Annotated[int, Field(ge=1, le=2**53)] | None = None
    """It grows with every event of a start; None: heard as often as it is told."""


class RunningWorkReport(BaseModel):
    """What a gateway runs for a session, beside its turn."""

    kind: Literal["command", "sub_agent"]
    name: Label
    about: ReportedText = ""
    age: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """Since it began, as far as the gateway's plug-in knows."""


AllStillRunning = Annotated[tuple[RunningWorkReport, ...], Field(max_length=100)]


class GatewayStarted(_Event):
    """A gateway is there: it has started, or has found its daemon again."""

    kind: Literal["gateway"]
    boot: Key
    """One per start of the gateway or of its plug-in."""
    age: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """Since that start."""
    host: Key | None = None
    """Which OpenClaw it is, as in `Wake.host`; None: its plug-in does not say."""
    transport: Key
    version: Key
    main: Key
    """The session of wakes that name none."""
    running: Keys = ()
    """The sessions in which a turn runs, as in every event of a turn."""
    fingerprints: Annotated[dict[Key, Key], Field(max_length=1000)] = {}
    """Of what shapes each agent's prompt, by the agent's id."""
    at_work: Annotated[dict[Key, AllStillRunning], Field(max_length=10_000)] = {}
    """What it runs, by session."""


class GatewayStopped(_Event):
    """A gateway stops in order."""

    kind: Literal["gateway_stopped"]


class SessionActivity(_Event):
    """Something that shows a session at work."""

    session_key: Kept
    agent_id: Kept | None = None
    folder: Key | None = None
    """The folder that the agent works in."""
    fingerprint: Key | None = None
    """Of what shapes the agent's prompt."""


class TurnStarted(SessionActivity):
    """A turn has begun."""

    kind: Literal["turn_started"]
    running: Keys = ()
    origin: Origin = Origin.OTHER


class TouchedFile(BaseModel):
    """What a tool did to a file."""

    path: Key
    change: FileChange


class _ToolActivity(SessionActivity):
    """A call of a tool, and what it may do to files."""

    folders: Annotated[tuple[Key, ...], Field(max_length=100)] = ()
    """The folders that it uses, absolute."""
    command: bool = False
    """Whether it may change anything in them, as a command may."""


class ToolStarted(_ToolActivity):
    """A call of a tool has begun."""

    kind: Literal["tool_started"]
    call_id: Label
    tool: Label
    about: ReportedText = ""
    method: Label | None = None
    """The HTTP method, or the action, that it was given."""
    request: ReportedText | None = None
    """What the user said in the turn; None: no user has begun it."""


class ConversationLine(_Event):
    """A message of the conversation."""

    role: Literal["user", "assistant"]
    text: ReportedText


class ToolCalled(_ToolActivity):
    """A call of a tool has ended."""

    kind: Literal["tool_called"]
    call_id: Label = ""
    tool: Label = ""
    about: ReportedText = ""
    method: Label | None = None
    outcome: ReportedText = ""
    given: Key = ""
    """A digest of what it was given."""
    result: Key = ""
    """A digest of what it answered."""
    exit_code: int | None = None
    failed: bool = False
    ms: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    touched: Annotated[tuple[TouchedFile, ...], Field(max_length=1000)] = ()
    """The files that it says it has changed, by their absolute paths."""
    said: Annotated[tuple[ConversationLine, ...], Field(max_length=1000)] = ()
    """Messages of the conversation since the call before."""


class ModelAnswered(_Event):
    """A model has answered in a turn that took messages."""

    kind: Literal["answered"]
    session_key: Key
    deliveries: Keys = ()
    """The messages, by their `delivery_id`."""


class TurnNotStarted(_Event):
    """The gateway has taken a turn of ours, and gave it up before it began."""

    kind: Literal["turn_not_started"]
    session_key: Key
    deliveries: Keys = ()
    """The messages that wait for it, by their `delivery_id`."""
    error: ReportedText
    """Why, in the gateway's words."""


class TurnEndReport(SessionActivity):
    """A turn has ended."""

    kind: Literal["turn_ended"]
    running: Keys = ()
    deliveries: Keys = ()
    """The messages that it took and no `answered` told of, by their `delivery_id`."""
    error: ReportedText | None = None
    """Why no model has answered; None: one has."""
    origin: Origin = Origin.OTHER
    failed: ReportedText | None = None
    """Why the gateway gave the turn up, also where a model had answered before."""
    reason: ReportedText | None = None
    """What the gateway calls that failure."""
    aborted: bool = False
    """Whether somebody stopped it."""
    stopped: bool = False
    """Whether the plug-in did, as the daemon told it to."""
    cut: bool = False
    """Whether the gateway stopped under it."""
    said: ReportedText = ""
    """The end of what the agent said last."""
    words: Words = ""
    """All of it, where we began the turn: nobody else brings it to the user."""
    calls: Annotated[int, Field(ge=0)] = 0
    """Calls of tools in it."""
    children: Annotated[int, Field(ge=0)] = 0
    """Sub-agents of the session that still run."""
    at_work: AllStillRunning = ()
    """What the gateway runs for the session."""
    awaited: Annotated[tuple[ReportedText, ...], Field(max_length=100)] = ()
    """The commands that the gateway runs in the background for the session."""
    scheduled: Annotated[tuple[ReportedText, ...], Field(max_length=1000)] = ()
    """What its agent has had the gateway begin by itself, now or within the hour."""


class AwaitedEnded(SessionActivity):
    """What a session may have waited for has ended."""

    kind: Literal["awaited_ended"]
    name: Label
    how: ReportedText = ""
    """How it ended, in the gateway's words."""


class QuestionAnswered(_Event):
    """A user has answered a question by a button, or in words beside it."""

    kind: Literal["question_answered"]
    key: Key
    answer: ReportedText


class OtherEvent(_Event):
    """Something else happened: it is counted, and shown by `taskmem status`."""

    kind: Literal["compacted", "session_started", "session_ended"]
    session_key: Key | None = None


Work = TurnStarted | ToolStarted | ToolCalled | TurnEndReport | AwaitedEnded
"""What shows a session at work."""
Event = (
    OtherEvent
    | GatewayStarted
    | GatewayStopped
    | ModelAnswered
    | TurnNotStarted
    | QuestionAnswered
    | Work
)

_EVENTS: Final = TypeAdapter(Annotated[list[dict[str, Any]], Field(max_length=MOST)])
_STILL_RUNNING: Final = TypeAdapter(AllStillRunning)
_KINDS: Final[Mapping[object, type[Event]]] = {
    "gateway": GatewayStarted,
    "gateway_stopped": GatewayStopped,
    "turn_started": TurnStarted,
    "tool_started": ToolStarted,
    "tool_called": ToolCalled,
    "compacted": OtherEvent,
    "session_started": OtherEvent,
    "session_ended": OtherEvent,
    "answered": ModelAnswered,
    "turn_not_started": TurnNotStarted,
    "awaited_ended": AwaitedEnded,
    "question_answered": QuestionAnswered,
    "turn_ended": TurnEndReport,
}


def parse_still_running(given: object) -> tuple[RunningWorkReport, ...] | None:
    """Return what a gateway runs for a session; None: it said nothing that is clear."""
    try:
        return None if given is None else _STILL_RUNNING.validate_python(given)
    except ValidationError:
        return None


def parse_report(params: Mapping[str, object]) -> list[Event]:
    """Return the events of a report, in order; kinds that are not known are left out.

    Raises:
        InvalidArguments: It holds something that is no event.
    """
    try:
        events = _EVENTS.validate_python(params.get("events"))
        forms = ((_KINDS.get(str(event.get("kind"))), event) for event in events)
        return [form.model_validate(event) for form, event in forms if form is not None]
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(["events", *map(str, first["loc"])])
        said = first["msg"].removeprefix("Value error, ")
        raise InvalidArguments(f"In a report, {place}: {said}.") from None
