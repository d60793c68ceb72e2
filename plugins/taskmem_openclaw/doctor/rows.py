"""Check OpenClaw for `taskmem doctor`: command, configuration, gateway and transports.

OpenClaw's command is called at most twice: for its version, and for the included part of its
configuration, if there is one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from taskmem_hookspecs import Checkup, DoctorRow, DoctorState, TaskmemError
from taskmem_openclaw import configuration, plugin_socket
from taskmem_openclaw.json_values import find_value, to_object
from taskmem_openclaw.setup import package_files, plan
from taskmem_openclaw.setup.config_edits import SETUP
from taskmem_openclaw.setup.openclaw import OLDEST_VERSION
from taskmem_openclaw.transports import BEST_AVAILABLE, OPENCLAW_TRANSPORTS
from taskmem_openclaw.transports.webhook import find_stranger
from taskmem_program.process_groups import start_in_group

if TYPE_CHECKING:
    import httpx

_COMMAND_SECONDS: Final = 25.0
"""Time limit of OpenClaw's command, most of it start-up. Seconds."""
_GATEWAY_SECONDS: Final = 5.0
"""Time limit of one request to the gateway. Seconds."""
_UPDATE: Final = "Run: openclaw update"
_START: Final = "Run: openclaw gateway start (or, in a terminal: openclaw gateway run)"
RELOAD: Final = (
    f"Run: openclaw plugins reload {plan.PLUGIN} (or, while an agent is at work, which it refuses: "
    "openclaw gateway restart)"
)
_WAIT: Final = (
    "Run this again once the gateway is less busy; if it never is: openclaw gateway restart"
)
Gateways = Sequence[Mapping[str, Any]]


def _build_row(
    state: DoctorState, name: str, detail: str, cure: str | None = None, effect: str | None = None
) -> DoctorRow:
    return DoctorRow(id=f"openclaw.{name}", state=state, detail=detail, cure=cure, effect=effect)


ok = partial(_build_row, DoctorState.OK)
"""Builds the row of a working link, from its name and details."""
off = partial(_build_row, DoctorState.OFF)
"""Builds the row of a link that is not in use, with its cure and effect."""
warn = partial(_build_row, DoctorState.WARN)
"""Builds the row of a link that works with a loss, with its cure."""
fail = partial(_build_row, DoctorState.FAIL)
"""Builds the row of a broken link, with its cure."""


def find_cure(error: Exception) -> str:
    """Return what mends that the plug-in did not answer a request."""
    return _WAIT if isinstance(error, plugin_socket.PluginTooLate) else RELOAD


