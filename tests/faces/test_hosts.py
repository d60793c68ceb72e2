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
