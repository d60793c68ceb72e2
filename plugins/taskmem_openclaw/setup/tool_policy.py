"""Plan how to make tools visible under OpenClaw's tool policy. Pure.

Measured with OpenClaw 2026.9.6: a narrow profile hides a plug-in's tools unless the plug-in's own
manifest or `alsoAllow` names them. `allow`, even if empty, hides what it does not name. An agent's
`alsoAllow` replaces the general one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from taskmem_openclaw.json_values import find_value, is_list, is_object, to_list, to_object
from taskmem_openclaw.setup.config_edits import (
    ConfigChange,
    Fault,
    ListEdit,
    Path,
    apply_changes,
)

_NARROW_PROFILES: Final = ("minimal", "coding", "messaging")
"""Tool profiles that hide tools they do not name."""
_SANDBOX_MODES: Final = ("all", "non-main")


class ToolGroup(NamedTuple):
    """Tools that are allowed or hidden together."""

    owner: str
    """The word that stands for all of them in a list."""
    names: frozenset[str]
    profiles: frozenset[str]
    """Narrow profiles that include them anyway."""


def plan_tool_visibility(
    config: Mapping[str, Any], tools: ToolGroup
) -> tuple[list[ConfigChange], list[str]]:
    """Return the changes that make the tools visible, and notes on what only a person can do."""
    found: list[ConfigChange] = []
    notes: list[str] = []
    for path in list_scopes(config):
        shown = apply_changes(config, found)
        answer = _plan_scope(_read_scope(shown, path), tools)
        if isinstance(answer, str):
            notes.append(answer)
        elif answer is not None:
            found.append(answer)
        denied = _find_covering_word(to_list(find_value(config, (*path, "deny"))), tools)
        if denied is not None:
            notes.append(
                f"{'.'.join(path)}.deny has {denied}, so the tools stay hidden there; "
                "take it out if you want them."
            )
    if to_list(find_value(config, ("agents", "list"))):
        notes.append(
            "Agents are kept in agents.list, an old form, and were not looked at; run "
            "openclaw doctor --fix, then this again."
        )
    return [*found, *_plan_sandboxes(config, tools)], notes


def list_scopes(config: Mapping[str, Any]) -> Iterator[Path]:
    """Yield every path with a tool policy, the general one first."""
    agents = to_object(find_value(config, ("agents", "entries")))
    places: list[Path] = [("tools",)]
    places += [("agents", "entries", name, "tools") for name in agents]
    if not agents:
        places.append(("agents", "defaults", "tools"))
    for place in places:
        if is_object(find_value(config, place)):
            yield place
            for provider in to_object(find_value(config, (*place, "byProvider"))):
                yield (*place, "byProvider", provider)


class _Scope(NamedTuple):
    path: Path
    allow: object
    profile: object
    also: Sequence[object]
    """Tools allowed beside the profile: its own list or the inherited one."""
    inherits: bool


def _read_scope(config: Mapping[str, Any], path: Path) -> _Scope:
    policy = to_object(find_value(config, path))
    base = to_object(config.get("tools")) if path[-1] == "tools" else to_object(None)
    inherits = not is_list(policy.get("alsoAllow"))
    also = (base if inherits else policy).get("alsoAllow")
    profile = policy.get("profile") or base.get("profile")
    return _Scope(path, policy.get("allow"), profile, to_list(also), inherits)


def _plan_scope(scope: _Scope, tools: ToolGroup) -> ConfigChange | str | None:
    where = ".".join(scope.path)
    named = _find_covering_word(scope.also, tools) is not None
    narrow = scope.profile in _NARROW_PROFILES and scope.profile not in tools.profiles
    if is_list(scope.allow):
        if narrow and not named:
            return (
                f"The profile {scope.profile} hides the tools, and {where}.allow "
                f"leaves no room for an exception; use {where}.alsoAllow instead of it."
            )
        if _find_covering_word(to_list(scope.allow), tools) is not None:
            return None
        return _build_change(
            (*scope.path, "allow"),
            (tools.owner,),
            "the agent the tools there, for you list those that may be used",
        )
    if named or not narrow:
        return None
    inherited = map(str, scope.also) if scope.inherits else ()
    return _build_change(
        (*scope.path, "alsoAllow"),
        (*inherited, tools.owner),
        f"the agent the tools there, for the profile {scope.profile} hides them",
    )


def _plan_sandboxes(config: Mapping[str, Any], tools: ToolGroup) -> Iterator[ConfigChange]:
    """Yield the changes for sandboxed sessions, which have their own policy."""
    agents = to_object(find_value(config, ("agents", "entries")))
    modes = [find_value(config, ("agents", "defaults", "sandbox", "mode"))]
    modes += [find_value(agent, ("sandbox", "mode")) for agent in agents.values()]
    if not any(mode in _SANDBOX_MODES for mode in modes):
        return
    places: list[Path] = [("tools",)]
    places += [("agents", "entries", name, "tools") for name in agents]
    for place in places:
        path = (*place, "sandbox", "tools")
        gate = to_object(find_value(config, path))
        if not gate and place != ("tools",):
            continue
        allow = gate.get("allow")
        words = [*to_list(allow), *to_list(gate.get("alsoAllow"))]
        if allow == [] or _find_covering_word(words, tools) is not None:
            continue
        key = "allow" if is_list(allow) else "alsoAllow"
        yield _build_change(
            (*path, key),
            (tools.owner,),
            "the tools to sandboxed sessions, which see only those that are listed",
        )


def _build_change(path: Path, words: tuple[str, ...], gives: str) -> ConfigChange:
    """Let a list allow the tools; the last of the words is their owner's."""
    what = f"{words[-1]} in {'.'.join(path)}"
    fault = Fault("tools", f"The agent does not see the tools. Wanted: {what}.")
    edit = ListEdit(path, words, fault=fault)
    return ConfigChange(what, gives, (edit,), without="the agent does not see the tools there")


def _find_covering_word(words: Sequence[object], tools: ToolGroup) -> str | None:
    """Return the word in a list that covers all the tools; None: there is none."""
    listed = [str(word).lower() for word in words]
    for word in listed:
        if word in (tools.owner, "group:plugins"):
            return word
        if all(fnmatchcase(name, word) for name in tools.names):
            return word
    return "each of them" if tools.names <= set(listed) else None
