import json
import os
import sys
from importlib import import_module

import pytest

from openclaw_taskmem import mcp_answers
from openclaw_taskmem.home import find_home
from openclaw_taskmem.mcp_answers import ListedTools, answer_hello, find_protocol
from openclaw_taskmem.mcp_lines import read_message

OLDER, NEWER = mcp_answers.OLDER_PROTOCOLS[-1], mcp_answers.NEWER_PROTOCOLS[-1]
RESULT = {"tools": [{"name": "task_register"}]}
ANSWER = json.dumps({"id": 1, "result": RESULT}).encode()


@pytest.fixture
def home(tmp_path):
    found = find_home({"TASKMEM_HOME": str(tmp_path / "home")})
    found.prepare()
    return found


@pytest.fixture
def file(home):
    """What is kept for the newer protocol."""
    ListedTools(home, {}).keep_answer(NEWER, ANSWER)
    return home.folder / f"tools-{NEWER}.json"


def test_the_protocols_are_those_of_the_sdk():
    version = import_module("mcp_types.version")
    assert version.HANDSHAKE_PROTOCOL_VERSIONS == mcp_answers.OLDER_PROTOCOLS
    assert version.MODERN_PROTOCOL_VERSIONS == mcp_answers.NEWER_PROTOCOLS


def build_request(method, **params):
    return read_message(json.dumps({"id": 1, "method": method, "params": params}).encode())


def build_meta(**told):
    told = {"protocolVersion": NEWER, "clientCapabilities": {}} | told
    return {f"io.modelcontextprotocol/{name}": value for name, value in told.items()}


@pytest.mark.parametrize(
    "meta",
    [
        None,
        5,
        {},
        {"io.modelcontextprotocol/protocolVersion": NEWER},
        build_meta(protocolVersion="2027-01-01"),
        build_meta(protocolVersion=[NEWER]),
        build_meta(clientCapabilities={"extensions": 5}),
        build_meta(clientInfo={"name": "a"}),
        build_meta(more="x" * 20_000),
    ],
)
def test_what_only_the_sdk_can_judge_is_not_answered(meta):
    assert answer_hello(build_request("server/discover", _meta=meta)) is None
    assert find_protocol(build_request("tools/list", _meta=meta), NEWER) is None


def test_a_list_is_of_the_protocol_that_was_greeted():
    plain, newer = build_request("tools/list"), build_request("tools/list", _meta=build_meta())
    assert [find_protocol(plain, each) for each in (None, OLDER, NEWER)] == [None, OLDER, None]
    assert [find_protocol(newer, each) for each in (None, OLDER, NEWER)] == [NEWER, None, NEWER]
    assert find_protocol(build_request("tools/list", cursor="a"), OLDER) is None


def test_what_was_kept_is_read_by_the_next(home, file):
    assert (
        ListedTools(home, {"TASKMEM_HOME": "elsewhere", "PATH": "/"}).read_result(NEWER) == RESULT
    )
    assert ListedTools(home, {}).read_result(OLDER) is None
    assert file.stat().st_mode & 0o777 == 0o600


def test_an_error_is_not_kept(home, file):
    ListedTools(home, {}).keep_answer(NEWER, b'{"id":1,"error":{"code":-1,"message":"No."}}')
    assert ListedTools(home, {}).read_result(NEWER) == RESULT


def test_what_is_the_same_is_not_written_anew(home, file):
    before = file.stat()
    ListedTools(home, {}).keep_answer(NEWER, ANSWER)
    assert file.stat() == before


def test_what_a_killed_relay_left_stops_none(home, file):
    file.unlink()
    file.with_suffix(".new").write_text("ha")
    ListedTools(home, {}).keep_answer(NEWER, ANSWER)
    assert ListedTools(home, {}).read_result(NEWER) == RESULT
    assert list(home.folder.iterdir()) == [file]


@pytest.mark.parametrize("change", ["version", "variable", "setting", "package"])
def test_what_was_kept_in_other_circumstances_is_not_used(
    home, file, change, monkeypatch, tmp_path
):
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    ListedTools(home, {}).keep_answer(NEWER, ANSWER)
    variables = {}
    if change == "version":
        monkeypatch.setattr(mcp_answers, "__version__", "0.0.1")
    elif change == "variable":
        variables = {"TASKMEM_TOOLS": "runs"}
    elif change == "setting":
        home.config.write_text('tools = "runs"\n')
    else:
        (tmp_path / "more.dist-info").mkdir()
        os.utime(tmp_path, ns=(1, 1))
    assert ListedTools(home, variables).read_result(NEWER) is None


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b"null", b'{"result":{}}', b"[" * 10_000])
def test_a_broken_file_is_not_used(home, file, content):
    file.write_bytes(content)
    assert ListedTools(home, {}).read_result(NEWER) is None


@pytest.mark.parametrize("kind", ["open", "link", "pipe", "folder", "long"])
def test_a_file_that_is_not_our_own_is_not_used(home, file, kind, tmp_path):
    if kind == "open":
        file.chmod(0o622)
    elif kind == "link":
        file.symlink_to(file.rename(tmp_path / "tools"))
    elif kind == "pipe":
        file.unlink()
        os.mkfifo(file)
    elif kind == "folder":
        file.unlink()
        file.mkdir()
    else:
        file.write_bytes(file.read_bytes() + b" " * (1 << 20))
    assert ListedTools(home, {}).read_result(NEWER) is None
    ListedTools(home, {}).keep_answer(NEWER, ANSWER)
