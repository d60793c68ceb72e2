"""What a host's file said before set-up changed it, kept for `--undo`."""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from taskmem_hookspecs.installing import find_home, make_setup_folder, write_file


class Backup(NamedTuple):
    """Where one file's back-up is, whether there is one or not."""

    copy: Path
    """What the file said, byte by byte; it may hold secrets."""

    @property
    def checksum_file(self) -> Path:
        """The sum of what set-up made of it; not there: it did not end."""
        return self.copy.with_suffix(".sum")

    def keep(self, before: str) -> None:
        """Keep what the file says, before it is changed.

        Raises:
            OSError: It cannot be written.
        """
        make_setup_folder(find_home())
        self.checksum_file.unlink(missing_ok=True)
        write_file(self.copy, before.encode())

    def finish(self, after: str) -> None:
        """Note what the file says now, which tells later whether others changed it."""
        if self.copy.exists():
            write_file(self.checksum_file, _hash_text(after))

    def load(self, now: str) -> str | None:
        """Return what the file said; None: nothing is kept, or it was changed since."""
        with suppress(FileNotFoundError):
            if self.checksum_file.read_bytes() == _hash_text(now):
                return self.copy.read_bytes().decode()
        return None

    def forget(self) -> None:
        """Remove it, and the folders that hold nothing any more."""
        if not self.copy.exists():
            return
        self.copy.unlink(missing_ok=True)
        self.checksum_file.unlink(missing_ok=True)
        for folder in (self.copy.parent, self.copy.parent.parent):
            with suppress(OSError):
                folder.rmdir()


def find_backup(command: str, file: Path) -> Backup:
    """Return where the back-up of a host's file is."""
    name = f"{command}-{sha256(os.fsencode(file)).hexdigest()[:12]}.before"
    return Backup(find_home() / "setup" / name)


def _hash_text(text: str) -> bytes:
    return sha256(text.encode(errors="surrogateescape")).hexdigest().encode()
