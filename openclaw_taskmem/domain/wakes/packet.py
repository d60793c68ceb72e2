"""Build the resume packet from facts, fit it to its size, and put it into its envelope.

The envelope is `[task_stuck_resume] {json}` on one line. Whatever the thread contains, the JSON
stays within 4,096 bytes, and no text in it can pass for another envelope. Source: docs/origins.md,
"The resume packet".
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from pydantic import JsonValue, ValidationError

from openclaw_taskmem.domain.effects.checkpoints import PastCall
from openclaw_taskmem.domain.effects.side_effects import GRAVEST_FIRST, Effect, is_shell, judge_call
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.tasks import plan, thread
from openclaw_taskmem.domain.text.texts import (
    clip,
    clip_start,
    disarm_json,
    quote_line,
    quote_step,
    to_epoch,
    to_one_line,
    to_plain_line,
)
from taskmem_hookspecs import (
    PlanRevision,
    ResumeFacts,
    ResumePacket,
    StuckVerdict,
    Task,
    Wait,
    WaitStatus,
)
from taskmem_hookspecs.packet import AlsoStuck, ConversationMessage, PacketMessage, PacketWait

# --- the past -----------------------------------------------------------------


LINE_BYTES: Final = 160


def list_done_calls(calls: Sequence[PastCall]) -> tuple[str, ...]:
    """List the calls that succeeded, or ended nobody tells how, and had an effect, a line each.

    `calls` are oldest first; the lines begin with the gravest, and among equals with the newest.
    Equal lines are one, with their number.
    """
    made = [call for call in reversed(calls) if call.ok or call.untold]
    made = [call for call in made if _find_effect(call) is not Effect.NOTHING]
    made.sort(key=lambda call: GRAVEST_FIRST.index(_find_effect(call)))
    lines = Counter(_format_call(call) for call in made)
    return tuple(line if times == 1 else f"{line}, {times} times" for line, times in lines.items())


def list_cut_calls(calls: Iterable[PastCall]) -> tuple[str, ...]:
    """List the calls that may or may not have been done, oldest first.

    A call that was made again is judged by its last attempt.
    """
    lost: dict[tuple[str, str], PastCall] = {}
    for call in calls:
        lost.pop((call.tool, call.about), None)
        if _is_outcome_unknown(call):
            lost[call.tool, call.about] = call
    return tuple(_format_call(call) for call in lost.values())


def _is_outcome_unknown(call: PastCall) -> bool:
    """True if a call may have been done although no success was seen.

    That is one whose end was not seen; one that failed outside, for a payment whose answer timed
    out may have arrived; and a command that failed without an exit status, so did not end itself.
    """
    if call.ok is not False:
        return call.ok is None and not call.untold
    effect = _find_effect(call)
    unanswered = call.exit_code is None and is_shell(call.tool)
    return effect is Effect.OUTSIDE or (unanswered and effect is not Effect.NOTHING)


def _find_effect(call: PastCall) -> Effect:
    """Return what a call may have changed."""
    return call.effect or judge_call(call.tool, call.about)


def list_dropped_intents(
    task: Task, revisions: Sequence[PlanRevision], waits: Sequence[Wait]
) -> tuple[str, ...]:
    """List the steps that are no longer in the plan, then the cancelled waits."""
    now = {plan.identify_step(step) for step in task.plan}
    gone = dict.fromkeys(
        step
        for revision in revisions
        for step in revision.old_plan
        if plan.identify_step(step) not in now
    )
    steps = [f"step: {_format_line(step)}" for step in gone]
    called_off = [
        f"wait: {_format_line(wait.target)} until {_format_line(wait.wake_when)}"
        for wait in waits
        if wait.status is WaitStatus.CANCELLED
    ]
    return (*steps, *called_off)


def _format_call(call: PastCall) -> str:
    about = f": {_format_line(call.about)}" if call.about else ""
    ended = "" if call.exit_code is None else f" (exit {call.exit_code})"
    if call.untold:
        ended = " (how it ended is not known: look)"
    return f"{call.tool}{about}{ended}"


def _format_line(text: str) -> str:
    return clip(to_one_line(text), LINE_BYTES)


# --- shortening ---------------------------------------------------------------


Lines = tuple[str, ...] | None
_Spoken = tuple[ConversationMessage, ...] | None
_Smaller = Callable[[ResumePacket], ResumePacket]
_MOST_WAITS: Final = 10
"""Most active waits to name once the packet is too long."""


def _clip_conversation(
    lines: Sequence[ConversationMessage] | None, most: int, size: int
) -> _Spoken:
    """Shorten the newest messages of a conversation; None: there are none, or `most` is 0."""
    return (
        tuple(
            line.model_copy(update={"text": clip(to_one_line(line.text), size)})
            for line in (lines or ())[-most:]
        )
        if most
        else None
    ) or None


def _clip_first_lines(lines: Sequence[str] | None, most: int, size: int) -> Lines:
    """Shorten the first lines of what runs; None: nothing is known to run."""
    return tuple(clip(to_one_line(line), size) for line in (lines or ())[:most]) or None


def _drop_extra(packet: ResumePacket) -> ResumePacket:
    return packet.model_copy(update={"extra": None})


def _shorten_messages(size: int, most: int = thread.MOST_CHOSEN) -> _Smaller:
    def smaller(packet: ResumePacket) -> ResumePacket:
        kept = packet.recent_messages[-most:] if most else ()
        return packet.model_copy(
            update={
                "recent_messages": tuple(
                    message.model_copy(update={"content": clip(to_one_line(message.content), size)})
                    for message in kept
                )
            }
        )

    return smaller


def _shorten_past(most: int, size: int) -> _Smaller:
    """Keep the gravest of what was done, and the newest of what was cut and dropped.

    Each line is shortened, and those left out are counted.
    """

    def short(lines: Lines) -> Lines:
        return lines and tuple(clip(to_one_line(line), size) for line in lines)

    def newest(lines: Lines) -> Lines:
        return lines and lines[-most:]

    def smaller(packet: ResumePacket) -> ResumePacket:
        past = (packet.do_not_redo, packet.unknown_outcome, packet.do_not_revive)
        gone = sum(max(len(lines or ()) - most, 0) for lines in past)
        done = packet.do_not_redo and packet.do_not_redo[:most]
        cut, dropped = map(newest, past[1:])
        return packet.model_copy(
            update={
                "do_not_redo": short(done),
                "unknown_outcome": short(cut),
                "do_not_revive": short(dropped),
                "past_more": (packet.past_more or 0) + gone or None,
            }
        )

    return smaller


def _shorten_conversation(most: int, size: int) -> _Smaller:
    """Keep the newest messages of the conversation, shortened."""

    def smaller(packet: ResumePacket) -> ResumePacket:
        lines = _clip_conversation(packet.conversation, most, size)
        return packet.model_copy(update={"conversation": lines})

    return smaller


def _shorten_request(size: int, *, runs: int) -> _Smaller:
    """Shorten the background, the request, the last words and the first `runs` lines of what runs.

    The background may be twice as long as the others.
    """

    def smaller(packet: ResumePacket) -> ResumePacket:
        return packet.model_copy(
            update={
                "background": packet.background and clip(packet.background, size * 2),
                "original_request": packet.original_request and clip(packet.original_request, size),
                "last_response": packet.last_response and clip_start(packet.last_response, size),
                "still_running": _clip_first_lines(packet.still_running, runs, size),
            }
        )

    return smaller


def _shorten_plan(size: int) -> _Smaller:
    def smaller(packet: ResumePacket) -> ResumePacket:
        return packet.model_copy(
            update={"plan": tuple(clip(to_one_line(step), size) for step in packet.plan)}
        )

    return smaller


def _window_plan(steps: int) -> _Smaller:
    """Keep that many entries of the plan, around the current step."""

    def smaller(packet: ResumePacket) -> ResumePacket:
        if len(packet.plan) <= steps:
            return packet
        start = packet.plan_from or 0
        current = packet.progress.current
        centre = len(packet.plan) - 1 if current is None else current - start
        first = min(max(0, centre - steps // 3), len(packet.plan) - steps)
        return packet.model_copy(
            update={"plan": packet.plan[first : first + steps], "plan_from": start + first}
        )

    return smaller


def _shorten_sentences(size: int) -> _Smaller:
    """Shorten the name, the sentences and the other tasks."""

    def smaller(packet: ResumePacket) -> ResumePacket:
        others = packet.also_stuck
        return packet.model_copy(
            update={
                "name": clip(packet.name, size),
                "reason": clip(packet.reason, size * 2),
                "suggested_next_action": clip(packet.suggested_next_action, size * 3),
                "also_stuck": others
                and tuple(
                    AlsoStuck(
                        task_id=other.task_id,
                        name=clip(other.name, size // 2),
                        reason=clip(other.reason, size),
                    )
                    for other in others
                ),
            }
        )

    return smaller


def _cap_waits(packet: ResumePacket) -> ResumePacket:
    ids = packet.wait.active_wait_ids[:_MOST_WAITS]
    return packet.model_copy(
        update={"wait": packet.wait.model_copy(update={"active_wait_ids": ids})}
    )


_LADDER: Final[tuple[_Smaller, ...]] = (
    _shorten_past(12, 160),
    _drop_extra,
    _shorten_conversation(3, 120),
    _shorten_messages(600),
    _shorten_messages(320),
    _shorten_conversation(2, 80),
    _shorten_past(12, 100),
    _shorten_plan(160),
    _shorten_request(300, runs=4),
    _shorten_sentences(200),
    _shorten_plan(80),
    _shorten_messages(160),
    _shorten_conversation(0, 0),
    _shorten_past(8, 80),
    _window_plan(30),
    _shorten_plan(48),
    _window_plan(12),
    _shorten_messages(120, most=3),
    _shorten_request(160, runs=2),
    _shorten_sentences(96),
    _cap_waits,
    _shorten_past(4, 60),
    _window_plan(5),
    _shorten_request(80, runs=1),
    _shorten_messages(60, most=3),
    _shorten_sentences(48),
    _shorten_past(2, 48),
    _shorten_messages(0, most=0),
)


# --- the packet ---------------------------------------------------------------


MARKER: Final = "[task_stuck_resume]"
"""Marker of a stuck task's packet."""
REMINDER: Final = "[task_resume]"
"""Marker of the packet of a task that its agent may have forgotten."""
_ANSWER_PREFIX: Final = "The user answers:"
"""Begins the line after the packet with the user's answer, as a JSON string."""
_WORDS_PREFIX: Final = "The user says:"
"""Begins that line if nothing was asked."""
LIMIT: Final = 4096
"""Most bytes of JSON."""
_MOST_SPOKEN: Final = 3
"""Most messages of the conversation in a packet."""
MOST_RUNNING: Final = 8
"""Most running commands and sub-agents in a packet."""
MOST_STUCK_TASKS: Final = 10
"""Most other stuck tasks in a packet."""

