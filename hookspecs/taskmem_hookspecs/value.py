"""Define `Value`, the base of all values, and `Instant`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


def _to_utc(instant: datetime) -> datetime:
    if instant.tzinfo is None:
        raise ValueError("an instant needs a time zone")
    return instant.astimezone(UTC)


Instant = Annotated[datetime, AfterValidator(_to_utc)]
"""An aware point in time, in UTC."""

Seconds = Annotated[float, Field(ge=0, le=1e12)]
"""A finite duration of at most 1e12 s."""


class Value(BaseModel):
    """A frozen value that rejects unknown fields."""

    # Built at the first use: a process uses few of them, and a daemon starts in two thirds
    # of the time.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
