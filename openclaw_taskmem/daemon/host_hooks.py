"""Answer the events that the hooks of Claude Code and Codex pass on by `taskmem hook`.

An event of an unknown kind, or with fields of another type, has no answer: a later version of the
host may send it. Source: https://code.claude.com/docs/en/hooks
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, cast

from pydantic import JsonValue, ValidationError

from openclaw_taskmem.daemon.gateway_events import (
    OWN_TOOLS,
    ToolCalled,
    build_call_end,
    build_file_activity,
)
from openclaw_taskmem.domain.callers import find_key_fault
from openclaw_taskmem.domain.conditions.usage_limits import LIMIT_ERROR
from openclaw_taskmem.domain.effects.side_effects import is_shell
from openclaw_taskmem.engine import evidence, gateway_reports, host_calls, usage_limits
from openclaw_taskmem.engine.context import Context
from taskmem_hookspecs import FileChange

_BLOCK_BYTES: Final = 16 * 1024 * 1024
"""How much of a transcript is read at a time, from its end."""
_MOST_BLOCKS: Final = 4
"""How many blocks are searched for a goal."""
_LINE_BYTES: Final = 1024 * 1024
"""By how much blocks overlap, so that each line of a goal is whole in one of them."""
_GOAL_MARKS: Final = (
    b'"goal_status"',
    b'"thread_goal_updated"',
    rb'"output":"{\"goal\":{\"threadId\":',
    b">\\nUser cleared the goal.",
)
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


def _show_packet(context: Context, session_key: str, fields: Mapping[str, object]) -> JsonValue:
    """Add the packet of the session's open task to its context, which may have lost it.

    If its host has started, it has also lost the messages of a turn that was cut.
    """
    if fields.get("source") in ("startup", "resume"):
        was_answered = _look_up_answers(fields)
        gateway_reports.open_session(context, session_key, _read_late(fields), was_answered)
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
    if not isinstance(prompt, str):
        return
    context.live.turn_ends.pop(session_key, None)
    late = _read_late(fields)
    gateway_reports.close_turn(context, session_key, prompt, late)
    if fields.get("source") != "user":
        was_answered = _look_up_answers(fields)
        gateway_reports.settle_prompt(context, session_key, prompt, late, was_answered)


def _read_late(fields: Mapping[str, object]) -> timedelta:
    """Return how long ago an event was that a daemon had missed; zero: it is now."""
    seconds = fields.get("seconds_late")
    return timedelta(seconds=seconds if isinstance(seconds, float) and 0 < seconds < 3600 else 0)  # noqa: PLR2004


def _end_turn(context: Context, session_key: str, fields: Mapping[str, object]) -> JsonValue:
    """Look up what the last words of a turn name, and say whether it may end."""
    if "turn_id" not in fields:  # which Codex gives
        usage_limits.note_answer(context, context.clock.now() - _read_late(fields))
    answer = fields.get("last_assistant_message")
    if isinstance(answer, str) and answer and "agent_id" not in fields:
        context.run_later(0.0, partial(evidence.check_first_answer, context, session_key, answer))
    return _refuse_end(context, session_key, fields)


def _refuse_end(context: Context, session_key: str, fields: Mapping[str, object]) -> JsonValue:
    """Keep a session's agent from ending its turn once for each state of a task that is not over.

    Where its host carries on by itself (a goal, work in the background, a schedule), where a hook
    has carried on already, or where it plans, it may end. Both hosts call no hook if the user
    stops the turn.
    """
    gateway_reports.close_turn(context, session_key, ago=_read_late(fields))
    busy = any(fields.get(each) for each in ("background_tasks", "session_crons", "agent_id"))
    unfinished = [] if busy else [*gateway_reports.list_unfinished_tasks(context, session_key)]
    if not unfinished or _has_goal(fields):
        return None
    plans = fields.get("permission_mode") == "plan"
    told = context.live.refused_ends
    for task, why in unfinished if fields.get("stop_hook_active") is False and not plans else ():
        state = (session_key, task.task_id)
        if told.get(state) != task.updated_at:
            context.live.remember(told, state, task.updated_at)
            return {"decision": "block", "reason": why}
    ended_at = context.clock.now() - _read_late(fields)
    context.live.remember(context.live.turn_ends, session_key, ended_at)
    return None


def _note_halt(context: Context, session_key: str, fields: Mapping[str, object]) -> None:
    """Record why the host gave up a turn, such as a limit of use. Codex does not tell it."""
    kind, words = fields.get("error"), fields.get("last_assistant_message")
    if isinstance(kind, str) and "agent_id" not in fields:
        text = words if isinstance(words, str) else ""
        gateway_reports.record_halt(context, session_key, kind, text)
    if kind == LIMIT_ERROR:
        usage_limits.note_reached(context, words if isinstance(words, str) else "")


# --- tool calls ----------------------------------------------------------------------------


_PATHS: Final = ("file_path", "notebook_path", "path")
_SUBJECTS: Final = ("command", *_PATHS, "url", "query")
"""The arguments that say what a call is about; the first that is there does."""
_FILE_TOOLS: Final = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})
_MOVE: Final = "*** Move to: "
"""How the line of a patch begins that says where the file named before it is moved."""
_PATCH_LINES: Final = {
    "*** Add File: ": FileChange.CREATED,
    "*** Update File: ": FileChange.CHANGED,
    "*** Delete File: ": FileChange.REMOVED,
    _MOVE: FileChange.CREATED,
}
"""How the lines of a patch begin that name its files."""
_EXIT: Final = "Exit code "
"""Begins what Claude Code says of a command that failed."""


def _record_call(context: Context, session_key: str, fields: Mapping[str, object]) -> None:
    """Write a tool call that has ended into the session's latest task; not one of our own tools.

    How a command of Codex ended, and how long it took, only its transcript tells; of one in the
    background nobody does.
    """
    gateway_reports.close_turn(context, session_key)
    context.live.turn_ends.pop(session_key, None)
    tool, given = fields.get("tool_name"), _read_object(fields.get("tool_input"))
    if not isinstance(tool, str) or ("taskmem" in tool and tool.rpartition("__")[2] in OWN_TOOLS):
        return
    failed = fields.get("hook_event_name") == "PostToolUseFailure"
    response = fields.get("error") if failed else fields.get("tool_response")
    exit_code, ok = _read_end(tool, response, failed=failed)
    milliseconds = fields.get("duration_ms")
    if ok is None and isinstance(response, str):
        exit_code, milliseconds = _find_command_end(fields)
        ok = None if exit_code is None else exit_code == 0
    cwd, runs = _read_text(fields, "cwd"), is_shell(tool)
    folder = cwd if cwd and Path(cwd).is_absolute() and Path(cwd) != Path("/") else None
    touched = [] if failed else [*_list_touched(tool, given, response, folder)][:1000]
    used = {folder} if runs else {str(Path(each["path"]).parent) for each in touched}
    report = {
        "kind": "tool_called",
        "session_key": session_key,
        "folder": folder,
        "folders": [*filter(None, used)][:100],
        "command": runs,
        "call_id": _read_text(fields, "tool_use_id"),
        "tool": tool.removeprefix("mcp__"),
        "about": _describe_call(tool, given),
        "method": _read_text(given, "method", "action") or None,
        "outcome": _read_outcome(response),
        "exit_code": exit_code,
        "ms": milliseconds if isinstance(milliseconds, int | float) else 0,
        "touched": touched,
    }
    try:
        event = ToolCalled.model_validate(report)
    except ValidationError:
        return
    entry = build_call_end(event).model_copy(update={"ok": ok})
    host_calls.record_call(context, session_key, entry, build_file_activity(event), folder)


def _read_end(tool: str, response: object, *, failed: bool) -> tuple[int | None, bool | None]:
    """Return a command's exit code and whether a call succeeded; None: not told."""
    if failed:
        number = str(response).removeprefix(_EXIT).partition("\n")[0]
        known = is_shell(tool) and str(response).startswith(_EXIT) and number.isdecimal()
        return int(number[:9]) if known else None, False
    told = _read_object(response)
    if not is_shell(tool):
        return None, told.get("isError") is not True
    whole = "stdout" in told and not told.get("backgroundTaskId")
    if not whole or told.get("interrupted"):
        return None, None
    return 0, True