_OPTIONAL_FIELDS: Final = (
    "plan_from",
    "background",
    "original_request",
    "last_response",
    "conversation",
    "still_running",
    "do_not_redo",
    "unknown_outcome",
    "do_not_revive",
    "past_more",
    "urgency",
    "extra",
    "also_stuck",
    "also_stuck_more",
)


def build_packet(facts: ResumeFacts) -> ResumePacket:
    """Build the core's packet, before it is fitted to its size."""
    task = facts.task
    mentions = thread.StepMentions(facts.messages, facts.revisions, task.plan)
    return ResumePacket(
        wake_id=facts.wake_id,
        task_id=task.task_id,
        name=task.name,
        status=task.status,
        progress=plan.compute_progress(task),
        plan=task.plan,
        recent_messages=tuple(
            PacketMessage(
                role=message.role,
                msg_type=message.msg_type,
                content=f"({old}) {message.content}" if old else message.content,
                created_at=message.created_at.replace(microsecond=0),
            )
            for message in thread.choose_meaningful(facts.messages)
            for old in (mentions.describe_old_steps(message),)
        ),
        wait=PacketWait(
            active_wait_ids=task.linkage.active_wait_ids,
            last_wait_state=task.linkage.last_wait_state,
            last_wait_event_at=to_epoch(task.linkage.last_wait_event_at),
        ),
        reason=facts.verdict.reason,
        suggested_next_action=suggest_action(facts),
        background=facts.background and clip(facts.background, 1200),
        original_request=task.original_request and clip(to_one_line(task.original_request), 800),
        last_response=facts.last_response and clip_start(to_one_line(facts.last_response), 400),
        conversation=_clip_conversation(facts.conversation, _MOST_SPOKEN, 200),
        still_running=_clip_first_lines(facts.still_running, MOST_RUNNING, 200),
        do_not_redo=facts.done_calls or None,
        unknown_outcome=facts.cut_calls or None,
        do_not_revive=facts.dropped or None,
        past_more=facts.earlier_calls or None,
        urgency="high" if facts.verdict.urgent else None,
    )


