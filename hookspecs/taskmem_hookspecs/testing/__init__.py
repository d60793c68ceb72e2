"""Provide conformance suites, a fake clock and example values for the tests of plug-ins.

Subclass a suite in your tests and implement its abstract methods; pytest then runs every rule that
the core relies on:

    from taskmem_hookspecs.testing import TransportSuite, check_plugin

    class TestNtfy(TransportSuite):
        def make_transport(self, tmp_path):
            return Ntfy("http://127.0.0.1:2586")

    def test_the_hooks_fit():
        check_plugin(taskmem_ntfy)
"""

from __future__ import annotations

import asyncio
import heapq
import importlib
import inspect
import itertools
import json
import typing
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence, Sized
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, Union

import pluggy
from pydantic import JsonValue

import taskmem_hookspecs
from taskmem_hookspecs import specs
from taskmem_hookspecs.model import (
    Artifact,
    Author,
    Checkpoint,
    Event,
    FileChange,
    LedgerEntry,
    Message,
    MessageType,
    PlanRevision,
    Role,
    Run,
    RunState,
    Task,
    TaskStatus,
    Verdict,
    Wait,
    Wake,
    WakeCause,
    WorkFolder,
)
from taskmem_hookspecs.readers import Question, ReaderStatus, Readiness, Reading
from taskmem_hookspecs.specs import PROJECT

if TYPE_CHECKING:
    from taskmem_hookspecs.testing.suites import (
        HostSuite,
        ReaderSuite,
        TransportSuite,
        VerifierSuite,
    )
    from taskmem_hookspecs.testing.watching import JudgeSuite, SensorSuite

__all__ = [
    "FakeClock",
    "HostSuite",
    "JudgeSuite",
    "ReaderSuite",
    "ScriptedReader",
    "SensorSuite",
    "TransportSuite",
    "VerifierSuite",
    "a_checkpoint",
    "a_folder",
    "a_message",
    "a_revision",
    "a_run",
    "a_task",
    "a_wait",
    "a_wake",
    "an_artifact",
    "an_entry",
    "an_event",
    "check_plugin",
]


def __getattr__(name: str) -> object:
    """Import a suite at its first use, because it needs pytest, which then explains assertions."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import pytest

    module = f"{__name__}.{'watching' if name in ('JudgeSuite', 'SensorSuite') else 'suites'}"
    pytest.register_assert_rewrite(module)
    return getattr(importlib.import_module(module), name)


# --- time ------------------------------------------------------------------


DAWN = datetime(2026, 2, 16, 6, 0, tzinfo=UTC)
"""Default start of a `FakeClock`."""


_LEAST_TURNS: Final = 25
"""Turns of the event loop that other tasks get before time passes, even if none is ready: what
threads have done comes with one."""
_MOST_TURNS: Final = 1000
"""Turns after which a task that is still ready is one that never waits."""


class FakeClock:
    """Implements `Clock`; time passes only in `advance` and `tick`."""

    def __init__(self, start: datetime = DAWN) -> None:
        self._now = start
        self._monotonic = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> datetime:
        """Return the current fake instant."""
        return self._now

    def monotonic(self) -> float:
        """Return the seconds that have passed, without jumps of the wall clock."""
        return self._monotonic

    async def sleep(self, seconds: float) -> None:
        """Return once the clock was advanced by that many seconds."""
        future = asyncio.get_running_loop().create_future()
        due = self._monotonic + max(0.0, seconds)
        heapq.heappush(self._sleepers, (due, next(self._order), future))
        await future

    @property
    def sleepers(self) -> int:
        """Number of pending calls of `sleep`."""
        return sum(not future.done() for _, _, future in self._sleepers)

    def tick(self, seconds: float = 0.0, **parts: float) -> datetime:
        """Let time pass without waking sleepers; return the new instant."""
        step = timedelta(seconds=seconds, **parts)
        self._now += step
        self._monotonic += step.total_seconds()
        return self._now

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back; no time passes, and no sleeper wakes."""
        self._now += timedelta(seconds=seconds)

    async def advance(self, seconds: float = 0.0, **parts: float) -> None:
        """Let time pass, and wake each sleeper at its time."""
        end = self._monotonic + timedelta(seconds=seconds, **parts).total_seconds()
        while True:
            await self._settle()
            while self._sleepers and self._sleepers[0][2].done():
                heapq.heappop(self._sleepers)
            if not self._sleepers or self._sleepers[0][0] > end:
                break
            due, _, future = heapq.heappop(self._sleepers)
            self.tick(max(0.0, due - self._monotonic))
            future.set_result(None)
        self.tick(end - self._monotonic)

    async def _settle(self) -> None:
        """Let all tasks go on until each waits for something.

        Raises:
            AssertionError: Some task never waits, so no moment is the next.
        """
        ready: Sized = getattr(asyncio.get_running_loop(), "_ready", ())
        for turn in range(_MOST_TURNS):
            await asyncio.sleep(0)
            if turn >= _LEAST_TURNS and not ready:
                return
        raise AssertionError(
            f"{len(ready)} callbacks are still to run after {_MOST_TURNS} turns of the loop; "
            "a task must wait for something before the clock is advanced."
        )


