"""Search recorded history: ask all sources, and leave out what the caller may not recall.

`StoredHistory` gives the sources that search tasks those of this home.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final, cast

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.changes import rights
from openclaw_taskmem.domain.changes.rights import Act, TaskHolder
from openclaw_taskmem.domain.tasks.proofs import summarize_proofs
from openclaw_taskmem.domain.text import redaction
from openclaw_taskmem.domain.text.texts import to_plain_line
from openclaw_taskmem.domain.views.recollections import (
    build_steps_question,
    find_match_to_write,
    merge_recollections,
    read_written_steps,
)
from openclaw_taskmem.engine.context import Context, ScopedStore
from openclaw_taskmem.engine.overview import read_proofs
from openclaw_taskmem.engine.run_guards import fill_in_home, find_holders
from taskmem_hookspecs import (
    ActiveSource,
    AdvisingSource,
    LedgerEntry,
    Message,
    PlanRevision,
    RecallSource,
    Recollection,
    Task,
    TaskQuery,
    TaskSource,
    TextMatches,
    TextQuery,
    Value,
)

MOST_TASKS: Final = 1_000
"""Tasks that are looked up for one question; what is ranked behind so many others is not found."""


class RecallAnswer(Value):
    """The matches that all sources found, and what to say of them."""

    found: tuple[Recollection, ...]
    """Best first, with texts that are safe to show."""
    failed: tuple[str, ...] = ()
    """Names of the sources that did not answer."""
    advice: tuple[str, ...] = ()
    outcomes: Mapping[str, str] = {}
    """The status and the proof of each task that was found, by its id."""


def list_activity(context: Context) -> Sequence[str]:
    """Return what the sources of recorded history do now, one line each."""
    active = [each for each in context.recall_sources if isinstance(each, ActiveSource)]
    lines = [context.plugin_host.call_part(each, "activity", each.activity) for each in active]
    return [to_plain_line(line) for line in lines if isinstance(line, str) and line]


def search_history(
    context: Context, caller: Caller, query: str, *, limit: int, recency_bias: float
) -> RecallAnswer:
    """Return the best matches of all sources that a caller may recall.

    Of tasks that have ended, all agents of the home may recall everything, except those in a
    sandbox; of all others, who may read the task. What is about no task is for all but agents in a
    sandbox. Tasks of other homes are left out for everybody.
    """
    may_recall = _RecallRights(context, caller)
    found: list[Recollection] = []
    failed: list[str] = []
    for source in context.recall_sources:
        if caller.recalls_tasks_only and not isinstance(source, TaskSource):
            continue
        matches = _ask_source(
            context, source, may_recall, query, limit=limit, recency_bias=recency_bias
        )
        if matches is None:
            failed.append(type(source).__name__)
        else:
            found += matches
    best = [_clean(item) for item in merge_recollections(found)[:limit]]
    tasks = dict.fromkeys(item.task_id for item in best if item.task_id is not None)
    return RecallAnswer(
        found=tuple(_write_steps(context, query, best)),
        failed=tuple(failed),
        advice=tuple(_list_advice(context)),
        outcomes={task_id: _describe_outcome(context, task_id) for task_id in tasks},
    )


def _write_steps(
    context: Context, query: str, found: Sequence[Recollection]
) -> Iterator[Recollection]:
    """Yield matches, best first; a reader writes out the steps of the best one of a screen.

    The question and all texts are clean already. Where the reader fails, or answers anything but
    steps, the match stays as it is.
    """
    match = find_match_to_write(found) if context.policies.writes_steps else None
    written: Recollection | None = None
    if match is not None:
        answer = context.ask_reader(*build_steps_question(query, match))
        if answer is not None and (steps := read_written_steps(answer.fields)):
            cleaned = _clean(match.model_copy(update={"steps": steps}))
            written = cleaned.model_copy(update={"steps_by": answer.reader})
    for item in found:
        yield written if written is not None and item is match else item


def _describe_outcome(context: Context, task_id: str) -> str:
    """Return what became of a task, such as `completed; made a.txt, checked by Task memory`."""
    facts = context.store.read_task(task_id)
    proofs = summarize_proofs(read_proofs(context, facts) or ())
    return redaction.scrub("; ".join(filter(None, (str(facts.task.status), *proofs))))


def _ask_source(
    context: Context,
    source: RecallSource,
    may_recall: _RecallRights,
    query: str,
    *,
    limit: int,
    recency_bias: float,
) -> list[Recollection] | None:
    """Return a source's best matches that a caller may recall; None: it failed."""
    recall = (
        partial(source.recall_tasks, may_recall=may_recall.includes_task)
        if isinstance(source, TaskSource)
        else source.recall
    )
    answer: object = context.plugin_host.call_part(
        source, "recall", recall, query, limit, recency_bias
    )
    if not isinstance(answer, Sequence):
        return None
    items = cast("Sequence[object]", answer)
    matches = [item for item in items if isinstance(item, Recollection)]
    return [item for item in matches if may_recall.includes(item)][:limit]


