from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from openclaw_taskmem.cli.command_line import cli
from openclaw_taskmem.cli.daemon_commands import describe_reader

ROW = {
    "name": "gemini",
    "model": "flash-lite",
    "asked": 12,
    "limit": 1000,
    "tokens_in": 14_213,
    "tokens_out": 806,
    "cost_usd": 0.0062789,
    "state": "ready",
    "detail": "flash-lite is asked with the key in GEMINI_API_KEY.",
    "cure": None,
}
STATUS = {
    "version": "1",
    "pid": 7,
    "home": "/h",
    "database": "sqlite:////h/taskmem.db",
    "now": "2026-11-22T13:00:00.000Z",
    "plugins": 4,
    "tasks": {},
    "waits": {},
    "wakes": {},
}


def describe_row(**fields):
    return describe_reader({**ROW, **fields})


def test_usage_line_of_a_reader_shows_its_questions_and_cost():
    assert describe_row() == (
        "gemini (flash-lite): 12 of 1000 questions today, 14.2 k tokens in, 0.8 k out, about $0.006"
    )


@pytest.mark.parametrize(
    ("calls", "allowed", "words"),
    [
        *((0, 1000, "0 of 1000 questions"), (1, 1000, "1 of 1000 questions")),
        *((1, 1, "1 of 1 question"), (1, None, "1 question"), (2, 1, "2 of 1 questions")),
        *((12, None, "12 questions"), (3, 0, "3 of 0 questions")),
    ],
)
def test_how_many_questions_and_of_how_many(calls, allowed, words):
    assert f": {words} today, " in describe_row(asked=calls, limit=allowed)


def test_usage_line_of_a_reader_not_set_up_shows_only_the_cure():
    detail = "There is no key for Gemini."
    assert describe_row(state="off", detail=detail) == "gemini: There is no key for Gemini."


@pytest.mark.parametrize("state", ["away", "resting", "spent"])
def test_one_that_cannot_be_asked_now_says_why(state):
    assert describe_row(state=state, detail="Why.").endswith(f"; {state}: Why.")


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        *((0, "0"), (99, "99"), (100, "0.1 k"), (14_250, "14.2 k"), (999_940, "999.9 k")),
        *((999_960, "1.0 M"), (3_400_000, "3.4 M"), (10**12, "1000000.0 M")),
    ],
)
def test_tokens_are_told_as_roughly_as_one_wants_to_know(tokens, words):
    assert f", {words} tokens in, {words} out, " in describe_row(
        tokens_in=tokens, tokens_out=tokens
    )


@pytest.mark.parametrize(
    ("dollars", "words"),
    [
        *((None, "cost unknown"), (0, "no cost yet"), (0.0, "no cost yet")),
        *((0.0009, "less than $0.001"), (0.001, "about $0.001")),
        *((0.25, "about $0.250"), (1, "about $1.00"), (12.345, "about $12.35")),
    ],
)
def test_a_cost_is_told_as_far_as_it_is_known(dollars, words):
    assert describe_row(cost_usd=dollars).endswith(f", {words}")


# --- the command ----------------------------------------------------------------


def print_status(home, daemon, monkeypatch, *words, **more):
    monkeypatch.setenv("TASKMEM_HOME", str(home.folder))
    status = {**STATUS, **more}
    daemon(lambda one, asked: one.say({"id": asked["id"], "result": status}))
    run = CliRunner().invoke(cli, ["status", *words])
    assert run.exit_code == 0, run.output
    return run.output


def test_status_tells_of_each_reader(home, daemon, monkeypatch):
    rows = [ROW, {**ROW, "name": "host", "model": "", "cost_usd": None}]
    *_, one, two = print_status(home, daemon, monkeypatch, readers=rows).splitlines()
    assert one == f"reader    {describe_row()}"
    assert two.startswith("reader    host: 12 of 1000 questions today, ")


def test_status_names_no_reader_whose_host_is_not_here(home, daemon, monkeypatch):
    off = {**ROW, "state": "off", "detail": "Why."}
    rows = [{**off, "cure": "Run: x"}, {**off, "name": "host", "cure": None}]
    out = print_status(home, daemon, monkeypatch, readers=rows)
    assert out.splitlines()[-1] == "reader    gemini: Why."


