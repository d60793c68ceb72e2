"""A home after a night in which much went on: what the pages and their pictures show."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from tests.support.daemons import Daemon
from tests.support.reporter import MAIN, Reporter
from tests.support.waiting import until

REPORTS, NIGHT, GUIDE = "agent:main:reports", "agent:main:night", "agent:main:guide"
REFUSED = """\
backup@safe: Permission denied (publickey).
rsync error: unexplained error (code 255) at io.c(232)"""
REPORT = """\
# Third quarter

Sales rose by 8 % to 412,300 EUR; three of four regions grew.

| region | orders | sales, EUR | against Q2 |
| ------ | -----: | ---------: | ---------: |
| North  |  1,204 |    118,900 |      +11 % |
| East   |    987 |     96,400 |       +9 % |
| South  |  1,310 |    131,700 |      +12 % |
| West   |    702 |     65,300 |       -6 % |

## Refunds

Refunds doubled in August, from 2.1 % to 4.3 % of the orders. 61 of 88 are of one
article, the lamp L-204, whose plug does not fit; it has not been sold since 2 September.

## What is missing

The figures of West for the last two days of September are estimates: its shop
delivers them on Monday.
"""
LOG = """\
#9 [4/6] RUN npm ci
#9 21.7 added 684 packages in 21s
#11 [6/6] RUN npm run build
#11 3.1 rendered page 1 of 8
#11 6.4 rendered page 2 of 8
#11 9.8 rendered page 3 of 8
#11 13.2 rendered page 4 of 8
"""


def write_chain() -> str:
    """Return what looks like two certificates: lines of chance, the same each time."""
    blocks = []
    for seed, size in enumerate((1290, 1070)):
        body = b64encode(Random(seed).randbytes(size)).decode()  # noqa: S311 - no key
        lines = "\n".join(body[n : n + 64] for n in range(0, len(body), 64))
        blocks.append(f"-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n")
    return "".join(blocks)


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
        """Let a night pass, up to now."""
        self._fail("backup", "Nightly backup", NIGHT)
        self._complete("certificates", "Renew the certificates", NIGHT)
        self._ask("browser", "Test the checkout", "agent:main:checkout")
        self._review("report", "Quarterly report", REPORTS)
        self._wait("deploy", "Deploy coursefolio", MAIN)
        self._work("guide", "Translate the guide", GUIDE)

    def pass_time(self, minutes_left: float) -> None:
        """Turn the daemon's clock, so many minutes before now."""
        (self.daemon.home.folder / "turned").write_text(str(-60 * minutes_left))

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

    def _count_looks(self, task: str) -> int:
        """Return how much of what a task made was looked at; its clock stands still meanwhile."""
        return sum(bool(each["looked_at"]) for each in self.daemon.ask("show", id=task)["proofs"])

    def _fail(self, name: str, title: str, session: str) -> None:
        self.pass_time(463)
        task = self.begin(name, title, session, "Dump the database", "Copy it to the safe")
        dumped = {"about": "pg_dump shop > dump.sql", "folders": [str(self.folder)]}
        self._gateway.report_call_start(session, command=True, **dumped)
        (self.folder / "dump.sql").write_text("CREATE TABLE orders (id integer);\n")
        self.pass_time(449)
        self._gateway.report_call_end(session, command=True, outcome="", **dumped)
        self.call(session, "task_update", task_id=task, message="Step 1 done: dump.sql, 214 MB.")
        copy = {"about": "rsync dump.sql backup@safe:", "outcome": REFUSED, "exit_code": 255}
        self._gateway.report_tool_call(session, **copy)
        self.pass_time(446)
        said = "The safe refuses the key since its last update: Permission denied (publickey)."
        self.call(session, "task_abort", task_id=task, reason=said)
        self._gateway.end_turn(session, "I could not copy it.")

    def _complete(self, name: str, title: str, session: str) -> None:
        self.pass_time(371)
        made = self.folder / "fullchain.pem"
        plan = ("Order the certificate", "Write fullchain.pem")
        artifacts = {"artifacts": [str(made)]}
        task = self.begin(name, title, session, *plan, metadata=artifacts)
        made.write_text(write_chain())
        order = {"about": "certbot certonly --webroot -w /srv/shop -d shop.example"}
        self._gateway.report_tool_call(session, **order, outcome="Certificate is saved.\n")
        self.pass_time(368)
        self.call(session, "task_update", task_id=task, completed_steps=[1, 2])
        self.call(session, "task_update", task_id=task, status="completed", message="Renewed.")
        until(lambda: self._count_looks(task), "the certificate was looked at")
        self._gateway.end_turn(session, "The certificate is renewed.")

    def _ask(self, name: str, title: str, session: str) -> None:
        self.pass_time(287)
        plan = ("Start the shop", "Run the checkout tests", "Report")
        task = self.begin(name, title, session, *plan)
        started = "Step 1 done: the shop answers on port 8080."
        self.call(session, "task_update", task_id=task, message=started)
        asked = {
            "ask": "Which browser shall the tests use?",
            "ask_options": ["Firefox", "Chromium"],
        }
        self.pass_time(281)
        self.call(session, "task_update", task_id=task, **asked)
        self._gateway.end_turn(session, "Which browser shall the tests use?")

    def _review(self, name: str, title: str, session: str) -> None:
        self.pass_time(164)
        plan = ("Collect the figures", "Write report.md")
        folder = self.folder / "quarter"
        folder.mkdir()
        report = folder / "report.md"
        artifacts = {"artifacts": [str(report)]}
        task = self.begin(name, title, session, *plan, metadata=artifacts)
        command = {"about": "make quarter", "folders": [str(folder)], "command": True}
        self._gateway.report_call_start(session, **command)
        self.pass_time(151)
        report.write_text(REPORT)
        self._gateway.report_call_end(session, **command, outcome="")
        write_later(folder / "notes.txt", "Ask Monday's figures of West from Ines.\n")
        self.pass_time(96)
        self.call(session, "task_update", task_id=task, completed_steps=[1, 2])
        note = "The refunds doubled, and West is estimated. Please read the last two parts."
        self.call(session, "task_handoff", task_id=task, note=note)
        until(lambda: self._count_looks(task), "the report was looked at")
        self._gateway.end_turn(session, "Please review it.")

    def _wait(self, name: str, title: str, session: str) -> None:
        self.pass_time(38)
        plan = ("Run the tests", "Build the image", "Push it", "Watch the first hour")
        task = self.begin(name, title, session, *plan)
        self._gateway.report_tool_call(session, about="npm test", outcome="214 passed (3m 12s)\n")
        self.pass_time(34)
        self.call(session, "task_update", task_id=task, message="Step 1 done: 214 tests passed.")
        self.log.write_text("")
        target = {"target": f"pty:file:{self.log}", "wake_when": '"Build finished" appears'}
        opened = self.call(session, "smart_wait", task_id=task, timeout=7200, **target)
        self.wait = str(opened["wait_id"])
        with self.log.open("a") as log:
            log.write(LOG)
        self._gateway.end_turn(session, "I wait for the build.")

    def _work(self, name: str, title: str, session: str) -> None:
        self.pass_time(21)
        plan = ("Read the guide", "Translate chapter 1", "Translate chapter 2", "Proofread")
        task = self.begin(name, title, session, *plan)
        count = {"about": "wc -w chapter1.md chapter2.md", "outcome": "4312 chapter1.md\n"}
        self._gateway.report_tool_call(session, **count)
        read = "Step 1 done: two chapters, 9,840 words."
        self.call(session, "task_update", task_id=task, message=read)
        self.pass_time(2)
        self._gateway.report_call_start(session, about="pandoc chapter1.md --to=gfm | translate")
        self.pass_time(0)


@contextmanager
def play_showcase(daemon: Daemon, folder: Path) -> Iterator[Showcase]:
    """Play the showcase on a daemon, and hang up at the end."""
    shown = Showcase(daemon, folder)
    try:
        shown.play()
        yield shown
    finally:
        shown.close()
