"""The forms of the arguments of the tools on waits."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field, JsonValue, WithJsonSchema, model_validator

from openclaw_taskmem.domain.conditions.role_queue_target import is_queue
from openclaw_taskmem.tools.forms import Filled, Form, Id, Stripped, Text
from taskmem_hookspecs.conditions import MAX_SIDES

CONDITION_CHARS: Final = 2000
LONGEST_WAIT: Final = 30 * 86_400
"""Seconds that a wait may last, and that may lie between two looks, at most."""

TargetText = Annotated[Filled, Field(max_length=5000)]
Condition = Annotated[Stripped, Field(max_length=CONDITION_CHARS)]
Signals = Annotated[
    list[dict[str, JsonValue]],
    Field(min_length=1, max_length=MAX_SIDES),
    WithJsonSchema({"type": "array", "items": {"type": "object"}}),
]
FORMS_HELP: Final = (
    '"text" appears (put it in double quotes) or "text" is gone (seen before, not now) '
    "| /regex/ appears (on one line, ^ and $ are its ends, RE2; /regex/i ignores case) "
    "| exits | succeeds | fails | exits with N | prompt returns | asks for a password "
    "(or passphrase) | asks yes or no | asks for input | quiet for "
    "30 s | 80 % (at least; also 42/120) | NAME >= N (also < <= > ==): any number "
    "printed with that name, loss < 0.1. Join by or / and; and binds closer. On "
    "pty:NAME all that was printed counts, elsewhere only what comes after this call. "
    "Plain English is read by a model, slower and not everywhere: only where no form "
    "fits."
)
Seconds = Annotated[float, Field(gt=0, le=LONGEST_WAIT, allow_inf_nan=False)]


class SmartWait(Form):
    """Arguments of `smart_wait`."""

    target: Annotated[
        TargetText,
        Field(
            description="pty:NAME, pty:tmux:PANE, pty:file:/path, window:TITLE, screen, queue:ROLE"
        ),
    ]
    wake_when: Annotated[Condition | None, Field(description=FORMS_HELP)] = None
    signals: Annotated[
        Signals | None,
        Field(
            description="Instead of wake_when, any of: "
            '{"text","gone"?} {"regex"} {"exit":"any|success|failure" or N} '
            '{"prompt":true} {"asks":"password|yes_no|any"} {"quiet":S} {"percent":N} '
            '{"number","op","value"}'
        ),
    ] = None
    timeout: Annotated[Seconds, Field(description="Seconds.")] = 300
    task_id: Annotated[Id | None, Field(description="The task it is for.")] = None
    poll_interval: Annotated[Seconds, Field(description="Longest seconds between looks.")] = 2.0

    @model_validator(mode="after")
    def _require_one_condition(self) -> SmartWait:
        given = (self.wake_when is not None) + (self.signals is not None)
        if given > 1 or (not given and not is_queue(self.target)):
            raise ValueError("give wake_when or signals, and not both")
        return self


class WaitUpdate(Form):
    """Arguments of `wait_update`."""

    wait_id: Id
    wake_when: Annotated[Condition | None, Field(description="New condition.")] = None
    signals: Annotated[Signals | None, Field(description="Instead of it.")] = None
    timeout: Annotated[Seconds | None, Field(description="New seconds, from now.")] = None
    message: Annotated[Text | None, Field(description="Why, for its history.")] = None

    @model_validator(mode="after")
    def _refuse_two_conditions(self) -> WaitUpdate:
        if self.wake_when is not None and self.signals is not None:
            raise ValueError("give wake_when or signals, and not both")
        return self


class WaitCancel(Form):
    """Arguments of `wait_cancel`."""

    wait_id: Id
    reason: Annotated[Text | None, Field(description="Why.")] = None
