"""Answer the daemon's calls: tools for agents, views and commands for people and gateways."""

from __future__ import annotations

import base64
import binascii
import logging
import math
import os
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar, cast

from pydantic import JsonValue

from openclaw_taskmem import __version__
from openclaw_taskmem.config import TOOL_PROFILES, Settings
from openclaw_taskmem.daemon import gateway_events, host_hooks, processes
from openclaw_taskmem.daemon.followers import Followers
from openclaw_taskmem.daemon.gateways import Gateways
from openclaw_taskmem.daemon.person_calls import PageRenderer, PersonCalls
from openclaw_taskmem.daemon.readers import Readers
from openclaw_taskmem.daemon.thread_pool import ThreadPool
from openclaw_taskmem.daemon.wait_supervisor import WaitSupervisor
from openclaw_taskmem.domain import callers
from openclaw_taskmem.domain.callers import Caller, find_key_fault
from openclaw_taskmem.domain.conditions import targets
from openclaw_taskmem.domain.errors import UnknownTool
from openclaw_taskmem.domain.text.texts import format_iso_millis, quote_line, to_plain_line
from openclaw_taskmem.domain.views.user_actions import Command
from openclaw_taskmem.engine import (
    evidence,
    gateway_reports,
    run_recovery,
    runs,
    turns,
    user_actions,
    waits,
)
from openclaw_taskmem.engine.context import Context, DueWork
from openclaw_taskmem.engine.waits import PolledWait
from openclaw_taskmem.plugin_host.connected_sessions import Post
from openclaw_taskmem.tools import catalog, views
from openclaw_taskmem.tools.tool import Answer, Tool, add_targets
from taskmem_hookspecs import (
    InvalidArguments,
    Output,
    Owner,
    Target,
    TaskmemError,
    UserQuestion,
    Wait,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

_LARGEST_STATUS: Final = 65_535
"""Maximum exit status on any system."""
Params = Mapping[str, object]
LOOK_THREADS: Final = 32
"""Threads for calls that look at targets, files or URLs, and may take long."""
LOOKS_OF_CALLER: Final = 8
"""Most threads for looks that one caller uses at once."""
CALL_THREADS: Final = 8
"""Threads for all other calls; more would only wait for the single writer."""
_THREADS_OF_CALLER: Final = 4
"""Most threads for other calls that one caller uses at once."""


def parse_feed(params: Mapping[str, object]) -> tuple[Target, Output]:
    """Return the target and the piece of output in a `feed` call.

    Takes `target` as an agent writes it, and `text`, or `data` in base64; with `exit_status` if the
    command has ended.

    Raises:
        InvalidArguments: The parameters are not valid.
    """
    target, text, data, status = (
        params.get(name) for name in ("target", "text", "data", "exit_status")
    )
    if not isinstance(target, str):
        raise InvalidArguments("feed takes a target, such as pty:crisp-ridge.")
    if status is not None and (
        isinstance(status, bool) or not isinstance(status, int) or abs(status) > _LARGEST_STATUS
    ):
        raise InvalidArguments(
            "exit_status must be a status, such as 0 or 1, minus the number of a "
            "signal, or left out."
        )
    return targets.parse_target(target), Output(data=_decode_bytes(text, data), exit_status=status)


def _decode_bytes(text: object, data: object) -> bytes:
    if isinstance(text, str):
        return text.encode(errors="replace")
    if isinstance(data, str):
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            raise InvalidArguments("data is no base64; send text instead.") from None
    if text is None and data is None:
        return b""
    raise InvalidArguments("feed takes text, or data in base64.")


class RelayHost(NamedTuple):
    """The relay through which a host's agent calls."""

    process: str | None = None
    """Its process, as `Owner.process`; None: unknown."""
    folder: str | None = None
    """Its working directory at start; None: unknown."""
    client: str | None = None
    """Name that the host's MCP client gives; None: none."""
    tools: Collection[str] | None = None
    """Names of the tools that it lists; None: all."""
    connection: object = None
    """Identity of its connection."""
    variables: Mapping[str, str] = {}
    """Values of `session_variables`; they may be credentials."""
    meta: Mapping[str, JsonValue] = {}
    """Metadata of the call."""
    takes_tasks: bool = False
    """True if the call may be answered as a task of MCP."""
    form: tuple[str, str] | None = None
    """Key of the question that the user answered in a form, and their words; None: no form."""


class Dispatcher:
    """Answers calls on threads; `follow`, `wait` and `report` on the event loop."""

    def __init__(
        self,
        context: Context,
        settings: Settings,
        supervisor: WaitSupervisor,
        free: Callable[[], None] = lambda: None,
        readers: Readers | None = None,
        *,
        delivery_status: Mapping[str, JsonValue] | None = None,
        find_transport: views.FindTransport = lambda _host, _session_key: None,
    ) -> None:
        """Create a dispatcher; it calls `free` when a session may be disturbed again.

        `delivery_status` is added to the answer of `status`; `find_transport` names the transport
        that reaches a session.
        """
        self._delivery_status = delivery_status or {}
        self._find_transport = find_transport
        self._list_readers: Callable[[], list[JsonValue]] = readers.build_view if readers else list
        self._context, self._supervisor = context, supervisor
        self._settings = settings
        self.call_threads = ThreadPool(CALL_THREADS, "call", _THREADS_OF_CALLER)
        """Threads on which most calls run."""
        self._look_threads = ThreadPool(LOOK_THREADS, "look", LOOKS_OF_CALLER)
        self._followers = Followers(context, supervisor.changes, self.call_threads)
        self.gateways = Gateways(context, self.call_threads, free)
        self._for_person = PersonCalls(
            context, settings, self._build_status, self._list_readers, self._followers.note_commit
        )
        self.session_variables = context.plugin_host.list_session_variables()
        """Names of the variables that relays are asked for."""
        self._pages = PageRenderer(self._for_person.build_site, self._followers.format_counts)
        self._methods: Mapping[str, Callable[[Params], JsonValue]] = {
            "call": self._call_as_person,
            "tools": lambda params: self._describe_tools(params.get("profile")),
            "waits": lambda params: views.list_waits(context, params),
            "wakes": lambda params: views.list_wakes(
                context, params, self.gateways.build_hold_finder()
            ),
            "runs": lambda params: views.list_runs(context, params),
            "events": lambda params: views.list_events(context, params),
            "plugins": lambda _: views.list_plugins(context),
            "feed": self._feed_output,
            "forget": self._forget_trial,
            "hook": partial(host_hooks.answer_hook, context),
            **self._for_person.methods,
        }
        self._of_gateways: Mapping[str, Callable[[Params, Caller], JsonValue]] = {
            "call": self._call_as_agent,
            "packet": self._build_packet,
            "question": self._build_question,
            "budget": self._read_budget,
            "finalize": self._check_last_words,
            "command": self._run_command,
        }

    def release_followers(self) -> None:
        """Answer all calls that wait, because the daemon is stopping."""
        self._supervisor.changes.notify_all()

    def note_commit(self, due: DueWork) -> None:
        """Tell those who wait for changes that something was written which pages may show."""
        if due.pages_due:
            self._followers.note_commit()

    async def close(self) -> None:
        """Let running calls end; accept no others."""
        self._for_person.close()
        await self.call_threads.close()
        await self._look_threads.close()
        await self._pages.close()

    async def answer(self, method: str, params: Params, process: str | None = None) -> JsonValue:
        """Answer a call of the command line; `process` is the calling process.

        Raises:
            TaskmemError: The call was refused.
        """
        if method == "follow":
            return await self._followers.follow(params)
        if method == "wait":
            return await self._followers.wait(params)
        if method == "changes":
            return await self._followers.watch_changes(params)
        if method == "page":
            return await self._pages.render(params)
        handler = self._methods.get(method)
        if method == "act":
            handler = partial(self._for_person.act, process)
        if handler is None:
            raise UnknownTool(
                f"The daemon does not know {quote_line(method, 80)}. Tools are called by call, "
                "with tool and arguments; if it is older than the command, restart it with "
                "taskmem daemon restart."
            )
        looks = method in ("feed", "act") or (method == "call" and _is_slow_call(params))
        return await self._run_call(process, handler, params, looks=looks)

    async def answer_gateway(
        self, connection: object, method: str, params: Params, process: str | None = None
    ) -> JsonValue:
        """Answer a call of a gateway's plug-in, whose process is `process`.

        Raises:
            TaskmemError: The call was refused.
        """
        if method == "report":
            return await self.gateways.take_report(connection, params)
        if method in ("changes", "page", "act"):  # of a person in a tab of the gateway
            return await self.answer(method, params, process)
        work = self._of_gateways.get(method)
        if work is not None:
            caller = self._build_agent_caller(connection, params)
            reports = gateway_events.parse_still_running(params.get("at_work"))
            if reports is not None and caller.session_key is not None:
                self.gateways.note_still_running(connection, caller.session_key, reports)
            # `finalize` checks files and URLs, which may be slow; `budget` does not.
            looks = method == "finalize" or (method == "call" and _is_slow_call(params))
            by = connection, caller.session_key
            return await self._run_call(by, work, params, caller, looks=looks)
        raise UnknownTool(
            f"The daemon does not know {quote_line(method, 80)}; it may be older than "
            "the plug-in: restart it with taskmem daemon restart."
        )

    def forget_gateway(self, connection: object) -> None:
        """Forget a gateway that has disconnected."""
        self.gateways.forget_gateway(connection)

    async def list_tools(self, profile: object = None) -> tuple[Tool, ...]:
        """Return the tools of a profile; of an unknown profile, those of the settings."""
        return await self.call_threads(self._select_tools, profile)

    async def call_tool(self, name: str, given: dict[str, Any], host: RelayHost) -> Answer:
        """Answer a tool call of an MCP host's agent; `host` is its relay.

        Raises:
            TaskmemError: The call was refused.
        """
        return await self._run_call(
            host.process,
            self._answer_relay,
            name,
            given,
            host,
            looks=catalog.needs_outside_look(name, given),
        )

    async def read_wait(self, wait_id: str) -> Wait:
        """Return a wait.

        Raises:
            WaitNotFound: No wait has that id.
        """
        return await self.call_threads(self._context.store.read_wait, wait_id)

    async def poll_wait(self, wait_id: str, host: RelayHost) -> PolledWait:
        """Answer a host that asks for a wait: once it has ended, or after some seconds.

        Raises:
            WaitNotFound: No wait has that id.
            NotAllowed: It is another's.
        """
        find_session = self._context.plugin_host.find_calling_session
        key = await self.call_threads(find_session, host.client, host.variables, host.meta)
        return await self._followers.poll_wait(wait_id, self._find_relay_caller(host, key))

    async def find_question(self, task_id: str) -> UserQuestion | None:
        """Return the open question of a task; None: there is none."""
        return await self.call_threads(self._find_question, task_id)

    def _find_question(self, task_id: str) -> UserQuestion | None:
        facts = self._context.find_task(task_id)
        return runs.find_question(self._context, facts.run) if facts else None

    def _answer_relay(self, name: str, given: dict[str, Any], host: RelayHost) -> Answer:
        caller = self._find_relay_caller(host, self._note_session(host))
        if host.form is not None:
            gateway_reports.take_answer(self._context, *host.form, caller)
        return catalog.answer_call(self._context, name, given, caller, host.tools)

    def _find_relay_caller(self, host: RelayHost, session_key: str | None) -> Caller:
        """Return the caller behind a relay, beside the sessions that are connected."""
        connected = (key for key, _ in self._context.plugin_host.sessions.list_sessions())
        return _build_relay_caller(host, session_key, self._context.store.scope, connected)

    def add_relay(self, host: RelayHost, post: Post | None) -> None:
        """Note that a relay has connected; `post` has it write into sockets, if it can."""
        self._context.plugin_host.sessions.add_connection(host.connection, host.variables, post)

    async def note_session(self, host: RelayHost) -> None:
        """Note the session that a relay's host names at its start; a busy store may delay it."""
        await self.call_threads(self._note_session, host)

    def _note_session(self, host: RelayHost) -> str | None:
        """Return the session that calls; if it is new, make due what did not reach it before."""
        plugin_host = self._context.plugin_host
        sessions, connection = plugin_host.sessions, host.connection
        key = plugin_host.find_calling_session(host.client, host.variables, host.meta)
        name = host.client and callers.name_client_host(host.client)
        if key is None or not sessions.add_session(connection, key, name):
            return key
        try:
            age = processes.read_host_age(host.process or "")
            opened = None if age is None else self._context.clock.now() - timedelta(seconds=age)
            run_recovery.release_wakes(self._context, key, opened)
        except TaskmemError:
            log.exception("wakes that did not reach a session stay until its next call")
            sessions.remove_session(connection, key)
        return key

    def forget_relay(self, host: RelayHost) -> None:
        """Forget the sessions of a relay that has disconnected."""
        self._context.plugin_host.sessions.remove_connection(host.connection)

    async def _run_call(
        self,
        caller: Hashable,
        call: Callable[..., T],
        *values: Any,  # noqa: ANN401
        looks: bool,
    ) -> T:
        """Run a caller's call on a thread; turn the sentence of a refusal into plain text.

        The sentence may contain names of files, sessions or windows that others chose.
        """
        run_in_thread = self._look_threads if looks else self.call_threads
        try:
            return await run_in_thread.call_for(caller, call, *values)
        except TaskmemError as error:
            error.args = (to_plain_line(str(error)),)
            raise

    def _feed_output(self, params: Params) -> JsonValue:
        self._supervisor.feed(*parse_feed(params))
        return {"message": "Kept."}

    def _forget_trial(self, params: Params) -> JsonValue:
        waits.forget_trial(self._context, str(params.get("id", "")))
        return {"message": "It is gone."}

    def _call_as_person(self, params: Params) -> JsonValue:
        host = _read_key(params, "host")
        person = Caller(person=True, by_call=True, host=host, home=self._context.store.scope)
        return catalog.answer_call(self._context, *_parse_tool_call(params), person)

    def _build_agent_caller(self, connection: object, params: Params) -> Caller:
        """Return the caller of a gateway's call.

        The parameter `begins` means that the call begins a turn of its session, as a command does.
        """
        session_key, agent_id = (_read_key(params, "session_key"), _read_key(params, "agent_id"))
        if params.get("by") == "user":
            return Caller(person=True, session_key=session_key, home=self._context.store.scope)
        return Caller(
            session_key=session_key,
            host=self.gateways.find_host(connection),
            owner=self.gateways.find_owner(connection, session_key, agent_id),
            in_turn=params.get("begins") is True
            or self.gateways.is_in_turn(connection, session_key),
            turn_since=self.gateways.find_turn_start(connection, session_key),
            folder=_read_text(params, "folder"),
            sandboxed=params.get("sandboxed") is True,
            recalls_tasks_only=params.get("tasks_only") is True,
            home=self._context.store.scope,
            request=_read_user_words(params, "request"),
        )

    def _call_as_agent(self, params: Params, caller: Caller) -> JsonValue:
        return catalog.answer_call(self._context, *_parse_tool_call(params), caller)

    def _build_packet(self, params: Params, caller: Caller) -> JsonValue:
        """Return the packet of a session's open task, preceded by open questions.

        With `age`: only if the agent may have lost its context, that many milliseconds ago, and
        without the questions. Without it, the user asks; then the agent's run resumes too, if
        `gateway_reports.is_resumed_by_word`. Source: docs/origins.md, "Questions to the user".
        """
        session_key, age = _read_text(params, "session_key"), params.get("age")
        if session_key is None:
            raise InvalidArguments("packet takes a session_key; give one and call again.")
        since = None
        if isinstance(age, int) or (isinstance(age, float) and not math.isnan(age)):
            ago = timedelta(milliseconds=min(max(age, 0.0), 1e9))
            since = self._context.clock.now() - ago
        found = gateway_reports.build_reminder(
            self._context,
            session_key,
            host=caller.host,
            task_id=_read_text(params, "task_id"),
            boot=caller.owner.boot if caller.owner else None,
            since=since,
            plain=since is not None,
        )
        task_id, text = found or (None, None)
        if since is None and caller.owner is not None:
            if task_id is not None and gateway_reports.is_resumed_by_word(
                self._context, session_key, task_id, caller.host
            ):
                runs.take_up_task(self._context, task_id, caller)
            text = gateway_reports.prepend_waiting_tasks(
                self._context, session_key, text, caller.host
            )
        return {"task_id": task_id, "text": text}

    def _build_question(self, _: Params, caller: Caller) -> JsonValue:
        """Return which tasks of a session wait for its user, for its agent; None: none does."""
        if caller.session_key is None:
            raise InvalidArguments("question takes a session_key; give one and call again.")
        return {
            "text": gateway_reports.describe_waiting_tasks(
                self._context, caller.session_key, caller.host
            )
        }

    def _run_command(self, params: Params, caller: Caller) -> JsonValue:
        """Run a command that a user gave in a session's chat; return the reply."""
        try:
            command = Command(_read_text(params, "command") or "")
        except ValueError:
            names = ", ".join(Command)
            raise InvalidArguments(f"command takes one of: {names}.") from None
        words = _read_text(params, "words") or ""
        reply = user_actions.run_command(self._context, command, words, caller)
        return reply.model_dump(mode="json")

    def _read_budget(self, _: Params, caller: Caller) -> JsonValue:
        """Return the budget of tool calls left in the current step of a session's task."""
        budget = caller.owner and turns.find_step_budget(self._context, caller.owner)
        return {"budget": budget.model_dump(mode="json") if budget else None}

    def _check_last_words(self, params: Params, caller: Caller) -> JsonValue:
        """Return why a session's last reply is not proved; None if it may be sent."""
        if caller.session_key is None:
            raise InvalidArguments("finalize takes a session_key; give one and call again.")
        answer, owner = _read_text(params, "said") or "", caller.owner
        found = None
        if owner is not None and self._settings.hold_back:
            found = evidence.find_doubt_in_answer(self._context, owner, answer)
        task_id, why = found or (None, None)
        return {"task_id": task_id, "refused": why}

    def _describe_tools(self, profile: object) -> JsonValue:
        return [
            {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
            for tool in self._select_tools(profile)
        ]

    def _select_tools(self, profile: object) -> tuple[Tool, ...]:
        known = profile if profile in TOOL_PROFILES else self._settings.tools
        recalls = bool(self._context.recall_sources)
        return add_targets(self._context, catalog.list_offered(str(known), recalls=recalls))

    def _build_status(self) -> dict[str, JsonValue]:
        return {
            "running": True,
            "pid": os.getpid(),
            "version": __version__,
            **self._delivery_status,
            "now": format_iso_millis(self._context.clock.now()),
            **views.summarize_store(self._context),
            "unsent": views.count_unsent(self._context),
            "readers": self._list_readers(),
            "gateways": self.gateways.build_view(),
            "sessions": views.list_sessions(self._context, self._find_transport),
        }


def _read_text(params: Params, name: str) -> str | None:
    value = params.get(name)
    return value if isinstance(value, str) and value else None


def _read_user_words(params: Params, name: str) -> str | None:
    """Return the user's words, with lone surrogates replaced."""
    text = _read_text(params, name)
    return text and text.encode(errors="replace").decode()


def _read_key(params: Params, name: str) -> str | None:
    key = _read_text(params, name)
    fault = None if key is None else find_key_fault(key)
    if fault is not None:
        raise InvalidArguments(f"{name} {fault}. Nothing was written.")
    return key


def _build_relay_caller(
    host: RelayHost, session_key: str | None, home: str | None, connected: Iterable[str] = ()
) -> Caller:
    """Return the caller behind a relay, which claims runs as the relay's process."""
    owner = None
    if host.process:
        owner = Owner(role="agent", session_key=session_key, process=host.process, home=home)
    return Caller(
        process=host.process,
        owner=owner,
        session_key=session_key,
        session_told=session_key is not None,
        other_sessions=frozenset(connected) - {session_key} if session_key else frozenset(),
        host=callers.name_client_host(host.client),
        folder=host.folder,
        home=home,
        polls=host.takes_tasks,
    )


def _is_slow_call(params: Params) -> bool:
    return catalog.needs_outside_look(str(params.get("tool")), params.get("arguments"))


def _parse_tool_call(params: Params) -> tuple[str, dict[str, object]]:
    name, given = params.get("tool"), params.get("arguments")
    if not isinstance(name, str) or not isinstance(given, dict):
        raise InvalidArguments("A call takes a tool's name and an object.")
    return name, cast("dict[str, object]", given)
