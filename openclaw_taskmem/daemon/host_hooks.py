"""Answer the events that the hooks of Claude Code and Codex pass on by `taskmem hook`.

An event of an unknown kind, or with fields of another type, has no answer: a later version of the
host may send it. Source: https://code.claude.com/docs/en/hooks
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, cast

from pydantic import JsonValue

from openclaw_taskmem.domain.callers import find_key_fault
from openclaw_taskmem.engine import gateway_reports
from openclaw_taskmem.engine.context import Context


def answer_hook(context: Context, params: Mapping[str, object]) -> JsonValue:
    """Return the document that the hook prints; None: nothing."""
    event = params.get("event")
    if not isinstance(event, dict):
        return None
    fields = cast("dict[str, object]", event)
    kind, session_key = fields.get("hook_event_name"), fields.get("session_id")
    answer = _ANSWERS.get(kind) if isinstance(kind, str) else None
    if answer is None or not isinstance(session_key, str) or find_key_fault(session_key):
        return None
    return answer(context, session_key, fields)


def _show_packet(context: Context, session_key: str, _: Mapping[str, object]) -> JsonValue:
    """Add the packet of the session's open task to its context, which may have lost it."""
    now = context.clock.now()
    found = gateway_reports.build_reminder(context, session_key, since=now, plain=True)
    if found is None:
        return None
    output: JsonValue = {"hookEventName": "SessionStart", "additionalContext": found[1]}
    return {"hookSpecificOutput": output}


def _take_receipt(context: Context, session_key: str, fields: Mapping[str, object]) -> None:
    """Acknowledge the wakes whose message begins a turn. Nothing else is taken from a prompt.

    Claude Code says with `source` which prompts a person has typed; Codex does not.
    """
    prompt = fields.get("prompt")
    if isinstance(prompt, str) and fields.get("source") != "user":
        gateway_reports.settle_prompt(context, session_key, prompt)


_ANSWERS: Final[Mapping[str, Callable[[Context, str, Mapping[str, object]], JsonValue]]] = {
    "SessionStart": _show_packet,
    "UserPromptSubmit": _take_receipt,
}
