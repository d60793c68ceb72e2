from __future__ import annotations

import tempfile
import threading
from pathlib import Path

import pytest

from openclaw_taskmem.daemon.lock import Lock
from openclaw_taskmem.home import find_home
from tests.cli.fake_daemon import PATIENCE, FakeDaemon


@pytest.fixture
def home():
    """A home whose path a socket takes on every system."""
    with tempfile.TemporaryDirectory(prefix="tm") as folder:
        found = find_home({"TASKMEM_HOME": str(Path(folder) / "home")})
        assert found.socket.parent == found.folder
        yield found
        for thread in threading.enumerate():
            # An attempt that a relay gave up still writes to the home.
            if thread.name == "attempt":
                thread.join(PATIENCE)


@pytest.fixture
def daemon(home):
    """Makes daemons of that home: one at a time, as often as a test likes."""
    made = []

    def make(*args, **kwargs):
        made.append(FakeDaemon(home, *args, **kwargs))
        return made[-1]

    yield make
    for one in made:
        one.die()


@pytest.fixture
def lock_file(home):
    """The file of a lock that this process holds."""
    home.prepare()
    lock = Lock(home.lock)
    yield home.lock
    lock.release()
