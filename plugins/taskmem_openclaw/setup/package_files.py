"""Find plug-ins in folders: what this package ships, its copies, and others with our tool's name.

OpenClaw drops the later of two tools with one name in silence, so our `memory_recall` is left out
where another plug-in with that name is active. `gateway/past_tasks.js` decides by the same rule.
Measured with OpenClaw 2026.9.6.
"""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from taskmem_openclaw.json_values import find_value, to_list, to_object
from taskmem_openclaw.setup import plan
from taskmem_openclaw.setup.openclaw import ShippedPackage
from taskmem_setup import NotOurs, Skill, find_command, find_home

_READERS: Final = "TASKMEM_READERS"
_MANIFEST: Final = "openclaw.plugin.json"
_RECALL_TOOL: Final = "memory_recall"
_LANCEDB: Final = "memory-lancedb"
"""The plug-in of OpenClaw's makers that has a tool of that name."""


def find_plugin() -> ShippedPackage:
    """Return the shipped native plug-in."""
    return ShippedPackage(plan.PLUGIN, _find_folder("gateway"), link=True)


def find_bundle() -> ShippedPackage:
    """Return the shipped MCP bundle."""
    return ShippedPackage(plan.BUNDLE, _find_folder("bundle"), link=False)


def read_version() -> str:
    """Return the version of the native plug-in."""
    return str(json.loads(find_plugin().folder.joinpath(_MANIFEST).read_bytes())["version"])


def find_skill_copies(file: Path, config: Mapping[str, Any]) -> list[Skill]:
    """Return the existing copies of our skill that OpenClaw's installer has made.

    `file`: OpenClaw's configuration file; one copy is beside it.
    """
    state = file.parent
    workspace = find_value(config, ("agents", "defaults", "workspace"))
    named = Path(str(workspace)).expanduser() if workspace else state / "workspace"
    shipped = (find_plugin().folder, find_bundle().folder)
    skills = (each / "skills" / plan.SKILL / "SKILL.md" for each in shipped)
    known = tuple(skill.read_bytes() for skill in skills)
    places = [Skill(each / "skills", known=known) for each in (state, named)]
    found: list[Skill] = []
    for each in places:
        with suppress(NotOurs, OSError):
            if each.there is not None:
                found.append(each)
    return found


