"""Ask the judges of one wait in order, until one is sure.

Each judge reads from its own place, so a failing judge neither misses lines nor delays the others.
Source: docs/origins.md, "Judges and readers".
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from openclaw_taskmem.daemon.plugin_loops import PluginCallCancelled, PluginLoops
from openclaw_taskmem.daemon.readers import JUDGED_WAIT
from openclaw_taskmem.daemon.snapshots import SeenPicture, find_seen_picture
from openclaw_taskmem.domain.conditions.conditions import parse_condition
from openclaw_taskmem.domain.conditions.targets import BUILT_IN_SCHEMES
from openclaw_taskmem.domain.conditions.verdicts import (
    FORMS,
    STATE_FORMS,
    JudgeReply,
    WaitFinding,
    build_sides_refusal,
    combine_replies,
    compute_retry_delay,
    find_unjudged,
    name_sides,
    suggest_conditions,
)
from openclaw_taskmem.domain.policies import read_retry_after
from openclaw_taskmem.plugin_host.isolation import TriedToEnd, require_value
from openclaw_taskmem.plugin_host.plugin_host import (
    Judges,
    PluginHost,
    describe_no_judge,
    format_error,
)
from taskmem_hookspecs import (
    Clock,
    Condition,
    ConditionUnclear,
    Frame,
    Judge,
    JudgeUnavailable,
    Picture,
    Reader,
    Ruling,
    Target,
)

_SHORTEST_RETRY_SECONDS: Final = 0.05
"""Minimum delay before a judge is asked again, in seconds."""
_LONGEST_RETRY_SECONDS: Final = 300.0
"""Maximum retry delay that an unavailable judge can ask for, in seconds."""
Blame = Callable[[object, str, BaseException], None]
"""Called with a plug-in's object, the hook it failed in, and the error."""
Find = Callable[[], Awaitable[Judges]]
"""Finds the judges available now."""
Look = Callable[[str], Awaitable[Frame]]
"""Returns a frame from a place."""


class JudgePanel:
    """The judges of one wait, with their places, retry times and last rulings."""

    def __init__(
        self,
        condition: Condition,
        find_judges: Find,
        plugin_loops: PluginLoops,
        clock: Clock,
        *,
        wait_id: str,
        start: str,
        seconds: float,
        blame: Blame,
    ) -> None:
        """Create a panel.

        `find_judges` finds them in the order of asking; they read from the place `start`, and have
        `seconds` for one ruling. Their questions are counted for `wait_id`, and `blame` is called
        when one fails.
        """
        self._blame = blame
        self._wait_id = wait_id
        self._condition = condition
        self._find_judges = find_judges
        self._find_at = float("-inf")
        """When to look for judges again, by the monotonic clock."""
        self._finds = 0
        self._unjudged: tuple[int, ...] | None = None
        """Sides without a judge; None: nobody has looked for judges yet."""
        self._unjudged_since = clock.now()
        """When the panel was created, and so since when sides may have no judge."""
        self._advice = ""
        self._start = start
        self._entries: list[_JudgeState] = []
        self._plugin_loops = plugin_loops
        self._clock = clock
        self._seconds = seconds

    @property
    def places(self) -> Collection[str]:
        """Where the next frames of the judges start."""
        return frozenset(entry.place for entry in self._entries)

    async def ask_judges(self, look: Look) -> WaitFinding:
        """Ask the judges in order until one is sure; return the combined result.

        Raises:
            LookFailed: There was no frame to show them.
        """
        if self._clock.monotonic() >= self._find_at:
            await self._refresh_judges()
        replies: list[JudgeReply] = []
        for entry in self._entries:
            replies.append(await self._ask_judge(entry, look))
            if replies[-1].sure:
                return combine_replies(replies)
        if self._unjudged:
            named = name_sides(self._condition, self._unjudged)
            trouble = f"Nobody here can judge {named} now{self._advice}"
            again = self._find_at - self._clock.monotonic()
            replies.append(
                JudgeReply(
                    judge=None,
                    sides=self._unjudged,
                    since=self._unjudged_since,
                    trouble=trouble,
                    again=max(0.0, again),
                )
            )
        return combine_replies(replies)

    async def _refresh_judges(self) -> None:
        """Find the judges; schedule another search while a side has none.

        They replace the present ones only if fewer sides are without a judge then.
        """
        found = await self._find_judges()
        unjudged = find_unjudged(self._condition, found.found)
        if self._unjudged is None or len(unjudged) < len(self._unjudged):
            self._unjudged = unjudged
            every = range(len(self._condition.sides))
            self._entries = [
                _JudgeState(judge, self._start, tuple(getattr(judge, "sides", every)))
                for judge in found.found
            ]
        self._advice = f": {' '.join(found.advice)}" if found.advice else ""
        self._finds += 1
        rest = compute_retry_delay(self._finds) if self._unjudged else float("inf")
        self._find_at = self._clock.monotonic() + rest

    async def _ask_judge(self, entry: _JudgeState, look: Look) -> JudgeReply:
        if entry.busy:
            # Its last call was cancelled, and may still run.
            return entry.build_unjudged_reply("it was still being asked when time was up", None)
        rest = entry.rests_until - self._clock.monotonic()
        if rest > 0:
            return entry.build_unjudged_reply(entry.trouble, rest)
        frame = await look(entry.place)
        if not self._needs_ruling(entry, frame):
            return entry.build_reply(frame, self._clock.monotonic())
        entry.busy = True
        entry.since = entry.since or self._clock.now()
        try:
            ruling = await self._request_ruling(entry.judge, frame)
        except Exception as error:  # noqa: BLE001 - whatever a plug-in raises
            entry.record_failure(error, self._seconds, self._clock.monotonic())
            if not isinstance(error, JudgeUnavailable):
                self._blame(entry.judge, "wait_judge", error)
            return entry.build_unjudged_reply(entry.trouble, entry.last_rest)
        entry.record_ruling(frame, ruling, self._clock.monotonic())
        return entry.build_reply(frame, self._clock.monotonic())

    def _needs_ruling(self, entry: _JudgeState, frame: Frame) -> bool:
        """Return True if the frame is new to the judge, or the judge asked to see it again."""
        return (
            entry.ruling is None
            or build_frame_key(frame) != entry.shown
            or frame.picture is not entry.picture
            or self._clock.monotonic() >= entry.again_at
        )

    async def _request_ruling(self, judge: Judge, frame: Frame) -> Ruling:
        async def rule() -> Ruling:
            JUDGED_WAIT.set(self._wait_id)
            return await judge.rule(frame)

        async with asyncio.timeout(self._seconds):
            answer = await self._plugin_loops.get_loop(judge).call(rule)
        return require_value(answer, Ruling)


