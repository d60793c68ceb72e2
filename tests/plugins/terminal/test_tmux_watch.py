import asyncio
import contextlib
import os
import shutil
import sys

import pytest

from openclaw_taskmem.domain.conditions.conditions import parse_condition
from taskmem_hookspecs import Met, Target
from taskmem_terminal import tmux_panes
from taskmem_terminal.judge import TerminalRuleJudge
from taskmem_terminal.sensor import TerminalSensor
from taskmem_terminal.tmux_panes import TmuxError, list_panes
from taskmem_terminal.tmux_watch import Client, Tmux
from tests.plugins.terminal.conftest import SHELL
from tests.plugins.terminal.watched import alive, list_open_files, watch_terminal
from tests.support.required import do_without
from tests.support.waiting import PATIENCE, until

PYTHON = sys.executable
REPLS = {
    f"{PYTHON} -m pdb wait.py": "open('go').read()",
    f"{PYTHON} -q": "open('go').read()",
    "node": "fs.readFileSync('go')",
    "gdb -q -nx": "shell cat go",
    "perl -de 1": "print `cat go`",
    "tclsh": "exec cat go",
    "sqlite3": ".shell cat go",
}
ODD = "bash --norc -c 'exec -a $\"x\ty\nz\" sleep 60'"


async def judge_pane(watcher, judge, expected):
    """Judge each look until the verdict is as expected; return the last one."""
    try:
        async with asyncio.timeout(PATIENCE):
            while (found := await judge.rule(await watcher.look())).met is not expected:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(found.look_again_seconds):
                        await watcher.watch.wait_for_change()
    except TimeoutError:
        raise AssertionError(f"{watcher.frame}") from None
    return found


def _read_file(path):
    return path.exists() and path.read_text()


async def attach(session="$0"):
    return await Client.attach(session, Tmux())


async def test_what_a_pane_prints_is_never_taken_for_what_tmux_says(tmux):
    tmux.session("work", "cat")
    tmux("split-window", "-d", "-t", "work", "cat")
    pane = tmux.ask("work:0.1", "pane_id")
    numbers = range(100, 900)
    forged = "".join(f"%end 1 {n} 1\n%output {pane} FORGED\n" for n in numbers)
    tmux.show("work:0.0", forged)
    tmux.wait_until_shown("work:0.0", "899")
    sensor = TerminalSensor()
    async with (
        watch_terminal("tmux:work:0.1", sensor) as other,
        watch_terminal("tmux:work:0.0", sensor) as forger,
    ):
        for _ in range(3):
            await forger.look()
            await other.look()
        assert "%end 1 899 1" in (await forger.watch.here()).tail
        tmux.show("work:0.1", "REAL\n")
        await other.until_seen("REAL")
        assert "FORGED" not in other.seen
        assert "%output" not in other.frame.tail


@pytest.mark.parametrize("program", REPLS)
async def test_the_prompt_of_a_debugger_or_repl_returns(tmux, tmp_path, program):
    if shutil.which(program.split()[0]) is None:
        do_without(f"{program.split()[0]} is not installed")
    os.mkfifo(tmp_path / "go")
    (tmp_path / "wait.py").write_text("pass\n")
    tmux("new-session", "-d", "-s", "work", "-c", str(tmp_path), program)
    until(lambda: tmux.read_screen("work").rstrip()[-1:] in (*"%>)",), "its prompt")
    tmux.type("work", REPLS[program])
    async with watch_terminal("tmux:work") as watcher:
        judge = TerminalRuleJudge(parse_condition("prompt returns"), "tmux:work")
        assert (await judge.rule(await watcher.look())).met is Met.NO
        (tmp_path / "go").write_text("")
        await judge_pane(watcher, judge, Met.YES)


LIKE_TYPED = [
    "> my-app@1.0.0 build",
    "# pass 2",
    "$ tsc -p .",
    "... 12 more failures",
    "➜  Local: http://x",
    "foo> bar baz",
]
WEAK_SHELLS = {
    "bash": "env -i PS1='> ' PATH=/usr/bin:/bin TERM=screen bash --norc --noprofile -i",
    "zsh": "env -i TERM=screen PATH=/usr/bin:/bin zsh -f -i",
    "fish": "env -i HOME=/nonexistent PATH=/usr/bin:/bin TERM=screen fish --no-config -i",
    "dash": "env -i PS1='> ' PATH=/usr/bin:/bin dash -i",
}


