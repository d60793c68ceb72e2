"""The type of a tool; its answer is JSON with a `message` that says what comes next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from pydantic import JsonValue

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.tools import forms

Answer = dict[str, JsonValue]


class RunlessAnswer(NamedTuple):
    """An answer of a handler that has seen no open run of the task, so no lease is renewed."""

    answer: Answer


@dataclass(frozen=True)
class Tool:
    """A tool that an agent may call."""

    name: str
    description: str
    """For the model: what it does and when to use it."""
    form: type[forms.Form]
    answer: Callable[[Context, Any, Caller], Answer | RunlessAnswer]
    looks: Callable[[Mapping[str, object]], bool] = lambda _: False
    """True if a call with these arguments looks at targets or artifacts, which may take seconds."""

    targets: tuple[str, ...] = ()
    """Lines on targets that plug-ins add, for the description of `target`."""

    @cached_property
    def input_schema(self) -> dict[str, JsonValue]:
        """The JSON schema of the arguments."""
        schema = forms.build_schema(self.form)
        return forms.add_to_description(schema, "target", self.targets) if self.targets else schema


def add_targets(context: Context, tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """Describe the targets that plug-ins add in the tool that opens waits."""
    lines = (*context.plugin_host.list_target_forms(),)
    return tuple(
        replace(tool, targets=lines) if tool.name == "smart_wait" else tool for tool in tools
    )
