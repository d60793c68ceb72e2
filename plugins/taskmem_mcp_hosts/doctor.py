"""Check Claude Code and Codex for `taskmem doctor`: one row for each that is set up."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from taskmem_hookspecs import Checkup, DoctorRow, DoctorState
from taskmem_mcp_hosts.config_files import to_object
from taskmem_mcp_hosts.hosts import (
    PLUGIN,
    HostSetupFailed,
    McpHost,
    build_claude_host,
    build_codex_host,
    describe_path,
    find_usual_home,
)
from taskmem_setup import SERVER, NotOurs, find_home

HOSTS: Final = {"claude": build_claude_host, "codex": build_codex_host}
"""Builders of the hosts, by their name in `taskmem setup`."""


class HostsCheck:
    """`DoctorCheck` of MCP hosts."""

    name = "hosts"
    costs = False

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        """Set the environment, which locates the hosts' files."""
        self._environ = environ

    async def look(self, checkup: Checkup) -> AsyncIterator[DoctorRow]:
        """Yield a row for each host that has our server."""
        for host, row in _check_hosts(self._environ):
            note = host.wake_note
            if host.transport not in checkup.transports:
                used = ", ".join(checkup.transports) or "no transport"
                note = (
                    f"Its sessions are not woken: wakes go out by {used} (setting wake_transport)."
                )
            is_ok = row.state is DoctorState.OK
            yield row.model_copy(update={"detail": f"{row.detail} {note}"}) if is_ok else row


def _check_hosts(environ: Mapping[str, str]) -> Iterator[tuple[McpHost, DoctorRow]]:
    """Yield each host that is set up for its user or in this folder, with its row."""
    seen: set[Path] = set()
    for name, host_of in HOSTS.items():
        for project in (None, Path.cwd()):
            host = host_of(environ, project)
            if host.file in seen:
                continue
            seen.add(host.file)
            how = "" if project is None else f" --project {project}"
            cure = f"Run: taskmem setup {name}{how}"
            try:
                server = host.find_own_server(host.text)
                if host.has_plugin:
                    yield host, _check_plugin(name, host, cure, describe_path(environ), server)
                elif server is not None:
                    yield host, _check_host(name, host, server, cure, describe_path(environ))
            except (HostSetupFailed, NotOurs, OSError) as error:
                yield host, _build_row(name, DoctorState.WARN, f"{host.name}: {error}", None)


def _check_host(
    name: str, host: McpHost, server: Mapping[str, Any], cure: str, lacks: str | None
) -> DoctorRow:
    """Check one host's server and skill; `lacks` says what its agent cannot run."""
    program = str(server.get("command"))
    own = to_object(server.get("env")).get("TASKMEM_HOME")
    home = Path(str(own)) if own else find_usual_home()
    has = f"{host.name} has the MCP server {SERVER} ({host.file})"
    if shutil.which(program) is None:
        gone = f"{has}, and its command {program} is not there."
        return _build_row(name, DoctorState.FAIL, gone, cure)
    if home != find_home():
        other = f"{has} for the home {home}; this is {find_home()}."
        wanted = f"{cure}, or see that home: TASKMEM_HOME={home} taskmem doctor"
        return _build_row(name, DoctorState.WARN, other, wanted)
    if not host.skill.in_place:
        older = f"{has}, and not this version's skill ({host.skill.folder})."
        return _build_row(name, DoctorState.WARN, older, cure)
    if not host.has_hooks(server):
        older = f"{has}, and not this version's hooks ({host.hooks})."
        return _build_row(name, DoctorState.WARN, older, cure)
    if lacks is not None:
        unfound = f"{has}, the hooks and the skill; its agent does not find the command taskmem."
        return _build_row(name, DoctorState.WARN, unfound, lacks)
    return _build_row(name, DoctorState.OK, f"{has}, the hooks and the skill.", None)


def _check_plugin(
    name: str, host: McpHost, cure: str, lacks: str | None, server: Mapping[str, Any] | None
) -> DoctorRow:
    """Check a host with our plug-in; `server`: set-up has put in the same a second time."""
    has = f"{host.name} has the plug-in {PLUGIN}"
    if server is not None:
        twice = f"{has}, and what taskmem setup {name} puts in: each hook is called twice."
        return _build_row(name, DoctorState.WARN, twice, f"{cure} --remove")
    if lacks is not None:
        unfound = f"{has}, which does not find the command taskmem."
        return _build_row(name, DoctorState.WARN, unfound, lacks)
    return _build_row(name, DoctorState.OK, f"{has}.", None)


def _build_row(name: str, state: DoctorState, detail: str, cure: str | None) -> DoctorRow:
    return DoctorRow(id=f"hosts.{name}", state=state, detail=detail, cure=cure)
