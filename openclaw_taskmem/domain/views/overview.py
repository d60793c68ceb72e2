"""Say at a glance where a task stands, and what is broken.

The overview lists the tasks, those that need the user first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple

from openclaw_taskmem.domain import callers
from openclaw_taskmem.domain.callers import CallerKind, SessionKeys, Unreached
from openclaw_taskmem.domain.conditions.targets import describe_target, describe_wait
from openclaw_taskmem.domain.effects.checkpoints import PastCall
from openclaw_taskmem.domain.effects.side_effects import is_shell
from openclaw_taskmem.domain.reader_budget import ReaderUsage, describe_usage
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.runs.current_run import RunReason
from openclaw_taskmem.domain.tasks import lifecycle
from openclaw_taskmem.domain.tasks.plan import compute_progress
from openclaw_taskmem.domain.tasks.proofs import (
    MOST_NAMED_PROOFS,
    Proof,
    describe_checks,
    summarize_proofs,
)
from openclaw_taskmem.domain.text.texts import clip, clip_step, has_visible_text, to_plain_line
from openclaw_taskmem.domain.views.user_actions import UserAction, describe_effect, list_actions
from taskmem_hookspecs import (
    DoctorState,
    Message,
    Run,
    RunState,
    TaskFacts,
    TaskStatus,
    Value,
    Wait,
    WaitStatus,
)
from taskmem_hookspecs.model import Instant

# --- what an agent does now ---------------------------------------------------


_EXCERPT_BYTES: Final = 160
"""Longest excerpt of a call, a message or a refusal in a line."""


class Activity(Value):
    """A tool call or a message: what an agent does now, or was seen to do last."""

    what: str
    """The command, another call with its subject, or the words in quotes."""
    at: Instant
    """When it began if it is running, else when it was last heard of."""
    is_call: bool = True
    """False: it is a message."""
    by: CallerKind | None = None
    """Who wrote the message; None: it is a call, or the reason of a change."""
    running: bool = False
    failed: bool = False
    outcome: str = ""
    """Excerpt of its result, of several lines; empty: it has none yet."""


def _name_call(call: PastCall) -> str:
    """Name a call: a command by itself, another by its tool and its subject."""
    tool, about = to_plain_line(call.tool), to_plain_line(call.about)
    return about if about and is_shell(call.tool) else ": ".join(filter(None, (tool, about)))


def _quote_words(words: Message) -> str:
    """Quote the beginning of a message, or of the reason in it, on one line."""
    return f"“{clip(to_plain_line(lifecycle.read_reason(words)), _EXCERPT_BYTES)}”"


# --- the overview -------------------------------------------------------------


NOTE_BYTES: Final = 4_000
"""Longest note of a review that is shown."""


class Section(StrEnum):
    """Where a task is listed, in this order."""

    NEEDS_YOU = "needs_you"
    """Only the user can move it on: a question, a review, a failure, what is not proved, an agent
    that nobody can wake."""
    AT_WORK = "at_work"
    """An agent works on it."""
    WAITING = "waiting"
    """A wait is open, or somebody is to take it up."""
    IDLE = "idle"
    """Open, but nobody works on it and nothing is awaited."""
    ENDED = "ended"
    """Ended in the last day."""


class TaskLine(Value):
    """One task in the overview."""

    task_id: str
    name: str
    status: TaskStatus
    section: Section
    standing: str
    """Where it stands in one or two words, such as `at work`; a page has no other word for it."""
    says: str
    """The task's present work, its wait, or how it ended, in one line."""
    done: int
    """Number of steps that are done."""
    steps: int
    step: str | None
    """Text of the current step; None: all are done."""
    step_number: int | None
    """Number of the current step, from 1; None: all are done."""
    activity: Activity | None = None
    """The agent's present or last activity; None: unknown, or it does not matter any more."""
    cost: str = ""
    """How often readers were asked for its waits, and what it cost; empty: they were not."""
    note: str = ""
    """The agent's note to the user who is to review the task; empty: none, or no review."""
    made: str = ""
    """The things it made and how far they were tested; empty: none, or not known yet."""
    checked: str = ""
    """The checks of these things, one by one; empty: nothing was checked."""
    judged: str = ""
    """Who judged the content of what was checked; empty: nothing was checked."""
    files: tuple[Proof, ...] = ()
    """The first files that were checked."""
    unproved: str = ""
    """The claims without proof; empty: none."""
    since: Instant
    """Since when this holds."""
    who: str
    """Who works on it, or did last: role, host and session; empty: unknown."""
    session_key: str | None
    """Session of its agent; None: unknown."""
    question: str | None = None
    """Its open question to the user; None: none."""
    question_id: str | None = None
    """Id of that question, which an answer must name."""
    files_id: str | None = None
    """Id of the files in its review, which an approval must name; None: there are none."""
    options: tuple[str, ...] = ()
    """Answers that the user may choose."""
    actions: tuple[UserAction, ...] = ()
    """The acts that the user may choose."""
    effects: Mapping[UserAction, str] = {}
    """The effect of each of these acts."""


