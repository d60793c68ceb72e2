"""Answer the events that the hooks of Claude Code and Codex pass on by `taskmem hook`.

An event of an unknown kind, or with fields of another type, has no answer: a later version of the
host may send it. Source: https://code.claude.com/docs/en/hooks
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast

from pydantic import JsonValue

from openclaw_taskmem.domain.callers import find_key_fault
from openclaw_taskmem.engine import gateway_reports
from openclaw_taskmem.engine.context import Context

_TRANSCRIPT_BYTES: Final = 16 * 1024 * 1024
"""How much of the end of a transcript is searched for a goal."""
_GOAL_MARKS: Final = (b'"goal_status"', b'"thread_goal_updated"', b">\\nUser cleared the goal.")
"""In the last of these lines Claude Code or Codex says what has become of a session's goal."""


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


def _refuse_end(context: Context, session_key: str, fields: Mapping[str, object]) -> JsonValue:
    """Keep a session's agent from ending its turn once for each state of a task that is not over.

    Where its host carries on by itself (a goal, work in the background, a schedule), where a hook
    has carried on already, or where it plans, it may end. Both hosts call no hook if the user
    stops the turn.
    """
    busy = any(fields.get(each) for each in ("background_tasks", "session_crons", "agent_id"))
    if fields.get("stop_hook_active") is not False or fields.get("permission_mode") == "plan":
        return None
    unfinished = () if busy else gateway_reports.list_unfinished_tasks(context, session_key)
    told = context.live.refused_ends
    for task, why in unfinished:
        state = (session_key, task.task_id)
        if told.get(state) != task.updated_at:
            if _has_goal(fields):
                break
            context.live.remember(told, state, task.updated_at)
            return {"decision": "block", "reason": why}
    return None


def _note_halt(context: Context, session_key: str, fields: Mapping[str, object]) -> None:
    """Record why the host gave up a turn, such as a limit of use. Codex does not tell it."""
    kind, words = fields.get("error"), fields.get("last_assistant_message")
    if isinstance(kind, str) and "agent_id" not in fields:
        text = words if isinstance(words, str) else ""
        gateway_reports.record_halt(context, session_key, kind, text)


def _has_goal(fields: Mapping[str, object]) -> bool:
    """Tell by its transcript whether a session pursues a goal of its host's own."""
    path = fields.get("transcript_path")
    if not isinstance(path, str) or not Path(path).is_absolute():
        return False
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            status = os.fstat(file.fileno())
            file.seek(max(status.st_size - _TRANSCRIPT_BYTES, 0))
            text = file.read(_TRANSCRIPT_BYTES) if stat.S_ISREG(status.st_mode) else b""
        mark = max(map(text.rfind, _GOAL_MARKS))
        if mark < 0:
            return False
        begin = text.rfind(b"\n", 0, mark) + 1
        entry: dict[str, Any] = json.loads(text[begin:].partition(b"\n")[0])
        if "attachment" in entry:  # of Claude Code
            return not (entry["attachment"]["met"] or entry["attachment"].get("failed"))
        return bool(entry["payload"]["goal"]["status"] == "active")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting for whoever writes into it, as into a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


_ANSWERS: Final[Mapping[str, Callable[[Context, str, Mapping[str, object]], JsonValue]]] = {
    "SessionStart": _show_packet,
    "UserPromptSubmit": _take_receipt,
    "Stop": _refuse_end,
    "StopFailure": _note_halt,
}
