"""The store in memory keeps every rule of a store."""

from __future__ import annotations

import inspect

from _pytest.assertion.rewrite import AssertionRewritingHook

from tests.support.memory_store import MemoryStore
from tests.support.store_suite import StoreSuite


class TestMemoryStore(StoreSuite):
    def make_store(self, tmp_path):
        return _STORES.setdefault(tmp_path, MemoryStore())


_STORES = {}
"""By folder, so that a store opened again holds what it held."""


def test_a_broken_rule_of_a_store_shows_its_values():
    """pytest shows the values of an assertion only in modules that it rewrites."""
    parts = [part for part in StoreSuite.mro() if part.__module__.startswith("tests.")]
    loaders = {inspect.getmodule(part).__spec__.loader for part in parts}
    assert len(parts) == 9
    assert {type(loader) for loader in loaders} == {AssertionRewritingHook}
