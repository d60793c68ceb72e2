"""Wakes by the plug-in in the gateway, however the gateway fares."""

import asyncio
import json
import socket
import ssl
from contextlib import asynccontextmanager

import pytest

from openclaw_taskmem.domain.policies import OutboxPolicy
from openclaw_taskmem.home import find_home
from taskmem_hookspecs import WakeRefused, WakeUndelivered
from taskmem_hookspecs.testing import TransportSuite, a_wake
from taskmem_openclaw import plugin_socket
from taskmem_openclaw.transports import auto
from taskmem_openclaw.transports.auto import TransportUnavailable
from taskmem_openclaw.transports.plugin import _NEWS, PluginTransport
from tests.support.gateways import MAIN
from tests.support.waiting import PATIENCE

SOON = 0.3
"""Seconds after which a test gives a gateway up that will never answer."""


def transport_to(gateway, seconds=PATIENCE):
    return PluginTransport(gateway.environ, seconds)


def deliver(gateway, seconds=PATIENCE, **fields):
    fields = {"session_key": MAIN, "delivery_id": "delivery_1", **fields}

    async def deliver_in_time():
        async with asyncio.timeout(PATIENCE):
            return await transport_to(gateway, seconds).deliver(a_wake(**fields))

    return asyncio.run(deliver_in_time())


class TestPluginTransport(TransportSuite):
    @pytest.fixture(autouse=True)
    def _gateway(self, gateway):
        self.gateway = gateway.open()

    def make_transport(self, tmp_path):
        return transport_to(self.gateway)

    def make_failing(self, tmp_path):
        self.gateway.idle = True
        return transport_to(self.gateway)

    def make_refusing(self, tmp_path):
        self.gateway.sessions.clear()
        return transport_to(self.gateway)

    def list_received(self, tmp_path):
        return self.gateway.seen


# --- what the plug-in is asked ------------------------------------------------


def test_the_plugin_is_told_all_it_needs_of_a_wake(gateway):
    deliver(gateway.open(), text="the packet", line="Count: on to step 2 of 3.")
    (asked,) = gateway.asked
    assert asked == {
        "ask": "wake",
        "session_key": MAIN,
        "host": None,
        "key": "test:wake_1",
        "delivery_id": "delivery_1",
        "text": "the packet",
        "message": "Count: on to step 2 of 3.",
    }


@pytest.mark.parametrize(("line", "message"), [("", ""), (None, _NEWS)])
def test_a_wake_may_be_unseen(gateway, line, message):
    deliver(gateway.open(), line=line)
    assert gateway.asked[0]["message"] == message


def test_a_wake_of_no_session_is_the_main_sessions(gateway):
    deliver(gateway.open(), session_key=None)
    assert gateway.asked[0]["session_key"] is None
    assert [session for session, _ in gateway.turns] == [MAIN]


def test_a_wake_goes_to_the_gateway_that_has_its_session(gateway, another):
    gateway.open().sessions.clear()
    deliver(gateway)
    assert [session for session, _ in another.turns] == [MAIN]


# --- how the turn was started -------------------------------------------------


def test_an_ordinary_turn_is_not_worth_a_note(gateway):
    receipt = deliver(gateway.open())
    assert (receipt.note, receipt.transport) == (None, None)


def test_a_turn_that_a_heartbeat_started_is_noted(gateway):
    gateway.heartbeats = True
    assert deliver(gateway.open()).note == "turn: heartbeat"


def test_a_wake_follows_the_one_that_waits_for_its_turn(gateway):
    gateway.quick = False
    deliver(gateway.open(), wake_id="wake_1", text="first")
    with pytest.raises(WakeUndelivered, match=r"still waits .*\(test:wake_1\)") as late:
        deliver(gateway, wake_id="wake_2", text="second")
    assert not isinstance(late.value, TransportUnavailable)


def test_a_wake_follows_openclaws_own_recovery_of_its_session(gateway):
    gateway.to_recover.add(MAIN)
    with pytest.raises(WakeUndelivered, match="is about to go on") as late:
        deliver(gateway.open())
    assert late.value.retry_seconds == 5.0
    assert gateway.turns == []


def test_wake_goes_to_the_agents_own_gateway_of_two(gateway, another):
    another.host = "openclaw:two"
    gateway.open()
    for host in ("openclaw:two", "openclaw:one", "openclaw", None):
        deliver(gateway, host=host, text=str(host))
    assert another.seen == ["openclaw:two"]
    assert gateway.seen == ["openclaw:one", "openclaw", "None"]


def test_wake_waits_while_its_agents_gateway_is_away(gateway, another):
    gateway.open()
    with pytest.raises(WakeUndelivered, match="not connected here") as late:
        deliver(gateway, host="openclaw:away")
    assert not isinstance(late.value, TransportUnavailable)
    assert gateway.seen == another.seen == []


