"""What is known of the work on a task: its effects, its history, what was said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.changes.continuation import Origin
from openclaw_taskmem.domain.effects.checkpoints import MOST_READ_CHECKPOINTS
from openclaw_taskmem.domain.runs.machine import LAST_WORDS_BYTES
from openclaw_taskmem.domain.tasks.ledger import FileTouch
from openclaw_taskmem.domain.text.texts import count_json_bytes
from openclaw_taskmem.engine import run_history
from openclaw_taskmem.engine.ledger import FileActivity
from taskmem_hookspecs import FileChange, InvalidArguments, Owner
from taskmem_hookspecs.packet import ConversationMessage
from tests.support.sessions import Session
from tests.support.world import World

PAY = "curl -X POST https://shop.example/pay"


@pytest.fixture
def session(world: World) -> Session:
    return Session(world)


def status(session: Session, **given: Any) -> dict[str, Any]:
    return session.call("task_status", **given)


def packet(session: Session, task: str) -> dict[str, Any]:
    answer = session.call("task_resume", task_id=task)
    found: dict[str, Any] = json.loads(answer["packet"].partition(" ")[2])
    return found


def abouts(answer: dict[str, Any]) -> list[str]:
    return [call["about"] for call in answer["tool_history"]]


# --- effects --------------------------------------------------------------------


def test_a_payment_is_known_after_any_number_of_reads(session: Session) -> None:
    task = session.takes_up()
    session.does(PAY)
    for number in range(MOST_READ_CHECKPOINTS):
        session.does(f"cat {number}.txt")

    told, found = packet(session, task), status(session)

    assert told["do_not_redo"] == found["do_not_redo"] == [f"exec: {PAY}"]
    assert "past_more" not in told
    assert "past_more" not in found


def test_what_went_out_stands_before_what_was_written(session: Session) -> None:
    task = session.takes_up()
    session.does("git push")
    for number in range(MOST_READ_CHECKPOINTS):
        session.does(f"/home/me/projects/site/pages/{number}.md", tool="write")
        session.does(f"./step {number} --with --many --options --of --its --own")

    told, found = packet(session, task), status(session)

    assert told["do_not_redo"][:2] == [
        "exec: git push",
        f"write: /home/me/projects/site/pages/{MOST_READ_CHECKPOINTS - 1}.md",
    ]
    assert told["past_more"] == 2 * MOST_READ_CHECKPOINTS + 1 - len(told["do_not_redo"])
    assert found["do_not_redo"][:2] == told["do_not_redo"][:2]
    assert found["past_more"] == 2 * MOST_READ_CHECKPOINTS + 1 - len(found["do_not_redo"])


def test_a_command_that_was_seen_to_change_files_wrote(session: Session, tmp_path: Any) -> None:
    session.takes_up()
    change = FileTouch(path=str(tmp_path / "a.md"), change=FileChange.CHANGED)
    session.does("./make", deed=FileActivity(touched=(change,), command=True))
    session.does("./look")

    assert status(session)["do_not_redo"] == ["exec: ./make", "exec: ./look"]


@pytest.mark.parametrize("cut", [PAY, "echo paid >> log.txt", "./run.sh"])
def test_a_call_that_was_cut_is_asked_about_however_long_ago(session: Session, cut: str) -> None:
    task = session.takes_up()
    session.calls(cut)
    session.calls("cat a.txt")
    for number in range(MOST_READ_CHECKPOINTS):
        session.does(f"cat {number}.txt")

    assert packet(session, task)["unknown_outcome"] == [f"exec: {cut}"]
    assert status(session)["unknown_outcome"] == [f"exec: {cut}"]
    session.does(cut)
    assert status(session)["unknown_outcome"] == []


def test_a_call_whose_end_was_not_read_is_not_called_cut(
    session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(run_history, "READ_EFFECTS", 4)
    session.takes_up()
    change = FileTouch(path=str(tmp_path / "a.md"), change=FileChange.CHANGED)
    session.does("./make", deed=FileActivity(touched=(change,), command=True))
    for number in range(MOST_READ_CHECKPOINTS):
        session.does(f"{number}.md", tool="write")

    assert status(session)["unknown_outcome"] == []


def test_a_resumed_task_knows_what_its_failed_run_did(session: Session) -> None:
    task = session.takes_up()
    session.does(PAY, said=(ConversationMessage(role="user", text="Pay it."),))
    session.ends("I have paid.")
    session.call("task_abort", task_id=task, reason="It cannot go on.")

    told, found = packet(session, task), status(session)

    assert session.run(task).progress.calls == 0
    assert told["do_not_redo"] == found["do_not_redo"] == [f"exec: {PAY}"]
    assert told["last_response"] == found["last_response"] == "I have paid."
    assert found["conversation"] == [{"role": "user", "text": "Pay it."}]
    assert abouts(found) == [PAY]


def test_more_effects_than_are_read_are_counted(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_history, "READ_EFFECTS", 4)
    session.takes_up()
    for number in range(MOST_READ_CHECKPOINTS):
        session.does(f"git push origin {number}")

    found = status(session)

    known = MOST_READ_CHECKPOINTS // 2
    assert len(found["do_not_redo"]) == known
    assert found["past_more"] == MOST_READ_CHECKPOINTS - known


# --- pages ----------------------------------------------------------------------


def pages(session: Session) -> list[dict[str, Any]]:
    found = [status(session)]
    while (more := found[-1]["more"]) is not None:
        found.append(status(session, **more["arguments"]))
    return found


def test_a_short_history_is_one_page_the_newest_call_first(session: Session) -> None:
    session.takes_up()
    for number in range(3):
        session.does(f"echo {number}")

    found = status(session)

    assert abouts(found) == ["echo 2", "echo 1", "echo 0"]
    assert found["more"] is None


def test_a_history_is_paged_through_to_its_first_call(session: Session) -> None:
    task = session.takes_up()
    for number in range(75):
        session.does(f"echo {number}")

    first, *rest = pages(session)

    size = run_history.CALLS_PER_PAGE
    assert [len(page["tool_history"]) for page in (first, *rest)] == [size, size, 15]
    assert [page["more"] and page["more"]["left"] for page in (first, *rest)] == [
        *(75 - size, 75 - 2 * size),
        None,
    ]
    assert [about for page in (first, *rest) for about in abouts(page)] == [
        f"echo {number}" for number in reversed(range(75))
    ]
    assert {page["task_id"] for page in rest} == {task}
    assert all("do_not_redo" not in page for page in rest)


def test_the_pages_go_on_in_the_runs_before(session: Session) -> None:
    task = session.takes_up()
    for number in range(40):
        session.does(f"echo {number}")
    session.call("task_abort", task_id=task, reason="Enough.")
    session.call("task_resume", task_id=task)
    session.call("task_abort", task_id=task, reason="Enough.")
    session.call("task_resume", task_id=task)
    session.does("echo 40")

    found = pages(session)

    assert [about for page in found for about in abouts(page)] == [
        f"echo {number}" for number in reversed(range(41))
    ]


def test_new_calls_do_not_shift_the_pages(session: Session) -> None:
    session.takes_up()
    for number in range(40):
        session.does(f"echo {number}")
    first = status(session)
    session.does("echo late")

    rest = status(session, **first["more"]["arguments"])

    assert abouts(rest) == [f"echo {number}" for number in reversed(range(10))]


@pytest.mark.parametrize("before", ["1", "1.2", "1.2.x", "-1.2.3"])
def test_a_place_that_no_answer_named_is_refused(session: Session, before: str) -> None:
    session.takes_up()

    with pytest.raises(InvalidArguments, match=r"more\.arguments"):
        status(session, before=before)


def test_a_place_beyond_the_history_is_an_empty_page(session: Session) -> None:
    session.takes_up()
    session.does("echo one")

    found = status(session, before="9.1.7")

    assert (found["tool_history"], found["more"]) == ([], None)


# --- what was said --------------------------------------------------------------


def test_the_last_words_of_each_turn_are_kept_with_its_run(session: Session) -> None:
    task = session.works()
    assert session.run(task).dialogue.last_response is None
    for words in ("I begin.", "Half is done."):
        session.ends(words)
        session.begins(Origin.TASKMEM)

    assert session.run(task).dialogue.last_response == "Half is done."
    session.ends("")
    assert packet(session, task)["last_response"] == "Half is done."


def test_of_long_words_the_end_is_kept_and_no_credential(session: Session) -> None:
    task = session.works()
    key = "sk-" + "a1B2" * 8

    session.ends(f"{key} {'é' * 2000} the end, {key}")

    kept = session.run(task).dialogue.last_response or ""
    assert count_json_bytes(kept) <= LAST_WORDS_BYTES
    assert "the end" in kept
    assert key not in kept


def test_run_keeps_the_words_of_its_question_not_later_ones(session: Session) -> None:
    session.turn_since = session.world.clock.now()
    task = session.works()
    session.call("task_update", task_id=task, ask="Which colour?")
    session.ends("The walls are up. Which colour?")
    session.world.clock.tick(1)
    session.turn_since = session.world.clock.now()
    session.begins()
    session.ends("It is four o'clock.", origin=Origin.USER)

    assert session.run(task).dialogue.last_response == "The walls are up. Which colour?"


def test_what_was_said_is_known_after_any_number_of_calls(session: Session) -> None:
    task = session.takes_up()
    session.does("echo 0", said=(ConversationMessage(role="user", text="Please bake."),))
    for number in range(MOST_READ_CHECKPOINTS):
        session.does(f"echo {number}")

    spoken = [{"role": "user", "text": "Please bake."}]
    assert packet(session, task)["conversation"] == spoken
    assert status(session)["conversation"] == spoken


def test_packet_shows_few_cut_messages_and_status_more_in_full(session: Session) -> None:
    task = session.takes_up()
    for number in range(12):
        said = (ConversationMessage(role="assistant", text=f"{number} " + "x" * 300),)
        session.does(f"echo {number}", said=said)

    told, found = packet(session, task), status(session)

    assert [line["text"].split()[0] for line in told["conversation"]] == [*("9", "10", "11")]
    assert all(len(line["text"]) <= 200 for line in told["conversation"])
    assert [line["text"].split()[0] for line in found["conversation"]] == [
        str(number) for number in range(4, 12)
    ]
    assert all(len(line["text"]) > 300 for line in found["conversation"])


def test_calls_that_nobody_sees_are_not_told_as_none(session: Session) -> None:
    world = session.world
    relay = Caller(process="1:1", owner=Owner(role="agent", process="1:1"))
    task = world.register(caller=relay)
    for said in ("and nobody holds it", "its run running"):
        answer = world.call("task_status", relay, task_id=task)
        assert answer["tool_calls"] is None
        assert answer["message"].startswith(f"The task is active, {said}, after 0 sec")
        world.call("task_claim", relay, task_id=task)

    session.takes_up()

    assert ", 0 tool calls in 0 seconds." in status(session)["message"]
