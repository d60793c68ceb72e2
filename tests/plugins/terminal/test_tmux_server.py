import asyncio
import os
import signal
import sys

import pytest

from taskmem_hookspecs import Target
from taskmem_hookspecs.testing import SensorSuite
from taskmem_terminal import tmux_panes, tmux_watch
from taskmem_terminal.sensor import TerminalSensor
from taskmem_terminal.tmux_panes import Pane
from tests.plugins.terminal.conftest import SHELL
from tests.plugins.terminal.watched import alive, watch_terminal
from tests.support.waiting import until


class TestPane(SensorSuite):
    @pytest.fixture(autouse=True)
    def open(self, tmux):
        self.server = tmux

    def make_sensor(self, tmp_path):
        return TerminalSensor()

    def make_target(self, tmp_path):
        self.server.session("work", "sleep 600")
        return Target(scheme="pty", name="tmux:work")

    def show(self, tmp_path, text):
        self.server.show("work", f"{text}\r\n")

    def make_missing(self, tmp_path):
        return Target(scheme="pty", name="tmux:other")

    def remove(self, tmp_path):
        self.server("kill-session", "-t", "work")
        return True


async def test_tmux_watch_counts_only_new_output_and_no_typed_command(tmux):
    tmux.session("work")
    tmux.type("work", "echo OLD WORDS")
    until(lambda: tmux.read_screen("work").count("OLD") == 2, "old")
    async with watch_terminal("tmux:work") as watcher:
        here = await watcher.watch.here()
        assert "OLD WORDS" in here.tail
        tmux.type("work", "printf '%s %s\\n' BUILD DONE; tell 'BUILD DONE'")
        frame = await watcher.until_seen("\nBUILD DONE\n")
        lines = frame.text.split("\n")
        typed = [line for line in lines if "printf" in line]
        assert typed
        assert set(typed) <= set(frame.echoes)
        assert "BUILD DONE" not in frame.echoes
        assert "OLD" not in watcher.seen + frame.tail


async def test_typed_command_that_wraps_over_rows_is_one_echo(tmux):
    tmux.session("work")
    command = "true && true && true && true && true && true && true && tell BUILD DONE"
    async with watch_terminal("tmux:work") as watcher:
        tmux.type("work", command)
        frame = await watcher.until_seen("not found")
        (echo,) = [line for line in frame.echoes if "true" in line]
    assert echo.strip() == command


async def test_the_command_typed_while_the_wait_is_made_is_an_echo(tmux):
    tmux.session("work")
    tmux("send-keys", "-t", "work", "true && tell BUI")
    tmux.wait_until_shown("work", "BUI")
    async with watch_terminal("tmux:work") as watcher:
        tmux.type("work", "LD DONE")
        frame = await watcher.until_seen("not found")
    assert "LD DONE" in frame.text.split("\n")[0]
    assert frame.text.split("\n")[0] in frame.echoes


async def test_the_screen_shows_what_came_before_and_what_was_typed(tmux):
    tmux.session("work")
    tmux.type("work", "echo Load''ing; true LOADING")
    tmux.wait_until_shown("work", "Loading")
    async with watch_terminal("tmux:work") as watcher:
        frame = await watcher.look()
    assert "Loading" in frame.screen
    assert "LOADING" in frame.screen
    assert "Loading" not in frame.tail


async def test_the_prompt_is_known_by_what_runs_in_front(tmux):
    tmux("new-session", "-d", "-s", "work", "-x", "60", "-y", "10")
    until(lambda: tmux.ask("work", "pane_current_command") in ("sh", "bash"), "shell")
    async with watch_terminal("tmux:work") as watcher:
        await watcher.until(lambda frame: frame.prompt is True)
        tmux.type("work", f"{sys.executable} -c 'print(1 + 1); input()'")
        await watcher.until(lambda frame: frame.prompt is False)
        tmux.type("work", "")
        await watcher.until(lambda frame: frame.prompt is True)


async def test_what_came_while_no_daemon_ran_is_not_lost(tmux):
    tmux.session("work")
    async with watch_terminal("tmux:work") as watcher:
        tmux.type("work", "seq 1 50")
        await watcher.until_seen("\n50\nme@box:~$")
        await watcher.look()
        place, start = watcher.place, watcher.start
    tmux.type("work", "seq 100 150; echo MISS''ED")
    tmux.wait_until_shown("work", "MISSED")
    async with watch_terminal("tmux:work", place=place, start=start) as watcher:
        frame = await watcher.look()
        assert "\nMISSED\n" in frame.text
        assert "\n100\n" in frame.text
        assert "\n40\n" not in frame.text
        assert "\n40\n" in frame.tail
        tmux.type("work", "echo MO''RE")
        await watcher.until_seen("MORE")


