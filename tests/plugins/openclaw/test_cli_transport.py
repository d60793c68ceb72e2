import asyncio
import json
import os
import pwd
import select
import sys
import tracemalloc
from contextlib import contextmanager

import pytest

from openclaw_taskmem.domain.policies import OutboxPolicy
from taskmem_hookspecs import WakeReceipt, WakeRefused, WakeUndelivered
from taskmem_hookspecs.testing import TransportSuite, a_wake
from taskmem_openclaw.transports import cli
from taskmem_openclaw.transports.cli import (
    _ARGUMENT_BYTES,
    CALL_SECONDS,
    OpenClawCli,
    _describe_briefly,
)
from tests.e2e.openclaw import node_program

PYTHON = f"#!{sys.executable} -IS\n"
RECORDS = f"""{PYTHON}
import json, os, sys
line = json.dumps({{"argv": sys.argv[1:], "stdin": sys.stdin.read()}}) + "\\n"
seen = os.open(os.path.join(os.path.dirname(__file__), "seen"), 1089, 0o600)
os.write(seen, line.encode())
"""
"""An `openclaw` that appends its arguments to the file `seen` beside it."""
FAILS = "#!/bin/sh\necho one; echo two >&2; printf ' three\n\n'; exit 1\n"
REFUSES = "#!/bin/sh\necho 'Error: system event cannot target a subagent session'; exit 1\n"
LIMIT = 60.0


@pytest.fixture
def openclaw(tmp_path):
    """Writes an `openclaw`, and gives the transport that starts it."""
    return lambda text, seconds=LIMIT: transport_of(tmp_path, text, seconds)


def account(user, shell):
    return pwd.struct_passwd(("name", "x", user, user, "", "/home", shell))


ALONE = [
    account(0, "/bin/bash"),
    account(33, "/usr/sbin/nologin"),
    account(os.getuid(), "/bin/bash"),
    account(4_001, "/usr/sbin/nologin"),
    account(4_002, "/bin/false"),
    account(65_534, "/bin/sh"),
]
"""The accounts of a machine on which one person can log in."""
SHARED = [*ALONE, account(4_003, "/bin/sh")]


def transport_of(folder, text, seconds=LIMIT, accounts=ALONE, **environ):
    binary = folder / "openclaw"
    binary.write_text(text)
    binary.chmod(0o700)
    environ = {"TASKMEM_OPENCLAW_BIN": str(binary), **environ}
    return OpenClawCli(environ, seconds, lambda: accounts)


def list_starts(folder):
    """What the recording `openclaw` was started with, each time."""
    return [json.loads(line) for line in (folder / "seen").read_text().splitlines()]


def deliver(transport, **fields):
    return asyncio.run(transport.deliver(a_wake(**fields)))


class TestOpenClawCli(TransportSuite):
    def make_transport(self, tmp_path):
        return transport_of(tmp_path, RECORDS)

    def make_failing(self, tmp_path):
        return transport_of(tmp_path, FAILS)

    def make_refusing(self, tmp_path):
        return transport_of(tmp_path, REFUSES)

    def list_received(self, tmp_path):
        argvs = [start["argv"] for start in list_starts(tmp_path)]
        return [argv[argv.index("--text") + 1] for argv in argvs]


# --- the command --------------------------------------------------------------


def test_a_wake_of_the_main_session_names_none(openclaw, tmp_path):
    deliver(openclaw(RECORDS), text="wake up")
    assert list_starts(tmp_path) == [
        {"argv": ["system", "event", "--mode", "now", "--text", "wake up"], "stdin": ""}
    ]


def test_a_wake_of_a_session_names_it(openclaw, tmp_path):
    deliver(openclaw(RECORDS), text="wake up", session_key="agent:main:other")
    (start,) = list_starts(tmp_path)
    assert start["argv"] == [
        *("system", "event", "--mode", "now", "--text", "wake up"),
        *("--session-key", "agent:main:other"),
    ]


def test_a_command_that_fails_waits_if_no_gateway_runs(tmp_path, closed_port):
    config = tmp_path / "openclaw.json"
    config.write_text(json.dumps({"gateway": {"port": closed_port}}))
    with pytest.raises(WakeUndelivered, match="No gateway of OpenClaw runs here") as raised:
        deliver(transport_of(tmp_path, FAILS, OPENCLAW_CONFIG_PATH=str(config)))
    assert raised.value.waits


