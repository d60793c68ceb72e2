"""`taskmem setup openclaw`: in, a second time, back, and out."""

import difflib
import json
import os
import pty
import re
import shutil
import stat
import subprocess
import sys
import termios
from pathlib import Path

import click
import pytest

from taskmem_hookspecs import Readiness
from taskmem_openclaw import plugin_socket
from taskmem_openclaw.setup import package_files, prompts
from taskmem_openclaw.setup.openclaw import ShippedPackage
from taskmem_program import OWN_PROGRAM
from taskmem_setup import add_seal, find_command, find_home
from taskmem_vision.gemini import Gemini
from tests.plugins.openclaw.setup.stand_in import StandIn
from tests.support.waiting import PATIENCE

BEFORE = {"gateway": {"port": 1}, "plugins": {"allow": ["x"]}}
FOLDER = str(package_files.find_plugin().folder)


def entry(config):
    return config["plugins"]["entries"]["taskmem"]


# --- in order -----------------------------------------------------------------


def test_two_calls_of_openclaw_move_in(openclaw, set_up_openclaw, home):
    openclaw.write(BEFORE)
    said = set_up_openclaw("--yes")
    assert said.status == 0, said.text
    # A gateway that runs loads it at once: it must know its home by then.
    assert openclaw.changes == ["config patch", "plugins install"]
    assert openclaw.config == {
        "gateway": {"port": 1},
        "plugins": {
            "allow": ["x", "taskmem"],
            "load": {"paths": [FOLDER]},
            "entries": {
                "taskmem": {
                    "enabled": True,
                    "hooks": {"allowConversationAccess": True},
                    "config": {"command": list(find_command()), "home": str(home)},
                }
            },
        },
    }
    assert "takes it up when it starts" in said.text
    assert "left out  answers held back" in said.text


def test_setup_without_a_terminal_names_the_options_it_left_out(openclaw, set_up_openclaw):
    said = set_up_openclaw()
    assert said.status == 0
    assert "hooks" not in entry(openclaw.config)
    left = "left out  access to conversations\n            gives an open task back "
    assert left in said.text
    assert "            without it, the agent has to ask where it was" in said.text
    assert "(to have it, as is recommended: --yes allows it)" in said.text
    assert "(it needs access to conversations)" in said.text


def answer_at_a_terminal(*answers: tuple[bytes, bytes], columns: int = 80) -> str:
    """Set OpenClaw up at a terminal, answer what is asked in this order, and return the text."""
    primary, secondary = pty.openpty()
    termios.tcsetwinsize(secondary, (24, columns))
    shown, environ = b"", {k: v for k, v in os.environ.items() if k != "COLUMNS"}
    command = [sys.executable, "-m", "openclaw_taskmem", "setup", "openclaw"]
    with subprocess.Popen(
        [*command, "--no-proof"], stdin=secondary, stdout=secondary, stderr=secondary, env=environ
    ) as process:
        os.close(secondary)
        seen = b""
        for asked, answer in answers:
            while asked not in seen or not seen.rstrip().endswith((b"[y/N]:", b"[Y/n]:")):
                seen += os.read(primary, 4096)
            os.write(primary, answer)
            shown, seen = shown + seen, b""
        while True:
            try:
                seen += os.read(primary, 4096)
            except OSError:
                break
        assert process.wait(PATIENCE) == 0, seen
    os.close(primary)
    return (shown + seen).decode()


def test_at_a_terminal_each_permission_is_asked_for(openclaw, home):
    openclaw.write({"tools": {"allow": ["exec"]}})
    answer_at_a_terminal(
        (b"access to", b"y\n"),
        (b"held back", b"y\n"),
        (b"recording of", b"y\n"),
        (b"tools.allow", b"n\n"),
    )
    assert entry(openclaw.config)["hooks"] == {"allowConversationAccess": True}
    assert entry(openclaw.config)["config"]["holdBack"] is True
    assert openclaw.config["tools"] == {"allow": ["exec"]}
    assert entry(openclaw.config)["config"]["recordCommands"] is True


