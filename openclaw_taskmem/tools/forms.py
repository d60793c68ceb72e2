"""The form of each tool: its arguments, their limits, and the JSON schema that is made of it.

Limits: name 200 characters, 200 steps of 500,
message and metadata 64 KiB.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import NoneType
from typing import Annotated, Final, Literal, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import ErrorDetails

from openclaw_taskmem.domain import callers
from openclaw_taskmem.domain.callers import AGENT, USER
from openclaw_taskmem.domain.changes.dependencies import MOST_BLOCKERS
from openclaw_taskmem.domain.conditions.conditions import MAX_SIDES
from openclaw_taskmem.domain.conditions.several import MOST_PARTS
from openclaw_taskmem.domain.conditions.targets import find_only_condition
from openclaw_taskmem.domain.tasks import lifecycle, required_artifacts
from openclaw_taskmem.domain.text.texts import require_visible_text
from openclaw_taskmem.domain.views.user_actions import LONGEST_ANSWER
from openclaw_taskmem.tools.references import (
    MOST_ATTACHED,
    MOST_PLAN_STEPS,
    NOTHING_WRITTEN,
    STEP_ARGUMENTS,
)
from taskmem_hookspecs import RESERVED_METADATA, InvalidArguments


class ReservedKey(InvalidArguments):
    """Metadata would overwrite one of the task's own keys."""


# --- forms of tasks ------------------------------------------------------------------------


NAME_CHARS: Final = 200
STEP_CHARS: Final = 500
MOST_LISTED: Final = 100
MOST_FAULTS: Final = 3
"""Faults that one refusal names."""


def _require_small(text: str) -> str:
    if len(text.encode()) > lifecycle.MOST_BYTES:
        raise ValueError(lifecycle.find_size_fault(text))
    return text


NonBlankText = Annotated[str, AfterValidator(require_visible_text)]
"""A text that is not blank."""
StrippedText = Annotated[NonBlankText, AfterValidator(str.strip)]
Text = Annotated[NonBlankText, AfterValidator(_require_small)]
Name = Annotated[StrippedText, Field(max_length=NAME_CHARS)]
StepText = Annotated[StrippedText, Field(max_length=STEP_CHARS)]
Plan = Annotated[list[StepText], Field(min_length=1, max_length=MOST_PLAN_STEPS)]
Id = Annotated[NonBlankText, Field(max_length=200)]
Numbers = Annotated[list[int], Field(max_length=MOST_PLAN_STEPS)]
Blockers = Annotated[list[Id], Field(max_length=MOST_BLOCKERS)]
Subjects = Annotated[list[Annotated[NonBlankText, Field(max_length=4096)]], Field(max_length=50)]


def _require_distinct(options: list[str]) -> list[str]:
    if len({option.strip().lower() for option in options}) < len(options):
        raise ValueError("has the same option twice")
    return options


Options = Annotated[
    list[Annotated[NonBlankText, Field(max_length=80)]],
    Field(min_length=2, max_length=4),
    AfterValidator(_require_distinct),
]


def _parse_role(name: str) -> str:
    role = name.strip().lower()
    fault = callers.find_role_fault(role)
    if fault is not None:
        raise ValueError(fault)
    return role


def refuse_user_role(role: str) -> str:
    """Refuse the user as a role that has a queue."""
    if role == callers.USER:
        raise ValueError("user is who reviews; hand a task to them with task_handoff")
    return role


RoleName = Annotated[str, AfterValidator(_parse_role)]
Token = Annotated[int | None, Field(description="Of your claim, if you made one.")]
_HIDING_KEY: Final = "unlisted"
"""In a field's schema: it is taken, but no schema lists it."""
Marks = Annotated[Numbers | None, Field(json_schema_extra={_HIDING_KEY: True})]
"""Steps of a plan that its own objects mark, from 1."""


_NAMELESS_ARTIFACT: Final = (
    "names nothing; give a path, a URL, command:NAME, or an object with path and checksum"
)


def _refuse_reserved_keys(keys: dict[str, JsonValue]) -> dict[str, JsonValue]:
    taken = sorted(set(keys) & set(RESERVED_METADATA))
    if taken:
        raise ReservedKey(
            f"metadata may not hold {', '.join(taken)}: these keys belong to the "
            f"task itself. Choose another name. {NOTHING_WRITTEN}"
        )
    fault = lifecycle.find_metadata_fault(keys)
    if fault is not None:
        raise ValueError(fault)
    listed = keys.get(lifecycle.ARTIFACTS) or []
    for item in listed if isinstance(listed, list) else [listed]:
        if not _is_named(item):
            raise ValueError(f"has an entry in {lifecycle.ARTIFACTS} that {_NAMELESS_ARTIFACT}")
    return keys


