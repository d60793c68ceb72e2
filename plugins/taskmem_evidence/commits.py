"""Verify claims that a commit, branch or tag is in a repository of the task.

Git itself is asked, for what it has of a name; it fetches nothing and runs nothing that a
repository may configure.
"""
# ruff: noqa: PTH110, PTH112, PTH118, PTH120 - paths are text, as the system has them

from __future__ import annotations

import os
import re
import subprocess
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter
from typing import Final, NamedTuple

from taskmem_evidence.findings import ClaimDoubted, ClaimRefuted, ClaimUnchecked, format_name
from taskmem_hookspecs import Claim, Finding, Verdict
from taskmem_hookspecs.paths import is_within_any, resolve_links

_TOTAL_SECONDS: Final = 1.4
"""Time limit for all repositories together. A hook has 2 s. Seconds."""
_MOST_FOLDERS: Final = 500
"""Folders in which nested repositories, such as submodules, are looked for."""
_MOST_REPOSITORIES: Final = 20
_NESTING_LIMIT: Final = 3
"""How far below the task's folder they may lie."""
_NAME: Final = re.compile(r"(?!-)[\w./@{}~^+-]{1,250}")
"""Names of commits, branches and tags; no searches and no paths in a commit."""
_HASH: Final = re.compile(r"[0-9a-fA-F]{7,64}")
_COMMITTER_LINE: Final = re.compile(rb"^committer .*> (\d+) [-+]\d{4}$", re.MULTILINE)
_SLACK: Final = timedelta(seconds=1)
"""Git keeps whole seconds."""
_REMOTE: Final = re.compile(
    r"(?:\w+://)?(?:[^@/]*@)?(?P<host>[^:/]+)(?::\d+(?=/))?[:/](?P<path>.+)"
)
"""A URL of git: `https://host/owner/name.git`, `git@host:owner/name.git`."""
_REMOTE_SECONDS: Final = 0.3
_GIT: Final = ("git", "-c", "core.fsmonitor=false", "-c", "protocol.allow=never")


class Commit(NamedTuple):
    """A commit that a repository has."""

    repository: str
    name: str
    """Its whole hash."""
    at: datetime
    size: int
    """Bytes of its text: the message and what git keeps beside it."""


class Repositories(NamedTuple):
    """The repositories around and below a folder that may be asked."""

    paths: tuple[str, ...] = ()
    """The nearest first."""
    complete: bool = True
    """False if one around it lies outside of what may be looked at, or there may be more below."""


class CommitVerifier:
    """Verifies that a commit is in a repository in, around or below the claim's folder.

    The subject is a hash, also shortened, or another name that git knows, such as a branch. It
    counts as made if it was committed since the work began.
    """

    async def verify(self, claim: Claim) -> Finding:
        """Verify a claim; the finding contains nothing of the commit but its hash and instant.

        Reading blocks; the plug-in's event loop has a thread of its own.
        """
        try:
            return _verify_commit(claim)
        except ClaimDoubted as error:
            return error.finding


def _verify_commit(claim: Claim) -> Finding:
    """Ask the task's repositories for a commit."""
    name, shown = claim.subject.strip(), format_name(claim.subject.strip())
    if not _NAME.fullmatch(name):
        raise ClaimRefuted(f"No commit can be called {shown}.")
    until = perf_counter() + _TOTAL_SECONDS
    places = _list_repositories(claim, until)
    repositories = places.paths
    if not repositories:
        where = format_name(claim.folder) if claim.folder else "the task's folder, which is unknown"
        more = "" if places.complete else ", as far as may be looked at"
        raise ClaimUnchecked(f"No repository of git was found in {where}{more}.")
    unread: list[str] = []
    for repository in repositories:
        answer = _ask_git(repository, until, "cat-file", "--batch", given=f"{name}^{{commit}}\n")
        if answer is None:
            unread.append(repository)
        elif (commit := _parse_commit(repository, answer)) is not None:
            return _judge_commit(claim, shown, commit)
    if unread:
        raise ClaimUnchecked(
            f"Git gave no answer about {format_name(unread[0])}: it is not installed, cannot read "
            "it, or was too slow."
        )
    where = " or ".join(format_name(each) for each in repositories[:3])
    if not places.complete:
        raise ClaimUnchecked(
            f"No {shown} is in {where}; a repository further up, or too far down to be looked "
            "for, may have it."
        )
    if _is_unsure(repositories, name, until):
        raise ClaimUnchecked(
            f"No {shown} is in {where}, as far as is known here: it may be on the remote, or "
            "older than what was cloned."
        )
    raise ClaimRefuted(f"There is no commit {shown} in {where}.")


def _judge_commit(claim: Claim, shown: str, commit: Commit) -> Finding:
    where = f"{shown} is commit {commit.name[:12]} in {format_name(commit.repository)}"
    if claim.checksum is not None:
        raise ClaimUnchecked(f"{where}, and has no SHA-256; claim a file.", size=commit.size)
    if commit.at < claim.since - _SLACK:
        raise ClaimUnchecked(f"{where}, committed before the work began.", size=commit.size)
    detail = f"{where}, committed at {commit.at:%Y-%m-%dT%H:%M:%SZ}."
    return Finding(verdict=Verdict.VERIFIED, detail=detail, size=commit.size)


