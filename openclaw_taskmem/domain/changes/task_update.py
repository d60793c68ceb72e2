"""Apply an update to a task: a message, marks, a status, a question, an acknowledgement.

Source: docs/origins.md, "Tasks and statuses" and "Narration".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Final

from pydantic import JsonValue

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.callers import Caller, CallerKind, SessionKeys
from openclaw_taskmem.domain.changes import task_runs
from openclaw_taskmem.domain.changes.handoff import HandoffNotes
from openclaw_taskmem.domain.errors import TaskEnded
from openclaw_taskmem.domain.policies import RUN_POLICY, RunPolicy
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.runs.machine import RunTransition
from openclaw_taskmem.domain.tasks import lifecycle, plan, step_phrases, thread
from openclaw_taskmem.domain.tasks.step_phrases import (
    StepMarks,
    denies_progress,
    sounds_like_progress,
)
from openclaw_taskmem.domain.tasks.thread import StepMentions, ThreadQuery
from openclaw_taskmem.domain.text.texts import (
    clip,
    end_sentence,
    format_duration,
    format_step_numbers,
    quote_line,
    quote_step,
    to_plain_line,
)
from openclaw_taskmem.domain.wakes import outbox
from taskmem_hookspecs import (
    Change,
    Event,
    InvalidArguments,
    LedgerEntry,
    Message,
    MessageType,
    QueryFacts,
    Role,
    Run,
    RunState,
    Task,
    TaskFacts,
    TaskStatus,
    Value,
    WaitStatus,
    Wake,
)

# --- answers ------------------------------------------------------------------


_WENT_WRONG: Final = (WaitStatus.ERROR, WaitStatus.TIMEOUT)
_DECISION_BYTES: Final = 600
_MOST_NAMED_STEPS: Final = 6
"""Most steps to name; further ones are counted."""


def describe_unheard(*, ends: bool) -> str:
    """Tell a run's owner that the user has sent messages meanwhile.

    `ends`: the owner tried to complete the task, which waits until the messages are handled.
    """
    stays = ", so it is not completed yet" if ends else ""
    return f"The user has spoken meanwhile{stays}: act first on user_said."


def describe_handoff_notes(task: Task, left: HandoffNotes) -> str:
    """Tell the agent that claims a task about the hand-off notes and what comes next."""
    done = plan.compute_progress(task).current is None
    lines = ["Read the note of who handed it to you."] if left.note is not None else []
    if left.reviewed and left.user_said:
        lines.append(
            "The user sent it back: do what they say first, see user_said. Open again "
            "with reopened_steps what has to be done again, or plan what is new with "
            "task_plan_update, and hand it off for review again when done."
        )
    elif left.reviewed:
        lines.append(
            "It was taken out of the user's review without a word of theirs: ask them "
            "what is missing, with ask, and hand it off for review again when done."
        )
    elif left.user_said:
        lines.append("Act first on what the user has said, see user_said.")
    if done and left.user_said and not left.reviewed:
        lines.append(
            "All steps are marked done: open again with reopened_steps what that "
            'undoes, and set status "completed" only when it is done, too.'
        )
    elif not (done and left.reviewed):
        lines.append(describe_next_step(task))
    return " ".join(lines)


def summarize_task(facts: QueryFacts, question: ThreadQuery, shown: Sequence[Message] = ()) -> str:
    """Say where a task stands, and answer about the steps asked for, in a few sentences.

    `shown` are messages that stand beside the summary, and need not be quoted.
    """
    task = facts.task
    sentences = [
        *_describe_status(task),
        *_describe_asked_steps(task, question),
        *_describe_blockers(facts),
        *_describe_waits(facts, asked=question.waits),
        *_describe_last_message(facts, shown),
    ]
    return " ".join(sentences)


def _describe_status(task: Task) -> list[str]:
    progress = plan.compute_progress(task)
    lines: list[str] = []
    if task.status is not TaskStatus.ACTIVE:
        lines.append(f"The task is {task.status}.")
    if progress.completed:
        lines.append(f"Completed {_number_steps(progress.completed)}.")
    else:
        lines.append("No step is done yet.")
    if progress.current is None:
        lines.append("All steps are done.")
        return lines
    current = quote_step(task.plan[progress.current], 200)
    place = "Currently on" if task.status is TaskStatus.ACTIVE else "Not done:"
    lines.append(f"{place} step {progress.current + 1}, {current}.")
    if progress.remaining:
        lines.append(f"Remaining: {_number_steps(progress.remaining)}.")
    return lines


def _number_steps(indices: Collection[int]) -> str:
    """Write steps by their numbers; the plan, with their words, stands beside it."""
    return f"{'step' if len(indices) == 1 else 'steps'} {format_step_numbers(sorted(indices))}"


def _describe_asked_steps(task: Task, question: ThreadQuery) -> list[str]:
    asked = sorted(question.steps or question.like_steps)
    return [
        f"Step {step + 1}, {quote_step(task.plan[step])}, is "
        f"{'done' if step in task.done else 'not done'}."
        for step in asked[:_MOST_NAMED_STEPS]
    ]


def _describe_blockers(facts: QueryFacts) -> list[str]:
    """Say what the user is asked, and which trouble was noted, or that none was."""
    mentions = StepMentions(facts.messages, facts.revisions, facts.task.plan)
    decided = describe_decisions(facts.messages, mentions)
    if facts.question is not None:
        decided.append(f"Waits for the user's answer to {quote_question(facts.question)}.")
    trouble = thread.find_trouble(facts.messages)
    if trouble is not None:
        return [*decided, f"Possible blocker: {_quote_message(trouble, mentions, 240)}."]
    if decided:
        return decided
    if facts.task.status is TaskStatus.FAILED:
        return ["Why it failed was not noted."]
    went_wrong = facts.task.linkage.last_wait_state in _WENT_WRONG
    return [] if went_wrong else ["No blockers noted."]


def describe_decisions(
    messages: Sequence[Message], mentions: StepMentions, besides: str = ""
) -> list[str]:
    """Say what was decided about a task since its agent's last progress, but not `besides`."""
    decided = (
        end_sentence(mentions.add_old_steps(clip(each.content, _DECISION_BYTES), each))
        for each in thread.find_decisions(messages)
    )
    return [sentence for sentence in decided if sentence not in besides]


