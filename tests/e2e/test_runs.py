"""Work that is cut goes on from what the gateway's hooks have shown."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import pytest

from tests.e2e.agent import Document, packets_in, reminders_in, since_packet
from tests.e2e.house import House
from tests.e2e.room import until
from tests.e2e.scripted_model import Call, ModelRequest, Reply
from tests.e2e.shared_house import use

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


@pytest.fixture
def settings():
    """No silence of these tests' length counts as stuck; the first reminder comes soon."""
    return {"TASKMEM_STUCK_THRESHOLD_SECONDS": "3600", "TASKMEM_IDLE_PAUSES": "1,240,900"}


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
        return Call("exec", {"command": command})


def test_killed_agent_without_reports_finishes_from_packet_alone(house: House, tmp_path: Path):
    baker = Baker(tmp_path, 3)
    house.model.decide = baker
    with house.gateway.rpc() as rpc:
        message = "Please bake three loaves."
        session = {"sessionKey": "agent:main:main", "idempotencyKey": "bake"}
        rpc.call("agent", message=message, **session)
    assert baker.oven.wait(120)
    [listed] = house.call("task_list")["tasks"]
    task_id = listed["task_id"]
    until(lambda: house.ask("runs")[0]["checkpoints"] == 3, "it is being baked")
    house.gateway.kill()
    # What it had started outlives it.
    (tmp_path / "cold").touch()
    house.gateway.start()
    until(lambda: house.ask("show", id=task_id)["status"] == "completed", "it is done")
    assert [(tmp_path / loaf).read_text() for loaf in baker.loaves] == [
        f"{loaf}\n" for loaf in baker.loaves
    ]


@pytest.fixture
def till() -> Iterator[tuple[str, list[str]]]:
    """A shop's address, and what was posted there."""
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


def test_packet_after_a_kill_holds_all_that_the_agent_needs(
    house: House, tmp_path: Path, till: tuple[str, list[str]]
):
    shop, paid = till
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
        [Call("exec", {"command": hold})],
    ]

    def decide(request: ModelRequest) -> Reply:
        heard.append(request)
        if len(heard) <= len(script):
            return script[len(heard) - 1]
        done = {"task_id": task_id(), "status": "completed"}
        return "Done." if request.turn.results else [Call("task_update", done)]

    def task_id() -> str:
        return house.call("task_list", status="all")["tasks"][0]["task_id"]

    house.model.decide = decide
    with house.gateway.rpc() as rpc:
        session = {"sessionKey": "agent:main:main", "idempotencyKey": "bake"}
        rpc.call("agent", message="Please pay for a loaf, and bake it.", **session)
    until(lambda: len(heard) >= 9, "its first turn is over")
    # What runs is known to who asks in the turn, and later, too.
    assert "still_running" in heard[8].turn.results[-1]
    asked = house.call("task_status", task_id=task_id())
    assert [each["about"] for each in asked["still_running"]] == [build["command"]]
    built.touch()
    until(cut.exists, "it goes on")
    house.gateway.kill()
    cold.touch()
    house.gateway.start()
    until(lambda: house.ask("show", id=task_id())["status"] == "completed", "it is done")

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
    pages = [house.call("task_status", task_id=task_id())]
    while pages[-1]["more"]:
        pages.append(house.call("task_status", **pages[-1]["more"]["arguments"]))
    calls = [call["about"] for page in pages for call in page["tool_history"]]
    assert calls[-1] == pay
    assert len(calls) == len(set(calls)) + 27
    assert paid == ["/pay"]
