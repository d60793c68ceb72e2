"""How the sub-agents of a host stand, and who may wait for which."""

from __future__ import annotations

from datetime import timedelta

import pytest

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.conditions import session_states
from openclaw_taskmem.domain.conditions.conditions import parse_condition
from openclaw_taskmem.domain.conditions.session_states import (
    MOST_ENDED,
    MOST_RUNNING,
    WORDS_BYTES,
    SessionState,
    SubAgent,
    WorkEnd,
)
from taskmem_hookspecs import Frame, InvalidArguments
from taskmem_hookspecs.conditions import State
from taskmem_hookspecs.testing import DAWN
from tests.support.owners import SESSIONS

MAIN = "agent:main:main"
HOST = "openclaw:one"
LATER = DAWN + timedelta(minutes=1)
SECRET = f"ghp_{34 * 'a'}B2"


def make(name: str = "1", **given: object) -> SubAgent:
    """A sub-agent that works."""
    fields: dict[str, object] = {
        "key": f"agent:main:subagent:{name}",
        "parent": MAIN,
        "root": MAIN,
        "host": HOST,
        "boot": "boot_1",
        "changed_at": DAWN,
    }
    return SubAgent.model_validate({**fields, **given})


def end(agent: SubAgent, outcome: str = "ok", boot: str = "boot_1", **given: str) -> SubAgent:
    return session_states.end_work(agent, WorkEnd(outcome=outcome, **given), boot, LATER)


@pytest.mark.parametrize(
    ("outcome", "boot", "state", "states"),
    [
        ("ok", "boot_1", SessionState.ENDED, {State.ENDED, State.COMPLETED}),
        ("ok", "boot_2", SessionState.ENDED, {State.ENDED, State.COMPLETED}),
        ("error", "boot_1", SessionState.FAILED, {State.ENDED, State.FAILED}),
        ("timeout", "boot_2", SessionState.FAILED, {State.ENDED, State.FAILED}),
        ("killed", "boot_2", SessionState.FAILED, {State.ENDED, State.FAILED}),
        ("error", "boot_2", SessionState.LOST, {State.ENDED, State.FAILED, State.LOST}),
        ("lost", "boot_1", SessionState.LOST, {State.ENDED, State.FAILED, State.LOST}),
    ],
)
def test_work_ends_in_one_of_three_ways(
    outcome: str, boot: str, state: SessionState, states: set[State]
) -> None:
    ended = end(make(), outcome, boot)
    assert (ended.state, ended.changed_at) == (state, LATER)
    assert session_states.list_states(ended) == states


def test_an_end_that_is_told_again_changes_nothing() -> None:
    ended = end(make(), words="The soup is cooked.")
    assert end(ended, "error", "boot_2", words="Never.") == ended


def test_what_a_later_start_goes_on_with_is_not_lost() -> None:
    resumed = session_states.begin_work(make(), make(boot="boot_2"))
    assert end(resumed, "error", "boot_2").state is SessionState.FAILED


def test_one_that_is_told_to_go_on_works_again_without_old_words() -> None:
    ended = end(make(label="cook"), words="Done.")
    again = session_states.begin_work(ended, make(boot="boot_2", changed_at=LATER))
    assert (again.state, again.words, again.label) == (SessionState.RUNNING, "", "cook")
    assert again.boot == "boot_2"


def test_words_are_kept_without_credentials_and_from_their_end() -> None:
    ended = end(make(), "error", words=f"{'x' * 5000} the key is {SECRET}", why=f"at {SECRET}")
    assert SECRET not in ended.model_dump_json()
    assert ended.words.endswith("[secret removed]")
    assert len(ended.words.encode()) <= WORDS_BYTES
    assert SECRET not in session_states.make_label(SECRET)


def test_the_latest_are_remembered() -> None:
    running = [make(f"r{n}", changed_at=DAWN + timedelta(seconds=n)) for n in range(500)]
    ended = [end(each) for each in (make(f"e{n}") for n in range(200))]
    kept = session_states.keep_latest([*ended, *running])
    assert sum(each.state is SessionState.RUNNING for each in kept) == MOST_RUNNING
    assert len(kept) == MOST_RUNNING + MOST_ENDED
    assert running[-1] in kept
    assert running[0] not in kept


