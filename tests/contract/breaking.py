"""Runs a conformance suite against what breaks its rules."""

import pytest


def broken_rules(suite, tmp_path):
    """Run every test of a suite, and return the names of those that fail.

    `suite.begin()` makes the state of each test anew.
    """
    broken = set()
    for name in dir(suite):
        if not name.startswith("test_"):
            continue
        test = getattr(suite, name)
        marks = getattr(test, "pytestmark", None)
        for case in marks[0].args[1] if marks else [None]:
            suite.begin()
            try:
                test(tmp_path, case) if marks else test(tmp_path)
            except (Exception, pytest.fail.Exception):  # noqa: BLE001 - any failure
                broken.add(name.removeprefix("test_"))
            except pytest.skip.Exception:
                pass
    return broken