def _describe_waits(facts: QueryFacts, *, asked: bool) -> list[str]:
    lines: list[str] = []
    for wait in facts.waits:
        if wait.status is WaitStatus.WATCHING:
            left = format_duration((wait.deadline_at - facts.now).total_seconds())
            lines.append(
                f"Waiting on {clip(wait.target, 80)} ({wait.wait_id}) until "
                f"{quote_line(wait.wake_when, 160)}, {left} left."
            )
    lines = lines or describe_last_wait(facts.task)
    return lines or (["Nothing is waited for."] if asked else [])


def describe_last_wait(task: Task) -> list[str]:
    """Say how a task's last wait stands; empty: it had none."""
    linkage = task.linkage
    if linkage.active_wait_ids:
        return [f"It waits: {', '.join(linkage.active_wait_ids[:_MOST_NAMED_STEPS])}."]
    last = linkage.last_wait_state
    return [] if last is None else [f"The last wait ended as {last}."]


def _describe_last_message(facts: QueryFacts, shown: Sequence[Message]) -> list[str]:
    spoken = [message for message in facts.messages if message.role is not Role.SYSTEM]
    newest = thread.choose_meaningful(spoken or facts.messages, most=1)
    if not newest:
        return ["Nothing was narrated yet."]
    if newest[0] in shown:
        return []
    ago = format_duration((facts.now - newest[0].created_at).total_seconds())
    mentions = StepMentions(facts.messages, facts.revisions, facts.task.plan)
    return [f"Last message, {ago} ago: {_quote_message(newest[0], mentions, 300)}."]


