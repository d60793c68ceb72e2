"""The plug-in's JavaScript, by Node's own test runner: one test a file."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.e2e.openclaw import node_program

FOLDER = Path(__file__).parent / "gateway"
FILES = sorted(path.name for path in FOLDER.glob("*.test.mjs"))
LIMIT = 60
"""Seconds for one file; it takes one or two."""


@pytest.mark.parametrize("name", FILES)
def test_the_plugin_does_as_its_own_tests_say(name):
    done = subprocess.run(
        [node_program(), "--test", "--test-timeout=20000", FOLDER / name],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    passed = re.search(r"^(?:#|ℹ) pass (\d+)$", done.stdout, re.MULTILINE)
    said = (FOLDER / name).read_text()
    assert passed is not None
    assert int(passed[1]) >= len(re.findall(r"^test\(", said, re.MULTILINE)) > 0


def test_each_module_of_the_plugin_has_tests_of_its_own():
    modules = {
        path.stem
        for path in (FOLDER / "../../../../plugins").resolve().glob("taskmem_openclaw/gateway/*.js")
    }
    assert {name.removesuffix(".test.mjs") for name in FILES} == modules
