"""All invariants that the simulation checks."""

from __future__ import annotations

from typing import Final

from tests.simulation.rules import Rules
from tests.simulation.rules_of_commits import COMMIT_RULES

ALL: Final = Rules(COMMIT_RULES)
