"""A gateway with the plug-in in it, and waits that end when a test says so."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openclaw_taskmem.cli.client import LinkError, connect
from openclaw_taskmem.home import find_home
from tests.e2e.gateway import MAIN_SESSION, Gateway
from tests.e2e.room import until
from tests.e2e.scripted_model import ModelRequest, ScriptedModel
from tests.e2e.taskmem import Taskmem

RESOLVED = re.compile(r"\[system\] smart_wait resolved \((wait_\w+)\)")


@dataclass
class House:
    """Everything that a test of wakes needs."""

    gateway: Gateway
    model: ScriptedModel
    taskmem: Taskmem
    folder: Path
    _log: Path = field(init=False)

    def __post_init__(self) -> None:
        self._log = self.folder / "watched.log"
        self._log.touch()

    def ask(self, method: str, **params: Any) -> Any:
        """Ask the daemon that runs, without the time that a command takes."""
        with connect(find_home(self.taskmem.environment)) as link:
            return link.call(method, params, 120)

    @property
    def answers(self) -> bool:
        """Whether a daemon answers."""
        try:
            return bool(self.ask("status"))
        except LinkError:
            return False

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool."""
        return self.ask("call", tool=tool, arguments=arguments)

    @property
    def boots(self) -> set[str]:
        """The starts of the plug-ins that are connected."""
        return {each["boot"] for each in self.ask("status")["gateways"]}

    def take_up(self, text: str, is_taken: Callable[[], object]) -> None:
        """Give the gateway a configuration while it runs, and wait until it has taken it up.

        It refuses a change of a plug-in that is at work, and forgets it.
        """

        def is_taken_soon() -> bool:
            self.gateway.wait_until_idle(MAIN_SESSION)
            self.gateway.room.config.write_text(text)
            with suppress(AssertionError):
                return bool(until(is_taken, "it is taken up", 20))
            return False

        until(is_taken_soon, "the gateway has taken it up", shown=self.gateway.report)

    def load_anew(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Change the gateway's configuration so that our plug-in is loaded anew with it."""
        before, found = self.boots, json.loads(self.gateway.room.config.read_text())
        change(found)
        self.take_up(json.dumps(found, indent=2), lambda: self.boots - before)

    def open_wait(self, phrase: str, session: str = MAIN_SESSION) -> str:
        """Wait for a phrase in the log; its id."""
        return self.call(
            "smart_wait",
            target=f"pty:file:{self._log}",
            wake_when=f'"{phrase}" appears',
            session_key=session,
            timeout=3000,
        )["wait_id"]

    def end(self, *phrases: str) -> None:
        """Let the waits for these phrases end."""
        with self._log.open("a") as log:
            log.write("".join(f"{phrase}\n" for phrase in phrases))

    def wake(self, phrase: str, session: str = MAIN_SESSION) -> str:
        """Owe one wake; the id of its wait."""
        wait_id = self.open_wait(phrase, session)
        self.end(phrase)
        return wait_id

    def wake_of(self, wait_id: str) -> dict[str, Any]:
        """The wake of a wait, as soon as there is one."""

        def find_wake() -> dict[str, Any] | None:
            rows = self.ask("wakes", all=True)
            return next((row for row in rows if row["wait_id"] == wait_id), None)

        return until(find_wake, f"{wait_id} owes a wake")

    def reaches(self, wait_id: str, state: str, limit: float = 120) -> dict[str, Any]:
        """The wake of a wait, once it is in a state."""

        def read_wake() -> dict[str, Any]:
            return self.wake_of(wait_id)

        until(lambda: read_wake()["state"] == state, state, limit, shown=read_wake)
        return read_wake()

    def arrivals(self, wait_id: str) -> int:
        """How many turns began with the wake of a wait."""
        return sum(wait_id in woken_by(request) for request in self.model.requests)


def woken_by(request: ModelRequest) -> list[str]:
    """The waits whose ends a request begins a turn with."""
    return RESOLVED.findall(request.turn.text) if request.opens_turn else []
