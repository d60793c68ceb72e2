"""Validate what plug-ins return.

Functions named `require_…` return a valid answer and raise `TypeError` for any other, unless they
say otherwise; those named `is_…` or `are_…` return whether it is valid.
"""

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

from openclaw_taskmem.domain.conditions import targets
from taskmem_hookspecs import (
    AgentHost,
    ConditionUnclear,
    DoctorCheck,
    DoctorRow,
    EvidenceVerifier,
    Finding,
    Frame,
    Judge,
    NamingHost,
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
    SessionNames,
    Target,
    TaskStore,
    Value,
    WakeTransport,
    Watch,
)

log = logging.getLogger(__name__)
T = TypeVar("T")
V = TypeVar("V", bound=Value)
WATCH: Final = ("here", "end", "look", "wait_for_change", "close")
"""The methods of a `Watch`."""
LONGEST_ANSWER: Final = 20_000
"""Characters of a reader's answer, at most."""
_TARGET_FORM: Final = re.compile(r"([a-z_][a-z0-9_]*):\S.{0,200}")
_READER_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")
LARGEST_JPEG: Final = 2 * 1024 * 1024
"""Bytes of a picture, at most."""


def refuse_promise(answer: T) -> T:
    """Return an answer; refuse a coroutine, generator or other awaitable."""
    promise: object = answer
    if isinstance(promise, Coroutine | Generator):
        promise.close()
    if isinstance(promise, Awaitable | Generator | AsyncGenerator):
        kind = type(answer).__name__
        raise TypeError(f"answered a {kind}; it must be a plain function, not async")
    return answer


def require_part(answer: object, plays: Callable[[object], TypeGuard[T]]) -> T:
    """Return an answer that has the required type."""
    if inspect.isclass(answer):
        raise TypeError(f"answered the class {answer.__name__}, not an object of it")
    if not plays(answer):
        raise TypeError(f"answered {type(answer).__name__}, which is not asked for")
    return answer


def _require_kind(answer: object, kind: type[T]) -> T:
    """Return an answer that is an instance of `kind`."""

    def is_one(answer: object) -> TypeGuard[T]:
        return isinstance(answer, kind)

    return require_part(answer, is_one)


def require_packet(answer: object, facts: ResumeFacts) -> ResumePacket:
    """Return a packet after validating all fields, its task and its wake.

    Raises:
        TypeError: It is no packet.
        ValueError: A field is invalid, or it is of another task or wake.
    """
    if not isinstance(answer, ResumePacket):
        raise TypeError(f"answered {type(answer).__name__}, which is no ResumePacket")
    checked = ResumePacket.model_validate(answer.model_dump(warnings=False))
    if (checked.task_id, checked.wake_id) != (facts.task.task_id, facts.wake_id):
        raise ValueError("answered with the packet of another task or wake")
    return checked


def is_store(answer: object) -> TypeGuard[TaskStore]:
    """Tell whether an answer is a `TaskStore`."""
    return isinstance(answer, TaskStore)


def is_transport(answer: object) -> TypeGuard[WakeTransport]:
    """Tell whether an answer is a `WakeTransport` with a name."""
    return isinstance(answer, WakeTransport) and _is_name(answer.name)


def are_names(answer: object) -> TypeGuard[Sequence[str]]:
    """Tell whether an answer is a sequence of names, and not one name by itself."""
    if not isinstance(answer, Sequence) or isinstance(answer, str | bytes):
        return False
    return all(map(_is_name, cast("Sequence[object]", answer)))


def build_reach_test(transport: WakeTransport) -> Callable[[str | None, str | None], bool]:
    """Return a function that tells whether a transport reaches an agent, by host and session.

    A transport that is not selective reaches all. If it raises, it reaches nobody: then no wake is
    promised, and wakes are kept until they are fetched.
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
    """Tell whether an answer is an `AgentHost`."""
    return isinstance(answer, AgentHost)


def read_session_names(host: NamingHost) -> SessionNames:
    """Return how a host names its sessions, if what it answers is sound; refuse all else."""
    answer = refuse_promise(host.describe_sessions())
    return _require_sound_fields(_require_kind(answer, SessionNames))


def _is_name(text: object) -> bool:
    return isinstance(text, str) and bool(text.strip())


def is_sensor(answer: object) -> TypeGuard[Sensor]:
    """Tell whether an answer is a `Sensor`."""
    return isinstance(answer, Sensor)


def are_forms(answer: object) -> TypeGuard[Sequence[str]]:
    """Tell whether each line of an answer begins with a target of a plug-in's own scheme."""
    return are_names(answer) and all(map(_is_form, answer))


def _is_form(line: str) -> bool:
    """Tell whether a line begins with a scheme, not a built-in one, and fits into a description."""
    found = _TARGET_FORM.fullmatch(line)
    return found is not None and line.isprintable() and found[1] not in targets.BUILT_IN