class TaskNews(Value):
    """The facts of a task for the overview."""

    facts: TaskFacts
    run: Run | None = None
    """Its newest run, which may have ended; None: none."""
    failure: str = ""
    """Why it failed; empty: it did not, or no reason was given."""
    unreached: Unreached | None = None
    """Why its agent cannot be woken; None: it can, or need not."""
    turn_ended: datetime | None = None
    """When its session ended its last turn; None: it may be in one."""
    unheard: bool = False
    """True if its run is held in another home, and neither its owner nor the daemon there is heard
    of."""
    doubt: str = ""
    """Why its completion was refused last; empty: it was not."""
    question: str | None = None
    """The question that its user must answer; None: none."""
    question_id: str | None = None
    files_id: str | None = None
    options: tuple[str, ...] = ()
    seen: Mapping[str, str] = {}
    """The last observations of its waits' targets, by wait id."""
    calls: tuple[PastCall, ...] = ()
    """The newest calls of its newest run, oldest first."""
    proofs: tuple[Proof, ...] | None = None
    """The things it made and claims; None: not looked up."""
    accepted: bool = False
    """True if a person completed it without proof."""
    approved: bool = False
    """True if a person completed it after a review."""
    seen_failed: bool = False
    """True if the person has seen that it failed, and leaves it so."""
    used: ReaderUsage = ReaderUsage()
    """The use of readers for its waits."""
    note: str = ""
    """The agent's note to the user who is to review the task."""
    words: Message | None = None
    """The newest message, or reason of a change, that says more than its calls; None: none does. It
    is the reason of a failure for which none was given."""
    blockers: tuple[str, ...] = ()
    """Names of the tasks that must end before it goes on."""
    halt: str = ""
    """Why its host has ended its agent's turn; empty: it has not, or somebody wrote since."""
    paused_by: str = ""
    """Who paused it, as its thread names them; empty: nobody, or not known."""


class _Standing(NamedTuple):
    section: Section
    says: str
    since: datetime


UNHEARD_TEXT: Final = (
    "not heard of: who held it has let the lease run out, and so has the daemon there; take it "
    "back with taskmem reset TASK"
)
_NEWS_SECTIONS: Final = (Section.AT_WORK, Section.ENDED)
"""Sections whose latest tasks come first; in the others the oldest do."""


def build_line(
    news: TaskNews, now: datetime, stuck_seconds: float, sessions: SessionKeys
) -> TaskLine:
    """Build the line of a task.

    `stuck_seconds`: seconds of silence after which an agent without a run is not at work any more.
    """
    task, run = news.facts.task, news.run
    owner = run and run.owner
    session_key = (run and (run.session_key or (owner and owner.session_key))) or task.session_key
    standing = _describe_standing(news, now, stuck_seconds)
    made, unproved = _summarize_made(news)
    checked = describe_checks(news.proofs or ())
    place = compute_progress(task)
    step = None if place.current is None else clip_step(to_plain_line(task.plan[place.current]))
    asks, seen = news.question is not None, news.seen_failed
    actions = list_actions(news.facts, asks=asks, seen_failed=seen)
    return TaskLine(
        task_id=task.task_id,
        name=to_plain_line(task.name),
        status=task.status,
        section=standing.section,
        says=standing.says,
        done=len(task.done),
        steps=len(task.plan),
        step=step,
        step_number=None if place.current is None else place.current + 1,
        activity=_find_activity(news),
        cost=describe_usage(news.used),
        note=clip(news.note, NOTE_BYTES),
        made=made,
        checked=checked,
        judged=_name_judge(news) if checked else "",
        files=tuple(each for each in news.proofs or () if each.is_checked_file)[:MOST_NAMED_PROOFS],
        unproved=unproved,
        standing=_name_standing(task.status, standing.section),
        since=standing.since,
        who=callers.describe_agent(
            sessions,
            (owner and owner.host) or task.host,
            session_key,
            owner.role if owner else run.role if run else None,
        ),
        session_key=session_key,
        question=news.question,
        question_id=news.question_id,
        files_id=news.files_id,
        options=news.options,
        actions=actions,
        effects={each: describe_effect(news.facts, each, news.unreached) for each in actions},
    )