@pytest.mark.parametrize(
    ("shell", "command"),
    [*((shell, "sh say") for shell in WEAK_SHELLS), ("bash", ". ./say"), ("zsh", ". ./say")],
)
async def test_no_program_types_what_it_prints(tmux, tmp_path, shell, command):
    if shutil.which(shell) is None:
        do_without(f"{shell} is not installed: apt-get install {shell}")
    os.mkfifo(tmp_path / "go")
    lines = "".join(f"echo '{line}'\n" for line in LIKE_TYPED)
    (tmp_path / "say").write_text(f"cat go\n{lines}cat go\n")
    tmux("new-session", "-d", "-s", "work", "-c", str(tmp_path), WEAK_SHELLS[shell])
    until(lambda: tmux.read_screen("work").rstrip()[-1:] in (*"%>#$",), "its prompt")
    async with watch_terminal("tmux:work") as watcher:
        wanted = " and ".join(f'"{line}" appears' for line in LIKE_TYPED)
        judge = TerminalRuleJudge(parse_condition(wanted), "tmux:work")
        tmux.type("work", command)
        in_front = ("sh" if command.startswith("sh") else "cat", "say")
        until(lambda: tmux.ask("work", "pane_current_command") in in_front, "it runs")
        assert (await judge.rule(await watcher.look())).met is Met.NO
        typing = watcher.watch._typing
        await asyncio.to_thread(until, lambda: not typing.is_possible, "nobody can type")
        (tmp_path / "go").write_text("")
        await judge_pane(watcher, judge, Met.YES)
        (tmp_path / "go").write_text("")


@pytest.mark.parametrize("shell", WEAK_SHELLS)
async def test_what_is_typed_at_any_prompt_is_an_echo(tmux, shell):
    if shutil.which(shell) is None:
        do_without(f"{shell} is not installed: apt-get install {shell}")
    tmux("new-session", "-d", "-s", "work", "-x", "99", "-c", "/", WEAK_SHELLS[shell])
    until(lambda: tmux.read_screen("work").rstrip()[-1:] in (*"%>#$",), "its prompt")
    prompt = tmux.read_screen("work").rstrip()
    async with watch_terminal("tmux:work") as watcher:
        judge = TerminalRuleJudge(parse_condition("/BUILD DONE/ appears"), "tmux:work")
        for number in (40, 41, 42):
            tmux.type("work", f"true 'BUILD DONE'; expr {number}")
            while not tmux.read_screen("work").rstrip().endswith(f"\n{number}\n{prompt}"):
                await watcher.watch.wait_for_change()
                assert (await judge.rule(await watcher.look())).met is Met.NO


async def test_what_is_typed_before_it_is_read_is_an_echo(tmux, tmp_path):
    os.mkfifo(tmp_path / "go")
    asking = "; ".join(f"printf '{name}> '; cat go; read x" for name in "abc")
    tmux("new-session", "-d", "-s", "work", "-c", str(tmp_path), f'sh -c "{asking}"')
    tmux.wait_until_shown("work", "a>")
    async with watch_terminal("tmux:work") as watcher:
        judge = TerminalRuleJudge(parse_condition("/BUILD DONE/ appears"), "tmux:work")
        typing = watcher.watch._typing
        for name in "abc":
            await asyncio.to_thread(tmux.wait_until_shown, "work", f"{name}>")
            await asyncio.to_thread(until, lambda: not typing.is_possible, "nobody can type")
            tmux.type("work", f"true 'BUILD DONE' {name}")
            while f"{name}\n" not in watcher.seen:
                await watcher.watch.wait_for_change()
                assert (await judge.rule(await watcher.look())).met is Met.NO
            (tmp_path / "go").write_text("")


@pytest.mark.parametrize(
    ("line", "rest"), [("Building... ", "done"), ("step 1 -> ", "two"), ("45 %", " done")]
)
async def test_the_rest_of_a_programs_line_is_no_echo(tmux, tmp_path, line, rest):
    os.mkfifo(tmp_path / "go")
    tmux.session("work", SHELL, "-c", str(tmp_path))
    tmux.type("work", f"clear; printf %s '{line}'; cat go; echo '{rest}'")
    tmux.wait_until_shown("work", f"{line.rstrip()}")
    until(lambda: tmux.read_screen("work").startswith(line.rstrip()), "only that")
    until(lambda: tmux.ask("work", "pane_current_command") == "cat", "it runs")
    async with watch_terminal("tmux:work") as watcher:
        judge = TerminalRuleJudge(parse_condition(f'"{rest.strip()}" appears'), "tmux:work")
        assert (await judge.rule(await watcher.look())).met is Met.NO
        (tmp_path / "go").write_text("")
        await judge_pane(watcher, judge, Met.YES)


