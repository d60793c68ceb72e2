"""What a gateway reports changes what is owed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from openclaw_taskmem.domain.callers import GatewayPresence
from openclaw_taskmem.domain.policies import RunPolicy
from openclaw_taskmem.domain.wakes import outbox
from openclaw_taskmem.domain.wakes.outbox import GATEWAY_RECOVERY_TIME, STARTING_TIME, Delivery
from openclaw_taskmem.engine import gateway_reports, run_recovery, wakes
from taskmem_hookspecs import Change, EventQuery, StoreBusy, Wake, WakeState
from tests.support.gateways import MAIN, OTHER
from tests.support.sessions import Session
from tests.support.world import PERSON, World

THRESHOLD = 300
PLUGIN = "openclaw-plugin"


def start(world: World, boot: str = "boot_1", transport: str = PLUGIN) -> GatewayPresence:
    presence = GatewayPresence(
        boot=boot, transport=transport, version="1", started_at=world.clock.now(), main_session=MAIN
    )
    gateway_reports.handle_gateway_start(world.context, presence)
    return presence


def fall_silent(world: World, *sessions: str) -> list[str]:
    """Let a task of each session be stuck, and be owed a wake."""
    tasks = [world.register(session, session_key=session) for session in sessions]
    world.clock.tick(THRESHOLD)
    world.sweep()
    return tasks


def send(world: World, transport: str = PLUGIN) -> Sequence[Delivery]:
    """Let everything that is due go out."""
    deliveries = world.claim()
    for delivery in deliveries:
        wakes.settle_delivered(world.context, delivery, transport)
    return deliveries


def end_turn(
    world: World, *deliveries: Delivery, session: str = MAIN, error: str | None = None
) -> None:
    ids = [delivery.delivery_id for delivery in deliveries]
    gateway_reports.settle_turn_wakes(world.context, session, ids, error)


def states(world: World) -> dict[str | None, str]:
    return {wake.session_key: wake.state.value for wake in world.wakes()}


def kinds(world: World) -> list[str]:
    return [event.kind for event in world.store.find_events(EventQuery())]


def only_wake(world: World) -> Wake:
    (wake,) = world.wakes()
    return wake


# --- a turn's prompt is our message --------------------------------------------


def send_all_kinds(world: World) -> str:
    """Send one session two packets and a line in one message, and return that."""
    _, waiting = fall_silent(world, MAIN, MAIN), world.register(session_key=MAIN)
    world.end_wait(world.open_wait(waiting))
    (delivery,) = send(world)
    assert len(delivery.wakes) == 3
    return delivery.message.text


def test_a_prompt_that_is_our_message_acknowledges_its_wakes(world: World) -> None:
    text = send_all_kinds(world)
    gateway_reports.settle_prompt(world.context, OTHER, text)
    assert {wake.state for wake in world.wakes()} == {WakeState.SENT}
    gateway_reports.settle_prompt(world.context, MAIN, f"{text}\n")
    assert {wake.state for wake in world.wakes()} == {WakeState.ACKNOWLEDGED}
    gateway_reports.settle_prompt(world.context, MAIN, text)  # again changes nothing


def test_a_prompt_may_come_before_its_receipt(world: World) -> None:
    fall_silent(world, MAIN)
    (delivery,) = world.claim()
    gateway_reports.settle_prompt(world.context, MAIN, delivery.message.text)
    wakes.settle_delivered(world.context, delivery, PLUGIN)
    assert only_wake(world).state is WakeState.ACKNOWLEDGED


@pytest.mark.parametrize(
    "form", ["", "What is this?\n{}", "{}\nNo.", "> {}", "{}\n{}", "[task_stuck_resume] {{}}"]
)
def test_a_person_who_quotes_our_message_has_not_sent_it(world: World, form: str) -> None:
    text = send_all_kinds(world)
    gateway_reports.settle_prompt(world.context, MAIN, form.format(text, text))
    assert {wake.state for wake in world.wakes()} == {WakeState.SENT}


def receive_end(world: World) -> str:
    """Send a session the end of a wait, with which a turn begins; return its task."""
    task_id = world.register(session_key=MAIN)
    world.end_wait(world.open_wait(task_id))
    world.clock.tick(1)
    (delivery,) = send(world)
    gateway_reports.settle_prompt(world.context, MAIN, delivery.message.text)
    return task_id


def test_a_message_is_known_after_a_call_has_settled_a_part(world: World) -> None:
    tasks = [world.register(name, session_key=MAIN) for name in ("A", "B")]
    for task_id in tasks:
        world.end_wait(world.open_wait(task_id))
    (delivery,) = send(world)
    world.call("task_update", task_id=tasks[0], session_key=MAIN, message="Built")
    assert {wake.state for wake in world.wakes()} == {WakeState.ACKNOWLEDGED, WakeState.SENT}
    gateway_reports.settle_prompt(world.context, MAIN, delivery.message.text)
    assert {wake.state for wake in world.wakes()} == {WakeState.ACKNOWLEDGED}


def fail_turn(world: World, session: str = MAIN) -> None:
    gateway_reports.record_halt(world.context, session, "rate_limit", "It is used up")


def test_a_message_whose_turn_failed_is_sent_again(world: World) -> None:
    receive_end(world)
    fail_turn(world, OTHER)
    assert only_wake(world).state is WakeState.ACKNOWLEDGED
    fail_turn(world)
    wake = only_wake(world)
    assert (wake.state, wake.acknowledged_at) == (WakeState.DUE, None)
    assert wake.last_error == "rate limit: It is used up"
    assert kinds(world)[-1] == "wake_lost"
    for _ in range(2 * world.context.policies.outbox.sends):  # however long the limit lasts
        world.clock.tick(world.context.policies.outbox.longest_retry_seconds)
        (again,) = send(world)
        gateway_reports.settle_prompt(world.context, MAIN, again.message.text)
        assert only_wake(world).state is WakeState.ACKNOWLEDGED
        fail_turn(world)
    assert only_wake(world).state is WakeState.DUE


def test_a_message_on_which_the_agent_acted_is_not(world: World) -> None:
    task_id = receive_end(world)
    world.clock.tick(1)
    world.call("task_update", task_id=task_id, session_key=MAIN, message="Built")
    fail_turn(world)
    assert only_wake(world).state is WakeState.ACKNOWLEDGED


def test_a_message_that_only_its_user_followed_is_sent_again(world: World) -> None:
    task_id = receive_end(world)
    world.clock.tick(1)
    world.call("task_update", PERSON, task_id=task_id, message="Be quick.")
    fail_turn(world)
    assert only_wake(world).state is not WakeState.ACKNOWLEDGED


def test_a_message_about_a_task_that_is_over_is_not(world: World) -> None:
    task_id = receive_end(world)
    world.call("task_update", PERSON, task_id=task_id, status="cancelled")
    fail_turn(world)
    assert only_wake(world).state is WakeState.ACKNOWLEDGED


def test_the_failure_of_a_later_turn_concerns_no_message(world: World) -> None:
    receive_end(world)
    gateway_reports.close_turn(world.context, MAIN, "How far is it?")
    fail_turn(world)
    assert only_wake(world).state is WakeState.ACKNOWLEDGED


def test_an_alert_whose_turn_failed_is_left_to_the_next(world: World) -> None:
    fall_silent(world, MAIN)
    (delivery,) = send(world)
    gateway_reports.settle_prompt(world.context, MAIN, delivery.message.text)
    fail_turn(world)
    assert only_wake(world).state is WakeState.ACKNOWLEDGED


# --- a host is killed, and its session is opened again -------------------------


def take_message(world: World) -> str:
    """Let a session take the end of a wait as the prompt of a turn; return its text."""
    world.end_wait(world.open_wait(world.register(session_key=MAIN)))
    world.clock.tick(1)
    (delivery,) = send(world)
    gateway_reports.settle_prompt(world.context, MAIN, delivery.message.text)
    return delivery.message.text


def test_a_message_whose_turn_was_killed_is_sent_again(world: World) -> None:
    text = take_message(world)
    gateway_reports.close_turn(world.context, MAIN, f"{text}\n")  # not heard yet
    gateway_reports.open_session(world.context, OTHER, timedelta())
    assert only_wake(world).state is WakeState.ACKNOWLEDGED
    gateway_reports.open_session(world.context, MAIN, timedelta())
    assert (only_wake(world).state, only_wake(world).note) == (WakeState.DUE, None)


def test_a_receipt_before_the_delivery_is_withdrawn_too(world: World) -> None:
    world.end_wait(world.open_wait(world.register(session_key=MAIN)))
    world.clock.tick(1)
    (delivery,) = world.claim()
    gateway_reports.settle_prompt(world.context, MAIN, delivery.message.text)
    wakes.settle_delivered(world.context, delivery, PLUGIN, "It is slow.")
    gateway_reports.open_session(world.context, MAIN, timedelta())
    assert only_wake(world).state is WakeState.DUE


def test_a_message_whose_turn_went_on_is_not_sent_again(world: World) -> None:
    take_message(world)
    gateway_reports.close_turn(world.context, MAIN)
    gateway_reports.open_session(world.context, MAIN, timedelta())
    assert (only_wake(world).state, only_wake(world).note) == (WakeState.ACKNOWLEDGED, None)


def test_a_transport_cannot_say_that_a_turn_begins(world: World) -> None:
    world.end_wait(world.open_wait(world.register(session_key=MAIN)))
    world.clock.tick(1)
    (delivery,) = world.claim()
    wakes.settle_failed(world.context, delivery, outbox.TURN_BEGINS, waits=True)
    assert only_wake(world).note is None
    wakes.settle_delivered(world.context, delivery, PLUGIN, outbox.TURN_BEGINS)
    assert only_wake(world).note is None


def test_only_the_first_of_a_turns_calls_looks_for_messages(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_message(world)
    gateway_reports.close_turn(world.context, MAIN)
    with monkeypatch.context() as patch:
        patch.setattr(gateway_reports, "_find_noted", None)
        gateway_reports.close_turn(world.context, MAIN)
    take_message(world)
    gateway_reports.close_turn(world.context, MAIN)
    assert [wake.note for wake in world.wakes()] == [None, None]


def test_what_could_not_be_looked_for_is_looked_for_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise StoreBusy("It is busy.")

    take_message(world)
    with monkeypatch.context() as patch:
        patch.setattr(gateway_reports, "_find_noted", fail)
        with pytest.raises(StoreBusy):
            gateway_reports.close_turn(world.context, MAIN)
    gateway_reports.close_turn(world.context, MAIN)
    assert only_wake(world).note is None


def test_what_was_kept_for_a_session_is_released_in_order(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        world.end_wait(world.open_wait(world.register(session_key=MAIN)))
        world.clock.tick(1)
    kept = [wake.wake_id for wake in sorted(world.wakes(), key=lambda wake: wake.created_at)]
    policy = world.context.policies.outbox
    world.context.commit(outbox.keep_wakes(world.wakes(), world.clock.now(), policy))
    released: list[str] = []

    def note(_: object, wake: Wake, __: object) -> None:
        released.append(wake.wake_id)

    monkeypatch.setattr(run_recovery, "_update_wake", note)
    run_recovery.release_wakes(world.context, MAIN)
    assert released == kept


# --- a turn ends while its session's task is open --------------------------------


def find_unfinished(world: World, session: str = MAIN) -> str | None:
    found = gateway_reports.list_unfinished_tasks(world.context, session)
    return next((why for _, why in found), None)


def test_an_end_is_refused_with_the_next_step_and_the_ways_out(world: World) -> None:
    task_id = world.register(session_key=MAIN, plan=["Build", "Push"])
    world.call("task_update", task_id=task_id, session_key=MAIN, message="Step 1 done")
    told = find_unfinished(world)
    assert told is not None
    assert f"({task_id})" in told
    assert 'step 2 of 2, "Push", is next. Go on now.' in told
    assert all(way in told for way in ("task_update with ask", "smart_wait", '"paused"'))
    assert find_unfinished(world, OTHER) is None


def wait_for_build(world: World, task_id: str | None) -> None:
    world.open_wait(task_id)


def wait_in_session(world: World, _task_id: str) -> None:
    world.register(session_key=MAIN)  # with two, the wait is of no task
    given = {"target": "pty:x", "wake_when": "exits", "session_key": MAIN}
    assert "task_id" not in world.call("smart_wait", **given)


def ask_user(world: World, task_id: str) -> None:
    world.call("task_update", task_id=task_id, session_key=MAIN, ask="Which one?")


def pause(world: World, task_id: str) -> None:
    world.call("task_update", task_id=task_id, session_key=MAIN, status="paused")


def cancel(world: World, task_id: str) -> None:
    world.call("task_update", task_id=task_id, session_key=MAIN, status="cancelled")


def be_owed_a_wake(world: World, _task_id: str) -> None:
    world.clock.tick(THRESHOLD)
    world.sweep()


@pytest.mark.parametrize(
    "act", [wait_for_build, wait_in_session, ask_user, pause, cancel, be_owed_a_wake]
)
def test_an_agent_that_waits_may_end_its_turn(
    world: World, act: Callable[[World, str], None]
) -> None:
    task_id = world.register(session_key=MAIN)
    assert find_unfinished(world)
    act(world, task_id)
    assert find_unfinished(world) is None


def test_no_end_is_refused_where_agents_are_not_told_to_go_on() -> None:
    world = World(runs=RunPolicy(carry_on=False))
    world.register(session_key=MAIN)
    assert find_unfinished(world) is None


# --- a gateway starts ---------------------------------------------------------


def test_gateway_restart_makes_sent_wakes_due_after_it_settles(world: World) -> None:
    fall_silent(world, MAIN, OTHER)
    send(world)
    world.clock.tick(30)

    presence = start(world)

    for wake in world.wakes():
        assert wake.state is WakeState.DUE
        assert wake.due_at == presence.started_at + GATEWAY_RECOVERY_TIME
        assert wake.last_error == "the gateway was restarted before a turn took it"
    assert kinds(world).count("wake_lost") == 2
    world.clock.tick(GATEWAY_RECOVERY_TIME.total_seconds())
    assert len(send(world)) == 2
    assert {(wake.sends, wake.last_error) for wake in world.wakes()} == {(2, None)}


def test_wake_retried_for_lack_of_a_gateway_is_due_at_its_start(world: World) -> None:
    fall_silent(world, MAIN, OTHER)
    tired, fresh = world.claim()
    wakes.settle_failed(world.context, fresh, "gateway down")
    attempts = [w.model_copy(update={"attempts": 6}) for w in tired.wakes]
    world.context.commit(Change(wakes=tuple(attempts)))
    wakes.settle_failed(world.context, tired, "gateway down")
    world.clock.tick(1)

    presence = start(world)

    due = {wake.session_key: wake.due_at for wake in world.wakes()}
    assert due[tired.message.session_key] == presence.started_at + GATEWAY_RECOVERY_TIME
    assert due[fresh.message.session_key] == world.clock.now() + timedelta(seconds=4)
    assert {wake.last_error for wake in world.wakes()} == {"gateway down"}


def test_wake_a_starting_gateway_does_not_take_rests_briefly(world: World) -> None:
    """However long it was away: it takes turns only some time after its start."""
    fall_silent(world, MAIN)
    tired = only_wake(world).model_copy(update={"attempts": 9})
    world.context.commit(Change(wakes=(tired,)))
    presence = start(world)
    rests: list[float] = []
    for age in (GATEWAY_RECOVERY_TIME, STARTING_TIME - timedelta(seconds=6), STARTING_TIME):
        world.clock.tick((presence.started_at + age - world.clock.now()).total_seconds())
        [delivery] = world.claim()
        wakes.settle_failed(world.context, delivery, "no turn could be started")
        due_at = only_wake(world).due_at
        assert due_at is not None
        rests.append((due_at - world.clock.now()).total_seconds())

    assert rests == [5, 5, 300]


def test_daemon_that_restarts_knows_that_its_gateway_starts(world: World) -> None:
    presence = start(world)
    world.context.live.gateway_starts.clear()

    start(world)

    assert world.context.live.gateway_starts == {presence.host: presence.started_at}


def test_wake_already_on_its_way_is_unchanged_by_a_gateway_start(world: World) -> None:
    """It is on its way, or its session had its messages for this minute."""
    fall_silent(world, MAIN)
    world.claim()
    before = only_wake(world)

    start(world)

    assert only_wake(world) == before


def test_gateway_reconnecting_to_its_daemon_loses_no_wake(world: World) -> None:
    start(world)
    fall_silent(world, MAIN)
    send(world)

    start(world)
    assert states(world) == {MAIN: "sent"}

    start(world, "boot_2")
    assert states(world) == {MAIN: "due"}


def test_what_went_another_way_is_not_the_plugins_to_lose(world: World) -> None:
    fall_silent(world, MAIN)
    send(world, "openclaw-cli")

    start(world)

    assert states(world) == {MAIN: "sent"}


def test_what_was_answered_is_not_owed_again(world: World) -> None:
    (task,) = fall_silent(world, MAIN)
    send(world)
    world.narrate(task)

    start(world)

    assert states(world) == {MAIN: "acknowledged"}


def test_a_start_that_is_cut_off_is_taken_up_where_it_was(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fall_silent(world, MAIN, OTHER)
    send(world)
    commit = world.store.commit

    def cut_off(change: Change) -> None:
        commit(change)
        raise StoreBusy("locked")

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "commit", cut_off)
        with pytest.raises(StoreBusy):
            start(world)
    assert sorted(states(world).values()) == ["due", "sent"]

    start(world)

    assert states(world) == {MAIN: "due", OTHER: "due"}


def test_repeated_start_tells_once_which_task_waits_for_the_user(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(world)
    session.takes_up()
    session.ends(aborted=True)
    commit = world.store.commit

    def fail(change: Change) -> None:
        if change.bookmarks:
            raise StoreBusy("locked")
        commit(change)

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "commit", fail)
        with pytest.raises(StoreBusy):
            session.restarts("boot_2")
    session.restarts("boot_2")
    session.restarts("boot_2")

    assert sum("still waits" in line for line in session.lines) == 1


def test_what_was_set_aside_is_not_announced_at_a_start(world: World) -> None:
    session = Session(world)
    session.call("task_update", task_id=session.takes_up(), status="paused")
    session.ends("Until tomorrow.")
    session.restarts("boot_2")

    assert not any("still waits" in line for line in session.lines)


def test_who_acts_while_a_gateway_starts_has_answered(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    (task,) = fall_silent(world, MAIN)
    send(world)
    listed = world.store.find_wakes

    def list_and_act(*given: Any) -> Sequence[Wake]:
        found = listed(*given)
        monkeypatch.undo()
        world.narrate(task)
        return found

    monkeypatch.setattr(world.store, "find_wakes", list_and_act)
    start(world)

    assert states(world) == {MAIN: "acknowledged"}


# --- a turn ends --------------------------------------------------------------


def test_turn_acknowledges_only_the_messages_that_it_took(world: World) -> None:
    fall_silent(world, MAIN, OTHER)
    mine, _ = sorted(send(world), key=lambda d: d.message.session_key or "")

    end_turn(world, mine)

    assert states(world) == {MAIN: "acknowledged", OTHER: "sent"}
    assert "wake_acknowledged" in kinds(world)


def test_all_that_went_out_in_one_message_was_taken_with_it(world: World) -> None:
    task = world.register(session_key=MAIN)
    world.end_wait(world.open_wait(task))
    world.end_wait(world.open_wait(task))
    (delivery,) = send(world)

    end_turn(world, delivery)

    assert [wake.state for wake in world.wakes()] == ["acknowledged"] * 2


def test_a_turn_that_failed_acknowledges_nothing_and_says_why(world: World) -> None:
    fall_silent(world, MAIN)
    (delivery,) = send(world)

    end_turn(world, delivery, error="503 overloaded")

    wake = only_wake(world)
    assert wake.state is WakeState.DUE
    assert wake.last_error == "its turn failed: 503 overloaded"
    assert wake.due_at == world.clock.now() + timedelta(seconds=5)
    assert "wake_lost" in kinds(world)
    assert "wake_acknowledged" not in kinds(world)


def test_why_a_turn_failed_is_told_on_one_short_plain_line(world: World) -> None:
    fall_silent(world, MAIN)
    (delivery,) = send(world)

    end_turn(world, delivery, error="<html>\n\x1b[2J[system] " + "x" * 100_000)

    said = only_wake(world).last_error or ""
    assert said.startswith("its turn failed: <html> [2J")
    assert said.isprintable()
    assert "[system]" not in said
    assert len(said) < 400


def test_a_message_goes_out_again_after_the_turn_that_failed(world: World) -> None:
    fall_silent(world, MAIN)
    (first,) = send(world)
    end_turn(world, first, error="503")
    world.clock.tick(5)

    (second,) = send(world)
    end_turn(world, first)
    assert states(world) == {MAIN: "sent"}

    end_turn(world, second)
    assert states(world) == {MAIN: "acknowledged"}


def test_no_secret_is_kept_of_what_a_transport_says(world: World) -> None:
    fall_silent(world, MAIN)
    (delivery,) = world.claim()
    secret = "ghp_" + "a1B2" * 9

    wakes.settle_failed(world.context, delivery, f"no: {secret}")
    wakes.settle_delivered(world.context, delivery, PLUGIN, f"yes: {secret}")

    said = only_wake(world)
    assert said.note is not None
    assert secret not in f"{said}{world.store.find_events(EventQuery())}"
    assert said.note.startswith("yes: ")


def test_turn_ended_before_delivery_is_noted_acknowledges_wake(world: World) -> None:
    fall_silent(world, MAIN)
    (delivery,) = world.claim()

    end_turn(world, delivery)
    assert only_wake(world).state is WakeState.ACKNOWLEDGED
    wakes.settle_delivered(world.context, delivery, PLUGIN, "turn: running")

    wake = only_wake(world)
    assert wake.state is WakeState.ACKNOWLEDGED
    assert (wake.transport, wake.note) == (PLUGIN, "turn: running")


@pytest.mark.parametrize("session", [MAIN, None], ids=["named", "the main one"])
def test_what_waited_for_the_turn_goes_out_at_once_when_it_ends(
    world: World, session: str | None
) -> None:
    world.end_wait(world.open_wait(world.register(session_key=MAIN)))
    (first,) = send(world)
    world.end_wait(world.open_wait(world.register(session_key=session)))
    (second,) = world.claim()
    for _ in range(6):
        wakes.settle_failed(world.context, second, "an earlier wake still waits for its turn")
    assert world.claim() == []

    end_turn(world, first)

    assert [d.wakes[0].wake_id for d in world.claim()] == [second.wakes[0].wake_id]


@pytest.mark.parametrize("other", ["another session", "a turn that failed"])
def test_what_waits_is_let_go_by_nothing_else(world: World, other: str) -> None:
    fall_silent(world, MAIN)
    (delivery,) = world.claim()
    wakes.settle_failed(world.context, delivery, "gateway down")
    before = only_wake(world)

    if other == "another session":
        end_turn(world, session=OTHER)
    else:
        end_turn(world, error="503")

    assert only_wake(world) == before


def test_turn_end_does_not_resend_a_message_on_its_way(world: World) -> None:
    fall_silent(world, MAIN)
    world.claim()
    before = only_wake(world)

    end_turn(world)

    assert only_wake(world) == before


def test_a_turns_end_puts_off_nothing_that_is_due(world: World) -> None:
    fall_silent(world, MAIN)
    (delivery,) = world.claim()
    wakes.settle_failed(world.context, delivery, "gateway down")
    world.clock.tick(5)
    before = only_wake(world)

    end_turn(world)

    assert only_wake(world) == before
