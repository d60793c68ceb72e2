"""The daemon's log: lines that forge nothing, repeats that are counted, a bounded file.

It goes to standard error, which is `daemon.log` where a face has started the daemon.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from openclaw_taskmem.daemon.lock import read_file_identity
from openclaw_taskmem.domain.redaction import scrub
from openclaw_taskmem.domain.text_safety import escape_controls

LARGEST_BYTES: Final = 5 * 1024 * 1024
"""What the log may hold before it is put aside; one older log is kept."""
MOST_REPEATS: Final = 10
"""How often the same message is written within `REPEAT_SECONDS`."""
REPEAT_SECONDS: Final = 60.0
"""How long a message is counted from its first time."""
_COUNTED: Final = 200
"""Messages that are counted at once; the one said longest ago is dropped first."""
_COMPARED_CHARS: Final = 200
"""Characters of a message that tell it from others."""
_STREAMS: Final = (1, 2)


def set_up_logging() -> None:
    """Write what this process logs to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogLines("%(asctime)s %(levelname)s %(name)s %(message)s"))
    handler.addFilter(RepeatLimit())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("alembic").setLevel(logging.WARNING)
    logging.getLogger("watchfiles").setLevel(logging.WARNING)


class LogLines(logging.Formatter):
    """Writes records that hold no credential, forge no other and steer no terminal.

    A record is one line; only its traceback follows it, on lines that are indented.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record without credentials and hidden characters."""
        first, *trace = scrub(super().format(record)).split("\n")
        return "\n".join((first, *(f"  {escape_controls(line)}" for line in trace)))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the base's
        """Return the line, with its breaks escaped."""
        return escape_controls(super().formatMessage(record))


class RepeatLimit(logging.Filter):
    """Leaves out what is said over and over, and says how often it was.

    What fails a thousand times a second, such as a connection without a descriptor,
    must not fill the disk.
    """

    def __init__(self) -> None:
        """Begin with nothing said."""
        super().__init__()
        self._said: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is written; the first after a minute tells the number."""
        key = (record.name, record.getMessage()[:_COMPARED_CHARS])
        since, times = self._said.pop(key, (record.created, 0))
        # A clock that was set back begins anew, too.
        if not 0 <= record.created - since < REPEAT_SECONDS:
            if (left_out := times - MOST_REPEATS) > 0:
                _append_words(record, f"(and {left_out} times before)")
            since, times = record.created, 0
        if len(self._said) >= _COUNTED:
            del self._said[next(iter(self._said))]
        self._said[key] = since, times + 1
        if times == MOST_REPEATS - 1:
            _append_words(record, "(from now on this is counted only, for up to a minute)")
        return times < MOST_REPEATS


def _append_words(record: logging.LogRecord, words: str) -> None:
    record.msg, record.args = f"{record.getMessage()} {words}", ()


def rotate_log(path: Path, streams: Sequence[int] = _STREAMS) -> None:
    """Put a log that has grown large aside as `daemon.log.1`, and begin a new one.

    Args:
        path: The log of the home. Where standard error is not that file, nothing is
            done: whoever started the daemon takes care of it.
        streams: The descriptors that are pointed to the new file.
    """
    mine = os.fstat(streams[-1])
    if mine.st_size < LARGEST_BYTES or read_file_identity(path) != (mine.st_dev, mine.st_ino):
        return
    new = path.with_name(f"{path.name}.new")
    with contextlib.suppress(OSError):
        new.unlink(missing_ok=True)
        file = os.open(new, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            path.replace(path.with_name(f"{path.name}.1"))
            new.replace(path)
            for stream in streams:
                os.dup2(file, stream)
        finally:
            os.close(file)