@dataclass(slots=True)
class _JudgeState:
    """A judge and its state within one wait."""

    judge: Final[Judge]
    place: str
    """Where the next frame for it starts: the end of the last one that it answered."""
    sides: tuple[int, ...]
    """Indexes of the sides that it decides."""
    since: datetime | None = None
    """When it was first asked since its last ruling without trouble; None: not since then."""
    shown: object = None
    """Key of the last frame that it answered."""
    picture: Picture | None = None
    """Picture of that frame; compared by identity, since `==` would run a plug-in's code."""
    ruling: Ruling | None = None
    rests_on: SeenPicture | None = None
    """Picture on which that ruling is based, if any."""
    again_at: float = float("inf")
    """When to ask it again even without a change."""
    busy: bool = False
    """True while it is asked."""
    stalled: bool = False
    """True if the last frame that it answered ended where it started."""
    failures: int = 0
    """Number of failures since its last ruling."""
    trouble: str | None = None
    """Why its last call failed; None: it did not."""
    rests_until: float = float("-inf")
    """Until when it is not asked after a failure, by the monotonic clock."""
    last_rest: float = 0.0
    """Delay after its last failure, in seconds."""

    def record_ruling(self, frame: Frame, ruling: Ruling, now: float) -> None:
        """Store a ruling and reset the failures."""
        self.stalled = frame.place == self.place
        self.place, self.shown, self.ruling = (frame.place, build_frame_key(frame), ruling)
        self.picture = frame.picture
        self.rests_on = find_seen_picture(frame, ruling)
        again = ruling.look_again_seconds
        self.again_at = float("inf") if again is None else now + max(_SHORTEST_RETRY_SECONDS, again)
        self.failures, self.trouble, self.busy = 0, None, False
        self.since = self.since if ruling.trouble else None

    def record_failure(self, error: Exception, seconds: float, now: float) -> None:
        """Store a failure; the delay before the next try grows with each one."""
        self.failures += 1
        self.busy = False
        wanted = read_retry_after(error) if isinstance(error, JudgeUnavailable) else None
        self.last_rest = max(
            compute_retry_delay(self.failures), min(wanted or 0.0, _LONGEST_RETRY_SECONDS)
        )
        self.rests_until = now + self.last_rest
        if isinstance(error, TimeoutError):
            self.trouble = f"no answer within {seconds:g} s"
        elif isinstance(error, (JudgeUnavailable, TriedToEnd, PluginCallCancelled)):
            self.trouble = str(error)
        else:
            self.trouble = format_error(error)

    def build_unjudged_reply(self, trouble: str | None, again: float | None) -> JudgeReply:
        """Return a reply that says why it was not asked, and when it will be."""
        return JudgeReply(
            judge=self.judge.name, sides=self.sides, since=self.since, trouble=trouble, again=again
        )

    def build_reply(self, frame: Frame, now: float) -> JudgeReply:
        """Return its reply to a frame that it has answered."""
        again = None if self.again_at == float("inf") else max(0.0, self.again_at - now)
        more = frame.more and not self.stalled
        return JudgeReply(
            judge=self.judge.name,
            sides=self.sides,
            since=self.since,
            ruling=self.ruling,
            gone=None if more else frame.gone,
            again=0.0 if more else again,
            rests_on=self.rests_on,
        )