def suggest_action(facts: ResumeFacts) -> str:
    """Say what to do next, by simple rules."""
    task = facts.task
    ended = [wait for wait in facts.waits if wait.ended_at is not None]
    last = max(ended, key=lambda wait: wait.changed_at, default=None)
    progress = plan.compute_progress(task)
    if facts.run is not None and current_run.has_open_question(facts.run):
        asked = quote_line(to_plain_line(facts.run.dialogue.question or ""), 600)
        return (
            f"You had asked the user: {asked} Act on their answer; until it comes, "
            "leave the task as it is."
        )
    if facts.cut_calls:
        return (
            f"Look first what became of {clip(facts.cut_calls[-1], 200)}: it was cut "
            "or failed, and may or may not have been done. Then go on with the plan."
        )
    if last is not None and last.status in (WaitStatus.TIMEOUT, WaitStatus.ERROR):
        return (
            f"Look at {clip(last.target, 80)} first: the last wait there ended as "
            f"{last.status}. Then go on with the plan, or wait again."
        )
    if progress.current is None:
        return _suggest_end(facts)
    if task.implicit:
        return "Finish what the user asked for, and answer them; nothing need be reported."
    step = quote_step(task.plan[progress.current], 200)
    before = ""
    if task.blocked_by:
        named = ", ".join(task.blocked_by[:_MOST_WAITS])
        before = f"Leave it until {named} has ended, which blocks it. Then: "
    return (
        f"{before}Go on with step {progress.current + 1}, {step} (counted from 0: "
        f"{progress.current}), then report with task_update; if you cannot, say why and set "
        "the status."
    )


