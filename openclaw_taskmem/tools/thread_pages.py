"""Cut a thread into pages: what one answer shows, and how to get the rest.

A page has at most ten messages and 6 KiB of JSON. A message over 3 KiB is shown in part, with the
call that reads the whole message part by part.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from openclaw_taskmem.domain.text.texts import count_json_bytes, format_iso
from openclaw_taskmem.engine.tasks import QueryAnswer
from openclaw_taskmem.tools.tool import Answer
from taskmem_hookspecs import InvalidArguments, Message
from taskmem_hookspecs.words import find_patterns

PAGE_MESSAGES: Final = 10
FEWEST_MESSAGES: Final = 5
"""Messages shown if fewer match; the newest are added."""
PAGE_BYTES: Final = 6 * 1024
"""Bytes of JSON for the messages of one answer."""
_LONG_MESSAGE_BYTES: Final = 3 * 1024
"""Bytes above which a message is shown in part."""
_EXCERPT: Final = 2 * 1024
_PART: Final = 5 * 1024
"""Bytes of a part when a single message is read whole."""

_PLACE: Final = re.compile(r"([0-9]{1,15})\.([0-9]{1,15})")


def parse_position(after: str) -> tuple[int, int]:
    """Return the id of the newest message to search, and the number of entries already shown.

    Raises:
        InvalidArguments: `after` is not a position from `more`.
    """
    match = _PLACE.fullmatch(after)
    if match is None:
        raise InvalidArguments(
            "after must be as the answer's more.arguments gave it; leave it out to "
            "begin anew. Nothing was written."
        )
    return int(match[1]), int(match[2])


def cut_page(asked: QueryAnswer, query: str, start: int) -> Answer:
    """Return the entries from `start` on that fit, and how to get the next."""
    found = asked.found
    parts = _split_text(found.messages[0].content, _PART) if found.alone else []
    total = len(parts) or len(found.messages)
    most = PAGE_MESSAGES
    if start == 0 and found.matches and not found.alone:
        most = min(max(found.matches, FEWEST_MESSAGES), PAGE_MESSAGES)
    shown: list[Answer] = []
    room = PAGE_BYTES
    for place in range(start, min(start + most, total)):
        if found.alone:
            entry = _show_part(found.messages[0], parts, place)
        else:
            entry = _show_message(found.messages[place], found.question.words)
            if "part" in entry:
                number = found.messages[place].message_id
                entry["whole"] = _build_arguments(asked, f"message {number}")
        room -= len(json.dumps(entry, ensure_ascii=False).encode()) + 2
        if room < 0 and shown:
            break
        shown.append(entry)
    end = start + len(shown)
    left = max(0, total - end)
    after = f"{asked.until}.{end}"
    more: Answer = {"left": left, "arguments": _build_arguments(asked, query, after=after)}
    return {"messages": [*shown], "more": more if left else None}


def describe_page(asked: QueryAnswer, page: Answer) -> str:
    """Say what a page shows and how to go on."""
    found = asked.found
    if found.matches:
        sentence = f"Messages that match: {found.matches}, the best first."
    elif found.question.words and found.messages:
        sentence = "No message matches; the newest that say most come first."
    else:
        sentence = ""
    more = "For more messages, call with more.arguments." if page["more"] else ""
    return f"{sentence} {more}".strip()


def _build_arguments(asked: QueryAnswer, query: str, **more: str) -> Answer:
    return {"task_id": asked.task.task_id, "query": query, **more}


def _show_message(message: Message, words: tuple[str, ...]) -> Answer:
    """Return a message; of a long one, the part with most of the words, which are patterns."""
    if count_json_bytes(message.content) <= _LONG_MESSAGE_BYTES:
        return _describe_message(message, message.content)
    parts = _split_text(message.content, _EXCERPT)
    held = [len(find_patterns(part, words)) for part in parts]
    return _show_part(message, parts, held.index(max(held)))


def _show_part(message: Message, parts: Sequence[str], place: int) -> Answer:
    entry = _describe_message(message, parts[place])
    if len(parts) > 1:
        entry["part"] = f"{place + 1} of {len(parts)}"
    return entry


def _describe_message(message: Message, content: str) -> Answer:
    return {
        "message_id": message.message_id,
        "role": message.role,
        "msg_type": message.msg_type,
        "content": content,
        "created_at": format_iso(message.created_at),
    }


def _split_text(text: str, size: int) -> list[str]:
    """Cut a text into parts of at most `size` bytes of JSON."""
    parts: list[str] = []
    while text:
        kept = min(len(text), size)
        while count_json_bytes(text[:kept]) > size:
            kept = kept * size // (count_json_bytes(text[:kept]) + size // 8) or 1
        parts.append(text[:kept])
        text = text[kept:]
    return parts
