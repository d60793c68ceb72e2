"""What setting up changes in OpenClaw's configuration, and why. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from taskmem_hookspecs.installing import SERVER, TOOLS, runs_taskmem
from taskmem_openclaw import configuration
from taskmem_openclaw.setup import sight
from taskmem_openclaw.setup.edits import (
    Change,
    Put,
    Words,
    applied,
    at,
    edited,
    entries,
    items,
    removed,
)
from taskmem_openclaw.setup.patches import Document, same

PLUGIN: Final = configuration.PLUGIN
BUNDLE: Final = "taskmem-mcp"
"""The ids in the configuration: of the plug-in, and of the bundle."""

_ENTRY: Final = ("plugins", "entries", PLUGIN)
HOLD_BACK: Final = (*_ENTRY, "config", "holdBack")
HOME: Final = (*_ENTRY, "config", "home")
RECORD: Final = (*_ENTRY, "config", "recordCommands")
LOAD: Final = ("plugins", "load", "paths")
ALLOW: Final = ("plugins", "allow")


@dataclass(frozen=True)
class Wishes:
    """How it shall be."""

    folder: str
    """The plug-in's folder, absolute."""
    command: tuple[str, ...]
    """The command that is `taskmem`."""
    home: str
    tools: frozenset[str]
    """The names of the tools."""
    profiles: frozenset[str] = frozenset()
    """The tool profiles in which the plug-in's manifest puts all of them."""
    stale: frozenset[str] = frozenset()
    """Where the plug-in was linked from before, as far as is known."""


class Refused(Exception):
    """The operator has said that it shall not be; `str()` says how to change that."""


@dataclass(frozen=True)
class Plan:
    """What there is to change; no change: everything is in place."""

    changes: list[Change]
    notes: list[str]
    """What only the operator can change."""


def for_plugin(config: Mapping[str, Any], wishes: Wishes) -> Plan:
    """Plan the native plug-in.

    Raises:
        Refused: The configuration rules it out, or the bundle is there.
    """
    _must_be_allowed(config, PLUGIN)
    if at(config, ("plugins", "entries", BUNDLE, "enabled")) is True:
        raise Refused(_twice("MCP bundle", "plug-in"))
    tools = sight.Tools(PLUGIN, wishes.tools, wishes.profiles)
    seen, notes = sight.changes(config, tools)
    access = _access(config)
    wanted = [_plugin(config, wishes), *_listed(config, PLUGIN), access]
    wanted += [*_models(config), _holding_back(access), _recording()]
    return Plan(_real(config, [*wanted, *seen, *_servers(config)]), notes)


def for_bundle(config: Mapping[str, Any], wishes: Wishes) -> Plan:
    """Plan the MCP bundle, which needs no native plug-in.

    Raises:
        Refused: The configuration rules it out, or the plug-in is there.
    """
    _must_be_allowed(config, BUNDLE)
    if linked(config, wishes):
        raise Refused(_twice("plug-in", "MCP bundle"))
    names = frozenset(f"{SERVER}__{tool}" for tool in wishes.tools)
    tools = sight.Tools("bundle-mcp", names, frozenset(("coding", "messaging")))
    seen, notes = sight.changes(config, tools)
    wanted = [_bundle(config, wishes), *_listed(config, BUNDLE)]
    return Plan(_real(config, [*wanted, *seen]), notes)


def without(config: Mapping[str, Any], wishes: Wishes) -> Document:
    """Return a configuration without any trace of ours.

    What is empty then goes too, but for a list of what is allowed: an empty one
    does not mean what a missing one means.
    """
    result = dict(config)
    for name in (PLUGIN, BUNDLE):
        result = removed(result, ("plugins", "entries", name))
    for name in servers(config):
        result = removed(result, ("mcp", "servers", name))
    words = [
        Words(LOAD, (), tuple(linked(config, wishes))),
        Words(ALLOW, (), (PLUGIN, BUNDLE)),
    ]
    for scope in sight.scopes(config):
        for place in (scope, (*scope, "sandbox", "tools")):
            words += [
                Words((*place, key), (), (PLUGIN,)) for key in ("allow", "alsoAllow")
            ]
    for edit in words:
        if not set(edit.dropped).isdisjoint(map(str, items(at(result, edit.path)))):
            result = edited(result, edit)
            if not at(result, edit.path) and edit.path[-1] != "allow":
                result = removed(result, edit.path)
    return result


def linked(config: Mapping[str, Any], wishes: Wishes) -> list[str]:
    """Return the load paths that are the plug-in's, the wished one included."""
    known = wishes.stale | {wishes.folder}
    return [each for each in items(at(config, LOAD)) if each in known]


def servers(config: Mapping[str, Any]) -> list[str]:
    """Return the MCP servers that are `taskmem mcp`, by name."""
    found = entries(at(config, ("mcp", "servers")))
    return [name for name, server in found.items() if runs_taskmem(server)]


def _must_be_allowed(config: Mapping[str, Any], name: str) -> None:
    if at(config, ("plugins", "enabled")) is False:
        raise Refused(
            "OpenClaw's plug-ins are all switched off (plugins.enabled is false); "
            "switch them on and run this again."
        )
    if name in items(at(config, ("plugins", "deny"))):
        raise Refused(
            f"OpenClaw's configuration denies it (plugins.deny names {name}); take it "
            "out of that list if you want it after all, and run this again."
        )


def _twice(there: str, wanted: str) -> str:
    return (
        f"The {there} is installed, and with the {wanted} every tool would be there "
        "twice; run taskmem setup openclaw --remove first."
    )


