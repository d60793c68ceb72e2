"""Use cases on tasks: register, update, query, revise the plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import takewhile
from typing import Final, NamedTuple

from pydantic import JsonValue

from openclaw_taskmem.domain import callers
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.changes import (
    handoff,
    implicit_tasks,
    plan_revision,
    rights,
    task_runs,
    task_update,
)
from openclaw_taskmem.domain.changes.dependencies import (
    MOST_ON_THE_WAY,
    add_blockers,
    find_blockers,
)
from openclaw_taskmem.domain.changes.evidence import add_kept
from openclaw_taskmem.domain.changes.plan_revision import RevisionResult
from openclaw_taskmem.domain.changes.registrations import (
    FirstCall,
    Registration,
    fold_name,
    is_same_work,
    match_agent,
)
from openclaw_taskmem.domain.changes.rights import Act
from openclaw_taskmem.domain.changes.task_update import UpdateRequest, UpdateResult, apply_update
from openclaw_taskmem.domain.errors import EvidenceMissing
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.runs.machine import RunTransition
from openclaw_taskmem.domain.tasks import ledger as ledger_lines
from openclaw_taskmem.domain.tasks import lifecycle, thread
from openclaw_taskmem.domain.tasks.required_artifacts import (
    find_artifact_fault,
    list_required_artifacts,
)
from openclaw_taskmem.domain.tasks.thread import SearchResult
from openclaw_taskmem.domain.text.texts import count_json_bytes
from openclaw_taskmem.domain.wakes import notices, outbox
from openclaw_taskmem.engine import evidence, ledger, lookup, run_handoff
from openclaw_taskmem.engine.context import MOST_TRIES, Context, Decision
from openclaw_taskmem.engine.evidence import CheckResult, RequiredSet
from openclaw_taskmem.engine.run_guards import begin_caller_run, guard_reopen, guard_task
from openclaw_taskmem.engine.turns import find_covering_task
from taskmem_hookspecs import (
    Change,
    Message,
    PlanRevision,
    QueryFacts,
    Role,
    Run,
    Task,
    TaskFacts,
    TaskQuery,
    TaskStatus,
    TextQuery,
    WorkFolder,
)
from taskmem_hookspecs.errors import Conflict, InvalidArguments, TaskmemError

_MOST_COMPARED: Final = 500
"""Open tasks whose names are compared, the latest first."""
_UNHEARD_REFUSAL: Final = (
    f"{thread.REFUSAL_PREFIX}the user has spoken meanwhile, and what they say comes first."
)
_SURELY_SHOWN: Final = 2
"""Messages that the first page of every answer shows, however long they are."""
_SHOWN_IF_SHORT: Final = 5
"""Messages that it shows if they have at most `_SHORT_BYTES` of JSON together."""
_SHORT_BYTES: Final = 2 * 1024
_COMPARED_MESSAGES: Final = 20
"""Newest messages of a task among which equal ones are counted."""


def register_new_task(
    context: Context,
    *,
    name: str,
    plan: tuple[str, ...],
    metadata: Mapping[str, JsonValue],
    caller: Caller,
    segmented: bool = False,
    role: str | None = None,
    done: frozenset[int] = frozenset(),
    blocked_by: Sequence[str] = (),
) -> Registration:
    """Register an active task; a gateway's agent begins a run of it.

    If its agent has an equal one open, nothing is written, and that one is the result.

    With a `role`, its run is queued for that role instead, and the caller must claim it like
    anybody else. `done`: steps that are done from the start, from 0. `blocked_by`: ids of tasks
    that must end before it goes on; the caller may read them.

    Raises:
        TaskNotFound: A task that is to block it does not exist.
        InvalidArguments: It requires an artifact that could never be proved, or cannot be blocked
            so.
        LimitReached: The agent has its full number of open tasks.
    """
    lookup.guard_open_count(context, caller, Task)
    folders = [caller.folder] if caller.folder else []
    # Where a gateway's hooks tell what tools do, the folder is looked at for the first command.
    command = caller.gateway_owner is None
    looks = ledger.look_at_folders(context, "", folders if command else (), own=caller.folder)
    rows: tuple[WorkFolder, ...] = ()

    def register(facts: _RegistrationFacts, now: datetime) -> Decision[Registration]:
        nonlocal rows
        covered, namesakes, blocking = facts
        own = next((t for t, is_own in namesakes if is_own and is_same_work(t, plan)), None)
        if own is not None and role is None:
            return Change(), Registration(task=own, taken_up=True)
        change = _build_registration(
            context,
            name,
            plan,
            metadata,
            caller,
            covered=covered,
            now=now,
            segmented=segmented,
            role=role,
            done=done,
        )
        (task,) = change.tasks
        blockers = find_blockers(None, blocked_by, blocking)
        fault = find_artifact_fault(list_required_artifacts(task))
        if fault is not None:
            raise InvalidArguments(f"{fault} Nothing was written.")
        rows = ledger.build_folder_rows(context, task.task_id, folders, looks, command=command)
        told = tuple(t for t, is_own in namesakes if is_own or is_same_work(t, plan))
        change = add_blockers(change, task.task_id, blockers).model_copy(update={"folders": rows})
        made = Registration(task=change.tasks[0], namesakes=told, blockers=blockers)
        return change, made

    def read_facts() -> _RegistrationFacts:
        covered = None if role is not None else find_covering_task(context, caller)
        blocking = _read_blockers(context, blocked_by, caller, deep=False)
        return covered, _find_namesakes(context, name, caller), blocking

    def note(made: Registration) -> None:
        if not made.taken_up:
            call = FirstCall(caller, context.clock.now())
            context.live.note_first_call(made.task.task_id, call)
            ledger.hold_listings(context, looks, rows)

    return context.update(caller.session_key or fold_name(name), read_facts, register, follow=note)


_RegistrationFacts = tuple[
    tuple[TaskFacts, Run] | None, Sequence[tuple[Task, bool | None]], Mapping[str, Task]
]
"""The implicit task of the caller's turn with its run, open tasks of the same name, and the tasks
that are to block the new one."""


def _read_blockers(
    context: Context, named: Sequence[str], caller: Caller, *, deep: bool
) -> Mapping[str, Task]:
    """Return the tasks that are to block one, by id; `deep`: also those that block these.

    Raises:
        TaskNotFound: There is no such task.
        NotAllowed: The caller may not read one that is named.
    """
    found: dict[str, Task] = {}
    for task_id in named:
        known = context.store.read_task(task_id)
        found[task_id] = guard_task(context, Act.READ, known, caller).task
    left = [each for task in found.values() for each in task.blocked_by] if deep else []
    while left and len(found) <= MOST_ON_THE_WAY:
        task_id = left.pop()
        if task_id not in found and (facts := context.find_task(task_id)) is not None:
            found[task_id] = facts.task
            left += facts.task.blocked_by
    return found


def _find_namesakes(
    context: Context, name: str, caller: Caller
) -> Sequence[tuple[Task, bool | None]]:
    """Return the open tasks of a name, each with True: the caller's; None: may be.

    Those with just that spelling come first, then the newest.
    """
    words = fold_name(name)
    if caller.person or not words:
        return ()
    now, session = context.clock.now(), caller.session_key
    namesakes: list[tuple[Task, bool | None]] = []
    # Names are compared here: stores know the case of ASCII alone, and look for a word of a name,
    # first for the number that tells jobs of one kind apart.
    ascii_words = [*filter(str.isascii, name.split())]
    number = next(filter(str.isdigit, ascii_words), None)
    word = number or max(ascii_words, key=len, default=None)
    for status in lifecycle.OPEN_STATUSES:
        query = TaskQuery(
            status=status,
            session_key=session,
            implicit=False,
            named=word,
            limit=_MOST_COMPARED,
        )
        for task in context.store.find_tasks(query):
            if fold_name(task.name) != words:
                continue
            folders = [row.path for row in context.store.read_records(WorkFolder, task.task_id)]
            first = context.live.first_calls.get(task.task_id)
            is_own = match_agent(
                task,
                first,
                caller,
                now,
                shares_folder=caller.folder in folders,
                has_ended=first is not None and context.has_ended(first.caller.process),
            )
            if is_own is not False:
                namesakes.append((task, is_own))
    namesakes.sort(key=lambda each: (each[0].name == name, each[0].created_at), reverse=True)
    return namesakes


def _build_registration(
    context: Context,
    name: str,
    plan: tuple[str, ...],
    metadata: Mapping[str, JsonValue],
    caller: Caller,
    *,
    segmented: bool,
    role: str | None,
    done: frozenset[int],
    covered: tuple[TaskFacts, Run] | None,
    now: datetime,
) -> Change:
    """Return the change that makes a task: a new one, or the implicit task of the caller's turn."""
    if covered is not None:
        return implicit_tasks.register_task(
            *covered,
            name=name,
            plan=plan,
            metadata=metadata,
            caller=caller,
            segmented=segmented,
            done=done,
            now=now,
        )
    change = lifecycle.build_task(
        task_id=context.new_id("task", now),
        name=name,
        plan=plan,
        metadata=metadata,
        session_key=caller.session_key,
        host=caller.host,
        now=now,
        request=caller.request,
        done=done,
    )
    (task,) = change.tasks
    run_id = context.new_id("run", now)
    moved: RunTransition | None
    if role is not None:
        moved = task_runs.queue_for_role(task, role, run_id=run_id, now=now, segmented=segmented)
    else:
        moved = task_runs.begin_for_caller(
            task, caller, run_id=run_id, now=now, policy=context.policies.runs, segmented=segmented
        )
    if moved is None:
        return change
    log = (*change.events, *moved.events)
    return change.model_copy(update={"runs": (moved.run,), "events": log})


