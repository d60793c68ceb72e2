"""Write the daemon's log: escaped lines, limited repeats, and a file of bounded size.

It goes to standard error, which is `daemon.log` if a command or relay started the daemon.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from openclaw_taskmem.daemon.lock import read_file_identity
from openclaw_taskmem.domain.text.redaction import scrub
from openclaw_taskmem.domain.text.texts import escape_controls

LARGEST_BYTES: Final = 5 * 1024 * 1024
"""Size at which the log is rotated; one older log is kept."""
MOST_REPEATS: Final = 10
"""How often the same message is written within `_REPEAT_SECONDS`."""
_REPEAT_SECONDS: Final = 60.0
"""Period in which repeats are counted, from a message's first time."""
_COUNTED_MESSAGES: Final = 200
"""Number of messages whose repeats are counted; the least recent is dropped first."""
_COMPARED_CHARS: Final = 200
"""Characters of a message that must be equal to count as a repeat."""
_STREAMS: Final = (1, 2)


def set_up_logging() -> None:
    """Send this process's log to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogLines("%(asctime)s %(levelname)s %(name)s %(message)s"))
    handler.addFilter(RepeatLimit())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    for library in ("alembic", "httpx", "watchfiles"):
        logging.getLogger(library).setLevel(logging.WARNING)


class LogLines(logging.Formatter):
    """Formats records without credentials and control characters.

    A record is one line; only its traceback follows on indented lines.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record without credentials and control characters."""
        first, *trace = scrub(super().format(record)).split("\n")
        return "\n".join((first, *(f"  {escape_controls(line)}" for line in trace)))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the base's
        """Return the line with its line breaks escaped."""
        return escape_controls(super().formatMessage(record))


class RepeatLimit(logging.Filter):
    """Drops repeated messages, and logs how many were dropped.

    Without it, an error that recurs a thousand times a second would fill the disk.
    """

    def __init__(self) -> None:
        super().__init__()
        self._repeats: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True if the record is written; add the number of dropped repeats when due."""
        key = (record.name, record.getMessage()[:_COMPARED_CHARS])
        since, times = self._repeats.pop(key, (record.created, 0))
        # Also start again if the clock was set back.
        if not 0 <= record.created - since < _REPEAT_SECONDS:
            if (left_out := times - MOST_REPEATS) > 0:
                _append_words(record, f"(and {left_out} times before)")
            since, times = record.created, 0
        if len(self._repeats) >= _COUNTED_MESSAGES:
            del self._repeats[next(iter(self._repeats))]
        self._repeats[key] = since, times + 1
        if times == MOST_REPEATS - 1:
            _append_words(record, "(from now on this is counted only, for up to a minute)")
        return times < MOST_REPEATS


def _append_words(record: logging.LogRecord, words: str) -> None:
    record.msg, record.args = f"{record.getMessage()} {words}", ()


def rotate_log(path: Path, streams: Sequence[int] = _STREAMS) -> None:
    """Rename a large log to `daemon.log.1`, and begin a new one; also one that was removed.

    If standard error is another file that is still there, nothing happens: the log then belongs to
    whoever started the daemon. `streams`: descriptors to point to the new file.
    """
    mine = os.fstat(streams[-1])
    was_removed = stat.S_ISREG(mine.st_mode) and not mine.st_nlink and not path.exists()
    is_own = read_file_identity(path) == (mine.st_dev, mine.st_ino)
    if not was_removed and (mine.st_size < LARGEST_BYTES or not is_own):
        return
    new = path.with_name(f"{path.name}.new")
    with contextlib.suppress(OSError):
        new.unlink(missing_ok=True)
        file = os.open(new, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            if is_own:
                path.replace(path.with_name(f"{path.name}.1"))
            new.replace(path)
            for stream in streams:
                os.dup2(file, stream)
        finally:
            os.close(file)
