"""The steps by which a resume packet is shortened until its JSON fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from openclaw_taskmem.domain.tasks import thread
from openclaw_taskmem.domain.text.texts import clip, clip_start, to_one_line
from taskmem_hookspecs import AlsoStuck, ConversationMessage, ResumePacket

Lines = tuple[str, ...] | None
Spoken = tuple[ConversationMessage, ...] | None
_Smaller = Callable[[ResumePacket], ResumePacket]
_WAITS: Final = 10
"""Most active waits to name once the packet is too long."""


def clip_conversation(lines: Sequence[ConversationMessage] | None, most: int, size: int) -> Spoken:
    """Shorten the newest messages of a conversation; None: there are none, or `most` is 0."""
    return (
        tuple(
            line.model_copy(update={"text": clip(to_one_line(line.text), size)})
            for line in (lines or ())[-most:]
        )
        if most
        else None
    ) or None


def clip_first_lines(lines: Sequence[str] | None, most: int, size: int) -> Lines:
    """Shorten the first lines of what runs; None: nothing is known to run."""
    return tuple(clip(to_one_line(line), size) for line in (lines or ())[:most]) or None


def _drop_extra(packet: ResumePacket) -> ResumePacket:
    return packet.model_copy(update={"extra": None})


def _shorten_messages(size: int, most: int = thread.MOST) -> _Smaller:
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
        lines = clip_conversation(packet.conversation, most, size)
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
                "still_running": clip_first_lines(packet.still_running, runs, size),
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
    ids = packet.wait.active_wait_ids[:_WAITS]
    return packet.model_copy(
        update={"wait": packet.wait.model_copy(update={"active_wait_ids": ids})}
    )


LADDER: Final[tuple[_Smaller, ...]] = (
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