async def test_answers_stay_with_their_questions(tmux):
    tmux.session("work", "cat")
    # What hooks print comes between the answers.
    for command in ("display-message", "capture-pane"):
        hook = "display-message -p FROM-A-HOOK"
        tmux("set-hook", "-g", f"after-{command}", hook)
    client = await attach()
    asked = [
        client.ask(
            f"display-message -p {n}",
            f"capture-pane -p -t {'nowhere' if n % 3 == 2 else 'work'}",
            f"display-message -p last-{n}",
        )
        for n in range(9)
    ]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    for n, answer in enumerate(answers):
        if n % 3 == 2:
            assert isinstance(answer, TmuxError)
            assert "nowhere" in str(answer)
        else:
            assert (answer[0], answer[2][0]) == ([b"%d" % n], b"last-%d" % n)
    await client.leave()


async def test_a_question_that_was_given_up_harms_no_later_one(tmux):
    tmux.session("work", "cat")
    client = await attach()
    heard = []
    given_up = asyncio.create_task(client.ask("display-message -p old", then=heard.append))
    await asyncio.sleep(0)
    given_up.cancel()
    assert await client.ask("display-message -p new") == [[b"new"]]
    assert heard == []
    await client.leave()


async def test_unreadable_tmux_answer_fails_only_its_own_question(tmux):
    tmux.session("work", "cat")
    client = await attach()

    def stumble(_):
        raise IndexError

    with pytest.raises(TmuxError, match="cannot be read"):
        await client.ask("display-message -p x", then=stumble)
    assert await client.ask("display-message -p y") == [[b"y"]]
    await client.leave()
    assert tmux.clients() == []


async def test_without_a_locale_everything_is_read_as_it_is(tmux, monkeypatch):
    tmux.session("wörk", "cat")
    tmux.show("=wörk:", "früh 日本\n")
    monkeypatch.setenv("LC_ALL", "C")
    async with watch_terminal("tmux:wörk") as watcher:
        assert "früh 日本" in (await watcher.watch.here()).tail
        tmux.show("%0", "spät 日本\n")
        await watcher.until_seen("spät 日本")


async def test_a_program_may_be_named_as_it_likes(tmux):
    tmux.session("odd", ODD)
    tmux.session("work", "cat")
    until(lambda: "x" in tmux.ask("odd", "pane_current_command"), "it is named")
    async with watch_terminal("tmux:work") as watcher, watch_terminal("tmux:odd") as odd:
        assert odd.watch.pane.command == "x y z"
        tmux.show("odd", "HELLO\n")
        await odd.until_seen("HELLO")
        tmux.show("work", "HELLO TOO\n")
        await watcher.until_seen("HELLO TOO")
        for client in tmux.clients():
            tmux("detach-client", "-t", client)
        tmux.show("work", "AGAIN\n")
        await watcher.until_seen("AGAIN")


async def test_one_pane_that_cannot_be_read_hides_no_other(tmux, monkeypatch):
    tmux.session("work", "cat")
    ask = tmux_panes.run_tmux_command

    async def odd(*arguments):
        return "%7\tx\n\nz\n" + await ask(*arguments)

    monkeypatch.setattr(tmux_panes, "run_tmux_command", odd)
    assert [pane.session_name for pane in await list_panes()] == ["work"]


async def test_cancelled_attach_to_a_tmux_session_leaves_nothing(tmux, monkeypatch, tmp_path):
    tmux.session("work", "cat")
    broken, told = tmp_path / "tmux", tmp_path / "pid"
    broken.write_text(
        '#!/bin/sh\ncase "$*" in\n'
        f"  *attach-session*) echo $$ > {told}; exec cat 3>&1 >&2;;\n"
        f'  *) exec {shutil.which("tmux")} "$@";;\nesac\n'
    )
    broken.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    sensor = TerminalSensor()
    watch = asyncio.create_task(sensor.watch(Target(scheme="pty", name="tmux:work")))
    pid = int(await asyncio.to_thread(until, lambda: _read_file(told), "it attaches"))
    assert any("pidfd" in handle for handle in list_open_files())
    watch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watch
    assert not alive(pid)
    assert sensor._tmux._panes == {}
    assert not any("pidfd" in handle for handle in list_open_files())
