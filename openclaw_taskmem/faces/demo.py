"""`taskmem demo`: the whole story on a daemon of its own, in a home that goes away."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from openclaw_taskmem.faces.link import Link, reach
from openclaw_taskmem.faces.stopping import stop
from openclaw_taskmem.home import Home, find_home

SILENCE_SECONDS: Final = 3
"""After which the demo's task counts as stuck; five minutes outside of it."""
LIMIT_SECONDS: Final = 40.0
LOOK_SECONDS: Final = 0.1

Say = Callable[[str], None]


def run(say: Say) -> int:
    """Tell the story; return an exit status."""
    say(
        "An agent's task, kept by a daemon in a temporary home. Your own home, "
        "OpenClaw and the network are not touched.\n"
    )
    with _home() as (home, environ):
        try:
            with reach(home, environ) as link:
                return _tell(say, link)
        finally:
            stop(home)


def _tell(say: Say, link: Link) -> int:
    call = _Caller(say, link)
    say("1. The agent writes its plan down.")
    task = call(
        "task_register",
        name="Deploy coursefolio to production",
        plan=["Build the image", "Push to ghcr.io", "Run it", "Verify the site"],
        metadata={"repo": "coursefolio"},
    )["task_id"]

    say("2. It narrates; finished steps are understood.")
    call("task_update", task_id=task, message="Step 1 done, built and tagged v1.2.3")

    say("3. The plan changes, and what is done stays done.")
    call(
        "task_plan_update",
        task_id=task,
        new_plan=[
            "1. Build the image",
            "2. Scan it for secrets",
            "3. Push to ghcr.io",
            "4. Run it",
            "5. Verify the site",
        ],
        reason="the image must be scanned before it leaves",
    )

    say("4. Its context is compacted. It asks where it was.")
    call("task_update", task_id=task, query="where am I on this?")

    say(
        f"5. Then it falls silent. After {SILENCE_SECONDS} s of silence (300 s outside "
        "of this demo) the daemon wakes it, with all it needs to go on:\n"
    )
    wake = _sent(link)
    if wake is None:
        say(f"   No wake came within {LIMIT_SECONDS:g} s; the machine is very busy.")
        return 1
    text = wake["text"]
    say(f"   {text.partition(' ')[0]}")
    packet = json.loads(text.partition(" ")[2])
    say(_indented(json.dumps(packet, ensure_ascii=False, indent=2)))

    say("6. The agent acts on the packet, and the wake counts as answered.")
    call(
        "task_update",
        task_id=packet["task_id"],
        message=f"Step {packet['progress']['current'] + 1} done, nothing found",
    )
    state = link.call("wakes", {"all": True})[0]["state"]
    say(f"   The wake is {state}.\n")
    say("That was it. Give your agent the real one: see the README, or taskmem --help.")
    return 0


def _sent(link: Link) -> dict[str, Any] | None:
    """Wait for the first wake that went out; None: it took too long."""
    for _ in range(int(LIMIT_SECONDS / LOOK_SECONDS)):
        for wake in link.call("wakes", {}):
            if wake["state"] == "sent":
                return dict(wake)
        time.sleep(LOOK_SECONDS)
    return None


class _Caller:
    """Calls tools and shows what is said."""

    def __init__(self, say: Say, link: Link) -> None:
        self._say = say
        self._link = link

    def __call__(self, tool: str, **given: object) -> dict[str, Any]:
        shown = ", ".join(
            f"{name}={json.dumps(value, ensure_ascii=False)}"
            for name, value in given.items()
            if name != "task_id"
        )
        self._say(f"   → {tool}({shown})")
        answer: dict[str, Any] = self._link.call(
            "call", {"tool": tool, "arguments": given}
        )
        for line in (answer.get("summary"), answer["message"]):
            if line:
                self._say(f"   ← {line}")
        self._say("")
        return answer


def _indented(text: str) -> str:
    return "".join(f"   {line}\n" for line in text.splitlines())


@contextmanager
def _home() -> Generator[tuple[Home, dict[str, str]]]:
    """Make a home that is gone afterwards, with settings of its own."""
    folder = tempfile.mkdtemp(prefix="taskmem-demo-")
    own = {name: value for name, value in os.environ.items() if _foreign(name)}
    environ = own | {
        "TASKMEM_HOME": folder,
        "TASKMEM_STUCK_THRESHOLD_SECONDS": str(SILENCE_SECONDS),
        "TASKMEM_WAKE_TRANSPORT": "stdout",
    }
    try:
        yield find_home(environ), environ
    finally:
        shutil.rmtree(Path(folder), ignore_errors=True)


def _foreign(name: str) -> bool:
    return not name.startswith("TASKMEM_")