def _quote_message(message: Message, mentions: StepMentions, size: int) -> str:
    """Quote a message, and say what its step numbers meant in the plan of its time."""
    return mentions.add_old_steps(quote_line(message.content, size), message)


_REVIEW_SENTENCE: Final = (
    "All steps are done, and the user checks the result: stop working on it, and give "
    "what they say to task_resume, as answer."
)


def quote_question(question: str) -> str:
    """Quote an agent's question to the user on one line."""
    return quote_line(to_plain_line(question), 300)


def describe_next_step(
    task: Task, messages: Sequence[Message] = (), run: Run | None = None, *, named: bool = True
) -> str:
    """Say what comes next, for the end of an acknowledgement.

    `messages` are the task's newest, oldest first, and `run` is its open run, if known. `named`:
    with the step's own words.
    """
    progress = plan.compute_progress(task)
    if task.status.terminal:
        return "Nothing is watched any more."
    if run is not None and current_run.has_open_question(run):
        asked = quote_question(run.dialogue.question or "")
        then = 'once given, set status "active" with it as message.'
        return f"It waits for the user's answer to {asked}: {then}"
    if task.blocked_by:
        by = ", ".join(task.blocked_by[:_MOST_NAMED_STEPS])
        return (
            f"It is blocked by {by}: leave it until you are woken, or have it go on by "
            "task_plan_update with blocked_by []."
        )
    if progress.current is None:
        return _describe_end(messages, run)
    rests = task.status is TaskStatus.PAUSED
    when = ", once it is active again" if rests else ""
    step = f", {quote_step(task.plan[progress.current])}" if named else ""
    return f"Next{when}: step {progress.current + 1}{step}."


def _describe_end(messages: Sequence[Message], run: Run | None) -> str:
    """Say what comes after the last step."""
    if thread.has_user_spoken_last(messages):
        return (
            "All steps are marked done, but the user has spoken since: do first what "
            "they say, and reopen with reopened_steps what that undoes."
        )
    if run is not None and run.state is RunState.REVIEW:
        return _REVIEW_SENTENCE
    refused = next(filter(thread.is_refusal, thread.find_decisions(messages)), None)
    if refused is not None:
        sentence = end_sentence(clip(refused.content, _DECISION_BYTES))
        return f'{sentence} Then set status "completed" again.'
    return 'All steps are done: set status "completed" when the result is checked.'


# --- updates ------------------------------------------------------------------


Begin = Callable[[Task], RunTransition | None]
"""Begins a run of a task; None: the caller can hold none."""


MOST_REPEATS: Final = 2
"""How often in a row an agent may say the same and be heard: the third time brings nothing new."""


class Acceptance(Value):
    """A person's decision to complete a task whose completion was refused."""

    because: str | None = None
    """The reason in the person's words; None: none given."""
    process: str | None = None
    """The calling process, as `Owner.process`; None: not known."""


class UpdateRequest(Value):
    """The arguments of an update. Steps count from 1, as for the agent."""

    message: str | None = None
    status: TaskStatus | None = None
    completed_steps: tuple[int, ...] = ()
    reopened_steps: tuple[int, ...] = ()
    ask: str | None = None
    """Question to the user, for whose answer the task then waits; None: none."""
    ask_options: tuple[str, ...] = ()
    """Answers that the user may press; free text is allowed, too."""
    artifacts: tuple[str, ...] = ()
    """Things made, besides those that the task itself names."""
    acceptance: Acceptance | None = None
    """A person's decision to complete it without proof; None: none."""
    reviewed: bool = False
    """True if a person approves files that they were shown: one that was replaced refuses it."""
    heard: str | None = None
    """The user's last words since the task's open question; None: there are none."""
    repeats: int = 0
    """How often in a row the agent's newest messages said the same before."""
    token: int | None = None
    """Token of the caller's claim; None: none given."""
    caller: Caller = Caller()
    """Who calls; a task without a session gets the caller's."""

    @property
    def has_changes(self) -> bool:
        """True if it asks for more than an acknowledgement."""
        return bool(
            self.message is not None
            or self.status is not None
            or self.completed_steps
            or self.reopened_steps
            or self.ask is not None
        )

    @property
    def has_writes(self) -> bool:
        """True if it has a token, or asks for what only who may write for the run may do."""
        guarded = (self.status, self.completed_steps, self.reopened_steps, self.token)
        return any(each not in (None, ()) for each in (*guarded, self.ask))


