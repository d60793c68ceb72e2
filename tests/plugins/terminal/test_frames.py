import asyncio

import pytest

from taskmem_terminal.frames import OutputReader, ReadOptions, StreamPosition, TypingState
from tests.plugins.terminal.watched import Bytes

SHELL = ReadOptions(columns=80, rows=24, interactive=True)
OUTPUT = ReadOptions(columns=80, rows=24)
A, B = b"\x1b]133;A\x07", b"\x1b]133;B\x07"
C, D = b"\x1b]133;C\x07", b"\x1b]133;D;0\x07"


def echoes(data, manner=SHELL, mood=TypingState.NOTHING, start=0):
    return OutputReader().read_page(Bytes(data), StreamPosition(start, start, mood), manner).echoes


@pytest.mark.parametrize(
    "line",
    [
        'user@host:~/x$ make && echo "BUILD DONE"',
        'root@3f2a1b:/# make && echo "BUILD DONE"',
        '(venv) me@box ~ % echo "BUILD DONE"',
        "[me@box src]$ grep BUILD DONE",
        'bash-5.2$ echo "BUILD DONE"',
        "~/src/app $ grep 'BUILD DONE' log",
        "host% grep BUILD DONE",
        "In [3]: wait('BUILD DONE')",
        "+ echo BUILD DONE",
        "> echo BUILD DONE",
        'echo "BUILD DONE"',
        "@echo BUILD DONE",
        "\tprintf 'BUILD DONE'",
        'sleep 5 && echo "BUILD DONE"',
        "while true; do echo BUILD DONE; done",
        "PS C:\\src> Write-Output 'BUILD DONE'",
        "  me@box:~/x$ grep 'BUILD DONE'",
    ],
)
def test_a_line_that_was_typed_is_an_echo_wherever_it_stands(line):
    from taskmem_terminal.render import render_lines

    (shown,) = render_lines([line.encode()])[0]
    assert echoes(line.encode(), OUTPUT) == (shown,)
    assert echoes(f"a\n{line}\nb".encode(), OUTPUT) == (shown,)


@pytest.mark.parametrize(
    "line",
    [
        "BUILD DONE",
        "[12:30:01] BUILD DONE in 3 s",
        "BUILD DONE: 100%",
        "warning: $HOME is not set, BUILD DONE",
        "=> => exporting layers, BUILD DONE",
        "-> BUILD DONE",
        "user@host: BUILD DONE",
        "mail from me@example.org: BUILD DONE",
        "http://localhost:8080/ BUILD DONE",
        "the echo of it: BUILD DONE",
        "100% BUILD DONE",
        "costs 5$ BUILD DONE",
        "+BUILD DONE",
        "- BUILD DONE",
        "✓ BUILD DONE",
        "*** BUILD DONE ***",
        "  ➜  Local:   http://localhost:5173/",
        " --> src/main.rs:6:4",
        "  # module.web must be replaced",
        "      + triggers_replace = BUILD DONE",
        "  > BUILD DONE",
        "  $ BUILD DONE",
        "    ... BUILD DONE",
    ],
)
@pytest.mark.parametrize("manner", [SHELL, OUTPUT], ids=["shell", "output"])
def test_a_line_of_output_is_none(line, manner):
    assert echoes(line.encode(), manner) == ()


@pytest.mark.parametrize(
    "line",
    [
        "# BUILD DONE",
        "% BUILD DONE",
        "> BUILD DONE",
        "$ grep 'BUILD DONE'",
        "❯ grep 'BUILD DONE'",
        "➜  app git:(main) ✗ grep 'BUILD DONE'",
        "╰─❯ grep 'BUILD DONE'",
        '>>> print("BUILD DONE")',
        "++ tee BUILD DONE",
        "(venv) $ grep 'BUILD DONE'",
        "$ 120 due",
        "... 12 more failures",
        "+ left-pad@1.3.0",
    ],
)
def test_prompt_or_heading_is_an_echo_only_where_one_can_type(line):
    assert echoes(line.encode(), SHELL) == (line,)
    assert echoes(line.encode(), OUTPUT) == ()


def test_the_further_lines_of_a_command_are_echoes_too():
    data = b"me@box:~$ cat <<EOF\r\n> BUILD DONE\r\n> EOF\r\nBUILD DONE\r\n> quoted\r\n"
    assert echoes(data, OUTPUT) == ("me@box:~$ cat <<EOF", "> BUILD DONE", "> EOF")


def test_an_indented_line_continues_no_command():
    assert echoes(b"$ make\n  > BUILD DONE\n") == ("$ make",)


