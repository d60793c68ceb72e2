"""Record which files and folders tool calls used and changed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from tempfile import gettempdir
from types import MappingProxyType
from typing import Final, NamedTuple

from openclaw_taskmem.domain.effects.side_effects import split_script
from openclaw_taskmem.domain.tasks import ledger
from openclaw_taskmem.domain.tasks.ledger import FileTimes, FileTouch
from openclaw_taskmem.domain.tasks.path_mentions import find_names, split_words
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.folder_listings import FolderLook, read_stamps
from taskmem_hookspecs import Change, FileChange, LedgerEntry, Run, TaskFacts, Value, WorkFolder
from taskmem_hookspecs.paths import is_within_any

# ruff: noqa: PTH111, PTH112, PTH117, PTH118 - paths are text, as others gave them


SLACK: Final = timedelta(seconds=2)
"""How late the start of a call may be reported."""
_MOST_FOLDERS: Final = 100
"""Folders stored per task, at most."""
MOST_WORDS: Final = 100
"""Words of a command that are tested for being folders."""
MOST_CALLS: Final = 1_000
"""Running calls whose named files are kept in memory."""
_MOST_USED: Final = 10_000
"""Folders kept in memory as stored; beyond that all are looked up anew."""


class FileActivity(Value):
    """The files and folders that a tool call used or changed, as its host reports it."""

    call_id: str | None = None
    touched: tuple[FileTouch, ...] = ()
    folders: tuple[str, ...] = ()
    """The folders that it used, as absolute paths."""
    command: bool = False
    """True if it may have changed any file in them, as a command may."""
    text: str = ""
    """The command's text; names in it are looked up."""
    seconds: float = 0.0
    """Duration of the call."""


Looks = Mapping[str, FolderLook]
"""Looks at folders, by path."""


class UsedFolders(NamedTuple):
    """The folders that a call uses or that its command names."""

    listed: tuple[str, ...]
    """All files of these are listed."""
    passed: tuple[str, ...]
    """In these, only files that a command names are looked up."""
    looks: Looks = MappingProxyType({})
    """Looks at those in which no command ran before."""


def look_up_places(context: Context, run: Run, deed: FileActivity) -> UsedFolders:
    """Look up which folders a call uses, and look at those in which no command ran before.

    This may take long: call it before the task is locked.
    """
    used = find_used_folders(context, run, deed)
    listed = used.listed if deed.command else ()
    return used._replace(looks=look_at_folders(context, run.task_id, listed, run=run))


def look_at_folders(
    context: Context,
    task_id: str,
    paths: Iterable[str],
    *,
    run: Run | None = None,
    own: str | None = None,
) -> Looks:
    """Look at folders in which a task's first command is to run; those stored before are left out.

    `run` and `own`, the caller's working directory, say what may be looked at.
    """
    keys = _list_keys(task_id, paths, command=True)
    new = [path for key in keys if key not in context.live.used_folders for path in key[1:2]]
    rows = context.store.read_records(WorkFolder, task_id) if new and task_id else ()
    known = {row.path for row in rows if row.since is not None}
    return {
        path: context.listings.look_at(path, context.clock)
        for path in new
        if path not in known and may_look(context, run, path, own)
    }


def hold_listings(context: Context, looks: Looks, rows: Iterable[WorkFolder] | None) -> None:
    """Keep the listings that stored rows of folders name."""
    for row in rows or ():
        if row.files is not None and row.path in looks:
            context.listings.hold(looks[row.path], row.task_id)


def _list_keys(task_id: str, paths: Iterable[str], *, command: bool) -> list[tuple[str, str, bool]]:
    return [
        (task_id, path, command)
        for path in dict.fromkeys(os.path.normpath(each) for each in paths)
        if os.path.isabs(path) and path.isprintable()
    ]


def build_folder_rows(
    context: Context, task_id: str, paths: Iterable[str], looks: Looks, *, command: bool
) -> tuple[WorkFolder, ...]:
    """Return the rows of folders that a task begins to use, or in which a command first runs.

    Rows that would not change, and folders beyond `_MOST_FOLDERS`, are left out. `looks` says what
    the folders hold; once the rows are stored, `hold_listings` keeps it.
    """
    keys = _list_keys(task_id, paths, command=command)
    if all(key in context.live.used_folders for key in keys):
        return ()
    if len(context.live.used_folders) > _MOST_USED:
        context.live.used_folders.clear()
    since = context.clock.now() - SLACK if command else None
    rows_by_path = {each.path: each for each in context.store.read_records(WorkFolder, task_id)}
    rows: list[WorkFolder] = []
    for key in keys:
        row = rows_by_path.get(key[1])
        if row is None and len(rows_by_path) + len(rows) < _MOST_FOLDERS:
            row = WorkFolder(task_id=task_id, path=key[1])
        elif row is None or row.since is not None or not command:
            context.live.used_folders.add(key)
            continue
        look = looks.get(row.path) if command else None
        files = look.listing_id if look is not None and look.packed else None
        rows.append(row.model_copy(update={"since": since, "files": files}))
    return tuple(rows)


