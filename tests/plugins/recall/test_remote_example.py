"""The plug-in of docs/recall.md for a memory service elsewhere, as it stands there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType

import httpx
import pytest

from taskmem_hookspecs import RecallSource
from taskmem_hookspecs.testing import check_plugin

PAGE = Path(__file__).parents[3] / "docs" / "recall.md"


@pytest.fixture
def plugin():
    [text] = re.findall(
        r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    module = ModuleType("memories_recall")
    exec(compile(text, PAGE, "exec"), module.__dict__)  # noqa: S102 - the page's own code
    return module


def test_it_is_a_plugin_that_is_off_without_a_key(plugin, monkeypatch):
    monkeypatch.delenv("MEMORIES_KEY", raising=False)
    check_plugin(plugin)
    assert plugin.recall_source() is None


def test_it_asks_the_service_and_names_it_as_the_source(plugin, monkeypatch):
    monkeypatch.setenv("MEMORIES_KEY", "k")
    monkeypatch.setenv("MEMORIES_URL", "https://memories.example/v1/")
    source = plugin.recall_source()
    assert isinstance(source, RecallSource)
    found = {
        "timestamp": "2026-02-10T15:42:00Z",
        "duration_seconds": 45,
        "confidence": 0.92,
        "summary": "User added an SSH key to GitHub",
    }

    def answer(request):
        assert str(request.url) == "https://memories.example/v1/search"
        assert request.headers["Authorization"] == "Bearer k"
        assert json.loads(request.content) == {"query": "ssh", "limit": 3, "recency_bias": 0.5}
        return httpx.Response(200, json={"results": [found]})

    source._service._transport = httpx.MockTransport(answer)
    (match,) = source.recall("ssh", 3, 0.5)
    assert (match.source, match.confidence, match.steps) == ("memories", 0.92, ())
