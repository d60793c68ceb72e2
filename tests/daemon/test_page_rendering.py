"""Pages take memory while somebody looks, and give it back."""

from __future__ import annotations

import asyncio
import threading
import weakref

import pytest

from openclaw_taskmem.daemon import person_calls
from openclaw_taskmem.daemon.person_calls import PageRenderer
from openclaw_taskmem.pages.site import Page
from tests.support.waiting import PATIENCE


class FakeSite:
    """Renders every path as itself."""

    def render(self, path: str, query: object, viewer: object) -> Page:
        return Page(200, "text/plain", path.encode())


@pytest.fixture
def sites() -> list[weakref.ref[FakeSite]]:
    """The sites that were built."""
    return []


def render_twice(sites: list[weakref.ref[FakeSite]], between: threading.Event | None) -> None:
    """Render a page, wait until its site is gone, and render another."""

    def build_site() -> FakeSite:
        site = FakeSite()
        sites.append(weakref.ref(site))
        if between is not None:
            weakref.finalize(site, between.set)
        return site

    async def render() -> None:
        pages = PageRenderer(build_site, str)  # type: ignore[arg-type]
        try:
            await pages.render({"path": "one"})
            if between is not None:
                assert await asyncio.to_thread(between.wait, PATIENCE)
            await pages.render({"path": "two"})
        finally:
            await pages.close()

    asyncio.run(render())


def test_the_templates_go_when_nobody_looks(
    sites: list[weakref.ref[FakeSite]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(person_calls, "FREE_SECONDS", 0.0)
    render_twice(sites, threading.Event())
    assert len(sites) == 2


def test_the_templates_stay_while_somebody_looks(sites: list[weakref.ref[FakeSite]]) -> None:
    render_twice(sites, None)
    assert len(sites) == 1
