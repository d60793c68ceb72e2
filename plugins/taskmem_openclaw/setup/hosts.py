"""Claude Code and Codex: the MCP server's entry and the skill, where each reads them.

Claude Code reads `mcpServers` of `~/.claude.json` (with `CLAUDE_CONFIG_DIR`, of the
file of that name in it) or of a project's `.mcp.json`, and skills in `skills` of
`~/.claude` or of a project's `.claude`. Codex reads `[mcp_servers.…]` of `config.toml`
in `~/.codex` (`CODEX_HOME`) or in a trusted project's `.codex`, and skills in
`~/.agents/skills` or a project's `.agents/skills`.
"""

from __future__ import annotations

import difflib
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from taskmem_openclaw.setup import keeping, plan, shipped, skills, splicing
from taskmem_openclaw.setup.edits import at, entries
from taskmem_openclaw.setup.openclaw import Failed
from taskmem_openclaw.setup.skills import Skill

SERVER: Final = plan.SERVER
TOOLS: Final = plan.TOOLS
_OURS: Final = ("TASKMEM_HOME", "TASKMEM_TOOLS")
"""What we write into the environment of an entry."""


class Host(NamedTuple):
    """Where a host keeps what concerns us."""

    name: str
    command: str
    """What starts it."""
    own: Path
    """Its user's folder, in which it keeps more than what concerns us."""
    file: Path
    path: tuple[str, str]
    """Where the server's entry is in that file."""
    skill: Skill
    folders: tuple[Path, ...]
    """What we may have made for the file and the skill, the innermost first."""
    parsed: Callable[[str], dict[str, Any]]
    spliced: Callable[[str, tuple[str, str], dict[str, Any] | None], str]
    tells_end: bool
    """Whether it tells its agent when a command in the background ends."""
    consent: str
    """What a person has yet to allow there, as a sentence; empty: nothing."""

    @property
    def wakes(self) -> str:
        """Say what works there, and what does not."""
        ground = "background" if self.tells_end else "foreground"
        return (
            f"Tasks, plans and waits work there; no wake can reach {self.name}: its "
            f"agent runs `taskmem wait ID` in the {ground}, which ends when the wait "
            "does, and is not told of a task that has gone silent."
        )

    @property
    def text(self) -> str:
        """What is in the file; a file that is not there has nothing in it.

        Raises:
            Failed: It cannot be read.
        """
        try:
            if self.file.exists() and not self.file.is_file():
                raise Failed(_broken(self.file, "it is no ordinary file"))
            return self.file.read_bytes().decode()
        except FileNotFoundError:
            return ""
        except UnicodeDecodeError:
            raise Failed(_broken(self.file, "it is not UTF-8")) from None
        except OSError as error:
            raise Failed(_broken(self.file, error.strerror or str(error))) from None

    def is_installed(self, search: str | None) -> bool:
        """Whether it is on this machine: its command, or anything that it has kept.

        `search`: where commands are looked for, as in PATH.
        """
        if shutil.which(self.command, path=search):
            return True
        with suppress(OSError):
            ours = {self.file.name, self.skill.folder.parent.name}
            return any(each.name not in ours for each in self.own.iterdir())
        return False

    def with_server(self, text: str) -> str:
        """Return the file's text with our server in it.

        Raises:
            Failed: It is broken, or has another server of that name.
        """
        there = self.server(text)
        entry = _entry(there)
        return text if there == entry else self._spliced(text, entry)

    def without_server(self, text: str) -> str:
        """Return the file's text without our server.

        Raises:
            Failed: It is broken, or has another server of that name.
        """
        return text if self.server(text) is None else self._spliced(text, None)

    def is_needless(self, after: str) -> bool:
        """Whether the file goes when this is all that is left in it; a link stays."""
        return after.strip() in ("", "{}") and not self.file.is_symlink()

    def write(self, before: str, after: str) -> None:
        """Write the file, if it still is as it was read; one without a word goes.

        Raises:
            Failed: It was changed meanwhile.
        """
        if self.text != before:
            raise Failed(f"{self.file} was changed this moment; run this again.")
        if self.is_needless(after):
            self.file.unlink(missing_ok=True)
        else:
            keeping.written(self.file, after.encode())

    def remove_empty_folders(self) -> None:
        """Remove the folders that hold nothing any more."""
        for folder in self.folders:
            with suppress(OSError):
                folder.rmdir()

    def server(self, text: str) -> Mapping[str, Any] | None:
        """Return our server in the file's text; None: it has none.

        Raises:
            Failed: It is broken, or has another server of that name.
        """
        try:
            there = at(self.parsed(text), self.path)
        except splicing.Unreadable as error:
            raise Failed(_broken(self.file, str(error))) from None
        if there is not None and not plan.runs_taskmem(there):
            raise Failed(
                f"{self.file} has another MCP server by the name {SERVER}; rename that "
                "one, and run this again."
            )
        return None if there is None else entries(there)

    def _spliced(self, text: str, entry: dict[str, Any] | None) -> str:
        try:
            return self.spliced(text, self.path, entry)
        except splicing.Unreadable as error:
            raise Failed(_broken(self.file, str(error))) from None


