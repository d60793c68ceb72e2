"""What a caller may look at: one policy for waits, and for commands that prove.

| who asks | a file | terminals, windows, the screen |
| --- | --- | --- |
| a person, by a command | anywhere | all |
| an agent | below the roots, or its own folder | all |
| an agent in its host's sandbox | below its own folder [1] | what its session runs |

Files that are never shown (`taskmem_hookspecs.paths`) are refused to everybody.

[1] As `TASKMEM_SANDBOX_LOOKS` says; with `all` it is an agent like any other.

Whose a recorded command was that has ended, nothing tells, so none is shown there.

Source: decision 25.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Final

from openclaw_taskmem.domain import queues
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.texts import to_plain_line
from taskmem_hookspecs import Target, Value
from taskmem_hookspecs.errors import NotAllowed

_FILE: Final = "file:"


class SandboxLooks(StrEnum):
    """What an agent may look at that its host keeps in a sandbox."""

    WORKSPACE = "workspace"
    """Files below its own folder, and what its session runs."""
    NONE = "none"
    """What its session runs."""
    ALL = "all"
    """As any agent."""


class LookPolicy(Value):
    """Where agents may look."""

    roots: tuple[str, ...] | None = None
    """The folders that files may lie in, besides an agent's own; None: anywhere."""
    sandbox: SandboxLooks = SandboxLooks.WORKSPACE


def is_sandboxed(caller: Caller, policy: LookPolicy) -> bool:
    """Return whether a caller sees no more than its host's sandbox does."""
    return caller.sandboxed and policy.sandbox is not SandboxLooks.ALL


def confine_target(
    target: Target, caller: Caller, policy: LookPolicy, runs: Collection[str] = ()
) -> Target:
    """Return a target with the folders that it must lie in for a caller.

    `runs` are the names of the commands that the caller's session runs now.

    Raises:
        NotAllowed: The caller may not look at it.
    """
    if caller.person or policy.roots is None or target.scheme == queues.SCHEME:
        return target
    own = () if caller.folder is None or caller.folder == "/" else (caller.folder,)
    is_file = target.scheme == "pty" and target.name.startswith(_FILE)
    if not is_sandboxed(caller, policy):
        # What has no folders stays the same target, so that all share one watch.
        within = (*own, *policy.roots) if is_file else None
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
    """Return whether a recorded command that has ended is not shown to a caller."""
    try:
        confine_target(Target(scheme="pty", name=name), caller, policy)
    except NotAllowed:
        return True
    return False


def confine_to_kept_folders(
    target: Target, kept: tuple[str, ...] | None, caller: Caller, policy: LookPolicy
) -> Target:
    """Return the confined target of a wait that is armed again, with its own folders.

    It is still the same file, so that the folders of who asked before count as well;
    not for an agent in a sandbox, which sees no more than that shows. `kept`: the
    wait's; None: anywhere, which a person's asking alone allowed.
    """
    if kept is None or is_sandboxed(caller, policy):
        return target
    within = (*dict.fromkeys((*(target.within or ()), *kept)),)
    return target.model_copy(update={"within": within})
