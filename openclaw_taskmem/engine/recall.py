"""Search recorded history: ask all sources, and leave out what the caller may not recall."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, cast

from openclaw_taskmem.domain import redaction, rights
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.proof import summarize_proofs
from openclaw_taskmem.domain.rights import Act, TaskHolder
from openclaw_taskmem.domain.texts import to_plain_line
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.overview import read_proofs
from openclaw_taskmem.engine.run_guards import fill_in_home, find_holders
from taskmem_hookspecs import (
    ActiveSource,
    AdvisingSource,
    RecallSource,
    Recollection,
    Task,
    Value,
)

MORE: Final = 4
"""How many times as many matches are asked for where most are another's."""
MOST: Final = 400


class RecallAnswer(Value):
    """What all sources found, and what to say of them."""

    found: tuple[Recollection, ...]
    """Best first, with texts that are safe to show."""
    failed: tuple[str, ...] = ()
    """Names of the sources that did not answer."""
    advice: tuple[str, ...] = ()
    outcomes: Mapping[str, str] = {}
    """What became of each task that was found, by its id: its status, and its proof."""


def list_activity(context: Context) -> Sequence[str]:
    """Return what the sources of recorded history do now, one line each."""
    active = [each for each in context.recall_sources if isinstance(each, ActiveSource)]
    said = [context.plugin_host.call_part(each, "activity", each.activity) for each in active]
    return [to_plain_line(line) for line in said if isinstance(line, str) and line]


def search_history(
    context: Context, caller: Caller, query: str, *, limit: int, recency_bias: float
) -> RecallAnswer:
    """Return the best matches of all sources that a caller may recall.

    Of tasks that have ended, all agents of the home may recall everything, except those in a
    sandbox; of all others, who may read the task. What is about no task is for all but agents in a
    sandbox. Tasks of other homes are left out for everybody.
    """
    found: list[Recollection] = []
    failed: list[str] = []
    for source in context.recall_sources:
        matches = _ask_source(
            context, source, caller, query, limit=limit, recency_bias=recency_bias
        )
        if matches is None:
            failed.append(type(source).__name__)
        else:
            found += matches
    found = sorted(found, key=lambda item: item.confidence, reverse=True)[:limit]
    tasks = dict.fromkeys(item.task_id for item in found if item.task_id is not None)
    return RecallAnswer(
        found=tuple(_clean(item) for item in found),
        failed=tuple(failed),
        advice=tuple(_list_advice(context)),
        outcomes={task_id: _describe_outcome(context, task_id) for task_id in tasks},
    )


def _describe_outcome(context: Context, task_id: str) -> str:
    """Return what became of a task, such as `completed; made a.txt, checked by Task memory`."""
    facts = context.store.read_task(task_id)
    said = summarize_proofs(read_proofs(context, facts) or ())
    return redaction.scrub("; ".join(filter(None, (str(facts.task.status), *said))))


def _ask_source(
    context: Context,
    source: RecallSource,
    caller: Caller,
    query: str,
    *,
    limit: int,
    recency_bias: float,
) -> list[Recollection] | None:
    """Return a source's best matches that a caller may recall; None: it failed."""
    wanted = limit
    while True:
        answer: object = context.plugin_host.call_part(
            source, "recall", source.recall, query, wanted, recency_bias
        )
        if not isinstance(answer, Sequence):
            return None
        items = cast("Sequence[object]", answer)
        matches = [item for item in items if isinstance(item, Recollection)]
        allowed = [item for item in matches if _may_recall(context, item, caller)]
        if len(allowed) >= limit or len(items) < wanted or wanted >= MOST:
            return allowed[:limit]
        wanted = min(wanted * MORE, MOST)


def _may_recall(context: Context, item: Recollection, caller: Caller) -> bool:
    """Whether a caller may recall a match."""
    if item.task_id is None:
        return not caller.sandboxed
    facts = context.find_task(item.task_id)
    if facts is None or not context.store.serves(facts.task.home):
        return False
    return (facts.task.status.terminal and not caller.sandboxed) or _may_read(
        context, facts.task, caller
    )


def _may_read(context: Context, task: Task, caller: Caller) -> bool:
    if caller.person:
        return True
    held = find_holders(context, [task.task_id]).get(task.task_id, TaskHolder())
    tie = rights.find_tie(fill_in_home(context, caller), task, held, context.sessions)
    return rights.is_allowed(Act.READ, tie, held)


def _clean(item: Recollection) -> Recollection:
    """Return a match whose texts are lines without credentials."""
    return item.model_copy(
        update={
            "summary": to_plain_line(redaction.scrub(item.summary)),
            "steps": tuple(to_plain_line(redaction.scrub(step)) for step in item.steps),
        }
    )


def _list_advice(context: Context) -> Iterator[str]:
    for source in context.recall_sources:
        if isinstance(source, AdvisingSource):
            said: object = context.plugin_host.call_part(source, "advice", source.advice)
            if isinstance(said, str) and said:
                yield to_plain_line(said)