# --- a reader --------------------------------------------------------------


Answer = str | JsonValue | BaseException
"""A text as the model wrote it, any other JSON value, or an error to raise."""
_Decide = Callable[[Question], "Answer | Awaitable[Answer]"]

JPEG: Final = bytes.fromhex("ffd8ffe000104a46494600010100000100010000ffd9")
"""The shortest bytes with the start and end marks of a JPEG."""
_SCHEMA: Final[Mapping[str, JsonValue]] = {
    "type": "object",
    "properties": {"met": {"type": "string", "enum": ["yes", "no", "unsure"]}},
    "required": ["met"],
}


def a_question(*parts: str | bytes, confirms: bool = False) -> Question:
    """Return a question on texts and pictures."""
    return Question(
        instruction="You judge.",
        parts=parts or ("Does it hold?",),
        answer_schema=_SCHEMA,
        confirms=confirms,
    )


class ScriptedReader:
    """Implements `Reader`: answers from a script, then by `decide`.

    reader = ScriptedReader(script=[{"met": "no"}, ReaderUnavailable("Away.")])
    reader.decide = lambda question: {"met": "yes"}
    ...
    assert "the condition" in reader.asked[0].parts[0]
    """

    def __init__(
        self,
        decide: _Decide | None = None,
        *,
        script: Iterable[Answer] = (),
        name: str = "scripted",
        sees_pictures: bool = True,
        calls_per_day: int | None = None,
    ) -> None:
        """Set the answers; by default each one is `{}`."""
        self.name = name
        self.model = f"{name}-1"
        self.sees_pictures = sees_pictures
        self.calls_per_day = calls_per_day
        self.decide: _Decide = decide or (lambda _: {})
        self.script: deque[Answer] = deque(script)
        self.asked: list[Question] = []
        """All questions, in order."""
        self.readiness = Readiness.READY

    def status(self) -> ReaderStatus:
        """Return the readiness that the test has set."""
        detail = f"{self.name} is {self.readiness}."
        return ReaderStatus(readiness=self.readiness, detail=detail)

    async def read(self, question: Question) -> Reading:
        """Return or raise the next answer."""
        self.asked.append(question)
        if self.script:
            answer: object = self.script.popleft()
        else:
            answer = self.decide(question)
            if isinstance(answer, Awaitable):
                answer = await answer
        if isinstance(answer, BaseException):
            raise answer
        return Reading(
            answer=answer if isinstance(answer, str) else json.dumps(answer),
            reader=self.name,
            model=self.model,
            tokens_in=100,
            tokens_out=10,
            cost_usd=0.001,
        )


# --- values ----------------------------------------------------------------


_WAIT_SECONDS: Final = 300.0
"""Default timeout of `a_wait`, in seconds."""


def a_task(**changes: object) -> Task:
    """Return the active `task_1`, created at `DAWN`, with these fields changed."""
    return Task.model_validate(
        {
            "task_id": "task_1",
            "name": "Deploy the site",
            "status": TaskStatus.ACTIVE,
            "plan": ("Build it", "Test it", "Ship it"),
            "created_at": DAWN,
            "updated_at": DAWN,
            **changes,
        }
    )


def a_message(**changes: object) -> Message:
    """Return a message of the agent in `task_1`, with these fields changed."""
    return Message.model_validate(
        {
            "task_id": "task_1",
            "role": Role.AGENT,
            "msg_type": MessageType.TEXT,
            "content": "The build runs.",
            "created_at": DAWN,
            **changes,
        }
    )


