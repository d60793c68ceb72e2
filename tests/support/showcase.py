"""A home in which much goes on: what the page and the pictures in the documentation show."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.daemons import Daemon
from tests.support.reporter import MAIN, Reporter

REPORTS, NIGHT, GUIDE = "agent:main:reports", "agent:main:night", "agent:main:guide"


FINE = 25_000_000
"""Nanoseconds that stamps of files surely tell apart."""


def write_later(path: Path, text: str) -> None:
    """Write a file until its stamps are later than all that was before."""
    path.write_text(text)
    first = path.stat().st_mtime_ns
    while path.stat().st_ctime_ns - first < FINE:
        path.write_text(text)


class Showcase:
    """Tasks of several sessions of a gateway, each in another state."""

    def __init__(self, daemon: Daemon, folder: Path) -> None:
        """`folder`: where its agents work; it is empty."""
        self.daemon = daemon
        self.folder = folder
        self.log = folder / "build.log"
        """The log that the task `deploy` waits for."""
        self.tasks: dict[str, str] = {}
        """Ids of the tasks by a short name."""
        self.wait = ""
        self._gateway = Reporter(daemon.home, 3600.0, folder=str(folder))

    def close(self) -> None:
        """Let the gateway hang up."""
        self._gateway.__exit__()

    def play(self) -> None:
        """Let it all happen."""
        self._fail("backup", "Nightly backup", NIGHT)
        self._complete("certificates", "Renew the certificates", NIGHT)
        self._ask("browser", "Test the checkout", "agent:main:checkout")
        self._review("report", "Quarterly report", REPORTS)
        self._wait("deploy", "Deploy coursefolio", MAIN)
        self._work("guide", "Translate the guide", GUIDE)

    def begin(self, name: str, title: str, session: str, *plan: str, **given: Any) -> str:
        """Let a turn of a session register a task; its id."""
        self._gateway.begin_turn(session)
        made = self.call(session, "task_register", name=title, plan=[*plan], **given)
        self.tasks[name] = str(made["task_id"])
        return self.tasks[name]

    def call(self, session: str, tool: str, **given: Any) -> dict[str, Any]:
        """Call a tool for a session's agent."""
        return self._gateway.call(session, tool, **given)

    def report_tool_call(self, session: str, **given: Any) -> None:
        """Let a session's agent call a tool that is not ours."""
        self._gateway.report_tool_call(session, **given)

    def _fail(self, name: str, title: str, session: str) -> None:
        task = self.begin(name, title, session, "Dump the database", "Copy it to the safe")
        self._gateway.report_tool_call(session, about="pg_dump shop > dump.sql", outcome="")
        self.call(session, "task_update", task_id=task, message="Step 1 done: dump.sql, 214 MB.")
        refused = "backup@safe: Permission denied (publickey).\nrsync error: exit code 255"
        copy = {"about": "rsync dump.sql backup@safe:", "outcome": refused, "exit_code": 255}
        self._gateway.report_tool_call(session, **copy)
        said = "The safe refuses the key: Permission denied (publickey)."
        self.call(session, "task_abort", task_id=task, reason=said)
        self._gateway.end_turn(session, "I could not copy it.")

    def _complete(self, name: str, title: str, session: str) -> None:
        made = self.folder / "fullchain.pem"
        plan = ("Order the certificate", "Write fullchain.pem")
        artifacts = {"artifacts": [str(made)]}
        task = self.begin(name, title, session, *plan, metadata=artifacts)
        made.write_text("-----BEGIN CERTIFICATE-----\nMIIB\n")
        self._gateway.report_tool_call(session)
        self.call(session, "task_update", task_id=task, completed_steps=[1, 2])
        self.call(session, "task_update", task_id=task, status="completed", message="Renewed.")
        self._gateway.end_turn(session, "The certificate is renewed.")

    def _ask(self, name: str, title: str, session: str) -> None:
        plan = ("Start the shop", "Run the checkout tests", "Report")
        task = self.begin(name, title, session, *plan)
        self.call(session, "task_update", task_id=task, message="Step 1 done")
        asked = {
            "ask": "Which browser shall the tests use?",
            "ask_options": ["Firefox", "Chromium"],
        }
        self.call(session, "task_update", task_id=task, **asked)
        self._gateway.end_turn(session, "Which browser shall the tests use?")

    def _review(self, name: str, title: str, session: str) -> None:
        plan = ("Collect the figures", "Write report.md")
        folder = self.folder / "quarter"
        folder.mkdir()
        report = folder / "report.md"
        artifacts = {"artifacts": [str(report)]}
        task = self.begin(name, title, session, *plan, metadata=artifacts)
        command = {"about": "make quarter", "folders": [str(folder)], "command": True}
        self._gateway.report_call_start(session, **command)
        report.write_text("# Third quarter\n\nAll is well.\n")
        self._gateway.report_call_end(session, **command, outcome="")
        write_later(folder / "notes.txt", "Of somebody else.\n")
        self.call(session, "task_update", task_id=task, completed_steps=[1, 2])
        self.call(session, "task_handoff", task_id=task, note="Please read page 2.")
        self._gateway.end_turn(session, "Please review it.")

    def _wait(self, name: str, title: str, session: str) -> None:
        plan = ("Build the image", "Run the tests", "Push it", "Watch the first hour")
        task = self.begin(name, title, session, *plan)
        self._gateway.report_tool_call(session)
        self.call(session, "task_update", task_id=task, message="Step 1 done: image 4f2a.")
        self.log.write_text("")
        target = {"target": f"pty:file:{self.log}", "wake_when": '"Build finished" appears'}
        opened = self.call(session, "smart_wait", task_id=task, timeout=3600, **target)
        self.wait = str(opened["wait_id"])
        with self.log.open("a") as log:
            log.write("page 3 of 8\npage 4 of 8\n")
        self._gateway.end_turn(session, "I wait for the build.")

    def _work(self, name: str, title: str, session: str) -> None:
        plan = ("Read the guide", "Translate chapter 1", "Translate chapter 2", "Proofread")
        task = self.begin(name, title, session, *plan)
        self.call(session, "task_update", task_id=task, message="Step 1 done")
        self._gateway.report_call_start(session, about="pandoc chapter1.md --to=gfm | translate")


@contextmanager
def play_showcase(daemon: Daemon, folder: Path) -> Iterator[Showcase]:
    """Play the showcase on a daemon, and hang up at the end."""
    shown = Showcase(daemon, folder)
    try:
        shown.play()
        yield shown
    finally:
        shown.close()
