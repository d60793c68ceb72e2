"""A daemon that is started, stopped, killed and upgraded: is what is said of it so?"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue
from threading import Thread

from figures import Figure, count_of
from homes import COMMAND, build_environment, make_home
from host import Host
from sentences import CLAIMS, OLDER, OTHER, UNTRUE, Observation
from truth import SLACK, Truth

from openclaw_taskmem.home import Home
from tests.e2e.openclaw import node_program

INSTANTS = int(os.environ.get("TASKMEM_BENCH_INSTANTS", "200"))
SEED = int(os.environ.get("TASKMEM_BENCH_SEED", "17"))
A_HOME = 20
"""Instants in one home."""
INSTANT = 1.0
"""Seconds before a sentence in which what it says was so: a command takes that long to
start Python, to find out and to print."""
LONGEST = 2.0
"""Seconds from what was done to the looks, at most."""
_OLD = (
    f"import openclaw_taskmem as it; it.__version__ = {OLDER!r}; "
    "from openclaw_taskmem.cli.main import main; main()"
)
"""The same program, as if it were of an earlier version."""


@dataclass(frozen=True)
class Sentence:
    """One sentence, and the time in which it became what it says."""

    place: str
    text: str
    begin: float
    end: float


@dataclass
class WatchedHome:
    """A home, the daemons that were started in it, and what was said of them."""

    home: Home
    truth: Truth
    old: set[int] = field(default_factory=set)
    """The daemons of the earlier version."""
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)
    told: list[Sentence] = field(default_factory=list)

    def keep_sentence(self, place: str, text: str, begin: float = 0.0) -> None:
        """Keep a sentence that came just now; it was not begun before an instant."""
        now = time.monotonic()
        self.told.append(Sentence(place, text, max(begin, now - INSTANT), now))


# --- what is done to the daemon -----------------------------------------------


def start_daemon(watched: WatchedHome, *, old: bool = False) -> None:
    """Start a daemon, of this version or of an earlier one."""
    program = (sys.executable, "-c", _OLD) if old else (COMMAND,)
    process = subprocess.Popen(
        [*program, "daemon"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=build_environment(watched.home),
    )
    watched.started.append(process)
    if old:
        watched.old.add(process.pid)


def stop_daemon(watched: WatchedHome) -> None:
    """Stop the daemon as a person does."""
    begin = time.monotonic()
    watched.keep_sentence("daemon stop", run_command(watched.home, "daemon", "stop"), begin)


def kill_daemon(watched: WatchedHome) -> None:
    """Kill the daemon."""
    send_signal(watched, signal.SIGKILL)


def stop_unheard(watched: WatchedHome) -> None:
    """Tell the daemon to stop, and wait for nothing."""
    send_signal(watched, signal.SIGTERM)


def send_signal(watched: WatchedHome, number: int) -> None:
    """Send a signal to whoever holds the home; it may have gone."""
    pid = watched.truth.now.pid
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def upgrade_daemon(watched: WatchedHome) -> None:
    """Stop the daemon, and start that of the other version."""
    old = watched.truth.now.pid in watched.old
    stop_daemon(watched)
    start_daemon(watched, old=not old)


def upgrade_killed(watched: WatchedHome) -> None:
    """Kill the daemon, and start that of the other version."""
    old = watched.truth.now.pid in watched.old
    kill_daemon(watched)
    start_daemon(watched, old=not old)


DEEDS: Sequence[Callable[[WatchedHome], None]] = (
    *(start_daemon, stop_daemon, stop_unheard, kill_daemon, upgrade_daemon, upgrade_killed),
)


# --- who speaks of it ---------------------------------------------------------


def run_command(home: Home, *arguments: str) -> str:
    """Return all that a command prints, on one line."""
    done = subprocess.run(
        [COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=build_environment(home),
        text=True,
        check=False,
    )
    return " ".join(done.stdout.split())


def ask_status(watched: WatchedHome) -> None:
    """Run `taskmem status`."""
    begin = time.monotonic()
    watched.keep_sentence("status", run_command(watched.home, "status"), begin)


def ask_doctor(watched: WatchedHome) -> None:
    """Run `taskmem doctor`; each of its rows counts for when it came."""
    begin = 0.0
    doctor = subprocess.Popen(
        [COMMAND, "doctor", "--no-proof"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=build_environment(watched.home),
        text=True,
    )
    with doctor:
        assert doctor.stdout is not None  # noqa: S101 - it is a pipe
        for line in doctor.stdout:
            watched.keep_sentence("doctor", line.strip(), begin)
            begin = time.monotonic()


def ask_relay(watched: WatchedHome, host: Host) -> None:
    """Call a tool through a relay that was there all the time."""
    answer = host.exchange("tools/call", {"name": "task_list", "arguments": {}})
    text = answer["error"]["message"] if "error" in answer else "It answers."
    watched.keep_sentence("relay", text)


class Line:
    """The plug-in's line to the daemon, which is kept as in a gateway."""

    def __init__(self, watched: WatchedHome) -> None:
        """Start it."""
        here = Path(__file__).with_name("line.mjs")
        self._watched = watched
        self._answers: Queue[None] = Queue()
        self._process = subprocess.Popen(
            [node_program(), here, watched.home.folder, COMMAND],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=build_environment(watched.home),
            text=True,
        )
        self._thread = Thread(target=self._hear, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it by the end of its stdin."""
        with self._process:
            assert self._process.stdin is not None  # noqa: S101 - it is a pipe
            self._process.stdin.close()
            self._thread.join()

    def ask(self, number: int) -> None:
        """Call a tool as the plug-in does."""
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        self._process.stdin.write(f"{number}\n")
        self._process.stdin.flush()
        self._answers.get()

    def _hear(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        for line in self._process.stdout:
            answer = json.loads(line)
            text = answer.get("warned") or answer.get("error", "It answers.")
            self._watched.keep_sentence("plug-in", text)
            if "number" in answer:
                self._answers.put(None)


# --- whether it is so ---------------------------------------------------------


def is_true(told: Sentence, watched: WatchedHome) -> bool:
    """Whether each claim of a sentence was so while it was made."""
    moments = watched.truth.list_moments(told.begin - SLACK, told.end + SLACK)
    seen = Observation(moments, told.end, watched.old)
    if UNTRUE.search(told.text):
        return False
    found = [
        (match, claim) for pattern, claim in CLAIMS if (match := re.search(pattern, told.text))
    ]
    if not found:
        return OTHER.match(told.text) is not None
    return all(claim(match, seen) for match, claim in found)


# --- the run ------------------------------------------------------------------


def watch_home(instants: int, chance: random.Random) -> WatchedHome:
    """Let all speak of one home's daemon at random instants."""
    with ExitStack() as stack:
        home = stack.enter_context(make_home())
        watched = WatchedHome(home, stack.enter_context(Truth(home)))
        stack.callback(end_daemons, watched)
        host = stack.enter_context(Host((COMMAND, "mcp"), build_environment(home)))
        line = stack.enter_context(closing(Line(watched)))
        host.shake_hands()
        for number in range(instants):
            chance.choice(DEEDS)(watched)
            looks = (
                lambda: ask_status(watched),
                lambda: ask_doctor(watched),
                lambda: ask_relay(watched, host),
                lambda n=number: line.ask(n),
            )
            delays = [chance.uniform(0, LONGEST) for _ in looks]
            asking = [
                Thread(target=look_later, args=pair) for pair in zip(delays, looks, strict=True)
            ]
            for each in asking:
                each.start()
            for each in asking:
                each.join()
    return watched


def look_later(delay: float, look: Callable[[], None]) -> None:
    """Look after a while."""
    time.sleep(delay)
    look()


def end_daemons(watched: WatchedHome) -> None:
    """End all daemons of a home."""
    while watched.truth.now.pid is not None:
        kill_daemon(watched)
        time.sleep(2 * SLACK)
    for process in watched.started:
        process.kill()
        process.wait()


def tell_presence() -> Iterator[Figure | str]:
    """Count untrue sentences on a daemon that comes and goes."""
    chance = random.Random(SEED)  # noqa: S311 - it keeps no secret
    sentences: Counter[str] = Counter()
    untrue: Counter[str] = Counter()
    states: Counter[str] = Counter()
    for _ in range(INSTANTS // A_HOME):
        watched = watch_home(A_HOME, chance)
        for each in watched.told:
            sentences[each.place] += 1
            states.update(re.findall(r"is (starting|ending)", each.text))
            if not is_true(each, watched):
                untrue[each.place] += 1
                so = watched.truth.list_moments(each.begin - SLACK, each.end + SLACK)
                print(f"untrue: {each}\n  {so}", file=sys.stderr, flush=True)
    for place in ("status", "doctor", "relay", "plug-in", "daemon stop"):
        what = f"untrue sentences of {place}"
        yield count_of(what, untrue[place], sentences[place])
    yield (
        f"Sentences that said starting: {states['starting']}; that said ending: {states['ending']}."
    )
