"""Stand-ins for the commands `claude` and `codex`, as they are and as they may be.

They do with the files what the real ones do (Claude Code 2.1.332, Codex 0.171.0):
`claude` writes its file anew with two spaces and notes of its own, refuses a name that
is taken and writes where `--scope` says; `codex` writes all servers anew, without their
comments and without keys that it does not know.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import tomlkit

_START = """#!{python} -IS
import json, os, signal, sys
sys.path.append({packages!r})
here = {here!r}
words = sys.argv[1:]
with open(here + "/calls", "a") as calls:
    calls.write(json.dumps([os.path.basename(sys.argv[0]), *words]) + "\\n")
fault = json.load(open(here + "/faults")).get(words[1], {{}})
if "junk" in fault:
    junk = bytes([255]) if "raw" in fault else b"{{ junk"
    open(os.path.expanduser(fault["junk"]), "wb").write(junk)
if "hang" in fault:
    import fcntl
    running = open(here + "/running", "w")
    fcntl.flock(running, fcntl.LOCK_EX)
    os.fork()
    signal.pause()
print("sk-secret", "\\x1b[2J", file=sys.stderr)
if "status" in fault:
    sys.exit(fault["status"])
"""
_CLAUDE = """
scope, name = words[words.index("--scope") + 1], words[words.index("--scope") + 2]
scope = fault.get("scope", scope)
folder = os.environ.get("CLAUDE_CONFIG_DIR") or os.environ["HOME"]
users = folder + "/.claude.json"
file = ".mcp.json" if scope == "project" else users

def load(file):
    return json.load(open(file)) if os.path.exists(file) else {}

def save(file, document):
    with open(file, "w") as out:
        out.write(json.dumps(document, indent=2, ensure_ascii=False))

save(users, {**load(users), "numStartups": load(users).get("numStartups", 0) + 1})
document = load(file)
place = document
if scope == "local":
    place = document.setdefault("projects", {}).setdefault(os.getcwd(), {})
servers = place.setdefault("mcpServers", {})
if (name in servers) is (words[1] == "add-json"):
    sys.exit(1)
if words[1] == "add-json":
    servers[name] = {"type": "stdio", **json.loads(words[-1]), **fault.get("also", {})}
else:
    del servers[name]
save(file, document)
"""
_CODEX = """
import tomlkit
folder = os.environ.get("CODEX_HOME") or os.environ["HOME"] + "/.codex"
if not os.path.isdir(folder):
    sys.exit(1)
file = folder + "/config.toml"
document = tomlkit.parse(open(file).read() if os.path.exists(file) else "")
known = ("command", "args", "env", "startup_timeout_sec")
servers = {
    name: {key: each[key] for key in known if key in each}
    for name, each in document.get("mcp_servers", {}).items()
}
if words[1] == "add":
    command = words[words.index("--") + 1:]
    env = [after for word, after in zip(words, words[1:]) if word == "--env"]
    pairs = dict(each.split("=", 1) for each in env)
    servers[words[2]] = {"command": command[0], "args": command[1:], "env": pairs}
else:
    servers.pop(words[2], None)
document.pop("mcp_servers", None)
if servers:
    outer = tomlkit.table(is_super_table=True)
    for name in sorted(servers):
        outer.append(name, json.loads(json.dumps(servers[name])))
    document.append("mcp_servers", outer)
open(file, "w").write(tomlkit.dumps(document))
"""
_DOES = {"claude": _CLAUDE, "codex": _CODEX}


@dataclass(frozen=True)
class StandIn:
    """A host's own command, and what is wrong with it."""

    programs: Path
    """Where commands are found."""
    name: str

    def __post_init__(self) -> None:
        self.programs.mkdir(exist_ok=True)
        self.fail({})
        start = _START.format(
            python=sys.executable,
            here=str(self.programs),
            packages=str(Path(tomlkit.__file__).parents[1]),
        )
        program = self.programs / self.name
        program.write_text(start + _DOES[self.name])
        program.chmod(0o755)

    def fail(self, faults: dict[str, dict[str, object]]) -> None:
        """Have its verbs go wrong from now on."""
        (self.programs / "faults").write_text(json.dumps(faults))

    @property
    def calls(self) -> list[list[str]]:
        """How it was called."""
        file = self.programs / "calls"
        text = file.read_text() if file.exists() else ""
        return [json.loads(line) for line in text.splitlines()]
