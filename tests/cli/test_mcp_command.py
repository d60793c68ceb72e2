"""`taskmem mcp` as hosts start it: a process of its own."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from tests.cli.fake_daemon import PATIENCE

COMMAND = [sys.executable, "-m", "openclaw_taskmem", "mcp"]
NOT_FOR_THE_RELAY = {
    "alembic",
    "anyio",
    "argparse",
    "asyncio",
    "click",
    "dataclasses",
    "inspect",
    "logging",
    "mcp",
    "pluggy",
    "pydantic",
    "sqlalchemy",
    "sqlmodel",
    "subprocess",
    "tempfile",
    "threading",
}


@pytest.fixture
def process(home):
    """The relay, with pipes; what it leaves on stderr is part of the test."""
    started = subprocess.Popen(
        COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TASKMEM_HOME": str(home.folder)},
    )
    yield started
    started.kill()
    started.wait()
    for end in (started.stdin, started.stdout, started.stderr):
        with suppress(BrokenPipeError):
            end.close()


def ask(process, number):
    process.stdin.write(json.dumps({"id": number, "method": "ping"}).encode() + b"\n")
    process.stdin.flush()


def end_of(process):
    """Its exit status and what it complained about."""
    complaint = process.stderr.read()
    return process.wait(PATIENCE), complaint


def test_it_answers_and_ends_with_its_stdin(process, daemon):
    daemon()
    ask(process, 1)
    assert json.loads(process.stdout.readline())["id"] == 1
    process.stdin.close()
    assert end_of(process) == (0, b"")


def test_it_ends_quietly_when_nobody_reads_it(process, daemon):
    daemon()
    process.stdout.close()
    ask(process, 1)
    assert end_of(process) == (0, b"")


@pytest.mark.parametrize(
    ("sent", "status"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)]
)
def test_a_signal_ends_it_quietly(process, daemon, sent, status):
    daemon()
    ask(process, 1)
    assert process.stdout.readline()
    process.send_signal(sent)
    assert end_of(process) == (status, b"")


def test_it_imports_nothing_heavy(home, daemon):
    daemon()
    code = (
        "import sys; sys.argv = ['taskmem', 'mcp']\n"
        "from openclaw_taskmem.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: print(*sys.modules, file=sys.stderr)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        input=b'{"id":1,"method":"ping"}\n',
        env={**os.environ, "TASKMEM_HOME": str(home.folder)},
        capture_output=True,
        check=True,
    )
    assert json.loads(ran.stdout)["id"] == 1
    loaded = {name.partition(".")[0] for name in ran.stderr.decode().split()}
    assert "openclaw_taskmem" in loaded
    assert "taskmem_hookspecs" not in loaded
    assert loaded & NOT_FOR_THE_RELAY == set()


def test_who_starts_it_at_a_terminal_is_told_whom_it_is_for(home):
    terminal, end = os.openpty()
    try:
        started = subprocess.Popen(
            COMMAND,
            stdin=end,
            stderr=subprocess.PIPE,
            env={**os.environ, "TASKMEM_HOME": str(home.folder)},
        )
        os.write(terminal, b"\x04")
        _, note = started.communicate(timeout=PATIENCE)
    finally:
        os.close(terminal)
        os.close(end)
    assert note.startswith(b"This is a server for hosts of agents")
