"""Plan the changes of OpenClaw's configuration, with their reasons. Pure.

Of the tools' visibility was measured with OpenClaw 2026.9.6: a narrow profile hides a plug-in's
tools unless the plug-in's own manifest or `alsoAllow` names them. `allow`, even if empty, hides
what it does not name. An agent's `alsoAllow` replaces the general one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from taskmem_openclaw import configuration
from taskmem_openclaw.json_values import find_value, is_list, is_object, to_list, to_object
from taskmem_openclaw.setup.config_edits import (
    SETUP,
    ConfigChange,
    Document,
    Fault,
    ListEdit,
    Path,
    ValueEdit,
    apply_changes,
    apply_edit,
    is_same_json,
    remove_path,
)
from taskmem_setup import SERVER, TOOLS, runs_taskmem

# --- which tools are seen ------------------------------------------------------------------


_NARROW_PROFILES: Final = ("minimal", "coding", "messaging")
"""Tool profiles that hide tools they do not name."""
_SANDBOX_MODES: Final = ("all", "non-main")


class _ToolGroup(NamedTuple):
    """Tools that are allowed or hidden together."""

    owner: str
    """The word that stands for all of them in a list."""
    names: frozenset[str]
    profiles: frozenset[str]
    """Narrow profiles that include them anyway."""


def _plan_tool_visibility(
    config: Mapping[str, Any], tools: _ToolGroup
) -> tuple[list[ConfigChange], list[str]]:
    """Return the changes that make the tools visible, and notes on what only a person can do."""
    found: list[ConfigChange] = []
    notes: list[str] = []
    for path in list_scopes(config):
        shown = apply_changes(config, found)
        answer = _plan_scope(shown, path, tools)
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


def _plan_scope(
    config: Mapping[str, Any], path: Path, tools: _ToolGroup
) -> ConfigChange | str | None:
    policy, where = to_object(find_value(config, path)), ".".join(path)
    base = to_object(config.get("tools")) if path[-1] == "tools" else to_object(None)
    inherits = not is_list(policy.get("alsoAllow"))
    # Tools allowed beside the profile: its own list or the inherited one.
    also = to_list((base if inherits else policy).get("alsoAllow"))
    profile, allow = policy.get("profile") or base.get("profile"), policy.get("allow")
    named = _find_covering_word(also, tools) is not None
    narrow = profile in _NARROW_PROFILES and profile not in tools.profiles
    if is_list(allow):
        if narrow and not named:
            return (
                f"The profile {profile} hides the tools, and {where}.allow "
                f"leaves no room for an exception; use {where}.alsoAllow instead of it."
            )
        if _find_covering_word(to_list(allow), tools) is not None:
            return None
        return _build_change(
            (*path, "allow"),
            (tools.owner,),
            "the agent the tools there, for you list those that may be used",
            advised=True,
        )
    if named or not narrow:
        return None
    inherited = map(str, also) if inherits else ()
    return _build_change(
        (*path, "alsoAllow"),
        (*inherited, tools.owner),
        f"the agent the tools there, for the profile {profile} hides them",
        advised=True,
    )


def _plan_sandboxes(config: Mapping[str, Any], tools: _ToolGroup) -> Iterator[ConfigChange]:
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
            advised=False,
        )


def _build_change(path: Path, words: tuple[str, ...], gives: str, *, advised: bool) -> ConfigChange:
    """Let a list allow the tools; the last of the words is their owner's."""
    what = f"{words[-1]} in {'.'.join(path)}"
    fault = Fault("tools", f"The agent does not see the tools. Wanted: {what}.")
    edit = ListEdit(path, words, fault=fault)
    return ConfigChange(
        what,
        gives,
        (edit,),
        without="the agent does not see the tools there",
        advised=advised,
        because="an agent without the tools has no task memory"
        if advised
        else "a sandbox is there to give little; say yes if its sessions are to have tasks",
    )


def _find_covering_word(words: Sequence[object], tools: _ToolGroup) -> str | None:
    """Return the word in a list that covers all the tools; None: there is none."""
    listed = [str(word).lower() for word in words]
    for word in listed:
        if word in (tools.owner, "group:plugins"):
            return word
        if all(fnmatchcase(name, word) for name in tools.names):
            return word
    return "each of them" if tools.names <= set(listed) else None


