"""Claims by a crowd of processes that are killed at random: is a run owned twice?

Each process notes in a file of its own what it believes to hold, a line a write: what it did, as
whom, of which run, with which token, and the instants (ns, monotonic, the same in all processes)
before and after the call. The notes and the audit log, read with bare SQL, are the judges: nothing
of the product is asked. The PostgreSQL server is of its own on a real disk; unlike that of the
tests, it is durable.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import pwd
import random
import select
import shutil
import subprocess
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from figures import Figure, amount, count_of, rate
from homes import BATCH, find_disk
from machine import find_filesystem

from openclaw_taskmem.clock import SystemClock
from openclaw_taskmem.daemon import processes
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.changes.task_update import UpdateRequest
from openclaw_taskmem.domain.errors import Fenced, RunHeld, TaskEnded
from openclaw_taskmem.domain.policies import RunPolicy
from openclaw_taskmem.domain.runs.machine import begin_run
from openclaw_taskmem.domain.tasks import lifecycle
from openclaw_taskmem.engine import run_handoff, run_recovery, runs, tasks
from openclaw_taskmem.engine.context import Context, Policies, ScopedStore, new_id
from openclaw_taskmem.plugin_host.plugin_host import PluginHost
from taskmem_hookspecs import Change, NotAllowed, Run, StoreBusy, TaskStatus
from taskmem_hookspecs.errors import Conflict, RunNotFound
from taskmem_sqlmodel.store import SqlStore

CONNECTIONS = 500
"""A process that claims has one for each thread that reads, and one that writes; those
of the dead stay for a while."""
FOREVER = 2**63
ROLE = "worker"
LEASE = 1.0
"""Seconds; an owner whose process is not known loses a run after that."""
THREADS = 12
"""Of a process, which write together: one claims as its process, the others as
sessions of which nothing is seen, and one of these is always late."""
ENDS = 0.2
"""Share of the claims whose task ends, so that another entry is taken."""
WRITES = 0.1
"""Share of the claims for which a step is marked besides."""
MOST_LOOKS = 40
"""Looks of a late one, a twentieth of a second apart, until another has its run."""
LOST = (Conflict, NotAllowed, RunHeld, RunNotFound, StoreBusy, TaskEnded)
"""What a crowd brings about, and another try mends."""
SAID = "token {}"
PROCESSES = 16
ON_SQLITE, ON_POSTGRESQL = 100_000, 3_000
DEATHS = 3.0
"""Seconds between two deaths, on the mean."""
PARTS = 10
"""Of a run, whose rates are told apart."""
TOLD = 20
"""Of what is wrong, that many are told."""
QUEUED = 0.3
"""Queued runs for each claim; a fifth of the claims ends one."""


class NoServer(Exception):
    """None can be started here; the sentence says why."""


@contextmanager
def run_server() -> Iterator[str]:
    """Run a server, give the URL of an empty database of it, and remove it.

    Raises:
        NoServer: It is not installed, or nobody may run it.
    """
    programs = _find_programs()
    folder = _make_cluster_folder()
    settings = f"-c listen_addresses='' -c max_connections={CONNECTIONS} -k {folder}"
    try:
        user = _choose_user(folder)
        init = ("--username=taskmem", "--auth=trust", "--encoding=UTF8")
        _run_program(user, folder, programs / "initdb", *init, "--pgdata=data")
        control = (programs / "pg_ctl", "--pgdata=data", "--options", settings)
        _run_program(user, folder, *control, "--wait", "--log=log", "start")
        try:
            yield f"postgresql:///postgres?host={folder}&user=taskmem"
        finally:
            _run_program(user, folder, *control, "--mode=immediate", "stop")
    finally:
        shutil.rmtree(folder)


def _find_programs() -> Path:
    known = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which("initdb", path=os.pathsep.join(map(str, known)))
    found = found or shutil.which("initdb")
    if found is None:
        raise NoServer("PostgreSQL is not installed")
    return Path(found).parent


def _make_cluster_folder() -> Path:
    """Make a folder on a real disk: short for a socket, and open to another user."""
    place = os.environ.get("TASKMEM_BENCH_FOLDER", "/var/tmp")  # noqa: S108 - mkdtemp
    if find_filesystem(Path(place)) in ("tmpfs", "ramfs"):
        raise NoServer(f"{place} is on no real disk; name one in TASKMEM_BENCH_FOLDER")
    return Path(tempfile.mkdtemp(prefix="pg-", dir=place))


def _choose_user(folder: Path) -> dict[str, Any]:
    """Return as whom a server runs: PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return {}
    users = [u for u in pwd.getpwall() if u.pw_name in ("postgres", "nobody")]
    if not users:
        raise NoServer("PostgreSQL does not run as root, and there is nobody else")
    os.chown(folder, users[0].pw_uid, users[0].pw_gid)
    return {"user": users[0].pw_uid, "group": users[0].pw_gid, "extra_groups": []}


