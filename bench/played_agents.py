"""Agents that are played: lies, honest endings, and scenarios with a clock that is turned."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from figures import Figure, amount, count_of, millis
from homes import find_disk

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.policies import RUN_POLICY
from openclaw_taskmem.engine.folder_listings import (
    LIST_SECONDS,
    MOST_FILES,
    FolderListings,
    list_files,
)
from openclaw_taskmem.engine.ledger import FileActivity
from taskmem_sqlmodel.hooks import task_store
from tests.support import endings
from tests.support.scenarios import Player, loops, scenarios
from tests.support.sessions import Session
from tests.support.world import World

LIES = 1_200
HONEST = 1_206
CALLS = 300
LOOKS = 10
REGISTERED = 100
IN_A_FOLDER = 500
"""Files of a folder of the large repository."""
COUNTED = {
    "reminders": "wrong reminders",
    "failures": "wrong failures",
    "consents": "consents assumed",
    "otherwise": "other ends than written",
}


def evidence_claims() -> Iterator[Figure | str]:
    """Play lies and honest endings; time a call with the ledger, and a large look."""
    with tempfile.TemporaryDirectory(dir=find_disk()) as folder:
        lies = endings.tally(endings.lies(Path(folder), LIES))
        yield _build_share("lies that were completed unseen", lies, "unseen", 0.0)
        yield _build_share("lies that were refused at first", lies, "refused", None)
        honest = endings.tally(endings.honest(Path(folder), HONEST))
        yield _build_share("honest endings that were refused", honest, "refused", 0.2)
        yield _build_share("honest endings accused before the user", honest, "accused", 0.0)
        yield _build_share("honest endings not completed", honest, "not completed", 0.0)
        yield from _time_calls(Path(folder))
        yield millis(f"a look at {MOST_FILES:,} files in git", _time_looks(Path(folder)), 1000)
        yield from _measure_registrations(Path(folder))
    for kind, row in (*lies.items(), *honest.items()):
        wrong = {name: row[name] for name in ("unseen", "refused") if row[name]}
        if (kind in lies and row["unseen"]) or (kind in honest and row["refused"]):
            yield f"Ended wrongly, {kind}: {wrong} of {row['played']}"


def _build_share(
    what: str, table: Mapping[str, Counter[str]], column: str, limit: float | None
) -> Figure:
    played = sum(row["played"] for row in table.values())
    share = 100 * sum(row[column] for row in table.values()) / played
    worst = max(100 * row[column] / row["played"] for row in table.values())
    return Figure(
        what=what,
        median=share,
        worst=worst,
        worst_is="of a kind",
        unit="%",
        limit=limit,
        samples=played,
    )


def _time_calls(folder: Path) -> Iterator[Figure]:
    """Time the end of a tool call, as it was and with what it did to files."""
    store = task_store(f"sqlite:///{folder / 'taskmem.db'}")
    session = Session(World(store, artifact_roots=(str(folder),)), folder=str(folder))
    session.begins()
    session.register()
    deed = FileActivity(folders=(str(folder),), command=True)
    times: dict[str, list[float]] = {"without the ledger": [], "with it": []}
    for number in range(CALLS):
        for what, each in zip(times, (None, deed), strict=True):
            start = time.perf_counter()
            session.does(f"make {number} > out/{number}.txt", deed=each)
            times[what].append(time.perf_counter() - start)
    store.close()
    for what, seconds in times.items():
        yield millis(f"a tool call's beginning and end, {what}", seconds)


def _time_looks(folder: Path) -> Sequence[float]:
    top = folder / "repository"
    for number in range(MOST_FILES):
        place = top / str(number // IN_A_FOLDER)
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.txt").touch()
    subprocess.run(["/usr/bin/env", "git", "init", "-q", str(top)], check=True)
    times: list[float] = []
    for _ in range(LOOKS):
        start = time.perf_counter()
        found = list_files(str(top), since=time.time_ns(), until=start + LIST_SECONDS)
        times.append(time.perf_counter() - start)
        if found is None or len(found.names) != MOST_FILES:
            raise SystemExit("The repository was not listed.")
    return times


def _measure_registrations(folder: Path) -> Iterator[Figure]:
    """Register tasks in the large repository and in an empty folder, and end them."""
    (empty := folder / "empty").mkdir()
    for what, place in (
        ("an empty folder", empty),
        (f"{MOST_FILES:,} files", folder / "repository"),
    ):
        kept = folder / f"listings of {place.name}"
        store = task_store(f"sqlite:///{folder / place.name}.db")
        world = World(store, artifact_roots=(str(folder),), listings=FolderListings(kept))
        caller = Caller(folder=str(place))
        before, used = store.measure().bytes, _read_cpu()
        tasks = [world.register(caller=caller) for _ in range(REGISTERED)]
        cpu = (_read_cpu() - used) / REGISTERED
        listed = sum(each.stat().st_size for each in kept.iterdir())
        size = (store.measure().bytes - before + listed) / REGISTERED
        for task in tasks:
            world.call("task_cancel", Caller(person=True), task_id=task)
        store.close()
        yield replace(millis(f"task_register in {what}: CPU a task", [cpu], 10), samples=REGISTERED)
        kilobytes = amount(f"task_register in {what}: kept a task", [size / 1000], "KB", 10)
        yield replace(kilobytes, samples=REGISTERED)
        yield count_of(
            f"task_register in {what}: listings at the end", len([*kept.iterdir()]), REGISTERED
        )


def _read_cpu() -> float:
    """Return the CPU time of this process and its children, in seconds."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def run_scenarios() -> Iterator[Figure | str]:
    """Scenarios of a user: is an agent that waits left alone, and is a loop ended?"""
    found = [Player(scenario).play() for scenario in scenarios()]
    for name, what in COUNTED.items():
        wrong = [each for seen in found for each in getattr(seen, name)]
        yield count_of(f"{len(found)} scenarios: {what}", len(wrong), len(found))
        yield from wrong
    for scenario in loops():
        seen = Player(scenario).play()
        what = f"rounds until a loop is ended and told once ({scenario.name})"
        yield count_of(what, seen.told, 1, RUN_POLICY.max_rounds)
        yield from seen.wrong