def test_enter_gives_what_is_recommended_with_the_reason(openclaw, home):
    openclaw.write({"tools": {"allow": ["exec"]}})
    questions = (b"access to", b"held back", b"recording of", b"tools.allow")
    shown = answer_at_a_terminal(*((each, b"\n") for each in questions))
    assert entry(openclaw.config)["hooks"] == {"allowConversationAccess": True}
    assert entry(openclaw.config)["config"].keys() == {"command", "home"}
    assert openclaw.config["tools"] == {"allow": ["exec", "taskmem"]}
    assert shown.count("recommended: yes, for ") == 2
    assert shown.count("recommended: no, for ") == 2


def test_lines_end_between_words_at_the_terminals_width(openclaw, home):
    asked = ((b"access to", b"n\n"), (b"recording of", b"n\n"))
    wide, narrow = (answer_at_a_terminal(*asked, columns=each) for each in (1000, 60))
    lines = [line for line in narrow.splitlines() if line.startswith(" " * 12)]
    assert len(lines) > 8
    assert max(map(len, lines)) < 60, narrow
    first, second = (each.partition("asked")[2].split()[:80] for each in (wide, narrow))
    assert first == second


def test_a_dry_run_at_a_terminal_shows_what_is_recommended(openclaw, setup, monkeypatch):
    openclaw.write({})
    monkeypatch.setattr(prompts, "_is_terminal", lambda: True)
    said = setup("openclaw", "--dry-run")
    assert '+          "allowConversationAccess": true' in said.text
    assert "holdBack" not in said.text.partition("+++")[2]
    assert "(set-up will ask; this shows what is recommended)" in said.text
    assert openclaw.config == {}


def test_what_a_refusal_makes_useless_is_not_asked_for(openclaw, home):
    answer_at_a_terminal((b"access to", b"n\n"), (b"recording of", b"n\n"))
    assert "holdBack" not in entry(openclaw.config)["config"]


def test_who_stops_at_a_question_is_told_that_nothing_changed(openclaw, setup, monkeypatch):
    def stop(*_, **__):
        raise click.Abort

    monkeypatch.setattr(prompts, "_is_terminal", lambda: True)
    monkeypatch.setattr(click, "confirm", stop)
    assert "stopped before anything was changed" in setup("openclaw").sentence
    assert not openclaw.file.exists()


def test_who_stops_the_proof_is_told_that_it_is_set_up(openclaw, setup, monkeypatch):
    def run(*_, **__):
        raise KeyboardInterrupt

    setup("openclaw", "--yes", "--no-proof")
    monkeypatch.setattr("taskmem_openclaw.setup.prompts.subprocess.run", run)
    sentence = setup("openclaw", "--yes").sentence
    assert "It is set up; only the proof was stopped" in sentence


def test_what_people_approve_is_not_changed_by_allowing_all(openclaw, set_up_openclaw):
    said = set_up_openclaw("--yes")
    assert "left out  recording of background commands\n" in said.text
    assert "taskmem run --name NAME -- SHELL -c 'COMMAND'" in said.text
    assert "recordCommands" not in entry(openclaw.config)["config"]


def test_a_second_time_finds_everything_in_place(openclaw, set_up_openclaw):
    set_up_openclaw("--yes")
    before = openclaw.file.read_bytes(), openclaw.changes
    said = set_up_openclaw("--yes")
    assert "Everything is in place; nothing was changed." in said.text
    assert (openclaw.file.read_bytes(), openclaw.changes) == before


