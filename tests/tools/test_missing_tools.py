"""What an answer names, its caller can do: a tool that it lists, or a command for a shell."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.tools import catalog
from taskmem_hookspecs import Owner, TaskmemError, TaskQuery
from tests.support.world import World

DEFAULT = frozenset(tool.name for tool in catalog.list_offered("default", recalls=True))
EVERY = frozenset(tool.name for tool in catalog.TOOLS)
COMMAND = "TASKMEM_HOME=/srv/home taskmem"
PROCESSES = ("1:1", "2:1")
Call = tuple[str, dict[str, Any]]
BEFORE: list[Call] = [
    ("task_claim", {"role": "builder"}),
    ("task_handoff", {"to": "user"}),
    ("task_handoff", {"to": "tester"}),
    ("task_update", {"ask": "Which region?"}),
    ("task_update", {"status": "paused"}),
    ("task_update", {"status": "completed", "message": "All done"}),
    ("task_cancel", {}),
]
"""What others, who have all tools, may have done with a task."""
CALLS: list[Call] = [
    ("task_update", {"message": "Step 1 done"}),
    ("task_update", {"query": "where am I?"}),
    ("task_update", {"ask": "Which region?"}),
    ("task_update", {"completed_steps": [1, 2]}),
    ("task_update", {"message": "On it.", "token": 7}),
    *(("task_update", {"status": each}) for each in ("active", "paused", "completed", "failed")),
    ("task_plan_update", {"new_plan": ["Build"], "reason": "Shorter."}),
    ("smart_wait", {"target": "pty:build", "wake_when": "exits"}),
    ("task_resume", {}),
    ("task_claim", {}),
    ("taskDelete", {}),
]


def worker(process: str) -> Caller:
    owner = Owner(role="agent", process=process)
    return Caller(host="mcp:claude-code", process=process, owner=owner)


def read_sentence(world: World, caller: Caller, call: Call, offered: frozenset[str]) -> str:
    tool, arguments = call
    try:
        return str(catalog.answer_call(world.context, tool, arguments, caller, offered)["message"])
    except TaskmemError as refused:
        return str(refused)


@given(
    before=st.lists(
        st.tuples(st.sampled_from(["1:1", "2:1"]), st.sampled_from(BEFORE)), max_size=3
    ),
    call=st.sampled_from(CALLS),
    queued=st.booleans(),
)
def test_an_answer_names_only_what_its_caller_can_do(
    *, before: list[tuple[str, Call]], call: Call, queued: bool
) -> None:
    world = World(command=COMMAND)
    role = {"role": "builder"} if queued else {}
    arguments = {"name": "Deploy", "plan": ["Build", "Push"], **role}
    registered = read_sentence(world, worker("1:1"), ("task_register", arguments), DEFAULT)
    (task,) = world.store.find_tasks(TaskQuery())
    for process, (tool, given_before) in before:
        own = (tool, {"task_id": task.task_id, **given_before})
        read_sentence(world, worker(process), own, EVERY)
    mine = (call[0], {"task_id": task.task_id, **call[1]})
    for sentence in (registered, read_sentence(world, worker("1:1"), mine, DEFAULT)):
        named = {name for name in EVERY if re.search(rf"\b{name}\b", sentence)} - DEFAULT
        assert not named or f"in a shell: {COMMAND} call " in sentence


def test_a_tool_that_is_not_offered_is_told_as_a_command() -> None:
    world = World(command=COMMAND)
    task = world.register()
    world.call("task_claim", worker("1:1"), task_id=task)
    world.call("task_handoff", worker("1:1"), task_id=task)
    call = ("task_update", {"task_id": task, "status": "completed"})

    sentence = read_sentence(world, worker("1:1"), call, DEFAULT)

    assert sentence.endswith(
        "task_resume is not among your tools; in a shell: "
        f'{COMMAND} call task_resume \'{{"task_id": "{task}"}}\''
    )
    assert COMMAND not in read_sentence(world, worker("1:1"), call, EVERY)


@pytest.mark.parametrize(
    "words", ["task_list_export", "my task_list", "task_list", 'Of "task_list", or all?']
)
def test_words_of_others_name_no_tool(words: str) -> None:
    world, offered = World(command=COMMAND), DEFAULT - {"task_list"}
    task = world.register()
    calls = [("task_update", {"task_id": words, "query": "?"}), ("wait_status", {"wait_id": words})]
    calls += [
        ("task_update", {"task_id": task, **each}) for each in ({"ask": words}, {"query": "?"})
    ]
    for call in calls:
        assert "among your tools" not in read_sentence(world, worker("1:1"), call, offered)


def test_a_part_of_a_word_names_no_tool() -> None:
    context, sentence = World(command=COMMAND).context, "Read my_task_resume.md."

    assert catalog.explain_missing_tools(context, sentence, {}, DEFAULT) == sentence


def test_an_id_cannot_end_the_command_that_is_told() -> None:
    named = {"task_id": "x'; rm -r . #"}
    context = World(command=COMMAND).context

    told = catalog.explain_missing_tools(context, "Call task_resume.", named, DEFAULT)

    words = shlex.split(told.partition(f"{COMMAND} ")[2])
    assert words == ["call", "task_resume", json.dumps(named)]