@pytest.mark.parametrize("more", [{"readers": []}, {}], ids=["none", "an older daemon"])
def test_status_says_nothing_where_there_is_no_reader(home, daemon, monkeypatch, more):
    assert "reader" not in print_status(home, daemon, monkeypatch, **more)


@pytest.mark.parametrize(
    ("unsent", "said"),
    [
        (1, "unsent    1 wake found no way out; the cure: taskmem doctor"),
        (2, "unsent    2 wakes found no way out; the cure: taskmem doctor"),
    ],
)
def test_status_tells_of_wakes_that_could_not_be_sent(home, daemon, monkeypatch, unsent, said):
    assert said in print_status(home, daemon, monkeypatch, unsent=unsent).splitlines()


@pytest.mark.parametrize("more", [{"unsent": 0}, {}], ids=["none", "an older daemon"])
def test_status_says_nothing_where_every_wake_went_out(home, daemon, monkeypatch, more):
    assert "unsent" not in print_status(home, daemon, monkeypatch, **more)


@pytest.mark.parametrize(
    ("taken", "said"),
    [
        (None, "at most 2,048 MiB; what has ended, for 90 days"),
        (3_500_000, "3.3 MiB, at most 2,048 MiB; what has ended, for 90 days"),
    ],
)
def test_status_tells_how_much_is_kept(home, daemon, monkeypatch, taken, said):
    keeps = {"bytes": taken, "most_bytes": 2**31, "days": 90.0, "full": False}
    out = print_status(home, daemon, monkeypatch, keeps=keeps)
    assert f"keeps     {said}" in out.splitlines()


def test_status_tells_of_a_database_that_may_drop_nothing(home, daemon, monkeypatch):
    keeps = {"bytes": 2**32, "most_bytes": 2**31, "days": 90.0, "full": True}
    out = print_status(home, daemon, monkeypatch, keeps=keeps)
    assert "for 90 days; only what is never dropped is left\n" in out


def test_status_tells_what_was_dropped(home, daemon, monkeypatch):
    keeps = {"bytes": 2**20, "most_bytes": 2**31, "days": 90.0, "full": False}
    out = print_status(home, daemon, monkeypatch, keeps={**keeps, "dropped": "3000 events"})
    assert "for 90 days; dropped since its start: 3000 events\n" in out


def test_status_promises_no_bound_that_shared_homes_lack(home, daemon, monkeypatch):
    keeps = {"bytes": 2**32, "most_bytes": 2**31, "days": 90.0, "full": False}
    out = print_status(home, daemon, monkeypatch, keeps={**keeps, "shared": True})
    assert "4,096.0 MiB, shared by homes; what has ended, for 90 days\n" in out


def test_a_name_cannot_steer_a_terminal(home, daemon, monkeypatch):
    rows = [{**ROW, "model": "red\x1b[31m\n\u202e"}]
    out = print_status(home, daemon, monkeypatch, readers=rows)
    assert out.splitlines()[-1].startswith("reader    gemini (red")
    assert not {"\x1b", "\u202e"} & set(out)


def test_as_json_it_is_what_the_daemon_says(home, daemon, monkeypatch):
    out = print_status(home, daemon, monkeypatch, "--json", readers=[ROW])
    assert json.loads(out)["readers"] == [ROW]


def test_status_tells_what_sources_of_recall_do(home, daemon, monkeypatch):
    said = print_status(home, daemon, monkeypatch, activity=["Recording this screen\nsince 14:02"])
    assert "activity  Recording this screen since 14:02\n" in said


def test_status_names_each_host_and_session(home, daemon, monkeypatch):
    one = {"who": "Claude Code, session 11111111…", "transport": "claude-inbox"}
    two = {"who": "Cursor, session 7", "transport": None}
    out = print_status(
        home, daemon, monkeypatch, gateways=[{"transport": "openclaw"}], sessions=[one, two]
    )
    assert out.splitlines()[-3:] == [
        "host      OpenClaw is connected, and woken by openclaw",
        "host      Claude Code, session 11111111… is connected, and woken by claude-inbox",
        "host      Cursor, session 7 is connected, and nothing here can wake it",
    ]


def test_status_names_a_few_of_many_sessions(home, daemon, monkeypatch):
    one = {"who": "Codex, session 019b0000…", "transport": "codex-queue"}
    *_, last, more = print_status(home, daemon, monkeypatch, sessions=[one] * 1_200).splitlines()
    assert last.startswith("host      Codex")
    assert more == "host      1,190 more"
