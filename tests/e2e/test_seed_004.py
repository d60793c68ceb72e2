"""The validation strategy of seed 004, where it takes a gateway."""

from __future__ import annotations

from itertools import count

import pytest

from tests.e2e.house import House
from tests.e2e.scripted_model import Call, Fault, ModelRequest, Reply
from tests.e2e.shared_house import Overheard, Scripts, Story
from tests.support.databases import ON_BOTH

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600), ON_BOTH]

SETTINGS = {
    "TASKMEM_STUCK_THRESHOLD_SECONDS": "3600",
    "TASKMEM_PROVIDER_RETRIES": "2",
    "TASKMEM_PROVIDER_REST_SECONDS": "0.2",
}


def registers(request: ModelRequest, name: str, plan: list[str]) -> Reply | None:
    """Register a task in the turn in which the user asks for it."""
    if "Please" in request.turn.text and not request.turn.results:
        return [Call("task_register", {"name": name, "plan": plan})]
    return None


def test_integration_autonomous_continuation_without_extra_user_message(
    story: Story,
):
    numbers = count(1)

    def one_step_a_turn(request: ModelRequest) -> Reply:
        if first := registers(request, "Count", ["One", "Two", "Three"]):
            return first
        if "task_continue" not in request.turn.text:
            return "I have begun."
        if request.turn.results:
            return "More to come."
        step = next(numbers)
        report = {"task_id": story.task["task_id"], "completed_steps": [step]}
        return [
            Call(
                "task_update",
                {**report, "status": "completed"} if step == 3 else report,
            )
        ]

    story.follow(one_step_a_turn)
    story.say("Please count to three.")
    ended = story.ends()
    assert all(step["done"] for step in ended["steps"])
    continued = [
        r for r in story.requests if r.opens_turn and "task_continue" in r.turn.text
    ]
    assert len(continued) == 3
    assert story.run(state="completed")["rounds"] == 3


def test_integration_write_claim_without_evidence_is_blocked(story: Story):
    told: list[str] = []

    def liar(request: ModelRequest) -> Reply:
        if first := registers(request, "Report", ["Write report.md"]):
            return first
        turn = request.turn
        if "task_continue" in turn.text and not turn.results:
            report = {"task_id": story.task["task_id"], "status": "completed"}
            return [Call("task_update", {**report, "message": "Saved report.md."})]
        told.extend(turn.results[-1:])
        return "I saved the report to report.md. All done!"

    story.follow(liar)
    with Overheard(story.house.gateway) as overheard:
        story.say("Please write the report.")
        ended = story.ends("failed")
        shown = overheard.shown(story.session)
    assert "evidence_missing" in "".join(told)
    assert "stalled_loop" in ended["messages"][-1]["content"]
    # What it claims was never shown, and the user knows why.
    assert not any("I saved the report" in line for line in shown)
    held_back = [e["data"]["about"] for e in events(story, "notice")]
    assert held_back == ["unverified", "unverified"]
    story.told("an answer was held back")
    assert "failed" in story.told("stalled_loop")


def test_integration_write_and_verify_path_reaches_completed(
    story: Story, home: tuple[House, Scripts]
):
    workspace = home[0].gateway.room.state / "workspace"

    def honest(request: ModelRequest) -> Reply:
        if first := registers(request, "Report", ["Write honest.md"]):
            return first
        match len(request.turn.results):
            case 1:
                return [Call("write", {"path": "honest.md", "content": "All is well."})]
            case 2:
                return [Call("read", {"path": "honest.md"})]
            case 3:
                report = {"task_id": story.task["task_id"], "status": "completed"}
                return [Call("task_update", {**report, "message": "Wrote honest.md."})]
            case _:
                return "I saved the report to honest.md."

    story.follow(honest)
    with Overheard(story.house.gateway) as overheard:
        story.say("Please write the report.")
        story.ends()
        shown = overheard.shown(story.session)
    assert any("I saved the report to honest.md." in line for line in shown)
    assert (workspace / "honest.md").read_text() == "All is well."
    for milestone in ("accepted", "started", "tool_write_verified", "completed"):
        story.told(milestone)
    kinds = [e["data"]["name"] for e in events(story, "milestone")]
    assert kinds == ["accepted", "started", "tool_write_verified", "completed"]


def test_integration_provider_retry_exhaustion_results_in_failed_milestone(
    story: Story,
):
    def broken(request: ModelRequest) -> Reply:
        if first := registers(request, "Doomed", ["Try"]):
            return first
        if "task_continue" in request.turn.text or request.turn.results:
            return Fault(400)
        return "Begun."

    story.follow(broken)
    story.say("Please try.")
    story.ends("failed")
    assert "provider_error" in story.told("failed")
    assert story.run(state="failed")["why"] == "provider_error"


def events(story: Story, kind: str) -> list[dict]:
    """The entries of the log for the story's task, of one kind."""
    task_id = story.task["task_id"]
    found = story.house.ask("events", task_id=task_id, limit=1000)
    return [each for each in found if each["kind"] == kind]
