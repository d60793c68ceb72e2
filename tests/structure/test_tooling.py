"""What runs before a commit, in CI and at a release is what `./check` runs."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from openclaw_taskmem import __version__
from tests.support import failures

ROOT = Path(__file__).resolve().parents[2]


def read_file(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def project() -> dict[str, Any]:
    return dict(tomllib.loads(read_file("pyproject.toml"))["project"])


def test_hooks_before_a_commit_call_the_tools_of_check() -> None:
    hooks = re.findall(r"^ +entry: (\S+)", read_file(".pre-commit-config.yaml"), re.MULTILINE)
    assert hooks
    assert set(hooks) <= set(re.findall(r"step (\.(?:venv/bin|ci)/\S+)", read_file("check")))


def test_changelog_begins_with_the_version_of_the_program() -> None:
    newest = read_file("CHANGELOG.md").partition("\n## ")[2]
    assert newest.startswith(f"{__version__} - ")


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_check_explains_itself_and_runs_nothing(option: str) -> None:
    env = {"PATH": "/usr/bin:/bin", "PYTHON": "/none"}
    said = subprocess.run([ROOT / "check", option], env=env, capture_output=True, check=True)

    first, minutes, long, example = said.stdout.decode().splitlines()
    assert first.startswith("./check sets up .venv, ")
    assert " minutes" in minutes
    assert long.startswith("./check --long ")
    assert example.startswith("./check tests/x.py runs ")


def test_the_example_for_one_rule_runs_few_tests() -> None:
    [example] = re.findall(
        r"run one rule \| `\.venv/bin/pytest (\S+) -k", read_file("CONTRIBUTING.md")
    )
    assert (ROOT / example).is_file()


def test_ci_tries_each_python_that_the_project_names() -> None:
    prefix = "Programming Language :: Python :: 3."
    named = {
        f"3.{item.removeprefix(prefix)}"
        for item in project()["classifiers"]
        if item.startswith(prefix)
    }
    [matrix] = re.findall(r"python: \[(.*)\]", read_file(".github/workflows/ci.yml"))
    assert set(re.findall(r"[\d.]+", matrix)) == named
    for version in named:
        assert f"python{version}" in read_file("check")


def test_lock_file_pins_all_development_needs_and_names_no_host() -> None:
    lock = read_file("requirements-dev.txt")
    pins = [line for line in lock.splitlines() if not line.startswith("#")]
    assert all(re.match(r"[\w.-]+==[\w.+]+( ;|$)", pin) for pin in pins)
    assert "://" not in lock
    extras = project()["optional-dependencies"]
    wanted = [*project()["dependencies"], *extras["dev"], *extras["postgres"]]
    names = {re.match(r"[\w-]+", each)[0] for each in wanted} - {"openclaw-taskmem"}
    assert names <= {pin.partition("==")[0] for pin in pins}


def test_a_release_is_checked_before_it_is_built() -> None:
    workflow = read_file(".github/workflows/release.yml")
    check, build = workflow.split("\n  build:\n")
    assert "run: .ci/run" in check
    assert "./check" in read_file(".ci/run")
    assert "needs: check" in build
    assert "python -m build" in build


def test_every_night_the_long_run_is_made() -> None:
    workflow = read_file(".github/workflows/nightly.yml")
    assert "cron:" in workflow
    assert "run: .ci/run --long" in workflow
    assert './check "$@"' in read_file(".ci/run")


def test_a_failure_is_named_at_once_with_what_to_look_at() -> None:
    report = pytest.TestReport(
        *("tests/x.py::test_a", ("tests/x.py", 1, "test_a"), {}, "failed"),
        *("AssertionError: no bread\nassert 1 == 2", "setup"),
        user_properties=[(failures.PLACE, "t/daemon.log")],
    )
    assert failures.describe_failure(report) == [
        "FAILED tests/x.py::test_a (setup): AssertionError: no bread",
        "  look at t/daemon.log",
    ]


def test_the_logs_in_what_a_test_was_given_are_noted(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    (tmp_path / "home").mkdir()
    log = tmp_path / "home" / "daemon.log"
    log.touch()
    report = pytest.TestReport("a", ("a", 1, "a"), {}, "failed", "", "call")
    failures.note_places(request.node, report)
    assert report.user_properties == [(failures.PLACE, str(log))]
