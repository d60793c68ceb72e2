"""Ask several readers as one: in the operator's order, counted, and queued.

Questions and costs of each reader are counted by day, and for each wait, in the home's store.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, cast

from pydantic import JsonValue

from openclaw_taskmem.config import DEFAULT_READERS
from openclaw_taskmem.daemon.plugin_loops import PluginCallCancelled, PluginLoops
from openclaw_taskmem.daemon.thread_pool import ThreadPool
from openclaw_taskmem.domain.conditions.verdicts import compute_retry_delay
from openclaw_taskmem.domain.policies import read_retry_after
from openclaw_taskmem.domain.reader_budget import (
    WAITS_BOOKMARK,
    Days,
    ReaderUsage,
    UsageOfWaits,
    add_answer,
    add_question,
    count_answer,
    count_question,
    dump_days,
    dump_waits,
    find_usage,
    load_days,
    load_waits,
    order_readers,
    put_wait_usage,
    refuse_over_limit,
)
from openclaw_taskmem.domain.text.redaction import scrub
from openclaw_taskmem.engine.context import Context, ReaderAnswer
from openclaw_taskmem.plugin_host.isolation import TriedToEnd, require_value
from openclaw_taskmem.plugin_host.plugin_host import PluginHost
from taskmem_hookspecs import (
    Change,
    Clock,
    NoAnswer,
    Question,
    Reader,
    ReaderRefused,
    ReaderStatus,
    ReaderUnavailable,
    Readiness,
    Reading,
    TaskmemError,
)

log = logging.getLogger(__name__)

BOOKMARK: Final = "readers"
JUDGED_WAIT: Final[ContextVar[str | None]] = ContextVar("JUDGED_WAIT", default=None)
"""Id of the wait that is judged, for the questions that its judges ask. A question that several
waits share counts for the one that asked first."""


class _ReaderUsageCounter:
    """Counts on the daemon's event loop; may be read from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._spending_thread = ThreadPool(1, "spending")
        self._context: Context | None = None
        self._days: Days = {}
        self._waits: UsageOfWaits = {}
        self._changes = self._saved = 0
        self._saving = asyncio.Lock()

    def begin(self, context: Context) -> None:
        """Load the counts from the store."""
        self._context = context
        self._days = load_days(context.store.read_bookmark(BOOKMARK))
        self._waits = load_waits(context.store.read_bookmark(WAITS_BOOKMARK))

    async def close(self) -> None:
        """Wait for the writes in progress."""
        await self._spending_thread.close()

    def get_usage(self, reader: Reader) -> ReaderUsage:
        """Return a reader's use today."""
        return find_usage(self._days, self._clock.now(), reader.name)

    def find_refusal(self, reader: Reader, *, confirms: bool) -> tuple[str, float] | None:
        """Return why a reader may not be asked and for how many seconds; None if it may.

        `confirms`: as `Question.confirms`.
        """
        now, limit = self._clock.now(), reader.calls_per_day
        return refuse_over_limit(reader.name, self.get_usage(reader), limit, now, confirms=confirms)

    async def count_question(self, reader: Reader, wait_id: str | None) -> None:
        """Count a question just before it is sent; `wait_id`: for which wait."""
        if wait_id is not None:
            self._put_wait_usage(wait_id, add_question(self._waits.get(wait_id, ReaderUsage())))
        now = self._clock.now()
        await self._save_days(count_question(self._days, now, reader.name))

    async def count_answer(
        self, reader: Reader, answer: Reading | NoAnswer, wait_id: str | None
    ) -> None:
        """Count the tokens and cost of an answer; `wait_id`: for which wait."""
        used = answer.tokens_in, answer.tokens_out, answer.cost_usd
        if wait_id is not None:
            spent = self._waits.get(wait_id, ReaderUsage())
            self._put_wait_usage(wait_id, add_answer(spent, *used))
        tokens_in, tokens_out, cost_usd = used
        days = count_answer(
            self._days,
            self._clock.now(),
            reader.name,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            cost_usd=cost_usd,
        )
        await self._save_days(days)

    def _put_wait_usage(self, wait_id: str, spent: ReaderUsage) -> None:
        self._waits = put_wait_usage(self._waits, wait_id, spent)

    async def _save_days(self, days: Days) -> None:
        """Save the counts; if that fails, they are kept in memory and saved with the next."""
        self._days = days
        self._changes += 1
        mine, context = self._changes, self._context
        async with self._saving:
            if context is None or self._saved >= mine:
                return
            self._saved = self._changes
            marks = (
                context.store.make_bookmark(BOOKMARK, dump_days(self._days)),
                context.store.make_bookmark(WAITS_BOOKMARK, dump_waits(self._waits)),
            )
            try:
                await self._spending_thread(context.commit, Change(bookmarks=marks))
            except Exception:
                log.exception("could not save how often readers were asked")


