"""Covering a user's turn that works on no task, from its third call on.

What it called before is kept in mind only: a turn of one or two calls writes nothing.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from openclaw_taskmem.domain import implicit, working
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.checkpoints import Began, Ended
from openclaw_taskmem.domain.implicit import Seen
from openclaw_taskmem.domain.turns import Origin
from openclaw_taskmem.engine.shell import Shell
from openclaw_taskmem.engine.turns import Heard
from taskmem_hookspecs import Owner, Run, TaskFacts

MOST_SESSIONS: Final = 1_000
"""Sessions whose first calls are kept in mind, for an end may never be told."""
_OWN: Final = ":taskmem:"
"""In the keys of sessions that a task has to itself."""


def begin_turn(shell: Shell, heard: Heard, origin: Origin) -> None:
    """Forget what a session called in earlier turns, and end what covered them.

    Only a user's turn ends that: any other may be of the work that it covers. What
    waits to be resumed stays, and so does what this very turn has taken up already.
    """
    forget_calls(shell, heard)
    if origin is not Origin.USER:
        return
    for run in shell.session_runs(heard.session, heard.owner.host):
        if run.state in working.OPEN and not _is_held(run, heard.owner):
            shell.decide(run.task_id, partial(_end_left, shell, run))


def _end_left(shell: Shell, found: Run) -> None:
    """End the implicit task of a run that no turn works on; another's stays."""
    facts = shell.store.read_task(found.task_id)
    if facts.task.implicit and facts.run == found:
        shell.commit(implicit.end_task(facts, found, shell.clock.now()))


def note_call(shell: Shell, heard: Heard, entry: Began, request: str | None) -> None:
    """Note a call that belongs to no task; the third of a user's turn opens one.

    `request` is what the user said in the turn; None: no user has begun it.
    """
    if request is None or not shell.runs.implicit_tasks or _OWN in heard.session:
        return
    now = shell.clock.now()
    seen = (*shell.uncovered.get(heard.place, ()), Seen(at=now, entry=entry))
    if not implicit.is_covered(seen):
        if len(shell.uncovered) >= MOST_SESSIONS:
            shell.uncovered.pop(next(iter(shell.uncovered)))
        shell.uncovered[heard.place] = seen
        return
    change = implicit.open_task(
        seen,
        request,
        heard.owner,
        task_id=shell.new_id("task", now),
        run_id=shell.new_id("run", now),
        folder=heard.folder,
        fingerprint=heard.fingerprint,
        now=now,
        policy=shell.runs,
    )
    shell.commit(heard.kept(shell, change))
    forget_calls(shell, heard)


def note_call_end(shell: Shell, heard: Heard, entry: Ended) -> None:
    """Note the end of a call that belongs to no task."""
    seen = shell.uncovered.get(heard.place, ())
    if implicit.has_ended(seen, entry):
        now = shell.clock.now()
        shell.uncovered[heard.place] = (*seen, Seen(at=now, entry=entry))


def forget_calls(shell: Shell, heard: Heard) -> None:
    """Forget what a turn has called: it is over, covered, or another begins."""
    shell.uncovered.pop(heard.place, None)


def find_covered(shell: Shell, caller: Caller) -> tuple[TaskFacts, Run] | None:
    """Return the implicit task that was opened in a caller's turn, and its run.

    None: none was.
    """
    owner = caller.in_gateway
    if owner is None or owner.session_key is None:
        return None
    for found in shell.session_runs(owner.session_key, owner.host):
        facts = shell.store.read_task(found.task_id)
        run = facts.run  # by now: a heartbeat may have come meanwhile
        if run is None or not _is_held(run, owner):
            continue
        if implicit.is_of_turn(facts.task, run):
            return facts, run
    return None


def _is_held(run: Run, owner: Owner) -> bool:
    """Whether a turn of an owner works on a run now."""
    return working.at_work(run) and run.owner == owner
