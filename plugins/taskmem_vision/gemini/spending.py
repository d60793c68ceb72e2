"""What questions to Gemini have used up on each day, and how many more it may be asked.

A day is a calendar day in UTC. A request counts before it is sent, on the day on which
it is sent, whatever comes of it: questions that are under way at once cannot go beyond
what is allowed.
"""

from __future__ import annotations

import logging
import os
import re
import stat
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from taskmem_hookspecs import JudgeUnavailable, ModelUsage
from taskmem_vision.gemini.prices import cost_dollars

log = logging.getLogger(__name__)

VARIABLE: Final = "TASKMEM_GEMINI_CALLS_PER_DAY"
CALLS_PER_DAY: Final = 1000
LONGEST_REST: Final = 3600.0
"""Seconds; whoever was refused asks again no later, for a clock may be set."""
DAYS_KEPT: Final = 40

_FILE: Final = "gemini.json"
_LARGEST: Final = 1_000_000
"""Bytes; what is kept here is some thousand."""

Number = Annotated[int, Field(ge=0)]


class DayUsedUp(JudgeUnavailable):
    """Gemini was asked as often as it may be on one day; nothing was sent."""


class Tokens(BaseModel):
    """What a model read and wrote."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    prompt: Number = 0
    candidates: Number = 0
    thoughts: Number = 0

    def __add__(self, other: Tokens) -> Tokens:
        """Return both together."""
        return Tokens(
            prompt=self.prompt + other.prompt,
            candidates=self.candidates + other.candidates,
            thoughts=self.thoughts + other.thoughts,
        )


class Spent(BaseModel):
    """What one model has used up on one day."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    calls: Number = 0
    """Requests that were sent, answered or not."""
    tokens: Tokens = Tokens()
    """Of those that were answered."""


Days = dict[date, dict[str, Spent]]
"""What was used up, by day and by model."""


