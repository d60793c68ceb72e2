"""Set up and remove in OpenClaw: run its command, apply what is planned, and record it.

A call of the command takes 2 to 20 seconds, nearly all of it start-up, so there are few calls.
Output is shown only on failure: its last words, on one line.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final, NamedTuple

from taskmem_openclaw.configuration import has_includes, parse_json
from taskmem_openclaw.json_values import find_value, is_list, is_object, to_list, to_object
from taskmem_openclaw.setup import plan
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
from taskmem_setup import SetupRunning, mark_running, write_file

OLDEST_VERSION: Final = (2026, 9, 6)
"""The version with which the plug-in is tested; an older one may lack what it uses."""
CALL_SECONDS: Final = 300.0
"""Time limit of one call, after which it is killed. Seconds."""

SECTIONS: Final = ("plugins", "tools", "agents", "mcp")
_UNTRACKED_NOTE: Final = "not associated with a tracked package install"
_UNSET_NOTE: Final = "is valid but unset"
_BUSY_NOTE: Final = "still has active retained work"
"""Words of the command where a turn that runs in the gateway uses the plug-in (2026.9.6)."""
_INSTALL_TRIES: Final = 4
INSTALL_REST_SECONDS: Final = 15.0
_APPLIED_NOTE: Final = "Applied in Gateway"
_MOST_SHOWN: Final = 300


class _CommandResult(NamedTuple):
    status: int
    out: str
    output: str
    """Standard output and standard error."""


_AtWork = Callable[[str], AbstractContextManager[object]]
"""Shows a person that a step is running; its argument is the step's name."""


class OpenClawSetupFailed(Exception):
    """A step failed; `str()` says why, and what to do next."""


class OpenClawMissing(OpenClawSetupFailed):
    """OpenClaw's command cannot be started."""


class _ConfigReadOnly(OpenClawSetupFailed):
    """The configuration is managed elsewhere and read-only here."""


