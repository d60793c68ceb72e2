"""Keep what hosts report of their sub-agents, over restarts of host and daemon."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from pydantic import TypeAdapter

from openclaw_taskmem.domain import callers
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.conditions import session_states
from openclaw_taskmem.domain.conditions.session_states import (
    SUB_AGENTS_BOOKMARK,
    SessionState,
    SubAgent,
    WorkEnd,
)
from openclaw_taskmem.engine.context import Context, Decision
from openclaw_taskmem.engine.turns import ReportContext
from taskmem_hookspecs import Change

_ROWS: Final = TypeAdapter(list[SubAgent])


def list_sub_agents(context: Context) -> list[SubAgent]:
    """Return the sub-agents that hosts have reported to this home, the latest last."""
    return _ROWS.validate_json(context.store.read_bookmark(SUB_AGENTS_BOOKMARK) or "[]")


def find_sub_agent(context: Context, key: str) -> SubAgent | None:
    """Return the sub-agent of a session; None: none was reported."""
    return next((each for each in list_sub_agents(context) if each.key == key), None)


def begin_work(
    context: Context,
    report: ReportContext,
    key: str,
    *,
    parent: str,
    label: str,
    run_id: str | None,
) -> None:
    """Note that a sub-agent works; the report is of the session for which its calls count."""
    told = SubAgent(
        key=key,
        parent=parent,
        root=report.session,
        host=report.owner.host,
        run_id=run_id,
        label=session_states.make_label(label),
        boot=report.owner.boot or "",
        changed_at=context.clock.now(),
    )
    _update(context, report, key, lambda known, _: session_states.begin_work(known, told))


def end_work(context: Context, report: ReportContext, key: str, end: WorkEnd) -> None:
    """Note that a sub-agent's work has ended; nothing, if it was not reported, or told before."""
    boot = report.owner.boot or ""
    _update(
        context,
        report,
        key,
        lambda known, now: known and session_states.end_work(known, end, boot, now),
    )


def list_unheard(context: Context, host: str | None, running: Collection[str]) -> Sequence[str]:
    """Return the sub-agents of a host that were at work and are not among those that run."""
    return [
        each.key
        for each in list_sub_agents(context)
        if each.state is SessionState.RUNNING and each.host == host and each.key not in running
    ]


def name_sub_agent(context: Context, name: str, caller: Caller) -> str:
    """Return the key of the sub-agent that a caller's words mean.

    Raises:
        InvalidArguments: The caller has none of that name; the text names those that it has.
    """
    agents = list_sub_agents(context)
    visible = session_states.list_visible(agents, caller, context.sessions)
    is_reporting = caller.person or (caller.host or "").partition(":")[0] in ("", callers.GATEWAY)
    host = callers.describe_agent(context.sessions, caller.host, None) or "Your host"
    silent_host = None if is_reporting else host
    return session_states.find_sub_agent(visible, name, silent_host=silent_host).key


def forget_old(context: Context) -> None:
    """Forget sub-agents whose work ended long ago, and with them their last words."""
    before = context.clock.now() - timedelta(days=context.policies.runs.checkpoint_days)

    def forget(known: list[SubAgent], _: datetime) -> Decision[None]:
        kept = session_states.drop_older(known, before)
        return _write(context, kept) if kept != known else Change(), None

    context.update(SUB_AGENTS_BOOKMARK, partial(list_sub_agents, context), forget)


def _update(
    context: Context,
    report: ReportContext,
    key: str,
    decide: Callable[[SubAgent | None, datetime], SubAgent | None],
) -> None:
    """Decide about one sub-agent, and commit it with the place of the report."""

    def note(known: list[SubAgent], now: datetime) -> Decision[None]:
        agents = {each.key: each for each in known}
        after = decide(agents.get(key), now)
        if after is None or after == agents.get(key):
            return Change(), None
        kept = session_states.keep_latest({**agents, key: after}.values())
        place = report.add_cursor(context, Change()).bookmarks
        change = _write(context, kept)
        return change.model_copy(update={"bookmarks": (*place, *change.bookmarks)}), None

    context.update(SUB_AGENTS_BOOKMARK, partial(list_sub_agents, context), note)


def _write(context: Context, agents: list[SubAgent]) -> Change:
    text = _ROWS.dump_json(agents).decode()
    return Change(bookmarks=(context.store.make_bookmark(SUB_AGENTS_BOOKMARK, text),))
