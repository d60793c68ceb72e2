"""The hosts' own commands are asked first; the file says whether they did it."""

import fcntl
import json
import stat
import tomllib

import pytest

from taskmem_hookspecs.installing import find_command
from taskmem_mcp_hosts import host_cli
from tests.plugins.mcp_hosts.stand_ins import StandIn

PROGRAM, *ARGUMENTS = find_command()
ENTRY = {"command": PROGRAM, "args": [*ARGUMENTS, "mcp"], "env": {"TASKMEM_TOOLS": "runs"}}
OTHERS = {
    "claude": '{\n    "mcpServers": {\n        "x": {\n            "a": 1\n        }\n'
    '    },\n    "key": "sk-secret"\n}\n',
    "codex": "# mine\n[mcp_servers.x]\ncommand = 'a'  # keep\nunknown = 1\n",
}
FILES = {"claude": ".claude.json", "codex": ".codex/config.toml"}
ADD = {
    "claude": ["mcp", "add-json", "--scope", "user", "taskmem", json.dumps(ENTRY)],
    "codex": [
        *("mcp", "add", "taskmem", "--env", "TASKMEM_TOOLS=runs"),
        *("--", PROGRAM, *ARGUMENTS, "mcp"),
    ],
}
REMOVE = {
    "claude": ["mcp", "remove", "--scope", "user", "taskmem"],
    "codex": ["mcp", "remove", "taskmem"],
}
HOSTS = pytest.mark.parametrize("host", ["claude", "codex"])


@pytest.fixture
def make_command(tmp_path, user):
    """Makes a host's own command, and a file that others have written in."""

    def make(host, text=None):
        file = user / FILES[host]
        file.parent.mkdir(exist_ok=True)
        if text is not None:
            file.write_text(text)
        return file, StandIn(tmp_path / "programs", host)

    return make


def server(file):
    read = tomllib.loads if file.suffix == ".toml" else json.loads
    found = {"mcp_servers": {}, "mcpServers": {}, **read(file.read_text())}
    return {**found["mcp_servers"], **found["mcpServers"]}.get("taskmem")


@HOSTS
def test_the_command_adds_the_entry_and_takes_it_out(setup, make_command, host):
    file, program = make_command(host)
    said = setup(host)
    assert said.status == 0, said.text
    assert program.calls == [[host, *ADD[host]]]
    assert {**server(file), **ENTRY} == server(file)
    assert "did not do it" not in said.text
    text = file.read_text()
    assert "Everything is in place" in setup(host).text
    assert file.read_text() == text
    said = setup(host, "--remove").text
    assert program.calls[1:] == [[host, *REMOVE[host]]]
    assert "did not do it" not in said
    assert file.exists() is (host == "claude")  # which notes more in it than servers
    assert host == "codex" or list(json.loads(file.read_text())) == ["numStartups"]