async def test_a_restart_counts_nothing_from_before_the_start(tmux):
    tmux.session("work")
    tmux.type("work", "seq 1 50; echo BEFORE")
    tmux.wait_until_shown("work", "BEFORE\nme")
    async with watch_terminal("tmux:work") as watcher:
        place = watcher.place
    async with watch_terminal("tmux:work", place=place, start=place) as watcher:
        frame = await watcher.look()
        assert "BEFORE" not in frame.text + frame.tail
        tmux.type("work", "echo AF''TER")
        await watcher.until_seen("AFTER")
        assert "BEFORE" not in watcher.seen + watcher.frame.tail


async def test_restart_with_a_full_scrollback_shows_the_kept_lines(tmux):
    tmux.session("keep")
    tmux("set", "-g", "history-limit", "100")
    tmux.session("work")
    async with watch_terminal("tmux:work") as watcher:
        tmux.type("work", "seq 1 500")
        await watcher.until_seen("\n500\nme@box:~$")
        await watcher.look()
        place, start = watcher.place, watcher.start
    tmux.type("work", "seq 1000 1030; echo MISS''ED")
    tmux.wait_until_shown("work", "MISSED\nme")
    async with watch_terminal("tmux:work", place=place, start=start) as watcher:
        frame = await watcher.look()
    assert "\nMISSED\n" in frame.text
    assert "\n1000\n" in frame.text
    assert "\n450\n" not in frame.text


async def test_a_client_that_is_killed_comes_back_and_misses_nothing(tmux):
    tmux.session("work")
    async with watch_terminal("tmux:work") as watcher:
        for word in ("ONE", "TWO"):
            (client,) = until(tmux.clients, "a client")
            tmux("detach-client", "-t", client)
            tmux.show("work", f"{word} CAME\n")
            await watcher.until_seen(f"{word} CAME")
            assert watcher.frame.gone is None


async def test_a_pane_that_closes_is_gone_at_once(tmux):
    tmux.session("keep")
    tmux.session("work")
    async with watch_terminal("tmux:work") as watcher:
        tmux.type("work", "echo LAST WO''RDS")
        await watcher.until_seen("LAST WORDS")
        tmux.type("work", "exit 3")
        frame = await watcher.until_gone()
    assert frame.gone == "The tmux pane pty:tmux:work:0.0 was closed."
    assert frame.exit_status is None


async def test_one_pane_of_several_that_closes_is_gone(tmux):
    tmux.session("work")
    tmux("split-window", "-d", "-t", "work", "sleep 60")
    async with watch_terminal("tmux:work:0.1") as watcher, watch_terminal("tmux:work:0.0") as other:
        tmux("kill-pane", "-t", "work:0.1")
        assert "was closed" in (await watcher.until_gone()).gone
        assert (await other.look()).gone is None


async def test_a_pane_that_remains_tells_the_status_of_its_command(tmux):
    tmux.session("keep")
    tmux("set", "-g", "remain-on-exit", "on")
    tmux.session("work", "sh -c 'read x; seq 1 3000; echo LAST; exit 3'")
    async with watch_terminal("tmux:work") as watcher:
        tmux.type("work", "go")
        frame = await watcher.until_gone()
    assert frame.gone == ("The command in the tmux pane pty:tmux:work:0.0 ended with status 3.")
    assert frame.exit_status == 3
    # tmux drops what a program printed last; what it has on its screen is seen.
    shown = tmux("capture-pane", "-p", "-J", "-t", "work").split("\n")
    assert set(shown) <= set(watcher.seen.split("\n"))


async def test_output_that_tmux_drops_is_seen_at_the_panes_end(tmux, monkeypatch):
    tmux.session("keep")
    tmux("set", "-g", "remain-on-exit", "on")
    program = "read x; seq 5; echo FIRST; echo SECOND; seq 5; read x; exit 3"
    tmux.session("work", f"sh -c '{program}'")
    async with watch_terminal("tmux:work") as watcher:
        printed = watcher.watch.append_output
        dropped = []

        def drops(data):
            before, word, _ = data.partition(b"SECOND")
            dropped.extend([word] if word else [])
            printed(before if not dropped or word else b"")

        monkeypatch.setattr(watcher.watch, "append_output", drops)
        tmux.type("work", "go")
        await watcher.until_seen("FIRST")
        every = "SECOND\n1\n2\n3\n4\n5"
        tmux.wait_until_shown("work", every)
        await watcher.look()
        assert dropped
        assert "SECOND" not in watcher.seen
        tmux.type("work", "on")
        frame = await watcher.until_gone()
    # It begins the few lines before that each look shows again.
    assert frame.text.startswith("4\n5\nFIRST\nSECOND\n1\n2\n3\n4\n5\n")