class UpdateResult(Value):
    """The result of an update."""

    task: Task
    marked: frozenset[int]
    """Steps that are newly done, from 0."""
    marked_again: frozenset[int] = frozenset()
    """Steps (from 0) that it calls done, and that were so before."""
    unmarked: frozenset[int]
    """Steps that are no longer done, from 0."""
    passed_over: frozenset[int] = frozenset()
    """Steps (from 0) that the message reports done, but does not mark because the caller may not
    write for the run."""
    hint: str | None = None
    """How to mark what the message may have meant; None: no hint."""
    was: TaskStatus
    run: Run | None = None
    """Its run after the update; None: none."""
    may_go_on: bool = True
    """True if the caller may write for the run after the update."""
    unheard: tuple[Message, ...] = ()
    """Messages of the user that the run's owner learns of by this answer."""
    sent_back: bool = False
    """True if the user called on a run that waited for them, and it is queued again."""
    review: str = ""
    """For a user who writes to a task in their review: what happens to it; empty: nothing."""
    dropped_question: str = ""
    """The question that the user is not asked any more, in a sentence; empty: none was dropped."""
    ledger: tuple[LedgerEntry, ...] | None = None
    """The things that the task made, if the update completes it; None: it does not."""
    made: str = ""
    """The things that the task made, in a sentence or two; empty: none are told."""


