"""Scenarios of a user, an agent and a gateway, played through the real engine.

A scenario is data: what the user does and when, what the agent does in each turn, and
how it ends. The clock is turned, so that a night takes a moment. What is a wrong
reminder is decided by what goes on in the scenario, not by what the engine says of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from openclaw_taskmem.domain.callers import GatewayPresence
from openclaw_taskmem.domain.changes.continuation import Origin, has_closing_question
from openclaw_taskmem.engine import gateway_reports, run_recovery, stuck
from openclaw_taskmem.engine.turns import resume_awaiting_run
from taskmem_hookspecs import EventQuery, RunState, TaskmemError, TaskStatus
from tests.support.rows import find_next_stuck_due, find_next_wake_due
from tests.support.sessions import MAIN, Session
from tests.support.world import World

HOUR: Final = timedelta(hours=1)
MINUTE: Final = timedelta(minutes=1)
HEARTBEAT: Final = timedelta(minutes=30)
FIRST_PAUSE: Final = MINUTE
RETRIED: Final = 80
"""Seconds for which OpenClaw asks a provider that fails, before it gives a turn up."""


# --- what may happen ------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """The agent calls a tool of its gateway."""

    about: str
    outcome: str = "done"


@dataclass(frozen=True)
class Update:
    """The agent calls `task_update`."""

    given: Mapping[str, Any]


def update(**given: Any) -> Update:
    """The agent reports on its task."""
    return Update(given)


@dataclass(frozen=True)
class Starts:
    """The agent starts a command in the background; None: it never ends."""

    name: str
    minutes: float | None


@dataclass(frozen=True)
class Schedules:
    """The agent makes an automation: at work after so many minutes.

    `every`: at work again so often, and over only after `minutes`.
    """

    name: str
    minutes: float
    every: float | None = None


@dataclass(frozen=True)
class Spawns:
    """The agent has a sub-agent work for so many minutes."""

    minutes: float


@dataclass(frozen=True)
class Takes:
    """A call of the turn takes so many minutes."""

    minutes: float


Act = Call | Update | Starts | Schedules | Spawns | Takes


@dataclass
class Rule:
    """What the agent does in a turn whose text holds some words, so often."""

    when: str
    acts: tuple[Act, ...]
    says: str
    times: int = 1


@dataclass(frozen=True)
class User:
    """The user says something; `/resume` takes the task up again."""

    says: str


@dataclass(frozen=True)
class Stop:
    """The user says something, and stops the turn."""

    says: str


@dataclass(frozen=True)
class Restart:
    """The gateway is started anew."""


@dataclass(frozen=True)
class Outage:
    """The provider is away for so many minutes."""

    minutes: float


Happening = User | Stop | Restart | Outage


@dataclass
class Scenario:
    """One scenario, and how it is to end."""

    name: str
    happens: Sequence[tuple[float, Happening]]
    """By the minute."""
    agent: Sequence[Rule]
    plan: Sequence[str] = ("Build it", "Ship it")
    hours: float = 12
    reminders: int | None = None
    """How often its agent is told to go on; None: that does not matter."""
    status: TaskStatus = TaskStatus.COMPLETED
    why: str | None = None
    """Why it has failed; None: it has not."""
    failures: int = 0
    """How often the user reads that it has failed."""


@dataclass
class ScenarioResult:
    """What went wrong in a scenario, a sentence each, and what else is counted."""

    reminders: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    consents: list[str] = field(default_factory=list)
    otherwise: list[str] = field(default_factory=list)
    """How it ended differently from what was written."""
    told: int = 0
    """Turns that we began: a loop's rounds."""

    @property
    def wrong(self) -> list[str]:
        """All that went wrong."""
        return [*self.reminders, *self.failures, *self.consents, *self.otherwise]


# --- how it is played -----------------------------------------------------------


@dataclass
class _Job:
    ends: datetime | None
    since: datetime
    kind: str
    every: timedelta | None = None

    def is_awaited(self, now: datetime) -> bool:
        """Whether the plug-in reports it as awaited, as `gateway/background_work.js` does."""
        if self.kind != "automation":
            return True
        if self.every is None:
            return self.ends is not None and self.ends - now < HOUR
        return self.is_young(now)

    def is_young(self, now: datetime) -> bool:
        """Whether nobody is to be reminded of it yet."""
        return now - self.since < HOUR