def test_in_a_project_claude_s_command_writes_its_file(setup, make_command, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    file, program = make_command("claude", "{}")
    setup("claude", "--project", str(project))
    assert program.calls[0][3:5] == ["--scope", "project"]
    assert server(project / ".mcp.json")["type"] == "stdio"
    assert json.loads(file.read_text()) == {"numStartups": 1}
    setup("claude", "--project", str(project), "--remove")
    assert list(project.iterdir()) == []


def test_codex_has_no_command_for_a_project(setup, make_command, tmp_path):
    _, program = make_command("codex")
    setup("codex", "--project", str(tmp_path))
    assert server(tmp_path / ".codex" / "config.toml") == ENTRY
    assert program.calls == []


@HOSTS
def test_an_entry_that_is_there_is_changed_in_the_file_alone(setup, make_command, host):
    """No argument shows to other users what somebody keeps in its environment."""
    text = {
        "claude": '{"mcpServers": {"taskmem": {"command": "old/taskmem", "args": '
        '["mcp"], "env": {"TOKEN": "sk-secret"}}}}',
        "codex": "[mcp_servers.taskmem]\ncommand = 'old/taskmem'\nargs = ['mcp']\n"
        "[mcp_servers.taskmem.env]\nTOKEN = 'sk-secret'\n",
    }
    file, program = make_command(host, text[host])
    setup(host)
    assert server(file) == {**ENTRY, "env": {"TOKEN": "sk-secret", **ENTRY["env"]}}
    assert program.calls == []


@HOSTS
def test_a_dry_run_shows_the_command_and_runs_none(setup, make_command, host):
    file, program = make_command(host, OTHERS[host])
    said = setup(host, "--dry-run").text
    assert f"would run: {host} mcp add" in said
    assert "sk-secret" not in said
    assert program.calls == []
    assert file.read_text() == OTHERS[host]
    setup(host)
    calls = program.calls
    assert f"would run: {host} mcp remove" in setup(host, "--remove", "--dry-run").text
    assert program.calls == calls


# --- where it does not --------------------------------------------------------

RUDE = {
    "fails": {"status": 1},
    "says that it did it": {"status": 0},
    "hangs": {"hang": True},
    "breaks the file": {"junk": "~/{file}"},
    "writes no text": {"junk": "~/{file}", "raw": True, "status": 1},
    "breaks the file and fails": {"junk": "~/{file}", "status": 1},
    "breaks it and hangs": {"junk": "~/{file}", "hang": True},
}


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(host_cli, "SECONDS", 0.5)


def rude(program, fault, *verbs):
    given = {k: str(v).format(file=FILES[program.name]) for k, v in fault.items()}
    fault = {**given, **{k: v for k, v in fault.items() if k == "status"}}
    program.fail(dict.fromkeys(verbs or ("add", "add-json"), fault))


@HOSTS
@pytest.mark.parametrize("fault", RUDE.values(), ids=RUDE)
def test_where_the_command_does_not_the_file_is_written(
    setup, make_command, impatient, host, fault
):
    file, program = make_command(host, OTHERS[host])
    rude(program, fault)
    said = setup(host)
    assert said.status == 0, said.text
    assert f"note: {host} mcp add" in said.text
    assert "sk-secret" not in said.text
    assert server(file) == ENTRY
    rude(program, fault, "remove")
    assert "did not do it" in setup(host, "--remove").text
    assert file.read_text().strip() == OTHERS[host].strip()


@HOSTS
def test_a_command_that_hangs_ends_with_all_that_it_started(setup, make_command, impatient, host):
    _, program = make_command(host)
    rude(program, {"hang": True})
    assert "it gave no answer within 0.5 s" in setup(host).text
    with (program.programs / "running").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # which whoever still runs would hold


def test_what_codex_takes_from_others_is_put_back(setup, make_command):
    file, program = make_command("codex", OTHERS["codex"])
    said = setup("codex").text
    assert "it changed what is not ours, which is put back" in said
    assert file.read_text().startswith(OTHERS["codex"])
    assert server(file) == ENTRY
    setup("codex", "--remove")
    assert [call[2] for call in program.calls] == ["add", "remove"]
    assert file.read_text().strip() == OTHERS["codex"].strip()


@pytest.mark.parametrize("scope", ["local", "project"])
def test_another_scope_is_put_back(setup, make_command, user, scope, monkeypatch):
    file, program = make_command("claude", OTHERS["claude"])
    monkeypatch.chdir(user)
    program.fail({"add-json": {"scope": scope}})
    assert "did not do it" in setup("claude").text
    found = json.loads(file.read_text())
    assert found["mcpServers"] == {"x": {"a": 1}, "taskmem": ENTRY}
    assert "projects" not in found
    assert sorted(each.name for each in user.iterdir()) == [
        *(".claude", ".claude.json", ".openclaw")
    ]


@pytest.mark.parametrize("scope", ["local", "user"])
def test_the_user_s_file_is_put_back_after_a_project_s(setup, make_command, tmp_path, scope):
    project = tmp_path / "project"
    project.mkdir()
    file, program = make_command("claude", OTHERS["claude"])
    program.fail({"add-json": {"scope": scope}})
    setup("claude", "--project", str(project))
    assert file.read_text() == OTHERS["claude"]
    assert server(project / ".mcp.json") == ENTRY


def test_an_entry_that_the_command_wrote_wrongly_is_written_anew(setup, make_command):
    file, program = make_command("claude", OTHERS["claude"])
    program.fail({"add-json": {"also": {"command": "/bin/other"}}})
    assert "(it is not as it should be)" in setup("claude").text
    assert server(file) == ENTRY


def test_what_claude_notes_beside_the_entry_stays(setup, make_command):
    file, _ = make_command("claude", OTHERS["claude"])
    setup("claude")
    found = json.loads(file.read_text())
    assert (found["numStartups"], found["key"]) == (1, "sk-secret")
    assert found["mcpServers"]["x"] == {"a": 1}


def test_a_command_that_cannot_be_started_is_no_obstacle(setup, make_command):
    file, program = make_command("claude")
    (program.programs / "claude").write_text("#!/nowhere/at/all\n")
    assert "it cannot be started" in setup("claude").text
    assert server(file) == ENTRY


def test_who_stops_the_command_finds_the_file_as_it_was(setup, make_command, monkeypatch):
    file, _ = make_command("codex", OTHERS["codex"])

    def stop(*_):
        file.write_text("[ junk")
        raise KeyboardInterrupt

    monkeypatch.setattr(host_cli, "run_command", stop)
    assert "It was stopped; run the same command again" in setup("codex").sentence
    assert file.read_text() == OTHERS["codex"]


def test_a_link_is_followed_by_what_is_put_back(setup, make_command, user):
    file, program = make_command("codex")
    real = user / "dotfiles.toml"
    real.write_text(OTHERS["codex"])
    file.symlink_to(real)
    setup("codex")
    assert program.calls
    assert file.is_symlink()
    assert real.read_text().startswith(OTHERS["codex"])


# --- back-up and undo ---------------------------------------------------------


def copies(user):
    return sorted((user / ".openclaw" / "taskmem" / "setup").glob("*.before"))


@HOSTS
@pytest.mark.parametrize("command", [True, False], ids=["by command", "by file"])
def test_undo_puts_back_what_was_there(setup, make_command, user, host, command):
    file, program = make_command(host, OTHERS[host])
    if not command:
        (program.programs / host).unlink()
    setup(host)
    [copy] = copies(user)
    assert copy.read_text() == OTHERS[host]
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert stat.S_IMODE(copy.parent.stat().st_mode) == 0o700
    said = setup(host, "--undo", "--dry-run").text
    assert f"would put back {file} as it was before" in said
    assert "sk-secret" not in said
    assert server(file) is not None
    assert f"{file} is as it was before" in setup(host, "--undo").text
    assert file.read_text() == OTHERS[host]
    assert copies(user) == []
    assert not list(user.rglob("SKILL.md"))
    assert "no trace of taskmem" in setup(host, "--undo").text


def test_undo_leaves_what_others_changed_since_and_says_so(setup, make_command, user):
    file, _ = make_command("codex", OTHERS["codex"])
    setup("codex")
    file.write_text(f"{file.read_text()}\n[since]\n")
    said = setup("codex", "--undo").text
    [copy] = copies(user)
    assert f"{file} is not as set-up left it" in said
    assert f"what it said before stays as {copy}" in said
    assert file.read_text() == f"{OTHERS['codex']}\n\n[since]\n"


def test_undo_puts_an_earlier_entry_back_with_its_skill(setup, make_command, user, monkeypatch):
    file, _ = make_command("codex", OTHERS["codex"])
    setup("codex")
    text = file.read_text()
    monkeypatch.setenv("TASKMEM_HOME", str(user / "elsewhere"))
    setup("codex")
    assert file.read_text() != text
    setup("codex", "--undo")
    assert file.read_text() == text
    assert list(user.rglob("SKILL.md"))


def test_undo_of_a_file_that_was_not_there_removes_it(setup, user):
    setup("codex")
    assert copies(user) == []
    setup("codex", "--undo")
    assert list(user.iterdir()) == []


def test_remove_leaves_no_back_up(setup, make_command, user):
    make_command("codex", OTHERS["codex"])
    setup("codex")
    setup("codex", "--remove")
    assert not (user / ".openclaw" / "taskmem").exists()


def test_what_cannot_be_kept_is_not_changed(setup, make_command, user):
    file, program = make_command("codex", OTHERS["codex"])
    (user / ".openclaw").write_text("a file")
    assert str(user / ".openclaw") in setup("codex").sentence
    assert program.calls == []
    assert file.read_text() == OTHERS["codex"]


def test_undo_and_remove_are_two_things(setup):
    assert "not both" in setup("claude", "--undo", "--remove").text
