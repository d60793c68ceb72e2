"""What screenpipe recorded is found through the API that it documents, however it answers."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from taskmem_hookspecs import AdvisingSource, RecallSource
from taskmem_hookspecs.testing import FakeClock
from taskmem_recall import screenpipe, screenpipe_hooks
from taskmem_recall.screenpipe import (
    MOST_BYTES,
    MOST_CHARACTERS,
    MOST_RESULTS,
    Screenpipe,
    is_loopback,
)

NOW = datetime(2026, 2, 10, 12, tzinfo=UTC)
KEY = "sp-1234"


def build_result(text, *, seconds=0, frame=7, window="Keys", app="Firefox", kind="OCR"):
    """Return a result as `GET /search` documents it."""
    return {
        "type": kind,
        "content": {
            "frame_id": frame,
            "text": text,
            "timestamp": (NOW - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z"),
            "file_path": "/data/monitor_1.mp4",
            "offset_index": 3,
            "app_name": app,
            "window_name": window,
            "tags": [],
            "frame": None,
            "frame_name": None,
            "browser_url": None,
            "focused": True,
            "device_name": "monitor_1",
        },
    }


class StandIn(ThreadingHTTPServer):
    """A screenpipe with results, which wants all words of a question in a result's text."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.results = []
        self.key = None
        self.rude = None
        """Status and body that it answers with instead; None: it answers as documented."""
        self.asked = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        parts = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.server.asked.append((parts.path, asked))
        if self.server.key and self.headers["Authorization"] != f"Bearer {self.server.key}":
            return self.answer(403, b'{"error":"unauthorized"}')
        if self.server.rude:
            return self.answer(*self.server.rude)
        words = asked["q"].casefold().split()
        found = [
            each
            for each in self.server.results
            if all(word in json.dumps(each).casefold() for word in words)
        ]
        pagination = {"limit": int(asked["limit"]), "offset": 0, "total": len(found)}
        body = {"data": found[: pagination["limit"]], "pagination": pagination, "cloud": None}
        return self.answer(200, json.dumps(body).encode())

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Location", "http://192.0.2.1/search")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def stand_in():
    server = StandIn()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def source(stand_in):
    return Screenpipe(f"{stand_in.url}/", None, FakeClock(NOW))


def test_an_episode_is_found_with_its_frame(stand_in, source):
    stand_in.results = [
        build_result("SSH keys\nAdd SSH key\nBilling", seconds=100, frame=41),
        build_result("Title\nAdd SSH key now", seconds=60, frame=42, window="Add key"),
        build_result("add a song, key of C", seconds=9000, frame=9, app="Music"),
    ]
    (found, *_) = source.recall("how did I add an ssh key", 3, 0.5)
    assert found.source == "screenpipe"
    assert found.window_titles == ("Keys", "Add key")
    assert found.timestamp == NOW - timedelta(seconds=100)
    assert found.video_url == f"{stand_in.url}/frames/41"
    assert found.summary == "In Firefox: “Keys”, then “Add key”"
    assert found.steps == (
        "11:58:20 “Keys” came up, new text: “SSH keys”; “Add SSH key”",
        "11:59:00 “Add key” came up, new text: “Add SSH key now”",
    )
    assert 0 < found.confidence <= 1
    assert source.advice() is None