class Player:
    """Plays one scenario."""

    def __init__(self, scenario: Scenario, world: World | None = None) -> None:
        """Begin it, with nothing said yet."""
        self.scenario = scenario
        self.seen = ScenarioResult()
        self.session = Session(world or World())
        self._clock = self.session.world.clock
        self._begun = self.now
        self._script = [*scenario.happens]
        self._rules = [*scenario.agent]
        self._used: dict[int, int] = {}
        self._jobs: dict[str, _Job] = {}
        self._away_until = self.now
        self._presence = self.session.restarts("boot_1")
        self._boots = 1
        self._heartbeat = self.now + HEARTBEAT
        self._task: str | None = None
        self._said = ""
        self._rested_at = self.now
        self._progressed = True
        self._ended_now = False
        self._acted: set[datetime] = set()

    @property
    def now(self) -> datetime:
        """The instant of the scenario."""
        return self._clock.now()

    def play(self) -> ScenarioResult:
        """Play it to its end, and return what went wrong."""
        end = self._begun + timedelta(hours=self.scenario.hours)
        while self.now < end:
            self._until(min(end, *self._instants(end)))
            self._happens()
            self._ends()
            self._daemon()
            if self.now >= self._heartbeat:
                self._heartbeat = self.now + HEARTBEAT
                self._turn("", Origin.HEARTBEAT)
        self._judge()
        return self.seen

    def _instants(self, end: datetime) -> Iterator[datetime]:
        store = self.session.world.store
        yield from (self._at(minute) for minute, _ in self._script[:1])
        yield from (job.ends for job in self._jobs.values() if job.ends)
        yield self._heartbeat
        for due in (find_next_wake_due(store), find_next_stuck_due(store)):
            yield max(due, self.now + timedelta(seconds=1)) if due else end
        yield self.now + MINUTE

    def _until(self, instant: datetime) -> None:
        self._clock.tick(max((instant - self.now).total_seconds(), 0.001))

    def _at(self, minute: float) -> datetime:
        return self._begun + timedelta(minutes=minute)

    def _there(self, *, running: bool = False) -> GatewayPresence:
        return self._presence.with_running((MAIN,) if running else (), self.now)

    # --- what happens ---------------------------------------------------------

    def _happens(self) -> None:
        while self._script and self._at(self._script[0][0]) <= self.now:
            _, event = self._script.pop(0)
            match event:
                case User("/resume"):
                    self._acted.add(self.now)
                    self.session.call("task_resume", task_id=self._task)
                    self._turn("/resume", Origin.USER)
                case User(says):
                    self._turn(says, Origin.USER)
                case Stop(says):
                    self._turn(says, Origin.USER, aborted=True)
                case Restart():
                    self._boots += 1
                    for name, job in [*self._jobs.items()]:
                        if job.kind != "automation":
                            del self._jobs[name]
                            self._ended_now = True
                    self._presence = self.session.restarts(f"boot_{self._boots}")
                    self._clock.tick(13)
                case Outage(minutes):
                    self._away_until = self.now + timedelta(minutes=minutes)

    def _ends(self) -> None:
        for name, job in [*self._jobs.items()]:
            if job.ends is None or job.ends > self.now:
                continue
            del self._jobs[name]
            self._ended_now = True
            if job.kind == "sub-agent":
                self._turn(f"{name} has ended", Origin.OTHER)
            else:
                heard, context = self.session.reported_session, self.session.world.context
                resume_awaiting_run(context, heard, _name_job(job.kind, name), "ok")

    def _daemon(self, *, running: bool = False) -> None:
        world = self.session.world
        run_recovery.sweep_lapsed_runs(world.context, (self._there(running=running),))
        stuck.sweep_due_tasks(world.context)
        if running:
            return
        for wake in world.deliver():
            self.seen.told += 1
            self._check(wake.text)
            self._turn(wake.text, Origin.TASKMEM, wake.delivery_id)

    # --- a turn -----------------------------------------------------------------

    def _turn(
        self, text: str, origin: Origin, delivery: str | None = None, *, aborted: bool = False
    ) -> None:
        self._ended_now = False
        session, context = self.session, self.session.world.context
        if origin is Origin.USER:
            self._said = ""
            text = "\n".join(
                filter(None, (gateway_reports.describe_waiting_tasks(context, MAIN), text))
            )
        session.turn_since = self.now
        assert session.begins(origin)
        away = self.now < self._away_until and origin is not Origin.HEARTBEAT
        if away:
            self._clock.tick(RETRIED)
        self._report_turn_end(delivery, "529 overloaded" if away else None)
        if away:
            session.ends("", origin=origin, calls=0, error="529 overloaded")
            return
        rule = None if origin is Origin.HEARTBEAT else self._rule(text)
        acts = rule.acts if rule else ()
        calls = session.run(self._task).progress.calls if self._task else 0
        for act in acts:
            self._act(act)
        self._clock.tick(20)
        said = "" if origin is Origin.HEARTBEAT else "Waiting."
        said = rule.says if rule else said
        self._said = said if origin is not Origin.HEARTBEAT else self._said
        updates = [act.given for act in acts if isinstance(act, Update)]
        marked = any("completed_steps" in given for given in updates)
        after = session.run(self._task).progress.calls if self._task else 0
        session.ends(said, origin=origin, calls=len(acts), aborted=aborted, **self._runs())
        if origin is not Origin.HEARTBEAT:
            self._progressed = marked or after > calls
            self._rested_at = self.now

    def _report_turn_end(self, delivery: str | None, error: str | None) -> None:
        if delivery is not None:
            gateway_reports.settle_turn_wakes(self.session.world.context, MAIN, [delivery], error)

    def _runs(self) -> dict[str, Any]:
        named = {n: j for n, j in self._jobs.items() if j.is_awaited(self.now)}
        of = {
            kind: [_name_job(kind, n) for n, j in named.items() if j.kind == kind]
            for kind in _KINDS
        }
        return {
            "commands": tuple(f"{name} (make)" for name in of["command"]),
            "scheduled": tuple(of["automation"]),
            "children": len(of["sub-agent"]),
            "awaited_age": min((self._age(each) for each in named.values()), default=0),
        }

    def _age(self, job: _Job) -> float:
        return (self.now - job.since).total_seconds()

    def _rule(self, text: str) -> Rule | None:
        for place, rule in enumerate(self._rules):
            if rule.when in text and self._used.get(place, 0) < rule.times:
                self._used[place] = self._used.get(place, 0) + 1
                return rule
        return None

    def _act(self, act: Act) -> None:
        now, session = self.now, self.session
        match act:
            case Call(about, outcome):
                session.does(about.format(n=session._number), outcome)
            case Update(given):
                self._update(given)
            case Starts(name, minutes):
                ends = None if minutes is None else now + timedelta(minutes=minutes)
                session.does(name)
                self._jobs[name] = _Job(ends, now, "command")
            case Schedules(name, minutes, every):
                session.does(f"automation {name} {now}", tool="automations")
                again = None if every is None else timedelta(minutes=every)
                ends = now + timedelta(minutes=minutes)
                self._jobs[name] = _Job(ends, now, "automation", again)
            case Spawns(minutes):
                session.does(f"spawn {now}", tool="sessions_spawn")
                ends = now + timedelta(minutes=minutes)
                self._jobs["sub-agent"] = _Job(ends, now, "sub-agent")
            case Takes(minutes):
                for _ in range(round(minutes)):
                    self._clock.tick(60)
                    self._daemon(running=True)

    def _update(self, given: Mapping[str, Any]) -> None:
        if "name" in given:
            plan = [*self.scenario.plan]
            self._task = self.session.register(name=given["name"], plan=plan)
            return
        if given.keys() & {"status", "completed_steps"}:
            self._acted.add(self.now)
        try:
            self.session.call("task_update", task_id=self._task, **given)
        except TaskmemError as error:
            self.seen.otherwise.append(f"{self.scenario.name}: refused: {error}")

    # --- what is right ------------------------------------------------------------

    def _state(self) -> RunState | None:
        return self.session.run(self._task).state if self._task else None

    def _check(self, text: str) -> None:
        """Note why a message that has begun a turn should not have."""
        minute = round((self.now - self._begun) / MINUTE)
        said = f"{self.scenario.name}, minute {minute}: {text[:120]}"
        state = self._state()
        if state is not None and state.is_waiting:
            self.seen.consents.append(f"it waits for the user: {said}")
        if state is not None and state.terminal:
            self.seen.reminders.append(f"it has ended: {said}")
        jobs = [job for job in self._jobs.values() if job.is_awaited(self.now)]
        at_work = any(job.is_young(self.now) for job in jobs)
        if at_work and not self._ended_now:
            self.seen.reminders.append(f"the gateway is at work for it: {said}")
        if has_closing_question(self._said) and "Go on now" in text:
            self.seen.reminders.append(f"a question is not answered: {said}")
        soon = self.now - self._rested_at < FIRST_PAUSE
        if soon and not self._progressed and not self._ended_now:
            self.seen.reminders.append(f"it has hardly rested: {said}")

    def _judge(self) -> None:
        """Note how the scenario ended, and how it came there."""
        wanted, name = self.scenario, self.scenario.name
        assert self._task is not None
        task = self.session.world.task(self._task)
        failed = [line for line in self.session.lines if ": failed." in line]
        whys: list[str] = []
        for event in self.session.world.store.find_events(EventQuery()):
            if event.kind != "run_changed":
                continue
            begins = event.data["to"] in ("running", "queued")
            lifted = event.data["from"] == "blocked" and begins
            if lifted and event.at not in self._acted:
                self.seen.consents.append(f"{name}: it went on by itself")
            if event.data["to"] == "failed":
                whys.append(str(event.data["why"]))
        if [why for why in whys if why != wanted.why]:
            self.seen.failures.append(f"{name}: failed as {whys}")
        if len(failed) != wanted.failures:
            self.seen.otherwise.append(f"{name}: told of failures: {failed}")
        if task.status is not wanted.status:
            self.seen.otherwise.append(f"{name}: it is {task.status}")
        if wanted.reminders not in (None, self.seen.told):
            self.seen.otherwise.append(f"{name}: told {self.seen.told} times")