# --- the plug-in, and the bundle -----------------------------------------------------------


PLUGIN: Final = configuration.PLUGIN
BUNDLE: Final = "taskmem-mcp"
"""Id of the MCP bundle in OpenClaw's configuration."""
BUNDLE_TOOLS: Final = "bundle-mcp"
"""OpenClaw's word for the tools of all bundles."""

ENTRY: Final = ("plugins", "entries", PLUGIN)
HOLD_BACK_PATH: Final = (*ENTRY, "config", "holdBack")
COMMAND: Final = (*ENTRY, "config", "command")
HOME: Final = (*ENTRY, "config", "home")
_RECORD: Final = (*ENTRY, "config", "recordCommands")
LOAD: Final = ("plugins", "load", "paths")
ALLOW_LIST: Final = ("plugins", "allow")
_INJECTION: Final = (*ENTRY, "hooks", "allowPromptInjection")
SKILL: Final = "task-memory"
_SKILL_ENTRY: Final = ("skills", "entries", SKILL, "enabled")


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
    copied: str = ""
    """A copy of the plug-in in OpenClaw's own folder, which it loads, too; empty: there is none."""
    default_home: str = ""
    """The plug-in's home where its configuration names none."""
    has_skill: bool = True
    """True if the plug-in's folder has the skill."""
    is_command_gone: bool = False
    """True if the configuration names a command that is not there."""


class SetupRefused(Exception):
    """The operator's configuration forbids it; `str()` says how to change that."""

    def __init__(self, sentence: str, fault: Fault) -> None:
        """Set the sentence, and what the doctor says instead."""
        super().__init__(sentence)
        self.fault = fault


@dataclass(frozen=True)
class _ConfigPlan:
    """The changes to make; none: everything is in place."""

    changes: list[ConfigChange]
    notes: list[str]
    """Sentences on changes that only the operator can make."""


def plan_plugin(config: Mapping[str, Any], desired: DesiredState) -> _ConfigPlan:
    """Plan the native plug-in.

    Raises:
        SetupRefused: The configuration forbids it, or the bundle is installed.
    """
    _require_allowed(config, PLUGIN)
    if find_value(config, ("plugins", "entries", BUNDLE, "enabled")) is True:
        raise _build_refusal("MCP bundle", "plug-in")
    changes, notes = _list_plugin_changes(config, desired)
    return _ConfigPlan(_drop_done_changes(config, changes), notes)


def find_plugin_faults(
    config: Mapping[str, Any], desired: DesiredState
) -> tuple[Mapping[str, Fault], Sequence[str]]:
    """Return the faults of an installed native plug-in, by the doctor's rows; and notes on tools.

    There is none if set-up would change nothing. What it cannot mend goes before what it can.
    """
    faults: list[Fault] = []
    try:
        _require_allowed(config, PLUGIN)
    except SetupRefused as refusal:
        faults.append(refusal.fault)
    if find_value(config, _INJECTION) is False:
        detail = (
            "The plug-in may put nothing before a prompt: wakes come as a plain "
            "message, and do not outlive a restart of the gateway."
        )
        cure = f"Run: {_format_config_command(_INJECTION)}"
        faults.append(Fault("conversation", detail, cure, breaks=False))
    changes, notes = _list_plugin_changes(config, desired)
    faults += [
        edit.fault
        for change in changes
        for edit in change.edits
        if edit.fault and not is_same_json(apply_edit(config, edit), config)
    ]
    if desired.copied:
        detail = f"There is another plug-in in {desired.copied}."
        faults.append(Fault("folder", detail, breaks=False))
    if find_value(config, _SKILL_ENTRY) is False:
        cure = f"Run: {_format_config_command(_SKILL_ENTRY)}"
        faults.append(Fault("skill", f"The skill {SKILL} is switched off.", cure, breaks=False))
    elif not desired.has_skill:
        missing = f"The skill {SKILL} is missing."
        faults.append(Fault("skill", missing, "Reinstall openclaw-taskmem."))
    return {fault.row: fault for fault in reversed(faults)}, notes


