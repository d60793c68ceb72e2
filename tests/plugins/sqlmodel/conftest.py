"""Snapshots of schemas."""

from __future__ import annotations

import pytest
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode


class SqlFile(SingleFileSnapshotExtension):
    """One `.sql` file for each snapshot."""

    file_extension = "sql"
    _write_mode = WriteMode.TEXT


@pytest.fixture
def sql_snapshot(snapshot):
    return snapshot.use_extension(SqlFile)
