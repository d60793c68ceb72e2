"""`taskmem setup` without a name: the hosts on this machine are found and offered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from openclaw_taskmem.cli import host_setup
from openclaw_taskmem.cli.command_line import cli
from taskmem_hookspecs.command_line import HostCommand
from tests.support.commands import CommandResult, make_user_home

FILES = {"claude": ".claude.json", "codex": ".codex/config.toml"}
Setup = Callable[..., CommandResult]


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's home with nothing in it, on a machine with no command of any host."""
    monkeypatch.delenv("TASKMEM_OPENCLAW_BIN", raising=False)
    return make_user_home(tmp_path, monkeypatch)


@pytest.fixture
def install(tmp_path: Path, user: Path) -> Callable[..., None]:
    """Puts commands of hosts on PATH."""

    def install_programs(*names: str) -> None:
        for name in names:
            program = tmp_path / "programs" / name
            program.parent.mkdir(exist_ok=True)
            program.write_text("#!/bin/sh\n")
            program.chmod(0o755)

    return install_programs


def setup(*words: str, answers: str = "") -> CommandResult:
    return CommandResult(CliRunner().invoke(cli, ["setup", *words], input=answers))


def list_written(user: Path) -> list[str]:
    return [host for host, file in FILES.items() if (user / file).exists()]


def offer(commands: Mapping[str, click.Command]) -> CommandResult:
    """Run `setup` without a name where plug-ins have these commands."""
    group = click.Group(
        "setup",
        commands,
        callback=host_setup.offer_hosts,
        params=[host_setup.DRY_RUN],
        invoke_without_command=True,
    )
    return CommandResult(CliRunner().invoke(group, []))


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True)


def test_at_a_terminal_enter_sets_up_each_host_found(
    user: Path, install: Callable[..., None], terminal: None
) -> None:
    install("claude", "codex")
    told = setup(answers="\n\n")
    assert told.status == 0, told.text
    assert list_written(user) == ["claude", "codex"]
    assert "Set up Claude Code: the MCP server" in told.text
    assert "Recommended: yes" in told.text
    again = setup()
    assert again.status == 0, again.text
    assert again.text == "Claude Code is set up.\n\nCodex is set up.\n\n"


def test_a_host_that_is_declined_is_left_out(
    user: Path, install: Callable[..., None], terminal: None
) -> None:
    install("claude", "codex")
    told = setup(answers="n\ny\n")
    assert list_written(user) == ["codex"]
    assert "Left out; later: " in told.text
    assert "setup claude\n" in told.text


def test_a_host_that_is_not_here_is_not_offered(
    user: Path, install: Callable[..., None], terminal: None
) -> None:
    install("codex")
    assert "Claude" not in setup(answers="\n").text
    assert list_written(user) == ["codex"]


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_elsewhere_hosts_are_listed_and_nothing_is_changed(
    user: Path, install: Callable[..., None], words: tuple[str, ...]
) -> None:
    install("claude", "codex")
    told = setup(*words).text
    for title, name in (("Claude Code", "claude"), ("Codex", "codex")):
        (line,) = (each for each in told.splitlines() if each.startswith(f"{title} is on this"))
        assert line.endswith(f"setup {name}")
        assert str(user / FILES[name]) in told
    assert told.endswith("Nothing was changed.\n")
    assert not [*user.iterdir()]


@pytest.mark.usefixtures("terminal")
def test_a_dry_run_asks_nothing_at_a_terminal(user: Path, install: Callable[..., None]) -> None:
    install("claude")
    assert "Recommended" not in setup("--dry-run").text
    assert not [*user.iterdir()]


def test_one_that_fails_keeps_no_other_from_its_set_up(
    user: Path, install: Callable[..., None], terminal: None
) -> None:
    (user / ".claude.json").write_text("{")
    install("claude", "codex")
    told = setup(answers="\n\n")
    assert told.sentence == "Error: Not set up: Claude Code; the reason stands above."
    assert ".claude.json cannot be read" in told.text
    assert (user / FILES["codex"]).exists()


def test_where_no_host_is_found_the_names_are_told(user: Path) -> None:
    assert "name yours (claude, codex, openclaw, skill), as in: " in setup().sentence


def test_a_dry_run_is_never_taken_for_the_host_behind_it(user: Path) -> None:
    told = setup("--dry-run", "claude")
    assert told.status == 2
    assert "Put --dry-run behind claude." in told.text
    assert not list_written(user)


@pytest.mark.parametrize(
    ("code", "says"), [(0, "Nothing was changed."), (3, "Not set up: Duck, Duck;")]
)
def test_one_that_ends_itself_keeps_no_other_from_its_set_up(code: int, says: str) -> None:
    class Duck(click.Command):
        def find_host(self, environ: object) -> str | None:
            return "Duck"

        def invoke(self, ctx: click.Context) -> None:
            ctx.exit(code)

    told = offer({name: Duck(name, params=[host_setup.DRY_RUN]) for name in ("duck", "goose")})
    assert told.text.count("Duck is on this machine.") == 2
    assert says in told.text


def test_a_plugins_host_is_offered_and_one_that_raises_is_named(
    user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Goose(click.Command):
        def find_host(self, environ: object) -> str | None:
            return "Goose"

    class Broken(click.Command):
        def find_host(self, environ: object) -> str | None:
            raise RuntimeError("boom")

    goose = Goose("goose", params=[host_setup.DRY_RUN])
    assert isinstance(goose, HostCommand)
    told = offer({"broken": Broken("broken"), "goose": goose}).text
    assert "broken could not be looked for (RuntimeError: boom)." in told
    assert "Goose is on this machine. To set it up: " in told
