"""A fake Gemini on the loopback, for tests; every answer can be scripted.

    with FakeGemini() as gemini:
        environ.update(gemini.environ)
        gemini.script.append({"status": 429, "retry_delay": "7s"})   # the next request
        ...
        assert "the condition" in gemini.requests[0].text

Without a script, `answer` decides, a function of a request that returns a step. The
default says no; `shows("DONE")` says yes once a terminal shows that text; `swayed` is
a model that believes whatever it reads; `looks(...)` judges the pictures it is sent.

One step is a dict. One of:
    {"met": "yes", "confidence": 0.9, "observation": "…", …}    a verdict
    {"verdicts": [{"id": "1", "met": "yes", …}, …]}              several, on pictures
    {"text": "…"}                       whatever the model writes, such as broken JSON
    {"finish": "SAFETY"}                how it ended; with "text" it wrote that before
    {"blocked": "PROHIBITED_CONTENT"}   the prompt was blocked
    {"candidates": []}                  the candidates, as they are
    {"status": 429, "message": "…", "retry_delay": "7s", "reason": "…"}
    {"html": 502}                       a page, as a proxy sends it
    {"body": "…"}                       any body with status 200
    {"redirect": "http://…"}
    {"hang": True}                      no answer, until the client goes
    {"drip": True}                      a byte now and then, never all of it
    {"drop": "before"}                  the connection ends; or "after" the headers
and with any of them {"latency": seconds}.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import socket
import threading
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
RPC = "type.googleapis.com/google.rpc"
NO = {"met": "no", "confidence": 0.9, "observation": "Nothing of it is there yet."}
YES = {"met": "yes", "confidence": 0.95, "observation": "It is there."}
BETWEEN_DRIPS = 0.05
PATIENCE = 60.0


@dataclass
class Request:
    """One question, as it came over the wire."""

    model: str
    headers: dict[str, str]
    body: dict
    abandoned: threading.Event = field(default_factory=threading.Event)
    """Set when the client went away while it was kept waiting."""

    @property
    def parts(self) -> list[dict]:
        return [part for each in self.body["contents"] for part in each["parts"]]

    @property
    def text(self) -> str:
        """All text parts."""
        return "\n".join(part["text"] for part in self.parts if "text" in part)

    @property
    def pictures(self) -> list[bytes]:
        """All pictures, as they were encoded; what was before is not among them."""
        found, before = [], False
        for part in self.parts:
            if "inlineData" in part:
                data = part["inlineData"]["data"].translate({45: "+", 95: "/"})
                found += [] if before else [base64.b64decode(data + "===")]
            before = part.get("text", "").startswith("Before")
        return found

    @property
    def conditions(self) -> dict[str, str]:
        """The conditions that are to be judged by pictures, by their ids."""
        asked = r"The condition with the id (\d+):\n(.*)"
        texts = (part.get("text", "") for part in self.parts)
        found = (re.fullmatch(asked, text, re.DOTALL) for text in texts)
        return {each[1]: each[2] for each in found if each}

    @property
    def terminal(self) -> list[str]:
        """The lines that the terminal shows, without their marks."""
        return [line[2:] for line in self.text.splitlines() if line.startswith("| ")]

    @property
    def instruction(self) -> str:
        return "".join(p["text"] for p in self.body["systemInstruction"]["parts"])

    @property
    def config(self) -> dict:
        return self.body["generationConfig"]


def shows(text):
    """Return a model that says yes once a terminal shows a text."""
    return lambda request: YES if any(text in line for line in request.terminal) else NO


def obey_terminal(request):
    """Answer what the terminal says that the answer is."""
    told = re.search(r"met=(yes|no|unsure)", "\n".join(request.terminal))
    return {**NO, "met": told[1]} if told else NO


def looks(holds):
    """Return a model that judges each condition by the pictures it is sent.

    `holds` takes the condition and the pictures, oldest first.
    """

    def answer(request):
        pictures = request.pictures
        return {
            "verdicts": [
                {**(YES if holds(words, pictures) else NO), "id": number}
                for number, words in request.conditions.items()
            ]
        }

    return answer


class FakeGemini:
    """The server; serves from `with` on, or from `start`."""

    key = "fake-key-0123456789abcdefghijklmnop"

    def __init__(self, answer=lambda request: NO):
        self.answer = answer
        self.script: deque[dict] = deque()
        """Steps for the next requests, one each."""
        self.requests: list[Request] = []
        self.news = threading.Condition()
        self.closing = threading.Event()
        self.connections: set[socket.socket] = set()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.fake = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def environ(self):
        """What has the SDK ask here."""
        return {"GOOGLE_GEMINI_BASE_URL": self.url, "GEMINI_API_KEY": self.key}

    def start(self):
        self._thread.start()
        return self

    def stop(self):
        self.closing.set()
        self._server.shutdown()
        for connection in [*self.connections]:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._server.server_close()
        self._thread.join(PATIENCE)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    def wait_for(self, number):
        """Return that many requests, once they have come."""
        with self.news:
            there = self.news.wait_for(lambda: len(self.requests) >= number, PATIENCE)
            assert there, f"{len(self.requests)} requests instead of {number}"
            return self.requests[:number]

    def take(self, request):
        """Keep a request, and return the step that answers it."""
        with self.news:
            self.requests.append(request)
            self.news.notify_all()
            return self.script.popleft() if self.script else self.answer(request)


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = False
    fake: FakeGemini

    def handle_error(self, request, client_address):
        """Say nothing: clients that give up close early."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    server: _Server

    def setup(self):
        super().setup()
        self.fake = self.server.fake
        self.fake.connections.add(self.connection)

    def finish(self):
        self.fake.connections.discard(self.connection)
        with contextlib.suppress(OSError):
            super().finish()

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.refuse({"status": 404})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        asked = re.fullmatch(r"/v1(?:beta)?/models/([^/:]+):generateContent", self.path)
        if not asked:
            self.refuse({"status": 404})
        elif self.headers.get("x-goog-api-key") != self.fake.key:
            self.refuse(
                {
                    "status": 400,
                    "reason": "API_KEY_INVALID",
                    "message": "API key not valid. Please pass a valid API key.",
                }
            )
        else:
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(asked[1], headers, body)
            self.play(self.fake.take(request), request)

    def play(self, step, request):
        self.fake.closing.wait(step.get("latency", 0))
        if "status" in step:
            self.refuse(step)
        elif "html" in step:
            page = "<html><head><title>Bad gateway</title></head></html>"
            self.reply(step["html"], page, kind="text/html")
        elif "redirect" in step:
            self.reply(307, "", Location=step["redirect"])
        elif "body" in step:
            self.reply(200, step["body"])
        elif "hang" in step:
            self.outwait(request)
        elif "drip" in step:
            self.drip(request)
        elif "drop" in step:
            self.drop(after_headers=step["drop"] == "after")
        else:
            self.reply(200, json.dumps(_response(step, request)))

    def refuse(self, step):
        code = step["status"]
        status = STATUSES.get(code, "UNKNOWN")
        details = []
        if "reason" in step:
            details.append({"@type": f"{RPC}.ErrorInfo", "reason": step["reason"]})
        if code == 429:
            quota = {"quotaMetric": "generate_requests", "quotaValue": "15"}
            details.append({"@type": f"{RPC}.QuotaFailure", "violations": [quota]})
        if "retry_delay" in step:
            delay = step["retry_delay"]
            details.append({"@type": f"{RPC}.RetryInfo", "retryDelay": delay})
        error = {"code": code, "message": step.get("message", f"It is {status}.")}
        error |= {"status": status, "details": details}
        self.reply(code, json.dumps({"error": error}))

    def reply(self, code, body, kind="application/json; charset=UTF-8", **headers):
        data = body.encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def outwait(self, request):
        with contextlib.suppress(OSError):
            self.connection.recv(1)
        request.abandoned.set()
        self.close_connection = True

    def drip(self, request):
        self.begin(1_000_000)
        with contextlib.suppress(OSError):
            while not self.fake.closing.wait(BETWEEN_DRIPS):
                self.connection.sendall(b" ")
        request.abandoned.set()
        self.close_connection = True

    def drop(self, *, after_headers):
        if after_headers:
            self.begin(100)
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def begin(self, length):
        """Send the head of an answer, and none of it yet."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.flush()


def _response(step, request):
    text = step.get("text")
    if text is None and "met" in step and request.conditions:
        # To confirm a yes, each condition is asked about, and one that never holds.
        step = {"verdicts": [_one_of(step, *asked) for asked in request.conditions.items()]}
    if text is None and "met" in step:
        extra = {"expect_text": None, "look_again_seconds": None}
        text = json.dumps(extra | {k: v for k, v in step.items() if k != "latency"})
    if text is None and "verdicts" in step:
        extra = {"expect_text": None, "look_again_seconds": None, "watch_box": None}
        text = json.dumps({"verdicts": [extra | each for each in step["verdicts"]]})
    usage = {
        "promptTokenCount": len(request.text) // 4 + 1120 * len(request.pictures),
        "candidatesTokenCount": len(text or "") // 4,
        "thoughtsTokenCount": 7,
    }
    usage["totalTokenCount"] = sum(usage.values())
    told = {"usageMetadata": usage, "modelVersion": request.model}
    if "blocked" in step:
        return told | {"promptFeedback": {"blockReason": step["blocked"]}}
    if "candidates" in step:
        return told | {"candidates": step["candidates"]}
    candidate = {"index": 0, "finishReason": step.get("finish", "STOP")}
    if text is not None:
        candidate["content"] = {"role": "model", "parts": [{"text": text}]}
    return told | {"candidates": [candidate]}


def _one_of(step, number, words):
    decoy = any(animal in words for animal in ("giraffe", "green owls", "walrus"))
    return {**(step if not decoy or "everything" in step else NO), "id": number}
