"""The catalog of tools: find one by its name, call it, and list those that are offered.

Answers count steps from 1 and have a `message` that says what happened and what comes next. Source:
docs/origins.md, "Tools and their answers".
"""

from __future__ import annotations

import json
import logging
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Final, NamedTuple, cast

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.changes.rights import Act
from openclaw_taskmem.domain.errors import UnknownTool
from openclaw_taskmem.domain.text.redaction import scrub
from openclaw_taskmem.domain.text.texts import format_count, quote_line
from openclaw_taskmem.engine import lookup
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.run_guards import guard_task, renew_lease
from openclaw_taskmem.tools import forms, recall, runs, tasks, waits
from openclaw_taskmem.tools.arguments import has_surrogate, read_arguments
from openclaw_taskmem.tools.tool import Answer, RunlessAnswer, Tool
from taskmem_hookspecs import InvalidArguments
from taskmem_hookspecs.errors import TaskmemError

log = logging.getLogger(__name__)


def answer_call(
    context: Context,
    name: str,
    given: object,
    caller: Caller,
    offered: Collection[str] | None = None,
) -> Answer:
    """Call a tool and return its answer; renew the lease of the caller's run.

    `offered` are the names of the tools that the caller can call; None: all. Of others that the
    sentence names, it says how they are called in a shell.

    Raises:
        TaskmemError: The call was refused; the text says why and what to do.
    """
    try:
        tool = find_tool(name, offered)
        answer = _call_tool(context, tool, given, caller)
    except UnknownTool:
        raise
    except TaskmemError as refused:
        refused.args = (explain_missing_tools(context, str(refused), given, offered),)
        raise
    answer["message"] = explain_missing_tools(context, str(answer["message"]), answer, offered)
    return answer


def explain_missing_tools(
    context: Context, sentence: str, about: object, offered: Collection[str] | None
) -> str:
    """Add to a sentence how tools are called in a shell that it names and that are not offered.

    Quoted words and ids name none. `about` has the id of the task, if one is meant.
    """
    known = cast("Mapping[str, object]", about if isinstance(about, Mapping) else {})
    own = _QUOTATION.sub("", sentence)
    for given_id in filter(None, map(known.get, ("task_id", "wait_id"))):
        own = own.replace(str(given_id), "")
    own_words = re.findall(r"\w+", own)
    missing = [
        tool.name
        for tool in TOOLS
        if offered is not None and tool.name not in offered and tool.name in own_words
    ]
    if not missing:
        return sentence
    arguments = json.dumps({key: known[key] for key in ("task_id",) if known.get(key)})
    verb = "is" if len(missing) == 1 else "are"
    return (
        f"{sentence} {', '.join(missing)} {verb} not among your tools; in a shell: "
        f"{context.command} call {missing[0]} {shlex.quote(arguments)}"
    )


def _call_tool(context: Context, tool: Tool, given: object, caller: Caller) -> Answer:
    read = read_arguments(given, forms.list_arguments(tool.form), _HomeLookup(context, caller))
    form = forms.fill_form(tool.form, read.arguments)
    caller = _enter_session(context, caller, form.session_key)
    answered: Answer | RunlessAnswer = {}
    loss = _find_untold_loss(context, caller)
    try:
        answered = tool.answer(context, form, caller)
    except TaskmemError as error:
        error.args = (" ".join((str(error), *loss)),)
        raise
    finally:
        if not isinstance(answered, RunlessAnswer):
            _renew_caller_lease(context, form, answered, caller)
    answer = answered.answer if isinstance(answered, RunlessAnswer) else answered
    sentences = [str(answer["message"]), *loss]
    if read.masked:
        sentences.append(
            f"{format_count(read.masked, 'secret')} in the text "
            f"{'was' if read.masked == 1 else 'were'} replaced before anything was stored."
        )
    if read.notes:
        sentences.append(scrub(f"Read {'; '.join(dict.fromkeys(read.notes))}."))
    answer["message"] = " ".join(sentences)
    return answer


