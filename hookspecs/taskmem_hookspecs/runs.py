"""Define runs, their owners, and their checkpoints.

A run is one attempt at a task by one owner. The owner claims it under a lease and gets a fencing
token, which grows with every claim, so an earlier owner can no longer write for the run. Source:
docs/origins.md, "Runs and their states".
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

from taskmem_hookspecs.value import Instant, Seconds, Value


class RunState(StrEnum):
    """State of a run."""

    QUEUED = "queued"
    """No owner; it can be claimed."""
    RUNNING = "running"
    """Its owner works on it, or will be told to continue."""
    BLOCKED = "blocked"
    """Waits for the user and gets no wakes; continues when the user says so, or when its own agent
    works on it again."""
    REVIEW = "review"
    """Handed to the user for review."""
    COMPLETED = "completed"
    """Ended: done, with proof if required."""
    FAILED = "failed"
    """Ended: failed; `why` gives the reason."""
    CANCELLED = "cancelled"
    """Ended: no longer wanted."""

    @property
    def terminal(self) -> bool:
        """True if the run has ended."""
        return self in (RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED)

    @property
    def is_waiting(self) -> bool:
        """True if the run waits for the user."""
        return self in (RunState.BLOCKED, RunState.REVIEW)


class News(StrEnum):
    """News in the tool calls of a round."""

    NONE = "none"
    """Nothing new."""
    RESULT = "result"
    """A repeated call had another result."""
    CALL = "call"
    """A new call was made, or a step was done."""


class Owner(Value):
    """The process or session that has claimed a run."""

    role: str
    """Role that it claims as; in OpenClaw, the agent's id."""
    session_key: str | None = None
    """None: a process without a session."""
    boot: str | None = None
    """Id of the gateway's start; None: not in a gateway."""
    process: str | None = None
    """`<pid>:<start time>`; None: unknown."""
    home: str | None = None
    """Home whose daemon it calls; None: the only one."""
    host: str | None = None
    """Gateway of the session, as in `Wake.host`; None: unknown."""

    def same(self, other: Owner | None) -> bool:
        """Return True if the other owner has the same process or the same role and session.

        A restart of the gateway does not change a session's identity. Owners in different homes or
        hosts are never the same, since session keys and process ids may repeat there.
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


class UserDialogue(Value):
    """Words between the agent of a run and its user."""

    question: str | None = None
    """Question to the user that it waits for; None: none."""
    heard_until: int = 0
    """Id of the newest message up to which its owner has been told the user's words; 0: none."""
    last_response: str | None = None
    """The end of its agent's last reply to the user; None: none yet."""


class StepBudget(Value):
    """The current step of a run, and the tool calls used in it."""

    segmented: bool = False
    """True if each step has a budget of tool calls.

    Source: docs/origins.md, "Steps with budgets".
    """
    step: int | None = None
    """Step that the budget applies to, from 0; None: none started."""
    step_calls: int = 0
    """Tool calls started in that step."""
    step_bonus: bool = False
    """True if that step's budget was extended."""
    failed_steps: tuple[int, ...] = ()
    """Steps of the current plan that were given up, from 0."""


class RunProgress(Value):
    """Tool calls and words of a run, and the news that they brought."""

    calls: int = 0
    """Tool calls that have ended."""
    checkpoints: int = 0
    """Number of checkpoints; the next one gets the following number."""
    news: News = News.NONE
    """News of the current round so far."""
    recent: tuple[str, ...] = ()
    """Digests of its last calls and their results, newest last."""
    said: str | None = None
    """Digest of its last turn's reply; None: none."""


class LimitCounts(Value):
    """Counts of a run that its limits are compared with."""

    rounds: int = 0
    """Number of times it was told to continue; part of the wake's key."""
    rounds_before: int = 0
    """Value of `rounds` when the user last spoke."""
    idle_rounds: int = 0
    """Consecutive turns without news."""
    turn_began_at: Instant | None = None
    """Start of the turn that works on it; None: no turn does."""
    worked_seconds: Seconds = 0.0
    """Time spent in turns since the user last spoke."""
    provider_failures: int = 0
    """Consecutive turns that failed because of the model's provider."""
    tries: int = 0
    """Consecutive resumes without a completed turn."""


class AgentFacts(Value):
    """Facts from the host on the agent that works on a run."""

    folder: str | None = None
    """Working directory of its agent; None: unknown."""
    fingerprint: str | None = None
    """Fingerprint of the inputs of the agent's prompt when last seen; None: unknown."""


class Run(Value):
    """One attempt at a task by one owner."""

    PARTS: ClassVar[Mapping[str, type[Value]]] = {
        "dialogue": UserDialogue,
        "budget": StepBudget,
        "progress": RunProgress,
        "limits": LimitCounts,
        "agent": AgentFacts,
    }
    """Classes of the fields that group others. No field of a part has the name of another
    field, so a store may keep each in a column of its own."""

    run_id: str
    task_id: str
    state: RunState
    why: str | None = None
    """Reason for the state, in a few words; None: none."""
    role: str | None = None
    """Role that may claim it; None: any."""
    session_key: str | None = None
    """Session in which it is to continue; None: the session that claims it."""
    owner: Owner | None = None
    """None: not claimed."""
    token: int = 0
    """Fencing token of the last claim; 0: never claimed."""
    lease_until: Instant | None = None
    """When the lease expires; None: the run is not running, or idle between turns."""
    home: str | None = None
    """Home whose daemon watches its lease and wakes its session; None: any."""
    told_session: str | None = None
    """Session that gets progress notices of a background run; None: it is in the foreground."""
    attached: tuple[str, ...] = ()
    """Ids of tasks that go to review together with it.

    Source: docs/origins.md, "Hand-offs and review".
    """
    dialogue: UserDialogue = UserDialogue()
    budget: StepBudget = StepBudget()
    progress: RunProgress = RunProgress()
    limits: LimitCounts = LimitCounts()
    agent: AgentFacts = AgentFacts()
    created_at: Instant
    changed_at: Instant
    """When it entered its state."""
    seen_at: Instant
    """When its owner was last seen."""
    started_at: Instant | None = None
    """When it was first claimed; None: never."""
    version: int = 0

    @property
    def ended_at(self) -> Instant | None:
        """When it ended; None while it is open."""
        return self.changed_at if self.state.terminal else None


class Checkpoint(Value):
    """The addition of one event to the record of a run: a delta, never the whole record.

    Source: docs/origins.md, "Checkpoints".
    """

    run_id: str
    number: int
    """From 1, in the order of writing."""
    at: Instant
    body: str
    """JSON, as the core encodes it."""
    checksum: str
    """Checksum of the run's id, the number and the body; a checkpoint that does not match is
    ignored."""
