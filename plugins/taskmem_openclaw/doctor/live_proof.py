"""Prove that wakes work: send one through a gateway and count the hooks that fire.

It uses a session, a file and a wait of its own and deletes them afterwards; people's sessions are
not touched.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from taskmem_hookspecs import Checkup, DoctorRow, TaskmemError
from taskmem_hookspecs.doctor import TRIAL
from taskmem_openclaw import configuration, plugin_socket
from taskmem_openclaw.doctor.rows import RELOAD, await_gateways, fail, find_cure, ok, warn
from taskmem_openclaw.setup import package_files, plan

_PROOF_SECONDS: Final = 60.0
"""Time limit of both turns together. Seconds."""
LOOK_SECONDS: Final = 0.1
"""Time between two looks. Seconds; a turn takes several."""
_CLOSE_TRIES: Final = 20
"""Attempts to delete the session: just after a turn the gateway may refuse."""
CLOSE_SECONDS: Final = 0.5
"""Time between two of these attempts. Seconds."""
MESSAGE: Final = (
    "taskmem doctor checks that wakes arrive, in a session of its own, which it deletes after two "
    "turns. Call the tool task_list once, then answer OK, and nothing else. When a line says that "
    "a wait has ended, answer OK again, without any tool."
)
"""Order to the trial's session. Its first 96 characters are no order, for OpenClaw shows them in
the agent's main session for half an hour, as the task of a sub-agent that has ended."""
_PLUGIN_TRANSPORT: Final = "openclaw-plugin"
_TOOLS_CURE: Final = "See whether the agent is offered the tools, then run this again."
_MODEL: Final = "See that the agent answers when you talk to it: openclaw logs"
_MAIN: Final = re.compile(r"agent:[^:]{1,100}:[^:]{1,100}\Z")
Counts = Mapping[str, int]
T = TypeVar("T")


class WakeProof:
    """`DoctorCheck` that costs two short turns of a model."""

    name = "openclaw.proof"
    costs = True

    def __init__(
        self, environ: Mapping[str, str] = os.environ, seconds: float = _PROOF_SECONDS
    ) -> None:
        """Set the environment and the time limit of both turns. Seconds."""
        self._environ = environ
        self._seconds = seconds

    async def look(self, checkup: Checkup) -> AsyncIterator[DoctorRow]:
        """Yield a row for the wake and for each hook; nothing if no gateway is connected."""
        # An earlier check has already waited for gateways that reconnect.
        gateways = await await_gateways(checkup, self._environ, plugin_socket.GLANCE)
        if not gateways:
            return
        main = str(gateways[0].get("main_session"))
        if not _MAIN.match(main):
            yield fail("proof", f"The gateway's main session is {main!r}.", RELOAD)
            return
        trial = _WakeTrial(checkup, self._environ, main.rsplit(":", 1)[0])
        yield ok(
            "proof",
            f"The session {trial.session} is made for a moment; it takes two short "
            "turns of your model. For half an hour OpenClaw names it to the agent, as a sub-agent "
            "that has ended.",
        )
        try:
            async with asyncio.timeout(self._seconds):
                wake = await trial.await_wake()
        except TimeoutError:
            yield trial.build_late_row(self._seconds)
        except (
            TaskmemError,
            plugin_socket.PluginNotListening,
            plugin_socket.PluginRequestFailed,
            OSError,
        ) as error:
            yield fail("wake", f"{trial.doing} failed: {error}", find_cure(error))
        else:
            yield _build_arrival_row(wake)
        finally:
            left = await _await_despite_cancel(trial.clean_up())
        config = configuration.read_config(self._environ) or {}
        state = configuration.find_state_folder(self._environ)
        desired = package_files.build_desired_state(config, "", state)
        granted = "conversation" not in plan.find_plugin_faults(config, desired)[0]
        for row in _check_hooks(trial.seen, granted=granted):
            yield row
        if left:
            yield warn("proof.left", left, f"Run: openclaw sessions archive {trial.session}")


