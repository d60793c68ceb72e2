from __future__ import annotations

import asyncio
import gc
import json
import os
import threading

import pytest

from taskmem_hookspecs import NoAnswer, Reader, ReaderRefused, Readiness
from taskmem_vision import gemini as module
from taskmem_vision.gemini import MODEL, Gemini
from taskmem_vision.reader_questions import ReaderVerdict
from tests.plugins.vision.asking import QUESTION, ask, failure
from tests.plugins.vision.fake_gemini import NO, YES, FakeGemini

# --- a question and its verdict -----------------------------------------------


async def test_an_answer_is_a_reading_and_what_it_cost(gemini, server):
    assert isinstance(gemini, Reader)
    server.script.append({**YES, "expect_text": ["a"], "look_again_seconds": 5})
    reading = await gemini.read(QUESTION)
    found = ReaderVerdict.model_validate_json(reading.answer)
    assert found == ReaderVerdict(**YES, expect_text=["a"], look_again_seconds=5)
    assert (reading.reader, reading.model) == ("gemini", MODEL)
    assert reading.tokens_in == len("Does it hold?") // 4
    assert reading.tokens_out == len(reading.answer) // 4 + 7
    assert reading.cost_usd > 0


async def test_an_answer_that_is_none_tells_what_it_cost(gemini, server):
    server.script.append({"finish": "SAFETY"})
    error = await failure(gemini)
    assert error.tokens_in == len("Does it hold?") // 4
    assert error.tokens_out == 7
    assert error.cost_usd > 0


async def test_a_question_is_one_request_with_its_parts_word_for_word(gemini, server):
    parts = ('so "it" is\n\t→ ok', "two")
    await gemini.read(QUESTION.model_copy(update={"parts": parts}))
    (request,) = server.requests
    assert request.parts == [{"text": 'so "it" is\n\t→ ok'}, {"text": "two"}]
    assert request.instruction == "You judge."
    assert request.model == MODEL


async def test_gemini_is_asked_for_short_json_with_minimal_thinking(gemini, server):
    await ask(gemini)
    config = server.requests[0].config
    assert config["responseMimeType"] == "application/json"
    assert set(config["responseJsonSchema"]["required"]) >= {"met", "confidence"}
    assert config["responseJsonSchema"]["$defs"]["Met"]["enum"] == [*("yes", "no", "unsure")]
    assert config["maxOutputTokens"] == module._ANSWER_TOKENS
    assert config["thinkingConfig"] == {"thinking_level": "MINIMAL"}
    assert "temperature" not in config


@pytest.mark.parametrize(
    ("model", "thinking"),
    [
        ("gemini-3.5-flash-lite", {"thinking_level": "MINIMAL"}),
        ("gemini-flash-lite-latest", {"thinking_level": "MINIMAL"}),
        ("gemini-3.8-flash", {"thinking_level": "LOW"}),
        ("gemini-2.5-flash-lite", {"thinking_budget": 0}),
        ("gemini-2.5-pro", {"thinking_budget": 128}),
    ],
)
async def test_each_model_is_told_to_think_as_little_as_it_can(server, model, thinking):
    gemini = Gemini({**server.environ, "TASKMEM_GEMINI_MODEL": model})
    await ask(gemini)
    assert server.requests[0].model == model
    sent = server.requests[0].config["thinkingConfig"]
    assert sent == thinking or {"thinking_budget": sent["thinkingBudget"]} == thinking


async def test_googles_key_comes_before_geminis(server):
    environ = {**server.environ, "GEMINI_API_KEY": "another"}
    await ask(Gemini({**environ, "GOOGLE_API_KEY": f" {server.key}\n"}))
    assert server.requests[0].headers["x-goog-api-key"] == server.key


async def test_a_connection_is_not_kept(gemini, server):
    await ask(gemini)
    assert server.requests[0].headers["connection"] == "close"


async def test_questions_of_several_waits_do_not_wait_for_each_other(gemini, server):
    server.script.extend([{"hang": True}, NO])
    slow = asyncio.create_task(ask(gemini))
    await asyncio.to_thread(server.wait_for, 1)
    assert (await ask(gemini)).met == "no"
    slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow


# --- answers that are none ----------------------------------------------------

