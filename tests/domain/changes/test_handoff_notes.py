"""What is left for whoever claims a run."""

from __future__ import annotations

from datetime import timedelta

import pytest

from openclaw_taskmem.domain.changes import handoff
from openclaw_taskmem.domain.changes.handoff import HandoffNotes
from openclaw_taskmem.domain.tasks import lifecycle
from taskmem_hookspecs import Message, Role, TaskStatus
from taskmem_hookspecs.testing import DAWN, a_message, a_run, a_task
from tests.support.owners import a_changed_run

TO_TESTER = "Handed to tester. Look at the roof."
TO_USER = handoff.describe_review("It is built.")


def user(said: str) -> Message:
    return a_message(role=Role.USER, content=said)


def entry(said: str) -> Message:
    return lifecycle.build_system_message(a_task(), said, DAWN)


def find_left(*messages: Message, began_later: bool = False, heard_until: int = 0) -> HandoffNotes:
    began = DAWN + timedelta(minutes=1) if began_later else DAWN
    run = a_run(role="tester", created_at=began)
    return handoff.find_handoff_notes(run, messages, heard_until)


def test_words_of_the_user_since_a_review_are_left_oldest_first() -> None:
    found = find_left(
        user("Build it."),
        entry(TO_USER),
        user("Mend the roof."),
        a_message(),
        user("And the door."),
        entry("Status: paused → active"),
    )

    assert found == HandoffNotes(user_said=("Mend the roof.", "And the door."), reviewed=True)


def test_words_before_the_first_hand_off_of_a_task_are_left() -> None:
    assert find_left(user("Use brick."), a_message()) == HandoffNotes(user_said=("Use brick.",))


def test_a_note_is_left_with_the_words_that_came_after_it() -> None:
    found = find_left(entry(TO_TESTER), user("The door, too."))

    assert found == HandoffNotes(note="Look at the roof.", user_said=("The door, too.",))


def test_a_note_for_another_role_or_an_earlier_run_is_not_left() -> None:
    assert find_left(entry("Handed to builder. Mend it.")) == HandoffNotes()
    assert find_left(entry(TO_TESTER), began_later=True) == HandoffNotes()


@pytest.mark.parametrize(
    ("heard", "until", "left"),
    [
        ("Handed to builder.", 2, ("New.",)),
        ("Handed to builder.", 1, ("Old.", "New.")),
        ("Handed to builder.", 0, ("Old.", "New.")),
        ("Status: active → completed", 0, ("New.",)),
    ],
)
def test_words_before_a_hand_off_are_left_unless_they_were_heard(
    heard: str, until: int, left: tuple[str, ...]
) -> None:
    said = [
        message.model_copy(update={"message_id": number})
        for number, message in enumerate(
            (entry(TO_USER), user("Old."), entry(heard), user("New.")), 1
        )
    ]

    assert find_left(*said, heard_until=until) == HandoffNotes(user_said=left)


def test_what_went_to_review_with_another_task_was_reviewed() -> None:
    found = find_left(entry(handoff.describe_joint_review("task_7")), user("No."))

    assert found == HandoffNotes(user_said=("No.",), reviewed=True)


def test_no_message_but_the_threads_own_passes_for_a_hand_off() -> None:
    assert find_left(a_message(content=TO_USER), user(TO_TESTER)) == HandoffNotes(
        user_said=(TO_TESTER,)
    )


@pytest.mark.parametrize("status", ["paused", "failed", "cancelled", "completed"])
def test_words_are_left_also_where_the_task_was_not_completed(status: str) -> None:
    _, message = lifecycle.change_status(a_task(), TaskStatus(status), DAWN)
    assert message is not None

    heard = status == "completed"
    assert find_left(user("Wait."), message).user_said == (() if heard else ("Wait.",))


def test_who_holds_a_run_is_not_told_again_what_they_heard() -> None:
    said = [
        user("Old.").model_copy(update={"message_id": 1}),
        user("Good.").model_copy(update={"message_id": 2}),
        entry("Status: active → completed").model_copy(update={"message_id": 3}),
        user("And the door.").model_copy(update={"message_id": 4}),
        user("Status: active → completed").model_copy(update={"message_id": 5}),
    ]

    def unheard(until: int) -> list[int]:
        run = a_changed_run(heard_until=until)
        return [m.message_id for m in handoff.find_unheard_messages(run, said)]

    assert (unheard(4), unheard(0)) == ([5], [4, 5])
