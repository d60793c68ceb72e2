"""How a host names the sessions of its agents, as its plug-in says it."""

import pytest
from pydantic import ValidationError

from openclaw_taskmem.domain.callers import SessionKeys
from taskmem_hookspecs import SessionNames

CHATS = SessionKeys(hosts=(SessionNames(prefix="chat/", background=":off:", lower_case=True),))
PLAIN = SessionKeys(hosts=(SessionNames(prefix="chat/"),))
NONE = SessionKeys()


@pytest.mark.parametrize(
    ("key", "agent", "rest"),
    [
        ("chat/ann:main", "chat/ann", "main"),
        ("chat/ann:mail:direct:4", "chat/ann", "mail:direct:4"),
        ("chat/ann", "chat/ann", ""),
        ("chat/ann:", "chat/ann", ""),
    ],
)
def test_a_key_of_the_hosts_own_begins_with_its_agent(key, agent, rest):
    assert CHATS.is_own(key)
    assert (CHATS.find_agent(key), CHATS.find_rest(key)) == (agent, rest)


@pytest.mark.parametrize("key", ["thread-1", "Chat/ann:main", "a chat/ann:main", "", None])
def test_any_other_key_is_an_agent_by_itself(key):
    assert not CHATS.is_own(key)
    assert (CHATS.find_agent(key), CHATS.find_rest(key)) == (key, "")
    assert CHATS.name_background(key, "run_1") is None


@pytest.mark.parametrize("key", ["agent:main:main", "chat/ann:main", "", None])
def test_of_a_host_that_names_none_no_session_is_its_own(key):
    assert not NONE.is_own(key)
    assert NONE.find_agent(key) == key
    assert NONE.name_background(key, "run_1") is None


def test_a_run_in_the_background_has_a_session_of_the_same_agent():
    away = CHATS.name_background("chat/ann:mail:direct:4", "run_1")
    assert away == "chat/ann:off:run_1"
    assert CHATS.find_agent(away) == "chat/ann"
    assert CHATS.find_background_run(away) == "run_1"


@pytest.mark.parametrize(
    "key", ["chat/ann:main", "chat/off:main", "chat/ann:x:off:run_1", "thread:off:run_1", ""]
)
def test_no_other_session_was_made_for_a_run(key):
    assert CHATS.find_background_run(key) is None


def test_a_host_may_have_no_sessions_for_the_background():
    names = PLAIN
    assert names.is_own("chat/ann:main")
    assert names.name_background("chat/ann:main", "run_1") is None
    assert names.find_background_run("chat/ann:off:run_1") is None


def test_each_host_names_its_own_sessions():
    both = SessionKeys(hosts=(SessionNames(prefix="desk:"), *CHATS.hosts))
    assert both.find_agent_name("desk:ann:Main") == both.find_agent_name("chat/ann:main") == "ann"
    assert [both.name_background(f"{key}ann:x", "run_1") for key in ("desk:", "chat/", "x")] == [
        None,
        "chat/ann:off:run_1",
        None,
    ]
    assert both.to_canonical("desk:Ann") == "desk:Ann"


@pytest.mark.parametrize(
    ("names", "key", "written"),
    [
        (CHATS, "chat/Ann:Main", "chat/ann:main"),
        (CHATS, "Thread-1", "Thread-1"),
        (PLAIN, "chat/Ann:Main", "chat/Ann:Main"),
        (NONE, "chat/Ann", "chat/Ann"),
    ],
)
def test_keys_are_written_as_their_host_writes_them(names, key, written):
    assert names.to_canonical(key) == written


@pytest.mark.parametrize(
    "said", [{"background": "off:"}, {"background": ":"}, {"prefix": "a b"}, {"prefix": "a\n"}]
)
def test_names_that_cannot_be_kept_apart_are_refused(said):
    with pytest.raises(ValidationError):
        SessionNames(**said)
