"""An agent's session in a gateway, as its plug-in would report it to a `World`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.checkpoints import Began, Ended, digest
from openclaw_taskmem.domain.gateway import SETTLES, Presence
from openclaw_taskmem.domain.ledger import Touch
from openclaw_taskmem.domain.turns import Origin, Turn
from openclaw_taskmem.engine import gateway, implicit, recovery, turn_ends, turns
from openclaw_taskmem.engine.ledger import Deed
from openclaw_taskmem.engine.turns import Call, Heard
from taskmem_hookspecs import (
    ConversationMessage,
    EventQuery,
    FileChange,
    Owner,
    Run,
    RunQuery,
    RunState,
)
from tests.support.world import PLAN, World

MAIN = "agent:main:main"


@dataclass
class Session:
    """What one session does, one verb each; nothing here helps but the hooks."""

    world: World
    key: str = MAIN
    boot: str = "boot_1"
    role: str = "main"
    fingerprint: str | None = "as it was"
    folder: str | None = None
    gateway_started_at: datetime | None = None
    in_turn: bool = True
    """Whether a turn of it runs; where none does, its calls are its sub-agents'."""
    turn_since: datetime | None = None
    """When its turn began, as its gateway knows it."""
    request: str | None = None
    """What its user says in its turns; None: no turn of it is a user's."""
    _number: int = 0

    @property
    def owner(self) -> Owner:
        """As whom it holds runs."""
        return Owner(role=self.role, session_key=self.key, boot=self.boot)

    @property
    def caller(self) -> Caller:
        """As whom its agent calls."""
        return Caller(
            session_key=self.key,
            owner=self.owner,
            in_turn=self.in_turn,
            turn_since=self.turn_since,
            folder=self.folder,
            request=self.request,
        )

    @property
    def heard(self) -> Heard:
        """As the plug-in tells of it."""
        return Heard(
            owner=self.owner,
            gateway_started_at=self.gateway_started_at,
            in_turn=self.in_turn,
            turn_since=self.turn_since,
            folder=self.folder,
            fingerprint=self.fingerprint,
        )

    def call(self, tool: str, **given: Any) -> dict[str, Any]:
        """Call one of our tools."""
        return self.world.call(tool, self.caller, **given)

    def register(self, **given: Any) -> str:
        """Register a task in this session; its id."""
        given = {"name": "Deploy", "plan": PLAN, **given}
        return str(self.call("task_register", **given)["task_id"])

    def begins(self, origin: Origin = Origin.USER) -> bool:
        """Begin a turn; False: it must not go on."""
        implicit.begin_turn(self.world.shell, self.heard, origin)
        return turns.turn_began(self.world.shell, self.heard, origin)

    def takes_up(self, origin: Origin = Origin.USER, **given: Any) -> str:
        """Begin a turn, and register a task in it; its id."""
        self.begins(origin)
        return self.register(**given)

    def works(self) -> str:
        """Begin a turn, register a task in it, and begin to work; its id."""
        task = self.takes_up()
        self.does("echo one")
        return task

    def calls(self, about: str, tool: str = "exec", deed: Deed | None = None) -> str:
        """Begin a call of a tool; its id."""
        self._number += 1
        call_id = f"{self.key}:{self._number}"
        entry = Began(call_id=call_id, tool=tool, about=about)
        if deed is not None:
            text = about if deed.command else ""
            deed = deed.model_copy(update={"call_id": call_id, "text": text})
        shell, heard = self.world.shell, self.heard
        if not turns.call_began(shell, heard, entry, deed):
            implicit.note_call(shell, heard, entry, self.request)
        return call_id

    def does(
        self,
        about: str,
        outcome: str = "done",
        *,
        tool: str = "exec",
        said: tuple[ConversationMessage, ...] = (),
        ok: bool = True,
        deed: Deed | None = None,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> None:
        """Call a tool from its beginning to its end."""
        call_id = self.calls(about, tool, deed)
        meanwhile()
        if deed is not None:
            text = about if deed.command else ""
            deed = deed.model_copy(update={"call_id": call_id, "text": text})
        entry = Ended(
            call_id=call_id,
            tool=tool,
            about=about,
            outcome=outcome,
            ok=ok,
            said=said,
        )
        given = Call(given=digest(f"{tool} {about}"), result=digest(outcome))
        if not turns.call_ended(self.world.shell, self.heard, entry, given, deed):
            implicit.note_call_end(self.world.shell, self.heard, entry)

    def writes(self, path: Path, text: str = "All is well.") -> None:
        """Write a file with the tool for it."""
        change = FileChange.CHANGED if path.exists() else FileChange.CREATED
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        touch = Touch(path=str(path), change=change)
        deed = Deed(touched=(touch,), folders=(str(path.parent),))
        self.does(str(path), tool="write", deed=deed)

    def runs_in(
        self, folder: Path, command: str, run: Callable[[], object] | None = None
    ) -> None:
        """Run a command in a folder: really, or what stands for it."""

        def really() -> None:
            subprocess.run(["/bin/sh", "-c", command], check=True, cwd=folder)

        deed = Deed(folders=(str(folder),), command=True)
        self.does(command, deed=deed, meanwhile=run or really)

    def ends(self, said: str = "More to come.", **turn: Any) -> None:
        """End a turn."""
        implicit.forget_calls(self.world.shell, self.heard)
        turn = {"origin": Origin.TASKMEM, "calls": 1, **turn, "said": said}
        turn_ends.turn_over(self.world.shell, self.heard, Turn(**turn))

    def asks(self, question: str, **turn: Any) -> None:
        """Ask the user something for the task that is worked on, and end the turn."""
        shell = self.world.shell
        open_ = shell.store.find_runs(RunQuery(session_key=self.key))
        run = next(run for run in open_ if run.state is RunState.RUNNING)
        self.call("task_update", task_id=run.task_id, ask=question)
        self.ends(question, **turn)

    def run(self, task_id: str) -> Run:
        """The newest run of a task."""
        return self.world.store.find_runs(RunQuery(task_id=task_id, limit=1))[0]

    def restarts(self, boot: str, *, running: bool = False) -> Presence:
        """Start the gateway anew, and let its own recovery have its time."""
        self.boot = boot
        self.gateway_started_at = self.world.clock.now()
        presence = Presence(
            boot=boot,
            transport="openclaw-plugin",
            version="0",
            started_at=self.gateway_started_at,
            main_session=MAIN,
            running={self.key: self.world.clock.now()} if running else {},
            fingerprints={} if self.fingerprint is None else {"main": self.fingerprint},
        )
        gateway.started(self.world.shell, presence)
        return presence

    def settles(self, presence: Presence) -> None:
        """Let the time pass that a gateway's own recovery has."""
        self.world.clock.tick((SETTLES + timedelta(seconds=1)).total_seconds())
        recovery.sweep(self.world.shell, (presence,))

    @property
    def lines(self) -> list[str]:
        """What its user was told, oldest first."""
        events = self.world.store.find_events(EventQuery())
        return [
            str(event.data["line"])
            for event in events
            if event.data.get("session_key") == self.key and "line" in event.data
        ]