CUT = json.dumps(YES)[:20]
NONSENSE = {
    "a blocked prompt": ({"blocked": "PROHIBITED_CONTENT"}, "refused the question"),
    "no candidates": ({"candidates": []}, "held nothing at all"),
    "safety, after a yes": (
        {"finish": "SAFETY", "text": json.dumps(YES)},
        "broke off its answer (SAFETY)",
    ),
    "too long": ({"finish": "MAX_TOKENS", "text": CUT}, "was cut, being too long"),
    "broken JSON": ({"text": CUT}, "was not JSON"),
    "nothing": ({"text": " "}, "was empty"),
    "no content": ({"finish": "STOP"}, "was empty"),
    "only thoughts": (
        {
            "candidates": [
                {
                    "finishReason": "STOP",
                    "content": {"parts": [{"text": json.dumps(YES), "thought": True}]},
                }
            ]
        },
        "was empty",
    ),
    "another form": ({"text": '{"met": "yes"}'}, "(confidence, expect_text, "),
    "another word": ({**YES, "met": "YES!"}, "(met)"),
    "no object": ({"text": '["yes"]'}, "(all of it)"),
    "too sure": ({**YES, "confidence": 7}, "(confidence)"),
    "not a number": ({**YES, "confidence": float("nan")}, "(confidence)"),
    "no observation": ({**YES, "observation": ""}, "(observation)"),
}


@pytest.mark.parametrize("step", NONSENSE.values(), ids=NONSENSE)
async def test_nonsense_is_told_apart_and_is_no_verdict(gemini, server, step):
    server.script.append(step[0])
    error = await failure(gemini)
    assert isinstance(error, NoAnswer)
    assert step[1] in str(error)
    assert error.retry_seconds is None
    assert len(server.requests) == 1


# --- no answer ----------------------------------------------------------------

REFUSALS = {
    "a bad request": ({"status": 400}, "refused the request (400 INVALID_ARGUMENT"),
    "an invalid key": (
        {"status": 400, "reason": "API_KEY_INVALID"},
        "refused the key in GEMINI_API_KEY (400",
    ),
    "a forbidden key": ({"status": 403}, "refused the key in GEMINI_API_KEY (403"),
    "no such model": ({"status": 404}, f"has no model {MODEL} (404 NOT_FOUND"),
    "too much": ({"status": 429}, "limit is reached (429 RESOURCE_EXHAUSTED"),
    "an error": ({"status": 500}, "is in trouble (500 INTERNAL: It is INTERNAL);"),
    "a page": ({"html": 502}, "is in trouble (502 Bad Gateway);"),
    "a page that is found": ({"body": "<html></html>"}, "is not Gemini"),
    "a redirect": ({"redirect": "http://127.0.0.1:1/"}, "refused the request (307"),
    "another shape": ({"body": '{"candidates": 7}'}, "is not Gemini, or not"),
    "dropped at once": ({"drop": "before"}, "connection to Gemini failed"),
}


@pytest.mark.parametrize("step", REFUSALS.values(), ids=REFUSALS)
async def test_a_failure_is_told_apart_and_not_tried_again(gemini, server, step):
    server.script.append(step[0])
    error = await failure(gemini)
    assert step[1] in str(error)
    assert not isinstance(error, NoAnswer)
    assert isinstance(error, ReaderRefused) is ("refused the key" in step[1])
    assert len(server.requests) == 1
    assert "<html" not in str(error)


async def test_nobody_there_is_a_failed_connection():
    with FakeGemini() as gone:
        environ = gone.environ
    assert "connection to Gemini failed (Connect" in str(await failure(Gemini(environ)))


async def test_an_address_that_is_none_is_named(server):
    error = await failure(Gemini({**server.environ, "GOOGLE_GEMINI_BASE_URL": "ftp://x"}))
    assert "GOOGLE_GEMINI_BASE_URL" in str(error)


@pytest.mark.parametrize("proxy", ["socks5h://127.0.0.1:1", "socks4://127.0.0.1:1"])
async def test_a_proxy_that_cannot_be_used_is_named(server, monkeypatch, proxy):
    monkeypatch.setenv("ALL_PROXY", proxy)
    error = await failure(Gemini(server.environ))
    assert "is no HTTP proxy" in str(error)
    assert "set HTTPS_PROXY" in str(error)


