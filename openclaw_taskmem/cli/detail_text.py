"""Format a task, a wait or a wake with all its details as lines for people."""

from __future__ import annotations

import json
from datetime import datetime
from textwrap import wrap
from typing import Any, Final

from openclaw_taskmem.domain.texts import to_one_line, to_printable

WIDTH: Final = 100
"""Characters per line of a message."""
INDENT: Final = "    "


def format_line(text: object, width: int = 72) -> str:
    """Return a text as one line without control characters; None becomes a dash."""
    words = to_one_line(str(text if text is not None else "-"))
    safe = to_printable(words, "\ufffd")
    return safe if len(safe) <= width else safe[: width - 1] + "…"


def format_paragraphs(text: str) -> list[str]:
    """Return a whole text as lines without control characters.

    All lines except the first are indented, so that none looks like one of ours.
    """
    first, *rest = [to_printable(each, "\ufffd") for each in text.splitlines()] or [""]
    wrapped = wrap(first, WIDTH, break_long_words=False, break_on_hyphens=False)
    lines = wrapped[:1] or [""]
    for each in (" ".join(wrapped[1:]), *rest):
        lines += wrap(
            each,
            WIDTH,
            initial_indent=INDENT,
            subsequent_indent=INDENT,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines


def format_wait(found: Any) -> str:  # noqa: ANN401 - JSON
    """Format the daemon's answer about a wait."""
    lines = [
        f"{found['wait_id']}  {found['status']}  {format_line(found['target'], 200)}",
        f"  wake when: {format_line(found['wake_when'], 500)}",
        f"  last seen: {format_line(found['last_observation'], 500)}",
    ]
    for event in found["history"]:
        data = json.dumps(event["data"], ensure_ascii=False)
        lines.append(f"{event['at']}  {event['kind']}  {format_line(data, 400)}")
    return "\n".join(lines)


def format_wake_row(wake: Any) -> list[str]:  # noqa: ANN401 - JSON
    """Return the row of a wake in a list."""
    kept = _is_kept(wake)
    return [
        wake["wake_id"],
        "kept" if kept else wake["state"],
        wake["created_at"],
        f"{wake['attempts']} {'try' if wake['attempts'] == 1 else 'tries'}",
        format_line(wake.get("held"), 160)
        if kept
        else format_line(wake["last_error"] or wake["text"]),
    ]


def format_wake(found: Any) -> str:  # noqa: ANN401 - JSON
    """Format the daemon's answer about a wake."""
    about = ", ".join(filter(None, (found["task_id"], found["wait_id"])))
    whom = " in ".join(filter(None, (found["session_key"], found["host"])))
    following = found["held"] or found["due_at"] or "never"
    return "\n".join(
        [
            f"{found['wake_id']}  {'kept' if _is_kept(found) else found['state']}",
            f"  about: {about}, owed since {found['created_at']}",
            f"  to: {format_line(whom or None, 200)}",
            f"  says: {format_line(found['text'], 500)}",
            f"  tries: {found['attempts']}, last sent: {found['sent_at'] or '-'}",
            f"  last error: {format_line(found['last_error'], 500)}",
            f"  next try: {format_line(following, 300)}",
        ]
    )


def _is_kept(wake: Any) -> bool:  # noqa: ANN401 - JSON
    return wake["state"] == "due" and wake["due_at"] is None


def format_task(found: Any) -> str:  # noqa: ANN401 - JSON
    """Format the daemon's answer about a task."""
    lines = [f"{format_line(found['name'], 200)}  ({found['task_id']}, {found['status']})"]
    if found["question"] is not None:
        lines.append(f"  asks the user: {format_line(found['question'], 500)}")
    for step in found["steps"]:
        mark = "x" if step["done"] else " "
        lines.append(f"  [{mark}] {step['step']}. {format_line(step['text'], 500)}")
    for message in found["messages"]:
        who = f"{message['role']}/{message['msg_type']}"
        first, *rest = format_paragraphs(message["content"])
        lines += [f"{message['created_at']}  {who}: {first}", *rest]
    for made in found["made"]:
        size = "" if made["size"] is None else f", {made['size']:,} bytes"
        path = format_line(made["path"], 400)
        lines.append(f"{made['change']}  {path}  ({made['verdict']}{size})")
    for doubt in found["unverified"]:
        what, why = format_line(doubt["what"], 200), format_line(doubt["why"], 300)
        lines.append(f"not verified  {what}: {why}")
    for wait in found["waits"]:
        target = format_line(wait["target"], 60)
        seen = format_line(wait["last_observation"] or wait["wake_when"], 200)
        lines.append(f"{wait['wait_id']}  {wait['status']}  {target}: {seen}")
    for wake in found["wakes"]:
        text = format_line(wake["text"], 200)
        lines.append(f"{wake['wake_id']}  {wake['state']}  {text}")
    return "\n".join(lines)


def format_picture_rows(found: Any) -> list[list[str]]:  # noqa: ANN401 - JSON
    """Return a row for each picture: its moment, local time and path.

    Args:
        found: The daemon's answer about a wait.
    """
    return [
        [moment, _format_local_time(picture["taken_at"]), to_printable(picture["path"], "\ufffd")]
        for moment, picture in found["pictures"].items()
    ]


def explain_no_pictures(found: Any) -> str:  # noqa: ANN401 - JSON
    """Say that there are no pictures, and why, if that is known."""
    why = found["pictures_note"]
    return f"No pictures are kept of this wait.{f' {why}' if why else ''}"


def _format_local_time(instant: str) -> str:
    """Return a time in the local time zone."""
    return f"{datetime.fromisoformat(instant).astimezone():%Y-%m-%d %H:%M:%S}"
