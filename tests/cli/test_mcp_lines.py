import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_taskmem.cli.relay import (
    LineSplitter,
    TruncatedLine,
    find_request_id,
    read_message,
)

TEXTS = st.text(max_size=20) | st.sampled_from(
    ['"id":9}', '\\"id\\":9}', '{"id":9}', '"method":"x"', "\\", '"', "\n"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(TEXTS | st.sampled_from(["id", "method"]), inner, max_size=3)
    ),
    max_leaves=8,
)
MEMBERS = {
    "jsonrpc": st.just("2.0"),
    "id": st.integers(-(10**18) + 1, 10**18 - 1) | TEXTS,
    "method": st.sampled_from(["tools/call", "ping", "o'd\"d"]) | TEXTS,
    "params": VALUES,
    "result": VALUES,
}


@st.composite
def documents(draw):
    names = draw(st.permutations(sorted(MEMBERS)))[: draw(st.integers(0, 5))]
    either = draw(st.sampled_from(["method", "result"]))
    return {name: draw(MEMBERS[name]) for name in names if name != either}


@settings(deadline=None)
@given(
    documents(),
    st.sampled_from([(",", ":"), (", ", ": ")]),
    st.booleans(),
    st.sampled_from([0, 5000, 20_000]),
)
def test_a_glance_finds_what_reading_it_all_would(document, gaps, escape, more):
    if "params" in document:
        document["params"] = [document["params"], "x" * more]
    text = json.dumps(document, separators=gaps, ensure_ascii=escape)
    message = read_message(text.encode() + b"\n")
    assert (message.id, message.method) == (document.get("id"), document.get("method"))


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"hello\n",
        b"\xff\xfe\n",
        b"[]\n",
        b"[" * 100_000 + b"\n",
        b'{"id":[1],"method":7}\n',
        b'{"id":true}\n',
        b'{"id":' + b"9" * 5000 + b"}\n",
    ],
)
def test_what_is_no_message_has_neither_id_nor_method(line):
    message = read_message(line)
    assert (message.id, message.method) == (None, None)


@pytest.mark.parametrize("params", [None, [], {}, {"requestId": [1]}])
def test_a_cancellation_that_names_no_request_cancels_none(params):
    said = {"method": "notifications/cancelled", "params": params}
    assert read_message(json.dumps(said).encode()).cancels is None


@settings(deadline=None)
@given(st.lists(st.binary(max_size=30)), st.integers(1, 20))
def test_lines_are_cut_the_same_however_they_come(parts, size):
    whole = b"".join(parts)
    lines = LineSplitter()
    found = [
        line
        for start in range(0, len(whole), size)
        for line in lines.cut(whole[start : start + size])
    ]
    assert b"".join(found) + lines.take_remainder() == whole
    assert all(line.find(b"\n") == len(line) - 1 for line in found)


@settings(deadline=None)
@given(st.integers(1, 50))
def test_only_a_line_over_the_limit_is_too_long(size):
    lines = LineSplitter(10)
    found = [*lines.cut(b"123456789\n"), *lines.cut(b"1234567890\n1\n")]
    assert [isinstance(line, TruncatedLine) for line in found] == [False, True, False]
    assert found[::2] == [b"123456789\n", b"1\n"]


def too_long(document, step=1 << 20):
    lines = LineSplitter(100_000)
    line = json.dumps(document, separators=(",", ":")).encode() + b"\n"
    for start in range(0, len(line), step):
        for found in lines.cut(line[start : start + step]):
            assert isinstance(found, TruncatedLine)
            return found
    raise AssertionError


TEXT = "x" * 200_000


@pytest.mark.parametrize("step", [1 << 20, 100, 99_999])
@pytest.mark.parametrize(
    "document",
    [
        {"jsonrpc": "2.0", "id": 7, "method": "a", "params": TEXT},
        {"method": "a", "params": TEXT, "jsonrpc": "2.0", "id": 7},
    ],
)
def test_overlong_request_id_is_found_at_both_ends(document, step):
    assert find_request_id(too_long(document, step)) == 7


@pytest.mark.parametrize(
    "document",
    [
        {"jsonrpc": "2.0", "id": 7, "result": TEXT},
        {"result": TEXT, "jsonrpc": "2.0", "id": 7},
        {"method": "a", "params": TEXT, "jsonrpc": "2.0"},
        {"jsonrpc": "2.0", "params": TEXT, "id": 7, "method": "a"},
    ],
)
def test_what_is_too_long_and_no_plain_request_has_no_id(document):
    assert find_request_id(too_long(document)) is None


def test_a_line_that_is_too_long_is_not_kept():
    lines = LineSplitter(10_000)
    for _ in range(100):
        assert list(lines.cut(b"x" * 10_000)) == []
    assert len(lines.take_remainder()) < 10_000
