"""The MCP bundle, for hosts that refuse native plug-ins."""

import json
from pathlib import Path

from taskmem_openclaw.setup import plan, shipped

ROOT = Path(__file__).parents[4]
BUNDLE = shipped.bundle().folder


def test_its_skill_is_the_project_s_own():
    skill = BUNDLE / "skills" / "task-memory" / "SKILL.md"
    assert not skill.is_symlink()
    assert skill.read_bytes() == (ROOT / "SKILL.md").read_bytes()


def test_its_server_is_ours_by_the_name_that_the_configuration_overrides():
    servers = json.loads((BUNDLE / ".mcp.json").read_text())["mcpServers"]
    assert list(servers) == [plan.SERVER]
    assert plan.runs_taskmem(servers[plan.SERVER])


def test_its_id_is_not_the_plugin_s():
    bundle = json.loads((BUNDLE / ".claude-plugin" / "plugin.json").read_text())
    plugin = json.loads((shipped.plugin().folder / shipped.MANIFEST).read_text())
    assert bundle["name"] == plan.BUNDLE
    assert plugin["id"] == plan.PLUGIN
    assert bundle["description"] == plugin["description"]


def test_what_runs_taskmem_is_this_installation():
    program, *_ = shipped.command()
    assert Path(program).is_absolute()
    assert plan.runs_taskmem(
        {"command": program, "args": [*shipped.command()[1:], "mcp"]}
    )
