"""Count the questions to each reader by day and for each wait, and limit those of a day.

A day is a calendar day in UTC. A question counts before it is sent, whatever its result, so that
concurrent questions cannot exceed a limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Final

from pydantic import NonNegativeInt, TypeAdapter, ValidationError

from openclaw_taskmem.domain.text.texts import format_count
from taskmem_hookspecs import Value
from taskmem_hookspecs.errors import SettingsInvalid
from taskmem_hookspecs.readers import Dollars

_NO_READER: Final = "none"
DAYS_KEPT: Final = 7
WAITS_BOOKMARK: Final = "readers_of_waits"
"""Name of the bookmark with the usage for waits."""
WAITS_KEPT: Final = 200
"""Number of waits whose usage is kept: those that were asked about last."""
_LONGEST_BUDGET_REST: Final = 3600.0
"""Longest rest of a reader at its limit, in seconds: clocks may be set."""


class ReaderUsage(Value):
    """The use of one reader on one day, or of all readers for one wait."""

    asked: NonNegativeInt = 0
    """Questions sent, answered or not."""
    tokens_in: NonNegativeInt = 0
    tokens_out: NonNegativeInt = 0
    cost_usd: Dollars | None = 0.0
    """None: part of the cost is not known."""


Days = Mapping[date, Mapping[str, ReaderUsage]]
"""Usage by day and reader."""

UsageOfWaits = Mapping[str, ReaderUsage]
"""Usage by the id of a wait, in the order of the last questions."""

_DAYS: Final[TypeAdapter[dict[date, dict[str, ReaderUsage]]]] = TypeAdapter(
    dict[date, dict[str, ReaderUsage]]
)

_WAITS: Final[TypeAdapter[dict[str, ReaderUsage]]] = TypeAdapter(dict[str, ReaderUsage])


def load_days(text: str | None) -> Days:
    """Parse what `dump_days` wrote; invalid text counts as no usage."""
    try:
        return _DAYS.validate_json(text or "{}")
    except ValidationError:
        return {}


def dump_days(days: Days) -> str:
    """Write the newest days as JSON."""
    kept = {day: dict(days[day]) for day in sorted(days)[-DAYS_KEPT:]}
    return _DAYS.dump_json(kept).decode()


@lru_cache(maxsize=1)
def load_waits(text: str | None) -> UsageOfWaits:
    """Parse what `dump_waits` wrote; invalid text counts as no usage.

    The last result is kept, as each line of an overview asks for it.
    """
    try:
        return _WAITS.validate_json(text or "{}")
    except ValidationError:
        return {}


def dump_waits(waits: UsageOfWaits) -> str:
    """Write the usage for waits as JSON."""
    return _WAITS.dump_json(dict(waits)).decode()


def count_question(days: Days, now: datetime, name: str) -> Days:
    """Count one more question that is about to be sent."""
    return _put_usage(days, now, name, add_question(find_usage(days, now, name)))


def count_answer(
    days: Days,
    now: datetime,
    name: str,
    *,
    tokens_in: int | None,
    tokens_out: int | None,
    cost_usd: float | None,
) -> Days:
    """Count what an answer used; None: not reported."""
    spent = find_usage(days, now, name)
    return _put_usage(days, now, name, add_answer(spent, tokens_in, tokens_out, cost_usd))


def add_question(spent: ReaderUsage) -> ReaderUsage:
    """Return the usage with one more question."""
    return spent.model_copy(update={"asked": spent.asked + 1})


def add_answer(
    spent: ReaderUsage, tokens_in: int | None, tokens_out: int | None, cost_usd: float | None
) -> ReaderUsage:
    """Return the usage with what an answer used; None: not reported."""
    known = None if None in (spent.cost_usd, cost_usd) else spent.cost_usd
    return ReaderUsage(
        asked=spent.asked,
        tokens_in=spent.tokens_in + (tokens_in or 0),
        tokens_out=spent.tokens_out + (tokens_out or 0),
        cost_usd=None if known is None else known + (cost_usd or 0.0),
    )


def put_wait_usage(waits: UsageOfWaits, wait_id: str, spent: ReaderUsage) -> UsageOfWaits:
    """Put the usage for a wait last, and drop the first ones beyond `WAITS_KEPT`."""
    others = ((key, each) for key, each in waits.items() if key != wait_id)
    return dict([*others, (wait_id, spent)][-WAITS_KEPT:])


def sum_usage(waits: UsageOfWaits, wait_ids: Iterable[str]) -> ReaderUsage:
    """Return what readers used for some waits together."""
    used = [waits[wait_id] for wait_id in wait_ids if wait_id in waits]
    costs = [each.cost_usd for each in used]
    return ReaderUsage(
        asked=sum(each.asked for each in used),
        tokens_in=sum(each.tokens_in for each in used),
        tokens_out=sum(each.tokens_out for each in used),
        cost_usd=None if None in costs else sum(cost or 0.0 for cost in costs),
    )


def describe_usage(used: ReaderUsage) -> str:
    """Say how often readers were asked and what it cost; empty: they were not asked."""
    if not used.asked:
        return ""
    asked = f"{format_count(used.asked, 'question')} to readers"
    if used.cost_usd is None:
        return f"{asked}, at a cost that is not known"
    return f"{asked}, about ${used.cost_usd:.4f}" if used.cost_usd else asked


def find_usage(days: Days, now: datetime, name: str) -> ReaderUsage:
    """Return a reader's usage on the day of an instant."""
    return days.get(_to_day(now), {}).get(name, ReaderUsage())


