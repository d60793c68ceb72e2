"""The hooks that set-up puts into Claude Code's and Codex's files."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

import taskmem_openclaw
from taskmem_mcp_hosts.config_files import Unreadable
from taskmem_mcp_hosts.hook_entries import EVENTS, build_command, build_group, put_hooks
from taskmem_program import OWN_PROGRAM

COMMAND = shlex.join((*OWN_PROGRAM, "hook"))
OURS = {
    event: build_group(event, COMMAND) for event in (*EVENTS, "PostToolUseFailure", "StopFailure")
}
THEIRS = {"matcher": "resume", "hooks": [{"type": "command", "command": "theirs"}]}
PLACES = [("claude", ".claude/settings.json"), ("codex", ".codex/hooks.json")]
CALLED = {"claude": (*EVENTS, "PostToolUseFailure", "StopFailure"), "codex": EVENTS}


BUNDLE = Path(taskmem_openclaw.__file__).parent / "bundle"


def test_the_plug_in_of_the_hosts_has_the_hooks_of_set_up():
    told = put_hooks("", "taskmem hook", CALLED["claude"])
    assert json.loads((BUNDLE / "hooks" / "hooks.json").read_text()) == json.loads(told)


def hooks(file):
    return json.loads(file.read_text())["hooks"]


@pytest.mark.parametrize(("host", "file"), PLACES)
def test_hooks_come_with_set_up_and_go_with_remove(setup, user, host, file):
    output = setup(host).text
    assert f"the hooks ({user / file})" in output
    assert hooks(user / file) == {key: [OURS[key]] for key in CALLED[host]}
    assert f"the hooks ({user / file})" in setup(host, "--remove").text
    assert not (user / file).exists()


@pytest.mark.parametrize(("host", "file"), PLACES)
def test_a_dry_run_shows_the_hooks_and_writes_none(setup, user, host, file):
    output = setup(host, "--dry-run").text
    assert (
        f"would write the hooks {user / file}: for {', '.join(CALLED[host])}, {COMMAND}" in output
    )
    assert not (user / file).exists()
    setup(host)
    output = setup(host, "--remove", "--dry-run").text
    assert f"would remove the hooks of taskmem from {user / file}" in output
    assert (user / file).exists()


def test_set_up_says_that_codex_skips_hooks_until_trusted(setup):
    word = "It runs the hooks only once you trust them"
    assert word in setup("codex").text
    assert word not in setup("codex").text
    assert word not in setup("claude").text


@pytest.mark.parametrize(("host", "file"), PLACES)
def test_a_broken_file_of_hooks_is_one_sentence(setup, user, host, file):
    place = user / file
    place.parent.mkdir()
    place.write_text('{"hooks": []}')
    assert f"{place} cannot be read (hooks is no object)" in setup(host).sentence
    assert [each.name for each in place.parent.iterdir()] == [place.name]


def test_hooks_are_for_the_home_of_the_entry(setup, user, monkeypatch):
    monkeypatch.setenv("TASKMEM_HOME", "/else where")
    setup("claude")
    (ours,) = hooks(user / ".claude" / "settings.json")["SessionStart"]
    words = shlex.split(ours["hooks"][0]["command"])
    assert words == ["env", "TASKMEM_HOME=/else where", *OWN_PROGRAM, "hook"]


def test_what_others_have_stays_as_it_is():
    before = {"model": "x", "hooks": {"PreToolUse": [THEIRS], "SessionStart": [THEIRS]}}
    text = json.dumps(before, indent=4)
    after = put_hooks(text, COMMAND)
    wanted = {event: [*before["hooks"].get(event, ()), OURS[event]] for event in EVENTS}
    wanted = {**before["hooks"], **wanted}
    assert json.loads(after) == {**before, "hooks": wanted}
    assert put_hooks(after, COMMAND) == after
    assert put_hooks(after, None) == text


@pytest.mark.parametrize(
    "command", ["/old/bin/taskmem hook", "env TASKMEM_HOME=/x python -m openclaw_taskmem hook"]
)
def test_hooks_of_an_earlier_set_up_are_replaced(command):
    old = {"type": "command", "command": command}
    shared = {"hooks": [*THEIRS["hooks"], old]}
    text = json.dumps({"hooks": {"SessionStart": [shared], "PreToolUse": [{"hooks": [old]}]}})
    left = {"hooks": THEIRS["hooks"]}
    wanted = {event: [OURS[event]] for event in EVENTS}
    wanted["SessionStart"].insert(0, left)
    assert json.loads(put_hooks(text, COMMAND)) == {"hooks": wanted}
    assert json.loads(put_hooks(text, None)) == {"hooks": {"SessionStart": [left]}}


@pytest.mark.parametrize("command", ["hook", "git hook", "taskmem hook --x", "'taskmem hook", 7])
def test_a_hook_that_is_not_ours_stays(command):
    theirs = {"hooks": {"SessionStart": [{"hooks": [{"command": command}]}, "of another form"]}}
    text = json.dumps(theirs)
    assert put_hooks(text, None) == text


@pytest.mark.parametrize("text", ['{"hooks": 1}', '{"hooks": {"Stop": {}}}', "{", "[]"])
def test_hooks_of_another_form_are_refused(text):
    with pytest.raises(Unreadable):
        put_hooks(text, build_command(None))


@pytest.mark.parametrize("event", EVENTS)
def test_the_host_waits_for_every_hook(event: str):
    hook = {"type": "command", "command": COMMAND, "timeout": 10}
    assert build_group(event, COMMAND)["hooks"] == [hook]


@pytest.mark.parametrize(
    ("tool", "tells"),
    [
        *((each, True) for each in ("Bash", "Edit", "Write", "NotebookEdit", "apply_patch")),
        *((f"mcp__{each}__x", True) for each in ("mail", "t", "ta", "tas", "task", "tracker")),
        *((each, False) for each in ("Read", "BashOutput", "mcp__taskmem__task_update")),
    ],
)
def test_only_tools_that_may_change_something_are_reported(tool: str, tells: bool):
    assert bool(re.search(build_group("PostToolUse", COMMAND)["matcher"], tool)) is tells


def test_a_matcher_of_an_earlier_set_up_is_replaced():
    old = {**build_group("PostToolUse", COMMAND), "matcher": "Bash"}
    text = put_hooks(json.dumps({"hooks": {"PostToolUse": [old]}}), COMMAND)
    assert json.loads(text)["hooks"]["PostToolUse"] == [OURS["PostToolUse"]]
