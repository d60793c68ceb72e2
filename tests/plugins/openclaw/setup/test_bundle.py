"""The MCP bundle, for hosts that refuse native plug-ins."""

import json
import re
from pathlib import Path

from openclaw_taskmem.tools import catalog
from taskmem_mcp_hosts.hosts import load_skill
from taskmem_openclaw.setup import package_files, plan
from taskmem_setup import add_seal, find_command

BUNDLE = package_files.find_bundle().folder


def test_its_skill_is_that_of_hosts_without_the_plugin():
    skill = BUNDLE / "skills" / "task-memory" / "SKILL.md"
    assert not skill.is_symlink()
    assert add_seal(skill.read_bytes()) == load_skill(Path()).words


def test_bundle_server_offers_every_tool_that_its_skill_names():
    skill = (BUNDLE / "skills" / "task-memory" / "SKILL.md").read_text()
    server = json.loads((BUNDLE / ".mcp.json").read_text())["mcpServers"][plan.SERVER]
    named = set(re.findall(r"`((?:task|wait|smart)_[a-z_]+)`", skill))
    offered = catalog.list_offered(server["env"]["TASKMEM_TOOLS"], recalls=False)
    assert "task_claim" in named
    assert named - {"task_id"} <= {tool.name for tool in offered}
    assert server["env"]["TASKMEM_TOOLS"] == plan.TOOLS


def test_bundle_server_runs_taskmem_under_the_overridable_name():
    servers = json.loads((BUNDLE / ".mcp.json").read_text())["mcpServers"]
    assert list(servers) == [plan.SERVER]
    assert plan.runs_taskmem(servers[plan.SERVER])


def test_its_id_is_not_the_plugin_s():
    bundle = json.loads((BUNDLE / ".claude-plugin" / "plugin.json").read_text())
    plugin = json.loads((package_files.find_plugin().folder / package_files._MANIFEST).read_text())
    assert bundle["name"] == plan.BUNDLE
    assert plugin["id"] == plan.PLUGIN
    assert bundle["description"] == plugin["description"]


def test_what_runs_taskmem_is_this_installation():
    program, *_ = find_command()
    assert Path(program).is_absolute()
    assert plan.runs_taskmem({"command": program, "args": [*find_command()[1:], "mcp"]})
