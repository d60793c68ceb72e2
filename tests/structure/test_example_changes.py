"""The table "Where do I change", the recipes, and the list of files name what the code has."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PRODUCT_FOLDERS: Final = ("openclaw_taskmem", "hookspecs", "plugins")
TWINS: Final = ("tests/support/memory_store.py",)
"""Files of the tests that repeat what the product does."""
SUFFIXES: Final = {".py", ".js", ".json", ".html", ".css", ".md"}
LEFT_OUT: Final = re.compile(
    r"^plugins/\w+/tests/|/migrations/versions/|^hookspecs/taskmem_hookspecs/__init__\.py"
    r"|/(?:node_modules|build|[^/]+\.egg-info)/"
)
"""Tests, what was released, and the list of the contract's names, which repeats each."""
CHANGES: Final = tomllib.loads((ROOT / "tests/structure/example_changes.toml").read_text("utf-8"))[
    "change"
]
FILE: Final = re.compile(r"`([\w.-]+/[\w./\[\]-]*|[\w-]+\.(?:md|toml))`")


@cache
def read_product() -> Mapping[str, str]:
    """Return the text of each product file, by its path."""
    paths = [path for folder in PRODUCT_FOLDERS for path in (ROOT / folder).rglob("*")]
    names = [str(path.relative_to(ROOT)) for path in paths if path.suffix in SUFFIXES]
    whole = [name for name in names if not LEFT_OUT.search(name)]
    return {name: (ROOT / name).read_text("utf-8") for name in (*whole, *TWINS)}


@cache
def read_table() -> Sequence[Sequence[str]]:
    """Return the cells of each row of the table."""
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    table = page.partition("## Where do I change")[2].partition("\n## ")[0]
    return [line.split("|")[1:-1] for line in table.splitlines() if line.startswith("| ")][2:]


def read_rows() -> Mapping[str, Sequence[str]]:
    """Return the files that each row names, by its first cell without what is in brackets."""
    rows = read_table()
    return {re.sub(r" \(.*", "", row[0]).strip(): FILE.findall("".join(row[1:])) for row in rows}


def read_place(name: str) -> str:
    """Return the text of a file, or of all files of a folder."""
    place = ROOT / name
    files = sorted(place.glob("*.py")) if place.is_dir() else [place]
    return "\n".join(file.read_text("utf-8") for file in files)


def test_each_row_has_an_example_and_each_example_a_row() -> None:
    assert [*read_rows()] == [change["to"] for change in CHANGES]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change["to"][:40])
def test_a_row_names_the_files_that_its_example_touches(change: dict[str, Any]) -> None:
    touched = {*change["at"]}
    for pattern in change["anywhere"]:
        found = {n for n, text in read_product().items() if re.search(pattern, text, re.MULTILINE)}
        assert found, f"nothing has {pattern} any more; say in the example what stands for it now"
        touched |= found
    named = {*read_rows()[change["to"]]}
    assert {"to add": touched - named, "to remove": named - touched} == {
        "to add": set(),
        "to remove": set(),
    }


def test_no_row_names_a_file_twice() -> None:
    twice = {row: files for row, files in read_rows().items() if len(files) > len({*files})}
    assert twice == {}


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change["to"][:40])
def test_the_place_to_edit_is_in_each_other_file(change: dict[str, Any]) -> None:
    places = change["at"].items()
    gone = {n: p for n, p in places if not re.search(p, read_place(n), re.MULTILINE)}
    assert gone == {}


def test_what_a_row_calls_by_name_is_in_its_files() -> None:
    symbols = {(row[0], s) for row in read_table() for s in re.findall(r"`([A-Za-z_]+)`", row[0])}
    texts = {row[0]: "\n".join(map(read_place, FILE.findall(row[1]))) for row in read_table()}
    own = {"memory_recall"}  # a tool, whose name stands for a question to it
    gone = [s for row, s in symbols if s not in own and not re.search(rf"\b{s}\b", texts[row])]
    assert gone == []


def test_the_constants_of_a_recipe_are_in_its_files() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    parts = page.partition("## Add a tool")[2].partition("## Commits")[0].split("\n## ")
    gone = []
    for part in parts:
        texts = "\n".join(read_place(name) for name in FILE.findall(part))
        symbols = re.findall(r"`(_?[A-Z][A-Z_]+)`", part)
        gone += [s for s in symbols if not re.search(rf"\b{s}\b", texts)]
    assert gone == []


@pytest.mark.parametrize(("column", "layer"), [(1, "engine"), (2, "daemon")])
def test_decision_27_lists_the_files_of_a_flat_layer(column: int, layer: str) -> None:
    page = (ROOT / "docs/decisions/0027-names-and-places.md").read_text("utf-8")
    table = page.partition("| subject | in `engine/` | in `daemon/` |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1:-1] for line in table.splitlines() if line.startswith("| ")][1:]
    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row[column])]
    files = (ROOT / "openclaw_taskmem" / layer).glob("[!_]*.py")
    assert sorted(listed) == sorted(file.stem for file in files)