def test_it_is_asked_as_documented_and_by_no_proxy(stand_in, source, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    stand_in.results = [build_result("add ssh key")]
    source.recall("how did I add an ssh key", 3, 0.5)
    asked = {"q": "add ssh key", "limit": str(MOST_RESULTS), "content_type": "all"}
    assert stand_in.asked == [("/search", {**asked, "max_content_length": str(MOST_CHARACTERS)})]


def test_what_lacks_a_word_is_found_by_the_longest(stand_in, source):
    stand_in.results = [build_result("deployment of the webhook")]
    (found,) = source.recall("deploy a webhook tomorrow", 3, 0.5)
    assert found.steps == ("12:00:00 “Keys” came up, new text: “deployment of the webhook”",)
    assert [asked["q"] for _, asked in stand_in.asked] == [
        "deploy webhook tomorrow",
        "tomorrow",
        "webhook",
    ]


def test_what_was_heard_is_found_as_well(stand_in, source):
    heard = {
        "type": "Audio",
        "content": {
            "chunk_id": 1,
            "transcription": "we ship on Friday",
            "timestamp": "2026-02-10T11:00:00.25Z",
            "file_path": "/data/a.mp4",
            "offset_index": 0,
            "tags": [],
            "device_name": "mic",
            "device_type": "Input",
        },
    }
    stand_in.results = [heard]
    (found,) = source.recall("when do we ship", 3, 0.5)
    assert found.summary == "In Audio: “a window without a title”"
    assert found.video_url is None


def test_a_key_is_sent_and_one_that_is_missing_is_named(stand_in, source):
    stand_in.key = KEY
    stand_in.results = [build_result("ssh")]
    assert source.recall("ssh", 3, 0.5) == ()
    assert "SCREENPIPE_LOCAL_API_KEY" in source.advice()
    assert len(Screenpipe(stand_in.url, KEY, FakeClock(NOW)).recall("ssh", 3, 0.5)) == 1


@pytest.mark.parametrize(
    ("rude", "says"),
    [
        ((500, b"panic"), "status 500"),
        ((302, b""), "status 302"),
        ((200, b""), "not what its search answers"),
        ((200, b"<html>"), "not what its search answers"),
        ((200, b"[]"), "not what its search answers"),
        ((200, b'{"data": {"a": 1}}'), "not what its search answers"),
        ((200, b'{"data": ' + b"[" * 100_000), "not what its search answers"),
        ((200, b"\xff\xfe\x00"), "not what its search answers"),
        ((200, b" " * (MOST_BYTES + 1)), "too long"),
    ],
)
def test_a_rude_answer_costs_its_own_results_and_is_told(stand_in, source, rude, says):
    stand_in.rude = rude
    assert source.recall("ssh key", 3, 0.5) == ()
    assert says in source.advice()
    stand_in.rude = None
    stand_in.results = [build_result("ssh key")]
    assert len(source.recall("ssh key", 3, 0.5)) == 1
    assert source.advice() is None


@pytest.mark.parametrize(
    "result",
    [
        *(None, 3, "text", [], {}, {"type": "OCR"}, {"type": "OCR", "content": None}),
        {"type": "OCR", "content": {"text": "ssh"}},
        {"type": "OCR", "content": {"text": "ssh", "timestamp": "yesterday"}},
        {"type": "OCR", "content": {"text": "ssh", "timestamp": 17}},
        {"type": "OCR", "content": {"text": "ssh", "timestamp": "9999-12-31T23:59:59-23:59"}},
        {"type": "OCR", "content": {"text": "ssh", "timestamp": "0001-01-01T00:00:00+23:59"}},
        {"type": "OCR", "content": {"text": ["ssh"], "timestamp": "2026-02-10T11:00:00Z"}},
        {"type": "Input", "content": {"timestamp": "2026-02-10T11:00:00Z", "text": None}},
    ],
)
def test_what_is_no_result_is_left_out_and_the_rest_is_found(stand_in, source, result):
    stand_in.rude = (200, json.dumps({"data": [result, build_result("ssh")]}).encode())
    assert len(source.recall("ssh", 3, 0.5)) == 1


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (httpx.ConnectError("refused"), "cannot be reached"),
        (httpx.ReadTimeout("slow"), "did not answer within"),
        (httpx.RemoteProtocolError("rude"), "cannot be reached"),
    ],
)
def test_one_that_is_away_is_told(error, says):
    def fail(_):
        raise error

    source = Screenpipe("http://localhost:3030", None, FakeClock(NOW), httpx.MockTransport(fail))
    assert source.recall("ssh", 3, 0.5) == ()
    assert says in source.advice()
    assert "http://localhost:3030" in source.advice()


def test_an_answer_that_drips_is_cut_off(monkeypatch):
    monkeypatch.setattr(screenpipe, "SEARCH_SECONDS", 0.3)
    ended = threading.Event()
    came_to_its_end = []

    def drip(listening):
        connection, _ = listening.accept()
        with connection, contextlib.suppress(OSError):
            for _ in range(60):
                connection.sendall(b"X")
                if ended.wait(0.1):
                    break
            else:
                came_to_its_end.append(True)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        dripping = threading.Thread(target=drip, args=(listening,))
        dripping.start()
        source = Screenpipe(f"http://127.0.0.1:{listening.getsockname()[1]}", None, FakeClock(NOW))
        assert source.recall("ssh", 3, 0.5) == ()
        ended.set()
        dripping.join()
    assert "did not answer within 0.3 s" in source.advice()
    assert not came_to_its_end


@pytest.mark.parametrize(
    ("url", "is_here"),
    [
        ("http://127.0.0.1:3030", True),
        ("http://localhost:3030", True),
        ("http://[::1]:3030", True),
        ("http://127.0.0.1.example.org", False),
        ("http://192.168.1.4:3030", False),
        ("https://screenpi.pe", False),
        ("http://user:word@127.0.0.1:3030", False),
        ("http://127.0.0.1:port", False),
        ("http://0.0.0.0:3030", False),
        ("file:///etc/passwd", False),
        ("nonsense", False),
        ("http://[", False),
    ],
)
def test_only_an_address_of_this_machine_is_asked(url, is_here):
    asked = []

    def answer(request):
        asked.append(request.url)
        return httpx.Response(200, json={"data": []})

    source = Screenpipe(url, None, FakeClock(NOW), httpx.MockTransport(answer))
    assert is_loopback(url) is is_here
    assert source.recall("ssh", 3, 0.5) in ((), [])
    assert bool(asked) is is_here
    assert (source.advice() is None) is is_here


@pytest.mark.parametrize("query", ["", "?", "…"])
def test_a_question_without_a_word_asks_nobody(stand_in, source, query):
    assert source.recall(query, 3, 0.5) == ()
    assert stand_in.asked == []


def test_it_is_off_unless_its_address_is_set(monkeypatch):
    monkeypatch.delenv("TASKMEM_SCREENPIPE_URL", raising=False)
    assert screenpipe_hooks.recall_source(FakeClock(NOW)) is None
    monkeypatch.setenv("TASKMEM_SCREENPIPE_URL", " http://127.0.0.1:3030 ")
    source = screenpipe_hooks.recall_source(FakeClock(NOW))
    assert isinstance(source, AdvisingSource)
    assert isinstance(source, RecallSource)
