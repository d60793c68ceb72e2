"""In whose name a command is called, as the environment of its shell shows it."""

from __future__ import annotations

from typing import Any

import pytest

from openclaw_taskmem.faces.hosts import asking


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
