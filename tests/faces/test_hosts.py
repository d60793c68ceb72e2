"""In whose name a command is called, as the environment of its shell shows it."""

from __future__ import annotations

from typing import Any

import pytest

from openclaw_taskmem.faces.hosts import TOOLS, asking, name_commands, tell_person
from openclaw_taskmem.tools import catalog


@pytest.mark.parametrize(
    ("environ", "host"),
    [
        ({}, None),
        ({"CLAUDECODE": ""}, None),
        ({"CLAUDECODE": "1"}, "shell:claude-code"),
        ({"OPENCLAW_SHELL": "exec"}, "openclaw"),
        ({"OPENCLAW_SHELL": "exec", "CLAUDECODE": "1"}, "shell:claude-code"),
    ],
)
def test_a_shell_shows_which_host_runs_it(environ: Any, host: str | None) -> None:
    assert asking("task_list", {}, environ) == {
        "tool": "task_list",
        "arguments": {},
        "host": host,
    }


def test_a_shell_that_names_a_session_speaks_for_it_unless_another_is_given() -> None:
    environ = {"TASKMEM_SESSION_KEY": "agent:main:main"}
    for given, wanted in (({}, "agent:main:main"), ({"session_key": "s"}, "s")):
        assert asking("task_list", given, environ)["arguments"] == {
            "session_key": wanted
        }


OPENCLAW = {
    "OPENCLAW_SHELL": "exec",
    "TASKMEM_SESSION_KEY": "agent:main:main",
    "TASKMEM_HOST": "openclaw:one",
}


def test_a_shell_of_openclaw_names_the_openclaw_and_the_session() -> None:
    asked = asking("task_list", {}, OPENCLAW)
    assert asked["host"] == "openclaw:one"
    assert asked["arguments"] == {"session_key": "agent:main:main"}


def test_a_host_that_openclaw_has_started_does_not_speak_for_its_session() -> None:
    asked = asking("task_list", {}, OPENCLAW | {"CLAUDECODE": "1"})
    assert asked["host"] == "shell:claude-code"
    assert asked["arguments"] == {}


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("call task_update with status", "run taskmem call task_update with status"),
        ("claim it with task_claim.", "claim it with taskmem call task_claim."),
        ("run taskmem call task_reset", "run taskmem call task_reset"),
        ("task_01KP and task_id stay", "task_01KP and task_id stay"),
    ],
)
def test_a_person_is_told_the_command_of_a_tool(said: str, told: str) -> None:
    assert name_commands(said) == told
    assert tell_person({"task_id": "t", "message": said, "hint": None}) == {
        "task_id": "t",
        "message": told,
        "hint": None,
    }


def test_the_command_of_every_tool_is_known() -> None:
    assert {*TOOLS.split("|")} == {tool.name for tool in catalog.TOOLS}
