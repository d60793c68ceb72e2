"""`taskmem demo`: show the features on a separate daemon in a temporary home."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from openclaw_taskmem.cli.client import Link, LinkError, connect, connect_or_start
from openclaw_taskmem.cli.daemon_process import stop_daemon
from openclaw_taskmem.home import Home, build_own_command, find_home, find_short_command
from taskmem_program import OWN_PROGRAM

_SILENCE_SECONDS: Final = 3
"""Seconds of silence after which the demo's task is stuck; by default they are 300."""
_LIMIT_SECONDS: Final = 40.0
LOOK_SECONDS: Final = 0.1
BUILD: Final = """
import time
for page in range(1, 5):
    print(f"Compiling page {page} of 4", flush=True)
    time.sleep(0.8)
print("Build finished in 3.2 s", flush=True)
"""
"""The program that is waited for."""

AGENT: Final = "shell:demo"
"""The host of the demo's agent."""

Say = Callable[[str], None]


def run_demo(say: Say, *, keep: bool = False) -> int:
    """Run the demo; return an exit status. `keep`: its home stays, to be looked at."""
    say(
        "An agent's task, kept by a daemon in a temporary home. Your own home, "
        "OpenClaw and the network are not touched.\n"
    )
    with _make_home(keep=keep) as (home, environ):
        try:
            with _start_daemon(home, environ) as link:
                status = _tell_story(say, link, environ)
        finally:
            stop_daemon(home)
        own = build_own_command(home)
        if keep:
            say(
                f"\nIts home is kept in {home.folder}. Look at it:\n   {own}\n   {own} ui\n"
                f"Done with it:\n   {own} daemon stop && rm -r {home.folder}"
            )
        else:
            say(f"To look at it as in daily use: {find_short_command(environ)} demo --keep")
        return status


@contextmanager
def _start_daemon(home: Home, environ: dict[str, str]) -> Generator[Link]:
    """Start a daemon with the stdout transport, and connect to it."""
    daemon = subprocess.Popen(  # noqa: S603 - our own command
        [*OWN_PROGRAM, "daemon"],
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        with _await_connection(home, environ, daemon) as link:
            yield link
    finally:
        daemon.terminate()
        daemon.communicate()


def _await_connection(home: Home, environ: dict[str, str], daemon: subprocess.Popen[bytes]) -> Link:
    for _ in range(int(_LIMIT_SECONDS / LOOK_SECONDS)):
        with suppress(LinkError):
            return connect(home)
        if daemon.poll() is not None:
            break
        time.sleep(LOOK_SECONDS)
    # This start fails for the same reason, and reports it.
    return connect_or_start(home, environ)


def _tell_story(say: Say, link: Link, environ: dict[str, str]) -> int:
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

    say("3. It starts something long, ends its turn, and lets the daemon wait.")
    with _run_build(environ):
        wait = call(
            "smart_wait",
            target="pty:build",
            wake_when='"Build finished" appears, or the build fails',
            timeout=60,
            task_id=task,
        )["wait_id"]
        seen = _follow_wait(say, link, wait)
    wake = _await_sent_wake(link, "wait") if seen else None
    if wake is None:
        return _report_timeout(say)
    say("\n   The command is through, and the agent is woken with one line:\n")
    say(f"   {wake['text']}\n")
    call("task_update", task_id=task, message="The build went through")

    say("4. The plan changes, and what is done stays done.")
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

    say("5. Its context is compacted. It asks where it was.")
    call("task_update", task_id=task, query="where am I on this?")

    say(
        f"6. Then it falls silent. After {_SILENCE_SECONDS} s of silence (300 s outside "
        "of this demo) the daemon wakes it, with all it needs to go on:\n"
    )
    wake = _await_sent_wake(link, "stuck")
    if wake is None:
        return _report_timeout(say)
    text = wake["text"]
    say(f"   {text.partition(' ')[0]}")
    packet = json.loads(text.partition(" ")[2])
    text = json.dumps(packet, ensure_ascii=False, indent=2)
    say("".join(f"   {line}\n" for line in text.splitlines()))

    say("7. The agent acts on the packet, and the wake counts as answered.")
    call(
        "task_update",
        task_id=packet["task_id"],
        message=f"Step {packet['progress']['current'] + 1} done, nothing found",
    )
    state = link.call("wakes", {"all": True})[0]["state"]
    say(f"   The wake is {state}.\n")
    say(f"That was it. To give it to your agent: {find_short_command(environ)} setup")
    return 0


def _report_timeout(say: Say) -> int:
    say(f"   No wake came within {_LIMIT_SECONDS:g} s; the machine is very busy.")
    return 1


@contextmanager
def _run_build(environ: dict[str, str]) -> Generator[None]:
    """Run a command in a terminal that can be watched; it ends within seconds."""
    ours = [*OWN_PROGRAM, "run", "--name", "build"]
    build = subprocess.Popen(  # noqa: S603 - our own command
        [*ours, "--", sys.executable, "-u", "-c", BUILD],
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        recording = Path(environ["TASKMEM_HOME"], "terminals", "build", "about.json")
        for _ in range(int(_LIMIT_SECONDS / LOOK_SECONDS)):
            if recording.exists():
                break
            time.sleep(LOOK_SECONDS)
        yield
    finally:
        build.terminate()
        build.wait()


def _follow_wait(say: Say, link: Link, wait_id: str) -> bool:
    """Print what the daemon observes until the wait has ended; False: it took too long."""
    last = None
    for _ in range(int(_LIMIT_SECONDS / LOOK_SECONDS)):
        [wait] = [w for w in link.call("waits", {"all": True}) if w["wait_id"] == wait_id]
        if wait["status"] != "watching":
            return True
        if wait["last_observation"] not in (None, last):
            last = wait["last_observation"]
            say(f"     the daemon sees: {last}")
        time.sleep(LOOK_SECONDS)
    return False


def _await_sent_wake(link: Link, cause: str) -> dict[str, Any] | None:
    """Wait until a wake with a cause was sent, and return it; None: it took too long."""
    for _ in range(int(_LIMIT_SECONDS / LOOK_SECONDS)):
        for wake in link.call("wakes", {"all": True}):
            if wake["cause"] == cause and wake["sent_at"]:
                return dict(wake)
        time.sleep(LOOK_SECONDS)
    return None


class _Caller:
    """Calls tools and prints the calls and answers."""

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
            "call", {"tool": tool, "arguments": given, "host": AGENT}
        )
        for line in (answer.get("summary"), answer["message"]):
            if line:
                self._say(f"   ← {line}")
        self._say("")
        return answer


@contextmanager
def _make_home(*, keep: bool) -> Generator[tuple[Home, dict[str, str]]]:
    """Make a temporary home with settings of its own; `keep`: it stays."""
    folder = tempfile.mkdtemp(prefix="taskmem-demo-")
    environ = {name: v for name, v in os.environ.items() if not name.startswith("TASKMEM_")} | {
        "TASKMEM_HOME": folder,
        "TASKMEM_STUCK_THRESHOLD_SECONDS": str(_SILENCE_SECONDS),
        "TASKMEM_WAKE_TRANSPORT": "stdout",
    }
    try:
        yield find_home(environ), environ
    finally:
        if not keep:
            shutil.rmtree(Path(folder), ignore_errors=True)
