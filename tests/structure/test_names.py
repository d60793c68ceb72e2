"""Functions say what they do, a class name means one thing, a constant is a noun."""

from __future__ import annotations

import ast
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from openclaw_taskmem.config import list_variables
from tests.structure.names import PRODUCT, ROOT, is_lone_participle, list_faults, list_file_faults

ALL = (*PRODUCT, "tests", "bench")
LONGEST_TEST_NAME = 60
QUOTED_NAME = re.compile(r"`([A-Za-z]+_\w+|_\w+|[A-Z]{2,}|[A-Z]\w*[a-z]\w*)`")
"""A name that a docstring quotes, and that looks like one of code: no lone word of prose."""
OTHER_NAMES = {
    "PR_SET_PDEATHSIG",
    "TASKMEM_X_Y",
    "limit_concurrency",
    "task_1kjkb3q000bgeqtr",
    "task_not_found",
    "x_y",
}
"""Examples, and names of libraries and of the system, which docstrings quote."""
STATEMENT_STARTS = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}
"""Tokens after which a string stands alone."""


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


def pick_product_statements(kind: type[ast.AST]) -> Iterator[Statement]:
    """Yield those of the product; packages of their own have their tests beside them."""
    return (each for each in pick_statements(kind, PRODUCT) if "/tests/" not in each.at)


def test_no_function_is_a_lone_participle() -> None:
    found = [
        f"{each.at} {each.words}"
        for each in pick_statements(ast.FunctionDef, ALL)
        if is_lone_participle(each.words)
    ]
    assert found == [], "a function is a verb and a noun; a verb that only looks so goes to VERBS"


def test_a_class_name_exists_once_in_the_product() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for each in pick_product_statements(ast.ClassDef):
        places[each.words].append(each.at)
    assert {name: at for name, at in places.items() if len(at) > 1} == {}


def test_test_names_fit_into_60_characters() -> None:
    long = [
        f"{each.at} {each.words}"
        for each in pick_statements(ast.FunctionDef, ("tests", "plugins"))
        if each.words.startswith("test_") and len(each.words) > LONGEST_TEST_NAME
    ]
    assert long == []


def test_a_table_in_a_docstring_has_a_line_for_each_row() -> None:
    joined = [each.at for each in pick_statements(ast.Constant, PRODUCT) if "| |" in each.words]
    assert joined == []


def test_constants_and_locals_are_nouns() -> None:
    assert list_faults() == [], "give each a name that says what it holds"


@pytest.mark.parametrize(
    ("code", "faults"),
    [
        ("MOST = 5", ["MOST"]),
        ("MOST_STEPS = 5", []),
        ("AT_ONCE = 5", ["AT_ONCE"]),
        ("LOOKED_AT = 5", ["LOOKED_AT"]),
        ("_OF_HOME = ()", ["_OF_HOME"]),
        ("_SHOWN: Final = frozenset()", ["_SHOWN"]),
        ("SECONDS = 4 * 60", ["SECONDS"]),
        ("ROWS = 100", ["ROWS"]),
        ("ROWS = ('id', 'name')", []),
        ("class Limits:\n    OLDEST = timedelta(1)", ["OLDEST"]),
        ("class State(StrEnum):\n    OPEN = 'open'", []),
        ("class Turn(Value):\n    said: str = ''", []),
        ("def tell(said: str): ...", ["said"]),
        ("for said in words: ...", ["said"]),
        ('"""What it is."""', ["What it is."]),
        ('"""The names, whatever they are."""', []),
    ],
)
def test_a_riddle_is_recognised(code: str, faults: list[str]) -> None:
    assert [*list_file_faults(ast.parse(code))] == faults


# --- names in docstrings ----------------------------------------------------------


@cache
def list_code_names() -> frozenset[str]:
    """Return the words of the product's code without comments and docstrings."""
    words = list_variables()
    for path in (path for root in PRODUCT for path in (ROOT / root).rglob("*")):
        if path.suffix == ".js":
            words |= {*re.findall(r"\w+", path.read_text("utf-8"))}
        elif path.suffix == ".py":
            words |= {path.stem, *path.parent.parts, *read_python_names(path)}
    return frozenset(words)


def read_python_names(path: Path) -> Iterator[str]:
    """Yield the names in a file, and the words of its strings, without those that stand alone."""
    alone = True
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.NAME or (token.type == tokenize.STRING and not alone):
                yield from re.findall(r"\w+", token.string)
            if token.type not in (tokenize.COMMENT, tokenize.NL):
                alone = token.type in STATEMENT_STARTS


def test_the_names_in_docstrings_exist() -> None:
    known = list_code_names() | OTHER_NAMES
    gone = {
        f"{text.at}: {name}"
        for text in pick_product_statements(ast.Constant)
        for name in QUOTED_NAME.findall(text.words)
        if name not in known
    }
    assert gone == set()
