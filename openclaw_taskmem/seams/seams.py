"""The typed facade over the hooks: one method each, and no plug-in can hurt.

A plug-in that raises, hangs or answers nonsense is named in the log and costs
nothing but its own contribution. Source: requirement H3.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import EntryPoint
from typing import Any, Final, ParamSpec, TypeGuard, TypeVar

from openclaw_taskmem.domain import packet as core_packet
from openclaw_taskmem.seams import manager as plugin_manager
from openclaw_taskmem.seams.apart import call_apart
from openclaw_taskmem.seams.manager import Plugin
from taskmem_hookspecs import (
    EvidenceVerifier,
    Judge,
    QueryAnswerer,
    RecallSource,
    ResumeFacts,
    ResumePacket,
    Sensor,
    Target,
    TaskStore,
    WakeTransport,
    hookimpl,
)
from taskmem_hookspecs.errors import NoProvider, SettingsInvalid, StoreUnavailable

log = logging.getLogger(__name__)
T = TypeVar("T")
P = ParamSpec("P")

STRIKES: Final = 3
"""Failures in a row after which a plug-in is not told any more."""
KNOWN_TRANSPORTS: Final = (
    "openclaw-plugin",
    "openclaw-hooks",
    "openclaw-cli",
    "stdout",
)
STORE_SECONDS: Final = 120.0
"""How long a store may take to open: a migration is in it."""


class _Core:
    """The core's own answers, behind everyone else's."""

    @staticmethod
    @hookimpl(trylast=True)
    def build_resume_packet(facts: ResumeFacts) -> ResumePacket:
        return core_packet.build(facts)


class Seams:
    """All plug-ins, loaded, behind one method a hook."""

    def __init__(
        self,
        *,
        seconds: float = 2.0,
        disabled: Sequence[str] = (),
        entries: Iterable[EntryPoint] | None = None,
        extra: Sequence[tuple[str, Any]] = (),
    ) -> None:
        """Load the plug-ins.

        Args:
            seconds: How long a plug-in may take to answer.
            disabled: Names of entry points to leave out.
            entries: What to load; None: whatever is installed.
            extra: Names and objects to register besides.
        """
        self._seconds = seconds
        found = plugin_manager.found() if entries is None else entries
        self._manager, self._plugins = plugin_manager.load(found, disabled)
        for name, module in extra:
            self._plugins.append(plugin_manager.add(self._manager, name, module))
        self._manager.register(_Core, name="core")

    @property
    def plugins(self) -> Sequence[Plugin]:
        """Every plug-in found, those that failed or are off included."""
        return tuple(self._plugins)

    # --- tell ---------------------------------------------------------------

    def hears(self, hook: str) -> bool:
        """Whether any plug-in wants to be told through a hook."""
        return any(hook in plugin.hooks for plugin in self._on())

    def tell(self, hook: str, **values: object) -> None:
        """Tell every plug-in, each alone; three failures in a row mute it."""
        for plugin in self._on():
            if hook not in plugin.hooks:
                continue
            try:
                self._told(self._alone(plugin, hook, self._seconds, **values))
            except Exception as error:  # noqa: BLE001 - whatever a plug-in raises
                plugin.note(hook, error)
                plugin.strikes[hook] = plugin.strikes.get(hook, 0) + 1
                if plugin.strikes[hook] >= STRIKES:
                    plugin.state = "muted"
                    log.warning(
                        "plug-in %s is muted after %d failures in a row; restart "
                        "the daemon to hear it again",
                        plugin.name,
                        STRIKES,
                    )
            else:
                plugin.strikes[hook] = 0

    @staticmethod
    def _told(answers: Any) -> None:  # noqa: ANN401
        for answer in answers or ():
            if inspect.iscoroutine(answer):
                answer.close()
                raise TypeError("hooks are synchronous, and this one is async")

    # --- compute ------------------------------------------------------------

    def build_resume_packet(self, facts: ResumeFacts) -> ResumePacket:
        """Return the packet that the plug-ins build, or the core's own."""
        hook = "build_resume_packet"
        call: Callable[..., object] = self._manager.hook.build_resume_packet
        try:
            answer = call_apart(lambda: call(facts=facts), self._seconds, hook)
            return _checked_packet(answer, facts)
        except Exception as error:  # noqa: BLE001 - whatever a plug-in raises
            for plugin in self._suspects(hook, error):
                plugin.note(hook, error)
        return core_packet.build(facts)

    def _suspects(self, hook: str, error: BaseException) -> list[Plugin]:
        """Name the plug-ins whose code an error passed, else all that answer."""
        passed = set[str]()
        trace = error.__traceback__
        while trace is not None:
            passed.add(trace.tb_frame.f_globals.get("__name__", ""))
            trace = trace.tb_next
        able = [plugin for plugin in self._on() if hook in plugin.hooks]
        guilty = [plugin for plugin in able if _module_of(plugin.module) in passed]
        return guilty or able

    # --- provide ------------------------------------------------------------

    def store(self, url: str) -> TaskStore:
        """Open the database at a URL.

        Raises:
            NoProvider: No plug-in opens such a URL.
            StoreUnavailable: The one that does could not.
        """
        hook = "task_store"
        for plugin in self._in_order(hook):
            # A database that cannot be opened is for the operator to read about,
            # not to be passed over in favour of another store.
            opened = self._first(
                plugin, hook, _task_store, StoreUnavailable, STORE_SECONDS, url=url
            )
            if opened is not None:
                return opened
        raise NoProvider(
            f"No plug-in opens the database {url.split(':', 1)[0]}:…; install one, or "
            f"unset TASKMEM_DATABASE_URL. {self._loaded()}"
        )

    def transport(self, name: str) -> WakeTransport:
        """Return the transport of that name.

        Raises:
            SettingsInvalid: There is none; the sentence lists those there are.
        """
        for found in self._all("wake_transport", _wake_transport, name=name):
            return found
        known = {
            found.name
            for probe in (*KNOWN_TRANSPORTS, *(p.name for p in self._on()))
            for found in self._all("wake_transport", _wake_transport, name=probe)
        }
        raise SettingsInvalid(
            f"TASKMEM_WAKE_TRANSPORT is {name!r}, and no plug-in has such a "
            f"transport; use auto or one of: {', '.join(sorted(known)) or 'none'}."
        )

    def sensor(self, target: Target) -> Sensor | None:
        """Return what can look at a target; None: nothing can."""
        return next(self._all("wait_sensor", _sensor, target=target), None)

    def judges(self, target: Target) -> Sequence[Judge]:
        """Return all that can judge a target, in the order they are asked."""
        return tuple(self._all("wait_judge", _judge, target=target))

    def verifiers(self, kind: str) -> Sequence[EvidenceVerifier]:
        """Return all that can verify a kind of claim."""
        return tuple(self._all("evidence_verifier", _evidence_verifier, kind=kind))

    def recall_sources(self) -> Sequence[RecallSource]:
        """Return all sources of recorded history."""
        return tuple(self._all("recall_source", _recall_source))

    def answerers(self) -> Sequence[QueryAnswerer]:
        """Return all that may answer a question about a task."""
        return tuple(self._all("query_answerer", _query_answerer))

    def ask(
        self,
        part: object,
        doing: str,
        call: Callable[P, T],
        *values: P.args,
        **named: P.kwargs,
    ) -> T | None:
        """Call a method of a part under the hooks' limit; None: it failed."""
        try:
            return call_apart(lambda: call(*values, **named), self._seconds, doing)
        except Exception as error:  # noqa: BLE001 - whatever a plug-in raises
            log.warning("%s failed; %s: %r", type(part).__name__, doing, error)
            return None

    # --- one plug-in at a time ----------------------------------------------

    def _on(self) -> list[Plugin]:
        return [plugin for plugin in self._plugins if plugin.state == "on"]

    def _in_order(self, hook: str) -> list[Plugin]:
        """Return the plug-ins that answer a hook, in pluggy's own order of calls."""
        caller = getattr(self._manager.hook, hook)
        order = [impl.plugin_name for impl in reversed(caller.get_hookimpls())]
        able = [plugin for plugin in self._on() if hook in plugin.hooks]
        return sorted(able, key=lambda plugin: order.index(plugin.name))

    def _all(
        self, hook: str, plays: Callable[[object], TypeGuard[T]], **values: object
    ) -> Iterator[T]:
        for plugin in self._in_order(hook):
            answer = self._first(plugin, hook, plays, (), self._seconds, **values)
            if answer is not None:
                yield answer

    def _first(
        self,
        plugin: Plugin,
        hook: str,
        plays: Callable[[object], TypeGuard[T]],
        passed_on: type[Exception] | tuple[()],
        seconds: float,
        **values: object,
    ) -> T | None:
        try:
            answer = self._alone(plugin, hook, seconds, **values)
            if isinstance(answer, list):
                answer = next(iter(answer), None)
            if answer is None or plays(answer):
                return answer
            raise TypeError(  # noqa: TRY301 - handled like any other failure
                f"answered {type(answer).__name__}, which does not play the part"
            )
        except passed_on:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a plug-in raises
            plugin.note(hook, error)
            return None

    def _alone(
        self,
        plugin: Plugin,
        hook: str,
        seconds: float,
        **values: object,
    ) -> Any:  # noqa: ANN401 - checked by the callers
        others = [
            module
            for _, module in self._manager.list_name_plugin()
            if module is not None and module is not plugin.module
        ]
        caller = self._manager.subset_hook_caller(hook, others)
        return call_apart(lambda: caller(**values), seconds, f"{plugin.name}.{hook}")

    def _loaded(self) -> str:
        names = ", ".join(plugin.name for plugin in self._on()) or "none"
        return f"Loaded plug-ins: {names}."


