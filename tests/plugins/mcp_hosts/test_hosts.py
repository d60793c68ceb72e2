"""`taskmem setup claude`, `codex` and `skill`."""

import errno
import json
import os
import re
import stat
import tomllib
from pathlib import Path

import pytest

from openclaw_taskmem.tools import catalog
from taskmem_mcp_hosts import hosts
from taskmem_mcp_hosts import hosts as apply
from taskmem_openclaw.setup import package_files
from taskmem_program import OWN_PROGRAM
from taskmem_setup import add_seal

PROGRAM, *ARGUMENTS = OWN_PROGRAM
WORDS = hosts.load_skill(Path()).words
ENTRY = {"command": PROGRAM, "args": [*ARGUMENTS, "mcp"], "env": {"TASKMEM_TOOLS": "runs"}}


def servers(file):
    text = file.read_text()
    if file.suffix == ".toml":
        return tomllib.loads(text)["mcp_servers"]
    return json.loads(text)["mcpServers"]


PLACES = [
    ("claude", ".claude.json", ".claude/skills"),
    ("codex", ".codex/config.toml", ".agents/skills"),
]


@pytest.mark.parametrize(("host", "file", "skills"), PLACES)
def test_the_server_and_the_skill_are_where_the_host_reads_them(setup, user, host, file, skills):
    said = setup(host)
    assert said.status == 0, said.text
    assert servers(user / file) == {"taskmem": ENTRY}
    assert stat.S_IMODE((user / file).stat().st_mode) == 0o600
    skill = user / skills / "task-memory" / "SKILL.md"
    assert skill.read_bytes() == WORDS


@pytest.mark.parametrize(
    "place",
    [
        ("claude", "CLAUDE_CONFIG_DIR", "own/.claude.json", "own/skills"),
        ("codex", "CODEX_HOME", "own/config.toml", ".agents/skills"),
    ],
)
def test_a_host_that_was_moved_is_found(setup, user, monkeypatch, place):
    host, variable, file, skills = place
    monkeypatch.setenv(variable, str(user / "own"))
    setup(host)
    env = dict(ENTRY["env"])
    if host == "codex":  # which passes it on to no MCP server
        env[variable] = str(user / "own")
    assert servers(user / file) == {"taskmem": {**ENTRY, "env": env}}
    assert (user / skills / "task-memory" / "SKILL.md").exists()


@pytest.mark.parametrize(
    "place",
    [("claude", ".mcp.json", ".claude/skills"), ("codex", ".codex/config.toml", ".agents/skills")],
)
def test_a_project_has_its_own(setup, user, tmp_path, place):
    host, file, skills = place
    project = tmp_path / "project"
    project.mkdir()
    setup(host, "--project", str(project))
    assert servers(project / file) == {"taskmem": ENTRY}
    assert (project / skills / "task-memory" / "SKILL.md").exists()
    assert list(user.iterdir()) == []


@pytest.mark.parametrize(("host", "file", "skills"), PLACES)
def test_second_setup_changes_nothing_and_remove_takes_it_all(setup, user, host, file, skills):
    setup(host)
    before = (user / file).stat().st_mtime_ns
    assert "Everything is in place" in setup(host).text
    assert (user / file).stat().st_mtime_ns == before
    said = setup(host, "--remove")
    assert "keeps its data" not in said.text  # there is none
    assert list(user.iterdir()) == []
    assert "no trace of taskmem" in setup(host, "--remove").text


@pytest.mark.parametrize("host", ["claude", "codex"])
def test_remove_leaves_nothing_of_ours_in_a_project(setup, user, tmp_path, host):
    project = tmp_path / "project"
    project.mkdir()
    setup(host, "--project", str(project))
    setup(host, "--project", str(project), "--remove")
    assert list(project.iterdir()) == []


