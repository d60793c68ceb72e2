"""What agents and a user do with a daemon: all that is written for one task, task after task."""

from __future__ import annotations

import hashlib
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from openclaw_taskmem.cli.client import Link, connect
from openclaw_taskmem.home import Home
from taskmem_resumebench.daemon import GatewayLink
from taskmem_resumebench.servers import WakeReceiver
from taskmem_resumebench.tasks import Call, Kind
from tests.power_loss.operations import Control, Journal, Operation
from tests.support.daemons import environment, short_home
from tests.support.waiting import PATIENCE, ProcessOutput, status_of, until

MODULE: Final = ("-m", "tests.power_loss.recorded_daemon")
ROOT: Final = Path(__file__).parents[2]
PLAN: Final = ["Build the image", "Push it", "Check it"]


class Answered(NamedTuple):
    """An answer that somebody got."""

    done: int
    """Operations that were done by then."""
    digest: str
    """What the database had."""


class RecordedDaemon:
    """A real daemon, recorded; its journal and control lie beside its home."""

    def __init__(self, home: Home, **settings: str) -> None:
        self.home = home
        self.journal = Journal(home.folder.parent / "journal")
        self.control = Control(home.folder.parent / "control")
        self._settings = settings

    def launch(self) -> None:
        """Start its process, and do not wait for it."""
        beside = self.home.folder.parent
        self.process = subprocess.Popen(
            [sys.executable, *MODULE, str(beside / "journal"), str(beside / "control")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=environment(self.home, **self._settings),
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.out, self.log = (
            ProcessOutput(self.process.stdout),
            ProcessOutput(self.process.stderr),
        )

    @contextmanager
    def serve(self) -> Iterator[bool]:
        """Start it, and end it at last; give whether it ever served."""
        self.launch()
        try:
            yield self.log.wait_for(" serves ") is not None
            self.process.terminate()
            status_of(self.process)
        finally:
            self.process.kill()
            status_of(self.process)
            self.out.join()
            self.log.join()

    def connect(self) -> socket.socket:
        """Connect without a word."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(PATIENCE)
        connection.connect(str(self.home.socket))
        return connection


class Gateway(GatewayLink):
    """One that has long started, so that wakes may go out."""

    @property
    def _who(self) -> dict[str, str]:
        return {**super()._who, "agent_id": self._session.split(":")[1]}

    def _report(self, *events: Mapping[str, object]) -> None:
        aged = ({**each, "age": 60_000} if each["kind"] == "gateway" else each for each in events)
        super()._report(*aged)


class Script:
    """One person, and the agents of one gateway, whose calls come one after the other."""

    def __init__(self, daemon: RecordedDaemon) -> None:
        self.answers: list[Answered] = []
        self._daemon: Any = daemon
        self._calls = 0

    def play(self, tasks: int) -> None:
        """Do everything with some tasks."""
        home = self._daemon.home
        taken = WakeReceiver(home.folder, lambda _: None)
        with taken, closing(connect(home)) as person:
            for number in range(tasks):
                self._work(number, person)

    def _work(self, number: int, person: Link) -> None:
        session = f"agent:main:task{number}"
        folder = self._daemon.home.folder.parent
        agent = Gateway(self._daemon, "boot_1", session, folder)
        self._note()
        writer = Gateway(self._daemon, "boot_1", f"agent:writer:task{number}", folder)
        self._note()
        with closing(agent), closing(writer):
            told = agent.call_tool(
                "task_register", "Please deploy it.", name=f"Deploy {number}", plan=PLAN
            )
            task = told["task_id"]
            self._note()
            self._make_call(agent, "one.txt")
            self._say(agent, task, message=f"Built {number}. {'x' * 3000}", completed_steps=[1])
            self._wait(agent, task, number)
            changed = {"task_id": task, "new_plan": [*PLAN, "Announce it"], "reason": "Asked."}
            agent.call_tool("task_plan_update", None, **changed)
            self._note()
            self._make_call(agent, "two.txt")
            self._say(agent, task, ask="Which tag?", ask_options=["v1", "v2"])
            agent.end_turn("I wait for the tag.")
            self._note()
            shown = person.call("show", {"id": task}, PATIENCE)["line"]["question_id"]
            answer = {"action": "answer", "words": "v2", "question_id": shown}
            person.call("act", {"id": task, **answer}, PATIENCE)
            self._note()
            agent.call_tool("task_handoff", "Go on.", task_id=task, to="writer", note="Tag: v2.")
            self._note()
            self._say(person, task, message="Look at the tag.")
            claimed = writer.call_tool("task_claim", "Go on.", task_id=task, role="writer")
            self._note()
            self._say(writer, task, completed_steps=[2, 3, 4], message="Announced.")
            self._say(writer, task, status="completed", token=claimed["token"])
            writer.end_turn("All is done.")
            self._note()

    def _note(self) -> None:
        """Note that an answer came, with what the database has."""
        with closing(connect_read_only(self._daemon.home.database)) as database:
            digest = digest_rows(database)
        self.answers.append(Answered(self._daemon.control.done, digest))

    def _say(self, who: GatewayLink | Link, task: str, **given: object) -> None:
        if isinstance(who, Link):
            arguments = {"task_id": task, **given}
            who.call("call", {"tool": "task_update", "arguments": arguments}, PATIENCE)
        else:
            who.call_tool("task_update", "Go on.", task_id=task, **given)
        self._note()

    def _make_call(self, agent: GatewayLink, place: str) -> None:
        """Let the agent's tool have an effect, which the gateway reports: a checkpoint."""
        self._calls += 1
        name, call = f"call_{self._calls}", Call(Kind.FILE, f"mark-{self._calls}", place)
        agent.report_call_start(name, call)
        self._note()
        agent.report_call_end(name, call, "done", [("assistant", "Building.")], failed=False)
        self._note()

    def _wait(self, agent: GatewayLink, task: str, number: int) -> None:
        """Wait for a line of a log; the wake of it goes out."""
        log = self._daemon.home.folder.parent / f"build{number}.log"
        log.write_text("begun\n")
        wait = agent.call_tool(
            "smart_wait",
            None,
            target=f"pty:file:{log}",
            wake_when='"DONE" appears',
            task_id=task,
            timeout=3600,
        )
        self._note()
        with log.open("a") as more:
            more.write("DONE\n")
        agent.end_turn("I wait.")
        sent = "SELECT 1 FROM wakes WHERE wait_id = ? AND sends > 0"
        with closing(connect_read_only(self._daemon.home.database)) as database:
            until(lambda: database.execute(sent, (wait["wait_id"],)).fetchall(), "it is sent")
        self._note()


def record_script(tasks: int) -> tuple[list[Operation], list[Answered]]:
    """Play it with a daemon in a home of its own; return what was done, and answered."""
    with short_home() as home:
        daemon = RecordedDaemon(home)
        script = Script(daemon)
        with daemon.serve():
            script.play(tasks)
        return daemon.journal.read_operations(), script.answers


def connect_read_only(path: Path) -> sqlite3.Connection:
    """Open a database that somebody else writes."""
    return sqlite3.connect(f"file:{path}?mode=ro", uri=True)


def digest_rows(database: sqlite3.Connection) -> str:
    """Return what tells the rows of a database from all others."""
    found = hashlib.sha256()
    with database:
        database.execute("BEGIN")
        names = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        for (name,) in database.execute(names).fetchall():
            rows = database.execute(f"SELECT * FROM {name}").fetchall()  # noqa: S608 - its own
            found.update(f"{name} {rows!r}\n".encode())
    return found.hexdigest()[:16]
