"""The user's own model as a reader, through a gateway that fares well or badly."""

from __future__ import annotations

import asyncio
import json
import os
import socket

import pytest

from taskmem_hookspecs import NoAnswer, ReaderUnavailable, Readiness
from taskmem_hookspecs.testing import JPEG, ReaderSuite, a_question
from taskmem_openclaw import hooks
from taskmem_openclaw.reader import HostReader
from tests.support.waiting import PATIENCE


def reader_of(gateway, **config):
    """A reader of that gateway, whose OpenClaw has the plug-in."""
    file = gateway.home / "openclaw.json"
    entry = {"plugins": {"entries": {"taskmem": {"enabled": True}}}}
    file.write_text(json.dumps({**entry, **config}))
    return HostReader({**gateway.environ, "OPENCLAW_CONFIG_PATH": str(file)})


def read_question(reader, *parts):
    async def read_in_time():
        async with asyncio.timeout(PATIENCE):
            return await reader.read(a_question(*parts))

    return asyncio.run(read_in_time())


class TestHostReader(ReaderSuite):
    @pytest.fixture(autouse=True)
    def _gateway(self, gateway):
        self.gateway = gateway

    def make_reader(self, tmp_path):
        return reader_of(self.gateway.open())

    def make_failing(self, tmp_path):
        return reader_of(self.gateway)


def test_it_is_provided():
    assert isinstance(hooks.reader(), HostReader)


# --- a question ---------------------------------------------------------------


def test_the_gateway_gets_the_question_as_it_is(gateway):
    question = a_question("Look:", JPEG)
    reading = read_question(reader_of(gateway.open()), "Look:", JPEG)
    (asked,) = gateway.asked
    assert asked == {
        "ask": "read",
        "instruction": question.instruction,
        "parts": [{"text": "Look:"}, {"jpeg": "/9j/4AAQSkZJRgABAQAAAQABAAD/2Q=="}],
        "schema": question.answer_schema,
        "limit": 60.0,
    }
    assert reading.model_dump() == {
        "answer": '{"met": "no"}',
        "reader": "host",
        "model": "local/one",
        "tokens_in": 100,
        "tokens_out": 10,
        "cost_usd": 0.002,
        "note": None,
    }


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ('```json\n{"met": "no"}\n```', '{"met": "no"}'),
        ('```\n{"met": "no"}```', '{"met": "no"}'),
        ('  {"met": "no"}\n', '{"met": "no"}'),
        ("It holds.", "It holds."),
    ],
)
def test_a_fence_round_the_answer_is_taken_off(gateway, said, answer):
    gateway.reading["text"] = said
    assert read_question(reader_of(gateway.open())).answer == answer


@pytest.mark.parametrize("told", [None, -1, True, "7", 1e300, 10**12])
def test_amounts_that_can_be_none_are_not_told(gateway, told):
    gateway.reading |= {"tokens_in": told, "tokens_out": told, "cost_usd": told}
    reading = read_question(reader_of(gateway.open()))
    assert (reading.tokens_in, reading.tokens_out, reading.cost_usd) == (None,) * 3


@pytest.mark.parametrize(
    ("said", "kind", "words", "rest"),
    [
        (
            {"unavailable": "local/one: its provider failed.", "retry": 60},
            ReaderUnavailable,
            "OpenClaw's model gave no answer: local/one: its provider failed.",
            60,
        ),
        (
            {"none": "its answer was cut,\nbeing too long"},
            NoAnswer,
            "OpenClaw's model gave no answer: its answer was cut, being too long.",
            None,
        ),
        ({}, NoAnswer, "OpenClaw's plug-in answered without an answer.", None),
        ({"text": 7}, NoAnswer, "OpenClaw's plug-in answered without an answer.", None),
        (
            {"failed": "the plug-in knows no read"},
            ReaderUnavailable,
            "OpenClaw's model could not be asked: the plug-in knows no read.",
            None,
        ),
    ],
)
def test_what_is_no_answer_is_told_apart(gateway, said, kind, words, rest):
    gateway.reading = said
    with pytest.raises(ReaderUnavailable) as caught:
        read_question(reader_of(gateway.open()))
    assert type(caught.value) is kind
    assert (str(caught.value), caught.value.retry_seconds) == (words, rest)


def test_a_gateway_that_goes_away_meanwhile_is_unavailable(gateway):
    gateway.rude = lambda visit: visit.request.shutdown(socket.SHUT_RDWR)
    with pytest.raises(ReaderUnavailable, match="hung up before it answered"):
        read_question(reader_of(gateway.open()))


# --- how it stands ------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "why", "cure"),
    [
        ("sh", "OpenClaw does not load the plug-in taskmem", "Run: taskmem setup openclaw"),
        ("no-such", "There is no OpenClaw", None),
    ],
)
def test_where_openclaw_is_not_set_up_it_is_off(gateway, command, why, cure):
    """Only where OpenClaw is installed is anybody advised to set it up."""
    config = str(gateway.home / "no.json")
    where = {"OPENCLAW_CONFIG_PATH": config, "TASKMEM_OPENCLAW_BIN": command}
    reader = HostReader({**gateway.environ, **where, "PATH": os.environ["PATH"]})
    told = reader.status()
    assert (told.readiness, told.cure) == (Readiness.OFF, cure)
    assert told.detail == f"{why}, so its model cannot be asked."


def test_while_the_gateway_is_away_it_says_so_and_stays_set_up(gateway):
    model = {"agents": {"defaults": {"model": {"primary": "local/two"}}}}
    reader = reader_of(gateway, **model)
    told = reader.status()
    assert told.readiness is Readiness.AWAY
    assert told.detail == "OpenClaw's gateway is away (No such file or directory)."
    assert (reader.model, reader.sees_pictures) == ("local/two", True)


@pytest.mark.parametrize("plain", ["local/two", {"primary": "local/two"}])
def test_the_model_is_as_configured_until_the_gateway_says_it(gateway, plain):
    reader = reader_of(gateway.open(), agents={"defaults": {"model": plain}})
    assert reader.model == "local/two"
    reader.status()
    assert reader.model == "local/one"


@pytest.mark.parametrize(
    ("pictures", "words"),
    [
        ("local/eye", "OpenClaw asks local/one; pictures go to local/eye."),
        (None, "OpenClaw asks local/one; it takes no pictures."),
    ],
)
def test_what_the_gateway_says_of_its_model_is_told(gateway, pictures, words):
    gateway.facts |= {"pictures": bool(pictures), "picture_model": pictures}
    reader = reader_of(gateway.open())
    assert reader.status().detail == words
    assert reader.sees_pictures is bool(pictures)


@pytest.mark.parametrize("facts", [{"failed": "the plug-in knows no reader"}, {}])
def test_an_older_plugin_is_away_or_says_little(gateway, facts):
    gateway.facts = facts
    told = reader_of(gateway.open()).status()
    away = told.readiness is Readiness.AWAY
    assert away is ("failed" in facts)


def test_a_gateway_that_hangs_is_away_after_a_moment(gateway):
    gateway.rude = lambda _: gateway.over.wait(PATIENCE)
    told = reader_of(gateway.open()).status()
    assert told.readiness is Readiness.AWAY
    assert told.detail == "OpenClaw's gateway is away (timed out)."


@pytest.mark.parametrize(("said", "limit"), [("", 200), ("7", 7), ("0", 0), ("x", 200)])
def test_its_limit_is_a_setting(said, limit):
    assert HostReader({"TASKMEM_HOST_CALLS_PER_DAY": said}).calls_per_day == limit
