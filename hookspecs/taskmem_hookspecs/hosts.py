"""Where agents run, and what their users see there: cards, questions, and lines."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol, runtime_checkable

from taskmem_hookspecs.value import Instant, Value


class StepState(StrEnum):
    """Where a step of a card stands."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"


class CardStep(Value):
    """A step of a plan, as a card shows it."""

    step: str
    """In one line of at most 300 bytes; never empty."""
    status: StepState


class Card(Value):
    """What a user sees of a task at a glance."""

    markdown: str
    """A first line that names the task, and what is to be said of it below."""
    plan: tuple[CardStep, ...]
    """At most 50 steps, of which at most one is in progress."""
    since: Instant
    """When the task began: what its agent shows by itself since then stays."""


class UserQuestion(Value):
    """What a user is asked: one of the options answers it, and so do free words."""

    key: str
    """One a question: a host that is told the same again asks it once."""
    header: str
    """What it is about, in at most 12 characters."""
    text: str
    options: tuple[str, ...] = ()
    """None, or two to four."""
    newest_event: int = 0
    """The number of its task's newest entry in the log when this was read."""


class SessionView(Value):
    """All that the user of a session is to see just now besides the chat."""

    session_key: str
    card: Card | None = None
    """Of its newest task; None: there is none to be shown."""
    questions: tuple[UserQuestion, ...] = ()
    """Those that are open; any other that is no newer is asked no more."""
    newest_event: int = 0
    """The number of the log's newest entry when this was read."""


class Notice(Value):
    """What the user of a session is told; no model is asked for it."""

    session_key: str | None
    """The session; None: the main one."""
    text: str
    """Plain text, of one or more lines; empty: nobody is told but as `without_card`
    says."""
    without_card: str = ""
    """The text in its place in a chat whose user sees no card: it tells of steps and
    waits, too. Empty: there is none."""
    key: str
    """One a notice: a host that is told the same again shows it once."""
    in_chat: bool = False
    """Whether the session's chat shows these words already, as its agent's: then only
    a user who is somewhere else is told."""
    question: UserQuestion | None = None
    """What the text asks; a host that can ask it by buttons needs no text besides."""


@runtime_checkable
class AgentHost(Protocol):
    """Where agents run: what can be done there besides waking them.

    All raise `WakeUndelivered` where it cannot be done now, and is tried again, and
    `WakeRefused` where it never can.
    """

    async def say(self, notice: Notice) -> None:
        """Tell the user of a session something, where that user is."""
        ...

    async def show(self, view: SessionView) -> None:
        """Show the user of a session what it has; a host that cannot leaves it out.

        What is shown later replaces it, and is never replaced by it.
        """
        ...

    async def stop(self, session_key: str, age: float) -> None:
        """Stop the turn that runs in a session; one where none runs is fine.

        A turn that began less than `age` seconds ago is another one, and goes on.
        """
        ...
