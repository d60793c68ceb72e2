"""Checkpoints: what each tool call added, written as deltas and read back as a whole.

A checkpoint holds digests and the beginnings of texts, never whole outputs, and no
credentials. One whose checksum does not fit is passed over; when the two newest are
so, nothing is known. Source: requirement E2, seed 003 §P2.2.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue

from openclaw_taskmem.domain.program_effects import Effect
from openclaw_taskmem.domain.redaction import scrub_json
from openclaw_taskmem.domain.texts import clip
from taskmem_hookspecs import Checkpoint, ConversationMessage, Value
from taskmem_hookspecs.value import Instant

ABOUT_BYTES: Final = 240
"""Kept of what a call was about."""
OUTCOME_BYTES: Final = 240
"""Kept of what a call answered."""
SAID_BYTES: Final = 400
"""Kept of a message of the conversation."""
MESSAGES: Final = 8
"""Messages of the conversation that are read back. Source: requirement E2."""
READ: Final = 60
"""Checkpoints that are read back as a whole; of older ones, those with effects are."""
RECENT: Final = 200
"""Calls that a new one is compared with. They are kept in the run's row, which every
call writes, so that each has no more than 8 characters."""

_TRUSTED: Final = 2


class CallStartEntry(Value):
    """A tool call began; what became of it is not known yet."""

    kind: Literal["began"] = "began"
    call_id: str
    tool: str
    about: str
    """Such as the command, or the path."""
    method: str | None = None
    """The HTTP method, or the action, that it was given; None: none."""
    effect: Effect | None = None
    """What it may leave behind; None: that was not judged."""
    step: int | None = None
    """The step that it belongs to, from 0; None: not known."""


class CallEndEntry(Value):
    """A tool call ended."""

    kind: Literal["ended"] = "ended"
    call_id: str
    tool: str
    about: str
    method: str | None = None
    effect: Effect | None = None
    outcome: str
    """The beginning of what it answered."""
    ok: bool
    exit_code: int | None = None
    """Of a command; None: it was none, or is not known."""
    milliseconds: int = 0
    step: int | None = None
    said: tuple[ConversationMessage, ...] = ()
    """What was said in the conversation since the checkpoint before."""


Entry = Annotated[CallStartEntry | CallEndEntry, Field(discriminator="kind")]


class PastCall(Value):
    """One tool call, as it is known now."""

    tool: str
    about: str
    ok: bool | None
    """None: its end was never seen, so nobody knows what it did."""
    outcome: str = ""
    exit_code: int | None = None
    step: int | None = None
    effect: Effect | None = None
    """What it may have left behind; None: that was not judged when it was made."""
    number: int = 0
    """Of the checkpoint that tells most of it; 0: not known."""
    at: Instant


class History(Value):
    """What the checkpoints of a run say together."""

    calls: tuple[PastCall, ...] = ()
    """The newest, oldest first."""
    corrupt: int = 0
    """How many were passed over."""


class _Body(Value):
    entry: Entry


def build_checkpoint(
    run_id: str, number: int, entry: CallStartEntry | CallEndEntry, now: datetime
) -> Checkpoint:
    """Return a checkpoint of an entry, shortened and without credentials."""
    body = json.dumps(
        _dump_without_defaults(_shorten_entry(entry)), ensure_ascii=False, separators=(",", ":")
    )
    return Checkpoint(
        run_id=run_id,
        number=number,
        at=now,
        body=body,
        checksum=compute_checksum(run_id, number, body),
    )


def compute_checksum(run_id: str, number: int, body: str) -> str:
    """Return what proves that a body is that of this run and number: 32 hex digits."""
    text = f"{run_id}\0{number}\0{body}"
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]


def parse_history(checkpoints: Sequence[Checkpoint]) -> History | None:
    """Return what checkpoints say, given the oldest first.

    None: there are none, or the two newest cannot be trusted.
    """
    entries = [(each, _parse_entry(each)) for each in checkpoints]
    if not any(entry is not None for _, entry in entries[-_TRUSTED:]):
        return None
    known = [(each, entry) for each, entry in entries if entry is not None]
    return History(calls=tuple(_fold_entries(known)), corrupt=len(entries) - len(known))


def read_scattered_calls(checkpoints: Sequence[Checkpoint]) -> list[PastCall]:
    """Return the calls of checkpoints that were picked out of others, oldest first."""
    entries = ((each, _parse_entry(each)) for each in checkpoints)
    return _fold_entries([(each, entry) for each, entry in entries if entry is not None])


def _fold_entries(
    known: Sequence[tuple[Checkpoint, CallStartEntry | CallEndEntry]],
) -> list[PastCall]:
    calls: list[PastCall] = []
    # Ids come again where a provider counts anew: an end is that of the last beginning.
    open_: dict[str, int] = {}
    ended: dict[str, CallEndEntry] = {}
    for checkpoint, entry in known:
        call = _build_past_call(entry, checkpoint)
        if isinstance(entry, CallStartEntry):
            if entry.call_id not in open_:
                open_[entry.call_id] = len(calls)
                calls.append(call)
            continue
        place = open_.pop(entry.call_id, None)
        if place is not None:
            calls[place] = call
        elif ended.get(entry.call_id) == entry:
            continue  # it was told twice
        else:
            calls.append(call)
        ended[entry.call_id] = entry
    return calls


class CallPage(Value):
    """A part of a run's history."""

    calls: tuple[PastCall, ...]
    """Newest first."""
    before: int | None
    """The number before which the next part is read; None: there is no more."""


