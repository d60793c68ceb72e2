"""The tools on runs: status, resume, steps, claim, hand-off, background, reset and ends.

Source: docs/origins.md, "Runs and their states".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pydantic import JsonValue

from openclaw_taskmem.domain.callers.callers import Caller
from openclaw_taskmem.domain.changes import task_update
from openclaw_taskmem.domain.changes.handoff import HandoffNotes
from openclaw_taskmem.domain.text.texts import clip, format_count, to_plain_line
from openclaw_taskmem.domain.wakes import notices
from openclaw_taskmem.engine import role_queues, run_handoff, run_steps, runs
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.tools import forms
from openclaw_taskmem.tools.status import describe_run, task_status
from openclaw_taskmem.tools.tool import Answer, Tool
from taskmem_hookspecs import Run, RunState, Task

NOTE_BYTES: Final = 2000
"""Bytes of a hand-off's note, and of each user message, in the answer to a claim."""
MOST_USER_MESSAGES: Final = 10
"""User messages in that answer, the newest ones."""


def task_resume(context: Context, form: forms.TaskResume, caller: Caller) -> Answer:
    """Resume a task and return its packet."""
    task, run, packet = runs.resume_task(
        context, form.task_id, caller, answer=form.answer, reopen=form.reopen
    )
    return {
        "task_id": task.task_id,
        "status": task.status,
        "packet": packet,
        "message": _describe_resumed(context, run, caller, form.answer),
    }


def task_step_done(context: Context, form: forms.TaskStepDone, caller: Caller) -> Answer:
    """Record the outcome of a step, or grant it more calls."""
    wish = run_steps.StepOutcome(
        step=form.step,
        outcome=form.outcome,
        note=form.note,
        remaining=tuple(form.remaining or ()),
        token=form.token,
    )
    over = run_steps.record_step_outcome(context, form.task_id, wish, caller)
    task = over.task
    bonus = context.policies.runs.step_bonus
    sentence = {
        "done": "Noted.",
        "more_tools": f"{format_count(bonus, 'more call')} for this step.",
        "failed": "The rest is planned anew."
        if form.remaining
        else "Noted; plan the rest anew with task_plan_update, or try the step again "
        "if it has calls left.",
    }[form.outcome]
    return {
        "task_id": task.task_id,
        "status": task.status,
        "plan": list(task.plan),
        "done": [step + 1 for step in sorted(task.done)],
        **warn_of_left_out(over.left_out),
        **show_words([each.content for each in over.unheard], form.task_id),
        "message": f"{sentence} {_describe_next(over)}",
    }


def _describe_next(over: run_steps.StepResult) -> str:
    if over.unheard:
        return task_update.describe_unheard(ends=False)
    return task_update.describe_next_step(over.task)


def task_abort(context: Context, form: forms.TaskAbort, caller: Caller) -> Answer:
    """Abort a task."""
    task = run_handoff.abort_task(context, form.task_id, form.reason, form.token, caller)
    return _build_end_answer(task, "Given up; tell the user why.")


def task_background(context: Context, form: forms.TaskBackground, caller: Caller) -> Answer:
    """Move a task to a session of its own."""
    task, run = run_handoff.move_to_background(context, form.task_id, caller, form.note or "")
    return {
        "task_id": task.task_id,
        "status": task.status,
        "run": describe_run(run),
        "message": (
            "It goes on in the background, in a session of its own, and the user hears "
            "of each step here. Do not work on it in this session; tell the user, who "
            f"can stop it with /cancel {notices.format_command_name(task)}."
        ),
    }


def task_cancel(context: Context, form: forms.TaskCancel, caller: Caller) -> Answer:
    """Cancel a task."""
    task = run_handoff.cancel_task(context, form.task_id, form.reason or "", caller)
    return _build_end_answer(task, "Cancelled; what was done so far is kept.")


def task_claim(context: Context, form: forms.TaskClaim, caller: Caller) -> Answer:
    """Claim a run."""
    attach, role = form.attach or (), role_queues.find_role(context, form.role)
    task, run, left, gone = runs.claim_run(context, form.task_id, role, attach, caller)
    return {
        "task_id": task.task_id,
        "name": task.name,
        "plan": list(task.plan),
        "run": describe_run(run),
        "token": run.token,
        **_show_left(run, left),
        "message": (
            f"Yours, with token {run.token}: give it with what you write. Each call "
            f"on it renews your claim for {context.policies.runs.lease_seconds:g} s. "
            f"{gone and f'{gone} '}"
            f"{task_update.describe_handoff_notes(task, left)}"
        ),
    }


def task_handoff(context: Context, form: forms.TaskHandoff, caller: Caller) -> Answer:
    """Hand a task to the user or to another role."""
    task, run, along = run_handoff.hand_off_task(
        context, form.task_id, form.to, note=form.note or "", token=form.token, caller=caller
    )
    shown = context.sessions.is_own(task.session_key)
    sentence, then = f"It is queued for {form.to}", ""
    if form.to == "user" and shown:
        sentence = "The user is asked to review it"
    elif form.to == "user":
        sentence = "Ask the user to review it"
        then = ", and give what they say of it to task_resume, as answer"
    more = f", together with {', '.join(along)}" if along else ""
    named = run.attached if form.to == "user" else ()
    stay = [t for t in dict.fromkeys(named) if t not in (task.task_id, *along)]
    kept = f"; {', '.join(stay)} stayed" if stay else ""
    return {
        "task_id": task.task_id,
        "status": task.status,
        "run": describe_run(run),
        "attached": [*along],
        "message": f"{sentence}{more}{kept}. Stop working on it{then}.",
    }