def a_revision(**changes: object) -> PlanRevision:
    """Return a plan revision of `task_1`, with these fields changed."""
    return PlanRevision.model_validate(
        {
            "task_id": "task_1",
            "old_plan": ("Build it", "Ship it"),
            "new_plan": ("Build it", "Test it", "Ship it"),
            "reason": "Untested.",
            "author": Author.AGENT,
            "created_at": DAWN,
            **changes,
        }
    )


def a_wait(**changes: object) -> Wait:
    """Return `wait_1`, watching and without a task, with these fields changed."""
    return Wait.model_validate(
        {
            "wait_id": "wait_1",
            "target": "pty:build",
            "wake_when": "the build has ended",
            "timeout_seconds": _WAIT_SECONDS,
            "poll_seconds": 2.0,
            "created_at": DAWN,
            "armed_at": DAWN,
            "deadline_at": DAWN + timedelta(seconds=_WAIT_SECONDS),
            "changed_at": DAWN,
            **changes,
        }
    )


def a_wake(**changes: object) -> Wake:
    """Return `wake_1`, due at `DAWN` and without a task, with these fields changed.

    Its `key` is derived from its `wake_id`, so two wakes differ in both.
    """
    return Wake.model_validate(
        {
            "wake_id": "wake_1",
            "key": f"test:{changes.get('wake_id', 'wake_1')}",
            "cause": WakeCause.STUCK,
            "text": "[task_stuck_resume] {}",
            "created_at": DAWN,
            "due_at": DAWN,
            **changes,
        }
    )


def a_run(**changes: object) -> Run:
    """Return `run_1`, a queued run of `task_1`, with these fields changed."""
    return Run.model_validate(
        {
            "run_id": "run_1",
            "task_id": "task_1",
            "state": RunState.QUEUED,
            "created_at": DAWN,
            "changed_at": DAWN,
            "seen_at": DAWN,
            **changes,
        }
    )


def a_checkpoint(**changes: object) -> Checkpoint:
    """Return the first checkpoint of `run_1`, with these fields changed."""
    return Checkpoint.model_validate(
        {"run_id": "run_1", "number": 1, "at": DAWN, "body": "{}", "checksum": "", **changes}
    )


def an_artifact(**changes: object) -> Artifact:
    """Return `artifact_1`, a verified file of `task_1`, with these fields changed."""
    return Artifact.model_validate(
        {
            "artifact_id": "artifact_1",
            "task_id": "task_1",
            "kind": "file",
            "subject": "report.md",
            "verdict": Verdict.VERIFIED,
            "detail": "It is there.",
            "checked_at": DAWN,
            **changes,
        }
    )


def an_entry(**changes: object) -> LedgerEntry:
    """Return a ledger entry of a file that `task_1` created, with these fields changed."""
    return LedgerEntry.model_validate(
        {
            "task_id": "task_1",
            "path": "/work/report.md",
            "change": FileChange.CREATED,
            "at": DAWN,
            **changes,
        }
    )


def a_folder(**changes: object) -> WorkFolder:
    """Return the folder `/work` of `task_1`, with these fields changed."""
    return WorkFolder.model_validate({"task_id": "task_1", "path": "/work", **changes})


def an_event(**changes: object) -> Event:
    """Return an event without a task, with these fields changed."""
    return Event.model_validate({"at": DAWN, "kind": "test", **changes})


# --- the hooks of a plug-in ------------------------------------------------


_HOOKS: Final[dict[str, Callable[..., object]]] = {
    name: item for name, item in vars(specs).items() if hasattr(item, f"{PROJECT}_spec")
}


def check_plugin(module: object) -> None:
    """Compare a plug-in with the hooks and report every mismatch.

    An implementation may leave out arguments and annotations. It may annotate an argument with a
    wider type than the hook's, and its answer with a narrower one.

    Args:
        module: What the entry point names: a module, or any object.

    Raises:
        AssertionError: One line for each mismatch.
    """
    faults = list(_find_faults(module))
    if faults:
        raise AssertionError("\n".join(faults))


