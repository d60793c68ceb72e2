from __future__ import annotations

import threading

import pytest

from openclaw_taskmem.plugin_host import plugin_host as plugin_host_module
from tests.plugin_host.made import LIMIT


@pytest.fixture
def hanging_hook(monkeypatch):
    """A hook that returns when the test is over, and how often it was begun."""
    monkeypatch.setattr(plugin_host_module, "STORE_SECONDS", LIMIT)
    over = threading.Event()
    begun = []

    def serve():
        begun.append(threading.current_thread())
        over.wait()

    yield serve, begun
    over.set()
    for thread in begun:
        thread.join(30)
        assert not thread.is_alive()
