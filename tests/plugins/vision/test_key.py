from __future__ import annotations

import asyncio
import logging
import traceback

import pytest

from taskmem_vision.gemini import client as module
from taskmem_vision.gemini.client import MODEL, Gemini
from tests.plugins.vision.asking import ask, failure
from tests.plugins.vision.fake_gemini import NO, FakeGemini

# --- the limit of a key -------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    """The time by which keys rest; it stands still."""
    time = [1000.0]
    monkeypatch.setattr(module, "_now", lambda: time[0])
    return time


async def test_a_key_rests_for_all_waits_as_long_as_it_is_told(gemini, server, clock):
    server.script.append({"status": 429, "retry_delay": "7.5s"})
    error = await failure(gemini)
    assert error.retry_seconds == 7.5
    assert str(error).endswith("it is asked again in 7.5 s.")
    clock[0] += 7
    error = await failure(gemini)
    assert error.retry_seconds == 0.5
    assert "the key rests" in str(error)
    assert len(server.requests) == 1
    clock[0] += 1
    await ask(gemini)
    assert len(server.requests) == 2


async def test_a_key_whose_rest_is_not_told_rests_a_little(gemini, server, clock):
    server.script.append({"status": 429})
    assert (await failure(gemini)).retry_seconds == module._BLIND_PAUSE
    assert "the key rests" in str(await failure(gemini))


async def test_a_key_rests_no_longer_than_an_hour(gemini, server, clock):
    server.script.append({"status": 429, "retry_delay": "86400s"})
    assert (await failure(gemini)).retry_seconds == module.LONGEST_PAUSE


async def test_a_shorter_rest_does_not_end_a_longer_one(gemini, server, clock):
    server.script.extend(
        [
            {"status": 429, "retry_delay": "60s", "latency": 0.05},
            {"status": 429, "retry_delay": "1s", "latency": 0.1},
        ]
    )
    await asyncio.gather(failure(gemini), failure(gemini))
    assert (await failure(gemini)).retry_seconds == 60


@pytest.mark.parametrize("delay", ["soon", "", 7, None, "-1s", "1s or so"])
async def test_a_rest_that_is_garbled_counts_as_not_told(gemini, server, clock, delay):
    server.script.append({"status": 429, "retry_delay": delay})
    assert (await failure(gemini)).retry_seconds == module._BLIND_PAUSE


async def test_a_server_in_trouble_may_say_when_to_come_again(gemini, server, clock):
    server.script.append({"status": 503, "retry_delay": "3s"})
    assert (await failure(gemini)).retry_seconds == 3
    await ask(gemini)


async def test_another_key_does_not_rest(server, clock):
    environ = dict(server.environ)
    gemini = Gemini(environ)
    server.script.append({"status": 429, "retry_delay": "60s"})
    await failure(gemini)
    environ["GOOGLE_API_KEY"] = "another-key"
    assert "refused the key in GOOGLE_API_KEY" in str(await failure(gemini))


# --- the key is nobody's business ---------------------------------------------


@pytest.mark.parametrize(
    "step",
    [
        {"status": 403, "message": "Consumer 'api_key:KEY' has been suspended."},
        {"status": 400, "message": f"{'x' * 150} KEY"},
        {"status": 429, "message": "KEY"},
        {"html": 502},
        {"drop": "before"},
        {"text": "KEY"},
        NO,
    ],
)
async def test_the_key_is_in_no_error_and_no_log(gemini, server, caplog, step):
    caplog.set_level(logging.DEBUG)
    words = {k: v.replace("KEY", server.key) for k, v in step.items() if k == "message"}
    server.script.append({**step, **words})
    (outcome,) = await asyncio.gather(ask(gemini), return_exceptions=True)
    told = caplog.text
    if isinstance(outcome, Exception):
        assert outcome.__context__ is None
        told += "".join(traceback.format_exception(outcome))
    assert told
    for part in (server.key, server.key[:16]):
        assert part not in told


@pytest.mark.parametrize("key", ["schlüssel-0123456789", "one two", "one\ntwo"])
async def test_a_key_that_cannot_be_one_is_not_sent(server, key):
    gemini = Gemini({**server.environ, "GEMINI_API_KEY": key})
    error = await failure(gemini)
    assert str(error).startswith("GEMINI_API_KEY holds characters that no key has;")
    assert key not in str(error)
    assert not server.requests


async def test_without_a_key_nothing_is_asked(server):
    error = await failure(Gemini({**server.environ, "GEMINI_API_KEY": " "}))
    assert str(error).startswith("There is no key for Gemini; set GEMINI_API_KEY")


async def test_a_redirect_does_not_take_the_key_along(gemini, server):
    with FakeGemini() as elsewhere:
        target = f"{elsewhere.url}/v1/models/{MODEL}:generateContent"
        server.script.append({"redirect": target})
        await failure(gemini)
        assert not elsewhere.requests
