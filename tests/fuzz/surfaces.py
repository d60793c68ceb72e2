"""What strangers may send to the product, each with the promise that it keeps.

A surface takes the bytes of the fuzzer and raises if its promise is broken.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Callable, Mapping
from functools import cache
from html.parser import HTMLParser
from random import Random
from typing import Any, Final

from openclaw_taskmem.domain.conditions.conditions import parse_condition
from openclaw_taskmem.domain.wakes import packet
from taskmem_hookspecs import TaskmemError, hookimpl
from taskmem_recall.past_tasks import PastTasks
from tests.fuzz.daemon_home import DaemonHome, Defect
from tests.support import fuzz
from tests.support.mcp_lines import check_line
from tests.support.world import World

SESSION: Final = "agent:main:main"
PATHS: Final = ("", "task", "wait", "health", "search", "at", "file", "picture", "style.css", "x")
QUERY: Final = ("id", "q", "kinds", "at", "before", "name", "all", "n", "live")
BROUGHT: Final = "brought"
MARK: Final = f"""\"' {BROUGHT}=1><{BROUGHT} {BROUGHT}=1>"""
"""Becomes a tag or an attribute wherever it is not escaped."""
MOST_RESULTS: Final = 3
_CONTROLS: Final = {*map(chr, range(32)), "\x7f", "\u202e"}


class BytesRandom(Random):
    """Takes each choice from bytes, and the first of every choice when they are used up."""

    def __init__(self, data: bytes) -> None:
        super().__init__(0)
        self._data = data
        self._at = 0

    @property
    def is_used_up(self) -> bool:
        """True if no byte is left."""
        return self._at >= len(self._data)

    def random(self) -> float:
        return self.getrandbits(8) / 256

    def getrandbits(self, k: int, /) -> int:
        size = (k + 7) // 8
        taken = self._data[self._at : self._at + size]
        self._at += size
        return int.from_bytes(taken, "big") & ((1 << k) - 1)

    def take_text(self) -> str:
        """Return the bytes that are left as text, half characters and all."""
        left, self._at = self._data[self._at :], len(self._data)
        return left.decode("utf-8", "surrogateescape")


HOME: Final = DaemonHome()


def call_tools(data: bytes) -> None:
    """Call tools as an agent or a person; each is answered, and nothing fails inside."""
    choose = BytesRandom(data)
    HOME.prepare()
    while not choose.is_used_up:
        name, given = fuzz.make_tool_call(choose, HOME.ids)
        called = {"tool": name, "arguments": given, "session_key": SESSION}
        HOME.call(choose.choice(("gateway", "client")), "call", called)


def call_methods(data: bytes) -> None:
    """Call methods of the socket as a command or gateway; each is answered."""
    choose = BytesRandom(data)
    HOME.prepare()
    while not choose.is_used_up:
        client_kind = choose.choice(("gateway", "client"))
        method, params = fuzz.make_method_call(choose, client_kind, HOME.ids)
        HOME.call(client_kind, method, params)


def send_lines(data: bytes) -> None:
    """Send any bytes as a line; it is answered by one line, an object of JSON."""
    HOME.prepare()
    line = data.replace(b"\n", b" ")
    answer = HOME.send("client", line)
    if answer and not isinstance(json.loads(answer), dict):
        raise Defect(f"{line!r} is answered by {answer!r}")


def take_reports(data: bytes) -> None:
    """Report what hooks saw, as a gateway's plug-in does; each report is answered."""
    choose = BytesRandom(data)
    HOME.prepare()
    while not choose.is_used_up:
        events = [fuzz.make_event(choose, HOME.ids) for _ in range(choose.randint(1, 4))]
        HOME.call("gateway", "report", {"events": events})


class _MarkFinder(HTMLParser):
    """Finds tags and attributes that the mark brought."""

    found = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found = self.found or BROUGHT in (tag, *(name for name, _ in attrs))


