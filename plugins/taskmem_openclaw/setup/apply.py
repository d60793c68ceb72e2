"""Plan and run set-up, undo and removal in OpenClaw."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from taskmem_openclaw.setup import openclaw, plan, setup_record
from taskmem_openclaw.setup.edits import (
    ConfigChange,
    ValueEdit,
    apply_changes,
    apply_edit,
    drop_path,
    find_value,
    remove_path,
    to_list,
)
from taskmem_openclaw.setup.edits import Path as Keys
from taskmem_openclaw.setup.merge_patches import (
    Document,
    apply_patch,
    build_patch,
    is_list,
    is_object,
    is_same_json,
    undo_patch,
)
from taskmem_openclaw.setup.openclaw import (
    ConfigAlone,
    ConfigReadOnly,
    OpenClaw,
    OpenClawSetupFailed,
)
from taskmem_openclaw.setup.setup_record import SetupRecord, SetupStep

_NAMES: Final = (plan.PLUGIN, plan.BUNDLE)
_ENTRIES: Final[Keys] = ("plugins", "entries")
_OURS: Final[tuple[Keys, ...]] = (*((*_ENTRIES, name) for name in _NAMES), plan.LOAD, plan.ALLOW)
"""Paths that installing and uninstalling also change."""
_AROUND: Final[tuple[Keys, ...]] = (_ENTRIES, plan.LOAD[:2], plan.LOAD[:1])
"""Their parents, which OpenClaw's commands may add empty or remove when empty."""
_SECRET: Final = ("env", "headers")
_LEFT: Final = object()
"""Marks a key that the patch does not touch."""


class ShippedPackage(NamedTuple):
    """A folder of this package that OpenClaw can install."""

    name: str
    """Its id in OpenClaw's configuration."""
    folder: Path
    link: bool
    """True: OpenClaw uses the folder in place. False: it copies the folder."""

    @property
    def fingerprint(self) -> str:
        """Hash of the folder's files; it differs between versions."""
        digest = hashlib.sha256()
        for file in sorted(self.folder.rglob("*")):
            if file.is_file():
                digest.update(f"{file.relative_to(self.folder)}\0".encode())
                digest.update(hashlib.sha256(file.read_bytes()).digest())
        return digest.hexdigest()[:16]


class SetupPlan(NamedTuple):
    """Everything that would be done to an OpenClaw."""

    host: OpenClaw
    record: SetupRecord
    now: Document
    """The current configuration."""
    wanted: Document
    """The desired configuration."""
    install: ShippedPackage | None = None
    """The package to install or reinstall; None: nothing to install."""
    uninstall: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    """Paths changed by others since set-up, which stay as they are."""
    gemini: bool = False
    """Whether a Gemini key may be used."""

    @property
    def is_noop(self) -> bool:
        """Whether there is nothing to do."""
        still = is_same_json(self.now, self.wanted) and self.gemini == self.record.gemini
        return still and self.install is None and not self.uninstall


def plan_setup(
    host: OpenClaw,
    record: SetupRecord,
    now: Document,
    shipped: ShippedPackage,
    changes: Iterable[ConfigChange],
    *,
    gemini: bool,
) -> SetupPlan:
    """Plan a set-up."""
    if shipped.link:
        there = str(shipped.folder) in to_list(find_value(now, plan.LOAD))
    else:
        there = find_value(now, (*_ENTRIES, shipped.name, "enabled")) is True
    known = (record.folder, record.fingerprint)
    there = there and known == (str(shipped.folder), shipped.fingerprint)
    wanted = apply_changes(now, changes)
    install = None if there else shipped
    return SetupPlan(host, record, now, wanted, install=install, gemini=gemini)


def needs_reload(move: SetupPlan) -> bool:
    """Return whether a running gateway must reload the plug-in for this plan."""
    return "plugins" in build_patch(move.now, move.wanted)


