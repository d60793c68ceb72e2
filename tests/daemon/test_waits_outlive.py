"""Waits outlive their daemon, however it ends; and people see them as they stand."""

from __future__ import annotations

import json
import signal
import subprocess
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.daemons import COMMAND, Daemon, change, command, environment, short_home
from tests.support.waiting import ProcessOutput, status_of, until

READY = '"Build finished" appears'
PROMPT = timedelta(seconds=2)
"""Within which a deadline is kept, on a machine with other things to do."""

ends = pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])


@pytest.fixture
def log(home):
    """A log file, in which what is waited for stood before."""
    path = home.folder.parent / "build.log"
    path.write_text("Build finished, an hour ago\n")
    return path


def append(log, text):
    with log.open("a") as file:
        file.write(text)


def row(daemon, wait_id):
    return daemon.ask("show", id=wait_id)


def wait_for_look(daemon, wait_id):
    until(lambda: row(daemon, wait_id)["last_observation"], "somebody looks")


def watch(daemon, target, **given):
    """Start a wait and return its id, once somebody looks."""
    given = {"wake_when": READY, "timeout": 3600, **given}
    wait_id = daemon.call("smart_wait", target=str(target), **given)["wait_id"]
    wait_for_look(daemon, wait_id)
    return wait_id


def watch_file(daemon, path, **given):
    return watch(daemon, f"pty:file:{path}", **given)


def wait_for_end(daemon, wait_id):
    """The wait's row once it has ended."""

    def look():
        found = row(daemon, wait_id)
        return found if found["status"] != "watching" else None

    return until(look, "the wait ends")


def end_by(daemon, number):
    """End the daemon; nobody was woken so far."""
    daemon.kill(number)
    assert daemon.out.lines == []


def wait_for_one_wake(daemon, wait_id):
    """The line that woke the agent, printed once; the daemon is stopped then."""
    assert daemon.out.wait_for(wait_id)
    until(lambda: [w["state"] for w in daemon.wakes()] == ["sent"], "it is sent")
    (wake,) = daemon.wakes()
    assert (wake["wait_id"], wake["attempts"]) == (wait_id, 1)
    assert daemon.stop() == 0
    assert daemon.out.lines == [wake["text"]]
    return wake["text"]


def instant(text):
    return datetime.fromisoformat(text)


def move_deadline(home, seconds):
    """Let the time run out so many seconds from now."""
    at = datetime.now(UTC) + timedelta(seconds=seconds)
    text = f"{at:%Y-%m-%dT%H:%M:%S.%fZ}"
    change(home, f"UPDATE waits SET deadline_at = '{text}'")  # noqa: S608 - our own


