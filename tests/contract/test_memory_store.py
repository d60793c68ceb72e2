"""The store in memory keeps every rule of a store."""

from __future__ import annotations

from pathlib import Path

from taskmem_hookspecs import testing
from taskmem_hookspecs.testing import MemoryStore, StoreSuite


class TestMemoryStore(StoreSuite):
    def make_store(self, tmp_path):
        return _STORES.setdefault(tmp_path, MemoryStore())


_STORES = {}
"""By folder, so that a store opened again holds what it held."""


def test_a_broken_rule_of_a_store_shows_its_values():
    """pytest shows the values of an assertion only in modules that it rewrites."""
    parts = {path.stem for path in Path(testing.__file__).parent.glob("store_*.py")}
    assert {"stores", *parts} == set(testing._SUITES["StoreSuite"])
