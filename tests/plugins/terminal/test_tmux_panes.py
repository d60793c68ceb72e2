from types import SimpleNamespace

import pytest

from taskmem_hookspecs import Target, TargetNotFound
from taskmem_terminal.sensor import TerminalSensor
from taskmem_terminal.tmux_panes import Pane, PaneBuffer
from tests.plugins.terminal.watched import watch_terminal


async def test_a_name_is_a_name_and_not_the_beginning_of_one(tmux):
    tmux.session("workshop")
    with pytest.raises(TargetNotFound) as refused:
        await TerminalSensor().watch(Target(scheme="pty", name="tmux:work"))
    assert str(refused.value) == (
        "There is no pane pty:tmux:work; there are pty:tmux:workshop:0.0 (bash)."
    )


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("work", "1.1"),
        ("=work", "1.1"),
        ("work:", "1.1"),
        ("work:0", "0.0"),
        ("work:logs", "1.1"),
        ("work:logs.0", "1.0"),
        ("work:1.1", "1.1"),
        ("work.0", "1.0"),
        ("work:.0", "1.0"),
        ("%0", "0.0"),
        ("@1", "1.1"),
        ("$0", "1.1"),
        ("work:^", "0.0"),
    ],
)
async def test_a_pane_can_be_named_as_tmux_does(tmux, name, index):
    tmux.session("work", "sleep 60")
    tmux("new-window", "-t", "work", "-n", "logs", "sleep 60")
    tmux("split-window", "-t", "work:logs", "sleep 60")
    tmux.session("other", "sleep 60")
    async with watch_terminal(f"tmux:{name}") as watcher:
        assert str(watcher.watch.pane) == f"pty:tmux:work:{index}"


@pytest.mark.parametrize("name", ["", "work:7", "work:lo", "work:0.9", "%99", "nope"])
async def test_a_pane_that_is_not_there_is_refused(tmux, name):
    tmux.session("work", "sleep 60")
    tmux("new-window", "-t", "work", "-n", "logs", "sleep 60")
    with pytest.raises(TargetNotFound, match="There is no pane"):
        await TerminalSensor().watch(Target(scheme="pty", name=f"tmux:{name}"))


async def test_without_a_server_the_sentence_says_what_to_do(tmux):
    with pytest.raises(TargetNotFound, match="no tmux server runs"):
        await TerminalSensor().watch(Target(scheme="pty", name="tmux:work"))


async def test_without_tmux_the_sentence_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TargetNotFound, match="tmux is not installed here; install it"):
        await TerminalSensor().watch(Target(scheme="pty", name="tmux:work"))


@pytest.mark.parametrize(
    ("command", "started_with", "prompt"),
    [
        ("bash", "", True),
        ("make", "", False),
        ("zsh", "zsh", True),
        ("sh", '"sh build.sh"', None),
        ("ssh", "", None),
    ],
)
def test_whether_a_shell_waits_is_said_only_where_it_is_known(command, started_with, prompt):
    fields = ["%0", "$0", "work", "@0", "0", "0", "1", "1", "0", "", "", "7"]
    fields += ["0", "0", "0", "80", "24", "1", "2"]
    fields += [command, "window", started_with]
    assert Pane.parse("\t".join(fields)).prompt is prompt


EDIT, RUN = b"\x1b[?2004h", b"\x1b[?2004l\r"


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([(b"a\r\n", (False, False)), (b"b", (False, False))], [b"a", b"b"]),
        ([(b"a\r\n> ", (False, True)), (b"x\r\n", (True, False))], [b"a"]),
        ([(b"a\r\n> ", (False, False)), (b"x\r\n", (False, False))], [b"a"]),
        ([(b"> x", (False, False)), (b"y\r\n", (False, False))], [b"> xy"]),
        ([(RUN + b"a\r\n(gdb) ", (True, False)), (b"x\r\n", (True, False))], [b"a"]),
        ([(RUN + b"a\r\n+ ", (True, True)), (b"x\r\n", (True, False))], []),
        ([(b"> x\r\n" + RUN + b"a\r\n", (True, False))], [b"a"]),
        ([(b"> x\r\n" + RUN, (True, True)), (b"a\r\n" + EDIT, (True, True))], [b"a"]),
        ([(b"> x\r\n", (True, True)), (b"a\r\n", (True, False))], []),
    ],
)
def test_what_came_while_nobody_could_type_is_untyped(pieces, expected):
    buffer = PaneBuffer(SimpleNamespace(to_bytes=bytes))
    for data, can_be_typed in pieces:
        buffer.append(data, can_be_typed)
    lines = buffer.read(0, 99).split(b"\n")
    begins = [sum(len(line) + 1 for line in lines[:n]) for n in range(len(lines))]
    untyped = [
        line.removeprefix(RUN).rstrip()
        for line, begin in zip(lines, begins, strict=True)
        if line and buffer.is_untyped(begin, begin + len(line))
    ]
    assert untyped == expected


def test_a_program_that_is_typed_at_is_no_run():
    buffer = PaneBuffer(SimpleNamespace(to_bytes=bytes))
    buffer.append(b"> node\r\n" + RUN, (True, True))
    buffer.forget_run()
    begin = buffer.end
    buffer.append(b"> x\r\n" + EDIT, (True, True))
    assert not buffer.is_untyped(begin, buffer.end - len(EDIT))