async def test_dead_pane_without_a_status_is_asked_again(tmux, monkeypatch):
    early = [b""] * 12
    reminded = []
    kill = os.kill
    monkeypatch.setattr(os, "kill", lambda *given: (reminded.append(given[1]), kill(*given)))
    real = Pane.parse

    def parse(line):
        pane = real(line)
        if pane.dead and early:
            early.pop()
            return pane._replace(status=None)
        return pane

    monkeypatch.setattr(Pane, "parse", parse)
    tmux.session("keep")
    tmux("set", "-g", "remain-on-exit", "on")
    tmux.session("work", "sh -c 'read x; exit 3'")
    async with watch_terminal("tmux:work") as watcher:
        tmux.type("work", "go")
        frame = await watcher.until_gone()
    assert early == []
    assert frame.exit_status == 3
    # It may have missed that a child ended.
    assert signal.SIGCHLD in reminded


async def test_a_pane_that_never_tells_how_it_ended_ends_all_the_same(tmux, monkeypatch):
    real = Pane.parse
    monkeypatch.setattr(Pane, "parse", lambda line: real(line)._replace(status=None))
    monkeypatch.setattr(tmux_watch, "_UNSAID_SECONDS", 0.2)
    tmux.session("keep")
    tmux("set", "-g", "remain-on-exit", "on")
    tmux.session("work", "sh -c 'read x'")
    async with watch_terminal("tmux:work") as watcher:
        tmux.type("work", "go")
        frame = await watcher.until_gone()
    assert frame.gone == "The command in the tmux pane pty:tmux:work:0.0 ended."
    assert frame.exit_status is None


async def test_a_command_in_a_pane_that_a_signal_ended_tells_which(tmux):
    tmux.session("keep")
    tmux("set", "-g", "remain-on-exit", "on")
    tmux.session("work", "sh -c 'read x; kill -9 $$'")
    async with watch_terminal("tmux:work") as watcher:
        tmux.type("work", "go")
        frame = await watcher.until_gone()
    assert frame.exit_status == -9
    assert frame.gone == ("The command in the tmux pane pty:tmux:work:0.0 was ended by SIGKILL.")


LINGERS = """#!/bin/sh
case " $* " in *" -C "*) ;; *) exec tmux "$@" ;; esac
tmux "$@"
trap "" TERM
exec sleep 600 >/dev/null
"""


async def test_who_heard_a_session_that_ended_has_ended_with_the_watch(tmux, tmp_path, monkeypatch):
    program = tmp_path / "lingers"
    program.write_text(LINGERS)
    program.chmod(0o700)
    command = [str(program), *tmux_panes.build_tmux_command()[1:]]
    for module in (tmux_panes, tmux_watch):
        monkeypatch.setattr(module, "build_tmux_command", lambda: command)
    started = []
    create = asyncio.create_subprocess_exec

    async def starts(*given, **options):
        started.append(await create(*given, **options))
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", starts)
    tmux.session("keep")
    tmux.session("work")
    async with watch_terminal("tmux:work") as watcher:
        tmux("kill-session", "-t", "=work")
        await watcher.until_gone()
    assert started
    assert all(process.returncode is not None for process in started)


async def test_a_server_that_is_killed_takes_its_panes_along(tmux):
    tmux.session("work")
    async with watch_terminal("tmux:work") as watcher:
        tmux("kill-server")
        assert "was closed" in (await watcher.until_gone()).gone


async def test_a_new_server_is_not_the_one_that_was_watched(tmux):
    tmux.session("work")
    async with watch_terminal("tmux:work") as watcher:
        place = watcher.place
    server = int(tmux.ask("work", "pid"))
    tmux("kill-server")
    until(lambda: not alive(server), "the server is gone")
    tmux.session("work")
    async with watch_terminal("tmux:work", place=place, start=place) as watcher:
        frame = await watcher.look()
    assert "was closed" in frame.gone
    assert frame.text == ""


async def test_watching_changes_nothing_for_the_user(tmux, monkeypatch):
    tmux.session("work")
    tmux.session("other")
    fields = "#{window_width}x#{window_height} #{session_windows} #{pane_id}"
    before = tmux("list-panes", "-a", "-F", fields)
    environment = tmux("show-environment", "-t", "work")
    monkeypatch.setenv("DISPLAY", ":77")
    async with watch_terminal("tmux:work") as watcher, watch_terminal("tmux:other") as other:
        await watcher.look()
        await other.look()
        assert tmux("list-panes", "-a", "-F", fields) == before
        assert len(tmux.clients()) == 2
        flags = tmux("list-clients", "-F", "#{client_flags}").split("\n")
        assert all("read-only" in flag and "ignore-size" in flag for flag in flags)
    assert tmux("show-environment", "-t", "work") == environment
    assert tmux.clients() == []


