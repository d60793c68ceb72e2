"""What a tool answers: JSON, with a `message` that says what comes next."""

from __future__ import annotations

from pydantic import JsonValue

Answer = dict[str, JsonValue]