def _find_faults(module: object) -> Iterator[str]:
    manager = pluggy.PluginManager(PROJECT)
    marked = False
    for attribute in dir(module):
        options = manager.parse_hookimpl_opts(module, attribute)
        if options is None:
            if attribute in _HOOKS and callable(getattr(module, attribute)):
                yield f"{attribute} has the name of a hook; mark it with @hookimpl."
            continue
        marked = True
        name = options["specname"] or attribute
        if name in _HOOKS:
            wraps = options["wrapper"] or options["hookwrapper"]
            function = getattr(module, attribute)
            yield from _find_kind_faults(name, function, wraps=wraps)
            yield from _find_argument_faults(name, function)
            yield from _find_hint_faults(name, function, wraps=wraps)
        elif not options["optionalhook"]:
            near = get_close_matches(name, _HOOKS, n=1) or sorted(_HOOKS)
            yield f"There is no hook {name}; there is {', '.join(near)}."
    if not marked:
        name = getattr(module, "__name__", type(module).__name__)
        yield f"{name} has no function that is marked with @hookimpl."


def _find_kind_faults(name: str, function: Callable[..., object], *, wraps: bool) -> Iterator[str]:
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        yield (
            f"{name} is async, and nobody would await it; what takes time belongs "
            "into the object that a hook returns."
        )
    elif inspect.isgeneratorfunction(function) and not wraps:
        yield f"{name} yields, and never runs; mark it with @hookimpl(wrapper=True)."
    elif wraps and not inspect.isgeneratorfunction(function):
        yield f"{name} is marked as a wrapper, and does not yield."


def _find_argument_faults(name: str, function: Callable[..., object]) -> Iterator[str]:
    known = inspect.signature(_HOOKS[name]).parameters
    for argument in inspect.signature(function).parameters.values():
        if argument.name not in known:
            takes = ", ".join(known) or "none"
            yield f"{name} has no argument {argument.name}; the hook's are: {takes}."
        elif argument.kind is inspect.Parameter.KEYWORD_ONLY:
            yield f"{name} is called by position; {argument.name} is keyword-only."


def _find_hint_faults(name: str, function: Callable[..., object], *, wraps: bool) -> Iterator[str]:
    ours, theirs = _read_hints(_HOOKS[name]), _read_hints(function)
    answer = ours.pop("return")
    for argument, hint in ours.items():
        if argument in theirs and not _is_compatible(hint, theirs[argument]):
            yield (
                f"{name} is given {_format_hint(hint)} as {argument}, and its annotation "
                f"says {_format_hint(theirs[argument])}."
            )
    if "return" in theirs and not wraps and not _is_compatible(theirs["return"], answer):
        yield (
            f"{name} must answer {_format_hint(answer)}, and its annotation says "
            f"{_format_hint(theirs['return'])}."
        )


def _read_hints(function: Callable[..., object]) -> dict[str, Any]:
    """Return the annotations; empty if they name types that only a type checker sees."""
    plain = inspect.unwrap(function)
    names = {**vars(taskmem_hookspecs), **getattr(plain, "__globals__", {})}
    try:
        return typing.get_type_hints(plain, names)
    except Exception:  # noqa: BLE001 - whatever its author wrote there
        return {}


def _is_compatible(given: object, wanted: object) -> bool:
    """Return True if every value of one type fits the other, or if that is unclear."""
    return all(
        any(_is_member_compatible(one, other) for other in _split_union(wanted))
        for one in _split_union(given)
    )


def _is_member_compatible(given: object, wanted: object) -> bool:
    given, wanted = (typing.get_origin(hint) or hint for hint in (given, wanted))
    if typing.Any in (given, wanted) or not isinstance(given, type):
        return True
    if not isinstance(wanted, type):
        return True
    if getattr(wanted, "_is_protocol", False):
        verbs = (verb for verb, item in vars(wanted).items() if inspect.isfunction(item))
        return all(hasattr(given, verb) for verb in verbs)
    return issubclass(given, wanted)


def _split_union(hint: object) -> Sequence[object]:
    return typing.get_args(hint) if typing.get_origin(hint) in (Union, UnionType) else (hint,)


def _format_hint(hint: object) -> str:
    names = (getattr(member, "__name__", str(member)) for member in _split_union(hint))
    return " | ".join("None" if name == "NoneType" else name for name in names)
