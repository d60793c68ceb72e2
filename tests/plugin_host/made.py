"""Plug-ins made for a test, good and bad, and how each hook is asked."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from openclaw_taskmem.domain.conditions.conditions import parse_condition
from openclaw_taskmem.domain.wakes import packet as core_packet
from openclaw_taskmem.plugin_host.plugin_host import PluginHost
from taskmem_hookspecs import (
    Finding,
    Frame,
    Met,
    ResumeFacts,
    Ruling,
    Run,
    RunState,
    StuckVerdict,
    Target,
    Verdict,
    WaitOutcome,
    WaitStatus,
    WakeReceipt,
    hookimpl,
)
from taskmem_hookspecs.errors import ConditionUnclear, NoProvider, SettingsInvalid
from taskmem_hookspecs.testing import DAWN, FakeClock, a_task, a_wait
from tests.support.memory_store import MemoryStore

FACTS = ResumeFacts(
    task=a_task(),
    verdict=StuckVerdict(reason="no updates", idle_seconds=300),
    wake_id="wake_1",
    now=DAWN,
)
TARGET = Target(scheme="pty", name="build")
CONDITION = parse_condition("it finishes")


class Everything:
    """An object that plays every part but the store's."""

    name = "made"

    async def deliver(self, wake):
        return WakeReceipt(delivered_at=DAWN)

    async def watch(self, target):
        return self

    async def here(self):
        return Frame(seen_at=DAWN, place="0", text="")

    async def end(self):
        return "0"

    async def look(self, place, start):
        return Frame(seen_at=DAWN, place=place, text="")

    async def wait_for_change(self):
        return None

    async def close(self):
        return None

    async def rule(self, frame):
        return Ruling(met=Met.NO, observation="nothing")

    async def verify(self, claim):
        return Finding(verdict=Verdict.UNPROVEN, detail="nothing")

    def recall(self, query, limit, recency_bias):
        return []

    def answer(self, facts, query):
        return "all is well"


def judges(plugin_host: PluginHost) -> Any:
    """Ask for judges, where it is no matter whether there are any."""
    try:
        return plugin_host.collect_judges(TARGET, CONDITION).found
    except ConditionUnclear:
        return ()


TELL = {
    "on_task_registered": {"task": a_task()},
    "on_wait_resolved": {
        "wait": a_wait(),
        "outcome": WaitOutcome(status=WaitStatus.RESOLVED, observation="done", elapsed_seconds=1),
        "task": None,
    },
    "on_stuck": {"task": a_task(), "verdict": FACTS.verdict, "packet": None},
    "on_run_changed": {
        "run": Run(
            run_id="run_1",
            task_id="task_1",
            state=RunState.RUNNING,
            created_at=DAWN,
            changed_at=DAWN,
            seen_at=DAWN,
        ),
        "task": a_task(),
    },
}
HOME = {"history": None, "folder": Path("/nowhere"), "clock": FakeClock(), "scrub": str}
ONE = {
    "task_store": lambda plugin_host: plugin_host.open_store("memory:"),
    "wake_transport": lambda plugin_host: plugin_host.find_wake_transports(["made"])[0],
}
"""How the hooks are asked of which one answer is needed."""
MANY = {
    "wait_sensor": lambda plugin_host: plugin_host.find_sensors(TARGET),
    "wait_judge": judges,
    "evidence_verifier": lambda plugin_host: plugin_host.find_verifiers("file"),
    "recall_source": lambda plugin_host: plugin_host.find_recall_sources(**HOME),
    "query_answerer": lambda plugin_host: plugin_host.find_answerers(),
}
"""How the hooks are asked of which all answers are kept."""
COMPUTE = "build_resume_packet"
HOOKS = [*TELL, *ONE, *MANY, COMPUTE]


def plugin(name: str = "made_up", /, **hooks: Any) -> ModuleType:
    """A module with these functions, each marked unless it is already."""
    module = ModuleType(name)
    for hook, function in hooks.items():
        marked = hasattr(function, "openclaw_taskmem_impl")
        setattr(module, hook, function if marked else hookimpl(function))
    return module


def make_answering_plugin(hook: str, answer: object) -> ModuleType:
    """A plug-in with one hook, which always gives the same answer."""
    return plugin(**{hook: lambda: answer})


@dataclass
class Good:
    """A plug-in with one hook, and what it contributes."""

    hook: str

    def __post_init__(self) -> None:
        self.heard = 0
        self.part = MemoryStore() if self.hook == "task_store" else Everything()
        self.module = plugin(**{self.hook: lambda: self.serve()})  # noqa: PLW0108 - a method cannot be marked

    def serve(self) -> Any:
        self.heard += 1
        return None if self.hook.startswith("on_") else self.part

    def has_contributed(self, plugin_host: Any) -> bool:
        """Ask the hook, and tell whether this plug-in's contribution is there."""
        if self.hook in TELL:
            before = self.heard
            plugin_host.call_hook(self.hook, **TELL[self.hook])
            return self.heard == before + 1
        if self.hook in ONE:
            return ONE[self.hook](plugin_host) is self.part
        return any(part is self.part for part in MANY[self.hook](plugin_host))


def entry(name: str, value: str, distribution: str | None = None) -> Any:
    """An entry point that was found, perhaps with a distribution."""
    found = EntryPoint(name, value, "openclaw_taskmem")
    if distribution is not None:
        vars(found)["dist"] = SimpleNamespace(name=distribution, version="1.0")
    return found


PROVIDE = [*ONE, *MANY]
CORE = core_packet.build_packet(FACTS)
LIMIT = 0.2


def seams_of(seconds=30.0, **modules):
    return PluginHost(entries=[], extra=list(modules.items()), seconds=seconds)


def row(plugin_host, name="bad"):
    (found,) = [plugin for plugin in plugin_host.plugins if plugin.name == name]
    return found


def ask(plugin_host, hook):
    """Ask a hook, whatever comes of it."""
    if hook in TELL:
        plugin_host.call_hook(hook, **TELL[hook])
    elif hook == COMPUTE:
        return plugin_host.build_resume_packet(FACTS)
    elif hook in MANY:
        return MANY[hook](plugin_host)
    else:
        try:
            return ONE[hook](plugin_host)
        except (NoProvider, SettingsInvalid):
            pass
    return None


def make_raiser(error):
    def serve():
        raise error

    return serve


async def nothing():
    """Answer nothing, later."""


def lazily():
    yield


def assert_costs_nothing_else(bad, hook, caplog, seconds=30.0):
    """See a bad plug-in named, and a good one beside it heard."""
    if hook == COMPUTE:
        plugin_host = seams_of(seconds, bad=bad)
        assert plugin_host.build_resume_packet(FACTS) == CORE
    else:
        good = Good(hook)
        # Registered last, the bad one is asked first.
        plugin_host = seams_of(seconds, good=good.module, bad=bad)
        assert good.has_contributed(plugin_host)
        assert (row(plugin_host, "good").state, row(plugin_host, "good").last_error) == ("on", None)
    assert row(plugin_host).last_error.startswith(f"{hook}: ")
    assert f"plug-in bad failed; {row(plugin_host).last_error}" in caplog.messages
    return row(plugin_host).last_error
