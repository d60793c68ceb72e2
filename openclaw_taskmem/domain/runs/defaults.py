"""Defaults of the limits of runs, which the settings load without pydantic."""

from __future__ import annotations

from typing import Final

LEASE_SECONDS: Final = 300.0
FRESH_SECONDS: Final = 3600.0
CARRY_ON: Final = True
IDLE_PAUSES: Final = (60.0, 240.0, 900.0)
QUESTION_SECONDS: Final = 120.0
MAX_ROUNDS: Final = 200
MAX_HOURS: Final = 48.0
PROVIDER_RETRIES: Final = 3
PROVIDER_REST_SECONDS: Final = 90.0
STEP_TOOLS: Final = 3
STEP_BONUS: Final = 2
CHECKPOINT_DAYS: Final = 7.0
IMPLICIT_TASKS: Final = True
