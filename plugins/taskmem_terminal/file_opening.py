"""Open files to show them, only if they are allowed, even if a path changes meanwhile.

The path is checked before opening; then the open file's own path is checked, which no link can
change.
"""
# ruff: noqa: PTH115, PTH116, PTH120

from __future__ import annotations

import contextlib
import os
import stat
import sys
from typing import Final

from taskmem_hookspecs.errors import NotAllowed
from taskmem_hookspecs.paths import is_anothers, is_hidden, is_within_any, resolve_links

_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_MOST_FOLDERS: Final = 8
"""How many folders a refusal names."""
_SANDBOX: Final = "ask the user to set TASKMEM_SANDBOX_LOOKS=all"
"""Advice for an agent in a sandbox, as `domain/conditions/look_policy.py` gives it."""


def require_viewable(path: str, within: tuple[str, ...] | None) -> str:
    """Resolve the links of a path, which need not exist, and check that it may be shown.

    Raises:
        NotAllowed: The file is never shown, or is outside of `within`; None: any folder is
            allowed.
    """
    try:
        end = resolve_links(path)
    except RecursionError:
        raise NotAllowed(
            f"{escape_name(path)} leads through too many links; name the file itself."
        ) from None
    leads = "" if end == os.path.normpath(path) else f" leads to {escape_name(end)}, which"
    if within is not None and not is_within_any(end, within):
        # Do not reveal the target of a link in a folder that the agent may not see.
        folder = resolve_links(os.path.dirname(path))
        leads = leads if is_within_any(folder, within) else ""
        raise NotAllowed(
            f"{escape_name(path)}{leads} lies outside of where you may look "
            f"{_describe_allowed_folders(within)}."
        )
    if is_hidden(end, os.environ.get("TASKMEM_HOME")):
        raise NotAllowed(
            f"{escape_name(path)}{leads} is of a kind that is never shown (keys, passwords, "
            "what was typed, data of the system or of taskmem); wait on the log or "
            "terminal of what uses it."
        )
    return end


def _describe_allowed_folders(within: tuple[str, ...]) -> str:
    """Return where an agent may look, and which setting allows more.

    The state folder is omitted, because agents must not put files there. `within` includes it
    unless the agent is in a sandbox, which decides which setting is named.
    """
    home = os.environ.get("TASKMEM_HOME", "")
    named = [escape_name(root) for root in within if root != home]
    more = f" and {len(named) - _MOST_FOLDERS} more" if len(named) > _MOST_FOLDERS else ""
    folders = f"({', '.join(named[:_MOST_FOLDERS]) or 'no folder'}{more})"
    if home and home not in within:
        return f"{folders}; have it written there, or {_SANDBOX}"
    config = escape_name(f"{home or '~/.openclaw/taskmem'}/config.toml")
    return (
        f"{folders}; have it written there, or let the user set artifact_roots in "
        f"{config} (TASKMEM_ARTIFACT_ROOTS where that is set, for it goes first) to "
        "these and its folder, then run: taskmem daemon restart"
    )


def open_viewable(path: str, within: tuple[str, ...] | None) -> int:
    """Open a regular file for reading, if it may be shown.

    Raises:
        NotAllowed: As in `require_viewable`. Also, if the daemon runs as root and `within` is set:
            the file is private to another user, in a folder that is not root's or that everyone
            can write to.
        OSError: It cannot be opened.
    """
    handle = os.open(require_viewable(path, within), _FLAGS | os.O_NOFOLLOW)
    try:
        _require_viewable_handle(handle, path, within)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _require_viewable_handle(handle: int, path: str, within: tuple[str, ...] | None) -> None:
    """Check the opened file: a folder of its path may have become a link since.

    Raises:
        NotAllowed: As in `open_viewable`.
        FileNotFoundError: It is no longer a regular file.
    """
    name = _read_handle_path(handle)
    if name is not None:
        require_viewable(name, within)
    info = os.fstat(handle)
    if not stat.S_ISREG(info.st_mode):
        raise FileNotFoundError
    private = is_anothers(info.st_uid, info.st_mode, os.geteuid())
    if within is not None and private and not _is_ours(os.path.dirname(name or path)):
        raise NotAllowed(
            f"{escape_name(path)} is another user's, who lets not everyone read it; ask "
            "the user to make it readable."
        )


def _is_ours(folder: str) -> bool:
    """Return whether a folder is this user's and not writable by everyone."""
    with contextlib.suppress(OSError):
        info = os.stat(folder)
        return info.st_uid == os.geteuid() and not info.st_mode & stat.S_IWOTH
    return False


def _read_handle_path(handle: int) -> str | None:
    """Return the kernel's path of an open file; None: unknown."""
    with contextlib.suppress(OSError):
        if sys.platform == "darwin":
            import fcntl

            found = fcntl.fcntl(handle, fcntl.F_GETPATH, bytes(1024))
            return os.fsdecode(found.rstrip(b"\0"))
        name = os.readlink(f"/proc/self/fd/{handle}")
        removed = os.fstat(handle).st_nlink == 0
        return name.removesuffix(" (deleted)") if removed else name
    return None


def escape_name(name: object) -> str:
    """Return a name for a sentence, with control characters escaped."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in str(name)
    )