def _name_standing(status: TaskStatus, section: Section) -> str:
    rests = status is TaskStatus.PAUSED and section is Section.IDLE
    return str(status if status.terminal or rests else section).replace("_", " ")


def _summarize_made(news: TaskNews) -> tuple[str, str]:
    """Return what a task made and who tested it, and what it claims without proof."""
    if news.proofs is None:
        return "", ""
    # A doubt names what was refuted.
    made, unproved = summarize_proofs(news.proofs, refuted=not news.doubt)
    completed = news.facts.task.status is TaskStatus.COMPLETED
    if completed and news.accepted:
        return made, "; ".join(filter(None, (unproved, "accepted by you without proof")))
    return made or ("nothing was seen to be made" if completed else ""), unproved


def _name_judge(news: TaskNews) -> str:
    """Say who judged the content of what a task made."""
    if news.facts.run is not None and news.facts.run.state is RunState.REVIEW:
        return "the content is for you to judge"
    return "you approved the content" if news.approved else "nobody judged the content"


def find_last_words(messages: Sequence[Message], *, is_active: bool) -> Message | None:
    """Return the newest message that somebody wrote, or that has the reason of a change.

    `messages` are the newest, oldest first. `is_active`: only what was heard of who does the work.
    """
    for message in reversed(messages):
        writer = callers.find_writer(message)
        if is_active and writer in (None, CallerKind.USER):
            continue
        tells = writer is not None or lifecycle.is_status_message(message)
        if tells and has_visible_text(lifecycle.read_reason(message)):
            return message
    return None


def _find_activity(news: TaskNews) -> Activity | None:
    """Return the call that runs now, or else what its agent did last; None: unknown."""
    run, failed = news.facts.run, news.facts.task.status is TaskStatus.FAILED
    rests = news.facts.task.status is TaskStatus.PAUSED and news.words is not None
    at_work = run is not None and current_run.is_at_work(run)
    running = [call for call in news.calls if call.ok is None] if at_work else []
    call = next(reversed(running or news.calls), None)
    if call is not None and not rests:
        return Activity(
            what=clip(_name_call(call), _EXCERPT_BYTES),
            at=call.at,
            running=bool(running),
            failed=call.ok is False,
            outcome=call.outcome,
        )
    if news.words is None or failed:  # the line of a failed task quotes its words
        return None
    at, by = news.words.created_at, callers.find_writer(news.words)
    return Activity(what=_quote_words(news.words), at=at, is_call=False, by=by)


def sort_lines(lines: Iterable[TaskLine]) -> Mapping[Section, Sequence[TaskLine]]:
    """Return the lines by section: what has waited longest first, or else the latest."""
    found: dict[Section, list[TaskLine]] = {section: [] for section in Section}
    for line in lines:
        found[line.section].append(line)
    for section, of_it in found.items():
        of_it.sort(key=lambda line: (line.since, line.task_id), reverse=section in _NEWS_SECTIONS)
    return found


def _describe_standing(news: TaskNews, now: datetime, stuck_seconds: float) -> _Standing:
    task, run = news.facts.task, news.facts.run
    judged = (rule(news, now) for rule in _RULES)
    found = next((standing for standing in judged if standing is not None), None)
    if found is not None:
        return found
    heard = task.updated_at if run is None else max(task.updated_at, run.seen_at)
    silent = (now - heard).total_seconds() >= stuck_seconds
    if silent and news.unreached is not None:
        return _describe_unreached("silent", news.unreached, heard)
    if run is not None:
        return _Standing(Section.AT_WORK, "between two turns", run.seen_at)
    if not silent and (why := _explain_rest(news)):
        return _Standing(Section.IDLE, why, task.updated_at)
    if not silent:
        why = "" if news.unreached is None else f" ({to_plain_line(news.unreached.why)})"
        return _Standing(Section.AT_WORK, f"at work, as last heard{why}", task.updated_at)
    return _Standing(Section.IDLE, "silent", task.updated_at)


