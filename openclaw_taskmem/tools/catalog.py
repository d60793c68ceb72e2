"""The catalog of tools: find one by its name, call it, and list those that are offered.

Answers count steps from 1 and have a `message` that says what happened and what comes next. Source:
docs/origins.md, "Tools and their answers".
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, cast

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.errors import UnknownTool
from openclaw_taskmem.domain.text.texts import format_count, quote_line
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.run_guards import renew_lease
from openclaw_taskmem.tools import forms, recall, runs, tasks, waits
from openclaw_taskmem.tools.tool import Answer, RunlessAnswer, Tool
from taskmem_hookspecs.errors import TaskmemError

log = logging.getLogger(__name__)


def answer_call(context: Context, name: str, given: Mapping[str, object], caller: Caller) -> Answer:
    """Call a tool and return its answer; renew the lease of the caller's run.

    Raises:
        TaskmemError: The call was refused; the text says why and what to do.
    """
    tool = find_tool(name)
    safe, removed = forms.prepare_arguments(given, tool.input_schema)
    form = forms.fill_form(tool.form, safe)
    if form.session_key:
        named = context.sessions.to_canonical(form.session_key)
        reached = context.reaches(caller.host, named)
        caller = caller.with_session(named, sessions=context.sessions, reached=reached)
    answered: Answer | RunlessAnswer = {}
    try:
        answered = tool.answer(context, form, caller)
    finally:
        if not isinstance(answered, RunlessAnswer):
            _renew_caller_lease(context, form, answered, caller)
    answer = answered.answer if isinstance(answered, RunlessAnswer) else answered
    if removed:
        answer["message"] = (
            f"{answer['message']} {format_count(removed, 'secret')} in the text "
            f"{'was' if removed == 1 else 'were'} replaced before anything was stored."
        )
    return answer


def _renew_caller_lease(context: Context, form: forms.Form, answer: Answer, caller: Caller) -> None:
    """Renew the lease of the caller's run, whether its call was refused or not."""
    asked = form.model_dump(include={"task_id", "wait_id", "token"})
    if caller.owner is None and asked.get("token") is None:
        return
    try:
        task_id = answer.get("task_id") or asked.get("task_id")
        if "wait_id" in asked:
            task_id = context.store.read_wait(asked["wait_id"]).task_id
        if isinstance(task_id, str):
            renew_lease(context, task_id, caller, asked.get("token"))
    except TaskmemError:
        # The call's own answer or refusal goes out all the same.
        log.debug("a claim was not renewed", exc_info=True)


def list_offered(profile: str, *, recalls: bool) -> tuple[Tool, ...]:
    """Return the tools of a profile.

    `recalls`: whether there is a source of recorded history. Without one, its tool is only in
    `all`. Source: docs/origins.md, "Tools and their answers".
    """
    if profile == "all":
        return TOOLS
    common = (*_DEFAULT, recall.TOOL) if recalls else _DEFAULT
    return common if profile == "default" else (*common, *runs.TOOLS)


def needs_outside_look(name: str, given: object = None) -> bool:
    """Tell whether a call looks at targets or artifacts; False for an unknown tool."""
    named = cast("Mapping[str, object]", given if isinstance(given, Mapping) else {})
    tool = _TOOLS_BY_NAME.get(name)
    return tool is not None and tool.looks(named)


def find_tool(name: str) -> Tool:
    """Return the tool with a name.

    Raises:
        TaskmemError: There is none, and the text lists the tools; or it is no name.
    """
    if tool := _TOOLS_BY_NAME.get(name):
        return tool
    forms.check_tool_name(name)
    known = ", ".join(tool.name for tool in TOOLS)
    raise UnknownTool(f"There is no tool {quote_line(name, 80)}; the tools are: {known}.")


_DEFAULT: Final = (*tasks.TOOLS, *waits.TOOLS)
TOOLS: Final = (*_DEFAULT, recall.TOOL, *runs.TOOLS)
_TOOLS_BY_NAME: Final = {tool.name: tool for tool in TOOLS}
