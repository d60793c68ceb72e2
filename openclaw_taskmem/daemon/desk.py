"""What the daemon answers: tools for agents, views for people."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Hashable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

from pydantic import JsonValue

from openclaw_taskmem import __version__
from openclaw_taskmem.config import Settings
from openclaw_taskmem.daemon import reports
from openclaw_taskmem.daemon.album import Album
from openclaw_taskmem.daemon.feeds import fed
from openclaw_taskmem.daemon.followers import Followers
from openclaw_taskmem.daemon.gateways import Gateways
from openclaw_taskmem.daemon.readers import Readers
from openclaw_taskmem.daemon.threads import Threads
from openclaw_taskmem.daemon.watchroom import Watchroom
from openclaw_taskmem.domain import ledger, ways
from openclaw_taskmem.domain.callers import Caller, too_long
from openclaw_taskmem.domain.task_commands import Command
from openclaw_taskmem.domain.texts import iso_millis, plain, quoted
from openclaw_taskmem.engine import (
    evidence,
    gateway,
    runs,
    task_commands,
    tasks,
    turns,
    waits,
)
from openclaw_taskmem.engine.shell import Shell
from openclaw_taskmem.tools import catalog, views
from openclaw_taskmem.tools.answer import Answer
from openclaw_taskmem.tools.tool import Tool
from taskmem_hookspecs import InvalidArguments, Owner, TaskmemError
from taskmem_hookspecs.errors import UnknownTool

T = TypeVar("T")
Params = Mapping[str, object]

LOOKS = 32
"""Calls at once that look at targets, which may take long; others need not wait."""
LOOKS_OF_CALLER = 8
THREADS = 8
"""Calls that run at once; more would only wait for the one writer."""
THREADS_OF_CALLER = 4


class Host(NamedTuple):
    """The relay through which an agent's host calls."""

    process: str | None = None
    """Its process, as `Owner.process`; None: not known."""
    folder: str | None = None
    """The folder that it was started in; None: not known."""
    client: str | None = None
    """What the host's MCP client calls itself; None: it does not say."""


