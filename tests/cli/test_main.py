import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from openclaw_taskmem.cli import main as main_module
from openclaw_taskmem.home import locate_home
from tests.support.daemons import COMMAND
from tests.support.required import do_without


@pytest.fixture
def run(monkeypatch):
    """Runs `main` with some arguments; returns its status and what took them."""

    def go(*arguments, by=lambda: None):
        monkeypatch.setattr(main_module.sys, "argv", ["taskmem", *arguments])
        monkeypatch.setattr(main_module.sys, "path", [*sys.path])
        taken = []

        class Relay:
            @staticmethod
            def run_relay(environ):
                taken.append("relay")
                by()
                return 0

        class Cli:
            @staticmethod
            def main():
                taken.append("cli")
                by()

        monkeypatch.setattr("openclaw_taskmem.cli.relay", Relay, raising=False)
        monkeypatch.setattr("openclaw_taskmem.cli.command_line", Cli, raising=False)
        with pytest.raises(SystemExit) as ended:
            main_module.main()
        return ended.value.code, taken

    return go


def raises(error):
    def by():
        raise error

    return by


def test_mcp_alone_goes_the_short_way(run):
    assert run("mcp") == (0, ["relay"])


@pytest.mark.parametrize("arguments", [[], ["--help"], ["mcp", "--help"], ["list"]])
def test_all_else_goes_to_the_command_line(run, arguments):
    assert run(*arguments) == (0, ["cli"])


@pytest.mark.parametrize("home", ["", "here"])
def test_a_home_of_the_user_that_is_no_path_counts_as_unset(run, monkeypatch, home):
    monkeypatch.setenv("HOME", home)
    shown = []
    run("list", by=lambda: shown.append(locate_home({}).folder))
    monkeypatch.delenv("HOME", raising=False)
    assert shown == [Path("~/.openclaw/taskmem").expanduser()]
    assert shown[0] != Path("/.openclaw/taskmem")


@pytest.mark.parametrize("argument", ["mcp", "list"])
def test_ctrl_c_is_status_130(run, argument):
    assert run(argument, by=raises(KeyboardInterrupt()))[0] == 130


def test_a_reader_that_went_away_is_no_matter_for_a_traceback():
    code = (
        "import sys, types\n"
        "from openclaw_taskmem import cli\n"
        "def list_tasks(): print('one'); sys.stdin.read()\n"
        "cli.command_line = types.SimpleNamespace(main=list_tasks)\n"
        "from openclaw_taskmem.cli.main import main\n"
        "main()\n"
    )
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", code]
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=buffered) as process:
        process.stdout.close()
        process.stdin.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


# --- what surrounds the process ----------------------------------------------

SHADOWED = ("json", "typing", "click", "pydantic", "logging")
"""Modules of a project that have the names of ours."""


@pytest.fixture
def project(tmp_path):
    """A project's folder, in which modules that we import fail."""
    for name in SHADOWED:
        (tmp_path / f"{name}.py").write_text("raise ImportError('the project')\n")
    return tmp_path


def run_taskmem(*words, program=(COMMAND,), cwd=None, **settings):
    return subprocess.run(
        [*program, *words],
        env={**os.environ, **settings},
        cwd=cwd,
        capture_output=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PYTHONPATH", "{project}"),
        ("PYTHONPATH", ""),
        ("PYTHONWARNINGS", "error"),
        ("PYTHONOPTIMIZE", "2"),
        ("PYTHONINSPECT", "1"),
        ("PYTHONIOENCODING", "cp1252:strict"),
        ("PYTHONUSERBASE", "{project}"),
    ],
)
@pytest.mark.parametrize("words", [["--version"], ["mcp"]])
def test_python_variables_of_a_project_do_not_reach_us(project, name, value, words):
    program = [COMMAND] if value else [sys.executable, "-m", "openclaw_taskmem"]

    done = run_taskmem(
        *words, program=program, cwd=project, **{name: value.format(project=project)}
    )

    assert (done.returncode, done.stderr) == (0, b"")


def test_a_plug_in_beside_a_projects_modules_is_found(project):
    info = project / "greeter-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.4\nName: greeter\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[openclaw_taskmem.commands]\ngreet = greeter:greet\n")
    (project / "greeter.py").write_text(
        "import click\ngreet = click.Command('greet', callback=lambda: click.echo('Hello'))\n"
    )

    done = run_taskmem("greet", PYTHONPATH=str(project))

    assert (done.stdout, done.stderr) == (b"Hello\n", b"")


