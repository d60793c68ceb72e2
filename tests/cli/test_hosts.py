"""In whose name a command is called, as the environment of its shell shows it."""

from __future__ import annotations

from typing import Any

import pytest

from openclaw_taskmem.cli.command_output import build_tool_call, explain_not_a_person


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
    assert build_tool_call("task_list", {}, environ) == {
        "tool": "task_list",
        "arguments": {},
        "host": host,
    }


def test_shell_session_is_used_unless_a_call_names_one() -> None:
    environ = {"TASKMEM_SESSION_KEY": "agent:main:main"}
    for given, wanted in (({}, "agent:main:main"), ({"session_key": "s"}, "s")):
        assert build_tool_call("task_list", given, environ)["arguments"] == {"session_key": wanted}


def test_what_is_called_for_a_session_is_no_persons() -> None:
    environ = {"TASKMEM_SESSION_KEY": "agent:main:main"}
    assert build_tool_call("task_update", {}, environ)["host"] == "openclaw"
    assert "TASKMEM_SESSION_KEY is set" in (explain_not_a_person(environ) or "")


OPENCLAW = {
    "OPENCLAW_SHELL": "exec",
    "TASKMEM_SESSION_KEY": "agent:main:main",
    "TASKMEM_HOST": "openclaw:one",
}


def test_a_shell_of_openclaw_names_the_openclaw_and_the_session() -> None:
    asked = build_tool_call("task_list", {}, OPENCLAW)
    assert asked["host"] == "openclaw:one"
    assert asked["arguments"] == {"session_key": "agent:main:main"}


def test_host_started_by_openclaw_does_not_use_its_session() -> None:
    asked = build_tool_call("task_list", {}, OPENCLAW | {"CLAUDECODE": "1"})
    assert asked["host"] == "shell:claude-code"
    assert asked["arguments"] == {}