class _WakeTrial:
    """One test wake, with its own session, file and wait."""

    def __init__(self, checkup: Checkup, environ: Mapping[str, str], agent: str) -> None:
        """Set how to ask the daemon, the environment, and the agent that gets the session."""
        mark = secrets.token_hex(4)
        self.session = f"{agent}:{TRIAL}{mark}"
        self.doing = "The check"
        self.seen: Counts = {}
        """How often each hook has fired for the session."""
        self._checkup = checkup
        self._socket = plugin_socket.find_socket(environ)
        self._file = Path(environ["TASKMEM_HOME"]) / f"doctor-{mark}.txt"
        self._phrase = f"{TRIAL}{mark}"
        self._opened = False
        self._wait: str | None = None
        self._wake: Mapping[str, Any] | None = None

    async def await_wake(self) -> Mapping[str, Any]:
        """Run a turn, let a wait end, and return the acknowledged wake."""
        self.doing = "The session's first turn"
        await plugin_socket.wait_for_listener(self._socket, plugin_socket.LOAD_SECONDS)
        self._opened = True
        try:
            await self._ask_gateway("open", message=MESSAGE)
        except plugin_socket.PluginNotListening:
            self._opened = False
            raise
        while not self.seen.get("turn_ended"):
            await asyncio.sleep(LOOK_SECONDS)
            self.seen = await self._ask_gateway("seen")
        self.doing = "The wait"
        self._file.touch(mode=0o600)
        answer = await self._call_tool(
            "smart_wait",
            target=f"pty:file:{self._file}",
            wake_when=f'"{self._phrase}" appears',
            session_key=self.session,
            timeout=_PROOF_SECONDS,
        )
        self._wait = str(answer["wait_id"])
        with self._file.open("a") as file:
            file.write(f"{self._phrase}\n")
        self.doing = "The wake"
        while True:
            wake = await self._find_wake()
            if wake is not None and wake["state"] == "acknowledged":
                self.seen = await self._ask_gateway("seen")
                return wake
            await asyncio.sleep(LOOK_SECONDS)

    def build_late_row(self, seconds: float) -> DoctorRow:
        """Return the row for a wake that did not arrive in time."""
        if self._wait is None:
            sentence = f"{self.doing} did not end within {seconds:g} s."
            return fail("wake", sentence, _MODEL)
        wake = self._wake
        if wake is None:
            sentence = f"The wait {self._wait} did not end within {seconds:g} s."
            log = self._file.with_name("daemon.log")
            return fail("wake", sentence, f"Look at {log}, then run this again.")
        why = wake.get("last_error") or wake.get("held") or "nothing is said of why"
        sentence = f"After {seconds:g} s the wake is still {wake['state']}: {why}."
        return fail("wake", sentence, _MODEL)

    async def clean_up(self) -> str | None:
        """Delete wait, file and session; return a sentence if the session remains."""
        if self._wait is not None:
            if (self._wake or {}).get("state") != "acknowledged":
                await self._cancel_wait(self._wait)
            with contextlib.suppress(TaskmemError):
                await self._checkup.ask("forget", {"id": self._wait})
        with contextlib.suppress(OSError):
            self._file.unlink(missing_ok=True)
        if not self._opened:
            return None
        error: Exception | None = None
        for _ in range(_CLOSE_TRIES):
            try:
                await self._ask_gateway("close")
            except plugin_socket.PluginNotListening as away:
                error = away
                break
            except plugin_socket.PluginRequestFailed as failure:
                error = failure
                await asyncio.sleep(CLOSE_SECONDS)
            else:
                return None
        return f"The session {self.session} could not be deleted: {error}."

    async def _cancel_wait(self, wait_id: str) -> None:
        """Cancel the wait, so that a due wake does not take another transport."""
        for tool in ("wait_update", "wait_cancel") if self._wake else ("wait_cancel",):
            # `wait_update` arms the wait again, which withdraws a wake not sent yet.
            with contextlib.suppress(TaskmemError):
                await self._call_tool(tool, wait_id=wait_id, session_key=self.session)

    async def _find_wake(self) -> Mapping[str, Any] | None:
        listed = await self._checkup.ask("wakes", {"all": True, "limit": 50})
        wakes = cast("list[dict[str, Any]]", listed)
        mine = (wake for wake in wakes if wake["wait_id"] == self._wait)
        self._wake = next(mine, None)
        return self._wake

    async def _call_tool(self, tool: str, **arguments: object) -> Mapping[str, Any]:
        asked = {"tool": tool, "arguments": arguments}
        return cast("dict[str, Any]", await self._checkup.ask("call", asked))

    async def _ask_gateway(self, request: str, **given: object) -> Any:  # noqa: ANN401 - JSON
        asked = {"session_key": self.session, **given}
        return await plugin_socket.ask_gateway(
            self._socket, request, plugin_socket.REQUEST_SECONDS, **asked
        )


