from __future__ import annotations

import errno
import json
import logging
import os
import stat
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone

import pytest

from taskmem_hookspecs import ModelUsage
from taskmem_hookspecs.testing import FakeClock
from taskmem_vision.gemini import spending as module
from taskmem_vision.gemini.spending import (
    DAYS_KEPT,
    LONGEST_REST,
    DayUsedUp,
    Spending,
    Tokens,
    calls_per_day,
    spending_of,
)

LITE, OTHER = "gemini-3.5-flash-lite", "gemini-9"
EVENING = datetime(2026, 11, 22, 20, tzinfo=UTC)


@pytest.fixture
def clock():
    return FakeClock(EVENING)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "gemini.json"


@pytest.fixture
def account(path, clock):
    return Spending(path, clock.now)


def send(account, times=1, model=LITE, allowed=1000):
    return [account.send(model, allowed) for _ in range(times)][-1]


def calls(account, model=LITE):
    return sum(row.calls for row in account.usage(LITE, 1000) if row.model == model)


def refusal(account, allowed):
    with pytest.raises(DayUsedUp) as caught:
        account.send(LITE, allowed)
    return caught.value


# --- what is allowed ------------------------------------------------------------


def test_as_many_are_sent_as_are_allowed_and_not_one_more(account):
    send(account, 3, allowed=3)
    refusal(account, 3)
    assert calls(account) == 3


def test_what_is_allowed_is_for_all_models_together(account):
    send(account, 2, OTHER, allowed=3)
    send(account, 1, allowed=3)
    refusal(account, 3)


def test_one_who_would_be_refused_can_know_it_before(account):
    account.refuse_when_used_up(1)
    send(account, 1, allowed=1)
    with pytest.raises(DayUsedUp):
        account.refuse_when_used_up(1)


def test_the_refusal_names_the_setting_and_when_the_day_ends(account):
    send(account, 2, allowed=2)
    assert str(refusal(account, 2)) == (
        "Gemini was asked as often as it may be on one day "
        "(TASKMEM_GEMINI_CALLS_PER_DAY is 2); it is asked again when the day ends, "
        "2026-11-23 at 00:00 UTC."
    )


def test_where_none_are_allowed_the_end_of_the_day_changes_nothing(account):
    assert str(refusal(account, 0)) == (
        "Gemini is never asked, because TASKMEM_GEMINI_CALLS_PER_DAY is 0; set it "
        "higher and restart the daemon."
    )
    assert account.usage(LITE, 0) == ()


def test_it_is_tried_again_at_midnight_and_at_least_once_an_hour(account, clock):
    assert refusal(account, 0).retry_seconds == LONGEST_REST
    clock.tick(hours=3, minutes=59, seconds=48)
    assert refusal(account, 0).retry_seconds == 12


def test_a_new_day_begins_at_midnight_in_utc_wherever_the_clock_is(path):
    now = [EVENING.astimezone(timezone(timedelta(hours=9)))]
    account = Spending(path, lambda: now[0])
    send(account, allowed=1)
    now[0] += timedelta(hours=3, minutes=59)
    refusal(account, 1)
    now[0] += timedelta(minutes=1)
    send(account, allowed=1)


def test_a_clock_that_is_set_back_gives_no_second_day(account, clock):
    send(account, allowed=1)
    clock.jump(86400)
    send(account, allowed=1)
    clock.jump(-86400)
    refusal(account, 1)


