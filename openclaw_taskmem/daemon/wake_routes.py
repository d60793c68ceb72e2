"""Choose the transport of a wake: that of its agent's own gateway, or the first that reaches it.

The transports of each plug-in deliver on an event loop of their own: a delivery that blocks holds
up no other.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, cast

from pydantic import JsonValue

from openclaw_taskmem.config import Settings
from openclaw_taskmem.daemon.plugin_loops import PluginLoop, PluginLoops
from openclaw_taskmem.domain import callers
from openclaw_taskmem.domain.callers import GatewayPresence, find_transport
from openclaw_taskmem.losses import hide_password
from openclaw_taskmem.plugin_host.plugin_host import PluginHost
from openclaw_taskmem.settings_report import list_changed_settings, name_setting
from taskmem_hookspecs import (
    AgentHost,
    SelectiveHost,
    SelectiveTransport,
    TaskmemError,
    VolatileTransport,
    Wake,
    WakeReceipt,
    WakeTransport,
    WakeUndelivered,
)

log = logging.getLogger(__name__)

OUTPUT: Final = 1
"""File descriptor of standard output."""

_FindWay = Callable[[str | None], WakeTransport | None]
"""Returns the transport of an agent's own gateway; None: use one of the home's."""


class RoutingTransport:
    """Implements `WakeTransport` by passing each wake to the first transport that reaches it."""

    def __init__(
        self, transports: Sequence[WakeTransport], find_own: _FindWay = lambda _host: None
    ) -> None:
        """Take the home's transports in order, and a function that finds an agent's gateway's."""
        self.name = ", ".join(each.name for each in transports)
        self._transports = transports
        self._find_own = find_own
        self._choice_loop = PluginLoop("deliveries")
        self._delivery_loops = PluginLoops()

    def reaches(self, host: str | None, session_key: str | None) -> bool:
        """Return True if a transport can deliver to the agent of this host and session.

        A transport that is not selective reaches all. If one raises, it reaches nobody: then no
        wake is promised, and wakes are kept until they are fetched.
        """
        return self._find_transport(host, session_key) is not None

    def find_name(self, host: str | None, session_key: str | None) -> str | None:
        """Return the name of the transport that reaches this agent; None: none does."""
        found = self._find_transport(host, session_key)
        return None if found is None else found.name

    def list_volatile(self) -> frozenset[str]:
        """Return the names of the home's transports of which a session's end loses messages."""
        return frozenset(x.name for x in self._transports if isinstance(x, VolatileTransport))

    async def deliver(self, wake: Wake) -> WakeReceipt:
        """Deliver a wake; return or raise the transport's result.

        Raises:
            WakeUndelivered: No transport reaches its agent any more.
        """
        return await (await self.choose(wake)).deliver(wake)

    async def choose(self, wake: Wake) -> WakeTransport:
        """Return the first transport that reaches a wake's agent, on that plug-in's loop.

        Raises:
            WakeUndelivered: None does any more.
        """
        return await self._choice_loop.call(lambda: self._choose(wake))

    async def _choose(self, wake: Wake) -> WakeTransport:
        transport = self._find_transport(wake.host, wake.session_key)
        if transport is None:
            raise WakeUndelivered(f"No transport reaches {wake.host or 'its agent'} now.")
        return _LoopedTransport(transport, self._delivery_loops.get_loop(transport))

    def _find_transport(self, host: str | None, session_key: str | None) -> WakeTransport | None:
        own = self._find_own(host)
        asked = self._transports if own is None else (own,)
        return next((each for each in asked if reaches(each, host, session_key)), None)


class _LoopedTransport:
    """A plug-in's transport, which delivers on that plug-in's loop."""

    def __init__(self, transport: WakeTransport, plugin_loop: PluginLoop) -> None:
        self.name = transport.name
        self._transport = transport
        self._plugin_loop = plugin_loop

    async def deliver(self, wake: Wake) -> WakeReceipt:
        receipt = await self._plugin_loop.call(lambda: self._transport.deliver(wake))
        if not isinstance(cast("object", receipt), WakeReceipt):
            return receipt  # whoever asked for the delivery says so
        return receipt.model_copy(update={"transport": receipt.transport or self.name})


def reaches(part: WakeTransport | AgentHost, host: str | None, session_key: str | None) -> bool:
    """Return whether a transport or a host reaches a session; one that is not selective does."""
    if not isinstance(part, SelectiveTransport | SelectiveHost):
        return True
    try:
        return part.reaches(host, session_key)
    except Exception:
        name = getattr(part, "name", type(part).__qualname__)
        log.exception("%s failed to answer whether it reaches a session", name)
        return False


def build_routing_transport(
    settings: Settings,
    plugin_host: PluginHost,
    environ: Mapping[str, str],
    gateways: Callable[[], Sequence[GatewayPresence]],
) -> tuple[RoutingTransport, Mapping[str, JsonValue]]:
    """Return the transport for the home's wakes, and facts on the home for `status`.

    Only the transports that the settings name deliver; `auto` names all. Where the environment
    names some, an agent's own gateway comes first.

    `environ` includes the home's settings file; `gateways` returns the connected ones, for any
    thread.

    Raises:
        TaskmemError: There is no such transport.
    """
    named = callers.split_names(settings.wake_transport)
    names, why = callers.choose_transports(named, is_read=is_output_read(environ))
    setting = name_setting(settings, "wake_transport")
    transports = plugin_host.find_wake_transports(names, setting)
    is_own_first = not (callers.ANY_TRANSPORT in named or "wake_transport" in settings.in_file)
    find_own = partial(_find_own_transport, plugin_host, gateways, {})
    routing = RoutingTransport(transports, find_own if is_own_first else lambda _host: None)
    if why:
        log.warning("wakes go out by %s: %s", routing.name, why)
    status: dict[str, JsonValue] = {
        "home": str(settings.home.folder),
        "database": hide_password(settings.database),
        "settings": {**list_changed_settings(settings, environ)},
        "transport": routing.name,
        "transport_note": why,
    }
    return routing, status


def _find_own_transport(
    plugin_host: PluginHost,
    gateways: Callable[[], Sequence[GatewayPresence]],
    known: dict[str, WakeTransport],
    host: str | None,
) -> WakeTransport | None:
    """Return the transport of an agent's own gateway; None: not connected, or no such transport.

    It takes precedence over a transport named in the daemon's environment. `known` caches
    transports by name.
    """
    name = find_transport(host, gateways())
    if name is None:
        return None
    if name not in known:
        try:
            [known[name], *_] = plugin_host.find_wake_transports([name])
        except TaskmemError as error:
            log.warning("a gateway takes wakes by %s: %s", name, error)
            return None
    return known[name]


def is_output_read(environ: Mapping[str, str], descriptor: int = OUTPUT) -> bool:
    """Return True if something reads standard output: it is a terminal, a pipe or a socket.

    False for a file and for the journal of systemd, which are logs, and for the null device.
    """
    try:
        found = os.fstat(descriptor)
    except OSError:
        return False
    if stat.S_ISCHR(found.st_mode):
        return os.isatty(descriptor)
    if environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}":
        return False
    return stat.S_ISFIFO(found.st_mode) or stat.S_ISSOCK(found.st_mode)