def apply_setup(move: SetupPlan) -> bool:
    """Run a set-up plan; return whether a running gateway has taken up the plug-in.

    The change is recorded first, so that an interrupted set-up can be finished or undone.

    Raises:
        OpenClawSetupFailed: OpenClaw's command failed.
        OSError: The record cannot be written.
    """
    host, record, shipped = move.host, move.record, move.install
    before, steps = move.now, record.steps
    if steps and not steps[-1].done:
        before = undo_patch(before, steps[-1].patch, steps[-1].inverse).document
        steps = steps[:-1]
    patch, inverse = (build_patch(before, move.wanted), build_patch(move.wanted, before))
    if patch or move.gemini != record._replace(steps=steps).gemini:
        steps = (*steps, SetupStep(patch, inverse, done=False, gemini=move.gemini))
    begun = record._replace(steps=steps)
    setup_record.save_record(host.home, begun)
    try:
        live = _run_plan(move)
    except ConfigReadOnly:
        setup_record.save_record(host.home, record)
        if not is_same_json(move.now, move.wanted):
            raise
        # The configuration is managed elsewhere and already as desired.
        live = False
    except OpenClawSetupFailed:
        if is_same_json(host.read(), move.now):
            setup_record.save_record(host.home, record)
        raise
    if shipped is not None:
        folder, fingerprint = str(shipped.folder), shipped.fingerprint
        begun = begun._replace(folder=folder, fingerprint=fingerprint)
    finished = tuple(step._replace(done=True) for step in steps)
    setup_record.save_record(host.home, begun._replace(steps=finished))
    return live


def plan_undo(host: OpenClaw, record: SetupRecord, now: Document) -> SetupPlan:
    """Plan the undo of the last set-up.

    Raises:
        OpenClawSetupFailed: No set-up is on record.
    """
    if not record.steps:
        raise OpenClawSetupFailed(
            f"No set-up of {host.config} is on record, so there is nothing to undo; "
            "--remove takes out whatever there is."
        )
    step, seen = record.steps[-1], now
    for name in _NAMES:
        path = (*_ENTRIES, name)
        if _is_uninstall_leftover(find_value(now, path)) and find_value(step.inverse, path) is None:
            seen = remove_path(seen, path)
    wanted, kept = undo_patch(seen, step.patch, step.inverse)
    gone: list[str] = []
    for name in _NAMES:
        before, after = (_is_installed(each, name, record.folder) for each in (now, wanted))
        if before and not after:
            gone.append(name)
            path = (*_ENTRIES, name)
            kept = [each for each in kept if not each.startswith(".".join(path))]
            if find_value(wanted, (*path, "enabled")) is None:
                wanted = remove_path(wanted, path)
    return SetupPlan(host, record, now, wanted, uninstall=tuple(gone), kept=tuple(kept))


def apply_undo(move: SetupPlan) -> None:
    """Run an undo plan.

    Raises:
        OpenClawSetupFailed: OpenClaw's command failed; running it again continues.
        OSError: The record cannot be written.
    """
    _run_plan(move)
    left = move.record._replace(steps=move.record.steps[:-1])
    if move.uninstall:
        left = left._replace(folder="", fingerprint="")
    setup_record.save_record(move.host.home, left)


def plan_removal(
    host: OpenClaw, record: SetupRecord, now: Document, wishes: plan.DesiredState
) -> SetupPlan:
    """Plan the removal of every trace."""
    wanted = now
    for step in reversed(record.steps):
        wanted = undo_patch(wanted, step.patch, step.inverse).document
    wanted = plan.remove_traces(wanted, wishes)
    there = {name: find_value(now, (*_ENTRIES, name)) for name in _NAMES}
    gone = {name for name in there if there[name] and not _is_uninstall_leftover(there[name])}
    if plan.list_plugin_paths(now, wishes):
        gone.add(plan.PLUGIN)
    return SetupPlan(host, record, now, wanted, uninstall=tuple(sorted(gone)))


def apply_removal(move: SetupPlan) -> None:
    """Run a removal plan.

    Raises:
        OpenClawSetupFailed: OpenClaw's command failed; running it again continues.
        OSError: The record cannot be removed.
    """
    _run_plan(move)
    setup_record.save_record(move.host.home, SetupRecord(move.record.config))


