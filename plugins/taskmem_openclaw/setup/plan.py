"""Plan the changes of OpenClaw's configuration, with their reasons. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from taskmem_hookspecs.installing import SERVER, TOOLS, runs_taskmem
from taskmem_openclaw import configuration
from taskmem_openclaw.setup import tool_policy
from taskmem_openclaw.setup.edits import (
    ConfigChange,
    ListEdit,
    ValueEdit,
    apply_changes,
    apply_edit,
    find_value,
    remove_path,
    to_list,
    to_object,
)
from taskmem_openclaw.setup.merge_patches import Document, is_same_json

PLUGIN: Final = configuration.PLUGIN
BUNDLE: Final = "taskmem-mcp"
"""Id of the MCP bundle in OpenClaw's configuration."""

_ENTRY: Final = ("plugins", "entries", PLUGIN)
HOLD_BACK: Final = (*_ENTRY, "config", "holdBack")
HOME: Final = (*_ENTRY, "config", "home")
RECORD: Final = (*_ENTRY, "config", "recordCommands")
LOAD: Final = ("plugins", "load", "paths")
ALLOW: Final = ("plugins", "allow")


@dataclass(frozen=True)
class DesiredState:
    """The desired state of OpenClaw."""

    folder: str
    """Absolute path of the plug-in's folder."""
    command: tuple[str, ...]
    """The command that runs `taskmem`."""
    home: str
    tools: frozenset[str]
    """Names of the tools."""
    profiles: frozenset[str] = frozenset()
    """Tool profiles in which the plug-in's manifest puts all tools."""
    stale: frozenset[str] = frozenset()
    """Known folders from which the plug-in was linked before."""


class SetupRefused(Exception):
    """The operator's configuration forbids it; `str()` says how to change that."""


@dataclass(frozen=True)
class ConfigPlan:
    """The changes to make; none: everything is in place."""

    changes: list[ConfigChange]
    notes: list[str]
    """What only the operator can change."""


def plan_plugin(config: Mapping[str, Any], wishes: DesiredState) -> ConfigPlan:
    """Plan the native plug-in.

    Raises:
        SetupRefused: The configuration forbids it, or the bundle is installed.
    """
    _require_allowed(config, PLUGIN)
    if find_value(config, ("plugins", "entries", BUNDLE, "enabled")) is True:
        raise SetupRefused(_describe_duplicate("MCP bundle", "plug-in"))
    tools = tool_policy.ToolGroup(PLUGIN, wishes.tools, wishes.profiles)
    seen, notes = tool_policy.plan_tool_visibility(config, tools)
    access = _build_access_change(config)
    wanted = [_build_plugin_change(config, wishes), *_build_allow_change(config, PLUGIN), access]
    wanted += [
        *_build_model_change(config),
        _build_hold_back_change(access),
        _build_recording_change(),
    ]
    return ConfigPlan(
        _drop_done_changes(config, [*wanted, *seen, *_build_server_changes(config)]), notes
    )


def plan_bundle(config: Mapping[str, Any], wishes: DesiredState) -> ConfigPlan:
    """Plan the MCP bundle, which needs no native plug-in.

    Raises:
        SetupRefused: The configuration forbids it, or the plug-in is installed.
    """
    _require_allowed(config, BUNDLE)
    if list_plugin_paths(config, wishes):
        raise SetupRefused(_describe_duplicate("plug-in", "MCP bundle"))
    names = frozenset(f"{SERVER}__{tool}" for tool in wishes.tools)
    tools = tool_policy.ToolGroup("bundle-mcp", names, frozenset(("coding", "messaging")))
    seen, notes = tool_policy.plan_tool_visibility(config, tools)
    wanted = [_build_bundle_change(config, wishes), *_build_allow_change(config, BUNDLE)]
    return ConfigPlan(_drop_done_changes(config, [*wanted, *seen]), notes)


