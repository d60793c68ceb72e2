from __future__ import annotations

from typing import Any

import pytest

from openclaw_taskmem.daemon.dispatcher import parse_feed
from taskmem_hookspecs import InvalidArguments


def test_a_piece_comes_as_text_or_as_base64() -> None:
    target, output = parse_feed({"target": "pty:crisp-ridge", "text": "é\n"})
    assert (str(target), output.data) == ("pty:crisp-ridge", "é\n".encode())
    assert output.exit_status is None

    _, output = parse_feed({"target": "pty:a", "data": "/wA=", "exit_status": -9})
    assert (output.data, output.exit_status) == (b"\xff\x00", -9)


def test_an_end_may_come_without_a_piece() -> None:
    assert parse_feed({"target": "pty:a", "exit_status": 0})[1].data == b""


@pytest.mark.parametrize(
    "given",
    [
        {"text": "a"},
        {"target": 5, "text": "a"},
        {"target": "nowhere", "text": "a"},
        {"target": "pty:a", "data": "not base64!"},
        {"target": "pty:a", "text": 5},
        {"target": "pty:a", "text": "a", "exit_status": True},
        {"target": "pty:a", "text": "a", "exit_status": "0"},
        {"target": "pty:a", "text": "a", "exit_status": 10**20},
    ],
)
def test_anything_else_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidArguments):
        parse_feed(given)
