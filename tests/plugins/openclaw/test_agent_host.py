"""What our plug-in in the gateway is asked for besides wakes."""

import asyncio
import socket

import pytest

from openclaw_taskmem.domain.callers import SessionKeys
from taskmem_hookspecs import Notice, SessionView, WakeRefused, WakeUndelivered
from taskmem_hookspecs.testing import HostSuite
from taskmem_openclaw.agent_host import OpenClawHost
from tests.support.gateways import MAIN, OTHER


def a_notice(session, text="It is done."):
    return Notice(session_key=session, text=text, key=text)


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

    def list_said(self, tmp_path):
        return [line for _, line in self.gateway.said]

    def read_view(self, tmp_path):
        return SessionView.model_validate(self.gateway.views[MAIN])


def test_openclaws_sessions_are_those_of_its_agents():
    names = SessionKeys(hosts=(OpenClawHost().describe_sessions(),))
    assert names.is_own("agent:main:main")
    assert names.find_agent("agent:dev:telegram:direct:42") == "agent:dev"
    assert names.name_background("agent:dev:main", "run_1") == "agent:dev:taskmem:run_1"
    assert names.to_canonical("agent:Dev:Main") == "agent:dev:main"
    assert not any(map(names.is_own, ("thread-1", "agent", "AGENT:main:main", "", None)))


def test_what_one_gateway_has_no_session_for_is_told_by_the_next(gateway, another):
    gateway.open().sessions = {OTHER}
    host = OpenClawHost(gateway.environ)
    asyncio.run(host.say(a_notice(MAIN)))
    asyncio.run(host.show(SessionView(session_key=MAIN)))
    asyncio.run(host.say(a_notice(OTHER, "It went well.")))
    assert another.said == [(MAIN, "It is done.")]
    assert list(another.views) == [MAIN]
    assert gateway.said == [(OTHER, "It went well.")]


def test_what_no_gateway_has_a_session_for_is_refused(gateway, another):
    for each in (gateway.open(), another):
        each.sessions = {OTHER}
    with pytest.raises(WakeRefused, match=f"no session {MAIN}"):
        asyncio.run(OpenClawHost(gateway.environ).say(a_notice(MAIN)))


def test_a_line_waits_for_a_second_gateway_that_gives_no_answer(gateway, another):
    gateway.open().sessions = {OTHER}
    another.rude = lambda visit: visit.request.shutdown(socket.SHUT_RDWR)
    with pytest.raises(WakeUndelivered, match="hung up"):
        asyncio.run(OpenClawHost(gateway.environ).say(a_notice(MAIN)))


@pytest.mark.parametrize("stopped", [None, True])
def test_plugin_is_told_the_age_of_a_stop_in_milliseconds(gateway, stopped):
    gateway.stopped = stopped
    host = OpenClawHost(gateway.open().environ)
    asyncio.run(host.stop(MAIN, 1.5))
    assert gateway.asked == [{"ask": "stop", "session_key": MAIN, "age": 1500.0}]


def test_a_turn_that_goes_on_all_the_same_is_to_be_stopped_again(gateway):
    gateway.stopped = False
    host = OpenClawHost(gateway.open().environ)
    with pytest.raises(WakeUndelivered, match="could not be stopped"):
        asyncio.run(host.stop(MAIN, 0))