def _list_plugin_changes(
    config: Mapping[str, Any], desired: DesiredState
) -> tuple[list[ConfigChange], list[str]]:
    """Return all that the native plug-in wants, also what is there; and notes for the operator."""
    tools = _ToolGroup(PLUGIN, desired.tools, desired.profiles)
    seen, notes = _plan_tool_visibility(config, tools)
    access = _build_access_change(config)
    changes = [
        _build_plugin_change(config, desired),
        *_build_allow_change(config, PLUGIN),
        access,
        *_build_model_change(config),
        _build_hold_back_change(access),
        _build_recording_change(),
        *seen,
        *_build_server_changes(config),
    ]
    return changes, notes


def plan_bundle(config: Mapping[str, Any], desired: DesiredState) -> _ConfigPlan:
    """Plan the MCP bundle, which needs no native plug-in.

    Raises:
        SetupRefused: The configuration forbids it, or the plug-in is installed.
    """
    _require_allowed(config, BUNDLE)
    if list_plugin_paths(config, desired):
        raise _build_refusal("plug-in", "MCP bundle")
    names = frozenset(f"{SERVER}__{tool}" for tool in desired.tools)
    tools = _ToolGroup(BUNDLE_TOOLS, names, frozenset(("coding", "messaging")))
    seen, notes = _plan_tool_visibility(config, tools)
    wanted = [_build_bundle_change(config, desired), *_build_allow_change(config, BUNDLE)]
    return _ConfigPlan(_drop_done_changes(config, [*wanted, *seen]), notes)


def remove_traces(
    config: Mapping[str, Any], desired: DesiredState, bundle_lists: Iterable[Path]
) -> Document:
    """Return the configuration without any trace of ours.

    Objects and lists that become empty are removed too, except where an empty list does not mean
    the same as a missing one. Words that set-up copied beside ours from an inherited list go with
    ours, unless somebody has changed them since.

    `bundle_lists`: paths of the lists that got `BUNDLE_TOOLS` from us; other bundles use that word,
    too.
    """
    result = dict(config)
    for name in (PLUGIN, BUNDLE):
        result = remove_path(result, ("plugins", "entries", name))
    for name in list_own_servers(config):
        result = remove_path(result, ("mcp", "servers", name))
    result = _drop_words(result, LOAD, list_plugin_paths(config, desired), [])
    result = _drop_words(result, ALLOW_LIST, (PLUGIN, BUNDLE), None)
    ours = {*bundle_lists}
    # The general lists last, since what an agent had inherited is compared with them.
    for scope in reversed([*list_scopes(config)]):
        for inner in ((), ("sandbox", "tools")):
            allow, also = ((*scope, *inner, key) for key in ("allow", "alsoAllow"))
            general = ("tools", *inner, "alsoAllow")
            inherits = scope[-1] == "tools" and also != general
            inherited = to_list(find_value(result, general)) if inherits else []
            for path, without in ((allow, None), (also, inherited)):
                words = (PLUGIN, BUNDLE_TOOLS) if path in ours else (PLUGIN,)
                result = _drop_words(result, path, words, without)
    return result


def _drop_words(
    config: Document, path: Path, words: Sequence[str], inherited: Sequence[object] | None
) -> Document:
    """Return the configuration without some words of a list.

    The list goes if it then says what is `inherited` without it. None: it stays in any case.
    """
    before = to_list(find_value(config, path))
    rest = [word for word in before if word not in words]
    if rest == before:
        return config
    if inherited is not None and rest == [word for word in inherited if word not in words]:
        return remove_path(config, path)
    return apply_edit(config, ValueEdit(path, rest))


def list_plugin_paths(config: Mapping[str, Any], desired: DesiredState) -> list[str]:
    """Return the load paths that belong to the plug-in, including the desired one."""
    known = desired.stale | {desired.folder}
    return [each for each in to_list(find_value(config, LOAD)) if each in known]


def list_own_servers(config: Mapping[str, Any]) -> list[str]:
    """Return the names of the MCP servers that run `taskmem mcp`."""
    found = to_object(find_value(config, ("mcp", "servers")))
    return [name for name, server in found.items() if runs_taskmem(server)]


