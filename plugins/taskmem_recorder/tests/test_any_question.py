"""Whatever is asked, `memory_recall` answers, soon, or says what a question may be."""

from __future__ import annotations

import contextlib
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from openclaw_taskmem.domain.text.texts import has_visible_text
from taskmem_hookspecs import hookimpl
from taskmem_hookspecs.errors import InvalidArguments
from taskmem_recorder.history import search_screen
from taskmem_recorder.store import Moment, RecordingStore
from tests.support.world import World

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


class Screen:
    """A recorded screen."""

    def __init__(self, folder):
        self.world = World(plugins=[("screen", self)])
        self.screen = RecordingStore(folder / "recordings")
        now = self.world.clock.now()
        for text in ("Add SSH key", "ключ 鍵 مفتاح", "a", 'NEAR("x")'):
            moment = Moment(at=now, window_title=text, application="firefox", text=text)
            self.screen.add_moment(moment, None)
        self.now = now + timedelta(hours=1)

    @hookimpl
    def recall_source(self):
        return self

    def recall(self, query, limit, recency_bias):
        return search_screen(self.screen, self.now, query, limit, recency_bias)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    made = Screen(tmp_path_factory.mktemp("any"))
    yield made
    made.screen.close()


@example("\x08")
@example("x" * (1 << 16))
@example("鍵" * (1 << 14))
@example(" ".join(f"{number:a>120}" for number in range(34)))
@given(QUESTIONS)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)
def test_any_question_is_answered(source, query):
    source.recall(query, 3, 0.5)
    with contextlib.suppress(InvalidArguments):
        answer = source.world.call("memory_recall", query=query)
        assert "Not searched" not in answer["message"]
        assert len(answer["results"]) <= 3
        return
    shown = query.encode("utf-8", "replace")
    readable = has_visible_text(query) and "\0" not in query
    assert not readable or len(shown) > 4096 // 3, "it is refused in vain"


@pytest.mark.parametrize("query", ["a", "ключ", "鍵", 'NEAR("x")', "SSH* OR -key", "\ud800 key"])
def test_an_odd_question_finds_what_has_its_words(source, query):
    assert source.world.call("memory_recall", query=query)["results"]