def test_they_stay_for_the_commands_that_we_run(project, tmp_path):
    say = "import os; print(os.environ['PYTHONPATH'])"
    home = {"TASKMEM_HOME": str(tmp_path / "home")}

    done = run_taskmem(
        "run", "--name", "x", "--", sys.executable, "-S", "-c", say, PYTHONPATH="/p", **home
    )

    assert done.stdout.split() == [b"/p"]


@pytest.mark.parametrize("name", ["PYTHONDONTWRITEBYTECODE", "PYTHON_VERSION", "PYTHONPATH"])
def test_variables_that_do_no_harm_cost_no_second_start(monkeypatch, name):
    began = []
    monkeypatch.setattr(main_module.os, "environ", {name: "" if name == "PYTHONPATH" else "1"})
    monkeypatch.setattr(main_module.os, "execv", lambda *given: began.append(given))
    monkeypatch.setattr(main_module.sys, "path", [*sys.path])

    main_module._isolate()

    assert began == []


@pytest.mark.parametrize("locale", [("de_DE", "ISO-8859-1"), ("ja_JP", "EUC-JP")])
@pytest.mark.parametrize("given", ["Gr\u00fcn \U0001f680".encode(), b"Gr\xfcn"])
def test_an_argument_is_read_as_it_was_written(tmp_path, locale, given):
    """Agents write UTF-8 whatever the locale; a person's terminal writes the locale's encoding."""
    make_locale(tmp_path, *locale)
    settings = {"LOCPATH": str(tmp_path), "LC_ALL": ".".join(locale)}
    code = (
        "import sys, types\n"
        "from openclaw_taskmem import cli\n"
        "cli.command_line = types.SimpleNamespace(main=lambda: print(ascii(sys.argv[1])))\n"
        "from openclaw_taskmem.cli.main import main\n"
        "main()\n"
    )

    done = run_taskmem(given, program=(sys.executable, "-c", code), **settings)

    try:
        meant = given.decode()
    except UnicodeDecodeError:
        meant = given.decode(locale[1], "replace")
    assert (done.stderr, done.stdout.decode().rstrip()) == (b"", ascii(meant))


def make_locale(folder, language, encoding):
    """Make a locale, which is found where `LOCPATH` is its folder."""
    program = shutil.which("localedef")
    if program is None or not Path("/usr/share/i18n/locales", language).exists():
        do_without("Locales cannot be made here; install the package locales.")
    words = [program, "-i", language, "-f", encoding, str(folder / f"{language}.{encoding}")]
    subprocess.run(words, check=True, capture_output=True)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_ends_no_command(closed):
    done = run_taskmem(program=("/bin/sh", "-c", f"exec {COMMAND} settings {closed}"))
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_full_disk_below_stderr_keeps_the_exit_status():
    code = (
        "import sys, types\n"
        "from contextlib import suppress\n"
        "from openclaw_taskmem import cli\n"
        "def write():\n"
        "    with suppress(OSError): print('one', file=sys.stderr)\n"
        "    sys.exit(3)\n"
        "cli.command_line = types.SimpleNamespace(main=write)\n"
        "from openclaw_taskmem.cli.main import main\n"
        "main()\n"
    )
    words = (sys.executable, "-c", code)
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
        done = subprocess.run(words, stderr=full, check=False)
    assert done.returncode == 3


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
@pytest.mark.parametrize("as_json", [True, False])
def test_a_letter_that_an_encoding_lacks_ends_no_command(encoding, as_json):
    text = "Gr\N{LATIN SMALL LETTER U WITH DIAERESIS}n \N{ROCKET} \N{BLACK CIRCLE}"
    code = (
        "import io, sys, types\n"
        f"sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding={encoding!r})\n"
        "from openclaw_taskmem import cli\n"
        "from openclaw_taskmem.cli.command_output import print_json, print_line\n"
        f"say = lambda: {'print_json' if as_json else 'print_line'}({text!r})\n"
        "cli.command_line = types.SimpleNamespace(main=say)\n"
        "from openclaw_taskmem.cli.main import main\n"
        "main()\n"
    )

    done = run_taskmem(program=(sys.executable, "-c", code))

    assert done.stdout.startswith(b'"Gr' if as_json else b"Gr")
    assert not as_json or json.loads(done.stdout.decode(encoding)) == text
    assert (done.returncode, done.stderr) == (0, b"")