def _require_allowed(config: Mapping[str, Any], name: str) -> None:
    """Refuse a plug-in that OpenClaw must not load.

    Raises:
        SetupRefused: The configuration forbids it.
    """
    if find_value(config, ("plugins", "enabled")) is False:
        raise SetupRefused(
            "OpenClaw's plug-ins are all switched off (plugins.enabled is false); "
            "switch them on and run this again.",
            Fault(
                "plugin",
                "All of OpenClaw's plug-ins are switched off.",
                "Run: openclaw config set plugins.enabled true",
            ),
        )
    if name in to_list(find_value(config, ("plugins", "deny"))):
        raise SetupRefused(
            f"OpenClaw's configuration denies it (plugins.deny names {name}); take it "
            "out of that list if you want it after all, and run this again.",
            Fault(
                "plugin",
                "The plug-in is denied (plugins.deny).",
                f"Take {name} out of plugins.deny in OpenClaw's configuration.",
            ),
        )


def _build_refusal(there: str, wanted: str) -> SetupRefused:
    sentence = f"The {there} is installed, and with the {wanted} every tool would be there twice"
    cure = "run taskmem setup openclaw --remove first"
    return SetupRefused(f"{sentence}; {cure}.", Fault("plugin", f"{sentence}.", cure))


def _build_plugin_change(config: Mapping[str, Any], desired: DesiredState) -> ConfigChange:
    linked = list_plugin_paths(config, desired)
    stale = tuple(each for each in linked if each != desired.folder)
    entry = to_object(find_value(config, ENTRY))
    disabled = Fault(
        "plugin", "The plug-in is switched off.", f"Run: openclaw plugins enable {PLUGIN}"
    )
    return ConfigChange(
        "the plug-in",
        "the agent the tools, and wakes a way in"
        + ("; its link still points to where it was before" if stale else ""),
        (
            ListEdit(LOAD, (desired.folder,), stale, _find_folder_fault(linked, stale, desired)),
            ValueEdit(
                (*ENTRY, "enabled"),
                value=True,
                fault=disabled if entry.get("enabled") is False else None,
            ),
            ValueEdit(
                COMMAND,
                list(desired.command),
                _find_command_fault(config, desired),
            ),
            ValueEdit(HOME, desired.home, _find_home_fault(config, desired)),
        ),
        leaves="what a wait in plain English, or on a screen, looks at, to your "
        "agent's own model, which judges it",
        needed=True,
    )


def _find_folder_fault(
    linked: Sequence[str], stale: Sequence[str], desired: DesiredState
) -> Fault | None:
    others = [*stale, *([desired.copied] if desired.copied else [])]
    if not others:
        return None
    if desired.folder in linked:
        return Fault("folder", f"There is another plug-in in {others[0]}.", breaks=False)
    ours = f"this installation's is in {desired.folder}"
    return Fault("folder", f"OpenClaw loads the plug-in from {others[0]}, and {ours}.")


def _find_command_fault(config: Mapping[str, Any], desired: DesiredState) -> Fault:
    words = " ".join(map(str, to_list(find_value(config, COMMAND))))
    if not words:
        unset = "The plug-in looks for taskmem on the gateway's PATH."
        return Fault("command", unset, breaks=False)
    if desired.is_command_gone:
        return Fault("command", f"The plug-in starts {words.split()[0]}, and it is gone.")
    other = f"The plug-in starts {words}, and this is {' '.join(desired.command)}."
    return Fault("command", other, breaks=False)


def _find_home_fault(config: Mapping[str, Any], desired: DesiredState) -> Fault | None:
    theirs = find_value(config, HOME) or desired.default_home
    if theirs in ("", desired.home):
        return None
    return Fault(
        "home",
        f"The plug-in's home is {theirs}, and this one is {desired.home}: they share no task.",
        f"{SETUP} (or set TASKMEM_HOME={theirs} here)",
    )


def _build_bundle_change(config: Mapping[str, Any], desired: DesiredState) -> ConfigChange:
    server = {
        "command": desired.command[0],
        "args": [*desired.command[1:], "mcp"],
        "env": {"TASKMEM_HOME": desired.home, "TASKMEM_TOOLS": TOOLS},
    }
    own = [] if list_own_servers(config) else [ValueEdit(("mcp", "servers", SERVER), server)]
    return ConfigChange(
        "the MCP bundle",
        "the agent the tools and the skill",
        (ValueEdit(("plugins", "entries", BUNDLE, "enabled"), value=True), *own),
        needed=True,
    )


