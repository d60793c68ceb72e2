"""Words that are there without the fact; and facts in words of another order."""

from __future__ import annotations

import pytest

from taskmem_hookspecs import ConditionUnclear, Met
from tests.plugins.terminal.judged import met

DECOYS = [
    # The first number is what was reached, the second the whole.
    ("50 files have been processed", "processed 5 of 50 files"),
    ("100 tests have passed", "10 of 100 tests passed"),
    ("20 rows are inserted", "inserted 3 of 20 rows"),
    ("5 workers are ready", "1 of 5 workers ready"),
    ("10 images are downloaded", "downloaded 2 of 10 images"),
    ("all 12 migrations are applied", "applied 1 of 12 migrations"),
    ("the upload reaches 100%", "upload 10% of 100%"),
    # It is said of another.
    ("service api is ready", "service web is ready"),
    ("it connects to the database", "connected to cache"),
    ("job 42 completes", "job 42 started; job 41 completed"),
    # It is asked, or asked for.
    ("the server is ready", "Is the server running?"),
    ("the database is ready", "waiting: is the database ready?"),
    ("the build succeeds", "Build succeeded? checking"),
    ("the server is running", "To check that the server is running, visit the page"),
    ("the server is up", "bring up the server with: make up"),
    ("the database is up", "bring the database up with: make db"),
    # There is none of it.
    ("an error occurs", "Error rate: 0%"),
    ("connection refused", "connection refused errors: 0"),
    ("the merge conflicts", "Checking for merge conflicts in x"),
    # It is over.
    ("it asks a yes/no question", "Continue? yes"),
    # It is part of another word.
    ("the word DONE appears", "UNDONE"),
    ("either PASS or FAIL is printed", "PASSWORD reset"),
]
PLAIN = [
    ("the migration has completed", "Migration complete."),
    ("the word success appears", "success"),
    ("unit_5 appears", "Compiling unit_5.c"),
]
UNCLEAR = [
    *("everything is ok", "all is well", "after 5 minutes", "🎉", "and", "not", '""'),
    *('"" appears', '"', "it is fine again"),
]


@pytest.mark.parametrize(("wake_when", "line"), DECOYS)
def test_words_without_the_fact_wake_nobody(wake_when: str, line: str) -> None:
    assert met(wake_when, f"{line}\n") is not Met.YES


@pytest.mark.parametrize(("wake_when", "line"), PLAIN)
def test_a_fact_is_understood_in_other_words(wake_when: str, line: str) -> None:
    assert met(wake_when, f"{line}\n") is Met.YES


@pytest.mark.parametrize("wake_when", UNCLEAR)
def test_what_rules_can_never_settle_is_refused_with_what_would_help(
    wake_when: str,
) -> None:
    from taskmem_terminal.judge import TextJudge

    with pytest.raises(ConditionUnclear, match="quote the text"):
        TextJudge(wake_when)
