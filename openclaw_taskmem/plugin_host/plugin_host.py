"""Find and load the plug-ins, and call their hooks: one method per hook, safe from faulty plug-ins.

A plug-in that raises, hangs or returns an invalid answer is named in the log, and only its own
contribution is lost. Source: docs/origins.md, "Plug-ins that fail".
"""

from __future__ import annotations

import asyncio
import errno
import inspect
import logging
import re
import traceback
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from importlib.metadata import Distribution, EntryPoint, distributions
from itertools import chain
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar, cast

import pluggy
from pydantic import JsonValue

from openclaw_taskmem.domain.callers import ANY_TRANSPORT, SessionKeys, find_key_fault
from openclaw_taskmem.domain.conditions import targets
from openclaw_taskmem.domain.wakes import packet
from openclaw_taskmem.plugin_host.connected_sessions import ConnectedSessions
from openclaw_taskmem.plugin_host.isolation import (
    TookTooLong,
    refuse_awaitable,
    require_jpeg,
    require_packet,
    require_part,
    require_value,
    run_with_timeout,
)
from taskmem_hookspecs import (
    AgentHost,
    Claim,
    Condition,
    ConditionUnclear,
    DoctorCheck,
    EvidenceVerifier,
    Finding,
    Judge,
    NamingHost,
    Picture,
    QueryAnswerer,
    Reader,
    RecallSource,
    ResumeFacts,
    ResumePacket,
    SelectiveHost,
    SelectiveTransport,
    Sensor,
    SessionNames,
    StoreFull,
    Target,
    TaskmemError,
    TaskStore,
    WakeTransport,
    hookimpl,
    specs,
)
from taskmem_hookspecs.errors import NoProvider, SettingsInvalid
from taskmem_hookspecs.specs import PROJECT

T = TypeVar("T")
P = ParamSpec("P")

log = logging.getLogger(__name__)

LOAD_SECONDS: Final = 10.0
"""Seconds in which a plug-in must be imported."""
OUR_DISTRIBUTION: Final = "openclaw-taskmem"
"""The distribution of the core and the built-in plug-ins."""
_ERROR_CHARACTERS: Final = 500
MOST_STRIKES: Final = 3
"""Failures in a row after which a hook no longer calls a plug-in."""
STORE_SECONDS: Final = 120.0
"""Seconds in which a store must open; this includes a migration."""
_TARGET_FORM: Final = re.compile(r"([a-z_][a-z0-9_]*):\S.{0,200}")
_NAMES_TYPE: Final[type[Sequence[str]]] = Sequence
_CHECKS_TYPE: Final[type[Sequence[DoctorCheck]]] = Sequence
"""The types that such answers must have; `_are_names` and `_are_checks` look at what is in them."""
_READER_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")


class Cause(StrEnum):
    """The cause of a plug-in's failure, where that is no fault of its own."""

    NO_ROOM = "no_room"
    READ_ONLY = "read_only"
    LATE = "late"


_CAUSES: Final = {
    errno.ENOSPC: Cause.NO_ROOM,
    errno.EDQUOT: Cause.NO_ROOM,
    errno.EROFS: Cause.READ_ONLY,
}
_MOST_CAUSES: Final = 10
"""Errors that are looked at behind one another."""


def _find_cause(error: BaseException | None) -> Cause | None:
    """Return what an error, or one behind it, tells by its type or number; None: nothing."""
    for _ in range(_MOST_CAUSES):
        if error is None:
            break
        if isinstance(error, TookTooLong):
            return Cause.LATE
        is_full = getattr(error, "sqlite_errorname", None) == "SQLITE_FULL"
        if is_full or isinstance(error, StoreFull):
            return Cause.NO_ROOM
        if isinstance(error, OSError) and error.errno in _CAUSES:
            return _CAUSES[error.errno]
        error = error.__cause__ or error.__context__
    return None