def refuse_over_limit(
    name: str, spent: ReaderUsage, limit: int | None, now: datetime, *, confirms: bool
) -> tuple[str, float] | None:
    """Return why a question may not be sent and for how many seconds; None: it may.

    `limit` is the most questions a day; None: any number. If it is above 1, the last one of a day
    is reserved for a question that confirms a yes.
    """
    if limit is None:
        return None
    reserve = 1 if limit > 1 and not confirms else 0
    if spent.asked < limit - reserve:
        return None
    variable = f"TASKMEM_{name.upper().replace('-', '_')}_CALLS_PER_DAY"
    ends = datetime.combine(_to_day(now) + timedelta(days=1), time(), UTC)
    rest = min((ends - now).total_seconds(), _LONGEST_BUDGET_REST)
    if limit == 0:
        return f"{name} is never asked, because {variable} is 0.", rest
    kept = spent.asked < limit
    sentence = (
        f"{name} was asked {spent.asked} times today ({variable} is {limit})"
        f"{'; its last call is kept to confirm a yes' if kept else ''}. It is asked "
        f"again from {ends:%Y-%m-%d} 00:00 UTC on."
    )
    return sentence, rest


def order_readers(
    wanted: Sequence[str], there: Iterable[str], default: Iterable[str]
) -> tuple[str, ...]:
    """Return the names of the readers to ask, in the operator's order.

    Args:
        wanted: Names in the setting; `none` alone: no reader.
        there: Readers that plug-ins provide.
        default: The setting's default; its names are valid even if no plug-in has them.

    Raises:
        SettingsInvalid: A name is unknown; the sentence lists the known ones.
    """
    if tuple(wanted) == (_NO_READER,):
        return ()
    names = {*there}
    valid = names | {*default}
    unknown = [name for name in wanted if name not in valid]
    if unknown:
        listed = ", ".join(sorted(valid))
        raise SettingsInvalid(
            f"TASKMEM_READERS names {unknown[0]!r}, and no plug-in has such a reader; "
            f"use {_NO_READER}, or some of: {listed}."
        )
    return tuple(name for name in dict.fromkeys(wanted) if name in names)


def _put_usage(days: Days, now: datetime, name: str, spent: ReaderUsage) -> Days:
    day = _to_day(now)
    return {**days, day: {**days.get(day, {}), name: spent}}


def _to_day(now: datetime) -> date:
    return now.astimezone(UTC).date()
