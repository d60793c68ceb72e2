"""Which task a person means in a chat, and how its tasks are listed there."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_taskmem.domain.runs.current_run import RunReason
from openclaw_taskmem.domain.views.user_actions import (
    Command,
    ListedTask,
    choose_task,
    describe_list,
)
from taskmem_hookspecs import RunState, TaskStatus
from taskmem_hookspecs.testing import DAWN, a_task, a_wait
from tests.support.owners import a_changed_run

NOW = DAWN + timedelta(minutes=5)
QUESTION = {"state": RunState.BLOCKED, "why": RunReason.QUESTION, "question": "Which flour?"}
RESUME, CANCEL = Command.RESUME, Command.CANCEL


def a_listed_task(number: int, name: str, status: str = "active", **run: object) -> ListedTask:
    run = {"state": RunState.QUEUED, **run}
    task = a_task(task_id=f"task_1m{number}abc", name=name, status=status)
    return ListedTask(number=number, task=task, run=a_changed_run(**run))


def an_asking_task(number: int, name: str) -> ListedTask:
    return a_listed_task(number, name, **QUESTION)


def a_running_task(number: int, name: str) -> ListedTask:
    return a_listed_task(number, name, state=RunState.RUNNING, lease_until=NOW)


BREAD = a_listed_task(1, "Bread")
CAKE = a_listed_task(2, "Carrot cake")
ROLLS = a_listed_task(3, "Bread rolls")
DONE = a_listed_task(4, "Soup", "completed", state=RunState.COMPLETED)
CALLED_OFF = a_listed_task(2, "Carrot cake", "cancelled", state=RunState.CANCELLED)
ALL = (BREAD, CAKE, ROLLS, DONE)
NEITHER = 'No task here is called "2 is wrong, I meant neither".'
WITH_NUTS = 'No task here is called "carrot with nuts".'
EXAMPLE = "Say which one, for example /cancel 1."
NO = 'No task here is called "no".'
MAIL_NOBODY = 'No task here is called "no wait, mail nobody".'
NOTIFY = a_listed_task(2, "Notify customers")
HOUR = a_listed_task(2, "1 hour build")
ASKS = an_asking_task(1, "Bread")
BUSY = a_running_task(2, "Carrot cake")


@pytest.mark.parametrize(
    ("tasks", "command", "words", "number", "rest"),
    [
        # nothing, where there is one
        ((BREAD, DONE), RESUME, "  ", 1, ""),
        ((BREAD, DONE), CANCEL, "", 1, ""),
        ((a_listed_task(1, "Bread", "failed"), DONE), RESUME, "", 1, ""),
        ((BREAD, BUSY), RESUME, "", 1, ""),
        ((BUSY, a_listed_task(3, "Soup", "failed")), RESUME, "", 2, ""),
        # what was cancelled comes last, and by its name or where there is no other
        ((CALLED_OFF, DONE), RESUME, "", 2, ""),
        ((BREAD, CALLED_OFF), RESUME, "", 1, ""),
        ((BREAD, CALLED_OFF), RESUME, "carrot cake", 2, ""),
        ((BREAD, CALLED_OFF), RESUME, "with rye", 1, "with rye"),
        ((BREAD, a_listed_task(2, "Bread", "cancelled")), RESUME, "bread", 1, ""),
        # a number, a name, the beginning of a name or an id
        (ALL, RESUME, "2", 2, ""),
        (ALL, CANCEL, "#2", 2, ""),
        (ALL, RESUME, "2. rye,  please\nor spelt", 2, "rye,  please\nor spelt"),
        (ALL, RESUME, "carrot CAKE", 2, ""),
        (ALL, RESUME, "Bread", 1, ""),
        (ALL, RESUME, "Bread rolls", 3, ""),
        (ALL, RESUME, "bread rolls with rye", 3, "with rye"),
        (ALL, RESUME, "Bread: rye", 1, ": rye"),
        (ALL, RESUME, "car", 2, ""),
        (ALL, RESUME, "bread r", 3, ""),
        (ALL, CANCEL, "task_1m3", 3, ""),
        (ALL, RESUME, "task_1m3abc rye", 3, "rye"),
        (ALL, RESUME, "carrot with nuts", 2, "with nuts"),
        # a number goes after the beginning of a name that goes on behind it
        ((BREAD, HOUR), CANCEL, "1 hour", 2, ""),
        ((BREAD, HOUR), RESUME, "1 hour", 2, ""),
        ((BREAD, HOUR), CANCEL, "1", 1, ""),
        # what is no name is the answer to the one question
        ((ASKS, BUSY, DONE), RESUME, "formal, of course", 1, "formal, of course"),
        ((ASKS, DONE), RESUME, "2", 1, "2"),
        # but a number of the list is always the task
        ((ASKS, DONE), RESUME, "1", 1, ""),
        ((ASKS, DONE), RESUME, "1 rye, please", 1, "rye, please"),
        ((ASKS, BUSY), RESUME, "2", 2, ""),
        ((BREAD, DONE), RESUME, "formal, of course", 1, "formal, of course"),
        # half a word of its name is an answer of the task that asks
        ((an_asking_task(2, "Notify customers"), BREAD), RESUME, "no", 2, "no"),
        ((an_asking_task(2, "Notify customers"), BREAD), RESUME, "notify", 2, ""),
        # however its letters are composed
        ((a_listed_task(1, "Cr\u00eape"), BREAD), CANCEL, "cre\u0302pe", 1, ""),
        ((a_listed_task(2, "Cre\u0302pe"), BREAD), RESUME, "cr\u00eape now", 2, "now"),
    ],
)
def test_a_person_names_a_task_by_little(
    tasks: tuple[ListedTask, ...], command: Command, words: str, number: int, rest: str
) -> None:
    choice = choose_task(tasks, command, words, NOW)
    assert choice.one is not None
    assert (choice.one.number, choice.words) == (number, rest)


@pytest.mark.parametrize(
    ("tasks", "command", "words", "shown", "said"),
    [
        (ALL, RESUME, "", "123", "Say which one, for example /resume 1."),
        (ALL, CANCEL, "", "123", "Say which one, for example /cancel 1."),
        (ALL, CANCEL, "brea", "13", "Say which one, for example /cancel 1."),
        (ALL, RESUME, "formal", "123", 'No task here is called "formal".'),
        (ALL, CANCEL, "9", "123", 'No task here is called "9".'),
        ((BREAD,), RESUME, "99", "1", 'No task here is called "99".'),
        ((ASKS, DONE), CANCEL, "formal", "1", 'No task here is called "formal".'),
        (ALL, RESUME, "Soup", "4", "It cannot be resumed."),
        ((CALLED_OFF,), RESUME, "with rye", "2", 'No task here is called "with rye".'),
        (ALL, CANCEL, "4", "4", "It cannot be cancelled."),
        # what is more than a name may mean anything
        (ALL, CANCEL, "2 is wrong, I meant neither", "123", NEITHER),
        (ALL, CANCEL, "Bread rolls not yet", "123", EXAMPLE),
        (ALL, CANCEL, "task_1m3abc please", "123", EXAMPLE),
        # what begins like another task's name answers no question
        ((ASKS, BUSY), RESUME, "carrot with nuts", "12", WITH_NUTS),
        ((ASKS, BUSY, a_listed_task(3, "Carrots")), RESUME, "carrot with nuts", "123", WITH_NUTS),
        # half a word of a name takes no word of what is said, and no answer
        ((NOTIFY, BREAD), RESUME, "no wait, mail nobody", "21", MAIL_NOBODY),
        ((an_asking_task(2, "Notify"), ASKS), RESUME, "no wait, mail nobody", "21", MAIL_NOBODY),
        ((NOTIFY, ASKS), RESUME, "no", "21", NO),
        ((a_listed_task(2, "No reply mails"), ASKS), RESUME, "no", "21", NO),
        ((ASKS, DONE), RESUME, "4", "4", "It cannot be resumed."),
        ((DONE,), RESUME, "", "", "This chat has no task to resume."),
        ((DONE,), CANCEL, "Soup", "", "This chat has no task to cancel."),
        (
            (an_asking_task(1, "Bread"), an_asking_task(2, "Cake")),
            RESUME,
            "formal",
            "12",
            "Say which one, for example /resume 1.",
        ),
        (
            (a_listed_task(1, "Twin"), a_listed_task(2, "Twin")),
            CANCEL,
            "twin",
            "12",
            "Say which one, for example /cancel 1.",
        ),
    ],
)
def test_where_several_are_meant_all_are_shown(
    tasks: tuple[ListedTask, ...], command: Command, words: str, shown: str, said: str
) -> None:
    choice = choose_task(tasks, command, words, NOW)
    assert choice.one is None
    lines = choice.reply.splitlines()
    assert "".join(line[0] for line in lines if line[0].isdigit()) == shown
    assert said in lines


@given(st.text(max_size=30), st.sampled_from([RESUME, CANCEL]))
def test_command_chooses_a_task_or_replies_without_showing_ids(
    words: str, command: Command
) -> None:
    choice = choose_task(ALL, command, words, NOW)
    assert (choice.one is None) == bool(choice.reply)
    assert "task_1m" not in choice.reply


FIRST = "1. Bread: step 1 of 3 (Build it)"
WATCHED = a_wait(target="pty:oven")


@pytest.mark.parametrize(
    ("each", "line"),
    [
        (BREAD, f"{FIRST}."),
        (BUSY, "2. Carrot cake: step 1 of 3 (Build it); at work."),
        (ASKS, f"{FIRST}; asks you: Which flour?"),
        (a_listed_task(1, "Bread", told_session="agent:main:main"), f"{FIRST}; in the background."),
        (
            a_running_task(1, "Bread").model_copy(update={"waits": (WATCHED, WATCHED)}),
            f"{FIRST}; waits for oven.",
        ),
        (
            a_listed_task(1, "Bread", state=RunState.BLOCKED, why=RunReason.CREDENTIALS),
            f"{FIRST}; waits for a key that the model's provider takes.",
        ),
        (
            a_listed_task(1, "Bread", state=RunState.BLOCKED, why=RunReason.STALE),
            f"{FIRST}; waits for your word.",
        ),
        (
            a_listed_task(1, "Bread", "paused", state=RunState.REVIEW),
            f"{FIRST}; waits for your review.",
        ),
        (
            ListedTask(number=1, task=a_task(status=TaskStatus.PAUSED)),
            "1. Deploy the site: step 1 of 3 (Build it); paused.",
        ),
        (
            ListedTask(number=1, task=a_task(done=frozenset({0, 1, 2}))),
            "1. Deploy the site: all steps done.",
        ),
        (DONE, "4. Soup: completed 5 min ago."),
        (
            a_listed_task(1, "Bread", "failed").model_copy(update={"failure": "No flour."}),
            "1. Bread: failed 5 min ago. No flour.",
        ),
    ],
)
def test_a_list_says_where_each_stands_and_what_it_waits_for(each: ListedTask, line: str) -> None:
    assert describe_list([each], NOW).splitlines()[0] == line


def test_a_list_says_what_can_be_done() -> None:
    how = "/resume NUMBER resumes one, /cancel NUMBER cancels one."
    assert describe_list(ALL, NOW).splitlines()[-1] == how
    assert len(describe_list([DONE], NOW).splitlines()) == 1
    assert describe_list([], NOW) == "This chat has no tasks."


AWAY = ASKS.model_copy(update={"run": a_changed_run(told_session="agent:main:main", **QUESTION)})


@pytest.mark.parametrize(
    ("tasks", "way"),
    [
        ((ASKS, BUSY), "Answer by writing, or with /resume 1 YOUR ANSWER."),
        (
            (ASKS, an_asking_task(2, "Cake")),
            "Answer by writing, or with /resume NUMBER YOUR ANSWER.",
        ),
        ((AWAY, BUSY), "Answer with /resume 1 YOUR ANSWER."),
    ],
    ids=["one", "several", "background"],
)
def test_a_list_says_how_a_question_is_answered(tasks: tuple[ListedTask, ...], way: str) -> None:
    assert describe_list(tasks, NOW).splitlines()[-2] == way


def test_an_answer_that_would_not_arrive_whole_is_refused() -> None:
    assert choose_task([ASKS], RESUME, "x" * 1000, NOW).one is ASKS
    refused = choose_task([ASKS], RESUME, "x" * 1001, NOW)
    assert (refused.one, "1,000 characters" in refused.reply) == (None, True)
