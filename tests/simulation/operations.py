"""What may happen next: calls of agents, time, faults. Each takes its chances from a seed."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from operator import itemgetter
from random import Random
from typing import TYPE_CHECKING, Any, Final

from openclaw_taskmem.daemon.dispatcher import RelayHost
from taskmem_hookspecs import Question
from tests.simulation.event_loop import TICKS
from tests.simulation.machine import FAULTS
from tests.simulation.outside import READY, SECRET, SESSIONS, TARGETS

if TYPE_CHECKING:
    from tests.simulation.history import Play
    from tests.simulation.outside import Gateway

STEPS: Final = ("Build the image", "Push it", "Run it", "Verify the site", "Announce it")
STATUSES: Final = ("active", "paused", "completed", "failed", "cancelled", "canceled", "done")
MOST_TASKS: Final = 12
"""Tasks in one history: what time costs grows with them."""


def call(play: Play, choose: Random, tool: str, **given: Any) -> str:
    """Call a tool: as whoever the task or wait belongs to, as another agent, or as a person."""
    dispatcher, who = play.daemon.dispatcher, choose.random()
    session, process = None, None
    if who < 0.7:
        session, process = find_owner(play, given.get("task_id") or given.get("wait_id"))
    if session is None and process is None and who < 0.95:
        if choose.random() < 0.3:
            process = choose.choice(play.workers)
        else:
            session = choose.choice(SESSIONS)
    params = {"tool": tool, "arguments": given, "session_key": session}
    if process is not None:
        host = RelayHost(process=process, folder="/simulated", client="claude-code")
        play.begin(partial(dispatcher.call_tool, tool, given, host), tool, given)
    elif session is not None:
        gateway = find_gateway(play, choose, given.get("task_id") or given.get("wait_id"))
        if not gateway.connected:
            gateway_connects(play, choose, gateway)
        asked = partial(dispatcher.answer_gateway, gateway.connection, "call", params)
        play.begin(asked, tool, given, gateway)
    else:
        play.begin(partial(dispatcher.answer, "call", params), tool, given)
    return f"{tool} by {process or session or 'a person'}: {given}"


def find_owner(play: Play, subject: str | None) -> tuple[str | None, str | None]:
    """Return the session or process that a task or wait belongs to; (None, None): nobody's."""
    mirror = play.machine.mirror
    row: Any = mirror.tasks.get(subject or "") or mirror.waits.get(subject or "")
    if row is None or row.session_key is not None:
        return (row and row.session_key), None
    owners = [run.owner for run in mirror.list_runs(row.task_id or "") if run.owner is not None]
    return None, owners[-1].process if owners else None


def find_gateway(play: Play, choose: Random, subject: str | None) -> Gateway:
    """Return the gateway that a task or wait belongs to, mostly; else any."""
    mirror = play.machine.mirror
    row: Any = mirror.tasks.get(subject or "") or mirror.waits.get(subject or "")
    own = [each for each in play.gateways if row is not None and each.host == row.host]
    return own[0] if own and choose.random() < 0.9 else choose.choice(play.gateways)


def pick_task(play: Play, choose: Random) -> str:
    """Choose a task, nearly always one that there is, and mostly a late one."""
    known = list(play.machine.mirror.tasks)
    if not known or choose.random() < 0.02:
        return "task_99999"
    return known[-1 - min(int(choose.expovariate(0.3)), len(known) - 1)]


def pick_wait(play: Play, choose: Random) -> str:
    """Choose a wait in the same way."""
    known = list(play.machine.mirror.waits)
    if not known or choose.random() < 0.02:
        return "wait_99999"
    return known[-1 - min(int(choose.expovariate(0.3)), len(known) - 1)]


def register(play: Play, choose: Random) -> str:
    """An agent registers a task, sometimes with arguments that are refused."""
    if len(play.machine.mirror.tasks) > MOST_TASKS:
        task_id = pick_task(play, choose)
        return call(play, choose, "task_update", task_id=task_id, status=choose.choice(STATUSES))
    plan = list(STEPS[: min(5, choose.randrange(8))])
    name = choose.choice((*("Deploy", "Report", "Backup") * 3, ""))
    given: dict[str, Any] = {"name": name, "plan": plan}
    if choose.random() < 0.2:
        given["metadata"] = {"artifacts": ["/simulated/out.md"]}
    if choose.random() < 0.2:
        given["role"] = "dev"
    if choose.random() < 0.3:
        given["blocked_by"] = [pick_task(play, choose) for _ in range(choose.randrange(1, 4))]
    return call(play, choose, "task_register", **given)


