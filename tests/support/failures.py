"""Failing tests are named the moment they fail, with what to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

PLACE = "look at"
"""The name of the property of a report that holds a place to look at."""
MOST_LOGS = 4
"""The logs of one test that are named, the newest first."""
WIDTH = 300
"""Characters of an error's line."""


class FailureNames:
    """Prints a line or two for each failure, also while workers run tests."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Name a failure at once."""
        terminal: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        if not report.failed or terminal is None or hasattr(self._config, "workerinput"):
            return
        terminal.write("\n" + "".join(f"{line}\n" for line in describe_failure(report)), red=True)


def describe_failure(report: pytest.TestReport) -> list[str]:
    """Return the lines that name a failure: the test and its error, and where to look."""
    where = "" if report.when == "call" else f" ({report.when})"
    places = [str(place) for name, place in report.user_properties if name == PLACE]
    named = f"FAILED {report.nodeid}{where}: {find_error(report)}"
    return [named, *(f"  look at {place}" for place in places)]


def find_error(report: pytest.TestReport) -> str:
    """Return the first line of a failure's error."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash else report.longreprtext
    return next(iter(text.strip().splitlines()), "no word")[:WIDTH]


def note_places(item: pytest.Item, report: pytest.TestReport) -> None:
    """Note the newest logs in the test's folders, and of what it was given, in its report."""
    logs = set[Path]()
    for part in getattr(item, "funcargs", {}).values():
        for folder in _list_folders(part):
            logs |= {each for each in folder.rglob("*.log") if each.is_file()}
    newest = sorted(logs, key=lambda log: log.stat().st_mtime, reverse=True)[:MOST_LOGS]
    report.user_properties += [(PLACE, str(log)) for log in newest]


def _list_folders(part: Any) -> list[Path]:
    """Return the folders that a fixture's value has: itself, its `folder`, its room's."""
    house = getattr(part, "house", part)
    room = getattr(getattr(house, "gateway", house), "room", None)
    folders = (part, getattr(house, "folder", None), getattr(room, "root", None))
    return [each for each in folders if isinstance(each, Path) and each.is_dir()]
