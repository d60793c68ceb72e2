"""What our plug-in in the gateway is asked for besides wakes."""

import asyncio
import socket

import pytest

from taskmem_hookspecs import SessionView, WakeUndelivered
from taskmem_hookspecs.testing import HostSuite
from taskmem_openclaw.host import OpenClawHost
from tests.support.gateways import MAIN


class TestOpenClawHost(HostSuite):
    session_key = MAIN

    @pytest.fixture(autouse=True)
    def _gateway(self, gateway):
        self.gateway = gateway

    def make_host(self, tmp_path):
        return OpenClawHost(self.gateway.open().environ)

    def make_failing(self, tmp_path):
        self.gateway.rude = lambda visit: visit.request.shutdown(socket.SHUT_RDWR)
        return self.make_host(tmp_path)

    def make_refusing(self, tmp_path):
        return OpenClawHost(self.gateway.environ)

    def said(self, tmp_path):
        return [line for _, line in self.gateway.said]

    def seen(self, tmp_path):
        return SessionView.model_validate(self.gateway.views[MAIN])


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
