"""What a sentence claims of a daemon, and whether that was so while it was made."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from truth import Moment, measure_age

from openclaw_taskmem import __version__

OLDER = "0.0.9"
"""The version that a daemon from before an upgrade says that it has."""
STARTING = 15.0
"""Seconds that a process may take to start, before anybody is told to kill it."""


@dataclass(frozen=True)
class Observation:
    """What was so while a sentence was made, and what it is compared with."""

    moments: Sequence[Moment]
    end: float
    old: set[int]

    def had_state(self, *states: str, pid: str | None = None) -> bool:
        """Whether any of some states was so, of a process where one is named."""
        return any(
            each.state in states and (pid is None or each.pid == int(pid)) for each in self.moments
        )

    def is_old_enough(self, pid: str) -> bool:
        """Whether a process had its time to start, and holds the home."""
        return any(
            each.pid == int(pid) and self.end - each.born >= STARTING for each in self.moments
        )

    @property
    def has_changed(self) -> bool:
        """Whether a daemon went away meanwhile."""
        served = {each.pid for each in self.moments if each.state == "serving"}
        return len(served) > 1 or self.had_state("absent", "starting", "ending")


Claim = Callable[[re.Match[str], Observation], bool]
CLAIMS: Sequence[tuple[str, Claim]] = (
    (r"No daemon runs for", lambda _, seen: seen.had_state("absent")),
    (
        r"is starting, as process (\d+)",
        lambda found, seen: seen.had_state("starting", pid=found[1]),
    ),
    (r"is starting\.", lambda _, seen: seen.had_state("starting")),
    (r"is ending, as process (\d+)", lambda found, seen: seen.had_state("ending", pid=found[1])),
    (
        r"(?:runs as|just now, as) process (\d+)",
        lambda found, seen: seen.had_state("serving", pid=found[1]),
    ),
    (r"^It answers\.", lambda _, seen: seen.had_state("serving")),
    (
        r"Process (\d+) is version (\S+), and this is (\S+)\.",
        lambda found, seen: (
            found[2] == OLDER
            and found[3] == __version__
            and int(found[1]) in seen.old
            and seen.had_state("serving", pid=found[1])
        ),
    ),
    (
        r"^taskmem (\S+) runs as process (\d+)",
        lambda found, seen: found[1] == (OLDER if int(found[2]) in seen.old else __version__),
    ),
    (
        r"Process (\d+) holds",
        lambda found, seen: seen.had_state("starting", "ending", pid=found[1]),
    ),
    (r"kill -9 (\d+)", lambda found, seen: seen.is_old_enough(found[1])),
    (r"Process (\d+) has stopped\.", lambda found, _: measure_age(int(found[1])) is None),
    (r"has just ended", lambda _, seen: seen.has_changed),
    (r"daemon ended (?:while|as)|ended 3 times", lambda _, seen: seen.has_changed),
)
"""What a sentence may claim of the daemon, and whether it is so."""
OTHER = re.compile(
    r"ok    (?!daemon)|All is well\.|\d+ links: |Run: taskmem daemon stop \(the next"
    r"|Run this again; where|There is no \S+ yet"
    r"|(?:warn|fail)  openclaw\.(?:version|configuration): |Install OpenClaw"
    r"|Run: openclaw|fail  wakes\.owed: |Mend what fails; they go out"
)
"""What claims nothing of whether a daemon runs."""
UNTRUE = re.compile(r"daemon could not be started|daemon cannot be started|older schema|ECONN")
"""What is never so here: a daemon can always be started, and brings its database up."""
