"""What `taskmem bench` was given is checked before it runs anything."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from taskmem_resumebench import bench_run
from taskmem_resumebench.bench_command import KEY, command
from taskmem_resumebench.models import is_address


class Ran(Exception):
    """The benchmark was run."""


@pytest.fixture(autouse=True)
def _run(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_bench(*given: object) -> None:
        raise Ran(*given)

    monkeypatch.setattr(bench_run, "run_bench", run_bench)


def refuse(*words: str) -> str:
    """Return the sentence by which the command refuses options."""
    done = CliRunner().invoke(command, words)
    assert done.exit_code == 2, done.output
    return done.output.splitlines()[-1].removeprefix("Error: ")


def run(*words: str) -> Result:
    done = CliRunner().invoke(command, words)
    assert isinstance(done.exception, Ran), done.output
    return done


@pytest.mark.parametrize("program", ["", " ", "no-such-program", "/etc/passwd", "/", "''"])
def test_a_memory_that_cannot_be_started_is_refused(program: str) -> None:
    assert "is no program to run." in refuse("--memory", program)


def test_an_open_quotation_in_a_memory_is_refused() -> None:
    why = "Invalid value for --memory: A quotation mark is not closed."
    assert refuse("--memory", "'unbalanced") == why


def test_a_memory_is_found_from_the_folder_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "memory").symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)

    done = run("--memory", "./memory -c pass")

    assert done.exception is not None
    assert done.exception.args[3] == [str(tmp_path / "memory"), "-c", "pass"]


@pytest.mark.parametrize(
    "url",
    [
        *("", "nonsense", "file:///etc/passwd", "http:///v1", "http://[::1", "http://a..b/v1"),
        *("http://127.0.0.1:99999/v1", "http://127.0.0.1:0/v1", "http://127.0.0.1/\xe9"),
    ],
)
def test_a_model_without_an_address_is_refused(url: str) -> None:
    assert refuse("--model", url).startswith("Invalid value for --model: Give an HTTP address")


@pytest.mark.parametrize("url", ["http://[::1]:80/v1", "https://models.example", "HTTP://a"])
def test_a_model_has_an_address_of_http(url: str) -> None:
    assert is_address(url)
    run("--model", url)


@pytest.mark.parametrize("key", ["secret\n", "s\xe9cret"])
def test_a_key_that_no_header_takes_is_not_shown(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, key)

    assert refuse("--model", "http://127.0.0.1/v1").startswith(f"{KEY} has characters")


def test_a_picture_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()

    for name in (tmp_path, tmp_path / "none" / "x", file / "x"):
        assert refuse("--plot", f"{name}") == (
            f"Invalid value for --plot: '{name}' cannot be written."
        )


def test_a_picture_does_not_go_where_the_report_goes() -> None:
    assert refuse("--plot", "-") == (
        "Invalid value for --plot: Name a file: the report goes to the output."
    )


def test_a_picture_may_be_new_or_take_anothers_place(tmp_path: Path) -> None:
    file = tmp_path / "file"
    run("--plot", f"{file}")
    assert not file.exists()

    file.touch()
    run("--plot", f"{file}")


@pytest.mark.parametrize(
    "words",
    [
        *(("--quick",), ("--seed", "3"), ("--memory", "cat"), ("--gateway",)),
        *(("--model", "http://[::1]:80/v1"), ("--model-name", "x")),
    ],
    ids=lambda words: words[0],
)
def test_a_stored_run_is_not_shown_as_another(words: tuple[str, ...]) -> None:
    why = f"--from runs nothing; it does not go with {words[0]}."
    assert refuse(*words, "--from", "bench/results/resumebench-seed-1.json") == why


def test_a_stored_run_that_is_not_there_is_named() -> None:
    done = CliRunner().invoke(command, ["--from", "/nonexist"])

    why = "Error: /nonexist cannot be read: No such file or directory.\n"
    assert (done.exit_code, done.output) == (1, why)
