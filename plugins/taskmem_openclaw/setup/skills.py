"""Find the copies of the skill that OpenClaw's installer has made."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from taskmem_hookspecs.installing import NotOurs, Skill
from taskmem_openclaw.setup import package_files
from taskmem_openclaw.setup.edits import find_value


def find_skill_copies(config: Path, said: Mapping[str, Any]) -> list[Skill]:
    """Return the existing copies that are our skill.

    Args:
        config: OpenClaw's configuration file; one copy is beside it.
        said: The parsed configuration.
    """
    state = config.parent
    workspace = find_value(said, ("agents", "defaults", "workspace"))
    named = Path(str(workspace)).expanduser() if workspace else state / "workspace"
    places = [Skill(each / "skills", known=package_files.read_skills()) for each in (state, named)]
    found: list[Skill] = []
    for each in places:
        with suppress(NotOurs, OSError):
            if each.there is not None:
                found.append(each)
    return found
