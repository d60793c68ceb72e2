"""Wakes by the plug-in: once, at the right moment, and never to nobody."""

from __future__ import annotations

from datetime import datetime
from threading import Event
from typing import Any

import pytest

from tests.e2e.gateway import MAIN_SESSION
from tests.e2e.house import House, woken_by
from tests.e2e.room import until
from tests.e2e.scripted_model import ModelRequest, text_of

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

SETTINGS: dict[str, str] = {}
GHOST = "agent:main:ghost"


def seconds(later: str, earlier: str) -> float:
    """The time between two instants of a list."""
    times = [datetime.fromisoformat(each) for each in (later, earlier)]
    return (times[0] - times[1]).total_seconds()


def history(house: House) -> list[dict[str, Any]]:
    """What the main session's chat shows."""
    with house.gateway.rpc() as rpc:
        found = rpc.call("chat.history", sessionKey=MAIN_SESSION, limit=200)
    return list(found["messages"])


def line_of(phrase: str) -> str:
    """The line of a wake for a phrase that was seen at once."""
    return f'[taskmem]\n\nwatched.log: "{phrase}" appeared: "{phrase}" after 0 s.'


def keep_if_held(wake: dict[str, Any]) -> dict[str, Any] | None:
    """A wake, if it waits for the end of a turn."""
    return wake if wake["held"] == "a turn of the session is running" else None


def test_wake_starts_one_turn_and_is_acknowledged_by_the_answer(house: House):
    # A main session that has had no turn yet is made by one.
    early = house.wake("early")
    assert house.reaches(early, "acknowledged")["transport"] == "openclaw-plugin"
    assert house.arrivals(early) == 1

    house.gateway.say("hello")
    wait = house.wake("ready")
    wake = house.reaches(wait, "acknowledged")
    assert house.arrivals(wait) == 1
    assert wake["transport"] == "openclaw-plugin"
    assert (wake["attempts"], wake["last_error"], wake["note"]) == (1, None, None)
    [request] = [each for each in house.model.requests if wait in woken_by(each)]
    text = request.turn.text
    # It is the user's turn that begins, not a heartbeat, and the wake is no mere data.
    assert "heartbeat" not in text.lower()
    assert text.index("[system] smart_wait resolved") < text.index("[taskmem]")
    assert text.index("[taskmem]") < text.index("INTERNAL_CONTEXT")
    # The chat shows what was seen, in our name and not as the user's words. The line
    # that a wait begins is left out, for a wait that ends at once has none.
    told = [row for row in history(house) if '" appeared: ' in text_of(row)]
    assert [(row["role"], text_of(row)) for row in told] == [
        ("assistant", line_of("early")),
        ("assistant", line_of("ready")),
    ]
    assert wait not in str(history(house))

    # Heartbeats that are switched off do not matter.
    with house.gateway.rpc() as rpc:
        rpc.call("set-heartbeats", enabled=False)
    quiet = house.wake("quiet")
    house.reaches(quiet, "acknowledged")
    assert house.arrivals(quiet) == 1
    with house.gateway.rpc() as rpc:
        rpc.call("set-heartbeats", enabled=True)

    # The main session has two names, and takes one wake at a time by either.
    named, other = house.open_wait("one"), house.open_wait("two", "main")
    house.end("one", "two")
    for wait in (named, other):
        house.reaches(wait, "acknowledged")
        assert house.arrivals(wait) == 1
    assert not any({named, other} <= set(woken_by(each)) for each in house.model.requests)

    # A session that is not there is not made by a wake.
    nobody = house.wake("nobody", GHOST)
    refused = house.reaches(nobody, "refused")
    assert "has no session" in refused["last_error"]
    with house.gateway.rpc() as rpc:
        keys = [row["key"] for row in rpc.call("sessions.list")["sessions"]]
    assert GHOST not in keys


def test_wakes_wait_for_a_busy_session_and_share_few_turns(house: House):
    house.gateway.say("hello")
    reached, go = Event(), Event()

    def busy(request: ModelRequest) -> str:
        if "Work hard" in request.turn.text and request.opens_turn:
            reached.set()
            assert go.wait(300)
        return "Done."

    house.model.decide = busy
    with house.gateway.rpc() as rpc:
        rpc.call("agent", sessionKey=MAIN_SESSION, message="Work hard", idempotencyKey="hard")
        assert reached.wait(120)
        phrases = [f"number {n} is ready" for n in range(100, 130)]
        waits = [house.open_wait(phrase) for phrase in phrases]
        house.end(*phrases)
        for wait in waits:
            # Until the gateway has settled, that is the reason that is given.
            wake = until(lambda wait=wait: keep_if_held(house.wake_of(wait)), "it is held")
            assert (wake["state"], wake["attempts"]) == ("due", 0)
        assert not any(house.arrivals(wait) for wait in waits)
        go.set()
        rpc.call("agent.wait", runId="hard", timeoutMs=180_000)
    for wait in waits:
        house.reaches(wait, "acknowledged")
        assert house.arrivals(wait) == 1
    turns = [each for each in house.model.requests if {*waits} & {*woken_by(each)}]
    assert len(turns) <= 2


def test_wake_waits_until_a_new_gateway_has_settled(house: House):
    house.gateway.say("hello")
    house.gateway.stop()
    until(lambda: house.ask("status")["gateways"] == [], "the gateway has left")
    wait = house.wake("meanwhile")
    failed = until(
        lambda: house.wake_of(wait) if house.wake_of(wait)["last_error"] else None,
        "it was tried in vain",
    )
    assert (failed["state"], failed["sent_at"]) == ("due", None)
    assert failed["last_error"] == (
        "openclaw-plugin: No gateway listens at "
        f"127.0.0.1:{house.gateway.port}; see that it is started."
    )
    house.gateway.start()
    [known] = until(lambda: house.ask("status")["gateways"], "the gateway is back")
    wake = house.reaches(wait, "acknowledged")
    assert house.arrivals(wait) == 1
    assert wake["transport"] == "openclaw-plugin"
    assert seconds(wake["sent_at"], known["started_at"]) >= 11.5