class Judges(NamedTuple):
    """The judges of a condition, and why plug-ins do not judge it, or not yet."""

    found: tuple[Judge, ...]
    advice: tuple[str, ...]
    """Sentences that say what would let other judges decide it, and which plug-ins have failed."""
    refusal: ConditionUnclear | None
    """Why the target can never have one of the condition's forms; None: it can have all."""
    late: tuple[str, ...] = ()
    """Sentences naming plug-ins that did not answer in time and may judge it later."""


def describe_no_judge(target: Target) -> str:
    """Return the advice of a condition that no plug-in says anything about."""
    return f"No plug-in judges such words of a {target.scheme}."


def is_judge(answer: object) -> TypeGuard[Judge]:
    """Tell whether an answer is a `Judge` with a name."""
    return isinstance(answer, Judge) and _is_name(answer.name)


def require_watch(answer: object) -> Watch:
    """Return a sensor's answer if it is a `Watch`."""
    lacks = [verb for verb in WATCH if not callable(getattr(answer, verb, None))]
    if lacks and len(lacks) < len(WATCH):
        raise TypeError(
            f"{type(answer).__name__} lacks {', '.join(lacks)}; a Watch has {', '.join(WATCH)}"
        )
    return require_part(answer, _is_watch)


def _is_watch(answer: object) -> TypeGuard[Watch]:
    return isinstance(answer, Watch)


def require_place(answer: object) -> str:
    """Return a watch's answer if it is a place."""
    return _require_kind(answer, str)


def require_frame(answer: object) -> Frame:
    """Return a watch's answer if it is a frame with valid fields."""
    return _require_sound_fields(_require_kind(answer, Frame))


def require_jpeg(answer: object) -> bytes:
    """Return a picture's answer if it is a JPEG and not too large."""
    answer = refuse_promise(answer)
    if not isinstance(answer, bytes) or not answer.startswith(b"\xff\xd8"):
        raise TypeError(f"answered {type(answer).__name__}, which is no JPEG")
    if len(answer) > LARGEST_JPEG:
        raise TypeError(f"answered a JPEG of {len(answer):,} bytes, which is too large")
    return answer


def require_ruling(answer: object) -> Ruling:
    """Return a judge's answer if it is a ruling with valid fields."""
    return _require_sound_fields(_require_kind(answer, Ruling))


def _require_sound_fields(value: V) -> V:
    """Validate the fields of a value, which may have been built without validation."""
    try:
        return type(value).model_validate(dict(value))
    except ValidationError as error:
        fields = ", ".join(sorted({str(item["loc"][0]) for item in error.errors()}))
        kind = type(value).__name__
        raise TypeError(f"answered a {kind} with nonsense as {fields}") from None


def is_verifier(answer: object) -> TypeGuard[EvidenceVerifier]:
    """Tell whether an answer is an `EvidenceVerifier`."""
    return isinstance(answer, EvidenceVerifier)


def require_finding(answer: object) -> Finding:
    """Return a verifier's answer if it is a finding with valid fields."""
    return _require_sound_fields(_require_kind(answer, Finding))


def is_recall_source(answer: object) -> TypeGuard[RecallSource]:
    """Tell whether an answer is a `RecallSource`."""
    return isinstance(answer, RecallSource)


def is_answerer(answer: object) -> TypeGuard[QueryAnswerer]:
    """Tell whether an answer is a `QueryAnswerer`."""
    return isinstance(answer, QueryAnswerer)


def are_checks(answer: object) -> TypeGuard[Sequence[DoctorCheck]]:
    """Tell whether an answer is a sequence of `DoctorCheck` objects."""
    if not isinstance(answer, Sequence) or isinstance(answer, str | bytes):
        return False
    checks = cast("Sequence[object]", answer)
    return all(_is_check(each) for each in checks)


def _is_check(answer: object) -> bool:
    return isinstance(answer, DoctorCheck) and not inspect.isclass(answer) and _is_name(answer.name)


def require_doctor_rows(answer: object) -> AsyncIterator[object]:
    """Return the answer of a check's `look` if it is an async iterator."""
    if isinstance(answer, Coroutine):
        cast("Coroutine[object, object, object]", answer).close()
        raise TypeError("look answered a coroutine; it must yield its rows")
    if not isinstance(answer, AsyncIterator):
        kind = type(answer).__name__
        raise TypeError(f"look answered {kind}; it must be async, and yield its rows")
    return cast("AsyncIterator[object]", answer)


def require_doctor_row(answer: object) -> DoctorRow:
    """Return a row that a check yields, if its fields are valid."""
    return _require_sound_fields(_require_kind(answer, DoctorRow))


def is_reader(answer: object) -> TypeGuard[Reader]:
    """Tell whether an answer is a `Reader` with a name that settings can contain."""
    return (
        isinstance(answer, Reader)
        and isinstance(name := cast("object", answer.name), str)
        and _READER_NAME.fullmatch(name) is not None
        and name != "none"
    )


def require_reading(answer: object) -> Reading:
    """Return a reader's answer if it is a reading with valid fields.

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
