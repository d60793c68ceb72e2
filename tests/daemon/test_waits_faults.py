"""One bad wait, plug-in, lock or command: told, and of no harm to any other wait."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from itertools import count

import pytest

from openclaw_taskmem.cli.client import LinkError
from tests.plugins.test_third_party import install
from tests.support.agents import Lines
from tests.support.daemons import contents, lock_database
from tests.support.waiting import until

LATEST = timedelta(seconds=30)
"""Within which a deadline is kept on any machine; what hangs here hangs for longer."""


class Log:
    """A file to which is appended what is waited for."""

    def __init__(self, path):
        self.path = path
        self.target = f"pty:file:{path}"
        path.touch()

    def append(self, text):
        with self.path.open("a") as file:
            file.write(f"{text}\n")


@pytest.fixture
def log(home):
    return Log(home.folder.parent / "build.log")


def row(daemon, wait_id):
    return daemon.ask("show", id=wait_id)


def watch(daemon, log, text, **given):
    """Wait for a text in a log, and return the wait's id once somebody looks."""
    given = {"timeout": 3600, "target": log.target, **given}
    wait_id = daemon.call("smart_wait", wake_when=f'"{text}" appears', **given)["wait_id"]
    until(lambda: row(daemon, wait_id)["last_observation"], "somebody looks")
    return wait_id


def wait_for_end(daemon, wait_id):
    """The wait's row once it has ended."""

    def look():
        found = row(daemon, wait_id)
        return found if found["status"] != "watching" else None

    return until(look, f"{wait_id} ends")


def is_on_time(found):
    late = datetime.fromisoformat(found["ended_at"]) - datetime.fromisoformat(found["deadline_at"])
    return timedelta() <= late < LATEST


def still_resolves(daemon, log, text="CONTROL", wait_id=None):
    """An innocent wait resolves, and wakes once."""
    wait_id = wait_id or watch(daemon, log, text)
    log.append(text)
    assert wait_for_end(daemon, wait_id)["status"] == "resolved"
    assert [w["key"] for w in daemon.wakes() if w["wait_id"] == wait_id] == [f"wait:{wait_id}:1"]


# --- one bad wait -----------------------------------------------------------------

MALFORMED = ("soon", -5, 1e12, math.nan, True)


def test_a_malformed_timeout_is_refused_and_stops_no_other_wait(daemon, log):
    control = watch(daemon, log, "CONTROL")
    before = contents(daemon.home)
    with Lines(daemon.home) as lines:
        for given in (
            {tool: value} for value in MALFORMED for tool in ("timeout", "poll_interval")
        ):
            wanted = {"target": log.target, "wake_when": '"x" appears', **given}
            with pytest.raises(LinkError, match=next(iter(given))):
                daemon.call("smart_wait", **wanted)
            failed, _ = lines.call("smart_wait", wanted)
            assert failed
            if "timeout" in given:
                with pytest.raises(LinkError, match="timeout"):
                    daemon.call("wait_update", wait_id=control, **given)
                failed, _ = lines.call("wait_update", {"wait_id": control, **given})
                assert failed
    assert contents(daemon.home) == before
    still_resolves(daemon, log, wait_id=control)


def test_a_target_that_may_not_be_shown_ends_its_own_wait_only(daemon, home, log):
    other = Log(home.folder.parent / "other.log")
    task_id = daemon.register()
    control = watch(daemon, log, "CONTROL")
    lost = watch(daemon, other, "READY", task_id=task_id)
    other.path.unlink()
    other.path.symlink_to("/etc/shadow")
    found = wait_for_end(daemon, lost)
    assert found["status"] == "error"
    assert found["ended_at"] < found["deadline_at"]
    assert str(other.path) in found["last_observation"]
    still_resolves(daemon, log, wait_id=control)
    task = daemon.ask("show", id=task_id)
    assert task["metadata"]["active_wait_ids"] == []
    assert task["metadata"]["last_wait_state"] == "error"
    assert [m["msg_type"] for m in task["messages"]] == ["wait"]


