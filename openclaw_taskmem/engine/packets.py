"""Build a resume packet: with plug-ins, else the core alone, else the minimal text."""

from __future__ import annotations

import logging
from typing import Any

from pydantic import JsonValue

from openclaw_taskmem.domain.changes import handoff
from openclaw_taskmem.domain.tasks import lifecycle, thread
from openclaw_taskmem.domain.text import redaction
from openclaw_taskmem.domain.wakes import packet
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.run_history import read_past_work
from taskmem_hookspecs import (
    Message,
    PlanRevision,
    ResumeFacts,
    ResumePacket,
    Run,
    StuckVerdict,
    Task,
    TaskFacts,
)

log = logging.getLogger(__name__)


def render_packet(
    context: Context,
    facts: TaskFacts,
    verdict: StuckVerdict,
    wake_id: str,
    *,
    plain: bool,
    marker: str = packet.MARKER,
    background: str | None = None,
    words: str | None = None,
) -> tuple[str, JsonValue]:
    """Return a packet's text, and its content as JSON; None: it is the minimal text.

    `plain` skips the plug-ins. `background` is the text for an agent that is moved to the
    background. `words` are what the user says with it, whether in the thread yet or not. Never
    raises: there is always a text. Source: docs/origins.md, "The resume packet".
    """
    try:
        messages = tuple(context.store.read_records(Message, facts.task.task_id, thread.READ))
        if words and words not in (each.content for each in messages[-2:]):
            answer = lifecycle.build_answer_message(facts.task, words, context.clock.now())
            messages = (*messages, answer)
        told_session = facts.run.told_session if facts.run else None
        if told_session is not None:
            background = handoff.describe_background(told_session, messages, context.sessions)
        known = ResumeFacts(
            task=facts.task,
            waits=facts.waits,
            messages=messages,
            background=background,
            verdict=verdict,
            wake_id=wake_id,
            now=context.clock.now(),
            **_collect_past_facts(context, facts),
        )
        built = (packet.build_packet if plain else context.plugin_host.build_resume_packet)(known)
        fitted = _fit_scrubbed(built)
        if not packet.is_small_enough(fitted):
            log.warning("a plug-in's packet is too large; the core's goes out")
            fitted = _fit_scrubbed(packet.build_packet(known))
        return packet.encode_packet(fitted, marker), fitted.model_dump(mode="json")
    except Exception:
        log.exception("no packet for %s; the minimal text goes out", facts.task.task_id)
        return packet.build_minimal_packet(facts.task, verdict, wake_id, marker), None


def render_resume_text(
    context: Context,
    facts: TaskFacts,
    wake_id: str,
    reason: str,
    *,
    plain: bool = True,
    answer: str | None = None,
    asked: bool = False,
    background: str | None = None,
) -> str:
    """Return the packet for an agent that is to go on with a task, with the `reason`.

    `plain` skips the plug-ins, for a caller who cannot wait for them. `answer` is what the user
    says to the task; None: nothing. `asked`: the task had asked for it. `background`: see
    `render_packet`.
    """
    idle = context.clock.now() - facts.task.updated_at
    verdict = StuckVerdict(idle_seconds=max(idle.total_seconds(), 0.0), reason=reason)
    text, _ = render_packet(
        context,
        facts,
        verdict,
        wake_id,
        plain=plain,
        marker=packet.REMINDER,
        background=background,
        words=answer,
    )
    if not answer:
        return text
    return packet.append_words(text, redaction.scrub(answer), asked=asked)


def _collect_past_facts(context: Context, facts: TaskFacts) -> dict[str, Any]:
    """Return the packet facts about a task's calls, dropped intents and running work."""
    task_id = facts.task.task_id
    past = read_past_work(context, task_id)
    revisions = context.store.read_records(PlanRevision, task_id)
    still_running = context.live.running_work.get(get_session_key(facts.task, facts.run), ())
    return {
        "run": facts.run,
        "done_calls": packet.list_done_calls(past.calls),
        "cut_calls": packet.list_cut_calls(past.calls),
        "dropped": packet.list_dropped_intents(facts.task, revisions, facts.waits),
        "earlier_calls": past.unread,
        "last_response": past.last_response,
        "conversation": past.messages,
        "still_running": tuple(redaction.scrub(each.format_line()) for each in still_running),
    }


def get_session_key(task: Task, run: Run | None) -> str:
    """Return the session in which a task is worked on; empty: none."""
    return (run and run.session_key) or task.session_key or ""


def _fit_scrubbed(built: ResumePacket) -> ResumePacket:
    clean = redaction.scrub_json(built.model_dump(mode="json"))
    return packet.fit_packet(ResumePacket.model_validate(clean))