def _run_program(user: dict[str, Any], folder: Path, *command: str | Path) -> None:
    subprocess.run(
        command, cwd=folder, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, **user
    )


@dataclass(frozen=True, slots=True)
class Note:
    """One line of a claimer."""

    what: str
    """`got`, `wrote`, `gives` and then `gave`, `fenced` or `refused`."""
    owner: str
    known: bool
    """Whether its process is known, so that it holds a run while that lives."""
    run_id: str
    token: int
    begun: int
    ended: int


@dataclass(frozen=True, slots=True)
class Ownership:
    """What one owner believed to hold: surely since, and no longer than until."""

    owner: str
    run_id: str
    token: int
    since: int
    until: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the notes and the audit log say together."""

    claims: int
    """By the audit log: also those whose owner died before it noted them."""
    noted: int
    twice: Sequence[str]
    """A sentence for each run that had two owners."""
    old_writes: Sequence[str]
    """A sentence for each write that an old token was good for."""
    fenced: int
    """Writes with an old token that were refused."""


def judge_logs(logs: Path, database: sa.Engine, deaths: Mapping[str, int], lease: int) -> Verdict:
    """Compare all that was noted in a folder with a database.

    Args:
        logs: The folder of the claimers' files.
        database: Where the audit log is.
        deaths: When each process was killed, by the name of its file.
        lease: For how long one whose process is not known holds a run.
    """
    notes = list(_read_notes(logs))
    audit = _read_audit_log(database)
    holdings = _list_ownerships(notes, deaths, lease)
    old = [*_find_old_writes(notes), *_find_old_messages(database)]
    return Verdict(
        claims=sum(map(len, audit.values())),
        noted=len(holdings),
        twice=[
            *_find_shared_tokens(notes),
            *_find_shrinking_tokens(notes, audit),
            *_find_overlapping_runs(holdings),
        ],
        old_writes=old,
        fenced=sum(note.what == "fenced" for note in notes),
    )


def _read_notes(logs: Path) -> Iterator[Note]:
    for log in sorted(logs.glob("*.log")):
        # A line that was cut by the death of its writer has no end.
        for line in log.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                what, owner, how, run_id, *numbers = line.split()
                token, begun, ended = map(int, numbers)
                yield Note(what, owner, how == "known", run_id, token, begun, ended)


def _read_audit_log(database: sa.Engine) -> dict[str, list[tuple[int, str]]]:
    """Return the claims of each run, as token and owner, in the log's order."""
    claims: dict[str, list[tuple[int, str]]] = defaultdict(list)
    wanted = "kind IN ('run_changed', 'run_claimed')"
    query = f"SELECT run_id, kind, data FROM events WHERE {wanted} ORDER BY id"  # noqa: S608 - our own words
    with database.connect() as connection:
        for run_id, kind, text in connection.exec_driver_sql(query):
            data = json.loads(text)
            if kind == "run_claimed" or data["to"] == "running":
                claims[run_id].append((data["token"], data["owner"]["session_key"]))
    return claims


def _list_ownerships(
    notes: Iterable[Note], deaths: Mapping[str, int], lease: int
) -> list[Ownership]:
    """Return what was held, each until its owner began to give it back, or died.

    One whose process is not known holds a run for a lease at most.
    """
    notes = list(notes)
    given = {
        (note.owner, note.run_id, note.token): note.begun
        for note in notes
        if note.what in ("gives", "fenced", "refused")
    }
    return [
        Ownership(
            note.owner,
            note.run_id,
            note.token,
            since=note.ended,
            until=min(
                given.get((note.owner, note.run_id, note.token), FOREVER),
                deaths.get(note.owner.partition(".")[0], FOREVER),
                FOREVER if note.known else note.begun + lease,
            ),
        )
        for note in notes
        if note.what == "got"
    ]


