"""The tools on tasks: register one, report or ask, revise the plan, list.

Source: docs/origins.md, "Tasks and statuses".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from openclaw_taskmem.domain.callers.callers import Caller
from openclaw_taskmem.domain.changes.task_update import (
    UpdateRequest,
    UpdateResult,
    describe_next_step,
    describe_unheard,
)
from openclaw_taskmem.domain.runs import budget
from openclaw_taskmem.domain.tasks import ledger, lifecycle
from openclaw_taskmem.domain.tasks.plan import describe_progress
from openclaw_taskmem.domain.text.texts import format_count, format_iso, format_step_numbers
from openclaw_taskmem.engine import role_queues, task_standing, tasks
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.tools import forms, runs, thread_pages
from openclaw_taskmem.tools.tool import (
    Answer,
    RunlessAnswer,
    Tool,
    describe_asked,
    describe_awaited,
    describe_queue,
    describe_silence,
)
from taskmem_hookspecs import TaskStatus
from taskmem_hookspecs.errors import TaskmemError


def task_register(context: Context, form: forms.TaskRegister, caller: Caller) -> Answer:
    """Register a task and say how to go on."""
    plan_ = tuple(form.plan)
    if form.segmented:
        plan_, _ = budget.cap_plan(plan_)
    task = tasks.register_new_task(
        context,
        name=form.name,
        plan=plan_,
        metadata=form.metadata or {},
        caller=caller,
        segmented=form.segmented,
        role=form.role,
    )
    unlimited = ""
    if form.segmented and caller.gateway_owner is None and form.role is None:
        unlimited = (
            "segmented limits no calls here: OpenClaw's gateway counts them, and only "
            "for tasks that its agents register. "
        )
    return {
        "task_id": task.task_id,
        "name": task.name,
        "status": task.status,
        "plan": list(task.plan),
        "created_at": format_iso(task.created_at),
        **runs.warn_of_left_out(form.plan[len(plan_) :]),
        **({} if form.role is None else {"queued_for": form.role}),
        "message": (
            f"Registered with {format_count(len(task.plan), 'step')}. Report with "
            f"task_update as you go; {describe_silence(context, task)} "
            f"{unlimited}{describe_next_step(task)}"
            if form.role is None
            else f"Registered with {format_count(len(task.plan), 'step')}. "
            f"{describe_queue(context, task, form.role)}"
        ),
    }


def task_update(context: Context, form: forms.TaskUpdate, caller: Caller) -> Answer | RunlessAnswer:
    """Report progress on a task, or answer a query about it."""
    status = None if form.status is None else lifecycle.parse_status(form.status)
    wish = UpdateRequest(
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
    until, start = (None, 0) if form.after is None else thread_pages.parse_position(form.after)
    answer: Answer = {"task_id": form.task_id}
    sentences: list[str] = []
    runless = False
    if wish.has_changes:
        updated = tasks.write_update(context, form.task_id, wish)
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
        sentences.append(_describe_update(updated, wish))
        if wish.ask is not None and task.status is TaskStatus.ACTIVE:
            sentences.append(describe_asked(context, task))
        if updated.hint is not None:
            answer["hint"] = updated.hint
            sentences.append(updated.hint)
        if form.query is None:
            answer["plan_progress"] = describe_progress(task)
    if form.query is not None:
        asked = tasks.answer_query(context, form.task_id, form.query, caller, until)
        task, newest = asked.task, asked.newest
        answer |= {
            "status": task.status,
            "summary": asked.summary,
            "plan_progress": describe_progress(task),
            "last_update": format_iso(task.updated_at),
            "plan": list(task.plan),
            "metadata": dict(task.metadata),
            **thread_pages.cut_page(asked, form.query, start),
        }
        sentences.append(
            "That is where the task stands."
            if sentences
            else "That is where the task stands. " + describe_next_step(task, newest, asked.run)
        )
        sentences.append(thread_pages.describe_page(asked, answer))
    answer["message"] = " ".join(sentences).strip()
    return RunlessAnswer(answer) if runless else answer


_ARTIFACTS: Final = (
    'artifacts were left out: they count with status "completed" only, or for good '
    "with task_plan_update."
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


def _describe_update(updated: UpdateResult, wish: UpdateRequest) -> str:
    task = updated.task
    lines: list[str] = []
    if wish.message is not None:
        lines.append("Noted.")
    if wish.artifacts and updated.ledger is None:
        lines.append(_ARTIFACTS)
    if updated.marked:
        done = len(task.done)
        numbers = format_step_numbers(updated.marked)
        noun = "Step" if len(updated.marked) == 1 else "Steps"
        lines.append(f"{noun} {numbers} marked done, {done} of {len(task.plan)}.")
    if updated.passed_over:
        numbers = format_step_numbers(updated.passed_over)
        lines.append(f"The task's run is not yours, so {numbers} stayed unmarked.")
    if updated.unmarked:
        lines.append(f"Reopened: {format_step_numbers(updated.unmarked)}.")
    if task.status is not updated.was:
        lines.append(f"The task is {task.status} now, and was {updated.was}.")
        lines += [updated.made] if updated.made else []
    elif task.status.terminal:
        lines.append(
            f"The task is {task.status}, so nothing else changed. A query tells what "
            'was said at its end; set status "active" only if it is to go on.'
        )
        return " ".join(lines)
    return " ".join(filter(None, (*lines, _describe_next(updated, wish))))


def _describe_next(updated: UpdateResult, wish: UpdateRequest) -> str:
    """Tell the caller what comes next; empty: nothing for them to do."""
    task = updated.task
    if updated.review:
        return updated.review
    if updated.unheard:
        return describe_unheard(ends=wish.status is TaskStatus.COMPLETED)
    goes_on = updated.may_go_on and wish.ask is None
    return describe_next_step(task, run=updated.run) if goes_on else ""


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
    )
    task, remap = revised.task, revised.remap
    answer = f"Plan revised: {format_count(len(task.plan), 'step')}"
    answer += f", {len(remap.done)} still done." if remap.done else "."
    if form.artifacts is not None:
        answer += f" It names {format_count(len(form.artifacts), 'artifact')} now."
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
        "message": f"{answer} {describe_next_step(task)}",
    }


def task_list(context: Context, form: forms.TaskList, caller: Caller) -> Answer:
    """List the tasks that the caller may see."""
    word = form.status.strip().lower()
    besides = ("all", "implicit", "waiting")
    status = None if word in besides else lifecycle.parse_status(word, *besides)
    awaited = role_queues.list_awaited(context)
    order = "the longest waiting" if word == "waiting" else "the latest"
    if word == "waiting":
        found = task_standing.list_visible_named(context, awaited, form.limit, caller)
    else:
        given = (status, form.limit, caller)
        found = task_standing.list_visible_tasks(context, *given, implicit=word == "implicit")
    kind = "" if word == "all" else f"{word if status is None else status} "
    start = "" if word in besides[1:] else " Start one with task_register."
    ask = "Ask for one with task_update and a query."
    more = "; a larger limit may show others" * (len(found) == form.limit)
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
                **describe_awaited(context, awaited.get(task.task_id)),
            }
            for task in found
        ],
        "message": (
            f"{format_count(len(found), f'{kind}task')}, {order} first{more}. {ask}"
            if found
            else f"There is no {kind}task.{start}"
        ),
    }


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
