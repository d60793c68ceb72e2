import asyncio
import contextlib
import shutil
import sqlite3
import stat
import threading
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskmem_hookspecs import Message, StoreFull, TaskmemError
from taskmem_recall import past_task_pages as pages
from taskmem_recall.past_task_database import IndexDamaged
from taskmem_recall.past_task_search import COMPARED
from taskmem_recall.past_tasks import REST, PastTasks
from tests.support.waiting import until
from tests.support.world import World


class Followed:
    """A home with a source that follows it."""

    def __init__(self, folder):
        self.world = World()
        self.folder = folder
        self.source = PastTasks(self.world.history, folder, self.world.clock)

    def ask(self, query, limit=3, bias=0.5):
        return self.source.recall(query, limit, bias)

    async def catch_up(self):
        """Run the source until it has stored all that there is."""
        self.source._is_complete = False
        running = asyncio.create_task(self.source.run())
        try:
            while self.source.advice() is not None and not running.done():
                await asyncio.wait([running], timeout=0.005)
            if running.done():
                running.result()
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError, TaskmemError, IndexDamaged):
                await running


@pytest.fixture
def home(tmp_path):
    return Followed(tmp_path / "recall")


PLAN = ["Find the certificate", "Order a new one", "Reload Postfix"]


def register_renewal(home):
    task_id = home.world.register("Renew the TLS certificate of the mail server", plan=PLAN)
    home.world.call("task_update", task_id=task_id, completed_steps=[1, 2])
    home.world.clock.tick(60)
    home.world.narrate(task_id, "Dovecot went on serving the old chain until it was restarted.")
    return task_id


async def test_a_question_finds_the_task_and_the_message(home):
    home.world.register("Book a hotel in Bergen")
    task_id = register_renewal(home)
    await home.catch_up()

    (best, *_) = home.ask("why did dovecot keep the old chains after renewing certificates?")

    (said,) = [m for m in home.world.store.read_records(Message, task_id) if "Dovecot" in m.content]
    assert (best.source, best.task_id, best.message_id) == ("tasks", task_id, said.message_id)
    assert best.timestamp == said.created_at
    assert best.steps == ("Find the certificate", "Order a new one")
    assert best.summary.startswith("Renew the TLS certificate of the mail server: Dovecot went on")


async def test_words_that_are_known_only_joined_find_the_task(home):
    task_id = home.world.register("Add an SSH key")
    await home.catch_up()
    assert [found.task_id for found in home.ask("ss h cey")] == [task_id]
    assert home.source.advice() is None


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("mailserver", id="two words written as one"),
        pytest.param("certif dovec", id="beginnings of words"),
        pytest.param("RENEWING certificates", id="other forms and case"),
        pytest.param("/etc/dovecot/mail-server.conf", id="parts of a path"),
        pytest.param("wo ist das TLS-Zertifikat von dovecot", id="another language"),
        pytest.param('dovecot AND NOT "chain NEAR( * OR', id="operators of the index"),
    ],
)
async def test_words_are_found_however_they_are_written(home, query):
    home.world.register("Book a hotel in Bergen")
    task_id = register_renewal(home)
    await home.catch_up()
    assert home.ask(query)[0].task_id == task_id


@pytest.mark.parametrize("query", ["q", "?! … ()", "zzz " * 16_384, "\ud800\0", "的"])
async def test_a_question_without_a_match_finds_nothing(home, query):
    register_renewal(home)
    await home.catch_up()
    assert not home.ask(query)


async def test_as_many_tasks_are_found_as_are_wanted(home):
    for number in range(70):
        home.world.register(f"Deploy billing {number}")
    await home.catch_up()
    assert len(home.ask("deploy billing", limit=3)) == 3
    assert len(home.ask("deploy billing", limit=65)) == 65


