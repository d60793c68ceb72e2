"""Run OpenClaw's command for set-up.

A call takes 2 to 20 seconds, nearly all of it start-up, so there are few calls. Output is shown
only on failure: its last words, on one line.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final, NamedTuple

from taskmem_openclaw.configuration import parse_json
from taskmem_openclaw.json_values import is_object
from taskmem_openclaw.setup.config_edits import Document, apply_patch
from taskmem_setup import make_setup_folder, write_file

OLDEST_VERSION: Final = (2026, 9)
"""The first version whose plug-in interface has everything that the plug-in uses."""
CALL_SECONDS: Final = 300.0
"""Time limit of one call, after which it is killed. Seconds."""

_SECTIONS: Final = ("plugins", "tools", "agents", "mcp")
_UNTRACKED_NOTE: Final = "not associated with a tracked package install"
_UNSET_NOTE: Final = "is valid but unset"
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


class ConfigReadOnly(OpenClawSetupFailed):
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

        If a section of `_SECTIONS` has includes, only these sections, with their includes.

        Raises:
            OpenClawSetupFailed: The configuration cannot be read.
        """
        found = self.read_file()
        if has_includes(found):
            return {name: self._read_section(name) for name in _SECTIONS}
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
        with self.at_work("openclaw plugins install"):
            answer = self._run(build_install_arguments(folder, link=link))
        return "Applied in Gateway" in answer.output

    def patch(self, patch: Mapping[str, Any]) -> None:
        """Apply a merge patch to the configuration.

        Raises:
            OpenClawSetupFailed: OpenClaw's command failed.
        """
        file = make_setup_folder(self.home) / "patch.json"
        try:
            write_file(file, json.dumps(patch, indent=2).encode())
            with self.at_work("openclaw config patch"):
                self._run(build_patch_arguments(str(file)))
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
            return ConfigReadOnly(
                "OpenClaw's configuration is read-only here "
                "(OPENCLAW_CONFIG_READONLY or Nix); put what --dry-run shows into the "
                "source that it is made from, and run this again."
            )
        if "config is invalid" in output:
            found = re.search(r"^\s+- (.+)$", output, re.MULTILINE)
            return OpenClawSetupFailed(_describe_broken(self.config, found[1] if found else None))
        if "ENOSPC" in output or "no space left" in output.lower():
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
    if (int(found[1]), int(found[2])) < OLDEST_VERSION:
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


def build_install_arguments(folder: str, *, link: bool) -> tuple[str, ...]:
    """Return the arguments that install a plug-in from a folder.

    `--force` confirms the source, and `--accept-capabilities` what the person agreed to by running
    set-up; OpenClaw asks for both, and without a terminal nobody could answer.
    """
    how = ("--link", folder) if link else (folder,)
    return ("plugins", "install", *how, "--force", "--accept-capabilities")


def build_uninstall_arguments(name: str) -> tuple[str, ...]:
    """Return the arguments that uninstall a plug-in."""
    return ("plugins", "uninstall", name, "--force")


def build_patch_arguments(file: str) -> tuple[str, ...]:
    """Return the arguments that patch the configuration from a file."""
    return ("config", "patch", "--file", file)


def _format_output_tail(output: str) -> str:
    """Return the end of a command's output, on one line without control characters."""
    words = " ".join(output.split())
    safe = "".join(each if each.isprintable() else " " for each in words).strip(" .")
    return f"…{safe[-_MOST_SHOWN:]}" if len(safe) > _MOST_SHOWN else safe or "no word"


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


def has_includes(config: Document) -> bool:
    """Return whether a section of `_SECTIONS` has parts in other files."""
    parts = [config.get(name) for name in _SECTIONS]
    return "$include" in config or '"$include":' in json.dumps(parts)


def _describe_broken(config: Path, problem: str | None = None) -> str:
    reason = f" ({_format_output_tail(problem)})" if problem else ""
    return (
        f"OpenClaw's configuration {config} is not valid{reason}; run openclaw doctor "
        "--fix, then this again."
    )


def _describe_error(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
