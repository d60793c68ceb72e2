"""Parse and name targets, `scheme:name` or `screen`, and decide what a caller may look at.

The core watches `queue:ROLE` itself: it waits until a run is queued for that role and can be
claimed now; `task:ID`, for callers who may read it; and `session:KEY`, for those whose agent
spawned it. Plug-ins watch all other schemes. Who may look at what, for waits and for recorded
commands as evidence:

| who asks                       | a file or path                     | all else [2]          |
| ------------------------------ | ---------------------------------- | --------------------- |
| a person, by a command         | anywhere                           | all                   |
| an agent                       | below the roots, or its own folder | all                   |
| an agent in its host's sandbox | below its own folder [1]           | what its session runs |

Files that are never shown (`taskmem_hookspecs.paths`) are refused to everybody.

[1] As `TASKMEM_SANDBOX_LOOKS` says; with `all` it is an agent like any other.

[2] Terminals, processes, windows, the screen, pages. Of commands that are run again and again,
those that the settings allow agents. Queues and instants are for everybody, a
task for who may read it, a session for the agent that spawned it.

The owner of a recorded command that has ended is not known, so a sandboxed agent sees none.

Source: docs/decisions/0024-the-registrar-is-told.md.

Source: docs/decisions/0025-what-may-be-looked-at.md.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import datetime
from enum import StrEnum
from typing import Final

from openclaw_taskmem.domain import callers
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.text.texts import clip, quote_line, to_plain_line
from taskmem_hookspecs import (
    Condition,
    ConditionUnclear,
    InvalidArguments,
    Target,
    Task,
    Value,
    Wait,
)
from taskmem_hookspecs.errors import NotAllowed

QUEUE_SCHEME: Final = "queue"
"""Scheme of queue targets."""
QUEUE_FORM: Final = "a task is queued"
"""The only condition of a queue; it may be left out."""
TASK_SCHEME: Final = "task"
"""Scheme of tasks as targets."""
SESSION_SCHEME: Final = "session"
"""Scheme of sessions as targets, of which an agent waits for the end."""
LIMIT_SCHEME: Final = "limit"
"""Scheme of the limits of use of hosts as targets."""
_TIME_SCHEME: Final = "time"
_PATH_SCHEME: Final = "path"
_COMMAND_SCHEME: Final = "command"
_ONLY_CONDITIONS: Final = {
    LIMIT_SCHEME: "is over",
    QUEUE_SCHEME: QUEUE_FORM,
    _TIME_SCHEME: "comes",
}
"""Targets that have one condition, and which everybody may wait for."""
_TASK_NAME_BYTES: Final = 200
"""Longest excerpt of a queued task's name."""
_LONGEST_NAME: Final = 4096
"""Most bytes of a target's name; no path is longer."""

BUILT_IN_SCHEMES: Final = frozenset(
    (
        *("command", "path", "process", "pty", "screen", "time", "url", "window"),
        *(LIMIT_SCHEME, QUEUE_SCHEME, SESSION_SCHEME, TASK_SCHEME),
    )
)
"""Schemes that the core and the built-in plug-ins watch and judge.

Of any other, the refusal of a condition lists the forms that are judged, and a plug-in may describe
its targets.
"""
_LABEL_BYTES: Final = 80
"""Longest excerpt of a target's name in a line for people."""
_UNTIL_BYTES: Final = 200
"""Longest excerpt of a condition in a line for people."""
_FILE_TARGET: Final = re.compile(r"(?:pty\s*:\s*file|path)\s*:", re.IGNORECASE)
_SEVERAL_TARGETS: Final = re.compile(r", (?=(?:[a-z]+:|screen(?:,|$)))")
"""Between the targets of a wait on several, as `several.name_parts` joins them."""
_ID_SCHEMES: Final = (TASK_SCHEME, SESSION_SCHEME, "wait")
"""Schemes whose targets are named by an id."""
TARGET_FORMS: Final = (
    "A target is pty:NAME (a command under taskmem run), pty:tmux:TARGET, "
    "pty:file:/a/log, window:TITLE, window:0xID, screen, path:/absolute/path, process:PID, "
    "time:WHEN (18:00, tomorrow 9:00, 90m, cron 0 9 * * 1-5), url:https://…, "
    "command:gh run view 7, task:ID, session:SUB_AGENT, limit:claude, queue:ROLE, or what a "
    "plug-in adds"
)


def trim_target(text: str) -> str:
    """Return a target without the blanks around it; the name of a file may end with one."""
    whole = text.strip()
    return text.lstrip().rstrip("\r\n") if _FILE_TARGET.match(whole) else whole