class OpenClaw(NamedTuple):
    """An installed OpenClaw and its configuration."""

    program: str
    version: str
    config: Path
    home: Path
    """Our state folder."""
    environ: Mapping[str, str]
    at_work: _AtWork = nullcontext

    def read(self) -> Document:
        """Return the configuration as it is written.

        If a section of `SECTIONS` has includes, only these sections, with their includes.

        Raises:
            OpenClawSetupFailed: The configuration cannot be read.
        """
        found = self.read_file()
        if has_includes(found, SECTIONS):
            return {name: self._read_section(name) for name in SECTIONS}
        return found

    def read_file(self) -> Document:
        """Return the configuration's own file, without what it includes.

        Raises:
            OpenClawSetupFailed: It cannot be read.
        """
        try:
            text = self.config.read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError) as error:
            raise OpenClawSetupFailed(
                f"OpenClaw's configuration {self.config} cannot be read "
                f"({_describe_error(error)}); see whose file that is."
            ) from error
        found = parse_json(text)
        if not is_object(found):
            raise OpenClawSetupFailed(_describe_broken(self.config))
        return found

    @property
    def is_plain_json(self) -> bool:
        """True if the configuration is plain JSON, so that rewriting it loses no comments."""
        try:
            json.loads(self.config.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return True
        except (OSError, ValueError, RecursionError):
            return False
        return True

    def install(self, folder: str, *, link: bool) -> bool:
        """Install a plug-in from its folder; return whether a running gateway took it up.

        Raises:
            OpenClawSetupFailed: OpenClaw's command failed.
        """
        arguments = _build_install_arguments(folder, link=link)
        for _ in range(_INSTALL_TRIES - 1):
            with self.at_work("openclaw plugins install"):
                answer = self._run(arguments, fine=_BUSY_NOTE)
            if answer.status == 0:
                return _APPLIED_NOTE in answer.output
            with self.at_work("a turn that uses the plug-in is running; a rest, then once more"):
                time.sleep(INSTALL_REST_SECONDS)
        with self.at_work("openclaw plugins install"):
            return _APPLIED_NOTE in self._run(arguments).output

    def patch(self, patch: Mapping[str, Any]) -> None:
        """Apply a merge patch to the configuration.

        Raises:
            OpenClawSetupFailed: OpenClaw's command failed.
        """
        file = _make_setup_folder(self.home) / "patch.json"
        try:
            write_file(file, json.dumps(patch, indent=2).encode())
            with self.at_work("openclaw config patch"):
                self._run(_build_patch_arguments(str(file)))
        finally:
            file.unlink(missing_ok=True)

    def uninstall(self, name: str) -> None:
        """Uninstall a plug-in; a missing one is no error.

        Raises:
            OpenClawSetupFailed: OpenClaw's command failed.
        """
        with self.at_work("openclaw plugins uninstall"):
            self._run(build_uninstall_arguments(name), fine=_UNTRACKED_NOTE)

    def _read_section(self, name: str) -> object:
        """Return one section of the configuration, with its includes."""
        answer = self._run(("config", "get", name, "--json"), fine=_UNSET_NOTE)
        found = parse_json(answer.out) if answer.status == 0 else None
        return found if is_object(found) else {}

    def _run(self, arguments: tuple[str, ...], fine: str | None = None) -> _CommandResult:
        """Run OpenClaw; a failure whose output contains `fine` is ignored."""
        answer = _run_program(self.program, arguments, self.environ)
        if answer.status != 0 and not (fine and fine in answer.output):
            raise self._build_failure(arguments, answer)
        return answer

    def _build_failure(
        self, arguments: tuple[str, ...], answer: _CommandResult
    ) -> OpenClawSetupFailed:
        output = answer.output
        if "OpenClaw treats openclaw.json as immutable" in output:
            return _ConfigReadOnly(
                "OpenClaw's configuration is read-only here "
                "(OPENCLAW_CONFIG_READONLY or Nix); put what --dry-run shows into the "
                "source that it is made from, and run this again."
            )
        if "config is invalid" in output:
            found = re.search(r"^\s+- (.+)$", output, re.MULTILINE)
            return OpenClawSetupFailed(_describe_broken(self.config, found[1] if found else None))
        if "ENOSPC" in output or "EDQUOT" in output:
            return OpenClawSetupFailed(
                f"The disk of {self.config.parent} is full; make room and run this again."
            )
        what = " ".join(arguments[:2])
        return OpenClawSetupFailed(
            f"{self.program} {what} ended with status {answer.status}: "
            f"{_format_output_tail(output)}. Run it by hand to see more, then run this again."
        )


class ConfigAlone(OpenClaw):
    """The configuration of an OpenClaw whose command is gone; ours is taken out of its file."""

    def read(self) -> Document:
        """Return the file alone, since only the command can read what it includes."""
        return self.read_file()

    def patch(self, patch: Mapping[str, Any]) -> None:
        """Apply a merge patch to the file.

        Raises:
            OpenClawSetupFailed: The file has comments, which would be lost.
            OSError: It cannot be written.
        """
        if not self.is_plain_json:
            raise OpenClawSetupFailed(
                f"{self.config} is no plain JSON, and only OpenClaw's command may change it. Take "
                "out by hand what the same command shows with --dry-run, then run it again."
            )
        text = json.dumps(apply_patch(self.read(), patch), indent=2, ensure_ascii=False)
        write_file(self.config, f"{text}\n".encode())

    def uninstall(self, name: str) -> None:
        """Leave what only the command knows; the file's entries are patched."""


def find_openclaw(environ: Mapping[str, str], home: Path) -> OpenClaw:
    """Find OpenClaw's command and configuration.

    Raises:
        OpenClawSetupFailed: It is missing, too old, or does not answer.
    """
    program = environ.get("TASKMEM_OPENCLAW_BIN") or "openclaw"
    answer = _run_program(program, ("--version",), environ)
    found = re.search(r"\b(\d{4})\.(\d+)\.(\d+)\b", answer.out)
    if answer.status != 0 or found is None:
        raise OpenClawSetupFailed(
            f"{program} --version told no version (status {answer.status}: "
            f"{_format_output_tail(answer.output)}). Set TASKMEM_OPENCLAW_BIN to "
            "OpenClaw's command."
        )
    if tuple(map(int, found.groups())) < OLDEST_VERSION:
        oldest = ".".join(map(str, OLDEST_VERSION))
        raise OpenClawSetupFailed(
            f"OpenClaw {found[0]} is too old; update it to {oldest} or newer and run this again."
        )
    answer = _run_program(program, ("config", "file", "--json"), environ)
    parsed = parse_json(answer.out) if answer.status == 0 else None
    path = parsed.get("path") if is_object(parsed) else None
    if not isinstance(path, str):
        raise OpenClawSetupFailed(
            f"{program} does not say where its configuration is "
            f"({_format_output_tail(answer.output)}); see that openclaw config file works."
        )
    return OpenClaw(program, found[0], Path(path), home, environ)


def _build_install_arguments(folder: str, *, link: bool) -> tuple[str, ...]:
    """Return the arguments that install a plug-in from a folder.

    `--force` confirms the source, and `--accept-capabilities` what the person agreed to by running
    set-up; OpenClaw asks for both, and without a terminal nobody could answer.
    """
    how = ("--link", folder) if link else (folder,)
    return ("plugins", "install", *how, "--force", "--accept-capabilities")


def build_uninstall_arguments(name: str) -> tuple[str, ...]:
    """Return the arguments that uninstall a plug-in."""
    return ("plugins", "uninstall", name, "--force")


def _build_patch_arguments(file: str) -> tuple[str, ...]:
    """Return the arguments that patch the configuration from a file."""
    return ("config", "patch", "--file", file)


def _format_output_tail(output: str) -> str:
    """Return the end of a command's output, on one line without control characters."""
    words = " ".join(output.split())
    safe = "".join(each if each.isprintable() else " " for each in words).strip(" .")
    if len(safe) <= _MOST_SHOWN:
        return safe or "no word"
    end = safe[-_MOST_SHOWN:]
    return f"… {end.partition(' ')[2] or end}"


def _run_program(
    program: str, arguments: tuple[str, ...], environ: Mapping[str, str]
) -> _CommandResult:
    kept = {k: v for k, v in environ.items() if k != "TASKMEM_DATABASE_URL"}
    try:
        process = subprocess.Popen(  # noqa: S603 - the operator's own command
            (program, *arguments),
            env={**kept, "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        raise (OpenClawMissing if missing else OpenClawSetupFailed)(
            f"{program} cannot be started ({_describe_error(error)}); install OpenClaw (npm "
            "install -g openclaw), or set TASKMEM_OPENCLAW_BIN to its command."
        ) from error
    with process:
        try:
            out, complaints = process.communicate(timeout=CALL_SECONDS)
        except subprocess.TimeoutExpired:
            _kill_process(process)
            raise OpenClawSetupFailed(
                f"{program} {' '.join(arguments[:2])} gave no answer within "
                f"{CALL_SECONDS:g} s and was ended; see that the gateway is well, and run "
                "this again."
            ) from None
        except BaseException:
            _kill_process(process)
            raise
    text = out.decode(errors="replace")
    output = f"{text}\n{complaints.decode(errors='replace')}"
    return _CommandResult(process.returncode, text, output)


def _kill_process(process: subprocess.Popen[bytes]) -> None:
    """Kill the command's process group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _describe_broken(config: Path, problem: str | None = None) -> str:
    reason = f" ({_format_output_tail(problem)})" if problem else ""
    return (
        f"OpenClaw's configuration {config} is not valid{reason}; run openclaw doctor "
        "--fix, then this again."
    )


def _describe_error(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


# --- applying a plan -----------------------------------------------------------------------


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
_MARK: Final = {"enabled": False}
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
    _make_setup_folder(home)
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
        OpenClawSetupFailed: OpenClaw's command failed, or another set-up is at work.
        OSError: The record cannot be written.
    """
    host, record, after = move.host, move.record, move.after or move.record
    begun = after if move.install is None else after._replace(fingerprint="")
    _make_setup_folder(host.home)
    with _mark_running(host):
        _save_record(host.home, begun)
        try:
            live = _run_plan(move)
        except OpenClawSetupFailed as error:
            if isinstance(error, _ConfigReadOnly) and is_same_json(move.now, move.wanted):
                live = False  # managed elsewhere, and as desired already
            else:
                if isinstance(error, _ConfigReadOnly) or is_same_json(host.read(), move.now):
                    _save_record(host.home, record)
                raise
        _save_record(host.home, after)
        return live


@contextmanager
def _mark_running(host: OpenClaw) -> Generator[None]:
    """Mark the home, so that its daemon wakes no agent while OpenClaw loads the plug-in.

    Raises:
        OpenClawSetupFailed: Another set-up is at work.
    """
    try:
        with mark_running(host.home):
            yield
    except SetupRunning:
        raise OpenClawSetupFailed(
            f"Another set-up is at work in {host.home}; wait for its end, then run this again."
        ) from None


def is_unfinished(move: SetupPlan) -> bool:
    """Return whether an installation was begun and not finished, by the record."""
    record = load_record(move.host.home, move.host.config)
    return record.folder != "" and record.fingerprint == ""


def plan_removal(
    host: OpenClaw, record: SetupRecord, now: Document, desired: plan.DesiredState
) -> SetupPlan:
    """Plan the removal of every trace."""
    wanted = plan.remove_traces(now, desired, record.bundle_lists)
    there = {name: find_value(now, (*_ENTRIES, name)) for name in _NAMES}
    # Uninstalling leaves a mark, which is no trace.
    gone = {name for name in there if there[name] and not is_same_json(there[name], _MARK)}
    if plan.list_plugin_paths(now, desired):
        gone.add(plan.PLUGIN)
    return SetupPlan(host, record, now, wanted, uninstall=tuple(sorted(gone)))


def apply_removal(move: SetupPlan) -> None:
    """Run a removal plan.

    Raises:
        OpenClawSetupFailed: OpenClaw's command failed; running it again continues.
        OSError: The record cannot be removed.
    """
    with _mark_running(move.host):
        _run_plan(move)
    _save_record(move.host.home, SetupRecord(move.record.config))


def list_commands(move: SetupPlan) -> list[str]:
    """Return the commands that would be run, in order; where there is no command, none."""
    if isinstance(move.host, ConfigAlone):
        return []
    lines = [build_uninstall_arguments(name) for name in move.uninstall]
    if shipped := move.install:
        lines.append(_build_install_arguments(str(shipped.folder), link=shipped.link))
    if not is_same_json(move.now, move.wanted) or move.uninstall:
        lines.insert(0 if _needs_patch_first(move) else len(lines), _build_patch_arguments("PATCH"))
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
    return "\n".join(difflib.unified_diff(old, new, f"{path}, now", f"{path}, then", lineterm=""))


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


def _make_setup_folder(home: Path) -> Path:
    """Create the folder of setup records, accessible to its owner only.

    Raises:
        OSError: It cannot be created.
    """
    place = home / "setup"
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    place.mkdir(mode=0o700, exist_ok=True)
    return place
