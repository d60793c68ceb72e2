"""Load and save the record of what was set up in OpenClaw."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from taskmem_hookspecs.installing import make_setup_folder, write_file
from taskmem_openclaw.setup.merge_patches import Document, is_list, is_object


class SetupStep(NamedTuple):
    """One set-up: its patch of the configuration and the inverse."""

    patch: Document
    inverse: Document
    done: bool
    """False: it was begun and may be incomplete."""
    gemini: bool = False
    """Whether Gemini was allowed after this step."""


class SetupRecord(NamedTuple):
    """What was set up in one OpenClaw, latest step last."""

    config: str
    """Path of its configuration, which identifies the OpenClaw."""
    folder: str = ""
    """Folder of the last installation."""
    fingerprint: str = ""
    """Fingerprint of that folder at the time."""
    steps: tuple[SetupStep, ...] = ()

    @property
    def gemini(self) -> bool:
        """Whether a Gemini key may be used; the Gemini plug-in reads this."""
        return bool(self.steps) and self.steps[-1].gemini


def load_record(home: Path, config: Path) -> SetupRecord:
    """Return the record; an unreadable one counts as empty."""
    nothing = SetupRecord(str(config))
    try:
        found: object = json.loads(_find_record_file(home, nothing).read_bytes())
    except (OSError, ValueError, RecursionError):
        return nothing
    if not is_object(found) or not is_list(found.get("steps")):
        return nothing
    folder, fingerprint = (str(found.get(key)) for key in ("folder", "fingerprint"))
    return SetupRecord(str(config), folder, fingerprint, tuple(_parse_steps(found["steps"])))


def save_record(home: Path, record: SetupRecord) -> None:
    """Save the record; delete the file if nothing is set up.

    Raises:
        OSError: It cannot be written; the old record is unchanged.
    """
    file = _find_record_file(home, record)
    if not record.steps and not record.folder:
        file.unlink(missing_ok=True)
        return
    make_setup_folder(home)
    document = record._asdict()
    document["steps"] = [step._asdict() for step in record.steps]
    document["gemini"] = record.gemini
    write_file(file, json.dumps(document, indent=2).encode())


def _find_record_file(home: Path, record: SetupRecord) -> Path:
    digest = hashlib.sha256(os.fsencode(record.config)).hexdigest()[:12]
    return home / "setup" / f"openclaw-{digest}.json"


def _parse_steps(found: Iterable[Any]) -> Iterable[SetupStep]:
    for each in found:
        if is_object(each) and is_object(each.get("patch")):
            inverse = each.get("inverse")
            if is_object(inverse):
                done, gemini = (each.get(key) is True for key in ("done", "gemini"))
                yield SetupStep(each["patch"], inverse, done, gemini)
