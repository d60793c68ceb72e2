import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mcp.types import JSONRPCRequest

from openclaw_taskmem.mcp_lines import (
    LineRefused,
    LineSplitter,
    TruncatedLine,
    find_request_id,
    fit_for_parser,
    read_message,
    split_batch,
)
from tests.support.mcp_lines import check_line

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
    method = None if "result" in document else document.get("method", "")
    assert (message.id, message.method) == (document.get("id"), method)


ID_TEXTS = (
    *(
        "7",
        "-0.0",
        "7.0",
        "1.5",
        "1e308",
        "1e999",
        "-Infinity",
        "NaN",
        "01",
        "9" * 5000,
        "9" * 4000,
    ),
    *('"a"', '""', '"\\q"', '"\\ud800x"', '"a\x01"', '"a', "null", "true", "[7]", '{"id":7}'),
)
METHOD_TEXTS = ('"ping"', '"a\\q"', '"\\ud800"', '"a', "5", "null", "[]", '""')
MEMBER_TEXTS = {
    "jsonrpc": st.sampled_from(['"2.0"', '"1.0"', "2"]),
    "id": st.sampled_from(ID_TEXTS),
    "method": st.sampled_from(METHOD_TEXTS),
    "result": st.sampled_from(["{}", "NaN", '"x']),
}


@st.composite
def odd_lines(draw):
    """Lines that are nearly a message: any ids, an order of their own, a few bytes changed."""
    names = draw(st.lists(st.sampled_from(sorted(MEMBER_TEXTS)), max_size=6))
    parts = [f'"{name}":{draw(MEMBER_TEXTS[name])}' for name in names]
    text = draw(st.sampled_from(["x", '\\"id\\":9}', "{{[,"])) * draw(st.sampled_from([1, 9_000]))
    params = draw(st.sampled_from(["", f'"params":{{"id":9,"a":"{text}"}}', '"params":[[1],"id"]']))
    at = draw(st.integers(0, len(parts)))
    members = ",".join([*parts[:at], *filter(None, [params]), *parts[at:]])
    line = bytearray(f"{{{members}}}".encode())
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, min(len(line), 300)))
        line[place : place + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    cut = draw(st.none() | st.integers(0, min(len(line), 300)))
    return bytes(line[:cut])


@settings(deadline=None)
@given(st.binary(max_size=100) | odd_lines())
@example(b" " * 300_000)
@example(b'{"id":1,"params":"' + b"[" * 101 + b'"' + b'\\"' * 200_000 + b"\\")
def test_a_line_is_answered_under_the_id_that_the_relay_keeps(line):
    check_line(line)


@pytest.mark.parametrize("text", ["1e999", "NaN", "01", '"\\q"', "[7]", "9" * 5000])
def test_a_request_whose_id_is_none_is_refused_under_none(text):
    line = b'{"jsonrpc":"2.0","id":%s,"method":"ping"}' % text.encode()
    assert (read_message(line).id, read_message(line).method) == (None, None)
    with pytest.raises(LineRefused) as refused:
        fit_for_parser(line)
    assert refused.value.to is None


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
        {"jsonrpc": "2.0", "method": "a", "id": 7, "params": TEXT},
        {"jsonrpc": "2.0", "params": {"id": 9, "a": TEXT}, "id": 7, "method": "a"},
        {"method": "a", "params": [TEXT], "id": 7, "jsonrpc": "2.0"},
        {"method": "a", "_meta": {"id": 9}, "id": 7, "params": [TEXT]},
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
        {"method": "a", "params": {"a": TEXT, "id": 7}},
        [{"method": "a", "params": TEXT, "id": 7}],
    ],
)
def test_what_is_too_long_and_no_plain_request_has_no_id(document):
    assert find_request_id(too_long(document)) is None


def test_a_line_that_is_too_long_is_not_kept():
    lines = LineSplitter(10_000)
    for _ in range(100):
        assert list(lines.cut(b"x" * 10_000)) == []
    assert len(lines.take_remainder()) < 10_000


CALL = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "task_list"}}


def write_call(**changes):
    return json.dumps(CALL | changes).encode() + b"\n"


def write_arguments(text):
    arguments = b'{"name":"task_list","arguments":' + text + b"}"
    return write_call(params=0).replace(b'"params": 0', b'"params": ' + arguments)


FITTED_LINES = {
    "byte order mark": b"\xef\xbb\xbf" + write_call(),
    "no jsonrpc": json.dumps({k: v for k, v in CALL.items() if k != "jsonrpc"}).encode(),
    "jsonrpc 1.0": write_call(jsonrpc="1.0"),
    "no params": write_call(params=None),
    "empty list of params": write_call(params=[]),
    "arguments as a list": write_arguments(b"[1]"),
    "arguments as text": write_arguments(b'"x"'),
    "5,000 digits": write_arguments(b'{"limit":' + b"9" * 5000 + b"}"),
    "no finite number": write_arguments(b'{"limit":1e999,"a":NaN,"b":-Infinity}'),
    "200,000 levels": write_arguments(b"[" * 200_000 + b"]" * 200_000),
    "a raw NUL": write_arguments(b'{"name":"a\x00b\x1b"}'),
    "half a character": write_arguments(b'{"name":"\\ud800"}'),
    "no UTF-8": write_arguments(b'{"name":"\xff"}'),
    "a key twice": write_arguments(b'{"name":"a","name":"b"}'),
    "whole number as a float": write_call(id=7.0),
    "carriage return": write_call().replace(b"\n", b"\r\n"),
}


@pytest.mark.parametrize("line", FITTED_LINES.values(), ids=FITTED_LINES)
def test_a_request_of_one_meaning_is_taken_by_the_parser(line):
    request = JSONRPCRequest.model_validate_json(fit_for_parser(line))

    assert (request.id, request.method) == (7, "tools/call")
    assert read_message(line).id == 7


REFUSED_LINES = {
    "no JSON": (b"hello\n", None),
    "JSON cut off": (write_call()[:-4], 7),
    "method cut off": (b'{"id":52,"method":"tools/li', 52),
    "id half a character": (write_call(id="\ud800x"), "\ud800x"),
    "a number alone": (b"7\n", None),
    "id with a fraction": (write_call(id=1.5), 1.5),
    "id null": (write_call(id=None), None),
    "id true": (write_call(id=True), None),
    "id as a list": (write_call(id=[7]), None),
    "params as a list": (write_call(params=[1]), 7),
    "params as text": (write_call(params="x"), 7),
    "method a number": (write_call(method=7), 7),
    "no method": (b'{"id": 7}\n', 7),
}


@pytest.mark.parametrize(("line", "to"), REFUSED_LINES.values(), ids=REFUSED_LINES)
def test_what_is_no_request_is_refused_under_its_id(line, to):
    with pytest.raises(LineRefused, match=r"\. Nothing was done\.$") as refused:
        fit_for_parser(line)
    assert refused.value.to == to


@pytest.mark.parametrize("line", [b"\n", b'{"method": 7}\n', b'{"method": "a", "params": [1]}\n'])
def test_what_asks_for_no_answer_gets_none(line):
    assert fit_for_parser(line) == ""


def test_each_message_of_a_batch_is_a_line():
    batch = json.dumps([CALL, CALL | {"id": 8}, 5]).encode()

    assert [read_message(line).id for line in split_batch(batch)] == [7, 8, None]


@pytest.mark.parametrize("line", [b"[]\n", b"[1\n", b" {}\n", b"\n"])
def test_what_is_no_batch_stays_as_it_is(line):
    assert split_batch(line) == [line]