def update(play: Play, choose: Random) -> str:
    """An agent says what happened."""
    given: dict[str, Any] = {"task_id": pick_task(play, choose)}
    if choose.random() < 0.8:
        key = f" The key is {SECRET}" if choose.random() < 0.1 else ""
        given["message"] = f"note {play.number()}.{key}"
    if choose.random() < 0.4:
        given["completed_steps"] = [choose.randrange(6)]
    if choose.random() < 0.2 or len(given) == 1:
        given["status"] = choose.choice(STATUSES)
    if choose.random() < 0.1:
        given["query"] = "where am I?"
    if choose.random() < 0.1:
        given |= {"ask": "Go on?", "ask_options": ["yes", "no"]}
    if choose.random() < 0.1:
        given["token"] = choose.randrange(4)
    return call(play, choose, "task_update", **given)


def revise(play: Play, choose: Random) -> str:
    """An agent replaces the plan."""
    plan = choose.sample((*STEPS, f"Log in with {SECRET}"), choose.randrange(6))
    given = {"task_id": pick_task(play, choose), "new_plan": plan, "reason": "Better."}
    if choose.random() < 0.5:
        given["blocked_by"] = [pick_task(play, choose) for _ in range(choose.randrange(3))]
    return call(play, choose, "task_plan_update", **given)


def wait(play: Play, choose: Random) -> str:
    """An agent begins to wait."""
    named = (*(f"pty:{name}" for name in TARGETS * 3), "pty:nowhere", "nothing")
    other = pick_task(play, choose)
    target = choose.choice((*named, "queue:dev", "queue:agent", f"task:{other}"))
    timeout = choose.choice((5, 60, 300, 1800))
    given: dict[str, Any] = {
        "target": target,
        "wake_when": f'"{READY}" appears',
        "timeout": timeout,
        "poll_interval": max(2.0, timeout / 10),
    }
    if target.startswith("queue:"):
        del given["wake_when"]
    if target.startswith("task:"):
        given["wake_when"] = choose.choice(("ends", "step 1 is done", "changes", "is blocked"))
    if choose.random() < 0.8:
        given["task_id"] = pick_task(play, choose)
    return call(play, choose, "smart_wait", **given)


def refine_wait(play: Play, choose: Random) -> str:
    """An agent arms a wait again."""
    if not play.machine.mirror.waits:
        return wait(play, choose)
    wait_id, timeout = pick_wait(play, choose), choose.choice((5, 60, 600))
    return call(play, choose, "wait_update", wait_id=wait_id, timeout=timeout)


def cancel_wait(play: Play, choose: Random) -> str:
    """An agent gives a wait up."""
    if not play.machine.mirror.waits:
        return wait(play, choose)
    return call(play, choose, "wait_cancel", wait_id=pick_wait(play, choose))


def hand_around(play: Play, choose: Random) -> str:
    """An agent or a person moves the work to somebody else, or ends it."""
    tool = choose.choice(
        (
            *("task_claim", "task_handoff", "task_reset", "task_resume") * 2,
            *("task_cancel", "task_abort", "task_background"),
        )
    )
    given: dict[str, Any] = {"task_id": pick_task(play, choose)}
    if tool == "task_abort":
        given["reason"] = "It cannot be done."
    if tool == "task_resume":
        given |= choose.choice(({}, {"answer": f"answer {play.number()}"}, {"reopen": True}))
    if tool == "task_handoff":
        given["to"] = choose.choice(("user", "dev", "main"))
    if tool == "task_claim" and choose.random() < 0.5:
        given = {"role": choose.choice(("agent", "dev"))}
    return call(play, choose, tool, **given)


def step_ends(play: Play, choose: Random) -> str:
    """An agent says that a step is done, failed, or needs more."""
    outcome = choose.choice(("done", "done", "failed", "more_tools"))
    given: dict[str, Any] = {"task_id": pick_task(play, choose), "outcome": outcome}
    if choose.random() < 0.5:
        given["step"] = 1 + choose.randrange(5)
    return call(play, choose, "task_step_done", **given)


def worker_ends(play: Play, choose: Random) -> str:
    """A worker's process ends, and another takes its place."""
    at = choose.randrange(len(play.workers))
    ended = play.workers[at]
    play.outside.ended_processes.add(ended)
    play.workers[at] = f"{at + 1}:{play.number()}"
    if choose.random() < 0.8:  # else its relay was killed, and nobody saw its connection close
        with play.loop.enter_loop():
            play.daemon.relay_exits.watch_process(ended)
    return f"{ended} ends"


