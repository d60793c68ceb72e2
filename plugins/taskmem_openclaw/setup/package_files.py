"""Find the files that this package ships, their copies, and the desired state of OpenClaw."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from taskmem_hookspecs.installing import NotOurs, Skill, find_command, find_home
from taskmem_openclaw.setup import plan
from taskmem_openclaw.setup.apply import ShippedPackage
from taskmem_openclaw.setup.edits import find_value, to_list, to_object

READERS: Final = "TASKMEM_READERS"
MANIFEST: Final = "openclaw.plugin.json"


def find_plugin() -> ShippedPackage:
    """Return the shipped native plug-in."""
    return ShippedPackage(plan.PLUGIN, _find_folder("gateway"), link=True)


def find_bundle() -> ShippedPackage:
    """Return the shipped MCP bundle."""
    return ShippedPackage(plan.BUNDLE, _find_folder("bundle"), link=False)


def read_version() -> str:
    """Return the version of the native plug-in."""
    return str(json.loads(find_plugin().folder.joinpath(MANIFEST).read_bytes())["version"])


def read_skills() -> tuple[bytes, ...]:
    """Return the texts of the shipped skills: the plug-in's, then the bundle's."""
    folders = (find_plugin().folder, find_bundle().folder)
    files = (each / "skills" / "task-memory" / "SKILL.md" for each in folders)
    return tuple(file.read_bytes() for file in files)


def find_skill_copies(config: Path, said: Mapping[str, Any]) -> list[Skill]:
    """Return the existing copies of our skill that OpenClaw's installer has made.

    Args:
        config: OpenClaw's configuration file; one copy is beside it.
        said: The parsed configuration.
    """
    state = config.parent
    workspace = find_value(said, ("agents", "defaults", "workspace"))
    named = Path(str(workspace)).expanduser() if workspace else state / "workspace"
    places = [Skill(each / "skills", known=read_skills()) for each in (state, named)]
    found: list[Skill] = []
    for each in places:
        with suppress(NotOurs, OSError):
            if each.there is not None:
                found.append(each)
    return found


def has_named_readers() -> bool:
    """Return whether the operator has set the readers, in the environment or in config.toml."""
    if os.environ.get(READERS, "").strip():
        return True
    try:
        settings = tomllib.loads((find_home() / "config.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(settings.get("readers"))


def build_desired_state(config: Mapping[str, Any], known: str) -> plan.DesiredState:
    """Return the desired state of an OpenClaw.

    Args:
        config: OpenClaw's configuration.
        known: The folder the plug-in was last linked from; empty: unknown.
    """
    folder = find_plugin().folder
    manifest: object = json.loads(folder.joinpath(MANIFEST).read_bytes())
    tools = frozenset(map(str, to_list(find_value(manifest, ("contracts", "tools")))))
    return plan.DesiredState(
        folder=str(folder),
        command=find_command(),
        home=str(find_home()),
        tools=tools,
        profiles=_read_profiles(manifest, tools),
        stale=frozenset(
            path
            for path in map(str, to_list(find_value(config, plan.LOAD)))
            if path == known or _is_plugin(Path(path))
        ),
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
    try:
        manifest: object = json.loads(folder.joinpath(MANIFEST).read_bytes())
    except (OSError, ValueError, RecursionError):
        own = ("taskmem_openclaw", "gateway")
        return folder.parts[-2:] == own and not folder.exists()
    return find_value(manifest, ("id",)) == plan.PLUGIN