async def _await_despite_cancel(doing: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine to its end even if cancelled; then raise the cancellation."""
    task = asyncio.create_task(doing)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait((task,))
        raise


# --- what the rows say --------------------------------------------------------


def _build_arrival_row(wake: Mapping[str, Any]) -> DoctorRow:
    """Return the row for a wake that a turn took."""
    sent, taken = (_measure_delay(wake, key) for key in ("sent_at", "acknowledged_at"))
    way = wake["transport"]
    note = f" ({wake['note']})" if wake.get("note") else ""
    sentence = (
        f"A wake went out by {way} after {sent} ms and a turn took it after {taken} ms{note}."
    )
    return ok("wake", sentence) if way == _PLUGIN_TRANSPORT else warn("wake", sentence, RELOAD)


def _measure_delay(wake: Mapping[str, Any], key: str) -> int:
    began, then = (datetime.fromisoformat(wake[name]) for name in ("created_at", key))
    return (then - began) // timedelta(milliseconds=1)


def _check_hooks(seen: Counts, *, granted: bool) -> Iterator[DoctorRow]:
    """Yield a row for each hook that must fire in two turns of a new session, and for the tool."""
    if not seen:
        return
    lost = {
        "session_start": "a new session gets no packet",
        "agent_event": "the daemon does not know in which sessions a turn runs",
        "turn_ended": "no wake is ever acknowledged",
    }
    for hook, what in lost.items():
        name = f"hook.{hook}"
        if seen.get(hook):
            yield ok(name, f"{hook} fires.")
        elif hook == "turn_ended" and seen.get("agent_event"):
            sentence = "No turn has ended so far, so turn_ended was not seen to fire."
            yield warn(name, sentence, _MODEL)
        else:
            yield fail(name, f"{hook} does not fire: {what}.", RELOAD)
    called = "The model called no tool, so after_tool_call was not seen to fire."
    answered = "The model's call of task_list, if there was one, did not get here."
    for mark, name, fine, unseen in (
        ("after_tool_call", "hook.after_tool_call", "after_tool_call fires.", called),
        ("tool", "tool", "A tool that the model called was answered by the daemon.", answered),
    ):
        yield ok(name, fine) if seen.get(mark) else warn(name, unseen, _TOOLS_CURE)
    yield _check_prompt_hook(seen, granted=granted)


def _check_prompt_hook(seen: Counts, *, granted: bool) -> DoctorRow:
    name = "hook.before_prompt_build"
    if seen.get("before_prompt_build"):
        return ok(name, "before_prompt_build fires.")
    if granted:
        sentence = "before_prompt_build does not fire, though it is allowed."
        return fail(name, sentence, RELOAD)
    return warn(
        name,
        "before_prompt_build is not allowed to fire: packets do not come back by themselves.",
        "Run: openclaw config set plugins.entries."
        f"{plan.PLUGIN}.hooks.allowConversationAccess true",
    )