def _find_shared_tokens(notes: Iterable[Note]) -> Iterator[str]:
    """Find tokens that two have got."""
    owners: dict[tuple[str, int], str] = {}
    for note in notes:
        if note.what == "got":
            first = owners.setdefault((note.run_id, note.token), note.owner)
            if first != note.owner:
                yield f"{note.run_id} {note.token}: {first} and {note.owner}"


def _find_shrinking_tokens(
    notes: Iterable[Note], audit: Mapping[str, list[tuple[int, str]]]
) -> Iterator[str]:
    """Find tokens that did not grow in the audit log, and claims that it has not."""
    for run_id, claims in audit.items():
        for (before, one), (after, other) in pairwise(claims):
            if after <= before:
                yield f"{run_id}: {one} had {before}, then {other} {after}"
    known = {(run_id, token, owner) for run_id, claims in audit.items() for token, owner in claims}
    for note in notes:
        if note.what == "got" and (note.run_id, note.token, note.owner) not in known:
            yield f"{note.run_id} {note.token}: the log knows not of {note.owner}"


def _find_overlapping_runs(holdings: Iterable[Ownership]) -> Iterator[str]:
    """Find runs that another got while somebody still held them."""
    runs: dict[str, list[Ownership]] = defaultdict(list)
    for holding in holdings:
        runs[holding.run_id].append(holding)
    for run_id, held in runs.items():
        held.sort(key=lambda each: (each.since, each.token))
        longest = held[0]
        for holding in held[1:]:
            if holding.since < longest.until:
                yield f"{run_id}: {holding.owner} while {longest.owner} held it"
            if holding.token <= longest.token:
                yield f"{run_id}: {longest.token} came before {holding.token}"
            longest = max(longest, holding, key=lambda each: each.until)


def _find_old_writes(notes: Sequence[Note]) -> Iterator[str]:
    """Find writes that began when another had got the run, and were not refused."""
    claimed: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for note in notes:
        if note.what == "got":
            claimed[note.run_id].append((note.token, note.ended))
    for note in notes:
        if note.what in ("wrote", "gave") and any(
            token > note.token and ended < note.begun for token, ended in claimed[note.run_id]
        ):
            yield f"{note.run_id}: {note.owner} {note.what} with {note.token}"


def _find_old_messages(database: sa.Engine) -> Iterator[str]:
    """Find messages that a token wrote after a later one had."""
    query = "SELECT task_id, content FROM task_messages ORDER BY id"
    latest: dict[str, int] = {}
    with database.connect() as connection:
        for task_id, content in connection.exec_driver_sql(query):
            _, said, number = content.rpartition("token ")
            if not said:
                continue
            token = int(number)
            if token < latest.get(task_id, 0):
                yield f"{task_id}: {token} wrote after {latest[task_id]}"
            latest[task_id] = token


