"""The tools on tasks: register one, report or ask, revise the plan, list.

An answer shows a page of the thread: at most ten messages and 6 KiB of JSON. A message over 3 KiB
is shown in part, with the call that reads the whole message part by part.
Source: docs/origins.md, "Tasks and statuses".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.changes.dependencies import describe_blockers
from openclaw_taskmem.domain.changes.registrations import describe_namesakes, describe_taken_up
from openclaw_taskmem.domain.changes.task_update import (
    UpdateRequest,
    UpdateResult,
    describe_next_step,
    describe_unheard,
)
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.tasks import ledger, lifecycle
from openclaw_taskmem.domain.tasks.plan import describe_progress
from openclaw_taskmem.domain.text.texts import (
    count_json_bytes,
    format_count,
    format_iso,
    format_step_numbers,
)
from openclaw_taskmem.engine import lookup, tasks
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.runs import list_awaited
from openclaw_taskmem.engine.tasks import QueryAnswer
from openclaw_taskmem.tools import forms, runs
from openclaw_taskmem.tools.tool import Answer, RunlessAnswer, Tool
from taskmem_hookspecs import InvalidArguments, Message, Role, Run, Task, TaskStatus
from taskmem_hookspecs.errors import TaskmemError
from taskmem_hookspecs.words import find_patterns

PAGE_MESSAGES: Final = 10
FEWEST_MESSAGES: Final = 5
"""Messages on a first page if fewer match, or none; the newest are added."""
PAGE_BYTES: Final = 6 * 1024
"""Bytes of JSON for the messages of one answer."""
_LONG_MESSAGE_BYTES: Final = 3 * 1024
"""Bytes above which a message is shown in part."""
_EXCERPT: Final = 2 * 1024
_PART: Final = 5 * 1024
"""Bytes of a part when a single message is read whole."""

_PLACE: Final = re.compile(r"([0-9]{1,15})\.([0-9]{1,15})")


def parse_position(after: str) -> tuple[int, int]:
    """Return the id of the newest message to search, and the number of entries already shown.

    Raises:
        InvalidArguments: `after` is not a position from `more`.
    """
    match = _PLACE.fullmatch(after)
    if match is None:
        raise InvalidArguments(
            "after must be as the answer's more.arguments gave it; leave it out to "
            "begin anew. Nothing was written."
        )
    return int(match[1]), int(match[2])


def cut_page(answer: QueryAnswer, query: str, start: int) -> Answer:
    """Return the entries from `start` on that fit, and how to get the next."""
    found = answer.found
    parts = _split_text(found.messages[0].content, _PART) if found.alone else []
    total = len(parts) or len(found.messages)
    most = PAGE_MESSAGES
    if start == 0 and not found.alone:
        most = min(max(found.matches, FEWEST_MESSAGES), PAGE_MESSAGES)
    shown: list[Answer] = []
    room = PAGE_BYTES
    for place in range(start, min(start + most, total)):
        message = found.messages[0 if found.alone else place]
        if found.alone:
            entry = _show_part(message, parts, place)
        else:
            entry = _show_message(message, found.question.words)
            if "part" in entry:
                entry["whole"] = _build_arguments(answer, f"message {message.message_id}")
        if old := answer.mentions.describe_old_steps(message):
            entry["old_steps"] = old
        room -= len(json.dumps(entry, ensure_ascii=False).encode()) + 2
        if room < 0 and shown:
            break
        shown.append(entry)
    end = start + len(shown)
    left = max(0, total - end)
    after = f"{answer.until}.{end}"
    more: Answer = {"left": left, "arguments": _build_arguments(answer, query, after=after)}
    return {"messages": [*shown], "more": more if left else None}


def describe_page(answer: QueryAnswer, page: Answer) -> str:
    """Say what a page shows and how to go on."""
    found = answer.found
    if found.matches:
        sentence = f"Messages that match: {found.matches}, the best first."
    elif found.question.words and found.messages:
        sentence = "No message matches; the newest come first."
    else:
        sentence = ""
    more = "For more messages, call with more.arguments." if page["more"] else ""
    return f"{sentence} {more}".strip()


def _build_arguments(answer: QueryAnswer, query: str, **more: str) -> Answer:
    return {"task_id": answer.task.task_id, "query": query, **more}


def _show_message(message: Message, words: tuple[str, ...]) -> Answer:
    """Return a message; of a long one, the part with most of the words, which are patterns."""
    if count_json_bytes(message.content) <= _LONG_MESSAGE_BYTES:
        return _describe_message(message, message.content)
    parts = _split_text(message.content, _EXCERPT)
    held = [len(find_patterns(part, words)) for part in parts]
    return _show_part(message, parts, held.index(max(held)))


def _show_part(message: Message, parts: Sequence[str], place: int) -> Answer:
    entry = _describe_message(message, parts[place])
    if len(parts) > 1:
        entry["part"] = f"{place + 1} of {len(parts)}"
    return entry


def _describe_message(message: Message, content: str) -> Answer:
    other = message.role is not Role.AGENT
    return {
        "message_id": message.message_id,
        **({"role": message.role, "msg_type": message.msg_type} if other else {}),
        "content": content,
        "created_at": format_iso(message.created_at),
    }


def _split_text(text: str, size: int) -> list[str]:
    """Cut a text into parts of at most `size` bytes of JSON."""
    parts: list[str] = []
    while text:
        kept = min(len(text), size)
        while count_json_bytes(text[:kept]) > size:
            kept = kept * size // (count_json_bytes(text[:kept]) + size // 8) or 1
        parts.append(text[:kept])
        text = text[kept:]
    return parts


# --- the tools -----------------------------------------------------------------------------


def task_register(context: Context, form: forms.TaskRegister, caller: Caller) -> Answer:
    """Register a task and say how to go on."""
    plan_ = tuple(form.plan)
    if form.segmented:
        plan_, _ = current_run.cap_plan(plan_)
    made = tasks.register_new_task(
        context,
        name=form.name,
        plan=plan_,
        metadata=form.metadata or {},
        caller=caller,
        segmented=form.segmented,
        role=form.role,
        done=_to_marks(form.completed_steps, plan_),
        blocked_by=form.blocked_by or (),
    )
    task, now = made.task, context.clock.now()
    unread: Answer = {}
    marks = ""
    if made.taken_up:
        task, unread, marks = _take_over_statuses(context, task, form, caller)
    unlimited = ""
    if form.segmented and caller.gateway_owner is None and form.role is None:
        unlimited = (
            "segmented limits no calls here: OpenClaw's gateway counts them, and only "
            "for tasks that its agents register. "
        )
    following = f"Report with task_update as you go; {_describe_silence(context, task)} "
    following += f"{unlimited}{describe_next_step(task)}"
    if form.role is not None:
        following = _describe_queue(context, task, form.role)
    elif task.blocked_by:
        following = unlimited
    reached = context.reaches(task.host, task.session_key)
    blocked = describe_blockers(made.blockers, reached=reached)
    registered = " ".join(
        filter(
            None, (f"Registered with {format_count(len(task.plan), 'step')}.", blocked, following)
        )
    )
    return {
        "task_id": task.task_id,
        "name": task.name,
        "status": task.status,
        "plan": list(task.plan),
        "created_at": format_iso(task.created_at),
        **runs.warn_of_left_out(form.plan[len(plan_) :]),
        **({} if form.role is None else {"queued_for": form.role}),
        **_list_blockers(task),
        **unread,
        "message": (
            f"{describe_taken_up(task, now)} {marks}".rstrip()
            if made.taken_up
            else " ".join(filter(None, (registered, describe_namesakes(made.namesakes, now))))
        ),
    }


def _list_blockers(task: Task) -> Answer:
    """Return the ids of the tasks that block a task; empty: nothing blocks it."""
    return {"blocked_by": [*task.blocked_by]} if task.blocked_by else {}


def _take_over_statuses(
    context: Context, task: Task, form: forms.TaskRegister, caller: Caller
) -> tuple[Task, Answer, str]:
    """Mark the steps of an open task as the plan says with which it is registered again.

    Return the task, what the user said meanwhile, and a sentence.
    """
    done = _to_marks(form.completed_steps, task.plan)
    reopened = _to_marks(form.reopened_steps, task.plan)
    request = UpdateRequest(
        completed_steps=tuple(step + 1 for step in sorted(done - task.done)),
        reopened_steps=tuple(step + 1 for step in sorted(reopened & task.done)),
        caller=caller,
    )
    if not request.has_changes:
        return task, {}, ""
    try:
        updated = tasks.write_update(context, task.task_id, request)
    except TaskmemError as refused:
        return task, {}, f"Its statuses changed no mark: {refused}"
    lines = _list_mark_changes(updated)
    if not updated.unheard:
        return updated.task, {}, " ".join(lines)
    unread = runs.show_words([each.content for each in updated.unheard], task.task_id)
    return updated.task, unread, " ".join((*lines, describe_unheard(ends=False)))


def _to_marks(numbers: Sequence[int] | None, plan: Sequence[str]) -> frozenset[int]:
    """Return steps, numbered from 1, as marks, counted from 0; what a cut has left out is none.

    Raises:
        InvalidArguments: A number is below 1.
    """
    if any(number < 1 for number in numbers or ()):
        raise InvalidArguments("Steps are numbered from 1. Nothing was written.")
    return frozenset(number - 1 for number in numbers or () if number <= len(plan))


def task_update(context: Context, form: forms.TaskUpdate, caller: Caller) -> Answer | RunlessAnswer:
    """Report progress on a task, or answer a query about it."""
    status = None if form.status is None else lifecycle.parse_status(form.status)
    request = UpdateRequest(
        message=form.message,
        status=status,
        completed_steps=tuple(form.completed_steps or ()),
        reopened_steps=tuple(form.reopened_steps or ()),
        ask=form.ask,
        ask_options=tuple(form.ask_options or ()),
        artifacts=tuple(form.artifacts or ()),
        token=form.token,
        caller=caller,
    )
    until, start = (None, 0) if form.after is None else parse_position(form.after)
    answer: Answer = {"task_id": form.task_id}
    sentences: list[str] = []
    runless = False
    if request.has_changes:
        updated = tasks.write_update(context, form.task_id, request)
        task, runless = updated.task, updated.run is None
        answer |= {
            "message_count": task.message_count,
            "status": task.status,
            "acknowledged": True,
        }
        if updated.unheard:
            answer |= runs.show_words([each.content for each in updated.unheard], form.task_id)
        if updated.ledger is not None:
            answer |= ledger.describe_ledger(updated.ledger, ledger.MOST_ENTRIES)
        sentences.append(_describe_update(updated, request))
        if request.ask is not None and task.status is TaskStatus.ACTIVE:
            sentences.append(_describe_asked(context, task))
        if updated.hint is not None:
            answer["hint"] = updated.hint
        if form.query is None:
            answer["plan_progress"] = describe_progress(task)
    if form.query is not None:
        query_answer = tasks.answer_query(context, form.task_id, form.query, caller, until)
        task, newest = query_answer.task, query_answer.newest
        answer |= {
            "status": task.status,
            "summary": query_answer.summary,
            "plan_progress": describe_progress(task),
            "last_update": format_iso(task.updated_at),
            "plan": list(task.plan),
            "metadata": dict(task.metadata),
            **cut_page(query_answer, form.query, start),
        }
        if task.status.terminal and "made" not in answer:
            answer |= runs.describe_made(context, task)
        if not sentences:
            sentences.append(describe_next_step(task, newest, query_answer.run, named=False))
        sentences.append(describe_page(query_answer, answer))
    answer["message"] = " ".join(sentences).strip()
    return RunlessAnswer(answer) if runless else answer


_ARTIFACTS: Final = (
    'artifacts were left out: they count with status "completed" only, or for good '
    "with task_plan_update."
)
_LATE_ARTIFACTS: Final = (
    'artifacts were left out: the task was completed already. Set status "active" first, then '
    'status "completed" with them.'
)


def _is_completion(given: Mapping[str, object]) -> bool:
    """Tell whether an update would complete the task, which needs proof."""
    if given.get("status") is None:
        return False
    try:
        status = lifecycle.parse_status(str(given.get("status")))
    except TaskmemError:
        return False
    return status is TaskStatus.COMPLETED


def _describe_update(updated: UpdateResult, request: UpdateRequest) -> str:
    """Say what an update has changed, and what the caller does next."""
    task, coming = updated.task, _describe_next(updated, request)
    lines: list[str] = []
    if request.message is not None:
        lines.append("Noted.")
    if request.artifacts and updated.ledger is None:
        is_late = updated.was is request.status is TaskStatus.COMPLETED
        lines.append(_LATE_ARTIFACTS if is_late else _ARTIFACTS)
    lines += [*_list_mark_changes(updated), updated.dropped_question]
    if task.status is not updated.was:
        lines.append(f"The task is {task.status} now, and was {updated.was}.")
        lines += [updated.made] if updated.made else []
    elif task.status.terminal:
        lines.append(
            f"The task is {task.status}, so nothing else changed. A query tells what "
            'was said at its end; set status "active" only if it is to go on.'
        )
        coming = ""
    return " ".join(filter(None, (*lines, coming)))


def _list_mark_changes(updated: UpdateResult) -> list[str]:
    """Say which steps an update has marked and reopened, and which it could not, or were so."""
    task, lines = updated.task, list[str]()
    if updated.marked:
        done = len(task.done)
        numbers = format_step_numbers(updated.marked)
        noun = "Step" if len(updated.marked) == 1 else "Steps"
        lines.append(f"{noun} {numbers} marked done, {done} of {len(task.plan)}.")
    elif updated.marked_again:
        lines.append(f"Done already: {format_step_numbers(updated.marked_again)}.")
    if updated.passed_over:
        numbers = format_step_numbers(updated.passed_over)
        lines.append(f"The task's run is not yours, so {numbers} stayed unmarked.")
    if updated.unmarked:
        lines.append(f"Reopened: {format_step_numbers(updated.unmarked)}.")
    return lines


def _describe_next(updated: UpdateResult, request: UpdateRequest) -> str:
    """Tell the caller what comes next; empty: nothing for them to do."""
    if updated.review:
        return updated.review
    if updated.unheard:
        return describe_unheard(ends=request.status is TaskStatus.COMPLETED)
    goes_on = updated.may_go_on and request.ask is None
    return describe_next_step(updated.task, run=updated.run) if goes_on else ""


def task_plan_update(context: Context, form: forms.TaskPlanUpdate, caller: Caller) -> Answer:
    """Replace a task's plan, and say which marks were dropped."""
    revised = tasks.revise_task_plan(
        context,
        form.task_id,
        new_plan=tuple(form.new_plan),
        reason=form.reason,
        artifacts=form.artifacts,
        token=form.token,
        caller=caller,
        done=_to_marks(form.completed_steps, form.new_plan),
        reopened=_to_marks(form.reopened_steps, form.new_plan),
        blocked_by=form.blocked_by,
    )
    task, remap = revised.task, revised.remap
    answer = f"Plan revised: {format_count(len(task.plan), 'step')}"
    answer += f", {len(remap.done)} still done." if remap.done else "."
    if form.artifacts is not None:
        answer += f" It names {format_count(len(form.artifacts), 'artifact')} now."
    reached = context.reaches(task.host, task.session_key)
    blocked = describe_blockers(revised.blockers, reached=reached) if revised.blockers else ""
    if remap.dropped:
        answer += (
            f" {format_count(len(remap.dropped), 'mark')} could not be carried over, see "
            "dropped_steps; mark with completed_steps what is still done."
        )
    return {
        "task_id": task.task_id,
        "status": task.status,
        "plan": list(task.plan),
        "plan_progress": describe_progress(task),
        "dropped_steps": [step.model_dump(mode="json") for step in remap.dropped],
        **runs.warn_of_left_out(revised.left_out),
        **_list_blockers(task),
        "message": f"{answer} {blocked or describe_next_step(task)}",
    }


