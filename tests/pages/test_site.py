"""What pages say of what they leave out, and of the doctor's report."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import unescape
from typing import Any
from urllib.parse import parse_qsl

import pytest

from openclaw_taskmem.pages import site
from openclaw_taskmem.pages import site as task_page
from openclaw_taskmem.pages.site import Site
from taskmem_hookspecs import Change, LedgerEntry
from tests.support.world import World

STATUS = {
    "version": "1",
    "pid": 1,
    "keeps": {"bytes": 0, "most_bytes": 1, "days": 90},
    "gateways": [],
    "readers": [
        {
            "name": "g",
            "state": "on",
            "detail": "It takes no pictures.",
            "asked": 6,
            "limit": 200,
            "cost_usd": None,
        }
    ],
}

KINDS = ("ended", "said", "repeated", "stressed", "denied")


def render(world: World, path: str, *states: str, **query: str) -> str:
    """Return the text of a page; `states`: of the rows of the doctor's report."""
    row = {"id": "x", "detail": "", "effect": "Work stops.", "cure": "", "rank": 0}
    rows = [{**row, "state": each} for each in states]
    report: Mapping[str, Any] = {"ok": "fail" not in states, "rows": rows}
    pages = Site(
        world.context,
        None,
        lambda: STATUS,
        lambda: report,
        list_doctor_rows=list,
        list_readers=lambda: [{"name": "gemini", "asked": 2, "cost_usd": 0.5}],
        home="/h",
    )
    return unescape(pages.render(path, query).body.decode())


@pytest.mark.parametrize(
    ("states", "said"),
    [
        (("ok", "ok"), "All is well."),
        (("ok", "off"), "What is on works. 1 is off."),
        (("ok", "warn"), " 1 warning."),
        (("fail", "warn", "warn", "off"), "Something is broken; see below. 2 warnings. 1 is off."),
    ],
)
def test_health_is_well_only_without_warnings(states: tuple[str, ...], said: str) -> None:
    shown = render(World(), "health", *states)
    assert re.findall(r'<p class="(?:calm|doubt)">(.*)</p>', shown) == [said]
    assert shown.count("Work stops.") == len(states)
    assert "on: It takes no pictures; 6 of 200 questions today" in shown
    words = {"warn": "warning", "fail": "failed"}  # as the terminal says them
    assert re.findall(r'<span class="state \w+">(\w+)</span> <strong>x', shown) == [
        words.get(each, each) for each in states
    ]


def test_the_overview_says_how_often_readers_were_asked() -> None:
    assert "gemini: 2 questions today, about $0.50" in render(World(), "")


def test_an_overview_of_ended_tasks_leads_to_them() -> None:
    world = World()
    assert "No task yet" in render(world, "")
    world.call("task_update", task_id=world.register(), status="failed")
    world.clock.tick(15 * 24 * 3600)
    shown = render(world, "")
    assert 'No task is open. <a href="search">' in shown
    assert "No task yet" not in shown


def test_a_list_says_that_it_is_cut_only_if_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    monkeypatch.setattr(site, "SEARCH_LIMIT", 2)
    monkeypatch.setattr(site, "LIST_LIMIT", 4)
    for _ in range(3):
        world.open_wait(world.register())
    assert render(world, "search").count('class="name"') == 3
    assert "are shown" not in render(world, "search") + render(world, "waits")
    assert "The latest 2 are shown; more words" in render(world, "search", q="Deploy")
    world.open_wait(world.register())
    assert "The latest 4 are shown; search for others" in render(world, "search")
    assert "At most 4 are shown here" in render(world, "waits")


def test_a_task_page_tells_how_many_files_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    task = world.register()
    made = {"task_id": task, "at": world.clock.now(), "change": "created"}
    verdicts = {"/w/a.md": "proved", "/w/b.md": "proved", "/w/c.md": "proved", "/w/d.md": "empty"}
    entries = ({**made, "path": path, "verdict": verdict} for path, verdict in verdicts.items())
    world.store.commit(Change(ledger=tuple(map(LedgerEntry.model_validate, entries))))
    monkeypatch.setattr(task_page, "MOST_PROOFS", 3)
    assert "more: <code>" not in render(world, "task", id=task)
    monkeypatch.setattr(task_page, "MOST_PROOFS", 1)
    shown = render(world, "task", id=task)
    assert re.findall(r'<code class="path">(.*)</code>', shown) == ["/w/a.md", "/w/d.md"]
    assert f"2 more: <code>taskmem show {task}</code>" in shown


def test_a_step_that_gives_its_own_number_is_shown_without_it() -> None:
    world = World()
    task = world.register(plan=["1. Build <it>", "7. Push it"])
    shown = render(world, "task", id=task)
    assert re.findall(r"<li class=.*?>(?:<span.*</span>)?([^<].*)</li>", shown)[:2] == [
        "Build <it>",
        "7. Push it",
    ]


def test_every_entry_of_a_story_is_on_one_of_its_pages() -> None:
    world = World()
    task = world.register()
    for number in range(60):
        world.clock.tick(0.0004)
        world.end_wait(world.open_wait(task), observation=f"{number} ended")
        for kind in KINDS[1:]:
            world.narrate(task, f"{number} {kind}")
    found: list[str] = []
    query = {"id": task}
    while query:
        shown = render(world, "task", **query)
        found += re.findall(r"<pre>(\d+ \w+)</pre>", shown)
        earlier = re.search(r'<a href="task\?([^"]*)">Earlier</a>', shown)
        query = dict(parse_qsl(earlier[1])) if earlier else {}
    expected = [f"{number} {kind}" for number in range(60) for kind in KINDS]
    assert sorted(found) == sorted(expected)
