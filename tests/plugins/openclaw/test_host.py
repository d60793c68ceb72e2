"""What our plug-in in the gateway is asked for besides wakes."""

import asyncio

import pytest

from taskmem_hookspecs import WakeUndelivered
from taskmem_openclaw.host import OpenClawHost
from tests.support.gateways import MAIN


def test_the_plugin_is_told_how_many_milliseconds_ago_a_stop_was_wanted(gateway):
    host = OpenClawHost(gateway.open().environ)
    with pytest.raises(WakeUndelivered):  # as this one stops nothing
        asyncio.run(host.stop(MAIN, 1.5))
    assert gateway.asked == [{"ask": "stop", "session_key": MAIN, "age": 1500.0}]
