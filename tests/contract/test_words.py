"""What is searched for of a question, and what a text has of it."""

import pytest

from taskmem_hookspecs.words import (
    GRAMMAR_WORDS,
    MOST_WORDS,
    build_part_patterns,
    build_pattern,
    extract_words,
    find_patterns,
    has_phrase,
    join_neighbours,
)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("How did I add an SSH key on GitHub?", ["add", "ssh", "key", "github"]),
        ("x", ["x"]),
        ("how was it", []),
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


def test_words_that_questions_about_tasks_share_count_elsewhere():
    question = "What was the last step of the login?"
    assert extract_words(question) == ["login"]
    assert extract_words(question, GRAMMAR_WORDS) == ["last", "step", "login"]


def test_of_a_long_question_the_first_words_are_taken():
    query = " ".join(f"word{number}" for number in range(9000))
    assert extract_words(query) == [f"word{number}" for number in range(MOST_WORDS)]


def test_neighbouring_words_are_also_written_as_one():
    assert join_neighbours(["web", "hook", "url"]) == ["webhook", "hookurl"]


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("renewing", "to renew it"),
        ("certificates", "one certificate"),
        ("expired", "it is expiring"),
        ("reconciliation", "reconciled"),
        ("config", "the configuration"),
        ("uploads", "Uploading the files"),
        ("tags", "which tag"),
        ("tag", "tagged"),
        ("schlüssel", "SCHLUSSEL"),
    ],
)
def test_a_word_is_found_in_its_other_forms(word, text):
    pattern = build_pattern(word)
    assert find_patterns(text, [pattern, "zz"]) == {pattern}


@pytest.mark.parametrize("word", ["ci", "word1", "v2", "鍵"])
def test_a_short_word_and_one_with_a_digit_are_found_as_they_are(word):
    assert build_pattern(word) == word


def test_a_whole_word_is_no_beginning():
    assert find_patterns("sshd", ["ssh", "ssh*"]) == {"ssh*"}


def test_two_words_are_found_in_one_text():
    assert find_patterns("the mail server", ["mail serv*", "mail zz"]) == {"mail serv*"}


def test_writing_without_spaces_is_found_by_pairs_of_letters():
    assert build_part_patterns("設定を") == ["*設定*", "*定を*"]
    assert build_part_patterns("鍵") == ["*鍵*"]
    assert build_part_patterns("ключ") == []
    assert find_patterns("次に設定を開く", ["*設定*", "設定*"]) == {"*設定*"}


@pytest.mark.parametrize(
    ("pattern", "has"),
    [("v1 2 3", True), ("1 2 3", False), ("2 v1", False), ("cafe men*", True), ("3 4*", False)],
)
def test_a_phrase_is_words_side_by_side(pattern, has):
    assert has_phrase("v1.2.3 — Café/Menü", pattern) is has