def render_pages(data: bytes) -> None:
    """Ask for any page; a page answers, and nothing that anybody wrote is markup."""
    choose = BytesRandom(data)
    HOME.prepare()
    path = choose.choice(PATHS)
    query = {choose.choice(QUERY): choose.choice((*HOME.ids, *fuzz.TEXTS)) for _ in range(2)}
    task_id = choose.choice(HOME.ids)
    mark = f"{MARK}{choose.take_text()}"
    query[choose.choice(QUERY)] = mark
    said = {"tool": "task_update", "arguments": {"task_id": task_id, "message": mark}}
    HOME.call("gateway", "call", {**said, "session_key": SESSION})
    page = HOME.call("client", "page", {"path": path or mark, "query": query, "may_act": True})
    if "body" not in page:
        raise Defect(f"{path} {query} is answered by {page}")
    if page["content_type"].startswith("text/html"):
        finder = _MarkFinder()
        finder.feed(base64.b64decode(page["body"]).decode())
        finder.close()
        if finder.found:
            raise Defect(f"{path} {query} is markup")


def build_packets(data: bytes) -> None:
    """Change a task by tools and hooks, then build its packet: small, whole, and plain text."""
    choose = BytesRandom(data)
    HOME.prepare()
    for _ in range(choose.randint(1, 4)):
        if choose.random() < 0.5:
            name, given = fuzz.make_tool_call(choose, HOME.ids)
            called = {"tool": name, "arguments": given, "session_key": SESSION}
            HOME.call("gateway", "call", called)
        else:
            events = [fuzz.make_event(choose, HOME.ids)]
            HOME.call("gateway", "report", {"events": events})
    told = HOME.call("gateway", "packet", {"session_key": SESSION, "age": 0})
    text = told.get("text")
    if not text:
        return
    if len(text.encode()) > packet.LIMIT:
        raise Defect(f"a packet of {len(text.encode())} bytes")
    if odd := _CONTROLS & {*text}:
        raise Defect(f"a packet with {odd!r}: {text!r}")
    if not isinstance(json.loads(text.removeprefix(packet.REMINDER)), dict):
        raise Defect(f"a packet that is no object: {text!r}")


def parse_conditions(data: bytes) -> None:
    """Parse any sentence into forms, or refuse it; its own words are parsed alike."""
    sentence = data.decode("utf-8", "replace")
    with contextlib.suppress(TaskmemError):
        parsed = parse_condition(sentence)
        if parse_condition(parsed.sentence) != parsed:
            raise Defect(f"{sentence!r} is understood in two ways")


def recall_tasks(data: bytes) -> None:
    """Ask for anything that was done before; at most three answers, or a refusal."""
    query = BytesRandom(data).take_text()
    with contextlib.suppress(TaskmemError):
        answer = _build_history().call("memory_recall", query=query)
        if len(answer["results"]) > MOST_RESULTS or "Not searched" in answer["message"]:
            raise Defect(f"{query!r} is answered by {answer}")


class _History:
    """A few past tasks, and the source that finds them."""

    def __init__(self) -> None:
        self.world = World(plugins=[("tasks", self)])
        self._tasks = PastTasks(self.world.history, self.world.clock)
        for name in ("Add an SSH key", "ключ 鍵", 'NEAR("x")', "Renew the certificate"):
            self.world.narrate(self.world.register(name), f"{name}: done.")

    @hookimpl
    def recall_source(self) -> Any:
        return self

    def recall(self, query: str, limit: int, recency_bias: float) -> Any:
        return self._tasks.recall(query, limit, recency_bias)


@cache
def _build_history() -> World:
    return _History().world


SURFACES: Final[Mapping[str, Callable[[bytes], None]]] = {
    "tools": call_tools,
    "socket": call_methods,
    "lines": send_lines,
    "mcp": check_line,
    "hooks": take_reports,
    "pages": render_pages,
    "packet": build_packets,
    "conditions": parse_conditions,
    "recall": recall_tasks,
}