def find_used_folders(context: Context, run: Run | None, deed: FileActivity) -> UsedFolders:
    """Return the folders that a call uses, and those that its command names.

    A named folder is not listed if it contains another used one, the user's home or the folder for
    temporary files: too many other files change there.
    """
    listed, passed = [*deed.folders], list[str]()
    busy = (os.path.expanduser("~"), gettempdir())
    for word in _split_command(deed.text)[:MOST_WORDS] if deed.command else ():
        for folder in (*listed, *passed):
            joined = os.path.join(folder, os.path.expanduser(word))
            path = os.path.normpath(joined)
            is_listed = path in passed or any(_is_inside(path, each) for each in listed)
            if not is_listed and os.path.isdir(path) and may_look(context, run, path):
                whole = any(_is_inside(each, path) for each in (*listed, *busy))
                (passed if whole else listed).append(path)
    return UsedFolders(listed=(*listed,), passed=(*passed,))


def _split_command(text: str) -> list[str]:
    """Split a command into words as a shell does, or as prose if it is cut off."""
    script = split_script(_spell_home(text))
    if not script.whole:
        return split_words(_spell_home(text))
    words = [word for command in script.commands for word in (*command.words, *command.files)]
    return words + [
        word for part in (*script.inner, *script.documents) for word in _split_command(part)
    ]


def _spell_home(text: str) -> str:
    return text.replace("${HOME}", "~").replace("$HOME", "~")


def may_look(context: Context, run: Run | None, path: str, folder: str | None = None) -> bool:
    """Tell whether a path, with links resolved, lies in a folder that may be looked at.

    `folder`: the agent's working directory, as its call says.
    """
    if "\0" in path:
        return False
    real = os.path.realpath(path)
    own = (run.agent.folder if run else None, folder if folder != "/" else None)
    roots = (*context.policies.artifact_roots, *filter(None, own))
    return is_within_any(real, roots)


def _is_inside(path: str, folder: str) -> bool:
    """Tell whether a path is a folder or lies in it, by its text alone."""
    return f"{path}/".startswith(f"{folder.rstrip('/')}/")


def note_named_files(context: Context, run: Run, deed: FileActivity, used: UsedFolders) -> None:
    """Note which files named by a command exist as it begins."""
    if deed.call_id and deed.command:
        if len(context.live.named_files) >= MOST_CALLS:
            context.live.named_files.clear()
        files = _find_named_files(context, run, [deed.text], (*used.listed, *used.passed))
        context.live.named_files[deed.call_id] = tuple(path for path, _ in files)


def build_call_change(
    context: Context,
    facts: TaskFacts,
    run: Run,
    deed: FileActivity,
    used: UsedFolders,
    *,
    now: datetime,
) -> Change:
    """Return the ledger entries and folders that a call adds to a task."""
    folders = build_folder_rows(
        context, facts.task.task_id, used.listed, used.looks, command=deed.command
    )
    began = now - timedelta(seconds=deed.seconds) - SLACK
    began = max(began, facts.task.created_at) + context.measure_lead()
    found = [*_read_touched_files(context, run, deed)]
    before = context.live.named_files.get(deed.call_id or "")
    if deed.command:
        around = (*used.listed, *used.passed)
        for path, change, size in look_up_names(context, run, [deed.text], around, began):
            maybe_old = before is None or path in before
            found.append((path, change if maybe_old else FileChange.CREATED, size))
    gone = (path for path in before or () if not os.path.lexists(path))
    found += [(path, FileChange.REMOVED, None) for path in gone]
    if not found:
        return Change(folders=folders)
    known = {
        each.path: each for each in context.store.read_records(LedgerEntry, facts.task.task_id)
    }
    for path, change, size in found:
        new = LedgerEntry(
            task_id=facts.task.task_id,
            path=path,
            run_id=run.run_id,
            change=change,
            call_id=deed.call_id,
            at=now,
            size=size,
        )
        known[path] = ledger.merge_entry(known.get(path), new)
    paths = dict.fromkeys(path for path, _, _ in found)
    return Change(ledger=tuple(known[path] for path in paths), folders=folders)


Found = tuple[str, FileChange, int | None]
"""A path, its change, and its size in bytes; None: it does not exist now."""


def _read_touched_files(context: Context, run: Run, deed: FileActivity) -> Iterator[Found]:
    for touch in deed.touched:
        path = os.path.normpath(touch.path)
        if os.path.isabs(path) and "\0" not in path:
            stamps = read_stamps(path) if may_look(context, run, path) else None
            yield path, touch.change, stamps.size if stamps else None


def look_up_names(
    context: Context, run: Run | None, texts: Sequence[str], folders: Sequence[str], since: datetime
) -> Iterator[Found]:
    """Yield the files that command texts name and that were written after `since`."""
    earliest = ledger.to_nanoseconds(since) - ledger.STAMP_SLACK
    for path, stamps in _find_named_files(context, run, texts, folders):
        if earliest <= stamps.written <= stamps.changed:
            yield path, FileChange.CHANGED, stamps.size


def _find_named_files(
    context: Context, run: Run | None, texts: Sequence[str], folders: Sequence[str]
) -> Iterator[tuple[str, FileTimes]]:
    for name in find_names(*map(_spell_home, texts)).here:
        for folder in folders if not os.path.isabs(name) else ("/",):
            path = os.path.normpath(os.path.join(folder, os.path.expanduser(name)))
            stamps = read_stamps(path) if may_look(context, run, path) else None
            if stamps:
                yield path, stamps
