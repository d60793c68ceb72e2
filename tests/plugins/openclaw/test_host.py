"""What our plug-in in the gateway is asked for besides wakes."""

import asyncio

import pytest

from taskmem_hookspecs import WakeUndelivered
from taskmem_openclaw.host import OpenClawHost
from tests.support.gateways import MAIN


@pytest.mark.parametrize("stopped", [None, True])
def test_the_plugin_is_told_how_many_milliseconds_ago_a_stop_was_wanted(
    gateway, stopped
):
    gateway.stopped = stopped
    host = OpenClawHost(gateway.open().environ)
    asyncio.run(host.stop(MAIN, 1.5))
    assert gateway.asked == [{"ask": "stop", "session_key": MAIN, "age": 1500.0}]


def test_a_turn_that_goes_on_all_the_same_is_to_be_stopped_again(gateway):
    gateway.stopped = False
    host = OpenClawHost(gateway.open().environ)
    with pytest.raises(WakeUndelivered, match="could not be stopped"):
        asyncio.run(host.stop(MAIN, 0))
