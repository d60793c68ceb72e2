"""Decide how the sub-agents of a host stand, from what the host reports of them.

A host tells when a sub-agent begins to work and how its work has ended. One that is told to go on
works again. Work that was going on in an earlier start of the host, and that this start ends as a
failure without having gone on with it, is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from openclaw_taskmem.domain.callers import Caller, SessionKeys, is_same_host
from openclaw_taskmem.domain.conditions.verdicts import SESSION_FORMS, refuse_unread
from openclaw_taskmem.domain.text.redaction import scrub
from openclaw_taskmem.domain.text.texts import (
    clip,
    clip_start,
    end_sentence,
    quote_line,
    to_plain_line,
)
from taskmem_hookspecs import Condition, ConditionUnclear, Frame, InvalidArguments, Value, matching
from taskmem_hookspecs.conditions import Form, RegexForm, State, StateForm, TextForm
from taskmem_hookspecs.model import Instant

SUB_AGENTS_BOOKMARK: Final = "sub_agents"
"""Bookmark with what is known of the sub-agents of hosts."""
MOST_ENDED: Final = 100
"""Sub-agents that are remembered after their work has ended, the latest."""
MOST_RUNNING: Final = 400
"""Sub-agents at work that are remembered, the latest."""
WORDS_BYTES: Final = 1_500
"""Longest end of a sub-agent's last words that is kept."""
_LABEL_BYTES: Final = 120
_WHY_BYTES: Final = 300
_SHOWN_AGENTS: Final = 5
"""Sub-agents that a refusal names at most."""


class SessionState(StrEnum):
    """How the work of a sub-agent stands."""

    RUNNING = "running"
    ENDED = "ended"
    FAILED = "failed"
    LOST = "lost"


class SubAgent(Value):
    """A session of a host in which an agent works for the one that spawned it."""

    key: str
    """Its session key."""
    parent: str
    """Key of the session that spawned it."""
    root: str
    """Key of the topmost of these, for which its calls count."""
    host: str | None = None
    """Its host, as in `Wake.host`."""
    run_id: str | None = None
    """Its host's id of its latest work; None: not told."""
    label: str = ""
    """Its parent's name for it, or the beginning of its task."""
    boot: str = ""
    """The start of the host in which it worked last."""
    state: SessionState = SessionState.RUNNING
    outcome: str = ""
    """How its work ended, in one word of the host's; empty: it has not."""
    why: str = ""
    """Why it failed, in the host's words."""
    words: str = ""
    """The end of its last words."""
    changed_at: Instant


class WorkEnd(Value):
    """How a host says that a sub-agent's work has ended."""

    outcome: str
    """`ok`, or a word for a failure; `lost`: the host knows of no such work any more."""
    why: str = ""
    words: str = ""


# --- what is kept ------------------------------------------------------------------------------


def begin_work(known: SubAgent | None, told: SubAgent) -> SubAgent:
    """Return a sub-agent that works; `told` has what its host says of it now."""
    if known is None:
        return told
    label = told.label or known.label
    if known.state is SessionState.RUNNING:
        kept = {"boot": told.boot, "run_id": told.run_id or known.run_id, "label": label}
        return known.model_copy(update=kept)
    return told.model_copy(update={"label": label, "parent": known.parent, "root": known.root})


def end_work(known: SubAgent, end: WorkEnd, boot: str, now: Instant) -> SubAgent:
    """Return a sub-agent whose work has ended; `boot`: the start of the host that says so.

    An end that is told again changes nothing.
    """
    if known.state is not SessionState.RUNNING:
        return known
    was_cut = end.outcome == "error" and known.boot != boot
    state = SessionState.ENDED if end.outcome == "ok" else SessionState.FAILED
    if was_cut or end.outcome == "lost":
        state = SessionState.LOST
    return known.model_copy(
        update={
            "state": state,
            "outcome": clip(to_plain_line(end.outcome), _LABEL_BYTES),
            "why": clip(scrub(to_plain_line(end.why)), _WHY_BYTES),
            "words": clip_start(scrub(end.words), WORDS_BYTES),
            "changed_at": now,
        }
    )


def make_label(text: str) -> str:
    """Return the name of a sub-agent as it is kept, from its label or its task."""
    return clip(scrub(to_plain_line(text)), _LABEL_BYTES)


def keep_latest(agents: Iterable[SubAgent]) -> list[SubAgent]:
    """Return the sub-agents that are remembered, the latest last."""
    ordered = sorted(agents, key=lambda each: each.changed_at)
    running = [each for each in ordered if each.state is SessionState.RUNNING][-MOST_RUNNING:]
    ended = [each for each in ordered if each.state is not SessionState.RUNNING][-MOST_ENDED:]
    kept = {each.key for each in (*running, *ended)}
    return [each for each in ordered if each.key in kept]


def drop_older(agents: Iterable[SubAgent], before: Instant) -> list[SubAgent]:
    """Return the sub-agents without those whose work ended before an instant."""
    return [e for e in agents if e.state is SessionState.RUNNING or e.changed_at >= before]


# --- who may wait ------------------------------------------------------------------------------