def write_update(
    context: Context,
    task_id: str,
    request: UpdateRequest,
    guard: Callable[[TaskFacts], None] | None = None,
) -> UpdateResult:
    """Write an update and return what it changed.

    `guard` may refuse the facts that it is decided on; None: nothing more is refused.

    Artifacts are checked while the task is not locked. The check counts only if the same artifacts
    are required when the update is written.

    Raises:
        TaskNotFound: No task has that id.
        InvalidArguments: A step is not in the plan, or an artifact cannot be checked.
        TaskEnded: It has ended; no step can be marked, nor its end be changed.
        EvidenceMissing: It is to be completed, and a required artifact is missing.
        LimitReached: An agent adds a message, and the thread is full.
        Conflict: On every try another writer was first, or the required artifacts changed.
        NotAllowed: A file that a person was shown, and approves, was replaced since.
        TaskmemError: What else `guard_task` and `guard_reopen` refuse.
    """
    check: CheckResult | None = None
    tries = 0

    def decide(facts: TaskFacts, now: datetime) -> Decision[_UpdateOutcome]:
        nonlocal tries
        tries += 1
        return _decide_update(context, facts, request, check, now, guard=guard)

    def note_shown(outcome: _UpdateOutcome) -> None:
        if isinstance(outcome, UpdateResult) and outcome.run is not None:
            run_handoff.note_shown(context, outcome.run, outcome.unheard)

    while tries < MOST_TRIES:
        try:
            outcome = context.update_task(
                task_id, decide, tries=MOST_TRIES - tries, follow=note_shown
            )
        except Conflict:
            break
        if isinstance(outcome, TaskmemError):
            raise outcome
        if isinstance(outcome, UpdateResult):
            if outcome.sent_back:
                run_handoff.note_heard(context, task_id, request.message, request.caller)
            if outcome.ledger is not None and check is not None and check.required.folders:
                late = partial(evidence.add_late_entries, context, task_id)
                context.run_later(evidence.LATE_LOOK_DELAY_SECONDS, late)
            return outcome
        check = evidence.verify_required(context, outcome)
    raise Conflict(
        f"{task_id} was changed by others each of {MOST_TRIES} times that it was to be "
        "written; call again. Nothing was written."
    )


