"""The command line, through its front door, on a daemon of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner

from openclaw_taskmem.cli import list_commands, task_commands, task_text
from openclaw_taskmem.cli.command_line import cli
from openclaw_taskmem.cli.command_output import HOSTS
from openclaw_taskmem.cli.tables import Table
from openclaw_taskmem.daemon.snapshots import SnapshotMoment, SnapshotStore
from tests.support.printed_lists import DONE, OVERVIEW

COMMANDS = sorted(cli.commands)


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tm-") as folder:
        yield Path(folder)
        taskmem(Path(folder), "daemon", "stop")


def taskmem(home: Path, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("TASKMEM_")}
    return subprocess.run(
        [sys.executable, "-m", "openclaw_taskmem", *words],
        env=clean | {"TASKMEM_HOME": str(home), "TASKMEM_WAKE_TRANSPORT": "stdout"} | settings,
        capture_output=True,
        text=True,
        check=False,
    )


def document(home: Path, *words: str) -> Any:
    run = taskmem(home, *words)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_a_long_thread_is_shown_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {None: ([5, 6], 5), 5: ([3, 4], 3), 3: ([1, 2], None)}

    def ask(method: str, *, before: int | None = None, **_: object) -> dict[str, object]:
        numbers, earlier = pages[before]
        return {"messages": [*numbers], "earlier": earlier, "line": {"question_id": None}}

    monkeypatch.setattr(task_commands, "call_daemon", ask)
    monkeypatch.setattr(task_commands, "find_reference", lambda *_: ("task", "task_1"))

    run = CliRunner().invoke(cli, ["show", "task_1", "--json"])

    assert json.loads(run.output)["messages"] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        (["--json", "settings"], ["settings", "--json"]),
        (["--json", "record", "status"], ["record", "status", "--json"]),
    ],
)
def test_json_before_a_command_is_as_behind_it(
    before: list[str], behind: list[str], home: Path
) -> None:
    assert document(home, *before) == document(home, *behind)


@pytest.mark.parametrize("words", [["demo"], ["record", "on"], ["call", "task_list"]])
def test_json_before_a_command_without_it_is_refused(words: list[str]) -> None:
    run = CliRunner().invoke(cli, ["--json", *words])
    assert run.exit_code == 2
    assert "No such option '--json'" in run.output


@pytest.mark.usefixtures("own_commands")
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_command_explains_itself(command: str, text_snapshot: Any) -> None:
    words = [command, "--help"] if command else ["--help"]

    run = CliRunner().invoke(cli, words, prog_name="taskmem", terminal_width=80)

    assert run.exit_code == 0
    assert run.output == text_snapshot


@pytest.mark.parametrize("command", [[], ["events"], ["daemon", "stop"]])
def test_help_before_a_command_is_as_behind_it(command: list[str]) -> None:
    before, behind = (
        CliRunner().invoke(cli, words) for words in (["help", *command], [*command, "--help"])
    )
    assert (before.exit_code, before.output) == (0, behind.output)


def test_the_log_is_shown_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(list_commands, "call_daemon", lambda _, **of: asked.append(of["limit"]))
    for words in ([], ["--all"], ["--all", "--limit", "5"]):
        CliRunner().invoke(cli, ["events", "--json", *words])
    assert asked == [1000, 1_000_000, 5]


@pytest.mark.parametrize(("name", "is_shown"), [("Copy the photos", True), ("Copy", False)])
def test_ids_tell_tasks_of_one_name_apart(name: str, is_shown: bool) -> None:
    ended = [{**DONE, "name": "copy the photos"}, {**DONE, "name": name}]
    sections = {**OVERVIEW["sections"], "ended": ended}
    drawn = task_text.draw_overview({**OVERVIEW, "sections": sections}, 50)
    titles = [[c.title for c in each.columns] for each in drawn if isinstance(each, Table)]
    assert ("id" in titles[0]) is is_shown


def test_a_task_is_seen_from_every_side(home: Path) -> None:
    given = json.dumps({"name": "Deploy", "plan": ["Build", "Push"]})
    task = document(home, "call", "task_register", given)["task_id"]
    update = json.dumps({"task_id": task, "message": "Step 1 done"})
    assert document(home, "call", "task_update", update)["acknowledged"] is True
    revised = json.dumps({"task_id": task, "new_plan": ["Build", "Ship"], "reason": "simpler"})
    document(home, "call", "task_plan_update", revised)

    shown = document(home, "show", task, "--json")
    assert shown["plan"] == ["Build", "Ship"]
    assert shown["steps"][0] == {"step": 1, "text": "Build", "done": True}
    assert [m["content"] for m in shown["messages"]] == ["Step 1 done", "Plan revised: simpler"]
    assert shown["revisions"][0]["reason"] == "simpler"
    assert shown["metadata"] == {
        "active_wait_ids": [],
        "last_wait_event_at": None,
        "last_wait_state": None,
    }
    assert {"waits", "wakes"} <= set(shown)
    listed = document(home, "list", "--json")
    assert task in [item["task_id"] for item in listed["tasks"]]
    kinds = [event["kind"] for event in document(home, "events", "--json")]
    assert kinds[:3] == ["task_registered", "task_updated", "plan_revised"]
    assert document(home, "waits", "--json") == []
    assert document(home, "wakes", "--all", "--json") == []
    plugins = document(home, "plugins", "--json")
    own = [p["name"] for p in plugins if p["distribution"].startswith("openclaw-taskmem")]
    assert own == [
        "claude",
        "codex",
        "evidence",
        "mcp-hosts",
        "openclaw",
        "past-tasks",
        "screen-history",
        "screen-text",
        "screenpipe",
        "sqlmodel",
        "targets",
        "terminal",
        "vision",
    ]
    assert len(document(home, "tools", "--json")) == 8
    status = document(home, "status", "--json")
    assert status["running"] is True
    assert {"pid", "version", "home", "database", "tasks", "waits", "wakes"} <= set(status)
    for words in (["list"], ["show", task], ["events"], ["plugins"], ["tools"]):
        run = taskmem(home, *words)
        assert run.returncode == 0
        assert run.stdout.strip()
        assert "Traceback" not in run.stderr


def test_runs_lists_who_holds_a_run_and_the_name_of_its_task(home: Path) -> None:
    given = json.dumps({"name": "Bake \u001b[31m the bread", "plan": ["Knead"]})
    task = document(home, "call", "task_register", given)["task_id"]
    claim = {"task_id": task, "role": "baker", "session_key": "s\u001b[31m"}
    held = document(home, "call", "task_claim", json.dumps(claim))

    first = taskmem(home, "runs").stdout
    handed = {"task_id": task, "to": "tester", "token": held["token"]}
    document(home, "call", "task_handoff", json.dumps(handed))
    second = taskmem(home, "runs").stdout

    name = "Bake \N{REPLACEMENT CHARACTER}[31m the bread"
    where = "s\N{REPLACEMENT CHARACTER}[31m"
    titles, row = first.splitlines()
    assert titles.split() == ["task", "state", "who", "session", "age", "calls"]
    assert [name, "running", "baker", where] == [each.strip() for each in row.split("  ") if each][
        :4
    ]
    assert f"{name}  queued (handed off)  tester     -" in second
    assert document(home, "runs", "--json")[0]["run_id"] == held["run"]["run_id"]


@pytest.mark.parametrize("host", ["", "1"], ids=["person", "agent"])
def test_a_refusal_tells_a_person_how_tools_are_called(home: Path, host: str) -> None:
    clean = dict.fromkeys(HOSTS, "") | {"CLAUDECODE": host}
    given = json.dumps({"name": "Bake", "plan": ["Knead"]})
    task = document(home, "call", "task_register", given)["task_id"]
    end = {"task_id": task, "status": "cancelled"}
    document(home, "call", "task_update", json.dumps(end))
    plan = {"task_id": task, "new_plan": ["Bake"], "reason": "Why not."}

    run = taskmem(home, "call", "task_plan_update", json.dumps(plan), **clean)

    assert json.loads(run.stdout)["message"] in run.stderr
    assert ("taskmem call TOOL '{…}'" in run.stderr) == (host == "")


def test_terminal_message_of_a_person_comes_with_the_next_claim(home: Path) -> None:
    def call(tool: str, *, host: str = "", **given: object) -> dict[str, Any]:
        clean = dict.fromkeys(HOSTS, "") | ({host: "1"} if host else {})
        run = taskmem(home, "call", tool, json.dumps(given), **clean)
        return dict(json.loads(run.stdout))

    agent: dict[str, Any] = {"host": "CLAUDECODE"}
    task = call("task_register", **agent, name="Bake", plan=["Knead"])["task_id"]
    token = call("task_claim", **agent, task_id=task, role="baker")["token"]
    noted = {"message": "Step 1 done", "token": token}
    call("task_update", **agent, task_id=task, **noted)
    call("task_handoff", **agent, task_id=task, token=token)

    call("task_update", task_id=task, message="Knead longer.", status="active")
    claimed = call("task_claim", **agent, task_id=task, role="baker")

    assert claimed["user_said"] == ["Knead longer."]
    thread = document(home, "show", task, "--json")["messages"]
    assert [(m["role"], m["content"]) for m in thread if m["role"] != "system"] == [
        ("agent", "Step 1 done"),
        ("user", "Knead longer."),
    ]


@pytest.mark.parametrize("words", [["list"], ["list", "--all"], ["waits"], ["runs"]])
def test_a_list_that_may_go_on_says_so(home: Path, words: list[str]) -> None:
    for name in ("Bake", "Brew"):
        given = json.dumps({"name": name, "plan": ["Look"]})
        task = document(home, "call", "task_register", given)["task_id"]
        document(home, "call", "task_claim", json.dumps({"task_id": task}))

    whole = taskmem(home, *words, "--limit", "100")
    cut = taskmem(home, *words, "--limit", "1")

    told = f"At most 1 are shown; for more: taskmem {' '.join(words)} --limit 10\n"
    assert whole.stderr == ""
    assert cut.stderr == ("" if words == ["waits"] else told)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "No task is open. To see those that have ended: taskmem list --all"),
        ("list", "No task is open. To see those that have ended: taskmem list --all"),
        ("list --implicit", "ended: taskmem list --all --implicit"),
        ("waits", "No waits are open. To see those that have ended: taskmem waits --all"),
        ("wakes", "No wakes are open. To see those that have ended: taskmem wakes --all"),
        ("runs", "No runs are open. To see those that have ended: taskmem runs --all"),
    ],
)
@pytest.mark.parametrize("ended", [True, False])
def test_an_empty_list_tells_whether_all_has_ended(
    words: str, said: str, ended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def call_daemon(method: str, **asked: Any) -> Any:
        if method == "overview":
            return {"sections": {"ended": []}, "all_ended": ended}
        rows = [{}] if ended and asked["all"] and asked["limit"] == 1 else []
        return {"tasks": rows} if method == "tasks" else rows

    for module in (list_commands, task_commands):
        monkeypatch.setattr(module, "call_daemon", call_daemon)
    shown = CliRunner().invoke(cli, words.split())
    assert shown.exit_code == 0
    assert shown.output.endswith(f"{said}\n") is ended
    assert shown.output.startswith(("There is no task.", f"No {words}.\n")) is not ended


def test_what_has_ended_does_not_scroll_the_rest_away(capsys: pytest.CaptureFixture[str]) -> None:
    ended = [{**DONE, "name": f"Ended{n}"} for n in range(30)]
    sections = {**cast("dict[str, Any]", OVERVIEW["sections"]), "ended": ended}
    task_text.print_overview({**OVERVIEW, "sections": sections})
    out = capsys.readouterr().out
    assert re.findall(r"Ended\d+", out) == [f"Ended{n}" for n in range(5)]
    assert "25 more tasks ended in the last day; all: taskmem list --all" in out


def test_text_from_an_agent_cannot_steer_a_terminal(home: Path) -> None:
    given = json.dumps({"name": "red \u001b[31m\u0007\u202e name", "plan": ["\u001b[2J"]})
    task = document(home, "call", "task_register", given)["task_id"]

    for words in (["list"], ["show", task]):
        out = taskmem(home, *words).stdout
        assert "\u001b" not in out
        assert "\u0007" not in out
        assert "\u202e" not in out


def test_what_was_said_is_shown_whole_and_below_its_author(home: Path) -> None:
    given = json.dumps({"name": "Report", "plan": ["Write"]})
    task = document(home, "call", "task_register", given)["task_id"]
    words = [f"word{number}" for number in range(200)]
    said = f"{' '.join(words)}\n2026-11-26  user/user: All is well.\u001b[2J"
    update = json.dumps({"task_id": task, "message": said})
    document(home, "call", "task_update", update)

    out = taskmem(home, "show", task).stdout

    first, *rest = out[out.rindex("word0 ") :].splitlines()
    last = next(n for n, each in enumerate(rest) if "All is well." in each)
    told = [first, *rest[: last + 1]]
    assert " ".join(told).split()[:200] == words
    assert all(each.startswith("    ") for each in told[1:])
    assert "\u001b" not in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["call", "task_list", "{nonsense"], "no JSON"),
        (["call", "task_list", "[]"], "JSON object"),
        (["call", "task_forget"], "There is no tool"),
        (["call", "task_list", '{"limit": -1}'], "limit must be at least 1"),
        (["show", "task_none"], 'No task or wait or wake is called "task_none"'),
        (["events", "--limit", "0"], "limit must be a whole number from 1"),
    ],
)
def test_what_goes_wrong_is_one_sentence_and_status_1(
    home: Path, words: list[str], said: str
) -> None:
    run = taskmem(home, *words)

    assert run.returncode == 1
    assert said in run.stderr
    assert len(run.stderr.splitlines()) == 1
    refused = words[0] == "call" and "JSON" not in said
    assert not run.stdout or json.loads(run.stdout)["message"] in run.stderr
    assert bool(run.stdout) == refused


def test_detach_starts_one_and_says_which(tmp_path: Path) -> None:
    home = Path(tempfile.mkdtemp(prefix="tm-"))
    try:
        run = taskmem(home, "daemon", "--detach")
        assert run.returncode == 0
        pid = document(home, "status", "--json")["pid"]
        assert str(pid) in run.stdout
    finally:
        assert taskmem(home, "daemon", "stop").returncode == 0


def test_the_demo_tells_the_whole_story_and_leaves_nothing(tmp_path: Path) -> None:
    run = taskmem(tmp_path, "demo", TMPDIR=str(tmp_path))

    assert run.returncode == 0, run.stderr
    assert "[task_stuck_resume]" in run.stdout
    assert "The wake is acknowledged." in run.stdout
    assert '"role": "agent"' in run.stdout
    assert '"role": "user"' not in run.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_kept_demo_is_looked_at_by_the_commands_it_says(tmp_path: Path) -> None:
    run = taskmem(tmp_path, "demo", "--keep", TMPDIR=str(tmp_path))

    assert run.returncode == 0, run.stderr
    [kept] = tmp_path.iterdir()
    overview, pages, stop = run.stdout.splitlines()[-4:-2] + run.stdout.splitlines()[-1:]
    seen = subprocess.run(["/bin/sh", "-c", overview], capture_output=True, text=True, check=True)
    assert "Deploy coursefolio to production" in seen.stdout
    assert pages == f"{overview} ui"
    subprocess.run(["/bin/sh", "-c", stop], capture_output=True, check=True)
    assert not kept.exists()


@pytest.fixture(scope="module")
def wait(home: Path) -> str:
    """A wait of the daemon's, on a log that nobody writes to."""
    (home / "build.log").touch()
    target = {"target": f"pty:file:{home}/build.log", "wake_when": '"Done" appears'}
    return str(document(home, "call", "smart_wait", json.dumps(target))["wait_id"])


