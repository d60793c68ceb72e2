"""Decide what a caller may look at, for waits and for recorded commands as evidence.

| who asks                       | a file                             | terminals, windows, screen |
| ------------------------------ | ---------------------------------- | -------------------------- |
| a person, by a command         | anywhere                           | all                        |
| an agent                       | below the roots, or its own folder | all                        |
| an agent in its host's sandbox | below its own folder [1]           | what its session runs      |

Files that are never shown (`taskmem_hookspecs.paths`) are refused to everybody.

[1] As `TASKMEM_SANDBOX_LOOKS` says; with `all` it is an agent like any other.

The owner of a recorded command that has ended is not known, so a sandboxed agent sees none.

Source: docs/decisions/0025-what-may-be-looked-at.md.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Final

from openclaw_taskmem.domain.callers.callers import Caller
from openclaw_taskmem.domain.conditions import role_queue_target
from openclaw_taskmem.domain.text.texts import to_plain_line
from taskmem_hookspecs import Target, Value
from taskmem_hookspecs.errors import NotAllowed

_FILE: Final = "file:"
_NEVER_FILES: Final = ("screen", "window")
"""Schemes whose targets are no files; a scheme of a plug-in may name some."""


class SandboxLooks(StrEnum):
    """The looks that an agent in its host's sandbox may have."""

    WORKSPACE = "workspace"
    """Files below its own folder, and what its session runs."""
    NONE = "none"
    """Only what its session runs."""
    ALL = "all"
    """The same as any agent."""


class LookPolicy(Value):
    """Where agents may look."""

    roots: tuple[str, ...] | None = None
    """Folders in which files may lie, besides the agent's own; None: anyone may look
    anywhere, even an agent in a sandbox."""
    sandbox: SandboxLooks = SandboxLooks.WORKSPACE


def is_sandboxed(caller: Caller, policy: LookPolicy) -> bool:
    """True if a caller may see no more than its host's sandbox shows."""
    return caller.sandboxed and policy.sandbox is not SandboxLooks.ALL


def confine_target(
    target: Target, caller: Caller, policy: LookPolicy, runs: Collection[str] = ()
) -> Target:
    """Add to a target the folders within which it must lie for a caller.

    `runs` are the names of the commands that the caller's session runs now.

    Raises:
        NotAllowed: The caller may not look at it.
    """
    if caller.person or policy.roots is None or target.scheme == role_queue_target.SCHEME:
        return target
    own = () if caller.folder is None or caller.folder == "/" else (caller.folder,)
    is_file = target.scheme == "pty" and target.name.startswith(_FILE)
    if not is_sandboxed(caller, policy):
        # Without folders the target stays the same, so that all share one watch.
        may_be_file = is_file or target.scheme not in ("pty", *_NEVER_FILES)
        within = (*own, *policy.roots) if may_be_file else None
        return target.model_copy(update={"within": within})
    if target.scheme == "pty" and target.name in runs:
        return target.model_copy(update={"within": ()})
    files = own if policy.sandbox is SandboxLooks.WORKSPACE else ()
    if files and is_file:
        return target.model_copy(update={"within": files})
    where = f", or on a file below {to_plain_line(files[0])}" if files else ""
    raise NotAllowed(
        f"You run in a sandbox of your host, so {to_plain_line(str(target))} is not shown to "
        f"you; wait on a command that your session runs in the background{where}, or "
        "ask the user to set TASKMEM_SANDBOX_LOOKS=all."
    )


def is_command_hidden(name: str, caller: Caller, policy: LookPolicy) -> bool:
    """True if a caller may not see a recorded command that has ended."""
    try:
        confine_target(Target(scheme="pty", name=name), caller, policy)
    except NotAllowed:
        return True
    return False


def confine_to_kept_folders(
    target: Target, kept: tuple[str, ...] | None, caller: Caller, policy: LookPolicy
) -> Target:
    """Add the folders of a wait that is armed again to its confined target.

    It still watches the same file, so the folders of the caller that started it remain allowed,
    except for an agent in a sandbox. `kept`: the wait's folders; None: anywhere, which only a
    person could allow.
    """
    if kept is None or is_sandboxed(caller, policy):
        return target
    within = (*dict.fromkeys((*(target.within or ()), *kept)),)
    return target.model_copy(update={"within": within})
