"""What a gateway's plug-in reports, an event each. All times in milliseconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
)

from taskmem_hookspecs import InvalidArguments

MOST: Final = 1000
"""Events in one report."""
Key = Annotated[str, Field(max_length=10_000)]
Keys = Annotated[tuple[Key, ...], Field(max_length=10_000)]


def _legible(said: object) -> object:
    """Keep the beginning of what others said, cut wherever they have cut it."""
    if not isinstance(said, str):
        return said
    return said[:10_000].encode(errors="replace").decode()


Said = Annotated[str, BeforeValidator(_legible)]


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Started(_Event):
    """A gateway is there: it has started, or has found its daemon again."""

    kind: Literal["gateway"]
    boot: Key
    """One per start of the gateway or of its plug-in."""
    age: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """Since that start."""
    transport: Key
    version: Key
    main: Key
    """The session of wakes that name none."""
    running: Keys = ()
    """The sessions in which a turn runs, as in every event of a turn."""


class Stopped(_Event):
    """A gateway stops in order."""

    kind: Literal["gateway_stopped"]


class TurnStarted(_Event):
    """A turn has begun."""

    kind: Literal["turn_started"]
    session_key: Key
    running: Keys = ()


class Answered(_Event):
    """A model has answered in a turn that took messages."""

    kind: Literal["answered"]
    session_key: Key
    deliveries: Keys = ()
    """The messages, by their `delivery_id`."""


class TurnEnded(_Event):
    """A turn has ended."""

    kind: Literal["turn_ended"]
    session_key: Key
    running: Keys = ()
    deliveries: Keys = ()
    """The messages that it took and no `answered` told of, by their `delivery_id`."""
    error: Said | None = None
    """Why no model has answered; None: one has."""


class Noted(_Event):
    """Something else happened: it is counted, and shown by `taskmem status`."""

    kind: Literal["tool_called", "compacted", "session_started", "session_ended"]
    session_key: Key | None = None


Event = Noted | Started | Stopped | TurnStarted | Answered | TurnEnded

_EVENTS: Final = TypeAdapter(Annotated[list[dict[str, Any]], Field(max_length=MOST)])
_KINDS: Final[Mapping[object, type[Event]]] = {
    "gateway": Started,
    "gateway_stopped": Stopped,
    "turn_started": TurnStarted,
    "tool_called": Noted,
    "compacted": Noted,
    "session_started": Noted,
    "session_ended": Noted,
    "answered": Answered,
    "turn_ended": TurnEnded,
}


def parse(params: Mapping[str, object]) -> list[Event]:
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
        raise InvalidArguments(f"In a report, {place}: {first['msg']}.") from None
