"""Find the forms of condition that any judge takes for a target.

Only a refusal asks: the judges of a plug-in's own scheme are not known beforehand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from openclaw_taskmem.domain.conditions.conditions import FORMS, parse_condition
from openclaw_taskmem.domain.conditions.targets import BUILT_IN
from openclaw_taskmem.domain.conditions.verdicts import build_scheme_refusal, find_unjudged
from openclaw_taskmem.plugin_host.facade import PluginHost
from openclaw_taskmem.plugin_host.validation import describe_no_judge
from taskmem_hookspecs import Condition, ConditionUnclear, Judge, Reader, Target

PLAIN_ENGLISH: Final = "plain English"
_FREE: Final = parse_condition("the work looks finished")


def find_judged_forms(
    plugin_host: PluginHost, target: Target, reader: Reader | None
) -> tuple[str, ...]:
    """Return the forms that a judge takes for a target, as a refusal lists them.

    Each form is tried with placeholders as its values, such as `exits with 1`.
    """
    return tuple(
        form
        for form, condition in _list_samples()
        if not find_unjudged(condition, plugin_host.collect_judges(target, condition, reader).found)
    )


def refuse_unjudged(
    plugin_host: PluginHost,
    target: Target,
    condition: Condition,
    judges: Sequence[Judge],
    reader: Reader | None,
) -> None:
    """Refuse sides without a judge, of a plug-in's own scheme, with the forms that are judged.

    Raises:
        ConditionUnclear: A side has no judge.
    """
    unread = find_unjudged(condition, judges)
    if not unread or target.scheme in BUILT_IN:
        return
    advice = plugin_host.collect_judges(target, condition, reader).advice
    reasons = " ".join(said for said in advice if said != describe_no_judge(target))
    forms = find_judged_forms(plugin_host, target, reader)
    raise build_scheme_refusal(condition, unread, target.scheme, forms, reasons)


def add_forms(
    plugin_host: PluginHost,
    target: Target,
    condition: Condition,
    refusal: ConditionUnclear,
    reader: Reader | None,
) -> ConditionUnclear:
    """Add the refused sides, and the forms that are judged, to a refusal that has none."""
    refusal.details = refusal.details or {
        "sides": [condition.sides[i].words for i in refusal.sides if i < len(condition.sides)],
        "forms": [*find_judged_forms(plugin_host, target, reader)],
        "suggestion": "",
    }
    return refusal


def _list_samples() -> Iterator[tuple[str, Condition]]:
    """Yield each form with a condition that has no other."""
    for form in FORMS:
        yield form, parse_condition(re.sub(r"\bN\b", "1", form))
    yield PLAIN_ENGLISH, _FREE
