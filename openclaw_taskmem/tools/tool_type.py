"""One thing that an agent may call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.tools import forms
from openclaw_taskmem.tools.tool_answers import Answer


@dataclass(frozen=True, slots=True)
class Tool:
    """One thing that an agent may call."""

    name: str
    description: str
    """For the model: what it does, when to use it."""
    form: type[forms.Form]
    answer: Callable[[Context, Any, Caller], Answer]
    looks: Callable[[Mapping[str, object]], bool] = lambda _: False
    """Whether it looks at what is out there, which may take seconds, if so called."""

    @property
    def input_schema(self) -> dict[str, JsonValue]:
        """The JSON schema of the arguments."""
        return forms.build_schema(self.form)
