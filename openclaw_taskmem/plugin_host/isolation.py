"""Keep what plug-ins do wrong from harming others: calls that hang, and answers that are nonsense.

A call that may hang runs in a thread of its own. One that never returns loses only its own answer,
and does not delay the end of the process, as its thread is a daemon thread. A thread whose call has
returned makes the next one, because starting a thread costs more than most calls.
"""

from __future__ import annotations

import inspect
import queue
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Future, wait
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from taskmem_hookspecs import ResumeFacts, ResumePacket, Value

T = TypeVar("T")
V = TypeVar("V", bound=Value)

_LARGEST_JPEG: Final = 2 * 1024 * 1024
"""Bytes of a picture, at most."""


class TookTooLong(Exception):
    """A call did not return within its limit; it goes on in its thread."""

    def __init__(self, seconds: float, call: Future[Any]) -> None:
        super().__init__(f"no answer within {seconds:g} s")
        self.call: Final = call
        """Done when the call has returned after all."""


class TriedToEnd(Exception):
    """A call raised what would end a program, such as `SystemExit`."""


def run_with_timeout(call: Callable[[], T], seconds: float, name: str) -> T:
    """Return what `call` returns, or raise what it raises.

    Args:
        call: A function without arguments.
        seconds: How long it may take.
        name: Name of the thread.

    Raises:
        TookTooLong: It did not return in time.
        TriedToEnd: It raised a `BaseException` that is no `Exception`.
    """
    future: Future[T] = Future()
    _assign_call(name, call, future)
    if not wait((future,), seconds).done:
        raise TookTooLong(seconds, future)
    return future.result()


_IDLE_SECONDS: Final = 0.5
"""Seconds that a thread waits for another call before it ends."""

_Job = tuple[str, Callable[[], Any], Future[Any]]

_idle: list[_Worker] = []
_turn = threading.Lock()


class _Worker:
    """A thread that makes one call after another."""

    def __init__(self, job: _Job) -> None:
        self.jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self.jobs.put(job)
        threading.Thread(target=self._run_jobs, name=job[0], daemon=True).start()

    def _run_jobs(self) -> None:
        while (job := self._next_job()) is not None:
            _run_call(*job)
            threading.current_thread().name = "idle"
            with _turn:
                _idle.append(self)

    def _next_job(self) -> _Job | None:
        try:
            return self.jobs.get(timeout=_IDLE_SECONDS)
        except queue.Empty:
            with _turn:
                if self in _idle:
                    _idle.remove(self)
                    return None
        return self.jobs.get()  # a call was assigned just now


def _assign_call(name: str, call: Callable[[], Any], future: Future[Any]) -> None:
    """Assign a call to an idle thread, or to a new one."""
    with _turn:
        worker = _idle.pop() if _idle else None
    if worker is None:
        _Worker((name, call, future))
    else:
        worker.jobs.put((name, call, future))


def _run_call(name: str, call: Callable[[], Any], future: Future[Any]) -> None:
    threading.current_thread().name = name
    try:
        future.set_result(call())
    except Exception as error:  # noqa: BLE001 - it belongs to the caller
        future.set_exception(error)
    except BaseException as error:  # noqa: BLE001 - it must not end the caller
        ended = TriedToEnd(repr(error)).with_traceback(error.__traceback__)
        future.set_exception(ended)


# --- answers ---------------------------------------------------------------------


def refuse_awaitable(answer: T) -> T:
    """Return an answer; refuse a coroutine, generator or other awaitable."""
    value: object = answer
    if isinstance(value, Coroutine | Generator):
        value.close()
    if isinstance(value, Awaitable | Generator | AsyncGenerator):
        kind = type(answer).__name__
        raise TypeError(f"answered a {kind}; it must be a plain function, not async")
    return answer


def require_packet(answer: object, facts: ResumeFacts) -> ResumePacket:
    """Return a packet after validating all fields, its task and its wake."""
    if not isinstance(answer, ResumePacket):
        raise TypeError(f"answered {type(answer).__name__}, which is no ResumePacket")
    checked = ResumePacket.model_validate(answer.model_dump(warnings=False))
    if (checked.task_id, checked.wake_id) != (facts.task.task_id, facts.wake_id):
        raise ValueError("answered with the packet of another task or wake")
    return checked


def require_jpeg(answer: object) -> bytes:
    """Return a picture as JPEG; refuse anything else, and one that is too large."""
    answer = refuse_awaitable(answer)
    if not isinstance(answer, bytes) or not answer.startswith(b"\xff\xd8"):
        raise TypeError(f"answered {type(answer).__name__}, which is no JPEG")
    if len(answer) > _LARGEST_JPEG:
        raise TypeError(f"answered a JPEG of {len(answer):,} bytes, which is too large")
    return answer


def require_part(answer: object, kind: type[T], fits: Callable[[T], bool] | None = None) -> T:
    """Return an answer that is of a kind; `fits` may ask more of it.

    Raises:
        TypeError: It is not, or does not fit.
    """
    if inspect.isclass(answer):
        raise TypeError(f"answered the class {answer.__name__}, not an object of it")
    if not isinstance(answer, kind) or not (fits is None or fits(answer)):
        raise TypeError(f"answered {type(answer).__name__}, which is not asked for")
    return answer


def require_value(answer: object, kind: type[V]) -> V:
    """Return an answer that is a value of a kind, whose fields may not have been validated yet.

    Raises:
        TypeError: It is none, or a field of it is invalid.
    """
    value = require_part(answer, kind)
    try:
        return type(value).model_validate(dict(value))
    except ValidationError as error:
        fields = ", ".join(sorted({str(item["loc"][0]) for item in error.errors()}))
        raise TypeError(f"answered a {type(value).__name__} with nonsense as {fields}") from None
