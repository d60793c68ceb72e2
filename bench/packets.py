"""The resume packet of a task with a long thread, and queries on it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from figures import Figure, amount, millis, ratio, sample_in_turns
from homes import POLICY, fill_home, make_home, open_store

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.changes import stuck
from openclaw_taskmem.domain.tasks import thread
from openclaw_taskmem.domain.text import redaction
from openclaw_taskmem.domain.wakes import packet
from openclaw_taskmem.engine.context import Context, Policies, ScopedStore
from openclaw_taskmem.engine.stuck import sweep_due_tasks
from openclaw_taskmem.plugin_host.plugin_host import PluginHost
from openclaw_taskmem.tools import catalog
from taskmem_hookspecs import (
    Change,
    Message,
    MessageType,
    ResumeFacts,
    ResumePacket,
    Role,
    StuckVerdict,
    Task,
    TaskStatus,
    TaskStore,
    TextQuery,
)
from taskmem_hookspecs.testing import FakeClock

MESSAGES = 10_000
SAMPLES = 500
LONG = 20
"""Samples where every message is as long as one may be."""
ALERTS = 50
SAID = "Read file {} of the module and noted what its callers expect of it. "
WORST_TEXT = "[system]\u2028\U0001f4a5" * 60
LINE, LONGEST = 4 * len(SAID), 64 * 1024


def resume_packet() -> Iterator[Figure]:
    """Measure reading, building, fitting and encoding; then a whole alert."""
    plugin_host = PluginHost()
    with open_talk(MESSAGES, LINE) as (store, task_id):
        times, sizes = _time_packets(store, plugin_host, task_id, SAMPLES)
        alerts = _time_alerts(store, plugin_host)
    yield millis("resume packet from 10,000 messages", times, 10)
    yield amount("its size", sizes, "KiB", packet.LIMIT / 1024)
    yield millis("a whole alert: found, packed, durable", alerts)
    with open_talk(thread.MOST_READ_MESSAGES, LONGEST) as (store, task_id):
        times, sizes = _time_packets(store, plugin_host, task_id, LONG)
    yield millis("resume packet from messages of 64 KiB, the longest there are", times)
    yield amount("its size", sizes, "KiB", packet.LIMIT / 1024)


def worst_packet() -> Iterator[Figure]:
    """Measure the fitting of the packet that has most to shorten, against writing it once."""
    built = _build_worst_packet()
    samples = sample_in_turns(
        SAMPLES,
        fitted=_time_cpu(lambda: packet.encode_packet(packet.fit_packet(built))),
        written=_time_cpu(lambda: json.dumps(built.model_dump(mode="json"), ensure_ascii=False)),
    )
    yield millis("worst resume packet, fitted and encoded: CPU", samples["fitted"], 50)
    yield ratio("fitting it : writing it once as JSON", samples["fitted"], samples["written"], 60)


def thread_query() -> Iterator[Figure]:
    """Measure answers from a long thread; its order alone, then the whole call."""
    with open_talk(MESSAGES, LINE) as (store, task_id):
        messages = store.read_records(Message, task_id)
        plan = store.read_task(task_id).task.plan
        context = Context(
            store=ScopedStore(store), plugin_host=PluginHost(), clock=FakeClock(datetime.now(UTC))
        )
        asked = {"task_id": task_id, "query": "why did file 77 of step 2 fail?"}
        searches, calls = [], []
        for _ in range(LONG):
            start = time.perf_counter()
            question = thread.parse_query(asked["query"], plan)
            found = store.find_texts(TextQuery(patterns=question.patterns, task_id=task_id))
            places = {
                pattern: [number or 0 for _, number in match.places]
                for pattern, match in found.items()
            }
            thread.search_thread(question, len(plan), messages, places)
            searches.append(time.perf_counter() - start)
            start = time.perf_counter()
            catalog.answer_call(context, "task_update", asked, Caller())
            calls.append(time.perf_counter() - start)
    yield millis("a query ranked over 10,000 messages", searches, 150)
    yield millis("the whole call, with reading them", calls)


@contextmanager
def open_talk(count: int, size: int) -> Iterator[tuple[TaskStore, str]]:
    """Give a store with one task, whose thread has so many messages of that size."""
    with make_home() as home:
        (task_id,) = fill_home(home, 1, "agent:main:main")
        store = open_store(home)
        _write_talk(store, task_id, size, count)
        yield store, task_id
        store.close()


def _time_packets(
    store: TaskStore, plugin_host: PluginHost, task_id: str, samples: int
) -> tuple[list[float], list[float]]:
    one = _make_packer(store, plugin_host, task_id)
    one()
    times, sizes = [], []
    for _ in range(samples):
        start = time.perf_counter()
        text = one()
        times.append(time.perf_counter() - start)
        sizes.append(len(text.removeprefix(packet.MARKER).strip().encode()) / 1024)
    return times, sizes


def _make_packer(store: TaskStore, plugin_host: PluginHost, task_id: str) -> Callable[[], str]:
    """Return what the stuck pass does from the verdict to the wake's text."""

    def one() -> str:
        facts = store.read_task(task_id)
        now = facts.task.updated_at + timedelta(days=2)
        verdict = stuck.judge_stuck(facts, now, POLICY)
        assert verdict is not None  # noqa: S101 - after two days of silence
        built = plugin_host.build_resume_packet(
            ResumeFacts(
                task=facts.task,
                waits=facts.waits,
                messages=tuple(store.read_records(Message, task_id, thread.MOST_READ_MESSAGES)),
                verdict=verdict,
                wake_id="wake_06dq3z8v1h2k9f",
                now=now,
            )
        )
        clean = redaction.scrub_json(built.model_dump(mode="json"))
        return packet.encode_packet(packet.fit_packet(ResumePacket.model_validate(clean)))

    return one


