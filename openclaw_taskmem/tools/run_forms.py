"""The forms of the arguments of the tools on runs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from openclaw_taskmem.domain.callers.callers import AGENT, USER
from openclaw_taskmem.domain.views.chat_commands import LONGEST_ANSWER
from openclaw_taskmem.tools.forms import Form, Id, Plan, RoleName, Text, Token, refuse_user_role

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
        str, AfterValidator(refuse_user_role), Field(description="As what you claim.")
    ] = AGENT
    attach: Annotated[
        list[Id] | None, Field(max_length=50, description="Tasks to review together with it.")
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
