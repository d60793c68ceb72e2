"""What is promised of every line of MCP, as the relay reads it and the daemon fits it."""

from __future__ import annotations

import json
from typing import Any, Final, cast

from mcp.types import JSONRPCRequest

from openclaw_taskmem.mcp_lines import (
    Id,
    LineRefused,
    TruncatedLine,
    build_refusal,
    find_request_id,
    fit_for_parser,
    read_message,
)

READ_BYTES: Final = 4096
"""Size of a line that a glance reads whole."""


def check_line(line: bytes) -> None:
    """Read and fit a line; a request is taken or refused under the id that the relay keeps.

    Raises:
        AssertionError: It is not, or an answer is no JSON.
    """
    message = read_message(line)
    asked = message.id if message.is_request else None
    request = parse_request(line)
    if request is not None:
        assert message.method is not None or not is_id(request["id"])
        assert asked == (request["id"] if is_id(request["id"]) else None)
    glanced = find_request_id(TruncatedLine(line))
    if len(line) <= READ_BYTES:
        assert glanced == asked or (glanced is request is None)
    try:
        fitted = fit_for_parser(line)
    except LineRefused as refusal:
        answered = find_answered(refusal)
        assert answered == asked
        return
    assert fit_for_parser(fitted.encode()) == fitted
    if asked is not None:
        assert JSONRPCRequest.model_validate_json(fitted).id == asked
    else:
        assert request is None


def parse_request(line: bytes) -> dict[str, Any] | None:
    """Return the request that a line is for any parser; None: it is none."""
    try:
        document: Any = json.loads(line.decode(errors="replace"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    members = cast("dict[str, Any]", document)
    return members if {"id", "method"} <= members.keys() else None


def is_id(value: object) -> bool:
    """Tell whether an answer can have this id."""
    if isinstance(value, float):
        return value - value == 0
    return isinstance(value, int | str) and not isinstance(value, bool)


def find_answered(refusal: LineRefused) -> Id | None:
    """Return the id of the line that refuses, which is JSON by the standard's own rules."""
    answer = build_refusal(refusal.to, "invalid_arguments", str(refusal))
    assert answer.count(b"\n") == 1
    document = json.loads(answer, parse_constant=int)  # no int is called NaN
    assert read_message(answer).id == document["id"]
    found: Id | None = document["id"]
    return found