class Claimer:
    """One thread's claims: under its process's identity, or known to nobody."""

    def __init__(
        self, context: Context, name: str, note: Callable[[str], None], *, known: bool
    ) -> None:
        """Take the store's side, a name of its own, and where it notes what it did."""
        process = processes.identify_process(os.getpid()) if known else None
        self._context = context
        self._caller = Caller(session_key=name, process=process)
        self._how = f"{name} {'known' if known else 'leased'}"
        self._note = note

    def run_round(self) -> None:
        """Claim the next run, write for it, and hand it back or end its task."""
        run = self._claim()
        if run is None:
            return
        if random.random() < WRITES:  # noqa: S311 - no secret
            self._attempt("wrote", run, partial(self._write, run))
        if random.random() < ENDS:  # noqa: S311 - no secret
            end = partial(self._write, run, TaskStatus.COMPLETED)
            self._attempt("gave", run, end)
        else:
            self._attempt("gave", run, partial(self._hand_back, run))

    def run_late_round(self) -> None:
        """Claim a run, stay silent until another has it, and write for it then.

        What has lapsed meanwhile, its own and that of the dead, is put back.
        """
        run = self._claim()
        if run is None:
            return
        for _ in range(MOST_LOOKS):
            time.sleep(LEASE / 20)  # a lease ends by the clock alone
            with suppress(*LOST):
                run_recovery.sweep_lapsed_runs(self._context, ())
            if self._context.store.read_run(run.run_id).token != run.token:
                break
        self._attempt("wrote", run, partial(self._write, run))

    def _claim(self) -> Run | None:
        begun = time.monotonic_ns()
        try:
            run = runs.claim_run(self._context, None, ROLE, (), self._caller).run
        except LOST:
            return None
        self._log_attempt("got", run, begun)
        return run

    def _write(self, run: Run, status: TaskStatus | None = None) -> None:
        request = UpdateRequest(
            message=SAID.format(run.token),
            status=status,
            completed_steps=(1,),
            token=run.token,
            caller=self._caller,
        )
        tasks.write_update(self._context, run.task_id, request)

    def _hand_back(self, run: Run) -> None:
        run_handoff.hand_off_task(
            self._context,
            run.task_id,
            ROLE,
            note=SAID.format(run.token),
            token=run.token,
            caller=self._caller,
        )

    def _attempt(self, what: str, run: Run, call: Callable[[], None]) -> None:
        begun = time.monotonic_ns()
        if what == "gave":
            # Another may have the run before its giver can say so, or dies.
            self._log_attempt("gives", run, begun)
        while True:
            try:
                call()
            except Fenced:
                return self._log_attempt("fenced", run, begun)
            except (NotAllowed, RunHeld, RunNotFound, TaskEnded):
                return self._log_attempt("refused", run, begun)
            except (Conflict, StoreBusy):
                continue
            return self._log_attempt(what, run, begun)

    def _log_attempt(self, what: str, run: Run, begun: int) -> None:
        ended = time.monotonic_ns()
        self._note(f"{what} {self._how} {run.run_id} {run.token} {begun} {ended}")


def run_claimers(url: str, log: Path, pipe: tuple[int, int]) -> None:
    """Be one process: claim until it is killed; write a byte for each claim."""
    reads, counted = pipe
    os.close(reads)  # or it would outlive whoever counts
    logging.disable()  # hundreds of runs are put back
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(line: str) -> None:
        os.write(file, f"{line}\n".encode())
        if line.startswith("got "):
            os.write(counted, b".")

    context = Context(
        store=ScopedStore(SqlStore(url, busy_timeout=60.0)),
        plugin_host=PluginHost(entries=[]),
        clock=SystemClock(),
        policies=Policies(runs=RunPolicy(lease_seconds=LEASE)),
        is_alive=processes.is_alive,
    )
    claimers = [
        Claimer(context, f"{log.stem}.{number}", note, known=number == 0)
        for number in range(THREADS)
    ]
    *most, last = claimers
    rounds = [*(each.run_round for each in most), last.run_late_round]
    threads = [threading.Thread(target=_repeat_forever, args=(each,)) for each in rounds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _repeat_forever(one_round: Callable[[], None]) -> None:
    try:
        while True:
            one_round()
    except BaseException:
        # The others would hide that one thread of this process has failed.
        logging.disable(logging.NOTSET)
        logging.exception("a claimer failed")  # noqa: LOG015 - a program of its own
        os._exit(1)


def run_claims() -> Iterator[Figure | str]:
    """16 processes that claim, write and die at random; is a run owned twice?"""
    with ExitStack() as stack:
        folder = stack.enter_context(_make_folder())
        yield from _measure_claims("SQLite", f"sqlite:///{folder}/c.db", folder, ON_SQLITE)
    try:
        with run_server() as url, _make_folder() as folder:
            yield from _measure_claims("PostgreSQL", url, folder, ON_POSTGRESQL)
    except NoServer as why:
        yield f"run_claims on PostgreSQL was left out: {why}."


def _make_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="tmb", dir=find_disk())


def _measure_claims(database: str, url: str, folder: str, claims: int) -> Iterator[Figure | str]:
    _queue_runs(url, round(claims * QUEUED))
    logs = Path(folder) / "logs"
    logs.mkdir()
    crowd = Crowd(url, logs)
    crowd.claim(claims)
    address = sa.make_url(url)
    if address.drivername == "postgresql":
        address = address.set(drivername="postgresql+psycopg")
    engine = sa.create_engine(address)
    found = judge_logs(logs, engine, crowd.deaths, round(LEASE * 1e9))
    engine.dispose()
    yield from _build_figures(database, crowd, found)