def _suggest_end(facts: ResumeFacts) -> str:
    """Say what to do with a task whose steps are all marked done."""
    if thread.has_user_spoken_last(facts.messages):
        return (
            "All steps are marked done, but the user has spoken since: do first what "
            "they say, and reopen with reopened_steps what that undoes. Where it was "
            "with them for review, complete it if they accept it, else hand it off "
            "for review again when done."
        )
    refused = next(filter(thread.is_refusal, thread.find_decisions(facts.messages)), None)
    if refused is not None:
        return (
            f"All steps are marked done. {clip(refused.content, 600)} Mend that, then call "
            'task_update with status "completed".'
        )
    return (
        "All steps are marked done: check the result, then call task_update "
        'with status "completed".'
    )


def encode_packet(packet: ResumePacket, marker: str = MARKER) -> str:
    """Write the wake's text: the marker and the packet's JSON, on one line."""
    return f"{marker} {_dump_safe_json(_to_fields(packet))}"


def append_words(text: str, words: str, *, asked: bool) -> str:
    """Append the user's words, in full, to a packet's text."""
    return f"{text}\n{_ANSWER_PREFIX if asked else _WORDS_PREFIX} {_dump_safe_json(words)}"


def has_words(text: str, words: str) -> bool:
    """Tell whether the user's words were appended to a packet's text."""
    return any(text == append_words(text.partition("\n")[0], words, asked=a) for a in (True, False))


def decode_packet(text: str) -> ResumePacket | None:
    """Parse a stuck task's packet in a wake's text; None: it has none, or a damaged one."""
    if not text.startswith(f"{MARKER} "):
        return None
    try:
        return ResumePacket.model_validate_json(text[len(MARKER) :])
    except ValidationError:
        return None


