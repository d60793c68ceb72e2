import asyncio
import threading

import pytest

from openclaw_taskmem.daemon.wake_routes import RoutingTransport
from openclaw_taskmem.domain.callers import SessionKeys
from openclaw_taskmem.domain.wakes import packet as core_packet
from openclaw_taskmem.plugin_host.plugin_host import PluginHost
from taskmem_hookspecs import (
    ResumePacket,
    SessionNames,
    StoreTooNew,
    StoreUnavailable,
    TargetGone,
    TargetNotFound,
    WakeReceipt,
    WakeRefused,
    WakeUndelivered,
    hookimpl,
)
from taskmem_hookspecs.errors import NoProvider, SettingsInvalid, StoreBusy
from taskmem_hookspecs.packet import PacketMessage
from taskmem_hookspecs.testing import a_wake
from tests.plugin_host.made import (
    COMPUTE,
    CONDITION,
    CORE,
    FACTS,
    LIMIT,
    TARGET,
    Everything,
    Good,
    assert_costs_nothing_else,
    lazily,
    make_answering_plugin,
    make_raiser,
    nothing,
    plugin,
    row,
    seams_of,
)

# --- compute --------------------------------------------------------------------


def change_packet(**fields):
    return CORE.model_copy(update=fields)


def test_without_a_plugin_the_packet_is_the_cores():
    assert seams_of().build_resume_packet(FACTS) == CORE


def test_an_ordinary_plugin_builds_before_the_core():
    plugin_host = seams_of(mine=make_answering_plugin(COMPUTE, change_packet(reason="mine")))
    assert plugin_host.build_resume_packet(FACTS).reason == "mine"


def test_even_a_plugin_that_comes_last_builds_before_the_core():
    late = hookimpl(lambda: change_packet(reason="late"), trylast=True)
    plugin_host = seams_of(late=plugin(build_resume_packet=late))
    assert plugin_host.build_resume_packet(FACTS).reason == "late"


def enrich_new_style(facts):
    built = yield
    return built.model_copy(update={"extra": {"task": facts.task.task_id}})


def enrich_old_style():
    outcome = yield
    built = outcome.get_result()
    outcome.force_result(built.model_copy(update={"extra": {"task": built.task_id}}))


@pytest.mark.parametrize(
    "wrapper",
    [hookimpl(enrich_new_style, wrapper=True), hookimpl(enrich_old_style, hookwrapper=True)],
)
def test_a_wrapper_enriches_the_cores_packet(wrapper):
    plugin_host = seams_of(rich=plugin(build_resume_packet=wrapper))
    assert plugin_host.build_resume_packet(FACTS) == change_packet(extra={"task": "task_1"})


@pytest.mark.parametrize("fields", [{"task_id": "task_2"}, {"wake_id": "wake_2"}])
def test_the_packet_of_another_task_or_wake_is_nonsense(fields, caplog):
    bad = make_answering_plugin(COMPUTE, change_packet(**fields))
    said = assert_costs_nothing_else(bad, COMPUTE, caplog)
    assert "the packet of another task or wake" in said


@pytest.mark.parametrize("fields", [{"plan": None}, {"progress": 5}, {"extra": {"a": object()}}])
def test_a_packet_with_a_field_that_cannot_be_used_is_nonsense(fields, caplog):
    bad = make_answering_plugin(COMPUTE, change_packet(**fields))
    assert "ResumePacket" in assert_costs_nothing_else(bad, COMPUTE, caplog)


def test_a_packet_that_was_never_checked_is_nonsense(caplog):
    bad = make_answering_plugin(COMPUTE, ResumePacket.model_construct(task_id="task_1"))
    assert_costs_nothing_else(bad, COMPUTE, caplog)


def test_only_the_plugin_in_which_it_went_wrong_is_named():
    def innocent():
        return (yield)

    boom = make_raiser(ValueError("boom"))
    plugin_host = seams_of(
        bad=plugin(build_resume_packet=boom),
        innocent=plugin(build_resume_packet=hookimpl(innocent, wrapper=True)),
        shy=make_answering_plugin(COMPUTE, None),
    )
    assert plugin_host.build_resume_packet(FACTS) == CORE
    assert row(plugin_host).last_error == f"{COMPUTE}: ValueError: boom"
    assert row(plugin_host, "innocent").last_error is None
    assert row(plugin_host, "shy").last_error is None


def test_unclear_error_names_every_plugin_that_may_have_made_it():
    plugin_host = seams_of(
        bad=make_answering_plugin(COMPUTE, 5), shy=make_answering_plugin(COMPUTE, None)
    )
    plugin_host.build_resume_packet(FACTS)
    for name in ("bad", "shy"):
        said = row(plugin_host, name).last_error
        assert said.startswith(f"{COMPUTE}, here or in another one: TypeError")