# --- readers, asked as one -----------------------------------------------------------------


MOST_CONCURRENT_QUESTIONS: Final = 4
"""Maximum number of questions that one reader answers at once."""
_MOST_QUEUED: Final = 1000
"""Maximum number of questions that wait for one reader; the next is refused."""
BUSY_SECONDS: Final = 5.0
"""Retry delay when that many are waiting."""
REFUSED_SECONDS: Final = 3600.0
"""How long a reader is not asked after its service rejected the key."""
_ANSWER_SHARE: Final = 0.9
"""Share of a judge's time limit for the answer, so that a timeout is reported before the limit."""
_LONGEST_ANSWER: Final = 20_000
"""Characters of a reader's answer, at most."""
_QUEUE_SHARE: Final = 0.5
"""Share of that time that may pass before the question is sent."""
ASK_SECONDS: Final = 10.0
"""How long a use case waits for an answer."""
_CURE: Final = (
    "See that its provider is there and takes the key; it is asked again by itself. "
    'Until it answers, give wake_when in a form such as "text" appears, exits, or quiet for 30 s'
)
"""Advice for the user while a reader fails."""
_INITIAL_STATUS: Final = ReaderStatus(readiness=Readiness.AWAY, detail="")


@dataclass(slots=True)
class _ReaderState:
    """A reader and its state."""

    reader: Reader
    status: ReaderStatus = _INITIAL_STATUS
    """Its last status, which each offer of the readers refreshes."""
    turns: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(MOST_CONCURRENT_QUESTIONS)
    )
    """First come, first served."""
    queued: int = 0
    failures: int = 0
    """Number of questions since its last answer that it failed to take or answer in time; an
    unusable answer (`NoAnswer`) does not count."""
    rests_until: float = float("-inf")
    trouble: str = ""

    @property
    def is_off(self) -> bool:
        """True if it is not set up."""
        return self.status.readiness is Readiness.OFF

    def pause(self, sentence: str, seconds: float, now: float) -> None:
        """Ask it nothing for that many seconds."""
        self.trouble = sentence
        self.rests_until = max(self.rests_until, now + seconds)

    def refuse_while_paused(self, now: float) -> None:
        """Raise `ReaderUnavailable` while it is paused."""
        seconds = self.rests_until - now
        if seconds > 0:
            raise ReaderUnavailable(self.trouble, seconds)


def choose_readers(names: Sequence[str], plugin_host: PluginHost) -> Sequence[Reader]:
    """Return the readers that the settings name, in order; refuse an unknown name."""
    readers = plugin_host.find_readers()
    return [readers[name] for name in order_readers(names, readers, DEFAULT_READERS)]