def test_a_dry_run_shows_the_difference_and_changes_nothing(openclaw, set_up_openclaw, home):
    secrets = {"apiKey": "sk-secret", "pin": 4711, "all": ["sk-secret"], "on": True}
    openclaw.write({**BEFORE, "models": secrets})
    before = openclaw.file.read_bytes()
    said = set_up_openclaw("--yes", "--dry-run")
    assert said.status == 0
    assert '+          "allowConversationAccess": true' in said.text
    assert f"would run: {openclaw.program} plugins install --link {FOLDER}" in said.text
    assert f"would run: {openclaw.program} config patch --file PATCH" in said.text
    assert "PATCH is the change above" in said.text
    assert "sk-secret" not in said.text
    assert "4711" not in said.text
    assert openclaw.file.read_bytes() == before
    assert openclaw.changes == []
    assert not home.exists()


def test_the_difference_is_that_of_the_whole_file(openclaw, set_up_openclaw):
    openclaw.write({**BEFORE, "tools": {"alsoAllow": ["y"]}, "zone": "UTC"})
    before = json.dumps(openclaw.config, indent=2).splitlines()
    shown = set_up_openclaw("--yes", "--dry-run").text.splitlines()
    set_up_openclaw("--yes")
    after = json.dumps(openclaw.config, indent=2).splitlines()
    made = list(difflib.unified_diff(before, after, lineterm=""))[2:]
    changes = shown[shown.index(f"+++ {openclaw.file}, then") + 1 :]
    assert [line for line in changes if line[0] in "+-"] == [
        line for line in made if line[0] in "+-"
    ]
    # Its places are those of the file.
    assert [line for line in changes if line.startswith("@@")] == [
        line for line in made if line.startswith("@@")
    ]


def test_set_up_says_whose_tool_recalls(openclaw, set_up_openclaw):
    openclaw.write({"plugins": {"slots": {"memory": "memory-lancedb"}}})
    said = set_up_openclaw("--dry-run")
    assert "note: The plug-in memory-lancedb has the tool name memory_recall" in said.text


def test_a_dry_run_shows_no_secret_of_a_server_that_goes(openclaw, set_up_openclaw):
    server = {"command": "taskmem", "args": ["mcp"], "env": {"KEY": "sk-secret"}}
    openclaw.write({"mcp": {"servers": {"mine": server}}})
    said = set_up_openclaw("--remove", "--dry-run")
    assert '-      "mine": {' in said.text
    assert "sk-secret" not in said.text


def test_comments_that_would_be_lost_are_told_of(openclaw, set_up_openclaw):
    openclaw.file.write_text("{ // mine\n plugins: {allow: ['x'],}}")
    said = set_up_openclaw("--dry-run")
    assert "comments in it are lost" in said.text
    assert '+      "taskmem"' in said.text


def test_what_openclaw_does_is_named_while_it_does_it(openclaw, set_up_openclaw):
    said = set_up_openclaw("--yes").text
    patch, install = (
        said.index(f"\n  openclaw {what} … ") for what in ("config patch", "plugins install")
    )
    assert said[:patch].endswith("on a busy machine it takes minutes:")
    assert patch < install
    assert re.search(r"  openclaw plugins install … \d+ s\n", said)


def test_what_openclaw_failed_at_has_a_line_of_its_own(openclaw, set_up_openclaw):
    openclaw.fail({"plugins install": {"err": "No."}})
    said = set_up_openclaw("--yes")
    assert "\n  openclaw plugins install …\n" in said.text
    assert "ended with status 1" in said.sentence


# --- a key for Gemini -----------------------------------------------------------


@pytest.fixture
def key(monkeypatch):
    """A key for Gemini lies in the environment."""
    monkeypatch.setenv("GEMINI_API_KEY", "a-key")


def allow_gemini(monkeypatch):
    """Be a person at a terminal who allows that, and nothing else."""
    named, name = [], prompts._print_change

    def keep(state, change):
        named.append(change.what)
        name(state, change)

    def confirm(*_, **__):
        return named[-1].startswith("Gemini")

    monkeypatch.setattr(prompts, "_is_terminal", lambda: True)
    monkeypatch.setattr(prompts, "_print_change", keep)
    monkeypatch.setattr(prompts.click, "confirm", confirm)


