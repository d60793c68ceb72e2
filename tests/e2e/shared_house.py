"""One gateway for the stories of a module or more, each with a session and a script."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from secrets import token_hex
from threading import Thread
from typing import Any, Self

from websockets.exceptions import ConnectionClosed

from tests.e2e.gateway import MAIN_SESSION, Gateway
from tests.e2e.house import House
from tests.e2e.openclaw import OpenClaw
from tests.e2e.phone import FOLDER as PHONE
from tests.e2e.phone import connect as connect_phone
from tests.e2e.room import Room, until
from tests.e2e.scripted_model import Call, ModelRequest, Reply, ScriptedModel, text_of
from tests.e2e.taskmem import Taskmem, plugins

SESSION = re.compile(r"^Runtime: .*\| session=(agent:[\w:.-]+)", re.MULTILINE)

Script = Callable[[ModelRequest], Reply]
MOST_REQUESTS = 2_000
"""More than the stories of a module ask of the model."""


def session_of(request: ModelRequest) -> str | None:
    """The session that a request is made in, as the gateway tells its model."""
    for message in reversed(request.messages):
        if found := SESSION.search(text_of(message)):
            return found[1]
    return None


@dataclass
class Scripts:
    """Decides for each session as its own script says."""

    of: dict[str, Script] = field(default_factory=dict)
    away: Script | None = None
    """What sessions do that a task has to itself."""
    below: Script | None = None
    """What sub-agents do."""
    elsewhere: Script | None = None
    """What automations do in sessions of their own."""
    reader: Script | None = None
    """What is answered outside any session, as the host's model reads for judges."""
    heard: dict[str, list[ModelRequest]] = field(default_factory=dict)
    """What the model was asked, by session."""

    def __call__(self, request: ModelRequest) -> Reply:
        """Let the session's own script decide."""
        session = session_of(request)
        if session is None:
            return self.reader(request) if self.reader else "NO_REPLY"
        self.heard.setdefault(session, []).append(request)
        script = self.of.get(session)
        if script is None and ":taskmem:" in session:
            script = self.away
        if script is None and ":subagent:" in session:
            script = self.below
        if script is None and ":cron:" in session:
            script = self.elsewhere
        return script(request) if script else "NO_REPLY"


class ChatListener:
    """Everything that clients of a gateway are shown in their chats, as it comes."""

    def __init__(self, gateway: Gateway) -> None:
        self._chats: list[dict[str, Any]] = []
        self._line = gateway.rpc()
        self._thread = Thread(target=self._listen)

    def __enter__(self) -> Self:
        self._rpc = self._line.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._rpc.hang_up()
        self._thread.join()
        self._line.__exit__(None, None, None)

    def _listen(self) -> None:
        with suppress(ConnectionClosed):
            while True:
                heard = self._rpc.hear(None)
                if heard.get("event") == "chat":
                    self._chats.append(heard["payload"])

    def list_texts(self, session: str) -> list[str]:
        """The texts that were shown in a session, deltas included."""
        mine = [each for each in self._chats if each.get("sessionKey") == session]
        return [text_of(each["message"]) for each in mine if each.get("message")]


def use(tool: str, **args: Any) -> Call:
    """Call one of our tools that only the catalogue shows, by the native plug-in."""
    return Call("tool_call", {"id": tool, "args": args})