def _plugin(config: Mapping[str, Any], wishes: Wishes) -> Change:
    stale = tuple(each for each in linked(config, wishes) if each != wishes.folder)
    return Change(
        "the plug-in",
        "the agent the tools, and wakes a way in"
        + ("; its link still points to where it was before" if stale else ""),
        (
            Words(LOAD, (wishes.folder,), stale),
            Put((*_ENTRY, "enabled"), value=True),
            Put((*_ENTRY, "config", "command"), list(wishes.command)),
            Put(HOME, wishes.home),
        ),
        leaves="what a wait in plain English, or on a screen, looks at, to your "
        "agent's own model, which judges it",
        needed=True,
    )


def _bundle(config: Mapping[str, Any], wishes: Wishes) -> Change:
    server = {
        "command": wishes.command[0],
        "args": [*wishes.command[1:], "mcp"],
        "env": {"TASKMEM_HOME": wishes.home, "TASKMEM_TOOLS": TOOLS},
    }
    own = [] if servers(config) else [Put(("mcp", "servers", SERVER), server)]
    return Change(
        "the MCP bundle",
        "the agent the tools and the skill",
        (Put(("plugins", "entries", BUNDLE, "enabled"), value=True), *own),
        needed=True,
    )


def _listed(config: Mapping[str, Any], name: str) -> Iterator[Change]:
    if items(at(config, ALLOW)):
        yield Change(
            f"{name} in plugins.allow",
            "it leave to load, for you list the plug-ins that may",
            (Words(ALLOW, (name,)),),
            needed=True,
        )


def _access(config: Mapping[str, Any]) -> Change:
    path = (*_ENTRY, "hooks", "allowConversationAccess")
    so_far = ", which you have refused so far" if at(config, path) is False else ""
    return Change(
        f"access to conversations{so_far}",
        "an open task back to its agent by itself, after a compaction, on a session's "
        "first turn and on 'continue'; for that the plug-in may read conversations",
        (Put(path, value=True),),
        without="the agent has to ask where it was, answers cannot be held back, and "
        "taskmem doctor warns of it",
    )


def _recording() -> Change:
    return Change(
        "recording of background commands",
        "a wait all that such a command prints, and its end also after the gateway has "
        "forgotten it; approvals and allow-lists then see the command taskmem run "
        "--name NAME -- SHELL -c 'COMMAND', so that rules for COMMAND match no more",
        (Put(RECORD, value=True),),
        without="a wait sees what OpenClaw keeps, the newest 200,000 characters",
        by_hand=_set_by_hand(RECORD),
    )


def _models(config: Mapping[str, Any]) -> Iterator[Change]:
    """Let the small model read texts, and the one for images pictures.

    Without it, the agent's own model reads both, as far as it takes pictures.
    """
    defaults = ("agents", "defaults")
    images = at(config, (*defaults, "imageModel"))
    found = {
        "texts": at(config, (*defaults, "utilityModel")),
        "pictures": at(images, ("primary",)) or images,
    }
    named = {k: each for k, each in found.items() if isinstance(each, str) and each}
    if not named:
        return
    use = " and ".join(f"{model} read {what}" for what, model in named.items())
    yield Change(
        f"models for reading: {', '.join(dict.fromkeys(named.values()))}",
        f"waits in plain English, and on screens, a model meant for it: it lets {use}",
        (
            Put((*_ENTRY, "llm", "allowModelOverride"), value=True),
            Words((*_ENTRY, "llm", "allowedModels"), (*dict.fromkeys(named.values()),)),
        ),
        without="your agent's own model does that, where it can",
        leaves="what such a wait looks at, to whoever runs that model",
    )


def _holding_back(access: Change) -> Change:
    """Hold answers back until they are looked at, which ends all streaming."""
    return Change(
        "answers held back until they are looked at",
        "an answer that names a file that is found nowhere a second try before you see "
        "it, in a turn that works on a task and has changed nothing; for that, no "
        "answer of any session streams: each arrives at once, at its end",
        (Put(HOLD_BACK, value=True),),
        without="where the answer after a completed task names such a file, the next "
        "line says so",
        needs=access,
        by_hand=_set_by_hand(HOLD_BACK),
    )


def for_gemini(variable: str, *, bundle: bool) -> Change:
    """Ask for what no configuration of OpenClaw's says: whether Gemini may read.

    `variable` is that of the environment which holds the key.
    """
    return Change(
        f"Gemini, by the key in {variable}",
        "waits in plain English, and on screens, a fast and cheap model that judges "
        "them",
        (),
        without="such waits are refused"
        if bundle
        else "OpenClaw's own model judges them",
        leaves="the newest lines of the terminal, without secrets, or pictures of the "
        "window or screen that such a wait looks at, to Google",
        by_hand="TASKMEM_READERS=gemini,host in the environment or in config.toml",
    )


def _set_by_hand(path: Sequence[str]) -> str:
    return f"openclaw config set {'.'.join(path)} true"


def _servers(config: Mapping[str, Any]) -> Iterator[Change]:
    for name in servers(config):
        yield Change(
            f"the MCP server {name} switched off",
            "each tool to the agent once, for that server is taskmem too",
            (Put(("mcp", "servers", name, "enabled"), value=False),),
            without="every tool is there twice",
        )


def _real(config: Mapping[str, Any], changes: Iterable[Change]) -> list[Change]:
    """Leave out what is so already."""
    return [each for each in changes if not same(applied(config, [each]), config)]
