"""Tasks in the background of the real gateway: told of, cancelled, resumed, kept apart."""

from __future__ import annotations

import re
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.e2e.agent import Document, reminders_in, since_packet
from tests.e2e.interruptions import HELD
from tests.e2e.room import until
from tests.e2e.scripted_model import Call, ModelRequest, Reply
from tests.e2e.shared_house import ChatListener, Story, use

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SETTINGS = {"TASKMEM_STUCK_THRESHOLD_SECONDS": "3600"}
SHARES_GATEWAY = True
STEPS = ["Mix", "Bake"]


class Kitchen:
    """Hands its baking to the background, and chats meanwhile.

    In the background it knows the packet of its turn, and what it was told since.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.baking, self.baked = Event(), folder / "baked"
        self.task_id = self.said = ""
        self.packets: list[Document] = []

    def __call__(self, request: ModelRequest) -> Reply:
        """In the user's session."""
        turn = request.turn
        if "Please bake" not in turn.text:
            return "It is four o'clock."
        match len(turn.results):
            case 0:
                return [Call("task_register", {"name": "Bread", "plan": STEPS})]
            case 1:
                self.task_id = turn.results[0].split('"task_id":"')[1].split('"')[0]
                note = "Use the rye flour."
                return [use("task_background", task_id=self.task_id, note=note)]
            case _:
                self.said = turn.results[1]
                return "Running in the background."

    def away(self, request: ModelRequest) -> Reply:
        """In the session of its own."""
        packets = reminders_in(request.turn.text)
        if not packets:
            # OpenClaw may go on once more with a session whose work has ended since.
            return "Nothing is left to do."
        self.packets += packets
        done = len(packets[-1]["progress"]["completed"])
        match 2 * done + since_packet(request):
            case 0:
                return [Call("exec", {"command": f"echo mixed >> {self.folder}/log"})]
            case 1:
                return [self.report(completed_steps=[1])]
            case 2:
                self.baking.set()
                bake = f"until [ -e {self.baked} ]; do sleep 0.1; done"
                return [Call("exec", {"command": bake, **HELD})]
            case 3:
                done_ = {"completed_steps": [2], "status": "completed"}
                return [self.report(**done_, message="A fine loaf.")]
            case _:
                return "Baked."

    def report(self, **args: Any) -> Call:
        """Report on the task."""
        return Call("task_update", {"task_id": self.task_id, **args})


def start_baking(
    story: Story, folder: Path, kind: type[Kitchen] = Kitchen
) -> tuple[Kitchen, Story]:
    """A kitchen at work in the background, and the session that it works in."""
    kitchen = kind(folder)
    story.follow(kitchen)
    story.scripts.away = kitchen.away
    story.say("Please bake a loaf.")
    assert "background" in kitchen.said, kitchen.said
    run = story.house.ask("runs", all=True, task_id=kitchen.task_id)[0]
    away = Story(story.house, story.scripts, run["session_key"])
    away.follow(kitchen.away)
    return kitchen, away


def list_running_sessions(story: Story) -> list[str]:
    """The sessions in which a turn runs."""
    [gateway] = story.house.ask("status")["gateways"]
    return gateway["running"]


def test_session_stays_free_and_hears_progress_and_end(story: Story, tmp_path: Path):
    with ChatListener(story.house.gateway) as overheard:
        kitchen, away = start_baking(story, tmp_path)
        assert kitchen.baking.wait(240)
        told = kitchen.packets[0]["background"]
        assert "You are in the background" in told
        assert f"(session {story.session})" in told
        assert "Use the rye flour." in told
        # Meanwhile the session answers.
        assert story.say("What time is it?")["status"] == "ok"
        assert "It is four o'clock." in story.lines
        # People count the chat's tasks, and call them by their names.
        listed = story.type_command("/tasks", "1. Bread: step 2 of 2 (Bake)")
        assert "in the background" in listed
        story.wait_for_notice('1 of 2 steps done: "Mix"')
        kitchen.baked.touch()
        away.ends()
        story.wait_for_notice('Bread: completed. Its agent says: "A fine loaf."')
        shown = overheard.list_texts(story.session)
    assert any("Running in the background." in line for line in shown)
    # The last step is told of by the milestone.
    progress = [line for line in story.lines if "steps done" in line]
    assert len(progress) == 1
    assert (tmp_path / "log").read_text() == "mixed\n"


def test_cancel_stops_task_keeps_checkpoints_tells_user(story: Story, tmp_path: Path):
    kitchen, away = start_baking(story, tmp_path)
    assert kitchen.baking.wait(240)
    away.run(checkpoints=3)
    story.type_command("/cancel bre", "Bread: cancelled; what was done so far is kept.")
    assert away.ends("cancelled")["status"] == "cancelled"
    # Its turn is stopped, and what it had done is known.
    until(lambda: away.session not in list_running_sessions(story), "its turn has stopped")
    status = story.call("task_status", task_id=kitchen.task_id)
    assert status["run"]["state"] == "cancelled"
    assert status["tool_history"][-1]["about"].startswith("echo mixed")
    kitchen.baked.touch()


def test_two_in_the_background_do_not_disturb_each_other(story: Story, tmp_path: Path):
    stories = [story, Story(story.house, story.scripts, f"{story.session}_beside")]
    bakings = []
    for each, name in zip(stories, ("one", "beside"), strict=True):
        (tmp_path / name).mkdir()
        bakings.append(start_baking(each, tmp_path / name))
    for kitchen, away in bakings:
        assert kitchen.baking.wait(240)
        assert away.session in list_running_sessions(story)
    for kitchen, _ in bakings:
        kitchen.baked.touch()
    for each, (kitchen, away) in zip(stories, bakings, strict=True):
        away.ends()
        each.wait_for_notice('Bread: completed. Its agent says: "A fine loaf."')
        assert (kitchen.folder / "log").read_text() == "mixed\n"
        assert {packet["task_id"] for packet in kitchen.packets} == {kitchen.task_id}


class Asks(Kitchen):
    """Asks the user in the background, and bakes what it is answered."""

    def away(self, request: ModelRequest) -> Reply:
        """In the session of its own."""
        answers = re.findall('The user answered: "(.*?)"', request.turn.text)
        if not answers and since_packet(request):
            return "I have asked."
        if not answers:
            return [self.report(ask="The oven is hot. Which flour?")]
        if request.turn.results:
            return "Baked."
        done = {"completed_steps": [1, 2], "status": "completed"}
        return [self.report(**done, message=f"Baked with {answers[-1]}.")]


def test_background_question_is_asked_and_answered_in_the_chat(story: Story, tmp_path: Path):
    asks, away = start_baking(story, tmp_path, Asks)
    story.wait_for_question("Bread: The oven is hot. Which flour?")
    before = len(story.requests)
    story.type_command(
        "/resume rye, and some salt", 'Bread: its agent is told your answer: "rye, and some salt".'
    )
    away.ends()
    story.wait_for_notice(
        'Bread: completed; nothing was written. Its agent says: "Baked with rye, and some salt."'
    )
    # Where the user is, no model is asked about it; and where it is baked, the packet
    # of each turn comes once.
    assert len(story.requests) == before
    first = away.requests[0].turn.text
    assert len(reminders_in(first)) == 1, first
    ours = [line for line in story.lines if line.startswith("[taskmem]")]
    assert asks.task_id not in "".join(ours)