@dataclass
class Story:
    """One session of the house."""

    house: House
    scripts: Scripts
    session: str

    def follow(self, script: Script) -> None:
        """Let a script decide in this session."""
        self.scripts.of[self.session] = script

    @property
    def requests(self) -> list[ModelRequest]:
        """What the model was asked in this session."""
        return self.scripts.heard.get(self.session, [])

    def say(self, message: str) -> dict[str, Any]:
        """Say something in it, and wait for the turn's end."""
        return self.house.gateway.turn(message, self.session)

    def chat(self, text: str) -> None:
        """Type something in it, as a user does in the browser."""
        typed = {"message": text, "idempotencyKey": token_hex(8)}
        with self.house.gateway.rpc() as rpc:
            rpc.call("chat.send", sessionKey=self.session, **typed)

    def type_command(self, command: str, words: str) -> str:
        """Type a command; what the user reads of it that holds these words."""
        self.chat(command)

        def find_line() -> str | None:
            return next((line for line in self.lines if words in line), None)

        what = f"{command} is answered {words!r}"
        return until(find_line, what, shown=lambda: self.lines)

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool in the name of this session."""
        return self.house.call(tool, session_key=self.session, **arguments)

    @property
    def task(self) -> dict[str, Any]:
        """The session's latest task."""
        return until(self._task, f"{self.session} has a task")

    def _task(self) -> dict[str, Any] | None:
        rows = self.house.call("task_list", status="all", limit=100)["tasks"]
        shown = (self.house.ask("show", id=row["task_id"]) for row in rows)
        mine = (self.session, None)
        return next((each for each in shown if each["session_key"] in mine), None)

    def run(self, **wanted: Any) -> dict[str, Any]:
        """The newest run of the session's task, once it is as wanted."""
        task_id = self.task["task_id"]

        def read_runs() -> list[dict[str, Any]]:
            return self.house.ask("runs", all=True, task_id=task_id)

        def find_run() -> dict[str, Any] | None:
            rows = read_runs()
            if rows and wanted.items() <= rows[0].items():
                return rows[0]
            return None

        return until(find_run, f"a run of {task_id} with {wanted}", shown=read_runs)

    def ends(self, status: str = "completed") -> dict[str, Any]:
        """The session's task, once it has this status."""
        task_id = self.task["task_id"]

        def find_ended() -> dict[str, Any] | None:
            shown = self.house.ask("show", id=task_id)
            return shown if shown["status"] == status else None

        return until(find_ended, f"{task_id} is {status}")

    @property
    def lines(self) -> list[str]:
        """What the user sees in the session's chat, oldest first."""
        return self.house.gateway.lines(self.session)

    def wait_for_notice(self, words: str) -> str:
        """The line from taskmem that holds these words, once the user sees it."""

        def find_notice() -> str | None:
            mine = (line for line in self.lines if line.startswith("[taskmem]"))
            return next((line for line in mine if words in line), None)

        return until(find_notice, f"the user is told {words!r}", shown=lambda: self.lines)

    @property
    def questions(self) -> list[dict[str, Any]]:
        """What its user is asked by buttons now."""
        with self.house.gateway.rpc() as rpc:
            found = rpc.call("question.list")["questions"]
        return [each for each in found if each["sessionKey"] == self.session]

    def wait_for_question(self, words: str) -> dict[str, Any]:
        """The question that holds these words, once its user is asked it."""

        def find_question() -> dict[str, Any] | None:
            mine = (each for each in self.questions if words in text_in(each))
            return next(mine, None)

        return until(find_question, f"the user is asked {words!r}")

    def press(self, words: str, answer: str) -> None:
        """Answer the question that holds these words, as the Control UI does."""
        answers = {"answers": {"answer": [answer]}}
        with self.house.gateway.rpc() as rpc:
            rpc.call("question.resolve", id=self.wait_for_question(words)["id"], answers=answers)


def text_in(asked: dict[str, Any]) -> str:
    """The text of a question."""
    return str(asked["questions"][0]["question"])


def complete_settings(room: Room, settings: Mapping[str, str]) -> dict[str, str]:
    """Add to the settings of a module what every daemon of a gateway needs."""
    own = {"OPENCLAW_CONFIG_PATH": str(room.config)}
    return {"TASKMEM_WAKE_TRANSPORT": "auto", "TASKMEM_OPENCLAW_CLI_TEXT": "", **own, **settings}


HOSTS_OWN = ("spawn-broker/worker.js", "OPENCLAW_PREPEND_PATH")
"""In the command lines of processes that a killed gateway leaves: commands of its agents."""


