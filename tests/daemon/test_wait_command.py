"""`taskmem wait`: a command that ends when the wait does, and says how."""

from __future__ import annotations

import shlex
import signal
import subprocess

import pytest

from openclaw_taskmem.home import build_own_command, find_home
from tests.support.agents import agent, parse_result
from tests.support.daemons import COMMAND, command, environment
from tests.support.waiting import ProcessOutput, status_of

AUTO = {"TASKMEM_WAKE_TRANSPORT": "auto"}
READY = '"READY" appears'


@pytest.fixture
def log(home):
    """A file that is watched."""
    path = home.folder.parent / "build.log"
    path.touch()
    return path


@pytest.fixture
def daemon(start, openclaw):
    """A daemon that would wake OpenClaw's agents, whose command notes its calls."""
    openclaw.install()
    return start(**AUTO, TASKMEM_OPENCLAW_BIN=str(openclaw.binary))


@pytest.fixture
def start_waiting(home):
    """Starts `taskmem wait`; all are ended."""
    started = []

    def go(*words):
        process = subprocess.Popen(
            [COMMAND, "wait", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(home, **AUTO),
        )
        started.append(process)
        return process

    yield go
    for process in started:
        process.kill()
        process.communicate()


def open_wait(daemon, log, **given):
    target = f"pty:file:{log}"
    return daemon.call("smart_wait", target=target, **{"wake_when": READY, **given})


def wait_for_exit(process):
    """How a command has ended: its status, and what it printed."""
    said = ProcessOutput(process.stdout)
    complained = ProcessOutput(process.stderr)
    status = status_of(process)
    said.join()
    complained.join()
    return status, said.text, complained.text


def appends(daemon, log, wait_id):
    log.write_text("READY\n")


def hides(daemon, log, wait_id):
    """Put a link in its place that leads to what is never shown."""
    log.unlink()
    log.symlink_to("/etc/shadow")


def cancels(daemon, log, wait_id):
    daemon.call("wait_cancel", wait_id=wait_id, reason="no longer needed")


@pytest.mark.parametrize(
    ("act", "ending"),
    [(appends, (0, "resolved")), (hides, (1, "error")), (cancels, (1, "cancelled"))],
)
def test_its_status_says_how_the_wait_has_ended(daemon, log, start_waiting, act, ending):
    wait_id = open_wait(daemon, log)["wait_id"]
    process = start_waiting(wait_id)
    act(daemon, log, wait_id)
    status, said, complained = wait_for_exit(process)
    assert (status, complained) == (ending[0], "")
    assert said.startswith(f"[system] smart_wait {ending[1]} ({wait_id}): ")


def test_a_wait_whose_time_is_up_ends_it_with_124(daemon, log, start_waiting):
    wait_id = open_wait(daemon, log, timeout=0.5)["wait_id"]
    status, said, _ = wait_for_exit(start_waiting(wait_id))
    assert (status, "smart_wait timeout" in said) == (124, True)


@pytest.mark.parametrize("in_one", [True, False])
def test_it_begins_a_wait_and_ends_with_it(daemon, log, start_waiting, in_one):
    made, words = log.with_name("build.tar"), ("appears", "or", "is", "gone", "and", "changes")
    target = f"path:{made}"
    process = start_waiting(
        " ".join((target, *words)) if in_one else target, *() if in_one else words
    )
    told = process.stderr.readline().decode()
    assert told == f"Waits until {target} appears or is gone and changes; Ctrl-C ends it.\n"
    made.touch()
    status, said, _ = wait_for_exit(process)
    assert status == 0
    assert "smart_wait resolved" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_wait_that_it_began_ends_with_a_signal(daemon, log, start_waiting, number):
    process = start_waiting("time:tomorrow 9:00")
    assert process.stderr.readline().startswith(b"Waits until time:tomorrow 9:00 ")
    process.send_signal(number)
    status, said, complained = wait_for_exit(process)
    assert (status, said) == (128 + number, "")
    assert complained in ("", "Aborted!\n")
    assert [row["status"] for row in daemon.ask("waits", all=True)] == ["cancelled"]


def test_an_instant_that_comes_too_late_is_refused(daemon, start_waiting):
    for words in (("time:31d",), ("time:10m", "--timeout", "60")):
        status, said, complained = wait_for_exit(start_waiting(*words))
        assert (status, said) == (1, "")
        assert "the wait would end before" in complained
    assert daemon.ask("waits", all=True) == []


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        (["sings"], (1, " The forms: quiet for N s, appears, is gone, ")),
        (["appears", "--timeout", "0"], (2, "0.0 is not in the range")),
        (["appears", "--also", "time:18:00", "--also", "path:/a"], (2, "say what to wait for")),
    ],
)
def test_what_cannot_be_waited_for_is_refused(daemon, log, start_waiting, options, refusal):
    status, said, complained = wait_for_exit(start_waiting(f"path:{log}", *options))
    assert (status, said) == (refusal[0], "")
    assert refusal[1] in complained


