"""What the tests of the ways into OpenClaw share."""

from __future__ import annotations

import pytest

from tests.support.gateways import FakeGateway


@pytest.fixture
def gateway():
    """A gateway with the plug-in; its door is not open yet."""
    with FakeGateway() as made:
        yield made
