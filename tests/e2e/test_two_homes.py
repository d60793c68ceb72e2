"""Two homes share a PostgreSQL, each with a gateway whose main session is the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.agent import packets_in, reminders_in
from tests.e2e.gateway import MAIN_SESSION
from tests.e2e.house import House
from tests.e2e.openclaw import OpenClaw
from tests.e2e.room import until
from tests.e2e.scripted_model import Call, ModelRequest, Reply
from tests.e2e.shared_house import Scripts, Story, shared_house
from tests.support.postgres import Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(600)]

SETTINGS = {"TASKMEM_STUCK_THRESHOLD_SECONDS": "3600", "TASKMEM_IDLE_PAUSES": "1,240,900"}
HELD = "file2"
CONTINUED = re.compile(r"task_continue \((task_\w+)\)")


class Maker:
    """Makes three files, a command each, and is held up in the second when told so.

    It completes the task that its packet or the wake names, and knows of no other.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self.holds = False
        self.told: list[str] = []

    def __call__(self, request: ModelRequest) -> Reply:
        turn = request.turn
        if request.opens_turn:
            self.told.append(turn.text)
        if "Please" in turn.words and not turn.results:
            return [Call("task_register", {"name": self.name, "plan": ["Make files"]})]
        if "Please" in turn.words and not self.holds:
            return "I have begun."
        made = [path.stem for path in sorted(self.folder.glob("file*"))]
        if len(made) < 3:
            return [Call("exec", {"command": self.make(f"file{len(made) + 1}")})]
        if "completed" in "".join(turn.results[-1:]):
            return "All files are there."
        packets = [*packets_in(turn.text), *reminders_in(turn.text)]
        known = [*CONTINUED.findall(turn.text), *(p["task_id"] for p in packets)]
        return [Call("task_update", {"task_id": known[-1], "status": "completed"})]

    def make(self, name: str) -> str:
        """The command that makes a file, or is held up until it is let go."""
        if self.holds and name == HELD:
            held, go = self.folder / "held", self.folder / "go"
            return f"touch {held}; until [ -e {go} ]; do sleep 0.1; done"
        return f"echo {self.name} > {self.folder / name}"


@dataclass
class Home(Story):
    """A home of the two: its main session, and what its model does in it."""

    maker: Maker

    def _task(self) -> dict[str, Any] | None:
        rows = self.house.call("task_list", status="all", limit=100)["tasks"]
        ids = [row["task_id"] for row in rows if row["name"] == self.maker.name]
        return self.house.ask("show", id=ids[0]) if ids else None

    @property
    def wakes(self) -> list[dict[str, Any]]:
        """What was owed for its task."""
        rows = self.house.ask("wakes", all=True)
        return [row for row in rows if row["task_id"] == self.task["task_id"]]

    def begin(self) -> None:
        """Ask its agent to work, and do not wait for the end."""
        with self.house.gateway.rpc() as rpc:
            said = {"message": "Please make files.", "idempotencyKey": self.maker.name}
            rpc.call("agent", sessionKey=self.session, **said)


@pytest.fixture(scope="module")
def houses(
    openclaw: OpenClaw, postgres: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[tuple[House, Scripts]]]:
    """Two gateways, two daemons, one database."""
    settings = {**SETTINGS, "TASKMEM_DATABASE_URL": postgres.new_database()}
    with ExitStack() as stack:
        yield [
            stack.enter_context(shared_house(openclaw, tmp_path_factory.mktemp("home"), settings))
            for _ in range(2)
        ]


def homes(houses: list[tuple[House, Scripts]], folder: Path, *names: str) -> tuple[Home, Home]:
    """Both, each with a task of a name of its own."""
    made: list[Home] = []
    for (house, scripts), name in zip(houses, names, strict=True):
        made.append(Home(house, scripts, MAIN_SESSION, Maker(name, folder / name)))
        made[-1].maker.folder.mkdir()
        made[-1].follow(made[-1].maker)
    first, second = made
    return first, second


def test_each_home_continues_only_its_own_work(houses: list[tuple[House, Scripts]], tmp_path: Path):
    both = homes(houses, tmp_path, "Bread", "Cake")
    for home in both:
        home.begin()
    for home in both:
        home.ends()
        home.wait_for_notice("completed")
    for home, other in (both, both[::-1]):
        [wake] = home.wakes
        assert (wake["state"], wake["attempts"]) == ("acknowledged", 1)
        task_id = other.task["task_id"]
        assert not any(task_id in text for text in home.maker.told)
        assert not any(other.maker.name in line for line in home.lines)
        assert (home.maker.folder / "file3").read_text() == f"{home.maker.name}\n"


def test_killed_gateways_run_resumes_only_in_that_gateway(
    houses: list[tuple[House, Scripts]], tmp_path: Path
):
    first, second = homes(houses, tmp_path, "Rolls", "Tart")
    first.maker.holds = True
    first.begin()
    until((first.maker.folder / "held").exists, "it is held up")
    before = first.run(state="running", checkpoints=3)
    first.house.gateway.kill()
    # What it had started outlives it.
    (first.maker.folder / "go").touch()
    # The other gateway starts anew meanwhile, and works.
    second.house.gateway.kill()
    second.house.gateway.start()
    second.begin()
    second.ends()
    assert first.run() == before
    first.maker.holds = False
    first.house.gateway.start()
    first.ends()
    resumed = first.run(state="completed")
    assert (resumed["run_id"], resumed["token"]) == (before["run_id"], 2)
    task_id = first.task["task_id"]
    assert not any(task_id in text for text in second.maker.told)
    assert [w["task_id"] for w in first.wakes] == [task_id] * len(first.wakes)