class OpenClawCheck:
    """`DoctorCheck` of OpenClaw."""

    name = "openclaw"
    costs = False

    def __init__(
        self,
        environ: Mapping[str, str] = os.environ,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Set the environment and the HTTP transport; None: the network."""
        self._environ = environ
        self._transport = transport

    async def look(self, checkup: Checkup) -> AsyncIterator[DoctorRow]:
        """Yield a row for each link, or one row if OpenClaw is not used."""
        gateways = await await_gateways(checkup, self._environ, plugin_socket.LOAD_SECONDS)
        named = BEST_AVAILABLE not in checkup.transports
        if named and not {*OPENCLAW_TRANSPORTS} & {*checkup.transports} and not gateways:
            used = ", ".join(checkup.transports) or "none"
            yield off("used", f"Wakes do not go to OpenClaw; the transports are: {used}.")
            return
        binary = self._environ.get("TASKMEM_OPENCLAW_BIN") or "openclaw"
        program = shutil.which(binary, path=self._environ.get("PATH"))
        others = any(row.id.startswith("hosts.") for row in checkup.rows)
        unused = not gateways and not named and (others or program is None)
        if unused and _is_absent(self._environ):
            yield _build_unused_row(others=others)
            return
        yield await _check_version(binary, program, self._environ, found=bool(gateways))
        file = configuration.find_config_file(self._environ)
        config, row = _check_configuration(file, self._environ)
        yield row
        if config is None:
            return
        if not named and _is_absent(self._environ):
            yield _build_removed_row(file) if gateways else _build_unused_row(others=others)
            return
        if program is not None and configuration.has_includes(config):
            plugins = await _read_included_plugins(program, self._environ)
            config = config if plugins is None else {**config, "plugins": plugins}
        state, bundle = configuration.find_state_folder(self._environ), False
        desired = package_files.build_desired_state(config, "", state)
        for row in _check_configured_links(config, state, desired):
            bundle = bundle or row.id == "openclaw.bundle"
            yield row
        asking = GatewayProbe(config, gateways, self._environ, self._transport)
        async for row in asking.check_ways(program, bundle=bundle):
            yield row


def _build_unused_row(*, others: bool) -> DoctorRow:
    """Say that OpenClaw is not used; `others`: other hosts are set up."""
    detail = "OpenClaw is not set up."
    if others:
        return off("used", detail)
    cure = "Set up the host of your agent: taskmem setup openclaw, or claude, or codex"
    return off("used", detail, cure, "Nothing can wake an agent yet.")


def _build_removed_row(file: Path) -> DoctorRow:
    """Say that a gateway runs our plug-in, of which its configuration has nothing."""
    return warn(
        "used",
        f"A gateway runs the plug-in, and {file} has nothing of it.",
        "If you have removed it, run: openclaw gateway restart. Else set OPENCLAW_CONFIG_PATH as "
        "the gateway has it.",
    )


# --- the command and the configuration ----------------------------------------


async def _check_version(
    binary: str, program: str | None, environ: Mapping[str, str], *, found: bool
) -> DoctorRow:
    """Check OpenClaw's command and version; `found`: a gateway is connected."""
    oldest = ".".join(map(str, OLDEST_VERSION))
    if program is None:
        sentence = f"There is no command {binary} on the PATH."
        cure = (
            "Install OpenClaw, or name its command as openclaw_bin in config.toml; to "
            "do without it, remove wake_transport and TASKMEM_WAKE_TRANSPORT."
        )
        return (warn if found else fail)("version", sentence, cure)
    output = await _run_openclaw(program, ("--version",), environ)
    number = re.search(r"\b(\d{4})\.(\d+)(?:\.(\d+))?\b", output or "")
    if number is None:
        return warn(
            "version",
            f"{program} does not tell its version.",
            f"See what this says: {program} --version",
        )
    if tuple(map(int, number.groups(default=0))) < OLDEST_VERSION:
        return fail(
            "version", f"OpenClaw is {number[0]}, and the plug-in needs {oldest} or newer.", _UPDATE
        )
    return ok("version", f"OpenClaw {number[0]} is {program}.")


def _check_configuration(
    file: Path, environ: Mapping[str, str]
) -> tuple[Mapping[str, Any] | None, DoctorRow]:
    """Read OpenClaw's configuration; None: it is missing or unreadable."""
    found = configuration.read_config(environ)
    if found is not None:
        return found, ok("configuration", f"{file} is OpenClaw's configuration.")
    if not file.exists():
        return None, fail(
            "configuration",
            f"OpenClaw has no configuration in {file}.",
            "Run: openclaw onboard (or set OPENCLAW_CONFIG_PATH as the gateway has it)",
        )
    cure = "Run: openclaw config validate"
    return None, fail("configuration", f"{file} cannot be read.", cure)


async def _read_included_plugins(
    program: str, environ: Mapping[str, str]
) -> Mapping[str, Any] | None:
    output = await _run_openclaw(program, ("config", "get", "plugins", "--json"), environ)
    try:
        found: object = json.loads(output or "")
    except (ValueError, RecursionError):
        return None
    return to_object(found) or None


async def _run_openclaw(
    program: str, arguments: Sequence[str], environ: Mapping[str, str]
) -> str | None:
    """Return the output of OpenClaw's command; None: it failed or timed out."""
    command, own = (program, *arguments), configuration.build_environment(environ)
    try:
        async with (
            start_in_group(command, own, stdout=PIPE) as (process, _),
            asyncio.timeout(_COMMAND_SECONDS),
        ):
            output, _ = await process.communicate()
    except OSError:  # also of time
        return None
    return output.decode(errors="replace") if process.returncode == 0 else None


# --- the gateway --------------------------------------------------------------


class GatewayProbe:
    """Checks that the gateway runs and which transports reach it."""

    def __init__(
        self,
        config: Mapping[str, Any],
        gateways: Gateways,
        environ: Mapping[str, str],
        transport: httpx.AsyncBaseTransport | None,
    ) -> None:
        """Set the configuration, the connected gateways, the environment and the transport."""
        self._config = config
        self._gateways = gateways
        self._environ = environ
        self._transport = transport
        port = configuration.find_local_port(config, environ)
        self._url = f"http://127.0.0.1:{port or configuration.DEFAULT_PORT}"

    async def check_ways(self, program: str | None, *, bundle: bool) -> AsyncIterator[DoctorRow]:
        """Yield rows for the gateway, what it can show, each transport, and heartbeats.

        `program` is OpenClaw's command; None: not installed. `bundle`: used instead of the plug-in.
        """
        there = await self._request_status("GET", f"{self._url}/healthz") is not None
        if self._gateways:
            yield _check_connected(self._gateways)
            opened = await self._check_socket()
            yield opened
            if opened.state is DoctorState.OK:
                async for row in self._check_abilities():
                    yield row
        elif not there:
            yield fail("gateway", f"No gateway listens at {self._url}.", _START)
        elif bundle:
            yield ok("gateway", f"A gateway runs at {self._url}, with the bundle.")
        else:
            cure = f"Mend what is said above; else {RELOAD[0].lower()}{RELOAD[1:]}"
            lost = f"A gateway runs at {self._url}, and its plug-in is not connected here."
            yield fail("gateway", lost, cure)
        yield await self._check_webhooks(there=there, bundle=bundle)
        if program is None:
            lost = "Without OpenClaw's command, wakes have no way but those above."
            yield warn("cli", lost, "Set TASKMEM_OPENCLAW_BIN to it.")
        else:
            yield ok("cli", f"Else wakes go by {program}, in seconds.")
        if there and not self._gateways:
            yield warn(
                "heartbeats",
                "Without the plug-in, wakes are lost while heartbeats are switched off, "
                "and the gateway does not tell whether they are.",
                "Run: openclaw system heartbeat enable",
            )
        else:
            yield ok("heartbeats", "Wakes do not depend on heartbeats.")

    async def _check_socket(self) -> DoctorRow:
        path = plugin_socket.find_socket(self._environ)
        try:
            # A plug-in that is being reloaded does not listen for a moment.
            await plugin_socket.wait_for_listener(path, plugin_socket.LOAD_SECONDS)
            await plugin_socket.ask_gateway(path, "seen", _GATEWAY_SECONDS, session_key="")
        except (plugin_socket.PluginNotListening, plugin_socket.PluginRequestFailed) as error:
            sentence = f"Wakes do not get into the gateway: {error}."
            return fail("door", sentence, find_cure(error))
        return ok("door", f"Wakes get into the gateway by {path}.")

    async def _check_abilities(self) -> AsyncIterator[DoctorRow]:
        """Check whether OpenClaw can show users notices and cards."""
        try:
            path = plugin_socket.find_socket(self._environ)
            answer = await plugin_socket.ask_gateway(path, "lacks", _GATEWAY_SECONDS)
        except (plugin_socket.PluginNotListening, plugin_socket.PluginRequestFailed) as error:
            sentence = f"Whether users can be told of their tasks is not known: {error}."
            yield warn("notices", sentence, find_cure(error))
            return
        yield ok("notices", "Users are told of their tasks where they are.")
        yield _build_views_row(to_object(answer.get("shown")))

    async def _check_webhooks(self, *, there: bool, bundle: bool) -> DoctorRow:
        """Check whether webhooks are on and accept their token."""
        if find_value(self._config, ("hooks", "enabled")) is not True:
            command = "so wakes go by OpenClaw's command"
            way = command if bundle else "which is fine with the plug-in"
            return ok("webhooks", f"Webhooks are off, {way}.")
        hooks = configuration.find_webhooks(self._environ)
        if hooks is None:
            return warn(
                "webhooks",
                "Webhooks are on, and their token (hooks.token) cannot be read here.",
                "Write it into OpenClaw's configuration, or switch them off.",
            )
        if not there:
            return ok("webhooks", f"Webhooks are on at {hooks.url}; nobody listens now.")
        return await self._try_token(hooks)

    async def _try_token(self, hooks: configuration.Webhooks) -> DoctorRow:
        """Try the token with a request that is refused because it has no text."""
        if (stranger := find_stranger(hooks.port)) is not None:
            return fail(
                "webhooks",
                f"User {stranger} listens at {hooks.url}, and gets no token.",
                "End that process, or run the gateway as this user",
            )
        bearer = {"Authorization": f"Bearer {hooks.token}"}
        found = await self._request_status("POST", f"{hooks.url}/wake", bearer)
        match found:
            case 401 | 403:
                return fail(
                    "webhooks",
                    f"The gateway refuses the token of its webhooks at {hooks.url} (hooks.token).",
                    "Run: openclaw gateway restart (or mend hooks.token)",
                )
            case 400:
                return ok("webhooks", f"Webhooks at {hooks.url} take the token.")
            case _:
                return warn(
                    "webhooks",
                    f"The webhook at {hooks.url} answers {found}.",
                    "See hooks.path in OpenClaw's configuration.",
                )

    async def _request_status(
        self, verb: str, url: str, headers: Mapping[str, str] | None = None
    ) -> int | None:
        """Return the HTTP status of the response; None: there was none."""
        import httpx

        body = {"text": ""} if verb == "POST" else None
        try:
            async with httpx.AsyncClient(
                transport=self._transport, timeout=_GATEWAY_SECONDS, trust_env=False
            ) as client:
                found = await client.request(verb, url, json=body, headers=headers)
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError):
            return None
        return found.status_code


