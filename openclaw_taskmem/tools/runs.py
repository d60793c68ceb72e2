"""The tools on runs: status, resume, steps, claim, hand-off, background, reset and ends.

Source: docs/origins.md, "Runs and their states".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from pydantic import JsonValue

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.changes import task_update
from openclaw_taskmem.domain.changes.handoff import HandoffNotes
from openclaw_taskmem.domain.effects.checkpoints import PastCall
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.tasks import ledger, thread
from openclaw_taskmem.domain.tasks.plan import compute_progress, describe_progress
from openclaw_taskmem.domain.text.redaction import scrub
from openclaw_taskmem.domain.text.texts import (
    clip,
    format_count,
    format_duration,
    format_iso,
    to_plain_line,
)
from openclaw_taskmem.domain.wakes import notices, packet
from openclaw_taskmem.engine import lookup as engine
from openclaw_taskmem.engine import run_handoff, runs
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.lookup import TaskOverview
from openclaw_taskmem.engine.run_history import HistoryPosition
from openclaw_taskmem.engine.run_recovery import is_unheard
from openclaw_taskmem.tools import forms
from openclaw_taskmem.tools.tool import Answer, Tool
from taskmem_hookspecs import (
    InvalidArguments,
    LedgerEntry,
    Message,
    PlanRevision,
    Run,
    RunState,
    Task,
)

MOST_LINES: Final = 30
"""Lines of `do_not_redo` and of `unknown_outcome` in the answer of `task_status`, at most."""
_PLACE: Final = re.compile(r"([0-9]{1,3})\.([0-9]{1,9})\.([0-9]{1,9})")


def task_status(context: Context, form: forms.TaskStatusForm, caller: Caller) -> Answer:
    """Report the state of a task and its run."""
    place = _parse_position(form.before)
    standing = engine.read_overview(context, form.task_id, caller, place)
    task, run = standing.task, standing.run
    if place is not None:
        return {
            "task_id": task.task_id,
            "name": task.name,
            "status": task.status,
            **_describe_history(standing),
            "message": "Older calls, the newest first.",
        }
    current = compute_progress(task).current
    newest = context.store.read_records(Message, task.task_id, thread.MOST_READ_MESSAGES)
    revisions = context.store.read_records(PlanRevision, task.task_id)
    mentions = thread.StepMentions(newest, revisions, task.plan)
    since = (run.started_at if run else None) or task.created_at
    ended = (run.ended_at if run else None) or standing.now
    elapsed = max((ended - since).total_seconds(), 0.0)
    calls = run.progress.calls if run and current_run.has_visible_calls(run) else None
    coming = task_update.describe_next_step(task, newest, run)
    took = f"after {format_duration(elapsed)}"
    if calls is not None:
        took = f"{format_count(calls, 'tool call')} in {format_duration(elapsed)}"
    unheard = ""
    if run is not None and is_unheard(context, run):
        unheard = " by an owner that is not heard of, from which it may be reset"
    return {
        "task_id": task.task_id,
        "name": task.name,
        "status": task.status,
        "implicit": task.implicit,
        "metadata": dict(task.metadata),
        "run": None if run is None else describe_run(run),
        "step": None if current is None else current + 1,
        "steps": _describe_steps(task, run),
        "plan_progress": describe_progress(task),
        "tool_calls": calls,
        **_describe_past_work(standing),
        **_describe_history(standing),
        "budget_left": None if standing.budget is None else standing.budget.left,
        "elapsed_seconds": round(elapsed, 3),
        **describe_made(context, task),
        "message": " ".join(
            (
                f"{_describe_state(task, run)}{unheard}, {took}.",
                *task_update.describe_decisions(newest, mentions, coming),
                *task_update.describe_last_wait(task),
                coming,
            )
        ),
    }


def describe_made(context: Context, task: Task) -> dict[str, JsonValue]:
    """Return what a task made, and what is not proved, as far as an answer lists it."""
    entries = context.store.read_records(LedgerEntry, task.task_id)
    ended = task.status.terminal
    artifacts = context.store.read_task(task.task_id).artifacts if ended else ()
    return ledger.describe_ledger(entries, ledger.MOST_ENTRIES, artifacts)


def describe_run(run: Run) -> dict[str, JsonValue]:
    """Return a run as tools show it."""
    return {
        "run_id": run.run_id,
        "state": run.state,
        "why": run.why,
        **({"question": run.dialogue.question} if run.dialogue.question is not None else {}),
        "role": run.owner.role if run.owner else run.role,
        "session_key": run.session_key,
        "token": run.token,
        "tries": run.limits.tries,
        "checkpoints": run.progress.checkpoints,
    }


def _describe_steps(task: Task, run: Run | None) -> list[JsonValue]:
    failed = run.budget.failed_steps if run else ()
    current = compute_progress(task).current

    def state(index: int) -> str:
        if index in task.done:
            return "done"
        if index in failed:
            return "failed"
        return "running" if index == current else "pending"

    return [
        {"step": step.index + 1, "text": step.text, "state": state(step.index)}
        for step in task.steps
    ]


def _describe_past_work(standing: TaskOverview) -> Answer:
    """Return all that is needed to go on with a task, besides the plan."""
    past = standing.past
    done, cut = (
        packet.list_done_calls(past.calls),
        packet.list_cut_calls(past.calls),
    )
    more = max(len(done) - MOST_LINES, 0) + past.unread
    return {
        "original_request": standing.task.original_request,
        "last_response": past.last_response,
        "conversation": [{"role": line.role, "text": line.text} for line in past.messages],
        "still_running": [
            {
                "kind": each.kind,
                "name": each.name,
                "about": scrub(each.about),
                "since": format_iso(each.since),
            }
            for each in standing.still_running
        ],
        "do_not_redo": [*done[:MOST_LINES]],
        **({"past_more": more} if more else {}),
        "unknown_outcome": [*cut[-MOST_LINES:]],
    }


def _describe_history(standing: TaskOverview) -> Answer:
    more = standing.page.more
    given = None if more is None else f"{more.run}.{more.before or 0}.{more.left}"
    arguments: Answer = {"task_id": standing.task.task_id, "before": given}
    return {
        "tool_history": [_describe_call(call) for call in standing.page.calls],
        "more": None if more is None else {"left": more.left, "arguments": arguments},
    }


def _describe_call(call: PastCall) -> dict[str, JsonValue]:
    return {
        "tool": call.tool,
        "about": call.about,
        "outcome": "unknown" if call.ok is None else "ok" if call.ok else "failed",
        "exit_code": call.exit_code,
        "at": format_iso(call.at),
    }


def _parse_position(before: str | None) -> HistoryPosition | None:
    """Return the position at which a page of the history begins; None: at the newest call.

    Raises:
        InvalidArguments: It is not a position from `more`.
    """
    if before is None:
        return None
    match = _PLACE.fullmatch(before)
    if match is None:
        raise InvalidArguments(
            "before must be as the answer's more.arguments gave it; leave it out to "
            "begin with the newest calls."
        )
    run, number, left = map(int, match.groups())
    return HistoryPosition(run=run, before=number or None, left=left)


def _describe_state(task: Task, run: Run | None) -> str:
    if run is None:
        return f"The task is {task.status}, and nobody holds it"
    why = f" ({run.why})" if run.why else ""
    return f"The task is {task.status}, its run {run.state}{why}"


# --- the tools -----------------------------------------------------------------------------


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
    request = runs.StepOutcome(
        step=form.step,
        outcome=form.outcome,
        note=form.note,
        remaining=tuple(form.remaining or ()),
        token=form.token,
    )
    over = runs.record_step_outcome(context, form.task_id, request, caller)
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


def _describe_next(over: runs.StepResult) -> str:
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
    task, run, left, gone = runs.claim_run(
        context, form.task_id, form.role, form.attach or (), caller
    )
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
            f"{f'{gone} ' if gone else ''}"
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
        return "It is active; go on as the packet says. No claim is needed."
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
        "Take up a task again that was interrupted, blocked or failed. It needs no claim.",
        forms.TaskResume,
        task_resume,
    ),
    Tool(
        "task_step_done",
        "End the current step of a task that you hold: done, failed (with the steps "
        "that take its place), or ask for more_tools for it.",
        forms.TaskStepDone,
        task_step_done,
    ),
    Tool("task_abort", "Give up a task that you hold.", forms.TaskAbort, task_abort),
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
        "Hold a task alone, or the next that is queued for a role; the answer has a token "
        "that your writes must give. Outside OpenClaw nobody holds a task that is not "
        "claimed, and only task_step_done, task_abort and task_handoff need a claim.",
        forms.TaskClaim,
        task_claim,
    ),
    Tool(
        "task_handoff",
        "Hand a task that you hold to the user for review, or to another role.",
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