def test_a_target_without_a_condition_is_told_how_to_have_one(daemon, start_waiting):
    status, _, complained = wait_for_exit(start_waiting("path:/a/my file.txt"))
    assert status == 1
    assert "taskmem wait 'path:/a/my file.txt' CONDITION." in complained


def test_an_id_has_no_options_of_a_target(start_waiting):
    status, _, complained = wait_for_exit(start_waiting("wait_1", "--all"))
    assert (status, "are for a target, not for an ID" in complained) == (2, True)


@pytest.mark.parametrize("needs_all", [False, True])
def test_several_targets_end_one_wait(daemon, log, start_waiting, needs_all):
    made = [log.with_name(name) for name in ("a", "b")]
    options = ["--also", f"path:{made[1]} appears", *(["--all"] if needs_all else [])]
    process = start_waiting(f"path:{made[0]}", "appears", *options)
    told = process.stderr.readline().decode()
    both = f"path:{made[0]} appears {'and' if needs_all else 'or'} path:{made[1]} appears"
    assert told == f"Waits until {both}; Ctrl-C ends it.\n"
    for path in made if needs_all else made[1:]:
        path.touch()
    assert wait_for_exit(process)[0] == 0


def test_a_wait_that_nobody_knows_ends_it_with_2(daemon, home):
    status, said, complained = command(home, "wait", "wait_unknown", **AUTO)
    assert (status, said) == (2, "")
    assert "There is no wait wait_unknown" in complained


async def test_an_agent_that_no_wake_reaches_hears_of_the_end_by_it(
    daemon, log, start_waiting, openclaw
):
    async with agent(daemon.home) as client:
        asked = {"target": f"pty:file:{log}", "wake_when": READY}
        answer = parse_result(await client.call_tool("smart_wait", asked))
    assert "wake you" not in answer["message"]
    assert answer["command"].endswith(f"taskmem wait {answer['wait_id']}")
    assert f"TASKMEM_HOME={daemon.home.folder} " in answer["command"]
    process = start_waiting(answer["wait_id"])
    log.write_text("READY\n")
    status, said, _ = wait_for_exit(process)
    (wake,) = daemon.wakes()
    assert (status, said) == (0, wake["text"])
    assert (wake["state"], wake["attempts"]) == ("acknowledged", 0)
    assert openclaw.calls == []


def test_the_command_in_the_answer_can_be_run_as_it_is(daemon, log):
    answer = open_wait(daemon, log)
    log.write_text("READY\n")
    done = subprocess.run(
        ["/bin/sh", "-c", answer["command"]], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert f"resolved ({answer['wait_id']})" in done.stdout


def test_wait_command_names_its_home_even_if_it_is_the_default():
    home = find_home({})
    first, *_ = shlex.split(build_own_command(home))
    assert first == f"TASKMEM_HOME={home.folder}"