@dataclass(slots=True)
class Plugin:
    """A plug-in with its state and failures."""

    name: str
    """The name of its entry point."""
    distribution: str
    """The distribution that it belongs to, as `name version`; empty: none."""
    package: str = ""
    """The package with its code; empty: unknown."""
    module: Any = None
    """The registered object; None: it could not be loaded or is disabled."""
    state: str = "on"
    """`on`, `off` (disabled), `failed` (not loaded) or `muted` (one hook skips it)."""
    hooks: tuple[str, ...] = ()
    last_error: str | None = None
    cause: Cause | None = None
    """Cause of `last_error`; None: a fault of the plug-in, as far as is known."""
    strikes: dict[str, int] = field(default_factory=dict[str, int])
    """Failures in a row, by hook."""

    def record_error(self, doing: str, error: BaseException) -> None:
        """Store and log an error, with the innermost line of the plug-in's code."""
        frames = traceback.walk_tb(error.__traceback__)
        places = [
            f" ({frame.f_code.co_filename}:{line})"
            for frame, line in frames
            if _find_package(frame.f_globals.get("__name__")) == self.package
        ]
        self.last_error = "".join([f"{doing}: {format_error(error)}", *places[-1:]])
        self.cause = _find_cause(error)
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


def _find_package(module: object) -> str:
    """Return the top package of a module's dotted name."""
    return str(module).partition(".")[0]


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
    package = _find_package(getattr(module, "__name__", ""))
    plugin = Plugin(name=name, distribution="", package=package)
    _register(manager, plugin, lambda: module)
    return plugin


def _load_plugin(
    manager: pluggy.PluginManager, entry: EntryPoint, disabled: Collection[str]
) -> Plugin:
    plugin = Plugin(
        name=entry.name,
        distribution=_describe_distribution(entry.dist),
        package=_find_package(entry.value.partition(":")[0]),
    )
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
    return [name for name, item in vars(specs).items() if hasattr(item, f"{PROJECT}_spec")]


class Judges(NamedTuple):
    """The judges of a condition, and why plug-ins do not judge it, or not yet."""

    found: tuple[Judge, ...]
    advice: tuple[str, ...]
    """Sentences that say what would let other judges decide it, and which plug-ins have failed."""
    refusal: ConditionUnclear | None
    """Why the target can never have one of the condition's forms; None: it can have all."""
    late: tuple[str, ...] = ()
    """Sentences naming plug-ins that did not answer in time and may judge it later."""


def describe_no_judge(target: Target) -> str:
    """Return the advice of a condition that no plug-in says anything about."""
    return f"No plug-in judges such words of a {target.scheme}."


