"""The example of docs/hooks.md works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from taskmem_hookspecs import (
    Condition,
    ConditionUnclear,
    Target,
    TargetNotFound,
    WaitStatus,
    hookimpl,
)
from taskmem_hookspecs.testing import check_plugin
from tests.daemon.watched import watch_world
from tests.support.installations import run_example_tests

DOCS = Path(__file__).parents[2] / "docs"


def read_example(page: str, heading: str) -> str:
    """Return the first Python block below a heading."""
    text = (DOCS / page).read_text(encoding="utf-8").partition(f"\n## {heading}")[2]
    found = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def example(tmp_path: Path) -> ModuleType:
    module = ModuleType("taskmem_titles")
    text = read_example("hooks.md", "A sensor and a judge, whole")
    exec(text, vars(module))  # noqa: S102 - it is ours, and what is tried here
    module.FOLDER = tmp_path  # type: ignore[attr-defined]
    return module


def test_its_hooks_fit(example: ModuleType) -> None:
    check_plugin(example)


def test_its_own_tests_pass(tmp_path: Path) -> None:
    sensor = read_example("hooks.md", "A sensor and a judge, whole")
    (tmp_path / "taskmem_titles.py").write_text(sensor, encoding="utf-8")
    tests = read_example("plugins.md", "A sensor and a judge with tests")
    place = re.search(r"This is `([\w/]+\.py)` for it", (DOCS / "plugins.md").read_text("utf-8"))
    assert place is not None
    assert place[1] == "tests/test_titles.py"  # beside the module it would be one to install
    (tmp_path / "tests").mkdir()
    (tmp_path / place[1]).write_text(tests, encoding="utf-8")
    ran = run_example_tests(tmp_path)
    # What is skipped is for targets that are named by paths.
    assert "18 passed, 3 skipped" in ran.stdout


async def test_a_title_is_waited_for(example: ModuleType, tmp_path: Path) -> None:
    tab = tmp_path / "News"
    tab.write_text("Downloads - 40 %")
    async with watch_world(("titles", example)) as room:
        wait = await room.wait("browser:News", wake_when='"100 %" appears')
        tab.write_text("Downloads - 100 %")
        await room.pass_time(3)
        ended = await room.wait_for_end(wait)
        assert ended.status is WaitStatus.RESOLVED
        assert ended.last_observation == "The title is 'Downloads - 100 %'."


async def test_a_tab_that_closes_is_told(example: ModuleType, tmp_path: Path) -> None:
    tab = tmp_path / "News"
    tab.write_text("Downloads")
    async with watch_world(("titles", example)) as room:
        wait = await room.wait("browser:News", wake_when='"100 %" appears')
        tab.unlink()
        await room.pass_time(3)
        ended = await room.wait_for_end(wait)
        assert ended.status is WaitStatus.ERROR
        assert "The tab was closed." in str(ended.last_observation)
        with pytest.raises(TargetNotFound, match="open it first"):
            await room.wait("browser:News", wake_when='"READY" appears')


@pytest.mark.parametrize("name", ["{outside}", "../{outside.name}", "link"])
async def test_a_name_that_is_a_path_shows_no_file(
    example: ModuleType, tmp_path: Path, name: str
) -> None:
    outside = tmp_path / "secret"
    outside.write_text("password")
    example.FOLDER = tmp_path / "titles"  # type: ignore[attr-defined]
    (tmp_path / "titles").mkdir()
    (tmp_path / "titles" / "link").symlink_to(outside)
    async with watch_world(("titles", example)) as room:
        with pytest.raises(TargetNotFound):
            await room.wait(
                f"browser:{name.format(outside=outside)}", wake_when='"password" appears'
            )


async def test_a_judges_refusal_of_a_side_names_the_forms(
    example: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "News").write_text("Downloads")
    judge = example.wait_judge

    @hookimpl
    def wait_judge(target: Target, condition: Condition) -> object:
        try:
            return judge(target, condition)
        except ConditionUnclear as unclear:
            raise ConditionUnclear(str(unclear), (0,)) from None

    example.wait_judge = wait_judge  # type: ignore[attr-defined]
    async with watch_world(("titles", example)) as room:
        with pytest.raises(ConditionUnclear) as refused:
            await room.wait("browser:News", wake_when="100 %")
    assert refused.value.details == {
        "sides": ["100 %"],
        "forms": ['"text" appears'],
    }


async def test_a_form_that_is_no_text_is_refused(example: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "News").write_text("Downloads")
    async with watch_world(("titles", example)) as room:
        with pytest.raises(ConditionUnclear) as refused:
            await room.wait("browser:News", wake_when="100 %")
    assert 'only texts of its title are judged: "text" app' in str(refused.value)
    assert refused.value.details["forms"] == ['"text" appears']
    assert refused.value.details["suggestion"] == '"THE TEXT THAT IT PRINTS" appears'


@pytest.mark.parametrize("words", ['"Done" appears', "it looks finished"])
async def test_a_sensor_without_a_judge_is_told_to_bring_one(
    example: ModuleType, tmp_path: Path, words: str
) -> None:
    (tmp_path / "News").write_text("Downloads")
    del example.wait_judge
    async with watch_world(("titles", example)) as room:
        with pytest.raises(ConditionUnclear, match=r"its hook wait_judge") as refused:
            await room.wait("browser:News", wake_when=words)
    assert "suggestion" not in refused.value.details
    assert "No plug-in judges such words" not in str(refused.value)