def build_frame_key(frame: Frame) -> object:
    """Return the parts of a frame, except its picture, whose change makes a judge rule again."""
    return (
        frame.place,
        frame.text,
        frame.exit_status,
        frame.gone,
        frame.prompt,
        frame.reads_input,
        frame.hides_input,
        frame.takes_keys,
        frame.note,
        frame.states,
        frame.numbers,
    )


# --- forms that any judge takes ------------------------------------------------------------


_PLAIN_ENGLISH: Final = "plain English"
_PLAIN_CONDITION: Final = parse_condition("the work looks finished")


def _find_judged_forms(
    plugin_host: PluginHost, target: Target, reader: Reader | None
) -> tuple[str, ...]:
    """Return the forms that a judge takes for a target, as a refusal lists them.

    Each form is tried with placeholders as its values, such as `exits with 1`.
    """
    return tuple(
        form
        for form, sample in _list_samples(target.scheme)
        if _is_judged(plugin_host, target, sample, reader)
    )


def _is_judged(
    plugin_host: PluginHost, target: Target, condition: Condition, reader: Reader | None
) -> bool:
    judges = plugin_host.collect_judges(target, condition, reader)
    return judges.refusal is None and not find_unjudged(condition, judges.found)


def refuse_unjudged(
    plugin_host: PluginHost,
    target: Target,
    condition: Condition,
    judges: Judges,
    reader: Reader | None,
) -> None:
    """Refuse sides without a judge, with the forms that are judged for such a target.

    Raises:
        ConditionUnclear: A side has no judge.
    """
    unread = find_unjudged(condition, judges.found)
    if not unread:
        return
    forms = _find_judged_forms(plugin_host, target, reader)
    suggestions = (
        sentence
        for sentence in suggest_conditions(condition, unread, forms)
        if _is_judged(plugin_host, target, parse_condition(sentence, target.scheme), reader)
    )
    raise build_sides_refusal(
        condition,
        unread,
        forms,
        next(suggestions, ""),
        advice=" ".join(each for each in judges.advice if each != describe_no_judge(target)),
        scheme=None if target.scheme in BUILT_IN_SCHEMES else target.scheme,
        is_read=reader is not None,
    )


def add_forms(
    plugin_host: PluginHost,
    target: Target,
    condition: Condition,
    refusal: ConditionUnclear,
    reader: Reader | None,
) -> ConditionUnclear:
    """Add the refused sides, and the forms that are judged, to a refusal that has none."""
    if refusal.details:
        return refusal
    forms = _find_judged_forms(plugin_host, target, reader)
    # What the judge advises is a text, which nothing may be able to read here.
    only = "" if FORMS[0] in forms else " Write it as shown in forms."
    told = ConditionUnclear(f"{refusal}{only}", sides=refusal.sides)
    told.details = {
        "sides": [condition.sides[i].words for i in refusal.sides if i < len(condition.sides)],
        "forms": [*forms],
    }
    return told


def _list_samples(scheme: str) -> Iterator[tuple[str, Condition]]:
    """Yield each form with a condition of a target that has no other."""
    for form in (*FORMS, *STATE_FORMS):
        yield form, parse_condition(re.sub(r"\bN\b", "1", form), scheme)
    yield _PLAIN_ENGLISH, _PLAIN_CONDITION