@pytest.mark.parametrize("others", [1, 90], ids=["a long one", "many"])
async def test_a_task_behind_those_of_others_is_found(home, others, monkeypatch):
    monkeypatch.setattr(pages, "PAGE_CHARACTERS", 1)
    for _ in range(others):
        hidden = home.world.register("Deploy billing, billing, billing")
        for _ in range(0 if others > 1 else 90):
            home.world.narrate(hidden, "billing billing")
    own = home.world.register("Something else")
    home.world.narrate(own, "A longer message, in which billing stands only once")
    await home.catch_up()
    asked = []

    def may_recall(task_id):
        asked.append(task_id)
        return task_id == own

    found = home.source.recall_tasks("deploy billing", 3, 0.5, may_recall)
    assert [each.task_id for each in found] == [own]
    assert len(asked) > others


async def test_no_more_tasks_are_asked_about_than_are_compared(home):
    for number in range(40):
        home.world.register(f"Deploy billing {number}")
    await home.catch_up()
    asked = []
    assert len(home.source.recall_tasks("billing", 3, 0.5, lambda it: not asked.append(it))) == 3
    assert len(asked) == COMPARED


async def test_what_was_made_and_why_a_plan_changed_is_found(home):
    task_id = home.world.register("Invoices", plan=["Export", "Send"])
    home.world.call(
        "task_plan_update", task_id=task_id, new_plan=["Filter", "Send"], reason="Ledger mismatch"
    )
    await home.catch_up()

    assert home.ask("ledger mismatches")[0].summary == "Invoices: Plan revised: Ledger mismatch"
    assert home.ask("exporting")[0].task_id == task_id


async def test_changes_are_found_as_they_come(home):
    task_id = register_renewal(home)
    running = asyncio.create_task(home.source.run())
    try:
        await asyncio.to_thread(until, lambda: home.source.advice() is None, "the index")
        assert not home.ask("quince")
        await asyncio.to_thread(until, lambda: home.world.history._waiting, "the index")
        home.world.narrate(task_id, "The quince is in the cellar.")
        home.world.history.note_commit()
        await asyncio.to_thread(until, lambda: home.world.clock.sleepers, "the index")
        await home.world.clock.advance(1)
        await asyncio.to_thread(until, lambda: home.ask("quince"), "the index")
        assert home.ask("dovecot chain")[0].task_id == task_id
    finally:
        running.cancel()
        await asyncio.wait([running])


async def test_the_index_is_made_with_rests(home):
    register_renewal(home)
    clock, list_tasks = home.world.clock, home.world.history.list_tasks

    def list_slowly(*wanted):
        clock.tick(2)
        return list_tasks(*wanted)

    home.world.history.list_tasks = list_slowly
    running = asyncio.create_task(home.source.run())
    try:
        await asyncio.to_thread(until, lambda: clock.sleepers or running.done(), "a rest")
        await clock.advance(2 * REST - 0.1)
        assert clock.sleepers == 1
        assert home.source.advice() is not None
        await clock.advance(0.2)
        await asyncio.to_thread(until, lambda: home.source.advice() is None, "the index")
    finally:
        running.cancel()
        await asyncio.wait([running])


async def test_a_long_thread_is_found_by_its_name_and_any_message(home, monkeypatch):
    monkeypatch.setattr(pages, "PAGE_CHARACTERS", 200)
    task_id = home.world.register("Move the newsletter")
    for number in range(30):
        home.world.narrate(task_id, f"Note {number}: word{number} and some more of the work.")
        if number % 7 == 0:
            await home.catch_up()
    await home.catch_up()
    thread = home.world.store.read_records(Message, task_id)
    for number in range(30):
        (found,) = home.ask(f"newsletter word{number}")
        (said,) = [m for m in thread if f" word{number} " in m.content]
        assert found.message_id == said.message_id


async def test_tasks_that_are_gone_are_found_no_more(home, tmp_path):
    register_renewal(home)
    await home.catch_up()
    # The home begins anew with an empty database beside the index.
    other = Followed(home.folder)
    other.world.register("Something else")
    assert other.source._find_place() == other.world.history.find_end()
    await other.catch_up()
    assert not other.ask("dovecot")
    assert other.ask("something else")


