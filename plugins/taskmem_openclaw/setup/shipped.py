"""What the package brings along, and how an installation of it is called."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Mapping
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from taskmem_openclaw.setup import plan
from taskmem_openclaw.setup.edits import at, entries, items
from taskmem_openclaw.setup.moving import Shipped

READERS: Final = "TASKMEM_READERS"
MANIFEST: Final = "openclaw.plugin.json"
_SEAL: Final = b"<!-- "
"""Before the sum of a skill's words, at its end."""


def home() -> Path:
    """Return the state folder; the command line has put it into the environment."""
    return Path(os.environ["TASKMEM_HOME"])


def plugin() -> Shipped:
    """Return the native plug-in."""
    return Shipped(plan.PLUGIN, _folder("gateway"), link=True)


def bundle() -> Shipped:
    """Return the MCP bundle."""
    return Shipped(plan.BUNDLE, _folder("bundle"), link=False)


def version() -> str:
    """Return the version of the native plug-in."""
    return str(json.loads(plugin().folder.joinpath(MANIFEST).read_bytes())["version"])


def skill() -> bytes:
    """Return the words of the skill for hosts without our plug-in.

    OpenClaw's own comes with that; the bundle brings these words along.
    """
    return add_seal(_folder("hosts").joinpath("SKILL.md").read_bytes())


def is_untouched(skill: bytes) -> bool:
    """Whether a skill has the words of a version of ours, be it an earlier one."""
    words, seal, _ = skill.rpartition(_SEAL)
    return skill in skills() or (seal != b"" and skill == add_seal(words))


def add_seal(words: bytes) -> bytes:
    """Return a skill with the sum of its words, which shows a change by hand."""
    return words + _SEAL + sha256(words).hexdigest()[:12].encode() + b" -->\n"


def skills() -> tuple[bytes, ...]:
    """Return the words of the skills of this version: of hosts, and of OpenClaw."""
    folders = (plugin().folder, bundle().folder)
    files = (each / "skills" / "task-memory" / "SKILL.md" for each in folders)
    return skill(), *(file.read_bytes() for file in files)


def command() -> tuple[str, ...]:
    """Return the command that is this installation's `taskmem`, by its whole path."""
    program = Path(sys.executable).with_name("taskmem")
    if os.access(program, os.X_OK):
        return (str(program),)
    return (sys.executable, "-m", "openclaw_taskmem")


def names_readers() -> bool:
    """Whether the operator has said who reads, in the environment or in the file."""
    if os.environ.get(READERS, "").strip():
        return True
    try:
        settings = tomllib.loads((home() / "config.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(settings.get("readers"))


def wishes(config: Mapping[str, Any], known: str) -> plan.Wishes:
    """Return how an OpenClaw shall be.

    Args:
        config: Its configuration.
        known: Where the plug-in was linked from last, if that is known.
    """
    folder = plugin().folder
    manifest: object = json.loads(folder.joinpath(MANIFEST).read_bytes())
    tools = frozenset(map(str, items(at(manifest, ("contracts", "tools")))))
    return plan.Wishes(
        folder=str(folder),
        command=command(),
        home=str(home()),
        tools=tools,
        profiles=_profiles(manifest, tools),
        stale=frozenset(
            path
            for path in map(str, items(at(config, plan.LOAD)))
            if path == known or _is_plugin(Path(path))
        ),
    )


def _folder(name: str) -> Path:
    return Path(str(files("taskmem_openclaw").joinpath(name))).resolve()


def _profiles(manifest: object, tools: frozenset[str]) -> frozenset[str]:
    """Return the tool profiles that the manifest puts every tool into."""
    told = entries(at(manifest, ("toolMetadata",)))
    found = {"minimal", "coding", "messaging"} if tools else set[str]()
    for tool in tools:
        found &= set(map(str, items(at(told.get(tool), ("profiles",)))))
    return frozenset(found)


def _is_plugin(folder: Path) -> bool:
    """Whether a folder is this plug-in, or was before it went away."""
    try:
        manifest: object = json.loads(folder.joinpath(MANIFEST).read_bytes())
    except (OSError, ValueError, RecursionError):
        own = ("taskmem_openclaw", "gateway")
        return folder.parts[-2:] == own and not folder.exists()
    return at(manifest, ("id",)) == plan.PLUGIN