def task_list(context: Context, form: forms.TaskList, caller: Caller) -> Answer:
    """List the tasks that the caller may see."""
    word = form.status.strip().lower()
    besides = ("all", "implicit", "waiting", "ready")
    status = None if word in besides else lifecycle.parse_status(word, *besides)
    awaited = list_awaited(context)
    order = "the longest waiting" if word == "waiting" else "the latest"
    if word == "waiting":
        listed = lookup.list_visible_named(context, awaited, form.limit + 1, caller)
    else:
        given = (status, form.limit + 1, caller)
        listed = lookup.list_visible_tasks(
            context, *given, implicit=word == "implicit", ready=word == "ready"
        )
    found = listed[: form.limit]
    kind = "" if word == "all" else f"{word if status is None else status} "
    start = "" if word in besides[1:] else " Start one with task_register."
    ask = "Ask for one with task_update and a query."
    more = "; a larger limit shows others" if len(listed) > form.limit else ""
    if caller.is_user:
        start, ask = "", "See one with: taskmem show ID"
    return {
        "tasks": [
            {
                "task_id": task.task_id,
                "name": task.name,
                "status": task.status,
                "plan_steps": len(task.plan),
                "messages": task.message_count,
                "last_update": format_iso(task.updated_at),
                **_list_blockers(task),
                **_describe_awaited(context, awaited.get(task.task_id)),
            }
            for task in found
        ],
        "message": (
            f"{format_count(len(found), f'{kind}task')}, {order} first{more}. {ask}"
            if found
            else f"There is no {kind}task.{start}"
        ),
    }