class Readers:
    """Implements `Reader` by all readers that the operator chose."""

    calls_per_day = None
    """None: each reader has its own limit."""

    def __init__(
        self,
        readers: Sequence[Reader],
        plugin_host: PluginHost,
        plugin_loops: PluginLoops,
        clock: Clock,
        *,
        seconds: float,
    ) -> None:
        """Create the pool.

        They are asked in this order; `seconds`: time limit of a judge for one ruling.
        """
        self._entries = [_ReaderState(reader) for reader in readers]
        self._plugin_host = plugin_host
        self._plugin_loops = plugin_loops
        self._clock = clock
        self._seconds = seconds * _ANSWER_SHARE
        self._loop = asyncio.get_running_loop()
        self.spending: Final = _ReaderUsageCounter(clock)

    # --- how they stand: from any thread --------------------------------------

    @property
    def name(self) -> str:
        """Name of the first available reader."""
        return next((entry.reader.name for entry in self._list_available()), "reader")

    @property
    def model(self) -> str:
        """Model of the first available reader."""
        return next((entry.reader.model for entry in self._list_available()), "")

    @property
    def sees_pictures(self) -> bool:
        """True if any available reader accepts pictures."""
        return any(entry.reader.sees_pictures for entry in self._list_available())

    def status(self) -> ReaderStatus:
        """Ask all readers for their status, and return that of the best one."""
        for entry in self._entries:
            entry.status = self._read_status(entry)
        if able := self._list_available():
            return able[0].status
        words = " ".join(describe_status(entry.status) for entry in self._entries)
        words = words or "TASKMEM_READERS is none, so nobody reads free English."
        return ReaderStatus(readiness=Readiness.OFF, detail=words)

    def offer(self) -> tuple[Reader | None, ReaderStatus]:
        """Return this pool and its status; None in place of the pool if no reader is set up."""
        status = self.status()
        return (None if status.readiness is Readiness.OFF else self), status

    def _list_available(self) -> list[_ReaderState]:
        """Return the readers that are set up, ready ones first."""
        able = [entry for entry in self._entries if not entry.is_off]
        return sorted(able, key=lambda each: each.status.readiness is Readiness.AWAY)

    def _read_status(self, entry: _ReaderState) -> ReaderStatus:
        """Return a reader's status; AWAY if it fails to say, OFF if its limit is 0."""
        if entry.reader.calls_per_day == 0:
            sentence, _ = self.spending.find_refusal(entry.reader, confirms=False) or ("", 0.0)
            return ReaderStatus(readiness=Readiness.OFF, detail=sentence)
        status = self._plugin_host.call_part(entry.reader, "status", entry.reader.status)
        if not isinstance(status, ReaderStatus):
            return ReaderStatus(
                readiness=Readiness.AWAY,
                detail=f"{entry.reader.name} does not say how it stands.",
                cure="See: taskmem plugins",
            )
        if status.readiness is not Readiness.READY or not entry.failures:
            return status
        times = f"the last {entry.failures} times" if entry.failures > 1 else "when asked"
        failed = f"It did not answer {times}: {entry.trouble}"
        return status.model_copy(update={"detail": f"{status.detail} {failed}"})

    def build_view(self) -> list[JsonValue]:
        """Return each reader's status and use today, for `taskmem status`."""
        return [self._build_row(entry) for entry in self._entries]

    def _build_row(self, entry: _ReaderState) -> JsonValue:
        status, reader = self._read_status(entry), entry.reader
        entry.status = status
        spent = self.spending.get_usage(reader)
        state, detail, cure = status.readiness.value, status.detail, status.cure
        refusal = self.spending.find_refusal(entry.reader, confirms=False)
        if status.readiness is Readiness.READY and refusal is not None:
            state, detail, cure = "spent", refusal[0], None
        elif status.readiness is Readiness.READY and entry.rests_until > self._clock.monotonic():
            state, cure = "resting", _CURE
        elif status.readiness is Readiness.READY and entry.failures:
            state, cure = "failing", _CURE
        return {
            "name": reader.name,
            "model": reader.model,
            "asked": spent.asked,
            "limit": reader.calls_per_day,
            "tokens_in": spent.tokens_in,
            "tokens_out": spent.tokens_out,
            "cost_usd": spent.cost_usd,
            "state": state,
            "detail": scrub(detail),
            "cure": cure,
        }

    # --- asking: from any loop ------------------------------------------------

    async def read(self, question: Question) -> Reading:
        """Ask the readers in order until one answers; the note says why those before it did not.

        Raises:
            NoAnswer: None answered, and at least one returned an unusable answer.
            ReaderUnavailable: None could be asked or answered in time; the sentence says why.
        """
        wait_id = JUDGED_WAIT.get()
        if asyncio.get_running_loop() is self._loop:
            return await self._read_first_able(question, wait_id)
        reading = self._read_first_able(question, wait_id)
        future = asyncio.run_coroutine_threadsafe(reading, self._loop)
        return await asyncio.wrap_future(future)

    def ask(
        self, instruction: str, text: str, schema: Mapping[str, JsonValue]
    ) -> ReaderAnswer | None:
        """Ask about a text, from a thread, and return the answer.

        None: there is no reader, none answered within `ASK_SECONDS`, or the answer is invalid.
        """
        if self.offer()[0] is None:
            return None
        question = Question(instruction=instruction, parts=(text,), answer_schema=schema)
        future = asyncio.run_coroutine_threadsafe(self._read_first_able(question), self._loop)
        try:
            reading = future.result(ASK_SECONDS)
            found: object = json.loads(reading.answer)
        except (TimeoutError, CancelledError, TaskmemError, ValueError, RecursionError):
            future.cancel()
            return None
        required = schema.get("required")
        fields = cast("list[str]", required) if isinstance(required, list) else []
        if not isinstance(found, dict) or not all(name in found for name in fields):
            return None
        return ReaderAnswer(cast("dict[str, JsonValue]", found), reading.reader)

    async def _read_first_able(self, question: Question, wait_id: str | None = None) -> Reading:
        passed: list[ReaderUnavailable] = []
        for entry in self._entries:
            if entry.is_off:
                continue
            if question.has_pictures and not entry.reader.sees_pictures:
                passed.append(ReaderUnavailable(f"{entry.reader.name} sees no pictures."))
                continue
            try:
                reading = await self._ask_reader(entry, question, wait_id)
            except ReaderUnavailable as trouble:
                passed.append(trouble)
                continue
            if not passed:
                return reading
            why = " ".join(map(str, passed))
            note = f"{entry.reader.name} was asked instead: {why}"
            return reading.model_copy(update={"note": note})
        raise _combine_errors(passed)

    async def _ask_reader(
        self, entry: _ReaderState, question: Question, wait_id: str | None
    ) -> Reading:
        self._refuse_question(entry, question)
        if entry.queued >= _MOST_QUEUED:
            sentence = f"{entry.queued} questions wait for {entry.reader.name} already."
            raise ReaderUnavailable(sentence, BUSY_SECONDS)
        began = self._loop.time()
        await self._acquire_slot(entry)
        try:
            # Check again, since this may have changed while the question was queued.
            self._refuse_question(entry, question)
            await self.spending.count_question(entry.reader, wait_id)
            seconds = self._seconds - (self._loop.time() - began)
            return await self._request_answer(entry, question, seconds, wait_id)
        finally:
            entry.turns.release()

    def _refuse_question(self, entry: _ReaderState, question: Question) -> None:
        """Raise if the reader cannot be asked now.

        Raises:
            ReaderUnavailable: It is paused, or over its limit.
        """
        entry.refuse_while_paused(self._clock.monotonic())
        refusal = self.spending.find_refusal(entry.reader, confirms=question.confirms)
        if refusal is not None:
            raise ReaderUnavailable(*refusal)

    async def _acquire_slot(self, entry: _ReaderState) -> None:
        """Wait for a free slot; the caller must release it.

        Raises:
            ReaderUnavailable: It took too long.
        """
        entry.queued += 1
        try:
            async with asyncio.timeout(self._seconds * _QUEUE_SHARE):
                await entry.turns.acquire()
        except TimeoutError:
            sentence = f"{entry.reader.name} is busy with other questions."
            raise ReaderUnavailable(sentence) from None
        finally:
            entry.queued -= 1

    async def _request_answer(
        self, entry: _ReaderState, question: Question, limit: float, wait_id: str | None
    ) -> Reading:
        reader, now = entry.reader, self._clock.monotonic
        asking = self._plugin_loops.get_loop(reader).call(lambda: reader.read(question))
        try:
            async with asyncio.timeout(limit):
                reading = _require_reading(await asking)
        except NoAnswer as error:
            await self.spending.count_answer(reader, error, wait_id)
            raise
        except ReaderRefused as error:
            entry.failures += 1
            entry.pause(str(error), REFUSED_SECONDS, now())
            raise
        except TimeoutError:
            sentence = f"{reader.name} gave no answer within {limit:.0f} s."
            raise self._record_failure(entry, ReaderUnavailable(sentence)) from None
        except ReaderUnavailable as error:
            raise self._record_failure(entry, error) from None
        except (TriedToEnd, PluginCallCancelled) as error:
            trouble = ReaderUnavailable(f"{reader.name} failed: {error}.")
            raise self._record_failure(entry, trouble) from error
        except Exception as error:
            self._plugin_host.record_failure(reader, "reader", error)
            trouble = ReaderUnavailable(f"{reader.name} failed; see taskmem plugins.")
            raise self._record_failure(entry, trouble) from error
        entry.failures = 0
        await self.spending.count_answer(reader, reading, wait_id)
        return reading.model_copy(update={"reader": reader.name})

    def _record_failure(self, entry: _ReaderState, trouble: ReaderUnavailable) -> ReaderUnavailable:
        """Pause a reader, longer with each failure; return the error to raise."""
        entry.failures += 1
        rest = max(compute_retry_delay(entry.failures), read_retry_after(trouble) or 0.0)
        trouble.retry_seconds = min(rest, REFUSED_SECONDS)
        entry.pause(str(trouble), trouble.retry_seconds, self._clock.monotonic())
        return trouble


def describe_status(status: ReaderStatus) -> str:
    """Return a reader's status and what to do about it, in words."""
    return f"{status.detail} {status.cure}." if status.cure else status.detail


def _combine_errors(passed: Sequence[ReaderUnavailable]) -> ReaderUnavailable:
    """Return one error for all readers that gave no answer."""
    words = " ".join(map(str, passed)) or "There is no reader; see taskmem doctor."
    rests = [rest for each in passed if (rest := each.retry_seconds) is not None]
    kind = NoAnswer if any(isinstance(e, NoAnswer) for e in passed) else None
    return (kind or ReaderUnavailable)(words, min(rests, default=None))


def _require_reading(answer: object) -> Reading:
    """Return a reader's answer if it is a reading, and not far too long."""
    reading = require_value(answer, Reading)
    if len(reading.answer) > _LONGEST_ANSWER:
        raise NoAnswer(
            f"{reading.reader}'s answer had {len(reading.answer):,} characters.",
            tokens_in=reading.tokens_in,
            tokens_out=reading.tokens_out,
            cost_usd=reading.cost_usd,
        )
    return reading
