"""Who works on a task: runs, their owners, and the checkpoints they leave.

A run is one attempt at a task by one owner. Whoever claims it holds it under a lease
and with a fencing token that only grows, so that one who lost it cannot write for it
any more. Source: seeds 002, 003 and 004.
"""

from __future__ import annotations

from enum import StrEnum

from taskmem_hookspecs.value import Instant, Seconds, Value


class RunState(StrEnum):
    """Where one attempt at a task stands. Source: seeds 002 and 004."""

    QUEUED = "queued"
    """Nobody holds it; it can be claimed."""
    RUNNING = "running"
    """Its owner works on it, or is about to be told to go on."""
    BLOCKED = "blocked"
    """It waits for the user, and nobody is told to go on with it; it goes on when the
    user says so, or its own agent is seen to work on it."""
    REVIEW = "review"
    """It was handed to the user, who has to look at it."""
    COMPLETED = "completed"
    """Ended: done, and proved where proof is asked for."""
    FAILED = "failed"
    """Ended: `why` says of what."""
    CANCELLED = "cancelled"
    """Ended: no longer wanted."""

    @property
    def terminal(self) -> bool:
        """Whether the run has ended."""
        return self in (RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED)

    @property
    def is_waiting(self) -> bool:
        """Whether the run waits for the user."""
        return self in (RunState.BLOCKED, RunState.REVIEW)


class News(StrEnum):
    """What the tool calls of a round have brought."""

    NONE = "none"
    """Nothing, or what was there before."""
    RESULT = "result"
    """A call that was made before had another result."""
    CALL = "call"
    """A call that was not made before, or a step that is done."""


class Owner(Value):
    """Who holds a run."""

    role: str
    """What it claims as: in OpenClaw the agent's id."""
    session_key: str | None = None
    """Its session; None: it has none, as a process that claims by itself."""
    boot: str | None = None
    """The start of the gateway that the session lives in; None: it is no gateway's."""
    process: str | None = None
    """Which process it is, as `<pid>:<start time>`; None: not known."""
    home: str | None = None
    """The home whose daemon it calls; None: there is but one."""
    host: str | None = None
    """Which gateway the session lives in, as in `Wake.host`; None: not known."""

    def same(self, other: Owner | None) -> bool:
        """Whether the other is this one: of the same process, or of the same session.

        A session is the same whichever start of its gateway it lives in now. Two
        gateways may each have one of the same key, and two machines a process of the
        same number, so nobody of another gateway or home is.
        """
        if other is None:
            return False
        places = (self.home, other.home), (self.host, other.host)
        if any(one != two and None not in (one, two) for one, two in places):
            return False
        if self.process is not None and self.process == other.process:
            return True
        here, there = (self.role, self.session_key), (other.role, other.session_key)
        return self.session_key is not None and here == there


class Run(Value):
    """One attempt at a task by one agent session."""

    run_id: str
    task_id: str
    state: RunState
    why: str | None = None
    """Why it is in that state, in a few words; None: there is nothing to say."""
    role: str | None = None
    """Who may claim it; None: anybody."""
    session_key: str | None = None
    """The session that it is to go on in; None: that of whoever claims it."""
    owner: Owner | None = None
    """Who holds it; None: nobody does."""
    token: int = 0
    """The fencing token of the last claim; 0: it was never claimed."""
    lease_until: Instant | None = None
    """When its owner counts as gone unless it is seen before; None: it rests, and is
    not expected to be seen."""
    home: str | None = None
    """The home whose daemon minds its lease and tells it to go on; None: any."""
    told_session: str | None = None
    """The session that hears of its progress, for one in the background; None: it is
    in the foreground."""
    attached: tuple[str, ...] = ()
    """Tasks that go to review together with it. Source: requirement D5."""
    segmented: bool = False
    """Whether its steps have budgets of tool calls. Source: requirement E4."""
    step: int | None = None
    """The step that the budget counts for, from 0; None: none was begun."""
    step_calls: int = 0
    """Tool calls begun in that step."""
    step_bonus: bool = False
    """Whether that step was given more."""
    failed_steps: tuple[int, ...] = ()
    """Steps of the current plan that were given up, from 0."""
    fingerprint: str | None = None
    """Of what shaped the agent's prompt when it was last seen; None: not known."""
    folder: str | None = None
    """The folder that its agent works in; None: not known."""
    checkpoints: int = 0
    """How many there are; numbers the next."""
    calls: int = 0
    """Tool calls that have ended."""
    question: str | None = None
    """What its agent asks the user, and waits for; None: nothing."""
    heard_until: int = 0
    """The newest message of its task up to which its holder was told what the user
    says; 0: none."""
    rounds: int = 0
    """How often it was told to go on; numbers the wake's key."""
    rounds_before: int = 0
    """How often that was before its user last spoke."""
    turn_began_at: Instant | None = None
    """When the turn began that works on it; None: none does."""
    worked_seconds: Seconds = 0.0
    """Spent in turns since its user last spoke."""
    idle_rounds: int = 0
    """Turns in a row that brought nothing new."""
    news: News = News.NONE
    """What the round that goes on has brought so far."""
    recent: tuple[str, ...] = ()
    """Digests of its last calls and their results, the newest last."""
    said: str | None = None
    """A digest of what its last turn said; None: nothing."""
    last_response: str | None = None
    """The end of what its agent said last to the user; None: nothing yet."""
    provider_failures: int = 0
    """Turns in a row that failed for the provider's sake."""
    tries: int = 0
    """Resumes in a row that no turn has come to an end after."""
    created_at: Instant
    changed_at: Instant
    """When it came into its state."""
    seen_at: Instant
    """When anything was last seen of its owner."""
    started_at: Instant | None = None
    """When it was first claimed; None: never."""
    ended_at: Instant | None = None
    """None while it is open."""
    version: int = 0


class Checkpoint(Value):
    """What one event added to what is known of a run: a delta, never the whole.

    Source: requirement E2.
    """

    run_id: str
    number: int
    """From 1, in the order in which they were written."""
    at: Instant
    body: str
    """JSON, as the core encodes it."""
    checksum: str
    """Of the run, the number and the body; one that does not fit is passed over."""
