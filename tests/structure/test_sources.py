"""What a docstring names as its source is there to be read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("openclaw_taskmem", "hookspecs", "plugins", "bench", "tests")
SOURCE = re.compile(
    r'(?<!class )\bSource:\s+((?:(?!""").)+?)(?:"""|\n\s*\n|\n[^#\n]*=|\Z)', re.DOTALL
)
TITLES = r'(?:, "[^"]+"(?: and "[^"]+")*)?'
PUBLIC = re.compile(rf"(?:https://\S+|[a-z_]+\([1-8]\)|(?:PEP|RFC|UAX|UTS) [0-9]+){TITLES}")
PAGE = re.compile(rf"(docs/[\w/-]+\.md)({TITLES})")


def list_sources(text: str) -> Iterator[str]:
    """Yield what follows each `Source:` in a file of code, on one line."""
    for found in SOURCE.findall(text):
        yield " ".join(re.sub(r"^\s*(?:#|//)", "", found, flags=re.MULTILINE).split()).rstrip(".")


def can_be_read(source: str) -> bool:
    """Tell whether a source is a public document, or a page here that has the headings."""
    if PUBLIC.fullmatch(source):
        return True
    page = PAGE.fullmatch(source)
    if page is None or not (ROOT / page[1]).is_file():
        return False
    headings = re.findall(r"^#+ (.+)$", (ROOT / page[1]).read_text("utf-8"), re.MULTILINE)
    return {*re.findall(r'"([^"]+)"', page[2])} <= {*headings}


def test_what_stands_behind_source_can_be_read() -> None:
    gone = {
        f"{path.relative_to(ROOT)}: {source}"
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".js", ".ts") and path != Path(__file__)
        for source in list_sources(path.read_text("utf-8"))
        if not can_be_read(source)
    }
    assert gone == set()


@pytest.mark.parametrize(
    ("code", "readable"),
    [
        ('"""Look.\n\nSource: docs/origins.md, "Waits" and\n"Wakes".\n"""', True),
        ('"""Look. Source: docs/origins.md, "Weights"."""', False),
        ('"""Look. Source: docs/decisions/0004-wakes-at-least-once.md."""', True),
        ('"""Look. Source: docs/nowhere.md."""', False),
        ('"""Look. Source: proc_net_tcp(5)."""', True),
        ('"""Look. Source: UTS 39, "Confusable Detection"."""', True),
        ("# Source: https://example.org/prices\nPRICES = {}", True),
        ('"""Look. Source: seed 000 §5."""', False),
        ('"""Look. Source: ruling "narration"."""', False),
    ],
)
def test_a_source_is_read_as_it_is_written(code: str, readable: bool) -> None:
    assert [can_be_read(source) for source in list_sources(code)] == [readable]
