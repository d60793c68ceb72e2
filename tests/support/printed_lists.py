"""Print every list as `taskmem` does, from answers of a daemon that are always the same.

Run in a terminal by `tests/cli/test_in_a_terminal.py`.
"""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Any

from openclaw_taskmem.cli import detail_text, list_commands, overview_text

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
        "says": says,
        "done": 2,
        "steps": 4,
        "step": "Run the tests of the shop",
        "since": "2026-11-27T05:58:00.000Z",
        "owner": "main",
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
    actions=["resume"],
    since="2026-11-26T22:00:00.000Z",
)
WORKS = line(3, LONG, "at_work", "at work", owner="translator (codex)")
WAITS = line(4, "Build", "waiting", 'waits for build.log: Last line: "page 4 of 8".')
DONE = line(5, "Café ☕ 日本語", "ended", "completed", status="completed", done=4, step=None)
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
    "made": [
        {
            "path": "/home/user/guide/chapter-1.md",
            "change": "created",
            "size": 20_480,
            "sha256": "6ed8689d60a4" * 5,
            "at": "2026-11-27T05:00:00.000Z",
            "verdict": "proved",
        }
    ],
    "unverified": [{"what": "chapter-2.md", "why": "It was named, and found nowhere."}],
    "waits": [WAIT],
    "wakes": [WAKE],
    "messages": [
        {
            "role": "agent",
            "msg_type": "progress",
            "created_at": "2026-11-27T05:00:00.000Z",
            "content": "Step 1 done.\n\x1b[31mA line that says more than fits into one.",
        }
    ],
}


def main() -> None:
    """Print the list that is named."""
    now = datetime.fromisoformat(NOW)
    detail_text.get_now = list_commands.get_now = lambda: now
    lists = {
        "overview": lambda: overview_text.print_overview(OVERVIEW),
        "list": lambda: overview_text.print_tasks({"now": NOW, "tasks": [ASKS, WORKS]}, 100),
        "task": lambda: detail_text.print_task(TASK),
        "waits": lambda: list_commands.print_waits([WAIT], 100),
        "wakes": lambda: list_commands.print_wakes([WAKE], 100),
        "runs": lambda: list_commands.print_runs([RUN], 100),
        "events": lambda: list_commands.print_events([EVENT], 100),
    }
    for name in sys.argv[1:]:
        lists[name]()


if __name__ == "__main__":
    main()