def _is_named(item: JsonValue) -> bool:
    return bool(required_artifacts.read_metadata_artifacts({lifecycle.ARTIFACTS: [item]}))


def _require_named(item: JsonValue) -> JsonValue:
    if not _is_named(item):
        raise ValueError(_NAMELESS_ARTIFACT)
    return item


Artifact = Annotated[
    JsonValue,
    AfterValidator(_require_named),
    WithJsonSchema({"type": "string"}),
]
"""A path, URL or command; also an object with a path and a checksum."""
Metadata = Annotated[
    dict[str, JsonValue],
    AfterValidator(_refuse_reserved_keys),
    WithJsonSchema(
        {
            "type": "object",
            "properties": {"artifacts": {"type": "array", "items": {"type": "string"}}},
        }
    ),
]


class Form(BaseModel):
    """The arguments of a tool; every tool takes the caller's session."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)

    session_key: Annotated[Id | None, Field(description="Your session, if known.")] = None


class TaskRegister(Form):
    """Arguments of `task_register`."""

    name: Name
    plan: Annotated[Plan, Field(description="Steps in order.")]
    metadata: Annotated[
        Metadata | None,
        Field(description='Your own keys; artifacts: ["out/report.md"] is checked.'),
    ] = None
    segmented: Annotated[
        bool, Field(description="Inside OpenClaw: few tool calls for each step.")
    ] = False
    role: Annotated[
        Annotated[RoleName, AfterValidator(refuse_user_role)] | None,
        Field(description="Queue it for this role."),
    ] = None
    blocked_by: Annotated[
        Blockers | None,
        AfterValidator(lambda named: named or None),
        Field(description="Ids of tasks that must end first."),
    ] = None
    completed_steps: Marks = None
    reopened_steps: Marks = None


class TaskUpdate(Form):
    """Arguments of `task_update`."""

    task_id: Id
    message: Annotated[
        Text | None, Field(description='What happened: "Step 2 done, pushed v1.2".')
    ] = None
    query: Annotated[
        Text | None, Field(description='"where am I?", "why did step 3 fail?", "which tag?"')
    ] = None
    after: Annotated[Id | None, Field(description="From more.arguments.")] = None
    status: Annotated[
        str | None, Field(description="active, paused, completed, failed or cancelled")
    ] = None
    completed_steps: Annotated[Numbers | None, Field(description="Steps now done, from 1.")] = None
    reopened_steps: Annotated[
        Numbers | None, Field(description="Steps no longer done, from 1.")
    ] = None
    ask: Annotated[
        Text | None,
        Field(
            max_length=1000, description="Only the user can help: your question; do as it answers."
        ),
    ] = None
    ask_options: Annotated[Options | None, Field(description="Answers to choose from, 2 to 4.")] = (
        None
    )
    artifacts: Annotated[
        Subjects | None, Field(description="What was made: whole paths, URLs, command:NAME.")
    ] = None
    token: Token = None

    @model_validator(mode="after")
    def _require_any_argument(self) -> TaskUpdate:
        given = (
            self.message,
            self.query,
            self.status,
            self.completed_steps,
            self.reopened_steps,
            self.ask,
        )
        if not any(given):
            raise ValueError(
                "give at least one of message, query, status, completed_steps, reopened_steps, ask"
            )
        if self.ask_options and self.ask is None:
            raise ValueError("ask_options goes with ask")
        if self.after is not None and self.query is None:
            raise ValueError("after goes with the query that it was given for")
        return self


class TaskPlanUpdate(Form):
    """Arguments of `task_plan_update`."""

    task_id: Id
    new_plan: Annotated[Plan, Field(description="The whole new checklist.")]
    reason: Annotated[Text, Field(description="Why, in a sentence.")]
    artifacts: Annotated[
        list[Artifact] | None, Field(description="Replaces metadata.artifacts; [] withdraws all.")
    ] = None
    blocked_by: Annotated[
        Blockers | None, Field(description="Tasks that must end first; [] withdraws all.")
    ] = None
    token: Token = None
    completed_steps: Marks = None
    reopened_steps: Marks = None


class TaskList(Form):
    """Arguments of `task_list`."""

    status: Annotated[str, Field(description="A status, all, implicit, waiting or ready.")] = (
        "active"
    )
    limit: Annotated[int, Field(ge=1, le=MOST_LISTED, description="1 to 100; else 10.")] = 10


class MemoryRecall(Form):
    """Arguments of `memory_recall`."""

    query: Annotated[Text, Field(description='"how to add an SSH key on GitHub"')]
    limit: Annotated[int, Field(ge=1, le=20, description="1 to 20; else 3.")] = 3
    recency_bias: Annotated[float, Field(ge=0, le=1, description="0 to 1: prefer the newest.")] = (
        0.5
    )


def fill_form(form: type[Form], arguments: dict[str, JsonValue]) -> Form:
    """Return the form filled with a call's arguments.

    Raises:
        InvalidArguments: They do not fit; the sentence says which, and what does.
    """
    try:
        return form.model_validate(arguments)
    except ValidationError as error:
        found = [*map(_format_error, _choose_errors(error, arguments))]
        listed = form.model_fields.items()
        known = ", ".join(name for name, field in listed if field.json_schema_extra is None)
        more = f" (and {len(found) - MOST_FAULTS} more)" if len(found) > MOST_FAULTS else ""
        raise InvalidArguments(
            f"{'; '.join(found[:MOST_FAULTS])}{more}. {NOTHING_WRITTEN} The arguments are: {known}."
        ) from None


def _choose_errors(
    error: ValidationError, arguments: Mapping[str, JsonValue]
) -> Sequence[ErrorDetails]:
    """Return the faults of a call; without its task, words that name a step are none."""
    faults = error.errors(include_url=False)
    read = [
        each
        for each in faults
        if each["type"] != "int_type" or STEP_ARGUMENTS.isdisjoint(each["loc"][:1])
    ]
    return faults if "task_id" in arguments else read


def _format_error(item: ErrorDetails) -> str:
    """Say what is wrong with one argument, as a person would."""
    kind, given, limits = item["type"], item["input"], item.get("ctx", {})
    least = limits.get("min_length", 1)
    fault = {
        "missing": "is missing",
        "extra_forbidden": "is not an argument of this tool",
        "too_short": "must not be empty" if least == 1 else f"must have at least {least} entries",
        "greater_than_equal": f"must be at least {_format_number(limits.get('ge'))}",
        "less_than_equal": f"must be at most {_format_number(limits.get('le'))}",
        "greater_than": f"must be more than {_format_number(limits.get('gt'))}",
        "finite_number": "must be a finite number",
        "literal_error": f"must be {limits.get('expected')}",
    }.get(kind)
    if kind in ("too_long", "string_too_long"):
        unit = "characters" if isinstance(given, str) else "entries"
        most = limits.get("max_length")
        fault = f"is too long; it has {len(given):,} {unit}, and at most {most} are kept"
    elif kind == "float_type" and type(given) is int:
        fault = "is larger than any number that counts here"
    elif kind in _WANTED_TYPES:
        fault = f"must be {_WANTED_TYPES[kind]}, and is {_GIVEN_TYPES[type(given)]}"
    if fault is None:
        fault = str(item["msg"]).removeprefix("Value error, ")
    return f"{_format_location(item)} {fault}".strip()


def _format_number(limit: object) -> str:
    return f"{limit:,.10g}" if isinstance(limit, float) else str(limit)


def _format_location(item: ErrorDetails) -> str:
    """Name the argument; entries of a list are counted from 1."""
    named = [f"entry {part + 1}" if isinstance(part, int) else part for part in item["loc"]]
    return " ".join(named)


_WANTED_TYPES: Final = {
    "string_type": "a text",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
}
_GIVEN_TYPES: Final[Mapping[type, str]] = {
    str: "a text",
    list: "a list",
    dict: "an object",
    int: "a number",
    float: "a fraction",
    bool: "true or false",
    NoneType: "null",
}


@cache
def list_arguments(form: type[Form]) -> dict[str, JsonValue]:
    """Return the JSON schema of all arguments that a form takes, to read calls by.

    It is made once, and all callers share it: nobody may change it.
    """
    return cast("dict[str, JsonValue]", _compact_schema(form.model_json_schema()))


@cache
def build_schema(form: type[Form]) -> dict[str, JsonValue]:
    """Return the JSON schema of a form as hosts are given it.

    It is small, since each session reads it, and has only what every provider takes: types, names,
    descriptions, choices. Limits and defaults are told in words, and checked by the form.
    Source: docs/tools.md, "Schemas".

    It is made once, and all callers share it: nobody may change it.
    """
    made = list_arguments(form)
    fields = cast("dict[str, dict[str, JsonValue]]", made["properties"])
    listed: JsonValue = {
        name: _keep_common_keywords(field)
        for name, field in fields.items()
        if _HIDING_KEY not in field
    }
    required = {"required": made["required"]} if "required" in made else {}
    return {"type": "object", "properties": listed, **required}


_COMMON_KEYWORDS: Final = ("type", "description", "enum", "items", "properties", "required")


def _keep_common_keywords(field: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    kept = {word: field[word] for word in _COMMON_KEYWORDS if word in field}
    if "items" in kept:
        kept["items"] = _keep_common_keywords(cast("dict[str, JsonValue]", kept["items"]))
    if "properties" in kept:
        within = cast("dict[str, dict[str, JsonValue]]", kept["properties"])
        kept["properties"] = {name: _keep_common_keywords(field) for name, field in within.items()}
    return kept


def add_to_description(
    schema: Mapping[str, JsonValue], argument: str, lines: Sequence[str]
) -> dict[str, JsonValue]:
    """Return a copy of a schema, with lines added to what it says of an argument."""
    properties = cast("dict[str, JsonValue]", schema["properties"])
    field = cast("dict[str, JsonValue]", properties[argument])
    description = "\n".join((str(field["description"]), *lines))
    named: dict[str, JsonValue] = {argument: {**field, "description": description}}
    return {**schema, "properties": {**properties, **named}}


def _compact_schema(value: JsonValue) -> JsonValue:
    if isinstance(value, list):
        return [_compact_schema(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept: dict[str, JsonValue] = {
        key: {name: _compact_schema(field) for name, field in item.items()}
        if key == "properties" and isinstance(item, dict)
        else _compact_schema(item)
        for key, item in value.items()
        if key != "title" and not (key == "default" and item is None)
    }
    options = kept.get("anyOf")
    if isinstance(options, list) and {"type": "null"} in options:
        real = [option for option in options if option != {"type": "null"}]
        if len(real) == 1 and isinstance(real[0], dict):
            del kept["anyOf"]
            kept = {**real[0], **kept}
    return kept


# --- forms of waits ------------------------------------------------------------------------


CONDITION_CHARS: Final = 2000
LONGEST_WAIT: Final = 30 * 86_400
"""Seconds that a wait may last, and that may lie between two looks, at most."""

_SIGNAL_FIELDS: Final[dict[str, JsonValue]] = {
    "text": {"type": "string"},
    "gone": {"type": "boolean"},
    "regex": {"type": "string"},
    "exit": {"type": "string"},
    "prompt": {"type": "boolean"},
    "asks": {"type": "string"},
    "quiet": {"type": "number"},
    "percent": {"type": "number"},
    "name": {"type": "string"},
    "number": {"type": "string"},
    "op": {"type": "string"},
    "value": {"type": "number"},
}

TargetText = Annotated[NonBlankText, Field(max_length=5000)]
Condition = Annotated[StrippedText, Field(max_length=CONDITION_CHARS)]
Signals = Annotated[
    list[dict[str, JsonValue]],
    Field(min_length=1, max_length=MAX_SIDES),
    WithJsonSchema({"type": "array", "items": {"type": "object", "properties": _SIGNAL_FIELDS}}),
]
_ALSO_FIELDS: Final[dict[str, JsonValue]] = {
    "target": {"type": "string"},
    "wake_when": {"type": "string"},
}
FORMS_HELP: Final = (
    '"text" appears | new "text" appears | "text" is gone '
    "| /regex/ appears (RE2; /regex/i) "
    "| exits | succeeds | fails | exits with N | prompt returns | asks for a password "
    "| asks yes or no | asks for input | quiet for "
    "30 s | 80 % (42/120; NAME 80 %) | NAME >= N (< <= > ==). "
    "Join by or / and. "
    "Panes and logs count from now. "
    "Plain English: only where no form fits."
)
Seconds = Annotated[float, Field(gt=0, le=LONGEST_WAIT, allow_inf_nan=False)]


class AlsoAwaited(Form):
    """One more target of a wait, with its condition."""

    target: TargetText
    wake_when: Condition | None = None

    @model_validator(mode="after")
    def _require_condition(self) -> AlsoAwaited:
        if self.wake_when is None and find_only_condition(self.target) is None:
            raise ValueError("wake_when is missing; give it")
        return self


class SmartWait(Form):
    """Arguments of `smart_wait`."""

    target: Annotated[
        TargetText,
        Field(
            description="pty:NAME, pty:tmux:PANE, pty:file:/log, window:TITLE, screen, "
            "path:/P (appears, is gone, changes, size >= N), "
            'url:https://U (answers, is down, status 200, price < 9, $.a is "b", $.a changes), '
            "command:gh run view 7 (no shell), "
            "process:PID, time:18:00 (tomorrow 9:00, 90m, cron 0 9 * * *), "
            "task:ID (completes, step 2 done), session:SUBAGENT (ends), queue:ROLE"
        ),
    ]
    wake_when: Annotated[Condition | None, Field(description=FORMS_HELP)] = None
    signals: Annotated[
        Signals | None,
        Field(description="exit: any, success, failure or N; asks: password, yes_no or any"),
    ] = None
    also: Annotated[
        list[AlsoAwaited] | None,
        Field(
            max_length=MOST_PARTS - 1,
            description=f"Up to {MOST_PARTS - 1} more.",
        ),
        WithJsonSchema({"type": "array", "items": {"type": "object", "properties": _ALSO_FIELDS}}),
    ] = None
    all: Annotated[bool, Field(description="All, not any.")] = False
    timeout: Annotated[Seconds, Field(description="Seconds; else 300.")] = 300
    task_id: Annotated[Id | None, Field(description="Else your only active task.")] = None
    poll_interval: Annotated[Seconds, Field(description="Between looks; else 2.")] = 2.0

    @model_validator(mode="after")
    def _require_one_condition(self) -> SmartWait:
        if self.wake_when is not None and self.signals is not None:
            raise ValueError("give wake_when or signals, and not both")
        given = self.wake_when is not None or self.signals is not None
        if not given and find_only_condition(self.target) is None:
            raise ValueError("wake_when is missing; give it, or signals")
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


# --- forms of runs -------------------------------------------------------------------------


Answer = Annotated[Text, Field(max_length=LONGEST_ANSWER)]


class TaskStatusForm(Form):
    """Arguments of `task_status`."""

    task_id: Annotated[Id | None, Field(description="Left out: your session's task.")] = None
    before: Annotated[
        str | None, Field(max_length=40, description="From more.arguments: older calls.")
    ] = None


class TaskResume(Form):
    """Arguments of `task_resume`."""

    task_id: Annotated[Id | None, Field(description="Left out: your session's task.")] = None
    answer: Annotated[
        Answer | None, Field(description="The user's words, to a question or review.")
    ] = None
    reopen: Annotated[bool, Field(description="Also a completed one.")] = False


class TaskStepDone(Form):
    """Arguments of `task_step_done`."""

    task_id: Id
    step: Annotated[int | None, Field(ge=1, description="From 1; left out: the current one.")] = (
        None
    )
    outcome: Annotated[
        Literal["done", "failed", "more_tools"],
        Field(description="more_tools: a few more calls for this step, once."),
    ] = "done"
    note: Annotated[Text | None, Field(description="What happened, or why not.")] = None
    remaining: Annotated[
        Plan | None, Field(description="failed: the steps instead of this one and those after it.")
    ] = None
    token: Token = None


class TaskAbort(Form):
    """Arguments of `task_abort`."""

    task_id: Id
    reason: Annotated[Text, Field(description="Why it cannot be done.")]
    token: Token = None


class TaskBackground(Form):
    """Arguments of `task_background`."""

    task_id: Id
    note: Annotated[Text | None, Field(description="What it must know there.")] = None


class TaskCancel(Form):
    """Arguments of `task_cancel`."""

    task_id: Id
    reason: Annotated[Text | None, Field(description="Why.")] = None


class TaskClaim(Form):
    """Arguments of `task_claim`."""

    task_id: Annotated[Id | None, Field(description="Left out: the next in the queue.")] = None
    role: Annotated[
        Annotated[RoleName, AfterValidator(refuse_user_role)],
        Field(description="As what you claim."),
    ] = AGENT
    attach: Annotated[
        list[Id] | None,
        Field(max_length=MOST_ATTACHED, description="Tasks to review together with it."),
    ] = None


class TaskHandoff(Form):
    """Arguments of `task_handoff`."""

    task_id: Id
    to: Annotated[RoleName, Field(description="user, or a role.")] = USER
    note: Annotated[Text | None, Field(description="What there is to know.")] = None
    token: Token = None


class TaskReset(Form):
    """Arguments of `task_reset`."""

    task_id: Id