class Desk:
    """Answers calls, each on a thread of the pool."""

    def __init__(
        self,
        shell: Shell,
        settings: Settings,
        room: Watchroom,
        free: Callable[[], None] = lambda: None,
        readers: Readers | None = None,
        *,
        told: Mapping[str, JsonValue] | None = None,
    ) -> None:
        """Take what is answered from.

        `free` is told when a session is held no more; `told` is part of the status.
        """
        self._readers, self._told = readers, told or {}
        self._shell = shell
        self._room = room
        self._settings = settings
        self._album = Album(settings.home.pictures, settings.picture_days)
        self.apart = Threads(THREADS, "call", THREADS_OF_CALLER)
        """Makes calls of other kinds on the same threads."""
        self._looking = Threads(LOOKS, "look", LOOKS_OF_CALLER)
        self._followers = Followers(shell, room.news, self.apart)
        self.gateways = Gateways(shell, self.apart, free)
        """The gateways that are connected."""
        self._methods: Mapping[str, Callable[[Params], JsonValue]] = {
            "call": self._call,
            "tools": lambda params: self._tools(params.get("profile")),
            "status": lambda _: self._status(),
            "show": self._show,
            "waits": lambda params: views.waits(shell, params),
            "wakes": lambda params: views.wakes(shell, params, self.gateways.holds()),
            "runs": lambda params: views.runs(shell, params),
            "events": lambda params: views.events(shell, params),
            "plugins": lambda _: views.plugins(shell),
            "feed": self._feed,
            "forget": self._forget,
        }
        self._of_gateways: Mapping[str, Callable[[Params, Caller], JsonValue]] = {
            "call": self._agent_call,
            "packet": self._packet,
            "question": self._question,
            "budget": self._budget,
            "finalize": self._finalize,
            "command": self._command,
        }

    def stops(self) -> None:
        """Answer those who wait for news: the daemon is to stop."""
        self._room.news.tell_all()

    async def close(self) -> None:
        """Let the calls that run end, and take no others."""
        await self.apart.close()
        await self._looking.close()

    async def answer(
        self, method: str, params: Params, process: str | None = None
    ) -> JsonValue:
        """Answer a person's call; `process` is that of the command that was given.

        Raises:
            TaskmemError: It was refused.
        """
        if method == "follow":
            return await self._followers.follow(params)
        if method == "wait":
            return await self._followers.wait(params)
        handler = self._methods.get(method)
        if method == "accept":
            handler = partial(self._accept, process)
        if handler is None:
            raise UnknownTool(
                f"The daemon does not know {quoted(method, 80)}; it may be older than "
                "the command: restart it with taskmem daemon stop."
            )
        looks = method in ("feed", "accept") or (method == "call" and _looks(params))
        return await self._answered(process, handler, params, looks=looks)

    async def answer_gateway(
        self, connection: object, method: str, params: Params
    ) -> JsonValue:
        """Answer a gateway's plug-in, which speaks for its agents.

        Raises:
            TaskmemError: It was refused.
        """
        if method == "report":
            return await self.gateways.report(connection, params)
        work = self._of_gateways.get(method)
        if work is not None:
            caller = self._agent(connection, params)
            said = reports.parse_still_running(params.get("at_work"))
            if said is not None and caller.session_key is not None:
                self.gateways.note_still_running(connection, caller.session_key, said)
            # A claim is held against what may be slow to look at; a budget is not.
            looks = method == "finalize" or (method == "call" and _looks(params))
            by = connection, caller.session_key
            return await self._answered(by, work, params, caller, looks=looks)
        raise UnknownTool(
            f"The daemon does not know {quoted(method, 80)}; it may be older than "
            "the plug-in: restart it with taskmem daemon stop."
        )

    def gateway_left(self, connection: object) -> None:
        """Forget a gateway that has hung up."""
        self.gateways.left(connection)

    async def list_tools(self, profile: object = None) -> tuple[Tool, ...]:
        """Return the tools of a profile; of none that there is: the daemon's own."""
        return await self.apart(self._offered, profile)

    async def call_tool(
        self, name: str, given: dict[str, Any], host: Host | None = None
    ) -> Answer:
        """Answer an agent's call; `host` is the relay that passes it on.

        Raises:
            TaskmemError: It was refused.
        """
        return await self._answered(
            host and host.process,
            catalog.call,
            self._shell,
            name,
            given,
            _by_relay(host, self._shell.store.scope),
            looks=catalog.looks(name, given),
        )

    async def _answered(
        self,
        caller: Hashable,
        call: Callable[..., T],
        *values: Any,  # noqa: ANN401
        looks: bool,
    ) -> T:
        """Return what a caller's call returns; what it refuses with is plain text.

        A refusal may name what others named: files, sessions, windows.
        """
        apart = self._looking if looks else self.apart
        try:
            return await apart.call_for(caller, call, *values)
        except TaskmemError as error:
            error.args = (plain(str(error)),)
            raise

    def _feed(self, params: Params) -> JsonValue:
        self._room.feed(*fed(params))
        return {"message": "Kept."}

    def _forget(self, params: Params) -> JsonValue:
        waits.forget_trial(self._shell, str(params.get("id", "")))
        return {"message": "It is gone."}

    def _call(self, params: Params) -> JsonValue:
        host = _key(params, "host")
        person = Caller(person=True, host=host, home=self._shell.store.scope)
        return catalog.call(self._shell, *_tool_call(params), person)

    def _agent(self, connection: object, params: Params) -> Caller:
        """Return who calls through a gateway.

        `begins` says that a turn of its session begins with the call, as by a command.
        """
        session_key, agent_id = _key(params, "session_key"), _key(params, "agent_id")
        home = self._shell.store.scope
        if params.get("by") == "user":
            return Caller(person=True, session_key=session_key, home=home)
        return Caller(
            session_key=session_key,
            host=self.gateways.host(connection),
            owner=self.gateways.owner(connection, session_key, agent_id),
            in_turn=params.get("begins") is True
            or self.gateways.in_turn(connection, session_key),
            turn_since=self.gateways.turn_since(connection, session_key),
            folder=_text(params, "folder"),
            sandboxed=params.get("sandboxed") is True,
            home=home,
            request=_words(params, "request"),
        )

    def _agent_call(self, params: Params, caller: Caller) -> JsonValue:
        return catalog.call(self._shell, *_tool_call(params), caller)

    def _packet(self, params: Params, caller: Caller) -> JsonValue:
        """Return the packet of a session's open task, while it is news.

        One who asks for it takes the task up again. Where that has asked its user, it
        waits on, and the question goes before the packet. Source: ruling "consent".
        """
        session_key, age = _text(params, "session_key"), params.get("age")
        if session_key is None:
            raise InvalidArguments("packet takes a session_key.")
        since = None
        if isinstance(age, int) or (isinstance(age, float) and not math.isnan(age)):
            # How long ago the agent may have forgotten; without it, it asks.
            ago = timedelta(milliseconds=min(max(age, 0.0), 1e9))
            since = self._shell.clock.now() - ago
        found = gateway.reminder(
            self._shell,
            session_key,
            host=caller.host,
            task_id=_text(params, "task_id"),
            boot=caller.owner.boot if caller.owner else None,
            since=since,
            plain=since is not None,
        )
        task_id, text = found or (None, None)
        if since is None and caller.owner is not None:
            if task_id is not None and not gateway.asks_user(self._shell, task_id):
                runs.resume(self._shell, task_id, caller)
            text = gateway.after_question(self._shell, session_key, text, caller.host)
        return {"task_id": task_id, "text": text}

    def _question(self, _: Params, caller: Caller) -> JsonValue:
        """Return what puts a session's open question before its agent, if one is."""
        if caller.session_key is None:
            raise InvalidArguments("question takes a session_key.")
        return {"text": gateway.question(self._shell, caller.session_key, caller.host)}

    def _command(self, params: Params, caller: Caller) -> JsonValue:
        """Do what a person says in a session's chat, and return what they read."""
        try:
            command = Command(_text(params, "command") or "")
        except ValueError:
            known = ", ".join(Command)
            raise InvalidArguments(f"command takes one of: {known}.") from None
        words = _text(params, "words") or ""
        reply = task_commands.obey(self._shell, command, words, caller)
        return reply.model_dump(mode="json")

    def _budget(self, _: Params, caller: Caller) -> JsonValue:
        """Return what the current step of a session's task may still call."""
        left = caller.owner and turns.budget_of(self._shell, caller.owner)
        return {"budget": left.model_dump(mode="json") if left else None}

    def _finalize(self, params: Params, caller: Caller) -> JsonValue:
        """Return why a session's last words are not so; None: they may go out."""
        if caller.session_key is None:
            raise InvalidArguments("finalize takes a session_key.")
        said, owner = _text(params, "said") or "", caller.owner
        found = None
        if owner is not None and self._settings.hold_back:
            found = evidence.doubt_answer(self._shell, owner, said)
        task_id, why = found or (None, None)
        return {"task_id": task_id, "refused": why}

    def _accept(self, process: str | None, params: Params) -> JsonValue:
        """Complete a task whose completion was refused, as a person says."""
        because = _text(params, "because")
        given = str(params.get("id", ""))
        accepted = tasks.accept(self._shell, given, because, process)
        return {
            "task_id": accepted.task.task_id,
            "status": accepted.task.status,
            **ledger.describe(accepted.ledger or ()),
            "message": f"{accepted.task.task_id} is completed, as you say.",
        }

    def _tools(self, profile: object) -> JsonValue:
        return [
            {
                "name": tool.name,
                "description": tool.description,
                "inputSchema": tool.input_schema,
            }
            for tool in self._offered(profile)
        ]

    def _offered(self, profile: object) -> tuple[Tool, ...]:
        known = profile if profile in catalog.PROFILES else self._settings.tools
        recalls = bool(self._shell.seams.recall_sources())
        return catalog.list_offered(str(known), recalls=recalls)

    def _show(self, params: Params) -> JsonValue:
        before = params.get("before")
        page = before if isinstance(before, int) and before < 2**63 else None
        kept = partial(self._album.view, now=self._shell.clock.now())
        return views.show(self._shell, str(params.get("id", "")), kept, page)

    def _status(self) -> JsonValue:
        return {
            "running": True,
            "pid": os.getpid(),
            "version": __version__,
            **self._told,
            "now": iso_millis(self._shell.clock.now()),
            **views.counts(self._shell),
            "unsent": views.unsent(self._shell),
            "readers": self._readers.view() if self._readers else [],
            "gateways": self.gateways.view(),
        }


