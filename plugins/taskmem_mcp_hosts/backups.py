"""Back up a host's file before set-up changes it, for `--undo`."""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from taskmem_hookspecs.installing import find_home, make_setup_folder, write_file


class Backup(NamedTuple):
    """The place of one file's back-up, which need not exist."""

    copy: Path
    """A byte-for-byte copy of the file; it may contain secrets."""

    @property
    def checksum_file(self) -> Path:
        """The file with the checksum after set-up; missing if set-up did not finish."""
        return self.copy.with_suffix(".sum")

    def keep(self, before: str) -> None:
        """Save the file's text before it is changed.

        Raises:
            OSError: It cannot be written.
        """
        make_setup_folder(find_home())
        self.checksum_file.unlink(missing_ok=True)
        write_file(self.copy, before.encode())

    def finish(self, after: str) -> None:
        """Save the checksum of the new text, which shows later whether others changed it."""
        if self.copy.exists():
            write_file(self.checksum_file, _hash_text(after))

    def load(self, now: str) -> str | None:
        """Return the saved text; None: nothing is saved, or the file was changed since."""
        with suppress(FileNotFoundError):
            if self.checksum_file.read_bytes() == _hash_text(now):
                return self.copy.read_bytes().decode()
        return None

    def forget(self) -> None:
        """Delete the back-up, and its folders if they are empty."""
        if not self.copy.exists():
            return
        self.copy.unlink(missing_ok=True)
        self.checksum_file.unlink(missing_ok=True)
        for folder in (self.copy.parent, self.copy.parent.parent):
            with suppress(OSError):
                folder.rmdir()


def find_backup(command: str, file: Path) -> Backup:
    """Return the place of a host file's back-up."""
    name = f"{command}-{sha256(os.fsencode(file)).hexdigest()[:12]}.before"
    return Backup(find_home() / "setup" / name)


def _hash_text(text: str) -> bytes:
    return sha256(text.encode(errors="surrogateescape")).hexdigest().encode()