_KINDS: Final = ("command", "automation", "sub-agent")


def _name_job(kind: str, name: str) -> str:
    """What the plug-in calls a job."""
    return f"automation {name}" if kind == "automation" else name


# --- the scenarios -----------------------------------------------------------------

_DONE: Final = update(status="completed", completed_steps=[1, 2])
_GO: Final = update(status="active")
ENDED: Final = "has ended"
MEANT: Final = "without progress or with a question"


def _begins(*acts: Act, says: str = "I have begun.") -> Rule:
    return Rule("Please", (update(name="Build"), *acts), says)


def scenarios() -> list[Scenario]:
    """Return the scenarios, each to be played once."""
    return [
        Scenario(
            "a build that runs an hour",
            [(0, User("Please build.")), (20, User("How far?")), (40, User("And?"))],
            [
                _begins(Starts("make", 58), says="It is running."),
                Rule("How far?", (Call("process poll", "12 %"),), "It is at 12 %."),
                Rule("And?", (Call("process poll", "64 %"),), "At 64 %."),
                Rule(ENDED, (_DONE,), "Built and shipped."),
            ],
            reminders=1,
        ),
        Scenario(
            "a build that runs all evening",
            [(0, User("Please build.")), (100, User("How far?"))],
            [
                _begins(Starts("make", 7 * 60), says="It is running."),
                Rule("How far?", (Call("process poll", "12 %"),), "It is at 12 %."),
                Rule("make", (), "I wait for it.", times=3),
                Rule(ENDED, (_DONE,), "Built and shipped."),
            ],
            reminders=4,
        ),
        Scenario(
            "a build in the foreground",
            [(0, User("Please build."))],
            [
                _begins(Call("look"), Takes(50), says="Built."),
                Rule("is next", (_DONE,), "Shipped."),
            ],
            reminders=1,
        ),
        Scenario(
            "a mail that is looked for by and by",
            [(0, User("Please answer Tom."))],
            [
                _begins(Schedules("Mail", 30), says="I look again in half an hour."),
                Rule(ENDED, (Schedules("Mail", 45),), "Not yet.", times=3),
                Rule(ENDED, (_DONE,), "Tom has written, and is answered."),
            ],
            reminders=4,
        ),
        Scenario(
            "a mail that an automation looks for every ten minutes",
            [(0, User("Please answer Tom.")), (25, User("What is the weather?"))],
            [
                _begins(Schedules("Mail", 55, every=10), says="I wait for Tom."),
                Rule("weather", (Call("curl wttr.in"),), "It rains."),
                Rule(ENDED, (_DONE,), "Tom is answered."),
            ],
            reminders=1,
        ),
        Scenario(
            "a question over night, and other words first",
            [
                (0, User("Please tidy up.")),
                (30, User("What is the weather?")),
                (60, User("No, do not delete them yet.")),
                (600, User("Now you may.")),
            ],
            [
                _begins(update(ask="Shall I delete the drafts for good?"), says="…"),
                Rule("weather", (Call("curl wttr.in"),), "It rains."),
                Rule("No, do", (update(message="They say no."),), "I leave them."),
                Rule("Now you may", (_GO, Call("rm drafts"), _DONE), "Deleted."),
            ],
            reminders=0,
        ),
        Scenario(
            "a question in words, and a no",
            [(0, User("Please tidy up.")), (40, User("No, do not delete them."))],
            [
                _begins(Call("ls drafts"), says="Shall I delete the drafts?"),
                Rule(MEANT, (update(ask="Shall I delete the drafts?"),), "I wait."),
                Rule("No, do", (update(status="cancelled"),), "I leave them."),
            ],
            reminders=1,
            status=TaskStatus.CANCELLED,
        ),
        Scenario(
            "a question in words while a build ends",
            [(0, User("Please build."))],
            [
                _begins(Starts("make", 10), says="Shall I delete the old one?"),
                Rule(ENDED, (update(ask="Shall I delete the old one?"),), "I wait."),
            ],
            reminders=1,
            status=TaskStatus.ACTIVE,
        ),
        Scenario(
            "shall I continue, three times",
            [(0, User("Please build."))],
            [
                _begins(Call("make one"), says="Shall I continue?"),
                Rule(MEANT, (Call("make {n}"),), "Shall I continue?", times=2),
                Rule(MEANT, (_DONE,), "Done."),
            ],
            reminders=3,
        ),
        Scenario(
            "an agent that thinks before it works",
            [(0, User("Please build."))],
            [_begins(says="Let me think."), Rule(MEANT, (_DONE,), "Done.")],
            reminders=1,
        ),
        Scenario(
            "stop for today",
            [
                (0, User("Please build.")),
                (5, User("Stop for today.")),
                (540, User("Good morning, go on.")),
            ],
            [
                _begins(Starts("make", 30), says="Building."),
                Rule("Stop for today", (), "OK."),
                Rule("Good morning", (_GO, _DONE), "Done."),
                Rule('status "paused"', (update(status="paused"),), "It rests."),
            ],
            reminders=1,
        ),
        Scenario(
            "a restart that ends a build",
            [(0, User("Please build.")), (15, Restart())],
            [
                _begins(Starts("make", 40), says="Building."),
                Rule("gateway restarted", (Starts("make again", 40),), "Once more."),
                Rule(ENDED, (_DONE,), "Done."),
            ],
            reminders=2,
        ),
        Scenario(
            "a restart that no automation minds",
            [(0, User("Please answer Tom.")), (15, Restart())],
            [
                _begins(Schedules("Mail", 50), says="I look later."),
                Rule(ENDED, (_DONE,), "Tom is answered."),
            ],
            reminders=1,
        ),
        Scenario(
            "a provider that is away for a quarter of an hour",
            [(0, User("Please build.")), (0.1, Outage(15))],
            [_begins(Call("make one"), says="More to come."), Rule("is next", (_DONE,), "Done.")],
        ),
        Scenario(
            "a provider that is away for three hours",
            [(0, User("Please build.")), (0.1, Outage(180)), (400, User("/resume"))],
            [_begins(Call("make one"), says="More to come."), Rule("/resume", (_DONE,), "Done.")],
            why="provider_error",
            failures=1,
        ),
        Scenario(
            "a server that never ends",
            [(0, User("Please serve."))],
            [
                _begins(Starts("serve", None), says="It serves."),
                Rule("serve", (Call("curl localhost"), _DONE), "It works."),
            ],
            reminders=1,
        ),
        Scenario(
            "a sub-agent that works for 50 minutes",
            [(0, User("Please build."))],
            [_begins(Spawns(50), says="I have somebody build it."), Rule(ENDED, (_DONE,), "Done.")],
            reminders=0,
        ),
        Scenario(
            "a turn that is stopped, and gone on with in other words",
            [
                (0, Stop("Please build.")),
                (30, User("What is the weather?")),
                (200, User("OK, go on with it.")),
            ],
            [
                _begins(Call("make one"), says=""),
                Rule("weather", (Call("curl wttr.in"),), "It rains."),
                Rule("OK, go on", (_GO, Call("make two"), _DONE), "Done."),
            ],
            reminders=0,
        ),
    ]


def loops() -> list[Scenario]:
    """Return scenarios with agents that never come to an end by themselves."""
    circle = tuple(Call(f"look {n}", "as before") for n in range(190))
    turns = [circle[n : n + 10] for n in range(0, 190, 10)]
    round_ = [Rule("Your task", turns[n % 19], "Still at it.") for n in range(60)]
    ever = Rule("Your task", (Call("try {n}", "{n}"),), "On to the next.", times=999)
    long = Rule("Your task", (Call("try {n}"), Takes(55)), "On.", times=999)
    asked = [(0.0, User("Please build."))]
    failed: dict[str, Any] = {"status": TaskStatus.FAILED, "failures": 1, "hours": 72}
    return [
        Scenario("idle chatter", asked, [_begins()], why="stalled_loop", **failed),
        Scenario(
            "a circle of 190 calls", asked, [_begins(), *round_], why="stalled_loop", **failed
        ),
        Scenario("ever new calls", asked, [_begins(), ever], why="round_limit", **failed),
        Scenario("long turns", asked, [_begins(), long], why="hour_limit", **failed),
    ]
