"""Loading plug-ins: each alone, so that a broken one costs nothing but itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import pluggy

from taskmem_hookspecs import PROJECT, specs

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Plugin:
    """A plug-in, and how it has fared."""

    name: str
    """The name of its entry point."""
    distribution: str
    """The distribution it came with, as `name version`; empty: none."""
    module: Any = None
    """The registered object; None: it could not be loaded, or is switched off."""
    state: str = "on"
    """`on`, `off` (switched off), `failed` (could not be loaded) or `muted`."""
    hooks: tuple[str, ...] = ()
    last_error: str | None = None
    strikes: dict[str, int] = field(default_factory=dict[str, int])
    """Failures in a row, by hook."""

    def note(self, doing: str, error: BaseException) -> None:
        """Keep and log what went wrong."""
        self.last_error = f"{doing}: {type(error).__name__}: {error}"
        log.warning("plug-in %s failed; %s", self.name, self.last_error)


def found() -> Iterable[EntryPoint]:
    """Return the entry points of all installed plug-ins, in order of name."""
    return sorted(entry_points(group=PROJECT), key=lambda entry: entry.name)


def load(
    entries: Iterable[EntryPoint], disabled: Collection[str]
) -> tuple[pluggy.PluginManager, list[Plugin]]:
    """Register every plug-in that can be, and tell of the others."""
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(specs)
    plugins = [_load_one(manager, entry, disabled) for entry in entries]
    return manager, plugins


def add(manager: pluggy.PluginManager, name: str, module: Any) -> Plugin:  # noqa: ANN401
    """Register one object as a plug-in, or tell why it cannot be."""
    plugin = Plugin(name=name, distribution="")
    _register(manager, plugin, lambda: module)
    return plugin


def _load_one(
    manager: pluggy.PluginManager, entry: EntryPoint, disabled: Collection[str]
) -> Plugin:
    dist = entry.dist
    plugin = Plugin(
        name=entry.name, distribution=f"{dist.name} {dist.version}" if dist else ""
    )
    if entry.name in disabled:
        plugin.state = "off"
        return plugin
    _register(manager, plugin, entry.load)
    return plugin


def _register(
    manager: pluggy.PluginManager, plugin: Plugin, load_it: Callable[[], Any]
) -> None:
    module = None
    try:
        module = load_it()
        manager.register(module, name=plugin.name)
        _check(manager, module)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it raises
        if module is not None and manager.is_registered(module):
            manager.unregister(module)
        plugin.state = "failed"
        plugin.note("loading", error)
        return
    plugin.module = module
    plugin.hooks = tuple(
        sorted(caller.name for caller in manager.get_hookcallers(module) or ())
    )


def _check(manager: pluggy.PluginManager, module: Any) -> None:  # noqa: ANN401
    """Refuse implementations of hooks that do not exist: a misspelt name is silent."""
    for caller in manager.get_hookcallers(module) or ():
        if not caller.has_spec():
            raise LookupError(
                f"there is no hook {caller.name!r}; the hooks are: "
                f"{', '.join(sorted(hook_names()))}"
            )


def hook_names() -> list[str]:
    """Return the names of all hooks."""
    return [name for name, item in vars(specs).items() if _is_spec(item)]


def _is_spec(item: object) -> bool:
    return hasattr(item, f"{PROJECT}_spec")
