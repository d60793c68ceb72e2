"""What a person accepts and approves, with the files that it is about."""

from __future__ import annotations

from pathlib import Path

import pytest

import taskmem_evidence.files
from openclaw_taskmem.domain.errors import EvidenceMissing
from openclaw_taskmem.domain.views.user_actions import ActRequest, UserAction
from openclaw_taskmem.engine import user_actions
from openclaw_taskmem.engine.overview import read_line
from taskmem_hookspecs import EventQuery
from taskmem_hookspecs.errors import InvalidArguments, NotAllowed
from tests.support.made_files import (
    complete,
    make_beside,
    write_fresh,
)
from tests.support.sessions import Session

# --- a person overrules -----------------------------------------------------------


def test_a_person_accepts_what_was_refused(session: Session) -> None:
    task = session.register(metadata={"artifacts": ["report.md"]})
    with pytest.raises(EvidenceMissing):
        complete(session, task)
    context = session.world.context
    request = ActRequest(action=UserAction.ACCEPT, words="I have it on paper.", process="7:1")
    user_actions.act_on_task(context, task, request)
    assert session.world.task(task).status == "completed"
    said = "Deploy: completed; nothing was written. I have it on paper."
    assert session.lines[-1] == said
    [event] = [e for e in session.world.store.find_events(EventQuery()) if "accepted" in e.kind]
    assert event.data == {
        "because": "I have it on paper.",
        "process": "7:1",
        "refused_for": ["artifacts"],
    }
    for tool, given in (("task_update", {"query": "What was made?"}), ("task_status", {})):
        answer = session.call(tool, task_id=task, **given)
        assert (answer["made"], [each["what"] for each in answer["unverified"]]) == (
            [],
            ["report.md"],
        )
    with pytest.raises(NotAllowed, match="is completed now, so you cannot accept it"):
        user_actions.act_on_task(context, task, request)


def test_only_what_was_refused_is_accepted(session: Session) -> None:
    task = session.register()
    request = ActRequest(action=UserAction.ACCEPT)
    with pytest.raises(NotAllowed, match="you cannot accept it; you can: reset, pause, cancel"):
        user_actions.act_on_task(session.world.context, task, request)


# --- a person reviews -------------------------------------------------------------


@pytest.fixture
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that may not be looked at, with a file."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "report.md").write_text("Of somebody else.")
    return folder


def approve(session: Session, task: str, files_id: str | None) -> str:
    request = ActRequest(action=UserAction.APPROVE, files_id=files_id)
    return user_actions.act_on_task(session.world.context, task, request)


def hand_to_user(session: Session, file: Path) -> tuple[str, str | None]:
    """Make a file, and hand it to the user; the task, and the id of what they are shown."""
    task = session.register()
    session.writes(file)
    session.call("task_handoff", task_id=task)
    return task, read_line(session.world.context, task).files_id


def test_a_file_that_was_replaced_is_not_approved(session: Session, workspace: Path) -> None:
    task, shown = hand_to_user(session, workspace / "report.md")
    write_fresh(workspace / "report.md", "Another text.")

    with pytest.raises(NotAllowed, match=r"verified: report.md \(now sha256 .* taskmem show task_"):
        approve(session, task, shown)

    assert session.run(task).state == "review"
    with pytest.raises(InvalidArguments, match="You were not shown what"):
        approve(session, task, shown)
    again = read_line(session.world.context, task).files_id
    assert approve(session, task, again) == '"Deploy": approved, and completed.'


def test_a_file_that_is_gone_is_not_approved(session: Session, workspace: Path) -> None:
    task, shown = hand_to_user(session, workspace / "report.md")
    (workspace / "report.md").unlink()

    with pytest.raises(NotAllowed, match=r"report.md \(now gone or empty\)"):
        approve(session, task, shown)


@pytest.mark.parametrize("how", ["link", "folder", "too large"])
def test_a_file_that_cannot_be_verified_now_is_not_approved(
    how: str, session: Session, workspace: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = workspace / "out" / "report.md"
    file.parent.mkdir()
    task, shown = hand_to_user(session, file)
    if how == "link":
        file.unlink()
        file.symlink_to(outside / "report.md")
    elif how == "folder":
        file.parent.rename(workspace / "before")
        file.parent.symlink_to(outside)
    else:
        write_fresh(file, "Another text.")
        monkeypatch.setattr(taskmem_evidence.files, "HASHING_SECONDS", -1)
        monkeypatch.setattr(taskmem_evidence.files, "_CHUNK", 1)

    refusal = rf"{file} \(not verified now: .+\)\. Look at them with taskmem show {task}"
    with pytest.raises(NotAllowed, match=refusal):
        approve(session, task, shown)

    assert session.run(task).state == "review"
    with pytest.raises(InvalidArguments, match="You were not shown what"):
        approve(session, task, shown)
    again = read_line(session.world.context, task).files_id
    assert approve(session, task, again) == '"Deploy": approved, and completed.'


def test_who_was_shown_no_files_approves_none(session: Session, workspace: Path) -> None:
    task, shown = hand_to_user(session, workspace / "report.md")
    with pytest.raises(InvalidArguments, match="You were not shown what"):
        approve(session, task, None)
    assert approve(session, task, shown) == '"Deploy": approved, and completed.'


def test_what_somebody_else_changes_holds_no_approval_back(session: Session, project: Path) -> None:
    task = make_beside(session, project)
    session.call("task_handoff", task_id=task)
    shown = read_line(session.world.context, task).files_id
    write_fresh(project / "diary/today.md", "Another text.")

    assert approve(session, task, shown) == '"Deploy": approved, and completed.'
    assert read_line(session.world.context, task).judged == "you approved the content"
