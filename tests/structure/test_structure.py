"""The code keeps its structure: files, packages, layers, hooks."""

from __future__ import annotations

import ast
import importlib.metadata
import inspect
import re
import shlex
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from openclaw_taskmem import __version__
from openclaw_taskmem.home import Home
from taskmem_hookspecs import Run, specs
from taskmem_program import OWN_PROGRAM
from tests.support.daemons import Daemon, environment, short_home

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("openclaw_taskmem", "hookspecs", "plugins")
LINES = 800
HEAVY = {"sqlalchemy", "sqlmodel", "alembic", "pydantic", "mcp", "pluggy", "asyncio"}
"""Libraries that take longer to load than all that a command needs."""
OF_RUNS = """
owner token lease_until told_session attached seen_at started_at
dialogue question heard_until budget step_calls step_bonus failed_steps recent
limits rounds rounds_before turn_began_at worked_seconds idle_rounds tries provider_failures
"""
"""Fields that nothing but a run or a part of it has."""


def sources() -> list[Path]:
    """List the product's files; packages of their own have their tests beside them."""
    files = [path for root in SOURCES for path in (ROOT / root).rglob("*.py")]
    return [path for path in files if "tests" not in path.relative_to(ROOT).parts]


def test_files_have_at_most_800_lines() -> None:
    long = {
        str(path.relative_to(ROOT)): count
        for path in sources()
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > LINES
    }
    assert long == {}, "move one of their subjects into the file that it belongs to, or a new one"


def test_no_line_of_javascript_is_longer_than_100_characters() -> None:
    """The formatter breaks neither texts nor comments."""
    files = [path for root in SOURCES for path in (ROOT / root).rglob("*.js")]
    long = {
        f"{path.relative_to(ROOT)}:{number}"
        for path in files
        if path.name != "idiomorph.js"
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if len(line) > 100
    }
    assert long == set()


@pytest.mark.parametrize("root", ["hookspecs", "plugins", "tests"])
def test_the_source_roots_are_folders_and_no_packages(root: str) -> None:
    assert not (ROOT / root / "__init__.py").exists()


def test_the_entry_point_of_a_plugin_names_its_file_of_hooks() -> None:
    named = set[Path]()
    for file in (ROOT / "pyproject.toml", *ROOT.glob("plugins/*/pyproject.toml")):
        folder = ROOT / "plugins" if file.parent == ROOT else file.parent / "src"
        points = tomllib.loads(file.read_text("utf-8"))["project"]["entry-points"]
        names = points.get("openclaw_taskmem", {}).values()
        assert [name for name in names if not re.search(r"[._]hooks$", name)] == []
        named |= {folder / f"{name.replace('.', '/')}.py" for name in names}
    files = [path for path in (ROOT / "plugins").rglob("*.py") if "tests" not in path.parts]
    found = {path for path in files if "@hookimpl" in path.read_text()}
    assert found == named


def hooks() -> dict[str, list[str]]:
    return {
        name: list(inspect.signature(item).parameters)
        for name, item in vars(specs).items()
        if hasattr(item, "openclaw_taskmem_spec")
    }


def test_every_hook_is_documented_with_its_arguments() -> None:
    text = (ROOT / "docs" / "hooks.md").read_text(encoding="utf-8")
    documented = {
        name: [part.strip() for part in given.split(",") if part.strip()]
        for name, given in re.findall(r"^### (\w+)\((.*)\)$", text, re.MULTILINE)
    }
    assert documented == hooks()


def test_firstresult_hooks_say_that_they_stop_at_a_result() -> None:
    text = (ROOT / "docs" / "hooks.md").read_text(encoding="utf-8")
    for name in hooks():
        options = getattr(specs, name).openclaw_taskmem_spec
        said = "Stops at the first result that is not None" in " ".join(
            (inspect.getdoc(getattr(specs, name)) or "").split()
        )
        assert said is bool(options["firstresult"]), name
        section = text.split(f"### {name}(")[1].split("###")[0]
        assert ("Stops at the first result" in section) is said, name


@pytest.mark.parametrize("words", [["--help"], ["status"], ["mcp", "--help"]])
def test_a_command_starts_without_the_heavy_libraries(words: list[str], tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "openclaw_taskmem", *words],
        capture_output=True,
        text=True,
        env={"TASKMEM_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        check=False,
    )
    assert run.returncode in (0, 3), run.stderr
    assert _list_loaded(run.stderr) & HEAVY == set()


@pytest.fixture(scope="module")
def home_with_a_task() -> Iterator[Home]:
    with short_home() as home:
        daemon = Daemon(home)
        try:
            daemon.wait_until_it_serves()
            daemon.register("Deploy the shop")
            yield home
        finally:
            daemon.close()


@pytest.mark.parametrize("words", [[], ["list"], ["show", "Deploy"], ["status"], ["waits"]])
def test_a_look_needs_no_heavy_libraries(words: list[str], home_with_a_task: Home) -> None:
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "openclaw_taskmem", *words],
        capture_output=True,
        text=True,
        env=environment(home_with_a_task),
        check=True,
    )
    assert "openclaw_taskmem.cli.client" in run.stderr
    too_much = HEAVY | {"rich.console", "subprocess", "dataclasses", "tomllib"}
    assert _list_loaded(run.stderr) & too_much == set()