def test_when_the_core_itself_fails_no_plugin_is_blamed(monkeypatch):
    monkeypatch.setattr(core_packet, "build_packet", lambda _facts: 1 // 0)
    plugin_host = seams_of(shy=make_answering_plugin(COMPUTE, None))
    with pytest.raises(ZeroDivisionError):
        plugin_host.build_resume_packet(FACTS)
    assert row(plugin_host, "shy").last_error is None


def test_a_plugins_packet_keeps_what_it_holds():
    message = PacketMessage(role="agent", msg_type="text", content="x", created_at=FACTS.now)
    mine = change_packet(recent_messages=(message,), extra={"a": [1, None]})
    plugin_host = seams_of(mine=make_answering_plugin(COMPUTE, mine))
    assert plugin_host.build_resume_packet(FACTS) == mine


# --- provide --------------------------------------------------------------------


@pytest.mark.parametrize("error", [StoreUnavailable, StoreTooNew, StoreBusy, SettingsInvalid])
def test_a_database_that_cannot_be_opened_is_for_the_operator(error):
    other = Good("task_store")
    bad = plugin(task_store=make_raiser(error("see to it")))
    with pytest.raises(error, match="see to it"):
        seams_of(good=other.module, bad=bad).open_store("sqlite:///x")
    assert other.heard == 0


def test_a_store_may_take_longer_than_a_hook_to_open():
    good = Good("task_store")
    opened = threading.Event()

    def slowly():
        opened.wait(LIMIT * 2)
        return good.part

    plugin_host = seams_of(LIMIT, slow=plugin(task_store=slowly))
    assert plugin_host.open_store("memory:") is good.part


def test_without_a_store_the_operator_is_told_what_there_is():
    plugin_host = seams_of(
        shy=make_answering_plugin("task_store", None),
        bad=plugin(task_store=make_raiser(ValueError("boom"))),
    )
    with pytest.raises(NoProvider) as raised:
        plugin_host.open_store("oracle://user:secret@host/db")
    assert str(raised.value) == (
        "No plug-in opens the database oracle:…; install one, or unset "
        "TASKMEM_DATABASE_URL. Loaded plug-ins: shy, bad; bad: task_store: "
        "ValueError: boom."
    )


class NamedTransport(Everything):
    def __init__(self, name):
        self.name = name


def make_transport_plugin(*names):
    def wake_transport(name):
        return NamedTransport(name) if name in names else None

    return plugin(wake_transport=wake_transport)


def name_found(plugin_host, *names):
    return [each.name for each in plugin_host.find_wake_transports(names)]


def test_a_transport_is_found_by_its_name_whatever_the_order():
    plugin_host = seams_of(
        a=make_transport_plugin("auto", "a"), b=make_transport_plugin("auto", "b")
    )
    assert [name_found(plugin_host, name) for name in ("a", "b")] == [["a"], ["b"]]
    assert name_found(plugin_host, "b", "a", "b") == ["b", "a"]


def test_an_unknown_transport_is_refused_with_those_there_are():
    anything = plugin(
        wake_transport=lambda name: NamedTransport("other") if name == "auto" else None
    )
    several = make_transport_plugin("one", "two")
    several.wake_transport_names = hookimpl(lambda: ("one", "two", "gone"))
    plugin_host = seams_of(a=make_transport_plugin("a"), b=several, c=anything)
    with pytest.raises(SettingsInvalid) as raised:
        plugin_host.find_wake_transports(["carrier-pigeon"])
    assert str(raised.value) == (
        "The transport is 'carrier-pigeon', and no plug-in has such a "
        "transport; use auto or one of: a, one, other, two."
    )


@pytest.mark.parametrize("names", ["stdout", ["stdout", None], [""], 5, {"stdout"}])
def test_names_of_transports_that_are_nonsense_are_left_out(names):
    bad = make_transport_plugin("stdout")
    bad.wake_transport_names = hookimpl(lambda: names)
    plugin_host = seams_of(a=make_transport_plugin("a"), bad=bad)
    with pytest.raises(SettingsInvalid, match="use auto or one of: a\\."):
        plugin_host.find_wake_transports(["carrier-pigeon"])
    assert row(plugin_host, "bad").last_error.startswith("wake_transport_names: TypeError")


@pytest.mark.parametrize(
    "forms",
    [
        *("mail:FOLDER", [None], ["mail"], ["mail:"], ["Mail:FOLDER"], ["pty:NAME, mine"]),
        *(["mail:A\nB"], ["mail:" + "x" * 300], ["mail:FOLDER", "new mail"]),
    ],
)
def test_forms_of_targets_that_are_nonsense_are_left_out(forms):
    bad = plugin(wait_target_forms=lambda: forms)
    good = plugin(wait_target_forms=lambda: ["browser:NAME, a tab"])
    plugin_host = seams_of(bad=bad, good=good)
    assert plugin_host.list_target_forms() == ("browser:NAME, a tab",)
    assert row(plugin_host, "bad").last_error.startswith("wait_target_forms: TypeError")


@pytest.mark.parametrize("name", ["auto", "stdout"])
def test_where_nobody_carries_wakes_the_operator_is_told(name):
    with pytest.raises(NoProvider, match="No plug-in carries wakes; install one"):
        seams_of(other=plugin(wait_judge=lambda: None)).find_wake_transports([name])


def test_greedy_transport_does_not_take_the_place_of_another():
    greedy = plugin(wake_transport=lambda: NamedTransport("greedy"))
    plugin_host = seams_of(a=make_transport_plugin("a"), greedy=greedy)
    assert name_found(plugin_host, "a") == ["a"]
    assert (
        "answered NamedTransport, which is not asked for" in row(plugin_host, "greedy").last_error
    )


@pytest.mark.parametrize("name", ["", " ", None, 5])
def test_a_transport_needs_a_name(name):
    plugin_host = seams_of(bad=make_answering_plugin("wake_transport", NamedTransport(name)))
    with pytest.raises(NoProvider):
        plugin_host.find_wake_transports(["auto"])
    assert row(plugin_host).last_error.startswith("wake_transport: TypeError")


def test_a_switched_off_plugin_plays_no_part():
    plugin_host = PluginHost(disabled=["openclaw", "sqlmodel"])
    states = {plugin.name: plugin.state for plugin in plugin_host.plugins}
    assert (states["openclaw"], states["sqlmodel"]) == ("off", "off")
    with pytest.raises(NoProvider):
        plugin_host.open_store("sqlite:///nowhere")


def test_a_part_is_the_plugins_own_object_and_says_what_it_likes():
    class LostTarget(Everything):
        async def watch(self, target):
            raise TargetNotFound("there is build")

        async def rule(self, frame):
            raise TargetGone("it is gone")

        async def deliver(self, wake):
            raise WakeRefused("never")

    lost = LostTarget()
    plugin_host = seams_of(
        lost=plugin(wait_sensor=lambda: lost, wait_judge=lambda: lost, wake_transport=lambda: lost)
    )
    with pytest.raises(TargetNotFound, match="there is build"):
        asyncio.run(plugin_host.find_sensors(TARGET)[0].watch(TARGET))
    with pytest.raises(TargetGone, match="it is gone"):
        asyncio.run(plugin_host.collect_judges(TARGET, CONDITION).found[0].rule(None))
    with pytest.raises(WakeRefused, match="never"):
        asyncio.run(plugin_host.find_wake_transports(["made"])[0].deliver(None))


def test_where_nothing_can_look_there_is_no_sensor():
    assert seams_of().find_sensors(TARGET) == ()


# --- asking a part --------------------------------------------------------------


def test_a_part_is_asked_with_what_it_needs():
    assert seams_of().call_part(Everything(), "join", "-".join, ["a", "b"]) == "a-b"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (make_raiser(ValueError("boom")), "ValueError: boom"),
        (make_raiser(SystemExit(1)), "SystemExit(1)"),
        (nothing, "answered a coroutine"),
        (lazily, "answered a generator"),
    ],
    ids=["raises", "exits", "is async", "is lazy"],
)
def test_a_part_that_fails_answers_nothing_and_is_named(call, said, caplog):
    assert seams_of().call_part(Everything(), "answer", call) is None
    assert f"{Everything.__module__}.Everything failed; answer: " in caplog.text
    assert said in caplog.text