def reads(home):
    """Whether Gemini may read by what is on record."""
    [kept] = (home / "setup").iterdir()
    environ = {"TASKMEM_HOME": str(home), "GEMINI_API_KEY": "a-key"}
    ready = Gemini(environ).status().readiness is Readiness.READY
    assert json.loads(kept.read_text())["gemini"] is ready
    return ready


def test_a_key_for_gemini_is_no_consent_not_even_with_yes(openclaw, set_up_openclaw, home, key):
    said = set_up_openclaw("--yes").text
    assert "left out  Gemini, by the key in GEMINI_API_KEY\n" in said
    assert re.search(r"leaves this machine: .* that such a wait looks at, to Google", said)
    assert "TASKMEM_READERS=gemini,host" in said
    assert not reads(home)


def test_a_key_for_gemini_is_used_once_a_person_allows_it(
    openclaw, set_up_openclaw, home, key, monkeypatch
):
    set_up_openclaw("--yes")
    with monkeypatch.context() as at_terminal:
        allow_gemini(at_terminal)
        said = set_up_openclaw()
    assert said.status == 0, said.text
    assert reads(home)
    assert "Gemini" not in set_up_openclaw().text
    assert reads(home)
    set_up_openclaw("--remove")
    assert list((home / "setup").iterdir()) == []


@pytest.mark.usefixtures("openclaw", "key")
@pytest.mark.parametrize("where", ["environment", "file"])
def test_who_has_named_the_readers_is_not_asked_for_gemini(
    set_up_openclaw, home, monkeypatch, where
):
    if where == "environment":
        monkeypatch.setenv("TASKMEM_READERS", "host")
    else:
        home.mkdir()
        (home / "config.toml").write_text('readers = "host"')
    assert "Gemini" not in set_up_openclaw().text


def test_without_a_key_gemini_is_not_asked_for(openclaw, set_up_openclaw):
    assert "Gemini" not in set_up_openclaw().text


def test_the_record_is_for_its_owner_alone(openclaw, set_up_openclaw, home):
    set_up_openclaw("--yes")
    [kept] = (home / "setup").iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_remove_leaves_nothing_but_the_data(openclaw, set_up_openclaw, home):
    openclaw.write(BEFORE)
    set_up_openclaw("--yes")
    (home / "taskmem.db").write_text("data")
    said = set_up_openclaw("--remove")
    assert said.status == 0, said.text
    assert openclaw.config == BEFORE
    assert f"{home}, where taskmem keeps its data, was not touched." in said.text
    assert (home / "taskmem.db").read_text() == "data"
    assert "no trace of taskmem" in set_up_openclaw("--remove").text


def test_remove_leaves_what_others_have_changed(openclaw, set_up_openclaw):
    tools = {"profile": "minimal", "alsoAllow": ["y"]}
    openclaw.write({"tools": tools, "agents": {"entries": {"main": {"tools": {"allow": []}}}}})
    set_up_openclaw("--yes")
    config = openclaw.config
    config["plugins"]["load"]["paths"].append("/theirs")
    config["plugins"]["entries"]["theirs"] = {"enabled": True}
    config["tools"]["alsoAllow"].append("z")
    openclaw.write(config)

    set_up_openclaw("--remove")

    assert openclaw.config == {
        "plugins": {"load": {"paths": ["/theirs"]}, "entries": {"theirs": {"enabled": True}}},
        "tools": {"profile": "minimal", "alsoAllow": ["y", "z"]},
        "agents": {"entries": {"main": {"tools": {"allow": []}}}},
    }


