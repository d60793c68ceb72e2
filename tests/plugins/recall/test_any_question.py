"""Whatever is asked, `memory_recall` answers, soon, or says what a question may be."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from openclaw_taskmem.domain.text.text_safety import has_visible_text
from taskmem_hookspecs import hookimpl
from taskmem_hookspecs.errors import InvalidArguments
from taskmem_recall.past_tasks import PastTasks
from tests.support.world import World

LOOKS = 3_000
"""Statements for one question, at most."""
ODD = (
    *('"', "*", "^", "-", "(", ")", ":", "+", "{text}:", "NEAR(", "AND", "OR", "NOT", "\0"),
    *("\ud800", "\x1e", "\x02", "ключ", "鍵", "مفتاح", "🔑", "e\u0301", "'; DROP", "%", "key"),
)
QUESTIONS = st.one_of(
    st.text(st.characters(), max_size=300),
    st.lists(st.sampled_from(ODD), max_size=40).map("".join),
    st.lists(st.sampled_from(ODD), max_size=40).map(" ".join),
    st.builds(
        lambda text, size: (text * size)[:size],
        st.one_of(st.text(st.characters(), min_size=1, max_size=9), st.sampled_from(ODD)),
        st.integers(1, 1 << 16),
    ),
)


class Sources:
    """Past tasks, whose statements are counted."""

    def __init__(self, folder):
        self.world = World(plugins=[("tasks", self)])
        self.tasks = PastTasks(self.world.history, folder / "recall", self.world.clock)
        self.looks = 0
        fetch = self.tasks._search._fetch_rows

        def count_looks(*given):
            self.looks += 1
            return fetch(*given)

        self.tasks._search._fetch_rows = count_looks

    @hookimpl
    def recall_source(self):
        return self

    def recall(self, query, limit, recency_bias):
        return self.tasks.recall(query, limit, recency_bias)

    async def store_tasks(self):
        for name in ("Add an SSH key", "ключ 鍵", 'NEAR("x")', "a"):
            self.world.register(name)
        running = asyncio.create_task(self.tasks.run())
        while self.tasks.advice() is not None:
            await asyncio.wait([running], timeout=0.005)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    made = Sources(tmp_path_factory.mktemp("any"))
    asyncio.run(made.store_tasks())
    return made


@example("\x08")
@example("x" * (1 << 16))
@example("鍵" * (1 << 14))
@example(" ".join(f"{number:a>120}" for number in range(34)))
@given(QUESTIONS)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)
def test_any_question_is_answered_after_few_looks(sources, query):
    sources.looks = 0
    sources.recall(query, 3, 0.5)
    assert sources.looks <= LOOKS
    with contextlib.suppress(InvalidArguments):
        answer = sources.world.call("memory_recall", query=query)
        assert "Not searched" not in answer["message"]
        assert len(answer["results"]) <= 3
        return
    shown = query.encode("utf-8", "replace")
    readable = has_visible_text(query) and "\0" not in query
    assert not readable or len(shown) > 4096 // 3, "it is refused in vain"


@pytest.mark.parametrize("query", ["a", "ключ", "鍵", 'NEAR("x")', "SSH* OR -key", "\ud800 key"])
def test_an_odd_question_finds_what_has_its_words(sources, query):
    assert sources.world.call("memory_recall", query=query)["results"]