def test_the_history_of_a_wait_has_a_line_for_each_thing(home: Path, wait: str) -> None:
    lines = taskmem(home, "show", wait).stdout.splitlines()
    opened = next(n for n, line in enumerate(lines) if line.endswith("build.log") and n > 1)
    assert lines[opened].endswith(" Waits for build.log")
    until, limit = lines[opened + 1 : opened + 3]
    assert (until, limit) == ('    until "Done" appears', "    for 5 minutes at most")


def test_the_pictures_of_a_wait_are_shown_where_they_are(
    home: Path, wait: str, text_snapshot: Any
) -> None:
    snapshot_store = SnapshotStore(home / "pictures", 7)
    for minute, moment in enumerate(SnapshotMoment):
        taken = datetime(2026, 11, 22, 13, minute, 5, tzinfo=UTC)
        snapshot_store.write(wait, moment, b"\xff\xd8", taken)
    try:
        run = taskmem(home, "show", wait, "--pictures", TZ="UTC")
        east = taskmem(home, "show", wait, "--pictures", TZ="XST-2").stdout
        shown = document(home, "show", wait, "--json")
    finally:
        shutil.rmtree(home / "pictures")

    assert run.returncode == 0
    assert run.stdout.replace(str(home), "HOME").replace(wait, "WAIT") == text_snapshot
    assert "last      2026-11-22 15:01:05" in east
    assert shown["pictures"]["deciding"] == {
        "path": f"{home}/pictures/{wait}/deciding.jpg",
        "taken_at": "2026-11-22T13:02:05.000Z",
    }
    assert list(shown["pictures"]) == ["first", "last", "deciding"]


def test_that_a_wait_has_no_pictures_is_said_with_its_reason(home: Path, wait: str) -> None:
    run = taskmem(home, "show", wait, "--pictures")

    assert run.returncode == 0
    assert run.stdout == ("No pictures are kept of this wait. A terminal has none.\n")
    assert document(home, "show", wait, "--pictures", "--json")["pictures"] == {}


def test_pictures_of_a_task_are_refused_with_what_to_do(home: Path) -> None:
    given = json.dumps({"name": "Deploy", "plan": ["Build"]})
    task = document(home, "call", "task_register", given)["task_id"]

    run = taskmem(home, "show", task, "--pictures")

    assert run.returncode == 2
    assert run.stdout == ""
    assert f"{task} is a task, and pictures are kept of waits" in run.stderr
    assert "give --pictures with the id of one" in run.stderr


def test_a_path_with_odd_characters_cannot_steer_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    picture = {"path": "/a b/\x1b[31m.jpg", "taken_at": "2026-11-22T13:04:05.000Z"}

    task_text.print_pictures({"pictures": {"last": picture}})

    assert "/a b/\ufffd[31m.jpg" in capsys.readouterr().out
