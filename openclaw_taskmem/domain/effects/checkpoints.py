"""Build checkpoints of the start and end of tool calls, and read a run's history from them.

A checkpoint holds digests and excerpts, never whole outputs, and no credentials. Checkpoints with a
wrong checksum are skipped; if the two newest are wrong, the history is unknown. Source:
docs/origins.md, "Checkpoints".
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue

from openclaw_taskmem.domain.effects.side_effects import Effect, names_its_files
from openclaw_taskmem.domain.text.redaction import scrub_json
from openclaw_taskmem.domain.text.texts import clip
from taskmem_hookspecs import Checkpoint, Value
from taskmem_hookspecs.model import Instant
from taskmem_hookspecs.packet import ConversationMessage

ABOUT_BYTES: Final = 240
"""Longest excerpt of a call's subject, such as its command."""
OUTCOME_BYTES: Final = 240
"""Longest excerpt of a call's result."""
MESSAGE_BYTES: Final = 400
"""Longest excerpt of a message of the conversation."""
MOST_MESSAGES: Final = 8
"""Messages of the conversation that are read back."""
MOST_READ_CHECKPOINTS: Final = 60
"""Newest checkpoints that are all read back; of older ones, only those with effects."""
RECENT_CALLS: Final = 200
"""Earlier calls that a new one is compared with. Their digests are in the run's row, which every
call writes, so each has only 8 characters."""

_TRUSTED_COUNT: Final = 2


class _CallEntry(Value):
    call_id: str
    tool: str
    about: str
    """Its subject, such as the command or the path."""
    method: str | None = None
    """Its HTTP method or action; None: none."""
    effect: Effect | None = None
    """The widest change it may have made; None: not judged."""
    step: int | None = None
    """Its step, from 0; None: not known."""


class CallStartEntry(_CallEntry):
    """A tool call began; its result is not known yet."""

    kind: Literal["began"] = "began"


class CallEndEntry(_CallEntry):
    """A tool call ended."""

    kind: Literal["ended"] = "ended"
    outcome: str
    """Excerpt of its result."""
    ok: bool | None
    """True if it succeeded; None: its host does not tell."""
    exit_code: int | None = None
    """Exit code of a command; None: not a command, or not known."""
    milliseconds: int = 0
    said: tuple[ConversationMessage, ...] = ()
    """Messages of the conversation since the previous checkpoint."""


Entry = Annotated[CallStartEntry | CallEndEntry, Field(discriminator="kind")]


class PastCall(Value):
    """A tool call, as far as it is known now."""

    tool: str
    about: str
    ok: bool | None
    """True if it succeeded; None: its end was not seen or told, so its result is unknown."""
    untold: bool = False
    """True if it ended, and its host does not tell how."""
    outcome: str = ""
    exit_code: int | None = None
    step: int | None = None
    effect: Effect | None = None
    """The widest change it may have made; None: not judged when it was made."""
    number: int = 0
    """Number of the checkpoint that tells most about it; 0: not known."""
    at: Instant


class History(Value):
    """A run's history, read from its checkpoints."""

    calls: tuple[PastCall, ...] = ()
    """The newest calls, oldest first."""
    corrupt: int = 0
    """Checkpoints that were skipped."""


class _Body(Value):
    entry: Entry


def build_checkpoint(
    run_id: str, number: int, entry: CallStartEntry | CallEndEntry, now: datetime
) -> Checkpoint:
    """Build a checkpoint from an entry, shortened and without credentials."""
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
    """Compute the checksum of a checkpoint's body, run and number: 32 hex digits."""
    text = f"{run_id}\0{number}\0{body}"
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]


def parse_history(checkpoints: Sequence[Checkpoint]) -> History | None:
    """Read a run's history from its checkpoints, oldest first.

    None: there are no checkpoints, or the two newest are corrupt.
    """
    entries = [(each, _parse_entry(each)) for each in checkpoints]
    if not any(entry is not None for _, entry in entries[-_TRUSTED_COUNT:]):
        return None
    known = [(each, entry) for each, entry in entries if entry is not None]
    return History(calls=tuple(_fold_entries(known)), corrupt=len(entries) - len(known))


def read_scattered_calls(checkpoints: Sequence[Checkpoint]) -> list[PastCall]:
    """Read the calls of checkpoints that are not consecutive, oldest first."""
    entries = ((each, _parse_entry(each)) for each in checkpoints)
    return _fold_entries([(each, entry) for each, entry in entries if entry is not None])


def _fold_entries(
    known: Sequence[tuple[Checkpoint, CallStartEntry | CallEndEntry]],
) -> list[PastCall]:
    calls: list[PastCall] = []
    # Providers reuse ids: an end belongs to the latest start with its id.
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
            continue  # reported twice
        else:
            calls.append(call)
        ended[entry.call_id] = entry
    return calls


