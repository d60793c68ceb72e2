"""The tables of the README and of docs/reliability.md show all that benchmarks have stored.

After that, in the root: `python tests/structure/test_readme_tables.py` writes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
RESULTS: Final = ROOT / "bench" / "results" / "gain.json"
RESUMED: Final = ROOT / "bench" / "results" / "resumed_hosts.json"
README: Final = ROOT / "README.md"
RELIABILITY: Final = ROOT / "docs" / "reliability.md"
TITLES: Final = {
    "gain": "| what happens | OpenClaw alone | with Task memory |",
    "cost": "| cost | |",
}
RESUMED_TITLE: Final = "| interruption | its own resume | with Task memory |"


def render_readme(text: str, report: Mapping[str, Any]) -> str:
    """Put a report's figures into the two tables of a text."""
    for part, title in TITLES.items():
        text = _replace_rows(text, title, _format_rows(part, report[part]))
    return text


def render_resumed(text: str, report: Mapping[str, Any]) -> str:
    """Put what became of interrupted hosts into the table of a text."""
    rows = [
        f"| {host}: {what} | {_format_parts(row['alone'])} | {_format_parts(row['ours'])} |"
        for host, cases in report.items()
        for what, row in cases.items()
    ]
    return _replace_rows(text, RESUMED_TITLE, ["| --- | --- | --- |", *rows])


def _replace_rows(text: str, title: str, rows: Iterable[str]) -> str:
    head, line, rest = text.partition(f"{title}\n")
    _, after, tail = rest.partition("\n\n")
    return "".join((head, line, "\n".join(rows), after, tail))


def _format_parts(outcome: Mapping[str, int]) -> str:
    """Write how many of the parts were made, and how many twice."""
    twice = f", {outcome['made twice']} twice" if outcome["made twice"] else ""
    return f"{outcome['made']} made{twice}"


def _format_rows(part: str, rows: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield "| --- | --- | --- |" if part == "gain" else "| --- | --- |"
    for what, row in rows.items():
        if part == "gain":
            yield f"| {what} | {_format_outcome(row['alone'])} | {_format_outcome(row['ours'])} |"
        else:
            yield f"| {what} | {_format_cost(row['median'], row['unit'])} |"


def _format_outcome(outcome: float | bool | None) -> str:
    """Write an outcome: seconds, or whether it happened; None: it did not."""
    if isinstance(outcome, bool) or outcome is None:
        return "yes" if outcome else "no"
    return f"{outcome:.1f} s"


def _format_cost(figure: float, unit: str) -> str:
    """Write a cost with two digits that count; bytes as kilobytes."""
    if unit == "bytes":
        figure, unit = figure / 1000, "KB"
    return f"{figure:.0f} {unit}" if figure >= 10 else f"{figure:.2g} {unit}"


def test_the_readme_shows_the_stored_gain_and_cost() -> None:
    text = README.read_text()
    assert text == render_readme(text, json.loads(RESULTS.read_text()))


def test_each_figure_of_gain_and_cost_is_in_the_readme() -> None:
    report = json.loads(RESULTS.read_text())
    for part in TITLES:
        for row in report[part].values():
            row.update(dict.fromkeys({"alone", "ours", "median"} & row.keys(), 7777.0))
            row.update({"unit": "MB"} if "unit" in row else {})

    text = render_readme(README.read_text(), report)

    assert text.count("| 7777.0 s") == 2 * len(report["gain"])
    assert text.count("| 7777 MB |") == len(report["cost"])


def test_the_table_of_resumed_hosts_shows_what_is_stored() -> None:
    text, report = RELIABILITY.read_text(), json.loads(RESUMED.read_text())
    assert text == render_resumed(text, report)
    for cases in report.values():
        for row in cases.values():
            row.update({key: {"made": 7777, "made twice": 3333} for key in row})
    assert render_resumed(text, report).count("7777 made, 3333 twice") == 16


if __name__ == "__main__":
    README.write_text(render_readme(README.read_text(), json.loads(RESULTS.read_text())))
    resumed = json.loads(RESUMED.read_text())
    RELIABILITY.write_text(render_resumed(RELIABILITY.read_text(), resumed))