def test_a_part_that_hangs_is_not_asked_again_until_it_returns(hanging_hook, caplog):
    serve, begun = hanging_hook
    plugin_host = seams_of(LIMIT)
    for _ in range(3):
        assert plugin_host.call_part(Everything(), "answer", serve) is None
    assert len(begun) == 1
    assert plugin_host.call_part(Everything(), "recall", lambda: 7) == 7
    assert caplog.text.count("no answer within 0.2 s") == 3


# --- whom a transport reaches ---------------------------------------------------


class Plain:
    """A transport that says nothing of whom it reaches."""

    name = "plain"

    async def deliver(self, wake):
        raise AssertionError("nothing is delivered")


class Selective(Plain):
    """A transport for one host alone."""

    def reaches(self, host, session_key):
        if host is None:
            raise RuntimeError("a bug")
        return host == "here"


class Receiving:
    """A transport that takes the wakes of one host; None: of all."""

    def __init__(self, host):
        self.name = host or "all"
        if host is not None:
            self.reaches = lambda asked, _session: asked == host

    async def deliver(self, wake):
        return WakeReceipt(delivered_at=wake.created_at)


def test_a_transport_says_whom_it_reaches():
    reaches = RoutingTransport([Selective()]).reaches
    assert reaches("here", None)
    assert not reaches("there", "a session")


