"""Record which files and folders tool calls used and changed.

A folder is listed with git where it is a repository.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from tempfile import gettempdir
from time import perf_counter
from typing import Final, NamedTuple

from openclaw_taskmem.domain.effects.side_effects import split_script
from openclaw_taskmem.domain.tasks import ledger
from openclaw_taskmem.domain.tasks.ledger import FileTimes, FileTouch, FolderListing
from openclaw_taskmem.domain.tasks.path_mentions import find_names, split_words
from openclaw_taskmem.domain.text.redaction import scrub
from openclaw_taskmem.engine.context import Context, Decision
from taskmem_hookspecs import Change, FileChange, LedgerEntry, Run, TaskFacts, Value, WorkFolder

# ruff: noqa: PTH110, PTH112, PTH118, PTH119 - paths are text, as the system has them


MOST_FILES: Final = 20_000
"""Files listed per folder, at most."""
LIST_SECONDS: Final = 5.0
"""How long one folder is listed, in seconds."""
_NOT_THE_AGENTS: Final = "/memory/.dreams/"
"""Where OpenClaw keeps its memory of sessions in an agent's workspace."""
_GIT: Final = (
    "git",
    "--no-optional-locks",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.untrackedCache=false",
    "ls-files",
    "-z",
    "--cached",
    "--others",
    "--exclude-standard",
)
"""Reads the index and file names; runs nothing that a repository may configure."""


def list_files(folder: str, *, ignored: bool = False) -> FolderListing | None:
    """Return the files of a folder with times and sizes; None: it is no folder.

    The listing is incomplete after `MOST_FILES` files or `LIST_SECONDS`, or if a name is no text.
    Files that git ignores are left out unless `ignored`; so are dot folders outside git, and
    OpenClaw's own files. Links are not followed.
    """
    if not os.path.isdir(folder):
        return None
    until = perf_counter() + LIST_SECONDS
    top = folder.rstrip("/") + "/"
    files: dict[str, FileTimes] = {}
    complete = True
    for path, info in _walk_files(folder, git=not ignored):
        if len(files) >= MOST_FILES or perf_counter() > until:
            return FolderListing(files=files, complete=False)
        if _NOT_THE_AGENTS in path:
            continue
        if any("\udc80" <= each <= "\udcff" for each in path):
            complete = False
        elif stat.S_ISREG(info.st_mode):
            files[path.removeprefix(top)] = _to_stamps(info)
    return FolderListing(files=files, complete=complete)


def has_file(folder: str, ends: tuple[str, ...]) -> bool | None:
    """Tell whether a path in a folder has one of the `ends`, ignored by git or not.

    None: there was not enough time to search all of it.
    """
    until = perf_counter() + LIST_SECONDS
    for here, folders, files in os.walk(folder):
        if any(os.path.join(here, name).endswith(ends) for name in (*folders, *files)):
            return True
        if perf_counter() > until:
            return None
    return False


def read_stamps(path: str) -> FileTimes | None:
    """Return a file's times and size; None: it does not exist or is no regular file."""
    with suppress(OSError, ValueError):
        info = os.lstat(path)
        return _to_stamps(info) if stat.S_ISREG(info.st_mode) else None
    return None


def _to_stamps(info: os.stat_result) -> FileTimes:
    written, changed = max(info.st_mtime_ns, 0), max(info.st_ctime_ns, 0)
    return FileTimes(written=written, changed=changed, size=info.st_size)