def has_named_readers() -> bool:
    """Return whether the operator has set the readers, in the environment or in config.toml."""
    if os.environ.get(_READERS, "").strip():
        return True
    try:
        settings = tomllib.loads((find_home() / "config.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(settings.get("readers"))


def build_desired_state(config: Mapping[str, Any], known: str, state: Path) -> plan.DesiredState:
    """Return the desired state of an OpenClaw.

    Where its configuration says the same in other words, such as by a link, these are desired.

    `known`: the folder the plug-in was last linked from; empty: unknown. `state`: OpenClaw's state
    folder.
    """
    folder = find_plugin().folder
    manifest: object = json.loads(folder.joinpath(_MANIFEST).read_bytes())
    tools = frozenset(map(str, to_list(find_value(manifest, ("contracts", "tools")))))
    linked = [*map(str, to_list(find_value(config, plan.LOAD)))]
    copied = state / "extensions" / plan.PLUGIN
    command = tuple(map(str, to_list(find_value(config, plan.COMMAND))))
    program = shutil.which(command[0]) if command else None
    wanted = find_command()
    if program and _is_same_path(program, wanted[0]) and command[1:] == wanted[1:]:
        wanted = command
    home = _find_same_path(find_home(), [str(find_value(config, plan.HOME) or "")])
    return plan.DesiredState(
        folder=_find_same_path(folder, linked),
        command=wanted,
        home=home,
        tools=tools,
        profiles=_read_profiles(manifest, tools),
        stale=frozenset(path for path in linked if path == known or _is_plugin(Path(path))),
        copied=str(copied) if _is_own_folder(copied) else "",
        default_home=_find_same_path(state / "taskmem", [home]),
        has_skill=(folder / "skills" / plan.SKILL / "SKILL.md").is_file(),
        is_command_gone=bool(command) and program is None,
    )


def list_plugin_folders(config: Mapping[str, Any], state: Path) -> list[Path]:
    """Return the folders from which OpenClaw loads a plug-in with our id."""
    linked = map(_expand_home, to_list(find_value(config, plan.LOAD)))
    return [path for path in (*linked, state / "extensions" / plan.PLUGIN) if _is_own_folder(path)]


def _is_own_folder(folder: Path) -> bool:
    """Return whether a folder has a plug-in with our id."""
    return find_value(_read_manifest(folder), ("id",)) == plan.PLUGIN


def _expand_home(path: object) -> Path:
    """Expand `~` as OpenClaw does; an unknown user is left as it is."""
    return Path(os.path.expanduser(str(path).replace("\0", "")))  # noqa: PTH111


def find_recall_owner(config: Mapping[str, Any], state: Path | None) -> str | None:
    """Return the id of the active plug-in that has the name `memory_recall`; None: ours has it.

    `state`: OpenClaw's state folder, in which plug-ins are installed; None: not known.
    """
    manifests = {_LANCEDB: "memory", **dict(_list_rivals(config, state))}
    return next((each for each, kind in manifests.items() if _is_active(config, each, kind)), None)


def describe_recall_owner(owner: str) -> str:
    """Say what is done about another plug-in that has the name."""
    return (
        f"The plug-in {owner} has the tool name {_RECALL_TOOL}, so ours is left out; past tasks "
        'are found by memory_search with corpus "all".'
    )


def _find_folder(name: str) -> Path:
    return Path(str(files("taskmem_openclaw").joinpath(name))).resolve()


def _read_profiles(manifest: object, tools: frozenset[str]) -> frozenset[str]:
    """Return the tool profiles that the manifest gives to every tool."""
    metadata = to_object(find_value(manifest, ("toolMetadata",)))
    found = {"minimal", "coding", "messaging"} if tools else set[str]()
    for tool in tools:
        found &= set(map(str, to_list(find_value(metadata.get(tool), ("profiles",)))))
    return frozenset(found)


def _is_plugin(folder: Path) -> bool:
    """Return whether a folder is our plug-in, or has the path of one that was deleted."""
    manifest = _read_manifest(folder)
    if manifest is None:
        return folder.parts[-2:] == ("taskmem_openclaw", "gateway") and not folder.exists()
    return find_value(manifest, ("id",)) == plan.PLUGIN


def _read_manifest(folder: Path) -> object:
    """Return the manifest of a plug-in; None: the folder has none that can be read."""
    try:
        return json.loads((folder / _MANIFEST).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def _find_same_path(path: Path, others: Iterable[str]) -> str:
    """Return the other path that leads to the same file or folder; else the path itself."""
    return next((each for each in others if each and _is_same_path(each, path)), str(path))


def _is_same_path(one: str | Path, other: str | Path) -> bool:
    return os.path.realpath(_expand_home(one)) == os.path.realpath(_expand_home(other))


def _is_active(config: Mapping[str, Any], plugin: str, kind: str) -> bool:
    """Return whether a plug-in is switched on; of those for memory, only the one in the slot is."""
    plugins = to_object(config.get("plugins"))
    if plugins.get("enabled") is False or plugin in to_list(plugins.get("deny")):
        return False
    if find_value(plugins, ("entries", plugin, "enabled")) is False:
        return False
    return kind != "memory" or find_value(plugins, ("slots", "memory")) == plugin


def _list_rivals(config: Mapping[str, Any], state: Path | None) -> Iterator[tuple[str, str]]:
    """Yield the id and kind of each plug-in that is installed and declares the name."""
    folders = [*map(_expand_home, to_list(find_value(config, plan.LOAD)))]
    if state is not None:
        folders += sorted((state / "extensions").glob("*"))
    for folder in folders:
        manifest = _read_manifest(folder)
        plugin = find_value(manifest, ("id",))
        tools = to_list(find_value(manifest, ("contracts", "tools")))
        if plugin not in (None, plan.PLUGIN) and _RECALL_TOOL in tools:
            yield str(plugin), str(find_value(manifest, ("kind",)))
