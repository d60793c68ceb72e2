from __future__ import annotations

from datetime import timedelta

import pytest

from openclaw_taskmem.domain.changes import task_update
from openclaw_taskmem.domain.changes.handoff import HandoffNotes
from openclaw_taskmem.domain.tasks.thread import parse_query
from taskmem_hookspecs import (
    Linkage,
    Message,
    MessageType,
    QueryFacts,
    Role,
    Task,
    TaskStatus,
    WaitStatus,
)
from taskmem_hookspecs.testing import DAWN, a_message, a_task, a_wait

NOW = DAWN + timedelta(minutes=5)


def summary(
    task: Task, *messages: Message, waits: tuple[object, ...] = (), query: str = "where am I?"
) -> str:
    facts = QueryFacts.model_validate(
        {"task": task, "messages": messages, "waits": waits, "now": NOW}
    )
    question = parse_query(query, task.plan)
    return task_update.summarize_task(facts, question)


def test_a_sparse_history_still_gives_a_useful_answer() -> None:
    assert summary(a_task()) == (
        'No step is done yet. Currently on step 1, "Build it". Remaining: steps 2-3. '
        "No blockers noted. Nothing was narrated yet."
    )


def test_what_is_done_where_it_stands_and_what_remains() -> None:
    told = a_message(content="Step 2 done — pushed")
    plan = ("1. Build", "2. Push", "3. SSH", "4. Run", "5. Verify")

    assert summary(a_task(plan=plan, done=[0, 1]), told) == (
        'Completed steps 1-2. Currently on step 3, "SSH". Remaining: steps 4-5. '
        'No blockers noted. Last message, 5 minutes ago: "Step 2 done — pushed".'
    )


TROUBLE = a_message(content="docker push failed: denied")


def test_trouble_that_no_progress_followed_is_the_blocker() -> None:
    chatter = a_message(content="Looking at the log")

    assert 'Possible blocker: "docker push failed: denied".' in summary(a_task(), TROUBLE, chatter)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Step 1", MessageType.PROGRESS),
        ("got a token", MessageType.TEXT),
        ("pushed v1.2.3 now", MessageType.TEXT),
    ],
)
def test_trouble_that_progress_followed_is_no_blocker(said: str, kind: MessageType) -> None:
    after = a_message(content=said, msg_type=kind)

    assert "No blockers noted." in summary(a_task(), TROUBLE, after)


@pytest.mark.parametrize(
    "said", ["Step 1 done; step 2 failed with exit code 1", "Step 1 done, but the push was denied"]
)
def test_progress_that_says_what_failed_since_is_a_blocker(said: str) -> None:
    told = a_message(content=said, msg_type=MessageType.PROGRESS)

    assert f'Possible blocker: "{said}".' in summary(a_task(done=[0]), told)


@pytest.mark.parametrize(
    "said", ["Step 1 done: what failed is fixed", "Step 1 was failing, but it passes now"]
)
def test_progress_that_has_overcome_trouble_is_no_blocker(said: str) -> None:
    told = a_message(content=said, msg_type=MessageType.PROGRESS)

    assert "No blockers noted." in summary(a_task(done=[0]), told)


def test_a_failed_task_is_not_said_to_have_no_blockers() -> None:
    told = summary(a_task(status=TaskStatus.FAILED))

    assert "Why it failed was not noted." in told
    assert "No blockers" not in told


@pytest.mark.parametrize("state", [WaitStatus.ERROR, WaitStatus.TIMEOUT])
def test_where_the_last_wait_went_wrong_no_blockers_is_not_said(state: WaitStatus) -> None:
    task = a_task(linkage=Linkage(last_wait_state=state))

    assert "No blockers" not in summary(task)


@pytest.mark.parametrize("said", ["Fixed the error", "ran with 0 errors", "no failures"])
def test_words_that_deny_trouble_are_no_blocker(said: str) -> None:
    assert "No blockers noted." in summary(a_task(), a_message(content=said))


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("did step 2 work?", 'Step 2, "Test it", is not done.'),
        ("did I build it?", 'Step 1, "Build it", is done.'),
    ],
)
def test_a_step_asked_for_is_told_with_its_mark(query: str, said: str) -> None:
    assert said in summary(a_task(done=[0]), query=query)


