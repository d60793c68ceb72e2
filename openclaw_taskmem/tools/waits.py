"""The tools on waits: open, update and cancel one. Source: docs/origins.md, "Waits"."""

from __future__ import annotations

from typing import Final

from pydantic import JsonValue

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.changes.waits import Refinement
from openclaw_taskmem.domain.conditions import targets
from openclaw_taskmem.domain.conditions.conditions import parse_condition, read_signals
from openclaw_taskmem.domain.conditions.words import scan_words
from openclaw_taskmem.domain.text.odd_words import MASK
from openclaw_taskmem.domain.text.redaction import scrub, scrub_cut
from openclaw_taskmem.domain.text.texts import (
    clip,
    end_sentence,
    quote_line,
    to_one_line,
    to_plain_line,
)
from openclaw_taskmem.engine import waits
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.waits import ArmedWait
from openclaw_taskmem.tools import forms
from openclaw_taskmem.tools.tool import Answer, Tool
from taskmem_hookspecs import Condition, InvalidArguments, Wait, WaitStatus

SHOWN_LINES: Final = 3
"""Lines of the target that an answer shows at most."""
SHOWN_BYTES: Final = 48
"""Bytes up to which lines before the last one are shown."""
_NO_WAKE: Final = (
    "No wake comes: run what `command` says, in the background only if your host tells you when "
    "it ends."
)
_LINE_BYTES: Final = 200
_NOTE_BYTES: Final = 600


def smart_wait(context: Context, form: forms.SmartWait, caller: Caller) -> Answer:
    """Open a wait and say what is watched."""
    awaited = [(form.target, _read_condition(form, targets.find_only_condition(form.target)))]
    for part in form.also or ():
        only = targets.find_only_condition(part.target)
        awaited.append((part.target, _read_condition(part, only)))
    is_instant = all(targets.is_instant(target) for target, _ in awaited)
    is_open_ended = is_instant and "timeout" not in form.model_fields_set
    armed = waits.open_wait(
        context,
        awaited,
        needs_all=form.all,
        timeout_seconds=forms.LONGEST_WAIT if is_open_ended else form.timeout,
        poll_seconds=form.poll_interval,
        task_id=form.task_id,
        caller=caller,
    )
    again = f"This was watched already{_describe_earlier_end(armed)}, so no second wait was made."
    sentences = [again] if armed.was is not None else ["Monitoring."] if armed.reached else []
    if armed.reached:
        sentences.append(f"I'll wake you when: {_format_condition(armed.wait)}")
    if not is_open_ended and (armed.reached or "timeout" not in form.model_fields_set):
        sentences.append(f"Timeout: {armed.wait.timeout_seconds:.10g}s.")
    if armed.joined is not None:
        name = quote_line(to_plain_line(armed.joined), 80)
        sentences.append(f"It belongs to your task {name}.")
    return _build_armed_answer(context, armed, " ".join(sentences))


def wait_update(context: Context, form: forms.WaitUpdate, caller: Caller) -> Answer:
    """Arm a wait again and say how it had ended."""
    asked = form.wake_when is not None or form.signals is not None
    request = Refinement(
        wake_when=_read_condition(form).sentence if asked else None,
        timeout_seconds=form.timeout,
        note=form.message,
    )
    armed = waits.rearm_wait(context, form.wait_id, request, caller)
    watched = f"Resumed{_describe_earlier_end(armed)}."
    if armed.reached:
        watched += f" Watching for: {_format_condition(armed.wait)}"
    seconds = f"{armed.wait.timeout_seconds:.10g}"
    return _build_armed_answer(context, armed, f"{watched} New timeout: {seconds}s.")


def wait_cancel(context: Context, form: forms.WaitCancel, caller: Caller) -> Answer:
    """Cancel a wait; if it has ended, say how."""
    before = waits.cancel_wait(context, form.wait_id, form.reason, caller)
    if before.status is not WaitStatus.WATCHING:
        return {
            "wait_id": before.wait_id,
            "status": before.status,
            "message": (
                f"Nothing to cancel: the wait had ended as {before.status} already"
                f"{_format_end(before)}"
            ),
        }
    reason = f" Reason: {to_one_line(form.reason)}" if form.reason else ""
    return {
        "wait_id": before.wait_id,
        "status": WaitStatus.CANCELLED,
        "message": f"Wait cancelled.{reason}",
    }


