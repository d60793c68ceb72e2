"""The column types: instants and JSON as text that reads the same everywhere.

Besides, checks of columns, and indexes of some rows.
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
    """Return text that sorts on PostgreSQL as it does on SQLite and in Python."""
    return dialect.type_descriptor(
        sa.Text(collation="C") if dialect.name == "postgresql" else sa.Text()
    )


class CodePointText(sa.TypeDecorator[str]):
    """Text in the order of its code points."""

    impl = sa.Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> sa.types.TypeEngine[str]:
        """Choose the collation."""
        return _build_ordered_text(dialect)


class Serial(sa.TypeDecorator[int]):
    """A number that the database counts up; SQLite does so only for `INTEGER`."""

    impl = sa.BigInteger
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> sa.types.TypeEngine[int]:
        """Choose the width."""
        return dialect.type_descriptor(
            sa.Integer() if dialect.name == "sqlite" else sa.BigInteger()
        )


class UnreadableValue:
    """Stands for what a column cannot hold: making a value of it fails."""


_WIDTH: Final = len("2026-02-16T06:00:00.000000Z")


class InstantText(sa.TypeDecorator[datetime]):
    """An instant as ISO 8601 in UTC, of fixed width, so that text order is time's."""

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
        """Write `2026-02-16T06:00:00.000000Z`."""
        if value is None:
            return None
        naive = value.astimezone(UTC).replace(tzinfo=None)
        return naive.isoformat(timespec="microseconds") + "Z"

    def process_result_value(
        self,
        value: Any | None,  # noqa: ANN401 - what the driver read
        dialect: Dialect,  # noqa: ARG002 - SQLAlchemy's signature
    ) -> Any:  # noqa: ANN401 - an instant, or what no value takes for one
        """Read it back, aware; what is none is left to whoever makes the value."""
        if value is None:
            return None
        try:
            # Another width or zone would not be in order.
            if len(value) == _WIDTH and value.endswith("Z"):
                return datetime.fromisoformat(value)
        except (TypeError, ValueError, AttributeError):
            pass
        return UnreadableValue()


_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Made once: `json.dumps` would make an encoder each time."""


_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
"""An escape of half a character; two of them may be a whole one."""


class JsonText(sa.TypeDecorator[Any]):
    """JSON as text, with letters of every script as they are."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(
        self,
        value: Any,  # noqa: ANN401 - whatever JSON can say
        dialect: Dialect,  # noqa: ARG002 - SQLAlchemy's signature
    ) -> str:
        """Write it without needless spaces."""
        return _encode(value)

    def process_result_value(
        self,
        value: Any,  # noqa: ANN401 - what the driver read
        dialect: Dialect,  # noqa: ARG002 - SQLAlchemy's signature
    ) -> Any:  # noqa: ANN401 - whatever JSON can say
        """Read it back; what is no JSON is left to whoever makes the value.

        Half a character is none: it could never be written again.
        """
        try:
            read = json.loads(value)
            if _SURROGATE.search(value):
                _encode(read).encode()
        except (TypeError, ValueError, RecursionError):
            return UnreadableValue()
        return read


def build_enum_check(column: str, enum: type[StrEnum]) -> sa.CheckConstraint:
    """Return a check that a column holds a member of an enum."""
    members = ", ".join(f"'{member.value}'" for member in enum)
    return sa.CheckConstraint(f"{column} IN ({members})", name=f"{column}_is_known")


def build_partial_index(condition: str, name: str, *columns: str, unique: bool = False) -> sa.Index:
    """Return an index of the rows for which a condition holds."""
    where = sa.text(condition)
    return sa.Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)
