"""What the tests of the ways into OpenClaw share."""

from __future__ import annotations

import socket

import pytest

from tests.support.gateways import FakeGateway


@pytest.fixture
def gateway():
    """A gateway with the plug-in; its door is not open yet."""
    with FakeGateway() as made:
        yield made


@pytest.fixture
def another(gateway):
    """The second gateway of the same home, whose door is open."""
    with FakeGateway() as made:
        made.path = gateway.path.with_name("openclaw-2.sock")
        yield made.open()


@pytest.fixture
def closed_port():
    """A port of loopback where nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]