@pytest.mark.parametrize(
    ("accounts", "chosen", "brief"),
    [
        (SHARED, {}, True),
        (ALONE, {}, False),
        (SHARED, {"TASKMEM_OPENCLAW_CLI_TEXT": "full"}, False),
        (ALONE, {"TASKMEM_OPENCLAW_CLI_TEXT": "brief"}, True),
    ],
)
def test_other_users_of_the_machine_read_no_plan(tmp_path, accounts, chosen, brief):
    transport = transport_of(tmp_path, RECORDS, accounts=accounts, **chosen)
    deliver(transport, text='[task_resume] {"plan": "dig"}', task_id="task_7")
    (start,) = list_starts(tmp_path)
    assert ("dig" in str(start)) is not brief
    assert ('Call task_update with task_id "task_7"' in str(start)) is brief


NODE_RECORDS = """#!{node}
const {{ spawnSync, spawn }} = require("node:child_process");
const {{ appendFileSync, readFileSync }} = require("node:fs");
const seen = readFileSync("/proc/self/cmdline", "utf8").split("\\0");
const start = {{ argv: process.argv.slice(2), seen }};
appendFileSync(__dirname + "/seen", JSON.stringify(start) + "\\n");
if (!process.env.AGAIN) {{
  const env = {{ ...process.env, AGAIN: "1" }};
  spawn(process.execPath, process.argv.slice(1), {{ env, stdio: "ignore" }});
}}
"""
"""An `openclaw` of Node that records what it is told and what others see of it, and starts itself
once more as the real one does."""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_shared_machine_reads_less_than_the_agent_is_told(tmp_path):
    text = '[task_resume] {"plan": "dig \'a\' \u00e4"}\nand more'
    transport = transport_of(tmp_path, NODE_RECORDS.format(node=node_program()), accounts=SHARED)

    deliver(transport, text=text, task_id="task_7", session_key="agent:a:b")

    starts = list_starts(tmp_path)
    assert len(starts) == 2
    for start in starts:
        told = ["system", "event", "--mode", "now", "--text", text, "--session-key", "agent:a:b"]
        assert start["argv"] == told
        assert "dig" not in str(start["seen"])
        assert 'task_id "task_7"' in str(start["seen"])


@pytest.mark.parametrize(
    ("shell", "counts"),
    [("/bin/zsh", True), ("", True), ("/usr/bin/git-shell", False), ("/bin/nologin", False)],
)
def test_only_an_account_that_can_log_in_counts(tmp_path, monkeypatch, shell, counts):
    shells = tmp_path / "shells"
    shells.write_text("# valid\n/bin/sh\n/bin/zsh\n/bin/nologin\n")
    monkeypatch.setattr(cli, "_SHELLS", shells)
    transport = transport_of(tmp_path, RECORDS, accounts=[*ALONE, account(4_003, shell)])
    deliver(transport, text="dig", task_id="task_7")
    (start,) = list_starts(tmp_path)
    assert ("dig" not in str(start)) is counts


@pytest.mark.parametrize(
    "fields",
    [
        {"task_id": "task_7", "text": "[task_resume] {}"},
        {"wait_id": "wait_7", "text": "[system] smart_wait resolved"},
        {"text": "[task_stuck_resume] {}\n[system] a\n[system] b", "task_id": "task_7"},
        {"text": "[system] hello"},
    ],
)
def test_a_brief_wake_says_whom_to_ask(fields, snapshot):
    assert _describe_briefly(a_wake(**fields)) == snapshot


def test_a_wake_for_another_openclaw_is_not_given_to_this_one(tmp_path):
    transport = transport_of(tmp_path, RECORDS, OPENCLAW_STATE_DIR=str(tmp_path))
    other = pytest.raises(WakeUndelivered, match="another OpenClaw")
    with other:
        deliver(transport, host="openclaw:one")
    (tmp_path / "taskmem").mkdir()
    (tmp_path / "taskmem" / "host.id").write_text("two\n")
    with other:
        deliver(transport, host="openclaw:one")
    for own in ("openclaw:two", "openclaw", None):
        deliver(transport, host=own)
    assert len(list_starts(tmp_path)) == 3


