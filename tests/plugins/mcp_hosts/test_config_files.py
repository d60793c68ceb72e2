"""One entry goes in or out of a text; what others wrote stays, in its order."""

import json
import tomllib

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from taskmem_mcp_hosts.config_files import ClaudeJson, Toml, Unreadable

PATH = ("mcpServers", "taskmem")
TABLE = ("mcp_servers", "taskmem")
ENTRY = {"command": "/bin/taskmem", "args": ["mcp"], "env": {"TASKMEM_HOME": "/ü"}}

KEYS = st.sampled_from(("mcpServers", "taskmem", "other", 'a"b\\', "ü"))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda below: st.lists(below, max_size=2) | st.dictionaries(KEYS, below, max_size=3),
    max_leaves=8,
)
SERVERS = st.fixed_dictionaries({"mcpServers": st.dictionaries(KEYS, VALUES)})
DOCUMENTS = st.dictionaries(KEYS.filter(lambda key: key != "mcpServers"), VALUES)
STYLES = st.sampled_from(
    ({"indent": 2}, {"indent": "\t", "ensure_ascii": False}, {"indent": 4}, {})
)


@given(DOCUMENTS | SERVERS, STYLES, st.sampled_from(("", "\n")))
def test_any_json_takes_an_entry_and_gives_it_back(document, style, end):
    document.get("mcpServers", {}).pop("taskmem", None)
    assume(document.get("mcpServers") != {})
    text = json.dumps(document, **style) + end
    there = ClaudeJson().put(text, PATH, ENTRY)
    servers = {**document.get("mcpServers", {}), "taskmem": ENTRY}
    assert json.loads(there) == {**document, "mcpServers": servers}
    assert ClaudeJson().put(there, PATH, ENTRY) == there
    assert ClaudeJson().put(there, PATH, None) == text


def test_order_and_indent_of_a_json_text_stay():
    text = """{
    "z": 1.0,
    "mcpServers": {
        "taskmem": {
            "command": "old"
        },
        "other": {}
    },
    "a": "\\u00fc"
}
"""
    assert ClaudeJson().put(text, PATH, {"command": "ü"}) == text.replace("old", "\\u00fc")
    crlf = text.replace("\n", "\r\n")
    assert ClaudeJson().put(crlf, PATH, {"command": "ü"}).count("\r\n") == text.count("\n")


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ('{"mcpServers": {"taskmem": 1}, "a": 1}', '{"a": 1}'),
        ('{"mcpServers": {"taskmem": 1, "b": 2}}', '{"mcpServers": {"b": 2}}'),
        ('{"a": 1}', '{"a": 1}'),
        ('{"a": "ü\u2028"}\n', '{"a": "ü\u2028"}\n'),
        (r'{"a": "ü\ud800"}', r'{"a": "ü\ud800"}'),
    ],
)
def test_an_entry_goes_with_what_is_empty_by_that(text, after):
    assert ClaudeJson().put(text, PATH, None) == after


def test_a_null_is_as_if_it_were_not_there():
    after = ClaudeJson().put('{\n  "mcpServers": null,\n  "b": 1\n}\n', PATH, ENTRY)
    assert json.loads(after) == {"mcpServers": {PATH[1]: ENTRY}, "b": 1}


@pytest.mark.parametrize("text", ["", "{}"])
def test_an_empty_file_becomes_a_whole_one(text):
    after = ClaudeJson().put(text, PATH, ENTRY)
    assert json.loads(after) == {"mcpServers": {"taskmem": ENTRY}}
    assert after.startswith('{\n  "mcpServers": {\n')


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"mcpServers": []}', '{"a": 1, "a": 2}', '{"a": 1e999}', "[" * 100_000]
)
def test_a_json_text_that_cannot_be_written_again_is_refused(text):
    with pytest.raises(Unreadable):
        ClaudeJson().put(text, PATH, ENTRY)


TOMLS = [
    "",
    "# mine\nmodel = 'x'  # why\n",
    "model = 'x'",
    "[mcp_servers.other]\ncommand = 'x' # keep\n\n# mine\n[profiles.a]\nb = 1\n",
    "[mcp_servers]\n[mcp_servers.other]\ncommand = 'x'\n",
    "[profiles]\na = 1\n\n[mcp_servers.other]\nx = 1\n\n[profiles.sub]\nb = 2\n",
]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("text", TOMLS)
def test_any_toml_takes_a_table_and_gives_it_back(text, end):
    text = text.replace("\n", end)
    before = tomllib.loads(text)
    there = Toml().put(text, TABLE, ENTRY)
    servers = {**before.get("mcp_servers", {}), "taskmem": ENTRY}
    assert tomllib.loads(there) == {**before, "mcp_servers": servers}
    assert there.startswith(text)
    assert Toml().put(there, TABLE, ENTRY) == there
    assert there.count("\n") == there.count(end if end in text else "\n")
    whole = text if text.endswith("\n") or not text else f"{text}\n"
    assert Toml().put(there, TABLE, None) == whole


def test_a_table_that_is_there_is_changed_where_it_is():
    text = "[mcp_servers.taskmem]\ncommand = 'old'\n\n# theirs\n[after]\na = 1\n"
    there = Toml().put(text, TABLE, ENTRY)
    assert tomllib.loads(there) == {"mcp_servers": {"taskmem": ENTRY}, "after": {"a": 1}}
    assert there.endswith("\n\n# theirs\n[after]\na = 1\n")


PARTS = "[mcp_servers.taskmem]\ncommand = 'x'\n\n[mcp_servers.taskmem.env]\nA = 'b'\n"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"a = 1\n\n{PARTS}\n# theirs\n[after]\nb = 2\n", "# theirs\n[after]\n"),
        (f"[mcp_servers.a]\nb = 1\n\n{PARTS}\n# theirs\n", "b = 1\n\n\n# theirs\n"),
        ("[mcp_servers.taskmem]\ncommand = 'x'\n# theirs\n", "# theirs\n"),
        (PARTS.replace("\n\n", "\n\n# theirs\n[between]\n\n"), "# theirs\n[between]\n"),
    ],
)
def test_a_comment_after_a_table_stays_when_the_table_goes(text, left):
    after = Toml().put(text, TABLE, None)
    assert left in after
    assert "taskmem" not in after


@pytest.mark.parametrize(
    "text",
    [
        "mcp_servers = { taskmem = { command = 'x' } }\n",
        "mcp_servers = { other = { command = 'x' } }  # mine\n",
        "mcp_servers = { taskmem = { command = 'x' }, other = {} }\n",
        "[mcp_servers]\ntaskmem = { command = 'x' }\nother = { command = 'y' }\n",
    ],
)
def test_tables_without_a_header_are_changed_too(text):
    before = tomllib.loads(text)
    others = {k: v for k, v in before["mcp_servers"].items() if k != "taskmem"}
    there = tomllib.loads(Toml().put(text, TABLE, ENTRY))
    assert there == {**before, "mcp_servers": {**others, "taskmem": ENTRY}}
    left = tomllib.loads(Toml().put(text, TABLE, None))
    assert left.pop("mcp_servers", None) == (others or None)
    assert left == {k: v for k, v in before.items() if k != "mcp_servers"}


@pytest.mark.parametrize(
    "text",
    ["[", "mcp_servers = 3\n", "mcp_servers = []\n", "mcp_servers.taskmem.command = 'x'\nb = 2\n"],
)
def test_a_toml_text_that_cannot_be_changed_alone_is_refused(text):
    with pytest.raises(Unreadable):
        Toml().put(text, TABLE, ENTRY)
