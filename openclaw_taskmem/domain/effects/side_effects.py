"""Judge what a tool call may have changed, from facts alone.

The facts are the tool's name, its method or action, the words of its command as a shell splits
them, and whether files were seen to change. What an agent says is ignored. An unknown call counts
as one that may have had an effect.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from openclaw_taskmem.domain.effects.program_effects import (
    READING_METHODS,
    SENDS,
    WORDS,
    Effect,
    find_gravest,
    judge_program,
    list_plain_words,
    to_word_set,
)
from openclaw_taskmem.domain.effects.shell_parsing import split_script
from openclaw_taskmem.domain.text.texts import ELLIPSIS

_DEEPEST: Final = 4
"""Deepest nesting of commands to judge."""
_WRITING_METHODS: Final = to_word_set("POST PUT PATCH DELETE")


def judge_call(
    tool: str, about: str, method: str | None = None, *, changed: bool = False
) -> Effect:
    """Judge what a tool call may have changed.

    Args:
        tool: The tool's name.
        about: The command, if the tool runs one; it ends in `…` if it was cut.
        method: The HTTP method or action; None: none.
        changed: True if files were seen to change; this counts only for an unknown effect.
    """
    effect = _judge_script(about) if is_shell(tool) else _judge_tool(tool.lower(), method or "")
    return Effect.FILES if changed and effect is Effect.OTHER else effect


def is_shell(tool: str) -> bool:
    """Whether a tool runs commands, which end with an exit status."""
    return tool.lower() in _SHELLS


_SHELLS: Final = to_word_set("exec bash shell local_shell run_command terminal")
_READING_TOOLS: Final = to_word_set(
    "read ls find grep glob search image view_image pdf view web_search web_fetch "
    "x_search memory_search memory_get sessions_list sessions_history sessions_search "
    "session_status agents_list conversations_list tool_search tool_describe get_goal "
    "update_plan progress_card"
)
_WRITING_TOOLS: Final = to_word_set("write edit apply_patch")
_SENDING_TOOLS: Final = to_word_set("message sessions_send tts")
_READING_ACTIONS: Final[Mapping[str, frozenset[str]]] = {
    "message": to_word_set("read search list reactions thread-list"),
    "process": to_word_set("poll log list"),
    "browser": to_word_set("status tabs snapshot screenshot console pdf"),
    "cron": to_word_set("status list runs get"),
    "automations": to_word_set("status list runs get"),
}
_READING_VERBS: Final = to_word_set("get list read search find fetch view")


def _judge_tool(tool: str, method: str) -> Effect:
    # MCP tools are named `server__tool`.
    words = WORDS.split(tool.rpartition("__")[2])
    sends = words[0] not in _READING_VERBS and SENDS.intersection(words)
    reads = method.lower() in _READING_ACTIONS.get(tool, ())
    if tool in _WRITING_TOOLS:
        return Effect.FILES
    if method.upper() in _WRITING_METHODS:
        return Effect.OUTSIDE
    if reads or method.upper() in READING_METHODS or tool in _READING_TOOLS:
        return Effect.NOTHING
    return Effect.OUTSIDE if sends or tool in _SENDING_TOOLS else Effect.OTHER


def _judge_script(text: str, depth: int = 0) -> Effect:
    if depth > _DEEPEST:
        return Effect.OTHER
    script = split_script(text)
    found = [_judge_words(command.words, depth) for command in script.commands]
    found += [Effect.FILES for command in script.commands if command.writes]
    found += [_judge_script(inner, depth + 1) for inner in script.inner]
    if not script.whole or text.endswith(ELLIPSIS):
        found.append(Effect.OTHER)
    return find_gravest(found)


_BEGINNINGS: Final = to_word_set("if then elif else do while until ! { time")
_ENDINGS: Final = to_word_set("fi done esac } for select")
_WRAPPERS: Final = to_word_set(
    "sudo env nohup nice ionice timeout stdbuf command exec xargs setsid npx bunx pnpx uvx"
)
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_DURATION: Final = re.compile(r"[0-9.]+[smhd]?")


def _judge_words(words: Sequence[str], depth: int) -> Effect:
    """Judge what a simple command may have changed."""
    while words and (words[0] in _BEGINNINGS or _ASSIGNMENT.match(words[0])):
        words = words[1:]
    if not words or words[0] in _ENDINGS:
        return Effect.NOTHING
    program, rest = words[0], words[1:]
    if program.count("/") > 1 or not program.startswith("./"):
        program = program.rpartition("/")[2]
    if program in _WRAPPERS:
        return _judge_words(_unwrap_command(program, rest), depth)
    if program in {"sh", "bash", "zsh", "dash"}:
        given = rest[rest.index("-c") + 1 :] if "-c" in rest else ()
        return _judge_script(given[0], depth + 1) if given else Effect.OTHER
    if program == "ssh":
        inner = " ".join(list_plain_words(rest)[1:])
        reads = inner and _judge_script(inner, depth + 1) is Effect.NOTHING
        return Effect.NOTHING if reads else Effect.OUTSIDE
    if program.startswith("python") and rest[:1] == ("-m",):
        return _judge_words(rest[1:], depth)
    return judge_program(program, rest)


def _unwrap_command(program: str, words: Sequence[str]) -> Sequence[str]:
    """Return the command that a wrapper runs, without the wrapper's own options."""
    while words and (
        words[0].startswith("-")
        or _ASSIGNMENT.match(words[0])
        or (program == "timeout" and _DURATION.fullmatch(words[0]))
    ):
        words = words[1:]
    return words
