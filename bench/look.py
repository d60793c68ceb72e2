"""What people look at: the first picture of a page, a change on it, lists, and their memory."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import IO, cast

from figures import Figure, amount, millis, sample_in_turns
from homes import (
    COMMAND,
    build_environment,
    fill_home,
    make_home,
    open_store,
    run_taskmem,
    serve_home,
)
from machine import measure_memory
from playwright.sync_api import Page, sync_playwright

from openclaw_taskmem.cli.client import connect
from openclaw_taskmem.daemon.person_calls import FREE_SECONDS
from openclaw_taskmem.home import Home
from taskmem_hookspecs import Change, Message, MessageType, Role

TASKS = 20_000
MESSAGES = 50
"""Of each task."""
BATCH = 200
"""Tasks whose messages are written at once."""
PICTURES = 20
CHANGES = 40
COMMANDS = 30
CLOSINGS = 3
"""How often the pages are closed, and what is left of them in memory is measured."""
SETTLED = 3
"""Seconds for which the daemon rests before its memory is measured."""


def look_at_pages() -> Iterator[Figure]:
    """Measure pages and lists over 20,000 tasks with a million messages, and their memory."""
    with ExitStack() as stack:
        home = stack.enter_context(make_home())
        ids = fill_home(home, TASKS)
        _write_messages(home, ids)
        pid = stack.enter_context(serve_home(home))
        time.sleep(SETTLED)
        before, _ = measure_memory(pid)
        with _serve_pages(home) as (link, server), _open_chromium() as page:
            page.goto(link)
            page.wait_for_selector("#live")
            root = page.url
            first = [_time_first_picture(page, root) for _ in range(PICTURES)]
            bytes_sent = _count_bytes(page, root)
            task = [_time_first_picture(page, f"{root}task?id={ids[n]}") for n in range(PICTURES)]
            found = [_time_first_picture(page, f"{root}search?q=nowhere") for _ in range(3)]
            page.goto(root)
            changes = [_time_change(home, page, number) for number in range(CHANGES)]
            open_rss, _ = measure_memory(pid)
            _, server_pss = measure_memory(server)
        after = [_measure_closed(home, pid) for _ in range(CLOSINGS)]
        times = sample_in_turns(
            COMMANDS,
            overview=lambda _: run_taskmem(home, ()),
            list=lambda _: run_taskmem(home, ("list",)),
            show=lambda number: run_taskmem(home, ("show", ids[number])),
        )
    yield millis("overview in Chromium, 20,000 tasks: first picture", first, 300)
    yield amount("overview: over the wire, script and style included", [bytes_sent], "KB", 100)
    yield millis("a task in Chromium: first picture", task, 300)
    yield millis("a search through 1,000,000 messages that finds nothing", found)
    yield millis("a change in the store until it is on the page", changes, 200)
    yield millis("taskmem, 20,000 tasks", times["overview"], 200)
    yield millis("taskmem list, 20,000 tasks", times["list"], 200)
    yield millis("taskmem show, 20,000 tasks", times["show"], 200)
    yield amount("daemon's memory with the page open", [open_rss - before], "MB", 25)
    yield amount("memory of the server beside it", [server_pss], "MB")
    yield amount("daemon's memory after it was closed", [each - before for each in after], "MB", 5)


def _write_messages(home: Home, ids: Sequence[str]) -> None:
    """Give each task a thread."""
    store, now = open_store(home), datetime.now(UTC)
    for start in range(0, len(ids), BATCH):
        said = (
            Message(
                task_id=task_id,
                role=Role.AGENT,
                msg_type=MessageType.PROGRESS,
                content=f"Part {number} of the work on {task_id} is done; the next one follows.",
                created_at=now,
            )
            for task_id in ids[start : start + BATCH]
            for number in range(MESSAGES)
        )
        store.commit(Change(messages=tuple(said)))
    store.close()


def _measure_closed(home: Home, pid: int) -> float:
    """Look at the overview once more, and return the daemon's memory after that is freed."""
    with connect(home) as link:
        link.call("page", {"path": "", "query": {}})
    time.sleep(FREE_SECONDS + SETTLED)
    return measure_memory(pid)[0]


@contextmanager
def _serve_pages(home: Home) -> Iterator[tuple[str, int]]:
    """Run `taskmem ui`; gives its link, and its process."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [COMMAND, "ui", "--no-open"],
        env=build_environment(home),
        stdin=theirs,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        out = cast("IO[str]", process.stdout)
        said = out.readline() + out.readline()
        yield re.findall(r"http\S+", said)[0], process.pid
    finally:
        process.terminate()
        process.communicate()
        os.close(ours)
        os.close(theirs)


@contextmanager
def _open_chromium() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        yield browser.new_page(bypass_csp=True)  # to ask it for its own times
        browser.close()


def _time_first_picture(page: Page, url: str) -> float:
    """Return the seconds from the request to the first picture with content."""
    page.goto(url)
    page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length")
    paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
    return float(page.evaluate(paint)) / 1000


def _count_bytes(page: Page, url: str) -> float:
    """Return the kilobytes that a page and all that it loads take."""
    page.goto(url, wait_until="load")
    sizes = page.evaluate(
        "['navigation', 'resource'].flatMap((kind) => performance.getEntriesByType(kind))"
        ".map((each) => each.transferSize)"
    )
    return sum(sizes) / 1000


def _time_change(home: Home, page: Page, number: int) -> float:
    """Return the seconds from a call that changes the store until the page shows it."""
    name = f"Change {number}"
    given = {"tool": "task_register", "arguments": {"name": name, "plan": ["Look"]}}
    with connect(home) as link:
        begun = time.monotonic()
        link.call("call", given)
    page.wait_for_selector(f".name:text-is('{name}')")
    return time.monotonic() - begun
