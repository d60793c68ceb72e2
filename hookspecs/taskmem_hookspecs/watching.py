"""Define sensors, watches, frames and judges: how a target is watched and its condition judged.

    wait_sensor(target)  →  Sensor  →  Watch  →  Frame  →  Judge  →  Ruling

One watch serves all waits on a target. Each `look` starts from a *place*: a text that the watch
itself made, which says how far a wait has read and stays valid after a restart. All coroutines of a
plug-in run on one event loop in a thread of that plug-in, so a call that blocks delays no other
plug-in. Source: docs/origins.md, "Waits".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Protocol, runtime_checkable

from pydantic import InstanceOf

from taskmem_hookspecs.conditions import State
from taskmem_hookspecs.model import Instant, Value, WaitStatus


class Target(Value):
    """Something that can be watched, as `scheme:name`."""

    scheme: str
    """`pty`, `window`, `screen`, a plug-in's own (an identifier in lower case), or `queue`, which
    the core watches itself."""
    name: str
    """The text after the colon; empty for `screen`."""
    within: tuple[str, ...] | None = None
    """Folders in which a file must lie once links are resolved; None: anywhere. If set, a refusal
    names no other target."""

    def __str__(self) -> str:
        """Return it as an agent writes it."""
        return f"{self.scheme}:{self.name}" if self.name else self.scheme


@runtime_checkable
class Picture(Protocol):
    """An image of a target, encoded only on request."""

    size: tuple[int, int]
    """Width and height, in pixels."""

    def png(self) -> bytes:
        """Return it as PNG, unscaled."""
        ...

    def jpeg(self, longest: int) -> bytes:
        """Return it as JPEG, scaled down until no side is longer than `longest` pixels."""
        ...


class Frame(Value):
    """The result of one look from a place."""

    seen_at: Instant
    place: str
    """Where the next look starts; everything before it has been shown.

    A little may be shown again: an unfinished line, and enough text before it to find a phrase that
    was cut in two.
    """
    more: bool = False
    """True if more is available than fitted into this frame."""
    changed_at: Instant | None = None
    """When anything on the target last changed; None: unknown."""
    text: str | None = None
    """Lines since the place as a person would read them, without escape sequences; None: this kind
    of target has no text."""
    tail: str | None = None
    """The last 80 lines since the wait's start, shown before or not; for a full-screen program, the
    screen. None: there is no text."""
    screen: str | None = None
    """The visible text, including typed lines and output from before the wait; None: the same as
    `tail`."""
    echoes: tuple[str, ...] = ()
    """Lines of `text` and `tail` that are typed commands, not output."""
    picture: InstanceOf[Picture] | None = None
    """The same object until something changes. None: this kind of target has no picture, or it is
    not visible now."""
    note: str | None = None
    """A sentence for the waiting agent, such as that several targets have this name or that it is
    not visible now; None: nothing."""
    seconds_left: float | None = None
    """Seconds until the wait times out; set by the core."""
    prompt: bool | None = None
    """True if a shell waits for a command; None: unknown."""
    reads_input: bool | None = None
    """True if the program in front is blocked in reading the terminal; False: it does something
    else; None: unknown."""
    hides_input: bool | None = None
    """True if the terminal reads a line without echo, as for a password; None: unknown."""
    takes_keys: bool | None = None
    """True if the program in front gets each key at once, as a menu does; False: it gets whole
    lines; None: unknown."""
    exit_status: int | None = None
    """Exit status of the command, or the negative signal number that ended it. None: it runs, its
    status is unknown, or the target is no command."""
    states: frozenset[State] = frozenset()
    """States that a target without text is in, of which a change counts since the wait's start."""
    before: str = ""
    """The target as it was when the wait began, as its watch writes that for its own judge; empty:
    that is not told."""
    numbers: Mapping[str, float] = {}
    """Its numbers by their names, in lower case, such as `size`."""
    gone: str | None = None
    """Why nothing will ever appear again, in a sentence, such as that the command has ended or the
    window was closed. None: the target still exists."""