async def test_certificates_that_are_not_there_are_named(server, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/ca.pem")
    error = await failure(Gemini(server.environ))
    assert "SSL_CERT_FILE" in str(error)


async def test_a_proxy_for_https_is_used_beside_one_that_cannot_be(server, monkeypatch):
    monkeypatch.setenv("ALL_PROXY", "socks5h://127.0.0.1:1")
    monkeypatch.setenv("HTTPS_PROXY", server.environ["GOOGLE_GEMINI_BASE_URL"])
    far = {**server.environ, "GOOGLE_GEMINI_BASE_URL": "https://gemini.invalid"}
    error = await failure(Gemini(far))
    assert "ProxyError" in str(error)  # the server that plays the proxy opens no tunnel


# --- giving up ----------------------------------------------------------------


def threads():
    """Those that are neither this test's own nor the server's."""
    ours = ("asyncio_", "process_request_thread")
    return {t for t in threading.enumerate() if not any(n in t.name for n in ours)}


@pytest.mark.parametrize("step", [{"hang": True}, {"drip": True}])
async def test_who_is_cancelled_leaves_nothing(gemini, server, step):
    await ask(gemini)
    before = threads()
    server.script.append(step)
    asking = asyncio.create_task(ask(gemini))
    await asyncio.to_thread(server.wait_for, 2)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await asyncio.to_thread(server.requests[1].abandoned.wait, 60)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert threads() <= before
    gc.collect()
    assert (await ask(gemini)).met == "no"


async def test_while_the_client_is_made_other_work_goes_on(gemini, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()
    make = module._make_client

    def slow(*values):
        begun.set()
        assert go_on.wait(60)
        return make(*values)

    monkeypatch.setattr(module, "_make_client", slow)
    first = asyncio.create_task(ask(gemini))
    assert await asyncio.to_thread(begun.wait, 60)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    go_on.set()
    assert (await ask(gemini)).met == "no"


# --- whether it may be used ---------------------------------------------------


@pytest.mark.parametrize("variable", ["GEMINI_API_KEY", "GOOGLE_API_KEY"])
def test_with_a_key_it_is_ready_and_names_where_the_key_is(variable):
    told = Gemini({variable: "a-key"}).status()
    assert told.readiness is Readiness.READY
    assert told.detail == (
        f"What a wait looks at goes to Google: {MODEL} is asked with the key in {variable}."
    )


@pytest.mark.parametrize("key", [None, "", " "])
def test_without_a_key_it_is_off_and_says_what_would_help(key):
    told = Gemini({} if key is None else {"GEMINI_API_KEY": key}).status()
    assert told.readiness is Readiness.OFF
    assert "GEMINI_API_KEY" in told.cure


@pytest.mark.parametrize(
    ("named", "readiness"),
    [
        *((None, Readiness.OFF), ("", Readiness.OFF), ("host", Readiness.OFF)),
        *(("gemini", Readiness.READY), ("host, gemini", Readiness.READY)),
    ],
)
def test_where_openclaw_was_set_up_only_a_named_gemini_is_used(tmp_path, named, readiness):
    (tmp_path / "setup").mkdir()
    (tmp_path / "setup" / "openclaw-0123.json").touch()
    environ = {"TASKMEM_HOME": str(tmp_path), "GEMINI_API_KEY": "a-key"}
    if named is not None:
        environ["TASKMEM_READERS"] = named
    told = Gemini(environ).status()
    assert told.readiness is readiness
    assert ("GEMINI_API_KEY" in told.detail) is True


@pytest.mark.parametrize(
    ("latest", "readiness"),
    [
        *(("", Readiness.OFF), ("[]", Readiness.OFF), ("{}", Readiness.OFF)),
        *(('{"gemini": false}', Readiness.OFF), ('{"gemini": true}', Readiness.READY)),
    ],
)
def test_where_openclaw_was_set_up_its_latest_record_decides(tmp_path, latest, readiness):
    (tmp_path / "setup").mkdir()
    for n, said in enumerate(('{"gemini": true}', '{"gemini": false}', latest)):
        record = tmp_path / "setup" / f"openclaw-{9 - n}.json"
        record.write_text(said)
        os.utime(record, (n, n))
    environ = {"TASKMEM_HOME": str(tmp_path), "GEMINI_API_KEY": "a-key"}
    assert Gemini(environ).status().readiness is readiness


@pytest.mark.parametrize(("said", "limit"), [("", 1000), ("7", 7), ("0", 0), ("many", 1000)])
def test_its_limit_is_a_setting(said, limit):
    assert Gemini({"TASKMEM_GEMINI_CALLS_PER_DAY": said}).calls_per_day == limit