def _explain_rest(news: TaskNews) -> str:
    """Say why nobody works on an active task now; empty: somebody may."""
    task, unreached = news.facts.task, news.unreached
    if unreached is not None and task.host is None:
        return "no agent is known to work on it"
    if unreached is not None and unreached.closed:
        return to_plain_line(unreached.why)
    ended = news.turn_ended is not None and news.turn_ended >= task.updated_at
    return "its agent has ended its turn" if ended else ""


def _judge_end(news: TaskNews, _: datetime) -> _Standing | None:
    task = news.facts.task
    if not task.status.terminal:
        return None
    if task.status is not TaskStatus.FAILED:
        return _Standing(Section.ENDED, str(task.status), task.updated_at)
    why = to_plain_line(news.failure)
    if not why and news.words is not None:
        writer = callers.find_writer(news.words)
        last = f"{writer.word} said last " if writer else ""
        why = f"{last}{_quote_words(news.words)}"
    says = f"failed: {why}" if why else "failed"
    section = Section.ENDED if news.seen_failed else Section.NEEDS_YOU
    return _Standing(section, says, task.updated_at)


def _judge_need(news: TaskNews, _: datetime) -> _Standing | None:
    need, run = _describe_need(news), news.facts.run
    return _Standing(Section.NEEDS_YOU, need, run.changed_at) if need and run else None


def _judge_work(news: TaskNews, _: datetime) -> _Standing | None:
    run = news.facts.run
    if run is None or not current_run.is_at_work(run):
        return None
    if news.unheard and run.lease_until is not None:
        return _Standing(Section.WAITING, UNHEARD_TEXT, run.lease_until)
    return _Standing(Section.AT_WORK, "at work", run.limits.turn_began_at or run.changed_at)


def _judge_doubt(news: TaskNews, _: datetime) -> _Standing | None:
    if not news.doubt:
        return None
    says = f"not proved: {clip(to_plain_line(news.doubt), _EXCERPT_BYTES)}"
    return _Standing(Section.NEEDS_YOU, says, news.facts.task.updated_at)


def _judge_waits(news: TaskNews, _: datetime) -> _Standing | None:
    watched = [w for w in news.facts.waits if w.status is WaitStatus.WATCHING]
    if not watched:
        return None
    return _Standing(Section.WAITING, _describe_wait(watched, news.seen), watched[0].armed_at)


def _judge_blocked(news: TaskNews, _: datetime) -> _Standing | None:
    task = news.facts.task
    if not news.blockers or task.status is not TaskStatus.ACTIVE:
        return None
    first = f"“{clip(to_plain_line(news.blockers[0]), _EXCERPT_BYTES)}”"
    more = f" and {len(news.blockers) - 1} more" if len(news.blockers) > 1 else ""
    return _Standing(Section.WAITING, f"blocked by {first}{more}", task.updated_at)


def _judge_rest(news: TaskNews, _: datetime) -> _Standing | None:
    task, run = news.facts.task, news.facts.run
    stopped = run is not None and run.why == RunReason.STOPPED
    if task.status is TaskStatus.PAUSED and not stopped:
        by = "you" if news.paused_by == callers.THE_USER else to_plain_line(news.paused_by)
        return _Standing(Section.IDLE, f"paused by {by}" if by else "paused", task.updated_at)
    if run is None or run.state is not RunState.BLOCKED:
        return None
    what = current_run.describe_need(run)
    return _Standing(Section.IDLE, f"waits for {what}" if what else "stopped", run.changed_at)


def _judge_halt(news: TaskNews, _: datetime) -> _Standing | None:
    if not news.halt:
        return None
    says = f"its host has ended its agent's turn: {clip(to_plain_line(news.halt), _EXCERPT_BYTES)}"
    return _Standing(Section.NEEDS_YOU, says, news.facts.task.updated_at)


