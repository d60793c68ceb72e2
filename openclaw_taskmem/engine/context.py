"""What every use case holds: the store, the plug-ins, the clock, the policies.

`Shell.commit` is the one door to the store. What must be true of every change
is made true here: secrets are gone, and each task knows when to be looked at.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeVar

from pydantic import JsonValue

from openclaw_taskmem.domain import events, notices, outbox, reachability, redaction, rights, stuck
from openclaw_taskmem.domain.gateways import RunningWork
from openclaw_taskmem.domain.implicit_tasks import UncoveredCallEntry
from openclaw_taskmem.domain.look_policy import LookPolicy
from openclaw_taskmem.domain.notices import Notify
from openclaw_taskmem.domain.outbox import OutboxPolicy
from openclaw_taskmem.domain.retention import KeepPolicy
from openclaw_taskmem.domain.run_policy import RunPolicy
from openclaw_taskmem.domain.stuck import StuckPolicy
from openclaw_taskmem.engine.scoped_store import ScopedStore
from openclaw_taskmem.engine.watching import NoWatcher, WaitWatcher
from openclaw_taskmem.plugin_host.facade import PluginHost
from taskmem_hookspecs import (
    Change,
    Clock,
    Event,
    Run,
    RunQuery,
    RunState,
    Task,
    TaskFacts,
    Wake,
    WakeCause,
    WakeQuery,
    WakeState,
    is_trial,
)
from taskmem_hookspecs.errors import Conflict, TaskNotFound

T = TypeVar("T")
TRIES: Final = 8
"""Decisions taken before `Conflict` is given up to the caller.

Within a daemon, calls on one task take turns; only another daemon on the same
database can write first.
"""
MOST_KEPT: Final = 10_000
"""Wakes of one task that are looked at when it ends."""
TURNS: Final = 64
"""Locks that the tasks share; calls on different tasks rarely meet."""

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME: Final = 9
"""Characters of an id that say when it was made; `_CHANCE` of them are random."""
_CHANCE: Final = 7


@dataclass(frozen=True, slots=True)
class DueWork:
    """What a commit may have made due; None: nothing of the kind."""

    stuck_at: datetime | None
    wake_at: datetime | None
    lapse_at: datetime | None
    tell: bool
    say: bool
    """Whether there may be something that the user is to see."""
    waits: tuple[str, ...]
    """The waits that were opened, changed or ended."""
    roles: frozenset[str | None]
    """The roles whose runs were written; None among them: one was anybody's."""
    queued_for: frozenset[str | None]
    """Those of them for which a run is queued now."""


@dataclass(slots=True)
class StorageUse:
    """How much is kept, as it was last measured."""

    taken: int | None = None
    """Bytes that the database takes; None: they were not counted yet."""
    full: bool = False
    """Whether that is too much, and nothing is left that may be dropped."""
    shared: bool = False
    """Whether other homes have rows there, so that nothing goes for want of room."""


def new_id(kind: str, now: datetime) -> str:
    """Return a fresh id, such as `task_06dq3z8v1h2k9f`; a kind's sort by their millisecond."""
    millis = int(now.timestamp() * 1000)
    chance = secrets.randbits(5 * _CHANCE)
    return f"{kind}_{_encode_digits(millis, _TIME)}{_encode_digits(chance, _CHANCE)}"


def _encode_digits(number: int, width: int) -> str:
    digits = [_ALPHABET[(number >> (5 * i)) & 31] for i in range(width)]
    return "".join(reversed(digits))


def _ignore_due(_: DueWork) -> None:
    return None


def _return_unknown(_: str) -> bool | None:
    return None


def _reach_everybody(*_: object) -> bool:
    return True


def _read_nothing(*_: object) -> None:
    return None


