"""Calls that only ask: of agents, of the gateway's plug-in, and of a person at the command line."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tests.simulation.operations import call, pick_task
from tests.simulation.outside import SESSIONS

if TYPE_CHECKING:
    from tests.simulation.history import Play

COMMANDS: Final = ("tasks", "tasks", "resume", "cancel")
LISTS: Final = ("waits", "wakes", "runs", "events")


def look(play: Play, choose: Random) -> str:
    """An agent asks for a task, or for its tasks."""
    if choose.random() < 0.3:
        return call(play, choose, "task_list", status=choose.choice(("active", "completed", "all")))
    return call(play, choose, "task_status", task_id=pick_task(play, choose))


def person_looks(play: Play, choose: Random) -> str:
    """A person lists what there is."""
    listed = choose.choice(LISTS)
    play.begin(partial(play.daemon.dispatcher.answer, listed, {}), listed, {})
    return f"a person lists the {listed}"


def gateway_asks(play: Play, choose: Random) -> str:
    """The gateway's plug-in asks about a session before a turn, a tool call or the last words."""
    gateway, session = choose.choice(play.gateways), choose.choice(SESSIONS)
    method = choose.choice(("packet", "packet", "question", "budget", "finalize", "command"))
    params: dict[str, Any] = {"session_key": session}
    if method == "packet" and choose.random() < 0.5:
        params["age"] = choose.choice((0, 5_000, 600_000))
    if method == "finalize":
        params["said"] = choose.choice(("All is done.", "It is deployed, and verified.", "Hm."))
    if method == "command":
        params["command"] = choose.choice(COMMANDS)
    asked = partial(play.daemon.dispatcher.answer_gateway, gateway.connection, method, params)
    play.begin(asked, method, {})
    return f"{gateway.connection} asks for the {method} of {session}: {params}"
