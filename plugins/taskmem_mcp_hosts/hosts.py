"""Set up Claude Code and Codex, and take that out again, by their files.

Claude Code reads `mcpServers` of `~/.claude.json` (with `CLAUDE_CONFIG_DIR`, of `.claude.json` in
that folder) or of a project's `.mcp.json`, and skills in `skills` of `~/.claude` or of a project's
`.claude`. Codex reads `[mcp_servers.…]` of `config.toml` in `~/.codex` (`CODEX_HOME`) or in a
trusted project's `.codex`, and skills in `~/.agents/skills` or a project's `.agents/skills`. Hooks
are in `settings.json` of Claude Code's folder, and in `hooks.json` beside Codex's `config.toml`.

Set-up writes these files itself. The hosts' own commands (Claude Code 2.1.332, Codex 0.171.0)
cannot change an entry, `codex mcp` rewrites all servers without their comments and unknown keys,
and every user of the machine can read their arguments.
"""

from __future__ import annotations

import difflib
import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.resources import files
from itertools import compress
from pathlib import Path
from typing import Any, Final, NamedTuple

from taskmem_mcp_hosts import hook_entries
from taskmem_mcp_hosts.config_files import (
    ClaudeJson,
    Format,
    Toml,
    Unreadable,
    parse_json,
    to_object,
)
from taskmem_program import OWN_PROGRAM
from taskmem_setup import (
    SERVER,
    TOOLS,
    Skill,
    add_seal,
    describe_data,
    find_home,
    runs_taskmem,
    write_file,
)

_OWN_VARIABLES: Final = ("TASKMEM_HOME", "TASKMEM_TOOLS", "CODEX_HOME")
"""Environment variables that we set in an entry."""

PLUGIN: Final = "taskmem-mcp@openclaw-taskmem"
"""Name of our plug-in in the hosts' own commands."""

_HOOKS_READ: Final = (
    "The hooks give the daemon on this machine every prompt and every call of a tool; SECURITY.md "
    "says what of it is kept."
)


class HostSetupFailed(Exception):
    """A step failed; `str()` says why, and what to do next."""


class McpHost(NamedTuple):
    """An MCP host, for its user or for one project."""

    name: str
    command: str
    """The command that starts it."""
    own: Path
    """Its user's folder, which contains more than our files."""
    file: Path
    """Its file of MCP servers."""
    hooks: Path
    """Its file of hooks, which may have other settings."""
    events: tuple[str, ...]
    """Events for which it calls hooks, and that we answer."""
    outer: str
    """The key of all MCP servers in `file`."""
    skill: Skill
    folders: tuple[Path, ...]
    """Folders that we may have created, innermost first."""
    format: Format
    when_closed: str
    """A sentence on what becomes of a wake for a closed session."""
    consent: str
    """A sentence on what a person has yet to allow there; empty: nothing."""
    transport: str
    """Delivers wakes to its sessions, if the setting `wake_transport` names it or none."""
    variables: Mapping[str, str] = {}
    """Variables that our server needs, and that the host does not pass on."""
    hooks_consent: str = ""
    """A sentence on how a person allows the hooks there; empty: nobody needs to."""

    @property
    def wake_note(self) -> str:
        """A sentence on how its agents are woken."""
        return f"{self.name} is woken in the session that asked. {self.when_closed}"

    @property
    def text(self) -> str:
        """Content of the file; empty if it does not exist.

        Raises:
            HostSetupFailed: It cannot be read.
        """
        return _read_text(self.file)

    def is_installed(self, search: str | None) -> bool:
        """Return whether the host is on this machine: its command, or files of its own.

        `search` lists the folders of commands, as in PATH.
        """
        if shutil.which(self.command, path=search):
            return True
        with suppress(OSError):
            ours = {self.file.name, self.hooks.name, self.skill.skills.name}
            return any(each.name not in ours for each in self.own.iterdir())
        return False

    @property
    def has_plugin(self) -> bool:
        """True if the host's own commands have installed our plug-in, which does what set-up does.

        Raises:
            HostSetupFailed: A file of the host cannot be read.
        """
        with suppress(Unreadable):
            settings = to_object(parse_json(_read_text(self.hooks)).get("enabledPlugins"))
            if settings.get(PLUGIN):
                return True
            plugins = to_object(self.format.read(self.text).get("plugins"))
            return PLUGIN in plugins and to_object(plugins[PLUGIN]).get("enabled") is not False
        return False

    def find_own_server(self, text: str) -> Mapping[str, Any] | None:
        """Return our server's entry; None: there is none.

        Raises:
            HostSetupFailed: The text is broken, or has another server of that name.
        """
        try:
            there = to_object(self.format.read(text).get(self.outer)).get(SERVER)
        except Unreadable as error:
            raise HostSetupFailed(_describe_broken(self.file, str(error))) from None
        if there is None or runs_taskmem(to_object(there)):
            return None if there is None else to_object(there)
        raise HostSetupFailed(
            f"{self.file} has another MCP server by the name {SERVER}; rename that "
            "one, and run this again."
        )

    def put(self, text: str, entry: dict[str, Any] | None) -> str:
        """Return the text with our entry; None: without it and its emptied parents.

        Raises:
            HostSetupFailed: The text is broken, or has another server of that name.
        """
        if self.find_own_server(text) == entry is not None:
            return text
        try:
            return self.format.put(text, (self.outer, SERVER), entry)
        except Unreadable as error:
            raise HostSetupFailed(_describe_broken(self.file, str(error))) from None

    def put_hooks(self, text: str, command: str | None) -> str:
        """Return the text of the hooks' file with our hooks; None: without them.

        Raises:
            HostSetupFailed: The text is broken.
        """
        try:
            return hook_entries.put_hooks(text, command, self.events)
        except Unreadable as error:
            raise HostSetupFailed(_describe_broken(self.hooks, str(error))) from None

    def has_hooks(self, server: Mapping[str, Any]) -> bool:
        """Return whether our hooks are in place, for the home of our server's entry.

        Raises:
            HostSetupFailed: Their file cannot be read.
        """
        text = _read_text(self.hooks)
        return self.put_hooks(text, _build_hook_command(server)) == text


