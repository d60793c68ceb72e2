"""Past tasks: 20,000 generated tasks with threads, and 500 labelled questions about them.

A task is one of 50 subjects (a certificate, invoices, a journey …) for one of 140 customers and
offices, and one of three things happened in it, which only one message tells: 21,000 different
tasks, of which 20,000 are taken. So each task has some 140 others that differ by the customer
alone, two that differ by what happened alone, and a fifth of the threads mention other tasks.

How questions are worded: `bench/recall/topics.toml` has five for each subject, written by hand
beside the task and not made out of it. They share some words with the task, in other forms
("expiring" for "expired", "reconciling" for "reconciliation"), use other words for others
("accountant" for "tax adviser", "pictures" for "images"), leave most of the task out, and call a
customer by a short name where that is clear. Two ask about the subject as a whole, so that each
task of that subject and customer is a right answer; three ask about what happened, and only that
task is. Some begin or end with words that say nothing ("do you remember …").

A fifth more name a customer for whom nothing was done, so that nothing is right; they count for the
confidence only.

Half of the subjects are for fitting, the other half is held out: no word of a question that is
held out has been fitted to.
"""

from __future__ import annotations

import gc
import random
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypedDict, cast

from figures import Figure, amount
from homes import find_disk
from recall_score import BIAS, Question, ask_questions, format_scores

from openclaw_taskmem.engine.context import ScopedStore
from openclaw_taskmem.engine.recall import StoredHistory
from taskmem_hookspecs import (
    Author,
    Change,
    LedgerEntry,
    Message,
    MessageType,
    PlanRevision,
    Recollection,
    Role,
    Task,
    TaskStatus,
)
from taskmem_hookspecs.testing import FakeClock
from taskmem_recall.past_tasks import PastTasks
from taskmem_sqlmodel.store import SqlStore

SEED: Final = 21
TASKS: Final = 20_000
BATCH: Final = 500
"""Tasks that are written in one transaction."""
QUESTIONS: Final = 500
TOPICS: Final = Path(__file__).parent / "recall" / "topics.toml"
BEGIN: Final = datetime(2024, 11, 1, 8, tzinfo=UTC)
ABSENT: Final = ("Zephyr Tools", "Walrus", "Nettlefold", "Quicksilver", "Holm", "Rotterdam")
OPENINGS: Final = (
    *[""] * 5,
    "have we done this before: ",
    "do you remember ",
    "in the past, ",
    "I need to know ",
    "look up ",
)
ENDINGS: Final = (*[""] * 5, " last year", " some time ago", " back then", ", which task was that")
ROUTINE: Final = (
    "Asked for access, waiting for the answer.",
    "Access is there, went on.",
    "Talked it over with the team; nobody objects.",
    "Paused until Monday.",
    "Checked everything twice, all good.",
    "Sent a short summary to the customer.",
    "The customer is content.",
    "Took longer than planned, about a day.",
    "Put what was learned into the notes.",
)


def recall_tasks() -> Iterator[Figure | str]:
    """Measure recall of past tasks: 500 questions over 20,000 tasks with threads."""
    made = TaskSet()
    clock = FakeClock(max(one.task.updated_at for one in made.tasks))
    with TemporaryDirectory(prefix="tmb", dir=find_disk()) as folder:
        file = Path(folder) / "taskmem.db"
        store = SqlStore(f"sqlite:///{file}")
        began = time.perf_counter()
        for place in range(0, TASKS, BATCH):
            store.commit(_build_change(made.tasks[place : place + BATCH]))
        seconds = time.perf_counter() - began
        size = file.stat().st_size
        questions = made.questions
        del made
        gc.collect()
        gc.freeze()  # as the daemon does once it has started
        source = PastTasks(StoredHistory(ScopedStore(store)), clock)
        scores = ask_questions(questions, source.recall, _is_right, BIAS)
        store.close()
    yield amount("20,000 tasks with their index: written in", [seconds], "s")
    yield amount("20,000 tasks with their index: on the disk", [size / 1e6], "MB")
    for half in (False, True):
        some = [one for one in scores if one.question.is_held_out == half]
        yield from format_scores(f"past tasks, {'held out' if half else 'fitted to'}", some, 0.05)


def _build_change(tasks: Sequence[PastTask]) -> Change:
    return Change(
        tasks=tuple(one.task for one in tasks),
        messages=tuple(message for one in tasks for message in one.messages),
        revisions=tuple(revision for one in tasks for revision in one.revisions),
        ledger=tuple(entry for one in tasks for entry in one.made),
    )


def _is_right(found: Recollection, question: Question) -> bool:
    return found.task_id in question.right


