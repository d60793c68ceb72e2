"""What a kill of the gateway cuts goes on after its next start; the same kill cuts all of it."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from openclaw_taskmem.home import find_home
from tests.e2e.agent import Document, packets_in, reminders_in, since_packet
from tests.e2e.interruptions import around_a_kill
from tests.e2e.room import until
from tests.e2e.scripted_model import Call, ModelRequest, Reply, text_of
from tests.e2e.shared_house import Story, use
from tests.e2e.test_background import start_baking
from tests.e2e.test_patience import parse_session_name
from tests.e2e.test_resuming import (
    Cutter,
    Lines,
    UnregisteredCutter,
    begin_call,
    is_unseen,
    list_implicit_tasks,
    make_completion,
    make_registration,
    make_step_end,
    shell,
    start,
)
from tests.e2e.test_sub_agents import (
    COOKED,
    HeldCommand,
    WaitingParent,
    make_spawn,
    read_resting_run,
    wakes,
    wakes_of,
)
from tests.e2e.test_sub_agents import make_registration as make_soup
from tests.support import daemons

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

SETTINGS = {"TASKMEM_STUCK_THRESHOLD_SECONDS": "3600", "TASKMEM_IDLE_PAUSES": "1,240,900"}
SHARES_GATEWAY = True
RESUMED = "Your previous turn was interrupted by a gateway restart"
CHILD = re.compile(r"agent:main:subagent:[\w-]+")


# --- in other sessions than the user's ------------------------------------------------


# It is told first: it goes on only as it is told, and others that are cut may wait for it.
@around_a_kill
def test_task_waits_for_a_sub_agent_continued_after_a_kill(
    story: Story, tmp_path: Path
) -> Iterator[None]:
    first, second, own = (HeldCommand(tmp_path / name) for name in ("1", "2", "own"))
    story.scripts.below = Lines(first.hold_before(), second.hold_before(), COOKED)
    before = Lines(make_soup(), make_spawn("Cook the soup."), "It is being cooked.")
    packets: list[dict[str, Any]] = []

    def parent(request: ModelRequest) -> Reply:
        turn = request.turn
        packets.extend(reminders_in(turn.text))
        if before.left:
            return before(request)
        if COOKED in turn.text:
            report = {"task_id": story.task["task_id"], "status": "completed"}
            return "Served." if turn.results else [Call("task_update", report)]
        return carries_on(request)

    carries_on = Lines(go_on_below, own.hold_before(), *["It is being cooked again."] * 20)
    story.follow(parent)
    story.say("Please cook a soup.")
    with first.hold_open():
        read_resting_run(story)
        yield
    yield
    with second.hold_open():
        with own.hold_open():
            story.run(checkpoints=7)
        story.run(checkpoints=8, calls=3)
        until(lambda: "It is being cooked again." in story.lines, "its turn has ended")
        run = story.run(lease_until=None)
        assert run["state"] == "running"
        assert not any("task_continue" in wake["text"] for wake in wakes(story))
    story.ends()
    assert [cut for cut in packets[0]["unknown_outcome"] if str(tmp_path) in cut]


@around_a_kill
def test_a_sub_agent_that_a_kill_cuts_is_told_as_lost_once(
    story: Story, tmp_path: Path
) -> Iterator[None]:
    held = HeldCommand(tmp_path / "soup")
    others, stirs = story.scripts.below, Lines(held.hold_before(), COOKED)

    def below(request: ModelRequest) -> Reply:
        if any("Stir the sauce." in text_of(each) for each in request.messages):
            return stirs(request)
        return others(request) if others else "NO_REPLY"

    story.scripts.below = below
    parent = WaitingParent("stir", "Stir the sauce.")
    story.follow(parent)
    story.say("Please make a sauce.")
    with held.hold_open():
        assert wakes_of(story) == []
        yield
    yield
    until(lambda: parent.told, "the parent is woken", shown=lambda: story.lines)
    assert ["is lost: its host ended while it worked" in told for told in parent.told] == [True]
    assert len(wakes_of(story)) == 1


def go_on_below(request: ModelRequest) -> Reply:
    """Tell the sub-agent, which is known from the conversation, to go on."""
    conversation = "\n".join(map(text_of, request.messages))
    child = CHILD.findall(conversation)[0]
    given = {"sessionKey": child, "message": "Go on.", "timeoutSeconds": 0}
    return [use("sessions_send", **given)]


@around_a_kill
def test_a_crash_in_the_background_is_resumed_there(story: Story, tmp_path: Path) -> Iterator[None]:
    kitchen, away = start_baking(story, tmp_path)
    assert kitchen.baking.wait(240)
    away.run(checkpoints=3)
    yield
    kitchen.baked.touch()
    yield
    away.ends()
    assert (tmp_path / "log").read_text() == "mixed\n"
    story.wait_for_notice("Bread: resuming")
    story.wait_for_notice("completed")


# --- turns without a task -------------------------------------------------------------


def forget_running(story: Story) -> None:
    """Let its gateway, which is away, not know that a turn of the session was cut."""
    state = story.house.gateway.room.state
    store = state / "agents/main/agent/openclaw-agent.sqlite"
    with closing(sqlite3.connect(store)) as rows, rows:
        done = "UPDATE session_nodes SET status = 'done' WHERE session_key = ?"
        assert rows.execute(done, (story.session,)).rowcount == 1


def be_cut_and_resumed(story: Story, tmp_path: Path, *, by_us: bool) -> Generator[None, None, str]:
    """Tell of a turn without a task that is cut in its fifth call; why its packet says it was.

    `by_us`: OpenClaw does not resume it by itself.
    """
    cutter = UnregisteredCutter(tmp_path, 6, {5})
    story.follow(cutter)
    start(story, "Please make six files.")
    assert cutter.held.wait(240)

    def has_begun() -> bool:
        [task] = list_implicit_tasks(story)
        [run] = story.house.ask("runs", task_id=task["task_id"])
        return bool(run["checkpoints"] == 9)

    until(has_begun, "the fifth call is written down")
    yield
    cutter.let_go()
    if by_us:
        forget_running(story)
    yield

    def is_over() -> dict[str, Any] | None:
        [task] = list_implicit_tasks(story)
        return task if task["status"] == "completed" else None

    task = until(is_over, "the turn is over")
    assert cutter.file_texts == ["made\n"] * 6
    assert task["original_request"] == task["name"] == "Please make six files."
    packet = cutter.packets[-1]
    assert packet["task_id"] == task["task_id"]
    assert [call for call in packet["unknown_outcome"] if "file5" in call]
    [run] = story.house.ask("runs", all=True, task_id=task["task_id"])
    assert run["state"] == "completed"
    assert run["tries"]
    # Four ended before the kill and a fifth had begun; it was made again, and a sixth.
    assert (run["calls"], run["checkpoints"]) == (6, 13)
    resumed = [each for each in story.requests if RESUMED in each.turn.text]
    assert bool(resumed) is not by_us
    until(lambda: any("All files are there." in each for each in story.lines), "told")
    assert is_unseen(story)
    return str(packet["reason"])


@around_a_kill
def test_what_openclaw_does_not_resume_we_do_unseen(story: Story, tmp_path: Path) -> Iterator[None]:
    why = yield from be_cut_and_resumed(story, tmp_path, by_us=True)
    assert why.endswith("by a restart of the gateway. Go on with it now.")


@around_a_kill
def test_a_turn_without_a_task_is_killed_and_resumed(
    story: Story, tmp_path: Path
) -> Iterator[None]:
    why = yield from be_cut_and_resumed(story, tmp_path, by_us=False)
    # Which one it is depends on who is first, OpenClaw's recovery or ours.
    assert why.startswith("Your turn on this was cut")


# --- tasks ---------------------------------------------------------------------------


@around_a_kill
def test_resume_after_a_kill_names_the_task_and_goes_on(
    story: Story, tmp_path: Path
) -> Iterator[None]:
    script = Lines(
        Call("task_register", {"name": "Log", "plan": ["Log two words"]}),
        shell(f"echo one >> {tmp_path / 'log'}"),
        lambda _: [Call("task_update", {"task_id": story.task["task_id"], "ask": "Go on?"})],
        "The first is done.",
        shell(f"echo two >> {tmp_path / 'log'}"),
        lambda _: [Call("task_update", {"task_id": story.task["task_id"], "status": "completed"})],
        "Done.",
    )
    story.follow(script)
    story.say("Please log two words.")
    story.wait_for_question("Log: Go on?")
    yield
    yield
    before = len(story.requests)
    story.chat("/resume")
    story.ends()
    [packet] = reminders_in(story.requests[before].turn.text)
    assert packet["name"] == "Log"
    assert (tmp_path / "log").read_text().split() == ["one", "two"]


@around_a_kill
def test_kill_after_fourth_tool_keeps_results_and_completes(
    story: Story, tmp_path: Path
) -> Iterator[None]:
    cutter = Cutter(tmp_path, 8, {5})
    begin_call(story, cutter, calls=4, checkpoints=9)
    yield
    cutter.let_go()
    status = story.call("task_status", task_id=story.task["task_id"])
    outcomes = [call["outcome"] for call in status["tool_history"]]
    assert outcomes == ["unknown", *["ok"] * 4]
    yield
    story.wait_for_notice("Files: resuming")
    story.ends()
    assert cutter.file_texts == ["made\n"] * 8
    packet = cutter.packets[-1]
    assert [call for call in packet["unknown_outcome"] if "file5" in call]


@around_a_kill
def test_what_is_too_old_waits_for_resume(story: Story, tmp_path: Path) -> Iterator[None]:
    cutter = Cutter(tmp_path, 3, {2})
    begin_call(story, cutter, calls=1, checkpoints=3)
    yield
    cutter.let_go()
    let_run_age(story)
    yield
    story.wait_for_question("Say continue or /resume")
    assert story.run(state="blocked")["why"] == "stale"
    assert not (tmp_path / "file3.txt").exists()
    story.press("was interrupted", "Resume")
    story.ends()
    assert cutter.file_texts == ["made\n"] * 3


def let_run_age(story: Story) -> None:
    """Let the daemon have seen its agent last before more than the hour that is fresh."""
    home = find_home(story.house.taskmem.environment)
    run_id = story.run()["run_id"]
    [(seen,)] = daemons.rows(home, "SELECT seen_at FROM runs WHERE run_id = ?", run_id)
    before = datetime.fromisoformat(seen) - timedelta(hours=2)
    text = before.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    daemons.change(home, f"UPDATE runs SET seen_at = '{text}' WHERE run_id = '{run_id}'")  # noqa: S608


@around_a_kill
def test_crash_in_third_step_resumes_at_third_step(story: Story, tmp_path: Path) -> Iterator[None]:
    held = Event()
    go = tmp_path / "go"

    def hold(_: ModelRequest) -> Reply:
        held.set()
        return [shell(f"until [ -e {go} ]; do sleep 0.1; done")]

    packets: list[dict[str, Any]] = []

    def resumes(request: ModelRequest) -> Reply:
        packets.extend(reminders_in(request.turn.text))
        return [shell("true")]

    script = Lines(
        make_registration(4),
        *(shell("true"), make_step_end(story)) * 2,
        hold,
        resumes,
        make_step_end(story),
        make_step_end(story),
        make_completion(story),
        "Done.",
    )
    story.follow(script)
    start(story)
    assert held.wait(240)
    status = story.call("task_status", task_id=story.task["task_id"])
    assert [s["state"] for s in status["steps"]] == ["done", "done", "running", "pending"]
    story.run(checkpoints=5)
    yield
    go.touch()
    yield
    story.ends()
    assert packets[-1]["progress"]["current"] == 2


@around_a_kill
def test_command_is_lost_at_a_kill_and_recorded_only_if_allowed(
    story: Story, tmp_path: Path
) -> Iterator[None]:
    gateway, go = story.house.gateway, tmp_path / "go"
    recordings = story.house.taskmem.room.taskmem / "terminals"
    command = f"""printf '%s\\n' "it's up"; until [ -e {go} ]; do sleep 0.1; done; exit 3"""
    woken: list[str] = []
    lost: list[str] = []

    def allow(config: dict[str, Any]) -> None:
        config["plugins"]["entries"]["taskmem"]["config"]["recordCommands"] = True

    def serves(request: ModelRequest) -> Reply:
        turn = request.turn
        if "smart_wait resolved" in turn.text:
            woken.append(turn.text)
            return "I have seen it."
        if "smart_wait error" in turn.text:
            lost.append(turn.text)
            return "It is lost."
        if "Please serve" not in turn.text:
            return "NO_REPLY"
        match turn.results:
            case []:
                return [Call("exec", {"command": command, "background": True})]
            case [started]:
                target = f"pty:{parse_session_name(started)}"
                sides = ('"it\'s up" appears', "fails")
                return [Call("smart_wait", {"target": target, "wake_when": side}) for side in sides]
            case _:
                return "It runs, and I am woken at its end."

    story.follow(serves)
    story.say("Please serve.")
    until(lambda: woken, "the agent is woken by the text")
    assert not [*recordings.glob("printf-*")]
    yield
    gateway.reconfigure(allow)
    yield
    until(lambda: lost, "the agent is told that its command is gone")
    assert "The gateway was restarted" in lost[0]

    woken.clear()
    story.say("Please serve again.")
    until(lambda: woken, "the agent is woken by the text")
    assert '"it\'s up" appeared' in woken[0]
    go.touch()
    ended = "The command ended with status 3"
    until(lambda: ended in woken[-1], "the agent is woken at the end")
    (recorded,) = recordings.glob("printf-*")
    assert b"it's up" in next(recorded.glob("output.*")).read_bytes()


# --- work that is cut goes on from what the gateway's hooks have shown ---------------


def find_packet(request: ModelRequest) -> Document | None:
    """The last packet in the turn that goes on; None: there is none."""
    text = request.turn.text
    found = [*reminders_in(text), *packets_in(text)]
    return found[-1] if found else None


class Baker:
    """Bakes loaves, one command each, and never calls task_update until all is baked.

    It knows what stands in its turn, and nothing else.
    """

    def __init__(self, shelf: Path, loaves: int) -> None:
        self.shelf = shelf
        self.loaves = [f"loaf{n}" for n in range(1, loaves + 1)]
        self.oven = Event()
        """Set once the second loaf is in the oven."""

    def __call__(self, request: ModelRequest) -> Reply:
        turn = request.turn
        if "Please bake" in turn.words and not turn.results:
            plan = [f"Bake {loaf}" for loaf in self.loaves]
            return [Call("task_register", {"name": "Bread", "plan": plan})]
        packet = find_packet(request)
        done = 0 if packet is None else self.count_baked(packet)
        loaf = done + since_packet(request) - (packet is None)
        if loaf < len(self.loaves):
            return [self.bake(self.loaves[loaf])]
        if packet is None or loaf > len(self.loaves):
            return "It is baked."
        report = {"task_id": packet["task_id"], "status": "completed"}
        return [Call("task_update", report)]

    def count_baked(self, packet: Document) -> int:
        """How many loaves the packet says are baked."""
        made = " ".join(packet.get("do_not_redo", ()))
        return sum(loaf in made for loaf in self.loaves)

    def bake(self, loaf: str) -> Call:
        """Bake a loaf; the second takes for ever, the first time."""
        command = f"echo {loaf} >> {self.shelf / loaf}"
        if loaf == "loaf2" and not self.oven.is_set():
            self.oven.set()
            command = f"until [ -e {self.shelf / 'cold'} ]; do sleep 0.1; done"
        return shell(command)


@around_a_kill
def test_killed_agent_without_reports_finishes_from_packet_alone(
    story: Story, tmp_path: Path
) -> Iterator[None]:
    baker = Baker(tmp_path, 3)
    story.follow(baker)
    start(story, "Please bake three loaves.")
    assert baker.oven.wait(240)
    story.run(checkpoints=3)
    yield
    # What it had started outlives it.
    (tmp_path / "cold").touch()
    yield
    story.ends()
    assert [(tmp_path / loaf).read_text() for loaf in baker.loaves] == [
        f"{loaf}\n" for loaf in baker.loaves
    ]


@contextmanager
def open_till() -> Iterator[tuple[str, list[str]]]:
    """Give a shop's address, and what was posted there."""
    paid: list[str] = []

    class Till(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            paid.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Till) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", paid
        server.shutdown()
        thread.join()