@pytest.fixture
def _hasty():
    """Threads that take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_hasty")
def test_threads_that_ask_at_once_do_not_overshoot(account, path, clock, caplog):
    gate = threading.Barrier(8)

    def ask():
        gate.wait()
        try:
            send(account, 10, allowed=25)
        except DayUsedUp:
            return True
        return False

    with ThreadPoolExecutor(8) as pool:
        assert any(f.result() for f in [pool.submit(ask) for _ in range(8)])
    assert calls(account) == calls(Spending(path, clock.now)) == 25
    assert caplog.messages == []


# --- what is told ---------------------------------------------------------------


def test_nothing_is_told_as_long_as_nobody_was_asked(account):
    assert account.usage(LITE, 1000) == ()


def test_what_was_asked_and_what_it_cost_is_told(account):
    sent = send(account, 2)
    account.answered(
        sent, Tokens(prompt=1_000_000, candidates=300_000, thoughts=100_000)
    )
    assert account.usage(LITE, 1000) == [
        ModelUsage(
            model=LITE,
            day=EVENING.date(),
            calls=2,
            calls_allowed=1000,
            tokens_in=1_000_000,
            tokens_out=400_000,
            cost_dollars=0.3 + 0.4 * 2.5,
        )
    ]


def test_an_answer_after_midnight_belongs_to_the_day_of_its_question(account, clock):
    sent = send(account)
    clock.tick(hours=5)
    account.answered(sent, Tokens(prompt=7))
    assert account.usage(LITE, 1000)[0].tokens_in == 0
    clock.jump(-86400)
    assert account.usage(LITE, 1000)[0].tokens_in == 7


def test_on_a_new_day_the_model_is_told_with_nothing_asked(account, clock):
    send(account, 2)
    clock.tick(days=1)
    (row,) = account.usage(LITE, 9)
    assert (row.calls, row.calls_allowed, row.tokens_in, row.cost_dollars) == (
        *(0, 9, 0),
        0,
    )


def test_a_model_that_was_asked_before_leaves_the_next_one_the_rest(account):
    send(account, 3, OTHER)
    send(account)
    told = [
        (row.model, row.calls, row.calls_allowed) for row in account.usage(LITE, 10)
    ]
    assert told == [(LITE, 1, 7), (OTHER, 3, None)]
    assert account.usage(LITE, 2)[0].calls_allowed == 0


def test_a_model_whose_price_is_not_known_costs_nobody_knows_what(account):
    send(account, model=OTHER)
    assert account.usage(OTHER, 1000)[0].cost_dollars is None


# --- what is kept ---------------------------------------------------------------


def test_it_is_there_again_after_a_restart_without_any_farewell(account, path, clock):
    account.answered(send(account, 3), Tokens(prompt=5, candidates=6, thoughts=7))
    again = Spending(path, clock.now)
    assert again.usage(LITE, 1000) == account.usage(LITE, 1000)
    refusal(again, 3)


def test_a_request_is_on_the_disk_before_it_is_sent(account, path, clock):
    send(account)
    assert calls(Spending(path, clock.now)) == 1


def test_the_file_is_for_its_owner_alone_whatever_lay_there_before(account, path):
    fresh = path.with_name("gemini.json.new")
    fresh.write_text("left by one that was killed")
    fresh.chmod(0o666)
    send(account)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_the_file_is_replaced_and_never_written_into(account, path):
    send(account)
    with path.open() as before:
        send(account)
        assert json.load(before)["days"]["2026-11-22"][LITE]["calls"] == 1
    assert json.loads(path.read_text())["days"]["2026-11-22"][LITE]["calls"] == 2


def test_old_days_are_forgotten_and_this_one_never(account, path, clock):
    for _ in range(DAYS_KEPT + 5):
        send(account)
        clock.tick(days=1)
    kept = json.loads(path.read_text())["days"]
    assert len(kept) == DAYS_KEPT
    assert max(kept) == str((clock.now() - timedelta(days=1)).date())
    clock.jump(-86400 * 365)
    send(account, allowed=1)
    refusal(account, 1)
    refusal(Spending(path, clock.now), 1)


FOREIGN = {
    "nothing": "",
    "cut": '{"version":1,"days":{"2026-11',
    "no JSON": "calls = 3",
    "no text": b"\xff\xfe\x00",
    "another's": '{"model": "x"}',
    "a list": "[]",
    "a later version's": '{"version":2,"days":{}}',
    "no day": '{"version":1,"days":{"x":{}}}',
    "less than none": '{"version":1,"days":{"2026-11-22":{"m":{"calls":-1}}}}',
    "a half": '{"version":1,"days":{"2026-11-22":{"m":{"calls":0.5}}}}',
    "nested without end": "[" * 100_000,
    "no version": '{"days":{}}',
    "more than we write": '{"version":1,"days":{},"limit":5}',
    "too large": '{"version":1,"days":{}}' + " " * 2_000_000,
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_what_is_not_ours_is_set_aside_whole_and_told(account, path, caplog, content):
    data = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(data)
    send(account)
    assert path.with_name("gemini.json.set-aside").read_bytes() == data
    assert calls(account) == 1
    (told,) = caplog.messages
    assert "gemini.json.set-aside" in told


@pytest.fixture
def piped(path):
    """A pipe that somebody may still write to."""
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR)
    yield
    os.close(writer)


@pytest.mark.parametrize("make", ["a pipe", "a pipe in use", "a folder"])
def test_what_is_no_file_is_set_aside_too(request, account, path, caplog, make):
    match make:
        case "a pipe":
            os.mkfifo(path)
        case "a pipe in use":
            request.getfixturevalue("piped")
        case "a folder":
            path.mkdir()
    send(account)
    assert path.is_file()
    assert not path.with_name("gemini.json.set-aside").is_file()
    assert len(caplog.messages) == 1


def test_what_cannot_be_set_aside_is_left_alone(account, path, caplog):
    path.write_text("mine")
    path.with_name("gemini.json.set-aside").mkdir()
    send(account, 2)
    assert path.read_text() == "mine"
    assert calls(account) == 2
    assert len(caplog.messages) == 1


def broken(number):
    def fails(*_, **__):
        raise OSError(number, os.strerror(number))

    return fails


def test_a_full_disk_costs_only_the_record_and_is_told_once(
    account, path, clock, caplog, monkeypatch
):
    send(account)
    with monkeypatch.context() as patch:
        patch.setattr(module.Path, "replace", broken(errno.ENOSPC))
        send(account, 2)
    assert calls(account) == 3
    assert calls(Spending(path, clock.now)) == 1
    assert list(path.parent.iterdir()) == [path]
    assert [r.levelno for r in caplog.records] == [logging.WARNING]
    assert "No space left" in caplog.text
    refusal(account, 3)
    send(account)
    assert calls(Spending(path, clock.now)) == 4


def test_a_record_that_cannot_be_read_just_now_is_neither_lost_nor_replaced(
    account, path, clock, caplog, monkeypatch
):
    send(account, 2)
    again = Spending(path, clock.now)
    with monkeypatch.context() as patch:
        patch.setattr(module, "_at_once", broken(errno.EMFILE))
        sent = send(again)
        again.answered(sent, Tokens(prompt=1))
        assert calls(again) == 1
    assert len(caplog.messages) == 1
    assert calls(Spending(path, clock.now)) == 2
    assert calls(again) == 3
    send(again)
    assert calls(Spending(path, clock.now)) == 4


def test_a_folder_that_is_gone_is_not_made_again(path, clock, caplog):
    path = path.parent / "gone" / "gemini.json"
    send(Spending(path, clock.now), 2)
    assert not path.parent.exists()
    assert len(caplog.messages) == 1


# --- whose it is ----------------------------------------------------------------


def test_a_home_has_one_account_and_each_home_its_own(tmp_path):
    one, two = ({"TASKMEM_HOME": str(tmp_path / name)} for name in "ab")
    assert spending_of(one) is spending_of(dict(one))
    assert spending_of(one) is not spending_of(two)
    assert spending_of(one)._path == tmp_path / "a" / "gemini.json"


def test_without_a_home_it_is_in_memory_and_nobody_elses():
    assert spending_of({}) is not spending_of({})
    send(spending_of({}))


@pytest.mark.parametrize(
    ("raw", "allowed"),
    [
        *((None, 1000), ("", 1000), (" ", 1000), ("0", 0), (" 12\n", 12)),
        *(("999999999", 999_999_999), ("nonsense", 0), ("-1", 0), ("1e3", 0)),
        *(("1_000", 0), ("٣", 0), ("9" * 5000, 0)),
    ],
)
def test_how_many_are_allowed_is_in_the_environment_and_nonsense_allows_none(
    raw, allowed
):
    environ = {} if raw is None else {"TASKMEM_GEMINI_CALLS_PER_DAY": raw}
    assert calls_per_day(environ) == allowed
