"""Waits: latency, timeouts, many of them, and how well recorded terminals are judged."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from figures import Figure, amount, millis
from homes import COMMAND, build_environment, make_home, serve_home, start_home_daemon
from machine import measure_cpu_seconds, measure_memory

from openclaw_taskmem.cli.client import Link, connect
from openclaw_taskmem.home import Home
from taskmem_program import OWN_PROGRAM
from tests.support.installations import make_installation
from tests.support.pages import serve_pages

SAMPLES = 40
PACED_SAMPLES = 4
MANY, TARGETS = 5000, 50
IDLE_SECONDS = 30
HANGING = """
    import time
    from taskmem_hookspecs import hookimpl

    class Hanging:
        name = "hanging"

        async def rule(self, frame):
            time.sleep(3600)

    @hookimpl
    def wait_judge(wake_when):
        return Hanging() if "HANG" in wake_when else None
"""
ECHO = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"
TICKER = "import time\nprint('started', flush=True)\ntime.sleep(3600)"
Write = Callable[[str], None]
LOOKS = 200
CONDITION = (
    '"Build finished" appears or /error|failed|traceback/i appears or 100 % or loss < 0.01 or fails'
)


def wait_latency() -> Iterator[Figure]:
    """Measure from a line being written to the wake being owed, for each terminal."""
    with ExitStack() as stack:
        home = stack.enter_context(make_home())
        stack.enter_context(serve_home(home))
        link = stack.enter_context(connect(home))
        ways = {
            "taskmem run": _start_echo(stack, home),
            "a file": _make_file_target(home),
            "tmux": _open_pane(stack, home),
        }
        samples: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(SAMPLES):
            for name, (target, write) in ways.items():
                samples[name].append(_time_wake(link, target, write, f"MARK-{number}."))
    for name, limit in (("taskmem run", 50), ("a file", 60), ("tmux", 50)):
        yield millis(f"line written to wake owed: {name}", samples[name], limit)


def wait_targets() -> Iterator[Figure]:
    """Measure from an event to the wake being owed: a path, a process, an instant, a task."""
    ways: dict[str, list[float]] = {"a path": [], "a process": [], "an instant": [], "a task": []}
    with make_home() as home, serve_home(home), connect(home) as link:
        for number in range(SAMPLES):
            path = home.folder.parent / f"made-{number}"
            ways["a path"].append(_time_event(link, f"path:{path}", "appears", path.touch))
            with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as process:
                target = f"process:{process.pid}"
                ways["a process"].append(_time_event(link, target, "exits", process.kill))
            ways["a task"].append(_time_step(link, number))
            due = datetime.now(UTC) + timedelta(seconds=0.5)
            wait_id = open_wait(link, f"time:{due.isoformat()}", "comes", timeout=60)
            ways["an instant"].append(_find_wake_time(link, wait_id) - due.timestamp())
    for name, samples in ways.items():
        yield millis(f"event to wake owed: {name}", samples, 50)


def wait_paced_targets() -> Iterator[Figure]:
    """Measure the same of what is looked at at a pace: a command every 5 s, a page every 10 s."""
    commands, answers = list[float](), list[float]()
    with make_home() as home, serve_home(home), connect(home) as link, serve_pages({}) as server:
        for number in range(PACED_SAMPLES):
            shown = home.folder.parent / f"shown-{number}"
            shown.touch()
            write = partial(shown.write_text, "done")
            commands.append(_time_event(link, f"command:cat {shown}", '"done" appears', write))
            answer = partial(server.pages.update, {f"/{number}": (200, {}, b"")})
            page = f"url:http://127.0.0.1:{server.port}/{number}"
            answers.append(_time_event(link, page, "status is 200", answer))
    yield millis("event to wake owed: a command", commands, 5200)
    yield millis("event to wake owed: a page", answers, 10_200)


def wait_timeouts() -> Iterator[Figure]:
    """Measure how late 500 timeouts fire while a judge hangs in its thread."""
    with ExitStack() as stack:
        home = stack.enter_context(make_home())
        stack.enter_context(serve_home(home, _install_plugin(home, HANGING)))
        link = stack.enter_context(connect(home))
        files = [_make_log(home, number) for number in range(10)]
        ids = [
            open_wait(link, files[number % 10], f'"never {number}"', timeout=20)
            for number in range(500)
        ]
        ids.append(open_wait(link, files[0], "HANG", timeout=20))
        late = [
            parse_instant(wait["ended_at"]) - parse_instant(wait["deadline_at"])
            for wait in _wait_for_ends(link, ids)
        ]
    yield millis("a timeout is late, 500 waits, one judge hanging", late, 1000)
    yield amount("the latest of them", [1000 * max(late)], "ms", 1000)


def wait_idle() -> Iterator[Figure]:
    """Measure what 100 idle waits on 10 terminals cost."""
    with ExitStack() as stack:
        home = stack.enter_context(make_home())
        pid = stack.enter_context(serve_home(home))
        link = stack.enter_context(connect(home))
        for number in range(10):
            stack.enter_context(_run_recorded(home, f"idle{number}", TICKER))
        for number in range(100):
            open_wait(link, f"pty:idle{number % 10}", f'"never {number}"', timeout=3600)
        time.sleep(5)
        before, start = measure_cpu_seconds(pid), time.monotonic()
        time.sleep(IDLE_SECONDS)
        used = measure_cpu_seconds(pid) - before
        share = 100 * used / (time.monotonic() - start)
        yield amount("100 idle waits on 10 terminals: CPU", [share], "%", 1)
        yield amount("their daemon: RSS", [measure_memory(pid)[0]], "MB")


def wait_many() -> Iterator[Figure | str]:
    """Measure 5,000 waits on 50 targets, of which each must end by its own line."""
    with ExitStack() as stack:
        home = stack.enter_context(make_home())
        pid = stack.enter_context(serve_home(home))
        link = stack.enter_context(connect(home))
        files = [_make_log(home, number) for number in range(TARGETS)]
        start = time.perf_counter()
        ids = [
            open_wait(link, files[n % TARGETS], f'"line {n} of"', timeout=3600) for n in range(MANY)
        ]
        opened = time.perf_counter() - start
        yield amount(f"opening {MANY:,} waits, each", [1000 * opened / MANY], "ms")
        yield amount(f"{MANY:,} waits: RSS", [measure_memory(pid)[0]], "MB")
        chosen = random.Random(1).sample(range(MANY), MANY // 2)  # noqa: S311
        cpu, start = measure_cpu_seconds(pid), time.perf_counter()
        for n in chosen:
            _append_line(files[n % TARGETS], f"line {n} of {MANY}\n")
        wanted = {ids[n] for n in chosen}
        found = _wait_for_ends(link, list(wanted))
        took = time.perf_counter() - start
        yield amount(f"{len(wanted):,} of them resolved", [took], "s")
        yield amount("likewise: CPU", [measure_cpu_seconds(pid) - cpu], "s")
        every = link.call("waits", {"all": True, "limit": MANY})
        wakes = link.call("wakes", {"all": True, "limit": 2 * MANY})
        wrong = [w for w in every if (w["status"] == "resolved") is not (w["wait_id"] in wanted)]
        wrong += [w for w in found if w["status"] != "resolved"]
        yield amount(f"{MANY:,} waits: ended wrongly", [len(wrong)], "", 0)
        doubled = len(wakes) - len({wake["wait_id"] for wake in wakes})
        missing = len(wanted) - len(wakes)
        yield amount("wakes missing or doubled", [abs(missing) + doubled], "", 0)


def wait_restart() -> Iterator[Figure]:
    """Measure from the start of a daemon after a kill until 1,000 waits are watched."""
    with ExitStack() as stack:
        home = stack.enter_context(make_home())
        files = [_make_log(home, number) for number in range(50)]
        first = start_home_daemon(home)
        with connect(home) as link:
            for number in range(1000):
                open_wait(link, files[number % 50], f'"never {number}"', timeout=3600)
        whole, answered = [], []
        for _ in range(5):
            first.send_signal(signal.SIGKILL)
            first.wait()
            begun = time.perf_counter()
            first = start_home_daemon(home)
            met = time.perf_counter()
            with connect(home) as link:
                while any(
                    wait["last_observation"] is None for wait in link.call("waits", {"limit": 1000})
                ):
                    time.sleep(0.1)
            whole.append(time.perf_counter() - begun)
            answered.append(time.perf_counter() - met)
        first.terminate()
        first.wait()
    yield millis("1,000 waits watched again, from the daemon's start", whole, 2000)
    yield millis("likewise, from its first answer", answered)


# --- targets ------------------------------------------------------------------


def _start_echo(stack: ExitStack, home: Home) -> tuple[str, Write]:
    process = stack.enter_context(_run_recorded(home, "echo", ECHO, stdin=subprocess.PIPE))

    def write(text: str) -> None:
        assert process.stdin is not None  # noqa: S101
        process.stdin.write(f"{text}\n".encode())
        process.stdin.flush()

    return "pty:echo", write


def _make_file_target(home: Home) -> tuple[str, Write]:
    target = _make_log(home, 0)
    return target, lambda text: _append_line(target, f"{text}\n")


def _open_pane(stack: ExitStack, home: Home) -> tuple[str, Write]:
    """Open a pane that shows what is written into a pipe."""
    pipe = home.folder / "pipe"
    os.mkfifo(pipe)
    name = f"taskmem-bench-{os.getpid()}"
    _run_program("tmux", "new-session", "-d", "-s", name, f"cat <> {pipe}")
    stack.callback(_run_program, "tmux", "kill-session", "-t", name)
    descriptor = os.open(pipe, os.O_RDWR)
    stack.callback(os.close, descriptor)
    return f"pty:tmux:{name}", lambda text: _write_line(descriptor, text)


def _write_line(descriptor: int, text: str) -> None:
    os.write(descriptor, f"{text}\n".encode())


def _run_program(*command: str) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def _make_log(home: Home, number: int) -> str:
    path = home.folder / f"log{number}"
    path.touch()
    return f"pty:file:{path}"


def _append_line(target: str, text: str) -> None:
    with Path(target.removeprefix("pty:file:")).open("a") as file:
        file.write(text)


@contextmanager
def _run_recorded(
    home: Home, name: str, script: str, stdin: int = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command under `taskmem run`, ended when left."""
    process = subprocess.Popen(
        [COMMAND, "run", "--name", name, "--", sys.executable, "-c", script],
        env=build_environment(home),
        stdin=stdin,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        about = home.folder / "terminals" / name / "about.json"
        while not about.exists():
            time.sleep(0.01)
        yield process
    finally:
        process.kill()
        process.wait()


# --- waits --------------------------------------------------------------------


def open_wait(link: Link, target: str, wake_when: str, timeout: float) -> str:
    arguments = {"target": target, "wake_when": wake_when, "timeout": timeout}
    answer = link.call("call", {"tool": "smart_wait", "arguments": arguments})
    return str(answer["wait_id"])


def _time_wake(link: Link, target: str, write: Write, mark: str) -> float:
    """Return the seconds from a line being written to the wake being owed."""
    return _time_event(link, target, f'"{mark}"', lambda: write(mark))


def _time_event(link: Link, target: str, wake_when: str, cause: Callable[[], object]) -> float:
    """Return the seconds from an event being caused to the wake being owed."""
    wait_id = open_wait(link, target, wake_when, timeout=60)
    time.sleep(0.15)
    written = time.time()
    cause()
    return _find_wake_time(link, wait_id) - written


def _time_step(link: Link, number: int) -> float:
    """Return the seconds from a step of a task being done to the wake being owed."""
    plan = {"name": f"Release {number}", "plan": ["Build", "Push"]}
    task = link.call("call", {"tool": "task_register", "arguments": plan})["task_id"]
    marks = {"tool": "task_update", "arguments": {"task_id": task, "completed_steps": [1]}}
    return _time_event(link, f"task:{task}", "step 1 is done", lambda: link.call("call", marks))


def _find_wake_time(link: Link, wait_id: str) -> float:
    """Return when the wake of a wait was owed, once it has ended."""
    _wait_for_ends(link, [wait_id])
    for wake in link.call("wakes", {"all": True, "limit": 10}):
        if wake["wait_id"] == wait_id:
            return parse_instant(wake["created_at"])
    raise SystemExit(f"{wait_id} owes no wake.")


def _wait_for_ends(link: Link, ids: list[str]) -> list[dict[str, Any]]:
    """Return the waits with these ids once all have ended."""
    wanted, end = set(ids), time.monotonic() + 120
    while time.monotonic() < end:
        every = link.call("waits", {"all": True, "limit": 100_000})
        mine = [wait for wait in every if wait["wait_id"] in wanted]
        if all(wait["status"] != "watching" for wait in mine):
            return mine
        time.sleep(0.05 if len(every) < 1000 else 0.5)
    raise SystemExit("Some waits have not ended within two minutes.")


def parse_instant(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _install_plugin(home: Home, source: str) -> tuple[str, ...]:
    """Install a plug-in beside taskmem; return the command that has both."""
    folder = home.folder.parent / "plugin"
    facts = folder / "bench_plugin-1.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Name: bench-plugin\nVersion: 1.0\n")
    entry = "[openclaw_taskmem]\nbench = bench_plugin\n"
    (facts / "entry_points.txt").write_text(entry)
    (folder / "bench_plugin.py").write_text(textwrap.dedent(source))
    python = make_installation(home.folder.parent / "installation", folder)
    return (str(python), *OWN_PROGRAM[1:])


def judge_conditions() -> Iterator[Figure | str]:
    """Judge generated conditions, waits that a model worded, and free English."""
    from tests.plugins.terminal.generated import score_generated
    from tests.plugins.terminal.replay import entries, score, situations

    free = [one for name in ("tuning", "held_out") for one in entries(name)]
    for name, total, refused, wrong, falsely in (
        ("generated", score_generated(seed=2), 0.5, 1, 0),
        ("worded by a model", score(situations()), 5, 5, 1),
        ("free English", score(free), 100, 0.3, 0.3),
    ):
        shares = {one: 100 * total.share(one) for one in ("refused", "falsely", "missed")}
        not_right = shares["falsely"] + shares["missed"]
        yield amount(f"conditions, {name}: refused", [shares["refused"]], "%", refused)
        yield amount(f"conditions, {name}: not right", [not_right], "%", wrong)
        yield amount(f"conditions, {name}: falsely", [shares["falsely"]], "%", falsely)
        yield f"Conditions, {name}: {total.list('falsely', 'missed')}"
    yield amount("judging a busy log", [_judge_log()], "MB/s")
    yield amount("reading plain output", [_read_plain() for _ in range(5)], "MB/s")


def _read_plain() -> float:
    """Return how many megabytes a second are made lines of, at one look."""
    from taskmem_terminal.frames import LOOK_BYTES, OutputReader, ReadOptions, StreamPosition
    from tests.plugins.terminal.watched import Bytes

    line = b"[12:00:01] compiling some/module/name.c with the usual options\r\n"
    data = Bytes((line * (LOOK_BYTES // len(line) + 1))[:LOOK_BYTES])
    start = time.perf_counter()
    OutputReader().read_page(
        data, StreamPosition(0, 0), ReadOptions(columns=40, rows=10, interactive=True)
    )
    return LOOK_BYTES / 1e6 / (time.perf_counter() - start)


def _judge_log() -> float:
    """Return how many megabytes a second five forms are matched with."""
    from openclaw_taskmem.domain.conditions.conditions import parse_condition
    from taskmem_hookspecs import Frame
    from taskmem_terminal.judge import TerminalRuleJudge
    from tests.plugins.terminal.replay import run_at_once

    line = "2030-01-01 12:00:00,123 INFO worker 3/7 GET /api/items/{} 200 in 12 ms\n"
    text = "".join(line.format(n) for n in range(3000))
    tail = "\n".join(text.split("\n")[-80:])
    judge = TerminalRuleJudge(parse_condition(CONDITION), "log")
    now = datetime.now(UTC)
    frame = Frame(seen_at=now, place="", changed_at=now, text=text, tail=tail)
    started = time.process_time()
    for _ in range(LOOKS):
        run_at_once(judge.rule(frame))
    return LOOKS * len(text) / 1e6 / (time.process_time() - started)
