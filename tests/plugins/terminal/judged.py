"""Shows a judge of text what a terminal would show it."""

import asyncio
from datetime import UTC, datetime, timedelta

from openclaw_taskmem.domain.conditions.conditions import parse_condition
from taskmem_hookspecs import Frame, Met, Ruling
from taskmem_terminal.judge import TerminalRuleJudge

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


class ShownJudge:
    """A judge, and everything it has been shown."""

    def __init__(self, wake_when: str, name: str = "build") -> None:
        self.judge = TerminalRuleJudge(parse_condition(wake_when), name)
        self.text = ""
        self._now = NOON

    def shows(self, more: str = "", *, still: float = 2.0, **known: object) -> Ruling:
        """Show some more, after which nothing came for `still` seconds."""
        unfinished = self.text[self.text.rfind("\n") + 1 :]
        self.text += more
        text = unfinished + more if more else ""
        tail = "\n".join(self.text.rstrip("\n").split("\n")[-80:])
        return self._rule(still, text=text, tail=tail, **known)

    def paints(
        self, screen: str, *, still: float = 2.0, printed: str = "painted", **known: object
    ) -> Ruling:
        """Show a screen that was painted anew, by a text that was `printed`."""
        return self._rule(still, text=printed, tail=screen, **known)

    def _rule(self, still: float, **known: object) -> Ruling:
        changed_at = self._now
        self._now += timedelta(seconds=still)
        frame = Frame(seen_at=self._now, changed_at=changed_at, place="", **known)
        return asyncio.run(self.judge.rule(frame))


def rule_on(wake_when: str, text: str, **known: object) -> Ruling:
    """What a judge says that is shown a text at once."""
    return ShownJudge(wake_when).shows(text, **known)


def is_met_by(wake_when: str, text: str, **known: object) -> Met:
    return rule_on(wake_when, text, **known).met