def test_one_that_does_not_select_reaches_all():
    assert RoutingTransport([Plain()]).reaches("there", None)


def test_each_host_has_its_own_transport():
    """What a plug-in adds displaces nobody: it gets what no other transport reaches."""
    here = plugin(wake_transport=lambda: Receiving("here"))
    everywhere = plugin(wake_transport=lambda: Receiving(None))
    transports = seams_of(a=here, b=everywhere).find_wake_transports(["auto"])
    routing = RoutingTransport(transports)
    assert routing.name == "here, all"

    def deliver(host):
        return asyncio.run(routing.deliver(a_wake(host=host))).transport

    assert [deliver("here"), deliver("there")] == ["here", "all"]


def test_a_wake_that_no_transport_reaches_is_tried_again():
    with pytest.raises(WakeUndelivered, match="No transport reaches mcp:codex now"):
        asyncio.run(RoutingTransport([Receiving("here")]).deliver(a_wake(host="mcp:codex")))


def test_one_that_fails_to_say_reaches_nobody(caplog):
    assert not RoutingTransport([Selective()]).reaches(None, None)
    assert "plain failed to answer whether it reaches a session" in caplog.text


def test_a_judge_that_is_late_is_told_apart_from_none(hanging_hook):
    serve, _ = hanging_hook
    plugin_host = seams_of(LIMIT, bad=plugin(wait_judge=serve))
    said = plugin_host.collect_judges(TARGET, CONDITION).late
    assert said == ("The plug-in bad gave no answer within 0.2 s.",)
    assert seams_of().collect_judges(TARGET, CONDITION).late == ()


def test_what_loads_its_judge_ahead_has_more_time():
    answers = threading.Event()
    judge = Everything()
    threading.Timer(LIMIT * 2, answers.set).start()

    def wait_judge():
        return judge if answers.wait(30) else None

    plugin_host = seams_of(LIMIT, slow=plugin(wait_judge=wait_judge))
    assert plugin_host.collect_judges(TARGET, CONDITION, None, 30).found == (judge,)


# --- how a host names its sessions ------------------------------------------------


class SilentHost:
    """A host that does not say how its sessions are named."""

    async def say(self, notice):
        raise AssertionError

    show = stop = say


class TalkingHost(SilentHost):
    def __init__(self, describe):
        self.describe_sessions = describe


class LookingHost(SilentHost):
    def __init__(self, sessions):
        self.sessions = sessions


NAMES = SessionNames(prefix="chat/", background=":off:")


def test_the_agent_host_says_how_its_sessions_are_named():
    plugin_host = seams_of(a=plugin(agent_host=lambda: TalkingHost(lambda: NAMES)))
    assert plugin_host.read_session_keys(plugin_host.find_agent_hosts()) == SessionKeys(
        hosts=(NAMES,)
    )


@pytest.mark.parametrize("hosts", [(), (SilentHost(),)])
def test_of_a_host_that_says_nothing_no_session_is_its_own(hosts):
    assert seams_of().read_session_keys(hosts) == SessionKeys()


def test_the_hosts_of_all_plugins_are_kept_and_displace_nobody():
    """Those that reach some sessions only are asked first; the names of all count."""
    other = SessionNames(prefix="desk:")
    plain, chosen = TalkingHost(lambda: NAMES), TalkingHost(lambda: other)
    chosen.reaches = lambda _host, _session_key: True
    plugin_host = seams_of(a=plugin(agent_host=lambda: chosen), b=plugin(agent_host=lambda: plain))
    assert plugin_host.find_agent_hosts() == [chosen, plain]
    assert plugin_host.read_session_keys((chosen, plain)) == SessionKeys(hosts=(other, NAMES))


def test_an_agent_host_may_look_up_connected_sessions():
    def agent_host(sessions):
        return LookingHost(sessions)

    plugin_host = seams_of(a=plugin(agent_host=agent_host))
    (host,) = plugin_host.find_agent_hosts()
    assert host.sessions is plugin_host.sessions


@pytest.mark.parametrize(
    "describe",
    [
        nothing,
        make_raiser(ValueError("boom")),
        lambda: "agent:",
        lambda: SessionNames.model_construct(prefix=5),
    ],
)
def test_a_host_that_names_nonsense_is_named_in_the_log(describe, caplog):
    assert seams_of().read_session_keys([TalkingHost(describe)]) == SessionKeys()
    assert "TalkingHost failed; describe_sessions: " in caplog.text