def test_a_question_about_waits_is_answered_where_there_are_none() -> None:
    assert "Nothing is waited for." in summary(a_task(), query="am I waiting?")


def test_an_alert_about_silence_is_no_blocker() -> None:
    alert = a_message(role=Role.SYSTEM, msg_type=MessageType.STUCK, content="Task appears stuck")
    assert "No blockers noted." in summary(a_task(), alert)


def test_what_is_waited_for_is_told_with_the_time_left() -> None:
    wait = a_wait(deadline_at=NOW + timedelta(minutes=3))

    told = summary(a_task(), waits=(wait,))

    assert f"Waiting on {wait.target} ({wait.wait_id}) until" in told
    assert "3 minutes left" in told


def test_how_the_last_wait_ended_is_told_when_none_is_open() -> None:
    linkage = Linkage(last_wait_state=WaitStatus.ERROR, last_wait_event_at=NOW)

    assert "The last wait ended as error." in summary(a_task(linkage=linkage))


def test_a_finished_or_paused_task_says_so() -> None:
    done = a_task(status=TaskStatus.COMPLETED, done=[0, 1, 2])

    assert summary(done).startswith("The task is completed. Completed steps 1-3.")
    assert "All steps are done." in summary(done)
    assert summary(a_task(status=TaskStatus.PAUSED)).startswith("The task is paused.")


def test_a_long_plan_is_counted_not_listed() -> None:
    plan = tuple(f"Do thing {i}" for i in range(200))

    told = summary(a_task(plan=plan, done=range(150)))

    assert "Completed steps 1-150." in told
    assert len(told) < 200


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (a_task(), 'Next: step 1, "Build it".'),
        (a_task(status=TaskStatus.PAUSED), 'Next, once it is active again: step 1, "Build it".'),
        (
            a_task(done=[0, 1, 2]),
            'All steps are done: set status "completed" when the result is checked.',
        ),
        (a_task(status=TaskStatus.COMPLETED, done=[0]), "Nothing is watched any more."),
    ],
)
def test_an_acknowledgement_says_what_comes_next(task: Task, said: str) -> None:
    assert task_update.describe_next_step(task) == said


def test_finished_task_is_not_to_be_completed_if_user_spoke_last() -> None:
    task, said = a_task(done=[0, 1, 2]), a_message(role=Role.USER)

    told = task_update.describe_next_step(task, [a_message(), said])

    assert told.startswith("All steps are marked done, but the user has spoken since:")
    assert "completed" not in told
    assert "completed" in task_update.describe_next_step(task, [said, a_message()])


@pytest.mark.parametrize(
    ("left", "done", "begins", "ends"),
    [
        (HandoffNotes(), (), "Next: step 1", '"Build it".'),
        (HandoffNotes(note="x"), (), "Read the note", 'Next: step 1, "Build it".'),
        (HandoffNotes(user_said=("x",)), (), "Act first on", 'Next: step 1, "Build it".'),
        (HandoffNotes(user_said=("x",)), (0, 1, 2), "Act first on", "when it is done, too."),
        (
            HandoffNotes(user_said=("x",), reviewed=True),
            (0, 1),
            "The user sent it back: do what they say first",
            'Next: step 3, "Ship it".',
        ),
        (
            HandoffNotes(user_said=("x",), reviewed=True),
            (0, 1, 2),
            "The user sent it back: do what they say first",
            "hand it off for review again when done.",
        ),
        (
            HandoffNotes(reviewed=True),
            (0, 1, 2),
            "It was taken out of the user's review without a word",
            "hand it off for review again when done.",
        ),
    ],
)
def test_one_who_claims_is_told_to_act_on_what_is_left_for_them(
    left: HandoffNotes, done: tuple[int, ...], begins: str, ends: str
) -> None:
    told = task_update.describe_handoff_notes(a_task(done=done), left)

    assert told.startswith(begins)
    assert told.endswith(ends)
