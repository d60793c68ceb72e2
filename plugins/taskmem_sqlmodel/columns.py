"""Column types, checks and partial indexes.

Instants and JSON are stored as text that is the same on SQLite and PostgreSQL.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Dialect


def _build_ordered_text(dialect: Dialect) -> sa.types.TypeEngine[str]:
    """Return a text type that sorts by code point, as SQLite and Python do."""
    return dialect.type_descriptor(
        sa.Text(collation="C") if dialect.name == "postgresql" else sa.Text()
    )


class CodePointText(sa.TypeDecorator[str]):
    """Text that sorts by code point."""

    impl = sa.Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> sa.types.TypeEngine[str]:
        """Choose the collation."""
        return _build_ordered_text(dialect)


class ContainedText(sa.TypeDecorator[str]):
    """A text to look for within another, as a pattern for LIKE."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(
        self,
        value: str | None,
        dialect: Dialect,  # noqa: ARG002 - SQLAlchemy's signature
    ) -> str | None:
        """Escape what a LIKE would interpret."""
        if value is None:
            return None
        escaped = _WILDCARDS.sub(r"\\\g<0>", value)
        return f"%{escaped}%"


_WILDCARDS: Final = re.compile(r"[%_\\]")


class Serial(sa.TypeDecorator[int]):
    """An auto-incremented number; SQLite requires `INTEGER` for this."""

    impl = sa.BigInteger
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> sa.types.TypeEngine[int]:
        """Choose the width."""
        return dialect.type_descriptor(
            sa.Integer() if dialect.name == "sqlite" else sa.BigInteger()
        )


class UnreadableValue:
    """Stands for a stored value that cannot be decoded: validation rejects it."""


_WIDTH: Final = len("2026-02-16T06:00:00.000000Z")


class InstantText(sa.TypeDecorator[datetime]):
    """An instant as ISO 8601 text in UTC of fixed width, so that it sorts by time."""

    impl = sa.Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> sa.types.TypeEngine[str]:
        """Choose the collation."""
        return _build_ordered_text(dialect)

    def process_bind_param(
        self,
        value: datetime | None,
        dialect: Dialect,  # noqa: ARG002 - SQLAlchemy's signature
    ) -> str | None:
        """Format as `2026-02-16T06:00:00.000000Z`."""
        if value is None:
            return None
        naive = value.astimezone(UTC).replace(tzinfo=None)
        return naive.isoformat(timespec="microseconds") + "Z"

    def process_result_value(
        self,
        value: Any | None,  # noqa: ANN401 - what the driver read
        dialect: Dialect,  # noqa: ARG002 - SQLAlchemy's signature
    ) -> Any:  # noqa: ANN401 - an instant, or what no value takes for one
        """Parse into an aware datetime; return `UnreadableValue` if that fails."""
        if value is None:
            return None
        try:
            # Text of another width or zone would sort wrongly.
            if len(value) == _WIDTH and value.endswith("Z"):
                return datetime.fromisoformat(value)
        except (TypeError, ValueError, AttributeError):
            pass
        return UnreadableValue()


_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Shared encoder: `json.dumps` would build one on each call."""


_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
"""Escape of a surrogate, which may be half of a pair or alone."""


class JsonText(sa.TypeDecorator[Any]):
    """JSON as text; characters outside ASCII are not escaped."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(
        self,
        value: Any,  # noqa: ANN401 - whatever JSON can say
        dialect: Dialect,  # noqa: ARG002 - SQLAlchemy's signature
    ) -> str:
        """Encode without spaces."""
        return _encode(value)

    def process_result_value(
        self,
        value: Any,  # noqa: ANN401 - what the driver read
        dialect: Dialect,  # noqa: ARG002 - SQLAlchemy's signature
    ) -> Any:  # noqa: ANN401 - whatever JSON can say
        """Decode; return `UnreadableValue` for invalid JSON.

        A lone surrogate is invalid: it could not be written again.
        """
        try:
            read = json.loads(value)
            if _SURROGATE.search(value):
                _encode(read).encode()
        except (TypeError, ValueError, RecursionError):
            return UnreadableValue()
        return read


def build_enum_check(column: str, enum: type[StrEnum]) -> sa.CheckConstraint:
    """Return a constraint: the column contains a member of `enum`."""
    members = ", ".join(f"'{member.value}'" for member in enum)
    return sa.CheckConstraint(f"{column} IN ({members})", name=f"{column}_is_known")


def build_partial_index(condition: str, name: str, *columns: str, unique: bool = False) -> sa.Index:
    """Return an index of the rows that satisfy `condition`."""
    where = sa.text(condition)
    return sa.Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)