def _build_allow_change(config: Mapping[str, Any], name: str) -> Iterator[ConfigChange]:
    if to_list(find_value(config, ALLOW_LIST)):
        fault = Fault("plugin", "The plug-in is missing in plugins.allow.")
        yield ConfigChange(
            f"{name} in plugins.allow",
            "it leave to load, for you list the plug-ins that may",
            (ListEdit(ALLOW_LIST, (name,), fault=fault),),
            needed=True,
        )


def _build_access_change(config: Mapping[str, Any]) -> ConfigChange:
    path = (*ENTRY, "hooks", "allowConversationAccess")
    fault = Fault(
        "conversation",
        "The plug-in may not see conversations: after a compaction, and on a session's first "
        "turn, the agent must ask itself where it was.",
        f"Run: {_format_config_command(path)}",
        breaks=False,
    )
    so_far = ", which you have refused so far" if find_value(config, path) is False else ""
    return ConfigChange(
        f"access to conversations{so_far}",
        "an open task back to its agent by itself, after a compaction, on a session's "
        "first turn and on 'continue'; for that the plug-in may read conversations",
        (ValueEdit(path, value=True, fault=fault),),
        without="the agent has to ask where it was, answers cannot be held back, and "
        "taskmem doctor warns of it",
        advised=True,
        because="all that the README shows relies on it",
    )


def _build_recording_change() -> ConfigChange:
    return ConfigChange(
        "recording of background commands",
        "a wait all that such a command prints, and its end also after the gateway has "
        "forgotten it; approvals and allow-lists then see the command taskmem run "
        "--name NAME -- SHELL -c 'COMMAND', so that rules for COMMAND match no more",
        (ValueEdit(_RECORD, value=True),),
        without="a wait sees what OpenClaw keeps, the newest 200,000 characters",
        because="that is enough for most waits, and your rules for commands stay as they are",
        by_hand=_format_config_command(_RECORD),
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
            ValueEdit((*ENTRY, "llm", "allowModelOverride"), value=True),
            ListEdit((*ENTRY, "llm", "allowedModels"), (*dict.fromkeys(named.values()),)),
        ),
        without="your agent's own model does that, where it can",
        because="nothing then goes to another model's provider",
        leaves="what such a wait looks at, to whoever runs that model",
    )


def _build_hold_back_change(access: ConfigChange) -> ConfigChange:
    """Hold answers back until they are checked, which ends all streaming."""
    return ConfigChange(
        "answers held back until they are looked at",
        "an answer that names a file that is found nowhere a second try before you see "
        "it, in a turn that works on a task and has changed nothing; for that, no "
        "answer of any session streams: each arrives at once, at its end",
        (ValueEdit(HOLD_BACK_PATH, value=True),),
        without="where the answer after a completed task names such a file, the next line says so",
        because="streaming is worth more to most people than a second try",
        needs=access,
        by_hand=_format_config_command(HOLD_BACK_PATH),
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
        because="nothing then goes to Google",
        leaves="the newest lines of the terminal, without secrets, or pictures of the "
        "window or screen that such a wait looks at, to Google",
        by_hand="TASKMEM_READERS=gemini,host in the environment or in config.toml",
    )


def _format_config_command(path: Sequence[str]) -> str:
    return f"openclaw config set {'.'.join(path)} true"


def _build_server_changes(config: Mapping[str, Any]) -> Iterator[ConfigChange]:
    for name in list_own_servers(config):
        fault = Fault(
            "doubled",
            f"The MCP server {name} is taskmem too: every tool is there twice.",
            f"Run: openclaw mcp unset {name}",
            breaks=False,
        )
        yield ConfigChange(
            f"the MCP server {name} switched off",
            "each tool to the agent once, for that server is taskmem too",
            (ValueEdit(("mcp", "servers", name, "enabled"), value=False, fault=fault),),
            without="every tool is there twice",
            advised=True,
            because="of two tools that do the same, agents take now one, now the other",
        )


def _drop_done_changes(
    config: Mapping[str, Any], changes: Iterable[ConfigChange]
) -> list[ConfigChange]:
    """Drop the changes that would change nothing."""
    return [each for each in changes if not is_same_json(apply_changes(config, [each]), config)]
