"""The last run of a task, and what its checkpoints say of the calls made in it."""

from __future__ import annotations

import logging

from openclaw_taskmem.domain import checkpoints
from openclaw_taskmem.domain.checkpoints import History
from openclaw_taskmem.engine.shell import Shell
from taskmem_hookspecs import Run

log = logging.getLogger(__name__)


def last_run(shell: Shell, task_id: str) -> Run | None:
    """Return the last run of a task, open or not; None: it had none."""
    return next(iter(shell.store.list_runs(None, task_id, 1)), None)


def history(shell: Shell, run: Run | None) -> History | None:
    """Return what the checkpoints of a run say; None: nothing that can be trusted."""
    if run is None:
        return None
    kept = shell.store.read_checkpoints(run.run_id, checkpoints.READ)
    found = checkpoints.read(kept)
    if kept and (found is None or found.corrupt):
        log.warning("checkpoints of %s are damaged; what is whole is used", run.run_id)
    return found