class PluginHost:
    """All loaded plug-ins, with one method per hook."""

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
            entries: Entry points to load; None: all that are installed.
            extra: Names and objects to register as well.
        """
        self._seconds = seconds
        self.sessions = ConnectedSessions()
        """The sessions of MCP hosts, which plug-ins may look up."""
        self._hanging: dict[str, Future[Any]] = {}
        self._callers: dict[tuple[str, str], pluggy.HookCaller] = {}
        """By plug-in and hook: the caller of that plug-in alone; made once."""
        found = find_entry_points() if entries is None else entries
        self._manager, self._plugins = load_plugins(found, disabled)
        for name, module in extra:
            self._plugins.append(add_plugin(self._manager, name, module))
        # Registered last, so called last; no entry point can have this name.
        self._manager.register(Core, name="= the core")

    @property
    def plugins(self) -> Sequence[Plugin]:
        """Every plug-in found, including those that failed or are disabled."""
        return tuple(self._plugins)

    # --- tell ---------------------------------------------------------------

    def has_listeners(self, hook: str) -> bool:
        """Tell whether a hook has plug-ins to call."""
        return bool(self._list_listeners(hook))

    def call_hook(self, hook: str, **values: object) -> None:
        """Call a hook of each plug-in; after three failures in a row, this hook skips that one."""
        for plugin in self._list_listeners(hook):
            call = self._build_call(plugin, hook, values)
            try:
                run_with_timeout(call, self._seconds, f"{plugin.name}.{hook}")
            except Exception as error:  # noqa: BLE001 - whatever a plug-in raises
                plugin.record_error(hook, error)
                self._record_strike(plugin, hook)
            else:
                plugin.strikes[hook] = 0

    def _list_listeners(self, hook: str) -> list[Plugin]:
        return [p for p in self._list_answering(hook) if p.strikes.get(hook, 0) < MOST_STRIKES]

    @staticmethod
    def _record_strike(plugin: Plugin, hook: str) -> None:
        plugin.strikes[hook] = plugin.strikes.get(hook, 0) + 1
        if plugin.strikes[hook] == MOST_STRIKES:
            plugin.state = "muted"
            log.warning(
                "plug-in %s failed %d times in a row, and %s does not tell it any "
                "more; restart the daemon to try it again",
                plugin.name,
                MOST_STRIKES,
                hook,
            )

    # --- compute ------------------------------------------------------------

    def build_resume_packet(self, facts: ResumeFacts) -> ResumePacket:
        """Return the packet that the plug-ins build, or else the core's own."""
        hook = "build_resume_packet"
        call: Callable[..., object] = self._manager.hook.build_resume_packet
        # A copy, as frozen values may contain a dict that the store uses.
        lent = facts.model_copy(deep=True)
        try:
            answer = self._run_with_timeout(
                hook, self._seconds, lambda: refuse_awaitable(call(facts=lent))
            )
            return require_packet(answer, facts)
        except Exception as error:  # noqa: BLE001 - whatever a plug-in raises
            suspects = self._find_suspects(hook, error)
            doing = hook if len(suspects) == 1 else f"{hook}, here or in another one"
            for plugin in suspects:
                plugin.record_error(doing, error)
        return Core.build_resume_packet(facts)

    def _find_suspects(self, hook: str, error: BaseException) -> list[Plugin]:
        """Return the plug-in whose code raised an error; if unclear, all that answer the hook."""
        impls = getattr(self._manager.hook, hook).get_hookimpls()
        names = {impl.function.__code__: impl.plugin_name for impl in impls}
        guilty = None
        for frame, _ in traceback.walk_tb(error.__traceback__):
            guilty = names.get(frame.f_code, guilty)
        return [p for p in self._list_answering(hook) if guilty in (None, p.name)]

    # --- provide ------------------------------------------------------------

    def open_store(self, url: str) -> TaskStore:
        """Open the database at a URL.

        Raises:
            NoProvider: No plug-in opens such a URL.
            TaskmemError: The plug-in could not open it; the text says why.
        """
        hook = "task_store"
        for plugin in self._list_answering(hook):
            # If it cannot be opened, tell the operator instead of trying another store.
            opened = self._ask_plugin(
                plugin,
                hook,
                TaskStore,
                {"url": url},
                seconds=STORE_SECONDS,
                passed_on=TaskmemError,
            )
            if opened:
                return opened[0]
        raise NoProvider(
            f"No plug-in opens the database {url.split(':', 1)[0]}:…; install one, or "
            f"unset TASKMEM_DATABASE_URL. {describe_plugins(self._plugins)}"
        )

    def find_wake_transports(
        self, names: Sequence[str], setting: str = "The transport"
    ) -> Sequence[WakeTransport]:
        """Return the transports with these names, which stand in a setting.

        They are in the order in which to ask whom they reach: those that reach some hosts only
        come first.

        Raises:
            NoProvider: There is no transport at all.
            SettingsInvalid: There is none with one of the names; the text lists the names.
        """
        found: dict[str, WakeTransport] = {}
        for name in names:
            named = [*self._find_transports_named(name)]
            if not named:
                raise self._build_transport_error(name, setting)
            for transport in named:
                found.setdefault(transport.name, transport)
        return sorted(found.values(), key=lambda each: not isinstance(each, SelectiveTransport))

    def _build_transport_error(self, name: str, setting: str) -> TaskmemError:
        answers = self._iterate_answers("wake_transport_names", _NAMES_TYPE, _are_names)
        plugins = (plugin.name for plugin in self._list_active())
        probes = dict.fromkeys((ANY_TRANSPORT, *chain.from_iterable(answers), *plugins))
        known = {found.name for probe in probes for found in self._find_transports_named(probe)}
        known.discard(ANY_TRANSPORT)
        if not known:
            loaded = describe_plugins(self._plugins)
            return NoProvider(f"No plug-in carries wakes; install one. {loaded}")
        return SettingsInvalid(
            f"{setting} is {name!r}, and no plug-in has such a "
            f"transport; use {ANY_TRANSPORT} or one of: {', '.join(sorted(known))}."
        )

    def _find_transports_named(self, name: str) -> Iterator[WakeTransport]:
        def fits(found: WakeTransport) -> bool:
            has_name = _has_name(found) and "," not in found.name
            return has_name and name in (ANY_TRANSPORT, found.name)

        return self._iterate_answers(
            "wake_transport", WakeTransport, fits, name=name, sessions=self.sessions
        )

    def list_session_variables(self) -> Sequence[str]:
        """Return the names of the variables in which hosts name their sessions."""
        answers = self._iterate_answers("session_variables", _NAMES_TYPE, _are_names)
        return tuple(dict.fromkeys(chain.from_iterable(answers)))

    def find_calling_session(
        self, client: str | None, variables: Mapping[str, str], meta: Mapping[str, JsonValue]
    ) -> str | None:
        """Return the key of the session that calls over MCP; None: no plug-in knows it.

        What its host tells may be no key; a plug-in that passes it on is not to blame.
        """
        answers = self._iterate_answers(
            "calling_session", str, client=client, variables=variables, meta=meta
        )
        return next(filter(_is_key, answers), None)

    def find_agent_hosts(self) -> Sequence[AgentHost]:
        """Return the agent hosts of all plug-ins; those that reach some sessions only come first.

        Empty: agents can only be woken.
        """
        found = self._iterate_answers("agent_host", AgentHost, sessions=self.sessions)
        return sorted(found, key=lambda each: not isinstance(each, SelectiveHost))

    def read_session_keys(self, hosts: Sequence[AgentHost]) -> SessionKeys:
        """Return how hosts name their own sessions; one without a valid answer has none."""
        asked = (host for host in hosts if isinstance(host, NamingHost))
        answers = (
            self.call_part(host, "describe_sessions", _read_session_names, host) for host in asked
        )
        return SessionKeys(hosts=tuple(names for names in answers if names is not None))

    def find_sensors(self, target: Target) -> Sequence[Sensor]:
        """Return all sensors that may watch a target, in the order in which to ask them."""
        return tuple(self._iterate_answers("wait_sensor", Sensor, target=target))

    def list_target_forms(self) -> Sequence[str]:
        """Return a line for each form of target that plug-ins add."""
        return (*chain(*self._iterate_answers("wait_target_forms", _NAMES_TYPE, _are_forms)),)

    def collect_judges(
        self,
        target: Target,
        condition: Condition,
        reader: Reader | None = None,
        seconds: float | None = None,
    ) -> Judges:
        """Return all judges of a condition, in the order in which to ask them, and advice."""
        # `seconds`: how long each plug-in may take; None: as for other hooks.
        hook, words = "wait_judge", condition.sentence
        asked: dict[str, object] = {"target": target, "wake_when": words}
        asked |= {"condition": condition, "reader": reader}
        found: list[Judge] = []
        advice: list[str] = []
        late: list[str] = []
        limits: Any = {"seconds": seconds, "passed_on": (ConditionUnclear, TookTooLong)}
        refusal: ConditionUnclear | None = None
        for plugin in self._list_answering(hook):
            try:
                found += self._ask_plugin(plugin, hook, Judge, asked, fits=_has_name, **limits)
            except TookTooLong as error:
                plugin.record_error(hook, error)
                late.append(f"The plug-in {plugin.name} gave {error}.")
            except ConditionUnclear as unclear:
                if unclear.sides and refusal is None:
                    refusal = unclear
                advice.append(str(unclear))
        advice += [sentence for each in found if (sentence := getattr(each, "advice", None))]
        advice += [
            f"The plug-in {plugin.name} failed: {plugin.last_error}."
            for plugin in self._list_answering(hook)
            if plugin.last_error
        ]
        if not found and not advice:
            advice.append(describe_no_judge(target))
        return Judges(tuple(found), tuple(advice), refusal, tuple(late))

    def record_failure(self, part: object, doing: str, error: BaseException) -> None:
        """Record a part's failure as the last error of its plug-in."""
        package = _find_package(type(part).__module__)
        for plugin in self._plugins:
            if plugin.package == package:
                plugin.record_error(doing, error)
                return
        log.warning("%s failed; %s: %s", package, doing, format_error(error))

    def encode_picture(self, picture: Picture, longest: int) -> bytes:
        """Return a picture as JPEG, at most `longest` pixels wide or high; errors are raised.

        A call that hangs times out after the hooks' limit. No error is recorded for the plug-in.
        """
        name = f"{type(picture).__module__}.{type(picture).__qualname__}.jpeg"
        call = partial(picture.jpeg, longest)
        return require_jpeg(self._run_with_timeout(name, self._seconds, call))

    def find_verifiers(self, kind: str) -> Sequence[EvidenceVerifier]:
        """Return all verifiers of a kind of claim."""
        return tuple(self._iterate_answers("evidence_verifier", EvidenceVerifier, kind=kind))

    def collect_findings(self, claim: Claim) -> tuple[Finding, ...]:
        """Return the findings of all verifiers of a claim's kind, except those that failed."""
        findings: list[Finding] = []
        for verifier in self.find_verifiers(claim.kind):
            finding = self.call_part(verifier, "verify", partial(_verify, verifier, claim))
            if finding is not None:
                findings.append(finding)
        return tuple(findings)

    def find_recall_sources(self, **given: object) -> Sequence[RecallSource]:
        """Return all sources of recorded history; `given` are the arguments of the hook."""
        return tuple(self._iterate_answers("recall_source", RecallSource, **given))

    def find_answerers(self) -> Sequence[QueryAnswerer]:
        """Return all plug-ins' answerers of queries about tasks."""
        return tuple(self._iterate_answers("query_answerer", QueryAnswerer))

    def find_doctor_checks(self, seconds: float | None = None) -> Sequence[tuple[str, DoctorCheck]]:
        """Return the doctor's checks, each with its plug-in's name; a late plug-in has none."""
        hook = "health_checks"
        return [
            (plugin.name, check)
            for plugin in self._list_answering(hook)
            for checks in self._ask_plugin(
                plugin, hook, _CHECKS_TYPE, {}, fits=_are_checks, seconds=seconds
            )
            for check in checks
        ]

    def find_readers(self) -> Mapping[str, Reader]:
        """Return all readers by name; of two with the same name, the first."""
        found = [*self._iterate_answers("reader", Reader, _has_readers_name)]
        return {reader.name: reader for reader in reversed(found)}

    def call_part(
        self, part: object, doing: str, call: Callable[P, T], *values: P.args, **named: P.kwargs
    ) -> T | None:
        """Call a method of a part under the hooks' time limit; None: it failed."""
        name = f"{type(part).__module__}.{type(part).__qualname__}"
        try:
            return self._run_with_timeout(
                f"{name}.{doing}",
                self._seconds,
                lambda: refuse_awaitable(call(*values, **named)),
            )
        except Exception as error:  # noqa: BLE001 - whatever a plug-in raises
            log.warning("%s failed; %s: %s", name, doing, format_error(error))
            return None

    # --- one plug-in at a time ----------------------------------------------

    def _list_active(self) -> list[Plugin]:
        return [plugin for plugin in self._plugins if plugin.hooks]

    def _list_answering(self, hook: str) -> list[Plugin]:
        """Return the plug-ins that implement a hook, in pluggy's order of calls."""
        caller = getattr(self._manager.hook, hook)
        order = [impl.plugin_name for impl in reversed(caller.get_hookimpls())]
        able = [plugin for plugin in self._list_active() if hook in plugin.hooks]
        return sorted(able, key=lambda plugin: order.index(plugin.name))

    def _iterate_answers(
        self,
        hook: str,
        kind: type[T],
        fits: Callable[[T], bool] | None = None,
        /,
        **values: object,
    ) -> Iterator[T]:
        for plugin in self._list_answering(hook):
            yield from self._ask_plugin(plugin, hook, kind, values, fits=fits)

    def _ask_plugin(
        self,
        plugin: Plugin,
        hook: str,
        kind: type[T],
        values: Mapping[str, object],
        *,
        fits: Callable[[T], bool] | None = None,
        seconds: float | None = None,
        passed_on: type[Exception] | tuple[type[Exception], ...] = (),
    ) -> Sequence[T]:
        """Return a plug-in's answers; none if one of them is invalid."""
        call = self._build_call(plugin, hook, values)
        try:
            answers = self._run_with_timeout(
                f"{plugin.name}.{hook}", seconds or self._seconds, call
            )
            return [require_part(answer, kind, fits) for answer in answers]
        except passed_on:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a plug-in raises
            plugin.record_error(hook, error)
            return ()

    def _build_call(
        self, plugin: Plugin, hook: str, values: Mapping[str, object]
    ) -> Callable[[], Sequence[object]]:
        """Return a function that calls a hook of one plug-in and returns its non-None answers."""
        caller = self._callers.get((plugin.name, hook))
        if caller is None:
            others = [
                module
                for _, module in self._manager.list_name_plugin()
                if module is not plugin.module
            ]
            caller = self._manager.subset_hook_caller(hook, others)
            self._callers[plugin.name, hook] = caller
        one = caller.spec is not None and caller.spec.opts["firstresult"]

        def call() -> Sequence[object]:
            answer: Any = caller(**values)
            answers: Iterable[object] = [answer] if one else answer or ()
            return [refuse_awaitable(each) for each in answers if each is not None]

        return call

    def _run_with_timeout(self, name: str, seconds: float, call: Callable[[], T]) -> T:
        """Run a call with a time limit; refuse it while an earlier one of that name hangs."""
        hanging = self._hanging.get(name)
        if hanging is not None and not hanging.done():
            raise TookTooLong(seconds, hanging)
        try:
            return run_with_timeout(call, seconds, name)
        except TookTooLong as error:
            self._hanging[name] = error.call
            raise