def _is_unsure(repositories: Sequence[str], name: str, until: float) -> bool:
    """Tell whether repositories may lack what exists: a part of a history, or a remote's names.

    A hash is not looked for on remotes: what a task commits is here first.
    """
    for repository in repositories:
        answer = _ask_git(repository, until, "rev-parse", "--is-shallow-repository")
        if answer != b"false\n" or (not _HASH.fullmatch(name) and read_remotes(repository, until)):
            return True
    return perf_counter() >= until


def _parse_commit(repository: str, answer: bytes) -> Commit | None:
    """Parse what git says of a name; None: it knows no such commit."""
    head, _, text = answer.partition(b"\n")
    words, committed = head.decode(errors="replace").split(), _COMMITTER_LINE.search(text)
    if len(words) != 3 or words[1] != "commit" or committed is None:  # noqa: PLR2004
        return None
    try:
        at = datetime.fromtimestamp(int(committed[1]), UTC)
    except (ValueError, OverflowError, OSError):  # any number can be written there
        at = datetime.fromtimestamp(0, UTC)
    return Commit(repository=repository, name=words[0], at=at, size=int(words[2]))


def is_on_remote(folder: str, host: str, path: str) -> bool:
    """Tell whether a URL's host and path are of a remote of the repository that a folder is in."""
    until = perf_counter() + _REMOTE_SECONDS
    repository = _find_repository_around(folder)
    for url in read_remotes(repository, until) if repository else ():
        parts = _REMOTE.fullmatch(url)
        if parts and parts["host"].casefold() == host.casefold():
            own = parts["path"].strip("/").removesuffix(".git").casefold()
            return bool(own) and f"{path.strip('/').casefold()}/".startswith(f"{own}/")
    return False


def read_remotes(folder: str, until: float) -> list[str]:
    """Return the URLs of the remotes of a folder's repository."""
    rows = _ask_git(folder, until, "config", "--get-regexp", r"^remote\..*\.url$") or b""
    return [row.partition(" ")[2] for row in rows.decode(errors="replace").splitlines()]


def _ask_git(folder: str, until: float, *words: str, given: str = "") -> bytes | None:
    """Return what git prints; None: it failed, or there was no time left."""
    quiet = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}
    # Git climbs no further from a folder that is no whole repository.
    quiet["GIT_CEILING_DIRECTORIES"] = os.path.dirname(folder)
    own = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    seconds = until - perf_counter()
    if seconds <= 0:
        return None
    try:
        answer = subprocess.run(  # noqa: S603 - no shell, and nothing configured
            (*_GIT, *words),
            check=False,
            cwd=folder,
            env={**own, **quiet, "LC_ALL": "C"},
            input=given.encode(),
            capture_output=True,
            timeout=seconds,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return answer.stdout if answer.returncode == 0 else None


# --- repositories -----------------------------------------------------------------


def _list_repositories(claim: Claim, until: float) -> Repositories:
    """List the repositories around and below the claim's folder.

    Raises:
        ClaimUnchecked: The folder may not be looked at.
    """
    if claim.folder is None or not os.path.isdir(claim.folder):
        return Repositories()
    folder = resolve_links(claim.folder)
    if not is_within_any(folder, claim.roots):
        raise ClaimUnchecked(f"{format_name(folder)} lies outside of what may be looked at.")
    nearest = _find_repository_around(folder)
    own = nearest is not None and is_within_any(nearest, claim.roots)
    paths = dict.fromkeys((nearest,) if nearest is not None and own else ())
    complete = nearest is None or own
    for path in _iterate_nested(folder):
        if path is not None:
            paths[path] = None
        if len(paths) >= _MOST_REPOSITORIES or perf_counter() > until:
            complete = False
            break
    return Repositories((*paths,), complete)


def _find_repository_around(folder: str) -> str | None:
    """Return the nearest repository that a folder is or lies in; None: it is in none."""
    around = (str(each) for each in (Path(folder), *Path(folder).parents))
    return next(filter(_is_repository, around), None) if folder else None


def _iterate_nested(folder: str) -> Iterator[str | None]:
    """Yield the repositories below a folder, breadth first; None: another folder was looked at."""
    waiting = deque([(folder, 0)])
    for _ in range(_MOST_FOLDERS):
        if not waiting:
            return
        here, depth = waiting.popleft()
        with suppress(OSError), os.scandir(here) as entries:
            for entry in entries:
                if entry.name == ".git" or not entry.is_dir(follow_symlinks=False):
                    continue
                yield entry.path if _is_repository(entry.path) else None
                if depth < _NESTING_LIMIT and not entry.name.startswith("."):
                    waiting.append((entry.path, depth + 1))


def _is_repository(folder: str) -> bool:
    """Tell whether a folder is a repository: a work tree of one, or a bare one."""
    if os.path.exists(os.path.join(folder, ".git")):
        return True
    parts = ("HEAD", "objects", "refs")
    return all(os.path.exists(os.path.join(folder, part)) for part in parts)
