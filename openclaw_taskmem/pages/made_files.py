"""Read a file that a task made, for a person who reviews it.

Paths come from agents. Only a file that was checked is read, without following any link, and only
if it still has the content that was checked. Credentials are removed from what is shown.
"""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import ExitStack, suppress
from typing import Final, NamedTuple

from openclaw_taskmem.domain.tasks.proofs import Proof, ProofStanding
from openclaw_taskmem.domain.text.redaction import scrub
from openclaw_taskmem.domain.text.texts import format_size
from taskmem_hookspecs import InvalidArguments
from taskmem_hookspecs.paths import is_hidden, resolve_links

LARGEST_FILE_BYTES: Final = 4_000_000
"""Bytes of the largest file that is shown."""
SHOWN_CHARS: Final = 200_000
"""Characters of a text that are shown."""
_IMAGES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
"""How the files of images begin that hold no script."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class _MadeFile(NamedTuple):
    """The content of a file that a task made."""

    text: str | None
    """Its text without credentials; None: it is an image."""
    rest: int
    """Number of characters that are not shown."""
    image: bytes
    content_type: str


def is_openable(proof: Proof, home: str) -> bool:
    """Return True if a page may show a file; `home` is the folder of Task memory's own files."""
    checked = proof.standing is ProofStanding.CHECKED and proof.sha256 is not None
    small = proof.size is not None and proof.size <= LARGEST_FILE_BYTES
    return checked and small and proof.is_file and not is_hidden(_normalize(proof.what), home)


def is_offered(proof: Proof, home: str) -> bool:
    """Return True if a page links to a file: it may be shown, and lies behind no link."""
    if not is_openable(proof, home):
        return False
    with suppress(ValueError, RecursionError):  # no file can have such a name
        return resolve_links(proof.what) == _normalize(proof.what)
    return False


def _normalize(path: str) -> str:
    """Return the plain spelling of a path that is opened without following a link."""
    return os.path.normpath(path).replace("//", "/")  # normpath keeps two slashes at the start


def read_made_file(proof: Proof, home: str) -> _MadeFile:
    """Return the content of a file as it was checked.

    Raises:
        InvalidArguments: It may not be shown, has changed since, or is neither text nor image.
    """
    if not is_openable(proof, home):
        raise InvalidArguments(
            "This file is not shown: only files that were checked, of "
            f"{format_size(LARGEST_FILE_BYTES)} at most and without keys or passwords, are."
        )
    try:
        content = _read_regular_file(proof.what)
    except OSError as error:
        raise InvalidArguments(f"The file cannot be read now: {error.strerror}.") from None
    if hashlib.sha256(content).hexdigest() != proof.sha256:
        raise InvalidArguments(
            "The file is not shown: it was changed after it was checked. Open it on this machine."
        )
    for begin, kind in _IMAGES:
        if content.startswith(begin):
            return _MadeFile(None, 0, content, kind)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise InvalidArguments("The file is neither a text nor an image; open it on this machine.")
    clean = scrub(text)
    return _MadeFile(clean[:SHOWN_CHARS], max(0, len(clean) - SHOWN_CHARS), b"", "")


def _read_regular_file(path: str) -> bytes:
    """Read a file, opening each folder on its way without following a link.

    Raises:
        OSError: It cannot be opened, is a link or lies behind one, or is no regular file.
    """
    *folders, name = [part for part in path.split("/") if part] or [""]
    with ExitStack() as opened:
        place = os.open("/", _FOLDER)
        opened.callback(os.close, place)
        for folder in folders:
            place = os.open(folder, _FOLDER, dir_fd=place)
            opened.callback(os.close, place)
        handle = os.open(name, _FILE, dir_fd=place)
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise OSError(0, "it is no regular file")
            return file.read(LARGEST_FILE_BYTES + 1)