def test_lock_at_a_wait_timeout_delays_it_and_stops_no_other(daemon, log):
    control = watch(daemon, log, "CONTROL")
    bad = watch(daemon, log, "NEVER", timeout=1)
    with lock_database(daemon.home):
        assert daemon.log.wait_for("could not read the waits; retrying")
        log.append("CONTROL")
        assert row(daemon, bad)["status"] == "watching"
        assert row(daemon, control)["status"] == "watching"
    assert wait_for_end(daemon, control)["status"] == "resolved"
    found = wait_for_end(daemon, bad)
    assert found["status"] == "timeout"
    assert found["last_observation"]
    assert sorted(wake["key"] for wake in daemon.wakes()) == sorted(
        [f"wait:{bad}:1", f"wait:{control}:1"]
    )
    still_resolves(daemon, log, "AFTER")


# --- judges that misbehave --------------------------------------------------------

RUDE = """
import asyncio, pathlib, time
from taskmem_hookspecs import JudgeUnavailable, Met, Ruling, hookimpl

class Rude:
    name = "rude"

    def __init__(self, manner):
        self.manner = manner

    async def rule(self, frame):
        if self.manner == "hangs":
            await asyncio.Event().wait()
        if self.manner == "blocks":
            time.sleep(3600)
        if self.manner == "raises":
            raise ValueError("out of order")
        if self.manner == "exits":
            raise SystemExit(3)
        if self.manner == "is away":
            raise JudgeUnavailable("The quota is used up.", 60)
        if self.manner == "lies":
            return {"met": "yes", "observation": "trust me"}
        if self.manner == "lies well":
            return Ruling.model_construct(met="certainly", observation=7)
        if self.manner == "thinks":
            folder = pathlib.Path(__file__).parent
            (folder / "asked").touch()
            while not (folder / "answer").exists():
                await asyncio.sleep(0.01)
            return Ruling(met=Met.YES, observation="It holds")

@hookimpl
def wait_judge(wake_when):
    words = wake_when.split('"')
    return Rude(words[1]) if wake_when.startswith('"') else None
"""
MANNERS = {
    "hangs": "no answer within 0.4 s",
    "blocks": "no answer within 0.4 s",
    "raises": "ValueError: out of order",
    "exits": "it tried to end the process: SystemExit(3)",
    "is away": "The quota is used up",
    "lies": "",
    "lies well": "",
}


@pytest.fixture
def rude(start, tmp_path):
    """A daemon with a plug-in whose judge does what is quoted."""
    project = {
        "name": "taskmem-rude",
        "version": "1.0",
        "entry-points": {"openclaw_taskmem": {"rude": "taskmem_rude"}},
    }
    install(tmp_path / "site", project, {"taskmem_rude": RUDE})
    return start(site=tmp_path / "site", TASKMEM_JUDGE_TIMEOUT_SECONDS="0.4")


@pytest.mark.parametrize(("manner", "said"), MANNERS.items(), ids=MANNERS.keys())
def test_a_judge_that_misbehaves_harms_its_own_wait_only(rude, log, manner, said):
    """The third-party judge is asked first, and the built-in one after it."""
    bad = watch(rude, log, manner, timeout=3)
    others = [watch(rude, log, f"OTHER {number}.") for number in range(3)]
    log.append("OTHER 0. OTHER 1. OTHER 2.")
    for other in others:
        assert wait_for_end(rude, other)["status"] == "resolved"
    found = wait_for_end(rude, bad)
    if manner in ("raises", "lies", "lies well"):
        (plugin,) = [p for p in rude.ask("plugins") if p["name"] == "rude"]
        assert "wait_judge" in plugin["last_error"]
    assert found["status"] == "timeout"
    assert is_on_time(found)
    assert f"rude is in trouble: {said}" in found["last_observation"]
    (wake,) = [w for w in rude.wakes() if w["wait_id"] == bad]
    assert f"rude is in trouble: {said}" in wake["text"]
    assert rude.stop() == 0


@pytest.mark.parametrize("manner", ["hangs", "raises", "lies"])
def test_wait_settled_by_text_resolves_despite_a_failing_judge(rude, log, manner):
    wait_id = watch(rude, log, manner)
    log.append(manner)
    assert wait_for_end(rude, wait_id)["status"] == "resolved"