def _read_text(file: Path) -> str:
    """Return the content of a file; empty if it does not exist.

    Raises:
        HostSetupFailed: It cannot be read.
    """
    try:
        if file.exists() and not file.is_file():
            raise HostSetupFailed(_describe_broken(file, "it is no ordinary file"))
        # Invalid UTF-8 is kept: the formats refuse it, and it can be written back.
        return file.read_bytes().decode(errors="surrogateescape")
    except FileNotFoundError:
        return ""
    except OSError as error:
        why = error.strerror or str(error)
        raise HostSetupFailed(_describe_broken(file, why)) from None


def _is_needless(file: Path, after: str) -> bool:
    """Return whether a file can be deleted with this content; a link never is."""
    return after.strip() in ("", "{}") and not file.is_symlink()


def _write_text(file: Path, before: str, after: str) -> None:
    """Write a file if its text is still `before`; delete it if it becomes empty.

    Raises:
        HostSetupFailed: The file changed meanwhile, or cannot be read.
        OSError: It cannot be written.
    """
    if before == after:
        return
    if _read_text(file) != before:
        raise HostSetupFailed(f"{file} was changed this moment; run this again.")
    if _is_needless(file, after):
        file.unlink(missing_ok=True)
    else:
        write_file(file, after.encode())


def build_claude_host(environ: Mapping[str, str], project: Path | None) -> McpHost:
    """Return Claude Code, for its user or for a project."""
    moved = environ.get("CLAUDE_CONFIG_DIR")
    own = folder = Path(moved) if moved else Path.home() / ".claude"
    file = (own if moved else Path.home()) / ".claude.json"
    if project is not None:
        file, folder = project / ".mcp.json", project / ".claude"
    return McpHost(
        "Claude Code",
        "claude",
        own,
        file,
        folder / "settings.json",
        (*hook_entries.EVENTS, "PostToolUseFailure", "StopFailure"),
        "mcpServers",
        load_skill(folder / "skills"),
        (folder / "skills", folder),
        ClaudeJson(),
        when_closed="One that is closed is told when it is opened again.",
        consent="You are asked before the first call of each tool there; answer that it need not "
        "ask again, or an agent that is woken while you are away waits for you."
        if project is None
        else "It asks you there whether this project's server may be used.",
        transport="claude-inbox",
    )


