"""The store keeps every rule of a store on SQLite."""

from __future__ import annotations

from taskmem_hookspecs.testing import StoreSuite
from taskmem_sqlmodel.hooks import task_store


class TestSqliteStore(StoreSuite):
    def make_store(self, tmp_path):
        return task_store(f"sqlite:///{tmp_path}/taskmem.db")
