"""Functions say what they do, a class name means one thing, a short file has a reason."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

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


def definitions(roots: tuple[str, ...]) -> Iterator[tuple[str, ast.AST]]:
    for root in roots:
        for path in sorted((ROOT / root).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                yield str(path.relative_to(ROOT)), node


def is_lone_participle(name: str) -> bool:
    word = name.strip("_")
    if "_" in word or word in VERBS:
        return False
    return word in IRREGULAR or word.endswith(("ed", "ing"))


def test_no_function_is_a_lone_participle() -> None:
    found = [
        f"{path}:{node.lineno} {node.name}"
        for path, node in definitions(ALL)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and is_lone_participle(node.name)
    ]
    assert found == [], "a function is a verb and a noun; a verb that only looks so goes to VERBS"


def test_a_class_name_exists_once_in_the_product() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, node in definitions(PRODUCT):
        if isinstance(node, ast.ClassDef):
            places[node.name].append(f"{path}:{node.lineno}")
    assert {name: at for name, at in places.items() if len(at) > 1} == {}


def test_test_names_fit_into_60_characters() -> None:
    long = [
        f"{path}:{node.lineno} {node.name}"
        for path, node in definitions(("tests",))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and len(node.name) > LONGEST_TEST_NAME
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
    joined = [
        f"{path}:{node.lineno}"
        for path, node in definitions(PRODUCT)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        and "| |" in node.value.value
    ]
    assert joined == []