def _find_command_end(fields: Mapping[str, object]) -> tuple[int | None, int]:
    """Return a command's exit code and milliseconds as its transcript in Codex tells them.

    None: its exit code is not told. Without a duration it took no time.
    """
    call_id = fields.get("tool_use_id")
    mark, text = json.dumps(call_id).encode(), next(_read_transcript(fields), b"")
    begin = len(text)
    while (at := text.rfind(mark, 0, begin)) >= 0:
        begin, end = text.rfind(b"\n", 0, at) + 1, text.find(b"\n", at)
        line = text[begin : len(text) if end < 0 else end]
        if b'"exit_code"' in line:
            with suppress(ValueError, KeyError, TypeError, RecursionError):
                item = json.loads(line)["payload"]["item"]
                if item["id"] == call_id and type(item["exit_code"]) is int:
                    return item["exit_code"], _read_milliseconds(item.get("duration"))
    return None, 0


def _read_milliseconds(duration: object) -> int:
    match duration:
        case {"secs": int(seconds), "nanos": int(rest)}:
            return 1000 * seconds + rest // 1_000_000
        case _:
            return 0


def _list_touched(
    tool: str, given: Mapping[str, object], response: object, folder: str | None
) -> Iterator[dict[str, str]]:
    """Yield the files that a call has changed, by their absolute paths."""
    path = _read_text(given, *_PATHS)
    if tool in _FILE_TOOLS and Path(path).is_absolute():
        is_new = _read_object(response).get("type") == "create"
        yield {"path": path, "change": FileChange.CREATED if is_new else FileChange.CHANGED}
    elif tool == "apply_patch":
        patched: dict[str, FileChange] = {}
        for line in _read_text(given, "command").splitlines():
            mark = next(filter(line.startswith, _PATCH_LINES), None)
            if mark is None:
                continue
            if mark == _MOVE and patched:
                patched[next(reversed(patched))] = FileChange.REMOVED
            path = str(Path(folder or "/", line.removeprefix(mark).strip()))
            patched.pop(path, None)
            patched[path] = _PATCH_LINES[mark]
        for path, change in patched.items():
            yield {"path": path, "change": change}