def _find_untold_loss(context: Context, caller: Caller) -> Sequence[str]:
    """Return what is gone from the database, if the caller was not told of it; else nothing."""
    loss, told = context.find_loss(), context.live.told_losses
    who = caller.session_key or caller.process or caller.host or ""
    if loss is None or (who, loss.what) in told:
        return ()
    told.add((who, loss.what))
    return (str(loss) if caller.is_user else f"Tell the user: {loss}",)


class _HomeLookup(NamedTuple):
    """Finds tasks, waits and steps that a call names by words."""

    context: Context
    caller: Caller

    def find_id(self, kind: str, name: str) -> str:
        """See `Lookup`."""
        return lookup.find_named(self.context, kind, name)

    def read_plan(self, task_id: str, session_key: str | None) -> Sequence[str]:
        """See `Lookup`."""
        caller = _enter_session(self.context, self.caller, session_key)
        facts = self.context.store.read_task(task_id)
        return guard_task(self.context, Act.READ, facts, caller).task.plan


def _enter_session(context: Context, caller: Caller, session_key: str | None) -> Caller:
    """Return the caller in the session that a call names; None: it names none."""
    if not session_key:
        return caller
    named = context.sessions.to_canonical(session_key)
    reached = context.reaches(caller.host, named)
    return caller.with_session(named, sessions=context.sessions, reached=reached)


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
    """Tell whether a call looks at targets or artifacts; False for an unknown tool.

    One whose arguments have other names, or lie within another object, is taken to look.
    """
    named = cast("Mapping[str, object]", given if isinstance(given, Mapping) else {})
    tool = _TOOLS_BY_NAME.get(name) or _TOOLS_BY_NAME.get(_strip_name(name))
    if tool is None:
        return False
    known = cast("Mapping[str, object]", tool.input_schema["properties"])
    return tool.looks(named) or not named.keys() <= known.keys()


def find_tool(name: str, offered: Collection[str] | None = None) -> Tool:
    """Return the tool with a name, which may be written as hosts and models write it.

    "mcp__taskmem__task_update", "functions.task-update" and "taskUpdate" are `task_update`.

    Raises:
        TaskmemError: There is none, and the text lists the tools that are `offered` (None: all),
            the most alike first; or it is no name.
    """
    if tool := _TOOLS_BY_NAME.get(name) or _TOOLS_BY_NAME.get(_strip_name(name)):
        return tool
    if has_surrogate(name):
        raise InvalidArguments(
            "The tool's name holds half a character (a lone surrogate); give the name "
            "as the list of tools has it."
        )
    by_words = {
        _sort_words(tool.name): tool.name
        for tool in TOOLS
        if offered is None or tool.name in offered
    }
    wanted = _sort_words(_strip_name(name.partition("(")[0]))
    alike = [by_words[words] for words in get_close_matches(wanted, by_words, n=1)]
    listed = ", ".join(dict.fromkeys((*alike, *by_words.values())))
    raise UnknownTool(f"There is no tool {quote_line(scrub(name), 80)}; the tools are: {listed}.")


def _strip_name(name: str) -> str:
    """Return a tool's name in our own letters, without what hosts put before it."""
    words = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+", name.strip())
    start = next((n for n, word in enumerate(words) if not _HOST_WORD.fullmatch(word.lower())), 0)
    return "_".join(words[start:]).lower()


def _sort_words(name: str) -> str:
    return "_".join(sorted(name.split("_")))


_QUOTATION: Final = re.compile(r'(?<!\w)".*?"(?!\w)', re.DOTALL)
_HOST_WORD: Final = re.compile(r"mcp[0-9]*|taskmem|openclaw|functions?|tools?|default|api")
"""Words that hosts put before a tool's name."""
_DEFAULT: Final = (*tasks.TOOLS, *waits.TOOLS)
TOOLS: Final = (*_DEFAULT, recall.TOOL, *runs.TOOLS)
_TOOLS_BY_NAME: Final = {tool.name: tool for tool in TOOLS}
