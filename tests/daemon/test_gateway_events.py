"""What a gateway's plug-in may report, and how nonsense is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_taskmem.daemon import gateway_events
from taskmem_hookspecs import InvalidArguments

MAIN = "agent:main:main"
HELLO = {
    "kind": "gateway",
    "boot": "boot_1",
    "age": 1500,
    "transport": "openclaw-plugin",
    "version": "1",
    "main": MAIN,
    "running": [MAIN],
}
ENDED = {"kind": "turn_ended", "session_key": MAIN}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda some: st.lists(some, max_size=4) | st.dictionaries(st.text(), some),
    max_leaves=20,
)
EVENTS = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.sampled_from([*gateway_events._KINDS, "tool_called"]) | JSON,
        **dict.fromkeys(("session_key", "boot", "main", "transport", "version"), JSON),
        **dict.fromkeys(("age", "running", "deliveries", "error"), JSON),
    },
)


def parse(*events: Any) -> list[gateway_events.Event]:
    return gateway_events.parse_report({"events": list(events)})


def test_the_events_of_a_report_come_in_their_order() -> None:
    found = parse(
        HELLO,
        {"kind": "turn_started", "session_key": MAIN, "running": [MAIN]},
        {"kind": "answered", "session_key": MAIN, "deliveries": ["delivery_1"]},
        {**ENDED, "deliveries": ["delivery_2"], "error": None},
        {"kind": "gateway_stopped", "boot": "boot_1"},
    )

    assert found == [
        gateway_events.GatewayStarted(**{**HELLO, "running": (MAIN,)}),
        gateway_events.TurnStarted(kind="turn_started", session_key=MAIN, running=(MAIN,)),
        gateway_events.ModelAnswered(kind="answered", session_key=MAIN, deliveries=("delivery_1",)),
        gateway_events.TurnEndReport(
            kind="turn_ended", session_key=MAIN, deliveries=("delivery_2",)
        ),
        gateway_events.GatewayStopped(kind="gateway_stopped"),
    ]


def test_what_a_newer_plugin_tells_more_is_left_out() -> None:
    assert parse({"kind": "of_tomorrow"}, {}, {**ENDED, "at": 1, "more": {}}) == [
        gateway_events.TurnEndReport(kind="turn_ended", session_key=MAIN)
    ]
    assert gateway_events.parse_report({"events": []}) == []


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({**HELLO, "age": -1}, "age"),
        ({**HELLO, "age": float("inf")}, "age"),
        ({**HELLO, "age": float("nan")}, "age"),
        ({**HELLO, "boot": None}, "boot"),
        ({**HELLO, "main": "x" * 10_001}, "main"),
        ({**HELLO, "running": MAIN}, "running"),
        ({"kind": "turn_started"}, "session_key"),
        ({**ENDED, "session_key": "é" * 513}, "session_key: has 1,026 bytes, and at"),
        ({**ENDED, "agent_id": "x" * 1025}, "agent_id: has 1,025 bytes, and at most"),
        ({**ENDED, "deliveries": [1]}, "deliveries.0"),
        ({**ENDED, "deliveries": ["x"] * 10_001}, "deliveries"),
        ({**ENDED, "error": 503}, "error"),
        (7, "events.0"),
    ],
)
def test_what_is_no_event_is_refused_naming_the_place(event: Any, said: str) -> None:
    with pytest.raises(InvalidArguments, match=said) as refused:
        parse(event)
    assert str(refused.value).startswith("In a report, events.")
    assert "https://" not in str(refused.value)


def test_a_session_with_a_long_key_is_one_like_any_other() -> None:
    """OpenClaw takes such keys; one that runs must not hide the others."""
    long = f"agent:main:{'x' * 600}"
    [event] = gateway_events.parse_report({"events": [{**HELLO, "running": [MAIN, long]}]})
    assert isinstance(event, gateway_events.GatewayStarted)
    assert event.running == (MAIN, long)


@pytest.mark.parametrize("params", [{}, {"events": None}, {"events": HELLO}])
def test_a_report_without_a_list_of_events_is_refused(params: dict[str, Any]) -> None:
    with pytest.raises(InvalidArguments, match="In a report, events"):
        gateway_events.parse_report(params)


def test_a_report_of_too_many_events_is_refused() -> None:
    assert len(parse(*[ENDED] * gateway_events.MOST_EVENTS)) == gateway_events.MOST_EVENTS
    with pytest.raises(InvalidArguments):
        parse(*[ENDED] * (gateway_events.MOST_EVENTS + 1))


@pytest.mark.parametrize("error", ["x" * 1_000_000, "cut in the middle of \ud83d"])
def test_whatever_a_provider_says_keeps_no_report_back(error: str) -> None:
    (ended,) = parse({**ENDED, "error": error})

    assert isinstance(ended, gateway_events.TurnEndReport)
    assert ended.error is not None
    assert ended.error.startswith(error[:20])
    assert len(ended.error) <= 10_000
    ended.error.encode()


@given(st.lists(EVENTS | JSON, max_size=5))
def test_whatever_is_reported_is_understood_or_refused(events: list[Any]) -> None:
    try:
        found = parse(*events)
    except InvalidArguments:
        return
    assert len(found) <= len(events)
    assert {type(event) for event in found} <= set(gateway_events._KINDS.values())