def cut_page(
    checkpoints: Sequence[Checkpoint], most: int, has_ended: Callable[[str, int], bool]
) -> CallPage:
    """Return the newest calls of checkpoints, `most` at most, given the oldest first.

    `has_ended` says whether a call that began here, by its id and number, has ended in
    a later checkpoint than these: it was told of there.
    """
    calls: list[PastCall] = []
    over: dict[str, CallEndEntry] = {}
    for checkpoint in reversed(checkpoints):
        entry = _parse_entry(checkpoint)
        own = entry is not None and entry.call_id in over
        if len(calls) == most and not own:
            return CallPage(calls=tuple(calls), before=checkpoint.number + 1)
        if isinstance(entry, CallEndEntry) and over.get(entry.call_id) != entry:
            over[entry.call_id] = entry
            calls.append(_build_past_call(entry, checkpoint))
        elif isinstance(entry, CallStartEntry) and (
            over.pop(entry.call_id, None) is None
            and not has_ended(entry.call_id, checkpoint.number)
        ):
            calls.append(_build_past_call(entry, checkpoint))
    last = checkpoints[0].number if checkpoints else None
    return CallPage(calls=tuple(calls), before=last)


def has_end(checkpoints: Sequence[Checkpoint], call_id: str, after: int) -> bool:
    """Whether one of some checkpoints after a number tells of a call's end."""
    entries = (_parse_entry(each) for each in checkpoints if each.number > after)
    return any(isinstance(e, CallEndEntry) and e.call_id == call_id for e in entries)


HOLDING_SAID: Final = '"said":[{'
"""What the bodies hold that tell of the conversation."""


def format_effect_filter(effect: Effect, *, ended: bool) -> str:
    """Return what the bodies hold of calls with an effect.

    `ended`: only of those that tell of an end.
    """
    mark = f'"effect":"{effect}"'
    return f'{{"kind":"ended",{mark}' if ended else mark


def format_call_filter(call_id: str) -> str:
    """Return what the bodies hold that tell of a call."""
    return f'"call_id":{json.dumps(call_id, ensure_ascii=False)}'


def read_conversation(checkpoints: Sequence[Checkpoint]) -> tuple[ConversationMessage, ...]:
    """Return the last messages of the conversation that checkpoints tell."""
    entries = map(_parse_entry, checkpoints)
    said = [each for e in entries if isinstance(e, CallEndEntry) for each in e.said]
    return tuple(said[-MESSAGES:])


def read_calls(checkpoints: Sequence[Checkpoint]) -> list[tuple[datetime, str, str]]:
    """Return when calls began, their ids and what they were about, oldest first."""
    entries = ((each.at, _parse_entry(each)) for each in checkpoints)
    return [(at, e.call_id, e.about) for at, e in entries if isinstance(e, CallStartEntry)]


def read_successes(checkpoints: Sequence[Checkpoint]) -> list[str]:
    """Return what the calls were about that ended well, oldest first."""
    entries = map(_parse_entry, checkpoints)
    return [each.about for each in entries if isinstance(each, CallEndEntry) and each.ok]


def digest_text(text: str) -> str:
    """Return a short name for a text; texts that differ have different ones."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:12]


def digest_call(given: str, result: str) -> str:
    """Return a short name for a call and its result; `given_digest` is its beginning.

    Of 200 calls one in 80,000 is taken for another: it then is no news, that once.
    """
    return digest_arguments(given) + digest_arguments(result)


def digest_arguments(given: str) -> str:
    """Return a short name for what a call was given: 4 characters."""
    whole = hashlib.sha256(given.encode(errors="surrogatepass")).digest()
    return base64.b64encode(whole[:3]).decode()


def _parse_entry(checkpoint: Checkpoint) -> CallStartEntry | CallEndEntry | None:
    proof = compute_checksum(checkpoint.run_id, checkpoint.number, checkpoint.body)
    if checkpoint.checksum != proof:
        return None
    try:
        return _Body.model_validate({"entry": json.loads(checkpoint.body)}).entry
    except (ValueError, RecursionError):
        return None


def _build_past_call(entry: CallStartEntry | CallEndEntry, checkpoint: Checkpoint) -> PastCall:
    began = PastCall(
        tool=entry.tool,
        about=entry.about,
        ok=None,
        step=entry.step,
        effect=entry.effect,
        number=checkpoint.number,
        at=checkpoint.at,
    )
    if isinstance(entry, CallStartEntry):
        return began
    ended = {"ok": entry.ok, "outcome": entry.outcome, "exit_code": entry.exit_code}
    return began.model_copy(update=ended)


def _shorten_entry(entry: CallStartEntry | CallEndEntry) -> CallStartEntry | CallEndEntry:
    clean = scrub_json(entry.model_dump(mode="json"))
    made = _Body.model_validate({"entry": clean}).entry
    short = made.model_copy(update={"about": clip(made.about, ABOUT_BYTES)})
    if isinstance(short, CallStartEntry):
        return short
    said = tuple(
        each.model_copy(update={"text": clip(each.text, SAID_BYTES)})
        for each in short.said[-MESSAGES:]
    )
    outcome = clip(short.outcome, OUTCOME_BYTES)
    return short.model_copy(update={"outcome": outcome, "said": said})


def _dump_without_defaults(entry: CallStartEntry | CallEndEntry) -> dict[str, JsonValue]:
    fields: dict[str, JsonValue] = entry.model_dump(mode="json", exclude_defaults=True)
    effect = {} if entry.effect is None else {"effect": entry.effect.value}
    # These two come first: by them, the effects are found among all the others.
    return {"kind": entry.kind, **effect, **fields}