def claude(environ: Mapping[str, str], project: Path | None) -> Host:
    """Return Claude Code, for its user or for a project."""
    moved = environ.get("CLAUDE_CONFIG_DIR")
    own = folder = Path(moved) if moved else Path.home() / ".claude"
    file = (own if moved else Path.home()) / ".claude.json"
    if project is not None:
        file, folder = project / ".mcp.json", project / ".claude"
    return Host(
        "Claude Code",
        "claude",
        own,
        file,
        ("mcpServers", SERVER),
        skills.into(folder / "skills"),
        (folder / "skills", folder),
        splicing.json_of,
        _json_with,
        tells_end=True,
        consent=""
        if project is None
        else "It asks you there whether this project's server may be used.",
    )


def codex(environ: Mapping[str, str], project: Path | None) -> Host:
    """Return Codex, for its user or for a project."""
    moved = environ.get("CODEX_HOME")
    own = Path(moved) if moved else Path.home() / ".codex"
    folder = own if project is None else project / ".codex"
    agents = (project or Path.home()) / ".agents"
    return Host(
        "Codex",
        "codex",
        own,
        folder / "config.toml",
        ("mcp_servers", SERVER),
        skills.into(agents / "skills"),
        (agents / "skills", agents, folder),
        splicing.toml_of,
        splicing.toml_with,
        tells_end=False,
        consent=""
        if project is None
        else "It reads the server only once you trust this project there.",
    )


def _json_with(text: str, path: tuple[str, str], entry: dict[str, Any] | None) -> str:
    """Return the text with the entry; without it, an object round it goes if empty."""
    after = splicing.json_with(text, path, entry)
    if entry is not None or splicing.json_of(after).get(path[0]):
        return after
    return splicing.json_with(after, path[:1], None)