def task_reset(context: Context, form: forms.TaskReset, caller: Caller) -> Answer:
    """Requeue a running run."""
    run, before = run_handoff.reset_run(context, form.task_id, caller)
    held = None if before is None else before.model_dump(mode="json")
    return {
        "success": True,
        "task_id": run.task_id,
        "run": describe_run(run),
        "previous_assignee": held,
        "message": (
            f"Reset from running to queued; {before.role if before else 'nobody'} held it before."
        ),
    }


def warn_of_left_out(left_out: Sequence[str]) -> Answer:
    """Warn that steps of a segmented plan were left out; empty: none were."""
    if not left_out:
        return {}
    more = format_count(len(left_out), "step")
    return {
        "warning": (
            f"A segmented plan has 10 steps at most, so {more} at its end were left "
            "out, see left_out_steps; add them with task_plan_update when the first "
            "are done."
        ),
        "left_out_steps": [*left_out],
    }


def _describe_resumed(context: Context, run: Run | None, caller: Caller, answer: str | None) -> str:
    if run is not None and run.state is RunState.BLOCKED:
        return "Its agent is told the answer, and decides on that."
    if caller.person:
        return _describe_resumed_by_user(context, run, answer)
    if run is None:
        return "Nobody holds it; claim it with task_claim before you go on with it."
    if run.state is not RunState.QUEUED:
        return "It is yours again; go on as the packet says."
    if run.told_session is not None:
        return "It goes on in the background, in a session of its own, which is told so."
    return "It is queued again; claim it with task_claim before you go on with it."


def _describe_resumed_by_user(context: Context, run: Run | None, answer: str | None) -> str:
    if run is None:
        return "It is active, and nobody holds it."
    if context.sessions.is_own(run.session_key):
        return "Its session is told to go on."
    if run.state is not RunState.QUEUED:
        words = "goes on with it" if answer is None else "hears that with its next call"
        return f"The agent that holds it {words}."
    words = "is given your words" if answer is not None else "goes on with it"
    return f"It is queued again, and whoever claims it {words}."


def _build_end_answer(task: Task, sentence: str) -> Answer:
    return {"task_id": task.task_id, "status": task.status, "message": sentence}


def _show_left(run: Run, left: HandoffNotes) -> dict[str, JsonValue]:
    """Return the notes for the new owner of a run: each text on one line and clipped."""
    shown: dict[str, JsonValue] = {}
    if left.note is not None:
        whole = to_plain_line(left.note)
        shown["note"] = clip(whole, NOTE_BYTES)
        if shown["note"] != whole:
            shown["note_rest"] = f"The whole note: taskmem show {run.task_id}"
    return {**shown, **show_words(left.user_said, run.task_id)}


def show_words(words: Sequence[str], task_id: str) -> dict[str, JsonValue]:
    """Return the newest `MOST_USER_MESSAGES` of the user's messages: each on one line and clipped.

    If that is not all, the answer says how to read the rest. Empty: there are no messages.
    """
    if not words:
        return {}
    lines = [to_plain_line(each) for each in words]
    newest = [clip(each, NOTE_BYTES) for each in lines[-MOST_USER_MESSAGES:]]
    shown: dict[str, JsonValue] = {"user_said": [*newest]}
    older = len(lines) - len(newest)
    if newest != lines:
        before = f"They said {older} more before these. " if older else ""
        shown["user_said_rest"] = f"{before}All, uncut: taskmem show {task_id}"
    return shown


TOOLS: Final = (
    Tool(
        "task_status",
        "Where a task and the work on it stand: step, calls that were seen, time.",
        forms.TaskStatusForm,
        task_status,
    ),
    Tool(
        "task_resume",
        "Take up a task again that was interrupted, blocked or failed.",
        forms.TaskResume,
        task_resume,
    ),
    Tool(
        "task_step_done",
        "End the current step of a task: done, failed (with the steps that take its "
        "place), or ask for more_tools for it.",
        forms.TaskStepDone,
        task_step_done,
    ),
    Tool("task_abort", "Give a task up that cannot be done.", forms.TaskAbort, task_abort),
    Tool(
        "task_background",
        "Inside OpenClaw: let a task go on in a session of its own, so that this one "
        "is free. The user hears of each step here.",
        forms.TaskBackground,
        task_background,
    ),
    Tool(
        "task_cancel",
        "Call a task off that is no longer wanted, also one in the background.",
        forms.TaskCancel,
        task_cancel,
    ),
    Tool(
        "task_claim",
        "Claim a task, or the next that is queued for a role; the answer has a token "
        "that your writes must give.",
        forms.TaskClaim,
        task_claim,
    ),
    Tool(
        "task_handoff",
        "Hand a task to the user for review, or to another role.",
        forms.TaskHandoff,
        task_handoff,
    ),
    Tool(
        "task_reset",
        "Take a stuck task from whoever works on it, so that it can be claimed again.",
        forms.TaskReset,
        task_reset,
    ),
)