def read_wake_id(text: str) -> str | None:
    """Return the id of the wake whose packet a text is; None: it is no packet of a stuck task."""
    try:
        return (
            str(json.loads(text.removeprefix(MARKER))["wake_id"]) if MARKER in text[:99] else None
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def build_minimal_packet(
    task: Task, verdict: StuckVerdict, wake_id: str, marker: str = MARKER
) -> str:
    """Write the text to send when no packet can be built.

    It needs only fields that every task has.
    """
    return f"{marker} " + _dump_safe_json(
        {
            "v": 1,
            "wake_id": wake_id,
            "task_id": task.task_id,
            "name": clip(task.name, 600),
            "status": task.status.value,
            "reason": clip(verdict.reason, 400),
            "suggested_next_action": (
                f'Call task_update with task_id "{task.task_id}" and a query to '
                "see where the task stands, then go on."
            ),
        }
    )


def build_away_reminder(task: Task, wake_id: str, reason: str) -> str:
    """Write the reminder of a task for a session that must not work on it.

    It has neither a plan nor a next action, so that the agent does not act on them.
    """
    return f"{REMINDER} " + _dump_safe_json(
        {
            "v": 1,
            "wake_id": wake_id,
            "task_id": task.task_id,
            "name": clip(task.name, 600),
            "status": task.status.value,
            "reason": reason,
        }
    )


def add_other_tasks(text: str, others: Sequence[str]) -> str:
    """Add the tasks of other stuck wakes to a stuck wake's text."""
    packet = decode_packet(text)
    named = [each for other in others if (each := parse_other_task(other)) is not None]
    if not named:
        return text
    if packet is None:
        return _add_to_damaged_text(text, named)
    more = len(named) - MOST_STUCK_TASKS
    return encode_packet(
        fit_packet(
            packet.model_copy(
                update={
                    "also_stuck": tuple(named[:MOST_STUCK_TASKS]),
                    "also_stuck_more": more if more > 0 else None,
                }
            )
        )
    )


def _add_to_damaged_text(text: str, named: Sequence[AlsoStuck]) -> str:
    """Add other tasks to a text that is no whole packet, such as a minimal one."""
    fields = json.loads(text[len(MARKER) :])
    for count in range(min(len(named), MOST_STUCK_TASKS), -1, -1):
        shown = [
            {
                "task_id": other.task_id,
                "name": clip(to_one_line(other.name), 80),
                "reason": clip(to_one_line(other.reason), 80),
            }
            for other in named[:count]
        ]
        fields["also_stuck"] = shown
        if len(named) > count:
            fields["also_stuck_more"] = len(named) - count
        if len(_dump_safe_json(fields).encode()) <= LIMIT:
            break
    return f"{MARKER} {_dump_safe_json(fields)}"


def parse_other_task(text: str) -> AlsoStuck | None:
    """Return the task that a stuck wake's text names; None: it is damaged."""
    try:
        fields = json.loads(text.removeprefix(MARKER))
        return AlsoStuck(task_id=fields["task_id"], name=fields["name"], reason=fields["reason"])
    except (ValueError, KeyError, TypeError):
        return None


def is_small_enough(packet: ResumePacket, limit: int = LIMIT) -> bool:
    """True if a packet's JSON has at most `limit` bytes.

    Disarming only lengthens a text, so a packet that is too long before is not disarmed.
    """
    text = _dump_json(_to_fields(packet))
    return len(text.encode(errors="replace")) <= limit and len(disarm_json(text).encode()) <= limit


def fit_packet(packet: ResumePacket, limit: int = LIMIT) -> ResumePacket:
    """Shorten a packet step by step until its JSON fits.

    Past calls beyond 12 of a kind are dropped first, then what plug-ins added; then messages and
    plan entries are shortened, then the conversation and the ends of the plan are dropped, at last
    all messages. The two gravest effects, the user's request and the last words stay, shortened;
    `progress` stays whole.
    """
    for smaller in _LADDER:
        if is_small_enough(packet, limit):
            return packet
        packet = smaller(packet)
    return packet


def _to_fields(packet: ResumePacket) -> dict[str, JsonValue]:
    """Return a packet's fields as JSON values, without the optional ones that it does not have."""
    fields = packet.model_dump(mode="json")
    for name in _OPTIONAL_FIELDS:
        if fields[name] is None:
            del fields[name]
    return fields


def _dump_safe_json(fields: object) -> str:
    return disarm_json(_dump_json(fields))


def _dump_json(fields: object) -> str:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
