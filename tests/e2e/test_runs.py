"""Work that is cut goes on from what the gateway's hooks have shown."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import pytest

from tests.e2e.agent import Document, packets_in, reminders_in, since_packet
from tests.e2e.house import House
from tests.e2e.room import until
from tests.e2e.scripted_model import Call, ModelRequest, Reply

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


@pytest.fixture
def settings():
    """No silence of these tests' length counts as stuck."""
    return {"TASKMEM_STUCK_THRESHOLD_SECONDS": "3600"}


def known(request: ModelRequest) -> Document | None:
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
        if "Please bake" in turn.text and not turn.results:
            plan = [f"Bake {loaf}" for loaf in self.loaves]
            return [Call("task_register", {"name": "Bread", "plan": plan})]
        packet = known(request)
        done = 0 if packet is None else self.baked(packet)
        loaf = done + since_packet(request) - (packet is None)
        if loaf < len(self.loaves):
            return [self.bake(self.loaves[loaf])]
        if packet is None or loaf > len(self.loaves):
            return "It is baked."
        report = {"task_id": packet["task_id"], "status": "completed"}
        return [Call("task_update", report)]

    def baked(self, packet: Document) -> int:
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


def test_an_agent_that_never_reports_and_is_killed_finishes_from_the_packet_alone(
    house: House, tmp_path: Path
):
    baker = Baker(tmp_path, 3)
    house.model.decide = baker
    with house.gateway.rpc() as rpc:
        message = "Please bake three loaves."
        session = {"sessionKey": "agent:main:main", "idempotencyKey": "bake"}
        rpc.call("agent", message=message, **session)
    assert baker.oven.wait(60)
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
