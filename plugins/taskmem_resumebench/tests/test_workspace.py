"""The oracle sees from a workspace what is missing, twice, or revived."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskmem_resumebench.servers import LoopbackServer
from taskmem_resumebench.tasks import Call, GeneratedTask, Kind, format_step, generate_tasks
from taskmem_resumebench.workspace import Judgement, Workspace, judge_workspace

CALLS = (
    Call(Kind.FILE, "amber-1", "out/amber-1.txt"),
    Call(Kind.LINE, "amber-2", "log.txt"),
    Call(Kind.COMMIT, "amber-3"),
    Call(Kind.ROW, "amber-4"),
    Call(Kind.PIPELINE, "amber-5", "out/amber-5.txt"),
    Call(Kind.POST, "amber-6"),
    Call(Kind.PAYMENT, "amber-7"),
)


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    with LoopbackServer() as server:
        yield Workspace(tmp_path / "w", server)


def judge(task: GeneratedTask, workspace: Workspace) -> Judgement:
    return judge_workspace(task, workspace.made, workspace.count_effects)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.kind.value)
def test_the_effect_of_each_call_can_be_looked_up(call: Call, workspace: Workspace) -> None:
    assert workspace.count_effects(call) == 0

    workspace.perform(call)

    assert workspace.count_effects(call) == 1
    assert workspace.count_effects(call._replace(mark="amber")) == 0


def test_a_workspace_with_all_of_a_task_is_exact(workspace: Workspace) -> None:
    (task,) = generate_tasks(3, 1, [8])
    for call in task.needed:
        workspace.perform(call)

    judged = judge(task, workspace)

    assert judged.exact
    assert (judged.duplicated, judged.revived, judged.performed) == (0, 0, judged.needed)
    assert not judged.fault


def test_a_payment_that_was_made_twice_is_seen(workspace: Workspace) -> None:
    (task,) = generate_tasks(3, 1, [8])
    paid = next(call for call in task.needed if call.kind is Kind.PAYMENT)
    for call in (*task.needed, paid):
        workspace.perform(call)

    judged = judge(task, workspace)

    assert not judged.exact
    assert (judged.duplicated, judged.right) == (1, judged.needed - 1)
    assert judged.fault == f"doubled: Pay {paid.mark}"


def test_a_cancelled_step_that_was_done_is_seen(workspace: Workspace) -> None:
    (task,) = generate_tasks(3, 1, [8])
    assert task.revision is not None
    for call in (*task.needed, task.revision.cancelled):
        workspace.perform(call)

    judged = judge(task, workspace)

    assert (judged.exact, judged.revived) == (False, 1)
    assert judged.fault == f"not wanted: {format_step(task.revision.cancelled)}"


def test_what_is_missing_is_named_up_to_four(workspace: Workspace) -> None:
    (task,) = generate_tasks(3, 1, [8])

    fault = judge(task, workspace).fault

    assert fault.startswith("missing: Append ")
    assert fault.endswith(f" and {len(task.needed) - 4} more")
    assert fault.count(", ") == 3


def test_a_file_that_was_written_twice_is_a_redone_call_alone(workspace: Workspace) -> None:
    (task,) = generate_tasks(3, 1, [8])
    for call in (*task.needed, task.needed[-1]):
        workspace.perform(call)

    judged = judge(task, workspace)

    assert (judged.exact, judged.performed) == (True, judged.needed + 1)


def test_a_server_that_nobody_ends_keeps_no_process_alive() -> None:
    module = LoopbackServer.__module__
    begun = f"from {module} import LoopbackServer; LoopbackServer().__enter__()"

    subprocess.run((sys.executable, "-c", begun), check=True, timeout=60)