def _describe_awaited(context: Context, run: Run | None) -> Answer:
    """Return what a task's run waits for, and its question; empty: nothing."""
    what = None if run is None else current_run.find_awaited(run, context.sessions)
    if run is None or what is None:
        return {}
    waits: Answer = {"what": what, "since": format_iso(run.changed_at)}
    if what == "claim":
        waits["role"] = run.role
    asked: Answer = {} if run.dialogue.question is None else {"question": run.dialogue.question}
    return {**asked, "waits_for": waits}


def _describe_asked(context: Context, task: Task) -> str:
    """Say who puts a question to the user, and what its agent does meanwhile."""
    if context.sessions.is_own(task.session_key):
        return (
            "The user is shown your question, and the task waits for the answer: end "
            "your turn now, and do not repeat it. Once they have answered, set status "
            '"active".'
        )
    return (
        "Put your question to the user yourself: no message reaches them from here. It stands "
        'until you set status "active", with their answer as message.'
    )


def _describe_queue(context: Context, task: Task, role: str) -> str:
    """Say who gets a task that was queued for a role, and who is woken."""
    session = task.registrar_session
    advice = 'task_list with status "waiting" shows it until somebody has.'
    if session is not None and context.reaches(task.registrar_host, session):
        silence = f"{context.policies.stuck.threshold_seconds:g}"
        advice = f"You are woken if nobody has claimed it after {silence} s."
    return (
        f"It is queued for {role}, and whoever claims it with task_claim gets it. Do "
        f"not work on it yourself. {advice}"
    )


