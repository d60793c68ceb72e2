"""Find out why no daemon answers for a home: it is absent, starting, ending or silent.

The lock and the process that holds it show this; how a call failed does not.
"""

from __future__ import annotations

import time
from typing import Final, Literal, NamedTuple

from openclaw_taskmem.daemon.home_exchange import is_unfinished
from openclaw_taskmem.daemon.lock import LockHolder, find_holder
from openclaw_taskmem.home import Home

STARTING_SECONDS: Final = 15.0
"""Seconds in which a daemon must start, end, or write its process into the lock."""
NAMED_SECONDS: Final = 0.1
"""Seconds in which a process that has just taken the lock writes its id."""

State = Literal["absent", "starting", "ending", "silent"]


class DaemonPresence(NamedTuple):
    """The state of a daemon that does not answer."""

    state: State
    pid: int | None
    """Id of the process that holds the home; None: there is none, or it is unknown."""


def classify_presence(held: LockHolder | None, lived: float | None, now: float) -> DaemonPresence:
    """Classify the state of a daemon.

    Args:
        held: The holder of the home's lock; None: nobody holds it.
        lived: Age of that process in seconds; None: it has ended (another has just taken the lock
            or cannot be named), or its age is unknown.
        now: The time, as seconds of the epoch.
    """
    if held is None:
        return DaemonPresence("absent", None)
    pid = None if lived is None else held.pid
    ending = held.ending and lived is not None
    seconds = now - held.written_at if ending or lived is None else lived
    if seconds >= STARTING_SECONDS:
        return DaemonPresence("silent", pid)
    return DaemonPresence("ending" if ending else "starting", pid)


def check_presence(home: Home) -> DaemonPresence:
    """Return the state of a daemon that did not answer, from the lock of its home.

    If the lock's holder is not named yet, it is read once more after `NAMED_SECONDS`.
    """
    found = _check_presence_once(home)
    if found.state == "silent" and found.pid is None:
        time.sleep(NAMED_SECONDS)
        found = _check_presence_once(home)
    return found


def _check_presence_once(home: Home) -> DaemonPresence:
    held, now = find_holder(home.lock), time.time()  # noqa: TID251 - as files are dated
    if held is None or held.pid is None:
        return classify_presence(held, None, now)
    from openclaw_taskmem.daemon.processes import is_alive, read_process_age

    here = held.process is None or is_alive(held.process) is not False
    return classify_presence(held, read_process_age(held.pid) if here else None, now)


def explain_presence(found: DaemonPresence, home: Home) -> str:
    """Say in a sentence what state the daemon is in, and what to do."""
    process = f", as process {found.pid}" if found.pid else ""
    match found.state:
        case "absent" if is_unfinished(home.folder):
            return (
                f"No daemon runs for {home.folder}, and a taskmem restore was cut short there. The "
                "next daemon finishes it: taskmem daemon --detach"
            )
        case "absent":
            return f"No daemon runs for {home.folder}. Start it with `taskmem daemon --detach`."
        case "starting" | "ending":
            return (
                f"The daemon of {home.folder} is {found.state}{process}. Try again in "
                f"a few seconds; {home.log} says more."
            )
        case "silent" if found.pid is None:
            return (
                f"A process that {home.lock} does not name holds {home.folder} and "
                f"does not answer. Look at {home.log}, then find it with `fuser "
                f"{home.lock}` and end it."
            )
        case "silent":
            return (
                f"Process {found.pid} holds {home.folder} and does not answer. On a busy "
                "machine it may still be starting: try again in a minute. If that fails, look at "
                f"{home.log}, then run `taskmem daemon stop`."
            )
