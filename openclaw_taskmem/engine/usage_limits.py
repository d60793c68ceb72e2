"""Keep what hosts tell of their limits of use."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from openclaw_taskmem.domain.conditions.usage_limits import (
    LIMIT_BOOKMARK,
    WORDS_BYTES,
    UsageLimit,
)
from openclaw_taskmem.domain.text.redaction import scrub
from openclaw_taskmem.domain.text.texts import clip, to_plain_line
from openclaw_taskmem.engine.context import Context, Decision
from taskmem_hookspecs import Change


def read_limit(context: Context) -> UsageLimit | None:
    """Return the last limit that a host told of; None: it told of none."""
    text = context.store.read_bookmark(LIMIT_BOOKMARK)
    return UsageLimit.model_validate_json(text) if text else None


def note_reached(context: Context, words: str) -> None:
    """Note that a limit has ended a turn; `words`: what the host said of it."""
    excerpt = clip(scrub(to_plain_line(words)), WORDS_BYTES)
    _update(context, lambda _, now: UsageLimit(reached_at=now, words=excerpt))


def note_answer(context: Context, at: datetime) -> None:
    """Note that the host's model answered at an instant: a limit reached before is over."""
    limit = read_limit(context)
    if limit is not None and limit.over_at is None and limit.reached_at <= at:
        _update(context, lambda known, _: known and known.model_copy(update={"over_at": at}))


def _update(
    context: Context, decide: Callable[[UsageLimit | None, datetime], UsageLimit | None]
) -> None:
    def note(known: UsageLimit | None, now: datetime) -> Decision[None]:
        after = decide(known, now)
        if after is None:
            return Change(), None
        mark = context.store.make_bookmark(LIMIT_BOOKMARK, after.model_dump_json())
        return Change(bookmarks=(mark,)), None

    context.update(LIMIT_BOOKMARK, partial(read_limit, context), note)