@pytest.mark.parametrize("tool", ["wait_cancel", "wait_update"])
def test_a_call_while_a_judge_is_answering_leaves_it_no_word(rude, log, tmp_path, tool):
    site = tmp_path / "site"
    rude.restart(TASKMEM_JUDGE_TIMEOUT_SECONDS="60")
    wait_id = rude.call("smart_wait", target=log.target, wake_when='"thinks" appears')["wait_id"]
    until((site / "asked").exists, "the judge is asked")
    given = {"wake_when": '"DONE" appears'} if tool == "wait_update" else {}
    rude.call(tool, wait_id=wait_id, **given)
    (site / "answer").touch()
    still_resolves(rude, log)
    if tool == "wait_update":
        assert row(rude, wait_id)["status"] == "watching"
        rude.call("wait_cancel", wait_id=wait_id)
    assert row(rude, wait_id)["status"] == "cancelled"
    assert [w for w in rude.wakes() if w["wait_id"] == wait_id] == []
    until(lambda: rude.out.lines, "the other wake has gone out")
    assert rude.stop() == 0
    assert len(rude.out.lines) == 1


# --- many at once -----------------------------------------------------------------


def test_twenty_waits_linked_to_a_task_at_once_are_all_recorded(daemon, log):
    task_id = daemon.register()

    def list_linked_waits():
        return daemon.ask("show", id=task_id)["metadata"]["active_wait_ids"]

    def open_(number):
        return daemon.call(
            "smart_wait", target=log.target, wake_when=f'"READY {number}." appears', task_id=task_id
        )["wait_id"]

    with ThreadPoolExecutor(20) as pool:
        waits = [*pool.map(open_, range(20))]
        assert sorted(list_linked_waits()) == sorted(waits)
        assert len(set(waits)) == 20
        done = pool.map(lambda wait_id: daemon.call("wait_cancel", wait_id=wait_id), waits)
        assert {answer["status"] for answer in done} == {"cancelled"}
    assert list_linked_waits() == []
    assert daemon.ask("waits") == []
    assert daemon.wakes() == []


def test_as_many_wakes_as_waits_however_many_one_line_resolves(daemon, log):

    def open_(text):
        given = {"target": log.target, "wake_when": f'"{text}" appears'}
        return daemon.call("smart_wait", **given)["wait_id"]

    others = {open_("NEVER") for _ in range(60)}
    waits = [open_("READY") for _ in range(20)]
    log.append("READY")
    for wait_id in waits:
        assert wait_for_end(daemon, wait_id)["status"] == "resolved"
    assert {wait["wait_id"] for wait in daemon.ask("waits")} == others
    keys = sorted(wake["key"] for wake in daemon.wakes())
    assert keys == sorted(f"wait:{wait_id}:1" for wait_id in waits)
    # They go out together, and never a second time.
    assert max(wake["attempts"] for wake in daemon.wakes()) == 1


# --- the command that carries wakes -----------------------------------------------


@pytest.mark.parametrize("mode", ["fails", "hangs", "is missing"])
def test_a_wake_arrives_once_after_the_command_recovers(start, log, openclaw, mode):
    if mode == "fails":
        openclaw.install("print('gateway not reachable', file=sys.stderr); sys.exit(1)")
    daemon = start(TASKMEM_WAKE_TRANSPORT="openclaw-cli", TASKMEM_OPENCLAW_BIN=str(openclaw.binary))
    control = watch(daemon, log, "CONTROL")

    def deliver():
        wait_id = watch(daemon, log, "READY")
        log.append("READY")
        assert wait_for_end(daemon, wait_id)["status"] == "resolved"
        return wait_id

    if mode == "hangs":
        with openclaw.hang() as hanging:
            wait_id = deliver()
            hanging.wait_until_it_hangs()
            # Nothing else waits for it: calls are answered, and waits end.
            log.append("CONTROL")
            assert wait_for_end(daemon, control)["status"] == "resolved"
            daemon.stop()
            hanging.wait_until_all_are_dead()
        openclaw.install()
        daemon.restart()
    else:
        wait_id = deliver()
        until(lambda: [w for w in daemon.wakes() if w["last_error"]], "a try fails")
        openclaw.install()
    tried = len(openclaw.calls)

    def list_sent_texts():
        return [w["text"] for w in daemon.wakes() if w["state"] == "sent"]

    expected = {f"wait:{wait_id}:1"}
    if mode == "hangs":
        expected.add(f"wait:{control}:1")
    until(lambda: len(list_sent_texts()) == len(expected), "it arrives")
    assert {wake["key"] for wake in daemon.wakes()} == expected
    daemon.restart()
    said = "\n".join(call[5] for call in openclaw.calls[tried:])
    assert sorted(said.splitlines()) == sorted(list_sent_texts())


