"""An agent that may have forgotten its task is shown it; that changes nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from openclaw_taskmem.engine import gateway_reports
from taskmem_hookspecs import EventQuery, Message, ResumeFacts, TaskStatus, hookimpl
from taskmem_hookspecs.errors import NotAllowed, TaskNotFound
from tests.support.gateways import MAIN, OTHER
from tests.support.world import World


def events(world: World) -> list[str]:
    return [event.kind for event in world.store.find_events(EventQuery())]


def packet_in(text: str) -> dict[str, Any]:
    marker, _, body = text.partition(" ")
    assert marker == "[task_resume]"
    return dict(json.loads(body))


def test_reminder_is_the_packet_of_the_latest_open_task(world: World) -> None:
    world.register("older", session_key=MAIN)
    world.clock.tick(1)
    task = world.register("newer", session_key=MAIN)
    world.clock.tick(1)
    world.register("elsewhere", session_key=OTHER)
    world.clock.tick(60)

    found = gateway_reports.build_reminder(world.context, MAIN)

    assert found is not None
    assert found[0] == task
    fields = packet_in(found[1])
    assert (fields["task_id"], fields["name"]) == (task, "newer")
    assert fields["wake_id"] == f"reminder_{task}"
    assert "your open task" in fields["reason"]


def test_nothing_is_written_by_a_reminder(world: World) -> None:
    task = world.register(session_key=MAIN)
    before = world.task(task), world.thread(task), events(world), world.wakes()

    gateway_reports.build_reminder(world.context, MAIN)

    assert (world.task(task), world.thread(task), events(world), world.wakes()) == before


def test_who_has_reported_since_is_not_reminded(world: World) -> None:
    task = world.register(session_key=MAIN)
    forgot = world.clock.tick(60)
    found = gateway_reports.build_reminder(world.context, MAIN, since=forgot)
    assert found is not None
    assert found[0] == task

    world.clock.tick(1)
    world.narrate(task)

    assert gateway_reports.build_reminder(world.context, MAIN, since=forgot) is None
    assert gateway_reports.build_reminder(world.context, MAIN) is not None


def test_a_session_without_an_open_task_is_told_nothing(world: World) -> None:
    task = world.register(session_key=MAIN)
    world.call("task_update", task_id=task, status="paused")

    assert gateway_reports.build_reminder(world.context, MAIN) is None


def test_a_task_that_is_named_is_shown_whatever_it_does(world: World) -> None:
    task = world.register(session_key=MAIN)
    world.register(session_key=MAIN)
    world.call("task_update", task_id=task, status="completed")

    found = gateway_reports.build_reminder(world.context, MAIN, task_id=task)

    assert found is not None
    assert found[0] == task
    fields = packet_in(found[1])
    assert fields["status"] == TaskStatus.COMPLETED
    assert fields["reason"] == "This task was asked for; it is completed."


def test_a_task_of_another_session_is_not_shown(world: World) -> None:
    task = world.register(session_key=OTHER)

    with pytest.raises(NotAllowed, match="another session, so you may not read it"):
        gateway_reports.build_reminder(world.context, MAIN, task_id=task)


def test_a_task_that_is_not_there_cannot_be_shown(world: World) -> None:
    with pytest.raises(TaskNotFound, match="task_9"):
        gateway_reports.build_reminder(world.context, MAIN, task_id="task_9")


def test_a_clock_that_went_back_makes_no_reminder_fail(world: World) -> None:
    world.register(session_key=MAIN)
    world.clock.jump(-3600)

    assert gateway_reports.build_reminder(world.context, MAIN) is not None


class Packets:
    """A plug-in that builds packets, or fails to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.asked: list[ResumeFacts] = []

    @hookimpl
    def build_resume_packet(self, facts: ResumeFacts) -> None:
        self.asked.append(facts)
        if self.error is not None:
            raise self.error


def test_plugin_builds_the_reminder_unless_it_must_be_plain() -> None:
    plugin = Packets()
    world = World(plugins=[("made", plugin)])
    task = world.register(session_key=MAIN)

    gateway_reports.build_reminder(world.context, MAIN, plain=True)
    assert plugin.asked == []

    gateway_reports.build_reminder(world.context, MAIN)
    (asked,) = plugin.asked
    assert asked.wake_id == f"reminder_{task}"


def test_a_plugin_that_fails_keeps_no_reminder_back() -> None:
    world = World(plugins=[("made", Packets(ValueError("a bug")))])
    task = world.register(session_key=MAIN)

    found = gateway_reports.build_reminder(world.context, MAIN)

    assert found is not None
    assert packet_in(found[1])["task_id"] == task


def test_reminder_is_minimal_when_no_packet_can_be_built(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = world.register(session_key=MAIN)

    def fail_to_read(*_: object) -> Sequence[Message]:
        raise ValueError("nonsense in a row")

    monkeypatch.setattr(world.context.store, "read_records", fail_to_read)
    found = gateway_reports.build_reminder(world.context, MAIN)

    assert found is not None
    assert packet_in(found[1])["task_id"] == task
    assert "recent_messages" not in packet_in(found[1])