@around_a_kill
def test_packet_after_a_kill_holds_all_that_the_agent_needs(
    story: Story, tmp_path: Path
) -> Iterator[None]:
    with open_till() as (shop, paid):
        pay = f"curl -s -X POST {shop}/pay"
        (tmp_path / "a.txt").write_text("read me\n")
        reads = [Call("exec", {"command": f"cat {tmp_path}/a.txt # {n}"}) for n in range(9)]
        built, cut, cold = (tmp_path / name for name in ("built", "cut", "cold"))
        build = {"command": f"until [ -e {built} ]; do sleep 0.1; done", "background": True}
        hold = f"touch {cut}; until [ -e {cold} ]; do sleep 0.1; done"
        heard: list[ModelRequest] = []
        script: list[Reply] = [
            [Call("task_register", {"name": "Bread", "plan": ["Pay", "Bake"]})],
            [Call("exec", {"command": pay})],
            *[reads] * 4,
            [Call("exec", build)],
            [use("task_status")],
            "It is paid; the oven heats up.",
            [shell(hold)],
        ]

        def decide(request: ModelRequest) -> Reply:
            heard.append(request)
            if len(heard) <= len(script):
                return script[len(heard) - 1]
            done = {"task_id": story.task["task_id"], "status": "completed"}
            return "Done." if request.turn.results else [Call("task_update", done)]

        story.follow(decide)
        start(story, "Please pay for a loaf, and bake it.")
        until(lambda: len(heard) >= 9, "its first turn is over")
        # What runs is known to who asks in the turn, and later, too.
        assert "still_running" in heard[8].turn.results[-1]
        asked = story.house.call("task_status", task_id=story.task["task_id"])
        assert [each["about"] for each in asked["still_running"]] == [build["command"]]
        built.touch()
        until(cut.exists, "it goes on")
        yield
        cold.touch()
        yield
        story.ends()

        packet = find_packet(heard[len(script)])
        assert packet is not None
        assert packet["do_not_redo"][0] == f"exec: {pay} (exit 0)"
        assert not [line for line in packet["do_not_redo"] if "cat" in line]
        assert [line for line in packet["unknown_outcome"] if str(cut) in line]
        assert packet["original_request"] == "Please pay for a loaf, and bake it."
        assert packet["last_response"] == "It is paid; the oven heats up."
        assert "still_running" not in packet
        spoken = [line["text"] for line in asked["conversation"]]
        assert any("Please pay for a loaf" in text for text in spoken)
        pages = [story.house.call("task_status", task_id=story.task["task_id"])]
        while pages[-1]["more"]:
            pages.append(story.house.call("task_status", **pages[-1]["more"]["arguments"]))
        calls = [call["about"] for page in pages for call in page["tool_history"]]
        assert calls[-1] == pay
        assert len(calls) == len(set(calls)) + 27
        assert paid == ["/pay"]


# --- one kill after another ----------------------------------------------------------


@pytest.mark.long
def test_third_crash_fails_the_task_and_tells_the_user(story: Story, tmp_path: Path):
    cutter = Cutter(tmp_path, 3, {2})
    story.follow(cutter)
    start(story)
    for tries in (0, 1, 2):
        assert cutter.held.wait(240)
        story.run(tries=tries, state="running")
        story.house.gateway.kill()
        cutter.held.clear()
        cutter.holds.add(2)
        story.house.gateway.start()
    assert story.ends("failed")["status"] == "failed"
    cutter.let_go()
    assert story.run(state="failed")["why"] == "interrupted"
    story.wait_for_notice("interrupted again")
    assert not (tmp_path / "file3.txt").exists()
