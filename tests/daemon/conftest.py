"""Homes and daemons for one test each."""

from __future__ import annotations

import pytest

from tests.support.daemons import Daemon, short_home


@pytest.fixture
def home():
    """A home of its own, with a path that a socket takes."""
    with short_home() as found:
        yield found


@pytest.fixture
def start(home):
    """Starts daemons of that home, one after the other; all are ended."""
    started = []

    def go(**settings):
        started.append(Daemon(home, **settings))
        started[-1].wait_until_it_serves()
        return started[-1]

    yield go
    for daemon in started:
        daemon.close()


@pytest.fixture
def daemon(start):
    """A daemon that does nothing by itself."""
    return start()
