"""All invariants that the simulation checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tests.simulation.rules import OfCommit, Rules
from tests.simulation.rules_of_runs import RUN_RULES
from tests.simulation.rules_of_service import (
    ANSWER_RULES,
    DROP_RULES,
    PLAY_RULES,
    REST_RULES,
)
from tests.simulation.rules_of_tasks import TASK_RULES
from tests.simulation.rules_of_waits import WAIT_RULES
from tests.simulation.rules_of_wakes import WAKE_RULES

_RULES: Final = (TASK_RULES, WAIT_RULES, WAKE_RULES, RUN_RULES)
COMMIT_RULES: Final[Mapping[str, Sequence[OfCommit]]] = {
    kind: [rule for rules in _RULES for rule in rules.get(kind, ())]
    for kind in ("tasks", "waits", "wakes", "runs", "messages", "events", "bookmarks")
}
ALL: Final = Rules(COMMIT_RULES, ANSWER_RULES, PLAY_RULES, REST_RULES, DROP_RULES)