class _Record(BaseModel):
    """What the file holds."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    version: Literal[1]
    days: Days


@dataclass(frozen=True, slots=True)
class Sent:
    """A request that counts."""

    day: date
    model: str


def utc_now() -> datetime:
    """Return the time of the wall clock."""
    return datetime.now(UTC)  # noqa: TID251


class Spending:
    """The account of one home; may be used from several threads at once."""

    def __init__(
        self, path: Path | None, now: Callable[[], datetime] = utc_now
    ) -> None:
        """Take where it is kept, and the wall clock.

        Args:
            path: A file in a folder that is there; None: it is kept in memory.
            now: Returns an aware instant.
        """
        self._path = path
        self._now = now
        self._turn = threading.Lock()
        self._days: Days = {}
        self._loaded = path is None
        self._complained = False

    def refuse_when_used_up(self, allowed: int) -> None:
        """Refuse a question that cannot be sent on this day any more.

        Raises:
            DayUsedUp: So it is.
        """
        with self._turn:
            self._load()
            self._refuse(allowed, self._instant())

    def send(self, model: str, allowed: int) -> Sent:
        """Count a request that is sent next.

        Args:
            model: Who is asked.
            allowed: Requests on one day, to all models together.

        Raises:
            DayUsedUp: It must not be sent.
        """
        with self._turn:
            self._load()
            now = self._instant()
            self._refuse(allowed, now)
            sent = Sent(now.date(), model)
            self._add(sent, 1, Tokens())
            return sent

    def answered(self, sent: Sent, tokens: Tokens) -> None:
        """Count what the answer to a request has cost."""
        with self._turn:
            self._load()
            self._add(sent, 0, tokens)

    def usage(self, model: str, allowed: int) -> Sequence[ModelUsage]:
        """Return what this day has cost; nothing when nobody was ever asked.

        Args:
            model: Who is asked now; it is there, and first, also when it was not yet.
            allowed: Requests on one day, to all models together.
        """
        with self._turn:
            self._load()
            if not self._days:
                return ()
            day = self._instant().date()
            spent = {model: Spent(), **self._days.get(day, {})}
        others = sum(each.calls for name, each in spent.items() if name != model)
        left = max(allowed - others, 0)
        return [
            ModelUsage(
                model=name,
                day=day,
                calls=each.calls,
                calls_allowed=left if name == model else None,
                tokens_in=each.tokens.prompt,
                tokens_out=each.tokens.candidates + each.tokens.thoughts,
                cost_dollars=cost_dollars(
                    name,
                    day,
                    tokens_in=each.tokens.prompt,
                    tokens_out=each.tokens.candidates + each.tokens.thoughts,
                ),
            )
            for name, each in spent.items()
        ]

    # --- counting -----------------------------------------------------------

    def _instant(self) -> datetime:
        return self._now().astimezone(UTC)

    def _refuse(self, allowed: int, now: datetime) -> None:
        spent = self._days.get(now.date(), {})
        if sum(each.calls for each in spent.values()) < allowed:
            return
        ends = datetime.combine(now.date() + timedelta(days=1), time(), UTC)
        rest = min((ends - now).total_seconds(), LONGEST_REST)
        if not allowed:
            raise DayUsedUp(
                f"Gemini is never asked, because {VARIABLE} is 0; set it higher and "
                "restart the daemon.",
                rest,
            )
        raise DayUsedUp(
            f"Gemini was asked as often as it may be on one day ({VARIABLE} is "
            f"{allowed}); it is asked again when the day ends, {ends:%Y-%m-%d} at "
            "00:00 UTC.",
            rest,
        )

    def _add(self, sent: Sent, calls: int, tokens: Tokens) -> None:
        day = self._days.setdefault(sent.day, {})
        before = day.get(sent.model, Spent())
        day[sent.model] = Spent(
            calls=before.calls + calls, tokens=before.tokens + tokens
        )
        for old in sorted(self._days)[:-DAYS_KEPT]:
            if old != sent.day:
                del self._days[old]
        self._save()

    # --- keeping ------------------------------------------------------------

    def _load(self) -> None:
        """Add what the file holds, once; until it can be read, it is left alone."""
        if self._loaded or self._path is None:
            return
        try:
            kept = _read(self._path)
        except FileNotFoundError:
            kept = {}
        except OSError as error:
            self._complain(self._path, error)
            return
        except ValueError:
            aside = self._path.with_name(f"{self._path.name}.set-aside")
            try:
                self._path.replace(aside)
            except OSError as error:
                self._complain(self._path, error)
                return
            log.warning(
                "%s does not hold what Gemini was asked, and is now %s; today's "
                "questions count from 0",
                self._path,
                aside.name,
            )
            kept = {}
        for day, models in kept.items():
            for model, spent in models.items():
                here = self._days.setdefault(day, {}).get(model, Spent())
                self._days[day][model] = Spent(
                    calls=here.calls + spent.calls, tokens=here.tokens + spent.tokens
                )
        self._loaded, self._complained = True, False

    def _save(self) -> None:
        """Replace the file; while that cannot be done, only the record is lost."""
        if self._path is None or not self._loaded:
            return
        fresh = self._path.with_name(f"{self._path.name}.new")
        text = _Record(version=1, days=self._days).model_dump_json()
        try:
            fresh.unlink(missing_ok=True)
            # Not synced: it would hold up all looks at screens, and what a crash of the
            # whole machine leaves behind is one day's record.
            with open(fresh, "x", encoding="utf-8", opener=_private) as file:
                file.write(text)
            fresh.replace(self._path)
        except OSError as error:
            with suppress(OSError):
                fresh.unlink(missing_ok=True)
            self._complain(self._path, error)
        else:
            self._complained = False

    def _complain(self, path: Path, error: OSError) -> None:
        if not self._complained:
            log.warning(
                "%s cannot be kept (%s); what Gemini is asked counts until the daemon "
                "ends",
                path,
                error.strerror,
            )
        self._complained = True


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _at_once(path: str, flags: int) -> int:
    # A pipe of that name would otherwise be waited for.
    return os.open(path, flags | os.O_NONBLOCK)


def _read(path: Path) -> Days:
    """Return what a file holds.

    Raises:
        OSError: It cannot be read now.
        ValueError: It holds something else.
    """
    try:
        with open(path, "rb", opener=_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ValueError("it is no file")
            data = file.read(_LARGEST + 1)
    except IsADirectoryError:
        raise ValueError("it is a folder") from None
    if len(data) > _LARGEST:
        raise ValueError("it is too large")
    try:
        return _Record.model_validate_json(data).days
    except ValidationError:
        raise ValueError("it is no record") from None


# --- the environment ----------------------------------------------------------

_accounts: Final[dict[Path, Spending]] = {}
_turn: Final = threading.Lock()


def spending_of(environ: Mapping[str, str]) -> Spending:
    """Return the one account of a home; without a home, one of its own, in memory."""
    home = environ.get("TASKMEM_HOME", "")
    if not home:
        return Spending(None)
    path = Path(home) / _FILE
    with _turn:
        return _accounts.setdefault(path, Spending(path))


def calls_per_day(environ: Mapping[str, str]) -> int:
    """Return how many requests may be sent on one day; the core has refused nonsense.

    Where it has not, none may.
    """
    raw = environ.get(VARIABLE, "").strip()
    if not raw:
        return CALLS_PER_DAY
    return int(raw) if re.fullmatch(r"[0-9]{1,9}", raw) else 0
