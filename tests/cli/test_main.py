import os
import subprocess
import sys

import pytest

from openclaw_taskmem.cli import main as main_module


@pytest.fixture
def run(monkeypatch):
    """Runs `main` with some arguments; returns its status and what took them."""

    def go(*arguments, by=lambda: None):
        monkeypatch.setattr(main_module.sys, "argv", ["taskmem", *arguments])
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