def remove_traces(config: Mapping[str, Any], wishes: DesiredState) -> Document:
    """Return the configuration without any trace of ours.

    Parents and lists that become empty are removed too, except allow-lists: an empty one does not
    mean the same as a missing one.
    """
    result = dict(config)
    for name in (PLUGIN, BUNDLE):
        result = remove_path(result, ("plugins", "entries", name))
    for name in list_own_servers(config):
        result = remove_path(result, ("mcp", "servers", name))
    words = [
        ListEdit(LOAD, (), tuple(list_plugin_paths(config, wishes))),
        ListEdit(ALLOW, (), (PLUGIN, BUNDLE)),
    ]
    for scope in tool_policy.list_scopes(config):
        for place in (scope, (*scope, "sandbox", "tools")):
            words += [ListEdit((*place, key), (), (PLUGIN,)) for key in ("allow", "alsoAllow")]
    for edit in words:
        if not set(edit.dropped).isdisjoint(map(str, to_list(find_value(result, edit.path)))):
            result = apply_edit(result, edit)
            if not find_value(result, edit.path) and edit.path[-1] != "allow":
                result = remove_path(result, edit.path)
    return result


def list_plugin_paths(config: Mapping[str, Any], wishes: DesiredState) -> list[str]:
    """Return the load paths that belong to the plug-in, including the desired one."""
    known = wishes.stale | {wishes.folder}
    return [each for each in to_list(find_value(config, LOAD)) if each in known]


def list_own_servers(config: Mapping[str, Any]) -> list[str]:
    """Return the names of the MCP servers that run `taskmem mcp`."""
    found = to_object(find_value(config, ("mcp", "servers")))
    return [name for name, server in found.items() if runs_taskmem(server)]


def _require_allowed(config: Mapping[str, Any], name: str) -> None:
    if find_value(config, ("plugins", "enabled")) is False:
        raise SetupRefused(
            "OpenClaw's plug-ins are all switched off (plugins.enabled is false); "
            "switch them on and run this again."
        )
    if name in to_list(find_value(config, ("plugins", "deny"))):
        raise SetupRefused(
            f"OpenClaw's configuration denies it (plugins.deny names {name}); take it "
            "out of that list if you want it after all, and run this again."
        )


def _describe_duplicate(there: str, wanted: str) -> str:
    return (
        f"The {there} is installed, and with the {wanted} every tool would be there "
        "twice; run taskmem setup openclaw --remove first."
    )


def _build_plugin_change(config: Mapping[str, Any], wishes: DesiredState) -> ConfigChange:
    stale = tuple(each for each in list_plugin_paths(config, wishes) if each != wishes.folder)
    return ConfigChange(
        "the plug-in",
        "the agent the tools, and wakes a way in"
        + ("; its link still points to where it was before" if stale else ""),
        (
            ListEdit(LOAD, (wishes.folder,), stale),
            ValueEdit((*_ENTRY, "enabled"), value=True),
            ValueEdit((*_ENTRY, "config", "command"), list(wishes.command)),
            ValueEdit(HOME, wishes.home),
        ),
        leaves="what a wait in plain English, or on a screen, looks at, to your "
        "agent's own model, which judges it",
        needed=True,
    )


def _build_bundle_change(config: Mapping[str, Any], wishes: DesiredState) -> ConfigChange:
    server = {
        "command": wishes.command[0],
        "args": [*wishes.command[1:], "mcp"],
        "env": {"TASKMEM_HOME": wishes.home, "TASKMEM_TOOLS": TOOLS},
    }
    own = [] if list_own_servers(config) else [ValueEdit(("mcp", "servers", SERVER), server)]
    return ConfigChange(
        "the MCP bundle",
        "the agent the tools and the skill",
        (ValueEdit(("plugins", "entries", BUNDLE, "enabled"), value=True), *own),
        needed=True,
    )


def _build_allow_change(config: Mapping[str, Any], name: str) -> Iterator[ConfigChange]:
    if to_list(find_value(config, ALLOW)):
        yield ConfigChange(
            f"{name} in plugins.allow",
            "it leave to load, for you list the plug-ins that may",
            (ListEdit(ALLOW, (name,)),),
            needed=True,
        )