def machine_reboots(play: Play, choose: Random) -> str:
    """Everything ends: workers, gateways, what is watched, and the daemon."""
    play.outside.ended_processes.update(play.workers)
    play.workers = [f"{at + 1}:{play.number()}" for at in range(len(play.workers))]
    for target in play.outside.targets.values():
        target.gone = True
    for gateway in play.gateways:
        gateway.start_anew(play.machine.clock.monotonic())
    play.loop.die()
    return "the machine reboots"


def ask_reader(play: Play, choose: Random) -> str:
    """A judge asks a reader, sometimes to confirm a yes."""
    confirms = choose.random() < 0.2
    question = Question(instruction="?", parts=("A",), answer_schema={}, confirms=confirms)
    play.begin(partial(play.daemon.readers.read, question), "read", {})
    return f"a reader is asked{' to confirm' if confirms else ''}"


def reader_changes(play: Play, choose: Random) -> str:
    """The reader's mood changes."""
    moods = ("answers", "answers", "slow", "hangs", "fails", "says nothing", "refuses")
    play.machine.reader.mood = choose.choice(moods)
    return f"the reader {play.machine.reader.mood}"


def evidence_changes(play: Play, choose: Random) -> str:
    """Files come and go."""
    play.outside.shelf.holds = choose.random() < 0.5
    return f"the files are there: {play.outside.shelf.holds}"


def report(play: Play, choose: Random, gateway: Gateway, *events: dict[str, Any]) -> str:
    """A gateway's plug-in reports events; a report may be lost, or come twice."""
    chance = choose.random()
    numbered = gateway.number_events(*events)
    params = {"events": numbered}
    for _ in range(0 if chance < 0.05 else 2 if chance < 0.15 else 1):
        dispatcher, connection = play.daemon.dispatcher, gateway.connection
        asked = partial(dispatcher.answer_gateway, connection, "report", params)
        play.begin(asked, "report", {}, gateway)
    return f"reported {'not' if chance < 0.05 else ''}: {numbered}"


def gateway_connects(play: Play, choose: Random, gateway: Gateway | None = None) -> str:
    """A gateway starts anew, or connects again after a crash of the daemon."""
    gateway, clock = gateway or choose.choice(play.gateways), play.machine.clock
    if gateway.connected or choose.random() < 0.3:
        play.hang_up(gateway)
        gateway.start_anew(clock.monotonic())
    event = {
        "kind": "gateway",
        "boot": f"boot_{gateway.connection}",
        "host": gateway.host,
        "age": (clock.monotonic() - gateway.began) * 1000,
        "transport": "simulated",
        "version": "1",
        "main": SESSIONS[0],
        "fingerprints": {"main": "as it was"},
    }
    params = {"events": gateway.number_events(event)}
    answer = play.daemon.dispatcher.answer_gateway
    play.greet(gateway, partial(answer, gateway.connection, "report", params))
    return f"{gateway.connection} connects"


def turn_goes_on(play: Play, choose: Random) -> str:
    """A turn of a session begins, calls a tool, or ends."""
    gateway, session = choose.choice(play.gateways), choose.choice(SESSIONS)
    if not gateway.connected:
        return gateway_connects(play, choose, gateway)
    of_session = {"session_key": session, "agent_id": session.split(":")[1]}
    taken = list(play.outside.inbox[gateway.host, session])
    play.outside.inbox[gateway.host, session].clear()
    deliveries = [wake.delivery_id for wake in taken if wake.delivery_id]
    if session not in gateway.running:
        gateway.running[session] = None
        origin = "taskmem" if taken else choose.choice(("user", "user", "heartbeat", "other"))
        begun = {"kind": "turn_started", "origin": origin, **of_session}
        answered = {"kind": "answered", "session_key": session, "deliveries": deliveries}
        return report(play, choose, gateway, begun, *([answered] if deliveries else []))
    if choose.random() < 0.5:
        named = {"call_id": f"call_{play.number()}", "tool": "exec", "about": "ls", **of_session}
        ended = {"kind": "tool_called", "outcome": "done", **named}
        return report(play, choose, gateway, {"kind": "tool_started", **named}, ended)
    del gateway.running[session]
    how = choose.choice(({}, {}, {"aborted": True}, {"error": "529 overloaded"}, {"cut": True}))
    said = choose.choice(("Going on.", "Shall I?", ""))
    over = {"kind": "turn_ended", "said": said, "calls": choose.randrange(3), **of_session, **how}
    return report(play, choose, gateway, over)


