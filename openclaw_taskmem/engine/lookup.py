"""Find a task, wait or wake by what a person calls it, and report where a task stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import chain, islice
from typing import Final, NamedTuple

from openclaw_taskmem.domain.callers import Caller, RunningWork
from openclaw_taskmem.domain.changes import rights
from openclaw_taskmem.domain.changes.rights import Act, TaskHolder
from openclaw_taskmem.domain.events import FAILURE_SEEN, STATUS_CHANGED
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.runs.current_run import Budget
from openclaw_taskmem.domain.text.texts import quote_line, to_one_line, to_plain_line
from openclaw_taskmem.domain.wakes import notices
from openclaw_taskmem.engine import run_history
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.run_guards import (
    SEARCHED_ROWS,
    fill_in_home,
    find_holders,
    guard_task,
    list_background_runs,
    list_own_tasks,
    list_tasks,
)
from openclaw_taskmem.engine.run_history import (
    HistoryPage,
    HistoryPosition,
    PastWork,
    read_history_page,
    read_past_work,
)
from taskmem_hookspecs import (
    EventQuery,
    InvalidArguments,
    NotAllowed,
    Run,
    Task,
    TaskNotFound,
    TaskQuery,
    TaskStatus,
    Value,
    Wait,
    WaitNotFound,
    WaitQuery,
    WakeQuery,
)

_SHORTEST_END: Final = 4
"""Characters of the shortest end of an id that counts."""
_SHOWN_END: Final = 7
"""Characters of the shortest end of an id that lists and refusals show."""
ID_CANDIDATES: Final = 1_000
"""Newest waits, and wakes, among which a part of an id is looked for."""
ALL_ID_CANDIDATES: Final = 100_000
"""Newest waits, and wakes, that are searched if no id among `ID_CANDIDATES` fits."""
_NAMED_TASKS: Final = 50
"""Tasks with the words in their name, latest first, that are considered."""
_LISTED_TASKS: Final = 5
"""Tasks that a refusal lists at most."""


class Found(NamedTuple):
    """A task, wait or wake that a person may mean."""

    kind: str
    """`task`, `wait` or `wake`."""
    id: str


def find_by_words(context: Context, words: str, kinds: Sequence[str] = ("task",)) -> Found:
    """Return the one task, wait or wake that a person's words mean.

    In this order: a whole id, the beginning or end of one, a whole name, the beginning of a name,
    a part of one. Digits alone are no part of a name: `2` is not meant for "Release 2.0".

    Only what is of this home counts, whatever other homes keep in its database.

    Raises:
        TaskNotFound: Nothing is called so.
        InvalidArguments: Several are, and the text lists them; or there are no words.
    """
    words = to_one_line(words)
    if not words:
        raise InvalidArguments("That names nothing; give a name or an id of the list: taskmem list")
    found = _find_whole_id(context, words, kinds)
    found = found or _find_among(context, words, kinds, ID_CANDIDATES)
    # What is old, or was opened for a turn without a task, is looked for only if nothing else is.
    found = found or _find_among(context, words, kinds, ALL_ID_CANDIDATES, implicit=None)
    if found is not None:
        return found
    which = " or ".join(kinds)
    raise TaskNotFound(
        f"No {which} is called {quote_line(to_plain_line(words), 80)}; see what there is with: "
        "taskmem list"
    )


def find_named(context: Context, kind: str, name: str) -> str:
    """Return the id of the one task or wait that an agent's words surely mean.

    They are the beginning or end of an id, or a whole name: of the one task that has it, or of the
    one that is open. Words that mean nothing are returned as they are.

    Raises:
        InvalidArguments: They mean several; the text lists them.
    """
    words = to_one_line(name)
    if not words or _has_row(context, kind, words):
        return name
    found = _find_among(context, words, (kind,), ID_CANDIDATES, whole=True)
    return name if found is None else found.id


def _has_row(context: Context, kind: str, any_id: str) -> bool:
    """Tell whether a task or wait has exactly that id, in this home or another."""
    try:
        return bool(
            context.store.read_wait(any_id) if kind == "wait" else context.store.read_task(any_id)
        )
    except (TaskNotFound, WaitNotFound):
        return False


def _find_whole_id(context: Context, words: str, kinds: Sequence[str]) -> Found | None:
    """Return what has exactly that id, however old; None: nothing has.

    Raises:
        TaskNotFound: It is another home's.
    """
    kind, store = words.partition("_")[0], context.store
    if kind not in kinds:
        return None
    guard_home(context, words)
    if kind == "wake":
        is_there = bool(store.find_wakes(WakeQuery(wake_ids=(words,), limit=1)))
    else:
        is_there = _has_row(context, kind, words)
    return Found(kind, words) if is_there else None


def _find_among(
    context: Context,
    words: str,
    kinds: Sequence[str],
    most: int,
    *,
    implicit: bool | None = False,
    whole: bool = False,
) -> Found | None:
    """Return the one that words mean, among so many newest waits and wakes; None: there is none.

    `implicit`: None to look among implicit tasks, too. With `whole`, a part of a name is no name,
    and of tasks with one name the open one is meant.

    Raises:
        InvalidArguments: They may mean several; the text lists them.
    """
    ids: list[Found] = []
    if "wait" in kinds:
        waits = context.store.find_waits(WaitQuery(limit=most))
        ids += [Found("wait", wait.wait_id) for wait in waits]
    if "wake" in kinds:
        wakes = context.store.find_wakes(WakeQuery(limit=most))
        ids += [Found("wake", wake.wake_id) for wake in wakes]
    tasks: Sequence[Task] = ()
    if "task" in kinds:
        query = TaskQuery(named=words, limit=_NAMED_TASKS, implicit=implicit)
        tasks = context.store.find_tasks(query)
        ids += [Found("task", task.task_id) for task in tasks]
    names = {task.task_id: to_one_line(task.name).casefold() for task in tasks}
    wanted = words.casefold()
    matches: tuple[Callable[[Found], bool], ...] = (
        lambda each: _is_part(each, wanted),
        lambda each: names.get(each.id) == wanted,
        lambda each: not words.isdecimal() and names.get(each.id, "").startswith(wanted),
        lambda each: not words.isdecimal() and wanted in names.get(each.id, ""),
    )
    ended = {task.task_id for task in tasks if task.status.terminal}
    for match in matches[:2] if whole else matches:
        found = [each for each in ids if match(each)]
        still_open = [each for each in found if each.id not in ended]
        if whole and len(still_open) == 1:
            return still_open[0]
        if len(found) == 1:
            return found[0]
        if found:
            raise InvalidArguments(_describe_several(words, found, tasks))
    return None


def guard_open_count(context: Context, caller: Caller, kind: type[Task | Wait]) -> None:
    """Refuse a new task or wait of an agent that has its full number of open ones.

    Concurrent calls may exceed the limit by a few.

    Raises:
        LimitReached: The agent has its full number.
    """
    maker = rights.find_maker(caller, context.sessions)
    if maker is not None:
        count = context.store.count_open(kind, maker, rights.MOST_OPEN[kind])
        rights.guard_open_count(kind, count)


def guard_home(context: Context, any_id: str) -> None:
    """Refuse a task, wait or wake of another home that shares the database.

    A task is also of the homes of its registrar and of its run. Unknown ids pass.

    Raises:
        TaskNotFound: It is another home's.
    """
    if not is_of_home(context, any_id):
        raise TaskNotFound(
            f"{quote_line(to_plain_line(any_id), 80)} is of another home that shares this "
            "database; use taskmem with the TASKMEM_HOME of that home."
        )


def is_of_home(context: Context, any_id: str) -> bool:
    """Tell whether a task, wait or wake is of this home, or unknown."""
    store = context.store
    return not store.is_shared or any(map(store.serves, _find_homes(context, any_id)))


def _find_homes(context: Context, any_id: str) -> Sequence[str | None]:
    """Return the homes of a task, wait or wake; no home (None) if there is no such row."""
    with suppress(WaitNotFound, TaskNotFound):
        if any_id.startswith("wake_"):
            wakes = context.store.find_wakes(WakeQuery(wake_ids=(any_id,)))
            return [wake.home for wake in wakes] or [None]
        if any_id.startswith("wait_"):
            wait = context.store.read_wait(any_id)
            own = [wait.home]
            return own if wait.task_id is None else [*own, *_find_homes(context, wait.task_id)]
        facts = context.store.read_task(any_id)
        runs = [facts.run.home] if facts.run is not None else []
        return [facts.task.home, facts.task.registrar_home, *runs]
    return [None]


def _is_part(each: Found, wanted: str) -> bool:
    """Tell whether words are the beginning of an id, with or without its kind, or its end."""
    rest = each.id.partition("_")[2]
    begins = wanted.startswith(f"{each.kind}_") and each.id.startswith(wanted)
    long_enough = len(wanted) >= _SHORTEST_END
    return begins or (long_enough and (rest.startswith(wanted) or rest.endswith(wanted)))


def _describe_several(words: str, found: Sequence[Found], tasks: Sequence[Task]) -> str:
    tasks_by_id = {task.task_id: task for task in tasks}

    def show(each: Found) -> str:
        rest = each.id.partition("_")[2]
        others = [other.id for other in found if other != each]
        sizes = range(min(_SHOWN_END, len(rest)), len(rest) + 1)
        ends = (rest[-size:] for size in sizes if not any(o.endswith(rest[-size:]) for o in others))
        end, task = next(ends, each.id), tasks_by_id.get(each.id)
        if task is None:
            return f"{each.kind} {end}"
        return f"{end} {quote_line(to_plain_line(task.name), 60)} ({task.status})"

    shown = "; ".join(map(show, found[:_LISTED_TASKS]))
    more = f" and {len(found) - _LISTED_TASKS} more" if len(found) > _LISTED_TASKS else ""
    named = quote_line(to_plain_line(words), 80)
    return f"{named} may mean {shown}{more}; give the end of an id, as it stands here."


# --- where a task stands -------------------------------------------------------------------


_READ_FACTOR: Final = 8
"""Factor by which more tasks are read if too few are visible to the caller."""
_OWNER_BATCH: Final = 500
"""Tasks whose owners are looked up at once."""
_RESUMABLE_STATUSES: Final = (TaskStatus.ACTIVE, TaskStatus.FAILED, TaskStatus.PAUSED)


class TaskOverview(Value):
    """A task with its newest run and its history."""

    task: Task
    run: Run | None
    past: PastWork
    page: HistoryPage
    still_running: tuple[RunningWork, ...]
    """Work that the gateway of its session runs for it now."""
    budget: Budget | None
    now: datetime


def read_overview(
    context: Context, task_id: str | None, caller: Caller, place: HistoryPosition | None = None
) -> TaskOverview:
    """Return the state of a task and its run; `task_id` None: the session's own task.

    `place`: where the page of the history begins; None: at the newest call.

    Raises:
        TaskNotFound: No task has that id, or the session has none.
        NotAllowed: The caller may not read it.
    """
    facts = context.store.read_task(task_id or find_own_task(context, caller))
    guard_task(context, Act.READ, facts, caller)
    past = read_past_work(context, facts.task.task_id)
    return TaskOverview(
        task=facts.task,
        run=facts.run or past.run,
        past=past,
        page=read_history_page(context, facts.task.task_id, place),
        still_running=context.live.running_work.get(
            run_history.get_session_key(facts.task, facts.run), ()
        ),
        budget=current_run.compute_budget(facts, context.policies.runs),
        now=context.clock.now(),
    )


def find_own_task(context: Context, caller: Caller) -> str:
    """Return the task of the caller's session: open, else failed, else paused.

    Implicit tasks come after all open tasks that were registered, and tasks that the session has
    handed off come last.

    Raises:
        TaskNotFound: The session has none, or is unknown.
    """
    session = caller.session_key
    if session is not None:
        for task_id in _list_own(context, session, caller.host):
            return task_id
    where = "No session_key was given" if session is None else "Your session has no task"
    raise TaskNotFound(f"{where}, so give a task_id; task_list shows the tasks.")


def find_only_task(context: Context, caller: Caller) -> str | None:
    """Return the one active task of the caller's session, for a wait that names none.

    None: the session has none or several, is unknown, or may not wait for it. Implicit tasks do not
    count, nor do tasks that the session has handed off.
    """
    session, host = caller.session_key, caller.host
    if session is None:
        return None
    held = (context.find_task(run.task_id) for run in context.find_session_runs(session, host))
    own = list_own_tasks(context, session, host, (TaskStatus.ACTIVE,))
    tasks = chain((facts.task for facts in held if facts is not None), own)
    active = {t.task_id for t in tasks if t.status is TaskStatus.ACTIVE and not t.implicit}
    if len(active) != 1:
        return None
    with suppress(NotAllowed, TaskNotFound):
        facts = guard_task(context, Act.WAIT, context.store.read_task(active.pop()), caller)
        return facts.task.task_id
    return None


def _list_own(context: Context, session: str, host: str | None) -> Iterator[str]:
    """Yield the tasks that a session may mean, likeliest first."""
    for run in context.find_session_runs(session, host):
        if not context.store.read_task(run.task_id).task.implicit:
            yield run.task_id
    yield from (run.task_id for run in list_background_runs(context, session, host))
    active = (TaskStatus.ACTIVE,)
    listed = chain(
        list_own_tasks(context, session, host, active),
        list_own_tasks(context, session, host, active, implicit=True),
        list_own_tasks(context, session, host, _RESUMABLE_STATUSES),
        # Tasks that it has handed off come last; the caller learns who owns them.
        list_tasks(context, session, host, _RESUMABLE_STATUSES),
    )
    yield from (task.task_id for task in listed)


def find_failure(context: Context, task: Task, run: Run | None) -> str:
    """Return the reason of a task's failure as its user was told; empty: it has not failed."""
    if task.status is not TaskStatus.FAILED:
        return ""
    newest = context.store.find_events(EventQuery(task_id=task.task_id, limit=SEARCHED_ROWS))
    failures = (notices.find_failure(event, task, run) for event in reversed(newest))
    return next(filter(None, failures), "")


