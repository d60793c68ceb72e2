"""Let a person approve only the files that they were shown."""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import Final

from openclaw_taskmem.domain.effects.checkpoints import digest_text
from openclaw_taskmem.domain.tasks import ledger
from openclaw_taskmem.domain.text.texts import (
    clip_start,
    format_checksum,
    quote_line,
    to_plain_line,
)
from openclaw_taskmem.domain.wakes.notices import NAME_BYTES
from openclaw_taskmem.engine import evidence
from openclaw_taskmem.engine.context import Context
from taskmem_hookspecs import (
    FileChange,
    LedgerEntry,
    LedgerVerdict,
    NotAllowed,
    RunState,
    TaskFacts,
)

NAMED: Final = 5
"""Files that a refusal names at most."""
PATH_BYTES: Final = 200
"""Longest end of a path that a refusal shows."""
_GONE: Final = (LedgerVerdict.ABSENT, LedgerVerdict.EMPTY)


def read_files_id(context: Context, facts: TaskFacts) -> str | None:
    """Return the id of what a task in review has made, as it is shown; an approval names it.

    None: it made nothing, or is not in review.
    """
    if facts.run is None or facts.run.state is not RunState.REVIEW:
        return None
    made = ledger.list_made(context.store.read_records(LedgerEntry, facts.task.task_id))
    shown = sorted((each.path, _get_checksum(each) or "") for each in made)
    return digest_text(json.dumps(shown)) if shown else None


def find_replaced_files(facts: TaskFacts, check: evidence.CheckResult) -> NotAllowed | None:
    """Return the refusal to approve files that are not known to be as the person was shown them.

    It names them, and says how to look again. None: all are as they were shown.
    """
    shown = {each.path: each for each in ledger.list_made(check.sought.entries) if each.sha256}
    known = [each for each in check.entries if each.path in shown]
    replaced = [each for each in known if not _is_confirmed(shown[each.path], each)]
    if not replaced:
        return None
    more, task_id = len(replaced) - NAMED, facts.task.task_id
    name = quote_line(to_plain_line(facts.task.name), NAME_BYTES)
    named = ", ".join(map(_describe_file, replaced[:NAMED]))
    return NotAllowed(
        f"{name} is not approved: since you were shown what it made, these were replaced, or "
        f"cannot be verified: {named}{f' and {more} more' if more > 0 else ''}. Look at them with "
        f"taskmem show {task_id}, and approve it again."
    )


def _is_confirmed(shown: LedgerEntry, now: LedgerEntry) -> bool:
    """Whether a file is as it was shown; one that was shown as not verified may still be so."""
    if _is_gone(now):
        return _is_gone(shown)
    checksum = _get_checksum(now)
    return checksum == _get_checksum(shown) or (checksum is not None and checksum == shown.sha256)


def _is_gone(entry: LedgerEntry) -> bool:
    return entry.change is FileChange.REMOVED or entry.verdict in _GONE


def _get_checksum(entry: LedgerEntry) -> str | None:
    """Return the checksum of the content that was verified; None: it was not.

    An entry that could not be verified keeps the checksum of an earlier check.
    """
    return None if entry.verdict is LedgerVerdict.UNVERIFIED else entry.sha256


def _describe_file(entry: LedgerEntry) -> str:
    name = to_plain_line(PurePath(entry.path).name)
    if _is_gone(entry):
        return f"{name} (now gone or empty)"
    if checksum := _get_checksum(entry):
        return f"{name} (now {format_checksum(checksum)})"
    path = clip_start(to_plain_line(entry.path), PATH_BYTES)
    why = to_plain_line(entry.why or "It has no checksum now.").rstrip(".")
    return f"{path} (not verified now: {why})"
