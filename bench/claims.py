"""Claims by a crowd of processes that are killed at random: is a run owned twice?"""

from __future__ import annotations

import multiprocessing
import os
import random
import select
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing.process import BaseProcess
from pathlib import Path

import sqlalchemy as sa
from claim_logs import Verdict, judge_logs
from claimers import LEASE, ROLE, THREADS, run_claimers
from figures import Figure, amount, count_of, rate
from homes import BATCH, find_disk
from postgres import NoServer, run_server

from openclaw_taskmem.domain.runs.machine import begin_run
from openclaw_taskmem.domain.tasks import lifecycle
from openclaw_taskmem.engine.context import new_id
from taskmem_hookspecs import Change
from taskmem_sqlmodel.store import SqlStore

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