@pytest.mark.parametrize("own", [None, [], ["x"], ["x", "y"]])
@pytest.mark.parametrize("general", [None, ["x"]])
def test_remove_takes_out_of_lists_what_was_put_in(openclaw, set_up_openclaw, general, own):
    tools = {} if general is None else {"alsoAllow": general}
    main = {"profile": "minimal", **({} if own is None else {"alsoAllow": own})}
    before = {"tools": tools, "agents": {"entries": {"main": {"tools": main}}}}
    openclaw.write(before)
    set_up_openclaw("--yes")
    assert "taskmem" in openclaw.config["agents"]["entries"]["main"]["tools"]["alsoAllow"]

    set_up_openclaw("--remove")

    if own == (general or []):  # what it would inherit anyway
        del main["alsoAllow"]
    assert openclaw.config == before


def test_remove_names_the_home_of_the_plugin(
    openclaw, set_up_openclaw, home, tmp_path, monkeypatch
):
    set_up_openclaw("--yes")
    monkeypatch.setenv("TASKMEM_HOME", str(tmp_path / "another"))
    assert f"{home}, where taskmem keeps its data" in set_up_openclaw("--remove").text


def test_remove_needs_no_record(openclaw, set_up_openclaw, home):
    openclaw.write(BEFORE)
    set_up_openclaw("--yes")
    shutil.rmtree(home)
    set_up_openclaw("--remove")
    assert openclaw.config == BEFORE


def test_remove_takes_the_mark_of_an_uninstalled_plugin_too(openclaw, set_up_openclaw):
    openclaw.write({"plugins": {"entries": {"taskmem": {"enabled": False}}}})
    set_up_openclaw("--remove")
    assert openclaw.changes == ["config patch"]
    assert openclaw.config == {}


def test_remove_needs_no_record_of_openclaw_s_own(openclaw, set_up_openclaw):
    set_up_openclaw("--yes")
    untracked = 'Plugin "taskmem" is not associated with a tracked package install.'
    openclaw.fail({"plugins uninstall": {"err": untracked}})
    assert set_up_openclaw("--remove").status == 0
    assert openclaw.config == {}


def test_remove_takes_a_link_that_nobody_uses(openclaw, set_up_openclaw):
    openclaw.write({"plugins": {"allow": ["x"], "load": {"paths": [FOLDER]}}})
    set_up_openclaw("--remove")
    assert openclaw.changes == ["plugins uninstall", "config patch"]
    assert openclaw.config == {"plugins": {"allow": ["x"]}}


def test_remove_takes_copies_of_the_skill_that_openclaw_made(openclaw, set_up_openclaw):
    copy = openclaw.folder / "workspace" / "skills" / "task-memory"
    copy.mkdir(parents=True)
    (copy / "SKILL.md").write_bytes(add_seal(b"name: task-memory\n"))
    theirs = openclaw.folder / "skills" / "task-memory"
    theirs.mkdir(parents=True)
    (theirs / "SKILL.md").write_text("---\nname: another\n---\n")
    said = set_up_openclaw("--remove")
    assert f"Removed the skill {copy}." in said.text
    assert not copy.exists()
    assert theirs.exists()


def test_the_bundle_is_for_who_wants_no_plugin(openclaw, set_up_openclaw, home):
    openclaw.write(BEFORE)
    said = set_up_openclaw("--mcp")
    assert said.status == 0, said.text
    install = next(each for each in openclaw.calls if each[:2] == ["plugins", "install"])
    assert "--link" not in install
    assert openclaw.config["plugins"]["entries"] == {"taskmem-mcp": {"enabled": True}}
    assert openclaw.config["plugins"]["allow"] == ["x", "taskmem-mcp"]
    server = openclaw.config["mcp"]["servers"]["taskmem"]
    assert (server["command"], server["args"][-1]) == (find_command()[0], "mcp")
    assert server["env"] == {"TASKMEM_HOME": str(home), "TASKMEM_TOOLS": "runs"}
    assert "Everything is in place" in set_up_openclaw("--mcp").text
    assert "--remove first" in set_up_openclaw().sentence
    set_up_openclaw("--remove")
    assert openclaw.config == BEFORE


