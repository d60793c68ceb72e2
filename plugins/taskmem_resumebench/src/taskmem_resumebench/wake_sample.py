"""Agents that fall silent with an open task, beside others that do not: who is woken, how late."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from taskmem_resumebench.daemon import DaemonProcess, GatewayLink
from taskmem_resumebench.report import find_percentile
from taskmem_resumebench.servers import WakeReceiver

AGENTS_OF_A_KIND: Final = 8
"""Agents of each kind."""
THRESHOLD: Final = 3.0
"""Seconds of silence after which a task is stuck."""
PATIENCE: Final = 60.0
"""Seconds for all wakes that are due."""
_EXTRA_SECONDS: Final = 3.0
"""Seconds more, for wakes that are not."""
_SETTINGS: Final = {
    "TASKMEM_CARRY_ON": "off",  # else agents are told to go on long before they count as stuck
    "TASKMEM_STUCK_THRESHOLD_SECONDS": str(THRESHOLD),
    "TASKMEM_STUCK_INTERVAL_SECONDS": "1",
}
_GATEWAY_AGE: Final = 600_000
"""Milliseconds since the gateway's start: it has no turns left to take up again itself."""
_KINDS: Final = ("silent", "at-work", "waiting", "over")


class _WakeFigures(NamedTuple):
    """Counts of agents and of their wakes."""

    due: int
    """Agents that fell silent."""
    came: int
    """Silent agents that were woken."""
    doubled: int
    """Wakes of theirs that were one too many."""
    false: int
    """Wakes of the others, who were at work, waited, or had ended their task."""
    others: int


class WakeSample:
    """Takes wakes, and holds them against who fell silent when."""

    def __init__(self) -> None:
        """Start without agents or wakes."""
        self._silent_since: dict[str, float] = {}
        self._wakes: Counter[str] = Counter()
        self._all_came = threading.Event()
        self.late_seconds: list[float] = []

    def note_silence(self, session: str) -> None:
        """Take in that an agent falls silent now."""
        self._silent_since[session] = time.perf_counter()

    def note_wake(self, session: str) -> None:
        """Take in a wake."""
        self._wakes[session] += 1
        since = self._silent_since.get(session)
        if since is not None and self._wakes[session] == 1:
            self.late_seconds.append(time.perf_counter() - since - THRESHOLD)
        if len(self.late_seconds) == AGENTS_OF_A_KIND:
            self._all_came.set()

    def wait(self) -> None:
        """Wait for the wakes that are due, and some time more."""
        self._all_came.wait(PATIENCE)
        threading.Event().wait(_EXTRA_SECONDS)

    def count(self) -> _WakeFigures:
        """Count who was woken."""
        came = [self._wakes[session] for session in self._silent_since if self._wakes[session]]
        return _WakeFigures(
            due=len(self._silent_since),
            came=len(came),
            doubled=sum(came) - len(came),
            false=self._wakes.total() - sum(came),
            others=(len(_KINDS) - 1) * AGENTS_OF_A_KIND,
        )

    def describe_lateness(self) -> dict[str, float | None]:
        """Return how long after they were due the wakes came."""
        late = self.late_seconds
        middle = round(median(late), 3) if late else None
        return {"median": middle, "p95": find_percentile(late, 95)}


def measure_wakes(root: Path) -> WakeSample:
    """Let agents fall silent, work, wait and end their tasks on a daemon of their own."""
    work, home = root / "w", root / "h"
    work.mkdir(parents=True)
    sample = WakeSample()
    with ExitStack() as stack:
        daemon = stack.enter_context(DaemonProcess(home, work, _SETTINGS))
        stack.enter_context(WakeReceiver(home, sample.note_wake))
        for kind in (kind for kind in reversed(_KINDS) for _ in range(AGENTS_OF_A_KIND)):
            folder = work / f"{kind}-{len([*work.iterdir()])}"
            folder.mkdir()
            session = f"agent:main:{folder.name}"
            link = GatewayLink(daemon, "boot", session, folder, age=_GATEWAY_AGE)
            stack.callback(link.close)
            _play(link, kind, folder)
            if kind == "silent":
                sample.note_silence(session)
        sample.wait()
    return sample


def _play(link: GatewayLink, kind: str, folder: Path) -> None:
    """Let an agent begin a task, and do what its kind does."""
    task = link.call_tool("task_register", "Bake it.", name=folder.name, plan=["Knead", "Bake"])
    who = {"task_id": task["task_id"]}
    match kind:
        case "waiting":
            log = folder / "watched.log"
            log.touch()
            target, wanted = f"pty:file:{log}", '"baked" appears'
            link.call_tool("smart_wait", None, target=target, wake_when=wanted, **who)
        case "over":
            link.call_tool("task_update", None, status="cancelled", message="Not needed.", **who)
        case _:
            pass
    if kind != "at-work":
        link.end_turn("So much for now.")