class _RecallRights:
    """The rights of a caller to recall, looked up once per task while a question is answered."""

    def __init__(self, context: Context, caller: Caller) -> None:
        self._context = context
        self._caller = caller
        self._known: dict[str, bool] = {}

    def includes(self, item: Recollection) -> bool:
        """Tell whether the caller may recall a match."""
        if item.task_id is None:
            return not self._caller.sandboxed
        return self.includes_task(item.task_id)

    def includes_task(self, task_id: str) -> bool:
        """Tell whether the caller may recall a task; no, after `MOST_TASKS` others."""
        if task_id not in self._known and len(self._known) < MOST_TASKS:
            self._known[task_id] = self._look_up(task_id)
        return self._known.get(task_id, False)

    def _look_up(self, task_id: str) -> bool:
        context, caller = self._context, self._caller
        facts = context.find_task(task_id)
        if facts is None or not context.store.serves(facts.task.home):
            return False
        if caller.person or (facts.task.status.terminal and not caller.sandboxed):
            return True
        held = find_holders(context, [task_id]).get(task_id, TaskHolder())
        tie = rights.find_tie(fill_in_home(context, caller), facts.task, held, context.sessions)
        return rights.is_allowed(Act.READ, tie, held)


def _clean(item: Recollection) -> Recollection:
    """Return a match whose texts are lines without credentials."""
    return item.model_copy(
        update={
            "summary": to_plain_line(redaction.scrub(item.summary)),
            "steps": tuple(to_plain_line(redaction.scrub(step)) for step in item.steps),
            "steps_by": None,
        }
    )


def _list_advice(context: Context) -> Iterator[str]:
    for source in context.recall_sources:
        if isinstance(source, AdvisingSource):
            advice: object = context.plugin_host.call_part(source, "advice", source.advice)
            if isinstance(advice, str) and advice:
                yield to_plain_line(advice)


# --- the tasks of this home, for the sources ------------------------------------------------


class StoredHistory:
    """The `TaskHistory` of a store, without implicit tasks and those of other homes."""

    def __init__(self, store: ScopedStore) -> None:
        self._store = store

    def find_texts(self, query: TextQuery) -> Mapping[str, TextMatches]:
        """Return for each pattern of a query the texts that have it."""
        return self._store.find_texts(query)

    def read_tasks(self, task_ids: Sequence[str]) -> Sequence[Task]:
        """Return those of some tasks that the home has, in any order."""
        tasks = self._store.find_tasks(TaskQuery(task_ids=tuple(task_ids), implicit=False))
        return [task for task in tasks if self._store.serves(task.home)]

    def read_messages(self, message_ids: Sequence[int]) -> Sequence[Message]:
        """Return messages that `find_texts` found, in any order."""
        return self._store.read_messages(message_ids)

    def list_other_texts(self, task_id: str) -> Sequence[str]:
        """Return the replaced steps of a task, and the paths that it made."""
        revisions = self._store.read_records(PlanRevision, task_id)
        made = self._store.read_records(LedgerEntry, task_id)
        steps = (step for revision in revisions for step in revision.old_plan)
        return [*dict.fromkeys(steps), *(entry.path for entry in made)]