class Topic(TypedDict):
    """A subject, as in `topics.toml`."""

    names: list[str]
    steps: list[str]
    made: str
    asks: list[str]
    details: list[list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastTask:
    """A task with its thread, and what was made in it."""

    task: Task
    messages: tuple[Message, ...]
    revisions: tuple[PlanRevision, ...]
    made: tuple[LedgerEntry, ...]


@dataclass(frozen=True, slots=True)
class _Combination:
    topic: int
    place: int
    detail: int


class TaskSet:
    """The generated tasks, and the questions about them; the same for the same seed."""

    def __init__(self, tasks: int = TASKS, questions: int = QUESTIONS, seed: int = SEED) -> None:
        chance = random.Random(seed)  # noqa: S311 (a generated set)
        text = TOPICS.read_text()
        loaded = cast("Mapping[str, object]", tomllib.loads(text))
        self._topics = cast("Sequence[Topic]", loaded["topics"])
        self._places = cast("Sequence[tuple[str, str]]", loaded["places"])
        every = [
            _Combination(topic, place, detail)
            for topic in range(len(self._topics))
            for place in range(len(self._places))
            for detail in range(3)
        ]
        self._taken = chance.sample(every, tasks)
        self.tasks = [
            self._make_task(number, one, chance) for number, one in enumerate(self._taken)
        ]
        self.questions = list(self._make_questions(questions, chance))

    def _make_task(self, number: int, one: _Combination, chance: random.Random) -> PastTask:
        topic, place = self._topics[one.topic], self._places[one.place][0]
        task_id = f"task_{number:016x}"
        at = BEGIN + timedelta(minutes=chance.randrange(2 * 365 * 24 * 60))
        steps = tuple(topic["steps"])
        said = [
            f"Started with: {steps[0]}.",
            *(f"Done: {step}." for step in steps[: chance.randrange(1, len(steps))]),
            *chance.sample(ROUTINE, chance.randrange(1, 4)),
        ]
        said.insert(chance.randrange(1, len(said) + 1), topic["details"][one.detail][0])
        if chance.random() < 0.2:
            other = chance.choice(self._taken)
            name = chance.choice(self._topics[other.topic]["names"])
            meanwhile = name.format(p=self._places[other.place][0])
            said.append(f"Set aside for a while, since this came between: {meanwhile}.")
        messages = tuple(
            Message(
                message_id=place_in_thread + 1,
                task_id=task_id,
                role=Role.AGENT,
                msg_type=MessageType.PROGRESS,
                content=content,
                created_at=at + timedelta(minutes=7 * place_in_thread),
            )
            for place_in_thread, content in enumerate(said)
        )
        ended = at + timedelta(minutes=7 * len(said))
        name = chance.choice(topic["names"]).format(p=place)
        task = Task(
            task_id=task_id,
            name=name[0].upper() + name[1:],
            status=chance.choices(list(TaskStatus), (5, 5, 80, 5, 5))[0],
            plan=steps,
            done=frozenset(range(len(steps))),
            message_count=len(messages),
            created_at=at,
            updated_at=ended,
        )
        slug = place.lower().replace(" ", "-")
        path = f"/home/agent/work/{slug}/{number}/{topic['made']}"
        made = LedgerEntry(task_id=task_id, path=path, at=ended)
        revision = PlanRevision(
            task_id=task_id,
            old_plan=steps[1:],
            new_plan=steps,
            reason=f"It has to begin with this: {steps[0]}",
            author=Author.AGENT,
            created_at=at + timedelta(minutes=1),
        )
        return PastTask(
            task=task,
            messages=messages,
            revisions=(revision,) if chance.random() < 0.15 else (),
            made=(made,),
        )

    def _make_questions(self, count: int, chance: random.Random) -> Iterator[Question]:
        about: defaultdict[tuple[int, int], set[str]] = defaultdict(set)
        of_topic: defaultdict[int, list[int]] = defaultdict(list)
        for number, (one, made) in enumerate(zip(self._taken, self.tasks, strict=True)):
            about[one.topic, one.place].add(made.task.task_id)
            of_topic[one.topic].append(number)
        for number in range(count + count // 5):
            topic = number % len(self._topics)
            kind = number // len(self._topics) % 5
            numbers = of_topic[topic]
            if kind >= 2:
                numbers = [one for one in numbers if self._taken[one].detail == kind - 2]
            wanted = chance.choice(numbers)
            one, task_id = self._taken[wanted], self.tasks[wanted].task.task_id
            subject, name = self._topics[topic], self._places[one.place][1]
            wording = subject["asks"][kind] if kind < 2 else subject["details"][kind - 2][1]
            right = about[topic, one.place] if kind < 2 else {task_id}
            if number >= count:
                right, name = set[str](), chance.choice(ABSENT)
            yield Question(
                text=chance.choice(OPENINGS) + wording.format(p=name) + chance.choice(ENDINGS),
                right=frozenset(right),
                is_held_out=topic % 2 == 1,
            )