def parse_target(text: str) -> Target:
    """Parse a target. Whether it can be watched is not checked.

    Raises:
        InvalidArguments: It is no target; the sentence shows the forms.

    Source: docs/origins.md, "Targets".
    """
    scheme, _, name = trim_target(text).partition(":")
    scheme, name = scheme.strip().lower(), name.lstrip()
    if scheme == "screen" and not name:
        return Target(scheme=scheme, name="")
    if scheme == QUEUE_SCHEME and name:
        role = name.lower()
        if role == callers.USER:
            raise InvalidArguments(
                "Nothing is queued for the user, who reviews what is handed to them; see "
                "taskmem list. Nothing was written."
            )
        if (fault := callers.find_role_fault(role)) is not None:
            raise InvalidArguments(f"{quote_line(role, 80)} {fault}. Nothing was written.")
        return Target(scheme=scheme, name=role)
    known = scheme not in (QUEUE_SCHEME, "screen") and scheme.isascii()
    if known and scheme.isidentifier() and name and name.replace("\t", " ").isprintable():
        if len(name.encode()) > _LONGEST_NAME:
            raise InvalidArguments(
                f"The target has more than {_LONGEST_NAME:,} bytes, and nothing has such a "
                "name. Nothing was written."
            )
        return Target(scheme=scheme, name=name)
    raise InvalidArguments(
        f"{quote_line(text, 80)} is no target. {TARGET_FORMS}. Nothing was written."
    )


def find_target(wait: Wait) -> Target:
    """Parse a wait's target, and add the folders within which it must lie.

    Raises:
        InvalidArguments: As `parse_target`.
    """
    return parse_target(wait.target).model_copy(update={"within": wait.within})


def describe_target(text: str) -> str:
    """Name a target for people: the name of a terminal or file, or a window's title.

    A target that is named by an id is called by its scheme. Of several each is named.
    """
    several = _SEVERAL_TARGETS.split(text)
    if len(several) > 1:
        return clip(", ".join(map(describe_target, several)), _LABEL_BYTES)
    scheme, _, name = text.partition(":")
    if scheme == "screen":
        return "the screen"
    if not name or scheme in _ID_SCHEMES:
        return scheme
    if scheme == QUEUE_SCHEME:
        return f"the queue of {clip(to_plain_line(name), _LABEL_BYTES)}"
    kind, colon, rest = name.partition(":")
    if scheme == "pty" and colon and kind in ("file", "tmux"):
        name = rest
    return clip(to_plain_line(name.rstrip("/").rpartition("/")[2] or name), _LABEL_BYTES)


def describe_wait(wait: Wait) -> str:
    """Say what is waited for in its user's words: `build.log until "Build finished" appears`."""
    until = clip(to_plain_line(wait.wake_when), _UNTIL_BYTES).rstrip(".")
    return f"{describe_target(wait.target)} until {until}"


# --- queues of roles ----------------------------------------------------------


def is_instant(target: str) -> bool:
    """True if a target, as an agent writes it, is an instant, which says itself how long it is."""
    return target.partition(":")[0].strip().lower() == _TIME_SCHEME


def guard_instant(target: Target, start: str, now: datetime, seconds: float) -> None:
    """Refuse to wait for an instant that comes only after the time limit, `seconds` from now.

    `start`: where the wait would begin, which of an instant is that itself.

    Raises:
        InvalidArguments: As it says.
    """
    if target.scheme != _TIME_SCHEME:
        return
    try:
        due = datetime.fromisoformat(start)
    except ValueError:  # another plug-in watches it
        return
    if (left := (due - now).total_seconds()) > seconds:
        raise InvalidArguments(
            f"{target} is {due:%Y-%m-%d %H:%M} UTC, in {left:,.0f} s, and the wait would end "
            f"before, after {seconds:,.0f} s. Leave timeout out, which lets it last 30 days, the "
            "longest; for a later instant wait for time:30d, and then anew. Nothing was written."
        )


def find_only_condition(target: str) -> str | None:
    """Return the condition of a target, as an agent writes it, that has one only; None: others."""
    return _ONLY_CONDITIONS.get(target.partition(":")[0].strip().lower())


def refuse_queue_condition(condition: Condition) -> ConditionUnclear | None:
    """Return why a queue cannot meet a condition; None: it can."""
    if condition.sentence.strip().rstrip(".").lower() == QUEUE_FORM:
        return None
    refusal = ConditionUnclear(
        f'Of a queue one thing can be waited for, "{QUEUE_FORM}": give that as wake_when, or '
        "leave wake_when out. Nothing was written.",
        tuple(range(len(condition.sides))),
    )
    refusal.details = {
        "sides": [side.words for side in condition.sides],
        "forms": [QUEUE_FORM],
        "suggestion": QUEUE_FORM,
    }
    return refusal


