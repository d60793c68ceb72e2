"""What the tests of ResumeBench share."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskmem_resumebench.tasks import GeneratedTask, generate_tasks


@pytest.fixture(autouse=True)
def _isolate_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep tests from the user's own home, whatever they forget to say."""
    monkeypatch.setenv("TASKMEM_HOME", str(tmp_path / "home"))


@pytest.fixture
def task() -> GeneratedTask:
    """The first task of six steps."""
    (task,) = generate_tasks(1, 1, [6])
    return task
