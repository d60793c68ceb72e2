"""Judge a workspace: what is there that should be, twice, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from taskmem_resumebench.generated_task import GeneratedTask
from taskmem_resumebench.work_steps import Call, format_step

NAMED: Final = 4
"""Most effects of a kind that a fault names."""


class Judgement(NamedTuple):
    """What became of a task, seen from its workspace alone."""

    needed: int
    """Effects that the task asks for."""
    right: int
    """Of these, the ones that are there exactly once."""
    missing: int
    """Of these, the ones that are not there."""
    duplicated: int
    """Effects too many."""
    revived: int
    """Effects of steps that were called off, or of the wrong side of a choice."""
    performed: int
    """Calls that had their effect, however often."""
    fault: str
    """Which effects are missing, there too often, or not wanted; empty: none."""

    @property
    def exact(self) -> bool:
        """Whether everything is there once, and nothing else."""
        return self.right == self.needed and not self.revived


def judge_workspace(
    task: GeneratedTask, made: Mapping[Call, int], count_effects: Callable[[Call], int]
) -> Judgement:
    """Judge the workspace of a task.

    Args:
        task: The task, with what is hidden from its agent.
        made: How often each call had its effect.
        count_effects: Looks how often the effect of a call is there.
    """
    there = {call: count_effects(call) for call in {*task.needed, *made}}
    needed = {*task.needed}
    return Judgement(
        needed=len(needed),
        right=sum(there[call] == 1 for call in needed),
        missing=sum(there[call] == 0 for call in needed),
        duplicated=sum(times - 1 for times in there.values() if times > 1),
        revived=sum(times for call, times in there.items() if call not in needed),
        performed=sum(made.values()),
        fault=_describe_fault(there, needed),
    )


def _describe_fault(there: Mapping[Call, int], needed: set[Call]) -> str:
    kinds = {
        "missing": [call for call, times in there.items() if call in needed and not times],
        "doubled": [call for call, times in there.items() if times > 1],
        "not wanted": [call for call, times in there.items() if call not in needed and times],
    }
    return "; ".join(f"{kind}: {_list_calls(calls)}" for kind, calls in kinds.items() if calls)


def _list_calls(calls: Sequence[Call]) -> str:
    steps = sorted(map(format_step, calls))
    more = f" and {len(steps) - NAMED} more" if len(steps) > NAMED else ""
    return ", ".join(steps[:NAMED]) + more
