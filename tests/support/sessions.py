"""An agent's session in a gateway, as its plug-in would report it to a `World`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from openclaw_taskmem.domain.callers import Caller, GatewayPresence
from openclaw_taskmem.domain.changes.continuation import Origin, Turn
from openclaw_taskmem.domain.effects.checkpoints import CallEndEntry, CallStartEntry, digest_text
from openclaw_taskmem.domain.tasks.ledger import FileTouch
from openclaw_taskmem.domain.wakes.outbox import GATEWAY_RECOVERY_TIME
from openclaw_taskmem.engine import gateway_reports, run_recovery, turns
from openclaw_taskmem.engine.ledger import FileActivity
from openclaw_taskmem.engine.turns import ReportContext
from taskmem_hookspecs import EventQuery, FileChange, Owner, Run, RunQuery, RunState
from taskmem_hookspecs.packet import ConversationMessage
from tests.support.world import PLAN, World

MAIN = "agent:main:main"
A_WHILE = timedelta(minutes=10)
"""By how much the clock of a world that has files may be behind that of the machine."""


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
    def reported_session(self) -> ReportContext:
        """As the plug-in tells of it."""
        return ReportContext(
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
        turns.end_left_tasks(self.world.context, self.reported_session, origin)
        return turns.record_turn_start(self.world.context, self.reported_session, origin)

    def takes_up(self, origin: Origin = Origin.USER, **given: Any) -> str:
        """Begin a turn, and register a task in it; its id."""
        self.begins(origin)
        return self.register(**given)

    def works(self) -> str:
        """Begin a turn, register a task in it, and begin to work; its id."""
        task = self.takes_up()
        self.does("echo one")
        return task

    def calls(self, about: str, tool: str = "exec", deed: FileActivity | None = None) -> str:
        """Begin a call of a tool; its id."""
        self._number += 1
        call_id = f"{self.key}:{self._number}"
        entry = CallStartEntry(call_id=call_id, tool=tool, about=about)
        if deed is not None:
            text = about if deed.command else ""
            deed = deed.model_copy(update={"call_id": call_id, "text": text})
        context, heard = self.world.context, self.reported_session
        if not turns.record_call_start(context, heard, entry, deed):
            turns.note_call(context, heard, entry, self.request)
        return call_id

    def does(
        self,
        about: str,
        outcome: str = "done",
        *,
        tool: str = "exec",
        said: tuple[ConversationMessage, ...] = (),
        ok: bool = True,
        deed: FileActivity | None = None,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> None:
        """Call a tool from its beginning to its end."""
        call_id = self.calls(about, tool, deed)
        meanwhile()
        if deed is not None:
            text = about if deed.command else ""
            deed = deed.model_copy(update={"call_id": call_id, "text": text})
        entry = CallEndEntry(
            call_id=call_id, tool=tool, about=about, outcome=outcome, ok=ok, said=said
        )
        context, report = self.world.context, self.reported_session
        given, result = digest_text(f"{tool} {about}"), digest_text(outcome)
        if not turns.record_call_end(context, report, entry, deed, given=given, result=result):
            turns.note_call_end(context, report, entry)

    def writes(self, path: Path, text: str = "All is well.", tool: str = "write") -> None:
        """Write a file with a tool for it."""
        change = FileChange.CHANGED if path.exists() else FileChange.CREATED
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        touch = FileTouch(path=str(path), change=change)
        deed = FileActivity(touched=(touch,), folders=(str(path.parent),))
        self.does(str(path), tool=tool, deed=deed)

    def runs_in(self, folder: Path, command: str, run: Callable[[], object] | None = None) -> None:
        """Run a command in a folder: really, or what stands for it."""

        def really() -> None:
            subprocess.run(["/bin/sh", "-c", command], check=True, cwd=folder)

        def run_in_time() -> None:
            (run or really)()
            context = self.world.context
            late = datetime.now(UTC) - context.measure_lead() - context.clock.now()
            if timedelta() < late < A_WHILE:  # files have the time of the machine
                self.world.clock.tick(late.total_seconds())

        deed = FileActivity(folders=(str(folder),), command=True)
        self.does(command, deed=deed, meanwhile=run_in_time)

    def ends(self, said: str = "More to come.", **turn: Any) -> None:
        """End a turn."""
        turns.forget_calls(self.world.context, self.reported_session)
        turn = {"origin": Origin.TASKMEM, "calls": 1, **turn, "said": said}
        turns.settle_turn_end(self.world.context, self.reported_session, Turn(**turn))

    def asks(self, question: str, **turn: Any) -> None:
        """Ask the user something for the task that is worked on, and end the turn."""
        context = self.world.context
        open_ = context.store.find_runs(RunQuery(session_key=self.key))
        run = next(run for run in open_ if run.state is RunState.RUNNING)
        self.call("task_update", task_id=run.task_id, ask=question)
        self.ends(question, **turn)

    def run(self, task_id: str) -> Run:
        """The newest run of a task."""
        return self.world.store.find_runs(RunQuery(task_id=task_id, limit=1))[0]

    def restarts(self, boot: str, *, running: bool = False) -> GatewayPresence:
        """Start the gateway anew, and let its own recovery have its time."""
        self.boot = boot
        self.gateway_started_at = self.world.clock.now()
        presence = GatewayPresence(
            boot=boot,
            transport="openclaw-plugin",
            version="0",
            started_at=self.gateway_started_at,
            main_session=MAIN,
            running={self.key: self.world.clock.now()} if running else {},
            fingerprints={} if self.fingerprint is None else {"main": self.fingerprint},
        )
        gateway_reports.handle_gateway_start(self.world.context, presence)
        return presence

    def settles(self, presence: GatewayPresence) -> None:
        """Let the time pass that a gateway's own recovery has."""
        self.world.clock.tick((GATEWAY_RECOVERY_TIME + timedelta(seconds=1)).total_seconds())
        run_recovery.sweep_lapsed_runs(self.world.context, (presence,))

    @property
    def lines(self) -> list[str]:
        """What its user was told, oldest first."""
        events = self.world.store.find_events(EventQuery())
        return [
            str(event.data["line"])
            for event in events
            if event.data.get("session_key") == self.key and "line" in event.data
        ]
