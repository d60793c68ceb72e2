"""One entry goes in or out of a text, and every other byte stays as it was."""

import json
import tomllib

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from taskmem_openclaw.setup.splicing import Unreadable, json_with, toml_with

PATH = ("mcpServers", "taskmem")
TABLE = ("mcp_servers", "taskmem")
ENTRY = {"command": "/bin/taskmem", "args": ["mcp"], "env": {"TASKMEM_HOME": "/ü"}}

KEYS = st.sampled_from(("mcpServers", "taskmem", "other", 'a"b\\', "ü"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda below: (
        st.lists(below, max_size=2) | st.dictionaries(KEYS, below, max_size=3)
    ),
    max_leaves=8,
)
SERVERS = st.fixed_dictionaries({"mcpServers": st.dictionaries(KEYS, VALUES)})
DOCUMENTS = st.dictionaries(KEYS.filter(lambda key: key != "mcpServers"), VALUES)
STYLES = st.sampled_from(
    (
        {"indent": 2},
        {"indent": "\t", "ensure_ascii": False},
        {"indent": 4, "separators": (" ,", " : ")},
        {},
        {"separators": (",", ":")},
    )
)


@given(DOCUMENTS | SERVERS, STYLES, st.sampled_from(("", "\n")))
def test_any_json_takes_an_entry_and_gives_it_back(document, style, end):
    assume(document.get("mcpServers", {}).get("taskmem") is None)
    document.get("mcpServers", {}).pop("taskmem", None)
    text = json.dumps(document, **style) + end
    there = json_with(text, PATH, ENTRY)
    wanted = {**document, "mcpServers": {**document.get("mcpServers", {})}}
    wanted["mcpServers"]["taskmem"] = ENTRY
    assert json.loads(there) == wanted
    assert json_with(there, PATH, ENTRY) == there
    back = json_with(there, PATH, None)
    if document.get("mcpServers"):
        assert back == text
    else:
        assert json.loads(back) == {**document, "mcpServers": {}}


NUMBERS = """{
    "first":  1.0,   "big": 12345678901234567890,
    "exp": 1E5, "escaped": "\\u00fc",
    "mcpServers": {
        "other": { "command": "x" }
    },
    "list": [1,
       2]
}
"""


def test_nothing_else_of_a_json_text_changes():
    there = json_with(NUMBERS, PATH, {"command": "t", "args": ["mcp"]})
    added = """,
        "taskmem": {
            "command": "t",
            "args": [
                "mcp"
            ]
        }"""
    first, last = NUMBERS.split('"x" }')
    assert there == f'{first}"x" }}{added}{last}'


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ('{"mcpServers": {"taskmem": 1}}', '{"mcpServers": {}}'),
        ('{"mcpServers": {"taskmem": 1, "b": 2}}', '{"mcpServers": {"b": 2}}'),
        ('{"mcpServers": {"a": 1, "taskmem": 2}}', '{"mcpServers": {"a": 1}}'),
        ('{"a": 1}', '{"a": 1}'),
    ],
)
def test_an_entry_goes_with_its_comma(text, after):
    assert json_with(text, PATH, None) == after


def test_a_null_is_as_if_it_were_not_there():
    text = '{\n  "mcpServers": null,\n  "b": 1\n}\n'
    after = json_with(text, PATH, ENTRY)
    assert json.loads(after) == {"mcpServers": {PATH[1]: ENTRY}, "b": 1}
    assert json_with(text, PATH, None) == text


def test_an_empty_file_becomes_a_whole_one():
    assert json.loads(json_with("", PATH, ENTRY)) == {"mcpServers": {"taskmem": ENTRY}}
    assert json_with("", PATH, ENTRY).endswith("}\n")


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"mcpServers": []}',
        '{"mcpServers": {}, "mcpServers": {"a": 1}}',
        "[" * 100_000,
    ],
)
def test_a_json_text_that_cannot_be_changed_alone_is_refused(text):
    with pytest.raises(Unreadable):
        json_with(text, PATH, ENTRY)


TOMLS = [
    "",
    "# mine\nmodel = 'x'  # why\n",
    "model = 'x'",
    "[mcp_servers.other]\ncommand = 'x' # keep\n\n[profiles.a]\nb = 1\n",
    "[mcp_servers]\n[mcp_servers.other]\ncommand = 'x'\n",
    "[profiles]\na = 1\n\n[mcp_servers.other]\nx = 1\n\n[profiles.sub]\nb = 2\n",
]


@pytest.mark.parametrize("text", TOMLS)
def test_any_toml_takes_a_table_and_gives_it_back(text):
    before = tomllib.loads(text)
    there = toml_with(text, TABLE, ENTRY)
    servers = {**before.get("mcp_servers", {}), "taskmem": ENTRY}
    assert tomllib.loads(there) == {**before, "mcp_servers": servers}
    assert there.startswith(text)
    assert toml_with(there, TABLE, ENTRY) == there
    back = toml_with(there, TABLE, None)
    assert back.strip() == text.strip()


def test_a_table_that_is_there_is_changed_where_it_is():
    text = "[mcp_servers.taskmem]\ncommand = 'old'\n\n# theirs\n[after]\na = 1\n"
    there = toml_with(text, TABLE, ENTRY)
    assert tomllib.loads(there) == {
        "mcp_servers": {"taskmem": ENTRY},
        "after": {"a": 1},
    }
    assert there.endswith("\n\n# theirs\n[after]\na = 1\n")


def test_a_comment_after_a_table_stays_when_the_table_goes():
    text = (
        "a = 1\n\n[mcp_servers.taskmem]\ncommand = 'x'\n\n[mcp_servers.taskmem.env]\n"
        "A = 'b'\n\n# theirs\n[after]\nb = 2\n"
    )
    assert toml_with(text, TABLE, None) == "a = 1\n\n\n# theirs\n[after]\nb = 2\n"


def test_a_comment_at_the_end_stays_when_the_table_goes():
    text = "[mcp_servers.taskmem]\ncommand = 'x'\n# theirs\n"
    assert toml_with(text, TABLE, None) == "# theirs\n"


@pytest.mark.parametrize(
    "text",
    [
        "mcp_servers = { other = { command = 'x' } }  # mine\n",
        "mcp_servers = { taskmem = { command = 'x' }, other = {} }\n",
        "[mcp_servers]\ntaskmem = { command = 'x' }\nother = { command = 'y' }\n",
    ],
)
def test_tables_without_a_header_are_changed_too(text):
    before = tomllib.loads(text)
    others = {k: v for k, v in before["mcp_servers"].items() if k != "taskmem"}
    there = tomllib.loads(toml_with(text, TABLE, ENTRY))
    assert there == {**before, "mcp_servers": {**others, "taskmem": ENTRY}}
    left = tomllib.loads(toml_with(text, TABLE, None))
    assert left.pop("mcp_servers", {}) == others
    assert left == {k: v for k, v in before.items() if k != "mcp_servers"}


@pytest.mark.parametrize(
    "text",
    [
        "[",
        "mcp_servers = 3\n",
        "mcp_servers = []\n",
        "mcp_servers.taskmem.command = 'x'\nb = 2\n",
    ],
)
def test_a_toml_text_that_cannot_be_changed_alone_is_refused(text):
    with pytest.raises(Unreadable):
        toml_with(text, TABLE, ENTRY)