def apply_update(
    facts: TaskFacts,
    request: UpdateRequest,
    now: datetime,
    *,
    sessions: SessionKeys,
    policy: RunPolicy = RUN_POLICY,
    begin: Begin = lambda _: None,
) -> tuple[Change, UpdateResult]:
    """Build the change of an update.

    A message alone is always added. It marks no steps if the task has ended and stays so, or if
    the caller may not write for the run. `begin` begins a run of a task that has none.

    Raises:
        InvalidArguments: The plan does not have one of the steps, or a step is both completed and
        reopened.
        TaskEnded: The task has ended, and steps, another end or a question are asked for.
        Fenced: The token is not that of the last claim, or the task has no open run.
        RunHeld: More than a message is asked for, and the caller may not write for the run.
        RunNotReady: A status or a question is given in a review before the user said anything.
    """
    before, caller = facts.task, request.caller
    changes = request.has_changes
    counts, resting = _guard_caller(facts, request)
    by_user = caller.is_user
    message_marks = StepMarks()
    if request.message is not None and not resting:
        message_marks = step_phrases.parse_step_marks(request.message, before.plan)
    task, moved = before, None
    if request.status is not None:
        task, moved = lifecycle.change_status(before, request.status, now, caller)
    if request.ask is not None:
        _guard_ask(task)
    done, reopened = _read_explicit_marks(before, request, resting=resting)
    marked = _find_marked_steps(message_marks, before, request) - reopened
    if counts:
        done |= marked
        reopened |= message_marks.reopened - done
    marks = (before.done | done) - reopened
    plain = request.status is None and request.ask is None and marks == before.done
    moves = changes and not (plain and request.repeats >= MOST_REPEATS)
    wakes: tuple[Wake, ...] = ()
    if facts.wakes:
        acts = caller.acts_as(before.session_key, before.home)
        wakes = outbox.settle_answered(facts.wakes, acts=acts, moved=moves, now=now)
    added = (request.message is not None) + (request.ask is not None) + (moved is not None)
    fields: dict[str, object] = {"done": marks, "message_count": before.message_count + added}
    if counts and not resting:
        fields |= _find_wake_recipient(before, caller)
    if moves and not resting:
        fields |= {"updated_at": max(now, before.updated_at), "held_until": None}
    task = task.model_copy(update=fields)
    updated = UpdateResult(
        task=task,
        marked=marks - before.done,
        marked_again=done & marks & before.done,
        unmarked=before.done - marks,
        passed_over=marked - marks,
        hint=_build_hint(before, task, request, message_marks, again=changes and not moves)
        if counts and not resting
        else None,
        was=before.status,
    )
    worked = Change()
    if changes and facts.run is not None:
        worked = _apply_to_run(facts, updated, request, now, policy=policy, sessions=sessions)
    elif changes and (by_user or caller.owner is not None or request.ask is not None):
        worked = _begin_run(task, request, begin, now)
    waited = facts.run is not None and facts.run.state.is_waiting
    queued = any(run.state is RunState.QUEUED for run in worked.runs)
    sent_back = by_user and waited and queued
    run = _find_run(worked, facts.run, task)
    may_go_on = run is None or current_run.can_write(run, caller, request.token)
    updated = updated.model_copy(
        update={
            "sent_back": sent_back,
            "review": _describe_review(run, request, sent_back=sent_back) if by_user else "",
            "run": run,
            "may_go_on": may_go_on,
            "dropped_question": _describe_dropped_question(facts.run, run, request),
        }
    )
    settled = {wake.wake_id for wake in wakes}
    own, log = _build_log(updated, request, now) if changes else ((), ())
    messages = own if moved is None else (*own, moved)
    return (
        Change(
            tasks=(task,) if task != before or messages else (),
            messages=messages,
            runs=worked.runs,
            wakes=(*wakes, *(w for w in worked.wakes if w.wake_id not in settled)),
            events=(
                *log,
                *worked.events,
                *(outbox.build_settled_events(wakes, now) if wakes else ()),
            ),
        ),
        updated,
    )


def _guard_caller(facts: TaskFacts, request: UpdateRequest) -> tuple[bool, bool]:
    """Refuse what the caller may not do to the run.

    Return whether the caller may write for it, and whether the task has ended and stays so.
    """
    before = facts.task
    resting = before.status.terminal and request.status in (None, before.status)
    counts = True  # nobody holds a task without a run
    if facts.run is not None or request.token is not None:
        counts = current_run.guard_call(
            before.task_id,
            facts.run,
            request.caller,
            request.token,
            writes=request.has_writes,
            needs_open_run=not resting,
        )
    if request.status is not None or request.ask is not None:
        task_runs.guard_review(facts.run, request.caller)
    if request.status is TaskStatus.ACTIVE and request.ask is None:
        words = request.message if request.heard is None else request.heard
        task_runs.guard_question(facts.run, request.caller, words)
    return counts, resting


def _guard_ask(task: Task) -> None:
    """Refuse a question for a task that has ended."""
    if task.status.terminal:
        raise TaskEnded(
            f"{task.task_id} is {task.status}, and only an active task waits for an "
            'answer: give ask with status "active" if its work goes on, or ask the '
            "user yourself. Nothing was written."
        )


def _describe_review(run: Run | None, request: UpdateRequest, *, sent_back: bool) -> str:
    """Tell a user what happens to the review that they wrote to; empty: nothing."""
    if sent_back and request.message is not None:
        return "Whoever goes on with it is told your words."
    if run is not None and run.state is RunState.REVIEW:
        return (
            'It still waits for your review: status "completed" accepts it, and '
            '"active" with your words as message sends it back.'
        )
    return ""