def _walk_files(folder: str, *, git: bool) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files below a folder, breadth first."""
    folders = deque([folder])
    while folders:
        here = folders.popleft()
        asks = git and (here == folder or _is_repository(here))
        names = _list_git_paths(here) if asks else None
        for path in _list_disk_paths(here) if names is None else names:
            with suppress(OSError, ValueError):
                info = os.lstat(path)
                if not stat.S_ISDIR(info.st_mode):
                    yield path, info
                elif names is not None or not os.path.basename(path).startswith("."):
                    folders.append(path)


def _list_disk_paths(folder: str) -> list[str]:
    with suppress(OSError), os.scandir(folder) as entries:
        return sorted(entry.path for entry in entries)
    return []


def _is_repository(folder: str) -> bool:
    return os.path.exists(os.path.join(folder, ".git"))


def _list_git_paths(folder: str) -> list[str] | None:
    """Return the paths in a folder that git does not ignore; None: git cannot tell."""
    quiet = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}
    own = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    try:
        answer = subprocess.run(  # noqa: S603 - no shell, and nothing configured
            _GIT,
            check=False,
            cwd=folder,
            env={**own, **quiet},
            capture_output=True,
            timeout=LIST_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    if answer.returncode != 0:
        return None
    names = os.fsdecode(answer.stdout).split("\0")
    paths = [os.path.join(folder, name.rstrip("/")) for name in names if name]
    # A repository further up may ignore the whole folder.
    return paths if paths or _is_repository(folder) else None


# --- the ledger ----------------------------------------------------------------------------


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


class UsedFolders(NamedTuple):
    """The folders that a call uses or that its command names."""

    listed: tuple[str, ...]
    """All files of these are listed."""
    passed: tuple[str, ...]
    """In these, only files that a command names are looked up."""


def build_folder_rows(
    context: Context, task_id: str, paths: Iterable[str], *, command: bool
) -> tuple[WorkFolder, ...]:
    """Return the rows of folders that a task begins to use, or in which a command first runs.

    Rows that would not change, and folders beyond `_MOST_FOLDERS`, are left out.
    Pass them to `schedule_listing` once they are committed.
    """
    keys = [
        (task_id, path, command)
        for path in dict.fromkeys(os.path.normpath(each) for each in paths)
        if os.path.isabs(path) and path.isprintable()
    ]
    if all(key in context.live.used_folders for key in keys):
        return ()
    since = context.clock.now() - SLACK if command else None
    rows_by_path = {each.path: each for each in context.store.read_records(WorkFolder, task_id)}
    rows: list[WorkFolder] = []
    for key in keys:
        row = rows_by_path.get(key[1])
        if row is None and len(rows_by_path) + len(rows) < _MOST_FOLDERS:
            rows.append(WorkFolder(task_id=task_id, path=key[1], since=since))
        elif row is not None and row.since is None and command:
            rows.append(row.model_copy(update={"since": since}))
        else:
            context.live.used_folders.add(key)
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


def schedule_listing(
    context: Context, rows: Iterable[WorkFolder], *, early: bool = False, own: str | None = None
) -> None:
    """List the files of new folders in the background, if commands run in them.

    `early`: also if none has run yet. `own`: the caller's working directory.
    """
    if len(context.live.used_folders) > _MOST_USED:
        context.live.used_folders.clear()
    for row in rows:
        context.live.used_folders.add((row.task_id, row.path, row.since is not None))
        if row.files is None and (early or row.since):
            context.run_later(0.0, partial(_list_initial_files, context, row, own))


def _list_initial_files(context: Context, new: WorkFolder, own: str | None) -> None:
    """Store which files a folder has before the work, if it may be looked at.

    The work may have begun: files changed since the task was registered are left out, and so count
    as new later. Nothing is stored of a folder that cannot be listed completely.
    """
    task_id, path = new.task_id, new.path
    facts = context.store.read_task(task_id)
    listing = list_files(path) if may_look(context, facts.run, path, own) else None
    if listing is None or not listing.complete:
        return
    safe = _drop_secret_names(listing)
    begun = ledger.to_nanoseconds(facts.task.created_at)
    older = {path: each for path, each in safe.files.items() if each.changed < begun}
    files = ledger.pack_files(safe._replace(files=older))

    def store_files(rows: Sequence[WorkFolder], _: datetime) -> Decision[None]:
        new = (row for row in rows if row.path == path and row.files is None)
        return Change(folders=tuple(row.model_copy(update={"files": files}) for row in new)), None

    context.update(task_id, partial(context.store.read_records, WorkFolder, task_id), store_files)


def _drop_secret_names(listing: FolderListing) -> FolderListing:
    """Drop files whose names look like credentials."""
    names = "\n".join(listing.files)
    if scrub(names) == names:
        return listing
    files = {name: each for name, each in listing.files.items() if scrub(name) == name}
    return listing._replace(files=files)


def may_look(context: Context, run: Run | None, path: str, folder: str | None = None) -> bool:
    """Tell whether a path, with links resolved, lies in a folder that may be looked at.

    `folder`: the agent's working directory, as its call says.
    """
    real = os.path.realpath(path)
    own = (run.agent.folder if run else None, folder if folder != "/" else None)
    roots = (*context.policies.artifact_roots, *filter(None, own))
    return any(_is_inside(real, os.path.realpath(root)) for root in roots)


def _is_inside(path: str, folder: str) -> bool:
    """Tell whether a path is a folder or lies in it, by its text alone."""
    return f"{path}/".startswith(f"{folder.rstrip('/')}/")


def note_named_files(context: Context, run: Run, deed: FileActivity, used: UsedFolders) -> None:
    """Note which files named by a command exist as it begins."""
    if deed.call_id and deed.command:
        if len(context.live.named_files) >= MOST_CALLS:
            context.live.named_files.clear()
        found = _find_named_files(context, run, [deed.text], (*used.listed, *used.passed))
        context.live.named_files[deed.call_id] = tuple(path for path, _ in found)


def build_call_change(
    context: Context, facts: TaskFacts, run: Run, deed: FileActivity, now: datetime
) -> Change:
    """Return the ledger entries and folders that a call adds to a task."""
    used = find_used_folders(context, run, deed)
    folders = build_folder_rows(context, facts.task.task_id, used.listed, command=deed.command)
    began = now - timedelta(seconds=deed.seconds) - SLACK
    began = max(began, facts.task.created_at)
    found = [*_read_touched_files(context, run, deed)]
    before = context.live.named_files.pop(deed.call_id or "", None)
    if deed.command:
        places = (*used.listed, *used.passed)
        for path, change, size in look_up_names(context, run, [deed.text], places, began):
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
        if os.path.isabs(path):
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
