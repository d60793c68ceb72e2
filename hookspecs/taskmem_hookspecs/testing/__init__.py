"""Provide conformance suites, a fake clock and example values for the tests of plug-ins.

Subclass a suite in your tests and implement its abstract methods; pytest then runs every rule that
the core relies on:

    from taskmem_hookspecs.testing import TransportSuite, check_plugin

    class TestNtfy(TransportSuite):
        def make_transport(self, tmp_path):
            return Ntfy("http://127.0.0.1:2586")

    def test_the_hooks_fit():
        check_plugin(taskmem_ntfy)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from taskmem_hookspecs.testing.clock import FakeClock
from taskmem_hookspecs.testing.plugins import check_plugin
from taskmem_hookspecs.testing.scripted import ScriptedReader
from taskmem_hookspecs.testing.values import (
    a_checkpoint,
    a_folder,
    a_message,
    a_revision,
    a_run,
    a_task,
    a_wait,
    a_wake,
    an_artifact,
    an_entry,
    an_event,
)

if TYPE_CHECKING:
    from taskmem_hookspecs.testing.hosts import HostSuite
    from taskmem_hookspecs.testing.judges import JudgeSuite
    from taskmem_hookspecs.testing.readers import ReaderSuite
    from taskmem_hookspecs.testing.sensors import SensorSuite
    from taskmem_hookspecs.testing.transports import TransportSuite
    from taskmem_hookspecs.testing.verifiers import VerifierSuite

__all__ = [
    "FakeClock",
    "HostSuite",
    "JudgeSuite",
    "ReaderSuite",
    "ScriptedReader",
    "SensorSuite",
    "TransportSuite",
    "VerifierSuite",
    "a_checkpoint",
    "a_folder",
    "a_message",
    "a_revision",
    "a_run",
    "a_task",
    "a_wait",
    "a_wake",
    "an_artifact",
    "an_entry",
    "an_event",
    "check_plugin",
]

_SUITES = {
    "TransportSuite": "transports",
    "HostSuite": "hosts",
    "ReaderSuite": "readers",
    "VerifierSuite": "verifiers",
    "SensorSuite": "sensors",
    "JudgeSuite": "judges",
}
"""Module of each suite; imported on first use, because it needs pytest."""


def __getattr__(name: str) -> object:
    """Import a suite and have pytest rewrite its assertions."""
    if name not in _SUITES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import pytest

    module = f"{__name__}.{_SUITES[name]}"
    pytest.register_assert_rewrite(module)
    return getattr(importlib.import_module(module), name)
