"""The type of a tool, and parts of its answers: JSON with a `message` that says what comes next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from pydantic import JsonValue

from openclaw_taskmem.domain.callers.callers import Caller
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.text.texts import format_iso
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.tools import forms
from taskmem_hookspecs import Run, Task

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


def describe_awaited(context: Context, run: Run | None) -> Answer:
    """Return what a task's run waits for, and its question; empty: nothing."""
    what = None if run is None else current_run.find_awaited(run, context.sessions)
    if run is None or what is None:
        return {}
    waits: Answer = {"what": what, "since": format_iso(run.changed_at)}
    if what == "claim":
        waits["role"] = run.role
    asked: Answer = {} if run.dialogue.question is None else {"question": run.dialogue.question}
    return {**asked, "waits_for": waits}


def describe_asked(context: Context, task: Task) -> str:
    """Say who puts a question to the user, and what its agent does meanwhile."""
    if context.sessions.is_own(task.session_key):
        return (
            "The user is shown your question, and the task waits for the answer: end "
            "your turn now, and do not repeat it. Once they have answered, set status "
            '"active".'
        )
    return (
        "Put your question to the user yourself: no message reaches them from here. "
        "Then call task_resume with their words as answer."
    )


def describe_queue(context: Context, task: Task, role: str) -> str:
    """Say who gets a task that was queued for a role, and who is woken."""
    session = task.registrar_session
    advice = 'task_list with status "waiting" shows it until somebody has.'
    if session is not None and context.reaches(task.registrar_host, session):
        silence = f"{context.policies.stuck.threshold_seconds:g}"
        advice = f"You are woken if nobody has claimed it after {silence} s."
    return (
        f"It is queued for {role}, and whoever claims it with task_claim gets it. Do "
        f"not work on it yourself. {advice}"
    )


def describe_silence(context: Context, task: Task) -> str:
    """Say what happens if a task is not updated any more."""
    if not context.reaches(task.host, task.session_key):
        return (
            "no wake can reach you here, so find it again with task_list and a query "
            "of task_update."
        )
    silence = f"{context.policies.stuck.threshold_seconds:g}"
    return f"after {silence} s of silence you are woken with all you need to go on."
