"""Functions say what they do, a class name means one thing, a short file has a reason."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("openclaw_taskmem", "hookspecs", "plugins")
ALL = (*PRODUCT, "tests", "bench")
IRREGULAR = frozenset(
    [
        "begun",
        "bought",
        "bound",
        "brought",
        "built",
        "caught",
        "chosen",
        "dealt",
        "done",
        "drawn",
        "driven",
        "dug",
        "eaten",
        "fallen",
        "fed",
        "felt",
        "fought",
        "found",
        "frozen",
        "given",
        "gone",
        "gotten",
        "grown",
        "heard",
        "held",
        "hidden",
        "hung",
        "kept",
        "known",
        "laid",
        "led",
        "left",
        "lent",
        "lit",
        "lost",
        "made",
        "meant",
        "met",
        "owed",
        "paid",
        "proven",
        "ridden",
        "risen",
        "rung",
        "said",
        "seen",
        "sent",
        "shaken",
        "shown",
        "shrunk",
        "slept",
        "sold",
        "sought",
        "spent",
        "spoken",
        "spun",
        "stolen",
        "stood",
        "struck",
        "stuck",
        "sunk",
        "sworn",
        "swept",
        "taken",
        "taught",
        "thought",
        "thrown",
        "told",
        "torn",
        "understood",
        "woken",
        "won",
        "worn",
        "wound",
        "written",
    ]
)
"""Participles without -ed; those that are plain verbs too (`cut`) are not here."""
VERBS = frozenset(
    [
        "anything",
        "bring",
        "cancelled",  # asyncio's own name for it
        "cling",
        "embed",
        "exceed",
        "feed",
        "fling",
        "heed",
        "need",
        "nothing",
        "ping",
        "proceed",
        "ring",
        "seed",
        "shed",
        "sing",
        "sling",
        "speed",
        "spring",
        "sting",
        "string",
        "succeed",
        "swing",
        "weed",
        "wring",
    ]
)
"""Verbs and nouns that only look like participles."""
LONGEST_TEST_NAME = 60
SHORT = 40
"""Lines of a file below which its first line says why it is one."""


class Statement(NamedTuple):
    """One that a rule is about: a function, a class, or a text that stands alone."""

    kind: type[ast.AST]
    words: str
    """Its name, or the text."""
    at: str


@cache
def list_statements(root: str) -> list[Statement]:
    """List those of a folder's files; each file is parsed once for all rules."""
    found = []
    for path in sorted((ROOT / root).rglob("*.py")):
        for node in walk_statements(ast.parse(path.read_text("utf-8"))):
            at = f"{path.relative_to(ROOT)}:{node.lineno}"
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    found.append(Statement(ast.FunctionDef, node.name, at))
                case ast.ClassDef():
                    found.append(Statement(ast.ClassDef, node.name, at))
                case ast.Expr(ast.Constant(str(text))):
                    found.append(Statement(ast.Constant, text, at))
    return found


def walk_statements(node: ast.AST) -> Iterator[ast.stmt]:
    for field in ("body", "handlers", "cases", "orelse", "finalbody"):
        for each in getattr(node, field, ()):
            if isinstance(each, ast.stmt):
                yield each
            yield from walk_statements(each)


def pick_statements(kind: type[ast.AST], roots: tuple[str, ...]) -> Iterator[Statement]:
    return (each for root in roots for each in list_statements(root) if each.kind is kind)


def is_lone_participle(name: str) -> bool:
    word = name.strip("_")
    if "_" in word or word in VERBS:
        return False
    return word in IRREGULAR or word.endswith(("ed", "ing"))


def test_no_function_is_a_lone_participle() -> None:
    found = [
        f"{each.at} {each.words}"
        for each in pick_statements(ast.FunctionDef, ALL)
        if is_lone_participle(each.words)
    ]
    assert found == [], "a function is a verb and a noun; a verb that only looks so goes to VERBS"


def test_a_class_name_exists_once_in_the_product() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for each in pick_statements(ast.ClassDef, PRODUCT):
        places[each.words].append(each.at)
    assert {name: at for name, at in places.items() if len(at) > 1} == {}


def test_test_names_fit_into_60_characters() -> None:
    long = [
        f"{each.at} {each.words}"
        for each in pick_statements(ast.FunctionDef, ("tests",))
        if each.words.startswith("test_") and len(each.words) > LONGEST_TEST_NAME
    ]
    assert long == []


def test_a_short_file_says_why_it_is_a_file() -> None:
    """Not so a migration, which is a file by itself."""
    short = {
        str(path.relative_to(ROOT)): lines[0]
        for root in PRODUCT
        for path in sorted((ROOT / root).rglob("*.py"))
        if not path.name.startswith("__")
        and path.parent.name != "versions"
        and len(lines := path.read_text("utf-8").splitlines()) < SHORT
    }
    assert {path: line for path, line in short.items() if "a file of its own" not in line} == {}


def test_a_table_in_a_docstring_has_a_line_for_each_row() -> None:
    joined = [each.at for each in pick_statements(ast.Constant, PRODUCT) if "| |" in each.words]
    assert joined == []