@pytest.mark.parametrize(("host", "file", "skills"), PLACES)
def test_remove_leaves_what_is_not_ours(setup, user, host, file, skills):
    texts = {"claude": '{"key": 1, "mcpServers": {"x": {}}}\n', "codex": "# mine\n"}
    place, other = user / file, user / skills / "other"
    place.parent.mkdir(exist_ok=True)
    place.write_text(texts[host])
    other.mkdir(parents=True)
    setup(host)
    setup(host, "--remove")
    assert place.read_text().strip() == texts[host].strip()
    assert [each.name for each in (user / skills).iterdir()] == ["other"]


def test_an_empty_object_round_our_entry_goes_with_it(setup, user):
    file = user / ".claude.json"
    file.write_text('{"key": 1}\n')
    setup("claude")
    setup("claude", "--remove")
    assert json.loads(file.read_text()) == {"key": 1}


def test_remove_names_what_it_removed_and_where_the_data_is(setup, user, tmp_path, monkeypatch):
    usual = os.environ["TASKMEM_HOME"]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setenv("TASKMEM_HOME", str(tmp_path / "elsewhere"))
    setup("codex")
    monkeypatch.setenv("TASKMEM_HOME", usual)
    said = setup("codex", "--remove").text
    assert f"the MCP server taskmem ({user / '.codex' / 'config.toml'}) and" in said
    data = f"{tmp_path / 'elsewhere'}, where taskmem keeps its data, was not touched."
    assert data in said


def test_no_trace_in_a_project_says_nothing_of_the_user(setup, user, tmp_path):
    setup("claude")
    said = setup("claude", "--project", str(tmp_path), "--remove").text
    assert f"no trace of taskmem in {tmp_path / '.mcp.json'} and " in said


@pytest.mark.parametrize(("host", "word"), [("claude", "It asks"), ("codex", "this project")])
def test_a_project_s_server_needs_the_person_s_leave(setup, tmp_path, host, word):
    assert word in setup(host, "--project", str(tmp_path)).text
    assert word not in setup(host).text


def test_a_dry_run_of_remove_says_which_file_goes(setup, user):
    setup("claude")
    said = setup("claude", "--remove", "--dry-run").text
    assert f"would remove {user / '.claude.json'}, which has nothing else" in said
    assert (user / ".claude.json").exists()


# --- a host that is not there ---------------------------------------------------


@pytest.mark.parametrize(("host", "name"), [("claude", "Claude Code"), ("codex", "Codex")])
def test_a_host_that_is_not_installed_is_told_of_each_time(setup, user, host, name):
    note = f"note: {name} was not found here: there is no command {host}, and"
    first = setup(host).text
    assert f"{name} will find the MCP server taskmem (" in first
    assert f"{name} has" not in first
    for said in (first, setup(host).text):
        assert said.startswith(note)
    assert "was not found" not in setup(host, "--remove").text


@pytest.mark.parametrize(
    ("host", "kept"), [("claude", ".claude/history.jsonl"), ("codex", ".codex/auth.json")]
)
def test_a_host_is_known_by_its_command_or_what_it_keeps(setup, user, tmp_path, host, kept):
    program = tmp_path / "programs" / host
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert "was not found" not in setup(host).text

    program.unlink()
    (user / kept).parent.mkdir(exist_ok=True)
    (user / kept).touch()
    assert "was not found" not in setup(host).text


def test_who_does_not_find_taskmem_by_its_name_is_told(setup, tmp_path):
    said = "note: taskmem is not on your PATH"
    assert said in setup("claude").text
    program = tmp_path / "programs" / "taskmem"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert said not in setup("claude").text


def test_under_pipx_the_folder_of_its_links_is_named(setup, user):
    links = user / ".local" / "bin"
    links.mkdir(parents=True)
    (links / "taskmem").touch()
    assert f"add {links} to it." in setup("claude").text


