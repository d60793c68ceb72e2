"""Judge a terminal's text by rules, without a model.

A condition holds if one of its sides holds; a side holds if all of its forms hold. Sides in plain
English are left to the readers.
"""

from __future__ import annotations

from typing import Final

from taskmem_hookspecs import ConditionUnclear, Frame, Met, Ruling
from taskmem_hookspecs.conditions import (
    AsksForm,
    Condition,
    ExitForm,
    ExitKind,
    Form,
    PromptForm,
    Side,
)
from taskmem_terminal.frame_view import View, ViewBuilder, clip_line
from taskmem_terminal.matchers import make_matcher

_NO_TEXT: Final = "There is no text to read."


class TerminalRuleJudge:
    """Judges one wait on a terminal."""

    name = "rules"

    __slots__ = ("_all", "_condition", "_matchers", "_viewer", "sides")

    def __init__(self, condition: Condition, name: str) -> None:
        """Set the condition and the name of a `pty:` target.

        Raises:
            ConditionUnclear: A form of the condition is impossible for such a target.
        """
        kind = name.partition(":")[0] if ":" in name else ""
        if kind == "file":
            _refuse_forms(condition, name)
        self.sides = condition.parsed_sides
        self._all = not condition.free
        self._condition = condition
        self._matchers = [
            [make_matcher(form, kind) for form in condition.sides[side].forms]
            for side in self.sides
        ]
        self._viewer = ViewBuilder()

    async def rule(self, frame: Frame) -> Ruling:
        """Return whether one of the sides with forms holds."""
        if frame.text is None and frame.exit_status is None and frame.gone is None:
            return Ruling(met=Met.UNSURE, observation=_NO_TEXT)
        view = self._viewer.build_view(frame)
        # Every matcher must see every frame.
        found = [[match(view) for match in matchers] for matchers in self._matchers]
        for why in found:
            reasons = [reason for reason in why if reason is not None]
            if len(reasons) == len(why):
                observation = ", and ".join(reason.rstrip(".") for reason in reasons)
                return Ruling(met=Met.YES, observation=observation)
        return Ruling(
            met=Met.NO if self._all else Met.UNSURE,
            observation=self._describe(view),
            look_again_seconds=view.look_again_seconds,
        )

    def _describe(self, view: View) -> str:
        """Return the observation if no side holds; empty: nothing was shown yet."""
        last = view.last_line
        seen = f'Last line: "{clip_line(last)}"' if last else ""
        if not view.over:
            return seen
        sides = " or ".join(str(self._condition.sides[side]) for side in self.sides)
        over = f"Nothing more will come, so {clip_line(sides)} can no longer hold."
        return f"{over} {seen}".rstrip()


def _refuse_forms(condition: Condition, name: str) -> None:
    """Refuse forms that are impossible for a file."""
    refused: dict[int, Form] = {}
    for number, side in enumerate(condition.sides):
        if form := _find_impossible_form(side):
            refused[number] = form
    if refused:
        forms = " and ".join(dict.fromkeys(f"“{form}”" for form in refused.values()))
        advice = dict.fromkeys(_suggest_form(form) for form in refused.values())
        raise ConditionUnclear(
            f"pty:{name} is a file, which has no command, prompt or question, so "
            f"{forms} cannot be judged there; wait for what is written into it, such "
            f"as {' or '.join(advice)}.",
            sides=tuple(refused),
        )


def _find_impossible_form(side: Side) -> Form | None:
    impossible = (ExitForm, PromptForm, AsksForm)
    return next((form for form in side.forms if isinstance(form, impossible)), None)


def _suggest_form(form: Form) -> str:
    """Return a form that is possible for a file."""
    if isinstance(form, ExitForm) and form.exit in (ExitKind.ANY, ExitKind.SUCCESS):
        return "/done|finished|completed/i appears"
    if isinstance(form, ExitForm):
        return "/error|failed|traceback/i appears"
    return "quiet for 30 s"