async def test_a_task_that_lost_messages_is_stored_anew(home):
    register_renewal(home)
    await home.catch_up()
    # An older copy of the database was put back, and the home went on from there.
    other = Followed(home.folder)
    task_id = other.world.register("Renew the TLS certificate")
    for _ in range(9):
        other.world.register("Something else")
    other.world.narrate(task_id, "The quince is in the cellar.")
    await other.catch_up()
    assert other.ask("quince")
    assert not other.ask("dovecot")


async def test_no_message_is_lost_that_comes_while_a_task_is_read(home, monkeypatch):
    task_id = home.world.register("Errand")
    home.world.narrate(task_id, "word0")
    await home.catch_up()
    home.world.narrate(task_id, "word1")
    read = home.world.history.read_task

    def read_slowly(task_id):
        record = read(task_id)
        for number in range(2, 20):
            home.world.narrate(task_id, f"word{number}")
        return record

    monkeypatch.setattr(home.world.history, "read_task", read_slowly)
    home.source._store_changes([task_id], home.world.history.find_end())
    found = [bool(home.ask(f"word{number}")) for number in range(20)]
    assert found == [True] * 20


@pytest.mark.parametrize("damage", [b"no database at all", b""], ids=["garbage", "empty"])
async def test_a_damaged_index_is_made_anew_and_says_so(home, damage):
    task_id = register_renewal(home)
    await home.catch_up()
    home.source._search.close()
    for file in home.folder.iterdir():
        file.write_bytes(damage * 4096)

    assert not home.ask("dovecot")
    if damage:
        assert "is being made" in home.source.advice()
        with pytest.raises(IndexDamaged):
            await home.catch_up()
    await home.catch_up()
    assert home.ask("dovecot")[0].task_id == task_id


@pytest.mark.parametrize("use", ["question", "change"])
async def test_a_removed_index_is_made_anew(home, use):
    task_id = register_renewal(home)
    running = asyncio.create_task(home.source.run())
    try:
        await asyncio.to_thread(until, lambda: home.source.advice() is None, "the index")
        assert home.ask("dovecot")
        await asyncio.to_thread(until, lambda: home.world.history._waiting, "the index")
        shutil.rmtree(home.folder)
        if use == "question":
            assert not home.ask("dovecot")
            assert "is being made" in home.source.advice()
        else:
            home.world.narrate(task_id, "The quince is in the cellar.")
            home.world.history.note_commit()
        await asyncio.to_thread(until, lambda: home.world.clock.sleepers, "the index")
        await home.world.clock.advance(1)
        with pytest.raises(IndexDamaged):
            await asyncio.wait_for(running, 30)
    finally:
        running.cancel()
        await asyncio.wait([running])
    await home.catch_up()
    assert home.ask("dovecot")[0].task_id == task_id