def target_shows(play: Play, choose: Random) -> str:
    """A target shows a line, or comes and goes."""
    target = play.outside.targets[choose.choice(TARGETS)]
    chance = choose.random()
    if target.gone:
        target.gone = chance < 0.3
    elif chance < 0.5:
        target.show(READY)
    elif chance < 0.7:
        target.show("working")
    elif chance < 0.8:
        target.gone = True
        target.stir()
    else:
        target.mood = choose.choice(("works", "works", "fails", "hangs"))
    return f"{target.name} has {len(target.lines)} lines, {target.mood}, gone: {target.gone}"


def time_passes(play: Play, choose: Random) -> str:
    """Time passes, and everything that it makes due runs."""
    seconds = choose.choice((0.5, 0.5, 2.0, 2.0, 10.0, 31.0, 61.0, 130.0, 310.0, 905.0))
    play.loop.advance(seconds)
    return f"{seconds:g} s pass"


def something_is_due(play: Play, choose: Random) -> str:
    """Time passes until one of the next things is due, which then meets what happens next."""
    return pass_until_due(play, choose)[0]


def agent_meets_what_is_due(play: Play, choose: Random) -> str:
    """An agent calls about a task or wait just when something of it is due."""
    passed, subject = pass_until_due(play, choose)
    play.loop.run_some(choose.randrange(60))
    if subject in play.machine.mirror.waits:
        timeout = choose.choice((5, 60, 600))
        return f"{passed}; {call(play, choose, 'wait_update', wait_id=subject, timeout=timeout)}"
    given = {"task_id": subject or pick_task(play, choose), "message": f"note {play.number()}."}
    return f"{passed}; {call(play, choose, 'task_update', **given)}"


def pass_until_due(play: Play, choose: Random) -> tuple[str, str | None]:
    """Let time pass until something is due; return the task or wait that it is of, if any."""
    mirror, now = play.machine.mirror, play.machine.clock.now()
    dues: tuple[list[tuple[datetime | None, str | None]], ...] = (
        [(task.stuck_due_at, task.task_id) for task in mirror.tasks.values()],
        [(wake.due_at, wake.task_id or wake.wait_id) for wake in mirror.wakes.values()],
        [(run.lease_until, run.task_id) for run in mirror.runs.values()],
        [(wait.deadline_at, wait.wait_id) for wait in mirror.waits.values()],
    )
    last = now + timedelta(seconds=1_000)
    ahead = [[(at, of) for at, of in kind if at is not None and now < at < last] for kind in dues]
    if not any(ahead):
        return time_passes(play, choose), None
    firsts = [min(kind, key=itemgetter(0)) for kind in (*ahead, *ahead[-1:] * 3) if kind]
    at, of = choose.choice(firsts)  # mostly a wait: few are open for long
    seconds = (at - now).total_seconds()
    play.loop.advance(seconds - 1 / TICKS, 1 / TICKS)
    return f"{seconds:g} s pass, and something is due", of


def long_time_passes(play: Play, choose: Random) -> str:
    """Nobody does anything for hours."""
    seconds = choose.choice((1_800.0, 3_600.0, 7_200.0))
    play.loop.advance(seconds)
    return f"{seconds:g} s pass"


def clock_jumps(play: Play, choose: Random) -> str:
    """Somebody sets the wall clock."""
    seconds = choose.choice((-86_400.0, -3_600.0, -30.0, 30.0, 3_600.0, 86_400.0))
    play.machine.clock.jump(seconds)
    return f"the clock jumps by {seconds:g} s"


def gateway_changes(play: Play, choose: Random) -> str:
    """What gateways do with wakes changes."""
    moods = ("takes", "takes", "takes", "slow", "hangs", "fails", "asks to wait", "refuses")
    play.outside.mood = choose.choice((*moods, "breaks", "loses the reply", "doubles"))
    return f"the gateway {play.outside.mood}"


def dies(play: Play, choose: Random) -> str:
    """The daemon is killed, now or around one of its next commits."""
    if choose.random() < 0.3:
        play.loop.die()
        return "the daemon is killed"
    fate = choose.choice(("before", "inside", "after")), choose.randrange(4)
    play.machine.fate = fate
    return f"the daemon will die {fate[0]} commit {fate[1]}"


def store_fails(play: Play, choose: Random) -> str:
    """The store fails for a while."""
    play.machine.fault = (choose.choice(FAULTS), choose.randrange(1, 12))
    return f"the store fails {play.machine.fault[1]} times: {play.machine.fault[0].__name__}"
