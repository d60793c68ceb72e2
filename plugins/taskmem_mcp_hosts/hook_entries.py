"""Put our hooks into a host's JSON file or take them out. Pure.

Claude Code and Codex have the same form: `hooks` has a list of groups for each event, and a group
has a list of hooks, with a `matcher` for all of them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final, cast

from taskmem_mcp_hosts.config_files import Document, Unreadable, parse_json, render_json, to_object
from taskmem_program import OWN_PROGRAM

EVENTS: Final[Sequence[str]] = ("SessionStart", "UserPromptSubmit", "Stop", "PostToolUse")
"""Events that we answer in every host."""
_TOOLS: Final = (
    "^(Bash|Edit|MultiEdit|Write|NotebookEdit|apply_patch"
    "|mcp__([^t]|t[^a]|ta[^s]|tas[^k]|task[^m]|taskm[^e]|taskme[^m]).*)$"
)
"""The tools that may change something, without our own: those of servers whose names do not begin
with taskmem. Claude Code and Codex both know no shorter expression for that."""
_TIMEOUT: Final = 10
"""Time limit in seconds that we give the host; the command itself takes half a second at most."""


def build_command(home: str | None) -> str:
    """Return the shell command of our hooks, for a home; None: the usual one."""
    given = () if home is None else ("env", f"TASKMEM_HOME={home}")
    return shlex.join((*given, *OWN_PROGRAM, "hook"))


def put_hooks(text: str, command: str | None, events: Sequence[str] = EVENTS) -> str:
    """Return the text with our hooks of these events, each running the command; None: with none.

    All others stay, and what becomes empty goes.

    Raises:
        Unreadable: The text is broken, or has hooks of another form.
    """
    document = parse_json(text)
    ours = {} if command is None else {event: build_group(event, command) for event in events}
    before = _read_groups(document)
    after: Document = {}
    for event in (*before, *(event for event in ours if event not in before)):
        there = before.get(event, ())
        if [*_iterate_own(there)] == [*_iterate_own([ours[event]] if event in ours else ())]:
            after[event] = there
            continue
        left = [*filter(None, map(_remove_own, there))]
        if event in ours:
            left.append(ours[event])
        if left or not there:
            after[event] = left
    if after == before:
        return text
    if not after:
        return render_json(text, {k: v for k, v in document.items() if k != "hooks"})
    return render_json(text, {**document, "hooks": after})


def build_group(event: str, command: str) -> Document:
    """Return the entry of our hook for an event.

    The host waits for it after a tool, too: an agent may call its task completed right after.
    """
    hooks = [{"type": "command", "command": command, "timeout": _TIMEOUT}]
    matcher = {"matcher": _TOOLS} if event.startswith("PostToolUse") else {}
    return {**matcher, "hooks": hooks}


def _remove_own(group: Any) -> Any:  # noqa: ANN401 - of the host
    """Return a group without our hooks; None: it had no others."""
    if not any(map(_is_own, _iterate_hooks([group]))):
        return group
    left = [each for each in group["hooks"] if not _is_own(each)]
    return {**group, "hooks": left} if left else None


def _read_groups(document: Mapping[str, Any]) -> Mapping[str, Sequence[Any]]:
    events = document.get("hooks", {})
    if not isinstance(events, dict):
        raise Unreadable("hooks is no object")
    found = cast("Document", events)
    for event, groups in found.items():
        if not isinstance(groups, list):
            raise Unreadable(f"hooks.{event} is no list")
    return found


def _iterate_hooks(groups: Sequence[object]) -> Iterator[Mapping[str, Any]]:
    for group in groups:
        hooks = to_object(group).get("hooks")
        for each in cast("list[object]", hooks) if isinstance(hooks, list) else ():
            yield to_object(each)


def _iterate_own(groups: Sequence[object]) -> Iterator[tuple[object, Mapping[str, Any]]]:
    """Yield each hook of ours after the matcher of its group."""
    for group in groups:
        for each in filter(_is_own, _iterate_hooks([group])):
            yield to_object(group).get("matcher"), each


def _is_own(hook: object) -> bool:
    """Return whether a hook runs `taskmem hook`, of any installation."""
    try:
        words = shlex.split(str(to_object(hook).get("command", "")))
    except ValueError:
        return False
    if words[-1:] != ["hook"] or len(words) < len(("taskmem", "hook")):
        return False
    return PurePath(words[-2]).name == "taskmem" or words[-3:-1] == [*OWN_PROGRAM[-2:]]