def build_codex_host(environ: Mapping[str, str], project: Path | None) -> McpHost:
    """Return Codex, for its user or for a project."""
    moved = environ.get("CODEX_HOME")
    own = Path(moved) if moved else Path.home() / ".codex"
    folder = own if project is None else project / ".codex"
    agents = (project or Path.home()) / ".agents"
    return McpHost(
        "Codex",
        "codex",
        own,
        folder / "config.toml",
        folder / "hooks.json",
        (*hook_entries.EVENTS,),
        "mcp_servers",
        load_skill(agents / "skills"),
        (agents / "skills", agents, folder),
        Toml(),
        when_closed="If it is closed, Codex may begin the turn in the background.",
        consent=""
        if project is None
        else "It reads the server only once you trust this project there.",
        transport="codex-queue",
        variables={"CODEX_HOME": str(own.absolute())} if moved and project is None else {},
        hooks_consent="It runs the hooks only once you trust them: it asks at its next start, and "
        "/hooks shows them; until then it skips them without a word.",
    )


def load_skill(skills: Path) -> Skill:
    """Return the skill for MCP hosts, in a folder of skills."""
    words = files("taskmem_mcp_hosts").joinpath("SKILL.md").read_bytes()
    return Skill(skills, add_seal(words), (words,))


def find_missing(host: McpHost, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield notes on what a host lacks here, for display before set-up."""
    if not host.is_installed(environ.get("PATH")):
        yield (
            f"{host.name} was not found here: there is no command {host.command}, and "
            f"nothing of its own in {host.own}."
        )
    if (lacks := describe_path(environ)) is not None:
        yield lacks


def describe_path(environ: Mapping[str, str]) -> str | None:
    """Return a note if agents cannot find the command `taskmem`; None: they can."""
    if shutil.which("taskmem", path=environ.get("PATH")):
        return None
    # pipx links the command into this folder; its environment has a Python of its own.
    links = Path(environ.get("PIPX_BIN_DIR") or Path.home() / ".local" / "bin")
    folder = links if (links / "taskmem").exists() else Path(sys.executable).parent
    return (
        "taskmem is not on your PATH, and agents are told to run it by that name: add "
        f"{folder} to it."
    )


def make_entry(there: Mapping[str, Any] | None, variables: Mapping[str, str]) -> dict[str, Any]:
    """Return our entry, with a host's `variables`; others' additions to the existing one stay."""
    # Hosts may run in the environment of a project, or from an image with a Python of its own.
    program, *arguments = OWN_PROGRAM
    kept = {**to_object((there or {}).get("env"))}
    kept.pop("CODEX_HOME", None)  # of another time
    env = {"TASKMEM_TOOLS": TOOLS, **kept, **variables}
    if find_home() != find_usual_home():
        env["TASKMEM_HOME"] = str(find_home())
    elif _find_kept_home(there) is None:
        env.pop("TASKMEM_HOME", None)
    ours = {"command": program, "args": [*arguments, "mcp"], "env": env}
    return {**(there or {}), **ours}


def _find_kept_home(there: Mapping[str, Any] | None) -> str | None:
    """Return the home that the existing entry keeps; None: it takes this shell's.

    A shell with the usual home does not change an entry's home.
    """
    named = to_object((there or {}).get("env")).get("TASKMEM_HOME")
    if not isinstance(named, str) or not named or find_home() != find_usual_home():
        return None
    return None if Path(named) == find_usual_home() else named


def find_usual_home() -> Path:
    """Return the default state folder."""
    return Path.home() / ".openclaw" / "taskmem"


def _describe_broken(file: Path, why: str) -> str:
    return f"{file} cannot be read ({why}); put it right, and run this again."


# --- putting it in, and taking it out ------------------------------------------------------


_Environ = Mapping[str, str]


def set_up_host(host: McpHost, environ: _Environ, *, dry_run: bool) -> list[str]:
    """Add the entry and the skill; return lines that say what was done.

    Raises:
        HostSetupFailed: A file is broken, or belongs to others.
        NotOurs: There is another skill of that name.
        OSError: A file cannot be written.
    """
    before, hooks_before = host.text, _read_text(host.hooks)
    there = host.find_own_server(before)
    if there is None and host.has_plugin:
        return [
            f"{host.name} has the plug-in {PLUGIN}, which does the same; nothing was changed.",
            host.wake_note,
        ]
    entry = make_entry(there, host.variables)
    after, in_place = host.put(before, entry), host.skill.in_place
    command = _build_hook_command(entry)
    hooks_after = host.put_hooks(hooks_before, command)
    home = _describe_kept_home(there)
    if before == after and hooks_before == hooks_after and in_place:
        return ["Everything is in place; nothing was changed.", *home]
    if dry_run:
        lines = _format_difference(host, before, after)
        if hooks_before != hooks_after:
            events = ", ".join(host.events)
            lines.append(f"would write the hooks {host.hooks}: for {events}, {command}")
        if not in_place:
            lines.append(f"would write the skill {host.skill.file}")
        return [*lines, *home]
    _write_text(host.file, before, after)
    _write_text(host.hooks, hooks_before, hooks_after)
    kept = [] if in_place else host.skill.write()
    where = (
        f"the MCP server {SERVER} ({host.file}), the hooks ({host.hooks}) and the skill "
        f"({host.skill.folder})"
    )
    done = f"{host.name} has {where}; start a new session there. {host.consent}"
    if not host.is_installed(environ.get("PATH")):
        done = f"{host.name} will find {where} once it is installed. {host.consent}"
    consent = [host.hooks_consent] if host.hooks_consent and hooks_before != hooks_after else []
    return [done.rstrip(), _HOOKS_READ, *consent, *kept, *home, host.wake_note]


def is_in_place(host: McpHost) -> bool:
    """Return whether set-up would change nothing of a host.

    Raises:
        HostSetupFailed: A file is broken, or belongs to others.
    """
    before = host.text
    there = host.find_own_server(before)
    if there is None:
        return host.has_plugin
    entry = make_entry(there, host.variables)
    return host.put(before, entry) == before and host.skill.in_place and host.has_hooks(entry)


def _build_hook_command(entry: Mapping[str, Any]) -> str:
    """Return the command of our hooks, for the home of our server's entry."""
    home = to_object(entry.get("env")).get("TASKMEM_HOME")
    return hook_entries.build_command(None if home is None else str(home))


def remove_from_host(host: McpHost, *, dry_run: bool) -> list[str]:
    """Remove the entry and the skill; return lines that say what was done.

    Raises:
        HostSetupFailed: A file is broken, or the server of that name is not ours.
        NotOurs: The skill of that name is not ours.
        OSError: A file cannot be written.
    """
    before, hooks_before = host.text, _read_text(host.hooks)
    server, has_skill = host.find_own_server(before), host.skill.there is not None
    hooks_after = host.put_hooks(hooks_before, None)
    has_hooks = hooks_before != hooks_after
    if server is None and not has_skill and not has_hooks:
        places = f"{host.file} and {host.skill.folder}, and no hook of it in {host.hooks}"
        return [f"{host.name} has no trace of taskmem in {places}."]
    after = host.put(before, None)
    if dry_run:
        lines = _format_difference(host, before, after)
        ours = (f"the hooks of taskmem from {host.hooks}", f"the skill {host.skill.folder}")
        emptied = (
            f"{file}, which has nothing else in it"
            for file, left in ((host.file, after), (host.hooks, hooks_after))
            if file.exists() and _is_needless(file, left)
        )
        removed = *compress(ours, (has_hooks, has_skill)), *emptied
        return [*lines, *(f"would remove {each}" for each in removed)]
    parts: list[str] = []
    if server is not None:
        _write_text(host.file, before, after)
        parts.append(f"the MCP server {SERVER} ({host.file})")
    if has_hooks:
        _write_text(host.hooks, hooks_before, hooks_after)
        parts.append(f"the hooks ({host.hooks})")
    kept: list[str] = []
    if has_skill:
        kept = host.skill.remove()
        parts.append(f"the skill ({host.skill.folder})")
    for folder in host.folders:
        with suppress(OSError):  # it is not empty
            folder.rmdir()
    home = to_object((server or {}).get("env")).get("TASKMEM_HOME") or find_home()
    gone = f"Removed from {host.name}: {' and '.join(parts)}."
    return [" ".join((gone, *describe_data(str(home)))), *kept]


def _describe_kept_home(there: Mapping[str, Any] | None) -> list[str]:
    """Return a line that names the entry's home, if it differs from this shell's."""
    if (kept := _find_kept_home(there)) is None:
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
    return list(difflib.unified_diff(old, new, f"{path}, now", f"{path}, then", lineterm=""))


def _format_entry(host: McpHost, entry: Mapping[str, Any] | None) -> list[str]:
    """Format an entry as lines; others' environment values are masked."""
    if entry is None:
        return []
    if env := to_object(entry.get("env")):
        shown = {name: env[name] if name in _OWN_VARIABLES else "…" for name in env}
        entry = {**entry, "env": shown}
    if host.file.suffix == ".toml":
        return host.put("", {**entry}).splitlines()
    return json.dumps(entry, indent=2, ensure_ascii=False).splitlines()