def _text(params: Params, name: str) -> str | None:
    value = params.get(name)
    return value if isinstance(value, str) and value else None


def _words(params: Params, name: str) -> str | None:
    """Return what a user said, as far as it is text that can be kept."""
    said = _text(params, name)
    return said and said.encode(errors="replace").decode()


def _key(params: Params, name: str) -> str | None:
    key = _text(params, name)
    fault = None if key is None else too_long(key)
    if fault is not None:
        raise InvalidArguments(f"{name} {fault}. Nothing was written.")
    return key


def _by_relay(host: Host | None, home: str | None) -> Caller:
    """Return a relay's agent: it holds what it has claimed as its process."""
    process, folder, client = host or Host()
    owner = Owner(role="agent", process=process, home=home) if process else None
    at = ways.host_of_client(client)
    return Caller(process=process, owner=owner, host=at, folder=folder, home=home)


def _looks(params: Params) -> bool:
    return catalog.looks(str(params.get("tool")), params.get("arguments"))


def _tool_call(params: Params) -> tuple[str, dict[str, object]]:
    name, given = params.get("tool"), params.get("arguments")
    if not isinstance(name, str) or not isinstance(given, dict):
        raise InvalidArguments("A call takes a tool's name and an object.")
    return name, cast("dict[str, object]", given)
