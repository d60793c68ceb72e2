"""The stage of a scene that Tk plays: its window, its clock, and what it is told."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
import tkinter as tk
from collections.abc import Callable

from tests.support.desktop import Desktop
from tests.support.inks import INK
from tests.support.processes import end

FONT = "DejaVu Sans"
SIZE = (640, 420)
MARGIN = 90


def say(event: str, **more: object) -> None:
    """Tell whoever started the scene."""
    line = json.dumps({"event": event, "t": time.time(), **more})
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def obey(line: str, commands: dict[str, Callable[..., None]]) -> None:
    """Do what a line says, and tell that it is done."""
    name, *words = line.split() or [""]
    if name in commands:
        commands[name](*words)
        say("done", command=line)
    else:
        say("unknown", command=line)


class Lines:
    """Whole lines out of what comes in pieces from the standard input."""

    def __init__(self) -> None:
        self._rest = b""
        self.ended = False

    def read(self) -> list[str]:
        """Read what is there; waits if there is nothing."""
        piece = os.read(sys.stdin.fileno(), 4096)
        self.ended = not piece
        *whole, self._rest = (self._rest + piece).split(b"\n")
        return [line.decode() for line in whole]


class Stage:
    """A window, and a condition that becomes true `after` seconds from ready."""

    def __init__(self, title: str, seed: int, after: float) -> None:
        self.title = title
        self.seeded = random.Random(seed)  # noqa: S311
        self.after = after
        self.over = False
        """Whether what makes the condition true has begun."""
        self.commands: dict[str, Callable[..., None]] = {
            "now": self._now,
            "again": self._come_true,
            "close": self.close,
            "minimise": self._minimise,
            "restore": self._restore,
            "title": self._retitle,
        }
        self.playing: list[subprocess.Popen[bytes]] = []
        """Programs that end with the scene."""
        self._change: Callable[[], tk.Toplevel | None] | None = None
        self._lasts: float | None = None
        self._tells = True
        self._timer: str | None = None
        self._since: float | None = None
        self._lines = Lines()
        self._desktop = Desktop(os.environ["DISPLAY"])

    def window(self, text: str = "", geometry: str | None = None) -> tk.Tk:
        """Make the window, at a place that the seed chooses unless one is given."""
        self.root = tk.Tk(className="Scene")
        self.root.title(self.title)
        width, height = SIZE
        room = (self.root.winfo_screenwidth(), self.root.winfo_screenheight())
        # The right and the lower edge stay free for toasts and videos.
        self.x = self.seeded.randint(MARGIN, max(MARGIN, room[0] - width - 380))
        self.y = self.seeded.randint(MARGIN, max(MARGIN, room[1] - height - 180))
        self.root.geometry(geometry or f"{width}x{height}+{self.x}+{self.y}")
        if text:
            self.label(text).place(x=30, y=24)
        return self.root

    def label(self, text: str, points: int = 12, **more: object) -> tk.Label:
        """Make a label on the window."""
        return tk.Label(self.root, text=text, font=(FONT, points), **more)

    def play(
        self,
        change: Callable[[], tk.Toplevel | None] | None = None,
        lasts: float | None = None,
        *,
        tells: bool = True,
    ) -> None:
        """Show the window, and play until it is closed.

        Args:
            change: Makes the condition true; may return a window that it opened.
            lasts: Seconds until that has passed.
            tells: Whether the condition is true as soon as that is painted; if not,
                the scene tells when it is.
        """
        self._change, self._lasts, self._tells = change, lasts, tells
        self.await_painted(self.root)
        self._since = time.monotonic()
        if change and self.after != float("inf"):
            self._timer = self.root.after(int(self.after * 1000), self._come_true)
        say("ready", title=self.title)
        self.root.createfilehandler(sys.stdin, tk.READABLE, self._obey)
        try:
            self.root.mainloop()
        finally:
            for process in self.playing:
                end(process)

    def progress(self) -> float:
        """Return how far the scene is, from 0 to 1."""
        if self.over:
            return 1.0
        if self._since is None:
            return 0.0
        return min(1.0, (time.monotonic() - self._since) / max(self.after, 0.001))

    def every(self, milliseconds: int, step: Callable[[], object]) -> None:
        """Take a step now and again and again, until it returns False."""
        if step() is not False:
            self.root.after(milliseconds, self.every, milliseconds, step)

    def dialog(self, title: str, text: str) -> tk.Toplevel:
        """Open a window of its own that belongs to this one, with a text in INK."""
        opened = tk.Toplevel(self.root)
        opened.title(title)
        x = self.x + self.seeded.randrange(250)
        y = self.y + self.seeded.randrange(60, 240)
        opened.geometry(f"420x150+{x}+{y}")
        opened.transient(self.root)
        words = {"text": text, "fg": INK.colour, "font": (FONT, 13)}
        tk.Label(opened, **words).pack(pady=20)
        tk.Button(opened, text="OK").pack()
        return opened

    def await_painted(self, *windows: tk.Tk | tk.Toplevel) -> None:
        """Return when the server has painted what was changed, and new windows."""
        for window in windows:
            window.update_idletasks()
            self._desktop.await_viewable(window.winfo_id())
            if not window.overrideredirect():
                self._desktop.await_listed(self._desktop.client_of(window.winfo_id()))
        self._sync()
        self.root.update()
        self._sync()

    def came_true(self, lasts: float | None = None) -> None:
        """Tell that the condition is true as of now."""
        say("true", until=None if lasts is None else time.time() + lasts)

    def close(self) -> None:
        """Close the window; the scene is over."""
        client = self._desktop.client_of(self.root.winfo_id())
        self.root.deletefilehandler(sys.stdin)
        self.root.destroy()
        self._desktop.await_gone(client)

    def _sync(self) -> None:
        # Asks for an answer, which comes after all that was sent before.
        self.root.winfo_pointerxy()

    def _come_true(self) -> None:
        if self._change is None:
            return
        self.over = True
        opened = self._change()
        self.await_painted(*([opened] if opened else []))
        if self._tells:
            self.came_true(self._lasts)

    def _now(self) -> None:
        if self._timer is not None:
            self.root.after_cancel(self._timer)
        if not self.over:
            self._come_true()

    def _minimise(self) -> None:
        self.root.iconify()
        self._desktop.await_viewable(self.root.winfo_id(), viewable=False)

    def _restore(self) -> None:
        self.root.deiconify()
        self.await_painted(self.root)

    def _retitle(self, *words: str) -> None:
        self.title = " ".join(words)
        self.root.title(self.title)
        self.await_painted()

    def _obey(self, *_: object) -> None:
        for line in self._lines.read():
            obey(line, self.commands)
        if self._lines.ended:
            self.root.deletefilehandler(sys.stdin)
            self.root.quit()
