"""What a run waits for in its gateway, and what becomes of it once that has ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import cast

from pydantic import JsonValue

from openclaw_taskmem.domain import carrying, events, reminders, runs, working
from openclaw_taskmem.domain.runs import Moved
from openclaw_taskmem.domain.texts import clip, plain
from taskmem_hookspecs import Change, Event, Run, RunState, TaskFacts


def ended(
    facts: TaskFacts, name: str, how: str, *, wake_id: str, now: datetime
) -> Change:
    """Return what tells a run to go on, as what it waited for in its gateway ended.

    Empty: it was not told to wait for that, or a turn works on it already.
    """
    run = facts.run
    if run is None or run.state is not RunState.RUNNING or working.at_work(run):
        return Change()
    if not carrying.telling(facts) or carrying.on_its_way(facts, now):
        return Change()
    ended = clip(plain(f"{name}: {how}"), carrying.SAID_BYTES)
    text = reminders.tell_end(facts.task, f"What ran has ended ({ended}).")
    return _told_instead(facts, run, wake_id, text, now)


def lost(
    facts: TaskFacts, newest: Sequence[Event], *, wake_id: str, now: datetime
) -> Change:
    """Return what tells a run to go on, as commands ended with the gateway.

    `newest` are the newest events of its task. Empty: it waits for no command.
    """
    run, awaited = facts.run, read(facts, newest)
    gone = cast("Sequence[str]", awaited.get("commands", ()))
    if run is None or not gone:
        return Change()
    what = clip(plain("; ".join(gone)), carrying.SAID_BYTES)
    before = f"The gateway was started anew, and with it has ended what ran ({what})."
    text = reminders.tell_end(facts.task, before)
    return _told_instead(facts, run, wake_id, text, now)


def read(facts: TaskFacts, newest: Sequence[Event]) -> Mapping[str, JsonValue]:
    """Return what a run that rests was left to wait for, from the log; empty: nothing.

    It is `commands` and `scheduled`, by their names, and how many `sub_agents`.
    """
    run = facts.run
    if run is None or run.state is not RunState.RUNNING or working.at_work(run):
        return {}
    since = {
        wake.created_at for wake in carrying.telling(facts) if wake.sent_at is None
    }
    found = [e for e in newest if e.kind == events.RUN_AWAITS and e.at in since]
    return found[-1].data if found else {}


def _told_instead(
    facts: TaskFacts, run: Run, wake_id: str, text: str, now: datetime
) -> Change:
    """Return what tells a run to go on now, for it need not rest any longer."""
    told = runs.next_round(run, now)
    # The round before it was never told.
    told = told.model_copy(update={"rounds_before": run.rounds_before + 1})
    wake = carrying.owed(told, wake_id, text, now)
    return carrying.change_of(facts, Moved(run=told, events=()), now, wake=wake)
