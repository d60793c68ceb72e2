"""How much one agent may make, and one task may hold."""

from __future__ import annotations

import pytest

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.changes import rights
from openclaw_taskmem.domain.changes.task_update import UpdateRequest
from openclaw_taskmem.domain.errors import LimitReached
from taskmem_hookspecs import Maker, Task, TaskStatus, Wait
from taskmem_hookspecs.testing import a_task
from tests.support.owners import SESSIONS

AGENT = Caller(host="mcp:claude-code")
ITS_SHELL = Caller(host="shell:claude-code", person=True)
PERSON = Caller(person=True)
FULL = a_task(message_count=rights.MOST_MESSAGES)


@pytest.mark.parametrize("caller", [AGENT, ITS_SHELL])
def test_agents_add_no_words_to_a_task_that_is_full(caller: Caller) -> None:
    room = FULL.model_copy(update={"message_count": rights.MOST_MESSAGES - 1})
    for request in (
        UpdateRequest(message="At it.", caller=caller),
        UpdateRequest(ask="Red or blue?", caller=caller),
        UpdateRequest(message="Rest.", status=TaskStatus.PAUSED, caller=caller),
    ):
        rights.guard_message_count(room, request)
        with pytest.raises(LimitReached, match=r"200,000; leave .* task_register"):
            rights.guard_message_count(FULL, request)


@pytest.mark.parametrize("status", TaskStatus)
def test_a_full_task_takes_any_status_and_marks(status: TaskStatus) -> None:
    rights.guard_message_count(FULL, UpdateRequest(status=status, caller=AGENT))
    rights.guard_message_count(FULL, UpdateRequest(completed_steps=(1,), caller=AGENT))
    with pytest.raises(LimitReached):
        rights.guard_message_count(
            FULL, UpdateRequest(completed_steps=(1,), message="At it.", caller=AGENT)
        )


@pytest.mark.parametrize("status", [s for s in TaskStatus if s.terminal])
def test_a_full_task_takes_the_words_that_end_it(status: TaskStatus) -> None:
    request = UpdateRequest(message="Over.", status=status, caller=AGENT)
    rights.guard_message_count(FULL, request)
    over = FULL.model_copy(update={"status": status})
    with pytest.raises(LimitReached):
        rights.guard_message_count(over, request)


def test_a_full_task_takes_a_persons_words() -> None:
    rights.guard_message_count(FULL, UpdateRequest(message="Go on.", caller=PERSON))
    with pytest.raises(LimitReached):
        rights.guard_message_count(FULL, UpdateRequest(message="Go on.", caller=AGENT))


def test_quota_joins_agents_of_a_host_but_not_of_a_gateway() -> None:
    claude = Maker(hosts=("mcp:claude-code", "shell:claude-code"))
    gateway = Caller(host="openclaw:9", session_key="agent:dev:main:thread:5")
    named = AGENT.model_copy(update={"session_key": "agent:dev:main"})

    assert rights.find_maker(AGENT, SESSIONS) == rights.find_maker(ITS_SHELL, SESSIONS) == claude
    assert rights.find_maker(named, SESSIONS) == claude
    assert rights.find_maker(Caller(host="mcp"), SESSIONS) == Maker(hosts=("mcp",))
    dev = Maker(hosts=("openclaw:9",), agent="agent:dev")
    assert rights.find_maker(gateway, SESSIONS) == dev
    assert rights.find_maker(PERSON, SESSIONS) is None


@pytest.mark.parametrize(
    ("kind", "most", "way"), [(Task, 25_000, "task_update"), (Wait, 5_000, "wait_cancel")]
)
def test_one_more_than_an_agent_may_have_is_refused_with_a_way(
    kind: type[Task | Wait], most: int, way: str
) -> None:
    rights.guard_open_count(kind, most - 1)
    with pytest.raises(LimitReached, match=f"You have {most:,} open .*{way}"):
        rights.guard_open_count(kind, most)
