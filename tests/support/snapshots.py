"""Snapshots whose bytes and order matter: one text file each."""

from __future__ import annotations

import json
from typing import Any

from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode


class TextSnapshot(SingleFileSnapshotExtension):
    """A `.txt` file, as it is."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"


class JsonSnapshot(SingleFileSnapshotExtension):
    """A `.json` file, indented, in the order of the document."""

    _write_mode = WriteMode.TEXT
    file_extension = "json"

    def serialize(self, data: Any, **_: Any) -> str:
        return json.dumps(data, ensure_ascii=False, indent=2) + "\n"