def _run_if_due(seconds: float, work: Callable[[], None]) -> None:
    if seconds <= 0:
        work()


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Everything outside that a use case may touch."""

    store: ScopedStore
    plugin_host: PluginHost
    clock: Clock
    stuck: StuckPolicy = field(default_factory=StuckPolicy)
    outbox: OutboxPolicy = field(default_factory=OutboxPolicy)
    runs: RunPolicy = field(default_factory=RunPolicy)
    keep: KeepPolicy = field(default_factory=KeepPolicy)
    kept: StorageUse = field(default_factory=StorageUse)
    notify: Notify = Notify.MILESTONES
    """Of what users are told unasked."""
    roots: tuple[str, ...] = ()
    """The folders that what tasks make may lie in, besides their agent's own."""
    looks: LookPolicy = field(default_factory=LookPolicy)
    """What agents may look at."""
    lives: Callable[[str], bool | None] = _return_unknown
    """Whether a process lives, by its identity; None: nobody can tell."""
    new_id: Callable[[str, datetime], str] = new_id
    watching: WaitWatcher = field(default_factory=NoWatcher)
    ask_reader: Callable[[str, str, Mapping[str, JsonValue]], Mapping[str, JsonValue] | None] = (
        _read_nothing
    )
    """Has a reader answer an instruction about a text, as a schema wants it; None:
    there is none, or it did not answer. The text is data, never an instruction."""
    reaches: Callable[[str | None, str | None], bool] = _reach_everybody
    """Whether a wake can be carried to an agent, by its host and its session."""
    command: str = "taskmem"
    """What an agent types to call us, in a shell of this machine."""
    later: Callable[[float, Callable[[], None]], None] = _run_if_due
    """Does work off the path of a call, after so many seconds; without a daemon, only
    what is to be done now."""
    used_folders: set[tuple[str, str, bool]] = field(default_factory=set[tuple[str, str, bool]])
    """The folders that are known to be written down: task, path, whether a command may
    have changed anything in it."""
    named_files: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """By call, the files that its command names, and that were there before it."""
    still_running: dict[str, tuple[RunningWork, ...]] = field(
        default_factory=dict[str, tuple[RunningWork, ...]]
    )
    """By session, what its gateway runs for it, as that said last; a gateway that has
    hung up says nothing any more."""
    uncovered: dict[tuple[str | None, str], tuple[UncoveredCallEntry, ...]] = field(
        default_factory=dict[tuple[str | None, str], tuple[UncoveredCallEntry, ...]]
    )
    """By gateway and session, the first calls of a user's turn that is of no task."""
    shown: dict[str, int] = field(default_factory=dict[str, int])
    """By run, the last message of the user that an answer has shown to its holder. It
    is heard once the holder calls again: an answer may be lost on its way."""
    nudge: Callable[[DueWork], None] = _ignore_due
    """Called after each commit, from the thread that made it."""
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set when a pass that is long should leave the rest for another day."""
    turns: tuple[threading.Lock, ...] = field(
        default_factory=lambda: tuple(threading.Lock() for _ in range(TURNS))
    )

    def commit(self, change: Change) -> None:
        """Write a change: scrubbed, scheduled, all or nothing.

        Raises:
            Conflict: Someone else wrote one of the rows first.
        """
        if change.empty:
            return
        change = self._settle_ended_wakes(change)
        tasks = tuple(self.schedule(task) for task in change.tasks)
        log = _list_logged_events(change)
        ready = _scrub_change(change.model_copy(update={"tasks": tasks, "events": log}))
        self.store.commit(ready)
        self.nudge(_collect_due_work(ready))

    def _settle_ended_wakes(self, change: Change) -> Change:
        """Return a change that also drops what is kept for agents of tasks it ends."""
        moved = {e.task_id for e in change.events if e.kind == events.STATUS_CHANGED}
        ended = [t.task_id for t in change.tasks if t.status.terminal]
        settled = {wake.wake_id for wake in change.wakes}
        kept = [
            wake
            for task_id in ended
            if task_id in moved
            for wake in self.store.find_wakes(
                WakeQuery(states=(WakeState.DUE,), task_id=task_id, limit=MOST_KEPT)
            )
            if wake.wake_id not in settled
        ]
        over = reachability.settle_ended(kept)
        log = outbox.build_settled_events(over, self.clock.now())
        return change.model_copy(
            update={"wakes": (*change.wakes, *over), "events": (*change.events, *log)}
        )

    @contextmanager
    def take_turn(self, *subjects: str) -> Generator[None]:
        """Hold the turns of subjects: calls on one of them are made one by one.

        A crowd would starve its slowest otherwise.
        """
        places = {hash(each) % TURNS for each in subjects}
        with ExitStack() as turn:
            # In one order, or two that want the same two would wait for each other.
            for place in sorted(places):
                turn.enter_context(self.turns[place])
            yield

    def retry_on_conflict(
        self, subject: str, read_decide_commit: Callable[[], T], *others: str
    ) -> T:
        """Run a use case, and again from the start when someone else wrote first.

        Args:
            subject: The id of the task (or wait) that it is about, whose turn it takes.
            read_decide_commit: The use case, whole.
            others: What else it decides about, beyond the one subject; it takes its
                turn at all of them at once.

        Raises:
            Conflict: Someone else wrote first, every time.
        """
        with self.take_turn(subject, *others):
            for _ in range(TRIES - 1):
                try:
                    return read_decide_commit()
                except Conflict:
                    continue
            return read_decide_commit()

    def find_session_runs(
        self, session: str, host: str | None, home: str | None = None
    ) -> Sequence[Run]:
        """Return the open runs of a session, as the store does; not another gateway's.

        `host` is where the session lives; of two gateways each may have one of its key.
        `home`: whose runs; None: this one's.
        """
        found = self.store.find_runs(RunQuery(session_key=session, home=home))
        return [run for run in found if not self.is_elsewhere(run, host)]

    def is_elsewhere(self, run: Run, host: str | None) -> bool:
        """Whether the session of a run lives in another gateway than a host."""
        if run.owner is not None and run.owner.host is not None:
            return reachability.is_other_gateway(run.owner.host, host)
        facts = self.find_task(run.task_id) if reachability.is_named_gateway(host) else None
        return facts is not None and reachability.is_other_gateway(
            rights.find_host(facts.task, run), host
        )

    def find_task(self, task_id: str) -> TaskFacts | None:
        """Return a task; None: what is stored of it cannot be read.

        What is owed to others goes on without it; `taskmem doctor` names it.
        """
        with suppress(TaskNotFound):
            return self.store.read_task(task_id)
        return None

    def schedule(self, task: Task) -> Task:
        """Return the task with the instant at which to look at it."""
        due = stuck.compute_due_time(task, self.stuck)
        return task.model_copy(update={"stuck_due_at": due})


def _list_logged_events(change: Change) -> tuple[Event, ...]:
    """Return what is logged of a change: nothing of the doctor's waits and sessions."""
    trials = {each.wait_id for each in change.waits if is_trial(each.session_key)}
    wakes = (wake for wake in change.wakes if is_trial(wake.session_key))
    trials |= {wake.wait_id for wake in wakes if wake.wait_id is not None}
    return tuple(
        event
        for event in change.events
        if event.wait_id not in trials
        and not is_trial(str(event.data.get("session_key")))
        and not notices.is_silent(event)
    )