def test_the_word_of_all_bundles_stays_where_others_wrote_it(openclaw, set_up_openclaw):
    agents = {"entries": {"main": {"tools": {"alsoAllow": ["bundle-mcp"]}}}}
    tools = {"profile": "minimal", "alsoAllow": ["y"]}
    openclaw.write({**BEFORE, "tools": tools, "agents": agents})
    set_up_openclaw("--mcp", "--yes")
    assert openclaw.config["tools"]["alsoAllow"] == ["y", "bundle-mcp"]
    set_up_openclaw("--remove")
    assert openclaw.config == {**BEFORE, "tools": tools, "agents": agents}


def test_the_word_of_all_bundles_goes_by_an_old_record(openclaw, set_up_openclaw, home):
    tools = {"profile": "minimal", "alsoAllow": ["y"]}
    openclaw.write({**BEFORE, "tools": tools})
    set_up_openclaw("--mcp", "--yes")
    [file] = (home / "setup").iterdir()
    record = json.loads(file.read_bytes())
    del record["bundle_lists"]
    step = {
        "patch": {"tools": {"alsoAllow": ["y", "bundle-mcp"]}},
        "inverse": {"tools": {"alsoAllow": ["y"]}},
        "done": True,
        "gemini": False,
    }
    file.write_text(json.dumps({**record, "steps": [step]}))
    set_up_openclaw("--remove")
    assert openclaw.config == {**BEFORE, "tools": tools}


# --- proof --------------------------------------------------------------------


@pytest.mark.parametrize(("status", "ends"), [(0, 0), (1, 1)])
def test_the_doctor_has_the_last_word(openclaw, setup, monkeypatch, status, ends):
    setup("openclaw", "--yes", "--no-proof")
    asked = []

    def run(command, **_):
        asked.append(command)
        return subprocess.CompletedProcess(command, status)

    monkeypatch.setattr("taskmem_openclaw.setup.prompts.subprocess.run", run)
    assert setup("openclaw", "--yes").status == ends
    assert asked == [(*OWN_PROGRAM, "doctor")]


@pytest.mark.parametrize("live", [True, False], ids=["live", "stopped"])
def test_doctor_runs_once_a_live_gateway_has_loaded_the_plugin(openclaw, setup, monkeypatch, live):
    order = []

    async def serves(environ, version, seconds, earlier):
        assert earlier is None
        order.append((environ["TASKMEM_HOME"], version))
        return True

    def run(command, **_):
        order.append("doctor")
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(plugin_socket, "wait_for_version", serves)
    monkeypatch.setattr("taskmem_openclaw.setup.prompts.subprocess.run", run)
    if live:
        applied = {"status": 0, "out": "Applied in Gateway."}
        openclaw.fail({"plugins install": applied})
    assert setup("openclaw", "--yes").status == 0
    awaited = (str(find_home()), package_files.read_version())
    assert order == ([awaited, "doctor"] if live else [])


@pytest.mark.parametrize("loads", [True, False], ids=["loaded", "not loaded"])
def test_the_doctor_looks_once_what_was_changed_later_is_loaded(
    openclaw, setup, monkeypatch, loads
):
    order = []

    async def read_boot(environ):
        return "first"

    async def serves(environ, version, seconds, earlier):
        order.append(earlier)
        return loads

    def run(command, **_):
        order.append("doctor")
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr("taskmem_openclaw.setup.prompts.subprocess.run", run)
    setup("openclaw", "--no-proof")
    monkeypatch.setattr(plugin_socket, "read_boot", read_boot)
    monkeypatch.setattr(plugin_socket, "wait_for_version", serves)
    said = setup("openclaw", "--yes")
    assert said.status == 0
    assert ("It has not within 30 s" in said.text) is not loads
    assert order == ["first", "doctor"]
    assert setup("openclaw", "--yes").status == 0
    assert order == ["first", "doctor", "doctor"]


