"""Processes that claim runs, write for them and give them back, until they are killed.

Each notes in a file of its own what it believes to hold, a line a write: what it did,
as whom, of which run, with which token, and the instants (ns, monotonic, the same in
all processes) before and after the call.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from openclaw_taskmem.clock import SystemClock
from openclaw_taskmem.daemon import processes
from openclaw_taskmem.domain.callers.callers import Caller
from openclaw_taskmem.domain.changes.task_update import UpdateRequest
from openclaw_taskmem.domain.runs.policy import RunPolicy
from openclaw_taskmem.engine import run_handoff, run_recovery, runs, tasks
from openclaw_taskmem.engine.context import Context, Policies
from openclaw_taskmem.engine.scoped_store import ScopedStore
from openclaw_taskmem.plugin_host.facade import PluginHost
from taskmem_hookspecs import NotAllowed, Run, StoreBusy, TaskStatus
from taskmem_hookspecs.errors import Conflict, Fenced, RunHeld, RunNotFound, TaskEnded
from taskmem_sqlmodel.store import SqlStore

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
        wish = UpdateRequest(
            message=SAID.format(run.token),
            status=status,
            completed_steps=(1,),
            token=run.token,
            caller=self._caller,
        )
        tasks.write_update(self._context, run.task_id, wish)

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
