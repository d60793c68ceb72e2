"""Define `AgentHost` and what it shows to users: cards, questions and notices."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Protocol, runtime_checkable

from pydantic import Field

from taskmem_hookspecs.model import Instant, Value


class StepState(StrEnum):
    """Progress of a step on a card."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"


class CardStep(Value):
    """One step of the plan on a card."""

    step: str
    """One line of at most 300 bytes; never empty."""
    status: StepState


class Card(Value):
    """A task as its user sees it: a summary and its plan."""

    markdown: str
    """First line: the task's name. Below it: the state of the task."""
    plan: tuple[CardStep, ...]
    """At most 50 steps, at most one of them in progress."""
    since: Instant
    """When the task began; a card that the agent itself has shown since then stays."""


class UserQuestion(Value):
    """A question to the user, who answers by an option or in their own words."""

    key: str
    """Unique id; the host asks a question with the same key only once."""
    header: str
    """Subject, in at most 12 characters."""
    text: str
    options: tuple[str, ...] = ()
    """Empty, or two to four options."""
    newest_event: int = 0
    """Id of the task's newest event when the question was read."""


class SessionView(Value):
    """The card and the open questions that a session's user currently sees beside the chat."""

    session_key: str
    card: Card | None = None
    """Card of the session's newest task; None: no task to show."""
    questions: tuple[UserQuestion, ...] = ()
    """The open questions. The host withdraws any other question that is not newer than this
    view."""
    newest_event: int = 0
    """Id of the newest event in the log when the view was read."""


class Notice(Value):
    """A line for the user of a session, which no model reads."""

    session_key: str | None
    """None: the main session."""
    text: str
    """Plain text of one or more lines; empty: show nothing but `without_card`."""
    without_card: str = ""
    """Text to show instead in a chat whose user sees no card; it also names steps and waits. Empty:
    there is none."""
    key: str
    """Unique id; the host shows a notice with the same key only once."""
    in_chat: bool = False
    """True if the agent has already said this text in the session's chat; the host then shows it
    only to a user who is elsewhere."""
    question: UserQuestion | None = None
    """The question that the text asks; a host that shows buttons for it needs no text."""


class SessionNames(Value):
    """How a host forms the keys of its own agents' sessions; without a prefix, no key is its own.

    A key of the host's own is `<prefix><agent's name>:<rest>`; the agent decides on the rest.
    """

    prefix: Annotated[str, Field(pattern=r"^\S*$")] = ""
    """Text that begins all keys of the host's own, and no other host's; the agent's name follows,
    up to a colon. Empty: no key is the host's own."""
    background: Annotated[str, Field(pattern=r"^(:\S+)?$")] = ""
    """Text between agent and run id in the key of the session in which that run continues in the
    background. Empty: the host has no such sessions."""
    lower_case: bool = False
    """True if the host changes its own keys to lower case."""
    own_files: frozenset[str] = frozenset()
    """Names of the files that the host itself puts into an agent's folder; no task made them."""


@runtime_checkable
class AgentHost(Protocol):
    """Where agents run: shows notices, cards and questions, and stops turns.

    Every method raises `WakeUndelivered` if it cannot be done now and should be tried again, and
    `WakeRefused` if it can never be done.
    """

    async def say(self, notice: Notice) -> None:
        """Show a notice to the user of a session, wherever that user is."""
        ...

    async def show(self, view: SessionView) -> None:
        """Show the card and questions of a session; a host that cannot show them does nothing.

        A newer view replaces an older one, never the other way round.
        """
        ...

    async def stop(self, session_key: str, age: float) -> None:
        """Stop the running turn of a session; do nothing if no turn runs.

        A turn that began less than `age` seconds ago is a later one, and continues.
        """
        ...


@runtime_checkable
class SelectiveHost(AgentHost, Protocol):
    """An `AgentHost` for some sessions only.

    Any other host is for all sessions that no selective host reaches.
    """

    def reaches(self, host: str | None, session_key: str | None) -> bool:
        """Return True if it is the host of this session.

        `host` is as in `Wake.host`, or None where it is not known; no `session_key` is the main
        session. Called often: answer from memory. If it raises, it counts as False.
        """
        ...


@runtime_checkable
class NamingHost(Protocol):
    """Additional protocol of an `AgentHost` whose agents' sessions have keys of a known form.

    For a host without it, no run is told to continue in a session, no user is shown what happens in
    one, and no run continues in the background.
    """

    def describe_sessions(self) -> SessionNames:
        """Return the form of the keys; called once, at start."""
        ...