def _build_figures(database: str, crowd: Crowd, found: Verdict) -> Iterator[Figure | str]:
    many = f"{database}, {PROCESSES} processes"
    yield count_of(f"{many}: runs owned twice", len(found.twice), found.claims)
    yield count_of(f"{many}: writes with an old token", len(found.old_writes), found.fenced)
    yield rate(f"{many}: claims", crowd.rates, "claims/s")
    yield amount(f"{many}: all of them took", [crowd.seconds], "s")
    yield amount(f"{many}: killed at random", [crowd.killed], "processes")
    yield (
        f"{many} of {THREADS} threads: the audit log has {found.claims:,} claims, and "
        f"owners that lived to do so have noted {found.noted:,}; {found.fenced:,} "
        "writes with an old token were tried, and refused."
    )
    yield from (f"{many}: {each}" for each in [*found.twice, *found.old_writes][:TOLD])


def _queue_runs(url: str, count: int) -> None:
    """Queue runs of as many tasks."""
    store = SqlStore(url)
    for start in range(0, count, BATCH):
        changes = [_build_queued_run() for _ in range(min(BATCH, count - start))]
        store.commit(
            Change(
                tasks=tuple(each.tasks[0] for each in changes),
                runs=tuple(each.runs[0] for each in changes),
                events=tuple(event for each in changes for event in each.events),
            )
        )
    store.close()


def _build_queued_run() -> Change:
    now = datetime.now(UTC)
    made = lifecycle.build_task(
        task_id=new_id("task", now),
        name="Fill the shelf",
        plan=("Count", "Order"),
        metadata={},
        session_key=None,
        now=now,
    )
    begun = begin_run(made.tasks[0], run_id=new_id("run", now), now=now, role=ROLE)
    log = (*made.events, *begun.events)
    return made.model_copy(update={"runs": (begun.run,), "events": log})


@dataclass
class Crowd:
    """Processes that claim; whoever is killed is followed by a new one."""

    url: str
    logs: Path
    killed: int = 0
    seconds: float = 0.0
    rates: list[float] = field(default_factory=list)
    """Claims a second, of each part of the run."""
    deaths: dict[str, int] = field(default_factory=dict)
    """When each process was killed, by the name of its file. ns, monotonic."""
    _living: dict[str, BaseProcess] = field(default_factory=dict)
    _started: int = 0

    def claim(self, count: int) -> None:
        """Let them claim so often, and kill all that live then."""
        pipe = os.pipe()
        try:
            for _ in range(PROCESSES):
                self._start(pipe)
            self._watch(pipe, count)
        finally:
            for name in [*self._living]:
                self._kill(name)
            for end in pipe:
                os.close(end)

    def _watch(self, pipe: tuple[int, int], count: int) -> None:
        """Read a byte for each claim, and kill at random meanwhile."""
        done, part = 0, count // PARTS
        began = marked = time.monotonic()
        next_death = began + random.expovariate(1 / DEATHS)
        while done < count:
            left = max(next_death - time.monotonic(), 0)
            if select.select([pipe[0]], [], [], left)[0]:
                done += len(os.read(pipe[0], 65536))
            now = time.monotonic()
            if done // part > len(self.rates):
                self.rates.append(part / (now - marked))
                marked = now
            if now >= next_death:
                self._kill(random.choice([*self._living]))  # noqa: S311 - no secret
                self.killed += 1
                self._start(pipe)
                next_death = now + random.expovariate(1 / DEATHS)
        self.seconds = time.monotonic() - began

    def _start(self, pipe: tuple[int, int]) -> None:
        self._started += 1
        log = self.logs / f"p{self._started}.log"
        # Forked from one that has no connection open: a start costs next to nothing.
        fork = multiprocessing.get_context("fork")
        given = (self.url, log, pipe)
        process = fork.Process(target=run_claimers, args=given, daemon=True)
        process.start()
        self._living[log.stem] = process

    def _kill(self, name: str) -> None:
        process = self._living.pop(name)
        if not process.is_alive():
            raise SystemExit(f"A claimer ended by itself, with {process.exitcode}.")
        self.deaths[name] = time.monotonic_ns()
        process.kill()
        process.join()