def test_setup_leaves_the_proof_to_the_person_without_a_gateway(openclaw, setup):
    said = setup("openclaw", "--yes")
    assert said.status == 0
    *_, proof, then = said.text.splitlines()
    assert proof == "Start the gateway, and let it prove itself: taskmem doctor"
    assert then.startswith("Start a new session in OpenClaw, and ask for something")


def test_a_home_is_one_openclaws(openclaw, setup, tmp_path, monkeypatch):
    setup("openclaw", "--yes", "--no-proof")
    (tmp_path / "second").mkdir()
    second = StandIn(tmp_path / "second")
    second.write({})
    monkeypatch.setenv("TASKMEM_OPENCLAW_BIN", str(second.program))
    said = setup("openclaw", "--yes")
    assert f"is the home of another OpenClaw ({openclaw.file})" in said.sentence
    assert second.changes == []
    openclaw.file.unlink()  # it has moved, or is gone
    assert setup("openclaw", "--yes").status == 0


@pytest.mark.parametrize("text", ["// mine\n{}", "{}"], ids=["json5", "json"])
def test_that_comments_are_lost_is_said_before_they_are(openclaw, set_up_openclaw, text):
    openclaw.file.write_text(text)
    assert ("comments in it are lost" in set_up_openclaw("--yes").text) is (text != "{}")


# --- an upgrade ----------------------------------------------------------------


def use(monkeypatch, folder):
    monkeypatch.setattr(
        package_files, "find_plugin", lambda: ShippedPackage("taskmem", folder, link=True)
    )


def copy_plugin(tmp_path, name):
    folder = tmp_path / name / "taskmem_openclaw" / "gateway"
    folder.mkdir(parents=True)
    for each in ("openclaw.plugin.json", "index.js"):
        shutil.copy(Path(FOLDER) / each, folder)
    return folder


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("gone", [True, False])
def test_a_plugin_that_has_moved_is_linked_anew(set_up_openclaw, tmp_path, request, gone, known):
    openclaw, monkeypatch, home = map(request.getfixturevalue, ("openclaw", "monkeypatch", "home"))
    old, new = copy_plugin(tmp_path, "old"), copy_plugin(tmp_path, "new")
    use(monkeypatch, old)
    set_up_openclaw("--yes")
    if gone:
        shutil.rmtree(old)
    if not known:
        shutil.rmtree(home)
    use(monkeypatch, new)
    said = set_up_openclaw("--yes")
    assert "still points to where it was before" in said.text
    assert openclaw.changes[2:] == ["config patch", "plugins install"]
    assert openclaw.config["plugins"]["load"]["paths"] == [str(new)]


def test_a_link_that_only_the_record_knows_goes_too(
    openclaw, set_up_openclaw, tmp_path, monkeypatch
):
    old = copy_plugin(tmp_path, "old")
    elsewhere = old.rename(tmp_path / "elsewhere")
    use(monkeypatch, elsewhere)
    set_up_openclaw("--yes")
    shutil.rmtree(elsewhere)
    use(monkeypatch, copy_plugin(tmp_path, "new"))
    set_up_openclaw("--yes")
    assert str(elsewhere) not in openclaw.config["plugins"]["load"]["paths"]


def test_setup_reinstalls_a_plugin_that_was_upgraded_in_place(
    openclaw, set_up_openclaw, tmp_path, monkeypatch
):
    folder = copy_plugin(tmp_path, "here")
    use(monkeypatch, folder)
    set_up_openclaw("--yes")
    (folder / "index.js").write_text("// newer")
    set_up_openclaw("--yes")
    assert openclaw.changes[2:] == ["plugins install"]
    assert "Everything is in place" in set_up_openclaw("--yes").text
