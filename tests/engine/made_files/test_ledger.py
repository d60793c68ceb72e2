"""The ledger of what a task made, on real files."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import JsonValue

import taskmem_evidence.files
import taskmem_evidence.hooks
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.errors import EvidenceMissing
from openclaw_taskmem.domain.tasks.ledger import FileTouch
from openclaw_taskmem.engine import (
    evidence,
    evidence_checker,
    folder_listings,
    overview,
)
from openclaw_taskmem.engine.context import ReaderAnswer
from openclaw_taskmem.engine.ledger import FileActivity
from taskmem_hookspecs import FileChange, LedgerEntry, Owner
from taskmem_hookspecs.testing import FakeClock
from taskmem_sqlmodel.hooks import task_store
from tests.support.made_files import changes_by_path, complete, session_in, write_fresh
from tests.support.sessions import Session
from tests.support.world import World

MINUTE = 60.0


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's home, which holds the project and the workspace."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


# --- what is found --------------------------------------------------------------


def test_what_tools_report_is_hashed_and_told(session: Session, project: Path) -> None:
    task = session.register()
    write_fresh(project / "src/new.py")
    session.writes(project / "src/new.py")
    answer = complete(session, task)
    assert changes_by_path(answer, project) == {"src/new.py": ("changed", "proved")}
    [entry] = answer["made"]
    assert entry["size"] == len("All is well.")
    assert len(entry["sha256"]) == 64
    [kept] = session.world.store.read_records(LedgerEntry, task)
    assert kept.call_id == f"{session.key}:1"


@pytest.mark.parametrize("git", [False, True])
def test_what_a_command_did_is_found_in_its_folder(
    workspace: Path, project: Path, git: bool
) -> None:
    if git:
        subprocess.run(["git", "init", "-q", str(project)], check=True)  # noqa: S607
        (project / ".gitignore").write_text("*.pyc\n")
    session = session_in(workspace)
    task = session.takes_up()

    def build() -> None:
        (project / "old.log").unlink()
        write_fresh(project / "ignored.pyc")
        write_fresh(project / "build/out.txt")
        write_fresh(project / "src/app.py", "Changed.")

    session.runs_in(project, "make", run=build)
    found = changes_by_path(complete(session, task), project)
    assert found == {
        "build/out.txt": ("created", "proved"),
        "old.log": ("removed", "proved"),
        "src/app.py": ("changed", "proved"),
        **({} if git else {"ignored.pyc": ("created", "proved")}),
    }
    calls = {e.call_id for e in session.world.store.read_records(LedgerEntry, task)}
    assert calls == {f"{session.key}:1"}


def test_where_no_command_ran_nobody_elses_changes_count(session: Session, workspace: Path) -> None:
    task = session.register()
    write_fresh(workspace / "HEARTBEAT.md")
    answer = complete(session, task)
    assert answer["made"] == []
    assert "Nothing was written." in answer["message"]


@pytest.mark.parametrize("change", ["created", "changed"])
def test_a_file_that_a_command_names_is_found_outside_its_folder(
    session: Session, project: Path, tmp_path: Path, change: str
) -> None:
    task, out = session.register(), tmp_path / "elsewhere/out.csv"
    if change == "changed":
        write_fresh(out)
    session.runs_in(project, f"export > {out}", run=lambda: write_fresh(out))
    assert changes_by_path(complete(session, task), tmp_path) == {
        "elsewhere/out.csv": (change, "proved")
    }


@pytest.mark.parametrize(
    "command",
    [
        "cd ~ && echo a > made.txt",
        'cd "$HOME" && echo a > made.txt',
        "echo a > ${HOME}/made.txt",
        "cd .. && echo a > made.txt",
    ],
)
def test_a_file_that_a_command_names_in_the_home_is_found(
    home: Path, session: Session, workspace: Path, command: str
) -> None:
    task = session.register()
    session.runs_in(workspace, command, run=lambda: write_fresh(home / "made.txt"))
    assert changes_by_path(complete(session, task), home) == {"made.txt": ("created", "proved")}
    assert session.lines[-2] == "Deploy: made: ~/made.txt"


def test_a_file_in_the_home_is_found_though_its_command_goes_on(
    home: Path, session: Session, workspace: Path
) -> None:
    task = session.register()
    session.runs_in(workspace, "cd ~ && export > made.txt &", run=lambda: None)
    write_fresh(home / "made.txt")
    assert changes_by_path(complete(session, task), home) == {"made.txt": ("changed", "proved")}


def test_what_a_command_does_to_a_file_of_the_home_is_known(
    home: Path, session: Session, workspace: Path
) -> None:
    for name in ("a.txt", "b.txt"):
        write_fresh(home / name)
    task = session.register()

    def command() -> None:
        write_fresh(home / "a.txt")
        (home / "b.txt").unlink()

    session.runs_in(workspace, "cd ~ && date > a.txt && rm b.txt", run=command)
    assert changes_by_path(complete(session, task), home) == {
        "a.txt": ("changed", "proved"),
        "b.txt": ("removed", "proved"),
    }


def test_a_home_in_which_a_command_runs_is_looked_through(home: Path, session: Session) -> None:
    task = session.register()
    session.runs_in(home, "make -C ~", run=lambda: None)
    assert "Nothing was written." in complete(session, task)["message"]


def test_a_folder_that_is_not_looked_through_is_told(
    home: Path, session: Session, workspace: Path
) -> None:
    task = session.register()
    session.runs_in(workspace, "make -C ~", run=lambda: write_fresh(home / "made.txt"))
    told = "othing was seen to be written (the home folder is not looked through)."
    assert f"N{told}" in complete(session, task)["message"]
    assert session.lines[-1].startswith(f"Deploy: completed; n{told}")


def test_only_workspace_files_are_listed_without_their_folder(
    home: Path, session: Session, workspace: Path, project: Path
) -> None:
    task = session.register()
    for folder in (project, workspace):
        made_there = folder / "made.txt"
        session.runs_in(folder, "make", run=lambda made=made_there: write_fresh(made))
    complete(session, task)
    assert session.lines[-2] == "Deploy: made: ~/project/made.txt, made.txt"


def test_a_long_path_is_told_with_its_end(session: Session, project: Path) -> None:
    task = session.register()
    session.writes(project / f"{'long' * 20}/made.txt")
    complete(session, task)
    assert session.lines[-2].endswith("longlong/made.txt")


def test_the_hosts_own_memory_is_not_told_as_made(session: Session, workspace: Path) -> None:
    subprocess.run(["git", "init", "-q", str(workspace)], check=True)  # noqa: S607
    task, corpus = session.register(), workspace / "memory/.dreams/corpus/day.txt"
    session.runs_in(workspace, "make", run=lambda: write_fresh(corpus))
    assert complete(session, task)["made"] == []


def test_what_was_made_and_is_gone_is_told_where_nothing_is_left(
    home: Path, session: Session, project: Path
) -> None:
    task = session.register(plan=["Write draft.md, then convert it"])
    session.writes(project / "draft.md")
    session.runs_in(project, "rm draft.md", run=(project / "draft.md").unlink)
    answer = complete(session, task)
    assert changes_by_path(answer, project) == {"draft.md": ("created", "absent")}
    assert answer["unverified"] == []
    assert session.lines[-2].startswith("Deploy: made and removed again: ~/project/draft.md")


def test_scratch_files_are_not_told(home: Path, session: Session, project: Path) -> None:
    task = session.register()
    session.writes(project / "draft.md")
    session.runs_in(project, "pandoc", run=lambda: write_fresh(project / "final.pdf"))
    session.runs_in(project, "rm draft.md", run=(project / "draft.md").unlink)
    complete(session, task)
    assert session.lines[-2].endswith(": made: ~/project/final.pdf")


@pytest.mark.parametrize("command", ["cd ../project && make -C src", "cd ~ && make -C project"])
@pytest.mark.usefixtures("home")
def test_a_folder_that_a_command_names_is_looked_at(
    session: Session, workspace: Path, project: Path, command: str
) -> None:
    task = session.register()
    session.runs_in(workspace, command, run=lambda: write_fresh(project / "src/a.o"))
    assert changes_by_path(complete(session, task), project) == {"src/a.o": ("created", "proved")}


def test_a_folder_whose_name_is_quoted_is_looked_at(
    session: Session, workspace: Path, project: Path
) -> None:
    (project / "my app").mkdir()
    task, command = session.register(), "cd '../project/my app' && make"
    made_there = project / "my app/a.o"
    session.runs_in(workspace, command, run=lambda: write_fresh(made_there))
    assert changes_by_path(complete(session, task), project) == {
        "my app/a.o": ("created", "proved")
    }


def test_what_is_unpacked_with_an_old_time_is_new(session: Session, project: Path) -> None:
    task = session.register()

    def unpack() -> None:
        write_fresh(project.parent / "earlier")  # What is born next is born after `since`.
        (project / "old.csv").write_text("New.")
        os.utime(project / "old.csv", (0, 0))

    session.runs_in(project, "tar xf data.tar", run=unpack)
    assert changes_by_path(complete(session, task), project) == {"old.csv": ("created", "proved")}


def test_a_folder_that_holds_others_is_not_looked_at_by_name(
    session: Session, workspace: Path
) -> None:
    task, above = session.register(), workspace.parent
    session.runs_in(workspace, f"ls {above}", run=lambda: write_fresh(above / "a.txt"))
    assert complete(session, task)["made"] == []


def test_what_git_ignores_is_found_where_nothing_else_was_made(
    workspace: Path, project: Path
) -> None:
    subprocess.run(["git", "init", "-q", str(project)], check=True)  # noqa: S607
    (project / ".gitignore").write_text("dist/\n")
    session = session_in(workspace)
    task = session.takes_up()
    session.runs_in(project, "make", run=lambda: write_fresh(project / "dist/app.bin"))
    answer = complete(session, task)
    assert changes_by_path(answer, project) == {"dist/app.bin": ("created", "proved")}


def test_a_file_whose_name_is_no_text_is_not_told_as_removed(
    session: Session, project: Path
) -> None:
    task, odd = session.register(), Path(os.fsdecode(bytes(project) + b"/\xff.txt"))
    session.runs_in(project, "make", run=lambda: write_fresh(odd))
    answer = complete(session, task)
    assert answer["made"] == []
    assert [each["what"] for each in answer["unverified"]] == [str(project)]


def test_the_ledger_survives_a_restart(workspace: Path, project: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'taskmem.db'}"
    first = session_in(workspace, task_store(url))
    task = first.takes_up()
    first.runs_in(project, "rm old.log", run=(project / "old.log").unlink)
    first.writes(project / "a.md")
    first.world.store.close()

    again = Session(
        World(
            task_store(url),
            first.world.clock,
            plugins=[("evidence", taskmem_evidence.hooks)],
            artifact_roots=(str(tmp_path),),
        ),
        folder=str(workspace),
    )
    assert changes_by_path(complete(again, task), project) == {
        "a.md": ("created", "proved"),
        "old.log": ("removed", "proved"),
    }
    again.world.store.close()


def test_beyond_the_limits_is_told_as_not_verified(
    session: Session, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_listings, "MOST_FILES", 5)
    monkeypatch.setattr(evidence_checker, "HASHED_FILES", 2)
    task = session.register()

    def build() -> None:
        for number in range(4):
            write_fresh(project / f"{number}.txt")

    session.runs_in(project, "make", run=build)
    answer = complete(session, task)
    whys = {each["what"]: each["why"] for each in answer["unverified"]}
    assert "more files than are looked at" in whys[str(project)]
    assert "this one was not read" in whys[str(project / "3.txt")]


def test_an_answer_holds_so_many_files_and_show_holds_all(session: Session, project: Path) -> None:
    task = session.register()
    for number in range(60):
        session.writes(project / f"{number}.txt")
    answer = complete(session, task)
    assert (len(answer["made"]), answer["made_more"]) == (50, 10)
    assert len(session.world.store.read_records(LedgerEntry, task)) == 60
    assert " and 55 more" in session.lines[-2]


def test_what_an_agent_says_of_its_work_is_told_as_its_words(session: Session) -> None:
    complete(session, session.register(), "Wrote it.")
    line = 'Deploy: completed; nothing was written. Its agent says: "Wrote it."'
    assert session.lines[-1] == line


@pytest.mark.parametrize(
    "named",
    ["`made/a.md`", "made/a.md:12", "[it](made/a.md)", "made/", "made/*.md", "made/a.md, x.md"],
)
def test_an_artifact_counts_as_made_however_it_is_named(
    session: Session, workspace: Path, named: str
) -> None:
    owner = Owner(role="agent", process="1:1")
    relay = Caller(process="1:1", owner=owner, folder=str(workspace))
    task = session.world.register(caller=relay)
    for name in ("made/a.md", "x.md"):
        write_fresh(workspace / name)
    given = {"task_id": task, "status": "completed", "artifacts": [named]}
    answer = session.world.call("task_update", relay, **given)
    assert changes_by_path(answer, workspace)["made/a.md"] == ("created", "proved")
    assert set(changes_by_path(answer, workspace)) <= {"made/a.md", "x.md"}
    assert answer["unverified"] == []


# --- what cannot be proved ------------------------------------------------------


def test_what_cannot_be_proved_completes_and_is_told(session: Session, tmp_path: Path) -> None:
    touch = FileTouch(path="/sandbox/a.md", change=FileChange.CREATED)
    gone = FileTouch(path=str(tmp_path / "gone.md"), change=FileChange.CREATED)
    names = ["s3://bucket/b.csv", "web:/srv/c.md", "/sandbox/a.md"]
    task = session.register(metadata={"artifacts": names})
    session.does("write", tool="write", deed=FileActivity(touched=(touch, gone)))
    answer = complete(session, task, "See ~/nowhere/d.md and web:/srv/e.md")
    assert {each["what"] for each in answer["unverified"]} == {
        *names,
        str(tmp_path / "gone.md"),
        "~/nowhere/d.md",
        "web:/srv/e.md",
    }
    assert any("not verified: " in line for line in session.lines)
    assert not any("nothing was written" in line for line in session.lines)


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("Removed the old config.yaml as asked.", ["config.yaml"]),
        ("Renamed utils.js to helpers.js on the server.", ["utils.js", "helpers.js"]),
        ("There is no package.json in this repository.", ["package.json"]),
        ("Deleted build.log and tmp.txt.", ["build.log", "tmp.txt"]),
        ("Sent report.pdf by mail to the client.", ["report.pdf"]),
        ("The error came from src/index.ts:42, in the other repository.", ["src/index.ts"]),
        ("Deployed web:/srv/app.jar; see https://acme.example/a.html.", ["web:/srv/app.jar"]),
        ("Moved ~/Downloads/invoice.pdf to the archive.", ["~/Downloads/invoice.pdf"]),
    ],
)
def test_a_name_in_a_message_is_told_and_refuses_nothing(
    session: Session, message: str, told: list[str]
) -> None:
    answer = complete(session, session.register(), message)
    assert answer["status"] == "completed"
    assert [each["what"] for each in answer["unverified"]] == told


# --- refusals -------------------------------------------------------------------


def test_a_refused_completion_keeps_message_and_marks(session: Session) -> None:
    task = session.register(plan=["Write report.md", "Send it"])
    with pytest.raises(EvidenceMissing, match=r'"report\.md" is named'):
        session.call(
            "task_update",
            task_id=task,
            status="completed",
            message="Written.",
            completed_steps=[1, 2],
        )
    after = session.world.task(task)
    assert (after.status, after.done, after.doubts) == ("active", {0, 1}, ("names",))
    assert "Written." in [said for _, _, said in session.world.thread(task)]


def test_a_refused_completion_keeps_what_all_done_marks(session: Session) -> None:
    task = session.register(plan=["Write report.md", "Send it"])
    kept = r"Your message was kept\. 2 steps were marked done \(1-2\)\.$"
    with pytest.raises(EvidenceMissing, match=kept):
        complete(session, task, "All done.")
    assert session.world.task(task).done == {0, 1}


def test_a_refused_call_claims_to_keep_only_what_it_did(session: Session) -> None:
    missing = {"artifacts": ["report.md"]}
    task = session.register(plan=["Write", "Send"], metadata=missing)
    asked = {"task_id": task, "status": "completed"}
    with pytest.raises(EvidenceMissing, match=r"task_plan_update \(artifacts\)\.$"):
        session.call("task_update", **asked)
    with pytest.raises(EvidenceMissing, match=r"\(artifacts\)\. 1 step was marked done \(2\)\.$"):
        session.call("task_update", **asked, completed_steps=[2])
    with pytest.raises(EvidenceMissing, match=r"\(artifacts\)\. 1 step was reopened \(2\)\.$"):
        session.call("task_update", **asked, reopened_steps=[2])


def test_an_agent_finds_out_later_why_it_was_refused(session: Session, workspace: Path) -> None:
    task = session.register(plan=["Write"], metadata={"artifacts": ["report.md"]})
    with pytest.raises(EvidenceMissing):
        complete(session, task, "All done.")

    answer = session.call("task_update", task_id=task, query="Why is it not completed?")
    assert f"Not completed: There is no file {workspace}/report.md" in answer["summary"]
    assert "No blockers" not in answer["summary"]
    status = session.call("task_status", task_id=task)
    for told in (answer["message"], status["message"]):
        assert told.count("Not completed: ") == 1
        assert 'Then set status "completed" again.' in told
    assert session.world.task(task).message_count == len(session.world.thread(task))

    (workspace / "report.md").write_text("All is well.")
    complete(session, task, "It is there now.")
    answer = session.call("task_update", task_id=task, query="Why is it not completed?")
    assert "Not completed" not in answer["summary"]


def test_a_query_of_an_ended_task_says_what_it_made(session: Session, workspace: Path) -> None:
    task = session.register(plan=["Write report.md"])
    session.writes(workspace / "report.md")
    asked = {"task_id": task, "query": "what was made?"}
    assert "made" not in session.call("task_update", **asked)
    made = complete(session, task)["made"]

    assert [each["path"] for each in made] == [str(workspace / "report.md")]
    answer = session.call("task_update", **asked)
    assert (answer["made"], answer["unverified"]) == (made, [])


def test_other_updates_are_never_held_up(session: Session) -> None:
    task = session.register(plan=["Write report.md"], metadata={"artifacts": ["report.md"]})
    for status in ("paused", "active", "failed"):
        answer = session.call("task_update", task_id=task, status=status)
        assert answer["status"] == status
        assert "made" not in answer


def session_with_reader(
    workspace: Path, answer: Mapping[str, JsonValue] | None
) -> tuple[Session, list[tuple[str, ...]]]:
    """A session with a reader who says the same of every text, and what it is asked."""
    asked: list[tuple[str, ...]] = []

    def ask(*question: str) -> ReaderAnswer | None:
        asked.append(question[:2])
        return None if answer is None else ReaderAnswer(answer, "scripted")

    session = session_in(workspace, ask_reader=ask)
    session.begins()
    return session, asked


def test_empty_ledger_is_refused_once_if_a_reader_sees_a_claim(workspace: Path) -> None:
    session, asked = session_with_reader(workspace, {"made": True, "decoy": False})
    task = session.register(plan=["Den Bericht schreiben"])
    with pytest.raises(EvidenceMissing, match="no tool was seen to write anything"):
        complete(session, task, "Der Bericht ist fertig.")
    assert complete(session, task, "Er ist da.")["status"] == "completed"
    [(instruction, text)] = asked
    assert "Der Bericht ist fertig." in text
    assert "Den Bericht schreiben" in text
    assert "Der Bericht" not in instruction
    assert session.lines[-1].startswith("Deploy: completed; nothing was written")


@pytest.mark.parametrize(
    "answer",
    [None, {}, {"made": False, "decoy": False}, {"made": True, "decoy": True}, {"made": "yes"}],
)
def test_without_a_reader_who_is_sure_it_completes_and_is_told(
    workspace: Path, answer: Mapping[str, JsonValue] | None
) -> None:
    session, _ = session_with_reader(workspace, answer)
    task = session.register(plan=["Den Bericht schreiben"])
    assert complete(session, task)["status"] == "completed"
    assert session.lines[-1].startswith("Deploy: completed; nothing was written")


def test_nobody_is_asked_where_anything_was_made(workspace: Path) -> None:
    session, asked = session_with_reader(workspace, {"made": True, "decoy": False})
    task = session.register()
    session.writes(workspace / "a.md")
    assert complete(session, task)["status"] == "completed"
    assert asked == []


@pytest.mark.parametrize("ignored", [False, True])
def test_a_name_is_looked_up_wherever_it_may_lie(
    session: Session, project: Path, ignored: bool
) -> None:
    if ignored:
        subprocess.run(["git", "init", "-q", str(project)], check=True)  # noqa: S607
        (project / ".gitignore").write_text("dist/\n")
    write_fresh(project / "dist/deep/app.js")
    task = session.register()
    session.writes(project / "a.md")
    assert complete(session, task, "It is in deep/app.js.")["unverified"] == []


def test_a_removed_file_that_a_command_names_needs_no_listing(
    session: Session, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = session.register()
    monkeypatch.setattr(folder_listings, "list_names", lambda _: None)
    session.runs_in(project, "rm old.log", run=(project / "old.log").unlink)
    answer = complete(session, task, "I removed old.log.")
    assert changes_by_path(answer, project) == {"old.log": ("removed", "proved")}


def test_what_a_command_named_that_ended_well_is_not_asked_about(
    session: Session, project: Path
) -> None:
    task = session.register(plan=["Write out.md"])
    session.writes(project / "a.md")
    session.runs_in(project, "ssh web 'make > /srv/out.md'", run=lambda: None)
    session.does("cat never.log", "No such file", ok=False)
    answer = complete(session, task)
    assert [each["what"] for each in answer["unverified"]] == ["out.md"]
    session.ends("And never.log is there.")
    assert "never.log" in session.lines[-1]


def test_where_not_all_could_be_searched_nobody_is_asked(
    session: Session, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = session.register(plan=["Write report.md"])
    session.writes(project / "a.md")
    monkeypatch.setattr(folder_listings, "LIST_SECONDS", -1.0)
    answer = complete(session, task)
    assert "report.md" in {each["what"] for each in answer["unverified"]}


# --- after the completion -----------------------------------------------------------


def test_what_the_first_answer_names_is_looked_up_once(session: Session, workspace: Path) -> None:
    task = session.register()
    session.writes(workspace / "a.md")
    complete(session, task)
    session.ends("It is in a.md and in notes/b.md.")
    session.ends("And in c.md.")
    doubts = [line for line in session.lines if line.startswith("Deploy: not verified")]
    assert doubts == ["Deploy: not verified: notes/b.md"]
    assert session.world.deliver() == []


def test_what_was_asked_about_is_not_told_again(session: Session) -> None:
    task = session.register(plan=["Write report.md"])
    with pytest.raises(EvidenceMissing):
        complete(session, task)
    complete(session, task)
    session.ends("Saved report.md.")
    doubts = [line for line in session.lines if "report.md" in line]
    assert doubts == [
        'Deploy: not completed yet. "report.md" is found nowhere.',
        "Deploy: not verified: report.md",
    ]


def test_what_ends_within_a_minute_is_added(home: Path, workspace: Path, project: Path) -> None:
    session = session_in(workspace)
    waiting: list[tuple[float, Callable[[], None]]] = []
    keep = lambda seconds, work: waiting.append((seconds, work))  # noqa: E731
    object.__setattr__(session.world.context, "run_later", keep)
    task = session.takes_up()
    session.calls("make", deed=FileActivity(folders=(str(project),), command=True))
    complete(session, task)
    assert session.lines[-1].startswith("Deploy: completed; nothing was written")

    write_fresh(project / "late.txt")
    session.world.clock.tick(MINUTE)
    for _, work in waiting:
        work()
    assert waiting[-1][0] == evidence.LATE_LOOK_DELAY_SECONDS
    assert session.lines[-1] == "Deploy: made: ~/project/late.txt"


def test_what_changes_after_the_completion_is_of_no_task(workspace: Path, project: Path) -> None:
    session = session_in(workspace)
    waiting: list[Callable[[], None]] = []
    object.__setattr__(session.world.context, "run_later", lambda _, work: waiting.append(work))
    task = session.takes_up()
    session.runs_in(project, "make", run=lambda: write_fresh(project / "app.bin"))
    complete(session, task)
    before = session.world.store.read_records(LedgerEntry, task)

    write_fresh(project / "next.txt")
    session.world.clock.tick(MINUTE)
    for work in waiting:
        work()
    assert session.world.store.read_records(LedgerEntry, task) == before


def test_what_is_handed_to_the_user_is_checked(session: Session, project: Path) -> None:
    task = session.register()
    write_fresh(project / "src/new.py")
    session.writes(project / "src/new.py")
    session.call("task_handoff", task_id=task, note="Please read\nit.")
    line = overview.read_line(session.world.context, task)
    assert (line.made, line.note) == ("made new.py, seen to exist", "Please read\nit.")
    assert line.says == "is to be reviewed: Please read it."


def test_what_the_next_task_makes_is_not_the_last_ones(workspace: Path, project: Path) -> None:
    session = session_in(workspace)
    waiting: list[Callable[[], None]] = []
    object.__setattr__(session.world.context, "run_later", lambda _, work: waiting.append(work))
    task = session.takes_up()
    session.runs_in(project, "true", run=lambda: None)
    complete(session, task)
    session.world.clock.tick(1)
    session.register(name="Next")
    write_fresh(project / "next.txt")
    for work in waiting:
        work()
    assert not any(": made: " in line for line in session.lines)


# --- hosts without hooks -------------------------------------------------------------


def test_without_hooks_the_relays_folder_is_looked_at(session: Session, project: Path) -> None:
    world = session.world
    relay = Caller(folder=str(project))
    tasks_ = [
        world.call("task_register", relay, name=name, plan=["Write report.md"])
        for name in ("One", "Two")
    ]
    write_fresh(project / "report.md")
    (project / "old.log").unlink()
    for each in tasks_:  # two that share a folder are both told
        given = {"task_id": each["task_id"], "status": "completed"}
        answer = world.call("task_update", relay, **given)
        assert changes_by_path(answer, project) == {"report.md": ("created", "proved")}
        gone = {"path": str(project / "old.log"), "change": "removed"}
        assert answer["also_changed"] == [gone]


def test_an_agents_own_folder_is_looked_at_wherever_it_lies(project: Path, tmp_path: Path) -> None:
    elsewhere = World(
        clock=FakeClock(datetime.now(UTC) + timedelta(milliseconds=11)),
        plugins=[("evidence", taskmem_evidence.hooks)],
        artifact_roots=(str(tmp_path / "home"),),
    )
    relay = Caller(folder=str(project))
    task = elsewhere.call("task_register", relay, name="One", plan=["Write it"])
    write_fresh(project / "report.md")
    (project / "old.log").unlink()
    said = "Wrote report.md, and removed ./old.log."
    given = {"task_id": task["task_id"], "status": "completed", "message": said}
    answer = elsewhere.call("task_update", relay, **given)
    assert changes_by_path(answer, project) == {
        "old.log": ("removed", "proved"),
        "report.md": ("created", "proved"),
    }
    assert answer["unverified"] == []


def test_without_any_folder_nothing_is_said_of_what_was_made(session: Session) -> None:
    task = session.world.register(plan=["Think"])
    answer = session.world.call("task_update", task_id=task, status="completed")
    assert (answer["made"], answer["unverified"]) == ([], [])
    assert "othing was written" not in answer["message"]


def test_a_completion_that_is_refused_tells_once_what_is_missing(
    session: Session, project: Path
) -> None:
    missing = str(project / "report.md")
    task = session.register(metadata={"artifacts": [missing]})
    for _ in range(2):
        with pytest.raises(EvidenceMissing):
            complete(session, task)
    [line] = [line for line in session.lines if "not completed yet" in line]
    assert missing in line
    assert task not in line


# --- where nobody sees what tools write -------------------------------------------


@pytest.mark.parametrize("claims", [True, False])
def test_unseen_tools_are_not_said_to_have_written_nothing(
    session: Session, workspace: Path, claims: bool
) -> None:
    owner = Owner(role="agent", process="1:1")
    relay = Caller(process="1:1", owner=owner, folder=str(workspace))
    task = session.world.register(caller=relay, plan=["Write a.md"])
    if claims:
        session.world.call("task_claim", relay, task_id=task)
    given = {"task_id": task, "status": "completed", "message": "Wrote it."}

    said = "not among what was seen to be made, and not in the folders of this work"
    with pytest.raises(EvidenceMissing, match=said):
        session.world.call("task_update", relay, **given)
    answer = session.world.call("task_update", relay, **given)

    assert f"Nothing was seen to be written in {workspace}." in answer["message"]