@contextmanager
def run_recorded(home, name, script):
    """A shell script under `taskmem run`; it may read a line, which lets it go on."""
    process = subprocess.Popen(
        [COMMAND, "run", "--name", name, "--", "sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(home),
    )
    with process.stdin:
        said = ProcessOutput(process.stderr)
        try:
            assert said.wait_for(f"pty:{name}")
            yield process
        finally:
            process.stdin.close()
            process.terminate()
            status_of(process)
            said.join()


# --- killed, stopped, and started again -----------------------------------------


@ends
def test_what_comes_while_no_daemon_runs_is_found_by_the_next(start, log, number):
    daemon = start()
    task_id = daemon.register()
    wait_id = watch_file(daemon, log, task_id=task_id)
    end_by(daemon, number)
    append(log, "Build finished in 2 s\n")
    daemon.restart()
    assert wait_for_end(daemon, wait_id)["status"] == "resolved"
    task = daemon.ask("show", id=task_id)
    text = wait_for_one_wake(daemon, wait_id)
    assert text.startswith(f"[system] smart_wait resolved ({wait_id}): ")
    assert "Build finished in 2 s" in text
    assert [(m["msg_type"], m["content"]) for m in task["messages"]] == [
        ("wait", text.removeprefix("[system] "))
    ]
    assert task["metadata"]["active_wait_ids"] == []
    assert task["metadata"]["last_wait_state"] == "resolved"
    daemon.restart()
    assert [wake["attempts"] for wake in daemon.wakes()] == [1]
    assert daemon.stop() == 0
    assert daemon.out.lines == []


@ends
def test_command_ended_without_a_daemon_is_found_by_the_next(start, home, number):
    daemon = start()
    with run_recorded(home, "build", "read line; exit 3") as process:
        wait_id = watch(daemon, "pty:build", wake_when="the command fails")
        end_by(daemon, number)
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert status_of(process) == 3
    daemon.restart()
    assert wait_for_end(daemon, wait_id)["status"] == "resolved"
    assert "status 3" in wait_for_one_wake(daemon, wait_id)


@ends
def test_what_became_of_a_path_process_or_instant_is_found(start, log, number):
    daemon, made = start(), log.with_name("build.tar")
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as process:
        waits = [
            watch(daemon, f"path:{made}", wake_when="appears and size >= 3"),
            watch(daemon, f"process:{process.pid}", wake_when="exits"),
            watch(daemon, "time:3s", wake_when="comes"),
        ]
        end_by(daemon, number)
    made.write_text("tar")
    daemon.restart()
    assert [wait_for_end(daemon, each)["status"] for each in waits] == ["resolved"] * 3
    until(lambda: len(daemon.out.lines) == 3, "each is told")
    assert sorted(wake["wait_id"] for wake in daemon.wakes()) == sorted(waits)


@ends
def test_a_phrase_that_a_restart_cut_in_two_is_found(start, log, number):
    daemon = start()
    daemon.ask("feed", target="pty:fed", text="Compiling\nBuild fin")
    of_file = watch_file(daemon, log)
    of_fed = watch(daemon, "pty:fed")
    append(log, "Build fin")
    until(lambda: "Build fin" in row(daemon, of_file)["last_observation"], "the first half is read")
    end_by(daemon, number)
    append(log, "ished\n")
    daemon.restart()
    assert wait_for_end(daemon, of_file)["status"] == "resolved"
    assert row(daemon, of_fed)["status"] == "watching"
    daemon.ask("feed", target="pty:fed", text="ished\n")
    assert wait_for_end(daemon, of_fed)["status"] == "resolved"
    assert len(daemon.wakes()) == 2


@ends
def test_what_has_not_come_is_waited_for_as_before(start, log, number):
    daemon = start()
    wait_id = watch_file(daemon, log)
    before = row(daemon, wait_id)
    for _ in range(2):
        end_by(daemon, number)
        daemon.restart()
        wait_for_look(daemon, wait_id)
        after = row(daemon, wait_id)
        for kept in ("status", "round", "armed_at", "deadline_at", "history"):
            assert after[kept] == before[kept]
    append(log, "Build finished\n")
    assert wait_for_end(daemon, wait_id)["status"] == "resolved"
    wait_for_one_wake(daemon, wait_id)


def test_only_the_time_that_is_left_is_waited_for(start, home, log):
    daemon = start()
    wait_id = watch_file(daemon, log)
    end_by(daemon, signal.SIGKILL)
    move_deadline(home, 3)
    daemon.restart()
    found = wait_for_end(daemon, wait_id)
    late = instant(found["ended_at"]) - instant(found["deadline_at"])
    assert found["status"] == "timeout"
    assert timedelta() <= late < PROMPT
    text = wait_for_one_wake(daemon, wait_id)
    assert "Condition not met after 3600s. Last observation: " in text


@ends
def test_wait_expired_without_a_daemon_times_out_at_restart(start, home, log, number):
    daemon = start()
    task_id = daemon.register()
    wait_id = watch_file(daemon, log, task_id=task_id)
    end_by(daemon, number)
    move_deadline(home, -60)
    began = datetime.now(UTC)
    daemon.restart()
    found = wait_for_end(daemon, wait_id)
    assert found["status"] == "timeout"
    assert instant(found["ended_at"]) - began < PROMPT * 5
    metadata = daemon.ask("show", id=task_id)["metadata"]
    assert metadata["active_wait_ids"] == []
    assert metadata["last_wait_state"] == "timeout"
    assert wait_for_one_wake(daemon, wait_id).startswith(
        f"[system] smart_wait timeout ({wait_id}): "
    )


def test_a_target_that_went_away_meanwhile_is_told(start, log):
    daemon = start()
    wait_id = watch_file(daemon, log)
    end_by(daemon, signal.SIGKILL)
    log.unlink()
    daemon.restart()
    assert wait_for_end(daemon, wait_id)["status"] == "error"
    assert str(log) in wait_for_one_wake(daemon, wait_id)


@ends
def test_a_wait_is_cancelled_or_sent_back_right_after_a_restart(start, log, number):
    daemon = start()
    cancelled = watch_file(daemon, log)
    updated = watch_file(daemon, log)
    end_by(daemon, number)
    daemon.restart()
    answer = daemon.call("wait_cancel", wait_id=cancelled, reason="not needed")
    assert (answer["status"], answer["message"]) == (
        "cancelled",
        "Wait cancelled. Reason: not needed",
    )
    answer = daemon.call("wait_update", wait_id=updated, wake_when='"Pushed" appears')
    assert answer["status"] == "watching"
    append(log, "Build finished\nPushed\n")
    assert wait_for_end(daemon, updated)["round"] == 2
    assert row(daemon, cancelled)["status"] == "cancelled"
    assert '"Pushed" appeared' in wait_for_one_wake(daemon, updated)


# --- the wake that is owed --------------------------------------------------------


def start_with_command(start, openclaw):
    return start(TASKMEM_WAKE_TRANSPORT="openclaw-cli", TASKMEM_OPENCLAW_BIN=str(openclaw.binary))


def wait_for_sent_wake(daemon, wait_id):
    """The only wake, once it has arrived."""
    until(lambda: [w["state"] for w in daemon.wakes()] == ["sent"], "it is sent")
    (wake,) = daemon.wakes()
    assert wake["wait_id"] == wait_id
    return wake


def test_a_wake_that_was_owed_when_the_daemon_died_arrives_once(start, log, openclaw):
    daemon = start_with_command(start, openclaw)
    wait_id = watch_file(daemon, log)
    append(log, "Build finished\n")
    until(lambda: [w for w in daemon.wakes() if w["last_error"]], "the command is missing")
    assert daemon.ask("status")["unsent"] == 1
    daemon.kill()
    openclaw.install()
    daemon.restart()
    assert row(daemon, wait_id)["status"] == "resolved"
    wake = wait_for_sent_wake(daemon, wait_id)
    assert daemon.ask("status")["unsent"] == 0
    daemon.restart()
    assert [call[5] for call in openclaw.calls] == [wake["text"]]


def test_a_daemon_that_dies_while_it_delivers_delivers_again(start, log, openclaw):
    openclaw.install("os.kill(os.getppid(), signal.SIGKILL); sys.exit(1)")
    daemon = start_with_command(start, openclaw)
    wait_id = watch_file(daemon, log)
    append(log, "Build finished\n")
    assert daemon.wait() == -signal.SIGKILL
    openclaw.install()
    # Whoever claimed it may deliver it still, until the claim runs out.
    change(daemon.home, "UPDATE wakes SET due_at = created_at")
    daemon.restart()
    assert row(daemon, wait_id)["round"] == 1
    wake = wait_for_sent_wake(daemon, wait_id)
    assert wake["attempts"] == 2
    daemon.restart()
    assert [call[5] for call in openclaw.calls] == [wake["text"]] * 2


# --- two homes, one database ------------------------------------------------------


def test_two_homes_on_one_database_leave_each_others_waits_alone(start, log, database):
    shared = {"TASKMEM_DATABASE_URL": database}
    ours = start(**shared)
    ours.ask("feed", target="pty:build", text="Compiling\n")
    wait_id = watch(ours, "pty:build")
    with short_home() as other, closing(Daemon(other, **shared)) as theirs:
        theirs.wait_until_it_serves()
        own = watch_file(theirs, log)
        end_by(ours, signal.SIGKILL)
        theirs.kill()
        append(log, "Build finished\n")
        # Their daemon knows no pty:build, and does not take that for its end.
        theirs.restart()
        assert wait_for_end(theirs, own)["status"] == "resolved"
        ours.restart()
        assert row(ours, wait_id)["status"] == "watching"
        ours.ask("feed", target="pty:build", text="Build finished\n")
        assert wait_for_end(ours, wait_id)["status"] == "resolved"
        both = (ours, theirs)
        until(lambda: [[w["state"] for w in d.wakes()] for d in both] == [["sent"]] * 2, "sent")
        assert ours.stop() == theirs.stop() == 0
        said = [*ours.out.lines, *theirs.out.lines]
        assert len(said) == 2
        assert sum(wait_id in line for line in said) == 1


def test_a_wait_that_another_home_ended_is_not_ended_again(start, log, database):
    shared = {"TASKMEM_DATABASE_URL": database}
    ours = start(**shared)
    cancelled = watch_file(ours, log)
    taken = watch_file(ours, log)
    control = watch_file(ours, log)
    with short_home() as other, closing(Daemon(other, **shared)) as theirs:
        theirs.wait_until_it_serves()
        theirs.call("wait_cancel", wait_id=cancelled)
        theirs.call("wait_update", wait_id=taken, wake_when='"Pushed" appears')
        append(log, "Build finished\n")
        assert wait_for_end(ours, control)["status"] == "resolved"
        assert row(theirs, taken)["status"] == "watching"
        append(log, "Pushed\n")
        assert wait_for_end(theirs, taken)["status"] == "resolved"
        assert row(ours, cancelled)["status"] == "cancelled"
        assert [wake["key"] for wake in ours.wakes()] == [f"wait:{control}:1"]
        assert [wake["key"] for wake in theirs.wakes()] == [f"wait:{taken}:2"]
        assert ours.stop() == 0


# --- seen by people ---------------------------------------------------------------


def test_the_waits_are_shown_as_they_stand(daemon, home, log):
    task_id = daemon.register()
    wait_id = watch_file(daemon, log, task_id=task_id, timeout=90.5)
    append(log, "Compiling 3 of 7\n")
    until(lambda: "Compiling 3 of 7" in row(daemon, wait_id)["last_observation"], "it is seen")
    status, out, _ = command(home, "waits", "--json")
    (shown,) = json.loads(out)
    assert status == 0
    assert shown["wait_id"] == wait_id
    assert (shown["status"], shown["timeout"], shown["round"]) == ("watching", 90.5, 1)
    assert "Compiling 3 of 7" in shown["last_observation"]
    answer = daemon.call("task_update", task_id=task_id, query="Where am I?")
    assert f"pty:file:{log}" in answer["summary"]
    assert "Build finished" in answer["summary"]

    daemon.call("wait_cancel", wait_id=wait_id)
    assert json.loads(command(home, "waits", "--json")[1]) == []
    (shown,) = json.loads(command(home, "waits", "--all", "--json")[1])
    assert (shown["wait_id"], shown["status"]) == (wait_id, "cancelled")
    answer = daemon.call("task_update", task_id=task_id, query="Where am I?")
    assert f"pty:file:{log}" not in answer["summary"]


def test_a_wait_is_shown_with_its_history(daemon, home, log):
    wait_id = watch_file(daemon, log)
    daemon.call("wait_update", wait_id=wait_id, wake_when='"Pushed" appears', message="Too soon")
    daemon.restart()
    append(log, "Pushed\n")
    wait_for_end(daemon, wait_id)
    found = json.loads(command(home, "show", wait_id, "--json")[1])
    kinds = [event["kind"] for event in found["history"]]
    assert kinds[:3] == ["wait_opened", "wait_updated", "wait_ended"]
    assert found["history"][1]["data"]["note"] == "Too soon"
    assert found["history"][2]["data"]["status"] == "resolved"
    status, out, _ = command(home, "show", wait_id)
    assert status == 0
    assert out.startswith("pty:file:")
    assert "resolved" in out.splitlines()[0]
    assert wait_id in out
    assert "Too soon" in out


def test_what_is_watched_leaves_no_line_in_the_daemons_log(daemon, log):
    wait_id = watch_file(daemon, log)
    for number in range(3):
        append(log, f"Compiling {number} of 7\n")
        until(
            lambda seen=f"{number} of 7": seen in row(daemon, wait_id)["last_observation"],
            "it is seen",
        )
    assert [line for line in daemon.log.lines if " serves " not in line] == []


@contextmanager
def run_follower(home, *options):
    """A process of `taskmem waits --follow`, and what it prints."""
    process = subprocess.Popen(
        [COMMAND, "waits", "--follow", *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(home),
    )
    said = ProcessOutput(process.stdout)
    try:
        yield process, said
    finally:
        process.kill()
        status_of(process)
        said.join()


def test_whoever_follows_the_waits_sees_them_move_and_end(daemon, home, log):
    wait_id = watch_file(daemon, log)
    with run_follower(home) as (_, said):
        assert said.wait_for(f"{wait_id[-7:]}  watching")
        append(log, "Compiling 3 of 7\n")
        assert said.wait_for("Compiling 3 of 7")
        append(log, "Build finished\n")
        assert said.wait_for(f"{wait_id[-7:]}  resolved")


def test_whoever_follows_the_waits_ends_it_with_ctrl_c(daemon, home, log):
    wait_id = watch_file(daemon, log)
    with run_follower(home) as (process, said):
        assert said.wait_for(wait_id[-7:])
        process.send_signal(signal.SIGINT)
        assert status_of(process) == 130
        assert len(said.join()) == 1


def test_whoever_follows_the_waits_as_json_gets_whole_documents(daemon, home, log):
    wanted = " ".join(["Build  finished"] * 60)
    wait_id = watch_file(daemon, log, wake_when=f'"{wanted}" appears')
    with run_follower(home, "--json") as (_, said):
        (line,) = until(lambda: said.lines, "the wait is shown")
    shown = json.loads(line)
    assert shown["wait_id"] == wait_id
    assert shown["wake_when"] == f'"{wanted}" appears'