# --- sent back, refused, told -----------------------------------------------------


def test_a_wait_that_woke_is_sent_back_and_wakes_again(daemon, log):
    task_id = daemon.register()
    wait_id = watch(daemon, log, "READY", task_id=task_id)
    log.append("READY")
    wait_for_end(daemon, wait_id)
    until(lambda: [w["state"] for w in daemon.wakes()] == ["sent"], "it is sent")
    answer = daemon.call("wait_update", wait_id=wait_id, wake_when='"LOADED" appears', timeout=60)
    assert answer["status"] == "watching"
    assert "it had ended as resolved" in answer["message"]
    assert daemon.ask("show", id=task_id)["metadata"]["active_wait_ids"] == [wait_id]
    log.append("LOADED")
    assert wait_for_end(daemon, wait_id)["round"] == 2
    assert [w["key"] for w in daemon.wakes()] == [f"wait:{wait_id}:1", f"wait:{wait_id}:2"]


THERE = {
    "no such window": "window:No Such Window 4711",
    "no such window by id": "window:0x4711",
    "no display": "screen",
    "unknown scheme": "nobodys:tab",
    "no such command": "pty:nobody",
    "no such file": "pty:file:/nonexistent/build.log",
}


@pytest.mark.parametrize("target", THERE.values(), ids=THERE.keys())
def test_a_target_that_cannot_be_watched_is_told_in_the_answer(start, log, target):
    # One that is named: the display of another test could be taken else.
    nothing = {"DISPLAY": ":4711", "WAYLAND_DISPLAY": ""}
    daemon = start(**nothing, GEMINI_API_KEY="", GOOGLE_API_KEY="")
    before = contents(daemon.home)
    with pytest.raises(LinkError) as refused:
        daemon.call("smart_wait", target=target, wake_when='"READY" appears')
    assert refused.value.name in {
        "target_not_found",
        "invalid_arguments",
        "condition_unclear",
        "no_provider",
    }
    assert str(refused.value).endswith(".")
    assert contents(daemon.home) == before
    still_resolves(daemon, log)


def test_a_wait_that_times_out_tells_what_was_seen_last(daemon, log):
    task_id = daemon.register()
    wait_id = watch(daemon, log, "READY", timeout=2, task_id=task_id)
    log.append("Compiling 3 of 7")
    found = wait_for_end(daemon, wait_id)
    assert found["status"] == "timeout"
    assert is_on_time(found)
    (wake,) = daemon.wakes()
    head = f"smart_wait timeout ({wait_id}): Condition not met after 2s. "
    assert wake["text"].startswith(f"[system] {head}Last observation: ")
    assert "Compiling 3 of 7" in wake["text"]
    task = daemon.ask("show", id=task_id)
    assert [m["content"] for m in task["messages"]] == [wake["text"].removeprefix("[system] ")]
    assert task["metadata"]["last_wait_state"] == "timeout"


# --- waits and silence ------------------------------------------------------------


def test_task_is_not_stuck_during_a_wait_but_is_in_later_silence(start, log):
    daemon = start()
    names = (f"agent:{number}:main" for number in count())
    waiting = daemon.register("Waiting", session_key=next(names))
    wait_id = watch(daemon, log, "READY", task_id=waiting)
    # On a busy machine the wait may take longer to be made than the silence.
    daemon.restart(TASKMEM_STUCK_THRESHOLD_SECONDS="1", TASKMEM_STUCK_INTERVAL_SECONDS="0.2")
    for number in range(3):
        # Whoever is silent for as long, and later, is found.
        silent = daemon.register("Silent", session_key=next(names))
        log.append(f"Compiling {number}")
        assert daemon.out.wait_for(silent)
    assert waiting not in daemon.out.text
    assert daemon.ask("show", id=waiting)["messages"] == []
    assert row(daemon, wait_id)["status"] == "watching"

    log.append("READY")
    assert wait_for_end(daemon, wait_id)["status"] == "resolved"
    line = daemon.out.wait_for(waiting)
    packet = json.loads(line.removeprefix("[task_stuck_resume] "))
    assert packet["task_id"] == waiting
    assert len(line.encode()) < 4096
    told = [m["msg_type"] for m in daemon.ask("show", id=waiting)["messages"]]
    assert told == ["wait", "stuck"]