def install_plugin(user, host):
    """Write what the host's own plug-in command writes."""
    file, text = {
        "claude": (".claude/settings.json", '{"enabledPlugins": {"%s": true}}'),
        "codex": (".codex/config.toml", '[plugins."%s"]\nenabled = true\n'),
    }[host]
    (user / file).parent.mkdir(exist_ok=True)
    (user / file).write_text(text % hosts.PLUGIN)


@pytest.mark.parametrize("host", ["claude", "codex"])
def test_a_host_with_the_plug_in_is_not_set_up_beside_it(setup, user, host):
    install_plugin(user, host)
    shown = setup(host).text
    assert f"has the plug-in {hosts.PLUGIN}, which does the same; nothing was changed." in shown
    assert "has no trace of taskmem" in setup(host, "--remove").text


@pytest.mark.parametrize("host", ["claude", "codex"])
def test_the_hooks_of_a_host_are_explained(setup, host):
    assert "every prompt and every call of a tool" in setup(host).text


@pytest.mark.parametrize(("host", "file", "skills"), PLACES)
def test_a_dry_run_shows_what_would_change_and_no_secret(setup, user, host, file, skills):
    place = user / file
    place.parent.mkdir(exist_ok=True)
    text = {"claude": '{\n  "key": "sk-secret"\n}\n', "codex": "key = 'sk-secret'\n"}
    place.write_text(text[host])
    said = setup(host, "--dry-run")
    assert PROGRAM in said.text
    assert "would write the skill" in said.text
    assert "sk-secret" not in said.text
    assert place.read_text() == text[host]
    assert not (user / skills).exists()


def test_dry_run_shows_our_entry_but_not_its_environment_values(setup, user):
    own = {**ENTRY, "command": "old/taskmem", "env": {"TOKEN": "sk-secret"}}
    file = user / ".claude.json"
    file.write_text(json.dumps({"mcpServers": {"taskmem": own}, "key": "sk-other"}))
    said = setup("claude", "--dry-run").text
    assert '-  "command": "old/taskmem"' in said
    assert f'+  "command": "{PROGRAM}"' in said
    assert "sk-secret" not in said
    assert "sk-other" not in said


def test_a_dry_run_shows_an_entry_as_the_host_writes_it(setup, user):
    said = setup("codex", "--dry-run").text
    setup("codex")
    written = (user / ".codex" / "config.toml").read_text()
    added = [line[1:] for line in said.splitlines() if line.startswith("+")]
    assert added[1:] == written.splitlines()


def test_a_home_of_another_place_goes_with_the_entry(setup, user, monkeypatch):
    monkeypatch.setenv("TASKMEM_HOME", "/elsewhere")
    setup("claude")
    there = servers(user / ".claude.json")["taskmem"]
    assert there["env"] == {**ENTRY["env"], "TASKMEM_HOME": "/elsewhere"}


@pytest.mark.parametrize("place", PLACES)
def test_an_entry_keeps_its_home_unless_the_shell_names_one(setup, user, monkeypatch, place):
    host, file, _ = place
    usual = str(user / ".openclaw" / "taskmem")
    monkeypatch.setenv("TASKMEM_HOME", "/elsewhere")
    setup(host)
    monkeypatch.setenv("TASKMEM_HOME", usual)
    said = setup(host)
    assert "Its home stays /elsewhere, which its entry names" in said.text
    assert servers(user / file)["taskmem"]["env"]["TASKMEM_HOME"] == "/elsewhere"
    monkeypatch.setenv("TASKMEM_HOME", "/third")
    assert "Its home stays" not in setup(host).text
    assert servers(user / file)["taskmem"]["env"]["TASKMEM_HOME"] == "/third"
    monkeypatch.setenv("TASKMEM_HOME", usual)
    setup(host, "--remove")
    setup(host)
    assert servers(user / file) == {"taskmem": ENTRY}