def _describe_silence(context: Context, task: Task) -> str:
    """Say what happens if a task is not updated any more."""
    if not context.reaches(task.host, task.session_key):
        return (
            "no wake can reach you here, so find it again with task_list and a query "
            "of task_update."
        )
    silence = f"{context.policies.stuck.threshold_seconds:g}"
    return f"after {silence} s of silence you are woken with all you need to go on."


TOOLS: Final = (
    Tool(
        "task_register",
        "Start tracking a piece of work that takes many steps or long. Write down "
        "its plan once; it outlives your context. The answer says what becomes of it "
        "if the work goes silent.",
        forms.TaskRegister,
        task_register,
    ),
    Tool(
        "task_update",
        "Report progress on a task, or ask where it stands, e.g. after your context "
        "was compacted. At least one of message, query, status, completed_steps, "
        'reopened_steps. "Step 2 done" in a message marks step 2. Call it after every '
        "step, and with status when the work ends.",
        forms.TaskUpdate,
        task_update,
        looks=_is_completion,
    ),
    Tool(
        "task_plan_update",
        "Replace a task's plan when it turned out differently. Steps that stay the "
        "same keep their marks; the answer tells which marks were dropped.",
        forms.TaskPlanUpdate,
        task_plan_update,
    ),
    Tool(
        "task_list",
        "What am I working on? Tasks with their ids, the latest first.",
        forms.TaskList,
        task_list,
    ),
)
