"""Load plug-ins one by one, so that a broken one affects no other; the core comes last."""

from __future__ import annotations

import inspect
import logging
import traceback
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import Distribution, EntryPoint, distributions
from typing import Any, Final

import pluggy

from openclaw_taskmem.domain.wakes import packet
from openclaw_taskmem.plugin_host.isolation import run_with_timeout
from taskmem_hookspecs import PROJECT, ResumeFacts, ResumePacket, hookimpl, specs

log = logging.getLogger(__name__)

LOAD_SECONDS: Final = 10.0
"""Seconds in which a plug-in must be imported."""
OUR_DISTRIBUTION: Final = "openclaw-taskmem"
"""The distribution of the core and the built-in plug-ins."""
_ERROR_CHARACTERS: Final = 500


@dataclass(slots=True)
class Plugin:
    """A plug-in with its state and failures."""

    name: str
    """The name of its entry point."""
    distribution: str
    """The distribution that it belongs to, as `name version`; empty: none."""
    module: Any = None
    """The registered object; None: it could not be loaded or is disabled."""
    state: str = "on"
    """`on`, `off` (disabled), `failed` (not loaded) or `muted` (one hook skips it)."""
    hooks: tuple[str, ...] = ()
    last_error: str | None = None
    strikes: dict[str, int] = field(default_factory=dict[str, int])
    """Failures in a row, by hook."""

    def record_error(self, doing: str, error: BaseException) -> None:
        """Store and log an error."""
        self.last_error = f"{doing}: {format_error(error)}"
        log.warning("plug-in %s failed; %s", self.name, self.last_error)


def describe_plugins(plugins: Sequence[Plugin]) -> str:
    """List the loaded plug-ins and the errors of those that have failed."""
    names = ", ".join(plugin.name for plugin in plugins if plugin.hooks) or "none"
    ailing = "".join(f"; {p.name}: {p.last_error}" for p in plugins if p.last_error)
    return f"Loaded plug-ins: {names}{ailing}."


class Core:
    """Registered like a plug-in, and called last."""

    @staticmethod
    @hookimpl(trylast=True)
    def build_resume_packet(facts: ResumeFacts) -> ResumePacket:
        """Build the core's own resume packet."""
        return packet.build_packet(facts)


def format_error(error: BaseException) -> str:
    """Return an error as one line, even if its own text cannot be built."""
    text = " ".join("".join(traceback.format_exception_only(error)).split())
    return text[:_ERROR_CHARACTERS]


def find_entry_points() -> list[EntryPoint]:
    """Return the entry points of all installed plug-ins, in order of name.

    Distributions are read one by one: a broken one hides no other. Of two entry points with the
    same name, ours comes first.
    """
    entries: dict[tuple[str, str], EntryPoint] = {}
    for dist in distributions():
        try:
            for entry in dist.entry_points.select(group=PROJECT):
                entries.setdefault((entry.name, dist.name), entry)
        except Exception as error:  # noqa: BLE001 - whatever is in the file
            log.warning(
                "the entry points of %s are unreadable; %s",
                _describe_distribution(dist),
                format_error(error),
            )
    return [
        entries[key]
        for key in sorted(entries, key=lambda key: (key[0], key[1] != OUR_DISTRIBUTION))
    ]


def load_plugins(
    entries: Iterable[EntryPoint], disabled: Collection[str]
) -> tuple[pluggy.PluginManager, list[Plugin]]:
    """Register all plug-ins that can be loaded, and log the others."""
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(specs)
    plugins = [_load_plugin(manager, entry, disabled) for entry in entries]
    for name in sorted(set(disabled).difference(plugin.name for plugin in plugins)):
        log.warning("there is no plug-in %s that could be switched off", name)
    return manager, plugins


def add_plugin(manager: pluggy.PluginManager, name: str, module: Any) -> Plugin:  # noqa: ANN401
    """Register an object as a plug-in, or log why that fails."""
    plugin = Plugin(name=name, distribution="")
    _register(manager, plugin, lambda: module)
    return plugin


def _load_plugin(
    manager: pluggy.PluginManager, entry: EntryPoint, disabled: Collection[str]
) -> Plugin:
    plugin = Plugin(name=entry.name, distribution=_describe_distribution(entry.dist))
    if entry.name in disabled:
        plugin.state = "off"
    else:
        _register(manager, plugin, entry.load)
    return plugin


def _describe_distribution(dist: Distribution | None) -> str:
    try:
        return f"{dist.name} {dist.version}" if dist else ""
    except Exception:  # noqa: BLE001 - its metadata may be missing or garbled
        return "a nameless distribution"


def _register(manager: pluggy.PluginManager, plugin: Plugin, load_it: Callable[[], Any]) -> None:
    try:
        if manager.has_plugin(plugin.name):
            raise ValueError(  # noqa: TRY301 - handled like any other failure
                "another plug-in has the same name, and came first; rename this one's entry point"
            )
        module = run_with_timeout(load_it, LOAD_SECONDS, f"{plugin.name}.loading")
        hooks = _find_hooks(manager, module)
        manager.register(module, name=plugin.name)
    except Exception as error:  # noqa: BLE001 - whatever it raises
        plugin.state = "failed"
        plugin.record_error("loading", error)
    else:
        plugin.module, plugin.hooks = module, hooks


def _find_hooks(manager: pluggy.PluginManager, module: Any) -> tuple[str, ...]:  # noqa: ANN401
    """Return the hooks that a plug-in implements; refuse errors that pluggy ignores.

    A misspelt, unmarked or async function would never be called, and an unhashable plug-in breaks
    the calls of all others.
    """
    hash(module)
    known, answered = list_hook_names(), set[str]()
    for attribute in dir(module):
        options = manager.parse_hookimpl_opts(module, attribute)
        if options is None:
            continue
        name = options["specname"] or attribute
        if name in known:
            _refuse_lazy(name, getattr(module, attribute), options)
            answered.add(name)
        elif not options["optionalhook"]:
            raise LookupError(f"there is no hook {name!r}; {_describe_hooks(known)}")
    if not answered:
        raise LookupError(f"it has no function marked @hookimpl; {_describe_hooks(known)}")
    return tuple(sorted(answered))


def _refuse_lazy(name: str, function: Callable[..., object], options: pluggy.HookimplOpts) -> None:
    wraps = options["wrapper"] or options["hookwrapper"]
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"hooks are synchronous, and its {name!r} is async")
    if inspect.isgeneratorfunction(function) and not wraps:
        raise TypeError(f"its {name!r} yields, and is not marked wrapper=True")


def _describe_hooks(known: Sequence[str]) -> str:
    return f"the hooks are: {', '.join(sorted(known))}"


def list_hook_names() -> list[str]:
    """Return the names of all hooks."""
    return [name for name, item in vars(specs).items() if _is_spec(item)]


def _is_spec(item: object) -> bool:
    return hasattr(item, f"{PROJECT}_spec")