async def test_an_index_of_another_version_is_made_anew(home):
    task_id = register_renewal(home)
    await home.catch_up()
    home.source._search.close()
    with contextlib.closing(sqlite3.connect(home.folder / "past_tasks.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(IndexDamaged):
        await home.catch_up()
    await home.catch_up()
    assert home.ask("dovecot")[0].task_id == task_id


async def test_a_full_disk_costs_only_what_is_new(home):
    task_id = register_renewal(home)
    await home.catch_up()
    home.world.narrate(task_id, "quince " * 4000)
    connection = home.source._index._open()
    (size,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {size}")

    with pytest.raises(StoreFull):
        await home.catch_up()

    assert home.ask("dovecot")[0].task_id == task_id
    assert "no room" in home.source.advice()
    await home.catch_up()
    assert home.source.advice() is None
    assert home.ask("quince")


async def test_the_index_is_closed_after_the_last_read_of_it(home, monkeypatch):
    began, order = threading.Event(), []
    may_end = threading.Event()

    def read_slowly(after, limit):
        began.set()
        may_end.wait(30)
        order.append("read")
        return []

    monkeypatch.setattr(home.world.history, "list_tasks", read_slowly)
    monkeypatch.setattr(home.source._index, "close", lambda: order.append("closed"))
    running = asyncio.create_task(home.source.run())
    await asyncio.to_thread(began.wait, 30)
    running.cancel()
    await asyncio.wait([running], timeout=0.1)
    may_end.set()
    await asyncio.wait([running])
    assert order == ["read", "closed"]


async def test_an_index_that_is_locked_answers_what_it_has(home):
    task_id = register_renewal(home)
    await home.catch_up()
    assert home.ask("dovecot")
    with contextlib.closing(sqlite3.connect(home.folder / "past_tasks.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        assert home.ask("dovecot")[0].task_id == task_id
        other.rollback()


async def test_the_index_is_for_its_owner_alone(home):
    register_renewal(home)
    await home.catch_up()
    assert stat.S_IMODE(home.folder.stat().st_mode) == 0o700
    home.ask("dovecot")
    modes = {stat.S_IMODE(file.stat().st_mode) for file in home.folder.iterdir()}
    assert modes == {0o600}


ACT = st.tuples(
    st.sampled_from(["register", "say", "revise", "catch up", "crash"]), st.integers(0, 9)
)


@settings(max_examples=25, deadline=None)
@given(st.lists(ACT, max_size=25))
def test_an_index_that_crashed_equals_one_made_anew(tmp_path_factory, acts):
    asyncio.run(crash_and_compare(tmp_path_factory.mktemp("index"), acts))


async def crash_and_compare(folder, acts):
    home = Followed(folder / "followed")
    tasks = []
    store = home.source._index.store_task
    for act, number in acts:
        if act == "register" or not tasks:
            tasks.append(home.world.register(f"name{number}", plan=[f"step{number}"]))
        elif act == "say":
            home.world.narrate(tasks[number % len(tasks)], f"said{number} {len(tasks)}")
        elif act == "revise":
            home.world.call(
                "task_plan_update",
                task_id=tasks[number % len(tasks)],
                new_plan=[f"plan{number}", "more"],
                reason=f"because{number}",
            )
        elif act == "catch up":
            await home.catch_up()
        else:
            left = [number]

            def store_some(*given, left=left):
                store(*given)
                left[0] -= 1
                if left[0] < 0:
                    raise StoreFull("crashed here")

            home.source._index.store_task = store_some
            with contextlib.suppress(StoreFull):
                await home.catch_up()
            home.source._index.store_task = store
    await home.catch_up()
    anew = PastTasks(home.world.history, folder / "anew", home.world.clock)
    there = home.source
    home.source = anew
    await home.catch_up()
    for word in ("name", "step", "said", "plan", "because"):
        for number in range(10):
            query = f"{word}{number}"
            assert ids(there, query) == ids(anew, query), query


def ids(source, query):
    return {(found.task_id, found.message_id) for found in source.recall(query, 20, 0)}


NOW = datetime(2026, 2, 16, tzinfo=UTC)


def weigh(age, bias):
    return pages.weigh_recency(pages.to_millis(NOW - age), NOW, bias)


def test_recency_counts_by_its_bias_and_never_in_the_future():
    old, new = timedelta(days=900), timedelta(days=1)
    assert weigh(old, 0) == weigh(new, 0) == 1
    assert weigh(old, 1) < weigh(old, 0.5) < weigh(new, 0.5)
    assert weigh(-old, 1) == 1


@given(st.floats(0, 1), st.floats(0.001, 100), st.floats(0, 100))
def test_confidence_is_a_probability_that_grows_with_the_words(coverage, strength, other):
    confidence = pages.MODEL.estimate(coverage, strength, other)
    assert 0 <= confidence <= 1
    if other <= strength:
        assert confidence <= pages.MODEL.estimate(1.0, strength, other) + 1e-9


def test_a_long_passage_is_cut_round_the_word():
    text = f"{'before ' * 100}{pages.BEGIN}quince{pages.END}{' after' * 100}"
    cut = pages._cut_around_mark(text)
    assert "quince" in cut
    assert cut.startswith("…")
    assert cut.endswith("…")
    assert len(cut) <= pages.LONGEST_PASSAGE + 2
