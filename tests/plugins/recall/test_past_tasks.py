"""What `memory_recall` finds of past tasks, in the index of the store."""

import contextlib
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from taskmem_hookspecs import Change, Message, TaskQuery
from taskmem_hookspecs.errors import InvalidArguments
from taskmem_hookspecs.testing import a_task
from taskmem_recall import past_task_hooks, past_tasks
from taskmem_recall.past_tasks import COMPARED_TASKS, PastTasks
from taskmem_sqlmodel.store import SqlStore
from tests.support.memory_store import MemoryStore
from tests.support.world import World

PLAN = ["Find the certificate", "Order a new one", "Reload Postfix"]


class Home:
    """A home, and its past tasks as a source."""

    def __init__(self, store):
        self.world = World(store, plugins=[("past-tasks", past_task_hooks)])
        self.source = PastTasks(self.world.history, self.world.clock)

    def ask(self, query, limit=3, bias=0.5):
        return self.source.recall(query, limit, bias)


@pytest.fixture(params=["memory", "sqlite"])
def home(request, tmp_path):
    store = MemoryStore() if request.param == "memory" else SqlStore(f"sqlite:///{tmp_path}/t.db")
    yield Home(store)
    store.close()


def register_renewal(home):
    task_id = home.world.register("Renew the TLS certificate of the mail server", plan=PLAN)
    home.world.call("task_update", task_id=task_id, completed_steps=[1, 2])
    home.world.clock.tick(60)
    home.world.narrate(task_id, "Dovecot went on serving the old chain until it was restarted.")
    return task_id


def test_a_question_finds_the_task_and_the_message(home):
    home.world.register("Book a hotel in Bergen")
    task_id = register_renewal(home)

    (best, *_) = home.ask("why did dovecot keep the old chains after renewing certificates?")

    (said,) = [m for m in home.world.store.read_records(Message, task_id) if "Dovecot" in m.content]
    assert (best.source, best.task_id, best.message_id) == ("tasks", task_id, said.message_id)
    assert best.timestamp == said.created_at
    assert best.steps == ("Find the certificate", "Order a new one")
    assert best.summary.startswith("Renew the TLS certificate of the mail server: Dovecot went on")


def test_what_was_written_by_the_call_before_is_found(home):
    task_id = register_renewal(home)
    home.world.narrate(task_id, "The quince is in the cellar.")
    (found,) = home.world.call("memory_recall", query="quince")["results"] or [None]
    assert found["task_id"] == task_id
    assert "quince is in the cellar" in found["summary"]


def test_a_word_that_only_a_turn_has_is_looked_for_in_its_parts(home):
    task_id = home.world.register("Move the mail server")
    turn = a_task(task_id="task_turn", name="mailserver", plan=("y",), implicit=True)
    home.world.context.store.whole.commit(Change(tasks=(turn,)))
    (found,) = home.ask("mailserver")
    assert (found.task_id, found.confidence > 0.5) == (task_id, True)


def test_words_that_are_known_only_joined_find_the_task(home):
    task_id = home.world.register("Add an SSH key")
    assert [found.task_id for found in home.ask("ss h cey")] == [task_id]


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
def test_words_are_found_however_they_are_written(home, query):
    home.world.register("Book a hotel in Bergen")
    task_id = register_renewal(home)
    assert home.ask(query)[0].task_id == task_id


@pytest.mark.parametrize("query", ["設定", "設定を開く方法は", "鍵", "開く"])
def test_writing_without_spaces_is_found_by_its_parts(home, query):
    home.world.register("Book a hotel in Bergen")
    task_id = home.world.register("次に設定を開く")
    home.world.narrate(task_id, "新しい鍵を追加した")
    assert [found.task_id for found in home.ask(query)] == [task_id]


@pytest.mark.parametrize("query", ["q", "?! … ()", "zzz " * 16_384, "\ud800\0", "的"])
def test_a_question_without_a_match_finds_nothing(home, query):
    register_renewal(home)
    assert not home.ask(query)


def test_as_many_tasks_are_found_as_are_wanted(home):
    for number in range(70):
        home.world.register(f"Deploy billing {number}")
    assert len(home.ask("deploy billing", limit=3)) == 3
    assert len(home.ask("deploy billing", limit=65)) == 65


@pytest.mark.parametrize("others", [1, 90], ids=["a long one", "many"])
def test_a_task_behind_those_of_others_is_found(home, others):
    for _ in range(others):
        hidden = home.world.register("Deploy billing, billing, billing")
        for _ in range(0 if others > 1 else 90):
            home.world.narrate(hidden, "billing billing")
    own = home.world.register("Something else")
    home.world.narrate(own, "A longer message, in which billing stands only once")
    asked = []

    def may_recall(task_id):
        asked.append(task_id)
        return task_id == own

    found = home.source.recall_tasks("deploy billing", 3, 0.5, may_recall)
    assert [each.task_id for each in found] == [own]
    assert len(asked) > others


def test_no_more_tasks_are_asked_about_than_are_compared(home):
    for number in range(40):
        home.world.register(f"Deploy billing {number}")
    asked = []
    assert len(home.source.recall_tasks("billing", 3, 0.5, lambda it: not asked.append(it))) == 3
    assert len(asked) == COMPARED_TASKS


