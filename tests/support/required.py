"""What a test does without a tool that it needs."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def do_without(sentence: str) -> NoReturn:
    """Skip the test, or fail it where tools are required; the sentence says why."""
    if os.environ.get("TASKMEM_E2E") == "required":
        pytest.fail(sentence)
    pytest.skip(sentence)
