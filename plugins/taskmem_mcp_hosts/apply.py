"""Set up Claude Code or Codex, and take that out again, by their files."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any

from taskmem_mcp_hosts.config_files import to_object
from taskmem_mcp_hosts.hosts import (
    OWN_VARIABLES,
    McpHost,
    find_kept_home,
    find_usual_home,
    make_entry,
)
from taskmem_setup import SERVER, describe_data, find_home

_Environ = Mapping[str, str]


def set_up_host(host: McpHost, environ: _Environ, *, dry_run: bool) -> list[str]:
    """Add the entry and the skill; return lines that say what was done.

    Raises:
        HostSetupFailed: A file is broken, or belongs to others.
        NotOurs: There is another skill of that name.
        OSError: A file cannot be written.
    """
    before = host.text
    there = host.find_own_server(before)
    after, in_place = host.put(before, make_entry(there)), host.skill.in_place
    home = _describe_kept_home(there)
    if before == after and in_place:
        return ["Everything is in place; nothing was changed.", *home]
    if dry_run:
        skill = [] if in_place else [f"would write the skill {host.skill.file}"]
        return [*_format_difference(host, before, after), *skill, *home]
    if before != after:
        host.write(before, after)
    kept = [] if in_place else host.skill.write()
    where = f"the MCP server {SERVER} ({host.file}) and the skill ({host.skill.folder})"
    done = f"{host.name} has {where}; start a new session there. {host.consent}"
    if not host.is_installed(environ.get("PATH")):
        done = f"{host.name} will find {where} once it is installed. {host.consent}"
    return [done.rstrip(), *kept, *home, host.wake_note]


def remove_from_host(host: McpHost, *, dry_run: bool) -> list[str]:
    """Remove the entry and the skill; return lines that say what was done.

    Raises:
        HostSetupFailed: A file is broken, or the server of that name is not ours.
        NotOurs: The skill of that name is not ours.
        OSError: A file cannot be written.
    """
    before = host.text
    server, has_skill = host.find_own_server(before), host.skill.there is not None
    if server is None and not has_skill:
        places = f"{host.file} and {host.skill.folder}"
        return [f"{host.name} has no trace of taskmem in {places}."]
    after = host.put(before, None)
    if dry_run:
        lines = _format_difference(host, before, after)
        if after != before and host.is_needless(after):
            lines.append(f"would remove {host.file}, which has nothing else in it")
        if has_skill:
            lines.append(f"would remove the skill {host.skill.folder}")
        return lines
    parts: list[str] = []
    if server is not None:
        host.write(before, after)
        parts.append(f"the MCP server {SERVER} ({host.file})")
    kept: list[str] = []
    if has_skill:
        kept = host.skill.remove()
        parts.append(f"the skill ({host.skill.folder})")
    host.remove_empty_folders()
    home = to_object((server or {}).get("env")).get("TASKMEM_HOME") or find_home()
    gone = f"Removed from {host.name}: {' and '.join(parts)}."
    return [" ".join((gone, *describe_data(str(home)))), *kept]


def _describe_kept_home(there: Mapping[str, Any] | None) -> list[str]:
    """Return a line that names the entry's home, if it differs from this shell's."""
    if (kept := find_kept_home(there)) is None:
        return []
    sentence = (
        f"Its home stays {kept}, which its entry names; for {find_usual_home()}, run this "
        "with --remove first, then again."
    )
    return [sentence]


def _format_difference(host: McpHost, before: str, after: str) -> list[str]:
    """Return a diff of our own entry only; the rest of the file may contain secrets."""
    path = f"{host.file} ({SERVER})"
    old, new = (_format_entry(host, host.find_own_server(text)) for text in (before, after))
    return list(difflib.unified_diff(old, new, path, path, lineterm=""))


def _format_entry(host: McpHost, entry: Mapping[str, Any] | None) -> list[str]:
    """Format an entry as lines; others' environment values are masked."""
    if entry is None:
        return []
    if env := to_object(entry.get("env")):
        shown = {name: env[name] if name in OWN_VARIABLES else "…" for name in env}
        entry = {**entry, "env": shown}
    if host.file.suffix == ".toml":
        return host.put("", {**entry}).splitlines()
    return json.dumps(entry, indent=2, ensure_ascii=False).splitlines()
