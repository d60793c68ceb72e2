"""Days, limits and the operator's order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_taskmem.domain.reader_budget import (
    DAYS_KEPT,
    WAITS_KEPT,
    ReaderUsage,
    count_answer,
    count_question,
    describe_usage,
    dump_days,
    dump_waits,
    find_usage,
    load_days,
    load_waits,
    order_readers,
    put_wait_usage,
    refuse_over_limit,
    sum_usage,
)
from taskmem_hookspecs.errors import SettingsInvalid

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
DEFAULT = ("gemini", "host")
LATE = datetime(2026, 11, 23, 23, 59, 59, tzinfo=UTC)


def refusal(asked, limit, now=NOON, *, confirms=False):
    return refuse_over_limit("host", ReaderUsage(asked=asked), limit, now, confirms=confirms)


@pytest.mark.parametrize(
    ("asked", "limit", "confirms", "refused"),
    [
        *((0, None, False, False), (10**9, None, False, False)),
        *((0, 0, False, True), (0, 0, True, True)),
        *((0, 1, False, False), (1, 1, True, True)),
        *((198, 200, False, False), (199, 200, False, True)),
        *((199, 200, True, False), (200, 200, True, True)),
    ],
)
def test_the_last_call_is_kept_to_confirm_a_yes(asked, limit, confirms, refused):
    assert (refusal(asked, limit, confirms=confirms) is not None) is refused


def test_a_refusal_names_the_setting_and_when_the_day_ends():
    sentence, rest = refusal(200, 200)
    assert sentence == (
        "host was asked 200 times today (TASKMEM_HOST_CALLS_PER_DAY is 200). It is "
        "asked again from 2026-11-24 00:00 UTC on."
    )
    assert rest == 3600
    assert refusal(200, 200, LATE)[1] == 1


def test_a_day_is_one_in_utc():
    days = count_question({}, LATE, "host")
    west = (LATE + timedelta(seconds=2)).astimezone()
    assert find_usage(days, LATE.astimezone(), "host").asked == 1
    assert find_usage(days, west, "host").asked == 0


@given(st.lists(st.sampled_from([None, 0.0, 0.25, 2.0]), max_size=8))
def test_a_cost_is_known_only_where_all_of_it_is(costs):
    days = {}
    for cost in costs:
        days = count_answer(days, NOON, "host", tokens_in=1, tokens_out=None, cost_usd=cost)
    known = None if None in costs else sum(costs)
    spent = find_usage(days, NOON, "host")
    assert (spent.cost_usd, spent.tokens_in) == (known, len(costs))


@given(st.integers(0, 3 * DAYS_KEPT))
def test_what_is_written_down_is_read_again_for_some_days(number):
    days = {}
    for day in range(number):
        days = count_question(days, NOON + timedelta(days=day), "host")
    again = load_days(dump_days(days))
    assert again == {day: days[day] for day in sorted(days)[-DAYS_KEPT:]}


@pytest.mark.parametrize(
    "text", [None, "", "{", "7", '{"x": {}}', '{"2026-11-23": {"host": {"asked": -1}}}']
)
def test_what_cannot_be_read_counts_as_nothing(text):
    assert load_days(text) == {}


@pytest.mark.parametrize(
    ("wanted", "there", "order"),
    [
        (("gemini", "host"), ("host", "gemini"), ("gemini", "host")),
        (("host", "gemini", "host"), ("gemini", "host"), ("host", "gemini")),
        (("gemini", "host"), ("host",), ("host",)),
        (("none",), ("host",), ()),
        (("llama",), ("host", "llama"), ("llama",)),
    ],
)
def test_readers_are_asked_in_the_operators_order(wanted, there, order):
    assert order_readers(wanted, there, DEFAULT) == order


@pytest.mark.parametrize("wanted", [("gpt",), ("host", "gpt"), ("none", "host")])
def test_an_unknown_reader_is_refused_with_those_there_are(wanted):
    with pytest.raises(SettingsInvalid, match=r"none, or some of: gemini, host, llama"):
        order_readers(wanted, ("llama",), DEFAULT)


def test_the_usage_for_the_last_waits_is_kept() -> None:
    waits = {f"wait_{number}": ReaderUsage(asked=number) for number in range(WAITS_KEPT)}
    again = put_wait_usage(waits, "wait_0", ReaderUsage(asked=7))
    kept = put_wait_usage(again, "wait_new", ReaderUsage(asked=1))
    assert len(kept) == WAITS_KEPT
    assert "wait_1" not in kept
    assert load_waits(dump_waits(kept)) == kept
    assert load_waits("nonsense") == {}


def test_the_usage_for_waits_is_parsed_once_for_all_lines() -> None:
    text = dump_waits({"wait_1": ReaderUsage(asked=1)})
    assert load_waits(text) is load_waits(text)


@pytest.mark.parametrize(
    ("costs", "says"),
    [
        ((), ""),
        ((0.01, 0.02), "4 questions to readers, about $0.0300"),
        ((0.01, None), "4 questions to readers, at a cost that is not known"),
        ((0.0,), "2 questions to readers"),
    ],
)
def test_what_a_task_cost_is_the_sum_of_its_waits(
    costs: tuple[float | None, ...], says: str
) -> None:
    used = {f"wait_{n}": ReaderUsage(asked=2, cost_usd=cost) for n, cost in enumerate(costs)}
    others = {"wait_other": ReaderUsage(asked=9)}
    assert describe_usage(sum_usage({**used, **others}, [*used, "wait_none"])) == says
