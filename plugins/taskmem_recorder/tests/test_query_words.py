"""What is searched for of a question."""

import pytest

from taskmem_recorder.history import _MOST_WORDS, extract_words, join_neighbours


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("How did I add an SSH key on GitHub?", ["add", "ssh", "key", "github"]),
        ("x", ["x"]),
        ("I", ["i"]),
        ("how was it", ["how", "was", "it"]),
        ("Wie habe ich den Schlüssel hinzugefügt", ["schlüssel", "hinzugefügt"]),
        ("où est la clé", ["clé"]),
        ("u\u0308ber U\u0308ber", ["über"]),
        ("atlas-api's web_hook", ["atlas", "api", "web", "hook"]),
        ("設定 を 開く", ["設定", "を", "開く"]),
        ("… — ?!", []),
        ("", []),
        ('"a" OR b* NEAR(c)', ["b", "near", "c"]),
    ],
)
def test_words_of_a_question_are_those_that_say_something(query, words):
    assert extract_words(query) == words


def test_of_a_long_question_the_first_words_are_taken():
    query = " ".join(f"word{number}" for number in range(9000))
    assert extract_words(query) == [f"word{number}" for number in range(_MOST_WORDS)]


def test_neighbouring_words_are_also_written_as_one():
    assert join_neighbours(["web", "hook", "url"]) == ["webhook", "hookurl"]
