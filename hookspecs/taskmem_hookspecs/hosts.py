"""Define `AgentHost` and what it shows to users: cards, questions and notices."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Protocol, TypeGuard, runtime_checkable

from pydantic import Field

from taskmem_hookspecs.value import Instant, Value


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
    """How a host names the sessions of its agents; all empty: none is its own.

    A key of its own begins with its agent, then come a colon and what is the agent's
    affair.
    """

    prefix: Annotated[str, Field(pattern=r"^\S*$")] = ""
    """What those keys begin with, and no others; the agent's name follows, up to a
    colon. Empty: no key is one."""
    background: Annotated[str, Field(pattern=r"^(:\S+)?$")] = ""
    """What stands between an agent and a run's id in the key of the session in which
    that run goes on in the background. Empty: there is no such session."""
    lower_case: bool = False
    """Whether the host writes its keys in lower case, however they are given."""

    def is_own(self, session_key: str | None) -> TypeGuard[str]:
        """Return whether a key names a session of the host's own agents."""
        return bool(self.prefix) and (session_key or "").startswith(self.prefix)

    def find_agent(self, session_key: str | None) -> str | None:
        """Return whose a session is: the host's agent, with the prefix, or else itself."""
        if not self.is_own(session_key):
            return session_key
        name, _, _ = session_key.removeprefix(self.prefix).partition(":")
        return f"{self.prefix}{name}"

    def find_rest(self, session_key: str | None) -> str:
        """Return what follows the agent in a key, after the colon; empty: nothing."""
        agent = self.find_agent(session_key) or ""
        return (session_key or "").removeprefix(agent).removeprefix(":")

    def name_background(self, session_key: str, run_id: str) -> str | None:
        """Return the session in which a run of a session goes on; None: none can be."""
        if not (self.background and self.is_own(session_key)):
            return None
        return f"{self.find_agent(session_key)}{self.background}{run_id}"

    def find_background_run(self, session_key: str) -> str | None:
        """Return the run that a session was made for; None: it is no such session."""
        rest = f":{self.find_rest(session_key)}"
        if not self.background or not rest.startswith(self.background):
            return None
        return rest.removeprefix(self.background)

    def to_canonical(self, session_key: str) -> str:
        """Return a key as the host writes it; one that is not its own stays as it is."""
        own = self.lower_case and self.is_own(session_key)
        return session_key.lower() if own else session_key


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
class NamingHost(Protocol):
    """An `AgentHost` that also plays this names the sessions of its own agents.

    Of one that does not, no session is its own: no run is told to go on in one, the
    user of none is shown what happens there, and nothing goes on in the background.
    """

    def describe_sessions(self) -> SessionNames:
        """Return how they are named; it is asked once, at start."""
        ...