def test_a_session_that_is_gone_from_its_own_gateway_is_refused(gateway, another):
    another.host = "openclaw:two"
    another.sessions.clear()
    gateway.open()
    with pytest.raises(WakeRefused, match="has no session"):
        deliver(gateway, host="openclaw:two")


# --- what goes wrong ----------------------------------------------------------


def test_without_a_gateway_the_door_is_named_as_it_is_written(gateway, tmp_path):
    gateway.environ["TASKMEM_HOME"] = str(tmp_path / "Not There")
    with pytest.raises(TransportUnavailable) as raised:
        deliver(gateway)
    assert str(raised.value) == (
        f"No gateway with the plug-in listens at {tmp_path}/Not There/openclaw.sock "
        "(No such file or directory), and OpenClaw is not set up to load it; see: taskmem setup "
        "openclaw."
    )


def test_a_gateway_that_was_killed_is_not_there_either(gateway):
    gateway.open()
    gateway.close()
    with pytest.raises(TransportUnavailable, match="Connection refused"):
        deliver(gateway)


def test_what_the_plugin_could_not_do_is_quoted(gateway):
    gateway.idle = True
    with pytest.raises(WakeUndelivered, match="no turn could be started") as raised:
        deliver(gateway.open())
    assert not isinstance(raised.value, TransportUnavailable)


def test_a_session_that_does_not_exist_will_never_take_a_wake(gateway):
    with pytest.raises(WakeRefused, match=r"no session agent:x:y\. Register the"):
        deliver(gateway.open(), session_key="agent:x:y")


def hang(visit):
    visit.rfile.readline()
    visit.server.gateway.over.wait(PATIENCE)


def be_deaf(visit):
    visit.server.gateway.over.wait(PATIENCE)


@pytest.mark.parametrize("rude", [hang, be_deaf])
@pytest.mark.parametrize("size", [10, 4_000_000])
def test_a_gateway_that_hangs_is_given_up_in_time(gateway, rude, size):
    gateway.rude = rude
    with pytest.raises(WakeUndelivered, match=r"gave no answer within 0\.3 s") as late:
        deliver(gateway.open(), seconds=SOON, text="x" * size)
    assert not isinstance(late.value, TransportUnavailable)


def says(answer):
    def say(visit):
        visit.rfile.readline()
        visit.wfile.write(answer)

    return say


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b'{"turn":',
        b"\n",
        b"hello\n",
        b"\xff\xfe\n",
        b"[" * 200_000 + b"\n",
        b'"' + b"x" * 5_000_000 + b'"\n',
        b"[]\n",
        b"null\n",
        b"7\n",
    ],
    ids=lambda answer: repr(answer[:9]),
)
def test_a_gateway_that_answers_nonsense_has_taken_nothing(gateway, answer):
    gateway.rude = says(answer)
    with pytest.raises(WakeUndelivered, match="did not take it") as raised:
        deliver(gateway.open())
    assert not isinstance(raised.value, TransportUnavailable)
    assert len(str(raised.value)) < 200


def test_gateway_that_hangs_up_before_reading_takes_no_wake(gateway):
    gateway.rude = lambda visit: visit.request.shutdown(socket.SHUT_RDWR)
    with pytest.raises(WakeUndelivered, match="hung up"):
        deliver(gateway.open(), text="x" * 4_000_000)


async def test_a_delivery_that_is_cancelled_hangs_up(gateway):
    heard = asyncio.Event()
    hung_up = asyncio.Event()
    loop = asyncio.get_running_loop()

    def wait_for_the_end(visit):
        visit.rfile.readline()
        loop.call_soon_threadsafe(heard.set)
        assert visit.rfile.read() == b""
        loop.call_soon_threadsafe(hung_up.set)

    gateway.rude = wait_for_the_end
    wake = a_wake(session_key=MAIN)
    delivery = asyncio.create_task(transport_to(gateway.open()).deliver(wake))
    async with asyncio.timeout(PATIENCE):
        await heard.wait()
        delivery.cancel()
        with pytest.raises(asyncio.CancelledError):
            await delivery
        await hung_up.wait()


def test_a_delivery_is_given_up_before_the_wake_counts_as_lost():
    assert OutboxPolicy().claim_seconds / 2 > plugin_socket.REQUEST_SECONDS


# --- a plug-in that is to be there --------------------------------------------