def _build_access_change(config: Mapping[str, Any]) -> ConfigChange:
    path = (*_ENTRY, "hooks", "allowConversationAccess")
    so_far = ", which you have refused so far" if find_value(config, path) is False else ""
    return ConfigChange(
        f"access to conversations{so_far}",
        "an open task back to its agent by itself, after a compaction, on a session's "
        "first turn and on 'continue'; for that the plug-in may read conversations",
        (ValueEdit(path, value=True),),
        without="the agent has to ask where it was, answers cannot be held back, and "
        "taskmem doctor warns of it",
    )


def _build_recording_change() -> ConfigChange:
    return ConfigChange(
        "recording of background commands",
        "a wait all that such a command prints, and its end also after the gateway has "
        "forgotten it; approvals and allow-lists then see the command taskmem run "
        "--name NAME -- SHELL -c 'COMMAND', so that rules for COMMAND match no more",
        (ValueEdit(RECORD, value=True),),
        without="a wait sees what OpenClaw keeps, the newest 200,000 characters",
        by_hand=_format_config_command(RECORD),
    )


def _build_model_change(config: Mapping[str, Any]) -> Iterator[ConfigChange]:
    """Let the plug-in use the configured small model for texts and image model for pictures.

    Without it, the agent's own model reads both, if it takes pictures.
    """
    defaults = ("agents", "defaults")
    images = find_value(config, (*defaults, "imageModel"))
    found = {
        "texts": find_value(config, (*defaults, "utilityModel")),
        "pictures": find_value(images, ("primary",)) or images,
    }
    named = {k: each for k, each in found.items() if isinstance(each, str) and each}
    if not named:
        return
    use = " and ".join(f"{model} read {what}" for what, model in named.items())
    yield ConfigChange(
        f"models for reading: {', '.join(dict.fromkeys(named.values()))}",
        f"waits in plain English, and on screens, a model meant for it: it lets {use}",
        (
            ValueEdit((*_ENTRY, "llm", "allowModelOverride"), value=True),
            ListEdit((*_ENTRY, "llm", "allowedModels"), (*dict.fromkeys(named.values()),)),
        ),
        without="your agent's own model does that, where it can",
        leaves="what such a wait looks at, to whoever runs that model",
    )


def _build_hold_back_change(access: ConfigChange) -> ConfigChange:
    """Hold answers back until they are checked, which ends all streaming."""
    return ConfigChange(
        "answers held back until they are looked at",
        "an answer that names a file that is found nowhere a second try before you see "
        "it, in a turn that works on a task and has changed nothing; for that, no "
        "answer of any session streams: each arrives at once, at its end",
        (ValueEdit(HOLD_BACK, value=True),),
        without="where the answer after a completed task names such a file, the next line says so",
        needs=access,
        by_hand=_format_config_command(HOLD_BACK),
    )


def build_gemini_change(variable: str, *, bundle: bool) -> ConfigChange:
    """Build the question whether Gemini may read, which OpenClaw's configuration cannot express.

    `variable` is the environment variable with the key.
    """
    return ConfigChange(
        f"Gemini, by the key in {variable}",
        "waits in plain English, and on screens, a fast and cheap model that judges them",
        (),
        without="such waits are refused" if bundle else "OpenClaw's own model judges them",
        leaves="the newest lines of the terminal, without secrets, or pictures of the "
        "window or screen that such a wait looks at, to Google",
        by_hand="TASKMEM_READERS=gemini,host in the environment or in config.toml",
    )


def _format_config_command(path: Sequence[str]) -> str:
    return f"openclaw config set {'.'.join(path)} true"


def _build_server_changes(config: Mapping[str, Any]) -> Iterator[ConfigChange]:
    for name in list_own_servers(config):
        yield ConfigChange(
            f"the MCP server {name} switched off",
            "each tool to the agent once, for that server is taskmem too",
            (ValueEdit(("mcp", "servers", name, "enabled"), value=False),),
            without="every tool is there twice",
        )


def _drop_done_changes(
    config: Mapping[str, Any], changes: Iterable[ConfigChange]
) -> list[ConfigChange]:
    """Drop the changes that would change nothing."""
    return [each for each in changes if not is_same_json(apply_changes(config, [each]), config)]
