"""The hooks, and the decorators that mark them: this file is the manual of the plug-ins.

A plug-in is a module (or an object) with functions of these names, each marked
`@hookimpl`, registered under the entry-point group `openclaw_taskmem`. A hook
function may leave out arguments it does not need. Hooks are synchronous; what
takes time belongs into the objects that the *provide* hooks return.

- **tell** `on_…`: told from the event log after the commit, at least once, in
  order. Every plug-in hears, alone and under a time limit; answers are ignored.
- **compute** `build_…`: the first answer wins; pure.
- **provide**: return an object that plays a part, or None to pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import pluggy
from pydantic import JsonValue

from taskmem_hookspecs.conditions import Condition
from taskmem_hookspecs.doctor import DoctorCheck
from taskmem_hookspecs.hosts import AgentHost
from taskmem_hookspecs.model import Run, Task, Wait
from taskmem_hookspecs.packet import ResumeFacts, ResumePacket, StuckVerdict
from taskmem_hookspecs.readers import Reader
from taskmem_hookspecs.recall import RecallSource, TaskHistory
from taskmem_hookspecs.roles import (
    Clock,
    EvidenceVerifier,
    LiveSessions,
    QueryAnswerer,
    TaskStore,
    WakeTransport,
)
from taskmem_hookspecs.watching import Judge, Sensor, Target, WaitOutcome

PROJECT: Final = "openclaw_taskmem"
"""The pluggy project name, and the entry-point group of plug-ins."""

hookspec = pluggy.HookspecMarker(PROJECT)
"""Marks a function here as a hook."""

hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a function of a plug-in as the implementation of the hook of the same name."""


# --- tell -------------------------------------------------------------------


@hookspec
def on_task_registered(task: Task) -> None:
    """Called after a task was registered."""


@hookspec
def on_wait_resolved(wait: Wait, outcome: WaitOutcome, task: Task | None) -> None:
    """Called after a wait ended, however it ended; `task` is None for a lone wait."""


@hookspec
def on_stuck(task: Task, verdict: StuckVerdict, packet: ResumePacket | None) -> None:
    """Called after a task was found stuck and a wake for it is owed.

    `packet` is what the wake carries; None: the minimal wake went out.
    """


@hookspec
def on_run_changed(run: Run, task: Task) -> None:
    """Called after a run was made or changed its state."""


# --- compute ----------------------------------------------------------------


@hookspec(firstresult=True)
def build_resume_packet(facts: ResumeFacts) -> ResumePacket | None:
    """Called before a stuck wake is owed. Stops at the first result that is not None.

    The core's own packet comes last, so a wrapper can enrich it. An answer for
    another task or wake is nonsense: the core's packet is taken, and the log
    names the plug-in.
    """


# --- provide ----------------------------------------------------------------


@hookspec(firstresult=True)
def task_store(url: str) -> TaskStore | None:
    """Called once, at start. Stops at the first result that is not None.

    `url` is a database URL such as `sqlite:////home/me/taskmem.db`. With `mode=ro` in its query,
    the database is neither created nor migrated; `taskmem backup` asks so.
    """


@hookspec
def wake_transport(name: str, sessions: LiveSessions) -> WakeTransport | None:
    """Called at start for each name in the settings; the transports of all plug-ins are kept.

    `name` is a transport's name, or `auto`: any that can work here. `sessions` finds the sessions
    whose hosts are connected. The first transport that reaches a wake's agent delivers the wake;
    one without `reaches` gets the wakes that no other transport reaches.
    """


@hookspec
def wake_transport_names() -> Sequence[str] | None:
    """Called where the settings name a transport that no plug-in has.

    Return the names that `wake_transport` answers to besides `auto`; the refusal lists
    them. The name of the plug-in itself is tried unsaid.
    """


@hookspec
def session_variables() -> Sequence[str] | None:
    """Called once, at start; return names of environment variables in which a host names a session.

    `taskmem mcp` sends the values of these, and of no others, to the daemon, which keeps them in
    memory until that host disconnects. All plug-ins get them, by `calling_session` and
    `LiveSessions`. They may be credentials: never write them anywhere.
    """


@hookspec(firstresult=True)
def calling_session(
    client: str | None, variables: Mapping[str, str], meta: Mapping[str, JsonValue]
) -> str | None:
    """Called when a host connects, with neither client nor metadata, and for each call over MCP.

    Stops at the first result that is not None.
    Return the key of the session that calls; None for a host of another plug-in, or where the
    session is not known. Pure. `client` is the name that the host's MCP client gives; None: none.
    `variables` are those of `session_variables` that are set; `meta` is the metadata of the call.
    """


@hookspec
def agent_host(sessions: LiveSessions) -> AgentHost | None:
    """Called once, at start; the hosts of all plug-ins are kept.

    `sessions` finds the sessions whose hosts are connected. The first host that reaches a session
    shows its user lines and stops its turns; one without `reaches` gets the sessions that no other
    host reaches. The names of sessions of all hosts count.
    """


@hookspec
def wait_sensor(target: Target) -> Sensor | None:
    """Called when a target is first watched; all sensors are kept.

    They are asked in order until one finds the target.
    """


@hookspec
def wait_target_forms() -> Sequence[str] | None:
    """Called when the tools are listed for an agent.

    Return a line for each form of target of its own that `wait_sensor` watches, such as
    `browser:NAME, a tab by its title`; the description of `smart_wait` shows it to agents.
    """


@hookspec
def wait_judge(
    target: Target, wake_when: str, condition: Condition, reader: Reader | None
) -> Judge | None:
    """Called for each wait that is watched; all judges are kept.

    `condition` is `wake_when` as it was parsed. `reader` may be asked what a text or a
    picture shows, on the judge's own event loop; None: nobody may be.

    The judges are asked in order until one is sure. Return None for what this plug-in
    cannot judge, or raise `ConditionUnclear` with a sentence that says what would help;
    with `sides`, where the target can never have such a form. A wait with a side that
    no judge decides is refused.
    """


@hookspec
def reader() -> Reader | None:
    """Called once, at start; the readers of all plug-ins are kept.

    In which order they are asked is the operator's choice (`TASKMEM_READERS`).
    """


@hookspec
def evidence_verifier(kind: str) -> EvidenceVerifier | None:
    """Called for each kind of claim; all verifiers are asked."""


@hookspec
def recall_source(
    history: TaskHistory, folder: Path, clock: Clock, scrub: Callable[[str], str]
) -> RecallSource | None:
    """Called once, when the daemon starts; what all sources find is merged.

    `history` has the tasks of the home; `folder` is the home's folder, in which a source
    may keep a folder of its own; `scrub` returns a text without credentials.
    """


@hookspec
def query_answerer() -> QueryAnswerer | None:
    """Called for each question about a task; the first that has an answer is taken."""


@hookspec
def health_checks() -> Sequence[DoctorCheck] | None:
    """Called by `taskmem doctor`; the checks of all plug-ins are made, in order."""