def _check_connected(gateways: Gateways) -> DoctorRow:
    """Check the version and number of the connected gateways."""
    version, since = package_files.read_version(), gateways[0].get("started_at")
    if stale := [each for each in gateways if each.get("version") != version]:
        return fail(
            "gateway",
            f"The gateway still runs version {stale[0].get('version')} of the plug-in, and this is "
            f"{version}.",
            RELOAD,
        )
    if gateways[1:]:
        return warn(
            "gateway",
            f"A gateway is connected since {since}, and {len(gateways) - 1} "
            "more: only the first is asked to stop turns, and for its model.",
            "Give each gateway a home of its own: set TASKMEM_HOME for the others.",
        )
    return ok("gateway", f"A gateway is connected since {since}.")


def _build_views_row(lacks: Mapping[str, object]) -> DoctorRow:
    """Report what users see; `lacks` maps what cannot be shown to the reason."""
    if not lacks:
        return ok("shown", "Users see progress cards, and buttons for questions.")
    named = " and ".join(
        f"no progress {what}" if what == "cards" else f"no {what}" for what in lacks
    )
    why = "; ".join(dict.fromkeys(str(each) for each in lacks.values()))
    return warn(
        "shown", f"This OpenClaw shows {named} ({why}); lines of text are used instead.", _UPDATE
    )