def _build_worst_packet() -> ResumePacket:
    """Build a packet whose every text is long and full of markers and hidden characters."""
    now = datetime.now(UTC)
    calls = (WORST_TEXT,) * 12
    task = Task(
        task_id="task_1",
        name=WORST_TEXT[:200],
        plan=(WORST_TEXT[:500],) * 200,
        status=TaskStatus.ACTIVE,
        created_at=now,
        updated_at=now,
    )
    message = Message(
        task_id=task.task_id,
        role=Role.AGENT,
        msg_type=MessageType.TEXT,
        content=WORST_TEXT * 50,
        created_at=now,
    )
    return packet.build_packet(
        ResumeFacts(
            task=task,
            messages=(message,) * 3,
            verdict=StuckVerdict(idle_seconds=540, reason="no updates for 9 minutes"),
            wake_id="wake_1",
            now=now,
            done_calls=calls,
            cut_calls=calls,
            dropped=calls,
        )
    )


def _time_cpu(work: Callable[[], object]) -> Callable[[int], float]:
    """Return what does some work, and returns the seconds of CPU that it took."""

    def measure(_: int) -> float:
        start = time.process_time()
        work()
        return time.process_time() - start

    return measure


def _time_alerts(store: TaskStore, plugin_host: PluginHost) -> list[float]:
    clock = FakeClock(datetime.now(UTC))
    policy = POLICY.model_copy(update={"cooldown_seconds": 1.0})
    policies = Policies(stuck=policy)
    context = Context(
        store=ScopedStore(store), plugin_host=plugin_host, clock=clock, policies=policies
    )
    times = []
    for _ in range(ALERTS):
        clock.tick(days=3)
        start = time.perf_counter()
        looked = sweep_due_tasks(context)
        times.append(time.perf_counter() - start)
        if looked != 1:
            raise SystemExit("The task should have been stuck.")
    return times


def _write_talk(store: TaskStore, task_id: str, size: int, count: int) -> None:
    task = store.read_task(task_id).task
    start = task.updated_at
    messages = tuple(
        Message(
            task_id=task_id,
            role=Role.AGENT,
            msg_type=MessageType.TEXT,
            content=(SAID.format(number) * (size // len(SAID) + 1))[:size],
            created_at=start + timedelta(milliseconds=number),
        )
        for number in range(count)
    )
    counted = task.model_copy(update={"message_count": count})
    store.commit(Change(tasks=(counted,), messages=messages))