async def test_one_client_hears_all_panes_of_a_session(tmux):
    tmux.session("work")
    tmux("split-window", "-d", "-t", "work", SHELL)
    sensor = TerminalSensor()
    async with (
        watch_terminal("tmux:work:0.0", sensor) as first,
        watch_terminal("tmux:work:0.1", sensor) as second,
    ):
        assert len(tmux.clients()) == 1
        tmux.show("work:0.1", "SECOND\n")
        await second.until_seen("SECOND")
        tmux.show("work:0.0", "FIRST\n")
        await first.until_seen("FIRST")
        assert "SECOND" not in first.seen


async def test_a_session_that_ends_with_its_last_client_still_does(tmux):
    tmux.session("keep")
    tmux.session("work")
    async with watch_terminal("tmux:work") as watcher:
        with tmux.user("work"):
            until(lambda: len(tmux.clients()) == 2, "the user is there")
            tmux("set", "-t", "work", "destroy-unattached", "on")
        assert "was closed" in (await watcher.until_gone()).gone
    assert tmux("list-sessions", "-F", "#{session_name}") == "keep"


async def test_a_pane_that_moves_to_another_session_is_followed(tmux):
    tmux.session("work")
    tmux.session("other")
    pane = tmux.ask("work", "pane_id")
    tmux("split-window", "-d", "-t", "work", "sleep 60")
    async with watch_terminal(f"tmux:{pane}") as watcher:
        tmux("join-pane", "-d", "-s", pane, "-t", "other:0")
        await watcher.look()
        until(lambda: tmux.ask(pane, "session_name") == "other", "it moved")
        tmux.show(pane, "STILL HERE\n")
        assert (await watcher.until_seen("STILL HERE")).gone is None


async def test_a_busy_pane_is_read_in_bounded_looks(tmux):
    tmux.session("work")
    async with watch_terminal("tmux:work") as watcher:
        tmux.type("work", "seq 1 100000; echo THE E''ND")
        await watcher.until_seen("THE END")
        assert watcher.seen.count("\n") < 120_000


async def test_a_full_screen_program_is_shown_as_its_screen(tmux):
    tmux.session("work")
    async with watch_terminal("tmux:work") as watcher:
        tmux.show("work", "\x1b[?1049h\x1b[2J\x1b[3;5HTop of it\x1b[5;1H50%")
        frame = await watcher.until_seen("50%")
        assert frame.tail == "\n\n    Top of it\n\n50%"


async def test_looks_at_one_pane_may_be_made_at_the_same_time(tmux):
    tmux.session("work")
    async with watch_terminal("tmux:work") as watcher:
        tmux.show("work", "HELLO\n")
        await watcher.until_seen("HELLO")
        looks = [watcher.watch.look(watcher.start, watcher.start) for _ in range(20)]
        frames = await asyncio.gather(*looks)
    assert all("HELLO" in frame.text for frame in frames)


async def test_silent_tmux_is_not_taken_for_one_without_panes(tmux, monkeypatch, tmp_path):
    tmux.session("work")
    async with watch_terminal("tmux:work") as watcher:
        broken = tmp_path / "tmux"
        broken.write_text("#!/bin/sh\nexit 1\n")
        broken.chmod(0o700)
        path = os.environ["PATH"]
        monkeypatch.setenv("PATH", f"{tmp_path}:{path}")
        (client,) = tmux.clients()
        tmux("detach-client", "-t", client)
        await watcher.watch.wait_for_change()
        for _ in range(3):
            assert (await watcher.look()).gone is None
        monkeypatch.setenv("PATH", path)
        tmux.show("work", "STILL HERE\n")
        await watcher.until_seen("STILL HERE")


async def test_a_wait_stays_with_its_pane_when_another_is_in_front(tmux):
    tmux.session("work")
    async with watch_terminal("tmux:work") as watcher:
        place = watcher.place
    tmux("split-window", "-t", "work", SHELL)
    tmux.show("work:0.0", "FIRST\n")
    async with watch_terminal("tmux:work", place=place, start=place) as watcher:
        assert "FIRST" in (await watcher.look()).text
        tmux.show("work:0.1", "SECOND\n")
        tmux.show("work:0.0", "AGAIN\n")
        await watcher.until_seen("AGAIN")
        assert "SECOND" not in watcher.seen
        tmux("kill-pane", "-t", "work:0.0")
        assert "was closed" in (await watcher.until_gone()).gone


async def test_lines_that_repeat_do_not_hide_what_came_between(tmux):
    tmux.session("work", "cat")
    tmux.show("work", "tick\n" * 5)
    async with watch_terminal("tmux:work") as watcher:
        place = watcher.place
    tmux.show("work", "EVENT\n" + "tick\n" * 5)
    async with watch_terminal("tmux:work", place=place, start=place) as watcher:
        assert "EVENT\n" in (await watcher.look()).text