def is_failure_seen(context: Context, task: Task) -> bool:
    """True if its user has seen that a task failed, and has left it so since."""
    if task.status is not TaskStatus.FAILED:
        return False
    newest = context.store.find_events(EventQuery(task_id=task.task_id, limit=SEARCHED_ROWS))
    told = (e.kind for e in reversed(newest) if e.kind in (FAILURE_SEEN, STATUS_CHANGED))
    return next(told, None) == FAILURE_SEEN


def list_visible_tasks(
    context: Context,
    status: TaskStatus | None,
    limit: int,
    caller: Caller,
    *,
    implicit: bool = False,
    ready: bool = False,
) -> Sequence[Task]:
    """Return the tasks that a caller may see, latest update first; `status` None: any status.

    `ready`: only active ones that no other task blocks.
    """
    some = limit
    while True:
        query = TaskQuery(status=status, limit=some, implicit=implicit, ready=ready)
        tasks = context.store.whole.find_tasks(query)
        seen = [*islice(_list_visible(context, tasks, caller), limit)]
        if len(seen) == limit or len(tasks) < some:
            return seen
        some *= _READ_FACTOR


def list_visible_named(
    context: Context, task_ids: Iterable[str], limit: int, caller: Caller
) -> Sequence[Task]:
    """Return the first `limit` of the named tasks that a caller may see, in that order.

    Raises:
        TaskNotFound: No task has one of the ids.
    """
    tasks = (context.store.read_task(each).task for each in task_ids)
    return [*islice(_list_visible(context, tasks, caller), limit)]


def _list_visible(context: Context, tasks: Iterable[Task], caller: Caller) -> Iterator[Task]:
    """Yield the tasks that a caller may see."""
    if caller.person:
        yield from tasks
        return
    here, rest = fill_in_home(context, caller), iter(tasks)
    while some := [*islice(rest, _OWNER_BATCH)]:
        held = find_holders(context, [task.task_id for task in some])
        for task in some:
            its = held.get(task.task_id, TaskHolder())
            if rights.is_allowed(Act.LIST, rights.find_tie(here, task, its, context.sessions), its):
                yield task
