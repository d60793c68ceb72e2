"""Folders in which an agent works, and its session."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.made_files import session_in
from tests.support.sessions import Session


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder outside the workspace; what is in it is old by then."""
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    for name in ("README.md", "old.log", "src/app.py"):
        (folder / name).write_text("Of last week.")
    return folder


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    made = tmp_path / "workspace"
    made.mkdir()
    return made


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's home, which holds the project and the workspace."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def session(workspace: Path, project: Path) -> Session:
    session = session_in(workspace)
    session.begins()
    return session