class Output(Value):
    """A piece of a terminal's output, pushed to a `Feed`."""

    data: bytes
    """Raw terminal output; pieces may be cut anywhere."""
    exit_status: int | None = None
    """Exit status of the command, which ended with this piece; None: it runs."""


@runtime_checkable
class Watch(Protocol):
    """Watches one target for all waits on it."""

    async def here(self) -> Frame:
        """Return the place from which a new wait reads, in a frame.

        Its `tail` shows what is there now, even if it does not count for the wait.

        Raises:
            TargetGone: The target went away.
        """
        ...

    async def end(self) -> str:
        """Return the place after everything that is there now.

        A wait that has resolved and is armed again for the same condition reads from it.

        Raises:
            TargetGone: The target went away.
        """
        ...

    async def look(self, place: str, start: str) -> Frame:
        """Return what appeared since a place, for a wait that began at `start`.

        Raises:
            TargetGone: The target went away, and there is nothing left to show.
        """
        ...

    async def wait_for_change(self) -> None:
        """Return when there may be something new since the last return."""
        ...

    async def close(self) -> None:
        """Release the target; no other method is called afterwards."""
        ...


@runtime_checkable
class PlaceListener(Protocol):
    """A `Watch` that is told what its waits have not read, so that it can be kept for them."""

    def note_places(self, places: Collection[str]) -> None:
        """Take the places from which all waits read on; called before each look."""
        ...


@runtime_checkable
class TellingWatch(Protocol):
    """A `Watch` whose `wait_for_change` tells of every change, so that it is seldom looked at."""

    @property
    def rest_seconds(self) -> float:
        """Return for how long it need not be looked at, unless something changes."""
        ...


@runtime_checkable
class Sensor(Protocol):
    """Watches one kind of target."""

    async def watch(self, target: Target) -> Watch | Target:
        """Start to watch a target; or return the other name under which it is watched.

        Raises:
            TargetNotFound: It does not exist; the sentence names the targets that do. The core asks
                the next sensor.
            TargetGone: It existed and has just gone away.
            InvalidArguments: No target of this kind can have such a name.
            NoProvider: It cannot be watched here; the sentence says what is missing.
        """
        ...


@runtime_checkable
class Feed(Protocol):
    """A sensor that gets its targets' output pushed."""

    async def feed(self, target: Target, output: Output) -> None:
        """Store a piece of output durably; create the target if it is new."""
        ...


class Met(StrEnum):
    """Answers to the question if a condition holds."""

    YES = "yes"
    NO = "no"
    UNSURE = "unsure"
    """This judge cannot decide; the core asks the next one."""


class Ruling(Value):
    """A judge's answer."""

    met: Met
    observation: str
    """One sentence on what was seen."""
    look_again_seconds: float | None = None
    """Delay after which to ask again even without a change; None: only after a change."""
    picture: InstanceOf[Picture] | None = None
    """The picture that was judged; None: the frame's."""
    trouble: str | None = None
    """Why it could not judge what is shown now, in a sentence; None: it could."""


@runtime_checkable
class Judge(Protocol):
    """Decides whether one wait's condition holds; `wait_judge` creates it for that wait.

    It gets frames in order, each starting where the last frame it answered ended, and one at a
    time. Its optional attribute `sides` has the indexes of the sides of the condition that it
    decides; without it, it decides all. A judge that decides only some answers `UNSURE` if none of
    them holds. Its optional attribute `advice` is a sentence that says what would let it decide
    more sides.
    """

    name: str
    """Name in answers and observations: `rules`, or the name of the reader it asks."""

    async def rule(self, frame: Frame) -> Ruling:
        """Decide whether the condition holds; the core tries again if it raises."""
        ...


class WaitOutcome(Value):
    """How a wait ended."""

    status: WaitStatus
    """Any but `watching`."""
    observation: str
    elapsed_seconds: float
