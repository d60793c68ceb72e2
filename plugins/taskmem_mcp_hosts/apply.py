"""Set up, undo and remove in Claude Code or Codex.

The host's own command runs first; then its file is checked, and corrected if it is not as intended.
An existing entry is changed only in the file: the commands cannot change entries, and every user of
the machine can read their arguments.
"""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Any

from taskmem_hookspecs.installing import SERVER, describe_data, find_home
from taskmem_mcp_hosts import host_cli
from taskmem_mcp_hosts.config_files import to_object
from taskmem_mcp_hosts.hosts import (
    OURS,
    Arguments,
    McpHost,
    find_kept_home,
    find_usual_home,
    make_entry,
)

Environ = Mapping[str, str]


def set_up_host(host: McpHost, environ: Environ, *, dry_run: bool) -> list[str]:
    """Add the entry and the skill; return lines that say what was done.

    Raises:
        HostSetupFailed: A file is broken, or belongs to others.
        NotOurs: There is another skill of that name.
        OSError: A file cannot be written.
    """
    before = host.text
    there = host.find_own_server(before)
    entry = make_entry(there)
    after, in_place = host.put(before, entry), host.skill.in_place
    home = _describe_kept_home(there)
    if before == after and in_place:
        return ["Everything is in place; nothing was changed.", *home]
    command: Arguments = ()
    if there is None and host.adding is not None:
        command = _find_command(host.adding(entry), environ)
    if dry_run:
        skill = [] if in_place else [f"would write the skill {host.skill.file}"]
        return [
            *_format_difference(host, before, after),
            *_describe_command(command),
            *skill,
            *home,
        ]
    notes = [] if before == after else _change_file(host, before, entry, command, environ)
    kept = [] if in_place else host.skill.write()
    where = f"the MCP server {SERVER} ({host.file}) and the skill ({host.skill.folder})"
    done = f"{host.name} has {where}; start a new session there. {host.consent}"
    if not host.is_installed(environ.get("PATH")):
        done = f"{host.name} will find {where} once it is installed. {host.consent}"
    return [*notes, done.rstrip(), *kept, *home, host.wake_note]


def remove_from_host(host: McpHost, environ: Environ, *, dry_run: bool) -> list[str]:
    """Remove the entry and the skill; return lines that say what was done.

    Raises:
        HostSetupFailed: A file is broken, or the server of that name is not ours.
        NotOurs: The skill of that name is not ours.
        OSError: A file cannot be written.
    """
    lines = _remove_traces(host, environ, dry_run=dry_run)
    if not dry_run:
        host.backup.forget()
    return lines


def undo_host_setup(host: McpHost, environ: Environ, *, dry_run: bool) -> list[str]:
    """Restore the file from before the last set-up; return lines that say what was done.

    If others have changed it since, only our own parts are removed.

    Raises:
        HostSetupFailed: A file is broken, or the server of that name is not ours.
        NotOurs: The skill of that name is not ours.
        OSError: A file cannot be written.
    """
    now, backup = host.text, host.backup
    before = backup.load(now)
    if before is None:
        lines = _remove_traces(host, environ, dry_run=dry_run)
        if backup.copy.exists():
            lines.append(
                f"{host.file} is not as set-up left it, so it is not put back as a "
                f"whole; what it said before stays as {backup.copy}."
            )
        return lines
    stays = host.find_own_server(before) is not None or host.skill.there is None
    if dry_run:
        skill = [] if stays else [f"would remove the skill {host.skill.folder}"]
        shown = _format_difference(host, now, before)
        return [*shown, f"would put back {host.file} as it was before", *skill]
    host.write(now, before)
    kept = [] if stays else host.skill.remove()
    host.remove_empty_folders()
    backup.forget()
    return [f"{host.file} is as it was before the last set-up.", *kept]


