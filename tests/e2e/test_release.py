"""A small release on the real gateway: two agents and a person, who wait for each other."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.house import House
from tests.e2e.room import until
from tests.e2e.scripted_model import Call, ModelRequest, Reply
from tests.e2e.shared_house import Scripts, Story, use
from tests.support.pages import serve_pages
from tests.support.shells import Shell

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SETTINGS = {
    "TASKMEM_STUCK_THRESHOLD_SECONDS": "3600",
    "TASKMEM_WAIT_URLS": "all",
    "TASKMEM_WAIT_COMMANDS": "cat",
}
OTHER_AGENT = "releaser"
Step = Callable[[], Call]


@pytest.fixture
def person(home: tuple[House, Scripts]) -> Iterator[Shell]:
    """The shell of the person."""
    taskmem = home[0].taskmem
    shell = Shell(taskmem.room.environment(taskmem.environment))
    yield shell
    shell.close()


def configure(found: dict[str, Any]) -> None:
    """Give the gateway a second agent."""
    found["agents"]["list"] = [{"id": "main", "default": True}, {"id": OTHER_AGENT}]


class Worker:
    """An agent that answers a turn that holds some words with calls, one after the other."""

    def __init__(self, parts: Mapping[str, Sequence[Step]]) -> None:
        self._parts = parts
        self.answers: list[dict[str, Any]] = []
        """What our tools answered, oldest first."""
        self.turns: list[str] = []
        """What each turn began with."""

    def __call__(self, request: ModelRequest) -> Reply:
        turn = request.turn
        if request.opens_turn:
            self.turns.append(turn.words)
        elif turn.results[-1].startswith("{"):
            answer = json.loads(turn.results[-1])
            if "tool" in answer:  # it was called by the catalogue
                answer = json.loads(answer["result"]["content"][0]["text"])
            self.answers.append(answer)
        steps = next((steps for words, steps in self._parts.items() if words in turn.words), ())
        done = len(turn.results)
        return [steps[done]()] if done < len(steps) else f"{done} calls made."

    def find_id(self, name: str) -> str:
        """The id of the task that has this name."""
        return next(each["task_id"] for each in self.answers if each.get("name") == name)


class Release:
    """What the two agents do for version 2.0."""

    def __init__(self, folder: Path) -> None:
        self.package, self.notes, self.go = (folder / name for name in ("app.tar", "notes", "go"))
        self.log = folder / "log"
        self.log.touch()
        self.builder = Worker(
            {
                "build and release": [
                    lambda: Call("task_register", {"name": "Build", "plan": ["Build it"]}),
                    self._register_release,
                    self._build,
                    self._wait_for_build,
                ],
                "BUILD OK": [self._complete_build, self._wait_for_release],
            }
        )
        self.releaser = Worker(
            {
                "You release": [lambda: use("task_claim"), self._wait_for_queue],
                "is queued": [lambda: use("task_claim"), self._hand_over],
                "Name the version": [self._write_notes, self._hand_over],
            }
        )

    @property
    def task_id(self) -> str:
        """The id of the task of the releaser."""
        return self.builder.find_id("Release")

    def _register_release(self) -> Call:
        blockers = [self.builder.find_id("Build")]
        given = {"role": OTHER_AGENT, "blocked_by": blockers}
        return Call("task_register", {"name": "Release", "plan": ["Publish"], **given})

    def _build(self) -> Call:
        made = f"echo 2.0 > {self.package}; echo BUILD OK >> {self.log}"
        command = f"until [ -e {self.go} ]; do sleep 0.1; done; {made}"
        return Call("exec", {"command": command, "background": True})

    def _wait_for_build(self) -> Call:
        also = [{"target": f"pty:file:{self.log}", "wake_when": '"BUILD OK" appears'}]
        wanted = {"target": f"path:{self.package}", "wake_when": "appears"}
        return Call("smart_wait", {**wanted, "also": also, "all": True, "timeout": 3000})

    def _complete_build(self) -> Call:
        done = {"completed_steps": [1], "status": "completed", "artifacts": [str(self.package)]}
        return Call("task_update", {"task_id": self.builder.find_id("Build"), **done})

    def _wait_for_release(self) -> Call:
        wanted = {"target": f"task:{self.task_id}", "wake_when": "completes"}
        return Call("smart_wait", {**wanted, "timeout": 3000})

    def _wait_for_queue(self) -> Call:
        return Call("smart_wait", {"target": f"queue:{OTHER_AGENT}", "timeout": 3000})

    def _write_notes(self) -> Call:
        return Call("exec", {"command": f"echo Version 2.0 > {self.notes}"})

    def _hand_over(self) -> Call:
        return use("task_handoff", task_id=self.task_id, note="Please look at the notes.")


def test_two_agents_and_a_person_release(story: Story, person: Shell, tmp_path: Path):
    release = Release(tmp_path)
    other = Story(story.house, story.scripts, story.session.replace(":main:", f":{OTHER_AGENT}:"))
    story.follow(release.builder)
    other.follow(release.releaser)

    def count_reviews() -> int:
        return sum(
            (each.get("run") or {}).get("state") == "review" for each in release.releaser.answers
        )

    def describe() -> object:
        return release.builder.answers, release.releaser.answers, other.lines

    # What is blocked is given to nobody, and not listed as ready.
    story.say("Please build and release 2.0.")
    other.say("You release what is built.")
    assert release.releaser.answers[0]["error"] == "run_not_found"
    ready = story.house.taskmem.run("ready")
    assert "Build" in ready
    assert "Release" not in ready

    # The end of one is the beginning of the other.
    release.go.touch()
    until(lambda: count_reviews() == 1, "it is in review", shown=describe)
    assert story.house.ask("show", id=release.builder.find_id("Build"))["status"] == "completed"

    # The person sends it back, and approves what then was made.
    person.type(f"send-back {release.task_id} Name the version in the notes.")
    until(lambda: count_reviews() == 2, "it is in review again", shown=describe)
    assert release.notes.read_text() == "Version 2.0\n"
    approved = person.type(f"approve {release.task_id} --yes")
    assert "approved, and completed" in approved

    def list_told() -> list[str]:
        return [turn for turn in release.builder.turns if '"Release" has completed' in turn]

    until(list_told, "the builder is told", shown=lambda: release.builder.turns)
    until(lambda: not story.house.ask("wakes"), "all is acknowledged")
    assert len(list_told()) == 1


def test_ends_of_every_kind_are_awaited_at_once(story: Story, tmp_path: Path):
    checks, package = tmp_path / "checks.json", tmp_path / "app.tar"
    checks.write_text('{"state": "running"}')
    server = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE)
    assert server.stdin is not None
    with serve_pages({"/": (503, {}, b"")}) as page:
        also = [
            {"target": f"url:http://127.0.0.1:{page.port}/", "wake_when": "status is 200"},
            {"target": f"command:cat {checks}", "wake_when": '$.state is "passed"'},
            {"target": f"process:{server.pid}", "wake_when": "exits"},
            {"target": "time:1s"},
        ]
        wanted = {"target": f"path:{package}", "wake_when": "appears", "also": also}
        call = Call("smart_wait", {**wanted, "all": True, "timeout": 600})
        agent = Worker({"Wait for": [lambda: call]})
        story.follow(agent)
        story.say("Wait for all that the release needs.")
        assert agent.answers[0]["status"] == "watching", agent.answers

        page.pages["/"] = (200, {}, b"ready")
        checks.write_text('{"state": "passed"}')
        server.stdin.close()
        server.wait(30)
        package.touch()
        until(lambda: len(agent.turns) == 2, "it is woken", shown=lambda: story.house.ask("waits"))
    told = agent.turns[1]
    assert "smart_wait resolved" in told
    assert [each["target"] for each in (wanted, *also) if each["target"] not in told] == []
