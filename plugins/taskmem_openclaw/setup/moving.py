"""Moving into OpenClaw, out again, and back to how it was before."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from taskmem_openclaw.setup import keeping, openclaw, plan
from taskmem_openclaw.setup.edits import (
    Change,
    Put,
    applied,
    at,
    dropped,
    edited,
    items,
    removed,
)
from taskmem_openclaw.setup.edits import Path as Keys
from taskmem_openclaw.setup.keeping import Record, Step
from taskmem_openclaw.setup.openclaw import Failed, OpenClaw, ReadOnly
from taskmem_openclaw.setup.patches import (
    Document,
    is_list,
    is_object,
    patch_between,
    patched,
    same,
    undone,
)

_NAMES: Final = (plan.PLUGIN, plan.BUNDLE)
_ENTRIES: Final[Keys] = ("plugins", "entries")
_OURS: Final[tuple[Keys, ...]] = (
    *((*_ENTRIES, name) for name in _NAMES),
    plan.LOAD,
    plan.ALLOW,
)
"""What installing and uninstalling change too."""
_AROUND: Final[tuple[Keys, ...]] = (_ENTRIES, plan.LOAD[:2], plan.LOAD[:1])
_SECRET: Final = ("env", "headers")
_LEFT: Final = object()
"""In place of what a patch says of what it leaves alone."""


class Shipped(NamedTuple):
    """A folder of ours that OpenClaw can install."""

    name: str
    """Its id in the configuration."""
    folder: Path
    link: bool
    """Whether it is used where it is; otherwise OpenClaw makes a copy."""

    @property
    def fingerprint(self) -> str:
        """What tells one version of it from another."""
        digest = hashlib.sha256()
        for file in sorted(self.folder.rglob("*")):
            if file.is_file():
                digest.update(f"{file.relative_to(self.folder)}\0".encode())
                digest.update(hashlib.sha256(file.read_bytes()).digest())
        return digest.hexdigest()[:16]


class Move(NamedTuple):
    """What would be done to an OpenClaw, worked out before anything is."""

    host: OpenClaw
    record: Record
    now: Document
    """Its configuration as it is."""
    wanted: Document
    """And as it shall be."""
    install: Shipped | None = None
    """What has to be installed, for the first time or again."""
    uninstall: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    """What somebody else has changed since, and what therefore stays as it is."""
    gemini: bool = False
    """Whether a key for Gemini may be used."""

    @property
    def nothing(self) -> bool:
        """Whether everything is as it shall be."""
        still = same(self.now, self.wanted) and self.gemini == self.record.gemini
        return still and self.install is None and not self.uninstall


def moving_in(
    host: OpenClaw,
    record: Record,
    now: Document,
    shipped: Shipped,
    changes: Iterable[Change],
    *,
    gemini: bool,
) -> Move:
    """Work out a set-up."""
    if shipped.link:
        there = str(shipped.folder) in items(at(now, plan.LOAD))
    else:
        there = at(now, (*_ENTRIES, shipped.name, "enabled")) is True
    known = (record.folder, record.fingerprint)
    there = there and known == (str(shipped.folder), shipped.fingerprint)
    wanted = applied(now, changes)
    install = None if there else shipped
    return Move(host, record, now, wanted, install=install, gemini=gemini)


def loads_anew(move: Move) -> bool:
    """Whether a running gateway that has the plug-in loads it anew for this move."""
    return "plugins" in patch_between(move.now, move.wanted)


def move_in(move: Move) -> bool:
    """Set up; tell whether a running gateway took the plug-in up.

    What is to be changed is written down first, so that a set-up that was ended
    half-way can be finished or undone.

    Raises:
        Failed: OpenClaw did not do its part.
        OSError: It cannot be written down.
    """
    host, record, shipped = move.host, move.record, move.install
    before, steps = move.now, record.steps
    if steps and not steps[-1].done:
        before = undone(before, steps[-1].patch, steps[-1].inverse).document
        steps = steps[:-1]
    patch, inverse = (
        patch_between(before, move.wanted),
        patch_between(move.wanted, before),
    )
    if patch or move.gemini != record._replace(steps=steps).gemini:
        steps = (*steps, Step(patch, inverse, done=False, gemini=move.gemini))
    begun = record._replace(steps=steps)
    keeping.save(host.home, begun)
    try:
        live = _carry_out(move)
    except ReadOnly:
        keeping.save(host.home, record)
        if not same(move.now, move.wanted):
            raise
        # Somebody else keeps the configuration, and it is as it shall be.
        live = False
    except Failed:
        if same(host.read(), move.now):
            keeping.save(host.home, record)
        raise
    if shipped is not None:
        folder, fingerprint = str(shipped.folder), shipped.fingerprint
        begun = begun._replace(folder=folder, fingerprint=fingerprint)
    finished = tuple(step._replace(done=True) for step in steps)
    keeping.save(host.home, begun._replace(steps=finished))
    return live


def moving_back(host: OpenClaw, record: Record, now: Document) -> Move:
    """Work out how the last set-up is undone.

    Raises:
        Failed: There is none on record.
    """
    if not record.steps:
        raise Failed(
            f"No set-up of {host.config} is on record, so there is nothing to undo; "
            "--remove takes out whatever there is."
        )
    step, seen = record.steps[-1], now
    for name in _NAMES:
        path = (*_ENTRIES, name)
        if _is_mark(at(now, path)) and at(step.inverse, path) is None:
            seen = removed(seen, path)
    wanted, kept = undone(seen, step.patch, step.inverse)
    gone: list[str] = []
    for name in _NAMES:
        before, after = (_is_in(each, name, record.folder) for each in (now, wanted))
        if before and not after:
            gone.append(name)
            path = (*_ENTRIES, name)
            kept = [each for each in kept if not each.startswith(".".join(path))]
            if at(wanted, (*path, "enabled")) is None:
                wanted = removed(wanted, path)
    return Move(host, record, now, wanted, uninstall=tuple(gone), kept=tuple(kept))


def move_back(move: Move) -> None:
    """Undo a set-up.

    Raises:
        Failed: OpenClaw did not do its part; running it again goes on from there.
        OSError: It cannot be written down.
    """
    _carry_out(move)
    left = move.record._replace(steps=move.record.steps[:-1])
    if move.uninstall:
        left = left._replace(folder="", fingerprint="")
    keeping.save(move.host.home, left)


def moving_out(
    host: OpenClaw, record: Record, now: Document, wishes: plan.Wishes
) -> Move:
    """Work out how every trace is taken out."""
    wanted = now
    for step in reversed(record.steps):
        wanted = undone(wanted, step.patch, step.inverse).document
    wanted = plan.without(wanted, wishes)
    there = {name: at(now, (*_ENTRIES, name)) for name in _NAMES}
    gone = {name for name in there if there[name] and not _is_mark(there[name])}
    if plan.linked(now, wishes):
        gone.add(plan.PLUGIN)
    return Move(host, record, now, wanted, uninstall=tuple(sorted(gone)))


def move_out(move: Move) -> None:
    """Take every trace out.

    Raises:
        Failed: OpenClaw did not do its part; running it again goes on from there.
        OSError: The record cannot be removed.
    """
    _carry_out(move)
    keeping.save(move.host.home, Record(move.record.config))


def commands(move: Move) -> list[str]:
    """Return what would be run, in order."""
    lines = [openclaw.uninstalling(name) for name in move.uninstall]
    if shipped := move.install:
        lines.append(openclaw.installing(str(shipped.folder), link=shipped.link))
    if not same(move.now, move.wanted) or move.uninstall:
        lines.insert(
            0 if _patch_first(move) else len(lines), openclaw.patching("PATCH")
        )
    return [" ".join((move.host.program, *line)) for line in lines]


def difference(move: Move) -> str:
    """Return what would change in the configuration, line by line of the whole of it.

    Values that stay as they are are not shown, nor are those that a server is given by
    its environment: they may be secrets.
    """
    path, patch = str(move.host.config), patch_between(move.now, move.wanted)
    old, new = (
        json.dumps(_shown(each, patch), indent=2, ensure_ascii=False).splitlines()
        for each in (move.now, move.wanted)
    )
    return "\n".join(difflib.unified_diff(old, new, path, path, lineterm=""))


def _carry_out(move: Move) -> bool:
    host, live = move.host, False
    patch = patch_between(move.now, move.wanted)
    if patch and _patch_first(move):
        host.patch(patch)
    for name in move.uninstall:
        host.uninstall(name)
    if shipped := move.install:
        live = host.install(str(shipped.folder), link=shipped.link)
    now = host.read()
    if patch := _still_owed(now, move):
        host.patch(patch)
    return live


def _patch_first(move: Move) -> bool:
    """Whether what is linked is set up before it is installed.

    A running gateway loads it as soon as it is there: it must not begin with another
    home, nor where it was linked from before.
    """
    return move.install is not None and move.install.link


def _still_owed(now: Document, move: Move) -> Document:
    """Return what is left to do after OpenClaw's own work.

    OpenClaw writes more into its configuration than it is asked to; that is its own.
    """
    reached = patched(now, patch_between(move.now, move.wanted))
    for path in _OURS:
        wanted = at(move.wanted, path)
        gone = wanted is None
        reached = dropped(reached, path) if gone else edited(reached, Put(path, wanted))
    for path in _AROUND:
        here, wanted = at(reached, path), at(move.wanted, path)
        if here == {} and wanted is None:
            reached = dropped(reached, path)
        elif here is None and wanted == {}:
            reached = edited(reached, Put(path, wanted))
    return patch_between(now, reached)


def _is_in(config: Document, name: str, folder: str) -> bool:
    if name == plan.PLUGIN:
        return folder in items(at(config, plan.LOAD))
    return at(config, (*_ENTRIES, name, "enabled")) is True


def _is_mark(entry: object) -> bool:
    """Whether an entry is no more than the mark that uninstalling leaves."""
    return same(entry, {"enabled": False})


def _shown(config: Mapping[str, Any], patch: Mapping[str, Any]) -> Document:
    """Return a configuration in which only what a patch touches can be read."""
    parts: Document = {}
    for key, value in config.items():
        change = patch.get(key, _LEFT)
        if change is _LEFT:
            parts[key] = _hidden(value)
        elif is_object(change) and is_object(value):
            parts[key] = _shown(value, change)
        else:
            parts[key] = _masked(value)
    return parts


def _hidden(value: object) -> object:
    if is_object(value):
        return {key: _hidden(below) for key, below in value.items()}
    if is_list(value):
        return [_hidden(each) for each in value]
    return value if isinstance(value, bool) else "…"


def _masked(value: object) -> object:
    if not is_object(value):
        return value
    return {
        key: dict.fromkeys(below, "…")
        if key in _SECRET and is_object(below)
        else _masked(below)
        for key, below in value.items()
    }
