"""Set up and remove in OpenClaw: what is to be done, how, and the record of it."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from taskmem_openclaw.json_values import find_value, is_list, is_object, to_list, to_object
from taskmem_openclaw.setup import openclaw, plan
from taskmem_openclaw.setup.config_edits import (
    ConfigChange,
    Document,
    ListEdit,
    ValueEdit,
    apply_changes,
    apply_edit,
    apply_patch,
    build_patch,
    drop_path,
    is_same_json,
)
from taskmem_openclaw.setup.config_edits import Path as Keys
from taskmem_openclaw.setup.openclaw import (
    ConfigAlone,
    ConfigReadOnly,
    OpenClaw,
    OpenClawSetupFailed,
)
from taskmem_setup import make_setup_folder, write_file

_NAMES: Final = (plan.PLUGIN, plan.BUNDLE)
_ENTRIES: Final[Keys] = ("plugins", "entries")
_OWN_PATHS: Final[tuple[Keys, ...]] = (
    *((*_ENTRIES, name) for name in _NAMES),
    plan.LOAD,
    plan.ALLOW_LIST,
)
"""Paths that installing and uninstalling also change."""
_PARENT_PATHS: Final[tuple[Keys, ...]] = (_ENTRIES, plan.LOAD[:2], plan.LOAD[:1])
"""Their parents, which OpenClaw's commands may add empty or remove when empty."""
_SECRET: Final = ("env", "headers")
_NO_CHANGE: Final = object()
"""Marks a key that the patch does not touch."""


class SetupRecord(NamedTuple):
    """The last set-up of one OpenClaw."""

    config: str
    """Path of its configuration, which identifies the OpenClaw."""
    folder: str = ""
    """Folder of the last installation; empty: there was none."""
    fingerprint: str = ""
    """Fingerprint of that folder at the time; empty: the installation was not finished."""
    gemini: bool = False
    """True if a Gemini key may be used; the Gemini plug-in reads this."""
    bundle_lists: tuple[Keys, ...] = ()
    """Lists of tools that the bundle's word was added to."""


def load_record(home: Path, config: Path) -> SetupRecord:
    """Return the record; an unreadable one counts as empty."""
    empty = SetupRecord(str(config))
    try:
        found: object = json.loads(_find_record_file(home, empty).read_bytes())
    except (OSError, ValueError, RecursionError):
        return empty
    if not is_object(found):
        return empty
    lists = [tuple(map(str, to_list(path))) for path in to_list(found.get("bundle_lists"))]
    lists += _list_old_bundle_lists(found)
    folder, fingerprint = (str(found.get(key) or "") for key in ("folder", "fingerprint"))
    return SetupRecord(str(config), folder, fingerprint, found.get("gemini") is True, tuple(lists))


def _list_old_bundle_lists(record: Mapping[str, Any]) -> Iterator[Keys]:
    """Yield the lists that the bundle's word was added to, by a record of an earlier build.

    Such a record has `steps`, each a patch of the configuration and its inverse.
    """

    def find_lists(patch: object, inverse: object, path: Keys) -> Iterator[Keys]:
        if plan.BUNDLE_TOOLS in to_list(patch) and plan.BUNDLE_TOOLS not in to_list(inverse):
            yield path
        for key, value in to_object(patch).items():
            yield from find_lists(value, to_object(inverse).get(key), (*path, key))

    for step in map(to_object, to_list(record.get("steps"))):
        yield from find_lists(step.get("patch"), step.get("inverse"), ())


def _save_record(home: Path, record: SetupRecord) -> None:
    """Save the record; delete the file if nothing is set up.

    Raises:
        OSError: It cannot be written; the old record is unchanged.
    """
    file = _find_record_file(home, record)
    if record == SetupRecord(record.config):
        file.unlink(missing_ok=True)
        return
    make_setup_folder(home)
    write_file(file, json.dumps(record._asdict(), indent=2).encode())


