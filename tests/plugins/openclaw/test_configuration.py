"""What is read of OpenClaw's configuration, and what becomes of a broken one."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmem_openclaw import configuration
from taskmem_openclaw.configuration import Webhooks
from taskmem_openclaw.setup import openclaw

SAID = "secret"
ON = '{hooks: {enabled: true, token: "secret"}}'


@pytest.fixture
def config(tmp_path):
    """Writes a configuration and gives the environment that names it."""

    def write(text, **more):
        path = tmp_path / "openclaw.json"
        path.write_text(text, encoding="utf-8")
        return {"OPENCLAW_CONFIG_PATH": str(path), **more}

    return write


# --- where it is --------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"HOME": "/h"}, "/h/.openclaw/openclaw.json"),
        ({"HOME": "/h", "OPENCLAW_HOME": "/o"}, "/o/.openclaw/openclaw.json"),
        ({"HOME": "/h", "OPENCLAW_STATE_DIR": "/s"}, "/s/openclaw.json"),
        ({"OPENCLAW_STATE_DIR": "/s", "OPENCLAW_CONFIG_PATH": "/c/x"}, "/c/x"),
        ({"HOME": "/h", "OPENCLAW_STATE_DIR": ""}, "/h/.openclaw/openclaw.json"),
    ],
)
def test_the_configuration_is_where_openclaw_looks_for_it(environ, path):
    assert configuration.find_config_file(environ) == Path(path)


def test_a_tilde_is_the_users_home(monkeypatch):
    monkeypatch.setenv("HOME", "/h")
    assert configuration.find_config_file({}) == Path("/h/.openclaw/openclaw.json")
    named = {"OPENCLAW_STATE_DIR": "~/state"}
    assert configuration.find_config_file(named) == Path("/h/state/openclaw.json")


def test_it_is_the_file_that_was_set_up_with_the_home(config, tmp_path):
    """A shell that has not OpenClaw's variable may start the daemon."""
    file = config("{plugins: {entries: {taskmem: {enabled: true}}}}")["OPENCLAW_CONFIG_PATH"]
    environ = {"HOME": str(tmp_path), "TASKMEM_HOME": str(tmp_path / "home")}
    assert not configuration.may_want_plugin(environ)
    assert "OPENCLAW_CONFIG_PATH" not in configuration.build_environment(environ)

    openclaw._save_record(tmp_path / "home", openclaw.SetupRecord(file, folder="/plugin"))
    assert configuration.may_want_plugin(environ)
    assert configuration.build_environment(environ)["OPENCLAW_CONFIG_PATH"] == file
    own = {**environ, "OPENCLAW_CONFIG_PATH": "/c/x"}
    assert configuration.find_config_file(own) == Path("/c/x")
    moved = {**environ, "OPENCLAW_STATE_DIR": "/s"}
    assert configuration.find_config_file(moved) == Path("/s/openclaw.json")

    Path(file).unlink()
    default = tmp_path / ".openclaw" / "openclaw.json"
    assert configuration.find_config_file(environ) == default


# --- what it says -------------------------------------------------------------


def test_it_is_read_with_comments_and_all_that_people_write(config):
    environ = config(
        """\
        // where the gateway listens
        {
          gateway: { port: 0x4e20, /* 20000 */ },
          "hooks": { 'enabled': true, token: 'se"cret', path: "/wake-me/", },
        }
        """
    )
    assert configuration.find_webhooks(environ) == Webhooks(
        "http://127.0.0.1:20000/wake-me", 'se"cret', 20000
    )


def test_what_it_does_not_say_is_as_openclaw_has_it(config):
    assert configuration.find_webhooks(config(ON)) == Webhooks(
        "http://127.0.0.1:18789/hooks", "secret", 18789
    )


def test_hooks_token_is_read_from_the_environment(config):
    text = '{hooks: {enabled: true, token: "${HOOKS_TOKEN}"}}'
    found = configuration.find_webhooks(config(text, HOOKS_TOKEN=SAID))
    assert found == Webhooks("http://127.0.0.1:18789/hooks", SAID, 18789)
    assert configuration.find_webhooks(config(text)) is None
    assert configuration.find_webhooks(config(text, HOOKS_TOKEN="")) is None


@pytest.mark.parametrize(
    ("port", "found"),
    [
        ("20000", 20000),
        ('"20000"', 20000),
        ('"${PORT}"', 20000),
        ('"${NOBODYS}"', None),
        ('"many"', None),
        ("true", None),
        ("-1", None),
        ("{}", None),
    ],
)
def test_port_is_read_in_any_notation_or_no_hooks_are_found(config, port, found):
    text = f'{{gateway: {{port: {port}}}, hooks: {{enabled: true, token: "x"}}}}'
    hooks = configuration.find_webhooks(config(text, PORT="20000"))
    assert (hooks and hooks.url) == (found and f"http://127.0.0.1:{found}/hooks")


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{hooks: {token: "x"}}',
        '{hooks: {enabled: false, token: "x"}}',
        '{hooks: {enabled: "true", token: "x"}}',
        "{hooks: {enabled: true}}",
        '{hooks: {enabled: true, token: ""}}',
        '{hooks: {enabled: true, token: {source: "env", id: "X"}}}',
        '{hooks: "on"}',
    ],
)
def test_webhooks_that_are_off_or_without_a_token_are_not_there(config, text):
    assert configuration.find_webhooks(config(text)) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "null", "{hooks: ", "\0", "[" * 20_000])
def test_a_broken_configuration_is_none(config, text):
    assert configuration.read_config(config(text)) is None
    assert configuration.find_webhooks(config(text)) is None


def test_a_configuration_that_cannot_be_read_is_none(config, tmp_path):
    environ = config(ON)
    (tmp_path / "openclaw.json").write_bytes(b"\xff\xfe{}")
    assert configuration.read_config(environ) is None
    missing = {"OPENCLAW_CONFIG_PATH": str(tmp_path / "missing.json")}
    assert configuration.read_config(missing) is None
    assert configuration.read_config({"OPENCLAW_CONFIG_PATH": str(tmp_path)}) is None


def test_reading_makes_nothing(tmp_path):
    configuration.read_config({"HOME": str(tmp_path)})
    assert list(tmp_path.iterdir()) == []


@given(st.text(max_size=40))
def test_whatever_the_file_holds_it_is_a_configuration_or_none(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_text(text, encoding="utf-8", errors="replace")
    found = configuration.read_config({"OPENCLAW_CONFIG_PATH": str(path)})
    assert found is None or isinstance(found, dict)