def test_of_common_words_alone_the_newest_texts_are_found(home, monkeypatch):
    monkeypatch.setattr(past_tasks, "_RARE_COUNT", 5)
    ids = [home.world.register(f"Deploy billing {number} again") for number in range(20)]
    assert [found.task_id for found in home.ask("deploy billing")] == ids[:-4:-1]


def test_a_common_word_counts_beside_a_rare_one(home, monkeypatch):
    monkeypatch.setattr(past_tasks, "_RARE_COUNT", 5)
    wanted = home.world.register("Deploy billing to Bergen")
    for number in range(20):
        home.world.register(f"Deploy billing {number}")
    home.world.register("Book a hotel in Bergen")
    assert home.ask("billing of Bergen")[0].task_id == wanted


def test_what_was_made_and_why_a_plan_changed_is_found(home):
    task_id = home.world.register("Invoices", plan=["Export", "Send"])
    home.world.call(
        "task_plan_update", task_id=task_id, new_plan=["Filter", "Send"], reason="Ledger mismatch"
    )
    assert home.ask("ledger mismatches")[0].summary == "Invoices: Plan revised: Ledger mismatch"
    assert home.ask("exporting")[0].task_id == task_id


def test_any_message_of_a_long_thread_is_found_with_the_name(home):
    task_id = home.world.register("Move the newsletter")
    for number in range(30):
        home.world.narrate(task_id, f"Note {number}: word{number} and some more of the work.")
    thread = home.world.store.read_records(Message, task_id)
    for number in range(30):
        (found,) = home.ask(f"newsletter word{number}")
        (said,) = [m for m in thread if f" word{number} " in m.content]
        assert found.message_id == said.message_id


def test_of_equal_tasks_and_messages_the_newest_come_first(home):
    ids = [home.world.register("Deploy billing") for _ in range(5)]
    for task_id in ids:
        home.world.narrate(task_id, "quince")
        home.world.narrate(task_id, "quince")
    found = home.ask("quince", limit=5, bias=0)
    assert [each.task_id for each in found] == ids[::-1]
    newest = [home.world.store.read_records(Message, each.task_id)[-1] for each in found]
    assert [each.message_id for each in found] == [message.message_id for message in newest]


ODD = (
    *('"', "*", "^", "-", "(", ")", ":", "+", "{text}:", "NEAR(", "AND", "OR", "NOT", "\0"),
    *("\ud800", "ключ", "鍵", "مفتاح", "🔑", "e\u0301", "'; DROP", "%", "key", "a\U0001e900b"),
)
QUESTIONS = st.one_of(
    st.text(st.characters(), max_size=300),
    st.lists(st.sampled_from(ODD), max_size=40).map("".join),
    st.lists(st.sampled_from(ODD), max_size=40).map(" ".join),
)
MOST_PATTERNS = 2_000
"""Patterns that are looked for to answer one question, at most."""


@example("\x08")
@example("鍵" * 1_365)
@example(" ".join(f"{number:a>120}" for number in range(34)))
@given(QUESTIONS)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_question_is_answered_after_few_looks(home, query):
    if not home.world.store.find_tasks(TaskQuery()):
        for name in ("Add an SSH key", "ключ 鍵", 'NEAR("x")'):
            home.world.register(name)
    looked = []
    find = home.world.context.store.whole.find_texts

    def count_looks(query):
        looked.extend(query.patterns)
        return find(query)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(home.world.context.store.whole, "find_texts", count_looks)
        with contextlib.suppress(InvalidArguments):
            answer = home.world.call("memory_recall", query=query)
            assert "Not searched" not in answer["message"]
            assert len(answer["results"]) <= 3
    assert len(looked) <= MOST_PATTERNS


@pytest.mark.parametrize("query", ["ключ", "鍵", 'NEAR("x")', "SSH* OR -key", "\ud800 key"])
def test_an_odd_question_finds_what_has_its_words(home, query):
    for name in ("Add an SSH key", "ключ 鍵", 'NEAR("x")'):
        home.world.register(name)
    assert home.world.call("memory_recall", query=query)["results"]


NOW = datetime(2026, 2, 16, tzinfo=UTC)


def weigh(age, bias):
    return past_tasks.weigh_recency(a_task(updated_at=NOW - age), NOW, bias)


def test_recency_counts_by_its_bias_and_never_in_the_future():
    old, new = timedelta(days=900), timedelta(days=1)
    assert weigh(old, 0) == weigh(new, 0) == 1
    assert weigh(old, 1) < weigh(old, 0.5) < weigh(new, 0.5)
    assert weigh(-old, 1) == 1


@given(st.floats(0, 1), st.floats(0.001, 100), st.floats(0, 100))
def test_confidence_is_a_probability_that_grows_with_the_words(coverage, strength, other):
    confidence = past_tasks.MODEL.estimate(coverage, strength, other)
    assert 0 <= confidence <= 1
    if other <= strength:
        assert confidence <= past_tasks.MODEL.estimate(1.0, strength, other) + 1e-9


def test_a_long_passage_is_cut_round_the_word():
    text = f"{'before ' * 100}quince{' after' * 100}"
    cut = past_tasks.cut_around_word(text, ["quince*"])
    assert "quince" in cut
    assert cut.startswith("…")
    assert cut.endswith("…")
    assert len(cut) <= 322