def _find_record_file(home: Path, record: SetupRecord) -> Path:
    digest = hashlib.sha256(os.fsencode(record.config)).hexdigest()[:12]
    return home / "setup" / f"openclaw-{digest}.json"


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
    after: SetupRecord | None = None
    """The record once it is done; None: nothing is set up then."""

    @property
    def is_noop(self) -> bool:
        """True if there is nothing to do."""
        gemini = self.after is not None and self.after.gemini != self.record.gemini
        changes = gemini or not is_same_json(self.now, self.wanted)
        return not changes and self.install is None and not self.uninstall


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
        linked = map(os.path.realpath, map(str, to_list(find_value(now, plan.LOAD))))
        is_there = os.path.realpath(shipped.folder) in linked
    else:
        is_there = find_value(now, (*_ENTRIES, shipped.name, "enabled")) is True
    after = record._replace(
        folder=str(shipped.folder), fingerprint=shipped.fingerprint, gemini=gemini
    )
    is_there = is_there and after == record._replace(gemini=gemini)
    changes = [*changes]
    lists = [
        edit.path
        for change in changes
        for edit in change.edits
        if isinstance(edit, ListEdit)
        and plan.BUNDLE_TOOLS in edit.added
        and plan.BUNDLE_TOOLS not in to_list(find_value(now, edit.path))
    ]
    after = after._replace(bundle_lists=(*record.bundle_lists, *lists))
    wanted = apply_changes(now, changes)
    install = None if is_there else shipped
    return SetupPlan(host, record, now, wanted, install=install, after=after)


def needs_reload(move: SetupPlan) -> bool:
    """Return whether a running gateway must reload the plug-in for this plan."""
    return "plugins" in build_patch(move.now, move.wanted)


def apply_setup(move: SetupPlan) -> bool:
    """Run a set-up plan; return whether a running gateway has taken up the plug-in.

    The record is written first, so that an interrupted set-up can be finished or removed.

    Raises:
        OpenClawSetupFailed: OpenClaw's command failed.
        OSError: The record cannot be written.
    """
    host, record, after = move.host, move.record, move.after or move.record
    begun = after if move.install is None else after._replace(fingerprint="")
    _save_record(host.home, begun)
    try:
        live = _run_plan(move)
    except OpenClawSetupFailed as error:
        if isinstance(error, ConfigReadOnly) and is_same_json(move.now, move.wanted):
            live = False  # managed elsewhere, and as desired already
        else:
            if isinstance(error, ConfigReadOnly) or is_same_json(host.read(), move.now):
                _save_record(host.home, record)
            raise
    _save_record(host.home, after)
    return live


def is_unfinished(move: SetupPlan) -> bool:
    """Return whether an installation was begun and not finished, by the record."""
    record = load_record(move.host.home, move.host.config)
    return record.folder != "" and record.fingerprint == ""


def plan_removal(
    host: OpenClaw, record: SetupRecord, now: Document, wishes: plan.DesiredState
) -> SetupPlan:
    """Plan the removal of every trace."""
    wanted = plan.remove_traces(now, wishes, record.bundle_lists)
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
    _save_record(move.host.home, SetupRecord(move.record.config))


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
    for path in _OWN_PATHS:
        wanted = find_value(move.wanted, path)
        gone = wanted is None
        reached = drop_path(reached, path) if gone else apply_edit(reached, ValueEdit(path, wanted))
    for path in _PARENT_PATHS:
        here, wanted = find_value(reached, path), find_value(move.wanted, path)
        if here == {} and wanted is None:
            reached = drop_path(reached, path)
        elif here is None and wanted == {}:
            reached = apply_edit(reached, ValueEdit(path, wanted))
    return build_patch(now, reached)


def _is_uninstall_leftover(entry: object) -> bool:
    """Return whether an entry is only the mark that uninstalling leaves."""
    return is_same_json(entry, {"enabled": False})


def _mask_untouched(config: Mapping[str, Any], patch: Mapping[str, Any]) -> Document:
    """Mask every value that the patch does not change."""
    parts: Document = {}
    for key, value in config.items():
        change = patch.get(key, _NO_CHANGE)
        if change is _NO_CHANGE:
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