def _describe_dropped_question(
    before: Run | None, after: Run | None, request: UpdateRequest
) -> str:
    """Tell an agent that a question was dropped unanswered, which it did not withdraw by name."""
    if before is None or not current_run.has_open_question(before) or request.caller.is_user:
        return ""
    asked = before.dialogue.question or ""
    stands = after is not None and current_run.has_open_question(after)
    withdrawn = request.status is TaskStatus.ACTIVE and request.ask is None
    if withdrawn or request.heard is not None or (stands and request.ask in (None, asked)):
        return ""
    return f"The user is not asked any more: {quote_line(to_plain_line(asked), 300)}"


def _apply_to_run(
    facts: TaskFacts,
    updated: UpdateResult,
    request: UpdateRequest,
    now: datetime,
    *,
    policy: RunPolicy,
    sessions: SessionKeys,
) -> Change:
    """Apply an update to the task's run."""
    call = task_runs.RunCall(
        caller=request.caller,
        token=request.token,
        marked=updated.marked,
        sets_status=request.status is not None,
        changes_marks=bool(updated.marked | updated.unmarked),
        ask=request.ask if updated.task.status is TaskStatus.ACTIVE else None,
        options=request.ask_options,
        message=request.message,
        heard=request.heard,
    )
    return task_runs.apply_call(facts, updated.task, call, now, policy=policy, sessions=sessions)


def _find_run(worked: Change, before: Run | None, task: Task) -> Run | None:
    """Return a task's run after an update; None: it has none, or it only kept a question."""
    run = next(iter(worked.runs), before)
    over = run is not None and run.state.terminal and not task.status.terminal
    return None if over else run


def _begin_run(task: Task, request: UpdateRequest, begin: Begin, now: datetime) -> Change:
    moved = begin(task) if task.status is TaskStatus.ACTIVE else None
    if moved is not None and request.ask is not None:
        moved = task_runs.ask_user(task, moved, request.ask, request.ask_options, now)
    if moved is None:
        return Change()
    return Change(runs=(moved.run,), events=moved.events)


def _find_wake_recipient(task: Task, caller: Caller) -> dict[str, str | None]:
    """Return the fields of the agent to wake, if the task has no session yet.

    Until a session is known, that is the agent that called last.
    """
    if task.session_key is not None or (caller.session_key or caller.host) is None:
        return {}
    return {"session_key": caller.session_key, "host": caller.host}


def _read_explicit_marks(
    task: Task, request: UpdateRequest, *, resting: bool
) -> tuple[frozenset[int], frozenset[int]]:
    """Return the steps that an update names as done, and as no longer done, from 0.

    Raises:
        InvalidArguments: The plan does not have one of them, or one is both.
        TaskEnded: The task has ended and stays so (`resting`). A completed one takes further marks.
    """
    both = set(request.completed_steps) & set(request.reopened_steps)
    if both:
        raise InvalidArguments(
            f"Step {min(both)} cannot be both completed and reopened; name it once."
        )
    for number in (*request.completed_steps, *request.reopened_steps):
        if not 1 <= number <= len(task.plan):
            raise InvalidArguments(
                f"There is no step {number}: the plan of {task.task_id} has steps "
                f"1 to {len(task.plan)}. Nothing was written."
            )
    adds = task.status is TaskStatus.COMPLETED and not request.reopened_steps
    if resting and (request.completed_steps or request.reopened_steps) and not adds:
        lifecycle.require_open(task, "its steps keep their marks")
    completed = frozenset(number - 1 for number in request.completed_steps)
    return completed, frozenset(number - 1 for number in request.reopened_steps)


def _find_marked_steps(marks: StepMarks, task: Task, request: UpdateRequest) -> frozenset[int]:
    """Return the steps that a message marks; "All done" at a completion: all not denied."""
    if marks.all_done and request.status is TaskStatus.COMPLETED:
        return frozenset(range(len(task.plan))) - marks.denied
    return marks.done


def _describe_repeats(task: Task, times: int) -> str:
    """Tell an agent that the same words again bring nothing new."""
    current = plan.compute_progress(task).current
    step = "" if current is None else f" Step {current + 1} is still open."
    return (
        f"You have said the same {times} times in a row, which counts as silence.{step} Say what "
        "is new, mark what is done, or ask the user what you need."
    )


