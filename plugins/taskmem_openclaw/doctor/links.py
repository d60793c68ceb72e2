"""Check OpenClaw's configuration against what `taskmem setup openclaw` would set.

Pure, except that some files are read. `health` runs these checks in order.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from taskmem_hookspecs import HealthRow, HealthState
from taskmem_openclaw import configuration
from taskmem_openclaw.setup import plan, tool_policy
from taskmem_openclaw.setup.edits import find_value, to_list, to_object
from taskmem_openclaw.setup.recall_owner import describe_recall_owner, find_recall_owner

SETUP: Final = "Run: taskmem setup openclaw"
RELOAD: Final = f"Run: openclaw plugins reload {plan.PLUGIN}"
SKILL: Final = "task-memory"
_ENTRY: Final = f"plugins.entries.{plan.PLUGIN}"


@dataclass(frozen=True)
class Facts:
    """Input of the checks."""

    config: Mapping[str, Any]
    """OpenClaw's configuration."""
    wishes: plan.DesiredState
    """The desired state: folder, command and home of this installation."""
    version: str
    """Version of the plug-in in this installation."""
    state: Path
    """OpenClaw's state folder."""
    gateways: Sequence[Mapping[str, Any]] = field(default=())
    """The gateways connected to the daemon, as in `taskmem status`."""

    @property
    def entry(self) -> Mapping[str, Any]:
        """The configuration entry of the plug-in."""
        return to_object(find_value(self.config, ("plugins", "entries", plan.PLUGIN)))

    @property
    def bundle(self) -> bool:
        """Whether the MCP bundle is used instead of the plug-in."""
        enabled = find_value(self.config, ("plugins", "entries", plan.BUNDLE, "enabled"))
        return enabled is True and not self.folders

    @property
    def folders(self) -> list[Path]:
        """Folders from which OpenClaw loads a plug-in with our id."""
        linked = to_list(find_value(self.config, ("plugins", "load", "paths")))
        paths = [_expand_home(str(each)) for each in linked]
        copied = self.state / "extensions" / plan.PLUGIN
        return [path for path in (*paths, copied) if _read_manifest(path) is not None]


def is_absent(environ: Mapping[str, str]) -> bool:
    """Return whether the readable configuration contains no trace of us."""
    config = configuration.read_config(environ)
    if config is None:
        return not configuration.find_config_file(environ).exists()
    ours = plan.PLUGIN, plan.BUNDLE
    known = to_object(find_value(config, ("plugins", "entries")))
    trace = plan.list_own_servers(config) or any(name in known for name in ours)
    return not trace and not configuration.has_includes(config)


def check_links(facts: Facts) -> Iterator[HealthRow]:
    """Yield a row for each link that the configuration decides."""
    if facts.bundle:
        yield ok("bundle", "The MCP bundle is there in place of the plug-in.")
        return
    yield check_native_plugin(facts)
    if not facts.folders:
        return
    looks: Sequence[Callable[[Facts], HealthRow]] = (
        check_folder,
        check_command,
        check_home,
        check_conversation_access,
        check_tools,
        check_duplicate_tools,
        check_recall,
        check_skill,
    )
    for look in looks:
        yield look(facts)


def ok(name: str, detail: str) -> HealthRow:
    """Return a row for a working link."""
    return HealthRow(id=f"openclaw.{name}", state=HealthState.OK, detail=detail)


def off(name: str, detail: str, effect: str | None = None, cure: str | None = None) -> HealthRow:
    """Return a row for a link that is not in use."""
    row = ok(name, detail)
    return row.model_copy(update={"state": HealthState.OFF, "effect": effect, "cure": cure})


def warn(name: str, detail: str, cure: str | None) -> HealthRow:
    """Return a row for a link that works with a loss."""
    row = ok(name, detail)
    return row.model_copy(update={"state": HealthState.WARN, "cure": cure})


def fail(name: str, detail: str, cure: str | None) -> HealthRow:
    """Return a row for a broken link."""
    row = ok(name, detail)
    return row.model_copy(update={"state": HealthState.FAIL, "cure": cure})


# --- the plug-in --------------------------------------------------------------


def check_native_plugin(facts: Facts) -> HealthRow:
    """Check that OpenClaw loads the plug-in."""
    name, plugins = "plugin", to_object(facts.config.get("plugins"))
    allowed = to_list(plugins.get("allow"))
    if not facts.folders:
        return fail(name, "The plug-in is not installed.", SETUP)
    if plugins.get("enabled") is False:
        cure = "Run: openclaw config set plugins.enabled true"
        return fail(name, "All of OpenClaw's plug-ins are switched off.", cure)
    if plan.PLUGIN in to_list(plugins.get("deny")):
        cure = f"Take {plan.PLUGIN} out of plugins.deny in OpenClaw's configuration."
        return fail(name, "The plug-in is denied (plugins.deny).", cure)
    if allowed and plan.PLUGIN not in allowed:
        wanted = json.dumps([*allowed, plan.PLUGIN])
        cure = f"Run: openclaw config set plugins.allow '{wanted}'"
        return fail(name, "The plug-in is missing in plugins.allow.", cure)
    if facts.entry.get("enabled") is False:
        cure = f"Run: openclaw plugins enable {plan.PLUGIN}"
        return fail(name, "The plug-in is switched off.", cure)
    return ok(name, "The plug-in is installed, enabled and allowed.")


def check_folder(facts: Facts) -> HealthRow:
    """Check that OpenClaw loads the plug-in of this installation."""
    wanted = Path(facts.wishes.folder)
    others = [path for path in facts.folders if not _is_same_path(path, wanted)]
    if len(others) == len(facts.folders):
        return fail(
            "folder",
            f"OpenClaw loads the plug-in from {others[0]}, and this installation's is in {wanted}.",
            SETUP,
        )
    if others:
        return warn("folder", f"There is another plug-in in {others[0]}.", SETUP)
    return ok("folder", f"OpenClaw loads the plug-in from {wanted}.")


