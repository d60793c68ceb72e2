"""A real daemon whose writes are recorded: `recorded_daemon.py JOURNAL CONTROL`.

Its log goes into the database every hundred pages instead of every thousand, so that many kills
fall into that.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path

import sqlalchemy as sa

from openclaw_taskmem.daemon.startup import main
from tests.power_loss.operations import Control
from tests.power_loss.recorder import Recorder

PAGES = 100


def shorten_log(connection: sqlite3.Connection, _record: object) -> None:
    """Let the log of a new connection be short."""
    connection.execute(f"PRAGMA wal_autocheckpoint = {PAGES}")


if __name__ == "__main__":
    home, (journal, control) = Path(os.environ["TASKMEM_HOME"]), map(Path, sys.argv[1:])
    sa.event.listen(sa.Engine, "connect", shorten_log)
    Recorder(home, journal, Control(control)).install()
    sys.exit(main(os.environ))
