"""A daemon comes and goes: what is said of it, held against what the kernel knows."""

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
from threading import Event, Thread
from typing import Literal, Self

from figures import Figure, count_of
from homes import COMMAND, Host, build_environment, make_home

from openclaw_taskmem import __version__
from openclaw_taskmem.home import Home
from tests.e2e.openclaw import node_program

EVERY = 0.002
"""Seconds between two looks."""
SLACK = 0.02
"""Seconds around a sentence in which what was true counts: where the machine is busy,
looks are that far apart."""
_ACCEPTS = "00010000"
"""The flag of a socket that listens, in `/proc/net/unix`."""

State = Literal["absent", "starting", "serving", "ending"]
OLDER = "0.0.9"
"""The version that a daemon from before an upgrade says that it has."""
STARTING = 15.0
"""Seconds that a process may take to start, before anybody is told to kill it."""
OTHER = re.compile(
    r"ok    (?!daemon)|All is well\.|\d+ links: |Run: taskmem daemon stop \(the next"
    r"|Run this again; where|There is no \S+ yet"
    r"|(?:warn|fail)  openclaw\.(?:version|configuration): |Install OpenClaw"
    r"|Run: openclaw|fail  wakes\.owed: |Mend what fails; they go out"
)
"""What claims nothing of whether a daemon runs."""
UNTRUE = re.compile(r"daemon could not be started|daemon cannot be started|older schema|ECONN")
"""What is never so here: a daemon can always be started, and brings its database up."""
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
class Moment:
    """What is so from an instant on."""

    at: float
    state: State
    pid: int | None = None
    """Who holds the home."""
    born: float = 0.0
    """When that process began."""


class Truth:
    """Keeps what is true, and since when; a context manager that looks meanwhile."""

    def __init__(self, home: Home) -> None:
        """Take the home; it must be there."""
        self._home = home
        self._over = Event()
        self._thread = Thread(target=self._keep_looking, daemon=True)
        self._served: set[int] = set()
        self._born: dict[int, float] = {}
        self.moments = [Moment(time.monotonic(), "absent")]

    def __enter__(self) -> Self:
        """Begin to look."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Look no more."""
        self._over.set()
        self._thread.join()

    @property
    def now(self) -> Moment:
        """What is so now."""
        return self.moments[-1]

    def list_moments(self, begin: float, end: float) -> list[Moment]:
        """Return all that was so in a time, and what was so when it began."""
        known = list(self.moments)
        first = max(n for n, each in enumerate(known) if n == 0 or each.at <= begin)
        return [each for each in known[first:] if each.at <= end]

    def _keep_looking(self) -> None:
        while not self._over.wait(EVERY):
            holder = self._find_holder()
            state: State = "absent"
            if holder is not None:
                if self._is_listening():
                    self._served.add(holder)
                    state = "serving"
                else:
                    state = "ending" if holder in self._served else "starting"
            if (state, holder) != (self.now.state, self.now.pid):
                at = time.monotonic()
                born = 0.0 if holder is None else self._find_birth(holder)
                self.moments.append(Moment(at, state, holder, born))

    def _find_holder(self) -> int | None:
        try:
            number = self._home.lock.stat().st_ino
        except FileNotFoundError:
            return None
        for line in Path("/proc/locks").read_text().splitlines():
            fields = line.split()
            held = (fields[1], fields[3]) == ("FLOCK", "WRITE")
            if held and fields[5].endswith(f":{number}"):
                return int(fields[4])
        return None

    def _is_listening(self) -> bool:
        path = str(self._home.socket)
        for line in Path("/proc/net/unix").read_text().splitlines():
            if line.endswith(path) and line.split()[3] == _ACCEPTS:
                return True
        return False

    def _find_birth(self, pid: int) -> float:
        if pid not in self._born:
            self._born[pid] = time.monotonic() - (measure_age(pid) or 0.0)
        return self._born[pid]


def measure_age(pid: int) -> float | None:
    """Return the seconds that a process has lived; None: it does not."""
    with suppress(OSError):
        text = Path(f"/proc/{pid}/stat").read_text()
        fields = text.rpartition(")")[2].split()
        if fields[0] not in "ZX":
            return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / 100
    return None


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
    start_daemon,
    stop_daemon,
    stop_unheard,
    kill_daemon,
    upgrade_daemon,
    upgrade_killed,
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