def check_command(facts: Facts) -> HealthRow:
    """Check that the plug-in starts this program when no daemon runs."""
    said = to_list(find_value(facts.entry, ("config", "command")))
    wanted = list(facts.wishes.command)
    if not said:
        return warn("command", "The plug-in looks for taskmem on the gateway's PATH.", SETUP)
    program = shutil.which(str(said[0]))
    if program is None:
        return fail("command", f"The plug-in starts {said[0]}, and it is gone.", SETUP)
    same = _is_same_path(Path(program), Path(wanted[0])) and said[1:] == wanted[1:]
    if not same:
        words = " ".join(map(str, said))
        return warn(
            "command", f"The plug-in starts {words}, and this is {' '.join(wanted)}.", SETUP
        )
    return ok("command", f"The plug-in starts {' '.join(wanted)}.")


def check_home(facts: Facts) -> HealthRow:
    """Check that the plug-in uses the daemon of this home."""
    said = find_value(facts.entry, ("config", "home"))
    theirs = _expand_home(str(said)) if said else facts.state / "taskmem"
    ours = Path(facts.wishes.home)
    if _is_same_path(theirs, ours):
        return ok("home", f"The plug-in's home is this one, {ours}.")
    return fail(
        "home",
        f"The plug-in's home is {theirs}, and this one is {ours}: they share no task.",
        f"{SETUP} (or set TASKMEM_HOME={theirs} here)",
    )


# --- permissions, and what the agent sees -------------------------------------


def check_conversation_access(facts: Facts) -> HealthRow:
    """Check that the plug-in may put a task's packet before a prompt."""
    granted = to_object(facts.entry.get("hooks"))
    key = f"{_ENTRY}.hooks.allow"
    if granted.get("allowPromptInjection") is False:
        return warn(
            "conversation",
            "The plug-in may put nothing before a prompt: wakes come as a plain "
            "message, and do not outlive a restart of the gateway.",
            f"Run: openclaw config set {key}PromptInjection true",
        )
    if granted.get("allowConversationAccess") is not True:
        return warn(
            "conversation",
            "The plug-in may not see conversations: after a compaction, and on a "
            "session's first turn, the agent must ask itself where it was.",
            f"Run: openclaw config set {key}ConversationAccess true",
        )
    return ok("conversation", "A task's packet comes back by itself.")


def check_tools(facts: Facts) -> HealthRow:
    """Check that no tool policy hides the tools from the agent."""
    wishes = facts.wishes
    known = tool_policy.ToolGroup(plan.PLUGIN, wishes.tools, wishes.profiles)
    hidden, notes = tool_policy.plan_tool_visibility(facts.config, known)
    if hidden:
        why = "; ".join(f"{change.what}: it gives {change.gives}" for change in hidden)
        return fail("tools", f"The agent does not see the tools. Wanted: {why}.", SETUP)
    if notes:
        cure = "Change that in OpenClaw's configuration, if it is not meant."
        return warn("tools", " ".join(notes), cure)
    return ok("tools", "No tool policy hides the tools.")


def check_duplicate_tools(facts: Facts) -> HealthRow:
    """Check that the same tools are not offered by MCP too."""
    servers = to_object(find_value(facts.config, ("mcp", "servers")))
    twice = [
        name
        for name in plan.list_own_servers(facts.config)
        if to_object(servers.get(name)).get("enabled") is not False
    ]
    if twice:
        return warn(
            "doubled",
            f"The MCP server {twice[0]} is taskmem too: every tool is there twice.",
            f"Run: openclaw mcp unset {twice[0]}",
        )
    return ok("doubled", "The tools are there once.")


def check_recall(facts: Facts) -> HealthRow:
    """Tell whether the agent has `memory_recall`, or another plug-in has that name."""
    owner = find_recall_owner(facts.config, facts.state)
    if owner is None:
        return ok("recall", "Past tasks are found by memory_recall, and by memory_search.")
    return ok("recall", describe_recall_owner(owner))


def check_skill(facts: Facts) -> HealthRow:
    """Check that the agent finds the skill that explains when to use the tools."""
    key = f"skills.entries.{SKILL}.enabled"
    if find_value(facts.config, ("skills", "entries", SKILL, "enabled")) is False:
        cure = f"Run: openclaw config set {key} true"
        return warn("skill", f"The skill {SKILL} is switched off.", cure)
    places = ("plugin-skills", "skills", "workspace/skills")
    if any((facts.state / place / SKILL).exists() for place in places):
        return ok("skill", f"The skill {SKILL} is in place.")
    if (Path(facts.wishes.folder) / "skills" / SKILL / "SKILL.md").is_file():
        return ok("skill", f"The skill {SKILL} comes with the agent's next turn.")
    cure = "Reinstall openclaw-taskmem."
    return fail("skill", f"The skill {SKILL} is missing.", cure)


# --- what it looks at ---------------------------------------------------------


def _read_manifest(path: Path) -> Mapping[str, Any] | None:
    """Return the manifest in a folder; None: it is not our plug-in."""
    try:
        found: object = json.loads((path / "openclaw.plugin.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return to_object(found) if find_value(found, ("id",)) == plan.PLUGIN else None


def _expand_home(said: str) -> Path:
    """Expand `~` as OpenClaw does; an unknown user is left as it is."""
    return Path(os.path.expanduser(said.replace("\0", "")))  # noqa: PTH111


def _is_same_path(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
