"""Files that only changed in a folder of a task, and whose they are."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.errors import EvidenceMissing
from openclaw_taskmem.engine.overview import read_line
from taskmem_hookspecs import LedgerEntry
from tests.support.made_files import (
    changes_by_path,
    complete,
    make_beside,
    session_in,
    write_fresh,
)
from tests.support.sessions import Session


def test_what_somebody_else_changed_is_listed_apart(session: Session, project: Path) -> None:
    task = make_beside(session, project)

    answer = complete(session, task)

    assert changes_by_path(answer, project) == {"app.bin": ("created", "proved")}
    other = str(project / "diary/today.md")
    assert answer["also_changed"] == [{"path": other, "change": "created"}]
    assert "Also changed in its folders meanwhile, and named by nobody: …" in answer["message"]
    line = read_line(session.world.context, task)
    assert line.made == "made app.bin, seen to exist"
    assert "today.md" not in line.checked
    assert not any("today.md" in line for line in session.lines)


@pytest.mark.parametrize("tool", ["write", "Edit", "apply_patch"])
def test_a_call_that_names_its_file_made_no_other(
    session: Session, project: Path, tool: str
) -> None:
    task, page, log = session.register(), project / "page.html", project / "build.log"
    session.runs_in(project, "true")
    session.world.clock.tick(1)
    write_fresh(log)
    session.writes(page, tool=tool)

    answer = complete(session, task)

    assert changes_by_path(answer, project) == {"page.html": ("created", "proved")}
    assert [each["path"] for each in answer["also_changed"]] == [str(log)]


@pytest.fixture(params=[700, -700])
def session_apart(request: pytest.FixtureRequest, workspace: Path, project: Path) -> Session:
    """A session on a machine whose clock is ahead of, or behind, that of the database."""
    lead = timedelta(seconds=request.param)
    session = session_in(workspace, measure_lead=lambda: lead)
    session.world.clock.jump(-request.param)
    session.begins()
    return session


def test_who_made_a_file_is_known_whatever_the_clock(session_apart: Session, project: Path) -> None:
    task = make_beside(session_apart, project)

    answer = complete(session_apart, task)

    assert changes_by_path(answer, project) == {"app.bin": ("created", "proved")}
    assert [each["path"] for each in answer["also_changed"]] == [str(project / "diary/today.md")]


def test_what_is_claimed_is_judged_by_the_machines_clock(
    session_apart: Session, workspace: Path, project: Path
) -> None:
    task, new = session_apart.register(), workspace / "new.txt"
    write_fresh(new)
    with pytest.raises(EvidenceMissing, match=r"old\.log"):
        session_apart.call(
            "task_update",
            task_id=task,
            status="completed",
            message="Done.",
            artifacts=[str(project / "old.log"), str(new)],
        )
    answer = session_apart.call(
        "task_update", task_id=task, status="completed", message="Done.", artifacts=[str(new)]
    )
    assert changes_by_path(answer, workspace) == {"new.txt": ("created", "proved")}


def test_of_named_files_those_that_are_written_count_at_once(
    session_apart: Session, project: Path, tmp_path: Path
) -> None:
    task, out = session_apart.register(), tmp_path / "elsewhere/out.csv"
    command = f"cp {project}/old.log {out}"
    session_apart.runs_in(project, command, run=lambda: write_fresh(out))
    kept = session_apart.world.store.read_records(LedgerEntry, task)
    assert [each.path for each in kept] == [str(out)]


def test_what_the_host_puts_into_its_folder_is_not_told(session: Session, workspace: Path) -> None:
    task = session.register()
    session.runs_in(workspace, "true")
    for name in ("AGENTS.md", "BOOTSTRAP.md", "notes.md", "docs/USER.md"):
        write_fresh(workspace / name)
    told = [each["path"] for each in complete(session, task)["also_changed"]]
    assert told == [str(workspace / name) for name in ("docs/USER.md", "notes.md")]


def test_what_the_host_removes_from_its_folder_is_not_told(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    for name in ("BOOTSTRAP.md", "old.md"):
        write_fresh(workspace / name)
    session = session_in(workspace)
    task = session.takes_up()
    session.runs_in(workspace, "true", run=lambda: write_fresh(workspace / "IDENTITY.md"))
    for name in ("BOOTSTRAP.md", "old.md"):
        (workspace / name).unlink()
    answer = complete(session, task)
    assert changes_by_path(answer, workspace) == {"old.md": ("removed", "proved")}


@pytest.mark.parametrize("name", ["today.md", "./diary/today.md", "{project}/diary/today.md"])
@pytest.mark.parametrize("where", ["now", "earlier", "artifacts"])
def test_what_the_agent_names_is_its_own(
    session: Session, project: Path, name: str, where: str
) -> None:
    task = make_beside(session, project)
    name = name.format(project=project)
    if where == "earlier":
        session.call("task_update", task_id=task, message=f"Wrote {name}")
    given = {"artifacts": [name]} if where == "artifacts" else {}
    said = f"Wrote {name}." if where == "now" else "Done."

    answer = session.call("task_update", task_id=task, status="completed", message=said, **given)

    assert sorted(changes_by_path(answer, project)) == ["app.bin", "diary/today.md"]


def test_a_folder_that_the_agent_names_is_its_own(session: Session, project: Path) -> None:
    task = make_beside(session, project)
    answer = complete(session, task, f"Everything is in {project}/diary")
    assert sorted(changes_by_path(answer, project)) == ["app.bin", "diary/today.md"]


def test_who_names_the_whole_folder_names_no_file_of_it(session: Session, project: Path) -> None:
    task = make_beside(session, project)
    answer = complete(session, task, f"I worked in {project}")
    assert sorted(changes_by_path(answer, project)) == ["app.bin"]


def test_where_nothing_else_was_made_what_changed_is_said(session: Session, project: Path) -> None:
    relay = Caller(folder=str(project))
    made = session.world.call("task_register", relay, name="One", plan=["Write it"])
    write_fresh(project / "diary.md")
    given = {"task_id": made["task_id"], "status": "completed"}
    assert session.world.call("task_update", relay, **given)["made"] == []
    line = read_line(session.world.context, str(made["task_id"]))
    assert (line.made, line.checked) == (
        "nothing was seen to be made; also changed in its folders meanwhile: diary.md",
        "",
    )
