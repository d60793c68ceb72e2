"""What the tests of ResumeBench share."""

from __future__ import annotations

import pytest

from taskmem_resumebench.generated_task import GeneratedTask, generate_tasks


@pytest.fixture
def task() -> GeneratedTask:
    """The first task of six steps."""
    (task,) = generate_tasks(1, 1, [6])
    return task
