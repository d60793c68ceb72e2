"""Print every list as `taskmem` does, from answers of a daemon that are always the same.

Run in a terminal by `tests/cli/test_in_a_terminal.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from unittest.mock import patch

import click

from openclaw_taskmem.cli import doctor, doctor_rows, list_commands, task_text
from openclaw_taskmem.domain.text.texts import MIB
from openclaw_taskmem.home import locate_home
from taskmem_hookspecs import DoctorRow, DoctorState

NOW = "2026-11-27T06:00:00.000Z"
LONG = "Translate the whole guide for beginners, with all of its pictures and tables"


def line(number: int, name: str, section: str, says: str, **fields: Any) -> dict[str, Any]:
    """A task as the daemon lists it."""
    return {
        "number": number,
        "task_id": f"task_1m8dna72m9hyky{number:02}",
        "name": name,
        "status": "active",
        "section": section,
        "standing": section.replace("_", " "),
        "says": says,
        "done": 2,
        "steps": 4,
        "step": "Run the tests of the shop",
        "step_number": 3,
        "activity": None,
        "cost": "",
        "made": "",
        "judged": "",
        "unproved": "",
        "since": "2026-11-27T05:58:00.000Z",
        "who": "main in OpenClaw, session main",
        "session_key": "agent:main:main",
        "question": None,
        "options": [],
        "actions": ["pause", "cancel"],
        **fields,
    }


ASKS = line(
    1,
    "Deploy coursefolio",
    "needs_you",
    "asks: Which browser shall the tests use, and on which of the two machines?",
    actions=["answer", "pause", "cancel"],
    question="Which browser shall the tests use, and on which of the two machines?",
)
FAILED = line(
    2,
    "Nightly backup",
    "needs_you",
    "failed: The safe refuses the key.",
    status="failed",
    standing="failed",
    activity={
        "what": "rsync dump.sql backup@safe:",
        "at": "2026-11-26T21:59:00.000Z",
        "is_call": True,
        "running": False,
        "failed": True,
        "outcome": "backup@safe: Permission denied (publickey).",
    },
    actions=["resume"],
    since="2026-11-26T22:00:00.000Z",
)
WORKS = line(
    3,
    LONG,
    "at_work",
    "at work",
    who="translator in Codex, session 019b0000…",
    activity={
        "what": "pandoc chapter2.md",
        "at": "2026-11-27T05:58:00.000Z",
        "is_call": True,
        "running": True,
        "failed": False,
        "outcome": "",
    },
)
WAITS = line(4, "Build", "waiting", 'waits for build.log until it ends. Last line: "page 4 of 8".')
DONE = line(
    5,
    "Café ☕ 日本語",
    "ended",
    "completed",
    status="completed",
    done=4,
    step=None,
    made="made chapter-1.md, seen to exist",
    checked="chapter-1.md exists, created during the task, 14 KB. Only that was checked.",
    unproved="not verified: chapter-2.md",
)
OVERVIEW = {
    "now": NOW,
    "sections": {
        "needs_you": [ASKS, FAILED],
        "at_work": [WORKS],
        "waiting": [WAITS],
        "idle": [],
        "ended": [DONE],
    },
    "unlisted": 19_950,
    "unlisted_failed": 12,
    "all_ended": False,
}
WAIT = {
    "wait_id": "wait_1m8dna74g992ck1r",
    "status": "watching",
    "target": "pty:file:/home/user/shop/build.log",
    "wake_when": '"Build finished" appears, or the build fails',
    "created_at": "2026-11-27T05:58:00.000Z",
    "last_observation": 'Last line: "page 4 of 8".',
}
WAKE = {
    "wake_id": "wake_1m8dna74g99aaaaa",
    "state": "sent",
    "cause": "wait",
    "due_at": "2026-11-27T06:10:00.000Z",
    "created_at": "2026-11-27T05:59:00.000Z",
    "attempts": 1,
    "last_error": None,
    "text": "[system] smart_wait resolved: 'Build finished' appeared after 47 s",
}
RUN = {
    "task_name": LONG,
    "state": "blocked",
    "why": "prompt_changed",
    "owner": {"role": "main"},
    "role": "main",
    "session_key": "agent:main:main",
    "created_at": "2026-11-27T04:00:00.000Z",
    "calls": 12,
}
EVENT = {
    "at": "2026-11-27T05:59:00.000Z",
    "kind": "wait_opened",
    "task_id": "task_1m8dna72m9hykycj",
    "wait_id": None,
    "says": 'Waits for pty:build: until "Build finished" appears, for 5 minutes at most',
}
TASK = {
    "name": LONG,
    "status": "active",
    "task_id": WORKS["task_id"],
    "line": WORKS,
    "session_key": "agent:main:main",
    "original_request": "Please translate the guide.",
    "steps": [
        {"step": 1, "text": "Read the guide", "done": True},
        {"step": 2, "text": LONG, "done": False},
    ],
    "proofs": [
        {
            "what": "/home/user/guide/chapter-1.md",
            "standing": "checked",
            "tested": "exists, created during the task, 20 KB",
            "size": 20_480,
            "sha256": "6ed8689d60a4" * 5,
            "looked_at": "2026-11-27T05:00:00.000Z",
            "is_file": True,
        },
        {
            "what": "chapter-2.md",
            "standing": "not verified",
            "tested": "It was named, and found nowhere.",
            "size": None,
            "sha256": None,
            "looked_at": None,
            "is_file": True,
        },
    ],
    "waits": [WAIT],
    "wakes": [WAKE],
    "earlier": None,
    "messages": [
        {
            "role": "agent",
            "msg_type": "progress",
            "by_call": False,
            "created_at": "2026-11-27T05:00:00.000Z",
            "content": "Step 1 done.\n\x1b[31mA line that says more than fits into one.",
        }
    ],
}


CHECKS = [
    DoctorRow(id="home", state=DoctorState.OK, detail="/home/user/.taskmem is yours alone."),
    DoctorRow(
        id="reader.gemini",
        state=DoctorState.OFF,
        detail="There is no key for Gemini.",
        cure="Set GEMINI_API_KEY and run: taskmem daemon restart",
    ),
    DoctorRow(
        id="wakes.owed",
        state=DoctorState.FAIL,
        detail="3 wakes are owed, the oldest since 2026-11-27T05:00:00.000Z: refused",
        effect="The agents that they are for do not go on.",
        cure="Mend what fails; they go out by themselves. See: taskmem wakes",
    ),
    doctor_rows._build_home_size_row(
        locate_home({"TASKMEM_HOME": "/home/user/.taskmem"}),
        {"database": 2100 * MIB, "logs": 9 * MIB, "pictures of waits": 40},
        64_000 * MIB,
    ),
    DoctorRow(id="openclaw.tools", state=DoctorState.WARN, detail="\x1b[31mOne is hidden."),
]


METRICS = {
    "tasks": 1240,
    "completed": 1200,
    "failed": 12,
    "cancelled": 0,
    "open": 28,
    "mean_steps": 4.5,
    "mean_resumes": 0.25,
    "mean_seconds": 5025.5,
}


def print_list(name: str) -> None:
    """Print a list as its command does."""
    now = datetime.fromisoformat(NOW)
    with (
        patch.multiple(task_text, get_now=lambda: now),
        patch.multiple(list_commands, get_now=lambda: now),
        patch.multiple(doctor, _run_all_checks=lambda *_, **__: (row for row in CHECKS)),
    ):
        LISTS[name]()


def print_checks() -> None:
    """Print the doctor's rows as `taskmem doctor -v` does on a terminal."""
    say_row = doctor.print_row
    doctor.run_doctor({}, click.echo, say_row=say_row, as_json=False, proof=False, verbose=True)


LISTS: Mapping[str, Callable[[], object]] = {
    "overview": lambda: task_text.print_overview(OVERVIEW),
    "list": lambda: task_text.print_tasks({"now": NOW, "tasks": [ASKS, WORKS]}, 100),
    "task": lambda: task_text.print_task(TASK),
    "waits": lambda: list_commands.print_list("waits", [WAIT], 100),
    "wakes": lambda: list_commands.print_list("wakes", [WAKE], 100),
    "runs": lambda: list_commands.print_list("runs", [RUN], 100),
    "doctor": print_checks,
    "events": lambda: list_commands.print_list("events", [EVENT], 100),
    "stats": lambda: list_commands.print_metrics(METRICS),
}


if __name__ == "__main__":
    for each in sys.argv[1:]:
        click.echo(f"\n== {each}")
        print_list(each)
