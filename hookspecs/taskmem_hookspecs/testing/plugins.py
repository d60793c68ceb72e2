"""Check a plug-in against the hooks before it is installed (`check_plugin`)."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from types import UnionType
from typing import Any, Final, Union

import pluggy

import taskmem_hookspecs
from taskmem_hookspecs import specs
from taskmem_hookspecs.specs import PROJECT

_HOOKS: Final[dict[str, Callable[..., object]]] = {
    name: item for name, item in vars(specs).items() if hasattr(item, f"{PROJECT}_spec")
}


def check_plugin(module: object) -> None:
    """Compare a plug-in with the hooks and report every mismatch.

    An implementation may leave out arguments and annotations. It may annotate an argument with a
    wider type than the hook's, and its answer with a narrower one.

    Args:
        module: What the entry point names: a module, or any object.

    Raises:
        AssertionError: One line for each mismatch.
    """
    faults = list(_find_faults(module))
    if faults:
        raise AssertionError("\n".join(faults))


def _find_faults(module: object) -> Iterator[str]:
    manager = pluggy.PluginManager(PROJECT)
    marked = False
    for attribute in dir(module):
        options = manager.parse_hookimpl_opts(module, attribute)
        if options is None:
            if attribute in _HOOKS and callable(getattr(module, attribute)):
                yield f"{attribute} has the name of a hook; mark it with @hookimpl."
            continue
        marked = True
        name = options["specname"] or attribute
        if name in _HOOKS:
            wraps = options["wrapper"] or options["hookwrapper"]
            function = getattr(module, attribute)
            yield from _find_kind_faults(name, function, wraps=wraps)
            yield from _find_argument_faults(name, function)
            yield from _find_hint_faults(name, function, wraps=wraps)
        elif not options["optionalhook"]:
            near = get_close_matches(name, _HOOKS, n=1) or sorted(_HOOKS)
            yield f"There is no hook {name}; there is {', '.join(near)}."
    if not marked:
        name = getattr(module, "__name__", type(module).__name__)
        yield f"{name} has no function that is marked with @hookimpl."


def _find_kind_faults(name: str, function: Callable[..., object], *, wraps: bool) -> Iterator[str]:
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        yield (
            f"{name} is async, and nobody would await it; what takes time belongs "
            "into the object that a hook returns."
        )
    elif inspect.isgeneratorfunction(function) and not wraps:
        yield f"{name} yields, and never runs; mark it with @hookimpl(wrapper=True)."
    elif wraps and not inspect.isgeneratorfunction(function):
        yield f"{name} is marked as a wrapper, and does not yield."


def _find_argument_faults(name: str, function: Callable[..., object]) -> Iterator[str]:
    known = inspect.signature(_HOOKS[name]).parameters
    for argument in inspect.signature(function).parameters.values():
        if argument.name not in known:
            takes = ", ".join(known) or "none"
            yield f"{name} has no argument {argument.name}; the hook's are: {takes}."
        elif argument.kind is inspect.Parameter.KEYWORD_ONLY:
            yield f"{name} is called by position; {argument.name} is keyword-only."


def _find_hint_faults(name: str, function: Callable[..., object], *, wraps: bool) -> Iterator[str]:
    ours, theirs = _read_hints(_HOOKS[name]), _read_hints(function)
    answer = ours.pop("return")
    for argument, hint in ours.items():
        if argument in theirs and not _is_compatible(hint, theirs[argument]):
            yield (
                f"{name} is given {_format_hint(hint)} as {argument}, and its annotation "
                f"says {_format_hint(theirs[argument])}."
            )
    if "return" in theirs and not wraps and not _is_compatible(theirs["return"], answer):
        yield (
            f"{name} must answer {_format_hint(answer)}, and its annotation says "
            f"{_format_hint(theirs['return'])}."
        )


def _read_hints(function: Callable[..., object]) -> dict[str, Any]:
    """Return the annotations; empty if they name types that only a type checker sees."""
    plain = inspect.unwrap(function)
    names = {**vars(taskmem_hookspecs), **getattr(plain, "__globals__", {})}
    try:
        return typing.get_type_hints(plain, names)
    except Exception:  # noqa: BLE001 - whatever its author wrote there
        return {}


def _is_compatible(given: object, wanted: object) -> bool:
    """Return True if every value of one type fits the other, or if that is unclear."""
    return all(
        any(_is_member_compatible(one, other) for other in _split_union(wanted))
        for one in _split_union(given)
    )


def _is_member_compatible(given: object, wanted: object) -> bool:
    given, wanted = (typing.get_origin(hint) or hint for hint in (given, wanted))
    if typing.Any in (given, wanted) or not isinstance(given, type):
        return True
    if not isinstance(wanted, type):
        return True
    if getattr(wanted, "_is_protocol", False):
        verbs = (verb for verb, item in vars(wanted).items() if inspect.isfunction(item))
        return all(hasattr(given, verb) for verb in verbs)
    return issubclass(given, wanted)


def _split_union(hint: object) -> Sequence[object]:
    return typing.get_args(hint) if typing.get_origin(hint) in (Union, UnionType) else (hint,)


def _format_hint(hint: object) -> str:
    names = (getattr(member, "__name__", str(member)) for member in _split_union(hint))
    return " | ".join("None" if name == "NoneType" else name for name in names)
