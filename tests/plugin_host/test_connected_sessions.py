"""Which sessions of MCP hosts are connected."""

from openclaw_taskmem.plugin_host.connected_sessions import ConnectedSessions
from tests.plugin_host.made import make_answering_plugin, plugin, row, seams_of


def connect(*connections):
    """Return sessions with these connections, whose variables have their names."""
    sessions = ConnectedSessions()
    for connection in connections:
        sessions.add_connection(connection, {"NAME": connection})
    return sessions


def test_a_session_is_known_while_its_host_is_connected():
    sessions = connect("first")
    assert sessions.find_variables("one") is None
    assert sessions.add_session("first", "one")
    assert not sessions.add_session("first", "one")
    assert sessions.find_variables("one") == {"NAME": "first"}
    sessions.remove_connection("first")
    assert sessions.find_variables("one") is None


def test_a_call_that_ends_after_its_connection_adds_nothing():
    sessions = connect("first")
    sessions.remove_connection("first")
    assert not sessions.add_session("first", "one")
    assert sessions.find_variables("one") is None


def test_a_session_has_the_host_that_it_named_last():
    sessions = connect("first", "second")
    sessions.add_session("first", "one")
    sessions.add_session("second", "two", "mcp:theirs")
    assert {*sessions.list_sessions()} == {("one", None), ("two", "mcp:theirs")}
    sessions.add_session("first", "one", "mcp:ours")
    sessions.remove_connection("second")
    assert {*sessions.list_sessions()} == {("one", "mcp:ours")}


def test_two_hosts_may_give_the_same_key():
    sessions = connect("first", "second")
    sessions.add_session("first", "one", "mcp:ours")
    sessions.add_session("second", "one", "mcp:theirs")
    assert {*sessions.list_sessions()} == {("one", "mcp:ours"), ("one", "mcp:theirs")}
    assert sessions.find_variables("one", "shell:ours") == {"NAME": "first"}
    for host in ("mcp:theirs", None):
        assert sessions.find_variables("one", host) == {"NAME": "second"}
    assert sessions.find_variables("one", "mcp:nobody") is None
    sessions.add_session("second", "one")  # it has not given its name
    for host, name in (("mcp:ours", "first"), ("mcp:theirs", "second")):
        assert sessions.find_variables("one", host) == {"NAME": name}


def test_the_newest_connection_of_a_session_counts():
    sessions = connect("first", "second")
    for connection in ("second", "first"):
        sessions.add_session(connection, "one")
    assert sessions.find_variables("one") == {"NAME": "second"}
    sessions.remove_connection("second")
    assert sessions.find_variables("one") == {"NAME": "first"}


def test_two_sessions_of_one_connection_are_two():
    sessions = connect("first")
    assert sessions.add_session("first", "one")
    assert sessions.add_session("first", "two")
    sessions.remove_session("first", "one")
    assert sessions.find_variables("one") is None
    assert sessions.find_variables("two") == {"NAME": "first"}


def test_the_first_plugin_that_knows_the_session_is_taken():
    plugin_host = seams_of(
        ours=plugin(calling_session=lambda client: client and f"{client}:1"),
        theirs=plugin(calling_session=lambda meta: meta.get("threadId")),
    )

    def find(client, meta):
        return plugin_host.find_calling_session(client, {}, meta)

    assert find(None, {}) is None
    assert find("ours", {}) == "ours:1"
    assert find("ours", {"threadId": "T"}) == "T"


def test_a_key_that_is_none_is_left_out():
    for nonsense in ("", " ", 5, "x" * 2000, "a\0b", "\ud800"):
        plugin_host = seams_of(bad=make_answering_plugin("calling_session", nonsense))
        assert plugin_host.find_calling_session("ours", {}, {}) is None
        is_of_host = isinstance(nonsense, str)
        assert (row(plugin_host).last_error is None) is is_of_host


def test_the_variables_of_all_plugins_are_asked_for():
    plugin_host = seams_of(
        a=plugin(session_variables=lambda: ["A_SESSION", "SHARED"]),
        b=plugin(session_variables=lambda: ["SHARED"]),
    )
    assert sorted(plugin_host.list_session_variables()) == ["A_SESSION", "SHARED"]
