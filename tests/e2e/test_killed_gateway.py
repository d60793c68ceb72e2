"""What a kill of the gateway cuts goes on after its next start; the same kill cuts all of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from tests.e2e.agent import Document, packets_in, reminders_in, since_packet
from tests.e2e.around_a_kill import around_a_kill
from tests.e2e.room import until
from tests.e2e.scripted_model import Call, ModelRequest, Reply
from tests.e2e.shared_house import Story, use
from tests.e2e.test_resuming import (
    Cutter,
    Lines,
    be_cut_and_resumed,
    begin_call,
    make_completion,
    make_registration,
    make_step_end,
    shell,
    start,
)

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

SETTINGS = {"TASKMEM_STUCK_THRESHOLD_SECONDS": "3600", "TASKMEM_IDLE_PAUSES": "1,240,900"}
SHARES_GATEWAY = True


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
def test_what_openclaw_does_not_resume_we_do_unseen(story: Story, tmp_path: Path) -> Iterator[None]:
    why = yield from be_cut_and_resumed(story, tmp_path, by_us=True)
    assert why.endswith("by a restart of the gateway. Go on with it now.")


@around_a_kill
def test_kill_after_third_tool_keeps_three_results(story: Story, tmp_path: Path) -> Iterator[None]:
    cutter = Cutter(tmp_path, 7, {4})
    begin_call(story, cutter, calls=3, checkpoints=7)
    yield
    cutter.let_go()
    status = story.call("task_status", task_id=story.task["task_id"])
    outcomes = [call["outcome"] for call in status["tool_history"]]
    assert outcomes == ["unknown", "ok", "ok", "ok"]
    yield
    story.ends()
    assert cutter.file_texts == ["made\n"] * 7


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
    assert held.wait(120)
    status = story.call("task_status", task_id=story.task["task_id"])
    assert [s["state"] for s in status["steps"]] == ["done", "done", "running", "pending"]
    story.run(checkpoints=5)
    yield
    go.touch()
    yield
    story.ends()
    assert packets[-1]["progress"]["current"] == 2


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
    assert baker.oven.wait(120)
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