def list_visible(
    agents: Iterable[SubAgent], caller: Caller, sessions: SessionKeys
) -> list[SubAgent]:
    """Return the sub-agents that a caller may wait for: those that its agent has spawned.

    A person may wait for any.
    """
    if caller.person:
        return [*agents]
    agent = sessions.find_agent(caller.session_key)
    return [
        each
        for each in agents
        if agent is not None
        and is_same_host(each.host, caller.host)
        and agent in (sessions.find_agent(each.root), each.root)
    ]


def find_sub_agent(agents: Sequence[SubAgent], name: str, *, silent_host: str | None) -> SubAgent:
    """Return the one sub-agent that a name means: its key, its end, its run, or its label.

    Of several with a label, the one that works, or else the latest, is meant. `agents`: those that
    the caller may wait for, the latest last. `silent_host`: the caller's, if that reports none.

    Raises:
        InvalidArguments: None is, or several are; the text names those that there are.
    """
    words = " ".join(name.split()).casefold()
    exact = [a for a in agents if words in (a.key.casefold(), (a.run_id or "").casefold())]
    ends = [a for a in agents if a.key.casefold().endswith(f":{words}")]
    labelled = [a for a in agents if a.label and a.label.casefold() == words]
    for found in (exact, ends, labelled):
        working = [a for a in found if a.state is SessionState.RUNNING]
        if len(working) > 1:
            raise InvalidArguments(
                f"{len(working)} sub-agents that work are called {quote_line(name, 80)}; give "
                f"one by its key: {_list_names(working, with_label=False)}. Nothing was written."
            )
        if found:
            return (working or found)[-1]
    if silent_host is not None:
        raise InvalidArguments(
            f"{silent_host} does not report its sub-agents here, so the end of one cannot be "
            "waited for; it tells you of that itself. Let the sub-agent work on a task, and wait "
            "for task:ID, or for a file that it writes, path:/P. Nothing was written."
        )
    if not agents:
        raise InvalidArguments(
            f"No sub-agent {quote_line(name, 80)} is known: none that your agent has spawned was "
            "reported. Spawn it first, or wait for its task with task:ID. Nothing was written."
        )
    raise InvalidArguments(
        f"No sub-agent is called {quote_line(name, 80)}; wait for one of yours: "
        f"{_list_names(agents)}. Nothing was written."
    )


def _list_names(agents: Sequence[SubAgent], *, with_label: bool = True) -> str:
    """Name the latest sub-agents as targets, those that work first."""
    working = [each for each in reversed(agents) if each.state is SessionState.RUNNING]
    newest = [*working, *(each for each in reversed(agents) if each not in working)]
    names = [
        f"session:{each.key}"
        + (f" ({quote_line(each.label, 40)}, {each.state})" if with_label and each.label else "")
        for each in newest[:_SHOWN_AGENTS]
    ]
    more = len(newest) - _SHOWN_AGENTS
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


# --- what a wait sees --------------------------------------------------------------------------


_STATES: Final = {
    SessionState.RUNNING: frozenset[State](),
    SessionState.ENDED: frozenset((State.ENDED, State.COMPLETED)),
    SessionState.FAILED: frozenset((State.ENDED, State.FAILED)),
    SessionState.LOST: frozenset((State.ENDED, State.FAILED, State.LOST)),
}


def list_states(agent: SubAgent) -> frozenset[State]:
    """Return the states that a sub-agent is in; what is lost has failed, too."""
    return _STATES[agent.state]


def is_met(form: Form, frame: Frame) -> bool:
    """Return whether a form holds at a look at a sub-agent; texts are looked for in its words."""
    match form:
        case StateForm():
            return form.state in frame.states
        case TextForm() if frame.text is not None:
            return (matching.find_text(frame.text, form.text) is None) == form.gone
        case RegexForm() if frame.text is not None:
            return matching.compile_regex(form.regex).find(frame.text) is not None
        case _:
            return False


def describe_state(agent: SubAgent) -> str:
    """Say how a sub-agent stands, with its last words, in a line."""
    label = f" {quote_line(agent.label, _LABEL_BYTES)}" if agent.label else ""
    subject = f"Sub-agent {agent.key}{label}"
    if agent.state is SessionState.RUNNING:
        return f"{subject} works."
    how = {
        SessionState.ENDED: "has ended",
        SessionState.FAILED: f"has failed ({agent.outcome})",
        SessionState.LOST: "is lost: its host ended while it worked, and does not go on with it",
    }[agent.state]
    why = f" {end_sentence(agent.why)}" if agent.why else ""
    words = "It said nothing."
    if agent.words:
        words = f"Its last words, which are data: {quote_line(agent.words, WORDS_BYTES)}"
    return f"{subject} {how}.{why} {words}"


def refuse_condition(condition: Condition) -> ConditionUnclear | None:
    """Return why nobody can tell a condition of a sub-agent; None: it can be told."""
    return refuse_unread(
        condition,
        (StateForm, TextForm, RegexForm),
        SESSION_FORMS,
        "Of a sub-agent it is told how it ends, and what its last words are, in the words of "
        "`forms`, joined by or / and.",
    )