def guard_queue_wait(target: Target, caller: Caller) -> None:
    """Refuse a wait for a queue from which the caller cannot claim.

    Raises:
        InvalidArguments: The caller's gateway gives it another role.
    """
    owner = caller.gateway_owner
    if target.scheme == QUEUE_SCHEME and owner is not None and owner.role != target.name:
        raise InvalidArguments(
            f"Your gateway says that you are {owner.role}, so you cannot claim as "
            f"{target.name}; wait for {QUEUE_SCHEME}:{owner.role}, or let an agent of that "
            "role wait. Nothing was written."
        )


def describe_queued_task(task: Task, role: str) -> str:
    """Say that a role may claim a task, and how."""
    name = clip(to_plain_line(task.name), _TASK_NAME_BYTES)
    return (
        f'{task.task_id} "{name}" is queued, and {role} may claim it: call task_claim '
        f'with role "{role}".'
    )


# --- who may look -------------------------------------------------------------


_FILE_PREFIX: Final = "file:"
URL_SCHEME: Final = "url"
_NEVER_FILES: Final = ("process", "screen", "window")
"""Schemes whose targets are no files; a scheme of a plug-in may name some."""


class SandboxLooks(StrEnum):
    """The looks that an agent in its host's sandbox may have."""

    WORKSPACE = "workspace"
    """Files below its own folder, and what its session runs."""
    NONE = "none"
    """Only what its session runs."""
    ALL = "all"
    """All that an agent outside a sandbox may look at."""


class LookPolicy(Value):
    """Where agents may look."""

    roots: tuple[str, ...] | None = None
    """Folders in which files may lie, besides the agent's own; None: anyone may look
    anywhere, even an agent in a sandbox."""
    sandbox: SandboxLooks = SandboxLooks.WORKSPACE
    commands: tuple[str, ...] = ()
    """How commands begin that agents may have run; "all": any."""


def is_sandboxed(caller: Caller, policy: LookPolicy) -> bool:
    """True if a caller may see no more than its host's sandbox shows."""
    return caller.sandboxed and policy.sandbox is not SandboxLooks.ALL


def confine_target(
    target: Target, caller: Caller, policy: LookPolicy, runs: Collection[str] = ()
) -> Target:
    """Add to a target the folders within which it must lie for a caller; to a command, its folder.

    `runs` are the names of the commands that the caller's session runs now.

    Raises:
        NotAllowed: The caller may not look at it.
    """
    own = () if caller.folder is None or caller.folder == "/" else (caller.folder,)
    if target.scheme == _COMMAND_SCHEME and not is_sandboxed(caller, policy):
        if not caller.person:
            _guard_command(target.name, policy.commands)
        return target.model_copy(update={"within": own})
    guarded = (*_ONLY_CONDITIONS, SESSION_SCHEME, TASK_SCHEME)  # by who waits, and not by place
    if caller.person or policy.roots is None or target.scheme in guarded:
        return target
    is_file = target.scheme == _PATH_SCHEME or (
        target.scheme == "pty" and target.name.startswith(_FILE_PREFIX)
    )
    if not is_sandboxed(caller, policy):
        # Without folders the target stays the same, so that all share one watch.
        may_be_file = is_file or target.scheme not in ("pty", *_NEVER_FILES)
        within = (*own, *policy.roots) if may_be_file else None
        if target.scheme == URL_SCHEME:
            within = ()  # which tells an agent from a person
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


def _guard_command(command: str, allowed: Collection[str]) -> None:
    """Refuse to run a command whose beginning is not allowed.

    Raises:
        NotAllowed: As it says.
    """
    words = command.split()
    if not any(each == "all" or words[: len(each.split())] == each.split() for each in allowed):
        named = to_plain_line(" ".join(words[:2]))
        raise NotAllowed(
            f"Agents may not have {quote_line(command, 80)} run again and again. Ask the user to "
            f'add "{named}" to wait_commands in config.toml (TASKMEM_WAIT_COMMANDS), which lists '
            "how such commands begin, then to run: taskmem daemon restart. Or run it yourself."
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
    except for an agent in a sandbox. A command runs where it ran. `kept`: the wait's folders; None:
    anywhere, which only a person could allow.
    """
    if kept is None or is_sandboxed(caller, policy):
        return target
    if target.scheme == _COMMAND_SCHEME:
        return target.model_copy(update={"within": kept})
    within = (*dict.fromkeys((*(target.within or ()), *kept)),)
    return target.model_copy(update={"within": within})
