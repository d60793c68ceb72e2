"""What looks at a target, what is seen there, and what decides on it.

    wait_sensor(target)  →  Sensor  →  Watch  →  Frame  →  Judge  →  Ruling

One watch serves all waits on a target. It is asked to `look` from a *place*: a
text of its own making that says how far somebody has read, and that still means
the same after a restart. All of a plug-in's coroutines run on one event loop, in
a thread that belongs to that plug-in alone: what blocks there holds up nobody
else. Source: design §5, "waits".
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol, runtime_checkable

from pydantic import InstanceOf

from taskmem_hookspecs.model import WaitStatus
from taskmem_hookspecs.value import Instant, Value


class Target(Value):
    """Something that can be watched, as `scheme:name`."""

    scheme: str
    """`pty`, `window`, `screen`, a plug-in's own (an identifier in lower case), or
    `queue`, which the core watches itself."""
    name: str
    """What comes after the colon; empty for `screen`."""
    within: tuple[str, ...] | None = None
    """The folders that a file must lie in once links are followed, whatever becomes of
    its name; None: anywhere. Where it is set, no other target is named in a refusal."""

    def __str__(self) -> str:
        """Return it as it is written."""
        return f"{self.scheme}:{self.name}" if self.name else self.scheme


@runtime_checkable
class Picture(Protocol):
    """What a target looks like; nobody pays for a form of it that nobody asks for."""

    size: tuple[int, int]
    """Width and height, in pixels."""

    def png(self) -> bytes:
        """Return it as it is."""
        ...

    def jpeg(self, longest: int) -> bytes:
        """Return it with sides of so many pixels at most; it is never enlarged."""
        ...


class Frame(Value):
    """What one look from a place shows."""

    seen_at: Instant
    place: str
    """Where the next look goes on: what lies before it has been shown whole.

    A little of what was shown may come again: an unfinished line does, and enough
    before it that a phrase which was cut in two is found.
    """
    more: bool = False
    """Whether there is more to see already, which did not fit into this frame."""
    changed_at: Instant | None = None
    """When anything on the target last changed; None: unknown."""
    text: str | None = None
    """What came since the place, as lines that a person would read; escape
    sequences are understood and gone. None: this kind of target has no text."""
    tail: str | None = None
    """The last 80 lines since the wait's start, shown before or not; of a program that
    paints the screen, the screen. None: there is no text."""
    screen: str | None = None
    """What can be seen now, what came before the wait included and typed lines left
    out; None: no more than `tail` is known."""
    echoes: tuple[str, ...] = ()
    """Lines of `text` and `tail` that are typed commands rather than output."""
    picture: InstanceOf[Picture] | None = None
    """The same object as long as nothing has changed. None: this kind of target has
    none, or it cannot be seen just now."""
    note: str | None = None
    """What whoever waits should know of the target, in a sentence: that several have
    its name, that it cannot be seen just now. None: nothing."""
    seconds_left: float | None = None
    """Until the wait that this is shown for times out; the core fills it in."""
    prompt: bool | None = None
    """Whether a shell stands there and waits for a command; None: unknown."""
    hides_input: bool | None = None
    """Whether the terminal takes a line and does not show what is typed, as for a
    password; None: unknown."""
    exit_status: int | None = None
    """Of a command that ended; minus the signal's number when one ended it. None:
    it runs, nobody knows its status, or it is no command."""
    gone: str | None = None
    """Why nothing will ever come any more, in a sentence: the command ended, the
    window closed. None: the target is there."""


class Output(Value):
    """A piece of what a terminal showed, pushed by whoever sees it."""

    data: bytes
    """As the terminal got it; pieces may be cut anywhere."""
    exit_status: int | None = None
    """Of the command, which ended with this piece; None: it runs."""


@runtime_checkable
class Watch(Protocol):
    """One target, watched for everyone who waits on it."""

    async def here(self) -> Frame:
        """Return where a wait that is made now begins to read, as the frame's place.

        Its `tail` is what is there now, whether it counts for the wait or not.

        Raises:
            TargetGone: The target went away.
        """
        ...

    async def end(self) -> str:
        """Return the place behind all that is there now, of which nothing comes again.

        A wait that resolved, and waits for the same once more, reads on from it.

        Raises:
            TargetGone: The target went away.
        """
        ...

    async def look(self, place: str, start: str) -> Frame:
        """Return what there is since a place, for a wait that reads from `start`.

        Raises:
            TargetGone: The target went away, and there is nothing left to show.
        """
        ...

    async def wait_for_change(self) -> None:
        """Return when there may be something new since this last returned."""
        ...

    async def close(self) -> None:
        """Let go of the target; nothing is asked afterwards."""
        ...


@runtime_checkable
class Sensor(Protocol):
    """Watches one kind of target."""

    async def watch(self, target: Target) -> Watch | Target:
        """Begin to watch a target; or return its other name, by which it is watched.

        Raises:
            TargetNotFound: It is not there; the sentence names what is. The next sensor
                is asked.
            TargetGone: It was there, and went away just now.
            InvalidArguments: No target of this kind can have such a name.
            NoProvider: It cannot be watched here; the sentence says what is missing.
        """
        ...


@runtime_checkable
class Feed(Protocol):
    """A sensor that is told what its targets show, by whoever sees it."""

    async def feed(self, target: Target, output: Output) -> None:
        """Keep a piece of output, durably; it makes the target when it is new."""
        ...


class Met(StrEnum):
    """Whether a condition holds."""

    YES = "yes"
    NO = "no"
    UNSURE = "unsure"
    """This judge cannot tell; the next one is asked."""


class Ruling(Value):
    """A judge's answer."""

    met: Met
    observation: str
    """What was seen, in one sentence."""
    look_again_seconds: float | None = None
    """After which to ask again although nothing changed; None: not before something
    does."""
    picture: InstanceOf[Picture] | None = None
    """What it rests on, when that is not the frame's picture; None: it is."""
    trouble: str | None = None
    """Why it could not judge what is shown now, in a sentence; None: it could."""


@runtime_checkable
class Judge(Protocol):
    """Decides whether one wait's condition holds; `wait_judge` makes it for that wait.

    It is asked with frames in order, each from the place where the last one that it
    answered ended, and never twice at once. It may have an attribute `sides`: the
    indexes of the sides of the condition that it decides, all of them without it. A
    judge that does not decide all sides answers `UNSURE` where none of its own holds.
    An attribute `advice` may say, in a sentence, what would let it decide more of them.
    """

    name: str
    """What answers and observations call it: `rules`, or the reader that it asks."""

    async def rule(self, frame: Frame) -> Ruling:
        """Return whether the condition holds; whatever it raises is tried again."""
        ...


class WaitOutcome(Value):
    """How a wait ended."""

    status: WaitStatus
    """Any but `watching`."""
    observation: str
    elapsed_seconds: float