class CallPage(Value):
    """A page of a run's history."""

    calls: tuple[PastCall, ...]
    """Newest first."""
    before: int | None
    """Checkpoint number before which the next page begins; None: there were no checkpoints."""


def cut_page(
    checkpoints: Sequence[Checkpoint], most: int, has_ended: Callable[[str, int], bool]
) -> CallPage:
    """Cut the newest page of at most `most` calls from checkpoints, oldest first.

    `has_ended` tells whether a call that began here, by id and number, ended in a later checkpoint
    than these: an earlier page has shown it then.
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
    """True if a checkpoint after number `after` records the end of a call."""
    entries = (_parse_entry(each) for each in checkpoints if each.number > after)
    return any(isinstance(e, CallEndEntry) and e.call_id == call_id for e in entries)


HOLDING_SAID: Final = '"said":[{'
"""Text in the body of each checkpoint that holds messages of the conversation."""


def format_effect_filter(effect: Effect, *, ended: bool) -> str:
    """Build the text that is in the body of each checkpoint of a call with an effect.

    `ended`: only checkpoints of a call's end.
    """
    mark = f'"effect":"{effect}"'
    return f'{{"kind":"ended",{mark}' if ended else mark


def format_call_filter(call_id: str) -> str:
    """Build the text that is in the body of each checkpoint of a call."""
    return f'"call_id":{json.dumps(call_id, ensure_ascii=False)}'


def read_conversation(checkpoints: Sequence[Checkpoint]) -> tuple[ConversationMessage, ...]:
    """Read the last messages of the conversation from checkpoints."""
    entries = map(_parse_entry, checkpoints)
    messages = [each for e in entries if isinstance(e, CallEndEntry) for each in e.said]
    return tuple(messages[-MOST_MESSAGES:])


def read_calls(checkpoints: Sequence[Checkpoint]) -> list[tuple[datetime, str, str]]:
    """Read when each call began, its id and its subject, oldest first."""
    entries = ((each.at, _parse_entry(each)) for each in checkpoints)
    return [(at, e.call_id, e.about) for at, e in entries if isinstance(e, CallStartEntry)]


def read_spans(checkpoints: Sequence[Checkpoint]) -> list[tuple[datetime, datetime | None]]:
    """Read when each call that may change files it does not name began and ended, oldest first.

    None: it has not ended.
    """
    spans: list[tuple[datetime, datetime | None]] = []
    open_: dict[str, int] = {}
    for checkpoint in checkpoints:
        entry = _parse_entry(checkpoint)
        if isinstance(entry, CallStartEntry):
            if names_its_files(entry.tool):
                open_.pop(entry.call_id, None)
                continue
            open_[entry.call_id] = len(spans)
            spans.append((checkpoint.at, None))
        elif entry is not None and (place := open_.pop(entry.call_id, None)) is not None:
            spans[place] = (spans[place][0], checkpoint.at)
    return spans


def read_successes(checkpoints: Sequence[Checkpoint]) -> list[str]:
    """Read the subjects of the calls that succeeded, oldest first."""
    entries = map(_parse_entry, checkpoints)
    return [each.about for each in entries if isinstance(each, CallEndEntry) and each.ok]


def digest_text(text: str) -> str:
    """Digest a text to 12 hex digits."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:12]


def digest_call(given: str, result: str) -> str:
    """Digest a call and its result; the digest begins with that of its arguments.

    Of 200 calls, one in 80,000 collides with another: it then counts as nothing new.
    """
    return digest_arguments(given) + digest_arguments(result)


def digest_arguments(given: str) -> str:
    """Digest a call's arguments to 4 characters."""
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
    return began.model_copy(update={**ended, "untold": entry.ok is None})


def _shorten_entry(entry: CallStartEntry | CallEndEntry) -> CallStartEntry | CallEndEntry:
    clean = scrub_json(entry.model_dump(mode="json"))
    made = _Body.model_validate({"entry": clean}).entry
    short = made.model_copy(update={"about": clip(made.about, ABOUT_BYTES)})
    if isinstance(short, CallStartEntry):
        return short
    messages = tuple(
        each.model_copy(update={"text": clip(each.text, MESSAGE_BYTES)})
        for each in short.said[-MOST_MESSAGES:]
    )
    outcome = clip(short.outcome, OUTCOME_BYTES)
    return short.model_copy(update={"outcome": outcome, "said": messages})


def _dump_without_defaults(entry: CallStartEntry | CallEndEntry) -> dict[str, JsonValue]:
    fields: dict[str, JsonValue] = entry.model_dump(mode="json", exclude_defaults=True)
    effect = {} if entry.effect is None else {"effect": entry.effect.value}
    # Kind and effect come first, so that `format_effect_filter` finds them.
    return {"kind": entry.kind, **effect, **fields}