@pytest.fixture
def port():
    """A port of loopback where somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@asynccontextmanager
async def open_gateway(*said):
    """A gateway on loopback that says these things in turn when it is asked about its start."""
    answers = [*said]

    async def answer(reader, writer):
        assert await reader.readline() == b"GET /startupz HTTP/1.1\r\n"
        writer.write(answers.pop(0))
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


STARTED = b"HTTP/1.1 200 OK\r\n\r\n"
STARTING = b"HTTP/1.1 503 Service Unavailable\r\n\r\n"


def configure(gateway, port, *, plugins=None, **more):
    """Write OpenClaw's configuration: it wants the plug-in, unless told otherwise."""
    if plugins is None:
        plugins = {"entries": {"taskmem": {"enabled": True}}}
    file = gateway.home / "openclaw.json"
    found = {"plugins": plugins, "gateway": {"port": port, **more}}
    file.write_text(json.dumps(found))
    gateway.environ["OPENCLAW_CONFIG_PATH"] = str(file)


async def await_in_time(delivery, seconds=PATIENCE):
    async with asyncio.timeout(seconds):
        return await delivery


def patient(gateway, patience=PATIENCE):
    return PluginTransport(gateway.environ, PATIENCE, patience)


async def test_absent_gateway_is_reported_and_no_other_way_is_tried(gateway, closed_port):
    configure(gateway, closed_port)
    with pytest.raises(WakeUndelivered) as raised:
        await await_in_time(patient(gateway).deliver(a_wake()), PATIENCE / 4)
    assert not isinstance(raised.value, TransportUnavailable)
    assert raised.value.waits
    assert str(raised.value) == (
        f"No gateway listens at 127.0.0.1:{closed_port}; the wake goes out when one is started."
    )


async def test_asking_a_gateway_on_loopback_loads_no_certificates(
    gateway, closed_port, monkeypatch
):
    def refuse(*_given, **_more):
        raise AssertionError("certificates are loaded")

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", refuse)
    configure(gateway, closed_port)
    with pytest.raises(WakeUndelivered, match="No gateway listens"):
        await await_in_time(patient(gateway).deliver(a_wake()))


async def test_wake_awaits_a_loading_gateway_and_stays_owed_at_first(gateway, monkeypatch):
    """What comes while it starts is owed still: the daemon knows when it may go."""
    knocked = asyncio.Event()
    knock = asyncio.open_unix_connection

    async def knock_and_tell(*given, **more):
        try:
            return await knock(*given, **more)
        finally:
            knocked.set()

    monkeypatch.setattr(plugin_socket, "GLANCE", 0.01)
    monkeypatch.setattr(asyncio, "open_unix_connection", knock_and_tell)
    async with open_gateway(STARTED) as port:
        configure(gateway, port)
        delivery = asyncio.create_task(patient(gateway).deliver(a_wake()))
        await knocked.wait()
        await asyncio.to_thread(gateway.open)
        with pytest.raises(WakeUndelivered, match="only just loaded") as raised:
            await await_in_time(delivery)
    assert not isinstance(raised.value, TransportUnavailable)
    assert raised.value.retry_seconds == 0.0
    assert gateway.asked == []


@pytest.mark.parametrize(
    "said",
    [STARTED, b"HTTP/1.1 404 Not Found\r\n\r\n", b"\x15\x03\x03\x00\x02\x02\x46", b""],
    ids=["started", "older", "speaks TLS", "hangs up"],
)
async def test_wanted_plugin_that_never_comes_counts_as_not_there(gateway, said):
    async with open_gateway(said) as port:
        configure(gateway, port)
        with pytest.raises(TransportUnavailable, match="though one runs and is to load it"):
            await await_in_time(patient(gateway, 0.05).deliver(a_wake()))


async def test_gateway_that_starts_slowly_is_reached_no_other_way(gateway):
    """Also where its start ends meanwhile: the plug-in has all its time after that."""
    async with open_gateway(STARTING, STARTED) as port:
        configure(gateway, port)
        with pytest.raises(WakeUndelivered, match="is still starting") as raised:
            await await_in_time(patient(gateway, 0.05).deliver(a_wake()))
        assert not isinstance(raised.value, TransportUnavailable)
        with pytest.raises(TransportUnavailable):
            await await_in_time(patient(gateway, 0.05).deliver(a_wake()))


async def test_gateway_too_busy_to_answer_is_reached_no_other_way(gateway, port, monkeypatch):
    monkeypatch.setattr(auto, "GLANCE_SECONDS", 0.05)
    configure(gateway, port)
    with pytest.raises(WakeUndelivered, match="is still starting") as raised:
        await await_in_time(patient(gateway, 0.05).deliver(a_wake()))
    assert not isinstance(raised.value, TransportUnavailable)