def _list_loaded(imports: str) -> set[str]:
    return {line.rpartition("|")[2].strip() for line in imports.splitlines()}


def test_each_promise_of_security_names_a_test_that_there_is() -> None:
    text = (ROOT / "SECURITY.md").read_text("utf-8")
    promises = re.findall(r"^\| [A-Z].* \| (.+) \|$", text, re.MULTILINE)
    assert len(promises) == text.count(". | ")
    for promise in promises:
        tests = re.findall(r"`((?:plugins/\w+/)?tests/[\w/]+\.py)::(test_\w+)`", promise)
        assert tests, promise
        for path, name in tests:
            source = (ROOT / path).read_text("utf-8")
            assert re.search(rf"^(async )?def {name}\(", source, re.MULTILINE), name


def test_the_skill_names_the_tools_there_are() -> None:
    from openclaw_taskmem.tools.catalog import TOOLS

    text = (ROOT / "SKILL.md").read_text(encoding="utf-8")
    tools = {tool.name for tool in TOOLS}
    named = set(re.findall(r"`((?:task|wait|smart|memory)_\w+)`", text)) - {"task_id"}
    assert named <= tools
    assert tools <= named


def test_the_copies_of_the_skills_are_equal() -> None:
    gateway, bundle = (
        f"plugins/taskmem_openclaw/{folder}/skills/task-memory/SKILL.md"
        for folder in ("gateway", "bundle")
    )
    copies = ("SKILL.md", gateway), ("plugins/taskmem_mcp_hosts/SKILL.md", bundle)
    assert [pair for pair in copies if len({(ROOT / p).read_bytes() for p in pair}) > 1] == []


def test_wheel_holds_only_the_packages_and_the_skill(tmp_path: Path) -> None:
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"),
            *("--wheel-dir", str(tmp_path), str(ROOT)),
        ],
        check=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.split("/")[0] for name in names}
    dist = f"openclaw_taskmem-{__version__}"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    built = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    packages = {Path(package).name for package in built}
    assert tops == packages | {f"{dist}.dist-info", f"{dist}.data"}
    skill = "share/openclaw-taskmem/skills/task-memory/SKILL.md"
    assert f"{dist}.data/data/{skill}" in names
    assert any(name.endswith("migrations/env.py") for name in names)
    assert "taskmem_hookspecs/py.typed" in names


@pytest.mark.parametrize("package", ["taskmem_recorder", "taskmem_resumebench"])
def test_a_package_of_its_own_may_import_the_contract_alone(package: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    built = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    of_package = ROOT / "plugins" / package / "pyproject.toml"
    contracts = tomllib.loads(of_package.read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    forbidden = {name for each in contracts for name in each.get("forbidden_modules", ())}
    assert {Path(each).name for each in built} - forbidden == {
        "taskmem_hookspecs",
        "taskmem_program",
    }


def test_every_process_of_ours_has_the_same_options_of_python() -> None:
    spelled = re.compile(r'-E\W+P\b|"-m", "openclaw_taskmem"')
    roots = (ROOT / root for root in ("openclaw_taskmem", "hookspecs", "plugins"))
    files = {file for root in roots for file in root.rglob("*.py") if "tests" not in file.parts}
    found = [file for file in files if spelled.search(file.read_text("utf-8"))]
    assert found == [ROOT / "hookspecs/taskmem_program/__init__.py"]
    assert f"python {shlex.join(OWN_PROGRAM[1:])}`" in (ROOT / "docs/trouble.md").read_text("utf-8")


def test_built_in_plugins_load_by_the_public_entry_points() -> None:
    found = importlib.metadata.entry_points(group="openclaw_taskmem")
    built_in = {"evidence", "mcp-hosts", "openclaw", "sqlmodel", "terminal", "vision"}
    assert {entry.name for entry in found} >= built_in


def test_a_run_and_its_parts_have_no_two_fields_of_one_name() -> None:
    parts = [name for part in Run.PARTS.values() for name in part.model_fields]
    names = [*Run.model_fields, *parts]
    assert len(names) == len(set(names))
    of = {name: Run.model_fields[name].annotation for name in Run.PARTS}
    assert of == Run.PARTS


def test_a_run_changes_by_the_events_of_its_machine_alone() -> None:
    own = set(OF_RUNS.split())
    parts = {name for part in Run.PARTS.values() for name in part.model_fields}
    assert own <= {*Run.model_fields} | parts
    elsewhere = {
        f"{path.relative_to(ROOT)}: {key.value}"
        for path in (ROOT / "openclaw_taskmem").rglob("*.py")
        if str(path.relative_to(path.parents[1])) != "runs/machine.py"
        for call in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(call, ast.Call) and getattr(call.func, "attr", None) == "model_copy"
        for said in ast.walk(call)
        if isinstance(said, ast.Dict)
        for key in said.keys
        if isinstance(key, ast.Constant) and key.value in own
    }
    assert elsewhere == set()
    setters = {
        str(path.relative_to(path.parents[1]))
        for path in (ROOT / "openclaw_taskmem").rglob("*.py")
        if "set_fields" in path.read_text("utf-8")
    }
    assert setters == {"runs/machine.py"}