# --- gateways that are connected ---


def _read_gateways(status: object) -> Gateways:
    """Return the gateways in the daemon's status."""
    found = to_object(status).get("gateways")
    listed = cast("list[object]", found) if isinstance(found, list) else []
    return [to_object(each) for each in listed]


async def await_gateways(checkup: Checkup, environ: Mapping[str, str], seconds: float) -> Gateways:
    """Return the connected gateways; if there is none, wait up to `seconds` for one.

    A gateway is expected if its plug-in listens but is not connected: the daemon was started after
    it, and the plug-in reconnects by itself.
    """
    found = _read_gateways(checkup.status)
    if found or checkup.status is None:
        return found
    if not await plugin_socket.wait_for_listener(
        plugin_socket.find_socket(environ), plugin_socket.GLANCE
    ):
        return found
    try:
        async with asyncio.timeout(seconds):
            while True:
                with contextlib.suppress(TaskmemError):
                    if found := _read_gateways(await checkup.ask("status", {})):
                        return found
                await asyncio.sleep(plugin_socket.GLANCE)
    except TimeoutError:
        return ()


# --- what set-up would change ---


def _is_absent(environ: Mapping[str, str]) -> bool:
    """Return whether the readable configuration contains no trace of us."""
    config = configuration.read_config(environ)
    if config is None:
        return not configuration.find_config_file(environ).exists()
    ours = plan.PLUGIN, plan.BUNDLE
    entries = to_object(find_value(config, ("plugins", "entries")))
    trace = plan.list_own_servers(config) or any(name in entries for name in ours)
    return not trace and not configuration.has_includes(config)


def _check_configured_links(
    config: Mapping[str, Any], state: Path, desired: plan.DesiredState
) -> Iterator[DoctorRow]:
    """Yield a row for each link that the configuration decides: well if set-up changes nothing.

    `state`: OpenClaw's state folder.
    """
    if not package_files.list_plugin_folders(config, state):
        if find_value(config, ("plugins", "entries", plan.BUNDLE, "enabled")) is True:
            yield ok("bundle", "The MCP bundle is there in place of the plug-in.")
        else:
            yield fail("plugin", "The plug-in is not installed.", SETUP)
        return
    faults, notes = plan.find_plugin_faults(config, desired)
    found = "Past tasks are found by memory_recall, and by memory_search."
    owner = package_files.find_recall_owner(config, state)
    places = ("plugin-skills", "skills", "workspace/skills")
    has_copy = any((state / place / plan.SKILL).exists() for place in places)
    comes = "comes with the agent's next turn"
    fine = {
        "plugin": "The plug-in is installed, enabled and allowed.",
        "folder": f"OpenClaw loads the plug-in from {desired.folder}.",
        "command": f"The plug-in starts {' '.join(desired.command)}.",
        "home": f"The plug-in's home is this one, {desired.home}.",
        "conversation": "A task's packet comes back by itself.",
        "tools": "No tool policy hides the tools.",
        "doubled": "The tools are there once.",
        "recall": package_files.describe_recall_owner(owner) if owner else found,
        "skill": f"The skill {plan.SKILL} {'is in place' if has_copy else comes}.",
    }
    for name, detail in fine.items():
        if fault := faults.get(name):
            yield (fail if fault.breaks else warn)(name, fault.detail, fault.cure)
        elif name == "tools" and notes:
            cure = "Change that in OpenClaw's configuration, if it is not meant."
            yield warn(name, " ".join(notes), cure)
        else:
            yield ok(name, detail)