def test_what_somebody_has_added_to_our_entry_stays(setup, user):
    file = user / ".claude.json"
    own = {"type": "stdio", "command": "taskmem", "args": ["mcp"], "env": {"A": "b"}}
    file.write_text(json.dumps({"mcpServers": {"taskmem": own}}))
    setup("claude")
    wanted = {**ENTRY, "type": "stdio", "env": {**ENTRY["env"], "A": "b"}}
    assert servers(file) == {"taskmem": wanted}


def test_a_host_is_offered_the_tools_that_the_skill_names(setup, user):
    setup("claude")
    file = user / ".claude.json"
    profile = servers(file)["taskmem"]["env"]["TASKMEM_TOOLS"]
    offered = {tool.name for tool in catalog.list_offered(profile, recalls=False)}
    skill = WORDS.decode()
    named = set(re.findall(r"`(task_\w+|wait_\w+|smart_wait)`", skill))
    assert named - {"task_id"} <= offered
    # Whoever wants fewer keeps what they have set.
    config = json.loads(file.read_text())
    config["mcpServers"]["taskmem"]["env"]["TASKMEM_TOOLS"] = "default"
    file.write_text(json.dumps(config))
    setup("claude")
    assert servers(file)["taskmem"]["env"]["TASKMEM_TOOLS"] == "default"


@pytest.mark.parametrize("host", PLACES)
@pytest.mark.parametrize("text", ["{ broken", "\xff"])
def test_a_broken_file_is_one_sentence_and_stays(setup, user, host, text):
    name, file, skills = host
    place = user / file
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(text.encode("latin-1"))
    assert "cannot be read (" in setup(name).sentence
    assert place.read_bytes() == text.encode("latin-1")
    assert not (user / skills).exists()


@pytest.mark.parametrize("way", ["--dry-run", "--remove"])
def test_another_server_of_that_name_is_left_alone(setup, user, way):
    file = user / ".claude.json"
    text = '{"mcpServers": {"taskmem": {"command": "theirs"}}}'
    file.write_text(text)
    assert "another MCP server by the name taskmem" in setup("claude", way).sentence
    assert file.read_text() == text


def test_another_skill_of_that_name_is_left_alone(setup, user):
    theirs = user / ".claude" / "skills" / "task-memory" / "SKILL.md"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("---\nname: another\n---\n")
    assert "is another skill" in setup("claude").sentence
    assert not (user / ".claude.json").exists()
    assert "another" in theirs.read_text()


@pytest.mark.parametrize("way", [(), ("--remove",)])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_ordinary_file_is_left_alone(setup, user, make, way):
    file = user / ".claude.json"
    make(file)
    sentence = setup("claude", *way).sentence
    assert f"{file} cannot be read (it is no ordinary file)" in sentence
    assert not file.is_file()


def test_a_disk_that_is_full_names_the_user_s_file(setup, user, monkeypatch):
    def fsync(_handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)
    sentence = setup("claude").sentence
    assert f"Error: {user / '.claude.json'} cannot be written (No space" in sentence
    assert list(user.iterdir()) == []


def test_a_link_stays_a_link_and_a_mode_stays(setup, user):
    real = user / "dotfiles.json"
    real.write_text("{}\n")
    real.chmod(0o640)
    (user / ".claude.json").symlink_to(real)
    setup("claude")
    assert (user / ".claude.json").is_symlink()
    assert servers(real) == {"taskmem": ENTRY}
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_setup_does_not_overwrite_a_file_the_host_just_changed(setup, user, monkeypatch):
    file = user / ".claude.json"
    file.write_text("{}")

    def meanwhile(*_):
        file.write_text('{"news": 1}')
        return ENTRY

    monkeypatch.setattr(apply, "make_entry", meanwhile)
    assert "was changed this moment; run this again" in setup("claude").sentence
    assert file.read_text() == '{"news": 1}'


def test_a_place_that_cannot_be_written_is_one_sentence(setup, user):
    (user / ".claude").write_text("a file")
    sentence = setup("claude").sentence
    assert sentence.startswith("Error: ")
    assert str(user / ".claude") in sentence