def _judge_unreached(news: TaskNews, now: datetime) -> _Standing | None:
    """Judge a task that goes on only if its agent is woken, which nobody can."""
    run = news.facts.run
    kept = next((w for w in news.facts.wakes if callers.is_kept(w)), None)
    queued = run is not None and run.state is RunState.QUEUED
    since = kept.created_at if kept else run.changed_at if run and queued else None
    if news.unreached is None or since is None or now - since < callers.UNREACHED_DELAY:
        return None
    return _describe_unreached("waits for its agent", news.unreached, since)


def _describe_unreached(event: str, unreached: Unreached, since: datetime) -> _Standing:
    says = f"{event}, and {to_plain_line(unreached.why)}. {unreached.cure}"
    return _Standing(Section.NEEDS_YOU, says, since)


def _judge_queue(news: TaskNews, _: datetime) -> _Standing | None:
    run = news.facts.run
    if run is None or run.state is not RunState.QUEUED:
        return None
    says = "is to go on" if run.session_key else f"queued for {run.role or 'anybody'}"
    return _Standing(Section.WAITING, says, run.changed_at)


_RULES: Final = (
    _judge_end,
    _judge_need,
    _judge_work,
    _judge_doubt,
    _judge_waits,
    _judge_blocked,
    _judge_rest,
    _judge_halt,
    _judge_unreached,
    _judge_queue,
)
"""Standings of a task, the most important first; each returns None if it does not hold."""


def _describe_need(news: TaskNews) -> str:
    """Say what an open task needs of its user; empty: nothing."""
    run = news.facts.run
    if run is None or (not current_run.needs_word(run) and run.state is not RunState.REVIEW):
        return ""
    if run.why == RunReason.STOPPED:
        return ""
    if current_run.has_open_question(run):
        asked = news.question or run.dialogue.question or ""
        return f"asks: {to_plain_line(asked)}"
    if run.state is RunState.REVIEW:
        note = clip(to_plain_line(news.note), _EXCERPT_BYTES)
        return f"is to be reviewed: {note}" if note else "is to be reviewed"
    return f"waits for {current_run.describe_need(run) or 'your word'}"


def _describe_wait(watched: Sequence[Wait], seen: Mapping[str, str]) -> str:
    """Say what a task waits for, and what was last seen there."""
    targets = ", ".join(dict.fromkeys(describe_target(wait.target) for wait in watched))
    newest = next((seen[w.wait_id] for w in watched if seen.get(w.wait_id)), None)
    shown = f". {to_plain_line(newest)}" if newest else ""
    return f"waits for {describe_wait(watched[0]) if len(watched) == 1 else targets}{shown}"


# --- faults of Task memory itself ---------------------------------------------


_UNKNOWN_EFFECT: Final = "Some of what is shown here may be missing."


class DoctorFault(Value):
    """One thing that is broken."""

    what: str
    follows: str
    """The effect for the user, in one sentence."""


def list_faults(
    rows: Sequence[Mapping[str, Any]],
    plugins: Sequence[Mapping[str, Any]],
    *,
    full: bool,
    loss: str | None = None,
) -> Sequence[DoctorFault]:
    """Return what is broken, each thing once.

    Args:
        rows: The rows of the doctor's last report; empty: it has not looked yet.
        plugins: The plug-ins, each with its `name`, `state` and `last_error`.
        full: True if the database is too large and nothing more may be dropped.
        loss: What is gone from the database; None: nothing.
    """
    found: dict[str, DoctorFault] = {}
    for plugin in plugins:
        if plugin["state"] == "failed":
            why = f": {str(plugin['last_error']).rstrip('.')}" if plugin["last_error"] else ""
            found["plugin"] = _build_fault(
                f"The plug-in {plugin['name']} has failed{why}.", "What it does is missing."
            )
    if loss is not None:
        found["database"] = _build_fault(loss, "Tasks and what was said in them are missing.")
    if full:
        sentence = "The database is larger than it may be."
        found["kept"] = _build_fault(sentence, "Nothing more can be dropped to make room.")
    for row in rows:
        if row["state"] == DoctorState.FAIL:
            subject, effect = str(row["id"]).partition(".")[0], row.get("effect")
            found.setdefault(subject, _build_fault(row["detail"], effect or _UNKNOWN_EFFECT))
    return [*found.values()]


def _build_fault(what: str, follows: str) -> DoctorFault:
    return DoctorFault(what=to_plain_line(what), follows=to_plain_line(follows))