_UpdateOutcome = UpdateResult | RequiredSet | TaskmemError
"""The result of an update, what must be checked first, or the error to raise after the commit.

If a completion is refused, or the user's latest messages are unheard, all but the status is
written.
"""


def _decide_update(
    context: Context,
    facts: TaskFacts,
    request: UpdateRequest,
    check: CheckResult | None,
    now: datetime,
    *,
    guard: Callable[[TaskFacts], None] | None,
) -> Decision[_UpdateOutcome]:
    """Return the change of an update, and its outcome; refuse one that its caller may not make."""
    act = Act.WRITE if request.has_writes else Act.SAY
    task = facts.task
    facts = guard_task(context, act, facts, request.caller, token=request.token)
    if request.status is TaskStatus.ACTIVE:
        guard_reopen(context, task, request.caller)
    rights.guard_message_count(task, request)
    if guard is not None:
        guard(facts)
    if request.message is not None and not request.caller.person:
        request = request.model_copy(update={"repeats": _count_repeats(context, task, request)})
    heard: Sequence[Message] = ()
    unheard: Sequence[Message] = ()
    if facts.run is not None:
        heard, unheard = run_handoff.split_unheard_messages(
            context, facts.run, request.caller, request.token
        )
    refused = bool(unheard) and request.status is TaskStatus.COMPLETED
    if refused:
        request = request.model_copy(update={"status": None})
    words = run_handoff.read_words_since_question(context, facts.run)
    request = request.model_copy(update={"heard": words})
    asks = request.ask is not None
    build = partial(
        apply_update,
        facts,
        now=now,
        sessions=context.sessions,
        policy=context.policies.runs,
        begin=partial(begin_caller_run, context, request.caller, now, asks=asks),
    )
    change, updated = build(request)
    if updated.sent_back:
        change = run_handoff.add_sent_back_wake(context, facts, change, request.message, now)
    if heard:
        change = handoff.record_heard(change, facts, heard, now)
    if refused:
        change = lifecycle.enter_decision(change, task, _UNHEARD_REFUSAL, now)
        updated = updated.model_copy(update={"task": change.tasks[0]})
    shown = run_handoff.explain_old_steps(context, task, unheard)
    updated = updated.model_copy(update={"unheard": tuple(shown)})
    done = TaskStatus.COMPLETED
    if task.implicit or updated.task.status is not done or task.status is done:
        return change, updated
    written = (change, updated)
    return _decide_completion(
        context, facts, request, written=written, build=build, check=check, now=now
    )