def test_a_command_continues_over_looks():
    data = b"me@box:~$ cat <<EOF\n" + b"".join(b"> line %d\n" % n for n in range(20))
    reader, spot, typed = OutputReader(), StreamPosition(0, 0), set()
    for end in range(0, len(data) + 1, 7):
        page = reader.read_page(Bytes(data[:end]), StreamPosition.parse(str(spot)), OUTPUT)
        spot = page.next
        typed.update(page.echoes)
    assert typed >= {f"> line {n}" for n in range(19)}


def test_the_rest_of_the_line_that_was_being_typed_is_an_echo():
    data = b'make && tell "BUILD DONE"\r\nBUILD DONE\r\n'
    assert echoes(data, mood=TypingState.CURSOR) == ('make && tell "BUILD DONE"',)
    assert echoes(data) == ()


def test_a_typed_command_that_wraps_is_one_echo():
    data = b"$ tell 'BUILD" + b" \r DONE'\r\nBUILD DONE\r\n"
    manner = ReadOptions(columns=13, rows=24, interactive=True)
    assert echoes(data, manner) == ("$ tell 'BUILD DONE'",)


def test_what_a_line_editor_reads_is_an_echo_whatever_the_prompt():
    data = b"\x1b[?2004hweird@@ tell BUILD DONE\r\n\x1b[?2004l\rBUILD DONE\r\n"
    assert echoes(data) == ("weird@@ tell BUILD DONE",)


def test_what_a_full_screen_program_paints_is_none():
    assert echoes(b"\x1b[?1049h\x1b[?2004h\x1b[2;2HBUILD DONE") == ()


def test_marks_of_the_shell_are_decisive():
    data = (
        A + b"weird@@ " + B + b"tell 'BUILD DONE'\r\n" + C + b"# BUILD DONE\r\n"
        b"> BUILD DONE\r\n" + D + A + b"weird@@ " + B
    )
    assert echoes(data) == ("weird@@ tell 'BUILD DONE'",)


async def test_marks_tell_whether_the_shell_waits():
    for data, waits in [
        (b"$ ", None),
        (A + b"$ " + B, True),
        (A + b"$ " + B + b"make\r\n" + C + b"cc -o x\r\n", False),
    ]:
        assert (
            await OutputReader().read_tail(Bytes(data), StreamPosition(0, 0), SHELL)
        ).prompt is waits


@pytest.mark.parametrize(
    ("manner", "shown"),
    [(ReadOptions(), ["79% step", "done", "next"]), (OUTPUT, ["donestep", "next"])],
    ids=["log", "terminal"],
)
def test_each_update_in_a_log_is_a_line(manner, shown):
    data = b"\r79% step\rdone\r\nnext"
    page = OutputReader().read_page(Bytes(data), StreamPosition(0, 0), manner)
    assert page.text.split("\n") == (["", *shown] if manner.rows == 0 else shown)
    tail = asyncio.run(OutputReader().read_tail(Bytes(data), StreamPosition(0, 0), manner))
    assert tail.text == "donestep\nnext"


async def test_a_tail_that_is_written_anew_at_its_length_is_read_anew():
    reader = OutputReader()
    for text in ("running\n", "stopped\n"):
        tail = await reader.read_tail(Bytes(text.encode()), StreamPosition(0, 0), ReadOptions())
        assert tail.text == text.strip()


@pytest.mark.parametrize(
    ("before", "added", "shown"),
    [
        (b"old\nchecking... ", b"yes\n", "checking... yes\n"),
        (b"checking... ", b"yes", "checking... yes"),
        (b"\x1b[1mchecking...\x1b[m ", b"yes", "checking... yes"),
        (b"checking... ", b"\nyes\n", "\nyes\n"),
        (b"checking... ", b" \nyes\n", "\nyes\n"),
        (b"\r50%", b"\r60%", "\n60%"),
        (b"\r50%", b" of 8", "50% of 8"),
        (b"\x1b[2;2Hold", b"new", "new"),
        (b"x" * 5_000, b"new", "new"),
    ],
)
async def test_a_row_that_grows_is_shown_from_its_start(before, added, shown):
    start, stream = StreamPosition(len(before), len(before)), Bytes(before + added)
    assert OutputReader().read_page(stream, start, ReadOptions()).text == shown
    tail = await OutputReader().read_tail(stream, start, ReadOptions())
    assert tail.text.strip() == shown.strip()
    old = await OutputReader().read_tail(Bytes(before), start, ReadOptions())
    assert old.text == ""


def test_a_row_that_grows_by_a_blank_is_shown_from_its_start():
    data, position = b"checking... yes", StreamPosition(11, 11)
    for end in (12, 13, 15):
        page = OutputReader().read_page(Bytes(data[:end]), position, ReadOptions())
        position = page.next
    assert page.text == "checking... yes"
