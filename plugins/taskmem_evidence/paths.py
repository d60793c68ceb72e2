"""Resolve the path of a claim, and decide whether it may be read.

Paths are strings here, not `Path`, which would normalise them: only the kernel may resolve a path.
"""
# ruff: noqa: PTH114, PTH117, PTH118

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Generator, Sequence
from typing import Final

from taskmem_evidence.findings import ClaimRefuted, ClaimUnchecked, format_name
from taskmem_hookspecs import Claim
from taskmem_hookspecs import paths as hookspecs

_LONGEST_PATH: Final = 4095
"""Maximum length of a path in any kernel. Bytes."""
_NO_SUCH: Final = (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ)
_ACCESS_ERRORS: Final = (errno.EACCES, errno.EPERM)


def to_absolute_path(claim: Claim) -> str:
    """Return the claimed path as an absolute one, with its links and dots unresolved.

    Raises:
        ClaimUnchecked: The claim does not say which file it means.
        ClaimRefuted: No file can have such a path.
    """
    subject, folder = claim.subject, claim.folder
    if not subject.strip():
        raise ClaimUnchecked("The claim names no file; give its path.")
    if subject.startswith("~"):
        raise ClaimUnchecked(
            f"{format_name(subject)} begins with ~, and nobody here knows whose home; "
            "give the whole path."
        )
    if not os.path.isabs(subject) and not (folder and os.path.isabs(folder)):
        raise ClaimUnchecked(
            f"Nobody knows in which folder {format_name(subject)} lies; give the whole path, "
            "from / on."
        )
    path = os.path.join(folder or "/", subject)
    try:
        possible = "\0" not in path and len(os.fsencode(path)) <= _LONGEST_PATH
    except UnicodeEncodeError:
        possible = False
    if not possible:
        raise ClaimRefuted(f"No file can have the path {format_name(path)}.")
    return path


def resolve_allowed_path(path: str, roots: Sequence[str]) -> str:
    """Resolve the links of a path, which need not exist, and check that it is allowed.

    This comes first, so that nothing outside the allowed folders is looked at.

    Raises:
        ClaimUnchecked: The path leads outside the allowed folders.
        ClaimRefuted: There are too many links.
    """
    end = resolve_links(path)
    if hookspecs.is_within_any(end, roots):
        return end
    where = f"{format_name(path)} leads to {format_name(end)}" if end != path else format_name(path)
    lies = ", which lies" if end != path else " lies"
    folders = " or ".join(format_name(root) for root in roots[:3]) or "any (none is named)"
    raise ClaimUnchecked(f"{where}{lies} outside of {folders}, where it may be looked at.")


def resolve_links(path: str) -> str:
    """Resolve the links of a path, which need not exist.

    Raises:
        ClaimRefuted: There are too many links.
    """
    try:
        return hookspecs.resolve_links(path)
    except RecursionError:
        raise ClaimRefuted(f"{format_name(path)} leads through too many links.") from None


@contextlib.contextmanager
def explain_os_errors(path: str) -> Generator[None]:
    """Turn OS errors about a path into findings in words."""
    name = format_name(path)
    try:
        yield
    except OSError as error:
        code = error.errno
        if code == errno.ENOENT:
            raise ClaimRefuted(_describe_missing(path)) from None
        if code == errno.ENOTDIR:
            raise ClaimRefuted(f"There is no {name}: what it names as a folder is none.") from None
        if code == errno.ELOOP:
            raise ClaimRefuted(f"{name} is a link that leads back to itself.") from None
        if code in _NO_SUCH:
            raise ClaimRefuted(f"No file can have the path {name}.") from None
        if code in _ACCESS_ERRORS:
            raise ClaimUnchecked(
                f"{name} may not be read here; make it readable for the user that the "
                "daemon runs as."
            ) from None
        reason = error.strerror or type(error).__name__
        raise ClaimUnchecked(f"{name} could not be read ({reason}).") from None


def _describe_missing(path: str) -> str:
    name = format_name(path)
    if os.path.islink(path):
        target = format_name(resolve_links(path))
        return f"{name} is a link to {target}, where nothing is; write that file."
    return f"There is no file {name}; write it, if it is yet to be made."
