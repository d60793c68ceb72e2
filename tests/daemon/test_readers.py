"""All readers behind one: their order, their limits, their loops and their queue."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest

from openclaw_taskmem.daemon.readers import MOST_CONCURRENT_QUESTIONS, REFUSED_SECONDS
from openclaw_taskmem.engine.context import ReaderAnswer
from taskmem_hookspecs import (
    JudgeUnavailable,
    NoAnswer,
    ReaderRefused,
    ReaderUnavailable,
    Readiness,
    Reading,
)
from taskmem_hookspecs.testing import JPEG, ScriptedReader, a_question
from tests.support.memory_store import MemoryStore
from tests.support.reader_pools import join_readers


def make_readers(*names, **fields):
    return [ScriptedReader(name=name, **fields) for name in names]


async def refusal(readers, question=None):
    with pytest.raises(ReaderUnavailable) as caught:
        await readers.read(question or a_question())
    return caught.value


def rows(readers):
    return {row["name"]: row for row in readers.build_view()}


# --- the order ----------------------------------------------------------------


async def test_the_first_one_answers_and_nobody_else_is_asked():
    first, second = make_readers("first", "second")
    async with join_readers(first, second) as readers:
        reading = await readers.read(a_question())
    assert (reading.reader, reading.note) == ("first", None)
    assert second.asked == []


@pytest.mark.parametrize(
    "trouble",
    [
        ReaderUnavailable("It is away."),
        ReaderRefused("It refused the key."),
        NoAnswer("It was blocked."),
        OSError("Boom."),
        "not a reading",
    ],
    ids=lambda each: type(each).__name__,
)
async def test_next_reader_is_asked_and_noted_when_one_cannot_answer(trouble):
    first, second = make_readers("first", "second")
    first.script.append(trouble)
    if isinstance(trouble, str):
        first.read = None
    async with join_readers(first, second) as readers:
        reading = await readers.read(a_question())
    assert reading.reader == "second"
    assert reading.note.startswith("second was asked instead: ")


async def test_one_that_sees_nothing_is_not_shown_pictures():
    blind, seeing = ScriptedReader(name="blind", sees_pictures=False), ScriptedReader()
    async with join_readers(blind, seeing) as readers:
        reading = await readers.read(a_question("Look:", JPEG))
        assert readers.sees_pictures
    assert (reading.reader, blind.asked) == ("scripted", [])


async def test_where_nobody_can_answer_all_reasons_are_told():
    first, second = make_readers("first", "second")
    first.script.append(ReaderUnavailable("First is away.", 7))
    second.script.append(ReaderUnavailable("Second is away.", 30))
    async with join_readers(first, second) as readers:
        error = await refusal(readers)
    assert str(error) == "First is away. Second is away."
    assert error.retry_seconds == 7
    assert isinstance(error, JudgeUnavailable)


async def test_without_any_reader_none_is_offered():
    async with join_readers() as readers:
        reader, status = readers.offer()
        assert reader is None
        assert status.readiness is Readiness.OFF
        await refusal(readers)


@pytest.mark.parametrize(
    ("first", "second", "name"),
    [
        ("ready", "ready", "first"),
        ("away", "ready", "second"),
        ("away", "off", "first"),
        ("off", "ready", "second"),
    ],
)
async def test_the_first_that_is_ready_gives_its_name(first, second, name):
    both = make_readers("first", "second")
    for reader, readiness in zip(both, (first, second), strict=True):
        reader.readiness = Readiness(readiness)
    async with join_readers(*both) as readers:
        reader, status = readers.offer()
        assert reader is readers
        assert readers.name == name
        assert (status.readiness is Readiness.AWAY) is ("ready" not in (first, second))


async def test_one_that_is_off_is_not_asked_and_not_mentioned():
    off, ready = make_readers("off", "ready")
    off.readiness = Readiness.OFF
    never = ScriptedReader(name="never", calls_per_day=0)
    async with join_readers(off, never, ready) as readers:
        readers.offer()
        reading = await readers.read(a_question())
        assert (reading.reader, reading.note) == ("ready", None)
        assert off.asked == never.asked == []
        assert rows(readers)["off"]["asked"] == 0


async def test_a_use_case_asks_none_that_is_off():
    off = ScriptedReader()
    off.readiness = Readiness.OFF
    async with join_readers(off) as readers:
        assert await ask(readers) is None
    assert off.asked == []


async def test_its_name_is_told_without_asking_how_it_stands(monkeypatch):
    (reader,) = make_readers("first")
    async with join_readers(reader) as readers:
        readers.offer()
        monkeypatch.setattr(reader, "status", None)
        assert (readers.name, readers.model) == ("first", "first-1")
        assert readers.sees_pictures


async def test_one_that_is_never_asked_counts_as_off():
    async with join_readers(ScriptedReader(calls_per_day=0)) as readers:
        reader, status = readers.offer()
    assert reader is None
    assert "TASKMEM_SCRIPTED_CALLS_PER_DAY is 0" in status.detail


# --- limits -------------------------------------------------------------------


async def test_questions_at_once_do_not_exceed_the_day_and_one_is_kept():
    reader = ScriptedReader(calls_per_day=5)
    async with join_readers(reader) as readers:
        asked = (readers.read(a_question(str(n))) for n in range(20))
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert sum(isinstance(each, Reading) for each in found) == 4
        assert "its last call is kept to confirm a yes" in str(await refusal(readers))
        await readers.read(a_question(confirms=True))
        await refusal(readers, a_question(confirms=True))
        assert rows(readers)["scripted"]["state"] == "spent"
        await readers.clock.advance(timedelta(days=1).total_seconds())
        await readers.read(a_question())
    assert len(reader.asked) == 6


async def test_what_was_asked_is_remembered_by_the_next_daemon():
    store = MemoryStore()
    async with join_readers(ScriptedReader(), store=store) as readers:
        for _ in range(3):
            await readers.read(a_question())
        clock = readers.clock
    async with join_readers(ScriptedReader(), store=store, clock=clock) as readers:
        row = rows(readers)["scripted"]
    assert row == {
        "name": "scripted",
        "model": "scripted-1",
        "asked": 3,
        "limit": None,
        "tokens_in": 300,
        "tokens_out": 30,
        "cost_usd": pytest.approx(0.003),
        "state": "ready",
        "detail": "scripted is ready.",
        "cure": None,
    }


async def test_an_answer_that_is_none_counts_with_what_it_used_up():
    reader = ScriptedReader(script=[NoAnswer("Cut.", tokens_in=9, tokens_out=2)])
    async with join_readers(reader) as readers:
        assert isinstance(await refusal(readers), NoAnswer)
        row = rows(readers)["scripted"]
        assert (row["asked"], row["tokens_in"], row["cost_usd"]) == (1, 9, None)
        await readers.read(a_question())


async def test_a_far_too_long_answer_is_none():
    async with join_readers(ScriptedReader(script=["x" * 30_000])) as readers:
        error = await refusal(readers)
    assert isinstance(error, NoAnswer)
    assert str(error) == "scripted's answer had 30,000 characters."


# --- rests --------------------------------------------------------------------


async def test_a_key_that_is_refused_is_not_tried_within_the_hour():
    reader = ScriptedReader(script=[ReaderRefused("The key is wrong.")])
    async with join_readers(reader) as readers:
        await refusal(readers)
        await readers.clock.advance(REFUSED_SECONDS - 1)
        assert str(await refusal(readers)) == "The key is wrong."
        assert rows(readers)["scripted"]["state"] == "resting"
        assert len(reader.asked) == 1
        await readers.clock.advance(1)
        await readers.read(a_question())


async def test_one_that_failed_last_is_told_until_it_answers():
    down = ReaderUnavailable("It is down.")
    async with join_readers(ScriptedReader(script=[down, down])) as readers:
        for seconds in (1, 2):
            await refusal(readers)
            assert rows(readers)["scripted"]["state"] == "resting"
            await readers.clock.advance(seconds)
        row, said = rows(readers)["scripted"], readers.offer()[1].detail
        assert row["state"] == "failing"
        assert row["detail"] == said
        assert said.endswith("It did not answer the last 2 times: It is down.")
        assert "takes the key" in row["cure"]
        await readers.read(a_question())
        assert rows(readers)["scripted"]["state"] == "ready"
        assert "down" not in readers.offer()[1].detail


async def test_one_that_fails_rests_longer_each_time():
    reader = ScriptedReader(lambda _: ReaderUnavailable("It is down."))
    async with join_readers(reader) as readers:
        rests = []
        for _ in range(7):
            rests.append((await refusal(readers)).retry_seconds)
            await readers.clock.advance(rests[-1])
    assert rests == [1, 2, 4, 8, 16, 30, 30]


async def test_it_rests_as_long_as_it_asks_to_and_an_hour_at_most():
    reader = ScriptedReader(script=[ReaderUnavailable("Its limit is reached.", 60)])
    async with join_readers(reader) as readers:
        await refusal(readers)
        await readers.clock.advance(59)
        assert (await refusal(readers)).retry_seconds == pytest.approx(1)
        assert len(reader.asked) == 1
        await readers.clock.advance(1)
        reader.script.append(ReaderUnavailable("Its limit is reached.", 86_400))
        assert (await refusal(readers)).retry_seconds == REFUSED_SECONDS


async def test_an_answer_that_was_under_way_does_not_end_a_rest():
    begun, go_on = threading.Event(), threading.Event()

    async def answer(question):
        if question.parts == ("second",):
            return ReaderUnavailable("Its limit is reached.", 60)
        begun.set()
        await asyncio.to_thread(go_on.wait, 20)
        return {}

    reader = ScriptedReader(answer)
    async with join_readers(reader) as readers:
        slow = asyncio.create_task(readers.read(a_question("first")))
        await asyncio.to_thread(begun.wait, 20)
        await refusal(readers, a_question("second"))
        go_on.set()
        await slow
        assert (await refusal(readers)).retry_seconds == pytest.approx(60)


async def test_one_that_hangs_is_left_within_the_judges_limit():
    hangs = ScriptedReader(lambda _: asyncio.Event().wait(), name="hangs")
    other = ScriptedReader(name="other")
    async with join_readers(hangs, other, seconds=0.2) as readers:
        await readers.read(a_question())
        reading = await readers.read(a_question())
    assert len(hangs.asked) == 1, "it rests"
    assert reading.note.startswith("other was asked instead: hangs gave no answer")


async def test_a_question_that_is_given_up_ends_there_too():
    begun, ended = asyncio.Event(), threading.Event()
    here = asyncio.get_running_loop()

    async def forever(_):
        here.call_soon_threadsafe(begun.set)
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with join_readers(ScriptedReader(forever)) as readers:
        asking = asyncio.create_task(readers.read(a_question()))
        await begun.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert await asyncio.to_thread(ended.wait, 20)


# --- the queue ----------------------------------------------------------------


async def test_readers_answer_many_questions_in_order_a_few_at_once():
    running, most, order = 0, 0, []
    all_run = asyncio.Event()

    async def slowly(question):
        nonlocal running, most
        running += 1
        most = max(most, running)
        order.append(int(question.parts[0]))
        if running == MOST_CONCURRENT_QUESTIONS:
            all_run.set()
        await all_run.wait()
        await asyncio.sleep(0)
        running -= 1
        return {"met": "no"}

    async with join_readers(ScriptedReader(slowly)) as readers:
        asked = (readers.read(a_question(str(n))) for n in range(200))
        found = await asyncio.gather(*asked)
    assert len(found) == 200
    assert most == MOST_CONCURRENT_QUESTIONS
    assert order == sorted(order)


async def test_who_waits_too_long_for_a_turn_is_told_and_rests_nobody():
    reader = ScriptedReader(lambda _: asyncio.sleep(0.35, {"met": "no"}))
    async with join_readers(reader, seconds=0.5) as readers:
        asked = (readers.read(a_question(str(n))) for n in range(3 * MOST_CONCURRENT_QUESTIONS))
        found = await asyncio.gather(*asked, return_exceptions=True)
        late = [each for each in found if isinstance(each, ReaderUnavailable)]
        assert {str(each) for each in late} == {"scripted is busy with other questions."}
        assert rows(readers)["scripted"]["state"] == "ready"


# --- loops --------------------------------------------------------------------


async def test_judge_lane_and_reader_lane_do_not_block_each_other():
    go_on = threading.Event()

    class Blocks(ScriptedReader):
        async def read(self, question):
            assert go_on.wait(20)  # it blocks its own loop
            return await super().read(question)

    async with join_readers(Blocks()) as readers:
        judges = asyncio.new_event_loop()
        plugin_loop = threading.Thread(target=judges.run_forever)
        plugin_loop.start()
        try:
            asked = asyncio.run_coroutine_threadsafe(readers.read(a_question()), judges)
            ping = asyncio.run_coroutine_threadsafe(asyncio.sleep(0, "pong"), judges)
            assert await asyncio.to_thread(ping.result, 20) == "pong"
            assert not asked.done()
            go_on.set()
            reading = await asyncio.to_thread(asked.result, 20)
            assert reading.reader == "scripted"
        finally:
            go_on.set()
            judges.call_soon_threadsafe(judges.stop)
            await asyncio.to_thread(plugin_loop.join)
            judges.close()


# --- questions of the core ----------------------------------------------------

SCHEMA = {"type": "object", "required": ["claims"]}


async def ask(readers):
    return await asyncio.to_thread(readers.ask, "You judge.", "I wrote it.", SCHEMA)


async def test_a_use_case_asks_from_a_thread_and_gets_the_fields():
    reader = ScriptedReader(script=[{"claims": True, "more": 1}])
    async with join_readers(reader) as readers:
        assert await ask(readers) == ReaderAnswer({"claims": True, "more": 1}, "scripted")
        assert rows(readers)["scripted"]["asked"] == 1
    (question,) = reader.asked
    assert (question.instruction, question.parts) == ("You judge.", ("I wrote it.",))


@pytest.mark.parametrize(
    "answer",
    [
        *(ReaderUnavailable("Away."), "prose", "[1]", {"other": 1}, "{", "[" * 9999),
        OSError("Boom."),
    ],
    ids=lambda each: str(each)[:12],
)
async def test_a_use_case_gets_none_for_what_is_no_answer(answer):
    async with join_readers(ScriptedReader(script=[answer])) as readers:
        assert await ask(readers) is None


async def test_a_use_case_without_a_reader_gets_none():
    async with join_readers() as readers:
        assert await ask(readers) is None