def _checked_packet(answer: object, facts: ResumeFacts) -> ResumePacket:
    if not isinstance(answer, ResumePacket):
        raise TypeError(f"answered {type(answer).__name__}, which is no ResumePacket")
    if (answer.task_id, answer.wake_id) != (facts.task.task_id, facts.wake_id):
        raise ValueError("answered with the packet of another task or wake")
    return answer


def _module_of(module: Any) -> str:  # noqa: ANN401
    return str(getattr(module, "__name__", type(module).__module__))


def _task_store(answer: object) -> TypeGuard[TaskStore]:
    return isinstance(answer, TaskStore)


def _wake_transport(answer: object) -> TypeGuard[WakeTransport]:
    return isinstance(answer, WakeTransport)


def _sensor(answer: object) -> TypeGuard[Sensor]:
    return isinstance(answer, Sensor)


def _judge(answer: object) -> TypeGuard[Judge]:
    return isinstance(answer, Judge)


def _evidence_verifier(answer: object) -> TypeGuard[EvidenceVerifier]:
    return isinstance(answer, EvidenceVerifier)


def _recall_source(answer: object) -> TypeGuard[RecallSource]:
    return isinstance(answer, RecallSource)


def _query_answerer(answer: object) -> TypeGuard[QueryAnswerer]:
    return isinstance(answer, QueryAnswerer)