def find_missing(host: Host, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield what a host lacks here, to be told before it is set up."""
    if not host.is_installed(environ.get("PATH")):
        yield (
            f"{host.name} was not found here: there is no command {host.command}, and "
            f"nothing of its own in {host.own}. It takes this up once it is installed."
        )
    if (lacks := tell_path(environ)) is not None:
        yield lacks


def tell_path(environ: Mapping[str, str]) -> str | None:
    """Say so where agents, who are told to run taskmem, do not find it by that name.

    None: they do.
    """
    if shutil.which("taskmem", path=environ.get("PATH")):
        return None
    return (
        "taskmem is not on your PATH, and agents are told to run it by that name: add "
        f"{Path(sys.executable).parent} to it."
    )


def move_in(host: Host, *, dry_run: bool) -> list[str]:
    """Write the entry and the skill, and say what was done.

    Raises:
        Failed: A file is broken, or somebody else's.
        NotOurs: There is another skill of that name.
        OSError: Something cannot be written.
    """
    before = host.text
    after = host.with_server(before)
    in_place = host.skill.in_place
    if before == after and in_place:
        sentence = "Everything is in place; nothing was changed."
        return [sentence, *_tell_kept(host, before)]
    if dry_run:
        skill = [] if in_place else [f"would write the skill {host.skill.file}"]
        return [*_difference(host, before, after), *skill, *_tell_kept(host, before)]
    if before != after:
        host.write(before, after)
    kept = [] if in_place else host.skill.write()
    where = f"the MCP server {SERVER} ({host.file}) and the skill ({host.skill.folder})"
    done = f"{host.name} has {where}; start a new session there. {host.consent}"
    return [done.rstrip(), *kept, *_tell_kept(host, before), host.wakes]


def move_out(host: Host, *, dry_run: bool) -> list[str]:
    """Take the entry and the skill out, and say what was done.

    Raises:
        Failed: A file is broken, or the server of that name is somebody else's.
        NotOurs: The skill of that name is.
        OSError: Something cannot be written.
    """
    before = host.text
    server, after = host.server(before), host.without_server(before)
    there = host.skill.there is not None
    if before == after and not there:
        places = f"{host.file} and {host.skill.folder}"
        return [f"{host.name} has no trace of taskmem in {places}."]
    if dry_run:
        skill = [f"would remove the skill {host.skill.folder}"] if there else []
        goes = before != after and host.is_needless(after)
        file = (
            [f"would remove {host.file}, which has nothing else in it"] if goes else []
        )
        return [*_difference(host, before, after), *file, *skill]
    if before != after:
        host.write(before, after)
    kept = host.skill.remove() if there else []
    host.remove_empty_folders()
    entry = [f"the MCP server {SERVER} ({host.file})"] if before != after else []
    skill = [f"the skill ({host.skill.folder})"] if there else []
    gone = " and ".join((*entry, *skill))
    home = at(server, ("env", "TASKMEM_HOME")) or shipped.home()
    data = skills.tell_data(str(home))
    return [" ".join((f"Removed from {host.name}: {gone}.", *data)), *kept]


def _entry(there: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return our entry; what else somebody has said in it stays."""
    program, *arguments = shipped.command()
    env = {"TASKMEM_TOOLS": TOOLS, **entries((there or {}).get("env"))}
    if shipped.home() != _usual_home():
        env["TASKMEM_HOME"] = str(shipped.home())
    elif _kept_home(there) is None:
        env.pop("TASKMEM_HOME", None)
    ours = {"command": program, "args": [*arguments, "mcp"], "env": env}
    return {**(there or {}), **ours}


def _kept_home(there: Mapping[str, Any] | None) -> str | None:
    """Return the home that an entry names and keeps; None: it takes this shell's.

    A shell that names no home, or the usual one, moves no entry to it.
    """
    named = entries((there or {}).get("env")).get("TASKMEM_HOME")
    if not isinstance(named, str) or not named or shipped.home() != _usual_home():
        return None
    return None if Path(named) == _usual_home() else named


def _usual_home() -> Path:
    return Path.home() / ".openclaw" / "taskmem"


def _tell_kept(host: Host, before: str) -> list[str]:
    """Say which home an entry keeps, where it is not this shell's."""
    if (kept := _kept_home(host.server(before))) is None:
        return []
    sentence = (
        f"Its home stays {kept}, which its entry names; for {_usual_home()}, run this "
        "with --remove first, then again."
    )
    return [sentence]


def _difference(host: Host, before: str, after: str) -> list[str]:
    """Return what would change of our own entry; the rest may hold secrets."""
    path = f"{host.file} ({SERVER})"
    old, new = (_lines(host, host.server(text)) for text in (before, after))
    return list(difflib.unified_diff(old, new, path, path, lineterm=""))


def _lines(host: Host, entry: Mapping[str, Any] | None) -> list[str]:
    """Return an entry as lines; what others keep in its environment is not shown."""
    if entry is None:
        return []
    if env := entries(entry.get("env")):
        shown = {name: env[name] if name in _OURS else "…" for name in env}
        entry = {**entry, "env": shown}
    if host.file.suffix == ".toml":
        return host.spliced("", host.path, {**entry}).splitlines()
    return json.dumps(entry, indent=2, ensure_ascii=False).splitlines()


def _broken(file: Path, why: str) -> str:
    return f"{file} cannot be read ({why}); put it right, and run this again."
