"""Who holds a run in a test of the domain, and until when; how sessions are named."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from openclaw_taskmem.domain.callers import SessionKeys
from openclaw_taskmem.domain.policies import RunPolicy
from taskmem_hookspecs import Owner, Run, RunState, Wake, WakeCause
from taskmem_hookspecs.testing import DAWN, a_run, a_wake
from taskmem_openclaw import agent_host

SESSIONS: Final = SessionKeys(hosts=(agent_host.SESSIONS,))
POLICY: Final = RunPolicy()
NOW: Final = DAWN + timedelta(minutes=10)
LEASE: Final = timedelta(seconds=POLICY.lease_seconds)
MAIN: Final = Owner(role="main", session_key="agent:main:main", boot="boot-1")
AGAIN: Final = MAIN.model_copy(update={"boot": "boot-2", "process": "7:9"})
OTHER: Final = Owner(role="builder", session_key="agent:builder:main", boot="boot-1")
WORKER: Final = Owner(role="builder", process="7:9")
HELD: Final = {
    "state": RunState.RUNNING,
    "owner": MAIN,
    "token": 4,
    "lease_until": DAWN + LEASE,
    "session_key": MAIN.session_key,
}


def a_changed_run(**changes: object) -> Run:
    """`run_1` with other values in fields, its own or those of its parts."""
    parts = {
        part: {field: changes.pop(field) for field in of.model_fields if field in changes}
        for part, of in Run.PARTS.items()
    }
    return a_run(**parts, **changes)


def a_leased_run(**changes: object) -> Run:
    """A run that the main agent holds."""
    return a_changed_run(**(HELD | changes))


def a_resume_wake(**changes: object) -> Wake:
    """A wake that tells the run to go on, and was not delivered yet."""
    fields = {"cause": WakeCause.RUN, "task_id": "task_1", "run_id": "run_1"}
    return a_wake(**(fields | changes))
