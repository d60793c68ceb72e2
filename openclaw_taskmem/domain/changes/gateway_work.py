"""Wake a run when the work that it waits for in its gateway ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import cast

from pydantic import JsonValue

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.changes import continuation, reminders, run_wakes
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.runs.events import RoundReplaced, ToldToGoOn
from openclaw_taskmem.domain.runs.machine import apply_events
from openclaw_taskmem.domain.text.texts import clip, to_plain_line
from taskmem_hookspecs import Change, Event, Run, RunState, TaskFacts


def notify_awaited_end(
    facts: TaskFacts, newest: Sequence[Event], name: str, how: str, *, wake_id: str, now: datetime
) -> Change:
    """Wake a run because a command or automation that it waited for has ended.

    `newest` are the newest events of its task. Empty: the run rests for another reason, was woken
    already, or a turn works on it.
    """
    run, awaited = facts.run, read_awaited(facts, newest)
    # A command is logged as `name (about)`.
    commands = [each.partition(" (")[0] for each in _list_names(awaited, "commands")]
    known = name in (*commands, *_list_names(awaited, "scheduled"))
    if run is None or not known or run_wakes.has_wake_on_its_way(facts, now):
        return Change()
    ended = clip(to_plain_line(f"{name}: {how}"), continuation.SAID_BYTES)
    text = reminders.remind_of_end(facts.task, f"What ran has ended ({ended}).")
    return _resume_now(facts, run, wake_id, text, now)


def notify_gateway_restart(
    facts: TaskFacts, newest: Sequence[Event], *, wake_id: str, now: datetime
) -> Change:
    """Wake a run because the commands that it waited for ended with the gateway.

    `newest` are the newest events of its task. Empty: it waits for no command.
    """
    run, gone = facts.run, _list_names(read_awaited(facts, newest), "commands")
    if run is None or not gone:
        return Change()
    what = clip(to_plain_line("; ".join(gone)), continuation.SAID_BYTES)
    before = f"The gateway restarted, which ended what ran in the background ({what})."
    text = reminders.remind_of_end(facts.task, before)
    return _resume_now(facts, run, wake_id, text, now)


def read_awaited(facts: TaskFacts, newest: Sequence[Event]) -> Mapping[str, JsonValue]:
    """Read from the log what a resting run waits for in its gateway; empty: nothing.

    Keys: `commands` and `scheduled` (names), `sub_agents` (a count).
    """
    run = facts.run
    if run is None or run.state is not RunState.RUNNING or current_run.is_at_work(run):
        return {}
    since = {
        wake.created_at for wake in run_wakes.list_open_run_wakes(facts) if wake.sent_at is None
    }
    found = [e for e in newest if e.kind == events.RUN_AWAITS and e.at in since]
    return found[-1].data if found else {}


def _list_names(awaited: Mapping[str, JsonValue], kind: str) -> Sequence[str]:
    return cast("Sequence[str]", awaited.get(kind, ()))


def _resume_now(facts: TaskFacts, run: Run, wake_id: str, text: str, now: datetime) -> Change:
    """Build the change that ends a run's rest and wakes it now."""
    moved = apply_events(run, ToldToGoOn(), RoundReplaced(), now=now)
    wake = run_wakes.make_wake(moved.run, wake_id, text, now)
    return continuation.build_run_change(facts, moved, now, wake=wake)
