"""What counts as a plug-in's answer; everything else is nonsense, and a `TypeError`."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Sequence,
)
from typing import Final, NamedTuple, TypeGuard, TypeVar, cast

from pydantic import ValidationError

from taskmem_hookspecs import (
    AgentHost,
    ConditionUnclear,
    EvidenceVerifier,
    Finding,
    Frame,
    HealthCheck,
    HealthRow,
    Judge,
    NoAnswer,
    QueryAnswerer,
    Reader,
    Reading,
    RecallSource,
    ResumeFacts,
    ResumePacket,
    Ruling,
    SelectiveTransport,
    Sensor,
    TaskStore,
    Value,
    WakeTransport,
    Watch,
)

log = logging.getLogger(__name__)
T = TypeVar("T")
V = TypeVar("V", bound=Value)
WATCH: Final = ("here", "end", "look", "wait_for_change", "close")
"""What a `Watch` does."""
LONGEST_ANSWER: Final = 20_000
"""Characters that a reader may answer."""
_READER_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")
LARGEST_JPEG: Final = 2 * 1024 * 1024
"""Bytes of a picture that is kept."""


def refuse_promise(answer: T) -> T:
    """Return an answer that is there; refuse the promise of one."""
    promise: object = answer
    if isinstance(promise, Coroutine | Generator):
        promise.close()
    if isinstance(promise, Awaitable | Generator | AsyncGenerator):
        kind = type(answer).__name__
        raise TypeError(f"answered a {kind}; it must be a plain function, not async")
    return answer


def require_part(answer: object, plays: Callable[[object], TypeGuard[T]]) -> T:
    """Return an answer that plays a part."""
    if inspect.isclass(answer):
        raise TypeError(f"answered the class {answer.__name__}, not an object of it")
    if not plays(answer):
        raise TypeError(f"answered {type(answer).__name__}, which is not asked for")
    return answer


def _require_kind(answer: object, kind: type[T]) -> T:
    """Return an answer of a kind."""

    def is_one(answer: object) -> TypeGuard[T]:
        return isinstance(answer, kind)

    return require_part(answer, is_one)


def require_packet(answer: object, facts: ResumeFacts) -> ResumePacket:
    """Return a packet that is one, through and through, and of the right task.

    Raises:
        ValueError: A field cannot be used, or it is of another task or wake.
    """
    if not isinstance(answer, ResumePacket):
        raise TypeError(f"answered {type(answer).__name__}, which is no ResumePacket")
    checked = ResumePacket.model_validate(answer.model_dump(warnings=False))
    if (checked.task_id, checked.wake_id) != (facts.task.task_id, facts.wake_id):
        raise ValueError("answered with the packet of another task or wake")
    return checked


def is_store(answer: object) -> TypeGuard[TaskStore]:
    """Whether it plays `TaskStore`."""
    return isinstance(answer, TaskStore)


def is_transport(answer: object) -> TypeGuard[WakeTransport]:
    """Whether it plays `WakeTransport`, and has a name."""
    return isinstance(answer, WakeTransport) and _is_name(answer.name)


def build_reach_test(transport: WakeTransport) -> Callable[[str | None, str | None], bool]:
    """Return what says whether a transport reaches an agent, by its host and session.

    One that is not selective reaches all. One that fails to say reaches nobody, for no
    wake is promised without a way; what is kept for that is there to be fetched.
    """
    if not isinstance(transport, SelectiveTransport):
        return lambda _host, _session_key: True

    def reaches(host: str | None, session_key: str | None) -> bool:
        try:
            return transport.reaches(host, session_key)
        except Exception:
            log.exception("%s failed to say whom it reaches", transport.name)
            return False

    return reaches


def is_host(answer: object) -> TypeGuard[AgentHost]:
    """Whether it plays `AgentHost`."""
    return isinstance(answer, AgentHost)


def _is_name(text: object) -> bool:
    return isinstance(text, str) and bool(text.strip())


def is_sensor(answer: object) -> TypeGuard[Sensor]:
    """Whether it plays `Sensor`."""
    return isinstance(answer, Sensor)


class Judges(NamedTuple):
    """Who judges a wait."""

    found: tuple[Judge, ...]
    advice: tuple[str, ...]
    """What would let others judge it, a sentence each."""
    refusal: ConditionUnclear | None
    """Why the target can never have one of the forms; None: it can have them all."""
    late: tuple[str, ...] = ()
    """Who gave no answer in time and may judge it after all, a sentence each."""


def is_judge(answer: object) -> TypeGuard[Judge]:
    """Whether it plays `Judge`."""
    return isinstance(answer, Judge) and _is_name(answer.name)


def require_watch(answer: object) -> Watch:
    """Return what a sensor answers, if it plays `Watch`; refuse all else."""
    lacks = [verb for verb in WATCH if not callable(getattr(answer, verb, None))]
    if lacks and len(lacks) < len(WATCH):
        raise TypeError(
            f"{type(answer).__name__} lacks {', '.join(lacks)}; a Watch has {', '.join(WATCH)}"
        )
    return require_part(answer, _is_watch)


def _is_watch(answer: object) -> TypeGuard[Watch]:
    return isinstance(answer, Watch)


def require_place(answer: object) -> str:
    """Return what a watch answers, if it can be a place; refuse all else."""
    return _require_kind(answer, str)


def require_frame(answer: object) -> Frame:
    """Return what a watch answers, if it is a frame through and through."""
    return _require_sound_fields(_require_kind(answer, Frame))


def require_jpeg(answer: object) -> bytes:
    """Return what a picture answers, if it is a JPEG of a size that can be kept."""
    answer = refuse_promise(answer)
    if not isinstance(answer, bytes) or not answer.startswith(b"\xff\xd8"):
        raise TypeError(f"answered {type(answer).__name__}, which is no JPEG")
    if len(answer) > LARGEST_JPEG:
        raise TypeError(f"answered a JPEG of {len(answer):,} bytes, which is too large")
    return answer


def require_ruling(answer: object) -> Ruling:
    """Return what a judge answers, if it is a ruling through and through."""
    return _require_sound_fields(_require_kind(answer, Ruling))


def _require_sound_fields(value: V) -> V:
    """Return a value whose fields are sound: it can be made unchecked."""
    try:
        return type(value).model_validate(dict(value))
    except ValidationError as error:
        fields = ", ".join(sorted({str(item["loc"][0]) for item in error.errors()}))
        kind = type(value).__name__
        raise TypeError(f"answered a {kind} with nonsense as {fields}") from None


def is_verifier(answer: object) -> TypeGuard[EvidenceVerifier]:
    """Whether it plays `EvidenceVerifier`."""
    return isinstance(answer, EvidenceVerifier)


def require_finding(answer: object) -> Finding:
    """Return what a verifier found; raise `TypeError` for what is no finding."""
    return _require_sound_fields(_require_kind(answer, Finding))


def is_recall_source(answer: object) -> TypeGuard[RecallSource]:
    """Whether it plays `RecallSource`."""
    return isinstance(answer, RecallSource)


def is_answerer(answer: object) -> TypeGuard[QueryAnswerer]:
    """Whether it plays `QueryAnswerer`."""
    return isinstance(answer, QueryAnswerer)


def are_checks(answer: object) -> TypeGuard[Sequence[HealthCheck]]:
    """Whether it is a sequence of objects that each play `HealthCheck`."""
    if not isinstance(answer, Sequence) or isinstance(answer, str | bytes):
        return False
    checks = cast("Sequence[object]", answer)
    return all(_is_check(each) for each in checks)


def _is_check(answer: object) -> bool:
    return isinstance(answer, HealthCheck) and not inspect.isclass(answer) and _is_name(answer.name)


def require_health_rows(answer: object) -> AsyncIterator[object]:
    """Return what a check's `look` answers, if rows can come from it."""
    if isinstance(answer, Coroutine):
        cast("Coroutine[object, object, object]", answer).close()
        raise TypeError("look answered a coroutine; it must yield its rows")
    if not isinstance(answer, AsyncIterator):
        kind = type(answer).__name__
        raise TypeError(f"look answered {kind}; it must be async, and yield its rows")
    return cast("AsyncIterator[object]", answer)


def require_health_row(answer: object) -> HealthRow:
    """Return what a check yields, if it is a row through and through."""
    return _require_sound_fields(_require_kind(answer, HealthRow))


def is_reader(answer: object) -> TypeGuard[Reader]:
    """Whether it plays `Reader`, and has a name that a setting can hold."""
    return (
        isinstance(answer, Reader)
        and isinstance(name := cast("object", answer.name), str)
        and _READER_NAME.fullmatch(name) is not None
        and name != "none"
    )


def require_reading(answer: object) -> Reading:
    """Return what a reader answered, if it is a reading of a length that can be kept.

    Raises:
        NoAnswer: It is far too long.
    """
    found = _require_sound_fields(_require_kind(answer, Reading))
    if len(found.answer) > LONGEST_ANSWER:
        raise NoAnswer(
            f"{found.reader}'s answer had {len(found.answer):,} characters.",
            tokens_in=found.tokens_in,
            tokens_out=found.tokens_out,
            cost_usd=found.cost_usd,
        )
    return found
