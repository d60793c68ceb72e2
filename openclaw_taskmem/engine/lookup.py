"""Find a task, wait or wake by what a person calls it: an id, a part of it, a name or a number."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from openclaw_taskmem.domain.texts import quote_line, to_one_line, to_plain_line
from openclaw_taskmem.engine.context import Context
from taskmem_hookspecs import (
    InvalidArguments,
    Task,
    TaskNotFound,
    TaskQuery,
    WaitQuery,
    WakeQuery,
)

SHORTEST: Final = 4
"""Characters of the shortest end of an id that counts."""
MOST: Final = 1_000
"""Newest waits, and wakes, among which a part of an id is looked for."""
NAMED: Final = 50
"""Tasks with the words in their name, latest first, that are considered."""
LISTED: Final = 5
"""Tasks that a refusal lists at most."""


class PersonList:
    """The tasks of the list that was shown last, at any terminal, numbered from 1.

    May be used from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listed: tuple[str, ...] = ()

    def note_tasks(self, task_ids: Iterable[str]) -> None:
        """Note the tasks of a list that is shown now."""
        with self._lock:
            self._listed = (*task_ids,)

    def find(self, number: int) -> str | None:
        """Return the task with a number; None: the list had none."""
        with self._lock:
            return self._listed[number - 1] if 1 <= number <= len(self._listed) else None


class Found(NamedTuple):
    """What a person means."""

    kind: str
    """`task`, `wait` or `wake`."""
    id: str


def find_by_words(
    context: Context, words: str, listed: PersonList, kinds: Sequence[str] = ("task",)
) -> Found:
    """Return the one task, wait or wake that a person's words mean.

    In this order: a number of the list that was shown last, a whole id, the beginning or end
    of one, a whole name, the beginning of a name, a part of one.

    Raises:
        TaskNotFound: Nothing is called so.
        InvalidArguments: Several are; the text lists them.
    """
    words = to_one_line(words)
    if words.isdecimal() and (numbered := listed.find(int(words))) and "task" in kinds:
        return Found("task", numbered)
    ids: list[Found] = []
    if "wait" in kinds:
        waits = context.store.whole.find_waits(WaitQuery(limit=MOST))
        ids += [Found("wait", wait.wait_id) for wait in waits]
    if "wake" in kinds:
        wakes = context.store.whole.find_wakes(WakeQuery(limit=MOST))
        ids += [Found("wake", wake.wake_id) for wake in wakes]
    tasks: Sequence[Task] = ()
    if "task" in kinds and words:
        query = TaskQuery(named=words, limit=NAMED, implicit=False)
        tasks = context.store.whole.find_tasks(query)
        ids += [Found("task", task.task_id) for task in tasks]
    names = {task.task_id: to_one_line(task.name).casefold() for task in tasks}
    wanted = words.casefold()
    matches: tuple[Callable[[Found], bool], ...] = (
        lambda each: each.id == wanted,
        lambda each: _is_part(each, wanted),
        lambda each: names.get(each.id) == wanted,
        lambda each: names.get(each.id, "").startswith(wanted),
        lambda each: each.id in names and wanted in names[each.id],
    )
    for match in matches:
        found = [each for each in ids if match(each)]
        if len(found) == 1:
            return found[0]
        if found:
            raise InvalidArguments(_describe_several(words, found, tasks))
    which = " or ".join(kinds)
    raise TaskNotFound(
        f"No {which} is called {quote_line(to_plain_line(words), 80)}; see what there is with: "
        "taskmem list"
    )


def _is_part(each: Found, wanted: str) -> bool:
    """Whether words are the beginning of an id, with or without its kind, or its end."""
    rest = each.id.partition("_")[2]
    begins = wanted.startswith(f"{each.kind}_") and each.id.startswith(wanted)
    long_enough = len(wanted) >= SHORTEST
    return begins or (long_enough and (rest.startswith(wanted) or rest.endswith(wanted)))


def _describe_several(words: str, found: Sequence[Found], tasks: Sequence[Task]) -> str:
    names = {task.task_id: task.name for task in tasks}
    shown = "; ".join(
        f"{each.id} {quote_line(to_plain_line(names[each.id]), 60)}"
        if each.id in names
        else each.id
        for each in found[:LISTED]
    )
    more = f" and {len(found) - LISTED} more" if len(found) > LISTED else ""
    named = quote_line(to_plain_line(words), 80)
    return f"{named} may mean {shown}{more}; give more of the id or name."
