"""The console entry point: relays and daemons start by a short path, the rest by click.

Hosts start `taskmem mcp` once per session, and a daemon must take its home quickly, so these two
import nothing that they do not need. What Python imports by itself must suffice for `main` until
the process is isolated.
"""

from __future__ import annotations

import os
import sys

from taskmem_program import ISOLATION

_HARMLESS = frozenset(
    {
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONFAULTHANDLER",
        "PYTHONHASHSEED",
        "PYTHONNOUSERSITE",
        "PYTHONPYCACHEPREFIX",
        "PYTHONSAFEPATH",
        "PYTHONUNBUFFERED",
    }
)
"""Variables of Python that are common in containers and change nothing that a user sees."""


def main() -> None:
    """Run `taskmem` with the arguments of this process.

    Raises:
        SystemExit: Always: with the command's status, 130 after Ctrl-C, or 1 if the output cannot
            be written, for example because its reader has gone away.
    """
    if not os.environ.get("HOME", "/").startswith("/"):
        del os.environ["HOME"]  # then it is read from the list of users
    _isolate()
    _add_plugin_folders()
    _open_standard_streams()
    try:
        status = _run(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        status = 130
    except BrokenPipeError:
        # The interpreter flushes again at exit, which would raise again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        status = 1
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.write(2, f"The output cannot be written ({error.strerror}).\n".encode())
        status = 1
    finally:
        _ignore_unwritable_stderr()
    raise SystemExit(status)


def _isolate() -> None:
    """Keep the modules and settings that a project has for its own Python out of this process.

    Where a variable of Python would reach us, or file names would not be UTF-8, the process is
    executed once more, with the options that prevent it; the variable stays for the commands that
    we run. Source: docs/trouble.md, "Variables of Python".
    """
    # Names such as PYTHON_KEYRING_BACKEND are of other programs.
    is_reached = not sys.flags.ignore_environment and any(
        name.startswith("PYTHON") and name not in _HARMLESS and name[6:7] != "_" and value
        for name, value in os.environ.items()
    )
    if is_reached or (sys.getfilesystemencoding() != "utf-8" and not sys.flags.utf8_mode):
        kept = ("-B",) if sys.dont_write_bytecode else ()
        try:
            words = [sys.executable, *ISOLATION, *kept, *_read_own_words()]
            os.execv(sys.executable, words)  # noqa: S606 - ourselves
        except (OSError, UnicodeError):
            pass  # a sandbox forbids it, or a word is in no encoding; most variables do no harm
    if not sys.flags.safe_path:
        del sys.path[0]


def _add_plugin_folders() -> None:
    """Append the folders of PYTHONPATH in which plug-ins of ours are installed.

    They come last, so that nothing in them takes the place of what we import.
    """
    for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep):
        if folder and _has_plugins(folder):
            sys.path.append(os.path.realpath(folder))


def _has_plugins(folder: str) -> bool:
    try:
        names = [n for n in os.listdir(folder) if n.endswith(".dist-info")]  # noqa: PTH208
    except OSError:
        return False
    for name in names:
        try:
            with open(f"{folder}/{name}/entry_points.txt", "rb") as file:  # noqa: PTH123
                if b"[openclaw_taskmem" in file.read():
                    return True
        except OSError:
            continue  # it has no entry points
    return False


def _read_own_words() -> list[bytes]:
    """Return the words of this process behind Python, as they were given."""
    try:
        with open("/proc/self/cmdline", "rb") as file:  # noqa: PTH123 - without pathlib
            return file.read().split(b"\0")[1:-1]
    except OSError:
        return [*map(os.fsencode, sys.orig_argv[1:])]


def _open_standard_streams() -> None:
    """Open what of stdin, stdout and stderr is closed, and have any letter be printed.

    A file that is opened later would otherwise get the number of a closed one, and be written to.
    Output is in the locale's encoding; a letter that this lacks is printed as "?".
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    encoding = _find_other_encoding()
    if (reconfigure := getattr(sys.stdout, "reconfigure", None)) is not None:
        reconfigure(encoding=encoding, errors="replace")
    if encoding is not None:
        sys.argv = [_decode_word(word, encoding) for word in sys.argv]
        if (reconfigure := getattr(sys.stderr, "reconfigure", None)) is not None:
            reconfigure(encoding=encoding)


def _find_other_encoding() -> str | None:
    """Return the locale's encoding where it is another than Python's UTF-8 mode assumes; else None.

    In the locale "C", which knows ASCII only, Python prints UTF-8 as well.
    """
    if not sys.flags.utf8_mode:
        return None
    import _locale
    import codecs

    name = _locale.nl_langinfo(_locale.CODESET)
    try:
        known = codecs.lookup(name).name
    except LookupError:
        return None
    return None if known in {"ascii", "utf-8"} else known


def _decode_word(word: str, encoding: str) -> str:
    """Return an argument that is UTF-8, as agents write, or else in the locale's encoding."""
    raw = os.fsencode(word)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode(encoding, "replace")


def _ignore_unwritable_stderr() -> None:
    """Keep a full disk below stderr from changing the exit status, as the interpreter would."""
    try:
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _run(arguments: list[str]) -> int:
    if arguments == ["mcp"]:
        from openclaw_taskmem.cli import relay

        return relay.run_relay(os.environ)
    if arguments == ["hook"]:
        from openclaw_taskmem.cli import hook

        return hook.run_hook(os.environ)
    if arguments == ["daemon"]:
        from openclaw_taskmem.daemon import startup

        return startup.main(os.environ)
    from openclaw_taskmem.cli import command_line

    command_line.main()
    return 0
