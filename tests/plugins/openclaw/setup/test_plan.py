"""What setting up changes in a configuration, and what it leaves to the operator."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmem_openclaw.json_values import find_value
from taskmem_openclaw.setup import plan
from taskmem_openclaw.setup.config_edits import (
    apply_changes,
    apply_patch,
    build_patch,
    is_same_json,
)
from taskmem_program import OWN_PROGRAM

TOOLS = frozenset(("task_register", "smart_wait"))
DESIRED = plan.DesiredState(
    folder="/new/gateway",
    command=("/bin/taskmem",),
    home="/data",
    tools=TOOLS,
    stale=frozenset(("/old/gateway", "/new/gateway")),
)
KNOWING = plan.DesiredState(
    folder="/new/gateway",
    command=("/bin/taskmem",),
    home="/data",
    tools=TOOLS,
    profiles=frozenset(("coding", "messaging")),
)
"""As with a manifest that puts the tools into two profiles itself."""
ENTRY = {
    "enabled": True,
    "config": {"command": ["/bin/taskmem"], "home": "/data"},
    "hooks": {"allowConversationAccess": True},
}
SERVER = {"command": "/bin/taskmem", "args": ["mcp"], "env": {"KEY": "secret"}}


def config_after(config, desired=DESIRED, *, everything=True):
    """The configuration after a set-up."""
    changes = permissions(config, desired)
    return apply_changes(config, [each for each in changes if each.needed or everything])


def permissions(config, desired=DESIRED):
    """What `--yes` means."""
    return [each for each in plan.plan_plugin(config, desired).changes if not each.by_hand]


def offers(config, desired=DESIRED):
    """What is offered beside the access to conversations."""
    changes = permissions(config, desired)
    return [each.what for each in changes if not each.needed][1:]


def test_a_fresh_configuration_gets_the_link_and_one_entry():
    assert config_after({}) == {
        "plugins": {"load": {"paths": ["/new/gateway"]}, "entries": {"taskmem": ENTRY}}
    }


def test_what_is_not_needed_is_left_to_the_operator():
    entry = config_after({}, everything=False)["plugins"]["entries"]["taskmem"]
    assert "hooks" not in entry
    assert entry["enabled"] is True


@pytest.mark.parametrize(
    ("setting", "takes"),
    [
        ("holdBack", "no answer of any session streams"),
        ("recordCommands", "rules for COMMAND match no more"),
    ],
)
def test_a_matter_of_taste_is_offered_until_it_is_chosen(setting, takes):
    def list_offers(config):
        found = plan.plan_plugin(config, DESIRED).changes
        return [each for each in found if each.by_hand and takes in each.gives]

    (offer,) = list_offers({})
    assert not offer.needed
    chosen = apply_changes({}, [offer])
    assert chosen["plugins"]["entries"]["taskmem"] == {"config": {setting: True}}
    assert list_offers(chosen) == []


# --- models that read ---------------------------------------------------------


@pytest.mark.parametrize(
    ("defaults", "models"),
    [
        ({}, None),
        ({"model": "local/one"}, None),
        ({"utilityModel": ""}, None),
        ({"utilityModel": "local/small"}, ["local/small"]),
        ({"imageModel": "local/eye"}, ["local/eye"]),
        (
            {"utilityModel": "local/small", "imageModel": {"primary": "local/eye"}},
            ["local/small", "local/eye"],
        ),
        ({"utilityModel": "local/x", "imageModel": "local/x"}, ["local/x"]),
        ({"utilityModel": 7, "imageModel": {"primary": []}}, None),
    ],
)
def test_other_models_may_read_once_the_operator_allows_it(defaults, models):
    config = {"agents": {"defaults": defaults}}
    entry = config_after(config)["plugins"]["entries"]["taskmem"]
    allowed = {"allowModelOverride": True, "allowedModels": models}
    assert entry.get("llm") == (allowed if models else None)
    refused = config_after(config, everything=False)["plugins"]["entries"]["taskmem"]
    assert "llm" not in refused


def test_models_that_are_allowed_already_are_not_asked_for_again():
    config = config_after({"agents": {"defaults": {"utilityModel": "local/small"}}})
    assert permissions(config) == []
    config["plugins"]["entries"]["taskmem"]["llm"]["allowedModels"] = ["theirs/big"]
    (change,) = permissions(config)
    assert "lets local/small read texts" in change.gives
    found = apply_changes(config, [change])["plugins"]["entries"]["taskmem"]["llm"]
    assert found["allowedModels"] == ["theirs/big", "local/small"]


def test_what_else_is_said_of_the_plugin_stays():
    config = {"plugins": {"entries": {"taskmem": {"hooks": {"timeoutMs": 5}}}}}
    entry = config_after(config)["plugins"]["entries"]["taskmem"]
    assert entry["hooks"] == {"timeoutMs": 5, "allowConversationAccess": True}


def test_a_link_to_where_the_plugin_was_goes_and_others_stay():
    config = {"plugins": {"load": {"paths": ["/old/gateway", "/theirs"]}}}
    assert find_value(config_after(config), plan.LOAD) == ["/theirs", "/new/gateway"]


@pytest.mark.parametrize(
    ("allow", "after"),
    [(None, None), ([], []), (["x"], ["x", "taskmem"]), (["taskmem"], ["taskmem"])],
)
def test_a_list_of_plugins_is_extended_and_never_made(allow, after):
    config = {"plugins": {} if allow is None else {"allow": allow}}
    assert find_value(config_after(config, everything=False), plan.ALLOW_LIST) == after


@pytest.mark.parametrize(
    ("plugins", "word"),
    [({"enabled": False}, "plugins.enabled"), ({"deny": ["taskmem"]}, "plugins.deny")],
)
def test_what_the_operator_has_ruled_out_is_refused(plugins, word):
    with pytest.raises(plan.SetupRefused, match=word):
        plan.plan_plugin({"plugins": plugins}, DESIRED)


def test_a_refused_access_is_offered_as_one():
    config = {"plugins": {"entries": {"taskmem": {"hooks": {"allowConversationAccess": False}}}}}
    [change] = [each for each in permissions(config) if not each.needed]
    assert "which you have refused" in change.what


# --- tools in sight, as measured with OpenClaw 2026.9.6 ------------------------


@pytest.mark.parametrize(
    ("tools", "after"),
    [
        ({}, {}),
        ({"profile": "full"}, {"profile": "full"}),
        ({"alsoAllow": ["x"]}, {"alsoAllow": ["x"]}),
        ({"profile": "coding"}, {"profile": "coding", "alsoAllow": ["taskmem"]}),
        (
            {"profile": "minimal", "alsoAllow": ["x"]},
            {"profile": "minimal", "alsoAllow": ["x", "taskmem"]},
        ),
        (
            {"profile": "minimal", "alsoAllow": ["group:plugins"]},
            {"profile": "minimal", "alsoAllow": ["group:plugins"]},
        ),
        (
            {"profile": "minimal", "alsoAllow": ["task_*", "smart_wait"]},
            {"profile": "minimal", "alsoAllow": ["task_*", "smart_wait", "taskmem"]},
        ),
        (
            {"profile": "minimal", "alsoAllow": ["task_register", "Smart_Wait"]},
            {"profile": "minimal", "alsoAllow": ["task_register", "Smart_Wait"]},
        ),
        ({"allow": ["exec"]}, {"allow": ["exec", "taskmem"]}),
        ({"allow": []}, {"allow": ["taskmem"]}),
        ({"allow": ["*"]}, {"allow": ["*"]}),
        (
            {"byProvider": {"x": {"profile": "minimal"}}},
            {"byProvider": {"x": {"profile": "minimal", "alsoAllow": ["taskmem"]}}},
        ),
    ],
)
def test_tools_are_brought_into_sight_where_they_are_hidden(tools, after):
    assert config_after({"tools": tools})["tools"] == after


def test_a_profile_that_the_manifest_names_needs_nothing():
    assert offers({"tools": {"profile": "coding"}}, KNOWING) == []
    assert offers({"tools": {"profile": "minimal"}}, KNOWING) == ["taskmem in tools.alsoAllow"]


def agents(**tools):
    return {"agents": {"entries": {"main": {"tools": tools}}}}


def test_an_agent_with_a_list_of_its_own_is_seen_to():
    assert config_after(agents(allow=["exec"]))["agents"] == {
        "entries": {"main": {"tools": {"allow": ["exec", "taskmem"]}}}
    }


def test_an_agent_that_inherits_what_is_allowed_needs_nothing():
    config = {"tools": {"profile": "coding"}, **agents(profile="minimal")}
    assert offers(config) == ["taskmem in tools.alsoAllow"]


def test_an_agent_that_would_no_longer_inherit_keeps_what_it_had():
    config = {"tools": {"alsoAllow": ["x"]}, **agents(profile="coding")}
    tools = config_after(config)["agents"]["entries"]["main"]["tools"]
    assert tools["alsoAllow"] == ["x", "taskmem"]


def test_an_agent_with_an_exception_of_its_own_needs_ours_in_it():
    config = {"tools": {"profile": "coding"}, **agents(alsoAllow=["x"])}
    after = config_after(config)
    assert after["tools"]["alsoAllow"] == ["taskmem"]
    tools = after["agents"]["entries"]["main"]["tools"]
    assert tools["alsoAllow"] == ["x", "taskmem"]


@pytest.mark.parametrize(
    ("config", "word"),
    [
        ({"tools": {"deny": ["group:plugins"]}}, "tools.deny"),
        ({"tools": {"profile": "coding", "allow": ["exec"]}}, "tools.alsoAllow"),
        ({"agents": {"list": [{"id": "main"}]}}, "agents.list"),
    ],
)
def test_what_only_a_person_can_change_is_noted_and_left(config, word):
    planned = plan.plan_plugin(config, DESIRED)
    assert [word in note for note in planned.notes] == [True]
    after = apply_changes(config, planned.changes)
    assert {key: after[key] for key in config} == config


@pytest.mark.parametrize(
    ("gate", "after"),
    [
        (None, {"alsoAllow": ["taskmem"]}),
        ({"allow": ["exec"]}, {"allow": ["exec", "taskmem"]}),
        ({"allow": []}, {"allow": []}),
        ({"alsoAllow": ["group:plugins"]}, {"alsoAllow": ["group:plugins"]}),
    ],
)
def test_sandboxed_sessions_get_the_tools_listed(gate, after):
    config = {"agents": {"defaults": {"sandbox": {"mode": "all"}}}}
    if gate is not None:
        config["tools"] = {"sandbox": {"tools": gate}}
    assert find_value(config_after(config), ("tools", "sandbox", "tools")) == after


def test_no_sandbox_needs_no_gate():
    config = {"agents": {"defaults": {"sandbox": {"mode": "off"}}}}
    assert offers(config) == []


# --- the same tools twice ------------------------------------------------------


@pytest.mark.parametrize(
    "server",
    [
        SERVER,
        {"command": "taskmem", "args": ["mcp"]},
        {"command": "/bin/python3", "args": ["-m", "openclaw_taskmem", "mcp"]},
        {"command": "/bin/python3", "args": ["-E", "-P", "-m", "openclaw_taskmem", "mcp"]},
        {"command": "/bin/python3", "args": [*OWN_PROGRAM[1:], "mcp"]},
    ],
)
def test_our_own_server_is_offered_to_be_switched_off(server):
    config = {"mcp": {"servers": {"mine": server, "theirs": {"command": "x"}}}}
    assert offers(config) == ["the MCP server mine switched off"]
    assert find_value(config_after(config), ("mcp", "servers")) == {
        "mine": {**server, "enabled": False},
        "theirs": {"command": "x"},
    }


@pytest.mark.parametrize(
    "server",
    [
        {**SERVER, "enabled": False},
        {"command": "taskmem", "args": ["mcp", "--other"]},
        {"command": "not-taskmem", "args": ["mcp"]},
        {"url": "http://127.0.0.1:1"},
        "nonsense",
    ],
)
def test_any_other_server_is_left_alone(server):
    assert offers({"mcp": {"servers": {"taskmem": server}}}) == []


def test_the_plugin_and_the_bundle_exclude_each_other():
    bundle = {"plugins": {"entries": {"taskmem-mcp": {"enabled": True}}}}
    with pytest.raises(plan.SetupRefused, match="--remove first"):
        plan.plan_plugin(bundle, DESIRED)
    with pytest.raises(plan.SetupRefused, match="--remove first"):
        plan.plan_bundle(config_after({}), DESIRED)


def test_the_bundle_says_where_this_installation_is():
    config = {}
    after = apply_changes(config, plan.plan_bundle(config, DESIRED).changes)
    assert after == {
        "plugins": {"entries": {"taskmem-mcp": {"enabled": True}}},
        "mcp": {
            "servers": {
                "taskmem": {
                    "command": "/bin/taskmem",
                    "args": ["mcp"],
                    "env": {"TASKMEM_HOME": "/data", "TASKMEM_TOOLS": "runs"},
                }
            }
        },
    }


def test_the_bundle_leaves_a_server_of_ours_as_it_is():
    config = {"mcp": {"servers": {"mine": SERVER}}}
    after = apply_changes(config, plan.plan_bundle(config, DESIRED).changes)
    assert after["mcp"] == config["mcp"]


# --- any configuration ---------------------------------------------------------

WORDS = st.lists(st.sampled_from(("exec", "taskmem", "group:plugins", "*")), unique=True)
POLICIES = st.fixed_dictionaries(
    {},
    optional={
        "profile": st.sampled_from(("minimal", "coding", "full")),
        "deny": WORDS,
        "sandbox": st.fixed_dictionaries(
            {}, optional={"tools": st.fixed_dictionaries({}, optional={"allow": WORDS})}
        ),
    },
).flatmap(
    lambda said: st.sampled_from(("allow", "alsoAllow", "none")).flatmap(
        lambda key: WORDS.map(lambda words: {**said, key: words} if key != "none" else said)
    )
)
ENTRIES = st.fixed_dictionaries(
    {},
    optional={
        "enabled": st.booleans(),
        "config": st.fixed_dictionaries({"home": st.sampled_from(("/data", "/other"))}),
        "hooks": st.fixed_dictionaries({"allowConversationAccess": st.booleans()}),
    },
)
PATHS = st.lists(st.sampled_from(("/old/gateway", "/new/gateway", "/theirs")), unique=True)
CONFIGS = st.fixed_dictionaries(
    {"gateway": st.just({"auth": {"token": "secret"}})},
    optional={
        "plugins": st.fixed_dictionaries(
            {},
            optional={
                "allow": WORDS,
                "load": st.fixed_dictionaries({}, optional={"paths": PATHS}),
                "entries": st.fixed_dictionaries(
                    {}, optional={"taskmem": ENTRIES, "theirs": ENTRIES}
                ),
            },
        ),
        "tools": POLICIES,
        "agents": st.fixed_dictionaries(
            {},
            optional={
                "defaults": st.just({"sandbox": {"mode": "all"}}),
                "entries": st.fixed_dictionaries(
                    {}, optional={"main": POLICIES.map(lambda said: {"tools": said})}
                ),
            },
        ),
        "mcp": st.just({"servers": {"mine": SERVER, "theirs": {"url": "http://x"}}}),
    },
)


@given(CONFIGS, st.booleans())
def test_setting_up_twice_is_as_if_once(config, everything):
    once = config_after(config, everything=everything)
    assert is_same_json(config_after(once, everything=everything), once)
    if everything:
        assert permissions(once) == []


@given(CONFIGS)
def test_of_all_that_may_be_refused_it_is_said_what_that_takes(config):
    changes = plan.plan_plugin(config, DESIRED).changes
    assert all(each.gives for each in changes)
    assert all(each.without and each.because for each in changes if not each.needed)


@given(CONFIGS)
def test_the_way_back_is_known_for_any_configuration(config):
    after = config_after(config)
    assert is_same_json(apply_patch(after, build_patch(after, config)), config)


@given(CONFIGS)
def test_nothing_else_is_ever_touched(config):
    after = config_after(config)
    assert after["gateway"] == config["gateway"]
    theirs = ("plugins", "entries", "theirs")
    assert find_value(after, theirs) == find_value(config, theirs)
    theirs = ("mcp", "servers", "theirs")
    assert find_value(after, theirs) == find_value(config, theirs)
    assert find_value(after, ("tools", "deny")) == find_value(config, ("tools", "deny"))


@given(CONFIGS)
def test_no_trace_is_left_when_all_is_taken_out(config):
    left = plan.remove_traces(config_after(config), DESIRED, ())
    assert "taskmem" not in str(find_value(left, ("plugins", "entries")) or "")
    assert plan.list_plugin_paths(left, DESIRED) == []
    assert plan.list_own_servers(left) == []
    for path in plan.list_scopes(left):
        for key in ("allow", "alsoAllow"):
            assert "taskmem" not in (find_value(left, (*path, key)) or [])
    assert left["gateway"] == config["gateway"]
    assert is_same_json(plan.remove_traces(left, DESIRED, ()), left)


def test_an_emptied_list_of_what_is_allowed_stays_a_list():
    config = {"tools": {"allow": ["taskmem"]}, "plugins": {"allow": ["taskmem"]}}
    assert plan.remove_traces(config, DESIRED, ()) == {
        "tools": {"allow": []},
        "plugins": {"allow": []},
    }