@contextmanager
def standard_input(text):
    """Let this process have a text on its standard input."""
    kept = os.dup(0)
    reader, writer = os.pipe()
    os.write(writer, text)
    os.close(writer)
    os.dup2(reader, 0)
    try:
        yield
    finally:
        os.dup2(kept, 0)
        os.close(kept)
        os.close(reader)


def test_the_command_reads_nothing_of_what_its_starter_is_given(openclaw, tmp_path):
    transport = openclaw(RECORDS)
    with standard_input(b"for somebody else"):
        deliver(transport)
    assert list_starts(tmp_path)[0]["stdin"] == ""


def test_no_shell_reads_the_text(openclaw, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "$(touch x) `touch x`; touch x | touch x & touch x"
    deliver(openclaw(RECORDS), text=text, session_key="$(touch x)")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["openclaw", "seen"]


def test_without_a_setting_the_command_is_found_on_the_path(openclaw, tmp_path, monkeypatch):
    openclaw(RECORDS)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    deliver(OpenClawCli({}))
    assert len(list_starts(tmp_path)) == 1


def test_cli_transport_refuses_too_long_a_text_before_it_starts(openclaw, tmp_path):
    transport = openclaw(RECORDS)
    with pytest.raises(WakeRefused, match=f"more than {_ARGUMENT_BYTES:,} bytes"):
        deliver(transport, text="é" * (_ARGUMENT_BYTES // 2 + 1))
    deliver(transport, text="é" * (_ARGUMENT_BYTES // 2))
    assert len(list_starts(tmp_path)) == 1


@pytest.mark.parametrize("fields", [{"text": "a\0b"}, {"text": "\ud800"}, {"session_key": "a\0b"}])
def test_what_cannot_be_an_argument_at_all_is_refused(openclaw, tmp_path, fields):
    wake = a_wake().model_copy(update=fields)
    with pytest.raises(WakeRefused, match="cannot be an argument"):
        asyncio.run(openclaw(RECORDS).deliver(wake))
    assert not (tmp_path / "seen").exists()


# --- what goes wrong ----------------------------------------------------------


def test_a_command_that_is_missing_is_told_with_what_to_do(tmp_path):
    missing = OpenClawCli({"TASKMEM_OPENCLAW_BIN": str(tmp_path / "openclaw")})
    with pytest.raises(WakeUndelivered) as raised:
        deliver(missing)
    assert str(raised.value) == (
        f"{tmp_path}/openclaw cannot be started (No such file or directory); install "
        "OpenClaw, or set TASKMEM_OPENCLAW_BIN to its command."
    )


@pytest.mark.parametrize("mode", [0o600, 0o700])
def test_what_is_no_program_cannot_be_started(openclaw, tmp_path, mode):
    transport = openclaw("no program\n")
    (tmp_path / "openclaw").chmod(mode)
    with pytest.raises(WakeUndelivered, match=r"cannot be started \("):
        deliver(transport)


def test_a_command_that_fails_is_quoted_on_one_line(openclaw, tmp_path):
    with pytest.raises(WakeUndelivered) as raised:
        deliver(openclaw(FAILS))
    assert str(raised.value) == (
        f"{tmp_path}/openclaw ended with status 1: one two three. See that the gateway runs."
    )


def test_a_command_that_fails_without_a_word_is_told_so(openclaw):
    with pytest.raises(WakeUndelivered, match="status 7: no word"):
        deliver(openclaw("#!/bin/sh\nexit 7\n"))


def test_a_command_that_is_killed_did_not_deliver(openclaw):
    with pytest.raises(WakeUndelivered, match="status -9"):
        deliver(openclaw("#!/bin/sh\nkill -9 $$\n"))


@pytest.mark.parametrize(
    "said",
    [
        'Error: system event cannot target a subagent session "agent:a:subagent:b"',
        "Error: the agent is unavailable",
    ],
)
def test_what_the_gateway_will_never_take_is_refused(openclaw, said):
    with pytest.raises(WakeRefused, match="Register the task in a main session"):
        deliver(openclaw(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n"))


def test_refusal_words_from_a_successful_command_refuse_nothing(openclaw):
    text = REFUSES.replace("exit 1", "exit 0")
    assert isinstance(deliver(openclaw(text)), WakeReceipt)


def test_of_all_that_is_printed_only_the_end_is_kept(openclaw):
    transport = openclaw(
        f"{PYTHON}import sys\n"
        "for _ in range(160): sys.stdout.write('x' * 65536)\n"
        "sys.exit(print(' the end') or 1)\n"
    )
    tracemalloc.start()
    try:
        with pytest.raises(WakeUndelivered, match=r"x the end\. See") as raised:
            deliver(transport)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(str(raised.value)) < 1000
    assert peak < 2_000_000


def test_cli_call_ends_before_the_wake_counts_as_lost():
    assert OutboxPolicy().claim_seconds / 2 > CALL_SECONDS


# --- what is left running -----------------------------------------------------


@contextmanager
def alive(folder):
    """Give what reads the word `on` of each process that has `alive` open, to the end.

    The end comes when the last of them is gone, whoever is its parent.
    """
    os.mkfifo(folder / "alive")
    reader = os.open(folder / "alive", os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield reader
    finally:
        os.close(reader)


def words(reader, count=None):
    """Read so many words; None: until the last writer is gone."""
    heard = b""
    while count is None or len(heard) < 2 * count:
        readable, _, _ = select.select([reader], [], [], LIMIT)
        assert readable, "nobody ever wrote"
        fresh = os.read(reader, 2)
        if not fresh:
            break
        heard += fresh
    return heard.decode()


def leaving_script(folder, then):
    """An `openclaw` that starts another process, and then goes on so."""
    return (
        f"#!/bin/sh\nexec 3>'{folder}/alive'\n"
        f"(printf on >&3; exec sleep 600) &\nprintf on >&3\n{then}\n"
    )


def test_a_command_that_hangs_is_ended_with_all_it_started(openclaw, tmp_path):
    with alive(tmp_path) as reader:
        transport = openclaw(leaving_script(tmp_path, "sleep 600"), seconds=2.0)
        with pytest.raises(WakeUndelivered, match=r"no answer within 2 s and was ended"):
            deliver(transport)
        assert words(reader) == "onon"


async def test_a_delivery_that_is_cancelled_leaves_nothing_running(openclaw, tmp_path):
    with alive(tmp_path) as reader:
        transport = openclaw(leaving_script(tmp_path, "sleep 600"))
        delivery = asyncio.create_task(transport.deliver(a_wake()))
        assert await asyncio.to_thread(words, reader, 2) == "onon"
        delivery.cancel()
        with pytest.raises(asyncio.CancelledError):
            await delivery
        assert await asyncio.to_thread(words, reader) == ""


async def test_delivery_cancelled_while_starting_leaves_no_process(
    openclaw, tmp_path, delayed_start
):
    with alive(tmp_path) as reader:
        transport = openclaw(leaving_script(tmp_path, "sleep 600"))
        delivery = asyncio.create_task(transport.deliver(a_wake()))
        assert await asyncio.to_thread(words, reader, 2) == "onon"
        delivery.cancel()
        await asyncio.sleep(0)
        delayed_start.set()
        with pytest.raises(asyncio.CancelledError):
            await delivery
        assert await asyncio.to_thread(words, reader) == ""


def test_what_a_command_leaves_behind_holds_no_delivery_up(openclaw, tmp_path):
    with alive(tmp_path) as reader:
        transport = openclaw(leaving_script(tmp_path, "exit 0"))
        assert isinstance(deliver(transport), WakeReceipt)
        assert words(reader).startswith("on")


def test_even_what_left_the_group_holds_no_delivery_up(openclaw, tmp_path):
    os.mkfifo(tmp_path / "over")
    over = os.open(tmp_path / "over", os.O_RDWR)
    transport = openclaw(
        f"{PYTHON}import os, signal, sys\n"
        "if os.fork():\n"
        "    sys.exit('the parent is done')\n"
        "os.setsid()\n"
        "signal.alarm(60)\n"
        f"open('{tmp_path}/over').read()\n"
    )
    try:
        with pytest.raises(WakeUndelivered, match="the parent is done"):
            deliver(transport)
    finally:
        os.close(over)