def _scrub_change(change: Change) -> Change:
    return change.model_copy(
        update={
            "messages": tuple(
                message.model_copy(update={"content": redaction.scrub(message.content)})
                for message in change.messages
            ),
            "wakes": tuple(_scrub_wake(wake) for wake in change.wakes),
            "waits": tuple(
                wait.model_copy(update={"last_observation": redaction.scrub(wait.last_observation)})
                if wait.last_observation
                else wait
                for wait in change.waits
            ),
            "artifacts": tuple(
                made.model_copy(update={"detail": redaction.scrub(made.detail)})
                for made in change.artifacts
            ),
            "ledger": tuple(
                entry.model_copy(
                    update={
                        "path": redaction.scrub(entry.path),
                        "why": redaction.scrub(entry.why) if entry.why else None,
                    }
                )
                for entry in change.ledger
            ),
            "folders": tuple(
                folder.model_copy(update={"path": redaction.scrub(folder.path)})
                for folder in change.folders
            ),
            "events": tuple(
                event.model_copy(update={"data": redaction.scrub_json(dict(event.data))})
                for event in change.events
            ),
        }
    )


def _scrub_wake(wake: Wake) -> Wake:
    # The text of a stuck wake is JSON, and was scrubbed before it became that.
    text = wake.text if wake.cause is WakeCause.STUCK else redaction.scrub(wake.text)
    error = redaction.scrub(wake.last_error) if wake.last_error else None
    note = redaction.scrub(wake.note) if wake.note else None
    return wake.model_copy(update={"text": text, "last_error": error, "note": note})


def _collect_due_work(change: Change) -> DueWork:
    return DueWork(
        stuck_at=min(
            (task.stuck_due_at for task in change.tasks if task.stuck_due_at), default=None
        ),
        wake_at=min((wake.due_at for wake in change.wakes if wake.due_at), default=None),
        lapse_at=min((run.lease_until for run in change.runs if run.lease_until), default=None),
        tell=any(event.kind in events.TOLD for event in change.events),
        say=any(event.kind in events.SAID | events.SHOWN for event in change.events),
        waits=tuple(wait.wait_id for wait in change.waits),
        roles=frozenset(run.role for run in change.runs),
        queued_for=frozenset(run.role for run in change.runs if run.state is RunState.QUEUED),
    )
