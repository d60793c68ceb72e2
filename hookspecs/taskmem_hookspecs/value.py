"""What all values of the contract are made of: frozen, strict, and in UTC."""

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
"""A duration that can be added to any instant of ours: no NaN, and not endless."""


class Value(BaseModel):
    """A frozen value that refuses fields it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