def _remove_traces(host: McpHost, environ: Environ, *, dry_run: bool) -> list[str]:
    before = host.text
    server, there = host.find_own_server(before), host.skill.there is not None
    if server is None and not there:
        places = f"{host.file} and {host.skill.folder}"
        return [f"{host.name} has no trace of taskmem in {places}."]
    skill = [f"the skill ({host.skill.folder})"] if there else []
    command: Arguments = ()
    if server is not None:
        command = _find_command(host.removing, environ)
    if dry_run:
        after = before if server is None else host.put(before, None)
        shown = [*_format_difference(host, before, after), *_describe_command(command)]
        if after != before and host.is_needless(after):
            shown.append(f"would remove {host.file}, which has nothing else in it")
        if there:
            shown.append(f"would remove the skill {host.skill.folder}")
        return shown
    notes: list[str] = []
    if server is not None:
        notes = _change_file(host, before, None, command, environ)
        skill.insert(0, f"the MCP server {SERVER} ({host.file})")
    kept = host.skill.remove() if there else []
    host.remove_empty_folders()
    home = to_object((server or {}).get("env")).get("TASKMEM_HOME") or find_home()
    gone = f"Removed from {host.name}: {' and '.join(skill)}."
    return [*notes, " ".join((gone, *describe_data(str(home)))), *kept]


# --- the file -----------------------------------------------------------------


def _change_file(
    host: McpHost, before: str, entry: dict[str, Any] | None, command: Arguments, environ: Environ
) -> list[str]:
    """Write the entry (None: remove it); return a note if the host's command failed to.

    Raises:
        HostSetupFailed: The file changed meanwhile, or cannot be read.
        OSError: A file cannot be written.
    """
    backup, old = host.backup, host.find_entry(before)
    if host.is_empty(host.put(before, None)):
        backup.forget()  # there is nothing of others
    else:
        backup.keep(before)
    now, base, meant, notes = before, before, False, list[str]()
    if command:
        why = _run_host_command(host, before, command, environ)
        now = host.text
        kept = host.keeps(before, now)
        found = host.find_entry(now) if kept else None
        meant = kept and (found is None if entry is None else _has_entry(found, entry))
        base = now if kept and (meant or found in (None, old)) else before
        if not meant:
            kept_not = "it changed what is not ours, which is put back"
            why = why or ("it is not as it should be" if kept else kept_not)
            what = shlex.join(command[:3])
            notes = [f"note: {what} did not do it ({why}), so taskmem wrote the file."]
    after = now if meant and entry is not None else host.put(base, entry)
    if now != after or host.is_needless(after):
        host.write(now, after)
    backup.finish(after)
    return notes


def _run_host_command(host: McpHost, before: str, command: Arguments, environ: Environ) -> str:
    """Run the host's own command; return why it failed, or "" if it reports success.

    If the command changed `beside`, that file is restored; if this was interrupted, the host's own
    file is restored too.
    """
    beside = None if host.beside is None else host._replace(file=host.beside)
    aside = "" if beside is None else beside.text
    try:
        with TemporaryDirectory() as empty:
            return host_cli.run_command(command, host.project or Path(empty), environ)
    except BaseException:
        if not host.keeps(before, host.text):
            host.write(host.text, before)
        raise
    finally:
        if beside is not None and not beside.keeps_all(aside, beside.text):
            beside.write(beside.text, aside)


def _find_command(command: Arguments, environ: Environ) -> Arguments:
    """Return the host's own command; empty if it is not installed."""
    return command if command and which(command[0], path=environ.get("PATH")) else ()


def _has_entry(found: Mapping[str, Any] | None, entry: Mapping[str, Any]) -> bool:
    """Return whether the host's entry contains everything of ours; it may contain more."""
    return found is not None and {**found, **entry} == found


# --- what is said -------------------------------------------------------------


def _describe_command(command: Arguments) -> list[str]:
    return [f"would run: {shlex.join(command)}"] if command else []


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
        shown = {name: env[name] if name in OURS else "…" for name in env}
        entry = {**entry, "env": shown}
    if host.file.suffix == ".toml":
        return host.put("", {**entry}).splitlines()
    return json.dumps(entry, indent=2, ensure_ascii=False).splitlines()