def _build_armed_answer(context: Context, armed: ArmedWait, watched: str) -> Answer:
    """Answer that a wait is watched, and how its agent learns of the end."""
    wait = armed.wait
    answer: Answer = {
        "wait_id": wait.wait_id,
        "status": wait.status,
        "target": wait.target,
        "understood": _list_understood(armed),
    }
    if not armed.reached:
        answer["command"] = f"{context.command} wait {wait.wait_id}"
    hears = "End your turn now." if armed.reached else _NO_WAKE
    answer["message"] = f"{watched} {hears} {_describe_target(armed)}".strip()
    return answer


def _read_condition(
    form: forms.SmartWait | forms.AlsoAwaited | forms.WaitUpdate, default: str | None = None
) -> Condition:
    """Return the condition of a call, from its sentence, its signals or the default."""
    if not isinstance(form, forms.AlsoAwaited) and form.signals is not None:
        condition = read_signals(form.signals)
    else:
        condition = parse_condition(form.wake_when or default or "")
    if any(each.kind == "word" and each.text == '""' for each in scan_words(condition.sentence)):
        raise InvalidArguments(
            "wake_when quotes an empty text, which is always there; quote what is to appear. "
            "Nothing was written."
        )
    if not isinstance(form, forms.WaitUpdate) and MASK in form.target:
        raise InvalidArguments(
            "target holds a secret, and secrets are removed before anything is stored or looked "
            "at; name it without, or wait for a command that reads the secret itself. "
            "Nothing was written."
        )
    if MASK in condition.sentence:
        # Secrets are masked in all that is watched, so any secret would match.
        raise InvalidArguments(
            "wake_when holds a secret, and secrets are removed before anything is "
            "stored or looked at; wait for the words around it. Nothing was written."
        )
    return condition


def _list_understood(armed: ArmedWait) -> JsonValue:
    sides = [each.model_dump(mode="json") for each in armed.preview.understood]
    return [{k: v for k, v in side.items() if k != "note" or v is not None} for side in sides]


def _format_condition(wait: Wait) -> str:
    return end_sentence(clip(to_one_line(wait.wake_when), 500))


def _describe_earlier_end(armed: ArmedWait) -> str:
    was = armed.was
    if was is None or was.status is WaitStatus.WATCHING:
        return ""
    return f"; it had ended as {was.status}{_format_end(was)[:-1]}"


def _format_end(wait: Wait) -> str:
    seen = clip(to_plain_line(wait.last_observation or ""), 300)
    return f": {seen.rstrip('.')}." if seen else "."


def _describe_target(armed: ArmedWait) -> str:
    """Return the note on a target and its last lines."""
    preview = armed.preview
    sentences = [clip(to_plain_line(scrub(preview.note)), _NOTE_BYTES)] if preview.note else []
    if preview.tail is None:
        return " ".join(sentences)
    lines = [
        clip(to_plain_line(line), _LINE_BYTES)
        for line in scrub_cut(preview.tail).splitlines()
        if line.strip()
    ]
    if not lines:
        return " ".join(sentences)
    last = lines[-SHOWN_LINES:]
    while len(last) > 1 and len(" ⏎ ".join(last).encode()) > SHOWN_BYTES:
        last = last[1:]
    label = "Last line" if len(last) == 1 else "Last lines"
    # Data, and clearly so.
    return " ".join((*sentences, f'{label}: "{" ⏎ ".join(last)}".'))


TOOLS: Final = (
    Tool(
        "smart_wait",
        "Hand over waiting; the answer says how you learn of its end. Start a long command as "
        "`taskmem run --name NAME -- CMD` in the background and wait on pty:NAME. "
        "Never sleep or poll.",
        forms.SmartWait,
        smart_wait,
        looks=lambda _: True,
    ),
    Tool(
        "wait_update",
        "Send a wait back to waiting: with a finer condition, more time, or as it "
        "was. Also after it has ended.",
        forms.WaitUpdate,
        wait_update,
        looks=lambda _: True,
    ),
    Tool(
        "wait_cancel",
        "Stop a wait that is no longer needed.",
        forms.WaitCancel,
        wait_cancel,
    ),
)