_UNNAMED_HINT: Final = (
    "No step was marked. If this ended one, call task_update with completed_steps and its number."
)


def _build_hint(
    before: Task, after: Task, request: UpdateRequest, marks: StepMarks, *, again: bool
) -> str | None:
    """Say how to mark steps if the task is completed with open ones, or the message suggests it.

    `again`: the message has been said too often to be a sign of life, which is all that counts.
    """
    if again:
        return _describe_repeats(after, request.repeats + 1)
    still_open = [step for step in range(len(after.plan)) if step not in after.done]
    if after.status is TaskStatus.COMPLETED and still_open:
        return (
            f"Steps left unmarked: {format_step_numbers(still_open)}. If done, call "
            f"task_update with completed_steps: {_format_numbers(still_open)}."
        )
    changed = after.done != before.done or request.completed_steps or request.reopened_steps
    if after.status is not TaskStatus.ACTIVE or changed:
        return None
    denied = sorted(marks.denied & after.done)
    if denied:
        return (
            f"Still marked done: {format_step_numbers(denied)}. If not done, call task_update "
            f"with reopened_steps: {_format_numbers(denied)}."
        )
    message = request.message or ""
    reports = sounds_like_progress(message) and not denies_progress(message)
    if not still_open or marks.done & before.done or not reports:
        return None
    return _hint_at_steps(after, message, marks)


def _hint_at_steps(task: Task, message: str, marks: StepMarks) -> str | None:
    """Say how to mark what a message that marked nothing may report; None: nothing new.

    A step is named only if the message names it by its number: words that a step has, too, may mean
    another. If all steps with one of its words are done, it reports nothing new.
    """
    meant = sorted(marks.named - marks.denied - task.done)
    if not meant:
        about = marks.named or thread.find_like_steps(message, task.plan)
        return None if about and about <= task.done | marks.denied else _UNNAMED_HINT
    steps = "step {} is" if len(meant) == 1 else "steps {} are"
    return (
        f"No step was marked. If {steps.format(format_step_numbers(meant))} done, call "
        f"task_update with completed_steps: {_format_numbers(meant)}."
    )


def _format_numbers(steps: Collection[int]) -> str:
    return str([step + 1 for step in steps])


def _build_log(
    updated: UpdateResult, request: UpdateRequest, now: datetime
) -> tuple[tuple[Message, ...], tuple[Event, ...]]:
    """Return the messages that an update adds by its own words, and its events."""
    task, by = updated.task, request.caller.known_as
    changed_marks = updated.marked or updated.unmarked
    words: list[tuple[Role, MessageType, str]] = []
    if request.message is not None:
        kind = MessageType.PROGRESS if changed_marks else MessageType.TEXT
        words.append((Role.AGENT if by is CallerKind.AGENT else Role.USER, kind, request.message))
    if request.ask is not None:
        words.append((Role.AGENT, MessageType.TEXT, f"{thread.QUESTION_PREFIX}{request.ask}"))
    messages = tuple(
        Message(
            task_id=task.task_id,
            role=role,
            by_call=role is Role.USER and by is CallerKind.CALL,
            msg_type=kind,
            content=content,
            created_at=now,
        )
        for role, kind, content in words
    )
    has_moved = task.status is not updated.was
    data: dict[str, JsonValue] = {
        "messages": len(messages) + has_moved,
        "marked": [*sorted(updated.marked)],
        "unmarked": [*sorted(updated.unmarked)],
        **lifecycle.build_caller_data(request.caller),
    }
    update = Event(at=now, kind=events.TASK_UPDATED, task_id=task.task_id, data=data)
    if not has_moved:
        return messages, (update,)
    log = lifecycle.build_status_events(updated.was, task, now, by=request.caller)
    return messages, (update, *log)