def test_the_skill_goes_into_any_folder(setup, tmp_path):
    folder = tmp_path / "skills"
    file = folder / "task-memory" / "SKILL.md"
    assert f"would write the skill {file}" in setup("skill", str(folder), "--dry-run").text
    assert not folder.exists()
    assert str(file) in setup("skill", str(folder)).text
    assert file.read_bytes() == WORDS
    assert "Everything is in place" in setup("skill", str(folder)).text


def test_the_skill_never_goes_into_a_folder_without_a_name(setup, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "FOLDER is empty" in setup("skill", "").text
    assert not (tmp_path / "task-memory").exists()


def test_who_takes_the_skill_alone_is_told_its_tools(setup, tmp_path):
    assert "TASKMEM_TOOLS=runs" in setup("skill", str(tmp_path)).text


OF_A_GATEWAY = (
    *("OpenClaw", "[system]", "[task_stuck_resume]", "resolved (wait_"),
    *("segmented", "task_step_done", "task_background", "pty:vivid-shoal"),
)
"""What only a gateway's agent meets."""


def test_a_host_s_skill_says_nothing_that_needs_a_gateway():
    skill = WORDS.decode()
    assert [words for words in OF_A_GATEWAY if words in skill] == []


def test_a_host_s_skill_is_short():
    assert len(WORDS) <= 3200, "agents read it in every session; shorten another sentence"


def test_the_host_s_skill_replaces_openclaw_s(setup, user):
    folder = user / ".claude" / "skills" / "task-memory"
    folder.mkdir(parents=True)
    theirs = package_files.find_plugin().folder / "skills" / "task-memory" / "SKILL.md"
    (folder / "SKILL.md").write_bytes(theirs.read_bytes())
    setup("claude")
    assert (folder / "SKILL.md").read_bytes() == WORDS


@pytest.mark.parametrize("tool", catalog.TOOLS, ids=lambda tool: tool.name)
def test_no_tool_promises_what_only_a_gateway_does(tool):
    """Their descriptions are read by hosts that no wake can reach, too."""
    told = f"{tool.description} {json.dumps(tool.input_schema)}"
    promises = ("woken", "woke", "wakes you", "is shown", "to press", "budget")
    assert [words for words in promises if words in told] == []


@pytest.mark.parametrize(("host", "name"), [("claude", "Claude Code"), ("codex", "Codex")])
def test_set_up_says_how_its_agents_are_woken(setup, host, name):
    *_, last = setup(host).text.splitlines()
    assert f"{name} is woken in the session that asked" in last


@pytest.mark.parametrize("given", [(), ("--remove",)], ids=["again", "remove"])
def test_a_skill_that_was_changed_by_hand_is_kept_and_said(setup, user, given):
    setup("claude")
    file = user / ".claude" / "skills" / "task-memory" / "SKILL.md"
    changed = file.read_bytes() + b"Call me Ishmael.\n"
    file.write_bytes(changed)

    said = setup("claude", *given).text

    copy = file.with_name("SKILL.md.before")
    assert f"What {file} said is kept as {copy}." in said
    assert copy.read_bytes() == changed
    assert file.exists() is not bool(given)


def test_remove_says_where_the_skill_of_before_is(setup, user):
    file = user / ".claude" / "skills" / "task-memory" / "SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text("---\nname: task-memory\n---\nCall me Ishmael.\n")
    setup("claude")

    said = setup("claude", "--remove").text

    copy = file.with_name("SKILL.md.before")
    assert f"What {file} said before stays as {copy}." in said
    assert copy.exists()


def test_a_skill_of_an_earlier_version_is_not_kept(setup, user):
    file = user / ".claude" / "skills" / "task-memory" / "SKILL.md"
    setup("claude")
    file.write_bytes(add_seal(b"name: task-memory\n"))

    said = setup("claude", "--remove").text

    assert "is kept" not in said
    assert not (user / ".claude" / "skills" / "task-memory").exists()
