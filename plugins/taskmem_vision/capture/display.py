"""What a display can do for us, whatever system it belongs to."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from PIL import Image

from taskmem_vision.capture.windows import Window

HIDDEN: Final = "The window is minimised or on another desktop; it cannot be seen."

Box = tuple[int, int, int, int]
"""Left, top, width, height, in pixels of the screen."""


class DisplayGone(Exception):
    """It does not answer, or not any more; a sentence says which."""


class NotViewable(Exception):
    """The window is there without pixels; a sentence says why."""


class Heard(NamedTuple):
    """What has happened on a display since it was listened to last."""

    painted: bool = False
    """Whether anything was painted anew."""
    changed: bool = False
    """Whether a title, a place, or the list of windows is another."""
    closed: frozenset[int] = frozenset()
    """Windows that are gone."""


class Display(Protocol):
    """Windows, their pixels, and what changes; any of it may raise `DisplayGone`."""

    @property
    def root(self) -> int:
        """The window that all others are in: the screen."""
        ...

    @property
    def handle(self) -> int:
        """The file descriptor that can be read when something has happened."""
        ...

    def close(self) -> None:
        """Hang up; a second time does nothing. Nothing is asked afterwards."""
        ...

    def windows(self) -> tuple[Window, ...]:
        """Return the windows of applications, the top-most first."""
        ...

    def titled(self) -> tuple[Window, ...]:
        """Return the same, with nothing but their ids and titles: it takes less."""
        ...

    def window(self, number: int) -> Window | None:
        """Return what is known of a window; None: it is not there."""
        ...

    def place(self, number: int) -> Box | None:
        """Return where on the screen a window is; None: it is not there."""
        ...

    def framed(self, number: int) -> Box | None:
        """Return where it is with the frame round it; None: it is not there."""
        ...

    def pixels(self, number: int) -> Image.Image:
        """Return the pixels of a window, also where it is covered: blue before red.

        Raises:
            TargetGone: It is closed.
            NotViewable: It has none.
        """
        ...

    def attend(self, number: int) -> None:
        """Hear from now on what becomes of a window: its title, its place, its end.

        Raises:
            TargetGone: It is closed.
        """
        ...

    def attend_paint(self, number: int) -> None:
        """Hear from now on what is painted in a window, covered or not.

        Raises:
            TargetGone: It is closed.
            NotViewable: Nothing is ever painted in it.
        """
        ...

    def listen(self) -> Heard:
        """Return what has happened since this was called last."""
        ...

    def forget_painted(self) -> None:
        """Hear again of what is painted; it is told once until then."""
        ...
