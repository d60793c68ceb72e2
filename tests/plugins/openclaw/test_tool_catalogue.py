"""What ships for the gateway fits what the daemon answers."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import openclaw_taskmem
import taskmem_openclaw
from openclaw_taskmem.tools import catalog
from tests.e2e import openclaw
from tests.plugins.openclaw import tool_catalogue

GATEWAY = Path(taskmem_openclaw.__file__).parent / "gateway"
COMMAND = (
    "TASKMEM_TOOLS=all taskmem tools --json | python -m tests.plugins.openclaw.tool_catalogue "
    "> plugins/taskmem_openclaw/gateway/tools.json"
)
GIVEN = {
    "openclaw/plugin-sdk/agent-harness",
    "openclaw/plugin-sdk/agent-harness-runtime",
    "openclaw/plugin-sdk/agent-runtime",
    "openclaw/plugin-sdk/channel-outbound",
    "openclaw/plugin-sdk/sandbox",
}
"""What the gateway itself gives to the plug-ins that it loads."""
IMPORTS = re.compile(
    r"""(?x) \b(?:from|import|require)\s*\(?\s* (["'`]) (?P<module>[^"'`\n]+) \1"""
)
TOOLS = [
    {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
    for tool in catalog.TOOLS
]
"""As `taskmem tools --json` prints them."""


def read_json(name):
    return json.loads((GATEWAY / name).read_text(encoding="utf-8"))


def test_the_gateway_registers_the_tools_there_are():
    kept = (GATEWAY / "tools.json").read_text(encoding="utf-8")
    assert kept == tool_catalogue._format_catalogue(TOOLS), f"make it anew: {COMMAND}"


def test_the_command_that_makes_it_makes_it():
    made = subprocess.run(
        [sys.executable, "-m", "tests.plugins.openclaw.tool_catalogue"],
        input=json.dumps(TOOLS),
        capture_output=True,
        text=True,
        check=True,
    )
    assert made.stdout == tool_catalogue._format_catalogue(TOOLS)


def test_no_tool_asks_for_the_session_that_the_gateway_knows():
    for tool, made in zip(TOOLS, tool_catalogue._build_catalogue(TOOLS), strict=True):
        asked = tool["inputSchema"]["properties"]
        told = {"type": "string", "description": "Your session, if known."}
        assert asked["session_key"] == told
        assert made["parameters"]["properties"] == {
            name: field for name, field in asked.items() if name != "session_key"
        }
        assert {**made["parameters"], "properties": asked} == tool["inputSchema"]
        assert "session_key" not in made["parameters"].get("required", ())


def test_the_model_always_sees_what_it_cannot_do_without():
    made = tool_catalogue._build_catalogue(TOOLS)
    in_sight = {tool["name"] for tool in made if tool["direct"]}
    assert in_sight == set(tool_catalogue._IN_SIGHT)


def test_the_manifest_names_the_same_tools():
    named = read_json("openclaw.plugin.json")["contracts"]["tools"]
    assert named == [tool.name for tool in catalog.TOOLS]


@pytest.mark.parametrize("name", ["openclaw.plugin.json", "package.json"])
def test_what_ships_for_the_gateway_has_our_own_version(name):
    assert read_json(name)["version"] == openclaw_taskmem.__version__


def test_the_manifest_and_the_package_name_what_is_there():
    manifest, package = read_json("openclaw.plugin.json"), read_json("package.json")
    owner, name = package["name"].split("/")
    assert owner.startswith("@")
    assert name == manifest["id"]
    for named in (*manifest["skills"], *package["openclaw"]["extensions"]):
        assert (GATEWAY / named).exists()


def test_the_package_asks_for_the_openclaw_it_is_tested_with():
    package = read_json("package.json")
    assert "private" not in package
    assert package["openclaw"] == {
        "extensions": ["./index.js"],
        "compat": {"pluginApi": f">={openclaw.VERSION}"},
        "build": {"openclawVersion": openclaw.VERSION},
        "install": {"minHostVersion": f">={openclaw.VERSION}"},
    }


def scripts():
    return [p for p in GATEWAY.rglob("*") if p.suffix in (".js", ".mjs", ".cjs", ".ts")]


def find_imports(text):
    return [found["module"] for found in IMPORTS.finditer(text)]


@pytest.mark.parametrize("script", scripts(), ids=lambda path: path.name)
def test_what_runs_in_the_gateway_needs_node_and_itself_alone(script):
    for module in find_imports(script.read_text(encoding="utf-8")):
        if not module.startswith("node:") and module not in GIVEN:
            assert module.startswith("./"), f"{script.name} imports {module}"
            assert (script.parent / module).is_file()


@pytest.mark.parametrize("script", scripts(), ids=lambda path: path.name)
def test_what_runs_in_the_gateway_starts_no_process_itself(script):
    # OpenClaw's scanner calls that critical.
    assert "child_process" not in script.read_text(encoding="utf-8")


def test_gateway_modules_are_imported_only_when_needed():
    for script in scripts():
        text = script.read_text(encoding="utf-8")
        for module in GIVEN & set(find_imports(text)):
            assert re.search(rf'import\(\s*"{module}"', text)
            assert f'from "{module}"' not in text


@pytest.mark.parametrize(
    "text",
    [
        'import { a } from "ws";',
        "import a, {\n  b,\n} from 'ws'",
        'import "ws"',
        'const a = require("ws");',
        'const a = await import("ws");',
        'export * from "ws";',
        'import a from"ws"',
    ],
)
def test_every_way_to_import_is_seen(text):
    assert find_imports(text) == ["ws"]