def _verify(verifier: EvidenceVerifier, claim: Claim) -> Finding:
    async def verify() -> Finding:
        return await verifier.verify(claim)

    return require_value(asyncio.run(verify()), Finding)


# --- what plug-ins answer ------------------------------------------------------------------


def _read_session_names(host: NamingHost) -> SessionNames:
    return require_value(refuse_awaitable(host.describe_sessions()), SessionNames)


def _has_name(part: WakeTransport | Judge | DoctorCheck) -> bool:
    return _is_name(part.name)


def _has_readers_name(reader: Reader) -> bool:
    """Tell whether a reader has a name that settings can contain."""
    name = cast("object", reader.name)
    return isinstance(name, str) and bool(_READER_NAME.fullmatch(name)) and name != "none"


def _is_name(text: object) -> bool:
    return isinstance(text, str) and bool(text.strip())


def _is_key(key: str) -> bool:
    return _is_name(key) and key.isprintable() and find_key_fault(key) is None


def _are_names(names: Sequence[str]) -> bool:
    return not isinstance(names, str | bytes) and all(map(_is_name, names))


def _are_forms(lines: Sequence[str]) -> bool:
    """Tell whether each line begins with a scheme that is not a built-in one."""
    return _are_names(lines) and all(map(_is_form, lines))


def _is_form(line: str) -> bool:
    found = _TARGET_FORM.fullmatch(line)
    return found is not None and line.isprintable() and found[1] not in targets.BUILT_IN_SCHEMES


def _are_checks(answers: Sequence[object]) -> bool:
    return not isinstance(answers, str | bytes) and all(map(_is_check, answers))


def _is_check(answer: object) -> bool:
    return isinstance(answer, DoctorCheck) and not inspect.isclass(answer) and _has_name(answer)