def _count_repeats(context: Context, task: Task, request: UpdateRequest) -> int:
    """Count how often in a row the newest words of a task's agent are those of a request."""
    words = fold_name(request.message or "")
    newest = context.store.read_records(Message, task.task_id, _COMPARED_MESSAGES)
    before = (fold_name(m.content) for m in reversed(newest) if m.role is Role.AGENT)
    return sum(1 for _ in takewhile(words.__eq__, before))


def _decide_completion(
    context: Context,
    facts: TaskFacts,
    request: UpdateRequest,
    *,
    written: Decision[UpdateResult],
    build: Callable[[UpdateRequest], Decision[UpdateResult]],
    check: CheckResult | None,
    now: datetime,
) -> Decision[_UpdateOutcome]:
    """Return the change of an update that completes a task, and its outcome.

    `written` is the change and the result that are due once all is proved. `build` builds the
    change of another request, if the completion is refused.
    """
    required = evidence.build_required_set(
        context, facts, request.message or "", request.artifacts, request.caller
    )
    if check is None or not check.is_current_for(required, now):
        return Change(), required
    replaced = evidence.find_replaced_files(facts, check) if request.reviewed else None
    if replaced is not None:
        return evidence.build_check_record(context, facts, check, now), replaced
    proof, refusal = evidence.build_check_outcome(context, facts, check, request.acceptance)
    change, updated = written
    if refusal is not None:
        marks = tuple(step + 1 for step in sorted(updated.marked))
        full = rights.is_thread_full(facts.task, request.caller)
        message = None if full else request.message
        rest = {"status": None, "completed_steps": marks, "message": message}
        change, updated = build(request.model_copy(update=rest))
        refused = add_kept(refusal, message, updated)
        merged = evidence.merge_refusal(proof, change, facts.task, refusal, now, enters=not full)
        return merged, EvidenceMissing(refused.sentence)
    nothing = evidence.describe_nothing_made(check)
    if nothing:
        changed = tuple(notices.add_nothing_written(e, facts.task, nothing) for e in change.events)
        change = change.model_copy(update={"events": changed})
    made = ledger_lines.summarize_ledger(check.entries, nothing=nothing)
    updated = updated.model_copy(update={"ledger": check.entries, "made": made})
    return evidence.merge_proof(proof, change), updated


class QueryAnswer(NamedTuple):
    """The answer to a query about a task."""

    task: Task
    summary: str
    found: SearchResult
    """The whole thread, in the order that suits the query."""
    mentions: thread.StepMentions
    """The steps that its messages mean."""
    until: int
    """Id of the newest message that was searched; 0: there is none."""
    newest: tuple[Message, ...]
    """The newest messages of the thread, oldest first."""
    run: Run | None
    """The task's open run; None: it has none."""