@contextmanager
def shared_house(
    openclaw: OpenClaw,
    folder: Path,
    settings: Mapping[str, str],
    configure: Callable[[dict[str, Any]], object] = lambda _: None,
) -> Iterator[tuple[House, Scripts]]:
    """A gateway with the plug-in, its daemon, and a model that follows scripts."""
    room = Room(folder)
    scripts = Scripts()
    with ScriptedModel(decide=scripts, most=MOST_REQUESTS) as model:
        taskmem = Taskmem(room, complete_settings(room, settings))
        gateway = Gateway(openclaw, room, model.url, plugins=plugins(taskmem))
        gateway.reconfigure(configure)
        taskmem.run("daemon", "--detach")
        try:
            gateway.start()
            taskmem.wait_for_plugin()
            yield House(gateway, model, taskmem, folder), scripts
        finally:
            gateway.kill()
            taskmem.stop()
        left = room.left_behind()
        ours = [each for each in left.values() if not any(mark in each for mark in HOSTS_OWN)]
        assert not ours, f"processes left behind: {ours}"
        assert not model.errors, model.errors


def equip(folder: Path) -> Callable[[dict[str, Any]], None]:
    """What one module or another needs of a gateway.

    That is a phone, a model that takes pictures, and a second agent.
    """
    first = {"workspace": str(folder / "state" / "workspace")}

    def configure(found: dict[str, Any]) -> None:
        connect_phone(found, folder / PHONE)
        [model] = found["models"]["providers"]["local"]["models"]
        model["input"] = ["text", "image"]
        found["agents"]["entries"] = {"main": first, "other": {}}

    return configure


class SharedGateway:
    """One gateway for module after module: it takes half a minute of CPU until it works.

    Each finds a taskmem without any task, with its own settings, and a workspace, a main
    session and a configuration as they were. Other sessions are told apart by their names.
    """

    def __init__(self, openclaw: OpenClaw, make_folder: Callable[[], Path]) -> None:
        self._openclaw, self._make_folder = openclaw, make_folder
        self._stack = ExitStack()
        self._house: House | None = None
        self._config: dict[str, Any] = {}
        self._before: set[str] = set()
        """Sessions of modules before: what ends there later is nothing to the next."""
        self.is_spoiled = False
        """Whether a test has failed with it: the next module gets another."""

    @contextmanager
    def lend(self, settings: Mapping[str, str]) -> Iterator[tuple[House, Scripts]]:
        """Lend it to a module; one that has ended, or that a test failed with, is replaced."""
        used = self._house
        if used is not None and not (self.is_spoiled or used.gateway.has_ended):
            self._house, scripts = self._renew(used, settings)
        else:
            self.close()
            folder = self._make_folder()
            house = shared_house(self._openclaw, folder, settings, equip(folder))
            self._house, scripts = self._stack.enter_context(house)
            self._config = json.loads(self._house.gateway.room.config.read_text())
        model = self._house.model
        yield self._house, scripts
        errors, model.errors = model.errors, []
        assert not errors, errors

    def close(self) -> None:
        """End it; none that runs is fine."""
        self._house, self.is_spoiled = None, False
        self._before.clear()
        self._stack.close()

    def _renew(self, used: House, settings: Mapping[str, str]) -> tuple[House, Scripts]:
        gateway, model, taskmem = used.gateway, used.model, used.taskmem
        gateway.end_commands()
        # A turn of the module before may still end: it meets no script, and its own daemon.
        with gateway.rpc() as rpc:
            listed = rpc.call("sessions.list", limit=1000)["sessions"]
        self._before |= {each["key"] for each in listed} - {MAIN_SESSION}
        model.is_stranger = lambda request: session_of(request) in self._before
        scripts = model.decide = Scripts()
        before = used.taskmem = replace(taskmem)
        room = replace(taskmem.room, number=taskmem.room.number + 1)
        gateway.room = taskmem.room = room
        taskmem.settings = complete_settings(room, settings)
        taskmem.run("daemon", "--detach")
        gateway.clear_workspace()
        with gateway.rpc() as rpc:
            rpc.call("sessions.reset", key=MAIN_SESSION)
        model.requests.clear()
        model.most += MOST_REQUESTS
        house = House(gateway, model, taskmem, self._make_folder())
        self._config["plugins"]["entries"]["taskmem"]["config"]["home"] = str(room.taskmem)
        house.take_up(json.dumps(self._config, indent=2), lambda: house.boots)
        taskmem.wait_for_plugin()
        before.stop()
        return house, scripts
