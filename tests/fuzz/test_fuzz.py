"""Every surface keeps its promise for the inputs in the tree, and for some that differ a little."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from openclaw_taskmem.daemon.dispatcher import Dispatcher
from openclaw_taskmem.daemon.server import SocketServer
from openclaw_taskmem.tools import views
from tests.fuzz.corpus_files import read_inputs
from tests.fuzz.daemon_home import Defect
from tests.fuzz.surfaces import HOME, SESSION, SURFACES
from tests.support.long_tests import choose_count

MUTANTS = choose_count("TASKMEM_MUTANTS", 60, 2_000)
"""Inputs of each surface that are made from those in the tree."""


@pytest.fixture(autouse=True)
def home():
    with HOME:
        yield


def change_some_bytes(data: bytes, choose: Random) -> bytes:
    """Replace, drop or insert bytes at a few places."""
    changed = bytearray(data)
    for _ in range(choose.randint(1, 8)):
        at = choose.randint(0, len(changed))
        changed[at : at + choose.randint(0, 4)] = choose.randbytes(choose.randint(0, 8))
    return bytes(changed)


@pytest.mark.parametrize("surface", SURFACES)
def test_no_input_breaks_the_promise_of_a_surface(surface):
    known = read_inputs(surface)
    assert known
    choose = Random(surface)  # noqa: S311 - no secret
    for data in (
        *known,
        *(change_some_bytes(choose.choice(known), choose) for _ in range(MUTANTS)),
    ):
        SURFACES[surface](data)


def test_an_error_inside_the_daemon_is_a_defect(monkeypatch):
    def fail(*_):
        raise RuntimeError("nobody expects this")

    HOME.prepare()
    monkeypatch.setattr(views, "list_waits", fail)
    with pytest.raises(Defect, match="nobody expects this"):
        HOME.call("client", "waits", {})


@pytest.mark.parametrize("answer", [b"", b"{}", b"{}\n{oops\n", b"{}\n\n"])
def test_an_answer_that_is_not_one_line_is_a_defect(answer, monkeypatch):
    async def give_answer(*_):
        return answer

    HOME.prepare()
    monkeypatch.setattr(SocketServer, "_make_answer", give_answer)
    with pytest.raises(Defect, match="not answered by one line"):
        SURFACES["lines"](b"anything")


def test_a_packet_of_many_lines_is_a_defect(monkeypatch):
    HOME.prepare()
    told = HOME.call("gateway", "packet", {"session_key": SESSION, "age": 0})["text"]
    assert told
    monkeypatch.setattr(HOME, "call", lambda *_: {"text": told.replace(", ", ",\n", 1)})
    with pytest.raises(Defect, match=r"a packet with \{'\\n'\}"):
        SURFACES["packet"](b"")


def test_a_call_that_is_never_answered_is_a_defect(monkeypatch):
    HOME.prepare()
    monkeypatch.setattr(Dispatcher, "answer", lambda *_, **__: asyncio.Future())
    with pytest.raises(Defect, match="is not answered"):
        HOME.call("client", "waits", {})
