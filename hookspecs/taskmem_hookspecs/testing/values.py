"""Build valid values with fixed instants, for tests that set only one or two fields."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from taskmem_hookspecs.model import (
    Artifact,
    Author,
    Checkpoint,
    Event,
    FileChange,
    LedgerEntry,
    Message,
    MessageType,
    PlanRevision,
    Role,
    Run,
    RunState,
    Task,
    TaskStatus,
    Verdict,
    Wait,
    Wake,
    WakeCause,
    WorkFolder,
)
from taskmem_hookspecs.testing.clock import DAWN

WAIT_SECONDS: Final = 300.0
"""Default timeout of `a_wait`, in seconds."""


def a_task(**changes: object) -> Task:
    """Return the active `task_1`, created at `DAWN`, with these fields changed."""
    return Task.model_validate(
        {
            "task_id": "task_1",
            "name": "Deploy the site",
            "status": TaskStatus.ACTIVE,
            "plan": ("Build it", "Test it", "Ship it"),
            "created_at": DAWN,
            "updated_at": DAWN,
            **changes,
        }
    )


def a_message(**changes: object) -> Message:
    """Return a message of the agent in `task_1`, with these fields changed."""
    return Message.model_validate(
        {
            "task_id": "task_1",
            "role": Role.AGENT,
            "msg_type": MessageType.TEXT,
            "content": "The build runs.",
            "created_at": DAWN,
            **changes,
        }
    )


def a_revision(**changes: object) -> PlanRevision:
    """Return a plan revision of `task_1`, with these fields changed."""
    return PlanRevision.model_validate(
        {
            "task_id": "task_1",
            "old_plan": ("Build it", "Ship it"),
            "new_plan": ("Build it", "Test it", "Ship it"),
            "reason": "Untested.",
            "author": Author.AGENT,
            "created_at": DAWN,
            **changes,
        }
    )


def a_wait(**changes: object) -> Wait:
    """Return `wait_1`, watching and without a task, with these fields changed."""
    return Wait.model_validate(
        {
            "wait_id": "wait_1",
            "target": "pty:build",
            "wake_when": "the build has ended",
            "timeout_seconds": WAIT_SECONDS,
            "poll_seconds": 2.0,
            "created_at": DAWN,
            "armed_at": DAWN,
            "deadline_at": DAWN + timedelta(seconds=WAIT_SECONDS),
            "changed_at": DAWN,
            **changes,
        }
    )


def a_wake(**changes: object) -> Wake:
    """Return `wake_1`, due at `DAWN` and without a task, with these fields changed.

    Its `key` is derived from its `wake_id`, so two wakes differ in both.
    """
    return Wake.model_validate(
        {
            "wake_id": "wake_1",
            "key": f"test:{changes.get('wake_id', 'wake_1')}",
            "cause": WakeCause.STUCK,
            "text": "[task_stuck_resume] {}",
            "created_at": DAWN,
            "due_at": DAWN,
            **changes,
        }
    )


def a_run(**changes: object) -> Run:
    """Return `run_1`, a queued run of `task_1`, with these fields changed."""
    return Run.model_validate(
        {
            "run_id": "run_1",
            "task_id": "task_1",
            "state": RunState.QUEUED,
            "created_at": DAWN,
            "changed_at": DAWN,
            "seen_at": DAWN,
            **changes,
        }
    )


def a_checkpoint(**changes: object) -> Checkpoint:
    """Return the first checkpoint of `run_1`, with these fields changed."""
    return Checkpoint.model_validate(
        {"run_id": "run_1", "number": 1, "at": DAWN, "body": "{}", "checksum": "", **changes}
    )


def an_artifact(**changes: object) -> Artifact:
    """Return `artifact_1`, a verified file of `task_1`, with these fields changed."""
    return Artifact.model_validate(
        {
            "artifact_id": "artifact_1",
            "task_id": "task_1",
            "kind": "file",
            "subject": "report.md",
            "verdict": Verdict.VERIFIED,
            "detail": "It is there.",
            "checked_at": DAWN,
            **changes,
        }
    )


def an_entry(**changes: object) -> LedgerEntry:
    """Return a ledger entry of a file that `task_1` created, with these fields changed."""
    return LedgerEntry.model_validate(
        {
            "task_id": "task_1",
            "path": "/work/report.md",
            "change": FileChange.CREATED,
            "at": DAWN,
            **changes,
        }
    )


def a_folder(**changes: object) -> WorkFolder:
    """Return the folder `/work` of `task_1`, with these fields changed."""
    return WorkFolder.model_validate({"task_id": "task_1", "path": "/work", **changes})


def an_event(**changes: object) -> Event:
    """Return an event without a task, with these fields changed."""
    return Event.model_validate({"at": DAWN, "kind": "test", **changes})
