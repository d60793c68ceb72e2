"""A stand-in for the `openclaw` command, for faults that cannot be had of the real one.

It keeps a configuration as the real one does (2026.9.6): what is linked is entered in
`plugins.load.paths`, what is uninstalled leaves a mark, and it adds a `meta`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taskmem_openclaw.setup.config_edits import apply_patch

Document = dict[str, Any]

_TEXT = """#!{python} -IS
import json, os, sys, time
here = os.path.dirname(os.path.abspath(__file__))
config = os.path.join(here, "openclaw.json")
arguments = sys.argv[1:]
with open(os.path.join(here, "calls"), "a") as calls:
    calls.write(json.dumps(arguments) + "\\n")
faults = json.load(open(os.path.join(here, "faults")))
verb = " ".join(arguments[:2])
if verb in faults:
    fault = faults[verb]
    if "hang" in fault:
        time.sleep(fault["hang"])
    print(fault.get("out", ""))
    print(fault.get("err", ""), file=sys.stderr)
    if fault.get("kill"):
        os.kill(os.getppid(), fault["kill"])
    sys.exit(fault.get("status", 1))

def read():
    try:
        return json.load(open(config))
    except FileNotFoundError:
        return {{}}

def write(document):
    document["meta"] = {{"lastTouchedVersion": "2026.9.6"}}
    json.dump(document, open(config, "w"), indent=2)

def merged(document, patch):
    for key, value in patch.items():
        if value is None:
            document.pop(key, None)
        elif isinstance(value, dict):
            below = document.get(key)
            document[key] = merged(below if isinstance(below, dict) else {{}}, value)
        else:
            document[key] = value
    return document

def identity(folder):
    try:
        return json.load(open(os.path.join(folder, "openclaw.plugin.json")))["id"]
    except FileNotFoundError:
        path = os.path.join(folder, ".claude-plugin", "plugin.json")
        return json.load(open(path))["name"]

if arguments == ["--version"]:
    print("OpenClaw 2026.9.6 (eb377ac)")
elif verb == "config file":
    print(json.dumps({{"path": config}}))
elif verb == "config get":
    found = read()
    if arguments[2] not in found:
        print(json.dumps({{"ok": False, "error": "Config path is valid but unset"}}))
        sys.exit(1)
    print(json.dumps(found[arguments[2]]))
elif verb == "config patch":
    write(merged(read(), json.load(open(arguments[3]))))
elif verb == "plugins install":
    assert arguments[-2:] == ["--force", "--accept-capabilities"], arguments
    folder, document = arguments[-3], read()
    plugins = document.setdefault("plugins", {{}})
    if "--link" in arguments:
        paths = plugins.setdefault("load", {{}}).setdefault("paths", [])
        paths.append(folder) if folder not in paths else None
    name = identity(folder)
    plugins.setdefault("entries", {{}}).setdefault(name, {{"enabled": True}})
    if "allow" in plugins and name not in plugins["allow"]:
        plugins["allow"].append(name)
    write(document)
    print("Saved for the next Gateway start.")
elif verb == "plugins uninstall":
    name, document = arguments[2], read()
    plugins = document.get("plugins", {{}})
    if name not in plugins.get("entries", {{}}) and "load" not in plugins:
        print("is not associated with a tracked package install", file=sys.stderr)
        sys.exit(1)
    plugins.setdefault("entries", {{}})[name] = {{"enabled": False}}
    plugins.pop("load", None)
    if "allow" in plugins:
        plugins["allow"] = [each for each in plugins["allow"] if each != name]
    write(document)
else:
    sys.exit("unknown command: " + verb)
"""


@dataclass(frozen=True)
class StandIn:
    """One stand-in, in a folder of its own."""

    folder: Path

    def __post_init__(self) -> None:
        self.program.write_text(_TEXT.format(python=sys.executable))
        self.program.chmod(0o700)
        self.fail({})

    @property
    def program(self) -> Path:
        return self.folder / "openclaw"

    @property
    def file(self) -> Path:
        return self.folder / "openclaw.json"

    @property
    def config(self) -> Document:
        """What the configuration says, but for what OpenClaw says of itself."""
        return apply_patch(json.loads(self.file.read_text()), {"meta": None})

    @config.setter
    def config(self, document: Document) -> None:
        self.write(document)

    def write(self, document: Document) -> None:
        self.file.write_text(json.dumps(document, indent=2))

    def fail(self, faults: Document) -> None:
        """Let commands fail: the first two words, to `out`, `err`, `status` …"""
        (self.folder / "faults").write_text(json.dumps(faults))

    @property
    def calls(self) -> list[list[str]]:
        """What it was started with, each time."""
        seen = self.folder / "calls"
        lines = seen.read_text().splitlines() if seen.exists() else []
        return [json.loads(line) for line in lines]

    @property
    def changes(self) -> list[str]:
        """The commands of those that change something."""
        reads = ("config file", "config get", "--version")
        said = [" ".join(each[:2]) for each in self.calls]
        return [each for each in said if each not in reads]