def list_commands(move: SetupPlan) -> list[str]:
    """Return the commands that would be run, in order; where there is no command, none."""
    if isinstance(move.host, ConfigAlone):
        return []
    lines = [openclaw.build_uninstall_arguments(name) for name in move.uninstall]
    if shipped := move.install:
        lines.append(openclaw.build_install_arguments(str(shipped.folder), link=shipped.link))
    if not is_same_json(move.now, move.wanted) or move.uninstall:
        lines.insert(
            0 if _needs_patch_first(move) else len(lines), openclaw.build_patch_arguments("PATCH")
        )
    return [" ".join((move.host.program, *line)) for line in lines]


def format_difference(move: SetupPlan) -> str:
    """Return a unified diff of the whole configuration, before and after.

    Unchanged values and the values of `env` and `headers` are masked: they may be secrets.
    """
    path, patch = str(move.host.config), build_patch(move.now, move.wanted)
    old, new = (
        json.dumps(_mask_untouched(each, patch), indent=2, ensure_ascii=False).splitlines()
        for each in (move.now, move.wanted)
    )
    return "\n".join(difflib.unified_diff(old, new, path, path, lineterm=""))


def _run_plan(move: SetupPlan) -> bool:
    host, live = move.host, False
    patch = build_patch(move.now, move.wanted)
    if patch and _needs_patch_first(move):
        host.patch(patch)
    for name in move.uninstall:
        host.uninstall(name)
    if shipped := move.install:
        live = host.install(str(shipped.folder), link=shipped.link)
    now = host.read()
    if patch := _find_remaining_patch(now, move):
        host.patch(patch)
    return live


def _needs_patch_first(move: SetupPlan) -> bool:
    """Return whether the configuration must be patched before the plug-in is linked.

    A running gateway loads a linked plug-in at once; it must not start with another home or from
    the old folder.
    """
    return move.install is not None and move.install.link


def _find_remaining_patch(now: Document, move: SetupPlan) -> Document:
    """Return the patch that is left to do after OpenClaw's own commands.

    Other values that OpenClaw adds to its configuration are left alone.
    """
    reached = apply_patch(now, build_patch(move.now, move.wanted))
    for path in _OURS:
        wanted = find_value(move.wanted, path)
        gone = wanted is None
        reached = drop_path(reached, path) if gone else apply_edit(reached, ValueEdit(path, wanted))
    for path in _AROUND:
        here, wanted = find_value(reached, path), find_value(move.wanted, path)
        if here == {} and wanted is None:
            reached = drop_path(reached, path)
        elif here is None and wanted == {}:
            reached = apply_edit(reached, ValueEdit(path, wanted))
    return build_patch(now, reached)


def _is_installed(config: Document, name: str, folder: str) -> bool:
    if name == plan.PLUGIN:
        return folder in to_list(find_value(config, plan.LOAD))
    return find_value(config, (*_ENTRIES, name, "enabled")) is True


def _is_uninstall_leftover(entry: object) -> bool:
    """Return whether an entry is only the mark that uninstalling leaves."""
    return is_same_json(entry, {"enabled": False})


def _mask_untouched(config: Mapping[str, Any], patch: Mapping[str, Any]) -> Document:
    """Mask every value that the patch does not change."""
    parts: Document = {}
    for key, value in config.items():
        change = patch.get(key, _LEFT)
        if change is _LEFT:
            parts[key] = _hide_values(value)
        elif is_object(change) and is_object(value):
            parts[key] = _mask_untouched(value, change)
        else:
            parts[key] = _mask_secrets(value)
    return parts


def _hide_values(value: object) -> object:
    if is_object(value):
        return {key: _hide_values(below) for key, below in value.items()}
    if is_list(value):
        return [_hide_values(each) for each in value]
    return value if isinstance(value, bool) else "…"


def _mask_secrets(value: object) -> object:
    if not is_object(value):
        return value
    return {
        key: dict.fromkeys(below, "…")
        if key in _SECRET and is_object(below)
        else _mask_secrets(below)
        for key, below in value.items()
    }
