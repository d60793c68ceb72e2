"""Scenes: small programs that play on a screen until a condition becomes true.

    with Screen() as screen, Scene(screen, "toast", seed=7, after=8) as scene:
        scene.ready()
        ...                              # wait for scene.wake_when on scene.target
        assert noticed_at >= scene.became_true()

What makes a condition true is painted in INK; its instant is told on a side channel.
A scene also does what it is told, so that no test waits for a timer: "now" makes the
condition true, "again" shows it once more; "minimise", "restore", "title TEXT" and
"close" are about its window. `plain` is a still window for tests of sensors, which
takes "move X Y", "resize W H", "dialog TEXT", "write TEXT", "paint" and "wipe", too.

As a program:  python -m tests.support.scenes NAME [--seed N] [--after SECONDS]
It takes commands as lines and writes lines of JSON, each with "event" and "t": "ready";
"true", with "until"; "done" and "unknown", with "command". It ends with its input.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tests.support.processes import GRACE, end
from tests.support.waiting import ProcessOutput

if TYPE_CHECKING:
    from tests.support.screens import Screen

ROOT = Path(__file__).parents[2]
SCREEN = "screen"
WINDOW = "window:{title}"
TOAST_SECONDS = 3.0
STALL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Plot:
    """What a scene is about."""

    target: str
    wake_when: str
    paints: bool = True
    """Whether its truth is in INK; a stall has nothing to show."""
    ends: bool = True
    """Whether its condition can become true."""
    lasts: float | None = None
    """Seconds until what made it true is gone."""


SCENES = {
    "caret": Plot(WINDOW, "The build has finished"),
    "clock_dialog": Plot(SCREEN, "A dialog says that the backup is finished"),
    "spinner_progress": Plot(WINDOW, "The installation is finished"),
    "download_bar": Plot(WINDOW, "The download is complete or an error is shown"),
    "page_load": Plot(WINDOW, "The page has finished loading"),
    "error_dialog": Plot(WINDOW, "The upload succeeds or an error dialog appears"),
    "toast": Plot(SCREEN, "A notification from Alex appears", lasts=TOAST_SECONDS),
    "toast_in_bustle": Plot(SCREEN, "A notification from Alex appears", lasts=TOAST_SECONDS),
    "video_corner": Plot(SCREEN, "A dialog says that the upload is finished"),
    "check_in_place": Plot(WINDOW, "The check has a tick instead of a spinner"),
    "small_label": Plot(WINDOW, "The queue's status is no longer waiting"),
    "dot": Plot(WINDOW, "The status dot is no longer green"),
    "stall": Plot(WINDOW, "The progress bar has not moved for 5 seconds", paints=False),
    "mouse_hover": Plot(WINDOW, "The status becomes ready"),
    "typing": Plot(WINDOW, "The draft is saved"),
    "scrolling_log": Plot(WINDOW, "The log reports an error"),
    "steered": Plot(WINDOW, "The export is finished"),
    "never": Plot(SCREEN, "The server reports a failure", paints=False, ends=False),
    "bustle": Plot(SCREEN, "The server reports a failure", paints=False, ends=False),
    "plain": Plot(WINDOW, "A square is painted"),
}


class Scene:
    """A scene that plays on a screen, from `with` on."""

    def __init__(
        self,
        screen: Screen,
        name: str,
        *,
        seed: int = 1,
        after: float = math.inf,
        title: str | None = None,
        geometry: str | None = None,
    ) -> None:
        plot = SCENES[name]
        self.title = title or title_of(name, seed)
        self.target = plot.target.format(title=self.title)
        self.wake_when = plot.wake_when
        self.paints = plot.paints
        self._environ = screen.environ
        self._command = [sys.executable, "-m", "tests.support.scenes", name]
        self._command += ["--seed", f"{seed}", "--after", f"{after}"]
        self._command += ["--title", self.title]
        self._command += ["--geometry", geometry] if geometry else []
        self._told = 0

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command,
            cwd=ROOT,
            env=self._environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        self._said = ProcessOutput(self._process.stdout)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE)
        end(self._process)
        self._said.join()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def truths(self) -> list[dict]:
        """The times that it became true so far, each with "t" and "until"."""
        events = map(json.loads, self._said.lines)
        return [event for event in events if event["event"] == "true"]

    def ready(self) -> float:
        """Wait until it is painted; return that instant, which `after` counts from."""
        return self._event("ready")["t"]

    def became_true(self, times: int = 1) -> float:
        """Wait until the condition is true, for the nth time; return that instant."""
        return self._event("true", times)["t"]

    def tell(self, command: str) -> float:
        """Have it do something; return the instant at which that was on the screen."""
        self._told += 1
        self._process.stdin.write(f"{command}\n".encode())
        answer = self._line('"command": ', self._told)
        assert answer["event"] == "done", answer
        return answer["t"]

    def now(self) -> float:
        """Make the condition true, and return the instant at which it was."""
        times = len(self.truths) + 1
        self.tell("again" if self.truths else "now")
        return self.became_true(times)

    def _event(self, kind: str, times: int = 1) -> dict:
        return self._line(f'"event": "{kind}"', times)

    def _line(self, part: str, times: int) -> dict:
        line = self._said.wait_for(part, times)
        assert line is not None, f"the scene ended: {self._said.text}"
        return json.loads(line)


def title_of(name: str, seed: int) -> str:
    """Return the title of a scene's window."""
    return f"{name} scene {seed:04}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Play a scene on the X display.")
    parser.add_argument("name", choices=SCENES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--after", type=float, default=8.0)
    parser.add_argument("--title")
    parser.add_argument("--geometry", help="of the plain window, WxH+X+Y")
    given = parser.parse_args()
    title = given.title or title_of(given.name, given.seed)
    if given.name == "caret":
        from tests.support.scenes_xterm import caret

        caret(title, given.seed, given.after)
        return
    from tests.support import scenes_tk
    from tests.support.scenes_stage import Stage

    stage = Stage(title, given.seed, given.after)
    if given.name == "plain":
        scenes_tk.play_plain(stage, given.geometry)
    else:
        getattr(scenes_tk, f"play_{given.name}")(stage)


if __name__ == "__main__":
    main()