@pytest.mark.parametrize(
    "plugins",
    [
        {},
        {"entries": {"taskmem": {"enabled": False}}},
        {"entries": {"other": {"enabled": True}}},
        {"enabled": False, "entries": {"taskmem": {"enabled": True}}},
        {"entries": {"taskmem": None}},
        [],
    ],
    ids=["none", "off", "another", "all off", "null", "nonsense"],
)
async def test_a_plugin_that_is_not_wanted_is_not_awaited(gateway, port, plugins):
    configure(gateway, port, plugins=plugins)
    with pytest.raises(TransportUnavailable):
        await await_in_time(patient(gateway).deliver(a_wake()), PATIENCE / 4)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"$include": "./other.json"}',
        '{"plugins": {"$include": "./plugins.json"}, "gateway": {"mode": "remote"}}',
        '{"plugins": {"entries": {"$include": "./x.json"}}, "gateway": {"port": 0}}',
    ],
    ids=["broken", "all of it", "plug-ins", "entries"],
)
async def test_what_cannot_be_read_may_want_the_plugin(gateway, monkeypatch, text):
    """It is awaited; a port that is not known is not asked."""
    configure(gateway, 1)
    (gateway.home / "openclaw.json").write_text(text)
    awaited = []

    async def stay_shut(path, seconds):
        awaited.append(path)
        return False

    monkeypatch.setattr(plugin_socket, "wait_for_listener", stay_shut)
    with pytest.raises(TransportUnavailable, match="is to load it"):
        await patient(gateway).deliver(a_wake())
    assert awaited == [gateway.path]


async def test_where_there_is_no_openclaw_at_all_nobody_is_awaited(gateway):
    gateway.environ["OPENCLAW_CONFIG_PATH"] = str(gateway.home / "missing.json")
    with pytest.raises(TransportUnavailable):
        await await_in_time(patient(gateway).deliver(a_wake()), PATIENCE / 4)


@pytest.mark.parametrize(
    "more",
    [{"mode": "remote"}, {"bind": "tailnet"}, {"bind": "custom"}],
    ids=["far away", "tailnet", "custom"],
)
async def test_a_gateway_that_is_not_on_loopback_is_left_to_other_ways(gateway, closed_port, more):
    configure(gateway, closed_port, **more)
    with pytest.raises(TransportUnavailable):
        await await_in_time(patient(gateway, 0.05).deliver(a_wake()))


async def test_the_port_in_the_environment_is_the_gateways(gateway, port, closed_port):
    configure(gateway, port)
    gateway.environ["OPENCLAW_GATEWAY_PORT"] = str(closed_port)
    with pytest.raises(WakeUndelivered, match=f"127.0.0.1:{closed_port}"):
        await await_in_time(patient(gateway).deliver(a_wake()), PATIENCE / 4)


# --- where the door is --------------------------------------------------------


def test_door_of_a_home_with_a_long_path_lies_by_its_socket(gateway, tmp_path):
    """No socket has so long a path: the daemon leaves a link to where it listens."""
    long = tmp_path / ("x" * 60) / ("y" * 60)
    environ = {"TASKMEM_HOME": str(long), "XDG_RUNTIME_DIR": str(gateway.home)}
    home = find_home(environ)
    home.prepare()
    assert home.socket.is_relative_to(gateway.home)
    assert plugin_socket.find_socket(environ) == home.socket.with_name("openclaw.sock")


def test_the_door_of_a_home_that_is_a_link_is_in_the_link(gateway, tmp_path):
    """What it points to may have a path that no socket takes."""
    long = tmp_path / ("x" * 120)
    long.mkdir()
    (tmp_path / "short").symlink_to(long)
    environ = {"TASKMEM_HOME": str(tmp_path / "short")}
    assert plugin_socket.find_socket(environ) == tmp_path / "short" / "openclaw.sock"


async def test_serves_waits_until_the_plugin_has_the_installed_version(gateway, monkeypatch):
    monkeypatch.setattr(plugin_socket, "GLANCE", 0.01)
    said = [b"{}\n", b'{"failed": "no version"}\n', b'{"version": "1"}\n']
    said += [b'{"version": "2", "boot": "first"}\n']

    def answer(visit):
        visit.rfile.readline()
        last = b'{"version": "2", "boot": "second"}\n'
        visit.wfile.write(said.pop(0) if said else last)

    gateway.rude = answer
    assert await plugin_socket.read_boot(gateway.environ) is None
    awaited = asyncio.create_task(
        plugin_socket.wait_for_version(gateway.environ, "2", PATIENCE, "first")
    )
    await asyncio.to_thread(gateway.open)
    assert await awaited
    assert said == []
    assert await plugin_socket.read_boot(gateway.environ) == "second"
    assert not await plugin_socket.wait_for_version(gateway.environ, "3", 0.05)
