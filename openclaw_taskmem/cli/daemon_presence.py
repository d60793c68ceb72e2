"""Why nobody answers for a home: no daemon is there, or one starts, ends or hangs.

Told by the lock and by the process that holds it, never by how a call has failed.
"""

from __future__ import annotations

import time
from typing import Final, Literal, NamedTuple

from openclaw_taskmem.daemon.lock import LockHolder, find_holder
from openclaw_taskmem.home import Home

STARTING_SECONDS: Final = 15.0
"""How long a process that holds a home may live before it must answer, and how long it
may take to end; also how long the lock may name no process that lives here."""
NAMED_SECONDS: Final = 0.1
"""How long whoever has just taken a home may take to write its name."""

State = Literal["absent", "starting", "ending", "silent"]


class DaemonPresence(NamedTuple):
    """What is there in place of an answer."""

    state: State
    pid: int | None
    """The process that holds the home; None: there is none, or its number is not known.
    """


def classify_presence(held: LockHolder | None, lived: float | None, now: float) -> DaemonPresence:
    """Say what is there.

    Args:
        held: Who holds the home; None: nobody does.
        lived: For how many seconds that process has lived; None: it does not, so that
            another has just taken the home or cannot be named, or there is no telling.
        now: The instant, as seconds of the epoch.
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
    """Look at the lock of a home whose daemon did not answer."""
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
    """Say in a sentence what is there, and what to do."""
    process = f", as process {found.pid}" if found.pid else ""
    match found.state:
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
                f"Process {found.pid} holds {home.folder} and does not answer. Look at "
                f"{home.log}, then run `taskmem daemon stop`."
            )
