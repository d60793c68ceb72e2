"""The store in memory keeps every rule of a store."""

from __future__ import annotations

from taskmem_hookspecs.testing import MemoryStore, StoreSuite


class TestMemoryStore(StoreSuite):
    def make_store(self, tmp_path):
        return _STORES.setdefault(tmp_path, MemoryStore())


_STORES = {}
"""By folder, so that a store opened again holds what it held."""