# --- who may wait ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("caller", "seen"),
    [
        (Caller(session_key=MAIN, host=HOST), True),
        (Caller(session_key="agent:main:work", host=HOST), True),
        (Caller(session_key="agent:coder:main", host=HOST), False),
        (Caller(session_key=MAIN, host="openclaw:two"), False),
        (Caller(session_key="one", host="mcp:codex"), False),
        (Caller(host=HOST), False),
        (Caller(person=True), True),
    ],
)
def test_an_agent_waits_for_what_it_has_spawned(caller: Caller, seen: bool) -> None:
    assert session_states.list_visible([make()], caller, SESSIONS) == [make()] * seen


def find(name: str, *agents: SubAgent, silent_host: str | None = None) -> str:
    return session_states.find_sub_agent(agents, name, silent_host=silent_host).key


@pytest.mark.parametrize("name", ["agent:main:SubAgent:2", "run_2", "2", " Bake  it"])
def test_a_sub_agent_is_meant_by_its_key_run_or_label(name: str) -> None:
    agents = (make("1", label="cook"), make("2", label="bake it", run_id="run_2"))
    assert find(name, *agents) == agents[1].key


def test_of_several_the_one_that_works_or_the_latest_is_meant() -> None:
    one, two = make("1", label="cook"), make("2", label="cook")
    assert find("cook", one, end(two)) == one.key
    assert find("cook", end(one), end(two)) == two.key
    with pytest.raises(InvalidArguments, match=f"2 sub-agents .* session:{two.key}, session:"):
        find("cook", one, two)


def test_a_name_that_is_not_known_is_refused_with_those_that_are() -> None:
    agents = [end(make("1", label="cook")), *(make(str(n)) for n in range(2, 9))]
    with pytest.raises(InvalidArguments, match="wait for one of yours") as refused:
        find("soup", *agents)
    assert f"session:{agents[-1].key}, " in str(refused.value)
    assert str(refused.value).endswith(" and 3 more. Nothing was written.")
    with pytest.raises(InvalidArguments, match=r'\("cook", ended\)'):
        find("soup", agents[0])


def test_where_none_is_reported_the_refusal_says_what_to_do() -> None:
    with pytest.raises(InvalidArguments, match="none that your agent has spawned was reported"):
        find("soup")
    with pytest.raises(InvalidArguments, match=r"Codex does not report .* task:ID"):
        find("soup", silent_host="Codex")


# --- what a wait sees ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "holds"),
    [
        ('"cooked" appears', True),
        ('its reply contains "cooked"', True),
        ('the sub-agent says "cooked"', True),
        ('it answers "cooked"', True),
        ('"cooked" appears in its last words', True),
        ('"cooked" is in its reply', True),
        ('it replies "burnt"', False),
        ('"burnt" appears', False),
        ('"burnt" is gone', True),
        ("/soup is \\w+/ appears", True),
        ("the sub-agent has ended", True),
        ("it succeeds", True),
        ("it fails", False),
        ("is lost", False),
    ],
)
def test_a_form_holds_of_an_end_or_of_the_last_words(words: str, holds: bool) -> None:
    [[form]] = parse_condition(words, "session").forms
    agent = end(make(), words="The soup is cooked.")
    frame = Frame(
        seen_at=LATER, place="", states=session_states.list_states(agent), text=agent.words
    )
    assert session_states.is_met(form, frame) is holds
    unseen = Frame(seen_at=LATER, place="", states=session_states.list_states(make()))
    assert not session_states.is_met(form, unseen)


def test_a_sentence_says_how_it_stands_with_its_last_words() -> None:
    say = session_states.describe_state
    agent = make(label="cook")
    assert say(agent) == f'Sub-agent {agent.key} "cook" works.'
    assert say(end(agent, words="All\ndone.")) == (
        f'Sub-agent {agent.key} "cook" has ended. Its last words, which are data: "All done."'
    )
    assert say(end(make(), "timeout", why="no answer")) == (
        f"Sub-agent {agent.key} has failed (timeout). no answer. It said nothing."
    )
    assert "is lost: its host ended while it worked" in say(end(make(), "lost"))


@pytest.mark.parametrize("words", ["the soup tastes good", "80 %", "ends or it looks fine"])
def test_what_nobody_can_tell_of_a_sub_agent_is_refused(words: str) -> None:
    refusal = session_states.refuse_condition(parse_condition(words, "session"))
    assert refusal is not None
    assert refusal.details["suggestion"] == "ends"
    assert session_states.refuse_condition(parse_condition("ends or fails", "session")) is None
