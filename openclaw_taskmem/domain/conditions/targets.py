"""Parse and name targets: `scheme:name`, or `screen`.

The core watches `queue:ROLE` itself; plug-ins watch all other schemes.
"""

from __future__ import annotations

from typing import Final

from openclaw_taskmem.domain.callers import callers
from openclaw_taskmem.domain.conditions import role_queue_target
from openclaw_taskmem.domain.text.texts import clip, quote_line, to_plain_line
from taskmem_hookspecs import InvalidArguments, Target, Wait

_LONGEST_NAME: Final = 4096
"""Most bytes of a target's name; no path is longer."""

BUILT_IN: Final = frozenset(("pty", "window", "screen", role_queue_target.SCHEME))
"""Schemes that the core and the built-in plug-ins watch and judge.

Of any other, the refusal of a condition lists the forms that are judged, and a plug-in may describe
its targets.
"""
_LABEL_BYTES: Final = 80
"""Longest excerpt of a target's name in a line for people."""
UNTIL_BYTES: Final = 200
"""Longest excerpt of a condition in a line for people."""
_ID_SCHEMES: Final = ("task", "session", "wait")
"""Schemes whose targets are named by an id."""
FORMS: Final = (
    "A target is pty:NAME (a command under taskmem run), pty:tmux:TARGET, "
    "pty:file:/absolute/path, window:TITLE, window:0xID, screen, queue:ROLE, or what a "
    "plug-in adds"
)


def parse_target(text: str) -> Target:
    """Parse a target. Whether it can be watched is not checked.

    Raises:
        InvalidArguments: It is no target; the sentence shows the forms.

    Source: docs/origins.md, "Targets".
    """
    scheme, _, name = (part.strip() for part in text.strip().partition(":"))
    scheme = scheme.lower()
    if scheme == "screen" and not name:
        return Target(scheme=scheme, name="")
    if scheme == role_queue_target.SCHEME and name:
        return _parse_queue(scheme, name.lower())
    known = scheme not in (role_queue_target.SCHEME, "screen") and scheme.isascii()
    if known and scheme.isidentifier() and name and name.isprintable():
        if len(name.encode()) > _LONGEST_NAME:
            raise InvalidArguments(
                f"The target has more than {_LONGEST_NAME:,} bytes, and nothing has such a "
                "name. Nothing was written."
            )
        return Target(scheme=scheme, name=name)
    raise InvalidArguments(f"{quote_line(text, 80)} is no target. {FORMS}. Nothing was written.")


def find_target(wait: Wait) -> Target:
    """Parse a wait's target, and add the folders within which it must lie.

    Raises:
        InvalidArguments: As `parse_target`.
    """
    return parse_target(wait.target).model_copy(update={"within": wait.within})


def _parse_queue(scheme: str, role: str) -> Target:
    """Parse the queue of a role.

    Raises:
        InvalidArguments: It is no role, or it is the user's.
    """
    if role == callers.USER:
        raise InvalidArguments(
            "Nothing is queued for the user, who reviews what is handed to them; see "
            "taskmem list. Nothing was written."
        )
    if (fault := callers.find_role_fault(role)) is not None:
        raise InvalidArguments(f"{quote_line(role, 80)} {fault}. Nothing was written.")
    return Target(scheme=scheme, name=role)


def describe_target(text: str) -> str:
    """Name a target for people: the name of a terminal or file, or a window's title.

    A target that is named by an id is called by its scheme.
    """
    scheme, _, name = text.partition(":")
    if scheme == "screen":
        return "the screen"
    if not name or scheme in _ID_SCHEMES:
        return scheme
    if scheme == role_queue_target.SCHEME:
        return f"the queue of {clip(to_plain_line(name), _LABEL_BYTES)}"
    kind, colon, rest = name.partition(":")
    if scheme == "pty" and colon and kind in ("file", "tmux"):
        name = rest
    return clip(to_plain_line(name.rstrip("/").rpartition("/")[2] or name), _LABEL_BYTES)


def describe_wait(wait: Wait) -> str:
    """Say what is waited for in its user's words: `build.log until "Build finished" appears`."""
    until = clip(to_plain_line(wait.wake_when), UNTIL_BYTES).rstrip(".")
    return f"{describe_target(wait.target)} until {until}"
