"""Claude Code and Codex: register, wait, be woken, be killed, be woken again, end with proof."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import pytest

from tests.e2e.cli_hosts import (
    ClaudeCode,
    ClaudeCodeWithoutPrompts,
    ClaudeCodeWithoutTasks,
    ClaudeCodeWithPlugin,
    CliHost,
    Codex,
    CodexWithPlugin,
)
from tests.e2e.openclaw import Unavailable
from tests.e2e.room import Room, until
from tests.e2e.scripted_model import Call, Fault, ModelRequest, Reply, ScriptedModel, text_of
from tests.e2e.taskmem import Taskmem
from tests.support.required import do_without

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

NEWS = re.compile(r'"(Part \d) is ready" appeared')


def read_news(request: ModelRequest) -> tuple[list[str], Sequence[str]]:
    """The parts that the newest wake tells of, and the answers of the tools called since.

    The turn of a host that was killed never ends: what comes after it is in the same turn.
    """
    answers: list[str] = []
    for message in reversed(request.messages):
        if message["role"] == "tool":
            answers.append(text_of(message))
        elif message["role"] == "user" and (found := NEWS.findall(text_of(message))):
            return found, answers[::-1]
    return [], ()


def opens_with(part: str) -> Callable[[ModelRequest], bool]:
    """Whether a request begins what is done for a part."""
    return lambda request: read_news(request) == ([part], [])


class Builder:
    """Waits for each part of a site in turn, marks its step, and completes with the last.

    It is at work on the first when its host is killed, and claims the last before it is made.
    """

    def __init__(self, work: Path, prefix: str, taskmem: Taskmem) -> None:
        self._log, self._site, self._prefix = work / "build.log", work / "site.html", prefix
        self._taskmem = taskmem
        self.task_id = ""
        self.waits = True
        """Whether it waits; if not, it only claims to be done."""
        self.refusals = 0
        """How often its tools were still loading."""
        self.calls: list[Call] = []
        """What it does one after the other when it is told to."""
        self.receipts: list[str] = []
        """What has become of each wake when the model reads it, before any call."""
        self.is_at_work, self.is_killed = Event(), Event()
        """Set while it is at work on the first part, and once its host is killed."""

    def __call__(self, request: ModelRequest) -> Reply:
        turn = request.turn
        found, answers = read_news(request)
        if found and not answers:
            self.receipts.append(self._taskmem.wakes(self.task_id)[-1]["state"])
        if "BEGIN" in turn.text and not found:
            return self._begin(request)
        if "DO IT" in turn.text and len(turn.results) < len(self.calls):
            return [self.calls[len(turn.results)]]
        if "WORK ON" in turn.text and not turn.results:
            return [self._use("task_update", task_id=self.task_id, message="Still at it.")]
        if found == ["Part 1"]:
            return self._do_first(answers)
        if found == ["Part 2"]:
            return self._do_last(answers)
        return "I have done what there was to do."

    def _do_first(self, answers: Sequence[str]) -> Reply:
        if not answers:
            return [
                self._use("task_update", task_id=self.task_id, message="Step 1 done"),
                self._wait("Part 2"),
            ]
        self.is_at_work.set()
        assert self.is_killed.wait(60)
        return "Nobody hears this."

    def _do_last(self, answers: Sequence[str]) -> Reply:
        if len(answers) > 1:
            return "I have done what there was to do."
        if answers:
            assert "site.html" in answers[0], answers
            assert self._taskmem.show(self.task_id)["status"] == "active"
            self._site.write_text("<h1>Site</h1>")
        done = {"task_id": self.task_id, "message": "Step 2 done", "status": "completed"}
        return [self._use("task_update", **done, artifacts=[str(self._site)])]

    def _begin(self, request: ModelRequest) -> Reply:
        if not any(name.endswith("task_register") for name in request.tools):
            self.refusals += 1
            return "My tools are still loading."
        if self.task_id:
            return "I wait."
        if not request.turn.results:
            return [self._use("task_register", name="Build the site", plan=["One", "Two"])]
        [registered] = request.turn.results
        self.task_id = json.loads(registered[registered.index("{") :])["task_id"]
        return [self._wait("Part 1")] if self.waits else "All is done."

    def _wait(self, part: str) -> Call:
        given = {"target": f"pty:file:{self._log}", "wake_when": f'"{part} is ready" appears'}
        return self._use("smart_wait", task_id=self.task_id, **given)

    def _use(self, tool: str, **arguments: object) -> Call:
        return Call(f"{self._prefix}{tool}", arguments)


def begin_task(host: CliHost, script: Builder, words: str = "BEGIN") -> None:
    """Say what begins the task, anew where the tools were still loading."""
    begun = 0
    while begun == script.refusals:
        host.say(words)
        begun += 1
        until(lambda n=begun: script.task_id or script.refusals == n, "it is answered")


def count_refusals(model: ScriptedModel) -> int:
    """How often the end of a turn was refused."""
    return sum("task_continue (task_" in each.turn.text for each in model.requests)


def begin_waiting(host: CliHost, script: Builder, taskmem: Taskmem, model: ScriptedModel) -> None:
    """Begin the task, and look on until it waits."""
    begin_task(host, script)
    until(taskmem.waits, "it waits", shown=lambda: f"{host.screen}\n{model.summary()}")


@pytest.fixture
def own_room(tmp_path: Path) -> Iterator[Room]:
    """A room that must be empty in the end."""
    room = Room(tmp_path)
    yield room
    left = room.left_behind()
    assert not left, f"processes left behind: {left}"


class Stage(NamedTuple):
    """A host that waits for its user, and what is around it."""

    host: CliHost
    taskmem: Taskmem
    model: ScriptedModel
    script: Builder


@contextmanager
def run_host(room: Room, kind: type[CliHost]) -> Iterator[Stage]:
    """Begin the first session of a host, and end all of it."""
    taskmem = Taskmem(room)
    with ScriptedModel(is_stranger=lambda request: not request.tools) as model:
        try:
            host = kind(room, taskmem, model.url)
        except Unavailable as reason:
            do_without(f"{kind.__name__} cannot be fetched: {reason}")
        try:
            (host.work / "build.log").touch()
            model.decide = script = Builder(host.work, host.prefix, taskmem)
            host.begin()
            yield Stage(host, taskmem, model, script)
        finally:
            host.close()
            taskmem.stop()
    if model.errors:
        raise model.errors[0]


@pytest.mark.parametrize("kind", [ClaudeCode, ClaudeCodeWithoutTasks, Codex])
def test_a_killed_session_is_woken_again_and_proves_its_end(own_room: Room, kind: type[CliHost]):
    with run_host(own_room, kind) as (host, taskmem, model, script):
        log = host.work / "build.log"
        begin_waiting(host, script, taskmem, model)
        with log.open("a") as lines:
            lines.write("Part 1 is ready\n")

        assert script.is_at_work.wait(60), model.summary()
        until(lambda: len(taskmem.waits()) == 1, "it waits for the next part")

        host.kill()
        script.is_killed.set()
        if host.transport is None:
            taskmem.kill()
        with log.open("a") as lines:
            lines.write("Part 2 is ready\n")
        if host.transport is not None:
            until(lambda: not taskmem.waits(), "the wait has ended")
        host.start(*host.list_resume_arguments())

        model.wait_for(opens_with("Part 2"), 60)
        until(
            lambda: taskmem.show(script.task_id)["status"] == "completed",
            "the task is completed",
            shown=lambda: f"{host.screen}\n{model.summary()}",
        )
        wakes = taskmem.wakes(script.task_id)
        assert [wake["state"] for wake in wakes] == ["acknowledged", "acknowledged"]
        # A resumed session asks for the end of its wait, unless that came before it was there.
        by = [wake["transport"] for wake in wakes]
        assert by in ([host.transport] * 2, [host.transport, host.transport or "claude-inbox"])
        assert script.receipts == ["acknowledged", "acknowledged"]
        for part in ("Part 1", "Part 2"):
            assert len([each for each in model.requests if opens_with(part)(each)]) == 1


def test_a_session_that_asks_for_no_permissions_is_woken(own_room: Room):
    with run_host(own_room, ClaudeCodeWithoutPrompts) as (host, taskmem, model, script):
        begin_waiting(host, script, taskmem, model)
        with (host.work / "build.log").open("a") as lines:
            lines.write("Part 1 is ready\n")

        assert script.is_at_work.wait(60), host.screen
        script.is_killed.set()


@pytest.mark.parametrize("kind", [ClaudeCode, Codex])
def test_the_packet_comes_after_compaction_and_resume(own_room: Room, kind: type[CliHost]):
    with run_host(own_room, kind) as (host, taskmem, model, script):
        begin_waiting(host, script, taskmem, model)
        until(lambda: host.turn_end in host.screen.rpartition("I wait.")[2], "its turn ends")

        def read_packet(word: str) -> str:
            request = model.wait_for(lambda each: word in each.turn.text, 60)
            return json.dumps(request.messages).rpartition("[task_resume]")[2]

        host.say("/compact")
        until(host.has_compacted, "it has compacted", shown=lambda: host.screen)
        host.say("GO ON")
        assert script.task_id in read_packet("GO ON")

        taskmem.call("task_update", task_id=script.task_id, message="Told meanwhile")
        host.kill()
        host.start(*host.list_resume_arguments())
        host.say("COME BACK")
        assert "Told meanwhile" in read_packet("COME BACK")


@pytest.mark.parametrize("kind", [ClaudeCode, Codex, ClaudeCodeWithPlugin, CodexWithPlugin])
def test_an_end_before_the_task_is_over_is_refused_once(own_room: Room, kind: type[CliHost]):
    with run_host(own_room, kind) as (host, _, model, script):
        script.waits = False
        begin_task(host, script)
        until(lambda: count_refusals(model) == 1, "its end is refused")
        for words in ("HELLO", "WORK ON"):
            host.say(words)
            model.wait_for(lambda each, words=words: words in each.turn.text, 60)
            assert count_refusals(model) == 1
        until(lambda: count_refusals(model) == 2, "it is refused for the new state")


def test_no_end_is_refused_beside_a_goal_of_claude_code(own_room: Room):
    with run_host(own_room, ClaudeCode) as (host, _, model, script):
        script.waits = False
        begin_task(host, script, "/goal BEGIN")
        until(lambda: host.turn_end in host.screen.rpartition("All is done.")[2], "its turn ends")
        host.say("HELLO")
        until(lambda: host.turn_end in host.screen.rpartition("HELLO")[2], "the next ends")
        assert count_refusals(model) == 0
        host.say("/goal clear")
        host.say("WORK ON")
        until(lambda: count_refusals(model) == 1, "its end is refused", shown=lambda: host.screen)


@pytest.mark.parametrize("kind", [ClaudeCode, Codex])
def test_the_packet_names_what_was_done(own_room: Room, kind: type[CliHost]):
    with run_host(own_room, kind) as (host, taskmem, model, script):
        begin_waiting(host, script, taskmem, model)
        tool, argument = host.shell
        commands = ["git init -q copy && echo done > made.txt", "mkdir copy"]
        script.calls = [Call(tool, {argument: each}) for each in commands]
        wanted = f"Bash: {commands[0]} (exit 0)"
        if kind is ClaudeCode:
            page = {"file_path": str(host.work / "page.html"), "content": "<h1>Site</h1>"}
            script.calls.append(Call("Write", page))
        host.say("DO IT")

        def read_status() -> dict[str, Any]:
            return taskmem.call("task_status", task_id=script.task_id)

        until(
            lambda: (
                wanted in read_status()["do_not_redo"]
                and len(read_status()["tool_history"]) == len(script.calls)
            ),
            "it is recorded",
            shown=lambda: f"{read_status()}\n{host.screen}",
        )
        until(lambda: host.turn_end in host.screen.rpartition("DO IT")[2], "its turn ends")
        host.say("/compact")
        until(host.has_compacted, "it has compacted", shown=lambda: host.screen)
        host.say("GO ON")
        request = model.wait_for(lambda each: "GO ON" in each.turn.text, 60)
        packet = json.dumps(request.messages).rpartition("[task_resume]")[2]
        assert wanted in packet


class Asker(Builder):
    """Registers a task, asks the user, and ends its turn."""

    answer = ""

    def __call__(self, request: ModelRequest) -> Reply:
        results = request.turn.results
        if not any(name.endswith("task_register") for name in request.tools):
            self.refusals += 1
            return "My tools are still loading."
        if not results and not self.answer:
            return [self._use("task_register", name="Build the site", plan=["One", "Two"])]
        if len(results) == 1:
            self.task_id = json.loads(results[0][results[0].index("{") :])["task_id"]
            return [self._use("task_update", task_id=self.task_id, ask="Which colour?")]
        if results:
            self.answer = results[-1]
        return "I have done what there was to do."


@pytest.mark.parametrize("is_answered", [True, False])
def test_claude_code_shows_a_question_as_a_form(own_room: Room, is_answered: bool):
    with run_host(own_room, ClaudeCode) as (host, taskmem, model, _):
        model.decide = script = Asker(host.work, host.prefix, taskmem)
        begin_task(host, script)
        until(lambda: "Build the site: Which colour?" in host.screen, "the form is shown")
        if is_answered:
            host.say("Blue.")
            # A key that comes as the form is drawn anew is lost.
            until(lambda: script.answer or host.press("Enter"), "the answer is sent")
        else:
            host.press("Escape")
        until(lambda: script.answer, "the agent is told", shown=lambda: host.screen)

        assert ('The user answered: "Blue."' in json.loads(script.answer)["message"]) is is_answered
        assert bool(taskmem.show(script.task_id)["question"]) is not is_answered


def test_the_end_of_a_usage_limit_is_awaited(own_room: Room):
    with run_host(own_room, ClaudeCode) as (host, taskmem, model, _):
        model.decide = lambda _: Fault(429, "You have reached your limit.")
        host.say("BEGIN")
        is_over = ("wait", "limit:claude", "--timeout", "1s")
        until(
            lambda: taskmem.try_run(*is_over).returncode,
            "the limit is told",
            shown=lambda: host.screen,
        )
        with ThreadPoolExecutor() as threads:
            waiting = threads.submit(taskmem.run, "wait", "limit:claude")
            until(taskmem.waits, "it is awaited")
            model.decide = lambda _: "Here I am."
            host.say("GO ON")
            assert "has answered again" in waiting.result(60)