def answer_query(
    context: Context, task_id: str, query: str, caller: Caller, until: int | None = None
) -> QueryAnswer:
    """Answer a question about a task from its thread.

    A plug-in's summary comes before the core's. A query changes nothing but acknowledges the
    caller's wakes. Messages after `until` are not searched, so that pages stay in order; None: all
    are.

    Raises:
        TaskNotFound: No task has that id.
        NotAllowed: The caller may not read it.
    """
    _acknowledge_task(context, task_id, caller)
    facts = context.store.read_task(task_id)
    thread_ = context.store.read_records(Message, task_id)
    messages = [each for each in thread_ if until is None or each.message_id <= until]
    plan, revisions = facts.task.plan, context.store.read_records(PlanRevision, task_id)
    mentions = thread.StepMentions(thread_, revisions, plan)
    question = thread.parse_query(query, plan)
    matches = context.store.find_texts(TextQuery(patterns=question.patterns, task_id=task_id))
    places = {
        pattern: [number for _, number in match.places if number is not None]
        for pattern, match in matches.items()
    }
    matched = thread.search_thread(question, mentions, messages, places)
    newest, now = tuple(thread_[-thread.MOST_READ_MESSAGES :]), context.clock.now()
    asks = facts.run is not None and current_run.has_open_question(facts.run)
    known = QueryFacts(
        task=facts.task,
        waits=facts.waits,
        messages=newest,
        revisions=tuple(revisions),
        question=facts.run.dialogue.question if facts.run and asks else None,
        now=now,
    )
    return QueryAnswer(
        task=facts.task,
        summary=_summarize_task(context, known, query, matched),
        found=matched,
        mentions=mentions,
        until=messages[-1].message_id if messages else 0,
        newest=newest,
        run=facts.run,
    )


def _summarize_task(context: Context, known: QueryFacts, query: str, found: SearchResult) -> str:
    for answerer in context.plugin_host.find_answerers():
        better = context.plugin_host.call_part(answerer, "answer", answerer.answer, known, query)
        if isinstance(better, str) and better.strip():
            return better
    shown = found.messages[:_SHOWN_IF_SHORT]
    if sum(count_json_bytes(each.content) for each in shown) > _SHORT_BYTES:
        shown = shown[:_SURELY_SHOWN]
    return task_update.summarize_task(known, found.question, shown)


def _acknowledge_task(context: Context, task_id: str, caller: Caller) -> TaskFacts:
    """Acknowledge the wakes of a task that a call on it answers; return the task's facts.

    Raises:
        TaskNotFound: No task has that id.
        NotAllowed: The caller may not read it.
    """

    def settle(facts: TaskFacts, now: datetime) -> Decision[TaskFacts]:
        facts = guard_task(context, Act.READ, facts, caller)
        acts = caller.acts_as(facts.task.session_key, facts.task.home)
        wakes = outbox.settle_answered(facts.wakes, acts=acts, moved=False, now=now)
        if acts:
            wakes += callers.settle_read(facts.wakes, caller.host, now)
        return Change(wakes=wakes, events=outbox.build_settled_events(wakes, now)), facts

    return context.update_task(task_id, settle)


def revise_task_plan(
    context: Context,
    task_id: str,
    *,
    new_plan: tuple[str, ...],
    reason: str,
    artifacts: Sequence[JsonValue] | None,
    token: int | None,
    caller: Caller,
    done: frozenset[int] = frozenset(),
    reopened: frozenset[int] = frozenset(),
    blocked_by: Sequence[str] | None = None,
) -> RevisionResult:
    """Replace a task's plan; return the task and what became of its marks.

    `artifacts` replaces the artifacts in the task's metadata; None: those stay. `done` and
    `reopened`: steps of the new plan, from 0, whose marks the caller says. `blocked_by` replaces
    what must end before the task goes on; None: that stays.

    Raises:
        InvalidArguments: An artifact could never be proved.
        TaskNotFound: No task has that id.
        TaskEnded: The task has ended.
        LimitReached: The thread is full.
        Fenced: Another has claimed the task's run since.
        RunHeld: Another owns the task's run.
    """

    def revise(facts: TaskFacts, now: datetime) -> Decision[RevisionResult]:
        consequence = "its plan stays as it is"
        guard_task(context, Act.WRITE, facts, caller, token=token, consequence=consequence)
        rights.guard_words(facts.task, caller, "end it as it is")
        blockers = None
        if blocked_by is not None:
            known = _read_blockers(context, blocked_by, caller, deep=True)
            blockers = find_blockers(task_id, blocked_by, known)
        return plan_revision.revise_plan(
            facts,
            new_plan,
            reason,
            now,
            caller=caller,
            artifacts=artifacts,
            token=token,
            policy=context.policies.runs,
            done=done,
            reopened=reopened,
            blockers=blockers,
        )

    return context.update_task(task_id, revise)