def _describe_call(tool: str, given: Mapping[str, object]) -> str:
    if tool == "apply_patch":
        return ", ".join(Path(each["path"]).name for each in _list_touched(tool, given, None, None))
    return _read_text(given, *_SUBJECTS) or json.dumps(given, ensure_ascii=False, default=str)


def _read_outcome(response: object) -> str:
    """Return what a call has printed: a text, the streams of a command, or blocks of texts."""
    told = _read_object(response)
    if isinstance(response, str):
        return response
    if "stdout" in told:
        return "\n".join(filter(None, (_read_text(told, each) for each in ("stdout", "stderr"))))
    blocks = told.get("content", response)
    listed = cast("list[object]", blocks) if isinstance(blocks, list) else ()
    texts = (_read_text(_read_object(each), "text") for each in listed)
    return "\n".join(filter(None, texts))


def _read_object(value: object) -> Mapping[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _read_text(fields: Mapping[str, object], *names: str) -> str:
    """Return the first of the fields that is a text; empty: none is."""
    return next((text for text in map(fields.get, names) if text and isinstance(text, str)), "")


# --- transcripts ---------------------------------------------------------------------------


def _has_goal(fields: Mapping[str, object]) -> bool:
    """Tell by its transcript whether a session pursues a goal of its host's own."""
    for text in islice(_read_transcript(fields), _MOST_BLOCKS):
        if (mark := max(map(text.rfind, _GOAL_MARKS))) >= 0:
            return _is_pursued(text[text.rfind(b"\n", 0, mark) + 1 :].partition(b"\n")[0])
    return False


def _is_pursued(line: bytes) -> bool:
    """Tell whether a goal is pursued after the line of a transcript that tells of it."""
    try:
        entry: dict[str, Any] = json.loads(line)
        if "attachment" in entry:  # of Claude Code
            return not (entry["attachment"]["met"] or entry["attachment"].get("failed"))
        payload = entry["payload"]
        if "output" in payload:  # of a tool by which the agent itself sets and ends it
            payload = json.loads(payload["output"])
        return bool(payload["goal"]["status"] == "active")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False


def _look_up_answers(fields: Mapping[str, object]) -> gateway_reports.WasAnswered:
    """Return what tells by a session's transcript which messages were answered; it is read once."""
    find_text = cache(lambda: next(_read_transcript(fields), b""))
    return lambda message: _was_answered(find_text(), message)


def _was_answered(text: bytes, message: str) -> bool:
    """Tell by the end of a transcript whether its agent has ended the turn of a message.

    The message is looked for in what was told to the agent; where it came twice, the last counts.
    """
    mark = json.dumps(message, ensure_ascii=False)[1:-1].encode(errors="replace")
    end = len(text)
    while (at := text.rfind(mark, 0, end)) >= 0:
        end = text.rfind(b"\n", 0, at) + 1
        told, _, after = text[end:].partition(b"\n")
        if _read_turn_line(told)[0]:
            return any(_read_turn_line(line)[1] for line in after.splitlines())
    return False


def _read_turn_line(line: bytes) -> tuple[bool, bool]:
    """Return whether a line of a transcript was told to the agent, and whether it ends its turn.

    Where a turn was cut, Claude Code writes an answer of its own, of no model.
    """
    try:
        entry: dict[str, Any] = json.loads(line)
        if "payload" in entry:  # of Codex
            payload = entry["payload"]
            return payload.get("role") == "user", payload["type"] == "task_complete"
        if entry["isSidechain"] is not False:  # of a subagent
            return False, False
        told = entry["message"]
        is_over = told.get("stop_reason") not in (None, "tool_use")
        is_answer = told["role"] == "assistant" and told.get("model") != "<synthetic>"
        return told["role"] == "user", is_answer and is_over
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False, False


def _read_transcript(fields: Mapping[str, object]) -> Iterator[bytes]:
    """Yield the whole lines of each block of a session's transcript, the last block first."""
    path = fields.get("transcript_path")
    if not isinstance(path, str) or not Path(path).is_absolute():
        return
    with suppress(OSError, ValueError), open(path, "rb", opener=_open_at_once) as file:
        status = os.fstat(file.fileno())
        begin = status.st_size if stat.S_ISREG(status.st_mode) else 0
        end = begin
        while begin > 0:
            begin = max(end - _BLOCK_BYTES, 0)
            file.seek(begin)
            text = file.read(end - begin)
            yield text if begin == 0 else text[text.find(b"\n") + 1 :]
            end = begin + _LINE_BYTES


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting for whoever writes into it, as into a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


_ANSWERS: Final[Mapping[str, Callable[[Context, str, Mapping[str, object]], JsonValue]]] = {
    "SessionStart": _show_packet,
    "UserPromptSubmit": _take_receipt,
    "Stop": _end_turn,
    "StopFailure": _note_halt,
    "PostToolUse": _record_call,
    "PostToolUseFailure": _record_call,
}
