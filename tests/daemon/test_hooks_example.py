"""The example of docs/hooks.md works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from taskmem_hookspecs import ConditionUnclear, TargetNotFound, WaitStatus
from taskmem_hookspecs.testing import check_plugin
from tests.daemon.watched import watch_world

DOCUMENT = Path(__file__).parents[2] / "docs" / "hooks.md"


@pytest.fixture
def example(tmp_path: Path) -> ModuleType:
    text = DOCUMENT.read_text(encoding="utf-8").partition("## A sensor and a judge")[2]
    found = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert found is not None
    module = ModuleType("taskmem_titles")
    exec(found[1], vars(module))  # noqa: S102 - it is ours, and what is tried here
    module.FOLDER = tmp_path  # type: ignore[attr-defined]
    return module


def test_its_hooks_fit(example: ModuleType) -> None:
    check_plugin(example)


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
    assert refused.value.details["suggestion"] == ""
    assert "No plug-in judges such words" not in str(refused.value)
