from __future__ import annotations

import asyncio
import logging
import traceback

import pytest

from taskmem_vision.gemini import MODEL, Gemini
from tests.plugins.vision.asking import ask, failure
from tests.plugins.vision.fake_gemini import NO, FakeGemini

# --- the limit of a key -------------------------------------------------------


async def test_where_the_limit_is_reached_it_says_when_to_ask_again(gemini, server):
    server.script.append({"status": 429, "retry_delay": "7.5s"})
    error = await failure(gemini)
    assert error.retry_seconds == 7.5
    assert str(error).endswith("it is asked again in 7.5 s.")


@pytest.mark.parametrize("delay", ["soon", "", 7, None, "-1s", "1s or so"])
async def test_a_delay_that_is_garbled_counts_as_not_told(gemini, server, delay):
    server.script.append({"status": 429, "retry_delay": delay})
    assert (await failure(gemini)).retry_seconds is None


async def test_a_server_in_trouble_may_say_when_to_come_again(gemini, server):
    server.script.append({"status": 503, "retry_delay": "3s"})
    assert (await failure(gemini)).retry_seconds == 3


async def test_a_key_that_is_set_anew_is_used_from_then_on(server):
    environ = dict(server.environ)
    gemini = Gemini(environ)
    await ask(gemini)
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
