"""What a caller may look at, as a table."""

from __future__ import annotations

import pytest

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.conditions.targets import (
    LookPolicy,
    SandboxLooks,
    confine_target,
    confine_to_kept_folders,
    is_command_hidden,
    parse_target,
)
from taskmem_hookspecs.errors import NotAllowed

ROOTS = ("/home/me", "/home/all")
FILE = "pty:file:/srv/app/build.log"
PERSON = Caller(person=True)
AGENT = Caller(folder="/srv/app")
BOXED = Caller(folder="/srv/app", sandboxed=True)
HOMELESS = Caller(sandboxed=True)
HIDDEN = ("pty:build", "pty:tmux:0", "window:Mail", "screen", "process:4711")
"""Nothing of this is a file, or shown in a sandbox."""


def look(target, caller, sandbox="workspace", roots=ROOTS, runs=(), *, commands=()):
    policy = LookPolicy(roots=roots, sandbox=sandbox, commands=commands)
    return confine_target(parse_target(target), caller, policy, runs).within


@pytest.mark.parametrize(
    ("target", "caller", "within"),
    [
        (FILE, PERSON, None),
        (FILE, AGENT, ("/srv/app", *ROOTS)),
        (FILE, Caller(), ROOTS),
        (FILE, Caller(folder="/"), ROOTS),
        (FILE, BOXED, ("/srv/app",)),
        ("feed:/srv/news.xml", AGENT, ("/srv/app", *ROOTS)),
        ("feed:/srv/news.xml", PERSON, None),
        *((each, PERSON, None) for each in HIDDEN),
        *((each, AGENT, None) for each in HIDDEN),
        ("url:https://a.example", PERSON, None),
        ("url:https://a.example", AGENT, ()),
        ("path:/srv/app/out", PERSON, None),
        ("path:/srv/app/out", AGENT, ("/srv/app", *ROOTS)),
        ("path:/srv/app/out", BOXED, ("/srv/app",)),
        *((each, BOXED, None) for each in ("queue:reviewer", "time:18:00")),
    ],
)
def test_a_caller_is_confined_to_its_folders(target, caller, within):
    assert look(target, caller) == within


@pytest.mark.parametrize("target", HIDDEN)
def test_terminals_windows_and_screen_are_hidden_in_a_sandbox(target):
    look(target, AGENT)
    look(target, BOXED, "all")
    look(target, BOXED, "workspace", None)
    for sandbox in ("workspace", "none"):
        with pytest.raises(NotAllowed, match="You run in a sandbox") as refused:
            look(target, BOXED, sandbox)
        assert "TASKMEM_SANDBOX_LOOKS=all" in str(refused.value)
        assert ("/srv/app" in str(refused.value)) is (sandbox == "workspace")


@pytest.mark.parametrize(
    ("allowed", "is_allowed"),
    [
        ((), False),
        (("all",), True),
        (("kubectl get", "gh run view"), True),
        (("gh",), True),
        (("gh run list",), False),
        (("gh run vie",), False),
        (("gh run view 7 --json",), False),
    ],
)
@pytest.mark.parametrize("roots", [ROOTS, None])
def test_agents_have_only_commands_run_that_begin_as_allowed(allowed, is_allowed, roots):
    command = "command:gh run  view 7"
    assert look(command, PERSON, roots=roots) == ()
    assert look(command, Caller(person=True, folder="/srv/app")) == ("/srv/app",)
    if is_allowed:
        assert look(command, AGENT, roots=roots, commands=allowed) == ("/srv/app",)
        assert look(command, BOXED, "all", commands=allowed) == ("/srv/app",)
    else:
        with pytest.raises(NotAllowed, match='add "gh run" to wait_commands'):
            look(command, AGENT, roots=roots, commands=allowed)


def test_a_command_that_is_armed_again_runs_where_it_ran():
    target = parse_target("command:make check").model_copy(update={"within": ("/home/u",)})
    armed = confine_to_kept_folders(target, ("/srv/app",), AGENT, LookPolicy(roots=ROOTS))
    assert armed.within == ("/srv/app",)


def test_what_a_sandboxed_session_runs_is_shown_to_it():
    for sandbox in SandboxLooks:
        look("pty:vivid-shoal", BOXED, sandbox, runs={"vivid-shoal"})
    # So that no sensor names another, where it is not there.
    assert look("pty:vivid-shoal", BOXED, runs={"vivid-shoal"}) == ()
    with pytest.raises(NotAllowed):
        look("pty:vivid-shoal", BOXED, runs={"other-shoal"})


@pytest.mark.parametrize(
    ("caller", "sandbox", "hidden"),
    [
        (PERSON, "none", False),
        (AGENT, "none", False),
        (BOXED, "none", True),
        (BOXED, "workspace", True),
        (BOXED, "all", False),
    ],
)
def test_no_command_that_has_ended_is_shown_in_a_sandbox(caller, sandbox, hidden):
    policy = LookPolicy(roots=ROOTS, sandbox=sandbox)
    assert is_command_hidden("okbuild", caller, policy) is hidden


def test_no_file_is_shown_in_a_sandbox_without_a_folder():
    for caller, sandbox in ((HOMELESS, "workspace"), (BOXED, "none")):
        with pytest.raises(NotAllowed, match="You run in a sandbox"):
            look(FILE, caller, sandbox)
    assert look(FILE, BOXED, "all") == ("/srv/app", *ROOTS)
